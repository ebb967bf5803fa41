// rows-math: functions for the row programs, shorter than those for any lanes because they know
// what they are given: one number in all lanes, from which the integer unit makes a guess, or
// numbers that are not positive.
#include "rows-ops.h"

#include "aie/verbs/verbs.h"
#include "aie/ops/lanes/math-lanes.h"

#include <math.h>
#include <string.h>

// magic - (the bits in the slot >> shift), rounded to bf16, in all lanes.
static struct val guess_from(struct rows_writer * w, int slot, int32_t magic, int shift) {
    struct asm_reg bits_ = asm_local(w->p, ASM_R), by = asm_local(w->p, ASM_R),
                   r = asm_local(w->p, ASM_R);
    struct asm_reg from = asm_local(w->p, ASM_R), x = emit_new_value(w->p);
    rows_set(w, w->ps, rows_address(w, RW_POOL + slot * LANES_POOL_SLOT_BYTES));
    emit_load_word(w->p, MEM_POOL, bits_, w->ps, 0);
    if (shift) {
        emit_set_small(w->p, by, -shift);
        emit_alu(w->p, AIE_BASIC_SHIFT, bits_, bits_, by);
    }
    rows_set(w, from, magic + 0x8000);
    emit_alu(w->p, AIE_BASIC_SUB, r, from, bits_);
    emit_splat(w->p, LANE_32, x, r);
    return b_and(&w->lanes, val_x(x), k_bits(&w->lanes, 0xffff0000));
}

// (c - s y), y a single piece, largest term first: what is left is exact.
static struct val remainder_of(struct lanes * l, float c, struct pieces * s, struct pieces * y) {
    struct pair by = p_pair(l, y, 0, 0), largest = p_pair(l, s, 0, 1);
    struct val rest = p_msc(l, k_float(l, c), largest, by);
    return p_msc(l, rest, p_pair(l, s, 2, NO_PIECE_AT), by);
}

struct val rows_inverse_root(struct rows_writer * w, int slot) {
    // A guess y of 8 bits; with e = 1 - x y^2 the root is y (1 - e)^(-1/2), |e| < 0.08.
    static const float terms[] = {63 / 256.0f, 35 / 128.0f, 5 / 16.0f, 3 / 8.0f, 1 / 2.0f};
    struct lanes * l = &w->lanes;
    struct val x = lanes_get(slot), y = guess_from(w, slot, 0x5f375a86, 1);
    lanes_bm(l, &x);
    struct pieces px = p_split(l, x, 3), py = p_split(l, y, 1);
    struct val s = p_mul_of(l, pair_of(&px, 2, NO_PIECE_AT), pair_of(&py, 0, 0));
    s = p_mac_of(l, s, pair_of(&px, 0, 1), pair_of(&py, 0, 0));
    struct pieces ps = p_split(l, s, 3);
    struct val e = remainder_of(l, 1, &ps, &py);
    struct pieces pe = p_split(l, e, 3);
    struct pair first = p_constants(l, terms[0], terms[0]), largest = p_pair(l, &pe, 0, 1);
    struct val t = p_mac(l, k_float(l, terms[1]), largest, first);
    for (int i = 2; i < 5; i++) {
        t = p_step(l, terms[i], t, &pe, i < 4 ? 2 : 3);
    }
    struct pieces pt = p_split(l, t, 3);
    t = p_mul_n(l, &pt, &pe, 3);
    pt = p_split(l, t, 3);
    struct val root = p_mac_of(l, y, pair_of(&pt, 2, NO_PIECE_AT), pair_of(&py, 0, 0));
    root = p_mac_of(l, root, pair_of(&pt, 0, 1), pair_of(&py, 0, 0));
    struct val infinity = k_bits(l, F32_INF);
    root = v_select(l, m_zero(l, x), root, infinity);
    struct val zero = k_bits(l, 0);
    return v_select(l, m_zero(l, i_sub(l, x, infinity)), root, zero);
}

