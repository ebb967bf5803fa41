// CONVERT against conversions written out by bits, through the compiler and the emulated array:
// every f16 number, f32 numbers around every rounding case, rows of every odd length, strided, in
// more dimensions, longer than a core's memory. Every kernel runs twice on the same array with
// different data, and every element of the output is compared, padding included.
#include "kernel-rig.h"
#include "reference.h"

#include "aie/ops/convert/convert.h"

#include <time.h>

// ---- reference ----

static float float_of(uint32_t bits_) {
    float f;
    memcpy(&f, &bits_, 4);
    return f;
}

static uint32_t bits_of(float f) {
    uint32_t v;
    memcpy(&v, &f, 4);
    return v;
}

static uint16_t to_bf16(uint32_t v) { // not for NaNs
    uint32_t kept = v >> 16, dropped = v & 0xffff;
    return (uint16_t) (kept + (dropped > 0x8000 || (dropped == 0x8000 && (kept & 1))));
}

static uint32_t f16_bits(uint16_t h) { // of the f32 with the same value
    if ((h & 0x7fff) > 0x7c00) {
        return (uint32_t) (h >> 15) << 31 | 0x7fc00000;
    }
    return bits_of((float) ref_widen(h, 10, 5));
}

static uint16_t rest_of(uint32_t x, uint16_t hi) {
    float h = float_of((uint32_t) hi << 16);
    if (!isfinite(h)) {
        return 0;
    }
    float rest = (float) ((double) float_of(x) - (double) h); // exact
    return fabsf(rest) < 0x1p-126f ? 0 : to_bf16(bits_of(rest));
}

static bool is_nan16(uint16_t v) {
    return (v & 0x7fff) > 0x7f80;
}

static bool same_hi(uint32_t x, uint16_t got) {
    if ((x & 0x7fffffff) > 0x7f800000) {
        return is_nan16(got) && got >> 15 == x >> 31;
    }
    return got == to_bf16(x);
}

// hi, as it stands in the second place.
static bool same_again(uint32_t x, uint16_t got) {
    bool finite = (x & 0x7fffffff) < 0x7f800000 && (to_bf16(x) & 0x7f80) != 0x7f80;
    return finite ? same_hi(x, got) : got == 0;
}

