"""TokenizerData: a byte-level BPE as plain data, and the compact file that the C tokenizer reads."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass

PRE_TOKENIZERS = {"gpt2": 1, "smollm": 2, "llama3": 3, "qwen2": 4}
"""The ways of cutting a text into pieces, and their numbers in the file."""

MAGIC, VERSION = b"PRESKTOK", 1
NO_TOKEN = 0xFFFFFFFF
USED, WORD, SPECIAL = 1, 2, 4
"""Kinds of a token, as bits: it has an id; its name is made of byte letters; it is special."""
_NFC, _WHOLE_WORDS, _CHATS, _CHAT_TRIMS = 1, 2, 4, 8


@dataclass(frozen=True)
class Added:
    """An added token: found in a text before it is cut, and before it is normalized unless `normalized`."""

    id: int
    text: bytes
    normalized: bool


@dataclass(frozen=True)
class Chat:
    """How a chat is written as text: `before` and `after` a message of the system, the user and the assistant.

    `default` stands before the first message where the user gives no system message, `answer` at the end. `trims` says
    that white space around a message goes.
    """

    before: tuple[str, str, str]
    after: tuple[str, str, str]
    default: str
    answer: str
    trims: bool


@dataclass(frozen=True)
class TokenizerData:
    """A tokenizer: everything that text and token ids depend on.

    `texts` and `kinds` go by id; `byte_tokens` is the token of each single byte, None where it has none; `merges` are
    (left, right, result) by rank; `before` and `after` are the ids around a whole text; `stops` end an answer.
    `chat` is None where the checkpoint has no template that presk can write down, and then `no_chat` says why.
    """

    pre_tokenizer: str
    nfc: bool
    whole_words: bool
    texts: tuple[bytes, ...]
    kinds: bytes
    byte_tokens: tuple[int | None, ...]
    merges: tuple[tuple[int, int, int], ...]
    added: tuple[Added, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    stops: tuple[int, ...] = ()
    chat: Chat | None = None
    no_chat: str = "the checkpoint has no chat template"


def tokenizer_bytes(data: TokenizerData) -> bytes:
    """The compact file, as docs/generation.md describes it."""
    sets = [sorted((a for a in data.added if a.normalized == late), key=lambda a: a.text) for late in (False, True)]
    added = [a for group in sets for a in group]
    chat = _chat_texts(data)
    texts = [*data.texts, *(a.text for a in added), *chat]
    ends, at = [], 0
    for text in texts:
        at += len(text)
        ends.append(at)
    chat_start = len(data.texts) + len(added)
    flags = _NFC * data.nfc | _WHOLE_WORDS * data.whole_words | _CHATS * (data.chat is not None)
    flags |= _CHAT_TRIMS * (data.chat is not None and data.chat.trims)
    header = (VERSION, PRE_TOKENIZERS[data.pre_tokenizer], flags, len(data.texts), len(data.merges))
    counts = (len(sets[0]), len(sets[1]), len(data.before), len(data.after), len(data.stops), at)
    words = [
        *header,
        *counts,
        *(NO_TOKEN if token is None else token for token in data.byte_tokens),
        *ends[: len(data.texts)],
        *(id_ for merge in data.merges for id_ in merge),
        *(a.id for a in added),
        *ends[len(data.texts) : chat_start],
        *data.before,
        *data.after,
        *data.stops,
        *ends[chat_start:],
    ]
    return MAGIC + _words(words) + data.kinds + b"".join(texts)


def _words(values: Iterable[int]) -> bytes:
    listed = list(values)
    return struct.pack(f"<{len(listed)}I", *listed)


def _chat_texts(data: TokenizerData) -> list[bytes]:
    chat = data.chat
    if chat is None:
        return [data.no_chat.encode(), *[b""] * 8]
    return [text.encode() for text in ("", *chat.before, *chat.after, chat.default, chat.answer)]
