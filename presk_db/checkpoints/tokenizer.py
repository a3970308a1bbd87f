"""tokenizer_from_gguf: the tokenizer.json of a byte-level BPE that a GGUF file's metadata describe."""

from typing import Any

import numpy as np

from presk_db.checkpoints.gguf import GgufFile
from presk_db.checkpoints.tokenizer_json import LLAMA3_CUT, QWEN2_CUT
from presk_db.errors import TokenizerBad

_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5  # kinds of tokenizer.ggml.token_type
_PRE = ("gpt-2", "smollm", "qwen2", "llama-bpe")


def has_tokenizer(file: GgufFile) -> bool:
    """Whether the file's metadata hold a tokenizer of any kind."""
    return "tokenizer.ggml.model" in file.metadata


def tokenizer_from_gguf(file: GgufFile) -> dict[str, Any]:
    """The tokenizer.json as a dict, of a byte-level BPE whose tokenizer.ggml.pre is gpt-2, smollm, qwen2 or llama-bpe.

    Errors: TokenizerBad (E1109), with the key, for anything else.
    """
    metadata, shown = file.metadata, file.file.shown
    if metadata.get("tokenizer.ggml.model") != "gpt2":
        model = metadata.get("tokenizer.ggml.model")
        raise TokenizerBad(f"{model} is not understood: presk reads gpt2", f"{shown} key tokenizer.ggml.model")
    pre = metadata.get("tokenizer.ggml.pre")
    if pre not in _PRE:
        raise TokenizerBad(f"{pre} is not understood: presk knows {', '.join(_PRE)}", f"{shown} key tokenizer.ggml.pre")
    names, kinds = _names(file)
    pre_tokenizer, normalizer = _splitter(str(pre))
    vocabulary = {name: index for index, (name, kind) in enumerate(zip(names, kinds, strict=True)) if kind != _UNUSED}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            _added(index, name, kind == _CONTROL)
            for index, (name, kind) in enumerate(zip(names, kinds, strict=True))
            if kind in (_CONTROL, _USER_DEFINED)
        ],
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": _post_processor(file, names, begins=pre == "llama-bpe"),
        "decoder": _byte_level(use_regex=True),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": pre == "llama-bpe",
            "vocab": vocabulary,
            "merges": _pairs(file),
        },
    }


def tokenizer_configs(file: GgufFile) -> dict[str, dict[str, Any]]:
    """What stands beside a tokenizer.json: the chat template, and the tokens that begin and end a text.

    Requires that `tokenizer_from_gguf` accepts the file.
    """
    names, _ = _names(file)
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    if isinstance(file.metadata.get("tokenizer.chat_template"), str):
        config["chat_template"] = file.metadata["tokenizer.chat_template"]
    for word in ("bos", "eos"):
        index = token_id(file, word)
        if index is not None and index < len(names):
            config[f"{word}_token"] = names[index]
    ends = end_tokens(file)
    return {"tokenizer_config.json": config, **({"generation_config.json": {"eos_token_id": ends}} if ends else {})}


def token_id(file: GgufFile, word: str) -> int | None:
    """The id of the token that tokenizer.ggml.WORD_token_id names."""
    value = file.metadata.get(f"tokenizer.ggml.{word}_token_id")
    return value if type(value) is int else None


def end_tokens(file: GgufFile) -> list[int]:
    """The tokens that end a text, a turn or a message."""
    found = (token_id(file, word) for word in ("eos", "eot", "eom"))
    return list(dict.fromkeys(index for index in found if index is not None))


def _names(file: GgufFile) -> tuple[list[str], list[int]]:
    """The tokens' names and kinds, checked."""
    tokens, kinds = file.metadata.get("tokenizer.ggml.tokens"), file.metadata.get("tokenizer.ggml.token_type")
    if (
        not isinstance(tokens, list)
        or not all(isinstance(t, str) for t in tokens)
        or len(set(map(str, tokens))) != len(tokens)
    ):
        raise TokenizerBad("must be distinct texts", f"{file.file.shown} key tokenizer.ggml.tokens")
    if not isinstance(kinds, np.ndarray) or len(kinds) != len(tokens):
        raise TokenizerBad("must be a number for each token", f"{file.file.shown} key tokenizer.ggml.token_type")
    known = (_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED)
    for index, kind in enumerate(kinds.tolist()):
        if kind not in known:
            raise TokenizerBad(f"token {index} has the kind {kind}", f"{file.file.shown} key tokenizer.ggml.token_type")
    return [str(token) for token in tokens], [int(kind) for kind in kinds]


def _pairs(file: GgufFile) -> list[list[str]]:
    merges = file.metadata.get("tokenizer.ggml.merges")
    pairs = [merge.split(" ") for merge in merges if isinstance(merge, str)] if isinstance(merges, list) else []
    if not isinstance(merges, list) or len(pairs) != len(merges) or any(len(pair) != 2 for pair in pairs):
        raise TokenizerBad("must be texts of two tokens each", f"{file.file.shown} key tokenizer.ggml.merges")
    return pairs


def _post_processor(file: GgufFile, names: list[str], begins: bool) -> dict[str, Any] | None:
    """A template with the tokens that tokenizer.ggml.add_bos_token and add_eos_token ask for; None without any."""
    sides: list[list[dict[str, Any]]] = []
    special: dict[str, Any] = {}
    for word, default in (("bos", begins), ("eos", False)):
        side: list[dict[str, Any]] = []
        if file.metadata.get(f"tokenizer.ggml.add_{word}_token", default):
            index = file.metadata.get(f"tokenizer.ggml.{word}_token_id")
            if type(index) is not int or not 0 <= index < len(names):
                raise TokenizerBad("is no token", f"{file.file.shown} key tokenizer.ggml.{word}_token_id")
            special[names[index]] = {"id": names[index], "ids": [index], "tokens": [names[index]]}
            side.append({"SpecialToken": {"id": names[index], "type_id": 0}})
        sides.append(side)
    if not special:
        return None
    single = [*sides[0], {"Sequence": {"id": "A", "type_id": 0}}, *sides[1]]
    second = [{part: {**value, "type_id": 1} for part, value in piece.items()} for piece in single]
    second = [{"Sequence": {"id": "B", "type_id": 1}} if "Sequence" in piece else piece for piece in second]
    return {"type": "TemplateProcessing", "single": single, "pair": single + second, "special_tokens": special}


def _splitter(pre: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The pre_tokenizer and the normalizer that tokenizer.ggml.pre stands for."""
    if pre == "gpt-2":
        return _byte_level(use_regex=True), None
    if pre == "smollm":
        digits = {"type": "Digits", "individual_digits": True}
        return {"type": "Sequence", "pretokenizers": [digits, _byte_level(use_regex=True)]}, None
    cut = {"Regex": QWEN2_CUT if pre == "qwen2" else LLAMA3_CUT}
    split = {"type": "Split", "pattern": cut, "behavior": "Isolated", "invert": False}
    normalizer = {"type": "NFC"} if pre == "qwen2" else None
    return {"type": "Sequence", "pretokenizers": [split, _byte_level(use_regex=False)]}, normalizer


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
