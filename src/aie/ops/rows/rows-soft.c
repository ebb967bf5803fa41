// rows-soft: SOFT_MAX and CROSS_ENTROPY_LOSS, in two programs but much alike. Softmax takes
// t = x * scale + slope * mask into scratch memory, the loss takes t = x where it lies. Both find
// the maximum m and sum e = exp(t - m). Softmax then gives e / sum, the loss adds up (m - t + log
// sum) * y.
//
// A resident row keeps t, and e where x was; a streamed one makes them anew in each pass.
#include "rows-ops.h"

#include "aie/verbs/verbs.h"
#include "aie/ops/lanes/math-fast.h"
#include "aie/ops/lanes/aie2p-wide.h"

#define MINUS_INFINITY 0xff800000u

#define FAR_BELOW -1e38f // its e is 0, but it can be multiplied by 0

enum { IN_PLACE = -1 }; // instead of the label of the block that makes t

void rows_prepare_halves(struct rows_writer * w) {
    struct asm_reg raise =
        asm_local(w->p, ASM_R); // what an f16 mask is read with, see lanes-edge.c
    w->lanes.shift13 = asm_global(w->p, ASM_S);
    emit_set_small(w->p, raise, 13);
    rows_copy(w, w->lanes.shift13, raise);
}

// The loops below take one vector a trip.
static void loop_begin(struct rows_writer * w) {
    emit_alu(w->p, AIE_BASIC_ADD, w->flag, w->trips, w->trips);
    asm_loop_begin(w->p, w->flag);
}

static void scratch_pointer(struct rows_writer * w) {
    rows_set(w, w->ps, rows_address(w, RW_SCRATCH));
}

static void call(struct rows_writer * w, int block, int then) {
    rows_label_to(w, w->back, then);
    asm_jump(w->p, block);
    asm_label(w->p, then);
}

static void go_back(struct rows_writer * w) {
    asm_jump_pointer(w->p, w->back);
}

// ---- t ----

// x * scale + slope * mask of one vector. Numbers that are not finite make the pieces NaNs; there
// the first pieces alone tell what comes out.
static void scaled(struct rows_writer * w, struct val x, const struct val * mask) {
    struct lanes * l = &w->lanes;
    struct asm_reg rough = emit_new_pair(w->p), by, sum = emit_new_acc(w->p);
    emit_to_bf16(w->p, asm_half(rough, 0), lanes_bm(l, &x));
    struct factor fx = f_factor(l, x, 3, FACTOR_LEFT),
                  scale = rows_get_factor(w, RW_SLOT_ARGS + RW_ARG_SCALE);
    struct val t = f_product(l, &fx, &scale);
    if (mask) {
        struct val m = *mask;
        emit_to_bf16(w->p, asm_half(rough, 1), lanes_bm(l, &m));
        struct factor fm = f_factor(l, m, 3, FACTOR_LEFT);
        struct factor slope = rows_get_factor(w, RW_SLOT_ARGS + RW_ARG_SLOPE);
        t = f_mac(l, t, &fm, &slope);
        by = rows_pieces(w, RW_SLOT_ARGS + RW_ARG_SCALE, RW_SLOT_ARGS + RW_ARG_SLOPE);
    } else {
        struct val zero = k_bits(l, 0);
        emit_load_same(w->p, MEM_POOL, asm_half(rough, 1), l->pool, rows_slot_offset(zero.slot));
        by = rows_pieces(w, RW_SLOT_ARGS + RW_ARG_SCALE, zero.slot);
    }
    emit_mul(w->p, sum, rough, by, l->mul_config);
    struct mask nan = m_nan(l, t);
    lanes_store(l, v_select(l, nan, t, val_bm(sum)), w->ps, MEM_SCRATCH, false);
}

// The pieces of a factor among the arguments.
static void factor_pieces(struct rows_writer * w, int slot, struct asm_reg pieces[WIDE_PIECES]) {
    for (int i = 0; i < WIDE_PIECES; i++) {
        pieces[i] = rows_pieces(w, slot + i, slot + i);
    }
}

