// json: a recursive reader over the text in memory. Recursion is bounded by JSON_MAX_DEPTH; values
// and strings come from blocks that are freed together, so that no error path has anything to undo.
#include "json.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 65536

struct json_block {
    struct json_block * next;
    size_t used, size;
    max_align_t data[];
};

struct reader {
    const char *at, *end, *start;
    const char * line_start;
    int line, depth;
    size_t n_values;
    struct json_block * blocks;
    struct error * err;
    enum status status;
};

static const char * const type_names[] = {
    [JSON_NULL] = "null",          [JSON_BOOL] = "a boolean",  [JSON_INTEGER] = "an integer",
    [JSON_REAL] = "a real number", [JSON_STRING] = "a string", [JSON_ARRAY] = "an array",
    [JSON_OBJECT] = "an object",
};

const char * json_type_name(enum json_type type) {
    return type_names[type];
}

static bool fail_at(struct reader * r, const char * where, const char * reason) {
    if (r->status == ST_OK) {
        r->status = error_set(r->err, ST_INVALID, "line %d, column %d: %s", r->line,
                              (int) (where - r->line_start) + 1, reason);
    }
    return false;
}

static bool fail(struct reader * r, const char * reason) {
    return fail_at(r, r->at, reason);
}

static void * allocate(struct reader * r, size_t size) {
    size = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (!r->blocks || r->blocks->size - r->blocks->used < size) {
        size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;
        struct json_block * b = malloc(sizeof *b + room);
        if (!b) {
            r->status = error_set(r->err, ST_NO_MEMORY, "no memory for JSON of %zu bytes",
                                  (size_t) (r->end - r->start));
            return NULL;
        }
        *b = (struct json_block){.next = r->blocks, .size = room};
        r->blocks = b;
    }
    void * p = (char *) r->blocks->data + r->blocks->used;
    r->blocks->used += size;
    return p;
}

static void skip_space(struct reader * r) {
    for (; r->at < r->end; r->at++) {
        if (*r->at == '\n') {
            r->line++;
            r->line_start = r->at + 1;
        } else if (*r->at != ' ' && *r->at != '\t' && *r->at != '\r') {
            break;
        }
    }
}

// ---- strings ----

static bool read_hex4(struct reader * r, uint32_t * out) {
    *out = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        static const char digits[] = "0123456789abcdef";
        char c = r->at < r->end ? *r->at : '\0';
        const char * d = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;
        if (!d) {
            return fail(r, "four hexadecimal digits must follow \\u");
        }
        *out = *out << 4 | (uint32_t) (d - digits);
    }
    return true;
}

static char * put_utf8(char * to, uint32_t c) {
    if (c < 0x80) {
        *to++ = (char) c;
    } else if (c < 0x800) {
        *to++ = (char) (0xc0 | c >> 6);
        *to++ = (char) (0x80 | (c & 0x3f));
    } else {
        if (c < 0x10000) {
            *to++ = (char) (0xe0 | c >> 12);
        } else {
            *to++ = (char) (0xf0 | c >> 18);
            *to++ = (char) (0x80 | (c >> 12 & 0x3f));
        }
        *to++ = (char) (0x80 | (c >> 6 & 0x3f));
        *to++ = (char) (0x80 | (c & 0x3f));
    }
    return to;
}

// What follows a backslash; the text shrinks, so that `to` has room.
static char * read_escape(struct reader * r, char * to) {
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->end ? *r->at : '\0';
    if (c == 'u') {
        uint32_t unit, low;
        r->at++;
        if (!read_hex4(r, &unit)) {
            return NULL;
        }
        if (unit >= 0xd800 && unit < 0xdc00) {
            if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u') {
                fail(r, "half a surrogate pair");
                return NULL;
            }
            r->at += 2;
            if (!read_hex4(r, &low)) {
                return NULL;
            }
            if (low < 0xdc00 || low > 0xdfff) {
                fail(r, "half a surrogate pair");
                return NULL;
            }
            unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        } else if (unit >= 0xdc00 && unit < 0xe000) {
            fail(r, "half a surrogate pair");
            return NULL;
        }
        if (unit == 0) {
            fail(r, "a zero byte in a string is not accepted");
            return NULL;
        }
        return put_utf8(to, unit);
    }
    const char * e = c ? strchr(from, c) : NULL;
    if (!e) {
        fail(r, "no such escape");
        return NULL;
    }
    r->at++;
    *to++ = into[e - from];
    return to;
}

