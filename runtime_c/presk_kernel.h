/* presk_kernel.h: what the functions of kernels call beyond arithmetic: sums of lanes, fused multiply-add, integers.
 *
 * Everything here is exact or rounds once. Integers wrap around. See presk_rt.h for casts and keys, presk_math.h for
 * the functions of real numbers.
 */
#ifndef PRESK_KERNEL_H
#define PRESK_KERNEL_H

#include "presk_math_each.h"
#include "presk_rt.h"

#include "presk_attention.h"
#include "presk_late.h"
#include "presk_product.h"
#include "presk_routine.h"
#include "presk_threads.h"

#define PRESK_LANES 32 /* of a long sum */

/* The sum of 32 lanes: halves are added, lane[j] += lane[j + w] for w = 16, 8, 4, 2, 1. */
#if PRESK_VECTORS
#define PRESK_LANES_SUM(NAME, TYPE, BYTES)                                                                            \
    static inline TYPE NAME(const TYPE lane[PRESK_LANES])                                                             \
    {                                                                                                                 \
        typedef TYPE quarter __attribute__((__vector_size__(BYTES)));                                                 \
        quarter v[8];                                                                                                 \
        memcpy(v, lane, sizeof v);                                                                                    \
        const quarter sum = ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));                        \
        return (sum[0] + sum[2]) + (sum[1] + sum[3]);                                                                 \
    }
#else
#define PRESK_LANES_SUM(NAME, TYPE, BYTES)                                                                            \
    static inline TYPE NAME(const TYPE lane[PRESK_LANES])                                                             \
    {                                                                                                                 \
        TYPE sum[PRESK_LANES];                                                                                        \
        memcpy(sum, lane, sizeof sum);                                                                                \
        for (int w = PRESK_LANES / 2; w > 0; w /= 2) {                                                                \
            for (int j = 0; j < w; j++) {                                                                             \
                sum[j] += sum[j + w];                                                                                 \
            }                                                                                                         \
        }                                                                                                             \
        return sum[0];                                                                                                \
    }
#endif
PRESK_LANES_SUM(presk_lanes_f32, float, 16)
PRESK_LANES_SUM(presk_lanes_f64, double, 32)

/* The largest of 32 keys. */
#define PRESK_LANES_LARGEST(NAME, TYPE)                                                                               \
    static inline TYPE NAME(const TYPE key[PRESK_LANES])                                                              \
    {                                                                                                                 \
        TYPE most[8];                                                                                                 \
        for (int j = 0; j < 8; j++) {                                                                                 \
            const TYPE a = key[j] > key[j + 8] ? key[j] : key[j + 8];                                                 \
            const TYPE b = key[j + 16] > key[j + 24] ? key[j + 16] : key[j + 24];                                     \
            most[j] = a > b ? a : b;                                                                                  \
        }                                                                                                             \
        TYPE largest = most[0];                                                                                       \
        for (int j = 1; j < 8; j++) {                                                                                 \
            largest = most[j] > largest ? most[j] : largest;                                                          \
        }                                                                                                             \
        return largest;                                                                                               \
    }
PRESK_LANES_LARGEST(presk_largest_f32, int32_t)
PRESK_LANES_LARGEST(presk_largest_f64, int64_t)

/* --- Integers that wrap around --------------------------------------------------------------------------------- */

static inline int64_t presk_i64_from_bits(uint64_t u)
{
    int64_t i;
    memcpy(&i, &u, sizeof i);
    return i;
}

static inline int64_t presk_add_i64(int64_t a, int64_t b)
{
    return presk_i64_from_bits((uint64_t)a + (uint64_t)b);
}

static inline int64_t presk_sub_i64(int64_t a, int64_t b)
{
    return presk_i64_from_bits((uint64_t)a - (uint64_t)b);
}

static inline int64_t presk_mul_i64(int64_t a, int64_t b)
{
    return presk_i64_from_bits((uint64_t)a * (uint64_t)b);
}

static inline int64_t presk_neg_i64(int64_t a)
{
    return presk_i64_from_bits(UINT64_C(0) - (uint64_t)a);
}

/* --- Floats ---------------------------------------------------------------------------------------------------- */

static inline float presk_abs_f32(float x)
{
    return presk_f32_from_bits(presk_bits_f32(x) & UINT32_C(0x7fffffff));
}

/* condition ? a : b, by a mask of integers: loops with a `?:` of floats do not become vector code everywhere. */
static inline float presk_select_f32(int condition, float a, float b)
{
    const uint32_t mask = UINT32_C(0) - (uint32_t)(condition != 0);
    return presk_f32_from_bits((presk_bits_f32(a) & mask) | (presk_bits_f32(b) & ~mask));
}

static inline double presk_select_f64(int condition, double a, double b)
{
    const uint64_t mask = UINT64_C(0) - (uint64_t)(condition != 0);
    return presk_f64_from_bits((presk_bits_f64(a) & mask) | (presk_bits_f64(b) & ~mask));
}

/* a * b + c rounded once. The product is exact in f64; the sum is rounded to odd there, and then to f32. */
static inline float presk_fma_f32(float a, float b, float c)
{
    double p = (double)a * (double)b, d = (double)c;
    double s = p + d, t = s - p;
    double error = (p - (s - t)) + (d - t); /* a NaN where s is not finite: no comparison with it holds */
    uint64_t u = presk_bits_f64(s);
    uint64_t odd = (uint64_t)(error > 0.0 || error < 0.0) & ~u; /* 1 where s is inexact and even */
    uint64_t away = (uint64_t)((error > 0.0) == (s > 0.0));
    return (float)presk_f64_from_bits(u + odd * (2 * away - 1));
}

