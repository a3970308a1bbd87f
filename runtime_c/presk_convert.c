/* presk_convert.c: elements of a safetensors tensor as numbers of another type; see presk_tensors.h. */

#include "presk_tensors_private.h"

#include <inttypes.h>

/* --- One element, from the file's bytes to a C number, exactly -------------------------------------------------- */

static inline double load_f64(const unsigned char *p) { return presk_f64_from_bits(presk_load64(p)); }
static inline float load_f32(const unsigned char *p) { return presk_f32_from_bits(presk_load32(p)); }
static inline float load_f16(const unsigned char *p) { return presk_f32_from_f16(presk_load16(p)); }
static inline float load_bf16(const unsigned char *p) { return presk_f32_from_bf16(presk_load16(p)); }
static inline int32_t load_u8(const unsigned char *p) { return p[0]; }
static inline int32_t load_bool(const unsigned char *p) { return p[0] != 0; }

/* The value of a two's complement integer of 64, 32, 16, 8 bits, without a cast that the standard leaves open. */
static inline int64_t load_i64(const unsigned char *p)
{
    uint64_t u = presk_load64(p);
    int64_t i;
    memcpy(&i, &u, sizeof i);
    return i;
}

static inline int32_t load_i32(const unsigned char *p)
{
    uint32_t u = presk_load32(p);
    int32_t i;
    memcpy(&i, &u, sizeof i);
    return i;
}

static inline int32_t load_i16(const unsigned char *p) { return ((int32_t)presk_load16(p) ^ 0x8000) - 0x8000; }
static inline int32_t load_i8(const unsigned char *p) { return ((int32_t)p[0] ^ 0x80) - 0x80; }

/* --- One element, to the type asked for, rounded once (to bf16 through f32) ------------------------------------- */

#define TO_F64(x) ((double)(x))
#define TO_F32(x) ((float)(x))
#define TO_BF16(x) presk_bf16_from_f32((float)(x))
#define TO_I64(x) ((int64_t)(x))
#define BIG_TO_F32(x) presk_f32_from_i64(x)
#define BIG_TO_BF16(x) presk_bf16_from_f32(presk_f32_from_i64(x))

#define EACH(size, expression)                                    \
    for (size_t i = 0; i < n; i++) {                              \
        const unsigned char *p = source + i * (size);             \
        dest[i] = (expression);                                   \
    }                                                             \
    return true

/* The loops over n elements of one type to another: a table of types in, for one type out. */
#define CASES_INTEGERS(to, big)                                   \
    case PRESK_I64: EACH(8, big(load_i64(p)));                    \
    case PRESK_I32: EACH(4, to(load_i32(p)));                     \
    case PRESK_I16: EACH(2, to(load_i16(p)));                     \
    case PRESK_I8: EACH(1, to(load_i8(p)));                       \
    case PRESK_U8: EACH(1, to(load_u8(p)));                       \
    case PRESK_BOOL: EACH(1, to(load_bool(p)))

#define CASES_FLOATS(to)                                          \
    case PRESK_F64: EACH(8, to(load_f64(p)));                     \
    case PRESK_F32: EACH(4, to(load_f32(p)));                     \
    case PRESK_F16: EACH(2, to(load_f16(p)));                     \
    case PRESK_BF16: EACH(2, to(load_bf16(p)))

/* Each returns false if the type cannot be converted. */
static bool convert_f64(presk_dtype from, const unsigned char *source, size_t n, double *dest)
{
    switch (from) {
        CASES_FLOATS(TO_F64);
        CASES_INTEGERS(TO_F64, TO_F64);
    default: return false;
    }
}

static bool convert_f32(presk_dtype from, const unsigned char *source, size_t n, float *dest)
{
    switch (from) {
        CASES_FLOATS(TO_F32);
        CASES_INTEGERS(TO_F32, BIG_TO_F32);
    default: return false;
    }
}

static bool convert_bf16(presk_dtype from, const unsigned char *source, size_t n, presk_bf16 *dest)
{
    switch (from) {
        CASES_FLOATS(TO_BF16);
        CASES_INTEGERS(TO_BF16, BIG_TO_BF16);
    default: return false;
    }
}

static bool convert_i64(presk_dtype from, const unsigned char *source, size_t n, int64_t *dest)
{
    switch (from) {
        CASES_INTEGERS(TO_I64, TO_I64);
    default: return false;
    }
}

static bool convert(presk_dtype from, const unsigned char *source, size_t n, presk_dtype to, void *dest)
{
    switch (to) {
    case PRESK_F64: return convert_f64(from, source, n, dest);
    case PRESK_F32: return convert_f32(from, source, n, dest);
    case PRESK_BF16: return convert_bf16(from, source, n, dest);
    case PRESK_I64: return convert_i64(from, source, n, dest);
    default: return false;
    }
}

