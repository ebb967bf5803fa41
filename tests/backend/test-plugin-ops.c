// test-plugin-ops: ops in the datatypes that ggml's own tests leave out (bf16 and integers), with
// views, broadcasts and odd lengths, through ggml's public interface. References are doubles or
// exact integers; a bf16 result may be one step away from the rounded reference.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"

static ggml_backend_dev_t dev;
static ggml_backend_t stream;

static int setup(void ** state) {
    (void) state;
    setenv("GGML_HSA_EMULATE", "aie2", 0);
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 0);
    dev = ggml_backend_load(PLUGIN) ? ggml_backend_dev_by_name("HSA0") : NULL;
    stream = dev ? ggml_backend_dev_init(dev, NULL) : NULL;
    return stream ? 0 : -1;
}

static int teardown(void ** state) {
    (void) state;
    ggml_backend_free(stream);
    return 0;
}

// ---- elements ----

static double get(const struct ggml_tensor * t, const char * data, int64_t i) {
    const char * at = data;
    for (int d = 0; d < GGML_MAX_DIMS; d++) {
        at += (size_t) (i % t->ne[d]) * t->nb[d];
        i /= t->ne[d];
    }
    switch (t->type) {
    case GGML_TYPE_F32:
        return *(const float *) (const void *) at;
    case GGML_TYPE_BF16:
        return ggml_bf16_to_fp32(*(const ggml_bf16_t *) (const void *) at);
    case GGML_TYPE_I8:
        return *(const int8_t *) at;
    case GGML_TYPE_I16:
        return *(const int16_t *) (const void *) at;
    case GGML_TYPE_I32:
        return *(const int32_t *) (const void *) at;
    case GGML_TYPE_I64:
        return (double) *(const int64_t *) (const void *) at;
    default:
        fail_msg("type %s", ggml_type_name(t->type));
        return 0;
    }
}

static bool is_integer(enum ggml_type t) {
    return t == GGML_TYPE_I8 || t == GGML_TYPE_I16 || t == GGML_TYPE_I32;
}

// The reference as the datatype has it: integers wrap around.
static double wrapped(enum ggml_type type, double v) {
    int64_t i = (int64_t) v;
    switch (type) {
    case GGML_TYPE_I8:
        return (int8_t) (uint8_t) (uint64_t) i;
    case GGML_TYPE_I16:
        return (int16_t) (uint16_t) (uint64_t) i;
    case GGML_TYPE_I32:
        return (int32_t) (uint32_t) (uint64_t) i;
    default:
        return v;
    }
}

static bool close_enough(enum ggml_type type, double got, double want) {
    if (type != GGML_TYPE_BF16) {
        return got == want;
    }
    ggml_bf16_t g = ggml_fp32_to_bf16((float) got), w = ggml_fp32_to_bf16((float) want);
    return g.bits == w.bits || abs((int) g.bits - (int) w.bits) == 1 || got == want;
}

static void fill(struct ggml_tensor * t, uint32_t seed) {
    size_t bytes = ggml_nbytes(t);
    char * data = calloc(1, bytes);
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        seed = seed * 1664525u + 1013904223u;
        float v = (float) ((int32_t) seed >> 8) / (float) (1 << 21); // in [-4, 4)
        int32_t small = (int32_t) seed >> (i % 3 ? 26 : 24); // mostly few bits: products too
        switch (t->type) {
        case GGML_TYPE_F32:
            ((float *) (void *) data)[i] = v;
            break;
        case GGML_TYPE_BF16:
            ((ggml_bf16_t *) (void *) data)[i] = ggml_fp32_to_bf16(v);
            break;
        case GGML_TYPE_I8:
            ((int8_t *) data)[i] = (int8_t) small;
            break;
        case GGML_TYPE_I16:
            ((int16_t *) (void *) data)[i] = (int16_t) (small * 97);
            break;
        case GGML_TYPE_I32:
            ((int32_t *) (void *) data)[i] = small * 99991;
            break;
        default:
            fail_msg("type %s", ggml_type_name(t->type));
        }
    }
    ggml_backend_tensor_set(t, data, 0, bytes);
    free(data);
}

// ---- graphs ----

struct world {
    struct ggml_context * ctx;
    struct ggml_cgraph * graph;
    ggml_backend_buffer_t buffer;
};

static struct world world_new(void) {
    struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * 64 +
                                                  ggml_graph_overhead_custom(64, false),
                                      .no_alloc = true};
    struct world w = {.ctx = ggml_init(params)};
    assert_non_null(w.ctx);
    w.graph = ggml_new_graph_custom(w.ctx, 64, false);
    return w;
}

static void world_alloc(struct world * w, struct ggml_tensor * out) {
    ggml_build_forward_expand(w->graph, out);
    w->buffer = ggml_backend_alloc_ctx_tensors(w->ctx, stream);
    assert_non_null(w->buffer);
    ggml_backend_buffer_clear(w->buffer, 0xa5);
    if (!ggml_backend_dev_supports_op(dev, out)) {
        fail_msg("%s of %s is not supported", ggml_op_desc(out), ggml_type_name(out->src[0]->type));
    }
}

