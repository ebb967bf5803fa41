// rope: ROPE and ROPE_BACK on the array. The host makes a table of cosines and sines, once for all
// layers that turn by the same positions, and the kernel ROTATE turns pairs by it. Pairs whose
// halves lie apart (NEOX and what followed) are brought together by the descriptors that read and
// write them. f16 is turned as f32. What is not turned is copied, where it is not there already.
#include "moves.h"
#include "touch.h"

#include "backend/rope.h"

#include <string.h>

struct turn {                      // a node as it is computed
    int64_t n_dims, first, tokens; // elements of a row that are turned, and the first of them
    bool apart;                    // halves of a pair
    bool cast;                     // by way of f32
    struct view x, y;              // whole rows, as they are turned
};

static struct turn turn_of(const struct ggml_tensor * node) {
    int32_t mode = node->op_params[ROPE_MODE];
    bool vision = mode == GGML_ROPE_TYPE_VISION;
    struct turn t = {
        .n_dims = vision ? node->ne[0] : node->op_params[ROPE_N_DIMS],
        .first = node->op_params[ROPE_N_OFFSET],
        .tokens = node->ne[2],
        .apart = mode != GGML_ROPE_TYPE_NORMAL,
        .cast = node->type == GGML_TYPE_F16,
        .x = view_of(node->src[0]),
        .y = view_of(node),
    };
    if (t.cast) {
        t.x = t.y = view_contiguous(GGML_TYPE_F32, node->ne, NULL);
    }
    return t;
}

// ---- pairs ----

static struct tensor pairs_of(const struct turn * t, const struct view * v, int64_t tokens) {
    int64_t half = t->n_dims / 2, nb1 = (int64_t) v->nb[1], nb2 = (int64_t) v->nb[2];
    return t->apart
               ? (struct tensor){DTYPE_F32, {2, half, tokens, v->ne[1]}, {4 * half, 4, nb2, nb1}}
               : (struct tensor){DTYPE_F32, {t->n_dims, tokens, v->ne[1], 1}, {4, nb2, nb1, nb1}};
}

// Heads outermost, so that the table is walked from end to end for each.
static struct kernel_spec rotate(const struct turn * t, enum aie_arch arch, int64_t tokens) {
    int64_t half = t->n_dims / 2;
    const int64_t apart[4] = {2, half, tokens, 1}, close[4] = {t->n_dims, tokens, 1, 1};
    return (struct kernel_spec){
        .op = KERNEL_OP_ROTATE,
        .arch = arch,
        .n_inputs = 2,
        .inputs = {pairs_of(t, &t->x, tokens),
                   tensor_contiguous(DTYPE_F32, t->apart ? apart : close)},
        .output = pairs_of(t, &t->y, tokens),
    };
}

static bool can(struct npu * npu, const struct kernel_spec * spec) {
    return plan_can(npu->store, spec, false);
}

// How many tokens one kernel turns; 0: there is no such kernel.
static int64_t tokens_at_once(struct npu * npu, const struct turn * t) {
    int64_t n = t->tokens;
    while (n > 0) {
        struct kernel_spec spec = rotate(t, npu->arch, n),
                           rest = rotate(t, npu->arch, t->tokens % n);
        if (can(npu, &spec) && (t->tokens % n == 0 || can(npu, &rest))) {
            return n;
        }
        n = n > 1 ? (n + 1) / 2 : 0;
    }
    return 0;
}

static enum status turn_pairs(struct hsa_stream * s, const struct turn * t, const float * table,
                              struct error * err) {
    struct npu * npu = s->device->npu;
    int64_t step = tokens_at_once(npu, t);
    size_t first = (size_t) t->first * sizeof(float);
    enum status st = ST_OK;
    for (int64_t i3 = 0; i3 < t->x.ne[3]; i3++) {
        for (int64_t i2 = 0; i2 < t->tokens && st == ST_OK; i2 += step) {
            int64_t n = t->tokens - i2 < step ? t->tokens - i2 : step;
            struct kernel_spec spec = rotate(t, npu->arch, n);
            route_put(npu->store, &s->npu->place, &spec);
            char * at[PLAN_OPERANDS] = {
                t->x.data + first + (size_t) i2 * t->x.nb[2] + (size_t) i3 * t->x.nb[3],
                (char *) (uintptr_t) (table + i2 * t->n_dims),
                t->y.data + first + (size_t) i2 * t->y.nb[2] + (size_t) i3 * t->y.nb[3]};
            st = npu_dispatch(s, &spec, at, err);
        }
    }
    return st;
}

