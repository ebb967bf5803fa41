// steps: nodes that are made of several kernels. An op is a function that says its steps, in order:
// copies between views, elementwise kernels, sums of rows, products. It is called twice: first
// nothing is sent, and it is found out whether there are kernels for all steps and how much room
// they take, then they are sent. supports_op asks the first half of it alone, so that the two
// cannot disagree. No step is the host's: no number of a result passes it.
//
// A step that failed makes those behind it do nothing; functions need not look.
#pragma once

#include "dispatch.h"

struct steps {
    struct hsa_device * device;
    struct hsa_stream * stream; // NULL: nothing is sent
    const struct ggml_tensor * node;
    enum kernel_precision precision; // of its kernels
    char * room;                     // of the stream, or a place that stands for it
    size_t used, most;               // bytes of it, now and at most
    enum status status;
    struct error * err;
};

// A row for each op; the functions are in the files of steps-*.c.
bool steps_is(const struct ggml_tensor * node);
enum status steps_check(struct hsa_device * device, const struct ggml_tensor * node,
                        struct error * err);
enum status steps_run(struct hsa_stream * s, struct ggml_tensor * node, struct error * err);

// ---- room: memory of a stream that its nodes use one after the other ----

// At least so many bytes; what was in it may be gone. Waits where it has to grow.
enum status steps_room_reserve(struct hsa_stream * s, size_t bytes, struct error * err);
void steps_room_reset(struct hsa_stream * s); // nothing is in flight: a large one is given back
void steps_room_free(struct hsa_stream * s);

// ---- views ----

// Sources and the result, with a place that stands for theirs where they have none yet.
struct view steps_src(const struct steps * s, int i);
struct view steps_dst(const struct steps * s);
// Contiguous, in the room, until `used` is set back.
struct view steps_temp(struct steps * s, enum ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2,
                       int64_t ne3);
struct view steps_like(struct steps * s, const struct view * v);         // f32, of the same shape
struct view steps_row(struct view v, int dim, int64_t first, int64_t n); // a part along dim
struct view steps_every(struct view v, int dim, int64_t step);           // each step-th along dim
struct view steps_as(const struct view * v, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3);

// ---- steps ----

static inline float steps_float(const struct ggml_tensor * node, int i) {
    union {
        int32_t bits;
        float value;
    } u = {.bits = node->op_params[i]};
    return u.value;
}

void steps_need(struct steps * s, bool ok, const char * why);
// `from` has the shape of `to`, or one that repeats to it. Nothing happens where there are no
// elements.
void steps_move(struct steps * s, struct view from, struct view to);
void steps_fill(struct steps * s, struct view v, float value);
// Along dimension 3 of `to` the parts of `table` that a row of i32, source `ids`, names. The host
// reads these, and waits where a kernel still writes them; so what is sent depends on data.
void steps_lookup(struct steps * s, struct view table, int ids, struct view to);
// Number i of that source, below n, once nothing writes it any more; 0 where nothing is sent.
int64_t steps_number(struct steps * s, int ids, int64_t i, int64_t n);
// Elementwise kernels; inputs repeat to the result's shape. Any strides; a result may be an input.
void steps_unary(struct steps * s, enum kernel_op op, struct view a, struct view out);
void steps_binary(struct steps * s, enum kernel_op op, struct view a, struct view b,
                  struct view out);
void steps_params(struct steps * s, enum kernel_op op, struct view a, struct view out, float p0,
                  float p1); // SCALE, CLAMP
// A kernel over rows of one input: sums, norms, softmax.
void steps_rows(struct steps * s, enum kernel_op op, struct view a, struct view out, float p0,
                float p1);
// The same, with an integer: what long rows are sorted with.
void steps_pairs(struct steps * s, enum kernel_op op, struct view a, struct view out,
                 uint32_t param);
// MUL_MAT of f32 views, as ggml has it.
void steps_product(struct steps * s, struct view a, struct view b, struct view out, bool precise);
// Floats of any type as f32, which stay where they are if they are so; shorter ones lie without
// gaps, their dimensions in any order. The same packed, too; and back, from packed to packed.
struct view steps_widen(struct steps * s, struct view v);
struct view steps_packed(struct steps * s, struct view v);
void steps_narrow(struct steps * s, struct view from, struct view to);

// ---- the ops ----

typedef void steps_op(struct steps * s, const struct ggml_tensor * node);

// steps-layout.c
steps_op steps_pad, steps_pad_reflect, steps_roll, steps_set, steps_acc, steps_diag, steps_filled,
    steps_repeat_back;
// steps-series.c
struct view steps_count(struct steps * s, int64_t n); // 0 to n - 1, as f32
steps_op steps_arange, steps_cumsum, steps_tri, steps_diag_mask, steps_timestep, steps_solve_tri;
// steps-rows.c
steps_op steps_group_norm, steps_rms_norm_back, steps_soft_max_back, steps_cross_entropy_back,
    steps_sgd, steps_adamw;
// steps-sort.c
steps_op steps_sort;
bool steps_is_long_sort(const struct ggml_tensor * node); // ARGSORT and TOP_K beyond a core's rows
// steps-window.c
steps_op steps_im2col, steps_im2col_3d, steps_conv_2d, steps_conv_3d, steps_conv_dw, steps_pool_1d,
    steps_pool_2d, steps_ssm_conv;
// steps-state.c
steps_op steps_gated_delta_net, steps_gated_linear, steps_rwkv6, steps_rwkv7, steps_ssm_scan;
// steps-resample.c
steps_op steps_upscale;
// steps-scatter.c
steps_op steps_col2im, steps_conv_transpose_1d, steps_conv_transpose_2d, steps_get_rows_back;
