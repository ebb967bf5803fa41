// test-choices: the table of how loops are pipelined (src/aie/asm/choices.def) is what the search
// finds with all patience. The test holds that the loops of the compiler's kernels are in it: one
// that is not is searched for whenever its kernel is compiled. --write FILE writes it: loops that
// are in it stay as they are, others are searched for, seconds each, or with --quick as a
// compilation does; with --loose those, too, whose interval is over 1.3 times what slots take, with
// --anew all, which takes an hour. The library has to be built again afterwards, and test-digests
// written. Programs that the checker went through are in the table, too.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aie/asm/asm.h"
#include "aie/ops/every-kernel.h"

enum { MAX_LOOPS = 8192, LINE = 100 };

static struct table {
    struct asm_found loops[MAX_LOOPS];
    int n;
    char names[1024][KERNEL_NAME_MAX];
    int n_names;
} table;

static void keep(void * user, const struct asm_found * found) {
    struct table * t = user;
    for (int i = 0; i < t->n; i++) {
        if (t->loops[i].loop == found->loop && t->loops[i].kind == found->kind) {
            return;
        }
    }
    if (t->n < MAX_LOOPS) {
        t->loops[t->n] = *found;
        t->loops[t->n++].places = found->places ? strdup(found->places) : NULL;
    }
}

// Each program once, on each architecture and with each precision.
static void compile(void * user, const struct kernel_spec * spec) {
    struct table * t = user;
    for (int k = 0; k < 4; k++) {
        struct kernel_spec s = *spec;
        uint8_t * pdi = NULL;
        size_t size = 0;
        struct error err;
        char name[KERNEL_NAME_MAX], full[KERNEL_NAME_MAX];
        s.arch = k & 1 ? AIE_ARCH_AIE2P : AIE_ARCH_AIE2;
        s.precision = k & 2 ? KERNEL_EXACT : s.precision;
        if (aie_supports(&s, NULL) != ST_OK) {
            continue;
        }
        aie_program_name(&s, name);
        snprintf(full, sizeof full, "%d %.*s", k & 1, (int) sizeof full - 4, name);
        int i = 0;
        while (i < t->n_names && strcmp(t->names[i], full) != 0) {
            i++;
        }
        if (i < t->n_names || t->n_names == 1024) {
            continue;
        }
        snprintf(t->names[t->n_names++], KERNEL_NAME_MAX, "%s", full);
        if (aie_compile_pdi(&s, &pdi, &size, &err) != ST_OK) {
            fprintf(stderr, "%s: %s\n", name, err.text);
        }
        free(pdi);
    }
}

static int write_table(const char * path, enum asm_search which) {
    asm_watch_found(keep, &table, which);
    visit_all(compile, &table);
    asm_watch_found(NULL, NULL, ASM_SEARCH_NEW);
    qsort(table.loops, (size_t) table.n, sizeof table.loops[0], asm_found_order);
    FILE * file = fopen(path, "we");
    if (!file) {
        perror(path);
        return 1;
    }
    fputs(
        "// Written by build/bin/test-choices --write: LOOP(what it is, interval, registers of a\n"
        "// local, the order in which its instructions are placed and the seed of changes to it,\n"
        "// bundles of a trip alone, its window). An interval of 0: trips do not overlap.\n"
        "// PLACED(what it is, interval, registers of a local, seed, bundles of a trip alone, its\n"
        "// window, where its instructions stand and in which registers its values are).\n"
        "// REGION(what it is, its window). PROVED(a program that the checker went through, by "
        "its\n"
        "// bytes).\n",
        file);
    for (int i = 0; i < table.n; i++) {
        const struct asm_found * f = &table.loops[i];
        if (f->kind == ASM_FOUND_PROGRAM) {
            fprintf(file, "PROVED(0x%016" PRIx64 ")\n", f->loop);
        } else if (f->kind == ASM_FOUND_REGION) {
            fprintf(file, "REGION(0x%016" PRIx64 ", %d)\n", f->loop, f->window);
        } else if (f->places) {
            fprintf(file, "PLACED(0x%016" PRIx64 ", %d, %d, %d, %d, %d,\n", f->loop, f->ii,
                    f->copies, f->seed, f->plain, f->window);
            for (size_t at = 0; at < strlen(f->places); at += LINE) {
                bool last = at + LINE >= strlen(f->places);
                fprintf(file, "       \"%.*s\"%s\n", LINE, f->places + at, last ? ")" : "");
            }
        } else {
            fprintf(file, "LOOP(0x%016" PRIx64 ", %d, %d, %d, %d, %d, %d)\n", f->loop, f->ii,
                    f->copies, f->way, f->seed, f->plain, f->window);
        }
    }
    printf("%d loops of %d programs\n", table.n, table.n_names);
    return fclose(file) == 0 ? 0 : 1;
}

static void is_there(void ** state) {
    (void) state;
    int known, unknown;
    asm_count_found(&known, &unknown);
    visit_all(compile, &table);
    asm_count_found(&known, &unknown);
    print_message("%d loops in the table, %d not\n", known, unknown);
    assert_true(known > 0);
    assert_int_equal(unknown, 0); // else: --write, see above
}

static void see_program(void * user, const struct asm_found * found) {
    int * programs = user;
    if (found->kind == ASM_FOUND_PROGRAM) {
        assert_true(asm_is_proved(found->loop)); // else: --write, see above
        (*programs)++;
    }
}

// The checker went through all of these here, and every compilation but this one takes its word.
static void is_proved(void ** state) {
    (void) state;
    int programs = 0;
    table.n_names = 0;
    asm_watch_found(see_program, &programs, ASM_SEARCH_QUICK);
    visit_all(compile, &table);
    asm_watch_found(NULL, NULL, ASM_SEARCH_NEW);
    print_message("%d programs\n", programs);
    assert_true(programs > 0);
}

int main(int argc, char ** argv) {
    if (argc >= 3 && strcmp(argv[1], "--write") == 0) {
        const char * which = argc > 3 ? argv[3] : "";
        return write_table(argv[2], strcmp(which, "--anew") == 0    ? ASM_SEARCH_ALL
                                    : strcmp(which, "--loose") == 0 ? ASM_SEARCH_LOOSE
                                    : strcmp(which, "--quick") == 0 ? ASM_SEARCH_QUICK
                                                                    : ASM_SEARCH_NEW);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_there), cmocka_unit_test(is_proved)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
