// aie2p-wide: products of two values at once, on a core whose multiplier makes one product a lane
// of a vector and whose accumulators have room for two values and more. f32 lanes stand in the two
// lower quarters of an accumulator, and a piece of all of them fills a vector.
//
// Kept true: pieces and the order of the products are those of lanes-float.c, and so are the
// results.
#pragma once

#include "lanes.h"
#include "aie/verbs/verbs.h"

enum { WIDE_VALUES = 2, WIDE_PIECES = 3 };

bool wide_is_there(const struct aie_target * t);
struct asm_reg wide_new(struct lanes * l); // an accumulator for both

// Two values of f32 from memory; the pointer moves on by them. One number in all lanes.
struct asm_reg wide_load(struct lanes * l, struct asm_reg pointer, int memory);
struct asm_reg wide_constant(struct lanes * l, float v); // bf16
struct asm_reg wide_same(struct lanes * l, struct val k);
struct val wide_half(struct asm_reg acc, int i); // one of the two

// a * b lane by lane, c plus that, c less that; c is NULL for the first.
struct asm_reg wide_each(struct lanes * l, enum lane_product op, const struct asm_reg * c,
                         struct asm_reg a, struct asm_reg b);
// The first n pieces.
void wide_split(struct lanes * l, struct asm_reg acc, struct asm_reg * pieces, int n);
// c (or NULL) and the products of three pieces each, smallest first; exact: with those of the small
// pieces, too, but for the smallest.
struct asm_reg wide_product(struct lanes * l, const struct asm_reg * c, const struct asm_reg * a,
                            const struct asm_reg * b, bool exact);
// Half i of a product, or what the first pieces alone make of it where it is a NaN: an infinity
// taken apart is one.
struct val wide_known(struct lanes * l, struct asm_reg full, struct asm_reg rough, int i);
