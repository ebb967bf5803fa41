// mat-plan-impl: what the files that plan a product share. mat-plan.c lays it out for kernels and
// says the parts that they make of it, mat-ways.c finds the layout and the cut that is cheapest.
#pragma once

#include "mat.h"

struct mat_ask {
    const struct mat_world * world;
    const char * label;     // of the node, for messages
    struct mat_source a, b; // b is not looked at where it is prepared
    const struct view * prepared;
    enum mat_pieces a_pieces, b_pieces;
    struct view result;
    bool a_is_kept; // its packed form is, with its buffer: then that is taken
};

// More and more of it is laid out anew, until a kernel fits. The cores make f16 and f32 bf16 where
// there are few rows of b, and some quantized blocks where there are many.
enum mat_layout {
    MADE_BY_CORES,
    BLOCKS_BY_CORES,
    AS_IT_STANDS,
    OPERANDS_PACKED,
    ALL_PACKED,
    N_LAYOUTS,
    STORED = N_LAYOUTS, // weights as block floats, for products that are to be made by these
    MADE,               // blocks that the cores make such floats
};

// ---- mat-plan.c ----

bool mat_blocks_of(enum ggml_type type, enum kernel_blocks * out); // false: no kernel takes it
bool mat_by_block_floats(const struct mat_world * w);              // asked for, on a chip with them
// The plan in that layout, as one chunk.
void mat_lay_out(const struct mat_ask * r, enum mat_layout layout, struct mat_plan * p);
// How often a repeats along dimension 2 or 3.
int64_t mat_repeats(const struct mat_plan * p, int d);
bool mat_is_in_panels(const struct mat_plan * p);
// The product of a chunk of such a size, out of so much of k; what it comes to where k is cut, and
// the kernel that adds it.
struct kernel_spec mat_product(const struct mat_plan * p, enum aie_arch arch,
                               const int64_t ne[GGML_MAX_DIMS], int64_t k);
struct tensor mat_partial(const struct mat_plan * p, const int64_t ne[GGML_MAX_DIMS]);
struct kernel_spec mat_sum(const struct mat_plan * p, enum aie_arch arch,
                           const int64_t ne[GGML_MAX_DIMS]);

// ---- mat-ways.c ----

// The cheapest way that there are kernels for.
bool mat_choose(const struct mat_ask * r, struct mat_plan * out);
