// check: numbers, cases, and the kernels that work on one element at a time.
#include "check-impl.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- numbers ----

static const struct {
    const char * name;
    uint8_t size;
    bool whole;
    double epsilon; // one last place of 1
} types[T_COUNT] = {
    [T_F32] = {"f32", 4, false, 0x1p-23},  [T_F16] = {"f16", 2, false, 0x1p-10},
    [T_BF16] = {"bf16", 2, false, 0x1p-7}, [T_F64] = {"f64", 8, false, 0x1p-52},
    [T_I32] = {"i32", 4, true, 0},         [T_I64] = {"i64", 8, true, 0},
    [T_U8] = {"u8", 1, true, 0},           [T_U32] = {"u32", 4, true, 0},
};

size_t check_size(enum check_type t) {
    return types[t].size;
}

enum check_type check_parse_type(const char ** text) {
    for (int t = 0; t < T_COUNT; t++) {
        size_t n = strlen(types[t].name);
        if (!strncmp(*text, types[t].name, n) && (!(*text)[n] || (*text)[n] == '_')) {
            *text += n + ((*text)[n] == '_');
            return (enum check_type) t;
        }
    }
    return T_COUNT;
}

static double f16_value(uint16_t bits) {
    int e = bits >> 10 & 31;
    double m = bits & 1023, v = e == 31 ? (m ? NAN : INFINITY)
                                : e     ? ldexp(1024 + m, e - 25)
                                        : ldexp(m, -24);
    return bits >> 15 ? -v : v;
}

// To nearest even, as the last place of the result is at 2^(e - 10), and not below 2^-24.
static uint16_t f16_bits(double v) {
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    v = fabs(v);
    if (v != v) {
        return 0x7e00;
    }
    if (v >= 65520) {
        return sign | 0x7c00;
    }
    int e;
    frexp(v, &e); // v < 2^e
    e = e < -13 ? -13 : e;
    double m = nearbyint(ldexp(v, 11 - e));
    return sign | (uint16_t) (v == 0 ? 0 : (double) (e + 13) * 1024 + m);
}

double check_get(enum check_type t, const void * p, size_t i) {
    const uint8_t * at = (const uint8_t *) p + i * types[t].size;
    float f;
    double d;
    uint32_t bits;
    switch (t) {
    case T_F32:
        memcpy(&f, at, 4);
        return f;
    case T_F64:
        memcpy(&d, at, 8);
        return d;
    case T_F16:
        return f16_value((uint16_t) (at[0] | at[1] << 8));
    case T_BF16:
        bits = (uint32_t) (at[0] | at[1] << 8) << 16;
        memcpy(&f, &bits, 4);
        return f;
    case T_I32:
        return (int32_t) load_u32(at);
    case T_I64:
        return (double) (int64_t) load_u64(at);
    case T_U8:
        return at[0];
    default:
        return load_u32(at);
    }
}

void check_put(enum check_type t, void * p, size_t i, double v) {
    uint8_t * at = (uint8_t *) p + i * types[t].size;
    float f = (float) v;
    uint32_t bits;
    uint16_t half = f16_bits(v);
    int64_t n = types[t].whole ? (int64_t) v : 0;
    switch (t) {
    case T_F32:
        memcpy(at, &f, 4);
        break;
    case T_F64:
        memcpy(at, &v, 8);
        break;
    case T_F16:
        memcpy(at, &half, 2);
        break;
    case T_BF16:
        memcpy(&bits, &f, 4);
        bits += f != f ? 0 : 0x7fff + (bits >> 16 & 1);
        half = (uint16_t) (bits >> 16);
        memcpy(at, &half, 2);
        break;
    default:
        memcpy(at, &n, types[t].size); // little-endian, as all of this
    }
}

double check_value(enum check_type t, uint32_t seed) {
    uint32_t v = seed * 2654435761u >> 16;
    return types[t].whole ? v % 100 : (double) (v % 64) / 8 - 4;
}

// ---- cases ----

