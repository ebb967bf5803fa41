// host-ops: copies between tensors on the host. Three ways cover every pair of types: equal types
// move as opaque elements (a quantized block is one element), a quantized destination is written
// row by row from gathered floats, anything else is read row by row and scattered. Values agree
// with ggml's CPU backend: conversions go through f32 and round to nearest even, and quantized rows
// are made by the CPU backend's own functions.
#include "host-ops.h"

#include "backend/cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIN(a, b) ((a) < (b) ? (a) : (b))

static bool is_float(enum ggml_type t) {
    return t == GGML_TYPE_F32 || t == GGML_TYPE_F16 || t == GGML_TYPE_BF16;
}

// Types that rows of floats are quantized to without a calibration; the others need tables that
// only ggml_quantize_init builds, and the CPU backend does not copy to them either.
bool host_can_quantize_to(enum ggml_type t) {
    switch (t) {
    case GGML_TYPE_IQ3_XXS:
    case GGML_TYPE_IQ3_S:
    case GGML_TYPE_IQ2_XXS:
    case GGML_TYPE_IQ2_XS:
    case GGML_TYPE_IQ2_S:
    case GGML_TYPE_IQ1_S:
    case GGML_TYPE_IQ1_M:
        return false;
    default:
        return ggml_is_quantized(t) && ggml_get_type_traits(t)->from_float_ref;
    }
}

bool host_can_copy(const struct ggml_tensor * src, const struct ggml_tensor * dst) {
    enum ggml_type s = src->type, d = dst->type;
    if (ggml_nelements(src) != ggml_nelements(dst)) {
        return false;
    }
    if (s == d) {
        return true;
    }
    // Rows of quantized blocks are read and written whole.
    if (ggml_is_quantized(d)) {
        return is_float(s) && host_can_quantize_to(d) && dst->nb[0] == ggml_type_size(d);
    }
    if (ggml_is_quantized(s)) {
        return d == GGML_TYPE_F32 && ggml_get_type_traits(s)->to_float &&
               src->nb[0] == ggml_type_size(s);
    }
    return (is_float(s) && is_float(d)) || (s == GGML_TYPE_F32 && d == GGML_TYPE_I32) ||
           (s == GGML_TYPE_I32 && d == GGML_TYPE_F32);
}

// ---- rows of floats ----

void host_load_row(enum ggml_type type, const char * src, size_t stride, int64_t n, float * out) {
    ggml_to_float_t convert = ggml_get_type_traits(type)->to_float;
    bool packed = ggml_is_quantized(type) || stride == ggml_type_size(type);
    if (type == GGML_TYPE_I32) {
        for (int64_t i = 0; i < n; i++) {
            int32_t v;
            memcpy(&v, src + (size_t) i * stride, sizeof v);
            out[i] = (float) v;
        }
    } else if (type == GGML_TYPE_F32 && packed) {
        memcpy(out, src, (size_t) n * sizeof *out);
    } else if (type == GGML_TYPE_F32) {
        for (int64_t i = 0; i < n; i++) {
            memcpy(&out[i], src + (size_t) i * stride, sizeof *out);
        }
    } else if (packed) {
        convert(src, out, n);
    } else {
        for (int64_t i = 0; i < n; i++) {
            convert(src + (size_t) i * stride, &out[i], 1);
        }
    }
}

static int32_t to_i32(float v) {
    if (isnan(v)) {
        return 0;
    }
    return v >= 2147483648.0f ? INT32_MAX : v < -2147483648.0f ? INT32_MIN : (int32_t) v;
}

