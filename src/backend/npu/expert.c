// expert: MUL_MAT_ID, where each row of src1 meets the matrices that its ids name. The ids are
// data, so that the host reads them, waiting for them where a kernel still writes them: that is
// once for all products of a layer, which have the same ids.
//
// A token's experts are one product, of as many batches, in which the weights of each batch are
// aimed at the expert that was chosen (join_gather), or, where one row of src1 is for all, of one
// matrix with the rows of all: its plan is kept (kept.h) whichever they are, and the host does not
// wait. Where they cannot be one, an expert with one row is a product like
// any other, of operands and to a result as they lie. Where experts have more rows, the host waits,
// brings the rows of each together, and makes one product for each expert. Rows are padded up to
// few sizes, so that not every count wants a kernel of its own.
//
// Rows of blocks that do not begin at words (mxfp4 of 2880, as gpt-oss has) are kept a second time,
// with blocks of zeros behind each, and rows of src1 get zeros behind them.
//
// Weights of experts that were not chosen are never read. An id of no expert is an error.
//
// dst[:, slot, token] = as[:, :, ids[slot, token]] * b[:, slot mod b's, token]
#include "expert.h"
#include "moves.h"
#include "panels.h"
#include "touch.h"

#include <stdlib.h>
#include <string.h>

// How many experts are sent before the host waits for their results, and how large their scratch
// may be. An expert that needs more scratch is sent alone.
#define GROUP_EXPERTS 32
#define GROUP_BYTES   ((size_t) 64 << 20)

struct sorted {     // rows of the result by expert
    int64_t * rows; // slot + n_slots * token
    int64_t * end;  // of each expert in rows
};

struct job { // an expert with several rows
    struct mat_plan plan;
    struct shadow * shadow; // NULL: none
    const int64_t * rows;
    int64_t n_rows;
};

// ---- plans ----

struct mat_source expert_source(const struct expert_call * c, int64_t expert) {
    struct mat_source one = c->weights;
    one.view.ne[2] = 1;
    if (one.view.data) {
        one.view.data += (size_t) expert * one.view.nb[2];
    }
    return one;
}

static bool find_padded(const struct mat_world * w, struct expert_call * c) {
    struct shadows * all = c->as->buffer ? buffer_shadows(c->as) : NULL;
    struct mat_source one = expert_source(c, 0);
    return all ? shadows_padded(all, w, &one, &c->padded) : mat_padded(w, &one, &c->padded);
}

static enum status call_of(const struct mat_world * w, const struct ggml_tensor * node,
                           struct expert_call * out, struct error * err) {
    const struct ggml_tensor *as = node->src[0], *b = node->src[1], *ids = node->src[2];
    if (!as || !b || !ids) {
        return error_set(err, ST_INVALID, "MUL_MAT_ID has an operand too few");
    }
    *out = (struct expert_call){.node = node,
                                .as = as,
                                .b = b,
                                .ids = ids,
                                .weights = mat_source_of(view_of(as), false),
                                .n_experts = as->ne[2],
                                .n_slots = ids->ne[0],
                                .n_tokens = ids->ne[1]};
    out->weights.panel = panels_of(buffer_panels(as), &out->weights.view);
    struct mat_source rows = mat_source_of(view_of(b), false);
    bool floats = mat_can_stage(&out->weights) && !mat_is_integer(as->type) &&
                  mat_can_stage(&rows) && !mat_is_integer(b->type);
    if (!floats || ids->type != GGML_TYPE_I32 || node->type != GGML_TYPE_F32) {
        return error_set(err, ST_UNSUPPORTED, "MUL_MAT_ID of %s and %s is not supported",
                         ggml_type_name(as->type), ggml_type_name(b->type));
    }
    bool ok = as->ne[0] == b->ne[0] && as->ne[3] == 1 && b->ne[3] == 1 && ids->ne[2] == 1 &&
              ids->ne[3] == 1 && b->ne[2] == out->n_tokens && b->ne[1] > 0 &&
              out->n_slots % b->ne[1] == 0 && node->ne[0] == as->ne[1] &&
              node->ne[1] == out->n_slots && node->ne[2] == out->n_tokens && node->ne[3] == 1;
    if (!ok) {
        return error_set(err, ST_INVALID,
                         "MUL_MAT_ID: the shapes of its operands and result do not match");
    }
    out->precise =
        mat_is_precise(w, node) && !(as->type == GGML_TYPE_BF16 && b->type == GGML_TYPE_BF16);
    out->pads = !out->precise && b->type == GGML_TYPE_F32 && find_padded(w, out);
    out->k = out->pads ? out->padded.view.ne[0] : as->ne[0];
    return ST_OK;
}

