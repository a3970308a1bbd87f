"""A recording keeps its tokenizer, an emission writes it; one that is not the model's, or not understood, is refused."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pipeline import MLP, Presk

from presk_db.native.tokenizer import Tokenizer
from presk_db.store.engine import open_database
from presk_db.store.recordings import find_recording
from presk_db.store.tokenizers import read_tokenizer
from tests.tokenizer.tokenizer_families import family

TINY = {
    "model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": 8, "vocab_size": 2000, "n_inner": 16,
    "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
}  # fmt: skip


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model folder: a config, and a tokenizer with fewer tokens than the vocabulary."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(TINY))
    (folder / "tokenizer.json").write_text(family("gpt2"))
    return folder


def test_decode_takes_the_models_own(presk: Presk, model: Path, tmp_path: Path) -> None:
    database = tmp_path / "p.db"
    assert presk("record", model, "--entry", "decode", "--dim", "C=1", "--db", database, "--name", "a").status == 0
    assert presk("record", model, "--dim", "T=2", "--db", database, "--name", "b").status == 0
    engine = open_database(str(database))
    stored = find_recording(engine, "a")
    tokenizer = read_tokenizer(engine, stored.id)
    assert tokenizer is not None
    assert (tokenizer.pre_tokenizer, tokenizer.tokens, tokenizer.no_chat) == (
        "gpt2", 1800, "the checkpoint has no chat template"
    )  # fmt: skip
    assert json.loads(stored.spec)["tokenizer"] == {"sha256": tokenizer.digest}
    assert Tokenizer(tokenizer.content).decoded(Tokenizer(tokenizer.content).encoded(b"hello")) == "hello"
    (model / "tokenizer.json").unlink()
    assert presk("emit", "a", "-o", tmp_path / "a", "--db", database).status == 0
    written = (tmp_path / "a" / "tokenizer.bin").read_bytes()
    assert hashlib.sha256(written).hexdigest() == tokenizer.digest
    assert read_tokenizer(engine, find_recording(engine, "b").id) is None
    assert presk("emit", "b", "-o", tmp_path / "b", "--db", database).status == 0
    assert not (tmp_path / "b" / "tokenizer.bin").exists()
    assert presk("db", "check", "--db", database).status == 0


def test_an_archive_holds_it(presk: Presk, model: Path, tmp_path: Path) -> None:
    database, other = tmp_path / "p.db", tmp_path / "q.db"
    assert presk("record", model, "--entry", "decode", "--db", database, "--name", "a").status == 0
    assert presk("archive", "a", "-o", tmp_path / "a.tar.gz", "--db", database).status == 0
    assert presk("import", tmp_path / "a.tar.gz", "--db", other).status == 0
    kept, imported = (
        read_tokenizer(engine, find_recording(engine, "a").id)
        for engine in (open_database(str(database)), open_database(str(other)))
    )
    assert kept is not None
    assert imported == kept


def test_a_tokenizer_changes_the_digest(presk: Presk, model: Path, tmp_path: Path) -> None:
    engine_of: dict[str, str] = {}
    for name, given in (
        ("own", []),
        ("none", ["--tokenizer", "none"]),
        ("same", ["--tokenizer", model / "tokenizer.json"]),
    ):
        database = tmp_path / f"{name}.db"
        assert presk("record", model, "--entry", "decode", *given, "--db", database).status == 0
        engine_of[name] = find_recording(open_database(str(database)), "latest").digest
    assert engine_of["own"] == engine_of["same"] != engine_of["none"]


def test_another_models_tokenizer_is_refused(fails: Callable[..., str], model: Path, tmp_path: Path) -> None:
    (model / "config.json").write_text(json.dumps(TINY | {"vocab_size": 1799}))
    said = fails("E1109", "record", model, "--entry", "decode", "--db", tmp_path / "p.db")
    assert "has 1800 tokens, the model's vocabulary 1799" in said
    assert not (tmp_path / "p.db").exists()


def test_what_is_not_understood_is_an_error(fails: Callable[..., str], model: Path, tmp_path: Path) -> None:
    document = json.loads(family("gpt2"))
    document["normalizer"] = {"type": "Lowercase"}
    (model / "tokenizer.json").write_text(json.dumps(document))
    said = fails("E1109", "record", model, "--entry", "decode", "--db", tmp_path / "p.db")
    assert "normalizer: Lowercase is not understood" in said
    assert "tokenizer = none records without one" in said
    missing = tmp_path / "missing.json"
    assert "missing.json" in fails("E1101", "record", model, "--tokenizer", missing, "--db", tmp_path / "p.db")


def test_an_entry_without_tokens_has_no_tokenizer(fails: Callable[..., str], model: Path, tmp_path: Path) -> None:
    said = fails("E1109", "record", MLP, "--tokenizer", model, "--db", tmp_path / "p.db")
    assert "has no input tokens" in said
