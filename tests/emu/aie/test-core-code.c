// Prepared programs are kept by content: what a core executes is always what its program memory
// holds now, whoever prepared it, however often it was written and whatever had to go since.
#include "core-rig.h"

enum { NO_ROOM = 1 }; // a limit that nothing fits: only programs with a user stay

// r0 = value, from address `at` on.
static void write_mov(struct rig * r, uint32_t at, int value) {
    r->at = at;
    EMIT(r, ins(r, "MOVX_alu_cg", "di", R(0), value));
    emit_done(r);
}

static uint32_t run_again(struct rig * r) {
    core_enable(r->core, false, 0);
    core_reset(r->core);
    run_to(r, CORE_DONE);
    return get(r, R(0));
}

static void a_changed_byte_counts(void ** state) {
    (void) state;
    struct core_cache * cache = core_cache_new(CORE_CACHE_BYTES);
    struct rig * r = rig_new_in(cache, false);
    write_mov(r, 0, 1);
    assert_int_equal(run_again(r), 1);
    uint8_t before[16], after[16];
    memcpy(before, core_program(r->core), 16);
    write_mov(r, 0, 2);
    memcpy(after, core_program(r->core), 16);
    memcpy(core_program(r->core), before, 16);
    int differ = 0, at = 0;
    for (int i = 0; i < 16; i++) {
        differ += before[i] != after[i];
        at = before[i] != after[i] ? i : at;
    }
    assert_int_equal(differ, 1);
    assert_int_equal(run_again(r), 1);
    core_program(r->core)[at] = after[at];
    core_program_changed(r->core, (uint32_t) at, 1);
    assert_int_equal(run_again(r), 2);
    core_program(r->core)[at] = before[at];
    core_program_changed(r->core, (uint32_t) at, 1);
    assert_int_equal(run_again(r), 1);
    assert_int_equal(core_cache_counts(cache).made, 2); // the first one was found again
    rig_free(r);
    core_cache_free(cache);
}

// Two programs that are equal but for the last bundles of program memory.
static void all_bytes_are_compared(void ** state) {
    (void) state;
    enum { END = CORE_PM_BYTES - 32 };
    struct rig * r = rig_new(false);
    EMIT(r, ins(r, "J_jump_imm", "i", END));
    nops(r, 5);
    for (int turn = 0; turn < 4; turn++) {
        write_mov(r, END, 10 + turn % 2);
        assert_int_equal(run_again(r), 10 + turn % 2);
    }
    rig_free(r);
}

static uint32_t f32(float f) {
    uint32_t v;
    memcpy(&v, &f, 4);
    return v;
}

// bm0 = bm2 + bm2, bm4 = bm2 + bm2, with a lock between them. The float adder has no bypass, so
// that the prepared instruction points into the registers of a core.
static void write_sums(struct rig * r) {
    EMIT(r, ins(r, "VADD_F", "dabc", BM(0), BM(2), BM(2), R(0)));
    EMIT(r, ins(r, "ACQ_mLockId_imm", "ib", 48 + 3, R(1)));
    EMIT(r, ins(r, "VADD_F", "dabc", BM(4), BM(2), BM(2), R(0)));
    emit_done(r);
}

static void set_sums(struct rig * r, float value, int acquire) {
    set_lanes(r, BM(2), f32(value));
    set(r, R(0), 60); // the adder's configuration: plain sums
    set(r, R(1), (uint32_t) acquire);
}

static void expect_sums(struct rig * r, float value) {
    assert_int_equal(get(r, BM(0)), f32(value));
    assert_int_equal(get(r, BM(4)), f32(value));
}

static void cores_share_a_program(void ** state) {
    (void) state;
    struct core_cache * cache = core_cache_new(CORE_CACHE_BYTES);
    struct rig * a = rig_new_in(cache, false);
    struct rig * b = rig_new_in(cache, false);
    write_sums(a);
    write_sums(b);
    set_sums(a, 5, -1);
    set_sums(b, 7, -1);
    run_to(a, CORE_BLOCKED); // with its first sum in flight
    run_to(b, CORE_BLOCKED);
    assert_int_equal(core_cache_counts(cache).programs, 1);
    b->lock[51] = 1;
    assert_int_equal(core_run(b->core, UINT64_MAX, 1000), CORE_DONE);
    a->lock[51] = 1;
    assert_int_equal(core_run(a->core, UINT64_MAX, 1000), CORE_DONE);
    expect_sums(a, 10);
    expect_sums(b, 14);
    rig_free(b);
    core_enable(a->core, false, 0);
    core_reset(a->core);
    set_sums(a, 9, 0);
    run_to(a, CORE_DONE); // needs nothing of the core that is gone
    expect_sums(a, 18);
    assert_int_equal(core_cache_counts(cache).made, 1);
    rig_free(a);
    core_cache_free(cache);
}

