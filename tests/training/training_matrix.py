"""Every entry, type and family of model: the program's bytes are the native run's.

    python -m tests.training.training_matrix [NAME ...]

A case is an entry of a family's config in a type, structured and straight-line, with OpenMP on one, two and three
threads and without OpenMP; a step of training is repeated three times. The names given choose families. Takes half an
hour on two cores. `test_training_program.py` runs QUICK, in which each entry, type and family is.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from presk_db.conformance.check import checked
from presk_db.conformance.program import Build
from presk_db.specs.record import recorded
from presk_db.store.engine import open_database
from presk_db.store.ingest import write_recording
from tests.training.training_cases import CONFIGS, spec_of

ENTRIES = ("loss", "loss_grad", "train_step", "train_step_sgd")
TYPES = ("f64", "f32", "bf16", "mixed")
STEPS = 3


@dataclass(frozen=True)
class MatrixCase:
    """An entry of one of CONFIGS in a type."""

    config: str
    entry: str
    type: str
    flags: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.config} {self.entry} {self.type}" + "".join(f" {k}={v}" for k, v in self.flags.items())


QUICK = (
    MatrixCase("gpt2", "train_step", "f64"),
    MatrixCase("gpt2-tied", "loss_grad", "bf16"),
    MatrixCase("gpt2", "train_step", "mixed", {"remat": True, "dims": {"M": 2, "B": 2, "T": 5}}),
    MatrixCase("llama", "train_step", "f32", {"dims": {"B": 3}}),
    MatrixCase("llama-biases", "train_step_sgd", "bf16", {"remat": True}),
    MatrixCase("qwen2", "loss", "mixed"),
    MatrixCase("qwen3", "loss_grad", "f32"),
    MatrixCase("mistral", "train_step_sgd", "f64"),
)


def all_cases(configs: Sequence[str]) -> Iterator[MatrixCase]:
    """The cases of these configs; of each, one entry also computes its layers again, over micro-batches."""
    for config in configs:
        for type_ in TYPES:
            for entry in ENTRIES:
                yield MatrixCase(config, entry, type_)
            yield MatrixCase(config, "train_step", type_, {"remat": True, "dims": {"M": 2, "B": 2, "T": 3}})


def check_case(case: MatrixCase, folder: Path, flags: str = "-O1", quick: bool = False, compiler: str = "cc") -> int:
    """How often the program ran and gave the native run's bytes. Raises where one differs (E7003).

    `quick` builds the structured program with OpenMP and the straight-line one without, instead of both with both.
    """
    engine = open_database(str(folder / "presk.db"), create=True)
    recording = write_recording(
        engine, recorded(spec_of(folder, case.config, case.entry, type=case.type, **case.flags))
    )
    steps = STEPS if case.entry.startswith("train_step") else None
    runs = 0
    for openmp, threads in ((True, (1, 2, 3)), (False, (None,))):
        build, forms = Build(compiler, flags, openmp), ((not openmp,) if quick else (False, True))
        results = checked(engine, recording, [build], straight_line=forms, threads=threads, steps=steps)
        assert len(results) == len(forms) * len(threads) and all(r.bytes > 60 for r in results)
        runs += len(results)
    engine.dispose()
    return runs


def main(names: Sequence[str]) -> int:
    """Prints a line a case."""
    for number, case in enumerate(all_cases(names or list(CONFIGS)), 1):
        with tempfile.TemporaryDirectory(prefix="presk-training-") as folder:
            print(f"{number:4} {case}: {check_case(case, Path(folder))} runs equal", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
