// pairs: two bf16 numbers for each lane, as pieces.h has them: in the two halves of a vector, or,
// where a value is two vectors, in a vector each (aie2p-pairs-apart.c).
#include "aie2p-pairs-apart.h"

#include <string.h>

static void load_slot(struct lanes * l, struct asm_reg to, int half, int slot) {
    emit_load_same(l->p, MEM_POOL, asm_half(to, half), l->pool, lanes_slot_offset(slot));
}

int pair_slot(struct lanes * l, float v) {
    uint32_t pattern;
    memcpy(&pattern, &v, 4);
    pattern >>= 16;
    return k_bits(l, pattern | pattern << 16).slot;
}

static void load_half(struct lanes * l, struct asm_reg to, int half, float v) {
    int slot = pair_slot(l, v);
    if (slot >= 0) { // else reported as a register that nothing wrote
        load_slot(l, to, half, slot);
    }
}

struct pair pair_in(struct asm_reg halves) {
    return (struct pair){.x = {halves}};
}

struct pair p_params(struct lanes * l, int low, int high) {
    const struct asm_reg * kept = low == high ? lanes_kept(l, k_param(l, low).slot) : NULL;
    if (kept) {
        return pair_in(*kept);
    }
    struct asm_reg x = emit_new_pair(l->p);
    load_slot(l, x, 0, k_param(l, low).slot);
    load_slot(l, x, 1, k_param(l, high).slot);
    return pair_in(x);
}

static void convert_half(struct lanes * l, struct asm_reg to, int half, struct asm_reg bm) {
    emit_to_bf16(l->p, asm_half(to, half), bm);
}

struct pair p_constants(struct lanes * l, float low, float high) {
    if (apart(l)) {
        return apart_constants(low, high);
    }
    const struct asm_reg * kept = low == high ? lanes_kept(l, pair_slot(l, low)) : NULL;
    if (kept) {
        return pair_in(*kept);
    }
    struct asm_reg x = emit_new_pair(l->p);
    load_half(l, x, 0, low);
    load_half(l, x, 1, high);
    return pair_in(x);
}

struct pair p_constant_and(struct lanes * l, float low, struct val high) {
    struct asm_reg bm = lanes_bm(l, &high);
    if (apart(l)) {
        return apart_constant_and(l, low, bm);
    }
    struct asm_reg x = emit_new_pair(l->p);
    load_half(l, x, 0, low);
    convert_half(l, x, 1, bm);
    return pair_in(x);
}

struct pair p_two(struct lanes * l, struct val low, struct val high) {
    struct asm_reg a = lanes_bm(l, &low), b = lanes_bm(l, &high);
    if (apart(l)) {
        return apart_two(l, a, b);
    }
    struct asm_reg x = asm_local(l->p, ASM_X);
    convert_half(l, x, 0, a);
    convert_half(l, x, 1, b);
    return pair_in(x);
}

struct pair p_twice(struct lanes * l, struct val v) {
    lanes_bm(l, &v);
    return apart(l) ? apart_twice(l, v.bm) : p_two(l, v, v);
}

static struct pair with_second(struct lanes * l, struct pair p, struct asm_reg bm) {
    if (apart(l)) {
        return apart_with_second(l, p, bm);
    }
    convert_half(l, p.x[0], 1, bm);
    return p;
}

struct pair p_halves(struct lanes * l, struct val v) {
    struct pair x = p_twice(l, v);
    struct val rest = p_msc(l, v, x, p_constants(l, 0.5f, 0.5f));
    return with_second(l, x, rest.bm);
}

struct pair p_swapped(struct lanes * l, struct pair x) {
    if (apart(l)) {
        return apart_swapped(x);
    }
    struct asm_reg d = asm_local(l->p, ASM_X), half = asm_local(l->p, ASM_R);
    emit_set_small(l->p, half, 32);
    emit_shift_bytes(l->p, d, x.x[0], x.x[0], half);
    return pair_in(d);
}

struct pair p_and_none(struct lanes * l, struct val low) {
    struct asm_reg bm = lanes_bm(l, &low);
    if (apart(l)) {
        return apart_and_none(l, bm);
    }
    struct asm_reg x = asm_local(l->p, ASM_X);
    convert_half(l, x, 0, bm);
    load_half(l, x, 1, 0);
    return pair_in(x);
}

struct asm_reg pair_shuffled(struct lanes * l, struct asm_reg a, struct asm_reg b,
                             enum pair_elements which) {
    struct asm_reg d = asm_local(l->p, ASM_X), m = asm_local(l->p, ASM_R);
    emit_set_small(l->p, m, which);
    emit_shuffle(l->p, d, a, b, m);
    return d;
}

struct pair p_uppers(struct lanes * l, struct val low, struct val high) {
    if (apart(l)) {
        return apart_uppers(l, low, high);
    }
    struct asm_reg above = lanes_x(l, &high), below = lanes_x(l, &low);
    return pair_in(pair_shuffled(l, below, above, PAIR_ODD));
}

struct pair p_upper_and(struct lanes * l, struct val low, struct val high) {
    struct pair x = p_uppers(l, low, low);
    return with_second(l, x, lanes_bm(l, &high));
}

struct pair p_lowers(struct lanes * l, struct val v) {
    if (apart(l)) {
        return apart_lowers(l, v);
    }
    struct asm_reg x = lanes_x(l, &v);
    return pair_in(pair_shuffled(l, x, x, PAIR_EVEN));
}

struct pair p_pair(struct lanes * l, struct pieces * p, int i, int j) {
    if (apart(l)) {
        return apart_pair(l, p, i, j);
    }
    if (!p->has[i][j]) {
        struct asm_reg x = emit_new_pair(l->p);
        const int which[2] = {i, j};
        for (int half = 0; half < 2; half++) {
            if (which[half] == NO_PIECE_AT || p->is_constant) {
                load_half(l, x, half, which[half] == NO_PIECE_AT ? 0 : p->constant[which[half]]);
            } else {
                convert_half(l, x, half, p->rest[which[half]]);
            }
        }
        p->pairs[i][j] = pair_in(x);
        p->has[i][j] = true;
    }
    return p->pairs[i][j];
}

// ---- products ----

struct val p_mac(struct lanes * l, struct val c, struct pair a, struct pair b) {
    struct asm_reg acc = lanes_bm(l, &c);
    if (apart(l)) {
        return apart_products(l, LANE_PLUS_PRODUCT, &acc, a, b);
    }
    struct asm_reg d = lanes_new_acc(l);
    emit_mac(l->p, d, acc, a.x[0], b.x[0], l->mul_config);
    return val_bm(d);
}

struct val p_msc(struct lanes * l, struct val c, struct pair a, struct pair b) {
    struct asm_reg acc = lanes_bm(l, &c);
    if (apart(l)) {
        return apart_products(l, LANE_LESS_PRODUCT, &acc, a, b);
    }
    struct asm_reg d = lanes_new_acc(l);
    emit_msc(l->p, d, acc, a.x[0], b.x[0], l->mul_config);
    return val_bm(d);
}

struct val p_mul(struct lanes * l, struct pair a, struct pair b) {
    if (apart(l)) {
        return apart_products(l, LANE_PRODUCT, NULL, a, b);
    }
    struct asm_reg d = lanes_new_acc(l);
    emit_mul(l->p, d, a.x[0], b.x[0], l->mul_config);
    return val_bm(d);
}
