"""A corpus that a tokenizer can be wrong on, made in the same way each time: scripts, emoji, marks, controls, spaces."""

import random
import sys
import sysconfig
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|eot_id|>")
"""The special tokens of the families in these tests, of which each has some."""

_EMOJI = "😀😂🤷👩👨👧👦💻🏽🏿❤🔥🏳🌈🇩🇪🇫🇷☎⌚1*#"
_JOINERS = ("\u200d", "\ufe0f", "\u20e3", "🏽", "\u200c", "\ufeff")
_SPACES = " \t\n\r\v\f\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2003\u2009\u200a\u200b\u2028\u2029\u202f\u205f\u3000"
_CONTRACTIONS = (
    "'s",
    "'t",
    "'re",
    "'ve",
    "'m",
    "'ll",
    "'d",
    "'S",
    "'Ll",
    "'LL",
    "'rE",
    "'ſ",
    "'",
    "''s",
    "’s",
    "'l",
    "'v",
)


@cache
def _by_category() -> dict[str, str]:
    groups: dict[str, list[str]] = {}
    for code in range(0x110000):
        if not 0xD800 <= code < 0xE000:
            groups.setdefault(unicodedata.category(chr(code)), []).append(chr(code))
    return {name: "".join(group) for name, group in groups.items()}


@cache
def _prose() -> str:
    """The documents and sources of this checkout and of Python's library: some megabytes of prose and code."""
    library = Path(sysconfig.get_path("stdlib"))
    files = [
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "presk_db").rglob("*.py")),
        *sorted(library.glob("*.py")),
    ]
    return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files)


def _drawn(r: random.Random, letters: str, most: int) -> str:
    return "".join(r.choices(letters, k=r.randint(1, most)))


def _prose_part(r: random.Random) -> str:
    text = _prose()
    start = r.randrange(len(text))
    return text[start : start + r.randint(1, 2000)]


def _category(r: random.Random) -> str:
    groups = _by_category()
    return _drawn(r, groups[r.choice(sorted(groups))], 12)


def _block(r: random.Random) -> str:
    start = r.randrange(0, 0x1100) << 8
    return "".join(chr(start + r.randrange(256)) for _ in range(20) if not 0xD800 <= start < 0xE000)


def _cjk(r: random.Random) -> str:
    ideographs = (chr(r.choice((0x3041, 0x30A1, 0x4E00, 0x4E00, 0x20000)) + r.randrange(80)) for _ in range(30))
    return "".join(ideographs) + r.choice("。、！「」ー々〆")


def _hangul(r: random.Random) -> str:
    syllables = "".join(chr(0xAC00 + r.randrange(11172)) for _ in range(r.randint(1, 6)))
    jamo = "".join(chr(r.choice((0x1100, 0x1161, 0x11A7)) + r.randrange(30)) for _ in range(r.randint(1, 6)))
    return r.choice((syllables, jamo, syllables + jamo, unicodedata.normalize("NFD", syllables)))


def _marks(r: random.Random) -> str:
    marks = _by_category()["Mn"]
    base = r.choice(("a", "é", "Ω", "ä", "가", "", " ", "क", "\u1e0b"))
    return base + _drawn(r, marks, r.choice((1, 3, 40)))


def _emoji(r: random.Random) -> str:
    return "".join(r.choice(_EMOJI) + r.choice((*_JOINERS, "", "")) for _ in range(r.randint(1, 8)))


def _special(r: random.Random) -> str:
    token = r.choice(SPECIAL)
    return r.choice(
        (token, token[: r.randint(1, len(token))], token[0] + token, token.upper(), token[1:], f" {token} ")
    )


def _contraction(r: random.Random) -> str:
    return r.choice(("we", "I", "", "é", "1", " ")) + r.choice(_CONTRACTIONS) + r.choice(("", "x", " ", "e"))


def _numbers(r: random.Random) -> str:
    groups = _by_category()
    letters = r.choice(("0123456789", "0123456789,. ", groups["Nd"], groups["Nl"] + groups["No"]))
    return _drawn(r, letters, 12)


_PARTS: tuple[Callable[[random.Random], str], ...] = (
    _prose_part, _prose_part, _category, _category, _block, _cjk, _hangul, _marks, _emoji, _special, _contraction, _numbers,
    lambda r: _drawn(r, _SPACES, 6),
    lambda r: _drawn(r, " \n", 8),
    lambda r: r.choice("\0\x01\x07\x1b\x7f\x9f\ufffe\uffff\U0010ffff\ue000\U000e0041") * r.randint(1, 3),
    lambda r: _drawn(r, "!?.,;:-_()[]{}<>|/\\'\"`~@#$%^&*+=", 6),
    lambda r: chr(r.randrange(97, 123)) * r.randint(1, 70),
)  # fmt: skip


def document(seed: int, characters: int) -> str:
    """A mixed text of about so many characters."""
    r = random.Random(seed)
    parts: list[str] = []
    while sum(map(len, parts[-40:])) * (len(parts) // 40 + 1) < characters and len(parts) < characters:
        parts.extend(r.choice(_PARTS)(r) for _ in range(40))
    return "".join(parts)[:characters]


def code_points(separators: tuple[str, ...] = ("", "'", " ", "a", "1", "\n")) -> Iterator[str]:
    """Every code point, in order and after each of the separators, in texts of one block of 4096."""
    for start in range(0, 0x110000, 4096):
        letters = [chr(c) for c in range(start, start + 4096) if not 0xD800 <= c < 0xE000]
        for between in separators:
            if letters:
                yield between.join(letters)


def monsters(size: int) -> Iterator[str]:
    """Texts of one thing, so many times over."""
    for unit in (
        " ",
        "\n",
        "a",
        "1",
        "<",
        "ab",
        " a",
        "\u0301",
        "\u0301\u0323",
        "가",
        "。",
        "<|im_start|>",
        " \n",
        "\U0001f469\u200d",
    ):
        count = size // len(unit)
        yield unit * count
        yield unit * count + "x"


def corpus(size: int, seed: int = 1, monster: int = 1 << 20) -> Iterator[str]:
    """Texts of `size` bytes of UTF-8 in all, or a little more: monsters, code points, and mixed documents for the rest."""
    total = 0
    sources = (iter([" " * monster + "x", "\n" * (monster // 16)]), code_points(), monsters(monster // 64))
    for source in sources:
        for text in source:
            if total >= size * 3 // 5:
                break
            total += len(text.encode())
            yield text
    number = 0
    while total < size:
        text = document(seed * 1_000_003 + number, 8192)
        number += 1
        total += len(text.encode())
        yield text


if __name__ == "__main__":
    texts = list(corpus(int(sys.argv[1])))
    print(len(texts), "texts", sum(len(text.encode()) for text in texts), "bytes")
