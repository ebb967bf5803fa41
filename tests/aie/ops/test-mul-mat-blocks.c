// MUL_MAT of quantized blocks that come to the cores as they are: each number of them to the last
// bit, scales that are hardly any and scales that are none, and sums over shapes that meet every
// edge, for few rows of b and for many.
#include "mul-mat-rig.h"

#include "aie/ops/mul-mat/mul-mat-plan.h"

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

// Whether gemm has a program for these blocks that multiplies as gemv does.
static bool by_gemm(enum kernel_blocks kind) {
    return mm_by_gemm(mm_type(rig_arch, DTYPE_BF16), kind);
}

// Rows of b that are one 1 and zeros: each number of the blocks, to the last bit.
static void each_number(struct rig * r, enum kernel_blocks kind, enum dtype b, int64_t rows,
                        int64_t step) {
    int k = 2 * kernel_block_cut(kind);
    const struct shape s = {75, rows, k, 1, 1, 1, 1, 0, 0, 0};
    const size_t size = (size_t) dtype_size(b);
    struct kernel_spec spec = spec_of_blocks(kind, b, &s);
    struct kernel_code code;
    assert_int_equal(rig_compile(&spec, &code, NULL), ST_OK);
    rig_allocate(r, &spec);
    fill(r, &spec);
    fill_odd_scales(r, &spec);
    for (int64_t first = kind % rig_one_of() * rows; first < s.k; first += step * rig_one_of()) {
        memset(r->data[1], 0, size * (size_t) (s.n * s.k));
        for (int64_t n = 0; n < s.n; n++) {
            memcpy(r->data[1] + size * (size_t) (n * s.k + (first + n) % s.k),
                   b == DTYPE_F32 ? "\0\0\x80\x3f" : "\x80\x3f", size);
        }
        rig_run(r, &spec, &code);
        for (int64_t i = 0; i < s.m * s.n; i++) {
            const uint8_t * row = row_of(r, &spec, 0, i % s.m, 0, 0);
            float got;
            memcpy(&got, r->data[2] + 4 * i, 4);
            double want = rounded_value(kind, row, (first + i / s.m) % s.k, true);
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

// With a sanitizer, which does not change numbers, some types' numbers are looked at.
static bool numbers_wanted(int kind) {
    return rig_whole || RIG_EVERY == 1 || kind % 4 == 0;
}

// Of one row, which may go another way (aie2-quant-onerow.c), not all numbers.
static void test_each_number(void ** state) {
    (void) state;
    struct rig r;
    rig_open(&r);
    for (int kind = 0; kind < KERNEL_BLOCKS; kind++) {
        if (!numbers_wanted(kind)) {
            continue;
        }
        int64_t rows = kind == KERNEL_Q6_K ? 8 : 16;
        each_number(&r, (enum kernel_blocks) kind, DTYPE_F32, rows, rows);
        each_number(&r, (enum kernel_blocks) kind, DTYPE_F32, 1, kind == KERNEL_Q4_K ? 11 : 29);
        if (by_gemm((enum kernel_blocks) kind)) {
            rows = mm_few_rows(mm_type(rig_arch, DTYPE_BF16), (enum kernel_blocks) kind, false);
            each_number(&r, (enum kernel_blocks) kind, DTYPE_BF16, rows > FEW ? rows : rows + 8,
                        rows);
            each_number(&r, (enum kernel_blocks) kind, DTYPE_BF16, 6 * FEW + 1, 6 * FEW);
        }
    }
    rig_close(&r);
}

static bool takes_many(enum kernel_blocks kind, enum dtype b) {
    return b == DTYPE_BF16 && mm_takes_many(mm_type(rig_arch, DTYPE_BF16), kind, false);
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
        if (kind == KERNEL_MXFP4 || !numbers_wanted(i)) { // whose scales are other numbers
            continue;
        }
        no_numbers(&r, kind, DTYPE_F32, 1);
        no_numbers(&r, kind, DTYPE_F32, kind == KERNEL_Q6_K ? 8 : FEW);
        if (takes_many(kind, DTYPE_BF16) || by_gemm(kind)) {
            no_numbers(&r, kind, DTYPE_BF16, FEW + 1);
            no_numbers(&r, kind, DTYPE_BF16, 3 * FEW);
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
                            (b || !by_gemm((enum kernel_blocks) kind)) &&
                            none[i].k % kernel_block_cut((enum kernel_blocks) kind) == 0;
                assert_int_equal(aie_supports(&spec, NULL), many ? ST_OK : ST_UNSUPPORTED);
            }
        }
    }
    rig_close(&r);
}

// Blocks and many rows of b, by gemv's program on gemm's array, or by gemm's own: one tile of a
// core, several; tiles that do not come out even; rows apart, batches.
static void test_wide_blocks(void ** state) {
    (void) state;
    static const struct shape some[] = {
        {256, 64, 256, 1, 1, 1, 1, 0, 0, 0},  {70, 17, 512, 1, 1, 1, 1, 0, 0, 0},
        {300, 130, 256, 1, 1, 1, 1, 0, 0, 0}, {513, 40, 1024, 1, 1, 1, 1, 0, 0, 0},
        {50, 33, 256, 2, 1, 4, 2, 8, 12, 4},  {600, 100, 64, 1, 1, 1, 1, 0, 0, 0},
        {96, 29, 1024, 1, 1, 1, 1, 0, 0, 0},  {40, 32, 512, 2, 1, 4, 2, 8, 12, 4},
        {150, 521, 256, 1, 1, 1, 1, 0, 0, 0}, {64, 47, 4096, 1, 1, 1, 1, 0, 0, 0},
        {600, 23, 512, 1, 1, 1, 1, 0, 0, 0},  {64, 190, 512, 1, 1, 1, 1, 0, 0, 0},
    };
    struct rig r;
    rig_open(&r);
    for (int i = 0; i < KERNEL_BLOCKS * 2; i++) {
        enum kernel_blocks kind = (enum kernel_blocks)(i / 2);
        enum dtype b = i % 2 ? DTYPE_BF16 : DTYPE_F32;
        if (mm_by_planes(kind) || takes_many(kind, b) || (b == DTYPE_F32 && by_gemm(kind))) {
            continue;
        }
        const int step = rig_whole ? 1 : 5; // then each shape of one or two kinds
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
        const int cut = kernel_block_cut((enum kernel_blocks) kind);
        if (!takes_many((enum kernel_blocks) kind, DTYPE_BF16)) {
            continue;
        }
        for (size_t i = (size_t) kind % RIG_EVERY; i < sizeof some / sizeof some[0];
             i += RIG_EVERY) {
            if (RIG_EVERY > 1 && some[i].k > 4096) { // a minute of nothing but numbers
                continue;
            }
            struct shape s = some[i];
            s.k = (s.k + cut - 1) / cut * cut;
            struct kernel_spec spec = spec_of_blocks((enum kernel_blocks) kind, DTYPE_BF16, &s);
            uint64_t cycles = run_spec(&r, spec, &s);
            print_message("%s %dx%dx%d: %llu cycles\n",
                          kernel_block_name((enum kernel_blocks) kind), (int) s.m, (int) s.n,
                          (int) s.k, (unsigned long long) cycles);
        }
        const int numbers = 2 * cut > 256 ? cut : 128;
        const struct shape s = {75, numbers, numbers, 1, 1, 1, 1, 0, 0, 0};
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

int main(int argc, char ** argv) {
    rig_arguments(argc, argv, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_number), cmocka_unit_test(test_no_numbers),
        cmocka_unit_test(test_wide_blocks), cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_many_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
