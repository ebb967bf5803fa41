// Loops whose trips overlap compute what the same instructions compute one by one. Random bodies
// (scalar and vector, loads, stores, values carried in registers and through memory) are compiled
// as a loop and run on the emulated core for trip counts from 1 on; beside it stands the same body
// with every instruction alone and everything landed before the next. Memory and the carried
// registers must agree to the last bit. Inputs end where memory ends, so that a load too many
// faults.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "aie/asm/asm.h"
#include "aie/isa/aie2.h"
#include "emu/aie/core.h"

enum { MAX_BODY = 96, MAX_TRIPS = 20, MEMORY = 65536, BASE = 0x70000, GAP = 12 };

// ---- bodies ----

// Globals by class, in the order in which they are made; the k-th of a class has the number top -
// k.
enum global {
    // clang-format off
    G_COUNT, G_CONFIG, G_SUM, G_A, G_B, G_OUT, G_SAME, G_BYTES, G_MOVED, G_POOL, G_ACC, G_TOTAL,
    GLOBALS
    // clang-format on
};

static const struct {
    enum asm_class cls;
    aie_reg reg;
} globals[GLOBALS] = {
    [G_COUNT] = {ASM_R, AIE_REG(AIE_R, 31)}, [G_CONFIG] = {ASM_R, AIE_REG(AIE_R, 30)},
    [G_SUM] = {ASM_R, AIE_REG(AIE_R, 29)},   [G_A] = {ASM_P, AIE_REG(AIE_P, 7)},
    [G_B] = {ASM_P, AIE_REG(AIE_P, 6)},      [G_OUT] = {ASM_P, AIE_REG(AIE_P, 5)},
    [G_SAME] = {ASM_P, AIE_REG(AIE_P, 4)},   [G_BYTES] = {ASM_P, AIE_REG(AIE_P, 3)},
    [G_MOVED] = {ASM_P, AIE_REG(AIE_P, 2)},  [G_POOL] = {ASM_P, AIE_REG(AIE_P, 1)},
    [G_ACC] = {ASM_BM, AIE_REG(AIE_BM, 17)}, [G_TOTAL] = {ASM_X, AIE_REG(AIE_X, 11)},
};

struct operand {
    enum { IMMEDIATE, GLOBAL, LOCAL } kind;
    int value; // immediate, enum global, or the number of a local within its class
    enum asm_class cls;
    int part; // -1 whole
};

struct instruction {
    int op, memory, n;
    struct operand args[5];
};

struct body {
    struct instruction code[MAX_BODY];
    int n;
    int made[ASM_CLASS_COUNT]; // locals so far
    int keep[ASM_CLASS_COUNT]; // how many of the last ones may be read
    int bytes_a, bytes_b, bytes_out, bytes_same, bytes_bytes; // per trip
    int step; // by which the pointer of indexed accesses moves at the end of a trip
};

#define IMM(v)     ((struct operand){IMMEDIATE, (v), 0, -1})
#define GLO(g)     ((struct operand){GLOBAL, (g), 0, -1})
#define LR(l)      ((struct operand){LOCAL, (l), ASM_R, -1})
#define LM(l)      ((struct operand){LOCAL, (l), ASM_MASK, -1})
#define LX(l)      ((struct operand){LOCAL, (l), ASM_X, -1})
#define LB(l)      ((struct operand){LOCAL, (l), ASM_BM, -1})
#define HALF(l, p) ((struct operand){LOCAL, (l), ASM_X, (p)})

static void put(struct body * b, int op, int memory, int n, const struct operand * args) {
    assert_true(b->n < MAX_BODY);
    struct instruction * i = &b->code[b->n++];
    *i = (struct instruction){.op = op, .memory = memory, .n = n};
    memcpy(i->args, args, (size_t) n * sizeof *args);
}
#define PUT(b, op, memory, ...)                                                                    \
    put((b), (op), (memory),                                                                       \
        (int) (sizeof((struct operand[]){__VA_ARGS__}) / sizeof(struct operand)),                  \
        (struct operand[]){__VA_ARGS__})

