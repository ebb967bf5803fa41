// Every elementwise op against double precision: random values of all magnitudes, every special
// value, every pattern of the 16-bit datatypes. An op's row in elementwise.def says what it
// computes and how many units in the last place an exact f32 result may be off (the core's adder
// has no guard bits, see lanes.h). A fast one may have an NMSE of 1e-9 over each of four ranges of
// values, and no element may be far off; 16-bit results may differ from the rounded double by what
// that leaves, one unit where the f32 result sits near a rounding boundary.
#include "kernel-rig.h"
#include "reference.h"

static double flush(double v) {
    return fabs(v) < ldexp(1, -126) ? copysign(0, v) : v;
}
#include "kernel/values.h"

struct op_row { // what a row of elementwise.def says, or a second test of the op
    enum kernel_op op;
    struct value_test test;
};

static const struct op_row more[] = {
    {KERNEL_OP_CLAMP, {.low = -10, .high = 10, .params = {2.5f, 2.75f}}},
    {KERNEL_OP_DIV, {.ulps = 1.5, .low = -3, .high = 3, .series = true}},
    {KERNEL_OP_LOG, {.ulps = 3, .low = -1, .high = 1, .series = true}},
};

static double reference(const struct op_row * row, double x, double y) {
    return value_with(row->op, x, y, row->test.params);
}

static const uint32_t specials[] = {
    0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000,
    0x7f7fffff, 0xff7fffff, 0x00800000, 0x80800000, 0x00000001, 0x807fffff, 0x3effffff, 0x3f000000,
    0x40490fdb, 0xc2b00000, 0x42b17218, 0x4b000000, 0x4b800000, 0xcb000001, 0x3f7fffff, 0x33800000,
};
enum { N_SPECIALS = sizeof specials / sizeof specials[0] };

static double widen(enum dtype t, uint32_t v) {
    return ref_widen(v, ref_float[t].mantissa, ref_float[t].exponent);
}

static uint32_t pack(enum dtype t, double v) {
    return ref_pack(v, ref_float[t].mantissa, ref_float[t].exponent);
}

static double ulp(double v, int mantissa, int emin) {
    int e;
    frexp(v, &e);
    return ldexp(1, (e - 1 < emin ? emin : e - 1) - mantissa);
}

// Where there is an exact kernel, the fast one of f32 and all of 16 bits have fewer bits, very
// small results fewer still, and 0 may stand for what is as small as this.
static bool is_fast; // of f32
#define FAST_ERROR       0x1p-11
#define FAST_ERROR_SMALL 0x1p-8
#define FAST_SMALL       0x1p-24
#define FAST_LEAST       0x1p-100

static bool is_approximate(const struct op_row * row, enum dtype t) {
    struct kernel_spec f32 = {.op = row->op, .output = {.dtype = DTYPE_F32}};
    return kernel_has_exact(&f32) && (is_fast || t != DTYPE_F32);
}

// Units of the last place of the datatype that z is off, where there is something to compare.
static double distance(const struct op_row * row, enum dtype t, double x, double y, double z) {
    double want = reference(row, x, y);
    if (!isfinite(want) || !isfinite(z) || fabs(want) < FAST_LEAST * fmax(1, fabs(y)) ||
        flush(x) != x || flush(y) != y) {
        return 0;
    }
    double scale = row->test.of_larger ? fmax(fmax(fabs(x), fabs(y)), fabs(want)) : want;
    double off = fabs(z - want) - row->test.absolute - fabs(y) * 0x1p-124;
    return off <= 0 ? 0 : off / ulp(scale, ref_float[t].mantissa, t == DTYPE_F16 ? -14 : -126);
}

