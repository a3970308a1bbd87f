"""tokenizer_from_json: a tokenizer.json becomes TokenizerData; what is not understood is an error that names it."""

from collections.abc import Mapping
from typing import Any

from presk_db.checkpoints.tokenizer_data import SPECIAL, USED, WORD, Added, TokenizerData
from presk_db.errors import TokenizerBad

# Cuts of a text before the merges: contractions, words, numbers, punctuation, white space. Qwen2's (2.5's, 3's) takes
# one number at a time, Llama 3's up to three.
_CUT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|NUMBERS| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_CUT = _CUT.replace("NUMBERS", r"\p{N}")
LLAMA3_CUT = _CUT.replace("NUMBERS", r"\p{N}{1,3}")
_CUTS = {QWEN2_CUT: "qwen2", LLAMA3_CUT: "llama3"}

_KEYS = {
    "version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder",
    "model",
}  # fmt: skip
_MODEL_KEYS = {
    "type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback",
    "ignore_merges", "vocab", "merges",
}  # fmt: skip
_MOST_TOKENS = 1 << 24

Json = Mapping[str, Any]


def byte_letters() -> tuple[str, ...]:
    """The letter that stands for each byte in a byte-level vocabulary: printable ones for themselves."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    letters, extra = [], 0x100
    for byte in range(256):
        letters.append(chr(byte) if byte in printable else chr(extra))
        extra += byte not in printable
    return tuple(letters)


LETTERS = byte_letters()
_BYTES = {letter: byte for byte, letter in enumerate(LETTERS)}


def tokenizer_from_json(document: Json, shown: str) -> TokenizerData:
    """The tokenizer that a tokenizer.json describes; `shown` is the file in errors.

    Errors: TokenizerBad (E1109), with the key, for everything that is malformed or not understood.
    """
    _known(document, _KEYS, shown, "")
    for key in ("truncation", "padding"):
        if document.get(key) is not None:
            raise TokenizerBad(f"{key} is not supported: set it to null", f"{shown} key {key}")
    model = _object(document.get("model"), shown, "model")
    whole_words = _model_options(model, shown)
    vocabulary = _vocabulary(model, shown)
    added_tokens = _added(document, vocabulary, shown)
    count = 1 + max([*vocabulary.values(), *(token["id"] for token in added_tokens)])
    names: list[str | None] = [None] * count
    kinds = bytearray(count)
    for name, id_ in vocabulary.items():
        names[id_] = name
        kinds[id_] |= USED | (WORD if all(letter in _BYTES for letter in name) else 0)
    for token in added_tokens:
        names[token["id"]] = token["content"]
        kinds[token["id"]] |= USED | (SPECIAL if token["special"] else 0)
    nfc = _normalizer(document.get("normalizer"), shown)
    _decoder(document.get("decoder"), shown)
    before, after = _around(document.get("post_processor"), count, shown)
    return TokenizerData(
        pre_tokenizer=_pre_tokenizer(document.get("pre_tokenizer"), shown),
        nfc=nfc,
        whole_words=whole_words,
        texts=tuple(b"" if name is None else _text(name) for name in names),
        kinds=bytes(kinds),
        byte_tokens=_byte_tokens(model, vocabulary, shown),
        merges=_merges(model, vocabulary, shown),
        added=tuple(_added_token(token, nfc, shown) for token in added_tokens),
        before=before,
        after=after,
    )


def _text(name: str) -> bytes:
    """The bytes that a token's name stands for; a name with another letter than those of bytes is its own UTF-8."""
    if all(letter in _BYTES for letter in name):
        return bytes(_BYTES[letter] for letter in name)
    return name.encode("utf-8")


def _object(value: Any, shown: str, key: str) -> Json:
    if not isinstance(value, Mapping):
        raise TokenizerBad("must be an object", f"{shown} key {key}")
    return value


def _known(value: Json, keys: set[str], shown: str, path: str) -> None:
    for key in value:
        if key not in keys:
            raise TokenizerBad("is not understood", f"{shown} key {path}{key}")


