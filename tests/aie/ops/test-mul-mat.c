// MUL_MAT of plain types against sums in double precision (or modulo 2^32), over shapes that meet
// every edge: one row, rows that fill no tile, several tiles, chunks and rounds along k, batches,
// strides. Each shape runs twice on the same array with different data.
#include "mul-mat-rig.h"

#include "aie/ops/convert/convert.h"
#include "aie/ops/mul-mat/mul-mat-plan.h"

static const struct shape shapes[] = {
    // clang-format off
    {64, 64, 48, 1, 1, 1, 1, 0, 0, 0},
    {256, 256, 128, 1, 1, 1, 1, 0, 0, 0},
    {300, 1030, 264, 1, 1, 1, 1, 0, 0, 0}, // rows of a that stay for several tiles
    {65, 2048, 128, 1, 1, 1, 1, 0, 0, 0},
    {30, 600, 136, 1, 1, 4, 1, 4, 8, 12},
    {64, 1, 48, 1, 1, 1, 1, 0, 0, 0},
    {1, 1, 8, 1, 1, 1, 1, 0, 0, 0},
    {1, 17, 8, 1, 1, 1, 1, 0, 0, 0},
    {3, 100, 16, 1, 1, 1, 1, 0, 0, 0},
    {256, 256, 96, 1, 1, 1, 1, 0, 0, 0},
    {100, 33, 104, 1, 1, 1, 1, 0, 0, 0},
    {10, 500, 504, 1, 1, 1, 1, 0, 0, 0},
    {300, 300, 200, 1, 1, 1, 1, 0, 0, 0},
    {257, 513, 56, 1, 1, 1, 1, 0, 0, 0},
    {520, 4, 512, 1, 1, 1, 1, 0, 0, 0},
    {600, 16, 784, 1, 1, 1, 1, 0, 0, 0},
    {1100, 1, 136, 1, 1, 1, 1, 0, 0, 0}, // several tiles of a core in one step, some rows twice
    {1025, 5, 64, 1, 1, 2, 1, 4, 8, 12},
    {530, 1, 8192, 1, 1, 1, 1, 0, 0, 0}, // x in two parts
    {40, 9, 3000, 1, 1, 1, 1, 0, 0, 0},
    {33, 20, 2048, 1, 1, 1, 1, 0, 0, 0},
    {20, 24, 11008, 1, 1, 1, 1, 0, 0, 0},
    {70, 2, 11008, 1, 1, 1, 1, 0, 0, 0},
    {32, 8, 64, 2, 3, 4, 3, 0, 0, 0},
    {48, 40, 72, 2, 1, 6, 2, 0, 0, 0},
    {50, 30, 64, 1, 2, 1, 2, 64, 12, 8},
    {50, 3, 64, 1, 2, 1, 2, 4, 100, 4},
    // clang-format on
};

static void all_shapes(enum dtype t) {
    struct rig r;
    rig_open(&r);
    for (int i = (int) t % rig_one_of(); i < (int) (sizeof shapes / sizeof shapes[0]);
         i += rig_one_of()) {
        const struct shape * s = &shapes[i];
        print_message("%s %dx%dx%d\n", dtype_name(t), (int) s->m, (int) s->n, (int) s->k);
        run(&r, t, s);
    }
    rig_close(&r);
}

static void test_bf16(void ** state) {
    (void) state;
    all_shapes(DTYPE_BF16);
}

// Rows of a length whose chunks are so short that a step of one tile has 379 of them: two tasks,
// and one for x, of which a queue does not hold those of two steps.
static void test_rounds(void ** state) {
    (void) state;
    static const struct shape steps[] = {{1024, 1, 9096, 1, 1, 1, 1, 0, 0, 0},
                                         {500, 8, 8144, 1, 1, 1, 1, 0, 0, 0}};
    struct rig r;
    rig_open(&r);
    for (int i = 0; i < (RIG_EVERY > 1 ? 1 : 2); i++) {
        run_spec(&r, spec_with(DTYPE_BF16, DTYPE_BF16, &steps[i]), &steps[i]);
    }
    rig_close(&r);
}

