"""presk diverge: every planted fault is named exactly, and a sound program never."""

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pipeline import GPT2, LLAMA, config_file, stored
from sqlalchemy import Engine

from presk_db.conformance.diverge import Divergence, divergence
from presk_db.conformance.hashes import read_hashes
from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.errors import HashesBad
from presk_db.resources import resource_folder
from presk_db.store.emission import emission_reader
from presk_db.store.engine import open_database, reading, writing
from presk_db.store.recordings import StoredRecording

FLAGS = ("-std=c11", "-ffp-contract=off", "-O0", "-w", "-DPRESK_HASH", "-DPRESK_PREFIX=tiny_")


def run_cc(*arguments: object) -> None:
    subprocess.run(["cc", *FLAGS, *map(str, arguments)], check=True)


@dataclass
class Build:
    """A program built with hashes; objects that a fault does not touch are built once."""

    folder: Path
    extra: tuple[str, ...] = ()
    objects: dict[str, Path] = field(default_factory=dict)

    def object(self, source: Path) -> Path:
        """The object of a source, by its text."""
        key = source.name + source.read_text()
        if key not in self.objects:
            self.objects[key] = self.folder / f"{len(self.objects)}.o"
            run_cc(*self.extra, "-I", source.parent, "-c", "-o", self.objects[key], source)
        return self.objects[key]

    def hashes(self, program: Path) -> Path:
        """Builds the program and runs it; where its hashes lie."""
        own = [self.object(program / f"{name}.c") for name in ("model", "kernels", "main")]
        runtime = [self.object(s) for s in sorted(resource_folder("runtime_c").glob("presk_*.c"))]
        run_cc(*self.extra, *own, *runtime, "-lm", "-o", program / "main")
        path = program / "hashes"
        command = ["./main", "-i", "conformance/inputs.safetensors", "-o", "out", "-s", "hashes"]
        command += ["-w", "weights.safetensors"] if (program / "weights.safetensors").exists() else []
        subprocess.run(command, cwd=program, check=False, capture_output=True)
        return path


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return Build(tmp_path_factory.mktemp("objects"))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return open_database(str(tmp_path_factory.mktemp("database") / "presk.db"), create=True)


