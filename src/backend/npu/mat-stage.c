// mat-stage: operands of MUL_MAT laid out by the host, from any datatype that ggml can turn into
// floats and from any strides, to packed rows of bf16 pieces. Integers stay what they are. The pad
// elements are zero on both sides of a product and so add nothing to it.
#include "mat.h"
#include "panels.h"

#include "kernel/shared.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// How many rows of a quantized tensor are turned into columns at a time: a cache line of bf16.
#define COLUMN_BLOCK 32

static_assert(COLUMN_BLOCK % MAT_K_MULTIPLE == 0, "pads begin in the last block");

static int pieces_in(enum mat_pieces pieces) {
    return pieces == MAT_HI ? 1 : 3;
}

// ---- sources ----

struct mat_source mat_source_of(struct view view, bool columns) {
    if (columns && !ggml_is_quantized(view.type)) {
        struct view v = view;
        v.ne[0] = view.ne[1], v.ne[1] = view.ne[0];
        v.nb[0] = view.nb[1], v.nb[1] = view.nb[0];
        return (struct mat_source){.view = v};
    }
    return (struct mat_source){.view = view, .columns = columns};
}

bool mat_same_source(const struct mat_source * a, const struct mat_source * b) {
    const struct view *v = &a->view, *w = &b->view;
    return a->columns == b->columns && v->data == w->data && v->type == w->type &&
           !memcmp(v->ne, w->ne, sizeof v->ne) && !memcmp(v->nb, w->nb, sizeof v->nb) &&
           a->panel.rows == b->panel.rows && a->panel.words == b->panel.words;
}

int64_t mat_source_k(const struct mat_source * s) {
    return s->view.ne[s->columns];
}

bool mat_can_stage(const struct mat_source * s) {
    const struct view * v = &s->view;
    if ((unsigned) v->type >= GGML_TYPE_COUNT) { // of a later ggml
        return false;
    }
    if (ggml_is_quantized(v->type)) {
        return ggml_get_type_traits(v->type)->to_float && v->nb[0] == ggml_type_size(v->type) &&
               v->ne[0] % ggml_blck_size(v->type) == 0;
    }
    return mat_is_integer(v->type) || v->type == GGML_TYPE_F32 || v->type == GGML_TYPE_F16 ||
           v->type == GGML_TYPE_BF16;
}

bool mat_can_store(const struct mat_source * s) {
    const struct view * v = &s->view;
    return !s->columns && !mat_is_integer(v->type) && v->ne[0] % SHARED_SLICE == 0 &&
           v->ne[1] % SHARED_EIGHT == 0 && v->ne[2] == 1 && v->ne[3] == 1;
}

struct view mat_packed(const struct mat_source * s, enum mat_pieces pieces, void * data) {
    const int64_t * ne = s->view.ne;
    if (pieces == MAT_STORED) {
        return view_contiguous(GGML_TYPE_I8, (int64_t[]){shared_row_bytes(ne[0]), ne[1], 1, 1},
                               data);
    }
    int64_t k = GGML_PAD(mat_source_k(s), MAT_K_MULTIPLE) * pieces_in(pieces);
    return view_contiguous(mat_is_integer(s->view.type) ? s->view.type : GGML_TYPE_BF16,
                           (int64_t[]){k, ne[!s->columns], ne[2], ne[3]}, data);
}

// ---- blocks ----

bool mat_padded(const struct mat_world * w, const struct mat_source * s, struct mat_source * out) {
    enum { LEAST_BLOCKS = 3, PART = 12 }; // what lies better is a twelfth longer at most
    const struct view * v = &s->view;
    int64_t block = ggml_blck_size(v->type);
    bool found = false;
    if (s->columns || block == 1 || v->nb[0] != ggml_type_size(v->type) || mat_streams(s, MAT_HI)) {
        return false;
    }
    for (int64_t n = 1; found ? PART * n * block <= v->ne[0] : n <= LEAST_BLOCKS; n++) {
        const int64_t ne[] = {v->ne[0] + n * block, v->ne[1], v->ne[2], v->ne[3]};
        struct mat_source padded = {.view = view_contiguous(v->type, ne, NULL)};
        if (!mat_streams(&padded, MAT_HI)) {
            continue;
        }
        // A chunk that is all of a row wants so much of a memtile that reading does not run ahead.
        bool lies = panels_asked() && mat_panel(w, &padded.view, &padded.panel) &&
                    2 * 4 * (size_t) padded.panel.words <= padded.view.nb[1];
        *out = found && !lies ? *out : padded;
        found = true;
        if (lies || !panels_asked()) {
            break;
        }
    }
    return found;
}