static int fresh(struct body * b, enum asm_class cls) {
    return b->made[cls]++;
}

// One of the last locals of the class.
static int recent(const struct body * b, enum asm_class cls) {
    int n = b->made[cls] < b->keep[cls] ? b->made[cls] : b->keep[cls];
    return b->made[cls] - 1 - rand() % n;
}

static void load_vector(struct body * b, enum global pointer, int * bytes) {
    int x = fresh(b, ASM_X);
    for (int half = 0; half < 2; half++) {
        PUT(b, AIE2_VLDA_dmw_lda_w_ag_pstm_nrm_imm, pointer, HALF(x, half), GLO(pointer), IMM(32));
    }
    *bytes += 64;
}

static void load_scalar(struct body * b, enum global pointer, int * bytes) {
    PUT(b, AIE2_LDA_dms_lda_pstm_nrm_imm, pointer, LR(fresh(b, ASM_R)), GLO(pointer), IMM(32));
    *bytes += 32;
}

static void store_vector(struct body * b) {
    int x = recent(b, ASM_X);
    for (int half = 0; half < 2; half++) {
        PUT(b, AIE2_VST_dmw_sts_w_ag_pstm_nrm_imm, G_OUT, GLO(G_OUT), HALF(x, half), IMM(32));
    }
    b->bytes_out += 64;
}

static void store_scalar(struct body * b) {
    PUT(b, AIE2_ST_dms_sts_pstm_nrm_imm, G_OUT, GLO(G_OUT), LR(recent(b, ASM_R)), IMM(32));
    b->bytes_out += 32;
}

// The step before, read back from memory, and one more behind it.
static void carry_through_memory(struct body * b) {
    int x = fresh(b, ASM_X), sum = fresh(b, ASM_X);
    PUT(b, AIE2_VLDA_dmw_lda_w_ag_idx_imm, G_SAME, HALF(x, 0), GLO(G_SAME), IMM(-32));
    PUT(b, AIE2_VLDA_dmw_lda_w_ag_idx_imm, G_SAME, HALF(x, 1), GLO(G_SAME), IMM(-32));
    PUT(b, AIE2_VADD_32, 0, LX(sum), LX(x), LX(x));
    PUT(b, AIE2_VST_dmw_sts_w_ag_pstm_nrm_imm, G_SAME, GLO(G_SAME), HALF(sum, 0), IMM(32));
    b->bytes_same += 32;
}

// At an offset from a pointer that moves on once a trip: what one trip stores others load, some
// trips before or behind, or it lies apart.
static void access_moved(struct body * b) {
    int offset = 32 * (rand() % 7 - 3);
    if (rand() % 2) {
        int x = fresh(b, ASM_X);
        for (int half = 0; half < 2; half++) {
            PUT(b, AIE2_VLDA_dmw_lda_w_ag_idx_imm, G_MOVED, HALF(x, half), GLO(G_MOVED),
                IMM(offset));
        }
    } else {
        PUT(b, AIE2_VST_dmw_sts_w_ag_idx_imm, G_MOVED, HALF(recent(b, ASM_X), 0), GLO(G_MOVED),
            IMM(offset));
    }
}

// From far and wide around a pointer that stays where it is.
static void load_constant(struct body * b) {
    int x = fresh(b, ASM_X);
    for (int half = 0; half < 2; half++) {
        PUT(b, AIE2_VLDA_dmw_lda_w_ag_idx_imm, G_POOL, HALF(x, half), GLO(G_POOL),
            IMM(32 * (rand() % 64 - 32)));
    }
}

