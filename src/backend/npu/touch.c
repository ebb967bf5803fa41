// touch: see the header.
#include "touch.h"

#include "host-ops.h"

void touch_begin(struct hsac_agent * a, const struct view * v) {
    hsac_host_begin(a, v->data, view_bytes(v));
}

void touch_end(struct hsac_agent * a, const struct view * v) {
    hsac_host_end(a, v->data, view_bytes(v));
}

void touch_tensor(struct hsac_agent * a, const struct ggml_tensor * t) {
    struct view v = view_of(t);
    touch_begin(a, &v);
}

// ---- rows by index ----

typedef void touch_fn(struct hsac_agent * a, const void * at, size_t size);

// Of a table that is larger than what is touched of it, by how much nobody knows.
static bool touches_few(const struct ggml_tensor * table, const struct ggml_tensor * index) {
    return ggml_nelements(index) < ggml_nrows(table);
}

// The rows of `table` that the index names, of as many matrices as `n2` and `n3` say. What points
// outside is left to who finds it.
static void touch_rows(struct hsac_agent * a, const struct ggml_tensor * table,
                       const struct ggml_tensor * index, int64_t n2, int64_t n3, touch_fn * touch) {
    struct view row = view_of(table);
    row.ne[1] = row.ne[2] = row.ne[3] = 1;
    size_t bytes = view_bytes(&row);
    for (int64_t i3 = 0; i3 < n3; i3++) {
        for (int64_t i2 = 0; i2 < n2; i2++) {
            for (int64_t i1 = 0; i1 < index->ne[0]; i1++) {
                int64_t at = rows_index(index, i1, i2, i3);
                if (at >= 0 && at < table->ne[1]) {
                    touch(a,
                          row.data + (size_t) at * table->nb[1] + (size_t) i2 * table->nb[2] +
                              (size_t) i3 * table->nb[3],
                          bytes);
                }
            }
        }
    }
}

// ---- nodes ----

void touch_node_begin(struct hsac_agent * a, const struct ggml_tensor * node) {
    const struct ggml_tensor *src = node->src[0], *index = node->src[1];
    bool get = node->op == GGML_OP_GET_ROWS && touches_few(src, index);
    bool set = node->op == GGML_OP_SET_ROWS && touches_few(node, index);
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        bool table = (get && i == 0) || (set && i == 2); // src 2 of SET_ROWS is its result
        if (node->src[i] && !table) {
            touch_tensor(a, node->src[i]);
        }
    }
    if (get) {
        touch_rows(a, src, index, src->ne[2], src->ne[3], hsac_host_begin);
    }
    if (set) {
        touch_rows(a, node, index, node->ne[2], node->ne[3], hsac_host_begin);
    } else {
        touch_tensor(a, node);
    }
}

void touch_node_end(struct hsac_agent * a, const struct ggml_tensor * node) {
    struct view v = view_of(node);
    if (node->op == GGML_OP_SET_ROWS && touches_few(node, node->src[1])) {
        touch_rows(a, node, node->src[1], node->ne[2], node->ne[3], hsac_host_end);
    } else {
        touch_end(a, &v);
    }
}
