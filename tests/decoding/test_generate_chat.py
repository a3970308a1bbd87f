"""Conversations of `generate` and `presk generate`: from JSON and line by line; one document, byte for byte."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from generate_cases import Step, emitted_step, recorded_step, said
from pipeline import LLAMA, Presk

from presk_db.conformance.generate import Generator, Request
from presk_db.emit.emission import Chunk
from presk_db.errors import InputBad
from presk_db.native.messages import Message, read_messages
from presk_db.native.sampling import Sampling
from presk_db.store.recordings import StoredRecording
from tests.tokenizer.chat_templates import CHATML, HEADERS
from tests.tokenizer.tokenizer_families import family

CONFIG = {**LLAMA, "max_position_embeddings": 320, "initializer_range": 0.5, "vocab_size": 1900}
FAMILIES = {"smollm": CHATML, "llama3": HEADERS}
CHUNK = 8
TALK: tuple[Message, ...] = (
    ("user", b"What is 12 + 5?"),
    ("assistant", '  It is "17". \\ é👩‍👩‍👧\n'.encode()),
    ("user", b"<|im_end|> And\ttwice that? \x00"),
)
HOW = ("-n", "12", "-s", "3", "-t", "1.1", "--top-p", "0.95", "--json")


class Chat:
    """A step of a family recorded with its tokenizer and chat template, and its program, built."""

    def __init__(self, name: str, folder: Path, compiler: str) -> None:
        tokenizer = folder / "tokenizer"
        tokenizer.mkdir(parents=True)
        (tokenizer / "tokenizer.json").write_text(family(name))
        special = {"bos_token": "<|begin_of_text|>", "chat_template": FAMILIES[name]}
        (tokenizer / "tokenizer_config.json").write_text(json.dumps(special))
        flags = {"params": "bf16", "seed": 4, "tokenizer": str(tokenizer)}
        self.step: Step = recorded_step(folder / "step", CONFIG, **flags)
        several = recorded_step(folder / "step", CONFIG, name="several", dims={"C": CHUNK}, **flags).recording
        self.chunk: StoredRecording | None = several if name == "smollm" else None
        chunk = None if self.chunk is None else Chunk(self.chunk, CHUNK)
        self.program = emitted_step(self.step, folder / "program", compiler, chunk=chunk)

    def native(self) -> Generator:
        """A generator whose caches hold nothing."""
        return Generator(self.step.engine, self.step.recording, None, self.chunk)


@pytest.fixture(scope="module", params=FAMILIES)
def chat(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cached_compiler: Callable[[str], str]
) -> Chat:
    """With chunks and sanitizers; without."""
    compiler = "cc -fsanitize=address,undefined" if request.param == "smollm" else cached_compiler("cc")
    return Chat(request.param, tmp_path_factory.mktemp("chat") / request.param, compiler)


def listed(messages: tuple[Message, ...]) -> str:
    """The messages as a file has them."""
    return json.dumps([{"role": role, "content": content.decode()} for role, content in messages])


def asked(text: bytes, earlier: tuple[Message, ...] = (), system: bytes | None = None) -> Request:
    """The request that HOW makes of the program."""
    return Request(text, None, 12, 3, Sampling(1.1, 0, 0.95), True, system, earlier)


@pytest.mark.parametrize("system", [None, b"", b" Be \xc3\xa9 brief.\n"])
def test_a_conversation_from_a_file(chat: Chat, tmp_path: Path, system: bytes | None) -> None:
    *earlier, (_, text) = TALK
    wanted = chat.native().generated(asked(text, tuple(earlier), system))
    file, messages = tmp_path / "messages.json", (*([("system", system)] if system is not None else []), *TALK)
    file.write_text(listed(cast("tuple[Message, ...]", messages)))
    assert said(chat.program, "--messages", str(file), *HOW) == (0, wanted.document() + "\n", "")
    assert (
        said(chat.program, "--messages", "-", "--chat", *HOW, stdin=file.read_bytes()).out == wanted.document() + "\n"
    )
    assert json.loads(wanted.document())["prompt"] == text.decode()


def test_line_by_line(chat: Chat) -> None:
    """Each line's document is that of the whole conversation until then, by caches that hold nothing."""
    lines = [b"Hi there", " é  12345 ".encode(), b"And then?"]
    given = b"\n\r\n" + lines[0] + b"\r\n\n" + lines[1] + b"\n" + lines[2]
    status, out, err = said(chat.program, "--chat", "--system", "Be brief.", *HOW, stdin=given)
    assert (status, err, out.count("\n")) == (0, "", 3)
    same, earlier = chat.native(), cast("tuple[Message, ...]", ())
    for line, document in zip(lines, out.split("\n")[:-1], strict=True):
        request = asked(line, earlier, b"Be brief.")
        wanted = chat.native().generated(request)
        assert wanted.document() == document == same.generated(request).document()
        assert wanted.text is not None
        earlier = (*earlier, ("user", line), ("assistant", wanted.text.encode()))
    text = said(chat.program, "--chat", "--system", "Be brief.", *HOW[:-1], stdin=given).out
    assert text == "".join(f"{json.loads(document)['text']}\n" for document in out.split("\n")[:-1])


