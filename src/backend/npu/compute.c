// compute: one node of a graph on a stream of a NPU. Tensors are moved about (moves.h), products go
// their own way (mat.h), everything else is kernels with operands as plan.c lays them out; the
// table of ways has a row for each. Kernels are sent without waiting; the host waits only where it
// must touch what they read or write.
#include "moves.h"
#include "panels.h"
#include "steps.h"
#include "touch.h"

#include <stdlib.h>
#include <string.h>

// ---- nodes that are kernels ----

static enum status expand_by_host(struct hsa_stream * s, const struct plan_operand * o,
                                  struct error * err) {
    struct hsac_agent * agent = s->device->agent;
    touch_begin(agent, &o->tensor);
    touch_begin(agent, &o->kernel);
    enum status st = host_expand(&o->tensor, &o->kernel, err);
    touch_end(agent, &o->kernel);
    return st;
}

enum status npu_copy_by_host(struct hsa_stream * s, const struct view * from,
                             const struct view * to, struct error * err) {
    struct hsac_agent * agent = s->device->agent;
    touch_begin(agent, from);
    touch_begin(agent, to);
    enum status st = host_copy(from, to, err);
    touch_end(agent, to);
    return st;
}

// Gives operands that the kernel cannot take as they are a place in scratch, and fills the inputs.
static enum status stage_operands(struct hsa_stream * s, struct plan * p, struct error * err) {
    size_t bytes = 0;
    int staged = 0, by_host = 0;
    bool moves[PLAN_OPERANDS] = {false};
    for (int i = 0; i < p->n_operands; i++) {
        struct plan_operand * o = &p->operands[i];
        if (o->staged) {
            bytes += GGML_PAD(view_bytes(&o->kernel), BUFFER_ALIGNMENT);
            staged++;
            moves[i] = moves_can(s->device->npu, &o->tensor, &o->kernel);
            by_host += i < p->n_operands - 1 && !moves[i];
        }
    }
    if (!staged) {
        return ST_OK;
    }
    char * room;
    enum status st = stream_scratch(s, bytes, &room, err);
    if (st == ST_OK && by_host) {
        st = stream_wait(s, err); // the inputs may be results that are still on their way
    }
    atomic_fetch_add(&s->device->staged_operands, (uint64_t) staged);
    for (int i = 0; i < p->n_operands && st == ST_OK; i++) {
        struct plan_operand * o = &p->operands[i];
        if (!o->staged) {
            continue;
        }
        o->kernel.data = room;
        room += GGML_PAD(view_bytes(&o->kernel), BUFFER_ALIGNMENT);
        if (i < p->n_operands - 1) {
            st = moves[i] ? moves_send(s, &o->tensor, &o->kernel, err) : expand_by_host(s, o, err);
        }
    }
    return st;
}

static enum status kernels_run(struct hsa_stream * s, struct ggml_tensor * node,
                               struct error * err) {
    struct plan p;
    enum status st = plan_node(s->device->npu->store, s->device->npu->arch, node, &p, err);
    if (st != ST_OK || p.n == 0) {
        return st;
    }
    task_place(s, &p);
    // A kernel that cannot be made must fail before another one wrote to what it reads.
    struct store_kernel * kernel;
    if (p.n > p.chunk && p.n % p.chunk) {
        st = store_get(s->device->npu->store, &p.rest, &kernel, err);
        if (st == ST_OK) {
            store_put(s->device->npu->store, kernel); // it can be made again
        }
    }
    st = st == ST_OK ? stage_operands(s, &p, err) : st;
    for (int64_t done = 0; st == ST_OK && done < p.n; done += p.chunk) {
        char * at[PLAN_OPERANDS];
        for (int i = 0; i < p.n_operands; i++) {
            const struct plan_operand * o = &p.operands[i];
            at[i] = o->kernel.data ? o->kernel.data + (size_t) done * o->step : NULL; // absent
        }
        st = npu_dispatch(s, p.n - done < p.chunk ? &p.rest : &p.spec, at, err);
    }
    const struct plan_operand * result = &p.operands[p.n_operands - 1];
    if (st == ST_OK && result->staged &&
        moves_can(s->device->npu, &result->kernel, &result->tensor)) {
        st = moves_send(s, &result->kernel, &result->tensor, err);
    } else if (st == ST_OK && result->staged) {
        st = stream_wait(s, err);
        if (st == ST_OK) {
            st = npu_copy_by_host(s, &result->kernel, &result->tensor, err);
        }
    }
    return st;
}

// ---- the ways that a node may go ----

static bool is_host(const struct ggml_tensor * node) {
    return op_is_view(node->op) || host_has(node->op);
}

