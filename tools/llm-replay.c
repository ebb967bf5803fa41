// llm-replay: see llm-replay.h. A graph of llama.cpp refers to weights and caches that have buffers
// and no data, and to inputs that have neither; all of them are copied, never changed. The numbers
// are zeros, which nothing that is timed depends on but for the rows of caches that are written:
// these are the last ones. Inputs and results lie where ggml's allocator puts them, in each other's
// places: what the device makes of nodes that follow each other depends on it. A layer's number is
// in the names of its weights ("blk.7.", "encoder.blocks.7.") and of the nodes that llama.cpp names
// ("ffn_out-7").
#include "llm-replay.h"

#include "base/base.h"
#include "ggml-alloc.h"
#include "llm-graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- whose a node is ----

enum place { NO_WORK, ON_DEVICE, ON_CPU };

static bool is_weight(const struct ggml_tensor * t) {
    return t->buffer &&
           ggml_backend_buffer_get_usage(t->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

static const struct ggml_tensor * root_of(const struct ggml_tensor * t) {
    return t->view_src ? t->view_src : t;
}

// The weight among a node's sources that llama.cpp has not given to the device.
static const struct ggml_tensor * weight_elsewhere(const struct llm_device * device,
                                                   const struct ggml_tensor * t) {
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        const struct ggml_tensor * src = t->src[i] ? root_of(t->src[i]) : NULL;
        if (src && is_weight(src)) {
            ggml_backend_buffer_type_t type = ggml_backend_buffer_get_type(src->buffer);
            if (ggml_backend_buft_is_host(type) ||
                ggml_backend_buft_get_device(type) != device->dev) {
                return src;
            }
        }
    }
    return NULL;
}

static enum place place_of(const struct llm_device * device, const struct ggml_tensor * t) {
    bool on_device = ggml_backend_dev_supports_op(device->dev, t) && !weight_elsewhere(device, t);
    return !llm_is_computed(t) ? NO_WORK : on_device ? ON_DEVICE : ON_CPU;
}

// ---- layers ----

enum { NO_LAYER = -1, MOST_DIGITS = 4 }; // digits of the number

static int number_at(const char * text) {
    size_t n = strspn(text, "0123456789");
    return n > 0 && n <= MOST_DIGITS ? atoi(text) : NO_LAYER;
}

// "blk.7.", and behind a part's name "v.blk.7." or "encoder.blocks.7."; NULL: no layer's.
static const char * number_in(const char * name) {
    static const char * const before[] = {"blk.", "blocks."};
    for (const char * at = name; at; at = strchr(at, '.'), at += at != NULL) {
        for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
            size_t n = strlen(before[i]);
            if (!strncmp(at, before[i], n)) {
                return at + n;
            }
        }
    }
    return NULL;
}

static int layer_of(const struct ggml_tensor * t) {
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        const struct ggml_tensor * src = t->src[i] ? root_of(t->src[i]) : NULL;
        const char * number = src && is_weight(src) ? number_in(src->name) : NULL;
        if (number) {
            return number_at(number);
        }
    }
    const char * dash = strrchr(t->name, '-');
    bool ends = dash && dash[1] && dash[1 + strspn(dash + 1, "0123456789")] == '\0';
    return ends ? number_at(dash + 1) : NO_LAYER;
}

struct part { // nodes that follow each other
    int first, end;
    uint64_t digest; // of what is computed, without names
    double times;    // how many are like it; 0: one before it is
};

static uint64_t digest_tensor(uint64_t digest, const struct ggml_tensor * t) {
    bool weight = is_weight(root_of(t));
    digest = fnv_add(digest, &t->type, sizeof t->type);
    digest = fnv_add(digest, t->ne, sizeof t->ne);
    digest = fnv_add(digest, t->nb, sizeof t->nb);
    return fnv_add(digest, &weight, sizeof weight);
}

static uint64_t digest_part(struct ggml_cgraph * graph, const struct part * p) {
    uint64_t digest = FNV_BEGIN;
    for (int i = p->first; i < p->end; i++) {
        const struct ggml_tensor * t = ggml_graph_node(graph, i);
        digest = fnv_add(digest, &t->op, sizeof t->op);
        digest = fnv_add(digest, t->op_params, sizeof t->op_params);
        digest = digest_tensor(digest, t);
        for (int k = 0; k < GGML_MAX_SRC && t->src[k]; k++) {
            digest = digest_tensor(digest, t->src[k]);
        }
    }
    return digest;
}

