"""Minimax polynomials: Remez's exchange in MPFR arithmetic, for the constants of the runtime's functions.

Only the generator of constants imports this; nothing of presk needs it at run time.
"""

import textwrap
from collections.abc import Callable, Sequence

import gmpy2
from gmpy2 import mpfr

Real = Callable[[mpfr], mpfr]

PRECISION = 400


def solution(matrix: list[list[mpfr]], right: list[mpfr]) -> list[mpfr]:
    """Returns x of matrix·x = right, by Gaussian elimination with row pivots."""
    n = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for column in range(n):
        pivot = max(range(column, n), key=lambda i: abs(rows[i][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for i in range(column + 1, n):
            factor = rows[i][column] / rows[column][column]
            for j in range(column, n + 1):
                rows[i][j] -= factor * rows[column][j]
    x = [mpfr(0)] * n
    for i in reversed(range(n)):
        x[i] = (rows[i][n] - sum((rows[i][j] * x[j] for j in range(i + 1, n)), mpfr(0))) / rows[i][i]
    return x


def horner(coefficients: Sequence[mpfr | float], x: mpfr) -> mpfr:
    """Returns the polynomial's value at x; coefficients[i] belongs to x**i."""
    total = mpfr(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def chebyshev_points(low: mpfr, high: mpfr, count: int) -> list[mpfr]:
    """Returns `count` points of [low, high], dense at both ends, ascending, the ends among them."""
    middle, half = (low + high) / 2, (high - low) / 2
    pi = gmpy2.const_pi()
    return [middle - half * gmpy2.cos(pi * i / (count - 1)) for i in range(count)]


def interpolant(f: Real, low: mpfr, high: mpfr, degree: int) -> list[mpfr]:
    """Returns the polynomial through f at the Chebyshev nodes of [low, high]: within a factor of minimax."""
    middle, half = (low + high) / 2, (high - low) / 2
    pi = gmpy2.const_pi()
    nodes = [middle + half * gmpy2.cos(pi * (2 * i + 1) / (2 * degree + 2)) for i in range(degree + 1)]
    return solution([[x**i for i in range(degree + 1)] for x in nodes], [f(x) for x in nodes])


def minimax(f: Real, weight: Real, low: mpfr, high: mpfr, degree: int) -> list[mpfr]:
    """Returns the polynomial p of `degree` that minimizes max |weight·(p − f)| over [low, high].

    Eight exchanges on a fixed dense grid; the levelled error is then within a percent of the optimum, which the
    generator verifies by measuring the rounded polynomial afresh.
    """
    grid = chebyshev_points(low, high, 40 * (degree + 2))
    values = [f(x) for x in grid]
    weights = [weight(x) for x in grid]
    chosen = [round(i * (len(grid) - 1) / (degree + 1)) for i in range(degree + 2)]
    coefficients: list[mpfr] = []
    for _ in range(8):
        matrix = [[grid[g] ** i for i in range(degree + 1)] + [(-1) ** k / weights[g]] for k, g in enumerate(chosen)]
        coefficients = solution(matrix, [values[g] for g in chosen])[:-1]
        errors = [w * (horner(coefficients, x) - y) for x, y, w in zip(grid, values, weights, strict=True)]
        extrema = alternating_extrema(errors)
        while len(extrema) > degree + 2:  # drop the smaller end
            extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
        if len(extrema) < degree + 2:
            break
        chosen = extrema
    return coefficients


def alternating_extrema(errors: Sequence[mpfr]) -> list[int]:
    """Returns the place of the largest error in each run of one sign."""
    found: list[int] = []
    for i, e in enumerate(errors):
        if found and (e > 0) == (errors[found[-1]] > 0):
            if abs(e) > abs(errors[found[-1]]):
                found[-1] = i
        else:
            found.append(i)
    return found


def wrapped_comment(text: str, first: str, next: str) -> str:
    """Returns the text as comment lines of at most 116 characters, for the generated files."""
    return textwrap.fill(text, 116, initial_indent=first, subsequent_indent=next, break_long_words=False)
