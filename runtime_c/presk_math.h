/* Correctly rounded exp, expm1, log, log1p, tanh, sin, cos, erf, sigmoid, silu and gelu, in f32 and f64.
 *
 * presk_NAME_f32(x) and presk_NAME_f64(x) return the real value NAME(x) rounded once to nearest, ties to even, for
 * every x: overflow gives an infinity, small results keep their subnormal bits, a zero has the sign of the limit, NaN
 * gives NaN (its payload is not defined). sigmoid(x) = 1 / (1 + exp(-x)), silu(x) = x sigmoid(x),
 * gelu(x) = x Phi(x) with Phi the normal distribution function.
 *
 * The f32 functions compute in f64 with an error of a few ulps of f64 and round at the end; all 2**32 inputs of each
 * were compared with the exact value. They have no branch, so loops over them become vector code; but sin and cos
 * branch to a function of their own from 2**27 on.
 * Needs IEEE arithmetic, rounding to nearest, no contraction of a * b + c, and FLT_EVAL_METHOD 0.
 */
#ifndef PRESK_MATH_H
#define PRESK_MATH_H

#include <float.h>
#include <stdint.h>
#include <string.h>

#include "presk_math_poly.h"
#include "presk_rt.h"

#if defined(__FAST_MATH__)
#error "presk: compile without -ffast-math, it changes the results"
#endif
#if !defined(FLT_EVAL_METHOD) || FLT_EVAL_METHOD != 0
#error "presk: this target evaluates float or double in a wider type (x87?), which changes the results"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

/* --- f64: presk_math.c --------------------------------------------------------------------------------------- */

double presk_exp_f64(double x);
double presk_expm1_f64(double x);
double presk_log_f64(double x);
double presk_log1p_f64(double x);
double presk_tanh_f64(double x);
double presk_sin_f64(double x);
double presk_cos_f64(double x);
double presk_erf_f64(double x);
double presk_sigmoid_f64(double x);
double presk_silu_f64(double x);
double presk_gelu_f64(double x);

/* --- square root: exact by IEEE 754; the builtin is one instruction where there is one ------------------------- */

#if defined(__GNUC__)
static inline float presk_sqrt_f32(float x) { return __builtin_sqrtf(x); }
static inline double presk_sqrt_f64(double x) { return __builtin_sqrt(x); }
#else
#include <math.h>
static inline float presk_sqrt_f32(float x) { return sqrtf(x); }
static inline double presk_sqrt_f64(double x) { return sqrt(x); }
#endif

/* --- bits and selects: a comparison becomes a mask, because a `c ? a : b` on doubles stops gcc's vectorizer ----
 *
 * What the f32 functions compare are floats, also where doubles are chosen: with SSE2 alone gcc has no masks of 64 bits
 * from comparisons, and of floats there are twice as many lanes. */

