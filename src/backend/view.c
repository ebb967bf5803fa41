// view: a tensor as it lies in memory, apart from the node that it belongs to.
#include "view.h"

#include <string.h>

struct view view_of(const struct ggml_tensor * t) {
    struct view v = {.type = t->type, .data = t->data};
    memcpy(v.ne, t->ne, sizeof v.ne);
    memcpy(v.nb, t->nb, sizeof v.nb);
    return v;
}

struct view view_contiguous(enum ggml_type type, const int64_t ne[GGML_MAX_DIMS], void * data) {
    struct view v = {.type = type, .data = data};
    memcpy(v.ne, ne, sizeof v.ne);
    v.nb[0] = ggml_type_size(type);
    v.nb[1] = ggml_row_size(type, ne[0]);
    v.nb[2] = v.nb[1] * (size_t) ne[1];
    v.nb[3] = v.nb[2] * (size_t) ne[2];
    return v;
}

size_t view_bytes(const struct view * v) {
    size_t block = (size_t) ggml_blck_size(v->type);
    size_t bytes = ((size_t) v->ne[0] / block - 1) * v->nb[0] + ggml_type_size(v->type);
    for (int d = 0; d < GGML_MAX_DIMS; d++) {
        if (v->ne[d] <= 0) {
            return 0;
        }
        bytes += d ? (size_t) (v->ne[d] - 1) * v->nb[d] : 0;
    }
    return bytes;
}

bool view_is_packed(const struct view * v) {
    struct view packed = view_contiguous(v->type, v->ne, v->data);
    for (int d = 0; d < GGML_MAX_DIMS; d++) {
        int64_t n = d == 0 ? v->ne[0] / ggml_blck_size(v->type) : v->ne[d];
        if (n != 1 && v->nb[d] != packed.nb[d]) {
            return false;
        }
    }
    return true;
}

static bool lie_alike(const struct view * a, const struct view * b) {
    if (a->data != b->data || a->type != b->type || memcmp(a->ne, b->ne, sizeof a->ne)) {
        return false;
    }
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        if (a->ne[i] != 1 && a->nb[i] != b->nb[i]) {
            return false;
        }
    }
    return true;
}

bool view_clobbers(const struct view * dst, size_t unit, const struct view * src) {
    const char *d = dst->data, *s = src->data;
    if (!d || !s || lie_alike(dst, src)) {
        return false;
    }
    size_t d_size = GGML_PAD(view_bytes(dst), unit);
    return d < s + view_bytes(src) && s < d + d_size;
}
