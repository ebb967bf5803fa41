// decoder: see decoder.h. One table says what weights there are and how large; the graph follows
// llama.cpp's order of nodes, so that what is counted here is what a backend is given there.
#include "decoder.h"

#include <math.h>
#include <string.h>

// ---- models ----

bool decoder_model_add(struct decoder_model * m,
                       const enum ggml_type types[DECODER_LAYER_WEIGHTS]) {
    int i = 0;
    while (i < m->n_kinds && memcmp(m->kinds[i].types, types, sizeof m->kinds[i].types) != 0) {
        i++;
    }
    if (i == DECODER_MOST_KINDS || m->n_layers == DECODER_MOST_LAYERS) {
        return false;
    }
    if (i == m->n_kinds) {
        memcpy(m->kinds[m->n_kinds++].types, types, sizeof m->kinds[i].types);
    }
    m->kinds[i].layers++;
    m->kind_of[m->n_layers++] = (uint8_t) i;
    return true;
}

struct decoder decoder_of_kind(const struct decoder_model * m, int kind) {
    struct decoder d = m->decoder;
    memcpy(d.types, m->kinds[kind].types, sizeof m->kinds[kind].types);
    return d;
}

// ---- weights ----

enum size { NONE, EMBD, HEADS, KV, HEAD, FF, VOCAB, HALF_ROPE };

static const struct {
    const char * name;
    enum size columns, rows;
} weights[DECODER_WEIGHTS] = {
    [DECODER_ATTN_NORM] = {"attn_norm.weight", EMBD, NONE},
    [DECODER_Q] = {"attn_q.weight", EMBD, HEADS},
    [DECODER_K] = {"attn_k.weight", EMBD, KV},
    [DECODER_V] = {"attn_v.weight", EMBD, KV},
    [DECODER_OUT] = {"attn_output.weight", HEADS, EMBD},
    [DECODER_FFN_NORM] = {"ffn_norm.weight", EMBD, NONE},
    [DECODER_GATE] = {"ffn_gate.weight", EMBD, FF},
    [DECODER_UP] = {"ffn_up.weight", EMBD, FF},
    [DECODER_DOWN] = {"ffn_down.weight", FF, EMBD},
    [DECODER_Q_BIAS] = {"attn_q.bias", HEADS, NONE},
    [DECODER_K_BIAS] = {"attn_k.bias", KV, NONE},
    [DECODER_V_BIAS] = {"attn_v.bias", KV, NONE},
    [DECODER_Q_NORM] = {"attn_q_norm.weight", HEAD, NONE},
    [DECODER_K_NORM] = {"attn_k_norm.weight", HEAD, NONE},
    [DECODER_ATTN_POST_NORM] = {"post_attention_norm.weight", EMBD, NONE},
    [DECODER_FFN_POST_NORM] = {"post_ffw_norm.weight", EMBD, NONE},
    [DECODER_ROPE_FACTORS] = {"rope_freqs.weight", HALF_ROPE, NONE},
    [DECODER_EMBD] = {"token_embd.weight", EMBD, VOCAB},
    [DECODER_OUTPUT_NORM] = {"output_norm.weight", EMBD, NONE},
    [DECODER_OUTPUT] = {"output.weight", EMBD, VOCAB},
};

const char * decoder_weight_name(enum decoder_weight w) {
    return weights[w].name;
}

void decoder_weight_shape(const struct decoder * d, enum decoder_weight w, int64_t ne[2]) {
    const int64_t sizes[] = {
        [NONE] = 0,
        [EMBD] = d->embd,
        [HEADS] = d->heads * d->head_dim,
        [KV] = d->kv_heads * d->head_dim,
        [HEAD] = d->head_dim,
        [FF] = d->ff,
        [VOCAB] = d->vocab,
        [HALF_ROPE] = d->rope_dims / 2,
    };
    ne[0] = sizes[weights[w].columns];
    ne[1] = sizes[weights[w].rows];
}

static void add(struct ggml_context * ctx, const struct decoder * d, enum decoder_weight first,
                enum decoder_weight end, struct decoder_tensors * t) {
    for (int w = first; w < (int) end; w++) {
        int64_t ne[2];
        decoder_weight_shape(d, (enum decoder_weight) w, ne);
        t->weights[w] = !d->has[w] ? NULL
                        : ne[1]    ? ggml_new_tensor_2d(ctx, d->types[w], ne[0], ne[1])
                                   : ggml_new_tensor_1d(ctx, GGML_TYPE_F32, ne[0]);
        if (t->weights[w]) {
            ggml_set_name(t->weights[w], weights[w].name);
        }
    }
}

