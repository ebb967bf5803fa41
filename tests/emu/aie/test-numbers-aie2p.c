// test-numbers-aie2p: what the aie2p core computes: each rule that was published and is not aie2's,
// one at a time, against loops that are written from the published rule; and that both rules of the
// disputed adder can be had.
#include "emu/aie/aie2p-rig.h"

#include <math.h>

// ---- the adder ----

static uint32_t sum_of(bool ieee, uint32_t a, uint32_t b) {
    struct rig * r = rig_new_arch(AIE_ARCH_AIE2P, (struct core_env){.strict = true, .ieee = ieee});
    uint32_t words[64];
    for (int i = 0; i < 64; i++) {
        words[i] = a;
    }
    put_words(r, DM(0), words, 64);
    for (int i = 0; i < 64; i++) {
        words[i] = b;
    }
    put_words(r, DM(1), words, 64);
    set(r, R(0), 0x3c);
    EMIT(r, ins(r, "VADD_f_vmac_cm2_add_reg", "dabc", DM(2), DM(0), DM(1), R(0)));
    run(r);
    get_words(r, DM(2), words, 64);
    for (int i = 1; i < 64; i++) {
        assert_int_equal(words[i], words[0]);
    }
    rig_free(r);
    return words[0];
}

// 1 - (2^-24 + 2^-26): the smaller term, aligned to 23 bits of the larger one, is nothing at all.
static void two_rules_for_the_last_bit(void ** state) {
    (void) state;
    uint32_t small = bits_of(-ldexpf(5, -26));
    assert_int_equal(sum_of(true, bits_of(1), small), bits_of(1 - ldexpf(1, -24)));
    assert_int_not_equal(sum_of(false, bits_of(1), small), bits_of(1 - ldexpf(1, -24)));
    for (int i = 0; i < 2; i++) { // where the sum is exact they agree
        assert_int_equal(sum_of(i, bits_of(1.5f), bits_of(-0.25f)), bits_of(1.25f));
        assert_int_equal(sum_of(i, bits_of(-0.0f), bits_of(-0.0f)), 0);
    }
}

// A product too small for fp32 is zero with its own sign, whichever instruction makes it: vmul.f,
// or vmac.f onto nothing, under either rule of the adder.
static void tiny_products_keep_their_sign(void ** state) {
    (void) state;
    static const struct {
        uint16_t x, y;
        uint32_t want;
    } rows[] = {
        {0x2000, 0x9000, 0x80000000}, // 2^-63 * -2^-95
        {0x1f80, 0x1f80, 0},          // 2^-64 * 2^-64 * ...: 2^-128 is no normal number
        {0x8a00, 0x0a00, 0x80000000}, // -2^-107 * 2^-107
        {0x0a00, 0x0a00, 0},          // 2^-214
        {0x8001, 0x0001, 0x80000000}, // of the smallest numbers there are
        {0x8000, 0x3f80, 0},          // of a zero nothing is left
        {0x3f80, 0xbf80, 0xbf800000},
    };
    enum { ROWS = sizeof rows / sizeof rows[0] };
    for (int ieee = 0; ieee < 2; ieee++) {
        struct rig * r = rig_new_arch(AIE_ARCH_AIE2P, (struct core_env){.ieee = ieee});
        uint32_t x[16] = {0}, y[16] = {0}, got[3][64], zero[64] = {0};
        for (int i = 0; i < ROWS; i++) {
            x[i / 2] |= (uint32_t) rows[i].x << 16 * (i % 2);
            y[i / 2] |= (uint32_t) rows[i].y << 16 * (i % 2);
        }
        put_words(r, X(0), x, 16);
        put_words(r, X(1), y, 16);
        put_words(r, DM(3), zero, 64);
        set(r, R(0), 0x3c);
        EMIT(r, ins(r, "VMUL_f_vmul_bf_vmul_bf_core_X_X", "dabc", DM(0), X(0), X(1), R(0)));
        EMIT(r, ins(r, "VMAC_f_vmac_bf_vmul_bf_core_X_X", "deabc", DM(1), DM(3), X(0), X(1), R(0)));
        EMIT(r, ins(r, "VNEGMUL_f_vmul_bf_vmul_bf_core_X_X", "dabc", DM(2), X(0), X(1), R(0)));
        run(r);
        for (int d = 0; d < 3; d++) {
            get_words(r, DM(d), got[d], 64);
        }
        for (int i = 0; i < ROWS; i++) {
            // the IEEE rule keeps numbers that are less than normal
            bool subnormal = ieee && rows[i].x == 0x1f80;
            uint32_t want = subnormal ? 1u << 21 : rows[i].want;
            bool none = rows[i].x == 0x8000;
            assert_int_equal(got[0][i], want);
            assert_int_equal(got[1][i], want);
            assert_int_equal(got[2][i], none ? 0 : want ^ 0x80000000);
        }
        rig_free(r);
    }
}

