// asm/text-trace: what the passes did to a program, remembered while it is made and told to whoever
// listens. Programs may be laid out more than once; what is told is the last time. Without a
// listener there is no trace, and nothing here costs more than a look at a pointer.
//
// The listener belongs to the thread, so that kernels need not be told of it.
#include "text-impl.h"

#include <stdlib.h>
#include <string.h>

static const char * const pass_names[ASM_PASS_COUNT] = {
    [ASM_PASS_BUILT] = "built", [ASM_PASS_DEPS] = "dependences", [ASM_PASS_SCHEDULE] = "schedule",
    [ASM_PASS_LOOPS] = "loops", [ASM_PASS_BUNDLES] = "bundles",  [ASM_PASS_BYTES] = "bytes",
};

const char * asm_pass_name(enum asm_pass pass) {
    return pass_names[pass];
}

bool asm_pass_parse(const char * name, enum asm_pass * out) {
    for (int i = 0; i < ASM_PASS_COUNT; i++) {
        if (!strcmp(name, pass_names[i])) {
            *out = (enum asm_pass) i;
            return true;
        }
    }
    return false;
}

static _Thread_local const struct asm_listener * listener;

void asm_listen(const struct asm_listener * to) {
    listener = to;
}

bool asm_trace_new(struct asm_trace ** out) {
    *out = listener ? calloc(1, sizeof **out) : NULL;
    if (*out) {
        (*out)->to = listener;
    }
    return *out || !listener;
}

void asm_trace_free(struct asm_trace * t) {
    if (t) {
        free(t->cycle);
        free(t->op);
        free(t->time);
        free(t->time_op);
        free(t->shown);
        free(t->edges);
        free(t->loops);
        free(t);
    }
}

// ---- what is remembered ----

// The node of the program as it was built that this one stands for, -1: none.
static int built_node(const struct asm_program * p, int node) {
    const struct asm_trace * t = p->trace;
    if (!t || !t->cycle) {
        return -1;
    }
    if (node >= t->near && node < t->near + t->n) {
        return t->first + node - t->near;
    }
    return node < t->n_nodes ? node : -1;
}

void asm_trace_bases(struct asm_program * p, const struct asm_item * region,
                     const struct asm_item * near) {
    struct asm_trace * t = p->trace;
    if (built_node(p, region->first) < 0 || p->no_memory) {
        return;
    }
    t->near = near->first;
    t->first = region->first;
    t->n = region->count;
    for (int i = 0; i < region->count; i++) {
        t->shown[region->first + i] = near->first + i;
    }
}

void asm_trace_deps(const struct deps * d) {
    struct asm_program * p = d->p;
    struct asm_trace * t = p->trace;
    int first = built_node(p, d->first), n = 0;
    if (first < 0) {
        return;
    }
    for (int e = 0; e < t->n_edges; e++) { // without those of this region from an earlier time
        if (t->edges[e].to < first || t->edges[e].to >= first + d->count) {
            t->edges[n++] = t->edges[e];
        }
    }
    t->n_edges = n;
    for (int e = 0; e < d->n_edges; e++) {
        if (asm_grow(p, (void **) &t->edges, &t->cap_edges, t->n_edges, sizeof *t->edges)) {
            const struct dep * from = &d->edges[e];
            t->edges[t->n_edges++] = (struct trace_edge){first + from->from, first + from->to,
                                                         from->latency, from->trips};
        }
    }
}

void asm_trace_schedule(struct asm_program * p, const struct asm_item * region, int base) {
    struct asm_trace * t = p->trace;
    if (built_node(p, region->first) < 0) {
        return;
    }
    for (int b = base; b < p->n_bundles; b++) {
        const struct asm_bundle * bundle = &p->bundles[b];
        for (unsigned left = bundle->present; left; left &= left - 1) {
            int slot = __builtin_ctz(left), node = built_node(p, bundle->node[slot]);
            if (node >= 0) {
                t->cycle[node] = b - base;
                t->op[node] = bundle->op[slot];
            }
        }
    }
}