static bool same_lo(uint32_t x, uint16_t got) {
    uint16_t hi = (x & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : to_bf16(x), want = rest_of(x, hi);
    return got == want || ((got | want) & 0x7fff) == 0; // either zero
}

// ---- running ----

// What a layout is of those that are nothing but other places.
static uint32_t pieces_of(uint32_t layout) {
    return layout < CV_LAYOUTS ? layout : CV_HI;
}

static struct kernel_spec spec_of(struct tensor in, uint32_t layout) {
    struct kernel_spec s = {.op = KERNEL_OP_CONVERT, .arch = rig_arch, .n_inputs = 1};
    int64_t ne[4] = {(in.ne[0] + 7) / 8 * 8 * (pieces_of(layout) ? 3 : 1), in.ne[1], in.ne[2],
                     in.ne[3]};
    s.inputs[0] = in;
    s.output = tensor_contiguous(DTYPE_BF16, ne);
    s.params[0] = layout;
    return s;
}

static struct tensor tensor_of(enum dtype t, int64_t k, int64_t r1, int64_t r2, int64_t r3) {
    int64_t ne[4] = {k, r1, r2, r3};
    return tensor_contiguous(t, ne);
}

// Rows with room behind them; dimensions 2 and 3 as well.
static struct tensor with_gaps(struct tensor t, int64_t gap1, int64_t gap2, int64_t gap3) {
    t.nb[1] = (t.ne[0] * dtype_size(t.dtype) + 3) / 4 * 4 + gap1;
    t.nb[2] = t.nb[1] * t.ne[1] + gap2;
    t.nb[3] = t.nb[2] * t.ne[2] + gap3;
    return t;
}

static uint32_t element(const struct tensor * t, const uint8_t * data, int64_t i, int64_t row) {
    const uint8_t * at = data + i * t->nb[0] + row % t->ne[1] * t->nb[1] +
                         row / t->ne[1] % t->ne[2] * t->nb[2] +
                         row / (t->ne[1] * t->ne[2]) * t->nb[3];
    uint32_t v = ref_get(t->dtype, at, 0);
    return t->dtype == DTYPE_F16 ? f16_bits((uint16_t) v) : v;
}

static void check_row(const struct kernel_spec * spec, const struct rig * r, int64_t row) {
    static const uint8_t is_lo[CV_LAYOUTS][3] = {{0, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    const struct tensor * in = &spec->inputs[0];
    int64_t padded = (in->ne[0] + 7) / 8 * 8;
    const uint8_t * out = r->data[1] + row * spec->output.ne[0] * 2;
    for (int64_t i = 0; i < spec->output.ne[0]; i++) {
        uint16_t got = (uint16_t) ref_get(DTYPE_BF16, out, i);
        int64_t piece = i / padded, at = i % padded;
        uint32_t x = at < in->ne[0] ? element(in, r->data[0], at, row) : 0;
        bool same = at >= in->ne[0]                            ? got == 0
                    : is_lo[pieces_of(spec->params[0])][piece] ? same_lo(x, got)
                    : piece > 0                                ? same_again(x, got)
                                                               : same_hi(x, got);
        if (!same) {
            char name[KERNEL_NAME_MAX];
            kernel_name(spec, name);
            print_message("%s: row %lld piece %lld element %lld: %08x became %04x\n", name,
                          (long long) row, (long long) piece, (long long) at, x, got);
        }
        assert_true(same);
    }
}

typedef void (*fill_fn)(struct rig * r, const struct kernel_spec * spec);

static void fill_random(struct rig * r, const struct kernel_spec * spec) {
    (void) spec;
    for (size_t i = 0; i < r->size[0] - RIG_GUARD; i++) {
        r->data[0][i] = (uint8_t) (rand() >> 4);
    }
}

static struct emu_counters run_spec(struct rig * r, const struct kernel_spec * spec, fill_fn fill) {
    struct kernel_code code;
    struct error err = {0};
    enum status st = rig_compile(spec, &code, &err);
    if (st != ST_OK) {
        print_message("%s\n", err.text);
    }
    assert_int_equal(st, ST_OK);
    rig_allocate(r, spec);
    struct emu_counters counters;
    for (int round = 0; round < 2; round++) {
        fill(r, spec);
        memset(r->data[1], 0x5a, r->size[1] - RIG_GUARD);
        rig_run(r, spec, &code);
        emu_machine_counters(r->machine, &counters);
        for (int64_t row = 0; row < spec->output.ne[1] * spec->output.ne[2] * spec->output.ne[3];
             row++) {
            check_row(spec, r, row);
        }
    }
    rig_free(r);
    kernel_code_free(&code);
    return counters;
}

static void run_layouts(struct rig * r, struct tensor in, fill_fn fill) {
    for (uint32_t layout = 0; layout < CV_LAYOUTS; layout++) {
        struct kernel_spec spec = spec_of(in, layout);
        run_spec(r, &spec, fill);
    }
}

// ---- numbers ----

static void fill_patterns(struct rig * r, const struct kernel_spec * spec) {
    for (int64_t i = 0; i < spec->inputs[0].ne[0]; i++) {
        uint16_t v = (uint16_t) i;
        memcpy(r->data[0] + 2 * i, &v, 2);
    }
}

static void every_f16(void ** state) {
    (void) state;
    struct rig r;
    rig_open(&r);
    run_layouts(&r, tensor_of(DTYPE_F16, 65536, 1, 1, 1), fill_patterns);
    rig_close(&r);
}

// Both signs of every exponent with mantissas around what rounding and taking apart may get wrong.
static void fill_edges(struct rig * r, const struct kernel_spec * spec) {
    static const uint32_t mantissas[] = {
        0,        1,        0x7fff,   0x8000,   0x8001,   0xffff,   0x10000,  0x17fff,
        0x18000,  0x18001,  0x1ffff,  0x3f8000, 0x3fffff, 0x400000, 0x400001, 0x7f0000,
        0x7f7fff, 0x7f8000, 0x7f8001, 0x7fffff, 0x7ffffe, 0x123456, 0x555555, 0x2aaaaa};
    enum { N = sizeof mantissas / sizeof mantissas[0] };
    for (int64_t i = 0; i < spec->inputs[0].ne[0]; i++) {
        uint32_t v = mantissas[i % N] | (uint32_t) (i / N % 512) << 23;
        v = i >= 512 * N ? v ^ ((uint32_t) rand() & 0x7fffff) : v;
        memcpy(r->data[0] + 4 * i, &v, 4);
    }
}

static void edges_of_f32(void ** state) {
    (void) state;
    struct rig r;
    rig_open(&r);
    run_layouts(&r, tensor_of(DTYPE_F32, (rig_whole ? 8 : 2) * 512 * 24, 1, 1, 1), fill_edges);
    rig_close(&r);
}

// A left row times a right row is the product of the numbers to 16 bits.
static void pieces_add_up(void ** state) {
    (void) state;
    for (int i = 0; i < 100000; i++) {
        float x = ldexpf((float) rand() / (float) RAND_MAX - 0.5f, rand() % 60 - 30);
        uint16_t hi = to_bf16(bits_of(x)), lo = rest_of(bits_of(x), hi);
        double sum =
            (double) float_of((uint32_t) hi << 16) + (double) float_of((uint32_t) lo << 16);
        assert_true(fabs(sum - (double) x) <= ldexp(fabs((double) x), -16));
    }
}

// ---- shapes ----

static void lengths(void ** state) {
    (void) state;
    static const int64_t k[] = {1,   2,   3,   7,    8,    9,    33,   255,  256,  257, 500,
                                510, 511, 784, 1023, 1031, 2039, 2040, 2041, 5000, 5001};
    static const int64_t rows[] = {1, 3, 70};
    struct rig r;
    rig_open(&r);
    srand(5);
    for (size_t i = 0; i < sizeof k / sizeof k[0]; i++) {
        for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
            if (!rig_whole && (i + n) % 3) { // each length once
                continue;
            }
            run_layouts(&r, tensor_of(DTYPE_F32, k[i], rows[n], 1, 1), fill_random);
            run_layouts(&r, with_gaps(tensor_of(DTYPE_F16, k[i], rows[n], 1, 1), 0, 0, 0),
                        fill_random);
        }
    }
    rig_close(&r);
}

static void strides(void ** state) {
    (void) state;
    static const int64_t shapes[][4] = {
        {64, 5, 7, 3}, {33, 40, 3, 2}, {7, 300, 2, 1},  {1100, 4, 3, 1}, {3000, 2, 2, 2},
        {8, 1, 50, 1}, {9, 2, 1, 40},  {1, 1100, 3, 1}, {9, 2, 2, 200},  {33, 3, 2, 300}};
    struct rig r;
    rig_open(&r);
    srand(6);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const int64_t * s = shapes[i];
        for (int t = DTYPE_F32; t <= DTYPE_F16; t++) {
            if (!rig_whole && (i + (size_t) t) % 2) { // of each shape one datatype
                continue;
            }
            struct tensor in = tensor_of((enum dtype) t, s[0], s[1], s[2], s[3]);
            run_layouts(&r, with_gaps(in, 8, 0, 0), fill_random);
            run_layouts(&r, with_gaps(in, 0, 4, 12), fill_random);
            run_layouts(&r, with_gaps(in, 20, 16, 0), fill_random);
            // Rows and heads exchanged, as attention has it; and one row for all.
            struct tensor swapped = with_gaps(in, 0, 0, 0);
            int64_t row = swapped.nb[1];
            swapped.nb[1] = row * s[2];
            swapped.nb[2] = row;
            run_layouts(&r, swapped, fill_random);
            swapped.nb[1] = 0;
            run_layouts(&r, swapped, fill_random);
        }
    }
    rig_close(&r);
}

static void random_shapes(void ** state) {
    (void) state;
    struct rig r;
    rig_open(&r);
    srand(8);
    for (int i = 0; i < (rig_whole ? 30 : 4); i++) {
        int64_t k = 1 + rand() % (rand() % 2 ? 40 : 6000), left = 1 + rand() % (400000 / k + 1),
                n[3];
        for (int d = 0; d < 3; d++) {
            n[d] = 1 + rand() % (d < 2 && left > 3 && rand() % 2 ? left / (1 + rand() % 3) : left);
            left = left / n[d] > 0 ? left / n[d] : 1;
        }
        struct tensor in = tensor_of(rand() % 2 ? DTYPE_F32 : DTYPE_F16, k, n[0], n[1], n[2]);
        in = with_gaps(in, rand() % 3 * 4, rand() % 3 * 4, rand() % 3 * 4);
        if (rand() % 2) {
            int a = 1 + rand() % 3, b = 1 + rand() % 3;
            int64_t ne = in.ne[a], nb = in.nb[a];
            in.ne[a] = in.ne[b];
            in.nb[a] = in.nb[b];
            in.ne[b] = ne;
            in.nb[b] = nb;
        }
        struct kernel_spec spec = spec_of(in, (uint32_t) rand() % CV_LAYOUTS);
        run_spec(&r, &spec, fill_random);
    }
    rig_close(&r);
}

static void many_rows(void ** state) {
    (void) state;
    struct rig r;
    rig_open(&r);
    srand(7);
    run_layouts(&r, tensor_of(DTYPE_F32, 1, rig_whole ? 40000 : 9000, 1, 1), fill_random);
    run_layouts(&r, tensor_of(DTYPE_F32, 17, rig_whole ? 9000 : 1100, 1, 1), fill_random);
    struct kernel_spec spec = spec_of(tensor_of(DTYPE_F32, 257, 4200, 1, 1), CV_HI);
    run_spec(&r, &spec, fill_random); // more chunks than a queue repeats
    run_layouts(&r, with_gaps(tensor_of(DTYPE_F16, 5, rig_whole ? 9000 : 1100, 1, 1), 0, 0, 0),
                fill_random);
    // Rows so far apart that no descriptor can step from one to the next.
    struct tensor far = tensor_of(DTYPE_F32, 40, 3, 1, 1);
    far.nb[1] = 5 << 20;
    run_layouts(&r, far, fill_random);
    far = tensor_of(DTYPE_F32, rig_whole ? 800000 : 80000, 3, 1, 1);
    spec = spec_of(far, CV_HI_LO_HI);
    run_spec(&r, &spec, fill_random);
    rig_close(&r);
}

// Many numbers that follow each other, on the PDI of the products that want them; what is next to
// that on the other one.
static void where_products_are(void ** state) {
    (void) state;
    static const struct {
        int64_t ne[4];
        uint32_t layout;
        bool many;
    } cases[] = {{{64, 32, 512, 1}, CV_HI, true},       {{2048, 576, 1, 1}, CV_HI, true},
                 {{2048, 513, 1, 1}, CV_HI, false},     {{2048, 480, 1, 1}, CV_HI, false},
                 {{2048, 144, 1, 1}, CV_HI_MANY, true}, {{2048, 17, 1, 1}, CV_HI_MANY, true},
                 {{4096, 1, 1, 1}, CV_HI_MANY, true},   {{72, 333, 1, 1}, CV_HI_MANY, true},
                 {{1000, 66, 1, 1}, CV_HI_MANY, true},  {{2048, 17, 1, 1}, CV_HI_BLOCKS, true},
                 {{72, 333, 1, 1}, CV_HI_BLOCKS, true}};
    struct rig r;
    rig_open(&r);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int64_t * ne = cases[i].ne;
        struct kernel_spec spec =
            spec_of(tensor_of(DTYPE_F32, ne[0], ne[1], ne[2], ne[3]), cases[i].layout);
        assert_int_equal(convert_is_many(&spec), cases[i].many);
        run_spec(&r, &spec, fill_random);
    }
    rig_close(&r);
}

