// pair: two products of one tensor that are one kernel, as those of a layer's keys and values are,
// or gate and up. It is a product of two batches whose weights and results lie where they are
// (join_gather): b is read once for both, and there is one beginning and one end.
//
// Nobody can tell where neither product writes what the other one reads or writes. Weights are of
// one shape and lie alike, and are read as they stand. What a pair of such a shape comes to is
// kept (kept.h), and so is that it is none.
#include "dispatch.h"
#include "panels.h"
#include "pretended.h"

#include "backend/order.h"

#include <string.h>

// Where the node of a pair says how its weights lie, in which pairs differ that are alike else.
enum { PANEL_WORD = 8 };

struct pair { // as one node
    struct ggml_tensor node, a, b;
    struct kernel_panel panel;
    struct join_gather parts;
};

// ---- which ----

static bool is_plain(const struct ggml_tensor * node) {
    const struct ggml_tensor *a = node->src[0], *b = node->src[1];
    return node->op == GGML_OP_MUL_MAT && node->type == GGML_TYPE_F32 && ggml_is_contiguous(a) &&
           ggml_is_contiguous(b) && ggml_is_contiguous(node) && ggml_n_dims(a) <= 2 &&
           ggml_n_dims(b) <= 2 && !ggml_is_empty(node) && a->ne[0] > 0 && b->ne[1] <= MAT_FEW_ROWS;
}

static bool is_clear(const struct ggml_tensor * node, const struct ggml_tensor * other) {
    return !order_overlaps(node, other) && !order_overlaps(node, node->src[0]) &&
           !order_overlaps(node, node->src[1]) && !order_overlaps(node, other->src[0]);
}

static bool is_alike(const struct ggml_tensor * first, const struct ggml_tensor * second) {
    const struct ggml_tensor *a = first->src[0], *other = second->src[0];
    return first->src[1] == second->src[1] && a->type == other->type &&
           ggml_are_same_shape(a, other) &&
           (uintptr_t) a->data % DMA_WORD == (uintptr_t) other->data % DMA_WORD &&
           !memcmp(first->op_params, second->op_params, sizeof first->op_params);
}

static struct kernel_panel panel_of(const struct ggml_tensor * weights) {
    struct view v = view_of(weights);
    return panels_of(buffer_panels(weights), &v);
}

static bool is_same_panel(const struct kernel_panel * a, const struct kernel_panel * b) {
    return a->rows == b->rows && a->words == b->words && a->pair == b->pair && a->scale == b->scale;
}

// Memory of the host type is looked at by address, and these addresses are none.
static bool is_ours(const struct hsa_stream * s, const struct ggml_tensor * node) {
    return !hsac_agent_is_host(s->device->agent, node->data) &&
           !hsac_agent_is_host(s->device->agent, node->src[0]->data);
}

static bool may_pair(const struct hsa_stream * s, const struct ggml_tensor * first,
                     const struct ggml_tensor * second) {
    return s->npu->join && is_plain(first) && is_plain(second) && is_alike(first, second) &&
           is_clear(first, second) && is_clear(second, first) && is_ours(s, first) &&
           is_ours(s, second);
}

// ---- those that are none ----

static struct pair_shape shape_of(const struct pair * p) {
    return (struct pair_shape){.type = p->a.type,
                               .k = p->a.ne[0],
                               .m = p->a.ne[1],
                               .n = p->b.ne[1],
                               .rows = p->panel.rows};
}

static bool was_refused(const struct npu_stream * s, const struct pair_shape * shape) {
    bool was = false;
    for (int i = 0; i < RECENT_PAIRS && !was; i++) {
        const struct pair_shape * r = &s->refused[i];
        was = r->type == shape->type && r->k == shape->k && r->m == shape->m && r->n == shape->n &&
              r->rows == shape->rows;
    }
    return was;
}

// ---- as one node ----

static void set_pair(const struct ggml_tensor * first, const struct ggml_tensor * second,
                     struct pair * p) {
    p->a = *first->src[0];
    p->b = *first->src[1];
    p->node = *first;
    p->node.src[0] = &p->a;
    p->node.src[1] = &p->b;
    p->a.ne[2] = p->b.ne[2] = p->node.ne[2] = 2;
    p->b.nb[2] = 0; // the same for both
    p->node.data = pretended(PRETENDED_PAIR);
    p->node.view_src = NULL;
    p->node.op_params[PANEL_WORD] = p->panel.rows + p->panel.words * 32;
    p->parts = (struct join_gather){
        .n = 2,
        .in = {p->a.data, p->a.nb[2], {first->src[0]->data, second->src[0]->data}},
        .out = {p->node.data, p->node.nb[2], {first->data, second->data}},
    };
}

// One kernel that reads and writes all where it is, and takes less than two?
static bool is_one(struct hsa_stream * s, const struct ggml_tensor * first, const struct pair * p) {
    struct mat_world w = mat_world_here(s);
    struct mat_plan both, alone;
    w.panel = p->panel;
    return mat_plan_node(w, &p->node, &both, NULL) == ST_OK &&
           mat_plan_node(w, first, &alone, NULL) == ST_OK && mat_scratch(&both) == 0 &&
           !mat_reads_on_host(&both) && both.chunk[0] == p->node.ne[0] && both.chunk[2] == 2 &&
           mat_cost(&w, &both).cycles < 2 * mat_cost(&w, &alone).cycles;
}

bool pair_products(struct hsa_stream * s, const struct ggml_tensor * first,
                   const struct ggml_tensor * second) {
    struct pair p;
    if (!may_pair(s, first, second)) {
        return false;
    }
    struct kernel_panel other = panel_of(second->src[0]);
    p.panel = panel_of(first->src[0]);
    if (!is_same_panel(&p.panel, &other)) {
        return false;
    }
    set_pair(first, second, &p);
    struct pair_shape shape = shape_of(&p);
    if (was_refused(s->npu, &shape)) {
        return false;
    }
    bool done;
    s->npu->place = route_of(s->npu->route, first);
    s->npu->gather = &p.parts;
    enum status st = kept_node(s, &p.node, &done, NULL);
    if (st == ST_OK && !done) {
        bool one = is_one(s, first, &p);
        st = one ? mat_compute_as(s, &p.node, p.panel, NULL) : ST_UNSUPPORTED;
        kept_end(s, st == ST_OK);
        if (!one) {
            s->npu->refused[s->npu->next_refused++ % RECENT_PAIRS] = shape;
        }
    }
    s->npu->gather = NULL;
    return st == ST_OK;
}
