/* presk_generate_options.c: the arguments of the command `generate`. */

#include "presk_generate_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USAGE_CODE 1000

void presk_options_usage(const char *program, const presk_model *model)
{
    printf("usage: %s %s%s [options]\n", program, model->weights ? "-w weights.safetensors " : "",
           model->tokenizer ? "-p TEXT" : "--ids '1 2 3'");
    printf("  %s: %lld tokens of context, %lld in the vocabulary\n", model->name, (long long)model->context,
           (long long)model->vocabulary);
    if (model->tokenizer) {
        fputs("  -p TEXT             the prompt\n"
              "  -f FILE             the prompt is the content of a file; - is the standard input\n"
              "  --chat              the prompt is a user's message, written as the checkpoint's chats are; without\n"
              "                      one, every line of the standard input is a message of one conversation\n"
              "  --messages FILE     the prompt is a conversation, [{\"role\": \"user\", \"content\": \"Hi\"}, ...]\n"
              "  --system TEXT       the chat's system message\n"
              "  --tokenizer FILE    [default: tokenizer.bin]\n",
              stdout);
    }
    fputs("  --ids LIST          the prompt as token ids\n"
          "  -n N                tokens at most [default: 100]\n"
          "  -s SEED             [default: 1]\n"
          "  -t TEMPERATURE      0 takes the likeliest token [default: 1]\n"
          "  --top-k N, --top-p P, --min-p P, --repeat-penalty R\n"
          "  --json              one document instead of the text as it comes\n"
          "  --time              tokens per second, on the standard error\n",
          stdout);
}

static bool read_number(const char *text, double *value, const char *option, presk_error *e)
{
    char *end = NULL;
    *value = strtod(text, &end);
    /* decimal, infinity or NaN: neither white space before it nor hexadecimal */
    const bool plain = strchr("+-.0123456789iInN", *text) != NULL && strpbrk(text, "xX(") == NULL;
    return (plain && end != text && *end == '\0') || presk_fail(e, PRESK_E_INPUT, option, "is no number");
}

static bool read_natural(const char *text, uint64_t most, uint64_t *value, const char *option, presk_error *e)
{
    char *end = NULL;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || n > most) {
        return presk_fail(e, PRESK_E_INPUT, option, "must be a whole number from 0 to %llu", (unsigned long long)most);
    }
    *value = n;
    return true;
}

/* An option with a number. */
static bool read_value(presk_options *o, const char *option, const char *text, presk_error *e)
{
    uint64_t natural = 0;
    if (strcmp(option, "-s") == 0) {
        return read_natural(text, UINT64_MAX, &o->seed, option, e);
    }
    if (strcmp(option, "-n") == 0 || strcmp(option, "--top-k") == 0) {
        int64_t *target = option[1] == 'n' ? &o->most : &o->sampling.top_k;
        bool good = read_natural(text, INT64_MAX, &natural, option, e);
        *target = (int64_t)natural;
        return good;
    }
    double *target = strcmp(option, "-t") == 0 ? &o->sampling.temperature
        : strcmp(option, "--top-p") == 0       ? &o->sampling.top_p
        : strcmp(option, "--min-p") == 0       ? &o->sampling.min_p
                                               : &o->sampling.penalty;
    return read_number(text, target, option, e);
}

static const char **text_option(presk_options *o, const presk_model *model, const char *option)
{
    if (model->weights && strcmp(option, "-w") == 0) {
        return &o->weights;
    }
    if (strcmp(option, "--ids") == 0) {
        return &o->ids;
    }
    if (!model->tokenizer) {
        return NULL;
    }
    return strcmp(option, "-p") == 0           ? &o->text
        : strcmp(option, "-f") == 0            ? &o->file
        : strcmp(option, "--system") == 0      ? &o->system
        : strcmp(option, "--messages") == 0    ? &o->conversation
        : strcmp(option, "--tokenizer") == 0   ? &o->tokenizer
                                               : NULL;
}

static bool is_numeric(const char *option)
{
    static const char *const names[] = {"-s", "-n", "-t", "--top-k", "--top-p", "--min-p", "--repeat-penalty"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(option, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool *flag_option(presk_options *o, const presk_model *model, const char *option)
{
    if (model->tokenizer && strcmp(option, "--chat") == 0) {
        return &o->chat;
    }
    return strcmp(option, "--json") == 0                                   ? &o->json
        : strcmp(option, "--time") == 0                                    ? &o->time
        : strcmp(option, "-h") == 0 || strcmp(option, "--help") == 0       ? &o->help
                                                                           : NULL;
}

bool presk_options_read(presk_options *o, const presk_model *model, int argc, char **argv, presk_error *e)
{
    *o = (presk_options){.seed = 1, .most = 100, .sampling = {1, 1, 0, 1, 0}};
    for (int i = 1; i < argc; i++) {
        bool *flag = flag_option(o, model, argv[i]);
        if (flag != NULL) {
            *flag = true;
            continue;
        }
        const char **text = text_option(o, model, argv[i]);
        if (text == NULL && !is_numeric(argv[i])) {
            return presk_fail(e, USAGE_CODE, argv[i], "is no option; -h says which there are");
        }
        if (i + 1 == argc) {
            return presk_fail(e, USAGE_CODE, argv[i], "needs a value");
        }
        if (text != NULL) {
            *text = argv[++i];
        } else if (!read_value(o, argv[i], argv[i + 1], e)) {
            return false;
        } else {
            i++;
        }
    }
    if (o->help) {
        return true;
    }
    if (model->weights && o->weights == NULL) {
        return presk_fail(e, USAGE_CODE, "-w", "give the weights; -h says more");
    }
    const int prompts = (o->text != NULL) + (o->file != NULL) + (o->ids != NULL) + (o->conversation != NULL);
    if (prompts > 1 || (prompts == 0 && !o->chat)) {
        return presk_fail(e, USAGE_CODE, NULL, "give one prompt, as %s; -h says more",
                          model->tokenizer ? "-p, -f, --messages or --ids" : "--ids");
    }
    if (o->system != NULL && (!o->chat || o->conversation != NULL)) {
        return presk_fail(e, USAGE_CODE, "--system", "is for --chat, without --messages");
    }
    if (o->chat && o->ids != NULL) {
        return presk_fail(e, USAGE_CODE, "--chat", "is for a prompt of text");
    }
    o->turns = prompts == 0;
    o->chat = o->chat || o->conversation != NULL;
    return presk_sampling_check(&o->sampling, e);
}
