// test-operand-cycles: the emulated core against the ISA table, operand by operand. For every
// instruction of both architectures that the core executes, each source changes at distances 1 to
// 12 from the issue: before the cycle in which the table has it read the change is seen, and not
// afterwards. Each result is there in the cycle that the table says, and memory is written in its
// own.
//
// What cannot be seen, because nothing that the emulator does depends on it or changes it, is
// listed here; it may be nothing else, and the list may not be too long either.
#include "emu/aie/operand-rig.h"

enum { WORDS = 2 * OP_CONFIGURATIONS, WORLDS = 40 * WORDS, DISTANCES = 12 };

static struct op_scene scene;
static struct op_outcome before, after, mixed;

// ---- what cannot be seen ----

// `instr` may end with '*'; `reg` is the name of a fixed register, or "" for operand 0.
static const struct blind {
    const char *instr, *reg;
    bool read;
    const char * why;
} blinds[] = {
    {"*", "crfpmask", true, "flags of the float unit are not kept"},
    {"*", "srfpflags", false, "flags of the float unit are not kept"},
    {"*", "crf2fmask", true, "flags of conversions between floats are not kept"},
    {"*", "srf2fflags", false, "flags of conversions between floats are not kept"},
    {"*", "crf2bmask", true, "flags of conversions to blocks are not kept"},
    {"*", "srf2bflags", false, "flags of conversions to blocks are not kept"},
    {"*", "crf2imask", true, "flags of conversions to integers are not masked"},
    {"*", "crfpnlfmask", true, "flags of inv and the roots are not kept"},
    {"*", "srfpnlf", false, "flags of inv and the roots are not kept"},
    {"*", "crscden", true, "the cascade is always switched on"},
    {"*", "crmcden", true, "the cascade is always switched on"},
    {"*", "srfifo_of", false, "a fifo that runs over stops the core"},
    {"*", "srfifo_uf", false, "a fifo that runs empty stops the core"},
    {"MOV_st_mMStream_*", "srms0", false, "a blocking write has nothing to tell"},
    {"MOV_tlast", "srms0", false, "a blocking write has nothing to tell"},
    {"ABS", "srcarry", false, "no carry of it is known"},
    {"VEXTRACT_D32", "crvaddsign", true, "a whole register has no sign to extend"},
    {"VEXTRACT_D64", "crvaddsign", true, "a whole register has no sign to extend"},
    {"VEXTRACT_32_*", "vaddsign0", true, "a whole register has no sign to extend"},
    {"VEXTRACT_32_*", "vaddsign1", true, "a whole register has no sign to extend"},
    {"VEXTRACT_64_*", "vaddsign0", true, "a whole register has no sign to extend"},
    {"VEXTRACT_64_*", "vaddsign1", true, "a whole register has no sign to extend"},
    {"VLDA_FILL_512", "", false, "the pointer stays where it is"},
    {"VLDB_FILL_512", "", false, "the pointer stays where it is"},
    {"VST_FLUSH_512*", "p2", false, "the pointer stays where it is"},
    {"VST_PUSH_512", "r26", false, "as much goes as comes"},
};
enum { BLINDS = sizeof blinds / sizeof blinds[0] };

static bool begins_so(const char * name, const char * pattern) {
    size_t n = strcspn(pattern, "*");
    return strncmp(name, pattern, n) == 0 && (pattern[n] == '*' || name[n] == 0);
}

static int blind_of(const struct aie_instr * in, int k, bool read) {
    char name[AIE_REG_NAME_SIZE] = "";
    if (k >= in->n_explicit && !in->operands[k].part) {
        aie_reg_name(in->operands[k].fixed, name);
    }
    for (int i = 0; i < BLINDS; i++) {
        if (blinds[i].read == read && strcmp(blinds[i].reg, name) == 0 && (*name || k == 0) &&
            begins_so(in->name, blinds[i].instr)) {
            return i;
        }
    }
    return -1;
}

// ---- runs ----

static const char * operand_text(int k) {
    static char text[64];
    char name[AIE_REG_NAME_SIZE];
    aie_reg_name(aie_inst_reg(scene.instr, &scene.inst, k), name);
    snprintf(text, sizeof text, "operand %d (%s)", k, name);
    return text;
}

// Another world, and now and then another word, in which the instruction comes to an end.
static bool next_world(const struct aie_isa * isa, int op, int world) {
    if (world % (WORLDS / WORDS) == 0) {
        if (!op_any_word(&scene, isa, op)) {
            fail_msg("no word decodes to %s", aie_isa_instr(isa, op)->name);
        }
        op_load(&scene);
    }
    op_draw(&scene, &scene.first);
    return op_play(&scene, NULL, 0, 0, &before);
}

