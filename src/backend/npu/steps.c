// steps: see steps.h. Kernels take operands as they stand where they can; else these are packed
// into the room, repeated to the shape of the result, and at last cut into chunks.
#include "steps.h"

#include "moves.h"
#include "pretended.h"
#include "touch.h"

#include <string.h>

// Ops go by their names, as in sources.c: ggml of another version lacks some, and has other
// numbers.
static const struct {
    const char * name;
    steps_op * say;
} ops[] = {
    {"PAD", steps_pad},
    {"PAD_REFLECT_1D", steps_pad_reflect},
    {"ROLL", steps_roll},
    {"SET", steps_set},
    {"ACC", steps_acc},
    {"DIAG", steps_diag},
    {"FILL", steps_filled},
    {"REPEAT_BACK", steps_repeat_back},
    {"ARANGE", steps_arange},
    {"CUMSUM", steps_cumsum},
    {"TRI", steps_tri},
    {"DIAG_MASK_INF", steps_diag_mask},
    {"TIMESTEP_EMBEDDING", steps_timestep},
    {"SOLVE_TRI", steps_solve_tri},
    {"GROUP_NORM", steps_group_norm},
    {"RMS_NORM_BACK", steps_rms_norm_back},
    {"SOFT_MAX_BACK", steps_soft_max_back},
    {"CROSS_ENTROPY_LOSS_BACK", steps_cross_entropy_back},
    {"OPT_STEP_SGD", steps_sgd},
    {"OPT_STEP_ADAMW", steps_adamw},
    {"IM2COL", steps_im2col},
    {"IM2COL_3D", steps_im2col_3d},
    {"CONV_2D", steps_conv_2d},
    {"CONV_3D", steps_conv_3d},
    {"CONV_2D_DW", steps_conv_dw},
    {"POOL_1D", steps_pool_1d},
    {"POOL_2D", steps_pool_2d},
    {"SSM_CONV", steps_ssm_conv},
    {"COL2IM_1D", steps_col2im},
    {"CONV_TRANSPOSE_1D", steps_conv_transpose_1d},
    {"CONV_TRANSPOSE_2D", steps_conv_transpose_2d},
    {"GET_ROWS_BACK", steps_get_rows_back},
    {"GATED_DELTA_NET", steps_gated_delta_net},
    {"GATED_LINEAR_ATTN", steps_gated_linear},
    {"RWKV_WKV6", steps_rwkv6},
    {"RWKV_WKV7", steps_rwkv7},
    {"SSM_SCAN", steps_ssm_scan},
    {"UPSCALE", steps_upscale},
    {"ARGSORT", steps_sort},
    {"TOP_K", steps_sort},
};
enum { N_OPS = sizeof ops / sizeof ops[0] };

#define ROOM_KEPT ((size_t) 64 << 20)

enum { MOST_CHUNKS = 256 }; // of a kernel

// ---- room ----

enum status steps_room_reserve(struct hsa_stream * s, size_t bytes, struct error * err) {
    struct npu_stream * n = s->npu;
    if (bytes <= n->room_size) {
        return ST_OK;
    }
    enum status st = stream_wait(s, err);
    if (st != ST_OK) {
        return st;
    }
    steps_room_free(s);
    bytes = GGML_PAD(bytes + bytes / 4, (size_t) 1 << 16);
    n->room = hsac_alloc(s->device->agent, HSAC_POOL_DATA, bytes);
    n->room_size = n->room ? bytes : 0;
    return n->room ? ST_OK : error_set(err, ST_NO_MEMORY, "no room for %zu bytes", bytes);
}

void steps_room_free(struct hsa_stream * s) {
    if (s->npu->room) {
        hsac_free(s->device->agent, s->npu->room);
    }
    s->npu->room = NULL;
    s->npu->room_size = 0;
}

void steps_room_reset(struct hsa_stream * s) {
    if (s->npu->room_size > ROOM_KEPT && !s->npu->room_busy) {
        steps_room_free(s);
    }
}

// ---- views ----

