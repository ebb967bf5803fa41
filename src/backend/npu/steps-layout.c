// steps-layout: ops whose results are their sources at another place, with something around them
// or added to them: PAD, PAD_REFLECT_1D, ROLL, SET, ACC, DIAG, FILL, REPEAT_BACK.
#include "steps.h"

#include <string.h>

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// ---- PAD, ROLL: pieces of a source, once or around a ring ----

// Along each dimension the source is seen from `shift` on, again and again; a piece for each time.
static void ring(struct steps * s, struct view from, struct view to, const int64_t shift[],
                 int dim) {
    if (dim < 0) {
        steps_move(s, from, to);
        return;
    }
    int64_t n = from.ne[dim];
    for (int64_t at = 0, take; at < to.ne[dim] && s->status == ST_OK; at += take) {
        int64_t first = ((at - shift[dim]) % n + n) % n;
        take = least(n - first, to.ne[dim] - at);
        ring(s, steps_row(from, dim, first, take), steps_row(to, dim, at, take), shift, dim - 1);
    }
}

void steps_pad(struct steps * s, const struct ggml_tensor * node) {
    struct view from = steps_src(s, 0), to = steps_dst(s);
    int64_t left[GGML_MAX_DIMS];
    bool circular = node->op_params[8] != 0,
         sound = from.type == GGML_TYPE_F32 && to.type == from.type;
    for (int d = 0; d < GGML_MAX_DIMS && sound; d++) {
        int64_t right = node->op_params[2 * d + 1];
        left[d] = node->op_params[2 * d];
        sound = left[d] >= 0 && right >= 0 && from.ne[d] + left[d] + right == to.ne[d];
    }
    steps_need(s, sound, "datatypes or shapes");
    if (s->status != ST_OK) {
        return;
    }
    if (circular) {
        ring(s, from, to, left, GGML_MAX_DIMS - 1);
        return;
    }
    steps_fill(s, to, 0);
    for (int d = 0; d < GGML_MAX_DIMS; d++) {
        to = steps_row(to, d, left[d], from.ne[d]);
    }
    steps_move(s, from, to);
}

void steps_roll(struct steps * s, const struct ggml_tensor * node) {
    struct view from = steps_src(s, 0), to = steps_dst(s);
    int64_t shift[GGML_MAX_DIMS];
    bool sound = from.type == GGML_TYPE_F32 && to.type == from.type;
    for (int d = 0; d < GGML_MAX_DIMS; d++) {
        shift[d] = node->op_params[d];
        sound = sound && from.ne[d] == to.ne[d];
    }
    steps_need(s, sound, "datatypes or shapes");
    if (s->status == ST_OK) {
        ring(s, from, to, shift, GGML_MAX_DIMS - 1);
    }
}

// Descriptors walk forwards alone: what is mirrored is a copy for each column.
void steps_pad_reflect(struct steps * s, const struct ggml_tensor * node) {
    struct view from = steps_src(s, 0), to = steps_dst(s);
    int64_t p0 = node->op_params[0], p1 = node->op_params[1], n = from.ne[0];
    bool sound = from.type == GGML_TYPE_F32 && to.type == from.type && p0 >= 0 && p1 >= 0 &&
                 p0 < n && p1 < n && to.ne[0] == p0 + n + p1;
    for (int d = 1; d < GGML_MAX_DIMS; d++) {
        sound = sound && from.ne[d] == to.ne[d];
    }
    steps_need(s, sound, "datatypes or shapes");
    steps_move(s, from, steps_row(to, 0, p0, n));
    for (int64_t i = 1; i <= p0 && s->status == ST_OK; i++) {
        steps_move(s, steps_row(from, 0, i, 1), steps_row(to, 0, p0 - i, 1));
    }
    for (int64_t i = 1; i <= p1 && s->status == ST_OK; i++) {
        steps_move(s, steps_row(from, 0, n - 1 - i, 1), steps_row(to, 0, p0 + n - 1 + i, 1));
    }
}

// ---- SET, ACC ----

