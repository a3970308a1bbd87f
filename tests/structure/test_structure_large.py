"""Programs too large to run: emitted from their structure alone, and compiled with every warning an error."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from building import GENERATED, GPT2, WARNINGS, compiled, emitted_to, query
from sqlalchemy import Engine

from presk_db.conformance.structure_table import C_LINES_WITHIN, lines_of
from presk_db.conformance.unrun import unrun
from presk_db.store.ingest import write_recording

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
COURSE: dict[str, Any] = json.loads((FIXTURES / "course_gpt/config.json").read_text())
SMOLLM2: dict[str, Any] = json.loads((FIXTURES / "smollm2/config.json").read_text())


def emitted_shape(engine: Engine, folder: Path, config: dict[str, Any], type_: str = "f32", **dims: int) -> Path:
    return emitted_to(engine, write_recording(engine, unrun(config, dims, type_, "net")), folder)


def check_compiles(folder: Path) -> None:
    """Both programs' own files, with tracing and without, for 64-bit offsets and warnings."""
    for name in GENERATED:
        compiled([*WARNINGS, "-O1", "-c", "-o", "/dev/null", str(folder / f"{name}.c")])
        compiled([*WARNINGS, "-UPRESK_TRACE_ARENA", "-fsyntax-only", str(folder / f"{name}.c")])


def test_96_layers(engine: Engine, tmp_path: Path) -> None:
    deep = emitted_shape(engine, tmp_path / "deep", GPT2 | {"n_layer": 96}, B=1, T=4)
    flat = emitted_shape(engine, tmp_path / "flat", GPT2 | {"n_layer": 3}, B=1, T=4)
    check_compiles(deep)
    assert lines_of(deep) == lines_of(flat)


@pytest.mark.parametrize("type_", ["f32", "bf16"])
def test_beyond_32_bits(type_: str, engine: Engine, tmp_path: Path) -> None:
    """An arena beyond 2 GiB, and B T V beyond 2^32: offsets are 64-bit literals, and nothing is a static array."""
    config = COURSE | {"n_layer": 3, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}
    recording = write_recording(engine, unrun(config, {"B": 512, "T": 1024}, type_, "net"))
    folder = emitted_to(engine, recording, tmp_path / "program")
    (peak,) = query(engine, "select bytes from arenas where recording_id = :r", recording)
    assert peak[0] > 2**31 and 512 * 1024 * 50257 > 2**32
    assert f"_ARENA_BYTES INT64_C({peak[0]})" in (folder / "model.h").read_text()
    check_compiles(folder)
    offsets = [int(n) for n in re.findall(r"frame \+ (\d+)", (folder / "model.c").read_text())]
    assert max(offsets) > 2**31
    assert not re.search(r"^static (?!const)[^(]*\[", (folder / "model.c").read_text(), re.MULTILINE)


def test_32_bit_machines_refuse(engine: Engine, tmp_path: Path) -> None:
    """Where addresses have 32 bits, the header stops the build with a reason instead of truncating an offset."""
    config = COURSE | {"n_layer": 1, "n_positions": 1024}
    folder = emitted_shape(engine, tmp_path / "program", config, B=256, T=1024)
    header = folder / "model.h"
    small = header.read_text().replace("PTRDIFF_MAX", "INT32_MAX")
    header.write_text(small)
    result = subprocess.run(
        ["cc", "-std=c11", "-fsyntax-only", str(folder / "model.c")], capture_output=True, text=True, check=False
    )
    assert result.returncode != 0 and "more memory than this machine can address" in result.stderr


def test_smollm2(engine: Engine, tmp_path: Path) -> None:
    """30 layers are as many lines as 3; emitted in seconds."""
    recording = write_recording(engine, unrun(SMOLLM2, {"B": 1, "T": 256}, "f32", "net"))
    start = process_time()
    whole = emitted_to(engine, recording, tmp_path / "whole")
    assert process_time() - start < 5
    cut = emitted_shape(engine, tmp_path / "cut", SMOLLM2 | {"num_hidden_layers": 3}, B=1, T=256)
    assert abs(lines_of(whole) - lines_of(cut)) <= C_LINES_WITHIN * lines_of(cut)
    straight = emitted_to(engine, recording, tmp_path / "straight", True)
    assert lines_of(straight) > lines_of(whole)


PEAKS = {"f64": 10.0, "f32": 5.0, "bf16": 2.5}
"""The most megabytes of temporaries for the course GPT at B = 1, T = 256."""


@pytest.mark.parametrize("type_", PEAKS)
def test_the_course_gpt(type_: str, engine: Engine) -> None:
    recording = write_recording(engine, unrun(COURSE, {"B": 1, "T": 256}, type_, "net"))
    (launches,) = query(engine, "select count(*) from launches where recording_id = :r", recording)
    assert launches[0] <= 75
    (row,) = query(engine, "select bytes, live_bytes from arenas where recording_id = :r", recording)
    assert row[0] <= PEAKS[type_] * 1e6 and row[0] <= 1.05 * row[1]
    (dead,) = query(engine, "select count(*) from dead_launches where recording_id = :r", recording)
    assert dead == (0,)


def test_another_machine(engine: Engine, tmp_path: Path) -> None:
    """The same program for 64-bit Arm and for 32 bits, where a compiler for them is installed."""
    folder = emitted_shape(engine, tmp_path / "program", GPT2, B=1, T=4)
    for compiler in ("aarch64-linux-gnu-gcc", "arm-linux-gnueabihf-gcc"):
        if shutil.which(compiler):
            for name in GENERATED:
                compiled([*WARNINGS, "-fsyntax-only", str(folder / f"{name}.c")], compiler)


def test_other_recordings_do_not_slow_an_emission(engine: Engine, tmp_path: Path) -> None:
    """The map of memory follows the calls of each recording alone, however many a database holds."""
    for layers in (96, 60):
        write_recording(engine, unrun(SMOLLM2 | {"num_hidden_layers": layers}, {"B": 1, "T": 4}, "f32", "net"))
    recording = write_recording(engine, unrun(GPT2, {"B": 1, "T": 4}, "f32", "net"))
    start = process_time()
    emitted_to(engine, recording, tmp_path / "program")
    assert process_time() - start < 3
