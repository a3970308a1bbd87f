"""Prompts in chunks: the same documents as token by token, at every length around a chunk's; recordings that do not fit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from generate_cases import Step, emitted_step, recorded_step, said
from pipeline import LLAMA, MLP, Presk, config_file, stored

from presk_db.conformance.generate import Generator, Request
from presk_db.emit.emission import Chunk, emit_to
from presk_db.emit.generator import generator
from presk_db.errors import ChunksOther
from presk_db.native.sampling import Sampling
from presk_db.store.emission import chunk_of, emission_reader
from presk_db.store.recordings import StoredRecording

LENGTH, COUNT = 20, 4
CONFIG = {**LLAMA, "max_position_embeddings": LENGTH, "initializer_range": 0.5}
PROMPTS = [tuple((7 * i + 3) % 11 for i in range(n)) for n in (1, 3, 4, 5, 8, 11, 20)]


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Step:
    return recorded_step(tmp_path_factory.mktemp("step"), CONFIG, params="bf16", type="f32", seed=4)


def other(step: Step, **flags: Any) -> StoredRecording:
    """Another recording in the database of the step, of four tokens."""
    folder = Path(str(step.engine.url.database)).parent
    given = {"entry": "decode", "name": "four", "params": "bf16", "seed": 4, "dims": {"C": COUNT}, **flags}
    config = given.pop("config", CONFIG)
    return stored(step.engine, config_file(folder / "other", config), **given)


@pytest.fixture(scope="module")
def four(step: Step) -> StoredRecording:
    return other(step)


@pytest.fixture(scope="module")
def programs(
    step: Step,
    four: StoredRecording,
    tmp_path_factory: pytest.TempPathFactory,
    cached_compiler: Callable[[str], str],
) -> list[Path]:
    """The structured and the straight-line program."""
    folder, chunk = tmp_path_factory.mktemp("programs"), Chunk(four, COUNT)
    return [
        emitted_step(step, folder / name, cached_compiler("cc"), name == "straight", chunk)
        for name in ("structured", "straight")
    ]


@pytest.fixture(scope="module")
def natives(step: Step, four: StoredRecording) -> tuple[Generator, Generator]:
    """Token by token, and in chunks."""
    return Generator(step.engine, step.recording), Generator(step.engine, step.recording, None, four)


@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda p: str(len(p)))
def test_one_document(prompt: tuple[int, ...], natives: tuple[Generator, Generator], programs: list[Path]) -> None:
    request = Request(None, prompt, 9, 3, Sampling(1.3, 0, 0.9))
    wanted, again = (native.generated(request) for native in natives)
    assert wanted == again
    for program in programs:
        arguments = ["--ids", " ".join(map(str, prompt)), "-n", "9", "-s", "3", "-t", "1.3", "--top-p", "0.9", "--json"]
        assert said(program, *arguments) == (0, wanted.document() + "\n", "")


BAD: dict[str, dict[str, Any]] = {
    "it is no step of several tokens": {"dims": {"C": 1}},
    "its weights are not those of tiny": {"seed": 5},
    "its realization": {"type": "f64"},
    "its entry": {"entry": "next_token"},
    "its model": {"config": {**CONFIG, "rms_norm_eps": 1e-3}},
    "its dims": {"dims": {"C": COUNT, "T": 12}},
}


@pytest.mark.parametrize("why", BAD)
def test_recordings_that_do_not_go_together(why: str, step: Step) -> None:
    recording = other(step, **BAD[why])
    with pytest.raises(ChunksOther, match=f"E8010 recording four: .*{why}"):
        chunk_of(step.engine, step.recording, recording)
    with pytest.raises(ChunksOther):
        Generator(step.engine, step.recording, None, recording)


def test_the_commands(presk: Presk, step: Step, four: StoredRecording, tmp_path: Path) -> None:
    database, digest = str(step.engine.url.database), four.digest[:16]
    wanted = Generator(step.engine, step.recording).generated(Request(None, PROMPTS[3], 3, 1, Sampling(0.0)))
    arguments = ["--ids", " ".join(map(str, PROMPTS[3])), "-n", "3", "-t", "0", "--json", "--db", database]
    assert presk("generate", "tiny", *arguments, "--chunk", digest) == (0, wanted.document() + "\n", "")
    out = str(tmp_path / "out")
    assert presk("emit", "tiny", "-o", out, "--chunk", digest, "--db", database).err.startswith("presk: error E1000 ")
    user = stored(step.engine, f"{MLP}:forward", name="mlp")
    status, _, err = presk("emit", "tiny", "-o", out, "--serve", "--chunk", user.digest[:16], "--db", database)
    assert status == 1 and "error E8010 recording mlp: " in err and not Path(out).exists()


def test_weights_that_lie_otherwise(step: Step, four: StoredRecording, tmp_path: Path) -> None:
    """What the emission itself compares: where each weight lies in the one block of memory."""
    engine, apart = step.engine, other(step, type="f64", params="f64")
    with emission_reader(engine, step.recording.id) as reader, pytest.raises(ChunksOther, match="lie otherwise"):
        chunk = Chunk(apart, COUNT)
        emit_to(reader, step.recording, generator("c_program"), tmp_path / "out", {"serve": True}, chunk=chunk)
    assert not (tmp_path / "out").exists()
