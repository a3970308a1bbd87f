"""open_tokenizer: the tokenizer of a checkpoint, with its chat and the tokens at which an answer ends."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from presk_db.checkpoints.chat import chat_of
from presk_db.checkpoints.gguf import GgufFile
from presk_db.checkpoints.json_text import json_object
from presk_db.checkpoints.mapped import MappedFile
from presk_db.checkpoints.open import is_gguf
from presk_db.checkpoints.tokenizer import end_tokens, has_tokenizer, token_id, tokenizer_from_gguf
from presk_db.checkpoints.tokenizer_data import SPECIAL, TokenizerData
from presk_db.checkpoints.tokenizer_json import tokenizer_from_json
from presk_db.errors import CheckpointUnreadable, TokenizerBad

TOKENIZER = "tokenizer.json"
_LARGEST = 200_000_000  # bytes

Json = Mapping[str, Any]


def find_tokenizer(model: str) -> str | None:
    """The path of the tokenizer that a model folder or a GGUF file has; None where it has none."""
    if os.path.isdir(model):
        path = os.path.join(model, TOKENIZER)
        return path if os.path.lexists(path) else None
    return model if is_gguf(model) and has_tokenizer(GgufFile(model)) else None


def open_tokenizer(path: str) -> TokenizerData:
    """The tokenizer at `path`: a tokenizer.json with the files beside it, a folder that has one, or a GGUF file.

    Errors: CheckpointUnreadable (E1101), GgufMalformed (E1103), TokenizerBad (E1109).
    """
    if os.path.isdir(path):
        path = os.path.join(path, TOKENIZER)
    if is_gguf(path):
        return _from_gguf(GgufFile(path))
    return _from_files(path)


def _from_gguf(file: GgufFile) -> TokenizerData:
    data = tokenizer_from_json(tokenizer_from_gguf(file), file.file.shown)

    def text(word: str) -> str:
        id_ = token_id(file, word)
        return "" if id_ is None or id_ >= len(data.texts) else data.texts[id_].decode("utf-8", "replace")

    template = file.metadata.get("tokenizer.chat_template")
    return _with_chat(data, end_tokens(file), template, text("bos"), text("eos"), file.file.shown)


def _from_files(path: str) -> TokenizerData:
    folder = os.path.dirname(path)
    data = tokenizer_from_json(_object(path), path)
    config = _object_if_there(os.path.join(folder, "tokenizer_config.json"))
    ids = {a.text.decode("utf-8"): a.id for a in data.added}
    stops: Any = None
    for name in ("generation_config.json", "config.json"):
        stops = stops if stops is not None else _object_if_there(os.path.join(folder, name)).get("eos_token_id")
    if stops is None:
        stops = ids.get(_named_token(config, "eos_token"))
    listed = stops if isinstance(stops, list) else [] if stops is None else [stops]
    template = config.get("chat_template")
    if isinstance(template, list):  # several, by name
        named = {t.get("name"): t.get("template") for t in template if isinstance(t, dict)}
        template = named.get("default")
    beside = os.path.join(folder, "chat_template.jinja")
    if template is None and os.path.lexists(beside):
        template = _text(beside)
    return _with_chat(
        data, listed, template, _named_token(config, "bos_token"), _named_token(config, "eos_token"), path
    )


def _with_chat(data: TokenizerData, stops: list[Any], template: Any, bos: str, eos: str, shown: str) -> TokenizerData:
    """The tokenizer with its stops, and with its chat where the template is one that texts around messages can say.

    The special token that ends an assistant's message is a stop too.
    """
    for id_ in stops:
        if type(id_) is not int or not 0 <= id_ < len(data.texts):
            raise TokenizerBad(f"the end of a text is {id_!r}, which is no token of it", f"{shown} eos_token_id")
    if template is None:
        return replace(data, stops=tuple(dict.fromkeys(stops)))
    if not isinstance(template, str):
        raise TokenizerBad("must be a text", f"{shown} chat_template")
    chat = chat_of(template, bos, eos)
    if isinstance(chat, str):
        return replace(data, stops=tuple(dict.fromkeys(stops)), no_chat=chat)
    end = chat.after[2].encode()
    ends = [a.id for a in data.added if data.kinds[a.id] & SPECIAL and end.startswith(a.text)]
    return replace(data, stops=tuple(dict.fromkeys([*stops, *ends])), chat=chat)


def _named_token(config: Json, key: str) -> str:
    """A token's text, which stands there as text or as an object with its content."""
    value = config.get(key)
    value = value.get("content") if isinstance(value, Mapping) else value
    return value if isinstance(value, str) else ""


def _object(path: str) -> Json:
    return json_object(_contents(path), path, TokenizerBad)


def _object_if_there(path: str) -> Json:
    return _object(path) if os.path.lexists(path) else {}


def _text(path: str) -> str:
    try:
        return _contents(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise TokenizerBad("is not UTF-8 text", f"{path} byte {error.start}") from error


def _contents(path: str) -> bytes:
    file = MappedFile(path)
    if file.size > _LARGEST:
        raise CheckpointUnreadable(f"has {file.size} bytes; more than {_LARGEST} are not read", path)
    return file.content()
