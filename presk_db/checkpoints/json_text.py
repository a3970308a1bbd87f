"""JSON objects from bytes, strictly: no duplicate key, no NaN or infinity, no text that is not Unicode."""

import json
import math
from typing import Any, NoReturn

from presk_db.errors import PreskError


class _Refused(ValueError):
    """A value that the JSON grammar, or Python's extension of it, lets pass, but presk does not."""


def json_object(data: bytes, shown: str, failure: type[PreskError], start: int = 0) -> dict[str, Any]:
    """The object that `data` spells; `start` is the byte of the file `shown` at which `data` begins.

    Errors: `failure`, with a place such as `config.json byte 17`, for anything but one object in strict JSON.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise failure("is not UTF-8 text", f"{shown} byte {start + error.start}") from error
    try:
        value = json.loads(
            text, object_pairs_hook=_object_without_duplicates, parse_constant=_refuse_constant, parse_float=_finite
        )
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        byte = start + len(text[: error.pos].encode("utf-8"))
        where = f"{shown} byte {byte}" if start else f"{shown} line {error.lineno} byte {byte}"
        raise failure(f"is not valid JSON: {error.msg.lower()}", where) from error
    except UnicodeEncodeError as error:
        raise failure("holds a string with half of a surrogate pair", _at(shown, start)) from error
    except RecursionError as error:
        raise failure("nests JSON values too deeply", _at(shown, start)) from error
    except ValueError as error:  # includes integers of thousands of digits
        said = str(error) if isinstance(error, _Refused) else "holds a number that is too long"
        raise failure(said, _at(shown, start)) from error
    if not isinstance(value, dict):
        raise failure("is not a JSON object", f"{shown} byte {start}")
    return value


def _at(shown: str, start: int) -> str:
    return f"{shown} byte {start}"


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Refused(f"has the key {json.dumps(key)} twice in one object")
            seen.add(key)
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise _Refused(f"holds {name}, which is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Refused(f"holds {text[:40]}, which is beyond the largest number")
    return value
