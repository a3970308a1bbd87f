"""`presk generate`: from a prompt to a text on the native executor; the options are those of the emitted `generate`."""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from presk_db.conformance.generate import Generator, Request
from presk_db.errors import InputBad
from presk_db.native.messages import Message, read_messages
from presk_db.native.sampling import Sampling
from presk_db.store.engine import open_database
from presk_db.store.recordings import find_recording

_LARGEST = 2**63 - 1
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan)", re.ASCII | re.IGNORECASE)


def _natural(most: int) -> Callable[[click.Context, click.Parameter, str], int]:
    """Reads a whole number up to `most` as the emitted program does; E1205 for anything but digits."""

    def read(context: click.Context, option: click.Parameter, text: str) -> int:
        if not (text.isascii() and text.isdigit() and int(text) <= most):
            raise InputBad(f"must be a whole number from 0 to {most}", option.opts[0])
        return int(text)

    return read


def _real(context: click.Context, option: click.Parameter, text: str) -> float:
    """Reads a decimal number as the emitted program does; E1205 for anything else. Its range is the sampling's to check."""
    if not _NUMBER.fullmatch(text):
        raise InputBad("is no number", option.opts[0])
    return float(text)


def _number(*names: str, default: str, read: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    """An option with a number."""
    return click.option(*names, default=default, callback=read, metavar="N", show_default=True, **more)


def generate_command(cli: click.Group, db_option: Callable[..., Any]) -> None:
    """Adds the command to `cli`."""

    @cli.command()
    @click.argument("recording")
    @click.option("-w", "--weights", help="The checkpoint, where it is no longer where it was recorded.")
    @click.option("-p", "text", help="The prompt.")
    @click.option("-f", "file", help="The prompt is the content of a file; - is the standard input.")
    @click.option("--ids", help="The prompt as token ids, such as '1 2 3'.")
    @click.option("--messages", help='The prompt is a conversation: a file [{"role": "user", "content": "Hi"}, ...].')
    @click.option(
        "--chat",
        is_flag=True,
        help="The prompt is a user's message, written as the checkpoint's chats are; without one, every line of the "
        "standard input is a message of one conversation.",
    )
    @click.option("--system", help="The chat's system message.")
    @_number("-n", "most", default="100", read=_natural(_LARGEST), help="Tokens at most.")
    @_number("-s", "seed", default="1", read=_natural(2**64 - 1))
    @_number("-t", "temperature", default="1", read=_real, help="0 takes the likeliest token.")
    @_number("--top-k", default="0", read=_natural(_LARGEST))
    @_number("--top-p", default="1", read=_real)
    @_number("--min-p", default="0", read=_real)
    @_number("--repeat-penalty", "penalty", default="1", read=_real)
    @click.option("--chunk", help="A recording of the step with C > 1: prompts go through C at once.")
    @click.option("--json", "as_json", is_flag=True, help="One document instead of the text as it comes.")
    @db_option
    def generate(recording: str, db: str, weights: str | None, chunk: str | None, as_json: bool, **given: Any) -> None:
        """Continues a prompt by RECORDING, a model's step (--entry decode)."""
        request = _request(**given)
        engine = open_database(db)
        several = None if chunk is None else find_recording(engine, chunk)
        generator = Generator(engine, find_recording(engine, recording), weights, several)
        shown = (lambda piece: None) if as_json else _show

        def answered(asked: Request) -> str:
            result = generator.generated(asked, shown)
            click.echo(result.document() if as_json else "")
            return result.text or ""

        if request.text is not None or request.ids is not None:
            answered(request)
            return
        for line in _lines():
            answer = answered(replace(request, text=line))
            said: tuple[Message, ...] = (("user", line), ("assistant", answer.encode()))
            request = replace(request, earlier=(*request.earlier, *said))


def _request(
    text: str | None,
    file: str | None,
    ids: str | None,
    messages: str | None,
    chat: bool,
    system: str | None,
    most: int,
    seed: int,
    **sampling: Any,
) -> Request:
    """What is asked; `text` is None where the lines of the standard input are."""
    prompts = sum(given is not None for given in (text, file, ids, messages))
    if prompts > 1 or (prompts == 0 and not chat):
        raise click.UsageError("give one prompt, as -p, -f, --messages or --ids")
    if system is not None and (not chat or messages is not None):
        raise click.UsageError("--system is for --chat, without --messages")
    if chat and ids is not None:
        raise click.UsageError("--chat is for a prompt of text")
    prompt, first = (None if t is None else t.encode("utf-8", "surrogateescape") for t in (text, system))
    how = Sampling(**sampling)
    if messages is not None:
        return _conversation(read_messages(_content(messages), messages), most, seed, how)
    if file is not None:
        prompt = _content(file)
    return Request(prompt, None if ids is None else _ids(ids), most, seed, how, chat, first)


def _conversation(messages: tuple[Message, ...], most: int, seed: int, how: Sampling) -> Request:
    *earlier, (_, text) = messages
    system = earlier.pop(0)[1] if earlier and earlier[0][0] == "system" else None
    return Request(text, None, most, seed, how, True, system, tuple(earlier))


def _lines() -> Iterator[bytes]:
    """The lines of the standard input that are not empty, without their ends, each as it comes. E1205 for none."""
    found = False
    while raw := sys.stdin.buffer.readline():
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        if line:
            found = True
            yield line
    if not found:
        raise InputBad("there is no message", "-")


def _content(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except (OSError, ValueError) as e:
        raise InputBad(f"cannot be read: {getattr(e, 'strerror', None) or e}", file) from None


def _ids(text: str) -> tuple[int, ...]:
    words = re.findall("[^ \\t\\r\\n,]+", text)
    if not all(word.isascii() and word.isdigit() and len(word) <= 18 for word in words):
        raise InputBad("token ids are whole numbers, such as 1 2 3", "--ids")
    return tuple(int(word) for word in words)


def _show(piece: str) -> None:
    sys.stdout.write(piece)
    sys.stdout.flush()
