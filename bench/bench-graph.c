// bench-graph: what the host does for a node of a graph that is computed again and again. The
// device does nothing: packets are taken and said to be complete when the doorbell rings, so that
// what is measured is ours alone. The graph is a small decoder's, a token at a time, with weights
// of several datatypes.
#include "backend/backend.h"
#include "bench.h"
#include "ggml-alloc.h"
#include "hsa/hsac-impl.h"
#include "tools/decoder.h"

#include <hsa/amd_hsa_queue.h>

enum { LAYERS = 2, RUNS = 101, MOST_NODES = 512 };

static const struct {
    const char * name;
    struct decoder sizes;
    int64_t context;
} models[] = {
    {"small", {.embd = 64, .heads = 8, .kv_heads = 4, .head_dim = 8, .ff = 192, .vocab = 512}, 64},
    {"1B",
     {.embd = 2048, .heads = 32, .kv_heads = 8, .head_dim = 64, .ff = 8192, .vocab = 4096},
     512},
};
enum { MODELS = sizeof models / sizeof models[0] };

static struct decoder model(int i, enum ggml_type type) {
    static const enum decoder_weight has[] = {
        DECODER_ATTN_NORM, DECODER_Q,        DECODER_K,           DECODER_V,
        DECODER_OUT,       DECODER_FFN_NORM, DECODER_GATE,        DECODER_UP,
        DECODER_DOWN,      DECODER_EMBD,     DECODER_OUTPUT_NORM, DECODER_OUTPUT};
    struct decoder d = models[i].sizes;
    d.layers = LAYERS;
    d.rope_dims = d.head_dim;
    d.eps = 1e-5f;
    d.rope_base = 10000;
    d.rope_scale = 1;
    d.kv = GGML_TYPE_F16;
    for (size_t w = 0; w < sizeof has / sizeof has[0]; w++) {
        d.has[has[w]] = true;
        d.types[has[w]] = has[w] == DECODER_EMBD ? GGML_TYPE_F32 : type;
    }
    return d;
}

// ---- a device that does nothing ----

static struct hsac_agent * agent;
static __typeof__(hsa_signal_store_screlease) * store;
static int batches;

static void ring(hsa_signal_t signal, hsa_signal_value_t value) {
    const struct hsac_ring * r = &agent->ring;
    if (signal.handle != r->queue->doorbell_signal.handle) {
        store(signal, value);
        return;
    }
    amd_queue_t * queue = (amd_queue_t *) (void *) r->queue;
    __atomic_store_n(&queue->read_dispatch_id, r->next, __ATOMIC_RELEASE);
    store(r->completion, 0);
    batches++;
}

static void make_idle(ggml_backend_dev_t dev) {
    agent = ((struct hsa_device *) dev)->agent;
    store = agent->h->api.hsa_signal_store_screlease;
    agent->h->api.hsa_signal_store_screlease = ring;
}

// ---- graphs ----

static double thread_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double) t.tv_sec * 1e6 + (double) t.tv_nsec * 1e-3;
}

static struct ggml_context * context_new(void) {
    return ggml_init((struct ggml_init_params){.mem_size = 3 * MOST_NODES * ggml_tensor_overhead() +
                                                           ggml_graph_overhead(),
                                               .no_alloc = true});
}

// Small numbers in every datatype, and an index that points to something.
static void fill(struct ggml_context * ctx) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t; t = ggml_get_next_tensor(ctx, t)) {
        if (!t->view_src && t->op == GGML_OP_NONE) {
            ggml_backend_tensor_memset(t, 0, 0, ggml_nbytes(t));
        }
    }
}

static bool is_computed(const struct ggml_tensor * t) {
    return t->op != GGML_OP_NONE && t->op != GGML_OP_VIEW && t->op != GGML_OP_RESHAPE &&
           t->op != GGML_OP_PERMUTE && t->op != GGML_OP_TRANSPOSE;
}

static bool measure(ggml_backend_t backend, int which, enum ggml_type type) {
    struct decoder d = model(which, type);
    struct ggml_context *weights = context_new(), *ctx = context_new();
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    struct decoder_tensors t = {0};
    decoder_add_head(weights, &d, &t);
    decoder_add_inputs(ctx, 1, models[which].context, &t);
    decoder_add_cache(ctx, &d, models[which].context, &t);
    struct ggml_tensor * x = decoder_embed(ctx, &d, &t);
    for (int i = 0; i < LAYERS; i++) {
        decoder_add_layer(weights, &d, &t);
        x = decoder_layer(ctx, graph, &d, &t, x, false);
    }
    ggml_build_forward_expand(graph, decoder_head(ctx, &d, &t, x));
    ggml_backend_buffer_t of_weights = ggml_backend_alloc_ctx_tensors(weights, backend);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    bool ok = of_weights && buffer;
    double runs[RUNS] = {0}, first = 0;
    if (ok) {
        ggml_backend_buffer_set_usage(of_weights, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        fill(weights);
        fill(ctx);
    }
    int nodes = 0, n = ggml_graph_n_nodes(graph);
    for (int i = 0; i < n; i++) {
        nodes += is_computed(ggml_graph_node(graph, i));
    }
    for (int i = -1; i < RUNS && ok; i++) {
        double start = thread_us();
        ok = ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS;
        batches = i < 0 ? 0 : batches;
        *(i < 0 ? &first : &runs[i]) = thread_us() - start;
    }
    if (ok) {
        char what[80];
        snprintf(what, sizeof what, "%s, %s, %d nodes: a node the first time", models[which].name,
                 ggml_type_name(type), nodes);
        bench_row(what, first / nodes, "us of the host", "");
        snprintf(what, sizeof what, "%s, %s: a node again", models[which].name,
                 ggml_type_name(type));
        bench_row(what, bench_median(runs, RUNS) / nodes, "us of the host", "<= 2");
        snprintf(what, sizeof what, "%s, %s: batches", models[which].name, ggml_type_name(type));
        bench_row(what, (double) batches / RUNS, "a graph", "");
    }
    ggml_backend_buffer_free(buffer);
    ggml_backend_buffer_free(of_weights);
    ggml_free(ctx);
    ggml_free(weights);
    return ok;
}

int main(int argc, char ** argv) {
    bench_no_arguments(argc, argv, "bench-graph", "what the backend takes for a graph on the host");
    ggml_backend_reg_t reg = ggml_backend_hsa_reg();
    ggml_backend_dev_t dev =
        reg && ggml_backend_reg_dev_count(reg) ? ggml_backend_reg_dev_get(reg, 0) : NULL;
    ggml_backend_t backend = dev ? ggml_backend_dev_init(dev, NULL) : NULL;
    if (!backend || !((struct hsa_device *) dev)->npu) {
        fprintf(stderr, "bench-graph: no NPU; GGML_HSA_EMULATE=aie2 emulates one\n");
        return 1;
    }
    static const enum ggml_type types[] = {GGML_TYPE_BF16, GGML_TYPE_F32, GGML_TYPE_Q4_0};
    bool ok = true;
    make_idle(dev);
    bench_head();
    for (int m = 0; m < MODELS; m++) {
        for (size_t i = 0; i < sizeof types / sizeof types[0] && ok; i++) {
            ok = measure(backend, m, types[i]);
        }
    }
    ggml_backend_free(backend);
    return ok ? 0 : 1;
}
