/* presk_tokenizer.c: from a text to tokens and back. */

#include "presk_tokenizer_private.h"

#include <stdlib.h>

/* --- What grows ------------------------------------------------------------------------------------------------ */

/* Room for `more` elements behind `count`; NULL, and *memory as it was, where there is none. */
static void *grown(void *memory, size_t count, size_t more, size_t size, size_t *capacity)
{
    if (more <= *capacity - count) {
        return memory;
    }
    if (more > SIZE_MAX / 4 / size - count) {
        return NULL;
    }
    size_t wanted = 2 * (count + more) + 64;
    void *larger = realloc(memory, wanted * size);
    if (larger != NULL) {
        *capacity = wanted;
    }
    return larger;
}

bool presk_ids_add(presk_ids *ids, int64_t id)
{
    int64_t *room = grown(ids->ids, ids->count, 1, sizeof id, &ids->capacity);
    if (room == NULL) {
        return false;
    }
    ids->ids = room;
    room[ids->count++] = id;
    return true;
}

bool presk_bytes_add(presk_bytes *bytes, const char *more, size_t count)
{
    if (count == 0) {
        return true;
    }
    char *room = grown(bytes->bytes, bytes->count, count, 1, &bytes->capacity);
    if (room == NULL) {
        return false;
    }
    bytes->bytes = room;
    memcpy(room + bytes->count, more, count);
    bytes->count += count;
    return true;
}

void presk_ids_free(presk_ids *ids)
{
    free(ids->ids);
    *ids = (presk_ids){0};
}

void presk_bytes_free(presk_bytes *bytes)
{
    free(bytes->bytes);
    *bytes = (presk_bytes){0};
}

/* --- Encoding -------------------------------------------------------------------------------------------------- */

/* What one encoding works in. */
typedef struct encoding {
    const presk_tokenizer *t;
    presk_ids *ids;
    presk_work work;
    presk_bytes normal;
} encoding;

/* The longest added token of a set at p, or NULL: the range of those that agree so far narrows byte by byte. */
static const presk_added *added_at(const presk_added *set, size_t count, const unsigned char *p,
                                   const unsigned char *end)
{
    const presk_added *found = NULL;
    size_t low = 0, high = count;
    for (size_t depth = 0; low < high && p + depth < end; depth++) {
        size_t left = low, right = high;
        while (left < right) { /* the first whose byte at `depth` is not smaller; one that ended comes before */
            size_t middle = (left + right) / 2;
            presk_span text = set[middle].text;
            if (text.size <= depth || (unsigned char)text.text[depth] < p[depth]) {
                left = middle + 1;
            } else {
                right = middle;
            }
        }
        low = left;
        right = high;
        while (left < right) {
            size_t middle = (left + right) / 2;
            if ((unsigned char)set[middle].text.text[depth] <= p[depth]) {
                left = middle + 1;
            } else {
                right = middle;
            }
        }
        high = left;
        if (low < high && set[low].text.size == depth + 1) {
            found = &set[low];
        }
    }
    return found;
}

static bool encode_pieces(encoding *c, const unsigned char *p, const unsigned char *end)
{
    presk_splitter s = {c->t, p, end, NULL};
    while (s.at < end) {
        const unsigned char *piece = s.at, *behind = presk_next_piece(&s);
        if (!presk_merge_piece(c->t, piece, (size_t)(behind - piece), &c->work, c->ids)) {
            return false;
        }
    }
    return true;
}

static bool encode_stretch(encoding *c, const unsigned char *p, const unsigned char *end, int set);

/* What lies between the added tokens of set 0 is normalized, and searched for those of set 1. */
static bool encode_between(encoding *c, const unsigned char *p, const unsigned char *end, int set)
{
    if (set == 1) {
        return encode_pieces(c, p, end);
    }
    if ((c->t->flags & PRESK_NFC) != 0 && presk_nfc_needed(c->t, p, (size_t)(end - p))) {
        c->normal.count = 0;
        if (!presk_nfc(c->t, p, (size_t)(end - p), &c->normal)) {
            return false;
        }
        p = (const unsigned char *)c->normal.bytes;
        end = p + c->normal.count;
    }
    return encode_stretch(c, p, end, 1);
}

