// small: nodes of a few numbers, as a router of experts has them, that the decoder's PDI has no
// program for. Loading another and the decoder's again takes longer than the host does with all of
// it, and the host waits for a router's choice anyway. So behind kernels of the decoder, in the
// same graph, the host computes them, as ggml's CPU backend would. Elsewhere they are kernels. Rows
// that an index names are looked up by the host where nothing is in flight that it would wait for:
// what a router gives those that it chose.
#include "dispatch.h"
#include "host-ops.h"
#include "touch.h"

#include "aie/target/times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct row { // of a node, and of its sources
    const float *a, *b;
    size_t a_step, b_step; // from element to element; 0: there is but one
    float * out;
    int64_t n_in, n_out;
};

// ---- what becomes of a row ----

struct ranked {
    float value;
    int32_t index;
};

// Not a number comes last, either way; of equal ones the first.
static int compare(const struct ranked * a, const struct ranked * b, bool descending) {
    bool none_a = isnan(a->value), none_b = isnan(b->value);
    if (none_a != none_b) {
        return none_a ? 1 : -1;
    }
    if (none_a || a->value == b->value) {
        return a->index < b->index ? -1 : 1;
    }
    return (a->value < b->value) != descending ? -1 : 1;
}

static int ascending(const void * a, const void * b) {
    return compare(a, b, false);
}

static int descending(const void * a, const void * b) {
    return compare(a, b, true);
}

static const float * at(const float * base, size_t step, int64_t i) {
    return (const float *) (const void *) ((const char *) base + (size_t) i * step);
}

static bool sort(const struct ggml_tensor * node, const struct row * r) {
    bool down = node->op == GGML_OP_TOP_K || node->op_params[0] == GGML_SORT_ORDER_DESC;
    struct ranked * all = malloc((size_t) r->n_in * sizeof *all);
    for (int64_t i = 0; all && i < r->n_in; i++) {
        all[i] = (struct ranked){*at(r->a, r->a_step, i), (int32_t) i};
    }
    if (all) {
        qsort(all, (size_t) r->n_in, sizeof *all, down ? descending : ascending);
    }
    for (int64_t i = 0; all && i < r->n_out; i++) {
        memcpy(&r->out[i], &all[i].index, sizeof all[i].index);
    }
    free(all);
    return all != NULL;
}

static bool sum(const struct ggml_tensor * node, const struct row * r) {
    (void) node;
    double all = 0;
    for (int64_t i = 0; i < r->n_in; i++) {
        all += (double) *at(r->a, r->a_step, i);
    }
    r->out[0] = (float) all;
    return true;
}

static bool clamp(const struct ggml_tensor * node, const struct row * r) {
    float limits[2];
    memcpy(limits, node->op_params, sizeof limits);
    for (int64_t i = 0; i < r->n_out; i++) {
        float x = *at(r->a, r->a_step, i), low = x < limits[1] ? x : limits[1];
        r->out[i] = low > limits[0] ? low : limits[0];
    }
    return true;
}

static bool divide(const struct ggml_tensor * node, const struct row * r) {
    (void) node;
    for (int64_t i = 0; i < r->n_out; i++) {
        r->out[i] = *at(r->a, r->a_step, i) / *at(r->b, r->b_step, i);
    }
    return true;
}

static bool sigmoid(const struct ggml_tensor * node, const struct row * r) {
    (void) node;
    for (int64_t i = 0; i < r->n_out; i++) {
        r->out[i] = 1 / (1 + expf(-*at(r->a, r->a_step, i)));
    }
    return true;
}

// ---- which ----

static const struct small {
    enum ggml_op op;
    enum ggml_unary_op unary;                                           // of GGML_OP_UNARY
    bool (*row)(const struct ggml_tensor * node, const struct row * r); // false: no memory
    int ns; // that an element takes, about, rather too many
} smalls[] = {
    {GGML_OP_ARGSORT, 0, sort, 60}, {GGML_OP_TOP_K, 0, sort, 60},
    {GGML_OP_SUM_ROWS, 0, sum, 4},  {GGML_OP_CLAMP, 0, clamp, 4},
    {GGML_OP_DIV, 0, divide, 8},    {GGML_OP_UNARY, GGML_UNARY_OP_SIGMOID, sigmoid, 20},
};

