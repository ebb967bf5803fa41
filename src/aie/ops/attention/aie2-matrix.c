// aie2-matrix: the products of attention-matrix.h, one loop for both, placed by hand. As in a
// product of matrices (mul-mat/aie2-block.c) the multiplier is busy in every bundle, and
// accumulators come and go while others are summed up:
//
//     bundle, seen from the first multiplication of 8 numbers of the sums; the pattern repeats
//              -12 -11 -10  -9  -8  -7  -6  -5  -4  -3  -2  -1   0   1   2   3   4   5   6   7
//     ldb                       y1  y1  y2  y2  y3  y3  y0  y0
//     lda       x1  x1  x0  x0   c   c   c   c
//     turn                                              x0  x1
//     multiply                                                  10  11  20  21  30  31  00  01
//
// Of y four keys or dimensions of each tile lie together, so that what was made of scores vector by
// vector is in its place; a turn of x may be one that changes nothing.
#include "attention-matrix.h"

#include "aie/isa/aie2.h"
#include "aie/verbs/verbs.h"

#define WALK(n) A_FIXED(AIE_REG(AIE_D, (n)))
#define STEP(n) A_FIXED(AIE_REG(AIE_M, (n)))
enum { WALK_FROM = 0, WALK_TO = 2, WALK_X = 4, WALK_Y = 5, STEP_X = 6, STEP_Y = 7 };

enum { STEPS = MX_DIM / 8, TRIPS = 8, INTERVAL = 8 * STEPS, HALF = 32, ACCS = 8 };
struct walk {
    struct asm_program * p;
    const struct mx_registers * r;
};

// Halves of four tiles in the order in which they are taken: the one at the pointer comes last.
static const struct {
    int tile, half;
} order[8] = {{1, 0}, {1, 1}, {2, 0}, {2, 1}, {3, 0}, {3, 1}, {0, 0}, {0, 1}};

static int place_of_y(int n) {
    return order[n].tile * HALF + (order[n].half - 1) * MX_GROUP;
}

static int place_of_c(int n) {
    return order[n].tile * MX_TILE + (order[n].half - 1) * HALF;
}

enum advance { STAYS, NEXT_STEP, NEXT_TRIP };

static void load(const struct walk * w, int at, struct asm_reg to, bool is_x, int offset,
                 enum advance advance) {
    static const int ops[3][2] = {
        [STAYS] = {AIE2_VLDB_dmw_ldb_ag_idx_imm, AIE2_VLDA_dmw_lda_w_ag_idx_imm},
        [NEXT_STEP] = {AIE2_VLDB_dmw_ldb_ag_pstm_nrm, AIE2_VLDA_dmw_lda_w_ag_pstm_nrm},
        [NEXT_TRIP] = {AIE2_VLDB_2D, AIE2_VLDA_2D_dmw_lda_w},
    };
    struct asm_arg last = advance == STAYS       ? A_IMM(offset)
                          : advance == NEXT_STEP ? STEP(is_x ? STEP_X : STEP_Y)
                                                 : WALK(is_x ? WALK_X : WALK_Y);
    asm_at(w->p, at);
    ASM_MEM(w->p, ops[advance][is_x], is_x ? MX_MEMORY_X : MX_MEMORY_Y, A_REG(to),
            A_REG(w->r->pointers[is_x ? 0 : 1]), last);
}

static struct asm_reg turn(const struct walk * w, int at, struct asm_reg from) {
    struct asm_reg to = asm_local(w->p, ASM_X);
    asm_at(w->p, at);
    ASM(w->p, AIE2_VSHUFFLE, A_REG(to), A_REG(from), A_REG(from), A_REG(w->r->mode));
    return to;
}

