/* presk_tokenizer_split.c: how a text is cut into the pieces within which tokens merge.
 *
 * Each function is one regular expression of the families, its alternatives tried in order:
 *
 *   GPT-2, and SmolLM2 between digits that stand alone:
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *   Llama 3, and Qwen2 with one number at a time:
 *     (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 */

#include "presk_tokenizer_private.h"

typedef const unsigned char *place;

enum { LONG_S = 0x17f }; /* which (?i:s) matches too */

static unsigned class_at(const presk_splitter *s, place p)
{
    return s->tokenizer->classes[presk_utf8_next(&p)];
}

/* The end of the longest run from p of characters that have one of the bits; with bits 0, of characters that are
 * neither letters, numbers nor white space. */
static place run_of(const presk_splitter *s, place p, unsigned bits)
{
    const unsigned all = PRESK_LETTER | PRESK_NUMBER | PRESK_SPACE;
    while (p < s->limit) {
        place next = p;
        unsigned found = s->tokenizer->classes[presk_utf8_next(&next)] & all;
        if (bits == 0 ? found != 0 : (found & bits) == 0) {
            break;
        }
        p = next;
    }
    return p;
}

static unsigned char lower(unsigned char c, bool fold)
{
    return fold && c >= 'A' && c <= 'Z' ? (unsigned char)(c + 32) : c;
}

/* The end of 's, 't, 're, 've, 'm, 'll or 'd at p; p where there is none. */
static place contraction(const presk_splitter *s, place p, bool fold)
{
    size_t left = (size_t)(s->limit - p);
    if (*p != '\'' || left < 2) {
        return p;
    }
    unsigned char a = lower(p[1], fold), b = left > 2 ? lower(p[2], fold) : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') {
        return p + 2;
    }
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) {
        return p + 3;
    }
    if (fold && p[1] >= 0x80) {
        place next = p + 1;
        if (presk_utf8_next(&next) == LONG_S) {
            return next;
        }
    }
    return p;
}

/* \s+(?!\S)|\s+ at white space p: all of it at the end of the text, else all but the last character, or that alone. */
static place spaces(const presk_splitter *s, place p)
{
    place end = run_of(s, p, PRESK_SPACE);
    if (end == s->limit) {
        return end;
    }
    place last = end - 1;
    while ((*last & 0xc0) == 0x80) {
        last--;
    }
    return last > p ? last : end;
}

static place gpt2_piece(const presk_splitter *s, place p)
{
    place end = contraction(s, p, false);
    if (end > p) {
        return end;
    }
    place q = *p == ' ' && p + 1 < s->limit ? p + 1 : p;
    unsigned c = class_at(s, q) & (PRESK_LETTER | PRESK_NUMBER | PRESK_SPACE);
    return c == PRESK_SPACE ? spaces(s, p) : run_of(s, q, c);
}

/* \s*[\r\n]+ at white space p: to the last line end of the run; p where it has none. */
static place lines(const presk_splitter *s, place p)
{
    place end = run_of(s, p, PRESK_SPACE);
    while (end > p && end[-1] != '\r' && end[-1] != '\n') {
        end--;
    }
    return end;
}

static place llama3_piece(const presk_splitter *s, place p, int numbers)
{
    place end = contraction(s, p, true);
    if (end > p) {
        return end;
    }
    place next = p;
    unsigned c = s->tokenizer->classes[presk_utf8_next(&next)] & (PRESK_LETTER | PRESK_NUMBER | PRESK_SPACE);
    if (c == PRESK_LETTER) {
        return run_of(s, next, PRESK_LETTER);
    }
    if (c == PRESK_NUMBER) {
        for (int n = 1; n < numbers && next < s->limit && (class_at(s, next) & PRESK_NUMBER) != 0; n++) {
            (void)presk_utf8_next(&next);
        }
        return next;
    }
    if (*p != '\r' && *p != '\n' && next < s->limit && (class_at(s, next) & PRESK_LETTER) != 0) {
        return run_of(s, next, PRESK_LETTER);
    }
    place q = *p == ' ' && p + 1 < s->limit ? p + 1 : p;
    end = run_of(s, q, 0);
    if (end > q) {
        while (end < s->limit && (*end == '\r' || *end == '\n')) {
            end++;
        }
        return end;
    }
    end = lines(s, p);
    return end > p ? end : spaces(s, p);
}

/* A digit alone, else the GPT-2 piece of the stretch up to the next digit, which is where that expression's text ends. */
static place smollm_piece(presk_splitter *s, place p)
{
    if (s->limit == NULL || p >= s->limit) {
        place next = p;
        if ((s->tokenizer->classes[presk_utf8_next(&next)] & PRESK_DIGIT) != 0) {
            s->limit = next;
            return next;
        }
        while (next < s->end && (class_at(s, next) & PRESK_DIGIT) == 0) {
            (void)presk_utf8_next(&next);
        }
        s->limit = next;
    }
    return gpt2_piece(s, p);
}

const unsigned char *presk_next_piece(presk_splitter *s)
{
    place p = s->at, end;
    switch (s->tokenizer->pre_tokenizer) {
    case PRESK_SMOLLM:
        end = smollm_piece(s, p);
        break;
    case PRESK_LLAMA3:
        s->limit = s->end;
        end = llama3_piece(s, p, 3);
        break;
    case PRESK_QWEN2:
        s->limit = s->end;
        end = llama3_piece(s, p, 1);
        break;
    default:
        s->limit = s->end;
        end = gpt2_piece(s, p);
        break;
    }
    s->at = end;
    return end;
}
