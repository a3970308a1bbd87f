/* Products of one row or a few in one type: presk_product.h includes this after each tile, so there is no guard.
 *
 * They read the right factor once, as it lies in memory, and so run at the pace of the memory. Each product and each
 * sum rounds once, k ascending; vector lanes only ever run across columns.
 *
 * ROW_PANELS(panels, k, a, b, apart, c) adds a[i] * b[i][j] to c[q * TILE_COLUMNS + j] for one row and 1 <= panels <=
 * PRESK_WIDE panels q, which lie `apart` elements from each other; a[i] and a panel's b[i][j] are as for a tile. Side by
 * side their sums hide the time that an addition takes, and their lines come from memory at once.
 *
 * ROWS_STREAM(rows, k, columns, a, b, stride, c, apart) adds a[i * rows + r] * b[i * stride + j] to c[r * apart + j] for
 * r < rows and j < columns: PRESK_STREAMS lines k at a time, so that whole lines of b are read one after the other.
 */
#if PRESK_VECTORS

#define TILE_EACH(r, n) PRESK_UNROLL for (int r = 0; r < (n); r++)

/* Asks for the line `elements` behind `from`, wherever that is: a hint, which may be wrong. Into all caches; or not into
 * the first, which has room for fewer lines on their way. */
#define ROW_PLACE(from, elements) (const void *)((uintptr_t)(from) + (uintptr_t)(elements) * sizeof *(from))
#define ROW_AHEAD(from, elements) __builtin_prefetch(ROW_PLACE(from, elements))
#define ROW_FAR_AHEAD(from, elements) __builtin_prefetch(ROW_PLACE(from, elements), 0, 2)

static PRESK_FORCE_INLINE void ROW_PANELS_INNER(const int panels, ptrdiff_t k, const TILE_ELEMENT *restrict a,
                                                const TILE_B *restrict b, ptrdiff_t apart, TILE_ELEMENT *restrict c)
{
    enum { lanes = (int)(sizeof(TILE_VECTOR) / sizeof(TILE_ELEMENT)), across = TILE_COLUMNS / lanes };
    TILE_VECTOR sum[PRESK_WIDE][across];
    memcpy(sum, c, (size_t)panels * sizeof sum[0]);
    /* PRESK_AHEAD lines are asked for beforehand; at the end of the panels, those of the panels that the row meets next. */
    ptrdiff_t i = 0;
#if TILE_PAIRS
    for (int part = 0; part < 2; part++) {
        const ptrdiff_t last = part == 0 ? presk_most(k / 2 - PRESK_AHEAD, 0) * 2 : k - k % 2;
        const ptrdiff_t ahead = PRESK_AHEAD * TILE_STRIDE + (part == 0 ? 0 : (panels - 1) * apart);
        for (; i < last; i += 2, b += TILE_STRIDE) {
            TILE_EACH(p, panels)
            {
                ROW_FAR_AHEAD(b, p * apart + ahead);
                TILE_EACH(q, across)
                {
                    presk_bits_vector u;
                    memcpy(&u, b + p * apart + 2 * q * lanes, sizeof u);
                    sum[p][q] += a[i] * (TILE_VECTOR)(u << 16);
                    sum[p][q] += a[i + 1] * (TILE_VECTOR)(u & UINT32_C(0xffff0000));
                }
            }
        }
    }
    if (k % 2 != 0) {
        TILE_EACH(p, panels) TILE_EACH(q, across)
        {
            presk_bits_vector u;
            memcpy(&u, b + p * apart + 2 * q * lanes, sizeof u);
            sum[p][q] += a[k - 1] * (TILE_VECTOR)(u << 16);
        }
    }
#else
    for (int part = 0; part < 2; part++) {
        const ptrdiff_t last = part == 0 ? presk_most(k - PRESK_AHEAD, 0) : k;
        const ptrdiff_t ahead = PRESK_AHEAD * TILE_STRIDE + (part == 0 ? 0 : (panels - 1) * apart);
        for (; i < last; i++, b += TILE_STRIDE) {
            TILE_EACH(p, panels)
            {
                ROW_FAR_AHEAD(b, p * apart + ahead);
                TILE_EACH(q, across)
                {
                    TILE_VECTOR y;
                    memcpy(&y, b + p * apart + q * lanes, sizeof y);
                    sum[p][q] += a[i] * y;
                }
            }
        }
    }
#endif
    memcpy(c, sum, (size_t)panels * sizeof sum[0]);
}

