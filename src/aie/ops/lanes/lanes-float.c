// lanes-float: f32 arithmetic on a core whose multiplier knows only bf16. A factor is cut into
// pieces of 8 bits, a = a1 + a2 + a3, and a product is the sum of the partial products that matter,
// smallest first: (a1 b3 + a3 b1), (a1 b2 + a2 b1), (a1 b1 + a2 b2). The multiplier makes two
// products a lane at once, so that is three instructions, and the addend of a multiply-add comes
// for free.
#include "lanes.h"

#include "aie/verbs/verbs.h"

#include <string.h>

struct val f_add(struct lanes * l, struct val a, struct val b) {
    struct asm_reg xa = lanes_bm(l, &a), xb = lanes_bm(l, &b), d = lanes_new_acc(l);
    emit_f_add(l->p, d, xa, xb, l->float_config);
    return val_bm(d);
}

struct val f_sub(struct lanes * l, struct val a, struct val b) {
    struct asm_reg xa = lanes_bm(l, &a), xb = lanes_bm(l, &b), d = lanes_new_acc(l);
    emit_f_sub(l->p, d, xa, xb, l->float_config);
    return val_bm(d);
}

struct val f_neg(struct lanes * l, struct val a) {
    return i_add(l, a, k_bits(l, 0x80000000)); // flips the sign, of zeros and NaNs too
}

struct val f_abs(struct lanes * l, struct val a) {
    return b_and(l, a, k_bits(l, 0x7fffffff));
}

struct mask m_negative(struct lanes * l, struct val a) {
    return m_less(l, a, k_bits(l, 0));
}

struct mask m_nan(struct lanes * l, struct val a) {
    struct val magnitude = f_abs(l, a);
    return m_less(l, k_bits(l, 0x7f800000), magnitude);
}

struct mask m_float_less(struct lanes * l, struct val a, struct val b) {
    // The bits of a float order like integers when it is positive and the other way when negative;
    // a sign-and-magnitude number becomes a two's complement one by 0x80000000 - bits.
    struct val order[2] = {a, b};
    struct mask nan = m_nan(l, a), nan_b = m_nan(l, b);
    for (int i = 0; i < 2; i++) {
        struct mask negative = m_negative(l, order[i]);
        order[i] = v_select(l, negative, order[i], i_sub(l, k_bits(l, 0x80000000), order[i]));
    }
    struct mask less = m_less(l, order[0], order[1]), result = less;
    for (int i = 0; i < l->vectors; i++) {
        struct asm_reg any = asm_local(l->p, ASM_R), either = asm_local(l->p, ASM_R);
        result.of[i] = emit_new_mask(l->p, LANE_32);
        emit_alu(l->p, AIE_BASIC_OR, either, nan.of[i], nan_b.of[i]);
        emit_alu(l->p, AIE_BASIC_XOR, any, either, l->minus_one);
        emit_alu(l->p, AIE_BASIC_AND, result.of[i], less.of[i], any);
    }
    return result;
}

// ---- factors ----

static void load_half(struct lanes * l, struct asm_reg to, int half, struct val k) {
    emit_load_same(l->p, MEM_POOL, asm_half(to, half), l->pool, lanes_slot_offset(k.slot));
}

// The pool pattern of two equal bf16, of which v's upper half is one.
static struct val k_pair(struct lanes * l, float v) {
    uint32_t pattern;
    memcpy(&pattern, &v, 4);
    pattern >>= 16;
    return k_bits(l, pattern | pattern << 16);
}

// One of the values that are 0 or in an accumulator, as bf16, into a half of a vector.
struct rests {
    struct asm_reg bm[3];
    int n;
};

static struct asm_reg pair(struct lanes * l, const struct rests * r, int low, int high) {
    struct asm_reg x = emit_new_pair(l->p);
    const int which[2] = {low, high};
    for (int half = 0; half < 2; half++) {
        if (which[half] < r->n) {
            emit_to_bf16(l->p, asm_half(x, half), r->bm[which[half]]);
        } else {
            load_half(l, x, half, k_bits(l, 0));
        }
    }
    return x;
}

