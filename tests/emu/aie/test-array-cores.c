// test-array-cores: what cores and the array do together, with programs of a few instructions:
// stream ports, the cascade, locks and memories of neighbours, and the errors that name a core.
#include "array-bench.h"
#include "array-program.h"

// Shim MM2S0 up to tile (col,2) South0, and tile (col,2) South0 down to shim S2MM0.
static void column_routes(struct bench * b, int col) {
    shim_ends(&b->cdo, col, true);
    circuit(&b->cdo, col, 0, SHIM_MM2S0, 12);
    circuit(&b->cdo, col, 1, 7, 11);
    circuit(&b->cdo, col, 1, 13, 7);
    circuit(&b->cdo, col, 0, 14, SHIM_S2MM0);
}

static void streams(void ** state) {
    struct bench * b = *state;
    struct program p = {.n = 0};
    ins(&p, "MOV_mv_ss2scl", "d", R(0));
    nops(&p, 7);
    ins(&p, "ADD_add_r_ri", "dai", R(0), R(0), 5);
    ins(&p, "MOV_mv_scl2ms", "a", R(0));
    jump(&p, 0);
    column_routes(b, 0);
    circuit(&b->cdo, 0, 2, 5, 0); // South0 to the core
    circuit(&b->cdo, 0, 2, 0, 5); // the core to South0
    load_core(&b->cdo, 0, 2, &p);
    enable_core(&b->cdo, 0, 2);
    in_and_out(b, 0, 300, 300);
    run_ok(b);
    run_ok(b);
    for (uint32_t i = 0; i < 300; i++) {
        assert_int_equal(b->host[OUT][i], pattern(A, i) + 5);
    }
    struct emu_counters c;
    emu_machine_counters(b->machine, &c);
    assert_int_equal(c.bundles, 2 * 300 * 16);
}

// The first core turns a word of its stream into a vector and sends it over the cascade; the second
// sends lane 7 of what arrives to its stream. Each 512-bit step carries 16 times the same word.
static void cascade(struct bench * b, int from_col, int from_row) {
    struct program first = {.n = 0}, second = {.n = 0};
    ins(&first, "MOV_mv_ss2scl", "d", R(0));
    nops(&first, 7);
    ins(&first, "VBCST_32", "da", X(0), R(0));
    nops(&first, 3);
    ins(&first, "VMOV_mv_mcd", "a", X(0));
    jump(&first, 0);
    ins(&second, "MOVXM_lng_cg", "di", P(0), 0x70100);
    uint32_t loop = here(&second);
    ins(&second, "VMOV_mv_scd", "d", X(2));
    nops(&second, 8);
    ins(&second, "VST_dmw_sts_w_ag_idx_imm", "api", W(4), P(0), 0);
    nops(&second, 8);
    ins(&second, "LDA_dms_lda_idx_imm", "dpi", R(3), P(0), 28);
    nops(&second, 8);
    ins(&second, "MOV_mv_scl2ms", "a", R(3));
    jump(&second, loop);
    // Words reach the first core from column 1's shim, the second one, (1,2), sends them there.
    column_routes(b, 1);
    if (from_row == 3) {
        circuit(&b->cdo, 1, 2, 5, 13); // South0 to North0
        circuit(&b->cdo, 1, 3, 5, 0);
    } else {
        circuit(&b->cdo, 1, 2, 5, 9); // South0 to West0
        circuit(&b->cdo, 0, 2, 19, 0);
        cdo_write(&b->cdo, REG(0, 2, 0x36060), 2); // out to the east
        cdo_write(&b->cdo, REG(1, 2, 0x36060), 1); // in from the west
    }
    circuit(&b->cdo, 1, 2, 0, 5);
    load_core(&b->cdo, from_col, from_row, &first);
    load_core(&b->cdo, 1, 2, &second);
    enable_core(&b->cdo, from_col, from_row);
    enable_core(&b->cdo, 1, 2);
    in_and_out(b, 1, 200, 200);
    run_ok(b);
    run_ok(b);
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(b->host[OUT][i], pattern(A, i));
    }
}

static void cascade_southwards(void ** state) {
    cascade(*state, 1, 3);
}

static void cascade_eastwards(void ** state) {
    cascade(*state, 0, 2);
}

