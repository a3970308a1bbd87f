"""Archives that are cut, changed, hostile or from the future: one line with an E7 code, and nothing written."""

import gzip
import io
import json
import re
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from archive_files import Archive, flipped, zipped
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pipeline import MLP, Presk, stored

from presk_db.conformance.archive_read import import_archive, opened_archive
from presk_db.conformance.archive_write import write_archive
from presk_db.emit.archive import FORMAT
from presk_db.errors import ArchiveBad, ArchiveChanged, ArchiveNewer, PreskError
from presk_db.store.engine import Engine, open_database, reading
from presk_db.store.tables import SCHEMA_VERSION
from presk_db.ustar import BLOCK, Member, header, read_tar, write_tar

Fails = Callable[..., str]
MUTATIONS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """The archive of a small program, quick to import."""
    folder = tmp_path_factory.mktemp("small")
    engine = open_database(str(folder / "presk.db"), create=True)
    write_archive(engine, stored(engine, str(MLP), dims={"B": 1}), str(folder / "a.tar.gz"))
    return Archive.read(folder / "a.tar.gz")


@pytest.fixture(scope="module")
def database() -> Engine:
    """A database in memory, into which nothing must come."""
    return open_database("sqlite://", create=True)


def refused(path: Path, database: Engine) -> PreskError:
    """The error of importing; the database stays empty and no temporary folder stays behind."""
    with pytest.raises((ArchiveBad, ArchiveChanged, ArchiveNewer)) as caught, opened_archive(str(path)) as opened:
        import_archive(database, opened)
    with reading(database) as connection:
        assert connection.exec_driver_sql("select count(*) from recordings").scalar() == 0
        assert connection.exec_driver_sql("select count(*) from tensor_chunks").scalar() == 0
    assert "\n" not in str(caught.value) and str(caught.value).startswith("E70")
    return caught.value


