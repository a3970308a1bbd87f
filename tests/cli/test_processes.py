"""The command as a process: full disks, interrupts, closed pipes, terminals that cannot show a name."""

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pytest
from pipeline import GPT2, MLP, ROOT, config_file

COMMAND = [sys.executable, "-m", "presk_db.cli.main"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def process(
    folder: Path, *arguments: str, before: Callable[[], None] | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        env={**ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        preexec_fn=before,
        check=False,
    )


def limit_files(size: int) -> Callable[[], None]:
    """No file may grow beyond `size` bytes: what a full disk does, without one."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one recording, for the tests to copy."""
    folder = tmp_path_factory.mktemp("recorded")
    assert process(folder, "record", str(MLP), "--name", "first").returncode == 0
    return folder / "presk.db"


@pytest.fixture
def recorded(database: Path, tmp_path: Path) -> Path:
    """A folder with a database of its own."""
    shutil.copyfile(database, tmp_path / "presk.db")
    return tmp_path


def errors(stderr: str) -> list[str]:
    """The lines of stderr, without the stages that a process tells where the machine is slow."""
    return [line for line in stderr.strip().splitlines() if not line.endswith(" …")]


def one_line(done: subprocess.CompletedProcess[str], code: str) -> None:
    assert done.returncode == 1, done
    lines = errors(done.stderr)
    assert len(lines) == 1 and lines[0].startswith(f"presk: error {code} "), done.stderr


def test_a_disk_that_fills_up_while_recording(recorded: Path) -> None:
    size = (recorded / "presk.db").stat().st_size
    one_line(process(recorded, "record", str(MLP), "--dim", "B=900", before=limit_files(size + 8192)), "E5004")
    assert process(recorded, "db", "check").stdout == "presk.db: sound\n"
    assert len(process(recorded, "list").stdout.splitlines()) == 2
    assert [p.name for p in recorded.iterdir()] == ["presk.db"]


def test_a_disk_that_fills_up_while_a_database_is_made(tmp_path: Path) -> None:
    one_line(process(tmp_path, "record", str(MLP), before=limit_files(4096)), "E5004")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_while_emitting(recorded: Path) -> None:
    size = 30000
    one_line(process(recorded, "emit", "first", "-o", "out", before=limit_files(size)), "E6002")
    assert [p.name for p in recorded.iterdir()] == ["presk.db"]
    assert process(recorded, "emit", "first", "-o", "out").returncode == 0
    manifest = (recorded / "out" / "MANIFEST").read_bytes()
    one_line(process(recorded, "emit", "first", "-o", "out", before=limit_files(size)), "E6002")
    assert (recorded / "out" / "MANIFEST").read_bytes() == manifest, "what was there stays"
    assert sorted(p.name for p in recorded.iterdir()) == ["out", "presk.db"]


def test_an_interrupt(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        f"import time, pathlib\n{MLP.read_text()}\npathlib.Path('started').touch()\ntime.sleep(60)\n"
    )
    # A shell starts a process of its background with interrupts ignored, and the child of such a process ignores them.
    command = ["env", "--default-signal=INT", *COMMAND, "record", "slow.py"]
    with subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as child:
        end = monotonic() + 60
        while not (tmp_path / "started").exists() and monotonic() < end:
            sleep(0.02)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 1
    assert errors(err) == ["presk: interrupted"]
    assert not (tmp_path / "presk.db").exists()


def test_a_full_standard_output(recorded: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "list"],
            cwd=recorded,
            env=ENVIRONMENT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    one_line(done, "E1108")


def test_a_reader_that_leaves(recorded: Path) -> None:
    line = f"'{sys.executable}' -m presk_db.cli.main show kernels first | head -n 1"
    done = subprocess.run(
        ["sh", "-c", line], cwd=recorded, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


def test_a_name_that_the_terminal_cannot_show(recorded: Path) -> None:
    done = process(recorded, "record", str(MLP), "--name", "模型", PYTHONIOENCODING="ascii")
    assert (done.returncode, errors(done.stderr)) == (0, [])
    assert "模型" in done.stdout


def test_emitting_from_a_copy_without_spec_and_weights(tmp_path: Path) -> None:
    """The database alone is enough: another folder, read-only, the config deleted."""
    config = config_file(tmp_path / "there", GPT2)
    assert process(tmp_path / "there", "record", "config.json", "--name", "g").returncode == 0
    assert process(tmp_path / "there", "emit", "g", "-o", "../one").returncode == 0
    Path(config).unlink()
    (tmp_path / "here").mkdir()
    (tmp_path / "there" / "presk.db").rename(tmp_path / "here" / "moved.db")
    url = f"sqlite:///file:{tmp_path / 'here' / 'moved.db'}?mode=ro&immutable=1&uri=true"
    assert process(tmp_path / "here", "emit", "g", "-o", "../two", "--db", url).returncode == 0
    one, two = tmp_path / "one", tmp_path / "two"
    names = sorted(p.relative_to(one) for p in one.rglob("*") if p.is_file())
    assert names == sorted(p.relative_to(two) for p in two.rglob("*") if p.is_file())
    assert all((one / n).read_bytes() == (two / n).read_bytes() for n in names)


def test_a_disk_that_fills_up_while_an_archive_is_written_or_read(
    recorded: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In the middle of the files, of the tar, and of the database: nothing is there afterwards, or what was before."""
    temporary = tmp_path_factory.mktemp("temporary")
    here = {"TMPDIR": str(temporary)}
    one_line(process(recorded, "archive", "first", "-o", "a.tar.gz", before=limit_files(20000), **here), "E6002")
    assert process(recorded, "archive", "first", "-o", "a.tar.gz", **here).returncode == 0
    whole = (recorded / "a.tar.gz").read_bytes()
    largest = 60000
    assert len(whole) > largest
    one_line(process(recorded, "archive", "first", "-o", "a.tar.gz", before=limit_files(largest), **here), "E1108")
    assert (recorded / "a.tar.gz").read_bytes() == whole
    one_line(process(recorded, "import", "a.tar.gz", "--db", "new.db", before=limit_files(20000), **here), "E1108")
    one_line(process(recorded, "import", "a.tar.gz", "--db", "new.db", before=limit_files(100000), **here), "E5004")
    size = (recorded / "presk.db").stat().st_size
    one_line(process(recorded, "import", "a.tar.gz", before=limit_files(size), **here), "E5004")
    assert process(recorded, "db", "check").stdout == "presk.db: sound\n"
    assert len(process(recorded, "list").stdout.splitlines()) == 2
    assert sorted(p.name for p in recorded.iterdir()) == ["a.tar.gz", "presk.db"]
    assert list(temporary.iterdir()) == []


def test_a_database_that_another_process_writes_to(recorded: Path) -> None:
    """The writer waits five seconds and then says so; a reader, and the other process, do not notice."""
    assert process(recorded, "archive", "first", "-o", "a.tar.gz").returncode == 0
    holder = sqlite3.connect(recorded / "presk.db", isolation_level=None)
    holder.execute("begin immediate")
    holder.execute("update recordings set name = 'second'")
    for command in (("record", str(MLP)), ("import", "a.tar.gz")):
        done = process(recorded, *command)
        assert "is locked by another process" in done.stderr
        one_line(done, "E5004")
    assert "first" in process(recorded, "list").stdout
    holder.execute("commit")
    holder.close()
    assert "second" in process(recorded, "list").stdout
    assert process(recorded, "db", "check").stdout == "presk.db: sound\n"


def test_a_query_that_would_write(recorded: Path) -> None:
    before = (recorded / "presk.db").read_bytes()
    for sql in ("delete from calls", "pragma user_version = 1", "select 1; drop table calls"):
        one_line(process(recorded, "query", sql), "E5006")
    assert (recorded / "presk.db").read_bytes() == before
    assert [p.name for p in recorded.iterdir()] == ["presk.db"]
