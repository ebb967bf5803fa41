// random-graph: graphs of the nodes whose kernels are joined, drawn from a seed: values of as many
// rows as there are tokens, and steps that make another value of one or two. A graph is built as
// often as wanted, for the device and for a reference, whose weights are the same numbers as f32;
// steps whose operands do not fit, or that the device does not take, are dropped in both. Views
// overlap in part, nodes work in place, rows of caches are written and read.
#pragma once

#include "cpu-world.h"

enum {
    INPUTS = 3,
    MOST_STEPS = 40,
    VALUES = INPUTS + MOST_STEPS,
    CACHES = 2,
    EXPERTS = 4,
    HEAD = 32, // elements that are turned together
    LOUD = 3,  // products of products are normed before they are used again
    MOST_LEAVES = 160,
    TENSORS = 1024,
};

enum kind {
    PRODUCT,
    TWINS,
    AROUND,
    SUM,
    TIMES,
    NORM,
    WEIGHTED_NORM,
    GATE,
    HALVES,
    SCALE,
    SOFT_MAX,
    TURN,
    CUT,
    WHOLE,
    STORE,
    SET,
    LOOK_UP,
    SCORES,
    MIXTURE,
    N_KINDS,
};

static const struct {
    const char * name;
    int weight; // how often, beside others
} kinds[N_KINDS] = {
    // clang-format off
    [PRODUCT] = {"product", 6}, [TWINS] = {"twins", 3}, [AROUND] = {"around", 3},
    [SUM] = {"sum", 6}, [TIMES] = {"times", 3}, [NORM] = {"norm", 3},
    [WEIGHTED_NORM] = {"weighted norm", 6}, [GATE] = {"gate", 2}, [HALVES] = {"halves", 2},
    [SCALE] = {"scale", 4}, [SOFT_MAX] = {"soft max", 2}, [TURN] = {"turn", 3}, [CUT] = {"cut", 4},
    [WHOLE] = {"whole", 2}, [STORE] = {"store", 3}, [SET] = {"set", 3}, [LOOK_UP] = {"look up", 3},
    [SCORES] = {"scores", 2}, [MIXTURE] = {"mixture", 4},
    // clang-format on
};

struct step {
    enum kind kind;
    int a, b;   // values
    uint32_t r; // whatever else is to be chosen
    bool in_place, output;
    bool dropped; // its operands do not fit, or the device does not take it
};

struct program {
    uint32_t seed;
    int64_t tokens;
    int n;
    struct step steps[MOST_STEPS];
};

static uint32_t draw(uint32_t * seed, uint32_t n) {
    next_value(seed);
    return (*seed >> 8) % n;
}

static enum kind draw_kind(uint32_t * seed) {
    int all = 0, i = 0;
    for (int k = 0; k < N_KINDS; k++) {
        all += kinds[k].weight;
    }
    int at = (int) draw(seed, (uint32_t) all);
    while (at >= kinds[i].weight) {
        at -= kinds[i++].weight;
    }
    return (enum kind) i;
}

static struct program draw_program(uint32_t seed, int most) {
    static const int64_t tokens[] = {1, 1, 1, 2, 3, 5, 17, 33};
    struct program p = {.seed = seed};
    uint32_t s = seed * 2654435761u + 12345;
    p.tokens = tokens[draw(&s, 8)];
    p.n = 8 + (int) draw(&s, MOST_STEPS - 7);
    for (int i = 0; i < p.n; i++) {
        int last = INPUTS + i;
        struct step * st = &p.steps[i];
        st->kind = draw_kind(&s);
        st->a = draw(&s, 3) ? last - 1 - (int) draw(&s, 3) : (int) draw(&s, (uint32_t) last);
        st->b = (int) draw(&s, (uint32_t) last);
        st->in_place = draw(&s, 3) == 0;
        st->output = draw(&s, 6) == 0;
        st->r = draw(&s, 1 << 20);
    }
    p.n = p.n < most ? p.n : most;
    return p;
}

// ---- one side: the device, or the reference ----

enum fill { FILL_RANDOM, FILL_PLACES, FILL_ROWS, FILL_ANY_ROWS, FILL_IDS };

