// check-layers: convolutions, pools, images of another size, and layers that carry a state.
#include "check-node.h"

#include <stdio.h>

#define Y(i) (*at(&n->y, i[0], i[1], i[2], i[3]))
#define X(k) (&n->x[k])

// 0 outside.
static double seen(const struct tensor * t, long i0, long i1, long i2, long i3) {
    bool in = i0 >= 0 && i0 < t->ne[0] && i1 >= 0 && i1 < t->ne[1] && i2 >= 0 && i2 < t->ne[2];
    return in ? *at(t, (size_t) i0, (size_t) i1, (size_t) i2, (size_t) i3) : 0;
}

// ---- columns and convolutions ----

static void im2col(struct node * n) { // of images
    const int32_t * p = n->p;
    EACH(n->y, i) {
        long kw = X(0)->ne[0], kh = X(0)->ne[1], k = (long) i[0];
        long ix = (long) i[1] * p[0] + k % kw * p[4] - p[2];
        long iy = (long) i[2] * p[1] + k / kw % kh * p[5] - p[3];
        Y(i) = seen(X(1), ix, iy, k / kw / kh, (long) i[3]);
    }
}

static void im2col_3d(struct node * n) {
    const int32_t * p = n->p;
    long batches = X(1)->ne[3] / p[9], depth = n->y.ne[3] / batches;
    EACH(n->y, i) {
        long kw = X(0)->ne[0], kh = X(0)->ne[1], kd = X(0)->ne[2], k = (long) i[0];
        long ix = (long) i[1] * p[0] + k % kw * p[6] - p[3];
        long iy = (long) i[2] * p[1] + k / kw % kh * p[7] - p[4];
        long iz = (long) i[3] % depth * p[2] + k / kw / kh % kd * p[8] - p[5];
        Y(i) = seen(X(1), ix, iy, iz, (long) i[3] / depth * p[9] + k / kw / kh / kd);
    }
}

static void clear(struct node * n) {
    memset(n->y.v, 0, size_of(&n->y) * sizeof *n->y.v);
}

static void col2im_1d(struct node * n) {
    size_t k = X(0)->ne[0] / (size_t) n->p[1];
    clear(n);
    EACH(n->x[0], i) {
        long t = (long) i[1] * n->p[0] + (long) (i[0] % k) - n->p[2];
        if (t >= 0 && t < n->y.ne[0]) {
            *at(&n->y, (size_t) t, i[0] / k, 0, 0) += *at(X(0), i[0], i[1], 0, 0);
        }
    }
}

static void conv_2d(struct node * n) {
    const int32_t * p = n->p;
    EACH(n->y, i) {
        Y(i) = 0;
        EACH(n->x[0], k) {
            double v =
                seen(X(1), (long) i[0] * p[0] + (long) k[0] * p[4] - p[2],
                     (long) i[1] * p[1] + (long) k[1] * p[5] - p[3], (long) k[2], (long) i[3]);
            Y(i) += k[3] == i[2] ? v * *at(X(0), k[0], k[1], k[2], k[3]) : 0;
        }
    }
}

static void conv_2d_dw(struct node * n) {
    const int32_t * p = n->p;
    EACH(n->y, i) {
        Y(i) = 0;
        EACH(n->x[0], k) {
            double v =
                seen(X(1), (long) i[0] * p[0] + (long) k[0] * p[4] - p[2],
                     (long) i[1] * p[1] + (long) k[1] * p[5] - p[3], (long) i[2], (long) i[3]);
            Y(i) += k[3] == i[2] ? v * *at(X(0), k[0], k[1], 0, k[3]) : 0;
        }
    }
}

static void conv_3d(struct node * n) {
    const int32_t * p = n->p;
    EACH(n->y, i) {
        size_t batch = i[3] / (size_t) p[11], oc = i[3] % (size_t) p[11];
        Y(i) = 0;
        EACH(n->x[0], k) {
            size_t ic = k[3] % (size_t) p[9];
            double v = seen(X(1), (long) i[0] * p[0] + (long) k[0] * p[6] - p[3],
                            (long) i[1] * p[1] + (long) k[1] * p[7] - p[4],
                            (long) i[2] * p[2] + (long) k[2] * p[8] - p[5],
                            (long) (batch * (size_t) p[9] + ic));
            Y(i) += k[3] / (size_t) p[9] == oc ? v * *at(X(0), k[0], k[1], k[2], k[3]) : 0;
        }
    }
}

