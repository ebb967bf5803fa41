// check-node: kernels that take a node of a ggml graph as it is. Each has one case or more: packed
// tensors of small numbers, parameters, and what should come out, in double precision, for all of
// the result at once.
#include "check-node.h"

#include <stdio.h>
#include <stdlib.h>

// ---- moves ----

static void add_id(struct node * n) {
    EACH(n->y, i) {
        size_t id = (size_t) *at(X(2), i[1], i[2], 0, 0);
        Y(i) = *at(X(0), i[0], i[1], i[2], i[3]) + *at(X(1), i[0], id, 0, 0);
    }
}

static void pad(struct node * n) {
    EACH(n->y, i) {
        long from[4];
        bool in = true;
        for (int d = 0; d < 4; d++) {
            long size = X(0)->ne[d];
            from[d] = (long) i[d] - n->p[2 * d];
            in = in && from[d] >= 0 && from[d] < size;
            from[d] = (from[d] + 10 * size) % size;
        }
        double v =
            *at(X(0), (size_t) from[0], (size_t) from[1], (size_t) from[2], (size_t) from[3]);
        Y(i) = in || n->p[8] ? v : 0;
    }
}

static void pad_reflect_1d(struct node * n) {
    EACH(n->y, i) {
        long k = labs((long) i[0] - n->p[0]), last = X(0)->ne[0] - 1;
        Y(i) = *at(X(0), (size_t) (k > last ? 2 * last - k : k), i[1], i[2], i[3]);
    }
}

static void roll(struct node * n) {
    EACH(n->y, i) {
        size_t from[4];
        for (int d = 0; d < 4; d++) {
            long size = X(0)->ne[d];
            from[d] = (size_t) (((long) i[d] - n->p[d] + 10 * size) % size);
        }
        Y(i) = *at(X(0), from[0], from[1], from[2], from[3]);
    }
}

static void diag(struct node * n) {
    EACH(n->y, i) {
        Y(i) = i[0] == i[1] ? *at(X(0), i[0], 0, i[2], i[3]) : 0;
    }
}

static void diag_mask(struct node * n, double out) {
    EACH(n->y, i) {
        Y(i) = (long) i[0] > (long) i[1] + n->p[0] ? out : *at(X(0), i[0], i[1], i[2], i[3]);
    }
}
static void diag_mask_inf(struct node * n) {
    diag_mask(n, -INFINITY);
}
static void diag_mask_zero(struct node * n) {
    diag_mask(n, 0);
}

static void tri(struct node * n) {
    EACH(n->y, i) {
        bool upper = n->p[0] < 2, with = n->p[0] % 2 == 0;
        bool keep = i[0] == i[1] ? with : upper ? i[0] > i[1] : i[0] < i[1];
        Y(i) = keep ? *at(X(0), i[0], i[1], i[2], i[3]) : 0;
    }
}

static void fill(struct node * n) {
    EACH(n->y, i) {
        Y(i) = param(n, 0);
    }
}

static void arange(struct node * n) {
    EACH(n->y, i) {
        Y(i) = param(n, 0) + (double) i[0] * param(n, 2);
    }
}

static void timestep_embedding(struct node * n) {
    int half = n->p[0] / 2;
    EACH(n->y, i) {
        int k = (int) i[0];
        double angle = X(0)->v[i[1]] * pow(n->p[1], -(double) (k % half) / half);
        Y(i) = k >= 2 * half ? 0 : k < half ? cos(angle) : sin(angle);
    }
}

static void get_rel_pos(struct node * n) {
    EACH(n->y, i) {
        long distance = (long) i[2] - (long) i[1], first = 1 - (long) n->y.ne[1];
        Y(i) = *at(X(0), i[0], (size_t) (distance - first), 0, 0);
    }
}

static void repeat_back(struct node * n) {
    EACH(n->y, i) {
        Y(i) = 0;
    }
    EACH(n->x[0], i) {
        const uint32_t * ne = n->y.ne;
        *at(&n->y, i[0] % ne[0], i[1] % ne[1], i[2] % ne[2], i[3] % ne[3]) +=
            *at(X(0), i[0], i[1], i[2], i[3]);
    }
}

