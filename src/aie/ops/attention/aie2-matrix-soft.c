// aie2-matrix-soft: what becomes of a block's scores in the program of attention-matrix.h, all
// rows of a core together. Keys behind the last count for nothing, the mask is added, what sums are
// relative to is raised where a score is beyond it, and powers of two are left behind as bf16 and
// added up.
#include "attention-matrix-program.h"

#include "aie/isa/aie2.h"
#include "aie/ops/lanes/math-fast.h"
#include "aie/ops/lanes/pieces.h"
#include "aie/verbs/verbs.h"

#define AHEAD          12.0f // of powers of two
#define MINUS_INFINITY 0xff800000u
#define LN_2           0.693147181f

enum { WALK = 0 }; // of the address generators', where no product runs

// ---- masks ----

// w->at[2] walks through a unit's mask, w->c. A trip has 8 keys of four queries.
static void walk_mask(struct at_writer * w) {
    emit_set_fixed(w->p, AIE_REG(AIE_DJ, WALK), VECTOR);
    emit_set_fixed(w->p, AIE_REG(AIE_DN, WALK), QUERIES - 1);
    emit_set_fixed(w->p, AIE_REG(AIE_DC, WALK), 0);
    emit_load_scalar(w->p, MEM_PARAMS, LANE_32, A_FIXED(AIE_REG(AIE_M, WALK)), w->lanes.pool,
                     lanes_slot_offset(AT_SLOT_PARAMS) + 4 * MX_PARAM_MASK_WRAP);
    at_copy(w, w->at[2], w->c);
    emit_set_small(w->p, w->n, QUERIES * MX_KEYS / 8);
}

static struct asm_reg load_mask(struct at_writer * w) {
    struct asm_reg x = asm_local(w->p, ASM_X);
    ASM_MEM(w->p, AIE2_VLDA_dmw_lda_w_ag_idx_imm, MEM_MASK, A_HI(x), A_REG(w->at[2]), A_IMM(HALF));
    ASM_MEM(w->p, AIE2_VLDA_2D_dmw_lda_w, MEM_MASK, A_LO(x), A_REG(w->at[2]),
            A_FIXED(AIE_REG(AIE_D, WALK)));
    return x;
}

void mx_skip_masked(struct at_writer * w, int label) {
    struct asm_program * p = w->p;
    int none = asm_label_new(p), some = asm_label_new(p);
    at_keep(w, MX_NOW_SEEN, w->lanes.one);
    at_param(w, w->c, MX_PARAM_MASK);
    asm_jump_if_zero(p, w->c, none);
    const struct at_mask m = at_mask_begin(w);
    int again = mx_units_begin(w);
    walk_mask(w);
    asm_loop_begin(p, w->n);
    struct asm_reg x = load_mask(w), d = asm_local(p, ASM_X);
    at_mask_look(w, &m, x, d);
    asm_loop_end(p);
    at_add_param(w, w->c, MX_PARAM_MASK_NEXT);
    mx_units_end(w, again);
    at_mask_end(w, &m, MX_NOW_SEEN);
    asm_jump_if_nonzero(p, w->n, some);
    at_keep(w, MX_NOW_SEEN, w->n);
    asm_jump(p, label);
    asm_label(p, some);
    asm_label(p, none);
}

// A vector of scores, from or to where a pointer walks with the mask's.
static void move_scores(struct at_writer * w, struct asm_reg acc, bool out) {
    struct asm_arg pointer = A_REG(w->at[out]), walk = A_FIXED(AIE_REG(AIE_D, WALK + 1 + out));
    if (out) {
        ASM_MEM(w->p, AIE2_VST_dmw_sts_am_ag_idx_imm, MEM_S_NEW, A_HI(acc), pointer, A_IMM(HALF));
        ASM_MEM(w->p, AIE2_VST_2D_dmw_sts_am, MEM_S_NEW, pointer, A_LO(acc), walk);
    } else {
        ASM_MEM(w->p, AIE2_VLDA_dmw_lda_am_ag_idx_imm, MEM_S, A_HI(acc), pointer, A_IMM(HALF));
        ASM_MEM(w->p, AIE2_VLDA_2D_dmw_lda_am, MEM_S, A_LO(acc), pointer, walk);
    }
}

// Scores are to the base of 2: mask times log2(e), both to 16 bits, of which the mask has no more.
static struct asm_reg plus_mask(struct at_writer * w, struct asm_reg s, struct asm_reg raw) {
    struct lanes * l = &w->lanes;
    struct val mask = lanes_of_f16(l, raw), lowest = k_float(l, MX_FAR_BELOW);
    struct asm_reg which = emit_new_mask(w->p, LANE_32), finite = emit_new_value(w->p);
    struct asm_reg x = lanes_x(l, &mask), limit = lanes_x(l, &lowest);
    emit_choose(w->p, LANE_MIN_UNSIGNED, LANE_32, finite, which, x, limit);
    struct pieces log2e = p_constant(MATH_LOG2_E, 2);
    struct pair halves = p_halves(l, val_x(finite));
    struct val sum = p_mac(l, val_bm(s), halves, p_pair(l, &log2e, 1, 1));
    sum = p_mac(l, sum, halves, p_pair(l, &log2e, 0, 0));
    return lanes_bm(l, &sum);
}

