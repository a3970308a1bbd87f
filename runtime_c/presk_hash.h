/* presk_hash.h: under -DPRESK_HASH, a 64-bit hash of every array that a launch writes. Without it, nothing at all.
 *
 * The hash h of n elements with the bits x[i], every NaN the canonical one: cut into pieces of 2^14 elements, h = n, then
 * for each piece
 *
 *     h = mix(h + sum of (x[i] ^ x[i] >> 32) * (mix((i + 1) * 0x9e3779b97f4a7c15) | 1))    modulo 2^64,
 *
 * i counted within the piece; mix is the finalizer of splitmix64. The factors are odd: no single change is lost. The hash
 * depends on the elements and their order alone: not on the machine's byte order, on threads, or on how a kernel was
 * divided.
 *
 * The file has a line "presk hashes 1", a line "recording DIGEST KIND", and for each launch a line an array:
 *
 *     OPERATION KERNEL POSITION PLACE HASH    PLACE is arena+BYTES or outN+BYTES, or ? where it is neither
 *     OPERATION KERNEL stray PLACE            the launch changed a byte there, outside the arrays that it writes
 *
 * then "end OPERATIONS". It is written line by line: a run that crashes leaves what came before. Only the first run is
 * hashed. It starts with an arena full of 0xff bytes and keeps a copy of arena and outputs, to find what a launch
 * changed. Not for runs in several threads at once.
 */
#ifndef PRESK_HASH_H
#define PRESK_HASH_H

#include "presk_tensors.h"

#if defined(PRESK_HASH)

/* Opens the file at `path`; `recording` is its second line. Until then, and after presk_hash_close, nothing is hashed. */
bool presk_hash_open(const char *path, const char *recording, presk_error *e);
bool presk_hash_close(const char *path, presk_error *e); /* also where it was never opened */

void presk_hash_begin(void *arena, size_t bytes);
void presk_hash_output(const void *p, size_t bytes);
void presk_hash_write(int position, presk_dtype type, const void *p, size_t count);
void presk_hash_launch(const char *kernel);

#define PRESK_HASH_BEGIN(arena, bytes) presk_hash_begin(arena, bytes)
#define PRESK_HASH_OUTPUT(p, bytes) presk_hash_output(p, bytes)
#define PRESK_HASH_WRITE(position, type, p, count) presk_hash_write(position, type, p, count)
#define PRESK_HASH_LAUNCH() presk_hash_launch(__func__)
#else
#define PRESK_HASH_BEGIN(arena, bytes) ((void)0)
#define PRESK_HASH_OUTPUT(p, bytes) ((void)0)
#define PRESK_HASH_WRITE(position, type, p, count) ((void)0)
#define PRESK_HASH_LAUNCH() ((void)0)
#endif

#endif /* PRESK_HASH_H */
