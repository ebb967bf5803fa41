// stream: one queue of a device, as a ggml backend instance. A graph is walked once: kernels are
// sent ahead without waiting, the host waits only where it must touch their results, and at the
// end, so that a fault is the status of the graph that had it. Scratch memory and code that a
// dispatch may still use are given back after a wait and never before.
//
// A stream is used by one thread at a time; nothing here is locked. In a forked child (hsa/fork.c)
// nothing is computed, and nothing is given back.
#include "backend/stream.h"

#include "backend/npu/panels.h"
#include "backend/inplace.h"
#include "backend/order.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Scratch is bump-allocated from a few blocks, each as large as those before it together. Beyond
// the limit what is in flight is waited for; a node that needs more than that gets it still. Blocks
// up to the size that is kept serve the next graph.
#define SCRATCH_BLOCK_SIZE ((size_t) 1 << 20)
#define SCRATCH_MOST       ((size_t) 256 << 20)
#define SCRATCH_KEEP_SIZE  ((size_t) 64 << 20)

static struct hsa_stream * stream_of(ggml_backend_t backend) {
    return (struct hsa_stream *) backend;
}

// ---- waiting and scratch ----

enum status stream_wait(struct hsa_stream * s, struct error * err) {
    // With nothing to wait for, another stream that drains the shared queue is not waited for
    // either.
    bool kept_back = s->in_flight && s->device->kind->flush;
    enum status st = kept_back ? s->device->kind->flush(s, err) : ST_OK;
    struct error * also = st == ST_OK ? err : NULL;
    enum status waited = s->in_flight ? hsac_queue_wait(s->queue, also) : ST_OK;
    st = st == ST_OK ? waited : st;
    atomic_fetch_add(&s->device->waits, s->in_flight);
    s->in_flight = false;
    if (s->device->kind->settled) {
        s->device->kind->settled(s);
    }
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
    s->n_resets++;
    if (s->device->kind->scratch_reset) {
        s->device->kind->scratch_reset(s);
    }
}

static char * scratch_try(struct hsa_stream * s, size_t size) {
    size_t total = 0;
    for (int i = 0; i < s->n_blocks; i++) {
        struct scratch_block * b = &s->blocks[i];
        if (b->size - b->used >= size) {
            b->used += size;
            return b->base + b->used - size;
        }
        total += b->size;
    }
    size_t left = total < SCRATCH_MOST ? SCRATCH_MOST - total : 0;
    if (s->n_blocks == SCRATCH_BLOCKS || (total > 0 && size > left)) {
        return NULL;
    }
    size_t block = total > SCRATCH_BLOCK_SIZE ? total : SCRATCH_BLOCK_SIZE;
    block = block < left ? block : left;
    block = block > size ? block : size;
    char * base = hsac_alloc(s->device->agent, HSAC_POOL_DATA, block);
    if (base) {
        s->blocks[s->n_blocks++] =
            (struct scratch_block){.base = base, .size = block, .used = size};
    }
    return base;
}

enum status stream_scratch(struct hsa_stream * s, size_t size, char ** out, struct error * err) {
    size = GGML_PAD(size, BUFFER_ALIGNMENT);
    *out = scratch_try(s, size);
    // Then with what is in flight complete: in the blocks that are there, and at last without them.
    for (int again = 0; again < 2 && !*out; again++) {
        enum status st = stream_wait(s, err);
        if (st != ST_OK) {
            return st;
        }
        scratch_reset(s, again ? 0 : SCRATCH_KEEP_SIZE);
        *out = scratch_try(s, size);
    }
    return *out ? ST_OK : error_set(err, ST_NO_MEMORY, "no scratch memory for %zu bytes", size);
}

// ---- graphs ----

// Is what the node reads still as it was when `sent` kernels had been sent?
static bool is_untouched(const struct hsa_stream * s, uint64_t sent,
                         const struct ggml_tensor * node) {
    const char *begin = node->data, *end = begin + ggml_nbytes(node);
    bool apart = true;
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        const struct ggml_tensor * src = node->src[i];
        const char * data = src ? src->data : NULL;
        apart = apart && !(data && data < end && begin < data + ggml_nbytes(src));
    }
    return s->sent == sent || apart;
}

