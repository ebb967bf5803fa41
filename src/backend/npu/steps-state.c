// steps-state: matrices that go on from token to token, one for each head: GATED_DELTA_NET,
// RWKV_WKV6, RWKV_WKV7, GATED_LINEAR_ATTN, SSM_SCAN. A token is a dozen of kernels over all heads
// and sequences at once, so that decoding takes few, and a long prompt thousands.
//
// A state is [size, rows, heads, sequences], and so turned that what is summed over is a row of it;
// but for SSM_SCAN there are as many rows as numbers in one. What a token has, one number for each
// element of a row or for each row, repeats to that.
#include "steps.h"

#include <math.h>

struct state {
    int64_t size, rows, heads, tokens, sequences;
    struct view now, t, sum; // the state; what is made of it; a number for each row
};

static struct state state_of(struct steps * s, int64_t size, int64_t rows, int64_t heads,
                             int64_t tokens, int64_t sequences) {
    return (struct state){
        .size = size,
        .rows = rows,
        .heads = heads,
        .tokens = tokens,
        .sequences = sequences,
        .now = steps_temp(s, GGML_TYPE_F32, size, rows, heads, sequences),
        .t = steps_temp(s, GGML_TYPE_F32, size, rows, heads, sequences),
        .sum = steps_temp(s, GGML_TYPE_F32, 1, rows, heads, sequences),
    };
}

// A token of [n, heads, tokens, sequences], along rows of the state or down its columns.
static struct view at_token(struct view v, int64_t token, bool down) {
    v.data += (size_t) token * v.nb[2];
    struct view out = v;
    out.ne[0] = down ? 1 : v.ne[0], out.nb[0] = v.nb[0];
    out.ne[1] = down ? v.ne[0] : 1, out.nb[1] = down ? v.nb[0] : v.nb[1];
    out.ne[2] = v.ne[1], out.nb[2] = v.nb[1];
    return out;
}

// Asked, the first and the last token tell.
static bool skips(const struct steps * s, const struct state * m, int64_t token) {
    return s->status != ST_OK || (!s->stream && token > 0 && token < m->tokens - 1);
}

// ---- the words in which a token is said ----

static void decay(struct steps * s, struct state * m, struct view by) {
    steps_binary(s, KERNEL_OP_MUL, m->now, by, m->now);
}

// t = row x column
static void outer(struct steps * s, struct state * m, struct view row, struct view column) {
    steps_move(s, row, m->t);
    steps_binary(s, KERNEL_OP_MUL, m->t, column, m->t);
}

static void learn(struct steps * s, struct state * m, struct view row, struct view column) {
    outer(s, m, row, column);
    steps_binary(s, KERNEL_OP_ADD, m->now, m->t, m->now);
}

// sum = matrix . row
static void look(struct steps * s, struct state * m, struct view matrix, struct view row) {
    steps_binary(s, KERNEL_OP_MUL, matrix, row, m->t);
    steps_rows(s, KERNEL_OP_SUM_ROWS, m->t, m->sum, 0, 0);
}

// ---- GATED_DELTA_NET ----

static bool is_like(const struct view * v, int64_t n, const struct state * m, bool some_heads) {
    return v->type == GGML_TYPE_F32 && v->ne[0] == n && v->ne[2] == m->tokens &&
           v->ne[3] == m->sequences &&
           (some_heads ? m->heads % v->ne[1] == 0 : m->heads == v->ne[1]);
}

