"""Models of every small size, mixed realizations, sanitizers, valgrind, and two programs in one executable."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from building import (
    GPT2,
    LLAMA,
    SANITIZE,
    WARNINGS,
    Runtime,
    check_both,
    compiled,
    emitted_to,
    equals,
    linked,
    query,
    run_program,
    stored,
    write_config,
)
from sqlalchemy import Engine

from tests.tools import needs

LOOPS = "select first_iteration, last_iteration from loops where recording_id = :r order by form, first_item"

SMALL: dict[str, tuple[dict[str, Any], dict[str, int], list[tuple[int, int]]]] = {
    "gpt2": (GPT2, {"B": 2, "T": 4}, [(0, 2)]),
    "llama": (LLAMA, {"B": 2, "T": 5}, [(0, 2)]),
    "one of each": (GPT2 | {"n_layer": 1, "n_head": 1, "vocab_size": 1}, {"B": 1, "T": 1}, []),
    "no layers": (GPT2 | {"n_layer": 0}, {"B": 1, "T": 3}, []),
    "one wide": (GPT2 | {"n_embd": 1, "n_head": 1}, {"B": 1, "T": 2}, [(0, 2)]),
    "two layers": (LLAMA | {"num_hidden_layers": 2}, {"B": 1, "T": 1}, [(0, 1)]),
    "one llama layer": (LLAMA | {"num_hidden_layers": 1, "num_attention_heads": 1}, {"B": 1, "T": 2}, []),
    "tied": (GPT2 | {"tie_word_embeddings": True, "n_positions": 1}, {"B": 3, "T": 1}, [(0, 2)]),
}


@pytest.mark.parametrize("case", SMALL)
def test_small(case: str, engine: Engine, tmp_path: Path, runtime: Runtime) -> None:
    config, dims, loops = SMALL[case]
    recording = stored(engine, write_config(tmp_path / "model", config), dims=dims)
    check_both(engine, recording, tmp_path, runtime)
    assert query(engine, LOOPS, recording) == loops


MIXED = {
    "first block f32": ('"forward/block.0" = "f32"', [(2, 4)], 3),
    "first block f64": ('"forward/block.0/*" = "f64"', [(2, 4)], 3),
    "a block in the middle": ('"forward/block.1" = "f32"', [(3, 4)], 3),
    "the last block": ('"forward/block.4" = "f32"', [(0, 3)], 2),
    "norms": ('"*/layer_norm*" = "f32"', [(0, 4)], 1),
}
"""A realization's rule, the loops, and how many functions the blocks are: the one that reads the odd one's result is
odd too."""


@pytest.mark.parametrize("case", MIXED)
def test_mixed(case: str, engine: Engine, tmp_path: Path, runtime: Runtime) -> None:
    """A block of another type under bf16 runs apart, as a call of its own function; the others are loops."""
    rule, loops, functions = MIXED[case]
    (tmp_path / "mixed.toml").write_text(f'type = "bf16"\n[sites]\n{rule}\n')
    path = write_config(tmp_path / "model", GPT2 | {"n_layer": 5})
    recording = stored(engine, path, dims={"B": 1, "T": 4}, realization=str(tmp_path / "mixed.toml"))
    model = check_both(engine, recording, tmp_path, runtime)
    assert query(engine, LOOPS, recording) == loops
    blocks = set(re.findall(r"^static void (block\w*)\($", model, re.MULTILINE))
    assert len(blocks) == functions


@pytest.mark.parametrize("type_", ["f64", "bf16"])
def test_types(type_: str, engine: Engine, tmp_path: Path, runtime: Runtime) -> None:
    path = write_config(tmp_path / "model", LLAMA)
    check_both(engine, stored(engine, path, dims={"B": 1, "T": 4}, type=type_), tmp_path, runtime)


@pytest.mark.parametrize("entry", ["up_and_down", "three_places", "nested_descending"])
def test_sanitizers_are_silent(entry: str, engine: Engine, tmp_path: Path, runtime: Runtime) -> None:
    """AddressSanitizer and UBSan, with the inputs and outputs behind red zones."""
    folds = Path(__file__).with_name("folds.py")
    folder = emitted_to(engine, stored(engine, f"{folds}:{entry}", entry=entry), tmp_path / "program")
    linked(folder, runtime, ("-O1", *SANITIZE))
    result = run_program(folder)
    assert result.returncode == 0 and "ERROR" not in result.stderr and equals(folder), result.stderr


def test_valgrind_is_silent(engine: Engine, tmp_path: Path, runtime: Runtime) -> None:
    needs("valgrind")
    path = write_config(tmp_path / "model", GPT2)
    folder = emitted_to(engine, stored(engine, path, dims={"B": 1, "T": 3}), tmp_path / "program")
    linked(folder, runtime)
    result = run_program(folder, ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full"])
    assert result.returncode == 0 and equals(folder), result.stderr


def test_the_memory_map(engine: Engine, tmp_path: Path, runtime: Runtime) -> None:
    path = write_config(tmp_path / "model", GPT2)
    recording = stored(engine, path, dims={"B": 1, "T": 3})
    folder = emitted_to(engine, recording, tmp_path / "program")
    linked(folder, runtime)
    said = subprocess.run([str(folder / "main"), "-m"], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in said.splitlines()[1:-1]]
    places = {(int(offset), int(size)) for offset, size, *_ in rows}
    assert places == set(
        query(engine, "select distinct offset, bytes from arena_map where recording_id = :r", recording)
    )
    (planned,) = query(engine, "select bytes from arenas where recording_id = :r", recording)
    assert said.splitlines()[-1].startswith(f"arena {planned[0]} bytes, weights ")


def test_two_programs_in_one_executable(engine: Engine, tmp_path: Path) -> None:
    """Two structured programs of one model, with the same functions, linked together: each keeps its own."""
    objects, bodies = [], []
    for name, layers in (("first", 2), ("second", 3)):
        path = write_config(tmp_path / name / "model", GPT2 | {"n_layer": layers})
        folder = emitted_to(engine, stored(engine, path, dims={"B": 1, "T": 2}, name=name), tmp_path / name / "program")
        for source in sorted([folder / "model.c", folder / "kernels.c", *folder.glob("presk_*.c")]):
            target = str(source.with_suffix(".o"))
            flags = ["-O0", "-UPRESK_PREFIX", f"-DPRESK_PREFIX={name}_", "-c", "-o", target, str(source)]
            compiled(flags)
            objects.append(target)
        bodies.append(f"void {name}_run(void); ")
    defined = subprocess.run(["nm", "-g", "--defined-only", *objects], capture_output=True, text=True, check=True)
    symbols = [line.split()[-1] for line in defined.stdout.splitlines() if len(line.split()) == 3]
    assert symbols and len(symbols) == len(set(symbols))
    assert all(s.startswith(("first_", "second_")) for s in symbols)
    (tmp_path / "both.c").write_text("".join(bodies) + "int main(void) { first_run(); second_run(); return 0; }\n")
    compiled(["-o", str(tmp_path / "both"), str(tmp_path / "both.c"), *objects, "-lm"])


def test_warnings_of_every_file(engine: Engine, tmp_path: Path) -> None:
    """-Wall -Wextra -Wconversion -Werror without tracing too."""
    path = write_config(tmp_path / "model", LLAMA)
    for straight in (False, True):
        folder = emitted_to(engine, stored(engine, path, dims={"B": 1, "T": 2}), tmp_path / str(straight), straight)
        for name in ("model", "kernels", "main"):
            compiled(["-UPRESK_TRACE_ARENA", "-O2", *WARNINGS, "-fsyntax-only", str(folder / f"{name}.c")])
