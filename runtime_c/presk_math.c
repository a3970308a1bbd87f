/* The f64 functions: a double-double value with a bound of its error, and Ziv's test.
 *
 * Where adding and taking away the bound round to the same double, that double is the correctly rounded result. The
 * few arguments that are left go to presk_math_slow.c: one in 2**16 to 2**21, but one in 2**13 of the results near 0
 * of expm1, log, log1p, tanh, sin and cos.
 *
 * The bounds. The tables' texts state each polynomial's domain and error; u = 2**-53 is half an ulp of 1, and
 * double-double sums, products and quotients add less than 2**-99. What counts is the term that is computed in plain
 * doubles. In e**r - 1, log(1 + r) and sin r that is r**3 times a polynomial: rounding r to its high part costs 3 u,
 * the square, the product, the polynomial, their product and the last sum cost u each, so below 8.1 u together, of
 *   r**3 / 6, |r| < 0.005416 (exp):      2**-67.6 of r, with the polynomial's own error 2**-67.5
 *   r**3 / 3, -0.0025 <= r <= 2**-8 (log): 2**-67.5 of r, with the polynomial's own error 2**-67.4
 *   h**3 / 6, |h| <= 2**-7 (sine):       each rounding costs u / m where m is the rounded number's mantissa in [1, 2);
 *                                        with that the largest is 4.9 u, at the end, and 2**-67.1 of h with both errors
 * A function whose result is near 0 there has these as bounds of the relative error. Anywhere else the same error is
 * small beside the result, so that there is a bound of the absolute error too: r or h times the relative one. */
#include "presk_math_tables.h"
#include "presk_math_wide.h"

typedef struct presk_dd dd;

/* value 2**exponent; value's magnitude is far from overflow and underflow. */
struct scaled {
    dd value;
    int exponent;
};

static double power_of_two(int k) { return presk_from_bits_f64((uint64_t)(uint32_t)(k + 1023) << 52); }

static double infinity(void) { return presk_from_bits_f64(0x7ff0000000000000u); }

/* log's value at u = 0, infinity, and where there is none. */
static double log_edge(double u)
{
    return u == 0.0 ? -infinity() : u > 0.0 ? u : presk_from_bits_f64(0x7ff8000000000000u);
}

static int exponent_of(double x) { return (int)(presk_bits_f64(x) >> 52 & 0x7ffu) - 1023; }

static dd negated(dd a, int negate) { return negate ? presk_dd_of(-a.high, -a.low) : a; }

static dd scaled_down(struct scaled s)
{
    double p = power_of_two(s.exponent < -1000 ? -1000 : s.exponent);
    return presk_dd_of(s.value.high * p, s.value.low * p);
}

/* The bound `relative` of a value's relative error as an absolute one. */
static double within(double relative, struct scaled y) { return presk_abs_f64(y.value.high) * relative; }

/* The same for a value with a second bound, of the absolute error but for 2**-90 of the value: the smaller of both. */
static double within_either(double relative, double absolute, struct scaled y)
{
    const double near = within(relative, y), far = absolute + within(0x1p-90, y);
    return near < far ? near : far;
}

/* value 2**exponent rounded, for a value with |value| >= 2**-900 or exponent 0, right to `margin` (in value's units);
 * slow(x) where that leaves two doubles. Below 2**-1022 a number b is added whose last place is the subnormals' spacing, 2**(-1074 - exponent), so
 * that the rounding falls there. */
static double rounded(struct scaled y, double margin, double x, double (*slow)(double))
{
    const double high = y.value.high, low = y.value.low;
    const double up = high + (low + margin), down = high + (low - margin);
    const int k = y.exponent, half = k / 2;
    double value = up;
    if (exponent_of(up) + k < -1022) {
        const int power = -1022 - k > 1000 ? 1000 : -1022 - k;
        const double b = presk_with_sign(power_of_two(power), high), s = b + high, rest = high - (s - b);
        const double small_up = s + (rest + (low + margin)), small_down = s + (rest + (low - margin));
        if (small_up != small_down) return slow(x);
        value = presk_with_sign(presk_abs_f64(small_up - b), high);
    } else if (up != down) {
        return slow(x);
    }
    return value * power_of_two(half) * power_of_two(k - half);
}

