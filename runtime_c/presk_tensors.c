/* presk_tensors.c: opens a safetensors file, mapped or read, and finds tensors in it; see presk_tensors.h. */

#define _FILE_OFFSET_BITS 64 /* files beyond 2 GiB where off_t has 32 bits */
#if !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L /* open, fstat, mmap, which -std=c11 hides */
#endif

#include "presk_tensors_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#if (defined(__unix__) || defined(__APPLE__)) && !defined(__wasi__) && !defined(PRESK_NO_MMAP)
#define USE_MMAP 1
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

struct presk_file {
    presk_header header;
    char *path;
    void *map;    /* the whole file, or NULL if it was read */
    size_t map_size;
    void *memory; /* the data, if they were read */
};

/* Reads and judges the 8 bytes before the header. */
static bool header_length(const unsigned char *bytes, const char *path, size_t *length, presk_error *e)
{
    uint64_t n = presk_load64(bytes);
    if (n > PRESK_HEADER_LIMIT) {
        return presk_fail(e, PRESK_E_MALFORMED, path,
                          "the header's length is %" PRIu64 ", more than the 100000000 that the format allows", n);
    }
    *length = (size_t)n;
    return true;
}

/* --- Mapped ---------------------------------------------------------------------------------------------------- */

#if defined(USE_MMAP)
/* Parses the file that is mapped. */
static bool parse_mapped(presk_file *file, presk_error *e)
{
    const unsigned char *bytes = file->map;
    size_t n;
    uint64_t extent;
    if (!header_length(bytes, file->path, &n, e)) {
        return false;
    }
    if (n > file->map_size - PRESK_HEADER_LENGTH_BYTES) {
        return presk_fail(e, PRESK_E_MALFORMED, file->path, "the header's length is %zu but the file has %zu bytes", n,
                          file->map_size);
    }
    size_t data_size = file->map_size - PRESK_HEADER_LENGTH_BYTES - n;
    if (!presk_header_parse(&file->header, bytes + PRESK_HEADER_LENGTH_BYTES, n, file->path, e)
        || !presk_header_extent(&file->header, file->path, &extent, e)) {
        return false;
    }
    if (extent != data_size) {
        return presk_fail(e, PRESK_E_MALFORMED, file->path,
                          "the tensors need %" PRIu64 " bytes of data and the file has %zu", extent, data_size);
    }
    presk_header_bind(&file->header, bytes + PRESK_HEADER_LENGTH_BYTES + n);
    return true;
}

/* Maps the file; false without an error if it must be read instead. */
static bool map_file(presk_file *file, presk_error *e)
{
    int descriptor = open(file->path, O_RDONLY);
    if (descriptor < 0) {
        (void)presk_fail(e, PRESK_E_UNREADABLE, file->path, "%s", strerror(errno));
        return false;
    }
    struct stat about;
    bool known = fstat(descriptor, &about) == 0;
    if (known && S_ISDIR(about.st_mode)) {
        (void)presk_fail(e, PRESK_E_UNREADABLE, file->path, "it is a directory");
    } else if (known && S_ISREG(about.st_mode) && about.st_size < PRESK_HEADER_LENGTH_BYTES) {
        (void)presk_fail(e, PRESK_E_MALFORMED, file->path, "it has %d bytes, too few for the header's length",
                         (int)about.st_size);
    } else if (known && S_ISREG(about.st_mode) && (uintmax_t)about.st_size <= SIZE_MAX) {
        void *map = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (map != MAP_FAILED) {
            file->map = map;
            file->map_size = (size_t)about.st_size;
        }
    }
    (void)close(descriptor);
    return file->map != NULL;
}
#endif

/* --- Read ------------------------------------------------------------------------------------------------------ */

/* Reads exactly n bytes of what is called `part`. */
static bool read_bytes(FILE *stream, void *dest, size_t n, const char *part, const char *path, presk_error *e)
{
    if (fread(dest, 1, n, stream) == n) {
        return true;
    }
    if (ferror(stream)) {
        return presk_fail(e, PRESK_E_UNREADABLE, path, "%s", strerror(errno));
    }
    return presk_fail(e, PRESK_E_MALFORMED, path, "the file ends within %s (%zu bytes)", part, n);
}

/* Reads the header, then the data whose size the header gives; then the file must end. */
static bool read_stream(presk_file *file, FILE *stream, presk_error *e)
{
    unsigned char prefix[PRESK_HEADER_LENGTH_BYTES];
    size_t n;
    uint64_t extent;
    if (!read_bytes(stream, prefix, sizeof prefix, "the header's length", file->path, e)
        || !header_length(prefix, file->path, &n, e)) {
        return false;
    }
    unsigned char *text = malloc(n + 1);
    if (text == NULL) {
        return presk_fail(e, PRESK_E_UNREADABLE, file->path, "not enough memory for the header");
    }
    bool good = read_bytes(stream, text, n, "the header", file->path, e)
             && presk_header_parse(&file->header, text, n, file->path, e)
             && presk_header_extent(&file->header, file->path, &extent, e);
    free(text);
    if (!good) {
        return false;
    }
    file->memory = extent <= SIZE_MAX ? presk_alloc((size_t)extent) : NULL;
    if (file->memory == NULL) {
        return presk_fail(e, PRESK_E_UNREADABLE, file->path, "not enough memory for %" PRIu64 " bytes of data", extent);
    }
    if (!read_bytes(stream, file->memory, (size_t)extent, "the data", file->path, e)) {
        return false;
    }
    if (getc(stream) != EOF) {
        return presk_fail(e, PRESK_E_MALFORMED, file->path,
                          "the tensors need %" PRIu64 " bytes of data and the file has more", extent);
    }
    presk_header_bind(&file->header, file->memory);
    return true;
}