static struct view placed(const struct ggml_tensor * t, int which) {
    struct view v = view_of(t);
    v.data = v.data ? v.data : pretended(which) + t->view_offs % BUFFER_ALIGNMENT;
    return v;
}

struct view steps_src(const struct steps * s, int i) {
    return placed(s->node->src[i], PRETENDED_SOURCE + i);
}

struct view steps_dst(const struct steps * s) {
    return placed(s->node, PRETENDED_RESULT);
}

struct view steps_temp(struct steps * s, enum ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2,
                       int64_t ne3) {
    const int64_t ne[GGML_MAX_DIMS] = {ne0, ne1, ne2, ne3};
    struct view v = view_contiguous(type, ne, s->room + s->used);
    s->used += GGML_PAD(view_bytes(&v) + DMA_WORD, BUFFER_ALIGNMENT);
    s->most = s->used > s->most ? s->used : s->most;
    return v;
}

struct view steps_like(struct steps * s, const struct view * v) {
    return steps_temp(s, GGML_TYPE_F32, v->ne[0], v->ne[1], v->ne[2], v->ne[3]);
}

struct view steps_row(struct view v, int dim, int64_t first, int64_t n) {
    v.data += (size_t) first * v.nb[dim];
    v.ne[dim] = n;
    return v;
}

struct view steps_every(struct view v, int dim, int64_t step) {
    v.ne[dim] = (v.ne[dim] + step - 1) / step;
    v.nb[dim] *= (size_t) step;
    return v;
}

struct view steps_as(const struct view * v, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) {
    const int64_t ne[GGML_MAX_DIMS] = {ne0, ne1, ne2, ne3};
    return view_contiguous(v->type, ne, v->data);
}

static bool is_empty(const struct view * v) {
    return v->ne[0] <= 0 || v->ne[1] <= 0 || v->ne[2] <= 0 || v->ne[3] <= 0;
}

static bool same_shape(const struct view * a, const struct view * b) {
    return !memcmp(a->ne, b->ne, sizeof a->ne);
}

static int64_t elements(const struct view * v) {
    return v->ne[0] * v->ne[1] * v->ne[2] * v->ne[3];
}

// ---- steps ----

void steps_need(struct steps * s, bool ok, const char * why) {
    if (s->status == ST_OK && !ok) {
        s->status = error_set(s->err, ST_UNSUPPORTED, "%s: %s", op_label(s->node), why);
    }
}

void steps_move(struct steps * s, struct view from, struct view to) {
    if (s->status != ST_OK || is_empty(&to) || is_empty(&from)) {
        return;
    }
    struct error why;
    steps_need(s, !plan_clobbers(&to, &from), "a copy over what it is still to read");
    bool ok = s->status == ST_OK && moves_check(s->device->npu, &from, &to, &why) == ST_OK;
    if (s->status == ST_OK && !ok) {
        steps_need(s, false, why.text);
    }
    if (ok && s->stream) {
        s->status = moves_send(s->stream, &from, &to, s->err);
    }
}

int64_t steps_number(struct steps * s, int ids, int64_t i, int64_t n) {
    const struct ggml_tensor * index = s->node->src[ids];
    if (!s->stream || s->status != ST_OK) {
        return 0;
    }
    if (i == 0) {
        kept_void(s->stream->npu->kept);
        bool pending = npu_is_pending(s->stream, index->data, ggml_nbytes(index));
        s->status = pending ? stream_wait(s->stream, s->err) : ST_OK;
        touch_tensor(s->device->agent, index);
    }
    int32_t number;
    memcpy(&number, (const char *) index->data + (size_t) i * index->nb[0], sizeof number);
    if (number < 0 || number >= n) {
        s->status = error_set(s->err, ST_INVALID, "%s: part %d is asked for, there are %lld",
                              op_label(s->node), (int) number, (long long) n);
        return 0;
    }
    return number;
}

void steps_lookup(struct steps * s, struct view table, int ids, struct view to) {
    for (int64_t i = 0; i < (s->stream ? to.ne[3] : 1) && s->status == ST_OK; i++) {
        int64_t row = steps_number(s, ids, i, table.ne[3]);
        steps_move(s, steps_row(table, 3, row, 1), steps_row(to, 3, i, 1));
    }
}

