// vision-graph: what sees of a model that llama.cpp runs with mtmd, a GGUF file of the architecture
// clip: a picture's patches through a convolution, positions, layers of attention, and a projector
// to tokens of the language model. The encoders of CLIP, SigLIP and InternViT are alike but for
// what their files lack; of projectors those of the table are known, and others refused.
//
// The picture is one tile of the size that the file names.
#include "part-graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_SIDE = 1 << 14, MOST_WIDTH = 1 << 16, MOST_LAYERS = 512, MOST_MERGE = 16, COLORS = 3 };

enum projector { MLP, GEMMA3, IDEFICS3, INTERNVL, LFM2, JANUS_PRO, PHI4 };

static const struct {
    const char * name;
    uint8_t merge;     // patches of a side that become one token, where the file does not say
    uint8_t linear[2]; // number of the products mm.N
} projectors[] = {
    [MLP] = {"mlp", 1, {0, 2}},             // of the last layer but one, without the first patch
    [GEMMA3] = {"gemma3", 4, {0, 0}},       // means of neighbours, a norm, and one product
    [IDEFICS3] = {"idefics3", 2, {0, 0}},   // neighbours side by side, and one product
    [INTERNVL] = {"internvl", 2, {1, 3}},   // the same, a norm, and two
    [LFM2] = {"lfm2", 2, {1, 2}},           // likewise
    [JANUS_PRO] = {"janus_pro", 1, {0, 1}}, // two products
    [PHI4] = {"phi4", 1, {0, 2}},           // likewise
};
enum { PROJECTORS = sizeof projectors / sizeof projectors[0] };

struct vision {
    enum projector projector;
    int64_t side, patch, across; // across: patches of a side
    int64_t embd, ff, layers, used, merge;
    struct heads heads;
    float eps;
    enum { GELU_QUICK, GELU, SILU } act;
    struct ggml_tensor *patches, *bias, *first, *positions;
    struct linear before, behind;
    struct linear norm, one, two; // of the projector
};

struct layer {
    struct linear ln1, q, k, v, qkv, out, ln2, up, gate, down;
    struct ggml_tensor *scale1, *scale2, *q_norm, *k_norm;
};

// ---- what the file says ----

static int64_t key_of(const struct maker * m, const char * name) {
    char key[96];
    snprintf(key, sizeof key, "clip.vision.%s", name);
    return gguf_find_key(m->file->gguf, key);
}

static int64_t number(struct maker * m, const char * name, int64_t most, int64_t without) {
    int64_t id = key_of(m, name);
    bool is = id >= 0 && gguf_get_kv_type(m->file->gguf, id) == GGUF_TYPE_UINT32;
    int64_t value = is ? (int64_t) gguf_get_val_u32(m->file->gguf, id) : without;
    if (m->st == ST_OK && (value < 1 || value > most)) {
        m->st =
            is ? error_set(m->err, ST_INVALID, "%s: clip.vision.%s is %lld; 1 to %lld are believed",
                           m->file->path, name, (long long) value, (long long) most)
               : error_set(m->err, ST_INVALID, "%s: does not say clip.vision.%s; is it whole?",
                           m->file->path, name);
    }
    return m->st == ST_OK ? value : 1;
}

static bool flag(const struct maker * m, const char * key) {
    int64_t id = gguf_find_key(m->file->gguf, key);
    return id >= 0 && gguf_get_kv_type(m->file->gguf, id) == GGUF_TYPE_BOOL &&
           gguf_get_val_bool(m->file->gguf, id);
}

static void read_projector(struct maker * m, struct vision * v) {
    int64_t id = key_of(m, "projector_type"); // of files that hear as well
    id = id >= 0 ? id : gguf_find_key(m->file->gguf, "clip.projector_type");
    bool is = id >= 0 && gguf_get_kv_type(m->file->gguf, id) == GGUF_TYPE_STRING;
    const char * name = is ? gguf_get_val_str(m->file->gguf, id) : "mlp";
    int i = 0;
    while (i < PROJECTORS && strcmp(projectors[i].name, name) != 0) {
        i++;
    }
    v->projector = (enum projector) i;
    bool sees = flag(m, "clip.has_vision_encoder");
    if (!sees || i == PROJECTORS) {
        m->st = error_set(
            m->err, ST_UNSUPPORTED,
            "%s: %s '%.40s' is not known; mlp, gemma3, idefics3, internvl, lfm2, janus_pro and "
            "phi4 are. llama-mtmd-cli with GGML_HSA_EXPLAIN=1 says what of it stays on the CPU",
            m->file->path, sees ? "the projector" : "what hears, with the projector", name);
    }
}

