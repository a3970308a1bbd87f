/* glibc's vectorized f32 functions (libmvec, AVX2, errors up to 4 ulp), for the times of presk_db/conformance/
 * bench_math.py. x86-64 with glibc 2.35 or later only. */
#define _DEFAULT_SOURCE
#include <string.h>
#include <time.h>

typedef float lanes __attribute__((vector_size(32)));

#define EACH(DO) DO(exp) DO(expm1) DO(log) DO(log1p) DO(tanh) DO(sin) DO(cos) DO(erf)

#define DECLARE(name)                                                                  \
    lanes _ZGVdN8v_##name##f(lanes x);                                                 \
    static void map_##name(const float *x, float *y, long n)                           \
    {                                                                                  \
        for (long i = 0; i + 8 <= n; i += 8) {                                         \
            lanes v;                                                                   \
            memcpy(&v, x + i, sizeof v);                                               \
            v = _ZGVdN8v_##name##f(v);                                                 \
            memcpy(y + i, &v, sizeof v);                                               \
        }                                                                              \
    }
EACH(DECLARE)

/* The least time in seconds of one pass over x, or -1 for a function that libmvec lacks. */
double presk_libmvec_seconds(const char *name, const float *x, float *y, long n, int repeats)
{
    void (*map)(const float *, float *, long) = NULL;
#define FIND(f) \
    if (strcmp(name, #f) == 0) map = map_##f;
    EACH(FIND)
    double least = map == NULL ? -1.0 : 1e9;
    for (int i = 0; i < repeats && map != NULL; i++) {
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        map(x, y, n);
        clock_gettime(CLOCK_MONOTONIC, &end);
        double t = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
        least = t < least ? t : least;
    }
    return least;
}
