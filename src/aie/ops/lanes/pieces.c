// pieces: see the header. Pieces are cut by the conversion to bf16, whatever its rounding mode: the
// rest after a piece is exact either way.
#include "pieces.h"

#include "aie2p-pairs-apart.h"

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

struct pieces p_split(struct lanes * l, struct val a, int n) {
    struct pieces p = {.rest = {lanes_bm(l, &a)}, .n = n < 3 ? n : 3};
    for (int i = 1; i < p.n; i++) {
        // All pieces so far lie on a's own grid, so that taking two off at once is exact.
        bool one = i == 1 || apart(l);
        struct pair before = one ? p_pair(l, &p, i - 1, NO_PIECE_AT) : p_pair(l, &p, i - 2, i - 1);
        struct val rest =
            p_msc(l, val_bm(p.rest[one ? i - 1 : i - 2]), before, p_constants(l, 1, 1));
        p.rest[i] = rest.bm;
    }
    if (apart(l)) {
        apart_piece(l, &p, p.n - 1); // its accumulator is free
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

static struct pair made(struct lanes * l, struct pair_of p) {
    return p_pair(l, p.of, p.i, p.j);
}

struct val p_mac_of(struct lanes * l, struct val c, struct pair_of a, struct pair_of b) {
    struct pair xb = made(l, b), xa = made(l, a);
    return p_mac(l, c, xa, xb);
}

struct val p_msc_of(struct lanes * l, struct val c, struct pair_of a, struct pair_of b) {
    struct pair xb = made(l, b), xa = made(l, a);
    return p_msc(l, c, xa, xb);
}

struct val p_mul_of(struct lanes * l, struct pair_of a, struct pair_of b) {
    struct pair xb = made(l, b), xa = made(l, a);
    return p_mul(l, xa, xb);
}

// The pairs of the k-th products, largest first: a1 b1 + a2 b2, a1 b2 + a2 b1, a1 b3 + a3 b1,
// a2 b3 + a3 b2.
static void kth_pairs(struct lanes * l, struct pieces * a, struct pieces * b, int n, int k,
                      struct pair pairs[2]) {
    static const int8_t low[] = {0, 0, 0, 1}, high[] = {1, 1, 2, 2};
    int i = low[k], j = n > 1 ? high[k] : NO_PIECE_AT;
    pairs[0] = p_pair(l, a, i, j);
    pairs[1] = k == 0 ? p_pair(l, b, i, j) : p_pair(l, b, j, i);
}

// c is the largest term, and sums are rounded at its last place, so any order will do: it is the
// order in which the pieces are made.
struct val p_mac_n(struct lanes * l, struct val c, struct pieces * a, struct pieces * b, int n) {
    for (int k = 0; k < n; k++) {
        struct pair pairs[2];
        kth_pairs(l, a, b, n, k, pairs);
        c = p_mac(l, c, pairs[0], pairs[1]);
    }
    return c;
}

// Smallest first, so that what is rounded at the result's last place is one sum.
struct val p_mul_n(struct lanes * l, struct pieces * a, struct pieces * b, int n) {
    struct val sum = {.slot = -1};
    for (int k = n - 1; k >= 0; k--) {
        struct pair pairs[2];
        kth_pairs(l, a, b, n, k, pairs);
        sum = k == n - 1 ? p_mul(l, pairs[0], pairs[1]) : p_mac(l, sum, pairs[0], pairs[1]);
    }
    return sum;
}

struct val p_step(struct lanes * l, float k, struct val h, struct pieces * x, int n) {
    struct pieces parts = p_split(l, h, n);
    return p_mac_n(l, k_float(l, k), &parts, x, n);
}
