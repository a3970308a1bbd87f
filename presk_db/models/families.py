"""The model families by `model_type`, and models from a user's Python file."""

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from presk_db.errors import EntryBad, ModelUnknown
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
    except Exception as e:
        raise EntryBad(f"importing it failed with {type(e).__name__}: {e}", _place(path, e)) from e
    for needed in (entry, "parameters", "inputs"):
        if not callable(getattr(module, needed, None)):
            raise EntryBad(f"it has no function {needed}", path.name)
    defaults: dict[str, int] = getattr(module, "DIMS", {})
    return Model(
        path.stem,
        module.parameters,
        {entry: Entry(module.inputs, getattr(module, entry))},
        {n: (d, 2**31) for n, d in defaults.items()},
    )


def check_user_model(parameters: Any, inputs: Any, place: str) -> None:
    """EntryBad (E1203) unless parameters are a tree of Parameter and inputs a mapping of names to Input."""
    if not all(isinstance(p, Parameter) for _, p in flatten(parameters)):
        raise EntryBad("parameters() must return a tree of parameter(...)", place)
    if not isinstance(inputs, Mapping) or not all(isinstance(i, Input) for i in inputs.values()):
        raise EntryBad("inputs() must return a mapping of names to inputs", place)


def _place(path: Path, e: BaseException) -> str:
    line, tb = 0, e.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == str(path):
            line = tb.tb_lineno
        tb = tb.tb_next
    return f"{path.name}:{getattr(e, 'lineno', None) or line}"