// Core (1,3) takes words from its west neighbour's memory, keeps them a moment in its north
// neighbour's and leaves them in its south neighbour's; it meets the DMAs there over their locks.
static void neighbours(void ** state) {
    struct bench * b = *state;
    struct program p = {.n = 0};
    ins(&p, "MOVXM_lng_cg", "di", P(0), 0x50000 + 64); // west
    ins(&p, "MOVXM_lng_cg", "di", P(1), 0x60000 + 32); // north
    ins(&p, "MOVXM_lng_cg", "di", P(2), 0x40000 + 16); // south
    ins(&p, "MOVX_alu_cg", "di", R(1), -1);
    ins(&p, "MOVX_alu_cg", "di", R(2), 1);
    uint32_t loop = here(&p);
    ins(&p, "ACQ_mLockId_imm", "ib", 16 + 2, R(1)); // west: words are there
    ins(&p, "ACQ_mLockId_imm", "ib", 0 + 5, R(1));  // south: room is there
    nops(&p, 8);
    for (int i = 0; i < 4; i++) {
        ins(&p, "LDA_dms_lda_idx_imm", "dpi", R(8), P(0), 4 * i);
        nops(&p, 8);
        ins(&p, "ST_dms_sts_idx_imm", "api", R(8), P(1), 4 * i);
        nops(&p, 8);
        ins(&p, "LDA_dms_lda_idx_imm", "dpi", R(9), P(1), 4 * i);
        nops(&p, 8);
        ins(&p, "ST_dms_sts_idx_imm", "api", R(9), P(2), 4 * i);
        nops(&p, 8);
    }
    ins(&p, "REL_mLockId_imm", "ib", 0 + 6, R(2));
    ins(&p, "REL_mLockId_imm", "ib", 16 + 1, R(2));
    jump(&p, loop);
    load_core(&b->cdo, 1, 3, &p);
    column_routes(b, 1);
    circuit(&b->cdo, 1, 2, 5, 13); // tile (1,2): South0 to North0
    circuit(&b->cdo, 1, 3, 5, 9);  // tile (1,3): South0 to West0
    circuit(&b->cdo, 0, 3, 19, 1); // tile (0,3): East0 to DMA0
    circuit(&b->cdo, 1, 2, 1, 5);  // tile (1,2): DMA0 to South0
    struct bd_desc in = {.length = 4,
                         .address = 16,
                         .next = 1 + 0,
                         .acquire = 1,
                         .acquire_value = -1,
                         .release = 2,
                         .release_value = 1};
    struct bd_desc out = {.length = 4,
                          .address = 4,
                          .next = 1 + 0,
                          .acquire = 6,
                          .acquire_value = -1,
                          .release = 5,
                          .release_value = 1};
    core_bd(&b->cdo, 0, 3, 0, &in);
    core_bd(&b->cdo, 1, 2, 0, &out);
    set_lock(&b->cdo, 0, 3, 1, 1);
    set_lock(&b->cdo, 1, 2, 5, 1);
    push_task(&b->cdo, 0, 3, false, 0, 0);
    push_task(&b->cdo, 1, 2, true, 0, 0);
    enable_core(&b->cdo, 1, 3);
    in_and_out(b, 1, 100, 100);
    run_ok(b);
    run_ok(b);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(b->host[OUT][i], pattern(A, i));
    }
}

// Words of column 0 through core (0,2), which adds to each.
static void adding_core(struct bench * b, struct program * p, int value) {
    *p = (struct program){.n = 0};
    ins(p, "MOV_mv_ss2scl", "d", R(0));
    nops(p, 7);
    ins(p, "ADD_add_r_ri", "dai", R(0), R(0), value);
    ins(p, "MOV_mv_scl2ms", "a", R(0));
    jump(p, 0);
    b->cdo.n = 0;
    txn_begin(&b->txn);
    column_routes(b, 0);
    circuit(&b->cdo, 0, 2, 5, 0); // South0 to the core
    circuit(&b->cdo, 0, 2, 0, 5); // the core to South0
    load_core(&b->cdo, 0, 2, p);
    enable_core(&b->cdo, 0, 2);
}

static void expect_added(const struct bench * b, uint32_t first, uint32_t value) {
    for (uint32_t i = 0; i < 50; i++) {
        assert_int_equal(b->host[OUT][first + i], pattern(A, i) + value);
    }
}

static void programs_take_turns(void ** state) {
    struct bench * b = *state;
    struct program p;
    for (int turn = 0; turn < 6; turn++) {
        adding_core(b, &p, 3 + turn % 2);
        in_and_out(b, 0, 50, 50);
        run_ok(b);
        expect_added(b, 0, 3 + (uint32_t) turn % 2);
    }
    struct emu_counters c;
    emu_machine_counters(b->machine, &c);
    assert_int_equal(c.pdi_loads, 6);
}