// Every f16 number where a product of few rows makes it bf16, one at a time: b has a 1 in one place
// of each row. Those that are not finite have rows of a for themselves, for they leave nothing of a
// sum.
static void every_f16_in_products(void ** state) {
    (void) state;
    enum { K = 64, N = 16, FINITE = 2 * 0x7c00, OTHERS = 65536 - FINITE, M = FINITE / K + OTHERS };
    struct kernel_spec spec = {
        .op = KERNEL_OP_MUL_MAT,
        .arch = rig_arch,
        .n_inputs = 2,
        .inputs = {tensor_of(DTYPE_F16, K, M, 1, 1), tensor_of(DTYPE_F32, K, N, 1, 1)},
        .output = tensor_of(DTYPE_F32, M, N, 1, 1)};
    struct kernel_code code;
    struct rig r;
    assert_int_equal(rig_compile(&spec, &code, NULL), ST_OK);
    rig_open(&r);
    rig_allocate(&r, &spec);
    uint16_t * a = (uint16_t *) (void *) r.data[0];
    memset(a, 0, 2 * (size_t) M * K);
    for (uint32_t i = 0; i < 65536; i++) {
        uint32_t n = i < FINITE ? i : i - FINITE, from = i < FINITE ? 0 : 0x7c00;
        a[i < FINITE ? i : FINITE + n * K + i % K] = (uint16_t) ((n & 1) << 15 | (from + n / 2));
    }
    for (int first = 0; first < K; first += N) {
        float * b = (float *) (void *) r.data[1];
        for (int i = 0; i < N * K; i++) {
            b[i] = i % K == first + i / K ? 1 : 0;
        }
        rig_run(&r, &spec, &code);
        for (int i = 0; i < N * M; i++) {
            int row = i % M, k = first + i / M;
            uint16_t half = a[row * K + k];
            float got = ((const float *) (const void *) r.data[2])[i];
            if ((half & 0x7fff) > 0x7c00) {
                assert_true(isnan(got));
            } else if (row < FINITE / K || half) { // zeros beside what is not finite are NaNs
                assert_true(got == float_of((uint32_t) to_bf16(f16_bits(half)) << 16));
            }
        }
    }
    rig_free(&r);
    rig_close(&r);
    kernel_code_free(&code);
}

