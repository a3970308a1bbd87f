"""write_tensors: a recording's inputs, outputs or seeded weights as a safetensors file, sorted by name."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from presk_db.draw import drawn_weight
from presk_db.kernels.types import DTYPES
from presk_db.store.emission import EmissionReader
from presk_db.store.recordings import StoredRecording
from presk_db.tensor_header import TensorHead, tensor_header

_WEIGHTS = """
select distinct tensor, shape, low_bits, high_bits from weight_parts where recording_id = :recording order by tensor
"""

Array = np.ndarray[Any, np.dtype[Any]]


def write_tensors(reader: EmissionReader, recording: StoredRecording, role: str, path: Path) -> None:
    """Writes the file, unless the role is `seeded_weights` and the weights are not from a seed.

    Of the role `exact_bounds`, each output is two F64 tensors, `NAME.lower` and `NAME.upper`; there is no file where the
    exact outputs were not computed. Of the role `tokenizer` it is the tokenizer's own file, where there is one.
    """
    if role == "tokenizer":
        tokenizer = reader.tokenizer()
        if tokenizer is not None:
            path.write_bytes(tokenizer)
        return
    if role == "exact_bounds":
        bounds = [
            (f"{e.name}.{b}", a) for e in reader.enclosures() for b, a in (("lower", e.lower), ("upper", e.upper))
        ]
        bounds.sort(key=lambda bound: bound[0].encode())
        if bounds:
            _write(path, [(name, "F64", a.shape) for name, a in bounds], (a for _, a in bounds))
        return
    if role == "seeded_weights":
        if recording.weights_kind == "seed":
            _write(path, *_weights(reader, recording))
        return
    tensors = sorted(reader.tensors(role), key=lambda t: t.name.encode())
    heads = [(t.name, DTYPES[t.type], t.shape) for t in tensors]
    _write(path, heads, (t.data for t in tensors if t.data is not None))


def _weights(reader: EmissionReader, recording: StoredRecording) -> tuple[list[TensorHead], Iterator[Array]]:
    rows = [(name, tuple(json.loads(shape)), *bits) for name, shape, *bits in reader.rows(_WEIGHTS, {})]
    rows.sort(key=lambda row: row[0].encode())
    seed = recording.weights_seed
    assert seed is not None, "seeded weights have a seed"
    drawn = (drawn_weight(seed, name, shape, _real(low), _real(high)) for name, shape, low, high in rows)
    return [(name, "F32", shape) for name, shape, *_ in rows], drawn


def _real(bits: int) -> float:
    return float(np.array(bits, np.int64).view(np.float64))


def _write(path: Path, heads: Sequence[TensorHead], arrays: Iterable[Array]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(tensor_header(heads))
        for array in arrays:
            file.write(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
