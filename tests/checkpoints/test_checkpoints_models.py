"""From a GGUF file or a folder to a Hugging Face model: names, layouts, configs, conversion, and what is refused."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from gguf_bytes import GPT2, LLAMA, Raw, gguf_bytes, llama_arrays, raw_f32

from presk_db.checkpoints.convert import convert
from presk_db.checkpoints.hf_config import config_from_gguf
from presk_db.checkpoints.hf_source import hf_source_from_gguf
from presk_db.checkpoints.open import config_from_json, open_model, open_weights
from presk_db.checkpoints.safetensors_write import write_safetensors
from presk_db.checkpoints.tokenizer_open import open_tokenizer
from presk_db.errors import (
    CheckpointUnreadable,
    ConfigFieldUnknown,
    ConfigValueBad,
    ModelUnknown,
    OutputUnwritable,
    PreskError,
    SpecUnreadable,
    TensorMissing,
    TensorShapeBad,
    TensorUnexpected,
)

ROOT = Path(__file__).resolve().parents[2]


def permuted(weights: np.ndarray, heads: int) -> np.ndarray:
    """Row by row, what the converter does: of each head, row i of the first half, then row i of the second."""
    head = len(weights) // heads
    rows = [h * head + half * (head // 2) + i for h in range(heads) for i in range(head // 2) for half in range(2)]
    return weights[rows]


def write_llama(path: Path, metadata: dict[str, object] | None = None, extra: list[Raw] | None = None) -> Path:
    tensors = [raw_f32(name, array) for name, array in llama_arrays().items()] + (extra or [])
    path.write_bytes(gguf_bytes(LLAMA | (metadata or {}), tensors))
    return path


def test_llama_names_layouts_and_config(tmp_path: Path) -> None:
    hf = llama_arrays()
    stored = dict(hf)
    stored["blk.0.attn_q.weight"] = permuted(hf["blk.0.attn_q.weight"], 2)
    stored["blk.0.attn_k.weight"] = permuted(hf["blk.0.attn_k.weight"], 1)
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes(LLAMA, [raw_f32(name, array) for name, array in stored.items()]))
    source = hf_source_from_gguf(path)
    assert len(source.names()) == len(hf) and source.names() == sorted(source.names())
    expected = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.layers.0.self_attn.q_proj.weight": "blk.0.attn_q.weight",
        "model.layers.0.self_attn.k_proj.weight": "blk.0.attn_k.weight",
        "model.layers.0.self_attn.v_proj.weight": "blk.0.attn_v.weight",
        "model.layers.0.self_attn.o_proj.weight": "blk.0.attn_output.weight",
        "model.layers.0.input_layernorm.weight": "blk.0.attn_norm.weight",
        "model.layers.0.post_attention_layernorm.weight": "blk.0.ffn_norm.weight",
        "model.layers.0.mlp.gate_proj.weight": "blk.0.ffn_gate.weight",
        "model.layers.0.mlp.up_proj.weight": "blk.0.ffn_up.weight",
        "model.layers.0.mlp.down_proj.weight": "blk.0.ffn_down.weight",
        "model.norm.weight": "output_norm.weight",
    }
    for name, gguf_name in expected.items():
        assert np.array_equal(source.read(name), hf[gguf_name]), name
        assert source.info(name).shape == hf[gguf_name].shape
    assert config_from_gguf(path) == {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "head_dim": 4,
        "hidden_act": "silu",
        "hidden_size": 8,
        "intermediate_size": 12,
        "max_position_embeddings": 16,
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "num_key_value_heads": 1,
        "rms_norm_eps": float(np.float32(1e-5)),
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "vocab_size": 10,
    }
    with pytest.raises(TensorMissing):
        source.read("token_embd.weight")


def test_an_output_matrix_unties_the_head(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "m.gguf", extra=[raw_f32("output.weight", np.ones((10, 8)))])
    assert config_from_gguf(path)["tie_word_embeddings"] is False
    assert "lm_head.weight" in hf_source_from_gguf(path).names()


def test_qwen3_keeps_rows_and_has_norms(tmp_path: Path) -> None:
    metadata = {key.replace("llama", "qwen3"): v for key, v in LLAMA.items()} | {"general.architecture": "qwen3"}
    metadata |= {"qwen3.attention.key_length": 4, "qwen3.attention.value_length": 4, "qwen3.rope.freq_base": 1e6}
    arrays = llama_arrays() | {"blk.0.attn_q_norm.weight": np.ones(4), "blk.0.attn_k_norm.weight": np.ones(4)}
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes(metadata, [raw_f32(name, array) for name, array in arrays.items()]))
    source = hf_source_from_gguf(path)
    assert np.array_equal(source.read("model.layers.0.self_attn.q_proj.weight"), arrays["blk.0.attn_q.weight"])
    assert source.info("model.layers.0.self_attn.q_norm.weight").shape == (4,)
    config = config_from_gguf(path)
    assert (config["model_type"], config["head_dim"], config["rope_theta"]) == ("qwen3", 4, 1e6)


def test_qwen2_has_biases(tmp_path: Path) -> None:
    metadata = {key.replace("llama", "qwen2"): v for key, v in LLAMA.items()} | {"general.architecture": "qwen2"}
    arrays = llama_arrays() | {f"blk.0.attn_{x}.bias": np.arange(n) for x, n in (("q", 8), ("k", 4), ("v", 4))}
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes(metadata, [raw_f32(name, array) for name, array in arrays.items()]))
    assert hf_source_from_gguf(path).read("model.layers.0.self_attn.q_proj.bias").tolist() == list(range(8))
    assert config_from_gguf(path)["use_sliding_window"] is False


def test_gpt2_transposes_conv1d(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    arrays = {
        "token_embd.weight": random.standard_normal((10, 8)),
        "position_embd.weight": random.standard_normal((16, 8)),
        "blk.0.attn_norm.bias": random.standard_normal(8),
        "blk.0.attn_qkv.weight": random.standard_normal((24, 8)),
        "blk.0.attn_qkv.bias": random.standard_normal(24),
        "blk.0.attn_output.weight": random.standard_normal((8, 8)),
        "blk.0.ffn_up.weight": random.standard_normal((32, 8)),
        "blk.0.ffn_down.weight": random.standard_normal((8, 32)),
        "output_norm.weight": random.standard_normal(8),
    }
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes(GPT2, [raw_f32(name, array) for name, array in arrays.items()]))
    source = hf_source_from_gguf(path)
    for name, gguf_name, transposed in [
        ("transformer.wte.weight", "token_embd.weight", False),
        ("transformer.wpe.weight", "position_embd.weight", False),
        ("transformer.h.0.ln_1.bias", "blk.0.attn_norm.bias", False),
        ("transformer.h.0.attn.c_attn.weight", "blk.0.attn_qkv.weight", True),
        ("transformer.h.0.attn.c_proj.weight", "blk.0.attn_output.weight", True),
        ("transformer.h.0.mlp.c_fc.weight", "blk.0.ffn_up.weight", True),
        ("transformer.h.0.mlp.c_proj.weight", "blk.0.ffn_down.weight", True),
    ]:
        expected = arrays[gguf_name].astype(np.float32)
        expected = expected.T if transposed else expected
        assert source.info(name).shape == expected.shape and np.array_equal(source.read(name), expected)
    config = config_from_gguf(path)
    assert config["n_inner"] == 32 and config["n_positions"] == 16 and config["activation_function"] == "gelu_new"


@pytest.mark.parametrize(
    ("metadata", "error", "words"),
    [
        ({"general.architecture": "mamba"}, ModelUnknown, "mamba"),
        ({"general.architecture": 3}, ConfigValueBad, "general.architecture"),
        ({"general.type": "adapter"}, ConfigValueBad, "general.type"),
        ({"split.count": 2}, ConfigValueBad, "split.count"),
        ({"llama.rope.scaling.type": "yarn"}, ConfigFieldUnknown, "llama.rope.scaling.type"),
        ({"llama.rope.scaling.factor": 2.0}, ConfigFieldUnknown, "llama.rope.scaling.factor"),
        ({"llama.expert_count": 8}, ConfigFieldUnknown, "llama.expert_count"),
        ({"llama.attention.sliding_window": 4096}, ConfigFieldUnknown, "sliding_window"),
        ({"llama.new_trick": True}, ConfigFieldUnknown, "llama.new_trick"),
        ({"llama.attention.head_count": 0}, ConfigValueBad, "head_count"),
        ({"llama.attention.head_count": [2, 3]}, ConfigValueBad, "head_count"),
        ({"llama.attention.head_count_kv": 3}, ConfigValueBad, "does not divide"),
        ({"llama.attention.head_count": 3}, ConfigValueBad, "head_count"),
        ({"llama.rope.dimension_count": 2}, ConfigValueBad, "dimension_count"),
        ({"llama.vocab_size": 11}, ConfigValueBad, "vocab_size"),
        ({"llama.block_count": "1"}, ConfigValueBad, "block_count"),
        ({"llama.attention.layer_norm_rms_epsilon": float("nan")}, ConfigValueBad, "epsilon"),
        ({"llama.rope.freq_base": float("inf")}, ConfigValueBad, "freq_base"),
    ],
)
def test_metadata_that_are_refused(
    tmp_path: Path, metadata: dict[str, object], error: type[PreskError], words: str
) -> None:
    with pytest.raises(error, match=words):
        config_from_gguf(write_llama(tmp_path / "m.gguf", metadata))


def test_metadata_that_change_nothing(tmp_path: Path) -> None:
    neutral = {"llama.rope.scaling.type": "none", "llama.expert_count": 0, "other.key": 1, "general.name": "x"}
    neutral |= {"llama.feed_forward_length": [12, 12], "tokenizer.ggml.eos_token_id": 2}
    assert config_from_gguf(write_llama(tmp_path / "m.gguf", neutral))["eos_token_id"] == 2


@pytest.mark.parametrize(
    ("tensor", "error"),
    [
        (raw_f32("rope_freqs.weight", np.ones(2)), ConfigFieldUnknown),
        (raw_f32("blk.0.ffn_gate_exps.weight", np.ones(2)), TensorUnexpected),
        (raw_f32("blk.00.ffn_gate.weight", np.ones(2)), TensorUnexpected),
        (raw_f32("blk.x.ffn_gate.weight", np.ones(2)), TensorUnexpected),
        (raw_f32("blk.0", np.ones(2)), TensorUnexpected),
        (raw_f32("blk.1.attn_q.weight", np.ones((6, 8))), TensorShapeBad),
    ],
)
def test_tensors_that_are_refused(tmp_path: Path, tensor: Raw, error: type[PreskError]) -> None:
    with pytest.raises(error, match=tensor.name):
        hf_source_from_gguf(write_llama(tmp_path / "m.gguf", extra=[tensor]))


def test_biases_on_some_projections_only(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "m.gguf", extra=[raw_f32("blk.0.attn_q.bias", np.ones(8))])
    with pytest.raises(ConfigFieldUnknown, match=r"attn_q\.bias"):
        config_from_gguf(path)


def test_missing_key_and_embedding(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes(LLAMA, []))
    with pytest.raises(TensorMissing, match="token_embd"):
        config_from_gguf(path)
    path.write_bytes(gguf_bytes({k: v for k, v in LLAMA.items() if k != "llama.block_count"}, []))
    with pytest.raises(ConfigValueBad, match=r"llama\.block_count: is missing"):
        config_from_gguf(path)


def q4_1_row(d: float, m: float) -> bytes:
    return np.array([d, m], "<f2").tobytes() + bytes(range(0, 256, 16))


def test_convert_writes_the_exact_values(tmp_path: Path) -> None:
    narrow, wide = q4_1_row(0.5, 1.0), q4_1_row(2.0**-24, 1024.0)  # the second needs 35 bits
    extra = [Raw("blk.1.ffn_gate.weight", (32,), 3, narrow), Raw("blk.1.ffn_up.weight", (32,), 3, wide)]
    path = write_llama(tmp_path / "m.gguf", extra=extra)
    seen: list[tuple[int, int, str]] = []
    result = convert(path, tmp_path / "out", lambda *report: seen.append(report))
    types = {tensor.name: (tensor.source_dtype, tensor.dtype) for tensor in result.tensors}
    assert types["model.layers.1.mlp.gate_proj.weight"] == ("Q4_1", "F32")
    assert types["model.layers.1.mlp.up_proj.weight"] == ("Q4_1", "F64")
    assert types["model.norm.weight"] == ("F32", "F32")
    assert result.files == ("config.json", "model.safetensors")
    source = hf_source_from_gguf(path)
    stored = safetensors.numpy.load_file(tmp_path / "out" / "model.safetensors")
    assert sorted(stored) == source.names()
    for name, array in stored.items():
        assert np.array_equal(array.astype(np.float64), source.read(name).astype(np.float64))
    text = (tmp_path / "out" / "config.json").read_text()
    assert text == json.dumps(config_from_gguf(path), indent=2, sort_keys=True) + "\n"
    assert [report[0] for report in seen] == list(range(len(stored) + 1)) and seen[-1][0] == seen[-1][1]
    opened = open_model(tmp_path / "out")
    assert opened.config == result.config and opened.tensors is not None
    assert sorted(os.listdir(tmp_path)) == ["m.gguf", "out"]


def test_convert_refuses_a_full_folder_and_cleans_up(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "m.gguf")
    (tmp_path / "out").mkdir()
    convert(path, tmp_path / "out")
    with pytest.raises(OutputUnwritable, match="not an empty folder"):
        convert(path, tmp_path / "out")
    unread = Raw("blk.1.ffn_gate.weight", (32,), 20, bytes(18))
    with pytest.raises(PreskError, match="IQ4_NL"):
        convert(write_llama(path, extra=[unread]), tmp_path / "other")
    with pytest.raises(OutputUnwritable):
        convert(write_llama(path), tmp_path / "none" / "out")
    assert sorted(os.listdir(tmp_path)) == ["m.gguf", "out"]


def test_convert_writes_a_byte_level_tokenizer(tmp_path: Path) -> None:
    metadata: dict[str, object] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": ["<s>", "a", "b", "ab"],
        "tokenizer.ggml.token_type": [3, 1, 1, 1],
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 3,
        "tokenizer.ggml.eot_token_id": 0,
        "tokenizer.chat_template": "{{ bos_token }}{% for m in messages %}{{ m.role }}{{ m.content }}<s>{% endfor %}",
    }
    result = convert(write_llama(tmp_path / "m.gguf", metadata), tmp_path / "out")
    assert "tokenizer.json" in result.files
    tokenizer = json.loads((tmp_path / "out" / "tokenizer.json").read_text())
    assert tokenizer["model"]["vocab"] == {"<s>": 0, "a": 1, "b": 2, "ab": 3}
    assert tokenizer["model"]["merges"] == [["a", "b"]]
    assert [token["content"] for token in tokenizer["added_tokens"]] == ["<s>"]
    assert open_tokenizer(str(tmp_path / "out")) == open_tokenizer(str(tmp_path / "m.gguf"))
    wrongs = ({"tokenizer.ggml.pre": "other"}, {"tokenizer.ggml.merges": ["ab"]}, {"tokenizer.ggml.model": "llama"})
    for number, wrong in enumerate(wrongs):
        path = write_llama(tmp_path / "m.gguf", metadata | wrong)
        assert "tokenizer.json" not in convert(path, tmp_path / f"out-{number}").files


def test_open_model(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    with pytest.raises(SpecUnreadable, match=r"config\.json"):
        open_model(folder)
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    assert open_model(folder).tensors is None
    assert open_model(folder / "config.json").files == (folder / "config.json",)
    with pytest.raises(CheckpointUnreadable, match="neither"):
        open_weights(folder)
    write_safetensors(folder / "shard.safetensors", {"a": np.zeros(2)})
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "shard.safetensors"}}')
    model = open_model(str(folder))
    assert model.tensors is not None and model.tensors.names() == ["a"]
    assert [file.name for file in model.files] == ["config.json", "model.safetensors.index.json", "shard.safetensors"]
    write_safetensors(folder / "model.safetensors", {"b": np.zeros(2)})
    assert open_weights(folder).names() == ["b"]
    with pytest.raises(SpecUnreadable, match="give the folder"):
        open_model(folder / "model.safetensors")
    write_llama(tmp_path / "named-otherwise")
    model = open_model(tmp_path / "named-otherwise")
    assert model.config["model_type"] == "llama" and model.files == (tmp_path / "named-otherwise",)
    assert open_weights(tmp_path / "named-otherwise").digest() == model.tensors.digest()
    with pytest.raises(CheckpointUnreadable):
        open_model(tmp_path / "none.gguf")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "line 1"),
        (b'{\n "a": 1,\n "a": 2}', "twice"),
        (b'{\n "a": }', "line 2 byte 8"),
        (b"[1]", "not a JSON object"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "Infinity"),
        (b'{"a": 1e400}', "largest"),
        (b"\xff", "UTF-8"),
        (b"\xef\xbb\xbf{}", "JSON"),
    ],
)
def test_configs_that_are_refused(tmp_path: Path, text: bytes, words: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(text)
    with pytest.raises(SpecUnreadable, match=words) as caught:
        config_from_json(path)
    assert str(path) in str(caught.value)


def test_the_course_gpt() -> None:
    config = open_model(ROOT / "fixtures" / "course_gpt").config
    assert (config["n_layer"], config["n_embd"], config["n_head"]) == (6, 384, 6)
    assert (config["n_positions"], config["vocab_size"], config["tie_word_embeddings"]) == (256, 65, False)