static bool encode_stretch(encoding *c, const unsigned char *p, const unsigned char *end, int set)
{
    const presk_tokenizer *t = c->t;
    if (t->added_counts[set] == 0) {
        return encode_between(c, p, end, set);
    }
    const unsigned char *plain = p;
    while (p < end) {
        const presk_added *token = added_at(t->added[set], t->added_counts[set], p, end);
        if (token == NULL) {
            p++;
            continue;
        }
        if ((p > plain && !encode_between(c, plain, p, set)) || !presk_ids_add(c->ids, token->id)) {
            return false;
        }
        p += token->text.size;
        plain = p;
    }
    return p == plain || encode_between(c, plain, p, set);
}

static bool add_all(presk_ids *ids, const uint32_t *more, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!presk_ids_add(ids, more[i])) {
            return false;
        }
    }
    return true;
}

/* The bytes of the character at p, or 0: *bad is then how many bytes from p on one U+FFFD stands for, and *cut says
 * that the text ended before they could be a character. Pre: p < end. */
static size_t character_at(const unsigned char *p, const unsigned char *end, size_t *bad, bool *cut)
{
    unsigned char a = p[0];
    *cut = false;
    *bad = 1;
    if (a < 0x80) {
        return 1;
    }
    if (a < 0xc2 || a > 0xf4) {
        return 0;
    }
    size_t size = a < 0xe0 ? 2 : a < 0xf0 ? 3 : 4;
    unsigned char low = a == 0xe0 ? 0xa0 : a == 0xf0 ? 0x90 : 0x80;  /* of the second byte: no overlong forms, */
    unsigned char high = a == 0xed ? 0x9f : a == 0xf4 ? 0x8f : 0xbf; /* no surrogates, nothing above U+10FFFF */
    for (size_t i = 1; i < size; i++) {
        if (p + i == end) {
            *cut = true;
            return 0;
        }
        if (p[i] < low || p[i] > high) {
            return 0;
        }
        low = 0x80;
        high = 0xbf;
        *bad = i + 1;
    }
    return size;
}

bool presk_text_check(const char *text, size_t size, presk_error *e)
{
    if (size == 0) {
        return true; /* text may be NULL */
    }
    const unsigned char *begin = (const unsigned char *)text, *end = begin + size;
    if (size > INT32_MAX) {
        return presk_fail(e, PRESK_E_INPUT, NULL, "the text has %zu bytes; at most 2147483647 are tokenized", size);
    }
    for (const unsigned char *p = begin; p < end;) {
        size_t bad, found = 1;
        bool cut;
        if (*p >= 0x80 && (found = character_at(p, end, &bad, &cut)) == 0) {
            return presk_fail(e, PRESK_E_INPUT, NULL, "byte %zu of the text is not UTF-8", (size_t)(p - begin));
        }
        p += found;
    }
    return true;
}

bool presk_tokenizer_encode(const presk_tokenizer *t, const char *text, size_t size, bool whole, presk_ids *ids,
                            presk_error *e)
{
    if (!presk_text_check(text, size, e)) {
        return false;
    }
    const unsigned char *begin = (const unsigned char *)text;
    encoding c = {t, ids, {0}, {0}};
    bool done = (!whole || add_all(ids, t->before, t->before_count)) && (size == 0 || encode_stretch(&c, begin, begin + size, 0))
        && (!whole || add_all(ids, t->after, t->after_count));
    presk_work_free(&c.work);
    presk_bytes_free(&c.normal);
    return done || presk_fail(e, PRESK_E_INPUT, NULL, "not enough memory for the tokens of %zu bytes", size);
}

/* --- Decoding -------------------------------------------------------------------------------------------------- */

static const char REPLACEMENT[] = "\xef\xbf\xbd";

