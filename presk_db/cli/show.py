"""Texts of what a database holds, for `presk record`, `presk list` and `presk show`."""

from collections.abc import Sequence

from presk_db.store.engine import Engine
from presk_db.store.query import rows
from presk_db.store.recordings import StoredRecording, Summary

Table = Sequence[Sequence[object]]


def table_text(head: Sequence[str], rows_: Table) -> str:
    """Columns side by side, numbers to the right; ends without a newline."""
    cells = [list(head), *([str(c) for c in row] for row in rows_)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    numeric = [bool(rows_) and all(isinstance(row[i], (int, float)) for row in rows_) for i in range(len(head))]
    return "\n".join(
        "  ".join(c.rjust(w) if n else c.ljust(w) for c, w, n in zip(row, widths, numeric, strict=True)).rstrip()
        for row in cells
    )


def summary_text(recording: StoredRecording, s: Summary) -> str:
    """What `presk record` says at its end."""
    seconds = "" if s.nanoseconds is None else f"{s.nanoseconds / 1e9:.2f}"
    pairs = [
        ("recording", recording.name),
        ("digest", recording.digest[:16]),
        ("functions", s.functions),
        ("calls", s.calls),
        ("distinct kernels", s.kernels),
        ("launches", s.launches),
        ("weights bytes", s.weight_bytes),
        ("arena bytes", s.arena_bytes if s.arena_bytes is not None else s.temp_bytes),
        ("native seconds", seconds),
    ]
    return "\n".join(f"{name:<17}{value}" for name, value in pairs)


def recordings_text(recordings: Sequence[tuple[StoredRecording, Summary]]) -> str:
    """What `presk list` prints."""
    head = ("name", "digest", "family", "entry", "calls", "kernels", "launches", "arena bytes")
    return table_text(
        head,
        [
            (r.name, r.digest[:16], r.family, r.entry, s.calls, s.kernels, s.launches, s.arena_bytes or s.temp_bytes)
            for r, s in recordings
        ],
    )


def kernels_text(engine: Engine, recording_id: int) -> str:
    """Each distinct kernel's text under a heading with its uses."""
    sql = """
        select min(o.label) as label, count(*) as uses, k.digest, k.text
        from launches l
        join operations o on o.recording_id = l.recording_id and o.number = l.operation
        join kernels k on k.id = l.kernel_id
        where l.recording_id = :recording
        group by k.id order by min(l.operation)
    """
    found = rows(engine, sql, recording_id)
    return "\n".join(f"# {r.label}: {r.uses} launches, {r.digest[:16]}\n{r.text}" for r in found)


def launches_text(engine: Engine, recording_id: int) -> str:
    """A line a launch: number, label, call, and its views."""
    sql = """
        select o.number, o.label, o.source, a.mode, b.name, v.offset, v.shape
        from operations o
        join launch_arguments a on a.recording_id = o.recording_id and a.operation = o.number
        join views v on v.recording_id = a.recording_id and v.number = a.view
        join buffers b on b.recording_id = v.recording_id and b.number = v.buffer
        where o.recording_id = :recording
        order by o.number, a.position
    """
    lines: dict[int, list[str]] = {}
    for r in rows(engine, sql, recording_id):
        line = lines.setdefault(r.number, [f"{r.number:>5} {r.label}  # {r.source}"])
        line.append(f"        {r.mode:<3} {r.name} {r.shape}" + (f" +{r.offset}" if r.offset else ""))
    return "".join("\n".join(parts) + "\n" for parts in lines.values())
