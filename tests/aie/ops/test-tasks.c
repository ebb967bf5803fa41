// What stands between products of many rows, on their PDI (ops/tasks): every task over units that
// come out even and such that do not, in fewer and in more units than there are cores, with other
// devices' columns; twice with different data, and once with a result that takes the place of its
// input. In between the same array multiplies: what a task leaves behind must not matter to it, nor
// the other way round.
#include "kernel-rig.h"
#include "mul-mat-rig.h"

#include "aie/ops/convert/convert.h"
#include "aie/ops/tasks/tasks.h"

#include <math.h>

static const float eps = 1e-5f;

static struct kernel_spec task_spec(enum kernel_op op, int64_t row, int64_t rows) {
    const int64_t all[4] = {row, rows, 1, 1}, one[4] = {row, 1, 1, 1};
    bool norm = op == KERNEL_OP_TASK_RMS_NORM_MUL;
    struct kernel_spec s = {.op = op,
                            .arch = rig_arch,
                            .columns = rig_columns,
                            .n_inputs = 2,
                            .inputs = {tensor_contiguous(DTYPE_F32, all),
                                       tensor_contiguous(DTYPE_F32, norm ? one : all)},
                            .output = tensor_contiguous(DTYPE_F32, all)};
    if (norm) {
        memcpy(s.params, &eps, sizeof eps);
    }
    return s;
}

static float number(void) {
    return ldexpf((float) rand() / (float) RAND_MAX - 0.5f, rand() % 8 - 2);
}

static double want(const struct kernel_spec * s, const float * a, const float * b, int64_t i) {
    int64_t row = s->inputs[0].ne[0];
    if (s->op == KERNEL_OP_TASK_ADD) {
        return (double) a[i] + (double) b[i];
    }
    if (s->op == KERNEL_OP_TASK_SWIGLU) {
        return (double) a[i] / (1 + exp(-(double) a[i])) * (double) b[i];
    }
    static double scale;
    if (i % row == 0) {
        double sum = 0;
        for (int64_t k = 0; k < row; k++) {
            sum += (double) a[i + k] * (double) a[i + k];
        }
        scale = 1 / sqrt(sum / (double) row + (double) eps);
    }
    return (double) a[i] * scale * (double) b[i % row];
}

// 24 bits of the larger one in a sum, else 15 of the result, and in each of them 12.
static void check_task(const struct kernel_spec * s, const float * a, const float * b,
                       const float * out) {
    double error = 0, all = 0;
    for (int64_t i = 0; i < tensor_elements(&s->output); i++) {
        double w = want(s, a, b, i), size = fabs(w);
        if (s->op == KERNEL_OP_TASK_ADD) {
            size = fmax(fabs((double) a[i]), fabs((double) b[i]));
        }
        double most = size * (s->op == KERNEL_OP_TASK_ADD ? 0x1p-22 : 0x1p-12) + 1e-30;
        if (!(fabs((double) out[i] - w) <= most)) {
            char name[KERNEL_NAME_MAX];
            kernel_name(s, name);
            fail_msg("%s: element %lld is %.9g, not %.9g", name, (long long) i, (double) out[i], w);
        }
        error += ((double) out[i] - w) * ((double) out[i] - w);
        all += w * w;
    }
    assert_true(error <= 1e-9 * all);
}

static void run_task(struct rig * r, const struct kernel_spec * s, bool in_place) {
    struct kernel_code code;
    struct error err = {0};
    if (rig_compile(s, &code, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    rig_allocate(r, s);
    float * a = malloc(r->size[0]);
    uint8_t * own = r->data[2];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 2; i++) {
            for (int64_t n = 0; n < tensor_elements(&s->inputs[i]); n++) {
                ((float *) (void *) r->data[i])[n] = number();
            }
        }
        memcpy(a, r->data[0], r->size[0]);
        memset(own, 0x5a, r->size[2] - RIG_GUARD);
        r->data[2] = in_place ? r->data[0] : own;
        rig_run(r, s, &code);
        check_task(s, a, (const float *) (void *) r->data[1], (const float *) (void *) r->data[2]);
    }
    r->data[2] = own;
    free(a);
    rig_free(r);
    kernel_code_free(&code);
}