enum { NO_PIECE = 3 };

// rest - (the piece that stands in the given half of a pair)
static struct asm_reg subtract_piece(struct lanes * l, struct asm_reg rest, struct asm_reg from,
                                     int half) {
    struct asm_reg unit = emit_new_pair(l->p), d = emit_new_acc(l->p);
    load_half(l, unit, half, k_pair(l, 1.0f));
    load_half(l, unit, !half, k_bits(l, 0));
    emit_msc(l->p, d, rest, from, unit, l->mul_config);
    return d;
}

struct factor f_factor(struct lanes * l, struct val a, int pieces, enum factor_side sides) {
    struct factor f = {.pieces = pieces};
    struct rests r = {.bm = {lanes_bm(l, &a)}, .n = 1};
    f.t = pair(l, &r, 0, NO_PIECE);
    f.p12 = f.t;
    if (pieces > 1) {
        r.bm[r.n++] = subtract_piece(l, r.bm[0], f.t, 0);
        f.p12 = pair(l, &r, 0, 1);
    }
    if (pieces > 2) {
        r.bm[r.n] = subtract_piece(l, r.bm[1], f.p12, 1);
        r.n++;
    }
    if (sides & FACTOR_LEFT) {
        f.p13 = pieces > 2 ? pair(l, &r, 0, 2) : f.t;
        f.p23 = pieces > 3 ? pair(l, &r, 1, 2) : f.t;
    }
    if (sides & FACTOR_RIGHT) {
        f.p21 = pair(l, &r, 1, 0);
        f.p31 = pair(l, &r, 2, 0);
        f.p32 = pieces > 3 ? pair(l, &r, 2, 1) : f.t;
    }
    return f;
}

// ---- products ----

// acc + a * b lane by lane, two products; without acc: the products alone.
static struct asm_reg mac(struct lanes * l, const struct asm_reg * acc, struct asm_reg a,
                          struct asm_reg b) {
    struct asm_reg d = emit_new_acc(l->p);
    if (acc) {
        emit_mac(l->p, d, *acc, a, b, l->mul_config);
    } else {
        emit_mul(l->p, d, a, b, l->mul_config);
    }
    return d;
}

static struct val multiply(struct lanes * l, struct asm_reg * acc, const struct factor * left,
                           const struct factor * right) {
    struct asm_reg sum;
    if (left->pieces > 3 && right->pieces > 3) {
        sum = mac(l, acc, left->p23, right->p32);
        acc = &sum;
    }
    if (left->pieces > 2 || right->pieces > 2) {
        sum = mac(l, acc, left->p13, right->p31);
        acc = &sum;
    }
    if (left->pieces > 1 || right->pieces > 1) {
        sum = mac(l, acc, left->p12, right->p21);
        acc = &sum;
    }
    return val_bm(mac(l, acc, left->p12, right->p12));
}

struct val f_mac(struct lanes * l, struct val c, const struct factor * left,
                 const struct factor * right) {
    struct asm_reg acc = lanes_bm(l, &c);
    return multiply(l, &acc, left, right);
}

struct val f_product(struct lanes * l, const struct factor * left, const struct factor * right) {
    return multiply(l, NULL, left, right);
}

struct val f_mul(struct lanes * l, struct val a, struct val b) {
    // Taking an infinity apart leaves a NaN behind; the product of the first pieces alone knows
    // better.
    struct factor left = f_factor(l, a, FACTOR_EXACT, FACTOR_LEFT);
    struct factor right = f_factor(l, b, FACTOR_EXACT, FACTOR_RIGHT);
    struct val full = f_product(l, &left, &right);
    struct val rough = val_bm(mac(l, NULL, left.t, right.t));
    return v_select(l, m_nan(l, full), full, rough);
}