void * check_alloc(struct check_run * r, enum check_type t, size_t n) {
    size_t bytes = (n ? n : 1) * types[t].size;
    void * p = r->n_memory < CHECK_TENSORS ? r->bench->alloc(r->bench->user, bytes) : NULL;
    if (!p) {
        error_set(r->err, ST_NO_MEMORY, "%s: no device memory for %zu bytes", r->kernel, bytes);
        return NULL;
    }
    memset(p, 0xa5, bytes);
    return r->memory[r->n_memory++] = p;
}

void check_free(struct check_run * r) {
    while (r->n_memory) {
        r->bench->release(r->bench->user, r->memory[--r->n_memory]);
    }
}

enum status check_launch(struct check_run * r, const void * args, size_t args_size, uint32_t x,
                         uint32_t y, uint32_t z, uint32_t group_size) {
    const uint32_t groups[3] = {x, y, z};
    r->out->cases++;
    enum status st =
        r->bench->launch(r->bench->user, r->kernel, args, args_size, groups, group_size, r->err);
    return st == ST_OK ? st : error_prefix(r->err, st, "%s, %s", r->kernel, r->what);
}

enum status check_compare(struct check_run * r, enum check_type t, size_t at, double have,
                          double want, double scale, double ulps) {
    double size = fabs(want) > scale ? fabs(want) : scale;
    double allowed = types[t].whole ? 0 : types[t].epsilon * ulps * (size < INFINITY ? size : 1);
    double off = fabs(have - want);
    bool right = have == want || (have != have && want != want) || off <= allowed;
    r->out->elements++;
    if (right && allowed > 0 && off / allowed > r->out->worst) {
        r->out->worst = off / allowed;
    }
    return right ? ST_OK
                 : error_set(r->err, ST_CORRUPT, "%s, %s: element %zu is %.17g, should be %.17g",
                             r->kernel, r->what, at, have, want);
}

enum status check_function(struct check_run * r, enum check_type t, size_t at, double have,
                           double want, double scale) {
    if (t != T_F64) { // what does not fit, or is nearly nothing, is rounded so
        uint8_t bytes[8];
        check_put(t, bytes, 0, want);
        double rounded = check_get(t, bytes, 0);
        want = fabs(rounded) == INFINITY || fabs(want) < 0x1p-14 ? rounded : want;
    }
    double ulps = t == T_F32 ? 6 : t == T_F64 ? 40 : 1;
    double least = t == T_F16 ? 0x1p-14 : t == T_F64 ? 1e-300 : 1e-37;
    return check_compare(r, t, at, have, want, scale > least ? scale : least, ulps);
}

// ---- elementwise ----

// Contiguous with odd lengths; rows with a stride; broadcast and transposed in three dimensions.
static const struct {
    const char * name;
    uint32_t n_dims, dims[3], stride[3][3]; // of the first, the second and further, and the output
} shapes[] = {
    {"1 element", 0, {1}, {{0}}},
    {"257 elements", 0, {257}, {{0}}},
    {"1000 elements", 0, {1000}, {{0}}},
    {"33x5 in rows of 40", 2, {33, 5}, {{1, 40}, {1, 33}, {1, 33}}},
    {"7x5x3, broadcast and transposed", 3, {7, 5, 3}, {{15, 3, 1}, {1, 0, 7}, {1, 7, 35}}},
};
enum { SHAPES = CHECK_SHAPES, ROOM = CHECK_ROOM };
static_assert(sizeof shapes / sizeof shapes[0] == SHAPES, "all shapes");

void check_set_shape(struct check_run * r, int s, struct rk_shape * shape) {
    snprintf(r->what, sizeof r->what, "%s", shapes[s].name);
    *shape = (struct rk_shape){.n = 1, .n_dims = shapes[s].n_dims};
    for (uint32_t d = 0; d < 3; d++) {
        shape->dims[d] = shapes[s].dims[d];
        shape->n *= d < (shape->n_dims ? shape->n_dims : 1) ? shape->dims[d] : 1;
    }
}

void check_set_stride(int s, int which, uint32_t stride[RK_DIMS]) {
    memset(stride, 0, RK_DIMS * sizeof *stride);
    memcpy(stride, shapes[s].stride[which], sizeof shapes[s].stride[which]);
}

