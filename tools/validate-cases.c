// validate-cases: see the header. What goes into a graph is filled by its name: "ids:N" are numbers
// below N, "plus" numbers above 0, "mask" and the inputs of a decoder what these are; all else any
// numbers around 0. Shapes are such that no dimension is a whole number of anything.
#include "validate-cases.h"

#include "decoder.h"

#include <string.h>

typedef struct ggml_tensor T;
typedef struct ggml_context C;

static T * in(C * ctx, enum ggml_type type, int64_t a, int64_t b, int64_t c, const char * name) {
    T * t = ggml_new_tensor_3d(ctx, type, a, b, c);
    ggml_set_name(t, name);
    ggml_set_input(t);
    return t;
}

static T * first(C * ctx, const struct ops_case * c, const char * name) {
    return in(ctx, c->type, c->sizes[0], c->sizes[1], 1, name);
}

#define BUILD(name) static T * name(C * ctx, struct ggml_cgraph * g, const struct ops_case * c)
#define UNUSED      (void) g, (void) c

// ---- elementwise ----

BUILD(build_add) {
    UNUSED;
    return ggml_add(ctx, first(ctx, c, "a"), first(ctx, c, "b"));
}
BUILD(build_sub) {
    UNUSED;
    return ggml_sub(ctx, first(ctx, c, "a"), first(ctx, c, "b"));
}
BUILD(build_mul) {
    UNUSED;
    return ggml_mul(ctx, first(ctx, c, "a"), first(ctx, c, "b"));
}
BUILD(build_div) {
    UNUSED;
    return ggml_div(ctx, first(ctx, c, "a"), first(ctx, c, "plus"));
}
BUILD(build_scale) {
    UNUSED;
    return ggml_scale(ctx, first(ctx, c, "a"), 0.37f);
}
BUILD(build_clamp) {
    UNUSED;
    return ggml_clamp(ctx, first(ctx, c, "a"), -0.4f, 0.6f);
}
BUILD(build_sqr) {
    UNUSED;
    return ggml_sqr(ctx, first(ctx, c, "a"));
}
BUILD(build_sqrt) {
    UNUSED;
    return ggml_sqrt(ctx, first(ctx, c, "plus"));
}
BUILD(build_log) {
    UNUSED;
    return ggml_log(ctx, first(ctx, c, "plus"));
}
BUILD(build_sin) {
    UNUSED;
    return ggml_sin(ctx, first(ctx, c, "a"));
}
BUILD(build_cos) {
    UNUSED;
    return ggml_cos(ctx, first(ctx, c, "a"));
}
BUILD(build_unary) {
    UNUSED;
    return ggml_unary(ctx, first(ctx, c, "a"), (enum ggml_unary_op) c->op);
}
BUILD(build_glu) {
    UNUSED;
    return ggml_glu(ctx, first(ctx, c, "a"), (enum ggml_glu_op) c->op, false);
}

// ---- rows ----

BUILD(build_norm) {
    UNUSED;
    return ggml_norm(ctx, first(ctx, c, "a"), 1e-5f);
}
BUILD(build_rms_norm) {
    UNUSED;
    return ggml_rms_norm(ctx, first(ctx, c, "a"), 1e-6f);
}
BUILD(build_l2_norm) {
    UNUSED;
    return ggml_l2_norm(ctx, first(ctx, c, "a"), 1e-6f);
}
BUILD(build_soft_max) {
    UNUSED;
    return ggml_soft_max_ext(ctx, first(ctx, c, "a"),
                             in(ctx, GGML_TYPE_F16, c->sizes[0], c->sizes[1], 1, "b"), 0.3f, 0);
}
BUILD(build_sum_rows) {
    UNUSED;
    return ggml_sum_rows(ctx, first(ctx, c, "plus"));
}
BUILD(build_mean) {
    UNUSED;
    return ggml_mean(ctx, first(ctx, c, "plus"));
}
BUILD(build_argmax) {
    UNUSED;
    return ggml_argmax(ctx, first(ctx, c, "a"));
}
BUILD(build_argsort) {
    UNUSED;
    return ggml_argsort(ctx, first(ctx, c, "a"), GGML_SORT_ORDER_DESC);
}

// ---- moves ----

BUILD(build_to_f16) {
    UNUSED;
    T * to = ggml_new_tensor_2d(ctx, GGML_TYPE_F16, c->sizes[0], c->sizes[1]);
    return ggml_cpy(ctx, first(ctx, c, "a"), to);
}
BUILD(build_to_f32) {
    UNUSED;
    T * to = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, c->sizes[0], c->sizes[1]);
    return ggml_cpy(ctx, first(ctx, c, "a"), to);
}
BUILD(build_turned) {
    UNUSED;
    return ggml_cont(ctx, ggml_transpose(ctx, first(ctx, c, "a")));
}
BUILD(build_rope) {
    UNUSED;
    T * x = in(ctx, c->type, c->sizes[0], c->sizes[1], c->sizes[2], "a");
    return ggml_rope(ctx, x, in(ctx, GGML_TYPE_I32, c->sizes[2], 1, 1, "ids:100"),
                     (int) c->sizes[0], c->op);
}
BUILD(build_get_rows) {
    UNUSED;
    return ggml_get_rows(ctx, first(ctx, c, "a"), in(ctx, GGML_TYPE_I32, 5, 1, 1, "ids:7"));
}

