// panels-settle: weights in panels that a node cannot take so are laid out row behind row. A layout
// changes only while no graph of the device is under way: graphs hold its lock for reading, and who
// lays a tensor out anew holds it for writing.
#include "panels.h"

#include "backend/stream.h"

// A graph that runs meanwhile, of this stream or another, has planned with the layout that there is.
static enum status make_plain(struct hsa_stream * s, struct panels * all,
                              const struct ggml_tensor * t, struct error * err) {
    enum status st = stream_wait(s, err);
    if (st != ST_OK) {
        return st;
    }
    pthread_rwlock_unlock(&s->device->layout);
    pthread_rwlock_wrlock(&s->device->layout);
    bool ok = panels_plain(all, t->data, ggml_nbytes(t));
    pthread_rwlock_unlock(&s->device->layout);
    pthread_rwlock_rdlock(&s->device->layout);
    return ok ? ST_OK : error_set(err, ST_NO_MEMORY, "no memory to lay out \"%s\" anew", t->name);
}

enum status panels_settle(struct hsa_stream * s, const struct ggml_tensor * node, bool by_cpu,
                          struct error * err) {
    bool product = node->op == GGML_OP_MUL_MAT || node->op == GGML_OP_MUL_MAT_ID;
    enum status st = ST_OK;
    for (int i = -1; i < GGML_MAX_SRC && st == ST_OK; i++) {
        const struct ggml_tensor * t = i < 0 ? node : node->src[i];
        struct panels * all = t && t->data ? buffer_panels(t) : NULL;
        if (!panels_any(all, t ? t->data : NULL, t ? ggml_nbytes(t) : 0)) {
            continue;
        }
        struct view v = view_of(t);
        bool taken = product && i == 0 && !by_cpu && panels_of(all, &v).rows;
        st = taken ? ST_OK : make_plain(s, all, t, err);
    }
    return st;
}
