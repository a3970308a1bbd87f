/* presk_trace.c: the highest write into the arena; see presk_trace.h. */
#include "presk_trace.h"

#if defined(PRESK_TRACE_ARENA)

static uintptr_t arena_start;
static size_t arena_bytes;
static size_t highest;

void presk_trace_begin(void *arena, size_t bytes)
{
    arena_start = (uintptr_t)arena;
    arena_bytes = bytes;
    highest = 0;
    memset(arena, 0xff, bytes);
}

void presk_trace_write(const void *p, size_t bytes)
{
    uintptr_t at = (uintptr_t)p;
    if (at >= arena_start && at - arena_start < arena_bytes && bytes > 0) {
        size_t end = (size_t)(at - arena_start) + bytes;
        highest = end > highest ? end : highest;
    }
}

size_t presk_trace_peak(void)
{
    return highest;
}

#else

typedef int presk_trace_is_off; /* C11 wants a declaration */

#endif
