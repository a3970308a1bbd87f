"""presk check: small programs give the native run's bytes under every build, and every planted fault is caught."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pipeline import FIXTURES, GPT2, LLAMA, MLP, config_file, stored
from sqlalchemy import Engine

from presk_db.checkpoints.safetensors import SafetensorsFile
from presk_db.checkpoints.safetensors_write import write_safetensors
from presk_db.conformance.check import INPUTS, checked
from presk_db.conformance.program import Build
from presk_db.draw import drawn_weight
from presk_db.errors import BitsDiffer, BuildFailed, PreskError, ProgramFailed, WeightsNotFound
from presk_db.store.engine import open_database
from presk_db.store.recordings import StoredRecording

Compiler = Callable[[str], str]
MIXED = str(FIXTURES / "mixed.toml")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return open_database(str(tmp_path_factory.mktemp("check") / "presk.db"), create=True)


@pytest.fixture(scope="module")
def gpt2(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> StoredRecording:
    return stored(engine, config_file(tmp_path_factory.mktemp("gpt2"), GPT2), dims={"T": 4})


def check(engine: Engine, recording: StoredRecording, compiler: str, flags: str = "-O1", **options: Any) -> int:
    straight = options.pop("straight_line", (False,))
    results = checked(engine, recording, [Build(compiler, flags)], straight_line=straight, **options)
    assert all(r.bytes > 0 for r in results)
    return len(results)


@pytest.mark.parametrize("flags", ["-O0", "-O3 -march=native", "-O2 -ffp-contract=fast -mfma"])
def test_flags_do_not_change_a_bit(
    engine: Engine, gpt2: StoredRecording, cached_compiler: Compiler, flags: str
) -> None:
    assert check(engine, gpt2, cached_compiler("gcc"), flags) == 1


def test_clang(engine: Engine, gpt2: StoredRecording, cached_compiler: Compiler) -> None:
    assert check(engine, gpt2, cached_compiler("clang-19"), "-O2 -Wall -Wextra -Wconversion -Werror") == 1


@pytest.mark.parametrize("config", [GPT2, LLAMA], ids=["gpt2", "llama"])
@pytest.mark.parametrize("types", [{"type": "f64"}, {"type": "f32"}, {"type": "bf16"}, {"realization": MIXED}], ids=str)
def test_types(
    engine: Engine, tmp_path: Path, cached_compiler: Compiler, config: dict[str, Any], types: dict[str, str]
) -> None:
    recording = stored(engine, config_file(tmp_path, config), dims={"T": 3}, **types)
    flags = "-O1 -Wall -Wextra -Wconversion -Werror"
    assert check(engine, recording, cached_compiler("gcc"), flags, straight_line=(False, True)) == 2


ONE = {**GPT2, "n_layer": 1, "n_head": 1}
SHAPES: list[tuple[dict[str, Any], dict[str, int]]] = [
    (ONE, {"T": 1}),
    (GPT2, {"T": 1, "B": 3}),
    ({**GPT2, "n_layer": 0}, {"T": 2}),
    ({**ONE, "vocab_size": 1}, {"T": 2}),
    ({**ONE, "n_embd": 1, "n_positions": 1}, {"T": 1}),
    ({**GPT2, "tie_word_embeddings": True, "n_embd": 6}, {"T": 5, "B": 2}),
    ({**LLAMA, "num_hidden_layers": 0}, {"T": 2}),
    ({**LLAMA, "num_hidden_layers": 1, "num_attention_heads": 1}, {"T": 1}),
    ({**LLAMA, "head_dim": 2, "tie_word_embeddings": True}, {"T": 3, "B": 3}),
]


@pytest.mark.parametrize("case", range(len(SHAPES)))
def test_zero_and_one(engine: Engine, tmp_path: Path, cached_compiler: Compiler, case: int) -> None:
    config, dims = SHAPES[case]
    recording = stored(engine, config_file(tmp_path, config), dims=dims)
    assert check(engine, recording, cached_compiler("gcc"), straight_line=(False, True)) == 2


USER = """
from presk_db import language as L

NAMES = ["memory", "parts", "load_parts", "strlen", "argmax", "w", "in_", "main", "shape", "int", "softmax", 'a"%s*/']


def parameters(dims):
    return L.Record({n: L.parameter(n + " t", 3) for n in NAMES})


def inputs(dims):
    return {
        "memory": L.real_input(3), "n": L.int_input(3, limit=5), "scalar": L.real_input(), "empty": L.real_input(0, 3)
    }


def named(name):
    def f(x, w):
        return L.tanh(x * w + 1.0)
    f.__name__ = name
    return L.function(f)


