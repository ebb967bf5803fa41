// whisper-graph: whisper.cpp's graphs, from a file of its format. The encoder takes 30 seconds of
// sound: two convolutions, its layers, and the keys and values that the decoder's layers will look
// at, all in one graph where whisper.cpp has three. The decoder takes a token: it looks back at its
// own text, and at all of the sound.
#include "part-graph.h"

#include <math.h>
#include <stdio.h>

enum { PADDED = 256, KERNEL = 3 }; // what keys are padded to; columns of a convolution

static const float eps = 1e-5f;

struct attention {
    struct linear ln, q, k, v, out;
};

struct layer {
    struct attention own, cross;
    struct linear ln, up, down;
};

struct whisper {
    struct maker * m;
    bool decodes;
    int64_t state, steps, padded; // of sound, and as its keys are padded
    int64_t context, back;        // of text: what its cache holds, and what a token looks back at
    struct heads heads;           // of the part that is made
    struct ggml_tensor *own_k, *own_v, *cross_k, *cross_v;
};

// ---- weights ----

static struct attention read_attention(const struct whisper * w, const char * block,
                                       const char * name) {
    const struct {
        const char * name;
        int64_t out;
    } parts[] = {{"_ln", 0},
                 {".query", w->state},
                 {".key", w->state},
                 {".value", w->state},
                 {".out", w->state}};
    struct linear l[5];
    for (int i = 0; i < 5; i++) {
        char text[GGML_MAX_NAME];
        snprintf(text, sizeof text, "%s.%s%s", block, name, parts[i].name);
        l[i] = part_linear(w->m, true, text, w->state, parts[i].out);
    }
    return (struct attention){l[0], l[1], l[2], l[3], l[4]};
}

static struct layer read_layer(const struct whisper * w, const char * part, int i) {
    struct layer l = {0};
    char block[32], name[GGML_MAX_NAME];
    snprintf(block, sizeof block, "%s.blocks.%d", part, i);
    l.own = read_attention(w, block, "attn");
    if (w->decodes) {
        l.cross = read_attention(w, block, "cross_attn");
    }
    snprintf(name, sizeof name, "%s.mlp_ln", block);
    l.ln = part_linear(w->m, true, name, w->state, 0);
    snprintf(name, sizeof name, "%s.mlp.0", block);
    l.up = part_linear(w->m, true, name, w->state, 4 * w->state);
    snprintf(name, sizeof name, "%s.mlp.2", block);
    l.down = part_linear(w->m, true, name, 4 * w->state, w->state);
    return l;
}

static struct linear read_convolution(const struct whisper * w, const char * name, int64_t in) {
    char text[GGML_MAX_NAME];
    snprintf(text, sizeof text, "%s.weight", name);
    struct linear l = {part_weight(w->m, true, text, KERNEL, in, w->state, 0), NULL};
    snprintf(text, sizeof text, "%s.bias", name);
    l.b = part_weight(w->m, true, text, 1, w->state, 0, 0);
    return l;
}

// ---- nodes ----

// Keys of `n` positions in a state, as attention takes them; of values by products, which lie so
// that a head's positions follow each other.
static struct ggml_tensor * kept(const struct whisper * w, struct ggml_tensor * state, int64_t n,
                                 int64_t room, int layer, bool values) {
    size_t one = ggml_element_size(state), row = one * (size_t) w->state;
    size_t at = row * (size_t) (room * layer), head = one * (size_t) w->heads.size;
    if (values && !w->m->flash) {
        size_t line = one * (size_t) room;
        return ggml_view_3d(w->m->ctx, state, n, w->heads.size, w->heads.n, line,
                            line * (size_t) w->heads.size, at);
    }
    return ggml_view_3d(w->m->ctx, state, w->heads.size, n, w->heads.n, row, head, at);
}

