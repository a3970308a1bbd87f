"""The elementwise functions by name: an equation of one primitive each."""

from typing import Any

from presk_db.language.primitives import binary, compare, unary
from presk_db.language.tracing import Tensor


def exp(x: Tensor) -> Tensor:
    """e^x."""
    return unary("exp", x)


def expm1(x: Tensor) -> Tensor:
    """e^x - 1."""
    return unary("expm1", x)


def log(x: Tensor) -> Tensor:
    """The natural logarithm."""
    return unary("log", x)


def log1p(x: Tensor) -> Tensor:
    """log(1 + x)."""
    return unary("log1p", x)


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return unary("tanh", x)


def sin(x: Tensor) -> Tensor:
    """The sine of x radians."""
    return unary("sin", x)


def cos(x: Tensor) -> Tensor:
    """The cosine of x radians."""
    return unary("cos", x)


def erf(x: Tensor) -> Tensor:
    """The error function."""
    return unary("erf", x)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e^-x)."""
    return unary("sigmoid", x)


def silu(x: Tensor) -> Tensor:
    """x / (1 + e^-x)."""
    return unary("silu", x)


def gelu(x: Tensor) -> Tensor:
    """x Φ(x), the exact one."""
    return unary("gelu", x)


def sqrt(x: Tensor) -> Tensor:
    """The square root."""
    return unary("sqrt", x)


def absolute(x: Tensor) -> Tensor:
    """|x|."""
    return unary("abs", x)


def maximum(a: Any, b: Any) -> Tensor:
    """a where a > b, else b."""
    return binary("maximum", a, b)


def minimum(a: Any, b: Any) -> Tensor:
    """a where a < b, else b."""
    return binary("minimum", a, b)


def equal(a: Any, b: Any) -> Tensor:
    """Where two reals or two integers are equal."""
    return compare("eq", a, b)
