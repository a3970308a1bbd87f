"""PreskError and every error code, one class a code.

An error is one line: a code, a place (spec key, source line, file and byte) and what to do. The command line prints
it and exits with status 1. Blocks: E1 spec, checkpoints and language, E2 kernels, E3 realizations and plans,
E4 native runs, E5 the store, E6 generators, E7 conformance and archives, E8 refusals to export.
"""

from typing import ClassVar


class PreskError(Exception):
    """The base of all errors that presk raises on purpose: `code`, `message`, `place`."""

    code: ClassVar[str] = "E0000"

    def __init__(self, message: str, place: str | None = None) -> None:
        self.message = " ".join(message.split())
        self.place = place
        super().__init__(message)

    def __str__(self) -> str:
        return f"{self.code} {self.place}: {self.message}" if self.place else f"{self.code} {self.message}"


class CommandLineBad(PreskError):
    """A command was not called as it can be: an unknown option, or an argument too few."""

    code = "E1000"


# --- E10 the spec -----------------------------------------------------------------------------------------------


class SpecUnreadable(PreskError):
    """The spec, or a file that it names, cannot be read or parsed."""

    code = "E1001"


class SpecKeyUnknown(PreskError):
    """A key of the spec is not known."""

    code = "E1002"


class SpecValueBad(PreskError):
    """A value of the spec has the wrong type or range."""

    code = "E1003"


class ModelUnknown(PreskError):
    """The model's family or entry is not known."""

    code = "E1004"


class ConfigFieldUnknown(PreskError):
    """A field of config.json that would change the result is not understood."""

    code = "E1005"


class ConfigValueBad(PreskError):
    """A field of config.json is missing or has a bad value."""

    code = "E1006"


class DimensionBad(PreskError):
    """A dimension is missing, unknown, or outside what the model allows."""

    code = "E1007"


# --- E11 checkpoints --------------------------------------------------------------------------------------------


class CheckpointUnreadable(PreskError):
    """A checkpoint file is missing or cannot be read."""

    code = "E1101"


class SafetensorsMalformed(PreskError):
    """A safetensors file breaks the format."""

    code = "E1102"


class GgufMalformed(PreskError):
    """A GGUF file breaks the format."""

    code = "E1103"


class TensorMissing(PreskError):
    """A tensor that the model needs is not in the checkpoint."""

    code = "E1104"


class TensorUnexpected(PreskError):
    """The checkpoint holds a tensor that the model does not know."""

    code = "E1105"


class TensorShapeBad(PreskError):
    """A tensor of the checkpoint has another shape than the model's."""

    code = "E1106"


class TensorTypeBad(PreskError):
    """A tensor of the checkpoint has a type that presk does not read."""

    code = "E1107"


class OutputUnwritable(PreskError):
    """A file or folder cannot be written: it exists, or the disk is full, or it is not permitted."""

    code = "E1108"


class TokenizerBad(PreskError):
    """A tokenizer is malformed, has a part that presk does not know, or is not the model's."""

    code = "E1109"


# --- E12 the language -------------------------------------------------------------------------------------------


class ShapeBad(PreskError):
    """Operands of a primitive do not fit together."""

    code = "E1201"


class KindBad(PreskError):
    """An operand has the wrong kind: real, integer or truth value."""

    code = "E1202"


class EntryBad(PreskError):
    """A user's entry cannot be loaded or traced."""

    code = "E1203"


class InputOutOfRange(PreskError):
    """An integer input, such as a token, is outside its range."""

    code = "E1204"


class InputBad(PreskError):
    """An input is missing, unknown, or has the wrong shape or type."""

    code = "E1205"


class GraphTextBad(PreskError):
    """A graph's text does not parse."""

    code = "E1206"


# --- E2 kernels -------------------------------------------------------------------------------------------------


class KernelTextBad(PreskError):
    """A kernel's text does not parse."""

    code = "E2001"


class KernelNameBad(PreskError):
    """A kernel uses a name before its definition, outside its scope, or defines it twice."""

    code = "E2002"


class KernelTypeBad(PreskError):
    """An operand of a kernel's statement has the wrong type."""

    code = "E2003"


class KernelBoundsBad(PreskError):
    """An access of a kernel can leave its array."""

    code = "E2004"


class KernelLoopBad(PreskError):
    """Loops of a kernel are not nested properly, or a fold stands outside its reduction."""

    code = "E2005"


