// attention-matrix: the core program for prompts. It waits for parameters, then goes through items:
// makes its rows of q bf16, goes through the blocks of keys, and hands on what the sums have
// become. Where everything lies and what is turned over is said in attention-matrix.h; both
// products are those of aie2-matrix.c. A core without units takes part in all streams and computes
// nothing.
#include "attention-matrix.h"

#include "attention-program.h"

#include "aie/isa/aie2.h"
#include "aie/ops/convert/convert.h"
#include "aie/ops/lanes/math-fast.h"
#include "aie/ops/lanes/pieces.h"
#include "aie/verbs/verbs.h"

#define NO_CONSTANT    0x7fdeadadu // what stands in slots of parameters
#define FAR_BELOW      -1e30f      // what sums are relative to before there are any
#define AHEAD          12.0f       // of powers of two
#define MINUS_INFINITY 0xff800000u
#define LN_2           0.693147181f

enum { VECTOR = 64, HALF = 32, QUERIES = 4 /* vectors of a unit's queries */, UNIT_BYTES = 4096 };
enum { MEM_P = MEM_A, MEM_STATE_NEW = MEM_B, MEM_SUMS = MEM_OUT };
enum { WALK = 0 }; // of the address generators', where no product runs

struct mx_writer {
    struct at_writer w;
    struct asm_reg sixth; // pointer
    struct mx_registers product;
    int product_loop; // label
};

static void acquire(struct at_writer * w, int lock) {
    asm_lock_acquire(w->p, asm_target(w->p)->own_locks + lock, w->lanes.minus_one);
}

static void release_by(struct at_writer * w, int lock, struct asm_reg value) {
    asm_lock_release(w->p, asm_target(w->p)->own_locks + lock, value);
}

static void release(struct at_writer * w, int lock) {
    release_by(w, lock, w->lanes.one);
}

static void point(struct at_writer * w, int i, int32_t at) {
    at_set(w, w->at[i], at_address(w, at));
}

static void skip_without_units(struct at_writer * w, int label) {
    at_param(w, w->n, MX_PARAM_UNITS);
    asm_jump_if_zero(w->p, w->n, label);
}

// w->n: so many for each unit.
static void trips_of_units(struct at_writer * w, int bits) {
    struct asm_reg by = asm_local(w->p, ASM_R);
    at_param(w, w->n, MX_PARAM_UNITS);
    emit_set_small(w->p, by, bits);
    emit_alu(w->p, AIE_BASIC_SHIFT, w->n, w->n, by);
}

// Unit by unit: w->left are left, w->a is so many bytes further for each.
static int units_begin(struct at_writer * w) {
    int again = asm_label_new(w->p);
    at_param(w, w->left, MX_PARAM_UNITS);
    emit_set_small(w->p, w->a, 0);
    asm_label(w->p, again);
    return again;
}

static void units_end(struct at_writer * w, int again) {
    emit_add_small(w->p, w->a, w->a, 1);
    emit_add_small(w->p, w->left, w->left, -1);
    asm_jump_if_nonzero(w->p, w->left, again);
}

// A pointer to what unit w->a has, so many bits of bytes apart.
static void point_unit(struct at_writer * w, int i, int32_t at, int bits) {
    struct asm_reg by = asm_local(w->p, ASM_R), base = asm_local(w->p, ASM_R),
                   sum = asm_local(w->p, ASM_R);
    emit_set_small(w->p, by, bits);
    emit_alu(w->p, AIE_BASIC_SHIFT, by, w->a, by);
    at_set(w, base, at_address(w, at));
    at_add(w, sum, base, by);
    at_copy(w, w->at[i], sum);
}

// All lanes of a query folded: those of four keys.
static struct val across_keys(struct at_writer * w, lanes_fold fold, struct val v) {
    for (int bytes = VECTOR / 2; bytes >= VECTOR / 4; bytes /= 2) {
        struct asm_reg by = asm_local(w->p, ASM_R), turned = emit_new_value(w->p);
        struct asm_reg x = lanes_x(&w->lanes, &v);
        emit_set_small(w->p, by, bytes);
        emit_shift_bytes(w->p, turned, x, x, by);
        v = fold(&w->lanes, v, val_x(turned));
    }
    return v;
}

