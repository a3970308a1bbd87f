/* presk_product.h: what the functions of products call: tiles of sums in registers, and packing into panels.
 *
 * A panel is a cache line of columns, all k: PRESK_COLUMNS_F32 = 16 columns of f32 or PRESK_COLUMNS_F64 = 8 of f64,
 * b[i * columns + j], whatever the target; the columns beyond the matrix' last are zero, are computed, and are
 * dropped. A packed matrix is its panels in order. The vectors, and the rows of a tile, follow the target at compile
 * time; the bits do not. A panel of bfloat16 weights holds two k of a column side by side: b[i / 2 * 32 + 2 * j + i % 2],
 * and a zero behind the last of an odd k, which is never read into a sum.
 */
#ifndef PRESK_PRODUCT_H
#define PRESK_PRODUCT_H

#include "presk_rt.h"

#if defined(__GNUC__)
#define PRESK_FORCE_INLINE inline __attribute__((__always_inline__))
#define PRESK_OUT_OF_LINE __attribute__((__noinline__, __unused__))
#else
#define PRESK_FORCE_INLINE inline
#define PRESK_OUT_OF_LINE inline
#endif

/* PRESK_UNROLL: a short loop of literal length is straight code. PRESK_UNROLL_STEPS: two steps of a tile are one
 * iteration, by the compiler, since gcc makes one expression of two steps that are written so, and spills. */
#if defined(__clang__)
#define PRESK_UNROLL _Pragma("clang loop unroll(full)")
#define PRESK_UNROLL_STEPS _Pragma("clang loop unroll_count(2)")
#elif defined(__GNUC__)
#define PRESK_UNROLL _Pragma("GCC unroll 16")
#define PRESK_UNROLL_STEPS _Pragma("GCC unroll 2")
#else
#define PRESK_UNROLL
#define PRESK_UNROLL_STEPS
#endif

/* Before a short loop over columns in a loop over rows: clang would make it straight code at -O3, and then vectors of
 * what lies in different rows, which it scatters. */
#if defined(__clang__)
#define PRESK_ACROSS _Pragma("clang loop unroll(disable)")
#else
#define PRESK_ACROSS
#endif

/* Asks for the cache line of an element that is soon read, or written. */
#if defined(__GNUC__)
#define PRESK_SOON_READ(p) __builtin_prefetch((p), 0)
#define PRESK_SOON_WRITTEN(p) __builtin_prefetch((p), 1)
#else
#define PRESK_SOON_READ(p) (void)(p)
#define PRESK_SOON_WRITTEN(p) (void)(p)
#endif

#if defined(__AVX512F__)
#define PRESK_VECTOR_BYTES 64
#elif defined(__AVX__)
#define PRESK_VECTOR_BYTES 32
#else
#define PRESK_VECTOR_BYTES 16
#endif

/* Two vectors of 16 or 32 bytes and six rows fill 16 registers; one of 64 bytes and twelve rows half of 32. */
#define PRESK_TILE_VECTORS (PRESK_VECTOR_BYTES == 64 ? 1 : 2)
#if PRESK_VECTOR_BYTES == 64
#define TILE_ROWS 12
#else
#define TILE_ROWS 6
#endif
enum { PRESK_ROWS = TILE_ROWS, PRESK_COLUMNS_F32 = 16, PRESK_COLUMNS_F64 = 8 };

/* The panels that one row meets side by side: their sums are four or eight vectors. */
enum { PRESK_WIDE = PRESK_VECTOR_BYTES > 16 ? 4 : 2 };

/* The lines of memory that a row asks for ahead, and the k's that a few rows meet at once. */
enum { PRESK_AHEAD = 16, PRESK_STREAMS = 4 };

static inline ptrdiff_t presk_least(ptrdiff_t a, ptrdiff_t b)
{
    return a < b ? a : b;
}

static inline ptrdiff_t presk_most(ptrdiff_t a, ptrdiff_t b)
{
    return a > b ? a : b;
}

#if PRESK_VECTORS
typedef float presk_f32_vector __attribute__((__vector_size__(PRESK_VECTOR_BYTES)));
typedef double presk_f64_vector __attribute__((__vector_size__(PRESK_VECTOR_BYTES)));
typedef uint32_t presk_bits_vector __attribute__((__vector_size__(PRESK_VECTOR_BYTES)));
#endif

/* --- Tiles ----------------------------------------------------------------------------------------------------- */

