/* presk_hooks.h: what a run reports of itself, for whoever asked for it at compile time. Without that, nothing at all.
 *
 *     -DPRESK_TRACE_ARENA   how much of the arena is written         presk_trace.h
 *     -DPRESK_PROFILE       how long each launch takes               presk_profile.h
 *     -DPRESK_HASH          the hash of everything that is written   presk_hash.h
 *
 * The first NaN that a launch writes is looked for in any build, when a run is watched: presk_watch.h.
 * Launches are numbered in the order in which they run, which is the order of the recording's operations.
 */
#ifndef PRESK_HOOKS_H
#define PRESK_HOOKS_H

#include "presk_hash.h"
#include "presk_profile.h"
#include "presk_trace.h"
#include "presk_watch.h"

/* A run begins, in an arena of so many bytes; then each output that it will write, in order. */
#define PRESK_RUN_BEGINS(arena, bytes)   \
    do {                                 \
        PRESK_TRACE_BEGIN(arena, bytes); \
        PRESK_HASH_BEGIN(arena, bytes);  \
    } while (0)
#define PRESK_RUN_WRITES(p, bytes) PRESK_HASH_OUTPUT(p, bytes)

/* A launch begins; it has written `count` elements at p, its array argument `position`; it is done. */
#define PRESK_LAUNCH_WRITES(position, type, p, count)  \
    do {                                               \
        PRESK_TRACE_WRITE(p, (count) * sizeof *(p));   \
        PRESK_HASH_WRITE(position, type, p, count);    \
        PRESK_WATCH_WRITE(type, p, count);             \
    } while (0)
#define PRESK_LAUNCH_BEGINS() PRESK_PROFILE_BEGIN()
#define PRESK_LAUNCH_ENDS()   \
    do {                      \
        PRESK_PROFILE_END();  \
        PRESK_HASH_LAUNCH();  \
        PRESK_WATCH_LAUNCH(); \
    } while (0)

#endif /* PRESK_HOOKS_H */