// Operands that the cores make bf16, one, the other, both; only where there are few rows of b.
static void test_raw(void ** state) {
    (void) state;
    static const enum dtype types[][2] = {
        {DTYPE_BF16, DTYPE_F32}, {DTYPE_F16, DTYPE_BF16}, {DTYPE_F16, DTYPE_F32}};
    static const struct shape more[] = {{64, 1, 8192, 1, 1, 1, 1, 0, 0, 0},
                                        {256, 1, 8, 4, 1, 8, 1, 24, 0, 0}};
    // One takes three steps, the last of which is shorter; the other as many in each batch.
    static const struct shape steps[] = {{4200, 1, 8192, 1, 1, 1, 1, 0, 0, 0},
                                         {2100, 1, 8192, 1, 1, 2, 1, 0, 0, 0}};
    struct rig r;
    rig_open(&r);
    for (int t = 0; t < 3; t++) {
        for (int i = t % rig_one_of(); i < (int) (sizeof shapes / sizeof shapes[0]);
             i += rig_one_of()) {
            struct kernel_spec spec = spec_with(types[t][0], types[t][1], &shapes[i]);
            // Several rows of f32 must fit a memtile, and on aie2p, where k goes in pairs and fewer
            // rows fill a group, no more than 15 of zeros may come behind them.
            bool fits = types[t][1] != DTYPE_F32 || shapes[i].n == 1 ||
                        (rig_arch == AIE_ARCH_AIE2 ? shapes[i].k < 8192
                                                   : (64 - shapes[i].k % 64) % 64 <= 2 * 15);
            if (shapes[i].n > 16 || !fits) {
                assert_int_equal(aie_supports(&spec, NULL), ST_UNSUPPORTED);
            } else {
                print_message("%s %s %dx%dx%d\n", dtype_name(types[t][0]), dtype_name(types[t][1]),
                              (int) shapes[i].m, (int) shapes[i].n, (int) shapes[i].k);
                run_spec(&r, spec, &shapes[i]);
            }
        }
        for (size_t i = 0; i < (t ? 2 : sizeof more / sizeof more[0]); i++) {
            run_spec(&r, spec_with(types[t][0], types[t][1], &more[i]), &more[i]);
        }
    }
    // Which is not a matter of the types, nor of the architecture.
    for (int i = 0; i < (RIG_EVERY > 1 || (rig_arch != AIE_ARCH_AIE2 && !rig_whole) ? 0 : 2); i++) {
        run_spec(&r, spec_with(types[i][0], types[i][1], &steps[i]), &steps[i]);
    }
    rig_close(&r);
}

static void test_i8(void ** state) {
    (void) state;
    all_shapes(DTYPE_I8);
}

static void test_i16(void ** state) {
    (void) state;
    all_shapes(DTYPE_I16);
}

static uint64_t bytes_read(const struct rig * r) {
    struct emu_counters counters;
    emu_machine_counters(r->machine, &counters);
    uint64_t sum = 0;
    for (int i = 0; i < EMU_RUN_KINDS; i++) {
        sum += counters.runs.read[i];
    }
    return sum;
}

// Where there are more columns than rows of cores, rows of b come from host memory once for all
// tiles along m: in one step, in several, because m does not come out even or a task holds no more
// tiles; for several tiles along n and batches one after the other; rows apart.
static void test_held(void ** state) {
    (void) state;
    static const struct {
        enum kernel_op op;
        enum dtype t;
        struct shape s;
    } some[] = {
        {KERNEL_OP_MUL_MAT, DTYPE_I16, {1030, 520, 128, 1, 1, 1, 1, 0, 0, 0}},
        {KERNEL_OP_MUL_MAT, DTYPE_BF16, {1100, 100, 512, 1, 1, 1, 1, 8, 4, 12}},
        {KERNEL_OP_MUL_MAT, DTYPE_I8, {1024, 256, 512, 1, 1, 2, 1, 4, 8, 4}},
        {KERNEL_OP_MUL_MAT, DTYPE_I8, {1100, 1100, 256, 1, 1, 1, 1, 0, 0, 0}},
        {KERNEL_OP_MUL_MAT, DTYPE_BF16, {8192, 17, 2048, 1, 1, 1, 1, 0, 0, 0}},
        {KERNEL_OP_MUL_MAT_SHARED, DTYPE_BF16, {1280, 17, 512, 1, 1, 1, 1, 0, 0, 0}},
    };
    enum { FIRST = 2 }; // of them, where not all are run
    const bool may = aie_target(rig_arch)->columns > MMP_CORE_ROWS_GEMM;
    struct rig r;
    rig_open(&r);
    for (size_t i = 0; i < (rig_whole ? sizeof some / sizeof some[0] : FIRST); i++) {
        const struct shape * s = &some[i].s;
        struct kernel_spec spec = spec_of(some[i].t, s);
        spec.op = some[i].op;
        struct mm_plan p;
        if (!may) {
            assert_true(mm_plan_make(&spec, &p, NULL) != ST_OK || !p.x_held);
            continue;
        }
        assert_int_equal(mm_plan_make(&spec, &p, NULL), ST_OK);
        assert_int_equal(p.x_held, p.m_steps);
        const int64_t a = p.m_steps * p.core_rows * p.y_rows * mm_chunk_bytes(&p, (uint32_t) p.k);
        const int64_t b = p.columns * p.x_rows * 4 * (int64_t) mm_x_row(&p);
        const int64_t before = (int64_t) bytes_read(&r);
        run_spec(&r, spec, s); // twice
        assert_int_equal((int64_t) bytes_read(&r) - before, 2 * s->b2 * p.n_tiles * (a + b));
    }
    rig_close(&r);
}

