// UNPACK against ggml's formats written out (block-values.h), through the compiler and the emulated
// array: every kind of block, few rows and many, rows that 64 does not divide, rows with gaps, rows
// of one slice and of hundreds, numbers whose scales are hardly any. Every kernel runs twice on the
// same array with different data, and every number is compared: to the last bit, or where three
// terms are added up, to what that may cost.
#include "kernel-rig.h"

#include "block-values.h"

static uint64_t seed = 1;

static uint32_t next(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (seed >> 33);
}

// Rows of k numbers with a gap behind each.
static struct kernel_spec spec_of(enum kernel_blocks kind, int64_t k, int64_t rows, int64_t more,
                                  int64_t gap) {
    int64_t words = k / kernel_block_k(kind) * kernel_block_bytes(kind) / 4;
    struct kernel_spec s = {
        .op = KERNEL_OP_UNPACK,
        .arch = rig_arch,
        .columns = rig_columns,
        .n_inputs = 1,
        .inputs[0] = tensor_contiguous(DTYPE_I32, (const int64_t[4]){words, rows, more, 1}),
        .output = tensor_contiguous(DTYPE_BF16, (const int64_t[4]){k, rows, more, 1}),
        .params[0] = kind,
    };
    for (int d = 1; d < 4; d++) {
        s.inputs[0].nb[d] =
            d == 1 ? 4 * words + gap : s.inputs[0].nb[d - 1] * s.inputs[0].ne[d - 1];
    }
    return s;
}

// Numbers are any, scales between 2^-7 and 1.
static void fill(struct rig * r, const struct kernel_spec * spec) {
    const struct tensor * a = &spec->inputs[0];
    enum kernel_blocks kind = (enum kernel_blocks) spec->params[0];
    int block = kernel_block_bytes(kind);
    for (size_t i = 0; i < r->size[0] - RIG_GUARD; i++) {
        r->data[0][i] = (uint8_t) next();
    }
    for (int64_t row = 0; row < a->ne[1] * a->ne[2]; row++) {
        for (int64_t b = 0; b < 4 * a->ne[0]; b += block) {
            uint8_t * at = r->data[0] + row * a->nb[1] + b;
            at[0] = kind == KERNEL_MXFP4 ? (uint8_t) (121 + next() % 12) : at[0];
            for (int i = 0; i < block; i += 2) {
                uint16_t d = (uint16_t) ((next() & 0x83ff) | (8 + (next() & 7)) << 10);
                if (block_is_scale(kind, i)) {
                    memcpy(at + i, &d, 2);
                }
            }
        }
    }
}

// Scales that are hardly any: denormal ones, zeros, the least and the most; long blocks have two,
// of which one would be lost beside the other. Those of rows from BEYOND on are not finite, and no
// number of these may be.
enum { BEYOND = 70 };

static void fill_odd_scales(struct rig * r, const struct kernel_spec * spec) {
    static const uint16_t odd[] = {0x0001, 0x8001, 0x0000, 0x8000, 0x03ff, 0x83ff,
                                   0x0400, 0x8400, 0x0203, 0x7bff, 0xfbff, 0x2c03};
    static const uint8_t powers[] = {0, 1, 2, 3, 127, 200, 230, 243};
    static const uint16_t beyond[] = {0x7c00, 0xfc00, 0x7e00, 0x7fff, 0xfe55};
    const struct tensor * a = &spec->inputs[0];
    enum kernel_blocks kind = (enum kernel_blocks) spec->params[0];
    int block = kernel_block_bytes(kind);
    fill(r, spec);
    for (int64_t row = 0; row < a->ne[1]; row++) {
        uint8_t * at = r->data[0] + row * a->nb[1];
        for (int64_t i = 0; i < 4 * a->ne[0]; i++) {
            uint16_t d = row < BEYOND ? odd[(row / 2 + i) % 12] : beyond[row % 5];
            if (kind == KERNEL_MXFP4 && i % block == 0) {
                at[i] = powers[(row + i / block) % 8];
            } else if (i % 2 == 0 && block_is_scale(kind, (int) (i % block)) &&
                       (row >= BEYOND || kernel_block_k(kind) == 32)) {
                memcpy(at + i, &d, 2);
            }
        }
    }
}

// Of the long ones (128 + q) s, 128 s and m are added up in f32, and then rounded.
static double may_be_off(enum kernel_blocks kind, const uint8_t * row, int64_t i, double want) {
    int k = kernel_block_k(kind);
    struct block_number n =
        block_number(kind, row + i / k * kernel_block_bytes(kind), (int) (i % k));
    double terms = 256 * fabs(n.d * n.a) + fabs(n.dmin * n.b);
    return k > 32 ? ldexp(fabs(want), -7) + ldexp(terms, -23) : 0;
}

static void check(const struct rig * r, const struct kernel_spec * spec, bool has_beyond) {
    enum kernel_blocks kind = (enum kernel_blocks) spec->params[0];
    int64_t k = spec->output.ne[0], rows = spec->output.ne[1] * spec->output.ne[2];
    for (int64_t i = 0; i < rows * k; i++) {
        int64_t row = i / k;
        uint16_t bits;
        memcpy(&bits, r->data[1] + 2 * i, 2);
        uint32_t wide = (uint32_t) bits << 16;
        float got,
            want = (float) block_value(kind, r->data[0] + row * spec->inputs[0].nb[1], i % k, true);
        memcpy(&got, &wide, 4);
        bool finite = !has_beyond || row < BEYOND || kind == KERNEL_MXFP4;
        double off = fabs((double) got - (double) want);
        double most = may_be_off(kind, r->data[0] + row * spec->inputs[0].nb[1], i % k, want);
        if (finite ? !(off <= most) : isfinite(got)) {
            print_message("%s on %s: %d x %d, row %d, number %d is %g, not %g\n",
                          kernel_block_name(kind), kernel_arch_name(rig_arch), (int) rows, (int) k,
                          (int) row, (int) (i % k), (double) got, (double) want);
            fail();
        }
    }
}

