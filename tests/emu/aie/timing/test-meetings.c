// test-meetings: a core and a DMA channel in one memory bank, rows B05 to B08. The core stores or
// loads one word after the other, both halves of a logical bank in turn, while the channel sends 16
// KiB from the same logical bank or from another. On the silicon a core that never rests lost about
// twenty cycles, one that rests in a third of them none or a few; the channel lost nothing.
#include "emu/aie/array-bench.h"
#include "emu/aie/array-program.h"
#include "emu/aie/timing/rows.h"

enum { BUFFER_WORDS = 256, TRANSFERS = 16, TRIPS = 4000, ROUNDS = 8 };

struct march {
    const char * id;
    const char * what;
    const char * access; // record of the instruction
    uint32_t core, dma;  // addresses
    int of;              // a rest in so many bundles; 0: none
};

// Rounds of a thousand bundles or so. Between them the core takes and gives back a lock of its own,
// for the array charges a core when the two meet.
static void program(struct program * p, const struct march * m) {
    int bundles = m->of ? m->of : 2;
    ins(p, "MOVXM_lng_cg", "di", P(0), 0x70000 + m->core);
    ins(p, "MOVX_alu_cg", "di", R(1), 1);
    ins(p, "MOVX_alu_cg", "di", R(2), -1);
    ins(p, "MOVX_alu_cg", "di", R(3), ROUNDS);
    uint32_t again = here(p), start = again + 16 * (3 + 7);
    ins(p, "MOVXM_lng_cg", "di", AIE_REG(AIE_SPC, AIE_SPC_LS), start);
    ins(p, "MOVXM_lng_cg", "di", AIE_REG(AIE_SPC, AIE_SPC_LE), start + 16 * (bundles - 1));
    ins(p, "MOVXM_lng_cg", "di", AIE_REG(AIE_SPC, AIE_SPC_LC), TRIPS);
    nops(p, 7);
    for (int i = 0; i < 2; i++) {
        ins(p, m->access, strncmp(m->access, "ST", 2) ? "dpi" : "api", R(0), P(0), 16 * i);
    }
    nops(p, bundles - 2);
    ins(p, "REL_mLockId_imm", "ib", 48 + 5, R(1));
    ins(p, "ADD_add_r_ri", "dai", R(3), R(3), -1);
    nops(p, 4);
    ins(p, "ACQ_mLockId_imm", "ib", 48 + 5, R(2));
    ins(p, "JNZ", "ai", R(3), (int) again);
    nops(p, 5);
    ins(p, "DONE", "");
}

// Stalls of the core while the channel sends, and how long the sending took.
static uint64_t stalls_of(const struct march * m) {
    struct bench * b = calloc(1, sizeof *b);
    struct emu_config config = bench_config(b);
    config.clock = emu_clock_default(AIE_ARCH_AIE2);
    assert_true(bench_open(b, &config));
    struct words * cdo = &b->cdo;
    struct program p = {.n = 0};
    program(&p, m);
    shim_ends(cdo, 0, true);
    circuit(cdo, 0, 2, 1, 5);  // DMA0 to South0
    circuit(cdo, 0, 1, 13, 7); // North0 to South0
    circuit(cdo, 0, 0, 14, SHIM_S2MM0);
    struct bd_desc d = {.length = BUFFER_WORDS, .address = m->dma / 4};
    core_bd(cdo, 0, 2, 0, &d);
    push_task(cdo, 0, 2, true, 0, (TRANSFERS - 1) << 16);
    load_core(cdo, 0, 2, &p);
    enable_core(cdo, 0, 2);
    struct shim_desc out = {.length = BUFFER_WORDS * TRANSFERS, .operand = OUT, .token = true};
    txn_transfer(&b->txn, 0, false, 0, 0, &out);
    txn_sync(&b->txn, 0, false, 0);
    run_ok(b);
    struct emu_counters c;
    emu_machine_counters(b->machine, &c);
    bench_close(b);
    free(b);
    return c.bank_stalls;
}

static const char store[] = "ST_dms_sts_idx_imm", load[] = "LDA_dms_lda_idx_imm";

static void meetings(void ** state) {
    (void) state;
    static const struct march marches[] = {
        {"B05", "stores, another logical bank", store, 0x0400, 0x8000, 0},
        {"B06", "stores, the same logical bank", store, 0x0400, 0x2400, 0},
        {"B07", "loads, the same logical bank", load, 0x0400, 0x2400, 0},
        {"B08", "loads, a rest in three", load, 0x0400, 0x2400, 3},
    };
    uint64_t stalls[4];
    for (int i = 0; i < 4; i++) {
        struct row r;
        row_find(&r, marches[i].id);
        stalls[i] = stalls_of(&marches[i]);
        print_message("%s: %s: core stalls %llu; silicon: %s %s, %s\n", marches[i].id,
                      marches[i].what, (unsigned long long) stalls[i], r.value, r.unit, r.spread);
    }
    assert_int_equal(stalls[0], (int) row_value("B05"));
    assert_between(stalls[1], 18, 20); // what the row tells
    assert_between(stalls[2], 18, 24); // the model knows no difference between loads and stores
    // B08 is not checked: 0 on the silicon, where core and channel fall into step.
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(meetings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
