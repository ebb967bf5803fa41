// MUL_MAT against sums in double precision (or modulo 2^32), over shapes that meet every edge: one
// row, rows that fill no tile, several tiles, chunks and rounds along k, batches, strides. Each
// shape runs twice on the same array with different data.
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

// One in so many: an array of eight columns takes its time, and what is a matter of shapes alone is
// seen on the other one. Sanitizers look for what one shape of a program shows.
static int every(void) {
    return RIG_EVERY > 1 ? 7 : rig_arch == AIE_ARCH_AIE2 || rig_whole ? 1 : 3;
}

static void all_shapes(enum dtype t) {
    struct rig r;
    rig_open(&r);
    for (int i = (int) t % every(); i < (int) (sizeof shapes / sizeof shapes[0]); i += every()) {
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
        for (int i = t % every(); i < (int) (sizeof shapes / sizeof shapes[0]); i += every()) {
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

// Quantized blocks: k is a multiple of two of them.
static struct kernel_spec spec_of_blocks(enum kernel_blocks kind, enum dtype b,
                                         const struct shape * s) {
    struct kernel_spec spec = spec_with(DTYPE_F32, b, s);
    int64_t words = s->k / kernel_block_k(kind) * kernel_block_bytes(kind) / 4;
    spec.op = KERNEL_OP_MUL_MAT_BLOCKS;
    spec.params[0] = kind;
    spec.inputs[0] = strided(DTYPE_I32, words, s->m, s->a2, s->a3, s->a_gap);
    return spec;
}

// Scales that are hardly any: denormal ones, zeros, the least and the most. Those of the last rows
// are not finite, and no result of these may be.
enum { FIRST_BEYOND = 70 };

static void fill_odd_scales(struct rig * r, const struct kernel_spec * spec) {
    static const uint16_t odd[] = {0x0001, 0x8001, 0x0000, 0x8000, 0x03ff, 0x83ff,
                                   0x0400, 0x8400, 0x0203, 0x7bff, 0xfbff, 0x2c03};
    static const uint8_t odd_powers[] = {0, 1, 2, 3, 127, 200, 230, 243};
    static const uint16_t beyond[] = {0x7c00, 0xfc00, 0x7e00, 0x7fff, 0xfe55};
    enum kernel_blocks kind = (enum kernel_blocks) spec->params[0];
    int64_t words = spec->inputs[0].ne[0], block = kernel_block_bytes(kind);
    for (int64_t row = 0; row < spec->inputs[0].ne[1]; row++) {
        uint8_t * at = r->data[0] + row * spec->inputs[0].nb[1];
        for (int64_t i = 0; i < 4 * words && kind == KERNEL_MXFP4 && row % 2 == 0; i += block) {
            at[i] = (uint8_t) (row < FIRST_BEYOND ? odd_powers[(row / 2 + i) % 8] : 127);
        }
        for (int64_t i = 0; i < 4 * words; i += 2) {
            uint16_t d = row < FIRST_BEYOND ? odd[(size_t) (row / 2 + i) % 12] : beyond[row % 5];
            bool plain = row < FIRST_BEYOND && (row % 2 || kernel_block_k(kind) > BLOCK_K);
            if (block_is_scale(kind, (int) (i % block)) && !plain) {
                memcpy(at + i, &d, 2);
            }
        }
    }
}

// Rows of b that are one 1 and zeros: each number of the blocks, to the last bit.
static void each_number(struct rig * r, enum kernel_blocks kind, int64_t rows, int64_t step) {
    int k = 2 * kernel_block_cut(kind);
    const struct shape s = {75, rows, k, 1, 1, 1, 1, 0, 0, 0};
    struct kernel_spec spec = spec_of_blocks(kind, DTYPE_F32, &s);
    struct kernel_code code;
    assert_int_equal(rig_compile(&spec, &code, NULL), ST_OK);
    rig_allocate(r, &spec);
    fill(r, &spec);
    fill_odd_scales(r, &spec);
    for (int64_t first = kind % every() * rows; first < s.k; first += step * every()) {
        memset(r->data[1], 0, (size_t) (4 * s.n * s.k));
        for (int64_t n = 0; n < s.n; n++) {
            memcpy(r->data[1] + 4 * (n * s.k + first + n), &(float){1}, 4);
        }
        rig_run(r, &spec, &code);
        for (int64_t i = 0; i < s.m * s.n; i++) {
            const uint8_t * row = row_of(r, &spec, 0, i % s.m, 0, 0);
            float got;
            memcpy(&got, r->data[2] + 4 * i, 4);
            double want = rounded_value(kind, row, first + i / s.m, true);
            bool finite = i % s.m < FIRST_BEYOND || kind == KERNEL_MXFP4;
            if (finite ? (double) got != want : isfinite(got)) {
                print_message("%s, %d rows: row %d, number %d is %g, not %g\n",
                              kernel_block_name(kind), (int) s.n, (int) (i % s.m),
                              (int) (first + i / s.m), (double) got, want);
                fail();
            }
        }
    }
    rig_free(r);
    kernel_code_free(&code);
}

// Of one row, which may go another way (aie2-quant-onerow.c), not all numbers.
static void test_each_number(void ** state) {
    (void) state;
    struct rig r;
    rig_open(&r);
    for (int kind = 0; kind < KERNEL_BLOCKS; kind++) {
        int64_t rows = kind == KERNEL_Q6_K ? 8 : 16;
        each_number(&r, (enum kernel_blocks) kind, rows, rows);
        each_number(&r, (enum kernel_blocks) kind, 1, kind == KERNEL_Q4_K ? 11 : 29);
    }
    rig_close(&r);
}

static bool takes_many(enum kernel_blocks kind, enum dtype b) {
    return b == DTYPE_BF16 && mm_takes_many(mm_type(rig_arch, DTYPE_BF16), kind);
}

// A scale that is no number, whatever tells that, makes its block's numbers none.
static void no_numbers(struct rig * r, enum kernel_blocks kind, enum dtype b, int64_t n) {
    enum { BITS = 10 }; // of f16
    const struct shape s = {BITS + 1, n, 2 * kernel_block_cut(kind), 1, 1, 1, 1, 0, 0, 0};
    struct kernel_spec spec = spec_of_blocks(kind, b, &s);
    struct kernel_code code;
    assert_int_equal(rig_compile(&spec, &code, NULL), ST_OK);
    rig_allocate(r, &spec);
    fill(r, &spec);
    int block = kernel_block_bytes(kind);
    for (int64_t row = 0; row < s.m; row++) {
        uint8_t * at = r->data[0] + row * spec.inputs[0].nb[1];
        uint16_t none = (uint16_t) (0x7c00 | (row < BITS ? 1 << row : 0x83ff)), one = 0x3c00;
        for (int64_t i = 0; i < 4 * spec.inputs[0].ne[0]; i += 2) {
            if (block_is_scale(kind, (int) (i % block))) {
                memcpy(at + i, i < block ? &none : &one, 2);
            }
        }
    }
    size_t size = (size_t) dtype_size(b);
    memset(r->data[1], 0, size * (size_t) (s.n * s.k));
    for (int64_t i = 0; i < s.n; i++) { // which lies within the first block
        memcpy(r->data[1] + size * (size_t) (i * s.k + i % BLOCK_K),
               b == DTYPE_F32 ? "\0\0\x80\x3f" : "\x80\x3f", size);
    }
    rig_run(r, &spec, &code);
    for (int64_t i = 0; i < s.m * s.n; i++) {
        float got;
        memcpy(&got, r->data[2] + 4 * i, 4);
        if (!isnan(got)) {
            print_message("%s, %d rows: row %d times row %d is %g\n", kernel_block_name(kind),
                          (int) n, (int) (i % s.m), (int) (i / s.m), (double) got);
            fail();
        }
    }
    rig_free(r);
    kernel_code_free(&code);
}

static void test_no_numbers(void ** state) {
    (void) state;
    struct rig r;
    rig_open(&r);
    for (int i = 0; i < KERNEL_BLOCKS; i++) {
        enum kernel_blocks kind = (enum kernel_blocks) i;
        if (kind == KERNEL_MXFP4) { // whose scales are other numbers
            continue;
        }
        no_numbers(&r, kind, DTYPE_F32, 1);
        no_numbers(&r, kind, DTYPE_F32, kind == KERNEL_Q6_K ? 8 : FEW);
        if (takes_many(kind, DTYPE_BF16)) {
            no_numbers(&r, kind, DTYPE_BF16, FEW + 1);
        }
    }
    rig_close(&r);
}

static void test_blocks(void ** state) {
    (void) state;
    static const struct shape some[] = {
        {64, 1, 64, 1, 1, 1, 1, 0, 0, 0},     {1, 1, 64, 1, 1, 1, 1, 0, 0, 0},
        {520, 4, 512, 1, 1, 1, 1, 0, 0, 0},   {600, 16, 768, 1, 1, 1, 1, 0, 0, 0},
        {40, 9, 3008, 1, 1, 1, 1, 0, 0, 0},   {70, 1, 11008, 1, 1, 1, 1, 0, 0, 0},
        {32, 8, 64, 2, 3, 4, 3, 0, 0, 0},     {50, 3, 128, 1, 2, 1, 2, 8, 100, 4},
        {1100, 1, 2048, 1, 1, 1, 1, 0, 0, 0}, {24, 2, 192, 1, 1, 1, 1, 0, 0, 0},
    };
    static const struct shape none[] = {{64, 1, 96, 1, 1, 1, 1, 0, 0, 0},
                                        {64, 17, 256, 1, 1, 1, 1, 0, 0, 0}};
    const int step = rig_whole ? 1 : 3 * RIG_EVERY; // then each shape of some kinds
    struct rig r;
    rig_open(&r);
    for (int kind = 0; kind < KERNEL_BLOCKS; kind++) {
        for (int b = 0; b < 2; b++) {
            enum dtype tb = b ? DTYPE_BF16 : DTYPE_F32;
            for (int i = (kind + b) % step; i < (int) (sizeof some / sizeof some[0]); i += step) {
                struct shape s = some[i];
                int cut = kernel_block_cut((enum kernel_blocks) kind);
                s.k = (s.k + cut - 1) / cut * cut;
                struct kernel_spec spec = spec_of_blocks((enum kernel_blocks) kind, tb, &s);
                if (kind == KERNEL_Q6_K && s.n > 8) {
                    assert_int_equal(aie_supports(&spec, NULL), ST_UNSUPPORTED);
                    continue;
                }
                uint64_t cycles = run_spec(&r, spec, &s);
                print_message("%s %s %dx%dx%d: %llu cycles\n",
                              kernel_block_name((enum kernel_blocks) kind), dtype_name(tb),
                              (int) s.m, (int) s.n, (int) s.k, (unsigned long long) cycles);
            }
            for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
                struct kernel_spec spec = spec_of_blocks((enum kernel_blocks) kind, tb, &none[i]);
                bool many = none[i].n > FEW && !mm_by_planes((enum kernel_blocks) kind) &&
                            none[i].k % kernel_block_cut((enum kernel_blocks) kind) == 0;
                assert_int_equal(aie_supports(&spec, NULL), many ? ST_OK : ST_UNSUPPORTED);
            }
        }
    }
    rig_close(&r);
}

// Blocks and many rows of b, by gemv's program on gemm's array: one tile of a core, several; tiles
// that do not come out even; rows apart, batches.
static void test_wide_blocks(void ** state) {
    (void) state;
    static const struct shape some[] = {
        {256, 64, 256, 1, 1, 1, 1, 0, 0, 0},  {70, 17, 512, 1, 1, 1, 1, 0, 0, 0},
        {300, 130, 256, 1, 1, 1, 1, 0, 0, 0}, {513, 40, 1024, 1, 1, 1, 1, 0, 0, 0},
        {50, 33, 256, 2, 1, 4, 2, 8, 12, 4},  {600, 100, 64, 1, 1, 1, 1, 0, 0, 0},
    };
    struct rig r;
    rig_open(&r);
    for (int i = 0; i < KERNEL_BLOCKS * 2; i++) {
        enum kernel_blocks kind = (enum kernel_blocks)(i / 2);
        enum dtype b = i % 2 ? DTYPE_BF16 : DTYPE_F32;
        if (mm_by_planes(kind) || takes_many(kind, b)) {
            continue;
        }
        const int step = rig_whole ? 1 : 6; // then each shape of one or two kinds
        for (int n = i % step; n < (int) (sizeof some / sizeof some[0]); n += step) {
            struct shape s = some[n];
            int cut = kernel_block_cut(kind);
            s.k = (s.k + cut - 1) / cut * cut;
            uint64_t cycles = run_spec(&r, spec_of_blocks(kind, b, &s), &s);
            print_message("%s %s %dx%dx%d: %llu cycles\n", kernel_block_name(kind), dtype_name(b),
                          (int) s.m, (int) s.n, (int) s.k, (unsigned long long) cycles);
        }
    }
    rig_close(&r);
}

// Blocks and many rows of b: one tile of a core, two at a time, several of these; tiles and slices
// that do not come out even; rows apart, batches. Then each number, to the last bit.
static void test_many_blocks(void ** state) {
    (void) state;
    static const struct shape some[] = {
        {256, 256, 64, 1, 1, 1, 1, 0, 0, 0},   {256, 512, 128, 1, 1, 1, 1, 0, 0, 0},
        {70, 17, 192, 1, 1, 1, 1, 0, 0, 0},    {300, 300, 320, 1, 1, 1, 1, 0, 0, 0},
        {513, 1030, 256, 1, 1, 1, 1, 0, 0, 0}, {33, 257, 2048, 1, 1, 1, 1, 0, 0, 0},
        {20, 600, 11008, 1, 1, 1, 1, 0, 0, 0}, {50, 130, 64, 2, 1, 4, 2, 8, 12, 4},
        {1, 400, 64, 1, 1, 1, 1, 0, 0, 0},
    };
    struct rig r;
    rig_open(&r);
    for (int kind = 0; kind < KERNEL_BLOCKS; kind++) {
        if (!takes_many((enum kernel_blocks) kind, DTYPE_BF16)) {
            continue;
        }
        for (size_t i = (size_t) kind % RIG_EVERY; i < sizeof some / sizeof some[0];
             i += RIG_EVERY) {
            struct kernel_spec spec =
                spec_of_blocks((enum kernel_blocks) kind, DTYPE_BF16, &some[i]);
            uint64_t cycles = run_spec(&r, spec, &some[i]);
            print_message("%s %dx%dx%d: %llu cycles\n",
                          kernel_block_name((enum kernel_blocks) kind), (int) some[i].m,
                          (int) some[i].n, (int) some[i].k, (unsigned long long) cycles);
        }
        const struct shape s = {75, 128, 128, 1, 1, 1, 1, 0, 0, 0};
        struct kernel_spec spec = spec_of_blocks((enum kernel_blocks) kind, DTYPE_BF16, &s);
        struct kernel_code code;
        assert_int_equal(rig_compile(&spec, &code, NULL), ST_OK);
        rig_allocate(&r, &spec);
        fill(&r, &spec);
        fill_odd_scales(&r, &spec);
        memset(r.data[1], 0, (size_t) (2 * s.n * s.k));
        for (int64_t n = 0; n < s.n; n++) {
            memcpy(r.data[1] + 2 * (n * s.k + n), &(uint16_t){0x3f80}, 2);
        }
        rig_run(&r, &spec, &code);
        for (int64_t i = 0; i < s.m * s.n; i++) {
            const uint8_t * row = row_of(&r, &spec, 0, i % s.m, 0, 0);
            float got;
            memcpy(&got, r.data[2] + 4 * i, 4);
            double want = rounded_value((enum kernel_blocks) kind, row, i / s.m, false);
            if (i % s.m < FIRST_BEYOND ? (double) got != want : isfinite(got)) {
                print_message("%s: row %d, number %d is %g, not %g\n",
                              kernel_block_name((enum kernel_blocks) kind), (int) (i % s.m),
                              (int) (i / s.m), (double) got, want);
                fail();
            }
        }
        rig_free(&r);
        kernel_code_free(&code);
    }
    rig_close(&r);
}

static struct kernel_spec spec_of_shared(const struct shape * s) {
    struct kernel_spec spec = spec_of(DTYPE_BF16, s);
    spec.op = KERNEL_OP_MUL_MAT_SHARED;
    return spec;
}

// Block floats: what comes out is the product of the numbers that share exponents, up to the f32
// sums; and that is as near to the product as ggml asks (NMSE 5e-4), at numbers of four exponents.
static void test_shared(void ** state) {
    (void) state;
    static const struct shape some[] = {
        {64, 64, 64, 1, 1, 1, 1, 0, 0, 0},     {256, 256, 128, 1, 1, 1, 1, 0, 0, 0},
        {300, 1030, 264, 1, 1, 1, 1, 0, 0, 0}, {30, 600, 136, 1, 1, 4, 1, 4, 8, 12},
        {1, 17, 8, 1, 1, 1, 1, 0, 0, 0},       {100, 33, 104, 1, 1, 1, 1, 0, 0, 0},
        {20, 24, 11008, 1, 1, 1, 1, 0, 0, 0},  {48, 40, 72, 2, 1, 6, 2, 0, 0, 0},
        {50, 3, 64, 1, 2, 1, 2, 4, 100, 4},
    };
    if (!aie_target(rig_arch)->mac_block.m) {
        struct kernel_spec spec = spec_of_shared(&some[0]);
        assert_int_equal(aie_supports(&spec, NULL), ST_UNSUPPORTED);
        return;
    }
    struct rig r;
    rig_open(&r);
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        struct kernel_spec spec = spec_of_shared(&some[i]);
        print_message("block floats %dx%dx%d\n", (int) some[i].m, (int) some[i].n, (int) some[i].k);
        run_spec(&r, spec, &some[i]);
    }
    // how far from bf16
    struct kernel_spec spec = spec_of(DTYPE_BF16, &some[1]);
    double off = 0, all = 0;
    rig_allocate(&r, &spec);
    fill(&r, &spec);
    for (int64_t i = 0; i < some[1].m * 16; i++) {
        const uint8_t *a = row_of(&r, &spec, 0, i / 16, 0, 0),
                      *b = row_of(&r, &spec, 1, i % 16, 0, 0);
        double exact = 0, sum = 0;
        for (int64_t k = 0; k < some[1].k; k++) {
            exact += float_value(DTYPE_BF16, a, k) * float_value(DTYPE_BF16, b, k);
            sum += shared_value(a, k) * shared_value(b, k);
        }
        off += (sum - exact) * (sum - exact);
        all += exact * exact;
    }
    print_message("block floats: NMSE %.2g\n", off / all);
    assert_true(off / all < 5e-4);
    rig_free(&r);
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
// descriptors those of the PDI or not. Numbers of the tasks themselves are others' to check.
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

static void refused(const struct kernel_spec * spec, enum status want, const char * word) {
    struct error err = {0};
    assert_int_equal(aie_supports(spec, &err), want);
    if (!strstr(err.text, word)) {
        print_message("\"%s\" has no \"%s\"\n", err.text, word);
        fail();
    }
}

static void test_refusals(void ** state) {
    (void) state;
    static const struct shape s = {20, 30, 64, 1, 1, 2, 1, 0, 0, 0};
    struct kernel_spec good = spec_of(DTYPE_BF16, &s), spec = good;
    assert_int_equal(aie_supports(&good, NULL), ST_OK);
    spec.inputs[0].ne[0] = spec.inputs[1].ne[0] = 60;
    refused(&spec, ST_UNSUPPORTED, "no multiple of 8");
    spec = good;
    spec.inputs[0].ne[1] = 0;
    refused(&spec, ST_UNSUPPORTED, "without elements");
    spec = good;
    spec.inputs[1].ne[0] = 72;
    refused(&spec, ST_INVALID, "shapes");
    spec = good;
    spec.inputs[0].ne[2] = 3;
    refused(&spec, ST_INVALID, "shapes");
    spec = good;
    spec.inputs[1] = strided(DTYPE_F32, s.k, s.n, s.b2, 1, 0);
    refused(&spec, ST_UNSUPPORTED, "f32");
    spec = good;
    spec.inputs[0].dtype = DTYPE_F32;
    refused(&spec, ST_UNSUPPORTED, "f32");
    spec = good;
    spec.inputs[1].nb[1] = 130;
    refused(&spec, ST_UNSUPPORTED, "whole words");
    spec = good;
    spec.inputs[0].nb[1] = 0;
    refused(&spec, ST_UNSUPPORTED, "apart");
    spec = good;
    spec.inputs[0].nb[1] = 8 << 20;
    refused(&spec, ST_UNSUPPORTED, "apart");
    const struct shape deep = {20, 30, 8 * 100003, 1, 1, 1, 1, 0, 0, 0};
    spec = spec_of(DTYPE_BF16, &deep);
    refused(&spec, ST_UNSUPPORTED, "too long");
}

// Batches of one b have columns of their own: as many as there are columns, fewer, more, and
// numbers of them that do not share the columns evenly; rows that fill no tile. The same sums as
// any others, and in one step where each batch has its columns.
static void test_batches_of_one(void ** state) {
    (void) state;
    static const struct shape some[] = {
        {128, 1, 128, 2, 1, 2, 1, 0, 0, 0}, {40, 3, 64, 4, 1, 4, 1, 0, 0, 0},
        {96, 1, 64, 8, 1, 8, 1, 0, 0, 16},  {70, 2, 64, 3, 1, 3, 1, 0, 0, 0},
        {33, 1, 64, 6, 1, 6, 1, 0, 0, 0},   {600, 1, 128, 2, 2, 2, 2, 0, 0, 0},
    };
    struct rig r;
    rig_open(&r);
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        struct kernel_spec spec = spec_with(DTYPE_BF16, DTYPE_F32, &some[i]);
        struct mm_plan p;
        int columns = rig_columns ? rig_columns : aie_target(rig_arch)->columns;
        spec.inputs[1].nb[2] = 0;
        assert_int_equal(mm_plan_make(&spec, &p, NULL), ST_OK);
        bool even = columns % some[i].b2 == 0;
        assert_true(even ? p.beside == some[i].b2 : p.beside < some[i].b2);
        assert_int_equal(p.columns % p.beside, 0);
        assert_int_equal(some[i].b2 % p.beside, 0);
        assert_true(!even || p.steps == some[i].b3);
        run_spec(&r, spec, &some[i]);
        spec.inputs[1] = strided(DTYPE_F32, some[i].k, some[i].n, some[i].b2, some[i].b3, 0);
        assert_int_equal(mm_plan_make(&spec, &p, NULL), ST_OK); // each has a b of its own
        assert_int_equal(p.beside, 1);
    }
    rig_close(&r);
}

static int peak(enum dtype t) { // multiplications of a core in a cycle
    static const int peaks[AIE_ARCH_COUNT][3] = {{128, 256, 64}, {64, 512, 128}};
    return peaks[rig_arch][t == DTYPE_BF16 ? 0 : t == DTYPE_I8 ? 1 : 2];
}

int main(int argc, char ** argv) {
    rig_arguments(argc, argv, argc < 5 ? 1 : 5);
    if (argc >= 5) { // dtype m n k and the architecture: one shape, with its cycles
        enum dtype t;
        struct shape s = {atoi(argv[2]), atoi(argv[3]), atoi(argv[4]), 1, 1, 1, 1, 0, 0, 0};
        struct rig r;
        int kind = 0;
        while (kind < KERNEL_BLOCKS &&
               strcmp(argv[1], kernel_block_name((enum kernel_blocks) kind))) {
            kind++;
        }
        bool shared = !strcmp(argv[1], "bfp16");
        if (!dtype_parse(kind < KERNEL_BLOCKS || shared ? "bf16" : argv[1], &t)) {
            return 2;
        }
        rig_open(&r);
        uint64_t cycles =
            kind < KERNEL_BLOCKS
                ? run_spec(&r, spec_of_blocks((enum kernel_blocks) kind, DTYPE_F32, &s), &s)
            : shared ? run_spec(&r, spec_of_shared(&s), &s)
                     : run(&r, t, &s);
        int macs = shared ? 512 : peak(t), cores = 4 * aie_target(rig_arch)->columns;
        printf("%llu cycles, %.1f %% of the peak of %d cores\n", (unsigned long long) cycles,
               100.0 * (double) s.m * (double) s.n * (double) s.k / macs / cores / (double) cycles,
               cores);
        rig_close(&r);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_number),
        cmocka_unit_test(test_no_numbers),
        cmocka_unit_test(test_wide_blocks),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_many_blocks),
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
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_tasks_between),
        cmocka_unit_test(test_batches_of_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
