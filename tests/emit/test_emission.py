"""Emissions: the golden program, folders, manifests, and that nothing but the recording reaches a byte."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pipeline import FIXTURES, GPT2, LLAMA, MLP, ROOT, config_file, stored
from sqlalchemy import Engine

from presk_db.emit.emission import MANIFEST, Emission, emit_to
from presk_db.emit.generator import generator
from presk_db.errors import EmissionUnwritable
from presk_db.store.emission import emission_reader
from presk_db.store.engine import open_database
from presk_db.store.recordings import StoredRecording

GOLDEN = FIXTURES / "golden"
GOLDEN_FILES = ("model.h", "model.c", "kernels.h", "kernels.c", "main.c")
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-O2", "-ffp-contract=off"]


def emit(engine: Engine, recording: StoredRecording, folder: Path, straight_line: bool = False) -> Emission:
    with emission_reader(engine, recording.id) as reader:
        return emit_to(reader, recording, generator("c_program"), folder, {"straight_line": straight_line})


def content(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of fixtures/user/mlp.py."""
    folder = tmp_path_factory.mktemp("mlp") / "mlp"
    engine = open_database(str(folder.parent / "presk.db"), create=True)
    emit(engine, stored(engine, f"{MLP}:forward", name="mlp"), folder)
    return folder


@pytest.mark.parametrize("name", GOLDEN_FILES)
def test_golden(program: Path, name: str) -> None:
    """The C of a small program, as reviewed; `PRESK_UPDATE_GOLDEN=1 python -m pytest tests/emit` writes it anew."""
    text = (program / name).read_text()
    if os.environ.get("PRESK_UPDATE_GOLDEN") == "1":
        (GOLDEN / name).write_text(text)
    assert text == (GOLDEN / name).read_text(), "if it should differ, set PRESK_UPDATE_GOLDEN=1 and review the change"


@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_the_golden_program_compiles_without_a_warning_and_runs(program: Path, tmp_path: Path, compiler: str) -> None:
    sources = [*(p.name for p in program.glob("presk_*.c")), "model.c", "kernels.c", "main.c"]
    objects = []
    for source in sources:
        target = tmp_path / f"{source}.o"
        where = GOLDEN if source in GOLDEN_FILES else program
        command = [
            compiler,
            *WARNINGS,
            "-I",
            str(GOLDEN),
            "-I",
            str(program),
            "-c",
            str(where / source),
            "-o",
            str(target),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), source
        objects.append(str(target))
    main = tmp_path / "main"
    subprocess.run([compiler, "-o", str(main), *objects, "-lm"], check=True)
    inputs, weights = program / "conformance" / "inputs.safetensors", program / "weights.safetensors"
    done = subprocess.run([main, "-i", inputs, "-w", weights, "-o", tmp_path / "out"], capture_output=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, b"", b"")
    assert (tmp_path / "out").read_bytes() == (program / "conformance" / "outputs.safetensors").read_bytes()


def test_manifest(program: Path) -> None:
    lines = (program / MANIFEST).read_text().splitlines()
    listed = dict(reversed(line.split("  ", 1)) for line in lines[1:])
    files = content(program)
    del files[MANIFEST]
    assert listed == {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    assert list(listed) == sorted(listed)
    assert os.access(program / "conformance" / "check.sh", os.X_OK)


RECORD = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from pipeline import stored, GPT2, MLP, config_file
from presk_db.store.engine import open_database
sys.path.insert(0, {emit!r})
from test_emission import emit
engine = open_database("presk.db", create=True)
if {before}:
    stored(engine, str(MLP))
emit(engine, stored(engine, config_file(Path("model"), GPT2), dims={{"T": 3}}), Path("out"))
"""


def test_nothing_but_the_spec_reaches_a_byte(tmp_path: Path) -> None:
    """Hash seed, time zone, locale, umask, folder, and what else the database holds."""
    results = []
    surroundings = [
        ("first", False, "1", "UTC", "C", 0o022),
        ("a second folder", True, "77", "Asia/Kathmandu", "C.UTF-8", 0o077),
    ]
    for name, before, seed, zone, locale, umask in surroundings:
        folder = tmp_path / name
        folder.mkdir()
        script = RECORD.format(tests=str(ROOT / "tests"), emit=str(ROOT / "tests" / "emit"), before=before)
        variables = {"PYTHONHASHSEED": seed, "TZ": zone, "LANG": locale, "LC_ALL": locale, "PYTHONPATH": str(ROOT)}
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=folder,
            env={**os.environ, **variables},
            umask=umask,
            check=True,
        )
        results.append(content(folder / "out"))
    assert results[0] == results[1]


def test_an_emission_replaces_an_emission_but_no_file_of_the_users(tmp_path: Path, empty: Engine) -> None:
    recording = stored(empty, str(MLP))
    folder = tmp_path / "out"
    folder.mkdir()
    emit(empty, recording, folder)
    first = content(folder)
    for made in ("model.o", "main", "outputs.safetensors"):
        (folder / made).write_text("made by make")
    (folder / "model.c").write_text("changed")
    emit(empty, recording, folder)
    assert content(folder) == first
    (folder / "conformance" / "notes.txt").write_text("mine")
    with pytest.raises(EmissionUnwritable, match=r"E6002 .*it holds conformance/notes.txt"):
        emit(empty, recording, folder)
    assert (folder / "conformance" / "notes.txt").read_text() == "mine"


def test_a_symbolic_link_is_followed(tmp_path: Path, empty: Engine) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    emit(empty, stored(empty, str(MLP)), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "model.c").is_file()


def test_a_failure_leaves_what_was_there(tmp_path: Path, empty: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = stored(empty, str(MLP))
    emit(empty, recording, tmp_path / "out")
    before = content(tmp_path)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("presk_db.emit.emission.write_tensors", interrupted)
    for folder in ("out", "new"):
        with pytest.raises(KeyboardInterrupt):
            emit(empty, recording, tmp_path / folder)
    assert content(tmp_path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("config", [GPT2, LLAMA])
def test_the_straight_line_program_differs_only_in_its_order(tmp_path: Path, empty: Engine, config: dict) -> None:
    recording = stored(empty, config_file(tmp_path, config), dims={"T": 2})
    emit(empty, recording, tmp_path / "a")
    emit(empty, recording, tmp_path / "b", straight_line=True)
    a, b = content(tmp_path / "a"), content(tmp_path / "b")
    assert {n for n in a if a[n] != b[n]} <= {
        "main.c",
        "model.c",
        "model.h",
        "kernels.c",
        "kernels.h",
        MANIFEST,
        "README.md",
    }
