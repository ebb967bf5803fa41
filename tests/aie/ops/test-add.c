// ADD from spec to result: the compiler's PDI and stream run on the emulated array, and every
// element is compared with the reference. Each kernel runs twice in a row with different data on
// one machine: a design that leaves a lock or a queue behind would fail the second time.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "aie/aie.h"
#include "aie/image/image.h"
#include "kernel-rig.h"
#include "reference.h"

static uint32_t random_bits(void) {
    return (uint32_t) rand() << 17 ^ (uint32_t) rand() << 3 ^ (uint32_t) rand() >> 5;
}

static uint32_t random_value(enum dtype t) {
    uint32_t v = random_bits();
    if (!ref_is_float(t) || rand() % 16 == 0) {
        return v; // any pattern: infinities, NaNs and denormals now and then
    }
    double x = (rand() / (double) RAND_MAX * 2 - 1) * ldexp(1, rand() % 12 - 6);
    return ref_pack(x, ref_float[t].mantissa, ref_float[t].exponent);
}

static int64_t b_index(const struct tensor * b, const struct tensor * a, int64_t i) {
    int64_t at = 0;
    for (int d = 0; d < TENSOR_DIMS; d++) {
        at += i % a->ne[d] % b->ne[d] * b->nb[d];
        i /= a->ne[d];
    }
    return at / dtype_size(b->dtype);
}

// What the core's adder does to f32, which has no spare bits: it shifts the smaller operand to the
// larger one's exponent and rounds it there, adds, and rounds once more; f32 denormals become zero.
// So a sum is right to one and a half units in the last place of the larger operand.
static bool close_enough(uint32_t got, uint32_t a, uint32_t b) {
    double x = ref_widen(a, 23, 8), y = ref_widen(b, 23, 8), z = ref_widen(got, 23, 8);
    double larger = fmax(fmax(fabs(x), fabs(y)), ldexp(1, -126));
    int e;
    frexp(larger, &e);
    if (isinf(z)) {
        return fabs(x + y) > 0x1.fffffep127;
    }
    return fabs(z - (x + y)) <= fmax(ldexp(1.5, e - 24), ldexp(1, -126));
}

static void compare(enum dtype t, uint32_t got, uint32_t a, uint32_t b, int64_t i) {
    uint32_t want = ref_add(t, a, b);
    bool float_zero = ref_is_float(t) && want << (32 - 8 * dtype_size(t) + 1) == 0;
    bool same = ref_is_nan(t, want) ? ref_is_nan(t, got) : got == want;
    // the sign of a zero sum is the adder's own, and what f32 cannot hold as a normal number is
    // zero
    same |= float_zero && (got ^ want) << (32 - 8 * dtype_size(t) + 1) == 0;
    same |= t == DTYPE_BF16 && (want & 0x7f80) == 0 && (got & 0x7fff) == 0;
    same |=
        t == DTYPE_F32 && !ref_is_nan(t, want) && !ref_is_nan(t, got) && close_enough(got, a, b);
    if (!same) {
        print_message("%s element %lld: %08x + %08x gives %08x, not %08x\n", dtype_name(t),
                      (long long) i, a, b, got, want);
        fail();
    }
}

typedef uint32_t (*fill_fn)(enum dtype t, int operand, int64_t i);

static uint32_t fill_random(enum dtype t, int operand, int64_t i) {
    (void) operand;
    (void) i;
    return random_value(t);
}

static void run_once(struct rig * r, const struct kernel_spec * spec,
                     const struct kernel_code * code, fill_fn fill) {
    enum dtype t = spec->output.dtype;
    rig_allocate(r, spec);
    for (int k = 0; k < spec->n_inputs; k++) {
        for (int64_t i = 0; i < tensor_elements(&spec->inputs[k]); i++) {
            uint32_t v = fill(t, k, i);
            memcpy(r->data[k] + i * dtype_size(t), &v, (size_t) dtype_size(t));
        }
    }
    rig_run(r, spec, code);
    for (int64_t i = 0; i < tensor_elements(&spec->output); i++) {
        compare(t, ref_get(t, r->data[2], i), ref_get(t, r->data[0], i),
                ref_get(t, r->data[1], b_index(&spec->inputs[1], &spec->inputs[0], i)), i);
    }
    rig_free(r);
}

