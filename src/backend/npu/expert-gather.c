// expert-gather: the experts of one token as one product (expert.c). The kernel sees their weights
// one behind the other, and its descriptors are aimed at each where it lies (join.h): either as so
// many batches, or, where one row of src1 is for all of them, as one matrix with the rows of all.
//
// Kept true: no descriptor reads the weights of two experts. Those of batches never read two
// batches (test-gather holds that); of one matrix the compiler is asked.
#include "expert.h"
#include "panels.h"
#include "pretended.h"

struct gathered {
    struct expert_product p;
    struct join_gather parts;
    struct shadow * shadows[JOIN_MOST_PARTS]; // NULL: the weights are not padded
};

bool expert_can_gather(const struct hsa_stream * s, const struct expert_call * c) {
    return s->npu->join && c->n_tokens == 1 && c->n_slots > 1 && c->n_slots <= JOIN_MOST_PARTS &&
           c->n_slots <= c->n_experts && (c->b->ne[1] == 1 || c->b->ne[1] == c->n_slots) &&
           !hsac_agent_is_host(s->device->agent, c->as->data);
}

static void set_gathered(const struct expert_call * c, char * padded_row, struct gathered * g) {
    struct ggml_tensor *a = &g->p.a, *b = &g->p.b, *node = &g->p.node;
    expert_product(c, 0, 0, &g->p);
    if (g->shadows[0]) {
        struct view view = shadow_view(g->shadows[0]);
        expert_pad(c, g->shadows[0], padded_row, &g->p);
        a->data = pretended(PRETENDED_EXPERTS);
        a->nb[2] = a->nb[3] = view_bytes(&view);
    }
    a->ne[2] = b->ne[2] = node->ne[2] = c->n_slots;
    b->nb[2] = c->b->ne[1] == 1 ? 0 : b->nb[1]; // one row for all of them, or one for each
    node->nb[2] = node->nb[1];
    g->parts = (struct join_gather){.n = (int) c->n_slots, .in = {a->data, a->nb[2], {NULL}}};
    for (int i = 0; i < g->parts.n; i++) {
        g->parts.in.at[i] = g->shadows[i]
                                ? shadow_view(g->shadows[i]).data
                                : (char *) c->as->data + (size_t) expert_id(c, i) * c->as->nb[2];
    }
}

// The same as one matrix with the rows of all, which the array's columns share evenly, however few
// an expert has. One row of src1 is for all of them, then.
static bool set_rows_of_all(const struct expert_call * c, struct expert_product * p) {
    struct ggml_tensor *a = &p->a, *b = &p->b, *node = &p->node;
    int64_t rows = a->ne[1];
    if (c->b->ne[1] > 1 || a->nb[2] != (size_t) rows * a->nb[1] ||
        node->nb[1] != (size_t) rows * sizeof(float)) {
        return false;
    }
    a->ne[1] = node->ne[0] = rows * c->n_slots;
    a->ne[2] = b->ne[2] = node->ne[2] = 1;
    a->nb[2] = a->nb[3] = (size_t) a->ne[1] * a->nb[1];
    node->nb[1] = node->nb[2] = node->nb[3] = (size_t) node->ne[0] * sizeof(float);
    node->src[0] = a;
    node->src[1] = b;
    return true;
}

// One kernel that reads the weights where they are, or several? Descriptors end with a batch; with
// the rows of all they have to end with those of an expert.
static bool is_one(struct hsa_stream * s, const struct expert_call * c, const struct gathered * g,
                   const struct expert_product * p) {
    struct mat_world w = mat_world_of(s->device);
    struct mat_plan plan;
    w.panel = g->shadows[0] ? p->panel : c->weights.panel;
    bool one = mat_plan_node(w, &p->node, &plan, NULL) == ST_OK && plan.a.way == MAT_AS_IT_STANDS &&
               !plan.by_pieces && !mat_reads_on_host(&plan) && !plan.result.staged &&
               (!g->shadows[0] || mat_scratch(&plan) == 0);
    if (one && p->a.ne[1] > c->as->ne[1]) {
        struct mat_at at = {0};
        char * addr[PLAN_OPERANDS] = {NULL};
        struct kernel_spec spec = mat_part(&plan, w.arch, &at, addr);
        one = !mat_next(&plan, &at) && store_reads_by(w.store, &spec, c->as->ne[1]);
    }
    return one;
}

// As one of the two was sent before; else with the rows of all where that is one kernel. Where
// neither is, it is not done: one by one.
static enum status send_gathered(struct hsa_stream * s, const struct expert_call * c,
                                 struct gathered * g, bool * done, struct error * err) {
    struct expert_product all = g->p;
    const struct expert_product * as = &g->p;
    bool can = set_rows_of_all(c, &all);
    s->npu->gather = &g->parts;
    enum status st = can ? kept_node(s, &all.node, done, err) : ST_OK;
    if (st == ST_OK && !*done) {
        st = kept_node(s, &as->node, done, err);
    }
    if (st == ST_OK && !*done && can && is_one(s, c, g, &all)) {
        as = &all;
        st = kept_node(s, &as->node, done, err); // it is this one that is written down
    }
    if (st == ST_OK && !*done && (as == &all || is_one(s, c, g, as))) {
        st = g->shadows[0] ? mat_compute_as(s, &as->node, as->panel, err)
                           : mat_compute(s, &as->node, err);
        *done = st == ST_OK;
        kept_end(s, *done);
    }
    kept_void(s->npu->kept);
    s->npu->gather = NULL;
    return st == ST_UNSUPPORTED ? ST_OK : st;
}

enum status expert_gathered(struct hsa_stream * s, const struct expert_call * c, bool * done,
                            struct error * err) {
    struct gathered g = {.parts.n = 0};
    struct expert_rows rows = {0};
    int n = c->pads ? (int) c->n_slots : 0;
    bool whole = true;
    enum status st = ST_OK;
    for (int i = 0; i < n && st == ST_OK; i++) {
        struct mat_source weights = expert_source(c, expert_id(c, i));
        st = mat_shadow(s, c->as, &weights, MAT_PADDED, &c->padded, &g.shadows[i], err);
        whole = whole && g.shadows[i];
    }
    if (st == ST_OK && n && whole) {
        st = expert_pad_rows(s, c, &rows, err);
        whole = rows.room != NULL;
    }
    if (st == ST_OK && whole) {
        set_gathered(c, rows.room, &g);
        st = send_gathered(s, c, &g, done, err);
    }
    for (int i = 0; i < n; i++) {
        if (*done) {
            npu_hold(s, g.shadows[i]);
        } else if (g.shadows[i]) {
            shadow_release(g.shadows[i]);
        }
    }
    return st;
}
