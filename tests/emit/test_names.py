"""Names and texts of the user's in C: identifiers, strings, comments, as gcc reads them."""

import subprocess
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline import ROOT

from presk_db.emit.names import RESERVED, c_name, c_names
from presk_db.emit.text import c_call, c_comment, c_string

WORDS = st.text(max_size=80) | st.sampled_from(sorted(RESERVED)) | st.text('*/\\?"%\n', max_size=12)


@given(WORDS)
def test_an_identifier(wanted: str) -> None:
    name = c_name(wanted)
    assert name.isidentifier()
    assert name.isascii()
    assert len(name) <= 61
    assert name not in RESERVED
    assert not name.lower().startswith("presk_") or name.endswith("_")
    assert not name.startswith("_")


def test_identifiers() -> None:
    wanted = {
        "main": "main_",
        "h.0.attn": "h_0_attn",
        "9": "n9_",
        "": "n",
        "模型": "n",
        "presk_rt": "presk_rt_",
        "v0": "v0_",
    }
    assert {w: c_name(w) for w in wanted} == wanted


@given(st.lists(st.tuples(st.sampled_from(["kernel", "form", "field:weight", "local:1"]), WORDS), max_size=30))
def test_distinct(rows: list[tuple[str, str]]) -> None:
    named = c_names([(namespace, number, text) for number, (namespace, text) in enumerate(rows)])
    assert [(s, n) for s, n, _ in named] == [(s, n) for n, (s, _) in enumerate(rows)]
    shared = [name.lower() for s, _, name in named if ":" not in s]
    assert len(set(shared)) == len(shared)
    for scope in ("field:weight", "local:1"):
        own = [name.lower() for s, _, name in named if s == scope]
        assert len(set(own)) == len(own)
        assert not set(own) & set(shared)


def test_every_word_of_the_templates_is_reserved_or_prefixed() -> None:
    """Functions that the templates define or call must not be taken by a kernel's name."""
    for word in ("memory", "parts", "part", "load_parts", "is_ignored", "is_tied_head", "strlen", "strcmp", "memcmp"):
        assert c_name(word) == f"{word}_"
        assert word in (ROOT / "generators" / "c_program" / "model.c.mako").read_text()


@settings(max_examples=8)
@given(st.lists(st.text(max_size=40) | st.text('*/\\?"%\n0', max_size=12), min_size=30, max_size=30))
def test_strings_and_comments_as_gcc_reads_them(tmp_path_factory: object, texts: list[str]) -> None:
    folder = Path(tmp_path_factory.mktemp("text"))  # type: ignore[attr-defined]
    lines = ["#include <stdio.h>", "int main(void)", "{"]
    for text in texts:
        lines.append(f"    /* {c_comment(text)} */")
        lines.append(f"    fwrite({c_string(text)}, 1, sizeof {c_string(text)}, stdout);")
    lines += ["    return 0;", "}", ""]
    (folder / "t.c").write_text("\n".join(lines))
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O0"]
    subprocess.run(["gcc", *flags, "t.c", "-o", "t"], cwd=folder, check=True)
    said = subprocess.run([folder / "t"], capture_output=True, check=True).stdout
    assert said == b"".join(text.encode() + b"\0" for text in texts)


def test_calls() -> None:
    assert c_call("    ", "f", []) == "    f();"
    assert c_call("", "f", ["a", "b"]) == "f(a, b);"
    long = c_call("    ", "f", ["argument_number_one"] * 12)
    assert all(len(line) <= 112 for line in long.splitlines())
    assert long.replace("\n", "").replace(" ", "") == "f(" + ",".join(["argument_number_one"] * 12) + ");"
