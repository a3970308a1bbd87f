/* presk_json.h: the few tokens of JSON that a safetensors header is made of, read strictly from bytes.
 *
 * Every function returns false at the first byte that breaks RFC 8259 and leaves in `fault` what was wrong and in `at`
 * where. There is no recursion and no allocation: how deep a file nests cannot matter.
 */
#ifndef PRESK_JSON_H
#define PRESK_JSON_H

#include "presk_names.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct presk_json {
    const unsigned char *text;
    size_t size;
    size_t at;         /* at <= size: the next byte */
    const char *fault; /* what the last failed function wanted; NULL before */
} presk_json;

/* Skips white space; if the next byte is c, takes it and returns true. Never sets fault. */
bool presk_json_take(presk_json *json, char c);

/* The same, but another byte is a fault that `fault` names. */
bool presk_json_want(presk_json *json, char c, const char *fault);

/* Skips white space; true if nothing is left. */
bool presk_json_at_end(presk_json *json);

/* Reads a string, UTF-8 checked, escapes decoded, to dest[0 .. *length-1] and a NUL behind it. A decoded string and
 * its NUL are never longer than its text with the quotes; pre: dest has room for that (size - at bytes will do). */
bool presk_json_string(presk_json *json, char *dest, size_t *length);

/* Reads an integer 0 <= *value < 2^64: digits only, no leading zero. */
bool presk_json_natural(presk_json *json, uint64_t *value);

/* The bytes (1 to 4) of the UTF-8 character at s[0 .. size-1], or 0 if it is none: no overlong forms, no surrogates,
 * nothing above U+10FFFF. Pre: size > 0. */
size_t presk_utf8_size(const unsigned char *s, size_t size);

#endif /* PRESK_JSON_H */