// Whether the operand is read in its cycle and in no other; false: no two values of it make a
// difference.
static bool read_is_seen(const struct aie_isa * isa, int op, int k, int worlds) {
    int cycle = aie_isa_instr(isa, op)->operands[k].use_cycle;
    struct op_values other;
    for (int world = 0; world < worlds; world++) {
        bool ends = next_world(isa, op, world);
        op_draw(&scene, &other);
        if (!ends || !op_play(&scene, &other, k, 0, &after) || op_same(&scene, &before, &after)) {
            continue;
        }
        for (int at = 1; at <= DISTANCES; at++) {
            bool seen = at <= cycle - 1;
            if (!op_play(&scene, &other, k, at, &mixed)) {
                fail_msg("%s: %s", scene.instr->name, core_fault(scene.rig->core));
            }
            if (!op_same(&scene, &mixed, seen ? &after : &before)) {
                fail_msg("%s: %s is read in E%d, but a change %d cycles after the issue is %s",
                         scene.instr->name, operand_text(k), cycle, at, seen ? "not seen" : "seen");
            }
        }
        return true;
    }
    return false;
}

// Whether the result comes in its cycle and in no other; false: no run has changed it.
static bool result_is_seen(const struct aie_isa * isa, int op, int k, int worlds) {
    int cycle = aie_isa_instr(isa, op)->operands[k].def_cycle;
    for (int world = 0; world < worlds; world++) {
        bool found = false, ends = next_world(isa, op, world);
        for (int i = 0; ends && i < scene.n_units; i++) {
            if (!(scene.of[k] >> i & 1)) {
                continue;
            }
            for (int c = 1; c <= scene.cycles; c++) {
                bool comes = memcmp(before.unit[c][i], before.unit[c - 1][i], OP_UNIT_BYTES) != 0;
                if (comes && c != cycle) {
                    fail_msg("%s: %s is there after E%d, not after E%d", scene.instr->name,
                             operand_text(k), c, cycle);
                }
                found |= comes;
            }
        }
        if (found) {
            return true;
        }
    }
    return false;
}

// Memory is written in its stage; E5 is the stage in which an access that is nothing but one is
// made with its bundle, as that to a register of the tile (E4) is.
static void store_is_in_time(const struct aie_isa * isa, int op) {
    int cycle = aie_isa_instr(isa, op)->mem_cycle, late = cycle > 5 ? cycle - 5 : 0;
    scene.watches = true;
    for (int world = 0, found = 0; !found; world++) {
        assert_true(world < WORLDS);
        if (!next_world(isa, op, world)) {
            continue;
        }
        for (int c = 1; c <= scene.cycles && !found; c++) {
            found = before.stored[c] ? c : 0;
        }
        if (found && found != 1 + late) {
            fail_msg("%s: memory is written %d cycles after the issue, not %d", scene.instr->name,
                     found - 1, late);
        }
    }
    scene.watches = false;
}

// ---- all of them ----

static bool refused(const struct aie_isa * isa, int op) {
    return !next_world(isa, op, 0) &&
           strstr(core_fault(scene.rig->core), "does not implement") != NULL;
}

static void all_operands(enum aie_arch arch, bool met[BLINDS]) {
    const struct aie_isa * isa = aie_isa_get(arch);
    int instructions = 0, late[2] = {0}, checked[2] = {0}, not_seen = 0;
    op_begin(&scene, arch, 31);
    for (int op = 0; op < aie_isa_count(isa); op += OP_EVERY) {
        const struct aie_instr * in = aie_isa_instr(isa, op);
        if (in->slot == AIE_SLOT_NOP || op == aie_isa_nop(isa, in->slot) ||
            strcmp(in->name, "DONE") == 0 || refused(isa, op)) {
            continue;
        }
        instructions++;
        for (int k = 0; k < in->n_operands; k++) {
            for (int read = 0; read < 2; read++) {
                const struct aie_operand * o = &in->operands[k];
                if (o->is_imm || !(o->role & (read ? AIE_USE : AIE_DEF))) {
                    continue;
                }
                int blind = blind_of(in, k, read), worlds = blind < 0 ? WORLDS : WORLDS / 16;
                bool seen =
                    read ? read_is_seen(isa, op, k, worlds) : result_is_seen(isa, op, k, worlds);
                if (seen != (blind < 0)) {
                    fail_msg("%s: %s of %s %s", in->name, read ? "a change" : "the result",
                             operand_text(k),
                             seen ? "is seen, and listed as if not" : "is not seen");
                }
                if (blind >= 0) {
                    met[blind] = true;
                    not_seen++;
                    continue;
                }
                checked[read]++;
                late[read] += (read ? o->use_cycle : o->def_cycle) > 1;
            }
        }
        if (in->stores) {
            store_is_in_time(isa, op);
        }
    }
    print_message("%s: %d instructions, %d sources (%d read later than E1), %d results (%d there "
                  "later than E1), %d that cannot be seen\n",
                  arch == AIE_ARCH_AIE2 ? "aie2" : "aie2p", instructions, checked[1], late[1],
                  checked[0], late[0], not_seen);
    assert_true(late[1] > 100 / OP_EVERY && late[0] > 300 / OP_EVERY);
    rig_free(scene.rig);
}

static void operands_go_by_the_table(void ** state) {
    (void) state;
    bool met[BLINDS] = {0};
    all_operands(AIE_ARCH_AIE2, met);
    all_operands(AIE_ARCH_AIE2P, met);
    for (int i = 0; i < BLINDS; i++) {
        if (!met[i] && OP_EVERY == 1) {
            fail_msg("no instruction needs the row %s, %s", blinds[i].instr, blinds[i].reg);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_go_by_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
