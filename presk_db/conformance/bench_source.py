"""bench_source: one C file that times kernels beside the machine's peak, its copying and its functions, interleaved."""

from collections.abc import Mapping, Sequence
from math import prod

from presk_db.kernels.c_printer import c_function, parameter_names
from presk_db.kernels.c_text import STORED
from presk_db.kernels.ir import Array, ExtentParameter, Kernel
from presk_db.kernels.legality import packing_of, scratch_bytes, units
from presk_db.kernels.schedule import Schedule

HEAD = """\
#define _POSIX_C_SOURCE 199309L
#include "presk_kernel.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) /* of this thread alone, so that other processes disturb less */
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times, int n)
{
    qsort(times, (size_t)n, sizeof *times, ascending);
    return times[n / 2];
}

static volatile float sink;

/* Seconds of 12 chains of products and sums in the widest vectors; *work is their operations. */
static double peak(double *work)
{
    const long n = 150000;
    double t = now();
#if defined(__x86_64__)
    typedef float vector __attribute__((vector_size(PRESK_VECTOR_BYTES)));
    vector a = {0.5f}, b = {0.25f}, c0 = a, c1 = a, c2 = a, c3 = a, c4 = a, c5 = a, c6 = a, c7 = a, c8 = a, c9 = a,
           c10 = a, c11 = a, p;
#if defined(__AVX__)
#define STEP(c) __asm__ volatile("vmulps %2,%3,%1\\n\\tvaddps %1,%0,%0" : "+v"(c), "=&v"(p) : "v"(a), "v"(b));
#else
#define STEP(c) __asm__ volatile("movaps %2,%1\\n\\tmulps %3,%1\\n\\taddps %1,%0" : "+x"(c), "=&x"(p) : "x"(a), "x"(b));
#endif
    for (long i = 0; i < n; i++) {
        STEP(c0) STEP(c1) STEP(c2) STEP(c3) STEP(c4) STEP(c5) STEP(c6) STEP(c7) STEP(c8) STEP(c9)
        STEP(c10) STEP(c11)
    }
    c0 += c1 + c2 + c3 + c4 + c5 + c6 + c7 + c8 + c9 + c10 + c11;
    sink = c0[0];
    *work = 24.0 * (PRESK_VECTOR_BYTES / 4) * (double)n;
#else
    _Alignas(64) float x[PRESK_ROWS * 64], y[16 * 64] = {0}, c[PRESK_ROWS * 16] = {0};
    memset(x, 0, sizeof x);
    for (long i = 0; i < n / 64; i++) {
        presk_tile_f32(PRESK_ROWS, 64, x, y, 16, c);
    }
    sink = c[0];
    *work = 2.0 * 64 * 16 * PRESK_ROWS * (double)(n / 64);
#endif
    return now() - t;
}

static uint32_t state = 1;
static float uniform(void)
{
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) * 0x1p-23f - 1.0f;
}

static void *memory(size_t bytes)
{
    void *p = presk_alloc(bytes);
    if (p == NULL) {
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

"""

FUNCTION = """\
static double time_{name}_{type}(void)
{{
    static {ctype} x[2048], y[2048];
    for (int i = 0; i < 2048; i++) {{
        x[i] = {argument};
    }}
    double t = now();
    for (int r = 0; r < 20; r++) {{
        for (int b = 0; b < 2048; b += 64) {{
            for (int i = 0; i < 64; i++) {{
                y[b + i] = {call};
            }}
        }}
        sink = (float)y[r];
    }}
    return (now() - t) / (20 * 2048);
}}
"""

FUNCTIONS = ("exp", "tanh", "silu", "gelu", "sigmoid", "sqrt", "div", "sin", "cos", "log")


def _function(name: str, type_: str) -> str:
    ctype = STORED[type_]
    value = f"({ctype})uniform()" + (f" + ({ctype})2" if name in ("sqrt", "log", "div") else "")
    call = "1 / x[b + i]" if name == "div" else f"presk_{name}_{type_}(x[b + i])"
    return FUNCTION.format(name=name, type=type_, ctype=ctype, argument=value, call=call)


