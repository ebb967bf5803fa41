// rows-ops: the row ops, pass by pass. A pass is an entry, taken once a row, that sets the state to
// nothing, and a body, taken for each chunk, that runs its loop in registers and then adds to the
// state; so a long sum is a sum of sums, and stays close. Behind the last chunk of a pass comes
// what follows from the state: a result, or what the next pass needs.
#include "rows-ops.h"

#include "aie/verbs/verbs.h"

// Numbers that are taken apart keep more bits where they are rounded; where they may be so large
// that rounding makes a piece infinite they are cut.
#define CUT     AIE_ROUND_TO_ZERO
#define NEAREST AIE_ROUND_NEAREST_EVEN

static const struct rows_op ops[] = {
    // op, rounding, its number in its program, passes, result, and the types of input and result
    {KERNEL_OP_SUM_ROWS, CUT, 0, 1, RW_OUT_SCALAR, DTYPE_F32, DTYPE_F32},
    {KERNEL_OP_MEAN, CUT, 0, 1, RW_OUT_SCALAR, DTYPE_F32, DTYPE_F32},
    {KERNEL_OP_SUM, CUT, 0, 1, RW_OUT_TOTAL, DTYPE_F32, DTYPE_F32},
    {KERNEL_OP_ARGMAX, CUT, 1, 1, RW_OUT_SCALAR, DTYPE_F32, DTYPE_I32},
    {KERNEL_OP_ARGSORT, CUT, 4, 1, RW_OUT_ROW, DTYPE_F32, DTYPE_I32},
    {KERNEL_OP_COUNT_EQUAL, CUT, 2, 1, RW_OUT_TOTAL, DTYPE_I32, DTYPE_I32},
    {KERNEL_OP_CROSS_ENTROPY_LOSS, NEAREST, 3, 2, RW_OUT_TOTAL, DTYPE_F32, DTYPE_F32},
    {KERNEL_OP_NORM, CUT, 0, 3, RW_OUT_ROW, DTYPE_F32, DTYPE_F32},
    {KERNEL_OP_RMS_NORM, CUT, 1, 2, RW_OUT_ROW, DTYPE_F32, DTYPE_F32},
    {KERNEL_OP_RMS_NORM_MUL, CUT, 1, 2, RW_OUT_ROW, DTYPE_F32, DTYPE_F32},
    {KERNEL_OP_L2_NORM, CUT, 1, 2, RW_OUT_ROW, DTYPE_F32, DTYPE_F32},
    {KERNEL_OP_SOFT_MAX, NEAREST, 2, 3, RW_OUT_ROW, DTYPE_F32, DTYPE_F32},
    {KERNEL_OP_SORT_PAIRS, CUT, 0, 1, RW_OUT_ROW, DTYPE_F32, DTYPE_F32},
    {KERNEL_OP_MERGE_PAIRS, CUT, 1, 1, RW_OUT_ROW, DTYPE_F32, DTYPE_F32},
};
enum { N_OPS = sizeof ops / sizeof ops[0] };

const struct rows_op * rows_find(enum kernel_op op) {
    for (int i = 0; i < N_OPS; i++) {
        if (ops[i].op == op) {
            return &ops[i];
        }
    }
    return NULL;
}

bool rows_fast(const struct kernel_spec * spec) {
    return kernel_has_exact(spec) && spec->precision == KERNEL_FAST;
}

// ---- what all passes are made of ----

void rows_entry(struct rows_writer * w, int entry, int body) {
    asm_label(w->p, entry);
    rows_label_to(w, w->stage, body);
}

void rows_fill(struct rows_writer * w, struct asm_reg row, int memory, struct val neutral) {
    struct lanes * l = &w->lanes;
    struct asm_reg at = asm_local(w->p, ASM_R), mask[2], x[2];
    rows_param(w, at, RW_PARAM_NOW_TAIL_AT);
    emit_alu(w->p, AIE_BASIC_ADD, at, at, row);
    rows_copy(w, w->ps, at);
    const int32_t bytes = 4 * asm_target(w->p)->lanes;
    for (int v = 0; v < 2; v++) {
        mask[v] = emit_new_mask(w->p, LANE_32);
        x[v] = emit_new_value(w->p);
        rows_param(w, mask[v], RW_PARAM_NOW_TAIL0 + v);
        emit_load(w->p, memory, x[v], w->ps, bytes * v);
    }
    for (int v = 0; v < 2; v++) {
        struct val filled = v_select(l, mask_in(mask[v]), neutral, val_x(x[v]));
        emit_store(w->p, memory, lanes_x(l, &filled), w->ps, bytes * v);
    }
}

void rows_move(struct rows_writer * w, struct asm_reg to, struct val v) {
    struct asm_reg x = lanes_x(&w->lanes, &v);
    emit_move(w->p, to, x);
}

void rows_clear(struct rows_writer * w, const int * which, int n) {
    struct val zero = k_bits(&w->lanes, 0);
    lanes_x(&w->lanes, &zero);
    for (int i = 0; i < n; i++) {
        rows_move(w, w->acc[which[i]], zero);
    }
}

