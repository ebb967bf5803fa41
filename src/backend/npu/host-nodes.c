// host-nodes: the nodes that the host computes, one row of the table each. Which of them it can do
// is decided by types and layouts alone, so that supports_op may ask before anything has an
// address.
#include "host-ops.h"

#include <string.h>

// ---- DUP, CPY, CONT ----

static bool can_copy(const struct ggml_tensor * node) {
    return node->src[0] && host_can_copy(node->src[0], node);
}

static enum status copy(const struct ggml_tensor * node, struct error * err) {
    struct view from = view_of(node->src[0]), to = view_of(node);
    return host_copy(&from, &to, err);
}

// ---- REPEAT ----

static bool can_repeat(const struct ggml_tensor * node) {
    const struct ggml_tensor * src = node->src[0];
    return src && src->type == node->type && ggml_blck_size(src->type) == 1 &&
           ggml_can_repeat(src, node);
}

static enum status repeat(const struct ggml_tensor * node, struct error * err) {
    struct view from = view_of(node->src[0]), to = view_of(node);
    return host_expand(&from, &to, err);
}

// ---- CONCAT ----

static bool can_concat(const struct ggml_tensor * node) {
    const struct ggml_tensor *a = node->src[0], *b = node->src[1];
    int32_t dim = node->op_params[0];
    if (!a || !b || dim < 0 || dim >= GGML_MAX_DIMS || a->type != b->type ||
        a->type != node->type) {
        return false;
    }
    int64_t block = ggml_blck_size(a->type);
    bool ok = a->ne[0] % block == 0 && b->ne[0] % block == 0;
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        ok &= i == dim ? node->ne[i] == a->ne[i] + b->ne[i]
                       : node->ne[i] == a->ne[i] && a->ne[i] == b->ne[i];
    }
    return ok;
}

static enum status concat(const struct ggml_tensor * node, struct error * err) {
    const struct ggml_tensor * a = node->src[0];
    int32_t dim = node->op_params[0];
    char * at = node->data;
    for (int i = 0; i < 2; i++) {
        struct view from = view_of(node->src[i]), to = from;
        memcpy(to.nb, node->nb, sizeof to.nb);
        to.data = at;
        enum status st = host_copy(&from, &to, err);
        if (st != ST_OK) {
            return st;
        }
        int64_t steps = dim == 0 ? a->ne[0] / ggml_blck_size(a->type) : a->ne[dim];
        at += (size_t) steps * node->nb[dim];
    }
    return ST_OK;
}

// ---- the table ----

static const char copies[] = "copies go between equal types, floats, f32 and i32, from quantized "
                             "types to f32, and from floats to those that ggml can quantize to";

static const struct {
    enum ggml_op op;
    bool (*can)(const struct ggml_tensor * node);
    enum status (*compute)(const struct ggml_tensor * node, struct error * err);
    const char * takes;
} rows[] = {
    {GGML_OP_DUP, can_copy, copy, copies},
    {GGML_OP_CPY, can_copy, copy, copies},
    {GGML_OP_CONT, can_copy, copy, copies},
    {GGML_OP_REPEAT, can_repeat, repeat, "equal types of single elements are repeated"},
    {GGML_OP_CONCAT, can_concat, concat, "equal types in whole blocks are put together"},
    {GGML_OP_GET_ROWS, host_can_get_rows, host_get_rows,
     "rows are read as they are, or as f32 of a type that ggml can convert"},
    {GGML_OP_SET_ROWS, host_can_set_rows, host_set_rows,
     "rows of f32 and f16 are written as floats, i32, or packed in a type that ggml can quantize "
     "to"},
};

enum { N_ROWS = sizeof rows / sizeof rows[0] };

bool host_has(enum ggml_op op) {
    bool has = false;
    for (int i = 0; i < N_ROWS; i++) {
        has |= rows[i].op == op;
    }
    return has;
}

enum status host_check_node(const struct ggml_tensor * node, struct error * err) {
    const struct ggml_tensor * src = node->src[0];
    for (int i = 0; i < N_ROWS; i++) {
        if (rows[i].op == node->op) {
            return rows[i].can(node)
                       ? ST_OK
                       : error_set(err, ST_UNSUPPORTED, "%s of %s to %s in these shapes: %s",
                                   ggml_op_name(node->op),
                                   src ? ggml_type_name(src->type) : "nothing",
                                   ggml_type_name(node->type), rows[i].takes);
        }
    }
    return error_set(err, ST_UNSUPPORTED, "the host does not compute it");
}

enum status host_compute(struct ggml_tensor * node, struct error * err) {
    enum status st = host_check_node(node, err);
    for (int i = 0; i < N_ROWS && st == ST_OK; i++) {
        if (rows[i].op == node->op) {
            return rows[i].compute(node, err);
        }
    }
    return st;
}