// The same of two vectors at once.
static void scaled_wide_loop(struct rows_writer * w, bool masked) {
    struct lanes * l = &w->lanes;
    struct asm_reg left[WIDE_PIECES], right[WIDE_PIECES], t = {0}, rough = {0};
    asm_loop_begin(w->p, w->trips);
    for (int i = 0; i <= masked; i++) { // x, then the mask
        bool first = i == 0;
        wide_split(l, wide_load(l, first ? w->pa : w->pb, first ? MEM_A : MEM_B), left,
                   WIDE_PIECES);
        factor_pieces(w, RW_SLOT_ARGS + (first ? RW_ARG_SCALE : RW_ARG_SLOPE), right);
        t = wide_product(l, first ? NULL : &t, left, right, false);
        rough = wide_each(l, first ? LANE_PRODUCT : LANE_PLUS_PRODUCT, first ? NULL : &rough,
                          left[0], right[0]);
    }
    for (int i = 0; i < WIDE_VALUES; i++) {
        lanes_store(l, wide_known(l, t, rough, i), w->ps, MEM_SCRATCH, false);
    }
    asm_loop_end(w->p);
}

static void scaled_loop(struct rows_writer * w, bool masked) {
    struct lanes * l = &w->lanes;
    if (wide_is_there(asm_target(w->p))) {
        scaled_wide_loop(w, masked);
        return;
    }
    loop_begin(w);
    struct val x = lanes_load(l, w->pa, MEM_A, false), mask;
    if (masked) {
        mask = lanes_load(l, w->pb, MEM_B, false);
    }
    scaled(w, x, masked ? &mask : NULL);
    asm_loop_end(w->p);
}

// A mask of f16 is made f32 where t will stand: t is written behind where the mask is read, in the
// same place or later, so that they may be two memories. A row that starts in the middle of a word
// is moved to the front on the way.
static void widen_mask(struct rows_writer * w) {
    struct lanes * l = &w->lanes;
    rows_param(w, w->flag, RW_PARAM_B_ODD);
    emit_alu(w->p, AIE_BASIC_ADD, w->flag, w->flag, w->flag); // bytes
    emit_alu(w->p, AIE_BASIC_ADD, w->trips, w->trips, w->trips);
    asm_loop_begin(w->p, w->trips); // one vector a trip
    struct asm_reg x = asm_local(w->p, ASM_X), moved = emit_new_value(w->p);
    emit_load_next(w->p, MEM_B, asm_half(x, 0), w->pb);
    emit_load(w->p, MEM_B, asm_half(x, 1), w->pb, 0);
    emit_shift_bytes(w->p, moved, x, x, w->flag);
    lanes_store(l, lanes_of_f16(l, moved), w->ps, MEM_SCRATCH, false);
    asm_loop_end(w->p);
    emit_alu(w->p, AIE_BASIC_SHIFT, w->trips, w->trips, l->minus_one);
    rows_set(w, w->pb, rows_address(w, RW_SCRATCH));
    scratch_pointer(w);
}

// By the kind of mask.
static void scaled_block(struct rows_writer * w, int block) {
    int none = asm_label_new(w->p), words = asm_label_new(w->p), end = asm_label_new(w->p);
    asm_label(w->p, block);
    scratch_pointer(w);
    rows_param(w, w->flag, RW_PARAM_MASK);
    asm_jump_if_zero(w->p, w->flag, none);
    emit_add_small(w->p, w->flag, w->flag, -RW_B_F32);
    asm_jump_if_zero(w->p, w->flag, words);
    widen_mask(w);
    asm_label(w->p, words);
    scaled_loop(w, true);
    asm_jump(w->p, end);
    asm_label(w->p, none);
    scaled_loop(w, false);
    asm_label(w->p, end);
    rows_set(w, w->flag, rows_address(w, RW_SCRATCH));
    rows_fill(w, w->flag, MEM_SCRATCH, k_bits(&w->lanes, MINUS_INFINITY));
    go_back(w);
}

// ---- passes ----

