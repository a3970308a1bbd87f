/* presk_tokenizer_merge.c: the byte-pair merges of one piece: the pair of the lowest rank first, the leftmost of equals.
 *
 * Short pieces search their pairs anew after each merge; long ones keep the pairs in a heap and the tokens in a linked
 * list, so that a megabyte of spaces takes O(n log n). An entry of the heap whose pair has changed since is skipped: the
 * tokens that stand at its place now have more bytes, so they merge to another token, or to none.
 */

#include "presk_tokenizer_private.h"

#include <stdlib.h>

enum { SHORT = 48 };

void presk_work_free(presk_work *work)
{
    presk_free(work->memory);
    *work = (presk_work){0};
}

/* The merge of two neighbours, or NULL. */
static const presk_merge *merge_of(const presk_tokenizer *t, uint32_t left, uint32_t right)
{
    for (uint32_t slot = presk_merge_slot(t, left, right);; slot = (slot + 1) & t->merge_mask) {
        const presk_merge *m = &t->merges[slot];
        if (m->left == left && m->right == right) {
            return m;
        }
        if (m->left == PRESK_NO_TOKEN) {
            return NULL;
        }
    }
}

static uint32_t word_of(const presk_tokenizer *t, const char *piece, size_t size)
{
    for (uint32_t slot = presk_word_slot(t, piece, size);; slot = (slot + 1) & t->word_mask) {
        uint32_t id = t->words[slot];
        if (id == PRESK_NO_TOKEN || (t->texts[id].size == size && memcmp(t->texts[id].text, piece, size) == 0)) {
            return id;
        }
    }
}

/* Pre: 0 < n <= SHORT. */
static bool merge_short(const presk_tokenizer *t, uint32_t *tokens, size_t n, presk_ids *ids)
{
    uint32_t ranks[SHORT], results[SHORT]; /* of the pairs (i, i + 1) */
    for (size_t i = 0; i + 1 < n; i++) {
        const presk_merge *m = merge_of(t, tokens[i], tokens[i + 1]);
        ranks[i] = m == NULL ? UINT32_MAX : m->rank;
        results[i] = m == NULL ? 0 : m->result;
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++) {
            best = ranks[i] < ranks[best] ? i : best;
        }
        if (ranks[best] == UINT32_MAX) {
            break;
        }
        tokens[best] = results[best];
        n--;
        for (size_t i = best + 1; i < n; i++) {
            tokens[i] = tokens[i + 1];
            ranks[i - 1] = ranks[i];
            results[i - 1] = results[i];
        }
        for (size_t i = best > 0 ? best - 1 : 0; i <= best && i + 1 < n; i++) {
            const presk_merge *m = merge_of(t, tokens[i], tokens[i + 1]);
            ranks[i] = m == NULL ? UINT32_MAX : m->rank;
            results[i] = m == NULL ? 0 : m->result;
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (!presk_ids_add(ids, tokens[i])) {
            return false;
        }
    }
    return true;
}

/* A token of a long piece: its neighbours' indices, UINT32_MAX at an end; `token` is PRESK_NO_TOKEN once merged away. */
typedef struct node {
    uint32_t token, before, after;
} node;

typedef struct candidate {
    uint32_t rank, at, result;
} candidate;

typedef struct heap {
    candidate *entries;
    size_t count;
} heap;

static bool goes_first(candidate a, candidate b)
{
    return a.rank < b.rank || (a.rank == b.rank && a.at < b.at);
}

static void push(heap *h, candidate c)
{
    size_t i = h->count++;
    while (i > 0 && goes_first(c, h->entries[(i - 1) / 2])) {
        h->entries[i] = h->entries[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h->entries[i] = c;
}

static candidate pop(heap *h)
{
    candidate first = h->entries[0], c = h->entries[--h->count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < h->count; i = child) {
        if (child + 1 < h->count && goes_first(h->entries[child + 1], h->entries[child])) {
            child++;
        }
        if (!goes_first(h->entries[child], c)) {
            break;
        }
        h->entries[i] = h->entries[child];
    }
    h->entries[i] = c;
    return first;
}

static void consider(const presk_tokenizer *t, heap *h, const node *nodes, uint32_t at)
{
    const presk_merge *m = merge_of(t, nodes[at].token, nodes[nodes[at].after].token);
    if (m != NULL) {
        push(h, (candidate){m->rank, at, m->result});
    }
}

static void merge_all(const presk_tokenizer *t, node *nodes, heap *h)
{
    while (h->count > 0) {
        candidate c = pop(h);
        node *left = &nodes[c.at];
        if (left->token == PRESK_NO_TOKEN || left->after == UINT32_MAX) {
            continue;
        }
        node *right = &nodes[left->after];
        const presk_merge *m = merge_of(t, left->token, right->token);
        if (m == NULL || m->result != c.result) {
            continue;
        }
        left->token = c.result;
        left->after = right->after;
        right->token = PRESK_NO_TOKEN;
        if (left->after != UINT32_MAX) {
            nodes[left->after].before = c.at;
            consider(t, h, nodes, c.at);
        }
        if (left->before != UINT32_MAX) {
            consider(t, h, nodes, left->before);
        }
    }
}

/* n < 2^31 tokens: at most n - 1 first pairs, and two for each of at most n - 1 merges, of which one was popped. */
static bool merge_long(const presk_tokenizer *t, const unsigned char *piece, size_t size, presk_work *work,
                       presk_ids *ids)
{
    const size_t need = size * sizeof(node) + 2 * size * sizeof(candidate);
    if (work->capacity < need) {
        presk_work_free(work);
        work->memory = presk_alloc(need);
        if (work->memory == NULL) {
            return false;
        }
        work->capacity = need;
    }
    node *nodes = work->memory;
    heap h = {(candidate *)(void *)(nodes + size), 0};
    uint32_t n = 0;
    for (size_t i = 0; i < size; i++) {
        uint32_t token = t->byte_tokens[piece[i]];
        if (token != PRESK_NO_TOKEN) {
            nodes[n] = (node){token, n == 0 ? UINT32_MAX : n - 1, n + 1};
            n++;
        }
    }
    if (n == 0) {
        return true;
    }
    nodes[n - 1].after = UINT32_MAX;
    for (uint32_t i = 0; i + 1 < n; i++) {
        consider(t, &h, nodes, i);
    }
    merge_all(t, nodes, &h);
    for (uint32_t i = 0; i != UINT32_MAX; i = nodes[i].after) {
        if (!presk_ids_add(ids, nodes[i].token)) {
            return false;
        }
    }
    return true;
}

bool presk_merge_piece(const presk_tokenizer *t, const unsigned char *piece, size_t size, presk_work *work,
                       presk_ids *ids)
{
    if (t->words != NULL) {
        uint32_t id = word_of(t, (const char *)piece, size);
        if (id != PRESK_NO_TOKEN) {
            return presk_ids_add(ids, id);
        }
    }
    if (size > SHORT) {
        return merge_long(t, piece, size, work, ids);
    }
    uint32_t tokens[SHORT];
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        tokens[n] = t->byte_tokens[piece[i]];
        n += tokens[n] != PRESK_NO_TOKEN;
    }
    return n == 0 || merge_short(t, tokens, n, ids);
}
