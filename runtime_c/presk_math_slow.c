/* The slow paths of the f64 functions: fixed-point arithmetic on natural numbers, wide enough to be certain.
 *
 * A result is accepted when both ends of its enclosure round to the same double; otherwise the width w doubles from
 * 192 to 384, then 768 bits. The hardest known arguments need less than 128. Values a hair beside the argument, or
 * beside a constant, are taken out first. */
#include "presk_math_fixed.h"

typedef struct presk_nat nat;

enum { FIRST_WIDTH = 192, LAST_WIDTH = 768, SLACK_BITS = 32 };

enum function { EXP, EXPM1, LOG, LOG1P, TANH, SIN, COS, ERF, SIGMOID, SILU, GELU };

/* What is known of |y|: g 2**exponent, within slack 2**exponent. */
struct enclosure {
    nat g, slack;
    int exponent;
    int negative;
};

static double power_of_two(int k) { return presk_from_bits_f64((uint64_t)(uint32_t)(k + 1023) << 52); }

/* g 2**e rounded to a double. */
static double nat_to_double(const nat *g, int e)
{
    const int top = presk_nat_length(g) - 1 + e; /* the leading bit's exponent */
    int last = top - 52 > -1074 ? top - 52 : -1074;
    if (g->n == 0 || top < -1080) return 0.0;
    if (top > 1030) return power_of_two(1023) * 2.0;
    nat m, back;
    presk_nat_shift(&m, g, e - last);
    presk_nat_shift(&back, &m, last - e); /* what stayed */
    if (last > e) {
        nat rest, half;
        presk_nat_subtract(&rest, g, &back);
        presk_nat_set(&half, 1);
        presk_nat_shift(&half, &half, last - e - 1);
        int order = presk_nat_compare(&rest, &half);
        if (order > 0 || (order == 0 && m.n > 0 && (m.d[0] & 1u) != 0)) {
            nat one;
            presk_nat_set(&one, 1);
            presk_nat_add(&m, &m, &one);
        }
    }
    uint64_t bits = m.n > 0 ? m.d[0] : 0u;
    if (m.n > 1) bits |= (uint64_t)m.d[1] << 32;
    return (double)bits * power_of_two(last / 2) * power_of_two(last - last / 2);
}

/* Whether the enclosure decides the double; *result is the one in its middle otherwise. */
static int decided(const struct enclosure *y, double *result)
{
    nat low, high;
    presk_nat_subtract(&low, &y->g, &y->slack);
    presk_nat_add(&high, &y->g, &y->slack);
    const double a = nat_to_double(&low, y->exponent), b = nat_to_double(&high, y->exponent);
    *result = a == b ? a : nat_to_double(&y->g, y->exponent);
    *result = y->negative ? -*result : *result;
    return a == b;
}

static void set_power(nat *g, int k)
{
    presk_nat_set(g, 1);
    presk_nat_shift(g, g, k);
}

/* y = |x| y, exactly. */
static void times_argument(struct enclosure *y, double x)
{
    int exponent;
    nat m, product;
    presk_nat_set(&m, presk_mantissa(x, &exponent));
    presk_nat_multiply(&product, &y->g, &m);
    y->g = product;
    presk_nat_multiply(&product, &y->slack, &m);
    y->slack = product;
    y->exponent += exponent;
}

/* e**x and expm1 */
static void enclose_exp(struct enclosure *y, double x, int less_one, int w)
{
    nat g, one;
    int k;
    presk_fixed(&g, x, w);
    presk_exp_fixed(&y->g, &k, &g, x < 0.0, w);
    y->exponent = k - w;
    if (!less_one) return;
    set_power(&one, w - k); /* 0 where k > w, below the slack */
    y->negative = x < 0.0;
    if (y->negative) presk_nat_subtract(&y->g, &one, &y->g);
    else presk_nat_subtract(&y->g, &y->g, &one);
}

static void enclose_log(struct enclosure *y, double x, int plus_one, int w)
{
    nat g, m;
    int exponent;
    presk_nat_set(&m, presk_mantissa(x, &exponent));
    if (plus_one) { /* 1 + x exactly: both over 2**exponent, or over 1 */
        nat one;
        set_power(&one, exponent < 0 ? -exponent : 0);
        if (exponent > 0) presk_nat_shift(&m, &m, exponent);
        if (exponent > 0) exponent = 0;
        if (x < 0.0) presk_nat_subtract(&m, &one, &m);
        else presk_nat_add(&m, &one, &m);
    }
    y->negative = presk_log_fixed(&g, &m, exponent, w);
    y->g = g;
}

/* tanh |x| = (1 - e) / (1 + e), e = exp(-2 |x|) */
static void enclose_tanh(struct enclosure *y, double x, int w)
{
    nat g, e, one, top, bottom;
    int k;
    presk_fixed(&g, 2.0 * x, w);
    presk_exp_fixed(&e, &k, &g, 1, w);
    presk_nat_shift(&e, &e, k);
    set_power(&one, w);
    presk_nat_subtract(&top, &one, &e);
    presk_nat_add(&bottom, &one, &e);
    presk_nat_shift(&top, &top, w);
    presk_nat_divide(&y->g, &e, &top, &bottom);
    y->negative = x < 0.0;
}