// The rows of src1 that one expert gets, in the kernel's form.
static struct view rows_view(const struct expert_call * c, int64_t k, int64_t n) {
    struct mat_source rows = {.view =
                                  view_contiguous(GGML_TYPE_F32, (int64_t[]){k, n, 1, 1}, NULL)};
    return mat_packed(&rows, c->precise ? MAT_RIGHT : MAT_HI, NULL);
}

// a: an expert's weights, as they are or padded.
static enum status plan_expert(const struct mat_world * w, const struct expert_call * c,
                               const struct mat_source * a, int64_t n_rows, struct mat_plan * out,
                               struct error * err) {
    int64_t n = mat_padded_rows(n_rows);
    struct view b = rows_view(c, a->view.ne[0], n);
    struct view result = view_contiguous(GGML_TYPE_F32, (int64_t[]){c->as->ne[1], n, 1, 1}, NULL);
    return mat_plan_prepared(*w, a, c->precise, &b, &result, out, err);
}

void expert_product(const struct expert_call * c, int64_t expert, int64_t row,
                    struct expert_product * out) {
    int64_t slot = row % c->n_slots, token = row / c->n_slots;
    struct ggml_tensor *a = &out->a, *b = &out->b, *node = &out->node;
    out->panel = (struct kernel_panel){0};
    *a = *c->as;
    *b = *c->b;
    *node = *c->node;
    a->ne[2] = b->ne[1] = b->ne[2] = node->ne[1] = node->ne[2] = 1;
    if (a->data) {
        a->data = (char *) a->data + (size_t) expert * a->nb[2];
        b->data =
            (char *) b->data + (size_t) (slot % c->b->ne[1]) * b->nb[1] + (size_t) token * b->nb[2];
        node->data =
            (char *) node->data + (size_t) slot * node->nb[1] + (size_t) token * node->nb[2];
    }
    node->op = GGML_OP_MUL_MAT;
    node->src[0] = a;
    node->src[1] = b;
    node->src[2] = NULL;
}

// The same with weights and a row that are padded. Nodes like it are known by their tensors
// (kept.h), and how these weights lie is not to be seen of them: so it stands in a parameter that
// MUL_MAT does not have.
void expert_pad(const struct expert_call * c, const struct shadow * weights, char * row,
                struct expert_product * out) {
    enum { LAST_PARAM = GGML_MAX_OP_PARAMS / 4 - 1 };
    struct ggml_tensor *a = &out->a, *b = &out->b;
    const struct view view = shadow_view(weights);
    out->panel = shadow_panel(weights);
    out->node.op_params[LAST_PARAM] = 1 + out->panel.rows;
    a->ne[0] = b->ne[0] = c->k;
    a->data = view.data;
    b->data = row;
    for (int d = 1; d < GGML_MAX_DIMS; d++) {
        a->nb[d] = view.nb[d];
        b->nb[d] = (size_t) c->k * sizeof(float);
    }
    a->view_src = b->view_src = NULL;
}

