// manifest: reading, merging and printing. Everything in it is from outside until it was checked
// here; what a file really holds is checked when the file is read (manifest_check).
#include "manifest.h"

#include <stdlib.h>
#include <string.h>

#define MAX_MANIFEST_BYTES ((size_t) 64 << 20) // some 150,000 kernels

// ---- order ----

static int by_kernel(const void * a, const void * b) {
    return strcmp(((const struct manifest_entry *) a)->kernel,
                  ((const struct manifest_entry *) b)->kernel);
}

static int by_files(const void * a, const void * b) {
    return strcmp(((const struct manifest_entry *) a)->exported_name,
                  ((const struct manifest_entry *) b)->exported_name);
}

static int kernel_compare(const void * key, const void * entry) {
    return strcmp(key, ((const struct manifest_entry *) entry)->kernel);
}

static int files_compare(const void * key, const void * entry) {
    return strcmp(key, ((const struct manifest_entry *) entry)->exported_name);
}

const struct manifest_entry * manifest_find(const struct manifest * m, const char * kernel) {
    return m->n_entries
               ? bsearch(kernel, m->entries, m->n_entries, sizeof *m->entries, kernel_compare)
               : NULL;
}

void manifest_free(struct manifest * m) {
    free(m->entries);
    *m = (struct manifest){0};
}

// ---- reading ----

// What our names are made of; others would match nothing, and might be long.
static bool kernel_name_valid(const char * name) {
    return strlen(name) < KERNEL_NAME_MAX && exported_name_valid(name);
}

static bool parse_digest(const char * text, uint8_t digest[SHA256_BYTES]) {
    static const char digits[] = "0123456789abcdef";
    if (strlen(text) != 2 * SHA256_BYTES || strspn(text, digits) != 2 * SHA256_BYTES) {
        return false;
    }
    for (int i = 0; i < SHA256_BYTES; i++) {
        digest[i] = (uint8_t) ((strchr(digits, text[2 * i]) - digits) << 4 |
                               (strchr(digits, text[2 * i + 1]) - digits));
    }
    return true;
}

static enum status parse_file(const struct json * entry, const char * size_key,
                              const char * digest_key, struct manifest_file * out,
                              struct error * err) {
    const struct json * size = json_member(entry, size_key, NULL);
    const struct json * digest = json_member(entry, digest_key, NULL);
    if (!size || size->type != JSON_INTEGER || size->integer < 1) {
        return error_set(err, ST_INVALID, "line %d: '%s' must be a size in bytes", entry->line,
                         size_key);
    }
    if (!digest || digest->type != JSON_STRING || !parse_digest(digest->string, out->sha256)) {
        return error_set(err, ST_INVALID, "line %d: '%s' must be 64 lower-case hexadecimal digits",
                         entry->line, digest_key);
    }
    out->size = (uint64_t) size->integer;
    return ST_OK;
}

static enum status parse_entry(const struct json * entry, struct manifest_entry * out,
                               struct error * err) {
    const struct json * name = json_member(entry, "exported_name", NULL);
    if (!kernel_name_valid(entry->key)) {
        return error_set(err, ST_INVALID, "line %d: '%.60s' is no name of a kernel", entry->line,
                         entry->key);
    }
    if (!name || name->type != JSON_STRING || !exported_name_valid(name->string)) {
        return error_set(err, ST_INVALID, "line %d: 'exported_name' of %.60s is no file name",
                         entry->line, entry->key);
    }
    memcpy(out->kernel, entry->key, strlen(entry->key) + 1);
    memcpy(out->exported_name, name->string, strlen(name->string) + 1);
    enum status st = parse_file(entry, "pdi_size", "pdi_sha256", &out->pdi, err);
    return st == ST_OK ? parse_file(entry, "insts_size", "insts_sha256", &out->insts, err) : st;
}

static enum status check_head(const struct json * root, enum aie_arch arch,
                              const struct json ** kernels, struct error * err) {
    const struct json * format = json_member(root, "format", NULL);
    const struct json * version = json_member(root, "version", NULL);
    const struct json * of = json_member(root, "arch", NULL);
    *kernels = json_member(root, "kernels", NULL);
    if (!format || format->type != JSON_STRING || strcmp(format->string, "ggml-hsa-pack")) {
        return error_set(err, ST_INVALID, "this is no manifest of a kernel pack");
    }
    if (!version || version->type != JSON_INTEGER || version->integer != MANIFEST_VERSION) {
        return error_set(err, ST_INVALID, "only manifests of version %d are understood",
                         MANIFEST_VERSION);
    }
    if (!of || of->type != JSON_STRING || strcmp(of->string, kernel_arch_name(arch))) {
        return error_set(err, ST_INVALID, "this manifest is not for %s", kernel_arch_name(arch));
    }
    if (!*kernels || (*kernels)->type != JSON_OBJECT) {
        return error_set(err, ST_INVALID, "'kernels' must be an object");
    }
    return ST_OK;
}