def _kernel(number: int, kernel: Kernel, schedule: Schedule, limit: int) -> str:
    """Allocates the kernel's arrays, and a function that runs it once."""
    name = f"kernel_{number}"
    packed = packing_of(kernel) if schedule.product is not None and schedule.product.right == "packed" else None
    statics, fill, arguments = [], [], []
    for p in kernel.parameters:
        if isinstance(p, Array):
            size = packed.elements if packed is not None and packed.array == p.name else prod(p.shape)
            statics.append(f"static {STORED[p.type]} *{name}_{p.name};\n")
            fill.append(f"    {name}_{p.name} = memory({size} * sizeof *{name}_{p.name});\n")
            value = {
                "f32": "uniform()", "f64": "(double)uniform()", "bf16": "presk_bf16_from_f32(uniform())",
                "i64": f"(int64_t)(state % {max(p.limit or 2, 1)}u); (void)uniform()", "bool": "1",
            }[p.type]  # fmt: skip
            fill.append(f"    for (ptrdiff_t i = 0; i < {size}; i++) {{ {name}_{p.name}[i] = {value}; }}\n")
            arguments.append(f"{name}_{p.name}")
        else:
            arguments.append(str(p.bound) if isinstance(p, ExtentParameter) else "1.0")
    own = ["0", str(units(kernel, schedule))]
    if scratch_bytes(kernel, schedule):
        own.append("scratch")
    call = f"{name}({', '.join([*own, *arguments])})"
    assert len(own) + len(arguments) == len(parameter_names(kernel, schedule)) and limit
    return (
        c_function(kernel, name, schedule, comment=False)
        + "".join(statics)
        + f"static void fill_{number}(void)\n{{\n{''.join(fill)}}}\n"
        + f"static double run_{number}(void)\n{{\n    double t = now();\n    {call};\n    return now() - t;\n}}\n"
    )


MAIN = """\
static double copied(char *to, const char *from, size_t bytes)
{
    double t = now();
    memcpy(to, from, bytes);
    sink = to[bytes / 2];
    return now() - t;
}

int main(void)
{
    enum { most = 401 };
    static double kernel_times[most], copies[most], peaks[most];
    char *a = memory(LARGEST), *b = memory(LARGEST);
    scratch = memory(SCRATCH);
    for (int f = 0; f < (int)(sizeof functions / sizeof *functions); f++) {
        for (int r = 0; r < 31; r++) {
            peaks[r] = functions[f].run();
        }
        printf("function %s %.4g\\n", functions[f].name, median(peaks, 31));
    }
    for (int k = 0; k < KERNELS; k++) {
        kernels[k].fill();
        double work = 0, once = kernels[k].run();
        int n = once > 0 ? (int)(SECONDS / (once + 2e-4)) : most;
        n = n < 5 ? 5 : n > most ? most : n;
        for (int r = 0; r < n; r++) {
            peaks[r] = peak(&work);
            copies[r] = copied(a, b, kernels[k].bytes / 2);
            kernel_times[r] = kernels[k].run();
        }
        const double t = median(kernel_times, n), c = median(copies, n);
        printf("kernel %d %.6g %.6g %.6g\\n", k, t, c, work / median(peaks, n));
        fflush(stdout);
    }
    return 0;
}
"""


def bench_source(
    kernels: Sequence[Kernel], schedules: Mapping[str, Schedule], bytes_of: Sequence[int], seconds: float
) -> str:
    """The program's text: it prints `function NAME seconds` and `kernel NUMBER seconds copy-seconds peak`."""
    largest = max([*bytes_of, 2])
    parts = [HEAD, "static unsigned char *scratch;\n"]
    parts += [_function(f, t) for f in FUNCTIONS for t in ("f32", "f64")]
    parts += [_kernel(i, k, schedules[k.digest], largest) for i, k in enumerate(kernels)]
    table = "".join(f'    {{"{f}.{t}", time_{f}_{t}}},\n' for f in FUNCTIONS for t in ("f32", "f64"))
    parts.append(f"static const struct {{ const char *name; double (*run)(void); }} functions[] = {{\n{table}}};\n")
    rows = "".join(f"    {{fill_{i}, run_{i}, {bytes_of[i]}}},\n" for i in range(len(kernels)))
    head = "static const struct { void (*fill)(void); double (*run)(void); size_t bytes; } kernels[] ="
    parts.append(f"{head} {{\n{rows}}};\n")
    scratch = max((scratch_bytes(k, schedules[k.digest]) for k in kernels), default=0)
    parts.append(f"#define LARGEST {largest}\n#define SCRATCH {scratch + 64}\n#define KERNELS {len(kernels)}\n")
    parts.append(f"#define SECONDS {seconds}\n")
    return "".join([*parts, MAIN])
