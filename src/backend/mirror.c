// mirror: a graph for the CPU on tensors in memory that it does not see. What the nodes read or
// write is copied to the host, the nodes are rewritten to use the copies, and afterwards what they
// wrote is copied back.
//
// Kept true: tensors that share bytes on the device share them here, at the same distance, so that
// views, results in place and nodes that build on each other work as they do there. Bytes between a
// result's elements go back as they came.
#include "backend.h"

#include <stdlib.h>
#include <string.h>

enum { OPERANDS = 1 + GGML_MAX_SRC }; // of a node, with itself

struct mirror_range { // of a device's memory
    char *begin, *end;
    struct hsac_agent * agent;
    char * host; // what is at begin
};

struct mirror {
    struct mirror_range * ranges; // by their addresses; none overlaps another
    size_t n_ranges;
    char * memory;
    int n_nodes;
    struct ggml_tensor ** nodes;  // of the device
    struct ggml_tensor * tensors; // OPERANDS for each node, of the host
};

// ---- which bytes ----

static enum status add_range(struct mirror * m, const struct ggml_tensor * t, struct error * err) {
    struct hsac_agent * agent;
    if (!t || ggml_nbytes(t) == 0) {
        return ST_OK;
    }
    if (!buffer_find(t, &agent)) {
        return error_set(err, ST_UNSUPPORTED, "\"%s\" lies in memory of another device", t->name);
    }
    if (agent) {
        m->ranges[m->n_ranges++] =
            (struct mirror_range){t->data, (char *) t->data + ggml_nbytes(t), agent, NULL};
    }
    return ST_OK;
}

static int by_address(const void * a, const void * b) {
    const struct mirror_range *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void join_ranges(struct mirror * m) {
    size_t n = 0;
    qsort(m->ranges, m->n_ranges, sizeof *m->ranges, by_address);
    for (size_t i = 0; i < m->n_ranges; i++) {
        struct mirror_range * last = n ? &m->ranges[n - 1] : NULL;
        if (last && m->ranges[i].begin < last->end) {
            last->end = last->end > m->ranges[i].end ? last->end : m->ranges[i].end;
        } else {
            m->ranges[n++] = m->ranges[i];
        }
    }
    m->n_ranges = n;
}

static struct mirror_range * find_range(const struct mirror * m, const char * at) {
    size_t low = 0, high = m->n_ranges;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->ranges[middle].end <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < m->n_ranges && m->ranges[low].begin <= at ? &m->ranges[low] : NULL;
}

// ---- copies ----

// An address has the same place within BUFFER_ALIGNMENT as on the device.
static enum status read_ranges(struct mirror * m, struct error * err) {
    size_t bytes = 0;
    for (size_t i = 0; i < m->n_ranges; i++) {
        bytes += GGML_PAD((size_t) (m->ranges[i].end - m->ranges[i].begin), BUFFER_ALIGNMENT) +
                 BUFFER_ALIGNMENT;
    }
    m->memory = aligned_alloc(BUFFER_ALIGNMENT, bytes);
    if (!m->memory) {
        return error_set(err, ST_NO_MEMORY, "no memory on the host for %zu bytes of operands",
                         bytes);
    }
    enum status st = ST_OK;
    char * room = m->memory;
    for (size_t i = 0; i < m->n_ranges && st == ST_OK; i++) {
        struct mirror_range * r = &m->ranges[i];
        size_t size = (size_t) (r->end - r->begin);
        r->host = room + (uintptr_t) r->begin % BUFFER_ALIGNMENT;
        room += GGML_PAD(size, BUFFER_ALIGNMENT) + BUFFER_ALIGNMENT;
        st = hsac_read(r->agent, r->host, r->begin, size, err);
    }
    return st;
}

static struct ggml_tensor * reflect(const struct mirror * m, const struct ggml_tensor * t,
                                    struct ggml_tensor * copy) {
    const struct mirror_range * r = find_range(m, t->data);
    *copy = *t;
    copy->data = r ? r->host + ((char *) t->data - r->begin) : t->data;
    return copy;
}

enum status mirror_new(struct ggml_cgraph * graph, struct mirror ** out, struct error * err) {
    struct mirror * m = calloc(1, sizeof *m);
    int n = ggml_graph_n_nodes(graph);
    enum status st = ST_OK;
    *out = NULL;
    if (m) {
        m->n_nodes = n;
        m->ranges = calloc((size_t) n * OPERANDS, sizeof *m->ranges);
        m->nodes = calloc((size_t) n, sizeof *m->nodes);
    }
    if (!m || !m->ranges || !m->nodes) {
        mirror_free(m);
        return error_set(err, ST_NO_MEMORY, "no memory for a graph on the CPU");
    }
    for (int i = 0; i < n && st == ST_OK; i++) {
        m->nodes[i] = ggml_graph_node(graph, i);
        st = add_range(m, m->nodes[i], err);
        for (int s = 0; s < GGML_MAX_SRC && st == ST_OK; s++) {
            st = add_range(m, m->nodes[i]->src[s], err);
        }
    }
    if (st != ST_OK || m->n_ranges == 0) { // the CPU sees everything
        mirror_free(m);
        return st;
    }
    join_ranges(m);
    m->tensors = calloc((size_t) n * OPERANDS, sizeof *m->tensors);
    st = m->tensors ? read_ranges(m, err)
                    : error_set(err, ST_NO_MEMORY, "no memory for a graph on the CPU");
    if (st != ST_OK) {
        mirror_free(m);
        return st;
    }
    struct ggml_tensor ** nodes = ggml_graph_nodes(graph);
    for (int i = 0; i < n; i++) {
        struct ggml_tensor * copies = m->tensors + (size_t) i * OPERANDS;
        nodes[i] = reflect(m, m->nodes[i], copies);
        for (int s = 0; s < GGML_MAX_SRC; s++) {
            const struct ggml_tensor * src = m->nodes[i]->src[s];
            nodes[i]->src[s] = src ? reflect(m, src, copies + 1 + s) : NULL;
        }
    }
    *out = m;
    return ST_OK;
}

enum status mirror_write(const struct mirror * m, struct error * err) {
    enum status st = ST_OK;
    for (int i = 0; m && i < m->n_nodes; i++) {
        const struct ggml_tensor * written[OP_MAX_WRITES];
        int n = op_writes(m->nodes[i], written);
        for (int k = 0; k < n && st == ST_OK; k++) {
            const struct mirror_range * r = find_range(m, written[k]->data);
            if (r) {
                const char * from = r->host + ((char *) written[k]->data - r->begin);
                st = hsac_write(r->agent, written[k]->data, from, ggml_nbytes(written[k]), err);
            }
        }
    }
    return st;
}

void mirror_free(struct mirror * m) {
    if (m) {
        free(m->ranges);
        free(m->memory);
        free(m->nodes);
        free(m->tensors);
        free(m);
    }
}
