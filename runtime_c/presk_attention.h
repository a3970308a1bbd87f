/* presk_attention.h: what the functions of attentions call: sums of a few rows over a panel of columns in registers, and
 * what keeps the rest of a row out of its sums.
 *
 * Rows lie in memory as they are; panels as in presk_product.h. The rows of a tile follow the target at compile time, the
 * bits do not.
 */
#ifndef PRESK_ATTENTION_H
#define PRESK_ATTENTION_H

#include "presk_product.h"

/* Two vectors of 16 or 32 bytes and six rows fill 16 registers; one of 64 bytes and twelve rows half of 32. */
enum { PRESK_QUERIES = PRESK_VECTOR_BYTES == 64 ? 12 : 6 };

#define ROWS presk_rows_f32
#define ROWS_INNER presk_rows_inner_f32
#define ROWS_REST presk_rows_rest_f32
#define ROWS_ELEMENT float
#define ROWS_VECTOR presk_f32_vector
#define ROWS_COLUMNS PRESK_COLUMNS_F32
#include "presk_attention_tile.h"

#define ROWS presk_rows_f64
#define ROWS_INNER presk_rows_inner_f64
#define ROWS_REST presk_rows_rest_f64
#define ROWS_ELEMENT double
#define ROWS_VECTOR presk_f64_vector
#define ROWS_COLUMNS PRESK_COLUMNS_F64
#include "presk_attention_tile.h"

/* The last elements of a row fill a block of 16 whose others are computed and dropped: presk_live + 16 - n has n ones,
 * then zeros. */
static const int32_t presk_live[32] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* Before a loop whose iterations touch different elements: gcc, which vectorizes at -O2 only where nothing has to be
 * tested at run time, need not prove it. */
#if defined(__GNUC__) && !defined(__clang__)
#define PRESK_APART _Pragma("GCC ivdep")
#else
#define PRESK_APART
#endif

#endif /* PRESK_ATTENTION_H */
