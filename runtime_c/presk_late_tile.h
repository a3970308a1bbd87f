/* The tile of a late product in one type: presk_late.h includes this once for each type, so there is no guard.
 *
 * LATE(rows, k, a, b, stride, c) sets c[r * LATE_COLUMNS + j] to the sum of a[i * rows + r] * b[i * stride + j] over
 * i = r … k - 1 in this order, from +0, for 0 <= r < rows <= PRESK_ROWS and 0 <= j < LATE_COLUMNS. Each product and each
 * sum rounds once; vector lanes only ever run across j. What comes before a row's own terms is neither multiplied nor
 * added.
 */
#if PRESK_VECTORS

#define LATE_EACH(r, n) PRESK_UNROLL for (int r = 0; r < (n); r++)
/* Step i, which the first i + 1 rows have. */
#define LATE_STEP(i)                                                                                                  \
    if ((i) < PRESK_ROWS - 1) {                                                                                       \
        LATE_EACH(q, across) memcpy(&y[q], from + q * lanes, sizeof y[q]);                                            \
        LATE_EACH(r, (i) < PRESK_ROWS ? (i) + 1 : 0) LATE_EACH(q, across) sum[r][q] += x[r] * y[q];                   \
        x += PRESK_ROWS;                                                                                              \
        from += stride;                                                                                               \
    }

/* A whole tile whose last row has a term. */
static PRESK_OUT_OF_LINE void LATE_WHOLE(ptrdiff_t k, const LATE_ELEMENT *restrict a, const LATE_ELEMENT *restrict b,
                                         ptrdiff_t stride, LATE_ELEMENT *restrict c)
{
    enum { lanes = (int)(sizeof(LATE_VECTOR) / sizeof(LATE_ELEMENT)), across = PRESK_TILE_VECTORS };
    for (int j = 0; j < LATE_COLUMNS; j += lanes * across) {
        LATE_VECTOR sum[PRESK_ROWS][across], y[across];
        const LATE_ELEMENT *x = a, *from = b + j;
        LATE_EACH(r, PRESK_ROWS) LATE_EACH(q, across) sum[r][q] = (LATE_VECTOR){0};
        LATE_STEP(0)
        LATE_STEP(1)
        LATE_STEP(2)
        LATE_STEP(3)
        LATE_STEP(4)
        LATE_STEP(5)
        LATE_STEP(6)
        LATE_STEP(7)
        LATE_STEP(8)
        LATE_STEP(9)
        LATE_STEP(10)
        PRESK_UNROLL_STEPS
        for (ptrdiff_t i = PRESK_ROWS - 1; i < k; i++, x += PRESK_ROWS, from += stride) {
            LATE_EACH(q, across) memcpy(&y[q], from + q * lanes, sizeof y[q]);
            LATE_EACH(r, PRESK_ROWS) LATE_EACH(q, across) sum[r][q] += x[r] * y[q];
        }
        LATE_EACH(r, PRESK_ROWS) LATE_EACH(q, across)
            memcpy(c + r * LATE_COLUMNS + j + q * lanes, &sum[r][q], sizeof(LATE_VECTOR));
    }
}

#undef LATE_STEP
#undef LATE_EACH

#endif

static PRESK_OUT_OF_LINE void LATE(ptrdiff_t rows, ptrdiff_t k, const LATE_ELEMENT *restrict a,
                                   const LATE_ELEMENT *restrict b, ptrdiff_t stride, LATE_ELEMENT *restrict c)
{
#if PRESK_VECTORS
    if (rows == PRESK_ROWS && k >= rows) {
        LATE_WHOLE(k, a, b, stride, c);
        return;
    }
#endif
    for (ptrdiff_t r = 0; r < rows; r++) {
        LATE_ELEMENT sum[LATE_COLUMNS] = {0};
        for (ptrdiff_t i = r; i < k; i++) {
            for (int j = 0; j < LATE_COLUMNS; j++) {
                sum[j] += a[i * rows + r] * b[i * stride + j];
            }
        }
        memcpy(c + r * LATE_COLUMNS, sum, sizeof sum);
    }
}

#undef LATE
#undef LATE_WHOLE
#undef LATE_ELEMENT
#undef LATE_VECTOR
#undef LATE_COLUMNS
