/* presk_probe.h: tells whether the file that includes it is compiled so that products and sums keep their bits.
 *
 * Flags may differ from file to file, so the probe is a static function: presk_rt.c calls it for the runtime, and a
 * file of kernels can include it and export its own answer. Operands are read through volatile, so that nothing is
 * computed by the compiler; the arithmetic has the form in which kernels are written.
 */
#ifndef PRESK_PROBE_H
#define PRESK_PROBE_H

#include "presk_rt.h"

#define PRESK_PROBE_LANES 16

/* f32: a = 1 + 2^-13, a*a = 1 + 2^-12 + 2^-26, of which rounding drops the last term: the sum with -(1 + 2^-12) is 0
 * in two steps and 2^-26 in one. True if fused. Loops, so that a vectorized form is probed as well. */
static inline bool presk_probe_fused_f32(void)
{
    volatile float factor = 0x1.0008p+0f;
    volatile float start = -0x1.001p+0f;
    float a[PRESK_PROBE_LANES], b[PRESK_PROBE_LANES], acc[PRESK_PROBE_LANES];
    bool fused = false;
    for (int j = 0; j < PRESK_PROBE_LANES; j++) {
        a[j] = factor;
        b[j] = factor;
        acc[j] = start;
    }
    for (int j = 0; j < PRESK_PROBE_LANES; j++) {
        acc[j] = acc[j] + a[j] * b[j];
    }
    for (int j = 0; j < PRESK_PROBE_LANES; j++) {
        fused |= acc[j] != 0.0f;
    }
    float x = start;
    x += factor * factor;
    return fused || x != 0.0f;
}

/* f64: the same with a = 1 + 2^-30, a*a = 1 + 2^-29 + 2^-60. */
static inline bool presk_probe_fused_f64(void)
{
    volatile double factor = 0x1.00000004p+0;
    volatile double start = -0x1.00000008p+0;
    double a[PRESK_PROBE_LANES], b[PRESK_PROBE_LANES], acc[PRESK_PROBE_LANES];
    bool fused = false;
    for (int j = 0; j < PRESK_PROBE_LANES; j++) {
        a[j] = factor;
        b[j] = factor;
        acc[j] = start;
    }
    for (int j = 0; j < PRESK_PROBE_LANES; j++) {
        acc[j] = acc[j] + a[j] * b[j];
    }
    for (int j = 0; j < PRESK_PROBE_LANES; j++) {
        fused |= acc[j] != 0.0;
    }
    double x = start;
    x += factor * factor;
    return fused || x != 0.0;
}

/* True if a loop that may be vectorized flushes a subnormal product, 2^-126 / 2, or compares 2^-127 as zero, which
 * clang for 32-bit Arm does in loops whose extent it does not know. */
static inline bool presk_probe_loop_flushes(void)
{
    volatile float least = 0x1p-126f;
    volatile float half = 0.5f;
    volatile int lanes = PRESK_PROBE_LANES;
    float x[PRESK_PROBE_LANES], y[PRESK_PROBE_LANES];
    uint32_t above[PRESK_PROBE_LANES];
    bool flushed = false;
    int n = lanes;
    for (int j = 0; j < PRESK_PROBE_LANES; j++) {
        x[j] = least;
        y[j] = half;
    }
    for (int j = 0; j < PRESK_PROBE_LANES; j++) {
        x[j] = x[j] * y[j];
    }
    for (int j = 0; j < PRESK_PROBE_LANES; j++) {
        flushed |= presk_bits_f32(x[j]) != UINT32_C(0x00400000);
        y[j] = 0.0f * half;
    }
    for (int j = 0; j < n; j++) {
        above[j] = x[j] > y[j] ? 1 : 0;
    }
    for (int j = 0; j < PRESK_PROBE_LANES; j++) {
        flushed |= above[j] != 1;
    }
    return flushed;
}

/* Vector types may have rules of their own (see PRESK_VECTORS). */
#if PRESK_VECTORS
typedef float presk_probe_vector __attribute__((vector_size(16)));

static inline bool presk_probe_vector_flushes(void)
{
    volatile float least = 0x1p-126f;
    volatile float half = 0.5f;
    presk_probe_vector x = {least, least, least, least};
    presk_probe_vector y = {half, half, half, half};
    x = x * y;
    return presk_bits_f32(x[0]) != UINT32_C(0x00400000) || presk_bits_f32(x[3]) != UINT32_C(0x00400000);
}

static inline bool presk_probe_vector_fused(void)
{
    volatile float factor = 0x1.0008p+0f;
    volatile float start = -0x1.001p+0f;
    presk_probe_vector a = {factor, factor, factor, factor};
    presk_probe_vector acc = {start, start, start, start};
    acc += a * a;
    return acc[0] != 0.0f || acc[3] != 0.0f;
}
#else
static inline bool presk_probe_vector_flushes(void) { return false; }
static inline bool presk_probe_vector_fused(void) { return false; }
#endif

/* True if sums are rearranged, quotients made products with a reciprocal, or the sign of a zero lost: what parts of
 * -ffast-math do of which clang defines no macro. (1 + 2^-26) - 1 is 0 in order; 3/7 and 1/7 * 3 differ by a unit;
 * -0 + 0 is +0. Loops, as a reciprocal pays only where a divisor is used again. */
static inline bool presk_probe_rearranges(void)
{
    volatile float one = 1.0f, small = 0x1p-26f, minus = -0.0f, divisor = 7.0f, quotient = 0x1.b6db6ep-2f;
    float a = one, b = small, zero = minus, d = divisor;
    float x[PRESK_PROBE_LANES];
    bool changed = (a + b) - a != 0.0f || presk_bits_f32(zero + 0.0f) != 0;
    for (int j = 0; j < PRESK_PROBE_LANES; j++) {
        x[j] = one * 3.0f;
    }
    for (int j = 0; j < PRESK_PROBE_LANES; j++) {
        x[j] = x[j] / d;
    }
    for (int j = 0; j < PRESK_PROBE_LANES; j++) {
        changed |= x[j] != quotient;
    }
    return changed;
}

/* NULL if good, else a one-line reason. Pre: rounding is to nearest (presk_rt_probe asks that first). */
static inline const char *presk_probe_unit(void)
{
    if (presk_probe_fused_f32() || presk_probe_vector_fused()) {
        return "float products are contracted into fused multiply-adds; build with -ffp-contract=off";
    }
    if (presk_probe_fused_f64()) {
        return "double products are contracted into fused multiply-adds; build with -ffp-contract=off";
    }
    if (presk_probe_rearranges()) {
        return "sums are rearranged or quotients replaced; build without -funsafe-math-optimizations and its parts";
    }
    if (presk_probe_loop_flushes()) {
        return "loops flush subnormal numbers to zero; build without vectorization for this machine";
    }
    if (presk_probe_vector_flushes()) {
        return "float vectors flush subnormal numbers to zero; build without vector types for this machine";
    }
    return NULL;
}

#endif /* PRESK_PROBE_H */