static void tell(struct hsa_stream * s, const struct ggml_tensor * node, const struct error * why) {
    if (atomic_exchange(&s->device->told[node->op], true)) {
        return;
    }
    bool expected = s->device->fallback == FALLBACK_PROMISED && why->status == ST_UNSUPPORTED;
    (expected ? log_info : log_warn)("%s: %s is computed on the CPU: %s", s->device->name,
                                     op_label(node), why->text);
}

// Nodes in a row that the CPU computes are collected, and run before a node of ours or the end.
static enum status compute_node(struct hsa_stream * s, struct ggml_tensor * node,
                                struct error * err) {
    const struct device_kind * kind = s->device->kind;
    struct error why = {.status = ST_UNSUPPORTED};
    s->node = node;
    // Behind nodes of the CPU it is asked for first whether it is one too; else trying tells.
    if (!fallback_waits(&s->fallback) || kind->computes(s->device, node, NULL)) {
        enum status st = fallback_run(&s->fallback, err);
        if (st != ST_OK) {
            return st;
        }
        uint64_t sent = s->sent;
        why.status = kind->compute(s, node, &why);
        // Data that is not as it must be (ST_INVALID) would end the process on the CPU.
        bool no_kernel = why.status != ST_OK && why.status != ST_INVALID &&
                         why.status != ST_DEVICE && why.status != ST_NO_MEMORY;
        if (!no_kernel || s->device->fallback == FALLBACK_NEVER || !is_untouched(s, sent, node)) {
            if (err) {
                *err = why;
            }
            return why.status;
        }
        tell(s, node, &why);
    }
    if (explain_asked()) {
        if (!why.text[0]) {
            kind->computes(s->device, node, &why);
        }
        explain_refusal(s->device, node, true, &why);
    }
    enum status st = stream_wait(s, err); // its inputs may be results that are still on their way
    st = st == ST_OK ? panels_by_cpu(s, node, err) : st;
    if (st == ST_OK) {
        st = fallback_add(&s->fallback, node, err);
        atomic_fetch_add(&s->device->cpu_nodes, st == ST_OK);
    }
    return st == ST_OK || !why.text[0] ? st : error_prefix(err, st, "%s", why.text);
}

// By the wall there is no telling nodes apart that are in flight together: each is waited for.
static enum status profile_compute(struct hsa_stream * s, struct ggml_tensor * node,
                                   struct error * err) {
    struct profile * p = s->device->profile;
    s->row = profile_node(p, node);
    if (!profile_is_measured(p)) {
        return compute_node(s, node, err);
    }
    uint64_t start = profile_now();
    enum status st = compute_node(s, node, err);
    if (st == ST_OK) {
        st = fallback_run(&s->fallback, err);
    }
    if (st == ST_OK) {
        st = stream_wait(s, err);
    }
    profile_measured(p, s->row, profile_now() - start);
    return st;
}

static void note_writes(struct hsa_stream * s, const struct ggml_tensor * node) {
    const struct ggml_tensor * written[OP_MAX_WRITES];
    int n = op_writes(node, written);
    for (int i = 0; i < n; i++) {
        buffer_written(written[i], 0, ggml_nbytes(written[i]));
        if (s->device->kind->written) {
            s->device->kind->written(s, written[i]->data, ggml_nbytes(written[i]));
        }
    }
}