// Points ps at t, with what is behind the row's end out of the way.
static void take_t(struct rows_writer * w, int scaled_at, int there) {
    if (scaled_at != IN_PLACE) {
        call(w, scaled_at, there);
        scratch_pointer(w);
    } else {
        asm_label(w->p, there);
        rows_fill(w, w->row_a, MEM_A, k_bits(&w->lanes, MINUS_INFINITY));
        rows_copy(w, w->ps, w->row_a);
    }
}

// Floats order like integers when one is positive, and the other way when all are negative: with
// the largest and the smallest integer at hand, the maximum is the one or the other.
static void maximum_pass(struct rows_writer * w, int entry, int scaled_at, int next) {
    struct lanes * l = &w->lanes;
    int body = asm_label_new(w->p);
    rows_entry(w, entry, body);
    rows_move(w, w->best[0], k_bits(l, 0x80000000));
    rows_move(w, w->best[1], k_bits(l, 0x7fffffff));
    asm_label(w->p, body);
    take_t(w, scaled_at, asm_label_new(w->p));
    asm_loop_begin(w->p, w->trips);
    for (int i = 0; i < 2; i++) {
        struct val t = lanes_load(l, w->ps, MEM_SCRATCH, true);
        struct asm_reg x = lanes_x(l, &t), which = emit_new_mask(w->p, LANE_32);
        emit_choose(w->p, LANE_MAX, LANE_32, w->best[0], which, w->best[0], x);
        which = emit_new_mask(w->p, LANE_32);
        emit_choose(w->p, LANE_MIN, LANE_32, w->best[1], which, w->best[1], x);
    }
    asm_loop_end(w->p);
    asm_jump_if_nonzero(w->p, w->more, w->next_chunk);
    struct val high = lanes_across(&w->lanes, i_max, val_x(w->best[0]));
    struct val low = lanes_across(&w->lanes, i_min, val_x(w->best[1]));
    if (scaled_at != IN_PLACE) {
        struct val sink = k_param(l, RW_ARG_SINK);
        high = i_max(l, high, sink);
        low = i_min(l, low, sink);
    }
    lanes_put(&w->lanes, RW_SLOT_MEAN, v_select(l, m_negative(l, high), high, low));
    rows_label_to(w, w->stage, next);
    asm_jump(w->p, w->next_pass);
}

// One value of two vectors a trip (lanes_set_vectors).
static void exp_doubled_loop(struct rows_writer * w) {
    struct lanes * l = &w->lanes;
    lanes_set_vectors(l, 2);
    asm_loop_begin(w->p, w->trips);
    struct val most = lanes_get(RW_SLOT_MEAN), t = lanes_load(l, w->ps, MEM_SCRATCH, false);
    struct val e = m_fast_exp_minus(l, f_sub(l, most, t));
    lanes_set_vectors(l, 1);
    for (int i = 0; i < 2; i++) {
        rows_sum(w, i, val_x(e.x[i]));
        lanes_store(l, val_x(e.x[i]), w->pa, MEM_A, true);
    }
    asm_loop_end(w->p);
}

// From ps to pa, with the sum in the accumulators.
static void exp_block(struct rows_writer * w, int block) {
    struct lanes * l = &w->lanes;
    asm_label(w->p, block);
    rows_clear_sums(w);
    if (w->fast && wide_is_there(asm_target(w->p))) {
        exp_doubled_loop(w);
        go_back(w);
        return;
    }
    if (w->exp_vectors == 2) {
        asm_loop_begin(w->p, w->trips);
    } else {
        loop_begin(w);
    }
    struct val m[2], e[2], most = lanes_get(RW_SLOT_MEAN);
    lanes_bm(l, &most);
    for (int i = 0; i < w->exp_vectors; i++) {
        m[i] = f_sub(l, most, lanes_load(l, w->ps, MEM_SCRATCH, false));
    }
    if (w->fast) {
        for (int i = 0; i < w->exp_vectors; i++) {
            e[i] = m_fast_exp_minus(l, m[i]);
        }
    } else {
        rows_exp_minus(l, w->exp_vectors, m, e);
    }
    for (int i = 0; i < w->exp_vectors; i++) {
        rows_sum(w, i, e[i]);
        lanes_store(l, e[i], w->pa, MEM_A, true);
    }
    asm_loop_end(w->p);
    go_back(w);
}

