/* presk_generate.c: the loop of the command `generate`; presk_db/conformance/generate.py is its twin. */

#include "presk_generate_private.h"
#include "presk_key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

static bool open_tokenizer(presk_run *r, presk_error *e)
{
    const char *path = r->options.tokenizer != NULL ? r->options.tokenizer : "tokenizer.bin";
    if (!r->model->tokenizer) {
        return true;
    }
    r->tokenizer = presk_tokenizer_open(path, e);
    if (r->tokenizer == NULL) {
        return false;
    }
    int64_t count = presk_tokenizer_count(r->tokenizer);
    if (count > r->model->vocabulary) {
        return presk_fail(e, PRESK_E_TOKENIZER, path, "has %lld tokens, the model %lld: it is not the model's",
                          (long long)count, (long long)r->model->vocabulary);
    }
    r->choices = count;
    return true;
}

/* --- The text -------------------------------------------------------------------------------------------------- */

static bool shown(presk_run *r, size_t from, presk_error *e)
{
    const presk_options *o = &r->options;
    if (o->json || r->written.count == from) {
        return true;
    }
    bool good = fwrite(r->written.bytes + from, 1, r->written.count - from, stdout) == r->written.count - from;
    return (good && fflush(stdout) == 0) || presk_fail(e, PRESK_E_UNWRITABLE, NULL, "the text cannot be written");
}

/* Adds a token to the text, and writes what it completes. */
static bool add_token(presk_run *r, int64_t token, presk_error *e)
{
    const size_t from = r->written.count;
    char number[24];
    bool good = presk_ids_add(&r->seen, token);
    if (r->tokenizer != NULL) {
        good = good && presk_tokenizer_decode(r->tokenizer, &r->text, token, &r->written);
    } else {
        int size = snprintf(number, sizeof number, r->seen.count == r->prompt + 1 ? "%lld" : " %lld", (long long)token);
        good = good && presk_bytes_add(&r->written, number, (size_t)size);
    }
    return good ? shown(r, from, e) : no_memory(e);
}

/* The token that follows: -1 with an error where none can be drawn. */
static int64_t drawn(presk_run *r, presk_error *e)
{
    const presk_sampling *how = &r->options.sampling;
    const presk_key seed = presk_key_seed(r->options.seed);
    const presk_key key = presk_key_child(&seed, r->seen.count - r->prompt);
    if (how->penalty != 1) {
        presk_penalize(r->logits, r->choices, r->seen.ids, (int64_t)r->seen.count, how->penalty, r->work);
    }
    int64_t token = presk_sample(how, presk_key_uniform(&key, 0), r->logits, r->choices, r->work);
    if (token < 0) {
        presk_error_set(e, PRESK_E_INPUT, NULL, "no token can be drawn at position %lld: a logit is not a number",
                        (long long)r->seen.count);
    }
    return token;
}

/* How many of the prompt's first positions the caches hold already; the last one is run anyway, for its logits. */
static size_t held_of_prompt(const presk_run *r)
{
    size_t n = 0;
    while (n < r->held.count && n + 1 < r->prompt && r->held.ids[n] == r->seen.ids[n]) {
        n++;
    }
    return n;
}

/* The prompt's tokens behind those that are held, in chunks where it has one at least: the last chunk ends with it. */
static bool read_tokens(presk_run *r, presk_error *e)
{
    const size_t chunk = (size_t)r->model->chunk;
    size_t done = r->held.count = held_of_prompt(r);
    while (chunk > 0 && chunk <= r->prompt && done < r->prompt) {
        const size_t at = done + chunk <= r->prompt ? done : r->prompt - chunk;
        r->model->steps(r->seen.ids + at, (int64_t)at, r->logits);
        done = at + chunk;
    }
    for (; done < r->prompt; done++) {
        r->model->step(r->seen.ids[done], (int64_t)done, r->logits);
    }
    bool good = true;
    while (good && r->held.count < r->prompt) {
        good = presk_ids_add(&r->held, r->seen.ids[r->held.count]);
    }
    return good || no_memory(e);
}

