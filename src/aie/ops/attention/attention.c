// attention: the core program. It waits for parameters, then goes through items: takes rows of q
// and makes them bf16, goes through the blocks of keys, and hands on what the sums have become.
// Every lock is back at its first value when a run is over. A core without rows takes part in all
// that, because streams go at the pace of the slowest, and computes nothing.
#include "attention-program.h"

#include "aie/ops/convert/convert.h"
#include "aie/ops/lanes/math-fast.h"
#include "aie/ops/lanes/pieces.h"
#include "aie/verbs/verbs.h"

#define NO_CONSTANT 0x7fdeadadu // a NaN that nobody asks for: what stands in slots of parameters
#define FAR_BELOW   -1e30f      // the largest score of a row of which nothing was seen

// ---- words that all files use ----

int32_t at_address(const struct at_writer * w, int32_t at) {
    return (int32_t) asm_target(w->p)->own_window + at;
}

void at_param(struct at_writer * w, struct asm_reg to, int param) {
    emit_load_word(w->p, MEM_PARAMS, to, w->lanes.pool,
                   lanes_slot_offset(AT_SLOT_PARAMS) + 4 * param);
}

void at_keep(struct at_writer * w, int param, struct asm_reg from) {
    emit_store_word(w->p, MEM_PARAMS, from, w->lanes.pool,
                    lanes_slot_offset(AT_SLOT_PARAMS) + 4 * param);
}

struct asm_reg at_local_param(struct at_writer * w, int param) {
    struct asm_reg r = asm_local(w->p, ASM_R);
    at_param(w, r, param);
    return r;
}

void at_add(struct at_writer * w, struct asm_reg to, struct asm_reg a, struct asm_reg b) {
    emit_alu(w->p, AIE_BASIC_ADD, to, a, b);
}

void at_add_param(struct at_writer * w, struct asm_reg to, int param) {
    at_add(w, to, to, at_local_param(w, param));
}

void at_copy(struct at_writer * w, struct asm_reg to, struct asm_reg from) {
    emit_copy(w->p, to, from);
}

void at_set(struct at_writer * w, struct asm_reg to, int32_t value) {
    emit_set(w->p, to, value);
}

struct val at_load(struct at_writer * w, int memory, struct asm_reg pointer, int32_t offset) {
    struct asm_reg x = emit_new_value(w->p);
    emit_load(w->p, memory, x, pointer, offset);
    return val_x(x);
}

void at_store(struct at_writer * w, int memory, struct val v, struct asm_reg pointer,
              int32_t offset) {
    emit_store(w->p, memory, lanes_x(&w->lanes, &v), pointer, offset);
}

struct val at_times(struct at_writer * w, struct val a, struct val b) {
    struct pieces pa = p_split(&w->lanes, a, 3), pb = p_split(&w->lanes, b, 3);
    return p_mul_n(&w->lanes, &pa, &pb, 3);
}

void at_next_state(struct at_writer * w, struct asm_reg state) {
    struct asm_reg by = asm_local(w->p, ASM_R);
    emit_set_small(w->p, by, AT_STATE_STEP);
    at_add(w, state, state, by);
}

void at_next_head(struct at_writer * w, int same_query) {
    struct asm_reg heads = asm_local(w->p, ASM_R);
    emit_add_small(w->p, w->d, w->d, 1);
    at_param(w, heads, AT_PARAM_HEADS);
    emit_alu(w->p, AIE_BASIC_SUB, w->n, heads, w->d);
    asm_jump_if_nonzero(w->p, w->n, same_query);
    emit_set_small(w->p, w->d, 0);
}

void at_acquire(struct at_writer * w, int lock) {
    asm_lock_acquire(w->p, asm_target(w->p)->own_locks + lock, w->lanes.minus_one);
}

void at_release_by(struct at_writer * w, int lock, struct asm_reg value) {
    asm_lock_release(w->p, asm_target(w->p)->own_locks + lock, value);
}

void at_release(struct at_writer * w, int lock) {
    at_release_by(w, lock, w->lanes.one);
}

static void region_end(struct at_writer * w) {
    asm_label(w->p, asm_label_new(w->p));
}

// Goes to the label where the core has no rows.
static void skip_without_rows(struct at_writer * w, int label) {
    at_param(w, w->n, AT_PARAM_ROWS);
    asm_jump_if_zero(w->p, w->n, label);
}

// ---- subroutines ----

