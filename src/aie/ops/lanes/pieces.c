// pieces: see the header. Pieces are cut by the conversion to bf16, whatever its rounding mode: the
// rest after a piece is exact either way.
#include "pieces.h"

#include "aie/target/verbs.h"

#include <string.h>

static float truncate_bf16(double v) {
    float f = (float) v;
    uint32_t pattern;
    if ((v < 0 ? -(double) f : (double) f) > (v < 0 ? -v : v)) {
        memcpy(&pattern, &f, 4); // rounded outward: one place back
        pattern--;
        memcpy(&f, &pattern, 4);
    }
    memcpy(&pattern, &f, 4);
    pattern &= 0xffff0000;
    memcpy(&f, &pattern, 4);
    return f;
}

static void load_slot(struct lanes * l, struct asm_reg to, int half, int slot) {
    emit_load_same(l->p, MEM_POOL, asm_half(to, half), l->pool, lanes_slot_offset(slot));
}

// The pool slot of two equal bf16 numbers; -1: the pool is full.
static int slot_of(struct lanes * l, float v) {
    uint32_t pattern;
    memcpy(&pattern, &v, 4);
    pattern >>= 16;
    return k_bits(l, pattern | pattern << 16).slot;
}

static void load_half(struct lanes * l, struct asm_reg to, int half, float v) {
    int slot = slot_of(l, v);
    if (slot >= 0) { // else reported as a register that nothing wrote
        load_slot(l, to, half, slot);
    }
}

struct asm_reg p_params(struct lanes * l, int low, int high) {
    const struct asm_reg * kept = low == high ? lanes_kept(l, k_param(l, low).slot) : NULL;
    if (kept) {
        return *kept;
    }
    struct asm_reg x = emit_new_pair(l->p);
    load_slot(l, x, 0, k_param(l, low).slot);
    load_slot(l, x, 1, k_param(l, high).slot);
    return x;
}

static void convert_half(struct lanes * l, struct asm_reg to, int half, struct asm_reg bm) {
    emit_to_bf16(l->p, asm_half(to, half), bm);
}

struct asm_reg p_constants(struct lanes * l, float low, float high) {
    const struct asm_reg * kept = low == high ? lanes_kept(l, slot_of(l, low)) : NULL;
    if (kept) {
        return *kept;
    }
    struct asm_reg x = emit_new_pair(l->p);
    load_half(l, x, 0, low);
    load_half(l, x, 1, high);
    return x;
}

struct asm_reg p_constant_and(struct lanes * l, float low, struct val high) {
    struct asm_reg bm = lanes_bm(l, &high), x = emit_new_pair(l->p);
    load_half(l, x, 0, low);
    convert_half(l, x, 1, bm);
    return x;
}

struct asm_reg p_two(struct lanes * l, struct val low, struct val high) {
    struct asm_reg a = lanes_bm(l, &low), b = lanes_bm(l, &high), x = asm_local(l->p, ASM_X);
    convert_half(l, x, 0, a);
    convert_half(l, x, 1, b);
    return x;
}

struct asm_reg p_twice(struct lanes * l, struct val v) {
    lanes_bm(l, &v);
    return p_two(l, v, v);
}

struct asm_reg p_halves(struct lanes * l, struct val v) {
    struct asm_reg x = p_twice(l, v);
    struct val rest = p_msc(l, v, x, p_constants(l, 0.5f, 0.5f));
    convert_half(l, x, 1, rest.bm);
    return x;
}

struct asm_reg p_swapped(struct lanes * l, struct asm_reg x) {
    struct asm_reg d = asm_local(l->p, ASM_X), half = asm_local(l->p, ASM_R);
    emit_set_small(l->p, half, 32);
    emit_shift_bytes(l->p, d, x, x, half);
    return d;
}

struct asm_reg p_and_none(struct lanes * l, struct val low) {
    struct asm_reg bm = lanes_bm(l, &low), x = asm_local(l->p, ASM_X);
    convert_half(l, x, 0, bm);
    load_half(l, x, 1, 0);
    return x;
}

// Modes of the shuffle: the even and the odd 16-bit elements of two vectors.
enum { SHUFFLE_EVEN = 2, SHUFFLE_ODD = 3 };

static struct asm_reg shuffled(struct lanes * l, struct asm_reg a, struct asm_reg b, int mode) {
    struct asm_reg d = asm_local(l->p, ASM_X), m = asm_local(l->p, ASM_R);
    emit_set_small(l->p, m, mode);
    emit_shuffle(l->p, d, a, b, m);
    return d;
}

struct asm_reg p_uppers(struct lanes * l, struct val low, struct val high) {
    struct asm_reg above = lanes_x(l, &high), below = lanes_x(l, &low);
    return shuffled(l, below, above, SHUFFLE_ODD);
}

struct asm_reg p_upper_and(struct lanes * l, struct val low, struct val high) {
    struct asm_reg x = p_uppers(l, low, low);
    convert_half(l, x, 1, lanes_bm(l, &high));
    return x;
}

