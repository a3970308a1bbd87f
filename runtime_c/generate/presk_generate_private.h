/* presk_generate_private.h: what the command's options say, and one run of it. */
#ifndef PRESK_GENERATE_PRIVATE_H
#define PRESK_GENERATE_PRIVATE_H

#include "presk_chat.h"
#include "presk_generate.h"
#include "presk_sample.h"

typedef struct presk_options {
    const char *weights, *tokenizer;              /* files */
    const char *text, *file, *ids, *conversation; /* the prompt: at most one of these; files may be "-" */
    const char *system;                           /* the system message of a chat, or NULL */
    bool chat, turns, json, time, help;           /* turns: the prompts are the lines of the standard input */
    uint64_t seed;
    int64_t most; /* tokens */
    presk_sampling sampling;
} presk_options;

/* One run of the command: a prompt and its text, or several, one after the other. */
typedef struct presk_run {
    const presk_model *model;
    presk_options options;
    presk_tokenizer *tokenizer; /* NULL where there is none */
    presk_messages messages;    /* of a chat: all of them, the last one the user's */
    presk_bytes asked;          /* the prompt as text; of a chat, the user's message */
    presk_ids seen;             /* the prompt's tokens, then those of the text */
    size_t prompt;              /* tokens of it */
    presk_ids held;             /* the tokens of the positions that the caches hold */
    presk_bytes written;        /* the text */
    presk_text text;
    int64_t choices; /* logits that can be drawn: padded rows of the vocabulary cannot */
    double *logits;
    int64_t *work;
    const char *finish;
    double prompt_seconds, text_seconds;
} presk_run;

/* Reads the arguments. E1000 for an unknown or incomplete one, E1205 for a bad value. */
bool presk_options_read(presk_options *o, const presk_model *model, int argc, char **argv, presk_error *e);
void presk_options_usage(const char *program, const presk_model *model);

/* Reads the next prompt into asked, messages and seen; *there is false where the lines are at their end. E1101, E1204,
 * E1205 where it is none, and E1109 where there is no chat. */
bool presk_prompt_read(presk_run *r, bool *there, presk_error *e);

/* Prints the run's JSON document, a line. */
void presk_document_print(const presk_run *r);

#endif /* PRESK_GENERATE_PRIVATE_H */