def _model_options(model: Json, shown: str) -> bool:
    """Checks the options of the model; whether a piece that is a token as a whole is not merged."""
    _known(model, _MODEL_KEYS, shown, "model.")
    if model.get("type") != "BPE":
        raise TokenizerBad(
            f"{model.get('type')} is not understood: presk reads byte-level BPE", f"{shown} key model.type"
        )
    for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key) not in (None, "", 0):
            raise TokenizerBad(f"{model[key]!r} is not understood", f"{shown} key model.{key}")
    for key in ("fuse_unk", "byte_fallback", "ignore_merges"):
        if not isinstance(model.get(key, False), bool):
            raise TokenizerBad("must be true or false", f"{shown} key model.{key}")
    return bool(model.get("ignore_merges", False))


def _vocabulary(model: Json, shown: str) -> dict[str, int]:
    given = _object(model.get("vocab"), shown, "model.vocab")
    if not given:
        raise TokenizerBad("is empty", f"{shown} key model.vocab")
    seen: set[int] = set()
    for name, id_ in given.items():
        if type(id_) is not int or not 0 <= id_ < _MOST_TOKENS or id_ in seen:
            raise TokenizerBad(f"the id of {name[:40]!r} must be a number of its own", f"{shown} key model.vocab")
        seen.add(id_)
    return dict(given)


def _added(document: Json, vocabulary: Mapping[str, int], shown: str) -> list[dict[str, Any]]:
    """The added tokens, checked; their ids must be those that the `tokenizers` library gives them in this order."""
    place = f"{shown} key added_tokens"
    given = document.get("added_tokens", [])
    if not isinstance(given, list):
        raise TokenizerBad("must be a list", place)
    ids: dict[str, int] = {}
    for token in given:
        if not isinstance(token, dict) or not isinstance(token.get("content"), str) or not token["content"]:
            raise TokenizerBad("an added token needs a content", place)
        name = token["content"]
        shown_name = f"the token {name[:40]!r}"
        for key in ("special", "normalized", "single_word", "lstrip", "rstrip"):
            if not isinstance(token.setdefault(key, False), bool):
                raise TokenizerBad(f"{key} of {shown_name} must be true or false", place)
        for key in ("single_word", "lstrip", "rstrip"):
            if token[key]:
                raise TokenizerBad(f"{key} of {shown_name} is not understood", place)
        _known(
            token, {"id", "content", "special", "normalized", "single_word", "lstrip", "rstrip"}, shown, "added_tokens."
        )
        following = max([len(vocabulary) - 1, *ids.values()]) + 1
        expected = vocabulary.get(name, following)
        if name in ids or type(token.get("id")) is not int or token["id"] != expected:
            raise TokenizerBad(f"{shown_name} must be there once and have the id {expected}", place)
        if name not in vocabulary and expected in vocabulary.values():
            raise TokenizerBad(f"{shown_name} has the id of another token", place)
        ids[name] = expected
    return given


def _added_token(token: Json, nfc: bool, shown: str) -> Added:
    content: str = token["content"]
    if token["normalized"] and nfc and not content.isascii():
        raise TokenizerBad(f"normalized of the token {content[:40]!r} is not understood", f"{shown} key added_tokens")
    return Added(token["id"], content.encode("utf-8"), token["normalized"])


def _byte_tokens(model: Json, vocabulary: Mapping[str, int], shown: str) -> tuple[int | None, ...]:
    """The token of each byte. Where one is missing, the unknown token takes its place, or nothing does."""
    tokens = tuple(vocabulary.get(letter) for letter in LETTERS)
    if None not in tokens:
        return tokens
    for key in ("fuse_unk", "byte_fallback"):
        if model.get(key, False):
            raise TokenizerBad("is not understood where bytes have no token of their own", f"{shown} key model.{key}")
    unknown = model.get("unk_token")
    if unknown is not None and unknown not in vocabulary:
        raise TokenizerBad("is not in the vocabulary", f"{shown} key model.unk_token")
    return tuple(vocabulary.get(unknown) if token is None and unknown is not None else token for token in tokens)


def _merges(model: Json, vocabulary: Mapping[str, int], shown: str) -> tuple[tuple[int, int, int], ...]:
    place = f"{shown} key model.merges"
    given = model.get("merges")
    if not isinstance(given, list):
        raise TokenizerBad("must be a list", place)
    merges = []
    for number, merge in enumerate(given):
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise TokenizerBad(f"merge {number} must be two tokens", place)
        left, right = pair
        whole = left + right
        if not all(name in vocabulary for name in (left, right, whole)):
            raise TokenizerBad(f"merge {number} names a token that is not in the vocabulary", place)
        if not all(letter in _BYTES for letter in whole):
            raise TokenizerBad(f"merge {number} has a letter that stands for no byte", place)
        merges.append((vocabulary[left], vocabulary[right], vocabulary[whole]))
    return tuple(merges)


