// test-core-time: small loops whose cycles were read on a Phoenix, as programs of our own on a core
// with that clock. The core reads its own cycle counter before and after, as the probe on the
// silicon did, and counts its stalls at banks. What the rule predicts for addresses in one place
// and apart is held against both.
#include "emu/aie/core-rig.h"
#include "emu/aie/timing/rows.h"

#define L(n) AIE_REG(AIE_L, n)

enum { BUNDLE = 16, SETUP = 7 }; // bytes of a bundle; bundles from a loop's registers to its end

static struct rig * rig_phoenix(void) {
    return rig_new_at(NULL, false, emu_clock_default(AIE_ARCH_AIE2));
}

static void counter_to(struct rig * r, int pair) { // r16+2n, r17+2n
    EMIT(r, ins(r, "MOV_CNTR", "d", L(pair)));
}

static uint32_t between(struct rig * r, int from, int to) {
    return get(r, R(16 + 2 * to)) - get(r, R(16 + 2 * from));
}

// A loop of `trips` around the next `bundles` bundles.
static void loop(struct rig * r, int trips, int bundles) {
    uint32_t start = r->at + BUNDLE * (3 + SETUP);
    EMIT(r, ins(r, "MOVXM_lng_cg", "di", LS, start));
    EMIT(r, ins(r, "MOVXM_lng_cg", "di", LE, start + BUNDLE * ((uint32_t) bundles - 1)));
    EMIT(r, ins(r, "MOVXM_lng_cg", "di", LC, trips));
    nops(r, SETUP);
}

// Row B03: 1,000 trips of 9 bundles around a taken branch, and 24 more up to the second reading.
static void delay_loop(void ** state) {
    (void) state;
    double want = row_value("B03");
    struct rig * r = rig_phoenix();
    counter_to(r, 0);
    EMIT(r, ins(r, "MOVXM_lng_cg", "di", R(0), 1000));
    nops(r, 22);
    uint32_t again = r->at;
    EMIT(r, ins(r, "ADD_add_r_ri", "dai", R(0), R(0), -1));
    nops(r, 2);
    EMIT(r, ins(r, "JNZ", "ai", R(0), again));
    nops(r, 5); // delay slots
    counter_to(r, 1);
    nops(r, 8);
    emit_done(r);
    run_to(r, CORE_DONE);
    print_message("B03: %u cycles, silicon %.0f\n", between(r, 0, 1), want);
    assert_int_equal(between(r, 0, 1), (int) want);
    rig_free(r);
}

struct pair {
    uint32_t load, store; // addresses in the tile's memory
    const char * where;
    uint64_t stalls; // in 24 trips
};

// Row B04: 24 trips of one bundle that loads a word and stores the one of eight trips ago.
static void load_and_store(void ** state) {
    (void) state;
    uint64_t want = (uint64_t) row_value("B04");
    const struct pair pairs[] = {
        {0x420, 0x500, "one bank", want},
        {0x400, 0x5a0, "one bank", want},
        {0x420, 0x510, "the other half of the logical bank", 0},
        {0x420, 0x4500, "another logical bank", 0},
        {0x420, 0xc500, "another logical bank", 0},
        {0x420, 0x508, "one bank in half of the trips", want / 2},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct rig * r = rig_phoenix();
        set(r, P(0), RIG_BASE + pairs[i].load);
        set(r, P(1), RIG_BASE + pairs[i].store);
        counter_to(r, 0);
        loop(r, 24, 1);
        EMIT(r, ins(r, "LDA_dms_lda_pstm_nrm_imm", "dpi", R(0), P(0), 4),
             ins(r, "ST_dms_sts_pstm_nrm_imm", "api", R(0), P(1), 4));
        nops(r, 12); // until all has landed
        counter_to(r, 1);
        nops(r, 2);
        emit_done(r);
        run_to(r, CORE_DONE);
        uint64_t stalls = core_bank_stalls(r->core);
        uint32_t bundles = 1 + 3 + SETUP + 24 + 12;
        print_message("B04: load 0x%x, store 0x%x, %s: %llu stalls, %u cycles for %u bundles\n",
                      pairs[i].load, pairs[i].store, pairs[i].where, (unsigned long long) stalls,
                      between(r, 0, 1), bundles);
        assert_int_equal(stalls, pairs[i].stalls);
        assert_int_equal(between(r, 0, 1), bundles + stalls);
        rig_free(r);
    }
}

