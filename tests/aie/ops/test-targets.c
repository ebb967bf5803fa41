// test-targets: what one NPU has the other has too. Every kernel of the table that aie2 supports is
// supported on aie2p, and every program that these run on can be made for it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "aie/plan/plan.h"
#include "aie/tune/every-kernel.h"

enum { MAX_PROGRAMS = 128 };

struct seen {
    char programs[MAX_PROGRAMS][KERNEL_NAME_MAX];
    int n_programs, n_kernels;
    size_t bytes;
};

static void visit(void * user, const struct kernel_spec * of_aie2) {
    struct seen * seen = user;
    struct kernel_spec spec = *of_aie2;
    struct error err = {0};
    char name[KERNEL_NAME_MAX];
    spec.arch = AIE_ARCH_AIE2P;
    kernel_name(&spec, name);
    if (aie_supports(&spec, &err) != ST_OK) {
        fail_msg("aie2 has %s, aie2p has not: %s", name, err.text);
    }
    seen->n_kernels++;
    aie_program_name(&spec, name);
    for (int i = 0; i < seen->n_programs; i++) {
        if (!strcmp(seen->programs[i], name)) {
            return;
        }
    }
    assert_true(seen->n_programs < MAX_PROGRAMS);
    snprintf(seen->programs[seen->n_programs++], KERNEL_NAME_MAX, "%s", name);
    uint8_t * pdi;
    size_t size;
    if (aie_compile_pdi(&spec, &pdi, &size, &err) != ST_OK) {
        fail_msg("%s: %s", name, err.text);
    }
    seen->bytes += size;
    free(pdi);
}

static void both_have_all(void ** state) {
    (void) state;
    static struct seen seen;
    visit_all(visit, &seen);
    print_message("%d kernels on %d programs of %zu bytes\n", seen.n_kernels, seen.n_programs,
                  seen.bytes);
    assert_true(seen.n_kernels > 400);
}

// ---- programs.def ----

// Who keeps the programs that serve an op has the one that its plan names.
static void visit_related(void * user, const struct kernel_spec * of_aie2) {
    int * n = user;
    for (int arch = 0; arch < AIE_ARCH_COUNT; arch++) {
        struct kernel_spec spec = *of_aie2;
        struct aie_plan plan;
        const struct aie_program * p = NULL;
        char name[KERNEL_NAME_MAX];
        spec.arch = (enum aie_arch) arch;
        kernel_name(&spec, name);
        assert_int_equal(aie_plan(&spec, &plan, NULL), ST_OK);
        assert_non_null(plan.program);
        assert_true(plan.program->chips >> arch & 1);
        for (int i = 0; (p = aie_related(&spec, i)) && p != plan.program; i++) {
            assert_true(p->chips >> arch & 1);
        }
        if (!p) {
            fail_msg("%s on %s runs on %s, which is not related to it", name,
                     kernel_arch_name(spec.arch), plan.program->name);
        }
        ++*n;
    }
}

static void related_have_all(void ** state) {
    (void) state;
    int n = 0;
    visit_all(visit_related, &n);
    assert_true(n > 800);
}

// A name is one PDI on a chip.
static void names_are_unique(void ** state) {
    (void) state;
    for (int i = 0; i < AIE_PROGRAMS; i++) {
        for (int k = 0; k < i; k++) {
            const struct aie_program *a = &aie_programs[i], *b = &aie_programs[k];
            assert_true(!(a->chips & b->chips) || strcmp(a->name, b->name));
        }
    }
}

// Planners ask before anybody has looked at the shape.
static void test_cycles_of_nothing(void ** state) {
    (void) state;
    struct tensor none = tensor_contiguous(DTYPE_F32, (const int64_t[4]){8, 0, 1, 1});
    for (int op = 0; op < KERNEL_OP_COUNT; op++) {
        struct kernel_spec spec = {.op = (enum kernel_op) op, .n_inputs = 1, .output = none};
        spec.inputs[0] = spec.inputs[1] = none;
        assert_true(aie_cycles(&spec) > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_have_all), cmocka_unit_test(related_have_all),
        cmocka_unit_test(names_are_unique), cmocka_unit_test(test_cycles_of_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
