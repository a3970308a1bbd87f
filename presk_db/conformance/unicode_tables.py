"""Asks the `tokenizers` library about every code point and writes the C tokenizer's tables from its answers.

`python -m presk_db.conformance.unicode_tables` rewrites `runtime_c/generate/presk_unicode_classes.h` and
`presk_unicode_nfc.h`. So the tables are those of the library's regular expressions, of its digits and of its normal
form, each with the Unicode version that the library has.
"""

from collections.abc import Iterable, Sequence

from tokenizers import Regex, normalizers, pre_tokenizers

from presk_db.resources import resource_folder

LETTER, NUMBER, SPACE, DIGIT = 1, 2, 4, 8
COLUMNS = 110

ALL = tuple(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)
_BREAK = "\n"  # inert in every normal form


def _matching(pattern: str) -> frozenset[str]:
    """The characters that a pattern matches."""
    left = normalizers.Replace(Regex(pattern), "").normalize_str("".join(ALL))
    return frozenset(ALL) - frozenset(left)


def _digits() -> frozenset[str]:
    """The characters that Digits takes as such: Rust's char::is_numeric."""
    pieces = pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str("a".join(ALL))
    return frozenset(piece for piece, _ in pieces if len(piece) == 1 and piece != "a")


def classes() -> list[int]:
    """The classes of each code point, as bits."""
    found = [0] * 0x110000
    answers = ((r"\p{L}", LETTER), (r"\p{N}", NUMBER), (r"\s", SPACE))
    for characters, bit in [*((_matching(p), b) for p, b in answers), (_digits(), DIGIT)]:
        for character in characters:
            found[ord(character)] |= bit
    return found


def _each(normalizer: normalizers.Normalizer, texts: Sequence[str]) -> list[str]:
    """The normal form of each text; none may hold a line feed."""
    if not texts:
        return []
    results: list[str] = normalizer.normalize_str(_BREAK.join(texts)).split(_BREAK)
    assert len(results) == len(texts)
    return results


def combining_classes() -> dict[str, int]:
    """The order of the characters that canonical ordering moves, numbered from 1; all others do not move.

    The numbers are ranks, not Unicode's: two characters are reordered exactly where their ranks say so.
    """
    nfd = normalizers.NFD()
    texts = [c for c in ALL if c != _BREAK]
    plain = {c: d for c, d in zip(texts, _each(nfd, texts), strict=True)}
    simple = [c for c in texts if plain[c] == c]
    low, high = "\u0334", "\u0345"  # the classes 1 and 240, the least and the greatest
    moved = {c for c, d in zip(simple, _each(nfd, [f"a{c}{low}" for c in simple]), strict=True) if d == f"a{low}{c}"}
    moved |= {c for c, d in zip(simple, _each(nfd, [f"a{high}{c}" for c in simple]), strict=True) if d[1] == c}
    moved |= {low, high}
    least: list[str] = []  # one character of each class, in order
    rank: dict[str, int] = {}
    for c in sorted(moved):
        swapped = _each(nfd, [f"a{other}{c}" for other in least])  # c moves before those of a higher class
        before = sum(1 for text, other in zip(swapped, least, strict=True) if text == f"a{other}{c}")
        twin = before > 0 and _each(nfd, [f"a{c}{least[before - 1]}"])[0] == f"a{c}{least[before - 1]}"
        if not twin:
            least.insert(before, c)
    for number, other in enumerate(least):
        rest = sorted(moved - set(rank))
        swapped = _each(nfd, [f"a{other}{c}" for c in rest])
        back = _each(nfd, [f"a{c}{other}" for c in rest])
        same = {c for c, s, b in zip(rest, swapped, back, strict=True) if s == f"a{other}{c}" and b == f"a{c}{other}"}
        rank.update({c: number + 1 for c in same})
    assert set(rank) == moved
    return rank


def decompositions() -> dict[str, str]:
    """The full canonical decomposition of each character that has one, without Hangul syllables."""
    texts = [c for c in ALL if c != _BREAK and not 0xAC00 <= ord(c) < 0xD7A4]
    return {c: d for c, d in zip(texts, _each(normalizers.NFD(), texts), strict=True) if c != d}


def compositions(parts: dict[str, str]) -> dict[tuple[str, str], str]:
    """The pairs that compose, without Hangul."""
    nfc = normalizers.NFC()
    composed = list(parts)
    heads = _each(nfc, [parts[c][:-1] for c in composed])
    wholes = _each(nfc, [parts[c] for c in composed])
    return {
        (head, parts[c][-1]): c
        for c, head, whole in zip(composed, heads, wholes, strict=True)
        if whole == c and len(head) == 1
    }


def unstable(parts: dict[str, str], ranks: dict[str, int], pairs: dict[tuple[str, str], str]) -> frozenset[str]:
    """The characters around which NFC can change a text: all others begin a new stretch and stay as they are."""
    texts = [c for c in ALL if c != _BREAK]
    changed = {c for c, n in zip(texts, _each(normalizers.NFC(), texts), strict=True) if c != n}
    hangul = {chr(c) for c in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}
    return frozenset(changed | set(ranks) | {second for _, second in pairs} | hangul)


