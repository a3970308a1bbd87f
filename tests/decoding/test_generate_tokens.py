"""`generate` and `presk generate` by token ids: one document, byte for byte; bad input; a program that must refuse."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from generate_cases import Step, emitted_step, recorded_step, said
from pipeline import GPT2, LLAMA, MLP, Presk, stored

from presk_db.conformance.generate import Generator, Request
from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.errors import InputBad, InputOutOfRange, LengthOpen
from presk_db.native.sampling import Sampling
from presk_db.store.emission import emission_reader
from presk_db.store.engine import open_database

LENGTH = 24
CONFIG = {**LLAMA, "max_position_embeddings": LENGTH, "initializer_range": 0.5}


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Step:
    return recorded_step(tmp_path_factory.mktemp("step"), CONFIG, params="bf16", seed=4)


@pytest.fixture(scope="module")
def native(step: Step) -> Generator:
    return Generator(step.engine, step.recording)


@pytest.fixture(scope="module")
def programs(
    step: Step, tmp_path_factory: pytest.TempPathFactory, cached_compiler: Callable[[str], str]
) -> tuple[Path, Path]:
    """The structured and the straight-line program."""
    folder = tmp_path_factory.mktemp("programs")
    structured = emitted_step(step, folder / "structured", cached_compiler("cc"))
    return structured, emitted_step(step, folder / "straight", cached_compiler("cc"), straight_line=True)


CASES = {
    "greedy": (Sampling(0.0), 1, 9),
    "plain": (Sampling(), 1, 9),
    "hot": (Sampling(3.5), 2**64 - 1, 9),
    "cold": (Sampling(0.05), 3, 9),
    "filtered": (Sampling(1.5, 7, 0.9, 0.01, 1.3), 12, 9),
    "one token left": (Sampling(1.0, 0, 0.0), 5, 3),
    "nothing": (Sampling(), 1, 0),
    "context": (Sampling(), 8, 1000),
}


@pytest.mark.parametrize("name", CASES)
def test_one_document(name: str, native: Generator, programs: tuple[Path, Path]) -> None:
    how, seed, most = CASES[name]
    wanted = native.generated(Request(None, (3, 1, 4, 1, 5), most, seed, how))
    arguments = [
        *("--ids", "3 1,4 1\n5", "-n", str(most), "-s", str(seed), "-t", repr(how.temperature), "--json"),
        *("--top-k", str(how.top_k), "--top-p", repr(how.top_p), "--min-p", repr(how.min_p)),
        *("--repeat-penalty", repr(how.penalty)),
    ]
    for program in programs:
        assert said(program, *arguments) == (0, wanted.document() + "\n", "")
    count = {"context": LENGTH + 1 - 5}.get(name, most)
    assert len(wanted.tokens) == count
    assert wanted.finish == ("context" if name == "context" else "length")
    assert json.loads(wanted.document())["tokens"] == list(wanted.tokens)


def test_seeds_and_temperatures_differ(native: Generator) -> None:
    texts = {native.generated(Request(None, (1,), 12, s, Sampling(t))).tokens for s in (1, 2) for t in (0.7, 1.0, 2.0)}
    assert len(texts) > 3
    assert len({native.generated(Request(None, (1,), 12, s, Sampling(0.0))).tokens for s in (1, 2)}) == 1


def test_a_text_as_it_comes_and_its_times(native: Generator, programs: tuple[Path, Path]) -> None:
    pieces: list[str] = []
    wanted = native.generated(Request(None, (2, 2), 4), pieces.append)
    assert "".join(pieces) == " ".join(map(str, wanted.tokens))
    status, out, err = said(programs[0], "--ids", "2 2", "-n", "4", "--time")
    assert (status, out) == (0, "".join(pieces) + "\n")
    assert err.startswith("prompt: 2 tokens in ") and " a second\n" in err


def test_a_prompt_that_fills_the_context(native: Generator, programs: tuple[Path, Path]) -> None:
    ids = tuple(range(10)) * 3
    full = native.generated(Request(None, ids[:LENGTH]))
    assert (len(full.tokens), full.finish) == (1, "context")
    assert said(programs[0], "--ids", " ".join(map(str, ids[:LENGTH])), "--json").out == full.document() + "\n"
    with pytest.raises(InputBad, match="the prompt has 25 tokens, the context 24"):
        native.generated(Request(None, ids[: LENGTH + 1]))
    status, out, err = said(programs[0], "--ids", " ".join(map(str, ids[: LENGTH + 1])))
    assert (status, out) == (1, "")
    assert err == "./generate: error E1205: the prompt has 25 tokens, the context 24\n"


BAD = {
    "--ids ''": "E1205: the prompt is empty",
    "--ids 1x": "E1205: --ids: token ids are whole numbers",
    "--ids 11": r"E1204: --ids: 11 must be in [0, 11)",
    "--ids 1 -t nan": "E1205: the temperature",
    "--ids 1 -t -0.5": "E1205: the temperature",
    "--ids 1 -t inf": "E1205: the temperature",
    "--ids 1 -t 1x": "E1205: -t: is no number",
    "--ids 1 -t 0x1p-1": "E1205: -t: is no number",
    "--ids 1 -t 1_0": "E1205: -t: is no number",
    "--ids 1 -t ''": "E1205: -t: is no number",
    "--ids 1 -t 1e999": "E1205: the temperature",
    "--ids 1 --top-p 1.5": "E1205: top-p",
    "--ids 1 --top-p nan": "E1205: top-p",
    "--ids 1 --min-p -0.1": "E1205: min-p",
    "--ids 1 --top-k 1.5": "E1205: --top-k: must be a whole number",
    "--ids 1 --top-k +1": "E1205: --top-k: must be a whole number",
    "--ids -1": "E1205: --ids: token ids are whole numbers",
    "--ids 1\u00a02": "E1205: --ids: token ids are whole numbers",
    "--ids 99999999999999999999": "E1205: --ids: token ids are whole numbers",
    "--ids 1 --repeat-penalty 0": "E1205: the repetition penalty",
    "--ids 1 -n -1": "E1205: -n: must be a whole number",
    "--ids 1 -s 18446744073709551616": "E1205: -s: must be a whole number",
    "--ids": "E1000: --ids: needs a value",
    "--ids 1 -q": "E1000: -q: is no option",
    "-n 3": "E1000: give one prompt, as --ids",
    "--ids 1 -p text": "E1000: -p: is no option",
    "--ids 1 -w missing.safetensors": "E1101: missing.safetensors",
}


@pytest.mark.parametrize("arguments", BAD)
def test_bad_arguments(arguments: str, step: Step, programs: tuple[Path, Path], presk: Presk) -> None:
    """The program's error is one line, and that of `presk generate` where both read the same option."""
    words = ["" if word == "''" else word for word in arguments.split(" ")]
    status, out, err = said(programs[0], *words)
    assert (status, out) == (1, "")
    assert err.startswith(f"./generate: error {BAD[arguments]}") and err.count("\n") == 1
    native = presk("generate", "tiny", "--db", str(step.engine.url.database), *words)
    if BAD[arguments].startswith("E12"):
        assert native == (1, "", re.sub(r"^./generate: error (E\d+): ", r"presk: error \1 ", err))
    elif "missing.safetensors" not in arguments:  # seeded weights are drawn again, not read
        assert native.status == 1 and "error E1000" in native.err


