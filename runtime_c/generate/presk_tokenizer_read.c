/* presk_tokenizer_read.c: a tokenizer's file, checked in full before any of it is used. docs/generation.md has the format. */

#include "presk_tokenizer_private.h"
#include "presk_unicode_classes.h"

#include <stdio.h>
#include <stdlib.h>

static const char MAGIC[] = "PRESKTOK";
enum { VERSION = 1, HEADER_WORDS = 11, HEADER_BYTES = 8 + 4 * HEADER_WORDS };

/* A file on its way in: `at` moves over words, of which the sizes were checked. */
typedef struct reader {
    presk_tokenizer *t;
    const char *path;
    presk_error *e;
    const unsigned char *at;
    const char *text; /* the block of all texts */
    uint32_t text_size, text_used;
    uint32_t merges;
} reader;

static bool malformed(const reader *r, const char *what)
{
    return presk_fail(r->e, PRESK_E_TOKENIZER, r->path, "is no tokenizer of presk: %s", what);
}

static bool no_memory(const reader *r)
{
    return presk_fail(r->e, PRESK_E_UNREADABLE, r->path, "not enough memory for the tokenizer");
}

static uint32_t word(reader *r)
{
    const unsigned char *p = r->at;
    r->at += 4;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The whole file; NULL on failure. */
static unsigned char *contents(const char *path, size_t *size, presk_error *e)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        presk_error_set(e, PRESK_E_UNREADABLE, path, "cannot be opened");
        return NULL;
    }
    unsigned char *bytes = NULL;
    size_t count = 0, capacity = 0, got;
    do {
        if (count == capacity) {
            size_t wanted = capacity == 0 ? 1 << 16 : 2 * capacity;
            unsigned char *larger = realloc(bytes, wanted);
            if (larger == NULL) {
                presk_error_set(e, PRESK_E_UNREADABLE, path, "not enough memory for the tokenizer");
                break;
            }
            bytes = larger;
            capacity = wanted;
        }
        got = fread(bytes + count, 1, capacity - count, file);
        count += got;
    } while (got > 0);
    bool whole = feof(file) != 0 && ferror(file) == 0;
    if (!whole && count < capacity) {
        presk_error_set(e, PRESK_E_UNREADABLE, path, "cannot be read");
    }
    (void)fclose(file);
    if (!whole) {
        free(bytes);
        return NULL;
    }
    *size = count;
    return bytes;
}

/* A text of the block, from where the last one ended to `end`. */
static bool take_text(reader *r, uint32_t end, presk_span *span)
{
    if (end < r->text_used || end > r->text_size) {
        return malformed(r, "its texts do not follow each other");
    }
    *span = (presk_span){r->text + r->text_used, end - r->text_used};
    r->text_used = end;
    return true;
}

static bool take_ids(reader *r, uint32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = word(r);
        if (ids[i] >= r->t->tokens) {
            return malformed(r, "it names a token that it does not have");
        }
    }
    return true;
}

static bool read_header(reader *r, size_t size)
{
    presk_tokenizer *t = r->t;
    if (size < HEADER_BYTES || memcmp(t->file, MAGIC, 8) != 0) {
        return malformed(r, "it does not begin with PRESKTOK");
    }
    r->at = t->file + 8;
    if (word(r) != VERSION) {
        return malformed(r, "it has another version than 1");
    }
    t->pre_tokenizer = word(r);
    t->flags = word(r);
    t->tokens = word(r);
    r->merges = word(r);
    t->added_counts[0] = word(r);
    t->added_counts[1] = word(r);
    t->before_count = word(r);
    t->after_count = word(r);
    t->stop_count = word(r);
    r->text_size = word(r);
    if (t->pre_tokenizer < PRESK_GPT2 || t->pre_tokenizer > PRESK_QWEN2 || t->flags >= 2 * PRESK_CHAT_TRIMS) {
        return malformed(r, "its pre-tokenizer or a flag is not known");
    }
    if (t->tokens == 0 || t->tokens > INT32_MAX || r->merges > INT32_MAX / 4) {
        return malformed(r, "it has no tokens, or too many");
    }
    uint64_t words = 256 + (uint64_t)t->tokens + 3 * (uint64_t)r->merges
        + 2 * ((uint64_t)t->added_counts[0] + t->added_counts[1]) + t->before_count + t->after_count + t->stop_count + PRESK_CHAT_TEXTS;
    if (HEADER_BYTES + 4 * words + t->tokens + r->text_size != size) {
        return malformed(r, "its size is not what its header says");
    }
    t->kinds = t->file + HEADER_BYTES + 4 * words;
    r->text = (const char *)(t->kinds + t->tokens);
    return true;
}