enum status expert_check(const struct mat_world * w, const struct ggml_tensor * node,
                         struct error * err) {
    struct expert_call c;
    enum status st = call_of(w, node, &c, err);
    if (st != ST_OK || ggml_is_empty(node) || c.as->ne[0] == 0) {
        return st;
    }
    struct expert_product one;
    struct mat_plan alone;
    expert_product(&c, 0, 0, &one);
    struct mat_world own = *w;
    own.panel = c.weights.panel;
    st = mat_plan_node(own, &one.node, &alone, err);
    // Any expert may get any number of the rows; padded or, where there is no memory for that, not.
    const struct mat_source weights[] = {expert_source(&c, 0), c.padded};
    int64_t most = c.n_slots * c.n_tokens, n = 1;
    while (st == ST_OK && n <= most) {
        struct mat_plan p;
        st = plan_expert(w, &c, &weights[0], n, &p, err);
        if (st == ST_OK && c.pads) {
            st = plan_expert(w, &c, &weights[1], n, &p, err);
        }
        n = mat_padded_rows(n) + 1;
    }
    return st;
}

// As if every expert got as many rows.
void expert_ways(struct mat_world w, const struct ggml_tensor * node, struct route_stop * out) {
    struct expert_call c;
    struct mat_plan p;
    if (call_of(&w, node, &c, NULL) != ST_OK || ggml_is_empty(node) || c.as->ne[0] == 0) {
        return;
    }
    int64_t rows = c.n_slots * c.n_tokens, experts = rows < c.n_experts ? rows : c.n_experts;
    struct mat_source weights = c.pads ? c.padded : expert_source(&c, 0);
    w.ways = out;
    if (plan_expert(&w, &c, &weights, (rows + experts - 1) / experts, &p, NULL) == ST_OK &&
        !out->n) {
        route_add(out, mat_cost(&w, &p));
    }
    for (int i = 0; i < out->n; i++) {
        out->ways[i].cycles *= (uint64_t) experts;
    }
}

// ---- rows by expert ----

int32_t expert_id(const struct expert_call * c, int64_t row) {
    int32_t id;
    const char * at = (const char *) c->ids->data + (size_t) (row % c->n_slots) * c->ids->nb[0] +
                      (size_t) (row / c->n_slots) * c->ids->nb[1];
    memcpy(&id, at, sizeof id);
    return id;
}

static void sorted_free(struct sorted * s) {
    free(s->rows);
    free(s->end);
}

static enum status sort_rows(const struct expert_call * c, struct sorted * out,
                             struct error * err) {
    int64_t n = c->n_slots * c->n_tokens;
    *out = (struct sorted){
        .rows = malloc((size_t) n * sizeof *out->rows),
        .end = calloc((size_t) c->n_experts + 1, sizeof *out->end),
    };
    if (!out->rows || !out->end) {
        return error_set(err, ST_NO_MEMORY, "no memory to sort %lld rows by expert", (long long) n);
    }
    for (int64_t row = 0; row < n; row++) {
        int32_t id = expert_id(c, row);
        if (id < 0 || id >= c->n_experts) {
            return error_set(err, ST_INVALID,
                             "expert %d is asked for (place %lld of token %lld), there are %lld",
                             (int) id, (long long) (row % c->n_slots),
                             (long long) (row / c->n_slots), (long long) c->n_experts);
        }
        out->end[id + 1]++;
    }
    for (int64_t e = 0; e < c->n_experts; e++) {
        out->end[e + 1] += out->end[e];
    }
    for (int64_t row = 0; row < n; row++) { // end[e] is where e begins, and moves to where it ends
        out->rows[out->end[expert_id(c, row)]++] = row;
    }
    return ST_OK;
}

// ---- one group ----

static char * row_of(const struct ggml_tensor * t, int64_t slot, int64_t token) {
    return (char *) t->data + (size_t) (slot % t->ne[1]) * t->nb[1] + (size_t) token * t->nb[2];
}