struct leaf { // what is written before a graph is computed
    struct ggml_tensor * t;
    enum fill fill;
    int64_t below; // ids and rows
};

struct side {
    ggml_backend_t backend;
    bool is_device;
    struct ggml_context *weights_ctx, *ctx; // weights stay when a graph is built anew
    ggml_backend_buffer_t weights_buffer, cache_buffer;
    struct ggml_context * cache_ctx;
    struct ggml_tensor * weights[MOST_STEPS][4];
    struct ggml_tensor * caches[CACHES];
    ggml_gallocr_t places[2];
    struct ggml_cgraph * graph;
    int n_leaves;
    struct leaf leaves[MOST_LEAVES];
    struct ggml_tensor * values[VALUES];
    int loud[VALUES];
    int64_t tokens;
    int step; // at hand
    // Of it: nodes that come before its value, in this order; they need not be its operands.
    struct ggml_tensor * before[2];
};

static struct ggml_context * context(void) {
    struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * TENSORS +
                                                  ggml_graph_overhead_custom(TENSORS, false),
                                      .no_alloc = true};
    struct ggml_context * ctx = ggml_init(params);
    assert_non_null(ctx);
    return ctx;
}

static struct ggml_tensor * leaf(struct side * s, struct ggml_tensor * t, enum fill fill,
                                 int64_t below) {
    assert_true(s->n_leaves < MOST_LEAVES);
    ggml_set_input(t);
    s->leaves[s->n_leaves++] = (struct leaf){t, fill, below};
    return t;
}

static struct ggml_tensor * weight(struct side * s, int i, enum ggml_type type, int64_t k,
                                   int64_t m, int64_t n) {
    struct ggml_tensor ** w = &s->weights[s->step][i];
    if (!*w) {
        *w = ggml_new_tensor_3d(s->weights_ctx, s->is_device ? type : GGML_TYPE_F32, k, m, n);
        ggml_format_name(*w, "%s", ggml_type_name(type));
    }
    return *w;
}

// ---- steps; NULL: not of these operands ----

static bool weights_of(const struct ggml_tensor * a, uint32_t r, enum ggml_type * type,
                       int64_t * m) {
    static const enum ggml_type types[] = {GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, GGML_TYPE_F16,
                                           GGML_TYPE_Q4_K, GGML_TYPE_Q4_0};
    static const int64_t rows[] = {64, 128, 256, 128};
    *type = types[r % 5];
    *m = rows[r / 5 % 4];
    return a->ne[0] % ggml_blck_size(*type) == 0;
}

static struct ggml_tensor * product(struct side * s, const struct step * st,
                                    struct ggml_tensor * a) {
    enum ggml_type type;
    int64_t m;
    if (!weights_of(a, st->r, &type, &m)) {
        return NULL;
    }
    return ggml_mul_mat(s->ctx, weight(s, 0, type, a->ne[0], m, 1), a);
}

// Gate and up, as a layer has them; and once more of another height.
static struct ggml_tensor * twins(struct side * s, const struct step * st, struct ggml_tensor * a) {
    enum ggml_type type;
    int64_t m;
    if (!weights_of(a, st->r, &type, &m)) {
        return NULL;
    }
    struct ggml_tensor * x = ggml_mul_mat(s->ctx, weight(s, 0, type, a->ne[0], m, 1), a);
    struct ggml_tensor * y = ggml_mul_mat(s->ctx, weight(s, 1, type, a->ne[0], m, 1), a);
    return st->in_place ? ggml_add_inplace(s->ctx, x, y) : ggml_swiglu_split(s->ctx, x, y);
}

// Two products of one tensor around a node that writes what they read, or that reads what lies
// where the second one's result may.
static struct ggml_tensor * around(struct side * s, const struct step * st, struct ggml_tensor * a,
                                   struct ggml_tensor * b) {
    enum ggml_type type;
    int64_t any;
    if (!weights_of(a, st->r, &type, &any) || !ggml_is_contiguous(a) || !ggml_is_contiguous(b)) {
        return NULL;
    }
    struct ggml_tensor *x, *y, *between;
    x = ggml_mul_mat(s->ctx, weight(s, 0, type, a->ne[0], b->ne[0], 1), a);
    between = st->in_place ? ggml_scale_inplace(s->ctx, a, -2) : ggml_scale(s->ctx, b, 0.25f);
    y = ggml_mul_mat(s->ctx, weight(s, 1, type, a->ne[0], b->ne[0], 1), a);
    s->before[0] = x;
    s->before[1] = between;
    x = ggml_add(s->ctx, x, y);
    return st->in_place ? x : ggml_add(s->ctx, x, between);
}

