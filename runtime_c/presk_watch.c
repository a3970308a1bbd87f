/* presk_watch.c: the first NaN that a launch writes; see presk_watch.h. */
#include "presk_watch.h"

_Thread_local presk_nan *presk_watching = NULL;

void presk_watch(presk_nan *found)
{
    presk_watching = found;
    if (found != NULL) {
        *found = (presk_nan){0};
    }
}

bool presk_find_nan(presk_dtype type, const void *values, size_t count, size_t *at)
{
    const double *f64 = values;
    const float *f32 = values;
    const presk_bf16 *bf16 = values;
    for (size_t i = 0; i < count; i++) {
        if ((type == PRESK_F64 && f64[i] != f64[i]) || (type == PRESK_F32 && f32[i] != f32[i])
            || (type == PRESK_BF16 && (bf16[i] & 0x7fff) > 0x7f80)) {
            *at = i;
            return true;
        }
    }
    return false;
}

void presk_watch_write(const char *kernel, presk_dtype type, const char *array, const void *values, size_t count)
{
    presk_nan *found = presk_watching;
    if (found->kernel == NULL && presk_find_nan(type, values, count, &found->element)) {
        found->kernel = kernel;
        found->array = array;
    }
}

void presk_watch_launch(void)
{
    presk_watching->launch += presk_watching->kernel == NULL;
}
