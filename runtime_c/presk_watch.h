/* presk_watch.h: the first NaN that a launch writes, for a run that is watched. A run that is not pays a test a launch. */
#ifndef PRESK_WATCH_H
#define PRESK_WATCH_H

#include "presk_tensors.h"

/* Launches are numbered in the order in which they run, which is the order of the recording's operations. */
typedef struct presk_nan {
    const char *kernel; /* the launch's function, NULL while no launch has written a NaN */
    const char *array;  /* the written parameter */
    size_t element;     /* of it */
    long long launch;   /* the launch's number; while there is none, how many have ended */
} presk_nan;

/* From now on launches of this thread look at what they write and report to *found; with NULL they do not. */
void presk_watch(presk_nan *found);

/* True and *at, the first NaN among `count` values; there is none among integers. */
bool presk_find_nan(presk_dtype type, const void *values, size_t count, size_t *at);

void presk_watch_write(const char *kernel, presk_dtype type, const char *array, const void *values, size_t count);
void presk_watch_launch(void);

extern _Thread_local presk_nan *presk_watching;

#define PRESK_WATCH_WRITE(type, array, count) \
    (presk_watching != NULL ? presk_watch_write(__func__, type, #array, array, count) : (void)0)
#define PRESK_WATCH_LAUNCH() (presk_watching != NULL ? presk_watch_launch() : (void)0)

#endif /* PRESK_WATCH_H */