/* --- The public functions -------------------------------------------------------------------------------------- */

/* The n elements from `first` on must be there, and of a type that converts to `to`. */
static bool check(const presk_tensor *tensor, size_t first, size_t n, presk_dtype to, presk_error *e)
{
    if (!convert(tensor->dtype, NULL, 0, to, NULL)) {
        return presk_fail(e, PRESK_E_TYPE, tensor->file, "tensor %.120s has type %.20s, which cannot be read as %s",
                          tensor->name, tensor->type, presk_dtype_name(to));
    }
    if (first > tensor->count || n > tensor->count - first) {
        return presk_fail(e, PRESK_E_SHAPE, tensor->file, "tensor %.120s has %zu elements, not %zu from element %zu on",
                          tensor->name, tensor->count, n, first);
    }
    return true;
}

bool presk_read(const presk_tensor *tensor, size_t first, size_t n, presk_dtype to, void *dest, presk_error *e)
{
    if (!check(tensor, first, n, to, e)) {
        return false;
    }
    const unsigned char *source = tensor->data + first * presk_dtype_size(tensor->dtype);
    return n == 0 || convert(tensor->dtype, source, n, to, dest);
}

bool presk_read_f64(const presk_tensor *tensor, size_t first, size_t n, double *dest, presk_error *e)
{
    return presk_read(tensor, first, n, PRESK_F64, dest, e);
}

bool presk_read_f32(const presk_tensor *tensor, size_t first, size_t n, float *dest, presk_error *e)
{
    return presk_read(tensor, first, n, PRESK_F32, dest, e);
}

bool presk_read_bf16(const presk_tensor *tensor, size_t first, size_t n, presk_bf16 *dest, presk_error *e)
{
    return presk_read(tensor, first, n, PRESK_BF16, dest, e);
}

bool presk_read_i64(const presk_tensor *tensor, size_t first, size_t n, int64_t *dest, presk_error *e)
{
    return presk_read(tensor, first, n, PRESK_I64, dest, e);
}

/* A tile of TILE x TILE elements: at most 32 KiB, which the first-level cache holds. */
#define TILE ((size_t)64)

typedef union tile {
    double f64[64 * 64];
    float f32[64 * 64];
    presk_bf16 bf16[64 * 64];
    int64_t i64[64 * 64];
} tile;

/* dest[k * stride + j] = t[j * TILE + k] for k < width, j < height. */
#define SCATTER(member, type)                                               \
    for (size_t k = 0; k < width; k++) {                                    \
        type *line = (type *)dest + (k0 + k) * rows + j0;                   \
        for (size_t j = 0; j < height; j++) {                               \
            line[j] = t.member[j * TILE + k];                               \
        }                                                                   \
    }                                                                       \
    break

bool presk_read_transposed(const presk_tensor *tensor, size_t first, size_t rows, size_t cols, presk_dtype to,
                           void *dest, presk_error *e)
{
    size_t n = cols != 0 && rows > SIZE_MAX / cols ? SIZE_MAX : rows * cols;
    if (!check(tensor, first, n, to, e)) {
        return false;
    }
    if (n == 0) {
        return true;
    }
    size_t from_size = presk_dtype_size(tensor->dtype);
    size_t to_size = presk_dtype_size(to);
    const unsigned char *source = tensor->data + first * from_size;
    for (size_t j0 = 0; j0 < rows; j0 += TILE) {
        size_t height = rows - j0 < TILE ? rows - j0 : TILE;
        for (size_t k0 = 0; k0 < cols; k0 += TILE) {
            size_t width = cols - k0 < TILE ? cols - k0 : TILE;
            tile t;
            for (size_t j = 0; j < height; j++) {
                (void)convert(tensor->dtype, source + ((j0 + j) * cols + k0) * from_size, width, to,
                              (unsigned char *)&t + j * TILE * to_size);
            }
            switch (to) {
            case PRESK_F64: SCATTER(f64, double);
            case PRESK_F32: SCATTER(f32, float);
            case PRESK_BF16: SCATTER(bf16, presk_bf16);
            default: SCATTER(i64, int64_t);
            }
        }
    }
    return true;
}

bool presk_check_range(const int64_t *values, size_t n, int64_t low, int64_t high, const char *place, presk_error *e)
{
    for (size_t i = 0; i < n; i++) {
        if (values[i] < low || values[i] > high) {
            return presk_fail(e, PRESK_E_RANGE, place,
                              "element %zu is %" PRId64 ", outside %" PRId64 " to %" PRId64, i, values[i], low, high);
        }
    }
    return true;
}
