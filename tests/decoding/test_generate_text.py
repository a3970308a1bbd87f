"""`generate` and `presk generate` from text: prompts, chats, stop tokens, padded rows; one document, byte for byte."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from generate_cases import Step, said
from pipeline import LLAMA, Presk

from presk_db.conformance.generate import Generator, Request
from presk_db.conformance.program import Build, built
from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.errors import InputBad
from presk_db.native.sampling import Sampling
from presk_db.specs.record import recorded
from presk_db.specs.spec import spec_from
from presk_db.store.emission import emission_reader
from presk_db.store.engine import open_database
from presk_db.store.ingest import write_recording
from tests.tokenizer.chat_templates import HEADERS
from tests.tokenizer.tokenizer_families import family

COUNT, VOCABULARY = 1804, 1900
CONFIG = {**LLAMA, "max_position_embeddings": 192, "initializer_range": 0.5, "vocab_size": VOCABULARY}
PROMPT = "It's 12345 👩‍👩‍👧 e\u0301 <|eot_id|>\n\n  한국어\t"


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Step:
    """A step with Llama 3's tokenizer and chat; every third token ends a text."""
    folder = tmp_path_factory.mktemp("model")
    files = {
        "config": CONFIG,
        "tokenizer_config": {"chat_template": HEADERS, "bos_token": "<|begin_of_text|>"},
        "generation_config": {"eos_token_id": list(range(0, COUNT, 3))},
    }
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    (folder / "tokenizer.json").write_text(family("llama3"))
    engine = open_database(str(folder / "presk.db"), create=True)
    spec = spec_from(str(folder), {"entry": "decode", "name": "tiny", "seed": 4})
    return Step(engine, write_recording(engine, recorded(spec)))


@pytest.fixture(scope="module")
def native(step: Step) -> Generator:
    return Generator(step.engine, step.recording)


@pytest.fixture(scope="module")
def program(step: Step, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The emitted program, with sanitizers."""
    folder = tmp_path_factory.mktemp("text") / "program"
    with emission_reader(step.engine, step.recording.id) as reader:
        emit_to(reader, step.recording, generator("c_program"), folder, {"serve": True, "straight_line": False})
    built(folder, Build("cc", "-O1 -fsanitize=address,undefined -fno-sanitize-recover=all"), target="generate")
    return folder


HOWS = (Sampling(0.0), Sampling(), Sampling(50.0), Sampling(1.5, 40, 0.9, 0.001, 1.2))


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("system", [None, "", " Be brief.\n"])
def test_one_document(native: Generator, program: Path, how: Sampling, system: str | None) -> None:
    """Without a chat first, then as one."""
    for seed, chat in ((1, False), (2, True)):
        told = system.encode() if chat and system is not None else None
        wanted = native.generated(Request(PROMPT.encode(), None, 24, seed, how, chat, told))
        arguments = [
            *("-p", PROMPT, "-n", "24", "-s", str(seed), "-t", repr(how.temperature), "--top-k", str(how.top_k)),
            *("--top-p", repr(how.top_p), "--min-p", repr(how.min_p), "--repeat-penalty", repr(how.penalty)),
            *(["--chat"] if chat else []),
            *(["--system", str(system)] if told is not None else []),
        ]
        assert said(program, *arguments, "--json") == (0, wanted.document() + "\n", "")
        assert said(program, *arguments).out == f"{wanted.text}\n"
        document = json.loads(wanted.document())
        assert document["prompt"] == PROMPT
        assert all(t < COUNT and t % 3 for t in document["tokens"])  # neither padding nor a stop
        assert wanted.finish == ("length" if len(wanted.tokens) == 24 else "stop")


def test_texts_end_by_stops_and_padding_is_never_drawn(native: Generator) -> None:
    results = [native.generated(Request(b"a", None, 40, seed, Sampling(1000.0))) for seed in range(25)]
    assert {r.finish for r in results} == {"stop"}
    assert all(t < COUNT for r in results for t in r.tokens)
    assert len({len(r.tokens) for r in results}) > 3


def test_a_prompt_from_a_file_and_from_the_standard_input(native: Generator, program: Path, tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text(PROMPT)
    wanted = native.generated(Request(PROMPT.encode(), None, 5, 1, Sampling(0.0)))
    arguments = ["-n", "5", "-t", "0", "--json"]
    assert said(program, "-f", str(tmp_path / "prompt.txt"), *arguments).out == wanted.document() + "\n"
    assert said(program, "-f", "-", *arguments, stdin=PROMPT.encode()).out == wanted.document() + "\n"
    assert said(program, "-f", str(tmp_path / "none.txt")).err.startswith("./generate: error E1101: ")


@pytest.mark.parametrize(
    ("text", "system", "byte"),
    [(b"a\xff", None, 1), (b"\xf0\x9f", b"x", 0), (b"a", b"b \xe2\x82", 2), (b" \xf0", b"", 1)],
)
def test_text_that_is_not_utf8(native: Generator, program: Path, text: bytes, system: bytes | None, byte: int) -> None:
    chat = system is not None
    with pytest.raises(InputBad, match=f"byte {byte} of the text is not UTF-8"):
        native.generated(Request(text, None, chat=chat, system=system))
    more = [b"--chat", b"--system", system] if system is not None else []
    command = [b"./generate", b"-w", b"weights.safetensors", b"-p", text, *more]
    done = subprocess.run(command, cwd=os.fsencode(program), capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == f"./generate: error E1205: byte {byte} of the text is not UTF-8\n".encode()


def test_tokenizer_files_that_are_not_the_models(program: Path, tmp_path: Path) -> None:
    whole = (program / "tokenizer.bin").read_bytes()
    for name, data, word in (("cut", whole[:-1], "its size is not what its header says"), ("empty", b"", "PRESKTOK")):
        path = tmp_path / name
        path.write_bytes(data)
        status, out, err = said(program, "-p", "a", "--tokenizer", str(path))
        assert (status, out) == (1, "")
        assert err.startswith(f"./generate: error E1109: {path}: ") and word in err and err.count("\n") == 1
    assert said(program, "-p", "a", "--tokenizer", str(tmp_path)).err.startswith("./generate: error E1101: ")


def test_the_command(presk: Presk, step: Step, native: Generator) -> None:
    database = str(step.engine.url.database)
    wanted = native.generated(Request(PROMPT.encode(), None, 9, 3, chat=True, system=b"s"))
    arguments = ["generate", "tiny", "--db", database, "-p", PROMPT, "-n", "9", "-s", "3", "--chat", "--system", "s"]
    assert presk(*arguments, "--json") == (0, wanted.document() + "\n", "")
    assert presk(*arguments) == (0, f"{wanted.text}\n", "")
