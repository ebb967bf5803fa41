// attention-program: what the files that write the core program share. attention.c walks items and
// blocks, attention-unpack.c makes numbers of quantized ones, attention-products.c scores and sums
// of values, attention-soft.c what is between them.
#pragma once

#include "attention.h"

#include "aie/ops/lanes/lanes.h"

// Numbers by which the scheduler tells memory apart; those of lanes.h come first. P lies where S
// was, and is only written behind what is read.
enum { MEM_Q = 5, MEM_K, MEM_V, MEM_S, MEM_S_NEW, MEM_O, MEM_O_NEW, MEM_STATE, MEM_MASK, MEM_MADE };

// Slots of the pool that the program sets.
enum { AT_SLOT_SCALE, AT_SLOT_CAP, AT_SLOT_SLOPE, AT_SLOT_M };

enum { AT_POINTERS = 5, AT_ACCS = 8 };

struct at_writer {
    struct asm_program * p;
    struct lanes lanes;
    struct asm_reg left, n, a, b, c, d, step; // scalars
    struct asm_reg at[AT_POINTERS], back;
    int convert; // a subroutine: so many trips (n) from a on become bf16
};

int32_t at_address(const struct at_writer * w, int32_t at);
void at_param(struct at_writer * w, struct asm_reg to, int param);
struct asm_reg at_local_param(struct at_writer * w, int param);
void at_keep(struct at_writer * w, int param, struct asm_reg from);
void at_add(struct at_writer * w, struct asm_reg to, struct asm_reg a, struct asm_reg b);
void at_add_param(struct at_writer * w, struct asm_reg to, int param); // to += parameter
void at_copy(struct at_writer * w, struct asm_reg to, struct asm_reg from);
void at_set(struct at_writer * w, struct asm_reg to, int32_t value);
// From a row's state to the next one's; and from a head to the next, which is w->d: to the label,
// or on where it is the first one of the next query.
void at_next_state(struct at_writer * w, struct asm_reg state);
void at_next_head(struct at_writer * w, int same_query);
// A vector at a pointer that stays.
struct val at_load(struct at_writer * w, int memory, struct asm_reg pointer, int32_t offset);
void at_store(struct at_writer * w, int memory, struct val v, struct asm_reg pointer,
              int32_t offset);
// a * b, to 24 bits, of numbers that are finite.
struct val at_times(struct at_writer * w, struct val a, struct val b);

void at_acquire(struct at_writer * w, int lock);
void at_release(struct at_writer * w, int lock);
void at_release_by(struct at_writer * w, int lock, struct asm_reg value);

void at_call(struct at_writer * w, int label);
// The subroutine w->convert.
void at_convert_block(struct at_writer * w);
// Constants and parameters of lanes, when registers are taken.
void at_begin_lanes(struct at_writer * w);

// What a block's mask says: vectors of it are put together, and at the end w->n is 0 where all of
// them are minus infinity, and the parameter `seen` AT_SEEN_ALL where all are 0.
struct at_mask {
    struct asm_reg nothing, other, any;
};
struct at_mask at_mask_begin(struct at_writer * w);
void at_mask_look(struct at_writer * w, const struct at_mask * m, struct asm_reg x,
                  struct asm_reg d);
void at_mask_end(struct at_writer * w, const struct at_mask * m, int seen);

// Quantized ones of this block become bf16 in their place.
void at_unpack_keys(struct at_writer * w);
void at_unpack_values(struct at_writer * w);
void at_scores(struct at_writer * w);
void at_values(struct at_writer * w);
// The soft-max of this block, row by row.
void at_soft(struct at_writer * w);
