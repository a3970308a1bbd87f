/* presk_header.c: the tensors of a safetensors header, parsed and checked; see presk_tensors.h for what is demanded. */

#include "presk_json.h"
#include "presk_tensors_private.h"

#include <inttypes.h>
#include <stdlib.h>

/* Element sizes by the name of the type. The types behind U8 are of the format but are not read by presk. */
static const struct {
    const char *name;
    presk_dtype dtype;
    size_t size;
} types[] = {
    {"F64", PRESK_F64, 8},      {"F32", PRESK_F32, 4},      {"F16", PRESK_F16, 2},      {"BF16", PRESK_BF16, 2},
    {"I64", PRESK_I64, 8},      {"I32", PRESK_I32, 4},      {"I16", PRESK_I16, 2},      {"I8", PRESK_I8, 1},
    {"U8", PRESK_U8, 1},        {"BOOL", PRESK_BOOL, 1},    {"U64", PRESK_OTHER, 8},    {"U32", PRESK_OTHER, 4},
    {"U16", PRESK_OTHER, 2},    {"C64", PRESK_OTHER, 8},    {"F8_E4M3", PRESK_OTHER, 1}, {"F8_E5M2", PRESK_OTHER, 1},
    {"F8_E8M0", PRESK_OTHER, 1},
};

#define TYPES (sizeof types / sizeof types[0])

const char *presk_dtype_name(presk_dtype dtype)
{
    for (size_t i = 0; i < TYPES; i++) {
        if (types[i].dtype == dtype && dtype != PRESK_OTHER) {
            return types[i].name;
        }
    }
    return "other";
}

size_t presk_dtype_size(presk_dtype dtype)
{
    for (size_t i = 0; i < TYPES; i++) {
        if (types[i].dtype == dtype && dtype != PRESK_OTHER) {
            return types[i].size;
        }
    }
    return 0;
}

/* A key of __metadata__, kept only to see that none comes twice. */
typedef struct key {
    const char *text;
    size_t size;
} key;

/* What is being parsed. Strings are decoded into header->strings one behind the other; as none is longer than its
 * text, n + 1 bytes hold them all. */
typedef struct parse {
    presk_json json;
    presk_header *header;
    size_t capacity; /* of header->entries */
    size_t strings_used;
    key *keys;
    size_t key_count, key_capacity;
    const char *path;
    presk_error *e;
} parse;

static bool malformed(parse *p, const char *what)
{
    return presk_fail(p->e, PRESK_E_MALFORMED, p->path, "header byte %zu: %s", p->json.at, what);
}

static bool malformed_tensor(parse *p, const presk_entry *entry, const char *what)
{
    return presk_fail(p->e, PRESK_E_MALFORMED, p->path, "tensor %.120s: %s", entry->tensor.name, what);
}

static bool no_memory(const char *path, presk_error *e)
{
    return presk_fail(e, PRESK_E_UNREADABLE, path, "not enough memory for the header");
}

static bool want(parse *p, char c, const char *what)
{
    return presk_json_want(&p->json, c, what) || malformed(p, p->json.fault);
}

static bool natural(parse *p, uint64_t *value)
{
    return presk_json_natural(&p->json, value) || malformed(p, p->json.fault);
}

/* Reads a string and keeps it. */
static bool string(parse *p, const char **text, size_t *size)
{
    char *dest = p->header->strings + p->strings_used;
    if (!presk_json_string(&p->json, dest, size)) {
        return malformed(p, p->json.fault);
    }
    *text = dest;
    p->strings_used += *size + 1;
    return true;
}

/* Makes room for one more element behind `count` of them; false if there is no memory. */
static bool grow(void **array, size_t *capacity, size_t count, size_t element)
{
    if (count < *capacity) {
        return true;
    }
    size_t wanted = *capacity == 0 ? 16 : *capacity * 2;
    if (wanted > SIZE_MAX / 2 / element) {
        return false;
    }
    void *larger = realloc(*array, wanted * element);
    if (larger == NULL) {
        return false;
    }
    *array = larger;
    *capacity = wanted;
    return true;
}

static int compare_bytes(const char *a, size_t m, const char *b, size_t n)
{
    int order = memcmp(a, b, m < n ? m : n);
    return order != 0 ? order : (m > n) - (m < n);
}

static bool same(const char *text, size_t size, const char *word)
{
    return compare_bytes(text, size, word, strlen(word)) == 0;
}

/* --- One tensor ------------------------------------------------------------------------------------------------ */

