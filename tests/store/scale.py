"""python -m tests.store.scale [LAUNCHES] [DATABASE]: each named query on a recording of a million launches, and a row's bytes.

A synthetic forward pass, nine launches a layer. It fails where a query takes a second or a row 200 bytes.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from sqlalchemy import Engine

from presk_db.store.benchmarks import write_benchmark
from presk_db.store.engine import open_database, reading
from presk_db.store.ingest import write_recording
from presk_db.store.query import answer, query_names, query_sql
from tests.store.synthetic import benchmark, recording, transformer

MOST_SECONDS, MOST_BYTES = 1.0, 200


def written(launches: int, database: Path) -> Engine:
    """The database with such a recording; one that is there already is taken as it is."""
    there = database.exists()
    engine = open_database(str(database), create=True)
    if not there:
        start = time.perf_counter()
        order = transformer(layers=-(-launches // 9), t=2, c=2, heads=1)
        made = recording(order)
        middle = time.perf_counter()
        write_benchmark(engine, write_recording(engine, made).id, benchmark(order))
        print(
            f"{len(order.launches)} launches: made in {middle - start:.0f} s, written in {time.perf_counter() - middle:.0f} s"
        )
    return engine


def row_bytes(engine: Engine, database: Path) -> float:
    """The file's bytes by the rows of all tables."""
    with reading(engine) as connection:
        names = connection.exec_driver_sql("select name from sqlite_schema where type = 'table' order by name").all()
        rows = sum(int(connection.exec_driver_sql(f"select count(*) from {name}").scalar_one()) for (name,) in names)
    return os.path.getsize(database) / rows


def main() -> int:
    """1 where something is too slow or too large."""
    launches = int(sys.argv[1]) if len(sys.argv) > 1 else 10**6
    with tempfile.TemporaryDirectory(prefix="presk-scale-") as work:
        database = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(work) / "scale.db"
        engine = written(launches, database)
        slow = []
        for name in query_names():
            times = []
            for _ in range(2):
                start = time.perf_counter()
                count = len(answer(engine, query_sql(name), 1).rows)
                times.append(time.perf_counter() - start)
            print(f"{name:24} {count:8} rows {min(times):7.3f} s")
            slow += [name] if min(times) >= MOST_SECONDS else []
        size = row_bytes(engine, database)
        print(f"a row takes {size:.1f} bytes")
        engine.dispose()
    print("too slow: " + ", ".join(slow) if slow else f"each query takes less than {MOST_SECONDS:.0f} s")
    return int(bool(slow) or size >= MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
