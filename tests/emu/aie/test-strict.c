// test-strict: a strict core shows what a program takes from where it put nothing. The programs
// here multiply with a register that they forgot to set, then scale the product down, as kernels
// with fixed point do: beside zeros such a mistake cannot be seen at all, and beside all-ones the
// result is off by one at most, which a tolerance forgives.
#include "array-bench.h"
#include "emu/aie/core-rig.h"

// r2 = r1 * 3 >> 8 and bml0 = x0 * x1 (4x8 times 8x4 of bf16), with r1 and x0 unset.
static void forgets_its_factors(struct rig * r) {
    r->at = 0;
    EMIT(r, ins(r, "MOVX_alu_cg", "di", R(3), 3));
    EMIT(r, ins(r, "MOVX_alu_cg", "di", R(4), -8));
    EMIT(r, ins(r, "MOVX_alu_cg", "di", R(5), 28));
    EMIT(r, ins(r, "MOVXM_lng_cg", "di", R(6), 0x3f803f80)); // 1.0, 1.0
    EMIT(r, ins(r, "VBCST_32", "da", X(1), R(6)));
    EMIT(r, ins(r, "MUL_mul_r_rr", "dab", R(2), R(1), R(3)));
    nops(r, 1);
    EMIT(r, ins(r, "ASHL", "dab", R(2), R(2), R(4)));
    EMIT(r, ins(r, "VMUL_F_vmac_bm_core_dense", "dabc", BM(0), X(0), X(1), R(5)));
    nops(r, 8);
    emit_done(r);
    run_to(r, CORE_DONE);
}

struct seen {
    int32_t product;
    uint32_t lanes[16];
};

static struct seen results(struct rig * r) {
    uint8_t bytes[128];
    struct seen s = {.product = (int32_t) get(r, R(2))};
    core_reg_get(r->core, BM(0), bytes);
    memcpy(s.lanes, bytes, 64);
    return s;
}

static int lanes_that_differ(const struct seen * a, const struct seen * b) {
    int n = 0;
    for (int i = 0; i < 16; i++) {
        n += a->lanes[i] != b->lanes[i];
    }
    return n;
}

static void an_unset_factor_is_seen(void ** state) {
    (void) state;
    const struct seen zero = {0};
    struct rig * r = rig_new(false);
    forgets_its_factors(r);
    struct seen s = results(r);
    assert_int_equal(s.product, 0); // hidden: as if it had been meant
    assert_int_equal(lanes_that_differ(&s, &zero), 0);
    rig_free(r);

    // Seeds from 3 on: with them no factor is 0, 1 or -1 by chance.
    struct seen runs[6];
    for (uint32_t i = 0; i < 6; i++) { // three cores, and each after another reset
        r = i % 2 ? r : rig_new_strict(3 + i);
        core_reset(r->core);
        forgets_its_factors(r);
        runs[i] = results(r);
        assert_true(runs[i].product > 1 || runs[i].product < -1);
        assert_true(lanes_that_differ(&runs[i], &zero) >= 8);
        for (uint32_t k = 0; k < i; k++) {
            assert_int_not_equal(runs[i].product, runs[k].product);
            assert_true(lanes_that_differ(&runs[i], &runs[k]) >= 8);
        }
        if (i % 2) {
            rig_free(r);
        }
    }
}

static void the_same_seed_gives_the_same_run(void ** state) {
    (void) state;
    struct seen runs[2];
    for (int i = 0; i < 2; i++) {
        struct rig * r = rig_new_strict(7);
        forgets_its_factors(r);
        runs[i] = results(r);
        rig_free(r);
    }
    assert_memory_equal(&runs[0], &runs[1], sizeof(runs[0]));
}

static void what_steers_the_core_is_defined(void ** state) {
    (void) state;
    struct rig * r = rig_new_strict(1);
    static const aie_reg steering[] = {LC,
                                       LS,
                                       LE,
                                       AIE_REG(AIE_CR, AIE_CR_RND),
                                       AIE_REG(AIE_CR, AIE_CR_SAT),
                                       AIE_REG(AIE_CR, AIE_CR_SRS_SIGN)};
    for (size_t i = 0; i < sizeof(steering) / sizeof(steering[0]); i++) {
        assert_int_equal(get(r, steering[i]), 0);
    }
    assert_int_equal(core_pc(r->core), 0);
    for (int i = 0; i < 8; i++) { // pointers keep their 20 bits
        assert_true(get(r, P(i)) <= 0xfffff);
    }
    rig_free(r);
}