static void step(const struct walk * w, struct asm_reg acc[ACCS], int k) {
    int t = 8 * k;
    enum advance on = k + 1 < STEPS ? NEXT_STEP : NEXT_TRIP;
    struct asm_reg x[2], y[4];
    for (int i = 0; i < 4; i++) {
        y[i] = asm_local(w->p, ASM_X);
    }
    for (int n = 0; n < 8; n++) {
        load(w, t - 8 + n, asm_half(y[order[n].tile], order[n].half), false, place_of_y(n),
             n == 7 ? on : STAYS);
    }
    for (int j = 1; j >= 0; j--) {
        x[j] = asm_local(w->p, ASM_X);
        int at = t - 10 - 2 * j, offset = MX_X_APART * j;
        load(w, at, asm_half(x[j], 0), true, offset - HALF, STAYS);
        load(w, at + 1, asm_half(x[j], 1), true, offset, j == 0 ? on : STAYS);
    }
    for (int j = 0; j < 2; j++) {
        x[j] = turn(w, t - 2 + j, x[j]);
    }
    for (int n = 0; n < 8; n++) {
        int i = order[n].tile, j = n % 2;
        struct asm_reg a = acc[2 * i + j];
        asm_at(w->p, t + n);
        ASM(w->p, AIE2_VMAC_F_vmac_bm_core_dense, A_REG(a), A_REG(a), A_REG(x[j]), A_REG(y[i]),
            A_REG(k ? w->r->conf : w->r->first));
    }
}

// Accumulators of the tile, two halves of one row and two of the other by turns.
static void move_tile(const struct walk * w, struct asm_reg acc[ACCS], bool out) {
    for (int n = 0; n < 2 * ACCS; n++) {
        int j = n / 2 % 2, half = n / 4 * 2 + n % 2, offset = place_of_c(half);
        struct asm_arg a = A_REG(asm_half(acc[2 * order[half].tile + j], order[half].half));
        struct asm_arg pointer = A_REG(w->r->pointers[2 + 2 * out + j]);
        struct asm_arg walk = WALK((out ? WALK_TO : WALK_FROM) + j);
        int memory = out ? MX_MEMORY_TO : MX_MEMORY_FROM;
        asm_at(w->p, out ? INTERVAL - 2 + n : n / 4 * 8 + n % 4 - 32);
        if (out && half == 7) {
            ASM_MEM(w->p, AIE2_VST_2D_dmw_sts_am, memory, pointer, a, walk);
        } else if (out) {
            ASM_MEM(w->p, AIE2_VST_dmw_sts_am_ag_idx_imm, memory, a, pointer, A_IMM(offset));
        } else if (half == 7) {
            ASM_MEM(w->p, AIE2_VLDA_2D_dmw_lda_am, memory, a, pointer, walk);
        } else {
            ASM_MEM(w->p, AIE2_VLDA_dmw_lda_am_ag_idx_imm, memory, a, pointer, A_IMM(offset));
        }
    }
}

static void set_walk(struct asm_program * p, int d, int next, int wrap) {
    emit_set_fixed(p, AIE_REG(AIE_DJ, d), next);
    emit_set_fixed(p, AIE_REG(AIE_M, d), wrap);
    emit_set_fixed(p, AIE_REG(AIE_DN, d), TRIPS - 1);
    emit_set_fixed(p, AIE_REG(AIE_DC, d), 0);
}

void mx_product_at(struct asm_program * p, const struct mx_registers * r,
                   const struct mx_product * of) {
    int back_x = (STEPS - 1) * of->x_step, back_y = (STEPS - 1) * of->y_step;
    set_walk(p, WALK_X, of->x_next - back_x, -back_x - (TRIPS - 1) * of->x_next);
    set_walk(p, WALK_Y, -back_y, of->y_next - back_y);
    for (int d = WALK_FROM; d < WALK_TO + 2; d++) {
        set_walk(p, d, of->c_next, of->c_next + of->c_more);
    }
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_X), of->x_step);
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_Y), of->y_step);
    emit_set(p, r->mode, of->turn);
    mx_product_again(p, r, of);
}

void mx_product_again(struct asm_program * p, const struct mx_registers * r,
                      const struct mx_product * of) {
    emit_set(p, r->pointers[0], of->x + HALF);
    emit_set(p, r->pointers[1], of->y + MX_GROUP);
    for (int i = 0; i < 4; i++) {
        emit_set(p, r->pointers[2 + i], of->c + HALF + i % 2 * of->c_second);
    }
}

void mx_product_loop(struct asm_program * p, const struct mx_registers * r, struct asm_reg trips) {
    struct walk w = {p, r};
    struct asm_reg acc[ACCS];
    asm_loop_begin_paced(p, trips, INTERVAL);
    for (int n = 0; n < ACCS; n++) {
        acc[n] = asm_local(p, ASM_BM);
    }
    move_tile(&w, acc, false);
    for (int k = 0; k < STEPS; k++) {
        step(&w, acc, k);
    }
    move_tile(&w, acc, true);
    asm_loop_end(p);
}
