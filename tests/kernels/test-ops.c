// Every elementwise op against double precision: random values of all magnitudes, every special
// value, every pattern of the 16-bit datatypes. The table says how many units in the last place an
// exact f32 result may be off (the core's adder has no guard bits, see lanes.h). A fast one may
// have an NMSE of 1e-9 over each of four ranges of values, and no element may be far off; 16-bit
// results may differ from the rounded double by what that leaves, one unit where the f32 result
// sits near a rounding boundary.
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
    bool of_larger; // ulps count in the last place of the larger operand (sums)
    bool series;    // a 16-bit program keeps fewer bits than f32 has
};

static double ref_sub(double a, double b, const float * p) {
    (void) p;
    return a - b;
}
static double ref_mul(double a, double b, const float * p) {
    (void) p;
    return a * b;
}

// One expression each, of the operands a and b and the parameters p.
#define REFERENCE(name, expression)                                                                \
    static double of_##name(double a, double b, const float * p) {                                 \
        (void) b, (void) p;                                                                        \
        return (expression);                                                                       \
    }
static double flush(double v) {
    return fabs(v) < ldexp(1, -126) ? copysign(0, v) : v;
}

static double sigmoid(double v) {
    return 1 / (1 + exp(-v));
}
static double gelu(double a) {
    return 0.5 * a * (1 + tanh(0.79788456080286535588 * a * (1 + (double) 0.044715f * a * a)));
}
static double gelu_erf(double a) {
    return 0.5 * a * (1 + erf(a * 0.70710678118654752440));
}
static double gelu_quick(double a) {
    return a * sigmoid((double) 1.702f * a);
}
static double hardsigmoid(double a) {
    return fmin(1, fmax(0, (a + 3) / 6));
}
static double at_most(double a, double limit) {
    return limit < a ? limit : a;
}
static double within(double a, double limit) {
    return a < -limit ? -limit : limit < a ? limit : a;
}
REFERENCE(div, a / b)
REFERENCE(scale, (double) p[0] * a + (double) p[1])
REFERENCE(clamp, isnan(a) ? (double) p[1] : fmax(fmin(a, (double) p[1]), (double) p[0]))
REFERENCE(leaky_relu, a > 0 ? a : a < 0 ? a * (double) p[0] : 0)
REFERENCE(sqr, a * a)
REFERENCE(floor, floor(a))
REFERENCE(ceil, ceil(a))
REFERENCE(round, round(a))
REFERENCE(trunc, trunc(a))
REFERENCE(hardsigmoid, hardsigmoid(a))
REFERENCE(hardswish, a * hardsigmoid(a))
REFERENCE(exp, exp(a))
REFERENCE(expm1, expm1(a))
REFERENCE(elu, a > 0 ? a : expm1(a))
REFERENCE(sigmoid, sigmoid(a))
REFERENCE(silu, a * sigmoid(a))
REFERENCE(tanh, tanh(a))
REFERENCE(gelu, gelu(a))
REFERENCE(gelu_quick, gelu_quick(a))
REFERENCE(gelu_erf, gelu_erf(a))
REFERENCE(log, log(a))
REFERENCE(softplus, a > 20 ? a : log1p(exp(a)))
REFERENCE(sqrt, sqrt(a))
REFERENCE(sin, fabs(a) < 0x1p22 ? sin(a) : NAN) // further out there is no answer
REFERENCE(cos, fabs(a) < 0x1p22 ? cos(a) : NAN)
REFERENCE(xielu, a > 0 ? (double) p[1] * a * a + (double) p[2] * a
                       : (expm1(fmin(a, (double) p[3])) - a) * (double) p[0] + (double) p[2] * a)
REFERENCE(reglu, a > 0 ? a * b : 0)
REFERENCE(geglu, flush(gelu(a)) * b)
REFERENCE(swiglu, flush(a * sigmoid(a)) * b)
REFERENCE(geglu_erf, flush(gelu_erf(a)) * b)
REFERENCE(geglu_quick, flush(gelu_quick(a)) * b)
REFERENCE(swiglu_oai, at_most(a, (double) p[1]) *
                          sigmoid((double) p[0] * at_most(a, (double) p[1])) *
                          (within(b, (double) p[1]) + 1))
REFERENCE(swiglu_clamp, flush(at_most(a, (double) p[1]) * sigmoid(at_most(a, (double) p[1]))) *
                            within(b, (double) p[1]))