static enum status host_check(struct hsa_device * device, const struct ggml_tensor * node,
                              struct error * err) {
    (void) device;
    return op_is_view(node->op) ? ST_OK : host_check_node(node, err);
}

static void host_ways(struct hsa_device * device, const struct ggml_tensor * node, bool shares,
                      struct route_stop * out) {
    (void) shares;
    moves_ways(device->npu, node, out);
}

static enum status host_run(struct hsa_stream * s, struct ggml_tensor * node, struct error * err) {
    bool done;
    enum status st = moves_node(s, node, &done, err);
    if (st != ST_OK || done) {
        return st;
    }
    st = stream_wait(s, err);
    atomic_fetch_add(&s->device->host_copies, 1);
    if (st == ST_OK && !op_is_view(node->op)) {
        touch_node_begin(s->device->agent, node);
        st = host_compute(node, err);
        touch_node_end(s->device->agent, node);
    }
    return st;
}

static bool is_product(const struct ggml_tensor * node) {
    return mat_is_product(node->op);
}

static enum status product_check(struct hsa_device * device, const struct ggml_tensor * node,
                                 struct error * err) {
    struct mat_plan plan;
    return mat_plan_node(mat_world_of(device), node, &plan, err);
}

static void product_ways(struct hsa_device * device, const struct ggml_tensor * node, bool shares,
                         struct route_stop * out) {
    struct mat_world w = mat_world_of(device);
    if (node->src[0]) {
        struct view weights = view_of(node->src[0]);
        w.panel = panels_of(buffer_panels(node->src[0]), &weights);
    }
    w.shares_b = shares;
    mat_ways(w, node, out);
}

static enum status product_run(struct hsa_stream * s, struct ggml_tensor * node,
                               struct error * err) {
    return mat_compute(s, node, err);
}

static bool is_experts(const struct ggml_tensor * node) {
    return node->op == GGML_OP_MUL_MAT_ID;
}

static enum status experts_check(struct hsa_device * device, const struct ggml_tensor * node,
                                 struct error * err) {
    struct mat_world w = mat_world_of(device);
    return expert_check(&w, node, err);
}

static void experts_ways(struct hsa_device * device, const struct ggml_tensor * node, bool shares,
                         struct route_stop * out) {
    (void) shares;
    expert_ways(mat_world_of(device), node, out);
}

static enum status experts_run(struct hsa_stream * s, struct ggml_tensor * node,
                               struct error * err) {
    return expert_compute(s, node, err);
}

static bool is_any(const struct ggml_tensor * node) {
    (void) node;
    return true;
}

static enum status kernels_check(struct hsa_device * device, const struct ggml_tensor * node,
                                 struct error * err) {
    struct plan plan;
    return plan_node(device->npu->store, device->npu->arch, node, &plan, err);
}

static void kernels_ways(struct hsa_device * device, const struct ggml_tensor * node, bool shares,
                         struct route_stop * out) {
    struct plan plan;
    (void) shares;
    if (plan_node(device->npu->store, device->npu->arch, node, &plan, NULL) == ST_OK && plan.n) {
        task_ways(device->npu, &plan, out);
    }
}

// A node goes the first way whose `is` accepts it.
static const struct way {
    bool (*is)(const struct ggml_tensor * node);
    enum status (*check)(struct hsa_device * device, const struct ggml_tensor * node,
                         struct error * err);
    enum status (*run)(struct hsa_stream * s, struct ggml_tensor * node, struct error * err);
    // Where it can be computed, for the route of its graph; NULL: nobody knows.
    void (*ways)(struct hsa_device * device, const struct ggml_tensor * node, bool shares,
                 struct route_stop * out);
    bool by_data; // what is sent depends on numbers in the tensors
} ways[] = {
    {.is = is_host, .check = host_check, .run = host_run, .ways = host_ways},
    {.is = is_product, .check = product_check, .run = product_run, .ways = product_ways},
    {.is = is_experts,
     .check = experts_check,
     .run = experts_run,
     .ways = experts_ways,
     .by_data = true},
    {.is = rope_is, .check = rope_check, .run = rope_run, .ways = rope_ways},
    {.is = attention_is, .check = attention_check, .run = attention_run, .ways = attention_ways},
    {.is = add_id_is, .check = add_id_check, .run = add_id_run, .by_data = true},
    {.is = top_k_is, .check = top_k_check, .run = top_k_run},
    {.is = steps_is, .check = steps_check, .run = steps_run},
    {.is = is_any, .check = kernels_check, .run = kernels_run, .ways = kernels_ways},
};

static const struct way * way_of(const struct ggml_tensor * node) {
    const struct way * way = ways;
    while (!way->is(node)) {
        way++;
    }
    return way;
}

