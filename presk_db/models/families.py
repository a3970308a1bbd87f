"""The model families by `model_type`, and models from a user's Python file."""

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from presk_db.errors import EntryBad, ModelUnknown, PreskError
from presk_db.language.graph import Input, Parameter
from presk_db.language.tracing import flatten
from presk_db.models import gpt2, llama
from presk_db.models.model import Entry, Model

FAMILIES = {"gpt2": gpt2.model_from_config, **dict.fromkeys(llama.FAMILIES, llama.model_from_config)}

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
    for needed in (entry, "parameters", "inputs"):
        if not callable(getattr(module, needed, None)):
            raise EntryBad(f"it has no function {needed}", path.name)
    defaults = getattr(module, "DIMS", {})
    if not isinstance(defaults, dict) or not all(isinstance(n, str) and type(d) is int for n, d in defaults.items()):
        raise EntryBad("DIMS must map names to whole numbers", path.name)

    def parameters(dims: Mapping[str, int]) -> Any:
        found = _called(path, module.parameters, dims)
        check_user_parameters(found, path.name)
        return found

    def inputs(dims: Mapping[str, int]) -> dict[str, Input]:
        found = _called(path, module.inputs, dims)
        check_user_inputs(found, path.name)
        return dict(found)

    return Model(
        path.stem,
        parameters,
        {entry: Entry(inputs, getattr(module, entry))},
        {n: (d, 2**31) for n, d in defaults.items()},
    )


def _called(path: Path, function: Callable[[Mapping[str, int]], Any], dims: Mapping[str, int]) -> Any:
    try:
        return function(dims)
    except (PreskError, KeyboardInterrupt):
        raise
    except (Exception, SystemExit) as e:
        said = f"{function.__name__}() failed with {type(e).__name__}: {e}"
        raise EntryBad(said, _place(path, e)) from e


def check_user_parameters(parameters: Any, place: str) -> None:
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


def check_user_inputs(inputs: Any, place: str) -> None:
    """EntryBad (E1203) unless inputs are a mapping of names to Input."""
    if not isinstance(inputs, Mapping) or not all(isinstance(i, Input) for i in inputs.values()):
        raise EntryBad("inputs() must return a mapping of names to inputs", place)
    for name, i in inputs.items():
        _check_name("input", name, place)
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


def _place(path: Path, e: BaseException) -> str:
    line, tb = 0, e.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename in (str(path), str(path.absolute())):
            line = tb.tb_lineno
        tb = tb.tb_next
    return f"{path.name}:{getattr(e, 'lineno', None) or line}"
