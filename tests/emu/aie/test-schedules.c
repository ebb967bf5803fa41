// test-schedules: random programs on the emulated core and on a scoreboard that shares nothing with
// its pipeline. The scoreboard knows when operands are read and results land from LLVM's
// itineraries (isa-facts.h), keeps registers and memory of its own, and asks for the result of one
// instruction by letting a second core execute it alone, with nothing before or behind it. Every
// register must hold the same in both, after every cycle.
//
// Programs take few registers, so that results meet sources at all distances: what is read too
// early, too late or past the register shows.
#include "emu/aie/isa-facts.h"
#include "emu/aie/operand-rig.h"

enum {
    PROGRAMS = 40 / OP_EVERY,
    LENGTH = 48,      // bundles
    TAIL = OP_CYCLES, // empty ones
    CYCLES = LENGTH + TAIL,
    INSTANCES = LENGTH * 6,
    MEMORY = 0x10000,
    FIRST_CONF = 8, // r8 to r15 are configurations, and are not written
    CONFS = 8,
};

// ---- the scoreboard ----

// An instruction in flight. `twin` does the same with registers that do not overlap, so that each
// operand can have a value of its own.
struct instance {
    struct aie_inst inst;
    struct op_scene twin;
    int issue;
    uint8_t * seen; // memory, when a load has looked at it
};

struct board {
    const struct aie_isa * isa;
    struct facts facts;
    struct rig * alone; // who says what one instruction does
    uint8_t unit[AIE_UNIT_COUNT][OP_UNIT_BYTES];
    uint8_t memory[MEMORY];
    struct instance list[INSTANCES];
    int n, cycle;
    int no_store_until; // one near a store of 8 or 16 bits is refused
    int last_store;
    bool failed; // values came together that no meaning is known for
};

static struct board board;
static uint8_t history[CYCLES + 1][AIE_UNIT_COUNT][OP_UNIT_BYTES];

static const struct fact * fact_of(const struct instance * i, int k) {
    return &board.facts.ops[i->inst.op][k];
}

static const struct aie_instr * instr_of(const struct instance * i) {
    return aie_isa_instr(board.isa, i->inst.op);
}

static int units_of(const struct instance * i, int k, uint8_t units[8]) {
    return aie_reg_units(aie_inst_reg(instr_of(i), &i->inst, k), units);
}

// The values of the twin's units that belong to operand k, in the order of units_of().
static int twin_units(const struct instance * i, int k, int at[8]) {
    uint8_t units[8];
    int n = aie_reg_units(aie_inst_reg(instr_of(i), &i->twin.inst, k), units);
    for (int u = 0; u < n; u++) {
        at[u] = op_unit_index((struct op_scene *) &i->twin, units[u]);
    }
    return n;
}

// Bypasses are of an operand and, for a few, of the half of the register that it names.
static int bypass_of(const struct instance * i, int k, bool def) {
    const struct aie_operand * o = &instr_of(i)->operands[k];
    uint8_t ours = def ? o->def_bypass : o->use_bypass;
    uint8_t told = def ? fact_of(i, k)->def_bypass : fact_of(i, k)->use_bypass;
    return ours == AIE_BYPASS_MOV_LOW ? aie_bypass_of(ours, aie_inst_reg(instr_of(i), &i->inst, k))
                                      : told;
}

// What the instruction does, alone, with the values of its twin; `memory` is what it finds and
// leaves. False: the core stops.
static bool execute(struct instance * i, const struct op_values * values, uint8_t * memory,
                    struct op_values * results) {
    struct rig * r = board.alone;
    bool touches = instr_of(i)->mem_cycle != 0;
    i->twin.rig = r;
    op_load(&i->twin);
    core_reset(r->core);
    core_enable(r->core, true, 0);
    set(r, LE, 0xffff0);
    for (int u = 0; u < i->twin.n_units; u++) {
        op_unit_access(r, i->twin.units[u], (uint8_t *) values->unit[u], true);
    }
    if (touches) {
        memcpy(r->memory, memory, MEMORY);
    }
    if (core_run(r->core, UINT64_MAX, core_now(r->core) + OP_CYCLES) != CORE_READY) {
        return false;
    }
    for (int u = 0; u < i->twin.n_units; u++) {
        op_unit_access(r, i->twin.units[u], results->unit[u], false);
    }
    if (touches) {
        memcpy(memory, r->memory, MEMORY);
    }
    return true;
}

