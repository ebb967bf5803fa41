// rows-norm: NORM, RMS_NORM and L2_NORM are one op. All give (x - m) / max(sqrt(s * f + e), d), with s
// the sum of (x - m)^2:
//
//                 m       f      e      d
//     norm        mean    1/n    eps    0
//     rms_norm    0       1/n    eps    0
//     l2_norm     0       1      0      eps
//
// f, e and d are arguments 0, 1 and 2; NORM has one pass more, for the mean.
#include "rows-ops.h"

#include "aie/isa/aie2.h"
#include "math.h"

enum { ARG_FACTOR, ARG_ADD, ARG_LEAST };

// Both are positive, so that their bits order like integers; a NaN is above everything.
static struct val larger(struct lanes * l, struct val a, struct val b) {
    return i_max(l, a, b);
}

static void mean_pass(struct rows_writer * w, int entry, int next) {
    struct lanes * l = &w->lanes;
    int body = asm_label_new(w->p);
    rows_entry(w, entry, body);
    rows_put_lanes(w, RW_SLOT_STATE, k_bits(l, 0));
    asm_label(w->p, body);
    rows_fill(w, w->row_a, MEM_A, k_bits(l, 0));
    rows_clear_sums(w);
    asm_loop_begin(w->p, w->trips);
    for (int i = 0; i < 2; i++) {
        rows_sum(w, i, lanes_load(l, w->pa, MEM_A, false));
    }
    asm_loop_end(w->p);
    rows_keep_sums(w);
    rows_put(w, RW_SLOT_MEAN, f_mul(l, rows_summed(w), k_param(l, ARG_FACTOR)));
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
    rows_put(w, RW_SLOT_LOG, f_add(l, s, k_param(l, ARG_ADD)));
    // Regions of their own: the functions need many registers.
    asm_label(w->p, asm_label_new(w->p));
    rows_put(w, RW_SLOT_LOG, larger(l, f_sqrt(l, rows_get(w, RW_SLOT_LOG)), k_param(l, ARG_LEAST)));
    asm_label(w->p, asm_label_new(w->p));
    rows_put_factor(w, RW_SLOT_FACTOR, f_recip(l, rows_get(w, RW_SLOT_LOG)));
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
