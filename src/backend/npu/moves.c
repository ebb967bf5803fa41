// moves: copies on the array. A move is a kernel or, where it is too long for one or its strides
// are too many, two halves of it; rows by index are a move for each run of rows that lie equally
// far apart. Which rows these are the host reads out of the index, waiting for it only where a
// kernel is still writing it.
#include "moves.h"

#include "host-ops.h"
#include "touch.h"

#include <string.h>

enum {
    MAX_PARTS = 256,    // kernels of a node: beyond that the host is faster, whatever it costs
    LONG_ROW = 1 << 16, // elements, of which a half may be a kernel
    WHOLE = 64,         // elements that are whole words
};

struct mover {
    struct npu * npu;
    struct hsa_stream * stream; // NULL: nothing is sent
    int parts;
};

// ---- kernels ----

// A view as bytes or words that move as they are. False: there is no such thing.
static bool as_words(const struct view * v, struct tensor * out) {
    static const enum dtype plain[GGML_TYPE_COUNT] = {
        [GGML_TYPE_F32] = DTYPE_F32, [GGML_TYPE_F16] = DTYPE_F16, [GGML_TYPE_BF16] = DTYPE_BF16,
        [GGML_TYPE_I32] = DTYPE_I32, [GGML_TYPE_I16] = DTYPE_I16, [GGML_TYPE_I8] = DTYPE_I8,
    };
    size_t size = ggml_type_size(v->type);
    bool blocks = ggml_blck_size(v->type) > 1, wide = !blocks && size == 8;
    *out = (struct tensor){.dtype = blocks ? DTYPE_I8 : wide ? DTYPE_I32 : plain[v->type]};
    for (int d = 0; d < TENSOR_DIMS; d++) {
        out->ne[d] = v->ne[d];
        out->nb[d] = (int64_t) v->nb[d];
    }
    if (blocks || wide) { // rows of bytes, or twice as many words
        out->ne[0] = (int64_t) (ggml_row_size(v->type, v->ne[0]) / (wide ? 4 : 1));
        out->nb[0] = wide ? 4 : 1;
        return v->nb[0] == size || v->ne[0] == ggml_blck_size(v->type);
    }
    return (int) dtype_size(out->dtype) == (int) size;
}

// One kernel fewer for each pair of dimensions that lie end to end in both, and rows of an odd
// number of halves that are whole words together.
static void join(struct tensor * a, struct tensor * b) {
    for (int d = 0; d + 1 < TENSOR_DIMS;) {
        int last = TENSOR_DIMS - 1;
        bool alike = a->ne[d] == b->ne[d] && a->ne[d + 1] == b->ne[d + 1];
        bool ends = a->nb[d + 1] == a->ne[d] * a->nb[d] && b->nb[d + 1] == b->ne[d] * b->nb[d];
        bool one = a->ne[d] == 1 && b->ne[d] == 1 && d > 0;
        bool rest = false; // anything behind it?
        for (int i = d + 1; i <= last; i++) {
            rest |= a->ne[i] != 1 || b->ne[i] != 1;
        }
        if (!rest || !((alike && ends) || one)) {
            d++;
            continue;
        }
        struct tensor * both[2] = {a, b};
        for (int o = 0; o < 2; o++) {
            struct tensor * t = both[o];
            t->ne[d] *= t->ne[d + 1];
            t->nb[d] = one ? t->nb[d + 1] : t->nb[d];
            for (int i = d + 1; i < last; i++) {
                t->ne[i] = t->ne[i + 1];
                t->nb[i] = t->nb[i + 1];
            }
            t->ne[last] = 1;
            t->nb[last] = t->nb[last - 1] * t->ne[last - 1];
        }
    }
}

static enum kernel_op op_for(enum ggml_type from, enum ggml_type to) {
    if (from == to) {
        return KERNEL_OP_COPY;
    }
    if (from == GGML_TYPE_F32) {
        return to == GGML_TYPE_F16    ? KERNEL_OP_TO_F16
               : to == GGML_TYPE_BF16 ? KERNEL_OP_TO_BF16
                                      : KERNEL_OP_COUNT;
    }
    return to != GGML_TYPE_F32      ? KERNEL_OP_COUNT
           : from == GGML_TYPE_F16  ? KERNEL_OP_FROM_F16
           : from == GGML_TYPE_BF16 ? KERNEL_OP_FROM_BF16
                                    : KERNEL_OP_COUNT;
}

