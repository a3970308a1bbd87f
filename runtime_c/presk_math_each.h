/* presk_math_each.h: exp, tanh, sigmoid and silu of many f32: presk_NAME_f32_each(n, x) puts NAME(x[i]) in x[i]'s place,
 * 0 <= i < n, n a multiple of PRESK_EACH.
 *
 * An element is a chain of dependent operations, longer than what a core looks ahead at. So all arguments are reduced
 * first, and then all results are finished: two chains half as long, with the s and r between them in an array. Each
 * inner loop has a literal count and touches different elements, so that gcc makes vectors of it at -O2, too.
 */
#ifndef PRESK_MATH_EACH_H
#define PRESK_MATH_EACH_H

#include <stddef.h>

#include "presk_math.h"

enum { PRESK_EACH = 16, PRESK_EACH_MOST = 192 };

#if defined(__GNUC__)
#define PRESK_EACH_APART __attribute__((__noinline__, __unused__))
#else
#define PRESK_EACH_APART inline
#endif

#define PRESK_IN_TWO_LOOPS(NAME)                                                                                      \
    static PRESK_EACH_APART void presk_##NAME##_f32_each(ptrdiff_t n, float *restrict x)                              \
    {                                                                                                                 \
        _Alignas(64) double s[PRESK_EACH_MOST], r[PRESK_EACH_MOST];                                                   \
        for (; n > 0; n -= PRESK_EACH_MOST, x += PRESK_EACH_MOST) {                                                   \
            const ptrdiff_t here = n < PRESK_EACH_MOST ? n : PRESK_EACH_MOST;                                         \
            for (ptrdiff_t i = 0; i < here; i += PRESK_EACH) {                                                        \
                for (ptrdiff_t j = 0; j < PRESK_EACH; j++) {                                                          \
                    presk_##NAME##_f32_reduced(x[i + j], &s[i + j], &r[i + j]);                                       \
                }                                                                                                     \
            }                                                                                                         \
            for (ptrdiff_t i = 0; i < here; i += PRESK_EACH) {                                                        \
                for (ptrdiff_t j = 0; j < PRESK_EACH; j++) {                                                          \
                    x[i + j] = presk_##NAME##_f32_finished(x[i + j], s[i + j], r[i + j]);                             \
                }                                                                                                     \
            }                                                                                                         \
        }                                                                                                             \
    }
PRESK_IN_TWO_LOOPS(exp)
PRESK_IN_TWO_LOOPS(tanh)
PRESK_IN_TWO_LOOPS(sigmoid)
PRESK_IN_TWO_LOOPS(silu)

#endif
