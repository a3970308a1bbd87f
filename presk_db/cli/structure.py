"""Texts of a recording's structure: the tree of calls, the forms, the arena."""

from presk_db.cli.show import table_text
from presk_db.store.engine import Engine
from presk_db.store.query import rows


def calls_text(engine: Engine, recording_id: int) -> str:
    """The tree of calls that launch something, a line a call: its operations, name, form and source line."""
    sql = """
        select t.depth, coalesce(t.label, t.function) as label, t.form, t.first_operation, t.last_operation, f.source
        from call_tree t
        join calls c on c.recording_id = t.recording_id and c.number = t.call
        join functions f on f.recording_id = c.recording_id and f.number = c.function
        where t.recording_id = :recording and t.first_operation is not null
        order by t.first_operation, t.depth, t.call
    """
    return "".join(
        f"{r.first_operation:>5}-{r.last_operation:<5} {'  ' * r.depth}{r.label}  form {r.form}  # {r.source}\n"
        for r in rows(engine, sql, recording_id)
    )


def forms_text(engine: Engine, recording_id: int) -> str:
    """Each distinct function with its uses, then its canonical text."""
    sql = """
        select f.number, u.name, count(c.call) as uses, r.bytes, f.text
        from forms f
        join functions u on u.recording_id = f.recording_id and u.number = f.function
        join call_forms c on c.recording_id = f.recording_id and c.form = f.number
        join frames r on r.recording_id = f.recording_id and r.form = f.number
        where f.recording_id = :recording
        group by f.number
        order by f.number
    """
    return "\n".join(
        f"# form {r.number}: {r.name}, {r.uses} calls, frame {r.bytes} bytes\n{r.text}\n"
        for r in rows(engine, sql, recording_id)
    )


def arena_text(engine: Engine, recording_id: int) -> str:
    """The planned peak, the largest live set, and who is alive there."""
    (arena,) = rows(
        engine, "select bytes, live_bytes, peak_operation from arenas where recording_id = :recording", recording_id
    )
    sql = """
        select p.offset, p.bytes, p.first_use, p.last_use, p.type, p.shape, p.name
        from arena_peak p where p.recording_id = :recording order by p.offset, p.buffer
    """
    alive = [tuple(r) for r in rows(engine, sql, recording_id)]
    head = ("offset", "bytes", "first", "last", "type", "shape", "name")
    lines = [f"arena {arena.bytes} bytes; most alive at once {arena.live_bytes} bytes"]
    if alive:
        lines += [f"alive at operation {arena.peak_operation}:", table_text(head, alive)]
    return "\n".join(lines) + "\n"