static bool kernel_for(struct npu * npu, const struct view * from, const struct view * to,
                       struct kernel_spec * spec) {
    *spec =
        (struct kernel_spec){.op = op_for(from->type, to->type), .arch = npu->arch, .n_inputs = 1};
    if (spec->op == KERNEL_OP_COUNT || (uintptr_t) from->data % DMA_WORD ||
        (uintptr_t) to->data % DMA_WORD || !as_words(from, &spec->inputs[0]) ||
        !as_words(to, &spec->output)) {
        return false;
    }
    join(&spec->inputs[0], &spec->output);
    return plan_can(npu->store, spec, false);
}

static struct view part_of(struct view v, int dim, int64_t first, int64_t n) {
    if (v.ne[dim] == 1) { // repeated
        return v;
    }
    v.data = v.data ? v.data + (size_t) first * v.nb[dim] : NULL;
    v.ne[dim] = n;
    return v;
}

// Why there is no kernel for a move that cannot be cut any further.
static enum status refuse(const struct mover * m, const struct view * from, const struct view * to,
                          struct error * err) {
    struct kernel_spec spec;
    struct error why;
    if (op_for(from->type, to->type) == KERNEL_OP_COUNT) {
        return error_set(err, ST_UNSUPPORTED, "descriptors do not make %s of %s",
                         ggml_type_name(to->type), ggml_type_name(from->type));
    }
    if (((uintptr_t) from->data | (uintptr_t) to->data) % DMA_WORD) {
        return error_set(err, ST_UNSUPPORTED, "descriptors cannot begin within a word");
    }
    if (m->parts >= MAX_PARTS - 1) {
        return error_set(err, ST_UNSUPPORTED, "a copy would be more than %d kernels", MAX_PARTS);
    }
    kernel_for(m->npu, from, to, &spec);
    plan_why_not(m->npu->store, &spec, &why);
    return error_set(err, ST_UNSUPPORTED, "descriptors of words cannot move it: %s", why.text);
}

// The kernels of a move, sent or only counted. ST_UNSUPPORTED: there are none.
static enum status move(struct mover * m, const struct view * from, const struct view * to,
                        struct error * err) {
    struct kernel_spec spec;
    if (kernel_for(m->npu, from, to, &spec)) {
        char * at[PLAN_OPERANDS] = {from->data, to->data};
        m->parts++;
        if (m->stream) {
            route_put(m->npu->store, &m->stream->npu->place, &spec);
        }
        return m->stream ? npu_dispatch(m->stream, &spec, at, err) : ST_OK;
    }
    // In halves, along the outermost dimension that both have; rows of many elements too.
    int dim = GGML_MAX_DIMS - 1;
    while (dim > 0 && (to->ne[dim] == 1 || (from->ne[dim] != 1 && from->ne[dim] != to->ne[dim]))) {
        dim--;
    }
    bool long_row = dim == 0 && to->ne[0] >= LONG_ROW && from->ne[0] == to->ne[0] &&
                    ggml_blck_size(from->type) == 1 && ggml_blck_size(to->type) == 1;
    if ((dim == 0 && !long_row) || m->parts >= MAX_PARTS - 1) {
        return err ? refuse(m, from, to, err) : ST_UNSUPPORTED;
    }
    int64_t half = (to->ne[dim] + 1) / 2;
    half = long_row ? GGML_PAD(half, WHOLE) : half;
    enum status st = ST_OK;
    for (int i = 0; i < 2 && st == ST_OK; i++) {
        int64_t first = i ? half : 0, n = i ? to->ne[dim] - half : half;
        struct view a = part_of(*from, dim, first, n), b = part_of(*to, dim, first, n);
        st = move(m, &a, &b, err);
    }
    return st;
}

bool moves_can(struct npu * npu, const struct view * from, const struct view * to) {
    return moves_check(npu, from, to, NULL) == ST_OK;
}

enum status moves_check(struct npu * npu, const struct view * from, const struct view * to,
                        struct error * err) {
    struct mover m = {.npu = npu};
    return move(&m, from, to, err);
}

