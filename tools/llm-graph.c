// llm-graph: see llm-graph.h. The weights are zeros: nothing that is timed depends on numbers but
// for the mask and the rows of the cache, which are those of tokens that follow each other. Places
// are as in llama.cpp: weights, caches and what is computed lie in buffers of their own.
#include "llm-graph.h"

#include "ggml-alloc.h"
#include "kernel/kernel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYER_NODES = 192 }; // more than a layer has, views included; the head has fewer

static struct ggml_context * context_new(size_t tensors, size_t graph) {
    return ggml_init((struct ggml_init_params){.mem_size = tensors * ggml_tensor_overhead() + graph,
                                               .no_alloc = true});
}

// ---- weights ----

static bool has_kind(const struct llm_list * list, int kind) {
    int64_t i = 0;
    while (i < list->n && list->kinds[i] != kind) {
        i++;
    }
    return i < list->n;
}

// One table of factors serves all layers. Of the embedding the device has no use but as the output:
// llama.cpp looks its rows up on the CPU.
bool llm_weights_new(const struct decoder_model * m, const struct llm_list * list,
                     struct llm_weights * out) {
    *out = (struct llm_weights){.n = m->n_kinds + 1};
    struct ggml_tensor * factors = NULL;
    for (int i = 0; i < m->n_kinds; i++) {
        struct decoder d = decoder_of_kind(m, i);
        d.has[DECODER_ROPE_FACTORS] &= !factors;
        if (!has_kind(list, i)) {
            continue;
        }
        out->ctx[i] = context_new(DECODER_WEIGHTS, 0);
        if (!out->ctx[i]) {
            return false;
        }
        decoder_add_layer(out->ctx[i], &d, &out->tensors[i]);
        struct ggml_tensor ** own = &out->tensors[i].weights[DECODER_ROPE_FACTORS];
        factors = *own ? *own : factors;
        *own = factors;
    }
    if (list->head) {
        struct decoder d = m->decoder;
        d.has[DECODER_EMBD] = !d.has[DECODER_OUTPUT];
        out->ctx[m->n_kinds] = context_new(DECODER_WEIGHTS, 0);
        if (!out->ctx[m->n_kinds]) {
            return false;
        }
        decoder_add_head(out->ctx[m->n_kinds], &d, &out->tensors[m->n_kinds]);
    }
    return true;
}

void llm_weights_free(struct llm_weights * w) {
    for (int i = 0; i < w->n; i++) {
        ggml_backend_buffer_free(w->buffers[i]);
        ggml_free(w->ctx[i]);
    }
}

// Angles are divided by these: of zeros no number comes, and block floats have none for that.
static void set_factors(struct ggml_tensor * t) {
    const float one = 1;
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        ggml_backend_tensor_set(t, &one, (size_t) i * sizeof one, sizeof one);
    }
}

const char * llm_weights_place(struct llm_weights * w, ggml_backend_t stream) {
    for (int i = 0; i < w->n; i++) {
        if (!w->ctx[i]) {
            continue;
        }
        w->buffers[i] = ggml_backend_alloc_ctx_tensors(w->ctx[i], stream);
        if (!w->buffers[i]) {
            return "the device has no memory for weights of this size";
        }
        // Tensor by tensor, as a program loads them: the device may lay weights out as it likes.
        ggml_backend_buffer_set_usage(w->buffers[i], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        for (struct ggml_tensor * t = ggml_get_first_tensor(w->ctx[i]); t;
             t = ggml_get_next_tensor(w->ctx[i], t)) {
            ggml_backend_tensor_memset(t, 0, 0, ggml_nbytes(t));
            if (t == w->tensors[i].weights[DECODER_ROPE_FACTORS]) {
                set_factors(t);
            }
        }
    }
    return NULL;
}

// ---- graphs ----

bool llm_graph_new(const struct decoder_model * m, const struct llm_list * list,
                   const struct llm_weights * w, int64_t tokens, int64_t context, bool flash,
                   struct llm_graph * out) {
    size_t nodes = LAYER_NODES * (size_t) (list->n + 1);
    *out = (struct llm_graph){
        .cache = context_new(2 * (size_t) list->n, 0),
        .ctx = context_new(nodes, ggml_graph_overhead_custom(nodes, false)),
    };
    if (!out->cache || !out->ctx) {
        return false;
    }
    const struct decoder * d = &m->decoder;
    out->graph = ggml_new_graph_custom(out->ctx, nodes, false);
    struct ggml_tensor * x = ggml_new_tensor_2d(out->ctx, GGML_TYPE_F32, d->embd, tokens);
    for (int64_t i = 0; i < list->n; i++) {
        bool slides = m->kinds[list->kinds[i]].slides;
        int64_t rows = decoder_rows(m, list->kinds[i], context);
        if (!out->inputs[slides].mask) {
            decoder_add_inputs(out->ctx, tokens, rows, &out->inputs[slides]);
        }
        struct decoder_tensors t = out->inputs[slides];
        for (int weight = 0; weight < DECODER_LAYER_WEIGHTS; weight++) {
            t.weights[weight] = w->tensors[list->kinds[i]].weights[weight];
        }
        decoder_add_cache(out->cache, d, rows, &t);
        x = decoder_layer(out->ctx, out->graph, d, &t, x, flash);
    }
    if (list->head) {
        ggml_build_forward_expand(out->graph,
                                  decoder_head(out->ctx, d, &w->tensors[m->n_kinds], x));
    }
    return true;
}

void llm_graph_free(struct llm_graph * g) {
    ggml_gallocr_free(g->rest);
    ggml_backend_buffer_free(g->of_cache);
    ggml_free(g->ctx);
    ggml_free(g->cache);
}

// Each token sees itself and those before it.
static const char * set_mask(struct ggml_tensor * t) {
    ggml_fp16_t * rows = calloc((size_t) ggml_nelements(t), sizeof *rows);
    if (!rows) {
        return "no memory for the mask";
    }
    int64_t before = t->ne[0] - t->ne[1];
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        bool seen = i % t->ne[0] <= before + i / t->ne[0];
        rows[i] = ggml_fp32_to_fp16(seen ? 0 : -INFINITY);
    }
    ggml_backend_tensor_set(t, rows, 0, ggml_nbytes(t));
    free(rows);
    return NULL;
}