uint32_t check_place(int s, int which, uint32_t i) {
    uint32_t at = 0;
    if (!shapes[s].n_dims) {
        return i;
    }
    for (uint32_t d = 0; d < shapes[s].n_dims; d++) {
        at += i % shapes[s].dims[d] * shapes[s].stride[which][d];
        i /= shapes[s].dims[d];
    }
    return at;
}

// ---- unary ----

// clang-format off
#define UNARY(name, value) static double op_##name(double x, double p) { return (void) p, value; }
UNARY(copy, x)
UNARY(neg, -x)
UNARY(recip, 1 / x)
UNARY(exp, exp(x))
UNARY(log, log(x))
UNARY(sin, sin(x))
UNARY(cos, cos(x))
UNARY(tanh, tanh(x))
UNARY(erf, erf(x))
UNARY(ceil, ceil(x))
UNARY(floor, floor(x))
UNARY(round, round(x))
UNARY(abs, fabs(x))
UNARY(sqr, x * x)
UNARY(sqrt, sqrt(x))
UNARY(gelu, x == -INFINITY ? 0 : 0.5 * x *
                (1 + tanh(0.79788456080286535588 * x * (1 + 0.044715 * x * x))))
UNARY(gelu_erf, 0.5 * x * (1 + erf(x * M_SQRT1_2)))
UNARY(relu, x > 0 ? x : 0)
UNARY(silu, x / (1 + exp(-x)))
UNARY(sigmoid, 1 / (1 + exp(-x)))
UNARY(sign, (x > 0) - (x < 0))
UNARY(elu, x > 0 ? x : p * expm1(x))
UNARY(powf, pow(x, p))
// clang-format on

// scale: what the last place is one of, where the result may be small beside what it came from.
static const struct {
    const char * name;
    double (*f)(double x, double p);
    double param, scale;
    bool specials; // infinities and NaN too
} unary_ops[] = {
    {"copy", op_copy, 0, 0, true},
    {"neg", op_neg, 0, 0, true},
    {"recip", op_recip, 0, 0, true},
    {"exp", op_exp, 0, 0, true},
    {"log", op_log, 0, 1, true},
    {"sin", op_sin, 0, 1, true},
    {"cos", op_cos, 0, 1, true},
    {"tanh", op_tanh, 0, 0, true},
    {"erf", op_erf, 0, 0, true},
    {"ceil", op_ceil, 0, 0, true},
    {"floor", op_floor, 0, 0, true},
    {"round", op_round, 0, 0, true},
    {"abs", op_abs, 0, 0, true},
    {"sqr", op_sqr, 0, 0, true},
    {"sqrt", op_sqrt, 0, 0, true},
    {"gelu", op_gelu, 0, 1, true},
    {"gelu_erf", op_gelu_erf, 0, 1, false},
    {"relu", op_relu, 0, 0, true},
    {"silu", op_silu, 0, 1, false},
    {"sigmoid", op_sigmoid, 0, 0, true},
    {"sign", op_sign, 0, 0, true},
    {"elu", op_elu, 0.75, 0, true},
    {"powf", op_powf, 1.5, 0, true},
};

static double special(uint32_t i, bool wanted) {
    static const double list[] = {0,  -0.0, INFINITY, -INFINITY, NAN,     1,
                                  -1, 0.5,  -0.5,     1.5,       -1.5,    2.5,
                                  20, -20,  100,      -100,      0x1p-12, -0x1p-12};
    return wanted && i < sizeof list / sizeof list[0] ? list[i] : -1000;
}