// Status flags add up; a mov sets them.
static bool is_sticky(const struct instance * i, int k) {
    aie_reg reg = instr_of(i)->operands[k].fixed;
    return AIE_REG_KIND(reg) == AIE_SR && AIE_REG_NUM(reg) != AIE_SR_CARRY;
}

// The results of operand k as of now. A register that is only written begins with what the board
// has there: the instruction may leave it as it is, as abs does with the carry.
static void results_of(struct instance * i, int k, uint8_t out[8][OP_UNIT_BYTES]) {
    static struct op_values values, results;
    static uint8_t memory[MEMORY];
    const struct aie_operand * o = &instr_of(i)->operands[k];
    uint8_t units[8];
    int at[8], n = units_of(i, k, units);
    values = i->twin.first;
    twin_units(i, k, at);
    for (int u = 0; u < n; u++) {
        if (!(o->role & AIE_USE) && !o->part) {
            memcpy(values.unit[at[u]], board.unit[units[u]], OP_UNIT_BYTES);
        }
    }
    memcpy(memory, i->seen ? i->seen : board.memory, MEMORY);
    if (!execute(i, &values, memory, &results)) {
        board.failed = true;
        return;
    }
    for (int u = 0; u < n; u++) {
        memcpy(out[u], results.unit[at[u]], OP_UNIT_BYTES);
    }
}

// Results that are due become visible.
static void land(void) {
    static uint8_t next[AIE_UNIT_COUNT][OP_UNIT_BYTES];
    memcpy(next, board.unit, sizeof next);
    for (int j = 0; j < board.n; j++) {
        struct instance * i = &board.list[j];
        for (int k = 0; k < instr_of(i)->n_operands; k++) {
            uint8_t units[8], made[8][OP_UNIT_BYTES] = {{0}};
            if (!(instr_of(i)->operands[k].role & AIE_DEF) ||
                i->issue + fact_of(i, k)->def_cycle != board.cycle) {
                continue;
            }
            int n = units_of(i, k, units);
            results_of(i, k, made);
            for (int u = 0; u < n; u++) {
                uint32_t before = is_sticky(i, k) ? load_u32(next[units[u]]) : 0;
                memcpy(next[units[u]], made[u], OP_UNIT_BYTES);
                if (before) {
                    store_u32(next[units[u]], load_u32(made[u]) | before);
                }
            }
        }
    }
    memcpy(board.unit, next, sizeof next);
}

// Operand k of i, as it is read now: from the registers, and past them what lands in the next cycle
// with the same bypass.
static void capture(struct instance * i, int k) {
    uint8_t units[8];
    int at[8], n = units_of(i, k, units), bypass = bypass_of(i, k, false);
    twin_units(i, k, at);
    for (int u = 0; u < n; u++) {
        memcpy(i->twin.first.unit[at[u]], board.unit[units[u]], OP_UNIT_BYTES);
    }
    for (int j = 0; bypass && j < board.n; j++) {
        struct instance * by = &board.list[j];
        for (int d = 0; by != i && d < instr_of(by)->n_operands; d++) {
            uint8_t landing[8], made[8][OP_UNIT_BYTES] = {{0}};
            if (!(instr_of(by)->operands[d].role & AIE_DEF) ||
                by->issue + fact_of(by, d)->def_cycle != board.cycle + 1 ||
                bypass_of(by, d, true) != bypass) {
                continue;
            }
            int m = units_of(by, d, landing);
            bool meets = false;
            for (int u = 0; u < n * m; u++) {
                meets |= landing[u % m] == units[u / m];
            }
            if (!meets) {
                continue;
            }
            results_of(by, d, made);
            for (int u = 0; u < n * m; u++) {
                if (landing[u % m] == units[u / m]) {
                    memcpy(i->twin.first.unit[at[u / m]], made[u % m], OP_UNIT_BYTES);
                }
            }
        }
    }
}

