// cache-entry: writing and reading .meta files, which are sealed texts of keep, and telling two of
// them apart.
#include "cache-entry.h"

#include <inttypes.h>
#include <string.h>

static const struct keep_form form = {.magic = "ggml-hsa kernel\n",
                                      .format = ENTRY_FORMAT,
                                      .last_word = "\ncompiler ",
                                      .n_files = 3,
                                      .files = {"pdi", "insts", "verdict"}};

void entry_print_key(const struct kernel_spec * spec, const char * identity, struct buf * out) {
    char name[KERNEL_NAME_MAX];
    const struct kernel_op_info * op = kernel_op_info(spec->op);
    kernel_name(spec, name);
    buf_printf(out, "%sformat %d\narch %s\nname %s\nop %s\n", form.magic, ENTRY_FORMAT,
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

void entry_print(const struct buf * key, const struct keep_file * pdi,
                 const struct keep_file * insts, const uint8_t verdict[SHA256_BYTES],
                 struct buf * out) {
    struct keep_file files[3] = {*pdi, *insts};
    memcpy(files[2].digest, verdict, SHA256_BYTES); // a digest of no bytes of its own
    keep_seal(&form, key, files, out);
}

enum status entry_parse(const uint8_t * text, size_t size, struct entry_meta * out,
                        struct error * err) {
    struct keep_file files[3];
    enum status st = keep_unseal(&form, text, size, &out->key_size, files, err);
    if (st == ST_OK) {
        out->pdi = files[0];
        out->insts = files[1];
        memcpy(out->verdict, files[2].digest, SHA256_BYTES);
        if (files[2].size) {
            st = error_set(err, ST_CORRUPT, "a verdict of %zu bytes", files[2].size);
        }
    }
    return st;
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