// ---- subroutines ----

// So many trips from w->a on become bf16.
static void convert_block(struct at_writer * w, int entry) {
    int none = asm_label_new(w->p);
    asm_label(w->p, entry);
    asm_jump_if_zero(w->p, w->n, none);
    for (int i = 0; i < 3; i++) {
        at_copy(w, w->at[i], w->a);
    }
    convert_loop(w->p, DTYPE_F16, w->n, w->at[0], w->at[1], w->at[2]);
    asm_label(w->p, none);
    asm_jump_pointer(w->p, w->back);
}

// Sums times factors, both to 16 bits: to their own place, or as they leave.
static void times_factors(struct at_writer * w, bool leave) {
    struct lanes * l = &w->lanes;
    enum { STEP = QUERIES * VECTOR };
    int unit, query = asm_label_new(w->p);
    unit = units_begin(w);
    point_unit(w, 2, MX_FACTORS, 8);
    point_unit(w, 0, MX_O, 12);
    point_unit(w, 1, leave ? MX_OUT : MX_O, 12);
    at_copy(w, w->b, w->at[0]);
    at_copy(w, w->c, w->at[1]);
    emit_set_small(w->p, w->d, QUERIES);
    asm_label(w->p, query);
    at_copy(w, w->at[0], w->b);
    at_copy(w, w->at[1], w->c);
    struct asm_reg by[2];
    for (int i = 0; i < 2; i++) {
        by[i] = asm_global(w->p, ASM_X);
    }
    struct pair pieces = p_halves(l, lanes_load(l, w->at[2], MEM_STATE, false));
    emit_move(w->p, by[0], pieces.x[0]);
    emit_move(w->p, by[1], p_swapped(l, pieces).x[0]);
    emit_set_small(w->p, w->n, MX_DIM / 4);
    asm_loop_begin(w->p, w->n);
    if (!leave) {
        asm_loop_alone(w->p); // seldom wanted
    }
    struct pair o = p_halves(l, at_load(w, MEM_O, w->at[0], 0));
    emit_advance(w->p, w->at[0], STEP);
    struct val product = p_mac(l, p_mul(l, o, pair_in(by[1])), o, pair_in(by[0]));
    emit_store(w->p, MEM_O_NEW, lanes_bm(l, &product), w->at[1], 0);
    emit_advance(w->p, w->at[1], leave ? VECTOR : STEP);
    asm_loop_end(w->p);
    for (int i = 0; i < 2; i++) {
        asm_release(w->p, by[i]);
    }
    struct asm_reg next = asm_local(w->p, ASM_R);
    emit_set_small(w->p, next, VECTOR);
    at_add(w, w->b, w->b, next);
    emit_set_small(w->p, next, leave ? MX_DIM / 4 * VECTOR / 2 : VECTOR / 2);
    at_add(w, w->c, w->c, next);
    at_add(w, w->c, w->c, next);
    emit_add_small(w->p, w->d, w->d, -1);
    asm_jump_if_nonzero(w->p, w->d, query);
    units_end(w, unit);
}

// So many vectors (w->n) at at[0] become a number.
static void fill(struct at_writer * w, int memory, struct val v) {
    struct asm_reg x = asm_global(w->p, (enum asm_class) asm_target(w->p)->value_class);
    emit_move(w->p, x, lanes_x(&w->lanes, &v));
    asm_loop_begin(w->p, w->n);
    asm_loop_alone(w->p);
    emit_store_next(w->p, memory, x, w->at[0]);
    asm_loop_end(w->p);
    asm_release(w->p, x);
}

static void fill_all(struct at_writer * w, int memory, int32_t at, int vectors, float v) {
    point(w, 0, at);
    at_set(w, w->n, vectors);
    fill(w, memory, v == 0 ? k_bits(&w->lanes, 0) : k_float(&w->lanes, v));
}

// ---- rows ----