static bool generate(presk_run *r, presk_error *e)
{
    const double begin = now();
    if (!read_tokens(r, e)) {
        return false;
    }
    const double middle = now();
    r->finish = "length";
    for (int64_t made = 0; made < r->options.most; made++) {
        const int64_t token = drawn(r, e);
        if (token < 0) {
            return false;
        }
        if (r->tokenizer != NULL && presk_tokenizer_stops(r->tokenizer, token)) {
            r->finish = "stop";
            break;
        }
        if (!add_token(r, token, e)) {
            return false;
        }
        if (made + 1 == r->options.most) {
            break;
        }
        if ((int64_t)r->seen.count > r->model->context) {
            r->finish = "context";
            break;
        }
        r->model->step(token, (int64_t)r->seen.count - 1, r->logits);
        if (!presk_ids_add(&r->held, token)) {
            return no_memory(e);
        }
    }
    r->prompt_seconds = middle - begin;
    r->text_seconds = now() - middle;
    const size_t from = r->written.count;
    return r->tokenizer == NULL || ((presk_text_end(&r->text, &r->written) || no_memory(e)) && shown(r, from, e));
}

/* The text of the prompt that was read, and what is printed of it. */
static bool answer(presk_run *r, presk_error *e)
{
    r->written.count = 0;
    r->text = (presk_text){0};
    if (!generate(r, e)) {
        return false;
    }
    if (r->options.json) {
        presk_document_print(r);
    } else {
        putchar('\n');
    }
    if (r->options.time && fflush(stdout) == 0) { /* the text first, where both go to one terminal */
        const size_t made = r->seen.count - r->prompt;
        fprintf(stderr, "prompt: %zu tokens in %.3f s; text: %zu tokens in %.3f s, %.1f a second\n", r->prompt,
                r->prompt_seconds, made, r->text_seconds, r->text_seconds > 0 ? (double)made / r->text_seconds : 0.0);
    }
    return fflush(stdout) == 0 || presk_fail(e, PRESK_E_UNWRITABLE, NULL, "the text cannot be written");
}

static bool run(presk_run *r, presk_error *e)
{
    const char *reason = presk_rt_probe();
    if (reason != NULL) {
        return presk_fail(e, PRESK_E_FLOATS, NULL, "%s", reason);
    }
    r->choices = r->model->vocabulary;
    bool there = true;
    if (!open_tokenizer(r, e) || !presk_prompt_read(r, &there, e)) {
        return false;
    }
    r->logits = presk_alloc((size_t)r->model->vocabulary * sizeof *r->logits);
    r->work = presk_alloc((size_t)r->model->vocabulary * sizeof *r->work);
    if (r->logits == NULL || r->work == NULL) {
        return no_memory(e);
    }
    if (!r->model->open(r->options.weights, e)) {
        return false;
    }
    while (there) {
        if (!answer(r, e)) {
            return false;
        }
        r->seen.count = 0;
        there = r->options.turns;
        if (there && !presk_prompt_read(r, &there, e)) {
            return false;
        }
    }
    return true;
}

int presk_generate(const presk_model *model, int argc, char **argv)
{
    const char *program = argc > 0 ? argv[0] : "generate";
    presk_error e = {0};
    presk_run r = {.model = model};
    if (!presk_options_read(&r.options, model, argc, argv, &e)) {
        presk_error_print(program, &e);
        return 1;
    }
    if (r.options.help) {
        presk_options_usage(program, model);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    bool good = run(&r, &e);
    if (!good) {
        fflush(stdout);
        presk_error_print(program, &e);
    }
    model->close();
    presk_free(r.logits);
    presk_free(r.work);
    presk_tokenizer_close(r.tokenizer);
    presk_messages_free(&r.messages);
    presk_ids_free(&r.seen);
    presk_ids_free(&r.held);
    presk_bytes_free(&r.asked);
    presk_bytes_free(&r.written);
    return good ? 0 : 1;
}
