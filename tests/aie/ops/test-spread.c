// Chunks dealt to a column's cores: whatever the length, every result is right, twice in a row with
// other data, and every lock is back where it began. f16 sums are heavy enough for one, two or four
// cores; lengths are drawn so that rounds come out even, with some cores to spare, and with a
// shorter chunk behind.
#include "kernel-rig.h"
#include "reference.h"

enum { COLUMNS = 4, ROWS = 6, LOCKS = 64 };

struct locks { // as configured, and as last seen; -1: never moved
    int first[COLUMNS][ROWS][LOCKS], value[COLUMNS][ROWS][LOCKS];
};

static void see(void * user, const struct emu_event * e) {
    struct rig * r = user; // the machine has one user for all
    struct locks * l = (struct locks *) (void *) r->data[RIG_MAX - 1];
    if (e->kind == EMU_EVENT_LOCK) {
        int * first = &l->first[e->col][e->row][e->channel];
        *first = *first < 0 ? (int) e->words : *first;
        l->value[e->col][e->row][e->channel] = (int) e->words;
    }
}

static void open_and_see(struct rig * r, struct locks * l) {
    struct error err = {0};
    *r = (struct rig){0};
    memset(l, -1, sizeof *l);
    r->data[RIG_MAX - 1] = (uint8_t *) l;
    struct emu_config config = {.arch = AIE_ARCH_AIE2,
                                .columns = COLUMNS,
                                .resolve = rig_resolve,
                                .user = r,
                                .strict = true,
                                .trace_col = -1,
                                .trace_row = -1,
                                .event = see};
    assert_int_equal(emu_machine_new(&config, &r->machine, &err), ST_OK);
}

static void check_locks(const struct locks * l) {
    int seen = 0;
    for (int col = 0; col < COLUMNS; col++) {
        for (int row = 1; row < ROWS; row++) {
            for (int i = 0; i < LOCKS; i++) {
                int value = l->value[col][row][i], first = l->first[col][row][i];
                if (value != first) {
                    fail_msg("lock %d of tile (%d,%d) was %d and is left at %d", i, col, row, first,
                             value);
                }
                seen += value >= 0;
            }
        }
    }
    assert_true(seen > 0);
}

static uint32_t number(void) {
    return ref_pack((rand() % 2001 - 1000) / 16.0, ref_float[DTYPE_F16].mantissa,
                    ref_float[DTYPE_F16].exponent);
}

static void fill(uint8_t * data, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t v = number();
        memcpy(data + 2 * i, &v, 2);
    }
}

static void run(struct rig * r, struct locks * l, int64_t row, int64_t rows, int64_t b_row,
                int64_t b_rows) {
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    spec.inputs[0] = spec.output = tensor_contiguous(DTYPE_F16, (int64_t[]){row, rows, 1, 1});
    spec.inputs[1] = tensor_contiguous(DTYPE_F16, (int64_t[]){b_row, b_rows, 1, 1});
    struct kernel_code code;
    struct error err = {0};
    assert_int_equal(aie_compile(&spec, &code, &err), ST_OK);
    rig_allocate(r, &spec);
    for (int round = 0; round < 2; round++) {
        fill(r->data[0], row * rows);
        fill(r->data[1], b_row * b_rows);
        rig_run(r, &spec, &code);
        check_locks(l);
        for (int64_t i = 0; i < row * rows; i++) {
            int64_t b = i / row % b_rows * b_row + i % row % b_row;
            uint32_t want = ref_add(DTYPE_F16, ref_get(DTYPE_F16, r->data[0], i),
                                    ref_get(DTYPE_F16, r->data[1], b));
            uint32_t got = ref_get(DTYPE_F16, r->data[2], i);
            if (got != want && (got | want) & 0x7fff) {
                fail_msg("%lld x %lld + %lld x %lld: element %lld is %04x, not %04x",
                         (long long) row, (long long) rows, (long long) b_row, (long long) b_rows,
                         (long long) i, got, want);
            }
        }
    }
    rig_free(r);
    kernel_code_free(&code);
}

static const int64_t lengths[] = {1,     2,     127,   255,   257,   511,   1023,  2047,  2049,
                                  3000,  4097,  6143,  8191,  8192,  9999,  12289, 16385, 20481,
                                  24577, 28673, 30001, 32768, 40961, 50003, 65535, 65537, 99999};

static void every_length(void ** state) {
    (void) state;
    struct rig r;
    struct locks l;
    open_and_see(&r, &l);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        run(&r, &l, lengths[i], 1, lengths[i], 1);
    }
    rig_close(&r);
}

