/* presk_trace.h: under -DPRESK_TRACE_ARENA, how much of the arena a run really writes. Without it, nothing at all.
 *
 * A traced run starts with an arena full of 0xff bytes, which are NaNs in every float type: a kernel that reads what
 * none wrote shows in the output.
 */
#ifndef PRESK_TRACE_H
#define PRESK_TRACE_H

#include "presk_rt.h"

#if defined(PRESK_TRACE_ARENA)

/* From now on, writes inside arena[0 .. bytes-1] count; its bytes become 0xff. Not for several threads at once. */
void presk_trace_begin(void *arena, size_t bytes);

/* A kernel is about to write bytes at p. */
void presk_trace_write(const void *p, size_t bytes);

/* The end of the highest write so far, in bytes from the arena's start. */
size_t presk_trace_peak(void);

#define PRESK_TRACE_BEGIN(arena, bytes) presk_trace_begin(arena, bytes)
#define PRESK_TRACE_WRITE(p, bytes) presk_trace_write(p, bytes)
#else
#define PRESK_TRACE_BEGIN(arena, bytes) ((void)0)
#define PRESK_TRACE_WRITE(p, bytes) ((void)0)
#endif

#endif /* PRESK_TRACE_H */