def member(name: str, data: bytes = b"x", **changes: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in changes.items():
        setattr(info, key, value)
    return info, data


HOSTILE: dict[str, tuple[list[tuple[tarfile.TarInfo, bytes]], str]] = {
    "a name with two dots": ([member("t/../../evil")], "leaves the folder"),
    "an absolute name": ([member("/etc/evil")], "leaves the folder"),
    "a name with a dot": ([member("t/./evil")], "leaves the folder"),
    "a backslash": ([member("t/..\\evil")], "leaves the folder"),
    "a drive": ([member("c:/evil")], "no header"),
    "a symbolic link": ([member("t/a", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd")], "a symbolic link"),
    "a hard link": ([member("t/a", b"", type=tarfile.LNKTYPE, linkname="t/b")], "a hard link"),
    "a device": ([member("t/a", b"", type=tarfile.CHRTYPE)], "a device"),
    "a block device": ([member("t/a", b"", type=tarfile.BLKTYPE)], "a device"),
    "a pipe": ([member("t/a", b"", type=tarfile.FIFOTYPE)], "a pipe"),
    "a folder": ([member("t", b"", type=tarfile.DIRTYPE)], "a folder"),
    "a member twice": ([member("t/a"), member("t/a", b"y")], "there twice"),
    "members out of order": ([member("t/b"), member("t/a")], "not in the order"),
    "two folders": ([member("s/a"), member("t/a")], "lie in one folder"),
    "a file beside the folder": ([member("a")], "lie in one folder"),
    "a file that is a folder": ([member("t/a"), member("t/a/b")], "cannot be unpacked"),
    "somebody's": ([member("t/a", uid=1000)], "no header"),
    "a date": ([member("t/a", mtime=1)], "no header"),
    "permissions": ([member("t/a", mode=0o4755)], "no header"),
    "a name that needs an extension": ([member("t/" + "n" * 200)], "an extended header"),
    "not ASCII": ([member("t/\u00e9")], "an extended header|no header"),
    "nothing": ([], "holds no file"),
    "no manifest": ([member("t/a")], "MANIFEST: it is missing"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_tar(case: str, tmp_path: Path, database: Engine) -> None:
    members, said = HOSTILE[case]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "a.tar.gz").write_bytes(zipped(out.getvalue()))
    error = refused(inside / "a.tar.gz", database)
    assert isinstance(error, ArchiveBad)
    assert re.search(said, str(error)), error
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["a.tar.gz"]


def test_a_bomb(
    small: Archive, tmp_path: Path, database: Engine, monkeypatch: pytest.MonkeyPatch, fails: Fails
) -> None:
    """Headers that claim much, and zeros that unpack to much: refused by what they claim, before they are written."""
    path = small.write(tmp_path / "a.tar.gz")
    assert "--limit allows more" in fails("E7008", "import", path, "--limit", "1000", "--db", tmp_path / "presk.db")
    assert not (tmp_path / "presk.db").exists()
    (tmp_path / "bomb.tar.gz").write_bytes(zipped(header(Member("t/a", 0o644, 8**11 - 1)) + b"\0" * (1 << 20)))
    assert "would unpack to more than" in str(refused(tmp_path / "bomb.tar.gz", database))
    assert fails("E7008", "verify", tmp_path / "bomb.tar.gz")


@pytest.mark.parametrize("size", [0, 1, 100, -1, -9, -100, -5000])
def test_a_cut_file(size: int, small: Archive, tmp_path: Path, database: Engine) -> None:
    data = zipped(small.tar())
    (tmp_path / "a.tar.gz").write_bytes(data[:size])
    assert isinstance(refused(tmp_path / "a.tar.gz", database), ArchiveBad)


@pytest.mark.parametrize("blocks", [1, 2, 3, -1, -2, -19])
def test_a_cut_tar(blocks: int, small: Archive, tmp_path: Path, database: Engine) -> None:
    (tmp_path / "a.tar.gz").write_bytes(zipped(small.tar()[: blocks * BLOCK]))
    assert "it is cut" in str(refused(tmp_path / "a.tar.gz", database))


def test_no_file_and_no_archive(tmp_path: Path, fails: Fails) -> None:
    (tmp_path / "text").write_text("hello")
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"hello"))
    (tmp_path / "more.gz").write_bytes(gzip.compress(b"\0" * 20480))
    for name in ("none", "text", "text.gz", "more.gz", ".", "a\0b"):
        for command in (("verify", tmp_path / name), ("import", tmp_path / name, "--db", tmp_path / "presk.db")):
            fails("E7008", *command)
    assert not (tmp_path / "presk.db").exists()


@MUTATIONS
@given(place=st.integers(0, 2**32 - 1), bits=st.integers(1, 255))
def test_any_changed_byte_of_the_file(small: Archive, tmp_path: Path, database: Engine, place: int, bits: int) -> None:
    """Behind the gzip header, whose time and name are nobody's business, nor how else the same tar can be compressed."""
    bad = bytearray(zipped(small.tar()))
    bad[10 + place % (len(bad) - 10)] ^= bits
    (tmp_path / "a.tar.gz").write_bytes(bytes(bad))
    if unzipped(bytes(bad)) == small.tar():
        with opened_archive(str(tmp_path / "a.tar.gz")):
            return
    refused(tmp_path / "a.tar.gz", database)


def test_the_same_tar_compressed_otherwise(small: Archive, tmp_path: Path) -> None:
    """A copy from one byte further back in a run of zeros: the bytes of the .gz differ, those of the tar do not."""
    good = zipped(small.tar())
    changed = (good[:at] + bytes([good[at] ^ 1 << bit]) + good[at + 1 :] for at in range(-40, -8) for bit in range(8))
    other = next(data for data in changed if unzipped(data) == small.tar())
    (tmp_path / "a.tar.gz").write_bytes(other)
    with opened_archive(str(tmp_path / "a.tar.gz")) as opened:
        assert (opened.folder / "MANIFEST").read_bytes() == small.files["MANIFEST"]


def unzipped(data: bytes) -> bytes | None:
    """What is compressed in it, or None where it is damaged."""
    try:
        return gzip.decompress(data)
    except (EOFError, OSError, zlib.error):
        return None


@MUTATIONS
@given(in_header=st.booleans(), place=st.integers(0, 2**32 - 1), bits=st.integers(1, 255))
def test_any_changed_byte_of_the_tar(
    small: Archive, tmp_path: Path, database: Engine, in_header: bool, place: int, bits: int
) -> None:
    tar = bytearray(small.tar())
    starts = [n for n in range(0, len(tar), BLOCK) if tar[n + 257 : n + 262] == b"ustar"]
    heads = [n + k for n in starts for k in range(BLOCK)]
    tar[heads[place % len(heads)] if in_header else place % len(tar)] ^= bits
    (tmp_path / "a.tar.gz").write_bytes(zipped(bytes(tar)))
    refused(tmp_path / "a.tar.gz", database)


VALUES = (
    st.none()
    | st.integers(-3, 70)
    | st.sampled_from([2**62, -(2**63), 2**80, 1.5, True, [], {}, "", "x", "[2]", "\ud800", "in"])
)


@settings(MUTATIONS, max_examples=40)
@given(st.data())
def test_any_changed_row(small: Archive, tmp_path: Path, database: Engine, data: st.DataObject) -> None:
    """One value of one row, or a row twice or gone, in an archive whose manifest says so.

    A hash of a launch follows from nothing but a run: `presk verify` makes one.
    """
    lines = small.files["recording.txt"].decode().splitlines()
    first = lines.index("table launch_hashes: operation position hash")
    rows = [n for n, line in enumerate(lines) if line.startswith("[")]
    at = data.draw(st.sampled_from([n for n in rows if not first < n <= first + 4]))
    what = data.draw(st.sampled_from(["value", "value", "value", "gone", "twice", "text"]))
    if what == "value":
        row = json.loads(lines[at])
        column = data.draw(st.integers(0, len(row) - 1))
        value = data.draw(VALUES.filter(lambda v: json.dumps(v) != json.dumps(row[column])))
        row[column] = value
        lines[at] = json.dumps(row, separators=(",", ":"))
    elif what == "text":
        lines[at] = data.draw(st.sampled_from(["", "[", "{}", "[1]", "table x: y", "table views: number", "[" * 9999]))
    else:
        lines[at : at + 1] = [] if what == "gone" else [lines[at]] * 2
    changed = small.changed("recording.txt", lambda _: ("\n".join(lines) + "\n").encode()).listed()
    refused(changed.write(tmp_path / "a.tar.gz"), database)


@pytest.mark.parametrize(("name", "tensor"), [("inputs", "pixels"), ("outputs", "probabilities")])
def test_a_changed_tensor(name: str, tensor: str, small: Archive, tmp_path: Path, database: Engine) -> None:
    """With a manifest that says so: the rows have the digest of what was recorded."""
    file = f"program/conformance/{name}.safetensors"
    changed = small.changed(file, flipped(-3)).listed()
    error = refused(changed.write(tmp_path / "a.tar.gz"), database)
    assert f"tensor {tensor}: contents with the recorded digest are missing" in str(error)


def test_a_changed_hash(small: Archive, tmp_path: Path, fails: Fails) -> None:
    """In the rows and in the file of hashes, with a manifest that says so."""
    lines = small.files["recording.txt"].decode().splitlines()
    at = lines.index("table launch_hashes: operation position hash") + 2
    operation, position, value = json.loads(lines[at])
    lines[at] = json.dumps([operation, position, value ^ 1], separators=(",", ":"))
    changed = small.changed("recording.txt", lambda _: ("\n".join(lines) + "\n").encode())
    old, new = (f"{v % 2**64:016x}".encode() for v in (value, value ^ 1))
    changed = changed.changed("hashes", lambda d: d.replace(old, new)).listed()
    line = fails("E7009", "verify", changed.write(tmp_path / "a.tar.gz"), "--cflags=-O0")
    assert f"not a hash: operation {operation}: k_" in line


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"schema": "9999"}, ArchiveNewer),
        ({"format": f"presk archive {FORMAT + 1}"}, ArchiveNewer),
        ({"format": "zip"}, ArchiveBad),
        ({"format": 7}, ArchiveBad),
        ({"name": "a\nb"}, ArchiveBad),
        ({"digest": "0" * 64}, ArchiveBad),
        ({"weights": None}, ArchiveBad),
    ],
)
def test_provenance(
    said: dict[str, Any], error: type[PreskError], small: Archive, tmp_path: Path, database: Engine
) -> None:
    other = json.dumps(json.loads(small.files["PROVENANCE.json"]) | said).encode()
    changed = small.changed("PROVENANCE.json", lambda _: other).listed()
    found = refused(changed.write(tmp_path / "a.tar.gz"), database)
    assert type(found) is error
    if "schema" in said:
        assert f"this one has {SCHEMA_VERSION}: upgrade presk" in str(found)