void rows_clear_sums(struct rows_writer * w) {
    rows_clear(w, (const int[]){0, 1}, 2);
}

void rows_clear_row_sum(struct rows_writer * w) {
    rows_clear(w, (const int[]){2}, 1);
}

struct val rows_acc(struct rows_writer * w, int i) {
    return asm_target(w->p)->sums_in_vectors ? val_x(w->acc[i]) : val_bm(w->acc[i]);
}

static void accumulate(struct rows_writer * w, struct asm_reg to, struct val v) {
    struct lanes * l = &w->lanes;
    if (asm_target(w->p)->sums_in_vectors) {
        rows_move(w, to, f_add(l, val_x(to), v));
    } else {
        emit_f_add(w->p, to, to, lanes_bm(l, &v), l->float_config);
    }
}

void rows_sum(struct rows_writer * w, int i, struct val v) {
    accumulate(w, w->acc[i], v);
}

void rows_keep_sums(struct rows_writer * w) {
    accumulate(w, w->acc[0], rows_acc(w, 1));
    accumulate(w, w->acc[2], rows_acc(w, 0));
    asm_jump_if_nonzero(w->p, w->more, w->next_chunk);
}

struct val rows_summed(struct rows_writer * w) {
    return lanes_across(&w->lanes, f_add, rows_acc(w, 2));
}

// The row's result, where it is one number.
static void rows_result(struct rows_writer * w, struct val v) {
    struct asm_reg x = lanes_x(&w->lanes, &v);
    emit_store(w->p, MEM_OUT, asm_half(x, 0), w->pout, 0);
}

void rows_put_factor(struct rows_writer * w, int slot, struct val v) {
    struct factor f = f_factor(&w->lanes, v, 3, FACTOR_LEFT);
    const struct asm_reg pieces[3] = {asm_half(f.t, 0), asm_half(f.p12, 1), asm_half(f.p13, 1)};
    for (int i = 0; i < 3; i++) {
        emit_store(w->p, MEM_POOL, pieces[i], w->lanes.pool, rows_slot_offset(slot + i));
    }
}

struct asm_reg rows_pieces(struct rows_writer * w, int low, int high) {
    struct asm_reg x = emit_new_pair(w->p);
    const int slots[2] = {low, high};
    for (int half = 0; half < 2; half++) {
        emit_load_same(w->p, MEM_POOL, asm_half(x, half), w->lanes.pool,
                       rows_slot_offset(slots[half]));
    }
    return x;
}

struct factor rows_get_factor(struct rows_writer * w, int slot) {
    return (struct factor){.pieces = w->fast ? 2 : 3,
                           .p12 = rows_pieces(w, slot, slot + 1),
                           .p21 = rows_pieces(w, slot + 1, slot),
                           .p31 = rows_pieces(w, slot + 2, slot)};
}

void rows_end(struct rows_writer * w, int end) {
    rows_label_to(w, w->back, end);
    asm_jump(w->p, w->row_done);
}

// ---- sums ----

// Behind the row's last chunk; the result of a resident row has been written where it belongs.
static void end_single(struct rows_writer * w) {
    rows_label_to(w, w->back, w->total);
    asm_jump_if_nonzero(w->p, w->streamed, w->row_done);
    rows_end(w, w->wait);
}

void rows_sum_pass(struct rows_writer * w, int entry) {
    struct lanes * l = &w->lanes;
    int body = asm_label_new(w->p);
    rows_entry(w, entry, body);
    rows_clear_row_sum(w);
    asm_label(w->p, body);
    rows_fill(w, w->row_a, MEM_A, k_bits(l, 0));
    rows_clear_sums(w);
    asm_loop_begin(w->p, w->trips);
    for (int i = 0; i < 2; i++) {
        rows_sum(w, i, lanes_load(l, w->pa, MEM_A, false));
    }
    asm_loop_end(w->p);
    rows_keep_sums(w);
}

static void sums(struct rows_writer * w, int entry) { // SUM_ROWS and SUM; MEAN by its factor 1/n
    struct lanes * l = &w->lanes;
    rows_sum_pass(w, entry);
    struct val sum = rows_summed(w);
    lanes_bm(l, &sum);
    lanes_put(&w->lanes, RW_SLOT_TOTAL, f_add(l, sum, lanes_get(RW_SLOT_TOTAL)));
    rows_result(w, f_mul(l, sum, k_param(l, RW_ARG_TOTAL)));
    end_single(w);
}

// ---- argmax: the last of the largest, as ggml's reference has it; a NaN is never the largest ----

enum { LEAST_KEY = ROWS_NO_KEY + 1 };

struct val rows_order_key(struct lanes * l, struct val x) {
    struct val turned = i_sub(l, k_bits(l, 0x80000000), x);
    return v_select(l, m_negative(l, x), x, turned);
}