static struct scaled unscaled(dd value)
{
    struct scaled y = {value, 0};
    return y;
}

/* k, t, p with e**x = 2**k t (1 + p), t = 2**(j / 64), |p| < 0.0055; p's relative error below 2**-67.5,
 * so its error below 2**-75; |x| < 1100. */
static int exp_parts(dd x, dd *t, dd *p)
{
    const double shifted = x.high * 0x1.71547652b82fep+6 + PRESK_SHIFTER, n = shifted - PRESK_SHIFTER;
    const int steps = (int)n;
    dd r = presk_dd_sum(x.high - n * presk_ln2_64[0], -(n * presk_ln2_64[1])); /* the first difference is exact */
    r = presk_dd_fast_sum(r.high, (r.low - n * presk_ln2_64[2]) + x.low);
    const dd square = presk_dd_product(r.high, r.high);
    double tail = presk_exp_tail[0];
    for (int i = 1; i < 6; i++) tail = tail * r.high + presk_exp_tail[i];
    const double cube_term = (r.high * square.high) * tail;
    *p = presk_dd_plus(r, presk_dd_fast_sum(0.5 * square.high, 0.5 * square.low + r.high * r.low + cube_term));
    const int j = (int)((unsigned)steps & 63u);
    *t = presk_dd_of(presk_exp[j][0], presk_exp[j][1]);
    return (steps - j) / 64;
}

/* e**x for |x| < 1100, relative error below 2**-75. */
static struct scaled exp_dd(dd x)
{
    dd t, p;
    struct scaled y;
    y.exponent = exp_parts(x, &t, &p);
    y.value = presk_dd_plus(t, presk_dd_times(p, t));
    return y;
}

/* e**x - 1 for -60 <= x < 1100, relative error below 2**-67.5, and t's at most 2 times p's error: below 2**-74 and
 * 2**-100 of the value. */
static struct scaled expm1_dd(dd x)
{
    dd t, p;
    struct scaled y;
    const int k = y.exponent = exp_parts(x, &t, &p);
    if (k == 0 && t.high == 1.0) {
        y.value = p;
        return y;
    }
    const dd e = presk_dd_plus(t, presk_dd_times(p, t));
    const dd less = presk_dd_sum(-power_of_two(k > 1022 ? -1022 : -k), e.high); /* beyond 2**100 it does not count */
    y.value = presk_dd_fast_sum(less.high, less.low + e.low);
    return y;
}

/* log u + more log 2 for positive normal u, relative error below 2**-67.4, error below 2**-8 of that and 2**-95 of the
 * value. */
static dd log_dd(dd u, int more)
{
    const uint64_t t = presk_bits_f64(u.high) - 0x3fe6a00000000000u + 0x4000000000000000u;
    const int k = (int)(t >> 52) - 1024;
    const double m = presk_from_bits_f64((t & 0x000fffffffffffffu) + 0x3fe6a00000000000u);
    const double *row = presk_log[t >> 44 & 255u];
    const dd product = presk_dd_product(m, row[0]);
    const double scale = power_of_two(k > 1000 ? -1000 : k < -1000 ? 1000 : -k);
    const dd r = presk_dd_fast_sum(product.high - 1.0, product.low + (u.low * scale) * row[0]);
    const dd square = presk_dd_product(r.high, r.high);
    double tail = presk_log_tail[0];
    for (int i = 1; i < 7; i++) tail = tail * r.high + presk_log_tail[i];
    const double cube_term = (r.high * square.high) * tail;
    const dd half = presk_dd_fast_sum(-0.5 * square.high, cube_term - (0.5 * square.low + r.high * r.low));
    const double twos = (double)(k + more);
    dd rest = presk_dd_sum(twos * presk_ln2[0], row[1]); /* the product is exact */
    rest = presk_dd_fast_sum(rest.high, rest.low + (twos * presk_ln2[1] + row[2]));
    return presk_dd_plus(rest, presk_dd_plus(r, half));
}