static enum status check_unary(struct check_run * r, const char * rest) {
    for (size_t o = 0; o < sizeof unary_ops / sizeof unary_ops[0]; o++) {
        size_t n = strlen(unary_ops[o].name);
        const char * type = rest + n + 1;
        enum check_type t;
        if (strncmp(rest, unary_ops[o].name, n) || rest[n] != '_' ||
            (t = check_parse_type(&type)) == T_COUNT || *type) {
            continue;
        }
        enum status st = ST_OK;
        for (int s = 0; s < SHAPES && st == ST_OK; s++) {
            struct rk_unary a = {.param = unary_ops[o].param};
            check_set_shape(r, s, &a.shape);
            check_set_stride(s, 0, a.x_stride);
            check_set_stride(s, 2, a.y_stride);
            void * x = check_alloc(r, t, ROOM);
            a.x = x;
            a.y = check_alloc(r, t, ROOM);
            st = a.x && a.y ? ST_OK : ST_NO_MEMORY;
            for (uint32_t i = 0; i < ROOM && st == ST_OK; i++) {
                double v = special(i, unary_ops[o].specials);
                check_put(t, x, i, v == -1000 ? check_value(t, i) : v);
            }
            if (st == ST_OK) {
                st = check_launch(r, &a, sizeof a, (a.shape.n + 255) / 256, 1, 1, 256);
            }
            for (uint32_t i = 0; i < a.shape.n && st == ST_OK; i++) {
                double v = check_get(t, x, check_place(s, 0, i));
                double want = unary_ops[o].f(v, a.param);
                st = check_function(r, t, i, check_get(t, a.y, check_place(s, 2, i)), want,
                                    unary_ops[o].scale);
            }
            check_free(r);
        }
        return st;
    }
    return ST_NOT_FOUND;
}

// ---- binary, compare, where ----

// Wrapped around to the type; numbers here are small enough for a double to hold the exact result.
static double wrap(enum check_type t, double v) {
    uint8_t bytes[8];
    check_put(t, bytes, 0, v);
    return types[t].whole ? check_get(t, bytes, 0) : v;
}

static bool apply_binary(const char * op, enum check_type t, double a, double b, double * out) {
    static const char names[][8] = {"add", "sub", "mul", "div", "minimum", "maximum",
                                    "eq",  "ne",  "lt",  "le",  "gt",      "ge"};
    int n = 0;
    while (n < 12 && strcmp(op, names[n])) {
        n++;
    }
    const bool whole = types[t].whole;
    const double results[12] = {wrap(t, a + b),
                                wrap(t, a - b),
                                wrap(t, a * b),
                                whole ? (b == 0 ? 0 : trunc(a / b)) : a / b,
                                a != a || a < b ? a : b,
                                a != a || a > b ? a : b,
                                a == b,
                                a != b,
                                a<b, a <= b, a>
                                    b,
                                a >= b};
    *out = n < 12 ? results[n] : 0;
    return n < 12;
}

static enum status check_binary(struct check_run * r, const char * rest, bool compare) {
    char op[16] = "";
    size_t n = strcspn(rest, "_");
    const char * type = rest + n + 1;
    snprintf(op, sizeof op, "%.*s", (int) n, rest);
    enum check_type t = rest[n] ? check_parse_type(&type) : T_COUNT;
    double ignored;
    if (t == T_COUNT || *type || !apply_binary(op, t, 1, 1, &ignored)) {
        return ST_NOT_FOUND;
    }
    enum check_type y = compare ? T_U8 : t;
    enum status st = ST_OK;
    for (int s = 0; s < SHAPES && st == ST_OK; s++) {
        struct rk_binary a = {.shape = {0}};
        check_set_shape(r, s, &a.shape);
        check_set_stride(s, 0, a.a_stride);
        check_set_stride(s, 1, a.b_stride);
        check_set_stride(s, 2, a.y_stride);
        void *p = check_alloc(r, t, ROOM), *q = check_alloc(r, t, ROOM);
        a.a = p;
        a.b = q;
        a.y = check_alloc(r, y, ROOM);
        st = p && q && a.y ? ST_OK : ST_NO_MEMORY;
        for (uint32_t i = 0; i < ROOM && st == ST_OK; i++) {
            bool nan = !types[t].whole && i % 50 == 7;
            check_put(t, p, i, nan ? NAN : check_value(t, i));
            check_put(t, q, i, !types[t].whole && i % 60 == 9 ? NAN : check_value(t, i * 7 + 3));
        }
        if (st == ST_OK) {
            st = check_launch(r, &a, sizeof a, (a.shape.n + 127) / 128, 1, 1, 128);
        }
        for (uint32_t i = 0; i < a.shape.n && st == ST_OK; i++) {
            double want;
            apply_binary(op, t, check_get(t, p, check_place(s, 0, i)),
                         check_get(t, q, check_place(s, 1, i)), &want);
            st = check_compare(r, y, i, check_get(y, a.y, check_place(s, 2, i)), want, 1e-30,
                               t == T_F32 || t == T_F64 ? 1 : 0.51);
        }
        check_free(r);
    }
    return st;
}

