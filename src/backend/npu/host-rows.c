// host-rows: rows by index. GET_ROWS reads the rows of src0 that src1 names, as f32 (integers as
// they are); SET_ROWS writes the rows of src0 to the places that src1 names, in dst's datatype. An
// index is data: one that points outside is an error of the graph, and nothing is read or written
// there.
#include "host-ops.h"

#include <stdlib.h>
#include <string.h>

int64_t rows_index(const struct ggml_tensor * t, int64_t i0, int64_t i1, int64_t i2) {
    const char * at = (const char *) t->data + (size_t) i0 * t->nb[0] +
                      (size_t) (i1 % t->ne[1]) * t->nb[1] + (size_t) (i2 % t->ne[2]) * t->nb[2];
    int32_t narrow;
    int64_t wide;
    if (t->type == GGML_TYPE_I64) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    memcpy(&narrow, at, sizeof narrow);
    return narrow;
}

static char * row_at(const struct ggml_tensor * t, int64_t i1, int64_t i2, int64_t i3) {
    return (char *) t->data + (size_t) i1 * t->nb[1] + (size_t) i2 * t->nb[2] +
           (size_t) i3 * t->nb[3];
}

enum status rows_bad_index(int64_t index, int64_t rows, struct error * err) {
    return error_set(err, ST_INVALID, "row %lld is asked for, there are %lld", (long long) index,
                     (long long) rows);
}

static bool is_index(const struct ggml_tensor * t, bool wide_too) {
    return t && (t->type == GGML_TYPE_I32 || (wide_too && t->type == GGML_TYPE_I64));
}

static bool rows_are_packed(const struct ggml_tensor * t) {
    return t->nb[0] == ggml_type_size(t->type);
}

// ---- GET_ROWS ----

bool host_can_get_rows(const struct ggml_tensor * node) {
    const struct ggml_tensor *src = node->src[0], *index = node->src[1];
    if (!src || !is_index(index, false)) {
        return false;
    }
    bool shapes = node->ne[0] == src->ne[0] && node->ne[1] == index->ne[0] &&
                  node->ne[2] == index->ne[1] && node->ne[3] == index->ne[2] &&
                  src->ne[2] == index->ne[1] && src->ne[3] == index->ne[2] && index->ne[3] == 1;
    if (src->type == node->type) {
        return shapes && !ggml_is_quantized(src->type);
    }
    return shapes && node->type == GGML_TYPE_F32 && ggml_get_type_traits(src->type)->to_float &&
           (!ggml_is_quantized(src->type) || rows_are_packed(src));
}

static void move_row(const struct ggml_tensor * node, const char * from, char * to, float * row) {
    const struct ggml_tensor * src = node->src[0];
    size_t size = ggml_type_size(node->type);
    if (src->type != node->type && rows_are_packed(node)) {
        host_load_row(src->type, from, src->nb[0], node->ne[0], (float *) (void *) to);
    } else if (src->type != node->type) {
        host_load_row(src->type, from, src->nb[0], node->ne[0], row);
        host_store_row(node->type, to, node->nb[0], node->ne[0], row);
    } else if (rows_are_packed(src) && rows_are_packed(node)) {
        memcpy(to, from, size * (size_t) node->ne[0]);
    } else {
        for (int64_t i = 0; i < node->ne[0]; i++) {
            memcpy(to + (size_t) i * node->nb[0], from + (size_t) i * src->nb[0], size);
        }
    }
}

enum status host_get_rows(const struct ggml_tensor * node, struct error * err) {
    const struct ggml_tensor *src = node->src[0], *index = node->src[1];
    float * row;
    enum status st = host_row_alloc(node->ne[0], &row, err);
    if (st != ST_OK) {
        return st;
    }
    for (int64_t i3 = 0; i3 < node->ne[3]; i3++) {
        for (int64_t i2 = 0; i2 < node->ne[2]; i2++) {
            for (int64_t i1 = 0; i1 < node->ne[1]; i1++) {
                int64_t at = rows_index(index, i1, i2, i3);
                if (at < 0 || at >= src->ne[1]) {
                    free(row);
                    return rows_bad_index(at, src->ne[1], err);
                }
                move_row(node, row_at(src, at, i2, i3), row_at(node, i1, i2, i3), row);
            }
        }
    }
    free(row);
    return ST_OK;
}

// ---- SET_ROWS ----

bool host_can_set_rows(const struct ggml_tensor * node) {
    const struct ggml_tensor *src = node->src[0], *index = node->src[1];
    if (!src || !is_index(index, true)) {
        return false;
    }
    bool shapes = node->ne[0] == src->ne[0] && node->ne[2] == src->ne[2] &&
                  node->ne[3] == src->ne[3] && src->ne[1] == index->ne[0] && index->ne[1] > 0 &&
                  index->ne[2] > 0 && src->ne[2] % index->ne[1] == 0 &&
                  src->ne[3] % index->ne[2] == 0 && index->ne[3] == 1;
    bool from = src->type == GGML_TYPE_F32 || src->type == GGML_TYPE_F16;
    bool to = node->type == GGML_TYPE_F32 || node->type == GGML_TYPE_F16 ||
              node->type == GGML_TYPE_BF16 || node->type == GGML_TYPE_I32 ||
              (host_can_quantize_to(node->type) && rows_are_packed(node));
    return shapes && from && to;
}

enum status host_set_rows(const struct ggml_tensor * node, struct error * err) {
    const struct ggml_tensor *src = node->src[0], *index = node->src[1];
    float * row;
    enum status st = host_row_alloc(src->ne[0], &row, err);
    if (st != ST_OK) {
        return st;
    }
    for (int64_t i3 = 0; i3 < src->ne[3]; i3++) {
        for (int64_t i2 = 0; i2 < src->ne[2]; i2++) {
            for (int64_t i1 = 0; i1 < src->ne[1]; i1++) {
                int64_t at = rows_index(index, i1, i2, i3);
                if (at < 0 || at >= node->ne[1]) {
                    free(row);
                    return rows_bad_index(at, node->ne[1], err);
                }
                host_load_row(src->type, row_at(src, i1, i2, i3), src->nb[0], src->ne[0], row);
                host_store_row(node->type, row_at(node, at, i2, i3), node->nb[0], node->ne[0], row);
            }
        }
    }
    free(row);
    return ST_OK;
}
