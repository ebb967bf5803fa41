// rows-soft: SOFT_MAX and CROSS_ENTROPY_LOSS, programs of their own but much alike. Both take t = x * scale + slope * mask (the loss: t = x)
// into scratch memory, find the maximum m, and sum e = exp(t - m). Softmax then gives e / sum, the loss
// adds up (t - m - log sum) * y.
//
// A resident row keeps t in scratch and e where x was; a streamed one makes them anew in each pass.
#include "rows-ops.h"

#include "aie/isa/aie2.h"
#include "math.h"

enum { ARG_SCALE, ARG_SLOPE }; // the loss: 1 and nothing

enum { EXP_UNROLL = 2 };

#define MINUS_INFINITY 0xff800000u

void rows_soft_prepare(struct rows_writer * w) {
    rows_put_factor(w, RW_SLOT_FACTOR2, k_param(&w->lanes, ARG_SCALE));
    rows_put_factor(w, RW_SLOT_FACTOR3, k_param(&w->lanes, ARG_SLOPE));
    struct asm_reg raise = asm_local(w->p, ASM_R); // what an f16 mask is read with, see lanes-edge.c
    w->lanes.shift13 = asm_global(w->p, ASM_S);
    ASM(w->p, AIE2_MOVX_alu_cg, A_REG(raise), A_IMM(13));
    rows_copy(w, w->lanes.shift13, raise);
}