void decoder_add_layer(struct ggml_context * ctx, const struct decoder * d,
                       struct decoder_tensors * t) {
    add(ctx, d, DECODER_ATTN_NORM, DECODER_LAYER_WEIGHTS, t);
}

void decoder_add_head(struct ggml_context * ctx, const struct decoder * d,
                      struct decoder_tensors * t) {
    add(ctx, d, DECODER_EMBD, DECODER_WEIGHTS, t);
}

static struct ggml_tensor * input(struct ggml_tensor * t, const char * name) {
    ggml_set_name(t, name);
    ggml_set_input(t);
    return t;
}

void decoder_add_cache(struct ggml_context * ctx, const struct decoder * d, int64_t context,
                       struct decoder_tensors * t) {
    int64_t kv = d->kv_heads * d->head_dim;
    t->k = input(ggml_new_tensor_2d(ctx, d->kv, kv, context), "cache_k");
    t->v = input(ggml_new_tensor_2d(ctx, d->kv, kv, context), "cache_v");
}

void decoder_add_inputs(struct ggml_context * ctx, int64_t tokens, int64_t context,
                        struct decoder_tensors * t) {
    t->tokens = input(ggml_new_tensor_1d(ctx, GGML_TYPE_I32, tokens), "tokens");
    t->positions = input(ggml_new_tensor_1d(ctx, GGML_TYPE_I32, tokens), "positions");
    t->rows = input(ggml_new_tensor_1d(ctx, GGML_TYPE_I64, tokens), "rows");
    t->mask = input(ggml_new_tensor_2d(ctx, GGML_TYPE_F16, context, tokens), "mask");
}

// ---- nodes ----

// Words of op_params: the functions that set them have other names in other ggmls.
enum { PRODUCT_PRECISION = 0, FLASH_PRECISION = 3 };

static struct ggml_tensor * norm(struct ggml_context * ctx, const struct decoder * d,
                                 struct ggml_tensor * x, struct ggml_tensor * weight) {
    return ggml_mul_inplace(ctx, ggml_rms_norm(ctx, x, d->eps), weight);
}

static struct ggml_tensor * biased(struct ggml_context * ctx, struct ggml_tensor * x,
                                   struct ggml_tensor * bias) {
    return bias ? ggml_add(ctx, x, bias) : x;
}

static struct ggml_tensor * turned(struct ggml_context * ctx, const struct decoder * d,
                                   const struct decoder_tensors * t, struct ggml_tensor * x) {
    return ggml_rope_ext(ctx, x, t->positions, t->weights[DECODER_ROPE_FACTORS], (int) d->rope_dims,
                         d->neox ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL, 0, d->rope_base,
                         d->rope_scale, 0, 1, 32, 1);
}

// Heads of q, k or v: [head_dim, heads, tokens], normed where the model does so, and turned.
static struct ggml_tensor * heads(struct ggml_context * ctx, const struct decoder * d,
                                  const struct decoder_tensors * t, struct ggml_tensor * x,
                                  int64_t n, enum decoder_weight normed, bool turn) {
    x = ggml_reshape_3d(ctx, x, d->head_dim, n, x->ne[1]);
    x = normed && t->weights[normed] ? norm(ctx, d, x, t->weights[normed]) : x;
    return turn ? turned(ctx, d, t, x) : x;
}

static struct ggml_tensor * cached(struct ggml_context * ctx, const struct decoder * d,
                                   struct ggml_tensor * cache) {
    size_t head = ggml_row_size(cache->type, d->head_dim);
    struct ggml_tensor * v =
        ggml_view_4d(ctx, cache, d->head_dim, d->kv_heads, cache->ne[1], 1, head, cache->nb[1],
                     cache->nb[1] * (size_t) cache->ne[1], 0);
    return ggml_permute(ctx, v, 0, 2, 1, 3);
}

static struct ggml_tensor * capped(struct ggml_context * ctx, struct ggml_tensor * x, float cap) {
    return cap == 0 ? x : ggml_scale(ctx, ggml_tanh(ctx, ggml_scale(ctx, x, 1.0f / cap)), cap);
}

