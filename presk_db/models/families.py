"""The model families by `model_type`, and models from a user's Python file."""

import importlib.util
import inspect
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
    if spec is None or spec.loader is None or not path.is_file():
        raise EntryBad("the file does not exist or is no Python file", str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as e:
        raise EntryBad(f"importing it failed with {type(e).__name__}: {e}", _place(path, e)) from e
    for needed in (entry, "parameters", "inputs"):
        if not inspect.isfunction(getattr(module, needed, None)):
            raise EntryBad(f"it has no function {needed}", path.name)
    return Model(
        path.stem,
        _guarded(path, module.parameters, check_parameters),
        {entry: Entry(_guarded(path, module.inputs, check_inputs), getattr(module, entry))},
        {n: (d, 2**31) for n, d in _dims(getattr(module, "DIMS", {}), path.name).items()},
    )


def check_parameters(parameters: Any, place: str) -> None:
    """EntryBad (E1203) unless these are a tree of Parameter."""
    if not all(isinstance(p, Parameter) for _, p in flatten(parameters)):
        raise EntryBad("parameters() must return a tree of parameter(...)", place)


def check_inputs(inputs: Any, place: str) -> None:
    """EntryBad (E1203) unless these are a mapping of names to Input, each of a kind and extents that are not negative."""
    if not isinstance(inputs, Mapping) or not all(isinstance(i, Input) for i in inputs.values()):
        raise EntryBad("inputs() must return a mapping of names to inputs", place)
    for name, i in inputs.items():
        if i.kind not in ("real", "int") or not all(isinstance(n, int) and n >= 0 for n in i.shape):
            raise EntryBad(f"the input {name} needs the kind real or int and extents that are not negative", place)


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
        if tb.tb_frame.f_code.co_filename == str(path):
            line = tb.tb_lineno
        tb = tb.tb_next
    return f"{path.name}:{getattr(e, 'lineno', None) or line}"
