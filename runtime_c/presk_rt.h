/* presk_rt.h: what every emitted C file stands on: exact casts, keys, memory, errors, and refusals of a bad build.
 *
 * The bits of a program are defined for IEEE 754 binary32 and binary64, round to nearest, subnormals kept, nothing
 * contracted. What of that the compiler can be asked is asked here with #error; the rest is probed at start by
 * presk_rt_probe(). Include this header before any other code: it also turns contraction off where a pragma can.
 */
#ifndef PRESK_RT_H
#define PRESK_RT_H

#include "presk_names.h"

#include <float.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* --- The build ------------------------------------------------------------------------------------------------- */

#if defined(__FAST_MATH__)
#error "presk: -ffast-math (or -Ofast) changes the bits; build without it"
#endif
#if defined(__FINITE_MATH_ONLY__)
#if __FINITE_MATH_ONLY__ != 0
#error "presk: -ffinite-math-only changes the bits; build without it"
#endif
#endif
#if defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)
#error "presk: -fassociative-math, -freciprocal-math and -fno-signed-zeros change the bits; build without them"
#endif
#if !defined(FLT_EVAL_METHOD)
#error "presk: FLT_EVAL_METHOD is not defined; a C11 compiler that evaluates float as float is needed"
#elif FLT_EVAL_METHOD != 0
#error "presk: float is evaluated in excess precision (FLT_EVAL_METHOD is not 0); use -msse2 -mfpmath=sse on 32-bit x86, -fexcess-precision=fast on s390x"
#endif
#if FLT_RADIX != 2 || FLT_MANT_DIG != 24 || FLT_MIN_EXP != -125 || FLT_MAX_EXP != 128
#error "presk: float is not IEEE 754 binary32"
#endif
#if DBL_MANT_DIG != 53 || DBL_MIN_EXP != -1021 || DBL_MAX_EXP != 1024
#error "presk: double is not IEEE 754 binary64"
#endif
#if defined(__FLOAT_WORD_ORDER__) && defined(__BYTE_ORDER__)
#if __FLOAT_WORD_ORDER__ != __BYTE_ORDER__
#error "presk: the words of a double are not in the byte order of integers"
#endif
#endif

_Static_assert(CHAR_BIT == 8, "presk: a byte must have 8 bits");
_Static_assert(sizeof 1.0 == sizeof(double), "presk: -fsingle-precision-constant changes the bits; build without it");
_Static_assert(sizeof(float) == 4 && sizeof(double) == 8, "presk: float and double must have 4 and 8 bytes");

/* gcc knows this pragma only as a warning and needs -ffp-contract=off (its default under -std=c11); others obey it. */
#if defined(__clang__) || !defined(__GNUC__)
#pragma STDC FP_CONTRACT OFF
#endif

#if defined(__GNUC__)
#define PRESK_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#else
#define PRESK_PRINTF(text, first)
#endif

/* 1 where the vector types of gcc and clang keep the bits. On 32-bit Arm their operations are NEON's, which flush
 * subnormals whatever the mode (scalars do not): kernels there use scalars only. presk_rt_probe checks the claim.
 * -DPRESK_VECTORS=0 turns them off. */
#if defined(PRESK_VECTORS)
#elif defined(__GNUC__) && !(defined(__arm__) && !defined(__aarch64__))
#define PRESK_VECTORS 1
#else
#define PRESK_VECTORS 0
#endif

/* --- Bits ------------------------------------------------------------------------------------------------------ */

#define PRESK_NAN_F32 UINT32_C(0x7fc00000)
#define PRESK_NAN_F64 UINT64_C(0x7ff8000000000000)
#define PRESK_NAN_BF16 ((presk_bf16)0x7fc0)
#define PRESK_NAN_F16 ((uint16_t)0x7e00)

typedef uint16_t presk_bf16; /* bfloat16 in memory: the upper half of a binary32 */

