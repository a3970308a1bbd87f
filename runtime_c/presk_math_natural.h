/* Natural numbers of up to 248 limbs of 32 bits, for the slow paths of presk_math_slow.c. Private.
 *
 * A number is its limbs d[0 ... n - 1], least significant first, d[n - 1] not 0. Results may be an argument unless a
 * function says otherwise. The callers keep every number below 2**7936. */
#ifndef PRESK_MATH_NATURAL_H
#define PRESK_MATH_NATURAL_H

#include <stdint.h>
#include <string.h>

enum { PRESK_LIMBS = 248 };

struct presk_nat {
    int n;
    uint32_t d[PRESK_LIMBS];
};

static inline uint32_t presk_low_half(uint64_t t) { return (uint32_t)(t & 0xffffffffu); }

static inline void presk_nat_trim(struct presk_nat *a)
{
    while (a->n > 0 && a->d[a->n - 1] == 0) a->n--;
}

static inline void presk_nat_set(struct presk_nat *a, uint64_t value)
{
    a->d[0] = presk_low_half(value);
    a->d[1] = (uint32_t)(value >> 32);
    a->n = 2;
    presk_nat_trim(a);
}

static inline void presk_nat_copy(struct presk_nat *to, const struct presk_nat *from)
{
    to->n = from->n;
    for (int i = 0; i < from->n; i++) to->d[i] = from->d[i];
}

/* The number of bits up to the leading 1. */
static inline int presk_nat_length(const struct presk_nat *a)
{
    int bits = a->n * 32;
    if (bits == 0) return 0;
    for (uint32_t top = a->d[a->n - 1]; (top & 0x80000000u) == 0; top <<= 1) bits--;
    return bits;
}

static inline int presk_nat_compare(const struct presk_nat *a, const struct presk_nat *b)
{
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    for (int i = a->n; i-- > 0;)
        if (a->d[i] != b->d[i]) return a->d[i] < b->d[i] ? -1 : 1;
    return 0;
}

/* c = a + b */
static inline void presk_nat_add(struct presk_nat *c, const struct presk_nat *a, const struct presk_nat *b)
{
    const int n = a->n > b->n ? a->n : b->n;
    uint64_t carry = 0;
    for (int i = 0; i < n; i++) {
        carry += (uint64_t)(i < a->n ? a->d[i] : 0u) + (i < b->n ? b->d[i] : 0u);
        c->d[i] = presk_low_half(carry);
        carry >>= 32;
    }
    c->n = n;
    if (carry != 0) c->d[c->n++] = 1u;
}

/* c = a - b, or 0 where b is larger */
static inline void presk_nat_subtract(struct presk_nat *c, const struct presk_nat *a, const struct presk_nat *b)
{
    if (presk_nat_compare(a, b) <= 0) {
        c->n = 0;
        return;
    }
    const int n = a->n, m = b->n;
    uint64_t borrow = 0;
    for (int i = 0; i < n; i++) {
        uint64_t t = (uint64_t)0x100000000u + a->d[i] - (i < m ? b->d[i] : 0u) - borrow;
        c->d[i] = presk_low_half(t);
        borrow = 1u - (t >> 32);
    }
    c->n = n;
    presk_nat_trim(c);
}

/* c = a * b; c is another number. */
static inline void presk_nat_multiply(struct presk_nat *c, const struct presk_nat *a, const struct presk_nat *b)
{
    for (int i = 0; i < a->n + b->n; i++) c->d[i] = 0;
    for (int i = 0; i < a->n; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < b->n; j++) {
            carry += (uint64_t)a->d[i] * b->d[j] + c->d[i + j];
            c->d[i + j] = presk_low_half(carry);
            carry >>= 32;
        }
        c->d[i + b->n] = presk_low_half(carry);
    }
    c->n = a->n + b->n;
    presk_nat_trim(c);
}

static inline void presk_nat_multiply_small(struct presk_nat *a, uint32_t m)
{
    uint64_t carry = 0;
    for (int i = 0; i < a->n; i++) {
        carry += (uint64_t)a->d[i] * m;
        a->d[i] = presk_low_half(carry);
        carry >>= 32;
    }
    if (carry != 0) a->d[a->n++] = presk_low_half(carry);
    presk_nat_trim(a);
}

/* c = a / m, cut off */
static inline void presk_nat_divide_small(struct presk_nat *c, const struct presk_nat *a, uint32_t m)
{
    const int n = a->n;
    uint64_t rest = 0;
    for (int i = n; i-- > 0;) {
        rest = rest << 32 | a->d[i];
        c->d[i] = presk_low_half(rest / m);
        rest %= m;
    }
    c->n = n;
    presk_nat_trim(c);
}

