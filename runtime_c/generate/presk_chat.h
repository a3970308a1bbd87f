/* presk_chat.h: a conversation, message by message, and its text as the checkpoint's chat template writes it.
 *
 * After a system message, or none, user and assistant take turns; a prompt ends with a user's message. Texts are UTF-8.
 */
#ifndef PRESK_CHAT_H
#define PRESK_CHAT_H

#include "presk_tokenizer.h"

typedef struct presk_message {
    presk_role role;
    size_t at, size; /* its bytes in `text` */
} presk_message;

/* Messages in order. Begin with {0}; give back by presk_messages_free. */
typedef struct presk_messages {
    presk_message *list;
    size_t count, capacity;
    presk_bytes text;
} presk_messages;

void presk_messages_free(presk_messages *m);

/* Adds a message. E1205 where the text is not UTF-8, the role is not the one whose turn it is, or without memory. */
bool presk_messages_add(presk_messages *m, presk_role role, const char *text, size_t size, presk_error *e);

/* Adds the messages of a JSON list, such as [{"role": "user", "content": "Hi"}], strictly: these two keys, once each,
 * and a user's message at the end. E1205 names the byte of `shown` where it is something else. */
bool presk_messages_read(presk_messages *m, const char *json, size_t size, const char *shown, presk_error *e);

/* Adds to *out the conversation as the template writes it, and what makes the model answer; it is to be encoded with
 * `whole` false. E1109 where there is no template to write with. */
bool presk_messages_write(const presk_messages *m, const presk_tokenizer *t, presk_bytes *out, presk_error *e);

#endif /* PRESK_CHAT_H */
