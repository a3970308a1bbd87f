"""`presk generate`: from a prompt to a text on the native executor; the options are those of the emitted `generate`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from presk_db.conformance.generate import Generator, Request
from presk_db.errors import InputBad
from presk_db.native.sampling import Sampling
from presk_db.store.engine import open_database
from presk_db.store.recordings import find_recording

_LARGEST = 2**63 - 1


def generate_command(cli: click.Group, db_option: Callable[..., Any]) -> None:
    """Adds the command to `cli`."""

    @cli.command()
    @click.argument("recording")
    @click.option("-w", "--weights", help="The checkpoint, where it is no longer where it was recorded.")
    @click.option("-p", "text", help="The prompt.")
    @click.option("-f", "file", help="The prompt is the content of a file; - is the standard input.")
    @click.option("--ids", help="The prompt as token ids, such as '1 2 3'.")
    @click.option("--chat", is_flag=True, help="The prompt is a user's message, written as the checkpoint's chats are.")
    @click.option("--system", help="The chat's system message.")
    @click.option(
        "-n", "most", type=click.IntRange(0, _LARGEST), default=100, show_default=True, help="Tokens at most."
    )
    @click.option("-s", "seed", type=click.IntRange(0, 2**64 - 1), default=1, show_default=True)
    @click.option("-t", "temperature", type=float, default=1.0, show_default=True, help="0 takes the likeliest token.")
    @click.option("--top-k", type=click.IntRange(0, _LARGEST), default=0)
    @click.option("--top-p", type=float, default=1.0)
    @click.option("--min-p", type=float, default=0.0)
    @click.option("--repeat-penalty", "penalty", type=float, default=1.0)
    @click.option("--chunk", help="A recording of the step with C > 1: prompts go through C at once.")
    @click.option("--json", "as_json", is_flag=True, help="One document instead of the text as it comes.")
    @db_option
    def generate(recording: str, db: str, weights: str | None, chunk: str | None, as_json: bool, **given: Any) -> None:
        """Continues a prompt by RECORDING, a model's step (--entry decode)."""
        request = _request(**given)
        engine = open_database(db)
        several = None if chunk is None else find_recording(engine, chunk)
        generator = Generator(engine, find_recording(engine, recording), weights, several)
        result = generator.generated(request, (lambda piece: None) if as_json else _show)
        click.echo(result.document() if as_json else "")


def _request(
    text: str | None,
    file: str | None,
    ids: str | None,
    chat: bool,
    system: str | None,
    most: int,
    seed: int,
    **sampling: Any,
) -> Request:
    if sum(given is not None for given in (text, file, ids)) != 1:
        raise click.UsageError("give one prompt, as -p, -f or --ids")
    if system is not None and not chat:
        raise click.UsageError("--system is for --chat")
    if chat and ids is not None:
        raise click.UsageError("--chat is for a prompt of text")
    prompt, message = (None if t is None else t.encode("utf-8", "surrogateescape") for t in (text, system))
    if file is not None:
        prompt = sys.stdin.buffer.read() if file == "-" else _content(file)
    return Request(prompt, None if ids is None else _ids(ids), most, seed, Sampling(**sampling), chat, message)


def _content(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError) as e:
        raise InputBad(f"cannot be read: {getattr(e, 'strerror', None) or e}", file) from None


def _ids(text: str) -> tuple[int, ...]:
    words = text.replace(",", " ").split()
    if not all(word.isascii() and word.isdigit() and len(word) <= 18 for word in words):
        raise InputBad("token ids are whole numbers, such as 1 2 3", "--ids")
    return tuple(int(word) for word in words)


def _show(piece: str) -> None:
    sys.stdout.write(piece)
    sys.stdout.flush()
