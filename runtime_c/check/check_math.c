/* Compares every f32 function with the f64 C library, for presk_db/conformance/check_math.py, and maps arrays.
 *
 * A library value y with relative error below `width` decides the f32 result when y (1 - width) and y (1 + width)
 * round to the same f32. The few undecided inputs are written out; MPFR decides them. This file alone uses libm. */
#define _DEFAULT_SOURCE
#include <math.h>
#include <time.h>

#include "../presk_math_wide.h"

typedef void map_f32(const float *x, float *y, long n);
typedef void map_f64(const double *x, double *y, long n);

#define MAP(name)                                                                      \
    static void map_##name##_f32(const float *x, float *y, long n)                     \
    {                                                                                  \
        for (long i = 0; i < n; i++) y[i] = presk_##name##_f32(x[i]);                  \
    }                                                                                  \
    static void map_##name##_f64(const double *x, double *y, long n)                   \
    {                                                                                  \
        for (long i = 0; i < n; i++) y[i] = presk_##name##_f64(x[i]);                  \
    }                                                                                  \
    static void map_##name##_slow(const double *x, double *y, long n)                  \
    {                                                                                  \
        for (long i = 0; i < n; i++) y[i] = presk_##name##_slow(x[i]);                 \
    }

MAP(exp) MAP(expm1) MAP(log) MAP(log1p) MAP(tanh) MAP(sin) MAP(cos) MAP(erf) MAP(sigmoid) MAP(silu) MAP(gelu)

static double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
static double silu(double x) { return x < -800.0 ? -0.0 : x / (1.0 + exp(-x)); }
static double gelu(double x) { return x < -800.0 ? -0.0 : x * (0.5 * erfc(-x * 0x1.6a09e667f3bcdp-1)); }

static float sigmoidf(float x) { return 1.0f / (1.0f + expf(-x)); }
static float siluf(float x) { return x / (1.0f + expf(-x)); }
static float geluf(float x) { return x * (0.5f * (1.0f + erff(x * 0x1.6a09e6p-1f))); }

/* The C library's functions, for their time; -ffast-math is not used, so these are its scalar ones. */
#define LIBRARY(name)                                                                  \
    static void library_##name##_f32(const float *x, float *y, long n)                 \
    {                                                                                  \
        for (long i = 0; i < n; i++) y[i] = name##f(x[i]);                             \
    }                                                                                  \
    static void library_##name##_f64(const double *x, double *y, long n)               \
    {                                                                                  \
        for (long i = 0; i < n; i++) y[i] = name(x[i]);                                \
    }

LIBRARY(exp) LIBRARY(expm1) LIBRARY(log) LIBRARY(log1p) LIBRARY(tanh) LIBRARY(sin) LIBRARY(cos) LIBRARY(erf)
LIBRARY(sigmoid) LIBRARY(silu) LIBRARY(gelu)

struct function {
    const char *name;
    double (*library)(double);
    double width; /* bound of the library value's relative error; gelu's grows with x * x */
    int half;     /* for tiny x the value lies just above x / 2 */
    map_f32 *f32;
    map_f64 *f64;
    map_f64 *slow;
    map_f32 *library_f32;
    map_f64 *library_f64;
};

#define ENTRY(name, library, width, half)                                                                           \
    {#name, library, width, half, map_##name##_f32, map_##name##_f64, map_##name##_slow, library_##name##_f32,       \
     library_##name##_f64}
static const struct function FUNCTIONS[] = {
    ENTRY(exp, exp, 0x1p-46, 0),      ENTRY(expm1, expm1, 0x1p-46, 0), ENTRY(log, log, 0x1p-46, 0),
    ENTRY(log1p, log1p, 0x1p-46, 0),  ENTRY(tanh, tanh, 0x1p-46, 0),   ENTRY(sin, sin, 0x1p-46, 0),
    ENTRY(cos, cos, 0x1p-46, 0),      ENTRY(erf, erf, 0x1p-46, 0),     ENTRY(sigmoid, sigmoid, 0x1p-46, 0),
    ENTRY(silu, silu, 0x1p-46, 1),    ENTRY(gelu, gelu, 0x1p-40, 1),
};
enum { COUNT = sizeof FUNCTIONS / sizeof *FUNCTIONS, CHUNK = 4096 };

static const struct function *function_named(const char *name)
{
    for (int i = 0; i < COUNT; i++)
        if (strcmp(FUNCTIONS[i].name, name) == 0) return &FUNCTIONS[i];
    return NULL;
}

/* y[i] = NAME(x[i]); -1 for an unknown name. */
int presk_map_f32(const char *name, const float *x, float *y, long n)
{
    const struct function *f = function_named(name);
    if (f == NULL) return -1;
    f->f32(x, y, n);
    return 0;
}

int presk_map_f64(const char *name, const double *x, double *y, long n)
{
    const struct function *f = function_named(name);
    if (f == NULL) return -1;
    f->f64(x, y, n);
    return 0;
}

int presk_map_slow_f64(const char *name, const double *x, double *y, long n)
{
    const struct function *f = function_named(name);
    if (f == NULL) return -1;
    f->slow(x, y, n);
    return 0;
}

/* The least time in seconds of one pass over x: kind 0 presk's f32, 1 the library's f32, 2 and 3 the same in f64. */
double presk_seconds(const char *name, int kind, const void *x, void *y, long n, int repeats)
{
    const struct function *f = function_named(name);
    double least = 1e9;
    for (int i = 0; i < repeats && f != NULL; i++) {
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        if (kind == 0) f->f32(x, y, n);
        if (kind == 1) f->library_f32(x, y, n);
        if (kind == 2) f->f64(x, y, n);
        if (kind == 3) f->library_f64(x, y, n);
        clock_gettime(CLOCK_MONOTONIC, &end);
        double t = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
        least = t < least ? t : least;
    }
    return least;
}

static uint32_t bits_f32(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* The inputs of bits low ... low + count - 1: fills wrong[] with up to `room` inputs whose result is not the rounded
 * value, undecided[] likewise with those that the library cannot decide, and their numbers in counts[0], counts[1]. */
int presk_check_f32(const char *name, uint32_t low, uint64_t count, uint32_t *wrong, uint32_t *undecided, long room,
                    long counts[2])
{
    const struct function *f = function_named(name);
    if (f == NULL) return -1;
    counts[0] = counts[1] = 0;
    for (uint64_t start = 0; start < count; start += CHUNK) {
        float x[CHUNK], y[CHUNK];
        long n = count - start < CHUNK ? (long)(count - start) : CHUNK;
        for (long i = 0; i < n; i++) {
            uint32_t u = (uint32_t)(low + start + (uint64_t)i);
            memcpy(&x[i], &u, sizeof u);
        }
        f->f32(x, y, n);
        for (long i = 0; i < n; i++) {
            double d = (double)x[i], r = f->library(d), width = f->width;
            if (f->half && fabs(d) < 0x1p-100 && d != 0.0) {
                r = nextafter(0.5 * d, 1.0);
                width = 0.0;
            }
            float a = (float)(r * (1.0 - width)), b = (float)(r * (1.0 + width));
            uint32_t input = bits_f32(x[i]);
            if (isnan(r) ? !isnan(y[i]) : (bits_f32(a) == bits_f32(b) && bits_f32(a) != bits_f32(y[i]))) {
                if (counts[0] < room) wrong[counts[0]] = input;
                counts[0]++;
            } else if (bits_f32(a) != bits_f32(b) && !isnan(r)) {
                if (counts[1] < room) undecided[counts[1]] = input;
                counts[1]++;
            }
        }
    }
    return 0;
}