// Returns false where the compiler leaves the broadcast to the host.
static bool run_shape(struct rig * r, enum dtype t, const int64_t a[4], const int64_t b[4],
                      fill_fn fill) {
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = rig_arch, .n_inputs = 2};
    spec.inputs[0] = spec.output = tensor_contiguous(t, a);
    spec.inputs[1] = tensor_contiguous(t, b);
    struct kernel_code code;
    struct error err = {0};
    enum status st = rig_compile(&spec, &code, &err);
    if (st == ST_UNSUPPORTED) {
        return false;
    }
    if (st != ST_OK) {
        print_message("%s\n", err.text);
    }
    assert_int_equal(st, ST_OK);
    run_once(r, &spec, &code, fill);
    run_once(r, &spec, &code, fill);
    kernel_code_free(&code);
    return true;
}

static void sizes(void ** state) {
    (void) state;
    static const int64_t lengths[] = {1,    2,    3,    5,    15,   16,   17,    63,   64,
                                      65,   127,  128,  129,  255,  500,  511,   1000, 1023,
                                      1024, 1025, 4095, 4096, 4097, 9999, 20001, 65537};
    struct rig r;
    rig_open(&r);
    for (int t = 0; t < DTYPE_COUNT; t++) {
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            const int64_t ne[4] = {lengths[i], 1, 1, 1};
            assert_true(run_shape(&r, (enum dtype) t, ne, ne, fill_random));
        }
    }
    rig_close(&r);
}

static void broadcasts(void ** state) {
    (void) state;
    static const int64_t shapes[][2][4] = {
        {{64, 100, 1, 1}, {64, 1, 1, 1}},   {{10, 5, 4, 3}, {10, 1, 1, 1}},
        {{10, 5, 4, 3}, {10, 5, 1, 1}},     {{10, 5, 4, 3}, {10, 1, 4, 1}},
        {{10, 5, 4, 3}, {1, 1, 1, 1}},      {{16, 5, 4, 3}, {1, 5, 1, 1}},
        {{16, 5, 4, 3}, {1, 1, 4, 3}},      {{20, 10, 8, 6}, {10, 5, 4, 3}},
        {{2000, 3, 1, 1}, {2000, 1, 1, 1}}, {{1, 777, 1, 1}, {1, 1, 1, 1}},
        {{4, 5000, 1, 1}, {4, 1, 1, 1}},    {{4096, 70, 1, 1}, {4096, 1, 1, 1}},
    };
    struct rig r;
    rig_open(&r);
    int done = 0;
    for (int t = 0; t < DTYPE_COUNT; t++) {
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            done += run_shape(&r, (enum dtype) t, shapes[i][0], shapes[i][1], fill_random);
        }
    }
    print_message("%d of %zu broadcasts run on the array, the rest is expanded by the host\n", done,
                  DTYPE_COUNT * sizeof shapes / sizeof shapes[0]);
    assert_true(done > 50);
    rig_close(&r);
}

// Every 16-bit pattern meets every other class of value; two of them in the quick form, and every
// thirteenth under sanitizers.
enum { PATTERN_STEP = RIG_EVERY > 1 ? 13 : 1 };

static uint32_t fill_patterns(enum dtype t, int operand, int64_t i) {
    static const uint32_t partners[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400,
                                        0x3c00, 0xbc00, 0x7bff, 0xfbff, 0x7c00, 0xfc00,
                                        0x7e00, 0x1234, 0x3555, 0xc001};
    (void) t;
    int64_t partner = rig_whole ? i / 65536 : i + i / 65536 * 5;
    return operand == 0 ? (uint32_t) (i * PATTERN_STEP % 65536) : partners[partner % 16];
}

static void all_16_bit_patterns(void ** state) {
    (void) state;
    struct rig r;
    rig_open(&r);
    const int64_t ne[4] = {65536 / PATTERN_STEP, rig_whole ? 16 : 2, 1, 1};
    assert_true(run_shape(&r, DTYPE_F16, ne, ne, fill_patterns));
    assert_true(run_shape(&r, DTYPE_BF16, ne, ne, fill_patterns));
    assert_true(run_shape(&r, DTYPE_I16, ne, ne, fill_patterns));
    rig_close(&r);
}

static void many_f32(void ** state) {
    (void) state;
    struct rig r;
    rig_open(&r);
    const int64_t ne[4] = {rig_whole ? 1000000 : RIG_EVERY > 1 ? 20000 : 200000, 1, 1, 1};
    assert_true(run_shape(&r, DTYPE_F32, ne, ne, fill_random));
    struct emu_counters c;
    emu_machine_counters(r.machine, &c);
    print_message("%lld f32: %llu cycles, %.3f per output word and column\n", (long long) ne[0],
                  (unsigned long long) c.last_cycles,
                  (double) c.last_cycles * aie_target(rig_arch)->columns / (double) ne[0]);
    rig_close(&r);
}