static inline double presk_from_bits_f64(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* All ones where c holds, else 0. */
static inline uint32_t presk_mask(int c) { return (uint32_t)0 - (uint32_t)c; }

/* The mask of 64 bits. */
static inline uint64_t presk_wide_mask(uint32_t mask) { return (uint64_t)mask << 32 | mask; }

/* a where the mask is all ones, b where it is 0. */
static inline double presk_select(uint64_t mask, double a, double b)
{
    return presk_from_bits_f64((presk_bits_f64(a) & mask) | (presk_bits_f64(b) & ~mask));
}

static inline float presk_math_select_f32(uint32_t mask, float a, float b)
{
    uint32_t u, v;
    memcpy(&u, &a, sizeof u);
    memcpy(&v, &b, sizeof v);
    u = (u & mask) | (v & ~mask);
    memcpy(&a, &u, sizeof a);
    return a;
}

/* The larger of x and low, the smaller of x and high; a NaN x stays. */
static inline float presk_at_least_f32(float x, float low)
{
    return presk_math_select_f32(presk_mask(x < low), low, x);
}

static inline float presk_at_most_f32(float x, float high)
{
    return presk_math_select_f32(presk_mask(x > high), high, x);
}

static inline double presk_clamp(float x, float low, float high)
{
    return (double)presk_at_most_f32(presk_at_least_f32(x, low), high);
}

static inline float presk_magnitude_f32(float x) { return presk_f32_from_bits(presk_bits_f32(x) & 0x7fffffffu); }
static inline double presk_abs_f64(double x) { return presk_from_bits_f64(presk_bits_f64(x) & 0x7fffffffffffffffu); }

/* r, of sign + or of x's sign already, with x's sign. */
static inline double presk_with_sign(double r, double x)
{
    return presk_from_bits_f64(presk_bits_f64(r) | (presk_bits_f64(x) & 0x8000000000000000u));
}

/* r with x's sign, and a little above it where |x| < 2**-100: there r = x / 2, silu and gelu lie just above that, and
 * it may be a tie of f32's subnormals. */
static inline double presk_nudged_half(double r, float x)
{
    float a = presk_magnitude_f32(x);
    double step = (double)presk_math_select_f32(presk_mask(a < 0x1p-100f), a, 0.0f) * 0x1p-52;
    return presk_with_sign(r + step, (double)x);
}

/* What sum = a + b has lost to rounding (Knuth). */
static inline double presk_sum_lost(double a, double b, double sum)
{
    double big = sum - b;
    return (a - big) + (b - (sum - big));
}

/* a + b rounded to odd: where it is inexact the last bit is 1, so that rounding it again, to f32, rounds the real
 * sum. Requires that nothing overflows. */
static inline double presk_add_to_odd(double a, double b)
{
    double sum = a + b, lost = presk_sum_lost(a, b, sum);
    uint64_t u = presk_bits_f64(sum);
    uint64_t large = (uint64_t)0 - ((presk_bits_f64(lost) ^ u) >> 63); /* the magnitude was rounded up */
    uint64_t twice = presk_bits_f64(lost) << 1, inexact = (twice | ((uint64_t)0 - twice)) >> 63;
    return presk_from_bits_f64(u + ((large | 1u) & ((uint64_t)0 - (inexact & ~u))));
}

/* --- the exponential of a double, split: e**x = s (1 + p) with s a power of two ------------------------------- */

#define PRESK_SHIFTER 0x1.8p+52 /* adding and subtracting it rounds to an integer */
#define PRESK_LOG2_E 0x1.71547652b82fep+0
#define PRESK_LN2 0x1.62e42fefa39efp-1
#define PRESK_LN2_HIGH 0x1.62e42fefap-1 /* 35 bits: k * PRESK_LN2_HIGH is exact for |k| < 2**18 */
#define PRESK_LN2_LOW 0x1.cf79abc9e3b3ap-40

/* Requires |x| <= 708. s = 2**k, r = x - k ln 2, |r| < 0.3466. */
static inline void presk_exp_reduced(double x, double *s, double *r)
{
    double shifted = x * PRESK_LOG2_E + PRESK_SHIFTER, k = shifted - PRESK_SHIFTER;
    *r = (x - k * PRESK_LN2_HIGH) - k * PRESK_LN2_LOW;
    *s = presk_from_bits_f64((presk_bits_f64(shifted) + 1023u) << 52);
}

/* r coth r, |r| < 0.1733, relative error below 2**-49.6: e**2r is this plus r over this minus r. */
static inline double presk_r_coth_r(double r)
{
    double z = r * r;
    return 1.0 + z * presk_poly_coth(z);
}

/* s e**r for |r| < 0.3466, relative error below 2**-51: with h = r / 2, e**r - 1 = 2 h / (h coth h - h). */
static inline double presk_exp_scaled(double s, double r)
{
    double h = 0.5 * r, z = h * h;
    return s + s * (r / ((1.0 - h) + z * presk_poly_coth(z)));
}

/* e**x, |x| <= 708, relative error below 2**-51. */
static inline double presk_exp_near(double x)
{
    double s, r;
    presk_exp_reduced(x, &s, &r);
    return presk_exp_scaled(s, r);
}

/* e**x - 1, |x| <= 708, relative error below 2**-51; the zero's sign is lost. */
static inline double presk_expm1_near(double x)
{
    double s, r;
    presk_exp_reduced(x, &s, &r);
    return (s - 1.0) + s * (r + r * r * presk_poly_exp(r));
}

/* Requires |x| <= 708. s = 2**k and r with e**-x = s e**2r, |r| < 0.1733. */
static inline void presk_logistic_reduced(double x, double *s, double *r)
{
    double shifted = x * -PRESK_LOG2_E + PRESK_SHIFTER, k = shifted - PRESK_SHIFTER;
    *r = (-0.5 * x - k * (0.5 * PRESK_LN2_HIGH)) - k * (0.5 * PRESK_LN2_LOW);
    *s = presk_from_bits_f64((presk_bits_f64(shifted) + 1023u) << 52);
}

/* a / (1 + s e**2r) */
static inline double presk_logistic(double a, double s, double r)
{
    double c = presk_r_coth_r(r), below = c - r;
    return a * below / (below + s * (c + r));
}

/* Phi(-a) for 0 <= a <= 14.75, a of 24 bits, relative error below 2**-50. a * a is exact. */
static inline double presk_phi_tail(double a)
{
    double t = (a - 5.0) / (a + 5.0);
    return presk_exp_near(-0.5 * (a * a)) * presk_poly_mills(t) / (a + 5.0);
}

/* --- f32 ------------------------------------------------------------------------------------------------------ */

/* exp, tanh, sigmoid and silu are two steps: the argument's reduction to a power of two s and a small r, and the rest.
 * So a loop over many elements can be two, whose chains of dependent operations are half as long: presk_math_each.h. */

static inline void presk_exp_f32_reduced(float x, double *s, double *r)
{
    presk_exp_reduced(presk_clamp(x, -104.0f, 89.0f), s, r);
}

static inline float presk_exp_f32_finished(float x, double s, double r)
{
    (void)x;
    return (float)presk_exp_scaled(s, r);
}

static inline float presk_expm1_f32(float x)
{
    return (float)presk_with_sign(presk_expm1_near(presk_clamp(x, -40.0f, 89.0f)), (double)x);
}

/* s is half the power of two: |x| = k ln 2 / 2 + r, s = 2**(k - 1). For k > 2 rounding k ln 2 / 2 moves r, but there
 * tanh is flat. */
static inline void presk_tanh_f32_reduced(float x, double *s, double *r)
{
    double a = (double)presk_at_most_f32(presk_magnitude_f32(x), 10.0f);
    double shifted = a * (2.0 * PRESK_LOG2_E) + PRESK_SHIFTER, k = shifted - PRESK_SHIFTER;
    *r = a - k * (PRESK_LN2 / 2.0);
    *s = presk_from_bits_f64((presk_bits_f64(shifted) + 1022u) << 52);
}

/* With c = r coth r, e**2|x| = 2 s (c + r) / (c - r), so that tanh |x| is the quotient of 2 s (c + r) - (c - r) and
 * 2 s (c + r) + (c - r), here halved. */
static inline float presk_tanh_f32_finished(float x, double s, double r)
{
    double c = presk_r_coth_r(r), n = (s - 0.5) * c + (s + 0.5) * r;
    uint32_t u = presk_bits_f32((float)(n / (n + (c - r))));
    return presk_f32_from_bits(u | (presk_bits_f32(x) & 0x80000000u));
}

static inline void presk_sigmoid_f32_reduced(float x, double *s, double *r)
{
    presk_logistic_reduced(presk_clamp(x, -105.0f, 40.0f), s, r);
}

static inline float presk_sigmoid_f32_finished(float x, double s, double r)
{
    /* 1/2 + x/4 - x**3/48: where the last term is below f64's precision, the first two may be a tie of f32. One other
     * input, found by the check, is decided by the last bit and moves the same way. */
    uint32_t hard = presk_mask((x > -0x1p-15f) & (x < 0x1p-15f)) | presk_mask(x == -0x1.250c02p-10f);
    float step = presk_math_select_f32(presk_mask(x < 0.0f), -0x1p-52f, 0x1p-52f);
    return (float)(presk_logistic(1.0, s, r) - (double)presk_math_select_f32(hard, step, 0.0f));
}

static inline void presk_silu_f32_reduced(float x, double *s, double *r)
{
    presk_logistic_reduced(presk_clamp(x, -112.0f, 60.0f), s, r);
}

static inline float presk_silu_f32_finished(float x, double s, double r)
{
    float above = presk_at_least_f32(x, -112.0f);
    return (float)presk_nudged_half(presk_logistic((double)above, s, r), above);
}

#define PRESK_IN_TWO_STEPS(NAME)                                                                                      \
    static inline float presk_##NAME##_f32(float x)                                                                   \
    {                                                                                                                 \
        double s, r;                                                                                                  \
        presk_##NAME##_f32_reduced(x, &s, &r);                                                                        \
        return presk_##NAME##_f32_finished(x, s, r);                                                                  \
    }
PRESK_IN_TWO_STEPS(exp)
PRESK_IN_TWO_STEPS(tanh)
PRESK_IN_TWO_STEPS(sigmoid)
PRESK_IN_TWO_STEPS(silu)

static inline float presk_gelu_f32(float x)
{
    float above = presk_at_least_f32(x, -14.75f), a = presk_magnitude_f32(above);
    double q = presk_phi_tail((double)presk_at_most_f32(a, 14.75f));
    double phi = presk_select(presk_wide_mask(presk_mask(above > 0.0f)), 1.0 - q, q);
    float hard = presk_math_select_f32(presk_mask(a == 0x1.6148dep-16f), 0x1p-68f, 0.0f); /* found likewise */
    return (float)presk_nudged_half((double)above * phi - (double)hard, above);
}

#define PRESK_2_SQRTPI_HIGH 0x1.20dd75p+0 /* 2 / sqrt(pi): 25 bits, whose product with an f32 is exact, and the rest */
#define PRESK_2_SQRTPI_LOW 0x1.0a6db446b8ea4p-30

static inline float presk_erf_f32(float x)
{
    float most = presk_at_most_f32(presk_magnitude_f32(x), 4.0f);
    double a = (double)most, z = a * a;
    double near = a * PRESK_2_SQRTPI_HIGH + a * (PRESK_2_SQRTPI_LOW + z * presk_poly_erf(z));
    double b = a + 2.0, far = 1.0 - presk_exp_near(-z) * presk_poly_erfc((a - 2.0) / b) / b;
    double r = presk_select(presk_wide_mask(presk_mask(most < 0.875f)), near, far);
    return (float)presk_with_sign(r, (double)x);
}

/* k log 2 + log(1 + f), sqrt(1/2) <= 1 + f < sqrt(2), k an integer: rounded to odd, with an error before that below
 * 2**-54 of the result. log(1 + f) = f - (h - s (h + z p(z))) with h = f f / 2, s = f / (2 + f), z = s s. */
static inline double presk_log_sum(double k, double f)
{
    double h = 0.5 * (f * f), s = f / (2.0 + f), z = s * s;
    double c = h - (s * (h + z * presk_poly_log(z)) + k * PRESK_LN2_LOW);
    double a = k * PRESK_LN2_HIGH, sum = a + f, lost = f - (sum - a); /* exact: a = 0 or |a| > |f| */
    return presk_add_to_odd(sum, lost - c);
}

/* k and m of u = 2**k m, sqrt(1/2) <= m < sqrt(2), for a positive normal u. */
static inline void presk_log_split(double u, double *k, double *m)
{
    uint64_t t = presk_bits_f64(u) - 0x3fe6a09e00000000u + 0x4000000000000000u; /* exponent k + 1024 */
    *k = presk_from_bits_f64((t >> 52) | 0x4330000000000000u) - (0x1p+52 + 1024.0);
    *m = presk_from_bits_f64((t & 0x000fffffffffffffu) + 0x3fe6a09e00000000u);
}

/* r rounded for 0 < u < infinity, else log's value at u: -infinity at 0, infinity, NaN. */
static inline float presk_log_edges(double r, float u)
{
    const float infinity = presk_f32_from_bits(0x7f800000u), nan = presk_f32_from_bits(0x7fc00000u);
    float y = presk_math_select_f32(presk_mask(u > 0.0f), (float)r, nan);
    y = presk_math_select_f32(presk_mask(u == 0.0f), -infinity, y);
    return presk_math_select_f32(presk_mask(u == infinity), infinity, y);
}

static inline float presk_log_f32(float x)
{
    double k, m;
    presk_log_split((double)x, &k, &m);
    return presk_log_edges(presk_log_sum(k, m - 1.0), x);
}

static inline float presk_log1p_f32(float x)
{
    double d = (double)x, u = 1.0 + d, k, m; /* u is exact, or k = 0 and f = x, or rounding it changes nothing */
    presk_log_split(u, &k, &m);
    double f = presk_select(presk_wide_mask(presk_mask((float)k == 0.0f)), d, m - 1.0);
    float y = presk_log_edges(presk_log_sum(k, f), (float)u);
    return presk_math_select_f32(presk_mask(x == 0.0f), x, y);
}

#define PRESK_2_PI 0x1.45f306dc9c883p-1 /* 2 / pi */
#define PRESK_PI_2_A 0x1.921fb5p+0      /* pi / 2 in four parts; k times each of the first three is exact, k < 2**27 */
#define PRESK_PI_2_B 0x1.110b46p-26
#define PRESK_PI_2_C 0x1.1a6263p-54
#define PRESK_PI_2_D 0x1.8a2e03707344ap-81

/* sin(high + low) where odd is 0, cos where it is all ones; negated where negate is 0x8000000000000000, not 0.
 * Requires |high| <= 0.7855 and |low| <= |high| 2**-53. Rounded to odd, error before that below 2**-56. */
static inline double presk_sin_or_cos(double high, double low, uint64_t odd, uint64_t negate)
{
    double z = high * high, h = 0.5 * z, w = 1.0 - h;
    double sine = low + high * z * presk_poly_sin(z);
    double cosine = ((1.0 - w) - h) + (z * z * presk_poly_cos(z) - high * low);
    double r = presk_add_to_odd(presk_select(odd, w, high), presk_select(odd, cosine, sine));
    return presk_from_bits_f64(presk_bits_f64(r) ^ negate);
}

/* sin(x + quarters pi / 2), |x| < 2**27. */
static inline float presk_sin_quarters(float x, uint64_t quarters)
{
    double d = (double)x, shifted = d * PRESK_2_PI + PRESK_SHIFTER, k = shifted - PRESK_SHIFTER;
    double r = (d - k * PRESK_PI_2_A) - k * PRESK_PI_2_B; /* exact */
    double c = k * PRESK_PI_2_C, high = r - c, low = ((r - high) - c) - k * PRESK_PI_2_D;
    uint64_t q = presk_bits_f64(shifted) + quarters;
    return (float)presk_sin_or_cos(high, low, (uint64_t)0 - (q & 1u), (q & 2u) << 62);
}

/* sin and cos for 2**27 <= |x|, infinities and NaN: presk_math_reduce.c. */
float presk_sin_f32_far(float x);
float presk_cos_f32_far(float x);

static inline float presk_sin_f32(float x)
{
    if (!(presk_abs_f64((double)x) < 0x1p+27)) return presk_sin_f32_far(x);
    return presk_math_select_f32(presk_mask(x == 0.0f), x, presk_sin_quarters(x, 0));
}

static inline float presk_cos_f32(float x)
{
    if (!(presk_abs_f64((double)x) < 0x1p+27)) return presk_cos_f32_far(x);
    return presk_sin_quarters(x, 1);
}

#endif
