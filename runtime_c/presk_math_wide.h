/* Double-double arithmetic for presk_math*.c: an unevaluated sum high + low, |low| <= ulp(high) / 2. Private. */
#ifndef PRESK_MATH_WIDE_H
#define PRESK_MATH_WIDE_H

#include "presk_math.h"

struct presk_dd {
    double high, low;
};

static inline struct presk_dd presk_dd_of(double high, double low)
{
    struct presk_dd r = {high, low};
    return r;
}

/* a + b exactly; requires |a| >= |b| or a = 0 (Dekker). */
static inline struct presk_dd presk_dd_fast_sum(double a, double b)
{
    double s = a + b;
    return presk_dd_of(s, b - (s - a));
}

/* a + b exactly (Knuth). */
static inline struct presk_dd presk_dd_sum(double a, double b)
{
    double s = a + b, t = s - a;
    return presk_dd_of(s, (a - (s - t)) + (b - t));
}

/* a * b exactly (Dekker, Veltkamp); requires |a|, |b| < 2**995 and the product's last bit above 2**-1074. */
static inline struct presk_dd presk_dd_product(double a, double b)
{
    double ca = 134217729.0 * a, ah = ca - (ca - a), al = a - ah;
    double cb = 134217729.0 * b, bh = cb - (cb - b), bl = b - bh;
    double p = a * b;
    return presk_dd_of(p, ((ah * bh - p) + ah * bl + al * bh) + al * bl);
}

/* a + b, relative error below 2**-103 unless they cancel. */
static inline struct presk_dd presk_dd_plus(struct presk_dd a, struct presk_dd b)
{
    struct presk_dd s = presk_dd_sum(a.high, b.high);
    return presk_dd_fast_sum(s.high, s.low + (a.low + b.low));
}

/* a * b, relative error below 2**-102. */
static inline struct presk_dd presk_dd_times(struct presk_dd a, struct presk_dd b)
{
    struct presk_dd p = presk_dd_product(a.high, b.high);
    return presk_dd_fast_sum(p.high, p.low + (a.high * b.low + a.low * b.high));
}

/* a / b, relative error below 2**-101. */
static inline struct presk_dd presk_dd_over(struct presk_dd a, struct presk_dd b)
{
    double q = a.high / b.high;
    struct presk_dd p = presk_dd_product(q, b.high);
    double rest = ((a.high - p.high) - p.low + a.low) - q * b.low;
    return presk_dd_fast_sum(q, rest / b.high);
}

/* x modulo pi / 2 as high + low in [-pi / 4, pi / 4], relative error below 2**-100, for a finite |x| >= 2**20.
 * Returns the quarter turns taken away, modulo 4. */
unsigned presk_reduce(double x, double *high, double *low);

/* A value just above x / 2, rounded: a tie, the half of an odd subnormal, goes towards +infinity. */
double presk_half_up(double x);

/* The certain results: presk_math_slow.c. For what presk_math.c passes on: a finite x, not 0, between the bounds that it
 * tests (|x| < 746 for exp, -40 < x < 10 for gelu); beyond them the natural numbers would grow too long. */
double presk_exp_slow(double x);
double presk_expm1_slow(double x);
double presk_log_slow(double x);
double presk_log1p_slow(double x);
double presk_tanh_slow(double x);
double presk_sin_slow(double x);
double presk_cos_slow(double x);
double presk_erf_slow(double x);
double presk_sigmoid_slow(double x);
double presk_silu_slow(double x);
double presk_gelu_slow(double x);

#endif