static const struct small * small_of(const struct ggml_tensor * node) {
    for (size_t i = 0; i < sizeof smalls / sizeof smalls[0]; i++) {
        if (smalls[i].op == node->op &&
            (node->op != GGML_OP_UNARY || ggml_get_unary_op(node) == smalls[i].unary)) {
            return &smalls[i];
        }
    }
    return NULL;
}

// Shapes are as ggml makes them, and a divisor is a number for each row or for each element.
static bool is_sound(const struct ggml_tensor * node) {
    const struct ggml_tensor *a = node->src[0], *b = node->src[1];
    bool index = node->op == GGML_OP_ARGSORT || node->op == GGML_OP_TOP_K;
    if (!a || a->type != GGML_TYPE_F32 || !ggml_is_contiguous(node) ||
        node->type != (index ? GGML_TYPE_I32 : GGML_TYPE_F32) ||
        ggml_nrows(a) != ggml_nrows(node)) {
        return false;
    }
    if (node->op == GGML_OP_DIV) {
        return ggml_are_same_shape(a, node) && b && b->type == GGML_TYPE_F32 &&
               ggml_can_repeat(b, node) && (b->ne[0] == 1 || b->ne[0] == node->ne[0]);
    }
    int64_t most = node->op == GGML_OP_SUM_ROWS ? 1 : a->ne[0];
    return !b && (node->op == GGML_OP_TOP_K ? node->ne[0] <= most : node->ne[0] == most);
}

// Nothing is waited for, and a kernel takes longer for a few numbers than the host does.
static bool is_lookup(const struct hsa_stream * s, const struct ggml_tensor * node) {
    enum { MOST = 1024 };
    return node->op == GGML_OP_GET_ROWS && !s->in_flight && node->type == GGML_TYPE_F32 &&
           node->src[0]->type == GGML_TYPE_F32 && ggml_nelements(node) <= MOST &&
           ggml_nelements(node->src[0]) <= MOST && host_check_node(node, NULL) == ST_OK;
}

bool small_is_hosts(const struct hsa_stream * s, const struct ggml_tensor * node) {
    enum { WAIT_US = 100 };
    if (s->npu->on_decoder && is_lookup(s, node)) {
        return true;
    }
    const struct small * small = s->npu->on_decoder ? small_of(node) : NULL;
    if (!small || !is_sound(node) || ggml_is_empty(node) || ggml_is_empty(node->src[0])) {
        return false;
    }
    enum aie_arch arch = s->device->npu->arch;
    uint64_t load = aie_us(arch, (uint64_t) aie_times(arch)->load);
    return (uint64_t) ggml_nelements(node->src[0]) * (uint64_t) small->ns / 1000 + WAIT_US <= load;
}

// ---- nodes ----

static const float * row_of(const struct ggml_tensor * t, const int64_t i[GGML_MAX_DIMS]) {
    const char * data = t->data;
    for (int d = 1; d < GGML_MAX_DIMS; d++) {
        data += (size_t) (i[d] % t->ne[d]) * t->nb[d];
    }
    return (const float *) (const void *) data;
}

enum status small_run(struct hsa_stream * s, struct ggml_tensor * node, struct error * err) {
    const struct small * small = small_of(node);
    const struct ggml_tensor *a = node->src[0], *b = node->src[1];
    enum status st = stream_wait(s, err);
    if (st != ST_OK) {
        return st;
    }
    atomic_fetch_add(&s->device->host_copies, 1);
    touch_node_begin(s->device->agent, node);
    if (!small) {
        st = host_compute(node, err);
        touch_node_end(s->device->agent, node);
        return st;
    }
    bool done = true;
    struct row r = {.a_step = a->nb[0], .n_in = a->ne[0], .n_out = node->ne[0]};
    for (int64_t n = 0; n < ggml_nrows(node) && done; n++) {
        const int64_t i[GGML_MAX_DIMS] = {0, n % node->ne[1], n / node->ne[1] % node->ne[2],
                                          n / node->ne[1] / node->ne[2]};
        r.a = row_of(a, i);
        r.out = (float *) node->data + n * node->ne[0];
        if (b) {
            r.b = row_of(b, i);
            r.b_step = b->ne[0] > 1 ? b->nb[0] : 0;
        }
        done = small->row(node, &r);
    }
    touch_node_end(s->device->agent, node);
    return done ? ST_OK : error_set(err, ST_NO_MEMORY, "no memory to sort a row");
}