static struct ggml_tensor * norm(struct side * s, const struct step * st, struct ggml_tensor * a) {
    struct ggml_tensor * n =
        st->in_place ? ggml_rms_norm_inplace(s->ctx, a, 1e-5f) : ggml_rms_norm(s->ctx, a, 1e-5f);
    if (st->kind == NORM) {
        return n;
    }
    struct ggml_tensor * w = weight(s, 0, GGML_TYPE_F32, a->ne[0], 1, 1);
    struct ggml_tensor * out = st->r % 2 ? ggml_mul_inplace(s->ctx, n, w) : ggml_mul(s->ctx, n, w);
    return st->r / 2 % 3 ? out : ggml_add(s->ctx, out, n); // who wants the norm itself
}

static struct ggml_tensor * turn(struct side * s, const struct step * st, struct ggml_tensor * a) {
    struct ggml_tensor * places =
        leaf(s, ggml_new_tensor_1d(s->ctx, GGML_TYPE_I32, s->tokens), FILL_PLACES, 0);
    struct ggml_tensor * heads = ggml_view_3d(s->ctx, a, HEAD, a->ne[0] / HEAD, s->tokens,
                                              HEAD * sizeof(float), a->nb[1], 0);
    int mode = st->r % 2 ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL;
    struct ggml_tensor * t = st->in_place ? ggml_rope_inplace(s->ctx, heads, places, HEAD, mode)
                                          : ggml_rope(s->ctx, heads, places, HEAD, mode);
    return ggml_view_2d(s->ctx, t, a->ne[0], s->tokens, t->nb[2], 0);
}

// Columns of it, which may overlap those that another one cuts.
static struct ggml_tensor * cut(struct side * s, const struct step * st, struct ggml_tensor * a) {
    int64_t half = a->ne[0] / 2;
    if (half < 64) {
        return NULL;
    }
    size_t from = st->r % 3 * (size_t) half / 2 * sizeof(float);
    struct ggml_tensor * v = ggml_view_2d(s->ctx, a, half, s->tokens, a->nb[1], from);
    return st->in_place ? ggml_mul_inplace(s->ctx, v, weight(s, 0, GGML_TYPE_F32, half, 1, 1)) : v;
}

// Rows of a cache are written, and some of it is read.
static struct ggml_tensor * store(struct side * s, const struct step * st, struct ggml_tensor * a) {
    struct ggml_tensor * cache = s->caches[st->r % CACHES];
    if (a->ne[0] > cache->ne[0]) {
        return NULL;
    }
    int64_t to = st->r / 8 % 4, from = st->r / 32 % 4;
    struct ggml_tensor * rows =
        ggml_view_2d(s->ctx, cache, a->ne[0], s->tokens, cache->nb[1], (size_t) to * cache->nb[1]);
    s->before[0] = ggml_cpy(s->ctx, a, rows);
    rows = ggml_view_2d(s->ctx, cache, a->ne[0], s->tokens, cache->nb[1],
                        (size_t) from * cache->nb[1]);
    return cache->type == GGML_TYPE_F32 ? ggml_cont(s->ctx, rows)
                                        : ggml_cast(s->ctx, rows, GGML_TYPE_F32);
}

static struct ggml_tensor * set(struct side * s, const struct step * st, struct ggml_tensor * a) {
    struct ggml_tensor * cache = s->caches[st->r % CACHES];
    if (a->ne[0] != cache->ne[0]) {
        return NULL;
    }
    struct ggml_tensor * at =
        leaf(s, ggml_new_tensor_1d(s->ctx, GGML_TYPE_I64, s->tokens), FILL_ROWS, cache->ne[1]);
    s->before[0] = ggml_set_rows(s->ctx, cache, a, at);
    struct ggml_tensor * rows =
        ggml_view_2d(s->ctx, cache, a->ne[0], s->tokens, cache->nb[1], cache->nb[1]);
    return cache->type == GGML_TYPE_F32 ? ggml_scale(s->ctx, rows, 1.5f)
                                        : ggml_cast(s->ctx, rows, GGML_TYPE_F32);
}