static void end_part(struct ggml_cgraph * graph, struct part * parts, int * n, int first, int end) {
    struct part p = {.first = first, .end = end, .times = 1};
    if (first == end) {
        return;
    }
    p.digest = digest_part(graph, &p);
    for (int i = 0; i < *n; i++) {
        if (parts[i].times > 0 && parts[i].digest == p.digest) {
            parts[i].times++;
            p.times = 0;
            break;
        }
    }
    parts[(*n)++] = p;
}

// What is before the first layer, each layer, and what is behind the last. `parts` has room for as
// many as there are nodes.
static int divide(struct ggml_cgraph * graph, struct part * parts) {
    int nodes = ggml_graph_n_nodes(graph), last = 0, n = 0, first = 0, layer = NO_LAYER;
    for (int i = 0; i < nodes; i++) {
        last = layer_of(ggml_graph_node(graph, i)) > NO_LAYER ? i + 1 : last;
    }
    for (int i = 0; i < last; i++) {
        int of = layer_of(ggml_graph_node(graph, i));
        if (of > layer) {
            end_part(graph, parts, &n, first, i);
            first = i;
            layer = of;
        }
    }
    end_part(graph, parts, &n, first, last);
    end_part(graph, parts, &n, last, nodes);
    return n;
}

// ---- copies ----

enum { WEIGHTS, STATES, REST, PLACES };

struct leaf {
    struct ggml_tensor * tensor;
    int64_t rows; // of what it numbers the rows of, the last of which are meant; 0: it is zeros
    bool written; // in this run
};

struct pair {
    const struct ggml_tensor * from;
    struct ggml_tensor * to;
    int leaf; // in REST, or -1
};

struct copy {
    struct ggml_context * ctx[PLACES];
    ggml_backend_buffer_t buffers[REST];
    ggml_gallocr_t rest;
    int n, n_leaves;
    struct ggml_tensor ** nodes;
    uint8_t * places; // enum place, of each node
    struct leaf * leaves;
    struct pair * table; // by address, open
    size_t slots;        // a power of two, more than twice as many as there are tensors
};

static struct pair * find(const struct copy * c, const struct ggml_tensor * t) {
    size_t i = ((uintptr_t) t >> 4) * 0x9e3779b1u & (c->slots - 1);
    while (c->table[i].from && c->table[i].from != t) {
        i = (i + 1) & (c->slots - 1);
    }
    return &c->table[i];
}

static struct ggml_tensor * copy_leaf(struct copy * c, const struct ggml_tensor * t);

static struct ggml_tensor * copy_tensor(struct copy * c, const struct ggml_tensor * t, int place) {
    struct ggml_tensor * base = t->view_src ? copy_leaf(c, t->view_src) : NULL;
    struct ggml_tensor * to = ggml_new_tensor(c->ctx[place], t->type, GGML_MAX_DIMS, t->ne);
    memcpy(to->nb, t->nb, sizeof to->nb);
    memcpy(to->name, t->name, sizeof to->name);
    to->flags = t->flags;
    to->view_src = base;
    to->view_offs = t->view_offs;
    struct pair * pair = find(c, t);
    *pair = (struct pair){t, to, -1};
    if (place == REST && base) { // the allocator places views where what they view is a source
        to->op = GGML_OP_VIEW;
        to->src[0] = base;
    } else if (place == REST) {
        pair->leaf = c->n_leaves;
        c->leaves[c->n_leaves++] = (struct leaf){.tensor = to};
    }
    return to;
}

// What is not computed here: weights, states, inputs, and what another part of the graph computes.
static struct ggml_tensor * copy_leaf(struct copy * c, const struct ggml_tensor * t) {
    struct ggml_tensor * known = find(c, t)->to;
    const struct ggml_tensor * root = root_of(t);
    return known             ? known
           : is_weight(root) ? copy_tensor(c, t, WEIGHTS)
           : root->buffer    ? copy_tensor(c, t, STATES)
                             : copy_tensor(c, t, REST);
}

