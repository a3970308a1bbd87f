"""tokenizer_from_gguf: the tokenizer.json of a byte-level BPE that a GGUF file's metadata describe."""

from typing import Any

import numpy as np

from presk_db.checkpoints.gguf import GgufFile

_CONTROL, _USER_DEFINED = 3, 4  # kinds of tokenizer.ggml.token_type
# Qwen2's split of a text before the merges: contractions, words, single digits, punctuation, white space.
_QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def tokenizer_from_gguf(file: GgufFile) -> dict[str, Any] | None:
    """The tokenizer.json as a dict, or None unless it is a byte-level BPE whose splitting is known.

    Known are tokenizer.ggml.pre `gpt-2`, `smollm` and `qwen2`. Nothing is guessed: malformed lists give None too.
    """
    metadata = file.metadata
    tokens, merges = metadata.get("tokenizer.ggml.tokens"), metadata.get("tokenizer.ggml.merges")
    kinds = metadata.get("tokenizer.ggml.token_type")
    splitter = _splitter(metadata.get("tokenizer.ggml.pre"))
    if metadata.get("tokenizer.ggml.model") != "gpt2" or splitter is None:
        return None
    if not isinstance(tokens, list) or not isinstance(merges, list) or not isinstance(kinds, np.ndarray):
        return None
    names = [token for token in tokens if isinstance(token, str)]
    pairs = [merge.split(" ") for merge in merges if isinstance(merge, str)]
    if len(set(names)) != len(tokens) or len(kinds) != len(tokens) or len(pairs) != len(merges):
        return None
    if any(len(pair) != 2 for pair in pairs):
        return None
    pre_tokenizer, normalizer = splitter
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            _added(index, name, int(kind) == _CONTROL)
            for index, (name, kind) in enumerate(zip(names, kinds, strict=True))
            if int(kind) in (_CONTROL, _USER_DEFINED)
        ],
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": _byte_level(use_regex=True),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {name: index for index, name in enumerate(names)},
            "merges": pairs,
        },
    }


def _splitter(pre: object) -> tuple[dict[str, Any], dict[str, Any] | None] | None:
    """The pre_tokenizer and the normalizer that tokenizer.ggml.pre stands for."""
    match pre:
        case "gpt-2":
            return _byte_level(use_regex=True), None
        case "smollm":
            digits = {"type": "Digits", "individual_digits": True}
            return {"type": "Sequence", "pretokenizers": [digits, _byte_level(use_regex=True)]}, None
        case "qwen2":
            split = {"type": "Split", "pattern": {"Regex": _QWEN2_SPLIT}, "behavior": "Isolated", "invert": False}
            return {"type": "Sequence", "pretokenizers": [split, _byte_level(use_regex=False)]}, {"type": "NFC"}
        case _:
            return None


def _byte_level(use_regex: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def _added(index: int, content: str, special: bool) -> dict[str, Any]:
    return {
        "id": index,
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": special,
    }
