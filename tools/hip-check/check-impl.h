// check-impl: what the files of check share. A run holds one case: its tensors are in memory of the
// bench, and each family fills them, starts the kernel and compares.
#pragma once

#include "check.h"
#include "kernels/kernels.h"

enum check_type { T_F32, T_F16, T_BF16, T_F64, T_I32, T_I64, T_U8, T_U32, T_COUNT };
enum { CHECK_TENSORS = 10 };

struct check_run {
    const struct hip_bench * bench;
    const char * kernel;
    struct hip_check * out;
    struct error * err;
    void * memory[CHECK_TENSORS];
    int n_memory;
    char what[64]; // the case
};

size_t check_size(enum check_type t);
double check_get(enum check_type t, const void * p, size_t i);
void check_put(enum check_type t, void * p, size_t i, double v); // rounds as the type does

// The type at the start of *text, which moves behind it and one '_'; T_COUNT: none.
enum check_type check_parse_type(const char ** text);

// Memory of n elements, all bytes 0xa5; NULL after an error was set. Freed after the case.
void * check_alloc(struct check_run * r, enum check_type t, size_t n);
void check_free(struct check_run * r);

enum status check_launch(struct check_run * r, const void * args, size_t args_size, uint32_t x,
                         uint32_t y, uint32_t z, uint32_t group_size);

// One element. `scale` is the size of the numbers that it was made of: what is allowed is `ulps`
// last places of the larger of it and the result.
enum status check_compare(struct check_run * r, enum check_type t, size_t at, double have,
                          double want, double scale, double ulps);

// The same for the result of a function of few numbers: with the last places that math.h promises.
enum status check_function(struct check_run * r, enum check_type t, size_t at, double have,
                           double want, double scale);

// Shapes for kernels that work on one element at a time. Each has strides for three tensors, 0 and
// 1 for inputs and 2 for the output, all within CHECK_ROOM elements. Setting one names the case.
enum { CHECK_SHAPES = 5, CHECK_ROOM = 1000 };
void check_set_shape(struct check_run * r, int s, struct rk_shape * shape);
void check_set_stride(int s, int which, uint32_t stride[RK_DIMS]);
uint32_t check_place(int s, int which, uint32_t i);

// A repeatable number in [-4, 4) in steps of 1/8, which every float type holds; whole and not
// negative for integers.
double check_value(enum check_type t, uint32_t seed);

// check-rows.c, check-others.c, check-gates.c, check-ggml.c, check-quant.c: ST_UNSUPPORTED when the
// kernel is not of their families.
enum status check_rows(struct check_run * r);
enum status check_others(struct check_run * r);
enum status check_gates(struct check_run * r);
enum status check_ggml(struct check_run * r);
enum status check_quant(struct check_run * r);
enum status check_node(struct check_run * r);      // check-node.c
enum status check_attention(struct check_run * r); // check-attention.c
enum status check_blocks(struct check_run * r);    // check-blocks.c

// ---- check-quant.c: ggml's quantized formats ----

struct check_format {
    const char * name;
    int length, bytes;
    int halves[2]; // where floats of 16 bits stand, which must be no random bits; -1: none
    void (*decode)(const uint8_t * block, double * out);
};
// The one whose name is at the start of text, before its end or one '_'; NULL: none.
const struct check_format * check_format(const char * text);
extern const struct check_format check_grids[]; // check-grids.c; ends with a NULL name
void check_fill_blocks(const struct check_format * f, uint8_t * p, uint32_t n);
enum { CHECK_BLOCK = 256 }; // the longest
