// gpu-world: what the tests of emulated GPUs as ggml devices share: the plugin loaded with a NPU
// and a GPU, graphs in a buffer, and a reference in double precision for each op that they use. A
// node is compared with what the reference makes of its sources, byte images of which are read from
// the device.
#pragma once

#include "base/cmocka-all.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-hsa.h"
#include "gpu-env.h"

#include <float.h>
#include <math.h>

static ggml_backend_dev_t gpu;
static ggml_backend_t stream;
static const char * gpu_arch = "gfx1100";

// ---- the plugin ----

static inline int gpu_setup(void ** state) {
    (void) state;
    char emulate[64];
    snprintf(emulate, sizeof emulate, "aie2,%s", gpu_arch);
    gpu_env(emulate);
    gpu = ggml_backend_load(PLUGIN) ? ggml_backend_dev_by_name("HSA1") : NULL;
    stream = gpu ? ggml_backend_dev_init(gpu, NULL) : NULL;
    return stream ? 0 : -1;
}

static inline int gpu_teardown(void ** state) {
    (void) state;
    ggml_backend_free(stream);
    return 0;
}

// ---- elements ----

static inline int64_t wrap(int64_t i, int64_t n) {
    return n ? i % n : 0;
}

static inline char * place(const struct ggml_tensor * t, const char * data, const int64_t i[4]) {
    const char * at = data;
    for (int d = 0; d < 4; d++) {
        at += (size_t) wrap(i[d], t->ne[d]) * t->nb[d]; // inputs repeat
    }
    return (char *) (uintptr_t) at;
}

static inline double value(const struct ggml_tensor * t, const char * data, const int64_t i[4]) {
    const void * at = place(t, data, i);
    switch (t->type) {
    case GGML_TYPE_F32:
        return *(const float *) at;
    case GGML_TYPE_F16:
        return ggml_fp16_to_fp32(*(const ggml_fp16_t *) at);
    case GGML_TYPE_BF16:
        return ggml_bf16_to_fp32(*(const ggml_bf16_t *) at);
    case GGML_TYPE_F64:
        return *(const double *) at;
    case GGML_TYPE_I32:
        return *(const int32_t *) at;
    case GGML_TYPE_I64:
        return (double) *(const int64_t *) at;
    default:
        fail_msg("type %s", ggml_type_name(t->type));
        return 0;
    }
}

static inline void put(enum ggml_type type, void * at, double v) {
    switch (type) {
    case GGML_TYPE_F32:
        *(float *) at = (float) v;
        break;
    case GGML_TYPE_F16:
        *(ggml_fp16_t *) at = ggml_fp32_to_fp16((float) v);
        break;
    case GGML_TYPE_BF16:
        *(ggml_bf16_t *) at = ggml_fp32_to_bf16((float) v);
        break;
    case GGML_TYPE_F64:
        *(double *) at = v;
        break;
    case GGML_TYPE_I32:
        *(int32_t *) at = (int32_t) (v * 1000);
        break;
    case GGML_TYPE_I64:
        *(int64_t *) at = (int64_t) (v * 1000000);
        break;
    default:
        fail_msg("type %s", ggml_type_name(type));
    }
}

static inline double next_value(uint32_t * seed) { // in [-4, 4)
    *seed = *seed * 1664525u + 1013904223u;
    return (double) ((int32_t) *seed >> 8) / (1 << 21);
}

static inline void fill(struct ggml_tensor * t, uint32_t seed) {
    size_t size = ggml_type_size(t->type);
    char * data = calloc(1, ggml_nbytes(t) + 1);
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        put(t->type, data + (size_t) i * size, next_value(&seed));
    }
    ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
    free(data);
}

static inline char * bytes_of(const struct ggml_tensor * t) { // the caller frees them
    char * data = malloc(ggml_nbytes(t) + 1);
    ggml_backend_tensor_get(t, data, 0, ggml_nbytes(t));
    return data;
}

// ---- the reference ----

struct reference {
    double want;
    double scale; // of what went into it: rounding errors are in proportion
};

static inline float float_param(const struct ggml_tensor * node, int i) {
    float f;
    memcpy(&f, &node->op_params[i], sizeof f);
    return f;
}

static inline double slope_of(double max_bias, int64_t n_heads, int64_t head) {
    double n = pow(2, floor(log2((double) n_heads)));
    return max_bias <= 0       ? 1
           : (double) head < n ? pow(pow(2, -max_bias / n), (double) head + 1)
                               : pow(pow(2, -max_bias / 2 / n), 2 * ((double) head - n) + 1);
}

static inline double soft_max_in(const struct ggml_tensor * node, char * const data[3],
                                 const int64_t i[4]) {
    const struct ggml_tensor *x = node->src[0], *mask = node->src[1];
    double v = value(x, data[0], i) * float_param(node, 0);
    return mask ? v + slope_of(float_param(node, 1), x->ne[2], i[2]) * value(mask, data[1], i) : v;
}