static bool read_file(presk_file *file, presk_error *e)
{
    FILE *stream = fopen(file->path, "rb");
    if (stream == NULL) {
        return presk_fail(e, PRESK_E_UNREADABLE, file->path, "%s", strerror(errno));
    }
    bool good = read_stream(file, stream, e);
    (void)fclose(stream);
    return good;
}

/* --- Open and close -------------------------------------------------------------------------------------------- */

static bool load(presk_file *file, presk_error *e)
{
#if defined(USE_MMAP)
    presk_error problem = {0};
    if (map_file(file, &problem)) {
        return parse_mapped(file, e);
    }
    if (problem.code != 0) {
        if (e != NULL) {
            *e = problem;
        }
        return false;
    }
#endif
    return read_file(file, e);
}

presk_file *presk_file_open(const char *path, presk_error *e)
{
    size_t size = strlen(path) + 1;
    presk_file *file = calloc(1, sizeof *file);
    if (file != NULL) {
        file->path = malloc(size);
    }
    if (file == NULL || file->path == NULL) {
        free(file);
        (void)presk_fail(e, PRESK_E_UNREADABLE, path, "not enough memory");
        return NULL;
    }
    memcpy(file->path, path, size);
    if (!load(file, e)) {
        presk_file_close(file);
        return NULL;
    }
    return file;
}

void presk_file_close(presk_file *file)
{
    if (file == NULL) {
        return;
    }
    presk_header_free(&file->header);
#if defined(USE_MMAP)
    if (file->map != NULL) {
        (void)munmap(file->map, file->map_size);
    }
#endif
    presk_free(file->memory);
    free(file->path);
    free(file);
}

/* --- Look-up --------------------------------------------------------------------------------------------------- */

size_t presk_file_count(const presk_file *file)
{
    return file->header.count;
}

presk_tensor presk_file_at(const presk_file *file, size_t i)
{
    return file->header.entries[i].tensor;
}

/* The entry of that name, or NULL; by bisection, as the entries are sorted. */
static presk_entry *find(const presk_file *file, const char *name)
{
    size_t size = strlen(name), low = 0, high = file->header.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        presk_entry *entry = &file->header.entries[middle];
        size_t shorter = size < entry->name_size ? size : entry->name_size;
        int order = memcmp(name, entry->tensor.name, shorter);
        if (order == 0 && size == entry->name_size) {
            return entry;
        }
        if (order < 0 || (order == 0 && size < entry->name_size)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

bool presk_file_find(const presk_file *file, const char *name, presk_tensor *tensor)
{
    const presk_entry *entry = find(file, name);
    if (entry == NULL) {
        return false;
    }
    *tensor = entry->tensor;
    return true;
}

/* Room for "[d, d, ...]" with PRESK_MAX_RANK dimensions of up to 20 characters. */
#define SHAPE_TEXT (PRESK_MAX_RANK * 22 + 3)

static void print_shape(char *text, int rank, const int64_t *shape)
{
    size_t used = 1;
    text[0] = '[';
    for (int d = 0; d < rank && d < PRESK_MAX_RANK; d++) {
        int n = snprintf(text + used, SHAPE_TEXT - used, "%s%" PRId64, d == 0 ? "" : ", ", shape[d]);
        used += n > 0 ? (size_t)n : 0;
    }
    text[used] = ']';
    text[used + 1] = '\0';
}

bool presk_file_expect(presk_file *file, const char *name, int rank, const int64_t *shape, presk_tensor *tensor,
                       presk_error *e)
{
    presk_entry *entry = find(file, name);
    if (entry == NULL) {
        return presk_fail(e, PRESK_E_MISSING, file->path, "there is no tensor %.120s", name);
    }
    bool equal = entry->tensor.rank == rank;
    for (int d = 0; d < rank && equal; d++) {
        equal = entry->tensor.shape[d] == shape[d];
    }
    if (!equal) {
        char found[SHAPE_TEXT], wanted[SHAPE_TEXT];
        print_shape(found, entry->tensor.rank, entry->tensor.shape);
        print_shape(wanted, rank, shape);
        return presk_fail(e, PRESK_E_SHAPE, file->path, "tensor %.120s has shape %s, expected %s", name, found, wanted);
    }
    entry->expected = true;
    *tensor = entry->tensor;
    return true;
}

bool presk_file_expect_no_more(const presk_file *file, presk_error *e)
{
    for (size_t i = 0; i < file->header.count; i++) {
        const presk_entry *entry = &file->header.entries[i];
        if (!entry->expected) {
            return presk_fail(e, PRESK_E_UNEXPECTED, file->path, "tensor %.120s is not expected", entry->tensor.name);
        }
    }
    return true;
}
