"""archive_folder: everything that an archive of a recording holds, as files in a folder."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from presk_db.emit.emission import emit_to, kernel_names
from presk_db.emit.generator import generator
from presk_db.emit.names import c_name
from presk_db.emit.tensors import write_tensors
from presk_db.resources import presk_version
from presk_db.store.dump import canonical_dump
from presk_db.store.emission import EmissionReader
from presk_db.store.hashes import launches_by_operation, written_arrays_of
from presk_db.store.recordings import StoredRecording
from presk_db.store.tables import SCHEMA_VERSION

FORMAT = 1
"""The number of the archive's layout."""

MANIFEST, PARTS, PROVENANCE, WEIGHTS = "MANIFEST", "PARTS", "PROVENANCE.json", "WEIGHTS"
RECORDING, HASHES, EXACT = "recording.txt", "hashes", "exact_outputs.safetensors"
PROGRAM = "program"
PROGRAM_MANIFEST = f"{PROGRAM}/MANIFEST"
PROGRAM_WEIGHTS = f"{PROGRAM}/weights.safetensors"
INPUTS, OUTPUTS = f"{PROGRAM}/conformance/inputs.safetensors", f"{PROGRAM}/conformance/outputs.safetensors"
BOUNDS = f"{PROGRAM}/conformance/exact.safetensors"
TOKENIZER = f"{PROGRAM}/tokenizer.bin"
KERNELS = f"{PROGRAM}/kernels.c"

_HERE = Path(__file__).resolve().parent


def top_folder(recording: StoredRecording) -> str:
    """The one folder in which an archive's files lie."""
    return f"{c_name(recording.name)}-{recording.digest[:16]}"


def archive_folder(
    reader: EmissionReader,
    recording: StoredRecording,
    folder: Path,
    write_weights: Callable[[Path], None] | None,
    progress: Callable[[str], None] = lambda file: None,
) -> tuple[str, ...]:
    """Writes the archive's files into the empty folder; their names in order.

    `write_weights` writes the recorded weights file, whose bytes depend on its tensors alone; None leaves it out. Weights
    that are drawn from a seed are always there, as `presk emit` writes them.
    """
    emit_to(reader, recording, generator("c_program"), folder / PROGRAM, {}, progress)
    if write_weights is not None:
        write_weights(folder / PROGRAM_WEIGHTS)
    progress(RECORDING)
    _write(folder / RECORDING, "".join(f"{line}\n" for line in canonical_dump(reader.connection, recording.id)))
    hashes = hashes_text(reader, recording)
    if hashes is not None:
        _write(folder / HASHES, hashes)
    if reader.tensors("exact_output"):
        write_tensors(reader, recording, "exact_output", folder / EXACT)
    _write(folder / PROVENANCE, json.dumps(provenance(recording), indent=1, sort_keys=True) + "\n")
    _write(folder / WEIGHTS, f"{recording.weights_kind} {recording.weights_digest or '-'}\n")
    shutil.copyfile(_HERE / "archive_readme.txt", folder / "README.md")
    shutil.copyfile(_HERE / "archive_verify.sh", folder / "verify.sh")
    _write(folder / PARTS, "".join(f"{line}\n" for line in parts_lines(folder)))
    names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    _write(folder / MANIFEST, "".join(f"{digest_of(folder / name)}  {name}\n" for name in names))
    return tuple(sorted([*names, MANIFEST]))


def provenance(recording: StoredRecording) -> dict[str, Any]:
    """What was recorded, and by which presk."""
    return {
        "format": f"presk archive {FORMAT}",
        "presk": presk_version(),
        "schema": SCHEMA_VERSION,
        "name": recording.name,
        "digest": recording.digest,
        "entry": recording.entry,
        "family": recording.family,
        "spec": json.loads(recording.spec),
        "weights": {
            "kind": recording.weights_kind,
            "seed": recording.weights_seed,
            "sha256": recording.weights_digest,
        },
    }


def hashes_text(reader: EmissionReader, recording: StoredRecording) -> str | None:
    """What the program writes under -DPRESK_HASH, each line with the function and the model's line behind it.

    None where the recording has no hashes.
    """
    arrays = written_arrays_of(reader.connection, recording.id)
    if any(a.hash is None for a in arrays):
        return None
    names = kernel_names(reader, recording, generator("c_program"))
    launches = launches_by_operation(reader.connection, recording.id)
    lines = ["presk hashes 1", f"recording {recording.digest} structured"]
    for a in arrays:
        launch, place = launches[a.operation], a.structured if a.elements else "?"
        kernel = f"{c_name(recording.name)}_{names[a.kernel_id]}"
        lines.append(f"{a.operation} {kernel} {a.position} {place} {a.hash:016x} {launch.function} {launch.source}")
    return "".join(f"{line}\n" for line in [*lines, f"end {len(launches)}"])


def parts_lines(folder: Path) -> Iterator[str]:
    """`SHA256 OFFSET BYTES FILE NAME` for each kernel of kernels.c and each tensor of each safetensors file."""
    for path in sorted(folder.rglob("*.safetensors")):
        name = path.relative_to(folder).as_posix()
        for tensor, begin, end in tensor_places(path):
            yield f"{digest_of(path, begin, end - begin)} {begin} {end - begin} {name} tensor {tensor}"
    for kernel, begin, end in kernel_places((folder / KERNELS).read_bytes()):
        yield f"{digest_of(folder / KERNELS, begin, end - begin)} {begin} {end - begin} {KERNELS} kernel {kernel}"


def kernel_places(text: bytes) -> list[tuple[str, int, int]]:
    """(name, first byte, end) of each kernel with the comment above it, in order."""
    starts = [m.start() for m in re.finditer(rb"^/\* Launched ", text, re.MULTILINE)]
    found = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        names = re.findall(rb"^void (\w+)\(", text[start:end], re.MULTILINE)
        found.append((b" ".join(names).decode(), start, end))
    return found


def tensor_places(path: Path) -> list[tuple[str, int, int]]:
    """(name, first byte, end) of each tensor of a file that presk wrote, in order."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    places = [(name, *entry["data_offsets"]) for name, entry in header.items()]
    return [(json.dumps(n)[1:-1], 8 + length + a, 8 + length + b) for n, a, b in sorted(places, key=lambda p: p[1])]


def digest_of(path: Path, offset: int = 0, size: int | None = None) -> str:
    """The SHA-256 of a file, or of some of its bytes."""
    state = hashlib.sha256()
    with path.open("rb") as file:
        file.seek(offset)
        left = size
        while left is None or left > 0:
            piece = file.read(1 << 20 if left is None else min(left, 1 << 20))
            if not piece:
                break
            state.update(piece)
            left = None if left is None else left - len(piece)
    return state.hexdigest()


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
