"""Writing: rows, digests, deduplication, and that a write that fails leaves nothing."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Engine
from synthetic import Builder, events, recording, transformer

from presk_db.errors import DatabaseDamaged, DatabaseWriteFailed
from presk_db.kernels.launches import Call
from presk_db.recording.events import WeightsReference
from presk_db.store.check import check_database
from presk_db.store.dump import canonical_dump
from presk_db.store.engine import open_database, reading, writing
from presk_db.store.ingest import write_recording
from presk_db.store.recordings import list_recordings, weights_path

HERE = Path(__file__).parent
SCRIPT = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
from synthetic import recording, transformer
from presk_db.store.engine import open_database, reading
from presk_db.store.ingest import write_recording
from presk_db.store.dump import canonical_dump
"""


def count(engine: Engine, table: str, where: str = "true") -> int:
    with reading(engine) as connection:
        return int(connection.exec_driver_sql(f"select count(*) from {table} where {where}").scalar_one())


def test_the_digest_names_what_was_recorded(engine: Engine) -> None:
    base = recording(transformer())
    first = write_recording(engine, base)
    again = write_recording(engine, recording(transformer(), "other name", 77, events=()))
    path = replace(base.weights, path="/somewhere/model.safetensors")
    moved = write_recording(engine, replace(base, weights=path))
    assert first.digest == again.digest == moved.digest
    others = [
        recording(transformer(layers=5)),
        replace(base, spec='{"T":9}'),
        replace(base, graph="another"),
        replace(base, entry="loss"),
        replace(base, weights=WeightsReference("seed", 1, None, None)),
        replace(base, tensors=base.tensors[1:]),
        recording(transformer(odd=1)),
    ]
    digests = {write_recording(engine, other).digest for other in others}
    assert len(digests) == len(others) and first.digest not in digests


def test_kernels_and_contents_are_held_once(stored: Engine) -> None:
    kernels, chunks = count(stored, "kernels"), count(stored, "tensor_chunks")
    write_recording(stored, recording(transformer(), "again"))
    assert (count(stored, "kernels"), count(stored, "tensor_chunks")) == (kernels, chunks)
    write_recording(stored, recording(transformer(odd=2), "odd"))
    assert count(stored, "kernels") == kernels + 1
    assert count(stored, "launches") == 3 * 38
    assert count(stored, "kernel_uses", "recording_id = 3") == kernels + 1


def test_views_are_held_once_a_recording(stored: Engine) -> None:
    assert count(stored, "(select distinct recording_id, buffer, offset, shape from views)") == count(stored, "views")
    assert count(stored, "views") < count(stored, "launch_arguments")


def test_what_stays_on_the_machine_is_apart(engine: Engine) -> None:
    where = WeightsReference("file", None, "ab" * 32, "/home/someone/model.safetensors")
    write_recording(engine, recording(transformer(), weights=where))
    assert weights_path(engine, 1) == "/home/someone/model.safetensors"
    with reading(engine) as connection:
        assert "/home/someone" not in "\n".join(canonical_dump(connection, 1))


def test_times_are_those_of_the_events(engine: Engine) -> None:
    order = transformer()
    write_recording(engine, recording(order, events=events(order, 500)[:4]))
    with reading(engine) as connection:
        rows = connection.exec_driver_sql("select operation, nanoseconds from launch_times").all()
    assert [tuple(row) for row in rows] == [(0, 500), (1, 501), (2, 502)]


@pytest.mark.parametrize("bits", [0.1, -0.0, float("inf"), 5e-324])
def test_bounds_of_weights_keep_their_bits(engine: Engine, bits: float) -> None:
    b = Builder("f")
    b.weight("w", 3)
    b.weights[0] = replace(b.weights[0], low=bits)
    write_recording(engine, recording(b.order()))
    with reading(engine) as connection:
        low = connection.exec_driver_sql("select low_bits from weight_parts").scalar_one()
    assert np.int64(low).view(np.float64).tobytes() == np.float64(bits).tobytes()