void at_call(struct at_writer * w, int label) {
    int then = asm_label_new(w->p);
    emit_set_label(w->p, w->back, then);
    asm_jump(w->p, label);
    asm_label(w->p, then);
}

// So many trips from w->a on become bf16.
void at_convert_block(struct at_writer * w) {
    int none = asm_label_new(w->p);
    asm_label(w->p, w->convert);
    asm_jump_if_zero(w->p, w->n, none);
    for (int i = 0; i < 3; i++) {
        at_copy(w, w->at[i], w->a);
    }
    convert_loop(w->p, DTYPE_F16, false, w->n, w->at[0], w->at[1], w->at[2]);
    asm_label(w->p, none);
    asm_jump_pointer(w->p, w->back);
}

// Every row's sums times its factor, both to 16 bits: what is summed up are products of bf16.
static void times_factor(struct at_writer * w, int entry) {
    struct lanes * l = &w->lanes;
    int row = asm_label_new(w->p);
    asm_label(w->p, entry);
    at_param(w, w->left, AT_PARAM_ROWS);
    at_param(w, w->a, AT_PARAM_O);
    at_param(w, w->b, AT_PARAM_STATE);
    asm_label(w->p, row);
    at_copy(w, w->at[0], w->a);
    at_copy(w, w->at[1], w->a);
    at_copy(w, w->at[2], w->b);
    struct asm_reg by[2]; // its pieces, and the other way around
    for (int i = 0; i < 2; i++) {
        by[i] = asm_global(w->p, ASM_X);
    }
    struct pair pieces = p_halves(l, at_load(w, MEM_STATE, w->at[2], AT_STATE_FACTOR));
    emit_move(w->p, by[0], pieces.x[0]);
    emit_move(w->p, by[1], p_swapped(l, pieces).x[0]);
    at_param(w, w->n, AT_PARAM_V_VECTORS);
    asm_loop_begin(w->p, w->n);
    asm_loop_alone(w->p); // too few trips to fill a pipeline of its latency
    struct pair o = p_halves(l, lanes_load(l, w->at[0], MEM_O, false));
    struct val product = p_mac(l, p_mul(l, o, pair_in(by[1])), o, pair_in(by[0]));
    lanes_store(l, product, w->at[1], MEM_O_NEW, false);
    asm_loop_end(w->p);
    for (int i = 0; i < 2; i++) {
        asm_release(w->p, by[i]);
    }
    at_next_state(w, w->b);
    at_add_param(w, w->a, AT_PARAM_O_STEP);
    emit_add_small(w->p, w->left, w->left, -1);
    asm_jump_if_nonzero(w->p, w->left, row);
    asm_jump_pointer(w->p, w->back);
}

// ---- rows ----

// A row's q times the scale, as bf16; no sum yet.
static void begin_row(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    at_copy(w, w->at[0], w->a);
    at_copy(w, w->at[1], w->b);
    at_param(w, w->n, AT_PARAM_Q_VECTORS);
    asm_loop_begin(w->p, w->n);
    asm_loop_alone(w->p);
    struct val q = at_times(w, lanes_load(l, w->at[0], MEM_Q, false), lanes_get(AT_SLOT_SCALE));
    emit_store_bf16_next(w->p, MEM_S, lanes_bm(l, &q), w->at[1]);
    asm_loop_end(w->p);

    struct asm_reg at = asm_local(w->p, ASM_R), sink = asm_local(w->p, ASM_R),
                   is_sink = emit_new_mask(w->p, LANE_32), x = emit_new_value(w->p);
    at_set(w, at, at_address(w, AT_SINKS_AT));
    for (int i = 0; i < 4; i++) {
        at_add(w, at, at, w->d);
    }
    at_copy(w, w->at[2], at);
    emit_load_word(w->p, MEM_MASK, sink, w->at[2], 0);
    emit_splat(w->p, LANE_32, x, sink);
    at_param(w, is_sink, AT_PARAM_SINKS);
    at_copy(w, w->at[3], w->c);
    struct val m = v_select(l, mask_in(is_sink), k_float(l, FAR_BELOW), val_x(x));
    struct val share = k_float(l, 1.0f / AT_LANES);
    struct val sum = v_select(l, mask_in(is_sink), k_bits(l, 0), share);
    at_store(w, MEM_STATE, m, w->at[3], AT_STATE_M);
    at_store(w, MEM_STATE, sum, w->at[3], AT_STATE_SUM);
    region_end(w);

    struct val zero = k_bits(l, 0);
    struct asm_reg none = asm_global(w->p, (enum asm_class) asm_target(w->p)->value_class);
    emit_move(w->p, none, lanes_x(l, &zero));
    at_copy(w, w->at[1], w->step);
    at_param(w, w->n, AT_PARAM_V_VECTORS);
    asm_loop_begin(w->p, w->n);
    asm_loop_alone(w->p);
    emit_store_next(w->p, MEM_O, none, w->at[1]);
    asm_loop_end(w->p);
    asm_release(w->p, none);
}