def test_bad_requests(native: Generator) -> None:
    for request, error in ((Request(None, ()), InputBad), (Request(None, (11,)), InputOutOfRange)):
        with pytest.raises(error):
            native.generated(request)
    with pytest.raises(InputBad, match="no tokenizer"):
        native.generated(Request(b"text", None))


def test_logits_that_are_no_numbers(step: Step) -> None:
    broken = Generator(step.engine, step.recording)
    broken.weights = {n: np.full_like(a, 0x7FC0) for n, a in broken.weights.items()}
    with pytest.raises(InputBad, match="no token can be drawn at position 2"):
        broken.generated(Request(None, (1, 2)))


def test_only_a_step_serves(tmp_path: Path, step: Step) -> None:
    engine = open_database(str(tmp_path / "presk.db"), create=True)
    forward = stored(engine, f"{MLP}:forward")
    several = recorded_step(tmp_path / "c", GPT2, dims={"C": 2})
    for found, recording in ((engine, forward), several):
        with emission_reader(found, recording.id) as reader, pytest.raises(LengthOpen, match="E8009"):
            emit_to(reader, recording, generator("c_program"), tmp_path / "out", {"serve": True})
        with pytest.raises(LengthOpen):
            Generator(found, recording)
    assert not (tmp_path / "out").exists()


def test_the_command(presk: Presk, step: Step, native: Generator) -> None:
    database = step.engine.url.database
    arguments = ["generate", "tiny", "--db", str(database), "--ids", "1 2", "-n", "5", "-t", "0"]
    wanted = native.generated(Request(None, (1, 2), 5, 1, Sampling(0.0)))
    assert presk(*arguments, "--json") == (0, wanted.document() + "\n", "")
    assert presk(*arguments) == (0, " ".join(map(str, wanted.tokens)) + "\n", "")
    for more, code in (
        (["-p", "x"], "E1000"),
        (["--chat"], "E1000"),
        (["--system", "x"], "E1000"),
        (["-t", "-1"], "E1205"),
    ):
        status, _, err = presk(*arguments, *more)
        assert status == 1 and f"error {code}" in err
