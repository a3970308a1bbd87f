"""Every command through main(): what it prints, and that each error is one line with a code and status 1."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pipeline import GPT2, MIXED, MLP, Presk, config_file
from sqlalchemy import create_engine

from presk_db.checkpoints.safetensors_write import write_safetensors

Fails = Callable[..., str]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a config.json of a small GPT-2."""
    monkeypatch.chdir(tmp_path)
    config_file(tmp_path, GPT2)
    return tmp_path


@pytest.fixture
def recorded(work: Path, presk: Presk) -> Path:
    """The working folder with a presk.db that holds one recording, called tiny."""
    assert presk("record", "config.json", "--dim", "T=3", "--name", "tiny").status == 0
    return work


def test_record_list_show_emit(recorded: Path, presk: Presk) -> None:
    listed = presk("list").out.splitlines()
    assert listed[0].split() == ["name", "digest", "family", "entry", "calls", "kernels", "launches", "arena", "bytes"]
    assert listed[1].split()[0] == "tiny"
    digest = listed[1].split()[1]
    for selector in ("tiny", "latest", digest, digest[:4]):
        assert presk("show", "graph", selector).out.splitlines()[-1].startswith("  return ")
    calls = presk("show", "calls", "tiny").out
    assert "forward" in calls.splitlines()[0]
    assert "block.1" in calls
    assert presk("show", "kernels", "tiny").out.startswith("# ")
    assert presk("show", "launches", "tiny").out.startswith("    0 ")
    said = presk("emit", "tiny", "-o", "out/program")
    assert (said.status, said.err) == (0, "")
    assert (recorded / "out" / "program" / "model.c").is_file()
    assert presk("db", "check").out == "presk.db: sound\n"
    assert presk("db", "upgrade").out.startswith("presk.db: schema ")


def test_help_and_version(presk: Presk) -> None:
    assert presk("--version").out.startswith("presk, version ")
    assert "Commands:" in presk("-h").out
    for command in ("record", "emit", "check", "list", "show", "db", "checkpoint"):
        assert presk(command, "--help").status == 0


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("frobnicate",),
        ("record",),
        ("emit", "x"),
        ("show",),
        ("show", "nothing", "x"),
        ("list", "--colour"),
        ("record", "c", "--dim", "T"),
        ("record", "c", "--dim", "T=-1"),
        ("record", "c", "--dim", "T=" + "9" * 5000),
        ("record", "c", "--dim", "T=1", "--dim", "T=2"),
        ("record", "c", "--seed", "x"),
        ("db",),
        ("checkpoint",),
    ],
)
def test_usage(work: Path, fails: Fails, arguments: tuple[str, ...]) -> None:
    assert "--help` says how" in fails("E1000", *arguments)


CONFIGS: list[tuple[str, dict[str, Any]]] = [
    ("E1004", {"model_type": "gpt9"}),
    ("E1005", {"scale_by_moon": True}),
    ("E1005", {"scale_attn_by_inverse_layer_idx": True}),
    ("E1006", {"n_embd": None}),
    ("E1006", {"n_embd": -8}),
    ("E1006", {"n_embd": 2**40}),
    ("E1006", {"n_embd": 9}),
    ("E1006", {"n_layer": 10**6}),
    ("E1006", {"layer_norm_epsilon": 0}),
    ("E1006", {"layer_norm_epsilon": 10**400}),
    ("E1006", {"activation_function": ["gelu"]}),
    ("E4003", {"n_embd": 2**20, "vocab_size": 2**31}),
]


@pytest.mark.parametrize(("code", "change"), CONFIGS)
def test_configs(work: Path, fails: Fails, code: str, change: dict[str, Any]) -> None:
    config_file(work, {**GPT2, **change})
    line = fails(code, "record", "config.json")
    assert "config.json" in line or code == "E4003"
    assert not (work / "presk.db").exists(), "an error makes no database"