static void conv_transpose_1d(struct node * n) {
    clear(n);
    EACH(n->x[0], k) {
        for (size_t t = 0; t < X(1)->ne[0]; t++) {
            *at(&n->y, t * (size_t) n->p[0] + k[0], k[1], 0, 0) +=
                *at(X(0), k[0], k[1], k[2], 0) * *at(X(1), t, k[2], 0, 0);
        }
    }
}

static void conv_transpose_2d(struct node * n) {
    size_t s = (size_t) n->p[0];
    clear(n);
    EACH(n->x[0], k) {
        EACH(n->x[1], i) {
            if (i[2] == k[3]) {
                *at(&n->y, i[0] * s + k[0], i[1] * s + k[1], k[2], i[3]) +=
                    *at(X(0), k[0], k[1], k[2], k[3]) * *at(X(1), i[0], i[1], i[2], i[3]);
            }
        }
    }
}

static void pool(struct node * n, int k0, int k1, int s0, int s1, int p0, int p1, bool inside) {
    EACH(n->y, i) {
        double most = -3.402823466e38, sum = 0, count = 0;
        for (int ky = 0; ky < k1; ky++) {
            for (int kx = 0; kx < k0; kx++) {
                long ix = (long) i[0] * s0 + kx - p0, iy = (long) i[1] * s1 + ky - p1;
                if (ix >= 0 && ix < X(0)->ne[0] && iy >= 0 && iy < X(0)->ne[1]) {
                    double v = *at(X(0), (size_t) ix, (size_t) iy, i[2], i[3]);
                    most = fmax(most, v);
                    sum += v;
                    count++;
                }
            }
        }
        Y(i) = n->p[0] == 0 ? most : sum / (inside ? count : k0 * k1);
    }
}
static void pool_1d(struct node * n) {
    pool(n, n->p[1], 1, n->p[2], 1, n->p[3], 0, true);
}
static void pool_2d(struct node * n) {
    pool(n, n->p[1], n->p[2], n->p[3], n->p[4], n->p[5], n->p[6], false);
}

// ---- images of another size: what lies between pixels, edges go on ----

static double pixel(const struct tensor * t, double i0, double i1, size_t i2, size_t i3) {
    double last0 = t->ne[0] - 1.0, last1 = t->ne[1] - 1.0;
    return *at(t, (size_t) fmin(fmax(i0, 0), last0), (size_t) fmin(fmax(i1, 0), last1), i2, i3);
}

static double weight(int mode, double off) { // of a pixel that is so far off
    double t = fabs(off), a = -0.75;
    return mode == 1 ? fmax(0, 1 - t)
           : t <= 1  ? (a + 2) * t * t * t - (a + 3) * t * t + 1
           : t < 2   ? a * (t * t * t - 5 * t * t + 8 * t - 4)
                     : 0;
}

static void upscale(struct node * n) {
    int mode = n->p[0] & 255;
    bool corners = n->p[0] >> 8 & 1, filter = n->p[0] >> 9 & 1;
    EACH(n->y, i) {
        double s[2], x[2], sum = 0, weights = 0;
        size_t i2 = i[2] * X(0)->ne[2] / n->y.ne[2], i3 = i[3] * X(0)->ne[3] / n->y.ne[3];
        for (int d = 0; d < 2; d++) {
            s[d] = corners ? (n->y.ne[d] - 1.0) / (X(0)->ne[d] - 1.0)
                           : (double) n->y.ne[d] / X(0)->ne[d];
            x[d] = corners ? (double) i[d] / s[d] : ((double) i[d] + 0.5) / s[d] - 0.5;
        }
        if (mode == 0) {
            Y(i) = pixel(X(0), floor((double) i[0] / s[0]), floor((double) i[1] / s[1]), i2, i3);
            continue;
        }
        double r0 = filter && s[0] < 1 ? 1 / s[0] : 1, r1 = filter && s[1] < 1 ? 1 / s[1] : 1;
        for (double py = floor(x[1] - 2 * r1); py <= x[1] + 2 * r1 + 1; py++) {
            for (double px = floor(x[0] - 2 * r0); px <= x[0] + 2 * r0 + 1; px++) {
                bool in = px >= 0 && px < X(0)->ne[0] && py >= 0 && py < X(0)->ne[1];
                double w = weight(mode, (px - x[0]) / r0) * weight(mode, (py - x[1]) / r1);
                sum += filter && !in ? 0 : w * pixel(X(0), px, py, i2, i3);
                weights += filter && !in ? 0 : w;
            }
        }
        Y(i) = filter ? sum / weights : sum;
    }
}

// ---- states ----