// A kernel and its operands: the inputs, then the result.
struct call {
    enum kernel_op op;
    uint32_t params[KERNEL_MAX_PARAMS];
    int n_inputs;
    struct view at[PLAN_OPERANDS];
};

static struct kernel_spec spec_of(const struct steps * s, const struct call * c) {
    struct kernel_spec spec = {.op = c->op,
                               .arch = s->device->npu->arch,
                               .precision = s->precision,
                               .n_inputs = c->n_inputs};
    for (int i = 0; i < c->n_inputs; i++) {
        spec.inputs[i] = plan_tensor(&c->at[i]);
    }
    spec.output = plan_tensor(&c->at[c->n_inputs]);
    memcpy(spec.params, c->params, sizeof spec.params);
    return spec;
}

static bool can(const struct steps * s, const struct call * c) {
    struct kernel_spec spec = spec_of(s, c);
    bool ok = true;
    for (int i = 0; i <= c->n_inputs; i++) {
        ok = ok && (uintptr_t) c->at[i].data % DMA_WORD == 0 &&
             !plan_clobbers(&c->at[c->n_inputs], &c->at[i]);
    }
    return ok && plan_can(s->device->npu->store, &spec, false);
}

static void send(struct steps * s, const struct call * c) {
    struct kernel_spec spec = spec_of(s, c);
    char * at[PLAN_OPERANDS] = {0};
    for (int i = 0; i <= c->n_inputs; i++) {
        at[i] = c->at[i].data;
    }
    if (s->stream && s->status == ST_OK) {
        s->status = npu_dispatch(s->stream, &spec, at, s->err);
    }
}

// Units of a packed call: elements where all operands have the same shape, rows otherwise.
static struct call part(const struct call * c, bool rows, int64_t first, int64_t n) {
    struct call p = *c;
    for (int i = 0; i <= c->n_inputs; i++) {
        const struct view * v = &c->at[i];
        size_t step = rows ? v->nb[1] : v->nb[0];
        const int64_t ne[GGML_MAX_DIMS] = {rows ? v->ne[0] : n, rows ? n : 1, 1, 1};
        p.at[i] = view_contiguous(v->type, ne, v->data + (size_t) first * step);
    }
    return p;
}

static void chunks(struct steps * s, const struct call * c, bool rows) {
    const struct view * out = &c->at[c->n_inputs];
    int64_t n = rows ? elements(out) / out->ne[0] : elements(out), chunk = n;
    struct call p;
    while (p = part(c, rows, 0, chunk), !can(s, &p)) {
        if (chunk == 1 || n / chunk >= MOST_CHUNKS) {
            steps_need(s, false, "no kernel takes one of its steps");
            return;
        }
        chunk = (chunk + 1) / 2;
        chunk = rows || chunk < 64 ? chunk : GGML_PAD(chunk, 64);
    }
    struct call rest = part(c, rows, 0, n % chunk ? n % chunk : chunk);
    steps_need(s, can(s, &rest), "no kernel takes the rest of one of its steps");
    for (int64_t at = 0; at < n && s->status == ST_OK; at += chunk) {
        p = part(c, rows, at, n - at < chunk ? n - at : chunk);
        send(s, &p);
    }
}

// With operands in the room that are not packed, or not of the result's shape.
static struct call packed(struct steps * s, const struct call * c, bool full, bool send_moves) {
    struct call p = *c;
    const struct view * out = &c->at[c->n_inputs];
    for (int i = 0; i <= c->n_inputs; i++) {
        const struct view * v = &c->at[i];
        bool repeated = full && !same_shape(v, out);
        if (!repeated && view_is_packed(v) && !plan_clobbers(out, v)) {
            p.at[i] = view_contiguous(v->type, v->ne, v->data);
            continue;
        }
        const struct view * shape = repeated ? out : v;
        p.at[i] = steps_temp(s, v->type, shape->ne[0], shape->ne[1], shape->ne[2], shape->ne[3]);
        if (send_moves && i < c->n_inputs) {
            steps_move(s, *v, p.at[i]);
        }
    }
    return p;
}

