// test-core-aie2p: what the designs of test-golden-aie2p cannot show of the aie2p core: each rule
// that was published and is not aie2's, one at a time; that both rules of the disputed adder can be
// had; and that an instruction without evidence stops the core by name, all others being known.
#include "emu/aie/core-rig.h"

#include <math.h>

#define DM(n)  AIE_REG(AIE_DM, n)
#define BM4(n) AIE_REG(AIE_BM4, n)
#define CRP(n) AIE_REG(AIE_CRP, AIE_CRP_##n)
#define E(n)   AIE_REG(AIE_E, n)

static struct rig * rig_aie2p(void) {
    return rig_new_arch(AIE_ARCH_AIE2P, (struct core_env){.strict = true});
}

static uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static float float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static void put_words(struct rig * r, aie_reg reg, const uint32_t * words, int n) {
    uint8_t bytes[256] = {0};
    for (int i = 0; i < n; i++) {
        store_u32(bytes + 4 * i, words[i]);
    }
    assert_true(core_reg_set(r->core, reg, bytes) >= 4 * n);
}

static void get_words(struct rig * r, aie_reg reg, uint32_t * words, int n) {
    uint8_t bytes[256];
    assert_true(core_reg_get(r->core, reg, bytes) >= 4 * n);
    for (int i = 0; i < n; i++) {
        words[i] = load_u32(bytes + 4 * i);
    }
}

static void run(struct rig * r) {
    nops(r, 12);
    emit_done(r);
    run_to(r, CORE_DONE);
}

// ---- the table of evidence ----

// Their function is known and emulated, their bits are not: nothing that we make may use them.
static bool only_roughly(const char * name) {
    return strcmp(name, "INV_mRx") == 0 || strcmp(name, "SQRT_mRx") == 0 ||
           strcmp(name, "INVSQRT_mRx") == 0;
}

// Some word of the instruction, its registers the first that decode.
static struct aie_inst any_of(struct rig * r, int op, uint32_t * seed) {
    const struct aie_instr * instr = aie_isa_instr(r->isa, op);
    struct aie_inst inst;
    struct error err;
    for (int tries = 0; tries < 5000; tries++) {
        uint64_t word = 0;
        for (int i = 0; i < 4; i++) {
            *seed = *seed * 1664525 + 1013904223;
            word = word << 16 ^ *seed >> 8;
        }
        word = (word & ~instr->mask) | instr->value;
        word &= (1ull << aie_slot_bits(r->isa, instr->slot)) - 1;
        if (aie_slot_decode(r->isa, instr->slot, word, &inst, &err) == ST_OK && inst.op == op) {
            return inst;
        }
    }
    fail_msg("no word decodes to %s", instr->name);
    return inst;
}

static void evidence_and_meaning_agree(void ** state) {
    (void) state;
    static const char * const names[AIE_EVIDENCE_COUNT] = {
        "nothing", "sibling of aie2", "vendor code", "executed in a real design", "silicon"};
    int counts[AIE_EVIDENCE_COUNT] = {0}, known = 0;
    const struct aie_isa * isa = aie_isa_get(AIE_ARCH_AIE2P);
    uint32_t seed = 7;
    for (int op = 0; op < aie_isa_count(isa); op++) {
        const struct aie_instr * instr = aie_isa_instr(isa, op);
        if (instr->slot == AIE_SLOT_NOP || op == aie_isa_nop(isa, instr->slot)) {
            continue;
        }
        struct rig * r = rig_aie2p();
        struct aie_inst inst = any_of(r, op, &seed);
        for (int i = 0; i < 8; i++) {
            set(r, P(i), RIG_BASE + 0x4000);
            set(r, AIE_REG(AIE_M, i), 64);
            set(r, AIE_REG(AIE_DJ, i), 64);
        }
        r->n_in = RIG_WORDS;
        r->n_cascade_in = 1;
        EMIT(r, inst);
        nops(r, 12);
        emit_done(r);
        core_enable(r->core, true, 0);
        bool refused = core_run(r->core, UINT64_MAX, 100) == CORE_FAULT &&
                       strstr(core_fault(r->core), "does not implement");
        if (refused) {
            assert_non_null(strstr(core_fault(r->core), instr->name));
        }
        bool expected = instr->evidence == AIE_EVIDENCE_NONE && !only_roughly(instr->name);
        if (refused != expected) {
            fail_msg("%s: evidence is %s, but it is %s%s", instr->name, names[instr->evidence],
                     refused ? "refused: " : "executed", core_fault(r->core));
        }
        counts[instr->evidence]++;
        known += !refused;
        rig_free(r);
    }
    for (int i = AIE_EVIDENCE_COUNT - 1; i >= 0; i--) {
        print_message("%3d instructions rest on %s\n", counts[i], names[i]);
    }
    print_message("%3d are emulated\n", known);
}