static void read_sources(void) {
    for (int j = 0; j < board.n; j++) {
        struct instance * i = &board.list[j];
        for (int k = 0; k < instr_of(i)->n_operands; k++) {
            const struct aie_operand * o = &instr_of(i)->operands[k];
            if (!o->is_imm && o->role & AIE_USE &&
                i->issue + fact_of(i, k)->use_cycle - 1 == board.cycle) {
                capture(i, k);
            }
        }
    }
}

// Loads look before stores write; a stage of E5 is the cycle of the issue.
static void touch_memory(void) {
    static struct op_values results;
    for (int stores = 0; stores < 2; stores++) {
        for (int j = 0; j < board.n; j++) {
            struct instance * i = &board.list[j];
            const struct aie_instr * in = instr_of(i);
            if (in->mem_cycle == 0 || in->stores != stores ||
                i->issue + in->mem_cycle - 5 != board.cycle) {
                continue;
            }
            if (stores) {
                board.failed |= !execute(i, &i->twin.first, board.memory, &results);
            } else {
                i->seen = malloc(MEMORY);
                assert_non_null(i->seen);
                memcpy(i->seen, board.memory, MEMORY);
            }
        }
    }
}

// ---- programs ----

static bool is_kind(int kind, const char * of) {
    static const uint8_t address[] = {AIE_P, AIE_M, AIE_DN, AIE_DJ, AIE_DC, AIE_S, AIE_CR, AIE_CRP};
    bool found = false;
    for (size_t i = 0; i < sizeof address; i++) {
        found |= *of == 'a' && kind == address[i];
    }
    return found;
}

// Whether another result lands in the same unit in the same cycle.
static bool lands_twice(const struct instance * i, int k) {
    uint8_t units[8], others[8];
    int n = units_of(i, k, units), due = i->issue + fact_of(i, k)->def_cycle;
    for (int j = 0; j <= board.n; j++) {
        const struct instance * by = &board.list[j];
        for (int d = 0; d < instr_of(by)->n_operands; d++) {
            if (!(instr_of(by)->operands[d].role & AIE_DEF) || (by == i && d == k) ||
                by->issue + fact_of(by, d)->def_cycle != due) {
                continue;
            }
            int m = units_of(by, d, others);
            for (int u = 0; u < n * m; u++) {
                if (units[u / m] == others[u % m] && !is_sticky(i, k)) {
                    return true;
                }
            }
        }
    }
    return false;
}

// Whether another store reaches memory in the same cycle, for which there is one port: which of two
// comes first nobody says.
static bool stores_twice(const struct instance * i) {
    bool found = false;
    for (int j = 0; j < board.n; j++) {
        const struct aie_instr * by = instr_of(&board.list[j]);
        found |=
            by->stores && board.list[j].issue + by->mem_cycle == i->issue + instr_of(i)->mem_cycle;
    }
    return found && instr_of(i)->stores;
}

// Registers of the twin: of the same kinds, each operand its own.
static bool make_twin(struct instance * i) {
    const struct aie_instr * in = instr_of(i);
    i->twin.instr = in;
    for (int tries = 0; tries < 60; tries++) {
        i->twin.inst = i->inst;
        for (int k = 0; k < in->n_explicit && tries; k++) {
            if (in->operands[k].is_imm) {
                continue;
            }
            int kind = AIE_REG_KIND(i->inst.values[k]);
            int32_t reg = AIE_REG(kind, (int) op_random(32));
            bool alike = kind != AIE_CR && kind != AIE_CRP && kind != AIE_SR && kind != AIE_SPC;
            if (!in->operands[k].is_imm && alike &&
                aie_operand_fits(board.isa, i->inst.op, k, reg)) {
                i->twin.inst.values[k] = reg;
            }
        }
        if (op_list_units(&i->twin)) {
            return true;
        }
    }
    return false;
}

