// ops: nodes that a kernel takes as they are, by the table in ops.def. A graph may come from
// elsewhere and a kernel believes what it is told, so that shapes and parameters are looked at
// here first, each op's by a function of its own or by what its row says.
#include "gpu.h"

#include "hip/kernels/kernels.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct work {
    int64_t items, groups; // one of them is 0
};

#define IN(k) (n->src[k])

// ---- shapes ----

static bool elements(const struct ggml_tensor * n, struct work * w) { // of the result
    w->items = ggml_nelements(n);
    return true;
}

static bool alike(const struct ggml_tensor * n, struct work * w) {
    return elements(n, w) && ggml_are_same_shape(n, IN(0));
}

static bool rows_of(const struct ggml_tensor * t, struct work * w) {
    *w = (struct work){.groups = ggml_nrows(t)};
    return t->ne[0] > 0;
}

static bool each_row(const struct ggml_tensor * n, struct work * w) {
    return ggml_are_same_shape(n, IN(0)) && rows_of(IN(0), w);
}

static bool both_rows(const struct ggml_tensor * n, struct work * w) {
    // Slopes would change what SOFT_MAX_BACK multiplies with.
    bool plain = n->op != GGML_OP_SOFT_MAX_BACK || gpu_param(n, 1) == 0.0f;
    return plain && ggml_are_same_shape(IN(0), IN(1)) && each_row(n, w);
}

static bool one_group(const struct ggml_tensor * n, struct work * w) {
    *w = (struct work){.groups = 1};
    return ggml_are_same_shape(IN(0), IN(1)) && ggml_nelements(n) == 1 && !ggml_is_empty(IN(0));
}

// The CPU computes rows that are not contiguous as if they were, so there is no right result to
// agree with.
static bool sum(const struct ggml_tensor * n, struct work * w) {
    *w = (struct work){.groups = 1};
    return ggml_nelements(n) == 1 && !ggml_is_empty(IN(0)) &&
           IN(0)->nb[0] == ggml_type_size(IN(0)->type);
}

static bool mean(const struct ggml_tensor * n, struct work * w) {
    const struct ggml_tensor * x = IN(0);
    return n->ne[0] == 1 && n->ne[1] == x->ne[1] && n->ne[2] == x->ne[2] && n->ne[3] == x->ne[3] &&
           rows_of(x, w);
}

static bool loss_back(const struct ggml_tensor * n, struct work * w) {
    return ggml_nelements(IN(0)) == 1 && ggml_are_same_shape(n, IN(1)) &&
           ggml_are_same_shape(IN(1), IN(2)) && rows_of(IN(1), w);
}

static bool group_norm(const struct ggml_tensor * n, struct work * w) {
    *w = (struct work){.groups = (int64_t) n->op_params[0] * n->ne[3]};
    return n->op_params[0] > 0 && ggml_are_same_shape(n, IN(0)) && !ggml_is_empty(n);
}

static bool optimizer_step(const struct ggml_tensor * n, int moments, int64_t params,
                           struct work * w) {
    for (int i = 1; i <= moments; i++) {
        if (!ggml_are_same_shape(IN(0), IN(i))) {
            return false;
        }
    }
    // The weights are changed where they are, and the node is a view of them.
    return elements(n, w) && n->data == IN(0)->data && ggml_are_same_shape(n, IN(0)) &&
           ggml_nelements(IN(moments + 1)) == params;
}

static bool adamw(const struct ggml_tensor * n, struct work * w) {
    return optimizer_step(n, 3, 7, w);
}

static bool sgd(const struct ggml_tensor * n, struct work * w) {
    return optimizer_step(n, 1, 2, w);
}

static bool add_id(const struct ggml_tensor * n, struct work * w) {
    return alike(n, w) && IN(1)->ne[0] == n->ne[0] && n->ne[3] == 1 && IN(2)->ne[0] == n->ne[1] &&
           IN(2)->ne[1] == n->ne[2];
}

static bool pad(const struct ggml_tensor * n, struct work * w) {
    bool fits = elements(n, w) && !ggml_is_empty(IN(0));
    for (int d = 0; d < GGML_MAX_DIMS && fits; d++) {
        int64_t left = n->op_params[2 * d], right = n->op_params[2 * d + 1];
        fits = left >= 0 && right >= 0 && n->ne[d] == IN(0)->ne[d] + left + right;
    }
    return fits;
}

