// stream: one queue of a device, as a ggml backend instance. A graph is walked once: kernels are
// sent ahead without waiting, the host waits only where it must touch their results, and at the
// end, so that a fault is the status of the graph that had it. Scratch memory and code that a
// dispatch may still use are given back after a wait and never before.
//
// A stream is used by one thread at a time; nothing here is locked.
#include "backend.h"

#include <stdlib.h>
#include <string.h>

#define MAX_IN_FLIGHT 256 // dispatches between two waits: bounds the pins that one stream holds

// Scratch is bump-allocated from a few blocks. Blocks up to the limit are kept for the next graph.
#define SCRATCH_BLOCKS     16
#define SCRATCH_BLOCK_SIZE ((size_t) 1 << 20)
#define SCRATCH_KEEP_SIZE  ((size_t) 64 << 20)

struct scratch_block {
    char * base;
    size_t size, used;
};

struct hsa_stream {
    struct ggml_backend base; // first: ggml's handle is this address
    struct hsa_device * device;
    struct hsac_queue * queue;
    size_t n_pins; // dispatches that are not known to be complete
    struct code_stream * pins[MAX_IN_FLIGHT];
    int n_blocks;
    struct scratch_block blocks[SCRATCH_BLOCKS];
    struct fallback fallback;
};

static struct hsa_stream * stream_of(ggml_backend_t backend) {
    return (struct hsa_stream *) backend;
}

// ---- waiting and scratch ----

static enum status stream_wait(struct hsa_stream * s, struct error * err) {
    enum status st = s->n_pins ? hsac_queue_wait(s->queue, err) : ST_OK;
    code_release(&s->device->code, s->pins, s->n_pins);
    s->n_pins = 0;
    return st;
}

static void scratch_reset(struct hsa_stream * s, size_t keep) {
    int kept = 0;
    for (int i = 0; i < s->n_blocks; i++) {
        struct scratch_block b = s->blocks[i];
        if (b.size <= keep) {
            keep -= b.size;
            b.used = 0;
            s->blocks[kept++] = b;
        } else {
            hsac_free(s->device->agent, b.base);
        }
    }
    s->n_blocks = kept;
}

static char * scratch_try(struct hsa_stream * s, size_t size) {
    for (int i = 0; i < s->n_blocks; i++) {
        struct scratch_block * b = &s->blocks[i];
        if (b->size - b->used >= size) {
            b->used += size;
            return b->base + b->used - size;
        }
    }
    if (s->n_blocks == SCRATCH_BLOCKS) {
        return NULL;
    }
    size_t block = size > SCRATCH_BLOCK_SIZE ? size : SCRATCH_BLOCK_SIZE;
    char * base = hsac_alloc(s->device->agent, HSAC_POOL_DATA, block);
    if (base) {
        s->blocks[s->n_blocks++] =
            (struct scratch_block){.base = base, .size = block, .used = size};
    }
    return base;
}

// Room for all operands of one node that need it. Taken at once, because making room may wait and
// then gives back everything that was handed out before.
static enum status scratch_take(struct hsa_stream * s, size_t size, char ** out,
                                struct error * err) {
    size = GGML_PAD(size, BUFFER_ALIGNMENT);
    *out = scratch_try(s, size);
    if (!*out) {
        enum status st = stream_wait(s, err);
        if (st != ST_OK) {
            return st;
        }
        scratch_reset(s, 0);
        *out = scratch_try(s, size);
    }
    return *out ? ST_OK : error_set(err, ST_NO_MEMORY, "no scratch memory for %zu bytes", size);
}

// ---- nodes ----

static enum status dispatch(struct hsa_stream * s, const struct kernel_spec * spec,
                            char * const addr[PLAN_OPERANDS], struct error * err) {
    struct hsa_device * device = s->device;
    struct store_kernel * kernel;
    enum status st = store_get(device->store, spec, &kernel, err);
    if (st == ST_OK && s->n_pins == MAX_IN_FLIGHT) {
        st = stream_wait(s, err);
    }
    if (st != ST_OK) {
        return st;
    }
    struct hsac_dispatch d = {.n_operands = spec->n_inputs + 1};
    for (int i = 0; i < d.n_operands; i++) {
        const struct tensor * t = i < spec->n_inputs ? &spec->inputs[i] : &spec->output;
        // The place of an absent input is never looked at, but must be a place.
        bool absent = tensor_elements(t) == 0;
        d.operands[i].addr = addr[absent ? 0 : i];
        d.operands[i].size = absent ? DMA_WORD : GGML_PAD((uint64_t) tensor_bytes(t), DMA_WORD);
    }
    struct code_stream * pin;
    st = code_acquire(&device->code, kernel, s->n_pins > 0, &d, &pin, err);
    if (st == ST_NO_MEMORY && s->n_pins > 0) {
        st = stream_wait(s, err);
        if (st == ST_OK) {
            st = code_acquire(&device->code, kernel, false, &d, &pin, err);
        }
    }
    if (st != ST_OK) {
        return st;
    }
    s->pins[s->n_pins++] = pin;
    atomic_fetch_add(&device->dispatches, 1);
    return hsac_queue_dispatch(s->queue, &d, err);
}