def forward(p, memory, n, scalar, empty):
    out = {"same": memory, "again": p.main, "n_": n, "two": scalar * 2.0, "none": empty + 1.0, "real": L.real(n)}
    x = memory
    for name in NAMES:
        x = named(name)(x, p[name])
        out[name] = L.softmax(x)
    return out
"""


def test_a_users_names_and_shapes(engine: Engine, tmp_path: Path, cached_compiler: Compiler) -> None:
    """Names that the templates use, outputs that are inputs or weights, scalars, arrays without elements."""
    (tmp_path / "user.py").write_text(USER)
    recording = stored(engine, str(tmp_path / "user.py"))
    flags = "-O1 -Wall -Wextra -Wconversion -Werror"
    assert check(engine, recording, cached_compiler("gcc"), flags, straight_line=(False, True)) == 2


def test_without_weights_or_inputs(engine: Engine, tmp_path: Path, cached_compiler: Compiler) -> None:
    text = (
        "from presk_db import language as L\ndef parameters(dims):\n    return {}\ndef inputs(dims):\n    return {}\n"
    )
    (tmp_path / "user.py").write_text(text + "def forward(p):\n    return L.exp(L.real(L.iota((4, 3), 1)))\n")
    recording = stored(engine, str(tmp_path / "user.py"))
    assert check(engine, recording, cached_compiler("gcc"), "-O1 -Wall -Wextra -Werror") == 1


# --- weights of the user's own ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def weights(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> tuple[StoredRecording, Path]:
    """A recording from a file with tensors of four types, and the file."""
    folder = tmp_path_factory.mktemp("weights")
    names = {"fc1.weight": (32, 64), "fc1.bias": (32,), "fc2.weight": (10, 32), "fc2.bias": (10,)}
    drawn = {n: drawn_weight(7, n, s, -0.2, 0.2) for n, s in names.items()}
    upper = (drawn["fc2.bias"].view(np.uint32) >> 16).astype(np.uint16)
    kinds = {"fc1.weight": ("F64", np.float64), "fc1.bias": ("F16", np.float16), "fc2.weight": ("F32", np.float32)}
    tensors = [
        (n, k, names[n], [drawn[n].astype(t) * (1 + 2.0**-40 if k == "F64" else 1)]) for n, (k, t) in kinds.items()
    ]
    write_safetensors(folder / "w.safetensors", [*tensors, ("fc2.bias", "BF16", (10,), [upper])])
    types = {"realization": str(folder / "r.toml")}
    (folder / "r.toml").write_text('type = "f32"\n[sites]\n"parameters/w1" = "bf16"\n')
    return stored(engine, str(MLP), weights=str(folder / "w.safetensors"), **types), folder / "w.safetensors"


def test_weights_of_every_type(
    engine: Engine, weights: tuple[StoredRecording, Path], cached_compiler: Compiler, tmp_path: Path
) -> None:
    recording, path = weights
    assert check(engine, recording, cached_compiler("gcc")) == 1
    moved = tmp_path / "elsewhere.safetensors"
    moved.write_bytes(path.read_bytes())
    assert check(engine, recording, cached_compiler("gcc"), weights=str(moved)) == 1
    changed = bytearray(path.read_bytes())
    changed[-1] ^= 1
    moved.write_bytes(bytes(changed))
    with pytest.raises(WeightsNotFound, match=r"E7004 .*SHA-256 differs"):
        check(engine, recording, cached_compiler("gcc"), weights=str(moved))


# --- planted faults ---------------------------------------------------------------------------------------------------


def edit(file: str, pattern: str, replacement: str, nth: int = 0) -> Callable[[Path], None]:
    """Changes the n-th match of a pattern in an emitted file."""

    def tamper(folder: Path) -> None:
        text = (folder / file).read_text()
        match = list(re.finditer(pattern, text, re.M))[nth]
        changed = text[: match.start()] + match.expand(replacement) + text[match.end() :]
        assert changed != text
        (folder / file).write_text(changed)

    return tamper


def flip(file: str, tensor: str) -> Callable[[Path], None]:
    """Changes the highest bit of the mantissa of a tensor's first element."""

    def tamper(folder: Path) -> None:
        data = bytearray((folder / file).read_bytes())
        length = int.from_bytes(data[:8], "little")
        begin = json.loads(data[8 : 8 + length])[tensor]["data_offsets"][0]
        data[8 + length + begin + 2] ^= 0x40
        (folder / file).write_bytes(bytes(data))

    return tamper