void host_store_row(enum ggml_type type, char * dst, size_t stride, int64_t n, const float * in) {
    ggml_from_float_t convert =
        ggml_is_quantized(type) ? cpu_from_float(type) : ggml_get_type_traits(type)->from_float_ref;
    bool packed = ggml_is_quantized(type) || stride == ggml_type_size(type);
    if (type == GGML_TYPE_I32) {
        for (int64_t i = 0; i < n; i++) {
            int32_t v = to_i32(in[i]);
            memcpy(dst + (size_t) i * stride, &v, sizeof v);
        }
    } else if (type == GGML_TYPE_F32 && packed) {
        memcpy(dst, in, (size_t) n * sizeof *in);
    } else if (type == GGML_TYPE_F32) {
        for (int64_t i = 0; i < n; i++) {
            memcpy(dst + (size_t) i * stride, &in[i], sizeof *in);
        }
    } else if (packed) {
        convert(in, dst, n);
    } else {
        for (int64_t i = 0; i < n; i++) {
            convert(&in[i], dst + (size_t) i * stride, 1);
        }
    }
}

// ---- walking a view in element order ----

struct cursor {
    const struct view * view;
    int64_t ne0; // elements of a row: blocks where the type moves as blocks
    int64_t i[GGML_MAX_DIMS];
};

static char * cursor_at(const struct cursor * c) {
    const size_t * nb = c->view->nb;
    return c->view->data + (size_t) c->i[0] * nb[0] + (size_t) c->i[1] * nb[1] +
           (size_t) c->i[2] * nb[2] + (size_t) c->i[3] * nb[3];
}

static int64_t cursor_left(const struct cursor * c) { // in this row
    return c->ne0 - c->i[0];
}

static void cursor_advance(struct cursor * c, int64_t n) { // at most to the end of the row
    c->i[0] += n;
    if (c->i[0] == c->ne0) {
        c->i[0] = 0;
        for (int d = 1; d < GGML_MAX_DIMS && ++c->i[d] == c->view->ne[d]; d++) {
            c->i[d] = 0;
        }
    }
}

static int64_t rows_of(const struct view * v) {
    return v->ne[1] * v->ne[2] * v->ne[3];
}

// ---- copies ----

// Counts, which are results of kernels as i32. Through floats the large ones would be rounded.
static void copy_widened(const struct view * src, const struct view * dst) {
    struct cursor s = {.view = src, .ne0 = src->ne[0]};
    struct cursor d = {.view = dst, .ne0 = dst->ne[0]};
    for (int64_t n = src->ne[0] * rows_of(src); n > 0; n--) {
        int32_t v;
        memcpy(&v, cursor_at(&s), sizeof v);
        int64_t wide = v;
        memcpy(cursor_at(&d), &wide, sizeof wide);
        cursor_advance(&s, 1);
        cursor_advance(&d, 1);
    }
}

