/* presk_key.h: the random numbers of presk: ChaCha20 with a 64-bit block counter and a 64-bit stream number.
 *
 * A key is eight words. Words are drawn from stream 0; word 0 to 7 of block i of stream 1 are the key of child i, of
 * stream 2 the key of part i. The key of a seed is the first 32 bytes of the PCG32 stream of rand_core's seed_from_u64.
 * A key is never changed by drawing from it.
 */
#ifndef PRESK_KEY_H
#define PRESK_KEY_H

#include "presk_rt.h"

typedef struct presk_key {
    uint32_t words[8];
} presk_key;

presk_key presk_key_seed(uint64_t seed);
presk_key presk_key_child(const presk_key *key, uint64_t i);
presk_key presk_key_part(const presk_key *key, uint64_t i); /* of a split into more than i parts */

/* Block `counter` of a stream: 16 words. */
void presk_key_block(const presk_key *key, uint64_t stream, uint64_t counter, uint32_t out[16]);

/* The i-th 64-bit draw: two words, low first. */
uint64_t presk_key_draw(const presk_key *key, uint64_t i);

/* The i-th uniform number in [0, 1): the draw's upper 53 bits over 2^53. */
double presk_key_uniform(const presk_key *key, uint64_t i);

#endif /* PRESK_KEY_H */