// Gives operands that the kernel cannot take as they are a place in scratch, and fills the inputs.
static enum status stage_operands(struct hsa_stream * s, struct plan * p, struct error * err) {
    size_t bytes = 0;
    int staged = 0, staged_inputs = 0;
    for (int i = 0; i < p->n_operands; i++) {
        if (p->operands[i].staged) {
            bytes += GGML_PAD(host_view_bytes(&p->operands[i].kernel), BUFFER_ALIGNMENT);
            staged++;
            staged_inputs += i < p->n_operands - 1;
        }
    }
    if (!staged) {
        return ST_OK;
    }
    char * room;
    enum status st = scratch_take(s, bytes, &room, err);
    if (st == ST_OK && staged_inputs) {
        st = stream_wait(s, err); // the inputs may be results that are still on their way
    }
    atomic_fetch_add(&s->device->staged_operands, (uint64_t) staged);
    for (int i = 0; i < p->n_operands && st == ST_OK; i++) {
        struct plan_operand * o = &p->operands[i];
        if (!o->staged) {
            continue;
        }
        o->kernel.data = room;
        room += GGML_PAD(host_view_bytes(&o->kernel), BUFFER_ALIGNMENT);
        if (i < p->n_operands - 1) {
            st = host_expand(&o->tensor, &o->kernel, err);
        }
    }
    return st;
}

static enum status compute_kernels(struct hsa_stream * s, struct ggml_tensor * node,
                                   struct error * err) {
    struct plan p;
    enum status st = plan_node(s->device->store, s->device->arch, node, &p, err);
    if (st != ST_OK || p.n == 0) {
        return st;
    }
    st = stage_operands(s, &p, err);
    for (int64_t done = 0; st == ST_OK && done < p.n; done += p.chunk) {
        char * at[PLAN_OPERANDS];
        for (int i = 0; i < p.n_operands; i++) {
            const struct plan_operand * o = &p.operands[i];
            at[i] = o->kernel.data ? o->kernel.data + (size_t) done * o->step : NULL; // absent
        }
        st = dispatch(s, p.n - done < p.chunk ? &p.rest : &p.spec, at, err);
    }
    const struct plan_operand * result = &p.operands[p.n_operands - 1];
    if (st == ST_OK && result->staged) {
        st = stream_wait(s, err);
        if (st == ST_OK) {
            st = host_copy(&result->kernel, &result->tensor, err);
        }
    }
    return st;
}

static enum status compute_node(struct hsa_stream * s, struct ggml_tensor * node,
                                struct error * err) {
    if (!host_computes(node)) {
        return compute_kernels(s, node, err);
    }
    enum status st = stream_wait(s, err);
    atomic_fetch_add(&s->device->host_copies, 1);
    return st == ST_OK ? host_compute(node, err) : st;
}

// A kernel that was promised may still fail to be made (an external compiler, a broken pack): found
// out here, before anything was written. What was made stays in the store.
static bool has_kernels(struct hsa_stream * s, const struct ggml_tensor * node) {
    struct store * store = s->device->store;
    struct store_kernel * kernel;
    struct plan p;
    struct error err = {0};
    if (host_computes(node)) {
        return true;
    }
    if (plan_node(store, s->device->arch, node, &p, NULL) != ST_OK) {
        return false;
    }
    enum status st = p.n == 0 ? ST_OK : store_get(store, &p.spec, &kernel, &err);
    if (st == ST_OK && p.n && p.n % p.chunk) {
        st = store_get(store, &p.rest, &kernel, &err);
    }
    if (st != ST_OK) {
        log_warn("%s: %s \"%s\" is computed on the CPU: %s", s->device->name, op_label(node),
                 node->name, err.text);
    }
    return st == ST_OK;
}

// Nodes in a row that the CPU computes are collected, and run before a node of ours or the end.
static enum status compute_or_fall_back(struct hsa_stream * s, struct ggml_tensor * node,
                                        struct error * err) {
    if (has_kernels(s, node)) {
        enum status st = fallback_run(&s->fallback, err);
        return st == ST_OK ? compute_node(s, node, err) : st;
    }
    enum status st = stream_wait(s, err); // its inputs may be results that are still on their way
    atomic_fetch_add(&s->device->cpu_nodes, 1);
    return st == ST_OK ? fallback_add(&s->fallback, node, err) : st;
}