static void step_scalar(struct body * b) {
    static const int ops[4] = {AIE2_ADD, AIE2_SUB, AIE2_XOR, AIE2_MUL_mul_r_rr};
    int x = recent(b, ASM_R), y = recent(b, ASM_R), op = ops[rand() % 4];
    if (rand() % 5 == 0) {
        PUT(b, op, 0, GLO(G_SUM), GLO(G_SUM), LR(x));
    } else if (rand() % 5 == 0) {
        PUT(b, op, 0, LR(fresh(b, ASM_R)), GLO(G_SUM), LR(x));
    } else {
        PUT(b, op, 0, LR(fresh(b, ASM_R)), LR(x), LR(y));
    }
}

static void step_vector(struct body * b) {
    static const int ops[4] = {AIE2_VADD_32, AIE2_VSUB_32, AIE2_VBAND, AIE2_VBOR};
    int x = recent(b, ASM_X), y = recent(b, ASM_X);
    switch (rand() % 7) {
    case 0: { // to the float adder and back
        int p = fresh(b, ASM_BM), q = fresh(b, ASM_BM), s = fresh(b, ASM_BM);
        PUT(b, AIE2_VMOV_mv_x, 0, LB(p), LX(x));
        PUT(b, AIE2_VMOV_mv_x, 0, LB(q), LX(y));
        PUT(b, rand() % 2 ? AIE2_VADD_F : AIE2_VSUB_F, 0, LB(s), LB(p), LB(q), GLO(G_CONFIG));
        PUT(b, AIE2_VMOV_mv_x, 0, LX(fresh(b, ASM_X)), LB(s));
        break;
    }
    case 1: // an accumulator that is read late and written later
        if (b->made[ASM_BM] > 0) {
            PUT(b, AIE2_VADD_F, 0, GLO(G_ACC), GLO(G_ACC), LB(recent(b, ASM_BM)), GLO(G_CONFIG));
        }
        break;
    case 2: {
        int mask = fresh(b, ASM_MASK);
        PUT(b, AIE2_VGE_S32, 0, LM(mask), LX(x), LX(y));
        PUT(b, AIE2_VSEL_32, 0, LX(fresh(b, ASM_X)), LX(y), LX(x), LM(mask));
        break;
    }
    case 3:
        PUT(b, AIE2_VADD_32, 0, GLO(G_TOTAL), GLO(G_TOTAL), LX(x));
        break;
    case 4:
        PUT(b, AIE2_VBCST_32, 0, LX(fresh(b, ASM_X)), GLO(G_SUM));
        break;
    default:
        PUT(b, ops[rand() % 4], 0, LX(fresh(b, ASM_X)), LX(x), LX(y));
        break;
    }
}

static void random_body(struct body * b, int steps, bool vectors) {
    static const int moves[] = {32, 64, 96, 128, 256, -32};
    b->step = moves[rand() % 6];
    load_scalar(b, G_B, &b->bytes_b);
    if (vectors) {
        load_vector(b, G_A, &b->bytes_a);
    }
    for (int i = 0; i < steps; i++) {
        int r = rand() % 14;
        if (r == 0 && vectors) {
            load_vector(b, G_A, &b->bytes_a);
        } else if (r == 1) {
            load_scalar(b, G_B, &b->bytes_b);
        } else if (r == 2) {
            store_scalar(b);
        } else if (r == 3 && vectors) {
            store_vector(b);
        } else if (r == 4) { // read, changed and written back: its data is read late
            PUT(b, AIE2_ST_S16_ag_pstm_nrm_imm, G_BYTES, GLO(G_BYTES), LR(recent(b, ASM_R)),
                IMM(2));
            b->bytes_bytes += 2;
        } else if (r == 5 && vectors && rand() % 3 == 0) {
            carry_through_memory(b);
        } else if (r == 12 && vectors) {
            access_moved(b);
        } else if (r == 13 && vectors) {
            load_constant(b);
        } else if (vectors && r % 3) {
            step_vector(b);
        } else {
            step_scalar(b);
        }
    }
    if (vectors) {
        store_vector(b);
        PUT(b, AIE2_PADDA_lda_ptr_inc_idx_imm, 0, GLO(G_MOVED), IMM(b->step));
    } else {
        store_scalar(b);
    }
}