static void argmax(struct rows_writer * w, int entry) {
    struct lanes * l = &w->lanes;
    const uint32_t lanes = (uint32_t) asm_target(w->p)->lanes;
    int body = asm_label_new(w->p);
    rows_entry(w, entry, body); // largest key, its index, next index
    rows_move(w, w->best[0], k_bits(l, (uint32_t) LEAST_KEY));
    rows_move(w, w->best[1], k_bits(l, 0));
    rows_move(w, w->best[2], rows_get_lanes(w, RW_SLOT_LANES));
    asm_label(w->p, body);
    rows_fill(w, w->row_a, MEM_A, k_bits(l, ROWS_NAN_BITS));
    asm_loop_begin(w->p, w->trips);
    for (int i = 0; i < 2; i++) {
        struct val x = lanes_load(l, w->pa, MEM_A, true), step = k_bits(l, lanes);
        struct val none = k_bits(l, (uint32_t) ROWS_NO_KEY);
        struct val order = rows_order_key(l, x), key = v_select(l, m_nan(l, x), order, none);
        struct mask better = m_greater_equal(l, key, val_x(w->best[0]));
        emit_select(w->p, LANE_32, w->best[0], w->best[0], lanes_x(l, &key), better.of[0]);
        emit_select(w->p, LANE_32, w->best[1], w->best[1], w->best[2], better.of[0]);
        emit_lanes(w->p, LANE_ADD, LANE_32, w->best[2], w->best[2], lanes_x(l, &step));
    }
    asm_loop_end(w->p);
    asm_jump_if_nonzero(w->p, w->more, w->next_chunk);
    struct val key = val_x(w->best[0]), largest = lanes_across(&w->lanes, i_max, key);
    struct mask is_largest = m_zero(l, i_sub(l, key, largest));
    struct val index = v_select(l, is_largest, k_bits(l, UINT32_MAX), val_x(w->best[1]));
    index = lanes_across(&w->lanes, i_max, index);
    rows_result(w, index);
    lanes_put(&w->lanes, RW_SLOT_TOTAL, index); // a streamed row writes it as a total
    end_single(w);
}

static void count_equal(struct rows_writer * w, int entry) {
    struct lanes * l = &w->lanes;
    int body = asm_label_new(w->p);
    rows_entry(w, entry, body);
    rows_move(w, w->best[0], k_bits(l, 0));
    asm_label(w->p, body);
    rows_fill(w, w->row_a, MEM_A, k_bits(l, 0));
    rows_fill(w, w->row_b, MEM_B, k_bits(l, 1));
    asm_loop_begin(w->p, w->trips);
    for (int i = 0; i < 2; i++) {
        struct val a = lanes_load(l, w->pa, MEM_A, true), b = lanes_load(l, w->pb, MEM_B, true);
        struct val one = k_bits(l, 1), none = k_bits(l, 0);
        struct val equal = v_select(l, m_zero(l, i_sub(l, a, b)), none, one);
        emit_lanes(w->p, LANE_ADD, LANE_32, w->best[0], w->best[0], lanes_x(l, &equal));
    }
    asm_loop_end(w->p);
    asm_jump_if_nonzero(w->p, w->more, w->next_chunk);
    struct val sum = lanes_across(&w->lanes, i_add, val_x(w->best[0]));
    lanes_put(&w->lanes, RW_SLOT_TOTAL, i_add(l, sum, lanes_get(RW_SLOT_TOTAL)));
    rows_end(w, w->total);
}

// ---- the programs ----

static void set_rounding(struct rows_writer * w) {
    struct asm_reg mode = asm_local(w->p, ASM_R);
    rows_param(w, mode, RW_PARAM_ROUND);
    emit_control(w->p, AIE_CONTROL_ROUND, mode);
}

static void reduce_passes(struct rows_writer * w, const int op_label[RW_MAX_INDEX]) {
    sums(w, op_label[0]);
    argmax(w, op_label[1]);
    count_equal(w, op_label[2]);
    rows_loss(w, op_label[3]);
    rows_argsort(w, op_label[4]);
}

static void layer_prepare(struct rows_writer * w) {
    set_rounding(w);
    rows_prepare_halves(w);
}

static void layer_passes(struct rows_writer * w, const int op_label[RW_MAX_INDEX]) {
    if (w->alone) {
        asm_label(w->p, op_label[0]); // nobody asks for them
        asm_label(w->p, op_label[1]);
    } else {
        rows_norm(w, op_label[0], op_label[1]);
    }
    rows_soft_max(w, op_label[2]);
}

const struct rows_program rows_layer = {.prepare = layer_prepare,
                                        .passes = layer_passes,
                                        .n_indices = 3,
                                        .n_sums = 3,
                                        .n_args = 7,
                                        .n_best = 2,
                                        .sink = true,
                                        .halves = true,
                                        .first_const = RW_SLOT_FACTOR + 3,
                                        .exp_vectors = 2};

const struct rows_program rows_reduce = {.prepare = set_rounding,
                                         .passes = reduce_passes,
                                         .n_indices = 5,
                                         .n_sums = 6,
                                         .n_args = 1,
                                         .n_best = 3,
                                         .total = true,
                                         .first_const = RW_SLOT_FACTOR,
                                         .exp_vectors = 1};

const struct rows_program rows_sort = {.passes = rows_pairs,
                                       .n_indices = 2,
                                       .n_args = 1,
                                       .n_best = 1,
                                       .first_const = RW_SLOT_FACTOR,
                                       .exp_vectors = 1};
