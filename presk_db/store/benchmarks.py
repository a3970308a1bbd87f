"""Rows of timed runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Engine, func, insert, select, text

from presk_db.store import tables
from presk_db.store.engine import writing

_BY_KERNEL = text(
    "insert into benchmark_kernels select b.id, l.kernel_id, count(*), sum(t.nanoseconds) from benchmarks b"
    " cross join benchmark_launches t on t.benchmark_id = b.id"
    " cross join launches l on l.recording_id = b.recording_id and l.operation = t.operation"
    " where b.id = :benchmark group by b.id, l.kernel_id"
)


@dataclass(frozen=True)
class Benchmark:
    """Medians of a program's runs in nanoseconds, whole and by launch, of its rivals', and the machine's limits.

    `operations` are f32 multiplications and additions, `bytes` those read from memory, a second, by so many threads.
    """

    compiler: str
    flags: str
    cpu: str
    threads: int
    runs: int
    nanoseconds: int
    operations: int
    bytes: int
    launches: Mapping[int, int]
    rivals: Mapping[str, int]


def write_benchmark(engine: Engine, recording_id: int, b: Benchmark) -> int:
    """Adds a benchmark of the recording, in one transaction; its id."""
    with writing(engine) as connection:
        highest = select(func.coalesce(func.max(tables.benchmarks.c.id), 0))
        number = int(connection.execute(highest).scalar_one()) + 1
        row = {
            "id": number,
            "recording_id": recording_id,
            "compiler": b.compiler,
            "flags": b.flags,
            "cpu": b.cpu,
            "threads": b.threads,
            "runs": b.runs,
            "nanoseconds": b.nanoseconds,
            "peak_operations_per_second": b.operations,
            "peak_bytes_per_second": b.bytes,
        }
        connection.execute(insert(tables.benchmarks), [row])
        launches = [{"benchmark_id": number, "operation": n, "nanoseconds": t} for n, t in b.launches.items()]
        rivals = [{"benchmark_id": number, "name": n, "nanoseconds": t} for n, t in b.rivals.items()]
        if launches:
            connection.execute(insert(tables.benchmark_launches), launches)
            connection.execute(_BY_KERNEL, {"benchmark": number})
        if rivals:
            connection.execute(insert(tables.benchmark_rivals), rivals)
    return number