static void scratch_pointer(struct rows_writer * w) {
    rows_set(w, w->ps, RW_CORE_MEMORY + RW_SCRATCH);
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

// x * scale + slope * mask of one vector. Numbers that are not finite make the pieces NaNs; there the
// first pieces alone tell what comes out.
static void scaled(struct rows_writer * w, struct val x, const struct val * mask, int mask_pieces) {
    struct lanes * l = &w->lanes;
    struct asm_reg rough = asm_local(w->p, ASM_X), by, sum = asm_local(w->p, ASM_BM);
    ASM(w->p, AIE2_VCONV_BF16_FP32, A_LO(rough), A_REG(lanes_bm(l, &x)));
    struct factor fx = f_factor(l, x, 3, FACTOR_LEFT), scale = rows_get_factor(w, RW_SLOT_FACTOR2);
    struct val t = f_product(l, &fx, &scale);
    if (mask) {
        struct val m = *mask;
        ASM(w->p, AIE2_VCONV_BF16_FP32, A_HI(rough), A_REG(lanes_bm(l, &m)));
        struct factor fm = f_factor(l, m, mask_pieces, FACTOR_LEFT);
        struct factor slope = rows_get_factor(w, RW_SLOT_FACTOR3);
        t = f_mac(l, t, &fm, &slope);
        by = rows_pieces(w, RW_SLOT_FACTOR2, RW_SLOT_FACTOR3);
    } else {
        struct val zero = k_bits(l, 0);
        ASM_MEM(w->p, AIE2_VLDA_dmw_lda_w_ag_idx_imm, MEM_POOL, A_HI(rough), A_REG(l->pool),
                A_IMM(rows_slot_offset(zero.slot)));
        by = rows_pieces(w, RW_SLOT_FACTOR2, zero.slot);
    }
    ASM(w->p, AIE2_VMUL_F_vmac_bm_core_dense, A_REG(sum), A_REG(rough), A_REG(by), A_REG(l->mul_config));
    struct asm_reg nan = m_nan(l, t);
    lanes_store(l, v_select(l, nan, t, val_bm(sum)), w->ps, MEM_SCRATCH, false);
}

static void scaled_loop(struct rows_writer * w, enum rows_b_kind kind) {
    struct lanes * l = &w->lanes;
    asm_loop_begin(w->p, w->trips);
    for (int i = 0; i < 2; i++) {
        struct val x = lanes_load(l, w->pa, MEM_A, false), mask;
        if (kind == RW_B_NONE) {
            scaled(w, x, NULL, 0);
            continue;
        }
        l->dtype = kind == RW_B_F16 ? DTYPE_F16 : DTYPE_F32;
        mask = lanes_load(l, w->pb, MEM_B, false);
        l->dtype = DTYPE_F32;
        scaled(w, x, &mask, kind == RW_B_F16 ? 2 : 3);
    }
    asm_loop_end(w->p);
}

// Moves the halves of a mask row that starts in the middle of a word to the front.
static void align_row(struct rows_writer * w) {
    rows_set(w, w->flag, 2);
    asm_loop_begin(w->p, w->trips);
    struct asm_reg x[2], moved = asm_local(w->p, ASM_X);
    for (int i = 0; i < 4; i++) {
        x[i / 2] = i % 2 ? x[i / 2] : asm_local(w->p, ASM_X);
        ASM_MEM(w->p, AIE2_VLDA_dmw_lda_w_ag_idx_imm, MEM_B, A_REG(asm_half(x[i / 2], i % 2)),
                A_REG(w->pb), A_IMM(32 * i));
    }
    ASM(w->p, AIE2_VSHIFT, A_REG(moved), A_REG(x[0]), A_REG(x[1]), A_REG(w->flag));
    for (int half = 0; half < 2; half++) {
        ASM_MEM(w->p, AIE2_VST_dmw_sts_w_ag_pstm_nrm_imm, MEM_B, A_REG(w->pb),
                A_REG(asm_half(moved, half)), A_IMM(32));
    }
    asm_loop_end(w->p);
    rows_copy(w, w->pb, w->row_b);
}

static void end_of_t(struct rows_writer * w) {
    rows_set(w, w->flag, RW_CORE_MEMORY + RW_SCRATCH);
    rows_fill(w, w->flag, MEM_SCRATCH, k_bits(&w->lanes, MINUS_INFINITY));
    go_back(w);
}

static void scaled_block(struct rows_writer * w, int block) {
    int none = asm_label_new(w->p), f32 = asm_label_new(w->p), done = asm_label_new(w->p);
    int aligned = asm_label_new(w->p);
    asm_label(w->p, block);
    scratch_pointer(w);
    rows_param(w, w->flag, RW_PARAM_B_KIND);
    asm_jump_if_zero(w->p, w->flag, none);
    ASM(w->p, AIE2_ADD_add_r_ri, A_REG(w->flag), A_REG(w->flag), A_IMM(-RW_B_F32));
    asm_jump_if_zero(w->p, w->flag, f32);
    rows_param(w, w->flag, RW_PARAM_B_ODD);
    asm_jump_if_zero(w->p, w->flag, aligned);
    align_row(w);
    asm_label(w->p, aligned);
    scaled_loop(w, RW_B_F16);
    asm_jump(w->p, done);
    asm_label(w->p, f32);
    scaled_loop(w, RW_B_F32);
    asm_jump(w->p, done);
    asm_label(w->p, none);
    scaled_loop(w, RW_B_NONE);
    asm_label(w->p, done);
    end_of_t(w);
}

// The loss takes x as it is.
static void copy_block(struct rows_writer * w, int block) {
    asm_label(w->p, block);
    scratch_pointer(w);
    asm_loop_begin(w->p, w->trips);
    for (int i = 0; i < 2; i++) {
        struct val x = lanes_load(&w->lanes, w->pa, MEM_A, true);
        lanes_store(&w->lanes, x, w->ps, MEM_SCRATCH, true);
    }
    asm_loop_end(w->p);
    end_of_t(w);
}

// ---- passes ----

// Floats order like integers when one is positive, and the other way when all are negative: with the
// largest and the smallest integer at hand, the maximum is the one or the other.
static void maximum_pass(struct rows_writer * w, int entry, int scaled_at, int next) {
    struct lanes * l = &w->lanes;
    int body = asm_label_new(w->p);
    rows_entry(w, entry, body);
    rows_put_lanes(w, RW_SLOT_STATE, k_bits(l, 0x80000000));
    rows_put_lanes(w, RW_SLOT_STATE2, k_bits(l, 0x7fffffff));
    asm_label(w->p, body);
    call(w, scaled_at, asm_label_new(w->p));
    scratch_pointer(w);
    rows_move(w, w->best[0], rows_get_lanes(w, RW_SLOT_STATE));
    rows_move(w, w->best[1], rows_get_lanes(w, RW_SLOT_STATE2));
    asm_loop_begin(w->p, w->trips);
    for (int i = 0; i < 2; i++) {
        struct val t = lanes_load(l, w->ps, MEM_SCRATCH, true);
        struct asm_reg x = lanes_x(l, &t), which = asm_local(w->p, ASM_MASK);
        ASM(w->p, AIE2_VMAX_LT_S32, A_REG(w->best[0]), A_REG(which), A_REG(w->best[0]), A_REG(x));
        which = asm_local(w->p, ASM_MASK);
        ASM(w->p, AIE2_VMIN_GE_S32, A_REG(w->best[1]), A_REG(which), A_REG(w->best[1]), A_REG(x));
    }
    asm_loop_end(w->p);
    rows_put_lanes(w, RW_SLOT_STATE, val_x(w->best[0]));
    rows_put_lanes(w, RW_SLOT_STATE2, val_x(w->best[1]));
    asm_jump_if_nonzero(w->p, w->more, w->next_chunk);
    struct val sink = k_param(l, RW_ARG_SINK);
    struct val high = i_max(l, rows_across(w, i_max, val_x(w->best[0])), sink);
    struct val low = i_min(l, rows_across(w, i_min, val_x(w->best[1])), sink);
    rows_put(w, RW_SLOT_MEAN, v_select(l, m_negative(l, high), high, low));
    rows_label_to(w, w->stage, next);
    asm_jump(w->p, w->next_pass);
}

static void exp_block(struct rows_writer * w, int block) {
    struct lanes * l = &w->lanes;
    asm_label(w->p, block);
    scratch_pointer(w);
    rows_copy(w, w->pa, w->row_a);
    rows_clear_sums(w);
    asm_loop_begin(w->p, w->trips);
    for (int i = 0; i < EXP_UNROLL; i++) {
        struct val t = f_sub(l, lanes_load(l, w->ps, MEM_SCRATCH, false), rows_get(w, RW_SLOT_MEAN));
        struct val e = f_exp(l, t);
        lanes_bm(l, &e);
        rows_sum(w, i, e);
        lanes_store(l, e, w->pa, MEM_A, false);
    }
    asm_loop_end(w->p);
    go_back(w);
}

// Sums e; what follows runs behind the last chunk, with the sum in its slot.
static void sum_pass(struct rows_writer * w, int entry, int scaled_at, int exp_at) {
    int body = asm_label_new(w->p), there = asm_label_new(w->p);
    rows_entry(w, entry, body);
    rows_put_lanes(w, RW_SLOT_STATE, k_bits(&w->lanes, 0));
    asm_label(w->p, body);
    asm_jump_if_zero(w->p, w->streamed, there);
    call(w, scaled_at, there);
    call(w, exp_at, asm_label_new(w->p));
    rows_keep_sums(w);
    rows_put(w, RW_SLOT_SUM, rows_summed(w));
    asm_label(w->p, asm_label_new(w->p));
}

static void divide_pass(struct rows_writer * w, int body, int scaled_at, int exp_at) {
    struct lanes * l = &w->lanes;
    int there = asm_label_new(w->p);
    asm_label(w->p, body);
    asm_jump_if_zero(w->p, w->streamed, there);
    call(w, scaled_at, asm_label_new(w->p));
    call(w, exp_at, there);
    rows_copy(w, w->pa, w->row_a);
    asm_loop_begin(w->p, w->trips);
    struct factor inverse = rows_get_factor(w, RW_SLOT_FACTOR);
    for (int i = 0; i < 2; i++) {
        struct factor f = f_factor(l, lanes_load(l, w->pa, MEM_A, false), 3, FACTOR_LEFT);
        lanes_store(l, f_product(l, &f, &inverse), w->pout, MEM_OUT, false);
    }
    asm_loop_end(w->p);
    asm_jump_if_nonzero(w->p, w->more, w->next_chunk);
    rows_end(w, w->wait);
}

static void loss_pass(struct rows_writer * w, int entry, int scaled_at) {
    struct lanes * l = &w->lanes;
    int body = asm_label_new(w->p), there = asm_label_new(w->p);
    rows_entry(w, entry, body);
    rows_put_lanes(w, RW_SLOT_STATE, k_bits(l, 0));
    asm_label(w->p, body);
    asm_jump_if_zero(w->p, w->streamed, there);
    call(w, scaled_at, there);
    rows_set(w, w->flag, RW_CORE_MEMORY + RW_SCRATCH);
    rows_fill(w, w->flag, MEM_SCRATCH, k_bits(l, 0));
    rows_fill(w, w->row_b, MEM_B, k_bits(l, 0));
    scratch_pointer(w);
    rows_copy(w, w->pb, w->row_b);
    rows_clear_sums(w);
    asm_loop_begin(w->p, w->trips);
    for (int i = 0; i < 2; i++) {
        struct val t = f_sub(l, lanes_load(l, w->ps, MEM_SCRATCH, false), rows_get(w, RW_SLOT_MEAN));
        t = f_sub(l, t, rows_get(w, RW_SLOT_SUM));
        rows_sum(w, i, f_mul(l, t, lanes_load(l, w->pb, MEM_B, false)));
    }
    asm_loop_end(w->p);
    rows_keep_sums(w);
    rows_put(w, RW_SLOT_TOTAL, f_add(l, rows_summed(w), rows_get(w, RW_SLOT_TOTAL)));
    rows_end(w, w->total);
}

void rows_soft_max(struct rows_writer * w, int entry) {
    struct lanes * l = &w->lanes;
    int scaled_at = asm_label_new(w->p), exp_at = asm_label_new(w->p), sum = asm_label_new(w->p);
    int divide = asm_label_new(w->p);
    maximum_pass(w, entry, scaled_at, sum);
    sum_pass(w, sum, scaled_at, exp_at);
    struct val sink = f_exp(l, f_sub(l, k_param(l, RW_ARG_SINK), rows_get(w, RW_SLOT_MEAN)));
    rows_put(w, RW_SLOT_SUM, f_add(l, rows_get(w, RW_SLOT_SUM), sink));
    asm_label(w->p, asm_label_new(w->p));
    rows_put_factor(w, RW_SLOT_FACTOR, f_recip(l, rows_get(w, RW_SLOT_SUM)));
    rows_label_to(w, w->stage, divide);
    asm_jump(w->p, w->last_pass);
    divide_pass(w, divide, scaled_at, exp_at);
    scaled_block(w, scaled_at);
    exp_block(w, exp_at);
}

void rows_loss(struct rows_writer * w, int entry) {
    struct lanes * l = &w->lanes;
    int copy = asm_label_new(w->p), exp_at = asm_label_new(w->p), sum = asm_label_new(w->p);
    int loss = asm_label_new(w->p);
    maximum_pass(w, entry, copy, sum);
    sum_pass(w, sum, copy, exp_at);
    rows_put(w, RW_SLOT_SUM, f_log(l, rows_get(w, RW_SLOT_SUM)));
    rows_label_to(w, w->stage, loss);
    asm_jump(w->p, w->next_pass);
    loss_pass(w, loss, copy);
    copy_block(w, copy);
    exp_block(w, exp_at);
}