// The instruction stream rewrites the words of the addition: of a core that it stops and starts
// over, or of one that goes on and waits for words meanwhile. The PDI, when it comes back, brings
// its own program.
static void program_written_by_the_stream(void ** state) {
    struct bench * b = *state;
    enum { AT = 8 * 4 }; // word of the addition
    for (int turn = 0; turn < 4; turn++) {
        bool stops = turn % 2;
        struct program first, second;
        adding_core(b, &second, 9);
        adding_core(b, &first, 5);
        struct shim_desc in = {.length = 50, .operand = A};
        struct shim_desc out = {.length = 50, .operand = OUT, .token = true};
        txn_transfer(&b->txn, 0, true, 0, 0, &in);
        txn_transfer(&b->txn, 0, false, 0, 1, &out);
        txn_sync(&b->txn, 0, false, 0);
        if (stops) {
            txn_mask_write(&b->txn, REG(0, 2, 0x32000), 0, 1);
        }
        for (uint32_t i = AT; i < AT + 4; i++) {
            if (turn < 2) {
                txn_write(&b->txn, REG(0, 2, 0x20000 + 4 * i), second.words[i]);
            } else {
                txn_mask_write(&b->txn, REG(0, 2, 0x20000 + 4 * i), second.words[i],
                               first.words[i] ^ second.words[i]);
            }
        }
        if (stops) {
            txn_mask_write(&b->txn, REG(0, 2, 0x32000), 2, 2);
            txn_mask_write(&b->txn, REG(0, 2, 0x32000), 0, 2);
            txn_mask_write(&b->txn, REG(0, 2, 0x32000), 1, 1);
        }
        out.offset = 4 * 100;
        txn_transfer(&b->txn, 0, true, 0, 0, &in);
        txn_transfer(&b->txn, 0, false, 0, 1, &out);
        txn_sync(&b->txn, 0, false, 0);
        memset(b->host[OUT], 0, HOST_WORDS * 4);
        run_ok(b);
        expect_added(b, 0, 5);
        expect_added(b, 100, 9);
        struct program other; // so that the PDI is not resident in the next turn
        adding_core(b, &other, 7);
        in_and_out(b, 0, 50, 50);
        run_ok(b);
        expect_added(b, 0, 7);
    }
}

// A core leaves marks in its own memory and in those around it; the next PDI finds zeros there.
static void stores_do_not_outlive_a_pdi(void ** state) {
    struct bench * b = *state;
    static const struct {
        int window, col, row;
    } reach[] = {{0x40000, 1, 2}, {0x50000, 0, 3}, {0x60000, 1, 4}, {0x70000, 1, 3}};
    enum { AT = 0xfff0 }; // the last 16 bytes
    for (int marked = 0; marked < 4; marked++) {
        struct program p = {.n = 0};
        ins(&p, "MOVX_alu_cg", "di", R(0), 99);
        ins(&p, "MOVXM_lng_cg", "di", P(0), reach[marked].window + AT);
        nops(&p, 2);
        ins(&p, "ST_dms_sts_idx_imm", "api", R(0), P(0), 0);
        nops(&p, 8);
        ins(&p, "DONE", "");
        for (int turn = 0; turn < 2; turn++) { // with the core, and without it
            b->cdo.n = 0;
            txn_begin(&b->txn);
            load_core(&b->cdo, 1, 3, &p);
            if (turn == 0) {
                enable_core(&b->cdo, 1, 3);
            }
            int col = reach[marked].col;
            column_routes(b, col);
            for (int row = 2; row < reach[marked].row; row++) {
                circuit(&b->cdo, col, row, 15, 5); // North0 to South0
            }
            circuit(&b->cdo, col, reach[marked].row, 1, 5); // DMA0 to South0
            struct bd_desc out = {.length = 4, .address = AT / 4, .next = 1 + 0};
            core_bd(&b->cdo, col, reach[marked].row, 0, &out);
            struct shim_desc to = {.length = 1024, .operand = OUT, .token = true};
            push_task(&b->cdo, col, reach[marked].row, true, 0, 0);
            txn_transfer(&b->txn, col, false, 0, 1, &to);
            txn_sync(&b->txn, col, false, 0);
            run_ok(b);
            assert_int_equal(b->host[OUT][1020], turn == 0 ? 99 : 0);
        }
    }
}