def last_constant(folder: Path) -> None:
    """One unit more in the last place of a constant of the kernels."""
    text = (folder / "kernels.c").read_text()
    (match, *_) = re.finditer(r"0x[0-9a-f.]+p[-+]\d+f", text)
    nearest = np.nextafter(np.float32(float.fromhex(match.group()[:-1])), np.float32(np.inf))
    (folder / "kernels.c").write_text(text[: match.start()] + f"{float(nearest).hex()}f" + text[match.end() :])


def another_token(folder: Path) -> None:
    tokens = SafetensorsFile(str(folder / INPUTS)).read("tokens").copy()
    tokens[0, -1] = (tokens[0, -1] + 1) % 11
    write_safetensors(folder / INPUTS, {"tokens": tokens})


TWICE = r"\1 = presk_f32_from_bf16(presk_bf16_from_f32(\2));"

FAULTS: dict[str, Callable[[Path], None]] = {
    "a wrong offset": edit("model.c", r"(arena|frame|weights) \+ (\d\d+)\)", r"\1 + \g<2> + 4)"),
    "a loop one short": edit("kernels.c", r"(i0 = first \* 4; i0 < last \* 4);", r"\1 - 1;"),
    "a sum one short": edit("kernels.c", r"(presk_tile_first_f32\(rows, )8,", r"\g<1>7,"),
    "a split with a gap": edit("kernels.c", r"PRESK_LAUNCH\(2, ", "PRESK_LAUNCH(1, "),
    "two swapped arguments": edit("model.c", r"(w->h_ln_1_w), (w->h_ln_1_b)", r"\2, \1"),
    "a rounding twice": edit("kernels.c", r"(const float v\d+) = (v\d+ / v\d+);", TWICE),
    "a constant's last bit": last_constant,
    "a changed weight": flip("weights.safetensors", "lm_head.weight"),
    "a changed input": another_token,
    "a changed output": flip("conformance/outputs.safetensors", "logits"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(
    engine: Engine, gpt2: StoredRecording, cached_compiler: Compiler, fault: str
) -> None:
    with pytest.raises(BitsDiffer, match=r"E7003 .*logits differs in \d+ of 44 elements, first at \d+: "):
        check(engine, gpt2, cached_compiler("gcc"), tamper=FAULTS[fault], straight_line=(True,))


def test_a_dropped_launch_is_caught(engine: Engine, gpt2: StoredRecording, cached_compiler: Compiler) -> None:
    def drop(folder: Path) -> None:
        head, mark, body = (folder / "model.c").read_text().partition("/* Every operation")
        calls = list(re.finditer(r"^    \w+\((?!void).*?\);\n", body, re.M | re.S))
        middle = calls[len(calls) // 2]
        (folder / "model.c").write_text(head + mark + body[: middle.start()] + body[middle.end() :])

    with pytest.raises(BitsDiffer):
        check(engine, gpt2, cached_compiler("gcc"), tamper=drop, straight_line=(True,))


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        (edit("model.c", "#include", "#inclood"), BuildFailed, "E7001 .*error: invalid preprocessing directive"),
        (edit("main.c", r"good = presk_writer_save", "good = false && presk_writer_save"), ProgramFailed, "E7002 main"),
        (
            edit("main.c", r"\bbool good = false;", "abort();\n    bool good = false;"),
            ProgramFailed,
            "ended with status",
        ),
        (edit("main.c", r'add\(writer, "logits"', 'add(writer, "logit"'), BitsDiffer, "another type or shape"),
    ],
)
def test_programs_that_fail(
    engine: Engine,
    gpt2: StoredRecording,
    cached_compiler: Compiler,
    fault: Callable[[Path], None],
    error: type[PreskError],
    said: str,
) -> None:
    with pytest.raises(error, match=said):
        check(engine, gpt2, cached_compiler("gcc"), tamper=fault)


@pytest.mark.parametrize("flags", ["-O1 -ffast-math", "-Ofast", "-O1 -funsafe-math-optimizations"])
def test_flags_that_change_bits_do_not_build(engine: Engine, gpt2: StoredRecording, flags: str) -> None:
    with pytest.raises(BuildFailed, match=r"E7001 .*presk: -f"):
        check(engine, gpt2, "gcc", flags)


def test_contraction_is_refused_at_start(engine: Engine, gpt2: StoredRecording, cached_compiler: Compiler) -> None:
    """Where someone takes STRICT out of the Makefile."""
    tamper = edit("Makefile", r"^STRICT = .*$", "STRICT = -std=gnu11")
    with pytest.raises(ProgramFailed, match=r"E4001.*contracted into fused multiply-adds"):
        check(engine, gpt2, cached_compiler("gcc"), "-O2 -mfma -ffp-contract=fast", tamper=tamper)