static void get_rows_back(struct node * n) {
    EACH(n->y, i) {
        Y(i) = 0;
        for (size_t r = 0; r < X(1)->ne[0]; r++) {
            Y(i) += X(1)->v[r] == (double) i[1] ? *at(X(0), i[0], r, 0, 0) : 0;
        }
    }
}

// ---- rows ----

static double sum_of(const double * v, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += v[i];
    }
    return sum;
}

static double product_of(const double * a, const double * b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

#define ROWS(t, r) for (size_t r = 0; r < size_of(&(t)) / (t).ne[0]; r++)

static void sum(struct node * n) {
    n->y.v[0] = sum_of(X(0)->v, size_of(X(0)));
}

static void mean(struct node * n) {
    ROWS(n->x[0], r) {
        n->y.v[r] = sum_of(X(0)->v + r * X(0)->ne[0], X(0)->ne[0]) / X(0)->ne[0];
    }
}

static void count_equal(struct node * n) {
    n->y.v[0] = 0;
    for (size_t i = 0; i < size_of(X(0)); i++) {
        n->y.v[0] += X(0)->v[i] == X(1)->v[i];
    }
}

static void l2_norm(struct node * n) {
    size_t c = X(0)->ne[0];
    ROWS(n->x[0], r) {
        const double * x = X(0)->v + r * c;
        double length = sqrt(product_of(x, x, c));
        for (size_t i = 0; i < c; i++) {
            n->y.v[r * c + i] = x[i] / fmax(length, param(n, 0));
        }
    }
}

static void group_norm(struct node * n) {
    size_t plane = (size_t) X(0)->ne[0] * X(0)->ne[1];
    size_t each = (X(0)->ne[2] + (size_t) n->p[0] - 1) / (size_t) n->p[0];
    for (size_t c = 0; c < X(0)->ne[2]; c += each) {
        size_t channels = c + each < X(0)->ne[2] ? each : X(0)->ne[2] - c;
        const double * x = X(0)->v + c * plane;
        size_t all = channels * plane;
        double mean = sum_of(x, all) / (double) all, squares = 0;
        for (size_t i = 0; i < all; i++) {
            squares += (x[i] - mean) * (x[i] - mean);
        }
        for (size_t i = 0; i < all; i++) {
            n->y.v[c * plane + i] = (x[i] - mean) / sqrt(squares / (double) all + param(n, 1));
        }
    }
}

static void cumsum(struct node * n) {
    size_t c = X(0)->ne[0];
    ROWS(n->x[0], r) {
        for (size_t i = 0; i < c; i++) {
            n->y.v[r * c + i] = sum_of(X(0)->v + r * c, i + 1);
        }
    }
}

static void soft(const double * x, size_t n, double * out) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += out[i] = exp(x[i]);
    }
    for (size_t i = 0; i < n; i++) {
        out[i] /= sum;
    }
}

static void cross_entropy_loss(struct node * n) {
    double s[ROOM];
    size_t c = X(0)->ne[0], rows = size_of(X(0)) / c;
    n->y.v[0] = 0;
    for (size_t r = 0; r < rows; r++) {
        soft(X(0)->v + r * c, c, s);
        for (size_t i = 0; i < c; i++) {
            n->y.v[0] -= X(1)->v[r * c + i] * log(s[i]) / (double) rows;
        }
    }
}

static void cross_entropy_loss_back(struct node * n) {
    double s[ROOM];
    size_t c = X(1)->ne[0], rows = size_of(X(1)) / c;
    for (size_t r = 0; r < rows; r++) {
        soft(X(1)->v + r * c, c, s);
        for (size_t i = 0; i < c; i++) {
            n->y.v[r * c + i] = (s[i] - X(2)->v[r * c + i]) * X(0)->v[0] / (double) rows;
        }
    }
}

static void soft_max_back(struct node * n) {
    size_t c = X(0)->ne[0];
    ROWS(n->x[0], r) {
        const double *dy = X(0)->v + r * c, *s = X(1)->v + r * c;
        for (size_t i = 0; i < c; i++) {
            n->y.v[r * c + i] = param(n, 0) * s[i] * (dy[i] - product_of(dy, s, c));
        }
    }
}

