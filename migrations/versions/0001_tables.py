"""All tables: recordings, kernels, tensors, and what queries compute from a recording.

Revision ID: 0001
Revises:
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_KINDS: dict[str, Any] = {
    "": sa.BigInteger().with_variant(sa.Integer, "sqlite"),
    "text": sa.Text(),
    "blob": sa.LargeBinary(),
}


def column(word: str) -> sa.Column[Any]:
    """The column `name`, `name:text` or `name:blob`, nullable where `?` follows."""
    name, _, kind = word.removesuffix("?").partition(":")
    return sa.Column(name, _KINDS[kind], nullable=word.endswith("?"))


def table(name: str, columns: str, key: str, *constraints: Any, rowid: bool = False) -> None:
    """Makes a STRICT table, clustered by its key unless `rowid`; a column `recording_id` refers to the recording."""
    parts: list[Any] = [column(word) for word in columns.split()]
    if columns.startswith("recording_id "):
        parts.append(sa.ForeignKeyConstraint(["recording_id"], ["recordings.id"]))
    parts.append(sa.PrimaryKeyConstraint(*key.split()))
    op.create_table(name, *parts, *constraints, sqlite_strict=True, sqlite_with_rowid=rowid)


def refers(columns: str, target: str, *, deferred: bool = False) -> sa.ForeignKeyConstraint:
    """A foreign key: columns of this table, and `table.column …` of the other."""
    late: dict[str, Any] = {"deferrable": True, "initially": "DEFERRED"} if deferred else {}
    other, _, names = target.partition(".")
    return sa.ForeignKeyConstraint(columns.split(), [f"{other}.{name}" for name in names.split()], **late)


def within(column: str, target: str, *, deferred: bool = False) -> sa.ForeignKeyConstraint:
    """A reference to a row of the same recording."""
    other, _, name = target.partition(".")
    return refers(f"recording_id {column}", f"{other}.recording_id {name or 'number'}", deferred=deferred)


def one_of(column: str, words: str) -> sa.CheckConstraint:
    """A check that a column holds one of these words."""
    return sa.CheckConstraint(f"{column} in ({', '.join(repr(w) for w in words.split())})")


def flag(column: str) -> sa.CheckConstraint:
    """A check that a column holds 0 or 1."""
    return sa.CheckConstraint(f"{column} in (0, 1)")


def _recordings() -> None:
    """What a recording holds, and what stays on the recording machine."""
    table("presk_meta", "key:text value:text", "key")
    table(
        "recordings",
        "id name:text digest:text entry:text family:text spec:text graph:text"
        " weights_kind:text weights_seed:text? weights_digest:text?",
        "id",
        one_of("weights_kind", "seed file none"),
        sa.CheckConstraint("json_valid(spec)"),
        rowid=True,
    )
    table("native_runs", "recording_id nanoseconds", "recording_id")
    table(
        "launch_times",
        "recording_id operation nanoseconds",
        "recording_id operation",
        within("operation", "operations"),
    )
    table("weight_files", "recording_id path:text", "recording_id")
    table("functions", "recording_id number name:text source:text", "recording_id number")
    table(
        "calls",
        "recording_id number parent? function label:text fold? iteration? depth first_operation? last_operation?",
        "recording_id number",
        within("parent", "calls"),
        within("function", "functions"),
        within("fold", "folds", deferred=True),
        sa.CheckConstraint("(fold is null) = (iteration is null)"),
    )
    table(
        "folds",
        "recording_id number call function label:text length descending",
        "recording_id number",
        within("call", "calls"),
        within("function", "functions"),
        flag("descending"),
    )
    table(
        "buffers",
        "recording_id number role:text name:text type:text shape:text elements bytes int_limit?",
        "recording_id number",
        one_of("role", "input weight temp output"),
        one_of("type", "f64 f32 bf16 i64 bool"),
        sa.CheckConstraint("json_valid(shape)"),
    )
    table(
        "views",
        "recording_id number buffer offset shape:text elements",
        "recording_id number",
        within("buffer", "buffers"),
    )
    table(
        "weight_parts",
        "recording_id number buffer offset tensor:text shape:text transposed low_bits high_bits",
        "recording_id number",
        within("buffer", "buffers"),
        flag("transposed"),
    )
    table(
        "operations",
        "recording_id number call kind:text label:text source:text",
        "recording_id number",
        within("call", "calls"),
        one_of("kind", "launch convert fill quantize sample scalar"),
    )
    table(
        "launches",
        "recording_id operation kernel_id",
        "recording_id operation",
        within("operation", "operations"),
        refers("kernel_id", "kernels.id"),
    )
    table(
        "launch_arguments",
        "recording_id operation position mode:text view",
        "recording_id operation position",
        within("operation", "launches.operation"),
        within("view", "views"),
        one_of("mode", "in out"),
    )
    table(
        "launch_scalars",
        "recording_id operation position name:text",
        "recording_id operation position",
        within("operation", "launches.operation"),
    )


def _kernels() -> None:
    """Kernels, once for all recordings."""
    table("kernels", "id digest:text text:text", "id", rowid=True)
    table(
        "kernel_parameters",
        "kernel_id position kind:text name:text type:text shape:text? int_limit?",
        "kernel_id position",
        refers("kernel_id", "kernels.id"),
        one_of("kind", "in out scalar extent"),
    )
    table(
        "kernel_statements",
        "kernel_id number depth kind:text text:text"
        " dest:text? op:text? type:text? array:text? expression:text? operands:text? executions?",
        "kernel_id number",
        refers("kernel_id", "kernels.id"),
        one_of("kind", "loop end local acc fold load store const index scalar op"),
    )
    table(
        "kernel_loops",
        "kernel_id statement var:text kind:text extent:text extent_value? parent?",
        "kernel_id statement",
        refers("kernel_id statement", "kernel_statements.kernel_id number"),
        refers("kernel_id parent", "kernel_loops.kernel_id statement"),
        one_of("kind", "par seq"),
    )
    table(
        "kernel_accesses",
        "kernel_id statement array:text mode:text index_text:text is_affine",
        "kernel_id statement",
        refers("kernel_id statement", "kernel_statements.kernel_id number"),
        one_of("mode", "read write"),
        flag("is_affine"),
    )


def _tensors() -> None:
    """Tensors, in chunks."""
    table(
        "tensors",
        "recording_id role:text buffer name:text type:text shape:text digest:text",
        "recording_id role buffer",
        within("buffer", "buffers"),
        one_of("role", "input weight native_output exact_output"),
        one_of("type", "f64 f32 bf16 i64 bool"),
        sa.CheckConstraint("json_valid(shape)"),
    )
    table(
        "tensor_chunks",
        "digest:text number data:blob",
        "digest number",
        sa.CheckConstraint("length(data) <= 1048576"),
        rowid=True,
    )


def _structure() -> None:
    """What queries compute from a recording."""
    table(
        "call_arguments",
        "recording_id call position buffer offset elements mode:text view?",
        "recording_id call position",
        within("call", "calls"),
        within("buffer", "buffers"),
        within("view", "views"),
        one_of("mode", "read write both"),
    )
    table(
        "forms",
        "recording_id number height function call text:text",
        "recording_id number",
        within("function", "functions"),
        within("call", "calls"),
        rowid=True,
    )
    table(
        "call_forms",
        "recording_id call form",
        "recording_id call",
        within("call", "calls"),
        within("form", "forms"),
    )
    table(
        "call_locals",
        "recording_id call number buffer first_operation last_operation",
        "recording_id call number",
        within("call", "calls"),
        within("buffer", "buffers"),
    )
    table("form_scalars", "recording_id form position name:text", "recording_id form position", within("form", "forms"))
    table(
        "form_items",
        "recording_id form number kind:text start length kernel_id? callee? fold? iteration?",
        "recording_id form number",
        within("form", "forms"),
        refers("kernel_id", "kernels.id"),
        within("callee", "forms"),
        within("fold", "folds"),
        one_of("kind", "launch call"),
    )
    table(
        "form_item_arguments",
        "recording_id form item position slot_kind:text slot offset mode:text",
        "recording_id form item position",
        refers("recording_id form item", "form_items.recording_id form number"),
        one_of("slot_kind", "argument local"),
        one_of("mode", "read write both"),
    )
    table(
        "loops",
        "recording_id form first_item last_item fold first_iteration last_iteration callee",
        "recording_id form first_item",
        refers("recording_id form first_item", "form_items.recording_id form number"),
        refers("recording_id form last_item", "form_items.recording_id form number"),
        within("fold", "folds"),
        within("callee", "forms"),
    )
    table(
        "loop_arguments",
        "recording_id form first_item position kind:text slot_kind:text slot offset stride source? base? distance? period? phase?",
        "recording_id form first_item position",
        refers("recording_id form first_item", "loops.recording_id form first_item"),
        one_of("kind", "fixed strided carried"),
        one_of("slot_kind", "argument local"),
    )
    table("frames", "recording_id form bytes live_bytes", "recording_id form", within("form", "forms"))
    table(
        "frame_slots",
        "recording_id form kind:text number offset bytes",
        "recording_id form kind number",
        within("form", "frames.form"),
        one_of("kind", "local callee"),
    )
    table(
        "arenas",
        "recording_id bytes live_bytes peak_operation?",
        "recording_id",
        within("peak_operation", "operations"),
    )


def upgrade() -> None:
    """Makes the tables and the indexes."""
    _recordings()
    _kernels()
    _tensors()
    _structure()
    op.create_index("kernels_digest", "kernels", ["digest"], unique=True)
    op.create_index("calls_parent", "calls", ["recording_id", "parent"])
    op.create_index("operations_call", "operations", ["recording_id", "call"])
    op.create_index("views_buffer", "views", ["recording_id", "buffer"])
    op.create_index("launches_kernel", "launches", ["kernel_id"])
    op.create_index("launch_arguments_view", "launch_arguments", ["recording_id", "view"])
    op.execute("insert into presk_meta (key, value) values ('schema_version', '0001')")


def downgrade() -> None:
    """Drops every table, those that refer before those that are referred to."""
    for name in (
        "arenas",
        "frame_slots",
        "frames",
        "loop_arguments",
        "loops",
        "form_item_arguments",
        "form_items",
        "form_scalars",
        "call_locals",
        "call_forms",
        "forms",
        "call_arguments",
        "tensor_chunks",
        "tensors",
        "launch_scalars",
        "launch_arguments",
        "launches",
        "operations",
        "weight_parts",
        "views",
        "buffers",
        "calls",
        "folds",
        "functions",
        "weight_files",
        "launch_times",
        "native_runs",
        "recordings",
        "presk_meta",
        "kernel_accesses",
        "kernel_loops",
        "kernel_statements",
        "kernel_parameters",
        "kernels",
    ):
        op.drop_table(name)