// ---- the same body twice ----

static const struct aie_isa * isa(void) {
    return aie_isa_get(AIE_ARCH_AIE2);
}

static void emit_loop(struct asm_program * p, const struct body * b) {
    struct asm_reg named[GLOBALS], locals[ASM_CLASS_COUNT][2 * MAX_BODY];
    for (int g = 0; g < GLOBALS; g++) {
        named[g] = asm_global(p, globals[g].cls);
    }
    for (int c = 0; c < ASM_CLASS_COUNT; c++) {
        for (int i = 0; i < b->made[c]; i++) {
            locals[c][i] = asm_local(p, (enum asm_class) c);
        }
    }
    asm_loop_begin(p, named[G_COUNT]);
    for (int i = 0; i < b->n; i++) {
        const struct instruction * from = &b->code[i];
        struct asm_arg args[5];
        for (int k = 0; k < from->n; k++) {
            const struct operand * o = &from->args[k];
            struct asm_reg r = o->kind == GLOBAL  ? named[o->value]
                               : o->kind == LOCAL ? asm_half(locals[o->cls][o->value], o->part)
                                                  : (struct asm_reg){0, -1};
            args[k] = o->kind == IMMEDIATE ? A_IMM(o->value) : A_REG(r);
        }
        asm_emit(p, from->op, from->memory, args, from->n);
    }
    asm_loop_end(p);
    asm_label(p, asm_label_new(p));
    asm_emit(p, AIE2_DONE, 0, (const struct asm_arg[1]){A_IMM(0)}, 0);
    int stop = asm_label_new(p);
    asm_label(p, stop);
    asm_jump(p, stop);
}

static void compile(const struct body * b, bool pipelined, struct asm_code * code) {
    struct asm_program * p = NULL;
    struct error err = {0};
    assert_int_equal(asm_new(AIE_ARCH_AIE2, &p), ST_OK);
    emit_loop(p, b);
    if (!pipelined) {
        asm_keep_small(p);
    }
    if (asm_finish(p, code, &err) != ST_OK) {
        print_message("%s\n", err.text);
        fail();
    }
    asm_free(p);
}

static int encode_one(uint8_t * at, const struct aie_inst * inst) {
    struct aie_bundle out = {.size = 16};
    enum aie_slot slot = inst ? aie_isa_instr(isa(), inst->op)->slot : AIE_SLOT_NOP;
    for (int s = 0; s < AIE_SLOT_NOP; s++) {
        if (slot == AIE_SLOT_LNG ? s == AIE_SLOT_ALU || s == AIE_SLOT_MV : s == AIE_SLOT_LNG) {
            continue;
        }
        out.present |= (uint8_t) (1u << s);
        out.slot[s].op = (uint16_t) aie_isa_nop(isa(), (enum aie_slot) s);
    }
    if (inst) {
        out.slot[slot] = *inst;
    }
    int size = 0;
    struct error err = {0};
    assert_int_equal(aie_bundle_encode(isa(), &out, at, &size, &err), ST_OK);
    return size;
}

static int alone(uint8_t * bytes, int at, struct aie_inst inst, int gap) {
    at += encode_one(bytes + at, &inst);
    while (gap-- > 0) {
        at += encode_one(bytes + at, NULL);
    }
    return at;
}

// The register of an operand when locals of a class take turns: at most `keep` are read behind one.
static int32_t plain_value(const struct body * b, const struct operand * o) {
    static const int first[ASM_CLASS_COUNT] = {[ASM_MASK] = 16};
    static const enum aie_reg_kind kinds[ASM_CLASS_COUNT] = {
        [ASM_R] = AIE_R, [ASM_MASK] = AIE_R, [ASM_X] = AIE_X, [ASM_BM] = AIE_BM};
    int number = first[o->cls] + o->value % (b->keep[o->cls] + 2);
    return o->kind == IMMEDIATE ? o->value
           : o->kind == GLOBAL  ? globals[o->value].reg
           : o->part < 0        ? AIE_REG(kinds[o->cls], number)
                                : AIE_REG(AIE_W, 2 * number + o->part);
}

