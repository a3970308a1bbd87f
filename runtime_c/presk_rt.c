/* presk_rt.c: probes of the floating-point environment, memory, errors, canonical NaNs. */

#if defined(__linux__) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE /* madvise, which -std=c11 hides */
#endif

#include "presk_rt.h"
#include "presk_probe.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__linux__)
#include <sys/mman.h>
#elif defined(_WIN32)
#include <malloc.h>
#endif

/* --- Probes ---------------------------------------------------------------------------------------------------- */

/* True if sums of f32 and f64 are rounded to nearest, ties to even: a tie up, a tie down, and 3/4 of a unit for both
 * signs, which distinguish the other directions. */
static bool rounds_to_nearest(void)
{
    volatile float one = 1.0f, tie = 0x1p-24f, more = 0x1.8p-24f, odd = 0x1.000002p+0f;
    volatile double one64 = 1.0, tie64 = 0x1p-53, more64 = 0x1.8p-53, odd64 = 0x1.0000000000001p+0;
    volatile float a = one + tie, b = -one - tie, c = one + more, d = -one - more, e = odd + tie;
    volatile double p = one64 + tie64, q = -one64 - tie64, r = one64 + more64, s = -one64 - more64, t = odd64 + tie64;
    return a == 1.0f && b == -1.0f && c == 0x1.000002p+0f && d == -0x1.000002p+0f && e == 0x1.000004p+0f
        && p == 1.0 && q == -1.0 && r == 0x1.0000000000001p+0 && s == -0x1.0000000000001p+0
        && t == 0x1.0000000000002p+0;
}

/* True if a product that is subnormal, exact or not, comes out as zero. Bits, as a comparison may itself flush. */
static bool flushes_results(void)
{
    volatile float least = 0x1p-126f, half = 0.5f, third = 0x1.555556p-2f;
    volatile double least64 = 0x1p-1022, half64 = 0.5, third64 = 0x1.5555555555555p-2;
    volatile float a = least * half, b = least * third;
    volatile double p = least64 * half64, q = least64 * third64;
    return presk_bits_f32(a) != UINT32_C(0x00400000) || presk_bits_f32(b) != UINT32_C(0x002aaaab)
        || presk_bits_f64(p) != UINT64_C(0x0008000000000000) || presk_bits_f64(q) != UINT64_C(0x0005555555555555);
}

/* True if a subnormal operand counts as zero. */
static bool flushes_operands(void)
{
    volatile float subnormal = presk_f32_from_bits(UINT32_C(0x00400000)), large = 0x1p100f;
    volatile double subnormal64 = presk_f64_from_bits(UINT64_C(0x0008000000000000)), large64 = 0x1p1000;
    volatile float a = subnormal * large;
    volatile double p = subnormal64 * large64;
    return presk_bits_f32(a) != presk_bits_f32(0x1p-27f) || presk_bits_f64(p) != presk_bits_f64(0x1p-23);
}

/* True if (x + h) - x keeps an h that the format cannot hold beside x. */
static bool keeps_excess(void)
{
    volatile float one = 1.0f, small = 0x1p-26f;
    volatile double one64 = 1.0, small64 = 0x1p-55;
    float x = one + small;
    double y = one64 + small64;
    return x - one != 0.0f || y - one64 != 0.0 || (one + small) - one != 0.0f || (one64 + small64) - one64 != 0.0;
}

const char *presk_rt_probe(void)
{
    if (!rounds_to_nearest()) {
        return "the rounding direction is not to nearest";
    }
    if (flushes_results()) {
        return "subnormal results are flushed to zero (a library linked with -ffast-math sets this)";
    }
    if (flushes_operands()) {
        return "subnormal operands are taken as zero (a library linked with -ffast-math sets this)";
    }
    if (keeps_excess()) {
        return "floating-point expressions are evaluated in excess precision";
    }
    return presk_probe_unit();
}

/* --- Errors ---------------------------------------------------------------------------------------------------- */

void presk_error_set(presk_error *e, int code, const char *place, const char *format, ...)
{
    if (e == NULL) {
        return;
    }
    e->code = code;
    e->text[0] = '\0';
    size_t used = 0;
    if (place != NULL) {
        int n = snprintf(e->text, sizeof e->text, "%.255s: ", place);
        used = n > 0 ? (size_t)n : 0;
    }
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(e->text + used, sizeof e->text - used, format, arguments);
    va_end(arguments);
    for (char *c = e->text; *c != '\0'; c++) {
        unsigned char u = (unsigned char)*c;
        if (u < 0x20 || u == 0x7f) {
            *c = '?';
        }
    }
}

void presk_error_print(const char *program, const presk_error *e)
{
    fprintf(stderr, "%s: error E%04d: %s\n", program, e->code, e->text);
}

/* --- Canonical NaNs -------------------------------------------------------------------------------------------- */

void presk_canonical_f32(float *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        a[i] = presk_f32_from_bits(presk_canonical_bits32(presk_bits_f32(a[i])));
    }
}

void presk_canonical_f64(double *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        a[i] = presk_f64_from_bits(presk_canonical_bits64(presk_bits_f64(a[i])));
    }
}

void presk_canonical_bf16(presk_bf16 *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        a[i] = (presk_bf16)(presk_canonical_bits32((uint32_t)a[i] << 16) >> 16);
    }
}

/* --- Memory ---------------------------------------------------------------------------------------------------- */

#define SMALL_ALIGNMENT ((size_t)64)
#define HUGE_PAGE ((size_t)2 << 20)

void *presk_alloc(size_t bytes)
{
    size_t alignment = SMALL_ALIGNMENT;
#if defined(__linux__)
    if (bytes >= HUGE_PAGE) {
        alignment = HUGE_PAGE;
    }
#endif
    if (bytes > (size_t)PTRDIFF_MAX - alignment) {
        return NULL;
    }
    size_t size = bytes == 0 ? alignment : (bytes + alignment - 1) & ~(alignment - 1);
#if defined(_WIN32)
    return _aligned_malloc(size, alignment);
#else
    void *memory = aligned_alloc(alignment, size);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (memory != NULL && bytes >= HUGE_PAGE) {
        (void)madvise(memory, size, MADV_HUGEPAGE); /* advice: where it fails, pages are small */
    }
#endif
    return memory;
#endif
}

void presk_free(void *memory)
{
#if defined(_WIN32)
    _aligned_free(memory);
#else
    free(memory);
#endif
}
