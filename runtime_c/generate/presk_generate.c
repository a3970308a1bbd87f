/* presk_generate.c: the loop of the command `generate`; presk_db/conformance/generate.py is its twin. */

#include "presk_generate_private.h"
#include "presk_key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One run of the command. `seen` holds the prompt's tokens, then those of the text. */
typedef struct state {
    const presk_model *model;
    presk_options options;
    presk_tokenizer *tokenizer; /* NULL where there is none */
    presk_ids seen;
    size_t prompt;         /* tokens of it */
    presk_bytes asked;     /* the prompt as text */
    presk_bytes written;   /* the text */
    presk_text text;
    int64_t choices;       /* logits that can be drawn: padded rows of the vocabulary cannot */
    double *logits;
    int64_t *work;
    const char *finish;
    double prompt_seconds, text_seconds;
} state;

static double now(void)
{
    struct timespec t = {0};
    (void)timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool no_memory(presk_error *e)
{
    return presk_fail(e, PRESK_E_INPUT, NULL, "no memory");
}

/* --- The prompt ------------------------------------------------------------------------------------------------ */

static bool read_file(const char *path, presk_bytes *out, presk_error *e)
{
    const bool opened = strcmp(path, "-") != 0;
    FILE *file = opened ? fopen(path, "rb") : stdin;
    if (file == NULL) {
        return presk_fail(e, PRESK_E_UNREADABLE, path, "cannot be opened");
    }
    char block[4096];
    bool good = true;
    for (size_t n; good && (n = fread(block, 1, sizeof block, file)) > 0;) {
        good = presk_bytes_add(out, block, n) || no_memory(e);
    }
    if (good && ferror(file)) {
        good = presk_fail(e, PRESK_E_UNREADABLE, path, "cannot be read");
    }
    if (opened) {
        fclose(file);
    }
    return good;
}

/* Numbers with white space or commas between them. */
static bool read_ids(const char *list, const presk_model *model, presk_ids *ids, presk_error *e)
{
    const char *at = list;
    while (*(at += strspn(at, " \t\r\n,")) != '\0') {
        size_t digits = strspn(at, "0123456789");
        if (digits == 0 || digits > 18) {
            return presk_fail(e, PRESK_E_INPUT, "--ids", "token ids are whole numbers, such as 1 2 3");
        }
        int64_t id = (int64_t)strtoll(at, NULL, 10);
        if (id >= model->vocabulary) {
            return presk_fail(e, PRESK_E_RANGE, "--ids", "%lld must be in [0, %lld)", (long long)id,
                              (long long)model->vocabulary);
        }
        if (!presk_ids_add(ids, id)) {
            return no_memory(e);
        }
        at += digits;
    }
    return true;
}

static bool encode(state *s, presk_error *e)
{
    const presk_bytes *text = &s->asked;
    if (!s->options.chat) {
        return presk_tokenizer_encode(s->tokenizer, text->bytes, text->count, true, &s->seen, e);
    }
    presk_bytes chat = {0};
    const char *system = s->options.system;
    const size_t size = system == NULL ? 0 : strlen(system);
    bool good = presk_tokenizer_chats(s->tokenizer, e) && presk_text_check(system, size, e)
        && presk_text_check(text->bytes, text->count, e);
    if (good) {
        good = (presk_chat_begin(s->tokenizer, system, size, &chat)
                && presk_chat_message(s->tokenizer, PRESK_USER, text->bytes, text->count, &chat)
                && presk_chat_answer(s->tokenizer, &chat))
            || no_memory(e);
    }
    good = good && presk_tokenizer_encode(s->tokenizer, chat.bytes, chat.count, false, &s->seen, e);
    presk_bytes_free(&chat);
    return good;
}

static bool read_prompt(state *s, presk_error *e)
{
    const presk_options *o = &s->options;
    bool good;
    if (o->ids != NULL) {
        good = read_ids(o->ids, s->model, &s->seen, e);
    } else {
        good = o->file != NULL ? read_file(o->file, &s->asked, e)
                               : presk_bytes_add(&s->asked, o->text, strlen(o->text)) || no_memory(e);
        good = good && encode(s, e);
    }
    s->prompt = s->seen.count;
    if (good && s->prompt == 0) {
        return presk_fail(e, PRESK_E_INPUT, NULL, "the prompt is empty: it has no token");
    }
    if (good && (int64_t)s->prompt > s->model->context) {
        return presk_fail(e, PRESK_E_INPUT, NULL, "the prompt has %lld tokens, the context %lld",
                          (long long)s->prompt, (long long)s->model->context);
    }
    return good;
}

static bool open_tokenizer(state *s, presk_error *e)
{
    const char *path = s->options.tokenizer != NULL ? s->options.tokenizer : "tokenizer.bin";
    if (!s->model->tokenizer) {
        return true;
    }
    s->tokenizer = presk_tokenizer_open(path, e);
    if (s->tokenizer == NULL) {
        return false;
    }
    int64_t count = presk_tokenizer_count(s->tokenizer);
    if (count > s->model->vocabulary) {
        return presk_fail(e, PRESK_E_TOKENIZER, path, "has %lld tokens, the model %lld: it is not the model's",
                          (long long)count, (long long)s->model->vocabulary);
    }
    s->choices = count;
    return true;
}

/* --- The text -------------------------------------------------------------------------------------------------- */

static bool shown(state *s, size_t from, presk_error *e)
{
    const presk_options *o = &s->options;
    if (o->json || s->written.count == from) {
        return true;
    }
    bool good = fwrite(s->written.bytes + from, 1, s->written.count - from, stdout) == s->written.count - from;
    return (good && fflush(stdout) == 0) || presk_fail(e, PRESK_E_UNWRITABLE, NULL, "the text cannot be written");
}

/* Adds a token to the text, and writes what it completes. */
static bool add_token(state *s, int64_t token, presk_error *e)
{
    const size_t from = s->written.count;
    char number[24];
    bool good = presk_ids_add(&s->seen, token);
    if (s->tokenizer != NULL) {
        good = good && presk_tokenizer_decode(s->tokenizer, &s->text, token, &s->written);
    } else {
        int size = snprintf(number, sizeof number, s->seen.count == s->prompt + 1 ? "%lld" : " %lld", (long long)token);
        good = good && presk_bytes_add(&s->written, number, (size_t)size);
    }
    return good ? shown(s, from, e) : no_memory(e);
}

/* The token that follows: -1 with an error where none can be drawn. */
static int64_t drawn(state *s, presk_error *e)
{
    const presk_sampling *how = &s->options.sampling;
    const presk_key seed = presk_key_seed(s->options.seed);
    const presk_key key = presk_key_child(&seed, s->seen.count - s->prompt);
    if (how->penalty != 1) {
        presk_penalize(s->logits, s->choices, s->seen.ids, (int64_t)s->seen.count, how->penalty, s->work);
    }
    int64_t token = presk_sample(how, presk_key_uniform(&key, 0), s->logits, s->choices, s->work);
    if (token < 0) {
        presk_error_set(e, PRESK_E_INPUT, NULL, "no token can be drawn at position %lld: a logit is not a number",
                        (long long)s->seen.count);
    }
    return token;
}

/* The prompt's tokens, in chunks where it has one at least: the last chunk ends with the prompt. */
static void read_tokens(state *s)
{
    const size_t chunk = (size_t)s->model->chunk;
    size_t done = 0;
    while (chunk > 0 && chunk <= s->prompt && done < s->prompt) {
        const size_t at = done + chunk <= s->prompt ? done : s->prompt - chunk;
        s->model->steps(s->seen.ids + at, (int64_t)at, s->logits);
        done = at + chunk;
    }
    for (; done < s->prompt; done++) {
        s->model->step(s->seen.ids[done], (int64_t)done, s->logits);
    }
}

static bool generate(state *s, presk_error *e)
{
    const double begin = now();
    read_tokens(s);
    const double middle = now();
    s->finish = "length";
    for (int64_t made = 0; made < s->options.most; made++) {
        const int64_t token = drawn(s, e);
        if (token < 0) {
            return false;
        }
        if (s->tokenizer != NULL && presk_tokenizer_stops(s->tokenizer, token)) {
            s->finish = "stop";
            break;
        }
        if (!add_token(s, token, e)) {
            return false;
        }
        if (made + 1 == s->options.most) {
            break;
        }
        if ((int64_t)s->seen.count > s->model->context) {
            s->finish = "context";
            break;
        }
        s->model->step(token, (int64_t)s->seen.count - 1, s->logits);
    }
    s->prompt_seconds = middle - begin;
    s->text_seconds = now() - middle;
    const size_t from = s->written.count;
    return s->tokenizer == NULL || ((presk_text_end(&s->text, &s->written) || no_memory(e)) && shown(s, from, e));
}

/* --- The document ---------------------------------------------------------------------------------------------- */

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

static void print_document(const state *s)
{
    fputs("{\"prompt\": ", stdout);
    if (s->options.ids == NULL) {
        print_string(&s->asked);
    } else {
        fputs("null", stdout);
    }
    fputs(", \"prompt_tokens\": ", stdout);
    print_ids(s->seen.ids, s->prompt);
    fputs(", \"tokens\": ", stdout);
    print_ids(s->seen.ids + s->prompt, s->seen.count - s->prompt);
    fputs(", \"text\": ", stdout);
    if (s->tokenizer != NULL) {
        print_string(&s->written);
    } else {
        fputs("null", stdout);
    }
    printf(", \"seed\": %llu, \"finish\": \"%s\"}\n", (unsigned long long)s->options.seed, s->finish);
}

static bool run(state *s, presk_error *e)
{
    const char *reason = presk_rt_probe();
    if (reason != NULL) {
        return presk_fail(e, PRESK_E_FLOATS, NULL, "%s", reason);
    }
    s->choices = s->model->vocabulary;
    if (!open_tokenizer(s, e) || !read_prompt(s, e)) {
        return false;
    }
    s->logits = presk_alloc((size_t)s->model->vocabulary * sizeof *s->logits);
    s->work = presk_alloc((size_t)s->model->vocabulary * sizeof *s->work);
    if (s->logits == NULL || s->work == NULL) {
        return no_memory(e);
    }
    if (!s->model->open(s->options.weights, e) || !generate(s, e)) {
        return false;
    }
    if (s->options.json) {
        print_document(s);
    } else {
        putchar('\n');
    }
    if (s->options.time && fflush(stdout) == 0) { /* the text first, where both go to one terminal */
        const size_t made = s->seen.count - s->prompt;
        fprintf(stderr, "prompt: %zu tokens in %.3f s; text: %zu tokens in %.3f s, %.1f a second\n", s->prompt,
                s->prompt_seconds, made, s->text_seconds, s->text_seconds > 0 ? (double)made / s->text_seconds : 0.0);
    }
    return fflush(stdout) == 0 || presk_fail(e, PRESK_E_UNWRITABLE, NULL, "the text cannot be written");
}

int presk_generate(const presk_model *model, int argc, char **argv)
{
    const char *program = argc > 0 ? argv[0] : "generate";
    presk_error e = {0};
    state s = {.model = model};
    if (!presk_options_read(&s.options, model, argc, argv, &e)) {
        presk_error_print(program, &e);
        return 1;
    }
    if (s.options.help) {
        presk_options_usage(program, model);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    bool good = run(&s, &e);
    if (!good) {
        fflush(stdout);
        presk_error_print(program, &e);
    }
    model->close();
    presk_free(s.logits);
    presk_free(s.work);
    presk_tokenizer_close(s.tokenizer);
    presk_ids_free(&s.seen);
    presk_bytes_free(&s.asked);
    presk_bytes_free(&s.written);
    return good ? 0 : 1;
}
