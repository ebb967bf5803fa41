// fallback: nodes that no kernel computes, on a CPU backend inside a stream. For programs that hand
// us whole graphs without asking what we support (ggml's RPC server is one), and for trying things
// out: GGML_HSA_HOST_FALLBACK=1, or built in with GGML_HSA_CPU_FALLBACK, promises such nodes too.
// Memory of a NPU is memory of the host, so that nothing is copied; operands in a GPU's are
// (mirror.c). Neighbouring nodes are one graph, because each graph starts its threads anew. Every
// stream has a CPU backend of its own: like the stream, it is used by one thread at a time.
#include "backend.h"
#include "cpu.h"

#include <string.h>
#include <unistd.h>

#define MAX_NODES 512                  // of one CPU graph
#define MAX_BYTES ((size_t) 256 << 20) // of operands that may have to be copied, and one node's

#ifdef GGML_HSA_CPU_FALLBACK
#    define DEFAULT_MODE FALLBACK_PROMISED
#else
#    define DEFAULT_MODE FALLBACK_ABLE
#endif

enum fallback_mode fallback_asked(void) {
    static const char variable[] = "GGML_HSA_HOST_FALLBACK";
    bool off = !env_flag(variable, true), on = env_flag(variable, false);
    return off ? FALLBACK_NEVER : on ? FALLBACK_PROMISED : DEFAULT_MODE;
}

// ggml's CPU backend claims elementwise and row ops of every type, and aborts the process on a type
// that it does not have. The table lists the types that it has. Of an op that is not in the table
// its claim is believed.
enum { F32 = 1, F16 = 2, BF16 = 4, FLOATS = F32 | F16 | BF16 };
static const uint8_t cpu_types[GGML_OP_COUNT] = {
    [GGML_OP_ADD] = FLOATS,
    [GGML_OP_SUB] = FLOATS,
    [GGML_OP_MUL] = FLOATS,
    [GGML_OP_DIV] = FLOATS,
    [GGML_OP_UNARY] = FLOATS,
    [GGML_OP_GLU] = F32 | F16,
    [GGML_OP_SQR] = FLOATS,
    [GGML_OP_SQRT] = FLOATS,
    [GGML_OP_LOG] = FLOATS,
    [GGML_OP_SIN] = FLOATS,
    [GGML_OP_COS] = FLOATS,
    [GGML_OP_SCALE] = F32,
    [GGML_OP_CLAMP] = F32 | F16,
    [GGML_OP_LEAKY_RELU] = F32 | F16,
    [GGML_OP_SOFT_MAX] = F32,
    [GGML_OP_RMS_NORM] = F32,
    [GGML_OP_NORM] = F32,
    [GGML_OP_L2_NORM] = F32,
    [GGML_OP_SUM_ROWS] = F32,
    [GGML_OP_MEAN] = F32,
    [GGML_OP_SUM] = FLOATS,
    [GGML_OP_ARGMAX] = F32,
    [GGML_OP_CROSS_ENTROPY_LOSS] = F32,
};

static unsigned types_of(const struct ggml_tensor * op) {
    if ((unsigned) op->op >= GGML_OP_COUNT) { // of a later ggml
        return 0;
    }
    if (op->op == GGML_OP_GLU && ggml_get_glu_op(op) == GGML_GLU_OP_SWIGLU_OAI) {
        return F32;
    }
    if (op->op == GGML_OP_UNARY) {
        switch (ggml_get_unary_op(op)) {
        case GGML_UNARY_OP_GELU:
        case GGML_UNARY_OP_GELU_QUICK:
        case GGML_UNARY_OP_GELU_ERF:
        case GGML_UNARY_OP_SILU:
            return F32 | F16;
        default:
            break;
        }
    }
    return cpu_types[op->op];
}

static bool cpu_computes(ggml_backend_dev_t cpu, const struct ggml_tensor * op) {
    if (!op_has_sources(op)) {
        return false; // it would be looked for
    }
    unsigned types = types_of(op);
    enum ggml_type t = op->src[0] ? op->src[0]->type : op->type;
    unsigned bit = t == GGML_TYPE_F32    ? F32
                   : t == GGML_TYPE_F16  ? F16
                   : t == GGML_TYPE_BF16 ? BF16
                                         : 0;
    // MUL and ADD take quantized terms as well. No kernel of ours does, so the backend's claim
    // counts.
    bool known = types == 0 || (types & bit) || ggml_is_quantized(t);
    return known && ggml_backend_dev_supports_op(cpu, op);
}

bool fallback_supports(const struct ggml_tensor * op) {
    ggml_backend_dev_t cpu = cpu_device();
    return cpu && cpu_computes(cpu, op);
}

// ---- a stream's CPU backend ----

