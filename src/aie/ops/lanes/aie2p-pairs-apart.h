// aie2p-pairs-apart: what pieces.h says of pairs, where a value is two vectors: each number of a
// pair fills a vector, and each product of a lane is an instruction.
#pragma once

#include "pieces.h"
#include "aie/verbs/verbs.h"

static inline bool apart(const struct lanes * l) {
    return l->vectors > 1;
}

struct pair apart_constants(float low, float high);
struct pair apart_constant_and(struct lanes * l, float low, struct asm_reg high);
struct pair apart_two(struct lanes * l, struct asm_reg low, struct asm_reg high);
struct pair apart_twice(struct lanes * l, struct asm_reg bm);
struct pair apart_with_second(struct lanes * l, struct pair p, struct asm_reg bm);
struct pair apart_swapped(struct pair p);
struct pair apart_and_none(struct lanes * l, struct asm_reg bm);
struct pair apart_uppers(struct lanes * l, struct val low, struct val high);
struct pair apart_lowers(struct lanes * l, struct val v);
struct asm_reg apart_piece(struct lanes * l, struct pieces * p, int i);
struct pair apart_pair(struct lanes * l, struct pieces * p, int i, int j);
// c (NULL for LANE_PRODUCT) and the products.
struct val apart_products(struct lanes * l, enum lane_product op, const struct asm_reg * c,
                          struct pair a, struct pair b);

// The even and the odd 16-bit elements of two vectors.
enum pair_elements { PAIR_EVEN = 2, PAIR_ODD = 3 }; // modes of the shuffle
struct asm_reg pair_shuffled(struct lanes * l, struct asm_reg a, struct asm_reg b,
                             enum pair_elements which);
// The pool slot of two equal bf16 numbers; -1: the pool is full.
int pair_slot(struct lanes * l, float v);