// x as a layer's rows from `first` on.
static void keep(const struct whisper * w, struct ggml_tensor * x, struct ggml_tensor * state,
                 int64_t room, int64_t first, int layer, bool values) {
    struct ggml_context * c = w->m->ctx;
    size_t one = ggml_element_size(state), row = one * (size_t) w->state;
    size_t at = row * (size_t) (room * layer);
    int64_t n = x->ne[1];
    struct ggml_tensor * to;
    if (values && !w->m->flash) {
        x = ggml_transpose(c, x);
        to = ggml_view_2d(c, state, n, w->state, one * (size_t) room, at + one * (size_t) first);
    } else {
        to = ggml_view_1d(c, state, n * w->state, at + row * (size_t) first);
    }
    ggml_build_forward_expand(w->m->graph, ggml_cpy(c, x, to));
}

static struct ggml_tensor * queries(const struct whisper * w, struct ggml_tensor * x) {
    x = ggml_reshape_3d(w->m->ctx, x, w->heads.size, w->heads.n, x->ne[1]);
    return ggml_permute(w->m->ctx, x, 0, 2, 1, 3);
}

static struct ggml_tensor * feed_forward(const struct whisper * w, const struct layer * l,
                                         struct ggml_tensor * x) {
    struct ggml_tensor * y = part_product(w->m, l->up, part_norm(w->m, l->ln, x, eps));
    y = part_product(w->m, l->down, ggml_gelu(w->m->ctx, y));
    return ggml_add(w->m->ctx, y, x);
}

// ---- the encoder ----

static struct ggml_tensor * encoder_layer(const struct whisper * w, const struct layer * l,
                                          struct ggml_tensor * x) {
    struct ggml_context * c = w->m->ctx;
    struct ggml_tensor * y = part_norm(w->m, l->own.ln, x, eps);
    struct ggml_tensor * q = queries(w, part_product(w->m, l->own.q, y));
    struct ggml_tensor * k = part_product(w->m, l->own.k, y);
    struct ggml_tensor * v = part_product(w->m, l->own.v, y);
    if (w->m->flash) {
        keep(w, k, w->own_k, w->padded, 0, 0, false);
        keep(w, v, w->own_v, w->padded, 0, 0, true);
        k = kept(w, w->own_k, w->padded, w->padded, 0, false);
        v = kept(w, w->own_v, w->padded, w->padded, 0, true);
    } else {
        k = ggml_reshape_3d(c, k, w->heads.size, w->heads.n, w->steps);
        v = ggml_reshape_3d(c, v, w->heads.size, w->heads.n, w->steps);
        k = ggml_permute(c, ggml_cast(c, k, GGML_TYPE_F16), 0, 2, 1, 3);
        v = ggml_cast(c, ggml_permute(c, v, 1, 2, 0, 3), GGML_TYPE_F16);
    }
    y = part_product(w->m, l->own.out, part_attention(w->m, w->heads, q, k, v, NULL));
    return feed_forward(w, l, ggml_add(c, y, x));
}

static void cross_keys(const struct whisper * w, int layers, const struct attention * cross,
                       struct ggml_tensor * x) {
    int64_t room = w->m->flash ? w->padded : w->steps;
    for (int i = 0; i < layers; i++) {
        struct ggml_tensor * k = part_product(w->m, cross[i].k, x);
        k = ggml_scale(w->m->ctx, k, powf((float) w->heads.size, -0.25f));
        struct ggml_tensor * v = part_product(w->m, cross[i].v, x);
        keep(w, k, w->cross_k, room, 0, i, false);
        keep(w, v, w->cross_v, room, 0, i, true);
    }
}