struct asm_reg p_lowers(struct lanes * l, struct val v) {
    struct asm_reg x = lanes_x(l, &v);
    return shuffled(l, x, x, SHUFFLE_EVEN);
}

struct asm_reg p_pair(struct lanes * l, struct pieces * p, int i, int j) {
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
        p->pairs[i][j] = x;
        p->has[i][j] = true;
    }
    return p->pairs[i][j];
}

struct pieces p_split(struct lanes * l, struct val a, int n) {
    struct pieces p = {.rest = {lanes_bm(l, &a)}, .n = n < 3 ? n : 3};
    for (int i = 1; i < p.n; i++) {
        // All pieces so far lie on a's own grid, so that taking two off at once is exact.
        struct asm_reg before =
            i == 1 ? p_pair(l, &p, 0, NO_PIECE_AT) : p_pair(l, &p, i - 2, i - 1);
        struct val rest =
            p_msc(l, val_bm(p.rest[i == 1 ? 0 : i - 2]), before, p_constants(l, 1, 1));
        p.rest[i] = rest.bm;
    }
    return p;
}

struct pieces p_constant(double v, int n) {
    struct pieces p = {.is_constant = true, .n = n};
    for (int i = 0; i < n; i++) {
        p.constant[i] = truncate_bf16(v);
        v -= (double) p.constant[i];
    }
    return p;
}

struct val p_mac(struct lanes * l, struct val c, struct asm_reg a, struct asm_reg b) {
    struct asm_reg acc = lanes_bm(l, &c), d = emit_new_acc(l->p);
    emit_mac(l->p, d, acc, a, b, l->mul_config);
    return val_bm(d);
}

struct val p_msc(struct lanes * l, struct val c, struct asm_reg a, struct asm_reg b) {
    struct asm_reg acc = lanes_bm(l, &c), d = emit_new_acc(l->p);
    emit_msc(l->p, d, acc, a, b, l->mul_config);
    return val_bm(d);
}

struct val p_mul(struct lanes * l, struct asm_reg a, struct asm_reg b) {
    struct asm_reg d = emit_new_acc(l->p);
    emit_mul(l->p, d, a, b, l->mul_config);
    return val_bm(d);
}

static struct asm_reg made(struct lanes * l, struct pair_of p) {
    return p_pair(l, p.of, p.i, p.j);
}

struct val p_mac_of(struct lanes * l, struct val c, struct pair_of a, struct pair_of b) {
    struct asm_reg xb = made(l, b), xa = made(l, a);
    return p_mac(l, c, xa, xb);
}

struct val p_msc_of(struct lanes * l, struct val c, struct pair_of a, struct pair_of b) {
    struct asm_reg xb = made(l, b), xa = made(l, a);
    return p_msc(l, c, xa, xb);
}

struct val p_mul_of(struct lanes * l, struct pair_of a, struct pair_of b) {
    struct asm_reg xb = made(l, b), xa = made(l, a);
    return p_mul(l, xa, xb);
}

// The pairs of the k-th products, largest first: a1 b1 + a2 b2, a1 b2 + a2 b1, a1 b3 + a3 b1,
// a2 b3 + a3 b2.
static void kth_pairs(struct lanes * l, struct pieces * a, struct pieces * b, int n, int k,
                      struct asm_reg pairs[2]) {
    static const int8_t low[] = {0, 0, 0, 1}, high[] = {1, 1, 2, 2};
    int i = low[k], j = n > 1 ? high[k] : NO_PIECE_AT;
    pairs[0] = p_pair(l, a, i, j);
    pairs[1] = k == 0 ? p_pair(l, b, i, j) : p_pair(l, b, j, i);
}

// c is the largest term, at which everything is rounded: the order is the one in which the pieces
// come to be.
struct val p_mac_n(struct lanes * l, struct val c, struct pieces * a, struct pieces * b, int n) {
    for (int k = 0; k < n; k++) {
        struct asm_reg pairs[2];
        kth_pairs(l, a, b, n, k, pairs);
        c = p_mac(l, c, pairs[0], pairs[1]);
    }
    return c;
}

// Smallest first, so that what is rounded at the result's last place is one sum.
struct val p_mul_n(struct lanes * l, struct pieces * a, struct pieces * b, int n) {
    struct val sum = {.slot = -1};
    for (int k = n - 1; k >= 0; k--) {
        struct asm_reg pairs[2];
        kth_pairs(l, a, b, n, k, pairs);
        sum = k == n - 1 ? p_mul(l, pairs[0], pairs[1]) : p_mac(l, sum, pairs[0], pairs[1]);
    }
    return sum;
}

struct val p_step(struct lanes * l, float k, struct val h, struct pieces * x, int n) {
    struct pieces parts = p_split(l, h, n);
    return p_mac_n(l, k_float(l, k), &parts, x, n);
}