static void call(struct steps * s, const struct call * c, bool rows) {
    const struct view * out = &c->at[c->n_inputs];
    if (s->status != ST_OK || is_empty(out)) {
        return;
    }
    if (can(s, c)) {
        send(s, c);
        return;
    }
    size_t used = s->used;
    struct call p = packed(s, c, false, false);
    bool whole = can(s, &p);
    s->used = used;
    p = packed(s, c, !whole && !rows, true);
    if (whole) {
        send(s, &p);
    } else {
        chunks(s, &p, rows);
    }
    if (p.at[c->n_inputs].data != out->data) {
        steps_move(s, p.at[c->n_inputs], *out);
    }
    s->used = used;
}

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

void steps_unary(struct steps * s, enum kernel_op op, struct view a, struct view out) {
    call(s, &(struct call){.op = op, .n_inputs = 1, .at = {a, out}}, false);
}

void steps_binary(struct steps * s, enum kernel_op op, struct view a, struct view b,
                  struct view out) {
    call(s, &(struct call){.op = op, .n_inputs = 2, .at = {a, b, out}}, false);
}

void steps_params(struct steps * s, enum kernel_op op, struct view a, struct view out, float p0,
                  float p1) {
    struct call c = {.op = op, .params = {bits_of(p0), bits_of(p1)}, .n_inputs = 1, .at = {a, out}};
    call(s, &c, false);
}

void steps_rows(struct steps * s, enum kernel_op op, struct view a, struct view out, float p0,
                float p1) {
    struct call c = {.op = op, .params = {bits_of(p0), bits_of(p1)}, .n_inputs = 1, .at = {a, out}};
    call(s, &c, true);
}

void steps_pairs(struct steps * s, enum kernel_op op, struct view a, struct view out,
                 uint32_t param) {
    call(s, &(struct call){.op = op, .params = {param}, .n_inputs = 1, .at = {a, out}}, true);
}

// CLAMP makes one number of all, whatever they were: NaN too.
void steps_fill(struct steps * s, struct view v, float value) {
    if (is_empty(&v)) {
        return;
    }
    if (view_is_packed(&v)) {
        steps_params(s, KERNEL_OP_CLAMP, v, v, value, value);
        return;
    }
    size_t used = s->used;
    struct view one = steps_temp(s, v.type, 1, 1, 1, 1);
    steps_params(s, KERNEL_OP_CLAMP, one, one, value, value);
    steps_move(s, one, v);
    s->used = used;
}

// ---- products ----

static struct ggml_tensor tensor_of(const struct view * v) {
    struct ggml_tensor t = {.type = v->type, .data = v->data};
    memcpy(t.ne, v->ne, sizeof t.ne);
    memcpy(t.nb, v->nb, sizeof t.nb);
    return t;
}

void steps_product(struct steps * s, struct view a, struct view b, struct view out, bool precise) {
    if (s->status != ST_OK || is_empty(&out)) {
        return;
    }
    struct ggml_tensor ta = tensor_of(&a), tb = tensor_of(&b), node = tensor_of(&out);
    node.op = GGML_OP_MUL_MAT;
    node.op_params[0] = precise ? GGML_PREC_F32 : GGML_PREC_DEFAULT;
    node.src[0] = &ta;
    node.src[1] = &tb;
    struct mat_plan plan;
    s->status = mat_plan_node(mat_world_of(s->device), &node, &plan, s->err);
    if (s->status == ST_OK) {
        steps_need(s, !mat_reads_on_host(&plan) && !plan.result.staged && !plan.nothing_to_add,
                   "its product needs the host");
    }
    if (s->stream && s->status == ST_OK) {
        // What was packed of these places was of another node.
        mat_forget(s->stream, a.data, view_bytes(&a));
        mat_forget(s->stream, b.data, view_bytes(&b));
        s->status = mat_compute(s->stream, &node, s->err);
    }
}

// ---- datatypes ----