static void copy_node(struct copy * c, const struct ggml_tensor * t, enum place place) {
    const struct ggml_tensor * from[GGML_MAX_SRC];
    memcpy(from, t->src, sizeof from);
    struct ggml_tensor * src[GGML_MAX_SRC] = {NULL};
    // Sources of the CPU that the device has computed get memory of the device, to be read there.
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        bool own = place == ON_CPU && from[i] &&
                   (is_weight(root_of(from[i])) || (from[i]->flags & GGML_TENSOR_FLAG_INPUT));
        src[i] = from[i] && !own ? copy_leaf(c, from[i]) : NULL;
    }
    struct ggml_tensor * to = copy_leaf(c, t);
    if (place != ON_CPU) {
        find(c, t)->leaf = -1;
        to->op = t->op;
        memcpy(to->src, src, sizeof to->src);
        memcpy(to->op_params, t->op_params, sizeof to->op_params);
    }
    const struct pair * rows = t->op == GGML_OP_SET_ROWS ? find(c, from[1]) : NULL;
    if (rows && rows->leaf >= 0) {
        c->leaves[rows->leaf].rows = t->ne[1];
    }
    c->nodes[c->n] = to;
    c->places[c->n++] = (uint8_t) place;
}

static void copy_free(struct copy * c) {
    ggml_gallocr_free(c->rest);
    for (int i = 0; i < PLACES; i++) {
        ggml_backend_buffer_free(i < REST ? c->buffers[i] : NULL);
        ggml_free(c->ctx[i]);
    }
    free(c->nodes);
    free(c->places);
    free(c->leaves);
    free(c->table);
}

static bool copy_new(const struct llm_device * device, struct ggml_cgraph * graph, int first,
                     int end, struct copy * out) {
    size_t nodes = (size_t) (end - first), tensors = nodes * (GGML_MAX_SRC + 1) * 2;
    *out = (struct copy){.slots = 64};
    while (out->slots < 2 * tensors) {
        out->slots *= 2;
    }
    out->nodes = calloc(nodes, sizeof *out->nodes);
    out->places = calloc(nodes, 1);
    out->leaves = calloc(tensors, sizeof *out->leaves);
    out->table = calloc(out->slots, sizeof *out->table);
    bool ok = out->nodes && out->places && out->leaves && out->table;
    for (int i = 0; i < PLACES; i++) {
        out->ctx[i] = ggml_init((struct ggml_init_params){
            .mem_size = tensors * ggml_tensor_overhead(), .no_alloc = true});
        ok &= out->ctx[i] != NULL;
    }
    for (int i = first; i < end && ok; i++) {
        const struct ggml_tensor * t = ggml_graph_node(graph, i);
        copy_node(out, t, place_of(device, t));
    }
    for (int i = 0; i < out->n_leaves && ok; i++) { // nothing else is put in their places
        struct ggml_tensor * t = out->leaves[i].tensor;
        t->flags |= t->op == GGML_OP_NONE ? GGML_TENSOR_FLAG_INPUT : 0;
    }
    return ok;
}

static bool place_rest(struct copy * c, ggml_backend_t stream) {
    size_t n = (size_t) (c->n + c->n_leaves) + c->slots / 2;
    struct ggml_context * ctx = ggml_init((struct ggml_init_params){
        .mem_size = ggml_graph_overhead_custom(n, false), .no_alloc = true});
    struct ggml_cgraph * graph = ctx ? ggml_new_graph_custom(ctx, n, false) : NULL;
    for (int i = 0; graph && i < c->n; i++) {
        ggml_build_forward_expand(graph, c->nodes[i]);
    }
    c->rest = ggml_gallocr_new(ggml_backend_get_default_buffer_type(stream));
    bool ok = graph && c->rest && ggml_gallocr_alloc_graph(c->rest, graph);
    ggml_free(ctx);
    return ok;
}

