"""Tensors as rows: contents in chunks, named by the SHA-256 of their bytes and held once."""

import hashlib
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from sqlalchemy import Connection, Engine, RowMapping, bindparam, insert, select, text

from presk_db.errors import DatabaseDamaged, RecordingUnknown
from presk_db.recording.events import Array, ObservedTensor, TensorRole
from presk_db.store.engine import reading
from presk_db.store.kernel_rows import shape_from_text, shape_text
from presk_db.store.tables import CHUNK_BYTES, tensor_chunks, tensors

DTYPES: dict[str, np.dtype[Any]] = {
    "f64": np.dtype("<f8"),
    "f32": np.dtype("<f4"),
    "bf16": np.dtype("<u2"),
    "i64": np.dtype("<i8"),
    "bool": np.dtype("u1"),
}
"""The dtype of an observed tensor's data, by storage type: bf16 as its bits."""

_ROWS: dict[str, str] = {"input": "input", "weight": "weight", "output": "native_output"}
_ROLES: dict[str, TensorRole] = {
    "input": "input",
    "weight": "weight",
    "native_output": "output",
    "exact_output": "output",
}


def insert_tensors(connection: Connection, recording_id: int, observed: Iterable[ObservedTensor]) -> None:
    """Writes the tensors of a recording; contents that the database has already are not written again.

    Raises:
        DatabaseDamaged: E5005, where a digest is not that of the data.
    """
    for tensor in observed:
        insert_tensor(connection, recording_id, _ROWS[tensor.role], tensor)


def insert_tensor(connection: Connection, recording_id: int, row_role: str, tensor: ObservedTensor) -> None:
    """Writes one tensor under the role that the table knows: input, weight, native_output or exact_output."""
    row = {"recording_id": recording_id, "role": row_role, "buffer": tensor.buffer, "name": tensor.name}
    row |= {"type": tensor.type, "shape": shape_text(tensor.shape), "digest": tensor.digest}
    connection.execute(insert(tensors), [row])
    if tensor.data is None:
        return
    raw = np.ascontiguousarray(tensor.data, DTYPES[tensor.type]).tobytes()
    if hashlib.sha256(raw).hexdigest() != tensor.digest:
        raise DatabaseDamaged("the digest is not that of the data", f"tensor {tensor.name}")
    insert_contents(connection, tensor.digest, raw)


def insert_contents(connection: Connection, digest: str, raw: bytes) -> None:
    """Writes bytes in chunks under their digest, unless the database has them."""
    held = select(tensor_chunks.c.number).where(tensor_chunks.c.digest == digest).limit(1)
    if connection.execute(held).first():
        return
    for number in range(max(1, -(-len(raw) // CHUNK_BYTES))):
        data = raw[number * CHUNK_BYTES : (number + 1) * CHUNK_BYTES]
        connection.execute(insert(tensor_chunks), [{"digest": digest, "number": number, "data": data}])


def replace_exact_output(connection: Connection, recording_id: int, tensor: ObservedTensor) -> None:
    """Adds, or replaces, what the exact computation says of one output of a recording."""
    where = (
        tensors.c.recording_id == recording_id,
        tensors.c.role == "exact_output",
        tensors.c.buffer == tensor.buffer,
    )
    connection.execute(tensors.delete().where(*where))
    insert_tensor(connection, recording_id, "exact_output", tensor)


def read_tensor(engine: Engine, recording_id: int, role: str, buffer: int) -> ObservedTensor:
    """One tensor with its contents; `role` is input, weight, output (the native one) or exact_output.

    Raises:
        RecordingUnknown: E5003, where the recording has no such tensor.
        DatabaseDamaged: E5005, where the contents do not have the tensor's digest.
    """
    with reading(engine) as connection:
        where = (tensors.c.role == _ROWS.get(role, role), tensors.c.buffer == buffer)
        row = (
            connection.execute(select(tensors).where(tensors.c.recording_id == recording_id, *where)).mappings().first()
        )
        if row is None:
            raise RecordingUnknown(f"it has no {role} tensor for buffer {buffer}", f"recording {recording_id}")
        return _tensor(connection, row)


def read_tensors(engine: Engine, recording_id: int, role: str | None = None) -> tuple[ObservedTensor, ...]:
    """All tensors of a recording, or those of one role, as they were ingested: inputs, weights, outputs by buffer."""
    with reading(engine) as connection:
        return tensors_of(connection, recording_id, role)


def tensors_of(connection: Connection, recording_id: int, role: str | None = None) -> tuple[ObservedTensor, ...]:
    """The same inside a transaction."""
    query = select(tensors).where(tensors.c.recording_id == recording_id)
    wanted = tensors.c.role != "exact_output" if role is None else tensors.c.role == _ROWS.get(role, role)
    query = query.where(wanted)
    rows = connection.execute(query.order_by(tensors.c.role, tensors.c.buffer)).mappings().all()
    rank = ("input", "weight", "native_output", "exact_output")
    return tuple(_tensor(connection, row) for row in sorted(rows, key=lambda row: rank.index(row["role"])))


def _tensor(connection: Connection, row: RowMapping) -> ObservedTensor:
    shape = shape_from_text(row["shape"])
    raw = contents(connection, row["digest"])
    data: Array | None = None
    if raw is None and row["role"] != "weight":  # a weight's may lie in a file
        raise DatabaseDamaged("contents with the recorded digest are missing", f"tensor {row['name']}")
    if raw is not None:
        if hashlib.sha256(raw).hexdigest() != row["digest"]:
            raise DatabaseDamaged("the contents do not have the digest", f"tensor {row['name']}")
        dtype = DTYPES[row["type"]]
        if len(raw) != math.prod(shape) * dtype.itemsize:
            raise DatabaseDamaged(f"{len(raw)} bytes are no {row['type']}{row['shape']}", f"tensor {row['name']}")
        data = np.ndarray(shape, dtype, raw)
    return ObservedTensor(_ROLES[row["role"]], row["buffer"], row["name"], row["type"], shape, row["digest"], data)


def contents(connection: Connection, digest: str) -> bytes | None:
    """The bytes with this digest, or None where only the digest is held."""
    query = select(tensor_chunks.c.data).where(tensor_chunks.c.digest == bindparam("digest"))
    chunks = connection.execute(query.order_by(tensor_chunks.c.number), {"digest": digest}).scalars().all()
    return b"".join(chunks) if chunks else None


def damaged_tensors(connection: Connection) -> list[str]:
    """A line for every digest whose chunks do not have it, or leave a number out, and every tensor that has none."""
    problems = []
    digests = connection.execute(text("select distinct digest from tensor_chunks order by digest")).scalars().all()
    for digest in digests:
        state, numbers = hashlib.sha256(), []
        query = select(tensor_chunks.c.number, tensor_chunks.c.data).where(tensor_chunks.c.digest == digest)
        for number, data in connection.execute(query.order_by(tensor_chunks.c.number)):
            state.update(data)
            numbers.append(number)
        if numbers != list(range(len(numbers))) or state.hexdigest() != digest:
            problems.append(f"tensor_chunks: the contents of {digest[:16]} do not have that digest")
    missing = (
        "select recording_id, role, name from tensors t where role != 'weight'"
        " and not exists (select 1 from tensor_chunks c where c.digest = t.digest) order by recording_id, role, buffer"
    )
    for recording_id, role, name in connection.execute(text(missing)).all():
        problems.append(f"tensors: recording {recording_id} has no contents of the {role} {name}")
    return problems