// Adds the sink's e to the sum; scratch memory is free by now.
static void add_sink(struct rows_writer * w, int exp_at) {
    struct lanes * l = &w->lanes;
    int none = asm_label_new(w->p);
    rows_param(w, w->flag, RW_PARAM_SINK_TAKE);
    asm_jump_if_zero(w->p, w->flag, none);
    scratch_pointer(w);
    lanes_store(l, k_param(l, RW_ARG_SINK), w->ps, MEM_SCRATCH, true);
    lanes_store(l, k_bits(l, MINUS_INFINITY), w->ps, MEM_SCRATCH, true);
    rows_set(w, w->pa, rows_address(w, RW_SCRATCH + 4 * RW_PAIR_WORDS));
    scratch_pointer(w);
    rows_set_param(w, RW_PARAM_NOW_TRIPS, w->trips);
    rows_copy(w, w->trips, l->one);
    call(w, exp_at, asm_label_new(w->p));
    rows_param(w, w->trips, RW_PARAM_NOW_TRIPS);
    lanes_put(&w->lanes, RW_SLOT_SUM, f_add(l, lanes_get(RW_SLOT_SUM), rows_acc(w, 0)));
    asm_label(w->p, none);
}

// Sums e; what follows runs behind the last chunk, with the sum in its slot.
static void sum_pass(struct rows_writer * w, int entry, int scaled_at, int exp_at) {
    int body = asm_label_new(w->p), there = asm_label_new(w->p);
    rows_entry(w, entry, body);
    rows_clear_row_sum(w);
    asm_label(w->p, body);
    asm_jump_if_zero(w->p, w->streamed, there);
    take_t(w, scaled_at, there);
    rows_copy(w, w->pa, w->row_a);
    call(w, exp_at, asm_label_new(w->p));
    rows_keep_sums(w);
    lanes_put(&w->lanes, RW_SLOT_SUM, rows_summed(w));
}

// e times the inverse, two vectors at once.
static void divide_wide_loop(struct rows_writer * w) {
    struct lanes * l = &w->lanes;
    struct asm_reg left[WIDE_PIECES], right[WIDE_PIECES], out = {0};
    asm_loop_begin(w->p, w->trips);
    wide_split(l, wide_load(l, w->pa, MEM_A), left, w->fast ? 2 : WIDE_PIECES);
    factor_pieces(w, RW_SLOT_FACTOR, right);
    if (w->fast) {
        static const uint8_t order[][2] = {{1, 1}, {0, 1}, {1, 0}, {0, 0}};
        for (int i = 0; i < 4; i++) {
            out = wide_each(l, i ? LANE_PLUS_PRODUCT : LANE_PRODUCT, i ? &out : NULL,
                            left[order[i][0]], right[order[i][1]]);
        }
    } else {
        out = wide_product(l, NULL, left, right, false);
    }
    for (int i = 0; i < WIDE_VALUES; i++) {
        lanes_store(l, wide_half(out, i), w->pout, MEM_OUT, false);
    }
    asm_loop_end(w->p);
}

static void divide_loop(struct rows_writer * w) {
    struct lanes * l = &w->lanes;
    loop_begin(w);
    struct val e = lanes_load(l, w->pa, MEM_A, false);
    if (w->fast) {
        struct pair first = pair_in(rows_pieces(w, RW_SLOT_FACTOR, RW_SLOT_FACTOR));
        struct pair second = pair_in(rows_pieces(w, RW_SLOT_FACTOR + 1, RW_SLOT_FACTOR + 1));
        struct pair e12 = p_halves(l, e);
        e = p_mac(l, p_mul(l, e12, second), e12, first);
    } else {
        struct factor inverse = rows_get_factor(w, RW_SLOT_FACTOR);
        struct factor f = f_factor(l, e, 3, FACTOR_LEFT);
        e = f_product(l, &f, &inverse);
    }
    lanes_store(l, e, w->pout, MEM_OUT, false);
    asm_loop_end(w->p);
}

