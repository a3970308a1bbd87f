"""divergence: the first launch of a program's run that wrote something else than the recording's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from presk_db.conformance.hashes import Found, Hashes, read_hashes
from presk_db.emit.emission import kernel_names
from presk_db.emit.generator import generator
from presk_db.emit.names import c_name
from presk_db.errors import HashesBad
from presk_db.store.emission import emission_reader
from presk_db.store.engine import Engine
from presk_db.store.hashes import LaunchPlace, WrittenArray, launches_by_operation, written_arrays_of
from presk_db.store.recordings import StoredRecording


@dataclass(frozen=True)
class Divergence:
    """The first launch that differs: how, in which array (None: in none of its own), and where it stands."""

    operation: int
    what: str
    array: WrittenArray | None
    found: str
    recorded: str
    place: LaunchPlace
    kernel: str

    @property
    def line(self) -> str:
        """All of it in one line."""
        p = self.place
        return f"operation {self.operation}: {self.kernel} in {p.function} at {p.source}: {self.what}"

    def text(self) -> str:
        """A line for each thing that there is to know."""
        p, a = self.place, self.array
        rows = [
            ("launch", f"{self.operation}, {p.label}" + (f", writes {a.shape} of {a.buffer}" if a else "")),
            ("kernel", f"{self.kernel}, {p.kernel_digest}"),
            ("function", f"{p.function}, called as {p.path}"),
            ("line", p.source),
            ("found", self.found),
            ("recorded", self.recorded),
        ]
        return "\n".join([f"the first launch that differs: {self.what}", *(f"  {n:<9} {v}" for n, v in rows)])


def divergence(engine: Engine, recording: StoredRecording, path: str) -> Divergence | None:
    """Compares the run whose hashes lie at `path` with the recording; None where every launch wrote the same.

    Raises HashesBad (E7007) where the file is no such file or of another recording, or the recording has no hashes.
    """
    hashes = read_hashes(path)
    if hashes.recording != recording.digest:
        raise HashesBad(f"these are hashes of {hashes.recording[:16]}, not of {recording.digest[:16]}", path)
    with emission_reader(engine, recording.id) as reader:
        arrays = written_arrays_of(reader.connection, recording.id)
        if any(a.hash is None for a in arrays):
            raise HashesBad("the recording has no hashes: an older presk made it; record it again", recording.name)
        launches = launches_by_operation(reader.connection, recording.id)
        names = kernel_names(reader, recording, generator("c_program"))
    found = _first(hashes, arrays, names, f"{c_name(recording.name)}_")
    if found is None:
        return None
    operation, what, array, seen, right = found
    place = launches[operation]
    return Divergence(operation, what, array, seen, right, place, names[place.kernel_id])


_Difference = tuple[int, str, WrittenArray | None, str, str]


def _first(hashes: Hashes, arrays: Sequence[WrittenArray], names: Mapping[int, str], prefix: str) -> _Difference | None:
    """The first difference; `names` are the kernels' in C, before which a program writes `prefix`."""
    last = -1
    for operation, group in groupby(arrays, key=lambda a: a.operation):
        last, wanted = operation, list(group)
        found = hashes.written.get(operation, ())
        if not found or (hashes.operations is None and len(found) < len(wanted)):
            return operation, "the run ended before it was done", None, "nothing", f"{len(wanted)} arrays written"
        ran, kernel = found[0].kernel.removeprefix(prefix), names[wanted[0].kernel_id]
        if ran != kernel:
            return operation, f"{ran} ran in its place", None, ran, kernel
        if len(found) != len(wanted):
            return operation, "it wrote other arrays", None, f"{len(found)} arrays", f"{len(wanted)} arrays"
        for array, seen in zip(wanted, found, strict=True):
            difference = _difference(array, seen, hashes.straight_line)
            if difference is not None:
                return operation, difference, array, _shown(seen), _right(array, hashes.straight_line)
        if operation in hashes.strays:
            return operation, "it changed a byte outside what it writes", None, hashes.strays[operation], "unchanged"
    more = [n for n in hashes.written if n > last]
    if more or hashes.operations is None:
        what = "the run has launches behind the last" if more else "the run ended behind it"
        return last, what, None, f"{len(more)} more", "the end"
    return None


def _difference(array: WrittenArray, found: Found, straight_line: bool) -> str | None:
    place = array.straight_line if straight_line else array.structured
    if array.elements and found.place != place:
        return "it wrote to another place"
    return None if found.hash == array.hash else "it wrote other values"


def _shown(found: Found) -> str:
    return f"{found.hash:016x} at {found.place}"


def _right(array: WrittenArray, straight_line: bool) -> str:
    return f"{array.hash:016x} at {array.straight_line if straight_line else array.structured}"
