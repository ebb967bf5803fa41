// steps-window: a window that goes over an image. Convolutions are products of the kernel with what
// the window sees, which descriptors gather; pools, and convolutions of each channel by itself, are
// sums over the places of the window of the image moved by as much. IM2COL, IM2COL_3D, CONV_2D,
// CONV_3D, CONV_2D_DW, POOL_1D, POOL_2D, SSM_CONV.
#include "steps.h"

#include <float.h>

enum { X, Y, Z, AXES };
enum { POOL_MAX, POOL_AVG }; // as ggml counts them

struct axis {
    int64_t in, out, taps;         // elements of the image, places and elements of the window
    int64_t stride, pad, dilation; // in elements of the image
};

struct window {
    struct axis axis[AXES];
    int64_t channels, images;
    struct view image;           // along the axes
    size_t to_channel, to_image; // bytes
};

// Parameters are anybody's: what they say must be what the shapes say.
static bool is_sound(const struct axis * a) {
    int64_t most = 1 << 30;
    return a->in > 0 && a->out > 0 && a->taps > 0 && a->stride > 0 && a->pad >= 0 &&
           a->dilation > 0 && a->stride < most && a->pad < most && a->dilation < most &&
           a->taps < most && a->in < most &&
           (a->in + 2 * a->pad - a->dilation * (a->taps - 1) - 1) / a->stride + 1 == a->out;
}

static void need_sound(struct steps * s, const struct window * w) {
    for (int i = 0; i < AXES; i++) {
        steps_need(s, is_sound(&w->axis[i]), "parameters and shapes");
    }
}

static struct axis no_axis(void) {
    return (struct axis){.in = 1, .out = 1, .taps = 1, .stride = 1, .dilation = 1};
}

// ---- what the window sees ----

static int64_t up(int64_t a, int64_t b) { // a / b, rounded up; b > 0
    return a > 0 ? (a + b - 1) / b : -(-a / b);
}

// The places at which an element of the window is inside of the image.
static void inside(const struct axis * a, int64_t tap, int64_t * first, int64_t * n) {
    int64_t at = tap * a->dilation - a->pad, end = up(a->in - at, a->stride);
    *first = at < 0 ? up(-at, a->stride) : 0;
    *n = (end < a->out ? end : a->out) - *first;
}

static int64_t row_elements(const struct window * w) {
    return w->axis[X].taps * w->axis[Y].taps * w->axis[Z].taps * w->channels;
}

static int64_t places(const struct window * w) {
    return w->axis[X].out * w->axis[Y].out * w->axis[Z].out;
}

// One element of the window at all places, in all channels. Without a third axis images are one
// dimension of it; with one, `image` says which.
static void gather_tap(struct steps * s, const struct window * w, const int64_t tap[AXES],
                       int64_t image, struct view out) {
    bool flat = w->axis[Z].out == 1 && w->axis[Z].taps == 1;
    struct view from = w->image, to = {.type = GGML_TYPE_F32, .data = out.data};
    size_t word = sizeof(float), step = (size_t) row_elements(w) * word, at = 0, size = word;
    for (int i = 0; i < AXES; i++) {
        const struct axis * a = &w->axis[i];
        int64_t first, n;
        inside(a, tap[i], &first, &n);
        if (n <= 0) {
            return;
        }
        from.data += (first * a->stride + tap[i] * a->dilation - a->pad) * (int64_t) from.nb[i];
        from.nb[i] *= (size_t) a->stride;
        from.ne[i] = to.ne[i] = n;
        to.nb[i] = step;
        to.data += (size_t) first * step;
        step *= (size_t) a->out;
        at += (size_t) tap[i] * size;
        size *= (size_t) a->taps;
    }
    to.data += at;
    int channel = flat ? Z : AXES;
    from.ne[channel] = to.ne[channel] = w->channels;
    from.nb[channel] = w->to_channel;
    to.nb[channel] = size;
    if (flat) {
        from.ne[AXES] = to.ne[AXES] = w->images;
        from.nb[AXES] = w->to_image;
        to.nb[AXES] = step;
    } else {
        from.data += (size_t) image * w->to_image;
        to.data += (size_t) image * step;
    }
    steps_move(s, from, to);
}

