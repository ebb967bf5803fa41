// attention-soft: what becomes of a block's scores, row by row. Capped and masked where that is
// asked for; the largest so far gives a factor for what was summed up before; their exponentials
// are added up and stay behind as bf16. A row of which nothing was seen yet has a largest score
// that is far below any, so that all masked away is a sum of zero and no NaN.
#include "attention-program.h"

#include "aie/ops/elementwise/elementwise-ops.h"
#include "aie/ops/lanes/math-fast.h"
#include "aie/ops/lanes/aie2p-wide.h"
#include "aie/verbs/verbs.h"

#define MINUS_INFINITY 0xff800000u

// Where w->a is, to read and to write.
static void row_begin(struct at_writer * w) {
    at_copy(w, w->at[0], w->a);
    at_copy(w, w->at[1], w->a);
    at_param(w, w->n, AT_NOW_VECTORS);
    asm_loop_begin(w->p, w->n);
}

static struct val score(struct at_writer * w) {
    return lanes_load(&w->lanes, w->at[0], MEM_S, false);
}

static void set_score(struct at_writer * w, struct val s) {
    lanes_store(&w->lanes, s, w->at[1], MEM_S_NEW, false);
}

// cap * tanh(s)
static void cap(struct at_writer * w) {
    int none = asm_label_new(w->p);
    at_param(w, w->n, AT_PARAM_CAP);
    asm_jump_if_zero(w->p, w->n, none);
    row_begin(w);
    asm_loop_alone(w->p); // seldom asked for, and long
    struct val t = fast_tanh(&w->lanes, score(w), lanes_get(AT_SLOT_CAP));
    set_score(w, at_times(w, t, lanes_get(AT_SLOT_CAP)));
    asm_loop_end(w->p);
    asm_label(w->p, none);
}

static struct val mask_of(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    l->dtype = DTYPE_F16;
    struct val mask = lanes_load(l, w->at[2], MEM_MASK, false);
    l->dtype = DTYPE_F32;
    return mask;
}

// The mask's row is at w->c, the row's head is w->d.
static void mask(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    int none = asm_label_new(w->p), sloped = asm_label_new(w->p);
    at_param(w, w->n, AT_NOW_SEEN);
    emit_add_small(w->p, w->n, w->n, -AT_SEEN_ALL);
    asm_jump_if_zero(w->p, w->n, none);
    at_copy(w, w->at[2], w->c);
    at_param(w, w->n, AT_PARAM_SLOPES);
    asm_jump_if_nonzero(w->p, w->n, sloped);
    row_begin(w);
    struct val bias = mask_of(w);
    set_score(w, f_add(l, score(w), bias));
    asm_loop_end(w->p);
    asm_jump(w->p, none);

    asm_label(w->p, sloped);
    struct asm_reg at = asm_local(w->p, ASM_R), slope = asm_local(w->p, ASM_R);
    at_set(w, at, at_address(w, AT_SLOPES_AT));
    for (int i = 0; i < 4; i++) {
        at_add(w, at, at, w->d);
    }
    at_copy(w, w->at[0], at);
    emit_load_word(w->p, MEM_STATE, slope, w->at[0], 0);
    lanes_set_param(l, AT_SLOT_SLOPE, slope);
    asm_label(w->p, asm_label_new(w->p));
    row_begin(w);
    asm_loop_alone(w->p);
    struct val m = f_mul(l, mask_of(w), lanes_get(AT_SLOT_SLOPE));
    set_score(w, f_add(l, score(w), m));
    asm_loop_end(w->p);
    asm_label(w->p, none);
}

