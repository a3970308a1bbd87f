"""The digest of a recording: SHA-256 of a canonical text of everything that an emission could depend on."""

import hashlib
import json
import struct
from typing import Any

from presk_db.kernels.launches import LaunchOrder, View
from presk_db.recording.events import Recording


def recording_digest(recording: Recording, views: dict[View, int]) -> str:
    """The digest, in hexadecimal: the same for two recordings of one spec.

    Left out are what differs from run to run or from machine to machine: the name, times, the weights' path. `views`
    numbers the distinct views in order of first use.
    """
    reference = recording.weights
    tensors = sorted([t.role, t.buffer, t.name, t.type, t.shape, t.digest] for t in recording.tensors)
    parts: dict[str, Any] = {
        "format": "presk recording 1",
        "entry": recording.entry,
        "family": recording.family,
        "spec": recording.spec,
        "graph": recording.graph,
        "weights": [reference.kind, reference.seed, reference.digest],
        "tensors": tensors,
        "order": order_lists(recording.order, views),
        **({"plan": sorted([p.kernel, p.schedule.text] for p in recording.plan)} if recording.plan else {}),
        **({"tokenizer": recording.tokenizer.digest} if recording.tokenizer is not None else {}),
    }
    text = json.dumps(parts, ensure_ascii=True, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def order_lists(order: LaunchOrder, views: dict[View, int]) -> dict[str, Any]:
    """A launch order as lists of plain values, kernels by their digests."""
    return {
        "functions": [[f.name, f.source] for f in order.functions],
        "calls": [[c.parent, c.function, c.label, c.fold, c.iteration] for c in order.calls],
        "folds": [[f.call, f.function, f.label, f.length, f.descending] for f in order.folds],
        "buffers": [[b.role, b.name, b.type, b.shape, b.limit, *(["given"] * b.given)] for b in order.buffers],
        "parts": [
            [p.buffer, p.offset, p.tensor, p.shape, p.transposed, float_bits(p.low), float_bits(p.high)]
            for p in order.weights
        ],
        "views": [[v.buffer, v.offset, v.shape] for v in views],
        "launches": [
            [x.kernel.digest, x.call, x.label, x.source, [views[v] for v in x.arguments], x.scalars]
            for x in order.launches
        ],
        **({"updates": [[u.output, u.state] for u in order.updates]} if order.updates else {}),
    }


def float_bits(value: float) -> int:
    """The bit pattern of an f64, as a signed 64-bit integer."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def float_from_bits(bits: int) -> float:
    """The f64 with this bit pattern."""
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])


def signed(word: int) -> int:
    """The 64-bit word as SQLite's signed integer."""
    return word - 2**64 if word >= 2**63 else word
