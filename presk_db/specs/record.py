"""recorded: a spec becomes a Recording: model, graph, launches, weights, inputs, and the native run."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Literal

import numpy as np

from presk_db.checkpoints.open import open_model, open_weights
from presk_db.checkpoints.safetensors import SafetensorsFile
from presk_db.checkpoints.source import TensorSource
from presk_db.draw import drawn_input
from presk_db.errors import InputBad, InputOutOfRange, MemoryShort, SpecUnreadable
from presk_db.kernels.launches import Buffer, LaunchOrder
from presk_db.kernels.plan_file import Plan, check_plan, read_plan
from presk_db.keys import KEY_LIMIT
from presk_db.language.graph import Graph, Input
from presk_db.lowering.lower import launch_order
from presk_db.models.families import model_from_config, model_from_python
from presk_db.models.model import Model
from presk_db.native.numbers import STORAGE, Array, canonical
from presk_db.native.run import run
from presk_db.recording.events import EventList, ObservedTensor, Recording, TensorRole, WeightsReference
from presk_db.specs.spec import Spec, seed_of
from presk_db.specs.tokenizer import tokenizer_of
from presk_db.specs.weights import loaded_weights, resolved_parts, rounded_to, seeded_reader

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class _Opened:
    """A spec's model, its own weights if it has any, and what of it goes into the canonical spec."""

    model: Model
    source: TensorSource | None
    path: str | None
    description: dict[str, Any]


def recorded(
    spec: Spec,
    progress: Progress = lambda stage, done, total: None,
    executor: Literal["numpy", "compiled"] = "numpy",
) -> Recording:
    """Runs the spec's entry natively and returns the recording. Raises what the layers raise; writes nothing."""
    opened = _opened(spec)
    dims = opened.model.dimensions(spec.dims, spec.entry)
    graph = opened.model.graph(spec.entry, dims, spec.remat)
    order = launch_order(graph, spec.realization)
    check_memory(order.buffers)
    tokenizer = tokenizer_of(spec, graph)
    plan = _plan(spec, order)
    order, weights, reference = _weights(spec, opened, order, progress)
    inputs, inputs_from = _inputs(spec, graph, order)
    events = EventList([])
    start = perf_counter_ns()
    outputs = run(
        order,
        inputs,
        weights,
        events,
        progress=lambda n, total: progress("launches", n, total),
        executor=executor,
        schedules={p.kernel: p.schedule for p in plan if not p.packed},
    )
    nanoseconds = perf_counter_ns() - start
    tensors = [
        *(_observed("input", order.buffers[n], a, True) for n, a in inputs.items()),
        *(_observed("weight", order.buffers[n], a, False) for n, a in weights.items()),
        *(_observed("output", order.buffers[n], a, True) for n, a in outputs.items()),
    ]
    canonical_spec = {
        "model": opened.description,
        "entry": spec.entry,
        "dims": dims,
        "realization": spec.realization.as_dict(),
        "weights": {"seed": reference.seed} if reference.kind == "seed" else {"sha256": reference.digest},
        "inputs": inputs_from,
        **({"tokenizer": {"sha256": tokenizer.digest}} if tokenizer is not None else {}),
        **({"remat": True} if spec.remat else {}),
    }
    return Recording(
        name=spec.name or default_name(opened.model.family, spec),
        entry=spec.entry,
        family=opened.model.family,
        spec=json.dumps(canonical_spec, sort_keys=True, separators=(",", ":")),
        graph=graph.text(),
        order=order,
        events=tuple(events.events),
        tensors=tuple(tensors),
        weights=reference,
        nanoseconds=nanoseconds,
        plan=plan,
        tokenizer=tokenizer,
    )


def _plan(spec: Spec, order: LaunchOrder) -> Plan:
    """The spec's plan, checked against the kernels. Raises PlanBad (E3005)."""
    if spec.plan is None:
        return ()
    plan = read_plan(spec.plan)
    check_plan(plan, {k.digest: k for k in order.kernels()}, spec.plan)
    return tuple(replace(p, measured=()) for p in plan)


def check_memory(buffers: Iterable[Buffer]) -> None:
    """MemoryShort (E4003) where weights, inputs, outputs and the largest temporary exceed this machine's memory."""
    listed = list(buffers)
    needed = sum(b.bytes for b in listed if b.role != "temp") + max((b.bytes for b in listed), default=0)
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 2**63
    if needed > there:
        raise MemoryShort(f"the run needs {needed} bytes at least; this machine has {there}", "dims")


def traced(spec: Spec) -> Graph:
    """The spec's graph alone, without a run."""
    model = _opened(spec).model
    return model.graph(spec.entry, model.dimensions(spec.dims, spec.entry), spec.remat)