static void begin_rows(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    int four = asm_label_new(w->p);
    lanes_set_param(l, AT_SLOT_SCALE, at_local_param(w, MX_PARAM_SCALE));
    at_copy(w, w->at[0], at_local_param(w, MX_PARAM_RAW));
    int again = units_begin(w);
    point_unit(w, 1, MX_Q, 11);
    at_copy(w, w->b, w->at[1]);
    emit_set_small(w->p, w->d, QUERIES);
    asm_label(w->p, four);
    at_copy(w, w->at[1], w->b);
    emit_set_small(w->p, w->n, MX_DIM / 4);
    asm_loop_begin(w->p, w->n);
    struct val q = at_times(w, lanes_load(l, w->at[0], MEM_Q, false), lanes_get(AT_SLOT_SCALE));
    emit_store_bf16(w->p, MEM_S, lanes_bm(l, &q), w->at[1], 0);
    emit_advance(w->p, w->at[1], MX_GROUP);
    asm_loop_end(w->p);
    emit_add_small(w->p, w->b, w->b, HALF);
    emit_add_small(w->p, w->d, w->d, -1);
    asm_jump_if_nonzero(w->p, w->d, four);
    units_end(w, again);
    fill_all(w, MEM_STATE, MX_STATE, MX_CORE_UNITS * QUERIES, FAR_BELOW);
    fill_all(w, MEM_SUMS, MX_SUMS, MX_CORE_UNITS * QUERIES, 0);
    fill_all(w, MEM_O, MX_O, MX_CORE_UNITS * UNIT_BYTES / VECTOR, 0);
}

// Factors become 1 / the sums; 0 where these are 0.
static void invert_sums(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    point(w, 0, MX_SUMS);
    point(w, 1, MX_FACTORS);
    trips_of_units(w, 2);
    asm_loop_begin(w->p, w->n);
    asm_loop_alone(w->p);
    struct val sum = across_keys(w, f_add, lanes_load(l, w->at[0], MEM_SUMS, false));
    struct val inverse = m_fast_inverse(l, m_fast_invert(l, sum));
    inverse = v_select(l, m_zero(l, sum), inverse, k_bits(l, 0));
    lanes_store(l, inverse, w->at[1], MEM_STATE, false);
    asm_loop_end(w->p);
}

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

