"""LIMITS: a C program that measures what threads can multiply and add, and read; and what it said."""

from dataclasses import dataclass

from presk_db.conformance.bench_source import HEAD

LIMITS = (
    HEAD
    + """\
#include "presk_threads.h"

enum { ROUNDS = 5, WORDS = 1 << 27 }; /* 512 MiB of floats: more than the caches hold */

/* Reads n floats, a multiple of 256, from four places side by side: one alone waits for memory where a page ends. */
static float reading(const float *p, ptrdiff_t n)
{
    const ptrdiff_t apart = n / 4;
#if PRESK_VECTORS
    enum { lanes = PRESK_VECTOR_BYTES / 4, vectors = 64 / PRESK_VECTOR_BYTES };
    presk_f32_vector s[4 * vectors] = {{0}}, x;
    for (ptrdiff_t i = 0; i < apart; i += 16) {
        for (int j = 0; j < 4 * vectors; j++) {
            memcpy(&x, p + j / vectors * apart + i + j % vectors * lanes, sizeof x);
            s[j] += x;
        }
    }
    for (int j = 1; j < 4 * vectors; j++) {
        s[0] += s[j];
    }
    return s[0][0];
#else
    float s[16] = {0};
    for (ptrdiff_t i = 0; i < apart; i += 4) {
        for (int j = 0; j < 16; j++) {
            s[j] += p[j / 4 * apart + i + j % 4];
        }
    }
    return s[0];
#endif
}

static double wall(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(void)
{
    const int threads = presk_threads();
    float *const words = memory((size_t)WORDS * sizeof *words);
    double rates[ROUNDS], reads[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        double rate = 0;
#if defined(_OPENMP)
#pragma omp parallel for schedule(static, 1) num_threads(threads) reduction(+ : rate)
#endif
        for (int t = 0; t < threads; t++) {
            double work = 0, spent = 0, done = 0;
            for (int i = 0; i < 20; i++) {
                spent += peak(&work);
                done += work;
            }
            rate += done / spent;
        }
        rates[r] = rate;
        const ptrdiff_t part = WORDS / threads / 256 * 256;
        const double start = wall();
#if defined(_OPENMP)
#pragma omp parallel for schedule(static, 1) num_threads(threads)
#endif
        for (int t = 0; t < threads; t++) {
            sink = reading(words + t * part, part);
        }
        reads[r] = (double)part * threads * sizeof *words / (wall() - start);
    }
    printf("%.6g %.6g\\n", median(rates, ROUNDS), median(reads, ROUNDS));
    return 0;
}
"""
)
"""Prints multiplications and additions a second, and bytes read a second, of as many threads as OpenMP has."""


@dataclass(frozen=True)
class Limits:
    """The machine's, for some number of threads: f32 operations and bytes read from memory, a second."""

    operations: float
    bytes: float


def limits_from(said: str) -> Limits:
    """What the program's line says."""
    operations, read = map(float, said.split())
    return Limits(operations, read)