static inline uint32_t presk_bits_f32(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float presk_f32_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline uint64_t presk_bits_f64(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline double presk_f64_from_bits(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* All ones if u are the bits of a NaN, else 0. Without a branch or a comparison of floats, so that loops vectorize. */
static inline uint32_t presk_nan_mask32(uint32_t u)
{
    return UINT32_C(0) - ((UINT32_C(0x7f800000) - (u & UINT32_C(0x7fffffff))) >> 31);
}

static inline uint64_t presk_nan_mask64(uint64_t u)
{
    return UINT64_C(0) - ((UINT64_C(0x7ff0000000000000) - (u & UINT64_C(0x7fffffffffffffff))) >> 63);
}

/* The same bits, but one NaN for all NaNs. */
static inline uint32_t presk_canonical_bits32(uint32_t u)
{
    uint32_t nan = presk_nan_mask32(u);
    return (u & ~nan) | (PRESK_NAN_F32 & nan);
}

static inline uint64_t presk_canonical_bits64(uint64_t u)
{
    uint64_t nan = presk_nan_mask64(u);
    return (u & ~nan) | (PRESK_NAN_F64 & nan);
}

/* --- bfloat16 and binary16 in memory --------------------------------------------------------------------------- */

/* Exact. */
static inline float presk_f32_from_bf16(presk_bf16 h)
{
    return presk_f32_from_bits((uint32_t)h << 16);
}

/* Rounded once, to nearest, ties to even; every NaN gives 0x7fc0. For x not NaN, u + 0x8000 < 2^32. */
static inline presk_bf16 presk_bf16_from_f32(float x)
{
    uint32_t u = presk_bits_f32(x);
    uint32_t nan = presk_nan_mask32(u);
    uint32_t rounded = (u + UINT32_C(0x7fff) + ((u >> 16) & 1)) >> 16;
    return (presk_bf16)((rounded & ~nan) | (UINT32_C(0x7fc0) & nan));
}

/* Exact; every NaN gives 0x7fc00000. The 15 magnitude bits h, read as those of an f32 at h * 2^13, stand for the value
 * times 2^-112, for subnormals of binary16 too; the product with 2^112 is exact. Exponent 31 is infinity or NaN. */
static inline float presk_f32_from_f16(uint16_t h)
{
    uint32_t magnitude = (uint32_t)h & UINT32_C(0x7fff);
    uint32_t sign = ((uint32_t)h & UINT32_C(0x8000)) << 16;
    uint32_t finite = presk_bits_f32(presk_f32_from_bits(magnitude << 13) * 0x1p112f);
    uint32_t special = UINT32_C(0) - ((UINT32_C(0x7bff) - magnitude) >> 31);
    uint32_t infinite = UINT32_C(0x7f800000) | (magnitude << 13);
    return presk_f32_from_bits(presk_canonical_bits32(((finite & ~special) | (infinite & special)) | sign));
}

/* --- Keys: integers in the order of the floats, -0 < +0, every NaN above infinity ------------------------------ */

static inline int32_t presk_key_f32(float x)
{
    uint32_t u = presk_canonical_bits32(presk_bits_f32(x));
    uint32_t key = u ^ ((UINT32_C(0) - (u >> 31)) >> 1);
    int32_t k;
    memcpy(&k, &key, sizeof k);
    return k;
}

/* The float of a key that presk_key_f32 made; the key of NaN gives the canonical NaN. */
static inline float presk_f32_from_key(int32_t k)
{
    uint32_t key;
    memcpy(&key, &k, sizeof key);
    return presk_f32_from_bits(key ^ ((UINT32_C(0) - (key >> 31)) >> 1));
}

static inline int64_t presk_key_f64(double x)
{
    uint64_t u = presk_canonical_bits64(presk_bits_f64(x));
    uint64_t key = u ^ ((UINT64_C(0) - (u >> 63)) >> 1);
    int64_t k;
    memcpy(&k, &key, sizeof k);
    return k;
}

static inline double presk_f64_from_key(int64_t k)
{
    uint64_t key;
    memcpy(&key, &k, sizeof key);
    return presk_f64_from_bits(key ^ ((UINT64_C(0) - (key >> 63)) >> 1));
}

/* --- Integers -------------------------------------------------------------------------------------------------- */

/* Towards zero; beyond the range the nearer end; NaN gives 0. The cast is reached only for -2^63 <= x < 2^63. */
static inline int64_t presk_i64_from_f64(double x)
{
    if (x != x) {
        return 0;
    }
    if (x >= 0x1p63) {
        return INT64_MAX;
    }
    if (x < -0x1p63) {
        return INT64_MIN;
    }
    return (int64_t)x;
}

static inline int64_t presk_i64_from_f32(float x)
{
    return presk_i64_from_f64((double)x);
}

/* Rounded once. At and above 2^53 the lowest 11 of 64 bits are first rounded to odd, which 53 bits hold exactly, so
 * that the cast to float (24 bits) rounds as if from the integer itself, whatever the machine's own conversion does. */
static inline float presk_f32_from_i64(int64_t i)
{
    uint64_t m = i < 0 ? UINT64_C(0) - (uint64_t)i : (uint64_t)i;
    if (m >= (UINT64_C(1) << 53)) {
        uint64_t sticky = (m & UINT64_C(0x7ff)) != 0;
        m = (m & ~UINT64_C(0x7ff)) | (sticky << 11);
    }
    float x = (float)(double)m;
    return i < 0 ? -x : x;
}

/* --- Errors: one line, a code, a place ------------------------------------------------------------------------- */

#define PRESK_E_UNREADABLE 1101 /* a file is missing or cannot be read */
#define PRESK_E_MALFORMED 1102  /* a file breaks the safetensors format */
#define PRESK_E_MISSING 1104    /* a tensor that the program needs is not in the file */
#define PRESK_E_UNEXPECTED 1105 /* the file holds a tensor that the program does not know */
#define PRESK_E_SHAPE 1106      /* a tensor has another shape */
#define PRESK_E_TYPE 1107       /* a tensor has a type that cannot be read as asked */
#define PRESK_E_UNWRITABLE 1108 /* a file cannot be written */
#define PRESK_E_TOKENIZER 1109  /* a tokenizer file breaks the format, or is not the model's */
#define PRESK_E_RANGE 1204      /* an integer input is out of range */
#define PRESK_E_INPUT 1205      /* an input is bad */
#define PRESK_E_FLOATS 4001     /* the floating-point environment would change the bits */

typedef struct presk_error {
    int code;       /* one of the above; 0 while nothing has failed */
    char text[496]; /* "place: message", one line, ends in NUL */
} presk_error;

/* Fills *e. `place` is a path or NULL. Control characters become '?': the text is one line whatever a file's names
 * hold. `e` may be NULL. */
void presk_error_set(presk_error *e, int code, const char *place, const char *format, ...) PRESK_PRINTF(4, 5);

/* The same as an expression that is false, for `return presk_fail(...)`: what follows a failure stays visible to the
 * compiler and to analyzers. */
#define presk_fail(...) (presk_error_set(__VA_ARGS__), false)

/* Writes "program: error E1102: place: message" and a newline to stderr. */
void presk_error_print(const char *program, const presk_error *e);

/* --- Arrays and memory ----------------------------------------------------------------------------------------- */

/* Every NaN among a[0 .. n-1] becomes the canonical one: before bits are shown, hashed or stored. */
void presk_canonical_f32(float *a, size_t n);
void presk_canonical_f64(double *a, size_t n);
void presk_canonical_bf16(presk_bf16 *a, size_t n);

/* Uninitialized memory, aligned to 64 bytes, on Linux from 2 MiB on to 2 MiB with huge pages asked for. NULL if there
 * is not enough, or if the size overflows. Zero bytes give a valid pointer. To be given back by presk_free. */
void *presk_alloc(size_t bytes);
void presk_free(void *memory); /* NULL is allowed */

/* --- Probes ---------------------------------------------------------------------------------------------------- */

/* NULL if this process computes as the bits demand, else a one-line reason: rounding direction, subnormals flushed,
 * excess precision, contraction. To be called at start, in every thread's environment that could differ. */
const char *presk_rt_probe(void);

#endif /* PRESK_RT_H */