// Goes to the label where the mask leaves nothing of this block to any row; notes where it takes
// nothing away.
static void skip_masked(struct at_writer * w, int label) {
    enum { MINUS_INFINITY_F16 = 0xfc00 };
    struct asm_program * p = w->p;
    int none = asm_label_new(p), some = asm_label_new(p);
    at_keep(w, MX_NOW_SEEN, w->lanes.one);
    at_param(w, w->c, MX_PARAM_MASK);
    asm_jump_if_zero(p, w->c, none);
    struct asm_reg nothing = asm_global(p, ASM_X), other = asm_global(p, ASM_X);
    struct asm_reg any = asm_global(p, ASM_X), bits = asm_local(p, ASM_R);
    at_set(w, bits, MINUS_INFINITY_F16);
    emit_splat(p, LANE_16, nothing, bits);
    emit_lanes(p, LANE_SUB, LANE_16, other, nothing, nothing);
    emit_lanes(p, LANE_SUB, LANE_16, any, nothing, nothing);
    int again = units_begin(w);
    walk_mask(w);
    asm_loop_begin(p, w->n);
    struct asm_reg x = load_mask(w), d = asm_local(p, ASM_X);
    emit_lanes(p, LANE_SUB, LANE_16, d, x, nothing);
    emit_lanes(p, LANE_OR, LANE_16, other, other, d);
    emit_lanes(p, LANE_OR, LANE_16, any, any, x);
    asm_loop_end(p);
    at_add_param(w, w->c, MX_PARAM_MASK_NEXT);
    units_end(w, again);
    struct asm_reg same = emit_new_mask(p, LANE_16), zero = emit_new_mask(p, LANE_16);
    struct asm_reg masked = asm_local(p, ASM_R), is_masked = asm_local(p, ASM_R);
    emit_is_zero(p, LANE_16, same, other);
    emit_is_zero(p, LANE_16, zero, any);
    at_copy(w, w->n, same);
    emit_add_small(p, w->n, w->n, 1); // of all bits 0
    at_copy(w, masked, zero);
    emit_add_small(p, masked, masked, 1);
    emit_not_zero(p, is_masked, masked);
    emit_add_small(p, is_masked, is_masked, AT_SEEN_ALL);
    at_keep(w, MX_NOW_SEEN, is_masked);
    asm_release(p, nothing);
    asm_release(p, other);
    asm_release(p, any);
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
    struct val mask = lanes_of_f16(l, raw), lowest = k_float(l, FAR_BELOW);
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
static void add_mask(struct at_writer * w) {
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
    int again = units_begin(w);
    emit_set_small(w->p, w->d, 0);
    point_unit(w, 0, MX_S, 12);
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
    units_end(w, again);
    asm_label(w->p, none);
}

// Keys behind the last count for nothing, whatever stands there.
static void end_keys(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    int none = asm_label_new(w->p), all = asm_label_new(w->p);
    at_param(w, w->n, MX_NOW_BLOCKS);
    asm_jump_if_nonzero(w->p, w->n, none);
    at_param(w, w->n, MX_PARAM_SHORT);
    asm_jump_if_zero(w->p, w->n, none);
    int again = units_begin(w);
    point_unit(w, 0, MX_S, 12);
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
    fill(w, MEM_S, k_bits(l, MINUS_INFINITY));
    asm_label(w->p, all);
    units_end(w, again);
    asm_label(w->p, none);
}

// ---- soft-max ----

// Of a unit's queries the largest and smallest integers of four keys' lanes: floats order like
// integers when one is positive, and the other way when all are negative.
static void largest(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    struct asm_reg best[QUERIES][2];
    int again = units_begin(w);
    point_unit(w, 0, MX_S, 12);
    point_unit(w, 1, MX_LARGEST, 9);
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
    units_end(w, again);
}

// What sums are relative to is raised where a score is beyond it.
static void raise(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    struct asm_reg raised = asm_global(w->p, ASM_X);
    struct val zero = k_bits(l, 0);
    emit_move(w->p, raised, lanes_x(l, &zero));
    point(w, 0, MX_LARGEST);
    point(w, 1, MX_STATE);
    point(w, 2, MX_STATE);
    point(w, 3, MX_FACTORS);
    trips_of_units(w, 2);
    asm_loop_begin(w->p, w->n);
    asm_loop_alone(w->p);
    struct val high = across_keys(w, i_max, lanes_load(l, w->at[0], MEM_MADE, true));
    struct val low = across_keys(w, i_min, lanes_load(l, w->at[0], MEM_MADE, true));
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
    point(w, 0, MX_FACTORS);
    point(w, 1, MX_FACTORS);
    point(w, 2, MX_SUMS);
    point(w, 3, MX_SUMS);
    trips_of_units(w, 2);
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
    int again = units_begin(w);
    point_unit(w, 0, MX_S, 12);
    point_unit(w, 1, MX_P, 11);
    point_unit(w, 2, MX_STATE, 8);
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
    units_end(w, again);
}

static void add_up(struct at_writer * w) {
    struct asm_reg sums[QUERIES];
    int again = units_begin(w);
    point_unit(w, 0, MX_P, 11);
    point_unit(w, 1, MX_SUMS, 8);
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
    units_end(w, again);
}

// ---- products ----

static void multiply(struct mx_writer * m, const struct mx_product * of) {
    struct at_writer * w = &m->w;
    trips_of_units(w, 3);
    mx_product_at(w->p, &m->product, of);
    at_call(w, m->product_loop);
}

static void scores(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    emit_add_small(w->p, m->product.first, m->product.conf, 1); // nothing is summed up yet
    multiply(m, &(struct mx_product){.x = at_address(w, MX_K),
                                     .x_step = 16 * MX_KEYS,
                                     .x_next = MX_TILE,
                                     .y = at_address(w, MX_Q),
                                     .y_step = 2 * MX_GROUP,
                                     .y_next = UNIT_BYTES / 2,
                                     .c = at_address(w, MX_S),
                                     .c_second = UNIT_BYTES / 2,
                                     .c_next = QUERIES * VECTOR,
                                     .c_more = UNIT_BYTES / 2,
                                     .turn = MX_TURN_NONE});
}

static void values(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    emit_copy(w->p, m->product.first, m->product.conf);
    multiply(m, &(struct mx_product){.x = at_address(w, MX_V),
                                     .x_step = MX_TILE,
                                     .x_next = 2 * MX_X_APART,
                                     .y = at_address(w, MX_P),
                                     .y_step = 2 * MX_GROUP,
                                     .y_next = UNIT_BYTES / 2,
                                     .c = at_address(w, MX_O),
                                     .c_second = QUERIES * VECTOR,
                                     .c_next = 2 * QUERIES * VECTOR,
                                     .turn = MX_TURN_8X4});
}

// ---- the program ----

static void take_registers(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    struct asm_reg * const scalars[] = {
        &w->left,          &w->n,           &w->a, &w->b, &w->c, &w->d, &w->step, &m->product.conf,
        &m->product.first, &m->product.mode};
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        *scalars[i] = asm_global(w->p, ASM_R);
    }
    for (int i = 0; i < AT_POINTERS; i++) {
        m->product.pointers[i] = w->at[i] = asm_global(w->p, ASM_P);
    }
    m->product.pointers[AT_POINTERS] = m->sixth = asm_global(w->p, ASM_P);
    w->back = asm_global(w->p, ASM_P);
}

