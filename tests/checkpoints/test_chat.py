"""Chat templates become texts around messages, or are refused with a reason; the C side writes the same conversation."""

import json
from pathlib import Path

import pytest
from test_tokenizer_json import document

from presk_db.checkpoints.chat import Message, Template, chat_of, chat_text
from presk_db.checkpoints.tokenizer_data import Chat, TokenizerData, tokenizer_bytes
from presk_db.checkpoints.tokenizer_open import open_tokenizer
from presk_db.errors import InputBad, TokenizerBad
from presk_db.native.tokenizer import Tokenizer
from tests.tokenizer.chat_templates import CHATML, HEADERS, PLAIN

TALK: list[Message] = [("system", " s "), ("user", "\nu\u3000"), ("assistant", ""), ("user", "<|eot_id|> \x1f")]


@pytest.mark.parametrize("source", [CHATML, HEADERS, PLAIN])
@pytest.mark.parametrize("start", [0, 1])
def test_a_conversation_is_the_templates_in_python_and_in_c(source: str, start: int) -> None:
    chat = chat_of(source, "<bos>", "<eos>")
    assert isinstance(chat, Chat)
    talk = TALK[start:]
    expected = Template(source, "<bos>", "<eos>").rendered(talk, True)
    assert chat_text(chat, talk, True) == expected
    data = TokenizerData("gpt2", False, False, (b"a",), b"\3", (0,) * 256, (), (), (), (), (), chat)
    tokenizer = Tokenizer(tokenizer_bytes(data))
    tokenizer.check_chats()
    written = tokenizer.chat_begin(talk[0][1].encode() if start == 0 else None)
    written += "".join(tokenizer.chat_message(role, text.encode()) for role, text in talk[1 - start :])  # type: ignore[arg-type]
    assert written + tokenizer.chat_answer() == expected


def test_a_message_that_is_not_utf8_is_refused() -> None:
    chat = chat_of(HEADERS, "", "")
    assert isinstance(chat, Chat)
    data = TokenizerData("gpt2", False, False, (b"a",), b"\3", (0,) * 256, (), (), (), (), (), chat)
    tokenizer = Tokenizer(tokenizer_bytes(data))
    with pytest.raises(InputBad, match="byte 1 of the text is not UTF-8"):
        tokenizer.chat_message("user", b" \xf0")
    with pytest.raises(InputBad, match="byte 0 of the text is not UTF-8"):
        tokenizer.chat_begin(b"\xc3")


def test_what_is_kept() -> None:
    chat = chat_of(CHATML, "", "")
    ends = ("<|im_end|>\n",) * 3
    begins = ("<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n")
    assert chat == Chat(begins, ends, "<|im_start|>system\nBe kind<|im_end|>\n", begins[2], False)
    headers = chat_of(HEADERS, "<bos>", "")
    assert isinstance(headers, Chat)
    assert headers.trims
    assert headers.default == "<bos><|start_header_id|>system<|end_header_id|>\n\nToday: 26 Jul\n\n<|eot_id|>"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{{ messages[0]['content'] | upper }}", "does more than to write texts around messages"),
        ("{% for m in messages %}{{ loop.index }}{{ m.content }}{% endfor %}", "does more"),
        ("{{ messages[0]['content'] ", "cannot be rendered"),
        ("{{ raise_exception('System role not supported') }}", "cannot be rendered: System role not supported"),
        ("{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}{{ m.content }}"
         "{% endfor %}", "cannot be rendered: no system"),
        ("{{ messages.__class__.__mro__ }}", "cannot be rendered"),
        ("x" * 100_001, "is too long"),
    ],
)  # fmt: skip
def test_other_templates_are_unknown(source: str, reason: str) -> None:
    found = chat_of(source, "", "")
    assert isinstance(found, str)
    assert reason in found
    assert "\n" not in found


def folder(tmp_path: Path, **files: object) -> str:
    """A folder with a tokenizer.json, and others beside it."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(document()))
    for name, value in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    return str(tmp_path)


def test_a_folder(tmp_path: Path) -> None:
    config = {"chat_template": CHATML.replace("<|im_end|>", "<s> é"), "eos_token": {"content": "<s> é"}}
    data = open_tokenizer(folder(tmp_path, tokenizer_config=config, generation_config={"eos_token_id": [7, 3, 7]}))
    assert data.stops == (7, 3, 257)  # and the special token that ends a message
    assert data.chat is not None
    tokenizer = Tokenizer(tokenizer_bytes(data))
    assert [t for t in range(-1, 260) if tokenizer.stops(t)] == [3, 7, 257]
    assert open_tokenizer(str(tmp_path / "tokenizer.json")) == data
    (tmp_path / "generation_config.json").unlink()
    assert open_tokenizer(str(tmp_path)).stops == (257,)


def test_a_template_in_a_file_of_its_own_and_none(tmp_path: Path) -> None:
    path = folder(tmp_path)
    assert open_tokenizer(path).no_chat == "the checkpoint has no chat template"
    (tmp_path / "chat_template.jinja").write_text(PLAIN)
    assert open_tokenizer(path).chat is not None
    (tmp_path / "chat_template.jinja").write_text("{{ 1 / 0 }}")
    data = open_tokenizer(path)
    with pytest.raises(TokenizerBad, match=r"no chat: the chat template .* cannot be rendered"):
        Tokenizer(tokenizer_bytes(data)).check_chats()


@pytest.mark.parametrize("stop", [258, -1, "x", 1.5])
def test_a_stop_that_is_no_token_is_refused(tmp_path: Path, stop: object) -> None:
    with pytest.raises(TokenizerBad, match="is no token of it"):
        open_tokenizer(folder(tmp_path, config={"eos_token_id": stop}))