static const enum kernel_op ops[] = {KERNEL_OP_TASK_ADD, KERNEL_OP_TASK_SWIGLU,
                                     KERNEL_OP_TASK_RMS_NORM_MUL};
enum { N_OPS = sizeof ops / sizeof ops[0] };

static void shapes(void ** state) {
    (void) state;
    // Of 1920 words a part is as long as it can be, of 2048 and 4096 a norm's row, in one
    // buffer or two; 896 and 1216 are
    // Qwen2.5's; one row is one core's; 37 leaves a rest of one in some columns.
    static const int64_t rows[][2] = {{64, 1},   {64, 5},    {128, 37}, {896, 17},  {1216, 9},
                                      {2048, 3}, {1920, 38}, {4864, 5}, {3072, 23}, {4096, 6}};
    struct rig r;
    rig_open(&r);
    srand(11);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int op = 0; op < N_OPS; op++) {
            struct kernel_spec s = task_spec(ops[op], rows[i][0], rows[i][1]);
            if (aie_supports(&s, NULL) != ST_OK) { // a norm's row is one unit
                assert_true(ops[op] == KERNEL_OP_TASK_RMS_NORM_MUL && rows[i][0] > TASK_MOST_ROW);
                continue;
            }
            run_task(&r, &s, (i + (size_t) op) % 2);
        }
    }
    rig_close(&r);
}

static void fewer_columns(void ** state) {
    (void) state;
    srand(12);
    for (rig_columns = 1; rig_columns <= 3; rig_columns++) {
        struct rig r;
        rig_open(&r);
        for (int op = 0; op < N_OPS; op++) {
            struct kernel_spec s = task_spec(ops[op], 192, 11);
            run_task(&r, &s, false);
        }
        rig_close(&r);
    }
    rig_columns = 0;
}

// As many as tasks of queues hold, and one more.
static void most_units(void ** state) {
    (void) state;
    int64_t columns = aie_target(rig_arch)->columns;
    for (int op = 0; op < N_OPS; op++) {
        bool norm = ops[op] == KERNEL_OP_TASK_RMS_NORM_MUL;
        int64_t most = (norm ? 768 : 1024) * columns;
        struct kernel_spec s = task_spec(ops[op], 64, most),
                           more = task_spec(ops[op], 64, most + 1);
        struct error err = {0};
        assert_int_equal(aie_supports(&s, NULL), ST_OK);
        assert_int_equal(aie_supports(&more, &err), ST_UNSUPPORTED);
        assert_non_null(strstr(err.text, "parts"));
        if (op == 0) {
            struct rig r;
            rig_open(&r);
            run_task(&r, &s, true);
            rig_close(&r);
        }
    }
}

// Numbers rounded to nearest even, as operands of products are.
static void run_conversion(struct rig * r, uint32_t layout) {
    const int64_t ne[4] = {2048, 5, 1, 1};
    struct kernel_spec s = {.op = KERNEL_OP_CONVERT,
                            .arch = rig_arch,
                            .n_inputs = 1,
                            .inputs = {tensor_contiguous(DTYPE_F32, ne)},
                            .output = tensor_contiguous(DTYPE_BF16, ne),
                            .params = {layout}};
    struct kernel_code code;
    struct error err = {0};
    assert_int_equal(rig_compile(&s, &code, &err), ST_OK);
    rig_allocate(r, &s);
    for (int64_t i = 0; i < tensor_elements(&s.output); i++) {
        ((float *) (void *) r->data[0])[i] = number();
    }
    rig_run(r, &s, &code);
    for (int64_t i = 0; i < tensor_elements(&s.output); i++) {
        uint32_t v = ((const uint32_t *) (const void *) r->data[0])[i];
        uint32_t kept = v >> 16, dropped = v & 0xffff;
        kept += dropped > 0x8000 || (dropped == 0x8000 && (kept & 1));
        assert_int_equal(((const uint16_t *) (const void *) r->data[1])[i], kept);
    }
    rig_free(r);
    kernel_code_free(&code);
}

