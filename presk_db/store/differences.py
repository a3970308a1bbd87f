"""differences: what two recordings of one database do not share, by query; and outputs, element by element."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Engine

from presk_db.recording.events import ObservedTensor
from presk_db.store.engine import reading
from presk_db.store.query import Answer
from presk_db.store.tensors import read_tensors

_QUERIES = Path(__file__).resolve().parent / "differences"

SECTIONS = (
    "recording",
    "spec",
    "sizes",
    "functions",
    "forms",
    "kernels",
    "plan",
    "launches",
    "buffers",
    "tensors",
    "first_launch",
)
"""The queries, in the order in which their answers are told."""

_DECODED: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("spec", "a"): json.loads,
    ("spec", "b"): json.loads,
    ("plan", "packed"): bool,
    ("first_launch", "same_kernel"): bool,
}
"""What SQLite has no type for: columns (section, name) of JSON, and of truth values."""

_OUTPUTS = ("output", "elements", "differ", "first", "a", "b", "largest_difference")


@dataclass(frozen=True)
class Section:
    """What one query asks, and the rows that differ; `:a` and `:b` are the recordings."""

    name: str
    title: str
    answer: Answer


def differences(engine: Engine, a: int, b: int) -> tuple[Section, ...]:
    """The sections in which the recordings differ: none where they are equal."""
    found = []
    for name in SECTIONS:
        title, _, sql = (_QUERIES / f"{name}.sql").read_text(encoding="utf-8").partition("\n")
        with reading(engine) as connection:
            result = connection.exec_driver_sql(sql, {"a": a, "b": b})
            columns = tuple(result.keys())
            decoders = [_DECODED.get((name, column), _same) for column in columns]
            rows = tuple(
                tuple(None if v is None else d(v) for d, v in zip(decoders, row, strict=True)) for row in result
            )
        found.append(Section(name, title.removeprefix("-- "), Answer(columns, rows)))
    title = "Outputs of one shape and type, element by element."
    found.append(Section("outputs", title, Answer(_OUTPUTS, _outputs(engine, a, b))))
    return tuple(section for section in found if section.answer.rows)


def _same(value: Any) -> Any:
    return value


def _outputs(engine: Engine, a: int, b: int) -> tuple[tuple[Any, ...], ...]:
    """A row for each output whose bits differ: how many, the first place with both values, the largest difference."""
    others = {t.name: t for t in read_tensors(engine, b, "output")}
    rows = []
    for t in sorted(read_tensors(engine, a, "output"), key=lambda t: t.name):
        other = others.get(t.name)
        if other is not None and (other.type, other.shape) == (t.type, t.shape) and other.digest != t.digest:
            rows.append((t.name, *_compared(t, other)))
    return tuple(rows)


def _compared(a: ObservedTensor, b: ObservedTensor) -> tuple[Any, ...]:
    assert a.data is not None and b.data is not None, "outputs are kept"
    left, right = a.data.reshape(-1), b.data.reshape(-1)
    differ = left.view(f"u{left.dtype.itemsize}") != right.view(f"u{right.dtype.itemsize}")
    x, y = _reals(left, a.type), _reals(right, b.type)
    first = int(np.argmax(differ))
    with np.errstate(invalid="ignore"):
        distance = np.abs(x - y)
    largest = float(np.nanmax(distance)) if bool((distance == distance).any()) else None
    return left.size, int(differ.sum()), first, _shown(x[first]), _shown(y[first]), largest


def _reals(array: np.ndarray[Any, Any], type_: str) -> np.ndarray[Any, Any]:
    if type_ == "bf16":
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def _shown(value: Any) -> str:
    return f"{float(value):.9g}"
