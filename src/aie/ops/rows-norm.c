// rows-norm: NORM, RMS_NORM and L2_NORM are one op. All give (x - m) * min((s * f + e)^(-1/2), g), with
// s the sum of (x - m)^2:
//
//                 m       f      e      g
//     norm        mean    1/n    eps    infinity
//     rms_norm    0       1/n    eps    infinity
//     l2_norm     0       1      0      1/eps
//
// f, e and g are arguments 0, 1 and 2; NORM has one pass more, for the mean.
#include "rows-ops.h"

#include "aie/isa/aie2.h"

enum { ARG_FACTOR, ARG_ADD, ARG_MOST };

// x^(-1/2) of one positive number in all lanes. A guess y of 8 bits comes from the integer unit; with
// e = 1 - x y^2 the root is y (1 - e)^(-1/2), and five terms of that are enough. It is shorter than the
// function for any lanes, and runs once a row.
static struct val inverse_root(struct rows_writer * w, int slot) {
    struct lanes * l = &w->lanes;
    struct asm_reg bits_ = asm_local(w->p, ASM_R), by = asm_local(w->p, ASM_R), magic = asm_local(w->p, ASM_R);
    struct asm_reg half = asm_local(w->p, ASM_R), guess = asm_local(w->p, ASM_R), y_x = asm_local(w->p, ASM_X);
    ASM_MEM(w->p, AIE2_LDA_dms_lda_idx_imm, MEM_POOL, A_REG(bits_), A_REG(w->ps), A_IMM(0));
    ASM(w->p, AIE2_MOVX_alu_cg, A_REG(by), A_IMM(-1));
    ASM(w->p, AIE2_LSHL, A_REG(half), A_REG(bits_), A_REG(by));
    rows_set(w, magic, 0x5f375a86 + 0x8000); // and half of what is cut off below
    ASM(w->p, AIE2_SUB, A_REG(guess), A_REG(magic), A_REG(half));
    ASM(w->p, AIE2_VBCST_32, A_REG(y_x), A_REG(guess));
    struct val x = rows_get(w, slot), y = b_and(l, val_x(y_x), k_bits(l, 0xffff0000));
    struct val minus_y = i_add(l, y, k_bits(l, 0x80000000));
    lanes_x(l, &x);
    struct factor fx = f_factor(l, x, 3, FACTOR_LEFT), fy = f_factor(l, y, 1, FACTOR_RIGHT);
    struct factor f_minus_y = f_factor(l, minus_y, 1, FACTOR_RIGHT);
    struct val s = f_product(l, &fx, &fy);
    struct factor fs = f_factor(l, s, 3, FACTOR_LEFT);
    struct val e = f_mac(l, k_float(l, 1), &fs, &f_minus_y);
    static const float terms[] = {63 / 256.0f, 35 / 128.0f, 5 / 16.0f, 3 / 8.0f, 1 / 2.0f};
    struct factor fe = f_factor(l, e, 3, FACTOR_RIGHT);
    struct val t = k_float(l, terms[0]);
    for (size_t i = 1; i < sizeof terms / sizeof terms[0]; i++) {
        struct factor ft = f_factor(l, t, 2, FACTOR_LEFT);
        t = f_mac(l, k_float(l, terms[i]), &ft, &fe);
    }
    struct factor ft = f_factor(l, t, 3, FACTOR_LEFT);
    t = f_product(l, &ft, &fe);
    ft = f_factor(l, t, 3, FACTOR_LEFT);
    struct val root = f_mac(l, y, &ft, &fy);
    struct val infinity = k_bits(l, 0x7f800000);
    root = v_select(l, m_zero(l, x), root, infinity);
    return v_select(l, m_zero(l, i_sub(l, x, infinity)), root, k_bits(l, 0));
}

static void mean_pass(struct rows_writer * w, int entry, int next) {
    rows_sum_pass(w, entry);
    rows_put(w, RW_SLOT_MEAN, f_mul(&w->lanes, rows_summed(w), k_param(&w->lanes, ARG_FACTOR)));
    rows_label_to(w, w->stage, next);
    asm_jump(w->p, w->next_pass);
}

static void square_pass(struct rows_writer * w, int entry, int next) {
    struct lanes * l = &w->lanes;
    int body = asm_label_new(w->p);
    rows_entry(w, entry, body);
    rows_put_lanes(w, RW_SLOT_STATE, k_bits(l, 0));
    asm_label(w->p, body);
    rows_fill(w, w->row_a, MEM_A, rows_get(w, RW_SLOT_MEAN));
    rows_clear_sums(w);
    asm_loop_begin(w->p, w->trips);
    for (int i = 0; i < 2; i++) {
        struct val d = f_sub(l, lanes_load(l, w->pa, MEM_A, false), rows_get(w, RW_SLOT_MEAN));
        struct factor f = f_factor(l, d, 3, FACTOR_BOTH);
        rows_sum(w, i, f_product(l, &f, &f));
    }
    asm_loop_end(w->p);
    rows_keep_sums(w);
    struct val s = f_mul(l, rows_summed(w), k_param(l, ARG_FACTOR));
    rows_put(w, RW_SLOT_SUM, f_add(l, s, k_param(l, ARG_ADD)));
    rows_set(w, w->ps, RW_CORE_MEMORY + RW_POOL + RW_SLOT_SUM * LANES_POOL_SLOT_BYTES);
    asm_label(w->p, asm_label_new(w->p)); // the next region loads what this one stored
    // Both are positive, so that their bits order like integers.
    struct val root = i_min(l, inverse_root(w, RW_SLOT_SUM), k_param(l, ARG_MOST));
    rows_put_factor(w, RW_SLOT_FACTOR, root);
    rows_label_to(w, w->stage, next);
    asm_jump(w->p, w->last_pass);
}

static void scale_pass(struct rows_writer * w, int body) {
    struct lanes * l = &w->lanes;
    asm_label(w->p, body);
    asm_loop_begin(w->p, w->trips);
    struct factor scale = rows_get_factor(w, RW_SLOT_FACTOR);
    for (int i = 0; i < 2; i++) {
        struct val d = f_sub(l, lanes_load(l, w->pa, MEM_A, false), rows_get(w, RW_SLOT_MEAN));
        struct factor f = f_factor(l, d, 3, FACTOR_LEFT);
        lanes_store(l, f_product(l, &f, &scale), w->pout, MEM_OUT, false);
    }
    asm_loop_end(w->p);
    asm_jump_if_nonzero(w->p, w->more, w->next_chunk);
    rows_end(w, w->wait);
}

void rows_norm(struct rows_writer * w, int norm_entry, int rms_entry) {
    int square = asm_label_new(w->p), scale = asm_label_new(w->p);
    mean_pass(w, norm_entry, square);
    asm_label(w->p, rms_entry);
    rows_put(w, RW_SLOT_MEAN, k_bits(&w->lanes, 0));
    square_pass(w, square, scale);
    scale_pass(w, scale);
}