// Rows of what is seen, one for each place: out is [row_elements, places of all images].
static void gather(struct steps * s, const struct window * w, struct view out) {
    bool flat = w->axis[Z].out == 1 && w->axis[Z].taps == 1, border = false;
    for (int i = 0; i < AXES; i++) {
        border |= w->axis[i].pad > 0;
    }
    if (border) {
        steps_fill(s, out, 0);
    }
    for (int64_t image = 0; image < (flat ? 1 : w->images); image++) {
        int64_t tap[AXES];
        for (tap[Z] = 0; tap[Z] < w->axis[Z].taps; tap[Z]++) {
            for (tap[Y] = 0; tap[Y] < w->axis[Y].taps; tap[Y]++) {
                for (tap[X] = 0; tap[X] < w->axis[X].taps && s->status == ST_OK; tap[X]++) {
                    gather_tap(s, w, tap, image, out);
                }
            }
        }
    }
}

static void im2col(struct steps * s, const struct window * w) {
    struct view to = steps_dst(s), seen = to;
    steps_need(s,
               view_is_packed(&to) && to.ne[0] == row_elements(w) &&
                   ggml_nelements(s->node) == row_elements(w) * places(w) * w->images,
               "shapes");
    if (to.type != GGML_TYPE_F32) {
        seen = steps_like(s, &to);
    }
    gather(s, w, seen);
    if (to.type != GGML_TYPE_F32) {
        steps_narrow(s, seen, to);
    }
}

void steps_im2col(struct steps * s, const struct ggml_tensor * node) {
    const int32_t * p = node->op_params;
    const struct ggml_tensor * k = node->src[0];
    bool plane = p[6] == 1;
    struct view image = steps_widen(s, steps_src(s, 1));
    struct window w = {
        .axis = {{image.ne[0], node->ne[1], k->ne[0], p[0], p[2], p[4]}, no_axis(), no_axis()},
        .channels = image.ne[plane ? 2 : 1],
        .images = image.ne[plane ? 3 : 2],
        .image = image,
        .to_channel = image.nb[plane ? 2 : 1],
        .to_image = image.nb[plane ? 3 : 2],
    };
    if (plane) {
        w.axis[Y] = (struct axis){image.ne[1], node->ne[2], k->ne[1], p[1], p[3], p[5]};
    }
    need_sound(s, &w);
    if (s->status == ST_OK) {
        im2col(s, &w);
    }
}

static struct window window_3d(const struct ggml_tensor * node, struct view image,
                               const struct ggml_tensor * k, const int64_t out[AXES],
                               int64_t channels) {
    const int32_t * p = node->op_params;
    struct window w = {.channels = channels, .image = image, .to_channel = image.nb[3]};
    for (int i = 0; i < AXES; i++) {
        w.axis[i] = (struct axis){image.ne[i], out[i], k->ne[i], p[i], p[3 + i], p[6 + i]};
    }
    w.images = channels > 0 ? image.ne[3] / channels : 0;
    w.to_image = image.nb[3] * (size_t) channels;
    return w;
}

void steps_im2col_3d(struct steps * s, const struct ggml_tensor * node) {
    struct view image = steps_widen(s, steps_src(s, 1));
    int64_t channels = node->op_params[9], images = channels > 0 ? image.ne[3] / channels : 0;
    steps_need(s, images > 0 && images * channels == image.ne[3] && node->ne[3] % images == 0,
               "channels");
    if (s->status != ST_OK) {
        return;
    }
    const int64_t out[AXES] = {node->ne[1], node->ne[2], node->ne[3] / images};
    struct window w = window_3d(node, image, node->src[0], out, channels);
    need_sound(s, &w);
    if (s->status == ST_OK) {
        im2col(s, &w);
    }
}