static bool allocate(reader *r)
{
    presk_tokenizer *t = r->t;
    size_t slots = 16;
    while (slots < 2 * (size_t)r->merges) {
        slots *= 2;
    }
    t->merge_mask = (uint32_t)(slots - 1);
    t->merges = presk_alloc(slots * sizeof *t->merges);
    t->texts = presk_alloc(t->tokens * sizeof *t->texts);
    for (int set = 0; set < 2; set++) {
        t->added[set] = presk_alloc(t->added_counts[set] * sizeof *t->added[set]);
    }
    t->before = presk_alloc(t->before_count * sizeof *t->before);
    t->after = presk_alloc(t->after_count * sizeof *t->after);
    t->stops = presk_alloc(t->stop_count * sizeof *t->stops);
    t->classes = presk_alloc(PRESK_CODE_POINTS);
    bool all = t->merges != NULL && t->texts != NULL && t->added[0] != NULL && t->added[1] != NULL && t->before != NULL
        && t->after != NULL && t->stops != NULL && t->classes != NULL;
    if (!all) {
        return no_memory(r);
    }
    for (size_t i = 0; i < slots; i++) {
        t->merges[i] = (presk_merge){PRESK_NO_TOKEN, PRESK_NO_TOKEN, 0, 0};
    }
    return true;
}

static bool read_tokens(reader *r)
{
    presk_tokenizer *t = r->t;
    for (int b = 0; b < 256; b++) {
        t->byte_tokens[b] = word(r);
        if (t->byte_tokens[b] != PRESK_NO_TOKEN && t->byte_tokens[b] >= t->tokens) {
            return malformed(r, "it names a token that it does not have");
        }
    }
    for (uint32_t i = 0; i < t->tokens; i++) {
        if (!take_text(r, word(r), &t->texts[i])) {
            return false;
        }
        if (t->kinds[i] >= 2 * PRESK_SPECIAL) {
            return malformed(r, "a token's kind is not known");
        }
    }
    return true;
}

/* The pair of two merges that are the same is ranked by the later one, as in the `tokenizers` library. */
static bool read_merges(reader *r)
{
    presk_tokenizer *t = r->t;
    for (uint32_t rank = 0; rank < r->merges; rank++) {
        uint32_t id[3];
        if (!take_ids(r, id, 3)) {
            return false;
        }
        presk_span a = t->texts[id[0]], b = t->texts[id[1]], c = t->texts[id[2]];
        if ((uint64_t)a.size + b.size != c.size || memcmp(c.text, a.text, a.size) != 0
            || memcmp(c.text + a.size, b.text, b.size) != 0) {
            return malformed(r, "a merge does not give its parts' text");
        }
        uint32_t slot = presk_merge_slot(t, id[0], id[1]);
        while (t->merges[slot].left != PRESK_NO_TOKEN && (t->merges[slot].left != id[0] || t->merges[slot].right != id[1])) {
            slot = (slot + 1) & t->merge_mask;
        }
        t->merges[slot] = (presk_merge){id[0], id[1], rank, id[2]};
    }
    return true;
}