#define TILE presk_tile_f32
#define TILE_FIRST presk_tile_first_f32
#define TILE_SUMS presk_tile_sums_f32
#define TILE_INNER presk_tile_rows_f32
#define ROW_PANELS presk_row_panels_f32
#define ROW_PANELS_INNER presk_row_panels_of_f32
#define ROWS_STREAM presk_rows_stream_f32
#define TILE_ELEMENT float
#define TILE_B float
#define TILE_VECTOR presk_f32_vector
#define TILE_COLUMNS PRESK_COLUMNS_F32
#define TILE_ACROSS PRESK_TILE_VECTORS
#define TILE_PAIRS 0
#define TILE_READ(b, i, j, stride) (b)[(i) * (stride) + (j)]
#define TILE_STRIDE TILE_COLUMNS
#include "presk_product_tile.h"
#include "presk_product_rows.h"

#define TILE presk_tile_f64
#define TILE_FIRST presk_tile_first_f64
#define TILE_SUMS presk_tile_sums_f64
#define TILE_INNER presk_tile_rows_f64
#define ROW_PANELS presk_row_panels_f64
#define ROW_PANELS_INNER presk_row_panels_of_f64
#define ROWS_STREAM presk_rows_stream_f64
#define TILE_ELEMENT double
#define TILE_B double
#define TILE_VECTOR presk_f64_vector
#define TILE_COLUMNS PRESK_COLUMNS_F64
#define TILE_ACROSS PRESK_TILE_VECTORS
#define TILE_PAIRS 0
#define TILE_READ(b, i, j, stride) (b)[(i) * (stride) + (j)]
#define TILE_STRIDE TILE_COLUMNS
#include "presk_product_tile.h"
#include "presk_product_rows.h"

/* Two bfloat16 in a 32-bit lane, the first in its low half; on a big-endian machine the halves are read apart. */
#if PRESK_VECTORS && defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#undef PRESK_VECTORS
#define PRESK_VECTORS 0
#define PRESK_VECTORS_WERE_ON
#endif
#define TILE presk_tile_bf16
#define TILE_FIRST presk_tile_first_bf16
#define TILE_SUMS presk_tile_sums_bf16
#define TILE_INNER presk_tile_rows_bf16
#define ROW_PANELS presk_row_panels_bf16
#define ROW_PANELS_INNER presk_row_panels_of_bf16
#define TILE_ELEMENT float
#define TILE_B presk_bf16
#define TILE_VECTOR presk_f32_vector
#define TILE_COLUMNS PRESK_COLUMNS_F32
#define TILE_ACROSS 1 /* the pairs take registers too */
#define TILE_PAIRS 1
#define TILE_READ(b, i, j, stride) presk_f32_from_bf16((b)[(i) / 2 * (stride) + 2 * (j) + (i) % 2])
#define TILE_STRIDE (2 * TILE_COLUMNS)
#include "presk_product_tile.h"
#include "presk_product_rows.h"
#if defined(PRESK_VECTORS_WERE_ON)
#undef PRESK_VECTORS
#define PRESK_VECTORS 1
#endif

#undef TILE_ROWS

/* --- Panels ---------------------------------------------------------------------------------------------------- */

/* to[i * width + j] = from[j * across + i] for i < k and j < 4, or 2: a strip of columns becomes one of rows. */
#if defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 12)
#define PRESK_STRIPS 1
typedef float presk_f32x4 __attribute__((__vector_size__(16)));
typedef double presk_f64x2 __attribute__((__vector_size__(16)));
typedef uint64_t presk_u64x2 __attribute__((__vector_size__(16)));

static inline void presk_strip_f32(float *restrict to, ptrdiff_t width, ptrdiff_t k, const float *restrict from,
                                   ptrdiff_t across)
{
    ptrdiff_t i = 0;
    for (; i + 4 <= k; i += 4) {
        presk_f32x4 a, b, c, d;
        memcpy(&a, from + i, sizeof a);
        memcpy(&b, from + across + i, sizeof b);
        memcpy(&c, from + 2 * across + i, sizeof c);
        memcpy(&d, from + 3 * across + i, sizeof d);
        const presk_f32x4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
        const presk_f32x4 ef = __builtin_shufflevector(a, b, 2, 6, 3, 7), gh = __builtin_shufflevector(c, d, 2, 6, 3, 7);
        a = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
        b = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
        c = __builtin_shufflevector(ef, gh, 0, 1, 4, 5);
        d = __builtin_shufflevector(ef, gh, 2, 3, 6, 7);
        memcpy(to + i * width, &a, sizeof a);
        memcpy(to + (i + 1) * width, &b, sizeof b);
        memcpy(to + (i + 2) * width, &c, sizeof c);
        memcpy(to + (i + 3) * width, &d, sizeof d);
    }
    for (int rest = 0; rest < 3 && i < k; rest++, i++) {
        for (ptrdiff_t j = 0; j < 4; j++) {
            to[i * width + j] = from[j * across + i];
        }
    }
}