// ---- convolutions ----

// An image after the other, so that what is seen takes no more room than one's.
static void convolve(struct steps * s, const struct window * w, int64_t filters, size_t to_image) {
    struct view to = steps_dst(s), kernel = steps_packed(s, steps_src(s, 0));
    int64_t k = row_elements(w), n = places(w);
    steps_need(s,
               view_is_packed(&to) && to.type == GGML_TYPE_F32 &&
                   ggml_nelements(s->node) == n * filters * w->images &&
                   ggml_nelements(s->node->src[0]) == k * filters,
               "datatypes or shapes");
    struct view seen = steps_temp(s, GGML_TYPE_F32, k, n, 1, 1);
    struct window one = *w;
    one.images = 1;
    for (int64_t i = 0; i < w->images && s->status == ST_OK; i++) {
        struct view part = steps_as(&to, n, filters, 1, 1);
        part.data += (size_t) i * to_image;
        gather(s, &one, seen);
        steps_product(s, seen, steps_as(&kernel, k, filters, 1, 1), part,
                      s->node->src[0]->type == GGML_TYPE_F32);
        one.image.data += w->to_image;
    }
}

void steps_conv_2d(struct steps * s, const struct ggml_tensor * node) {
    const int32_t * p = node->op_params;
    const struct ggml_tensor * k = node->src[0];
    struct view image = steps_widen(s, steps_src(s, 1));
    struct window w = {
        .axis = {{image.ne[0], node->ne[0], k->ne[0], p[0], p[2], p[4]},
                 {image.ne[1], node->ne[1], k->ne[1], p[1], p[3], p[5]},
                 no_axis()},
        .channels = image.ne[2],
        .images = image.ne[3],
        .image = image,
        .to_channel = image.nb[2],
        .to_image = image.nb[3],
    };
    need_sound(s, &w);
    steps_need(s, k->ne[2] == w.channels && k->ne[3] == node->ne[2], "channels");
    if (s->status == ST_OK) {
        convolve(s, &w, k->ne[3], node->nb[3]);
    }
}

void steps_conv_3d(struct steps * s, const struct ggml_tensor * node) {
    struct view image = steps_widen(s, steps_src(s, 1));
    int64_t channels = node->op_params[9], images = node->op_params[10],
            filters = node->op_params[11];
    struct window w = window_3d(node, image, node->src[0], node->ne, channels);
    need_sound(s, &w);
    steps_need(s,
               channels > 0 && filters > 0 && w.images == images &&
                   image.ne[3] == channels * images && node->ne[3] == filters * images,
               "channels");
    if (s->status == ST_OK) {
        convolve(s, &w, filters, node->nb[3] * (size_t) filters);
    }
}

// ---- sums over the places of a window ----

// The image with its border, as far as a window reaches into that.
static struct view bordered(struct steps * s, struct view image, const struct axis a[2],
                            const int dim[2], float border) {
    if (!a[0].pad && !a[1].pad) {
        return image;
    }
    struct view wide = image;
    for (int i = 0; i < 2; i++) {
        wide.ne[dim[i]] += 2 * a[i].pad;
    }
    wide = steps_like(s, &wide);
    steps_fill(s, wide, border);
    struct view middle = wide;
    for (int i = 0; i < 2; i++) {
        middle = steps_row(middle, dim[i], a[i].pad, a[i].in);
    }
    steps_move(s, image, middle);
    return wide;
}

static struct view at_tap(struct view v, const struct axis * a, int dim, int64_t tap) {
    v = steps_row(v, dim, tap * a->dilation, (a->out - 1) * a->stride + 1);
    return steps_every(v, dim, a->stride);
}

