"""report_text: what the exact computation says of a recording, as text."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from presk_db.store.exact import HISTOGRAM_FLOOR, ExactOutput, WorstElement

_BAR = 40  # characters of the longest bar


def report_text(recording: str, precision: int, seconds: float, outputs: Sequence[ExactOutput]) -> str:
    """Some lines for each output: errors in ulp, the worst element, the histogram."""
    lines = [f"{recording} against the exact reals ({precision} bits, {seconds:.1f} s)"]
    for output in outputs:
        lines += _output_lines(output)
    return "\n".join(lines) + "\n"


def _output_lines(output: ExactOutput) -> Iterator[str]:
    error = output.error
    unit = "ulp" if output.type in ("f64", "f32", "bf16") else "units"
    shape = ",".join(map(str, output.shape))
    yield f"{output.name} {output.type}[{shape}]: max {error.max_ulp:.6g} {unit}, mean {error.mean_ulp:.6g} {unit}"
    if error.radius_ulp:
        yield f"  the exact values are known to 2^{math.ceil(math.log2(error.radius_ulp))} ulp"
    if error.agreeing:
        yield f"  {error.agreeing} elements are infinite or NaN, as they must be"
    if error.differing:
        yield f"  {error.differing} elements are infinite or NaN in one of the two alone"
    if error.worst is not None:
        yield from _worst_lines(output, error.worst)
    most = max((n for _, n in error.histogram), default=1)
    for exponent, count in error.histogram:
        bar = "#" * math.ceil(count / most * _BAR)
        yield f"  {_range(exponent):>18} {unit} {count:>10}  {bar}"


def _worst_lines(output: ExactOutput, worst: WorstElement) -> Iterator[str]:
    index = np.unravel_index(worst.element, output.shape) if output.shape else ()
    at = ", ".join(str(int(i)) for i in index)
    yield f"  worst at [{at}]: native {worst.native.hex()} ({worst.native!r})"
    yield f"    exact from {worst.lower!r} to {worst.upper!r}"
    if worst.condition is not None:
        yield f"    condition {worst.condition:.3g}: the terms of its last sum are together so many times as large"


def _range(exponent: int) -> str:
    if exponent == HISTOGRAM_FLOOR:
        return f"below 2^{HISTOGRAM_FLOOR + 1}"
    return f"2^{exponent} to 2^{exponent + 1}"
