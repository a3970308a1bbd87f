"""GgufFile: a TensorSource over one GGUF file, with its metadata; names and layouts are the file's own."""

import numpy as np

from presk_db.checkpoints.ggml_types import GGML_TYPES, dequantized
from presk_db.checkpoints.gguf_header import GgufTensor, MetadataValue, gguf_header
from presk_db.checkpoints.mapped import MappedFile, PathLike
from presk_db.checkpoints.safetensors import exact_values
from presk_db.checkpoints.source import Array, TensorInfo
from presk_db.errors import TensorMissing, TensorTypeBad


class GgufFile:
    """A TensorSource over a GGUF file; `metadata` and `version` are what its header says."""

    def __init__(self, path: PathLike) -> None:
        """Maps the file and checks its header. Errors: CheckpointUnreadable (E1101), GgufMalformed (E1103)."""
        self.file = MappedFile(path)
        header = gguf_header(self.file)
        self.version: int = header.version
        self.metadata: dict[str, MetadataValue] = header.metadata
        self._tensors = header.tensors
        self._digest: str | None = None

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._tensors)

    def info(self, name: str) -> TensorInfo:
        """The tensor's storage type and row-major shape: the file's dimensions reversed. Errors: TensorMissing."""
        return self._tensor(name).info

    def read(self, name: str) -> Array:
        """The exact reals: float32, float64 (F64, Q4_1, Q5_1, Q2_K, Q4_K, Q5_K) or int64.

        Errors: TensorMissing (E1104), TensorTypeBad (E1107).
        """
        tensor = self._tensor(name)
        kind, info = tensor.kind, tensor.info
        place = f"{self.file.shown} tensor {name}"
        if kind.values is not None:
            blocks = self.file.data[tensor.begin : tensor.end].reshape(-1, kind.bytes)
            return dequantized(blocks, kind).reshape(info.shape)
        if not kind.storage:
            readable = ", ".join(kind.name for kind in GGML_TYPES.values() if kind.storage or kind.values)
            raise TensorTypeBad(f"has type {kind.name}; presk reads {readable}", place)
        stored = self.file.values(tensor.begin, info.elements, np.dtype(kind.storage))
        return exact_values(stored.reshape(info.shape), kind.name, place)

    def digest(self) -> str:
        """The SHA-256 of the file."""
        if self._digest is None:
            self._digest = self.file.digest()
        return self._digest

    def describe(self) -> str:
        """The path, the format and the number of tensors."""
        return f"{self.file.shown} (GGUF version {self.version}, {len(self._tensors)} tensors)"

    def _tensor(self, name: str) -> GgufTensor:
        if name not in self._tensors:
            raise TensorMissing(f"there is no tensor {name}", self.file.shown)
        return self._tensors[name]