// Devices and partitions with fewer columns than the architecture can have.
static void test_columns(void ** state) {
    (void) state;
    static const struct shape some[] = {
        {130, 70, 72, 1, 1, 1, 1, 0, 0, 0},
        {300, 600, 40, 1, 1, 2, 1, 0, 0, 0},
        {300, 5, 200, 1, 1, 1, 1, 0, 0, 0},
    };
    static const enum dtype types[] = {DTYPE_BF16, DTYPE_I8, DTYPE_I16};
    for (rig_columns = 1; rig_columns <= aie_target(rig_arch)->columns; rig_columns++) {
        struct rig r;
        rig_open(&r);
        for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
            run(&r, types[(rig_columns + (int) i) % 3], &some[i]);
        }
        rig_close(&r);
    }
    rig_columns = 0;
}

// What an earlier run left in the tiles, NaNs even, is in no later result.
static void test_leftovers(void ** state) {
    (void) state;
    static const struct shape wide = {256, 256, 864, 1, 1, 1, 1, 0, 0, 0},
                              tall = {512, 16, 1024, 1, 1, 1, 1, 0, 0, 0};
    static const struct shape after[] = {
        {5, 37, 8, 1, 1, 1, 1, 0, 0, 0},
        {130, 70, 520, 1, 1, 1, 1, 0, 0, 0},
        {7, 3, 40, 1, 1, 1, 1, 0, 0, 0},
        {130, 5, 520, 1, 1, 1, 1, 0, 0, 0},
    };
    struct rig r;
    rig_open(&r);
    for (size_t i = 0; i < sizeof after / sizeof after[0]; i++) {
        struct kernel_spec spec = spec_of(DTYPE_BF16, after[i].n > 16 ? &wide : &tall);
        struct kernel_code code;
        assert_int_equal(rig_compile(&spec, &code, NULL), ST_OK);
        rig_allocate(&r, &spec);
        for (int in = 0; in < 2; in++) {
            memset(r.data[in], 0xff, r.size[in] - RIG_GUARD);
        }
        rig_run(&r, &spec, &code);
        float first;
        memcpy(&first, r.data[2], 4);
        assert_true(isnan(first));
        rig_free(&r);
        kernel_code_free(&code);
        run(&r, DTYPE_BF16, &after[i]);
    }
    rig_close(&r);
}

// Gemm's program has further tasks: what these leave in the array is in no later product, be its
// tiles whole or not. Numbers of the tasks themselves are others' to check.
static void run_task(struct rig * r, struct kernel_spec spec) {
    struct kernel_code code;
    assert_int_equal(rig_compile(&spec, &code, NULL), ST_OK);
    rig_allocate(r, &spec);
    memset(r->data[0], 0xff, r->size[0] - RIG_GUARD);
    rig_run(r, &spec, &code);
    rig_free(r);
    kernel_code_free(&code);
}