@pytest.mark.parametrize(
    ("code", "flags"),
    [
        ("E1001", ("--model", "nowhere")),
        ("E1003", ("--type", "f32", "--realization", "r.toml")),
        ("E1003", ("--name", "a\nb")),
        ("E1003", ("--name", "\udcff")),
        ("E1003", ("--name", "")),
        ("E1003", ("--seed", "-1")),
        ("E1003", ("--weights", "seed:x")),
        ("E1004", ("--entry", "nothing")),
        ("E1007", ("--dim", "T=7")),
        ("E1007", ("--dim", "T=0")),
        ("E1007", ("--dim", "X=1")),
        ("E1101", ("--weights", "nowhere.safetensors")),
        ("E1101", ("--inputs", "nowhere.safetensors")),
        ("E3001", ("--realization", "nowhere.toml")),
        ("E3002", ("--realization", "r.toml")),
        ("E3003", ("--type", "f8")),
        ("E5001", ("--db", "")),
        ("E5001", ("--db", "d" * 5000)),
        ("E5001", ("--db", ".")),
        ("E5001", ("--db", "config.json")),
        ("E5001", ("--db", "postgresql://host/x")),
        ("E5004", ("--db", "no/such/folder/x.db")),
    ],
)
def test_flags(work: Path, fails: Fails, code: str, flags: tuple[str, ...]) -> None:
    (work / "r.toml").write_text('[sites]\n"*/moon" = "f64"\n')
    fails(code, "record", "config.json", *flags)
    assert not (work / "presk.db").exists()


def test_an_unknown_recording(recorded: Path, presk: Presk, fails: Fails) -> None:
    for command in (("emit", "moon", "-o", "out"), ("check", "moon"), ("show", "graph", "moon")):
        assert "tiny" in fails("E5003", *command)
    assert fails("E5001", "list", "--db", "none.db").endswith("'presk record' makes one")
    assert fails("E5001", "db", "check", "--db", "none.db")
    assert fails("E5001", "db", "upgrade", "--db", "none.db")


def test_another_schema_version(recorded: Path, fails: Fails) -> None:
    with sqlite3.connect("presk.db") as connection:
        connection.execute("update presk_meta set value = '9999' where key = 'schema_version'")
    connection.close()
    for command in (("list",), ("record", "config.json"), ("emit", "tiny", "-o", "o"), ("db", "upgrade")):
        assert "9999" in fails("E5002", *command)


def test_a_damaged_database(recorded: Path, presk: Presk) -> None:
    with sqlite3.connect("presk.db") as connection:
        connection.execute("update kernels set text = text || ' ' where id = 1")
        connection.execute("update tensor_chunks set data = zeroblob(length(data))")
    connection.close()
    said = presk("db", "check")
    assert said.status == 1
    assert len(said.out.splitlines()) > 1, "every problem is told"
    assert said.err.startswith("presk: error E5005 presk.db: ")
    assert len(said.err.splitlines()) == 1