// Few registers, so that they meet; the configuration of a product is one of those that are kept.
static void narrow(struct instance * i) {
    const struct aie_instr * in = instr_of(i);
    for (int k = 0; k < in->n_explicit; k++) {
        if (in->operands[k].is_imm) {
            continue;
        }
        int kind = AIE_REG_KIND(i->inst.values[k]);
        int32_t reg = AIE_REG(kind, (int) op_random(3));
        if (in->slot == AIE_SLOT_VEC && kind == AIE_R) {
            reg = R(FIRST_CONF + (int) op_random(CONFS));
        }
        if (op_random(8) && aie_operand_fits(board.isa, i->inst.op, k, reg)) {
            i->inst.values[k] = reg;
        }
    }
}

// Whether the instruction may be the next one: it meets nobody outside, writes nothing that the
// rest lives by, and comes to an end with what the registers hold now.
static bool acceptable(struct instance * i) {
    static struct op_values values, results;
    static uint8_t memory[MEMORY];
    const struct aie_instr * in = instr_of(i);
    const char * text = in->text;
    if (!board.facts.known[i->inst.op] || in->branches || in->locks || in->n_operands == 0 ||
        strstr(text, "scd") || strstr(text, "mcd") || strstr(text, " ms") || strstr(text, ", ss") ||
        strstr(text, "cntr") || strstr(text, ".tm") || stores_twice(i) ||
        (in->stores && board.cycle <= board.no_store_until) ||
        (in->stores && in->loads && board.cycle == board.last_store)) {
        return false;
    }
    bool address = in->mem_cycle != 0 || strncmp(in->name, "PADD", 4) == 0;
    for (int k = 0; k < in->n_operands; k++) {
        aie_reg reg = aie_inst_reg(in, &i->inst, k);
        int kind = AIE_REG_KIND(reg), n = AIE_REG_NUM(reg);
        uint8_t units[8];
        if (!(in->operands[k].role & AIE_DEF)) {
            continue;
        }
        for (int u = units_of(i, k, units) - 1; u >= 0; u--) {
            if (units[u] >= AIE_UNIT_R + FIRST_CONF && units[u] < AIE_UNIT_R + FIRST_CONF + CONFS) {
                return false;
            }
        }
        if ((kind == AIE_SPC && n != AIE_SPC_LR) || lands_twice(i, k) ||
            (is_kind(kind, "address") && !(address && k) && op_random(8))) {
            return false;
        }
    }
    if (!make_twin(i)) {
        return false;
    }
    for (int k = 0; k < in->n_operands; k++) {
        uint8_t units[8];
        int at[8], n = in->operands[k].is_imm ? 0 : units_of(i, k, units);
        n = n ? twin_units(i, k, at) : 0;
        for (int u = 0; u < n; u++) {
            memcpy(i->twin.first.unit[at[u]], board.unit[units[u]], OP_UNIT_BYTES);
        }
    }
    values = i->twin.first;
    memcpy(memory, board.memory, MEMORY);
    return execute(i, &values, memory, &results);
}

// Some instruction, each mnemonic as often as any other: there are many forms of loads.
static int draw_op(void) {
    for (;;) {
        int n = aie_isa_count(board.isa), op = (int) op_random((uint32_t) n), alike = 0;
        const char * text = aie_isa_instr(board.isa, op)->text;
        size_t word = strcspn(text, " ") + 1;
        for (int i = 0; i < n; i++) {
            alike += strncmp(aie_isa_instr(board.isa, i)->text, text, word) == 0;
        }
        if (op_random((uint32_t) alike) == 0) {
            return op;
        }
    }
}

