"""What the tests of the commands share: small specs, a recording of each, and a compiler that remembers objects."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Engine

from presk_db.specs.record import recorded
from presk_db.specs.spec import spec_from
from presk_db.store.engine import open_database
from presk_db.store.ingest import write_recording
from presk_db.store.recordings import StoredRecording


class Said(NamedTuple):
    """How a command ended, and what it wrote."""

    status: int
    out: str
    err: str


Presk = Callable[..., Said]


ROOT = Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "fixtures"
MLP = FIXTURES / "user" / "mlp.py"

GPT2: dict[str, Any] = {
    "model_type": "gpt2",
    "n_layer": 2,
    "n_embd": 8,
    "n_head": 2,
    "n_positions": 6,
    "vocab_size": 11,
    "tie_word_embeddings": False,
}
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 12,
    "max_position_embeddings": 6,
    "vocab_size": 11,
}
MIXED = 'type = "bf16"\n[sites]\n"*/*norm*" = "f32"\n"forward/block.0" = "f32"\n'


def training_step(folder: Path) -> Engine:
    """A database with one recording: a training step with gathers, scatters, softmax and f64, its forward pass in bf16."""
    engine = open_database(str(folder / "presk.db"), create=True)
    stored(engine, config_file(folder, GPT2), dims={"T": 5}, entry="train_step", type="mixed")
    return engine


def config_file(folder: Path, config: Mapping[str, Any]) -> str:
    """A config.json in the folder; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return str(path)


def stored(engine: Engine, target: str, **flags: Any) -> StoredRecording:
    """Records a spec into the database; all recordings here have one name, so that they share runtime objects."""
    return write_recording(engine, recorded(spec_from(target, {"name": "tiny", **flags})))
