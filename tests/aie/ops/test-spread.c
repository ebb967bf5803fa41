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
    open_and_see(&r, &l);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
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
    }
    rig_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length),
        cmocka_unit_test(one_for_all),
        cmocka_unit_test(rows_repeat),
        cmocka_unit_test(held_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