// The bundle of this cycle; returns its instructions.
static int draw_bundle(struct aie_inst * insts) {
    int n = 0, wanted = 1 + (int) op_random(4);
    unsigned slots = 0;
    for (int tries = 0; tries < 60 && n < wanted && board.n < INSTANCES - 1; tries++) {
        struct instance * i = &board.list[board.n];
        struct op_scene any;
        int op = draw_op();
        const struct aie_instr * in = aie_isa_instr(board.isa, op);
        unsigned pair = 1u << AIE_SLOT_ALU | 1u << AIE_SLOT_MV;
        unsigned taken = in->slot == AIE_SLOT_LNG ? pair | 1u << AIE_SLOT_LNG
                         : 1u << in->slot & pair  ? 1u << in->slot | 1u << AIE_SLOT_LNG
                                                  : 1u << in->slot;
        any.word = 0;
        if (in->slot == AIE_SLOT_NOP || slots & 1u << in->slot ||
            !op_any_word(&any, board.isa, op)) {
            continue;
        }
        memset(i, 0, sizeof *i);
        i->inst = any.inst;
        i->issue = board.cycle;
        narrow(i);
        if (acceptable(i)) {
            slots |= taken;
            insts[n++] = i->inst;
            board.n++;
            board.last_store = in->stores ? board.cycle : board.last_store;
            board.no_store_until = in->stores && in->loads ? board.cycle + 8 : board.no_store_until;
        }
    }
    return n;
}

static void begin_board(enum aie_arch arch) {
    static const uint32_t confs[CONFS] = {0x03c, 0x30c, 0x308, 0x31a, 0x35a, 0x01c, 0x000, 0x338};
    struct op_scene any = {.instr = aie_isa_instr(board.isa, 0)};
    board.n = board.cycle = 0;
    board.no_store_until = board.last_store = -1;
    board.failed = false;
    for (int unit = 0; unit < AIE_UNIT_COUNT; unit++) {
        memset(board.unit[unit], 0, OP_UNIT_BYTES);
        int f = op_file(unit);
        bool aie2p_only = unit >= AIE_UNIT_CRP;
        bool missing = arch == AIE_ARCH_AIE2 ? aie2p_only : op_files[f].kind == AIE_AM;
        if (!missing && op_files[f].kind != AIE_SR && op_files[f].kind != AIE_SPC) {
            op_any_value(&any, unit, board.unit[unit]);
            memset(board.unit[unit] + op_files[f].size, 0, OP_UNIT_BYTES - op_files[f].size);
        }
    }
    for (int i = 0; i < CONFS; i++) {
        store_u32(board.unit[AIE_UNIT_R + FIRST_CONF + i], confs[i]);
    }
    for (int i = 24; i < 27; i++) {
        store_u32(board.unit[AIE_UNIT_R + i], 0);
    }
    store_u32(board.unit[AIE_UNIT_SPC + AIE_SPC_LE], 0xffff0); // no loop
    store_u32(board.unit[AIE_UNIT_SPC + AIE_SPC_SP], RIG_BASE + 0xf000);
    for (int i = 0; i < MEMORY; i++) {
        board.memory[i] = (uint8_t) op_random(256);
    }
}

static bool has_unit(enum aie_arch arch, int unit) {
    int kind = op_files[op_file(unit)].kind;
    return arch == AIE_ARCH_AIE2 ? unit < AIE_UNIT_CRP : kind != AIE_AM;
}

static void print_program(void) {
    for (int j = 0; j < board.n; j++) {
        struct buf b = {0};
        aie_inst_print(board.isa, &board.list[j].inst, &b);
        print_message("%3d  %.*s\n", board.list[j].issue, (int) b.size, (char *) b.data);
        buf_free(&b);
    }
}

