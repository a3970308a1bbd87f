"""Small tokenizers with the pipelines of the families, as their tokenizer.json has them, trained on the corpus."""

import json
from functools import cache
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tests.tokenizer.tokenizer_corpus import SPECIAL, document

# The regular expressions as they stand in the published files, written out here once more.
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
NAMES = ("gpt2", "smollm", "llama3", "qwen2")


def _pre_tokenizer(name: str) -> Any:
    regex = {"llama3": LLAMA3, "qwen2": QWEN2}.get(name)
    if regex is not None:
        split = pre_tokenizers.Split(Regex(regex), "isolated")
        return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if name == "gpt2":
        return byte_level
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])


@cache
def family(name: str) -> str:
    """The tokenizer.json of a family, with about 1500 merges.

    Llama 3's takes whole words first and begins a text with a token; Qwen2's normalizes, and has an added token that is
    searched for in the normalized text; SmolLM2's lacks bytes, as the real one does.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = _pre_tokenizer(name)
    tokenizer.decoder = decoders.ByteLevel()
    if name == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1800 if name != "smollm" else 1500,
        special_tokens=list(SPECIAL[:3]) if name in ("gpt2", "smollm") else [],
        initial_alphabet=[] if name == "smollm" else alphabet,
        limit_alphabet=200 if name == "smollm" else 1000,
        show_progress=False,
    )
    tokenizer.train_from_iterator((document(seed, 20000) for seed in range(1000, 1012)), trainer)
    if name in ("llama3", "qwen2"):
        tokenizer.add_special_tokens(list(SPECIAL[1:]))
    if name == "qwen2":
        tokenizer.add_tokens([AddedToken("=tool", normalized=True), AddedToken("<think>", normalized=False)])
    document_ = json.loads(tokenizer.to_str())
    if name == "llama3":
        document_["model"]["ignore_merges"] = True
        bos = tokenizer.token_to_id("<|begin_of_text|>")
        tokenizer.post_processor = processors.Sequence(
            [
                processors.ByteLevel(trim_offsets=False),
                processors.TemplateProcessing("<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", bos)]),
            ]
        )
        document_["post_processor"] = json.loads(tokenizer.to_str())["post_processor"]
    if name == "gpt2":
        for token in document_["added_tokens"]:
            token["normalized"] = True
    return json.dumps(document_, ensure_ascii=False)
