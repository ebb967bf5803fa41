// mul-mat-program: what the files that write the core program of products share. mul-mat.c walks
// tiles and slices, mul-mat-slices.c makes bf16 of slices that are something else.
#pragma once

#include "mul-mat.h"
#include "quant.h"

#include "aie/verbs/verbs.h"

// Where a slice of y goes before it is multiplied: those with the least time first.
enum way {
    WAY_COLUMNS,
    WAY_Q4_0,
    WAY_TWO_SLICES,
    WAY_LONG,
    WAY_SHORT,
    WAY_F16,
    WAY_AS_IT_IS,
    WAYS
};

struct mm_writer {
    struct asm_program * p;
    const struct mm_machine * machine;
    const struct mm_type * t;
    struct mm_block block;
    struct asm_reg tiles, slices, trips, row; // parameters
    struct asm_reg left;                      // slices of this tile
    struct asm_reg x, y, c;                   // where pointers into the current buffers begin
    struct asm_reg xy_other, c_other, minus_one, one, first_config;
    bool converts;          // then fewer registers are kept: loops want the rest
    bool unpacks;           // nothing is multiplied: blocks become bf16 and leave
    bool planes;            // its blocks are those of ops/blocks
    bool has_tasks;         // of gemm: what `many` says
    bool takes_blocks;      // of gemm: slices of y are blocks, and nothing else
    bool takes_kinds;       // so they are, of the kinds of enum mm_kind
    int f16_loop, f32_loop; // labels: the loops that CONVERT has from here
    int ways[WAYS];         // labels
    struct asm_reg number, many, kind;
};

// ---- small ones ----

static inline int32_t mw_address(const struct mm_writer * w,
                                 int32_t at) { // by which the core knows it
    return (int32_t) asm_target(w->p)->own_window + at;
}

static inline void mw_set(struct mm_writer * w, struct asm_reg r, int32_t value) {
    emit_set(w->p, r, value);
}

static inline void mw_copy(struct mm_writer * w, struct asm_reg to, struct asm_reg from) {
    emit_copy(w->p, to, from);
}

static inline void mw_count_down(struct mm_writer * w, struct asm_reg r) {
    emit_add_small(w->p, r, r, -1);
}

// A parameter, in w->number; and from and to a place that is `by` bytes behind another.
void mw_read_number(struct mm_writer * w, int param);
void mw_point_behind(struct mm_writer * w, struct asm_reg pointer, struct asm_reg base, int32_t by);

// ---- slices ----

// Are blocks multiplied as they are unpacked? And is one loop for f16, and one for f32, there for
// CONVERT as well?
bool mw_fuses(const struct mm_writer * w);
bool mw_lends_loop(const struct mm_writer * w);

// Slices become bf16: x from behind its place; y where its blocks are those of ops/blocks; y in its
// place, of which fused blocks come by labels of their own and go on at `multiply_blocks` or
// `multiply_columns`.
void mw_convert_x(struct mm_writer * w);
void mw_convert_planes(struct mm_writer * w);
// Blocks become block floats in their place, if y is any.
void mw_make_shared(struct mm_writer * w);
void mw_convert_y(struct mm_writer * w, int multiply_blocks, int multiply_columns, int skip);

// Blocks that are multiplied as they are unpacked: what their loops want; which way slices of a run
// go, chosen once a run; to there; those that stay as they are, then to the label; and the end of a
// tile that is complete.
struct fused mw_fused_of(const struct mm_writer * w);
void mw_choose_way(struct mm_writer * w);
void mw_go_the_way(struct mm_writer * w);
void mw_gather_blocks(struct mm_writer * w, int multiply);
void mw_sum_columns(struct mm_writer * w);