static inline void presk_pair_f32(float *restrict to, ptrdiff_t width, ptrdiff_t k, const float *restrict from,
                                  ptrdiff_t across)
{
    ptrdiff_t i = 0;
    for (; i + 4 <= k; i += 4) {
        presk_f32x4 a, b;
        memcpy(&a, from + i, sizeof a);
        memcpy(&b, from + across + i, sizeof b);
        const presk_u64x2 low = (presk_u64x2)__builtin_shufflevector(a, b, 0, 4, 1, 5);
        const presk_u64x2 high = (presk_u64x2)__builtin_shufflevector(a, b, 2, 6, 3, 7);
        const uint64_t pairs[4] = {low[0], low[1], high[0], high[1]};
        memcpy(to + i * width, pairs, sizeof *pairs);
        memcpy(to + (i + 1) * width, pairs + 1, sizeof *pairs);
        memcpy(to + (i + 2) * width, pairs + 2, sizeof *pairs);
        memcpy(to + (i + 3) * width, pairs + 3, sizeof *pairs);
    }
    for (int rest = 0; rest < 3 && i < k; rest++, i++) {
        to[i * width] = from[i];
        to[i * width + 1] = from[across + i];
    }
}

static inline void presk_strip_f64(double *restrict to, ptrdiff_t width, ptrdiff_t k, const double *restrict from,
                                   ptrdiff_t across)
{
    ptrdiff_t i = 0;
    for (; i + 2 <= k; i += 2) {
        presk_f64x2 a, b;
        memcpy(&a, from + i, sizeof a);
        memcpy(&b, from + across + i, sizeof b);
        const presk_f64x2 low = __builtin_shufflevector(a, b, 0, 2), high = __builtin_shufflevector(a, b, 1, 3);
        memcpy(to + i * width, &low, sizeof low);
        memcpy(to + (i + 1) * width, &high, sizeof high);
    }
    for (; i < k; i++) {
        to[i * width] = from[i];
        to[i * width + 1] = from[across + i];
    }
}
#else
#define PRESK_STRIPS 0
#endif

static inline void presk_strip_f32_from_bf16(float *restrict to, ptrdiff_t width, ptrdiff_t k,
                                             const presk_bf16 *restrict from, ptrdiff_t across)
{
    const presk_bf16 *const f1 = from + across, *const f2 = f1 + across, *const f3 = f2 + across;
    for (ptrdiff_t i = 0; i < k; i++) {
        float *const t = to + i * width;
        t[0] = presk_f32_from_bf16(from[i]);
        t[1] = presk_f32_from_bf16(f1[i]);
        t[2] = presk_f32_from_bf16(f2[i]);
        t[3] = presk_f32_from_bf16(f3[i]);
    }
}

static inline void presk_pair_f32_from_bf16(float *restrict to, ptrdiff_t width, ptrdiff_t k,
                                            const presk_bf16 *restrict from, ptrdiff_t across)
{
    for (ptrdiff_t i = 0; i < k; i++) {
        to[i * width] = presk_f32_from_bf16(from[i]);
        to[i * width + 1] = presk_f32_from_bf16(from[across + i]);
    }
}

/* The lines of a panel that are packed before the next panel's, or the next strip's: all of them stay in the first cache. */
enum { PRESK_PANEL_LINES = 8 };

/* NAME(to, width, count, k, from, across, down): to[i * width + j] is the element from[j * across + i * down] for j <
 * count <= width and 0 for the other j < width, 0 <= i < k. STRIP takes WIDE columns whose k are contiguous, PAIR two.
 * GROUP(to, columns, k, from, across, down) packs as many columns into panels, one after another. */
