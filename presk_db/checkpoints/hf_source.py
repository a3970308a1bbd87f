"""hf_source_from_gguf: a GGUF file's tensors under Hugging Face's names and in its layouts, as a TensorSource."""

from presk_db.checkpoints.gguf import GgufFile
from presk_db.checkpoints.hf_config import architecture_of, head_counts
from presk_db.checkpoints.hf_names import HfTensor, Layout, hf_shape, hf_tensor, hf_values
from presk_db.checkpoints.mapped import PathLike
from presk_db.checkpoints.source import Array, TensorInfo, TensorSource
from presk_db.errors import ConfigFieldUnknown, TensorMissing, TensorShapeBad, TensorUnexpected


class HfGguf:
    """A TensorSource over a GgufFile whose names and shapes are Hugging Face's."""

    def __init__(self, file: GgufFile) -> None:
        """Maps every tensor of the file.

        Errors: ModelUnknown (E1004), ConfigFieldUnknown (E1005) for rope factors, ConfigValueBad (E1006),
        TensorUnexpected (E1105), TensorShapeBad (E1106).
        """
        self.gguf = file
        architecture = architecture_of(file)
        heads, kv_heads = head_counts(file)
        self._tensors: dict[str, HfTensor] = {}
        for gguf_name in file.names():
            tensor = hf_tensor(architecture, gguf_name, heads, kv_heads)
            place = f"{file.file.shown} tensor {gguf_name}"
            if tensor is None and "rope_f" in gguf_name:
                raise ConfigFieldUnknown("scales the rotary frequencies, which presk does not read", place)
            if tensor is None:
                raise TensorUnexpected(f"the architecture {architecture} has no such tensor", place)
            _check_shape(file.info(gguf_name), tensor, place)
            self._tensors[tensor.name] = tensor

    def names(self) -> list[str]:
        """All Hugging Face names, sorted."""
        return sorted(self._tensors)

    def info(self, name: str) -> TensorInfo:
        """The storage type in the GGUF file, the shape in Hugging Face. Errors: TensorMissing (E1104)."""
        tensor = self._tensor(name)
        stored = self.gguf.info(tensor.gguf_name)
        return TensorInfo(name, stored.dtype, hf_shape(stored.shape, tensor.layout))

    def read(self, name: str) -> Array:
        """The exact values, as GgufFile reads them, in Hugging Face's layout."""
        tensor = self._tensor(name)
        return hf_values(self.gguf.read(tensor.gguf_name), tensor.layout, tensor.heads)

    def digest(self) -> str:
        """The SHA-256 of the GGUF file."""
        return self.gguf.digest()

    def describe(self) -> str:
        """The GGUF file's description."""
        return self.gguf.describe()

    def _tensor(self, name: str) -> HfTensor:
        if name not in self._tensors:
            raise TensorMissing(f"there is no tensor {name}", self.gguf.file.shown)
        return self._tensors[name]


def hf_source_from_gguf(file: GgufFile | PathLike) -> TensorSource:
    """The tensors of a GGUF file, named and laid out as in Hugging Face. Errors: those of GgufFile and HfGguf."""
    return HfGguf(file if isinstance(file, GgufFile) else GgufFile(file))


def _check_shape(info: TensorInfo, tensor: HfTensor, place: str) -> None:
    """A tensor that is transposed is a matrix; one whose rows are reordered has whole pairs for each head."""
    if tensor.layout is Layout.TRANSPOSED and len(info.shape) != 2:
        raise TensorShapeBad(f"has shape {list(info.shape)}; a matrix is expected", place)
    if tensor.layout is Layout.ROTARY_HALVES and info.shape[0] % (2 * tensor.heads):
        raise TensorShapeBad(f"has {info.shape[0]} rows; {tensor.heads} heads of an even size are expected", place)