static void one_core(struct bench * b, const struct program * p) {
    b->cdo.n = 0;
    txn_begin(&b->txn);
    load_core(&b->cdo, 0, 2, p);
    enable_core(&b->cdo, 0, 2);
    txn_sync(&b->txn, 0, false, 0);
}

static void errors_name_the_core(void ** state) {
    struct bench * b = *state;
    struct program wait = {.n = 0};
    ins(&wait, "MOVX_alu_cg", "di", R(1), -2);
    ins(&wait, "ACQ_mLockId_imm", "ib", 48 + 3, R(1));
    one_core(b, &wait);
    expect_error(b, ST_DEVICE, "core (0,2) pc 0x10 acquires own lock 3 by -2, it is 0");

    struct program far = {.n = 0};
    ins(&far, "MOVXM_lng_cg", "di", P(0), 0x40000);
    ins(&far, "ST_dms_sts_idx_imm", "api", R(0), P(0), 0);
    nops(&far, 16);
    one_core(b, &far); // the memtile to the south is not a core's memory
    expect_error(b, ST_DEVICE, "core tile (0,2): ");

    struct program west = {.n = 0};
    ins(&west, "REL_mLockId_imm", "ib", 16, R(0));
    one_core(b, &west); // column 0 has no west
    expect_error(b, ST_DEVICE, "core tile (0,2): ");

    struct program over = {.n = 0};
    ins(&over, "MOVX_alu_cg", "di", R(1), 63);
    ins(&over, "REL_mLockId_imm", "ib", 48, R(1));
    ins(&over, "REL_mLockId_imm", "ib", 48, R(1));
    one_core(b, &over);
    expect_error(b, ST_DEVICE, "lock 0 of core tile (0,2) overflows: 63 plus 63");

    struct program wild = {.n = 0};
    ins(&wild, "MOVXM_lng_cg", "di", R(1), INT32_MIN);
    ins(&wild, "ACQ_mLockId_imm", "ib", 48, R(1));
    one_core(b, &wild);
    expect_error(b, ST_DEVICE, "core tile (0,2) pc 0x10 acquires lock 48 by -2147483648");

    struct program spin = {.n = 0};
    jump(&spin, 0);
    one_core(b, &spin);
    expect_error(b, ST_DEVICE, "more than 2000000 cycles");
}

// A store where there is no memory, after so many turns of ten cycles without a meeting.
static void late_fault(struct bench * b, int col, int turns) {
    struct program p = {.n = 0};
    ins(&p, "MOVXM_lng_cg", "di", P(0), 0x40000);
    ins(&p, "MOVXM_lng_cg", "di", AIE_REG(AIE_SPC, AIE_SPC_LS), 16 * 13);
    ins(&p, "MOVXM_lng_cg", "di", AIE_REG(AIE_SPC, AIE_SPC_LE), 16 * 22);
    ins(&p, "MOVXM_lng_cg", "di", AIE_REG(AIE_SPC, AIE_SPC_LC), turns);
    nops(&p, 9 + 10);
    ins(&p, "ST_dms_sts_idx_imm", "api", R(0), P(0), 0);
    nops(&p, 16);
    load_core(&b->cdo, col, 2, &p);
    enable_core(&b->cdo, col, 2);
}

// Of two cores that run ahead into a fault, the one that comes to it first is reported, when it
// does; on any number of threads.
static void first_fault_counts(void ** state) {
    struct bench * b = *state;
    uint64_t cycles[3] = {0};
    for (int i = 0; i < 3; i++) {
        struct emu_config config = {.arch = AIE_ARCH_AIE2,
                                    .columns = 4,
                                    .resolve = resolve,
                                    .user = b,
                                    .max_cycles = 2000000,
                                    .threads = 1 + i,
                                    .trace_col = -1,
                                    .trace_row = -1};
        struct emu_counters counters;
        emu_machine_free(b->machine);
        assert_int_equal(emu_machine_new(&config, &b->machine, &b->err), ST_OK);
        b->cdo.n = 0;
        txn_begin(&b->txn);
        late_fault(b, 0, 90);
        late_fault(b, 1, 80);
        txn_sync(&b->txn, 0, false, 0);
        expect_error(b, ST_DEVICE, "core tile (1,2): ");
        emu_machine_counters(b->machine, &counters);
        cycles[i] = counters.last_cycles;
        assert_int_equal(cycles[i], cycles[0]);
    }
    assert_true(cycles[0] >= 800 && cycles[0] < 900);
}

