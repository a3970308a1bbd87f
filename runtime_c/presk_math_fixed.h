/* exp, log, sine, the error function's sum, pi and log 2 in fixed point, for presk_math_slow.c. Private.
 *
 * A real y >= 0 is a natural g, standing for g / 2**w, right to 2**32 units of its last place: a generous bound, the
 * sums have at most some thousand terms, each cut off by a unit or two. */
#ifndef PRESK_MATH_FIXED_H
#define PRESK_MATH_FIXED_H

#include "presk_math_natural.h"
#include "presk_math_wide.h"

static inline void presk_times_fixed(struct presk_nat *c, const struct presk_nat *a, const struct presk_nat *b, int w)
{
    presk_nat_multiply(c, a, b);
    presk_nat_shift(c, c, -w);
}

/* |x| = mantissa 2**exponent, for a finite x. */
static inline uint64_t presk_mantissa(double x, int *exponent)
{
    const uint64_t u = presk_bits_f64(x), fraction = u & 0x000fffffffffffffu;
    const int field = (int)(u >> 52 & 0x7ffu);
    *exponent = (field > 0 ? field : 1) - 1075;
    return field > 0 ? fraction | 0x0010000000000000u : fraction;
}

/* |x| in fixed point, cut off. */
static inline void presk_fixed(struct presk_nat *g, double x, int w)
{
    int exponent;
    presk_nat_set(g, presk_mantissa(x, &exponent));
    presk_nat_shift(g, g, exponent + w);
}

/* x * x / 2**halvings in fixed point, cut off. */
static inline void presk_fixed_square(struct presk_nat *g, double x, int halvings, int w)
{
    int exponent;
    struct presk_nat m;
    presk_nat_set(&m, presk_mantissa(x, &exponent));
    presk_nat_multiply(g, &m, &m);
    presk_nat_shift(g, g, 2 * exponent + w - halvings);
}

/* sum += factor atan(1 / n), or atanh with hyperbolic set; `less` takes it away. */
static inline void presk_add_inverse(struct presk_nat *sum, uint32_t factor, uint32_t n, int hyperbolic, int less, int w)
{
    struct presk_nat power, term, parts[2];
    parts[0].n = parts[1].n = 0;
    presk_nat_set(&power, factor);
    presk_nat_shift(&power, &power, w);
    presk_nat_divide_small(&power, &power, n);
    for (uint32_t k = 0; power.n > 0; k++) {
        struct presk_nat *part = &parts[hyperbolic ? 0u : k & 1u];
        presk_nat_divide_small(&term, &power, 2u * k + 1u);
        presk_nat_add(part, part, &term);
        presk_nat_divide_small(&power, &power, n * n);
    }
    presk_nat_subtract(&term, &parts[0], &parts[1]);
    if (less) presk_nat_subtract(sum, sum, &term);
    else presk_nat_add(sum, sum, &term);
}

static inline void presk_log_2(struct presk_nat *g, int w)
{
    g->n = 0;
    presk_add_inverse(g, 18, 26, 1, 0, w);
    presk_add_inverse(g, 8, 8749, 1, 0, w);
    presk_add_inverse(g, 2, 4801, 1, 1, w);
}

static inline void presk_pi(struct presk_nat *g, int w)
{
    g->n = 0;
    presk_add_inverse(g, 16, 5, 0, 0, w);
    presk_add_inverse(g, 4, 239, 0, 1, w);
}

/* e**g, or e**-g with negative set, as *k and a fixed-point number in [1/2, 4) times 2**k. */
static inline void presk_exp_fixed(struct presk_nat *result, int *k, const struct presk_nat *g, int negative, int w)
{
    enum { HALVINGS = 12 };
    struct presk_nat ln2, q, r, term, product;
    presk_log_2(&ln2, w);
    presk_nat_divide(&q, &r, g, &ln2);
    *k = q.n > 0 ? (int)q.d[0] : 0;
    if (negative) {
        presk_nat_subtract(&r, &ln2, &r);
        *k = -*k - 1;
    }
    presk_nat_shift(&r, &r, -HALVINGS);
    presk_nat_set(&term, 1);
    presk_nat_shift(&term, &term, w);
    presk_nat_copy(result, &term);
    for (uint32_t n = 1; term.n > 0; n++) {
        presk_times_fixed(&product, &term, &r, w);
        presk_nat_divide_small(&term, &product, n);
        presk_nat_add(result, result, &term);
    }
    for (int i = 0; i < HALVINGS; i++) {
        presk_times_fixed(&product, result, result, w);
        presk_nat_copy(result, &product);
    }
}