def test_a_locked_database(recorded: Path, fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    real = sqlite3.connect
    monkeypatch.setattr("presk_db.store.engine.create_engine", _impatient)
    other = real("presk.db", isolation_level=None)
    other.execute("begin immediate")
    assert "is locked" in fails("E5004", "record", "config.json", "--dim", "T=2")
    other.execute("rollback")
    other.close()


def _impatient(url: Any, **options: Any) -> Any:
    options["connect_args"] = {**options["connect_args"], "timeout": 0.05}
    return create_engine(url, **options)


NAMES = ['a"b', "*/", "/*", "*\\", "??/", "%s%n", "$(rm)", "`", "模型", "main", "int", "presk_x", "n" * 200, "-", "9"]


def test_names(work: Path, presk: Presk) -> None:
    for number, name in enumerate(NAMES):
        assert presk("record", f"{MLP}", "--dim", "B=1", "--name", name).status == 0, name
        assert presk("emit", "latest", "-o", f"out{number}").status == 0, name
        head = (work / f"out{number}" / "model.h").read_text().splitlines()
        assert head[0].startswith("/* model.h: ")
        assert "*/" not in head[0]
        assert head[5].startswith("#ifndef ")
        assert head[5].split()[1].isidentifier()
    assert len(presk("list").out.splitlines()) == len(NAMES) + 1


def test_the_fixture_specs(presk: Presk, tmp_path: Path, fixtures: Path) -> None:
    small = tmp_path / "config.json"
    config_file(tmp_path, {**GPT2, "n_layer": 2})
    flags = ("--db", tmp_path / "p.db", "--model", small, "--dim", "T=3", "--realization", fixtures / "mixed.toml")
    assert presk("record", fixtures / "course_gpt" / "spec.toml", *flags).status == 0
    said = presk("show", "kernels", "course-gpt", "--db", tmp_path / "p.db").out
    assert "bf16" in said
    assert "f32" in said


def test_mixed_types_reach_the_spec(work: Path, presk: Presk) -> None:
    (work / "mixed.toml").write_text(MIXED)
    assert presk("record", "config.json", "--realization", "mixed.toml").status == 0
    assert "gpt2-forward-mixed" in presk("list").out


def test_emitting_onto_things(recorded: Path, presk: Presk, fails: Fails) -> None:
    (recorded / "file").write_text("mine")
    (recorded / "folder").mkdir()
    (recorded / "folder" / "mine").write_text("mine")
    assert "E6002 file" in fails("E6002", "emit", "tiny", "-o", "file")
    assert fails("E6002", "emit", "tiny", "-o", "file/below")
    assert fails("E6002", "emit", "tiny", "-o", "folder")
    assert fails("E6002", "emit", "tiny", "-o", "o" * 5000)
    assert fails("E6001", "emit", "tiny", "-o", "out", "--generator", "cobol")
    assert (recorded / "file").read_text() == "mine"
    assert sorted(p.name for p in recorded.iterdir()) == ["config.json", "file", "folder", "presk.db"]


def test_converting(work: Path, presk: Presk, fails: Fails, gguf: bytes) -> None:
    (work / "m.gguf").write_bytes(gguf)
    (work / "cut.gguf").write_bytes(gguf[:200])
    said = presk("checkpoint", "convert", "m.gguf", "-o", "hf")
    assert (said.status, said.out) == (0, "hf: config.json, model.safetensors; 11 tensors\n")
    assert fails("E1108", "checkpoint", "convert", "m.gguf", "-o", "hf")
    assert fails("E1103", "checkpoint", "convert", "cut.gguf", "-o", "new")
    assert fails("E1101", "checkpoint", "convert", "none.gguf", "-o", "new")
    assert not (work / "new").exists()
    assert presk("record", "hf", "--dim", "T=2", "--name", "hf").status == 0
    assert presk("record", "m.gguf", "--dim", "T=2", "--name", "gguf").status == 0
    assert fails("E1103", "record", "cut.gguf")


def test_check_needs_the_recorded_weights(work: Path, presk: Presk, fails: Fails, gguf: bytes) -> None:
    (work / "m.gguf").write_bytes(gguf)
    assert presk("record", "m.gguf", "--dim", "T=2").status == 0
    (work / "m.gguf").unlink()
    assert "give --weights" in fails("E7004", "check", "latest")
    write_safetensors(work / "w.safetensors", {"x": np.zeros(1)})
    assert "SHA-256 differs" in fails("E7004", "check", "latest", "--weights", "w.safetensors")


def test_check_with_a_compiler_that_is_not_there(recorded: Path, fails: Fails) -> None:
    assert "no_such_cc" in fails("E7001", "check", "tiny", "--cc", "no_such_cc")


def test_diverge(recorded: Path, presk: Presk, fails: Fails) -> None:
    (recorded / "no").write_text("hashes\n")
    assert "-DPRESK_HASH" in fails("E7007", "diverge", "tiny", "no")
    assert "no such file" in fails("E7007", "diverge", "tiny", "nowhere").lower()
    (digest,) = (line.split()[1] for line in presk("list").out.splitlines()[1:])
    assert presk("emit", "tiny", "-o", "out").status == 0
    full = (recorded / "out" / "README.md").read_text().split("recording\n`")[1][:64]
    assert full.startswith(digest)
    (recorded / "hashes").write_text(f"presk hashes 1\nrecording {full} structured\n")
    said = presk("diverge", "tiny", "hashes")
    assert said.status == 1
    assert said.out.splitlines()[0] == "the first launch that differs: the run ended before it was done"
    assert said.err.startswith("presk: error E7003 hashes: operation 0: k_gather_add in forward at gpt2.py:")
