// rows-norm: NORM, RMS_NORM and L2_NORM are one op. All give (x - m) * min((s * f + e)^(-1/2), g),
// with s the sum of (x - m)^2:
//
//                 m       f      e      g
//     norm        mean    1/n    eps    infinity
//     rms_norm    0       1/n    eps    infinity
//     l2_norm     0       1      0      1/eps
//
// f, e and g are arguments 0, 1 and 2; NORM has one pass more, for the mean. Where the second input
// is there, all is multiplied with it at last.
#include "rows-ops.h"
#include "aie/ops/lanes/math.h"
#include "aie/ops/lanes/pieces.h"
#include "aie/ops/lanes/aie2p-wide.h"

static void mean_pass(struct rows_writer * w, int entry, int next) {
    rows_sum_pass(w, entry);
    lanes_put(&w->lanes, RW_SLOT_MEAN,
              f_mul(&w->lanes, rows_summed(w), k_param(&w->lanes, RW_ARG_FACTOR)));
    rows_label_to(w, w->stage, next);
    asm_jump(w->p, w->next_pass);
}

// Two pieces of a number, 16 bits, are enough for its square and its product where the result may
// be fast; what is the same for all vectors is loaded once a trip.
static bool is_doubled(const struct rows_writer * w) {
    return w->fast && wide_is_there(asm_target(w->p));
}

// What the pointer walks, less the mean.
static struct val deviation(struct rows_writer * w, struct val mean) {
    struct val x = lanes_load(&w->lanes, w->pa, MEM_A, false);
    return w->no_mean ? x : f_sub(&w->lanes, x, mean);
}

// One value of two vectors a trip (lanes_set_vectors), whose square is two sums.
static void square_doubled(struct rows_writer * w) {
    struct lanes * l = &w->lanes;
    lanes_set_vectors(l, 2);
    struct val mean = lanes_get(RW_SLOT_MEAN);
    struct val d = deviation(w, mean);
    struct pair d12 = p_halves(l, d);
    struct val square = p_mac(l, p_mul(l, d12, p_swapped(l, d12)), d12, d12);
    lanes_x(l, &square);
    lanes_set_vectors(l, 1);
    for (int i = 0; i < 2; i++) {
        rows_sum(w, i, val_x(square.x[i]));
    }
}

void rows_norm_squares(struct rows_writer * w) {
    if (is_doubled(w)) {
        square_doubled(w);
        return;
    }
    struct lanes * l = &w->lanes;
    struct val mean = lanes_get(RW_SLOT_MEAN);
    if (!w->no_mean) {
        lanes_bm(l, &mean);
    }
    for (int i = 0; i < 2; i++) {
        struct val d = deviation(w, mean);
        if (w->fast) {
            struct pair d12 = p_halves(l, d);
            rows_sum(w, i, p_mac(l, p_mul(l, d12, p_swapped(l, d12)), d12, d12));
        } else {
            struct factor f = f_factor(l, d, 3, FACTOR_BOTH);
            rows_sum(w, i, f_product(l, &f, &f));
        }
    }
}

static void scale_doubled(struct rows_writer * w, bool weighted) {
    struct lanes * l = &w->lanes;
    struct asm_reg pieces[2];
    for (int i = 0; i < 2; i++) {
        pieces[i] = rows_pieces(w, RW_SLOT_FACTOR + i, RW_SLOT_FACTOR + i);
    }
    lanes_set_vectors(l, 2);
    struct val mean = lanes_get(RW_SLOT_MEAN);
    struct val d = deviation(w, mean);
    struct pair d12 = p_halves(l, d), second = p_same(pieces[1]);
    struct val y = p_mac(l, p_mul(l, d12, second), d12, p_same(pieces[0]));
    if (weighted) {
        y = f_times(l, y, lanes_load(l, w->pb, MEM_B, false));
    }
    lanes_store(l, y, w->pout, MEM_OUT, false);
    lanes_set_vectors(l, 1);
}

void rows_norm_scale(struct rows_writer * w, bool weighted) {
    if (is_doubled(w)) {
        scale_doubled(w, weighted);
        return;
    }
    struct lanes * l = &w->lanes;
    struct val mean = lanes_get(RW_SLOT_MEAN);
    if (!w->no_mean) {
        lanes_bm(l, &mean);
    }
    struct pair first = {.none = false}, second = first;
    struct factor scale = {0};
    if (w->fast) {
        first = pair_in(rows_pieces(w, RW_SLOT_FACTOR, RW_SLOT_FACTOR));
        second = pair_in(rows_pieces(w, RW_SLOT_FACTOR + 1, RW_SLOT_FACTOR + 1));
    } else {
        scale = rows_get_factor(w, RW_SLOT_FACTOR);
    }
    for (int i = 0; i < 2; i++) {
        struct val d = deviation(w, mean), y;
        if (w->fast) {
            struct pair d12 = p_halves(l, d);
            y = p_mac(l, p_mul(l, d12, second), d12, first);
        } else {
            struct factor f = f_factor(l, d, 3, FACTOR_LEFT);
            y = f_product(l, &f, &scale);
        }
        if (weighted) {
            y = f_mul(l, y, lanes_load(l, w->pb, MEM_B, false));
        }
        lanes_store(l, y, w->pout, MEM_OUT, false);
    }
}

static void square_pass(struct rows_writer * w, int entry, int next) {
    struct lanes * l = &w->lanes;
    int body = asm_label_new(w->p);
    rows_entry(w, entry, body);
    rows_clear_row_sum(w);
    asm_label(w->p, body);
    rows_fill(w, w->row_a, MEM_A, lanes_get(RW_SLOT_MEAN));
    rows_clear_sums(w);
    asm_loop_begin(w->p, w->trips);
    rows_norm_squares(w);
    asm_loop_end(w->p);
    rows_keep_sums(w);
    struct val s = f_mul(l, rows_summed(w), k_param(l, RW_ARG_FACTOR));
    lanes_put(&w->lanes, RW_SLOT_SUM, f_add(l, s, k_param(l, RW_ARG_ADD)));
    asm_label(w->p, asm_label_new(w->p)); // the next region loads what this one stored
    // Both are positive, so that their bits order like integers.
    struct val root = i_min(l, rows_inverse_root(w, RW_SLOT_SUM), k_param(l, RW_ARG_MOST));
    rows_put_factor(w, RW_SLOT_FACTOR, root);
    rows_label_to(w, w->stage, next);
    asm_jump(w->p, w->last_pass);
}

static void scale_pass(struct rows_writer * w, int body) {
    int weighted = asm_label_new(w->p);
    asm_label(w->p, body);
    rows_param(w, w->flag, RW_PARAM_MASK);
    asm_jump_if_nonzero(w->p, w->flag, weighted);
    for (int i = 0; i < 2; i++) {
        if (i) {
            asm_label(w->p, weighted);
        }
        asm_loop_begin(w->p, w->trips);
        rows_norm_scale(w, i);
        asm_loop_end(w->p);
        asm_jump_if_nonzero(w->p, w->more, w->next_chunk);
        rows_end(w, w->wait);
    }
}

void rows_norm(struct rows_writer * w, int norm_entry, int rms_entry) {
    int square = asm_label_new(w->p), scale = asm_label_new(w->p);
    mean_pass(w, norm_entry, square);
    asm_label(w->p, rms_entry);
    lanes_put(&w->lanes, RW_SLOT_MEAN, k_bits(&w->lanes, 0));
    square_pass(w, square, scale);
    scale_pass(w, scale);
}
