// tune/programs: the text of every program that the compiler has, each once, by a name: the target,
// the PDI, and the program's number where a PDI has several (aie2/decoder.2).
#include "aie/asm/text.h"
#include "every-kernel.h"
#include "tune.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_PDIS = 1024, MOST_IN_PDI = 16 };

struct visitor {
    tune_program_fn fn;
    void * user;
    enum status st; // once it is no longer ST_OK nothing is visited
    struct error * err;
    char (*names)[TUNE_NAME_MAX]; // of PDIs that were seen
    int n_names;
};

// The programs of one PDI.
struct texts {
    char * of[MOST_IN_PDI];
    int n;
    bool failed;
};

static void keep(void * user, enum asm_pass pass, const char * text) {
    struct texts * t = user;
    if (pass == ASM_PASS_BUILT) {
        t->failed |= t->n == MOST_IN_PDI || !(t->of[t->n++] = strdup(text));
    }
}

static bool is_new(struct visitor * v, const char * name) {
    for (int i = 0; i < v->n_names; i++) {
        if (strcmp(v->names[i], name) == 0) {
            return false;
        }
    }
    if (v->n_names == MAX_PDIS) {
        v->st = error_set(v->err, ST_INVALID, "tune: more than %d PDIs; enlarge MAX_PDIS in %s",
                          MAX_PDIS, __FILE__);
        return false;
    }
    snprintf(v->names[v->n_names++], TUNE_NAME_MAX, "%s", name);
    return true;
}

static void visit_pdi(struct visitor * v, const struct kernel_spec * spec, const char * name) {
    struct texts texts = {0};
    const struct asm_listener to = {keep, &texts};
    uint8_t * pdi = NULL;
    size_t size;
    asm_listen(&to);
    v->st = aie_compile_pdi(spec, &pdi, &size, v->err);
    asm_listen(NULL);
    free(pdi);
    if (v->st == ST_OK && texts.failed) {
        v->st = error_set(v->err, ST_NO_MEMORY, "no room for the text of its programs");
    }
    for (int i = 0; i < texts.n; i++) {
        char full[TUNE_NAME_MAX];
        snprintf(full, sizeof full, texts.n > 1 ? "%s.%d" : "%s", name, i);
        v->st = v->st == ST_OK ? v->fn(v->user, full, texts.of[i], v->err) : v->st;
        free(texts.of[i]);
    }
    if (v->st != ST_OK) {
        error_prefix(v->err, v->st, "%s", name);
    }
}

// On each architecture and with each precision.
static void visit(void * user, const struct kernel_spec * spec) {
    struct visitor * v = user;
    for (int k = 0; k < 2 * AIE_ARCH_COUNT && v->st == ST_OK; k++) {
        struct kernel_spec s = *spec;
        char name[KERNEL_NAME_MAX], full[TUNE_NAME_MAX];
        s.arch = (enum aie_arch)(k / 2);
        s.precision = k & 1 ? KERNEL_EXACT : s.precision;
        if (aie_supports(&s, NULL) == ST_OK) {
            aie_program_name(&s, name);
            snprintf(full, sizeof full, "%s/%s", aie_target(s.arch)->name, name);
            if (is_new(v, full)) {
                visit_pdi(v, &s, full);
            }
        }
    }
}

enum status tune_every_program(tune_program_fn fn, void * user, struct error * err) {
    struct visitor v = {.fn = fn, .user = user, .err = err};
    v.names = malloc(MAX_PDIS * sizeof *v.names);
    if (!v.names) {
        return error_set(err, ST_NO_MEMORY, "tune: out of memory");
    }
    visit_all(visit, &v);
    free(v.names);
    return v.st;
}
