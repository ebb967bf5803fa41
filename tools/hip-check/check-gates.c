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

// Finds <op>_<type> in a table whose rows begin with a name. NULL: no such op.
static const void * find_op(const char * rest, const void * table, size_t n, size_t size,
                            enum check_type * t) {
    for (size_t i = 0; i < n; i++) {
        const char * row = (const char *) table + i * size;
        const char * name;
        memcpy(&name, row, sizeof name);
        size_t length = strlen(name);
        if (strncmp(rest, name, length) || rest[length] != '_') {
            continue;
        }
        const char * type = rest + length + 1;
        *t = check_parse_type(&type);
        if (*t < T_COUNT && !*type) {
            return row;
        }
    }
    return NULL;
}

// ---- activation ----

static double step(double x, const float * p) {
    return (void) p, x > 0;
}
static double gelu_quick(double x, const float * p) {
    return (void) p, x * (1 / (1 + exp(-(double) 1.702f * x)));
}
static double hardsigmoid(double x, const float * p) {
    return (void) p, fmin(1, fmax(0, (x + 3) / 6));
}
static double hardswish(double x, const float * p) {
    return x * hardsigmoid(x, p);
}
static double minus_one(double x, const float * p) {
    return (void) p, expm1(x);
}
static double softplus(double x, const float * p) {
    return (void) p, x > 20 ? x : log(1 + exp(x));
}
static double cut(double x, const float * p) {
    return (void) p, trunc(x);
}
static double leaky_relu(double x, const float * p) {
    return (x > 0 ? x : 0) + p[0] * (x < 0 ? x : 0);
}
static double clamp(double x, const float * p) {
    double v = x < p[1] ? x : p[1];
    return v > p[0] ? v : p[0];
}
static double xielu(double x, const float * p) {
    double curve = x > 0 ? p[1] * x * x : (expm1(fmin(x, p[3])) - x) * p[0];
    return curve + p[2] * x;
}

// scale: as in check.c, what the last place is one of.
struct activation {
    const char * name;
    double (*f)(double x, const float * p);
    float param[4];
    double scale;
};

static const struct activation activations[] = {
    {"step", step, {0}, 0},
    {"gelu_quick", gelu_quick, {0}, 1},
    {"hardswish", hardswish, {0}, 0},
    {"hardsigmoid", hardsigmoid, {0}, 0},
    {"expm1", minus_one, {0}, 0},
    {"softplus", softplus, {0}, 1},
    {"trunc", cut, {0}, 0},
    {"leaky_relu", leaky_relu, {0.1f}, 0},
    {"clamp", clamp, {-1.25f, 2.0f}, 0},
    {"xielu", xielu, {0.3f, 0.8f, 0.5f, -1e-6f}, 4},
};

static enum status check_activation(struct check_run * r, const char * rest) {
    enum check_type t;
    const struct activation * op =
        find_op(rest, activations, sizeof activations / sizeof *activations, sizeof *op, &t);
    if (!op) {
        return ST_NOT_FOUND;
    }
    enum status st = ST_OK;
    for (int s = 0; s < CHECK_SHAPES && st == ST_OK; s++) {
        struct rk_activation a = {.shape = {0}};
        memcpy(a.param, op->param, sizeof a.param);
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
            st = check_function(r, t, i, check_get(t, a.y, check_place(s, 2, i)),
                                op->f(v, op->param), op->scale);
        }
        check_free(r);
    }
    return st;
}

// ---- glu ----

static double reglu(double a, double b, const float * p) {
    return (void) p, a > 0 ? a * b : 0;
}
static double geglu(double a, double b, const float * p) {
    (void) p;
    double gate = 0.5 * a * (1 + tanh(0.79788456080286535588 * a * (1 + 0.044715 * a * a)));
    return a <= -10 ? 0 : a >= 10 ? a * b : gate * b;
}
static double swiglu(double a, double b, const float * p) {
    return (void) p, a / (1 + exp(-a)) * b;
}
static double limited(double v, double least, double most) {
    return v < least ? least : v > most ? most : v;
}
static double swiglu_oai(double a, double b, const float * p) {
    double gate = limited(a, -INFINITY, p[1]);
    return gate / (1 + exp(-p[0] * gate)) * (limited(b, -p[1], p[1]) + 1);
}
static double geglu_erf(double a, double b, const float * p) {
    return (void) p, 0.5 * a * (1 + erf(a * M_SQRT1_2)) * b;
}
static double geglu_quick(double a, double b, const float * p) {
    return gelu_quick(a, p) * b;
}
static double swiglu_clamp(double a, double b, const float * p) {
    return swiglu(limited(a, -INFINITY, p[1]), limited(b, -p[1], p[1]), p);
}

struct gate {
    const char * name;
    double (*f)(double a, double b, const float * p);
    float param[2];
    double scale; // of the gate, which b makes larger
};

static const struct gate gates[] = {
    {"reglu", reglu, {0}, 0},
    {"geglu", geglu, {0}, 1},
    {"swiglu", swiglu, {0}, 1},
    {"swiglu_oai", swiglu_oai, {1.702f, 2.5f}, 1},
    {"geglu_erf", geglu_erf, {0}, 1},
    {"geglu_quick", geglu_quick, {0}, 1},
    {"swiglu_clamp", swiglu_clamp, {0, 2.5f}, 1},
};

static enum status check_glu(struct check_run * r, const char * rest) {
    enum check_type t;
    const struct gate * op = find_op(rest, gates, sizeof gates / sizeof *gates, sizeof *op, &t);
    if (!op) {
        return ST_NOT_FOUND;
    }
    enum status st = ST_OK;
    for (int s = 0; s < CHECK_SHAPES && st == ST_OK; s++) {
        struct rk_glu args = {.param = {op->param[0], op->param[1]}};
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
            double scale =
                op->scale * (fabs(value) > 1 && fabs(value) < INFINITY ? fabs(value) : 1);
            st = check_function(r, t, i, check_get(t, args.y, check_place(s, 2, i)),
                                op->f(gate, value, op->param), scale);
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
    return !strncmp(name, "activation_", 11) ? check_activation(r, name + 11)
           : !strncmp(name, "glu_", 4)       ? check_glu(r, name + 4)
           : !strncmp(name, "get_rows_", 9)  ? check_get_rows(r, name + 9)
                                             : ST_UNSUPPORTED;
}