void asm_trace_loop(struct asm_program * p, const struct asm_item * region,
                    const struct pipeline * q) {
    struct asm_trace * t = p->trace;
    int first = built_node(p, region->first), at = 0;
    if (first < 0) {
        return;
    }
    while (at < t->n_loops && t->loops[at].first != first) {
        at++;
    }
    if (at == t->n_loops) {
        if (!asm_grow(p, (void **) &t->loops, &t->cap_loops, at, sizeof *t->loops)) {
            return;
        }
        t->n_loops++;
    }
    t->loops[at] = (struct trace_loop){.first = first};
    t->n = 0; // what is laid out from here on is nobody's
    if (q) {
        t->loops[at] = (struct trace_loop){first,     q->ii,          q->copies,
                                           q->stages, q->resource_ii, q->recurrence_ii};
        for (int i = 0; i < region->count; i++) {
            t->time[first + i] = q->time[i];
            t->time_op[first + i] = q->op[i];
        }
    }
}

// By the instruction that waits, then by the one that it waits for; the longest wait first.
static int by_waiter(const void * a, const void * b) {
    const struct trace_edge *x = a, *y = b;
    return x->to != y->to         ? x->to - y->to
           : x->trips != y->trips ? x->trips - y->trips
           : x->from != y->from   ? x->from - y->from
                                  : y->latency - x->latency;
}

static void sort_edges(struct asm_trace * t) {
    int n = 0;
    if (t->n_edges) {
        qsort(t->edges, (size_t) t->n_edges, sizeof *t->edges, by_waiter);
    }
    for (int e = 0; e < t->n_edges; e++) { // between two instructions the longest wait is enough
        const struct trace_edge * x = &t->edges[e];
        if (!n || t->edges[n - 1].to != x->to || t->edges[n - 1].from != x->from ||
            t->edges[n - 1].trips != x->trips) {
            t->edges[n++] = *x;
        }
    }
    t->n_edges = n;
}

// ---- what is reported ----

// Without memory for a text nothing of it is shown: the program is then without memory, too.
static void tell(struct asm_program * p, enum asm_pass pass, struct buf * b) {
    const struct asm_listener * to = p->trace->to;
    if (b->failed) {
        p->no_memory = true;
    } else {
        to->pass(to->user, pass, (const char *) b->data);
    }
    buf_free(b);
}

void asm_trace_built(struct asm_program * p) {
    struct asm_trace * t = p->trace;
    if (!t || p->misuse.status != ST_OK || p->no_memory) {
        return;
    }
    size_t n = (size_t) p->n_nodes + 1;
    t->n_nodes = p->n_nodes;
    t->n_vregs = p->n_vregs;
    t->cycle = malloc(n * sizeof *t->cycle);
    t->op = calloc(n, sizeof *t->op);
    t->time = calloc(n, sizeof *t->time);
    t->time_op = calloc(n, sizeof *t->time_op);
    t->shown = malloc(n * sizeof *t->shown);
    p->no_memory |= !t->cycle || !t->op || !t->time || !t->time_op || !t->shown;
    if (!p->no_memory) {
        memset(t->cycle, -1, n * sizeof *t->cycle);
        for (int i = 0; i < p->n_nodes; i++) {
            t->shown[i] = i;
        }
        struct buf b = {0};
        asm_print(p, &b);
        tell(p, p->placed ? ASM_PASS_BUNDLES : ASM_PASS_BUILT, &b);
    }
}

void asm_trace_laid_out(struct asm_program * p) {
    struct asm_trace * t = p->trace;
    if (!t || !t->cycle || p->placed || p->misuse.status != ST_OK || p->no_memory) {
        return;
    }
    sort_edges(t);
    for (int pass = ASM_PASS_DEPS; pass <= ASM_PASS_BUNDLES; pass++) {
        struct buf b = {0};
        if (pass == ASM_PASS_BUNDLES) {
            text_print_bundles(p, &b);
        } else {
            text_print_items(p, (enum asm_pass) pass, t, &b);
        }
        tell(p, (enum asm_pass) pass, &b);
    }
}

void asm_trace_bytes(struct asm_program * p, const uint8_t * bytes, size_t size) {
    if (p->trace) {
        struct buf b = {0};
        text_print_bytes(p, bytes, size, &b);
        tell(p, ASM_PASS_BYTES, &b);
    }
}