static void encoder(struct whisper * w, const int32_t * sizes) {
    enum { MOST_LAYERS = 512 };
    static struct layer layers[MOST_LAYERS];
    static struct attention cross[MOST_LAYERS];
    struct maker * m = w->m;
    struct ggml_context * c = m->ctx;
    int64_t mels = sizes[WHISPER_MELS];
    struct linear one = read_convolution(w, "encoder.conv1", mels);
    struct linear two = read_convolution(w, "encoder.conv2", w->state);
    struct ggml_tensor * positions =
        part_weight(m, true, "encoder.positional_embedding", w->state, w->steps, 0, 0);
    struct linear last = part_linear(m, true, "encoder.ln_post", w->state, 0);
    for (int i = 0; i < sizes[WHISPER_AUDIO_LAYERS] && m->st == ST_OK; i++) {
        layers[i] = read_layer(w, "encoder", i);
    }
    for (int i = 0; i < sizes[WHISPER_TEXT_LAYERS] && m->st == ST_OK; i++) {
        char block[32];
        snprintf(block, sizeof block, "decoder.blocks.%d", i);
        cross[i] = read_attention(w, block, "cross_attn");
    }
    if (m->st != ST_OK) {
        return;
    }
    int64_t rows = w->state * w->padded;
    w->own_k = part_state(m, "kv_pad_k", rows);
    w->own_v = part_state(m, "kv_pad_v", rows);
    w->cross_k = part_state(m, "kv_cross_k", rows * sizes[WHISPER_TEXT_LAYERS]);
    w->cross_v = part_state(m, "kv_cross_v", rows * sizes[WHISPER_TEXT_LAYERS]);
    struct ggml_tensor * x = part_input(m, "mel", GGML_TYPE_F32, 2 * w->steps, mels, 1);
    x = ggml_gelu(c, ggml_add(c, ggml_conv_1d_ph(c, one.w, x, 1, 1), one.b));
    x = ggml_gelu(c, ggml_add(c, ggml_conv_1d_ph(c, two.w, x, 2, 1), two.b));
    x = ggml_add(c, positions, ggml_cont(c, ggml_transpose(c, x)));
    for (int i = 0; i < sizes[WHISPER_AUDIO_LAYERS]; i++) {
        x = encoder_layer(w, &layers[i], x);
    }
    x = part_norm(m, last, x, eps);
    ggml_build_forward_expand(m->graph, x);
    cross_keys(w, sizes[WHISPER_TEXT_LAYERS], cross, x);
}

// ---- the decoder ----

static struct ggml_tensor * decoder_layer(const struct whisper * w, int i, const struct layer * l,
                                          struct ggml_tensor * x, struct ggml_tensor * mask) {
    struct ggml_context * c = w->m->ctx;
    struct heads own = w->heads;
    float root = powf((float) w->heads.size, -0.25f); // of queries, and of keys
    own.scale = 1;
    struct ggml_tensor * y = part_norm(w->m, l->own.ln, x, eps);
    struct ggml_tensor * q = ggml_scale(c, part_product(w->m, l->own.q, y), root);
    struct ggml_tensor * k = ggml_scale(c, part_product(w->m, l->own.k, y), root);
    keep(w, k, w->own_k, w->context, w->back - 1, i, false);
    keep(w, part_product(w->m, l->own.v, y), w->own_v, w->context, w->back - 1, i, true);
    y = part_attention(w->m, own, queries(w, q), kept(w, w->own_k, w->back, w->context, i, false),
                       kept(w, w->own_v, w->back, w->context, i, true), mask);
    x = ggml_add(c, part_product(w->m, l->own.out, y), x);

    int64_t steps = w->m->flash ? w->padded : w->steps;
    struct heads cross = w->heads;
    cross.scale = root; // the keys have the other part
    y = part_norm(w->m, l->cross.ln, x, eps);
    y = part_attention(w->m, cross, queries(w, part_product(w->m, l->cross.q, y)),
                       kept(w, w->cross_k, steps, steps, i, false),
                       kept(w, w->cross_v, steps, steps, i, true), NULL);
    return feed_forward(w, l, ggml_add(c, part_product(w->m, l->cross.out, y), x));
}

