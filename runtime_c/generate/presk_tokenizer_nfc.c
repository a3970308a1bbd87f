/* presk_tokenizer_nfc.c: Unicode's normal form C, with the tables that the `tokenizers` library has.
 *
 * A text is cut before every character that no other changes (a class bit says so); a stretch with more than one
 * character is decomposed, its marks ordered, and composed again (Unicode Standard Annex 15).
 */

#include "presk_tokenizer_private.h"
#include "presk_unicode_nfc.h"

enum {
    S_BASE = 0xac00, L_BASE = 0x1100, V_BASE = 0x1161, T_BASE = 0x11a7,
    L_COUNT = 19, V_COUNT = 21, T_COUNT = 28, N_COUNT = V_COUNT * T_COUNT, S_COUNT = L_COUNT * N_COUNT,
    RANKS = 256
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

_Static_assert(COUNT(presk_nfc_ranks) > 0 && COUNT(presk_nfc_pairs) > 0, "the tables are there");

/* Code points and the ranks of their marks (0: not a mark). */
typedef struct letters {
    uint32_t *codes;
    uint8_t *ranks;
    size_t count, capacity;
} letters;

void presk_nfc_classes(unsigned char *classes)
{
    for (size_t i = 0; i < COUNT(presk_nfc_unstable); i++) {
        for (uint32_t c = 0; c < presk_nfc_unstable[i].count; c++) {
            classes[presk_nfc_unstable[i].first + c] |= PRESK_UNSTABLE;
        }
    }
}

bool presk_nfc_needed(const presk_tokenizer *t, const unsigned char *text, size_t size)
{
    for (const unsigned char *p = text, *end = text + size; p < end;) {
        if (*p < 0x80) {
            p++;
        } else if ((t->classes[presk_utf8_next(&p)] & PRESK_UNSTABLE) != 0) {
            return true;
        }
    }
    return false;
}

static uint8_t rank_of(uint32_t code)
{
    size_t low = 0, high = COUNT(presk_nfc_ranks);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (presk_nfc_ranks[middle].first <= code) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool inside = low > 0 && code - presk_nfc_ranks[low - 1].first < presk_nfc_ranks[low - 1].count;
    return (uint8_t)(inside ? presk_nfc_ranks[low - 1].rank : 0);
}

static bool put(letters *l, uint32_t code, uint8_t rank)
{
    if (l->count == l->capacity) {
        size_t capacity = l->capacity == 0 ? 64 : 2 * l->capacity;
        uint32_t *codes = presk_alloc(capacity * sizeof *codes);
        uint8_t *ranks = presk_alloc(capacity);
        if (codes == NULL || ranks == NULL) {
            presk_free(codes);
            presk_free(ranks);
            return false;
        }
        if (l->count > 0) {
            memcpy(codes, l->codes, l->count * sizeof *codes);
            memcpy(ranks, l->ranks, l->count);
        }
        presk_free(l->codes);
        presk_free(l->ranks);
        *l = (letters){codes, ranks, l->count, capacity};
    }
    l->codes[l->count] = code;
    l->ranks[l->count++] = rank;
    return true;
}

static bool put_decomposed(letters *l, uint32_t code)
{
    if (code >= S_BASE && code < S_BASE + S_COUNT) {
        uint32_t s = code - S_BASE, trailing = s % T_COUNT;
        return put(l, L_BASE + s / N_COUNT, 0) && put(l, V_BASE + s % N_COUNT / T_COUNT, 0)
            && (trailing == 0 || put(l, T_BASE + trailing, 0));
    }
    size_t low = 0, high = COUNT(presk_nfc_parts) - 1; /* the last entry is only an end */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (presk_nfc_parts[middle].code < code) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (presk_nfc_parts[low].code != code) {
        return put(l, code, rank_of(code));
    }
    for (uint32_t i = presk_nfc_parts[low].begin; i < presk_nfc_parts[low + 1].begin; i++) {
        if (!put(l, presk_nfc_letters[i], rank_of(presk_nfc_letters[i]))) {
            return false;
        }
    }
    return true;
}

/* Sorts codes[0 .. n-1] by rank, equals in order, by counting; `codes` and `ranks` of *free are room for the result. */
static bool sort_counting(uint32_t *codes, uint8_t *ranks, size_t n, letters *room)
{
    room->count = 0;
    for (size_t i = 0; i < n; i++) {
        if (!put(room, codes[i], ranks[i])) {
            return false;
        }
    }
    size_t starts[RANKS + 1] = {0};
    for (size_t i = 0; i < n; i++) {
        starts[ranks[i] + 1]++;
    }
    for (size_t r = 0; r < RANKS; r++) {
        starts[r + 1] += starts[r];
    }
    for (size_t i = 0; i < n; i++) {
        size_t to = starts[room->ranks[i]]++;
        codes[to] = room->codes[i];
        ranks[to] = room->ranks[i];
    }
    return true;
}

static bool order_marks(letters *l, letters *room)
{
    for (size_t i = 0, n; i < l->count; i += n) {
        n = 1;
        if (l->ranks[i] == 0) {
            continue;
        }
        while (i + n < l->count && l->ranks[i + n] != 0) {
            n++;
        }
        if (n > 16) {
            if (!sort_counting(l->codes + i, l->ranks + i, n, room)) {
                return false;
            }
            continue;
        }
        for (size_t k = i + 1; k < i + n; k++) {
            uint32_t code = l->codes[k];
            uint8_t rank = l->ranks[k];
            size_t to = k;
            for (; to > i && l->ranks[to - 1] > rank; to--) {
                l->codes[to] = l->codes[to - 1];
                l->ranks[to] = l->ranks[to - 1];
            }
            l->codes[to] = code;
            l->ranks[to] = rank;
        }
    }
    return true;
}

/* What two code points compose to, or 0. */
static uint32_t composed(uint32_t a, uint32_t b)
{
    if (a - L_BASE < L_COUNT && b - V_BASE < V_COUNT) {
        return S_BASE + (a - L_BASE) * N_COUNT + (b - V_BASE) * T_COUNT;
    }
    if (a - S_BASE < S_COUNT && (a - S_BASE) % T_COUNT == 0 && b - T_BASE - 1 < T_COUNT - 1) {
        return a + (b - T_BASE);
    }
    size_t low = 0, high = COUNT(presk_nfc_pairs);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (presk_nfc_pairs[middle].first < a
            || (presk_nfc_pairs[middle].first == a && presk_nfc_pairs[middle].second < b)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low < COUNT(presk_nfc_pairs) && presk_nfc_pairs[low].first == a && presk_nfc_pairs[low].second == b;
    return found ? presk_nfc_pairs[low].composed : 0;
}

/* Each character composes with the last one that is no mark, unless one between them has its rank or a higher one. */
static void compose(letters *l)
{
    size_t base = SIZE_MAX, kept = 0;
    for (size_t i = 0; i < l->count; i++) {
        uint32_t code = l->codes[i];
        uint8_t rank = l->ranks[i];
        bool blocked = base == SIZE_MAX || (kept > base + 1 && l->ranks[kept - 1] >= rank);
        uint32_t whole = blocked ? 0 : composed(l->codes[base], code);
        if (whole != 0) {
            l->codes[base] = whole;
            continue;
        }
        if (rank == 0) {
            base = kept;
        }
        l->codes[kept] = code;
        l->ranks[kept++] = rank;
    }
    l->count = kept;
}

static bool put_utf8(presk_bytes *out, uint32_t c)
{
    char b[4];
    if (c < 0x80) {
        b[0] = (char)c;
        return presk_bytes_add(out, b, 1);
    }
    if (c < 0x800) {
        b[0] = (char)(0xc0 | c >> 6);
        b[1] = (char)(0x80 | (c & 0x3f));
        return presk_bytes_add(out, b, 2);
    }
    if (c < 0x10000) {
        b[0] = (char)(0xe0 | c >> 12);
        b[1] = (char)(0x80 | (c >> 6 & 0x3f));
        b[2] = (char)(0x80 | (c & 0x3f));
        return presk_bytes_add(out, b, 3);
    }
    b[0] = (char)(0xf0 | c >> 18);
    b[1] = (char)(0x80 | (c >> 12 & 0x3f));
    b[2] = (char)(0x80 | (c >> 6 & 0x3f));
    b[3] = (char)(0x80 | (c & 0x3f));
    return presk_bytes_add(out, b, 4);
}

static bool put_stretch(const unsigned char *p, const unsigned char *end, letters *l, letters *room, presk_bytes *out)
{
    l->count = 0;
    while (p < end) {
        if (!put_decomposed(l, presk_utf8_next(&p))) {
            return false;
        }
    }
    if (!order_marks(l, room)) {
        return false;
    }
    compose(l);
    for (size_t i = 0; i < l->count; i++) {
        if (!put_utf8(out, l->codes[i])) {
            return false;
        }
    }
    return true;
}

bool presk_nfc(const presk_tokenizer *t, const unsigned char *text, size_t size, presk_bytes *out)
{
    letters l = {0}, room = {0};
    const unsigned char *p = text, *end = text + size, *plain = text;
    bool done = true;
    while (done && p < end) {
        /* [plain, stretch) stays; [stretch, p) is one stable character and unstable ones behind it. */
        const unsigned char *stretch = p;
        (void)presk_utf8_next(&p);
        bool changes = (t->classes[presk_utf8_next(&(const unsigned char *){stretch})] & PRESK_UNSTABLE) != 0;
        for (const unsigned char *next = p;
             next < end && (t->classes[presk_utf8_next(&next)] & PRESK_UNSTABLE) != 0; p = next) {
            changes = true;
        }
        if (changes) {
            done = presk_bytes_add(out, (const char *)plain, (size_t)(stretch - plain))
                && put_stretch(stretch, p, &l, &room, out);
            plain = p;
        }
    }
    done = done && presk_bytes_add(out, (const char *)plain, (size_t)(end - plain));
    presk_free(l.codes);
    presk_free(l.ranks);
    presk_free(room.codes);
    presk_free(room.ranks);
    return done;
}
