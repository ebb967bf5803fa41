// top-k: TOP_K, the numbers of a row's largest elements: the row sorted in scratch, and of that the
// beginning. Rows that no core keeps are steps-sort.c's.
#include "moves.h"
#include "steps.h"

enum { DESCENDING = 1 };

static struct view sorted(const struct ggml_tensor * node, char * data) {
    return view_contiguous(GGML_TYPE_I32, node->src[0]->ne, data);
}

static struct view beginning(const struct ggml_tensor * node, char * data) {
    struct view v = sorted(node, data);
    v.ne[0] = node->ne[0];
    return v;
}

static struct kernel_spec sort_of(const struct ggml_tensor * node, enum aie_arch arch) {
    struct view x = view_of(node->src[0]), out = sorted(node, NULL);
    return (struct kernel_spec){.op = KERNEL_OP_ARGSORT,
                                .arch = arch,
                                .n_inputs = 1,
                                .inputs = {plan_tensor(&x)},
                                .output = plan_tensor(&out),
                                .params = {DESCENDING}};
}

bool top_k_is(const struct ggml_tensor * node) {
    return node->op == GGML_OP_TOP_K && !steps_is_long_sort(node);
}

enum status top_k_check(struct hsa_device * device, const struct ggml_tensor * node,
                        struct error * err) {
    const struct ggml_tensor * x = node->src[0];
    bool sound = x && x->type == GGML_TYPE_F32 && node->type == GGML_TYPE_I32 && node->ne[0] > 0 &&
                 node->ne[0] <= x->ne[0];
    for (int d = 1; d < GGML_MAX_DIMS && sound; d++) {
        sound = node->ne[d] == x->ne[d];
    }
    if (!sound) {
        return error_set(err, ST_UNSUPPORTED, "TOP_K: datatypes or shapes");
    }
    struct kernel_spec spec = sort_of(node, device->npu->arch);
    struct view from = beginning(node, NULL), to = view_of(node);
    struct error why;
    if (!plan_can(device->npu->store, &spec, false)) {
        plan_why_not(device->npu->store, &spec, &why);
        return error_set(err, ST_UNSUPPORTED, "TOP_K sorts its rows: %s", why.text);
    }
    return moves_check(device->npu, &from, &to, err);
}

enum status top_k_run(struct hsa_stream * s, struct ggml_tensor * node, struct error * err) {
    enum status st = top_k_check(s->device, node, err);
    struct view all = sorted(node, NULL), to = view_of(node);
    char * room;
    if (st == ST_OK) {
        st = stream_scratch(s, view_bytes(&all), &room, err);
    }
    if (st != ST_OK) {
        return st;
    }
    struct kernel_spec spec = sort_of(node, s->device->npu->arch);
    char * at[PLAN_OPERANDS] = {node->src[0]->data, room};
    struct view from = beginning(node, room);
    st = npu_dispatch(s, &spec, at, err);
    return st == ST_OK ? moves_send(s, &from, &to, err) : st;
}
