// aie2p-pairs-apart: see the header.
#include "aie2p-pairs-apart.h"

// All lanes of a value, as bf16.
static struct asm_reg converted(struct lanes * l, struct asm_reg bm) {
    struct asm_reg x = asm_local(l->p, ASM_X);
    emit_to_bf16(l->p, x, asm_half(bm, 0));
    return x;
}

// ---- pairs ----

struct pair apart_constants(float low, float high) {
    return (struct pair){.is_constant = {true, true},
                         .constant = {low, high},
                         .none = high == 0,
                         .same = low == high};
}

struct pair apart_constant_and(struct lanes * l, float low, struct asm_reg high) {
    struct pair p = {.is_constant = {true, false}, .constant = {low, 0}};
    p.x[1] = converted(l, high);
    return p;
}

struct pair apart_two(struct lanes * l, struct asm_reg low, struct asm_reg high) {
    struct asm_reg first = converted(l, low);
    return (struct pair){.x = {first, converted(l, high)}};
}

struct pair p_same(struct asm_reg x) {
    return (struct pair){.x = {x, x}, .same = true};
}

struct pair apart_twice(struct lanes * l, struct asm_reg bm) {
    return p_same(converted(l, bm));
}

struct pair apart_with_second(struct lanes * l, struct pair p, struct asm_reg bm) {
    p.x[1] = converted(l, bm);
    p.same = false;
    return p;
}

struct pair apart_swapped(struct pair p) {
    return (struct pair){.x = {p.x[1], p.x[0]},
                         .is_constant = {p.is_constant[1], p.is_constant[0]},
                         .constant = {p.constant[1], p.constant[0]},
                         .same = p.same};
}

struct pair apart_and_none(struct lanes * l, struct asm_reg bm) {
    return (struct pair){.x = {converted(l, bm)}, .none = true};
}

struct pair p_alone(struct pair p) {
    p.none = true;
    p.same = false;
    return p;
}

struct pair p_both(struct pair low, struct pair high) {
    return (struct pair){.x = {low.x[0], high.x[0]},
                         .is_constant = {low.is_constant[0], high.is_constant[0]},
                         .constant = {low.constant[0], high.constant[0]}};
}

static bool is_zero(const struct lanes * l, const struct val * v) {
    return v->slot >= LANES_PARAMS && l->consts[v->slot] == 0;
}

struct pair apart_uppers(struct lanes * l, struct val low, struct val high) {
    struct pair p = {.none = is_zero(l, &high)};
    if (!p.none) {
        lanes_x(l, &high);
    }
    lanes_x(l, &low);
    p.same = !p.none && high.x[0].id == low.x[0].id;
    p.x[0] = p.x[1] = pair_shuffled(l, low.x[0], low.x[1], PAIR_ODD);
    if (!p.none && !p.same) {
        p.x[1] = pair_shuffled(l, high.x[0], high.x[1], PAIR_ODD);
    }
    return p;
}

struct pair apart_lowers(struct lanes * l, struct val v) {
    lanes_x(l, &v);
    return p_same(pair_shuffled(l, v.x[0], v.x[1], PAIR_EVEN));
}

struct asm_reg apart_piece(struct lanes * l, struct pieces * p, int i) {
    if (!p->has_piece[i]) {
        p->piece[i] = converted(l, p->rest[i]);
        p->has_piece[i] = true;
    }
    return p->piece[i];
}

struct pair apart_pair(struct lanes * l, struct pieces * p, int i, int j) {
    bool none = j == NO_PIECE_AT;
    if (p->is_constant) {
        return apart_constants(p->constant[i], none ? 0 : p->constant[j]);
    }
    struct pair d = {.none = none, .same = i == j};
    d.x[0] = apart_piece(l, p, i);
    d.x[1] = none ? d.x[0] : apart_piece(l, p, j);
    return d;
}

// ---- products ----

// A factor of one product: a constant is loaded here, one that stands twice once.
static struct asm_reg factor_of(struct lanes * l, struct pair * p, int i) {
    if (p->is_constant[i]) {
        bool again = i == 0 && p->same && !p->is_constant[1];
        int slot = again ? -1 : pair_slot(l, p->constant[i]);
        p->x[i] = again ? p->x[1] : asm_local(l->p, ASM_X);
        if (slot >= 0) { // else, where it is new, reported as a register that nothing wrote
            lanes_load_slot(l, p->x[i], slot);
        }
        p->is_constant[i] = false;
    }
    return p->x[i];
}

// One by one, the second first: it is the smaller.
struct val apart_products(struct lanes * l, enum lane_product op, const struct asm_reg * c,
                          struct pair a, struct pair b) {
    bool one = a.none || b.none;
    struct pair * known = a.is_constant[0] ? &a : &b;
    struct asm_reg sum = {0};
    // The same product twice is one with twice the constant. Two constants are meant to be taken in
    // turn: one of twice the size could be larger than the sum.
    if (!one && a.same && b.same && a.is_constant[0] != b.is_constant[0]) {
        known->constant[0] *= 2;
        one = true;
    }
    for (int i = one ? 0 : 1; i >= 0; i--) {
        struct asm_reg fa = factor_of(l, &a, i), fb = factor_of(l, &b, i), d = lanes_new_acc(l);
        emit_each(l->p, op, d, c ? *c : d, fa, fb, l->mul_config);
        sum = d;
        c = &sum;
        op = op == LANE_PRODUCT ? LANE_PLUS_PRODUCT : op;
    }
    return val_bm(sum);
}
