// mat-run: a product on a stream. CONVERT and MUL_MAT follow each other in the queue, so that the
// host waits only where it lays out an operand itself, and for a result that no kernel can write in
// place. An operand that was packed for a product lately is not packed again.
#include "dispatch.h"
#include "panels.h"
#include "touch.h"

#include <assert.h>
#include <string.h>

struct mat_world mat_world_of(const struct hsa_device * device) {
    return (struct mat_world){
        .store = device->npu->store, .arch = device->npu->arch, .precision = mat_precision_asked()};
}

struct mat_world mat_world_here(const struct hsa_stream * s) {
    struct mat_world w = mat_world_of(s->device);
    w.place = s->npu->place;
    return w;
}

// ---- operands ----

enum status mat_shadow(struct hsa_stream * s, const struct ggml_tensor * weights,
                       const struct mat_source * source, enum mat_pieces pieces,
                       const struct mat_source * padded, struct shadow ** out, struct error * err) {
    struct shadows * all = weights ? buffer_shadows(weights) : NULL;
    *out = NULL;
    if (!all || !buffer_holds_weights(weights)) {
        return ST_OK;
    }
    *out = shadow_find(all, source, pieces);
    if (*out) {
        return ST_OK;
    }
    enum status st = stream_wait(s, err); // the weights may be on their way themselves
    if (st == ST_OK) {
        *out = shadow_make(all, source, pieces, padded);
        atomic_fetch_add(&s->device->staged_operands, *out != NULL);
    }
    return st;
}

void mat_use(struct mat_operand * o, const struct view * packed) {
    o->way = MAT_AS_IT_STANDS;
    o->kernel.data = packed->data;
}

static size_t bytes_of(const struct view * v, bool needed) {
    return needed ? GGML_PAD(view_bytes(v), BUFFER_ALIGNMENT) : 0;
}

size_t mat_scratch(const struct mat_plan * p) {
    return bytes_of(&p->a.packed, p->a.way != MAT_AS_IT_STANDS) +
           bytes_of(&p->b.packed, p->b.way != MAT_AS_IT_STANDS) +
           bytes_of(&p->result.kernel, p->result.staged) +
           bytes_of(&p->partial, p->chunk_k < p->a.kernel.ne[0]);
}

void mat_place(struct mat_plan * p, char * room) {
    struct mat_operand * operands[] = {&p->a, &p->b};
    for (int i = 0; i < 2; i++) {
        struct mat_operand * o = operands[i];
        if (o->way != MAT_AS_IT_STANDS) {
            o->packed.data = o->kernel.data = room;
            room += bytes_of(&o->packed, true);
        }
    }
    if (p->result.staged) {
        p->result.kernel.data = room;
        room += bytes_of(&p->result.kernel, true);
    }
    p->partial.data = room; // or nothing, where nobody looks
}

bool mat_reads_on_host(const struct mat_plan * p) {
    return p->a.way == MAT_BY_HOST || p->b.way == MAT_BY_HOST;
}

// One kernel or, where that would be too much for one or take longer than it may, one for each half
// of the rows.
static enum status convert(struct hsa_stream * s, const struct kernel_spec * whole, char * from,
                           char * to, struct error * err) {
    struct kernel_spec spec = *whole;
    struct tensor *in = &spec.inputs[0], *out = &spec.output;
    int d = TENSOR_DIMS - 1;
    while (d > 0 && in->ne[d] < 2) {
        d--;
    }
    bool one_panel = d == 1 && spec.op == KERNEL_OP_UNPACK && kernel_panel_of(&spec).rows &&
                     in->ne[1] <= KERNEL_PANEL_ROWS;
    if (d == 0 || one_panel ||
        (store_can_itself(s->device->npu->store, &spec) &&
         store_us(s->device->npu->store, &spec) <= HSAC_MOST_US)) {
        char * addr[PLAN_OPERANDS] = {from, to};
        return npu_dispatch(s, &spec, addr, err);
    }
    assert(in->ne[d] == out->ne[d]); // each row becomes a row
    int64_t half = in->ne[d] / 2;
    if (d == 1 && spec.op == KERNEL_OP_UNPACK && kernel_panel_of(&spec).rows) { // of whole panels
        half = (half + KERNEL_PANEL_ROWS - 1) / KERNEL_PANEL_ROWS * KERNEL_PANEL_ROWS;
    }
    in->ne[d] = out->ne[d] = half;
    enum status st = convert(s, &spec, from, to, err);
    in->ne[d] = out->ne[d] = whole->inputs[0].ne[d] - half;
    return st == ST_OK ? convert(s, &spec, from + half * in->nb[d], to + half * out->nb[d], err)
                       : st;
}

