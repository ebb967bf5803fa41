// tasks: nodes between products of many rows, which run where these do. A layer of a prompt goes
// from product to product by ADD, SWIGLU and RMS_NORM; on the decoder's PDI each of them would have
// two loaded, its own and then the product's again. The kernels of aie/ops/tasks are on the
// product's. Which of the two a node is to be is asked when it is sent, of what the array has by
// then: the kernel that does not take a load counts without it.
#include "dispatch.h"

#include "aie/target/times.h"

static const struct {
    enum kernel_op op, task;
} tasks[] = {
    {KERNEL_OP_ADD, KERNEL_OP_TASK_ADD},
    {KERNEL_OP_SWIGLU, KERNEL_OP_TASK_SWIGLU},
    {KERNEL_OP_RMS_NORM_MUL, KERNEL_OP_TASK_RMS_NORM_MUL},
};

// The spec as a task; false: there is none like it.
static bool as_task(const struct hsa_stream * s, const struct kernel_spec * spec,
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
    return plan_can(s->device->npu->store, out, false);
}

void task_place(const struct hsa_stream * s, struct plan * p) {
    struct store * store = s->device->npu->store;
    struct kernel_spec task;
    if (!s->npu->on_tasks || p->chunk < p->n || !as_task(s, &p->spec, &task)) {
        return;
    }
    const struct aie_program * program;
    uint64_t load = (uint64_t) aie_times(s->device->npu->arch)->likely.load;
    uint64_t leaves = store_likely(store, &p->spec, &program) + load;
    if (store_likely(store, &task, &program) <= leaves) {
        p->spec = task;
    }
}