// Lanes behind the last key of the last block count for nothing.
static void end_keys(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    int none = asm_label_new(w->p);
    at_param(w, w->n, AT_NOW_BLOCKS);
    asm_jump_if_nonzero(w->p, w->n, none);
    struct asm_reg at = asm_local(w->p, ASM_R), keys = emit_new_mask(w->p, LANE_32);
    emit_add_small(w->p, at, at_local_param(w, AT_NOW_VECTORS), -1);
    for (int i = 0; i < 6; i++) { // by the size of a vector
        at_add(w, at, at, at);
    }
    at_add(w, at, at, w->a);
    at_copy(w, w->at[0], at);
    at_param(w, keys, AT_PARAM_LANES_LAST);
    struct val s = at_load(w, MEM_S, w->at[0], 0);
    at_store(w, MEM_S, v_select(l, mask_in(keys), k_bits(l, MINUS_INFINITY), s), w->at[0], 0);
    asm_label(w->p, none);
}

// Points at[0] to a row's beginning and at[1] to its middle, for half as many trips. Of an odd
// number of vectors the middle one is taken twice.
static void halves_begin(struct at_writer * w) {
    enum { VECTOR_BITS = 6 };
    struct asm_reg half = asm_local(w->p, ASM_R), by = asm_local(w->p, ASM_R);
    struct asm_reg bits = asm_local(w->p, ASM_R), middle = asm_local(w->p, ASM_R);
    at_param(w, w->n, AT_NOW_VECTORS);
    at_set(w, by, -1);
    at_set(w, bits, VECTOR_BITS);
    emit_alu(w->p, AIE_BASIC_SHIFT, half, w->n, by);
    emit_alu(w->p, AIE_BASIC_SHIFT, middle, half, bits);
    emit_alu(w->p, AIE_BASIC_SUB, w->n, w->n, half);
    at_add(w, middle, middle, w->a);
    at_copy(w, w->at[0], w->a);
    at_copy(w, w->at[1], middle);
    asm_loop_begin(w->p, w->n);
}

// Floats order like integers when one is positive, and the other way when all are negative.
static void largest(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    struct asm_reg best[2];
    for (int i = 0; i < 2; i++) {
        struct val first = k_bits(l, i ? 0x7fffffff : 0x80000000u);
        best[i] = asm_global(w->p, (enum asm_class) asm_target(w->p)->value_class);
        emit_move(w->p, best[i], lanes_x(l, &first));
    }
    halves_begin(w);
    for (int half = 0; half < 2; half++) {
        struct val s = lanes_load(l, w->at[half], MEM_S, true);
        for (int i = 0; i < 2; i++) {
            struct asm_reg which = emit_new_mask(w->p, LANE_32);
            emit_choose(w->p, i ? LANE_MIN : LANE_MAX, LANE_32, best[i], which, best[i], s.x[0]);
        }
    }
    asm_loop_end(w->p);
    at_copy(w, w->at[4], w->b);
    struct val old = at_load(w, MEM_STATE, w->at[4], AT_STATE_M);
    struct val high = i_max(l, lanes_across(&w->lanes, i_max, val_x(best[0])), old);
    struct val low = i_min(l, lanes_across(&w->lanes, i_min, val_x(best[1])), old);
    lanes_put(&w->lanes, AT_SLOT_M, v_select(l, m_negative(l, high), high, low));
    asm_release(w->p, best[0]);
    asm_release(w->p, best[1]);
}

// What was summed up so far shrinks by e^(old - new).
static void shrink(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    struct val m = lanes_get(AT_SLOT_M), old = at_load(w, MEM_STATE, w->at[4], AT_STATE_M);
    struct val factor = m_fast_exp_minus(l, f_sub(l, m, old));
    lanes_x(l, &m);
    at_store(w, MEM_STATE, factor, w->at[4], AT_STATE_FACTOR);
    at_store(w, MEM_STATE, m, w->at[4], AT_STATE_M);
    asm_label(w->p, asm_label_new(w->p));
    struct val by = at_load(w, MEM_STATE, w->at[4], AT_STATE_FACTOR);
    struct val sum = at_times(w, at_load(w, MEM_STATE, w->at[4], AT_STATE_SUM), by);
    at_store(w, MEM_STATE, sum, w->at[4], AT_STATE_SUM);
    asm_label(w->p, asm_label_new(w->p));
}