// ggml's threads spin while they wait for each other, so more threads than cores are very slow.
static void set_threads(ggml_backend_t cpu) {
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(cpu));
    void * address = ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
    ggml_backend_set_n_threads_t set_n_threads;
    memcpy(&set_n_threads, &address, sizeof address);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (set_n_threads && cores > 0 && cores < GGML_DEFAULT_N_THREADS) {
        set_n_threads(cpu, (int) cores);
    }
}

static enum status fallback_begin(struct fallback * f, struct error * err) {
    if (f->cpu) {
        return ST_OK;
    }
    ggml_backend_dev_t device = cpu_device();
    if (!device) {
        return error_set(
            err, ST_NOT_FOUND,
            "there is no CPU backend to compute it instead: load libggml-cpu before computing");
    }
    struct ggml_init_params params = {
        .mem_size = ggml_graph_overhead_custom(MAX_NODES, false) + ggml_tensor_overhead(),
        .no_alloc = true,
    };
    f->ctx = ggml_init(params);
    f->graph = f->ctx ? ggml_new_graph_custom(f->ctx, MAX_NODES, false) : NULL;
    f->cpu = f->graph ? ggml_backend_dev_init(device, NULL) : NULL;
    if (!f->cpu) {
        fallback_free(f);
        return error_set(err, ST_NO_MEMORY, "no memory for a CPU backend");
    }
    set_threads(f->cpu);
    return ST_OK;
}

void fallback_free(struct fallback * f) {
    if (f->cpu) {
        ggml_backend_free(f->cpu);
    }
    ggml_free(f->ctx);
    *f = (struct fallback){0};
}

bool fallback_waits(const struct fallback * f) {
    return f->graph && ggml_graph_n_nodes(f->graph) > 0;
}

// Ranges that the CPU reads and writes in memory of a NPU, which does not snoop its caches.
static void touch_begin(struct ggml_cgraph * graph) {
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        const struct ggml_tensor * node = ggml_graph_node(graph, i);
        for (int k = -1; k < GGML_MAX_SRC; k++) {
            const struct ggml_tensor * t = k < 0 ? node : node->src[k];
            struct hsac_agent * npu = t ? buffer_npu(t) : NULL;
            if (npu) {
                hsac_host_begin(npu, t->data, ggml_nbytes(t));
            }
        }
    }
}

static void touch_end(struct ggml_cgraph * graph) {
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        const struct ggml_tensor * written[OP_MAX_WRITES];
        int n = op_writes(ggml_graph_node(graph, i), written);
        for (int k = 0; k < n; k++) {
            struct hsac_agent * npu = buffer_npu(written[k]);
            if (npu) {
                hsac_host_end(npu, written[k]->data, ggml_nbytes(written[k]));
            }
        }
    }
}

enum status fallback_run(struct fallback * f, struct error * err) {
    struct mirror * mirror = NULL;
    if (!fallback_waits(f)) {
        return ST_OK;
    }
    touch_begin(f->graph);
    enum status st = mirror_new(f->graph, &mirror, err);
    if (st == ST_OK) {
        enum ggml_status status = ggml_backend_graph_compute(f->cpu, f->graph);
        if (status != GGML_STATUS_SUCCESS) {
            st = error_set(err, status == GGML_STATUS_ALLOC_FAILED ? ST_NO_MEMORY : ST_DEVICE, "%s",
                           ggml_status_to_string(status));
        }
    }
    st = st == ST_OK ? mirror_write(mirror, err) : st;
    touch_end(f->graph);
    ggml_graph_clear(f->graph);
    f->bytes = 0;
    mirror_free(mirror);
    return st == ST_OK ? st : error_prefix(err, st, "on the CPU");
}

static size_t operand_bytes(const struct ggml_tensor * node) {
    size_t bytes = ggml_nbytes(node);
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        bytes += node->src[i] ? ggml_nbytes(node->src[i]) : 0;
    }
    return bytes;
}

enum status fallback_add(struct fallback * f, struct ggml_tensor * node, struct error * err) {
    enum status st = fallback_begin(f, err);
    if (st == ST_OK && !cpu_computes(ggml_backend_get_device(f->cpu), node)) {
        st = error_set(err, ST_UNSUPPORTED, "the CPU backend does not have it for %s either",
                       ggml_type_name(node->src[0] ? node->src[0]->type : node->type));
    }
    if (st == ST_OK && (ggml_graph_n_nodes(f->graph) == MAX_NODES || f->bytes > MAX_BYTES)) {
        st = fallback_run(f, err);
    }
    if (st == ST_OK) {
        ggml_graph_add_node(f->graph, node);
        f->bytes += operand_bytes(node);
    }
    return st;
}
