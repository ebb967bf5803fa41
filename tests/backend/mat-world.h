// mat-world: graphs of products through ggml's public interface, and what they should come to. The
// reference is made of doubles from the very bytes in the tensors; what may be off is what rounding
// both operands to bf16 takes (or, where products are precise, to two bf16 pieces).
#pragma once

#include "base/cmocka-all.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-hsa.h"

#define TOLERANCE_BF16    0x1p-7 // of the sum of the products' sizes
#define TOLERANCE_PRECISE 0x1p-14

static ggml_backend_dev_t dev;
static ggml_backend_t stream;

static inline int load(void ** state) {
    (void) state;
    setenv("GGML_HSA_EMULATE", "aie2", 0);
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 0);
    dev = ggml_backend_load(PLUGIN) ? ggml_backend_dev_by_name("HSA0") : NULL;
    stream = dev ? ggml_backend_dev_init(dev, NULL) : NULL;
    return stream ? 0 : -1;
}

static inline int unload(void ** state) {
    (void) state;
    ggml_backend_free(stream);
    return 0;
}

// What the plugin adds to ggml's interface, as a program finds it; `to` is a pointer to a function.
static inline void find_function(const char * name, void * to) {
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(dev);
    void * address = ggml_backend_reg_get_proc_address(reg, name);
    assert_non_null(address);
    memcpy(to, &address, sizeof address);
}

static inline struct ggml_backend_hsa_stats stats(void) {
    ggml_backend_hsa_get_stats_t get_stats;
    struct ggml_backend_hsa_stats out;
    find_function("ggml_backend_hsa_get_stats", &get_stats);
    assert_true(get_stats(dev, &out));
    return out;
}

static inline struct ggml_backend_hsa_counters counters(void) {
    ggml_backend_hsa_get_counters_t get_counters;
    struct ggml_backend_hsa_counters out;
    find_function("ggml_backend_hsa_get_counters", &get_counters);
    assert_true(get_counters(dev, &out));
    return out;
}

// ---- graphs ----

// Weights have a buffer of their own, declared as such.
struct world {
    struct ggml_context *weights, *ctx;
    struct ggml_cgraph * graph;
    ggml_backend_buffer_t weights_buffer, buffer;
};

static inline struct world world_new(void) {
    struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * 64 +
                                                  ggml_graph_overhead_custom(64, false),
                                      .no_alloc = true};
    struct world w = {.weights = ggml_init(params), .ctx = ggml_init(params)};
    assert_true(w.weights && w.ctx);
    w.graph = ggml_new_graph_custom(w.ctx, 64, false);
    return w;
}

