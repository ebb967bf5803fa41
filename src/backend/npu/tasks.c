// tasks: nodes between products of many rows, which can run where these do. A layer of a prompt
// goes from product to product by ADD, SWIGLU and RMS_NORM; on the decoder's PDI each of them would
// have two loaded, its own and then the product's again. The kernels of aie/ops/tasks are on the
// product's. Which of the two a node is to be, the route of its graph says (route.h).
#include "dispatch.h"

static const struct {
    enum kernel_op op, task;
} tasks[] = {
    {KERNEL_OP_ADD, KERNEL_OP_TASK_ADD},
    {KERNEL_OP_SWIGLU, KERNEL_OP_TASK_SWIGLU},
    {KERNEL_OP_RMS_NORM_MUL, KERNEL_OP_TASK_RMS_NORM_MUL},
};

// Products whose PDI has tasks, as the last parameter of these says: of bf16, of stored block
// floats, and of quantized blocks.
enum { PRODUCTS = 3 };

// The spec as a task beside these products; false: there is none like it.
static bool as_task(struct store * store, const struct kernel_spec * spec, uint32_t products,
                    struct kernel_spec * out) {
    const size_t n = sizeof tasks / sizeof tasks[0];
    size_t i = 0;
    while (i < n && tasks[i].op != spec->op) {
        i++;
    }
    bool exact = spec->precision == KERNEL_EXACT && kernel_has_exact(spec);
    if (i == n || exact) {
        return false;
    }
    *out = *spec;
    out->op = tasks[i].task;
    out->precision = KERNEL_FAST;
    out->params[kernel_op_info(out->op)->n_params - 1] = products;
    return plan_can(store, out, false);
}

// The same of a plan's kernels, which are all alike but for the last one.
static bool as_tasks(struct store * store, const struct plan * p, uint32_t products,
                     struct plan * out) {
    *out = *p;
    return as_task(store, &p->spec, products, &out->spec) &&
           (p->n % p->chunk == 0 || as_task(store, &p->rest, products, &out->rest));
}

// Of all of a plan's kernels.
static void add_ways(struct store * store, const struct plan * p, struct route_stop * out) {
    struct route_stop one = {0};
    route_add_kernel(&one, store, &p->spec);
    for (int i = 0; i < one.n; i++) {
        one.ways[i].cycles *= (uint64_t) ((p->n + p->chunk - 1) / p->chunk);
        route_add(out, one.ways[i]);
    }
}

void task_ways(struct npu * npu, const struct plan * p, struct route_stop * out) {
    struct plan tasks_of;
    add_ways(npu->store, p, out);
    for (uint32_t products = 0; products < PRODUCTS; products++) {
        if (as_tasks(npu->store, p, products, &tasks_of)) {
            add_ways(npu->store, &tasks_of, out);
        }
    }
}

void task_place(const struct hsa_stream * s, struct plan * p) {
    struct store * store = s->device->npu->store;
    const struct aie_program * wanted = s->npu->place.first;
    const struct plan given = *p;
    for (uint32_t products = 0; wanted && products < PRODUCTS; products++) {
        const struct aie_program * at = NULL;
        struct plan tasks_of;
        if (as_tasks(store, &given, products, &tasks_of)) {
            store_likely(store, &tasks_of.spec, &at);
        }
        if (at == wanted) {
            *p = tasks_of;
        }
    }
}