// Two numbers at a time: of an odd number the word behind the last is read, and written, too. It is
// the tensor's own, as a whole tensor's tail is.
static struct view flat(const struct view * v) {
    const int64_t ne[GGML_MAX_DIMS] = {GGML_PAD(elements(v), 2), 1, 1, 1};
    return view_contiguous(v->type, ne, v->data);
}

// Does it lie without gaps, its dimensions in whatever order?
static bool is_dense(const struct view * v) {
    size_t size = ggml_type_size(v->type);
    return view_bytes(v) == (size_t) elements(v) * size;
}

struct view steps_widen(struct steps * s, struct view v) {
    if (v.type == GGML_TYPE_F32 || s->status != ST_OK) {
        return v;
    }
    steps_need(s, v.type == GGML_TYPE_F16 || v.type == GGML_TYPE_BF16,
               "an operand that is not f32, f16 or bf16");
    steps_need(s, s->status == ST_OK && is_dense(&v), "short floats with gaps between them");
    struct view wide = steps_like(s, &v);
    steps_move(s, flat(&v), flat(&wide));
    for (int d = 0; d < GGML_MAX_DIMS; d++) {
        wide.nb[d] = v.nb[d] / ggml_type_size(v.type) * sizeof(float);
    }
    return wide;
}

struct view steps_packed(struct steps * s, struct view v) {
    v = steps_widen(s, v);
    if (view_is_packed(&v)) {
        return view_contiguous(v.type, v.ne, v.data);
    }
    struct view out = steps_like(s, &v);
    steps_move(s, v, out);
    return out;
}

void steps_narrow(struct steps * s, struct view from, struct view to) {
    if (from.type == to.type) {
        steps_move(s, from, to);
        return;
    }
    steps_need(s, view_is_packed(&from) && view_is_packed(&to),
               "short floats that are not contiguous");
    steps_move(s, flat(&from), flat(&to));
}

// ---- nodes ----

static steps_op * by_op[GGML_OP_COUNT];
static pthread_once_t map_once = PTHREAD_ONCE_INIT;

static void build_map(void) {
    for (int op = 0; op < GGML_OP_COUNT; op++) {
        for (int i = 0; i < N_OPS; i++) {
            bool same = !strcmp(ops[i].name, ggml_op_name((enum ggml_op) op));
            by_op[op] = same ? ops[i].say : by_op[op];
        }
    }
}

static steps_op * op_of(const struct ggml_tensor * node) {
    pthread_once(&map_once, build_map);
    return (unsigned) node->op < GGML_OP_COUNT ? by_op[node->op] : NULL;
}

bool steps_is(const struct ggml_tensor * node) {
    steps_op * say = op_of(node);
    return say && (say != steps_sort || steps_is_long_sort(node));
}

// The first half: nothing is sent.
static struct steps ask(struct hsa_device * device, const struct ggml_tensor * node,
                        struct error * err) {
    struct steps s = {.device = device,
                      .node = node,
                      .precision = plan_precision(),
                      .room = pretended(PRETENDED_ROOM),
                      .err = err};
    steps_need(&s, op_has_sources(node), "a source is missing");
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        steps_need(&s, !node->src[i] || !ggml_is_empty(node->src[i]), "a source has no elements");
    }
    if (s.status == ST_OK && !ggml_is_empty(node)) {
        op_of(node)(&s, node);
    }
    return s;
}

enum status steps_check(struct hsa_device * device, const struct ggml_tensor * node,
                        struct error * err) {
    return ask(device, node, err).status;
}

enum status steps_run(struct hsa_stream * s, struct ggml_tensor * node, struct error * err) {
    struct steps asked = ask(s->device, node, err);
    enum status st = asked.status;
    st = st == ST_OK ? steps_room_reserve(s, asked.most, err) : st;
    if (st != ST_OK || ggml_is_empty(node)) {
        return st;
    }
    struct steps say = {.device = s->device,
                        .stream = s,
                        .node = node,
                        .precision = plan_precision(),
                        .room = s->npu->room,
                        .err = err};
    kept_room(s->npu->kept, s->npu->room, s->npu->room_size);
    s->npu->room_busy = true;
    op_of(node)(&say, node);
    s->npu->room_busy = false;
    return say.status;
}
