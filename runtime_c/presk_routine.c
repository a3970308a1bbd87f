/* presk_routine.c: keys and samples on arrays in memory. */

#include "presk_routine.h"

void presk_key_store(const presk_key *key, int64_t words[8])
{
    for (int i = 0; i < 8; i++) {
        words[i] = (int64_t)key->words[i];
    }
}

presk_key presk_key_load(const int64_t words[8])
{
    presk_key key;
    for (int i = 0; i < 8; i++) {
        key.words[i] = (uint32_t)((uint64_t)words[i] & UINT32_MAX);
    }
    return key;
}

void presk_routine_key_seed(int64_t out[8], int64_t seed)
{
    const presk_key key = presk_key_seed((uint64_t)seed);
    presk_key_store(&key, out);
}

void presk_routine_key_child(int64_t out[8], const int64_t key[8], int64_t i)
{
    const presk_key parent = presk_key_load(key), child = presk_key_child(&parent, (uint64_t)i);
    presk_key_store(&child, out);
}

void presk_routine_key_split(int64_t *out, const int64_t key[8], ptrdiff_t n)
{
    const presk_key whole = presk_key_load(key);
    for (ptrdiff_t i = 0; i < n; i++) {
        const presk_key part = presk_key_part(&whole, (uint64_t)i);
        presk_key_store(&part, out + 8 * i);
    }
}

void presk_routine_uniform(double *out, const int64_t key[8], ptrdiff_t n)
{
    const presk_key from = presk_key_load(key);
    for (ptrdiff_t i = 0; i < n; i += 8) { /* a block has eight draws */
        uint32_t block[16];
        presk_key_block(&from, 0, (uint64_t)i / 8, block);
        for (ptrdiff_t j = 0; j < 8 && i + j < n; j++) {
            const uint64_t draw = (uint64_t)block[2 * j + 1] << 32 | block[2 * j];
            out[i + j] = (double)(draw >> 11) * 0x1p-53;
        }
    }
}

static void penalize_row(double *x, const int64_t *seen, double penalty, int64_t count, int64_t *work, ptrdiff_t n,
                         ptrdiff_t m)
{
    presk_penalize(x, n, seen, count < 0 ? 0 : count > m ? m : count, penalty, work);
}

/* The token drawn from x[0 .. n-1], which is overwritten. */
static int64_t sample_row(const presk_sampling *how, double u, double *x, int64_t *work, ptrdiff_t n)
{
    int64_t first = 0;
    for (ptrdiff_t i = 1; i < n; i++) {
        first = presk_key_f64(x[i]) > presk_key_f64(x[first]) ? i : first;
    }
    const int64_t token = presk_sampling_check(how, NULL) ? presk_sample(how, u, x, n, work) : -1;
    return token < 0 ? first : token;
}

#define PRESK_EXACT(x) ((double)(x))
#define PRESK_FROM_BF16(x) ((double)presk_f32_from_bf16(x))

#define PRESK_PENALIZE_BODY(CAST)                                                                                     \
    {                                                                                                                 \
        for (ptrdiff_t row = 0; row < r; row++) {                                                                     \
            double *x = out + row * n;                                                                                \
            for (ptrdiff_t i = 0; i < n; i++) {                                                                       \
                x[i] = CAST(logits[row * n + i]);                                                                     \
            }                                                                                                         \
            penalize_row(x, seen + row * m, penalty, count, work, n, m);                                              \
        }                                                                                                             \
    }
PRESK_PENALIZE(presk_routine_penalize_f64, double) PRESK_PENALIZE_BODY(PRESK_EXACT)
PRESK_PENALIZE(presk_routine_penalize_f32, float) PRESK_PENALIZE_BODY(PRESK_EXACT)
PRESK_PENALIZE(presk_routine_penalize_bf16, presk_bf16) PRESK_PENALIZE_BODY(PRESK_FROM_BF16)

#define PRESK_SAMPLE_BODY(CAST)                                                                                       \
    {                                                                                                                 \
        const presk_sampling how = {temperature, top_p, min_p, 1, top_k};                                             \
        const presk_key from = presk_key_load(key);                                                                   \
        for (ptrdiff_t row = 0; row < r; row++) {                                                                     \
            for (ptrdiff_t i = 0; i < n; i++) {                                                                       \
                x[i] = CAST(logits[row * n + i]);                                                                     \
            }                                                                                                         \
            out[row] = sample_row(&how, presk_key_uniform(&from, (uint64_t)row), x, work, n);                         \
        }                                                                                                             \
    }
PRESK_SAMPLE(presk_routine_sample_f64, double) PRESK_SAMPLE_BODY(PRESK_EXACT)
PRESK_SAMPLE(presk_routine_sample_f32, float) PRESK_SAMPLE_BODY(PRESK_EXACT)
PRESK_SAMPLE(presk_routine_sample_bf16, presk_bf16) PRESK_SAMPLE_BODY(PRESK_FROM_BF16)
