"""The tables and polynomials of the f64 functions: their definitions, and the C and Python text that holds them.

`python -m presk_db.conformance.math_tables` rewrites `runtime_c/presk_math_tables.h` and
`presk_db/native/tables_f64.py`; with `--check` it only compares. Everything is computed in 400-bit arithmetic and
rounded at the end; a real value kept as a double-double is two neighbouring numbers, high and low.
"""

import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass

import gmpy2
from gmpy2 import mpfr

from presk_db.conformance import minimax
from presk_db.conformance.generated import generated_files

EXP_STEPS = 64
LOG_BITS = 8
LOG_OFFSET = 0x3FE6A00000000000  # log's mantissas begin at this double, 0.70703125
SIN_STEP = 64
ERFCX_FIRST = 0.5  # where erf's series ends and the table of erfcx begins
ERFCX_ROWS = 24  # four to an octave, up to 32
ERFCX_PAIRS = 6
ERFCX_DEGREE = 18
ERF_PAIRS = 5
ERF_DEGREE = 12


@dataclass(frozen=True)
class Table:
    """Rows of doubles under one name, and what they are."""

    name: str
    meaning: str
    rows: list[list[float]]


def pair(value: mpfr) -> list[float]:
    """Returns the double nearest to value, and the double nearest to what is left."""
    high = float(value)
    return [high, float(value - mpfr(high))]


def parts(value: mpfr, bits: int, count: int) -> list[float]:
    """Returns value as `count` doubles of `bits` significant bits each and one more of 53 bits."""
    found: list[float] = []
    for _ in range(count):
        unit = mpfr(2) ** (int(gmpy2.floor(gmpy2.log2(value))) + 1 - bits)
        piece = gmpy2.floor(value / unit) * unit
        found.append(float(piece))
        value = value - piece
    return [*found, float(value)]


def from_bits(bits: int) -> float:
    """Returns the double of these bits."""
    value: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return value


def exp_table() -> Table:
    rows = [pair(mpfr(2) ** (mpfr(j) / EXP_STEPS)) for j in range(EXP_STEPS)]
    return Table("exp", "2**(j / 64): high, low", rows)


def log_table() -> Table:
    rows = []
    for j in range(1 << LOG_BITS):
        low = from_bits(LOG_OFFSET + (j << (52 - LOG_BITS)))
        high = from_bits(LOG_OFFSET + ((j + 1) << (52 - LOG_BITS)))
        inverse = round(2.0 / (low + high) * 2**12) / 2**12
        if low == 1.0 or high == 1.0:
            inverse = 1.0
        rows.append([inverse, *pair(-gmpy2.log(mpfr(inverse)))])
    meaning = "near 1 / m for m in the j-th of 256 intervals of mantissas from 0.70703125 on, and -log of it: high, low"
    return Table("log", meaning, rows)


def sincos_table() -> Table:
    rows = [pair(gmpy2.sin(mpfr(j) / SIN_STEP)) + pair(gmpy2.cos(mpfr(j) / SIN_STEP)) for j in range(52)]
    return Table("sincos", "sin(j / 64), cos(j / 64): high, low of each", rows)


def erfcx(x: mpfr) -> mpfr:
    return gmpy2.erfc(x) * gmpy2.exp(x * x)


def erfcx_table() -> Table:
    rows, worst = [], mpfr(0)
    first = struct.unpack("<Q", struct.pack("<d", ERFCX_FIRST))[0] >> 50
    for j in range(ERFCX_ROWS):
        low, high = from_bits((first + j) << 50), from_bits((first + j + 1) << 50)
        center = (low + high) / 2

        def shifted(u: mpfr, center: float = center) -> mpfr:
            return erfcx(u + center)

        def weight(u: mpfr, center: float = center) -> mpfr:
            return 1 / erfcx(u + center)

        fit = minimax.minimax(shifted, weight, mpfr(low - center), mpfr(high - center), ERFCX_DEGREE)
        rounded, row = rounded_polynomial(fit, ERFCX_PAIRS)
        points = minimax.chebyshev_points(mpfr(low - center), mpfr(high - center), 301)
        worst = max(worst, *(abs(weight(u) * (minimax.horner(rounded, u) - shifted(u))) for u in points))
        rows.append([center, *row])
    meaning = (
        f"erfcx(c + u), four rows to an octave from 1/2 on: c; coefficients of u**18 ... u**6; high, low of u**5 ... "
        f"u**0; relative error below 2**{float(gmpy2.log2(worst)):.1f}"
    )
    return Table("erfcx", meaning, rows)


