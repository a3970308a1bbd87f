"""Archives: the same bytes whoever makes them; what was changed is named; a shell and a C compiler are enough."""

import gzip
import hashlib
import io
import json
import os
import re
import socket
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archive_files import Archive, flipped
from pipeline import GPT2, LLAMA, MLP, ROOT, Presk, config_file, stored

from presk_db.checkpoints.safetensors_write import write_safetensors
from presk_db.conformance.archive_read import import_archive, opened_archive
from presk_db.conformance.archive_write import write_archive
from presk_db.conformance.exact import exact_report
from presk_db.draw import drawn_weight
from presk_db.kernels.plan_file import Planned
from presk_db.kernels.plans import default_schedule
from presk_db.recording.events import Launched
from presk_db.specs.record import recorded
from presk_db.specs.spec import spec_from
from presk_db.store.dump import LOCAL, canonical_dump, dumped_rows
from presk_db.store.engine import Engine, open_database, reading
from presk_db.store.exact import read_errors
from presk_db.store.ingest import write_recording
from presk_db.store.plans import read_plan_of
from presk_db.store.read import read_recording
from presk_db.store.recordings import StoredRecording

Fails = Callable[..., str]


def archived(engine: Engine, recording: StoredRecording, path: Path, **how: Any) -> bytes:
    """The bytes of a recording's tar."""
    done = write_archive(engine, recording, str(path), **how)
    tar = gzip.decompress(path.read_bytes())
    assert (hashlib.sha256(tar).hexdigest(), len(tar)) == (done.digest, done.bytes)
    return tar


def imported(path: Path, database: Path, weights: Path | None = None) -> tuple[Engine, StoredRecording]:
    engine = open_database(str(database), create=True)
    with opened_archive(str(path)) as opened:
        return engine, import_archive(engine, opened, None if weights is None else str(weights))


SURROUNDINGS = [
    ("first", False, "1", "UTC", "C", 0o022),
    ("another place", True, "77", "Asia/Kathmandu", "C.UTF-8", 0o077),
]
SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from pipeline import GPT2, LLAMA, MLP, config_file, stored
from presk_db.conformance.archive_write import write_archive
from presk_db.store.engine import open_database
engine = open_database("presk.db", create=True)
if {before}:
    stored(engine, config_file(Path("other"), GPT2), dims={{"T": 2}}, name="other")
    stored(engine, str(MLP))