static void move_elements(char * dst, size_t dst_stride, const char * src, size_t src_stride,
                          size_t size, int64_t n) {
    if (dst_stride == size && src_stride == size) {
        memmove(dst, src, size * (size_t) n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy(dst + (size_t) i * dst_stride, src + (size_t) i * src_stride, size);
    }
}

static void copy_same_type(const struct view * src, const struct view * dst) {
    size_t size = ggml_type_size(src->type);
    int64_t block = ggml_blck_size(src->type);
    int64_t total = src->ne[0] / block * rows_of(src);
    if (view_is_packed(src) && view_is_packed(dst)) {
        memmove(dst->data, src->data, size * (size_t) total);
        return;
    }
    struct cursor s = {.view = src, .ne0 = src->ne[0] / block};
    struct cursor d = {.view = dst, .ne0 = dst->ne[0] / block};
    while (total > 0) {
        int64_t run = MIN(cursor_left(&s), cursor_left(&d));
        move_elements(cursor_at(&d), dst->nb[0], cursor_at(&s), src->nb[0], size, run);
        cursor_advance(&s, run);
        cursor_advance(&d, run);
        total -= run;
    }
}

static void copy_gather(const struct view * src, const struct view * dst, float * row) {
    struct cursor s = {.view = src, .ne0 = src->ne[0]};
    struct cursor d = {.view = dst, .ne0 = dst->ne[0]};
    for (int64_t r = rows_of(dst); r > 0; r--) {
        for (int64_t done = 0; done < dst->ne[0];) {
            int64_t run = MIN(cursor_left(&s), dst->ne[0] - done);
            host_load_row(src->type, cursor_at(&s), src->nb[0], run, row + done);
            cursor_advance(&s, run);
            done += run;
        }
        host_store_row(dst->type, cursor_at(&d), dst->nb[0], dst->ne[0], row);
        cursor_advance(&d, dst->ne[0]);
    }
}

static void copy_scatter(const struct view * src, const struct view * dst, float * row) {
    struct cursor s = {.view = src, .ne0 = src->ne[0]};
    struct cursor d = {.view = dst, .ne0 = dst->ne[0]};
    for (int64_t r = rows_of(src); r > 0; r--) {
        host_load_row(src->type, cursor_at(&s), src->nb[0], src->ne[0], row);
        cursor_advance(&s, src->ne[0]);
        for (int64_t done = 0; done < src->ne[0];) {
            int64_t run = MIN(cursor_left(&d), src->ne[0] - done);
            host_store_row(dst->type, cursor_at(&d), dst->nb[0], run, row + done);
            cursor_advance(&d, run);
            done += run;
        }
    }
}

enum status host_row_alloc(int64_t n, float ** row, struct error * err) {
    *row = malloc((size_t) n * sizeof **row);
    return *row ? ST_OK
                : error_set(err, ST_NO_MEMORY, "no memory for a row of %lld floats", (long long) n);
}

enum status host_copy(const struct view * src, const struct view * dst, struct error * err) {
    if (src->ne[0] * rows_of(src) == 0) {
        return ST_OK;
    }
    if (src->type == dst->type) {
        copy_same_type(src, dst);
        return ST_OK;
    }
    if (src->type == GGML_TYPE_I32 && dst->type == GGML_TYPE_I64) {
        copy_widened(src, dst);
        return ST_OK;
    }
    bool gather = ggml_is_quantized(dst->type);
    float * row;
    enum status st = host_row_alloc(gather ? dst->ne[0] : src->ne[0], &row, err);
    if (st == ST_OK) {
        (gather ? copy_gather : copy_scatter)(src, dst, row);
        free(row);
    }
    return st;
}

// Fills n bytes by repeating the first `done` of them.
static void repeat_bytes(char * data, size_t done, size_t n) {
    while (done < n) {
        size_t more = MIN(done, n - done);
        memcpy(data + done, data, more);
        done += more;
    }
}

enum status host_expand(const struct view * src, const struct view * dst, struct error * err) {
    if (dst->ne[0] * rows_of(dst) == 0) {
        return ST_OK;
    }
    float * row = NULL;
    if (src->type != dst->type) {
        enum status st = host_row_alloc(src->ne[0], &row, err);
        if (st != ST_OK) {
            return st;
        }
    }
    size_t size = ggml_type_size(dst->type);
    struct cursor d = {.view = dst, .ne0 = dst->ne[0]};
    for (int64_t r = rows_of(dst); r > 0; r--) {
        const char * from = src->data;
        for (int k = 1; k < GGML_MAX_DIMS; k++) {
            from += (size_t) (d.i[k] % src->ne[k]) * src->nb[k];
        }
        char * to = cursor_at(&d);
        if (row) {
            host_load_row(src->type, from, src->nb[0], src->ne[0], row);
            host_store_row(dst->type, to, dst->nb[0], src->ne[0], row);
        } else {
            move_elements(to, dst->nb[0], from, src->nb[0], size, src->ne[0]);
        }
        if (dst->nb[0] == size) {
            repeat_bytes(to, size * (size_t) src->ne[0], size * (size_t) dst->ne[0]);
        } else {
            for (int64_t i = src->ne[0]; i < dst->ne[0]; i++) {
                memcpy(to + (size_t) i * dst->nb[0], to + (size_t) (i - src->ne[0]) * dst->nb[0],
                       size);
            }
        }
        cursor_advance(&d, dst->ne[0]);
    }
    free(row);
    return ST_OK;
}