// ---- registers of the tile ----

// aie2p: a machine of its architecture, and a core that reaches for its tile's register at
// `offset`.
static void open_aie2p(struct bench * b) {
    struct emu_config config = bench_config(b);
    config.arch = AIE_ARCH_AIE2P;
    assert_true(bench_open(b, &config));
    b->txn.s.w[0] = 0x06040100; // generation 4
    program_arch = AIE_ARCH_AIE2P;
}

static void close_aie2p(struct bench * b) {
    program_arch = AIE_ARCH_AIE2;
    bench_close(b);
}

static void point_at(struct program * p, int n, uint32_t offset) {
    ins(p, "MOVXM", "di", P(n), (int) (0x80000 + offset));
}

// A core sets the length of a descriptor, as public designs do, and starts its own transfer.
static void a_core_starts_its_dma(void ** state) {
    (void) state;
    enum { WORDS = 40, BD = 3 };
    struct bench b = {0};
    struct program p = {.n = 0};
    struct bd_desc out = {.length = 0, .address = 0x100}; // words
    uint32_t data[WORDS];
    open_aie2p(&b);
    point_at(&p, 0, 0x1D000 + 0x20 * BD);
    point_at(&p, 1, 0x1DE14); // queue of MM2S0
    ins(&p, "LDA_TM_idx_imm", "dpi", R(0), P(0), 0);
    ins(&p, "MOVX_alu_cg", "di", R(1), WORDS);
    ins(&p, "MOVX_alu_cg", "di", R(2), BD);
    nops(&p, 5);
    ins(&p, "OR", "dab", R(0), R(0), R(1));
    ins(&p, "ST_TM_idx_imm", "api", R(0), P(0), 0);
    ins(&p, "ST_TM_pstm_nrm_imm", "api", R(2), P(1), 0);
    ins(&p, "DONE", "");
    for (uint32_t i = 0; i < WORDS; i++) {
        data[i] = 1000 + i;
    }
    column_routes(&b, 0);
    circuit(&b.cdo, 0, 2, 1, 5); // DMA0 to South0
    cdo_block(&b.cdo, REG(0, 2, 0x400), data, WORDS);
    core_bd(&b.cdo, 0, 2, BD, &out);
    load_core(&b.cdo, 0, 2, &p);
    enable_core(&b.cdo, 0, 2);
    struct shim_desc to_host = {.length = WORDS, .operand = OUT, .token = true};
    txn_transfer(&b.txn, 0, false, 0, 1, &to_host);
    txn_sync(&b.txn, 0, false, 0);
    run_ok(&b);
    assert_memory_equal(b.host[OUT], data, sizeof data);
    close_aie2p(&b);
}

static void what_a_core_may_not_reach(void ** state) {
    (void) state;
    static const struct {
        uint32_t offset;
        enum status status;
        const char * text;
    } rows[] = {
        {0x32000, ST_UNSUPPORTED, "reaches for its own core control"},
        {0x20010, ST_UNSUPPORTED, "reaches for its own program memory"},
        {0x340F8, ST_UNSUPPORTED, "register 0x340f8"},
        {0x1DE16, ST_DEVICE, "0x9de16 is no register of the tile"},
        {0xFFF80000 + 0x70000, ST_DEVICE, "0x70000 is no register of the tile"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bench b = {0};
        struct program p = {.n = 0};
        open_aie2p(&b);
        point_at(&p, 0, rows[i].offset);
        ins(&p, "ST_TM_idx_imm", "api", R(0), P(0), 0);
        ins(&p, "DONE", "");
        column_routes(&b, 0);
        load_core(&b.cdo, 0, 2, &p);
        enable_core(&b.cdo, 0, 2);
        struct shim_desc to_host = {.length = 1, .operand = OUT, .token = true};
        txn_transfer(&b.txn, 0, false, 0, 1, &to_host);
        txn_sync(&b.txn, 0, false, 0);
        expect_error(&b, rows[i].status, rows[i].text);
        close_aie2p(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_core_starts_its_dma),
        cmocka_unit_test(what_a_core_may_not_reach),
        TEST(streams),
        TEST(cascade_southwards),
        TEST(cascade_eastwards),
        TEST(neighbours),
        TEST(errors_name_the_core),
        TEST(first_fault_counts),
        TEST(programs_take_turns),
        TEST(program_written_by_the_stream),
        TEST(stores_do_not_outlive_a_pdi),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