// ---- products and attention ----

BUILD(build_mul_mat) { // m, n, k
    UNUSED;
    return ggml_mul_mat(ctx, in(ctx, c->type, c->sizes[2], c->sizes[0], 1, "weights"),
                        in(ctx, GGML_TYPE_F32, c->sizes[2], c->sizes[1], 1, "b"));
}
BUILD(build_attention) { // d, heads, heads of keys, keys; one query
    UNUSED;
    const int64_t * s = c->sizes;
    T * q = in(ctx, GGML_TYPE_F32, s[0], 1, s[1], "a");
    T *k = in(ctx, c->type, s[0], s[3], s[2], "k"), *v = in(ctx, c->type, s[0], s[3], s[2], "v");
    return ggml_flash_attn_ext(ctx, q, k, v, in(ctx, GGML_TYPE_F16, s[3], 1, 1, "mask"), 0.125f, 0,
                               0);
}

// A layer of Qwen2.5-0.5B, or of one like it: context, and 1 where attention is one node.
BUILD(build_layer) {
    struct decoder d = {.layers = 1,
                        .embd = c->sizes[0],
                        .heads = c->sizes[0] / 64,
                        .kv_heads = 2,
                        .head_dim = 64,
                        .ff = c->sizes[1],
                        .rope_dims = 64,
                        .eps = 1e-6f,
                        .rope_base = 1e6f,
                        .rope_scale = 1,
                        .neox = true,
                        .kv = GGML_TYPE_F16};
    struct decoder_tensors t = {0};
    for (int i = 0; i < DECODER_WEIGHTS; i++) {
        bool norm = i == DECODER_ATTN_NORM || i == DECODER_FFN_NORM;
        d.types[i] = norm ? GGML_TYPE_F32 : c->type;
        d.has[i] = i <= DECODER_DOWN;
    }
    decoder_add_layer(ctx, &d, &t);
    decoder_add_cache(ctx, &d, c->sizes[2], &t);
    decoder_add_inputs(ctx, 1, c->sizes[2], &t);
    return decoder_layer(ctx, g, &d, &t, in(ctx, GGML_TYPE_F32, d.embd, 1, 1, "x"), c->sizes[3]);
}

// ---- the table ----

#define F32  GGML_TYPE_F32
#define F16  GGML_TYPE_F16
#define BF16 GGML_TYPE_BF16
// clang-format off
#define ONE(family, name, build, type, a, b, nmse)      {family, name, build, type, {a, b, 1, 1}, 0, nmse, false, false, false}
#define UNARY(name, type)  {"elementwise", #name, build_unary, type, {260, 9, 1, 1}, GGML_UNARY_OP_##name, 1e-6, false, false, false}
#define GLU(name, type)    {"elementwise", #name, build_glu, type, {260, 9, 1, 1}, GGML_GLU_OP_##name, 1e-6, false, false, false}
#define PRODUCT(type, m, n, k, whole) {"product", "MUL_MAT", build_mul_mat, GGML_TYPE_##type, {m, n, k, 1}, 0, 5e-4, whole, false, false}
#define SHAPE(type, m, n, k, whole)   {"product", "MUL_MAT", build_mul_mat, GGML_TYPE_##type, {m, n, k, 1}, 0, 5e-4, whole, true, false}