// Of eight keys of the mask the first four, then in a second pass the others.
void mx_add_mask(struct at_writer * w) {
    int none = asm_label_new(w->p), pass = asm_label_new(w->p);
    at_param(w, w->n, MX_NOW_SEEN);
    emit_add_small(w->p, w->n, w->n, -AT_SEEN_ALL);
    asm_jump_if_zero(w->p, w->n, none);
    at_param(w, w->c, MX_PARAM_MASK);
    for (int i = 1; i <= 2; i++) {
        emit_set_fixed(w->p, AIE_REG(AIE_DJ, WALK + i), VECTOR);
        emit_set_fixed(w->p, AIE_REG(AIE_M, WALK + i), (QUERIES + 1) * VECTOR);
        emit_set_fixed(w->p, AIE_REG(AIE_DN, WALK + i), QUERIES - 1);
        emit_set_fixed(w->p, AIE_REG(AIE_DC, WALK + i), 0);
    }
    int again = mx_units_begin(w);
    emit_set_small(w->p, w->d, 0);
    mx_point_unit(w, 0, MX_S, 12);
    asm_label(w->p, pass);
    at_copy(w, w->b, w->at[0]);
    at_copy(w, w->at[1], w->b);
    walk_mask(w);
    emit_set_small(w->p, w->step, MX_TURN_4X8);
    asm_loop_begin(w->p, w->n);
    struct asm_reg x = load_mask(w), turned = asm_local(w->p, ASM_X), four = asm_local(w->p, ASM_X);
    struct asm_reg s = asm_local(w->p, ASM_BM);
    emit_shuffle(w->p, turned, x, x, w->step);
    emit_shift_bytes(w->p, four, turned, turned, w->d);
    move_scores(w, s, false);
    move_scores(w, plus_mask(w, s, four), true);
    asm_loop_end(w->p);
    at_copy(w, w->at[0], w->b);
    emit_advance(w->p, w->at[0], QUERIES * VECTOR);
    emit_add_small(w->p, w->d, w->d, HALF);
    emit_add_small(w->p, w->n, w->d, -HALF);
    asm_jump_if_zero(w->p, w->n, pass);
    at_add_param(w, w->c, MX_PARAM_MASK_NEXT);
    mx_units_end(w, again);
    asm_label(w->p, none);
}

// Keys behind the last count for nothing, whatever stands there.
void mx_end_keys(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    int none = asm_label_new(w->p), all = asm_label_new(w->p);
    at_param(w, w->n, MX_NOW_BLOCKS);
    asm_jump_if_nonzero(w->p, w->n, none);
    at_param(w, w->n, MX_PARAM_SHORT);
    asm_jump_if_zero(w->p, w->n, none);
    int again = mx_units_begin(w);
    mx_point_unit(w, 0, MX_S, 12);
    at_copy(w, w->d, w->at[0]);
    at_add_param(w, w->d, MX_PARAM_END);
    at_copy(w, w->at[0], w->d);
    struct asm_reg keys = asm_global(w->p, ASM_R);
    at_param(w, keys, MX_PARAM_END_LANES);
    emit_set_small(w->p, w->n, QUERIES);
    asm_loop_begin(w->p, w->n);
    asm_loop_alone(w->p);
    struct asm_reg seen = emit_new_mask(w->p, LANE_32);
    at_copy(w, seen, keys);
    struct val s = at_load(w, MEM_S, w->at[0], 0);
    s = v_select(l, mask_in(seen), k_bits(l, MINUS_INFINITY), s);
    emit_store_next(w->p, MEM_S, lanes_x(l, &s), w->at[0]);
    asm_loop_end(w->p);
    asm_release(w->p, keys);
    at_param(w, w->n, MX_PARAM_END_TILES);
    asm_jump_if_zero(w->p, w->n, all);
    mx_fill(w, MEM_S, k_bits(l, MINUS_INFINITY));
    asm_label(w->p, all);
    mx_units_end(w, again);
    asm_label(w->p, none);
}

// ---- soft-max ----

