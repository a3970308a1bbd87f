"""Tokens a second of emitted steps beside what reading the weights allows and beside a program of llama2.c's shape.

    python -m tests.speed.bench_decoding [GGUF]

The course GPT, Llamas of the shapes of stories15M and stories110M (weights from a seed), and, where a GGUF file is
given, SmolLM2 in f32 and with bf16 parameters. In each round the machine's rate of reading, the program and its rival
take their turn, on one thread, then on two; medians are printed. The rival, llama_shaped.c, is built by
`-Ofast -march=native -fopenmp`, presk's programs by `-O3 -march=native`, both by cc.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from presk_db.checkpoints.convert import convert
from presk_db.conformance.bench import Settings, limits_program
from presk_db.conformance.limits import limits_from
from presk_db.conformance.program import Build, built
from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.specs.record import recorded
from presk_db.specs.spec import spec_from
from presk_db.store.emission import emission_reader
from presk_db.store.engine import open_database
from presk_db.store.ingest import write_recording

HERE = Path(__file__).resolve().parent
COURSE_GPT = HERE.parents[1] / "fixtures" / "course_gpt" / "config.json"
SHAPES = {"stories15M": (288, 768, 6, 6, 6, 32000, 256), "stories110M": (768, 2048, 12, 12, 12, 32000, 1024)}
"""Width, hidden width, layers, heads, key-value heads, vocabulary, positions."""

KEYS = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "vocab_size", "max_position_embeddings")  # fmt: skip
ROUNDS = 3


@dataclass(frozen=True)
class Subject:
    """A built program, its weights, how many tokens to draw, the bytes of all parameters, and the rival's arguments."""

    name: str
    folder: Path
    weights: Path
    tokens: int
    bytes: int
    rival: tuple[int, ...] = ()
    seen: dict[tuple[str, int], list[float]] = field(default_factory=dict)


def subject(name: str, work: Path, target: str, tokens: int, weights: Path | None = None, **flags: Any) -> Subject:
    """The step of a model, recorded, emitted and built."""
    engine = open_database(str(work / f"{name}.db"), create=True)
    given = {"entry": "decode", "name": "step", "tokenizer": "none", **flags}
    recording = recorded(spec_from(target, given), executor="compiled")
    row = write_recording(engine, recording)
    folder = work / name
    with emission_reader(engine, row.id) as reader:
        emit_to(reader, row, generator("c_program"), folder, {"serve": True})
    built(folder, Build(), target="generate")
    weights = weights or folder / "weights.safetensors"
    size = weights.stat().st_size  # f32 in both cases
    return Subject(name, folder, weights, tokens, size // 2 if flags.get("params") == "bf16" else size)


def subjects(work: Path, gguf: str | None) -> list[Subject]:
    """All programs."""
    found = [subject("course GPT", work, str(COURSE_GPT), 200)]
    for name, shape in SHAPES.items():
        config = work / f"{name}.json"
        config.write_text(
            json.dumps({"model_type": "llama", "tie_word_embeddings": True, **dict(zip(KEYS, shape, strict=True))})
        )
        made = subject(name, work, str(config), 128 if shape[0] < 500 else 48)
        found.append(Subject(name, made.folder, made.weights, made.tokens, made.bytes, (*shape, made.tokens)))
    if gguf is not None:
        convert(gguf, str(work / "smollm2"))
        weights, dims = work / "smollm2" / "model.safetensors", {"T": 512}
        for name, more in (("SmolLM2 f32", {}), ("SmolLM2 bf16", {"params": "bf16"})):
            found.append(subject(name, work, str(work / "smollm2"), 48, weights, dims=dims, **more))
    return found


def said(command: Sequence[object], threads: int, stream: str = "stdout") -> str:
    """What a program prints."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run([str(c) for c in command], env=environment, capture_output=True, text=True, check=True)
    return done.stdout if stream == "stdout" else done.stderr


def main() -> None:
    """Prints a line for each program and number of threads."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        measured = subjects(work, sys.argv[1] if len(sys.argv) > 1 else None)
        rival, limits = work / "llama_shaped", limits_program(work, Settings())
        flags = ["-Ofast", "-march=native", "-fopenmp"]
        subprocess.run(["cc", *flags, HERE / "llama_shaped.c", "-o", rival, "-lm"], check=True)
        for threads in [t for _ in range(ROUNDS) for t in (1, 2)]:
            for s in measured:
                read = limits_from(said([limits], threads)).bytes
                s.seen.setdefault(("bound", threads), []).append(read / s.bytes)
                command = [
                    s.folder / "generate",
                    "-w",
                    s.weights,
                    "--ids",
                    "1",
                    "-n",
                    s.tokens,
                    "-t",
                    0,
                    "--json",
                    "--time",
                ]
                rate = re.findall(r"([\d.]+) a second", said(command, threads, "stderr"))[-1]
                s.seen.setdefault(("presk", threads), []).append(float(rate))
                if s.rival:
                    s.seen.setdefault(("rival", threads), []).append(float(said([rival, *s.rival], threads)))
        for s in measured:
            for threads in (1, 2):
                rates = {kind: median(r) for (kind, t), r in s.seen.items() if t == threads}
                line = f"{s.name}, {threads} threads: {rates['presk']:.1f} tokens/s, bound {rates['bound']:.1f}"
                line += f" ({rates['presk'] / rates['bound']:.2f})"
                print(
                    line
                    + (f", rival {rates['rival']:.1f} (x {rates['presk'] / rates['rival']:.2f})" if s.rival else "")
                )


if __name__ == "__main__":
    main()
