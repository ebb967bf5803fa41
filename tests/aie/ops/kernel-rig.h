// kernel-rig: runs one compiled kernel on an emulated array with plain host memory as operands.
// Each operand has a guard behind it that must not change.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aie/aie.h"
#include "aie/image/image.h"
#include "aie/target/target.h"
#include "emu/aie/machine.h"

// The architecture that specs name and the machine is of; tests that know one only leave it alone.
static enum aie_arch rig_arch = AIE_ARCH_AIE2;

// Whether a test goes through all that it has (`make test-ops`) or, as in `make test`, through a
// part of it that still meets every kind of program and of layout.
static bool rig_whole;

// From argument `at` on: the architecture, where a test knows several, and `whole`.
static inline void rig_arguments(int argc, char ** argv, int at) {
    for (int i = at; i < argc; i++) {
        if (strcmp(argv[i], "whole") == 0) {
            rig_whole = true;
        } else if (!kernel_arch_parse(argv[i], &rig_arch)) {
            fprintf(stderr, "%s: there is no architecture %s\n", argv[0], argv[i]);
            exit(2);
        }
    }
}

// Of lengths up to 40 the shortest, and whole vectors with one more or less; or all of them.
static inline bool rig_length(int64_t n) {
    return rig_whole || n <= 3 || n == 8 || (n + 1) % 16 <= 2;
}

// Under AddressSanitizer an array is five times as slow: of long tables each type has a sixth, and
// all types together have every line. Where the subject is values or cycles, which a sanitizer does
// not change, fewer of them.
#if defined(__SANITIZE_ADDRESS__)
enum { RIG_EVERY = 6 };
#else
enum { RIG_EVERY = 1 };
#endif

enum { RIG_GUARD = 64, RIG_MAX = KERNEL_MAX_INPUTS + 1 };

struct rig {
    struct emu_machine * machine;
    uint8_t * data[RIG_MAX]; // the inputs, then the output
    size_t size[RIG_MAX];    // with guard
    int n;
};

static void * rig_resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    (void) write;
    struct rig * r = user;
    for (int i = 0; i < r->n; i++) {
        uint64_t base = (uint64_t) (uintptr_t) r->data[i];
        if (addr >= base && len <= r->size[i] && addr - base <= r->size[i] - len) {
            return (void *) (uintptr_t) addr;
        }
    }
    return NULL;
}

// As aie_compile, but programs are kept by their names, as the plugin keeps them: a new shape costs
// no more than its stream. That equal names mean equal programs is test-digests's and test-add's.
static inline enum status rig_compile(const struct kernel_spec * spec, struct kernel_code * out,
                                      struct error * err) {
    enum { KEPT = 32 };
    static struct {
        char name[KERNEL_NAME_MAX];
        enum aie_arch arch;
        uint8_t * pdi;
        size_t size;
    } kept[KEPT];
    static unsigned next;
    *out = (struct kernel_code){0};
    enum status st = aie_compile_insts(spec, &out->insts, &out->n_insts, err);
    if (st != ST_OK) {
        return st;
    }
    char name[KERNEL_NAME_MAX];
    aie_program_name(spec, name);
    unsigned i = 0;
    while (i < KEPT && (!kept[i].pdi || kept[i].arch != spec->arch || strcmp(kept[i].name, name))) {
        i++;
    }
    if (i == KEPT) {
        uint8_t * pdi;
        size_t size;
        st = aie_compile_pdi(spec, &pdi, &size, err);
        if (st != ST_OK) {
            kernel_code_free(out);
            return st;
        }
        i = next++ % KEPT;
        free(kept[i].pdi);
        kept[i].arch = spec->arch;
        kept[i].pdi = pdi;
        kept[i].size = size;
        strcpy(kept[i].name, name);
    }
    out->pdi = malloc(kept[i].size);
    out->pdi_size = kept[i].size;
    assert_non_null(out->pdi);
    memcpy(out->pdi, kept[i].pdi, kept[i].size);
    return ST_OK;
}

// Columns of the machine; 0: as many as the architecture has. A spec has to say the same.
static int rig_columns;

static inline void rig_open_with(struct rig * r, const struct emu_clock * clock) {
    struct error err = {0};
    *r = (struct rig){0};
    struct emu_config config = {.arch = rig_arch,
                                .clock = clock,
                                .columns =
                                    rig_columns ? rig_columns : aie_target(rig_arch)->columns,
                                .resolve = rig_resolve,
                                .user = r,
                                .strict = true,
                                .trace_col = -1,
                                .trace_row = -1};
    assert_int_equal(emu_machine_new(&config, &r->machine, &err), ST_OK);
}

// With the clock of GGML_HSA_EMU_CLOCK: what is computed must not depend on it.
static inline void rig_open(struct rig * r) {
    struct error err = {0};
    struct emu_clock clock;
    assert_int_equal(emu_clock_get(rig_arch, &clock, &err), ST_OK);
    rig_open_with(r, &clock);
}

static void rig_close(struct rig * r) {
    emu_machine_free(r->machine);
}

static const struct tensor * rig_tensor(const struct kernel_spec * spec, int i) {
    return i < spec->n_inputs ? &spec->inputs[i] : &spec->output;
}

// Memory for all operands, filled with a pattern; the caller fills the inputs.
static void rig_allocate(struct rig * r, const struct kernel_spec * spec) {
    r->n = spec->n_inputs + 1;
    for (int i = 0; i < r->n; i++) {
        size_t words = ((size_t) tensor_bytes(rig_tensor(spec, i)) + 3) / 4;
        r->size[i] = 4 * words + RIG_GUARD;
        r->data[i] = malloc(r->size[i]);
        memset(r->data[i], 0xa5, r->size[i]);
    }
}

static inline void rig_run(struct rig * r, const struct kernel_spec * spec,
                           const struct kernel_code * code) {
    struct emu_operand operands[RIG_MAX];
    for (int i = 0; i < r->n; i++) {
        operands[i] = (struct emu_operand){(uint64_t) (uintptr_t) r->data[i],
                                           (uint64_t) tensor_bytes(rig_tensor(spec, i))};
    }
    struct error err = {0};
    enum status st = emu_machine_run(r->machine, code->pdi, code->pdi_size, code->insts,
                                     code->n_insts, operands, r->n, &err);
    if (st != ST_OK) {
        print_message("%s\n", err.text);
    }
    assert_int_equal(st, ST_OK);
    // What it is said to take at most: batches are bounded by that.
    struct emu_counters counters;
    emu_machine_counters(r->machine, &counters);
    char name[KERNEL_NAME_MAX];
    kernel_name(spec, name);
    if (counters.stray_loads) {
        fail_msg("%s: %llu loads that are not aligned or meet no memory", name,
                 (unsigned long long) counters.stray_loads);
    }
    uint64_t most = aie_cycles(spec) + txn_cycles(code->insts, code->n_insts);
    if (counters.last_cycles > most) {
        fail_msg("%s takes %llu cycles, and was said to take at most %llu", name,
                 (unsigned long long) counters.last_cycles, (unsigned long long) most);
    }
    for (int i = 0; i < r->n; i++) {
        for (size_t g = r->size[i] - RIG_GUARD; g < r->size[i]; g++) {
            assert_int_equal(r->data[i][g], 0xa5);
        }
    }
}

static void rig_free(struct rig * r) {
    for (int i = 0; i < r->n; i++) {
        free(r->data[i]);
    }
    r->n = 0;
}