struct val rows_inverse(struct rows_writer * w, int slot) {
    struct lanes * l = &w->lanes;
    struct val s = lanes_get(slot), y0 = guess_from(w, slot, 0x7ef311c3, 0), one = k_float(l, 1);
    struct pieces ps = p_split(l, s, 3), py0 = p_split(l, y0, 1);
    // 1/s = y0 / (1 - e): three terms of that in 8 bits,
    struct val e0 = p_msc_of(l, one, pair_of(&ps, 0, 1), pair_of(&py0, 0, 0));
    struct pieces pe0 = p_split(l, e0, 1);
    struct val h = f_add(l, one, e0);
    for (int i = 0; i < 2; i++) {
        struct pieces ph = p_split(l, h, 1);
        h = p_mac_of(l, one, pair_of(&pe0, 0, NO_PIECE_AT), pair_of(&ph, 0, NO_PIECE_AT));
    }
    struct pieces ph = p_split(l, h, 1);
    struct val y1 = p_mul_of(l, pair_of(&py0, 0, NO_PIECE_AT), pair_of(&ph, 0, NO_PIECE_AT));
    // and once more with the 8 bits that this has, in full.
    struct pieces py1 = p_split(l, y1, 1);
    struct val e = remainder_of(l, 1, &ps, &py1);
    struct pieces pe = p_split(l, e, 2);
    struct val g = p_mac_of(l, e, pair_of(&pe, 0, NO_PIECE_AT), pair_of(&pe, 0, NO_PIECE_AT));
    struct pieces pg = p_split(l, g, 1);
    struct val t = p_mac_of(l, e, pair_of(&pe, 0, 1), pair_of(&pg, 0, 0));
    struct pieces pt = p_split(l, t, 2);
    struct pair unit = p_constants(l, 1, 0);
    struct val whole = p_mul(l, p_pair(l, &py1, 0, 0), unit);
    return p_mac_of(l, whole, pair_of(&pt, 0, 1), pair_of(&py1, 0, 0));
}

// ---- logarithm ----

// log(x) = k ln(2) - log(r) + log1p(x r / 2^k - 1), where k and the first bits of x's fraction
// choose r, near 2^k / x, and the logarithms from tables.
enum { LOG_STEPS = 64, LOG_POWERS = 32 };

void rows_log_tables(uint8_t bytes[RW_TABLE_BYTES]) {
    _Static_assert(LOG_STEPS * 8 + LOG_POWERS * 4 == RW_TABLE_BYTES, "the tables fit");
    for (int i = 0; i < LOG_STEPS + LOG_POWERS; i++) {
        float r = i ? (float) (1 / (1 + (i + 0.5) / LOG_STEPS)) : 1, log_;
        uint32_t pattern;
        memcpy(&pattern, &r, 4);
        pattern &= 0xffff0000;
        memcpy(&r, &pattern, 4);
        log_ = i < LOG_STEPS ? (float) -log((double) r) : (float) ((i - LOG_STEPS) * MATH_LN_2);
        if (i < LOG_STEPS) {
            store_u32(bytes + 8 * i, pattern);
            memcpy(&pattern, &log_, 4);
            store_u32(bytes + 8 * i + 4, pattern);
        } else {
            memcpy(&pattern, &log_, 4);
            store_u32(bytes + 8 * LOG_STEPS + 4 * (i - LOG_STEPS), pattern);
        }
    }
}

// Bits [from, from + n) of r times the size of a table entry, plus the table's address, to a
// pointer.
static void table_pointer(struct rows_writer * w, struct asm_reg pointer, struct asm_reg r,
                          int from, int mask, int log2_size, int32_t table) {
    struct asm_reg amount = asm_local(w->p, ASM_R), m = asm_local(w->p, ASM_R),
                   at = asm_local(w->p, ASM_R);
    struct asm_reg base = asm_local(w->p, ASM_R);
    emit_set_small(w->p, amount, log2_size - from);
    emit_alu(w->p, AIE_BASIC_SHIFT, at, r, amount);
    emit_set_small(w->p, m, mask << log2_size);
    emit_alu(w->p, AIE_BASIC_AND, at, at, m);
    rows_set(w, base, rows_address(w, table));
    emit_alu(w->p, AIE_BASIC_ADD, at, at, base);
    rows_copy(w, pointer, at);
}

static struct val table_entry(struct rows_writer * w, struct asm_reg pointer, int offset) {
    struct asm_reg r = asm_local(w->p, ASM_R), x = emit_new_value(w->p);
    emit_load_word(w->p, MEM_B, r, pointer, offset);
    emit_splat(w->p, LANE_32, x, r);
    return val_x(x);
}