static size_t one_by_one(const struct body * b, uint8_t bytes[CORE_PM_BYTES]) {
    int at = 0;
    const int32_t count = globals[G_COUNT].reg;
    for (int i = 0; i < b->n; i++) {
        struct aie_inst inst = {.op = (uint16_t) b->code[i].op};
        for (int k = 0; k < b->code[i].n; k++) {
            inst.values[k] = plain_value(b, &b->code[i].args[k]);
        }
        at = alone(bytes, at, inst, GAP);
        assert_true(at < CORE_PM_BYTES - 1024);
    }
    at = alone(bytes, at, (struct aie_inst){AIE2_ADD_add_r_ri, {count, count, -1}}, 0);
    at = alone(bytes, at, (struct aie_inst){AIE2_JNZ, {count, 0}}, 5);
    return (size_t) alone(bytes, at, (struct aie_inst){AIE2_DONE, {0}}, 8);
}

// ---- running ----

struct machine {
    uint8_t memory[MEMORY];
    uint8_t regs[GLOBALS][128];
    uint64_t cycles;
};

static uint8_t * window(void * user, uint32_t addr, uint32_t len) {
    struct machine * m = user;
    return addr >= BASE && addr - BASE < MEMORY && len <= MEMORY - (addr - BASE)
               ? m->memory + (addr - BASE)
               : NULL;
}

static int no_lock(void * user, int id, int value) {
    (void) user;
    (void) id;
    (void) value;
    return -1;
}

static void set_scalar(struct core * c, enum global g, uint32_t value) {
    uint8_t bytes[128] = {0};
    store_u32(bytes, value);
    core_reg_set(c, globals[g].reg, bytes);
}

// Inputs end where memory ends: [out][same][bytes] ... [b][a]. A load too many faults or shows.
static void run(const struct body * b, const uint8_t * code, size_t size, int trips,
                struct machine * m) {
    srand(trips);
    for (int i = 0; i < MEMORY;
         i += 4) { // small floats: sums of any order are not needed, only bits
        store_u32(m->memory + i, 0x3f000000u + ((uint32_t) rand() & 0xffffff));
    }
    struct core_env env = {.user = m, .memory = window, .acquire = no_lock, .release = no_lock};
    struct core * c = NULL;
    assert_int_equal(core_new(AIE_ARCH_AIE2, &env, &c), ST_OK);
    memcpy(core_program(c), code, size);
    core_program_changed(c, 0, (uint32_t) size);
    core_reset(c);
    set_scalar(c, G_COUNT, (uint32_t) trips);
    set_scalar(c, G_CONFIG, 28);
    set_scalar(c, G_SUM, 12345);
    set_scalar(c, G_OUT, BASE);
    set_scalar(c, G_SAME, BASE + 0x8000);
    set_scalar(c, G_BYTES, BASE + 0x9000);
    set_scalar(c, G_MOVED, BASE + 0xa400);
    set_scalar(c, G_POOL, BASE + 0x4800);
    set_scalar(c, G_B, (uint32_t) (BASE + 0xc000 - trips * b->bytes_b));
    set_scalar(c, G_A, (uint32_t) (BASE + MEMORY - trips * b->bytes_a));
    uint8_t vector[128];
    for (int i = 0; i < 128; i += 4) {
        store_u32(vector + i, 0x3f800000u + (uint32_t) i);
    }
    core_reg_set(c, globals[G_ACC].reg, vector);
    core_reg_set(c, globals[G_TOTAL].reg, vector);
    core_enable(c, true, 0);
    while (core_run(c, 1 << 20, 1 << 20) == CORE_READY && core_now(c) < 1 << 20) {
    }
    if (core_get_state(c) != CORE_DONE) {
        print_message("state %d: %s\n", core_get_state(c),
                      core_get_state(c) == CORE_FAULT ? core_fault(c) : "");
    }
    assert_int_equal(core_get_state(c), CORE_DONE);
    m->cycles = core_now(c);
    for (int g = G_CONFIG; g < GLOBALS; g++) { // the reference counts down
        memset(m->regs[g], 0, sizeof m->regs[g]);
        core_reg_get(c, globals[g].reg, m->regs[g]);
    }
    core_free(c);
}