static const struct op_row rows[] = {
    {KERNEL_OP_SUB, ref_sub, 1.5, 0, -20, 20, {0}, true, false},
    {KERNEL_OP_MUL, ref_mul, 2.0, 0, -60, 60, {0}, false, false},
    {KERNEL_OP_SCALE, of_scale, 3, 0, -20, 20, {1.7f, 0.3f}, true, true},
    {KERNEL_OP_CLAMP, of_clamp, 0, 0, -10, 10, {-3.3f, 77.7f}, false, false},
    {KERNEL_OP_CLAMP, of_clamp, 0, 0, -10, 10, {2.5f, 2.75f}, false, false},
    {KERNEL_OP_LEAKY_RELU, of_leaky_relu, 2, 0, -60, 60, {0.1f}, false, true},
    {KERNEL_OP_SQR, of_sqr, 2, 0, -60, 60, {0}, false, false},
    {KERNEL_OP_FLOOR, of_floor, 0, 0, -10, 26, {0}, false, false},
    {KERNEL_OP_CEIL, of_ceil, 0, 0, -10, 26, {0}, false, false},
    {KERNEL_OP_ROUND, of_round, 0, 0, -10, 26, {0}, false, false},
    {KERNEL_OP_TRUNC, of_trunc, 0, 0, -10, 26, {0}, false, false},
    {KERNEL_OP_HARDSIGMOID, of_hardsigmoid, 3, 0, -10, 4, {0}, false, true},
    {KERNEL_OP_HARDSWISH, of_hardswish, 4, 0, -10, 4, {0}, false, true},
    {KERNEL_OP_DIV, of_div, 1.5, 0, -100, 100, {0}, false, true},
    {KERNEL_OP_DIV, of_div, 1.5, 0, -3, 3, {0}, false, true},
    {KERNEL_OP_EXP, of_exp, 2, 0, -26, 6.5, {0}, false, true},
    {KERNEL_OP_EXPM1, of_expm1, 5, 0, -40, 6.5, {0}, false, true},
    {KERNEL_OP_ELU, of_elu, 5, 0, -40, 6.5, {0}, false, true},
    {KERNEL_OP_SIGMOID, of_sigmoid, 3, 0, -20, 6.6, {0}, false, true},
    {KERNEL_OP_SILU, of_silu, 4, 0, -20, 6.6, {0}, false, true},
    {KERNEL_OP_TANH, of_tanh, 4, 0, -20, 5, {0}, false, true},
    {KERNEL_OP_GELU, of_gelu, 4, 1e-7, -20, 5, {0}, false, true},
    {KERNEL_OP_GELU_QUICK, of_gelu_quick, 4, 1e-7, -20, 6, {0}, false, true},
    {KERNEL_OP_GELU_ERF, of_gelu_erf, 4, 4e-7, -20, 5, {0}, false, true},
    {KERNEL_OP_LOG, of_log, 3, 0, -120, 120, {0}, false, true},
    {KERNEL_OP_LOG, of_log, 3, 0, -1, 1, {0}, false, true},
    {KERNEL_OP_SOFTPLUS, of_softplus, 4, 0, -10, 7, {0}, false, true},
    {KERNEL_OP_SQRT, of_sqrt, 1, 0, -120, 120, {0}, false, true},
    {KERNEL_OP_SIN, of_sin, 4, 0x1p-36, -20, 17, {0}, false, true},
    {KERNEL_OP_COS, of_cos, 4, 0x1p-36, -20, 17, {0}, false, true},
    {KERNEL_OP_XIELU, of_xielu, 4, 1e-6, -20, 10, {0.8f, 0.9f, 0.5f, -1e-6f}, true, true},
    {KERNEL_OP_REGLU, of_reglu, 2, 0, -30, 30, {0}, false, true},
    {KERNEL_OP_GEGLU, of_geglu, 6, 1e-6, -10, 3, {0}, false, true},
    {KERNEL_OP_SWIGLU, of_swiglu, 6, 0, -10, 5, {0}, false, true},
    {KERNEL_OP_GEGLU_ERF, of_geglu_erf, 6, 4e-6, -10, 3, {0}, false, true},
    {KERNEL_OP_GEGLU_QUICK, of_geglu_quick, 6, 1e-6, -10, 3, {0}, false, true},
    {KERNEL_OP_SWIGLU_OAI, of_swiglu_oai, 8, 1e-6, -10, 4, {1.702f, 7.0f}, false, true},
    {KERNEL_OP_SWIGLU_CLAMP, of_swiglu_clamp, 6, 0, -10, 4, {0, 7.0f}, false, true},
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
    double want = row->ref(x, y, row->params);
    if (!isfinite(want) || !isfinite(z) || fabs(want) < FAST_LEAST * fmax(1, fabs(y)) ||
        flush(x) != x || flush(y) != y) {
        return 0;
    }
    double scale = row->of_larger ? fmax(fmax(fabs(x), fabs(y)), fabs(want)) : want;
    double off = fabs(z - want) - row->absolute - fabs(y) * 0x1p-124;
    return off <= 0 ? 0 : off / ulp(scale, ref_float[t].mantissa, t == DTYPE_F16 ? -14 : -126);
}

