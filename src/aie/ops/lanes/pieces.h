// pieces: products of f32 lanes with as many bf16 pieces as the accuracy wants, term by term.
// Finite numbers only: an infinity taken apart leaves NaNs behind. lanes-float.c has the whole
// products; this is for functions that know how large their terms are.
#pragma once

#include "lanes.h"

enum { PIECES_MAX = 4, NO_PIECE_AT = PIECES_MAX };

// Two bf16 numbers for each lane: products of pairs are two products a lane, and their sum. Where a
// value is one vector they are the two halves of a vector, x[0], and the multiplier makes both
// products. Where it is two, each fills a vector, and each product is an instruction; so what is
// known of them is kept, for products that need not be made. A constant is loaded where it is used.
struct pair {
    struct asm_reg x[2];
    // For each of two vectors:
    bool is_constant[2];
    float constant[2];
    bool none; // the second is zero
    bool same; // it is the first one
};
struct pair pair_in(struct asm_reg halves);

// A value as a sum of pieces, largest first; pairs of them are made when they are first used.
struct pieces {
    struct asm_reg rest[PIECES_MAX]; // the value less the pieces before: its bf16 is the piece
    float constant[PIECES_MAX];      // or the pieces of a constant
    bool is_constant;
    int n;
    struct pair pairs[PIECES_MAX][PIECES_MAX + 1];
    bool has[PIECES_MAX][PIECES_MAX + 1];
    struct asm_reg piece[PIECES_MAX]; // where a value is two vectors
    bool has_piece[PIECES_MAX];
};

struct pieces p_split(struct lanes * l, struct val a, int n); // 3 for PRODUCT_EXACT, too
struct pieces p_constant(double v, int n);
// Piece i (low), and piece j or zero (high).
struct pair p_pair(struct lanes * l, struct pieces * p, int i, int j);
// Two bf16 constants; a constant below and a lane value above.
struct pair p_constants(struct lanes * l, float low, float high);
// Two parameters that are words of two equal bf16.
struct pair p_params(struct lanes * l, int low, int high);
struct pair p_constant_and(struct lanes * l, float low, struct val high);
// Two values as bf16, and one value in both places.
struct pair p_two(struct lanes * l, struct val low, struct val high);
struct pair p_twice(struct lanes * l, struct val v);
// A value as its first two pieces, and a pair the other way round.
struct pair p_halves(struct lanes * l, struct val v);
struct pair p_swapped(struct lanes * l, struct pair x);
// With two vectors a value: the first of a pair and no second one; a vector in both places; the
// first ones of two pairs.
struct pair p_alone(struct pair p);
struct pair p_same(struct asm_reg x);
struct pair p_both(struct pair low, struct pair high);
// A value as bf16 below and zero above.
struct pair p_and_none(struct lanes * l, struct val low);
// The upper 16 bits of every lane of two values: bf16, cut. The lower ones of one, in both places:
// a bf16 that was made with integers.
struct pair p_uppers(struct lanes * l, struct val low, struct val high);
struct pair p_lowers(struct lanes * l, struct val v);
// A value cut and one rounded.
struct pair p_upper_and(struct lanes * l, struct val low, struct val high);

// c + a.low * b.low + a.high * b.high, c less them, and the products alone.
struct val p_mac(struct lanes * l, struct val c, struct pair a, struct pair b);
struct val p_msc(struct lanes * l, struct val c, struct pair a, struct pair b);
struct val p_mul(struct lanes * l, struct pair a, struct pair b);
// The same of two pairs, which are made here where they are not there yet: b's first.
struct pair_of {
    struct pieces * of;
    int i, j;
};
static inline struct pair_of pair_of(struct pieces * of, int i, int j) {
    return (struct pair_of){of, i, j};
}
struct val p_mac_of(struct lanes * l, struct val c, struct pair_of a, struct pair_of b);
struct val p_msc_of(struct lanes * l, struct val c, struct pair_of a, struct pair_of b);
struct val p_mul_of(struct lanes * l, struct pair_of a, struct pair_of b);

// c + a * b, where c is the larger, and a * b, with the first n pieces of both, 1 to 3. n =
// PRODUCT_EXACT is 3 with the products of the small pieces as well: where bf16 truncates, they are
// worth 4 units of the last place.
enum { PRODUCT_EXACT = 4 };
struct val p_mac_n(struct lanes * l, struct val c, struct pieces * a, struct pieces * b, int n);
struct val p_mul_n(struct lanes * l, struct pieces * a, struct pieces * b, int n);
// k + h * x with n pieces of h and x: a step of Horner's rule.
struct val p_step(struct lanes * l, float k, struct val h, struct pieces * x, int n);
