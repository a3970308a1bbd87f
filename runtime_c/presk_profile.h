/* presk_profile.h: under -DPRESK_PROFILE, how long each launch of a run takes. Without it, nothing at all.
 *
 * Launches are numbered in the order in which they run, which is the order of the recording's operations.
 */
#ifndef PRESK_PROFILE_H
#define PRESK_PROFILE_H

#include "presk_rt.h"

#if defined(PRESK_PROFILE)

void presk_profile_begin(void); /* a launch starts */
void presk_profile_end(void);   /* it is done: its time is kept */
void presk_profile_run_begin(void); /* a whole run starts */
void presk_profile_run_end(void);   /* it is done */
void presk_profile_reset(void); /* forgets all times: the next launch has the number 0 */

/* Writes what was timed since the last reset to the file at `path`: a line "number nanoseconds" for each launch, with
 * "run nanoseconds" behind the launches of each run. */
bool presk_profile_save(const char *path, presk_error *e);

#define PRESK_PROFILE_BEGIN() presk_profile_begin()
#define PRESK_PROFILE_END() presk_profile_end()
#else
#define PRESK_PROFILE_BEGIN() ((void)0)
#define PRESK_PROFILE_END() ((void)0)
#endif

#endif /* PRESK_PROFILE_H */
