"""exact_report: the entry of a recording over the real numbers, and how far the native outputs are from that.

Everything comes from the database, but a weights file: the graph's text, the recorded inputs, the weights' seed. The
exact entry takes the weights as reals, before any rounding to a site's type, and the inputs as they were recorded.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from presk_db.conformance.balls import Values, need_flint, working_precision
from presk_db.conformance.exact_condition import condition
from presk_db.conformance.exact_error import floats, largest_radius, lower, native_values, output_error, rounded, upper
from presk_db.conformance.exact_evaluate import ExactValues, equation_count, exact_values
from presk_db.conformance.exact_text import report_text
from presk_db.conformance.sources import recorded_source
from presk_db.errors import DatabaseDamaged, ExactUndecided
from presk_db.kernels.launches import WeightPart
from presk_db.language.graph import Graph, Parameter
from presk_db.language.parser import graph_from_text
from presk_db.recording.events import ObservedTensor
from presk_db.specs.weights import resolved_parts, seeded_reader
from presk_db.store.engine import Engine
from presk_db.store.exact import ExactOutput, write_exact
from presk_db.store.recordings import StoredRecording, read_graph
from presk_db.store.tensors import read_tensors

Progress = Callable[[str, int, int], None]

OPEN_ULP = 2.0**-10
"""How much of an ulp the exact values may leave open."""

MOST_BITS = 2048
"""The precision at which a computation ends, whatever it leaves open."""


@dataclass(frozen=True)
class ExactReport:
    """What was found, per output, at a working precision in bits, in so many seconds."""

    recording: str
    precision: int
    seconds: float
    outputs: tuple[ExactOutput, ...]

    def text(self) -> str:
        """The report, some lines for each output."""
        return report_text(self.recording, self.precision, self.seconds, self.outputs)


def exact_report(
    engine: Engine,
    recording: StoredRecording,
    weights: str | None = None,
    progress: Progress = lambda stage, done, total: None,
    most_bits: int = MOST_BITS,
) -> ExactReport:
    """Computes the recording's exact outputs, writes their rows, and returns what they say of the native ones.

    Raises E7004 where the weights file is missing or changed, E7005 where a comparison is not decided at `most_bits`
    bits, E7006 where python-flint is not installed.
    """
    need_flint()
    start = perf_counter()
    graph = graph_from_text(read_graph(engine, recording.id))
    arguments = graph_arguments(engine, recording, graph, weights, progress)
    native = {t.name: t for t in read_tensors(engine, recording.id, "output")}
    for name in graph.results:
        if name not in native:
            raise DatabaseDamaged("the recording has no such output", f"output {name}")
    types = {name: t.type for name, t in native.items()}
    values, precision = enclosed(graph, arguments, types, progress, most_bits)
    outputs = []
    for number, name in enumerate(graph.results):
        progress("errors", number, len(graph.results))
        with working_precision(precision):
            outputs.append(_output(values, number, native[name], values.results[name]))
    write_exact(engine, recording.id, precision, outputs)
    return ExactReport(recording.name, precision, perf_counter() - start, tuple(outputs))


def enclosed(
    graph: Graph,
    arguments: list[Values],
    types: Mapping[str, str],
    progress: Progress = lambda stage, done, total: None,
    most_bits: int = MOST_BITS,
) -> tuple[ExactValues, int]:
    """The results, with no more than 2^-10 ulp of their `types` left open, and the precision that gave them.

    At `most_bits` the results are returned as they are; only what cannot be decided even there raises E7005.
    """
    precision = min(first_precision(graph), most_bits)
    while True:
        stage = f"exact, {precision} bits"
        try:
            values = exact_values(graph, arguments, precision, lambda done, total, s=stage: progress(s, done, total))  # type: ignore[misc]  # a default
        except ExactUndecided:
            if precision >= most_bits:
                raise
            precision = min(2 * precision, most_bits)
            continue
        with working_precision(precision):
            widest = max((largest_radius(values.results[n], types[n]) for n in graph.results), default=0.0)
        if widest <= OPEN_ULP or precision >= most_bits:
            return values, precision
        lacking = int(math.log2(widest / OPEN_ULP)) + 1 if math.isfinite(widest) else precision
        precision = min(precision + max(64, 32 * math.ceil((lacking + 8) / 32)), most_bits)


def first_precision(graph: Graph) -> int:
    """The bits to begin with: in deep networks each product loses about four."""
    return 32 * math.ceil((96 + 4 * equation_count(graph.entry, "matmul")) / 32)


def _output(values: ExactValues, number: int, native: ObservedTensor, exact: Values) -> ExactOutput:
    if native.data is None or native.shape != exact.shape:
        raise DatabaseDamaged("the native output's contents are missing or misshapen", f"output {native.name}")
    error = output_error(native_values(native.data, native.type), exact, native.type)
    if error.worst is not None and exact.dtype == object:
        index = tuple(int(i) for i in np.unravel_index(error.worst.element, exact.shape)) if exact.shape else ()
        error = replace(error, worst=replace(error.worst, condition=condition(values.frame, number, index)))
    return ExactOutput(
        native.buffer,
        native.name,
        native.type,
        native.shape,
        error,
        floats(rounded, exact),
        floats(lower, exact),
        floats(upper, exact),
    )


# --- what the entry takes -------------------------------------------------------------------------------------------


def graph_arguments(
    engine: Engine, recording: StoredRecording, graph: Graph, weights: str | None, progress: Progress
) -> list[Values]:
    """The graph's parameters and inputs as exact values: floats, integers, truth values."""
    arguments = _parameters(engine, recording, graph, weights, progress)
    recorded = {t.name: t for t in read_tensors(engine, recording.id, "input")}
    for name, given in graph.inputs:
        tensor = recorded.get(name)
        if tensor is None or tensor.data is None or tensor.shape != given.stored:
            raise DatabaseDamaged("the recorded input is missing or misshapen", f"input {name}")
        values = native_values(tensor.data, tensor.type)
        arguments.append(values.astype(np.bool_) if given.kind == "bool" else values)
    return arguments


def _parameters(
    engine: Engine, recording: StoredRecording, graph: Graph, weights: str | None, progress: Progress
) -> list[Values]:
    parts = [part for i, (_, p) in enumerate(graph.parameters) for part in _parts(i, p)]
    if recording.weights_seed is not None:
        read = seeded_reader(recording.weights_seed)
    elif parts:
        _, source = recorded_source(engine, recording, weights)
        parts = list(resolved_parts(parts, source))

        def read(part: WeightPart) -> Values:
            return source.read(part.tensor)

    arrays: list[list[Values]] = [[] for _ in graph.parameters]
    for done, part in enumerate(parts):
        progress("weights", done, len(parts))
        values = read(part)
        arrays[part.buffer].append((values.T if part.transposed else values).reshape(-1))
    return [
        np.concatenate(pieces).reshape(p.shape) if pieces else np.zeros(p.shape)
        for pieces, (_, p) in zip(arrays, graph.parameters, strict=True)
    ]


def _parts(number: int, p: Parameter) -> list[WeightPart]:
    return [WeightPart(number, 0, s.name, s.shape, s.transposed, p.low, p.high) for s in p.sources]
