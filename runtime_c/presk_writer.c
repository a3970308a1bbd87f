/* presk_writer.c: writes a canonical safetensors file, whole or not at all; see presk_tensors.h. */

#define _FILE_OFFSET_BITS 64
#if !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L /* fileno, fsync, stat, which -std=c11 hides */
#endif

#include "presk_json.h"
#include "presk_tensors_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#if (defined(__unix__) || defined(__APPLE__)) && !defined(__wasi__)
#define USE_POSIX 1
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

typedef struct item {
    char *name;
    presk_dtype dtype;
    int rank;
    int64_t shape[PRESK_MAX_RANK];
    uint64_t count;
    const unsigned char *data;
} item;

struct presk_writer {
    item *items;
    size_t count, capacity;
};

/* --- Collecting ------------------------------------------------------------------------------------------------ */

presk_writer *presk_writer_new(void)
{
    return calloc(1, sizeof(presk_writer));
}

void presk_writer_free(presk_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    for (size_t i = 0; i < writer->count; i++) {
        free(writer->items[i].name);
    }
    free(writer->items);
    free(writer);
}

static bool is_utf8(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t size = strlen(text);
    for (size_t i = 0; i < size;) {
        size_t n = presk_utf8_size(s + i, size - i);
        if (n == 0) {
            return false;
        }
        i += n;
    }
    return true;
}

/* Checks a shape and gives its element count; count * 8 does not overflow. */
static bool count_elements(int rank, const int64_t *shape, uint64_t *count)
{
    if (rank < 0 || rank > PRESK_MAX_RANK) {
        return false;
    }
    *count = 1;
    for (int d = 0; d < rank; d++) {
        if (shape[d] < 0 || (shape[d] != 0 && *count > UINT64_MAX / 8 / (uint64_t)shape[d])) {
            return false;
        }
        *count *= (uint64_t)shape[d];
    }
    return true;
}

bool presk_writer_add(presk_writer *writer, const char *name, presk_dtype dtype, int rank, const int64_t *shape,
                      const void *data, presk_error *e)
{
    item new = {.dtype = dtype, .rank = rank, .data = data};
    if (!is_utf8(name) || strcmp(name, "__metadata__") == 0) {
        return presk_fail(e, PRESK_E_UNWRITABLE, NULL, "%.120s cannot be a tensor's name", name);
    }
    if (presk_dtype_size(dtype) == 0) {
        return presk_fail(e, PRESK_E_UNWRITABLE, NULL, "tensor %.120s has a type that cannot be written", name);
    }
    if (!count_elements(rank, shape, &new.count)) {
        return presk_fail(e, PRESK_E_UNWRITABLE, NULL, "tensor %.120s has a bad shape", name);
    }
    if (rank > 0) {
        memcpy(new.shape, shape, (size_t)rank * sizeof shape[0]);
    }
    if (writer->count == writer->capacity) {
        size_t capacity = writer->capacity == 0 ? 16 : writer->capacity * 2;
        item *items = realloc(writer->items, capacity * sizeof items[0]);
        if (items == NULL) {
            return presk_fail(e, PRESK_E_UNWRITABLE, NULL, "not enough memory");
        }
        writer->items = items;
        writer->capacity = capacity;
    }
    size_t size = strlen(name) + 1;
    new.name = malloc(size);
    if (new.name == NULL) {
        return presk_fail(e, PRESK_E_UNWRITABLE, NULL, "not enough memory");
    }
    memcpy(new.name, name, size);
    writer->items[writer->count++] = new;
    return true;
}

/* --- The header ------------------------------------------------------------------------------------------------ */

typedef struct text {
    char *bytes;
    size_t size, capacity;
    bool failed; /* no memory: everything added from then on is dropped */
} text;

static void add_bytes(text *t, const char *bytes, size_t n)
{
    if (t->failed) {
        return;
    }
    if (n > t->capacity - t->size) {
        size_t capacity = t->capacity * 2 + n + 256;
        char *larger = realloc(t->bytes, capacity);
        if (larger == NULL) {
            t->failed = true;
            return;
        }
        t->bytes = larger;
        t->capacity = capacity;
    }
    memcpy(t->bytes + t->size, bytes, n);
    t->size += n;
}