def rounded_polynomial(fit: list[mpfr], pairs: int) -> tuple[list[mpfr], list[float]]:
    """Returns the polynomial with the lowest `pairs` coefficients as double-doubles: as reals, and as a table's row."""
    low = [pair(c) for c in fit[:pairs]]
    high = [float(c) for c in fit[pairs:]]
    reals = [mpfr(p[0]) + p[1] for p in low] + [mpfr(c) for c in high]
    return reals, [*reversed(high), *(part for p in reversed(low) for part in p)]


def polynomial(
    name: str, meaning: str, f: Callable[[mpfr], mpfr], weight: Callable[[mpfr], mpfr], low: float, high: float,
    degree: int, pairs: int = 0,
) -> Table:  # fmt: skip
    """Returns a one-row table: plain coefficients from the highest power down, then pairs."""
    fit = minimax.minimax(f, weight, mpfr(low), mpfr(high), degree)
    reals, row = rounded_polynomial(fit, pairs)
    points = minimax.chebyshev_points(mpfr(low), mpfr(high), 2001)
    worst = max(abs(weight(x) * (minimax.horner(reals, x) - f(x))) for x in points)
    return Table(name, f"{meaning}; weighted error below 2**{float(gmpy2.log2(worst)):.1f}", [row])


def polynomials() -> list[Table]:
    one_over_sqrtpi = 2 / gmpy2.sqrt(gmpy2.const_pi())
    tiny = mpfr(2) ** -40

    def exp_tail(r: mpfr) -> mpfr:
        return (gmpy2.expm1(r) - r - r * r / 2) / r**3 if abs(r) > tiny else 1 / mpfr(6) + r / 24

    def log_tail(r: mpfr) -> mpfr:
        return (gmpy2.log1p(r) - r + r * r / 2) / r**3 if abs(r) > tiny else 1 / mpfr(3) - r / 4

    def sin_tail(z: mpfr) -> mpfr:
        h = gmpy2.sqrt(z)
        return (gmpy2.sin(h) - h) / (h * z) if z > tiny else -1 / mpfr(6) + z / 120

    def cos_tail(z: mpfr) -> mpfr:
        return (gmpy2.cos(gmpy2.sqrt(z)) - 1 + z / 2) / (z * z) if z > tiny else 1 / mpfr(24) - z / 720

    def erf_over_x(z: mpfr) -> mpfr:
        x = gmpy2.sqrt(z)
        return gmpy2.erf(x) / x if z > 0 else one_over_sqrtpi

    return [
        polynomial("exp_tail", "(e**r - 1 - r - r**2 / 2) / r**3, |r| <= 0.00542, r**5 ... r**0", exp_tail,
                   lambda r: r * r + tiny, -0.00542, 0.00542, 5),
        polynomial("log_tail", "(log(1 + r) - r + r**2 / 2) / r**3, -0.0025 <= r <= 0.00391, r**6 ... r**0", log_tail,
                   lambda r: r * r + tiny, -0.0025, 0.00391, 6),
        polynomial("sin_tail", "(sin h - h) / h**3 at z = h**2, |h| <= 1 / 128, z**3 ... z**0", sin_tail,
                   lambda z: z + tiny, 0.0, 1 / 128**2, 3),
        polynomial("cos_tail", "(cos h - 1 + h**2 / 2) / h**4 at z = h**2, |h| <= 1 / 128, z**3 ... z**0", cos_tail,
                   lambda z: z * z + tiny, 0.0, 1 / 128**2, 3),
        polynomial("erf_series", "erf(x) / x at z = x**2, x <= 1/2, z**12 ... z**5; high, low of z**4 ... z**0",
                   erf_over_x, lambda z: 1 / erf_over_x(z), 0.0, 0.2503, ERF_DEGREE, ERF_PAIRS),
    ]  # fmt: skip