#define PRESK_PANEL(NAME, GROUP, TO, FROM, READ, STRIP, WIDE, PAIR)                                                   \
    static PRESK_FORCE_INLINE void NAME##_lines(TO *restrict to, ptrdiff_t width, const ptrdiff_t count, ptrdiff_t k, \
                                                const FROM *restrict from, ptrdiff_t down)                            \
    {                                                                                                                 \
        for (ptrdiff_t i = 0; i < k; i++) {                                                                           \
            for (ptrdiff_t j = 0; j < count; j++) {                                                                   \
                to[i * width + j] = READ(from[j + i * down]);                                                         \
            }                                                                                                         \
        }                                                                                                             \
    }                                                                                                                 \
    static PRESK_FORCE_INLINE void NAME##_strips(TO *restrict to, ptrdiff_t width, ptrdiff_t count, ptrdiff_t k,      \
                                                 const FROM *restrict from, ptrdiff_t across, ptrdiff_t down)         \
    {                                                                                                                 \
        ptrdiff_t j = 0;                                                                                              \
        for (; down == 1 && (WIDE) > 0 && j + (WIDE) <= count; j += (WIDE)) {                                         \
            STRIP(to + j, width, k, from + j * across, across);                                                       \
        }                                                                                                             \
        for (; down == 1 && (WIDE) > 0 && j + 2 <= count; j += 2) {                                                   \
            PAIR(to + j, width, k, from + j * across, across);                                                        \
        }                                                                                                             \
        for (; j < count; j++) {                                                                                      \
            for (ptrdiff_t i = 0; i < k; i++) {                                                                       \
                to[i * width + j] = READ(from[j * across + i * down]);                                                \
            }                                                                                                         \
        }                                                                                                             \
    }                                                                                                                 \
    static PRESK_OUT_OF_LINE void NAME(TO *restrict to, ptrdiff_t width, ptrdiff_t count, ptrdiff_t k,                \
                                       const FROM *restrict from, ptrdiff_t across, ptrdiff_t down)                   \
    {                                                                                                                 \
        for (ptrdiff_t i = 0; count < width && i < k; i++) {                                                          \
            for (ptrdiff_t j = count; j < width; j++) {                                                               \
                to[i * width + j] = 0;                                                                                \
            }                                                                                                         \
        }                                                                                                             \
        if (across == 1 && count == 64 / (ptrdiff_t)sizeof(TO)) {                                                     \
            NAME##_lines(to, width, 64 / (ptrdiff_t)sizeof(TO), k, from, down);                                       \
        } else if (across == 1 && count == PRESK_ROWS) {                                                              \
            NAME##_lines(to, width, PRESK_ROWS, k, from, down);                                                       \
        } else if (width == 1 && count == 1 && down == 1) {                                                           \
            NAME##_lines(to, k, k, 1, from, 0);                                                                       \
        } else if (across == 1) {                                                                                     \
            NAME##_lines(to, width, count, k, from, down);                                                            \
        } else {                                                                                                      \
            for (ptrdiff_t i = 0; i < k; i += PRESK_PANEL_LINES) {                                                    \
                const ptrdiff_t lines = presk_least(k - i, PRESK_PANEL_LINES);                                        \
                NAME##_strips(to + i * width, width, count, lines, from + i * down, across, down);                    \
            }                                                                                                         \
        }                                                                                                             \
    }                                                                                                                 \
    static PRESK_OUT_OF_LINE void GROUP(TO *restrict to, ptrdiff_t columns, ptrdiff_t k, const FROM *restrict from,   \
                                        ptrdiff_t across, ptrdiff_t down)                                             \
    {                                                                                                                 \
        const ptrdiff_t width = 64 / (ptrdiff_t)sizeof(TO);                                                           \
        for (ptrdiff_t i = 0; i < k; i += PRESK_PANEL_LINES) {                                                        \
            const ptrdiff_t lines = presk_least(k - i, PRESK_PANEL_LINES);                                            \
            for (ptrdiff_t j = 0; j < columns; j += width) {                                                          \
                NAME(to + j * k + i * width, width, presk_least(columns - j, width), lines,                           \
                     from + j * across + i * down, across, down);                                                     \
            }                                                                                                         \
        }                                                                                                             \
    }

#if PRESK_STRIPS
PRESK_PANEL(presk_panel_f32, presk_panels_f32, float, float, , presk_strip_f32, 4, presk_pair_f32)
PRESK_PANEL(presk_panel_f64, presk_panels_f64, double, double, , presk_strip_f64, 2, presk_strip_f64)
#else
#define PRESK_NO_STRIP(to, width, k, from, across) (void)0
PRESK_PANEL(presk_panel_f32, presk_panels_f32, float, float, , PRESK_NO_STRIP, 0, PRESK_NO_STRIP)
PRESK_PANEL(presk_panel_f64, presk_panels_f64, double, double, , PRESK_NO_STRIP, 0, PRESK_NO_STRIP)
#endif
PRESK_PANEL(presk_panel_f32_from_bf16, presk_panels_f32_from_bf16, float, presk_bf16, presk_f32_from_bf16,
            presk_strip_f32_from_bf16, 4, presk_pair_f32_from_bf16)

