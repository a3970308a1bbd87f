"""Tokenizer: the C tokenizer through cffi, from the bytes that a recording holds. The emitted programs use the same."""

from functools import lru_cache
from typing import Any, Literal

import cffi
import numpy as np

from presk_db.errors import InputBad, TokenizerBad
from presk_db.native.compiler import shared_library
from presk_db.native.numbers import Array

_DECLARATIONS = """
typedef struct { int code; char text[496]; } presk_error;
typedef struct presk_tokenizer presk_tokenizer;
typedef struct { int64_t *ids; size_t count, capacity; } presk_ids;
typedef struct { char *bytes; size_t count, capacity; } presk_bytes;
typedef struct { unsigned char held[4]; size_t count; bool special; } presk_text;
void presk_ids_free(presk_ids *);
void presk_bytes_free(presk_bytes *);
presk_tokenizer *presk_tokenizer_new(const void *, size_t, const char *, presk_error *);
void presk_tokenizer_close(presk_tokenizer *);
int64_t presk_tokenizer_count(const presk_tokenizer *);
bool presk_text_check(const char *, size_t, presk_error *);
bool presk_tokenizer_encode(const presk_tokenizer *, const char *, size_t, bool, presk_ids *, presk_error *);
bool presk_tokenizer_decode(const presk_tokenizer *, presk_text *, int64_t, presk_bytes *);
bool presk_text_end(presk_text *, presk_bytes *);
bool presk_tokenizer_stops(const presk_tokenizer *, int64_t);
bool presk_tokenizer_chats(const presk_tokenizer *, presk_error *);
bool presk_chat_begin(const presk_tokenizer *, const char *, size_t, presk_bytes *);
bool presk_chat_message(const presk_tokenizer *, int, const char *, size_t, presk_bytes *);
bool presk_chat_answer(const presk_tokenizer *, presk_bytes *);
typedef struct { int role; size_t at, size; } presk_message;
typedef struct { presk_message *list; size_t count, capacity; presk_bytes text; } presk_messages;
bool presk_messages_read(presk_messages *, const char *, size_t, const char *, presk_error *);
void presk_messages_free(presk_messages *);
"""
_SOURCE = '#include "presk_chat.h"\n'
_ROLES = {"system": 0, "user": 1, "assistant": 2}

Role = Literal["system", "user", "assistant"]


@lru_cache(maxsize=1)
def tokenizer_library() -> tuple[Any, Any]:
    """cffi's interface and the library of texts, tokens and conversations. Errors: CompilerFailed (E4002)."""
    ffi = cffi.FFI()
    ffi.cdef(_DECLARATIONS)
    return ffi, ffi.dlopen(str(shared_library(_SOURCE, folder="generate")))


class TextStream:
    """A text that comes token by token; only whole characters come out."""

    def __init__(self, tokenizer: "Tokenizer", special: bool) -> None:
        self._tokenizer = tokenizer
        self._text = tokenizer.ffi.new("presk_text *", {"special": special})

    def add(self, token: int) -> str:
        """What the token completes of the text."""
        return self._tokenizer.taken(
            lambda t, out: self._tokenizer.lib.presk_tokenizer_decode(t, self._text, int(token), out)
        )

    def end(self) -> str:
        """The end of the text: U+FFFD for a character that was begun."""
        return self._tokenizer.taken(lambda _, out: self._tokenizer.lib.presk_text_end(self._text, out))


class Tokenizer:
    """A tokenizer in memory: `count` is the number of its ids."""

    def __init__(self, data: bytes, shown: str = "tokenizer") -> None:
        """Reads the compact file's bytes. Errors: TokenizerBad (E1109), CompilerFailed (E4002)."""
        self.ffi, self.lib = tokenizer_library()
        error = self.ffi.new("presk_error *")
        made = self.lib.presk_tokenizer_new(data, len(data), shown.encode(), error)
        if made == self.ffi.NULL:
            raise TokenizerBad(self._said(error))
        self._tokenizer = self.ffi.gc(made, self.lib.presk_tokenizer_close)
        self.count = int(self.lib.presk_tokenizer_count(made))

    def encoded(self, text: bytes, whole: bool = True) -> Array:
        """The tokens of a text: (n,) int64. `whole`: with what the tokenizer puts around a text.

        Errors: InputBad (E1205) for bytes that are not UTF-8.
        """
        error = self.ffi.new("presk_error *")
        ids = self.ffi.new("presk_ids *")
        try:
            if not self.lib.presk_tokenizer_encode(self._tokenizer, text, len(text), whole, ids, error):
                raise InputBad(self._said(error))
            raw = bytes(self.ffi.buffer(ids.ids, 8 * ids.count)) if ids.count else b""
            return np.frombuffer(raw, np.int64)
        finally:
            self.lib.presk_ids_free(ids)

    def stream(self, special: bool = False) -> TextStream:
        """A text to be decoded token by token; `special`: with special tokens."""
        return TextStream(self, special)

    def decoded(self, tokens: Array, special: bool = False) -> str:
        """The text of tokens (n,)."""
        stream = self.stream(special)
        return "".join([stream.add(int(token)) for token in tokens]) + stream.end()

    def stops(self, token: int) -> bool:
        """Whether the checkpoint ends a text with this token."""
        return bool(self.lib.presk_tokenizer_stops(self._tokenizer, int(token)))

    def check_chats(self) -> None:
        """Raises TokenizerBad (E1109), with the reason, where the checkpoint has no chat template to write with."""
        error = self.ffi.new("presk_error *")
        if not self.lib.presk_tokenizer_chats(self._tokenizer, error):
            raise TokenizerBad(self._said(error))

    def chat_begin(self, system: bytes | None) -> str:
        """What stands before the first message of a chat, with a system message or the template's own.

        Errors: InputBad (E1205) for bytes that are not UTF-8.
        """
        given = b"" if system is None else self._checked(system)
        text = self.ffi.NULL if system is None else self.ffi.from_buffer(given)
        return self.taken(lambda t, out: self.lib.presk_chat_begin(t, text, len(given), out))

    def chat_message(self, role: Role, content: bytes) -> str:
        """A message as the template writes it. Errors: InputBad (E1205) for bytes that are not UTF-8."""
        given = self._checked(content)
        return self.taken(lambda t, out: self.lib.presk_chat_message(t, _ROLES[role], given, len(given), out))

    def chat_answer(self) -> str:
        """What makes the model answer."""
        return self.taken(lambda t, out: self.lib.presk_chat_answer(t, out))

    def taken(self, write: Any) -> str:
        """The text that a function of C adds to its output."""
        out = self.ffi.new("presk_bytes *")
        try:
            if not write(self._tokenizer, out):
                raise MemoryError("for the text of a token")
            return bytes(self.ffi.buffer(out.bytes, out.count)).decode() if out.count else ""
        finally:
            self.lib.presk_bytes_free(out)

    def _checked(self, text: bytes) -> bytes:
        error = self.ffi.new("presk_error *")
        if not self.lib.presk_text_check(text, len(text), error):
            raise InputBad(self._said(error))
        return text

    def _said(self, error: Any) -> str:
        return str(self.ffi.string(error.text).decode("utf-8", "replace"))
