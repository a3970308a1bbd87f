"""emitted_programs: the programs that every target of the portability matrix builds and runs, made by presk itself."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from presk_db.checkpoints.safetensors_write import write_safetensors
from presk_db.conformance.generate import Generator, Request
from presk_db.draw import drawn_input
from presk_db.emit.emission import emit_to
from presk_db.emit.generator import generator
from presk_db.native.sampling import Sampling
from presk_db.recording.events import Recording
from presk_db.resources import resource_folder
from presk_db.specs.record import recorded
from presk_db.specs.spec import spec_from
from presk_db.store.emission import emission_reader
from presk_db.store.engine import open_database
from presk_db.store.ingest import write_recording

GPT: dict[str, Any] = {
    "model_type": "gpt2", "activation_function": "gelu_new", "n_embd": 64, "n_head": 2, "n_layer": 2,
    "n_positions": 16, "vocab_size": 65, "tie_word_embeddings": False,
}  # fmt: skip
"""The course GPT, narrow and of two layers."""

SMOLLM2: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 576, "num_hidden_layers": 2, "num_attention_heads": 9,
    "num_key_value_heads": 3, "intermediate_size": 1536, "vocab_size": 256, "max_position_embeddings": 64,
    "rope_theta": 100000.0, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
}  # fmt: skip
"""SmolLM2-135M's first two layers at their real widths, with a small vocabulary."""

STEP: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 176, "vocab_size": 96, "max_position_embeddings": 32,
    "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "initializer_range": 0.5,
}  # fmt: skip
"""A small model of SmolLM2's form, whose weights are so far apart that its texts are not the likeliest tokens alone."""

INPUT_TENSORS = {"x": (48,), "a": (2, 3, 70), "s": (9, 4)}
"""The real inputs of the entry with every primitive, and its state."""

_LARGEST = {"f32": float(np.finfo(np.float32).max), "f64": float(np.finfo(np.float64).max)}
SPECIALS = (
    0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -2.0, 0.2691408770272292, 0.1,
    2.0**-149, -(2.0**-149), 3 * 2.0**-149, 2.0**-126, 2.0**-126 - 2.0**-149, -(2.0**-127),
    5e-324, -5e-324, 2.0**-1022, 2.0**-1022 - 5e-324, _LARGEST["f32"], -_LARGEST["f32"], _LARGEST["f64"],
    88.7, -103.9, 709.7, -745.1, 2.0**-12, 2.0**-30, 1.0 + 2.0**-23, 1.0 + 2.0**-8, 3.0**20, -17.25,
)  # fmt: skip
"""Numbers at the ends of the formats and of the functions' domains."""


@dataclass(frozen=True)
class Recipe:
    """What `presk record` is asked for: a config or a Python file under fixtures/, dimensions, a type and an entry.

    `special` says that the inputs are those for the entry with every primitive; `generates`, that the program is
    `generate` of the entry `decode`, whose output is the documents of texts.
    """

    name: str
    model: Mapping[str, Any] | str
    dims: Mapping[str, int]
    type: str
    entry: str = "forward"
    special: bool = False
    generates: bool = False


TEXTS = tuple(
    Request(None, (1, 2, 3), 24, seed, how)
    for seed, how in ((1, Sampling(0.0)), (7, Sampling(0.8)), (2**64 - 1, Sampling(1.3, 40, 0.9, 0.01, 1.2)))
)
"""What a program that generates is asked for, and the native executor: the likeliest tokens, and sampled texts."""

RECIPES = (
    *(Recipe(f"gpt_{t}", GPT, {"B": 1, "T": 16}, t) for t in ("f64", "f32", "bf16")),
    *(Recipe(f"smollm2_{t}", SMOLLM2, {"B": 1, "T": 8}, t) for t in ("f32", "bf16")),
    *(Recipe(f"primitives_{t}", "portability/primitives.py", {}, t, special=True) for t in ("f64", "f32", "bf16")),
    *(Recipe(f"text_{t}", STEP, {}, t, "decode", generates=True) for t in ("f32", "bf16")),
    *(Recipe(f"draw_{t}", STEP, {"B": 4}, t, "next_token") for t in ("f32", "bf16")),
)
"""The matrix's programs, in the order of its columns."""