static enum ggml_status stream_graph_compute(ggml_backend_t backend, struct ggml_cgraph * graph) {
    struct hsa_stream * s = stream_of(backend);
    struct error err = {0}, late = {0};
    enum status st = ST_OK;
    int n = ggml_graph_n_nodes(graph);
    for (int i = 0; i < n && st == ST_OK; i++) {
        struct ggml_tensor * node = ggml_graph_node(graph, i);
        if (ggml_is_empty(node) || op_is_view(node->op) ||
            !(node->flags & GGML_TENSOR_FLAG_COMPUTE)) {
            continue;
        }
        st =
            s->device->fallback ? compute_or_fall_back(s, node, &err) : compute_node(s, node, &err);
        if (st != ST_OK) {
            log_error("%s: node %d of %d, %s \"%s\": %s", s->device->name, i, n, op_label(node),
                      node->name, err.text);
        }
    }
    // Also after a failure: what was collected must not wait for the next graph.
    if (fallback_run(&s->fallback, &late) != ST_OK && st == ST_OK) {
        st = late.status;
        log_error("%s: %s", s->device->name, late.text);
    }
    // Likewise: nothing may still be running on memory that ggml will reuse.
    if (stream_wait(s, &late) != ST_OK && st == ST_OK) {
        st = late.status;
        log_error("%s: %s", s->device->name, late.text);
    }
    scratch_reset(s, SCRATCH_KEEP_SIZE);
    return st == ST_OK          ? GGML_STATUS_SUCCESS
           : st == ST_NO_MEMORY ? GGML_STATUS_ALLOC_FAILED
                                : GGML_STATUS_FAILED;
}

// ---- the rest of ggml's table ----

static const char * stream_get_name(ggml_backend_t backend) {
    return stream_of(backend)->device->name;
}

static void stream_free(ggml_backend_t backend) {
    struct hsa_stream * s = stream_of(backend);
    fallback_free(&s->fallback);
    scratch_reset(s, 0);
    hsac_queue_free(s->queue);
    free(s);
}

// Between two graphs nothing is in flight, so that these copies are in order without waiting.
static void stream_set_tensor_async(ggml_backend_t backend, struct ggml_tensor * tensor,
                                    const void * data, size_t offset, size_t size) {
    (void) backend;
    memcpy((char *) tensor->data + offset, data, size);
}

static void stream_get_tensor_async(ggml_backend_t backend, const struct ggml_tensor * tensor,
                                    void * data, size_t offset, size_t size) {
    (void) backend;
    memcpy(data, (const char *) tensor->data + offset, size);
}

static void stream_synchronize(ggml_backend_t backend) {
    struct hsa_stream * s = stream_of(backend);
    struct error err = {0};
    if (stream_wait(s, &err) != ST_OK) {
        log_error("%s: %s", s->device->name, err.text);
    }
}

// An event is recorded when everything before it is complete, so that who waits for it never waits.
static void stream_event_record(ggml_backend_t backend, ggml_backend_event_t event) {
    (void) event;
    stream_synchronize(backend);
}

static void stream_event_wait(ggml_backend_t backend, ggml_backend_event_t event) {
    (void) backend;
    (void) event;
}

ggml_backend_event_t event_new(ggml_backend_dev_t dev) {
    ggml_backend_event_t event = calloc(1, sizeof *event);
    if (event) {
        event->device = dev;
    }
    return event;
}

void event_free(ggml_backend_dev_t dev, ggml_backend_event_t event) {
    (void) dev;
    free(event);
}

void event_synchronize(ggml_backend_dev_t dev, ggml_backend_event_t event) {
    (void) dev;
    (void) event;
}

static const struct ggml_backend_i stream_iface = {
    /* .get_name            = */ stream_get_name,
    /* .free                = */ stream_free,
    /* .set_tensor_async    = */ stream_set_tensor_async,
    /* .get_tensor_async    = */ stream_get_tensor_async,
    /* .set_tensor_2d_async = */ NULL,
    /* .get_tensor_2d_async = */ NULL,
    /* .cpy_tensor_async    = */ NULL,
    /* .synchronize         = */ stream_synchronize,
    /* .graph_plan_create   = */ NULL,
    /* .graph_plan_free     = */ NULL,
    /* .graph_plan_update   = */ NULL,
    /* .graph_plan_compute  = */ NULL,
    /* .graph_compute       = */ stream_graph_compute,
    /* .event_record        = */ stream_event_record,
    /* .event_wait          = */ stream_event_wait,
    /* .graph_optimize      = */ NULL,
};

static ggml_guid stream_guid = {0x6b, 0x1d, 0x9e, 0x52, 0x0c, 0x47, 0x4f, 0xa3,
                                0x88, 0x21, 0xd4, 0x7e, 0x35, 0xb9, 0x60, 0xf1};

ggml_backend_t stream_new(struct hsa_device * device) {
    struct error err = {0};
    struct hsa_stream * s = calloc(1, sizeof *s);
    if (!s) {
        log_error("%s: no memory for a stream", device->name);
        return NULL;
    }
    if (hsac_queue_new(device->agent, &s->queue, &err) != ST_OK) {
        log_error("%s: no queue: %s", device->name, err.text);
        free(s);
        return NULL;
    }
    s->device = device;
    s->base = (struct ggml_backend){
        .guid = &stream_guid, .iface = stream_iface, .device = &device->base, .context = s};
    return &s->base;
}

bool ggml_backend_is_hsa(ggml_backend_t backend) {
    return backend && backend->iface.graph_compute == stream_graph_compute;
}
