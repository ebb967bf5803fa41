// seal: writing and reading sealed texts, and the files that they describe.
#include "keep.h"

#include "base/dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_file(const char * what, const struct keep_file * f, struct buf * out) {
    char digest[SHA256_TEXT];
    sha256_print(f->digest, digest);
    buf_printf(out, "%s %zu %s\n", what, f->size, digest);
}

void keep_seal(const struct keep_form * form, const struct buf * key,
               const struct keep_file * files, struct buf * out) {
    buf_append(out, key->data, key->size);
    for (int i = 0; i < form->n_files; i++) {
        print_file(form->files[i], &files[i], out);
    }
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_TEXT];
    sha256(out->data, out->size, digest);
    sha256_print(digest, text);
    buf_printf(out, "check %s\n", text);
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_digest(const char * text, uint8_t digest[SHA256_BYTES]) {
    for (int i = 0; i < SHA256_BYTES; i++) {
        int hi = hex_digit(text[2 * i]), lo = hi < 0 ? -1 : hex_digit(text[2 * i + 1]);
        if (lo < 0) {
            return false;
        }
        digest[i] = (uint8_t) (hi << 4 | lo);
    }
    return true;
}

// "pdi 20480 5be0...\n"; *at moves behind it. The text ends in a zero byte.
static bool parse_file(const char ** at, const char * what, struct keep_file * out) {
    size_t n = strlen(what);
    unsigned long long size;
    int digest;
    if (strncmp(*at, what, n) || (*at)[n] != ' ' || hex_digit((*at)[n + 1]) < 0 ||
        sscanf(*at + n, " %llu %n", &size, &digest) != 1 ||
        !parse_digest(*at + n + digest, out->digest)) {
        return false;
    }
    out->size = (size_t) size;
    *at += n + (size_t) digest + 2 * SHA256_BYTES;
    return *(*at)++ == '\n';
}

enum status keep_unseal(const struct keep_form * form, const uint8_t * bytes, size_t size,
                        size_t * key_size, struct keep_file * files, struct error * err) {
    const char * text = (const char *) bytes;
    size_t magic = strlen(form->magic);
    int format = 0;
    if (memchr(text, 0, size) || size <= magic || memcmp(text, form->magic, magic) ||
        sscanf(text + magic, "format %9d\n", &format) != 1) {
        return error_set(err, ST_CORRUPT, "not a description of a kernel");
    }
    if (format != form->format) {
        return error_set(err, ST_UNSUPPORTED, "format %d, this build has %d", format, form->format);
    }
    const char * end = strstr(text, form->last_word);
    end = end ? strchr(end + 1, '\n') : NULL;
    const char * at = end ? end + 1 : text;
    for (int i = 0; end && i < form->n_files; i++) {
        end = parse_file(&at, form->files[i], &files[i]) ? end : NULL;
    }
    if (!end) {
        return error_set(err, ST_CORRUPT, "its description is cut or garbled");
    }
    *key_size = (size_t) (end + 1 - text);
    struct buf key = {.data = (uint8_t *) (uintptr_t) bytes, .size = *key_size};
    struct buf again = {0};
    keep_seal(form, &key, files, &again);
    bool same = !again.failed && again.size == size && !memcmp(again.data, bytes, size);
    bool failed = again.failed;
    buf_free(&again);
    if (failed) {
        return error_set(err, ST_NO_MEMORY, "no memory for its description");
    }
    return same ? ST_OK
                : error_set(err, ST_CORRUPT, "its description does not match its own check line");
}

enum status keep_read(int dir, const char * name, size_t max, const struct keep_file * want,
                      uint8_t ** data, struct error * err) {
    size_t size;
    enum status st = dir_read(dir, name, max, data, &size, err);
    if (st == ST_NOT_FOUND) { // described, but not there
        return error_set(err, ST_CORRUPT, "%.250s is missing", name);
    }
    if (st != ST_OK) {
        return st;
    }
    uint8_t digest[SHA256_BYTES];
    sha256(*data, size, digest);
    if (size == want->size && !memcmp(digest, want->digest, sizeof digest)) {
        return ST_OK;
    }
    free(*data);
    *data = NULL;
    return error_set(err, ST_CORRUPT, "%.250s: %s", name,
                     size == want->size ? "its bytes have changed" : "its length has changed");
}