static PRESK_OUT_OF_LINE void ROW_PANELS(ptrdiff_t panels, ptrdiff_t k, const TILE_ELEMENT *restrict a,
                                         const TILE_B *restrict b, ptrdiff_t apart, TILE_ELEMENT *restrict c)
{
    switch (panels) {
    case 1: ROW_PANELS_INNER(1, k, a, b, apart, c); break;
#if PRESK_VECTOR_BYTES > 16
    case 2: ROW_PANELS_INNER(2, k, a, b, apart, c); break;
    case 3: ROW_PANELS_INNER(3, k, a, b, apart, c); break;
#endif
    case PRESK_WIDE: ROW_PANELS_INNER(PRESK_WIDE, k, a, b, apart, c); break;
    }
}

#else

static PRESK_OUT_OF_LINE void ROW_PANELS(ptrdiff_t panels, ptrdiff_t k, const TILE_ELEMENT *restrict a,
                                         const TILE_B *restrict b, ptrdiff_t apart, TILE_ELEMENT *restrict c)
{
    for (ptrdiff_t p = 0; p < panels; p++) {
        for (ptrdiff_t i = 0; i < k; i++) {
            for (ptrdiff_t j = 0; j < TILE_COLUMNS; j++) {
                c[p * TILE_COLUMNS + j] += a[i] * TILE_READ(b + p * apart, i, j, TILE_STRIDE);
            }
        }
    }
}

#endif

#if defined(ROWS_STREAM)
static PRESK_OUT_OF_LINE void ROWS_STREAM(ptrdiff_t rows, ptrdiff_t k, ptrdiff_t columns, const TILE_ELEMENT *restrict a,
                                          const TILE_B *restrict b, ptrdiff_t stride, TILE_ELEMENT *restrict c,
                                          ptrdiff_t apart)
{
    ptrdiff_t i = 0;
#if PRESK_VECTORS
    enum { lanes = (int)(sizeof(TILE_VECTOR) / sizeof(TILE_ELEMENT)), across = 2 };
    for (; i + PRESK_STREAMS <= k; i += PRESK_STREAMS, a += PRESK_STREAMS * rows, b += PRESK_STREAMS * stride) {
        ptrdiff_t j = 0;
        for (; j + across * lanes <= columns; j += across * lanes) {
            TILE_VECTOR y[PRESK_STREAMS][across];
            TILE_EACH(s, PRESK_STREAMS)
            {
                ROW_AHEAD(b, (s + PRESK_STREAMS) * stride + j);
                memcpy(y[s], b + s * stride + j, sizeof y[s]);
            }
            for (ptrdiff_t r = 0; r < rows; r++) {
                TILE_VECTOR sum[across];
                memcpy(sum, c + r * apart + j, sizeof sum);
                TILE_EACH(s, PRESK_STREAMS) TILE_EACH(q, across) sum[q] += a[s * rows + r] * y[s][q];
                memcpy(c + r * apart + j, sum, sizeof sum);
            }
        }
        for (; j < columns; j++) {
            for (ptrdiff_t r = 0; r < rows; r++) {
                TILE_ELEMENT sum = c[r * apart + j];
                TILE_EACH(s, PRESK_STREAMS) sum += a[s * rows + r] * b[s * stride + j];
                c[r * apart + j] = sum;
            }
        }
    }
#endif
    for (; i < k; i++, a += rows, b += stride) {
        for (ptrdiff_t r = 0; r < rows; r++) {
            for (ptrdiff_t j = 0; j < columns; j++) {
                c[r * apart + j] += a[r] * b[j];
            }
        }
    }
}
#endif

#if PRESK_VECTORS
#undef TILE_EACH
#undef ROW_PLACE
#undef ROW_AHEAD
#undef ROW_FAR_AHEAD
#endif
#undef ROW_PANELS
#undef ROW_PANELS_INNER
#undef ROWS_STREAM
#undef TILE_ELEMENT
#undef TILE_B
#undef TILE_VECTOR
#undef TILE_COLUMNS
#undef TILE_PAIRS
#undef TILE_READ
#undef TILE_STRIDE
