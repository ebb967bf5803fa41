// llm: see llm.h. All goes through ggml's public interface and what the plugin adds to it, so that
// what is measured is what a program gets. The weights are zeros: nothing that is timed depends on
// numbers but for the mask and the rows of the cache, which are those of tokens that follow each
// other.
#include "llm.h"

#include "ggml-alloc.h"
#include "ggml-hsa.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 256 };

// ---- the device ----

const char * llm_open(const char * plugin, struct llm_device * out) {
    *out = (struct llm_device){0};
    void * library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return dlerror();
    }
    ggml_backend_reg_t (*init)(void);
    void * address = dlsym(library, "ggml_backend_init");
    memcpy(&init, &address, sizeof init);
    ggml_backend_reg_t reg = address ? init() : NULL;
    if (!reg || ggml_backend_reg_dev_count(reg) == 0) {
        return "the plugin offers no device; GGML_HSA_EMULATE=aie2 emulates one";
    }
    out->dev = ggml_backend_reg_dev_get(reg, 0);
    out->get_stats = ggml_backend_reg_get_proc_address(reg, "ggml_backend_hsa_get_stats");
    out->get_account = ggml_backend_reg_get_proc_address(reg, "ggml_backend_hsa_get_account");
    struct ggml_backend_hsa_account account = {.size = sizeof account};
    ggml_backend_hsa_get_account_t get_account;
    memcpy(&get_account, &out->get_account, sizeof get_account);
    if (!out->get_stats || !get_account || !get_account(out->dev, &account)) {
        return "the first device is no emulated NPU; GGML_HSA_EMULATE=aie2 emulates one";
    }
    out->stream = ggml_backend_dev_init(out->dev, NULL);
    return out->stream ? NULL : "the device has no stream for us";
}

void llm_close(struct llm_device * d) {
    if (d->stream) {
        ggml_backend_free(d->stream);
    }
}

struct state {
    struct ggml_backend_hsa_stats stats;
    struct ggml_backend_hsa_account account;
    size_t free, total;
};

static struct state state_of(const struct llm_device * d) {
    struct state s = {.account = {.size = sizeof s.account}};
    ggml_backend_hsa_get_stats_t get_stats;
    ggml_backend_hsa_get_account_t get_account;
    memcpy(&get_stats, &d->get_stats, sizeof get_stats);
    memcpy(&get_account, &d->get_account, sizeof get_account);
    get_stats(d->dev, &s.stats);
    get_account(d->dev, &s.account);
    ggml_backend_dev_memory(d->dev, &s.free, &s.total);
    return s;
}

// ---- graphs ----

struct part {
    struct ggml_context *weights, *ctx;
    struct ggml_cgraph * graph;
};

static struct ggml_context * context_new(void) {
    return ggml_init((struct ggml_init_params){.mem_size = 2 * MOST_NODES * ggml_tensor_overhead() +
                                                           ggml_graph_overhead(),
                                               .no_alloc = true});
}

static bool part_new(const struct decoder * d, enum llm_part which, int64_t tokens, int64_t context,
                     bool flash, struct part * p) {
    *p = (struct part){.weights = context_new(), .ctx = context_new()};
    if (!p->weights || !p->ctx) {
        return false;
    }
    struct decoder_tensors t = {0};
    p->graph = ggml_new_graph(p->ctx);
    struct ggml_tensor * x = ggml_new_tensor_2d(p->ctx, GGML_TYPE_F32, d->embd, tokens);
    if (which == LLM_LAYER) {
        decoder_add_layer(p->weights, d, &t);
        decoder_add_inputs(p->ctx, d, tokens, context, &t);
        decoder_layer(p->ctx, p->graph, d, &t, x, flash);
    } else {
        decoder_add_head(p->weights, d, &t);
        ggml_build_forward_expand(p->graph, decoder_head(p->ctx, d, &t, x));
    }
    return true;
}