static inline struct reference soft_max_of(const struct ggml_tensor * node, char * const data[3],
                                           const int64_t i[4]) {
    int64_t c[4] = {0, i[1], i[2], i[3]};
    double most = -INFINITY, sum = 0, sink = -INFINITY;
    if (node->src[2]) {
        most = sink = value(node->src[2], data[2], (int64_t[4]){i[2], 0, 0, 0});
    }
    for (c[0] = 0; c[0] < node->ne[0]; c[0]++) {
        most = fmax(most, soft_max_in(node, data, c));
    }
    for (c[0] = 0; c[0] < node->ne[0]; c[0]++) {
        sum += exp(soft_max_in(node, data, c) - most);
    }
    sum += exp(sink - most);
    return (struct reference){exp(soft_max_in(node, data, i) - most) / sum, 1};
}

static inline struct reference norm_of(const struct ggml_tensor * node, const char * x,
                                       const int64_t i[4]) {
    int64_t c[4] = {0, i[1], i[2], i[3]};
    double mean = 0, squares = 0, n = (double) node->ne[0], own = value(node->src[0], x, i);
    for (c[0] = 0; c[0] < node->ne[0] && node->op == GGML_OP_NORM; c[0]++) {
        mean += value(node->src[0], x, c) / n;
    }
    for (c[0] = 0; c[0] < node->ne[0]; c[0]++) {
        squares += pow(value(node->src[0], x, c) - mean, 2) / n;
    }
    return (struct reference){(own - mean) / sqrt(squares + float_param(node, 0)), 4};
}

// Matrix instructions, which products of more than eight columns use, take an f32 beside f16 or
// bf16 as that, unless the node asks for more, or has batches of f16 and gfx90a would lose small
// numbers.
static inline double factor_of(const struct ggml_tensor * node, double v) {
    const struct ggml_tensor *a = node->src[0], *b = node->src[1];
    bool along = a->nb[0] == ggml_type_size(a->type) && b->nb[0] == ggml_type_size(b->type);
    bool attention = node->ne[2] * node->ne[3] > 1 && !strcmp(gpu_arch, "gfx90a");
    if (b->type != GGML_TYPE_F32 || node->ne[1] <= 8 || !along ||
        (attention && a->type == GGML_TYPE_F16) || node->op_params[0] == GGML_PREC_F32 ||
        node->op_params[3]) {
        return v;
    }
    return a->type == GGML_TYPE_F16    ? ggml_fp16_to_fp32(ggml_fp32_to_fp16((float) v))
           : a->type == GGML_TYPE_BF16 ? ggml_bf16_to_fp32(ggml_fp32_to_bf16((float) v))
                                       : v;
}

static inline struct reference product_of(const struct ggml_tensor * node, char * const data[3],
                                          const int64_t i[4]) {
    const struct ggml_tensor *a = node->src[0], *b = node->src[1];
    struct reference r = {0, 0};
    int64_t at_a[4] = {0, i[0], i[2] * a->ne[2] / b->ne[2], i[3] * a->ne[3] / b->ne[3]};
    int64_t at_b[4] = {0, i[1], i[2], i[3]};
    for (int64_t k = 0; k < a->ne[0]; k++) {
        at_a[0] = at_b[0] = k;
        double p = value(a, data[0], at_a) * factor_of(node, value(b, data[1], at_b));
        r.want += p;
        r.scale += fabs(p);
    }
    return r;
}

static inline struct reference over_row(const struct ggml_tensor * node, const char * x,
                                        const int64_t i[4]) {
    bool argmax = node->op == GGML_OP_ARGMAX;
    int64_t c[4] = {0, argmax ? i[0] : i[1], argmax ? 0 : i[2], argmax ? 0 : i[3]};
    double sum = 0, scale = 0, most = -INFINITY, where = 0;
    for (; c[0] < node->src[0]->ne[0]; c[0]++) {
        double v = value(node->src[0], x, c);
        where = v > most ? (double) c[0] : where;
        most = fmax(v, most);
        sum += v;
        scale += fabs(v);
    }
    return (struct reference){argmax ? where : sum, argmax ? 0 : scale};
}

static inline struct reference copy_of(const struct ggml_tensor * node, const char * x,
                                       const int64_t i[4]) {
    const struct ggml_tensor * src = node->src[0];
    int64_t n = i[0] + node->ne[0] * (i[1] + node->ne[1] * (i[2] + node->ne[2] * i[3])), at[4];
    for (int d = 0; d < 4; n /= src->ne[d++]) {
        at[d] = n % src->ne[d];
    }
    double v = value(src, x, at);
    bool integer = node->type == GGML_TYPE_I32 || node->type == GGML_TYPE_I64;
    return (struct reference){integer ? trunc(v) : v, 0};
}