static bool pad_reflect_1d(const struct ggml_tensor * n, struct work * w) {
    int64_t left = n->op_params[0], right = n->op_params[1], length = IN(0)->ne[0];
    return elements(n, w) && left >= 0 && right >= 0 && left < length && right < length &&
           n->ne[0] == length + left + right && n->ne[1] == IN(0)->ne[1] &&
           n->ne[2] == IN(0)->ne[2] && n->ne[3] == IN(0)->ne[3];
}

static bool repeat_back(const struct ggml_tensor * n, struct work * w) {
    bool fits = elements(n, w);
    for (int d = 0; d < GGML_MAX_DIMS && fits; d++) {
        fits = n->ne[d] > 0 && IN(0)->ne[d] % n->ne[d] == 0;
    }
    return fits;
}

static bool get_rows_back(const struct ggml_tensor * n, struct work * w) {
    return elements(n, w) && n->ne[0] == IN(0)->ne[0] && ggml_nelements(IN(1)) == IN(1)->ne[0] &&
           IN(0)->ne[1] >= IN(1)->ne[0] && n->ne[2] == 1 && n->ne[3] == 1;
}

static bool timestep_embedding(const struct ggml_tensor * n, struct work * w) {
    return elements(n, w) && n->op_params[0] >= 2 && n->op_params[1] > 0 &&
           n->ne[0] >= n->op_params[0] && n->ne[0] <= n->op_params[0] + 1 &&
           n->ne[1] == IN(0)->ne[0] && n->ne[2] == 1 && n->ne[3] == 1;
}

static bool upscale(const struct ggml_tensor * n, struct work * w) {
    return elements(n, w) && !ggml_is_empty(IN(0)) && !ggml_is_empty(n);
}

// ---- states ----

static bool ssm_conv(const struct ggml_tensor * n, struct work * w) {
    return elements(n, w) && n->ne[0] == IN(0)->ne[1] && n->ne[0] == IN(1)->ne[1] &&
           IN(0)->ne[0] >= IN(1)->ne[0] - 1 + n->ne[1] && n->ne[2] == IN(0)->ne[2] && n->ne[3] == 1;
}

// A state of n x n for each head and sequence; RK_STATE_ROWS of its rows for a group.
static bool states(int64_t rows, int64_t columns, int64_t heads, int64_t sequences,
                   struct work * w) {
    *w = (struct work){.groups = (rows + RK_STATE_ROWS - 1) / RK_STATE_ROWS * heads * sequences};
    return columns > 0 && columns <= RK_STATE_COLUMNS && w->groups > 0;
}

static bool ssm_scan(const struct ggml_tensor * n, struct work * w) {
    const struct ggml_tensor *s = IN(0), *x = IN(1), *dt = IN(2), *a = IN(3), *b = IN(4),
                             *c = IN(5);
    int64_t heads = x->ne[1], tokens = x->ne[2], sequences = x->ne[3], kept = n->op_params[0];
    bool batches = dt->ne[0] == heads && dt->ne[1] == tokens && dt->ne[2] == sequences &&
                   b->ne[2] == tokens && b->ne[3] == sequences && b->ne[1] > 0 &&
                   heads % b->ne[1] == 0 && ggml_are_same_shape(b, c);
    return batches && kept >= 1 && s->ne[1] == x->ne[0] && s->ne[2] == heads &&
           b->ne[0] == s->ne[0] && a->ne[1] == heads && (a->ne[0] == 1 || a->ne[0] == s->ne[0]) &&
           ggml_nelements(IN(6)) == sequences &&
           ggml_nelements(n) ==
               ggml_nelements(x) + kept * s->ne[0] * x->ne[0] * heads * sequences &&
           states(x->ne[0], s->ne[0], heads, sequences, w);
}