void steps_gated_delta_net(struct steps * s, const struct ggml_tensor * node) {
    struct view q = steps_src(s, 0), k = steps_src(s, 1), v = steps_src(s, 2), g = steps_src(s, 3),
                beta = steps_src(s, 4), from = steps_src(s, 5), to = steps_dst(s);
    struct state m = state_of(s, v.ne[0], v.ne[0], v.ne[1], v.ne[2], v.ne[3]);
    int64_t n = m.size, kept = node->op_params[0], rows = n * n * m.heads * m.sequences;
    bool by_element = g.ne[0] == n;
    steps_need(s,
               is_like(&q, n, &m, true) && is_like(&k, n, &m, true) && is_like(&v, n, &m, false) &&
                   is_like(&g, by_element ? n : 1, &m, false) && is_like(&beta, 1, &m, false) &&
                   from.type == GGML_TYPE_F32 && from.ne[0] == n && from.ne[1] == n &&
                   from.ne[2] == m.heads && from.ne[3] == m.sequences && kept >= 1 &&
                   kept < 1 << 20 && to.type == GGML_TYPE_F32 && view_is_packed(&to) &&
                   ggml_nelements(node) == ggml_nelements(node->src[2]) + kept * rows,
               "datatypes or shapes");
    struct view out = steps_as(&to, n, m.heads, m.tokens, m.sequences);
    struct view states = steps_as(&to, n, n, m.heads, m.sequences), gate = steps_like(s, &g);
    states.data += view_bytes(&out);
    steps_unary(s, KERNEL_OP_EXP, g, gate);
    steps_move(s, from, m.now);
    for (int64_t t = 0; t < m.tokens; t++) {
        if (skips(s, &m, t)) {
            continue;
        }
        struct view row = at_token(k, t, false), seen = at_token(out, t, true);
        decay(s, &m, at_token(gate, t, false));
        look(s, &m, m.now, row);
        steps_binary(s, KERNEL_OP_SUB, at_token(v, t, true), m.sum, m.sum);
        steps_binary(s, KERNEL_OP_MUL, m.sum, at_token(beta, t, true), m.sum);
        learn(s, &m, row, m.sum);
        look(s, &m, m.now, at_token(q, t, false));
        steps_params(s, KERNEL_OP_SCALE, m.sum, seen, 1 / sqrtf((float) n), 0);
        int64_t slot = m.tokens - 1 - t;
        if (slot < kept) {
            struct view last = states;
            last.data += (size_t) (slot * rows) * sizeof(float);
            steps_move(s, m.now, last);
        }
    }
}

// ---- the others: all tensors contiguous, sequences one behind the other ----

static struct view by_sequence(const struct view * v, const struct state * m) {
    return steps_as(v, m->size, m->heads, m->tokens, m->sequences);
}

static struct view turned(struct view v, bool turn) {
    if (turn) {
        size_t nb = v.nb[0];
        v.nb[0] = v.nb[1], v.nb[1] = nb;
    }
    return v;
}

// Takes the state of the last source in, after what all of these want of their operands. The first
// `like` sources have the shape of the second one.
static struct state state_begin(struct steps * s, const struct ggml_tensor * node, int like,
                                int last, bool turn) {
    const struct ggml_tensor *x = node->src[1], *from = node->src[last];
    int64_t n = x->ne[0], heads = x->ne[1], sequences = from->ne[1];
    bool sound = node->type == GGML_TYPE_F32 && ggml_is_contiguous(node) && x->ne[3] == 1 &&
                 x->ne[2] % sequences == 0 && node->ne[0] == n * heads &&
                 ggml_nelements(from) == n * n * heads * sequences &&
                 ggml_nelements(node) == n * heads * (x->ne[2] + n * sequences);
    for (int i = 0; i <= last; i++) {
        sound = sound && node->src[i]->type == GGML_TYPE_F32 && ggml_is_contiguous(node->src[i]) &&
                (i >= like || ggml_are_same_shape(node->src[i], x));
    }
    steps_need(s, sound, "datatypes or shapes");
    struct state m = state_of(s, n, n, heads, x->ne[2] / (sequences ? sequences : 1), sequences);
    struct view v = steps_src(s, last);
    steps_move(s, turned(steps_as(&v, n, n, heads, sequences), turn), m.now);
    return m;
}

static struct view source(struct steps * s, const struct state * m, int i) {
    struct view v = steps_src(s, i);
    return by_sequence(&v, m);
}

static struct view result(struct steps * s, const struct state * m) {
    struct view v = steps_dst(s);
    return by_sequence(&v, m);
}

static void state_end(struct steps * s, const struct state * m, bool turn) {
    struct view to = steps_dst(s), out = result(s, m);
    to.data += view_bytes(&out);
    steps_move(s, m->now, turned(steps_as(&to, m->size, m->size, m->heads, m->sequences), turn));
}

void steps_rwkv7(struct steps * s, const struct ggml_tensor * node) {
    enum { R, W, K, V, A, B, STATE };
    struct state m = state_begin(s, node, STATE, STATE, false);
    if (s->status != ST_OK) {
        return;
    }
    struct view r = source(s, &m, R), w = source(s, &m, W), k = source(s, &m, K),
                v = source(s, &m, V), a = source(s, &m, A), b = source(s, &m, B),
                out = result(s, &m);
    for (int64_t t = 0; t < m.tokens; t++) {
        if (skips(s, &m, t)) {
            continue;
        }
        look(s, &m, m.now, at_token(a, t, false));
        decay(s, &m, at_token(w, t, false));
        learn(s, &m, at_token(k, t, false), at_token(v, t, true));
        learn(s, &m, at_token(b, t, false), m.sum);
        look(s, &m, m.now, at_token(r, t, false));
        steps_move(s, m.sum, at_token(out, t, true));
    }
    state_end(s, &m, false);
}

