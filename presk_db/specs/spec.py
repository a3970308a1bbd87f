"""Spec: what is asked for, from a TOML file, a model on disk or a Python file, with the command line's flags on top."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from presk_db.errors import SpecKeyUnknown, SpecUnreadable, SpecValueBad
from presk_db.lowering.realization import Realization, realization_from_toml, realization_of_type, with_parameters
from presk_db.models.training import MIXED

KEYS = (
    "model",
    "entry",
    "dims",
    "type",
    "realization",
    "weights",
    "inputs",
    "seed",
    "name",
    "remat",
    "plan",
    "params",
    "tokenizer",
)
"""The keys of a spec; each is a flag of `presk record` too."""

LONGEST = (4096, 200)
"""The most characters of a path or a word, and of a recording's name."""


@dataclass(frozen=True)
class Spec:
    """What is asked for. Paths are as the user typed them, relative to the spec's folder where the spec named them.

    `remat` says that gradients compute each layer's forward pass again instead of keeping its values.
    `plan` is a file with schedules. `tokenizer` is a path, `none`, or None for the default: a decode entry's model's own.
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
    plan: str | None = None
    tokenizer: str | None = None


def spec_from(target: str, flags: Mapping[str, Any]) -> Spec:
    """The spec that `target` names: a `.toml`, a model folder, `config.json`, `.gguf`, or `file.py:entry`.

    A Python file's model names its entry: `file.py` alone means `file.py:ENTRY` of the spec's entry.

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
    for key in values:
        _checked_key(values, key, place)
    for key in ("model", "weights", "inputs", "realization", "plan", "tokenizer"):
        if isinstance(values.get(key), str) and key not in flags and (key, values[key]) != ("tokenizer", "none"):
            values[key] = _located(values[key], base)
    if "type" in flags and "realization" not in flags:
        values.pop("realization", None)
    if "realization" in flags and "type" not in flags:
        values.pop("type", None)
    dims = {**_dims(values.pop("dims", {}), place), **_dims(flags.get("dims", {}), "command line")}
    given = {k: v for k, v in flags.items() if v is not None and k != "dims"}
    for key in given:
        _checked_key(given, key, "command line")
    values.update(given)
    model = values.get("model") or _missing("model", place)
    model, entry = _model_and_entry(model, values.get("entry"), "command line" if "entry" in given else place)
    return Spec(
        model=model,
        entry=entry,
        dims=dims,
        realization=_realization(values, "command line" if {"type", "realization", "params"} & set(given) else place),
        weights=values.get("weights"),
        inputs=values.get("inputs"),
        seed=values.get("seed", 1),
        name=values.get("name"),
        remat=values.get("remat", False),
        plan=values.get("plan"),
        tokenizer=values.get("tokenizer"),
    )


def seed_of(text: str, place: str) -> int | None:
    """N of `seed:N`; None for anything that does not begin so."""
    if not text.startswith("seed:"):
        return None
    digits = text.removeprefix("seed:")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 20:
        raise SpecValueBad(f"{text[:40]} is not seed: and a number below 2^63", place)
    return _integer(int(digits), place)


def _document(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (
        OSError,
        ValueError,
        RecursionError,
    ) as e:  # ValueError: TOML, UTF-8, a path or a number that Python refuses
        reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        raise SpecUnreadable(f"cannot read the spec: {reason}", path) from None


def _located(value: str, base: Path) -> str:
    if value.startswith("seed:") or Path(value).is_absolute() or base == Path():
        return value
    return str(base / value)


def _missing(key: str, place: str) -> str:
    raise SpecValueBad(f"{key} is missing", place)


def _checked_key(values: Mapping[str, Any], key: str, place: str) -> None:
    """Raises SpecValueBad (E1003) unless a value has its type: `seed` a number, `remat` a truth value, the others text."""
    value, at = values[key], f"{place} {key}"
    if key == "seed":
        _integer(value, at)
    elif key == "remat":
        if not isinstance(value, bool):
            raise SpecValueBad(f"must be true or false, not {value!r}", at)
    elif key != "dims":
        if not isinstance(value, str) or not value:
            raise SpecValueBad(f"must be a text, not {value!r}", at)
        if not value.isprintable():
            raise SpecValueBad(f"has a character that cannot be printed: {value!a}", at)
        if len(value) > LONGEST[key == "name"]:
            raise SpecValueBad(f"has {len(value)} characters; at most {LONGEST[key == 'name']} are read", at)


def _model_and_entry(model: str, entry: str | None, place: str) -> tuple[str, str]:
    """`file.py:entry` taken apart; the entry is `forward` where nothing names one."""
    path, colon, named = model.rpartition(":")
    if not colon or not path.endswith(".py"):
        return model, entry or "forward"
    if entry is not None and entry != named:
        raise SpecValueBad(f"the model names the entry {named}, the spec {entry}", f"{place} entry")
    return path, named


def _integer(value: Any, place: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise SpecValueBad(f"must be an integer from 0 to 2^63 - 1, not {value!r}", place)
    return value


def _dims(value: Any, place: str) -> dict[str, int]:
    if not isinstance(value, Mapping):
        raise SpecValueBad("must be a table of names and integers", f"{place} dims")
    return {str(k): _integer(v, f"{place} dims.{k}") for k, v in value.items()}


def _realization(values: Mapping[str, Any], place: str) -> Realization:
    found = _types(values, place)
    return with_parameters(found, values["params"], f"{place} params") if "params" in values else found


def _types(values: Mapping[str, Any], place: str) -> Realization:
    type_, path = values.get("type"), values.get("realization")
    if type_ is not None and path is not None:
        raise SpecValueBad("give a type or a realization, not both", f"{place} type")
    if type_ == "mixed":
        return Realization("f32", MIXED, lenient=True)
    return realization_from_toml(Path(path)) if path is not None else realization_of_type(type_ or "f32")