static bool right(const struct op_row * row, enum dtype t, double x, double y, double z) {
    double want = row->ref(x, y, row->params);
    if (isnan(want)) {
        return isnan(z);
    }
    if (!isnan(z)) {
        double scale = row->of_larger ? fmax(fmax(fabs(x), fabs(y)), fabs(want)) : want;
        double allowed = row->absolute + (isfinite(scale) ? row->ulps * ulp(scale, 23, -126) : 0);
        allowed = fmax(allowed, ldexp(1, -124)); // f32 denormals are zero here, also on the way
        if (is_approximate(row, t) && isfinite(want)) {
            double most = fmax(1, fabs(y)); // of what a gate is multiplied by
            allowed += FAST_LEAST * most + FAST_ERROR * fabs(scale);
            allowed += FAST_ERROR_SMALL * fmin(fabs(scale), FAST_SMALL * most);
        }
        if ((x != 0 && flush(x) == 0) || (y != 0 && flush(y) == 0)) {
            allowed += fabs(want) * ldexp(1, -6); // and have 8 bits where they are factors
        }
        if (!strcmp(kernel_op_info(row->op)->family, "glu_ops") && isfinite(y)) {
            allowed += fabs(y) * ldexp(1, -124); // so may the activation be
        }
        if (t != DTYPE_F32) { // one rounding more, and fewer bits before it
            allowed += row->series ? fabs(want) * ldexp(1, t == DTYPE_F16 ? -19 : -14) : 0;
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
           fabs(row->ref(x, 1, row->params)) < FAST_LEAST;
}

static void check(const struct op_row * row, enum dtype t, uint32_t a, uint32_t b, uint32_t got,
                  int64_t i) {
    double x = widen(t, a), y = widen(t, b), z = widen(t, got);
    if (right(row, t, x, y, z) || right(row, t, flush(x), flush(y), z)) {
        return;
    }
    double want = row->ref(x, y, row->params);
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
    return pack(t, random_value(row, k ? 0 : (int) (i % RANGES)));
}

static void run_row(struct rig * r, const struct op_row * row, enum dtype t, int64_t n) {
    struct kernel_spec spec = {
        .op = row->op, .arch = AIE_ARCH_AIE2, .n_inputs = kernel_op_info(row->op)->n_inputs};
    const int64_t ne[4] = {n, 1, 1, 1};
    spec.inputs[0] = spec.inputs[1] = spec.output = tensor_contiguous(t, ne);
    memcpy(spec.params, row->params, sizeof row->params);
    spec.precision = is_fast ? KERNEL_FAST : KERNEL_EXACT;
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
    double worst = 0, error[RANGES] = {0}, power[RANGES] = {0}, nmse = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t a = ref_get(t, r->data[0], i);
        uint32_t b = spec.n_inputs > 1 ? ref_get(t, r->data[1], i) : 0;
        uint32_t z = ref_get(t, r->data[spec.n_inputs], i);
        check(row, t, a, b, z, i);
        worst = fmax(worst, distance(row, t, widen(t, a), widen(t, b), widen(t, z)));
        double want = row->ref(widen(t, a), widen(t, b), row->params), off = widen(t, z) - want;
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

// Arguments of the program: an op's name or "all", and how many f32 elements each op gets.
static const char * only;
static int64_t f32_elements = 100000;

static void float_ops(void ** state) {
    (void) state;
    srand(5);
    struct rig r;
    rig_open(&r);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (only && strcmp(only, kernel_op_name(rows[i].op))) {
            continue;
        }
        is_fast = true;
        run_row(&r, &rows[i], DTYPE_F32, f32_elements);
        run_row(&r, &rows[i], DTYPE_BF16, 70001);
        run_row(&r, &rows[i], DTYPE_F16, 70001);
        if (is_approximate(&rows[i], DTYPE_F32)) {
            is_fast = false;
            run_row(&r, &rows[i], DTYPE_F32, f32_elements);
        }
    }
    rig_close(&r);
}

int main(int argc, char ** argv) {
    only = argc > 1 && strcmp(argv[1], "all") ? argv[1] : NULL;
    f32_elements = argc > 2 ? atoll(argv[2]) : f32_elements;
    const struct CMUnitTest tests[] = {cmocka_unit_test(float_ops)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