// The tokens' keys and values are the last ones of the cache.
static const char * set_rows(struct ggml_tensor * t, int64_t context) {
    int64_t * rows = malloc(ggml_nbytes(t));
    if (!rows) {
        return "no memory for the rows";
    }
    for (int64_t i = 0; i < t->ne[0]; i++) {
        rows[i] = context - t->ne[0] + i;
    }
    ggml_backend_tensor_set(t, rows, 0, ggml_nbytes(t));
    free(rows);
    return NULL;
}

const char * llm_graph_settle(const struct llm_graph * g, ggml_backend_t stream) {
    int n = ggml_graph_n_nodes(g->graph);
    struct ggml_context * ctx = ggml_init((struct ggml_init_params){
        .mem_size = ggml_graph_overhead_custom((size_t) n, false), .no_alloc = true});
    struct ggml_cgraph * graph = ctx ? ggml_new_graph_custom(ctx, (size_t) n, false) : NULL;
    for (int i = 0; graph && i < n; i++) {
        struct ggml_tensor * t = ggml_graph_node(g->graph, i);
        if (t->op == GGML_OP_FLASH_ATTN_EXT) {
            ggml_graph_add_node(graph, t);
        }
    }
    enum ggml_status st = GGML_STATUS_ALLOC_FAILED;
    if (graph) {
        st = ggml_graph_n_nodes(graph) ? ggml_backend_graph_compute(stream, graph)
                                       : GGML_STATUS_SUCCESS;
    }
    ggml_free(ctx);
    return st == GGML_STATUS_SUCCESS ? NULL : "the device cannot compute its attention";
}

const char * llm_graph_write(const struct llm_graph * g) {
    const char * why = NULL;
    for (int i = 0; i < 2 && !why; i++) {
        const struct decoder_tensors * in = &g->inputs[i];
        if (in->mask) {
            why = set_mask(in->mask);
            ggml_backend_tensor_memset(in->positions, 0, 0, ggml_nbytes(in->positions));
            why = why ? why : set_rows(in->rows, in->mask->ne[0]);
        }
    }
    return why;
}

const char * llm_graph_read(const struct llm_graph * g) {
    struct ggml_tensor * t = ggml_graph_node(g->graph, ggml_graph_n_nodes(g->graph) - 1);
    void * result = malloc(ggml_nbytes(t));
    if (!result) {
        return "no memory for the result";
    }
    ggml_backend_tensor_get(t, result, 0, ggml_nbytes(t));
    free(result);
    return NULL;
}

// As a program's tensors are placed: memory of what nobody reads any more is another node's. What
// is given stays as it was written, for the graph is computed more than once.
static bool place_rest(struct llm_graph * g, ggml_backend_t stream) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(g->ctx); t;
         t = ggml_get_next_tensor(g->ctx, t)) {
        if (t->op == GGML_OP_NONE && !t->view_src) {
            ggml_set_input(t);
            ggml_set_output(t);
        }
    }
    g->rest = ggml_gallocr_new(ggml_backend_get_default_buffer_type(stream));
    if (!g->rest || !ggml_gallocr_alloc_graph(g->rest, g->graph)) {
        return false;
    }
    ggml_backend_buffer_t cleared = g->of_cache;
    for (struct ggml_tensor * t = ggml_get_first_tensor(g->ctx); t;
         t = ggml_get_next_tensor(g->ctx, t)) {
        if (t->buffer && t->buffer != cleared && t->buffer != g->of_cache && !t->view_src) {
            ggml_backend_buffer_clear(t->buffer, 0);
            cleared = t->buffer;
        }
    }
    return true;
}