static void one_for_all(void ** state) { // a word for every core
    (void) state;
    struct rig r;
    struct locks l;
    open_and_see(&r, &l);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        run(&r, &l, lengths[i], 1, 1, 1);
    }
    rig_close(&r);
}

static void rows_repeat(void ** state) {
    (void) state;
    static const int64_t shapes[][2] = {{2, 1000}, {10, 777},  {64, 333}, {100, 401},
                                        {1000, 7}, {1026, 41}, {2050, 33}};
    struct rig r;
    struct locks l;
    open_and_see(&r, &l);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        run(&r, &l, shapes[i][0], shapes[i][1], shapes[i][0], 1);
    }
    rig_close(&r);
}

// What has one input goes over both streams of a column's shim where it is large: so many lengths
// that both, one or none of a column's ways end with a shorter chunk.
static void two_ways(void ** state) {
    (void) state;
    static const int64_t sizes[] = {1, 4097, 150001, 262144, 300001, 524290, 1000003, 1048576};
    struct rig r;
    struct locks l;
    open_and_see(&r, &l);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct kernel_spec spec = {.op = KERNEL_OP_NEG, .arch = AIE_ARCH_AIE2, .n_inputs = 1};
        spec.inputs[0] = spec.output = tensor_contiguous(DTYPE_F16, (int64_t[]){sizes[i], 1, 1, 1});
        struct kernel_code code;
        struct error err = {0};
        assert_int_equal(aie_compile(&spec, &code, &err), ST_OK);
        rig_allocate(&r, &spec);
        for (int round = 0; round < 2; round++) {
            fill(r.data[0], sizes[i]);
            rig_run(&r, &spec, &code);
            check_locks(&l);
            for (int64_t k = 0; k < sizes[i]; k++) {
                uint32_t a = ref_get(DTYPE_F16, r.data[0], k), y = ref_get(DTYPE_F16, r.data[1], k);
                if (y != (a ^ 0x8000)) {
                    fail_msg("%lld elements: the negative of %04x, number %lld, is %04x",
                             (long long) sizes[i], a, (long long) k, y);
                }
            }
        }
        rig_free(&r);
        kernel_code_free(&code);
    }
    rig_close(&r);
}

// Rows that the memtile holds have locks of their own there. What comes out is test-rows' business.
static void held_rows(void ** state) {
    (void) state;
    static const struct {
        enum kernel_op op;
        int64_t row, rows;
    } cases[] = {{KERNEL_OP_RMS_NORM, 2050, 13},
                 {KERNEL_OP_NORM, 4097, 6},
                 {KERNEL_OP_SOFT_MAX, 3000, 9},
                 {KERNEL_OP_SOFT_MAX, 20000, 5}};
    struct rig r;
    struct locks l;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        open_and_see(&r, &l); // another PDI may have other values
        struct kernel_spec spec = {.op = cases[i].op, .arch = AIE_ARCH_AIE2, .n_inputs = 1};
        spec.inputs[0] = spec.output =
            tensor_contiguous(DTYPE_F32, (int64_t[]){cases[i].row, cases[i].rows, 1, 1});
        struct kernel_code code;
        struct error err = {0};
        assert_int_equal(aie_compile(&spec, &code, &err), ST_OK);
        rig_allocate(&r, &spec);
        for (int round = 0; round < 2; round++) {
            rig_run(&r, &spec, &code);
            check_locks(&l);
        }
        rig_free(&r);
        kernel_code_free(&code);
        rig_close(&r);
    }
}