// ---- products ----

static void shift16_shifts_left(void ** state) {
    (void) state;
    struct rig * r = rig_aie2p();
    uint32_t x[16] = {0}, y[16] = {0}, acc[64] = {0};
    x[0] = 3; // lane 0 of i16
    y[0] = 5;
    acc[0] = 7; // lane 0 of 32 accumulators of 64 bits
    put_words(r, X(0), x, 16);
    put_words(r, X(1), y, 16);
    put_words(r, DM(0), acc, 64);
    put_words(r, DM(1), acc, 64);
    set(r, R(0), 0x75a); // elementwise i16, signed, acc1 shifted
    EMIT(r, ins(r, "VMAC_vmul_cm_core_X_X", "deabc", DM(2), DM(0), X(0), X(1), R(0)));
    EMIT(r, ins(r, "VADDMAC_vmac_cm2_add_reg_vmul_cm_core_X_X", "dfabc", DM(0), DM(1), X(0), X(1),
                R(0)));
    run(r);
    get_words(r, DM(2), acc, 64);
    assert_int_equal(acc[0], (7 << 16) + 15);
    get_words(r, DM(0), acc, 64);
    assert_int_equal(acc[0], (7 << 16) + 7 + 15); // acc2 as it is
    rig_free(r);
}

// What AMD's words say of the shapes, against a product written for one element.
static void integer_shapes(void ** state) {
    (void) state;
    static const struct {
        uint32_t conf;
        int x_bytes, y_bytes, rows, inner, cols; // inner 0: lane by lane
        bool wide;
    } shapes[] = {
        {0x308, 1, 1, 8, 8, 8, false}, {0x118, 2, 2, 8, 2, 8, false},
        {0x310, 2, 1, 8, 4, 8, false}, {0x328, 1, 1, 1, 0, 64, false},
        {0x302, 4, 2, 4, 2, 8, true},  {0x312, 2, 1, 4, 8, 8, true},
        {0x31a, 2, 2, 4, 4, 8, true},  {0x35a, 2, 2, 1, 0, 32, true},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        struct rig * r = rig_aie2p();
        uint32_t words[64], seed = (uint32_t) s + 1;
        uint8_t bytes[2][64];
        for (int k = 0; k < 2; k++) {
            for (int i = 0; i < 64; i++) {
                seed = seed * 1664525 + 1013904223;
                bytes[k][i] = (uint8_t) (seed >> 24);
            }
            assert_int_equal(core_reg_set(r->core, X(k), bytes[k]), 64);
        }
        set(r, R(0), shapes[s].conf);
        EMIT(r, ins(r, "VMUL_vmul_cm_core_X_X", "dabc", DM(0), X(0), X(1), R(0)));
        run(r);
        get_words(r, DM(0), words, 64);
        int lanes = shapes[s].rows * shapes[s].cols, terms = shapes[s].inner ? shapes[s].inner : 1;
        for (int l = 0; l < lanes; l++) {
            int64_t sum = 0;
            for (int k = 0; k < terms; k++) {
                int row = l / shapes[s].cols, col = l % shapes[s].cols;
                int at[2] = {shapes[s].inner ? row * terms + k : l,
                             shapes[s].inner ? k * shapes[s].cols + col : l};
                int64_t v[2];
                for (int side = 0; side < 2; side++) {
                    int size = side ? shapes[s].y_bytes : shapes[s].x_bytes;
                    bool is_signed = shapes[s].conf >> (side ? 8 : 9) & 1;
                    uint32_t u = 0;
                    memcpy(&u, bytes[side] + size * at[side], (size_t) size);
                    v[side] = !is_signed  ? (int64_t) u
                              : size == 1 ? (int8_t) u
                              : size == 2 ? (int16_t) u
                                          : (int32_t) u;
                }
                sum += v[0] * v[1];
            }
            int64_t got = shapes[s].wide
                              ? (int64_t) ((uint64_t) words[2 * l + 1] << 32 | words[2 * l])
                              : (int32_t) words[l];
            if (got != (shapes[s].wide ? sum : (int32_t) sum)) {
                fail_msg("word 0x%x, lane %d: %lld, expected %lld", shapes[s].conf, l,
                         (long long) got, (long long) sum);
            }
        }
        rig_free(r);
    }
}

