// Hot loops go by a plan (core-turns.h): what they do must be what their bundles do one by one.
// Loops of random instructions, with no thought of what they mean or when results land, run both
// ways; registers, memory, cycles, stalls and faults are compared at many moments.
#include "core-rig.h"

enum { PROGRAMS = 150, TURNS = 40, MAX_BUNDLES = 150, BUNDLE = 16, MENDS = 400 };

static uint64_t random_state;

static uint32_t random_below(uint32_t n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t) (random_state >> 20) % n;
}

// ---- random loops ----

// The instructions of inner loops, by the beginning of their text.
static const char * const usual[] = {"vlda ",  "vldb ", "vst ",   "vmac ",     "vmac.f ", "vmul ",
                                     "vmul.f", "vmac",  "vmov ",  "vshuffle ", "vadd",    "vsel",
                                     "vband",  "vst.",  "vldb.2", "vlda.2",    "padd",    "vconv"};

static bool begins(const char * text, const char * with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static bool takes_part(const struct aie_instr * in) {
    static const char * const others[] = {"done",     "event",    "mov.s",
                                          "vmov.cas", "st.tlast", "mov.ph"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (begins(in->text, others[i])) {
            return false;
        }
    }
    return !in->branches && !in->locks;
}

static int random_op(const struct aie_isa * isa) {
    const char * beginning =
        random_below(8) ? usual[random_below(sizeof usual / sizeof *usual)] : "";
    int n = aie_isa_count(isa), at = (int) random_below((uint32_t) n);
    for (int i = 0; i < n; i++) {
        int op = (at + i) % n;
        const struct aie_instr * in = aie_isa_instr(isa, op);
        if (begins(in->text, beginning) && takes_part(in)) {
            return op;
        }
    }
    return -1;
}

// An operand: few registers, so that they meet; no registers that steer the loop.
static bool random_value(const struct aie_isa * isa, int op, int k, uint32_t registers,
                         int32_t * out) {
    const struct aie_operand * o = &aie_isa_instr(isa, op)->operands[k];
    for (int tries = 0; tries < 300; tries++) {
        uint32_t one = random_below(o->is_imm ? 17 : AIE_REG_KIND_COUNT - 1);
        uint32_t two = random_below(o->is_imm ? 2 : registers);
        int32_t v =
            o->is_imm ? 32 * ((int32_t) one - 8) >> two * 5 : (int32_t) AIE_REG(1 + one, two);
        if ((o->is_imm || AIE_REG_KIND(v) != AIE_SPC) && aie_operand_fits(isa, op, k, v)) {
            *out = v;
            return true;
        }
    }
    return false;
}

static void random_bundle(const struct aie_isa * isa, uint32_t registers, struct aie_bundle * b) {
    *b = (struct aie_bundle){.size = BUNDLE};
    for (int i = (int) random_below(5); i > 0; i--) {
        int op = random_op(isa);
        const struct aie_instr * in = op < 0 ? NULL : aie_isa_instr(isa, op);
        if (in == NULL || b->present >> in->slot & 1) {
            continue;
        }
        struct aie_inst inst = {.op = (uint16_t) op};
        bool ok = true;
        for (int k = 0; ok && k < in->n_explicit; k++) {
            ok = random_value(isa, op, k, registers, &inst.values[k]);
        }
        struct aie_bundle more = *b;
        more.present |= (uint8_t) (1u << in->slot);
        more.slot[in->slot] = inst;
        uint8_t bytes[AIE_MAX_BUNDLE_BYTES];
        int size;
        if (ok && aie_bundle_encode(isa, &more, bytes, &size, NULL) == ST_OK) {
            *b = more;
        }
    }
}

// ---- two cores ----

struct pair {
    struct rig * rig[2]; // one by one, by a plan
    struct aie_bundle loop[MAX_BUNDLES];
    int n, first;       // the loop begins with `first`: something is in flight already
    uint32_t registers; // of each kind, so many are used
    uint64_t seed;
};

static void write_loop(struct pair * p, struct rig * r) {
    r->at = 0;
    for (int i = 0; i < p->n; i++) {
        uint8_t bytes[AIE_MAX_BUNDLE_BYTES];
        int size;
        assert_int_equal(aie_bundle_encode(r->isa, &p->loop[i], bytes, &size, NULL), ST_OK);
        assert_int_equal(size, BUNDLE);
        memcpy(core_program(r->core) + r->at, bytes, BUNDLE);
        r->at += BUNDLE;
    }
    core_program_changed(r->core, 0, CORE_PM_BYTES);
    nops(r, 20);
    emit_done(r);
}

// The state before the loop: ordinary bf16 numbers and configurations that are used, mostly.
static void begin(struct pair * p, struct rig * r) {
    static const uint32_t words[] = {0, 28, 60, 61, 0x318, 0x31c, 0x308, 2, 3, 29, 35, 8, 0x21a, 1};
    random_state = p->seed;
    core_enable(r->core, false, 0);
    core_reset(r->core);
    write_loop(p, r);
    for (uint32_t i = 0; i < 0x10000; i += 2) {
        uint32_t v = random_below(1 << 16);
        r->memory[i] = (uint8_t) v;
        r->memory[i + 1] = (uint8_t) (0x3c + (v >> 8 & 0x83));
    }
    for (int kind = 1; kind < AIE_REG_KIND_COUNT; kind++) {
        for (int n = 0; kind != AIE_SPC && n < 40; n++) {
            uint8_t bytes[256];
            memcpy(bytes, r->memory + 256 * random_below(256), 256);
            bool scalar = core_reg_get(r->core, AIE_REG(kind, n), (uint8_t[256]){0}) == 4;
            if (kind == AIE_P) {
                store_u32(bytes, RIG_BASE + 0x4000 + 0x400 * random_below(32));
            } else if (kind == AIE_R) {
                store_u32(bytes, words[random_below(sizeof words / sizeof *words)]);
            } else if (scalar) {
                store_u32(bytes, kind == AIE_CR ? 0 : 32 * random_below(4));
            }
            core_reg_set(r->core, AIE_REG(kind, n), bytes);
        }
    }
    set(r, LS, (uint32_t) p->first * BUNDLE);
    set(r, LE, (uint32_t) (p->n - 1) * BUNDLE);
    set(r, LC, TURNS);
    core_enable(r->core, true, 0);
}

static void start(struct pair * p, enum aie_arch arch, int bank_bit) {
    for (int i = 0; i < 2; i++) {
        p->rig[i] = rig_new_arch(
            arch, (struct core_env){.bank_bit = (uint8_t) bank_bit, .single = i == 0, .hot = 1});
        begin(p, p->rig[i]);
    }
}

static void end(struct pair * p) {
    rig_free(p->rig[0]);
    rig_free(p->rig[1]);
}

// The bundles that stop the core go, until the loop runs through, or nearly.
static void mend(struct pair * p, enum aie_arch arch, int bank_bit) {
    for (int i = 0; i < MENDS; i++) {
        struct rig * r =
            rig_new_arch(arch, (struct core_env){.bank_bit = (uint8_t) bank_bit, .single = true});
        begin(p, r);
        enum core_state got = core_run(r->core, UINT64_MAX, 1000000);
        unsigned pc = core_pc(r->core); // of one that waits for a stream
        if (got != CORE_DONE &&
            (got == CORE_BLOCKED || sscanf(core_fault(r->core), "core: pc 0x%x", &pc) == 1) &&
            (int) pc < p->n * BUNDLE) {
            struct aie_bundle * b = &p->loop[pc / BUNDLE];
            int slot = 0;
            while (b->present && !(b->present >> slot & 1)) {
                slot++;
            }
            b->present &= (uint8_t) ~(1u << slot);
        }
        rig_free(r);
        if (got == CORE_DONE) {
            return;
        }
    }
}

static void compare_registers(struct pair * p) {
    for (int kind = 1; kind < AIE_REG_KIND_COUNT; kind++) {
        for (int n = 0; n < 40; n++) {
            uint8_t bytes[2][256] = {{0}};
            for (int i = 0; i < 2; i++) {
                core_reg_get(p->rig[i]->core, AIE_REG(kind, n), bytes[i]);
            }
            if (memcmp(bytes[0], bytes[1], 256) != 0) {
                char name[AIE_REG_NAME_SIZE];
                fail_msg("seed %llu: %s differs at pc 0x%x", (unsigned long long) p->seed,
                         aie_reg_name(AIE_REG(kind, n), name), core_pc(p->rig[0]->core));
            }
        }
    }
}

static void compare(struct pair * p) {
    struct core *a = p->rig[0]->core, *b = p->rig[1]->core;
    uint32_t hits[2][CORE_BANKS];
    core_bank_hits(a, hits[0]);
    core_bank_hits(b, hits[1]);
    if (core_now(a) != core_now(b) || core_get_state(a) != core_get_state(b) ||
        core_pc(a) != core_pc(b) || core_bundles(a) != core_bundles(b) ||
        core_stall_cycles(a) != core_stall_cycles(b) ||
        core_bank_stalls(a) != core_bank_stalls(b) || core_stray_loads(a) != core_stray_loads(b) ||
        (core_get_state(a) == CORE_FAULT && strcmp(core_fault(a), core_fault(b)) != 0) ||
        memcmp(hits[0], hits[1], sizeof hits[0]) != 0) {
        fail_msg(
            "seed %llu: now %llu and %llu, state %d and %d, pc 0x%x and 0x%x, bundles %llu and "
            "%llu, stalls %llu and %llu: %s, %s",
            (unsigned long long) p->seed, (unsigned long long) core_now(a),
            (unsigned long long) core_now(b), core_get_state(a), core_get_state(b), core_pc(a),
            core_pc(b), (unsigned long long) core_bundles(a), (unsigned long long) core_bundles(b),
            (unsigned long long) core_stall_cycles(a), (unsigned long long) core_stall_cycles(b),
            core_fault(a), core_fault(b));
    }
    if (core_get_state(a) != CORE_FAULT) {
        assert_memory_equal(p->rig[0]->memory, p->rig[1]->memory, 0x10000);
        compare_registers(p);
    }
}

// Returns whether the loop ran to its end.
static bool run_both(struct pair * p) {
    enum core_state state = CORE_READY;
    while (state == CORE_READY) {
        uint64_t limit = core_now(p->rig[0]->core) + 1 + random_below(3000);
        for (int i = 0; i < 2; i++) {
            state = core_run(p->rig[i]->core, UINT64_MAX, limit);
        }
        compare(p);
    }
    return state == CORE_DONE;
}

static void run_arch(enum aie_arch arch, int bank_bit) {
    const struct aie_isa * isa = aie_isa_get(arch);
    int through = 0;
    for (int i = 0; i < PROGRAMS; i++) {
        struct pair p = {.seed = 0x9e3779b97f4a7c15u + 77u * (unsigned) i};
        random_state = p.seed;
        p.n = 1 + (int) random_below(i % 3 ? 40 : MAX_BUNDLES);
        p.first = (int) random_below((uint32_t) p.n < 12 ? (uint32_t) p.n : 12);
        p.registers = i % 2 ? 12 : 4;
        for (int k = 0; k < p.n; k++) {
            random_bundle(isa, p.registers, &p.loop[k]);
        }
        if (i % 8) { // the others stop somewhere
            mend(&p, arch, bank_bit);
        }
        start(&p, arch, bank_bit);
        run_both(&p);
        begin(&p, p.rig[0]); // now there is a plan from the first turn on
        begin(&p, p.rig[1]);
        through += run_both(&p);
        end(&p);
    }
    print_message("%d of %d loops ran to their end\n", through, PROGRAMS);
    assert_true(through >= PROGRAMS * 3 / 4);
}

static void random_loops_aie2(void ** state) {
    (void) state;
    run_arch(AIE_ARCH_AIE2, 4);
}

static void random_loops_aie2p(void ** state) {
    (void) state;
    run_arch(AIE_ARCH_AIE2P, 5);
}

static void random_loops_without_banks(void ** state) {
    (void) state;
    run_arch(AIE_ARCH_AIE2, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_loops_aie2),
                                       cmocka_unit_test(random_loops_aie2p),
                                       cmocka_unit_test(random_loops_without_banks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