static void add(text *t, const char *words)
{
    add_bytes(t, words, strlen(words));
}

static void add_integer(text *t, uint64_t value)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%" PRIu64, value);
    add(t, digits);
}

/* Adds a JSON string: what Python's json.dumps(name, ensure_ascii=False) gives. */
static void add_string(text *t, const char *name)
{
    static const char letters[] = "\"\\\b\f\n\r\t";
    static const char escapes[] = "\"\\bfnrt";
    add(t, "\"");
    for (const char *c = name; *c != '\0'; c++) {
        const char *letter = strchr(letters, *c);
        if (letter != NULL) {
            char escape[2] = {'\\', escapes[letter - letters]};
            add_bytes(t, escape, 2);
        } else if ((unsigned char)*c < 0x20) {
            char escape[8];
            (void)snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)*c);
            add(t, escape);
        } else {
            add_bytes(t, c, 1);
        }
    }
    add(t, "\"");
}

/* Prints the header of the sorted items, padded; false if the data would overflow 2^64 bytes. */
static bool print_header(const presk_writer *writer, text *t)
{
    uint64_t offset = 0;
    add(t, "{");
    for (size_t i = 0; i < writer->count; i++) {
        const item *it = &writer->items[i];
        uint64_t bytes = it->count * presk_dtype_size(it->dtype);
        if (bytes > UINT64_MAX - offset) {
            return false;
        }
        add(t, i == 0 ? "" : ",");
        add_string(t, it->name);
        add(t, ":{\"dtype\":\"");
        add(t, presk_dtype_name(it->dtype));
        add(t, "\",\"shape\":[");
        for (int d = 0; d < it->rank; d++) {
            add(t, d == 0 ? "" : ",");
            add_integer(t, (uint64_t)it->shape[d]);
        }
        add(t, "],\"data_offsets\":[");
        add_integer(t, offset);
        add(t, ",");
        offset += bytes;
        add_integer(t, offset);
        add(t, "]}");
    }
    add(t, "}");
    while (!t->failed && t->size % 8 != 0) {
        add(t, " ");
    }
    return true;
}

/* --- The data -------------------------------------------------------------------------------------------------- */

#define CHUNK ((size_t)4096) /* elements */

/* Elements of the machine to bytes of the file, NaNs canonical. Pre: n <= CHUNK. */
static void pack(presk_dtype dtype, const unsigned char *data, size_t n, unsigned char *dest)
{
    size_t size = presk_dtype_size(dtype);
    for (size_t i = 0; i < n; i++) {
        uint64_t u64;
        uint32_t u32;
        uint16_t u16;
        switch (size) {
        case 8:
            memcpy(&u64, data + i * 8, 8);
            presk_store64(dest + i * 8, dtype == PRESK_F64 ? presk_canonical_bits64(u64) : u64);
            break;
        case 4:
            memcpy(&u32, data + i * 4, 4);
            presk_store32(dest + i * 4, dtype == PRESK_F32 ? presk_canonical_bits32(u32) : u32);
            break;
        case 2:
            memcpy(&u16, data + i * 2, 2);
            if (dtype == PRESK_BF16) {
                u16 = (uint16_t)(presk_canonical_bits32((uint32_t)u16 << 16) >> 16);
            } else if (dtype == PRESK_F16 && (u16 & 0x7fff) > 0x7c00) {
                u16 = PRESK_NAN_F16;
            }
            presk_store16(dest + i * 2, u16);
            break;
        default:
            dest[i] = data[i];
            break;
        }
    }
}

static bool write_item(FILE *stream, const item *it)
{
    unsigned char buffer[CHUNK * 8];
    size_t size = presk_dtype_size(it->dtype);
    for (uint64_t i = 0; i < it->count; i += CHUNK) {
        size_t n = it->count - i < CHUNK ? (size_t)(it->count - i) : CHUNK;
        pack(it->dtype, it->data + (size_t)i * size, n, buffer);
        if (fwrite(buffer, size, n, stream) != n) {
            return false;
        }
    }
    return true;
}

