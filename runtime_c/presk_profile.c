/* presk_profile.c: times of launches; see presk_profile.h. */
#include "presk_profile.h"

#if defined(PRESK_PROFILE)

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long long *times; /* of launches, in nanoseconds; of a run as -1 - nanoseconds */
static size_t count;
static size_t room;
static long long started, run_started;

static long long now(void)
{
    struct timespec t = {0};
    (void)timespec_get(&t, TIME_UTC);
    return (long long)t.tv_sec * 1000000000LL + (long long)t.tv_nsec;
}

void presk_profile_begin(void)
{
    started = now();
}

static void keep(long long time)
{
    if (count == room) {
        size_t more = room > 0 ? 2 * room : 1024;
        long long *grown = realloc(times, more * sizeof *times);
        if (grown == NULL) {
            return; /* a profile with its end missing is better than no run */
        }
        times = grown;
        room = more;
    }
    times[count++] = time;
}

void presk_profile_end(void)
{
    keep(now() - started);
}

void presk_profile_run_begin(void)
{
    run_started = now();
}

void presk_profile_run_end(void)
{
    keep(-1 - (now() - run_started));
}

void presk_profile_reset(void)
{
    count = 0;
}

bool presk_profile_save(const char *path, presk_error *e)
{
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        return presk_fail(e, PRESK_E_UNWRITABLE, path, "cannot be made");
    }
    bool good = true;
    size_t launch = 0;
    for (size_t i = 0; i < count; i++) {
        if (times[i] < 0) {
            good = fprintf(file, "run %lld\n", -1 - times[i]) > 0 && good;
        } else {
            good = fprintf(file, "%zu %lld\n", launch++, times[i]) > 0 && good;
        }
    }
    good = fclose(file) == 0 && good;
    return good || presk_fail(e, PRESK_E_UNWRITABLE, path, "cannot be written");
}

#else

typedef int presk_profile_is_off; /* C11 wants a declaration */

#endif