def test_a_conversation_that_fills_the_context(chat: Chat) -> None:
    line = b"a b c d e f g h i j k l m n o p q r s t\n"
    status, out, err = said(chat.program, "--chat", "-n", "60", "--json", stdin=line * 9)
    assert (status, err.count("\n")) == (1, 1) and 0 < out.count("\n") < 9
    assert err.startswith("./generate: error E1205: the prompt has ") and err.endswith(" tokens, the context 320\n")
    earlier: tuple[Message, ...] = ()
    native = chat.native()
    for document in out.split("\n")[:-1]:  # a text may hold other ends of lines
        result = native.generated(Request(line[:-1], None, 60, chat=True, earlier=earlier))
        assert result.document() == document and result.text is not None
        earlier = (*earlier, ("user", line[:-1]), ("assistant", result.text.encode()))
    with pytest.raises(InputBad) as error:
        native.generated(Request(line[:-1], None, 60, chat=True, earlier=earlier))
    assert err == f"./generate: error {error.value.code}: {error.value.message}\n"


def test_the_command(chat: Chat, presk: Presk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = ("--db", str(chat.step.engine.url.database))
    file = tmp_path / "messages.json"
    file.write_text(listed(TALK))
    wanted = said(chat.program, "--messages", str(file), *HOW)
    assert presk("generate", "tiny", *database, "--messages", str(file), *HOW) == wanted
    wanted = said(chat.program, "--chat", *HOW, stdin=b"Hi\nMore\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Hi\nMore\n")))
    assert presk("generate", "tiny", *database, "--chat", *HOW) == wanted
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    for found in (said(chat.program, "--chat"), presk("generate", "tiny", *database, "--chat")):
        assert (found.status, found.out) == (1, "")
        assert "E1205" in found.err and found.err.endswith("-: there is no message\n")


BAD = {
    "": "byte 0: a list of messages was expected",
    "[]": "byte 1: a message, in braces, was expected",
    "{}": "byte 0: a list of messages was expected",
    '[{"role": "user"}]': "byte 16: a message has a role and a content, once each, and nothing else",
    '[{"role": "user", "role": "user"}]': "byte 24: a message has a role",
    '[{"role": "user", "text": "a"}]': "byte 24: a message has a role",
    '[{"role": "tool", "content": "a"}]': "byte 16: a role is system, user or assistant",
    '[{"role": "user", "content": 3}]': "byte 29: a string was expected",
    '[{"role": "user", "content": "a", "name": "b"}]': "byte 32: a message has a role",
    '[{"role": "user", "content": "\\ud800"}]': "byte 36: half of a surrogate pair stands alone",
    '[{"role": "user", "content": "a"}] x': "byte 35: something follows the list",
    '[{"role": "user", "content": "a"}': "byte 33: a list of messages ends with ]",
    '[{"role": "user", "content": "a"},]': "byte 34: a message, in braces, was expected",
    '[{"role": "assistant", "content": "a"}]': "byte 38: an assistant's message follows a user's",
    '[{"role": "system", "content": "a"}]': "byte 36: the last message is to be the user's",
    '[{"content": "a", "role": "user"}, {"role": "system", "content": "b"}]': "byte 69: a system message comes first",
    '[{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]': "byte 67: two messages of the user",
}


@pytest.mark.parametrize("text", BAD)
def test_files_that_hold_no_conversation(text: str) -> None:
    with pytest.raises(InputBad) as error:
        read_messages(text.encode(), "m.json")
    assert f"m.json: {BAD[text]}" in error.value.message


def test_bytes_that_hold_no_conversation(chat: Chat, tmp_path: Path) -> None:
    for data in (b'[{"role": "user", "content": "\xff"}]', b"\x00", b'[{"role": "user", "content": "' + b"\\" * 1001):
        file = tmp_path / "m.json"
        file.write_bytes(data)
        status, out, err = said(chat.program, "--messages", str(file))
        with pytest.raises(InputBad) as error:
            read_messages(data, str(file))
        assert (status, out, err) == (1, "", f"./generate: error E1205: {error.value.message}\n")


def test_options_that_do_not_go_together(chat: Chat, presk: Presk) -> None:
    for more in (
        ["--messages", "m", "-p", "a"],
        ["--messages", "m", "--system", "a"],
        ["--system", "a", "-p", "b"],
        [],
    ):
        for found in (said(chat.program, *more), presk("generate", "tiny", *more)):
            assert found.status == 1 and "error E1000" in found.err and found.err.count("\n") == 1