void steps_rwkv6(struct steps * s, const struct ggml_tensor * node) {
    enum { K, V, R, FIRST, W, STATE };
    steps_need(s, ggml_nelements(node->src[FIRST]) == node->src[V]->ne[0] * node->src[V]->ne[1],
               "shapes");
    steps_need(s, ggml_are_same_shape(node->src[W], node->src[V]), "shapes");
    struct state m = state_begin(s, node, FIRST, STATE, true);
    if (s->status != ST_OK) {
        return;
    }
    struct view k = source(s, &m, K), v = source(s, &m, V), r = source(s, &m, R),
                w = source(s, &m, W), first = steps_src(s, FIRST), out = result(s, &m),
                new = steps_like(s, &m.now);
    first = steps_as(&first, m.size, 1, m.heads, 1);
    for (int64_t t = 0; t < m.tokens; t++) {
        if (skips(s, &m, t)) {
            continue;
        }
        outer(s, &m, at_token(k, t, false), at_token(v, t, true));
        steps_move(s, m.t, new);
        steps_binary(s, KERNEL_OP_MUL, m.t, first, m.t);
        steps_binary(s, KERNEL_OP_ADD, m.t, m.now, m.t);
        look(s, &m, m.t, at_token(r, t, false));
        steps_move(s, m.sum, at_token(out, t, true));
        decay(s, &m, at_token(w, t, false));
        steps_binary(s, KERNEL_OP_ADD, m.now, new, m.now);
    }
    state_end(s, &m, true);
}

void steps_gated_linear(struct steps * s, const struct ggml_tensor * node) {
    enum { K, V, Q, G, STATE };
    struct state m = state_begin(s, node, STATE, STATE, true);
    if (s->status != ST_OK) {
        return;
    }
    struct view k = source(s, &m, K), v = source(s, &m, V), q = source(s, &m, Q),
                g = source(s, &m, G), out = result(s, &m);
    for (int64_t t = 0; t < m.tokens; t++) {
        if (skips(s, &m, t)) {
            continue;
        }
        decay(s, &m, at_token(g, t, false));
        learn(s, &m, at_token(k, t, false), at_token(v, t, true));
        look(s, &m, m.now, at_token(q, t, false));
        steps_params(s, KERNEL_OP_SCALE, m.sum, at_token(out, t, true), steps_float(node, 0), 0);
    }
    state_end(s, &m, true);
}

// ---- SSM_SCAN ----

enum { SCAN_STATE, SCAN_X, SCAN_DT, SCAN_A, SCAN_B, SCAN_C, SCAN_IDS };
enum { PIECE = 256 }; // tokens for which the room holds what is made of them

static bool is_sound_scan(const struct ggml_tensor * node, const struct state * m) {
    const struct ggml_tensor * const * src = (const struct ggml_tensor * const *) node->src;
    const struct ggml_tensor *dt = src[SCAN_DT], *a = src[SCAN_A], *b = src[SCAN_B],
                             *c = src[SCAN_C], *ids = src[SCAN_IDS], *from = src[SCAN_STATE];
    int64_t groups = b->ne[1], kept = node->op_params[0];
    bool sound = node->type == GGML_TYPE_F32 && ggml_is_contiguous(node) &&
                 ids->type == GGML_TYPE_I32 && ids->ne[0] == m->sequences && ggml_is_vector(ids) &&
                 kept >= 1 && kept < 1 << 20;
    for (int i = 0; i < SCAN_IDS; i++) {
        sound = sound && src[i]->type == GGML_TYPE_F32 && src[i]->nb[0] == sizeof(float);
    }
    int64_t states = m->size * m->rows * m->heads * m->sequences;
    return sound && ggml_is_contiguous(from) && from->ne[2] == m->heads && dt->ne[0] == m->heads &&
           dt->ne[1] == m->tokens && dt->ne[2] == m->sequences && dt->ne[3] == 1 &&
           (a->ne[0] == 1 || (a->ne[0] == m->size && kept == 1)) && a->ne[1] == m->heads &&
           ggml_is_contiguous(a) && ggml_nelements(a) == a->ne[0] * m->heads &&
           b->ne[0] == m->size && m->heads % groups == 0 && b->ne[2] == m->tokens &&
           b->ne[3] == m->sequences && ggml_are_same_shape(b, c) &&
           ggml_nelements(node) == ggml_nelements(src[SCAN_X]) + kept * states;
}

// The tokens [first, first + n) of [size, groups, tokens, sequences], for each head its group's.
static struct view by_head(struct steps * s, const struct state * m, struct view v, int64_t first,
                           int64_t n) {
    int64_t groups = v.ne[1], heads = m->heads / groups;
    v = steps_row(v, 2, first, n);
    if (groups == 1 || groups == m->heads) {
        return v;
    }
    struct view all = steps_temp(s, GGML_TYPE_F32, v.ne[0], m->heads, n, m->sequences);
    for (int64_t g = 0; g < groups; g++) {
        steps_move(s, steps_row(v, 1, g, 1), steps_row(all, 1, g * heads, heads));
    }
    return all;
}