static inline struct reference reference(const struct ggml_tensor * node, char * const data[3],
                                         const int64_t i[4]) {
    bool two = node->src[1] && node->op != GGML_OP_CPY;
    double a = node->src[0] ? value(node->src[0], data[0], i) : 0;
    double b = two ? value(node->src[1], data[1], i) : 0;
    switch (node->op) {
    case GGML_OP_ADD:
        return (struct reference){a + b, 0};
    case GGML_OP_SUB:
        return (struct reference){a - b, 0};
    case GGML_OP_MUL:
        return (struct reference){a * b, 0};
    case GGML_OP_DIV:
        return (struct reference){a / b, fabs(a / b)};
    case GGML_OP_SQR:
        return (struct reference){a * a, 0};
    case GGML_OP_SCALE:
        return (struct reference){a * float_param(node, 0) + float_param(node, 1),
                                  fabs(a * float_param(node, 0))};
    case GGML_OP_UNARY:
        switch (ggml_get_unary_op(node)) {
        case GGML_UNARY_OP_RELU:
            return (struct reference){fmax(a, 0), 0};
        case GGML_UNARY_OP_SILU:
            return (struct reference){a / (1 + exp(-a)), fabs(a)};
        default:
            break;
        }
        break;
    case GGML_OP_GLU: { // SWIGLU
        const struct ggml_tensor * up = node->src[1] ? node->src[1] : node->src[0];
        int64_t half = node->src[1] ? 0 : node->ne[0], first = node->op_params[1] ? half : 0;
        const int64_t gate_at[4] = {i[0] + first, i[1], i[2], i[3]};
        const int64_t up_at[4] = {i[0] + half - first, i[1], i[2], i[3]};
        double g = value(node->src[0], data[0], gate_at);
        double v = value(up, data[node->src[1] ? 1 : 0], up_at);
        return (struct reference){g / (1 + exp(-g)) * v, fabs(g * v)};
    }
    case GGML_OP_NORM:
    case GGML_OP_RMS_NORM:
        return norm_of(node, data[0], i);
    case GGML_OP_SOFT_MAX:
        return soft_max_of(node, data, i);
    case GGML_OP_MUL_MAT:
        return product_of(node, data, i);
    case GGML_OP_SUM_ROWS:
    case GGML_OP_ARGMAX:
        return over_row(node, data[0], i);
    case GGML_OP_REPEAT:
        return (struct reference){a, 0};
    case GGML_OP_CPY:
    case GGML_OP_CONT:
    case GGML_OP_DUP:
        return copy_of(node, data[0], i);
    case GGML_OP_CONCAT: {
        int dim = node->op_params[0], which = i[dim] >= node->src[0]->ne[dim];
        int64_t at[4] = {i[0], i[1], i[2], i[3]};
        at[dim] -= which ? node->src[0]->ne[dim] : 0;
        return (struct reference){value(node->src[which], data[which], at), 0};
    }
    case GGML_OP_GET_ROWS: {
        int64_t id = (int64_t) value(node->src[1], data[1], (int64_t[4]){i[1], i[2], i[3], 0});
        return (struct reference){value(node->src[0], data[0], (int64_t[4]){i[0], id, i[2], i[3]}),
                                  0};
    }
    default:
        break;
    }
    fail_msg("no reference for %s", ggml_op_desc(node));
    return (struct reference){0, 0};
}

// A result rounded once is within half a step; what is summed or divided errs a little more.
static inline bool close_enough(enum ggml_type type, double got, struct reference r) {
    double step = type == GGML_TYPE_F16    ? 4.9e-4
                  : type == GGML_TYPE_BF16 ? 3.91e-3
                  : type == GGML_TYPE_F32  ? 6e-8
                                           : 0;
    double least = type == GGML_TYPE_F16    ? 3e-8
                   : type == GGML_TYPE_BF16 ? 4.6e-41
                   : type == GGML_TYPE_F32  ? 1e-45
                                            : 0;
    double want = type == GGML_TYPE_F32 ? (double) (float) r.want : r.want; // may overflow
    if ((type == GGML_TYPE_F16 && fabs(want) >= 65520) ||
        (type == GGML_TYPE_BF16 && fabs(want) >= 0x1.ffp127)) {
        want = copysign(INFINITY, want);
    }
    return (isnan(got) && isnan(want)) || got == want ||
           fabs(got - want) <= step * fabs(want) + 4e-6 * r.scale + least;
}

#define FOR_INDICES(t, i)                                                                          \
    for (int64_t i[4] = {0}; i[3] < (t)->ne[3]; i[3]++)                                            \
        for (i[2] = 0; i[2] < (t)->ne[2]; i[2]++)                                                  \
            for (i[1] = 0; i[1] < (t)->ne[1]; i[1]++)                                              \
                for (i[0] = 0; i[0] < (t)->ne[0]; i[0]++)

