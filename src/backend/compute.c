// compute: one node of a graph on a stream of a NPU. The host moves tensors about, products go their own way
// (mat.h), everything else is kernels with operands as plan.c lays them out. Kernels are sent
// without waiting; the host waits only where it must touch what they read or write.
#include "stream.h"

// ---- nodes that are kernels ----

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
    enum status st = stream_scratch(s, bytes, &room, err);
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
        st = stream_dispatch(s, p.n - done < p.chunk ? &p.rest : &p.spec, at, err);
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

static enum status get_kernels(const struct hsa_device * device, const struct ggml_tensor * node,
                               struct error * err) {
    struct store_kernel * kernel;
    struct plan p;
    enum status st = plan_node(device->store, device->arch, node, &p, err);
    if (st == ST_OK && p.n) {
        st = store_get(device->store, &p.spec, &kernel, err);
    }
    if (st == ST_OK && p.n && p.n % p.chunk) {
        st = store_get(device->store, &p.rest, &kernel, err);
    }
    return st;
}

// ---- every node ----

static bool computes(struct hsa_device * device, const struct ggml_tensor * op) {
    struct mat_world w = mat_world_of(device);
    struct mat_plan product;
    struct plan plan;
    if (op_is_view(op->op) || host_computes(op)) {
        return true;
    }
    if (mat_is_product(op->op)) {
        return mat_plan_node(w, op, &product, NULL) == ST_OK;
    }
    if (op->op == GGML_OP_MUL_MAT_ID) {
        return expert_check(&w, op, NULL) == ST_OK;
    }
    return plan_node(device->store, device->arch, op, &plan, NULL) == ST_OK;
}

static enum status compute(struct hsa_stream * s, struct ggml_tensor * node, struct error * err) {
    if (mat_is_product(node->op)) {
        return mat_compute(s, node, err);
    }
    if (node->op == GGML_OP_MUL_MAT_ID) {
        return expert_compute(s, node, err);
    }
    if (!host_computes(node)) {
        return compute_kernels(s, node, err);
    }
    enum status st = stream_wait(s, err);
    atomic_fetch_add(&s->device->host_copies, 1);
    return st == ST_OK ? host_compute(node, err) : st;
}

const struct device_kind npu_kind = {computes, compute};

bool compute_has_kernels(struct hsa_stream * s, const struct ggml_tensor * node) {
    struct mat_world w = mat_world_of(s->device);
    struct mat_plan product;
    struct error err = {0};
    if (host_computes(node)) {
        return true;
    }
    if (!computes(s->device, node)) {
        return false;
    }
    enum status st = ST_OK;
    if (mat_is_product(node->op)) {
        st = mat_plan_node(w, node, &product, &err);
        st = st == ST_OK ? mat_get_kernels(&w, &product, &err) : st;
    } else if (node->op != GGML_OP_MUL_MAT_ID) { // its kernels depend on its data
        st = get_kernels(s->device, node, &err);
    }
    if (st != ST_OK) {
        log_warn("%s: %s \"%s\" is computed on the CPU: %s", s->device->name, op_label(node),
                 node->name, err.text);
    }
    return st == ST_OK;
}
