// llm: see llm.h. All goes through ggml's public interface and what the plugin adds to it, so that
// what is measured is what a program gets.
#include "llm-graph.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

// ---- the device ----

// The plugin's first device.
static const char * open_first(const char * plugin, struct llm_device * out) {
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
    out->why_not = ggml_backend_reg_get_proc_address(reg, "ggml_backend_hsa_why_not");
    out->clear_profile = ggml_backend_reg_get_proc_address(reg, "ggml_backend_hsa_clear_profile");
    return NULL;
}

static const char * open_stream(struct llm_device * out) {
    out->stream = ggml_backend_dev_init(out->dev, NULL);
    return out->stream ? NULL : "the device has no stream for us";
}

const char * llm_open_gpu(const char * plugin, struct llm_device * out) {
    const char * why = open_first(plugin, out);
    return why ? why : open_stream(out);
}

const char * llm_open(const char * plugin, struct llm_device * out) {
    const char * why = open_first(plugin, out);
    if (why) {
        return why;
    }
    struct ggml_backend_hsa_account account = {.size = sizeof account};
    ggml_backend_hsa_get_account_t get_account;
    memcpy(&get_account, &out->get_account, sizeof get_account);
    if (!out->get_stats || !get_account || !get_account(out->dev, &account)) {
        return "the first device is no emulated NPU; GGML_HSA_EMULATE=aie2 emulates one";
    }
    return open_stream(out);
}

void llm_close(struct llm_device * d) {
    if (d->stream) {
        ggml_backend_free(d->stream);
    }
}