// Gives a buffer for the next block, where there is one. Of a short one, what is behind its values
// has a weight of 0, but must be a number.
static void give(struct at_writer * w, int lock) {
    emit_not_zero(w->p, w->n, at_local_param(w, MX_NOW_BLOCKS));
    release_by(w, lock, w->n);
}

static void clear_values(struct at_writer * w) {
    int none = asm_label_new(w->p);
    at_param(w, w->n, MX_PARAM_SHORT);
    asm_jump_if_zero(w->p, w->n, none);
    at_param(w, w->n, MX_NOW_BLOCKS);
    emit_add_small(w->p, w->n, w->n, -1);
    asm_jump_if_nonzero(w->p, w->n, none);
    fill_all(w, MEM_V, MX_V, 2 * MX_DIM * MX_KEYS / VECTOR, 0);
    asm_label(w->p, none);
}

static void give_mask(struct at_writer * w) {
    struct asm_reg is_mask = asm_local(w->p, ASM_R), is_block = asm_local(w->p, ASM_R);
    emit_not_zero(w->p, is_mask, at_local_param(w, MX_PARAM_MASK));
    emit_not_zero(w->p, is_block, at_local_param(w, MX_NOW_BLOCKS));
    emit_alu(w->p, AIE_BASIC_AND, w->n, is_mask, is_block);
    release_by(w, AT_LOCK_MASK_EMPTY, w->n);
}

static void place_all(struct asm_program * p) {
    static const struct {
        int memory;
        uint32_t at;
    } places[] = {{MEM_POOL, 0},
                  {MEM_Q, MX_Q},
                  {MEM_P, MX_P},
                  {MEM_K, MX_K},
                  {MEM_V, MX_V},
                  {MEM_S, MX_S},
                  {MEM_S_NEW, MX_S},
                  {MEM_O, MX_O},
                  {MEM_O_NEW, MX_O},
                  {MEM_STATE, MX_STATE},
                  {MEM_MASK, MX_MASK},
                  {MEM_SUMS, MX_SUMS},
                  {MEM_STATE_NEW, MX_STATE}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        asm_place(p, places[i].memory, places[i].at);
    }
}