// Kernels of different programs on one PDI that is loaded once: whatever ran before, each does what
// it does alone, and leaves the locks as they were. What that is, is the business of other tests.
static struct kernel_spec layer_spec(int i) {
    static const struct {
        enum kernel_op op;
        enum dtype a, b, out;
        int64_t a_ne[2], b_ne[2], out_ne[2];
        int n_inputs;
    } kernels[] = {
        {KERNEL_OP_RMS_NORM, DTYPE_F32, 0, DTYPE_F32, {288, 3}, {0}, {288, 3}, 1},
        {KERNEL_OP_MUL, DTYPE_F32, DTYPE_F32, DTYPE_F32, {288, 3}, {288, 1}, {288, 3}, 2},
        {KERNEL_OP_MUL_MAT, DTYPE_F16, DTYPE_F32, DTYPE_F32, {96, 70}, {96, 3}, {70, 3}, 2},
        {KERNEL_OP_CONVERT, DTYPE_F32, 0, DTYPE_BF16, {50, 20}, {0}, {56, 20}, 1},
        {KERNEL_OP_SOFT_MAX, DTYPE_F32, DTYPE_F32, DTYPE_F32, {3000, 4}, {3000, 4}, {3000, 4}, 2},
        {KERNEL_OP_MUL_MAT, DTYPE_BF16, DTYPE_BF16, DTYPE_F32, {200, 9}, {200, 16}, {9, 16}, 2},
        {KERNEL_OP_SWIGLU, DTYPE_F32, DTYPE_F32, DTYPE_F32, {5000, 1}, {5000, 1}, {5000, 1}, 2},
        {KERNEL_OP_CONVERT, DTYPE_F16, 0, DTYPE_BF16, {64, 33}, {0}, {64, 33}, 1},
        {KERNEL_OP_ADD, DTYPE_F32, DTYPE_F32, DTYPE_F32, {4097, 1}, {1, 1}, {4097, 1}, 2},
    };
    if (i >= (int) (sizeof kernels / sizeof kernels[0])) {
        return (struct kernel_spec){.n_inputs = 0};
    }
    const int64_t *a = kernels[i].a_ne, *b = kernels[i].b_ne, *out = kernels[i].out_ne;
    struct kernel_spec s = {.op = kernels[i].op, .arch = AIE_ARCH_AIE2};
    s.n_inputs = kernels[i].n_inputs;
    s.inputs[0] = tensor_contiguous(kernels[i].a, (int64_t[]){a[0], a[1], 1, 1});
    if (s.n_inputs > 1) {
        s.inputs[1] = tensor_contiguous(kernels[i].b, (int64_t[]){b[0], b[1], 1, 1});
    }
    s.output = tensor_contiguous(kernels[i].out, (int64_t[]){out[0], out[1], 1, 1});
    if (s.op == KERNEL_OP_SOFT_MAX) {
        s.params[0] = 0x3f800000; // a scale of 1
    }
    return s;
}

// The same numbers in every run, such that f32, f16 and bf16 are all small.
static void fill_words(struct rig * r) {
    uint32_t state = 1;
    for (int i = 0; i + 1 < r->n; i++) {
        for (size_t at = 0; at + RIG_GUARD < r->size[i]; at += 2) {
            state = state * 1103515245 + 12345;
            uint16_t v = (uint16_t) ((state >> 16 & 0x83ff) | 0x3c00);
            memcpy(r->data[i] + at, &v, 2);
        }
    }
}

static uint8_t * result_of(struct rig * r, const struct kernel_spec * spec,
                           const struct kernel_code * code) {
    rig_allocate(r, spec);
    fill_words(r);
    rig_run(r, spec, code);
    uint8_t * copy = malloc(r->size[r->n - 1]);
    memcpy(copy, r->data[r->n - 1], r->size[r->n - 1]);
    rig_free(r);
    return copy;
}

static void one_pdi(void ** state) {
    (void) state;
    struct rig together, alone;
    struct locks l;
    struct kernel_code first = {0};
    open_and_see(&together, &l);
    for (int n = 0; n < 3; n++) {
        struct kernel_spec spec;
        for (int i = 0; (spec = layer_spec(i)).n_inputs; i++) {
            struct kernel_code code;
            struct error err = {0};
            char name[KERNEL_NAME_MAX];
            aie_program_name(&spec, name);
            assert_string_equal(name, "decoder");
            assert_int_equal(aie_compile(&spec, &code, &err), ST_OK);
            rig_open(&alone);
            uint8_t * want = result_of(&alone, &spec, &code);
            rig_close(&alone);
            if (!first.pdi) {
                first = code;
            } else {
                assert_int_equal(code.pdi_size, first.pdi_size);
                assert_memory_equal(code.pdi, first.pdi, first.pdi_size);
                free(code.pdi);
                code.pdi = first.pdi;
            }
            uint8_t * got = result_of(&together, &spec, &code);
            assert_memory_equal(got, want, (size_t) tensor_bytes(&spec.output));
            check_locks(&l);
            free(got);
            free(want);
            if (code.insts != first.insts) {
                free(code.insts);
            }
        }
    }
    kernel_code_free(&first);
    rig_close(&together);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length), cmocka_unit_test(one_for_all),
        cmocka_unit_test(rows_repeat),  cmocka_unit_test(two_ways),
        cmocka_unit_test(held_rows),    cmocka_unit_test(one_pdi),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