/* sin(x + quarters pi / 2) for a finite x, relative error below 2**-67.1, error below 2**-74.1. Below 2**20 the
 * remainder r has an error below 2**-135 and 2**-104 of r, and r is above 2**-62. */
static dd sine_dd(double x, unsigned quarters)
{
    dd r;
    if (presk_abs_f64(x) < 0x1p+20) {
        const double shifted = x * PRESK_2_PI + PRESK_SHIFTER, k = shifted - PRESK_SHIFTER;
        const dd a = presk_dd_sum(x - k * presk_half_pi[0], -(k * presk_half_pi[1])); /* exact products */
        const dd b = presk_dd_sum(a.high, -(k * presk_half_pi[2]));
        r = presk_dd_fast_sum(b.high, b.low + (a.low - k * presk_half_pi[3]));
        quarters += (unsigned)(presk_bits_f64(shifted) & 3u);
    } else {
        quarters += presk_reduce(x, &r.high, &r.low);
    }
    const int negative = r.high < 0.0, cosine = (quarters & 1u) != 0;
    r = negated(r, negative);
    const int j = (int)(r.high * 64.0 + 0.5);
    const dd h = presk_dd_fast_sum(r.high - (double)j * 0.015625, r.low);
    const double *row = presk_sincos[j];
    const dd s = presk_dd_of(row[0], row[1]), c = presk_dd_of(row[2], row[3]);
    const dd square = presk_dd_product(h.high, h.high);
    double sin_tail = presk_sin_tail[0], cos_tail = presk_cos_tail[0];
    for (int i = 1; i < 4; i++) {
        sin_tail = sin_tail * square.high + presk_sin_tail[i];
        cos_tail = cos_tail * square.high + presk_cos_tail[i];
    }
    const dd sin_h = presk_dd_fast_sum(h.high, h.low + (h.high * square.high) * sin_tail);
    const double quartic = (square.high * square.high) * cos_tail;
    const dd cos_h = presk_dd_fast_sum(-0.5 * square.high, quartic - (0.5 * square.low + h.high * h.low)); /* less 1 */
    const dd first = cosine ? c : s, second = cosine ? negated(s, 1) : c;
    const dd rest = presk_dd_plus(presk_dd_times(second, sin_h), presk_dd_times(first, cos_h));
    return negated(presk_dd_plus(first, rest), ((quarters & 2u) != 0) != (negative && !cosine));
}

/* erf(x) / x for |x| <= 1/2, relative error below 2**-71.4: the polynomial's 2**-74.5, and 2 u of its product and 1.2 u
 * of its sum in plain doubles, 0.00085 z**5, z <= 1/4. */
static dd erf_over_x_dd(dd x)
{
    dd z = presk_dd_product(x.high, x.high);
    z = presk_dd_fast_sum(z.high, z.low + 2.0 * (x.high * x.low));
    double top = presk_erf_series[0];
    for (int i = 1; i < 8; i++) top = top * z.high + presk_erf_series[i];
    dd value = presk_dd_sum(presk_erf_series[8], top * z.high);
    value.low += presk_erf_series[9];
    for (int i = 10; i < 18; i += 2)
        value = presk_dd_plus(presk_dd_of(presk_erf_series[i], presk_erf_series[i + 1]), presk_dd_times(value, z));
    return value;
}

/* erfc(x) for 1/2 <= x < 32, given x * x; relative error below 2**-70.1, for x < 2 below 2**-74.2. erfc(x) = e**(-x * x)
 * erfcx(x); a running bound of the plain sum, times u**5, and the row's own error are below 2**-70.18 of erfcx in every
 * row and below 2**-75.5 for x < 2. */
