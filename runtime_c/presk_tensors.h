/* presk_tensors.h: reads and writes .safetensors files, strictly, with C11 alone.
 *
 * The format: 8 bytes, the length n of the header, little-endian; n bytes of JSON, an object that maps each tensor's
 * name to {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]} and may map "__metadata__" to an object of
 * strings, white space behind it; then the data, into which the offsets point, little-endian, row-major.
 *
 * A file is accepted only if all of this holds, else opening it fails with E1102 and the byte: n <= 100 000 000 and
 * within the file; the header begins with '{', is valid JSON and UTF-8 with no other keys and no key twice; at most 8
 * dimensions; the element count does not overflow; begin <= end; end - begin is count * size; the tensors cover the
 * data exactly, without overlap, hole or rest. A dtype that is not among `presk_dtype` is PRESK_OTHER: its tensor is
 * listed, its extent is checked where the element size is known, and only reading it fails (E1107).
 *
 * What the writer writes is canonical, byte for byte what presk's Python writer writes: the header is compact JSON
 * (no spaces), keys in the order dtype, shape, data_offsets, tensors sorted by name bytewise and laid out in that
 * order without gaps, no __metadata__, names in UTF-8 with only '"', '\' and control characters escaped (\b \f \n \r
 * \t, else \u00xx), the header padded with spaces so that the data begin at a multiple of 8; NaNs canonical.
 */
#ifndef PRESK_TENSORS_H
#define PRESK_TENSORS_H

#include "presk_names.h"
#include "presk_rt.h"

#define PRESK_MAX_RANK 8

typedef enum presk_dtype {
    PRESK_F64,
    PRESK_F32,
    PRESK_F16,
    PRESK_BF16,
    PRESK_I64,
    PRESK_I32,
    PRESK_I16,
    PRESK_I8,
    PRESK_U8,
    PRESK_BOOL,
    PRESK_OTHER /* any other name: listed, not readable */
} presk_dtype;

typedef struct presk_tensor {
    const char *file; /* the path, for messages */
    const char *name; /* UTF-8, ends in NUL (a name that itself holds a NUL is never found) */
    const char *type; /* the dtype as the file spells it */
    presk_dtype dtype;
    int rank; /* 0 <= rank <= PRESK_MAX_RANK */
    int64_t shape[PRESK_MAX_RANK];
    size_t count;              /* the product of the shape */
    const unsigned char *data; /* bytes in the file's (little-endian) order, at any alignment */
    size_t bytes;
} presk_tensor;

typedef struct presk_file presk_file;
typedef struct presk_writer presk_writer;

const char *presk_dtype_name(presk_dtype dtype); /* "F32"; "other" */
size_t presk_dtype_size(presk_dtype dtype);      /* bytes of an element; 0 for PRESK_OTHER */

/* --- Reading: presk_tensors.c ---------------------------------------------------------------------------------- */

/* Opens and checks a file; NULL and *e (E1101, E1102) if that fails. Memory-mapped where the system can and nothing
 * is copied; the file must then not be changed while it is open. With -DPRESK_NO_MMAP it is always read. */
presk_file *presk_file_open(const char *path, presk_error *e);
void presk_file_close(presk_file *file); /* NULL is allowed; tensors of the file die with it */

/* The number of tensors, and the i-th in the order of names. Pre: i < presk_file_count(file). */
size_t presk_file_count(const presk_file *file);
presk_tensor presk_file_at(const presk_file *file, size_t i);

/* True and *tensor if there is a tensor of that name. */
bool presk_file_find(const presk_file *file, const char *name, presk_tensor *tensor);

/* The same, but it must be there (E1104) and have the shape (E1106); it then counts as expected. */
bool presk_file_expect(presk_file *file, const char *name, int rank, const int64_t *shape, presk_tensor *tensor,
                       presk_error *e);

/* True if every tensor of the file was expected, else E1105 and the first that was not. */
bool presk_file_expect_no_more(const presk_file *file, presk_error *e);

/* --- Elements: presk_convert.c --------------------------------------------------------------------------------- */

/* Elements first .. first+n-1 of a tensor, as real numbers rounded once to the type of dest (bf16 through f32, from
 * every type). BOOL counts as 0 or 1. E1106 if the elements are not all in the tensor, E1107 if it is PRESK_OTHER. */
bool presk_read_f64(const presk_tensor *tensor, size_t first, size_t n, double *dest, presk_error *e);
bool presk_read_f32(const presk_tensor *tensor, size_t first, size_t n, float *dest, presk_error *e);
bool presk_read_bf16(const presk_tensor *tensor, size_t first, size_t n, presk_bf16 *dest, presk_error *e);

/* The same for integers, exact; a tensor of floats is E1107. */
bool presk_read_i64(const presk_tensor *tensor, size_t first, size_t n, int64_t *dest, presk_error *e);

/* One of the four above by `to`: PRESK_F64, PRESK_F32, PRESK_BF16 or PRESK_I64; else E1107. */
bool presk_read(const presk_tensor *tensor, size_t first, size_t n, presk_dtype to, void *dest, presk_error *e);

/* A matrix of `rows` rows of `cols` elements that begins at element `first`, transposed in the same conversion:
 * dest[k * rows + j] = element[first + j * cols + k]. */
bool presk_read_transposed(const presk_tensor *tensor, size_t first, size_t rows, size_t cols, presk_dtype to,
                           void *dest, presk_error *e);

/* True if low <= values[i] <= high for all i < n, else E1204 and the first that is not. `place` names the input. */
bool presk_check_range(const int64_t *values, size_t n, int64_t low, int64_t high, const char *place, presk_error *e);

/* --- Writing: presk_writer.c ----------------------------------------------------------------------------------- */

presk_writer *presk_writer_new(void); /* NULL if there is no memory */
void presk_writer_free(presk_writer *writer); /* NULL is allowed */

/* Adds a tensor. `data` are elements of the machine's own type (float, double, presk_bf16 or a binary16's uint16_t,
 * int64_t, int32_t, int16_t, int8_t, uint8_t) and is borrowed until the file is saved. Name and shape are copied.
 * E1108 if the name is not UTF-8 or is "__metadata__", or the shape is bad. */
bool presk_writer_add(presk_writer *writer, const char *name, presk_dtype dtype, int rank, const int64_t *shape,
                      const void *data, presk_error *e);

/* Writes everything to path.partial and renames it to path, so that path is the whole file or what it was before;
 * on failure (E1108: a name twice, disk full, not permitted) the partial file is removed. A path that exists and is no
 * regular file (a device, a pipe) is written to directly. On POSIX systems SIGXFSZ is ignored meanwhile. */
bool presk_writer_save(presk_writer *writer, const char *path, presk_error *e);

#endif /* PRESK_TENSORS_H */