recording = stored(engine, config_file(Path("model"), GPT2), dims={{"T": 3}})
write_archive(engine, recording, "a.tar.gz")
"""


def test_nothing_but_the_recording_reaches_a_byte(tmp_path: Path) -> None:
    """Hash seed, time zone, locale, umask, folder, what else the database holds and in which order it came."""
    found = []
    for name, before, seed, zone, locale, umask in SURROUNDINGS:
        folder = tmp_path / name
        folder.mkdir()
        variables = {"PYTHONHASHSEED": seed, "TZ": zone, "LANG": locale, "LC_ALL": locale, "PYTHONPATH": str(ROOT)}
        script = SCRIPT.format(tests=str(ROOT / "tests"), before=before)
        command = [sys.executable, "-c", script]
        subprocess.run(command, cwd=folder, env={**os.environ, **variables}, umask=umask, check=True)
        found.append((folder / "a.tar.gz").read_bytes())
    assert found[0] == found[1]


def test_the_layout(sound: Archive) -> None:
    raw = sound.tar()
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        members = tar.getmembers()
    names = [m.name for m in members]
    assert names == sorted(names)
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime, m.type) for m in members} == {(0, 0, "", "", 0, tarfile.REGTYPE)}
    assert {m.mode for m in members if m.name.endswith(".sh")} == {0o755}
    assert {m.mode for m in members if not m.name.endswith(".sh")} == {0o644}
    listed = dict(reversed(line.split("  ", 1)) for line in sound.files["MANIFEST"].decode().splitlines())
    assert listed == {n: hashlib.sha256(d).hexdigest() for n, d in sound.files.items() if n != "MANIFEST"}
    page = (ROOT / "docs" / "archives.md").read_text() + sound.files["README.md"].decode()
    for name in sound.files:
        assert f"`{name}`" in page or name.startswith("program/"), f"{name} is not described"
    said = json.loads(sound.files["PROVENANCE.json"])
    assert said["digest"][:16] == sound.top.partition("-")[2]


def test_no_host_user_path_or_date(sound: Archive, tmp_path: Path) -> None:
    words = {
        socket.gethostname(),
        os.environ.get("USER", ""),
        str(ROOT),
        str(tmp_path.parent),
        "/root",
        "/home",
        "/tmp",
    }
    text = b"\n".join(d for n, d in sound.files.items() if not n.endswith(".safetensors")).decode()
    for word in words - {""}:
        assert not re.search(rf"(?<![\w/]){re.escape(word)}(?!\w)", text), word
    assert not re.search(r"\b20\d\d-\d\d-\d\d\b", text)


def test_every_row_of_the_recording_is_in_it(sound: Archive, tmp_path: Path) -> None:
    engine, recording = imported(sound.write(tmp_path / "a.tar.gz"), tmp_path / "presk.db")
    rows = dumped_rows(sound.files["recording.txt"].decode().splitlines())
    with reading(engine) as connection:
        tables = (
            "select name from pragma_table_list where type = 'table' and schema = 'main' and name not like 'sqlite%'"
        )
        for (name,) in connection.exec_driver_sql(tables).all():
            if name not in (*LOCAL, "presk_meta", "alembic_version", "tensor_chunks"):
                count = connection.exec_driver_sql(f"select count(*) from {name}").scalar_one()
                assert len(rows.get(name, [])) == count, name
        digests = {d for (d,) in connection.exec_driver_sql("select digest from tensor_chunks")}
        assert digests == {r["digest"] for r in rows["tensors"] if r["role"] != "weight"}
    assert recording.name == "tiny"


def test_a_round_trip_gives_the_same_bytes(sound: Archive, tmp_path: Path) -> None:
    """Into a new database, and into one that holds other recordings."""
    path = sound.write(tmp_path / "a.tar.gz")
    other = open_database(str(tmp_path / "other.db"), create=True)
    stored(other, str(MLP))
    for name in ("new.db", "other.db"):
        engine, recording = imported(path, tmp_path / name)
        assert archived(engine, recording, tmp_path / "b.tar.gz") == sound.tar()
    engine, recording = imported(path, tmp_path / "new.db")
    assert recording.id == 2, "an archive may be imported again"
    assert archived(engine, recording, tmp_path / "b.tar.gz") == sound.tar()


KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a step in mixed types": (GPT2, {"entry": "train_step", "type": "mixed", "dims": {"T": 2}}),
    "a gradient in bf16": (LLAMA, {"entry": "loss_grad", "type": "bf16", "dims": {"T": 2}}),
    "decoding": (GPT2, {"entry": "decode"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_trip_of_other_entries(kind: str, tmp_path: Path, empty: Engine, presk: Presk) -> None:
    """Rows come back as they were recorded, and so does the archive."""
    config, flags = KINDS[kind]
    run = recorded(spec_from(config_file(tmp_path, config), {"name": "tiny", **flags}))
    recording = write_recording(empty, run)
    again = read_recording(empty, recording.id)
    assert again.order == run.order
    assert [e.hashes for e in run.events if isinstance(e, Launched)] == [e.hashes for e in again.events]
    tar = archived(empty, recording, tmp_path / "a.tar.gz")
    engine, other = imported(tmp_path / "a.tar.gz", tmp_path / "b.db")
    assert archived(engine, other, tmp_path / "b.tar.gz") == tar
    if kind == "decoding":
        said = presk("verify", tmp_path / "a.tar.gz", "--cflags=-O0")
        assert said.status == 0, said.err


def test_a_plan_is_in_it(tmp_path: Path, empty: Engine) -> None:
    run = recorded(spec_from(str(MLP), {"name": "tiny"}))
    kernels = sorted(run.order.kernels(), key=lambda k: k.digest, reverse=True)
    plan = tuple(Planned(k.digest, default_schedule(k)) for k in kernels)
    recording = write_recording(empty, replace(run, plan=plan))
    tar = archived(empty, recording, tmp_path / "a.tar.gz")
    engine, other = imported(tmp_path / "a.tar.gz", tmp_path / "b.db")
    assert sorted(p.kernel for p in read_plan_of(engine, other.id)) == sorted(p.kernel for p in plan)
    assert archived(engine, other, tmp_path / "b.tar.gz") == tar


def test_what_the_exact_computation_said_is_in_it(tmp_path: Path, empty: Engine) -> None:
    recording = stored(empty, str(MLP))
    before = archived(empty, recording, tmp_path / "a.tar.gz")
    exact_report(empty, recording)
    tar = archived(empty, recording, tmp_path / "a.tar.gz")
    assert tar != before
    engine, again = imported(tmp_path / "a.tar.gz", tmp_path / "b.db")
    assert archived(engine, again, tmp_path / "b.tar.gz") == tar
    assert read_errors(engine, again.id) == read_errors(empty, recording.id) != ()


def weights_file(folder: Path, engine: Engine, extra: bool) -> Path:
    """A checkpoint for the small GPT-2, perhaps with a mask that nothing reads."""
    recording = stored(engine, config_file(folder, GPT2), dims={"T": 2})
    with reading(engine) as connection:
        query = "select distinct tensor, shape from weight_parts where recording_id = ?"
        parts = connection.exec_driver_sql(query, (recording.id,)).all()
    tensors = {name: drawn_weight(3, name, tuple(json.loads(shape)), -1.0, 1.0) for name, shape in parts}
    if extra:
        tensors["transformer.h.0.attn.bias"] = np.ones((1, 1, 6, 6), np.float32)
    write_safetensors(folder / "w.safetensors", tensors)
    return folder / "w.safetensors"


def test_weights_of_a_file(tmp_path: Path, empty: Engine, presk: Presk, fails: Fails) -> None:
    """Left out, or in: then those that the recording reads, which an import puts beside the database."""
    path = weights_file(tmp_path, empty, extra=True)
    recording = stored(empty, config_file(tmp_path, GPT2), dims={"T": 2}, weights=str(path))
    archived(empty, recording, tmp_path / "without.tar.gz")
    tar = archived(empty, recording, tmp_path / "with.tar.gz", with_weights=True)
    files = Archive.read(tmp_path / "with.tar.gz").files
    assert b".attn.bias" not in files["program/weights.safetensors"][:4000]
    assert f"file {recording.weights_digest}\n".encode() == files["WEIGHTS"]

    database = tmp_path / "new" / "presk.db"
    database.parent.mkdir()
    said = presk("import", tmp_path / "with.tar.gz", "--db", database)
    assert (said.status, len(list(database.parent.iterdir()))) == (0, 2)
    said = presk("archive", "latest", "--with-weights", "-o", tmp_path / "again.tar.gz", "--db", database)
    assert said.status == 0, said.err
    assert gzip.decompress((tmp_path / "again.tar.gz").read_bytes()) == tar

    bare = tmp_path / "bare.db"
    assert presk("import", tmp_path / "without.tar.gz", "--db", bare).status == 0
    line = fails("E7004", "archive", "latest", "--with-weights", "-o", tmp_path / "again.tar.gz", "--db", bare)
    assert line.endswith("E7004 tiny: no weights file came with the recording: give --weights")
    assert "give --weights" in fails("E7004", "verify", tmp_path / "without.tar.gz")
    write_safetensors(tmp_path / "other.safetensors", {"x": np.zeros(1, np.float32)})
    fails("E7004", "verify", tmp_path / "without.tar.gz", "--weights", tmp_path / "other.safetensors")
    for name, extra in (("without", ["--weights", path]), ("with", [])):
        said = presk("verify", tmp_path / f"{name}.tar.gz", "--cflags=-O0", *extra)
        assert said.status == 0, said.err
        assert said.out.splitlines()[-1].startswith("cc -O0: ")


def test_an_archive_replaces_only_when_it_is_whole(tmp_path: Path, empty: Engine, presk: Presk, fails: Fails) -> None:
    path = weights_file(tmp_path, empty, extra=False)
    recording = stored(empty, config_file(tmp_path, GPT2), dims={"T": 2}, weights=str(path))
    (tmp_path / "a.tar.gz").write_text("mine")
    path.unlink()
    db = ("--db", str(empty.url.database))
    assert "E7004" in fails(
        "E7004", "archive", recording.digest[:16], "--with-weights", "-o", tmp_path / "a.tar.gz", *db
    )
    assert "E1108" in fails("E1108", "archive", recording.digest[:16], "-o", tmp_path / "none" / "a.tar.gz", *db)
    assert (tmp_path / "a.tar.gz").read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.tar.gz", "config.json"]


def shell(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """verify.sh in another shell's folder, with few things in PATH."""
    tools = folder.parent / "tools"
    if not tools.exists():
        tools.mkdir()
        used = "cc as ld sha256sum cut tail head wc mktemp rm dirname cat"
        for tool in used.split():
            found = subprocess.run(["sh", "-c", f"command -v {tool}"], capture_output=True, text=True, check=False)
            if found.stdout.strip():
                (tools / tool).symlink_to(found.stdout.strip())
    environment = {"PATH": str(tools), "CFLAGS": "-O0 -w"}
    command = ["/bin/sh", str(folder / "verify.sh"), *arguments]
    return subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)