void mat_stage_padded(const struct mat_source * s, const struct view * out) {
    const struct view * v = &s->view;
    size_t bytes = ggml_row_size(v->type, v->ne[0]);
    char * to = out->data;
    for (int64_t row = 0; row < v->ne[1] * v->ne[2] * v->ne[3]; row++, to += out->nb[1]) {
        const char * from = v->data + (size_t) (row % v->ne[1]) * v->nb[1] +
                            (size_t) (row / v->ne[1] % v->ne[2]) * v->nb[2] +
                            (size_t) (row / v->ne[1] / v->ne[2]) * v->nb[3];
        memcpy(to, from, bytes);
        memset(to + bytes, 0, out->nb[1] - bytes);
    }
}

// ---- bf16 ----

// To nearest even; a NaN stays one.
static uint16_t to_bf16(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t) ((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded);
}

// Writes the pieces of one element; out points at its place in the first piece. An infinity stands
// in the first piece alone: its rest would be NaN, and a zero times it as well.
static void put_pieces(float v, enum mat_pieces pieces, int64_t padded, uint16_t * out) {
    uint16_t hi = to_bf16(v);
    bool is_finite = (hi & 0x7f80) != 0x7f80;
    uint32_t bits = (uint32_t) hi << 16;
    float h;
    memcpy(&h, &bits, sizeof h);
    uint16_t again = is_finite ? hi : 0, lo = is_finite ? to_bf16(v - h) : 0;
    out[0] = hi;
    out[padded] = pieces == MAT_LEFT ? lo : again;
    out[2 * padded] = pieces == MAT_LEFT ? again : lo;
}

void mat_put_row(const float * row, int64_t k, enum mat_pieces pieces, uint16_t * out) {
    int64_t padded = GGML_PAD(k, MAT_K_MULTIPLE);
    if (pieces == MAT_HI) {
        for (int64_t i = 0; i < k; i++) {
            out[i] = to_bf16(row[i]);
        }
    } else {
        for (int64_t i = 0; i < k; i++) {
            put_pieces(row[i], pieces, padded, out + i);
        }
    }
    for (int p = 0; p < pieces_in(pieces); p++) {
        memset(out + p * padded + k, 0, (size_t) (padded - k) * sizeof *out);
    }
}

// ---- rows and columns ----

static void stage_integer_row(const struct view * v, const char * from, char * out) {
    size_t size = ggml_type_size(v->type);
    size_t k = (size_t) v->ne[0];
    if (v->nb[0] == size) {
        memcpy(out, from, k * size);
    } else {
        for (size_t i = 0; i < k; i++) {
            memcpy(out + i * size, from + i * v->nb[0], size);
        }
    }
    memset(out + k * size, 0, (GGML_PAD(k, MAT_K_MULTIPLE) - k) * size);
}

// One matrix of rows along k as stored block floats; `bytes` as below, NULL: it does not lie in
// panels.
static enum status stage_stored(const struct mat_source * s, char * out, float * row, char * bytes,
                                struct error * err) {
    const struct view * v = &s->view;
    int64_t group = SHARED_EIGHT * shared_row_bytes(v->ne[0]);
    for (int64_t r = 0; r < v->ne[1]; r++) {
        const char * from = v->data + (size_t) r * v->nb[1];
        if (bytes) {
            panels_row(&s->panel, v->data, v->nb[1], r, bytes);
            from = bytes;
        }
        host_load_row(v->type, from, v->nb[0], v->ne[0], row);
        uint8_t * to = (uint8_t *) out + r / SHARED_EIGHT * group;
        if (!shared_put_row(row, v->ne[0], (int) (r % SHARED_EIGHT), to)) {
            return error_set(err, ST_UNSUPPORTED,
                             "row %lld of the weights has a number that block floats do not have",
                             (long long) r);
        }
    }
    return ST_OK;
}