static void begin_rows(struct at_writer * w) {
    int row = asm_label_new(w->p), same_query = asm_label_new(w->p);
    lanes_set_param(&w->lanes, AT_SLOT_SCALE, at_local_param(w, AT_PARAM_SCALE));
    lanes_set_param(&w->lanes, AT_SLOT_CAP, at_local_param(w, AT_PARAM_CAP));
    at_param(w, w->left, AT_PARAM_ROWS);
    at_param(w, w->a, AT_PARAM_Q_RAW);
    at_param(w, w->b, AT_PARAM_Q);
    at_param(w, w->c, AT_PARAM_STATE);
    at_param(w, w->d, AT_PARAM_HEAD);
    at_param(w, w->step, AT_PARAM_O);
    asm_label(w->p, row);
    begin_row(w);
    at_add_param(w, w->a, AT_PARAM_Q_RAW_STEP);
    at_add_param(w, w->b, AT_PARAM_Q_STEP);
    at_next_state(w, w->c);
    at_add_param(w, w->step, AT_PARAM_O_STEP);
    at_next_head(w, same_query);
    asm_label(w->p, same_query);
    emit_add_small(w->p, w->left, w->left, -1);
    asm_jump_if_nonzero(w->p, w->left, row);
}

// The factor of a row becomes 1 / its sum; 0 where that is 0.
static void invert_sums(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    int row = asm_label_new(w->p);
    at_param(w, w->left, AT_PARAM_ROWS);
    at_param(w, w->b, AT_PARAM_STATE);
    asm_label(w->p, row);
    at_copy(w, w->at[2], w->b);
    struct val sum = lanes_across(&w->lanes, f_add, at_load(w, MEM_STATE, w->at[2], AT_STATE_SUM));
    lanes_put(&w->lanes, AT_SLOT_M, sum);
    region_end(w);
    struct val all = lanes_get(AT_SLOT_M), inverse = m_fast_inverse(l, m_fast_invert(l, all));
    struct val zero = k_bits(l, 0);
    inverse = v_select(l, m_zero(l, lanes_get(AT_SLOT_M)), inverse, zero);
    at_store(w, MEM_STATE, inverse, w->at[2], AT_STATE_FACTOR);
    at_next_state(w, w->b);
    emit_add_small(w->p, w->left, w->left, -1);
    asm_jump_if_nonzero(w->p, w->left, row);
}

// Behind an odd number of keys one more value is multiplied, with weight 0. It is cleared, because
// it may be a NaN.
static void clear_behind(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    int none = asm_label_new(w->p);
    at_param(w, w->n, AT_NOW_BLOCKS);
    asm_jump_if_nonzero(w->p, w->n, none);
    at_param(w, w->n, AT_PARAM_EMPTY);
    asm_jump_if_zero(w->p, w->n, none);
    at_copy(w, w->at[0], w->n);
    struct val zero = k_bits(l, 0);
    struct asm_reg nothing = asm_global(w->p, (enum asm_class) asm_target(w->p)->value_class);
    emit_move(w->p, nothing, lanes_x(l, &zero));
    at_param(w, w->n, AT_PARAM_V_VECTORS);
    asm_loop_begin(w->p, w->n);
    asm_loop_alone(w->p);
    emit_store_next(w->p, MEM_V, asm_half(nothing, 0), w->at[0]);
    asm_loop_end(w->p);
    asm_release(w->p, nothing);
    asm_label(w->p, none);
}

// ---- the program ----

static void take_registers(struct at_writer * w) {
    struct asm_reg * const scalars[] = {&w->left, &w->n, &w->a, &w->b, &w->c, &w->d, &w->step};
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        *scalars[i] = asm_global(w->p, ASM_R);
    }
    for (int i = 0; i < AT_POINTERS; i++) {
        w->at[i] = asm_global(w->p, ASM_P);
    }
    w->back = asm_global(w->p, ASM_P);
}

