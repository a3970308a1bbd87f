"""The tables of a recording, as SQLAlchemy describes them: what there is, what happened, kernels, tensors.

`docs/database.md` says what each column means; `structure_tables` holds the tables that are computed from these. The
migrations make the same tables: a test compares the two.
"""

from sqlalchemy import CheckConstraint, Index

from presk_db.store.columns import flag, one_of, refers, table, within

SCHEMA_VERSION = "0011"
"""The head of the migrations, and the value of `schema_version` in presk_meta."""

CHUNK_BYTES = 1 << 20
"""The most bytes of a tensor in one row."""

_TYPES = "f64 f32 bf16 i64 bool"

presk_meta = table("presk_meta", "key:text value:text", "key")

recordings = table(
    "recordings",
    "id name:text digest:text entry:text family:text spec:text graph:text"
    " weights_kind:text weights_seed:text? weights_digest:text?",
    "id",
    one_of("weights_kind", "seed file none"),
    CheckConstraint("json_valid(spec)"),
    rowid=True,
)

# --- local: never read by an emission or an archive -----------------------------------------------------------

native_runs = table("native_runs", "recording_id nanoseconds", "recording_id")

launch_times = table(
    "launch_times", "recording_id operation nanoseconds", "recording_id operation", within("operation", "operations")
)

weight_files = table("weight_files", "recording_id path:text", "recording_id")

# --- what there is --------------------------------------------------------------------------------------------

functions = table("functions", "recording_id number name:text source:text", "recording_id number")

calls = table(
    "calls",
    "recording_id number parent? function label:text fold? iteration? depth path:text first_operation? last_operation?",
    "recording_id number",
    within("parent", "calls"),
    within("function", "functions"),
    within("fold", "folds", deferred=True),
    CheckConstraint("(fold is null) = (iteration is null)"),
)

folds = table(
    "folds",
    "recording_id number call function label:text length descending",
    "recording_id number",
    within("call", "calls"),
    within("function", "functions"),
    flag("descending"),
)

buffers = table(
    "buffers",
    "recording_id number role:text name:text type:text shape:text elements bytes int_limit?",
    "recording_id number",
    one_of("role", "input weight temp output"),
    one_of("type", _TYPES),
    CheckConstraint("json_valid(shape)"),
)

states = table("states", "recording_id buffer", "recording_id buffer", within("buffer", "buffers"))

views = table(
    "views",
    "recording_id number buffer offset shape:text elements",
    "recording_id number",
    within("buffer", "buffers"),
)

weight_parts = table(
    "weight_parts",
    "recording_id number buffer offset tensor:text shape:text transposed low_bits high_bits",
    "recording_id number",
    within("buffer", "buffers"),
    flag("transposed"),
)

updates = table(
    "updates",
    "recording_id output state",
    "recording_id output",
    within("output", "buffers"),
    within("state", "buffers"),
)

# --- what happened --------------------------------------------------------------------------------------------

operations = table(
    "operations",
    "recording_id number call kind:text label:text source:text",
    "recording_id number",
    within("call", "calls"),
    one_of("kind", "launch convert fill quantize sample scalar"),
)

launches = table(
    "launches",
    "recording_id operation kernel_id",
    "recording_id operation",
    within("operation", "operations"),
    refers("kernel_id", "kernels.id"),
)

launch_arguments = table(
    "launch_arguments",
    "recording_id operation position mode:text view",
    "recording_id operation position",
    within("operation", "launches.operation"),
    within("view", "views"),
    one_of("mode", "in out"),
)

launch_scalars = table(
    "launch_scalars",
    "recording_id operation position name:text",
    "recording_id operation position",
    within("operation", "launches.operation"),
)

launch_hashes = table(
    "launch_hashes",
    "recording_id operation position hash",
    "recording_id operation position",
    within("operation", "launches.operation"),
)

# --- kernels: once for all recordings -------------------------------------------------------------------------

kernels = table("kernels", "id digest:text text:text", "id", rowid=True)

kernel_parameters = table(
    "kernel_parameters",
    "kernel_id position kind:text name:text type:text shape:text? int_limit?",
    "kernel_id position",
    refers("kernel_id", "kernels.id"),
    one_of("kind", "in out scalar extent"),
)

kernel_statements = table(
    "kernel_statements",
    "kernel_id number depth kind:text text:text"
    " dest:text? op:text? type:text? array:text? expression:text? operands:text? executions?",
    "kernel_id number",
    refers("kernel_id", "kernels.id"),
    one_of("kind", "loop end local acc fold load store const index scalar op"),
)