static struct emu_counters run(struct rig * r, const struct kernel_spec * spec, bool odd) {
    struct kernel_code code;
    struct error err = {0};
    struct emu_counters counters = {0};
    enum status st = aie_compile(spec, &code, &err);
    if (st != ST_OK) {
        print_message("%s\n", err.text);
    }
    assert_int_equal(st, ST_OK);
    rig_allocate(r, spec);
    for (int round = 0; round < 2; round++) {
        (odd ? fill_odd_scales : fill)(r, spec);
        memset(r->data[1], 0x5a, r->size[1] - RIG_GUARD);
        rig_run(r, spec, &code);
        emu_machine_counters(r->machine, &counters);
        check(r, spec, odd);
    }
    rig_free(r);
    kernel_code_free(&code);
    return counters;
}

static void shapes(void ** state) {
    (void) state;
    static const struct {
        int64_t cuts, rows, more, gap; // k in what a row may be cut behind
    } some[] = {{1, 1, 1, 0},   {1, 2, 1, 0},  {2, 3, 1, 4},   {3, 64, 1, 0}, {4, 100, 1, 0},
                {1, 513, 1, 8}, {5, 70, 1, 0}, {8, 256, 1, 0}, {2, 40, 7, 0}, {7, 257, 1, 12}};
    struct rig r;
    rig_open(&r);
    for (int kind = 0; kind < KERNEL_BLOCKS; kind++) {
        for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
            if (!rig_whole && (i + (size_t) kind) % 2 && i) {
                continue;
            }
            int64_t k = some[i].cuts * kernel_block_cut((enum kernel_blocks) kind);
            struct kernel_spec spec =
                spec_of((enum kernel_blocks) kind, k, some[i].rows, some[i].more, some[i].gap);
            run(&r, &spec, false);
        }
    }
    rig_close(&r);
}

static void odd_scales(void ** state) {
    (void) state;
    struct rig r;
    rig_open(&r);
    for (int kind = 0; kind < KERNEL_BLOCKS; kind++) {
        int64_t k = 2 * kernel_block_cut((enum kernel_blocks) kind);
        struct kernel_spec spec = spec_of((enum kernel_blocks) kind, k, 75, 1, 0);
        run(&r, &spec, true);
    }
    rig_close(&r);
}

static void few_columns(void ** state) {
    (void) state;
    for (rig_columns = 1; rig_columns < 4; rig_columns++) {
        struct rig r;
        rig_open(&r);
        for (int kind = rig_columns - 1; kind < KERNEL_BLOCKS; kind += 3) {
            int64_t k = kernel_block_cut((enum kernel_blocks) kind);
            struct kernel_spec spec = spec_of((enum kernel_blocks) kind, k, 65, 1, 0);
            run(&r, &spec, false);
        }
        rig_close(&r);
    }
    rig_columns = 0;
}

// Nothing is held here but the bound that the rig knows; the figures are for who reads.
static void speed(void ** state) {
    (void) state;
    struct rig r;
    rig_open(&r);
    int64_t rows = rig_whole ? 2048 : 256;
    for (int kind = 0; kind < KERNEL_BLOCKS; kind++) {
        struct kernel_spec spec = spec_of((enum kernel_blocks) kind, 2048, rows, 1, 0);
        struct emu_counters c = run(&r, &spec, false);
        print_message("%s on %s: %llu cycles for %lld x 2048\n",
                      kernel_block_name((enum kernel_blocks) kind), kernel_arch_name(rig_arch),
                      (unsigned long long) c.last_cycles, (long long) rows);
    }
    rig_close(&r);
}

static void refusals(void ** state) {
    (void) state;
    struct error err;
    struct kernel_spec spec = spec_of(KERNEL_Q4_0, 128, 16, 1, 0);
    assert_int_equal(aie_supports(&spec, &err), ST_OK);
    spec.params[0] = KERNEL_BLOCKS;
    assert_int_not_equal(aie_supports(&spec, &err), ST_OK);
    spec = spec_of(KERNEL_Q4_0, 96, 16, 1, 0); // half of a slice
    assert_int_not_equal(aie_supports(&spec, &err), ST_OK);
    spec = spec_of(KERNEL_Q6_K, 256, 16, 1, 0); // ends in the middle of a word
    assert_int_not_equal(aie_supports(&spec, &err), ST_OK);
    spec = spec_of(KERNEL_Q8_0, 128, 16, 1, 0);
    spec.output.ne[1] = 15;
    assert_int_not_equal(aie_supports(&spec, &err), ST_OK);
    spec = spec_of(KERNEL_Q8_0, 128, 16, 1, 2); // no whole words
    assert_int_not_equal(aie_supports(&spec, &err), ST_OK);
    spec = spec_of(KERNEL_Q8_0, 64, 64 * 64 * 8 + 1, 1, 0);
    assert_int_not_equal(aie_supports(&spec, &err), ST_OK);
}

int main(int argc, char ** argv) {
    rig_arguments(argc, argv, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes), cmocka_unit_test(odd_scales), cmocka_unit_test(few_columns),
        cmocka_unit_test(speed),  cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