typedef struct presk_u128 {
    uint64_t high, low;
} presk_u128;

static inline presk_u128 presk_u128_shifted_left(presk_u128 x, int n)
{
    if (n >= 64) {
        return (presk_u128){x.low << (n - 64), 0};
    }
    return n == 0 ? x : (presk_u128){x.high << n | x.low >> (64 - n), x.low << n};
}

/* x >> n with the lowest bit set if any bit was lost. */
static inline presk_u128 presk_u128_shifted_right(presk_u128 x, int n)
{
    if (n == 0) {
        return x;
    }
    if (n >= 128) {
        return (presk_u128){0, (x.high | x.low) != 0};
    }
    if (n >= 64) {
        uint64_t lost = x.low | (n == 64 ? 0 : x.high << (128 - n));
        return (presk_u128){0, x.high >> (n - 64) | (lost != 0)};
    }
    return (presk_u128){x.high >> n, x.high << (64 - n) | x.low >> n | (x.low << (64 - n) != 0)};
}

/* The product of two integers below 2^53. */
static inline presk_u128 presk_u128_product(uint64_t a, uint64_t b)
{
    uint64_t al = a & UINT32_MAX, ah = a >> 32, bl = b & UINT32_MAX, bh = b >> 32;
    uint64_t middle = ah * bl + al * bh + (al * bl >> 32);
    return (presk_u128){ah * bh + (middle >> 32), middle << 32 | (al * bl & UINT32_MAX)};
}

/* Of a finite x that is not zero: |x| = m * 2^e with 2^52 <= m < 2^53. */
static inline uint64_t presk_mantissa_f64(double x, int *e)
{
    uint64_t u = presk_bits_f64(x), m = u & UINT64_C(0xfffffffffffff);
    int biased = (int)(u >> 52 & 0x7ff);
    *e = (biased == 0 ? 1 : biased) - 1075;
    m |= (uint64_t)(biased != 0) << 52;
    while (m < UINT64_C(1) << 52) {
        m <<= 1;
        (*e)--;
    }
    return m;
}

/* The f64 nearest to x * 2^e, x not zero, whose lowest bit may stand for lower ones. */
static inline double presk_f64_from_u128(presk_u128 x, int e, uint64_t sign)
{
    while (x.high >> 63 == 0) {
        x = presk_u128_shifted_left(x, 1);
        e--;
    }
    uint64_t m = x.high | (x.low != 0);
    int exponent = e + 127; /* 2^exponent <= the value < 2^(exponent + 1) */
    if (exponent > 1023) {
        return presk_f64_from_bits(sign | UINT64_C(0x7ff) << 52);
    }
    int shift = exponent >= -1022 ? 11 : 11 - 1022 - exponent;
    if (shift > 64) {
        return presk_f64_from_bits(sign);
    }
    uint64_t kept = shift == 64 ? 0 : m >> shift;
    uint64_t rest = shift == 64 ? m : m << (64 - shift), half = UINT64_C(1) << 63;
    kept += rest > half || (rest == half && (kept & 1) != 0);
    uint64_t biased = exponent >= -1022 ? (uint64_t)(exponent + 1022) : 0;
    return presk_f64_from_bits(sign | ((biased << 52) + kept));
}

/* a * b + c rounded once, by integers alone. */
static inline double presk_fma_f64_integers(double a, double b, double c)
{
    const uint64_t top = UINT64_C(1) << 63, exponents = UINT64_C(0x7ff) << 52;
    uint64_t ua = presk_bits_f64(a), ub = presk_bits_f64(b), uc = presk_bits_f64(c);
    if ((ua & exponents) == exponents || (ub & exponents) == exponents || (ua & ~top) == 0 || (ub & ~top) == 0) {
        return a * b + c;
    }
    if ((uc & exponents) == exponents) {
        return c;
    }
    if ((uc & ~top) == 0) {
        return a * b;
    }
    int ea, eb, ec;
    uint64_t ma = presk_mantissa_f64(a, &ea), mb = presk_mantissa_f64(b, &eb), mc = presk_mantissa_f64(c, &ec);
    uint64_t sign = (ua ^ ub) & top, opposite = (ua ^ ub ^ uc) & top;
    /* Both with their highest bit at 126 or 125: the product has 105 or 106 bits, c has 53. */
    presk_u128 x = presk_u128_shifted_left(presk_u128_product(ma, mb), 21);
    presk_u128 y = presk_u128_shifted_left((presk_u128){0, mc}, 74);
    int ex = ea + eb - 21, ey = ec - 74;
    if (ex < ey) {
        presk_u128 z = x;
        int ez = ex;
        x = y, ex = ey, y = z, ey = ez;
        sign = uc & top;
    }
    y = presk_u128_shifted_right(y, ex - ey);
    if (opposite == 0) {
        x = (presk_u128){x.high + y.high + (x.low + y.low < x.low), x.low + y.low};
    } else if (x.high > y.high || (x.high == y.high && x.low >= y.low)) {
        x = (presk_u128){x.high - y.high - (x.low < y.low), x.low - y.low};
    } else {
        x = (presk_u128){y.high - x.high - (y.low < x.low), y.low - x.low};
        sign ^= top;
    }
    return (x.high | x.low) == 0 ? 0.0 : presk_f64_from_u128(x, ex, sign);
}

/* The same, by the machine's instruction where there is one. */
static inline double presk_fma_f64(double a, double b, double c)
{
#if defined(__FP_FAST_FMA) && defined(__GNUC__)
    return __builtin_fma(a, b, c);
#else
    return presk_fma_f64_integers(a, b, c);
#endif
}

#endif /* PRESK_KERNEL_H */