static void rms_norm_back(struct node * n) {
    size_t c = X(0)->ne[0];
    ROWS(n->x[0], r) {
        const double *dz = X(0)->v + r * c, *x = X(1)->v + r * c;
        double mean = product_of(x, x, c) / (double) c + param(n, 0);
        for (size_t i = 0; i < c; i++) {
            n->y.v[r * c + i] =
                (dz[i] - x[i] * product_of(x, dz, c) / ((double) c * mean)) / sqrt(mean);
        }
    }
}

// The weights are changed in place: y is what x[0] becomes.
static void opt_step_adamw(struct node * n) {
    const double * a = X(4)->v;
    EACH(n->y, i) {
        double g = *at(X(1), i[0], i[1], 0, 0), w = *at(X(0), i[0], i[1], 0, 0);
        double m = *at(X(2), i[0], i[1], 0, 0) * a[1] + g * (1 - a[1]);
        double v = *at(X(3), i[0], i[1], 0, 0) * a[2] + g * g * (1 - a[2]);
        Y(i) = w * (1 - a[0] * a[4]) - a[0] * m * a[5] / (sqrt(v * a[6]) + a[3]);
    }
}

static void opt_step_sgd(struct node * n) {
    const double * a = X(2)->v;
    EACH(n->y, i) {
        double g = *at(X(1), i[0], i[1], 0, 0), w = *at(X(0), i[0], i[1], 0, 0);
        Y(i) = w * (1 - a[0] * a[1]) - a[0] * g;
    }
}

// ---- the table ----