// [state size, heads, tokens] each, and states of all sequences behind the result.
static bool heads_of(const struct ggml_tensor * n, int first, int last, int state,
                     struct work * w) {
    const struct ggml_tensor * x = IN(first);
    int64_t size = x->ne[0], heads = x->ne[1], tokens = x->ne[2], sequences = IN(state)->ne[1];
    for (int i = first; i <= last; i++) {
        if (IN(i)->ne[0] != size || IN(i)->ne[1] != heads || IN(i)->ne[2] != tokens ||
            IN(i)->ne[3] != 1) {
            return false;
        }
    }
    return sequences > 0 && tokens > 0 && tokens % sequences == 0 &&
           ggml_nelements(IN(state)) == size * size * heads * sequences &&
           n->ne[0] == size * heads &&
           ggml_nelements(n) == size * heads * tokens + ggml_nelements(IN(state)) &&
           states(size, size, heads, sequences, w);
}

static bool rwkv_wkv6(const struct ggml_tensor * n, struct work * w) {
    return heads_of(n, 0, 2, 5, w) && ggml_are_same_shape(IN(0), IN(4)) &&
           ggml_nelements(IN(3)) == n->ne[0];
}

static bool rwkv_wkv7(const struct ggml_tensor * n, struct work * w) {
    return heads_of(n, 0, 5, 6, w);
}

static bool gated_linear_attn(const struct ggml_tensor * n, struct work * w) {
    return heads_of(n, 0, 3, 4, w);
}

static bool gated_delta_net(const struct ggml_tensor * n, struct work * w) {
    const struct ggml_tensor *q = IN(0), *k = IN(1), *v = IN(2), *g = IN(3), *s = IN(5);
    int64_t size = v->ne[0], heads = v->ne[1], tokens = v->ne[2], sequences = v->ne[3];
    int64_t all = size * size * heads * sequences;
    bool fits = n->op_params[0] >= 1 && !ggml_is_empty(v) && IN(4)->ne[0] == 1;
    for (int i = 0; i < 2 && fits; i++) { // queries and keys repeat
        const struct ggml_tensor * t = i ? k : q;
        fits = t->ne[0] == size && t->ne[1] > 0 && t->ne[2] == tokens && t->ne[3] > 0 &&
               sequences % t->ne[3] == 0;
    }
    for (int i = 3; i < 5 && fits; i++) {
        fits = IN(i)->ne[1] == heads && IN(i)->ne[2] == tokens && IN(i)->ne[3] == sequences;
    }
    return fits && (g->ne[0] == 1 || g->ne[0] == size) && ggml_nelements(s) == all &&
           ggml_nelements(n) == size * heads * tokens * sequences + n->op_params[0] * all &&
           states(size, size, heads, sequences, w);
}

static bool solve_tri(const struct ggml_tensor * n, struct work * w) {
    const struct ggml_tensor * a = IN(0);
    w->items = n->ne[0] * n->ne[2] * n->ne[3];
    return ggml_are_same_shape(n, IN(1)) && a->ne[0] == a->ne[1] && a->ne[0] == n->ne[1] &&
           a->ne[2] == n->ne[2] && a->ne[3] == n->ne[3];
}

// ---- convolutions ----

static bool positive(const struct ggml_tensor * n, int first, int last) { // strides, dilations
    for (int i = first; i <= last; i++) {
        if (n->op_params[i] <= 0 || n->op_params[i] > INT16_MAX) {
            return false;
        }
    }
    return true;
}

static bool small(const struct ggml_tensor * n, int first, int last) { // paddings
    for (int i = first; i <= last; i++) {
        if (n->op_params[i] < -INT16_MAX || n->op_params[i] > INT16_MAX) {
            return false;
        }
    }
    return true;
}

static bool not_empty(const struct ggml_tensor * n, struct work * w) {
    return elements(n, w) && !ggml_is_empty(n) && !ggml_is_empty(IN(0)) &&
           (!IN(1) || !ggml_is_empty(IN(1)));
}

static bool im2col(const struct ggml_tensor * n, struct work * w) {
    const struct ggml_tensor *k = IN(0), *x = IN(1);
    bool flat = n->op_params[6] == 1;
    int64_t channels = flat ? x->ne[2] : x->ne[1], batches = flat ? x->ne[3] : x->ne[2];
    return not_empty(n, w) && positive(n, 0, 0) && positive(n, 4, 4) && small(n, 2, 3) &&
           (!flat || (positive(n, 1, 1) && positive(n, 5, 5))) &&
           n->ne[0] == channels * k->ne[0] * (flat ? k->ne[1] : 1) &&
           batches == (flat ? n->ne[3] : n->ne[2]) && (flat || n->ne[3] == 1);
}