static const char * copy_place(struct copy * c, ggml_backend_t stream) {
    bool ok = true;
    for (int i = 0; i < REST && ok; i++) {
        bool any = ggml_get_first_tensor(c->ctx[i]) != NULL;
        c->buffers[i] = any ? ggml_backend_alloc_ctx_tensors(c->ctx[i], stream) : NULL;
        ok = !any || c->buffers[i];
    }
    if (!ok || !place_rest(c, stream)) {
        return "the device has no memory for a graph of this size; --layers takes less";
    }
    if (c->buffers[STATES]) {
        ggml_backend_buffer_clear(c->buffers[STATES], 0);
    }
    if (c->buffers[WEIGHTS]) {
        ggml_backend_buffer_set_usage(c->buffers[WEIGHTS], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
    // Tensor by tensor, as a program loads them: the device may lay weights out as it likes.
    for (struct ggml_tensor * t = ggml_get_first_tensor(c->ctx[WEIGHTS]); t;
         t = ggml_get_next_tensor(c->ctx[WEIGHTS], t)) {
        if (!t->view_src) {
            ggml_backend_tensor_memset(t, 0, 0, ggml_nbytes(t));
        }
    }
    return NULL;
}

// ---- runs ----

static const char * write_leaf(struct leaf * leaf) {
    struct ggml_tensor * t = leaf->tensor;
    uint8_t * data = calloc(1, ggml_nbytes(t));
    if (!data) {
        return "no memory for the inputs";
    }
    for (int64_t i = 0; i < t->ne[0] && leaf->rows >= t->ne[0]; i++) {
        int64_t row = leaf->rows - t->ne[0] + i;
        int32_t narrow = (int32_t) row;
        bool wide = t->type == GGML_TYPE_I64;
        memcpy(data + (size_t) i * t->nb[0], wide ? (void *) &row : (void *) &narrow, t->nb[0]);
    }
    ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
    free(data);
    leaf->written = true;
    return NULL;
}

static const char * read_tensor(const struct ggml_tensor * t) {
    void * data = malloc(ggml_nbytes(t));
    if (!data) {
        return "no memory for a result";
    }
    ggml_backend_tensor_get(t, data, 0, ggml_nbytes(t));
    free(data);
    return NULL;
}

struct runner {
    struct llm_device * device;
    struct copy * copy;
    struct ggml_context * ctx;
    struct ggml_cgraph * graph; // nodes that follow each other on the device
    int computed;               // of them
    const struct ggml_tensor * last;
};

static const char * run_begin(struct runner * r) {
    ggml_free(r->ctx);
    size_t n = (size_t) r->copy->n;
    r->ctx = ggml_init((struct ggml_init_params){.mem_size = ggml_graph_overhead_custom(n, false),
                                                 .no_alloc = true});
    r->graph = r->ctx ? ggml_new_graph_custom(r->ctx, n, false) : NULL;
    r->computed = 0;
    return r->graph ? NULL : "no memory for the graph";
}

static const char * run_end(struct runner * r) {
    if (!r->computed) {
        return NULL;
    }
    bool ok = ggml_backend_graph_compute(r->device->stream, r->graph) == GGML_STATUS_SUCCESS;
    return ok ? run_begin(r) : "the device cannot compute it";
}

// What a node needs of the host is written before it is computed, once.
static const char * write_sources(const struct runner * r, const struct ggml_tensor * t) {
    const char * why = NULL;
    for (int i = 0; i < GGML_MAX_SRC && t->src[i] && !why; i++) {
        const struct ggml_tensor * root = root_of(t->src[i]);
        for (int k = 0; k < r->copy->n_leaves && !why; k++) {
            struct leaf * leaf = &r->copy->leaves[k];
            if (leaf->tensor == root && root->op == GGML_OP_NONE && !leaf->written) {
                why = write_leaf(leaf);
            }
        }
    }
    return why;
}

static const char * read_sources(const struct ggml_tensor * t) {
    const char * why = NULL;
    for (int i = 0; i < GGML_MAX_SRC && !why; i++) {
        why = t->src[i] ? read_tensor(t->src[i]) : NULL;
    }
    return why;
}

// Where inputs are not to be part of a run's time, they are written before it.
static const char * write_all(struct copy * c) {
    const char * why = NULL;
    for (int i = 0; i < c->n_leaves && !why; i++) {
        bool is = c->leaves[i].tensor->op == GGML_OP_NONE && c->leaves[i].tensor->data;
        why = is ? write_leaf(&c->leaves[i]) : NULL;
    }
    return why;
}

// `crossing`: with what crosses between host and device; else all inputs have been written.
static const char * run(struct llm_device * device, struct copy * c, bool crossing) {
    struct runner r = {.device = device, .copy = c};
    const char * why = run_begin(&r);
    for (int i = 0; i < c->n_leaves && crossing; i++) {
        c->leaves[i].written = false;
    }
    for (int i = 0; i < c->n && !why; i++) {
        struct ggml_tensor * t = c->nodes[i];
        if (c->places[i] == ON_CPU) {
            why = run_end(&r);
            why = why || !crossing ? why : read_sources(t);
            continue;
        }
        if (c->places[i] == ON_DEVICE) {
            why = crossing ? write_sources(&r, t) : NULL;
            r.computed++;
            r.last = t;
        }
        ggml_graph_add_node(r.graph, t);
    }
    why = why ? why : run_end(&r);
    if (!why && crossing && r.last) {
        why = read_tensor(r.last);
    }
    ggml_free(r.ctx);
    return why;
}

// ---- figures ----

// Weights and states that the copy has, each once; of experts those alone that a token meets.
static void count_bytes(const struct copy * c, struct llm_figures * out) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(c->ctx[WEIGHTS]); t;
         t = ggml_get_next_tensor(c->ctx[WEIGHTS], t)) {
        out->weights += t->view_src ? 0 : llm_bytes_read(t);
    }
    for (struct ggml_tensor * t = ggml_get_first_tensor(c->ctx[STATES]); t;
         t = ggml_get_next_tensor(c->ctx[STATES], t)) {
        out->states += t->view_src ? 0 : ggml_nbytes(t);
    }
    for (int i = 0; i < c->n; i++) {
        const struct ggml_tensor * t = c->nodes[i];
        if (t->op == GGML_OP_MUL_MAT_ID && c->places[i] == ON_DEVICE) {
            uint64_t all = (uint64_t) t->src[0]->ne[2];
            uint64_t used = (uint64_t) (t->src[2]->ne[0] * t->src[2]->ne[1]);
            uint64_t one = llm_bytes_read(t->src[0]) / all;
            out->weights -= used < all ? one * (all - used) : 0;
        }
    }
}