static bool read_added(reader *r)
{
    presk_tokenizer *t = r->t;
    for (int set = 0; set < 2; set++) {
        for (uint32_t i = 0; i < t->added_counts[set]; i++) {
            if (!take_ids(r, &t->added[set][i].id, 1)) {
                return false;
            }
        }
    }
    for (int set = 0; set < 2; set++) {
        presk_span before = {NULL, 0};
        for (uint32_t i = 0; i < t->added_counts[set]; i++) {
            presk_span *text = &t->added[set][i].text;
            if (!take_text(r, word(r), text)) {
                return false;
            }
            uint32_t shared = before.size < text->size ? before.size : text->size;
            int order = shared == 0 ? 0 : memcmp(before.text, text->text, shared);
            if (text->size == 0 || order > 0 || (order == 0 && before.size >= text->size)) {
                return malformed(r, "its added tokens are not in order");
            }
            before = *text;
        }
    }
    return take_ids(r, t->before, t->before_count) && take_ids(r, t->after, t->after_count)
        && take_ids(r, t->stops, t->stop_count);
}

static bool read_chat(reader *r)
{
    for (int i = 0; i < PRESK_CHAT_TEXTS; i++) {
        if (!take_text(r, word(r), &r->t->chat[i])) {
            return false;
        }
    }
    return r->text_used == r->text_size || malformed(r, "it has texts that nothing names");
}

/* The classes of all code points, and the words' table where whole words come first. */
static bool index_texts(reader *r)
{
    presk_tokenizer *t = r->t;
    memset(t->classes, 0, PRESK_CODE_POINTS);
    for (size_t i = 0; i < sizeof presk_class_ranges / sizeof presk_class_ranges[0]; i++) {
        memset(t->classes + presk_class_ranges[i].first, (int)presk_class_ranges[i].bits, presk_class_ranges[i].count);
    }
    presk_nfc_classes(t->classes);
    if ((t->flags & PRESK_WHOLE_WORDS) == 0) {
        return true;
    }
    size_t slots = 16;
    while (slots < 2 * (size_t)t->tokens) {
        slots *= 2;
    }
    t->word_mask = (uint32_t)(slots - 1);
    t->words = presk_alloc(slots * sizeof *t->words);
    if (t->words == NULL) {
        return no_memory(r);
    }
    for (size_t i = 0; i < slots; i++) {
        t->words[i] = PRESK_NO_TOKEN;
    }
    for (uint32_t id = 0; id < t->tokens; id++) {
        if ((t->kinds[id] & PRESK_WORD) != 0) {
            uint32_t slot = presk_word_slot(t, t->texts[id].text, t->texts[id].size);
            while (t->words[slot] != PRESK_NO_TOKEN) {
                slot = (slot + 1) & t->word_mask;
            }
            t->words[slot] = id;
        }
    }
    return true;
}

/* The tokenizer of a file's bytes, which it takes over from malloc. */
static presk_tokenizer *made(unsigned char *file, size_t size, const char *path, presk_error *e)
{
    presk_tokenizer *t = file == NULL ? NULL : calloc(1, sizeof *t);
    if (t == NULL) {
        presk_error_set(e, PRESK_E_UNREADABLE, path, "not enough memory for the tokenizer");
        free(file);
        return NULL;
    }
    t->file = file;
    reader r = {.t = t, .path = path, .e = e};
    bool good = read_header(&r, size) && allocate(&r) && read_tokens(&r) && read_merges(&r) && read_added(&r)
        && read_chat(&r) && index_texts(&r);
    if (!good) {
        presk_tokenizer_close(t);
        return NULL;
    }
    return t;
}

presk_tokenizer *presk_tokenizer_open(const char *path, presk_error *e)
{
    size_t size = 0;
    unsigned char *file = contents(path, &size, e);
    return file == NULL ? NULL : made(file, size, path, e);
}

presk_tokenizer *presk_tokenizer_new(const void *bytes, size_t size, const char *shown, presk_error *e)
{
    unsigned char *file = calloc(size + 1, 1);
    if (file != NULL && size > 0) {
        memcpy(file, bytes, size);
    }
    return made(file, size, shown, e);
}

void presk_tokenizer_close(presk_tokenizer *t)
{
    if (t == NULL) {
        return;
    }
    void *parts[] = {t->texts, t->merges, t->words, t->added[0], t->added[1], t->before, t->after, t->stops, t->classes};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        presk_free(parts[i]);
    }
    free(t->file);
    free(t);
}