static void part_free(struct part * p) {
    ggml_free(p->weights);
    ggml_free(p->ctx);
}

static bool is_computed(const struct ggml_tensor * t) {
    return t->op != GGML_OP_NONE && t->op != GGML_OP_VIEW && t->op != GGML_OP_RESHAPE &&
           t->op != GGML_OP_PERMUTE && t->op != GGML_OP_TRANSPOSE;
}

static void count(const struct llm_device * device, const struct part * p,
                  struct llm_figures * out) {
    bool before = true;
    for (int i = 0; i < ggml_graph_n_nodes(p->graph); i++) {
        const struct ggml_tensor * t = ggml_graph_node(p->graph, i);
        if (!is_computed(t)) {
            continue;
        }
        bool supported = ggml_backend_dev_supports_op(device->dev, t);
        out->nodes++;
        out->on_device += supported;
        out->gaps += before && !supported;
        before = supported;
        if (t->op == GGML_OP_MUL_MAT) {
            out->macs += (uint64_t) (t->src[0]->ne[0] * ggml_nelements(t));
        } else if (t->op == GGML_OP_FLASH_ATTN_EXT) {
            out->macs += (uint64_t) (2 * t->src[1]->ne[1] * ggml_nelements(t));
        }
    }
    for (struct ggml_tensor * t = ggml_get_first_tensor(p->weights); t;
         t = ggml_get_next_tensor(p->weights, t)) {
        out->weights += ggml_nbytes(t);
    }
}

bool llm_has_flash(const struct llm_device * device, const struct decoder * d, int64_t tokens,
                   int64_t context) {
    struct part p;
    struct llm_figures f = {0};
    bool ok = part_new(d, LLM_LAYER, tokens, context, true, &p);
    if (ok) {
        count(device, &p, &f);
    }
    part_free(&p);
    return ok && f.nodes == f.on_device;
}

void llm_count(const struct llm_device * device, const struct decoder * d, enum llm_part which,
               int64_t tokens, int64_t context, struct llm_figures * out) {
    struct part p;
    *out = (struct llm_figures){0};
    bool flash = which == LLM_LAYER && llm_has_flash(device, d, tokens, context);
    if (part_new(d, which, tokens, context, flash, &p)) {
        count(device, &p, out);
    }
    part_free(&p);
}

uint64_t llm_cache_bytes(const struct decoder * d, int64_t context) {
    return 2 * (uint64_t) (d->layers * context) * ggml_row_size(d->kv, d->kv_heads * d->head_dim);
}

// ---- measuring ----

static void tell(struct llm_device * device, const struct state * a, const struct state * b,
                 struct llm_figures * out) {
    const struct ggml_backend_hsa_account *x = &a->account, *y = &b->account;
    device->mhz = y->mhz;
    snprintf(device->clock, sizeof device->clock, "%s", y->clock);
    out->dispatches = (double) (y->dispatches - x->dispatches);
    out->kernels = (double) (b->stats.dispatches - a->stats.dispatches);
    out->pdi_loads = (double) (y->pdi_loads - x->pdi_loads);
    out->bytes = 4 * (double) (y->stream_words - x->stream_words);
    out->ms = (double) (y->ns - x->ns) * 1e-6;
    for (int i = 0; i < LLM_CAUSES; i++) {
        device->causes[i] = y->causes[i].name;
        out->causes[i] =
            (double) (y->causes[i].cycles - x->causes[i].cycles) / (double) y->mhz * 1e-3;
    }
    out->kept = (double) (b->stats.kept_nodes - a->stats.kept_nodes);
    out->waits = (double) (b->stats.waits - a->stats.waits) - 1; // the end of the graph is none
    out->operations = (double) (b->stats.operations - a->stats.operations);
    out->by_host = (double) (b->stats.host_copies - a->stats.host_copies);
    out->on_cpu = (double) (b->stats.cpu_nodes - a->stats.cpu_nodes);
}