class KernelAliasBad(PreskError):
    """A kernel reads an output, or a launch gives one memory to an output and to another argument."""

    code = "E2006"


# --- E3 realizations and plans ----------------------------------------------------------------------------------


class RealizationUnreadable(PreskError):
    """A realization file cannot be read or has an unknown key."""

    code = "E3001"


class SiteUnknown(PreskError):
    """A pattern of the realization names no site."""

    code = "E3002"


class TypeUnknown(PreskError):
    """A type's name is not known."""

    code = "E3003"


class ScheduleIllegal(PreskError):
    """A schedule would change the order of an element's operations, or does not fit its kernel."""

    code = "E3004"


class PlanBad(PreskError):
    """A plan file cannot be read, is no plan, or has a schedule that does not fit its kernel."""

    code = "E3005"


class PlanMissing(PreskError):
    """No kernel of the recording was measured, so that there is no plan."""

    code = "E3006"


# --- E4 native runs ---------------------------------------------------------------------------------------------


class FloatEnvironmentBad(PreskError):
    """This process flushes subnormals or does not round to nearest."""

    code = "E4001"


class CompilerFailed(PreskError):
    """The C compiler is missing or refused a kernel."""

    code = "E4002"


class MemoryShort(PreskError):
    """The spec needs more memory than this machine has."""

    code = "E4003"


# --- E5 the store -----------------------------------------------------------------------------------------------


class DatabaseUnreadable(PreskError):
    """The database cannot be opened, or is no presk database."""

    code = "E5001"


class SchemaVersionOther(PreskError):
    """The database has another schema version than this presk."""

    code = "E5002"


class RecordingUnknown(PreskError):
    """No recording has this name or digest, or several have."""

    code = "E5003"


class DatabaseWriteFailed(PreskError):
    """A write to the database failed: disk full, locked, or read-only."""

    code = "E5004"


class DatabaseDamaged(PreskError):
    """Rows of the database contradict each other or the schema."""

    code = "E5005"


class QueryBad(PreskError):
    """A query is unknown, malformed, or would do more than read."""

    code = "E5006"


# --- E6 generators ----------------------------------------------------------------------------------------------


class GeneratorBad(PreskError):
    """A generator's folder is unknown or malformed."""

    code = "E6001"


class EmissionUnwritable(PreskError):
    """The output folder exists and is not an emission, or cannot be written."""

    code = "E6002"


# --- E7 conformance and archives --------------------------------------------------------------------------------


class BuildFailed(PreskError):
    """An emitted program does not build."""

    code = "E7001"


class ProgramFailed(PreskError):
    """An emitted program ran and failed."""

    code = "E7002"


class BitsDiffer(PreskError):
    """An emitted program's output is not the native output."""

    code = "E7003"


class WeightsNotFound(PreskError):
    """The weights that a recording refers to are not where they were, or changed."""

    code = "E7004"


class ExactUndecided(PreskError):
    """The exact computation depends on a comparison that its precision cannot decide."""

    code = "E7005"


class ExactUnavailable(PreskError):
    """The exact computation needs the package python-flint."""

    code = "E7006"


class HashesBad(PreskError):
    """A file of hashes cannot be read, or it is not of the recording."""

    code = "E7007"


class ArchiveBad(PreskError):
    """An archive is cut, malformed, too large, or holds what presk does not write."""

    code = "E7008"


class ArchiveChanged(PreskError):
    """A file, kernel, weight, input or output of an archive is not what the archive says it is."""

    code = "E7009"


class ArchiveNewer(PreskError):
    """An archive comes from a newer presk."""

    code = "E7010"


class ProofUnavailable(PreskError):
    """A proof needs the package islpy."""

    code = "E7020"


class ProofRefuted(PreskError):
    """A kernel leaves an array, divides its output wrongly, or reads what it has not written."""

    code = "E7021"


class ScopsDisagree(PreskError):
    """A tool and presk disagree on which nests are static control."""

    code = "E7022"


# --- E8 refusals to export ----------------------------------------------------------------------------------------


class KeyForeign(PreskError):
    """A key that the program does not hold reaches a draw: a Python object, a constant, an input that is no key."""

    code = "E8006"


class LengthOpen(PreskError):
    """A generator of text is asked of a recording that does not fix how long a text may become."""

    code = "E8009"


class ChunksOther(PreskError):
    """The recording for a prompt's chunks is no step of several tokens of the same model, weights and types."""

    code = "E8010"