// ---- conversions ----

// To the smaller number: what a program finds that never wrote crRnd.
static void rounding_at_entry(void ** state) {
    (void) state;
    struct rig * r = rig_aie2p();
    uint32_t words[16] = {bits_of(1.0000001f), bits_of(-1.0000001f)};
    put_words(r, BM4(0), words, 16);
    EMIT(r, ins(r, "VCONV_bf16_fp32_mv_w_srs_bf", "da", W(0), BM4(0)));
    run(r);
    get_words(r, W(0), words, 8);
    assert_int_equal(words[0], 0xbf813f80);
    rig_free(r);
}

static void sign_registers_come_in_pairs(void ** state) {
    (void) state;
    struct rig * r = rig_aie2p();
    assert_int_equal(get(r, CRP(UPS_SIGN0)), 0);
    assert_int_equal(get(r, CRP(UPS_SIGN1)), 1);
    uint32_t words[64] = {0xffff0001, 0x80007fff};
    put_words(r, X(0), words, 16);
    set(r, S(0), 4);
    EMIT(r, ins(r, "VUPS_2x_mv_ups_x2c_upsSign0", "das", AIE_REG(AIE_CM2, 0), X(0), S(0)));
    EMIT(r, ins(r, "VUPS_2x_mv_ups_x2c_upsSign1", "das", AIE_REG(AIE_CM2, 1), X(0), S(0)));
    run(r);
    get_words(r, DM(0), words, 64);
    assert_int_equal(words[0], 16);
    assert_int_equal(words[1], 0xffff0);
    assert_int_equal(words[3], 0x80000);
    assert_int_equal(words[32], 16);
    assert_int_equal(words[33], 0xfffffff0);
    assert_int_equal(words[35], 0xfff80000);
    rig_free(r);
}

// AMD's guide has shifts from -4 to 59; six bits hold them. Table lookups shift their index so.
static void srs_by_less_than_nothing(void ** state) {
    (void) state;
    static const struct {
        uint32_t shift, sat, in, want;
        bool stops;
    } rows[] = {
        {61, 0, 5, 40, false},
        {(uint32_t) -3, 0, 5, 40, false},
        {60, 0, 0xfffffffd, 0xffffffd0, false},
        {63, 0, 0x40000001, 0x80000002, false}, // wraps
        {63, 1, 0x40000001, 0x7fffffff, false},
        {62, 1, 0x1fffffff, 0x7ffffffc, false},
        {62, 1, 0x20000000, 0, true}, // to be saturated, which AMD calls unsafe
        {59, 0, 5, 0, false},
        {(uint32_t) -5, 0, 5, 0, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rig * r = rig_aie2p();
        uint32_t words[64] = {rows[i].in, rows[i].in >> 31 ? 0xffffffff : 0};
        put_words(r, DM(0), words, 64);
        set(r, S(0), rows[i].shift);
        set(r, CRP(SRS_MODE), 1);
        set(r, AIE_REG(AIE_CR, AIE_CR_SAT), rows[i].sat);
        EMIT(r, ins(r, "VSRS_2x_mv_x_srs_cm_srsSign1", "das", X(0), AIE_REG(AIE_CM2, 0), S(0)));
        nops(r, 12);
        emit_done(r);
        run_to(r, rows[i].stops ? CORE_FAULT : CORE_DONE);
        get_words(r, X(0), words, 16);
        assert_true(rows[i].stops || words[0] == rows[i].want);
        rig_free(r);
    }
}

// Against the definition in double: the block's exponent is the largest, mantissas of 7 bits.
static void block_floats(void ** state) {
    (void) state;
    for (uint32_t rnd = 0; rnd <= 12; rnd += 12) {
        struct rig * r = rig_aie2p();
        uint32_t words[64], seed = 11 + rnd;
        uint8_t got[72];
        for (int i = 0; i < 64; i++) {
            seed = seed * 1664525 + 1013904223;
            words[i] = (seed & 0x807fffff) | (120 + (seed >> 24) % 6) << 23;
        }
        words[8] = bits_of(0.99999f); // rounds up to 128 where rounding is to nearest
        for (int i = 9; i < 16; i++) {
            words[i] = bits_of(0.25f);
        }
        put_words(r, DM(0), words, 64);
        set(r, AIE_REG(AIE_CR, AIE_CR_RND), rnd);
        EMIT(r, ins(r, "VCONV_bfp16ebs8_fp32", "da", AIE_REG(AIE_EX, 3), DM(0)));
        run(r);
        assert_int_equal(core_reg_get(r->core, AIE_REG(AIE_EX, 3), got), 72);
        for (int block = 0; block < 8; block++) {
            int exponent = 0;
            for (int i = 0; i < 8; i++) {
                int e = (int) (words[8 * block + i] >> 23 & 255);
                exponent = e > exponent ? e : exponent;
            }
            for (int again = 0; again < 2; again++) { // once more if a mantissa did not fit
                for (int i = 0; i < 8; i++) {
                    double v = ldexp((double) float_of(words[8 * block + i]), 133 - exponent);
                    exponent += !again && (rnd ? nearbyint(v) : floor(v)) >= 128;
                }
            }
            assert_int_equal(got[64 + block], exponent);
            for (int i = 0; i < 8; i++) {
                double v = ldexp((double) float_of(words[8 * block + i]), 133 - exponent);
                assert_int_equal((int8_t) got[8 * block + i],
                                 (int) (rnd ? nearbyint(v) : floor(v)));
            }
        }
        rig_free(r);
    }
}

// 2^floor(q) * (1 + fraction of q): not 2^x. Points of the published law.
static void exp2_is_linear_in_its_fraction(void ** state) {
    (void) state;
    static const struct {
        float x;
        uint16_t result;
    } points[] = {
        {0, 0x3f80},  {0.5f, 0x3fc0}, {1, 0x4000}, {-1, 0x3f00}, {-0.25f, 0x3f60}, // 0.5 * 1.75
        {2, 0x4081},  // from 2 on the end of the step: 4 * (1 + 1/128)
        {-3, 0x3e01}, // 1/8 * (1 + 1/128)
    };
    struct rig * r = rig_aie2p();
    uint32_t words[16] = {0};
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        words[i] = bits_of(points[i].x);
    }
    put_words(r, BM4(0), words, 16);
    EMIT(r, ins(r, "VEXP2", "da", W(0), BM4(0)));
    run(r);
    get_words(r, W(0), words, 8);
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        assert_int_equal(words[i / 2] >> 16 * (i % 2) & 0xffff, points[i].result);
    }
    rig_free(r);
}

