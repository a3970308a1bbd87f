/* presk_tensors_private.h: what the files of the safetensors reader and writer share; no program includes it. */
#ifndef PRESK_TENSORS_PRIVATE_H
#define PRESK_TENSORS_PRIVATE_H

#include "presk_tensors.h"

#define PRESK_HEADER_LENGTH_BYTES 8
#define PRESK_HEADER_LIMIT UINT64_C(100000000)

/* A tensor of a header: offsets into the data, and its name's length, as a name may hold a NUL. */
typedef struct presk_entry {
    presk_tensor tensor; /* data and bytes are set by presk_header_bind */
    size_t name_size;
    size_t element_size; /* 0 where it is not known */
    uint64_t begin, end; /* begin <= end */
    bool expected;
} presk_entry;

/* A header: its tensors, sorted by name bytewise, and the text of all strings. */
typedef struct presk_header {
    presk_entry *entries;
    size_t count;
    char *strings;
} presk_header;

/* Parses the n bytes of JSON at text and checks everything that needs no data: E1102. On failure *header holds
 * nothing. `path` is for messages, is kept in the tensors and must outlive them. */
bool presk_header_parse(presk_header *header, const unsigned char *text, size_t n, const char *path, presk_error *e);

/* Checks that the tensors cover [0, end) without overlap or hole and gives that end, into *data_size. */
bool presk_header_extent(const presk_header *header, const char *path, uint64_t *data_size, presk_error *e);

/* Points the tensors into their data. Pre: the extent was checked and the data have its size. */
void presk_header_bind(presk_header *header, const unsigned char *data);
void presk_header_free(presk_header *header);

/* --- Little-endian bytes, on any machine ----------------------------------------------------------------------- */

#if defined(__BYTE_ORDER__) && defined(__ORDER_LITTLE_ENDIAN__) && !defined(PRESK_ANY_BYTE_ORDER)
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define PRESK_LITTLE_ENDIAN 1
#endif
#endif

static inline uint16_t presk_load16(const unsigned char *p)
{
#if defined(PRESK_LITTLE_ENDIAN)
    uint16_t u;
    memcpy(&u, p, sizeof u);
    return u;
#else
    return (uint16_t)((uint32_t)p[0] | (uint32_t)p[1] << 8);
#endif
}

static inline uint32_t presk_load32(const unsigned char *p)
{
#if defined(PRESK_LITTLE_ENDIAN)
    uint32_t u;
    memcpy(&u, p, sizeof u);
    return u;
#else
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
#endif
}

static inline uint64_t presk_load64(const unsigned char *p)
{
#if defined(PRESK_LITTLE_ENDIAN)
    uint64_t u;
    memcpy(&u, p, sizeof u);
    return u;
#else
    return (uint64_t)presk_load32(p) | (uint64_t)presk_load32(p + 4) << 32;
#endif
}

static inline void presk_store16(unsigned char *p, uint16_t u)
{
#if defined(PRESK_LITTLE_ENDIAN)
    memcpy(p, &u, sizeof u);
#else
    p[0] = (unsigned char)(u & 0xff);
    p[1] = (unsigned char)(u >> 8);
#endif
}

static inline void presk_store32(unsigned char *p, uint32_t u)
{
#if defined(PRESK_LITTLE_ENDIAN)
    memcpy(p, &u, sizeof u);
#else
    presk_store16(p, (uint16_t)(u & 0xffff));
    presk_store16(p + 2, (uint16_t)(u >> 16));
#endif
}

static inline void presk_store64(unsigned char *p, uint64_t u)
{
#if defined(PRESK_LITTLE_ENDIAN)
    memcpy(p, &u, sizeof u);
#else
    presk_store32(p, (uint32_t)(u & UINT32_MAX));
    presk_store32(p + 4, (uint32_t)(u >> 32));
#endif
}

#endif /* PRESK_TENSORS_PRIVATE_H */