static void write_program(struct mx_writer * m) {
    enum { CONFIG_BF16 = 28 };
    struct at_writer * w = &m->w;
    struct asm_program * p = w->p;
    int wait = asm_label_new(p), item = asm_label_new(p), begun = asm_label_new(p);
    int block = asm_label_new(p), k_done = asm_label_new(p), v_done = asm_label_new(p);
    int item_done = asm_label_new(p), no_mask = asm_label_new(p), first = asm_label_new(p);
    int no_out = asm_label_new(p);
    w->convert = asm_label_new(p);
    m->product_loop = asm_label_new(p);
    take_registers(m);
    lanes_begin(&w->lanes, p, DTYPE_F32, true, at_address(w, AT_POOL));
    w->lanes.hole = AT_SLOT_PARAMS;
    w->lanes.hole_end = AT_SLOT_PARAMS_END;
    for (int i = AT_SLOT_PARAMS; i < AT_SLOT_PARAMS_END; i++) {
        w->lanes.consts[i] = NO_CONSTANT;
    }
    w->lanes.shift13 = asm_global(p, ASM_S);
    emit_set_small(p, w->n, 13);
    at_copy(w, w->lanes.shift13, w->n);
    emit_set(p, m->product.conf, CONFIG_BF16);
    place_all(p);

    asm_label(p, wait);
    acquire(w, AT_LOCK_GO);
    at_keep(w, MX_NOW_ITEMS, at_local_param(w, MX_PARAM_ITEMS));
    asm_label(p, item);
    skip_without_units(w, no_out);
    acquire(w, AT_LOCK_OUT_EMPTY); // its place is among those where q comes
    asm_label(p, no_out);
    release(w, AT_LOCK_Q_EMPTY);
    acquire(w, AT_LOCK_Q_FULL);
    skip_without_units(w, begun);
    begin_rows(w);
    asm_label(p, begun);
    at_keep(w, MX_NOW_BLOCKS, at_local_param(w, MX_PARAM_BLOCKS));
    clear_values(w);
    release(w, AT_LOCK_K_EMPTY);
    release(w, AT_LOCK_V_EMPTY);
    give_mask(w);
    emit_set_small(p, w->n, 0);
    at_keep(w, MX_NOW_SUMS, w->n);

    asm_label(p, block);
    at_param(w, w->n, MX_NOW_BLOCKS);
    emit_add_small(p, w->n, w->n, -1);
    at_keep(w, MX_NOW_BLOCKS, w->n);
    at_param(w, w->n, MX_PARAM_MASK);
    asm_jump_if_zero(p, w->n, no_mask);
    acquire(w, AT_LOCK_MASK_FULL);
    asm_label(p, no_mask);
    acquire(w, AT_LOCK_K_FULL);
    skip_without_units(w, k_done);
    skip_masked(w, k_done);
    at_param(w, w->n, MX_PARAM_K_TRIPS);
    at_set(w, w->a, at_address(w, MX_K));
    at_call(w, w->convert);
    scores(m);
    give(w, AT_LOCK_K_EMPTY);
    end_keys(w);
    add_mask(w);
    give_mask(w);
    largest(w);
    raise(w);
    shrink(w);
    exponentials(w);
    add_up(w);
    acquire(w, AT_LOCK_V_FULL);
    at_param(w, w->n, MX_PARAM_V_TRIPS);
    at_set(w, w->a, at_address(w, MX_V));
    at_call(w, w->convert);
    at_param(w, w->n, MX_NOW_SUMS);
    asm_jump_if_zero(p, w->n, first);
    at_param(w, w->n, MX_NOW_RAISED);
    asm_jump_if_zero(p, w->n, first);
    times_factors(w, false);
    asm_label(p, first);
    values(m);
    at_keep(w, MX_NOW_SUMS, w->lanes.one);
    asm_jump(p, v_done);
    asm_label(p, k_done); // nothing is seen of it
    give(w, AT_LOCK_K_EMPTY);
    give_mask(w);
    acquire(w, AT_LOCK_V_FULL);
    asm_label(p, v_done);
    clear_values(w);
    give(w, AT_LOCK_V_EMPTY);
    at_param(w, w->n, MX_NOW_BLOCKS);
    asm_jump_if_nonzero(p, w->n, block);

    skip_without_units(w, item_done);
    invert_sums(w);
    times_factors(w, true);
    release(w, AT_LOCK_OUT_FULL);
    asm_label(p, item_done);
    at_param(w, w->n, MX_NOW_ITEMS);
    emit_add_small(p, w->n, w->n, -1);
    at_keep(w, MX_NOW_ITEMS, w->n);
    asm_jump_if_nonzero(p, w->n, item);
    asm_jump(p, wait);
    convert_block(w, w->convert);
    asm_label(p, m->product_loop);
    mx_product_loop(p, &m->product, w->n);
    asm_jump_pointer(p, w->back);
}

enum status mx_program(enum aie_arch arch, struct at_code * out, struct error * err) {
    struct mx_writer m = {0};
    if (asm_new(arch, &m.w.p) != ST_OK) {
        return error_set(err, ST_NO_MEMORY, "aie: out of memory");
    }
    write_program(&m);
    enum status st = asm_finish(m.w.p, &out->code, err);
    lanes_pool_bytes(&m.w.lanes, out->pool);
    asm_free(m.w.p);
    return st == ST_OK ? ST_OK : error_prefix(err, st, "aie: attention_matrix");
}