def _normalizer(value: Any, shown: str) -> bool:
    """True for NFC, False for none."""
    if value is None:
        return False
    normalizer = _object(value, shown, "normalizer")
    if normalizer.get("type") == "Sequence" and isinstance(normalizer.get("normalizers"), list):
        return any([_normalizer(part, shown) for part in normalizer["normalizers"]])
    if dict(normalizer) != {"type": "NFC"}:
        raise TokenizerBad(f"{normalizer.get('type')} is not understood: presk knows NFC", f"{shown} key normalizer")
    return True


def _pre_tokenizer(value: Any, shown: str) -> str:
    """The name of the cut, of those in PRE_TOKENIZERS."""
    place = f"{shown} key pre_tokenizer"
    pre = _object(value, shown, "pre_tokenizer")
    parts = pre.get("pretokenizers") if pre.get("type") == "Sequence" else [pre]
    if not isinstance(parts, list) or not parts or not all(isinstance(part, dict) for part in parts):
        raise TokenizerBad("must be an object, or a Sequence of them", place)
    *firsts, last = parts
    if last.get("type") != "ByteLevel":
        raise TokenizerBad(f"{_named(last)} is not understood: presk knows a ByteLevel at the end", place)
    if last.get("add_prefix_space", True):
        raise TokenizerBad("add_prefix_space is not understood", place)
    use_regex = last.get("use_regex", True)
    if not firsts and use_regex:
        return "gpt2"
    if len(firsts) == 1:
        first = firsts[0]
        if first == {"type": "Digits", "individual_digits": True} and use_regex:
            return "smollm"
        pattern = first.get("pattern")
        cut = _CUTS.get(pattern.get("Regex", "")) if isinstance(pattern, dict) else None
        isolated = first.get("behavior") == "Isolated" and first.get("invert", False) is False
        if first.get("type") == "Split" and cut is not None and isolated and not use_regex:
            return cut
    raise TokenizerBad(f"{', '.join(_named(part) for part in parts)} is not understood", place)


def _named(part: Json) -> str:
    """A part of a pipeline as an error names it."""
    pattern = part.get("pattern")
    return f"{part.get('type')}" + (f" at {str(pattern)[:80]}" if pattern is not None else "")


def _decoder(value: Any, shown: str) -> None:
    decoder = _object(value, shown, "decoder")
    if decoder.get("type") != "ByteLevel":
        raise TokenizerBad(f"{decoder.get('type')} is not understood: presk knows ByteLevel", f"{shown} key decoder")


def _around(value: Any, count: int, shown: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids before and after a whole text."""
    if value is None:
        return (), ()
    place = f"{shown} key post_processor"
    processor = _object(value, shown, "post_processor")
    kind = processor.get("type")
    if kind == "ByteLevel":
        return (), ()
    if kind == "Sequence" and isinstance(processor.get("processors"), list):
        before: tuple[int, ...] = ()
        after: tuple[int, ...] = ()
        for part in processor["processors"]:
            first, last = _around(part, count, shown)
            before, after = first + before, after + last
        return before, after
    if kind != "TemplateProcessing":
        raise TokenizerBad(f"{kind} is not understood: presk knows ByteLevel and TemplateProcessing", place)
    ids: tuple[list[int], list[int]] = ([], [])
    seen = 0
    for piece in processor.get("single") or []:
        if not isinstance(piece, dict) or len(piece) != 1:
            raise TokenizerBad("its template is malformed", place)
        if "Sequence" in piece:
            seen += 1
            continue
        name = (piece.get("SpecialToken") or {}).get("id")
        special = (processor.get("special_tokens") or {}).get(name) or {}
        listed = special.get("ids")
        if not isinstance(listed, list) or not all(type(i) is int and 0 <= i < count for i in listed):
            raise TokenizerBad("its template names a token that is not there", place)
        ids[min(seen, 1)].extend(listed)
    if seen != 1:
        raise TokenizerBad("its template must hold the text once", place)
    return tuple(ids[0]), tuple(ids[1])