// Of a unit's queries the largest and smallest integers of four keys' lanes: floats order like
// integers when one is positive, and the other way when all are negative.
static void largest(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    struct asm_reg best[QUERIES][2];
    int again = mx_units_begin(w);
    mx_point_unit(w, 0, MX_S, 12);
    mx_point_unit(w, 1, MX_LARGEST, 9);
    for (int i = 0; i < 2 * QUERIES; i++) {
        struct val first = k_bits(l, i % 2 ? 0x7fffffff : 0x80000000u);
        best[i / 2][i % 2] = asm_global(w->p, ASM_X);
        emit_move(w->p, best[i / 2][i % 2], lanes_x(l, &first));
    }
    emit_set_small(w->p, w->n, MX_KEYS / 8);
    asm_loop_begin(w->p, w->n);
    for (int i = 0; i < 2 * QUERIES; i++) {
        struct val s = lanes_load(l, w->at[0], MEM_S, true);
        for (int low = 0; low < 2; low++) {
            struct asm_reg which = emit_new_mask(w->p, LANE_32), b = best[i % QUERIES][low];
            emit_choose(w->p, low ? LANE_MIN : LANE_MAX, LANE_32, b, which, b, s.x[0]);
        }
    }
    asm_loop_end(w->p);
    for (int i = 0; i < 2 * QUERIES; i++) {
        emit_store(w->p, MEM_MADE, best[i / 2][i % 2], w->at[1], VECTOR * i);
    }
    for (int i = 0; i < 2 * QUERIES; i++) {
        asm_release(w->p, best[i / 2][i % 2]);
    }
    mx_units_end(w, again);
}

// What sums are relative to is raised where a score is beyond it.
static void raise(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    struct asm_reg raised = asm_global(w->p, ASM_X);
    struct val zero = k_bits(l, 0);
    emit_move(w->p, raised, lanes_x(l, &zero));
    mx_point(w, 0, MX_LARGEST);
    mx_point(w, 1, MX_STATE);
    mx_point(w, 2, MX_STATE);
    mx_point(w, 3, MX_FACTORS);
    mx_trips_of_units(w, 2);
    asm_loop_begin(w->p, w->n);
    asm_loop_alone(w->p);
    struct val high = mx_across_keys(w, i_max, lanes_load(l, w->at[0], MEM_MADE, true));
    struct val low = mx_across_keys(w, i_min, lanes_load(l, w->at[0], MEM_MADE, true));
    struct val most = v_select(l, m_negative(l, high), high, low);
    struct val old = at_load(w, MEM_STATE, w->at[1], 0);
    emit_advance(w->p, w->at[1], VECTOR);
    struct mask beyond = m_negative(l, f_sub(l, old, most));
    struct val ahead = f_add(l, most, k_float(l, AHEAD));
    struct val now = v_select(l, beyond, old, ahead);
    struct val by = f_sub(l, now, old);
    lanes_x(l, &by);
    emit_lanes(w->p, LANE_OR, LANE_32, raised, raised, by.x[0]);
    lanes_store(l, by, w->at[3], MEM_S_NEW, true);
    lanes_store(l, now, w->at[2], MEM_STATE_NEW, true);
    asm_loop_end(w->p);
    struct asm_reg same = emit_new_mask(w->p, LANE_32), all = asm_local(w->p, ASM_R);
    emit_is_zero(w->p, LANE_32, same, raised);
    at_copy(w, w->n, same);
    at_set(w, all, 0xffff);
    emit_alu(w->p, AIE_BASIC_AND, w->n, w->n, all);
    emit_alu(w->p, AIE_BASIC_SUB, w->n, w->n, all);
    at_keep(w, MX_NOW_RAISED, w->n);
    asm_release(w->p, raised);
}

// Then what was summed up so far becomes less.
static void shrink(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    int none = asm_label_new(w->p);
    at_param(w, w->n, MX_NOW_RAISED);
    asm_jump_if_zero(w->p, w->n, none);
    mx_point(w, 0, MX_FACTORS);
    mx_point(w, 1, MX_FACTORS);
    mx_point(w, 2, MX_SUMS);
    mx_point(w, 3, MX_SUMS);
    mx_trips_of_units(w, 2);
    asm_loop_begin(w->p, w->n);
    asm_loop_alone(w->p);
    struct val by = at_times(w, lanes_load(l, w->at[0], MEM_S, false), k_float(l, LN_2));
    struct val factor = m_fast_exp_minus(l, by);
    lanes_store(l, factor, w->at[1], MEM_S_NEW, false);
    struct val sum = at_times(w, lanes_load(l, w->at[2], MEM_SUMS, false), factor);
    lanes_store(l, sum, w->at[3], MEM_STATE, false);
    asm_loop_end(w->p);
    asm_label(w->p, none);
}