// Every kind of word is there in some measure, and no one of them is everywhere.
static void garbage_is_varied(void ** state) {
    (void) state;
    enum { WORDS = 16384 };
    static uint32_t words[WORDS];
    core_garbage(words, sizeof(words), 1);
    int nan = 0, infinite = 0, huge = 0, ordinary = 0, small = 0, equal = 0;
    for (int i = 0; i < WORDS; i++) {
        uint32_t v = words[i], exponent = v >> 23 & 255;
        nan += exponent == 255 && (v & 0x7fffff);
        infinite += exponent == 255 && !(v & 0x7fffff);
        huge += exponent >= 230 && exponent < 255;
        ordinary += exponent >= 119 && exponent <= 134;
        small += v + 128 < 256;
        equal += i && v == words[i - 1];
    }
    assert_true(nan > WORDS / 32 && nan < WORDS / 4);
    assert_true(infinite > WORDS / 32 && infinite < WORDS / 8);
    assert_true(huge > WORDS / 32 && huge < WORDS / 4);
    assert_true(ordinary > WORDS / 4 && ordinary < WORDS);
    assert_true(small > WORDS / 32 && small < WORDS / 4);
    assert_true(equal < WORDS / 64);
    uint8_t guard[16] = {0}; // a size that is no multiple of the step
    core_garbage(guard, 13, 1);
    assert_int_equal(guard[13] | guard[14] | guard[15], 0);
}

// ---- loads from nowhere ----

// Loads r0 from 0x10004, r1 from one and r2 from two bytes past a word, wl0 from the middle of two
// vectors, amll0 (with a conversion) likewise.
static void loads_astray(struct rig * r) {
    for (uint32_t i = 0; i < 64; i++) {
        store_u32(r->memory + 4 * i, 0x3f800000 + 0x10000 * i);
    }
    r->at = 0;
    set(r, P(0), 0x10000);
    set(r, P(1), RIG_BASE + 8 + 1);
    set(r, P(2), RIG_BASE + 64 + 3);
    EMIT(r, ins(r, "LDA_dms_lda_idx_imm", "dpi", R(0), P(0), 4));
    EMIT(r, ins(r, "LDA_dms_lda_idx_imm", "dpi", R(1), P(1), 0));
    EMIT(r, ins(r, "LDA_U16_ag_idx_imm", "dpi", R(2), P(2), 0));
    EMIT(r, ins(r, "VLDA_dmw_lda_w_ag_idx_imm", "dpi", W(0), P(2), 0));
    EMIT(r, ins(r, "VLDA_CONV_FP32_BF16_ag_idx_imm", "dpi", BM(0), P(2), 0));
    nops(r, 12);
    emit_done(r);
    run_to(r, CORE_DONE);
}

static void stray_loads_end(void ** state) {
    (void) state;
    uint32_t unmapped[3]; // by an easy-going core, and by two strict ones
    for (uint32_t i = 0; i < 3; i++) {
        struct rig * r = i ? rig_new_strict(i) : rig_new(false);
        loads_astray(r);
        assert_int_equal(core_stray_loads(r->core), 5);
        unmapped[i] = get(r, R(0));
        assert_int_equal(get(r, R(1)), 0x3f820000); // the low bits do not count
        assert_int_equal(get(r, R(2)), 0x3f90);     // the upper half of 0x3f900000 ...
        uint8_t bytes[128];
        core_reg_get(r->core, W(0), bytes);
        assert_memory_equal(bytes, r->memory + 64, 32);
        core_reg_get(r->core, BM(0), bytes);
        assert_int_equal(load_u32(bytes + 4), 0x3f900000); // ... and it as a float
        rig_free(r);
    }
    assert_int_equal(unmapped[0], 0);
    assert_true(unmapped[1] != 0 && unmapped[1] != 0xffffffff);
}

static void what_is_not_there_varies(void ** state) {
    (void) state;
    struct rig * r = rig_new_strict(1);
    set(r, P(0), 0x10000);
    EMIT(r, ins(r, "LDA_dms_lda_idx_imm", "dpi", R(0), P(0), 0));
    EMIT(r, ins(r, "LDA_dms_lda_idx_imm", "dpi", R(1), P(0), 0));
    EMIT(r, ins(r, "LDA_dms_lda_idx_imm", "dpi", R(2), P(0), 4));
    nops(r, 8);
    emit_done(r);
    run_to(r, CORE_DONE);
    assert_int_not_equal(get(r, R(0)), get(r, R(1)));
    assert_int_not_equal(get(r, R(1)), get(r, R(2)));
    rig_free(r);
}

