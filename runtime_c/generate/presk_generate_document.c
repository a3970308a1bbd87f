/* presk_generate_document.c: the JSON document of a text, byte for byte as Python's json.dumps writes it. */

#include "presk_generate_private.h"

#include <stdio.h>
#include <string.h>

static void print_string(const presk_bytes *text)
{
    static const char escaped[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    putchar('"');
    for (size_t i = 0; i < text->count; i++) {
        const unsigned char c = (unsigned char)text->bytes[i];
        const char *found = c == '\0' ? NULL : strchr(escaped, c);
        if (found != NULL) {
            putchar('\\');
            putchar(letters[found - escaped]);
        } else if (c < 0x20) {
            printf("\\u%04x", c);
        } else {
            putchar(c);
        }
    }
    putchar('"');
}

static void print_ids(const int64_t *ids, size_t count)
{
    putchar('[');
    for (size_t i = 0; i < count; i++) {
        printf(i == 0 ? "%lld" : ", %lld", (long long)ids[i]);
    }
    putchar(']');
}

void presk_document_print(const presk_run *r)
{
    fputs("{\"prompt\": ", stdout);
    if (r->options.ids == NULL) {
        print_string(&r->asked);
    } else {
        fputs("null", stdout);
    }
    fputs(", \"prompt_tokens\": ", stdout);
    print_ids(r->seen.ids, r->prompt);
    fputs(", \"tokens\": ", stdout);
    print_ids(r->seen.ids + r->prompt, r->seen.count - r->prompt);
    fputs(", \"text\": ", stdout);
    if (r->tokenizer != NULL) {
        print_string(&r->written);
    } else {
        fputs("null", stdout);
    }
    printf(", \"seed\": %llu, \"finish\": \"%s\"}\n", (unsigned long long)r->options.seed, r->finish);
}