// Nodes as one, as many as the device has a kernel for that can be made. By op there is nothing to
// be told of several. What waits for the CPU may be what they read.
static bool compute_fused(struct hsa_stream * s, struct order * order, int index) {
    const struct device_kind * kind = s->device->kind;
    if (!kind->fuse || (s->device->profile && !profile_is_each(s->device->profile)) ||
        fallback_waits(&s->fallback)) {
        return false;
    }
    const struct ggml_tensor * first = ggml_graph_node(order->graph, index);
    const struct order_run run =
        order_run(order, index, kind->longest ? kind->longest(first) : ORDER_RUN);
    struct ggml_tensor as_one;
    for (int n = run.n; n > 1; n--) {
        s->node = run.nodes[0];
        if (kind->fuse(run.nodes, n, &as_one) && order_may_join(order, &run, n) &&
            kind->compute(s, &as_one, NULL) == ST_OK) {
            for (int i = 0; i < n; i++) {
                note_writes(s, run.nodes[i]);
                order_had(order, run.at[i]);
            }
            return true;
        }
    }
    return false;
}

// A node and the one that follows it in the device's order, at once. By op there is nothing to be
// told of two, as above.
static bool compute_pair(struct hsa_stream * s, const struct ggml_tensor * node,
                         struct order * order) {
    const struct device_kind * kind = s->device->kind;
    struct order then = *order;
    int index;
    if (!kind->pair || !kind->together(node, node) || fallback_waits(&s->fallback) ||
        (s->device->profile && !profile_is_each(s->device->profile))) {
        return false;
    }
    const struct ggml_tensor * next = order_next(&then, &index);
    s->node = node;
    if (!next || !kind->together(node, next) || !kind->pair(s, node, next)) {
        return false;
    }
    note_writes(s, node);
    note_writes(s, next);
    *order = then;
    return true;
}

// Are the tensors of the graph what the program wrote? It was not told where that failed.
static enum status check_bytes(struct hsa_stream * s, struct ggml_cgraph * graph,
                               struct error * err) {
    struct hsac_agent * agent = s->device->agent;
    enum status st = ST_OK;
    for (int i = 0; i < ggml_graph_n_nodes(graph) && hsac_agent_has_lost(agent) && st == ST_OK;
         i++) {
        const struct ggml_tensor *node = ggml_graph_node(graph, i), *of = node;
        for (int k = 0; k < GGML_MAX_SRC && st == ST_OK; k++) {
            of = node->src[k] ? node->src[k] : of;
            st = node->src[k] ? hsac_agent_may_use(agent, of->data, ggml_nbytes(of), false, err)
                              : ST_OK;
        }
        if (st == ST_OK) {
            of = node;
            st = hsac_agent_may_use(agent, node->data, ggml_nbytes(node), true, err);
        }
        if (st != ST_OK) {
            error_prefix(err, st, "tensor \"%s\"", of->name);
        } else if (!node->view_src && !op_is_view(node->op) && ggml_is_contiguous(node)) {
            hsac_agent_written(agent, node->data, ggml_nbytes(node));
        }
    }
    return st;
}