static void world_compute(struct world * w) {
    assert_int_equal(ggml_backend_graph_compute(stream, w->graph), GGML_STATUS_SUCCESS);
}

static void world_free(struct world * w) {
    ggml_backend_buffer_free(w->buffer);
    ggml_free(w->ctx);
}

static char *
read_all(const struct ggml_tensor * t) { // a view: with what lies between its elements
    char * data = malloc(ggml_nbytes(t));
    ggml_backend_tensor_get(t, data, 0, ggml_nbytes(t));
    return data;
}

// ---- the ops ----

static double f_add(double a, double b) {
    return a + b;
}
static double f_sub(double a, double b) {
    return a - b;
}
static double f_mul(double a, double b) {
    return a * b;
}
static double f_div(double a, double b) {
    return a / b;
}
static double i_div(double a, double b) {
    return b == 0 ? 0 : trunc(a / b);
}
static double f_abs(double a, double b) {
    (void) b;
    return fabs(a);
}
static double f_neg(double a, double b) {
    (void) b;
    return -a;
}
static double f_sgn(double a, double b) {
    (void) b;
    return (a > 0) - (a < 0);
}
static double f_step(double a, double b) {
    (void) b;
    return a > 0;
}
static double f_relu(double a, double b) {
    (void) b;
    return a > 0 ? a : 0;
}
static double f_sqr(double a, double b) {
    (void) b;
    return a * a;
}
static double f_exp(double a, double b) {
    (void) b;
    return exp(a);
}
static double f_tanh(double a, double b) {
    (void) b;
    return tanh(a);
}
static double f_silu(double a, double b) {
    (void) b;
    return a / (1 + exp(-a));
}
static double f_floor(double a, double b) {
    (void) b;
    return floor(a);
}
static double f_swiglu(double a, double b) {
    return f_silu(a, 0) * b;
}
static double f_reglu(double a, double b) {
    return f_relu(a, 0) * b;
}

typedef struct ggml_tensor * (*binary_builder)(struct ggml_context *, struct ggml_tensor *,
                                               struct ggml_tensor *);
typedef struct ggml_tensor * (*unary_builder)(struct ggml_context *, struct ggml_tensor *);

static const struct op {
    unary_builder unary;
    binary_builder binary;
    double (*reference)(double, double);
    double (*of_integers)(double, double); // NULL: it has none
} ops[] = {
    {NULL, ggml_add, f_add, f_add},
    {NULL, ggml_sub, f_sub, f_sub},
    {NULL, ggml_mul, f_mul, f_mul},
    {NULL, ggml_div, f_div, i_div},
    {ggml_abs, NULL, f_abs, f_abs},
    {ggml_neg, NULL, f_neg, f_neg},
    {ggml_sgn, NULL, f_sgn, f_sgn},
    {ggml_step, NULL, f_step, f_step},
    {ggml_relu, NULL, f_relu, f_relu},
    {ggml_sqr, NULL, f_sqr, NULL},
    {ggml_exp, NULL, f_exp, NULL},
    {ggml_tanh, NULL, f_tanh, NULL},
    {ggml_silu, NULL, f_silu, NULL},
    {ggml_floor, NULL, f_floor, NULL},
    {NULL, ggml_swiglu_split, f_swiglu, NULL},
    {NULL, ggml_reglu_split, f_reglu, NULL},
};
enum { N_OPS = sizeof ops / sizeof ops[0] };

static const enum ggml_type types[] = {GGML_TYPE_BF16, GGML_TYPE_I8, GGML_TYPE_I16, GGML_TYPE_I32};
enum { N_TYPES = sizeof types / sizeof types[0] };

static void check(const struct op * op, struct ggml_tensor * out, const struct ggml_tensor * a,
                  const struct ggml_tensor * b) {
    char *got = read_all(out), *pa = read_all(a), *pb = b ? read_all(b) : NULL;
    for (int64_t i = 0; i < ggml_nelements(out); i++) {
        int64_t j = 0, rest = i, scale = 1;
        for (int d = 0; b && d < GGML_MAX_DIMS; d++) {
            j += rest % out->ne[d] % b->ne[d] * scale;
            rest /= out->ne[d];
            scale *= b->ne[d];
        }
        double x = get(a, pa, i), y = b ? get(b, pb, j) : 0, g = get(out, got, i);
        double want = (is_integer(out->type) ? op->of_integers : op->reference)(x, y);
        if (!close_enough(out->type, g, wrapped(out->type, want))) {
            fail_msg("%s of %s, element %lld: of %g and %g comes %g, not %g", ggml_op_desc(out),
                     ggml_type_name(out->type), (long long) i, x, y, g, want);
        }
    }
    free(got);
    free(pa);
    free(pb);
}

static bool has_type(const struct op * op, enum ggml_type type) {
    return !is_integer(type) || op->of_integers;
}

static bool is_glu(const struct op * op) {
    return op->binary == ggml_swiglu_split || op->binary == ggml_reglu_split;
}

