// The scheduler: regions keep the meaning of the order in which they were written, registers are
// given out and taken back, misuse is reported and not crashed on. Meaning is checked by executing
// the schedule on a tiny model of registers in time (not the emulator): scalar code whose result a
// plain interpreter of the unscheduled order computes as well.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "aie/aie.h"
#include "aie/asm/asm.h"
#include "aie/isa/aie2.h"
#include "aie/ops/ops.h"

static struct asm_program * new_program(void) {
    struct asm_program * p = NULL;
    assert_int_equal(asm_new(AIE_ARCH_AIE2, &p), ST_OK);
    return p;
}

static void park(struct asm_program * p) { // every program ends in a jump to itself
    int here = asm_label_new(p);
    asm_label(p, here);
    asm_jump(p, here);
}

static int32_t apply(int op, int32_t a, int32_t b) {
    uint32_t x = (uint32_t) a, y = (uint32_t) b;
    switch (op) {
    case AIE2_ADD:
        return (int32_t) (x + y);
    case AIE2_SUB:
        return (int32_t) (x - y);
    case AIE2_XOR:
        return (int32_t) (x ^ y);
    default:
        return (int32_t) (x * y);
    }
}

// Executes bundles of scalar three-register code with exposed latencies.
static void run(const struct asm_code * code, int32_t r[32]) {
    const struct aie_isa * isa = aie_isa_get(AIE_ARCH_AIE2);
    struct {
        int reg, at;
        int32_t value;
    } pending[256];
    struct aie_bundle b;
    int n = 0;
    for (size_t pc = 0, cycle = 0; pc < code->size; pc += b.size, cycle++) {
        for (int i = 0; i < n; i++) {
            if (pending[i].at == (int) cycle) {
                r[pending[i].reg] = pending[i].value;
            }
        }
        assert_int_equal(aie_bundle_decode(isa, code->bytes + pc, code->size - pc, &b, NULL),
                         ST_OK);
        const struct aie_inst * inst = &b.slot[AIE_SLOT_ALU];
        if (!(b.present >> AIE_SLOT_ALU & 1) || inst->op == aie_isa_nop(isa, AIE_SLOT_ALU)) {
            continue;
        }
        const struct aie_instr * instr = aie_isa_instr(isa, inst->op);
        assert_true(n < 256);
        pending[n].reg = AIE_REG_NUM(inst->values[0]);
        pending[n].at = (int) cycle + instr->operands[0].def_cycle;
        pending[n++].value =
            apply(inst->op, r[AIE_REG_NUM(inst->values[1])], r[AIE_REG_NUM(inst->values[2])]);
    }
}

static void schedules_keep_their_meaning(void ** state) {
    (void) state;
    static const int ops[4] = {AIE2_ADD, AIE2_SUB, AIE2_XOR, AIE2_MUL_mul_r_rr};
    srand(11);
    for (int round = 0; round < 200; round++) {
        struct asm_program * p = new_program();
        struct asm_reg values[64];
        int32_t model[64], file[32] = {0};
        int n = 0;
        for (int i = 0; i < 6; i++) { // globals are given out from the top: r31, r30, ...
            values[n] = asm_global(p, ASM_R);
            file[31 - i] = model[n++] = rand();
        }
        for (int i = 0; i < 40; i++) {
            int op = ops[rand() % 4], a = rand() % n, b = rand() % n;
            // Old locals go out of use so that their registers come back; globals are rewritten.
            a = a < 6 || a > n - 12 ? a : rand() % 6;
            b = b < 6 || b > n - 12 ? b : rand() % 6;
            int32_t v = apply(op, model[a], model[b]);
            int to = rand() % 3 ? n : rand() % 6;
            if (to == n) {
                values[n] = asm_local(p, ASM_R);
                n++;
            }
            ASM(p, op, A_REG(values[to]), A_REG(values[a]), A_REG(values[b]));
            model[to] = v;
        }
        park(p);
        struct asm_code code;
        struct error err = {0};
        assert_int_equal(asm_finish(p, &code, &err), ST_OK);
        run(&code, file);
        for (int i = 0; i < 6; i++) {
            assert_int_equal(file[31 - i], model[i]);
        }
        free(code.bytes);
        asm_free(p);
    }
}