static void read_sizes(struct maker * m, struct vision * v) {
    v->side = number(m, "image_size", MOST_SIDE, 0);
    v->patch = number(m, "patch_size", MOST_SIDE, 0);
    v->embd = number(m, "embedding_length", MOST_WIDTH, 0);
    v->ff = number(m, "feed_forward_length", MOST_WIDTH, 0);
    v->layers = number(m, "block_count", MOST_LAYERS, 0);
    v->heads.n = number(m, "attention.head_count", 1024, 0);
    if (m->st != ST_OK) {
        return;
    }
    v->merge = number(m, "projector.scale_factor", MOST_MERGE, projectors[v->projector].merge);
    v->across = v->side / v->patch;
    v->heads.size = v->embd / v->heads.n;
    v->heads.scale = 1 / sqrtf((float) v->heads.size);
    v->used = v->layers - (v->projector == MLP && v->layers > 1);
    int64_t id = key_of(m, "attention.layer_norm_epsilon");
    bool is = id >= 0 && gguf_get_kv_type(m->file->gguf, id) == GGUF_TYPE_FLOAT32;
    v->eps = is ? gguf_get_val_f32(m->file->gguf, id) : 1e-6f;
    v->act = flag(m, "clip.use_gelu") ? GELU : flag(m, "clip.use_silu") ? SILU : GELU_QUICK;
    if (m->st == ST_OK && (v->across < 1 || v->across % v->merge || v->embd % v->heads.n)) {
        m->st = error_set(
            m->err, ST_INVALID,
            "%s: %lld heads of %lld numbers, and %lld patches of a side by %lld: these do not go "
            "together; is it whole?",
            m->file->path, (long long) v->heads.n, (long long) v->embd, (long long) v->across,
            (long long) v->merge);
    }
}

// ---- weights ----

static int64_t rows_of(const struct maker * m, const char * name) {
    const struct part_tensor * t = part_file_find(m->file, name);
    return t ? t->ne[1] : 0;
}

static void read_outside(struct maker * m, struct vision * v) {
    v->patches = part_weight(m, true, "v.patch_embd.weight", v->patch, v->patch, COLORS, v->embd);
    v->bias = part_weight(m, false, "v.patch_embd.bias", v->embd, 0, 0, 0);
    v->first = part_weight(m, false, "v.class_embd", v->embd, 0, 0, 0);
    v->positions = part_weight(m, true, "v.position_embd.weight", v->embd,
                               v->across * v->across + (v->first != NULL), 0, 0);
    v->before = part_linear(m, false, "v.pre_ln", v->embd, 0);
    v->behind = part_linear(m, false, "v.post_ln", v->embd, 0);
    int64_t in = v->embd * v->merge * v->merge;
    if (v->projector == GEMMA3) {
        v->norm = part_linear(m, true, "mm.soft_emb_norm", v->embd, 0);
        const char * name = "mm.input_projection.weight"; // stands on its side
        const struct part_tensor * t = part_file_find(m->file, name);
        v->one.w = part_weight(m, true, name, t ? t->ne[0] : 1, v->embd, 0, 0);
        return;
    }
    if (v->projector == IDEFICS3) {
        v->one = part_linear(m, true, "mm.model.fc", in, rows_of(m, "mm.model.fc.weight"));
        return;
    }
    if (v->projector == INTERNVL) {
        v->norm = part_linear(m, true, "mm.0", in, 0);
    } else if (v->projector == LFM2) {
        v->norm = part_linear(m, false, "mm.input_norm", in, 0);
    }
    char one[16], two[16], weight[32];
    snprintf(one, sizeof one, "mm.%d", projectors[v->projector].linear[0]);
    snprintf(two, sizeof two, "mm.%d", projectors[v->projector].linear[1]);
    snprintf(weight, sizeof weight, "%s.weight", one);
    int64_t between = rows_of(m, weight);
    snprintf(weight, sizeof weight, "%s.weight", two);
    v->one = part_linear(m, true, one, in, between);
    v->two = part_linear(m, v->projector != MLP, two, between, rows_of(m, weight));
}

static struct linear of_layer(struct maker * m, int64_t i, bool needed, const char * name,
                              int64_t in, int64_t out) {
    char text[GGML_MAX_NAME];
    snprintf(text, sizeof text, "v.blk.%lld.%s", (long long) i, name);
    return part_linear(m, needed, text, in, out);
}