void npu_ways(struct hsa_device * device, const struct ggml_tensor * node, bool shares,
              struct route_stop * out) {
    const struct way * way = way_of(node);
    if (way->ways) {
        way->ways(device, node, shares, out);
    }
}

// ---- every node ----

static bool computes(struct hsa_device * device, const struct ggml_tensor * op,
                     struct error * why) {
    struct store * store = device->npu->store;
    const struct way * way = way_of(op);
    if (store_has_compiler(store)) {
        return way->check(device, op, why) == ST_OK;
    }
    // Where only packs have kernels, a node that they lack must not go to the CPU without a
    // message.
    struct error own;
    why = why ? why : &own;
    struct store_stats before, after;
    store_get_stats(store, &before);
    if (way->check(device, op, why) == ST_OK) {
        return true;
    }
    store_get_stats(store, &after);
    if (after.absent > before.absent && !atomic_exchange(&device->told_absent[op->op], true)) {
        log_warn("%s: %s is left to the CPU: %s", device->name, op_label(op), why->text);
    }
    return false;
}

static bool has(enum ggml_op op) {
    struct ggml_tensor node = {.op = op};
    return way_of(&node)->is != is_any || op == GGML_OP_UNARY || op == GGML_OP_GLU ||
           op_kernel(op) != KERNEL_OP_COUNT;
}

static enum status compute(struct hsa_stream * s, struct ggml_tensor * node, struct error * err) {
    bool done;
    struct panels_node room;
    node = (struct ggml_tensor *) (uintptr_t) panels_restride(node, &room);
    s->npu->place = route_of(s->npu->route, s->node);
    if (small_is_hosts(s, node)) {
        return small_run(s, node, err);
    }
    enum status st = kept_node(s, node, &done, err);
    if (done || st != ST_OK) {
        return st;
    }
    const struct way * way = way_of(node);
    if (way->by_data) {
        kept_void(s->npu->kept);
    }
    st = way->run(s, node, err);
    kept_end(s, st == ST_OK);
    return st;
}

// Products of one tensor. Of many rows they have a configuration of the array for themselves, and
// loading it takes as long as a small one; the rows are packed once. Of few rows some may be a pair
// (pair.c), and small kernels between them come one behind the other then, where those that are
// independent run beside each other (join.c).
static bool together(const struct ggml_tensor * node, const struct ggml_tensor * other) {
    return node->op == GGML_OP_MUL_MAT && other->op == GGML_OP_MUL_MAT &&
           node->src[1] == other->src[1];
}

static void scratch_reset(struct hsa_stream * s) {
    memset(s->npu->recent, 0, sizeof s->npu->recent);
    memset(s->npu->ropes, 0, sizeof s->npu->ropes);
    steps_room_reset(s);
    s->npu->on_decoder = false; // at the end of a graph, or where one wants more than there is
}

const struct device_kind npu_kind = {
    .computes = computes,
    .has = has,
    .compute = compute,
    .together = together,
    .fuse = fuse_nodes,
    .longest = fuse_longest,
    .pair = pair_products,
    .begin = npu_stream_begin,
    .route = route_begin,
    .end = npu_stream_end,
    .flush = npu_stream_flush,
    .settled = npu_stream_settled,
    .scratch_reset = scratch_reset,
    .written = npu_written,
};

// ---- the device ----

static void warn_of_store(const char * text) {
    log_warn("%s", text);
}

enum status npu_new(struct hsac_agent * agent, struct npu ** out, struct error * err) {
    struct npu * npu = calloc(1, sizeof *npu);
    *out = NULL;
    if (!npu) {
        return error_set(err, ST_NO_MEMORY, "no memory for a NPU");
    }
    enum status st = ST_OK;
    if (!kernel_arch_parse(hsac_agent_name(agent), &npu->arch)) {
        st = error_set(err, ST_UNSUPPORTED, "agent %s (%s): no kernels are known for it",
                       hsac_agent_name(agent), hsac_agent_product(agent));
    }
    if (st == ST_OK) {
        st = hsac_agent_check(agent, err);
    }
    if (st == ST_OK) {
        st = store_new(&npu->store, err);
    }
    if (st != ST_OK) {
        free(npu);
        return st;
    }
    store_set_log(npu->store, warn_of_store);
    int columns = hsac_agent_columns(agent), all = aie_target(npu->arch)->columns;
    store_set_columns(npu->store, columns < all ? columns : 0);
    store_check_packs(npu->store, npu->arch);
    code_heap_init(&npu->code, agent, npu->arch);
    store_set_uploads(npu->store,
                      &(struct store_uploads){&npu->code, code_forget_kernel, code_forget_pdi});
    *out = npu;
    return ST_OK;
}