static void ssm_conv(struct node * n) {
    EACH(n->y, i) {
        Y(i) = 0;
        for (size_t k = 0; k < X(1)->ne[0]; k++) {
            Y(i) += *at(X(0), i[1] + k, i[0], i[2], 0) * *at(X(1), k, i[0], 0, 0);
        }
    }
}

static void ssm_scan(struct node * n) {
    size_t size = X(0)->ne[0], rows = X(1)->ne[0], heads = X(1)->ne[1], tokens = X(1)->ne[2],
           sequences = X(1)->ne[3], all = size_of(X(1)), each = heads / X(4)->ne[1];
    for (size_t q = 0; q < sequences * heads * rows; q++) {
        size_t r = q % rows, h = q / rows % heads, s = q / rows / heads;
        double state[256];
        for (size_t c = 0; c < size; c++) {
            state[c] = *at(X(0), c, r, h, (size_t) X(6)->v[s]);
        }
        for (size_t t = 0; t < tokens; t++) {
            double dt = log1p(exp(*at(X(2), h, t, s, 0))), y = 0;
            for (size_t c = 0; c < size; c++) {
                double a = *at(X(3), X(3)->ne[0] == 1 ? 0 : c, h, 0, 0);
                state[c] = state[c] * exp(dt * a) +
                           *at(X(4), c, h / each, t, s) * dt * *at(X(1), r, h, t, s);
                y += state[c] * *at(X(5), c, h / each, t, s);
                n->y.v[all + ((s * heads + h) * rows + r) * size + c] = state[c];
            }
            n->y.v[((s * tokens + t) * heads + h) * rows + r] = y;
        }
    }
}

// One function for the three: s is [size][size] of a head.
enum kind { WKV6, WKV7, GLA };
static void step(struct node * n, enum kind kind, size_t at_, size_t head, double * s, double * y) {
    size_t size = X(0)->ne[0];
    const double * x[7];
    for (int k = 0; k < 7; k++) {
        x[k] = X(k)->v ? X(k)->v + at_ : NULL;
    }
    for (size_t i = 0; i < size; i++) {
        double along = 0;
        y[i] = kind == WKV7 ? 0 : y[i];
        for (size_t j = 0; j < size && kind == WKV7; j++) {
            along += x[4][j] * s[i * size + j];
        }
        for (size_t j = 0; j < size; j++) {
            double * c = &s[i * size + j];
            if (kind == WKV7) {
                *c = *c * x[1][j] + x[3][i] * x[2][j] + along * x[5][j];
                y[i] += *c * x[0][j];
            } else if (kind == WKV6) {
                double kv = x[0][i] * x[1][j];
                y[j] += x[2][i] * (X(3)->v[head * size + i] * kv + *c);
                *c = *c * x[4][i] + kv;
            } else {
                *c = *c * x[3][i] + x[0][i] * x[1][j];
                y[j] += *c * x[2][i] * param(n, 0);
            }
        }
    }
}
static void linear(struct node * n, enum kind kind, int state) {
    size_t size = X(0)->ne[0], heads = X(0)->ne[1], tokens = X(0)->ne[2];
    size_t sequences = X(state)->ne[1], each = tokens / sequences, square = size * size;
    double * s = n->y.v + size * heads * tokens;
    clear(n);
    memcpy(s, X(state)->v, size_of(X(state)) * sizeof *s);
    for (size_t t = 0; t < tokens; t++) {
        for (size_t h = 0; h < heads; h++) {
            size_t place = (t * heads + h) * size;
            step(n, kind, place, h, s + (t / each * heads + h) * square, n->y.v + place);
        }
    }
}
static void rwkv_wkv6(struct node * n) {
    linear(n, WKV6, 5);
}
static void rwkv_wkv7(struct node * n) {
    linear(n, WKV7, 6);
}
static void gated_linear_attn(struct node * n) {
    linear(n, GLA, 4);
}