static struct layer read_layer(struct maker * m, const struct vision * v, int64_t i) {
    struct layer l = {0};
    char name[GGML_MAX_NAME];
    int64_t e = v->embd;
    snprintf(name, sizeof name, "v.blk.%lld.attn_qkv.weight", (long long) i);
    bool joined = part_file_find(m->file, name) != NULL;
    l.ln1 = of_layer(m, i, true, "ln1", e, 0);
    l.qkv = of_layer(m, i, joined, "attn_qkv", e, 3 * e);
    l.q = of_layer(m, i, !joined, "attn_q", e, e);
    l.k = of_layer(m, i, !joined, "attn_k", e, e);
    l.v = of_layer(m, i, !joined, "attn_v", e, e);
    l.q_norm = of_layer(m, i, false, "attn_q_norm", v->heads.size, 0).w;
    l.k_norm = of_layer(m, i, false, "attn_k_norm", v->heads.size, 0).w;
    l.out = of_layer(m, i, true, "attn_out", e, e);
    l.scale1 = of_layer(m, i, false, "ls1", e, 0).w;
    l.scale2 = of_layer(m, i, false, "ls2", e, 0).w;
    l.ln2 = of_layer(m, i, true, "ln2", e, 0);
    // Older files have the names of both the other way round.
    snprintf(name, sizeof name, "v.blk.%lld.ffn_down.weight", (long long) i);
    const struct part_tensor * down = part_file_find(m->file, name);
    bool swapped = v->ff != e && down && down->ne[0] == e;
    l.up = of_layer(m, i, true, swapped ? "ffn_down" : "ffn_up", e, v->ff);
    l.down = of_layer(m, i, true, swapped ? "ffn_up" : "ffn_down", v->ff, e);
    l.gate = of_layer(m, i, false, "ffn_gate", e, v->ff);
    return l;
}

// ---- nodes ----

static struct ggml_tensor * act(struct maker * m, const struct vision * v, struct ggml_tensor * x,
                                struct ggml_tensor * gate) {
    struct ggml_context * c = m->ctx;
    switch (v->act) {
    case GELU:
        return gate ? ggml_geglu_split(c, gate, x) : ggml_gelu(c, x);
    case SILU:
        return gate ? ggml_swiglu_split(c, gate, x) : ggml_silu(c, x);
    default:
        return gate ? ggml_geglu_quick_split(c, gate, x) : ggml_gelu_quick(c, x);
    }
}

static struct ggml_tensor * patches(struct maker * m, const struct vision * v) {
    struct ggml_context * c = m->ctx;
    int p = (int) v->patch;
    struct ggml_tensor * x = part_input(m, "inp_raw", GGML_TYPE_F32, v->side, v->side, COLORS);
    x = ggml_conv_2d(c, v->patches, x, p, p, 0, 0, 1, 1);
    x = ggml_reshape_2d(c, x, v->across * v->across, v->embd);
    x = ggml_cont(c, ggml_transpose(c, x));
    x = v->bias ? ggml_add(c, x, v->bias) : x;
    x = v->first ? ggml_concat(c, x, v->first, 1) : x;
    struct ggml_tensor * at = v->positions;
    if (v->projector == MLP) {
        at = ggml_get_rows(c, at, part_input(m, "positions", GGML_TYPE_I32, x->ne[1], 1, 1));
    }
    x = ggml_add(c, x, at);
    return v->before.w ? part_norm(m, v->before, x, v->eps) : x;
}

static struct ggml_tensor * of_heads(struct maker * m, const struct vision * v,
                                     struct ggml_tensor * x, struct ggml_tensor * norm) {
    if (x->ne[0] == v->embd) {
        x = ggml_reshape_3d(m->ctx, x, v->heads.size, v->heads.n, x->ne[1]);
    }
    return norm ? ggml_mul(m->ctx, ggml_norm(m->ctx, x, v->eps), norm) : x;
}

static struct ggml_tensor * attention(struct maker * m, const struct vision * v,
                                      const struct layer * l, struct ggml_tensor * x) {
    struct ggml_context * c = m->ctx;
    struct ggml_tensor * of[3];
    if (l->qkv.w) {
        x = part_product(m, l->qkv, x);
        size_t head = ggml_row_size(x->type, v->heads.size);
        for (int i = 0; i < 3; i++) {
            of[i] = ggml_view_3d(c, x, v->heads.size, v->heads.n, x->ne[1], head, x->nb[1],
                                 (size_t) i * head * (size_t) v->heads.n);
        }
    } else {
        of[0] = part_product(m, l->q, x);
        of[1] = part_product(m, l->k, x);
        of[2] = part_product(m, l->v, x);
    }
    struct ggml_tensor * q = of_heads(m, v, of[0], l->q_norm);
    struct ggml_tensor * k = of_heads(m, v, of[1], l->k_norm);
    struct ggml_tensor * values = of_heads(m, v, of[2], NULL);
    ggml_build_forward_expand(m->graph, q); // one behind the other
    ggml_build_forward_expand(m->graph, k);
    ggml_build_forward_expand(m->graph, values);
    q = ggml_permute(c, q, 0, 2, 1, 3);
    k = ggml_permute(c, k, 0, 2, 1, 3);
    if (m->flash) {
        k = ggml_cast(c, k, GGML_TYPE_F16);
        values = ggml_cast(c, ggml_permute(c, values, 0, 2, 1, 3), GGML_TYPE_F16);
    } else {
        values = ggml_cont(c, ggml_permute(c, values, 1, 2, 0, 3));
    }
    return part_product(m, l->out, part_attention(m, v->heads, q, k, values, NULL));
}

