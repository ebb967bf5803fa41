// aie2-matrix-f16: what comes as f16 to the program of attention-matrix.h: keys and values, which
// become bf16, and the mask, which is added to scores.
//
// A number of f16 whose magnitude is shifted, by 3 bits to the right in 16 of them or by 13 to the
// left in 32, is a bf16 or f32 that is 2^-112 of it, whatever the number, and 2^112 is put into
// what it is multiplied with anyway: q's scale, the sums' inverse, log2(e). Infinities become 2^16:
// as a mask that is far below any score.
#include "attention-matrix-program.h"

#include "aie/isa/aie2.h"
#include "aie/ops/lanes/math-lanes.h"
#include "aie/verbs/verbs.h"

enum { WALK = 0 }; // of the address generators', where no product runs
enum { MEM_MADE_OF_F16 = MEM_MASK /* of k's bank, too */ };

// ---- keys and values ----

void mx_convert(struct at_writer * w) {
    enum { MAGNITUDE_AND_SIGN = 0x8fff, LOWER = 3 };
    struct asm_program * p = w->p;
    int none = asm_label_new(p);
    asm_label(p, w->convert);
    asm_jump_if_zero(p, w->n, none);
    at_copy(w, w->at[0], w->a);
    at_copy(w, w->at[1], w->a);
    struct asm_reg bits = asm_global(p, ASM_X), lower = asm_global(p, ASM_S);
    struct asm_reg kept = asm_local(p, ASM_R);
    at_set(w, kept, MAGNITUDE_AND_SIGN);
    emit_splat(p, LANE_16, bits, kept);
    emit_set_shift(p, lower, LOWER);
    asm_loop_begin(p, w->n);
    struct asm_reg raw = asm_local(p, ASM_X), wide = asm_local(p, ASM_CM);
    struct asm_reg narrow = asm_local(p, ASM_X), made = asm_local(p, ASM_X);
    emit_load_next(p, MEM_K, raw, w->at[0]);
    emit_widen_16(p, wide, raw, w->lanes.shift0);
    emit_narrow_16(p, narrow, wide, lower);
    emit_lanes(p, LANE_AND, LANE_16, made, narrow, bits);
    emit_store_next(p, MEM_MADE_OF_F16, made, w->at[1]);
    asm_loop_end(p);
    asm_release(p, bits);
    asm_release(p, lower);
    asm_label(p, none);
    asm_jump_pointer(p, w->back);
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

// Both vectors of scores of a trip, from or to where a pointer walks with the mask's.
static void move_scores(struct at_writer * w, struct asm_reg acc, bool out) {
    enum { SECOND = QUERIES * VECTOR };
    struct asm_arg pointer = A_REG(w->at[out]), walk = A_FIXED(AIE_REG(AIE_D, WALK + 1 + out));
    for (int i = 3; i >= 0; i--) {
        struct asm_arg part = A_REG(asm_quarter(acc, i));
        struct asm_arg at = A_IMM(i / 2 * SECOND + i % 2 * HALF);
        if (out && i) {
            ASM_MEM(w->p, AIE2_VST_dmw_sts_am_ag_idx_imm, MEM_S_NEW, part, pointer, at);
        } else if (out) {
            ASM_MEM(w->p, AIE2_VST_2D_dmw_sts_am, MEM_S_NEW, pointer, part, walk);
        } else if (i) {
            ASM_MEM(w->p, AIE2_VLDA_dmw_lda_am_ag_idx_imm, MEM_S, part, pointer, at);
        } else {
            ASM_MEM(w->p, AIE2_VLDA_2D_dmw_lda_am, MEM_S, part, pointer, walk);
        }
    }
}

// Constants of the mask, in all lanes.
struct mask_constants {
    struct asm_reg bits, half, log2e[2];
};

static struct mask_constants take_constants(struct at_writer * w) {
    struct mask_constants c;
    struct asm_reg * const all[] = {&c.bits, &c.half, &c.log2e[0], &c.log2e[1]};
    float by = (float) (MATH_LOG2_E * MX_F16_UP), upper = mx_bf16(by);
    const uint32_t patterns[] = {0x8fffffff, mx_twice(0.5f), mx_twice(upper), mx_twice(by - upper)};
    for (int i = 0; i < 4; i++) {
        *all[i] = mx_constant(w, patterns[i]);
    }
    return c;
}

// Scores are to the base of 2: mask times log2(e), both to 16 bits, of which the mask has no more.
static struct asm_reg plus_mask(struct at_writer * w, const struct mask_constants * c,
                                struct asm_reg s, struct asm_reg wide) {
    struct asm_program * p = w->p;
    struct asm_reg mask = asm_local(p, ASM_CM), rest = asm_local(p, ASM_CM), sum[2];
    for (int i = 0; i < 2; i++) {
        sum[i] = asm_local(p, ASM_CM);
    }
    for (int i = 0; i < 2; i++) {
        struct asm_reg moved = asm_local(p, ASM_X), kept = asm_local(p, ASM_X);
        emit_move(p, moved, asm_half(wide, i));
        emit_lanes(p, LANE_AND, LANE_32, kept, moved, c->bits);
        emit_move(p, asm_half(mask, i), kept);
        struct asm_reg pieces = mx_pieces(w, asm_half(mask, i), asm_half(rest, i), c->half);
        emit_mac(p, asm_half(sum[0], i), asm_half(s, i), pieces, c->log2e[1], w->lanes.mul_config);
        emit_mac(p, asm_half(sum[1], i), asm_half(sum[0], i), pieces, c->log2e[0],
                 w->lanes.mul_config);
    }
    return sum[1];
}

// The subroutine m->add_mask. A trip has eight keys of four queries: two vectors of scores.
void mx_add_mask(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    asm_label(w->p, m->add_mask);
    at_param(w, w->c, MX_PARAM_MASK);
    const struct mask_constants c = take_constants(w);
    int again = mx_units_begin(w);
    for (int i = 1; i <= 2; i++) {
        emit_set_fixed(w->p, AIE_REG(AIE_DJ, WALK + i), VECTOR);
        emit_set_fixed(w->p, AIE_REG(AIE_M, WALK + i), (QUERIES + 1) * VECTOR);
        emit_set_fixed(w->p, AIE_REG(AIE_DN, WALK + i), QUERIES - 1);
        emit_set_fixed(w->p, AIE_REG(AIE_DC, WALK + i), 0);
    }
    mx_point_unit(w, 0, m->to->s, 12);
    mx_point_unit(w, 1, m->to->s, 12);
    walk_mask(w);
    emit_set_small(w->p, w->step, MX_TURN_4X8);
    asm_loop_begin(w->p, w->n);
    struct asm_reg x = load_mask(w), turned = asm_local(w->p, ASM_X);
    struct asm_reg wide = asm_local(w->p, ASM_CM), s = asm_local(w->p, ASM_CM);
    emit_shuffle(w->p, turned, x, x, w->step);
    emit_widen_16(w->p, wide, turned, w->lanes.shift13);
    move_scores(w, s, false);
    move_scores(w, plus_mask(w, &c, s, wide), true);
    asm_loop_end(w->p);
    at_add_param(w, w->c, MX_PARAM_MASK_NEXT);
    mx_units_end(w, again);
    asm_release(w->p, c.log2e[1]);
    asm_release(w->p, c.log2e[0]);
    asm_release(w->p, c.half);
    asm_release(w->p, c.bits);
    asm_jump_pointer(w->p, w->back);
}