// False and a line where got is not what the reference makes of the sources.
static inline bool node_is_right(const struct ggml_tensor * node, const char * got,
                                 char * const data[3]) {
    FOR_INDICES(node, i) {
        struct reference r = reference(node, data, i);
        double v = value(node, got, i);
        if (!close_enough(node->type, v, r)) {
            print_message("%s of %s: element (%lld,%lld,%lld,%lld) of (%lld,%lld,%lld,%lld) is "
                          "%.9g, not %.9g\n",
                          ggml_op_desc(node), ggml_type_name(node->src[0]->type), (long long) i[0],
                          (long long) i[1], (long long) i[2], (long long) i[3],
                          (long long) node->ne[0], (long long) node->ne[1], (long long) node->ne[2],
                          (long long) node->ne[3], v, r.want);
            return false;
        }
    }
    return true;
}

static inline bool is_view(const struct ggml_tensor * t) {
    return t->op == GGML_OP_NONE || t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE ||
           t->op == GGML_OP_PERMUTE || t->op == GGML_OP_TRANSPOSE;
}

// ---- graphs ----

struct world {
    struct ggml_context * ctx;
    struct ggml_cgraph * graph;
    ggml_backend_buffer_t buffer;
};

static inline struct world world_new(void) {
    struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * 512 +
                                                  ggml_graph_overhead_custom(512, false),
                                      .no_alloc = true};
    struct world w = {.ctx = ggml_init(params)};
    assert_non_null(w.ctx);
    w.graph = ggml_new_graph_custom(w.ctx, 512, false);
    return w;
}

static inline void world_free(struct world * w) {
    ggml_backend_buffer_free(w->buffer);
    ggml_free(w->ctx);
}

static inline void assert_supported(const struct world * w) {
    for (int i = 0; i < ggml_graph_n_nodes(w->graph); i++) {
        const struct ggml_tensor * node = ggml_graph_node(w->graph, i);
        if (!ggml_backend_dev_supports_op(gpu, node)) {
            fail_msg("%s of %s is not supported", ggml_op_desc(node),
                     ggml_type_name(node->src[0]->type));
        }
    }
}

// Asked before there are addresses, as a scheduler does, and after.
static inline void world_alloc(struct world * w, struct ggml_tensor * out,
                               ggml_backend_buffer_type_t buft) {
    ggml_build_forward_expand(w->graph, out);
    assert_supported(w);
    w->buffer = ggml_backend_alloc_ctx_tensors_from_buft(
        w->ctx, buft ? buft : ggml_backend_dev_buffer_type(gpu));
    assert_non_null(w->buffer);
    ggml_backend_buffer_clear(w->buffer, 0xa5); // NaN
    assert_supported(w);
}

static inline void world_fill(struct world * w, uint32_t seed) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(w->ctx); t;
         t = ggml_get_next_tensor(w->ctx, t)) {
        if (t->op == GGML_OP_NONE && !t->view_src) {
            fill(t, seed++ * 7919);
        }
    }
}

// Every tensor has memory of its own, so that all nodes can be looked at afterwards.
static inline bool world_is_right(const struct world * w) {
    bool right = true;
    for (int n = 0; n < ggml_graph_n_nodes(w->graph) && right; n++) {
        const struct ggml_tensor * node = ggml_graph_node(w->graph, n);
        char * data[3] = {NULL, NULL, NULL};
        if (is_view(node) || ggml_is_empty(node)) {
            continue;
        }
        for (int s = 0; s < 3; s++) {
            data[s] = node->src[s] ? bytes_of(node->src[s]) : NULL;
        }
        char * got = bytes_of(node);
        right = node_is_right(node, got, data);
        free(got);
        for (int s = 0; s < 3; s++) {
            free(data[s]);
        }
    }
    return right;
}

// Twice with different numbers: nothing may be left over from the first time.
static inline void world_check(struct world * w, struct ggml_tensor * out,
                               ggml_backend_buffer_type_t buft) {
    world_alloc(w, out, buft);
    for (uint32_t round = 1; round <= 2; round++) {
        world_fill(w, 100 * round);
        assert_int_equal(ggml_backend_graph_compute(stream, w->graph), GGML_STATUS_SUCCESS);
        assert_true(world_is_right(w));
    }
    world_free(w);
}

static inline int gpu_main(int argc, char ** argv, const struct CMUnitTest * tests, size_t n) {
    gpu_arch = argc > 1 ? argv[1] : gpu_arch;
    if (!gpu_have_compiler()) {
        return skip_say("no clang++-19 or later with its lld to compile GPU kernels with");
    }
    return skip_run(gpu_arch, tests, n, gpu_setup, gpu_teardown);
}
