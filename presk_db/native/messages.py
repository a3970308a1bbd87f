"""read_messages: the messages of a conversation from JSON, read by the C that the emitted programs have."""

from typing import cast

from presk_db.errors import InputBad
from presk_db.native.tokenizer import Role, tokenizer_library

Message = tuple[Role, bytes]
"""Whose, and its UTF-8."""

_NAMES: tuple[Role, ...] = ("system", "user", "assistant")


def read_messages(data: bytes, shown: str) -> tuple[Message, ...]:
    """The messages of a list such as [{"role": "user", "content": "Hi"}]: a system message or none, then user and
    assistant in turns, the user last.

    Raises InputBad (E1205), which names the byte of `shown`, where it is something else.
    """
    ffi, lib = tokenizer_library()
    error, found = ffi.new("presk_error *"), ffi.new("presk_messages *")
    try:
        if not lib.presk_messages_read(found, data, len(data), shown.encode("utf-8", "surrogateescape"), error):
            raise InputBad(ffi.string(error.text).decode("utf-8", "replace"))
        text = bytes(ffi.buffer(found.text.bytes, found.text.count)) if found.text.count else b""
        listed = [found.list[i] for i in range(found.count)]
        return tuple(cast("Message", (_NAMES[m.role], text[m.at : m.at + m.size])) for m in listed)
    finally:
        lib.presk_messages_free(found)