// What is jumped to and the ends of loops are aligned; all else has the shortest format, but for
// the bundles that make up for what is missing.
static void bundles_are_short(void ** state) {
    (void) state;
    const struct aie_isa * isa = aie_isa_get(AIE_ARCH_AIE2);
    struct asm_program * p = new_program();
    struct asm_reg count = asm_global(p, ASM_R), sum = asm_global(p, ASM_R);
    int again = asm_label_new(p);
    ASM(p, AIE2_MOVX_alu_cg, A_REG(count), A_IMM(20));
    asm_label(p, again);
    ASM(p, AIE2_ADD_add_r_ri, A_REG(sum), A_REG(sum), A_IMM(1));
    asm_loop_begin(p, count);
    ASM(p, AIE2_ADD, A_REG(sum), A_REG(sum), A_REG(count));
    asm_loop_end(p);
    asm_jump_if_nonzero(p, sum, again);
    park(p);
    struct asm_code code;
    struct error err = {0};
    assert_int_equal(asm_finish(p, &code, &err), ST_OK);
    assert_int_equal(code.size % 16, 0);
    int target = -1, last = -1, idle = 0;
    struct aie_bundle b;
    for (size_t pc = 0; pc < code.size; pc += b.size) {
        assert_int_equal(aie_bundle_decode(isa, code.bytes + pc, code.size - pc, &b, &err), ST_OK);
        const struct aie_inst * lng = &b.slot[AIE_SLOT_LNG];
        bool has = b.present >> AIE_SLOT_LNG & 1;
        if (has && lng->op == AIE2_JNZ) {
            target = lng->values[1];
        } else if (has && lng->op == AIE2_MOVXM_lng_cg &&
                   lng->values[0] == AIE_REG(AIE_SPC, AIE_SPC_LE)) {
            last = lng->values[1];
        }
        if (last == (int) pc) {
            assert_int_equal(b.size, 16);
        }
        idle += b.size == 2;
    }
    assert_int_equal(target, 16); // the first bundle of 4 bytes was filled up
    assert_int_equal(last % 16, 0);
    assert_true(idle >= 5); // of the delay slots
    assert_true(code.size < 16 * (size_t) code.stats.bundles * 3 / 4);
    free(code.bytes);
    asm_free(p);
}

static void expect_misuse(struct asm_program * p, const char * reason) {
    struct asm_code code;
    struct error err = {0};
    assert_int_equal(asm_finish(p, &code, &err), ST_INVALID);
    if (!strstr(err.text, reason)) {
        print_message("%s\n", err.text);
    }
    assert_non_null(strstr(err.text, reason));
    asm_free(p);
}

// A chain of sums in locals, in a program whose globals leave one register; with a second one
// released there are enough. Before the release and after it globals keep their values, and what
// is taken instead has a register again.
static void released_registers_serve_again(void ** state) {
    (void) state;
    enum { GLOBALS = 23 };
    for (int release = 0; release < 2; release++) {
        struct asm_program * p = new_program();
        struct asm_reg g[GLOBALS], a = asm_local(p, ASM_R), b = asm_local(p, ASM_R), later;
        for (int i = 0; i < GLOBALS; i++) {
            g[i] = asm_global(p, ASM_R); // from the top: r31 to r24, then r15 down
        }
        if (release) {
            asm_release(p, g[5]);
        }
        asm_label(p, asm_label_new(p));
        ASM(p, AIE2_ADD, A_REG(a), A_REG(g[1]), A_REG(g[2]));
        ASM(p, AIE2_ADD, A_REG(b), A_REG(g[3]), A_REG(g[4]));
        ASM(p, AIE2_ADD, A_REG(g[0]), A_REG(a), A_REG(b)); // both at once
        ASM(p, AIE2_SUB, A_REG(g[1]), A_REG(a), A_REG(b));
        if (!release) {
            park(p);
            expect_misuse(p, "more registers");
            continue;
        }
        later = asm_global(p, ASM_R);
        asm_label(p, asm_label_new(p));
        ASM(p, AIE2_ADD, A_REG(later), A_REG(g[0]), A_REG(g[1]));
        ASM(p, AIE2_ADD, A_REG(g[2]), A_REG(later), A_REG(g[6]));
        park(p);
        struct asm_code code = {0};
        struct error err = {0};
        int32_t r[32] = {0};
        for (int i = 0; i < GLOBALS; i++) {
            r[i < 8 ? 31 - i : 23 - i] = i;
        }
        assert_int_equal(asm_finish(p, &code, &err), ST_OK);
        asm_free(p);
        run(&code, r);
        free(code.bytes);
        assert_int_equal(r[31], 10);
        assert_int_equal(r[30], -4);
        assert_int_equal(r[29], 12);
        for (int i = 6; i < GLOBALS; i++) {
            assert_int_equal(r[i < 8 ? 31 - i : 23 - i], i);
        }
    }

    struct asm_program * p = new_program();
    struct asm_reg g = asm_global(p, ASM_R);
    asm_release(p, g);
    ASM(p, AIE2_MOVX_alu_cg, A_REG(g), A_IMM(1));
    park(p);
    expect_misuse(p, "was released");
    p = new_program();
    g = asm_global(p, ASM_R);
    asm_release(p, g);
    asm_release(p, g);
    park(p);
    expect_misuse(p, "only a global can be released, once");
}

