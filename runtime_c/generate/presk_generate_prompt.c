/* presk_generate_prompt.c: from the options, or a line of the standard input, to the tokens of a prompt. */

#include "presk_generate_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool no_memory(presk_error *e)
{
    return presk_fail(e, PRESK_E_INPUT, NULL, "no memory");
}

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

/* The next line of the standard input that is not empty, without its end. Leaves out->count at 0 behind the last. */
static bool read_line(presk_bytes *out, presk_error *e)
{
    for (int c = 0; c != EOF && out->count == 0;) {
        while ((c = getchar()) != EOF && c != '\n') {
            const char one = (char)c;
            if (!presk_bytes_add(out, &one, 1)) {
                return no_memory(e);
            }
        }
        if (out->count > 0 && out->bytes[out->count - 1] == '\r') {
            out->count--;
        }
    }
    return !ferror(stdin) || presk_fail(e, PRESK_E_UNREADABLE, "-", "cannot be read");
}

/* The conversation in a file; its last message is what is asked. */
static bool read_conversation(presk_run *r, presk_error *e)
{
    presk_bytes content = {0};
    const char *path = r->options.conversation;
    bool good = read_file(path, &content, e)
        && presk_messages_read(&r->messages, content.bytes, content.count, path, e);
    if (good) {
        const presk_message *last = &r->messages.list[r->messages.count - 1];
        good = presk_bytes_add(&r->asked, r->messages.text.bytes + last->at, last->size) || no_memory(e);
    }
    presk_bytes_free(&content);
    return good;
}

/* Adds what is asked, behind the answer to what was asked before, or the system message. */
static bool add_message(presk_run *r, presk_error *e)
{
    const char *system = r->options.system;
    bool good = r->messages.count > 0 ? presk_messages_add(&r->messages, PRESK_ASSISTANT, r->written.bytes, r->written.count, e)
                                      : system == NULL
            || presk_messages_add(&r->messages, PRESK_SYSTEM, system, strlen(system), e);
    return good && presk_messages_add(&r->messages, PRESK_USER, r->asked.bytes, r->asked.count, e);
}

static bool encode(presk_run *r, presk_error *e)
{
    const presk_options *o = &r->options;
    const presk_bytes *text = &r->asked;
    if (!o->chat) {
        return presk_tokenizer_encode(r->tokenizer, text->bytes, text->count, true, &r->seen, e);
    }
    presk_bytes chat = {0};
    const bool good = (o->conversation != NULL || add_message(r, e))
        && presk_messages_write(&r->messages, r->tokenizer, &chat, e)
        && presk_tokenizer_encode(r->tokenizer, chat.bytes, chat.count, false, &r->seen, e);
    presk_bytes_free(&chat);
    return good;
}

/* The text of the prompt. */
static bool read_asked(presk_run *r, presk_error *e)
{
    const presk_options *o = &r->options;
    return o->turns                 ? read_line(&r->asked, e)
        : o->conversation != NULL   ? read_conversation(r, e)
        : o->file != NULL           ? read_file(o->file, &r->asked, e)
                                    : presk_bytes_add(&r->asked, o->text, strlen(o->text)) || no_memory(e);
}

bool presk_prompt_read(presk_run *r, bool *there, presk_error *e)
{
    const presk_options *o = &r->options;
    r->asked.count = 0;
    *there = true;
    if (o->ids != NULL ? !read_ids(o->ids, r->model, &r->seen, e)
                       : (o->chat && !presk_tokenizer_chats(r->tokenizer, e)) || !read_asked(r, e)) {
        return false;
    }
    if (o->turns && r->asked.count == 0) {
        *there = false;
        return r->messages.count > 0 || presk_fail(e, PRESK_E_INPUT, "-", "there is no message");
    }
    if (o->ids == NULL && !encode(r, e)) {
        return false;
    }
    r->prompt = r->seen.count;
    if (r->prompt == 0) {
        return presk_fail(e, PRESK_E_INPUT, NULL, "the prompt is empty: it has no token");
    }
    return (int64_t)r->prompt <= r->model->context
        || presk_fail(e, PRESK_E_INPUT, NULL, "the prompt has %lld tokens, the context %lld", (long long)r->prompt,
                      (long long)r->model->context);
}
