// manifest: reading, merging and printing. Everything in it is from outside until it was checked
// here; what a file really holds is checked when the file is read (manifest_check).
#include "manifest.h"

#include <stdlib.h>
#include <string.h>

#define FORMAT "ggml-hsa-pack"

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

static int by_program(const void * a, const void * b) {
    return strcmp(((const struct manifest_program *) a)->name,
                  ((const struct manifest_program *) b)->name);
}

static int program_compare(const void * key, const void * program) {
    return strcmp(key, ((const struct manifest_program *) program)->name);
}

const struct manifest_program * manifest_find_program(const struct manifest * m,
                                                      const char * name) {
    return m->n_programs
               ? bsearch(name, m->programs, m->n_programs, sizeof *m->programs, program_compare)
               : NULL;
}

void manifest_free(struct manifest * m) {
    free(m->entries);
    free(m->programs);
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

static enum status parse_file(const char * kernel, const json_t * entry, const char * size_key,
                              const char * digest_key, struct manifest_file * out,
                              struct error * err) {
    json_int_t size = json_integer_value(json_object_get(entry, size_key)); // 0 for other types
    const char * digest = json_string_value(json_object_get(entry, digest_key));
    if (size < 1) {
        return error_set(err, ST_INVALID, "%.120s: '%s' must be a size in bytes", kernel, size_key);
    }
    if (!digest || !parse_digest(digest, out->sha256)) {
        return error_set(err, ST_INVALID, "%.120s: '%s' must be 64 lower-case hexadecimal digits",
                         kernel, digest_key);
    }
    out->size = (uint64_t) size;
    return ST_OK;
}

static enum status parse_entry(const char * kernel, const json_t * entry,
                               struct manifest_entry * out, struct error * err) {
    if (!kernel_name_valid(kernel)) {
        return error_set(err, ST_INVALID, "'%.60s' is no name of a kernel", kernel);
    }
    const char * name = json_string_value(json_object_get(entry, "exported_name"));
    if (!name || !exported_name_valid(name)) {
        return error_set(err, ST_INVALID, "%.120s: 'exported_name' is no file name", kernel);
    }
    memcpy(out->kernel, kernel, strlen(kernel) + 1);
    memcpy(out->exported_name, name, strlen(name) + 1);
    enum status st = parse_file(kernel, entry, "pdi_size", "pdi_sha256", &out->pdi, err);
    return st == ST_OK ? parse_file(kernel, entry, "insts_size", "insts_sha256", &out->insts, err)
                       : st;
}

static enum status parse_program(const char * name, const json_t * entry,
                                 struct manifest_program * out, struct error * err) {
    const char * compiler = json_string_value(json_object_get(entry, "compiler"));
    if (!kernel_name_valid(name)) {
        return error_set(err, ST_INVALID, "'%.60s' is no name of a program", name);
    }
    if (!compiler || !*compiler || strlen(compiler) >= sizeof out->compiler) {
        return error_set(err, ST_INVALID, "%.120s: 'compiler' must be 1 to %d characters", name,
                         MANIFEST_COMPILER_MAX - 1);
    }
    memcpy(out->name, name, strlen(name) + 1);
    memcpy(out->compiler, compiler, strlen(compiler) + 1);
    return parse_file(name, entry, "pdi_size", "pdi_sha256", &out->pdi, err);
}

static bool is_text(const json_t * value, const char * wanted) {
    const char * text = json_string_value(value);
    return text && !strcmp(text, wanted);
}

static enum status check_head(const json_t * root, enum aie_arch arch, struct error * err) {
    if (!is_text(json_object_get(root, "format"), FORMAT)) {
        return error_set(err, ST_INVALID, "this is no manifest of a kernel pack");
    }
    if (json_integer_value(json_object_get(root, "version")) != MANIFEST_VERSION) {
        return error_set(err, ST_INVALID, "only manifests of version %d are understood",
                         MANIFEST_VERSION);
    }
    if (!is_text(json_object_get(root, "arch"), kernel_arch_name(arch))) {
        return error_set(err, ST_INVALID, "this manifest is not for %s", kernel_arch_name(arch));
    }
    if (!json_is_object(json_object_get(root, "kernels"))) {
        return error_set(err, ST_INVALID, "'kernels' must be an object");
    }
    const json_t * programs = json_object_get(root, "programs");
    if (programs && !json_is_object(programs)) {
        return error_set(err, ST_INVALID, "'programs' must be an object");
    }
    return ST_OK;
}

// None were made before there were any.
static enum status parse_programs(json_t * programs, struct manifest * m, struct error * err) {
    size_t n = programs ? json_object_size(programs) : 0;
    if (n == 0) {
        return ST_OK;
    }
    m->programs = calloc(n, sizeof *m->programs);
    if (!m->programs) {
        return error_set(err, ST_NO_MEMORY, "no memory for a manifest of %zu programs", n);
    }
    const char * name;
    json_t * entry;
    json_object_foreach(programs, name, entry) {
        enum status st = parse_program(name, entry, &m->programs[m->n_programs++], err);
        if (st != ST_OK) {
            return st;
        }
    }
    qsort(m->programs, m->n_programs, sizeof *m->programs, by_program);
    return ST_OK;
}

static enum status parse_root(const json_t * root, enum aie_arch arch, struct manifest * out,
                              struct error * err) {
    enum status st = check_head(root, arch, err);
    if (st != ST_OK) {
        return st;
    }
    json_t *kernels = json_object_get(root, "kernels"), *entry;
    size_t n = json_object_size(kernels);
    struct manifest m = {.entries = calloc(n ? n : 1, sizeof *m.entries)};
    if (!m.entries) {
        return error_set(err, ST_NO_MEMORY, "no memory for a manifest of %zu kernels", n);
    }
    const char * kernel;
    json_object_foreach(kernels, kernel, entry) {
        st = parse_entry(kernel, entry, &m.entries[m.n_entries++], err);
        if (st != ST_OK) {
            manifest_free(&m);
            return st;
        }
    }
    qsort(m.entries, m.n_entries, sizeof *m.entries, by_kernel);
    st = parse_programs(json_object_get(root, "programs"), &m, err);
    if (st != ST_OK) {
        manifest_free(&m);
        return st;
    }
    *out = m;
    return ST_OK;
}

enum status manifest_parse(const char * text, size_t size, enum aie_arch arch,
                           struct manifest * out, struct error * err) {
    json_t * root;
    *out = (struct manifest){0};
    enum status st = json_read(text, size, &root, err);
    if (st == ST_OK) {
        st = parse_root(root, arch, out, err);
        json_decref(root);
    }
    return st;
}

enum status manifest_read(const char * path, enum aie_arch arch, struct manifest * out,
                          struct error * err) {
    json_t * root;
    *out = (struct manifest){0};
    enum status st = json_read_file(path, &root, err);
    if (st != ST_OK) {
        return st;
    }
    st = parse_root(root, arch, out, err);
    json_decref(root);
    if (st != ST_OK) {
        error_prefix(err, st, "%s", path);
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
    m->entries = all;
    m->n_entries = kept;
    return ST_OK;
}

enum status manifest_put_program(struct manifest * m, const struct manifest_program * program,
                                 struct error * err) {
    struct manifest_program * old =
        (struct manifest_program *) manifest_find_program(m, program->name);
    if (old) {
        *old = *program;
        return ST_OK;
    }
    struct manifest_program * all = realloc(m->programs, (m->n_programs + 1) * sizeof *all);
    if (!all) {
        return error_set(err, ST_NO_MEMORY, "no memory for a manifest of %zu programs",
                         m->n_programs + 1);
    }
    all[m->n_programs++] = *program;
    qsort(all, m->n_programs, sizeof *all, by_program);
    m->programs = all;
    return ST_OK;
}

static void put_file(json_t ** entry, const char * size_key, const char * digest_key,
                     const struct manifest_file * file) {
    char digest[SHA256_TEXT];
    sha256_print(file->sha256, digest);
    json_put(entry, size_key, json_size(file->size));
    json_put(entry, digest_key, json_string(digest));
}

enum status manifest_print(const struct manifest * m, enum aie_arch arch, struct buf * b,
                           struct error * err) {
    json_t *root = json_object(), *kernels = json_object();
    for (size_t i = 0; i < m->n_entries; i++) {
        const struct manifest_entry * e = &m->entries[i];
        json_t * entry = json_object();
        json_put(&entry, "exported_name", json_string(e->exported_name));
        put_file(&entry, "pdi_size", "pdi_sha256", &e->pdi);
        put_file(&entry, "insts_size", "insts_sha256", &e->insts);
        json_put(&kernels, e->kernel, entry);
    }
    json_put(&root, "format", json_string(FORMAT));
    json_put(&root, "version", json_integer(MANIFEST_VERSION));
    json_put(&root, "arch", json_string(kernel_arch_name(arch)));
    json_put(&root, "kernels", kernels);
    if (m->n_programs) {
        json_t * programs = json_object();
        for (size_t i = 0; i < m->n_programs; i++) {
            const struct manifest_program * p = &m->programs[i];
            json_t * entry = json_object();
            json_put(&entry, "compiler", json_string(p->compiler));
            put_file(&entry, "pdi_size", "pdi_sha256", &p->pdi);
            json_put(&programs, p->name, entry);
        }
        json_put(&root, "programs", programs);
    }
    json_print(root, JSON_INDENT(1), b);
    buf_printf(b, "\n");
    json_decref(root);
    if (b->failed) {
        return error_set(err, ST_NO_MEMORY, "no memory for a manifest of %zu kernels",
                         m->n_entries);
    }
    if (json_check_bounds((const char *) b->data, b->size, NULL) != ST_OK) {
        size_t size = b->size;
        buf_free(b);
        return error_set(err, ST_UNSUPPORTED,
                         "a manifest of %zu kernels has %zu bytes, %zu can be read again: divide "
                         "the kernels into packs of fewer",
                         m->n_entries, size, JSON_MAX_BYTES);
    }
    return ST_OK;
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