static inline void world_alloc(struct world * w, struct ggml_tensor * out) {
    ggml_build_forward_expand(w->graph, out);
    if (ggml_get_first_tensor(w->weights)) {
        w->weights_buffer = ggml_backend_alloc_ctx_tensors(w->weights, stream);
        assert_non_null(w->weights_buffer);
        ggml_backend_buffer_set_usage(w->weights_buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
    w->buffer = ggml_backend_alloc_ctx_tensors(w->ctx, stream);
    assert_non_null(w->buffer);
    ggml_backend_buffer_clear(w->buffer, 0xa5);
    if (!ggml_backend_dev_supports_op(dev, out)) {
        fail_msg("%s of %s is not supported", ggml_op_desc(out), ggml_type_name(out->src[0]->type));
    }
}

static inline void world_compute(struct world * w) {
    assert_int_equal(ggml_backend_graph_compute(stream, w->graph), GGML_STATUS_SUCCESS);
}

static inline void world_free(struct world * w) {
    ggml_backend_buffer_free(w->weights_buffer);
    ggml_backend_buffer_free(w->buffer);
    ggml_free(w->weights);
    ggml_free(w->ctx);
}

// ---- elements ----

static float next_value(uint32_t * seed) { // 24 bits, in [-1, 1)
    *seed = *seed * 1664525u + 1013904223u;
    return (float) ((int32_t) *seed >> 8) / (float) (1 << 23);
}

// Types whose quantization begins with seconds of work; any bytes are numbers of them.
static inline bool has_slow_tables(enum ggml_type type) {
    const char * name = ggml_type_name(type);
    return !strncmp(name, "iq1", 3) || !strncmp(name, "iq2", 3) || !strncmp(name, "iq3", 3);
}

static inline void * random_bytes(enum ggml_type type, int64_t ne0, int64_t rows, uint32_t seed) {
    size_t row_size = ggml_row_size(type, ne0);
    char * data = malloc(row_size * (size_t) rows + 1);
    float * row = malloc((size_t) ne0 * sizeof *row + 1);
    float * flat = malloc((size_t) ne0 * sizeof *row + 1); // for types that weigh their elements
    for (int64_t r = 0; r < rows; r++) {
        char * to = data + (size_t) r * row_size;
        for (int64_t i = 0; i < ne0; i++) {
            row[i] = next_value(&seed);
            flat[i] = 1;
        }
        if (type == GGML_TYPE_I8 || type == GGML_TYPE_I16) {
            for (int64_t i = 0; i < ne0; i++) {
                int8_t narrow = (int8_t) (row[i] * 128);
                int16_t wide = (int16_t) (row[i] * 32768);
                memcpy(to + (size_t) i * ggml_type_size(type),
                       type == GGML_TYPE_I8 ? (void *) &narrow : (void *) &wide,
                       ggml_type_size(type));
            }
        } else if (type == GGML_TYPE_F32) {
            memcpy(to, row, row_size);
        } else if (has_slow_tables(type)) {
            for (size_t i = 0; i < row_size; i++) {
                to[i] =
                    (char) (32 + (int) (next_value(&seed) * 16)); // a scale of any kind is finite
            }
        } else {
            ggml_quantize_chunk(type, row, to, 0, 1, ne0, flat);
        }
    }
    free(row);
    free(flat);
    return data;
}

static inline void fill(struct ggml_tensor * t, uint32_t seed) {
    void * data = random_bytes(t->type, t->ne[0], ggml_nrows(t), seed);
    ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
    free(data);
}

// The elements of a tensor, or of a view, as doubles in order.
static inline double * values(const struct ggml_tensor * t) {
    const struct ggml_tensor * base = t->view_src ? t->view_src : t;
    char * data = malloc(ggml_nbytes(base) + 1);
    ggml_backend_tensor_get(base, data, 0, ggml_nbytes(base));
    double * out = malloc((size_t) ggml_nelements(t) * sizeof *out + 1);
    float * row = malloc((size_t) t->ne[0] * sizeof *row + 1);
    for (int64_t r = 0; r < ggml_nrows(t); r++) {
        const char * from = data + t->view_offs + (size_t) (r % t->ne[1]) * t->nb[1] +
                            (size_t) (r / t->ne[1] % t->ne[2]) * t->nb[2] +
                            (size_t) (r / t->ne[1] / t->ne[2]) * t->nb[3];
        if (ggml_is_quantized(t->type)) {
            ggml_get_type_traits(t->type)->to_float(from, row, t->ne[0]);
        }
        for (int64_t i = 0; i < t->ne[0]; i++) {
            const char * at = from + (size_t) i * t->nb[0];
            double * to = &out[r * t->ne[0] + i];
            float f;
            int16_t wide;
            int32_t word;
            switch (t->type) {
            case GGML_TYPE_F32:
                memcpy(&f, at, sizeof f);
                *to = f;
                break;
            case GGML_TYPE_F16:
            case GGML_TYPE_BF16:
                ggml_get_type_traits(t->type)->to_float(at, &f, 1);
                *to = f;
                break;
            case GGML_TYPE_I8:
                *to = *(const int8_t *) at;
                break;
            case GGML_TYPE_I16:
                memcpy(&wide, at, sizeof wide);
                *to = wide;
                break;
            case GGML_TYPE_I32:
                memcpy(&word, at, sizeof word);
                *to = word;
                break;
            default:
                *to = row[i];
            }
        }
    }
    free(row);
    free(data);
    return out;
}

// ---- references ----

struct sum {
    double value, size;
};

// dst[m, n] of matrices [k, m] and [k, n]; columns: [m, k] and [n, k]
static inline struct sum dot(const double * a, int64_t m, int64_t n_m, const double * b, int64_t n,
                             int64_t n_n, int64_t k, bool columns) {
    struct sum s = {0};
    for (int64_t i = 0; i < k; i++) {
        double product = columns ? a[i * n_m + m] * b[i * n_n + n] : a[m * k + i] * b[n * k + i];
        s.value += product;
        s.size += fabs(product);
    }
    return s;
}

static inline void assert_close(double got, struct sum want, double tolerance, const char * what,
                                int64_t i) {
    if (!(fabs(got - want.value) <= want.size * tolerance)) {
        fail_msg("%s: sum %lld is %.9g, not %.9g (products of %.3g together)", what, (long long) i,
                 got, want.value, want.size);
    }
}

static inline void check_product(const struct ggml_tensor * node, double tolerance) {
    const struct ggml_tensor *a = node->src[0], *b = node->src[1];
    bool columns = node->op == GGML_OP_OUT_PROD;
    int64_t k = a->ne[columns];
    double *pa = values(a), *pb = values(b), *got = values(node);
    char what[160];
    snprintf(what, sizeof what, "%s %s x %s, m=%lld n=%lld k=%lld", ggml_op_name(node->op),
             ggml_type_name(a->type), ggml_type_name(b->type), (long long) node->ne[0],
             (long long) node->ne[1], (long long) k);
    for (int64_t i = 0; i < ggml_nelements(node); i++) {
        int64_t m = i % node->ne[0], n = i / node->ne[0] % node->ne[1];
        int64_t i2 = i / node->ne[0] / node->ne[1] % node->ne[2];
        int64_t i3 = i / node->ne[0] / node->ne[1] / node->ne[2];
        int64_t a2 = i2 / (b->ne[2] / a->ne[2]), a3 = i3 / (b->ne[3] / a->ne[3]);
        const double * ma = pa + (a2 + a3 * a->ne[2]) * a->ne[0] * a->ne[1];
        const double * mb = pb + (i2 + i3 * b->ne[2]) * b->ne[0] * b->ne[1];
        struct sum want = dot(ma, m, node->ne[0], mb, n, node->ne[1], k, columns);
        assert_close(got[i], want, tolerance, what, i);
    }
    free(pa);
    free(pb);
    free(got);
}

static inline void check_experts(const struct ggml_tensor * node, double tolerance) {
    const struct ggml_tensor *as = node->src[0], *b = node->src[1], *ids = node->src[2];
    double *pa = values(as), *pb = values(b), *which = values(ids), *got = values(node);
    int64_t k = as->ne[0], m = node->ne[0], slots = node->ne[1];
    for (int64_t i = 0; i < ggml_nelements(node); i++) {
        int64_t slot = i / m % slots, token = i / m / slots;
        const double * ma = pa + (int64_t) which[slot + token * slots] * k * m;
        const double * mb = pb + token * b->ne[1] * k;
        struct sum want = dot(ma, i % m, m, mb, slot % b->ne[1], b->ne[1], k, false);
        assert_close(got[i], want, tolerance, "MUL_MAT_ID", i);
    }
    free(pa);
    free(pb);
    free(which);
    free(got);
}
