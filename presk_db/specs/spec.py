"""Spec: what is asked for, from a TOML file, a model on disk or a Python file, with the command line's flags on top."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from presk_db.errors import SpecKeyUnknown, SpecUnreadable, SpecValueBad
from presk_db.lowering.realization import Realization, realization_from_toml, realization_of_type
from presk_db.models.training import MIXED

KEYS = ("model", "entry", "dims", "type", "realization", "weights", "inputs", "seed", "name", "remat")
"""The keys of a spec; each is a flag of `presk record` too."""


@dataclass(frozen=True)
class Spec:
    """What is asked for. Paths are as the user typed them, relative to the spec's folder where the spec named them.

    `remat` says that gradients compute each layer's forward pass again instead of keeping its values.
    `weights` and `inputs` are `seed:N`, a path, or None for the default: a model's own weights, else `seed:` and `seed`.
    """

    model: str
    entry: str
    dims: Mapping[str, int]
    realization: Realization
    weights: str | None
    inputs: str | None
    seed: int
    name: str | None
    remat: bool = False


def spec_from(target: str, flags: Mapping[str, Any]) -> Spec:
    """The spec that `target` names: a `.toml`, a model folder, `config.json`, `.gguf`, or `file.py:entry`.

    `flags` holds values by key and wins over the file. Raises E1001 for a file that cannot be read, E1002 for an unknown
    key, E1003 for a bad value, E3001 and E3003 for the realization.
    """
    values: dict[str, Any] = {"model": target}
    base, place = Path(), "command line"
    if target.endswith(".toml"):
        values, base, place = _document(target), Path(target).parent, target
    for key in values:
        if key not in KEYS:
            raise SpecKeyUnknown(f"unknown key {key}; a spec has {', '.join(KEYS)}", place)
    for key in ("model", "weights", "inputs", "realization"):
        if isinstance(values.get(key), str) and key not in flags:
            values[key] = _located(values[key], base)
    if "type" in flags and "realization" not in flags:
        values.pop("realization", None)
    if "realization" in flags and "type" not in flags:
        values.pop("type", None)
    dims = {**_dims(values.pop("dims", {}), place), **_dims(flags.get("dims", {}), "command line")}
    values.update({k: v for k, v in flags.items() if v is not None and k != "dims"})
    return Spec(
        model=_text(values, "model", place) or _missing("model", place),
        entry=_text(values, "entry", place) or "forward",
        dims=dims,
        realization=_realization(values, place),
        weights=_text(values, "weights", place),
        inputs=_text(values, "inputs", place),
        seed=_integer(values.get("seed", 1), f"{place} seed"),
        name=_text(values, "name", place),
        remat=_flag(values.get("remat", False), f"{place} remat"),
    )


def seed_of(text: str, place: str) -> int | None:
    """N of `seed:N`; None for anything that does not begin so."""
    if not text.startswith("seed:"):
        return None
    digits = text.removeprefix("seed:")
    if not digits.isascii() or not digits.isdigit():
        raise SpecValueBad(f"{text} is not seed: and a number", place)
    return _integer(int(digits), place)


def _document(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        raise SpecUnreadable(f"cannot read the spec: {reason}", path) from None


def _located(value: str, base: Path) -> str:
    if value.startswith("seed:") or Path(value).is_absolute() or base == Path():
        return value
    return str(base / value)


def _missing(key: str, place: str) -> str:
    raise SpecValueBad(f"{key} is missing", place)


def _text(values: Mapping[str, Any], key: str, place: str) -> str | None:
    value = values.get(key)
    if value is not None and (not isinstance(value, str) or not value):
        raise SpecValueBad(f"must be a text, not {value!r}", f"{place} {key}")
    return value


def _integer(value: Any, place: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise SpecValueBad(f"must be an integer from 0 to 2^63 - 1, not {value!r}", place)
    return value


def _flag(value: Any, place: str) -> bool:
    if not isinstance(value, bool):
        raise SpecValueBad(f"must be true or false, not {value!r}", place)
    return value


def _dims(value: Any, place: str) -> dict[str, int]:
    if not isinstance(value, Mapping):
        raise SpecValueBad("must be a table of names and integers", f"{place} dims")
    return {str(k): _integer(v, f"{place} dims.{k}") for k, v in value.items()}


def _realization(values: Mapping[str, Any], place: str) -> Realization:
    type_, path = _text(values, "type", place), _text(values, "realization", place)
    if type_ is not None and path is not None:
        raise SpecValueBad("give a type or a realization, not both", f"{place} type")
    if type_ == "mixed":
        return Realization("f32", MIXED, lenient=True)
    return realization_from_toml(Path(path)) if path is not None else realization_of_type(type_ or "f32")