static const struct node_case cases[] = {
    // clang-format off
    {"add_id", "f:ffi", add_id, ITEMS, {5, 3, 2, 1}, {{5, 3, 2, 1}, {5, 4, 1, 1}, {3, 2, 1, 1}}, {0}, 8, 1, 4},
    {"pad", "f:f", pad, ITEMS, {7, 6, 3, 4}, {{4, 3, 2, 2}}, {1, 2, 0, 3, 1, 0, 2, 0}, 0, 0, 0},
    {"pad", "f:f", pad, ITEMS, {7, 6, 3, 4}, {{4, 3, 2, 2}}, {1, 2, 0, 3, 1, 0, 2, 0, 1}, 0, 0, 0},
    {"pad_reflect_1d", "f:f", pad_reflect_1d, ITEMS, {12, 3, 2, 1}, {{6, 3, 2, 1}}, {1, 5}, 0, 0, 0},
    {"roll", "f:f", roll, ITEMS, {5, 4, 3, 2}, {{5, 4, 3, 2}}, {2, -1, 7, 1}, 0, 0, 0},
    {"diag", "f:f", diag, ITEMS, {5, 5, 3, 2}, {{5, 1, 3, 2}}, {0}, 0, 0, 0},
    {"diag_mask_inf", "f:f", diag_mask_inf, ITEMS, {7, 5, 2, 1}, {{7, 5, 2, 1}}, {1}, 0, 0, 0},
    {"diag_mask_zero", "f:f", diag_mask_zero, ITEMS, {7, 5, 2, 1}, {{7, 5, 2, 1}}, {2}, 0, 0, 0},
    {"tri", "f:f", tri, ITEMS, {5, 5, 2, 1}, {{5, 5, 2, 1}}, {0}, 0, 0, 0},
    {"tri", "f:f", tri, ITEMS, {5, 5, 2, 1}, {{5, 5, 2, 1}}, {1}, 0, 0, 0},
    {"tri", "f:f", tri, ITEMS, {5, 5, 2, 1}, {{5, 5, 2, 1}}, {2}, 0, 0, 0},
    {"tri", "f:f", tri, ITEMS, {5, 5, 2, 1}, {{5, 5, 2, 1}}, {3}, 0, 0, 0},
    {"fill_f32", "f:", fill, ITEMS, {300, 1, 1, 1}, {{0}}, {0x3fc00000}, 0, 0, 0},
    {"fill_f16", "h:", fill, ITEMS, {300, 1, 1, 1}, {{0}}, {0x3fc00000}, 0, 0, 0},
    {"arange", "f:", arange, ITEMS, {300, 1, 1, 1}, {{0}}, {0x3f000000, 0, 0x40200000}, 800, 1, 0},
    {"timestep_embedding", "f:f", timestep_embedding, ITEMS, {9, 5, 1, 1}, {{5, 1, 1, 1}}, {9, 1000}, 8, 8, 0},
    {"get_rel_pos_f16", "h:h", get_rel_pos, ITEMS, {5, 4, 4, 1}, {{5, 7, 1, 1}}, {0}, 0, 0, 0},
    {"repeat_back", "f:f", repeat_back, ITEMS, {3, 2, 1, 2}, {{6, 6, 2, 4}}, {0}, 64, 4, 0},
    {"get_rows_back_f32", "f:fi", get_rows_back, ITEMS, {5, 4, 1, 1}, {{5, 9, 1, 1}, {9, 1, 1, 1}}, {0}, 16, 4, 4},
    {"get_rows_back_f16", "f:hi", get_rows_back, ITEMS, {5, 4, 1, 1}, {{5, 9, 1, 1}, {9, 1, 1, 1}}, {0}, 16, 4, 4},
    {"sum_f32", "f:f", sum, ONE, {1, 1, 1, 1}, {{33, 7, 3, 1}}, {0}, 1000, 2, 0},
    {"sum_f16", "h:h", sum, ONE, {1, 1, 1, 1}, {{33, 2, 1, 1}}, {0}, 100, 1, 0},
    {"sum_bf16", "b:b", sum, ONE, {1, 1, 1, 1}, {{33, 2, 1, 1}}, {0}, 100, 1, 0},
    {"mean", "f:f", mean, ROWS_0, {1, 3, 2, 1}, {{300, 3, 2, 1}}, {0}, 4, 8, 0},
    {"count_equal", "l:ii", count_equal, ONE, {1, 1, 1, 1}, {{300, 3, 1, 1}, {300, 3, 1, 1}}, {0}, 0, 0, 3},
    {"l2_norm", "f:f", l2_norm, ROWS_0, {70, 3, 2, 1}, {{70, 3, 2, 1}}, {0x3f800000}, 1, 8, 0},
    {"group_norm", "f:f", group_norm, STATES, {5, 7, 7, 1}, {{5, 7, 7, 1}}, {3, 0x358637bd, [MAX_PARAMS - 1] = 3}, 4, 8, 0},
    {"cumsum", "f:f", cumsum, ROWS_0, {600, 2, 1, 1}, {{600, 2, 1, 1}}, {0}, 2000, 2, 0},
    {"cross_entropy_loss", "f:fu", cross_entropy_loss, ONE, {1, 1, 1, 1}, {{300, 3, 1, 1}, {300, 3, 1, 1}}, {0}, 4000, 4, 2},
    {"cross_entropy_loss_back", "f:ffu", cross_entropy_loss_back, ROWS_1, {70, 3, 1, 1}, {{1, 1, 1, 1}, {70, 3, 1, 1}, {70, 3, 1, 1}}, {0}, 4, 8, 2},
    {"soft_max_back", "f:ff", soft_max_back, ROWS_0, {70, 3, 1, 1}, {{70, 3, 1, 1}, {70, 3, 1, 1}}, {0x3f000000}, 8000, 4, 0},
    {"rms_norm_back", "f:ff", rms_norm_back, ROWS_0, {70, 3, 1, 1}, {{70, 3, 1, 1}, {70, 3, 1, 1}}, {0x3f800000}, 8, 8, 0},
    {"opt_step_adamw", "f:ffuaa", opt_step_adamw, ITEMS, {70, 3, 1, 1}, {{70, 3, 1, 1}, {70, 3, 1, 1}, {70, 3, 1, 1}, {70, 3, 1, 1}, {7, 1, 1, 1}}, {0}, 8, 8, 2},
    {"opt_step_sgd", "f:ffa", opt_step_sgd, ITEMS, {70, 3, 1, 1}, {{70, 3, 1, 1}, {70, 3, 1, 1}, {2, 1, 1, 1}}, {0}, 8, 4, 0},
    // clang-format on
    {.kernel = NULL},
};

