/* presk_key.c: seeds, children, parts and draws. */

#include "presk_key.h"

enum { DRAWN, CHILDREN, PARTS };

static uint32_t turned(uint32_t x, int n) /* 0 < n < 32 */
{
    return x << n | x >> (32 - n);
}

static void quarter(uint32_t x[16], int a, int b, int c, int d)
{
    x[a] += x[b];
    x[d] = turned(x[d] ^ x[a], 16);
    x[c] += x[d];
    x[b] = turned(x[b] ^ x[c], 12);
    x[a] += x[b];
    x[d] = turned(x[d] ^ x[a], 8);
    x[c] += x[d];
    x[b] = turned(x[b] ^ x[c], 7);
}

void presk_key_block(const presk_key *key, uint64_t stream, uint64_t counter, uint32_t out[16])
{
    uint32_t state[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}; /* "expand 32-byte k" */
    memcpy(state + 4, key->words, sizeof key->words);
    state[12] = (uint32_t)(counter & UINT32_MAX);
    state[13] = (uint32_t)(counter >> 32);
    state[14] = (uint32_t)(stream & UINT32_MAX);
    state[15] = (uint32_t)(stream >> 32);
    memcpy(out, state, sizeof state);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 4; i++) {
            quarter(out, i, 4 + i, 8 + i, 12 + i);
        }
        for (int i = 0; i < 4; i++) {
            quarter(out, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
        }
    }
    for (int i = 0; i < 16; i++) {
        out[i] += state[i];
    }
}

presk_key presk_key_seed(uint64_t seed)
{
    presk_key key;
    for (int i = 0; i < 8; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(11634580027462260723);
        uint32_t x = (uint32_t)((seed >> 18 ^ seed) >> 27 & UINT32_MAX);
        uint32_t turn = (uint32_t)(seed >> 59);
        key.words[i] = x >> turn | x << ((32 - turn) & 31);
    }
    return key;
}

static presk_key derived(const presk_key *key, uint64_t stream, uint64_t i)
{
    uint32_t block[16];
    presk_key result;
    presk_key_block(key, stream, i, block);
    memcpy(result.words, block, sizeof result.words);
    return result;
}

presk_key presk_key_child(const presk_key *key, uint64_t i)
{
    return derived(key, CHILDREN, i);
}

presk_key presk_key_part(const presk_key *key, uint64_t i)
{
    return derived(key, PARTS, i);
}

uint64_t presk_key_draw(const presk_key *key, uint64_t i)
{
    uint32_t block[16];
    presk_key_block(key, DRAWN, i / 8, block);
    return (uint64_t)block[2 * (i % 8) + 1] << 32 | block[2 * (i % 8)];
}

double presk_key_uniform(const presk_key *key, uint64_t i)
{
    return (double)(presk_key_draw(key, i) >> 11) * 0x1p-53;
}