// A product before each task, and it and a conversion behind it, on one array that loads its PDI
// once.
static void among_products(void ** state) {
    (void) state;
    const struct shape shape = {.m = 70, .n = 40, .k = 136, .a2 = 1, .a3 = 1, .b2 = 1, .b3 = 1};
    struct rig r;
    rig_open(&r);
    srand(13);
    for (int op = 0; op < N_OPS; op++) {
        struct kernel_spec s = task_spec(ops[op], 320, 21);
        run(&r, DTYPE_BF16, &shape);
        run_task(&r, &s, true);
        run_conversion(&r, CV_HI_MANY);
    }
    run(&r, DTYPE_BF16, &shape);
    struct emu_counters counters;
    emu_machine_counters(r.machine, &counters);
    assert_int_equal(counters.pdi_loads, 1);
    rig_close(&r);
}

// The same among products of quantized blocks, of several kinds.
static void among_blocks(void ** state) {
    (void) state;
    static const enum kernel_blocks kinds[] = {KERNEL_Q8_0, KERNEL_Q4_K};
    const struct shape shape = {.m = 70, .n = 40, .k = 512, .a2 = 1, .a3 = 1, .b2 = 1, .b3 = 1};
    struct rig r;
    rig_open(&r);
    srand(14);
    for (int op = 0; op < N_OPS; op++) {
        struct kernel_spec s = task_spec(ops[op], 320, 21);
        s.params[kernel_op_info(ops[op])->n_params - 1] = MM_BESIDE_BLOCKS;
        run_spec(&r, spec_of_blocks(kinds[op % 2], DTYPE_BF16, &shape), &shape);
        run_task(&r, &s, true);
        run_conversion(&r, CV_HI_BLOCKS);
    }
    struct emu_counters counters;
    emu_machine_counters(r.machine, &counters);
    assert_int_equal(counters.pdi_loads, 1);
    rig_close(&r);
}

// What it does not take, with the reason.
static void refused(void ** state) {
    (void) state;
    struct kernel_spec odd = task_spec(KERNEL_OP_TASK_ADD, 100, 30),
                       mixed = task_spec(KERNEL_OP_TASK_SWIGLU, 128, 30),
                       strided = task_spec(KERNEL_OP_TASK_SWIGLU, 128, 30),
                       repeated = task_spec(KERNEL_OP_TASK_ADD, 128, 30),
                       many = task_spec(KERNEL_OP_TASK_RMS_NORM_MUL, 128, 30),
                       alone = task_spec(KERNEL_OP_TASK_ADD, 128, 30);
    mixed.inputs[1].dtype = DTYPE_F16;
    strided.inputs[0].nb[1] *= 2;
    repeated.inputs[1].ne[1] = 1;
    many.inputs[1] = many.inputs[0];
    alone.n_inputs = 1;
    const struct {
        const struct kernel_spec * spec;
        const char * why;
    } cases[] = {{&odd, "multiple of 64"}, {&mixed, "f32"},           {&strided, "without gaps"},
                 {&repeated, "one shape"}, {&many, "row of weights"}, {&alone, "two inputs"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = {0};
        assert_int_not_equal(aie_supports(cases[i].spec, &err), ST_OK);
        if (!strstr(err.text, cases[i].why)) {
            fail_msg("'%s' does not say '%s'", err.text, cases[i].why);
        }
    }
}

int main(int argc, char ** argv) {
    rig_arguments(argc, argv, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),       cmocka_unit_test(fewer_columns),
        cmocka_unit_test(most_units),   cmocka_unit_test(among_products),
        cmocka_unit_test(among_blocks), cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
