"""Affine expressions of loop variables and run-time integers: indices, extents, addresses."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Affine:
    """`const + sum(coefficient * name)`; terms are sorted by name and never zero, so equal values compare equal."""

    terms: tuple[tuple[str, int], ...] = ()
    const: int = 0

    @staticmethod
    def of(terms: Mapping[str, int] | Iterable[tuple[str, int]], const: int = 0) -> "Affine":
        """The expression with these terms: equal names are added, zero terms dropped."""
        total: dict[str, int] = {}
        for name, coefficient in terms.items() if isinstance(terms, Mapping) else terms:
            total[name] = total.get(name, 0) + coefficient
        return Affine(tuple(sorted((n, c) for n, c in total.items() if c)), const)

    @staticmethod
    def var(name: str) -> "Affine":
        """The expression that is one name."""
        return Affine(((name, 1),))

    def __add__(self, other: "Affine | int") -> "Affine":
        if isinstance(other, int):
            return Affine(self.terms, self.const + other)
        return Affine.of((*self.terms, *other.terms), self.const + other.const)

    def __mul__(self, factor: int) -> "Affine":
        return Affine.of(((n, c * factor) for n, c in self.terms), self.const * factor)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that occur, sorted."""
        return tuple(n for n, _ in self.terms)

    @property
    def is_const(self) -> bool:
        """Whether no name occurs."""
        return not self.terms

    def coefficient(self, name: str) -> int:
        """The factor of `name`, 0 where it does not occur."""
        return dict(self.terms).get(name, 0)

    def renamed(self, names: Mapping[str, str]) -> "Affine":
        """The same expression with other names."""
        return Affine.of(((names.get(n, n), c) for n, c in self.terms), self.const)

    def range(self, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
        """The smallest and largest value, given each name's inclusive range."""
        low = high = self.const
        for name, coefficient in self.terms:
            a, b = ranges[name]
            low += coefficient * (a if coefficient > 0 else b)
            high += coefficient * (b if coefficient > 0 else a)
        return low, high

    def value(self, values: Mapping[str, int]) -> int:
        """The value, given each name's."""
        return self.const + sum(c * values[n] for n, c in self.terms)

    def __str__(self) -> str:
        parts = [n if c == 1 else f"{c}*{n}" for n, c in self.terms]
        if self.const or not parts:
            parts.append(str(self.const))
        return "+".join(parts).replace("+-", "-")


def delinearized(
    address: Affine, shape: tuple[int, ...], ranges: Mapping[str, tuple[int, int]]
) -> tuple[Affine, ...] | None:
    """The row-major index of `address` in an array of `shape`, an affine expression an axis, or None.

    Each name must have a range from 0. The parts that an axis' stride divides go to that axis; what is left must be
    smaller than the stride, so that no carry can happen; else there is no affine index and None comes back.
    """
    index: list[Affine] = []
    rest = address
    stride = 1
    for n in shape:
        stride *= n
    for n in shape:
        stride = stride // n if n else 0
        if stride == 0:
            return None
        whole = Affine.of(((v, c // stride) for v, c in rest.terms if c % stride == 0), rest.const // stride)
        rest = Affine.of(((v, c) for v, c in rest.terms if c % stride), rest.const % stride)
        low, high = rest.range(ranges)
        if low < 0 or high >= stride:
            return None
        index.append(whole)
    if not rest.is_const or rest.const:
        return None
    for axis, expression in zip(shape, index, strict=True):
        low, high = expression.range(ranges)
        if low < 0 or high >= axis:
            return None
    return tuple(index)
