// cache-entry: writing and reading .meta files. Reading is strict: a text is accepted only when
// printing what was read from it gives the same text again, so there is one way to say a thing and
// no byte that does not count.
#include "cache-entry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char magic[] = "ggml-hsa kernel\n";

void entry_print_key(const struct kernel_spec * spec, const char * identity, struct buf * out) {
    char name[KERNEL_NAME_MAX];
    const struct kernel_op_info * op = kernel_op_info(spec->op);
    kernel_name(spec, name);
    buf_printf(out, "%sformat %d\narch %s\nname %s\nop %s\n", magic, ENTRY_FORMAT,
               kernel_arch_name(spec->arch), name, op->name);
    for (int i = 0; i <= spec->n_inputs; i++) {
        bool last = i == spec->n_inputs;
        struct tensor t = tensor_canonical(last ? &spec->output : &spec->inputs[i]);
        buf_printf(out, "%s ", last ? "output" : "input");
        tensor_print(&t, out);
        buf_printf(out, "\n");
    }
    for (int i = 0; i < op->n_params; i++) {
        buf_printf(out, "%s%" PRIx32 "%s", i ? " " : "params ", spec->params[i],
                   i + 1 == op->n_params ? "\n" : "");
    }
    buf_printf(out, "compiler %s\n", identity);
}

static void print_file(const char * what, const struct entry_file * f, struct buf * out) {
    char digest[SHA256_TEXT];
    sha256_print(f->digest, digest);
    buf_printf(out, "%s %zu %s\n", what, f->size, digest);
}

void entry_print(const struct buf * key, const struct entry_file * pdi,
                 const struct entry_file * insts, struct buf * out) {
    buf_append(out, key->data, key->size);
    print_file("pdi", pdi, out);
    print_file("insts", insts, out);
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
static bool parse_file(const char ** at, const char * what, struct entry_file * out) {
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

enum status entry_parse(const uint8_t * bytes, size_t size, struct entry_meta * out,
                        struct error * err) {
    const char * text = (const char *) bytes;
    int format = 0;
    if (memchr(text, 0, size) || size < sizeof magic || memcmp(text, magic, sizeof magic - 1) ||
        sscanf(text + sizeof magic - 1, "format %9d\n", &format) != 1) {
        return error_set(err, ST_CORRUPT, "not a description of a kernel");
    }
    if (format != ENTRY_FORMAT) {
        return error_set(err, ST_UNSUPPORTED, "format %d, this build has %d", format, ENTRY_FORMAT);
    }
    const char * end = strstr(text, "\ncompiler ");
    end = end ? strchr(end + 1, '\n') : NULL;
    const char * at = end ? end + 1 : text;
    if (!end || !parse_file(&at, "pdi", &out->pdi) || !parse_file(&at, "insts", &out->insts)) {
        return error_set(err, ST_CORRUPT, "its description is cut or garbled");
    }
    out->key_size = (size_t) (end + 1 - text);
    struct buf key = {.data = (uint8_t *) (uintptr_t) bytes, .size = out->key_size};
    struct buf again = {0};
    entry_print(&key, &out->pdi, &out->insts, &again);
    bool same = !again.failed && again.size == size && !memcmp(again.data, bytes, size);
    bool failed = again.failed;
    buf_free(&again);
    if (failed) {
        return error_set(err, ST_NO_MEMORY, "no memory for its description");
    }
    return same ? ST_OK
                : error_set(err, ST_CORRUPT, "its description does not match its own check line");
}

// ---- differences ----

struct line {
    const char * text;
    int size;
};

// The nth line of a text that begins with `word`; size 0 when there are fewer.
static struct line find_line(const char * text, size_t size, const char * word, size_t word_size,
                             int nth) {
    for (const char *p = text, *end = text + size; p < end;) {
        const char * stop = memchr(p, '\n', (size_t) (end - p));
        size_t n = (size_t) ((stop ? stop : end) - p);
        if (n > word_size && !memcmp(p, word, word_size) && p[word_size] == ' ' && nth-- == 0) {
            return (struct line){p + word_size + 1, (int) (n - word_size - 1)};
        }
        p += n + 1;
    }
    return (struct line){"", 0};
}

int entry_key_diff(const char * have, size_t have_size, const char * want, size_t want_size,
                   struct buf * out) {
    static const struct {
        const char *word, *shown;
        int nth;
    } parts[] = {
        {"format", "format version", 0}, {"arch", "architecture", 0}, {"op", "operation", 0},
        {"input", "input 0", 0},         {"input", "input 1", 1},     {"input", "input 2", 2},
        {"input", "input 3", 3},         {"output", "output", 0},     {"params", "parameters", 0},
        {"compiler", "compiler", 0},
    };
    int n = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t word = strlen(parts[i].word);
        struct line a = find_line(have, have_size, parts[i].word, word, parts[i].nth);
        struct line b = find_line(want, want_size, parts[i].word, word, parts[i].nth);
        if (a.size == b.size && !memcmp(a.text, b.text, (size_t) a.size)) {
            continue;
        }
        buf_printf(out, "%s: the cache has %.*s, wanted is %.*s\n", parts[i].shown,
                   a.size ? a.size : 4, a.size ? a.text : "none", b.size ? b.size : 4,
                   b.size ? b.text : "none");
        n++;
    }
    return n;
}