// ---- the array ----

static int setup_strict(void ** state) {
    if (setup(state) != 0) {
        return -1;
    }
    struct bench * b = *state;
    struct emu_config config = {.arch = AIE_ARCH_AIE2,
                                .columns = 4,
                                .resolve = resolve,
                                .user = b,
                                .max_cycles = 2000000,
                                .strict = true,
                                .trace_col = -1,
                                .trace_row = -1};
    emu_machine_free(b->machine);
    return emu_machine_new(&config, &b->machine, &b->err) == ST_OK ? 0 : -1;
}

// Sends what the memtiles of two columns hold to the host, without having put anything there.
static void memories_differ(void ** state) {
    struct bench * b = *state;
    enum { N = 64 };
    static uint32_t held[2][2][N];
    for (int turn = 0; turn < 2; turn++) {
        for (int col = 0; col < 2; col++) {
            b->cdo.n = 0;
            txn_begin(&b->txn);
            loop_routes(b, col, true);
            struct bd_desc out = {.length = N, .address = 0x20000};
            cdo_write(&b->cdo, REG(col, 1, 4 * N), 1); // what may have been written is renewed
            mem_bd(&b->cdo, col, 1, &out);
            push_task(&b->cdo, col, 1, true, 0, 1);
            struct shim_desc to = {.length = N, .operand = OUT, .token = true};
            txn_transfer(&b->txn, col, false, 0, 1, &to);
            txn_sync(&b->txn, col, false, 0);
            run_ok(b);
            memcpy(held[turn][col], b->host[OUT], sizeof(held[turn][col]));
        }
    }
    int equal = 0;
    for (int i = 0; i < N; i++) {
        equal += held[0][0][i] == held[0][1][i];
        equal += held[0][0][i] == held[1][0][i];
        equal += held[0][0][i] == 0 || held[0][0][i] == 0xffffffff;
    }
    assert_true(equal < N / 8);
}

// Words of a memtile under a mask, with bits beside it: some say they do not count, AMD's own
// library writes them. A strict array does either.
static uint32_t beside_the_mask(struct bench * b) {
    enum { WORD = 0x400 };
    b->cdo.n = 0;
    txn_begin(&b->txn);
    loop_routes(b, 0, true);
    struct bd_desc out = {.length = 1, .address = 0x20000 + WORD / 4};
    cdo_write(&b->cdo, REG(0, 1, WORD), 0x10000);
    put(&b->cdo, 3u << 16 | 0x102);
    put(&b->cdo, REG(0, 1, WORD));
    put(&b->cdo, 0xff);
    put(&b->cdo, 0x1234);
    put(&b->cdo, 3u << 16 | 0x102); // the form that real PDIs have: nothing comes of it
    put(&b->cdo, REG(0, 1, 0xa0630));
    put(&b->cdo, 0);
    put(&b->cdo, 1);
    mem_bd(&b->cdo, 0, 1, &out);
    push_task(&b->cdo, 0, 1, true, 0, 1);
    struct shim_desc to = {.length = 1, .operand = OUT, .token = true};
    txn_transfer(&b->txn, 0, false, 0, 1, &to);
    txn_sync(&b->txn, 0, false, 0);
    run_ok(b);
    emu_machine_run(b->machine, NULL, 0, NULL, 0, NULL, 0, &b->err); // it is loaded anew
    return b->host[OUT][0];
}

static void masks_are_read_both_ways(void ** state) {
    int written = 0, left_out = 0;
    for (int i = 0; i < 40; i++) {
        uint32_t word = beside_the_mask(*state);
        written += word == 0x11234;
        left_out += word == 0x10034;
        assert_int_equal(written + left_out, i + 1);
    }
    assert_true(written > 4 && left_out > 4);
}

static void masks_are_read_one_way(void ** state) {
    for (int i = 0; i < 20; i++) {
        assert_int_equal(beside_the_mask(*state), 0x10034);
    }
}

// ---- the order of host memory ----

enum { WORDS = 64, FIRST = 0, SECOND = 4 * WORDS };

