// panels-settle: what a graph wants of layouts is done before its first node: nothing is in flight
// then. Weights in panels that a node cannot take so are laid out row behind row. A layout changes
// only while no graph of the device is under way: graphs hold its lock for reading, and who
// lays a tensor out anew holds it for writing.
#include "panels.h"

#include "backend/stream.h"

// Nobody computes while a layout changes: the caller's stream has been waited for.
static void lock_layout(struct hsa_stream * s) {
    pthread_rwlock_unlock(&s->device->layout);
    pthread_rwlock_wrlock(&s->device->layout);
}

static void unlock_layout(struct hsa_stream * s) {
    pthread_rwlock_unlock(&s->device->layout);
    pthread_rwlock_rdlock(&s->device->layout);
}

// Attention reads one head after the other: its caches are laid out for that when they are first
// met.
static enum status lay_out_caches(struct hsa_stream * s, const struct ggml_tensor * node,
                                  struct error * err) {
    enum status st = ST_OK;
    for (int i = 1; i <= 2 && st == ST_OK; i++) {
        const struct ggml_tensor * keys = node->src[i];
        struct panels * all = keys && keys->data && keys->view_src ? buffer_panels(keys) : NULL;
        bool there;
        bool is_cache =
            all && keys->view_src->buffer &&
            ggml_backend_buffer_get_usage(keys->view_src->buffer) == GGML_BACKEND_BUFFER_USAGE_ANY;
        if (is_cache && panels_wants_heads(all, keys, &there) && !there) {
            st = stream_wait(s, err);
            if (st == ST_OK) {
                lock_layout(s);
                panels_make_heads(all, keys); // without memory it stays as it is
                unlock_layout(s);
            }
        }
    }
    return st;
}

// A graph that runs meanwhile, of this stream or another, has planned with the layout that there
// is.
static enum status make_plain(struct hsa_stream * s, struct panels * all,
                              const struct ggml_tensor * t, struct error * err) {
    enum status st = stream_wait(s, err);
    if (st != ST_OK) {
        return st;
    }
    lock_layout(s);
    bool ok = panels_plain(all, t->data, ggml_nbytes(t));
    unlock_layout(s);
    return ok ? ST_OK : error_set(err, ST_NO_MEMORY, "no memory to lay out \"%s\" anew", t->name);
}

static enum status settle(struct hsa_stream * s, const struct ggml_tensor * node, bool by_cpu,
                          struct error * err) {
    if (op_is_view(node->op)) { // nobody reads a byte for it
        return ST_OK;
    }
    bool product = node->op == GGML_OP_MUL_MAT || node->op == GGML_OP_MUL_MAT_ID;
    bool attention = node->op == GGML_OP_FLASH_ATTN_EXT && !by_cpu;
    enum status st = attention ? lay_out_caches(s, node, err) : ST_OK;
    struct panels_node room;
    const struct ggml_tensor * restrided = by_cpu ? node : panels_restride(node, &room);
    bool adds = node->op == GGML_OP_SET_ROWS && restrided != node;
    for (int i = -1; i < GGML_MAX_SRC && st == ST_OK; i++) {
        const struct ggml_tensor * t = i < 0 ? node : node->src[i];
        struct panels * all = t && t->data ? buffer_panels(t) : NULL;
        if (!panels_any(all, t ? t->data : NULL, t ? ggml_nbytes(t) : 0)) {
            continue;
        }
        struct view v = view_of(t);
        bool taken = product && i == 0 && !by_cpu && panels_of(all, &v).rows;
        taken |= attention && i > 0 && restrided->src[i] != node->src[i];
        taken |= adds && (i < 0 || i == 2); // src 2 is the cache again
        st = taken ? ST_OK : make_plain(s, all, t, err);
    }
    return st;
}

enum status panels_begin(struct hsa_stream * s, struct ggml_cgraph * graph, struct error * err) {
    enum status st = ST_OK;
    for (int i = 0; s->device->npu && i < ggml_graph_n_nodes(graph) && st == ST_OK; i++) {
        st = settle(s, ggml_graph_node(graph, i), false, err);
    }
    return st;
}

enum status panels_by_cpu(struct hsa_stream * s, const struct ggml_tensor * node,
                          struct error * err) {
    return settle(s, node, true, err);
}