static enum status check_where(struct check_run * r, const char * rest) {
    enum check_type c = check_parse_type(&rest),
                    t = c < T_COUNT ? check_parse_type(&rest) : T_COUNT;
    if (t == T_COUNT || *rest) {
        return ST_NOT_FOUND;
    }
    enum status st = ST_OK;
    for (int s = 0; s < SHAPES && st == ST_OK; s++) {
        struct rk_where a = {.shape = {0}};
        check_set_shape(r, s, &a.shape);
        check_set_stride(s, 1, a.condition_stride);
        check_set_stride(s, 0, a.a_stride);
        check_set_stride(s, 1, a.b_stride);
        check_set_stride(s, 2, a.y_stride);
        void *p = check_alloc(r, c, ROOM), *q = check_alloc(r, t, ROOM),
             *v = check_alloc(r, t, ROOM);
        a.condition = p;
        a.a = q;
        a.b = v;
        a.y = check_alloc(r, t, ROOM);
        st = p && q && v && a.y ? ST_OK : ST_NO_MEMORY;
        for (uint32_t i = 0; i < ROOM && st == ST_OK; i++) {
            check_put(c, p, i, i % 3 == 0 ? 0 : i % 200);
            check_put(t, q, i, check_value(t, i));
            check_put(t, v, i, check_value(t, i * 5 + 1));
        }
        if (st == ST_OK) {
            st = check_launch(r, &a, sizeof a, (a.shape.n + 255) / 256, 1, 1, 256);
        }
        for (uint32_t i = 0; i < a.shape.n && st == ST_OK; i++) {
            bool take = check_get(c, p, check_place(s, 1, i)) != 0;
            st = check_compare(r, t, i, check_get(t, a.y, check_place(s, 2, i)),
                               take ? check_get(t, q, check_place(s, 0, i))
                                    : check_get(t, v, check_place(s, 1, i)),
                               0, 0);
        }
        check_free(r);
    }
    return st;
}

// ---- cast, affine, fill ----

static double saturated(enum check_type t, double v) {
    static const double least[T_COUNT] = {[T_I32] = -0x1p31, [T_I64] = -0x1p63};
    static const double most[T_COUNT] = {
        [T_I32] = 0x1p31 - 1, [T_I64] = 0x1p63, [T_U8] = 255, [T_U32] = 0x1p32 - 1};
    v = v != v ? 0 : trunc(v);
    return v < least[t] ? least[t] : v > most[t] ? most[t] : v;
}

static enum status check_one_input(struct check_run * r, const char * rest, bool affine) {
    enum check_type t = check_parse_type(&rest), to = affine ? t : T_COUNT;
    if (t < T_COUNT && !affine) {
        to = check_parse_type(&rest);
    }
    if (to == T_COUNT || *rest) {
        return ST_NOT_FOUND;
    }
    enum status st = ST_OK;
    for (int s = 0; s < SHAPES && st == ST_OK; s++) {
        struct rk_affine a = {.mul = 1.5, .add = 2.25};
        check_set_shape(r, s, &a.shape);
        check_set_stride(s, 0, a.x_stride);
        check_set_stride(s, 2, a.y_stride);
        void * x = check_alloc(r, t, ROOM);
        a.x = x;
        a.y = check_alloc(r, to, ROOM);
        st = x && a.y ? ST_OK : ST_NO_MEMORY;
        for (uint32_t i = 0; i < ROOM && st == ST_OK; i++) {
            static const double odd[] = {NAN,  INFINITY, -INFINITY, 300,  -300,
                                         1e10, -1e10,    0.99,      -0.99};
            bool special_one = !affine && !types[t].whole && i % 20 < 9;
            check_put(t, x, i, special_one ? odd[i % 20] : check_value(t, i));
        }
        // rk_cast is the beginning of rk_affine.
        if (st == ST_OK) {
            st = check_launch(r, &a, affine ? sizeof a : sizeof(struct rk_cast),
                              (a.shape.n + 255) / 256, 1, 1, 256);
        }
        for (uint32_t i = 0; i < a.shape.n && st == ST_OK; i++) {
            double v = check_get(t, x, check_place(s, 0, i));
            double have = check_get(to, a.y, check_place(s, 2, i));
            if (affine) {
                v = v * a.mul + a.add;
                st = check_compare(r, t, i, have, types[t].whole ? wrap(t, trunc(v)) : v, 8, 1);
            } else {
                uint8_t bytes[8];
                double want = types[to].whole && !types[t].whole ? saturated(to, v) : v;
                check_put(to, bytes, 0, types[to].whole && fabs(want) >= 0x1p63 ? 0 : want);
                want = types[to].whole && fabs(want) >= 0x1p63 ? want : check_get(to, bytes, 0);
                st = check_compare(r, to, i, have, want, 0, 0);
            }
        }
        check_free(r);
    }
    return st;
}