// Each value is two vectors, in a late loop as in elementwise.c. An odd number of vectors takes one
// more, which is read and written where no data lie.
static void exponentials_doubled(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    struct asm_reg half = asm_local(w->p, ASM_R), more = asm_local(w->p, ASM_R);
    at_set(w, half, -1);
    emit_add_small(w->p, more, w->n, 1);
    emit_alu(w->p, AIE_BASIC_SHIFT, w->n, more, half);
    asm_mark(w->p);
    lanes_set_vectors(l, 2);
    asm_loop_begin_rolling(w->p, w->n);
    asm_loop_late(w->p);
    struct val s = lanes_load_at(l, w->at[0], 0, MEM_S);
    struct val e = m_fast_exp_minus(l, f_sub(l, lanes_get(AT_SLOT_M), s));
    l->dtype = DTYPE_BF16;
    lanes_store_at(l, e, w->at[1], 0, MEM_S_NEW);
    l->dtype = DTYPE_F32;
    emit_advance(w->p, w->at[1], 2 * 2 * AT_LANES);
    emit_advance(w->p, w->at[0], 2 * 4 * AT_LANES);
    asm_loop_end(w->p);
    asm_mark_end(w->p);
    lanes_set_vectors(l, 1);
}

// The loop is software-pipelined: trips before the first and behind the last write beyond the row,
// where no data lie (at_plan's s_row). So the sum is made in a loop of its own.
static void exponentials(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    at_copy(w, w->at[0], w->a);
    at_copy(w, w->at[1], w->a);
    at_param(w, w->n, AT_NOW_VECTORS);
    if (wide_is_there(asm_target(w->p))) {
        exponentials_doubled(w);
        return;
    }
    asm_loop_begin_rolling(w->p, w->n);
    struct val s = at_load(w, MEM_S, w->at[0], 0);
    struct val e = m_fast_exp_minus(l, f_sub(l, lanes_get(AT_SLOT_M), s));
    emit_store_bf16(w->p, MEM_S_NEW, lanes_bm(l, &e), w->at[1], 0);
    emit_advance(w->p, w->at[0], 4 * AT_LANES);
    emit_advance(w->p, w->at[1], 2 * AT_LANES);
    asm_loop_end(w->p);
}

static void add_up(struct at_writer * w) {
    struct asm_reg sum = asm_global(w->p, (enum asm_class) asm_target(w->p)->acc_class);
    emit_load(w->p, MEM_STATE, sum, w->at[4], AT_STATE_SUM);
    at_copy(w, w->at[0], w->a);
    at_param(w, w->n, AT_NOW_VECTORS);
    asm_loop_begin(w->p, w->n);
    struct asm_reg p = emit_new_acc(w->p);
    emit_load_bf16_next(w->p, MEM_S_NEW, p, w->at[0]);
    emit_f_add(w->p, sum, sum, p, w->lanes.float_config);
    asm_loop_end(w->p);
    emit_store(w->p, MEM_STATE, sum, w->at[4], AT_STATE_SUM);
    asm_release(w->p, sum);
}

void at_soft(struct at_writer * w) {
    int row = asm_label_new(w->p), same_query = asm_label_new(w->p), done = asm_label_new(w->p);
    at_param(w, w->left, AT_PARAM_ROWS);
    at_param(w, w->a, AT_PARAM_S);
    at_param(w, w->b, AT_PARAM_STATE);
    at_param(w, w->c, AT_NOW_MASK);
    at_param(w, w->d, AT_PARAM_HEAD);
    asm_label(w->p, row);
    cap(w);
    mask(w);
    end_keys(w);
    largest(w);
    shrink(w);
    exponentials(w);
    add_up(w);
    emit_add_small(w->p, w->left, w->left, -1);
    asm_jump_if_zero(w->p, w->left, done);
    at_add_param(w, w->a, AT_PARAM_S_STEP);
    at_next_state(w, w->b);
    at_add_param(w, w->c, AT_PARAM_MASK_HEAD);
    at_next_head(w, same_query);
    at_add_param(w, w->c, AT_PARAM_MASK_STEP);
    asm_label(w->p, same_query);
    asm_jump(w->p, row);
    asm_label(w->p, done);
}
