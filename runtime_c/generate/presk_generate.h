/* presk_generate.h: from a prompt to a text, token by token, by a program's step; the command `generate`.
 *
 * The loop: the prompt's tokens go through the step one after the other, or a chunk of them at once; then the token that
 * is drawn from the last logits does, until the text is as long as asked, a stop token is drawn (which is no part of the
 * text), or the context is full. Token i of the text is drawn with the first uniform number of child i of the seed's key.
 */
#ifndef PRESK_GENERATE_H
#define PRESK_GENERATE_H

#include "presk_rt.h"

/* A program to the loop. `open` reads the weights and makes memory, `step` puts the logits that follow `token` at the
 * position `at` into x[0 .. vocabulary-1]; positions come in order from 0, below `context`, and may go on from an earlier
 * one. `steps`, where
 * `chunk` is not 0, does the same for that many tokens at once, the first at `at`, and may do positions again. */
typedef struct presk_model {
    const char *name;
    int64_t vocabulary, context, chunk;
    bool weights, tokenizer; /* whether it needs a file of weights; has a tokenizer */
    bool (*open)(const char *weights, presk_error *e);
    void (*step)(int64_t token, int64_t at, double *x);
    void (*steps)(const int64_t *tokens, int64_t at, double *x);
    void (*close)(void);
} presk_model;

/* The command: the exit status. */
int presk_generate(const presk_model *model, int argc, char **argv);

#endif /* PRESK_GENERATE_H */