static struct ggml_tensor * look_up(struct side * s, const struct step * st,
                                    struct ggml_tensor * a) {
    struct ggml_tensor * from = st->r % 2 ? s->caches[st->r / 2 % CACHES] : a;
    struct ggml_tensor * at =
        leaf(s, ggml_new_tensor_1d(s->ctx, GGML_TYPE_I32, s->tokens), FILL_ANY_ROWS, from->ne[1]);
    return ggml_get_rows(s->ctx, from, at);
}

// The cache's rows are weights that nodes write.
static struct ggml_tensor * scores(struct side * s, const struct step * st,
                                   struct ggml_tensor * a) {
    struct ggml_tensor * cache = s->caches[st->r % CACHES];
    int64_t n = cache->ne[1] / 32 * 32; // so many scores as have a use
    if (a->ne[0] > cache->ne[0] || n < 64) {
        return NULL;
    }
    struct ggml_tensor * rows = ggml_view_2d(s->ctx, cache, a->ne[0], n, cache->nb[1], 0);
    return ggml_mul_mat(s->ctx, rows, a);
}

// Experts by ids that are other ones each time, and the sum of their results by weights.
static struct ggml_tensor * mixture(struct side * s, const struct step * st,
                                    struct ggml_tensor * a) {
    enum ggml_type type;
    int64_t m, used = 2 + st->r / 64 % 2;
    if (!weights_of(a, st->r, &type, &m)) {
        return NULL;
    }
    struct ggml_tensor * ids;
    if (st->r / 128 % 2) { // by a kernel
        ids =
            leaf(s, ggml_new_tensor_2d(s->ctx, GGML_TYPE_F32, EXPERTS, s->tokens), FILL_RANDOM, 0);
        ids = ggml_argsort(s->ctx, ggml_scale(s->ctx, ids, 2), GGML_SORT_ORDER_DESC);
        ids = ggml_view_2d(s->ctx, ids, used, s->tokens, ids->nb[1], 0);
    } else {
        ids =
            leaf(s, ggml_new_tensor_2d(s->ctx, GGML_TYPE_I32, used, s->tokens), FILL_IDS, EXPERTS);
    }
    struct ggml_tensor * w =
        leaf(s, ggml_new_tensor_3d(s->ctx, GGML_TYPE_F32, 1, used, s->tokens), FILL_RANDOM, 0);
    struct ggml_tensor * b = ggml_view_3d(s->ctx, a, a->ne[0], 1, s->tokens, a->nb[1], a->nb[1], 0);
    struct ggml_tensor * y =
        ggml_mul_mat_id(s->ctx, weight(s, 0, type, a->ne[0], m, EXPERTS), b, ids);
    y = ggml_mul(s->ctx, y, w);
    struct ggml_tensor * sum = NULL;
    for (int64_t i = 0; i < used; i++) {
        struct ggml_tensor * row =
            ggml_view_2d(s->ctx, y, m, s->tokens, y->nb[2], (size_t) i * y->nb[1]);
        sum = sum ? ggml_add(s->ctx, sum, row) : row;
    }
    if (st->r / 256 % 3 == 0) { // who wants one of them by itself
        sum = ggml_add(s->ctx, sum, ggml_view_2d(s->ctx, y, m, s->tokens, y->nb[2], 0));
    }
    return sum;
}

static struct ggml_tensor * of_two(struct side * s, const struct step * st, struct ggml_tensor * a,
                                   struct ggml_tensor * b) {
    if (st->kind == AROUND) {
        return around(s, st, a, b);
    }
    if (st->kind == GATE) {
        return ggml_is_contiguous(a) && ggml_is_contiguous(b) ? ggml_swiglu_split(s->ctx, a, b)
                                                              : NULL;
    }
    if (st->kind == SUM) {
        return st->in_place ? ggml_add_inplace(s->ctx, a, b) : ggml_add(s->ctx, a, b);
    }
    return st->in_place ? ggml_mul_inplace(s->ctx, a, b) : ggml_mul(s->ctx, a, b);
}

