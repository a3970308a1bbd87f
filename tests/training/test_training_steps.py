"""Steps that a program repeats on its own new values: equal bytes, in place, with a checkpoint; the first NaN's launch."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine

from presk_db.checkpoints.safetensors import SafetensorsFile
from presk_db.checkpoints.safetensors_write import write_safetensors
from presk_db.conformance.check import checked
from presk_db.conformance.program import Build, built
from presk_db.conformance.repeated import repeated
from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.errors import EntryBad, KernelAliasBad
from presk_db.kernels.c_printer import c_function
from presk_db.kernels.parser import parse
from presk_db.kernels.sharing import shared_pairs
from presk_db.native.execute import run_kernel
from presk_db.native.numbers import STORAGE
from presk_db.specs.record import recorded
from presk_db.specs.spec import spec_from
from presk_db.specs.weights import loaded_weights, seeded_reader
from presk_db.store.emission import emission_reader
from presk_db.store.engine import open_database, reading
from presk_db.store.ingest import write_recording
from presk_db.store.read import read_kernels, read_launch_order
from presk_db.store.recordings import StoredRecording
from tests.training.training_cases import spec_of

STEPS = 5
CASES = [
    ("gpt2", "train_step", {"type": "f32"}),
    ("gpt2", "train_step_sgd", {"type": "bf16", "remat": True}),
    ("llama", "train_step", {"type": "mixed", "dims": {"M": 2, "B": 2, "T": 5}}),
    ("llama", "train_step_sgd", {"type": "f64"}),
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return open_database(str(tmp_path_factory.mktemp("steps") / "presk.db"), create=True)


def stored(engine: Engine, folder: Path, config: str, entry: str, **flags: Any) -> StoredRecording:
    return write_recording(engine, recorded(spec_of(folder, config, entry, **flags)))


@pytest.fixture(scope="module")
def cc(cached_compiler: Callable[[str], str]) -> str:
    """The compiler."""
    return cached_compiler("cc")


def program_of(engine: Engine, recording: StoredRecording, folder: Path, cc: str, flags: str = "-O0") -> Path:
    with emission_reader(engine, recording.id) as reader:
        emit_to(reader, recording, generator("c_program"), folder, {"straight_line": False})
    return built(folder, Build(cc, flags))


def said(program: Path, *arguments: str, inputs: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The program's run on its own weights and inputs, with further arguments."""
    folder = program.parent
    given = ["-w", folder / "weights.safetensors", "-i", inputs or folder / "conformance/inputs.safetensors"]
    command = [str(x) for x in (program, *given, "-o", folder / "outputs.safetensors", *arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("config", "entry", "flags"), CASES)
def test_five_steps(engine: Engine, tmp_path: Path, cc: str, config: str, entry: str, flags: dict[str, Any]) -> None:
    recording = stored(engine, tmp_path, config, entry, **flags)
    build = Build(cc, "-O0 -Wall -Wextra -Wconversion -Werror")
    results = checked(engine, recording, [build], straight_line=(False, True), threads=(1, 3), steps=STEPS)
    assert len(results) == 4
    with reading(engine) as connection:
        query = f"select in_place, count(*) from state_list where recording_id = {recording.id} group by 1"
        assert [row[0] for row in connection.exec_driver_sql(query)] == [1]


def test_numbers_and_checkpoint(engine: Engine, tmp_path: Path, cc: str) -> None:
    recording = stored(engine, tmp_path, "gpt2", "train_step")
    program = program_of(engine, recording, tmp_path / "program", cc)
    done = said(program, "-n", str(STEPS), "-c", str(tmp_path / "checkpoint.safetensors"))
    assert (done.returncode, done.stderr) == (0, "")
    native = repeated(engine, recording, STEPS)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [(int(line[0]), line[1], line[4]) for line in lines] == [(n + 1, "loss", "norm") for n in range(STEPS)]
    for line, outputs in zip(lines, native, strict=True):
        assert np.float32(line[2]) == outputs["loss"] and float.fromhex(line[3].strip("()")) == float(outputs["loss"])
        assert float.fromhex(line[6].strip("()")) == float(outputs["norm"])
    assert [float(outputs["step"]) for outputs in native] == [2.0, 3.0, 4.0, 5.0, 6.0]
    before = SafetensorsFile(str(program.parent / "weights.safetensors"))
    after = SafetensorsFile(str(tmp_path / "checkpoint.safetensors"))
    assert after.names() == before.names()
    order = read_launch_order(engine, recording.id)
    for part in order.weights:
        whole = native[-1][f"p.{order.buffers[part.buffer].name}"].reshape(-1)
        shape = part.shape[::-1] if part.transposed else part.shape
        piece = whole[part.offset : part.offset + int(np.prod(part.shape))].reshape(shape)
        assert after.read(part.tensor).tobytes() == (piece.T if part.transposed else piece).tobytes(), part.tensor
    again = said(program, "-n", "0")
    assert again.returncode == 1 and "error E1000" in again.stderr
    for bad in ("x", "-1", "1.5", "", "99999999999"):
        assert said(program, "-n", bad).returncode == 1


def test_a_checkpoint_goes_on(engine: Engine, tmp_path: Path, cc: str) -> None:
    """Two and three SGD steps, by way of a checkpoint, are five."""
    recording = stored(engine, tmp_path, "llama", "train_step_sgd")
    program = program_of(engine, recording, tmp_path / "program", cc)
    outputs = program.parent / "outputs.safetensors"
    assert said(program, "-n", "5").returncode == 0
    whole = outputs.read_bytes()
    assert said(program, "-n", "2", "-c", str(tmp_path / "two")).returncode == 0
    (program.parent / "weights.safetensors").write_bytes((tmp_path / "two").read_bytes())
    assert said(program, "-n", "3").returncode == 0
    assert outputs.read_bytes() == whole


USER = """
from presk_db import language as L

def parameters(dims):
    return L.Record(a=L.parameter("a", 3, 3, scale=0.5), b=L.parameter("b", 3, 3), c=L.parameter("c", 3), d=L.parameter("d", 3))

def inputs(dims):
    return {"x": L.real_input(3), "n": L.scalar_input(1.0)}

def step(p, x, n):
    a = L.update(p.a + 1.0, p.a)
    b = L.update(p.b + L.transpose(p.b), p.b)
    c = L.update(p.c * x, p.c)
    d = L.update(p.d + L.sum(p.d * x), p.d)
    return {"y": a @ p.a, "a": a, "b": b, "c": c, "d": d, "n": L.update(n * 2.0, n)}

def twice(p, x, n):
    return {"a": L.update(p.a + 1.0, p.a), "b": L.update(p.a * 2.0, p.a)}

def nothing(p, x, n):
    return p.a + 1.0
"""


def test_states_that_are_read_later_have_memory_of_their_own(engine: Engine, tmp_path: Path, cc: str) -> None:
    """a is read after its new value is there, b at another index, d in another loop: they are copied after each step."""
    (tmp_path / "states.py").write_text(USER)
    recording = write_recording(engine, recorded(spec_from(f"{tmp_path / 'states.py'}:step", {"type": "f64"})))
    with reading(engine) as connection:
        query = f"select name, in_place from state_list where recording_id = {recording.id} order by name"
        assert [tuple(row) for row in connection.exec_driver_sql(query)] == [
            ("a", 0),
            ("b", 0),
            ("c", 1),
            ("d", 0),
            ("n", 1),
        ]
    assert len(checked(engine, recording, [Build(cc, "-O0")], straight_line=(False, True), steps=4)) == 2
    with pytest.raises(EntryBad, match="second new value of parameters/a"):
        recorded(spec_from(f"{tmp_path / 'states.py'}:twice", {}))
    idle = write_recording(engine, recorded(spec_from(f"{tmp_path / 'states.py'}:nothing", {})))
    with pytest.raises(EntryBad, match="updates nothing"):
        checked(engine, idle, [Build(cc, "-O0")], steps=2)


KERNEL = """in a0: f32[4,8]
in a1: f32[4,8]
out a2: f32[4,8]
par i0 < 4
  par i1 < 8
    v0 = load a0[i0,i1]
    v1 = load a1[{}]
    v2 = add.f32 v0 v1
    store a2[i0,i1] v2
  end
end
"""


def test_what_may_share_memory() -> None:
    assert shared_pairs(parse(KERNEL.format("i0,i1"))) == (("a0", "a2"), ("a1", "a2"))
    assert shared_pairs(parse(KERNEL.format("0,i1"))) == (("a0", "a2"),)
    late = KERNEL.format("i0,i1").replace("    v1 = load a1[i0,i1]\n", "").replace("v0 v1", "v0 v0")
    late = late.replace("v2\n  end", "v2\n    v1 = load a1[i0,i1]\n    store a3[i0,i1] v1\n  end")
    kernel = parse(late.replace("par i0", "out a3: f32[4,8]\npar i0"))
    assert shared_pairs(kernel) == (("a0", "a2"), ("a0", "a3"), ("a1", "a3"))
    with pytest.raises(KernelAliasBad):
        c_function(kernel, "k", shared={"a1": "a2"})
    text = c_function(parse(KERNEL.format("i0,i1")), "k", shared={"a0": "a2"})
    assert "a0 is a2's memory" in text and "restrict a0" not in text and text.count("a2[8") == 2


def test_the_view_says_what_the_kernels_say(engine: Engine, tmp_path: Path) -> None:
    """Of every kernel of a step: the pairs that the query finds are pairs, and it misses none of its form."""
    recording = stored(engine, tmp_path, "gpt2", "train_step", type="bf16")
    with reading(engine) as connection:
        query = "select k.text, s.read_position, s.write_position from kernel_sharing s join kernels k on k.id = s.kernel_id"
        found = {tuple(row) for row in connection.exec_driver_sql(query)}
    assert len(found) > 10
    for kernel in read_kernels(engine, recording.id):
        names = [a.name for a in kernel.arrays]
        pairs = {(kernel.text, names.index(r), names.index(w)) for r, w in shared_pairs(kernel)}
        assert pairs == {f for f in found if f[0] == kernel.text}


@pytest.mark.parametrize(("entry", "name"), [("loss_grad", "targets"), ("train_step", "m.ln_f.w")])
def test_the_first_nan(engine: Engine, tmp_path: Path, cc: str, entry: str, name: str) -> None:
    """No target counts: the loss is 0 / 0. A NaN moment: the update of its parameter. The program names the launch."""
    recording = stored(engine, tmp_path, "gpt2", entry, dims={"T": 4})
    program = program_of(engine, recording, tmp_path / "program", cc)
    source = SafetensorsFile(str(program.parent / "conformance/inputs.safetensors"))
    arrays = {n: source.read(n) for n in source.names()}
    arrays[name] = np.full_like(arrays[name], 11 if name == "targets" else np.nan)
    write_safetensors(tmp_path / "given", arrays)
    done = said(program, inputs=tmp_path / "given")
    assert done.returncode == 0
    first, second = done.stderr.splitlines()
    assert "note: the output" in first and "holds a NaN at element 0" in first
    order = read_launch_order(engine, recording.id)
    given = {b.id: arrays[b.name] for b in order.buffers if b.role == "input"}
    launch = first_nan(engine, recording, given)
    assert f"the first NaN was written by launch {launch}, " in second
    assert said(program).stderr == ""


def first_nan(engine: Engine, recording: StoredRecording, given: dict[int, Any]) -> int:
    """The number of the first launch of a native run that writes a NaN."""
    order = read_launch_order(engine, recording.id)
    weights = loaded_weights(order, seeded_reader(recording.weights_seed or 0), lambda *_: None)
    memory = {n: a.reshape(-1) for n, a in (given | weights).items()}
    for number, launch in enumerate(order.launches):
        for view in launch.arguments:
            buffer = order.buffers[view.buffer]
            memory.setdefault(view.buffer, np.zeros(buffer.elements, STORAGE[buffer.type]))
        views = [memory[v.buffer][v.offset : v.offset + int(np.prod(v.shape))] for v in launch.arguments]
        run_kernel(launch.kernel, views, {})
        if any(a.mode == "out" and np.isnan(v).any() for a, v in zip(launch.kernel.arrays, views, strict=True)):
            return number
    raise AssertionError("no launch writes a NaN")