static void rows_of_evidence_name_instructions(void ** state) {
    (void) state;
#undef E
    static const char * const rows[] = {
#define E(name, evidence) name,
#include "aie/isa/aie2p/evidence.def"
#undef E
    };
#define E(n) AIE_REG(AIE_E, n)
    const struct aie_isa * isa = aie_isa_get(AIE_ARCH_AIE2P);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t n = strlen(rows[i]);
        bool begins = rows[i][n - 1] == '*', found = false;
        for (int op = 0; op < aie_isa_count(isa) && !found; op++) {
            const char * name = aie_isa_instr(isa, op)->name;
            found = begins ? strncmp(name, rows[i], n - 1) == 0 : strcmp(name, rows[i]) == 0;
        }
        if (!found) {
            fail_msg("%s is no instruction", rows[i]);
        }
    }
}

// Whatever comes, in whatever order and with whatever in the registers: the core ends, waits or
// stops with a word.
static void random_programs(void ** state) {
    (void) state;
    const struct aie_isa * isa = aie_isa_get(AIE_ARCH_AIE2P);
    uint32_t seed = 20260131;
    for (uint32_t round = 0; round < 300; round++) {
        struct rig * r =
            rig_new_arch(AIE_ARCH_AIE2P, (struct core_env){.strict = true, .seed = round});
        for (int i = 0; i < 8; i++) {
            set(r, P(i), RIG_BASE + 0x4000 + 64 * ((seed >> i) % 64));
        }
        for (int i = 24; i < 27; i++) { // levels of the fifos: mostly possible ones
            set(r, R(i), round % 8 ? (i == 26 ? 0u - seed % 65 : seed % 129) : seed);
        }
        r->n_in = RIG_WORDS;
        r->n_cascade_in = RIG_WORDS;
        for (int n = 0; n < 60; n++) {
            struct aie_inst insts[3];
            int k = 0, slots = 0;
            while (k < 3) {
                seed = seed * 1664525 + 1013904223;
                int op = (int) (seed >> 8) % aie_isa_count(isa);
                const struct aie_instr * in = aie_isa_instr(isa, op);
                bool pair = in->slot == AIE_SLOT_ALU || in->slot == AIE_SLOT_MV;
                int taken = in->slot == AIE_SLOT_LNG ? 1 << AIE_SLOT_ALU | 1 << AIE_SLOT_MV
                            : pair                   ? 1 << in->slot | 1 << AIE_SLOT_LNG
                                                     : 0;
                if (in->slot == AIE_SLOT_NOP || in->evidence == AIE_EVIDENCE_NONE || in->branches ||
                    strcmp(in->name, "DONE") == 0 || slots >> in->slot & 1) {
                    continue;
                }
                slots |= taken | 1 << in->slot;
                insts[k++] = any_of(r, op, &seed);
            }
            emit_n(r, k, insts);
        }
        nops(r, 12);
        emit_done(r);
        core_enable(r->core, true, 0);
        enum core_state end = core_run(r->core, UINT64_MAX, 2000);
        assert_true(end != CORE_FAULT || strstr(core_fault(r->core), "core: pc 0x"));
        rig_free(r);
    }
}

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

// ---- lanes and registers ----

static void masks_go_to_r16(void ** state) {
    (void) state;
    struct rig * r = rig_aie2p();
    uint32_t a[16] = {0x00018000}, b[16] = {0x00000001}, words[16];
    put_words(r, X(0), a, 16);
    put_words(r, X(1), b, 16);
    EMIT(r, ins(r, "VMAX_LT_16_vaddSign0", "dab", X(2), X(0), X(1))); // unsigned
    nops(r, 4);
    EMIT(r, ins(r, "ADD_add_r_ri", "dai", R(0), R(16), 0));
    EMIT(r, ins(r, "VMAX_LT_16_vaddSign1", "dab", X(3), X(0), X(1))); // signed
    run(r);
    get_words(r, X(2), words, 16);
    assert_int_equal(words[0], 0x00018000);
    assert_int_equal(get(r, R(0)), 0);
    get_words(r, X(3), words, 16);
    assert_int_equal(words[0], 0x00010001);
    assert_int_equal(get(r, R(16)), 1);
    rig_free(r);
}

// The exponents of one register are two: both may be written in one cycle.
static void both_exponents_land_together(void ** state) {
    (void) state;
    struct rig * r = rig_aie2p();
    set(r, P(0), RIG_BASE);
    store_u32(r->memory, 0x12345678);
    set(r, R(1), 0xcafe);
    EMIT(r, ins(r, "LDA_dms_lda_idx_imm", "dpi", E(1), P(0), 0)); // there after 7
    nops(r, 4);
    EMIT(r, ins(r, "MOV_alu_mv_mv_mv_e_mv_r_to_el", "da", E(0), R(1))); // after 2
    run(r);
    assert_int_equal(get(r, E(0)), 0xcafe);
    assert_int_equal(get(r, E(1)), 0x12345678);
    rig_free(r);
}