static void refusals(void ** state) {
    (void) state;
    struct error err = {0};
    struct kernel_spec good = spec_of(tensor_of(DTYPE_F32, 20, 3, 2, 1), CV_HI), s = good;
    assert_int_equal(aie_supports(&good, &err), ST_OK);
    s.output.ne[0] = 20;
    assert_int_equal(aie_supports(&s, &err), ST_INVALID);
    s = good;
    s.params[0] = CV_PLACES;
    assert_int_equal(aie_supports(&s, &err), ST_INVALID);
    s.params[0] = CV_HI_MANY; // too few
    assert_int_equal(aie_supports(&s, &err), ST_UNSUPPORTED);
    s = good;
    s.inputs[0].dtype = DTYPE_I32;
    assert_int_equal(aie_supports(&s, &err), ST_UNSUPPORTED);
    s = good;
    s.output.nb[1] += 16;
    assert_int_equal(aie_supports(&s, &err), ST_UNSUPPORTED);
    s = spec_of(tensor_of(DTYPE_F16, 7, 3, 1, 1), CV_HI); // rows of 14 bytes
    assert_int_equal(aie_supports(&s, &err), ST_UNSUPPORTED);
    s = spec_of(tensor_of(DTYPE_F32, 0, 3, 1, 1), CV_HI);
    assert_int_equal(aie_supports(&s, &err), ST_UNSUPPORTED);
    s = spec_of(tensor_of(DTYPE_F32, 1 << 22, 1, 1, 1), CV_HI_HI_LO);
    assert_int_equal(aie_supports(&s, &err), ST_UNSUPPORTED);
    s.params[0] = CV_HI;
    s.output.ne[0] = 1 << 22;
    s.output = tensor_contiguous(DTYPE_BF16, s.output.ne);
    assert_int_equal(aie_supports(&s, &err), ST_OK);
}

