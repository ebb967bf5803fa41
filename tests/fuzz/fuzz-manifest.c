// fuzz-manifest: arbitrary bytes as the manifest of a pack. What is accepted is printed and read
// again, and is then the same; everything in it is found by its name, and its names are file names.
#include "fuzz.h"

#include "store/manifest.h"

const int fuzz_rounds = 5000;
const int fuzz_longest = 1200;

static void check(const struct manifest * m) {
    for (size_t i = 0; i < m->n_entries; i++) {
        const struct manifest_entry * e = &m->entries[i];
        if (manifest_find(m, e->kernel) != e || !exported_name_valid(e->exported_name) ||
            (i && strcmp(m->entries[i - 1].kernel, e->kernel) >= 0)) {
            abort();
        }
    }
    for (size_t i = 0; i < m->n_programs; i++) {
        const struct manifest_program * p = &m->programs[i];
        if (manifest_find_program(m, p->name) != p || strchr(p->name, '/') || p->name[0] == '.' ||
            (i && strcmp(m->programs[i - 1].name, p->name) >= 0)) {
            abort();
        }
    }
}

// Merged into another one, or with itself, nothing is lost and nothing comes twice.
static void check_merge(const struct manifest * m) {
    struct manifest all = {0};
    for (int i = 0; i < 2; i++) {
        if (manifest_merge(&all, m->entries, m->n_entries, NULL) != ST_OK) {
            abort();
        }
        for (size_t k = m->n_programs; k--;) {
            if (manifest_put_program(&all, &m->programs[k], NULL) != ST_OK) {
                abort();
            }
        }
    }
    if (all.n_entries != m->n_entries || all.n_programs != m->n_programs) {
        abort();
    }
    check(&all);
    manifest_free(&all);
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    struct manifest m, back;
    struct error err = {0};
    enum status st = manifest_parse(size ? (const char *) data : "", size, AIE_ARCH_AIE2, &m, &err);
    if (st != ST_OK) {
        if (!err.text[0]) {
            abort();
        }
        return 0;
    }
    check(&m);
    check_merge(&m);
    struct buf text = {0};
    if (manifest_print(&m, AIE_ARCH_AIE2, &text, NULL) != ST_OK || text.failed ||
        manifest_parse((char *) text.data, text.size, AIE_ARCH_AIE2, &back, &err) != ST_OK ||
        back.n_entries != m.n_entries || back.n_programs != m.n_programs ||
        (m.n_entries && memcmp(back.entries, m.entries, m.n_entries * sizeof *m.entries)) ||
        (m.n_programs && memcmp(back.programs, m.programs, m.n_programs * sizeof *m.programs))) {
        abort();
    }
    buf_free(&text);
    manifest_free(&m);
    manifest_free(&back);
    return 0;
}

// A manifest of n kernels and programs, as manifest_print writes it.
bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    static const char * const texts[] = {
        "{\"format\": \"ggml-hsa-pack\", \"version\": 1, \"arch\": \"aie2\", \"kernels\": {}}",
        "{\"format\": \"ggml-hsa-pack\", \"version\": 2, \"arch\": \"aie2\"}",
        "{\"format\": \"ggml-hsa-pack\", \"version\": 1, \"arch\": \"aie2p\", \"kernels\": {}}",
    };
    if (i >= 3) {
        return fuzz_texts(texts, sizeof texts / sizeof texts[0], i - 3, data, size);
    }
    struct manifest m = {0};
    struct buf text = {0};
    for (int k = 0; k < i; k++) {
        struct manifest_entry e = {.pdi = {20480, {1}}, .insts = {64, {2}}};
        struct manifest_program p = {.compiler = "aie 0123", .pdi = {4096, {3}}};
        buf_printf(&text, "add_f32_%d", k);
        memcpy(e.kernel, text.data, text.size);
        memcpy(e.exported_name, text.data, text.size);
        memcpy(p.name, text.data, text.size);
        buf_free(&text);
        text = (struct buf){0};
        if (manifest_merge(&m, &e, 1, NULL) != ST_OK ||
            manifest_put_program(&m, &p, NULL) != ST_OK) {
            abort();
        }
    }
    if (manifest_print(&m, AIE_ARCH_AIE2, &text, NULL) != ST_OK) {
        abort();
    }
    manifest_free(&m);
    *data = text.data;
    *size = text.size;
    return true;
}