static void decoder(struct whisper * w, const int32_t * sizes) {
    enum { MOST_LAYERS = 512 };
    static struct layer layers[MOST_LAYERS];
    struct maker * m = w->m;
    struct ggml_context * c = m->ctx;
    int n = sizes[WHISPER_TEXT_LAYERS];
    w->own_k = part_state(m, "kv_self_k", w->state * w->context * n);
    w->own_v = part_state(m, "kv_self_v", w->state * w->context * n);
    w->cross_k = part_state(m, "kv_cross_k", w->state * w->padded * n);
    w->cross_v = part_state(m, "kv_cross_v", w->state * w->padded * n);
    struct ggml_tensor * words = part_weight(m, true, "decoder.token_embedding.weight", w->state,
                                             sizes[WHISPER_VOCAB], 0, 0);
    struct ggml_tensor * positions = part_weight(m, true, "decoder.positional_embedding", w->state,
                                                 sizes[WHISPER_TEXT_CONTEXT], 0, 0);
    struct linear last = part_linear(m, true, "decoder.ln", w->state, 0);
    for (int i = 0; i < n && m->st == ST_OK; i++) {
        layers[i] = read_layer(w, "decoder", i);
    }
    if (m->st != ST_OK) {
        return;
    }
    struct ggml_tensor * mask = part_input(m, "KQ_mask", GGML_TYPE_F32, w->back, 1, 1);
    mask = m->flash ? ggml_cast(c, mask, GGML_TYPE_F16) : mask;
    struct ggml_tensor * x = ggml_get_rows(c, words, part_input(m, "embd", GGML_TYPE_I32, 1, 1, 1));
    x = ggml_add(c, x,
                 ggml_get_rows(c, positions, part_input(m, "position", GGML_TYPE_I32, 1, 1, 1)));
    for (int i = 0; i < n; i++) {
        x = decoder_layer(w, i, &layers[i], x, mask);
    }
    x = part_norm(m, last, x, eps);
    ggml_build_forward_expand(m->graph, ggml_mul_mat(c, words, x));
}

void whisper_graph(struct maker * m, enum part_kind kind, int64_t context,
                   struct graph_facts * facts) {
    const int32_t * sizes = m->file->whisper;
    bool hears = kind == PART_ENCODER;
    struct whisper w = {.m = m,
                        .decodes = !hears,
                        .state = sizes[hears ? WHISPER_AUDIO_STATE : WHISPER_TEXT_STATE],
                        .steps = sizes[WHISPER_AUDIO_CONTEXT]};
    w.heads.n = sizes[hears ? WHISPER_AUDIO_HEADS : WHISPER_TEXT_HEADS];
    w.heads.size = w.state / w.heads.n;
    w.heads.scale = 1 / sqrtf((float) w.heads.size);
    w.padded = GGML_PAD(w.steps, PADDED);
    w.context = GGML_PAD(sizes[WHISPER_TEXT_CONTEXT], PADDED);
    w.back = GGML_PAD(context, PADDED);
    w.back = w.back < w.context ? w.back : w.context;
    if (sizes[WHISPER_AUDIO_STATE] != sizes[WHISPER_TEXT_STATE]) {
        m->st = error_set(m->err, ST_INVALID,
                          "%s: the encoder's steps have %d numbers and the decoder's tokens %d, "
                          "which cannot look at them; get it anew",
                          m->file->path, sizes[WHISPER_AUDIO_STATE], sizes[WHISPER_TEXT_STATE]);
        return;
    }
    (hears ? encoder : decoder)(&w, sizes);
    *facts = (struct graph_facts){
        .layers = sizes[hears ? WHISPER_AUDIO_LAYERS : WHISPER_TEXT_LAYERS],
        .embd = w.state,
        .heads = w.heads.n,
        .vocab = hears ? 0 : sizes[WHISPER_VOCAB],
        .context = hears ? 0 : w.back,
        .tokens = 1,
        .steps = w.steps,
    };
}