// The larger one of two, by a choice as in steps-series.c.
static void larger(struct steps * s, struct view a, struct view b, struct view out) {
    size_t used = s->used;
    struct view first = steps_like(s, &out), second = steps_like(s, &out);
    steps_binary(s, KERNEL_OP_SUB, a, b, first);
    steps_unary(s, KERNEL_OP_STEP, first, first);
    steps_params(s, KERNEL_OP_SCALE, first, second, -1, 1);
    steps_binary(s, KERNEL_OP_REGLU, first, a, first);
    steps_binary(s, KERNEL_OP_REGLU, second, b, second);
    steps_binary(s, KERNEL_OP_ADD, first, second, out);
    s->used = used;
}

static void pool(struct steps * s, struct view image, const struct axis a[2], bool max,
                 struct view to) {
    static const int dim[2] = {0, 1};
    struct view from = bordered(s, image, a, dim, max ? -FLT_MAX : 0);
    for (int64_t ty = 0; ty < a[1].taps; ty++) {
        for (int64_t tx = 0; tx < a[0].taps && s->status == ST_OK; tx++) {
            struct view v = at_tap(at_tap(from, &a[0], 0, tx), &a[1], 1, ty);
            if (tx == 0 && ty == 0) {
                steps_move(s, v, to);
            } else if (max) {
                larger(s, v, to, to);
            } else {
                steps_binary(s, KERNEL_OP_ADD, to, v, to);
            }
        }
    }
}

static void need_pool(struct steps * s, const struct ggml_tensor * node, const struct view * image,
                      const struct axis a[2]) {
    steps_need(s,
               node->type == GGML_TYPE_F32 && view_is_packed(image) && ggml_is_contiguous(node) &&
                   (node->op_params[0] == POOL_MAX || node->op_params[0] == POOL_AVG) &&
                   node->ne[2] == image->ne[2] && node->ne[3] == image->ne[3],
               "datatypes, shapes or kind");
    steps_need(s, is_sound(&a[0]) && is_sound(&a[1]), "parameters and shapes");
}

// A mean is over what is inside of the image.
void steps_pool_1d(struct steps * s, const struct ggml_tensor * node) {
    const int32_t * p = node->op_params;
    struct view image = steps_packed(s, steps_src(s, 0)), to = steps_dst(s);
    const struct axis a[2] = {{image.ne[0], to.ne[0], p[1], p[2], p[3], 1}, no_axis()};
    struct axis rows[2] = {a[0], a[1]};
    rows[1].in = rows[1].out = image.ne[1];
    need_pool(s, node, &image, a);
    steps_need(s, to.ne[1] == image.ne[1], "shapes");
    if (s->status != ST_OK) {
        return;
    }
    pool(s, image, rows, p[0] == POOL_MAX, to);
    if (p[0] == POOL_AVG) {
        struct view one = steps_temp(s, GGML_TYPE_F32, image.ne[0], 1, 1, 1),
                    n = steps_temp(s, GGML_TYPE_F32, to.ne[0], 1, 1, 1);
        steps_fill(s, one, 1);
        pool(s, one, a, false, n);
        steps_params(s, KERNEL_OP_CLAMP, n, n, 1, FLT_MAX);
        steps_binary(s, KERNEL_OP_DIV, to, n, to);
    }
}

void steps_pool_2d(struct steps * s, const struct ggml_tensor * node) {
    const int32_t * p = node->op_params;
    struct view image = steps_packed(s, steps_src(s, 0)), to = steps_dst(s);
    const struct axis a[2] = {{image.ne[0], to.ne[0], p[1], p[3], p[5], 1},
                              {image.ne[1], to.ne[1], p[2], p[4], p[6], 1}};
    need_pool(s, node, &image, a);
    if (s->status != ST_OK) {
        return;
    }
    pool(s, image, a, p[0] == POOL_MAX, to);
    if (p[0] == POOL_AVG) {
        steps_params(s, KERNEL_OP_SCALE, to, to, 1 / ((float) p[1] * (float) p[2]), 0);
    }
}

static struct view in_order(const struct view * v, const int order[GGML_MAX_DIMS]) {
    struct view out = *v;
    for (int d = 0; d < GGML_MAX_DIMS; d++) {
        out.ne[d] = v->ne[order[d]];
        out.nb[d] = v->nb[order[d]];
    }
    return out;
}

