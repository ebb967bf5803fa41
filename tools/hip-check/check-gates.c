// check-gates: what ggml needs beside the usual: activations with parameters, gated units and
// get_rows. NaN, infinities and numbers below the smallest normal one are among the inputs: what
// becomes of them is ggml's choice, and the functions here say which.
#include "check-impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double specials[] = {0,       -0.0,     INFINITY, -INFINITY, NAN,   1,     -1,  0.5,
                                  -0.5,    1.5,      -1.5,     2.5,       20,    -20,   100, -100,
                                  0x1p-12, -0x1p-12, 0x1p-20,  -0x1p-20,  1e-40, -1e-40};
enum { SPECIALS = sizeof specials / sizeof specials[0] };

// ---- the ops of elementwise.def ----

// Nothing is lost on the way: f32 is computed with all of its numbers.
static double flush(double v) {
    return v;
}
#include "kernel/values.h"

#define UNARY(name)      NULL
#define BINARY(name)     NULL
#define AFFINE(name)     NULL
#define ACTIVATION(name) "activation_" #name
#define GLU(name)        "glu_" #name
#define ELEMENTWISE(id, name, ggml_name, source, inputs, params, npu, gpu, ...)                    \
    [KERNEL_OP_##id] = gpu,
static const char * const kernels[KERNEL_OP_COUNT] = {
#include "kernel/elementwise.def"
};
#undef UNARY
#undef BINARY
#undef AFFINE
#undef ACTIVATION
#undef GLU
#undef ELEMENTWISE

// The op of the kernel <family>_<op>_<type>; KERNEL_OP_COUNT: none.
static enum kernel_op find_op(const char * kernel, enum check_type * t) {
    int op = 0;
    for (; op < KERNEL_OP_COUNT; op++) {
        size_t length = kernels[op] ? strlen(kernels[op]) : 0;
        const char * type = kernel + length + 1;
        if (length && !strncmp(kernel, kernels[op], length) && kernel[length] == '_' &&
            (*t = check_parse_type(&type)) < T_COUNT && !*type) {
            break;
        }
    }
    return (enum kernel_op) op;
}

static double wanted(enum kernel_op op, double a, double b) {
    if (op == KERNEL_OP_GEGLU && fabs(a) >= 10) { // shut or open, whatever the other is
        return a < 0 ? 0 : a * b;
    }
    return value_with(op, a, b, values[op].test.params);
}

// ---- activation ----

static enum status check_activation(struct check_run * r) {
    enum check_type t;
    enum kernel_op op = find_op(r->kernel, &t);
    if (op == KERNEL_OP_COUNT) {
        return ST_NOT_FOUND;
    }
    enum status st = ST_OK;
    for (int s = 0; s < CHECK_SHAPES && st == ST_OK; s++) {
        struct rk_activation a = {.shape = {0}};
        memcpy(a.param, values[op].test.params, sizeof a.param);
        check_set_shape(r, s, &a.shape);
        check_set_stride(s, 0, a.x_stride);
        check_set_stride(s, 2, a.y_stride);
        void * x = check_alloc(r, t, CHECK_ROOM);
        a.x = x;
        a.y = check_alloc(r, t, CHECK_ROOM);
        if (!x || !a.y) {
            return ST_NO_MEMORY;
        }
        for (uint32_t i = 0; i < CHECK_ROOM; i++) {
            check_put(t, x, i, i < SPECIALS ? specials[i] : check_value(t, i));
        }
        st = check_launch(r, &a, sizeof a, (a.shape.n + 255) / 256, 1, 1, 256);
        for (uint32_t i = 0; i < a.shape.n && st == ST_OK; i++) {
            double v = check_get(t, x, check_place(s, 0, i));
            st = check_function(r, t, i, check_get(t, a.y, check_place(s, 2, i)), wanted(op, v, 0),
                                values[op].test.scale);
        }
        check_free(r);
    }
    return st;
}

// ---- glu ----

static enum status check_glu(struct check_run * r) {
    enum check_type t;
    enum kernel_op op = find_op(r->kernel, &t);
    if (op == KERNEL_OP_COUNT) {
        return ST_NOT_FOUND;
    }
    enum status st = ST_OK;
    for (int s = 0; s < CHECK_SHAPES && st == ST_OK; s++) {
        struct rk_glu args = {.param = {values[op].test.params[0], values[op].test.params[1]}};
        check_set_shape(r, s, &args.shape);
        check_set_stride(s, 0, args.a_stride);
        check_set_stride(s, 1, args.b_stride);
        check_set_stride(s, 2, args.y_stride);
        void *a = check_alloc(r, t, CHECK_ROOM), *b = check_alloc(r, t, CHECK_ROOM);
        args.a = a;
        args.b = b;
        args.y = check_alloc(r, t, CHECK_ROOM);
        if (!a || !b || !args.y) {
            return ST_NO_MEMORY;
        }
        // The special ones of b meet ordinary ones of a, open gates and closed: an infinity times a
        // gate that f32 takes for 0 and f64 does not tells nothing.
        for (uint32_t i = 0; i < CHECK_ROOM; i++) {
            bool special = i >= SPECIALS && i < 3 * SPECIALS;
            check_put(t, a, i, i < SPECIALS ? specials[i] : check_value(t, i));
            check_put(t, b, i, special ? specials[i % SPECIALS] : check_value(t, i * 7 + 3));
        }
        st = check_launch(r, &args, sizeof args, (args.shape.n + 127) / 128, 1, 1, 128);
        for (uint32_t i = 0; i < args.shape.n && st == ST_OK; i++) {
            double gate = check_get(t, a, check_place(s, 0, i));
            double value = check_get(t, b, check_place(s, 1, i));
            double scale = values[op].test.scale *
                           (fabs(value) > 1 && fabs(value) < INFINITY ? fabs(value) : 1);
            st = check_function(r, t, i, check_get(t, args.y, check_place(s, 2, i)),
                                wanted(op, gate, value), scale);
        }
        check_free(r);
    }
    return st;
}

// ---- get_rows ----

// x is [3][2][7][5] of columns 5, with gaps; ids are [3][2][11], of which some are not there.
static enum status check_get_rows(struct check_run * r, const char * rest) {
    enum check_type t = check_parse_type(&rest);
    if (t == T_COUNT || *rest) {
        return ST_NOT_FOUND;
    }
    enum { COLUMNS = 5, DIM = 7, IDS = 11, SECOND = 2, THIRD = 3, GAP = 9 };
    enum { N = COLUMNS * IDS * SECOND * THIRD, N_IDS = IDS * SECOND * THIRD };
    struct rk_get_rows a = {.shape = {.n = N, .n_dims = 4, .dims = {COLUMNS, IDS, SECOND, THIRD}},
                            .x_stride = {1, 0, DIM * GAP, SECOND * DIM * GAP},
                            .ids_stride = {0, SECOND * THIRD, THIRD, 1}, // transposed
                            .y_stride = {1, COLUMNS, COLUMNS * IDS, COLUMNS * IDS * SECOND},
                            .n_rows = DIM,
                            .row_stride = GAP};
    snprintf(r->what, sizeof r->what, "3x2x7x5 by 3x2x11 ids");
    void * x = check_alloc(r, t, GAP * DIM * SECOND * THIRD);
    void * ids = check_alloc(r, T_I32, N_IDS);
    a.x = x;
    a.ids = ids;
    a.y = check_alloc(r, T_F32, N);
    if (!x || !ids || !a.y) {
        return ST_NO_MEMORY;
    }
    for (uint32_t i = 0; i < GAP * DIM * SECOND * THIRD; i++) {
        check_put(t, x, i, i % 40 < SPECIALS ? specials[i % 40] : check_value(t, i));
    }
    for (uint32_t i = 0; i < N_IDS; i++) {
        uint32_t v = i * 2654435761u >> 20;
        check_put(T_I32, ids, i, i % 10 == 3 ? DIM : i % 10 == 6 ? -1.0 : v % DIM);
    }
    enum status st = check_launch(r, &a, sizeof a, (N + 63) / 64, 1, 1, 64);
    for (uint32_t i = 0; i < N && st == ST_OK; i++) {
        uint32_t i0 = i % COLUMNS, i1 = i / COLUMNS % IDS, i2 = i / COLUMNS / IDS % SECOND,
                 i3 = i / COLUMNS / IDS / SECOND;
        double id = check_get(T_I32, ids, (i1 * SECOND + i2) * THIRD + i3), want = 0;
        if (id >= 0 && id < DIM) {
            want = check_get(t, x, ((i3 * SECOND + i2) * DIM + (uint32_t) id) * GAP + i0);
        }
        st = check_compare(r, T_F32, i, check_get(T_F32, a.y, i), want, 0, 0);
    }
    check_free(r);
    return st;
}

enum status check_gates(struct check_run * r) {
    const char * name = r->kernel;
    return !strncmp(name, "activation_", 11) ? check_activation(r)
           : !strncmp(name, "glu_", 4)       ? check_glu(r)
           : !strncmp(name, "get_rows_", 9)  ? check_get_rows(r, name + 9)
                                             : ST_UNSUPPORTED;
}