// The rows of a that a dispatch wants.
static enum status bring_piece(struct hsa_stream * s, const struct mat_plan * p,
                               const struct mat_at * at, struct error * err) {
    const struct mat_operand * o = &p->a;
    struct kernel_spec spec = o->convert;
    int64_t left = spec.inputs[0].ne[1] - at->at[0];
    spec.inputs[0].ne[1] = spec.output.ne[1] = left < p->chunk[0] ? left : p->chunk[0];
    return convert(s, &spec, o->source.view.data + (size_t) at->at[0] * o->source.view.nb[1],
                   o->packed.data, err);
}

static enum status bring(struct hsa_stream * s, const struct mat_operand * o, struct error * err) {
    if (o->way == MAT_BY_HOST) {
        atomic_fetch_add(&s->device->staged_operands, 1);
        touch_begin(s->device->agent, &o->source.view);
        touch_begin(s->device->agent, &o->packed);
        enum status st = mat_stage(&o->source, o->pieces, o->packed.data, err);
        touch_end(s->device->agent, &o->packed);
        return st;
    }
    return o->way == MAT_BY_KERNEL
               ? convert(s, &o->convert, o->source.view.data, o->packed.data, err)
               : ST_OK;
}

// ---- products ----

enum status mat_send(struct hsa_stream * s, const struct mat_plan * p, struct error * err) {
    struct mat_at at = {0};
    enum status st = mat_begins_piece(p, &at) ? ST_OK : bring(s, &p->a, err);
    if (st == ST_OK) {
        st = bring(s, &p->b, err);
    }
    bool more = true;
    while (st == ST_OK && more) {
        char * addr[PLAN_OPERANDS] = {NULL};
        struct kernel_spec spec = mat_part(p, s->device->npu->arch, &at, addr);
        st = mat_begins_piece(p, &at) ? bring_piece(s, p, &at, err) : ST_OK;
        if (st == ST_OK) {
            st = npu_dispatch(s, &spec, addr, err);
        }
        more = mat_next(p, &at);
    }
    return st;
}

void mat_put_zeros(struct hsac_agent * a, const struct ggml_tensor * t) {
    struct view all = view_of(t);
    touch_begin(a, &all);
    for (int64_t row = 0; row < ggml_nrows(t); row++) {
        char * at = (char *) t->data + (size_t) (row % t->ne[1]) * t->nb[1] +
                    (size_t) (row / t->ne[1] % t->ne[2]) * t->nb[2] +
                    (size_t) (row / t->ne[1] / t->ne[2]) * t->nb[3];
        for (int64_t i = 0; i < t->ne[0]; i++) {
            memset(at + (size_t) i * t->nb[0], 0, ggml_type_size(t->type));
        }
    }
    touch_end(a, &all);
}

// ---- operands that were packed lately ----

void mat_forget(struct hsa_stream * s, const void * begin, size_t bytes) {
    const char * from = begin;
    for (int i = 0; i < RECENT_PACKED; i++) {
        struct mat_recent * r = &s->npu->recent[i];
        const char * data = r->source.view.data;
        if (r->data && from < data + view_bytes(&r->source.view) && data < from + bytes) {
            r->data = NULL;
        }
    }
}

static void remember(struct hsa_stream * s, const struct mat_operand * o) {
    if (o->way != MAT_AS_IT_STANDS) {
        s->npu->recent[s->npu->next_recent++ % RECENT_PACKED] =
            (struct mat_recent){.source = o->source,
                                .pieces = o->pieces,
                                .limited = mat_is_limited(o),
                                .data = o->packed.data};
    }
}