static void misuse_is_reported(void ** state) {
    (void) state;
    struct asm_program * p = new_program();
    struct asm_reg r = asm_local(p, ASM_R);
    ASM(p, AIE2_ADD, A_REG(r), A_REG(asm_local(p, ASM_R)), A_REG(r));
    park(p);
    expect_misuse(p, "nothing wrote");

    p = new_program();
    ASM(p, AIE2_ADD, A_REG(asm_global(p, ASM_R)));
    park(p);
    expect_misuse(p, "takes 3 operands");

    p = new_program();
    asm_jump(p, asm_label_new(p));
    expect_misuse(p, "never placed");

    p = new_program();
    for (int i = 0; i < 40; i++) {
        asm_global(p, ASM_R);
    }
    park(p);
    expect_misuse(p, "no register");

    p = new_program(); // forty values that are all needed once the last one is there
    struct asm_reg chain[40];
    struct asm_reg sum = asm_global(p, ASM_R);
    for (int i = 0; i < 40; i++) {
        chain[i] = asm_local(p, ASM_R);
        struct asm_reg before = i ? chain[i - 1] : sum;
        ASM(p, AIE2_MUL_mul_r_rr, A_REG(chain[i]), A_REG(before), A_REG(before));
    }
    for (int i = 39; i >= 0; i--) {
        ASM(p, AIE2_ADD, A_REG(sum), A_REG(sum), A_REG(chain[i]));
    }
    park(p);
    expect_misuse(p, "more registers");

    p = new_program();
    struct asm_reg g = asm_global(p, ASM_R);
    asm_loop_begin(p, g);
    asm_loop_end(p);
    park(p);
    expect_misuse(p, "one region");

    p = new_program(); // two classes over the same registers
    asm_local(p, ASM_MASK);
    asm_local(p, ASM_L);
    park(p);
    expect_misuse(p, "shares its registers");

    p = new_program(); // an immediate that does not fit its field
    ASM(p, AIE2_MOVX_alu_cg, A_REG(asm_global(p, ASM_R)), A_IMM(100000));
    park(p);
    expect_misuse(p, "");
}

static void kernels_fit(void ** state) {
    (void) state;
    for (int t = 0; t < DTYPE_COUNT; t++) {
        struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
        spec.inputs[0] = spec.inputs[1] = spec.output =
            tensor_contiguous((enum dtype) t, (int64_t[4]){1000, 3, 1, 1});
        struct ew_program program;
        struct error err = {0};
        assert_int_equal(elementwise_program(ew_program(&spec), spec.arch, &program, &err), ST_OK);
        const struct asm_stats * s = &program.code.stats;
        print_message("sum_%s: %d bundles, %zu bytes\n", dtype_name((enum dtype) t), s->bundles,
                      program.code.size);
        for (int l = 0; l < s->n_loops; l++) {
            print_message(
                "    %d instructions, plain %d, every %d bundles (slots %d, recurrence %d), "
                "%d stages, %d trips\n",
                s->loop_ops[l], s->loop_bundles[l], s->loop_ii[l], s->loop_resource_ii[l],
                s->loop_recurrence_ii[l], s->loop_stages[l], s->loop_unroll[l]);
        }
        assert_true(program.code.size <= 16384);
        int words = ew_trip_words(ew_program(&spec), spec.arch, spec.op);
        assert_int_equal(EW_CHUNK_WORDS % words, 0);
        free(program.code.bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_keep_their_meaning),
        cmocka_unit_test(bundles_are_short),
        cmocka_unit_test(released_registers_serve_again),
        cmocka_unit_test(misuse_is_reported),
        cmocka_unit_test(kernels_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