static struct ggml_tensor * layer(struct maker * m, const struct vision * v, const struct layer * l,
                                  struct ggml_tensor * x) {
    struct ggml_context * c = m->ctx;
    struct ggml_tensor * y = attention(m, v, l, part_norm(m, l->ln1, x, v->eps));
    y = l->scale1 ? ggml_mul(c, y, l->scale1) : y;
    x = ggml_add(c, y, x);
    y = part_norm(m, l->ln2, x, v->eps);
    struct ggml_tensor * up = part_product(m, l->up, y);
    y = act(m, v, up, l->gate.w ? part_product(m, l->gate, y) : NULL);
    y = part_product(m, l->down, y);
    y = l->scale2 ? ggml_mul(c, y, l->scale2) : y;
    return ggml_add(c, x, y);
}

// Neighbours of a square side by side in one row.
static struct ggml_tensor * merge(struct maker * m, const struct vision * v,
                                  struct ggml_tensor * x) {
    struct ggml_context * c = m->ctx;
    int64_t n = v->merge, less = v->across / n;
    x = ggml_reshape_3d(c, x, v->embd * n, less, v->across);
    x = ggml_permute(c, x, 0, 2, 1, 3);
    x = ggml_cont_3d(c, x, v->embd * n * n, less, less);
    x = ggml_permute(c, x, 0, 2, 1, 3);
    return ggml_cont_2d(c, x, v->embd * n * n, less * less);
}

static struct ggml_tensor * means(struct maker * m, const struct vision * v,
                                  struct ggml_tensor * x) {
    struct ggml_context * c = m->ctx;
    int n = (int) v->merge;
    int64_t less = v->across / v->merge;
    x = ggml_cont_3d(c, ggml_transpose(c, x), v->across, v->across, v->embd);
    x = ggml_pool_2d(c, x, GGML_OP_POOL_AVG, n, n, n, n, 0, 0);
    x = ggml_reshape_2d(c, x, less * less, v->embd);
    x = ggml_cont(c, ggml_transpose(c, x));
    x = ggml_mul(c, ggml_rms_norm(c, x, v->eps), v->norm.w);
    return ggml_mul_mat(c, ggml_cont(c, ggml_transpose(c, v->one.w)), x);
}

static struct ggml_tensor * project(struct maker * m, const struct vision * v,
                                    struct ggml_tensor * x) {
    struct ggml_context * c = m->ctx;
    int64_t n = v->across * v->across;
    if (v->projector == GEMMA3) {
        return means(m, v, x);
    }
    if (v->projector == MLP) {
        x = ggml_get_rows(c, x, part_input(m, "patches", GGML_TYPE_I32, n, 1, 1));
    } else if (v->first) { // is dropped
        x = ggml_cont(c, ggml_view_2d(c, x, v->embd, n, x->nb[1], 0));
    }
    x = v->merge > 1 ? merge(m, v, x) : x;
    x = v->norm.w ? part_norm(m, v->norm, x, 1e-5f) : x;
    x = part_product(m, v->one, x);
    if (v->two.w) {
        x = v->projector == JANUS_PRO ? act(m, v, x, NULL) : ggml_gelu(c, x);
        x = part_product(m, v->two, x);
    } else if (v->projector == MLP) {
        x = ggml_gelu(c, x);
    }
    return x;
}

void vision_graph(struct maker * m, struct graph_facts * facts) {
    struct vision v = {0};
    static struct layer layers[MOST_LAYERS];
    read_projector(m, &v);
    read_sizes(m, &v);
    if (m->st == ST_OK) {
        read_outside(m, &v);
    }
    for (int64_t i = 0; i < v.used && m->st == ST_OK; i++) {
        layers[i] = read_layer(m, &v, i);
    }
    if (m->st != ST_OK) {
        return;
    }
    struct ggml_tensor * x = patches(m, &v);
    for (int64_t i = 0; i < v.used; i++) {
        x = layer(m, &v, &layers[i], x);
    }
    x = v.behind.w ? part_norm(m, v.behind, x, v.eps) : x;
    x = project(m, &v, x);
    ggml_build_forward_expand(m->graph, x);
    *facts = (struct graph_facts){.layers = v.used,
                                  .embd = v.embd,
                                  .heads = v.heads.n,
                                  .tokens = 1,
                                  .side = v.side,
                                  .patch = v.patch,
                                  .patches = v.across * v.across,
                                  .made = x->ne[1]};
    snprintf(facts->projector, sizeof facts->projector, "%s", projectors[v.projector].name);
}
