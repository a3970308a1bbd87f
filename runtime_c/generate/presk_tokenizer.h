/* presk_tokenizer.h: byte-level BPE, from text to token ids and back, equal to the `tokenizers` library.
 *
 * The data come from a file that `presk emit` writes (docs/generation.md describes it); the pre-tokenizers of the GPT-2,
 * SmolLM2, Llama 3 and Qwen2 families are code. Text is UTF-8: bytes that are not are an error that names the first of
 * them. Time is O(n log n) in the text's bytes, whatever the text.
 */
#ifndef PRESK_TOKENIZER_H
#define PRESK_TOKENIZER_H

#include "presk_rt.h"

typedef struct presk_tokenizer presk_tokenizer;

/* Token ids that grow at the end. Begin with {0}; give back by presk_ids_free. */
typedef struct presk_ids {
    int64_t *ids;
    size_t count, capacity;
} presk_ids;

/* Bytes that grow at the end, without a NUL behind them. Begin with {0}; give back by presk_bytes_free. */
typedef struct presk_bytes {
    char *bytes;
    size_t count, capacity;
} presk_bytes;

/* A text that comes token by token: the first bytes of a character wait in it for the others. Begin with {0}. */
typedef struct presk_text {
    unsigned char held[4];
    size_t count;
    bool special; /* special tokens are written too */
} presk_text;

void presk_ids_free(presk_ids *ids);
void presk_bytes_free(presk_bytes *bytes);
bool presk_ids_add(presk_ids *ids, int64_t id); /* false where there is no memory */
bool presk_bytes_add(presk_bytes *bytes, const char *more, size_t count);

/* The tokenizer in a file. E1101 where it cannot be read, E1109 where it breaks the format. NULL on failure. */
presk_tokenizer *presk_tokenizer_open(const char *path, presk_error *e);
/* The same from a file's bytes, which are copied; `shown` names them in errors. */
presk_tokenizer *presk_tokenizer_new(const void *bytes, size_t size, const char *shown, presk_error *e);
void presk_tokenizer_close(presk_tokenizer *t); /* NULL is allowed */

/* Ids are in [0, count): rows of a model's vocabulary from there on are padding, and no text has them. */
int64_t presk_tokenizer_count(const presk_tokenizer *t);

/* False, with E1205, for a byte that is not UTF-8, or a text of 2^31 bytes or more. */
bool presk_text_check(const char *text, size_t size, presk_error *e);

/* Adds the tokens of text[0 .. size-1] to *ids; added tokens in the text become themselves. `whole` says that the text
 * begins and ends here: it gets what the tokenizer puts around a text (such as Llama 3's <|begin_of_text|>).
 * E1205 as presk_text_check has it. */
bool presk_tokenizer_encode(const presk_tokenizer *t, const char *text, size_t size, bool whole, presk_ids *ids,
                            presk_error *e);

/* Adds what token `id` completes of the text to *out: whole characters only. Bytes that can be no part of a character
 * give U+FFFD. An id without text, or of a special token unless text->special, gives nothing. False without memory. */
bool presk_tokenizer_decode(const presk_tokenizer *t, presk_text *text, int64_t id, presk_bytes *out);

/* The end of the text: a character that was begun gives U+FFFD. False without memory. */
bool presk_text_end(presk_text *text, presk_bytes *out);

/* True if the checkpoint ends a text with this token. */
bool presk_tokenizer_stops(const presk_tokenizer *t, int64_t id);

/* --- Chat ------------------------------------------------------------------------------------------------------ */

typedef enum presk_role { PRESK_SYSTEM, PRESK_USER, PRESK_ASSISTANT } presk_role;

/* True if the checkpoint has a chat template that could be written down; else E1109, with the reason. */
bool presk_tokenizer_chats(const presk_tokenizer *t, presk_error *e);

/* Adds to *out what stands before the first message; `system` is NULL where the user gives no system message, and then
 * the template's own is written, if it has one. Pre: the message is UTF-8, as presk_text_check says. */
bool presk_chat_begin(const presk_tokenizer *t, const char *system, size_t size, presk_bytes *out);

/* Adds one message as the template writes it. Pre: the text is UTF-8. */
bool presk_chat_message(const presk_tokenizer *t, presk_role role, const char *text, size_t size, presk_bytes *out);

/* Adds what makes the model answer. The whole text is to be encoded with `whole` false. */
bool presk_chat_answer(const presk_tokenizer *t, presk_bytes *out);

#endif /* PRESK_TOKENIZER_H */