static struct ggml_tensor * of_one(struct side * s, const struct step * st,
                                   struct ggml_tensor * a) {
    switch (st->kind) {
    case PRODUCT:
        return product(s, st, a);
    case TWINS:
        return twins(s, st, a);
    case NORM:
    case WEIGHTED_NORM:
        return norm(s, st, a);
    case HALVES:
        return ggml_is_contiguous(a) && a->ne[0] >= 128 ? ggml_swiglu(s->ctx, a) : NULL;
    case SCALE:
        if (!ggml_is_contiguous(a)) {
            return NULL;
        }
        return st->in_place ? ggml_scale_inplace(s->ctx, a, 0.5f) : ggml_scale(s->ctx, a, 0.5f);
    case SOFT_MAX:
        if (!ggml_is_contiguous(a)) {
            return NULL;
        }
        a = st->in_place ? ggml_soft_max_inplace(s->ctx, a) : ggml_soft_max(s->ctx, a);
        return ggml_scale(s->ctx, a, 16);
    case TURN:
        return turn(s, st, a);
    case CUT:
        return cut(s, st, a);
    case WHOLE:
        return ggml_cont(s->ctx, a);
    case STORE:
        return store(s, st, a);
    case SET:
        return set(s, st, a);
    case LOOK_UP:
        return look_up(s, st, a);
    case SCORES:
        return scores(s, st, a);
    default:
        return mixture(s, st, a);
    }
}

// ---- graphs ----

// The value, or the nearest one before it that is there, not louder than that, and as wide as
// `like`; -1: none.
static int find(const struct side * s, int at, int loudest, const struct ggml_tensor * like) {
    while (at >= 0 && !(s->values[at] && s->loud[at] <= loudest &&
                        (!like || ggml_are_same_shape(s->values[at], like)))) {
        at--;
    }
    return at;
}

static int loudness(const struct side * s, const struct step * st, int a, int b) {
    switch (st->kind) {
    case PRODUCT:
    case TWINS:
    case MIXTURE:
    case AROUND:
        return s->loud[a] + 1;
    case TIMES:
    case GATE:
        return s->loud[a] + s->loud[b] + 1;
    case HALVES:
        return 2 * s->loud[a] + 1;
    case SUM:
        return s->loud[a] > s->loud[b] ? s->loud[a] : s->loud[b];
    case NORM:
    case WEIGHTED_NORM:
    case SOFT_MAX:
        return 0;
    case STORE:
    case SET:
    case LOOK_UP:
    case SCORES: // whatever the cache holds
        return LOUD + 1;
    default:
        return s->loud[a];
    }
}

static int loudest_for(enum kind kind) {
    switch (kind) {
    case SOFT_MAX:
        return 0;
    case STORE:
    case SET:
        return 1;
    case NORM:
    case WEIGHTED_NORM:
    case CUT:
    case SCALE:
    case WHOLE:
        return 1000;
    default:
        return LOUD;
    }
}

static const struct ggml_tensor * root(const struct ggml_tensor * t) {
    return t->view_src ? t->view_src : t;
}

static bool takes(struct side * s, struct ggml_tensor * since) {
    bool ok = true;
    for (struct ggml_tensor * t = since ? ggml_get_next_tensor(s->ctx, since)
                                        : ggml_get_first_tensor(s->ctx);
         t; t = ggml_get_next_tensor(s->ctx, t)) {
        ok = ok && (t->op == GGML_OP_NONE || ggml_backend_dev_supports_op(dev, t));
    }
    return ok;
}

static struct ggml_tensor * last_tensor(struct ggml_context * ctx) {
    struct ggml_tensor * last = NULL;
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t; t = ggml_get_next_tensor(ctx, t)) {
        last = t;
    }
    return last;
}

// A node in place changes all that it is a view of, and all views of that.
static void note_loud(struct side * s, int at) {
    for (int i = 0; i < at; i++) {
        if (s->values[i] && root(s->values[i]) == root(s->values[at]) && s->loud[i] < s->loud[at]) {
            s->loud[i] = s->loud[at];
        }
    }
}