/* c = a * 2**by, cut off for a negative `by` */
static inline void presk_nat_shift(struct presk_nat *c, const struct presk_nat *a, int by)
{
    const int n = a->n;
    if (by >= 0) {
        const int limbs = by / 32, bits = by % 32;
        uint32_t above = 0;
        for (int i = n; i-- > 0;) {
            uint64_t t = (uint64_t)a->d[i] << bits;
            c->d[i + limbs + 1] = above | (uint32_t)(t >> 32);
            above = presk_low_half(t);
        }
        if (n > 0) c->d[limbs] = above;
        for (int i = 0; i < limbs && n > 0; i++) c->d[i] = 0;
        c->n = n > 0 ? n + limbs + 1 : 0;
    } else {
        const int limbs = -by / 32, bits = -by % 32;
        for (int i = limbs; i < n; i++) {
            uint64_t t = (uint64_t)(i + 1 < n ? a->d[i + 1] : 0u) << 32 | a->d[i];
            c->d[i - limbs] = presk_low_half(t >> bits);
        }
        c->n = n > limbs ? n - limbs : 0;
    }
    presk_nat_trim(c);
}

/* q = a / b cut off, r = the rest; b not 0; q, r, a, b are four numbers. Knuth's algorithm D. */
static inline void presk_nat_divide(struct presk_nat *q, struct presk_nat *r, const struct presk_nat *a,
                                    const struct presk_nat *b)
{
    if (presk_nat_compare(a, b) < 0) {
        presk_nat_copy(r, a);
        q->n = 0;
        return;
    }
    const int shift = 32 * b->n - presk_nat_length(b); /* makes the divisor's leading bit 1 */
    struct presk_nat v;
    presk_nat_shift(&v, b, shift);
    presk_nat_shift(r, a, shift);
    const int n = v.n, m = r->n;
    if (n == 1) {
        presk_nat_divide_small(q, r, v.d[0]);
        uint64_t rest = 0;
        for (int i = m; i-- > 0;) rest = (rest << 32 | r->d[i]) % v.d[0];
        presk_nat_set(r, rest);
        presk_nat_shift(r, r, -shift);
        return;
    }
    r->d[m] = 0;
    for (int j = m - n; j >= 0; j--) {
        uint64_t top = (uint64_t)r->d[j + n] << 32 | r->d[j + n - 1];
        uint64_t guess = top / v.d[n - 1], rest = top % v.d[n - 1];
        while (guess > 0xffffffffu || guess * v.d[n - 2] > (rest << 32 | r->d[j + n - 2])) {
            guess--;
            rest += v.d[n - 1];
            if (rest > 0xffffffffu) break;
        }
        uint64_t carry = 0, borrow = 0;
        for (int i = 0; i < n; i++) {
            carry += guess * v.d[i];
            uint64_t t = (uint64_t)0x100000000u + r->d[i + j] - presk_low_half(carry) - borrow;
            r->d[i + j] = presk_low_half(t);
            borrow = 1u - (t >> 32);
            carry >>= 32;
        }
        uint64_t t = (uint64_t)0x100000000u + r->d[j + n] - presk_low_half(carry) - borrow;
        r->d[j + n] = presk_low_half(t);
        if (t >> 32 == 0) { /* one too many */
            guess--;
            carry = 0;
            for (int i = 0; i < n; i++) {
                carry += (uint64_t)r->d[i + j] + v.d[i];
                r->d[i + j] = presk_low_half(carry);
                carry >>= 32;
            }
            r->d[j + n] = presk_low_half(r->d[j + n] + carry);
        }
        q->d[j] = presk_low_half(guess);
    }
    q->n = m - n + 1;
    presk_nat_trim(q);
    r->n = n;
    presk_nat_trim(r);
    presk_nat_shift(r, r, -shift);
}

/* root = the integer square root of a; two numbers. Newton's iteration from above. */
static inline void presk_nat_root(struct presk_nat *root, const struct presk_nat *a)
{
    struct presk_nat next, rest;
    presk_nat_set(root, 1);
    presk_nat_shift(root, root, (presk_nat_length(a) + 1) / 2);
    for (;;) {
        presk_nat_divide(&next, &rest, a, root);
        presk_nat_add(&next, &next, root);
        presk_nat_shift(&next, &next, -1);
        if (presk_nat_compare(&next, root) >= 0) return;
        presk_nat_copy(root, &next);
    }
}

#endif