static enum ggml_status stream_graph_compute(ggml_backend_t backend, struct ggml_cgraph * graph) {
    struct hsa_stream * s = stream_of(backend);
    struct error err = {0}, late = {0};
    enum status st = hsac_check_fork(s->device->agent, &err);
    st = st == ST_OK ? check_bytes(s, graph, &err) : st;
    if (st != ST_OK) {
        log_error("%s: %s", s->device->name, err.text);
        return GGML_STATUS_FAILED;
    }
    atomic_fetch_add(&s->device->graphs, 1);
    pthread_rwlock_rdlock(&s->device->layout);
    st = panels_begin(s, graph, &err);
    if (st != ST_OK) {
        log_error("%s: %s", s->device->name, err.text);
    }
    struct inplace in_place = {0};
    if (st == ST_OK && s->device->kind->route) {
        inplace_begin(&in_place, graph);
        s->device->kind->route(s, graph);
    }
    struct order order = order_of(graph, s->device->kind);
    struct ggml_tensor * node;
    int n = order.n, i = 0;
    while (st == ST_OK && (node = order_next(&order, &i)) != NULL) {
        if (compute_fused(s, &order, i)) {
            continue;
        }
        if (compute_pair(s, node, &order)) {
            continue;
        }
        st = s->device->profile ? profile_compute(s, node, &err) : compute_node(s, node, &err);
        // What was made of the bytes that it writes to is out of date from now on.
        note_writes(s, node);
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
    s->node = NULL;
    inplace_end(&in_place);
    scratch_reset(s, SCRATCH_KEEP_SIZE);
    pthread_rwlock_unlock(&s->device->layout);
    return st == ST_OK          ? GGML_STATUS_SUCCESS
           : st == ST_NO_MEMORY ? GGML_STATUS_ALLOC_FAILED
                                : GGML_STATUS_FAILED;
}

// ---- the rest of ggml's table ----

static const char * stream_get_name(ggml_backend_t backend) {
    return stream_of(backend)->device->name;
}

// What the device did so far, when a stream of it ends.
static void log_counters(struct hsa_device * device) {
    struct ggml_backend_hsa_stats n;
    if (ggml_backend_hsa_get_stats(&device->base, &n)) {
        log_info("%s: %" PRIu64 " kernels sent, %" PRIu64 " compiled, %" PRIu64
                 " from packs, %" PRIu64 " on a pack's program, %" PRIu64 " nodes on the CPU",
                 device->name, n.dispatches, n.kernels_compiled, n.pack_hits, n.streams_made,
                 n.cpu_nodes);
    }
    if (n.driver_calls && n.graphs) {
        log_info("%s: %" PRIu64 " graphs, for each %.1f calls of the driver and %.1f KiB flushed; "
                 "%" PRIu64 " hardware contexts",
                 device->name, n.graphs, (double) n.driver_calls / (double) n.graphs,
                 (double) n.flushed_bytes / 1024 / (double) n.graphs, n.driver_contexts);
    }
}

static void stream_free(ggml_backend_t backend) {
    struct hsa_stream * s = stream_of(backend);
    if (hsac_check_fork(s->device->agent, NULL) != ST_OK) {
        return;
    }
    log_counters(s->device);
    for (int op = 0; op < GGML_OP_COUNT; op++) {
        atomic_store(&s->device->told_absent[op], false);
    }
    fallback_free(&s->fallback);
    scratch_reset(s, 0);
    hsac_queue_free(s->queue);
    if (s->device->kind->end) {
        s->device->kind->end(s);
    }
    profile_stream_ends(s->device->profile);
    free(s);
}

static void stream_synchronize(ggml_backend_t backend) {
    struct hsa_stream * s = stream_of(backend);
    struct error err = {0};
    if (hsac_check_fork(s->device->agent, NULL) == ST_OK && stream_wait(s, &err) != ST_OK) {
        log_error("%s: %s", s->device->name, err.text);
    }
}

static const struct ggml_backend_i stream_iface = {
    /* .get_name            = */ stream_get_name,
    /* .free                = */ stream_free,
    /* .set_tensor_async    = */ stream_set_tensor_async,
    /* .get_tensor_async    = */ stream_get_tensor_async,
    /* .set_tensor_2d_async = */ NULL,
    /* .get_tensor_2d_async = */ NULL,
    /* .cpy_tensor_async    = */ stream_cpy_tensor_async,
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
    if (hsac_check_fork(device->agent, &err) != ST_OK) {
        log_error("%s: no stream: %s", device->name, err.text);
        return NULL;
    }
    struct hsa_stream * s = calloc(1, sizeof *s);
    if (!s) {
        log_error("%s: no memory for a stream", device->name);
        return NULL;
    }
    s->device = device;
    if (device->kind->begin && device->kind->begin(s, &err) != ST_OK) {
        log_error("%s: no stream: %s", device->name, err.text);
        free(s);
        return NULL;
    }
    if (hsac_queue_new(device->agent, &s->queue, &err) != ST_OK) {
        log_error("%s: no queue: %s", device->name, err.text);
        if (device->kind->end) {
            device->kind->end(s);
        }
        free(s);
        return NULL;
    }
    profile_stream_begins(device->profile);
    s->base = (struct ggml_backend){
        .guid = &stream_guid, .iface = stream_iface, .device = &device->base, .context = s};
    return &s->base;
}

bool ggml_backend_is_hsa(ggml_backend_t backend) {
    return backend && backend->iface.graph_compute == stream_graph_compute;
}