def test_files_of_another_schema_are_not_made_again(small: Archive, tmp_path: Path, presk: Presk) -> None:
    """And it says why: the same presk wrote them."""
    other = json.dumps(json.loads(small.files["PROVENANCE.json"]) | {"schema": "0001"}).encode()
    path = small.changed("PROVENANCE.json", lambda _: other).listed().write(tmp_path / "a.tar.gz")
    said = presk("verify", path, "--cflags=-O0")
    assert said.status == 0, said.err
    why = f"they come from a database of schema 0001, this presk's is {SCHEMA_VERSION}"
    assert f"the files were not made again: {why}\n" in said.out


TEXTS = [b"", b"{}", b"[]", b"\xff", b"[" * 99999]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
@pytest.mark.parametrize(
    "name", ["PROVENANCE.json", "recording.txt", "PARTS", "program/conformance/outputs.safetensors"]
)
def test_other_files_that_are_nonsense(
    name: str, text: bytes, small: Archive, tmp_path: Path, database: Engine
) -> None:
    changed = small.changed(name, lambda _: text).listed()
    path = changed.write(tmp_path / "a.tar.gz")
    if name == "PARTS":  # an import needs none; verifying finds it
        with opened_archive(str(path)):
            return
    refused(path, database)


def test_a_manifest_that_is_nonsense(small: Archive, tmp_path: Path, database: Engine) -> None:
    for text in (b"\xff", b"x\n", b"", small.files["MANIFEST"] * 2):
        path = small.changed("MANIFEST", lambda _, text=text: text).write(tmp_path / "a.tar.gz")  # type: ignore[misc]
        refused(path, database)


