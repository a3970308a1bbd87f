/* presk_json.c: strict tokens of JSON; see presk_json.h. */

#include "presk_json.h"

#include <string.h>

static bool fault(presk_json *json, const char *what)
{
    json->fault = what;
    return false;
}

static void skip_space(presk_json *json)
{
    while (json->at < json->size) {
        unsigned char c = json->text[json->at];
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
            return;
        }
        json->at++;
    }
}

bool presk_json_take(presk_json *json, char c)
{
    skip_space(json);
    if (json->at < json->size && json->text[json->at] == (unsigned char)c) {
        json->at++;
        return true;
    }
    return false;
}

bool presk_json_want(presk_json *json, char c, const char *what)
{
    return presk_json_take(json, c) || fault(json, what);
}

bool presk_json_at_end(presk_json *json)
{
    skip_space(json);
    return json->at == json->size;
}

bool presk_json_natural(presk_json *json, uint64_t *value)
{
    skip_space(json);
    size_t start = json->at;
    uint64_t n = 0;
    while (json->at < json->size && json->text[json->at] >= '0' && json->text[json->at] <= '9') {
        uint64_t digit = (uint64_t)json->text[json->at] - '0';
        if (n > (UINT64_MAX - digit) / 10) {
            return fault(json, "an integer is too large");
        }
        n = n * 10 + digit;
        json->at++;
    }
    if (json->at == start) {
        return fault(json, "an integer, 0 or more, was expected");
    }
    if (json->text[start] == '0' && json->at - start > 1) {
        return fault(json, "an integer begins with 0");
    }
    *value = n;
    return true;
}

size_t presk_utf8_size(const unsigned char *s, size_t size)
{
    unsigned char c = s[0];
    if (c < 0x80) {
        return 1;
    }
    size_t length = c >= 0xc2 && c <= 0xdf ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
    if (length == 0 || length > size) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool bad = (c == 0xe0 && s[1] < 0xa0) || (c == 0xed && s[1] > 0x9f) /* overlong; surrogates */
            || (c == 0xf0 && s[1] < 0x90) || (c == 0xf4 && s[1] > 0x8f); /* overlong; above U+10FFFF */
    return bad ? 0 : length;
}

/* Reads four hexadecimal digits. */
static bool hex4(presk_json *json, uint32_t *value)
{
    if (json->size - json->at < 4) {
        return fault(json, "a \\u escape is cut off");
    }
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        unsigned char c = json->text[json->at];
        uint32_t digit;
        if (c >= '0' && c <= '9') {
            digit = (uint32_t)c - '0';
        } else if (c >= 'a' && c <= 'f') {
            digit = (uint32_t)c - 'a' + 10;
        } else if (c >= 'A' && c <= 'F') {
            digit = (uint32_t)c - 'A' + 10;
        } else {
            return fault(json, "a \\u escape has a digit that is not hexadecimal");
        }
        v = v << 4 | digit;
        json->at++;
    }
    *value = v;
    return true;
}

/* Reads what follows "\u", a second escape too where the first is the upper half of a pair; writes 1 to 4 bytes. */
static bool unicode_escape(presk_json *json, char *dest, size_t *length)
{
    uint32_t c, low;
    if (!hex4(json, &c)) {
        return false;
    }
    if (c >= 0xd800 && c <= 0xdfff) {
        if (c >= 0xdc00 || json->size - json->at < 2 || json->text[json->at] != '\\'
            || json->text[json->at + 1] != 'u') {
            return fault(json, "half of a surrogate pair stands alone");
        }
        json->at += 2;
        if (!hex4(json, &low)) {
            return false;
        }
        if (low < 0xdc00 || low > 0xdfff) {
            return fault(json, "half of a surrogate pair stands alone");
        }
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    size_t n = *length;
    if (c < 0x80) {
        dest[n++] = (char)c;
    } else if (c < 0x800) {
        dest[n++] = (char)(0xc0 | c >> 6);
        dest[n++] = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        dest[n++] = (char)(0xe0 | c >> 12);
        dest[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        dest[n++] = (char)(0x80 | (c & 0x3f));
    } else {
        dest[n++] = (char)(0xf0 | c >> 18);
        dest[n++] = (char)(0x80 | (c >> 12 & 0x3f));
        dest[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        dest[n++] = (char)(0x80 | (c & 0x3f));
    }
    *length = n;
    return true;
}

/* Reads what follows a backslash. */
static bool escape(presk_json *json, char *dest, size_t *length)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    if (json->at == json->size) {
        return fault(json, "a string does not end");
    }
    unsigned char c = json->text[json->at++];
    if (c == 'u') {
        return unicode_escape(json, dest, length);
    }
    const char *letter = c == '\0' ? NULL : strchr(letters, c);
    if (letter == NULL) {
        return fault(json, "a backslash stands before a character that cannot be escaped");
    }
    dest[(*length)++] = meanings[letter - letters];
    return true;
}

bool presk_json_string(presk_json *json, char *dest, size_t *length)
{
    if (!presk_json_want(json, '"', "a string was expected")) {
        return false;
    }
    *length = 0;
    while (json->at < json->size) {
        unsigned char c = json->text[json->at];
        if (c == '"') {
            json->at++;
            dest[*length] = '\0';
            return true;
        }
        if (c < 0x20) {
            return fault(json, "a string holds a control character");
        }
        if (c == '\\') {
            json->at++;
            if (!escape(json, dest, length)) {
                return false;
            }
            continue;
        }
        size_t n = presk_utf8_size(json->text + json->at, json->size - json->at);
        if (n == 0) {
            return fault(json, "a string is not valid UTF-8");
        }
        memcpy(dest + *length, json->text + json->at, n);
        *length += n;
        json->at += n;
    }
    return fault(json, "a string does not end");
}