static void test_tasks_between(void ** state) {
    (void) state;
    static const struct shape products[] = {{512, 256, 128, 1, 1, 1, 1, 0, 0, 0},
                                            {130, 70, 72, 1, 1, 1, 1, 0, 0, 0}};
    struct kernel_spec convert = {.op = KERNEL_OP_CONVERT,
                                  .arch = rig_arch,
                                  .n_inputs = 1,
                                  .inputs[0] = strided(DTYPE_F32, 2048, 256, 1, 1, 0),
                                  .output = strided(DTYPE_BF16, 2048, 256, 1, 1, 0),
                                  .params[0] = CV_HI},
                       unpack = {.op = KERNEL_OP_UNPACK,
                                 .arch = rig_arch,
                                 .n_inputs = 1,
                                 .inputs[0] = strided(DTYPE_I32, 36, 100, 1, 1, 0),
                                 .output = strided(DTYPE_BF16, 256, 100, 1, 1, 0),
                                 .params[0] = KERNEL_Q4_0};
    struct rig r;
    rig_open(&r);
    for (int i = 0; i < 6; i++) {
        run_task(&r, i % 3 ? unpack : convert);
        run(&r, DTYPE_BF16, &products[i % 2]);
    }
    rig_close(&r);
}

// A NaN or an infinity is in the results of its own row and no other.
static void test_specials(void ** state) {
    (void) state;
    static const struct shape s = {20, 30, 64, 1, 1, 1, 1, 0, 0, 0};
    struct kernel_spec spec = spec_of(DTYPE_BF16, &s);
    struct kernel_code code;
    struct rig r;
    rig_open(&r);
    assert_int_equal(rig_compile(&spec, &code, NULL), ST_OK);
    rig_allocate(&r, &spec);
    fill(&r, &spec);
    uint16_t nan = 0x7fc0, inf = 0x7f80;
    memcpy(r.data[1] + 2 * (7 * s.k + 5), &nan, 2);
    memcpy(r.data[0] + 2 * (11 * s.k + 63), &inf, 2);
    rig_run(&r, &spec, &code);
    for (int64_t n = 0; n < s.n; n++) {
        for (int64_t m = 0; m < s.m; m++) {
            float v;
            memcpy(&v, r.data[2] + 4 * (n * s.m + m), 4);
            assert_int_equal(isnan(v) != 0, n == 7);
            assert_int_equal(isinf(v) != 0, m == 11 && n != 7);
        }
    }
    rig_free(&r);
    kernel_code_free(&code);
    rig_close(&r);
}

// What the inner loops ask of the memory banks: no two of their accesses meet. The account of a
// product on a clock that charges for banks agrees: what is left is the DMA's, a few cycles in a
// hundred.
static void test_banks(void ** state) {
    (void) state;
    static const struct {
        enum aie_arch arch;
        enum dtype t;
        int bundles, unroll, stages, accesses[MM_BANKS];
    } loops[] = {
        {AIE_ARCH_AIE2, DTYPE_BF16, 64, 2, 3, {32, 64, 32}},
        {AIE_ARCH_AIE2, DTYPE_I8, 65, 2, 3, {32, 64, 32}},
        {AIE_ARCH_AIE2, DTYPE_I16, 65, 2, 3, {16, 32, 32}},
        {AIE_ARCH_AIE2P, DTYPE_I8, 64, 1, 2, {32, 32, 64}},
        {AIE_ARCH_AIE2P, DTYPE_I16, 128, 1, 2, {32, 64, 128}},
    };
    static const struct shape s = {256, 256, 512, 1, 1, 1, 1, 0, 0, 0};
    struct emu_clock clock;
    struct error err = {0};
    struct rig r;
    const char * device = rig_arch == AIE_ARCH_AIE2 ? "phoenix,ddr=0" : "strix,ddr=0";
    assert_int_equal(emu_clock_parse(device, &clock, &err), ST_OK);
    rig_open_with(&r, &clock);
    for (size_t i = 0; i < sizeof loops / sizeof loops[0]; i++) {
        const struct mm_type * t = mm_type(loops[i].arch, loops[i].t);
        struct asm_code code;
        struct mm_bank_use use;
        if (loops[i].arch != rig_arch) {
            continue;
        }
        assert_int_equal(mm_program(rig_arch, t, &code, &use, &err), ST_OK);
        assert_int_equal(code.stats.loop_ii[0], loops[i].bundles);
        assert_int_equal(code.stats.loop_unroll[0], loops[i].unroll); // leaves no trip over
        assert_int_equal(code.stats.loop_stages[0], loops[i].stages);
        assert_int_equal(t->trip_bundles, loops[i].bundles);
        assert_int_equal(use.conflicts, 0);
        assert_memory_equal(use.accesses, loops[i].accesses, sizeof use.accesses);
        free(code.bytes);
        run(&r, loops[i].t, &s);
        struct emu_counters counters;
        emu_machine_counters(r.machine, &counters);
        const uint64_t * cycles = counters.last_account.cycles;
        assert_true(cycles[EMU_BANK] * 25 < cycles[EMU_CORE]);
    }
    rig_close(&r);
}

