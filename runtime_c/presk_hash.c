/* presk_hash.c: hashes of what launches write; see presk_hash.h. */
#include "presk_hash.h"

#if defined(PRESK_HASH)

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 14 }; /* elements */

/* Memory that launches may write: the arena, then the outputs; and its bytes as they were after the last launch. */
struct region {
    const unsigned char *start;
    unsigned char *copy;
    size_t bytes;
};

/* An array that the launch which runs will have written. */
struct written {
    const unsigned char *start;
    size_t count, bytes;
    presk_dtype type;
    int position;
};

static FILE *file;
static struct region *regions;
static size_t region_count;
static struct written *written;
static size_t written_count, written_room;
static long operation;
static bool is_on;      /* the first run goes on: only that one is hashed */
static bool has_failed; /* no memory: the file ends early */

static void fail(void)
{
    has_failed = true;
    is_on = false;
}

static uint64_t mixed(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t element(presk_dtype type, const unsigned char *p)
{
    uint64_t wide;
    uint32_t narrow;
    uint16_t half;
    switch (type) {
    case PRESK_F64:
        memcpy(&wide, p, sizeof wide);
        return presk_canonical_bits64(wide);
    case PRESK_F32:
        memcpy(&narrow, p, sizeof narrow);
        return presk_canonical_bits32(narrow);
    case PRESK_BF16:
        memcpy(&half, p, sizeof half);
        return (half & 0x7fff) > 0x7f80 ? PRESK_NAN_BF16 : half;
    case PRESK_I64:
        memcpy(&wide, p, sizeof wide);
        return wide;
    default:
        return *p;
    }
}

static uint64_t hash(const struct written *w)
{
    const size_t size = presk_dtype_size(w->type);
    uint64_t h = w->count;
    for (size_t start = 0; start < w->count; start += PIECE) {
        uint64_t sum = 0;
        for (size_t i = 0; i < PIECE && i < w->count - start; i++) {
            const uint64_t x = element(w->type, w->start + (start + i) * size);
            sum += (x ^ x >> 32) * (mixed((i + 1) * UINT64_C(0x9e3779b97f4a7c15)) | 1);
        }
        h = mixed(h + sum);
    }
    return h;
}

/* "arena+64" or "out0+64"; "?" where no region holds the byte at p. */
static void print_place(const unsigned char *p)
{
    for (size_t i = 0; i < region_count; i++) {
        const uintptr_t at = (uintptr_t)p, start = (uintptr_t)regions[i].start;
        if (at >= start && at - start < regions[i].bytes) {
            fprintf(file, i == 0 ? "arena" : "out%zu", i - 1);
            fprintf(file, "+%" PRIuPTR, at - start);
            return;
        }
    }
    fputc('?', file);
}

static void add_region(const void *start, size_t bytes)
{
    struct region *grown = realloc(regions, (region_count + 1) * sizeof *grown);
    regions = grown != NULL ? grown : regions;
    unsigned char *copy = malloc(bytes > 0 ? bytes : 1);
    if (grown == NULL || copy == NULL) {
        free(copy);
        fail();
        return;
    }
    memcpy(copy, start, bytes);
    regions[region_count++] = (struct region){start, copy, bytes};
}

static void forget_regions(void)
{
    for (size_t i = 0; i < region_count; i++) {
        free(regions[i].copy);
    }
    free(regions);
    regions = NULL;
    region_count = 0;
}

bool presk_hash_open(const char *path, const char *recording, presk_error *e)
{
    file = fopen(path, "w");
    if (file == NULL) {
        return presk_fail(e, PRESK_E_UNWRITABLE, path, "cannot be made");
    }
    fprintf(file, "presk hashes 1\nrecording %s\n", recording);
    return true;
}

bool presk_hash_close(const char *path, presk_error *e)
{
    if (file == NULL) {
        return true;
    }
    if (!has_failed) {
        fprintf(file, "end %ld\n", operation);
    }
    bool good = ferror(file) == 0;
    good = fclose(file) == 0 && good;
    file = NULL;
    is_on = false;
    forget_regions();
    free(written);
    written = NULL;
    written_count = written_room = 0;
    if (has_failed) {
        return presk_fail(e, PRESK_E_INPUT, path, "no memory for a copy of the arena and the outputs");
    }
    return good || presk_fail(e, PRESK_E_UNWRITABLE, path, "cannot be written");
}

void presk_hash_begin(void *arena, size_t bytes)
{
    is_on = file != NULL && !has_failed && operation == 0;
    if (!is_on) {
        return;
    }
    forget_regions();
    memset(arena, 0xff, bytes);
    add_region(arena, bytes);
}

void presk_hash_output(const void *p, size_t bytes)
{
    if (is_on) {
        add_region(p, bytes);
    }
}

void presk_hash_write(int position, presk_dtype type, const void *p, size_t count)
{
    if (!is_on) {
        return;
    }
    if (written_count == written_room) {
        struct written *grown = realloc(written, (written_room + 8) * sizeof *grown);
        if (grown == NULL) {
            fail();
            return;
        }
        written = grown;
        written_room += 8;
    }
    written[written_count++] = (struct written){p, count, count * presk_dtype_size(type), type, position};
}

/* What was written goes into the copies; whatever else differs from them is a stray write. */
static void print_strays(const struct region *r, const char *kernel)
{
    for (size_t i = 0; i < written_count; i++) {
        const uintptr_t from = (uintptr_t)written[i].start, start = (uintptr_t)r->start;
        const uintptr_t first = from > start ? from : start;
        const uintptr_t end = from + written[i].bytes, last = start + r->bytes;
        if (first < (end < last ? end : last)) {
            memcpy(r->copy + (first - start), r->start + (first - start), (end < last ? end : last) - first);
        }
    }
    if (memcmp(r->copy, r->start, r->bytes) != 0) {
        size_t at = 0;
        while (r->copy[at] == r->start[at]) {
            at++;
        }
        fprintf(file, "%ld %s stray ", operation, kernel);
        print_place(r->start + at);
        fputc('\n', file);
        memcpy(r->copy, r->start, r->bytes);
    }
}

void presk_hash_launch(const char *kernel)
{
    if (!is_on) {
        return;
    }
    for (size_t i = 0; i < written_count; i++) {
        fprintf(file, "%ld %s %d ", operation, kernel, written[i].position);
        print_place(written[i].start);
        fprintf(file, " %016" PRIx64 "\n", hash(&written[i]));
    }
    for (size_t i = 0; i < region_count; i++) {
        print_strays(&regions[i], kernel);
    }
    fflush(file);
    written_count = 0;
    operation++;
}

#else

typedef int presk_hash_is_off; /* C11 wants a declaration */

#endif