/* sigmoid(x) = 1 / (1 + e) or e / (1 + e), e = exp(-|x|) */
static void enclose_sigmoid(struct enclosure *y, double x, int w)
{
    nat g, e, one, bottom;
    int k;
    presk_fixed(&g, x, w);
    presk_exp_fixed(&e, &k, &g, 1, w);
    set_power(&one, w);
    presk_nat_shift(&bottom, &e, k);
    presk_nat_add(&bottom, &bottom, &one);
    presk_nat_shift(&g, x > 0.0 ? &one : &e, w);
    presk_nat_divide(&y->g, &e, &g, &bottom);
    y->exponent = (x > 0.0 ? 0 : k) - w;
}

static void enclose_erf(struct enclosure *y, double x, int w)
{
    nat square, sum, root;
    presk_fixed_square(&square, x, 0, w);
    presk_erf_sum(&sum, &square, w);
    presk_root_over_pi(&root, 2, w);
    presk_times_fixed(&y->g, &sum, &root, w);
    times_argument(y, x);
    y->negative = x < 0.0;
}

/* x Phi(x), Phi(x) = 1/2 + x S / sqrt(2 pi), S the error function's sum at x * x / 2 */
static void enclose_gelu(struct enclosure *y, double x, int w)
{
    nat square, sum, product, half;
    if (x < 0.0) w += (int)(0.75 * x * x); /* Phi cancels down to e**(-x * x / 2) */
    presk_fixed_square(&square, x, 1, w);
    presk_erf_sum(&sum, &square, w);
    presk_root_over_pi(&square, -1, w);
    presk_times_fixed(&product, &sum, &square, w);
    presk_fixed(&square, x, w);
    presk_times_fixed(&sum, &product, &square, w);
    set_power(&half, w - 1);
    if (x < 0.0) presk_nat_subtract(&y->g, &half, &sum);
    else presk_nat_add(&y->g, &half, &sum);
    y->exponent = -w;
    times_argument(y, x);
    y->negative = x < 0.0;
}

static void enclose(struct enclosure *y, enum function f, double x, int w)
{
    set_power(&y->slack, SLACK_BITS);
    y->exponent = -w;
    y->negative = 0;
    switch (f) {
    case EXP: enclose_exp(y, x, 0, w); break;
    case EXPM1: enclose_exp(y, x, 1, w); break;
    case LOG: enclose_log(y, x, 0, w); break;
    case LOG1P: enclose_log(y, x, 1, w); break;
    case TANH: enclose_tanh(y, x, w); break;
    case SIN: y->negative = presk_sine_fixed(&y->g, x, 0, w) != (x < 0.0); break;
    case COS: y->negative = presk_sine_fixed(&y->g, x, 1, w); break;
    case ERF: enclose_erf(y, x, w); break;
    case SIGMOID: enclose_sigmoid(y, x, w); break;
    case SILU:
        enclose_sigmoid(y, x, w);
        times_argument(y, x);
        y->negative = x < 0.0;
        break;
    case GELU: enclose_gelu(y, x, w); break;
    }
}

static double certain(enum function f, double x)
{
    struct enclosure y;
    double result = 0.0;
    for (int w = FIRST_WIDTH; w <= LAST_WIDTH; w *= 2) {
        enclose(&y, f, x, w);
        if (decided(&y, &result)) break;
    }
    return result;
}

double presk_half_up(double x)
{
    const uint64_t u = presk_bits_f64(x), size = u & 0x7fffffffffffffffu;
    if (presk_abs_f64(x) >= 0x1p-1021) return 0.5 * x;
    return presk_from_bits_f64(u >> 63 ? size >> 1 | 0x8000000000000000u : (size + 1u) >> 1);
}

double presk_exp_slow(double x) { return presk_abs_f64(x) < 0x1p-60 ? 1.0 : certain(EXP, x); }
double presk_expm1_slow(double x) { return presk_abs_f64(x) < 0x1p-60 ? x : certain(EXPM1, x); }
double presk_log_slow(double x) { return x == 1.0 ? 0.0 : certain(LOG, x); }
double presk_log1p_slow(double x) { return presk_abs_f64(x) < 0x1p-60 ? x : certain(LOG1P, x); }
double presk_sin_slow(double x) { return presk_abs_f64(x) < 0x1p-30 ? x : certain(SIN, x); }
double presk_cos_slow(double x) { return presk_abs_f64(x) < 0x1p-30 ? 1.0 : certain(COS, x); }
double presk_tanh_slow(double x)
{
    const double a = presk_abs_f64(x);
    return a < 0x1p-30 ? x : a > 22.0 ? presk_with_sign(1.0, x) : certain(TANH, x);
}
double presk_erf_slow(double x)
{
    return x == 0.0 ? x : presk_abs_f64(x) > 6.0 ? presk_with_sign(1.0, x) : certain(ERF, x);
}
double presk_sigmoid_slow(double x) { return presk_abs_f64(x) < 0x1p-56 ? 0.5 : x > 50.0 ? 1.0 : certain(SIGMOID, x); }
double presk_silu_slow(double x)
{
    return presk_abs_f64(x) < 0x1p-60 ? presk_half_up(x) : x > 50.0 ? x : certain(SILU, x);
}
double presk_gelu_slow(double x)
{
    return presk_abs_f64(x) < 0x1p-60 ? presk_half_up(x) : x > 10.0 ? x : certain(GELU, x);
}
