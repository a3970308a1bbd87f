/* presk_generate_private.h: what the command's options say. */
#ifndef PRESK_GENERATE_PRIVATE_H
#define PRESK_GENERATE_PRIVATE_H

#include "presk_generate.h"
#include "presk_sample.h"
#include "presk_tokenizer.h"

typedef struct presk_options {
    const char *weights, *tokenizer;      /* files */
    const char *text, *file, *ids;        /* the prompt: exactly one of these; `file` may be "-" */
    const char *system;                   /* the system message of a chat, or NULL */
    bool chat, json, time, help;
    uint64_t seed;
    int64_t most; /* tokens */
    presk_sampling sampling;
} presk_options;

/* Reads the arguments. E1000 for an unknown or incomplete one, E1205 for a bad value. */
bool presk_options_read(presk_options *o, const presk_model *model, int argc, char **argv, presk_error *e);
void presk_options_usage(const char *program, const presk_model *model);

#endif /* PRESK_GENERATE_PRIVATE_H */