struct val rows_log(struct rows_writer * w, int slot) {
    const float third = 1 / 3.0f; // log1p(g) = g - g^2/2 + g^3/3, |g| < 1/64
    struct lanes * l = &w->lanes;
    struct asm_reg bits_ = asm_local(w->p, ASM_R), less = asm_local(w->p, ASM_R),
                   k = asm_local(w->p, ASM_R);
    rows_set(w, w->ps, rows_address(w, RW_POOL + slot * LANES_POOL_SLOT_BYTES));
    emit_load_word(w->p, MEM_POOL, bits_, w->ps, 0);
    table_pointer(w, w->ps, bits_, 17, LOG_STEPS - 1, 3, RW_TABLES);
    rows_set(w, less, -(127 << 23));
    emit_alu(w->p, AIE_BASIC_ADD, k, bits_, less);
    table_pointer(w, w->pa, k, 23, LOG_POWERS - 1, 2, RW_TABLES + 8 * LOG_STEPS);
    struct val r = table_entry(w, w->ps, 0), log_r = table_entry(w, w->ps, 4);
    struct val log_k = table_entry(w, w->pa, 0), s = lanes_get(slot);
    lanes_x(l, &s);
    struct val one = k_bits(l, F32_ONE);
    struct val m = b_or(l, b_and(l, s, k_bits(l, F32_FRACTION)), one);
    struct pieces pm = p_split(l, m, 3), pr = p_split(l, r, 1);
    struct val less_g = remainder_of(l, 1, &pm, &pr), g = f_neg(l, less_g);
    lanes_bm(l, &g);
    struct pieces pg = p_split(l, g, 2);
    struct pair thirds = p_constants(l, third, third), largest = p_pair(l, &pg, 0, 1);
    struct val h = p_mac(l, k_float(l, -0.5f), largest, thirds);
    struct pieces ph = p_split(l, h, 2);
    h = p_mul_n(l, &ph, &pg, 2);
    ph = p_split(l, h, 2);
    struct val logs = f_add(l, log_k, log_r);
    logs = f_add(l, logs, f_sub(l, s, s)); // a NaN stays one
    return f_add(l, logs, p_mac_n(l, g, &ph, &pg, 2));
}

// ---- exponential ----

// A value as two pieces in one vector, made in place: the second half first holds anything finite.
static struct pair split2(struct lanes * l, struct val v, struct pair unit) {
    struct asm_reg bm = lanes_bm(l, &v), x = emit_new_pair(l->p);
    emit_to_bf16(l->p, asm_half(x, 0), bm);
    emit_to_bf16(l->p, asm_half(x, 1), bm);
    struct val rest = p_msc(l, val_bm(bm), pair_in(x), unit);
    emit_to_bf16(l->p, asm_half(x, 1), rest.bm);
    return pair_in(x);
}

static struct pair swapped(struct lanes * l, struct pair x, struct asm_reg half) {
    struct asm_reg d = emit_new_pair(l->p);
    emit_shift_bytes(l->p, d, x.x[0], x.x[0], half);
    return pair_in(d);
}

// e^-m = 2^n e^-r, r = m + n ln(2). Unlike math-exp.c's, products are of two pieces and the
// polynomial has a short path: 1 - r + r^2 ((1/2 - r/6) + r^2 ((1/24 - r/120) + r^2/720)). Vectors
// go side by side and share what they load. math-lanes.h says what that is worth.
struct exp_minus {
    int n_vals;
    struct pair unit;
    struct asm_reg half;
    struct val x[2], most[2]; // |m|, and not more than where the result is 0
    struct val t[2], r[2];    // n, in the bits of a float of a known exponent; then 1 - r
    struct pair pair[2], other[2];
};

#define EACH for (int i = 0; i < e->n_vals; i++)

static void exp_reduce(struct lanes * l, struct exp_minus * e, const struct val m[]) {
    const float base = 0x1.8p16f;
    struct pieces log2e = p_constant(MATH_LOG2_E, 2), ln2 = p_constant(MATH_LN_2, 4);
    struct val largest = k_float(l, 88), start = k_float(l, base + 0.5f), from = k_float(l, base);
    lanes_x(l, &largest);
    EACH {
        e->x[i] = f_abs(l, m[i]); // a NaN may have any sign
        e->most[i] = i_min(l, e->x[i], largest);
        lanes_bm(l, &e->most[i]);
    }
    EACH {
        e->pair[i] = split2(l, e->most[i], e->unit);
    }
    lanes_bm(l, &start);
    EACH {
        e->t[i] = p_msc(l, start, e->pair[i], p_pair(l, &log2e, 1, 1));
    }
    EACH {
        e->t[i] = p_msc(l, e->t[i], e->pair[i], p_pair(l, &log2e, 0, 0));
        lanes_x(l, &e->t[i]);
    }
    struct val whole = k_bits(l, 0xffffff80);
    lanes_x(l, &whole);
    lanes_bm(l, &from);
    EACH {
        struct val n = f_sub(l, b_and(l, e->t[i], whole), from);
        struct pieces pn = p_split(l, n, 1);
        e->pair[i] = p_pair(l, &pn, 0, 0);
    }
    EACH {
        e->r[i] = p_mac(l, e->most[i], e->pair[i], p_pair(l, &ln2, 0, 1));
    }
    EACH {
        e->r[i] = p_mac(l, e->r[i], e->pair[i], p_pair(l, &ln2, 2, 3));
    }
}