// 2^d of bf16, d not above 0. 2^f of what is left of d by integers is 1 + f (c1 + c2 f), which is
// as good as bf16; the integer, 128 times in its last bits, is added to the bits of that. What is
// too small is 0: of -127 the sum of bits is.
static struct asm_reg power_of_two(struct at_writer * w, struct val d) {
    enum { EVEN_16 = 2 };                            // a shuffle: of two vectors
    const float one = 0x1.8p23f, of_128 = 0x1.8p16f; // where a float's last bit is 1, and 1 / 128
    const float c1 = 0.7035f, c2 = 0.2426f;
    struct lanes * l = &w->lanes;
    struct val smallest = k_float(l, -127);
    struct asm_reg mask = emit_new_mask(w->p, LANE_32), least = emit_new_value(w->p);
    struct asm_reg x = lanes_x(l, &d), limit = lanes_x(l, &smallest);
    emit_choose(w->p, LANE_MIN_UNSIGNED, LANE_32, least, mask, x, limit);
    struct val t = val_x(least);
    lanes_bm(l, &t);
    struct val whole = f_add(l, t, k_float(l, one));
    struct val f = f_sub(l, t, f_sub(l, whole, k_float(l, one)));
    struct val bits = f_add(l, whole, k_float(l, of_128 - one));
    struct pair ff = p_twice(l, f), c22 = p_constants(l, c2 / 4, c2 / 4);
    struct val g = p_mac(l, k_float(l, c1 / 2), ff, c22);
    struct pair power = p_twice(l, p_mac(l, k_float(l, 1), ff, p_twice(l, g)));
    struct asm_reg mode = asm_local(w->p, ASM_R), even = asm_local(w->p, ASM_X);
    struct asm_reg v = lanes_x(l, &bits), result = asm_local(w->p, ASM_X);
    emit_set_small(w->p, mode, EVEN_16);
    emit_shuffle(w->p, even, v, v, mode);
    emit_lanes(w->p, LANE_ADD, LANE_16, result, power.x[0], even);
    return result;
}

static void exponentials(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    int again = mx_units_begin(w);
    mx_point_unit(w, 0, MX_S, 12);
    mx_point_unit(w, 1, MX_P, 11);
    mx_point_unit(w, 2, MX_STATE, 8);
    emit_set_fixed(w->p, AIE_REG(AIE_DJ, WALK), VECTOR);
    emit_set_fixed(w->p, AIE_REG(AIE_M, WALK), -(QUERIES - 1) * VECTOR);
    emit_set_fixed(w->p, AIE_REG(AIE_DN, WALK), QUERIES - 1);
    emit_set_fixed(w->p, AIE_REG(AIE_DC, WALK), 0);
    emit_set_small(w->p, w->n, QUERIES * MX_KEYS / 4);
    asm_loop_begin(w->p, w->n);
    struct asm_reg base = asm_local(w->p, ASM_BM);
    ASM_MEM(w->p, AIE2_VLDA_dmw_lda_am_ag_idx_imm, MEM_STATE, A_LO(base), A_REG(w->at[2]),
            A_IMM(0));
    ASM_MEM(w->p, AIE2_VLDA_2D_dmw_lda_am, MEM_STATE, A_HI(base), A_REG(w->at[2]),
            A_FIXED(AIE_REG(AIE_D, WALK)));
    struct asm_reg s = asm_local(w->p, ASM_BM);
    emit_load_next(w->p, MEM_S, s, w->at[0]);
    struct asm_reg e = power_of_two(w, f_sub(l, val_bm(s), val_bm(base)));
    emit_store_next(w->p, MEM_P, asm_half(e, 0), w->at[1]);
    asm_loop_end(w->p);
    mx_units_end(w, again);
}

static void add_up(struct at_writer * w) {
    struct asm_reg sums[QUERIES];
    int again = mx_units_begin(w);
    mx_point_unit(w, 0, MX_P, 11);
    mx_point_unit(w, 1, MX_SUMS, 8);
    for (int i = 0; i < QUERIES; i++) {
        sums[i] = asm_global(w->p, ASM_BM);
        emit_load(w->p, MEM_SUMS, sums[i], w->at[1], VECTOR * i);
    }
    emit_set_small(w->p, w->n, MX_KEYS / 8);
    asm_loop_begin(w->p, w->n);
    for (int i = 0; i < 2 * QUERIES; i++) {
        struct asm_reg p = emit_new_acc(w->p), sum = sums[i % QUERIES];
        emit_load_bf16_next(w->p, MEM_P, p, w->at[0]);
        emit_f_add(w->p, sum, sum, p, w->lanes.float_config);
    }
    asm_loop_end(w->p);
    for (int i = 0; i < QUERIES; i++) {
        emit_store(w->p, MEM_SUMS, sums[i], w->at[1], VECTOR * i);
    }
    for (int i = 0; i < QUERIES; i++) {
        asm_release(w->p, sums[i]);
    }
    mx_units_end(w, again);
}

void mx_soft(struct at_writer * w) {
    largest(w);
    raise(w);
    shrink(w);
    exponentials(w);
    add_up(w);
}