static void begin_block(struct at_writer * w) {
    int not_last = asm_label_new(w->p);
    at_param(w, w->n, AT_NOW_BLOCKS);
    at_param(w, w->a, AT_PARAM_VECTORS);
    at_param(w, w->b, AT_PARAM_PAIRS);
    emit_add_small(w->p, w->n, w->n, -1);
    at_keep(w, AT_NOW_BLOCKS, w->n);
    asm_jump_if_nonzero(w->p, w->n, not_last);
    at_param(w, w->a, AT_PARAM_VECTORS_LAST);
    at_param(w, w->b, AT_PARAM_PAIRS_LAST);
    asm_label(w->p, not_last);
    at_keep(w, AT_NOW_VECTORS, w->a);
    at_keep(w, AT_NOW_PAIRS, w->b);
}

// Gives a buffer for the next block, where there is one.
static void give(struct at_writer * w, int lock) {
    emit_not_zero(w->p, w->n, at_local_param(w, AT_NOW_BLOCKS));
    at_release_by(w, lock, w->n);
}

// Room for the first mask, where there is one.
static void release_mask(struct at_writer * w) {
    emit_not_zero(w->p, w->n, at_local_param(w, AT_PARAM_MASK));
    at_release_by(w, AT_LOCK_MASK_EMPTY, w->n);
    emit_set_small(w->p, w->n, 0);
    at_keep(w, AT_NOW_MASKS, w->n);
}

// The mask of this block, where there is one, came with it or with an earlier one.
static void begin_mask(struct at_writer * w) {
    int there = asm_label_new(w->p);
    at_param(w, w->a, AT_PARAM_MASK);
    asm_jump_if_zero(w->p, w->a, there);
    at_param(w, w->b, AT_NOW_MASKS);
    asm_jump_if_nonzero(w->p, w->b, there);
    at_acquire(w, AT_LOCK_MASK_FULL);
    at_param(w, w->b, AT_PARAM_MASK_BLOCKS);
    at_keep(w, AT_NOW_MASK, w->a);
    at_keep(w, AT_NOW_MASKS, w->b);
    asm_label(w->p, there);
}

// ---- the mask ----

struct at_mask at_mask_begin(struct at_writer * w) {
    enum { MINUS_INFINITY_F16 = 0xfc00 };
    struct asm_program * p = w->p;
    enum asm_class vector = (enum asm_class) asm_target(p)->value_class;
    struct at_mask m = {.nothing = asm_global(p, vector),
                        .other = asm_global(p, vector),
                        .any = asm_global(p, vector)};
    struct asm_reg bits = asm_local(p, ASM_R);
    at_set(w, bits, MINUS_INFINITY_F16);
    emit_splat(p, LANE_16, m.nothing, bits);
    emit_lanes(p, LANE_SUB, LANE_16, m.other, m.nothing, m.nothing);
    emit_lanes(p, LANE_SUB, LANE_16, m.any, m.nothing, m.nothing);
    return m;
}

void at_mask_look(struct at_writer * w, const struct at_mask * m, struct asm_reg x,
                  struct asm_reg d) {
    emit_lanes(w->p, LANE_SUB, LANE_16, d, x, m->nothing);
    emit_lanes(w->p, LANE_OR, LANE_16, m->other, m->other, d);
    emit_lanes(w->p, LANE_OR, LANE_16, m->any, m->any, x);
}

void at_mask_end(struct at_writer * w, const struct at_mask * m, int seen) {
    struct asm_program * p = w->p;
    struct asm_reg same = emit_new_mask(p, LANE_16), zero = emit_new_mask(p, LANE_16);
    struct asm_reg masked = asm_local(p, ASM_R), is_masked = asm_local(p, ASM_R);
    emit_is_zero(p, LANE_16, same, m->other);
    emit_is_zero(p, LANE_16, zero, m->any);
    at_copy(w, w->n, same);
    emit_add_small(p, w->n, w->n, 1); // of all bits 0
    at_copy(w, masked, zero);
    emit_add_small(p, masked, masked, 1);
    emit_not_zero(p, is_masked, masked);
    emit_add_small(p, is_masked, is_masked, AT_SEEN_ALL);
    at_keep(w, seen, is_masked);
    asm_release(p, m->nothing);
    asm_release(p, m->other);
    asm_release(p, m->any);
}