enum status moves_send(struct hsa_stream * s, const struct view * from, const struct view * to,
                       struct error * err) {
    struct mover m = {.npu = s->device->npu, .stream = s};
    return move(&m, from, to, err);
}

// ---- copies ----

// Both in one shape: one of them is packed then, and can be seen in the other's.
static bool same_shape(struct view * from, struct view * to) {
    if (!memcmp(from->ne, to->ne, sizeof from->ne)) {
        return true;
    }
    if (view_is_packed(from) && to->ne[0] % ggml_blck_size(from->type) == 0) {
        *from = view_contiguous(from->type, to->ne, from->data);
        return true;
    }
    if (view_is_packed(to) && from->ne[0] % ggml_blck_size(to->type) == 0) {
        *to = view_contiguous(to->type, from->ne, to->data);
        return true;
    }
    return false;
}

// The dimensions in the order in which they lie in memory.
static struct view in_order(struct view v) {
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        for (int d = 0; d + 1 < GGML_MAX_DIMS; d++) {
            if (v.nb[d] > v.nb[d + 1] && v.ne[d + 1] > 1) {
                size_t nb = v.nb[d];
                int64_t ne = v.ne[d];
                v.nb[d] = v.nb[d + 1], v.ne[d] = v.ne[d + 1];
                v.nb[d + 1] = nb, v.ne[d + 1] = ne;
            }
        }
    }
    return v;
}

// Halves of words that change places (a transposed f16) are whole words as f32, which every f16 is:
// they are cast as they lie, and cast back where they go.
static enum status by_words(struct mover * m, const struct view * from, const struct view * to,
                            struct error * err) {
    struct view lies = in_order(*from), wide = *from;
    size_t bytes = view_bytes(from);
    if (from->type != GGML_TYPE_F16 || to->type != GGML_TYPE_F16 || !view_is_packed(&lies) ||
        bytes % DMA_WORD) {
        return error_set(err, ST_UNSUPPORTED, "descriptors of words cannot move it");
    }
    char * room = NULL;
    enum status st = m->stream ? stream_scratch(m->stream, 2 * bytes, &room, err) : ST_OK;
    struct view cast = view_contiguous(GGML_TYPE_F32, lies.ne, room);
    wide.type = GGML_TYPE_F32;
    wide.data = room;
    for (int d = 0; d < GGML_MAX_DIMS; d++) {
        wide.nb[d] *= 2;
    }
    st = st == ST_OK ? move(m, &lies, &cast, err) : st;
    return st == ST_OK ? move(m, &wide, to, err) : st;
}

static enum status copy(struct mover * m, const struct ggml_tensor * node, struct error * err) {
    struct view from = view_of(node->src[0]), to = view_of(node);
    if (!same_shape(&from, &to) || plan_clobbers(&to, &from)) {
        return error_set(err, ST_UNSUPPORTED, "shapes that have nothing in common, or an overlap");
    }
    return (moves_can(m->npu, &from, &to) ? move : by_words)(m, &from, &to, err);
}

static enum status repeat(struct mover * m, const struct ggml_tensor * node, struct error * err) {
    struct view from = view_of(node->src[0]), to = view_of(node);
    return plan_clobbers(&to, &from) ? ST_UNSUPPORTED : move(m, &from, &to, err);
}

static enum status concat(struct mover * m, const struct ggml_tensor * node, struct error * err) {
    int32_t dim = node->op_params[0];
    char * at = node->data;
    enum status st = ST_OK;
    for (int i = 0; i < 2 && st == ST_OK; i++) {
        struct view from = view_of(node->src[i]), to = from;
        memcpy(to.nb, node->nb, sizeof to.nb);
        to.data = at;
        int64_t steps = dim == 0 ? from.ne[0] / ggml_blck_size(from.type) : from.ne[dim];
        at += (size_t) steps * node->nb[dim];
        if (ggml_is_empty(node->src[i])) {
            continue;
        }
        st = plan_clobbers(&to, &from) ? ST_UNSUPPORTED : move(m, &from, &to, err);
    }
    return st;
}

// ---- rows by index ----

