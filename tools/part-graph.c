// part-graph: see part-graph.h. Attention is one node where the device takes it, as both programs
// have it by default; else the graph is made again with products.
#include "part-graph.h"

#include <stdio.h>
#include <string.h>

// ---- weights ----

struct ggml_tensor * part_weight(struct maker * m, bool needed, const char * name, int64_t ne0,
                                 int64_t ne1, int64_t ne2, int64_t ne3) {
    const struct part_tensor * t = part_file_find(m->file, name);
    const int64_t want[GGML_MAX_DIMS] = {ne0, ne1 ? ne1 : 1, ne2 ? ne2 : 1, ne3 ? ne3 : 1};
    if (m->st != ST_OK || (!t && !needed)) {
        return NULL;
    }
    if (!t) {
        m->st = error_set(m->err, ST_INVALID, "%s: has no tensor '%s'; is it whole?", m->file->path,
                          name);
        return NULL;
    }
    if (memcmp(t->ne, want, sizeof want) != 0) {
        m->st = error_set(
            m->err, ST_INVALID,
            "%s: %s is [%lld, %lld, %lld, %lld], and by the file's sizes [%lld, %lld, %lld, %lld]",
            m->file->path, name, (long long) t->ne[0], (long long) t->ne[1], (long long) t->ne[2],
            (long long) t->ne[3], (long long) want[0], (long long) want[1], (long long) want[2],
            (long long) want[3]);
        return NULL;
    }
    if (!ne1 && t->type != GGML_TYPE_F32) {
        m->st = error_set(m->err, ST_UNSUPPORTED, "%s: %s is of type %s; vectors of f32 are known",
                          m->file->path, name, ggml_type_name(t->type));
        return NULL;
    }
    struct ggml_tensor * out = ggml_new_tensor(m->weights, t->type, GGML_MAX_DIMS, t->ne);
    ggml_set_name(out, name);
    out->buffer = m->of_weights;
    return out;
}

struct linear part_linear(struct maker * m, bool needed, const char * name, int64_t in,
                          int64_t out) {
    char text[GGML_MAX_NAME + 16];
    snprintf(text, sizeof text, "%s.weight", name);
    struct linear l = {part_weight(m, needed, text, in, out, 0, 0), NULL};
    snprintf(text, sizeof text, "%s.bias", name);
    l.b = part_weight(m, false, text, out ? out : in, 0, 0, 0);
    return l;
}

struct ggml_tensor * part_input(struct maker * m, const char * name, enum ggml_type type,
                                int64_t ne0, int64_t ne1, int64_t ne2) {
    struct ggml_tensor * t = ggml_new_tensor_3d(m->ctx, type, ne0, ne1, ne2);
    ggml_set_name(t, name);
    ggml_set_input(t);
    return t;
}

struct ggml_tensor * part_state(struct maker * m, const char * name, int64_t elements) {
    struct ggml_tensor * t = ggml_new_tensor_1d(m->states, GGML_TYPE_F16, elements);
    ggml_set_name(t, name);
    t->buffer = m->of_states;
    return t;
}

// ---- nodes ----

struct ggml_tensor * part_product(struct maker * m, struct linear l, struct ggml_tensor * x) {
    x = ggml_mul_mat(m->ctx, l.w, x);
    return l.b ? ggml_add(m->ctx, x, l.b) : x;
}

struct ggml_tensor * part_norm(struct maker * m, struct linear l, struct ggml_tensor * x,
                               float eps) {
    x = ggml_mul(m->ctx, ggml_norm(m->ctx, x, eps), l.w);
    return l.b ? ggml_add(m->ctx, x, l.b) : x;
}