const struct ops_case ops_cases[] = {
    ONE("elementwise", "ADD", build_add, F32, 261, 7, 1e-7),
    ONE("elementwise", "ADD", build_add, F16, 261, 7, 1e-6),
    ONE("elementwise", "ADD", build_add, BF16, 261, 7, 1e-5),
    ONE("elementwise", "SUB", build_sub, F32, 261, 7, 1e-7),
    ONE("elementwise", "SUB", build_sub, F16, 261, 7, 1e-6),
    ONE("elementwise", "MUL", build_mul, F32, 261, 7, 1e-7),
    ONE("elementwise", "MUL", build_mul, F16, 261, 7, 1e-6),
    ONE("elementwise", "MUL", build_mul, BF16, 261, 7, 1e-5),
    ONE("elementwise", "DIV", build_div, F32, 261, 7, 1e-7),
    ONE("elementwise", "DIV", build_div, F16, 261, 7, 1e-6),
    ONE("elementwise", "SCALE", build_scale, F32, 261, 7, 1e-7),
    ONE("elementwise", "CLAMP", build_clamp, F32, 261, 7, 1e-7),
    ONE("elementwise", "SQR", build_sqr, F32, 261, 7, 1e-7),
    ONE("elementwise", "SQRT", build_sqrt, F32, 261, 7, 1e-7),
    ONE("elementwise", "LOG", build_log, F32, 261, 7, 1e-6),
    ONE("elementwise", "SIN", build_sin, F32, 261, 7, 1e-6),
    ONE("elementwise", "COS", build_cos, F32, 261, 7, 1e-6),
    UNARY(ABS, F32), UNARY(SGN, F32), UNARY(NEG, F32), UNARY(STEP, F32), UNARY(TANH, F32),
    UNARY(ELU, F32), UNARY(RELU, F32), UNARY(SIGMOID, F32), UNARY(GELU, F32), UNARY(GELU_QUICK, F32),
    UNARY(SILU, F32), UNARY(HARDSWISH, F32), UNARY(HARDSIGMOID, F32), UNARY(EXP, F32),
    UNARY(RELU, F16), UNARY(SILU, F16), UNARY(GELU, F16),
    GLU(REGLU, F32), GLU(GEGLU, F32), GLU(SWIGLU, F32), GLU(SWIGLU, F16),
    ONE("rows", "NORM", build_norm, F32, 260, 9, 1e-7),
    ONE("rows", "RMS_NORM", build_rms_norm, F32, 260, 9, 1e-7),
    ONE("rows", "L2_NORM", build_l2_norm, F32, 260, 9, 1e-7),
    ONE("rows", "SOFT_MAX", build_soft_max, F32, 260, 9, 1e-6),
    ONE("rows", "SUM_ROWS", build_sum_rows, F32, 260, 9, 1e-7),
    ONE("rows", "MEAN", build_mean, F32, 260, 9, 1e-7),
    ONE("rows", "ARGMAX", build_argmax, F32, 260, 9, 0),
    ONE("rows", "ARGSORT", build_argsort, F32, 64, 5, 0),
    ONE("moves", "CPY to f16", build_to_f16, F32, 260, 9, 1e-7),
    ONE("moves", "CPY to f32", build_to_f32, F16, 260, 9, 1e-7),
    ONE("moves", "CPY to f32", build_to_f32, BF16, 260, 9, 1e-7),
    ONE("moves", "CONT turned", build_turned, F32, 36, 20, 0),
    ONE("moves", "GET_ROWS", build_get_rows, F32, 64, 7, 0),
    {"moves", "ROPE", build_rope, F32, {64, 4, 3, 1}, 0, 1e-6, false, false, false},
    {"moves", "ROPE, halves", build_rope, F32, {64, 4, 3, 1}, GGML_ROPE_TYPE_NEOX, 1e-6, false, false, false},
    PRODUCT(F32, 96, 17, 256, false), PRODUCT(F16, 96, 17, 256, false), PRODUCT(BF16, 96, 17, 256, false),
    PRODUCT(Q4_0, 96, 1, 256, false), PRODUCT(Q8_0, 96, 1, 256, false), PRODUCT(Q4_K, 96, 1, 256, false),
    PRODUCT(Q5_K, 96, 1, 256, false), PRODUCT(Q6_K, 96, 1, 256, false), PRODUCT(IQ4_NL, 96, 1, 256, false),
    PRODUCT(MXFP4, 96, 1, 256, false), PRODUCT(Q4_0, 96, 33, 256, true), PRODUCT(Q8_0, 96, 33, 256, true),
    PRODUCT(Q4_K, 96, 33, 256, true), PRODUCT(Q6_K, 96, 33, 256, true), PRODUCT(F16, 512, 64, 512, true),
    // Qwen2.5-0.5B and Llama-3.2-1B.
    SHAPE(Q4_0, 896, 1, 896, false), SHAPE(Q8_0, 128, 1, 896, false), SHAPE(Q4_0, 4864, 1, 896, true),
    SHAPE(Q4_0, 896, 1, 4864, true), SHAPE(Q4_K, 2048, 1, 2048, true), SHAPE(Q6_K, 2048, 1, 2048, true),
    SHAPE(F16, 896, 16, 896, false), SHAPE(BF16, 2048, 64, 2048, true),
    {"attention", "FLASH_ATTN_EXT", build_attention, F16, {64, 14, 2, 256}, 0, 5e-4, false, true, false},
    {"attention", "FLASH_ATTN_EXT", build_attention, F16, {64, 32, 8, 512}, 0, 5e-4, true, true, false},
    {"layer", "decoder layer, q4_0", build_layer, GGML_TYPE_Q4_0, {896, 4864, 256, 1}, 0, 5e-3, false, true, true},
};
// clang-format on
const int n_ops_cases = sizeof ops_cases / sizeof ops_cases[0];