static struct ggml_tensor * attend(struct ggml_context * ctx, const struct decoder * d,
                                   const struct decoder_tensors * t, struct ggml_tensor * q,
                                   bool flash) {
    int64_t tokens = q->ne[2];
    float scale = 1.0f / sqrtf((float) d->head_dim);
    q = ggml_permute(ctx, q, 0, 2, 1, 3);
    struct ggml_tensor *k = cached(ctx, d, t->k), *v = cached(ctx, d, t->v), *out;
    if (flash) {
        out = ggml_flash_attn_ext(ctx, q, k, v, t->mask, scale, 0, d->attn_cap);
        out->op_params[FLASH_PRECISION] = GGML_PREC_F32;
        return ggml_reshape_2d(ctx, out, d->head_dim * d->heads, tokens);
    }
    out = ggml_mul_mat(ctx, k, q);
    out->op_params[PRODUCT_PRECISION] = GGML_PREC_F32;
    out = d->attn_cap == 0 ? out : capped(ctx, out, d->attn_cap);
    out = ggml_soft_max_ext(ctx, out, t->mask, scale, 0);
    out = ggml_mul_mat(ctx, ggml_cont(ctx, ggml_transpose(ctx, v)), out);
    out = ggml_permute(ctx, out, 0, 2, 1, 3);
    return ggml_cont_2d(ctx, out, d->head_dim * d->heads, tokens);
}

struct ggml_tensor * decoder_embed(struct ggml_context * ctx, const struct decoder * d,
                                   const struct decoder_tensors * t) {
    struct ggml_tensor * x = ggml_get_rows(ctx, t->weights[DECODER_EMBD], t->tokens);
    return d->embd_scale == 0 ? x : ggml_scale(ctx, x, d->embd_scale);
}

struct ggml_tensor * decoder_layer(struct ggml_context * ctx, struct ggml_cgraph * graph,
                                   const struct decoder * d, const struct decoder_tensors * t,
                                   struct ggml_tensor * x, bool flash) {
    struct ggml_tensor * const * w = t->weights;
    struct ggml_tensor * h = norm(ctx, d, x, w[DECODER_ATTN_NORM]);
    struct ggml_tensor * q = biased(ctx, ggml_mul_mat(ctx, w[DECODER_Q], h), w[DECODER_Q_BIAS]);
    struct ggml_tensor * k = biased(ctx, ggml_mul_mat(ctx, w[DECODER_K], h), w[DECODER_K_BIAS]);
    struct ggml_tensor * v = biased(ctx, ggml_mul_mat(ctx, w[DECODER_V], h), w[DECODER_V_BIAS]);
    q = heads(ctx, d, t, q, d->heads, DECODER_Q_NORM, true);
    k = heads(ctx, d, t, k, d->kv_heads, DECODER_K_NORM, true);
    ggml_build_forward_expand(graph, q);
    k = ggml_reshape_2d(ctx, k, d->head_dim * d->kv_heads, k->ne[2]);
    ggml_build_forward_expand(graph, ggml_set_rows(ctx, t->k, k, t->rows));
    ggml_build_forward_expand(graph, ggml_set_rows(ctx, t->v, v, t->rows));
    h = ggml_mul_mat(ctx, w[DECODER_OUT], attend(ctx, d, t, q, flash));
    h = w[DECODER_ATTN_POST_NORM] ? norm(ctx, d, h, w[DECODER_ATTN_POST_NORM]) : h;
    x = ggml_add(ctx, h, x);
    h = norm(ctx, d, x, w[DECODER_FFN_NORM]);
    struct ggml_tensor * up = ggml_mul_mat(ctx, w[DECODER_UP], h);
    struct ggml_tensor * gate = ggml_mul_mat(ctx, w[DECODER_GATE], h);
    h = d->gelu ? ggml_geglu_split(ctx, gate, up) : ggml_swiglu_split(ctx, gate, up);
    h = ggml_mul_mat(ctx, w[DECODER_DOWN], h);
    h = w[DECODER_FFN_POST_NORM] ? norm(ctx, d, h, w[DECODER_FFN_POST_NORM]) : h;
    x = ggml_add(ctx, h, x);
    ggml_build_forward_expand(graph, x);
    return x;
}

struct ggml_tensor * decoder_head(struct ggml_context * ctx, const struct decoder * d,
                                  const struct decoder_tensors * t, struct ggml_tensor * x) {
    x = ggml_view_2d(ctx, x, x->ne[0], 1, x->nb[1], x->nb[1] * (size_t) (x->ne[1] - 1));
    x = norm(ctx, d, x, t->weights[DECODER_OUTPUT_NORM]);
    struct ggml_tensor * table =
        t->weights[t->weights[DECODER_OUTPUT] ? DECODER_OUTPUT : DECODER_EMBD];
    return capped(ctx, ggml_mul_mat(ctx, table, x), d->logits_cap);
}
