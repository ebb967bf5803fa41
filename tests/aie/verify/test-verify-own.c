// Kernels of our own compiler: all pass, so that nobody need look at them when they are used. Every
// op in the table on each architecture, each combination of datatypes, and as many random kernels
// as the first argument says (300 without one); the second is the number of the first of them, for
// looking at one that failed.
#include "aie/verify/verify.h"

#include "aie/tune/every-kernel.h"
#include "aie/target/target.h"
#include "base/cmocka-all.h"
#include "random-spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t asked = 300, first;

// ---- PDIs, of which there are few ----

struct program {
    struct program * next;
    enum aie_arch arch;
    int columns;
    char name[KERNEL_NAME_MAX];
    uint8_t * pdi;
    size_t size;
};

static struct program * programs;

static const struct program * program_of(const struct kernel_spec * spec) {
    char name[KERNEL_NAME_MAX];
    struct error err = {0};
    aie_program_name(spec, name);
    struct program * p = programs;
    while (p && (p->arch != spec->arch || p->columns != spec->columns || strcmp(p->name, name))) {
        p = p->next;
    }
    if (!p) {
        p = calloc(1, sizeof *p);
        assert_non_null(p);
        *p = (struct program){.next = programs, .arch = spec->arch, .columns = spec->columns};
        memcpy(p->name, name, sizeof name);
        if (aie_compile_pdi(spec, &p->pdi, &p->size, &err) != ST_OK) {
            fail_msg("%s: %s", name, err.text);
        }
        programs = p;
    }
    return p;
}

static void free_programs(void) {
    for (struct program *p = programs, *next; p; p = next) {
        next = p->next;
        free(p->pdi);
        free(p);
    }
    programs = NULL;
}

static void check(const struct kernel_spec * spec, const char * what) {
    const struct program * program = program_of(spec);
    struct kernel_code code = {.pdi = program->pdi, .pdi_size = program->size};
    struct error err = {0};
    char name[KERNEL_NAME_MAX];
    kernel_name(spec, name);
    if (aie_compile_insts(spec, &code.insts, &code.n_insts, &err) != ST_OK) {
        fail_msg("%s %s/%s: %s", what, kernel_arch_name(spec->arch), name, err.text);
    }
    if (aie_verify_files(spec, code.pdi, code.pdi_size, (const uint8_t *) code.insts,
                         4 * code.n_insts, &err) != ST_OK) {
        fail_msg("%s %s/%s: %s", what, kernel_arch_name(spec->arch), name, err.text);
    }
    if (kernel_op_info(spec->op)->family > KERNEL_CONVERSION) { // may write a part of its result
        free(code.insts);
        return;
    }
    // A kernel writes its result up to the end: for one that is a word shorter it is refused.
    struct verify_operand operands[VERIFY_KERNEL_OPERANDS];
    struct verify_job job = {.arch = spec->arch,
                             .columns = spec->columns,
                             .pdi = code.pdi,
                             .pdi_size = code.pdi_size,
                             .insts = (const uint8_t *) code.insts,
                             .insts_size = 4 * code.n_insts,
                             .operands = operands,
                             .n_operands = aie_verify_operands(spec, operands)};
    uint64_t * bytes = &operands[spec->n_inputs].bytes;
    *bytes = (*bytes + 3) / 4 * 4 - 4;
    if (aie_verify(&job, &err) != ST_CORRUPT) {
        fail_msg("%s %s/%s passes for a shorter result", what, kernel_arch_name(spec->arch), name);
    }
    free(code.insts);
}

// ---- every op and datatype, on each architecture ----

static bool seen[AIE_ARCH_COUNT][KERNEL_OP_COUNT];

static void check_one(void * user, const struct kernel_spec * spec) {
    (void) user;
    check(spec, "kernel");
    seen[spec->arch][spec->op] = true;
}

static void test_every_op(void ** state) {
    (void) state;
    for (int arch = 0; arch < AIE_ARCH_COUNT; arch++) {
        every_arch = (enum aie_arch) arch;
        int n = visit_all(check_one, NULL);
        printf("%d kernels of %s pass\n", n, kernel_arch_name(every_arch));
    }
    free_programs();
}

// Which datatypes it takes and gives.
static uint64_t types_of(const struct kernel_spec * spec) {
    uint64_t key = (uint64_t) spec->output.dtype + 1;
    for (int i = 0; i < spec->n_inputs && i < 3; i++) {
        key = key * 16 + (uint64_t) spec->inputs[i].dtype + 1;
    }
    return key;
}

// The first of many random kernels for each combination of datatypes that an op has a kernel for,
// and then no op is left that nobody looked at.
static void test_every_type(void ** state) {
    (void) state;
    enum { NUMBERS = 20000, MOST = 64, LARGE = 1 << 18 };
    static uint64_t known[AIE_ARCH_COUNT][KERNEL_OP_COUNT][MOST];
    int n = 0;
    for (uint64_t number = 0; number < NUMBERS; number++) {
        struct kernel_spec spec = random_spec(number);
        uint64_t key = types_of(&spec), *at = known[spec.arch][spec.op];
        while (*at && *at != key) {
            at++;
        }
        if (*at || tensor_elements(&spec.output) > LARGE || aie_supports(&spec, NULL) != ST_OK) {
            continue;
        }
        assert_true(at - known[spec.arch][spec.op] < MOST - 1);
        *at = key;
        check(&spec, "kernel");
        seen[spec.arch][spec.op] = true;
        n++;
    }
    for (int arch = 0; arch < AIE_ARCH_COUNT; arch++) {
        for (int op = 0; op < KERNEL_OP_COUNT; op++) {
            bool none = op == KERNEL_OP_MUL_MAT_SHARED &&
                        !aie_target((enum aie_arch) arch)->mac_block.m; // of block floats
            if (!seen[arch][op] && !none) {
                fail_msg("no kernel of %s for %s was looked at",
                         kernel_op_name((enum kernel_op) op),
                         kernel_arch_name((enum aie_arch) arch));
            }
        }
    }
    printf("%d kernels, one for each op, architecture and combination of datatypes, pass\n", n);
    free_programs();
}

// ---- random kernels ----

static void test_random(void ** state) {
    (void) state;
    uint64_t found = 0, number = first;
    uint32_t of[KERNEL_OP_COUNT] = {0};
    for (; found < asked; number++) {
        struct kernel_spec spec = random_spec(number);
        char what[32];
        snprintf(what, sizeof what, "number %llu,", (unsigned long long) number);
        if (aie_supports(&spec, NULL) == ST_OK) {
            check(&spec, what);
            of[spec.op]++;
            found++;
        }
    }
    int ops = 0;
    for (int op = 0; op < KERNEL_OP_COUNT; op++) {
        ops += of[op] > 0;
    }
    printf("%llu random kernels of %d ops pass (%llu were asked for that do not exist)\n",
           (unsigned long long) found, ops, (unsigned long long) (number - first - found));
    free_programs();
}

int main(int argc, char ** argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_op),
                                       cmocka_unit_test(test_every_type),
                                       cmocka_unit_test(test_random)};
    asked = argc > 1 ? strtoull(argv[1], NULL, 10) : asked;
    first = argc > 2 ? strtoull(argv[2], NULL, 10) : first;
    // Alone where a number is given: the other one's kernels are always the same.
    return argc > 1 ? cmocka_run_group_tests_name("random", ((struct CMUnitTest[]){tests[2]}), NULL,
                                                  NULL)
                    : cmocka_run_group_tests(tests, NULL, NULL);
}