static struct scaled erfc_dd(dd x, dd square)
{
    struct scaled y = exp_dd(negated(square, 1));
    const double *row = presk_erfcx[(presk_bits_f64(x.high) >> 50) - (0x3fe0000000000000u >> 50)];
    const dd u = presk_dd_fast_sum(x.high - row[0], x.low);
    double top = row[1] * u.high;
    for (int i = 2; i < 14; i++) top = (top + row[i]) * u.high;
    dd value = presk_dd_sum(row[14], top);
    value.low += row[15];
    for (int i = 16; i < 26; i += 2) value = presk_dd_plus(presk_dd_of(row[i], row[i + 1]), presk_dd_times(value, u));
    y.value = presk_dd_times(y.value, value);
    return y;
}

static dd one_minus(dd a)
{
    const dd s = presk_dd_sum(1.0, -a.high);
    return presk_dd_fast_sum(s.high, s.low - a.low);
}

double presk_exp_f64(double x)
{
    if (!(presk_abs_f64(x) < 746.0)) return x > 0.0 ? infinity() : x < 0.0 ? 0.0 : x;
    const struct scaled y = exp_dd(presk_dd_of(x, 0.0));
    return rounded(y, within(0x1p-74, y), x, presk_exp_slow);
}

double presk_expm1_f64(double x)
{
    if (presk_abs_f64(x) < 0x1p-60) return x;
    if (!(x < 710.0 && x > -50.0)) return x > 0.0 ? infinity() : x < 0.0 ? -1.0 : x;
    const struct scaled y = expm1_dd(presk_dd_of(x, 0.0));
    return rounded(y, within_either(0x1p-67, 0x1p-74, y), x, presk_expm1_slow);
}

double presk_log_f64(double x)
{
    if (!(x > 0.0 && x < infinity()) || x == 1.0) return x == 1.0 ? 0.0 : log_edge(x);
    const int small = x < 0x1p-1022;
    const struct scaled y = unscaled(log_dd(presk_dd_of(small ? x * 0x1p+54 : x, 0.0), small ? -54 : 0));
    return rounded(y, within_either(0x1p-67, 0x1p-75, y), x, presk_log_slow);
}

double presk_log1p_f64(double x)
{
    if (presk_abs_f64(x) < 0x1p-60) return x;
    if (!(x > -1.0 && x < infinity())) return log_edge(1.0 + x);
    const struct scaled y = unscaled(log_dd(presk_dd_sum(1.0, x), 0));
    return rounded(y, within_either(0x1p-67, 0x1p-75, y), x, presk_log1p_slow);
}

double presk_tanh_f64(double x)
{
    const double a = presk_abs_f64(x);
    if (a < 0x1p-30) return x;
    if (!(a < 22.0)) return a > 0.0 ? presk_with_sign(1.0, x) : x;
    const dd m = scaled_down(expm1_dd(presk_dd_of(2.0 * a, 0.0)));
    const dd size = presk_dd_over(m, presk_dd_plus(presk_dd_of(2.0, 0.0), m)); /* 2 / (m + 2)**2 times m's error */
    const struct scaled y = unscaled(negated(size, x < 0.0));
    return rounded(y, within_either(0x1p-67, 0x1p-74, y), x, presk_tanh_slow);
}

double presk_sin_f64(double x)
{
    if (presk_abs_f64(x) < 0x1p-30) return x;
    if (!(presk_abs_f64(x) < infinity())) return x - x;
    const struct scaled y = unscaled(sine_dd(x, 0));
    return rounded(y, within_either(0x1p-67, 0x1p-74, y), x, presk_sin_slow);
}

double presk_cos_f64(double x)
{
    if (presk_abs_f64(x) < 0x1p-30) return 1.0;
    if (!(presk_abs_f64(x) < infinity())) return x - x;
    const struct scaled y = unscaled(sine_dd(x, 1));
    return rounded(y, within_either(0x1p-67, 0x1p-74, y), x, presk_cos_slow);
}