static void divide_pass(struct rows_writer * w, int body, int scaled_at, int exp_at) {
    int there = asm_label_new(w->p);
    asm_label(w->p, body);
    asm_jump_if_zero(w->p, w->streamed, there);
    take_t(w, scaled_at, asm_label_new(w->p));
    rows_copy(w, w->pa, w->row_a);
    call(w, exp_at, there);
    rows_copy(w, w->pa, w->row_a);
    (wide_is_there(asm_target(w->p)) ? divide_wide_loop : divide_loop)(w);
    asm_jump_if_nonzero(w->p, w->more, w->next_chunk);
    rows_end(w, w->wait);
}

// With t - m = -d, a row's loss is the sum of d * y and log(sum) times the sum of y: all of one
// sign, so that nothing cancels, and one pass over the row does for both.
static void loss_pass(struct rows_writer * w, int entry) {
    enum { E, DY, ROW_E, Y, ROW_DY, ROW_Y }; // sums of a chunk and of the row
    static const int chunk_sums[] = {E, DY, Y}, row_sums[] = {ROW_E, ROW_DY, ROW_Y};
    struct lanes * l = &w->lanes;
    int body = asm_label_new(w->p);
    rows_entry(w, entry, body);
    rows_clear(w, row_sums, 3);
    asm_label(w->p, body);
    rows_fill(w, w->row_a, MEM_A, k_float(l, FAR_BELOW));
    rows_fill(w, w->row_b, MEM_B, k_bits(l, 0));
    rows_clear(w, chunk_sums, 3);
    loop_begin(w);
    struct val d = f_sub(l, lanes_get(RW_SLOT_MEAN), lanes_load(l, w->pa, MEM_A, false));
    struct val y = lanes_load(l, w->pb, MEM_B, false);
    rows_sum(w, Y, y);
    rows_sum(w, DY, f_mul(l, d, y));
    struct val e;
    rows_exp_minus(l, 1, &d, &e);
    rows_sum(w, E, e);
    asm_loop_end(w->p);
    for (int i = 0; i < 3; i++) {
        rows_sum(w, row_sums[i], rows_acc(w, chunk_sums[i]));
    }
    asm_jump_if_nonzero(w->p, w->more, w->next_chunk);
    lanes_put(&w->lanes, RW_SLOT_SUM, lanes_across(&w->lanes, f_add, rows_acc(w, ROW_E)));
    asm_label(w->p, asm_label_new(w->p)); // what follows wants the registers
    struct pieces log_sum = p_split(l, rows_log(w, RW_SLOT_SUM), 3);
    struct pieces y_sum = p_split(l, rows_acc(w, ROW_Y), 3);
    struct val loss = p_mac_n(l, rows_acc(w, ROW_DY), &log_sum, &y_sum, 3);
    loss = lanes_across(&w->lanes, f_add, loss);
    lanes_put(&w->lanes, RW_SLOT_TOTAL, f_add(l, loss, lanes_get(RW_SLOT_TOTAL)));
    rows_end(w, w->total);
}

void rows_soft_max(struct rows_writer * w, int entry) {
    int scaled_at = asm_label_new(w->p), exp_at = asm_label_new(w->p), sum = asm_label_new(w->p);
    int divide = asm_label_new(w->p);
    maximum_pass(w, entry, scaled_at, sum);
    sum_pass(w, sum, scaled_at, exp_at);
    add_sink(w, exp_at);
    rows_put_factor(w, RW_SLOT_FACTOR, rows_inverse(w, RW_SLOT_SUM));
    rows_label_to(w, w->stage, divide);
    asm_jump(w->p, w->last_pass);
    divide_pass(w, divide, scaled_at, exp_at);
    scaled_block(w, scaled_at);
    exp_block(w, exp_at);
}

void rows_loss(struct rows_writer * w, int entry) {
    int loss = asm_label_new(w->p);
    maximum_pass(w, entry, IN_PLACE, loss);
    loss_pass(w, loss);
}
