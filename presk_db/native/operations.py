"""The elementwise operations of kernels as functions of NumPy arrays; only exact NumPy operations are used."""

from collections.abc import Callable
from typing import Any

import numpy as np

from presk_db.kernels.ir import FUNCTIONS
from presk_db.native.fma import fma
from presk_db.native.functions import function
from presk_db.native.numbers import Array, converted

UFUNCS: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "abs": np.absolute,
    "sqrt": np.sqrt,
}
"""Arithmetic that is one NumPy ufunc and so can write into an array that is given."""


def _maximum(a: Array, b: Array) -> Array:
    return np.where(a > b, a, b)


def _minimum(a: Array, b: Array) -> Array:
    return np.where(a < b, a, b)


_OTHERS: dict[str, Callable[..., Array]] = {
    "max": _maximum,
    "min": _minimum,
    "fma": fma,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "select": np.where,
}


def operation(op: str, type_: str) -> Callable[..., Array]:
    """The function of an `Op` statement: arrays of its operands to an array of its result."""
    if op in UFUNCS:
        ufunc: Callable[..., Array] = UFUNCS[op]
        return ufunc
    if op in FUNCTIONS:
        return function(op, type_)
    if op == "cvt":
        return lambda array: converted(array, type_)
    return _OTHERS[op]