double presk_erf_f64(double x)
{
    const double a = presk_abs_f64(x);
    if (x == 0.0 || !(a < 6.0)) return a > 0.0 ? presk_with_sign(1.0, x) : x;
    if (a < 0.5) {
        const int tiny = a < 0x1p-400; /* scaled up, so that nothing underflows */
        const dd series = erf_over_x_dd(presk_dd_of(tiny ? 0.0 : x, 0.0));
        struct scaled y = {presk_dd_times(series, presk_dd_of(tiny ? x * 0x1p+600 : x, 0.0)), tiny ? -600 : 0};
        return rounded(y, within(0x1p-71, y), x, presk_erf_slow);
    }
    const dd size = one_minus(scaled_down(erfc_dd(presk_dd_of(a, 0.0), presk_dd_product(a, a)))); /* erfc < 0.48 */
    const struct scaled y = unscaled(negated(size, x < 0.0));
    return rounded(y, within(0x1p-74, y), x, presk_erf_slow);
}

/* sigmoid(x) for |x| < 800, relative error below 2**-74.9: 1 / (1 + e) or e / (1 + e), e = exp(-|x|). */
static struct scaled sigmoid_dd(double x)
{
    struct scaled e = exp_dd(presk_dd_of(-presk_abs_f64(x), 0.0));
    const dd small = scaled_down(e), sum = presk_dd_sum(1.0, small.high);
    const dd whole = presk_dd_fast_sum(sum.high, sum.low + small.low);
    struct scaled y = {presk_dd_over(x < 0.0 ? e.value : presk_dd_of(1.0, 0.0), whole), x < 0.0 ? e.exponent : 0};
    return y;
}

double presk_sigmoid_f64(double x)
{
    if (presk_abs_f64(x) < 0x1p-56) return 0.5;
    if (!(x > -750.0 && x < 50.0)) return x > 0.0 ? 1.0 : x < 0.0 ? 0.0 : x;
    const struct scaled y = sigmoid_dd(x);
    return rounded(y, within(0x1p-74, y), x, presk_sigmoid_slow);
}

double presk_silu_f64(double x)
{
    if (presk_abs_f64(x) < 0x1p-60) return presk_half_up(x);
    if (!(x > -760.0 && x < 50.0)) return x < 0.0 ? -0.0 : x;
    struct scaled y = sigmoid_dd(x);
    y.value = presk_dd_times(y.value, presk_dd_of(x, 0.0));
    return rounded(y, within(0x1p-74, y), x, presk_silu_slow);
}

double presk_gelu_f64(double x)
{
    if (presk_abs_f64(x) < 0x1p-60) return presk_half_up(x);
    if (!(x > -40.0 && x < 10.0)) return x < 0.0 ? -0.0 : x;
    const dd b = presk_dd_times(presk_dd_of(presk_abs_f64(x), 0.0), presk_dd_of(presk_sqrt_half[0], presk_sqrt_half[1]));
    struct scaled y = unscaled(b); /* Phi(x), b = |x| / sqrt(2) */
    const double bound = b.high < 0.5 ? 0x1p-71 : b.high < 2.0 ? 0x1p-74 : 0x1p-70;
    if (b.high < 0.5) { /* 0.26 of the series' error beside Phi >= 0.23 */
        const dd half_erf = presk_dd_times(erf_over_x_dd(b), presk_dd_of(0.5 * b.high, 0.5 * b.low));
        y.value = presk_dd_plus(presk_dd_of(0.5, 0.0), negated(half_erf, x < 0.0));
    } else {
        const dd square = presk_dd_product(x, x);
        y = erfc_dd(b, presk_dd_of(0.5 * square.high, 0.5 * square.low));
        y.value = presk_dd_of(0.5 * y.value.high, 0.5 * y.value.low);
        if (x > 0.0) {
            y.value = one_minus(scaled_down(y));
            y.exponent = 0;
        }
    }
    y.value = presk_dd_times(y.value, presk_dd_of(x, 0.0));
    return rounded(y, within(bound, y), x, presk_gelu_slow);
}