static bool parse_shape(parse *p, presk_entry *entry)
{
    if (!want(p, '[', "a list of dimensions was expected")) {
        return false;
    }
    if (presk_json_take(&p->json, ']')) {
        return true;
    }
    do {
        uint64_t dimension;
        if (!natural(p, &dimension)) {
            return false;
        }
        if (entry->tensor.rank == PRESK_MAX_RANK) {
            return malformed(p, "a tensor has more than 8 dimensions");
        }
        if (dimension > INT64_MAX) {
            return malformed(p, "a dimension is too large");
        }
        entry->tensor.shape[entry->tensor.rank++] = (int64_t)dimension;
    } while (presk_json_take(&p->json, ','));
    return want(p, ']', "',' or ']' was expected");
}

static bool parse_offsets(parse *p, presk_entry *entry)
{
    return want(p, '[', "a list of two offsets was expected") && natural(p, &entry->begin)
        && want(p, ',', "a second offset was expected") && natural(p, &entry->end)
        && want(p, ']', "']' was expected behind two offsets");
}

static bool parse_type(parse *p, presk_entry *entry)
{
    size_t size;
    if (!string(p, &entry->tensor.type, &size)) {
        return false;
    }
    entry->tensor.dtype = PRESK_OTHER;
    for (size_t i = 0; i < TYPES; i++) {
        if (same(entry->tensor.type, size, types[i].name)) {
            entry->tensor.dtype = types[i].dtype;
            entry->element_size = types[i].size;
        }
    }
    return true;
}

/* Checks offsets, element count and byte count against each other. */
static bool check_entry(parse *p, presk_entry *entry)
{
    if (entry->begin > entry->end) {
        return malformed_tensor(p, entry, "its data end before they begin");
    }
    uint64_t count = 1;
    for (int d = 0; d < entry->tensor.rank; d++) {
        uint64_t dimension = (uint64_t)entry->tensor.shape[d];
        if (dimension != 0 && count > UINT64_MAX / dimension) {
            return malformed_tensor(p, entry, "its element count overflows");
        }
        count *= dimension;
    }
    uint64_t bytes = entry->end - entry->begin;
    if (bytes > SIZE_MAX || count > SIZE_MAX) {
        return malformed_tensor(p, entry, "it is too large for this machine's addresses");
    }
    uint64_t size = entry->element_size;
    if (size != 0 && (bytes / size != count || bytes % size != 0)) {
        return presk_fail(p->e, PRESK_E_MALFORMED, p->path,
                          "tensor %.120s: %" PRIu64 " elements of %s do not fill %" PRIu64 " bytes", entry->tensor.name,
                          count, entry->tensor.type, bytes);
    }
    entry->tensor.count = (size_t)count;
    entry->tensor.bytes = (size_t)bytes;
    return true;
}

/* Reads the object of one tensor, whose three keys may come in any order. */
static bool parse_entry(parse *p, presk_entry *entry)
{
    bool has_type = false, has_shape = false, has_offsets = false;
    if (!want(p, '{', "a tensor's '{' was expected")) {
        return false;
    }
    do {
        const char *field = "";
        size_t size = 0;
        if (!string(p, &field, &size) || !want(p, ':', "':' was expected")) {
            return false;
        }
        bool *seen = same(field, size, "dtype") ? &has_type
                   : same(field, size, "shape") ? &has_shape
                   : same(field, size, "data_offsets") ? &has_offsets : NULL;
        if (seen == NULL) {
            return malformed(p, "a tensor has a key other than dtype, shape and data_offsets");
        }
        if (*seen) {
            return malformed(p, "a tensor has a key twice");
        }
        *seen = true;
        bool good = seen == &has_type ? parse_type(p, entry)
                  : seen == &has_shape ? parse_shape(p, entry) : parse_offsets(p, entry);
        if (!good) {
            return false;
        }
    } while (presk_json_take(&p->json, ','));
    if (!want(p, '}', "',' or '}' was expected")) {
        return false;
    }
    if (!has_type || !has_shape || !has_offsets) {
        return malformed_tensor(p, entry, "it lacks dtype, shape or data_offsets");
    }
    return check_entry(p, entry);
}

/* --- The whole header ------------------------------------------------------------------------------------------ */

static int compare_keys(const void *a, const void *b)
{
    const key *x = a, *y = b;
    return compare_bytes(x->text, x->size, y->text, y->size);
}

static bool parse_metadata(parse *p)
{
    if (!want(p, '{', "__metadata__ must be an object of strings")) {
        return false;
    }
    if (presk_json_take(&p->json, '}')) {
        return true;
    }
    do {
        key k;
        const char *value;
        size_t size;
        if (!string(p, &k.text, &k.size) || !want(p, ':', "':' was expected") || !string(p, &value, &size)) {
            return false;
        }
        void *keys = p->keys;
        if (!grow(&keys, &p->key_capacity, p->key_count, sizeof k)) {
            return no_memory(p->path, p->e);
        }
        p->keys = keys;
        p->keys[p->key_count++] = k;
    } while (presk_json_take(&p->json, ','));
    if (!want(p, '}', "',' or '}' was expected")) {
        return false;
    }
    qsort(p->keys, p->key_count, sizeof p->keys[0], compare_keys);
    for (size_t i = 1; i < p->key_count; i++) {
        if (compare_keys(&p->keys[i - 1], &p->keys[i]) == 0) {
            return presk_fail(p->e, PRESK_E_MALFORMED, p->path, "__metadata__ has the key %.120s twice",
                              p->keys[i].text);
        }
    }
    return true;
}