/* |log(g 2**e)| for the natural g > 0; returns whether the logarithm is negative. */
static inline int presk_log_fixed(struct presk_nat *result, const struct presk_nat *g, int e, int w)
{
    struct presk_nat m, one, top, bottom, s, power, square, term, rest;
    int k = presk_nat_length(g) - 1; /* m = g 2**-k in [1, 2), then in [3/4, 3/2) */
    presk_nat_shift(&m, g, w - k);
    presk_nat_set(&one, 3);
    presk_nat_shift(&one, &one, w - 1);
    if (presk_nat_compare(&m, &one) > 0) {
        presk_nat_shift(&m, g, w - k - 1);
        k++;
    }
    k += e;
    presk_nat_set(&one, 1);
    presk_nat_shift(&one, &one, w);
    const int below = presk_nat_compare(&m, &one) < 0;
    if (below) presk_nat_subtract(&top, &one, &m);
    else presk_nat_subtract(&top, &m, &one);
    presk_nat_shift(&top, &top, w);
    presk_nat_add(&bottom, &m, &one);
    presk_nat_divide(&s, &rest, &top, &bottom);
    presk_times_fixed(&square, &s, &s, w);
    presk_nat_copy(&power, &s);
    for (uint32_t n = 3; power.n > 0; n += 2) {
        presk_times_fixed(&term, &power, &square, w);
        presk_nat_copy(&power, &term);
        presk_nat_divide_small(&term, &term, n);
        presk_nat_add(&s, &s, &term);
    }
    presk_nat_shift(&s, &s, 1);
    presk_log_2(&term, w);
    presk_nat_multiply_small(&term, (uint32_t)(k < 0 ? -k : k));
    if (k == 0) {
        presk_nat_copy(result, &s);
        return below;
    }
    if ((k < 0) == below) presk_nat_add(result, &term, &s);
    else presk_nat_subtract(result, &term, &s); /* log 2 is the larger */
    return k < 0;
}

/* The sum of (-square)**n / (n! (2 n + 1)), w + guard bits wide inside against cancellation; sqrt(pi) / 2 erf(x) / x
 * at square = x * x. */
static inline void presk_erf_sum(struct presk_nat *result, const struct presk_nat *square, int w)
{
    struct presk_nat z, term, product, parts[2];
    presk_nat_shift(&z, square, -w);
    const int guard = 16 + 3 * (z.n > 0 ? (int)z.d[0] : 0) / 2, wide = w + guard; /* terms stay below e**square */
    presk_nat_shift(&z, square, guard);
    presk_nat_set(&term, 1);
    presk_nat_shift(&term, &term, wide);
    presk_nat_copy(&parts[0], &term);
    parts[1].n = 0;
    for (uint32_t n = 1; term.n > 0; n++) {
        presk_times_fixed(&product, &term, &z, wide);
        presk_nat_divide_small(&term, &product, n);
        presk_nat_divide_small(&product, &term, 2u * n + 1u);
        presk_nat_add(&parts[n & 1u], &parts[n & 1u], &product);
    }
    presk_nat_subtract(result, &parts[0], &parts[1]);
    presk_nat_shift(result, result, -guard);
}

/* sqrt(2**twos / pi) */
static inline void presk_root_over_pi(struct presk_nat *g, int twos, int w)
{
    struct presk_nat divisor, q, rest;
    presk_pi(&divisor, w);
    presk_nat_set(&q, 1);
    presk_nat_shift(&q, &q, 3 * w + twos);
    presk_nat_divide(g, &rest, &q, &divisor);
    presk_nat_copy(&q, g);
    presk_nat_root(g, &q);
}

/* |sin(|x| + quarters pi / 2)| for a finite x; returns whether it is negative. */
static inline int presk_sine_fixed(struct presk_nat *result, double x, unsigned quarters, int w)
{
    const int wide = w + 1100; /* x is below 2**1024: what is left of it keeps w bits */
    struct presk_nat half_pi, g, q, r, square, term, product, parts[2];
    presk_pi(&half_pi, wide);
    presk_nat_shift(&half_pi, &half_pi, -1);
    presk_fixed(&g, x, wide);
    presk_nat_divide(&q, &r, &g, &half_pi);
    presk_nat_shift(&r, &r, w - wide);
    presk_times_fixed(&square, &r, &r, w);
    quarters += q.n > 0 ? q.d[0] & 3u : 0u;
    uint32_t n = 2;
    presk_nat_copy(&term, &r);
    if ((quarters & 1u) != 0) {
        n = 1;
        presk_nat_set(&term, 1);
        presk_nat_shift(&term, &term, w);
    }
    presk_nat_copy(&parts[0], &term);
    parts[1].n = 0;
    for (unsigned side = 1; term.n > 0; side ^= 1u, n += 2) {
        presk_times_fixed(&product, &term, &square, w);
        presk_nat_divide_small(&term, &product, n * (n + 1u));
        presk_nat_add(&parts[side], &parts[side], &term);
    }
    presk_nat_subtract(result, &parts[0], &parts[1]);
    return (quarters & 2u) != 0;
}

#endif