static void gated_delta_net(struct node * n) {
    size_t size = X(2)->ne[0], heads = X(2)->ne[1], tokens = X(2)->ne[2], all = size_of(X(2));
    for (size_t q = 0; q < heads * X(2)->ne[3]; q++) {
        size_t h = q % heads, b = q / heads;
        double * s = n->y.v + all + q * size * size;
        memcpy(s, X(5)->v + q * size * size, size * size * sizeof *s);
        for (size_t t = 0; t < tokens; t++) {
            for (size_t j = 0; j < size; j++) {
                double says = 0, y = 0;
                for (size_t i = 0; i < size; i++) {
                    s[j * size + i] *= exp(*at(X(3), X(3)->ne[0] == 1 ? 0 : i, h, t, b));
                    says += s[j * size + i] * *at(X(1), i, h % X(1)->ne[1], t, b);
                }
                double more = (*at(X(2), j, h, t, b) - says) * *at(X(4), 0, h, t, b);
                for (size_t i = 0; i < size; i++) {
                    s[j * size + i] += more * *at(X(1), i, h % X(1)->ne[1], t, b);
                    y += s[j * size + i] * *at(X(0), i, h % X(0)->ne[1], t, b);
                }
                n->y.v[((b * tokens + t) * heads + h) * size + j] = y / sqrt((double) size);
            }
        }
    }
}

static void solve_tri(struct node * n) {
    for (size_t q = 0; q < (size_t) n->y.ne[0] * n->y.ne[2]; q++) {
        size_t c = q % n->y.ne[0], b = q / n->y.ne[0];
        for (size_t r = 0; r < n->y.ne[1]; r++) {
            double v = *at(X(1), c, r, b, 0);
            for (size_t k = 0; k < r; k++) {
                v -= *at(X(0), k, r, b, 0) * *at(&n->y, c, k, b, 0);
            }
            *at(&n->y, c, r, b, 0) = v / *at(X(0), r, r, b, 0);
        }
    }
}

// clang-format off
#define COLUMNS(name, types)                                                                       \
    {"im2col_" name, types, im2col, ITEMS, {18, 4, 3, 2}, {{3, 2, 3, 1}, {7, 5, 3, 2}},            \
     {2, 1, 1, 0, 1, 2, 1}, 0, 0, 0},                                                              \
    {"im2col_3d_" name, types, im2col_3d, ITEMS, {24, 4, 3, 4}, {{3, 2, 2, 2}, {6, 4, 3, 4}},      \
     {2, 1, 1, 2, 0, 0, 1, 1, 1, 2}, 0, 0, 0}
#define LAYERS(w, letter)                                                                          \
    {"conv_2d_" w, "f:" letter "f", conv_2d, ITEMS, {4, 3, 5, 2}, {{3, 2, 3, 5}, {7, 5, 3, 2}},    \
     {2, 1, 1, 0, 1, 2}, 300, 2, 0},                                                               \
    {"conv_2d_dw_" w, "f:" letter "f", conv_2d_dw, ITEMS, {4, 3, 3, 2},                            \
     {{3, 2, 1, 3}, {7, 5, 3, 2}}, {2, 1, 1, 0, 1, 2}, 100, 2, 0},                                 \
    {"conv_3d_" w, "f:" letter "f", conv_3d, ITEMS, {4, 3, 2, 6}, {{3, 2, 2, 6}, {6, 4, 3, 4}},    \
     {2, 1, 1, 2, 0, 0, 1, 1, 1, 2, 2, 3}, 400, 2, 0},                                             \
    {"conv_transpose_1d_" w, "f:" letter "f", conv_transpose_1d, ITEMS, {11, 4, 1, 1},             \
     {{3, 4, 2, 1}, {5, 2, 1, 1}}, {2, 0, 1}, 100, 2, 0},                                          \
    {"conv_transpose_2d_" w, "f:" letter "f", conv_transpose_2d, ITEMS, {9, 6, 4, 2},              \
     {{3, 2, 4, 2}, {4, 3, 2, 2}}, {2}, 200, 2, 0},                                                \
    {"pool_1d_" w, "f:" letter, pool_1d, ITEMS, {5, 3, 2, 1}, {{9, 3, 2, 1}},                      \
     {0, 3, 2, 1}, 0, 0, 0},                                                                       \
    {"pool_1d_" w, "f:" letter, pool_1d, ITEMS, {5, 3, 2, 1}, {{9, 3, 2, 1}},                      \
     {1, 3, 2, 1}, 4, 4, 0},                                                                       \
    {"pool_2d_" w, "f:" letter, pool_2d, ITEMS, {5, 4, 2, 1}, {{9, 7, 2, 1}},                      \
     {0, 3, 2, 2, 2, 1, 1}, 0, 0, 0},                                                              \
    {"pool_2d_" w, "f:" letter, pool_2d, ITEMS, {5, 4, 2, 1}, {{9, 7, 2, 1}},                      \
     {1, 3, 2, 2, 2, 1, 1}, 4, 4, 0}
#define UPSCALE(mode) \
    {"upscale", "f:f", upscale, ITEMS, {9, 6, 4, 2}, {{5, 4, 2, 1}}, {mode}, 8, 40, 0}