// What the tokens of a piece have, [n, heads, tokens, sequences]: how much of the state stays, what
// is learned along a row and down a column, and what is asked.
struct scanned {
    struct view step, decay, row, column, asked;
};

static struct scanned scan_piece(struct steps * s, const struct state * m, int64_t first,
                                 int64_t n) {
    struct view dt = steps_src(s, SCAN_DT), a = steps_src(s, SCAN_A), x = steps_src(s, SCAN_X);
    struct view from = dt;
    from.ne[0] = 1, from.nb[0] = sizeof(float);
    for (int d = GGML_MAX_DIMS - 1; d > 0; d--) {
        from.ne[d] = dt.ne[d - 1], from.nb[d] = dt.nb[d - 1];
    }
    from = steps_row(from, 2, first, n);
    struct scanned p = {.step = steps_temp(s, GGML_TYPE_F32, 1, m->heads, n, m->sequences)};
    steps_move(s, from, p.step);
    steps_unary(s, KERNEL_OP_SOFTPLUS, p.step, p.step);
    if (a.ne[0] == 1) { // else an element has its own, and a token's are made when it comes
        p.decay = steps_like(s, &p.step);
        steps_binary(s, KERNEL_OP_MUL, p.step, steps_as(&a, 1, m->heads, 1, 1), p.decay);
        steps_unary(s, KERNEL_OP_EXP, p.decay, p.decay);
    }
    x = steps_row(x, 2, first, n);
    p.column = steps_like(s, &x);
    steps_binary(s, KERNEL_OP_MUL, x, p.step, p.column);
    p.row = by_head(s, m, steps_src(s, SCAN_B), first, n);
    p.asked = by_head(s, m, steps_src(s, SCAN_C), first, n);
    return p;
}

static void scan_token(struct steps * s, struct state * m, const struct scanned * p, int64_t t,
                       struct view out) {
    struct view a = steps_src(s, SCAN_A), by = p->decay;
    size_t used = s->used;
    if (a.ne[0] == 1) {
        by = at_token(by, t, false);
    } else {
        by = steps_temp(s, GGML_TYPE_F32, m->size, 1, m->heads, m->sequences);
        steps_move(s, steps_as(&a, m->size, 1, m->heads, 1), by);
        steps_binary(s, KERNEL_OP_MUL, by, at_token(p->step, t, false), by);
        steps_unary(s, KERNEL_OP_EXP, by, by);
    }
    decay(s, m, by);
    learn(s, m, at_token(p->row, t, false), at_token(p->column, t, true));
    look(s, m, m->now, at_token(p->asked, t, false));
    steps_move(s, m->sum, out);
    s->used = used;
}

void steps_ssm_scan(struct steps * s, const struct ggml_tensor * node) {
    const struct ggml_tensor *from = node->src[SCAN_STATE], *x = node->src[SCAN_X];
    struct state m = state_of(s, from->ne[0], x->ne[0], x->ne[1], x->ne[2], x->ne[3]);
    steps_need(s, from->ne[1] == m.rows && is_sound_scan(node, &m), "datatypes or shapes");
    if (s->status != ST_OK) {
        return;
    }
    struct view table = steps_src(s, SCAN_STATE), to = steps_dst(s);
    steps_lookup(s, table, SCAN_IDS, m.now);
    struct view out = steps_as(&to, m.rows, m.heads, m.tokens, m.sequences);
    struct view states = steps_as(&to, m.size, m.rows, m.heads, m.sequences);
    states.data += view_bytes(&out);
    size_t used = s->used;
    for (int64_t first = 0; first < m.tokens; first += PIECE) {
        int64_t n = m.tokens - first < PIECE ? m.tokens - first : PIECE;
        bool told = skips(s, &m, first) && skips(s, &m, first + n - 1);
        struct scanned p = {.step.data = NULL};
        s->used = used;
        if (!told) {
            p = scan_piece(s, &m, first, n);
        }
        for (int64_t t = first; t < first + n; t++) {
            if (skips(s, &m, t)) {
                continue;
            }
            scan_token(s, &m, &p, t - first, at_token(out, t, true));
            int64_t slot = m.tokens - 1 - t;
            if (slot < node->op_params[0]) {
                struct view last = states;
                last.data += (size_t) slot * view_bytes(&states);
                steps_move(s, m.now, last);
            }
        }
    }
}