static void gather(const struct expert_call * c, const struct job * j, float * row) {
    const struct view * to = &j->plan.b.kernel;
    for (int64_t i = 0; i < j->n_rows; i++) {
        memset(to->data + (size_t) i * to->nb[1], 0, to->nb[1]); // what is padded stays so
        const char * from = row_of(c->b, j->rows[i] % c->n_slots, j->rows[i] / c->n_slots);
        host_load_row(c->b->type, from, c->b->nb[0], c->b->ne[0], row);
        mat_put_row(row, c->b->ne[0], c->precise ? MAT_RIGHT : MAT_HI,
                    (uint16_t *) (void *) (to->data + (size_t) i * to->nb[1]));
    }
    memset(to->data + (size_t) j->n_rows * to->nb[1], 0,
           (size_t) (to->ne[1] - j->n_rows) * to->nb[1]);
}

static void scatter(const struct expert_call * c, const struct job * j) {
    const struct view * from = &j->plan.result.kernel;
    for (int64_t i = 0; i < j->n_rows; i++) {
        char * to = row_of(c->node, j->rows[i] % c->n_slots, j->rows[i] / c->n_slots);
        host_store_row(GGML_TYPE_F32, to, c->node->nb[0], c->node->ne[0],
                       (const float *) (const void *) (from->data + (size_t) i * from->nb[1]));
    }
}

static size_t own_bytes(const struct job * j) { // beside what mat_place hands out
    return GGML_PAD(view_bytes(&j->plan.b.kernel), BUFFER_ALIGNMENT) +
           GGML_PAD(view_bytes(&j->plan.result.tensor), BUFFER_ALIGNMENT);
}

static void place(struct job * j, char * room) {
    struct mat_plan * p = &j->plan;
    p->b.kernel.data = room;
    room += GGML_PAD(view_bytes(&p->b.kernel), BUFFER_ALIGNMENT);
    p->result.kernel.data = room;
    room += GGML_PAD(view_bytes(&p->result.kernel), BUFFER_ALIGNMENT);
    mat_place(p, room);
}

// The stream has been waited for: operands may be read.
static enum status run_group(struct hsa_stream * s, const struct expert_call * c, struct job * jobs,
                             int n, size_t bytes, float * row, struct error * err) {
    char * room;
    enum status st = stream_scratch(s, bytes, &room, err);
    for (int i = 0; i < n && st == ST_OK; i++) {
        place(&jobs[i], room);
        room += own_bytes(&jobs[i]) + mat_scratch(&jobs[i].plan);
        touch_begin(s->device->agent, &jobs[i].plan.b.kernel);
        gather(c, &jobs[i], row);
        touch_end(s->device->agent, &jobs[i].plan.b.kernel);
        st = mat_send(s, &jobs[i].plan, err);
    }
    atomic_fetch_add(&s->device->staged_operands, 2 * (uint64_t) n); // the rows and the results
    enum status waited = stream_wait(s, st == ST_OK ? err : NULL);
    st = st == ST_OK ? waited : st;
    struct view all = view_of(c->node);
    touch_begin(s->device->agent, &all);
    for (int i = 0; i < n && st == ST_OK; i++) {
        touch_begin(s->device->agent, &jobs[i].plan.result.kernel);
        scatter(c, &jobs[i]);
    }
    touch_end(s->device->agent, &all);
    return st;
}

// ---- the node ----

static enum status plan_job(struct hsa_stream * s, const struct expert_call * c, int64_t expert,
                            struct job * j, struct error * err) {
    struct mat_world w = mat_world_here(s);
    enum mat_pieces pieces = c->precise ? MAT_LEFT : MAT_HI;
    struct mat_source weights = expert_source(c, expert);
    enum status st =
        c->pads ? mat_shadow(s, c->as, &weights, MAT_PADDED, &c->padded, &j->shadow, err) : ST_OK;
    if (st == ST_OK && j->shadow) {
        struct mat_source padded = {.view = shadow_view(j->shadow),
                                    .panel = shadow_panel(j->shadow)};
        return plan_expert(&w, c, &padded, j->n_rows, &j->plan, err);
    }
    st = st == ST_OK ? plan_expert(&w, c, &weights, j->n_rows, &j->plan, err) : st;
    if (st == ST_OK && !mat_stands(&weights, pieces) && !mat_streams(&weights, pieces)) {
        st = mat_shadow(s, c->as, &weights, pieces, NULL, &j->shadow, err);
    }
    if (j->shadow && j->plan.a.way != MAT_AS_IT_STANDS) {
        struct view packed = shadow_view(j->shadow);
        mat_use(&j->plan.a, &packed);
    }
    return st;
}