static int compare_names(const void *a, const void *b)
{
    const presk_entry *x = a, *y = b;
    return compare_bytes(x->tensor.name, x->name_size, y->tensor.name, y->name_size);
}

/* Reads one key of the header and what it maps to. */
static bool parse_member(parse *p, bool *has_metadata)
{
    presk_header *header = p->header;
    presk_entry entry = {0};
    entry.tensor.file = p->path;
    if (!string(p, &entry.tensor.name, &entry.name_size) || !want(p, ':', "':' was expected")) {
        return false;
    }
    if (same(entry.tensor.name, entry.name_size, "__metadata__")) {
        if (*has_metadata) {
            return malformed(p, "__metadata__ comes twice");
        }
        *has_metadata = true;
        return parse_metadata(p);
    }
    if (!parse_entry(p, &entry)) {
        return false;
    }
    void *entries = header->entries;
    if (!grow(&entries, &p->capacity, header->count, sizeof entry)) {
        return no_memory(p->path, p->e);
    }
    header->entries = entries;
    header->entries[header->count++] = entry;
    return true;
}

static bool parse_all(parse *p)
{
    presk_header *header = p->header;
    bool has_metadata = false;
    if (p->json.size == 0 || p->json.text[0] != '{') {
        return malformed(p, "the header must begin with '{'");
    }
    p->json.at = 1;
    if (!presk_json_take(&p->json, '}')) {
        do {
            if (!parse_member(p, &has_metadata)) {
                return false;
            }
        } while (presk_json_take(&p->json, ','));
        if (!want(p, '}', "',' or '}' was expected")) {
            return false;
        }
    }
    if (!presk_json_at_end(&p->json)) {
        return malformed(p, "something other than spaces stands behind the header's object");
    }
    if (header->count > 1) {
        qsort(header->entries, header->count, sizeof header->entries[0], compare_names);
    }
    for (size_t i = 1; i < header->count; i++) {
        if (compare_names(&header->entries[i - 1], &header->entries[i]) == 0) {
            return malformed_tensor(p, &header->entries[i], "its name comes twice");
        }
    }
    return true;
}

bool presk_header_parse(presk_header *header, const unsigned char *text, size_t n, const char *path, presk_error *e)
{
    *header = (presk_header){0};
    parse p = {.json = {.text = text, .size = n}, .header = header, .path = path, .e = e};
    header->strings = malloc(n + 1);
    if (header->strings == NULL) {
        return no_memory(path, e);
    }
    bool good = parse_all(&p);
    free(p.keys);
    if (!good) {
        presk_header_free(header);
    }
    return good;
}

/* --- Extents --------------------------------------------------------------------------------------------------- */

static int compare_extents(const void *a, const void *b)
{
    const presk_entry *x = *(const presk_entry *const *)a, *y = *(const presk_entry *const *)b;
    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    return (x->end > y->end) - (x->end < y->end);
}

bool presk_header_extent(const presk_header *header, const char *path, uint64_t *data_size, presk_error *e)
{
    *data_size = 0;
    if (header->count == 0) {
        return true;
    }
    const presk_entry **order = malloc(header->count * sizeof order[0]);
    if (order == NULL) {
        return no_memory(path, e);
    }
    for (size_t i = 0; i < header->count; i++) {
        order[i] = &header->entries[i];
    }
    qsort(order, header->count, sizeof order[0], compare_extents);
    bool good = true;
    uint64_t end = 0;
    for (size_t i = 0; i < header->count && good; i++) {
        if (order[i]->begin != end) {
            good = presk_fail(e, PRESK_E_MALFORMED, path,
                              "tensor %.120s: its data begin at %" PRIu64 " and the tensor before ends at %" PRIu64
                              " (%s)", order[i]->tensor.name, order[i]->begin, end,
                              order[i]->begin < end ? "an overlap" : "a hole");
        }
        end = order[i]->end;
    }
    free(order);
    *data_size = end;
    return good;
}

void presk_header_bind(presk_header *header, const unsigned char *data)
{
    for (size_t i = 0; i < header->count; i++) {
        header->entries[i].tensor.data = data + header->entries[i].begin;
    }
}

void presk_header_free(presk_header *header)
{
    free(header->entries);
    free(header->strings);
    *header = (presk_header){0};
}
