// Ops on native lanes, exactly: every pattern of the 8- and 16-bit datatypes through the unary ops,
// every pair of 8-bit numbers through the binary ones, and for the wider ones edge values against
// each other and a million random pairs of all magnitudes. References are plain C integers.
#include "kernel-rig.h"
#include "reference.h"

#include "aie/ops/ops.h"

#include <limits.h>
#include <time.h>

static const enum kernel_op unary[] = {KERNEL_OP_ABS, KERNEL_OP_SGN, KERNEL_OP_NEG, KERNEL_OP_STEP,
                                       KERNEL_OP_RELU};
static const enum kernel_op binary[] = {KERNEL_OP_ADD, KERNEL_OP_SUB, KERNEL_OP_MUL, KERNEL_OP_DIV};

enum { N_UNARY = sizeof unary / sizeof unary[0], N_BINARY = sizeof binary / sizeof binary[0] };
enum { MILLION = 1000000 };

// ---- references ----

static uint32_t cut(enum dtype t, int64_t v) {
    return (uint32_t) ((uint64_t) v & ((1ull << 8 * dtype_size(t)) - 1));
}

static int64_t as_int(enum dtype t, uint32_t v) {
    return t == DTYPE_I8 ? (int8_t) v : t == DTYPE_I16 ? (int16_t) v : (int32_t) v;
}

static uint32_t want_int(enum kernel_op op, enum dtype t, uint32_t a, uint32_t b) {
    int64_t x = as_int(t, a), y = as_int(t, b);
    switch (op) {
    case KERNEL_OP_ADD:
        return cut(t, x + y);
    case KERNEL_OP_SUB:
        return cut(t, x - y);
    case KERNEL_OP_MUL:
        return cut(t, x * y);
    case KERNEL_OP_DIV:
        return cut(t, y ? x / y : 0);
    case KERNEL_OP_ABS:
        return cut(t, x < 0 ? -x : x);
    case KERNEL_OP_NEG:
        return cut(t, -x);
    case KERNEL_OP_RELU:
        return cut(t, x > 0 ? x : 0);
    case KERNEL_OP_STEP:
        return cut(t, x > 0);
    default:
        return cut(t, (x > 0) - (x < 0));
    }
}

// ggml's CPU: comparisons with a NaN are false, signs are bits.
static uint32_t want_float(enum kernel_op op, enum dtype t, uint32_t a) {
    double x = ref_widen(a, ref_float[t].mantissa, ref_float[t].exponent);
    uint32_t sign = 1u << (8 * dtype_size(t) - 1);
    uint32_t one = ref_pack(1, ref_float[t].mantissa, ref_float[t].exponent);
    switch (op) {
    case KERNEL_OP_ABS:
        return a & ~sign;
    case KERNEL_OP_NEG:
        return a ^ sign;
    case KERNEL_OP_RELU:
        return x > 0 ? a : 0;
    case KERNEL_OP_STEP:
        return x > 0 ? one : 0;
    default:
        return x > 0 ? one : x < 0 ? one | sign : 0;
    }
}

static uint32_t want(enum kernel_op op, enum dtype t, uint32_t a, uint32_t b) {
    return ref_is_float(t) ? want_float(op, t, a) : want_int(op, t, a, b);
}

// ---- running ----

static void put(enum dtype t, void * to, int64_t i, uint32_t v) {
    memcpy((uint8_t *) to + i * dtype_size(t), &v, (size_t) dtype_size(t));
}

// Runs the op over n elements of a (and b) and compares; says how fast it was when told so.
static void run(struct rig * r, enum kernel_op op, enum dtype t, const uint32_t * a,
                const uint32_t * b, int64_t n, bool say) {
    struct kernel_spec spec = {
        .op = op, .arch = rig_arch, .n_inputs = kernel_op_info(op)->n_inputs};
    spec.inputs[0] = spec.inputs[1] = spec.output = tensor_contiguous(t, (int64_t[4]){n, 1, 1, 1});
    struct kernel_code code;
    struct error err = {0};
    enum status st = rig_compile(&spec, &code, &err);
    if (st != ST_OK) {
        print_message("%s\n", err.text);
    }
    assert_int_equal(st, ST_OK);
    rig_allocate(r, &spec);
    for (int64_t i = 0; i < n; i++) {
        put(t, r->data[0], i, a[i]);
        if (spec.n_inputs > 1) {
            put(t, r->data[1], i, b[i]);
        }
    }
    rig_run(r, &spec, &code);
    for (int64_t i = 0; i < n; i++) {
        uint32_t got = ref_get(t, r->data[spec.n_inputs], i),
                 right = want(op, t, a[i], b ? b[i] : 0);
        if (got != right) {
            print_message("%s %s of %x, %x gives %x, not %x\n", kernel_op_name(op), dtype_name(t),
                          a[i], b ? b[i] : 0, got, right);
            fail();
        }
    }
    if (say) {
        struct emu_counters c;
        emu_machine_counters(r->machine, &c);
        print_message("%-5s %-4s %7lld elements, %.3f cycles per word and column\n",
                      kernel_op_name(op), dtype_name(t), (long long) n,
                      (double) c.last_cycles / ((double) n * dtype_size(t) / 16));
    }
    rig_free(r);
    kernel_code_free(&code);
}

// ---- values ----

static uint32_t random_word(void) {
    return (uint32_t) (rand() & 0xffff) << 16 | (uint32_t) (rand() & 0xffff);
}

