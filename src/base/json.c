// json: what jansson leaves to its caller. Its own limit of depth (2048) is more than the stack of
// a small thread holds, and it has none for memory: a text of 64 MiB can become a tree of
// gigabytes.
#include "json.h"

#include <stdlib.h>

// ---- reading ----

// Counts what could become a value, outside of strings. Until jansson meets its first error it sees
// the same strings and brackets; behind that nothing is parsed.
enum status json_check_bounds(const char * text, size_t size, struct error * err) {
    if (size > JSON_MAX_BYTES) {
        return error_set(err, ST_INVALID, "line 1, column 1: %zu bytes, at most %zu are accepted",
                         size, JSON_MAX_BYTES);
    }
    int line = 1, depth = 0;
    size_t line_start = 0, n_values = 1;
    bool in_string = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
            continue;
        }
        switch (c) {
        case '"':
            in_string = true;
            break;
        case '\n':
            line++;
            line_start = i + 1;
            break;
        case '[':
        case '{':
            depth++;
            n_values++;
            break;
        case ']':
        case '}':
            depth--;
            break;
        case ',':
            n_values++;
            break;
        }
        if (depth > JSON_MAX_DEPTH || n_values > JSON_MAX_VALUES) {
            return error_set(err, ST_INVALID, "line %d, column %zu: %s", line, i - line_start + 1,
                             depth > JSON_MAX_DEPTH ? "nested too deeply" : "too many values");
        }
    }
    return ST_OK;
}

enum status json_read(const char * text, size_t size, json_t ** out, struct error * err) {
    *out = NULL;
    enum status st = json_library(err);
    st = st == ST_OK ? json_check_bounds(text, size, err) : st;
    if (st != ST_OK) {
        return st;
    }
    json_error_t why;
    *out = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (*out) {
        return ST_OK;
    }
    if (!why.text[0] || json_error_code(&why) == json_error_out_of_memory) {
        return error_set(err, ST_NO_MEMORY, "no memory for JSON of %zu bytes", size);
    }
    for (char * p = why.text; *p; p++) { // it quotes the text, which could steer a terminal
        *p = *p < 0x20 || *p > 0x7e ? '?' : *p;
    }
    return error_set(err, ST_INVALID, "line %d, column %d: %s", why.line > 1 ? why.line : 1,
                     why.column > 1 ? why.column : 1, why.text); // 0 before the first byte
}

enum status json_read_file(const char * path, json_t ** out, struct error * err) {
    uint8_t * text;
    size_t size;
    *out = NULL;
    enum status st = file_read(path, JSON_MAX_BYTES, &text, &size, err);
    if (st != ST_OK) {
        return st;
    }
    st = json_read((const char *) text, size, out, err);
    free(text);
    if (st != ST_OK) {
        error_prefix(err, st, st == ST_INVALID ? "%s: JSON syntax" : "%s", path);
    }
    return st;
}

const char * json_kind(const json_t * value) {
    static const char * const kinds[] = {
        [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array",     [JSON_STRING] = "a string",
        [JSON_INTEGER] = "an integer", [JSON_REAL] = "a real number", [JSON_TRUE] = "a boolean",
        [JSON_FALSE] = "a boolean",    [JSON_NULL] = "null",
    };
    return kinds[json_typeof(value)];
}

// ---- writing ----

static void drop(json_t ** value) {
    json_decref(*value);
    *value = NULL;
}

void json_put(json_t ** object, const char * key, json_t * value) {
    if (json_object_set_new(*object, key, value) != 0) {
        drop(object);
    }
}

void json_append(json_t ** array, json_t * value) {
    if (json_array_append_new(*array, value) != 0) {
        drop(array);
    }
}

json_t * json_size(uint64_t n) {
    return json_integer(n < INT64_MAX ? (json_int_t) n : INT64_MAX);
}

static int append(const char * data, size_t size, void * user) {
    struct buf * b = user;
    buf_append(b, data, size);
    return b->failed ? -1 : 0;
}

void json_print(const json_t * value, size_t flags, struct buf * b) {
    // In ASCII: what steers a terminal is spelled out, and means the same.
    flags |= JSON_ENCODE_ANY | JSON_ENSURE_ASCII;
    if (!value || json_dump_callback(value, append, b, flags) != 0) {
        b->failed = true;
    }
}

bool json_tell(json_t * value, size_t flags, const char * tool) {
    struct buf b = {0};
    json_print(value, flags, &b);
    json_decref(value);
    bool ok = b.data && !b.failed;
    if (ok) {
        fwrite(b.data, 1, b.size, stdout);
        putchar('\n');
    } else {
        fprintf(stderr, "%s: %s\n", tool, json_trouble());
    }
    buf_free(&b);
    return ok;
}