/* Widens a panel of bfloat16 in pairs: to[i * 16 + j] for 0 <= i < k. */
static PRESK_OUT_OF_LINE void presk_panel_f32_from_pairs(float *restrict to, ptrdiff_t k,
                                                         const presk_bf16 *restrict from)
{
    enum { columns = PRESK_COLUMNS_F32 };
    ptrdiff_t i = 0;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (; i + 2 <= k; i += 2, from += 2 * columns, to += 2 * columns) {
        uint32_t pairs[columns], even[columns], odd[columns];
        memcpy(pairs, from, sizeof pairs);
        for (int j = 0; j < columns; j++) {
            even[j] = pairs[j] << 16;
            odd[j] = pairs[j] & UINT32_C(0xffff0000);
        }
        memcpy(to, even, sizeof even);
        memcpy(to + columns, odd, sizeof odd);
    }
#endif
    for (; i < k; i++, to += columns) {
        for (int j = 0; j < columns; j++) {
            to[j] = presk_f32_from_bf16(from[2 * j + i % 2]);
        }
        from += i % 2 * 2 * columns;
    }
}

/* --- Weights, packed once at load ------------------------------------------------------------------------------ */

/* The elements of a packed (k, n) matrix; of bfloat16 for even(k) instead of k. */
#define PRESK_PANEL_ELEMENTS_F32(k, n) ((ptrdiff_t)(k) * (((n) + 15) / 16 * 16))
#define PRESK_PANEL_ELEMENTS_F64(k, n) ((ptrdiff_t)(k) * (((n) + 7) / 8 * 8))
#define PRESK_PANEL_ELEMENTS_BF16(k, n) PRESK_PANEL_ELEMENTS_F32(((k) + 1) / 2 * 2, n)

/* Packs the (k, n) matrix whose element (i, j) is from[i * down + j * across]: from (K, N) row-major with down = n and
 * across = 1, from (N, K) with down = 1 and across = k. Panels first … last - 1 only, so that it can be divided. */
static PRESK_OUT_OF_LINE void presk_pack_f32(float *restrict to, ptrdiff_t first, ptrdiff_t last, ptrdiff_t k,
                                             ptrdiff_t n, const float *restrict from, ptrdiff_t down, ptrdiff_t across)
{
    const ptrdiff_t j = first * PRESK_COLUMNS_F32;
    presk_panels_f32(to + j * k, presk_least(last * PRESK_COLUMNS_F32, n) - j, k, from + j * across, across, down);
}

static PRESK_OUT_OF_LINE void presk_pack_f64(double *restrict to, ptrdiff_t first, ptrdiff_t last, ptrdiff_t k,
                                             ptrdiff_t n, const double *restrict from, ptrdiff_t down,
                                             ptrdiff_t across)
{
    const ptrdiff_t j = first * PRESK_COLUMNS_F64;
    presk_panels_f64(to + j * k, presk_least(last * PRESK_COLUMNS_F64, n) - j, k, from + j * across, across, down);
}

static PRESK_OUT_OF_LINE void presk_pack_bf16(presk_bf16 *restrict to, ptrdiff_t first, ptrdiff_t last, ptrdiff_t k,
                                              ptrdiff_t n, const presk_bf16 *restrict from, ptrdiff_t down,
                                              ptrdiff_t across)
{
    const ptrdiff_t even = (k + 1) / 2 * 2;
    for (ptrdiff_t p = first; p < last; p++) {
        const ptrdiff_t j = p * PRESK_COLUMNS_F32, count = presk_least(n - j, PRESK_COLUMNS_F32);
        presk_bf16 *const panel = to + j * even;
        for (ptrdiff_t i = 0; i < even; i++) {
            presk_bf16 *const line = panel + i / 2 * 2 * PRESK_COLUMNS_F32 + i % 2;
            for (ptrdiff_t c = 0; c < PRESK_COLUMNS_F32; c++) {
                line[2 * c] = 0;
                if (c < count && i < k) {
                    line[2 * c] = from[i * down + (j + c) * across];
                }
            }
        }
    }
}

#endif /* PRESK_PRODUCT_H */
