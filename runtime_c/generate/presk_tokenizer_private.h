/* presk_tokenizer_private.h: what the files of the tokenizer share; no program includes it. */
#ifndef PRESK_TOKENIZER_PRIVATE_H
#define PRESK_TOKENIZER_PRIVATE_H

#include "presk_tokenizer.h"

#define PRESK_CODE_POINTS 0x110000u
#define PRESK_NO_TOKEN UINT32_MAX

enum { PRESK_LETTER = 1, PRESK_NUMBER = 2, PRESK_SPACE = 4, PRESK_DIGIT = 8, PRESK_UNSTABLE = 16 }; /* classes */
enum { PRESK_GPT2 = 1, PRESK_SMOLLM = 2, PRESK_LLAMA3 = 3, PRESK_QWEN2 = 4 };                     /* pre-tokenizers */
enum { PRESK_NFC = 1, PRESK_WHOLE_WORDS = 2, PRESK_CHATS = 4, PRESK_CHAT_TRIMS = 8 };             /* flags of a file */
enum { PRESK_USED = 1, PRESK_WORD = 2, PRESK_SPECIAL = 4 };                                       /* kinds of a token */
enum {                                                                                            /* texts of a chat */
    PRESK_CHAT_MISSING, /* why there is no chat */
    PRESK_CHAT_BEFORE, /* of the system, the user, the assistant */
    PRESK_CHAT_AFTER = PRESK_CHAT_BEFORE + 3,
    PRESK_CHAT_DEFAULT = PRESK_CHAT_AFTER + 3, /* what stands there without a system message */
    PRESK_CHAT_ANSWER,
    PRESK_CHAT_TEXTS
};

/* A pair of tokens and what they merge to; the lower rank goes first. A slot of a hash table: free if left and right
 * are PRESK_NO_TOKEN. */
typedef struct presk_merge {
    uint32_t left, right, rank, result;
} presk_merge;

typedef struct presk_span {
    const char *text;
    uint32_t size;
} presk_span;

/* An added token; the added tokens of a set are sorted bytewise by their texts. */
typedef struct presk_added {
    presk_span text;
    uint32_t id;
} presk_added;

struct presk_tokenizer {
    unsigned char *file;
    uint32_t pre_tokenizer, flags, tokens;
    uint32_t byte_tokens[256]; /* the token of each single byte, or PRESK_NO_TOKEN */
    presk_span *texts;         /* (tokens): the bytes that each token stands for */
    const unsigned char *kinds; /* (tokens) */
    presk_merge *merges;       /* a hash table of merge_mask + 1 slots */
    uint32_t merge_mask;
    uint32_t *words; /* a hash table of word_mask + 1 tokens by their bytes; NULL unless PRESK_WHOLE_WORDS */
    uint32_t word_mask;
    presk_added *added[2]; /* found before and after the text is normalized */
    uint32_t added_counts[2];
    uint32_t *before, *after, *stops; /* ids around a text, and at which an answer ends */
    uint32_t before_count, after_count, stop_count;
    presk_span chat[PRESK_CHAT_TEXTS];
    unsigned char *classes; /* (PRESK_CODE_POINTS) */
};

/* A place in a text that is cut into pieces. `limit` is where a digit that stands alone ends the stretch. */
typedef struct presk_splitter {
    const presk_tokenizer *tokenizer;
    const unsigned char *at, *end, *limit;
} presk_splitter;

/* What the merging of long pieces works in. Begin with {0}; give back by presk_work_free. */
typedef struct presk_work {
    void *memory;
    size_t capacity;
} presk_work;

void presk_work_free(presk_work *work);

/* The end of the piece that begins at s->at, which moves there. Pre: s->at < s->end, the text is UTF-8. */
const unsigned char *presk_next_piece(presk_splitter *s);

/* Adds the tokens of one piece. False where there is no memory. */
bool presk_merge_piece(const presk_tokenizer *t, const unsigned char *piece, size_t size, presk_work *work,
                       presk_ids *ids);

/* True if NFC may change the UTF-8 text. */
bool presk_nfc_needed(const presk_tokenizer *t, const unsigned char *text, size_t size);

/* Adds the UTF-8 text in normal form C to *out. False where there is no memory. */
bool presk_nfc(const presk_tokenizer *t, const unsigned char *text, size_t size, presk_bytes *out);

/* Sets PRESK_UNSTABLE in the classes of the code points around which NFC can change a text. */
void presk_nfc_classes(unsigned char *classes);


static inline uint32_t presk_merge_slot(const presk_tokenizer *t, uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32) & t->merge_mask;
}

static inline uint32_t presk_word_slot(const presk_tokenizer *t, const char *text, size_t size)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++) {
        h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    }
    return (uint32_t)(h ^ h >> 32) & t->word_mask;
}

/* The code point at *at, which moves behind it. Pre: *at is at the beginning of a character of UTF-8 text. */
static inline uint32_t presk_utf8_next(const unsigned char **at)
{
    const unsigned char *p = *at;
    if (p[0] < 0x80) {
        *at = p + 1;
        return p[0];
    }
    if (p[0] < 0xe0) {
        *at = p + 2;
        return (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
    }
    if (p[0] < 0xf0) {
        *at = p + 3;
        return (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    }
    *at = p + 4;
    return (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
}

#endif /* PRESK_TOKENIZER_PRIVATE_H */