@pytest.fixture(scope="module")
def recording(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> StoredRecording:
    """A GPT-2 of three layers."""
    config = config_file(tmp_path_factory.mktemp("gpt2"), {**GPT2, "n_layer": 3})
    return stored(engine, config, dims={"B": 2, "T": 4})


def emitted(engine: Engine, recording: StoredRecording, folder: Path, straight_line: bool = False) -> Path:
    with emission_reader(engine, recording.id) as reader:
        emit_to(reader, recording, generator("c_program"), folder, {"straight_line": straight_line})
    return folder


@pytest.fixture(scope="module")
def programs(
    engine: Engine, recording: StoredRecording, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[bool], Path]:
    """The program, structured or straight-line."""
    folders = {s: emitted(engine, recording, tmp_path_factory.mktemp("p") / "program", s) for s in (False, True)}
    return lambda straight: folders[straight]


@dataclass(frozen=True)
class Fault:
    """A change of a file, within a kernel's functions if one is named; the launch that must be found and how."""

    name: str
    file: str
    within: str | None
    pattern: str
    new: str
    kernel: str
    launch: int
    what: str = "it wrote other values"
    straight_line: bool = False


VALUES, PLACE, STRAY = "it wrote other values", "it wrote to another place", "it changed a byte outside what it writes"
OTHER, ENDED = "k_linear_add ran in its place", "the run ended before it was done"
K, M = "kernels.c", "model.c"
SWAP = r"^(    linear\(.*\n)(    attention\(.*\n)"
ATTENTION = "k_attention_matmul_softmax"
SWAPPED = f"{ATTENTION} ran in its place"
FAULTS = [
    Fault("a wrong constant", K, "k_layer_norm", r"0x1\.4f8b58p-17f", "0x1.4f8b58p-10f", "k_layer_norm", 0),
    Fault("a loop one short", K, "k_layer_norm", r"i1_1 < 8", "i1_1 < 7", "k_layer_norm", 0),
    Fault("an index that does not move", K, "k_layer_norm", r"a1\[i3_1\]", "a1[0]", "k_layer_norm", 0),
    Fault("a loop one too long", K, "k_layer_norm", r"i3_1 < 8", "i3_1 < 9", "k_layer_norm", 0, STRAY),
    Fault("a read one off", K, "k_gather_add", r"a2\[8 \* i1 ", "a2[8 * i1 + 1 ", "k_gather_add", 0),
    Fault("a difference for a sum", K, "k_gather_add", r"\] \+ a2", "] - a2", "k_gather_add", 0),
    Fault("a panel one short", K, "k_linear", r"a1 \+ column \* 8", "a1 + column * 7", "k_linear", 0),
    Fault("values for keys", K, ATTENTION, r"i1 \+ 8, 24", "i1 + 16, 24", ATTENTION, 0),
    Fault("a mask one off", K, ATTENTION, r"i6_rest = row \+ tile \+ 1", "i6_rest = row + tile", ATTENTION, 0),
    Fault("a wrong scale", K, ATTENTION, r"0x1p-1f", "0x1p-2f", ATTENTION, 0),
    Fault("a rounding twice", K, ATTENTION, r"(l1\[.*\]) / v8", r"\1 * (1 / v8)", ATTENTION, 0),
    Fault("a split with a gap", K, ATTENTION, r"LAUNCH\(4", "LAUNCH(3", ATTENTION, 0),
    Fault("one head twice", K, ATTENTION, r"i1 = group % 2", "i1 = 0", ATTENTION, 0),
    Fault("a missing bias", K, "k_linear_add", r" \+ a3\[column \+ lane\]", "", "k_linear_add", 0),
    Fault("layers backwards", M, None, r"mlp_fc_w \+ l \*", "mlp_fc_w + (2 - l) *", "k_linear_gelu_tanh", 0),
    Fault("a slice that does not move", M, None, r"h_ln_2_w \+ l \* 8", "h_ln_2_w", "k_layer_norm", 3),
    Fault("a layer missing", M, None, r"l < 3; l\+\+", "l < 2; l++", "k_layer_norm", 4, PLACE),
    Fault("a launch missing", M, None, r"^    k_attention_matmul_softmax\(.*\n", "", ATTENTION, 0, OTHER),
    Fault("the last launch missing", M, None, r"^    linear_5\(.*\n", "", "k_linear_2", 0, ENDED),
    Fault("launches swapped", M, None, SWAP, r"\2\1", "k_linear", 0, SWAPPED),
    Fault("a wrong buffer read", M, None, r"layer_norm\(linear_add_out_2, ", "layer_norm(x, ", "k_layer_norm", 1),
    Fault("a wrong place written", M, None, r"(layer_norm_out_2 = .*\(frame \+) 1280", r"\1 1024", "k_layer_norm", 1, PLACE),
    Fault("an output for a temporary", M, None, r"head, logits\)", "head, (float *)layer_norm_out)", "k_linear_2", 0, PLACE),
    Fault("weights loaded one over the other", M, None, r"INT64_C\(128\), 0, 0", "INT64_C(120), 0, 0", "k_linear_gelu_tanh", 0),
    Fault("a wrong weight", M, None, r"(w->ln_f_w = .*)15872", r"\g<1>15936", "k_layer_norm", 6),
    Fault("a weight transposed", M, None, r"8, 24, 24, 1, 256", "8, 24, 1, 8, 256", "k_linear", 0),
    Fault("a wrong layer", M, None, r"w->h_attn_proj_b \+ 8", "w->h_attn_proj_b + 16", "k_linear_add", 1, VALUES, True),
    Fault("a read too early", M, None, r"(k_layer_norm\(.*arena \+ )0", r"\g<1>512", "k_layer_norm", 0, VALUES, True),
]  # fmt: skip


def changed(text: str, fault: Fault) -> str:
    """The text with the first match replaced, behind the head of the kernel if one is named."""
    start = 0
    if fault.within is not None:
        (start,) = (m.start() for m in re.finditer(rf"^static void {fault.within}_part\(", text, re.MULTILINE))
    found = re.compile(fault.pattern, re.MULTILINE).search(text, start)
    assert found is not None, fault.pattern
    after = text[: found.start()] + found.expand(fault.new) + text[found.end() :]
    assert after != text
    return after


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_a_fault_is_named_exactly(
    fault: Fault,
    engine: Engine,
    recording: StoredRecording,
    programs: Callable[[bool], Path],
    build: Build,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "program"
    shutil.copytree(programs(fault.straight_line), folder)
    file = folder / fault.file
    file.write_text(changed(file.read_text(), fault))
    found = divergence(engine, recording, str(build.hashes(folder)))
    assert found is not None
    assert (found.kernel, found.what) == (fault.kernel, fault.what), found.text()
    operation, function, source, digest = launch_of(engine, recording, fault)
    assert (found.operation, found.place.function, found.place.source) == (operation, function, source), found.text()
    assert found.place.kernel_digest == digest
    assert f"operation {operation}: {fault.kernel} in {function} at {source}: {fault.what}" == found.line


def launch_of(engine: Engine, recording: StoredRecording, fault: Fault) -> tuple[Any, ...]:
    """Operation, function, model's line and kernel of the launch that the fault is in, by the kernel's label."""
    label = re.sub(r"_\d$", "", fault.kernel.removeprefix("k_"))
    which = int(fault.kernel[-1]) - 1 if fault.kernel[-1].isdigit() else 0
    with reading(engine) as connection:
        rows = connection.exec_driver_sql(
            "select kernel_id, operation, function, source, kernel_digest from launch_list"
            " where recording_id = ? order by operation",
            (recording.id,),
        ).all()
        labels = connection.exec_driver_sql(
            "select l.kernel_id from launch_list l where l.recording_id = ? and l.label = ? group by l.kernel_id"
            " order by min(l.operation)",
            (recording.id, label),
        ).all()
    kernel = labels[which][0]
    return tuple([row[1:] for row in rows if row[0] == kernel][fault.launch])


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "gradient": (GPT2, {"entry": "loss_grad", "dims": {"B": 2, "T": 3}}),
    "step in mixed types": (GPT2, {"entry": "train_step", "type": "mixed", "dims": {"B": 1, "T": 3}}),
    "decoding": (LLAMA, {"entry": "decode"}),
    "llama in bf16": (LLAMA, {"type": "bf16", "dims": {"T": 4}}),
    "llama in f64": (LLAMA, {"type": "f64", "dims": {"T": 4}}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_sound_program_does_not_diverge(case: str, engine: Engine, build: Build, tmp_path: Path) -> None:
    config, flags = CASES[case]
    recording = stored(engine, config_file(tmp_path, config), **flags)
    for straight_line in (False, True):
        folder = emitted(engine, recording, tmp_path / str(straight_line), straight_line)
        found = divergence(engine, recording, str(build.hashes(folder)))
        assert found is None, found.text()
        assert (folder / "out").read_bytes() == (folder / "conformance/outputs.safetensors").read_bytes()


def test_threads_and_optimization_do_not_change_a_hash(
    engine: Engine, recording: StoredRecording, programs: Callable[[bool], Path], build: Build, tmp_path: Path
) -> None:
    fast = Build(tmp_path, ("-O3", "-march=native", "-fopenmp"))
    found = []
    for n, builder in enumerate((build, fast)):
        folder = tmp_path / f"program{n}"
        shutil.copytree(programs(False), folder)
        found.append(builder.hashes(folder).read_bytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_a_program_with_every_hook_compiles_without_a_warning(compiler: str, programs: Callable[[bool], Path]) -> None:
    hooks = ("-DPRESK_HASH", "-DPRESK_PROFILE", "-DPRESK_TRACE_ARENA", "-DPRESK_PREFIX=tiny_")
    warnings = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-ffp-contract=off", "-fsyntax-only")
    for straight_line in (False, True):
        sources = sorted(programs(straight_line).glob("*.c"))
        done = subprocess.run([compiler, *warnings, *hooks, *sources], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_database_elsewhere_names_the_same(
    engine: Engine, recording: StoredRecording, programs: Callable[[bool], Path], build: Build, tmp_path: Path
) -> None:
    """A copy of the file is enough; and a run that crashed is compared as far as it came."""
    folder = tmp_path / "program"
    shutil.copytree(programs(False), folder)
    (folder / "model.c").write_text(changed((folder / "model.c").read_text(), FAULTS[14]))
    hashes = build.hashes(folder)
    copy = tmp_path / "copy.db"
    shutil.copyfile(str(engine.url.database), copy)
    first = divergence(open_database(str(copy)), recording, str(hashes))
    assert isinstance(first, Divergence)
    assert first == divergence(engine, recording, str(hashes))
    lines = hashes.read_text().splitlines(keepends=True)
    hashes.write_text("".join(lines[: first.operation + 2]) + lines[first.operation + 2][:9])
    assert read_hashes(str(hashes)).operations is None
    crashed = divergence(engine, recording, str(hashes))
    assert crashed is not None
    assert (crashed.operation, crashed.what) == (first.operation, ENDED)


BAD = ["", "presk hashes 2\n", "presk hashes 1\n", "presk hashes 1\nrecording 12 structured\n", "HEAD 0 k 0 arena\nend 1\n",
       "HEADend 0\nend 0\n", "HEAD0 k_x 0 arena+0 xyz\nend 1\n", "\0", "\xff"]  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_a_file_that_is_none(text: str, engine: Engine, recording: StoredRecording, tmp_path: Path) -> None:
    path = tmp_path / "hashes"
    path.write_text(
        text.replace("HEAD", f"presk hashes 1\nrecording {recording.digest} structured\n"), encoding="latin-1"
    )
    with pytest.raises(HashesBad, match="E7007"):
        divergence(engine, recording, str(path))
    with pytest.raises(HashesBad, match="E7007"):
        divergence(engine, recording, str(tmp_path))


def test_hashes_of_another_recording_or_none(engine: Engine, recording: StoredRecording, tmp_path: Path) -> None:
    path = tmp_path / "hashes"
    path.write_text(f"presk hashes 1\nrecording {'0' * 64} structured\nend 0\n")
    with pytest.raises(HashesBad, match="hashes of 0000000000000000, not of"):
        divergence(engine, recording, str(path))
    other = stored(engine, config_file(tmp_path, GPT2), dims={"T": 1})
    path.write_text(f"presk hashes 1\nrecording {other.digest} structured\nend 0\n")
    with writing(engine) as connection:
        connection.exec_driver_sql("delete from launch_hashes where recording_id = ?", (other.id,))
    with pytest.raises(HashesBad, match="record it again"):
        divergence(engine, other, str(path))
