// decoder: see decoder.h. One table says what weights there are and how large; the graph follows
// llama.cpp's order of nodes, so that what is counted here is what a backend is given there.
#include "decoder.h"

#include <math.h>
#include <string.h>

// ---- models ----

bool decoder_model_add(struct decoder_model * m, const enum ggml_type types[DECODER_LAYER_WEIGHTS],
                       bool slides) {
    int i = 0;
    while (i < m->n_kinds && (memcmp(m->kinds[i].types, types, sizeof m->kinds[i].types) != 0 ||
                              m->kinds[i].slides != slides)) {
        i++;
    }
    if (i == DECODER_MOST_KINDS || m->n_layers == DECODER_MOST_LAYERS) {
        return false;
    }
    if (i == m->n_kinds) {
        memcpy(m->kinds[i].types, types, sizeof m->kinds[i].types);
        m->kinds[i].slides = slides;
        m->n_kinds++;
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

int64_t decoder_rows(const struct decoder_model * m, int kind, int64_t context) {
    enum { BATCH = 512, MULTIPLE = 256 };
    int64_t most = GGML_PAD(m->decoder.window + BATCH, MULTIPLE);
    return m->kinds[kind].slides && most < context ? most : context;
}

// ---- weights ----

enum size { NONE, EMBD, HEADS, KV, QKV, HEAD, N_HEADS, FF, TWO_FF, VOCAB, HALF_ROPE, EXPERTS };

static const struct {
    const char * name;
    enum size columns, rows, matrices;
} weights[DECODER_WEIGHTS] = {
    [DECODER_ATTN_NORM] = {"attn_norm.weight", EMBD, NONE, NONE},
    [DECODER_Q] = {"attn_q.weight", EMBD, HEADS, NONE},
    [DECODER_K] = {"attn_k.weight", EMBD, KV, NONE},
    [DECODER_V] = {"attn_v.weight", EMBD, KV, NONE},
    [DECODER_OUT] = {"attn_output.weight", HEADS, EMBD, NONE},
    [DECODER_FFN_NORM] = {"ffn_norm.weight", EMBD, NONE, NONE},
    [DECODER_GATE] = {"ffn_gate.weight", EMBD, FF, NONE},
    [DECODER_UP] = {"ffn_up.weight", EMBD, FF, NONE},
    [DECODER_DOWN] = {"ffn_down.weight", FF, EMBD, NONE},
    [DECODER_Q_BIAS] = {"attn_q.bias", HEADS, NONE, NONE},
    [DECODER_K_BIAS] = {"attn_k.bias", KV, NONE, NONE},
    [DECODER_V_BIAS] = {"attn_v.bias", KV, NONE, NONE},
    [DECODER_OUT_BIAS] = {"attn_output.bias", EMBD, NONE, NONE},
    [DECODER_Q_NORM] = {"attn_q_norm.weight", HEAD, NONE, NONE},
    [DECODER_K_NORM] = {"attn_k_norm.weight", HEAD, NONE, NONE},
    [DECODER_ATTN_POST_NORM] = {"post_attention_norm.weight", EMBD, NONE, NONE},
    [DECODER_FFN_POST_NORM] = {"post_ffw_norm.weight", EMBD, NONE, NONE},
    [DECODER_SINKS] = {"attn_sinks.weight", N_HEADS, NONE, NONE},
    [DECODER_QKV] = {"attn_qkv.weight", EMBD, QKV, NONE},
    [DECODER_GATE_UP] = {"ffn_up.weight", EMBD, TWO_FF, NONE},
    [DECODER_ROUTER] = {"ffn_gate_inp.weight", EMBD, EXPERTS, NONE},
    [DECODER_ROUTER_BIAS] = {"ffn_gate_inp.bias", EXPERTS, NONE, NONE},
    [DECODER_GATE_EXPERTS] = {"ffn_gate_exps.weight", EMBD, FF, EXPERTS},
    [DECODER_UP_EXPERTS] = {"ffn_up_exps.weight", EMBD, FF, EXPERTS},
    [DECODER_DOWN_EXPERTS] = {"ffn_down_exps.weight", FF, EMBD, EXPERTS},
    [DECODER_GATE_EXPERTS_BIAS] = {"ffn_gate_exps.bias", FF, EXPERTS, NONE},
    [DECODER_UP_EXPERTS_BIAS] = {"ffn_up_exps.bias", FF, EXPERTS, NONE},
    [DECODER_DOWN_EXPERTS_BIAS] = {"ffn_down_exps.bias", EMBD, EXPERTS, NONE},
    [DECODER_ROPE_FACTORS] = {"rope_freqs.weight", HALF_ROPE, NONE, NONE},
    [DECODER_EMBD] = {"token_embd.weight", EMBD, VOCAB, NONE},
    [DECODER_OUTPUT_NORM] = {"output_norm.weight", EMBD, NONE, NONE},
    [DECODER_OUTPUT] = {"output.weight", EMBD, VOCAB, NONE},
};

const char * decoder_weight_name(enum decoder_weight w) {
    return weights[w].name;
}

void decoder_weight_shape(const struct decoder * d, enum decoder_weight w, int64_t ne[3]) {
    const int64_t sizes[] = {
        [NONE] = 0,
        [EMBD] = d->embd,
        [HEADS] = d->heads * d->head_dim,
        [KV] = d->kv_heads * d->head_dim,
        [QKV] = (d->heads + 2 * d->kv_heads) * d->head_dim,
        [HEAD] = d->head_dim,
        [N_HEADS] = d->heads,
        [FF] = d->ff,
        [TWO_FF] = 2 * d->ff,
        [VOCAB] = d->vocab,
        [HALF_ROPE] = d->rope_dims / 2,
        [EXPERTS] = d->experts,
    };
    ne[0] = sizes[weights[w].columns];
    ne[1] = sizes[weights[w].rows];
    ne[2] = sizes[weights[w].matrices];
}

uint64_t decoder_weight_bytes(const struct decoder * d, enum decoder_weight w, enum ggml_type type,
                              bool used) {
    int64_t ne[3];
    decoder_weight_shape(d, w, ne);
    int64_t matrices = ne[2] && used ? d->used : ne[2];
    return ggml_row_size(type, ne[0]) * (uint64_t) (ne[1] ? ne[1] : 1) *
           (uint64_t) (matrices ? matrices : 1);
}

static void add(struct ggml_context * ctx, const struct decoder * d, enum decoder_weight first,
                enum decoder_weight end, struct decoder_tensors * t) {
    for (int w = first; w < (int) end; w++) {
        int64_t ne[3];
        decoder_weight_shape(d, (enum decoder_weight) w, ne);
        t->weights[w] = !d->has[w] ? NULL
                        : ne[2]    ? ggml_new_tensor_3d(ctx, d->types[w], ne[0], ne[1], ne[2])
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

// Heads of q or k, [head_dim, heads, tokens]: normed where the model does so, and turned.
static struct ggml_tensor * heads(struct ggml_context * ctx, const struct decoder * d,
                                  const struct decoder_tensors * t, struct ggml_tensor * x,
                                  enum decoder_weight normed) {
    return turned(ctx, d, t, t->weights[normed] ? norm(ctx, d, x, t->weights[normed]) : x);
}

static struct ggml_tensor * cached(struct ggml_context * ctx, const struct decoder * d,
                                   struct ggml_tensor * cache) {
    size_t head = ggml_row_size(cache->type, d->head_dim);
    struct ggml_tensor * v =
        ggml_view_4d(ctx, cache, d->head_dim, d->kv_heads, cache->ne[1], 1, head, cache->nb[1],
                     cache->nb[1] * (size_t) cache->ne[1], 0);
    return ggml_permute(ctx, v, 0, 2, 1, 3);
}

static struct ggml_tensor * scaled(struct ggml_context * ctx, struct ggml_tensor * x, float by) {
    return by == 0 ? x : ggml_scale(ctx, x, by);
}

static struct ggml_tensor * capped(struct ggml_context * ctx, struct ggml_tensor * x, float cap) {
    return cap == 0 ? x : ggml_scale(ctx, ggml_tanh(ctx, ggml_scale(ctx, x, 1.0f / cap)), cap);
}

static struct ggml_tensor * attend(struct ggml_context * ctx, const struct decoder * d,
                                   const struct decoder_tensors * t, struct ggml_tensor * q,
                                   bool flash) {
    int64_t tokens = q->ne[2];
    float scale = d->scales_queries ? 1 : 1.0f / sqrtf((float) d->head_dim);
    q = ggml_permute(ctx, q, 0, 2, 1, 3);
    struct ggml_tensor *k = cached(ctx, d, t->k), *v = cached(ctx, d, t->v), *out;
    if (flash) {
        out = ggml_flash_attn_ext(ctx, q, k, v, t->mask, scale, 0, d->attn_cap);
        out->op_params[FLASH_PRECISION] = GGML_PREC_F32;
        ggml_flash_attn_ext_add_sinks(out, t->weights[DECODER_SINKS]);
        return ggml_reshape_2d(ctx, out, d->head_dim * d->heads, tokens);
    }
    out = ggml_mul_mat(ctx, k, q);
    out->op_params[PRODUCT_PRECISION] = GGML_PREC_F32;
    out = d->attn_cap == 0 ? out : capped(ctx, out, d->attn_cap);
    out = ggml_soft_max_ext(ctx, out, t->mask, scale, 0);
    ggml_soft_max_add_sinks(out, t->weights[DECODER_SINKS]);
    out = ggml_mul_mat(ctx, ggml_cont(ctx, ggml_transpose(ctx, v)), out);
    out = ggml_permute(ctx, out, 0, 2, 1, 3);
    return ggml_cont_2d(ctx, out, d->head_dim * d->heads, tokens);
}

struct ggml_tensor * decoder_embed(struct ggml_context * ctx, const struct decoder * d,
                                   const struct decoder_tensors * t) {
    struct ggml_tensor * x = ggml_get_rows(ctx, t->weights[DECODER_EMBD], t->tokens);
    return scaled(ctx, x, d->embd_scale);
}

// The three of a token, from one product or from three.
static void project(struct ggml_context * ctx, const struct decoder * d,
                    const struct decoder_tensors * t, struct ggml_tensor * h,
                    struct ggml_tensor * out[3]) {
    struct ggml_tensor * const * w = t->weights;
    const int64_t n[3] = {d->heads, d->kv_heads, d->kv_heads};
    struct ggml_tensor * all = w[DECODER_QKV] ? ggml_mul_mat(ctx, w[DECODER_QKV], h) : NULL;
    int64_t before = 0;
    for (int i = 0; i < 3; i++) {
        if (all) {
            out[i] = ggml_view_3d(ctx, all, d->head_dim, n[i], h->ne[1],
                                  ggml_row_size(all->type, d->head_dim), all->nb[1],
                                  ggml_row_size(all->type, before * d->head_dim));
        } else {
            out[i] = biased(ctx, ggml_mul_mat(ctx, w[DECODER_Q + i], h), w[DECODER_Q_BIAS + i]);
            out[i] = ggml_reshape_3d(ctx, out[i], d->head_dim, n[i], h->ne[1]);
        }
        before += n[i];
    }
}

// ---- experts ----

static struct ggml_tensor * chosen(struct ggml_context * ctx, const struct decoder_tensors * t,
                                   enum decoder_weight w, struct ggml_tensor * x,
                                   struct ggml_tensor * ids) {
    static const enum decoder_weight biases[DECODER_WEIGHTS] = {
        [DECODER_GATE_EXPERTS] = DECODER_GATE_EXPERTS_BIAS,
        [DECODER_UP_EXPERTS] = DECODER_UP_EXPERTS_BIAS,
        [DECODER_DOWN_EXPERTS] = DECODER_DOWN_EXPERTS_BIAS,
    };
    struct ggml_tensor * bias = t->weights[biases[w]];
    x = ggml_mul_mat_id(ctx, t->weights[w], x, ids);
    return bias ? ggml_add_id(ctx, x, bias, ids) : x;
}

// How much each of the chosen ones counts, [1, used, tokens].
static struct ggml_tensor * shares(struct ggml_context * ctx, const struct decoder * d,
                                   struct ggml_tensor * probs, struct ggml_tensor * ids) {
    const float least = 6.103515625e-5f; // nothing is divided by less
    int64_t tokens = ids->ne[1];
    struct ggml_tensor * x =
        ggml_get_rows(ctx, ggml_reshape_3d(ctx, probs, 1, d->experts, tokens), ids);
    x = ggml_reshape_2d(ctx, x, d->used, tokens);
    x = d->chosen_first ? ggml_soft_max(ctx, x)
                        : ggml_div(ctx, x, ggml_clamp(ctx, ggml_sum_rows(ctx, x), least, INFINITY));
    return ggml_reshape_3d(ctx, x, 1, d->used, tokens);
}

static struct ggml_tensor * mixture(struct ggml_context * ctx, struct ggml_cgraph * graph,
                                    const struct decoder * d, const struct decoder_tensors * t,
                                    struct ggml_tensor * h) {
    const float alpha = 1.702f, limit = 7;
    int64_t tokens = h->ne[1];
    struct ggml_tensor * probs = biased(ctx, ggml_mul_mat(ctx, t->weights[DECODER_ROUTER], h),
                                        t->weights[DECODER_ROUTER_BIAS]);
    probs = d->chosen_first ? probs : ggml_soft_max(ctx, probs);
    struct ggml_tensor * ids = ggml_argsort(ctx, probs, GGML_SORT_ORDER_DESC);
    ids = ggml_view_4d(ctx, ids, d->used, tokens, 1, 1, ids->nb[1], ids->nb[2], ids->nb[3], 0);
    struct ggml_tensor * share = shares(ctx, d, probs, ids);
    ggml_build_forward_expand(graph, share);
    h = ggml_reshape_3d(ctx, h, h->ne[0], 1, tokens);
    struct ggml_tensor * up = chosen(ctx, t, DECODER_UP_EXPERTS, h, ids);
    struct ggml_tensor * gate = chosen(ctx, t, DECODER_GATE_EXPERTS, h, ids);
    h = d->oai ? ggml_swiglu_oai(ctx, gate, up, alpha, limit) : ggml_swiglu_split(ctx, gate, up);
    h = ggml_mul(ctx, chosen(ctx, t, DECODER_DOWN_EXPERTS, h, ids), share);
    ggml_build_forward_expand(graph, h);
    struct ggml_tensor * sum = NULL;
    for (int64_t i = 0; i < d->used; i++) {
        struct ggml_tensor * one =
            ggml_view_2d(ctx, h, h->ne[0], tokens, h->nb[2], (size_t) i * h->nb[1]);
        sum = sum ? ggml_add(ctx, sum, one) : one;
    }
    return d->used == 1 ? ggml_cont(ctx, sum) : sum;
}

static struct ggml_tensor * feed_forward(struct ggml_context * ctx, const struct decoder * d,
                                         const struct decoder_tensors * t, struct ggml_tensor * h) {
    struct ggml_tensor * const * w = t->weights;
    if (w[DECODER_GATE_UP]) {
        h = ggml_swiglu(ctx, ggml_mul_mat(ctx, w[DECODER_GATE_UP], h));
        return ggml_mul_mat(ctx, w[DECODER_DOWN], h);
    }
    struct ggml_tensor * up = ggml_mul_mat(ctx, w[DECODER_UP], h);
    struct ggml_tensor * gate = ggml_mul_mat(ctx, w[DECODER_GATE], h);
    h = d->gelu ? ggml_geglu_split(ctx, gate, up) : ggml_swiglu_split(ctx, gate, up);
    return ggml_mul_mat(ctx, w[DECODER_DOWN], h);
}

// ---- layers ----

struct ggml_tensor * decoder_layer(struct ggml_context * ctx, struct ggml_cgraph * graph,
                                   const struct decoder * d, const struct decoder_tensors * t,
                                   struct ggml_tensor * x, bool flash) {
    struct ggml_tensor * const * w = t->weights;
    struct ggml_tensor *h = norm(ctx, d, x, w[DECODER_ATTN_NORM]), *qkv[3];
    project(ctx, d, t, h, qkv);
    struct ggml_tensor * q = heads(ctx, d, t, qkv[0], DECODER_Q_NORM);
    q = d->scales_queries ? ggml_scale(ctx, q, 1.0f / sqrtf((float) d->head_dim)) : q;
    struct ggml_tensor * k = heads(ctx, d, t, qkv[1], DECODER_K_NORM);
    ggml_build_forward_expand(graph, q);
    k = ggml_reshape_2d(ctx, k, d->head_dim * d->kv_heads, k->ne[2]);
    struct ggml_tensor * v = qkv[2];
    v = ggml_view_2d(ctx, v, d->head_dim * d->kv_heads, v->ne[2], v->nb[2], 0);
    ggml_build_forward_expand(graph, v); // in llama.cpp's order: all of these, then the cache
    ggml_build_forward_expand(graph, k);
    ggml_build_forward_expand(graph, ggml_set_rows(ctx, t->k, k, t->rows));
    ggml_build_forward_expand(graph, ggml_set_rows(ctx, t->v, v, t->rows));
    h = ggml_mul_mat(ctx, w[DECODER_OUT], attend(ctx, d, t, q, flash));
    h = biased(ctx, h, w[DECODER_OUT_BIAS]);
    // Where nothing is in front of the experts, the norm behind attention is meant for them.
    bool post = w[DECODER_ATTN_POST_NORM] && w[DECODER_FFN_NORM];
    h = post ? norm(ctx, d, h, w[DECODER_ATTN_POST_NORM]) : h;
    x = ggml_add(ctx, scaled(ctx, h, d->residual_scale), x);
    h = norm(ctx, d, x, w[w[DECODER_FFN_NORM] ? DECODER_FFN_NORM : DECODER_ATTN_POST_NORM]);
    h = d->experts ? mixture(ctx, graph, d, t, h) : feed_forward(ctx, d, t, h);
    h = w[DECODER_FFN_POST_NORM] ? norm(ctx, d, h, w[DECODER_FFN_POST_NORM]) : h;
    x = ggml_add(ctx, scaled(ctx, h, d->residual_scale), x);
    ggml_build_forward_expand(graph, x);
    return x;
}

struct ggml_tensor * decoder_head(struct ggml_context * ctx, const struct decoder * d,
                                  const struct decoder_tensors * t, struct ggml_tensor * x) {
    x = ggml_view_2d(ctx, x, x->ne[0], 1, x->nb[1], x->nb[1] * (size_t) (x->ne[1] - 1));
    x = norm(ctx, d, x, t->weights[DECODER_OUTPUT_NORM]);
    struct ggml_tensor * table =
        t->weights[t->weights[DECODER_OUTPUT] ? DECODER_OUTPUT : DECODER_EMBD];
    x = scaled(ctx, ggml_mul_mat(ctx, table, x), d->logits_scale);
    return capped(ctx, x, d->logits_cap);
}
