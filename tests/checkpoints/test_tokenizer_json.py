"""tokenizer.json: what is not understood is refused by name; what is, becomes data and a compact file."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from gguf_bytes import LLAMA, gguf_bytes

from presk_db.checkpoints.gguf import GgufFile
from presk_db.checkpoints.tokenizer import tokenizer_from_gguf
from presk_db.checkpoints.tokenizer_data import SPECIAL, USED, WORD, tokenizer_bytes
from presk_db.checkpoints.tokenizer_json import LETTERS, tokenizer_from_json
from presk_db.errors import TokenizerBad

Change = Callable[[dict[str, Any]], Any]


def byte_level(use_regex: bool = True) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def document() -> dict[str, Any]:
    """All bytes, the merge `a b`, and a special token."""
    vocabulary = {letter: number for number, letter in enumerate(LETTERS)} | {"ab": 256}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": 257, "content": "<s> é", "special": True, "normalized": False}],
        "normalizer": None,
        "pre_tokenizer": byte_level(),
        "post_processor": None,
        "decoder": byte_level(),
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [["a", "b"]], "unk_token": None},
    }


def test_what_a_file_says() -> None:
    data = tokenizer_from_json(document(), "t")
    assert (data.pre_tokenizer, data.nfc, data.whole_words) == ("gpt2", False, False)
    assert data.texts == (*(bytes([b]) for b in range(256)), b"ab", "<s> é".encode())
    assert data.kinds == bytes([USED | WORD] * 257 + [USED | SPECIAL])
    assert data.byte_tokens == tuple(range(256))
    assert data.merges == ((97, 98, 256),)
    assert (data.before, data.after, data.stops, data.chat) == ((), (), (), None)
    file = tokenizer_bytes(data)
    assert file[:8] == b"PRESKTOK"
    assert len(file) == 8 + 4 * 11 + 4 * (256 + 258 + 3 + 2 + 9) + 258 + sum(map(len, data.texts)) + 6 + 35


def test_merges_may_be_texts_and_a_template_puts_tokens_around() -> None:
    given = document()
    given["model"]["merges"] = ["a b"]
    pieces = [{"SpecialToken": {"id": "<s> é", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    template = {"type": "TemplateProcessing", "single": pieces, "special_tokens": {"<s> é": {"ids": [257]}}}
    given["post_processor"] = {"type": "Sequence", "processors": [byte_level(), template]}
    data = tokenizer_from_json(given, "t")
    assert (data.merges, data.before, data.after) == (((97, 98, 256),), (257,), ())


def _set(*path: Any) -> Change:
    """A change: the last item is put where the ones before lead."""

    def change(given: dict[str, Any]) -> None:
        *keys, last, value = path
        for key in keys:
            given = given[key]
        given[last] = value

    return change


SPLIT = {"type": "Split", "pattern": {"Regex": r"\p{Han}+"}, "behavior": "Isolated", "invert": False}
REFUSED: list[tuple[Change, str]] = [
    (_set("pre_tokenizer", {"type": "Metaspace"}), "key pre_tokenizer: Metaspace is not understood"),
    (_set("pre_tokenizer", None), "key pre_tokenizer: must be an object"),
    (_set("pre_tokenizer", "add_prefix_space", True), "add_prefix_space is not understood"),
    (_set("pre_tokenizer", {"type": "Sequence", "pretokenizers": [SPLIT, byte_level(False)]}), r"Split at .*Han"),
    (_set("pre_tokenizer", {"type": "Sequence", "pretokenizers": []}), "must be an object, or a Sequence"),
    (_set("pre_tokenizer", byte_level(False)), "ByteLevel is not understood"),
    (_set("normalizer", {"type": "NFKC"}), "key normalizer: NFKC is not understood"),
    (_set("normalizer", {"type": "Sequence", "normalizers": [{"type": "Lowercase"}]}), "Lowercase is not understood"),
    (_set("decoder", {"type": "Metaspace"}), "key decoder: Metaspace is not understood"),
    (_set("post_processor", {"type": "BertProcessing"}), "key post_processor: BertProcessing is not understood"),
    (_set("post_processor", {"type": "TemplateProcessing", "single": []}), "must hold the text once"),
    (_set("truncation", {"max_length": 4}), "key truncation"),
    (_set("padding", {}), "key padding"),
    (_set("surprise", 1), "key surprise: is not understood"),
    (_set("model", "type", "Unigram"), "key model.type: Unigram is not understood"),
    (_set("model", "dropout", 0.5), "key model.dropout: 0.5 is not understood"),
    (_set("model", "end_of_word_suffix", "</w>"), "key model.end_of_word_suffix"),
    (_set("model", "surprise", 1), "key model.surprise: is not understood"),
    (_set("model", "ignore_merges", 1), "key model.ignore_merges: must be true or false"),
    (_set("model", "vocab", {}), "key model.vocab: is empty"),
    (_set("model", "vocab", "a", 98), "'b' must be a number of its own"),
    (_set("model", "vocab", "a", -1), "'a' must be a number of its own"),
    (_set("model", "vocab", "a", "x"), "'a' must be a number of its own"),
    (_set("model", "merges", [["a", "q"]]), "merge 0 names a token that is not in the vocabulary"),
    (_set("model", "merges", ["a b c"]), "merge 0 must be two tokens"),
    (_set("model", "merges", None), "key model.merges: must be a list"),
    (_set("added_tokens", 0, "id", 300), "must be there once and have the id 257"),
    (_set("added_tokens", 0, "lstrip", True), "lstrip of the token '<s> é' is not understood"),
    (_set("added_tokens", 0, "single_word", True), "single_word of the token"),
    (_set("added_tokens", 0, "content", ""), "needs a content"),
    (_set("added_tokens", 3), "must be a list"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_what_is_not_understood_is_named(change: Change, message: str) -> None:
    given = document()
    change(given)
    with pytest.raises(TokenizerBad, match=message):
        tokenizer_from_json(given, "tokenizer.json")


def test_a_normalized_token_beside_nfc_must_be_ascii() -> None:
    given = document() | {"normalizer": {"type": "NFC"}}
    given["added_tokens"][0]["normalized"] = True
    with pytest.raises(TokenizerBad, match="normalized of the token '<s> é'"):
        tokenizer_from_json(given, "t")


def test_missing_bytes_take_the_unknown_token_or_none() -> None:
    given = document()
    del given["model"]["vocab"]["z"]
    given["model"]["vocab"]["zz"] = LETTERS.index("z")
    assert tokenizer_from_json(given, "t").byte_tokens[ord("z")] is None
    given["model"]["unk_token"] = "a"
    assert tokenizer_from_json(given, "t").byte_tokens[ord("z")] == 97
    given["model"]["fuse_unk"] = True
    with pytest.raises(TokenizerBad, match="fuse_unk"):
        tokenizer_from_json(given, "t")
    given["model"] |= {"fuse_unk": False, "unk_token": "nothing"}
    with pytest.raises(TokenizerBad, match="unk_token"):
        tokenizer_from_json(given, "t")


def gguf(pre: str, **more: Any) -> dict[str, Any]:
    return LLAMA | {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": ["<s>", "a", "b", "ab", "<t>", "[PAD]"],
        "tokenizer.ggml.token_type": [3, 1, 1, 1, 4, 5],
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.bos_token_id": 0,
        **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("pre", "name", "before"),
    [("gpt-2", "gpt2", ()), ("smollm", "smollm", ()), ("qwen2", "qwen2", ()), ("llama-bpe", "llama3", (0,))],
)
def test_a_gguf_file(tmp_path: Any, pre: str, name: str, before: tuple[int, ...]) -> None:
    (tmp_path / "m.gguf").write_bytes(gguf_bytes(gguf(pre)))
    given = tokenizer_from_gguf(GgufFile(tmp_path / "m.gguf"))
    data = tokenizer_from_json(json.loads(json.dumps(given)), "t")
    assert (data.pre_tokenizer, data.nfc, data.whole_words) == (name, pre == "qwen2", pre == "llama-bpe")
    assert (data.before, data.after) == (before, ())
    assert data.texts == (b"<s>", b"a", b"b", b"ab", b"<t>")  # what is unused is no token
    assert [a.id for a in data.added] == [0, 4]


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"tokenizer.ggml.model": "llama"}, "model"),
        ({"tokenizer.ggml.pre": "dbrx"}, "pre"),
        ({"tokenizer.ggml.tokens": ["a"] * 6}, "tokens"),
        ({"tokenizer.ggml.token_type": [1]}, "token_type"),
        ({"tokenizer.ggml.token_type": [3, 1, 1, 1, 4, 6]}, "token_type"),
        ({"tokenizer.ggml.merges": ["ab"]}, "merges"),
        ({"tokenizer.ggml.bos_token_id": 6, "tokenizer.ggml.add_bos_token": True}, "bos_token_id"),
    ],
)
def test_a_gguf_file_that_is_not_understood(tmp_path: Any, more: dict[str, Any], key: str) -> None:
    (tmp_path / "m.gguf").write_bytes(gguf_bytes(gguf("gpt-2") | more))
    with pytest.raises(TokenizerBad, match=f"key tokenizer.ggml.{key}: "):
        tokenizer_from_gguf(GgufFile(tmp_path / "m.gguf"))