static void cores_with_programs_of_their_own(void ** state) {
    (void) state;
    struct core_cache * cache = core_cache_new(CORE_CACHE_BYTES);
    struct rig * a = rig_new_in(cache, false);
    struct rig * b = rig_new_in(cache, false);
    for (int turn = 0; turn < 3; turn++) {
        write_mov(a, 0, 20 + turn);
        write_mov(b, 0, 21 + turn); // what a gets in the next turn
        assert_int_equal(run_again(a), 20 + turn);
        assert_int_equal(run_again(b), 21 + turn);
    }
    assert_int_equal(core_cache_counts(cache).made, 4);
    rig_free(a);
    rig_free(b);
    core_cache_free(cache);
}

static void memory_is_bounded(void ** state) {
    (void) state;
    enum { PROGRAMS = 40, FIT = 4 };
    struct core_cache * cache = core_cache_new(CORE_CACHE_BYTES);
    struct rig * r = rig_new_in(cache, false);
    write_mov(r, 0, 0);
    run_again(r);
    size_t one = core_cache_counts(cache).bytes;
    rig_free(r);
    core_cache_free(cache);

    cache = core_cache_new(FIT * one + one / 2);
    r = rig_new_in(cache, false);
    for (int turn = 0; turn < 2; turn++) { // in the second they come when just gone
        for (int i = 0; i < PROGRAMS; i++) {
            write_mov(r, 0, i);
            assert_int_equal(run_again(r), i);
            assert_true(core_cache_counts(cache).bytes <= FIT * one + one / 2);
        }
    }
    assert_int_equal(core_cache_counts(cache).programs, FIT);
    assert_int_equal(core_cache_counts(cache).made, 2 * PROGRAMS);
    // The least recently used one goes: the oldest of the four is used, so the next makes room.
    const struct {
        int value, made;
    } uses[] = {{PROGRAMS - FIT, 0}, {500, 1}, {PROGRAMS - FIT, 0}, {PROGRAMS - FIT + 1, 1}};
    int made = 2 * PROGRAMS;
    for (size_t i = 0; i < sizeof uses / sizeof uses[0]; i++) {
        write_mov(r, 0, uses[i].value);
        assert_int_equal(run_again(r), uses[i].value);
        made += uses[i].made;
        assert_int_equal(core_cache_counts(cache).made, made);
    }
    rig_free(r);
    core_cache_free(cache);
}

// A core waits, a load and a sum in flight, while its program is replaced and another core makes
// the cache forget whatever it can.
static void replaced_under_a_waiting_core(void ** state) {
    (void) state;
    struct core_cache * cache = core_cache_new(NO_ROOM);
    struct rig * a = rig_new_in(cache, false);
    struct rig * b = rig_new_in(cache, false);
    store_u32(a->memory + 0x104, 77);
    set(a, P(0), RIG_BASE + 0x100);
    set(a, R(1), (uint32_t) -1);
    set_lanes(a, CM(1), 5);
    EMIT(a, ins(a, "LDA_dms_lda_idx_imm", "dpi", R(5), P(0), 4),
         ins(a, "VADD", "dabc", CM(0), CM(1), CM(1), R(2)));
    EMIT(a, ins(a, "ACQ_mLockId_imm", "ib", 48 + 3, R(1)));
    write_mov(a, a->at, 1);
    run_to(a, CORE_BLOCKED);
    assert_int_equal(get(a, R(5)), 0);
    write_mov(a, 32, 2);
    for (int i = 0; i < 3; i++) {
        write_mov(b, 0, 30 + i);
        assert_int_equal(run_again(b), 30 + i);
    }
    uint64_t now = core_now(a->core);
    assert_int_equal(core_run(a->core, UINT64_MAX, 1000), CORE_BLOCKED);
    assert_int_equal(core_now(a->core), now); // what arrives costs no time
    assert_int_equal(get(a, R(5)), 77);
    assert_int_equal(get(a, CM(0)), 10);
    a->lock[51] = 1;
    assert_int_equal(core_run(a->core, UINT64_MAX, 1000), CORE_DONE);
    assert_int_equal(get(a, R(0)), 2);
    assert_int_equal(core_cache_counts(cache).programs, 2); // those of a and b
    rig_free(b);
    rig_free(a);
    core_cache_free(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_changed_byte_counts), cmocka_unit_test(all_bytes_are_compared),
        cmocka_unit_test(cores_share_a_program), cmocka_unit_test(cores_with_programs_of_their_own),
        cmocka_unit_test(memory_is_bounded),     cmocka_unit_test(replaced_under_a_waiting_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