// Odd lengths, and a second input that repeats.
static void plain(void ** state) {
    (void) state;
    static const int64_t shapes[][4] = {
        {1, 1, 1, 1}, {37, 3, 1, 1}, {256, 5, 2, 1}, {1001, 1, 1, 3}};
    for (int k = 0; k < N_OPS * N_TYPES; k++) {
        const struct op * op = &ops[k / N_TYPES];
        enum ggml_type type = types[k % N_TYPES];
        for (int s = 0; s < 4 && has_type(op, type); s++) {
            const int64_t * ne = shapes[s];
            struct world w = world_new();
            struct ggml_tensor * a = ggml_new_tensor(w.ctx, type, 4, ne);
            bool full = !op->binary || is_glu(op) || s % 2 == 0;
            struct ggml_tensor * b = op->binary
                                         ? ggml_new_tensor_4d(w.ctx, type, ne[0], full ? ne[1] : 1,
                                                              ne[2], full ? ne[3] : 1)
                                         : NULL;
            struct ggml_tensor * out = b ? op->binary(w.ctx, a, b) : op->unary(w.ctx, a);
            world_alloc(&w, out);
            fill(a, (uint32_t) (k + s));
            if (b) {
                fill(b, (uint32_t) (k * 3 + s + 1));
            }
            world_compute(&w);
            check(op, out, a, b);
            world_free(&w);
        }
    }
}

// Rows cut out of larger ones, and permuted inputs.
static void views(void ** state) {
    (void) state;
    for (int k = 0; k < N_OPS * N_TYPES; k++) {
        const struct op * op = &ops[k / N_TYPES];
        enum ggml_type type = types[k % N_TYPES];
        if (!has_type(op, type) || is_glu(op)) { // a GLU takes rows that follow each other
            continue;
        }
        struct world w = world_new();
        struct ggml_tensor * wide = ggml_new_tensor_3d(w.ctx, type, 53, 6, 4);
        struct ggml_tensor * a =
            ggml_view_3d(w.ctx, wide, 34, 6, 4, wide->nb[1], wide->nb[2], 5 * ggml_type_size(type));
        struct ggml_tensor * raw = ggml_new_tensor_3d(w.ctx, type, 34, 4, 6);
        struct ggml_tensor * b = op->binary ? ggml_permute(w.ctx, raw, 0, 2, 1, 3) : NULL;
        struct ggml_tensor * out = b ? op->binary(w.ctx, a, b) : op->unary(w.ctx, a);
        world_alloc(&w, out);
        fill(wide, (uint32_t) k);
        fill(raw, (uint32_t) (k + 99));
        world_compute(&w);
        check(op, out, a, b);
        world_free(&w);
    }
}

// Both halves of a row in one tensor, in either order.
static void halves(void ** state) {
    (void) state;
    for (int swapped = 0; swapped < 2; swapped++) {
        for (int64_t half = 1; half < 200; half = half * 3 + 2) {
            struct world w = world_new();
            struct ggml_tensor * both = ggml_new_tensor_2d(w.ctx, GGML_TYPE_BF16, 2 * half, 7);
            struct ggml_tensor * first = ggml_view_2d(w.ctx, both, half, 7, both->nb[1], 0);
            struct ggml_tensor * second =
                ggml_view_2d(w.ctx, both, half, 7, both->nb[1], (size_t) half * 2);
            struct ggml_tensor * out =
                swapped ? ggml_swiglu_swapped(w.ctx, both) : ggml_swiglu(w.ctx, both);
            world_alloc(&w, out);
            fill(both, (uint32_t) half);
            world_compute(&w);
            check(&(struct op){.reference = f_swiglu}, out, swapped ? second : first,
                  swapped ? first : second);
            world_free(&w);
        }
    }
}

// In place, on the tail of a tensor that others share words with.
static void in_place(void ** state) {
    (void) state;
    for (int t = 0; t < N_TYPES; t++) {
        struct world w = world_new();
        struct ggml_tensor * whole = ggml_new_tensor_1d(w.ctx, types[t], 101);
        size_t size = ggml_type_size(types[t]);
        struct ggml_tensor * part = ggml_view_1d(w.ctx, whole, 33, 3 * size);
        struct ggml_tensor * out = ggml_neg_inplace(w.ctx, part);
        world_alloc(&w, out);
        fill(whole, 7);
        char * before = read_all(whole);
        world_compute(&w);
        char * after = read_all(whole);
        for (int64_t i = 0; i < 101; i++) {
            double was = get(whole, before, i), is = get(whole, after, i);
            bool inside = i >= 3 && i < 36;
            assert_true(is == wrapped(types[t], inside ? -was : was));
        }
        free(before);
        free(after);
        world_free(&w);
    }
}

// Floats of different datatypes go through f32.
static void mixed(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(w.ctx, GGML_TYPE_BF16, 45, 3);
    struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 45, 1);
    struct ggml_tensor * out = ggml_mul(w.ctx, a, b);
    world_alloc(&w, out);
    fill(a, 1);
    fill(b, 2);
    world_compute(&w);
    check(&(struct op){.reference = f_mul}, out, a, b);
    world_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain),    cmocka_unit_test(views), cmocka_unit_test(halves),
        cmocka_unit_test(in_place), cmocka_unit_test(mixed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
