/* presk_threads.h: a launch as an OpenMP region over pieces of its output, or as one call where there is no OpenMP.
 *
 * A kernel's function computes the units first … last - 1 of its output; whoever calls it divides the units. No bit
 * depends on the division, on the number of threads, or on which thread runs a piece.
 */
#ifndef PRESK_THREADS_H
#define PRESK_THREADS_H

#include <stddef.h>

#if defined(_OPENMP)
#include <omp.h>
#define PRESK_PARALLEL(pieces) PRESK_PRAGMA(omp parallel for schedule(static, 1) num_threads((int)(pieces)))
#define PRESK_PRAGMA(text) _Pragma(#text)
#else
#define PRESK_PARALLEL(pieces)
#endif

/* The threads that a team may have. */
static inline int presk_threads(void)
{
#if defined(_OPENMP)
    return omp_get_max_threads();
#else
    return 1;
#endif
}

/* The pieces into which a launch is divided: at most `most` (1 for one too small to divide), at most its units, at most
 * the threads of a team. */
static inline ptrdiff_t presk_pieces(ptrdiff_t units, ptrdiff_t most)
{
#if defined(_OPENMP)
    ptrdiff_t pieces = most < units ? most : units;
    if (pieces > 1 && pieces > omp_get_max_threads()) {
        pieces = omp_get_max_threads();
    }
    return pieces > 1 ? pieces : 1;
#else
    (void)units;
    (void)most;
    return 1;
#endif
}

/* PRESK_LAUNCH(units, most, NAME(first, last, arguments ...)): the call, whose text names `first` and `last`, for every
 * piece; `piece`, below presk_pieces(units, most), chooses its part of the scratch memory. One piece is a plain call: a
 * region of one thread takes as long as a small kernel. */
#define PRESK_LAUNCH(units, most, ...)                                                                                \
    do {                                                                                                              \
        const ptrdiff_t presk_launch_units = (units), presk_launch_pieces = presk_pieces(presk_launch_units, (most)); \
        if (presk_launch_pieces == 1) {                                                                               \
            const ptrdiff_t piece = 0, first = 0, last = presk_launch_units;                                          \
            (void)piece;                                                                                              \
            __VA_ARGS__;                                                                                              \
        } else {                                                                                                      \
            PRESK_PARALLEL(presk_launch_pieces)                                                                       \
            for (ptrdiff_t piece = 0; piece < presk_launch_pieces; piece++) {                                         \
                const ptrdiff_t first = presk_launch_units * piece / presk_launch_pieces;                             \
                const ptrdiff_t last = presk_launch_units * (piece + 1) / presk_launch_pieces;                        \
                __VA_ARGS__;                                                                                          \
            }                                                                                                         \
        }                                                                                                             \
    } while (0)

#endif /* PRESK_THREADS_H */