struct ggml_tensor * part_attention(struct maker * m, struct heads h, struct ggml_tensor * q,
                                    struct ggml_tensor * k, struct ggml_tensor * v,
                                    struct ggml_tensor * mask) {
    int64_t positions = q->ne[1];
    if (m->flash) {
        struct ggml_tensor * x = ggml_flash_attn_ext(m->ctx, q, k, v, mask, h.scale, 0, 0);
        return ggml_reshape_2d(m->ctx, x, h.size * h.n, positions);
    }
    struct ggml_tensor * weights = ggml_mul_mat(m->ctx, k, q);
    weights = ggml_soft_max_ext(m->ctx, weights, mask, h.scale, 0);
    struct ggml_tensor * x = ggml_mul_mat(m->ctx, v, weights);
    return ggml_cont_2d(m->ctx, ggml_permute(m->ctx, x, 0, 2, 1, 3), h.size * h.n, positions);
}

// ---- graphs ----

static enum status begin(struct part_graph * g, ggml_backend_dev_t dev, bool flash,
                         struct error * err) {
    enum { NODES = 1 << 15 }; // of 512 layers of 64
    struct maker * m = &g->maker;
    ggml_backend_buffer_type_t type = ggml_backend_dev_buffer_type(dev);
    *m = (struct maker){.file = &g->file, .flash = flash, .err = err};
    struct ggml_init_params few = {.mem_size = ((size_t) g->file.n + 16) * ggml_tensor_overhead(),
                                   .no_alloc = true};
    struct ggml_init_params many = {.mem_size = NODES * ggml_tensor_overhead() +
                                                ggml_graph_overhead_custom(NODES, false),
                                    .no_alloc = true};
    m->weights = ggml_init(few);
    m->states = ggml_init(few);
    m->ctx = ggml_init(many);
    m->of_weights = ggml_backend_buft_alloc_buffer(type, 0);
    m->of_states = ggml_backend_buft_alloc_buffer(type, 0);
    if (!m->weights || !m->states || !m->ctx || !m->of_weights || !m->of_states) {
        return error_set(err, ST_NO_MEMORY, "no memory for the graph");
    }
    ggml_backend_buffer_set_usage(m->of_weights, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    m->graph = ggml_new_graph_custom(m->ctx, NODES, false);
    return ST_OK;
}

static void end(struct maker * m) {
    ggml_backend_buffer_free(m->of_weights);
    ggml_backend_buffer_free(m->of_states);
    ggml_free(m->weights);
    ggml_free(m->states);
    ggml_free(m->ctx);
    *m = (struct maker){0};
}

static enum status make(struct part_graph * g, const struct part_way * way, ggml_backend_dev_t dev,
                        int64_t context, bool flash, struct error * err) {
    enum status st = begin(g, dev, flash, err);
    g->facts = (struct graph_facts){0};
    if (st == ST_OK && way->kind == PART_VISION) {
        vision_graph(&g->maker, &g->facts);
    } else if (st == ST_OK) {
        whisper_graph(&g->maker, way->kind, context, &g->facts);
    }
    return st == ST_OK ? g->maker.st : st;
}

// The attention that the device does not take as one node; NULL: it takes all.
static const struct ggml_tensor * refused(ggml_backend_dev_t dev, struct ggml_cgraph * graph) {
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        const struct ggml_tensor * t = ggml_graph_node(graph, i);
        if (t->op == GGML_OP_FLASH_ATTN_EXT && !ggml_backend_dev_supports_op(dev, t)) {
            return t;
        }
    }
    return NULL;
}

enum status part_graph_open(const struct part_way * way, ggml_backend_dev_t dev, int64_t context,
                            struct part_graph * out, struct error * err) {
    *out = (struct part_graph){0};
    enum status st = part_file_open(way->file, &out->file, err);
    st = st == ST_OK ? make(out, way, dev, context, true, err) : st;
    const struct ggml_tensor * flash = st == ST_OK ? refused(dev, out->maker.graph) : NULL;
    if (flash) {
        snprintf(out->left, sizeof out->left, "heads of %lld over %lld positions are not taken",
                 (long long) flash->src[0]->ne[0], (long long) flash->src[1]->ne[1]);
        end(&out->maker);
        st = make(out, way, dev, context, false, err);
    }
    return st;
}

void part_graph_close(struct part_graph * g) {
    end(&g->maker);
    part_file_close(&g->file);
}