// ---- speed ----

static double ms_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e3 + (double) t.tv_nsec / 1e6;
}

static void speed(void ** state) {
    (void) state;
    // words: cycles for each word that a core's busier stream moves, the bound being 1
    static const struct {
        enum dtype t;
        int64_t k, rows;
        double bound;
    } cases[] = {{DTYPE_F32, 4096, 128, 1.1}, {DTYPE_F16, 4096, 256, 1.1},
                 {DTYPE_F32, 784, 1000, 1.1}, {DTYPE_F32, 500, 2000, 1.1},
                 {DTYPE_F16, 500, 2000, 1.2}, {DTYPE_F32, 4096, 1, 8},
                 {DTYPE_F32, 33, 10000, 1.2}, {DTYPE_F32, 784, 16, 8}};
    struct rig r;
    struct emu_clock ideal; // the figures are of cores and streams alone
    assert_int_equal(emu_clock_parse("ideal", &ideal, NULL), ST_OK);
    rig_open_with(&r, &ideal);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (uint32_t layout = 0; layout < 2; layout++) {
            // Long ones are held to a bound on one target, and their cycles are the same each time.
            bool bound = rig_arch == AIE_ARCH_AIE2 && RIG_EVERY == 1;
            if (!rig_whole && !bound && cases[i].k * cases[i].rows > 20000) {
                continue;
            }
            struct kernel_spec spec =
                spec_of(tensor_of(cases[i].t, cases[i].k, cases[i].rows, 1, 1), layout);
            double start = ms_now();
            uint32_t * insts;
            size_t n;
            assert_int_equal(aie_compile_insts(&spec, &insts, &n, NULL), ST_OK);
            double ms = ms_now() - start;
            free(insts);
            struct emu_counters c = run_spec(&r, &spec, fill_random);
            double in = (double) tensor_bytes(&spec.inputs[0]) / 4,
                   out = (double) tensor_bytes(&spec.output) / 4;
            double words = (in > out ? in : out) / 4; // one stream a column
            print_message(
                "%s %lld x %lld layout %u: %llu cycles, %.3f per word of the busier stream, "
                "stream in %.3f ms\n",
                dtype_name(cases[i].t), (long long) cases[i].k, (long long) cases[i].rows, layout,
                (unsigned long long) c.last_cycles, (double) c.last_cycles / words, ms);
            assert_true(rig_arch != AIE_ARCH_AIE2 ||
                        (double) c.last_cycles / words < cases[i].bound);
        }
    }
    rig_close(&r);
}

