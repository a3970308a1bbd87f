/* The tile of an attention in one type: presk_attention.h includes this once for each type, so there is no guard.
 *
 * ROWS(rows, k, more, a, from, b, c, to) sets c[r * to + j] to the sum of a[r * from + i] * b[i * ROWS_COLUMNS + j] over
 * i = 0 … k + more * r - 1 in this order, from +0, for 0 <= r < rows <= PRESK_QUERIES and 0 <= j < ROWS_COLUMNS; more is
 * 0 or 1. Each product and each sum rounds once; vector lanes only ever run across j. What lies beyond a row's own terms
 * is neither read nor added.
 */
#if PRESK_VECTORS

#define ROWS_EACH(r, n) PRESK_UNROLL for (int r = 0; r < (n); r++)

static PRESK_FORCE_INLINE void ROWS_INNER(const int rows, ptrdiff_t k, const ROWS_ELEMENT *restrict a, ptrdiff_t from,
                                          const ROWS_ELEMENT *restrict b, ROWS_ELEMENT *restrict c, ptrdiff_t to)
{
    enum { lanes = (int)(sizeof(ROWS_VECTOR) / sizeof(ROWS_ELEMENT)), across = PRESK_TILE_VECTORS };
    for (int j = 0; j < ROWS_COLUMNS; j += lanes * across) {
        ROWS_VECTOR sum[PRESK_QUERIES][across], y[across];
        const ROWS_ELEMENT *x[PRESK_QUERIES], *line = b + j;
        ROWS_EACH(r, rows) x[r] = a + r * from;
        ROWS_EACH(r, rows) ROWS_EACH(q, across) sum[r][q] = (ROWS_VECTOR){0};
        PRESK_UNROLL_STEPS
        for (ptrdiff_t i = 0; i < k; i++, line += ROWS_COLUMNS) {
            ROWS_EACH(q, across) memcpy(&y[q], line + q * lanes, sizeof y[q]);
            ROWS_EACH(r, rows) ROWS_EACH(q, across) sum[r][q] += x[r][i] * y[q];
        }
        ROWS_EACH(r, rows) ROWS_EACH(q, across)
            memcpy(c + r * to + j + q * lanes, &sum[r][q], sizeof(ROWS_VECTOR));
    }
}

/* One row goes on with k more terms. */
static PRESK_FORCE_INLINE void ROWS_REST(ptrdiff_t k, const ROWS_ELEMENT *restrict a, const ROWS_ELEMENT *restrict b,
                                         ROWS_ELEMENT *restrict c)
{
    enum { lanes = (int)(sizeof(ROWS_VECTOR) / sizeof(ROWS_ELEMENT)), across = ROWS_COLUMNS / lanes };
    ROWS_VECTOR sum[across], y;
    memcpy(sum, c, sizeof sum);
    for (ptrdiff_t i = 0; i < k; i++) {
        ROWS_EACH(q, across)
        {
            memcpy(&y, b + i * ROWS_COLUMNS + q * lanes, sizeof y);
            sum[q] += a[i] * y;
        }
    }
    memcpy(c, sum, sizeof sum);
}

static PRESK_OUT_OF_LINE void ROWS(ptrdiff_t rows, ptrdiff_t k, ptrdiff_t more, const ROWS_ELEMENT *restrict a,
                                   ptrdiff_t from, const ROWS_ELEMENT *restrict b, ROWS_ELEMENT *restrict c,
                                   ptrdiff_t to)
{
    switch (rows) {
    case 1: ROWS_INNER(1, k, a, from, b, c, to); break;
    case 2: ROWS_INNER(2, k, a, from, b, c, to); break;
    case 3: ROWS_INNER(3, k, a, from, b, c, to); break;
    case 4: ROWS_INNER(4, k, a, from, b, c, to); break;
    case 5: ROWS_INNER(5, k, a, from, b, c, to); break;
    case 6: ROWS_INNER(6, k, a, from, b, c, to); break;
#if PRESK_VECTOR_BYTES == 64
    case 7: ROWS_INNER(7, k, a, from, b, c, to); break;
    case 8: ROWS_INNER(8, k, a, from, b, c, to); break;
    case 9: ROWS_INNER(9, k, a, from, b, c, to); break;
    case 10: ROWS_INNER(10, k, a, from, b, c, to); break;
    case 11: ROWS_INNER(11, k, a, from, b, c, to); break;
    case 12: ROWS_INNER(12, k, a, from, b, c, to); break;
#endif
    }
    for (ptrdiff_t r = 1; r < rows && more != 0; r++) {
        ROWS_REST(r, a + r * from + k, b + k * ROWS_COLUMNS, c + r * to);
    }
}

#undef ROWS_EACH

#else

static PRESK_OUT_OF_LINE void ROWS(ptrdiff_t rows, ptrdiff_t k, ptrdiff_t more, const ROWS_ELEMENT *restrict a,
                                   ptrdiff_t from, const ROWS_ELEMENT *restrict b, ROWS_ELEMENT *restrict c,
                                   ptrdiff_t to)
{
    for (ptrdiff_t r = 0; r < rows; r++) {
        ROWS_ELEMENT sum[ROWS_COLUMNS] = {0};
        for (ptrdiff_t i = 0; i < k + more * r; i++) {
            for (ptrdiff_t j = 0; j < ROWS_COLUMNS; j++) {
                sum[j] += a[r * from + i] * b[i * ROWS_COLUMNS + j];
            }
        }
        memcpy(c + r * to, sum, sizeof sum);
    }
}

#endif

#undef ROWS
#undef ROWS_INNER
#undef ROWS_REST
#undef ROWS_ELEMENT
#undef ROWS_VECTOR
#undef ROWS_COLUMNS
