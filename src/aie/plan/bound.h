// bound: about how long the array computes a kernel, rather too many cycles than too few, for
// keeping what is sent at once short; the price of its instruction stream comes on top
// (txn_cycles). Each family says it for its kernels, beside its plan, from the chip's figures
// (target/times.h); here is what they share. A bound is of a spec alone: kernels from elsewhere,
// which there is no plan for, are asked about as well.
#pragma once

#include "aie/ops/ops.h"
#include "aie/target/times.h"

enum {
    BOUND_COLUMNS = 4, // that share the words of an op; more make it faster
    BOUND_CORES = 4,   // of a column
};

static inline uint64_t bound_words(const struct tensor * t) {
    return (uint64_t) tensor_elements(t) * (uint64_t) dtype_size(t->dtype) / 4 + 1;
}
// Columns that share an op's words; a device may have fewer.
uint64_t bound_columns(const struct kernel_spec * spec);
// Words of the largest operand.
uint64_t bound_most_words(const struct kernel_spec * spec);
// A kernel whose cores take so many of aie2's cycles, and which may run among other programs: half
// of the columns have its own then. The chip's factor is the cores' alone: it is not applied to the
// start, which is the stream's.
uint64_t bound_cores(const struct kernel_spec * spec, uint64_t cycles);
// An op on each element, or on each of a row's.
uint64_t bound_elements(const struct kernel_spec * spec, const struct aie_word_times * times);
// The same where the operands' words may lie anywhere.
uint64_t bound_scattered(const struct kernel_spec * spec, const struct aie_word_times * times);
// Blocks whose numbers are looked up in a table.
bool bound_looks_up(enum kernel_blocks b);
// The cycles that host memory takes for all operands.
uint64_t bound_host(const struct kernel_spec * spec);
// About the least that a kernel takes, for choosing between kernels: what host memory takes for its
// operands, and so many cycles at its edges.
uint64_t bound_likely(const struct kernel_spec * spec, int edges);