struct group { // what goes together
    struct job jobs[GROUP_EXPERTS];
    int n;
    size_t bytes;
};

static void release(struct group * g) { // what was sent for them has been waited for
    for (int i = 0; i < g->n; i++) {
        if (g->jobs[i].shadow) {
            shadow_release(g->jobs[i].shadow);
        }
    }
    g->n = 0;
    g->bytes = 0;
}

static enum status end_group(struct hsa_stream * s, const struct expert_call * c, struct group * g,
                             float * row, struct error * err) {
    enum status st = g->n ? run_group(s, c, g->jobs, g->n, g->bytes, row, err) : ST_OK;
    release(g);
    return st;
}

// Experts with several rows each.
static enum status run_together(struct hsa_stream * s, const struct expert_call * c,
                                const struct sorted * by, int64_t least, struct group * g,
                                float * row, struct error * err) {
    enum status st = stream_wait(s, err); // the rows may be results that are still on their way
    touch_tensor(s->device->agent, c->b);
    for (int64_t e = 0; e < c->n_experts && st == ST_OK; e++) {
        int64_t begin = e ? by->end[e - 1] : 0, n_rows = by->end[e] - begin;
        if (n_rows < least) {
            continue;
        }
        struct job j = {.rows = by->rows + begin, .n_rows = n_rows};
        st = plan_job(s, c, e, &j, err);
        size_t more = st == ST_OK ? own_bytes(&j) + mat_scratch(&j.plan) : 0;
        if (st == ST_OK && g->n > 0 && g->bytes + more > GROUP_BYTES) {
            st = end_group(s, c, g, row, err);
        }
        g->jobs[g->n++] = j;
        g->bytes += more;
        if (st == ST_OK && g->n == GROUP_EXPERTS) {
            st = end_group(s, c, g, row, err);
        }
    }
    if (st != ST_OK) {
        release(g); // nothing was sent for those
        return st;
    }
    return end_group(s, c, g, row, err);
}

enum status expert_pad_rows(struct hsa_stream * s, const struct expert_call * c,
                            struct expert_rows * out, struct error * err) {
    const int64_t ne[] = {c->k, c->b->ne[1], c->b->ne[2], 1};
    struct view from = view_of(c->b), all = view_contiguous(GGML_TYPE_F32, ne, NULL), to = all;
    to.ne[0] = from.ne[0];
    if (!moves_can(s->device->npu, &from, &to)) {
        return ST_OK;
    }
    char * room;
    enum status st = stream_scratch(s, view_bytes(&all), &room, err);
    if (st != ST_OK) {
        return st;
    }
    all.data = to.data = room;
    touch_begin(s->device->agent, &all);
    memset(room, 0, view_bytes(&all));
    touch_end(s->device->agent, &all);
    st = moves_send(s, &from, &to, err);
    *out = (struct expert_rows){st == ST_OK ? room : NULL, s->n_resets};
    return st;
}

// Computes the product as a node, and reuses the plan of an earlier node like it. *done is false
// where the product needs scratch of its own: its operands are there.
static enum status run_product(struct hsa_stream * s, const struct expert_product * p,
                               bool in_scratch, bool * done, struct error * err) {
    enum status st = kept_node(s, &p->node, done, err);
    if (st != ST_OK || *done) {
        return st;
    }
    if (in_scratch) {
        struct mat_plan plan;
        struct mat_world w = mat_world_of(s->device);
        w.panel = p->panel;
        st = mat_plan_node(w, &p->node, &plan, err);
        if (st != ST_OK || mat_scratch(&plan) > 0) {
            kept_void(s->npu->kept);
            return ST_OK;
        }
    }
    *done = true;
    st = in_scratch ? mat_compute_as(s, &p->node, p->panel, err) : mat_compute(s, &p->node, err);
    kept_end(s, st == ST_OK);
    return st;
}