@dataclass(frozen=True)
class Program:
    """An emitted program in `folder`, and the SHA-256 of what the native run wrote: a file, or the documents of texts."""

    name: str
    folder: Path
    digest: str
    generates: bool = False

    @property
    def units(self) -> tuple[str, ...]:
        """The C files that are the program's own."""
        return ("generate.c" if self.generates else "main.c", "model.c", "kernels.c")

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """Command lines without the output: one with files that the emission holds, or one for each text."""
        weights = self.folder / "weights.safetensors"
        given = ("-w", str(weights)) if weights.exists() else ()
        if self.generates:
            return tuple((*text_arguments(text), *given) for text in TEXTS)
        return (("-i", str(self.folder / "conformance/inputs.safetensors"), *given),)


def text_arguments(request: Request) -> tuple[str, ...]:
    """The command line that asks `generate` for a text from token ids, as its document."""
    how = request.sampling
    asked = {
        "--ids": " ".join(map(str, request.ids or ())), "-n": request.most, "-s": request.seed,
        "-t": how.temperature, "--top-k": how.top_k, "--top-p": how.top_p, "--min-p": how.min_p,
        "--repeat-penalty": how.penalty,
    }  # fmt: skip
    return (*(str(word) for pair in asked.items() for word in pair), "--json")


def special_inputs(seed: int) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Inputs for the entry with every primitive: SPECIALS, then numbers drawn from the seed, and a few among a's."""
    tensors = {name: drawn_input(seed, name, shape, None).astype(np.float64) for name, shape in INPUT_TENSORS.items()}
    tensors["x"][: len(SPECIALS)] = SPECIALS
    tensors["a"][1, 2, :7] = (0.0, -0.0, 2.0**-149, 5e-324, 2.0**-126, -(2.0**-130), 1e-40)
    return tensors


def emitted_programs(folder: Path, recipes: Sequence[Recipe] = RECIPES) -> list[Program]:
    """Records and emits each recipe below `folder`. Raises what the layers raise."""
    engine = open_database(str(folder / "presk.db"), create=True)
    programs = []
    for recipe in recipes:
        stored = write_recording(engine, recorded_recipe(recipe, folder))
        out = folder / recipe.name
        with emission_reader(engine, stored.id) as reader:
            emit_to(reader, stored, generator("c_program"), out, {"serve": recipe.generates})
        if recipe.generates:
            native = Generator(engine, stored)
            digest = text_digest("".join(f"{native.generated(text).document()}\n" for text in TEXTS))
        else:
            digest = file_digest(out / "conformance/outputs.safetensors")
        programs.append(Program(recipe.name, out, digest, recipe.generates))
    engine.dispose()
    return programs


def recorded_recipe(recipe: Recipe, folder: Path) -> Recording:
    """The recipe's native run; its config or inputs are written below `folder`."""
    target, flags = _spec(recipe, folder)
    return recorded(spec_from(target, flags))


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def text_digest(text: str) -> str:
    """SHA-256 of a text's UTF-8, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def _spec(recipe: Recipe, folder: Path) -> tuple[str, dict[str, Any]]:
    flags: dict[str, Any] = {"type": recipe.type, "dims": recipe.dims, "name": recipe.name, "weights": "seed:1"}
    if isinstance(recipe.model, str) and not recipe.special:
        return f"{resource_folder('fixtures') / recipe.model}:forward", flags
    if isinstance(recipe.model, str):
        inputs = folder / f"{recipe.name}.inputs.safetensors"
        tokens = drawn_input(1, "i", (5, 4), 70)
        write_safetensors(inputs, {**special_inputs(1), "i": tokens, "at": np.array(2)})
        return f"{resource_folder('fixtures') / recipe.model}:forward", {**flags, "inputs": str(inputs)}
    config = folder / f"{recipe.name}.json"
    config.write_text(json.dumps(recipe.model), encoding="utf-8")
    return str(config), {**flags, "entry": recipe.entry}
