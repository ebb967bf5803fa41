// test-core-aie2p: what the designs of test-golden-aie2p cannot show of the aie2p core, numbers
// apart (test-numbers-aie2p): lookups, registers and fifos, one rule at a time; and that an
// instruction without evidence stops the core by name and with a reason, all others being known.
#include "emu/aie/aie2p-rig.h"

// ---- the table of evidence ----

// Their function is known and emulated, their bits are not: nothing that we make may use them.
static bool only_roughly(const char * name) {
    return strcmp(name, "INV_mRx") == 0 || strcmp(name, "SQRT_mRx") == 0 ||
           strcmp(name, "INVSQRT_mRx") == 0 || strcmp(name, "VTANH") == 0;
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
        bool tile = strstr(instr->text, ".tm") != NULL;
        for (int i = 0; i < 8; i++) {
            set(r, P(i), tile ? 0x80000 + RIG_TILE + 64 : RIG_BASE + 0x4000);
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
        if (refused) { // by its name, and for a reason of its own
            assert_non_null(strstr(core_fault(r->core), instr->name));
            if (strstr(core_fault(r->core), "with these operands")) {
                fail_msg("%s is refused, and no reason is given", instr->name);
            }
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

// ---- lookup ----

enum { ENTRIES = 64, TABLE = 0x2000 };

// One lookup in tables as AMD's guide lays them out, the values of 128 bits (aie2p: of 256) twice
// in a row, with offsets as its library makes them: index times twice the size of a value. The
// second table is for lanes 2 and 3.
static void look_up(enum aie_arch arch, const char * name, uint32_t size, uint32_t half) {
    struct rig * r = rig_new_arch(arch, (struct core_env){.strict = true});
    uint32_t copy = arch == AIE_ARCH_AIE2 ? 16 : 32, index[4];
    uint8_t entries[2][ENTRIES * 8], addresses[32] = {0}, got[32];
    for (uint32_t t = 0; t < 2; t++) {
        for (uint32_t at = 0; at < ENTRIES * size; at++) {
            uint32_t to = t * TABLE + at / copy * 2 * copy + at % copy;
            entries[t][at] = (uint8_t) (at * 37 + at / 99 + t);
            r->memory[to] = r->memory[to + copy] = entries[t][at];
        }
    }
    for (uint32_t k = 0; k < 4; k++) {
        index[k] = (13 * k + 5 * size + 29 * half) % ENTRIES;
        store_u32(addresses + 16 * half + 4 * k, RIG_BASE + k / 2 * TABLE + index[k] * 2 * size);
    }
    assert_int_equal(core_reg_set(r->core, W(2), addresses), 32);
    EMIT(r, ins(r, name, "da", W(0), W(2)));
    run(r);
    assert_int_equal(core_reg_get(r->core, W(0), got), 32);
    for (uint32_t k = 0; k < 4; k++) {
        assert_memory_equal(got + 8 * k, entries[k / 2] + size * index[k], size);
    }
    rig_free(r);
}

static void lookup_in_tables(void ** state) {
    (void) state;
    static const struct {
        const char *aie2, *aie2p;
        uint32_t size, half;
    } rows[] = {
        {"VLDB_4x16_LO", "VLDB_4x16_lo", 2, 0}, {"VLDB_4x16_HI", "VLDB_4x16_hi", 2, 1},
        {"VLDB_4x32_LO", "VLDB_4x32_lo", 4, 0}, {"VLDB_4x32_HI", "VLDB_4x32_hi", 4, 1},
        {"VLDB_4x64_LO", "VLDB_4x64_lo", 8, 0}, {"VLDB_4x64_HI", "VLDB_4x64_hi", 8, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        look_up(AIE_ARCH_AIE2, rows[i].aie2, rows[i].size, rows[i].half);
        look_up(AIE_ARCH_AIE2P, rows[i].aie2p, rows[i].size, rows[i].half);
    }
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
        cmocka_unit_test(lookup_in_tables),
        cmocka_unit_test(masks_go_to_r16),
        cmocka_unit_test(both_exponents_land_together),
        cmocka_unit_test(scalar_macs_in_a_row),
        cmocka_unit_test(blocks_of_72_bytes),
        cmocka_unit_test(store_fifo),
        cmocka_unit_test(an_impossible_level_stops_the_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
