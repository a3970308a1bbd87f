"""bench_source: one C file that times kernels beside the machine's peak, its copying and its functions, interleaved."""

from collections.abc import Mapping, Sequence
from math import prod

from presk_db.kernels.c_printer import c_function
from presk_db.kernels.c_text import STORED
from presk_db.kernels.ir import Array, ExtentParameter, Kernel
from presk_db.kernels.legality import packing_of, scratch_bytes, units
from presk_db.kernels.plan_file import is_packed
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

/* The seconds of one call, over so many. */
static double timed(void (*run)(void), int repeats)
{
    const double t = now();
    for (int i = 0; i < repeats; i++) {
        run();
    }
    return (now() - t) / repeats;
}

/* So many calls that the clock's own time does not count, if one takes so many seconds. */
static int repeats_of(double once)
{
    return once > 2e-5 ? 1 : once > 2e-8 ? (int)(2e-5 / once) + 1 : 1000;
}

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


def _arrays(name: str, kernel: Kernel, packed: bool) -> tuple[str, str, list[str]]:
    """The declarations of the kernel's arrays, the statements that allocate and fill them, and what it is called with."""
    packing = packing_of(kernel) if packed else None
    statics, fill, arguments = [], [], []
    for p in kernel.parameters:
        if isinstance(p, Array):
            size = packing.elements if packing is not None and packing.array == p.name else prod(p.shape)
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
    return "".join(statics), "".join(fill), arguments


def _run(name: str, number: int, kernel: Kernel, schedule: Schedule, arguments: Sequence[str]) -> str:
    """The kernel's function, and `run_NUMBER`, which calls it."""
    own = ["0", str(units(kernel, schedule))]
    if scratch_bytes(kernel, schedule):
        own.append("scratch")
    call = f"{name}({', '.join([*own, *arguments])})"
    return c_function(kernel, name, schedule, comment=False) + f"static void run_{number}(void)\n{{\n    {call};\n}}\n"


def _kernel(number: int, kernel: Kernel, schedule: Schedule) -> str:
    """A function that allocates the kernel's arrays, and one that runs it once."""
    name = f"kernel_{number}"
    statics, fill, arguments = _arrays(name, kernel, is_packed(schedule))
    filling = f"static void fill_{number}(void)\n{{\n{fill}}}\n"
    return statics + filling + _run(name, number, kernel, schedule, arguments)


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
        double work = 0, once = timed(kernels[k].run, 1);
        const int repeats = repeats_of(once);
        int n = once > 0 ? (int)(SECONDS / (once + 2e-4)) : most;
        n = n < 5 ? 5 : n > most ? most : n;
        for (int r = 0; r < n; r++) {
            peaks[r] = peak(&work);
            copies[r] = copied(a, b, kernels[k].bytes / 2);
            kernel_times[r] = timed(kernels[k].run, repeats);
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
    parts += [_kernel(i, k, schedules[k.digest]) for i, k in enumerate(kernels)]
    table = "".join(f'    {{"{f}.{t}", time_{f}_{t}}},\n' for f in FUNCTIONS for t in ("f32", "f64"))
    parts.append(f"static const struct {{ const char *name; double (*run)(void); }} functions[] = {{\n{table}}};\n")
    rows = "".join(f"    {{fill_{i}, run_{i}, {bytes_of[i]}}},\n" for i in range(len(kernels)))
    head = "static const struct { void (*fill)(void); void (*run)(void); size_t bytes; } kernels[] ="
    parts.append(f"{head} {{\n{rows}}};\n")
    scratch = max((scratch_bytes(k, schedules[k.digest]) for k in kernels), default=0)
    parts.append(f"#define LARGEST {largest}\n#define SCRATCH {scratch + 64}\n#define KERNELS {len(kernels)}\n")
    parts.append(f"#define SECONDS {seconds}\n")
    return "".join([*parts, MAIN])


CANDIDATES = """\
/* Rounds over all schedules, in turn; those that are far from the best after three rounds are left out. */
int main(void)
{
    enum { most = 201, first = 3 };
    static double times[SCHEDULES][most];
    static int counts[SCHEDULES], repeats[SCHEDULES];
    fill();
    scratch = memory(SCRATCH);
    for (int s = 0; s < SCHEDULES; s++) {
        timed(runs[s], 1);
        repeats[s] = repeats_of(timed(runs[s], 1));
    }
    double spent = 0;
    for (int r = 0; r < most && (r < first || spent < SECONDS); r++) {
        double best = 1e30;
        for (int s = 0; r >= first && s < SCHEDULES; s++) {
            const double m = median(times[s], counts[s]);
            best = m < best ? m : best;
        }
        for (int turn = 0; turn < SCHEDULES; turn++) {
            const int s = (r + turn) % SCHEDULES;
            if (s == 0 || r < first || median(times[s], counts[s]) < 1.1 * best) {
                times[s][counts[s]] = timed(runs[s], repeats[s]);
                spent += times[s][counts[s]++] * repeats[s];
            }
        }
    }
    for (int s = 0; s < SCHEDULES; s++) {
        printf("%d %.0f %d\\n", s, 1e9 * median(times[s], counts[s]), counts[s]);
    }
    return 0;
}
"""


def candidates_source(kernel: Kernel, schedules: Sequence[Schedule], seconds: float) -> str:
    """A program that times schedules of one kernel: it prints `NUMBER nanoseconds runs` for each.

    All of them read the right operand of a product alike, packed or not: the first says which.
    """
    statics, fill, arguments = _arrays("operand", kernel, is_packed(schedules[0]))
    parts = [HEAD, "static unsigned char *scratch;\n", statics, f"static void fill(void)\n{{\n{fill}}}\n"]
    parts += [_run(f"kernel_{n}", n, kernel, schedule, arguments) for n, schedule in enumerate(schedules)]
    table = ", ".join(f"run_{n}" for n in range(len(schedules)))
    parts.append(f"static void (*const runs[])(void) = {{{table}}};\n")
    scratch = max(scratch_bytes(kernel, s) for s in schedules)
    parts.append(f"#define SCHEDULES {len(schedules)}\n#define SCRATCH {scratch + 64}\n#define SECONDS {seconds}\n")
    return "".join([*parts, CANDIDATES])