def test_verify_sh_needs_a_compiler_and_sha256sum_alone(sound: Archive, tmp_path: Path) -> None:
    done = shell(sound.unpack(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1].startswith("verify.sh: the program's outputs are the recorded ones, bit for bit")


CHANGES: dict[str, tuple[str, Callable[[bytes], bytes], str]] = {
    "a kernel": ("program/kernels.c", lambda d: d.replace(b"v0 / v4", b"v0 * v4", 1), "kernel k_layer_norm"),
    "a kernel made longer": ("program/kernels.c", lambda d: d.replace(b"v0 / v4", b"v0 / v4 / 1", 1), "kernel k_layer_norm"),
    "a weight": ("program/weights.safetensors", flipped(-3), "tensor transformer.wte.weight"),
    "an input": ("program/conformance/inputs.safetensors", flipped(-8), "tensor tokens"),
    "an output": ("program/conformance/outputs.safetensors", flipped(-1, 128), "tensor logits"),
    "a row": ("recording.txt", lambda d: d.replace(b"table arenas", b"table arenaz"), "recording.txt"),
    "a part": ("PARTS", flipped(3), "PARTS"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_named(change: str, sound: Archive, tmp_path: Path, fails: Fails) -> None:
    name, how, named = CHANGES[change]
    changed = sound.changed(name, how)
    done = shell(changed.unpack(tmp_path))
    assert done.returncode == 1
    assert f"verify.sh: CHANGED: {name}\n" in done.stderr
    assert named in done.stderr
    line = fails("E7009", "verify", changed.write(tmp_path / "a.tar.gz"))
    assert name in line and named in line
    assert fails("E7009", "import", tmp_path / "a.tar.gz", "--db", tmp_path / "presk.db")
    assert not (tmp_path / "presk.db").exists()


def test_a_missing_and_an_added_file_are_named(sound: Archive, tmp_path: Path, fails: Fails) -> None:
    files = dict(sound.files)
    del files["program/model.c"]
    files["program/extra.c"] = b"int x;\n"
    changed = Archive(sound.top, files)
    line = fails("E7009", "verify", changed.write(tmp_path / "a.tar.gz"))
    assert "program/model.c is missing" in line and "program/extra.c is not in the manifest" in line
    done = shell(changed.unpack(tmp_path))
    assert done.returncode == 1 and "verify.sh: MISSING: program/model.c\n" in done.stderr


def test_a_change_that_the_manifest_covers_is_found_by_running(sound: Archive, tmp_path: Path, fails: Fails) -> None:
    """The kernel, its part and the manifest all changed: the outputs differ, and the launch is named."""
    name, how, _ = CHANGES["a kernel"]
    changed = sound.changed(name, how).listed()
    done = shell(changed.unpack(tmp_path))
    assert done.returncode == 1
    assert "verify.sh: CHANGED: tensor logits, in program/conformance/outputs.safetensors\n" in done.stderr
    assert re.search(
        r"the first launch that differs: 1, kernel tiny_k_layer_norm, in layer_norm at \w+\.py:\d+", done.stderr
    )
    line = fails("E7009", "verify", changed.write(tmp_path / "a.tar.gz"))
    assert "program/kernels.c does not follow from the recording: kernel k_layer_norm" in line
    other = json.loads(changed.files["PROVENANCE.json"]) | {"presk": "0.0.1"}
    older = changed.changed("PROVENANCE.json", lambda _: json.dumps(other).encode()).listed()
    line = fails("E7003", "verify", older.write(tmp_path / "a.tar.gz"), "--cflags=-O0")
    assert "logits differs" in line and "operation 1: k_layer_norm in layer_norm at" in line


def test_weights_that_the_manifest_covers_are_compared(sound: Archive, tmp_path: Path, fails: Fails) -> None:
    changed = sound.changed("program/weights.safetensors", flipped(-3)).listed()
    line = fails("E7009", "verify", changed.write(tmp_path / "a.tar.gz"))
    assert "program/weights.safetensors: " in line and "wte has other bits" in line


def test_rows_of_another_recording(sound: Archive, tmp_path: Path, fails: Fails) -> None:
    """Inputs, outputs and rows that agree, but not with the digest that the archive states."""
    said = json.loads(sound.files["PROVENANCE.json"]) | {"digest": "0" * 64}
    changed = sound.changed("PROVENANCE.json", lambda _: json.dumps(said).encode()).listed()
    line = fails("E7008", "import", changed.write(tmp_path / "a.tar.gz"), "--db", tmp_path / "presk.db")
    assert "not 0000000000000000" in line
    with reading(open_database(str(tmp_path / "presk.db"), create=True)) as connection:
        assert connection.exec_driver_sql("select count(*) from recordings").scalar() == 0


def test_dumps_are_read_back(sound: Archive, tmp_path: Path) -> None:
    engine, recording = imported(sound.write(tmp_path / "a.tar.gz"), tmp_path / "presk.db")
    with reading(engine) as connection:
        assert "\n".join(canonical_dump(connection, recording.id)) + "\n" == sound.files["recording.txt"].decode()