struct llm_state llm_state_of(const struct llm_device * d) {
    struct llm_state s = {.account = {.size = sizeof s.account}};
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

static struct llm_list list_of(const struct decoder_model * m, enum llm_part part, int kind) {
    struct llm_list list = {.n = part == LLM_LAYER   ? 1
                                 : part == LLM_WHOLE ? m->n_layers
                                                     : 0,
                            .head = part != LLM_LAYER};
    memcpy(list.kinds, m->kind_of, (size_t) list.n);
    if (part == LLM_LAYER) {
        list.kinds[0] = (uint8_t) kind;
    }
    return list;
}

// What is computed before what is measured: all that it needs, and its end at the end.
static struct llm_list warm_up_of(const struct decoder_model * m, const struct llm_list * list) {
    struct llm_list warm = {.head = list->head};
    bool seen[DECODER_MOST_KINDS] = {false};
    for (int64_t i = 0; i < list->n && warm.n < m->n_kinds; i++) {
        if (!seen[list->kinds[i]]) {
            warm.kinds[warm.n++] = list->kinds[i];
            seen[list->kinds[i]] = true;
        }
    }
    return warm;
}

// Whether attention is one node: as llama.cpp does, where the device computes it so. If not, `out`
// says why.
static bool has_flash(const struct llm_device * device, const struct decoder_model * m,
                      int64_t tokens, int64_t context, struct llm_figures * out) {
    struct llm_list list = list_of(m, LLM_LAYER, 0);
    struct llm_weights w;
    struct llm_graph g = {0};
    struct llm_figures f = {0};
    bool ok =
        llm_weights_new(m, &list, &w) && llm_graph_new(m, &list, &w, tokens, context, true, &g);
    if (ok) {
        llm_graph_count(device, m, &list, &w, &g, &f);
    }
    llm_graph_free(&g);
    llm_weights_free(&w);
    for (int i = 0; i < f.n_left; i++) {
        if (!strcmp(f.left[i].op, ggml_op_name(GGML_OP_FLASH_ATTN_EXT))) {
            llm_add_left(out, &f.left[i], 0);
        }
    }
    return ok && f.nodes == f.on_device;
}

void llm_count(const struct llm_device * device, const struct decoder_model * m, enum llm_part part,
               int kind, int64_t tokens, int64_t context, struct llm_figures * out) {
    struct llm_list list = list_of(m, part, kind);
    struct llm_weights w;
    struct llm_graph g = {0};
    *out = (struct llm_figures){0};
    bool flash = part != LLM_HEAD && has_flash(device, m, tokens, context, out);
    if (llm_weights_new(m, &list, &w) && llm_graph_new(m, &list, &w, tokens, context, flash, &g)) {
        llm_graph_count(device, m, &list, &w, &g, out);
    }
    llm_graph_free(&g);
    llm_weights_free(&w);
}

uint64_t llm_cache_bytes(const struct decoder_model * m, int64_t context) {
    const struct decoder * d = &m->decoder;
    int64_t rows = 0;
    for (int i = 0; i < m->n_kinds; i++) {
        rows += m->kinds[i].layers * decoder_rows(m, i, context);
    }
    return 2 * (uint64_t) rows * ggml_row_size(d->kv, d->kv_heads * d->head_dim);
}

// ---- measuring ----

void llm_tell(struct llm_device * device, const struct llm_state * a, const struct llm_state * b,
              struct llm_figures * out) {
    const struct ggml_backend_hsa_account *x = &a->account, *y = &b->account;
    device->mhz = y->mhz;
    device->compiled = b->stats.kernels_compiled;
    snprintf(device->clock, sizeof device->clock, "%s", y->clock);
    out->dispatches = (double) (y->dispatches - x->dispatches);
    out->kernels = (double) (b->stats.dispatches - a->stats.dispatches);
    out->pdi_loads = (double) (y->pdi_loads - x->pdi_loads);
    out->bytes = 4 * (double) (y->stream_words - x->stream_words);
    out->flushed = (double) (y->flushed - x->flushed);
    out->ms = (double) (y->ns - x->ns) * 1e-6;
    for (int i = 0; i < LLM_CAUSES; i++) {
        snprintf(device->causes[i], sizeof device->causes[i], "%s", y->causes[i].name);
        out->causes[i] =
            (double) (y->causes[i].cycles - x->causes[i].cycles) / (double) y->mhz * 1e-3;
    }
    for (int i = 0; i < LLM_RUNS; i++) {
        device->below[i] = y->runs[i].below;
        out->read[i] = (double) (y->runs[i].read - x->runs[i].read);
        out->written[i] = (double) (y->runs[i].written - x->runs[i].written);
    }
    out->kept = (double) (b->stats.kept_nodes - a->stats.kept_nodes);
    out->waits = (double) (b->stats.waits - a->stats.waits) - 1; // the end of the graph is none
    out->operations = (double) (b->stats.operations - a->stats.operations);
    out->by_host = (double) (b->stats.host_copies - a->stats.host_copies);
    out->on_cpu = (double) (b->stats.cpu_nodes - a->stats.cpu_nodes);
}

// How often the list has layers of that kind.
static double times_of(const struct llm_list * list, int kind) {
    double n = 0;
    for (int64_t i = 0; i < list->n; i++) {
        n += list->kinds[i] == kind;
    }
    return n;
}

// Layers of a kind share their weights here, and in a program they do not: what goes when these are
// freed, in whatever form they were kept, is missing for each layer but one.
static double missing_memory(const struct llm_device * device, const struct llm_list * list,
                             struct llm_weights * w) {
    double missing = 0;
    for (int i = 0; i < w->n - 1; i++) {
        size_t before = llm_state_of(device).free;
        ggml_backend_buffer_free(w->buffers[i]);
        w->buffers[i] = NULL;
        double kept = (double) llm_state_of(device).free - (double) before;
        double times = times_of(list, i);
        missing += times > 1 ? kept * (times - 1) : 0;
    }
    return missing;
}

void llm_clear_profile(struct llm_device * device) {
    ggml_backend_hsa_clear_profile_t clear_profile;
    memcpy(&clear_profile, &device->clear_profile, sizeof clear_profile);
    if (clear_profile) {
        clear_profile(device->dev);
    }
}

// What was computed before to warm up is none of a profile's. First runs have no such thing, and of
// all parts their kernels are told.
static const char * compute(struct llm_device * device, const struct llm_graph * g,
                            struct llm_state * before) {
    if (!device->once) {
        llm_clear_profile(device);
    }
    *before = llm_state_of(device);
    return ggml_backend_graph_compute(device->stream, g->graph) == GGML_STATUS_SUCCESS
               ? NULL
               : "the device cannot compute it";
}

// A hardware context is made with the first packets of a process, and takes as long as many loads:
// it is no part's, which would be multiplied. A sum of two numbers has it made.
static const char * begin(struct llm_device * device) {
    struct ggml_context * ctx = ggml_init((struct ggml_init_params){
        .mem_size = 4 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true});
    if (!ctx) {
        return "no memory for the graph";
    }
    struct llm_graph g = {.ctx = ctx, .graph = ggml_new_graph(ctx)};
    struct ggml_tensor *a = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64),
                       *b = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    ggml_build_forward_expand(g.graph, ggml_add(ctx, a, b));
    struct llm_state before;
    const char * why = llm_graph_place(&g, device->stream);
    why = why ? why : compute(device, &g, &before);
    llm_clear_profile(device);
    llm_graph_free(&g);
    return why;
}