bool presk_tokenizer_decode(const presk_tokenizer *t, presk_text *text, int64_t id, presk_bytes *out)
{
    if (id < 0 || id >= t->tokens || ((t->kinds[id] & PRESK_SPECIAL) != 0 && !text->special)) {
        return true;
    }
    presk_span token = t->texts[id];
    size_t at = 0;
    while (at < token.size || text->count > 0) {
        /* The bytes that wait and the next ones, up to a whole character. */
        unsigned char next[8];
        size_t n = text->count, bad;
        memcpy(next, text->held, n);
        for (size_t i = at; n < 4 && i < token.size; i++) {
            next[n++] = (unsigned char)token.text[i];
        }
        bool cut;
        size_t size = character_at(next, next + n, &bad, &cut);
        if (cut) { /* fewer than four bytes, and the token has no more */
            memcpy(text->held, next, n);
            text->count = n;
            return true;
        }
        size_t used = size > 0 ? size : bad;
        if (!(size > 0 ? presk_bytes_add(out, (const char *)next, size) : presk_bytes_add(out, REPLACEMENT, 3))) {
            return false;
        }
        at += used - text->count; /* what waited can begin a character, so `bad` reaches to its end at least */
        text->count = 0;
    }
    return true;
}

bool presk_text_end(presk_text *text, presk_bytes *out)
{
    bool begun = text->count > 0;
    text->count = 0;
    return !begun || presk_bytes_add(out, REPLACEMENT, 3);
}

bool presk_tokenizer_stops(const presk_tokenizer *t, int64_t id)
{
    for (uint32_t i = 0; i < t->stop_count; i++) {
        if (t->stops[i] == id) {
            return true;
        }
    }
    return false;
}

int64_t presk_tokenizer_count(const presk_tokenizer *t)
{
    return t->tokens;
}

/* --- Chat ------------------------------------------------------------------------------------------------------ */

static bool put_span(presk_bytes *out, presk_span span)
{
    return presk_bytes_add(out, span.text, span.size);
}

bool presk_tokenizer_chats(const presk_tokenizer *t, presk_error *e)
{
    presk_span why = t->chat[PRESK_CHAT_MISSING];
    return (t->flags & PRESK_CHATS) != 0
        || presk_fail(e, PRESK_E_TOKENIZER, NULL, "no chat: %.*s", (int)(why.size < 400 ? why.size : 400), why.text);
}

bool presk_chat_begin(const presk_tokenizer *t, const char *system, size_t size, presk_bytes *out)
{
    return system != NULL ? presk_chat_message(t, PRESK_SYSTEM, system, size, out)
                          : put_span(out, t->chat[PRESK_CHAT_DEFAULT]);
}

/* White space at both ends goes, as Jinja's `trim` has it: Python's white space is \s and four separators of ASCII. */
static bool trimmed_away(const presk_tokenizer *t, const unsigned char *p)
{
    return (*p >= 0x1c && *p <= 0x1f) || (t->classes[presk_utf8_next(&p)] & PRESK_SPACE) != 0;
}

static presk_span trimmed(const presk_tokenizer *t, const char *text, size_t size)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + size;
    while (p < end && trimmed_away(t, p)) {
        (void)presk_utf8_next(&p);
    }
    while (end > p) {
        const unsigned char *last = end - 1;
        while (last > p && (*last & 0xc0) == 0x80) {
            last--;
        }
        if (!trimmed_away(t, last)) {
            break;
        }
        end = last;
    }
    return (presk_span){(const char *)p, (uint32_t)(end - p)};
}

bool presk_chat_message(const presk_tokenizer *t, presk_role role, const char *text, size_t size, presk_bytes *out)
{
    if ((t->flags & PRESK_CHAT_TRIMS) != 0 && size > 0) {
        presk_span rest = trimmed(t, text, size);
        text = rest.text;
        size = rest.size;
    }
    return put_span(out, t->chat[PRESK_CHAT_BEFORE + (int)role]) && presk_bytes_add(out, text, size)
        && put_span(out, t->chat[PRESK_CHAT_AFTER + (int)role]);
}

bool presk_chat_answer(const presk_tokenizer *t, presk_bytes *out)
{
    return put_span(out, t->chat[PRESK_CHAT_ANSWER]);
}