NAMES = st.lists(st.from_regex(r"\A[a-zA-Z0-9_.-]{1,40}\Z"), min_size=1, max_size=5).map("/".join)


@settings(MUTATIONS, max_examples=60)
@given(
    st.dictionaries(NAMES.filter(lambda n: not {".", ".."} & set(n.split("/"))), st.binary(max_size=1500), max_size=6)
)
def test_what_is_written_is_read_back_and_by_others(files: dict[str, bytes]) -> None:
    out = io.BytesIO()
    members = [(Member(n, 0o644, len(d)), io.BytesIO(d)) for n, d in sorted(files.items())]
    write_tar(out.write, members)
    assert len(out.getvalue()) % 10240 == 0
    out.seek(0)
    assert {m.name: b"".join(pieces) for m, pieces in read_tar(out, 10**6)} == files
    out.seek(0)
    with tarfile.open(fileobj=out) as tar:
        assert {m.name: tar.extractfile(m).read() for m in tar} == files  # type: ignore[union-attr]  # files alone
    for m, _ in members:
        info = tarfile.TarInfo(m.name)
        info.size = m.size
        assert info.tobuf(tarfile.USTAR_FORMAT) == header(m)


def test_names_and_sizes_without_room() -> None:
    for bad in (Member("n" * 101, 0o644, 0), Member("a/" + "n" * 101, 0o644, 0), Member("a", 0o644, 8**11)):
        with pytest.raises(ArchiveBad, match=r"E7008 .*no room"):
            header(bad)