static bool takes_two(enum kind kind) {
    return kind == SUM || kind == TIMES || kind == GATE || kind == AROUND;
}

static struct ggml_tensor * try_step(struct side * s, const struct step * st, int a, int b) {
    bool two = takes_two(st->kind);
    if (a < 0 || (two && b < 0)) {
        return NULL;
    }
    // In what order the parts of what overlaps are read and written is nobody's business.
    struct step as = *st;
    as.in_place &= !two || a == b || root(s->values[a]) != root(s->values[b]);
    return two ? of_two(s, &as, s->values[a], s->values[b]) : of_one(s, &as, s->values[a]);
}

static void build_step(struct side * s, struct program * p, int i) {
    struct step * st = &p->steps[i];
    int at = INPUTS + i, loudest = loudest_for(st->kind), leaves = s->n_leaves;
    int a = find(s, st->a, loudest, NULL),
        b = a < 0 ? -1 : find(s, st->b, loudest, st->kind == AROUND ? NULL : s->values[a]);
    struct ggml_tensor * since = last_tensor(s->ctx);
    s->step = i;
    s->before[0] = s->before[1] = NULL;
    struct ggml_tensor * out = st->dropped ? NULL : try_step(s, st, a, b);
    if (!out || (s->is_device && !takes(s, since))) {
        st->dropped = true;
        s->n_leaves = leaves;
        return;
    }
    for (int k = 0; k < 2 && s->before[k]; k++) {
        ggml_build_forward_expand(s->graph, s->before[k]);
    }
    if (st->output) {
        ggml_set_output(out);
    }
    ggml_build_forward_expand(s->graph, out);
    s->values[at] = out;
    s->loud[at] = loudness(s, st, a, b);
    note_loud(s, at);
}

static void build(struct side * s, struct program * p) {
    static const int64_t widths[INPUTS] = {256, 128, 256};
    if (s->ctx) {
        ggml_free(s->ctx);
    }
    s->ctx = context();
    s->graph = ggml_new_graph_custom(s->ctx, TENSORS, false);
    s->n_leaves = 0;
    memset(s->values, 0, sizeof s->values);
    memset(s->loud, 0, sizeof s->loud);
    for (int i = 0; i < INPUTS; i++) {
        s->values[i] = leaf(s, ggml_new_tensor_2d(s->ctx, GGML_TYPE_F32, widths[i], p->tokens),
                            FILL_RANDOM, 0);
    }
    for (int i = 0; i < p->n; i++) {
        build_step(s, p, i);
    }
    for (int i = VALUES - 1, n = 0; i >= 0 && n < 2; i--) {
        if (s->values[i]) {
            ggml_set_output(s->values[i]);
            n++;
        }
    }
}

static void side_open(struct side * s, ggml_backend_t backend, struct program * p) {
    *s = (struct side){.backend = backend, .is_device = backend == stream, .tokens = p->tokens};
    s->weights_ctx = context();
    s->cache_ctx = context();
    for (int i = 0; i < CACHES; i++) {
        s->caches[i] = ggml_new_tensor_2d(s->cache_ctx, i ? GGML_TYPE_F16 : GGML_TYPE_F32, 256,
                                          64 + 2 * p->tokens);
    }
    s->cache_buffer = ggml_backend_alloc_ctx_tensors(s->cache_ctx, backend);
    build(s, p);
    if (ggml_get_first_tensor(s->weights_ctx)) {
        s->weights_buffer = ggml_backend_alloc_ctx_tensors(s->weights_ctx, backend);
        assert_non_null(s->weights_buffer);
        ggml_backend_buffer_set_usage(s->weights_buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
    for (int i = 0; i < 2; i++) {
        s->places[i] = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    }
}

static void side_close(struct side * s) {
    for (int i = 0; i < 2; i++) {
        ggml_gallocr_free(s->places[i]);
    }
    ggml_backend_buffer_free(s->weights_buffer);
    ggml_backend_buffer_free(s->cache_buffer);
    ggml_free(s->weights_ctx);
    ggml_free(s->cache_ctx);
    ggml_free(s->ctx);
}