static bool right(const struct op_row * row, enum dtype t, double x, double y, double z) {
    double want = reference(row, x, y);
    if (isnan(want)) {
        // A gate below the smallest normal is 0 here, and need not be where it is not.
        return isnan(z) || (isinf(y) && isinf(z) && x != 0 && flush(reference(row, x, 1)) == 0);
    }
    if (!isnan(z)) {
        double scale = row->test.of_larger ? fmax(fmax(fabs(x), fabs(y)), fabs(want)) : want;
        double allowed =
            row->test.absolute + (isfinite(scale) ? row->test.ulps * ulp(scale, 23, -126) : 0);
        allowed = fmax(allowed, ldexp(1, -124)); // f32 denormals are zero here, also on the way
        if (is_approximate(row, t) && isfinite(want)) {
            double most = fmax(1, fabs(y)); // of what a gate is multiplied by
            allowed += FAST_LEAST * most + FAST_ERROR * fabs(scale) + 15 * row->test.absolute;
            allowed += FAST_ERROR_SMALL * fmin(fabs(scale), FAST_SMALL * most);
        }
        if ((x != 0 && flush(x) == 0) || (y != 0 && flush(y) == 0)) {
            allowed += fabs(want) * ldexp(1, -6); // and have 8 bits where they are factors
        }
        if (!strcmp(kernel_op_info(row->op)->source, "glu_ops") && isfinite(y)) {
            allowed += fabs(y) * ldexp(1, -124); // so may the activation be
        }
        if (t != DTYPE_F32) { // one rounding more, and fewer bits before it
            allowed += row->test.series && isfinite(scale) ? fabs(scale) * ldexp(1, -14) : 0;
            allowed += 0.5 * ulp(want, ref_float[t].mantissa, t == DTYPE_F16 ? -14 : -126) * 1.0001;
        }
        double rounded = widen(t, pack(t, want));
        if (z == want || z == rounded || fabs(z - want) <= allowed ||
            (isinf(z) && fabs(want) + allowed >= (t == DTYPE_F16 ? 65520 : 0x1.fep127))) {
            return true;
        }
    }
    // A gate that is as good as 0 times infinity.
    return is_approximate(row, t) && isinf(y) && isnan(z) &&
           fabs(reference(row, x, 1)) < FAST_LEAST;
}

static void check(const struct op_row * row, enum dtype t, uint32_t a, uint32_t b, uint32_t got,
                  int64_t i) {
    double x = widen(t, a), y = widen(t, b), z = widen(t, got);
    if (right(row, t, x, y, z) || right(row, t, flush(x), flush(y), z)) {
        return;
    }
    double want = reference(row, x, y);
    print_message("%s %s element %lld: %08x (%.9g), %08x (%.9g) gives %08x (%.9g), not %.9g\n",
                  kernel_op_name(row->op), dtype_name(t), (long long) i, a, x, b, y, got, z, want);
    fail();
}

// Values of four kinds take turns: any magnitude that the row names, and the ranges that ggml's own
// tests and a model's activations have.
enum { RANGES = 4 };
static const double ranges[RANGES] = {0, 1, 10, 150};

static double random_value(const struct op_row * row, int range) {
    if (range) {
        return ranges[range] * (2.0 * rand() / RAND_MAX - 1);
    }
    double e = row->test.low + (row->test.high - row->test.low) * rand() / RAND_MAX;
    return (rand() & 1 ? -1 : 1) * exp2(e) * (1 + rand() / (double) RAND_MAX);
}

static int64_t pattern_step = 1;

// Element i of operand k: special values meet each other first, then 16-bit patterns, then random.
static uint32_t fill(const struct op_row * row, enum dtype t, int k, int64_t i) {
    if (i < N_SPECIALS * N_SPECIALS) {
        uint32_t s = specials[k ? i / N_SPECIALS : i % N_SPECIALS];
        return t == DTYPE_F32 ? s : pack(t, ref_widen(s, 23, 8));
    }
    i -= N_SPECIALS * N_SPECIALS;
    if (t != DTYPE_F32 && i < 65536 && k == 0) {
        return (uint32_t) (i * pattern_step & 0xffff);
    }
    return pack(t, random_value(row, k ? 0 : (int) (i % RANGES)));
}

// By what an element's error counts. Operands of any magnitude make quotients of any, even of a few
// values: their NMSE would be the error of the largest one, and so chance. What is divided does not
// cancel, so that each quotient has its own error, and they count alike, but for very small ones.
static double weight(const struct op_row * row, double want) {
    return row->op == KERNEL_OP_DIV && isfinite(want) ? 1 / fmax(fabs(want), FAST_SMALL) : 1;
}