static bool im2col_3d(const struct ggml_tensor * n, struct work * w) {
    const struct ggml_tensor *k = IN(0), *x = IN(1);
    int64_t channels = n->op_params[9];
    if (ggml_is_empty(n)) {
        return elements(n, w);
    }
    return not_empty(n, w) && positive(n, 0, 2) && small(n, 3, 5) && positive(n, 6, 9) &&
           x->ne[3] % channels == 0 && n->ne[3] % (x->ne[3] / channels) == 0 &&
           n->ne[0] == channels * k->ne[0] * k->ne[1] * k->ne[2];
}

static bool col2im_1d(const struct ggml_tensor * n, struct work * w) {
    const struct ggml_tensor * x = IN(0);
    int64_t channels = n->op_params[1];
    return elements(n, w) && !ggml_is_empty(x) && positive(n, 0, 0) && channels > 0 &&
           x->ne[0] % channels == 0 && n->op_params[2] >= 0 && small(n, 2, 2) &&
           n->ne[1] == channels && n->ne[2] == 1 && n->ne[3] == 1;
}

static bool conv_2d(const struct ggml_tensor * n, struct work * w) {
    return not_empty(n, w) && positive(n, 0, 1) && small(n, 2, 3) && positive(n, 4, 5) &&
           IN(0)->ne[2] == IN(1)->ne[2] && IN(0)->ne[3] == n->ne[2] && IN(1)->ne[3] == n->ne[3];
}

static bool conv_2d_dw(const struct ggml_tensor * n, struct work * w) {
    return not_empty(n, w) && positive(n, 0, 1) && small(n, 2, 3) && positive(n, 4, 5) &&
           IN(0)->ne[2] == 1 && IN(0)->ne[3] == IN(1)->ne[2] && n->ne[2] == IN(1)->ne[2] &&
           IN(1)->ne[3] == n->ne[3];
}

static bool conv_3d(const struct ggml_tensor * n, struct work * w) {
    int64_t channels = n->op_params[9], batches = n->op_params[10], results = n->op_params[11];
    return not_empty(n, w) && positive(n, 0, 2) && small(n, 3, 5) && positive(n, 6, 8) &&
           channels > 0 && batches > 0 && results > 0 && IN(0)->ne[3] == channels * results &&
           IN(1)->ne[3] == channels * batches && n->ne[3] == results * batches;
}

static bool conv_transpose_1d(const struct ggml_tensor * n, struct work * w) {
    return not_empty(n, w) && positive(n, 0, 0) && n->op_params[1] == 0 && n->op_params[2] == 1 &&
           IN(0)->ne[1] == n->ne[1] && IN(0)->ne[2] == IN(1)->ne[1] && n->ne[2] == 1 &&
           n->ne[3] == 1;
}

static bool conv_transpose_2d(const struct ggml_tensor * n, struct work * w) {
    return not_empty(n, w) && positive(n, 0, 0) && IN(0)->ne[2] == n->ne[2] &&
           IN(0)->ne[3] == IN(1)->ne[2] && IN(1)->ne[3] == n->ne[3];
}

static bool pool_1d(const struct ggml_tensor * n, struct work * w) {
    return not_empty(n, w) && (n->op_params[0] == 0 || n->op_params[0] == 1) && positive(n, 1, 2) &&
           small(n, 3, 3) && n->ne[1] == IN(0)->ne[1] && n->ne[2] == IN(0)->ne[2] &&
           n->ne[3] == IN(0)->ne[3];
}

static bool pool_2d(const struct ggml_tensor * n, struct work * w) {
    return not_empty(n, w) && (n->op_params[0] == 0 || n->op_params[0] == 1) && positive(n, 1, 4) &&
           small(n, 5, 6) && n->ne[2] == IN(0)->ne[2] && n->ne[3] == IN(0)->ne[3];
}

// ---- every one ----

#define NODE(...)
#define NODE_WHERE(op, types, in_place, ...)                                                       \
    static bool fits_##op(const struct ggml_tensor * n, struct work * w) {                         \
        return elements(n, w) && (__VA_ARGS__);                                                    \
    }
#include "ops.def"
#undef NODE_WHERE
#undef NODE