static bool write_all(FILE *stream, const presk_writer *writer, const text *header)
{
    unsigned char length[PRESK_HEADER_LENGTH_BYTES];
    presk_store64(length, header->size);
    if (fwrite(length, 1, sizeof length, stream) != sizeof length
        || fwrite(header->bytes, 1, header->size, stream) != header->size) {
        return false;
    }
    for (size_t i = 0; i < writer->count; i++) {
        if (!write_item(stream, &writer->items[i])) {
            return false;
        }
    }
    return true;
}

/* Writes to a file of that name, to the disk where a disk can be told to; gives errno's value, 0 if all went well. */
static int write_to(const char *path, const presk_writer *writer, const text *header)
{
    errno = 0;
    FILE *stream = fopen(path, "wb");
    if (stream == NULL) {
        return errno != 0 ? errno : EIO;
    }
    bool good = write_all(stream, writer, header) && fflush(stream) == 0;
#if defined(USE_POSIX)
    good = good && (fsync(fileno(stream)) == 0 || errno == EINVAL || errno == ENOTSUP); /* a pipe has nothing to sync */
#endif
    int problem = good ? 0 : errno != 0 ? errno : EIO;
    if (fclose(stream) != 0 && problem == 0) {
        problem = errno != 0 ? errno : EIO;
    }
    return problem;
}

/* --- Saving ---------------------------------------------------------------------------------------------------- */

static int compare_items(const void *a, const void *b)
{
    const item *x = a, *y = b;
    return strcmp(x->name, y->name); /* compares bytes as unsigned char */
}

/* True if path is there and is a device, a pipe or the like, beside which no file can stand in for it. */
static bool is_special(const char *path)
{
#if defined(USE_POSIX)
    struct stat about;
    return stat(path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode);
#else
    (void)path;
    return false;
#endif
}

/* Writes beside and renames. */
static bool replace(const char *path, const presk_writer *writer, const text *header, presk_error *e)
{
    static const char suffix[] = ".partial";
    size_t size = strlen(path);
    char *partial = malloc(size + sizeof suffix);
    if (partial == NULL) {
        return presk_fail(e, PRESK_E_UNWRITABLE, path, "not enough memory");
    }
    memcpy(partial, path, size);
    memcpy(partial + size, suffix, sizeof suffix);
    int problem = write_to(partial, writer, header);
#if defined(_WIN32)
    if (problem == 0) {
        (void)remove(path); /* its rename does not replace */
    }
#endif
    if (problem == 0 && rename(partial, path) != 0) {
        problem = errno != 0 ? errno : EIO;
    }
    if (problem != 0) {
        (void)remove(partial);
    }
    free(partial);
    return problem == 0 || presk_fail(e, PRESK_E_UNWRITABLE, path, "%s", strerror(problem));
}

static bool save(presk_writer *writer, const char *path, presk_error *e)
{
    if (writer->count > 1) {
        qsort(writer->items, writer->count, sizeof writer->items[0], compare_items);
    }
    for (size_t i = 1; i < writer->count; i++) {
        if (strcmp(writer->items[i - 1].name, writer->items[i].name) == 0) {
            return presk_fail(e, PRESK_E_UNWRITABLE, path, "tensor %.120s was added twice", writer->items[i].name);
        }
    }
    text header = {0};
    bool good = print_header(writer, &header) && !header.failed;
    if (!good || header.size > PRESK_HEADER_LIMIT) {
        good = presk_fail(e, PRESK_E_UNWRITABLE, path, "the header is too large");
    } else if (is_special(path)) {
        int problem = write_to(path, writer, &header);
        good = problem == 0 || presk_fail(e, PRESK_E_UNWRITABLE, path, "%s", strerror(problem));
    } else {
        good = replace(path, writer, &header, e);
    }
    free(header.bytes);
    return good;
}

bool presk_writer_save(presk_writer *writer, const char *path, presk_error *e)
{
#if defined(USE_POSIX) && defined(SIGXFSZ)
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN); /* a file-size limit is then an error and not a death */
    bool good = save(writer, path, e);
    if (before != SIG_ERR) {
        (void)signal(SIGXFSZ, before);
    }
    return good;
#else
    return save(writer, path, e);
#endif
}
