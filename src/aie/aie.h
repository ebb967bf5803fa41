// aie: the NPU compiler. A kernel spec goes in, a PDI and an instruction stream come out.
//
// The PDI holds what is common to all shapes of an op and its datatypes (core programs, routes,
// locks); the stream holds the shape. So a caller that keeps PDIs compiles a new shape in
// microseconds. Such a caller makes a plan of the spec (aie/plan/plan.h), once, and asks it; here
// is what answers one question of a spec, with a plan of its own.
#pragma once

#include "kernel/kernel.h"

// ST_OK when this kernel can be made, ST_UNSUPPORTED with the reason otherwise.
enum status aie_supports(const struct kernel_spec * spec, struct error * err);

// About how many cycles it takes, rather too many than too few: aie_plan.cycles. Of any spec,
// also of a kernel that others make.
uint64_t aie_cycles(const struct kernel_spec * spec);

// The same of products and conversions as it is likely: for choosing between ways to compute a
// node. Others' are aie_cycles.
uint64_t aie_likely(const struct kernel_spec * spec);

// How the quantized weights of a product best lie in memory, which is given for one row of b and
// weights that lie row behind row. False: as they do.
bool aie_panel(const struct kernel_spec * product, struct kernel_panel * out);
// Of a product with few rows of b: does each descriptor that reads its first operand stay within so
// many rows of it, counted from the first of a batch on? Then these may lie anywhere.
bool aie_reads_by(const struct kernel_spec * product, int64_t rows);

// Name of the PDI that the kernel runs on, e.g. "layer_f32"; equal names mean equal PDIs. Empty:
// there is no such kernel.
void aie_program_name(const struct kernel_spec * spec, char name[KERNEL_NAME_MAX]);

// The two halves. On success the caller owns the malloc'ed result.
enum status aie_compile_pdi(const struct kernel_spec * spec, uint8_t ** pdi, size_t * size,
                            struct error * err);
enum status aie_compile_insts(const struct kernel_spec * spec, uint32_t ** insts, size_t * n_words,
                              struct error * err);

// Both at once; the caller owns *out (kernel_code_free).
enum status aie_compile(const struct kernel_spec * spec, struct kernel_code * out,
                        struct error * err);
