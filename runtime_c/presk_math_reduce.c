/* The long argument reduction of sin and cos (Payne and Hanek): x modulo pi / 2, in 32-bit limbs. */
#include "presk_math.h"
#include "presk_math_wide.h"

/* 2 / pi = sum of TWO_OVER_PI[i] 2**(32 - 32 i): the first words are 0, so that a window may begin before its bits. */
static const uint32_t TWO_OVER_PI[41] = {
    0x00000000u,
    0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu,
    0xdebbc561u, 0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu, 0xe88235f5u,
    0x2ebb4484u, 0xe99c7026u, 0xb45f7e41u, 0x3991d639u, 0x835339f4u, 0x9c845f8bu, 0xbdf9283bu, 0x1ff897ffu,
    0xde05980fu, 0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du, 0x7527bac7u,
    0xebe5f17bu, 0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u, 0x1f8d5d08u, 0x56033046u, 0xfc7b6babu, 0xf0cfbc20u,
};

/* See presk_math_wide.h. The window is 224 bits of 2**e (2 / pi) modulo 4, x = m 2**e with m of 53 bits, so the
 * product with m has an error below 2**53 of its last place, 2**-169 quarter turns; x is never nearer to a multiple
 * of pi / 2 than 2**-62, so the remainder is right to 2**-105 of itself. */
unsigned presk_reduce(double x, double *high, double *low)
{
    uint64_t u = presk_bits_f64(x), m = (u & 0x000fffffffffffffu) | 0x0010000000000000u;
    uint32_t m0 = (uint32_t)(m & 0xffffffffu), m1 = (uint32_t)(m >> 32);
    unsigned first = (unsigned)(u >> 52 & 0x7ffu) - 1075u + 62u; /* e - 2 + 64: the first bit of weight 2 */
    unsigned word = first >> 5, shift = first & 31u;
    uint32_t window[7], product[8] = {0}; /* least significant limb first */
    for (unsigned i = 0; i < 7; i++) {
        uint64_t pair = (uint64_t)TWO_OVER_PI[word + i] << 32 | TWO_OVER_PI[word + i + 1u];
        window[6u - i] = (uint32_t)(pair >> (32u - shift) & 0xffffffffu);
    }
    uint64_t carry0 = 0, carry1 = 0;
    for (unsigned i = 0; i < 7; i++) {
        uint64_t t0 = (uint64_t)m0 * window[i] + product[i] + carry0;
        product[i] = (uint32_t)(t0 & 0xffffffffu);
        carry0 = t0 >> 32;
        uint64_t t1 = (uint64_t)m1 * window[i] + product[i + 1u] + carry1;
        product[i + 1u] = (uint32_t)(t1 & 0xffffffffu);
        carry1 = t1 >> 32;
    }
    unsigned quarter = product[6] >> 30;
    uint32_t flip = product[6] & 0x20000000u ? 0xffffffffu : 0u; /* fraction above 1/2: the next quarter, less 1 - f */
    uint64_t carry = flip & 1u;
    double scale = 0x1p-222, parts[7];
    for (unsigned i = 0; i < 7; i++) {
        uint64_t t = (uint64_t)(product[i] ^ flip) + carry;
        parts[i] = (double)(uint32_t)(t & (i == 6 ? 0x3fffffffu : 0xffffffffu)) * scale;
        carry = t >> 32;
        scale *= 0x1p+32;
    }
    double h = parts[6], l = 0.0;
    for (unsigned i = 6; i-- > 0;) { /* each part is below the sum so far, or that is 0 */
        double sum = h + parts[i];
        l += parts[i] - (sum - h);
        h = sum;
    }
    struct presk_dd r = presk_dd_times(presk_dd_of(h, l), presk_dd_of(0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54));
    int negative = (flip != 0) != (u >> 63 != 0);
    *high = negative ? -r.high : r.high;
    *low = negative ? -r.low : r.low;
    quarter = flip ? quarter + 1u : quarter;
    return (u >> 63 ? 0u - quarter : quarter) & 3u;
}

/* sin(x + quarters pi / 2) rounded to odd, or NaN. */
static double far_sine(float x, unsigned quarters)
{
    double high, low, d = (double)x;
    if (!(presk_abs_f64(d) < presk_from_bits_f64(0x7ff0000000000000u))) return d - d;
    unsigned q = presk_reduce(d, &high, &low) + quarters;
    return presk_sin_or_cos(high, low, (uint64_t)0 - (uint64_t)(q & 1u), (uint64_t)(q & 2u) << 62);
}

float presk_sin_f32_far(float x) { return (float)far_sine(x, 0); }
float presk_cos_f32_far(float x) { return (float)far_sine(x, 1); }