const char * llm_measure(struct llm_device * device, const struct decoder_model * m,
                         enum llm_part part, int kind, int64_t tokens, int64_t context,
                         struct llm_figures * out) {
    *out = (struct llm_figures){0};
    struct llm_list list = list_of(m, part, kind), warm = warm_up_of(m, &list);
    bool flash = part != LLM_HEAD && has_flash(device, m, tokens, context, out);
    struct llm_state empty = llm_state_of(device), before, after;
    struct llm_weights w = {0};
    struct llm_graph first = {0}, g = {0};
    bool ok = llm_weights_new(m, &list, &w) &&
              llm_graph_new(m, &warm, &w, tokens, context, flash, &first) &&
              llm_graph_new(m, &list, &w, tokens, context, flash, &g);
    const char * why = ok ? NULL : "no memory for the graph";
    if (!why && device->once && !device->begun) {
        why = begin(device);
        empty = llm_state_of(device);
    }
    device->begun = true;
    why = why ? why : llm_weights_place(&w, device->stream);
    if (!why && !device->once) {
        why = llm_graph_place(&first, device->stream);
        why = why ? why : compute(device, &first, &before);
    }
    llm_graph_free(&first);
    if (!why) {
        why = llm_graph_place(&g, device->stream);
        if (!why && !device->once) {
            why = llm_graph_settle(&g, device->stream);
        }
        why = why ? why : compute(device, &g, &before);
        if (!why && part == LLM_WHOLE) {
            why = llm_graph_write(&g);
            why = why ? why : llm_graph_read(&g);
        }
    }
    if (!why) {
        after = llm_state_of(device);
        llm_graph_count(device, m, &list, &w, &g, out);
        llm_tell(device, &before, &after, out);
        out->memory = (double) empty.free - (double) after.free;
        out->memory += missing_memory(device, &list, &w);
    }
    llm_graph_free(&g);
    llm_weights_free(&w);
    return why;
}

void llm_add_left(struct llm_figures * to, const struct llm_left * left, double times) {
    int i = 0;
    while (i < to->n_left &&
           (strcmp(to->left[i].op, left->op) != 0 || strcmp(to->left[i].why, left->why) != 0)) {
        i++;
    }
    if (i == LLM_LEFT) {
        return;
    }
    if (i == to->n_left) {
        to->left[to->n_left++] = *left;
        to->left[i].nodes = 0;
    }
    to->left[i].nodes += left->nodes * times;
}

void llm_add(struct llm_figures * to, const struct llm_figures * part, double times) {
    to->nodes += (int) (part->nodes * times);
    to->on_device += (int) (part->on_device * times);
    to->gaps += (int) (part->gaps * times);
    to->macs += (uint64_t) ((double) part->macs * times);
    to->weights += (uint64_t) ((double) part->weights * times);
    to->states += (uint64_t) ((double) part->states * times);
    to->dispatches += part->dispatches * times;
    to->kernels += part->kernels * times;
    to->kept += part->kept * times;
    to->pdi_loads += part->pdi_loads * times;
    to->waits += part->waits * times;
    to->flushed += part->flushed * times;
    to->operations += part->operations * times;
    to->by_host += part->by_host * times;
    to->on_cpu += part->on_cpu * times;
    to->bytes += part->bytes * times;
    to->memory += part->memory * times;
    to->ms += part->ms * times;
    for (int i = 0; i < part->n_left; i++) {
        llm_add_left(to, &part->left[i], times);
    }
    for (int i = 0; i < LLM_CAUSES; i++) {
        to->causes[i] += part->causes[i] * times;
    }
    for (int i = 0; i < LLM_RUNS; i++) {
        to->read[i] += part->read[i] * times;
        to->written[i] += part->written[i] * times;
    }
}