// Of any number of bits, either sign.
static uint32_t random_int(enum dtype t) {
    uint32_t v = random_word() >> rand() % 32;
    return cut(t, rand() & 1 ? -(int64_t) v : v);
}

static const int64_t edges[] = {
    0,       1,       -1,          2,           -2,         3,           -3,         7,
    10,      -10,     127,         -128,        128,        255,         256,        -256,
    32767,   -32768,  32768,       65535,       65536,      -65536,      16777215,   16777216,
    INT_MAX, INT_MIN, INT_MAX - 1, INT_MIN + 1, 0x40000000, -0x40000000, 0x55555555, -0x55555556};
enum { N_EDGES = sizeof edges / sizeof edges[0] };

static const uint32_t special_floats[] = {
    0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000,
    0xffc00000, 0x7f800001, 0xff800001, 0x7fffffff, 0xffffffff, 0x7f7fffff, 0xff7fffff,
    0x00800000, 0x80800000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff,
};
enum { N_SPECIALS = sizeof special_floats / sizeof special_floats[0] };

// ---- tests ----

static void unary_ops(void ** state) {
    (void) state;
    struct rig r;
    rig_open(&r);
    srand(11);
    int64_t n = 1 << 18; // at least all 16-bit patterns
    uint32_t * a = malloc((size_t) n * sizeof *a);
    for (int t = 0; t < DTYPE_COUNT; t++) {
        for (int64_t i = 0; i < n; i++) {
            a[i] = dtype_size((enum dtype) t) < 4 ? cut((enum dtype) t, i)
                   : i < N_SPECIALS               ? special_floats[i]
                   : i < N_SPECIALS + N_EDGES     ? (uint32_t) edges[i - N_SPECIALS]
                                                  : random_word();
        }
        for (int o = 0; o < N_UNARY; o++) {
            run(&r, unary[o], (enum dtype) t, a, NULL, n, true);
        }
    }
    free(a);
    rig_close(&r);
}

static void all_8_bit_pairs(void ** state) {
    (void) state;
    struct rig r;
    rig_open(&r);
    int64_t n = 65536 * 16; // each pair in every kind of lane and chunk
    uint32_t *a = malloc((size_t) n * sizeof *a), *b = malloc((size_t) n * sizeof *b);
    for (int64_t i = 0; i < n; i++) {
        a[i] = (uint32_t) i & 255;
        b[i] = (uint32_t) (i >> 8) & 255;
    }
    for (int o = 0; o < N_BINARY; o++) {
        run(&r, binary[o], DTYPE_I8, a, b, n, true);
    }
    free(a);
    free(b);
    rig_close(&r);
}

static void wide_pairs(void ** state) {
    (void) state;
    struct rig r;
    rig_open(&r);
    srand(12);
    static const int64_t partners[16] = {0,    1,   -1,  2,    3,     -3,     7,      10,
                                         -100, 127, 256, 1000, 32767, -32768, -32767, 16384};
    uint32_t *a = malloc(2 * MILLION * sizeof *a), *b = malloc(2 * MILLION * sizeof *b);
    for (int o = 0; o < N_BINARY; o++) {
        int64_t n = 0;
        for (; n < 65536 * 16; n++) {
            a[n] = (uint32_t) n & 0xffff;
            b[n] = cut(DTYPE_I16, partners[n >> 16]);
        }
        run(&r, binary[o], DTYPE_I16, a, b, n, false);
        for (n = 0; n < MILLION; n++) {
            a[n] = n & 1 ? random_int(DTYPE_I16) : random_word() & 0xffff;
            b[n] = n & 2 ? random_int(DTYPE_I16) : random_word() & 0xffff;
        }
        run(&r, binary[o], DTYPE_I16, a, b, n, true);
        for (n = 0; n < N_EDGES * N_EDGES; n++) {
            a[n] = (uint32_t) edges[n % N_EDGES];
            b[n] = (uint32_t) edges[n / N_EDGES];
        }
        for (; n < MILLION; n++) {
            a[n] = n & 1 ? random_int(DTYPE_I32) : random_word();
            b[n] = n & 2 ? random_int(DTYPE_I32) : random_word();
        }
        run(&r, binary[o], DTYPE_I32, a, b, n, true);
    }
    free(a);
    free(b);
    rig_close(&r);
}

static void programs_fit(void ** state) {
    (void) state;
    for (int t = 0; t < DTYPE_COUNT; t++) {
        struct kernel_spec spec = {.op = KERNEL_OP_RELU, .arch = rig_arch, .n_inputs = 1};
        spec.inputs[0] = spec.output = tensor_contiguous((enum dtype) t, (int64_t[4]){64, 1, 1, 1});
        struct ew_program program;
        struct error err = {0};
        clock_t start = clock();
        assert_int_equal(elementwise_program(ew_program(&spec), rig_arch, &program, &err), ST_OK);
        double ms = 1000.0 * (double) (clock() - start) / CLOCKS_PER_SEC;
        print_message("%s: %d bundles, %zu bytes, compiled in %.1f ms\n", ew_program(&spec)->name,
                      program.code.stats.bundles, program.code.size, ms);
        assert_true(program.code.size <= 16384);
        free(program.code.bytes);
    }
}

int main(int argc, char ** argv) {
    rig_arguments(argc, argv, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_fit),
        cmocka_unit_test(unary_ops),
        cmocka_unit_test(all_8_bit_pairs),
        cmocka_unit_test(wide_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