def test_an_order_that_contradicts_itself_is_refused(engine: Engine) -> None:
    order = transformer()
    base = recording(order)
    calls = order.calls
    bad = [
        replace(order, calls=(*calls, Call(99, 0, 0, "x"))),
        replace(order, calls=(*calls, Call(len(calls), None, 0, "x"))),
        replace(order, calls=(*calls, Call(len(calls), len(calls) + 1, 0, "x"))),
        replace(order, launches=(*order.launches[:5], order.launches[20], *order.launches[5:])),
        replace(order, buffers=order.buffers[::-1]),
    ]
    for other in bad:
        with pytest.raises(DatabaseDamaged, match="E5005 the launch order"):
            write_recording(engine, replace(base, order=other, events=()))
    with pytest.raises(DatabaseDamaged, match="E5005"):
        tensor = replace(base.tensors[0], digest="00" * 32)
        write_recording(engine, replace(base, tensors=(tensor,)))
    with pytest.raises(DatabaseDamaged, match="E5005"):
        write_recording(engine, replace(base, tensors=(replace(base.tensors[0], buffer=999),)))
    assert list_recordings(engine) == () and count(engine, "kernels") == 0


def test_a_full_database_takes_nothing(database: Path) -> None:
    engine = open_database(str(database), create=True)
    before = database.read_bytes()
    pages = sqlite3.connect(database).execute("pragma page_count").fetchone()[0]
    with pytest.raises(DatabaseWriteFailed, match=r"E5004 .*disk is full"), writing(engine) as connection:
        connection.exec_driver_sql(f"pragma max_page_count = {pages + 2}")
        for number in range(1000):
            values = (f"key {number}", "x" * 4000)
            connection.exec_driver_sql("insert into presk_meta values (?, ?)", values)
    assert database.read_bytes() == before


def test_a_limit_on_the_file_leaves_the_earlier_recordings(database: Path) -> None:
    engine = open_database(str(database), create=True)
    write_recording(engine, recording(transformer()))
    with reading(engine) as connection:
        before = canonical_dump(connection, 1)
    code = f"""{SCRIPT}
import resource
from presk_db.errors import DatabaseWriteFailed
size = {database.stat().st_size} + 100000
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
try:
    write_recording(open_database({str(database)!r}), recording(transformer(layers=300)))
except DatabaseWriteFailed as e:
    print(e)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("E5004") and done.stdout.count("\n") == 1
    assert check_database(str(database)) == []
    with reading(engine) as connection:
        assert canonical_dump(connection, 1) == before
    assert len(list_recordings(engine)) == 1


def test_a_process_that_is_killed_leaves_the_earlier_recordings(database: Path) -> None:
    engine = open_database(str(database), create=True)
    write_recording(engine, recording(transformer()))
    code = f"""{SCRIPT}
import presk_db.store.ingest as ingest
def stop(*_):
    print("here", flush=True)
    import time
    time.sleep(60)
ingest.insert_tensors = stop
engine = open_database({str(database)!r})
write_recording(engine, recording(transformer(layers=600)))
"""
    running = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    assert running.stdout.readline() == "here\n"
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    running.stdout.close()
    assert len(list_recordings(engine)) == 1
    assert check_database(str(database)) == []
    assert write_recording(engine, recording(transformer())).id == 2


def test_a_dump_depends_on_nothing_else(tmp_path: Path) -> None:
    """Not on what was ingested before, nor on hashing, nor on the place of the file."""
    dumps = set()
    for seed, first in ((0, "transformer(layers=2)"), (1, "transformer(odd=0)"), (2, "transformer()")):
        code = f"""{SCRIPT}
engine = open_database({str(tmp_path / f"{seed}.db")!r}, create=True)
write_recording(engine, recording({first}, "before"))
stored = write_recording(engine, recording(transformer(odd=1)))
with reading(engine) as connection:
    print("\\n".join(canonical_dump(connection, stored.id)))
"""
        run = [sys.executable, "-c", code]
        environment = {**os.environ, "PYTHONHASHSEED": str(seed), "TZ": f"UTC{seed}"}
        dumps.add(subprocess.run(run, capture_output=True, text=True, check=True, env=environment).stdout)
    assert len(dumps) == 1 and len(dumps.pop()) > 10000


def test_a_large_recording_is_written_in_time(engine: Engine) -> None:
    order = transformer(layers=5555)
    assert len(order.launches) > 49_990
    large = recording(order)
    start = time.process_time()
    write_recording(engine, large)
    assert time.process_time() - start < 60
    assert count(engine, "launch_arguments") > 140_000