static bool recall(const struct hsa_stream * s, struct mat_operand * o) {
    for (int i = 0; i < RECENT_PACKED && o->way != MAT_AS_IT_STANDS; i++) {
        const struct mat_recent * r = &s->npu->recent[i];
        if (r->data && r->pieces == o->pieces && r->limited == mat_is_limited(o) &&
            mat_same_source(&r->source, &o->source)) {
            mat_use(o, &(struct view){.data = r->data});
            return true;
        }
    }
    return false;
}

// Makes room in scratch for the forms that the plan still has to make. If scratch was given back
// for it, the forms that were found there are gone as well.
static enum status make_room(struct hsa_stream * s, struct mat_plan * p, char ** room,
                             struct error * err) {
    struct mat_plan fresh = *p;
    for (;;) {
        bool recalled = recall(s, &p->a);
        recalled |= recall(s, &p->b);
        unsigned before = s->n_resets;
        size_t bytes = mat_scratch(p);
        enum status st = bytes ? stream_scratch(s, bytes, room, err) : ST_OK;
        if (st != ST_OK || !recalled || s->n_resets == before) {
            return st;
        }
        *p = fresh;
    }
}

// ---- nodes ----

static enum status compute(struct hsa_stream * s, struct mat_plan * p, struct error * err) {
    char * room = NULL;
    enum status st = make_room(s, p, &room, err);
    if (st == ST_OK && mat_reads_on_host(p)) {
        st = stream_wait(s, err); // the operands may be results that are still on their way
    }
    if (st == ST_OK) {
        mat_place(p, room);
        st = mat_send(s, p, err);
    }
    if (st == ST_OK) {
        if (!p->by_pieces) { // of which the last one is there
            remember(s, &p->a);
        }
        remember(s, &p->b);
    }
    if (st == ST_OK && p->result.staged) {
        atomic_fetch_add(&s->device->staged_operands, 1);
        st = stream_wait(s, err);
        if (st == ST_OK) {
            st = npu_copy_by_host(s, &p->result.kernel, &p->result.tensor, err);
        }
    }
    return st;
}

enum status mat_compute(struct hsa_stream * s, const struct ggml_tensor * node,
                        struct error * err) {
    struct kernel_panel panel = {0};
    if (node->src[0]) {
        struct view weights = view_of(node->src[0]);
        panel = panels_of(buffer_panels(node->src[0]), &weights);
    }
    return mat_compute_as(s, node, panel, err);
}

// The plan of a node, and the form of its weights that is kept, where one is. Weights that cannot
// be kept as block floats, because there is no memory or no such block, go another way.
static enum status plan_with(struct hsa_stream * s, const struct ggml_tensor * node,
                             struct mat_world * w, struct mat_plan * p, struct shadow ** shadow,
                             struct error * err) {
    enum status st = mat_plan_node(*w, node, p, err);
    if (st != ST_OK || p->nothing_to_add) {
        return st;
    }
    struct mat_operand * o = p->a.weights ? &p->a : &p->b;
    if (o->way != MAT_AS_IT_STANDS && !mat_streams(&o->source, o->pieces)) {
        st = mat_shadow(s, o->weights, &o->source, o->pieces, NULL, shadow, err);
    }
    if (*shadow) {
        struct view packed = shadow_view(*shadow);
        mat_use(o, &packed);
    } else if (st == ST_OK && p->stored) {
        w->unstored = true;
        return plan_with(s, node, w, p, shadow, err);
    }
    return st;
}

enum status mat_compute_as(struct hsa_stream * s, const struct ggml_tensor * node,
                           struct kernel_panel panel, struct error * err) {
    struct mat_plan p;
    struct mat_world w = mat_world_here(s);
    struct shadow * shadow = NULL;
    w.panel = panel;
    enum status st = plan_with(s, node, &w, &p, &shadow, err);
    if (st != ST_OK) {
        return st;
    }
    if (p.nothing_to_add) {
        st = stream_wait(s, err);
        if (st == ST_OK) {
            mat_put_zeros(s->device->agent, node);
        }
        return st;
    }
    st = compute(s, &p, err);
    npu_hold(s, shadow);
    return st;
}