// Where in the result the second source goes; the parameters come from anywhere.
static struct view window(struct steps * s, const struct ggml_tensor * node) {
    struct view to = steps_dst(s), b = steps_src(s, 1);
    const int32_t * p = node->op_params;
    bool sound = p[0] >= 0 && p[1] >= 0 && p[2] >= 0 && p[3] >= 0 && node->type == b.type &&
                 node->src[0]->type == b.type && ggml_are_same_shape(node, node->src[0]) &&
                 view_is_packed(&to) && b.nb[0] == ggml_type_size(b.type);
    size_t all = view_bytes(&to);
    memcpy(to.ne, b.ne, sizeof to.ne);
    for (int d = 1; d < GGML_MAX_DIMS && sound; d++) {
        to.nb[d] = (size_t) p[d - 1];
        sound = to.ne[d] == 1 || to.nb[d] > 0;
    }
    sound = sound && (size_t) p[3] <= all && view_bytes(&to) <= all - (size_t) p[3];
    steps_need(s, sound, "datatypes, shapes or strides");
    to.data += sound ? p[3] : 0;
    return to;
}

static void copy_unless_inplace(struct steps * s, const struct ggml_tensor * node) {
    struct view a = steps_src(s, 0), to = steps_dst(s);
    steps_need(s, view_is_packed(&a), "a source that is not contiguous");
    if (!node->op_params[4] && a.data != to.data) {
        steps_move(s, a, to);
    }
}

void steps_set(struct steps * s, const struct ggml_tensor * node) {
    struct view to = window(s, node);
    steps_need(s, node->type == GGML_TYPE_F32 || node->type == GGML_TYPE_I32, "datatypes");
    copy_unless_inplace(s, node);
    steps_move(s, steps_src(s, 1), to);
}

void steps_acc(struct steps * s, const struct ggml_tensor * node) {
    struct view to = window(s, node);
    steps_need(s, node->type == GGML_TYPE_F32, "datatypes");
    copy_unless_inplace(s, node);
    steps_binary(s, KERNEL_OP_ADD, to, steps_src(s, 1), to);
}

// ---- DIAG, FILL, REPEAT_BACK ----

void steps_diag(struct steps * s, const struct ggml_tensor * node) {
    struct view a = steps_src(s, 0), to = steps_dst(s);
    bool sound = a.type == GGML_TYPE_F32 && to.type == a.type && a.ne[1] == 1 &&
                 to.ne[0] == a.ne[0] && to.ne[1] == a.ne[0] && to.ne[2] == a.ne[2] &&
                 to.ne[3] == a.ne[3] && view_is_packed(&to);
    (void) node;
    steps_need(s, sound, "datatypes or shapes");
    steps_fill(s, to, 0);
    to.nb[0] += to.nb[1];
    to.ne[1] = 1;
    steps_move(s, a, to);
}

void steps_filled(struct steps * s, const struct ggml_tensor * node) {
    struct view to = steps_dst(s);
    bool whole =
        to.type == GGML_TYPE_F32 || (to.type == GGML_TYPE_F16 && view_bytes(&to) % DMA_WORD == 0);
    steps_need(s, whole && view_is_packed(&to), "datatypes or strides");
    steps_fill(s, to, steps_float(node, 0));
}

void steps_repeat_back(struct steps * s, const struct ggml_tensor * node) {
    struct view from = steps_src(s, 0), to = steps_dst(s);
    int64_t n = 1, times[GGML_MAX_DIMS];
    bool sound = from.type == GGML_TYPE_F32 && to.type == from.type;
    for (int d = 0; d < GGML_MAX_DIMS && sound; d++) {
        sound = from.ne[d] % node->ne[d] == 0;
        times[d] = from.ne[d] / node->ne[d];
        n *= times[d];
    }
    steps_need(s, sound, "datatypes or shapes");
    struct view sum = to;
    for (int64_t i = 0; i < n && s->status == ST_OK; i++) {
        struct view v = from;
        for (int64_t d = 0, at = i; d < GGML_MAX_DIMS; at /= times[d++]) {
            v = steps_row(v, (int) d, at % times[d] * to.ne[d], to.ne[d]);
        }
        if (i == 0) {
            steps_move(s, v, sum);
        } else {
            steps_binary(s, KERNEL_OP_ADD, sum, v, sum);
        }
    }
}
