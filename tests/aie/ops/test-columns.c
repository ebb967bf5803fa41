// A device may have fewer columns than its architecture: kernels of every family for each number of
// columns, on a machine that has no more than these, with shapes that fill all of them, few, and
// one.
#include "kernel-rig.h"

#include <math.h>

static struct kernel_spec spec_of(enum kernel_op op, int64_t row, int64_t rows, int columns) {
    struct kernel_spec s = {.op = op, .arch = rig_arch, .columns = columns};
    s.n_inputs = kernel_op_info(op)->n_inputs;
    s.inputs[0] = s.inputs[1] = s.output =
        tensor_contiguous(DTYPE_F32, (const int64_t[4]){row, rows, 1, 1});
    if (op == KERNEL_OP_SUM) {
        s.output = tensor_contiguous(DTYPE_F32, (const int64_t[4]){1, 1, 1, 1});
        s.params[0] = 0x3f800000;
    }
    return s;
}

static void run(struct rig * r, enum kernel_op op, int64_t row, int64_t rows, int columns) {
    struct kernel_spec s = spec_of(op, row, rows, columns);
    struct kernel_code code;
    struct error err = {0};
    enum status st = aie_compile(&s, &code, &err);
    if (st != ST_OK) {
        print_message("%s\n", err.text);
    }
    assert_int_equal(st, ST_OK);
    rig_allocate(r, &s);
    double sum = 0;
    for (int64_t i = 0; i < row * rows; i++) {
        for (int k = 0; k < s.n_inputs; k++) {
            float v = (float) (rand() % 100);
            memcpy(r->data[k] + 4 * i, &v, 4);
            sum += k ? 0 : (double) v;
        }
    }
    rig_run(r, &s, &code);
    const float *a = (const float *) (const void *) r->data[0],
                *b = (const float *) (const void *) r->data[1],
                *out = (const float *) (const void *) r->data[s.n_inputs];
    for (int64_t i = 0; i < (op == KERNEL_OP_SUM ? 1 : row * rows); i++) {
        double want = op == KERNEL_OP_SUM   ? sum
                      : op == KERNEL_OP_ADD ? (double) a[i] + (double) b[i]
                                            : fabs((double) a[i]);
        if ((double) out[i] != want) {
            fail_msg("%s %lld x %lld on %d columns: element %lld is %g, not %g", kernel_op_name(op),
                     (long long) row, (long long) rows, columns, (long long) i, (double) out[i],
                     want);
        }
    }
    kernel_code_free(&code);
    rig_free(r);
}

static void each_number(enum aie_arch arch) {
    static const enum kernel_op ops[] = {KERNEL_OP_ADD, KERNEL_OP_ABS, KERNEL_OP_SUM};
    static const int64_t shapes[][2] = {{1, 1}, {1000, 3}, {50000, 1}, {300, 200}};
    rig_arch = arch;
    for (int columns = 1; columns <= aie_target(arch)->columns; columns++) {
        struct rig r;
        rig_columns = columns;
        rig_open(&r);
        for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++) {
            for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
                run(&r, ops[o], shapes[i][0], shapes[i][1], columns);
            }
        }
        rig_close(&r);
    }
}

static void aie2(void ** state) {
    (void) state;
    each_number(AIE_ARCH_AIE2);
}

static void aie2p(void ** state) {
    (void) state;
    each_number(AIE_ARCH_AIE2P);
}

static void names_and_refusals(void ** state) {
    (void) state;
    char with[KERNEL_NAME_MAX], without[KERNEL_NAME_MAX];
    struct kernel_spec two = spec_of(KERNEL_OP_ADD, 64, 1, 2),
                       all = spec_of(KERNEL_OP_ADD, 64, 1, 0);
    kernel_name(&two, with);
    kernel_name(&all, without);
    assert_string_not_equal(with, without);
    aie_program_name(&two, with);
    aie_program_name(&all, without);
    assert_string_not_equal(with, without);
    two.columns = aie_target(two.arch)->columns + 1;
    assert_int_equal(aie_supports(&two, NULL), ST_INVALID);
}

int main(void) {
    srand(7);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aie2),
        cmocka_unit_test(aie2p),
        cmocka_unit_test(names_and_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
