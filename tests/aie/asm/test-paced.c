// Loops that their author places: what holds is taken as it stands, what does not is told. That
// such loops compute the right thing, test-mul-mat shows.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "aie/asm/asm.h"
#include "aie/isa/aie2.h"

// x[i] + x[i], a vector each trip: load at 0, add behind it, store behind that.
struct places {
    int interval, load[2], add, store[2];
};

static enum status build(const struct places * s, int vectors, struct asm_code * code,
                         struct error * err) {
    struct asm_program * p;
    assert_int_equal(asm_new(AIE_ARCH_AIE2, &p), ST_OK);
    struct asm_reg in = asm_global(p, ASM_P), out = asm_global(p, ASM_P), n = asm_global(p, ASM_R);
    ASM(p, AIE2_MOVXM_lng_cg, A_REG(in), A_IMM(0x70000));
    ASM(p, AIE2_MOVXM_lng_cg, A_REG(out), A_IMM(0x78000));
    ASM(p, AIE2_MOVXM_lng_cg, A_REG(n), A_IMM(8));
    asm_loop_begin_paced(p, n, s->interval);
    for (int v = 0; v < vectors; v++) {
        struct asm_reg x = asm_local(p, ASM_X), sum = asm_local(p, ASM_X);
        for (int half = 0; half < 2; half++) {
            asm_at(p, s->load[half] + 2 * v);
            ASM_MEM(p, AIE2_VLDA_dmw_lda_w_ag_pstm_nrm_imm, 1, A_REG(asm_half(x, half)), A_REG(in),
                    A_IMM(32));
        }
        asm_at(p, s->add + 2 * v);
        ASM(p, AIE2_VADD_32, A_REG(sum), A_REG(x), A_REG(x));
        for (int half = 0; half < 2; half++) {
            asm_at(p, s->store[half] + 2 * v);
            ASM_MEM(p, AIE2_VST_dmw_sts_w_ag_pstm_nrm_imm, 2, A_REG(out),
                    A_REG(asm_half(sum, half)), A_IMM(32));
        }
    }
    asm_loop_end(p);
    int end = asm_label_new(p);
    asm_label(p, end);
    asm_jump(p, end);
    *code = (struct asm_code){0};
    *err = (struct error){0};
    enum status st = asm_finish(p, code, err);
    asm_free(p);
    return st;
}

// A load takes 7 bundles, an addition 2 to what is stored.
static const struct places right = {4, {0, 1}, 8, {10, 11}};

static void taken_as_it_stands(void ** state) {
    (void) state;
    struct asm_code code;
    struct error err;
    assert_int_equal(build(&right, 1, &code, &err), ST_OK);
    assert_int_equal(code.stats.n_loops, 1);
    assert_int_equal(code.stats.loop_ii[0], 4);
    assert_int_equal(asm_check(AIE_ARCH_AIE2, code.bytes, code.size, &err), ST_OK);
    free(code.bytes);
    // negative places are places of the trip before
    struct places early = {4, {-9, -8}, -1, {1, 2}};
    assert_int_equal(build(&early, 1, &code, &err), ST_OK);
    free(code.bytes);
}

static void refused(const struct places * s, int vectors, const char * word) {
    struct asm_code code;
    struct error err;
    assert_int_equal(build(s, vectors, &code, &err), ST_INVALID);
    if (!strstr(err.text, word)) {
        print_message("\"%s\" has no \"%s\"\n", err.text, word);
        fail();
    }
}

static void what_does_not_hold(void ** state) {
    (void) state;
    struct places s = right;
    s.add = 7; // the second half lands in 8
    refused(&s, 1, "early");
    s = right;
    s.store[0] = 9;
    refused(&s, 1, "early");
    s = right;
    s.load[1] = 4; // the slot of the next trip's first load
    refused(&s, 1, "taken");
    s = right;
    s.interval = 48;
    s.store[0] += 150; // the sums of all trips in between live at once
    s.store[1] += 150;
    refused(&s, 16, "too few registers");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken_as_it_stands),
        cmocka_unit_test(what_does_not_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
