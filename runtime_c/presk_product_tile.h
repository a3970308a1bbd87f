/* The tile of a product in one type: presk_product.h includes this once for each type, so there is no guard.
 *
 * TILE(rows, k, a, b, stride, c) adds a[i][r] * b[i][j] to c[r][j] for i = 0 … k - 1 in this order, 0 <= r < rows <=
 * TILE_ROWS, 0 <= j < TILE_COLUMNS. Each product and each sum rounds once; vector lanes only ever run across j.
 *   a[i][r] is a[i * rows + r], c[r][j] is c[r * TILE_COLUMNS + j];
 *   b[i][j] is b[i * stride + j], or in pairs (bfloat16): b[i / 2 * stride + 2 * j + i % 2].
 * TILE_FIRST is the same where c[r][j] is +0 before, which need not be there: c is written only.
 */
#if PRESK_VECTORS

#define TILE_EACH(r, n) PRESK_UNROLL for (int r = 0; r < (n); r++)

static PRESK_FORCE_INLINE void TILE_INNER(const int rows, int first, ptrdiff_t k, const TILE_ELEMENT *restrict a,
                                          const TILE_B *restrict b, ptrdiff_t stride, TILE_ELEMENT *restrict c)
{
    enum { lanes = (int)(sizeof(TILE_VECTOR) / sizeof(TILE_ELEMENT)), across = TILE_ACROSS };
    for (int j = 0; j < TILE_COLUMNS; j += lanes * across) {
        TILE_VECTOR sum[TILE_ROWS][across], y[across];
        if (first) {
            TILE_EACH(r, rows) TILE_EACH(q, across) sum[r][q] = (TILE_VECTOR){0};
        } else {
            TILE_EACH(r, rows) TILE_EACH(q, across)
                memcpy(&sum[r][q], c + r * TILE_COLUMNS + j + q * lanes, sizeof(TILE_VECTOR));
        }
        const TILE_ELEMENT *x = a;
#if TILE_PAIRS
        const TILE_B *from = b + 2 * j;
        presk_bits_vector u[across];
        for (ptrdiff_t i = 0; i + 2 <= k; i += 2, x += 2 * rows, from += stride) {
            TILE_EACH(q, across) memcpy(&u[q], from + 2 * q * lanes, sizeof u[q]);
            TILE_EACH(q, across) y[q] = (TILE_VECTOR)(u[q] << 16);
            TILE_EACH(r, rows) TILE_EACH(q, across) sum[r][q] += x[r] * y[q];
            TILE_EACH(q, across) y[q] = (TILE_VECTOR)(u[q] & UINT32_C(0xffff0000));
            TILE_EACH(r, rows) TILE_EACH(q, across) sum[r][q] += x[rows + r] * y[q];
        }
        if (k % 2 != 0) {
            TILE_EACH(q, across) memcpy(&u[q], from + 2 * q * lanes, sizeof u[q]);
            TILE_EACH(q, across) y[q] = (TILE_VECTOR)(u[q] << 16);
            TILE_EACH(r, rows) TILE_EACH(q, across) sum[r][q] += x[r] * y[q];
        }
#else
        const TILE_B *from = b + j;
        PRESK_UNROLL_STEPS
        for (ptrdiff_t i = 0; i < k; i++, x += rows, from += stride) {
            TILE_EACH(q, across) memcpy(&y[q], from + q * lanes, sizeof y[q]);
            TILE_EACH(r, rows) TILE_EACH(q, across) sum[r][q] += x[r] * y[q];
        }
#endif
        TILE_EACH(r, rows) TILE_EACH(q, across)
            memcpy(c + r * TILE_COLUMNS + j + q * lanes, &sum[r][q], sizeof(TILE_VECTOR));
    }
}

#undef TILE_EACH

static PRESK_OUT_OF_LINE void TILE_SUMS(ptrdiff_t rows, int first, ptrdiff_t k, const TILE_ELEMENT *restrict a,
                                        const TILE_B *restrict b, ptrdiff_t stride, TILE_ELEMENT *restrict c)
{
    switch (rows) {
    case 1: TILE_INNER(1, first, k, a, b, stride, c); break;
    case 2: TILE_INNER(2, first, k, a, b, stride, c); break;
    case 3: TILE_INNER(3, first, k, a, b, stride, c); break;
    case 4: TILE_INNER(4, first, k, a, b, stride, c); break;
    case 5: TILE_INNER(5, first, k, a, b, stride, c); break;
#if TILE_ROWS > 6
    case 6: TILE_INNER(6, first, k, a, b, stride, c); break;
    case 7: TILE_INNER(7, first, k, a, b, stride, c); break;
    case 8: TILE_INNER(8, first, k, a, b, stride, c); break;
    case 9: TILE_INNER(9, first, k, a, b, stride, c); break;
    case 10: TILE_INNER(10, first, k, a, b, stride, c); break;
    case 11: TILE_INNER(11, first, k, a, b, stride, c); break;
#endif
    case TILE_ROWS: TILE_INNER(TILE_ROWS, first, k, a, b, stride, c); break;
    }
}

#else

static PRESK_OUT_OF_LINE void TILE_SUMS(ptrdiff_t rows, int first, ptrdiff_t k, const TILE_ELEMENT *restrict a,
                                        const TILE_B *restrict b, ptrdiff_t stride, TILE_ELEMENT *restrict c)
{
    for (ptrdiff_t j = 0; first && j < rows * TILE_COLUMNS; j++) {
        c[j] = 0;
    }
    for (ptrdiff_t i = 0; i < k; i++) {
        for (ptrdiff_t r = 0; r < rows; r++) {
            for (ptrdiff_t j = 0; j < TILE_COLUMNS; j++) {
                c[r * TILE_COLUMNS + j] += a[i * rows + r] * TILE_READ(b, i, j, stride);
            }
        }
    }
}

#endif

static inline void TILE(ptrdiff_t rows, ptrdiff_t k, const TILE_ELEMENT *restrict a, const TILE_B *restrict b,
                        ptrdiff_t stride, TILE_ELEMENT *restrict c)
{
    TILE_SUMS(rows, 0, k, a, b, stride, c);
}

static inline void TILE_FIRST(ptrdiff_t rows, ptrdiff_t k, const TILE_ELEMENT *restrict a, const TILE_B *restrict b,
                              ptrdiff_t stride, TILE_ELEMENT *restrict c)
{
    TILE_SUMS(rows, 1, k, a, b, stride, c);
}

#undef TILE
#undef TILE_FIRST
#undef TILE_SUMS
#undef TILE_INNER
#undef TILE_ACROSS