// One matrix of rows along k that lies in panels; `bytes` has room for a row of it.
static void stage_panels(const struct mat_source * s, const char * from, enum mat_pieces pieces,
                         size_t out_stride, char * out, float * row, char * bytes) {
    const struct view * v = &s->view;
    for (int64_t r = 0; r < v->ne[1]; r++, out += out_stride) {
        panels_row(&s->panel, from, v->nb[1], r, bytes);
        host_load_row(v->type, bytes, v->nb[0], v->ne[0], row);
        mat_put_row(row, v->ne[0], pieces, (uint16_t *) (void *) out);
    }
}

// One matrix of rows along k.
static void stage_rows(const struct view * v, const char * from, enum mat_pieces pieces,
                       size_t out_stride, char * out, float * row) {
    for (int64_t r = 0; r < v->ne[1]; r++, from += v->nb[1], out += out_stride) {
        if (mat_is_integer(v->type)) {
            stage_integer_row(v, from, out);
        } else {
            host_load_row(v->type, from, v->nb[0], v->ne[0], row);
            mat_put_row(row, v->ne[0], pieces, (uint16_t *) (void *) out);
        }
    }
}

// One matrix of rows across k; `rows` has room for COLUMN_BLOCK of them.
static void stage_columns(const struct view * v, const char * from, enum mat_pieces pieces,
                          size_t out_stride, char * out, float * rows) {
    int64_t k = v->ne[1], padded = GGML_PAD(k, MAT_K_MULTIPLE), n = v->ne[0];
    for (int64_t first = 0; first < padded; first += COLUMN_BLOCK) {
        int64_t end = first + COLUMN_BLOCK < padded ? first + COLUMN_BLOCK : padded;
        for (int64_t i = first; i < end; i++) {
            float * row = rows + (i - first) * n;
            if (i < k) {
                host_load_row(v->type, from + (size_t) i * v->nb[1], v->nb[0], n, row);
            } else {
                memset(row, 0, (size_t) n * sizeof *row);
            }
        }
        for (int64_t r = 0; r < n; r++) {
            uint16_t * at = (uint16_t *) (void *) (out + (size_t) r * out_stride);
            for (int64_t i = first; i < end; i++) {
                float value = rows[(i - first) * n + r];
                if (pieces == MAT_HI) {
                    at[i] = to_bf16(value);
                } else {
                    put_pieces(value, pieces, padded, at + i);
                }
            }
        }
    }
}

enum status mat_stage(const struct mat_source * s, enum mat_pieces pieces, char * out,
                      struct error * err) {
    const struct view * v = &s->view;
    struct view packed = mat_packed(s, pieces, out);
    float * rows;
    enum status st = host_row_alloc(v->ne[0] * (s->columns ? COLUMN_BLOCK : 1), &rows, err);
    char * bytes = st == ST_OK && s->panel.rows ? malloc(v->nb[1]) : NULL;
    if (st == ST_OK && s->panel.rows && !bytes) {
        free(rows);
        st = error_set(err, ST_NO_MEMORY, "no memory for a row of %zu bytes", v->nb[1]);
    }
    if (st != ST_OK) {
        return st;
    }
    if (pieces == MAT_STORED) {
        st = stage_stored(s, out, rows, bytes, err);
    }
    for (int64_t i3 = 0; pieces != MAT_STORED && i3 < v->ne[3]; i3++) {
        for (int64_t i2 = 0; i2 < v->ne[2]; i2++) {
            const char * from = v->data + (size_t) i2 * v->nb[2] + (size_t) i3 * v->nb[3];
            char * to = out + (size_t) i2 * packed.nb[2] + (size_t) i3 * packed.nb[3];
            if (bytes) {
                stage_panels(s, from, pieces, packed.nb[1], to, rows, bytes);
            } else {
                (s->columns ? stage_columns : stage_rows)(v, from, pieces, packed.nb[1], to, rows);
            }
        }
    }
    free(bytes);
    free(rows);
    return st;
}