// ---- a case ----

// f, h, b: floats; i, l: whole numbers; u: f32 that are whole, a: f32 that are small and positive.
static enum check_type type_of(char letter) {
    return letter == 'h'   ? T_F16
           : letter == 'b' ? T_BF16
           : letter == 'i' ? T_I32
           : letter == 'l' ? T_I64
                           : T_F32;
}

static double value_of(const struct node_case * c, char letter, uint32_t seed) {
    double v = check_value(T_F32, seed);
    bool whole = letter == 'i' || letter == 'u';
    return whole           ? floor((v + 4) * 8) - c->below * floor((v + 4) * 8 / c->below)
           : letter == 'a' ? (v + 4.125) / 16
                           : v;
}

static bool make(struct check_run * r, enum check_type t, struct tensor * d, const uint32_t ne[4],
                 struct rk_tensor * out) {
    uint32_t stride = 1;
    memcpy(d->ne, ne, sizeof d->ne);
    for (int i = 0; i < 4; i++) {
        out->ne[i] = ne[i];
        out->stride[i] = ne[i] > 1 ? stride : 0;
        stride *= ne[i];
    }
    out->data = check_alloc(r, t, size_of(d));
    d->v = calloc(size_of(d) + 1, sizeof *d->v);
    return out->data && d->v;
}

static enum status run_case(struct check_run * r, const struct node_case * c) {
    struct node n = {.p = c->p, .scale = c->scale};
    struct rk_node a = {.n = 0};
    bool made = make(r, type_of(c->types[0]), &n.y, c->y, &a.y),
         in_place = !strncmp(c->kernel, "opt_", 4);
    for (int k = 0; made && c->types[2 + k]; k++) {
        char letter = c->types[2 + k];
        made = make(r, type_of(letter), &n.x[k], c->x[k], &a.x[k]);
        for (uint32_t i = 0; made && i < size_of(&n.x[k]); i++) {
            n.x[k].v[i] = value_of(c, letter, i * 3 + (uint32_t) k * 977);
            check_put(type_of(letter), a.x[k].data, i, n.x[k].v[i]);
        }
    }
    enum status st = made ? ST_OK : ST_NO_MEMORY;
    snprintf(r->what, sizeof r->what, "%ux%ux%ux%u", c->y[3], c->y[2], c->y[1], c->y[0]);
    memcpy(a.param, c->p, (MAX_PARAMS - 1) * sizeof c->p[0]);
    if (st == ST_OK) {
        size_t items = size_of(&n.y);
        size_t groups = c->grid == ONE     ? 1
                        : c->grid == ITEMS ? (items + RK_BLOCK - 1) / RK_BLOCK
                        : c->grid == STATES
                            ? (size_t) c->p[MAX_PARAMS - 1]
                            : size_of(&n.x[c->grid - ROWS_0]) / c->x[c->grid - ROWS_0][0];
        a.n = c->grid == ITEMS ? (uint32_t) items : 0;
        a.y.data = in_place ? a.x[0].data : a.y.data;
        c->want(&n);
        st = check_launch(r, &a, sizeof a, (uint32_t) groups, 1, 1, RK_BLOCK);
    }
    for (size_t i = 0; st == ST_OK && i < size_of(&n.y); i++) {
        double have = check_get(type_of(c->types[0]), a.y.data, i);
        st = check_compare(r, type_of(c->types[0]), i, have, n.y.v[i], c->scale, c->ulps);
    }
    free(n.y.v);
    for (int k = 0; k < MAX_IN; k++) {
        free(n.x[k].v);
    }
    check_free(r);
    return st;
}

enum status check_node(struct check_run * r) {
    enum status st = ST_UNSUPPORTED;
    if (strncmp(r->kernel, "ggml_", 5) != 0) {
        return st;
    }
    const struct node_case * tables[] = {cases, node_layers};
    for (int k = 0; k < 2; k++) {
        for (const struct node_case * c = tables[k];
             c->kernel && (st == ST_OK || st == ST_UNSUPPORTED); c++) {
            st = strcmp(r->kernel + 5, c->kernel) ? st : run_case(r, c);
        }
    }
    return st;
}
