"""The tables that queries compute from a recording: arguments of calls, forms, loops, frames.

A *slot* is what a form's text calls a window: the form's argument or local of that number, from an element offset on.
"""

from presk_db.store.columns import one_of, refers, table, within

_FORM_ITEM = "recording_id form item"

call_arguments = table(
    "call_arguments",
    "recording_id call position buffer offset elements mode:text view?",
    "recording_id call position",
    within("call", "calls"),
    within("buffer", "buffers"),
    within("view", "views"),
    one_of("mode", "read write both"),
)

forms = table(
    "forms",
    "recording_id number height function call text:text",
    "recording_id number",
    within("function", "functions"),
    within("call", "calls"),
    rowid=True,
)

call_forms = table(
    "call_forms",
    "recording_id call form",
    "recording_id call",
    within("call", "calls"),
    within("form", "forms"),
)

call_locals = table(
    "call_locals",
    "recording_id call number buffer first_operation last_operation",
    "recording_id call number",
    within("call", "calls"),
    within("buffer", "buffers"),
)

form_scalars = table(
    "form_scalars", "recording_id form position name:text", "recording_id form position", within("form", "forms")
)

form_items = table(
    "form_items",
    "recording_id form number kind:text start length kernel_id? callee? fold? iteration?",
    "recording_id form number",
    within("form", "forms"),
    refers("kernel_id", "kernels.id"),
    within("callee", "forms"),
    within("fold", "folds"),
    one_of("kind", "launch call"),
)

form_item_arguments = table(
    "form_item_arguments",
    "recording_id form item position slot_kind:text slot offset mode:text",
    "recording_id form item position",
    refers(_FORM_ITEM, "form_items.recording_id form number"),
    one_of("slot_kind", "argument local"),
    one_of("mode", "read write both"),
)

loops = table(
    "loops",
    "recording_id form first_item last_item fold first_iteration last_iteration callee",
    "recording_id form first_item",
    refers("recording_id form first_item", "form_items.recording_id form number"),
    refers("recording_id form last_item", "form_items.recording_id form number"),
    within("fold", "folds"),
    within("callee", "forms"),
)

loop_arguments = table(
    "loop_arguments",
    "recording_id form first_item position kind:text slot_kind:text slot offset stride source? base? distance? period? phase?",
    "recording_id form first_item position",
    refers("recording_id form first_item", "loops.recording_id form first_item"),
    one_of("kind", "fixed strided carried"),
    one_of("slot_kind", "argument local"),
)

frames = table("frames", "recording_id form bytes live_bytes", "recording_id form", within("form", "forms"))

frame_slots = table(
    "frame_slots",
    "recording_id form kind:text number offset bytes",
    "recording_id form kind number",
    within("form", "frames.form"),
    one_of("kind", "local callee"),
)

call_frames = table(
    "call_frames",
    "recording_id call offset",
    "recording_id call",
    within("call", "calls"),
)

arenas = table(
    "arenas", "recording_id bytes live_bytes peak_operation?", "recording_id", within("peak_operation", "operations")
)

# --- totals; local, for they hold times ----------------------------------------------------------------------------

TOTALS = "launches first_operation bytes_read bytes_written arithmetic? nanoseconds?"

kernel_totals = table(
    "kernel_totals",
    f"recording_id kernel_id {TOTALS}",
    "recording_id kernel_id",
    refers("kernel_id", "kernels.id"),
)

line_totals = table(
    "line_totals",
    f"recording_id function source:text {TOTALS}",
    "recording_id function source",
    within("function", "functions"),
)

layer_totals = table(
    "layer_totals",
    f"recording_id fold iteration {TOTALS}",
    "recording_id fold iteration",
    within("fold", "folds"),
)

# --- work that is not needed ---------------------------------------------------------------------------------------

idle_launches = table(
    "idle_launches", "recording_id operation", "recording_id operation", within("operation", "launches.operation")
)

repeated_launches = table(
    "repeated_launches",
    "recording_id operation first",
    "recording_id operation",
    within("operation", "launches.operation"),
    within("first", "launches.operation"),
)