// ---- tests ----

struct seen {
    int pipelined, unrolled, compact, deep; // how many loops of each form there were
};

static struct machine expected, plain, found;

static void same_result(const struct body * b, struct seen * seen) {
    static uint8_t reference[CORE_PM_BYTES];
    size_t size = one_by_one(b, reference);
    struct asm_code code, small;
    compile(b, true, &code);
    compile(b, false, &small);
    const struct asm_stats * s = &code.stats;
    assert_int_equal(s->n_loops, 1);
    assert_true(s->loop_ii[0] <= s->loop_bundles[0]);
    assert_true(s->loop_ii[0] >= s->loop_resource_ii[0] || s->loop_stages[0] == 1);
    seen->pipelined += s->loop_ii[0] < s->loop_bundles[0];
    seen->unrolled += s->loop_unroll[0] > 1;
    seen->compact += s->loop_unroll[0] == 1 && s->loop_stages[0] == 2;
    seen->deep += s->loop_stages[0] > 2;
    for (int trips = 1; trips <= MAX_TRIPS; trips++) {
        run(b, reference, size, trips, &expected);
        run(b, small.bytes, small.size, trips, &plain);
        run(b, code.bytes, code.size, trips, &found);
        assert_memory_equal(plain.memory, expected.memory, MEMORY);
        assert_memory_equal(plain.regs, expected.regs, sizeof plain.regs);
        assert_memory_equal(found.memory, expected.memory, MEMORY);
        assert_memory_equal(found.regs, expected.regs, sizeof found.regs);
    }
    free(code.bytes);
    free(small.bytes);
}

static void random_loops(int rounds, int steps, bool vectors, int keep, struct seen * seen) {
    for (int round = 0; round < rounds; round++) {
        srand(1000 * steps + 100 * keep + round);
        struct body b = {.keep = {[ASM_R] = keep, [ASM_MASK] = 2, [ASM_X] = keep, [ASM_BM] = keep}};
        random_body(&b, 1 + rand() % steps, vectors);
        same_result(&b, seen);
    }
    print_message("%d loops: %d pipelined, %d of them unrolled, %d compact, %d with more stages\n",
                  rounds, seen->pipelined, seen->unrolled, seen->compact, seen->deep);
}

static void short_loops(void ** state) {
    (void) state;
    struct seen seen = {0};
    random_loops(60, 6, false, 4, &seen);
    random_loops(60, 6, true, 4, &seen);
    assert_true(seen.pipelined > 60);
    assert_true(seen.unrolled > 5);
    assert_true(seen.deep > 5);
}

static void long_loops(void ** state) {
    (void) state;
    struct seen seen = {0};
    random_loops(30, 40, false, 6, &seen);
    random_loops(40, 24, true, 6, &seen);
    assert_true(seen.pipelined > 30);
    assert_true(seen.compact > 5);
}

// Nearly all registers of a class alive at once: plain or pipelined, what comes out is right.
static void few_registers(void ** state) {
    (void) state;
    struct seen seen = {0};
    random_loops(30, 24, true, 8, &seen);
}

static void many_loops(void ** state) {
    (void) state;
    struct seen seen = {0};
    random_loops(150, 16, true, 4, &seen);
    assert_true(seen.pipelined > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_loops),
        cmocka_unit_test(long_loops),
        cmocka_unit_test(few_registers),
        cmocka_unit_test(many_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
