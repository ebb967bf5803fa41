// Every elementwise op against double precision: random values of all magnitudes, every special value,
// every pattern of the 16-bit datatypes. The table says how many units in the last place an f32 result
// may be off (the core's adder has no guard bits, see lanes.h); 16-bit results may differ from the
// rounded double by what that leaves, one unit where the f32 result sits on a rounding boundary.
#include "kernel-rig.h"
#include "reference.h"

typedef double (*ref_fn)(double a, double b, const float * p);

struct op_row {
    enum kernel_op op;
    ref_fn ref;
    double ulps;      // f32 tolerance in units of the last place of the result
    double absolute;  // and absolute, for results near zero
    double low, high; // exponents (powers of two) of the random magnitudes
    float params[4];
    bool of_larger;   // ulps count in the last place of the larger operand (sums)
};

static double ref_sub(double a, double b, const float * p) {
    (void) p;
    return a - b;
}
static double ref_mul(double a, double b, const float * p) {
    (void) p;
    return a * b;
}

static const struct op_row rows[] = {
    {KERNEL_OP_SUB, ref_sub, 1.5, 0, -20, 20, {0}, true},
    {KERNEL_OP_MUL, ref_mul, 2.0, 0, -60, 60, {0}, false},
};

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

static double flush(double v) {
    return fabs(v) < ldexp(1, -126) ? copysign(0, v) : v;
}

static bool right(const struct op_row * row, enum dtype t, double x, double y, double z) {
    double want = row->ref(x, y, row->params);
    if (isnan(want)) {
        return isnan(z);
    }
    if (!isnan(z)) {
        double scale = row->of_larger ? fmax(fmax(fabs(x), fabs(y)), fabs(want)) : want;
        double allowed = row->absolute + (isfinite(scale) ? row->ulps * ulp(scale, 23, -126) : 0);
        allowed = fmax(allowed, ldexp(1, -126)); // f32 denormals are zero here
        if ((x != 0 && flush(x) == 0) || (y != 0 && flush(y) == 0)) {
            allowed += fabs(want) * ldexp(1, -6); // and have 8 bits where they are factors
        }
        if (t != DTYPE_F32) { // one rounding more
            allowed += 0.5 * ulp(want, ref_float[t].mantissa, t == DTYPE_F16 ? -14 : -126) * 1.0001;
        }
        double rounded = widen(t, pack(t, want));
        if (z == want || z == rounded || fabs(z - want) <= allowed ||
            (isinf(z) && fabs(want) + allowed >= (t == DTYPE_F16 ? 65520 : 0x1.fep127))) {
            return true;
        }
    }
    return false;
}

static void check(const struct op_row * row, enum dtype t, uint32_t a, uint32_t b, uint32_t got, int64_t i) {
    double x = widen(t, a), y = widen(t, b), z = widen(t, got);
    if (right(row, t, x, y, z) || right(row, t, flush(x), flush(y), z)) {
        return;
    }
    double want = row->ref(x, y, row->params);
    print_message("%s %s element %lld: %08x (%.9g), %08x (%.9g) gives %08x (%.9g), not %.9g\n",
                  kernel_op_name(row->op), dtype_name(t), (long long) i, a, x, b, y, got, z, want);
    fail();
}

static double random_value(const struct op_row * row) {
    double e = row->low + (row->high - row->low) * rand() / RAND_MAX;
    return (rand() & 1 ? -1 : 1) * exp2(e) * (1 + rand() / (double) RAND_MAX);
}

// Element i of operand k: special values meet each other first, then 16-bit patterns, then random.
static uint32_t fill(const struct op_row * row, enum dtype t, int k, int64_t i) {
    if (i < N_SPECIALS * N_SPECIALS) {
        uint32_t s = specials[k ? i / N_SPECIALS : i % N_SPECIALS];
        return t == DTYPE_F32 ? s : pack(t, ref_widen(s, 23, 8));
    }
    i -= N_SPECIALS * N_SPECIALS;
    if (t != DTYPE_F32 && i < 65536 && k == 0) {
        return (uint32_t) i;
    }
    return pack(t, random_value(row));
}

static void run_row(struct rig * r, const struct op_row * row, enum dtype t, int64_t n) {
    struct kernel_spec spec = {.op = row->op, .arch = AIE_ARCH_AIE2,
                               .n_inputs = kernel_op_info(row->op)->n_inputs};
    const int64_t ne[4] = {n, 1, 1, 1};
    spec.inputs[0] = spec.inputs[1] = spec.output = tensor_contiguous(t, ne);
    memcpy(spec.params, row->params, sizeof row->params);
    struct kernel_code code;
    struct error err = {0};
    enum status st = aie_compile(&spec, &code, &err);
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
    for (int64_t i = 0; i < n; i++) {
        check(row, t, ref_get(t, r->data[0], i), spec.n_inputs > 1 ? ref_get(t, r->data[1], i) : 0,
              ref_get(t, r->data[spec.n_inputs], i), i);
    }
    struct emu_counters c;
    emu_machine_counters(r->machine, &c);
    print_message("%-12s %-4s %8lld elements, %.2f cycles per word and column\n", kernel_op_name(row->op),
                  dtype_name(t), (long long) n, (double) c.last_cycles / ((double) n * dtype_size(t) / 16));
    rig_free(r);
    kernel_code_free(&code);
}

static void float_ops(void ** state) {
    (void) state;
    srand(5);
    struct rig r;
    rig_open(&r);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        run_row(&r, &rows[i], DTYPE_F32, 100000);
        run_row(&r, &rows[i], DTYPE_BF16, 70001);
        run_row(&r, &rows[i], DTYPE_F16, 70001);
    }
    rig_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(float_ops)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