kernel_loops = table(
    "kernel_loops",
    "kernel_id statement var:text kind:text extent:text extent_value? parent?",
    "kernel_id statement",
    refers("kernel_id statement", "kernel_statements.kernel_id number"),
    refers("kernel_id parent", "kernel_loops.kernel_id statement"),
    one_of("kind", "par seq"),
)

kernel_accesses = table(
    "kernel_accesses",
    "kernel_id statement array:text mode:text index_text:text is_affine",
    "kernel_id statement",
    refers("kernel_id statement", "kernel_statements.kernel_id number"),
    one_of("mode", "read write"),
    flag("is_affine"),
)

# --- tensors --------------------------------------------------------------------------------------------------

tensors = table(
    "tensors",
    "recording_id role:text buffer name:text type:text shape:text digest:text",
    "recording_id role buffer",
    within("buffer", "buffers"),
    one_of("role", "input weight native_output exact_output"),
    one_of("type", _TYPES),
    CheckConstraint("json_valid(shape)"),
)

tensor_chunks = table(
    "tensor_chunks",
    "digest:text number data:blob",
    "digest number",
    CheckConstraint(f"length(data) <= {CHUNK_BYTES}"),
    rowid=True,
)

# --- text -----------------------------------------------------------------------------------------------------

tokenizers = table(
    "tokenizers", "recording_id digest:text pre_tokenizer:text tokens merges no_chat:text?", "recording_id"
)

# --- what the exact computation says of the outputs ---------------------------------------------------------------

exact_runs = table("exact_runs", "recording_id precision", "recording_id")

exact_errors = table(
    "exact_errors",
    "recording_id buffer max_ulp:text mean_ulp:text radius_ulp:text"
    " worst_element? native_bits? lower_bits? upper_bits? condition:text? agreeing differing",
    "recording_id buffer",
    within("buffer", "buffers"),
)

exact_bounds = table(
    "exact_bounds",
    "recording_id buffer bound:text digest:text",
    "recording_id buffer bound",
    within("buffer", "exact_errors.buffer"),
    one_of("bound", "lower upper"),
)

ulp_histogram = table(
    "ulp_histogram",
    "recording_id buffer exponent elements",
    "recording_id buffer exponent",
    within("buffer", "exact_errors.buffer"),
)

# --- speed; local, but for plan_schedules --------------------------------------------------------------------------

plan_schedules = table(
    "plan_schedules",
    "recording_id kernel_id packed schedule:text",
    "recording_id kernel_id packed",
    refers("kernel_id", "kernels.id"),
    flag("packed"),
)

measurements = table(
    "measurements",
    "id kernel_id packed schedule:text nanoseconds default_nanoseconds runs compiler:text flags:text cpu:text",
    "id",
    refers("kernel_id", "kernels.id"),
    flag("packed"),
    rowid=True,
)

benchmarks = table(
    "benchmarks",
    "id recording_id compiler:text flags:text cpu:text threads runs nanoseconds"
    " peak_operations_per_second peak_bytes_per_second",
    "id",
    refers("recording_id", "recordings.id"),
    rowid=True,
)

benchmark_launches = table(
    "benchmark_launches",
    "benchmark_id operation nanoseconds",
    "benchmark_id operation",
    refers("benchmark_id", "benchmarks.id"),
)

benchmark_kernels = table(
    "benchmark_kernels",
    "benchmark_id kernel_id launches nanoseconds",
    "benchmark_id kernel_id",
    refers("benchmark_id", "benchmarks.id"),
    refers("kernel_id", "kernels.id"),
)

benchmark_rivals = table(
    "benchmark_rivals",
    "benchmark_id name:text nanoseconds",
    "benchmark_id name",
    refers("benchmark_id", "benchmarks.id"),
)

# --- what tools say of kernels; local ------------------------------------------------------------------------------

kernel_verdicts = table(
    "kernel_verdicts",
    "kernel_id tool:text property:text holds reason:text?",
    "kernel_id tool property",
    refers("kernel_id", "kernels.id"),
    one_of("property", "static_control in_bounds partition initialized"),
    flag("holds"),
    CheckConstraint("holds = (reason is null)"),
)

Index("kernels_digest", kernels.c.digest, unique=True)

LATE_INDEXES = (
    Index("calls_parent", calls.c.recording_id, calls.c.parent),
    Index("operations_call", operations.c.recording_id, operations.c.call),
    Index("views_buffer", views.c.recording_id, views.c.buffer, views.c.offset),
    Index("launches_kernel", launches.c.kernel_id),
    Index("launch_arguments_view", launch_arguments.c.recording_id, launch_arguments.c.view),
)
"""The indexes that the loading of a first recording makes last."""