def runs(values: Sequence[int]) -> list[tuple[int, int, int]]:
    """(first, count, value) of each run of equal values other than 0."""
    found: list[tuple[int, int, int]] = []
    for index, value in enumerate(values):
        if value and found and found[-1][2] == value and found[-1][0] + found[-1][1] == index:
            found[-1] = (found[-1][0], found[-1][1] + 1, value)
        elif value:
            found.append((index, 1, value))
    return found


def _wrapped(items: Iterable[str]) -> str:
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 2 > COLUMNS:
            lines.append(line)
            line = "   "
        line += f" {item},"
    return "\n".join([*lines, line])


def _array(type_: str, name: str, items: Sequence[str]) -> str:
    return f"static const {type_} {name}[{len(items)}] = {{\n{_wrapped(items)}\n}};\n"


def _version(assigned: frozenset[str] | set[str], candidates: dict[int, str]) -> str:
    return next((version for code, version in candidates.items() if chr(code) in assigned), "8.0 or older")


def classes_header() -> str:
    """The text of presk_unicode_classes.h."""
    found = classes()
    letters = frozenset(chr(c) for c, bits in enumerate(found) if bits & LETTER)
    digits = frozenset(chr(c) for c, bits in enumerate(found) if bits & DIGIT)
    regex = _version(letters, {0x1C89: "16.0", 0x31350: "15.0", 0x870: "14.0"})
    rust = _version(digits, {0x11DE0: "17.0", 0x10D40: "16.0", 0x11F50: "15.0"})
    ranges = [f"{{0x{first:x}, {count}, {value}}}" for first, count, value in runs(found)]
    return (
        f"/* presk_unicode_classes.h: letters, numbers and white space (Unicode {regex}), and digits (Unicode {rust}).\n"
        " *\n"
        " * The bits are what the `tokenizers` library's \\p{L} (1), \\p{N} (2), \\s (4) and Digits (8) match. Written by\n"
        " * presk_db/conformance/unicode_tables.py; do not edit.\n"
        " */\n"
        "#ifndef PRESK_UNICODE_CLASSES_H\n#define PRESK_UNICODE_CLASSES_H\n\n#include <stdint.h>\n\n"
        "/* First code point, how many, their bits; ascending. */\n"
        + _array("struct { uint32_t first, count, bits; }", "presk_class_ranges", ranges)
        + "\n#endif /* PRESK_UNICODE_CLASSES_H */\n"
    )


def nfc_header() -> str:
    """The text of presk_unicode_nfc.h."""
    parts, ranks = decompositions(), combining_classes()
    pairs = compositions(parts)
    moving = unstable(parts, ranks, pairs)
    flags = [0] * 0x110000
    for c in moving:
        flags[ord(c)] = 1
    order = [0] * 0x110000
    for c, rank in ranks.items():
        order[ord(c)] = rank
    letters = "".join(parts[c] for c in sorted(parts))
    offsets, at = [], 0
    for c in sorted(parts):
        offsets.append(f"{{0x{ord(c):x}, {at}}}")
        at += len(parts[c])
    version = _version(
        set(ranks), {0x1E6EE: "16.0", 0x10EFD: "15.0", 0x898: "14.0", 0x1ABF: "13.0", 0x1DF6: "10.0", 0x1E000: "9.0"}
    )
    joined = [f"{{0x{ord(a):x}, 0x{ord(b):x}, 0x{ord(c):x}}}" for (a, b), c in sorted(pairs.items())]
    return (
        f"/* presk_unicode_nfc.h: the canonical decompositions, orders and compositions of Unicode {version}.\n"
        " *\n"
        " * As the `tokenizers` library's NFD and NFC have them; Hangul is computed. Written by\n"
        " * presk_db/conformance/unicode_tables.py; do not edit.\n"
        " */\n"
        "#ifndef PRESK_UNICODE_NFC_H\n#define PRESK_UNICODE_NFC_H\n\n#include <stdint.h>\n\n"
        "/* Code points around which NFC can change a text: first, how many; ascending. */\n"
        + _array(
            "struct { uint32_t first, count; }", "presk_nfc_unstable", [f"{{0x{a:x}, {n}}}" for a, n, _ in runs(flags)]
        )
        + "\n/* Combining marks: first, how many, the rank by which they are ordered; ascending. */\n"
        + _array(
            "struct { uint32_t first, count, rank; }",
            "presk_nfc_ranks",
            [f"{{0x{a:x}, {n}, {rank}}}" for a, n, rank in runs(order)],
        )
        + "\n/* Code points with a full decomposition, ascending, and where in presk_nfc_letters it begins. */\n"
        + _array("struct { uint32_t code, begin; }", "presk_nfc_parts", [*offsets, f"{{0x110000, {at}}}"])
        + "\n"
        + _array("uint32_t", "presk_nfc_letters", [f"0x{ord(c):x}" for c in letters])
        + "\n/* Pairs that compose: first, second, what they become; ascending. */\n"
        + _array("struct { uint32_t first, second, composed; }", "presk_nfc_pairs", joined)
        + "\n#endif /* PRESK_UNICODE_NFC_H */\n"
    )


def main() -> None:
    """Writes both headers."""
    folder = resource_folder("runtime_c") / "generate"
    (folder / "presk_unicode_classes.h").write_text(classes_header(), encoding="utf-8")
    (folder / "presk_unicode_nfc.h").write_text(nfc_header(), encoding="utf-8")


if __name__ == "__main__":
    main()