// ---- what is not turned ----

static struct view columns(struct view v, int64_t first, int64_t n) {
    v.data = v.data ? v.data + (size_t) first * v.nb[0] : NULL;
    v.ne[0] = n;
    return v;
}

// Before and behind; how many there are.
static int still_parts(const struct turn * t, struct view from[2], struct view to[2]) {
    const int64_t ends[2][2] = {{0, t->first}, {t->first + t->n_dims, t->x.ne[0]}};
    int n = 0;
    for (int i = 0; i < 2; i++) {
        int64_t width = ends[i][1] - ends[i][0];
        if (width > 0 && (!t->x.data || t->x.data != t->y.data)) {
            from[n] = columns(t->x, ends[i][0], width);
            to[n++] = columns(t->y, ends[i][0], width);
        }
    }
    return n;
}

// ---- the table ----

static bool is_table_of(const struct rope_recent * r, const struct ggml_tensor * node) {
    return r->table && r->op == node->op && r->positions == node->src[1]->data &&
           r->factors == (node->src[2] ? node->src[2]->data : NULL) && r->ne0 == node->ne[0] &&
           r->tokens == node->ne[2] && !memcmp(r->params, node->op_params, sizeof r->params);
}

static float * recent_table(struct hsa_stream * s, const struct ggml_tensor * node) {
    for (int i = 0; i < RECENT_ROPES; i++) {
        if (is_table_of(&s->npu->ropes[i], node)) {
            return s->npu->ropes[i].table;
        }
    }
    return NULL;
}

const char * rope_table_kept(struct hsa_stream * s, const struct ggml_tensor * node) {
    return (const char *) recent_table(s, node);
}

static bool overlap(const void * a, size_t a_bytes, const void * b, size_t b_bytes) {
    const char *p = a, *q = b;
    return p && q && p < q + b_bytes && q < p + a_bytes;
}

void rope_forget(struct hsa_stream * s, const void * begin, size_t bytes) {
    for (int i = 0; i < RECENT_ROPES; i++) {
        struct rope_recent * r = &s->npu->ropes[i];
        if (overlap(r->positions, r->positions_bytes, begin, bytes) ||
            overlap(r->factors, r->factors_bytes, begin, bytes)) {
            r->table = NULL;
        }
    }
}

// The host reads positions and factors, which a kernel may still be writing.
static enum status make_table(struct hsa_stream * s, const struct ggml_tensor * node,
                              const struct turn * t, float * table, struct error * err) {
    const struct ggml_tensor *positions = node->src[1], *factors = node->src[2];
    if (npu_is_pending(s, positions->data, ggml_nbytes(positions)) ||
        (factors && npu_is_pending(s, factors->data, ggml_nbytes(factors)))) {
        enum status st = stream_wait(s, err);
        if (st != ST_OK) {
            return st;
        }
    }
    struct hsac_agent * agent = s->device->agent;
    size_t bytes = (size_t) (t->n_dims * t->tokens) * sizeof *table;
    touch_tensor(agent, positions);
    if (factors) {
        touch_tensor(agent, factors);
    }
    hsac_host_begin(agent, table, bytes);
    rope_table(node, t->n_dims / 2, table);
    hsac_host_end(agent, table, bytes);
    struct rope_recent * r = &s->npu->ropes[s->npu->next_rope++ % RECENT_ROPES];
    *r = (struct rope_recent){
        .op = node->op,
        .positions = positions->data,
        .positions_bytes = ggml_nbytes(positions),
        .factors = factors ? factors->data : NULL,
        .factors_bytes = factors ? ggml_nbytes(factors) : 0,
        .ne0 = node->ne[0],
        .tokens = node->ne[2],
        .table = table,
    };
    memcpy(r->params, node->op_params, sizeof r->params);
    return ST_OK;
}

// ---- nodes ----