static enum status parse_kernels(const struct json * kernels, struct manifest * out,
                                 struct error * err) {
    size_t n = 0;
    for (const struct json * k = kernels->first; k; k = k->next) {
        n++;
    }
    struct manifest m = {calloc(n ? n : 1, sizeof *m.entries), 0};
    if (!m.entries) {
        return error_set(err, ST_NO_MEMORY, "no memory for a manifest of %zu kernels", n);
    }
    for (const struct json * k = kernels->first; k; k = k->next) {
        enum status st = parse_entry(k, &m.entries[m.n_entries++], err);
        if (st != ST_OK) {
            manifest_free(&m);
            return st;
        }
    }
    qsort(m.entries, m.n_entries, sizeof *m.entries, by_kernel);
    for (size_t i = 1; i < m.n_entries; i++) {
        if (!by_kernel(&m.entries[i - 1], &m.entries[i])) {
            enum status st =
                error_set(err, ST_INVALID, "kernel %.120s is there twice", m.entries[i].kernel);
            manifest_free(&m);
            return st;
        }
    }
    *out = m;
    return ST_OK;
}

enum status manifest_parse(const char * text, size_t size, enum aie_arch arch,
                           struct manifest * out, struct error * err) {
    struct json_doc doc;
    const struct json * kernels;
    *out = (struct manifest){0};
    enum status st = json_parse(text, size, &doc, err);
    if (st != ST_OK) {
        return st;
    }
    st = check_head(doc.root, arch, &kernels, err);
    if (st == ST_OK) {
        st = parse_kernels(kernels, out, err);
    }
    json_free(&doc);
    return st;
}

enum status manifest_read(const char * path, enum aie_arch arch, struct manifest * out,
                          struct error * err) {
    uint8_t * text;
    size_t size;
    *out = (struct manifest){0};
    enum status st = file_read(path, MAX_MANIFEST_BYTES, &text, &size, err);
    if (st != ST_OK) {
        return st;
    }
    st = manifest_parse((const char *) text, size, arch, out, err);
    free(text);
    if (st != ST_OK) {
        error_prefix(err, "%s", path);
    }
    return st;
}

// ---- writing ----

static int by_kernel_and_files(const void * a, const void * b) {
    int order = by_kernel(a, b);
    return order ? order : by_files(a, b);
}

// Moves the entries whose key is not in `fresh` to the front; returns how many those are.
static size_t without(struct manifest_entry * entries, size_t n,
                      const struct manifest_entry * fresh, size_t n_fresh, size_t key_offset,
                      int (*compare)(const void * key, const void * entry)) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        const char * key = (const char *) &entries[i] + key_offset;
        if (!bsearch(key, fresh, n_fresh, sizeof *fresh, compare)) {
            entries[kept++] = entries[i];
        }
    }
    return kept;
}

enum status manifest_merge(struct manifest * m, const struct manifest_entry * entries, size_t n,
                           struct error * err) {
    if (n == 0) {
        return ST_OK;
    }
    struct manifest_entry * all = malloc((m->n_entries + n) * sizeof *all);
    struct manifest_entry * fresh = malloc(n * sizeof *fresh);
    if (!all || !fresh) {
        free(all);
        free(fresh);
        return error_set(err, ST_NO_MEMORY, "no memory for a manifest of %zu kernels",
                         m->n_entries + n);
    }
    size_t kept = m->n_entries;
    if (kept) {
        memcpy(all, m->entries, kept * sizeof *all);
    }
    memcpy(fresh, entries, n * sizeof *fresh);
    qsort(fresh, n, sizeof *fresh, by_files);
    kept =
        without(all, kept, fresh, n, offsetof(struct manifest_entry, exported_name), files_compare);
    qsort(fresh, n, sizeof *fresh, by_kernel_and_files);
    kept = without(all, kept, fresh, n, offsetof(struct manifest_entry, kernel), kernel_compare);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || by_kernel(&fresh[i - 1], &fresh[i])) {
            all[kept++] = fresh[i];
        }
    }
    free(fresh);
    qsort(all, kept, sizeof *all, by_kernel);
    free(m->entries);
    *m = (struct manifest){all, kept};
    return ST_OK;
}

void manifest_print(const struct manifest * m, enum aie_arch arch, struct buf * b) {
    buf_printf(b,
               "{\"format\": \"ggml-hsa-pack\", \"version\": %d, \"arch\": \"%s\", \"kernels\": {",
               MANIFEST_VERSION, kernel_arch_name(arch));
    for (size_t i = 0; i < m->n_entries; i++) {
        const struct manifest_entry * e = &m->entries[i];
        char pdi[SHA256_TEXT], insts[SHA256_TEXT];
        sha256_print(e->pdi.sha256, pdi);
        sha256_print(e->insts.sha256, insts);
        buf_printf(
            b,
            "%s\n\"%s\": {\"exported_name\": \"%s\",\n    \"pdi_size\": %llu, \"pdi_sha256\": "
            "\"%s\",\n    \"insts_size\": %llu, \"insts_sha256\": \"%s\"}",
            i ? "," : "", e->kernel, e->exported_name, (unsigned long long) e->pdi.size, pdi,
            (unsigned long long) e->insts.size, insts);
    }
    buf_printf(b, "\n}}\n");
}

enum status manifest_check(const struct manifest_file * file, const void * data, size_t size,
                           const char * what, struct error * err) {
    if (size != file->size) {
        return error_set(err, ST_CORRUPT, "%s: %zu bytes, its manifest says %llu", what, size,
                         (unsigned long long) file->size);
    }
    uint8_t digest[SHA256_BYTES];
    sha256(data, size, digest);
    if (memcmp(digest, file->sha256, sizeof digest)) {
        char is[SHA256_TEXT], said[SHA256_TEXT];
        sha256_print(digest, is);
        sha256_print(file->sha256, said);
        return error_set(err, ST_CORRUPT, "%s: its SHA-256 is %.16s…, its manifest says %.16s…",
                         what, is, said);
    }
    return ST_OK;
}