static const struct op {
    enum ggml_op op;
    const char *name, *types;
    int in_place;
    bool (*fits)(const struct ggml_tensor * node, struct work * w);
} ops[] = {
#define NODE(op, types, in_place, shape)     {GGML_OP_##op, #op, types, in_place, shape},
#define NODE_WHERE(op, types, in_place, ...) {GGML_OP_##op, #op, types, in_place, fits_##op},
#include "ops.def"
#undef NODE_WHERE
#undef NODE
};

static const struct op * op_find(enum ggml_op op) {
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        if (ops[i].op == op) {
            return &ops[i];
        }
    }
    return NULL;
}

bool gpu_has_op(enum ggml_op op) {
    return op_find(op) != NULL;
}

// Adds the datatype to the kernel's name where the letter asks for it. False: the kernel does not
// take the tensor.
static bool takes(const struct ggml_tensor * t, char letter, enum ggml_type result, char * kernel,
                  size_t size) {
    size_t at = strlen(kernel);
    if (!t) {
        return false;
    }
    switch (letter) {
    case 'f':
        return t->type == GGML_TYPE_F32;
    case 'p':
        return t->type == GGML_TYPE_F32 && ggml_is_contiguous(t);
    case 'i':
        return t->type == GGML_TYPE_I32;
    case 'l':
        return t->type == GGML_TYPE_I64;
    case 'n':
        snprintf(kernel + at, size - at, "_%s", ggml_type_name(t->type));
        return true;
    case '=':
        return t->type == result;
    default:
        return letter == '.';
    }
}

static bool kernel_of(const struct op * o, const struct ggml_tensor * n, char * kernel,
                      size_t size) {
    snprintf(kernel, size, "ggml_%s", o->name);
    for (char * p = kernel + 5; *p; p++) {
        *p = (char) tolower((unsigned char) *p);
    }
    bool fits = takes(n, o->types[0], n->type, kernel, size);
    const char * letter = o->types + 2;
    for (int i = 0; i < GGML_MAX_SRC && fits; i++) {
        fits = *letter ? takes(IN(i), *letter, n->type, kernel, size) : !IN(i);
        letter += *letter != '\0';
    }
    return fits;
}

static bool tensor_of(const struct view * v, struct rk_tensor * out) {
    for (int d = 0; d < GGML_MAX_DIMS; d++) {
        if (v->ne[d] > UINT32_MAX) {
            return false;
        }
        out->ne[d] = (uint32_t) v->ne[d];
    }
    out->data = v->data;
    return gpu_strides(v, out->stride);
}

enum status gpu_op(const struct gpu_call * c, const struct ggml_tensor * n, struct error * err) {
    const struct op * o = op_find(n->op);
    struct rk_node args = {.n = 0};
    struct work w = {0};
    struct gpu_result result;
    char kernel[64];
    if (!kernel_of(o, n, kernel, sizeof kernel) || !o->fits(n, &w)) {
        return error_set(err, ST_UNSUPPORTED, "%s on a GPU: datatypes, shapes or parameters",
                         op_label(n));
    }
    enum status st = gpu_result_begin(c, n, false, o->in_place, &result, err);
    if (st != ST_OK) {
        return st;
    }
    bool fits = tensor_of(&result.view, &args.y);
    for (int i = 0; i < RK_SOURCES && fits; i++) {
        struct view x = IN(i) ? view_of(IN(i)) : (struct view){0};
        fits = !IN(i) || tensor_of(&x, &args.x[i]);
    }
    if (!fits || w.items > INT32_MAX || w.groups > INT32_MAX / RK_BLOCK) {
        return error_set(err, ST_UNSUPPORTED, "%s on a GPU: strides, or too many elements",
                         op_label(n));
    }
    static_assert(sizeof n->op_params >= sizeof args.param, "all of them");
    memcpy(args.param, n->op_params, sizeof args.param);
    args.n = (uint32_t) w.items;
    uint32_t items =
        w.groups ? (uint32_t) w.groups * RK_BLOCK : (uint32_t) GGML_PAD(w.items, RK_BLOCK);
    struct gpu_grid grid = {.items = {items, 1, 1}, .group = RK_BLOCK};
    st = gpu_launch(c, kernel, &args, sizeof args, grid, err);
    return st == ST_OK ? gpu_result_end(c, &result, err) : st;
}