static void test_refusals(void ** state) {
    (void) state;
    static const struct shape s = {20, 30, 64, 1, 1, 2, 1, 0, 0, 0};
    struct kernel_spec good = spec_of(DTYPE_BF16, &s), spec = good;
    assert_int_equal(aie_supports(&good, NULL), ST_OK);
    spec.inputs[0].ne[0] = spec.inputs[1].ne[0] = 60;
    refused_for(&spec, ST_UNSUPPORTED, "no multiple of 8");
    spec = good;
    spec.inputs[0].ne[1] = 0;
    refused_for(&spec, ST_UNSUPPORTED, "without elements");
    spec = good;
    spec.inputs[1].ne[0] = 72;
    refused_for(&spec, ST_INVALID, "shapes");
    spec = good;
    spec.inputs[0].ne[2] = 3;
    refused_for(&spec, ST_INVALID, "shapes");
    spec = good;
    spec.inputs[1] = strided(DTYPE_F32, s.k, s.n, s.b2, 1, 0);
    refused_for(&spec, ST_UNSUPPORTED, "f32");
    spec = good;
    spec.inputs[0].dtype = DTYPE_F32;
    refused_for(&spec, ST_UNSUPPORTED, "f32");
    spec = good;
    spec.inputs[1].nb[1] = 130;
    refused_for(&spec, ST_UNSUPPORTED, "whole words");
    spec = good;
    spec.inputs[0].nb[1] = 0;
    refused_for(&spec, ST_UNSUPPORTED, "apart");
    spec = good;
    spec.inputs[0].nb[1] = 8 << 20;
    refused_for(&spec, ST_UNSUPPORTED, "apart");
    const struct shape deep = {20, 30, 8 * 100003, 1, 1, 1, 1, 0, 0, 0};
    spec = spec_of(DTYPE_BF16, &deep);
    refused_for(&spec, ST_UNSUPPORTED, "too long");
}

// Batches of one b, and those with a b of their own, have columns of their own: as many as there
// are columns, fewer, more, and numbers of them that do not share the columns evenly; rows that
// fill no tile. The same sums as any others, and in one step where each batch has its columns.
static void test_batches_beside(void ** state) {
    (void) state;
    static const struct shape some[] = {
        {128, 1, 128, 2, 1, 2, 1, 0, 0, 0}, {40, 3, 64, 4, 1, 4, 1, 0, 0, 0},
        {96, 1, 64, 8, 1, 8, 1, 0, 0, 16},  {70, 2, 64, 3, 1, 3, 1, 0, 0, 0},
        {33, 1, 64, 6, 1, 6, 1, 0, 0, 0},   {600, 1, 128, 2, 2, 2, 2, 0, 0, 0},
    };
    struct rig r;
    rig_open(&r);
    for (size_t i = 0; i < 2 * (sizeof some / sizeof some[0]); i++) {
        const struct shape * s = &some[i / 2];
        struct kernel_spec spec = spec_with(DTYPE_BF16, DTYPE_F32, s);
        struct mm_plan p;
        int columns = rig_columns ? rig_columns : aie_target(rig_arch)->columns;
        spec.inputs[1].nb[2] = i % 2 ? spec.inputs[1].nb[2] : 0;
        assert_int_equal(mm_plan_make(&spec, &p, NULL), ST_OK);
        bool even = columns % s->b2 == 0;
        assert_true(even ? p.beside == s->b2 : p.beside < s->b2);
        assert_int_equal(p.columns % p.beside, 0);
        assert_int_equal(s->b2 % p.beside, 0);
        assert_true(!even || p.steps == s->b3);
        run_spec(&r, spec, s);
    }
    rig_close(&r);
}

int main(int argc, char ** argv) {
    rig_arguments(argc, argv, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_i8),
        cmocka_unit_test(test_i16),
        cmocka_unit_test(test_held),
        cmocka_unit_test(test_leftovers),
        cmocka_unit_test(test_specials),
        cmocka_unit_test(test_banks),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_raw),
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_tasks_between),
        cmocka_unit_test(test_batches_beside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