// Bytes of the UTF-8 sequence at p, 0 when it is none (overlong, surrogate, cut).
static int utf8_length(const unsigned char * p, size_t left) {
    static const struct {
        unsigned char first_lo, first_hi, second_lo, second_hi, length;
    } rows[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (p[0] < rows[i].first_lo || p[0] > rows[i].first_hi) {
            continue;
        }
        if (left < rows[i].length || p[1] < rows[i].second_lo || p[1] > rows[i].second_hi) {
            return 0;
        }
        for (int k = 2; k < rows[i].length; k++) {
            if ((p[k] & 0xc0) != 0x80) {
                return 0;
            }
        }
        return rows[i].length;
    }
    return 0;
}

// At the opening quote.
static const char * read_string(struct reader * r) {
    const char *open = r->at, *close = open + 1;
    while (close < r->end && *close != '"') {
        close += *close == '\\' && r->end - close > 1 ? 2 : 1;
    }
    if (close >= r->end) {
        fail_at(r, open, "this string has no end");
        return NULL;
    }
    char *out = allocate(r, (size_t) (close - open)), *to = out;
    r->at++;
    while (out && r->at < close) {
        unsigned char c = (unsigned char) *r->at;
        int n = c < 0x80 ? 1 : utf8_length((const unsigned char *) r->at, (size_t) (close - r->at));
        if (c < 0x20) {
            fail(r, "a control character in a string must be escaped");
            return NULL;
        }
        if (n == 0) {
            fail(r, "not UTF-8");
            return NULL;
        }
        if (c == '\\') {
            r->at++;
            to = read_escape(r, to);
            if (!to) {
                return NULL;
            }
        } else {
            memcpy(to, r->at, (size_t) n);
            to += n;
            r->at += n;
        }
    }
    if (!out) {
        return NULL;
    }
    *to = '\0';
    r->at = close + 1;
    return out;
}

// ---- numbers ----

static bool is_digit(const struct reader * r) {
    return r->at < r->end && *r->at >= '0' && *r->at <= '9';
}

static bool skip_digits(struct reader * r) {
    if (!is_digit(r)) {
        return fail(r, "a digit is missing");
    }
    while (is_digit(r)) {
        r->at++;
    }
    return true;
}

// By the C locale, whatever the process has set.
static bool to_real(struct reader * r, const char * from, double * out) {
    char text[64];
    size_t n = (size_t) (r->at - from);
    if (n >= sizeof text) {
        return fail_at(r, from, "a number of more than 63 characters is not accepted");
    }
    memcpy(text, from, n);
    text[n] = '\0';
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t) 0);
    if (!c) {
        r->status = error_set(r->err, ST_NO_MEMORY, "no memory for the C locale");
        return false;
    }
    *out = strtod_l(text, NULL, c);
    freelocale(c);
    return true;
}

static bool read_number(struct reader * r, struct json * v) {
    const char * from = r->at;
    bool negative = *r->at == '-', whole = true;
    r->at += negative;
    const char * digits = r->at;
    if (!skip_digits(r)) {
        return false;
    }
    if (*digits == '0' && r->at - digits > 1) {
        return fail_at(r, digits, "a number does not begin with 0");
    }
    uint64_t n = 0, limit = (uint64_t) INT64_MAX + negative;
    for (const char * p = digits; p < r->at && whole; p++) {
        unsigned d = (unsigned) (*p - '0');
        whole = n <= (limit - d) / 10;
        n = n * 10 + d;
    }
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        whole = false;
        if (!skip_digits(r)) {
            return false;
        }
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        whole = false;
        if (r->at < r->end && (*r->at == '+' || *r->at == '-')) {
            r->at++;
        }
        if (!skip_digits(r)) {
            return false;
        }
    }
    v->type = whole ? JSON_INTEGER : JSON_REAL;
    if (whole) {
        v->integer = (int64_t) (negative ? 0 - n : n);
        return true;
    }
    return to_real(r, from, &v->real);
}

// ---- values ----

static struct json * read_value(struct reader * r);

