/* presk_chat.c: conversations; see presk_chat.h. */

#include "presk_chat.h"
#include "presk_json.h"

#include <string.h>

static bool no_memory(presk_error *e)
{
    return presk_fail(e, PRESK_E_INPUT, NULL, "no memory");
}

void presk_messages_free(presk_messages *m)
{
    presk_free(m->list);
    presk_bytes_free(&m->text);
    *m = (presk_messages){0};
}

/* What is wrong with a message of this role at the end, or NULL. */
static const char *out_of_turn(const presk_messages *m, presk_role role)
{
    const presk_role last = m->count == 0 ? PRESK_SYSTEM : m->list[m->count - 1].role;
    if (role == PRESK_SYSTEM) {
        return m->count == 0 ? NULL : "a system message comes first";
    }
    if (role == PRESK_ASSISTANT) {
        return last == PRESK_USER ? NULL : "an assistant's message follows a user's";
    }
    return last == PRESK_USER ? "two messages of the user follow each other" : NULL;
}

bool presk_messages_add(presk_messages *m, presk_role role, const char *text, size_t size, presk_error *e)
{
    const char *wrong = out_of_turn(m, role);
    if (wrong != NULL) {
        return presk_fail(e, PRESK_E_INPUT, NULL, "%s", wrong);
    }
    if (!presk_text_check(text, size, e)) {
        return false;
    }
    if (m->count == m->capacity) {
        const size_t capacity = 2 * m->capacity + 8;
        presk_message *list = presk_alloc(capacity * sizeof *list);
        if (list == NULL) {
            return no_memory(e);
        }
        if (m->count > 0) {
            memcpy(list, m->list, m->count * sizeof *list);
        }
        presk_free(m->list);
        m->list = list;
        m->capacity = capacity;
    }
    m->list[m->count] = (presk_message){role, m->text.count, size};
    m->count++;
    return presk_bytes_add(&m->text, text, size) || no_memory(e);
}

static bool fault(presk_json *json, const char *what)
{
    json->fault = what;
    return false;
}

static bool read_role(presk_json *json, char *text, presk_role *role)
{
    static const char *const names[] = {"system", "user", "assistant"};
    size_t size = 0;
    if (!presk_json_string(json, text, &size)) {
        return false;
    }
    for (int i = 0; i < 3; i++) {
        if (size == strlen(names[i]) && memcmp(text, names[i], size) == 0) {
            *role = (presk_role)i;
            return true;
        }
    }
    return fault(json, "a role is system, user or assistant");
}

static const char SHAPE[] = "a message has a role and a content, once each, and nothing else";

/* Reads {"role": ..., "content": ...} in either order; `content` and `word` have room for what is left of the file. */
static bool read_message(presk_json *json, char *content, size_t *size, char *word, presk_role *role)
{
    bool has_role = false, has_content = false;
    if (!presk_json_want(json, '{', "a message, in braces, was expected")) {
        return false;
    }
    while (!(has_role && has_content)) {
        size_t length = 0;
        if (((has_role || has_content) && !presk_json_want(json, ',', SHAPE)) || !presk_json_string(json, word, &length)) {
            return false;
        }
        const bool is_role = length == 4 && memcmp(word, "role", 4) == 0;
        bool *has = is_role ? &has_role : &has_content;
        if (*has || (!is_role && (length != 7 || memcmp(word, "content", 7) != 0))) {
            return fault(json, SHAPE);
        }
        *has = true;
        if (!presk_json_want(json, ':', "a colon was expected")
            || !(is_role ? read_role(json, word, role) : presk_json_string(json, content, size))) {
            return false;
        }
    }
    return presk_json_want(json, '}', SHAPE);
}

static bool read_list(presk_messages *m, presk_json *json, char *content, char *word, presk_error *e)
{
    if (!presk_json_want(json, '[', "a list of messages was expected")) {
        return false;
    }
    do {
        presk_role role = PRESK_SYSTEM;
        size_t size = 0;
        if (!read_message(json, content, &size, word, &role)) {
            return false;
        }
        const char *wrong = out_of_turn(m, role);
        if (wrong != NULL) {
            return fault(json, wrong);
        }
        if (!presk_messages_add(m, role, content, size, e)) {
            return false;
        }
    } while (presk_json_take(json, ','));
    if (!presk_json_want(json, ']', "a list of messages ends with ]")) {
        return false;
    }
    if (!presk_json_at_end(json)) {
        return fault(json, "something follows the list");
    }
    return m->list[m->count - 1].role == PRESK_USER || fault(json, "the last message is to be the user's");
}

bool presk_messages_read(presk_messages *m, const char *text, size_t size, const char *shown, presk_error *e)
{
    presk_json json = {(const unsigned char *)text, size, 0, NULL};
    char *content = presk_alloc(size + 1), *word = presk_alloc(size + 1);
    bool good = content != NULL && word != NULL;
    if (!good) {
        no_memory(e);
    } else if (!read_list(m, &json, content, word, e)) {
        good = false;
        if (json.fault != NULL) {
            presk_error_set(e, PRESK_E_INPUT, shown, "byte %zu: %s", json.at, json.fault);
        }
    }
    presk_free(content);
    presk_free(word);
    return good;
}

bool presk_messages_write(const presk_messages *m, const presk_tokenizer *t, presk_bytes *out, presk_error *e)
{
    if (!presk_tokenizer_chats(t, e)) {
        return false;
    }
    bool good = m->count > 0 && m->list[0].role == PRESK_SYSTEM ? true : presk_chat_begin(t, NULL, 0, out);
    for (size_t i = 0; good && i < m->count; i++) {
        const presk_message *one = &m->list[i];
        good = presk_chat_message(t, one->role, m->text.bytes + one->at, one->size, out);
    }
    return (good && presk_chat_answer(t, out)) || no_memory(e);
}