// One program: made and played on the board, then executed. False: values met that no meaning is
// known for, and it says nothing.
static bool one_program(enum aie_arch arch, int number) {
    struct rig * r = rig_new_arch(arch, (struct core_env){.single = true});
    begin_board(arch);
    memcpy(r->memory, board.memory, MEMORY);
    for (int unit = 0; unit < AIE_UNIT_COUNT; unit++) {
        if (has_unit(arch, unit)) {
            op_unit_access(r, unit, board.unit[unit], true);
            op_unit_access(r, unit, board.unit[unit], false); // as many bits as it has
        }
    }
    for (; board.cycle < CYCLES && !board.failed; board.cycle++) {
        struct aie_inst insts[AIE_SLOT_COUNT];
        land();
        memcpy(history[board.cycle], board.unit, sizeof board.unit);
        int n = board.cycle < LENGTH ? draw_bundle(insts) : 0;
        emit_n(r, n, insts);
        read_sources();
        touch_memory();
    }
    bool tells = !board.failed;
    core_enable(r->core, true, 0);
    for (int cycle = 0; cycle < CYCLES && tells; cycle++) {
        for (int unit = 0; unit < AIE_UNIT_COUNT; unit++) {
            uint8_t got[OP_UNIT_BYTES];
            char name[AIE_REG_NAME_SIZE];
            int f = op_file(unit);
            if (!has_unit(arch, unit)) {
                continue;
            }
            op_unit_access(r, unit, got, false);
            if (memcmp(got, history[cycle][unit], op_files[f].size)) {
                print_program();
                aie_reg reg = AIE_REG(op_files[f].kind, unit - op_files[f].first);
                fail_msg("program %d: %s at cycle %d: the core has %08x, the board %08x", number,
                         aie_reg_name(reg, name), cycle, load_u32(got),
                         load_u32(history[cycle][unit]));
            }
        }
        enum core_state state = core_run(r->core, UINT64_MAX, core_now(r->core));
        if (state != CORE_READY) {
            fail_msg("program %d: %s", number, core_fault(r->core));
        }
    }
    if (tells && memcmp(r->memory, board.memory, MEMORY)) {
        int at = 0;
        while (r->memory[at] == board.memory[at]) {
            at++;
        }
        print_program();
        fail_msg("program %d: memory at 0x%05x: the core has %02x, the board %02x", number,
                 RIG_BASE + at, r->memory[at], board.memory[at]);
    }
    for (int j = 0; j < board.n; j++) {
        free(board.list[j].seen);
    }
    rig_free(r);
    return tells;
}

static void programs(enum aie_arch arch) {
    int told = 0, instructions = 0;
    board.facts = facts_read(arch);
    board.isa = aie_isa_get(arch);
    struct op_scene s;
    op_begin(&s, arch, 4711);
    board.alone = s.rig;
    for (int i = 0; i < PROGRAMS; i++) {
        bool tells = one_program(arch, i);
        told += tells;
        instructions += tells ? board.n : 0;
    }
    print_message("%d programs of %d tell something, with %d instructions\n", told, PROGRAMS,
                  instructions);
    assert_true(told > PROGRAMS / 2);
    facts_free(&board.facts);
    rig_free(board.alone);
}

// ---- the table itself ----

static void table_and_facts_agree(enum aie_arch arch) {
    const struct aie_isa * isa = aie_isa_get(arch);
    struct facts facts = facts_read(arch);
    int checked = 0;
    for (int op = 0; op < aie_isa_count(isa); op++) {
        const struct aie_instr * in = aie_isa_instr(isa, op);
        for (int k = 0; facts.known[op] && k < in->n_operands; k++) {
            const struct aie_operand * o = &in->operands[k];
            const struct fact * f = &facts.ops[op][k];
            if (o->is_imm) {
                continue;
            }
            if (o->def_cycle != f->def_cycle || o->use_cycle != f->use_cycle) {
                fail_msg("%s, operand %d: written in E%d, read in E%d; LLVM has E%d, E%d", in->name,
                         k, o->def_cycle, o->use_cycle, f->def_cycle, f->use_cycle);
            }
            checked++;
        }
    }
    print_message("%d operands\n", checked);
    assert_true(checked > 2000);
    facts_free(&facts);
}

static void table_of_aie2(void ** state) {
    (void) state;
    table_and_facts_agree(AIE_ARCH_AIE2);
}

static void table_of_aie2p(void ** state) {
    (void) state;
    table_and_facts_agree(AIE_ARCH_AIE2P);
}

static void programs_of_aie2(void ** state) {
    (void) state;
    programs(AIE_ARCH_AIE2);
}

static void programs_of_aie2p(void ** state) {
    (void) state;
    programs(AIE_ARCH_AIE2P);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_of_aie2),
        cmocka_unit_test(table_of_aie2p),
        cmocka_unit_test(programs_of_aie2),
        cmocka_unit_test(programs_of_aie2p),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