static void program(void ** state) {
    (void) state;
    struct asm_code code;
    struct error err = {0};
    double start = ms_now();
    enum status st = mm_vector_program(rig_arch, false, &code, &err);
    if (st != ST_OK) {
        print_message("%s\n", err.text);
    }
    assert_int_equal(st, ST_OK);
    print_message("with products: %d bundles, %zu bytes, %.1f ms", code.stats.bundles, code.size,
                  ms_now() - start);
    for (int i = 0; i < code.stats.n_loops; i++) {
        print_message("%s %d", i ? "," : ", bundles a trip:", code.stats.loop_ii[i]);
    }
    print_message("\n");
    assert_true(code.size <= 16384);
    free(code.bytes);
}

int main(int argc, char ** argv) {
    rig_arguments(argc, argv, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(program),
        cmocka_unit_test(every_f16),
        cmocka_unit_test(edges_of_f32),
        cmocka_unit_test(pieces_add_up),
        cmocka_unit_test(lengths),
        cmocka_unit_test(strides),
        cmocka_unit_test(random_shapes),
        cmocka_unit_test(many_rows),
        cmocka_unit_test(refusals),
        cmocka_unit_test(speed),
        cmocka_unit_test(where_products_are),
        cmocka_unit_test(every_f16_in_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
