"""The model families by `model_type`, and models from a user's Python file."""

import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from presk_db.errors import EntryBad, ModelUnknown, PreskError
from presk_db.language.graph import Input, Parameter
from presk_db.language.parameters import key_input
from presk_db.language.tracing import flatten
from presk_db.models import gpt2, llama
from presk_db.models.model import DERIVED, Entry, Model

FAMILIES = {"gpt2": gpt2.model_from_config, **dict.fromkeys(llama.FAMILIES, llama.model_from_config)}

MOST_POSITIONS = 2**20
"""The most tokens of a step of a user's entry."""

MOST_AXES = 8
MOST_ELEMENTS = 2**60
"""What a safetensors file and a 64-bit offset hold."""


def model_from_config(config: Mapping[str, Any], place: str = "config.json") -> Model:
    """The model that a Hugging Face config describes; ModelUnknown (E1004) for a family that presk does not have."""
    family = config.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        raise ModelUnknown(f"model_type {family!r} is not known; presk has {', '.join(sorted(FAMILIES))}", place)
    return FAMILIES[family](config, place)


def model_from_python(path: Path, entry: str) -> Model:
    """The model that a user's file defines: `DIMS` (name -> default), `parameters(dims)`, `inputs(dims)`, and the entry.

    A file with `forward` has the entries of `DERIVED` that it lacks, which follow from it, with the dimension C.
    Raises EntryBad (E1203) with the file's line where it cannot be imported or lacks one of them.
    """
    name = f"presk_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise EntryBad("the file does not exist or is no Python file", str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as e:
        raise EntryBad(f"importing it failed with {type(e).__name__}: {e}", _place(path, e)) from e
    derived = entry in DERIVED and not hasattr(module, entry) and hasattr(module, "forward")
    for needed in ("forward" if derived else entry, "parameters", "inputs"):
        if not inspect.isfunction(getattr(module, needed, None)):
            raise EntryBad(f"it has no function {needed}", path.name)
    found = Entry(_guarded(path, module.inputs, check_inputs), getattr(module, "forward" if derived else entry))
    return Model(
        path.stem,
        _guarded(path, module.parameters, check_parameters),
        {entry: DERIVED[entry](found, MOST_POSITIONS) if derived else found},
        {n: (d, 2**31) for n, d in _dims(getattr(module, "DIMS", {}), path.name).items()},
    )


def check_parameters(parameters: Any, place: str) -> None:
    """EntryBad (E1203) unless parameters are a tree of Parameter in which a tensor is always the same one."""
    seen: dict[str, tuple[object, ...]] = {}
    for name, p in flatten(parameters):
        if not isinstance(p, Parameter):
            raise EntryBad(
                f"parameters() must return a tree of parameter(...), but {name} is {type(p).__name__}", place
            )
        _check_name("parameter", name, place)
        _check_shape("parameter", name, p.shape, place)
        for source in p.sources:
            _check_name("tensor", source.name, place)
            what = (source.shape, p.low, p.high)
            if seen.setdefault(source.name, what) != what:
                raise EntryBad(f"the tensor {source.name} has two shapes or ranges", place)


def check_inputs(inputs: Any, place: str) -> None:
    """EntryBad (E1203) unless these are a mapping of names to Input, each of a kind, a shape and a limit that can be."""
    if not isinstance(inputs, Mapping) or not all(isinstance(i, Input) for i in inputs.values()):
        raise EntryBad("inputs() must return a mapping of names to inputs", place)
    for name, i in inputs.items():
        _check_name("input", name, place)
        if i.kind not in ("real", "int", "key") or (i.kind == "key" and i != key_input()):
            raise EntryBad(f"the input {name} needs the kind real, int or key", place)
        _check_shape("input", name, i.shape, place)
        if i.limit is not None and (type(i.limit) is not int or not 1 <= i.limit < 2**63):
            raise EntryBad(f"the limit of input {name} must be from 1 to 2^63 - 1", place)


def _check_name(what: str, name: object, place: str) -> None:
    if not isinstance(name, str) or not name or not name.isprintable() or name == "__metadata__" or len(name) > 500:
        raise EntryBad(f"a {what} cannot be called {ascii(name)[:80]}: give it a printable name", place)


def _check_shape(what: str, name: str, shape: tuple[int, ...], place: str) -> None:
    size = 1
    for n in shape:
        if type(n) is not int or n < 0:
            raise EntryBad(f"the shape of {what} {name} has the extent {n!r}; extents are whole numbers from 0", place)
        size *= max(n, 1)
    if len(shape) > MOST_AXES or size >= MOST_ELEMENTS:
        raise EntryBad(f"the shape of {what} {name} has too many axes or elements", place)


def _guarded(
    path: Path, fn: Callable[..., Any], check: Callable[[Any, str], None]
) -> Callable[[Mapping[str, int]], Any]:
    """The user's function of the dimensions, with its failures and wrong results as EntryBad (E1203)."""

    def call(dims: Mapping[str, int]) -> Any:
        try:
            result = fn(dims)
        except PreskError:
            raise
        except (Exception, SystemExit) as e:
            raise EntryBad(f"{fn.__name__} failed with {type(e).__name__}: {e}", _place(path, e)) from e
        check(result, f"{path.name}:{inspect.unwrap(fn).__code__.co_firstlineno}")
        return result

    return call


def _dims(dims: Any, place: str) -> dict[str, int]:
    if not isinstance(dims, Mapping) or not all(
        isinstance(n, str) and isinstance(d, int) and not isinstance(d, bool) and d > 0 for n, d in dims.items()
    ):
        raise EntryBad("DIMS must be a mapping of names to positive integers", place)
    return dict(dims)


def _place(path: Path, e: BaseException) -> str:
    line, tb = 0, e.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename in (str(path), str(path.absolute())):
            line = tb.tb_lineno
        tb = tb.tb_next
    return f"{path.name}:{getattr(e, 'lineno', None) or line}"