#define SMALLER(mode) \
    {"upscale", "f:f", upscale, ITEMS, {3, 2, 2, 1}, {{9, 7, 2, 1}}, {mode}, 8, 40, 0}

const struct node_case node_layers[] = {
    COLUMNS("f32_f32", "f:ff"), COLUMNS("f16_f32", "h:ff"), COLUMNS("f16_f16", "h:fh"),
    {"col2im_1d_f32", "f:f", col2im_1d, ITEMS, {9, 4, 1, 1}, {{12, 5, 1, 1}}, {2, 4, 1}, 16, 2, 0},
    {"col2im_1d_f16", "h:h", col2im_1d, ITEMS, {9, 4, 1, 1}, {{12, 5, 1, 1}}, {2, 4, 1}, 16, 1, 0},
    {"col2im_1d_bf16", "b:b", col2im_1d, ITEMS, {9, 4, 1, 1}, {{12, 5, 1, 1}}, {2, 4, 1}, 16, 1, 0},
    LAYERS("f32", "f"), LAYERS("f16", "h"),
    UPSCALE(0), UPSCALE(1), UPSCALE(2), UPSCALE(1 + 256), UPSCALE(2 + 256), SMALLER(1 + 512), SMALLER(0),
    {"ssm_conv", "f:ff", ssm_conv, ITEMS, {5, 6, 2, 1}, {{9, 5, 2, 1}, {4, 5, 1, 1}}, {0}, 64, 2, 0},
    // Two sequences of one head each: the states are behind the results.
    {"ssm_scan", "f:fffaffi", ssm_scan, STATES, {2 * 20 * 2 * 3 + 2 * 18 * 20 * 2, 1, 1, 1},
     {{18, 20, 2, 3}, {20, 2, 3, 2}, {2, 3, 2, 1}, {1, 2, 1, 1}, {18, 1, 3, 2}, {18, 1, 3, 2}, {2, 1, 1, 1}},
     {1, [MAX_PARAMS - 1] = 8}, 2e4, 40, 3},
    {"rwkv_wkv6", "f:aaaaaf", rwkv_wkv6, STATES, {40, 4 + 2 * 20, 1, 1},
     {{20, 2, 4, 1}, {20, 2, 4, 1}, {20, 2, 4, 1}, {20, 2, 1, 1}, {20, 2, 4, 1}, {800, 2, 1, 1}},
     {[MAX_PARAMS - 1] = 8}, 100, 8, 0},
    {"rwkv_wkv7", "f:aaaaaaf", rwkv_wkv7, STATES, {40, 4 + 2 * 20, 1, 1},
     {{20, 2, 4, 1}, {20, 2, 4, 1}, {20, 2, 4, 1}, {20, 2, 4, 1}, {20, 2, 4, 1}, {20, 2, 4, 1}, {800, 2, 1, 1}},
     {[MAX_PARAMS - 1] = 8}, 200, 40, 0},
    {"gated_linear_attn", "f:aaaaf", gated_linear_attn, STATES, {40, 4 + 2 * 20, 1, 1},
     {{20, 2, 4, 1}, {20, 2, 4, 1}, {20, 2, 4, 1}, {20, 2, 4, 1}, {800, 2, 1, 1}},
     {0x3f000000, [MAX_PARAMS - 1] = 8}, 100, 8, 0},
    {"gated_delta_net", "f:aafaaf", gated_delta_net, STATES, {20 * 4 * 3 * 2 + 20 * 20 * 4 * 2, 1, 1, 1},
     {{20, 2, 3, 2}, {20, 2, 3, 2}, {20, 4, 3, 2}, {1, 4, 3, 2}, {1, 4, 3, 2}, {400, 4, 2, 1}},
     {1, [MAX_PARAMS - 1] = 16}, 500, 40, 0},
    {"gated_delta_net", "f:aafaaf", gated_delta_net, STATES, {20 * 4 * 3 * 2 + 20 * 20 * 4 * 2, 1, 1, 1},
     {{20, 2, 3, 2}, {20, 2, 3, 2}, {20, 4, 3, 2}, {20, 4, 3, 2}, {1, 4, 3, 2}, {400, 4, 2, 1}},
     {1, [MAX_PARAMS - 1] = 16}, 500, 40, 0},
    {"solve_tri", "f:af", solve_tri, ITEMS, {5, 4, 2, 1}, {{4, 4, 2, 1}, {5, 4, 2, 1}}, {0}, 1e4, 100, 0},
    {.kernel = NULL},
};
// clang-format on
