"""check_database finds what it is there for: each planted fault is reported."""

import sqlite3
from pathlib import Path

import pytest
from synthetic import recording, transformer

from presk_db.store.check import check_database
from presk_db.store.engine import open_database
from presk_db.store.ingest import write_recording

FAULTS = {
    "insert into launch_times values (1, 999, 5)": "launch_times: row",
    "drop view call_tree": "view call_tree is missing",
    "create table cats (name text) strict": "table cats is not presk's",
    "drop index calls_parent; create index calls_parent on calls (parent)": "index calls_parent is not as presk makes it",
    "drop table launch_times; create table launch_times (recording_id, operation, nanoseconds)": "table launch_times is not",
    "update kernel_statements set operands = 'x9' where kind = 'op' and number = 2": "kernel",
    "update kernel_statements set operands = null where kind = 'op' and number = 2": "kernel",
    "update kernels set text = text || ' '": "kernel",
    "delete from kernel_statements where kind = 'end'": "kernel",
    "update tensor_chunks set data = x'00'": "tensor_chunks",
    "update tensor_chunks set number = 7": "tensor_chunks",
    "delete from tensor_chunks": "tensors: recording 1 has no contents of the input",
    "update frame_slots set offset = 0": "recording 1: buffers",
    "update call_locals set last_operation = 37 where buffer > 15": "recording 1: buffers",
    "update arenas set bytes = bytes - 64": "recording 1: a buffer lies outside",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(database: Path, fault: str) -> None:
    write_recording(open_database(str(database), create=True), recording(transformer()))
    assert check_database(str(database)) == []
    driver = sqlite3.connect(database)
    driver.executescript(fault)
    driver.close()
    problems = check_database(str(database))
    assert problems and FAULTS[fault] in problems[0]
    assert all("\n" not in problem for problem in problems)


def test_a_torn_file_is_found(database: Path) -> None:
    write_recording(open_database(str(database), create=True), recording(transformer()))
    data = bytearray(database.read_bytes())
    for page in range(len(data) // 4096 // 2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 2000] = b"\x55" * 2000
    database.write_bytes(data)
    assert check_database(str(database))