const char * llm_graph_place(struct llm_graph * g, ggml_backend_t stream) {
    bool layers = g->inputs[0].mask || g->inputs[1].mask;
    g->of_cache = layers ? ggml_backend_alloc_ctx_tensors(g->cache, stream) : NULL;
    if ((layers && !g->of_cache) || !place_rest(g, stream)) {
        return "the device has no memory for a graph of this size";
    }
    if (!layers) {
        return NULL;
    }
    ggml_backend_buffer_clear(g->of_cache, 0);
    return llm_graph_write(g);
}

// ---- counting ----

bool llm_is_computed(const struct ggml_tensor * t) {
    return t->op != GGML_OP_NONE && t->op != GGML_OP_VIEW && t->op != GGML_OP_RESHAPE &&
           t->op != GGML_OP_PERMUTE && t->op != GGML_OP_TRANSPOSE;
}

uint64_t llm_bytes_read(const struct ggml_tensor * t) {
    bool as_it_is = t->ne[1] == 1;
    for (int i = 0; i < KERNEL_BLOCKS && !as_it_is; i++) {
        as_it_is = kernel_block_is_streamed((enum kernel_blocks) i) &&
                   !strcmp(ggml_type_name(t->type), kernel_block_name((enum kernel_blocks) i));
    }
    return as_it_is ? ggml_nbytes(t) : 2 * (uint64_t) ggml_nelements(t);
}

// Counts as many experts as a token meets: so many are read, whichever they are.
static uint64_t bytes_of(const struct decoder * d, struct ggml_context * ctx) {
    uint64_t sum = 0;
    for (struct ggml_tensor * t = ctx ? ggml_get_first_tensor(ctx) : NULL; t;
         t = ggml_get_next_tensor(ctx, t)) {
        uint64_t bytes = llm_bytes_read(t);
        sum += t->ne[2] > 1 ? bytes / (uint64_t) t->ne[2] * (uint64_t) d->used : bytes;
    }
    return sum;
}

static void add_refusal(const struct llm_device * device, const struct ggml_tensor * t,
                        const char * why, struct llm_figures * out) {
    struct llm_left left = {.nodes = 1};
    ggml_backend_hsa_why_not_t why_not;
    memcpy(&why_not, &device->why_not, sizeof why_not);
    snprintf(left.op, sizeof left.op, "%s", ggml_op_desc(t));
    snprintf(left.why, sizeof left.why, "%s", why ? why : "the plugin gives no reason");
    if (!why && why_not) {
        why_not(device->dev, t, left.why, sizeof left.why);
    }
    llm_add_left(out, &left, 1);
}

void llm_count_node(const struct llm_device * device, const struct ggml_tensor * t, bool supported,
                    const char * why, bool * before, struct llm_figures * out) {
    out->nodes++;
    out->on_device += supported;
    out->gaps += *before && !supported;
    *before = supported;
    if (!supported) {
        add_refusal(device, t, why, out);
    }
    if (t->op == GGML_OP_MUL_MAT || t->op == GGML_OP_MUL_MAT_ID) {
        out->macs += (uint64_t) (t->src[0]->ne[0] * ggml_nelements(t));
    } else if (t->op == GGML_OP_FLASH_ATTN_EXT) {
        out->macs += (uint64_t) (2 * t->src[1]->ne[1] * ggml_nelements(t));
    }
}

void llm_graph_count(const struct llm_device * device, const struct decoder_model * m,
                     const struct llm_list * list, const struct llm_weights * w,
                     const struct llm_graph * g, struct llm_figures * out) {
    bool before = true;
    for (int i = 0; i < ggml_graph_n_nodes(g->graph); i++) {
        const struct ggml_tensor * t = ggml_graph_node(g->graph, i);
        if (llm_is_computed(t)) {
            llm_count_node(device, t, ggml_backend_dev_supports_op(device->dev, t), NULL, &before,
                           out);
        }
    }
    for (int64_t i = 0; i < list->n; i++) {
        out->weights += bytes_of(&m->decoder, w->ctx[list->kinds[i]]);
    }
    out->weights += bytes_of(&m->decoder, w->ctx[w->n - 1]);
}