// Row B05: nothing but stores, one in each cycle: nobody to meet.
static void stores_alone(void ** state) {
    (void) state;
    uint64_t want = (uint64_t) row_value("B05");
    struct rig * r = rig_phoenix();
    set(r, P(0), RIG_BASE);
    loop(r, 256, 1);
    EMIT(r, ins(r, "ST_dms_sts_pstm_nrm_imm", "api", R(0), P(0), 4));
    nops(r, 12);
    emit_done(r);
    run_to(r, CORE_DONE);
    assert_int_equal(core_bank_stalls(r->core), want);
    rig_free(r);
}

// Up to three accesses of 256 bits in a bundle, each of which takes both halves of its logical
// bank: one cycle more for each that meets another.
static void vectors(void ** state) {
    (void) state;
    static const struct {
        uint32_t a, b, c;
        uint64_t stalls;
    } places[] = {{0x0000, 0x4000, 0x8000, 0}, {0x0000, 0x0800, 0x8000, 1},
                  {0x0000, 0x4000, 0x0800, 1}, {0x0000, 0x4000, 0x4800, 1},
                  {0x0000, 0x0800, 0x0c00, 2}, {0xc000, 0xc400, 0xc800, 2}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct rig * r = rig_phoenix();
        set(r, P(0), RIG_BASE + places[i].a);
        set(r, P(1), RIG_BASE + places[i].b);
        set(r, P(2), RIG_BASE + places[i].c);
        for (int n = 0; n < 10; n++) {
            EMIT(r, ins(r, "VLDA_dmw_lda_w_ag_idx_imm", "dpi", W(0), P(0), 0),
                 ins(r, "VLDB_dmw_ldb_ag_idx_imm", "dpi", W(1), P(1), 0),
                 ins(r, "VST_dmw_sts_w_ag_idx_imm", "api", W(4), P(2), 0));
        }
        nops(r, 12);
        emit_done(r);
        run_to(r, CORE_DONE);
        print_message("loads 0x%x and 0x%x, store 0x%x: %llu stalls in 10 bundles\n", places[i].a,
                      places[i].b, places[i].c, (unsigned long long) core_bank_stalls(r->core));
        assert_int_equal(core_bank_stalls(r->core), 10 * places[i].stalls);
        rig_free(r);
    }
}

// Row B16: an acquire or release of a lock that is free takes its bundle and one stall cycle.
static void locks(void ** state) {
    (void) state;
    struct row b16; // for the skip where there is no golden data; its note says: pulse 1 long
    row_find(&b16, "B16");
    assert_non_null(strstr(b16.spread, "pulse 1 long"));
    struct rig * r = rig_phoenix();
    r->lock[50] = 1;
    set(r, R(0), (uint32_t) -1);
    set(r, R(1), 1);
    counter_to(r, 0);
    EMIT(r, ins(r, "ACQ_mLockId_imm", "ib", 50, R(0)));
    nops(r, 12);
    EMIT(r, ins(r, "REL_mLockId_imm", "ib", 50, R(1)));
    nops(r, 12);
    counter_to(r, 1);
    nops(r, 2);
    emit_done(r);
    run_to(r, CORE_DONE);
    assert_int_equal(between(r, 0, 1), 1 + 13 + 13 + 2);
    rig_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delay_loop),   cmocka_unit_test(load_and_store),
        cmocka_unit_test(stores_alone), cmocka_unit_test(vectors),
        cmocka_unit_test(locks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