struct rows {
    struct view indexed, plain; // dimension 1 of the first is what the index names
    bool set;                   // the indexed ones are written
    const struct ggml_tensor * index;
};

// Rows from i1 on that lie equally far apart; 0: the index points outside.
static int64_t run_of(const struct rows * r, int64_t i1, int64_t i2, int64_t i3, int64_t * step) {
    int64_t n = r->index->ne[0], before = rows_index(r->index, i1, i2, i3), count = 1;
    *step = 1;
    if (before < 0 || before >= r->indexed.ne[1]) {
        return 0;
    }
    for (; i1 + count < n; count++) {
        int64_t next = rows_index(r->index, i1 + count, i2, i3), apart = next - before;
        *step = count == 1 ? apart : *step;
        if (next < 0 || next >= r->indexed.ne[1] || apart != *step || apart < (r->set ? 1 : 0)) {
            break;
        }
        before = next;
    }
    *step = count == 1 ? 1 : *step;
    return count;
}

// The rows of one matrix, or, where the index is the same for all, of all of them.
static enum status matrix(struct mover * m, const struct rows * r, int64_t i2, int64_t i3, bool all,
                          struct error * err) {
    enum status st = ST_OK;
    for (int64_t i1 = 0, n; i1 < r->index->ne[0] && st == ST_OK; i1 += n) {
        int64_t step;
        n = run_of(r, i1, i2, i3, &step);
        if (n == 0) {
            return rows_bad_index(rows_index(r->index, i1, i2, i3), r->indexed.ne[1], err);
        }
        struct view a = r->indexed, b = r->plain;
        a.data += (size_t) rows_index(r->index, i1, i2, i3) * a.nb[1] + (size_t) i2 * a.nb[2] +
                  (size_t) i3 * a.nb[3];
        b.data += (size_t) i1 * b.nb[1] + (size_t) i2 * b.nb[2] + (size_t) i3 * b.nb[3];
        a.ne[1] = b.ne[1] = n;
        a.nb[1] *= (size_t) step;
        if (!all) {
            a.ne[2] = a.ne[3] = b.ne[2] = b.ne[3] = 1;
        }
        st = r->set ? move(m, &b, &a, err) : move(m, &a, &b, err);
        if (st == ST_OK && m->parts > MAX_PARTS) {
            st = error_set(err, ST_UNSUPPORTED, "rows that lie all over the place");
        }
    }
    return st;
}

static enum status matrices(struct mover * m, const struct rows * r, struct error * err) {
    bool all = r->index->ne[1] == 1 && r->index->ne[2] == 1;
    enum status st = ST_OK;
    for (int64_t i3 = 0; i3 < (all ? 1 : r->plain.ne[3]) && st == ST_OK; i3++) {
        for (int64_t i2 = 0; i2 < (all ? 1 : r->plain.ne[2]) && st == ST_OK; i2++) {
            st = matrix(m, r, i2, i3, all, err);
        }
    }
    return st;
}

static enum status rows(struct mover * m, const struct ggml_tensor * node, struct error * err) {
    bool set = node->op == GGML_OP_SET_ROWS;
    struct view src = view_of(node->src[0]), dst = view_of(node);
    struct rows r = {set ? dst : src, set ? src : dst, set, node->src[1]};
    return plan_clobbers(&dst, &src) ? ST_UNSUPPORTED : matrices(m, &r, err);
}

// The host reads the index, which a kernel may still be writing.
static enum status wait_for_index(struct hsa_stream * s, const struct ggml_tensor * index,
                                  struct error * err) {
    bool pending = npu_is_pending(s, index->data, ggml_nbytes(index));
    enum status st = pending ? stream_wait(s, err) : ST_OK;
    touch_tensor(s->device->agent, index);
    return st;
}

// Rows that lie apart are a kernel each. The host copies them faster where there are many, or where
// it has waited for the decoder's kernels already; where it has not, what comes behind the node
// waits as well.
static bool host_is_faster(const struct hsa_stream * s, int parts, size_t bytes) {
    enum { COPY_US = 30, WAITED_US = 30, WAIT_US = 300, BYTES_A_US = 2000 };
    bool waited = s->npu->on_decoder && !s->in_flight;
    size_t by_host = (waited ? WAITED_US : WAIT_US) + bytes / BYTES_A_US;
    return by_host < (size_t) parts * COPY_US;
}