// Where AMD has measured it exactly, and within its limits elsewhere: 4.5 units of bf16 from 1 to
// 1.25, 2.5 else, beside a ramp from 0.5 to 0.8.
static void tanh_within_what_amd_measured(void ** state) {
    (void) state;
    for (int base = -64; base < 64; base++) {
        struct rig * r = rig_aie2p();
        uint32_t words[16];
        for (int i = 0; i < 16; i++) {
            words[i] = bits_of((float) (base * 16 + i) / 256);
        }
        put_words(r, BM4(0), words, 16);
        EMIT(r, ins(r, "VTANH", "da", W(0), BM4(0)));
        run(r);
        get_words(r, W(0), words, 8);
        for (int i = 0; i < 16; i++) {
            double x = (base * 16 + i) / 256.0, a = fabs(x), t = tanh(a);
            double got = (double) float_of((words[i / 2] >> 16 * (i % 2)) << 16);
            double unit = a > 0 ? ldexp(1, (int) floor(log2(t)) - 7) : 0;
            double ramp = a < 0.8 ? (0.5 - tanh(0.5)) * (0.8 - a) / 0.3 : 0;
            double limit = ramp + (a >= 1 && a < 1.25 ? 4.5 : 2.5) * unit;
            if (a <= 0.5 || a >= 3) {
                assert_true(got == (a <= 0.5 ? x : x < 0 ? -1 : 1));
            } else {
                assert_true(fabs(fabs(got) - t) <= limit && (got < 0) == (x < 0));
            }
        }
        rig_free(r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_rules_for_the_last_bit),
        cmocka_unit_test(tiny_products_keep_their_sign),
        cmocka_unit_test(shift16_shifts_left),
        cmocka_unit_test(integer_shapes),
        cmocka_unit_test(rounding_at_entry),
        cmocka_unit_test(sign_registers_come_in_pairs),
        cmocka_unit_test(srs_by_less_than_nothing),
        cmocka_unit_test(block_floats),
        cmocka_unit_test(exp2_is_linear_in_its_fraction),
        cmocka_unit_test(tanh_within_what_amd_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