static void refusals(void ** state) {
    (void) state;
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = rig_arch, .n_inputs = 2};
    const int64_t ne[4] = {16, 4, 1, 1}, huge[4] = {1ll << 31, 1, 1, 1}, none[4] = {0, 4, 1, 1};
    spec.inputs[0] = spec.inputs[1] = spec.output = tensor_contiguous(DTYPE_F32, ne);
    struct error err = {0};
    assert_int_equal(aie_supports(&spec, &err), ST_OK);
    struct kernel_spec s = spec;
    s.inputs[1].dtype = DTYPE_F16;
    assert_int_equal(aie_supports(&s, &err), ST_UNSUPPORTED);
    s = spec;
    s.inputs[0].nb[1] += 2; // rows that do not start on words
    assert_int_equal(aie_supports(&s, &err), ST_UNSUPPORTED);
    s = spec;
    s.inputs[1].ne[0] = 5;
    assert_int_equal(aie_supports(&s, &err), ST_INVALID);
    s.inputs[0] = s.inputs[1] = s.output = tensor_contiguous(DTYPE_F32, huge);
    assert_int_equal(aie_supports(&s, &err), ST_UNSUPPORTED);
    s.inputs[0] = s.inputs[1] = s.output = tensor_contiguous(DTYPE_F32, none);
    assert_int_equal(aie_supports(&s, &err), ST_UNSUPPORTED);
    s = spec;
    s.n_inputs = 1;
    assert_int_equal(aie_supports(&s, &err), ST_INVALID);
}

// Decision 2 of the design: a thousand shapes, one PDI.
static void shapes_share_a_pdi(void ** state) {
    (void) state;
    struct kernel_code first = {0};
    for (int64_t n = 1; n <= 1000; n += rig_whole ? 1 : 27) {
        struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = rig_arch, .n_inputs = 2};
        const int64_t ne[4] = {n, 1 + n % 3, 1, 1};
        spec.inputs[0] = spec.inputs[1] = spec.output = tensor_contiguous(DTYPE_F32, ne);
        struct kernel_code code;
        assert_int_equal(aie_compile(&spec, &code, NULL), ST_OK);
        if (n == 1) {
            first = code;
            continue;
        }
        assert_int_equal(code.pdi_size, first.pdi_size);
        assert_memory_equal(code.pdi, first.pdi, code.pdi_size);
        kernel_code_free(&code);
    }
    kernel_code_free(&first);
}

// Firmware cannot be asked here, so nothing may be sent to it that real kernels do not send.
static bool only_golden_commands(void * user, const struct image_command * c) {
    (void) user;
    assert_true(c->op == IMAGE_WRITE || c->op == IMAGE_MASK_WRITE || c->op == IMAGE_BLOCK_WRITE ||
                c->op == IMAGE_NOP || c->op == IMAGE_WAIT || c->op == IMAGE_PATCH);
    return true;
}

static void commands_are_known(void ** state) {
    (void) state;
    for (int t = 0; t < DTYPE_COUNT; t++) {
        struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = rig_arch, .n_inputs = 2};
        const int64_t ne[4] = {1000, 1, 1, 1};
        spec.inputs[0] = spec.inputs[1] = spec.output = tensor_contiguous((enum dtype) t, ne);
        struct kernel_code code;
        struct error err = {0};
        assert_int_equal(aie_compile(&spec, &code, &err), ST_OK);
        assert_int_equal(pdi_read(code.pdi, code.pdi_size, only_golden_commands, NULL, &err),
                         ST_OK);
        assert_int_equal(txn_read((const uint8_t *) code.insts, 4 * code.n_insts,
                                  only_golden_commands, NULL, &err),
                         ST_OK);
        kernel_code_free(&code);
    }
}

int main(int argc, char ** argv) {
    rig_arguments(argc, argv, 1);
    srand(3);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals),           cmocka_unit_test(shapes_share_a_pdi),
        cmocka_unit_test(commands_are_known), cmocka_unit_test(sizes),
        cmocka_unit_test(broadcasts),         cmocka_unit_test(all_16_bit_patterns),
        cmocka_unit_test(many_f32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