enum status moves_rows(struct hsa_stream * s, const struct view * from,
                       const struct ggml_tensor * index, const struct view * to, bool * done,
                       struct error * err) {
    struct rows r = {*from, *to, false, index};
    struct mover m = {.npu = s->device->npu};
    r.indexed.nb[2] = r.indexed.nb[3] = 0; // the same for all matrices
    *done = false;
    enum status st = wait_for_index(s, index, err);
    if (st != ST_OK) {
        return st;
    }
    st = matrices(&m, &r, err);
    if (st != ST_OK || host_is_faster(s, m.parts, view_bytes(to))) {
        return st == ST_INVALID ? st : ST_OK;
    }
    m = (struct mover){.npu = s->device->npu, .stream = s};
    *done = true;
    return matrices(&m, &r, err);
}

// ---- nodes ----

// A row by an index of one element is the same kernel whatever row it is, where all begin at words.
static void keep_row(struct hsa_stream * s, const struct ggml_tensor * node) {
    int src = node->op == GGML_OP_SET_ROWS ? -1 : 0;
    const struct ggml_tensor * indexed = src < 0 ? node : node->src[0];
    if (ggml_nelements(node->src[1]) == 1 && indexed->nb[1] % DMA_WORD == 0) {
        kept_row(s->npu->kept, src, rows_index(node->src[1], 0, 0, 0));
    } else {
        kept_void(s->npu->kept);
    }
}

static const struct {
    enum ggml_op op;
    enum status (*move)(struct mover * m, const struct ggml_tensor * node, struct error * err);
    bool index; // src1 is one
} kinds[] = {
    {GGML_OP_DUP, copy, false},      {GGML_OP_CPY, copy, false},
    {GGML_OP_CONT, copy, false},     {GGML_OP_REPEAT, repeat, false},
    {GGML_OP_CONCAT, concat, false}, {GGML_OP_GET_ROWS, rows, true},
    {GGML_OP_SET_ROWS, rows, true},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

enum status moves_node(struct hsa_stream * s, const struct ggml_tensor * node, bool * done,
                       struct error * err) {
    *done = false;
    for (int i = 0; i < N_KINDS; i++) {
        if (kinds[i].op != node->op) {
            continue;
        }
        struct mover m = {.npu = s->device->npu};
        enum status st = kinds[i].index ? wait_for_index(s, node->src[1], err) : ST_OK;
        if (st != ST_OK) {
            return st;
        }
        if (kinds[i].index) {
            keep_row(s, node);
        }
        st = kinds[i].move(&m, node, err);
        struct view moved = view_of(node->op == GGML_OP_SET_ROWS ? node->src[0] : node);
        if (st == ST_OK && kinds[i].index && host_is_faster(s, m.parts, view_bytes(&moved))) {
            return ST_OK;
        }
        if (st == ST_OK) {
            m = (struct mover){.npu = s->device->npu, .stream = s};
            st = kinds[i].move(&m, node, err);
            *done = st == ST_OK;
            return st;
        }
        return st == ST_INVALID ? st : ST_OK;
    }
    return ST_OK;
}

void moves_ways(struct npu * npu, const struct ggml_tensor * node, struct route_stop * out) {
    bool moves = false;
    for (int i = 0; i < N_KINDS; i++) {
        moves |= kinds[i].op == node->op;
    }
    if (!moves || ggml_is_empty(node) || !node->src[0]) {
        return;
    }
    const struct ggml_tensor * shape = node->op == GGML_OP_SET_ROWS ? node->src[0] : node;
    struct view from = view_contiguous(node->src[0]->type, shape->ne, NULL);
    struct view to = view_contiguous(node->type, shape->ne, NULL);
    if (node->op == GGML_OP_SET_ROWS) { // one behind the other, as a prompt's are
        memcpy(from.nb, node->src[0]->nb, sizeof from.nb);
        memcpy(to.nb, node->nb, sizeof to.nb);
    }
    struct kernel_spec spec;
    if (kernel_for(npu, &from, &to, &spec)) {
        route_add_placed(out, npu->store, &spec);
    }
}