static void run_row(struct rig * r, const struct op_row * row, enum dtype t, int64_t n) {
    struct kernel_spec spec = {
        .op = row->op, .arch = rig_arch, .n_inputs = kernel_op_info(row->op)->n_inputs};
    const int64_t ne[4] = {n, 1, 1, 1};
    spec.inputs[0] = spec.inputs[1] = spec.output = tensor_contiguous(t, ne);
    memcpy(spec.params, row->test.params, sizeof row->test.params);
    spec.precision = is_fast ? KERNEL_FAST : KERNEL_EXACT;
    struct kernel_code code;
    struct error err = {0};
    enum status st = rig_compile(&spec, &code, &err);
    if (st != ST_OK) {
        print_message("%s\n", err.text);
    }
    assert_int_equal(st, ST_OK);
    rig_allocate(r, &spec);
    for (int k = 0; k < spec.n_inputs; k++) {
        for (int64_t i = 0; i < n; i++) {
            uint32_t v = fill(row, t, k, i);
            memcpy(r->data[k] + i * dtype_size(t), &v, (size_t) dtype_size(t));
        }
    }
    rig_run(r, &spec, &code);
    double worst = 0, error[RANGES] = {0}, power[RANGES] = {0}, nmse = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t a = ref_get(t, r->data[0], i);
        uint32_t b = spec.n_inputs > 1 ? ref_get(t, r->data[1], i) : 0;
        uint32_t z = ref_get(t, r->data[spec.n_inputs], i);
        check(row, t, a, b, z, i);
        worst = fmax(worst, distance(row, t, widen(t, a), widen(t, b), widen(t, z)));
        double want = reference(row, widen(t, a), widen(t, b)), off = widen(t, z) - want;
        double counts = weight(row, want);
        off *= counts;
        want *= counts;
        if (i >= N_SPECIALS * N_SPECIALS && isfinite(off)) {
            int range = (int) ((i - N_SPECIALS * N_SPECIALS) % RANGES);
            error[range] += off * off;
            power[range] += want * want;
        }
    }
    for (int k = 0; k < RANGES; k++) {
        nmse = fmax(nmse, power[k] > 0 ? error[k] / power[k] : 0);
    }
    struct emu_counters c;
    emu_machine_counters(r->machine, &c);
    print_message(
        "%-12s %-4s %-5s %8lld elements, %6.2f cycles per word and column, %.2f ulp, NMSE %.1e\n",
        kernel_op_name(row->op), dtype_name(t), kernel_precision_name(spec.precision),
        (long long) n, (double) c.last_cycles / ((double) n * dtype_size(t) / 16), worst, nmse);
    assert_true(t != DTYPE_F32 || nmse <= 1e-9);
    rig_free(r);
    kernel_code_free(&code);
}

// Arguments of the program: an op's name or "all", how many f32 elements each op gets, and the
// architecture. With fewer than 10,000 of them, 16-bit patterns are every thirteenth.
static const char * only;
static int n_run; // ops
static int64_t f32_elements = RIG_EVERY > 1 ? 2000 : 20000, bits16_elements = 70001;

static void run_types(struct rig * r, const struct op_row * row) {
    if (only && strcasecmp(only, kernel_op_name(row->op))) {
        return;
    }
    n_run++;
    is_fast = true;
    run_row(r, row, DTYPE_F32, f32_elements);
    run_row(r, row, DTYPE_BF16, bits16_elements);
    run_row(r, row, DTYPE_F16, bits16_elements);
    if (is_approximate(row, DTYPE_F32)) {
        is_fast = false;
        run_row(r, row, DTYPE_F32, f32_elements);
    }
}

static void float_ops(void ** state) {
    (void) state;
    srand(5);
    struct rig r;
    rig_open(&r);
    for (int op = 0; op < KERNEL_OP_COUNT; op++) {
        const struct op_row row = {(enum kernel_op) op, values[op].test};
        if (values[op].of && row.test.low < row.test.high) {
            run_types(&r, &row);
        }
    }
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        run_types(&r, &more[i]);
    }
    rig_close(&r);
    if (n_run == 0) {
        fail_msg("no op is called %s", only);
    }
}

int main(int argc, char ** argv) {
    only = argc > 1 && strcmp(argv[1], "all") ? argv[1] : NULL;
    f32_elements = argc > 2 ? atoll(argv[2]) : f32_elements;
    if (f32_elements < 10000) {
        pattern_step = 13;
        bits16_elements = 6000;
    }
    rig_arguments(argc, argv, 3);
    const struct CMUnitTest tests[] = {cmocka_unit_test(float_ops)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
