"""Compares the C tokenizer with the `tokenizers` library: ids of texts, and texts of ids."""

import json
import random
from collections.abc import Iterable

from tokenizers import Tokenizer as Library

from presk_db.checkpoints.tokenizer_data import tokenizer_bytes
from presk_db.checkpoints.tokenizer_json import tokenizer_from_json
from presk_db.native.tokenizer import Tokenizer


def both(document: str) -> tuple[Tokenizer, Library]:
    """The C tokenizer and the library's, of one tokenizer.json."""
    return Tokenizer(tokenizer_bytes(tokenizer_from_json(json.loads(document), "tokenizer.json"))), Library.from_str(
        document
    )


def text_differences(ours: Tokenizer, library: Library, texts: Iterable[str]) -> list[str]:
    """A line for each text whose tokens differ."""
    found = []
    for text in texts:
        for whole in (True, False) if len(text) < 1000 else (True,):
            expected = library.encode(text, add_special_tokens=whole).ids
            got = ours.encoded(text.encode(), whole).tolist()
            if got != expected:
                at = next(
                    (i for i, (a, b) in enumerate(zip(got, expected, strict=False)) if a != b),
                    min(len(got), len(expected)),
                )
                around = library.decode(expected[max(at - 3, 0) : at + 3], skip_special_tokens=False)
                found.append(
                    f"token {at} of {len(expected)}: {got[at : at + 3]} not {expected[at : at + 3]} in {around!r}"
                )
    return found


def decoding_differences(ours: Tokenizer, library: Library, seed: int, runs: int) -> list[str]:
    """A line for each random sequence of ids whose text differs, with and without special tokens."""
    r = random.Random(seed)
    found = []
    for _ in range(runs):
        ids = [r.randrange(ours.count) for _ in range(r.randint(0, 30))]
        if r.random() < 0.5:  # single bytes and short tokens: broken UTF-8
            ids = [r.randrange(min(400, ours.count)) for _ in ids]
        for special in (False, True):
            expected = library.decode(ids, skip_special_tokens=not special)
            if ours.decoded(ids, special) != expected:
                found.append(f"{ids} special={special}: {ours.decoded(ids, special)!r} not {expected!r}")
    return found
