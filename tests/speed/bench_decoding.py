"""Tokens a second of emitted steps beside what reading the weights allows and beside other programs that decode.

    python -m tests.speed.bench_decoding [--gguf FILE] [--python PYTHON] [--work FOLDER] [--build] [--only TEXT]
                                         [--threads 1 2] [--rounds 3]

The course GPT, Llamas of the shapes of stories15M and stories110M (weights from a seed), and, where a GGUF file is
given, SmolLM2 in f32 and with bf16 parameters. Every round is one turn of each: the machine's rate of reading, presk's
program, and its rivals; medians and the median of the rounds' ratios are printed. The rivals:

    llama_shaped      the shape of llama2.c, by cc -Ofast -march=native -fopenmp, for the Llamas
    torch             the course GPT with caches, eager, by PYTHON where that has torch
    llama.cpp         the GGUF file as it is, by PYTHON where that has llama_cpp

presk's programs are built by cc -O3 -march=native. `--work` keeps what is built for the next run, `--build` only builds.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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


@dataclass(frozen=True)
class Subject:
    """A built program, its weights, how many tokens to draw, the bytes of all parameters, and its rivals.

    A rival is the command that prints its tokens a second; `{}` in it stands for the number of threads.
    """

    name: str
    folder: Path
    weights: Path
    tokens: int
    bytes: int
    rivals: tuple[tuple[str, tuple[str, ...]], ...] = ()
    seen: dict[tuple[str, int], list[float]] = field(default_factory=dict)


def subject(name: str, work: Path, target: str, tokens: int, weights: Path | None = None, **flags: Any) -> Subject:
    """The step of a model, recorded, emitted and built, unless the folder has it."""
    folder = work / name.replace(" ", "_")
    if not (folder / "generate").exists():
        engine = open_database(str(folder.with_suffix(".db")), create=True)
        given = {"entry": "decode", "name": "step", "tokenizer": "none", **flags}
        row = write_recording(engine, recorded(spec_from(target, given), executor="compiled"))
        with emission_reader(engine, row.id) as reader:
            emit_to(reader, row, generator("c_program"), folder, {"serve": True})
        built(folder, Build(), target="generate")
    weights = weights or folder / "weights.safetensors"
    size = weights.stat().st_size  # f32 in every case
    return Subject(name, folder, weights, tokens, size // 2 if flags.get("params") == "bf16" else size)


def subjects(work: Path, options: argparse.Namespace) -> list[Subject]:
    """All programs whose name holds what is asked for."""
    found = []
    if options.only in "course GPT":
        torch = _other("torch", options.python, "torch_decoding.py", "{}", "200")
        found.append(replace(subject("course GPT", work, str(COURSE_GPT), 200), rivals=torch))
    for name, shape in SHAPES.items():
        if options.only not in name:
            continue
        config = work / f"{name}.json"
        config.write_text(
            json.dumps({"model_type": "llama", "tie_word_embeddings": True, **dict(zip(KEYS, shape, strict=True))})
        )
        made = subject(name, work, str(config), 128 if shape[0] < 500 else 48)
        shaped = (str(work / "llama_shaped"), *map(str, shape), str(made.tokens))
        found.append(replace(made, rivals=(("llama_shaped", shaped),)))
    for name, more in (("SmolLM2 f32", {}), ("SmolLM2 bf16", {"params": "bf16"})):
        if options.gguf is None or options.only not in name:
            continue
        weights, dims = work / "smollm2" / "model.safetensors", {"T": 512}
        if not weights.exists():
            convert(options.gguf, str(weights.parent))
        cpp = _other("llama.cpp", options.python, "llama_cpp_decoding.py", "{}", "64", options.gguf)
        found.append(replace(subject(name, work, str(weights.parent), 64, weights, dims=dims, **more), rivals=cpp))
    return found


def _other(name: str, python: str, script: str, *arguments: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """A rival in Python, if that Python has it."""
    command = (python, str(HERE / script), *arguments)
    absent = subprocess.run([python, str(HERE / script)], capture_output=True, check=False).returncode
    if absent:
        print(f"{name} is not there for {python}", file=sys.stderr)
    return () if absent else ((name, command),)


def said(command: Sequence[object], threads: int, stream: str = "stdout") -> str:
    """What a program prints."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run([str(c) for c in command], env=environment, capture_output=True, text=True, check=True)
    return done.stdout if stream == "stdout" else done.stderr


def measure(s: Subject, threads: int, limits: Path) -> None:
    """One round: a turn of each."""
    read = limits_from(said([limits], threads)).bytes
    s.seen.setdefault(("bound", threads), []).append(read / s.bytes)
    asked = ("--ids", "1", "-n", s.tokens, "-t", 0, "--json", "--time")
    text = said([s.folder / "generate", "-w", s.weights, *asked], threads, "stderr")
    s.seen.setdefault(("presk", threads), []).append(float(re.findall(r"([\d.]+) a second", text)[-1]))
    for name, command in s.rivals:
        rate = float(said([c.format(threads) for c in command], threads).split()[-1])
        s.seen.setdefault((name, threads), []).append(rate)


def line(s: Subject, threads: int) -> str:
    """The medians, and what share of the bound and how many times a rival presk was, round by round."""
    rates = {kind: r for (kind, t), r in s.seen.items() if t == threads}
    parts = [f"{s.name}, {threads} threads: {median(rates['presk']):.1f} tokens/s"]
    for kind, found in rates.items():
        if kind != "presk":
            ratio = median(a / b for a, b in zip(rates["presk"], found, strict=True))
            parts.append(f"{kind} {median(found):.1f} (x {ratio:.2f})")
    return ", ".join(parts)


def main() -> None:
    """Prints a line for each program and number of threads."""
    parser = argparse.ArgumentParser(description="Tokens a second of emitted steps.")
    parser.add_argument("--gguf", help="SmolLM2's GGUF file")
    parser.add_argument("--python", default=sys.executable, help="a Python that may have torch and llama_cpp")
    parser.add_argument("--work", type=Path, help="a folder that keeps what is built")
    parser.add_argument("--build", action="store_true", help="measure nothing")
    parser.add_argument("--only", default="", help="a part of the names of what is measured")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = options.work or Path(name)
        work.mkdir(exist_ok=True)
        rival = work / "llama_shaped"
        if not rival.exists():
            flags = ["-Ofast", "-march=native", "-fopenmp"]
            subprocess.run(["cc", *flags, HERE / "llama_shaped.c", "-o", rival, "-lm"], check=True)
        limits = work / "limits" if (work / "limits").exists() else limits_program(work, Settings())
        measured = subjects(work, options)
        for _ in range(0 if options.build else options.rounds):
            for threads in options.threads:
                for s in measured:
                    measure(s, threads, limits)
        for s in measured:
            for threads in sorted({t for _, t in s.seen}):
                print(line(s, threads))


if __name__ == "__main__":
    main()