// A to OUT at FIRST, and OUT at `from` to OUT at `to`, which is told before the first one was
// waited for, or behind that.
static void two_transfers(struct bench * b, uint32_t from, uint32_t to, bool ahead) {
    b->cdo.n = 0;
    txn_begin(&b->txn);
    loop_routes(b, 0, true);
    struct bd_desc turn = {.length = WORDS, .address = 0x20000};
    loop_memtile(b, 0, WORDS, turn);
    struct shim_desc in = {.length = WORDS, .operand = A};
    struct shim_desc out = {.length = WORDS, .operand = OUT, .offset = FIRST, .token = true};
    struct shim_desc again = {.length = WORDS, .operand = OUT, .offset = from};
    struct shim_desc there = {.length = WORDS, .operand = OUT, .offset = to, .token = true};
    txn_transfer(&b->txn, 0, true, 0, 0, &in);
    txn_transfer(&b->txn, 0, false, 0, 1, &out);
    if (!ahead) {
        txn_sync(&b->txn, 0, false, 0);
    }
    txn_transfer(&b->txn, 0, true, 0, 2, &again);
    txn_transfer(&b->txn, 0, false, 0, 3, &there);
    if (ahead) {
        txn_sync(&b->txn, 0, false, 0);
    }
    txn_sync(&b->txn, 0, false, 0);
}

static void assert_arrived(const struct bench * b, uint32_t at) {
    for (uint32_t i = 0; i < WORDS; i++) {
        assert_int_equal(b->host[OUT][at / 4 + i], pattern(A, i));
    }
}

// The words are there when they are read, and need not be.
static void reads_follow_syncs(void ** state) {
    struct bench * b = *state;
    two_transfers(b, FIRST, SECOND, false);
    run_ok(b);
    assert_arrived(b, SECOND);
    two_transfers(b, FIRST, FIRST, false); // each word is read before it is written again
    run_ok(b);
    assert_arrived(b, FIRST);
    two_transfers(b, SECOND, 2 * SECOND, true); // what a dispatch before wrote
    run_ok(b);
    assert_arrived(b, 2 * SECOND);
    two_transfers(b, FIRST, SECOND, true);
    expect_error(b, ST_DEVICE, "that S2MM0 of column 0 wrote, but the task was queued before");
    two_transfers(b, SECOND - 4, 2 * SECOND, true); // its last word
    expect_error(b, ST_DEVICE, "shim tile (0,0) MM2S0 BD 2 reads a word");
}

static void reads_are_in_time(void ** state) {
    struct bench * b = *state;
    two_transfers(b, FIRST, SECOND, true);
    run_ok(b);
    assert_arrived(b, SECOND);
}

// Two tasks of a descriptor, which is aimed anew while the second one waits for the first one.
static void aim_too_early(struct bench * b) {
    b->cdo.n = 0;
    txn_begin(&b->txn);
    loop_routes(b, 0, true);
    struct bd_desc turn = {.length = WORDS, .address = 0x20000};
    loop_memtile(b, 0, WORDS, turn);
    struct shim_desc in = {.length = WORDS, .operand = A}, other = in;
    struct shim_desc out = {.length = 2 * WORDS, .operand = OUT, .token = true};
    other.operand = B;
    txn_transfer(&b->txn, 0, true, 0, 0, &in);
    txn_transfer(&b->txn, 0, true, 0, 0, &other);
    txn_transfer(&b->txn, 0, false, 0, 1, &out);
    txn_sync(&b->txn, 0, false, 0);
}

static void descriptors_wait_for_tasks(void ** state) {
    struct bench * b = *state;
    struct shim_desc last = {.length = WORDS, .operand = A};
    aim_too_early(b); // the first task has begun by then, the second one is the other's
    run_ok(b);
    aim_too_early(b);
    b->txn.s.n -= 4; // the sync
    b->txn.ops--;
    txn_transfer(&b->txn, 0, true, 0, 0, &last);
    txn_transfer(&b->txn, 0, true, 0, 0, &last);
    txn_sync(&b->txn, 0, false, 0);
    expect_error(b, ST_DEVICE, "BD 0 is written while MM2S0 still has a task for it");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unset_factor_is_seen),
        cmocka_unit_test(the_same_seed_gives_the_same_run),
        cmocka_unit_test(what_steers_the_core_is_defined),
        cmocka_unit_test(garbage_is_varied),
        cmocka_unit_test(stray_loads_end),
        cmocka_unit_test(what_is_not_there_varies),
        cmocka_unit_test_setup_teardown(memories_differ, setup_strict, teardown),
        cmocka_unit_test_setup_teardown(masks_are_read_both_ways, setup_strict, teardown),
        cmocka_unit_test_setup_teardown(masks_are_read_one_way, setup, teardown),
        cmocka_unit_test_setup_teardown(reads_follow_syncs, setup_strict, teardown),
        cmocka_unit_test_setup_teardown(reads_are_in_time, setup, teardown),
        cmocka_unit_test_setup_teardown(descriptors_wait_for_tasks, setup_strict, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