// An expert with one row.
static enum status run_alone(struct hsa_stream * s, const struct expert_call * c, int64_t expert,
                             int64_t row, struct expert_rows * rows, struct error * err) {
    struct expert_product p;
    struct shadow * shadow = NULL;
    struct mat_source weights = expert_source(c, expert);
    bool done = false;
    enum status st =
        c->pads ? mat_shadow(s, c->as, &weights, MAT_PADDED, &c->padded, &shadow, err) : ST_OK;
    if (st == ST_OK && shadow && (!rows->room || rows->resets != s->n_resets)) {
        *rows = (struct expert_rows){0};
        st = expert_pad_rows(s, c, rows, err);
    }
    expert_product(c, expert, row, &p);
    if (st == ST_OK && shadow && rows->room) {
        struct expert_product padded = p;
        int64_t at = row % c->n_slots % c->b->ne[1] + row / c->n_slots * c->b->ne[1];
        padded.node.src[0] = &padded.a;
        padded.node.src[1] = &padded.b;
        expert_pad(c, shadow, rows->room + (size_t) at * (size_t) c->k * sizeof(float), &padded);
        st = run_product(s, &padded, true, &done, err);
    }
    if (done) {
        npu_hold(s, shadow);
    } else if (shadow) {
        shadow_release(shadow);
    }
    return st == ST_OK && !done ? run_product(s, &p, false, &done, err) : st;
}

static enum status run_all(struct hsa_stream * s, const struct expert_call * c,
                           const struct sorted * by, struct error * err) {
    bool done = false;
    enum status gathered = expert_can_gather(s, c) ? expert_gathered(s, c, &done, err) : ST_OK;
    if (gathered != ST_OK || done) {
        return gathered;
    }
    // All rows are padded at once, which is not for many.
    int64_t least = c->pads && c->n_slots * c->n_tokens > MAT_FEW_ROWS ? 1 : 2;
    struct expert_rows rows = {0};
    enum status st = ST_OK;
    bool several = false;
    for (int64_t e = 0; e < c->n_experts && st == ST_OK; e++) {
        int64_t begin = e ? by->end[e - 1] : 0, n_rows = by->end[e] - begin;
        bool alone = n_rows == 1 && least == 2;
        several |= n_rows > 0 && !alone;
        st = alone ? run_alone(s, c, e, by->rows[begin], &rows, err) : ST_OK;
    }
    if (st != ST_OK || !several) {
        return st;
    }
    struct group * g = calloc(1, sizeof *g);
    float * row = NULL;
    st = g ? host_row_alloc(c->b->ne[0], &row, err)
           : error_set(err, ST_NO_MEMORY, "no memory for the products of experts");
    st = st == ST_OK ? run_together(s, c, by, least, g, row, err) : st;
    free(g);
    free(row);
    return st;
}

enum status expert_compute(struct hsa_stream * s, const struct ggml_tensor * node,
                           struct error * err) {
    struct mat_world w = mat_world_of(s->device);
    struct expert_call c;
    enum status st = call_of(&w, node, &c, err);
    bool nothing = st == ST_OK && c.as->ne[0] == 0;
    if (st == ST_OK && (nothing || npu_is_pending(s, c.ids->data, ggml_nbytes(c.ids)))) {
        st = stream_wait(s, err);
    }
    if (st != ST_OK) {
        return st;
    }
    if (nothing) {
        mat_put_zeros(s->device->agent, node);
        return ST_OK;
    }
    struct sorted by;
    touch_tensor(s->device->agent, c.ids);
    st = sort_rows(&c, &by, err);
    st = st == ST_OK ? run_all(s, &c, &by, err) : st;
    sorted_free(&by);
    return st;
}