static void count_nodes(const struct llm_device * device, struct ggml_cgraph * graph, int first,
                        int end, struct llm_figures * out) {
    bool before = true;
    for (int i = first; i < end; i++) {
        const struct ggml_tensor * t = ggml_graph_node(graph, i);
        enum place place = place_of(device, t);
        char why[160] = "";
        if (place == ON_CPU && ggml_backend_dev_supports_op(device->dev, t)) {
            snprintf(why, sizeof why, "llama.cpp keeps %s on the CPU",
                     weight_elsewhere(device, t)->name);
        }
        if (place != NO_WORK) {
            out->splits += out->nodes == 0 || before != (place == ON_DEVICE);
            llm_count_node(device, t, place == ON_DEVICE, *why ? why : NULL, &before, out);
        }
    }
}

static const char no_memory[] = "no memory for the graph";

const char * llm_replay_count(struct llm_device * device, struct ggml_cgraph * graph,
                              struct llm_figures * out) {
    struct copy c;
    int n = ggml_graph_n_nodes(graph);
    *out = (struct llm_figures){0};
    bool ok = copy_new(device, graph, 0, n, &c);
    if (ok) {
        count_nodes(device, graph, 0, n, out);
        count_bytes(&c, out);
    }
    copy_free(&c);
    return ok ? NULL : no_memory;
}

// Nodes [first, end), twice: the first time loads and plans what it needs, and meets the caches; a
// program's second token finds all that.
static const char * measure(struct llm_device * device, struct ggml_cgraph * graph, int first,
                            int end, bool crossing, struct llm_figures * out) {
    struct copy c;
    struct llm_state empty = llm_state_of(device), before, after;
    *out = (struct llm_figures){0};
    const char * why = copy_new(device, graph, first, end, &c) ? NULL : no_memory;
    if (!why) {
        count_nodes(device, graph, first, end, out);
        count_bytes(&c, out);
        why = copy_place(&c, device->stream);
    }
    for (int i = 0; i < 2 && !why && out->on_device > 0; i++) {
        why = write_all(&c);
        llm_clear_profile(device);
        before = llm_state_of(device);
        why = why ? why : run(device, &c, crossing);
        after = llm_state_of(device);
        llm_tell(device, &before, &after, out);
        out->memory = (double) empty.free - (double) after.free;
    }
    copy_free(&c);
    return why;
}

const char * llm_replay_whole(struct llm_device * device, struct ggml_cgraph * graph,
                              struct llm_figures * out) {
    return measure(device, graph, 0, ggml_graph_n_nodes(graph), true, out);
}

const char * llm_replay_parts(struct llm_device * device, struct ggml_cgraph * graph,
                              void (*progress)(int part, int parts), struct llm_figures * out) {
    struct part * parts = calloc((size_t) ggml_graph_n_nodes(graph) + 1, sizeof *parts);
    if (!parts) {
        return no_memory;
    }
    int n = divide(graph, parts), kinds = 0, done = 0;
    const char * why = NULL;
    *out = (struct llm_figures){0};
    for (int i = 0; i < n; i++) {
        kinds += parts[i].times > 0;
    }
    for (int i = 0; i < n && !why; i++) {
        struct llm_figures f;
        if (parts[i].times > 0) {
            if (progress) {
                progress(done++, kinds);
            }
            why = measure(device, graph, parts[i].first, parts[i].end, false, &f);
            llm_add(out, &f, parts[i].times);
        }
    }
    free(parts);
    return why;
}
