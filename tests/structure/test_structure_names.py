"""Names of all kinds, from users' files: every one becomes a distinct C identifier, and the bits stay."""

import re
from pathlib import Path

import pytest
from building import Runtime, check_both, compiled, emitted_to, stored
from sqlalchemy import Engine

from presk_db.store.recordings import StoredRecording

ENTRY = '''"""An entry whose names are chosen to collide."""

from presk_db import language as L


def parameters(dims):
    return L.Record({{{parameters}}})


def inputs(dims):
    return {{{inputs}}}


@L.function
def {function}(x, w):
    return L.tanh(L.linear(x, w))


@L.function
def {second}(x, w):
    return L.silu(L.linear(x, w))


def forward(p, **given):
    a, b = given.values()
    v, w = p.values()
    return {{{first!r}: {function}(a, v), {last!r}: {second}({function}(b, w), v)}}
'''

CASES: dict[str, tuple[list[str], list[str], list[str], list[str]]] = {
    # parameters (names, tensors), inputs, outputs, functions
    "words of C": (["int", "static"], ["double", "char"], ["for", "while"], ["tanh", "exp"]),
    "the library": (["main", "printf"], ["stdin", "errno"], ["malloc", "NULL"], ["memcpy", "sqrt"]),
    "presk": (["presk_alloc", "arena"], ["frame", "w"], ["l", "out"], ["presk_run", "presk_exp_f64"]),
    "the program": (
        ["net_run", "net_weights"],
        ["net_inputs", "net_check"],
        ["net", "NET_H"],
        ["net_run", "net_check"],
    ),
    "kernels": (["k_tanh", "k_linear"], ["k_linear_tanh", "kernels"], ["a0", "v0"], ["k_linear", "k_linear_tanh"]),
    "no identifiers": (["a-b", "*/"], ['"', "a;b"], ["/*", "\\"], ["f", "g"]),
    "equal when cleaned": (["x.y", "x-y"], ["é", "ü"], ["a b", "a_b"], ["F", "f"]),
    "more of the library": (["INT64_MAX", "EOF"], ["M_PI", "PRESK_F32"], ["NAN", "CHAR_BIT"], ["puts", "cbrtf"]),
    "case": (["W", "w_"], ["X", "x"], ["Y", "y"], ["Layer", "layer"]),
    "digits": (["0", "1"], ["00", "01"], ["2x", "turn_0_0"], ["turn_0_0", "n0"]),
    "long": (["p" * 200, "p" * 201], ["i" * 99, "i" * 98], ["o" * 120, "o" * 121], ["f" * 90, "f" * 91]),
    "percent": (["%s%n", "%d"], ["%", "??/"], ["$(x)", "`x`"], ["printf", "percent"]),
    "the text itself": (["restrict", "ptrdiff_t"], ["presk_bf16", "uint8_t"], ["main_", "places"], ["parts", "run"]),
}


def entry_file(folder: Path, case: str) -> Path:
    parameters, inputs, outputs, functions = CASES[case]
    text = ENTRY.format(
        parameters=", ".join(f"{n!r}: L.parameter({n!r}, 4, 4, scale=0.5)" for n in parameters),
        inputs=", ".join(f"{n!r}: L.real_input(3, 4)" for n in inputs),
        function=functions[0],
        second=functions[1],
        first=outputs[0],
        last=outputs[1],
    )
    path = folder / "names.py"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("case", CASES)
def test_names(case: str, engine: Engine, tmp_path: Path, runtime: Runtime) -> None:
    check_both(engine, stored(engine, str(entry_file(tmp_path, case))), tmp_path, runtime)


@pytest.mark.parametrize(
    "name",
    [
        "tanh",
        "int",
        "a-b",
        "*/",
        '"',
        "a\nb",
        "presk",
        "main",
        "",
        "0",
        "model",
        "kernels",
        "é",
        "%s",
        "${x}",
        "x" * 300,
    ],
)
def test_names_of_recordings(name: str, engine: Engine, tmp_path: Path) -> None:
    """The recording's name is the prefix of every symbol and stands in comments."""
    recording = stored(engine, str(entry_file(tmp_path, "case")))
    named = StoredRecording(**{**vars(recording), "name": name})
    folder = emitted_to(engine, named, tmp_path / "program")
    for source in ("model", "kernels", "main"):
        compiled(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", str(folder / f"{source}.c")])
    prefix = re.findall(r"^bool (\w+)_weights_load", (folder / "model.h").read_text(), re.MULTILINE)
    assert len(prefix) == 1 and prefix[0].isidentifier() and not prefix[0].startswith("presk_alloc")
