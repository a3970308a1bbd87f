"""What the tests of the C runtime share: its files, flags and declarations, and how one is compiled."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "runtime_c"
FIXTURES = ROOT / "fixtures" / "runtime_c"
SOURCES = ["presk_rt.c", "presk_json.c", "presk_header.c", "presk_tensors.c", "presk_convert.c", "presk_writer.c"]
KEYS = ["presk_key.c", "presk_sample.c"]
GENERATE = [f"generate/{path.name}" for path in sorted((RUNTIME / "generate").glob("*.c"))]
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-ffp-contract=off"]
SANITIZED = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]

CDEF = """
typedef uint16_t presk_bf16;
typedef struct { int code; char text[496]; } presk_error;
typedef struct { const char *file; const char *name; const char *type; int dtype; int rank; int64_t shape[8];
                 size_t count; const unsigned char *data; size_t bytes; } presk_tensor;
typedef struct presk_file presk_file;
typedef struct presk_writer presk_writer;

const char *presk_rt_probe(void);
void presk_canonical_f32(float *, size_t);
void presk_canonical_f64(double *, size_t);
void presk_canonical_bf16(uint16_t *, size_t);
void *presk_alloc(size_t);
void presk_free(void *);

presk_file *presk_file_open(const char *, presk_error *);
void presk_file_close(presk_file *);
size_t presk_file_count(const presk_file *);
presk_tensor presk_file_at(const presk_file *, size_t);
bool presk_file_find(const presk_file *, const char *, presk_tensor *);
bool presk_file_expect(presk_file *, const char *, int, const int64_t *, presk_tensor *, presk_error *);
bool presk_file_expect_no_more(const presk_file *, presk_error *);
bool presk_read(const presk_tensor *, size_t, size_t, int, void *, presk_error *);
bool presk_read_transposed(const presk_tensor *, size_t, size_t, size_t, int, void *, presk_error *);
bool presk_check_range(const int64_t *, size_t, int64_t, int64_t, const char *, presk_error *);
presk_writer *presk_writer_new(void);
void presk_writer_free(presk_writer *);
bool presk_writer_add(presk_writer *, const char *, int, int, const int64_t *, const void *, presk_error *);
bool presk_writer_save(presk_writer *, const char *, presk_error *);

void each_bf16_from_f32(const float *, uint16_t *, size_t);
void each_f32_from_bf16(const uint16_t *, float *, size_t);
void each_f32_from_f16(const uint16_t *, float *, size_t);
void each_key_f32(const float *, int32_t *, size_t);
void each_key_f64(const double *, int64_t *, size_t);
void each_f32_from_key(const int32_t *, float *, size_t);
void each_f64_from_key(const int64_t *, double *, size_t);
void each_i64_from_f32(const float *, int64_t *, size_t);
void each_i64_from_f64(const double *, int64_t *, size_t);
void each_f32_from_i64(const int64_t *, float *, size_t);
"""


class Runtime(NamedTuple):
    """The runtime as a loaded library."""

    ffi: Any
    lib: Any


Build = Callable[..., Path]
Done = subprocess.CompletedProcess[str]


def compile_c(out: Path, files: list[Path], flags: list[str], compiler: str = "gcc") -> Done:
    """The finished compiler, with its messages; the caller looks at the status."""
    command = [compiler, *flags, "-I", str(RUNTIME), *map(str, files), "-o", str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False)
