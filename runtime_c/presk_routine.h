/* presk_routine.h: what kernels run on whole arrays: keys, uniform numbers, samples; docs/generation.md defines them.
 *
 * A key lies in memory as eight integers in [0, 2^32). Arrays of one call share no memory.
 */
#ifndef PRESK_ROUTINE_H
#define PRESK_ROUTINE_H

#include "presk_key.h"
#include "presk_sample.h"

void presk_key_store(const presk_key *key, int64_t words[8]);
presk_key presk_key_load(const int64_t words[8]); /* each is taken modulo 2^32 */

/* The key of the seed; the child with the number i (both modulo 2^64); parts 0 .. n-1, one after the other. */
void presk_routine_key_seed(int64_t out[8], int64_t seed);
void presk_routine_key_child(int64_t out[8], const int64_t key[8], int64_t i);
void presk_routine_key_split(int64_t *out, const int64_t key[8], ptrdiff_t n);

/* Uniform numbers 0 .. n-1 of the key. */
void presk_routine_uniform(double *out, const int64_t key[8], ptrdiff_t n);

/* presk_penalize for each row of logits (r, n) with the first `count` tokens of its row of seen (r, m); a count below 0
 * is 0, one above m is m. `work` has room for n numbers. */
#define PRESK_PENALIZE(NAME, T)                                                                                       \
    void NAME(double *out, const T *logits, const int64_t *seen, double penalty, int64_t count, int64_t *work,        \
              ptrdiff_t r, ptrdiff_t n, ptrdiff_t m)
PRESK_PENALIZE(presk_routine_penalize_f64, double);
PRESK_PENALIZE(presk_routine_penalize_f32, float);
PRESK_PENALIZE(presk_routine_penalize_bf16, presk_bf16);

/* For row i of logits (r, n) the token drawn with uniform number i of the key. Where none can be drawn, or a value is
 * out of its range, it is the first of the largest logits, NaN above all. `x` and `work` have room for n numbers. */
#define PRESK_SAMPLE(NAME, T)                                                                                         \
    void NAME(int64_t *out, const int64_t key[8], const T *logits, double temperature, double top_p, double min_p,    \
              int64_t top_k, double *x, int64_t *work, ptrdiff_t r, ptrdiff_t n)
PRESK_SAMPLE(presk_routine_sample_f64, double);
PRESK_SAMPLE(presk_routine_sample_f32, float);
PRESK_SAMPLE(presk_routine_sample_bf16, presk_bf16);

#endif /* PRESK_ROUTINE_H */
