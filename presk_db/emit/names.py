"""c_names: wanted names made into distinct C identifiers."""

import re
from collections.abc import Iterable

from presk_db.emit.c_words import LIBRARY

RESERVED: frozenset[str] = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while _Bool _Complex
    _Imaginary alignas alignof atomic bool complex constexpr false generic imaginary noreturn nullptr static_assert
    thread_local true typeof asm main errno stdin stdout stderr assert NULL EOF exp expm1 log log1p tanh sin cos erf sqrt
    fabs floor ceil fma fmin fmax pow abs index malloc free memcpy printf exit linux unix i386 near far min max y0 y1 yn
    j0 j1 jn k_team k_pack team gamma signal time div remove rename read write open close frame arena weights inputs
    outputs in out w l
    memory part parts is_ignored is_tied_head load_parts none strlen strcmp strncmp memcmp memset fprintf fputs puts stderr
    isnan isinf isfinite isnormal signbit fpclassify offsetof asm typeof I
    size_t ptrdiff_t int64_t uint64_t int32_t uint32_t uint16_t uint8_t NAN INFINITY""".split()  # noqa: SIM905 - words
)
"""C's keywords, names of its library, and the names that the templates use themselves."""


def c_name(wanted: str) -> str:
    """`wanted` as a C identifier: other characters become `_`; never empty, reserved, or one of presk's own."""
    name = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_]", "_", wanted)).strip("_")
    if not name or name[0].isdigit():
        name = f"n{name}"
    if (
        name in RESERVED
        or name in LIBRARY
        or name.lower().startswith("presk")
        or re.fullmatch(r"[ailnsv]\d+|turn_\d+_\d+", name)
    ):
        name = f"{name}_"
    return name[:60].rstrip("_") + ("_" if name.endswith("_") else "")


def c_names(wanted: Iterable[tuple[str, int, str]], prefix: str = "") -> list[tuple[str, int, str]]:
    """(namespace, number, wanted) rows with distinct names, in the rows' order.

    Namespaces without a colon share one: their names are the file's own. One with a colon (`local:3`) is a scope of its
    own, whose names differ from each other and from the file's. Case is ignored. None is in capitals alone, as macros
    are, or begins with `prefix` and `_`, as the program's public names do.
    """
    rows = list(wanted)
    found: dict[tuple[str, int], str] = {}
    shared: set[str] = set()
    scopes: dict[str, set[str]] = {}
    for namespace, number, text in sorted(rows, key=lambda row: ":" in row[0]):  # stable: the file's names first
        names = shared if ":" not in namespace else scopes.setdefault(namespace, set())
        base = c_name(text)
        if prefix and f"{base}_".lower().startswith(f"{prefix}_".lower()):
            base = f"own_{base}"
        if base.isupper() and len(base) > 1:
            base = f"{base}_"
        name, count = base, 1
        while name.lower() in names or name.lower() in shared:
            count += 1
            name = f"{base.rstrip('_')}_{count}"
        names.add(name.lower())
        found[namespace, number] = name
    return [(namespace, number, found[namespace, number]) for namespace, number, _ in rows]