// Goes to the label where the mask leaves nothing of this block to any row: with minus infinity for
// all scores neither sums nor factors would change. Of a prompt that is almost half of all blocks,
// and of most others the mask takes nothing away: then it need not be added.
static void skip_masked(struct at_writer * w, int label) {
    enum { PART = 32 };
    struct asm_program * p = w->p;
    int none = asm_label_new(p), query = asm_label_new(p);
    emit_not_zero(p, w->n, at_local_param(w, AT_PARAM_MASK));
    emit_add_small(p, w->n, w->n, AT_SEEN_ALL);
    at_keep(w, AT_NOW_SEEN, w->n);
    at_param(w, w->left, AT_PARAM_MASKS);
    asm_jump_if_zero(p, w->left, none);
    const struct at_mask m = at_mask_begin(w);
    at_param(w, w->c, AT_NOW_MASK);
    asm_label(p, query);
    at_copy(w, w->at[2], w->c);
    at_param(w, w->n, AT_NOW_VECTORS);
    asm_loop_begin(p, w->n);
    asm_loop_alone(p); // of a few trips: what it would gain is wanted by those that unpack
    struct asm_reg x = emit_new_value(p), d = emit_new_value(p);
    emit_load_same(p, MEM_MASK, x, w->at[2], 0);
    emit_advance(p, w->at[2], PART);
    at_mask_look(w, &m, x, d);
    asm_loop_end(p);
    at_add_param(w, w->c, AT_PARAM_MASK_STEP);
    at_add_param(w, w->c, AT_PARAM_MASK_HEAD);
    emit_add_small(p, w->left, w->left, -1);
    asm_jump_if_nonzero(p, w->left, query);
    at_mask_end(w, &m, AT_NOW_SEEN);
    int some = asm_label_new(p);
    asm_jump_if_nonzero(p, w->n, some);
    at_keep(w, AT_NOW_SEEN, w->n);
    asm_jump(p, label);
    asm_label(p, some);
    asm_label(p, none);
}

static void end_mask(struct at_writer * w) {
    int none = asm_label_new(w->p);
    at_param(w, w->a, AT_PARAM_MASK);
    asm_jump_if_zero(w->p, w->a, none);
    at_param(w, w->a, AT_NOW_MASK);
    at_param(w, w->b, AT_NOW_MASKS);
    at_add_param(w, w->a, AT_PARAM_MASK_NEXT);
    emit_add_small(w->p, w->b, w->b, -1);
    at_keep(w, AT_NOW_MASK, w->a);
    at_keep(w, AT_NOW_MASKS, w->b);
    asm_jump_if_nonzero(w->p, w->b, none);
    give(w, AT_LOCK_MASK_EMPTY);
    asm_label(w->p, none);
}

// Addresses depend on the shape. The scheduler is told those of heads of 64, which most models
// have, so that it does not load two vectors from one bank in one cycle.
static void place_all(struct asm_program * p) {
    enum { BANK_0 = 0, BANK_1 = 0x4000, BANK_2 = 0x8000, BANK_3 = 0xc000 };
    static const struct {
        int memory;
        uint32_t at;
    } places[] = {{MEM_POOL, BANK_0},  {MEM_K, BANK_1},   {MEM_V, BANK_1},     {MEM_Q, BANK_2},
                  {MEM_S, BANK_2},     {MEM_O, BANK_3},   {MEM_S_NEW, BANK_2}, {MEM_O_NEW, BANK_3},
                  {MEM_STATE, BANK_3}, {MEM_MASK, BANK_3}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        asm_place(p, places[i].memory, places[i].at);
    }
}

void at_begin_lanes(struct at_writer * w) {
    lanes_begin(&w->lanes, w->p, DTYPE_F32, true, at_address(w, AT_POOL));
    w->lanes.hole = AT_SLOT_PARAMS;
    w->lanes.hole_end = AT_SLOT_PARAMS_END;
    for (int i = AT_SLOT_PARAMS; i < AT_SLOT_PARAMS_END; i++) {
        w->lanes.consts[i] = NO_CONSTANT;
    }
    w->lanes.shift13 = asm_global(w->p, ASM_S);
    emit_set_small(w->p, w->n, 13);
    at_copy(w, w->lanes.shift13, w->n);
}

static void prepare(struct at_writer * w) {
    struct asm_program * p = w->p;
    take_registers(w);
    at_begin_lanes(w);
    emit_spill_to(p, MEM_SPILLS, at_address(w, AT_SPILLS), 64);
    place_all(p);
    asm_margin(p, MEM_S, 4 * AT_MARGIN); // is read only: anything may be there
    asm_margin(p, MEM_S_NEW, AT_MARGIN);
}

