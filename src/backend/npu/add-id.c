// add-id: ADD_ID, a bias for each expert. The rows of the table that the index names are brought
// together in scratch, by copies on the array, and added by the kernel of ADD. Where the index
// names more runs of rows than copies are worth, the host brings them together.
#include "host-ops.h"
#include "moves.h"
#include "touch.h"

#include <string.h>

static struct view chosen(const struct ggml_tensor * node, char * data) {
    const int64_t ne[GGML_MAX_DIMS] = {node->ne[0], node->ne[1], node->ne[2], 1};
    return view_contiguous(GGML_TYPE_F32, ne, data);
}

static struct kernel_spec sum_of(const struct ggml_tensor * node, enum aie_arch arch) {
    struct view a = view_of(node->src[0]), b = chosen(node, NULL), out = view_of(node);
    return (struct kernel_spec){.op = KERNEL_OP_ADD,
                                .arch = arch,
                                .n_inputs = 2,
                                .inputs = {plan_tensor(&a), plan_tensor(&b)},
                                .output = plan_tensor(&out)};
}

bool add_id_is(const struct ggml_tensor * node) {
    return node->op == GGML_OP_ADD_ID;
}

enum status add_id_check(struct hsa_device * device, const struct ggml_tensor * node,
                         struct error * err) {
    const struct ggml_tensor *a = node->src[0], *table = node->src[1], *index = node->src[2];
    bool sound = a && table && index && a->type == GGML_TYPE_F32 && table->type == GGML_TYPE_F32 &&
                 node->type == GGML_TYPE_F32 && index->type == GGML_TYPE_I32 &&
                 a->nb[0] == sizeof(float) && table->nb[0] == sizeof(float) &&
                 node->nb[0] == sizeof(float) && ggml_are_same_shape(a, node) &&
                 table->ne[0] == node->ne[0] && table->ne[2] == 1 && table->ne[3] == 1 &&
                 index->ne[0] == node->ne[1] && index->ne[1] == node->ne[2] && index->ne[2] == 1 &&
                 index->ne[3] == 1;
    if (!sound) {
        return error_set(err, ST_UNSUPPORTED, "ADD_ID: datatypes or shapes");
    }
    struct view from = view_of(a), to = view_of(node);
    struct kernel_spec spec = sum_of(node, device->npu->arch);
    struct error why;
    if (!plan_can(device->npu->store, &spec, false)) {
        plan_why_not(device->npu->store, &spec, &why);
        return error_set(err, ST_UNSUPPORTED, "ADD_ID adds rows: %s", why.text);
    }
    return !plan_clobbers(&to, &from)
               ? ST_OK
               : error_set(err, ST_UNSUPPORTED, "ADD_ID: its result overlaps src0 in part");
}

static enum status gather_by_host(const struct ggml_tensor * node, char * to, struct error * err) {
    const struct ggml_tensor *table = node->src[1], *index = node->src[2];
    size_t row = (size_t) node->ne[0] * sizeof(float);
    for (int64_t i2 = 0; i2 < node->ne[2]; i2++) {
        for (int64_t i1 = 0; i1 < node->ne[1]; i1++, to += row) {
            int64_t at = rows_index(index, i1, i2, 0);
            if (at < 0 || at >= table->ne[1]) {
                return rows_bad_index(at, table->ne[1], err);
            }
            memcpy(to, (const char *) table->data + (size_t) at * table->nb[1], row);
        }
    }
    return ST_OK;
}

enum status add_id_run(struct hsa_stream * s, struct ggml_tensor * node, struct error * err) {
    enum status st = add_id_check(s->device, node, err);
    char * room;
    struct view table = view_of(node->src[1]), rows = chosen(node, NULL);
    if (st == ST_OK) {
        st = stream_scratch(s, view_bytes(&rows), &room, err);
    }
    if (st != ST_OK) {
        return st;
    }
    bool done;
    rows.data = room;
    st = moves_rows(s, &table, node->src[2], &rows, &done, err);
    if (st == ST_OK && !done) {
        st = stream_wait(s, err); // the table may be on its way itself
        struct hsac_agent * agent = s->device->agent;
        touch_begin(agent, &table);
        touch_begin(agent, &rows);
        st = st == ST_OK ? gather_by_host(node, room, err) : st;
        touch_end(agent, &rows);
        atomic_fetch_add(&s->device->staged_operands, 1);
    }
    struct kernel_spec spec = sum_of(node, s->device->npu->arch);
    char * at[PLAN_OPERANDS] = {node->src[0]->data, room, node->data};
    return st == ST_OK ? npu_dispatch(s, &spec, at, err) : st;
}
