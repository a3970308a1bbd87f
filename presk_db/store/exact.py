"""Rows of the exact computation: written after a recording, replaced by a later computation, read by an emission."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, Engine, insert, select

from presk_db.errors import DatabaseDamaged
from presk_db.recording.events import Array, ObservedTensor
from presk_db.store.digest import float_bits, float_from_bits
from presk_db.store.engine import reading, writing
from presk_db.store.kernel_rows import shape_from_text
from presk_db.store.tables import buffers, exact_bounds, exact_errors, exact_runs, ulp_histogram
from presk_db.store.tensors import contents, insert_contents, replace_exact_output

HISTOGRAM_FLOOR = -11
"""The exponent under which all errors below 2^-10 ulp are counted."""


@dataclass(frozen=True)
class WorstElement:
    """The element with the largest error: its flat index, the native value, bounds of the exact one.

    `condition` is the sum of the magnitudes of its last sum's terms over its own, where that is known.
    """

    element: int
    native: float
    lower: float
    upper: float
    condition: float | None


@dataclass(frozen=True)
class OutputError:
    """The error of one native output, in ulp of its storage type at the exact value (of an integer: in units).

    Over the elements that are finite in both: the largest, the mean, and how many lie in [2^e, 2^(e+1)) by exponent e.
    `radius_ulp` bounds what the exact computation leaves open. `agreeing` counts the elements that are infinite or NaN
    in both alike (or overflow as they must), `differing` those that only one of them has so.
    """

    max_ulp: float
    mean_ulp: float
    radius_ulp: float
    worst: WorstElement | None
    histogram: tuple[tuple[int, int], ...]
    agreeing: int
    differing: int


@dataclass(frozen=True)
class ExactOutput:
    """One output: float64 arrays of its shape with the exact values rounded, and bounds rounded outward."""

    buffer: int
    name: str
    type: str
    shape: tuple[int, ...]
    error: OutputError
    rounded: Array
    lower: Array
    upper: Array


@dataclass(frozen=True)
class Enclosure:
    """Bounds of one exact output, as float64 of its shape; both NaN where it has no value."""

    name: str
    lower: Array
    upper: Array


def write_exact(engine: Engine, recording_id: int, precision: int, outputs: Sequence[ExactOutput]) -> None:
    """Adds, or replaces, what the exact computation says of a recording, in one transaction."""
    with writing(engine) as connection:
        for table in (exact_bounds, ulp_histogram, exact_errors, exact_runs):
            connection.execute(table.delete().where(table.c.recording_id == recording_id))
        connection.execute(insert(exact_runs), [{"recording_id": recording_id, "precision": precision}])
        for output in outputs:
            key = {"recording_id": recording_id, "buffer": output.buffer}
            connection.execute(insert(exact_errors), [key | _error_row(output.error)])
            bins = [key | {"exponent": e, "elements": n} for e, n in output.error.histogram]
            if bins:
                connection.execute(insert(ulp_histogram), bins)
            for bound, array in (("lower", output.lower), ("upper", output.upper)):
                raw = np.ascontiguousarray(array, "<f8").tobytes()
                digest = hashlib.sha256(raw).hexdigest()
                insert_contents(connection, digest, raw)
                connection.execute(insert(exact_bounds), [key | {"bound": bound, "digest": digest}])
            raw = np.ascontiguousarray(output.rounded, "<f8").tobytes()
            observed = ObservedTensor(
                "output",
                output.buffer,
                output.name,
                "f64",
                output.shape,
                hashlib.sha256(raw).hexdigest(),
                output.rounded,
            )
            replace_exact_output(connection, recording_id, observed)


def _error_row(error: OutputError) -> dict[str, Any]:
    worst = error.worst
    return {
        "max_ulp": error.max_ulp.hex(),
        "mean_ulp": error.mean_ulp.hex(),
        "radius_ulp": error.radius_ulp.hex(),
        "worst_element": None if worst is None else worst.element,
        "native_bits": None if worst is None else float_bits(worst.native),
        "lower_bits": None if worst is None else float_bits(worst.lower),
        "upper_bits": None if worst is None else float_bits(worst.upper),
        "condition": None if worst is None or worst.condition is None else worst.condition.hex(),
        "agreeing": error.agreeing,
        "differing": error.differing,
    }


def read_errors(engine: Engine, recording_id: int) -> tuple[tuple[str, OutputError], ...]:
    """(name, error) of each output whose exact value was computed, by buffer."""
    with reading(engine) as connection:
        rows = connection.execute(
            select(exact_errors, buffers.c.name)
            .join(
                buffers,
                (buffers.c.recording_id == exact_errors.c.recording_id) & (buffers.c.number == exact_errors.c.buffer),
            )
            .where(exact_errors.c.recording_id == recording_id)
            .order_by(exact_errors.c.buffer)
        ).all()
        return tuple((row.name, _error(row, _bins(connection, recording_id, row.buffer))) for row in rows)


def _bins(connection: Connection, recording_id: int, buffer: int) -> tuple[tuple[int, int], ...]:
    query = select(ulp_histogram.c.exponent, ulp_histogram.c.elements).where(
        ulp_histogram.c.recording_id == recording_id, ulp_histogram.c.buffer == buffer
    )
    return tuple((e, n) for e, n in connection.execute(query.order_by(ulp_histogram.c.exponent)))


def _error(row: Any, histogram: tuple[tuple[int, int], ...]) -> OutputError:
    worst = None
    if row.worst_element is not None:
        native, lower, upper = (float_from_bits(bits) for bits in (row.native_bits, row.lower_bits, row.upper_bits))
        condition = None if row.condition is None else float.fromhex(row.condition)
        worst = WorstElement(row.worst_element, native, lower, upper, condition)
    most, mean, radius = (float.fromhex(text) for text in (row.max_ulp, row.mean_ulp, row.radius_ulp))
    return OutputError(most, mean, radius, worst, histogram, row.agreeing, row.differing)


def read_enclosures(connection: Connection, recording_id: int) -> tuple[Enclosure, ...]:
    """The enclosures of the recording's exact outputs, by buffer; none where they were not computed.

    Raises DatabaseDamaged (E5005) where a bound's contents are missing or have the wrong size.
    """
    query = (
        select(buffers.c.number, buffers.c.name, buffers.c.shape, exact_bounds.c.bound, exact_bounds.c.digest)
        .join(
            buffers,
            (buffers.c.recording_id == exact_bounds.c.recording_id) & (buffers.c.number == exact_bounds.c.buffer),
        )
        .where(exact_bounds.c.recording_id == recording_id)
        .order_by(buffers.c.number, exact_bounds.c.bound)
    )
    found: dict[tuple[int, str], dict[str, Array]] = {}
    for row in connection.execute(query).all():
        raw = contents(connection, row.digest)
        shape = shape_from_text(row.shape)
        if raw is None or len(raw) != 8 * int(np.prod(shape, dtype=np.int64)):
            raise DatabaseDamaged("the contents of a bound are missing", f"exact output {row.name}")
        found.setdefault((row.number, row.name), {})[row.bound] = np.ndarray(shape, "<f8", raw)
    return tuple(Enclosure(name, bounds["lower"], bounds["upper"]) for (_, name), bounds in found.items())