def constants() -> list[Table]:
    ln2, pi = gmpy2.log(mpfr(2)), gmpy2.const_pi()
    return [
        Table("ln2_64", "log(2) / 64 in two parts of 36 bits and one of 53", [parts(ln2 / 64, 36, 2)]),
        Table("ln2", "log(2) in one part of 42 bits and the rest as high, low",
              [parts(ln2, 42, 1)[:1] + pair(ln2 - parts(ln2, 42, 1)[0])]),
        Table("half_pi", "pi / 2 in three parts of 33 bits and one of 53", [parts(pi / 2, 33, 3)]),
        Table("sqrt_half", "sqrt(1/2): high, low", [pair(gmpy2.sqrt(mpfr("0.5")))]),
    ]  # fmt: skip


def tables() -> list[Table]:
    return [*constants(), *polynomials(), exp_table(), log_table(), sincos_table(), erfcx_table()]


def wrapped(words: list[str], separator: str, per_line: int) -> str:
    lines = [separator.join(words[i : i + per_line]) for i in range(0, len(words), per_line)]
    return "".join(f"    {line}{separator.rstrip()}\n" for line in lines)


C_HEAD = """\
/* The tables and polynomials of the f64 functions. Generated by presk_db/conformance/math_tables.py; do not edit.
 * A row's polynomial stands from its highest power down; "high, low" is a double-double. */
#ifndef PRESK_MATH_TABLES_H
#define PRESK_MATH_TABLES_H
"""

PYTHON_HEAD = '''\
"""The tables and polynomials of the f64 functions, by name: arrays (rows, columns) of f64.

Generated by presk_db/conformance/math_tables.py; do not edit. A row's polynomial stands from its highest power down;
"high, low" is a double-double.
"""

import numpy as np
from numpy.typing import NDArray


def _table(columns: int, text: str) -> NDArray[np.float64]:
    return np.array([float.fromhex(word) for word in text.split()]).reshape(-1, columns)

'''


def texts() -> dict[str, str]:
    """Returns the text of each generated file by its name."""
    c, python = [C_HEAD], [PYTHON_HEAD]
    for t in tables():
        words = [value.hex() for row in t.rows for value in row]
        columns = len(t.rows[0])
        size = f"[{columns}]" if len(t.rows) == 1 else f"[{len(t.rows)}][{columns}]"
        c.append(
            f"\n{minimax.wrapped_comment(t.meaning, '/* ', ' * ')} */\nstatic const double presk_{t.name}{size} = {{\n"
        )
        if len(t.rows) == 1:
            c.append(wrapped(words, ", ", 5))
        elif columns <= 5:
            rows = ["{" + ", ".join(v.hex() for v in row) + "}" for row in t.rows]
            c.append(wrapped(rows, ", ", 2 if columns == 2 else 1))
        else:
            for row in t.rows:
                c.append("    {\n" + wrapped([v.hex() for v in row], ", ", 5) + "    },\n")
        c.append("};\n")
        comment = minimax.wrapped_comment(t.meaning, "# ", "# ")
        python.append(
            f'\n{comment}\n{t.name.upper()} = _table(\n    {columns},\n    """\n{wrapped(words, " ", 5)}""",\n)\n'
        )
    c.append("\n#endif\n")
    return {"presk_math_tables.h": "".join(c), "tables_f64.py": "".join(python)}


if __name__ == "__main__":
    sys.exit(generated_files(texts, sys.argv[1:]))