// mac and msc read their accumulator a cycle after their factors: one may follow another at once,
// and a factor that changes in the next bundle does not.
static void scalar_macs_in_a_row(void ** state) {
    (void) state;
    struct rig * r = rig_aie2p();
    static const uint32_t values[] = {1000, 3, 5, 7, 11, 2};
    for (int i = 0; i < 6; i++) {
        set(r, R(i), values[i]);
    }
    EMIT(r, ins(r, "MAC", "dab", R(0), R(1), R(2)));
    EMIT(r, ins(r, "MAC", "dab", R(0), R(3), R(4)));
    nops(r, 2);
    EMIT(r, ins(r, "ADD_add_r_ri", "dai", R(6), R(0), 0));
    EMIT(r, ins(r, "MSC", "dab", R(0), R(3), R(4)));
    EMIT(r, ins(r, "MSC", "dab", R(0), R(5), R(5)), ins(r, "MOV_alu_mv_mv_mv_cg", "di", R(5), 9));
    EMIT(r, ins(r, "MAC", "dab", R(0), R(0), R(5))); // as a factor, what the first msc left
    run(r);
    assert_int_equal(get(r, R(6)), 1092);
    assert_int_equal(get(r, R(0)), 1092 - 77 - 4 + (1092 - 77) * 9);
    rig_free(r);
}

// ---- fifos ----

// Blocks of 72 bytes from a place that is not aligned: whole lines are loaded, once each.
static void blocks_of_72_bytes(void ** state) {
    (void) state;
    enum { FIRST = 0x1000 + 16, BLOCKS = 9 };
    struct rig * r = rig_aie2p();
    for (int i = 0; i < 0x2000; i++) {
        r->memory[i] = (uint8_t) (i * 7 + i / 256);
    }
    set(r, P(0), RIG_BASE + FIRST);
    set(r, R(24), 0);
    EMIT(r, ins(r, "VLDA_FILL_512", "p", P(0)));
    EMIT(r, ins(r, "VLDA_FILL_512", "p", P(0)));
    for (int i = 0; i < BLOCKS; i++) { // one a bundle
        if (i == 6) {                  // the fifo is empty: one line is less than a block
            EMIT(r, ins(r, "VLDA_FILL_512", "p", P(0)));
        }
        EMIT(r, ins(r, "VLDA_POP_576_normal_pop", "dp", AIE_REG(AIE_EX, i), P(0)));
    }
    run(r);
    assert_int_equal(get(r, P(0)), RIG_BASE + FIRST + 72 * BLOCKS);
    for (int i = 0; i < BLOCKS; i++) {
        uint8_t got[72];
        assert_int_equal(core_reg_get(r->core, AIE_REG(AIE_EX, i), got), 72);
        assert_memory_equal(got, r->memory + FIRST + 72 * i, 72);
    }
    rig_free(r);
}

static void store_fifo(void ** state) {
    (void) state;
    struct rig * r = rig_aie2p();
    uint8_t blocks[8][72];
    for (int i = 0; i < 8; i++) {
        for (int k = 0; k < 72; k++) {
            blocks[i][k] = (uint8_t) (i * 72 + k + 1);
        }
        assert_int_equal(core_reg_set(r->core, AIE_REG(AIE_EX, i), blocks[i]), 72);
    }
    set(r, P(2), RIG_BASE + 0x800);
    set(r, R(26), 0);
    for (int i = 0; i < 8; i++) {
        EMIT(r, ins(r, "VST_PUSH_576", "a", AIE_REG(AIE_EX, i)));
    }
    EMIT(r, ins(r, "VST_FLUSH_512_normal_flush", ""));
    run(r);
    assert_int_equal(get(r, P(2)), RIG_BASE + 0x800 + 8 * 72);
    assert_int_equal(get(r, R(26)), 0);
    assert_memory_equal(r->memory + 0x800, blocks, sizeof blocks);
    assert_int_equal(r->memory[0x800 + sizeof blocks], 0);
    rig_free(r);
}

static void an_impossible_level_stops_the_core(void ** state) {
    (void) state;
    struct rig * r = rig_aie2p();
    set(r, P(0), RIG_BASE);
    set(r, R(24), 200);
    EMIT(r, ins(r, "VLDA_POP_576_normal_pop", "dp", AIE_REG(AIE_EX, 0), P(0)));
    run_to(r, CORE_FAULT);
    assert_non_null(strstr(core_fault(r->core), "200 bytes"));
    assert_non_null(strstr(core_fault(r->core), "vlda.pop.576"));
    rig_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evidence_and_meaning_agree),
        cmocka_unit_test(rows_of_evidence_name_instructions),
        cmocka_unit_test(random_programs),
        cmocka_unit_test(two_rules_for_the_last_bit),
        cmocka_unit_test(tiny_products_keep_their_sign),
        cmocka_unit_test(shift16_shifts_left),
        cmocka_unit_test(integer_shapes),
        cmocka_unit_test(rounding_at_entry),
        cmocka_unit_test(sign_registers_come_in_pairs),
        cmocka_unit_test(srs_by_less_than_nothing),
        cmocka_unit_test(block_floats),
        cmocka_unit_test(exp2_is_linear_in_its_fraction),
        cmocka_unit_test(masks_go_to_r16),
        cmocka_unit_test(both_exponents_land_together),
        cmocka_unit_test(scalar_macs_in_a_row),
        cmocka_unit_test(blocks_of_72_bytes),
        cmocka_unit_test(store_fifo),
        cmocka_unit_test(an_impossible_level_stops_the_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
