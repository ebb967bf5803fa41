// Elementwise kernels on operands with gaps: halves of rows, exchanged dimensions, outputs with
// room between their rows. Results are compared element by element, and what lies between the rows
// of the output must stay as it was.
#include "kernel-rig.h"
#include "reference.h"

static int64_t offset_of(const struct tensor * t, int64_t index, const struct tensor * shape) {
    int64_t at = 0;
    for (int d = 0; d < TENSOR_DIMS; d++) {
        at += index % shape->ne[d] % t->ne[d] * t->nb[d];
        index /= shape->ne[d];
    }
    return at;
}

static uint32_t at(const struct rig * r, int operand, const struct tensor * t, int64_t index,
                   const struct tensor * shape) {
    return ref_get(t->dtype, r->data[operand] + offset_of(t, index, shape), 0);
}

static uint32_t want(const struct kernel_spec * spec, uint32_t a, uint32_t b) {
    if (spec->op == KERNEL_OP_ADD) {
        return ref_add(spec->output.dtype, a, b);
    }
    return a >> (8 * dtype_size(spec->output.dtype) - 1) ? 0 : a; // RELU, no NaNs here
}

// Every byte random, but no number too large for its neighbours: exponents stay in the middle.
static void fill(struct rig * r, int operand, const struct tensor * t) {
    size_t n = (size_t) tensor_bytes(t);
    for (size_t i = 0; i < n; i++) {
        r->data[operand][i] = (uint8_t) rand();
    }
    if (ref_is_float(t->dtype)) {
        for (int64_t i = 0; i < tensor_elements(t); i++) {
            double v = (rand() % 2001 - 1000) / 16.0;
            uint32_t bits_ =
                ref_pack(v, ref_float[t->dtype].mantissa, ref_float[t->dtype].exponent);
            memcpy(r->data[operand] + offset_of(t, i, t), &bits_, (size_t) dtype_size(t->dtype));
        }
    }
}

// Twice in a row: the array must be back where it began.
static void run_case(struct rig * r, const struct kernel_spec * spec) {
    struct kernel_code code;
    struct error err = {0};
    enum status st = rig_compile(spec, &code, &err);
    if (st != ST_OK) {
        print_message("%s\n", err.text);
    }
    assert_int_equal(st, ST_OK);
    rig_allocate(r, spec);
    const struct tensor * out = &spec->output;
    size_t size = (size_t) tensor_bytes(out);
    uint8_t * touched = calloc(size, 1);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < spec->n_inputs; i++) {
            fill(r, i, &spec->inputs[i]);
        }
        rig_run(r, spec, &code);
        for (int64_t i = 0; i < tensor_elements(out); i++) {
            uint32_t a = at(r, 0, &spec->inputs[0], i, out);
            uint32_t b = spec->n_inputs > 1 ? at(r, 1, &spec->inputs[1], i, out) : 0;
            assert_int_equal(at(r, spec->n_inputs, out, i, out), want(spec, a, b));
            memset(touched + offset_of(out, i, out), 1, (size_t) dtype_size(out->dtype));
        }
    }
    for (size_t i = 0; i < size; i++) {
        assert_true(touched[i] || r->data[spec->n_inputs][i] == 0xa5);
    }
    free(touched);
    rig_free(r);
    kernel_code_free(&code);
}

static struct tensor with_strides(enum dtype type, const int64_t ne[4], int64_t s1, int64_t s2,
                                  int64_t s3) {
    struct tensor t = tensor_contiguous(type, ne);
    t.nb[1] = s1;
    t.nb[2] = s2;
    t.nb[3] = s3;
    return t;
}

static void halves_of_rows(void ** state) {
    (void) state;
    static const int64_t sizes[][2] = {{64, 100},   {1, 3000},   {11008, 5},
                                       {1031, 130}, {100003, 1}, {4096, 32}};
    struct rig r;
    rig_open(&r);
    srand(21);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const int64_t ne[4] = {sizes[i][0], sizes[i][1], 1, 1};
        int64_t row = 8 * ne[0];
        struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = rig_arch, .n_inputs = 2};
        spec.inputs[0] = spec.inputs[1] =
            with_strides(DTYPE_F32, ne, row, row * ne[1], row * ne[1]);
        spec.output = tensor_contiguous(DTYPE_F32, ne);
        run_case(&r, &spec);
        struct emu_counters c;
        emu_machine_counters(r.machine, &c);
        print_message("f32 halves of %lld x %lld: %.3f cycles per word and column\n",
                      (long long) ne[0], (long long) ne[1],
                      (double) c.last_cycles / ((double) (ne[0] * ne[1]) / 4));
    }
    rig_close(&r);
}

static void views(void ** state) {
    (void) state;
    struct rig r;
    rig_open(&r);
    srand(22);
    const int64_t ne[4] = {48, 9, 5, 3}, row[4] = {48, 1, 1, 1}, one[4] = {1, 1, 1, 1};
    for (int t = 0; t < DTYPE_COUNT; t++) {
        int64_t w = 48 * dtype_size((enum dtype) t);
        const struct tensor kinds[] = {
            tensor_contiguous((enum dtype) t, ne),
            with_strides((enum dtype) t, ne, 5 * w, w, 45 * w),       // rows and heads exchanged
            with_strides((enum dtype) t, ne, 2 * w, 20 * w, 100 * w), // every other row
            with_strides((enum dtype) t, ne, w + 4, 10 * w, 50 * w),  // a little room
        };
        for (int i = 0; i < 64; i += 1 + rand() % 3) {
            struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = rig_arch, .n_inputs = 2};
            spec.inputs[0] = kinds[i % 4];
            spec.inputs[1] = i % 5 == 0   ? tensor_contiguous((enum dtype) t, row)
                             : i % 5 == 1 ? tensor_contiguous((enum dtype) t, one)
                                          : kinds[i / 4 % 4];
            spec.output = kinds[i / 16];
            run_case(&r, &spec);
            spec.op = KERNEL_OP_RELU;
            spec.n_inputs = 1;
            run_case(&r, &spec);
        }
    }
    // A transposed matrix of 32-bit elements.
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = rig_arch, .n_inputs = 2};
    spec.inputs[0] = spec.output = tensor_contiguous(DTYPE_I32, (int64_t[4]){300, 200, 1, 1});
    spec.inputs[1] = (struct tensor){DTYPE_I32, {300, 200, 1, 1}, {800, 4, 240000, 240000}};
    run_case(&r, &spec);
    rig_close(&r);
}

static void one_pdi(void ** state) {
    (void) state;
    const int64_t ne[4] = {64, 10, 1, 1};
    struct kernel_spec spec = {.op = KERNEL_OP_RELU, .arch = rig_arch, .n_inputs = 1};
    spec.inputs[0] = spec.output = tensor_contiguous(DTYPE_BF16, ne);
    char packed[KERNEL_NAME_MAX], apart[KERNEL_NAME_MAX];
    aie_program_name(&spec, packed);
    spec.inputs[0].nb[1] *= 3;
    aie_program_name(&spec, apart);
    assert_string_equal(packed, apart);
}

int main(int argc, char ** argv) {
    rig_arguments(argc, argv, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_of_rows),
        cmocka_unit_test(views),
        cmocka_unit_test(one_pdi),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
