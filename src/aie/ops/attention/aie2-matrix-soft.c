// aie2-matrix-soft: what becomes of a block's scores in the program of attention-matrix.h, all
// rows of a core together. Keys behind the last count for nothing, what sums are relative to is
// raised where a score is far beyond it, and powers of two are left behind as bf16 and added up.
#include "attention-matrix-program.h"

#include "aie/isa/aie2.h"
#include "aie/ops/lanes/math-fast.h"
#include "aie/ops/lanes/pieces.h"
#include "aie/verbs/verbs.h"

#define AHEAD          12.0f // of powers of two
#define MINUS_INFINITY 0xff800000u
#define LN_2           0.693147181f
#define WHOLE          0x1.8p23f // where a float's last place is 1

// ---- keys behind the last ----

// Keys behind the last count for nothing, whatever stands there.
void mx_end_keys(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    struct lanes * l = &w->lanes;
    int none = asm_label_new(w->p), all = asm_label_new(w->p);
    at_param(w, w->n, MX_NOW_BLOCKS);
    asm_jump_if_nonzero(w->p, w->n, none);
    at_param(w, w->n, MX_PARAM_SHORT);
    asm_jump_if_zero(w->p, w->n, none);
    int again = mx_units_begin(w);
    mx_point_unit(w, 0, m->to->s, 12);
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
static void largest(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    struct lanes * l = &w->lanes;
    struct asm_reg best[QUERIES][2];
    int again = mx_units_begin(w);
    mx_point_unit(w, 0, m->to->s, 12);
    mx_point_unit(w, 1, m->to->largest, 9);
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

// A loop through vectors of four queries, with pointers to these places; seldom wanted.
static void each_query(struct at_writer * w, const int32_t places[4]) {
    for (int i = 0; i < 4; i++) {
        mx_point(w, i, places[i]);
    }
    mx_trips_of_units(w, 2);
    asm_loop_begin(w->p, w->n);
    asm_loop_alone(w->p);
}

// What sums are relative to is raised where a score is beyond it: to whole numbers, so that a
// difference is exact to its last place (powers).
static void raise(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    struct lanes * l = &w->lanes;
    struct asm_reg raised = asm_global(w->p, ASM_X);
    struct val zero = k_bits(l, 0);
    emit_move(w->p, raised, lanes_x(l, &zero));
    each_query(w, (const int32_t[4]){m->to->largest, MX_STATE, MX_STATE, MX_FACTORS});
    struct val high = mx_across_keys(w, i_max, lanes_load(l, w->at[0], MEM_MADE, true));
    struct val low = mx_across_keys(w, i_min, lanes_load(l, w->at[0], MEM_MADE, true));
    struct val most = v_select(l, m_negative(l, high), high, low);
    struct val old = at_load(w, MEM_STATE, w->at[1], 0);
    emit_advance(w->p, w->at[1], VECTOR);
    struct val ahead = f_add(l, most, k_float(l, WHOLE + AHEAD));
    ahead = f_sub(l, ahead, k_float(l, WHOLE - MX_ORIGIN));
    struct mask beyond = m_negative(l, f_sub(l, old, ahead));
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
    each_query(w, (const int32_t[4]){MX_FACTORS, MX_FACTORS, MX_SUMS, MX_SUMS});
    struct val by = at_times(w, lanes_load(l, w->at[0], MEM_S, false), k_float(l, LN_2));
    struct val factor = m_fast_exp_minus(l, by);
    lanes_store(l, factor, w->at[1], MEM_S_NEW, false);
    struct val sum = at_times(w, lanes_load(l, w->at[2], MEM_SUMS, false), factor);
    lanes_store(l, sum, w->at[3], MEM_STATE, false);
    asm_loop_end(w->p);
    asm_label(w->p, none);
}

// 2^d of a score's distance d, as bf16, is made in two loops. The first has 128 d as integers,
// which are the bits of 2^d but for what 1 + f is less than 2^f; the second puts that right. Of
// vectors of 32 bits the first makes those of 16, so that a trip has four of scores, all queries of
// four keys.
//
// A sum with 1.5 * 2^16 has 1 / 128 for its last place: its bits, less those of that number, are
// 128 d. What is too small for a bf16 is 0. The first loop leaves the lower seven bits with the
// exponent of 128, a number y = 128 * (1 + f), and what is to be added to the bits of 128 * 2^f.
#define ORIGIN_BITS 0x47c00000 // MX_ORIGIN
enum {
    PLACES = 128,
    ZERO = 127 * PLACES, // bits of 1
    // What is summed up is 2^UP of what it should be: times 2^-112 (MX_F16_UP) it is no denormal.
    UP = 64,
    BEYOND = 8,        // of powers of two, that a score may be beyond what sums are relative to
    EXPONENT = 0x4300, // of 128 as bf16
    TRIPS = MX_KEYS / 4,
};

// The subroutine m->powers. w->n is not 0 where a score is too far beyond what sums are relative
// to.
void mx_powers(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    struct lanes * l = &w->lanes;
    struct asm_program * p = w->p;
    asm_label(p, m->powers);
    struct asm_reg base[QUERIES / 2], most = mx_constant(w, 0), none = mx_constant(w, 0);
    struct asm_reg exponent = mx_constant(w, EXPONENT * 0x10001u), zero = asm_global(p, ASM_CM);
    struct asm_reg places = mx_constant(w, (PLACES - 1) * 0x10001u);
    struct asm_reg bits = mx_constant(w, ORIGIN_BITS + ZERO + UP * PLACES);
    for (int i = 0; i < 2; i++) {
        emit_move(p, asm_half(zero, i), bits);
    }
    asm_release(p, bits);
    for (int i = 0; i < QUERIES / 2; i++) {
        base[i] = asm_global(p, ASM_CM);
    }
    int again = mx_units_begin(w);
    mx_point_unit(w, 0, m->to->s, 12);
    mx_point_unit(w, 1, m->to->p, 11);
    mx_point_unit(w, 2, MX_STATE, 8);
    mx_point_unit(w, 3, m->to->e, 11);
    for (int i = 0; i < QUERIES / 2; i++) {
        emit_load(p, MEM_STATE, base[i], w->at[2], 2 * VECTOR * i);
    }
    emit_set_small(p, w->d, 0);
    emit_set_small(p, w->n, TRIPS);
    asm_loop_begin(p, w->n);
    for (int pair = 0; pair < QUERIES / 2; pair++) {
        struct asm_reg s = asm_local(p, ASM_CM), t = asm_local(p, ASM_CM), d = asm_local(p, ASM_CM);
        struct asm_reg n = asm_local(p, ASM_X), x = asm_local(p, ASM_X), low = asm_local(p, ASM_X);
        struct asm_reg y = asm_local(p, ASM_X), e = asm_local(p, ASM_X);
        struct asm_reg which = emit_new_mask(p, LANE_16), other = emit_new_mask(p, LANE_16);
        emit_load_next(p, MEM_S, s, w->at[0]);
        emit_f_sub(p, t, base[pair], s, l->float_config);
        ASM(p, AIE2_VSUB, A_REG(d), A_REG(zero), A_REG(t), A_REG(w->d));
        emit_narrow_16(p, n, d, l->shift0);
        emit_choose(p, LANE_MAX, LANE_16, x, which, n, none);
        emit_choose(p, LANE_MAX, LANE_16, most, other, most, x);
        emit_lanes(p, LANE_AND, LANE_16, low, x, places);
        emit_lanes(p, LANE_OR, LANE_16, y, low, exponent);
        emit_lanes(p, LANE_SUB, LANE_16, e, x, y);
        emit_store_next(p, MEM_P, y, w->at[1]);
        emit_store_next(p, MEM_E, e, w->at[3]);
    }
    asm_loop_end(p);
    mx_units_end(w, again);
    struct asm_reg limit = mx_constant(w, (ZERO + (UP + BEYOND) * PLACES) * 0x10001u);
    struct asm_reg beyond = emit_new_mask(p, LANE_16);
    emit_compare(p, LANE_LESS, LANE_16, beyond, limit, most);
    at_copy(w, w->n, beyond);
    struct asm_reg globals[] = {limit, base[1], base[0], places, zero, exponent, none, most};
    for (size_t i = 0; i < sizeof globals / sizeof globals[0]; i++) {
        asm_release(p, globals[i]);
    }
    asm_jump_pointer(p, w->back);
}

// 128 * 2^f of y = 128 * (1 + f) is y * (A + B * y) + C, within 0.6 %.
static void mantissas(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    const float a = -0.0161719f, b = 0.00263977f, c = 86.8f;
    struct lanes * l = &w->lanes;
    struct asm_program * p = w->p;
    struct asm_reg halves[2], acc[2], by = mx_constant(w, mx_twice(b)), all = mx_constant(w, ~0u);
    const float constants[2] = {a, c};
    for (int i = 0; i < 2; i++) {
        struct val v = k_float(l, constants[i]);
        acc[i] = asm_global(p, ASM_BM);
        emit_move(p, acc[i], lanes_x(l, &v));
        halves[i] = asm_global(p, ASM_X);
        struct asm_reg bytes = asm_local(p, ASM_R), nothing = asm_local(p, ASM_X);
        emit_set_small(p, bytes, HALF);
        emit_lanes(p, LANE_SUB, LANE_32, nothing, all, all);
        emit_shift_bytes(p, halves[i], i ? nothing : all, i ? all : nothing, bytes);
    }
    asm_release(p, all);
    mx_point(w, 0, m->to->p);
    mx_point(w, 1, m->to->p);
    mx_point(w, 2, m->to->e);
    mx_trips_of_units(w, 5); // 32 of each
    asm_loop_begin(p, w->n);
    struct asm_reg part[2], y = asm_local(p, ASM_X), slope = asm_local(p, ASM_X);
    struct asm_reg power = asm_local(p, ASM_X), e = asm_local(p, ASM_X), made = asm_local(p, ASM_X);
    emit_load_next(p, MEM_P, y, w->at[0]);
    for (int i = 0; i < 2; i++) {
        struct asm_reg sum = asm_local(p, ASM_BM);
        part[i] = asm_local(p, ASM_X);
        emit_lanes(p, LANE_AND, LANE_16, part[i], y, halves[i]);
        emit_mac(p, sum, acc[0], part[i], by, l->mul_config);
        emit_to_bf16(p, asm_half(slope, i), sum);
    }
    for (int i = 0; i < 2; i++) {
        struct asm_reg sum = asm_local(p, ASM_BM);
        emit_mac(p, sum, acc[1], part[i], slope, l->mul_config);
        emit_to_bf16(p, asm_half(power, i), sum);
    }
    emit_load_next(p, MEM_E, e, w->at[2]);
    emit_lanes(p, LANE_ADD, LANE_16, made, power, e);
    emit_store_next(p, MEM_P_NEW, made, w->at[1]);
    asm_loop_end(p);
    struct asm_reg globals[] = {halves[1], acc[1], halves[0], acc[0], by};
    for (size_t i = 0; i < sizeof globals / sizeof globals[0]; i++) {
        asm_release(p, globals[i]);
    }
}

static void add_up(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    struct asm_reg sums[QUERIES];
    int again = mx_units_begin(w);
    mx_point_unit(w, 0, m->to->p, 11);
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

// What sums are relative to is looked at where there are none yet, and where a score is too far
// beyond it: then powers are taken once more.
void mx_soft(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    int again = asm_label_new(w->p), high = asm_label_new(w->p), done = asm_label_new(w->p);
    emit_set_small(w->p, w->n, 0);
    at_keep(w, MX_NOW_RAISED, w->n);
    at_keep(w, MX_NOW_TRIED, w->n);
    at_param(w, w->n, MX_NOW_SUMS);
    asm_jump_if_zero(w->p, w->n, high);
    asm_label(w->p, again);
    at_call(w, m->powers);
    asm_jump_if_zero(w->p, w->n, done);
    at_param(w, w->n, MX_NOW_TRIED);
    asm_jump_if_nonzero(w->p, w->n, done);
    asm_label(w->p, high);
    at_keep(w, MX_NOW_TRIED, w->lanes.one);
    largest(m);
    raise(m);
    shrink(w);
    asm_jump(w->p, again);
    asm_label(w->p, done);
    mantissas(m);
    add_up(m);
}