static enum status check_fill(struct check_run * r, const char * rest) {
    enum check_type t = check_parse_type(&rest);
    if (t == T_COUNT || *rest) {
        return ST_NOT_FOUND;
    }
    enum status st = ST_OK;
    for (int s = 0; s < SHAPES && st == ST_OK; s++) {
        struct rk_fill a = {.value = 0};
        check_set_shape(r, s, &a.shape);
        check_set_stride(s, 0, a.y_stride);
        a.y = check_alloc(r, t, ROOM);
        check_put(t, &a.value, 0, 3);
        st = a.y ? check_launch(r, &a, sizeof a, (a.shape.n + 63) / 64, 1, 1, 64) : ST_NO_MEMORY;
        bool ours[ROOM] = {false};
        for (uint32_t i = 0; i < a.shape.n; i++) {
            ours[check_place(s, 0, i)] = true;
        }
        uint8_t before[8];
        memset(before, 0xa5, sizeof before);
        for (uint32_t i = 0; i < ROOM && st == ST_OK; i++) { // and nothing beside
            st = check_compare(r, t, i, check_get(t, a.y, i), ours[i] ? 3 : check_get(t, before, 0),
                               0, 0);
        }
        check_free(r);
    }
    return st;
}

enum status hip_check_kernel(const struct hip_bench * bench, const char * kernel,
                             struct hip_check * out, struct error * err) {
    struct error why = {0};
    struct check_run r = {.bench = bench, .kernel = kernel, .out = out, .err = &why};
    enum status st = ST_NOT_FOUND;
    if (!strncmp(kernel, "unary_", 6)) {
        st = check_unary(&r, kernel + 6);
    } else if (!strncmp(kernel, "binary_", 7)) {
        st = check_binary(&r, kernel + 7, false);
    } else if (!strncmp(kernel, "compare_", 8)) {
        st = check_binary(&r, kernel + 8, true);
    } else if (!strncmp(kernel, "where_", 6)) {
        st = check_where(&r, kernel + 6);
    } else if (!strncmp(kernel, "cast_", 5)) {
        st = check_one_input(&r, kernel + 5, false);
    } else if (!strncmp(kernel, "affine_", 7)) {
        st = check_one_input(&r, kernel + 7, true);
    } else if (!strncmp(kernel, "fill_", 5)) {
        st = check_fill(&r, kernel + 5);
    } else if ((st = check_node(&r)) == ST_UNSUPPORTED &&
               (st = check_attention(&r)) == ST_UNSUPPORTED &&
               (st = check_blocks(&r)) == ST_UNSUPPORTED &&
               (st = check_rows(&r)) == ST_UNSUPPORTED &&
               (st = check_quant(&r)) == ST_UNSUPPORTED &&
               (st = check_others(&r)) == ST_UNSUPPORTED &&
               (st = check_gates(&r)) == ST_UNSUPPORTED) {
        st = check_ggml(&r);
    }
    check_free(&r);
    if (st == ST_OK) {
        return st;
    }
    // A check that knows the kernel and could not run it has said why: no compiler, no such chip.
    return why.text[0] ? error_set(err, st, "%s", why.text)
                       : error_set(err, ST_NOT_FOUND,
                                   "'%.80s': nothing is known about such a kernel", kernel);
}