// Channels are the first dimension where they lie side by side.
void steps_conv_dw(struct steps * s, const struct ggml_tensor * node) {
    const int32_t * p = node->op_params;
    struct view to = steps_dst(s), image = steps_widen(s, steps_src(s, 1)),
                kernel = steps_widen(s, steps_src(s, 0));
    const struct axis a[2] = {{image.ne[0], to.ne[0], kernel.ne[0], p[0], p[2], p[4]},
                              {image.ne[1], to.ne[1], kernel.ne[1], p[1], p[3], p[5]}};
    bool sound = is_sound(&a[0]) && is_sound(&a[1]) && to.type == GGML_TYPE_F32 &&
                 kernel.ne[2] == 1 && kernel.ne[3] == image.ne[2] && to.ne[2] == image.ne[2] &&
                 to.ne[3] == image.ne[3];
    steps_need(s, sound, "datatypes, parameters or shapes");
    if (s->status != ST_OK) {
        return;
    }
    static const int as_is[] = {0, 1, 2, 3}, first[] = {2, 0, 1, 3};
    const int * order = to.nb[2] < to.nb[0] ? first : as_is;
    const int dim[2] = {order == first ? 1 : 0, order == first ? 2 : 1};
    struct view from = bordered(s, in_order(&image, order), a, dim, 0), out = in_order(&to, order);
    struct view sum = steps_like(s, &out), product = steps_like(s, &out);
    for (int64_t ty = 0; ty < a[1].taps; ty++) {
        for (int64_t tx = 0; tx < a[0].taps && s->status == ST_OK; tx++) {
            struct view v = at_tap(at_tap(from, &a[0], dim[0], tx), &a[1], dim[1], ty);
            struct view w = steps_row(steps_row(kernel, 0, tx, 1), 1, ty, 1);
            w.ne[2] = w.ne[3], w.nb[2] = w.nb[3]; // a number for each channel
            w.ne[3] = 1;
            bool begin = tx == 0 && ty == 0;
            steps_binary(s, KERNEL_OP_MUL, v, in_order(&w, order), begin ? sum : product);
            if (!begin) {
                steps_binary(s, KERNEL_OP_ADD, sum, product, sum);
            }
        }
    }
    steps_move(s, sum, out);
}

// Tokens lie side by side in the image, channels in the result: it is turned first.
void steps_ssm_conv(struct steps * s, const struct ggml_tensor * node) {
    static const int turn[] = {1, 0, 2, 3};
    struct view image = steps_src(s, 0), kernel = steps_src(s, 1), to = steps_dst(s);
    int64_t taps = kernel.ne[0], tokens = to.ne[1];
    steps_need(s,
               image.type == GGML_TYPE_F32 && kernel.type == GGML_TYPE_F32 &&
                   to.type == GGML_TYPE_F32 && image.ne[0] == tokens + taps - 1 &&
                   image.ne[1] == to.ne[0] && kernel.ne[1] == to.ne[0] && image.ne[2] == to.ne[2] &&
                   ggml_nrows(node->src[1]) == kernel.ne[1] && image.ne[3] == 1,
               "datatypes or shapes");
    if (s->status != ST_OK) {
        return;
    }
    struct view x = steps_packed(s, in_order(&image, turn)),
                w = steps_packed(s, in_order(&kernel, turn)), product = steps_like(s, &to),
                sum = steps_like(s, &to);
    for (int64_t tap = 0; tap < taps && s->status == ST_OK; tap++) {
        struct view last = tap == taps - 1 ? to : sum;
        steps_binary(s, KERNEL_OP_MUL, steps_row(x, 1, tap, tokens), steps_row(w, 1, tap, 1),
                     tap         ? product
                     : taps == 1 ? to
                                 : sum);
        if (tap) {
            steps_binary(s, KERNEL_OP_ADD, sum, product, last);
        }
    }
}