bool rope_is(const struct ggml_tensor * node) {
    return node->op == GGML_OP_ROPE || node->op == GGML_OP_ROPE_BACK;
}

enum status rope_check(struct hsa_device * device, const struct ggml_tensor * node,
                       struct error * err) {
    struct npu * npu = device->npu;
    const struct ggml_tensor * x = node->src[0];
    if (!x || (x->type != GGML_TYPE_F32 && x->type != GGML_TYPE_F16) || node->type != x->type) {
        return error_set(err, ST_UNSUPPORTED, "%s of %s to %s: both are f32, or both f16",
                         op_label(node), x ? ggml_type_name(x->type) : "nothing",
                         ggml_type_name(node->type));
    }
    if (!rope_is_sound(node)) {
        return error_set(err, ST_UNSUPPORTED,
                         "%s: mode %d with %d of %lld dimensions from %d on, or its positions or "
                         "factors, are none that its kernel knows",
                         op_label(node), node->op_params[ROPE_MODE], node->op_params[ROPE_N_DIMS],
                         (long long) x->ne[0], node->op_params[ROPE_N_OFFSET]);
    }
    if (x->nb[0] != ggml_type_size(x->type) || node->nb[0] != x->nb[0]) {
        return error_set(err, ST_UNSUPPORTED, "%s: the elements of a row do not follow each other",
                         op_label(node));
    }
    struct turn t = turn_of(node);
    struct view from[2], to[2], given = view_of(x), result = view_of(node);
    bool ok = tokens_at_once(npu, &t) > 0;
    for (int i = still_parts(&t, from, to); ok && i > 0; i--) {
        ok = moves_can(npu, &from[i - 1], &to[i - 1]);
    }
    if (t.cast) {
        ok = ok && moves_can(npu, &given, &t.x) && moves_can(npu, &t.y, &result);
    }
    return ok ? ST_OK
              : error_set(err, ST_UNSUPPORTED, "%s: descriptors of words cannot walk it",
                          op_label(node));
}

void rope_ways(struct hsa_device * device, const struct ggml_tensor * node, bool shares,
               struct route_stop * out) {
    (void) shares;
    if (rope_check(device, node, NULL) == ST_OK && !ggml_is_empty(node)) {
        struct turn t = turn_of(node);
        struct kernel_spec spec = rotate(&t, device->npu->arch, tokens_at_once(device->npu, &t));
        route_add_placed(out, device->npu->store, &spec);
    }
}

enum status rope_run(struct hsa_stream * s, struct ggml_tensor * node, struct error * err) {
    enum status st = rope_check(s->device, node, err);
    if (st != ST_OK) {
        return st;
    }
    struct turn t = turn_of(node);
    size_t table_bytes = GGML_PAD((size_t) (t.n_dims * t.tokens) * sizeof(float), BUFFER_ALIGNMENT);
    size_t cast_bytes = t.cast ? GGML_PAD(view_bytes(&t.x), BUFFER_ALIGNMENT) : 0;
    float * table;
    char * room = NULL;
    unsigned resets;
    do { // making room may take the table away
        resets = s->n_resets;
        table = recent_table(s, node);
        size_t bytes = (table ? 0 : table_bytes) + cast_bytes;
        st = bytes ? stream_scratch(s, bytes, &room, err) : ST_OK;
    } while (st == ST_OK && table && resets != s->n_resets);
    if (st == ST_OK && !table) {
        table = (float *) (void *) room;
        room += table_bytes;
        st = make_table(s, node, &t, table, err);
    }
    kept_table(s->npu->kept, table, table_bytes);
    struct view from[2], to[2], given = view_of(node->src[0]), result = view_of(node);
    if (t.cast && st == ST_OK) {
        t.x.data = t.y.data = room;
        st = moves_send(s, &given, &t.x, err);
    }
    int n = still_parts(&t, from, to);
    for (int i = 0; i < n && st == ST_OK; i++) {
        st = moves_send(s, &from[i], &to[i], err);
    }
    if (st == ST_OK) {
        st = turn_pairs(s, &t, table, err);
    }
    return st == ST_OK && t.cast ? moves_send(s, &t.y, &result, err) : st;
}