// Rows of q become bf16; then there is room for keys, values and the mask.
static void begin_item(struct at_writer * w, int begun) {
    at_release(w, AT_LOCK_Q_EMPTY);
    at_acquire(w, AT_LOCK_Q_FULL);
    skip_without_rows(w, begun);
    at_acquire(w, AT_LOCK_OUT_EMPTY);
    begin_rows(w);
    asm_label(w->p, begun);
    at_release(w, AT_LOCK_K_EMPTY);
    at_release(w, AT_LOCK_V_EMPTY);
    release_mask(w);
    at_keep(w, AT_NOW_BLOCKS, at_local_param(w, AT_PARAM_BLOCKS));
    emit_set_small(w->p, w->n, 0);
    at_keep(w, AT_NOW_SUMS, w->n);
}

static void keys_of_block(struct at_writer * w, int done) {
    begin_block(w);
    begin_mask(w);
    at_acquire(w, AT_LOCK_K_FULL);
    skip_without_rows(w, done);
    skip_masked(w, done);
    at_param(w, w->n, AT_PARAM_K_TRIPS);
    at_param(w, w->a, AT_PARAM_K);
    at_call(w, w->convert);
    at_unpack_keys(w);
    at_scores(w);
    at_soft(w);
    asm_label(w->p, done);
    give(w, AT_LOCK_K_EMPTY);
    end_mask(w);
}

// The first block's values begin the sums; later ones are added to what is left of them.
static void values_of_block(struct at_writer * w, int done, int factor, int first) {
    struct asm_program * p = w->p;
    at_acquire(w, AT_LOCK_V_FULL);
    skip_without_rows(w, done);
    at_param(w, w->n, AT_NOW_SEEN);
    asm_jump_if_zero(p, w->n, done);
    at_param(w, w->n, AT_PARAM_V_TRIPS);
    at_param(w, w->a, AT_PARAM_V);
    at_call(w, w->convert);
    at_unpack_values(w);
    clear_behind(w);
    at_param(w, w->n, AT_NOW_SUMS);
    asm_jump_if_zero(p, w->n, first);
    at_call(w, factor);
    asm_label(p, first);
    at_values(w);
    at_keep(w, AT_NOW_SUMS, w->lanes.one);
    asm_label(p, done);
    give(w, AT_LOCK_V_EMPTY);
}

static void write_program(struct at_writer * w) {
    struct asm_program * p = w->p;
    int wait = asm_label_new(p), item = asm_label_new(p), begun = asm_label_new(p);
    int block = asm_label_new(p), k_done = asm_label_new(p), v_done = asm_label_new(p);
    int item_done = asm_label_new(p), factor = asm_label_new(p), first = asm_label_new(p);
    w->convert = asm_label_new(p);
    prepare(w);
    asm_label(p, wait);
    at_acquire(w, AT_LOCK_GO);
    at_keep(w, AT_NOW_ITEMS, at_local_param(w, AT_PARAM_ITEMS));
    asm_label(p, item);
    begin_item(w, begun);
    asm_label(p, block);
    keys_of_block(w, k_done);
    values_of_block(w, v_done, factor, first);
    at_param(w, w->n, AT_NOW_BLOCKS);
    asm_jump_if_nonzero(p, w->n, block);

    skip_without_rows(w, item_done);
    invert_sums(w);
    at_call(w, factor);
    at_release(w, AT_LOCK_OUT_FULL);
    asm_label(p, item_done);
    at_param(w, w->n, AT_NOW_ITEMS);
    emit_add_small(p, w->n, w->n, -1);
    at_keep(w, AT_NOW_ITEMS, w->n);
    asm_jump_if_nonzero(p, w->n, item);
    asm_jump(p, wait);

    times_factor(w, factor);
    at_convert_block(w);
}

enum status at_program(enum aie_arch arch, struct at_code * out, struct error * err) {
    struct at_writer w = {0};
    if (asm_new(arch, &w.p) != ST_OK) {
        return error_set(err, ST_NO_MEMORY, "aie: out of memory");
    }
    write_program(&w);
    enum status st = asm_finish(w.p, &out->code, err);
    lanes_pool_bytes(&w.lanes, out->pool);
    asm_free(w.p);
    return st == ST_OK ? ST_OK : error_prefix(err, st, "aie: attention");
}