// After the opening bracket; `close` ends it.
static bool read_children(struct reader * r, struct json * v, char close) {
    const struct json ** link = &v->first;
    v->first = NULL;
    if (++r->depth > JSON_MAX_DEPTH) {
        return fail(r, "nested too deeply");
    }
    skip_space(r);
    if (r->at < r->end && *r->at == close) {
        r->at++;
        r->depth--;
        return true;
    }
    for (;;) {
        const char * key = NULL;
        skip_space(r);
        if (close == '}') {
            if (r->at >= r->end || *r->at != '"') {
                return fail(r, "a name in double quotes is expected");
            }
            if (!(key = read_string(r))) {
                return false;
            }
            skip_space(r);
            if (r->at >= r->end || *r->at != ':') {
                return fail(r, "':' is expected");
            }
            r->at++;
        }
        struct json * child = read_value(r);
        if (!child) {
            return false;
        }
        child->key = key;
        *link = child;
        link = &child->next;
        skip_space(r);
        if (r->at < r->end && *r->at == close) {
            r->at++;
            r->depth--;
            return true;
        }
        if (r->at >= r->end || *r->at != ',') {
            return fail(r, close == '}' ? "',' or '}' is expected" : "',' or ']' is expected");
        }
        r->at++;
    }
}

static bool read_word(struct reader * r, const char * word) {
    size_t n = strlen(word);
    if ((size_t) (r->end - r->at) < n || memcmp(r->at, word, n)) {
        return fail(r, "a value is expected");
    }
    r->at += n;
    return true;
}

static struct json * read_value(struct reader * r) {
    skip_space(r);
    if (++r->n_values > JSON_MAX_VALUES) {
        fail(r, "too many values");
        return NULL;
    }
    struct json * v = allocate(r, sizeof *v);
    if (!v) {
        return NULL;
    }
    *v = (struct json){.line = r->line, .column = (int) (r->at - r->line_start) + 1};
    bool ok;
    switch (r->at < r->end ? *r->at : '\0') {
    case '{':
    case '[': {
        char close = *r->at++ == '{' ? '}' : ']';
        v->type = close == '}' ? JSON_OBJECT : JSON_ARRAY;
        ok = read_children(r, v, close);
        break;
    }
    case '"':
        v->type = JSON_STRING;
        ok = (v->string = read_string(r)) != NULL;
        break;
    case 't':
        v->type = JSON_BOOL;
        v->boolean = true;
        ok = read_word(r, "true");
        break;
    case 'f':
        v->type = JSON_BOOL;
        v->boolean = false;
        ok = read_word(r, "false");
        break;
    case 'n':
        v->type = JSON_NULL;
        ok = read_word(r, "null");
        break;
    default:
        ok = r->at < r->end && (*r->at == '-' || is_digit(r)) ? read_number(r, v)
                                                              : fail(r, "a value is expected");
    }
    return ok ? v : NULL;
}

enum status json_parse(const char * text, size_t size, struct json_doc * out, struct error * err) {
    struct reader r = {
        .at = text, .end = text + size, .start = text, .line_start = text, .line = 1, .err = err};
    const struct json * root = read_value(&r);
    skip_space(&r);
    if (root && r.at < r.end) {
        fail(&r, "there is something behind the end");
    }
    *out = (struct json_doc){root, r.blocks};
    if (r.status != ST_OK) {
        json_free(out);
    }
    return r.status;
}

void json_free(struct json_doc * doc) {
    for (struct json_block *b = doc->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    *doc = (struct json_doc){0};
}

const struct json * json_member(const struct json * object, const char * key, int * n) {
    const struct json * found = NULL;
    int count = 0;
    for (const struct json * m = object->type == JSON_OBJECT ? object->first : NULL; m;
         m = m->next) {
        if (!strcmp(m->key, key)) {
            found = found ? found : m;
            count++;
        }
    }
    if (n) {
        *n = count;
    }
    return found;
}

void json_quote(struct buf * b, const char * string) {
    buf_printf(b, "\"");
    for (const char * p = string; *p; p++) {
        if (*p == '"' || *p == '\\') {
            buf_printf(b, "\\%c", *p);
        } else if ((unsigned char) *p < 0x20 || *p == 0x7f) {
            buf_printf(b, "\\u%04x", (unsigned char) *p);
        } else {
            buf_append(b, p, 1);
        }
    }
    buf_printf(b, "\"");
}