def default_name(family: str, spec: Spec) -> str:
    """`gpt2-forward-f32`, where the spec gives no name."""
    type_ = spec.realization.default if not spec.realization.rules else "mixed"
    return f"{family}-{spec.entry}-{type_}"


def _opened(spec: Spec) -> _Opened:
    if spec.model.endswith(".py"):
        file = Path(spec.model)
        model = model_from_python(file, spec.entry)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        return _Opened(model, None, None, {"python": file.name, "sha256": digest})
    if not os.path.exists(spec.model):
        raise SpecUnreadable("no such file or folder", spec.model)
    files = open_model(spec.model)
    return _Opened(
        model_from_config(files.config, _config_place(spec.model)),
        files.tensors,
        spec.model if files.tensors is not None else None,
        {"config": files.config},
    )


def _config_place(model: str) -> str:
    return os.path.join(model, "config.json") if os.path.isdir(model) else model


def _weights(
    spec: Spec, opened: _Opened, order: LaunchOrder, progress: Progress
) -> tuple[LaunchOrder, dict[int, Array], WeightsReference]:
    given = spec.weights
    seed = (
        spec.seed
        if given is None and opened.source is None
        else seed_of(given, "weights")
        if given is not None
        else None
    )
    if not order.weights:
        return order, {}, WeightsReference("none", None, None, None)
    if seed is not None:
        weights = loaded_weights(order, seeded_reader(seed), progress)
        return order, weights, WeightsReference("seed", seed, None, None)
    source = opened.source if given is None else open_weights(given)
    assert source is not None, "without a seed there is a source"
    order = replace(order, weights=resolved_parts(order.weights, source))
    weights = loaded_weights(order, lambda part: source.read(part.tensor), progress)
    path = given if given is not None else opened.path
    return order, weights, WeightsReference("file", None, source.digest(), str(Path(str(path)).resolve()))


def _inputs(spec: Spec, graph: Graph, order: LaunchOrder) -> tuple[dict[int, Array], dict[str, Any]]:
    buffers = [b for b in order.buffers if b.role == "input" or b.given]
    seed = spec.seed if spec.inputs is None else seed_of(spec.inputs, "inputs")
    if seed is not None:
        given = dict(graph.inputs)
        drawn = {b.id: _as_stored(_drawn(seed, b.name, given[b.name]), b, "inputs") for b in buffers}
        return drawn, {"seed": seed}
    source = SafetensorsFile(str(spec.inputs))
    place = f"{spec.inputs} tensor"
    for name in source.names():
        if name not in {b.name for b in buffers}:
            raise InputBad("the entry has no such input", f"{place} {name}")
    arrays: dict[int, Array] = {}
    for b in buffers:
        if b.name not in source.names():
            raise InputBad("the file lacks this input", f"{place} {b.name}")
        arrays[b.id] = _as_stored(source.read(b.name), b, f"{place} {b.name}")
    return arrays, {"sha256": source.digest()}


def _drawn(seed: int, name: str, given: Input) -> Array:
    if given.scalar:
        return np.array(given.low, np.float64)
    if given.kind == "key":
        return drawn_input(seed, name, given.stored, KEY_LIMIT)
    return drawn_input(seed, name, given.shape, given.limit, given.low, given.high)


def _as_stored(values: Array, buffer: Buffer, place: str) -> Array:
    """Exact values in a buffer's storage dtype: reals rounded once, integers as they are. Raises E1204, E1205."""
    whole = np.issubdtype(values.dtype, np.integer)
    if (buffer.type in ("i64", "bool")) != whole:
        raise InputBad(f"must be {'integers' if buffer.type in ('i64', 'bool') else 'reals'}", place)
    if values.shape != buffer.shape:
        raise InputBad(f"has shape {list(values.shape)}, the entry needs {list(buffer.shape)}", place)
    if not whole:
        return rounded_to(values, buffer.type)
    limit = 2 if buffer.type == "bool" else buffer.limit
    bad = (values < 0) | (values >= limit) if limit is not None else np.zeros(values.shape, bool)
    if bad.any():
        at = [int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape)]
        raise InputOutOfRange(f"element {at} is {int(values[tuple(at)])} and must be in [0, {limit})", place)
    return values.astype(STORAGE[buffer.type])


def _observed(role: TensorRole, buffer: Buffer, array: Array, keep: bool) -> ObservedTensor:
    data = np.ascontiguousarray(canonical(array, buffer.type)).reshape(buffer.shape)
    little = data.astype(data.dtype.newbyteorder("<"), copy=False).reshape(-1)
    digest = hashlib.sha256(little.view(np.uint8).data).hexdigest()
    return ObservedTensor(role, buffer.id, buffer.name, buffer.type, buffer.shape, digest, data if keep else None)