// Each token sees itself and those before it.
static const char * set_mask(const struct part * p) {
    struct ggml_tensor * t = ggml_get_tensor(p->ctx, "mask");
    ggml_fp16_t * rows = t ? calloc((size_t) ggml_nelements(t), sizeof *rows) : NULL;
    if (!rows) {
        return t ? "no memory for the mask" : NULL;
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
static const char * set_rows(const struct part * p) {
    struct ggml_tensor * t = ggml_get_tensor(p->ctx, "rows");
    struct ggml_tensor * cache = ggml_get_tensor(p->ctx, "cache_k");
    int64_t * rows = t && cache ? malloc(ggml_nbytes(t)) : NULL;
    if (!rows) {
        return t && cache ? "no memory for the rows" : NULL;
    }
    for (int64_t i = 0; i < t->ne[0]; i++) {
        rows[i] = cache->ne[1] - t->ne[0] + i;
    }
    ggml_backend_tensor_set(t, rows, 0, ggml_nbytes(t));
    free(rows);
    return NULL;
}

const char * llm_measure(struct llm_device * device, const struct decoder * d, enum llm_part which,
                         int64_t tokens, int64_t context, struct llm_figures * out) {
    *out = (struct llm_figures){0};
    struct part p;
    bool flash = which == LLM_LAYER && llm_has_flash(device, d, tokens, context);
    struct state empty = state_of(device), before = empty, after;
    if (!part_new(d, which, tokens, context, flash, &p)) {
        part_free(&p);
        return "no memory for the graph";
    }
    count(device, &p, out);
    ggml_backend_buffer_t weights = ggml_backend_alloc_ctx_tensors(p.weights, device->stream);
    ggml_backend_buffer_t rest = ggml_backend_alloc_ctx_tensors(p.ctx, device->stream);
    const char * why = weights && rest ? NULL : "the device has no memory for a part of this size";
    if (!why) {
        ggml_backend_buffer_set_usage(weights, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        for (struct ggml_tensor * t = ggml_get_first_tensor(p.weights); t;
             t = ggml_get_next_tensor(p.weights, t)) { // as a program that loads them would
            ggml_backend_tensor_memset(t, 0, 0, ggml_nbytes(t));
        }
        ggml_backend_buffer_clear(rest, 0);
        why = set_mask(&p);
        why = why ? why : set_rows(&p);
    }
    for (int i = device->once; i < 2 && !why; i++) {
        before = state_of(device);
        if (ggml_backend_graph_compute(device->stream, p.graph) != GGML_STATUS_SUCCESS) {
            why = "the device cannot compute it";
        }
    }
    if (!why) {
        after = state_of(device);
        tell(device, &before, &after, out);
        out->memory = (double) empty.free - (double) after.free;
    }
    ggml_backend_buffer_free(rest);
    ggml_backend_buffer_free(weights);
    part_free(&p);
    return why;
}

void llm_add(struct llm_figures * to, const struct llm_figures * part, double times) {
    to->nodes += (int) (part->nodes * times);
    to->on_device += (int) (part->on_device * times);
    to->gaps += (int) (part->gaps * times);
    to->macs += (uint64_t) ((double) part->macs * times);
    to->weights += (uint64_t) ((double) part->weights * times);
    to->dispatches += part->dispatches * times;
    to->kernels += part->kernels * times;
    to->kept += part->kept * times;
    to->pdi_loads += part->pdi_loads * times;
    to->waits += part->waits * times;
    to->operations += part->operations * times;
    to->by_host += part->by_host * times;
    to->on_cpu += part->on_cpu * times;
    to->bytes += part->bytes * times;
    to->memory += part->memory * times;
    to->ms += part->ms * times;
    for (int i = 0; i < LLM_CAUSES; i++) {
        to->causes[i] += part->causes[i] * times;
    }
}