// The factor of r^2, in `left`, with r^2 as pairs in `pair` and `other`.
static void exp_series(struct lanes * l, struct exp_minus * e, struct pair left[2]) {
    const float * c = math_exp_terms;
    struct pieces c3 = p_constant(-(double) c[0], 2);
    struct val square[2], k2 = k_float(l, 0.5f), k4 = k_float(l, c[1]), one = k_float(l, 1);
    struct val a[2], b[2];
    lanes_bm(l, &one);
    EACH {
        e->r[i] = f_sub(l, one, e->r[i]);
    }
    EACH {
        square[i] = p_mul(l, e->pair[i], e->other[i]);
    }
    EACH {
        square[i] = p_mac(l, square[i], e->pair[i], e->pair[i]);
    }
    struct pair k5 = p_constants(l, -c[2], -c[2]);
    lanes_bm(l, &k2);
    lanes_bm(l, &k4);
    EACH {
        b[i] = p_mac(l, k4, e->pair[i], k5);
    }
    EACH {
        a[i] = p_mac(l, k2, e->pair[i], p_pair(l, &c3, 1, 1));
    }
    EACH {
        a[i] = p_mac(l, a[i], e->pair[i], p_pair(l, &c3, 0, 0));
    }
    EACH {
        e->pair[i] = split2(l, square[i], e->unit);
    }
    EACH {
        e->other[i] = swapped(l, e->pair[i], e->half);
    }
    struct pair k6 = p_constants(l, c[3], c[3]);
    EACH {
        b[i] = p_mac(l, b[i], e->pair[i], k6);
    }
    EACH {
        left[i] = split2(l, b[i], e->unit);
    }
    EACH {
        a[i] = p_mac(l, a[i], left[i], e->other[i]);
    }
    EACH {
        a[i] = p_mac(l, a[i], left[i], e->pair[i]);
    }
    EACH {
        left[i] = split2(l, a[i], e->unit);
    }
}

// With the power of two; 0 where that is too small, and a NaN of a NaN.
static void exp_result(struct lanes * l, const struct exp_minus * e, const struct val b[],
                       struct val out[]) {
    struct val power = k_bits(l, 0xff80), zero = k_bits(l, 0), normal = k_bits(l, F32_NORMAL);
    struct val infinity = k_bits(l, F32_INF), x[2];
    lanes_x(l, &power);
    EACH {
        struct val exponent = m_up16(l, b_and(l, e->t[i], power));
        out[i] = i_add(l, f_add(l, b[i], e->r[i]), exponent);
    }
    lanes_x(l, &zero);
    lanes_x(l, &infinity);
    EACH {
        x[i] = v_select(l, m_less(l, infinity, e->x[i]), zero, e->x[i]);
    }
    lanes_x(l, &normal);
    EACH {
        out[i] = v_select(l, m_less(l, out[i], normal), out[i], x[i]);
    }
}

void rows_exp_minus(struct lanes * l, int n_vals, const struct val m[], struct val out[]) {
    struct exp_minus state = {.n_vals = n_vals, .unit = p_constants(l, 1, 0)}, *e = &state;
    struct pair left[2];
    struct val b[2];
    e->half = asm_local(l->p, ASM_R);
    emit_set_small(l->p, e->half, asm_target(l->p)->vector_bytes / 2);
    exp_reduce(l, e, m);
    EACH {
        e->pair[i] = split2(l, e->r[i], e->unit);
    }
    EACH {
        e->other[i] = swapped(l, e->pair[i], e->half);
    }
    exp_series(l, e, left);
    EACH {
        b[i] = p_mul(l, left[i], e->other[i]);
    }
    EACH {
        b[i] = p_mac(l, b[i], left[i], e->pair[i]);
    }
    exp_result(l, e, b, out);
}
#undef EACH
