// fuzz-model-file: a GGUF file as `ggml-hsa model` reads it. The file is one that ggml's own reader
// takes, for that reader is not what is tested; what stands in it, an input chooses: numbers of any
// size and type under the right keys, tensors of other shapes, types and names, texts that steer
// terminals. It is refused with a reason, or the model is within its bounds and its graph can be
// built.
//
// Input: an architecture, then changes to a model that is right.
#include "base/harmful.h"
#include "base/plain.h"
#include "place.h"

#include "model-file.h"

#include "gguf.h"

const int fuzz_rounds = 400;
const int fuzz_longest = 160;

enum { MOST = 64, LAYERS = 2 };

struct value { // of a key
    char key[64], text[64];
    uint32_t type;
    uint64_t number;
};

struct tensor {
    char name[64];
    uint32_t dims, type;
    uint64_t ne[4];
};

struct model {
    struct value values[MOST];
    struct tensor tensors[MOST];
    int n_values, n_tensors;
};

// ---- a model that is right ----

static void add_number(struct model * m, const char * architecture, const char * key, uint64_t n) {
    struct value * v = &m->values[m->n_values++];
    snprintf(v->key, sizeof v->key, "%s.%s", architecture, key);
    v->type = GGUF_TYPE_UINT32;
    v->number = n;
}

static void add_text(struct model * m, const char * key, const char * text) {
    struct value * v = &m->values[m->n_values++];
    snprintf(v->key, sizeof v->key, "%s", key);
    snprintf(v->text, sizeof v->text, "%s", text);
    v->type = GGUF_TYPE_STRING;
}

static void add_weight(struct model * m, const struct decoder * d, int weight, int layer) {
    struct tensor * t = &m->tensors[m->n_tensors++];
    const char * name = decoder_weight_name((enum decoder_weight) weight);
    int64_t ne[3];
    decoder_weight_shape(d, (enum decoder_weight) weight, ne);
    if (layer >= 0) {
        snprintf(t->name, sizeof t->name, "blk.%d.%s", layer, name);
    } else {
        snprintf(t->name, sizeof t->name, "%s", name);
    }
    t->dims = ne[2] ? 3 : ne[1] ? 2 : 1;
    t->type = ne[1] ? GGML_TYPE_Q4_0 : GGML_TYPE_F32;
    t->ne[0] = (uint64_t) ne[0];
    t->ne[1] = (uint64_t) ne[1];
    t->ne[2] = ne[2] ? (uint64_t) ne[2] : 1;
    t->ne[3] = 1;
}

static void model_right(struct model * m, const char * architecture) {
    const struct decoder d = {.layers = LAYERS,
                              .embd = 64,
                              .heads = 4,
                              .kv_heads = 2,
                              .head_dim = 16,
                              .ff = 96,
                              .vocab = 256,
                              .rope_dims = 16,
                              .experts = 4,
                              .used = 2};
    bool mixture = !strcmp(architecture, "qwen3moe");
    m->n_values = m->n_tensors = 0;
    add_text(m, "general.architecture", architecture);
    add_text(m, "general.name", "a model");
    add_number(m, architecture, "block_count", (uint64_t) d.layers);
    add_number(m, architecture, "embedding_length", (uint64_t) d.embd);
    add_number(m, architecture, "feed_forward_length", (uint64_t) d.ff);
    add_number(m, architecture, "attention.head_count", (uint64_t) d.heads);
    add_number(m, architecture, "attention.head_count_kv", (uint64_t) d.kv_heads);
    if (mixture) {
        add_number(m, architecture, "expert_count", (uint64_t) d.experts);
        add_number(m, architecture, "expert_used_count", (uint64_t) d.used);
        add_number(m, architecture, "expert_feed_forward_length", (uint64_t) d.ff);
    }
    add_weight(m, &d, DECODER_EMBD, -1);
    add_weight(m, &d, DECODER_OUTPUT_NORM, -1);
    for (int layer = 0; layer < LAYERS; layer++) {
        for (int w = 0; w <= (mixture ? DECODER_FFN_NORM : DECODER_DOWN); w++) {
            add_weight(m, &d, w, layer);
        }
        for (int w = DECODER_ROUTER; mixture && w <= DECODER_DOWN_EXPERTS; w++) {
            if (w != DECODER_ROUTER_BIAS) {
                add_weight(m, &d, w, layer);
            }
        }
    }
}

// ---- what an input changes ----

static uint64_t hostile(struct fuzz_input * in) {
    static const uint64_t numbers[] = {0,
                                       1,
                                       2,
                                       3,
                                       16,
                                       32,
                                       64,
                                       65,
                                       96,
                                       128,
                                       4096,
                                       4097,
                                       1 << 18,
                                       1 << 20,
                                       (1 << 20) + 1,
                                       1 << 24,
                                       INT32_MAX,
                                       1u << 31,
                                       UINT32_MAX,
                                       (uint64_t) 1 << 32,
                                       INT64_MAX,
                                       (uint64_t) 1 << 63,
                                       UINT64_MAX,
                                       0x7fc00000};
    uint32_t what = fuzz_next(in);
    return what < 240 ? numbers[what % 24] : fuzz_number(in, (int) (what % 9));
}

static void hostile_text(struct fuzz_input * in, char text[64]) {
    uint32_t n = fuzz_next(in) % 64;
    if (n == 63) {
        snprintf(text, 64, "%s", HARMFUL);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        text[i] = (char) fuzz_next(in);
    }
    text[n] = '\0';
}

// Arrays have one element here: ggml's reader gives them as much memory as they say.
static void change_value(struct fuzz_input * in, struct model * m, const char * architecture) {
    static const char * const more[] = {
        "attention.key_length",   "rope.dimension_count",
        "rope.freq_base",         "attention.layer_norm_rms_epsilon",
        "attn_logit_softcapping", "final_logit_softcapping",
        "expert_count",           "nothing"};
    uint32_t which = fuzz_next(in);
    struct value * v = &m->values[which % (uint32_t) m->n_values];
    if (which >= 128 && m->n_values < MOST) {
        add_number(m, architecture, more[which % 8], 0);
        v = &m->values[m->n_values - 1];
    }
    v->type = fuzz_next(in) % GGUF_TYPE_COUNT;
    if (v->type == GGUF_TYPE_STRING) {
        hostile_text(in, v->text);
    } else {
        v->number = hostile(in);
    }
}

static void change_tensor(struct fuzz_input * in, struct model * m) {
    static const int more[] = {DECODER_Q_BIAS,         DECODER_Q_NORM,       DECODER_K_NORM,
                               DECODER_ATTN_POST_NORM, DECODER_ROPE_FACTORS, DECODER_OUTPUT};
    uint32_t which = fuzz_next(in), what = fuzz_next(in);
    struct tensor * t = &m->tensors[which % (uint32_t) m->n_tensors];
    if (which >= 128 && m->n_tensors < MOST) {
        int weight = more[which % 6];
        t = &m->tensors[m->n_tensors++];
        *t = (struct tensor){.dims = 1, .type = GGML_TYPE_F32, .ne = {16, 1, 1, 1}};
        if (weight < DECODER_ROPE_FACTORS) {
            snprintf(t->name, sizeof t->name, "blk.%u.%s", what % LAYERS,
                     decoder_weight_name((enum decoder_weight) weight));
        } else {
            snprintf(t->name, sizeof t->name, "%s",
                     decoder_weight_name((enum decoder_weight) weight));
        }
    }
    switch (what / 32) {
    case 0:
        t->dims = 1 + what % 4;
        break;
    case 1:
    case 2:
        t->type = what % 64 % GGML_TYPE_COUNT;
        break;
    case 3:
        hostile_text(in, t->name);
        break;
    case 4: // as if it were not there
        t->name[0] = 'x';
        break;
    default:
        t->ne[what % 4] = hostile(in);
    }
}

// ---- the file ----

static void put(struct buf * b, uint64_t n, size_t bytes) {
    uint8_t le[8];
    for (size_t i = 0; i < sizeof le; i++) {
        le[i] = (uint8_t) (n >> 8 * i);
    }
    buf_append(b, le, bytes);
}

static void put_text(struct buf * b, const char * text) {
    put(b, strlen(text), 8);
    buf_append(b, text, strlen(text));
}

static void put_value(struct buf * b, const struct value * v) {
    static const uint8_t sizes[GGUF_TYPE_COUNT] = {
        [GGUF_TYPE_UINT8] = 1,   [GGUF_TYPE_INT8] = 1,   [GGUF_TYPE_UINT16] = 2,
        [GGUF_TYPE_INT16] = 2,   [GGUF_TYPE_UINT32] = 4, [GGUF_TYPE_INT32] = 4,
        [GGUF_TYPE_FLOAT32] = 4, [GGUF_TYPE_BOOL] = 1,   [GGUF_TYPE_UINT64] = 8,
        [GGUF_TYPE_INT64] = 8,   [GGUF_TYPE_FLOAT64] = 8};
    put_text(b, v->key);
    put(b, v->type, 4);
    if (v->type == GGUF_TYPE_STRING) {
        put_text(b, v->text);
    } else if (v->type == GGUF_TYPE_ARRAY) {
        put(b, GGUF_TYPE_UINT32, 4);
        put(b, 1, 8);
        put(b, v->number, 4);
    } else {
        put(b, v->number, sizes[v->type]);
    }
}

static void put_model(struct buf * b, const struct model * m) {
    uint64_t offset = 0;
    buf_append(b, "GGUF", 4);
    put(b, 3, 4);
    put(b, (uint64_t) m->n_tensors, 8);
    put(b, (uint64_t) m->n_values, 8);
    for (int i = 0; i < m->n_values; i++) {
        put_value(b, &m->values[i]);
    }
    for (int i = 0; i < m->n_tensors; i++) {
        const struct tensor * t = &m->tensors[i];
        uint64_t block = (uint64_t) ggml_blck_size((enum ggml_type) t->type);
        uint64_t bytes = ggml_type_size((enum ggml_type) t->type) * (block ? t->ne[0] / block : 0);
        put_text(b, t->name);
        put(b, t->dims, 4);
        for (uint32_t k = 0; k < t->dims; k++) {
            put(b, t->ne[k], 8);
            bytes *= k ? t->ne[k] : 1;
        }
        put(b, t->type, 4);
        put(b, offset, 8);
        offset += (bytes + 31) / 32 * 32;
    }
    while (b->size % 32) {
        put(b, 0, 1);
    }
}

// ---- what was read ----

static struct ggml_context * context_new(void) {
    struct ggml_context * ctx = ggml_init((struct ggml_init_params){
        .mem_size = 256 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true});
    if (!ctx) {
        abort();
    }
    return ctx;
}

// As the tool builds it to count nodes: ggml ends the process where shapes do not go together.
static void build(const struct decoder_model * m) {
    enum { CONTEXT = 64 };
    for (int kind = 0; kind < m->n_kinds; kind++) {
        struct ggml_context * ctx = context_new();
        struct decoder d = decoder_of_kind(m, kind);
        struct decoder_tensors t = {0};
        struct ggml_cgraph * graph = ggml_new_graph(ctx);
        struct ggml_tensor * x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, d.embd, 1);
        decoder_add_layer(ctx, &d, &t);
        decoder_add_inputs(ctx, 1, CONTEXT, &t);
        decoder_add_cache(ctx, &d, CONTEXT, &t);
        x = decoder_layer(ctx, graph, &d, &t, x, kind % 2 == 0);
        decoder_add_head(ctx, &d, &t);
        ggml_build_forward_expand(graph, decoder_head(ctx, &d, &t, x));
        ggml_free(ctx);
    }
}

static void check(const struct model_file * f) {
    const struct decoder * d = &f->model.decoder;
    int64_t layers = 0;
    for (int i = 0; i < f->model.n_kinds; i++) {
        layers += f->model.kinds[i].layers;
    }
    if (d->layers < 1 || d->layers > DECODER_MOST_LAYERS || layers != d->layers ||
        f->model.n_kinds < 1 || f->model.n_kinds > DECODER_MOST_KINDS || d->vocab < 1 ||
        d->vocab > 1 << 20 || d->embd < 1 || d->ff < 1 || d->heads % d->kv_heads ||
        d->eps != d->eps) {
        abort();
    }
    build(&f->model);
}

static bool is_plain(const char * text) {
    size_t n = 1;
    while (*text && plain_character(text, &n)) {
        text += n;
    }
    return !*text;
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    static const char * const architectures[] = {"llama",  "qwen2",  "qwen3", "gemma",
                                                 "gemma2", "gemma3", "mamba", "qwen3moe"};
    static char path[128];
    static struct model m;
    static struct model_file f;
    struct fuzz_input in = {data, size};
    struct buf b = {0};
    struct error err = {0};
    if (place_make()) {
        snprintf(path, sizeof path, "%s/model.gguf", place);
    }
    const char * architecture = FUZZ_PICK(&in, architectures);
    model_right(&m, architecture);
    while (in.left) {
        if (fuzz_next(&in) % 2) {
            change_value(&in, &m, architecture);
        } else {
            change_tensor(&in, &m);
        }
    }
    put_model(&b, &m);
    place_write(path, b.data, b.size);
    enum status st = model_file_read(path, &f, &err);
    if (!is_plain(f.name) || !is_plain(f.architecture) || !is_plain(err.text) ||
        (st != ST_OK && !err.text[0])) {
        abort();
    }
    if (st == ST_OK) {
        check(&f);
    }
    buf_free(&b);
    return 0;
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    // A value: 1, which, its type, a number or a text. A tensor: 0, which, what, a number or a
    // text.
    static const uint8_t right[] = {0}, gemma[] = {4}, name[] = {0, 1, 1, 8, 63},
                         heads[] = {1, 1, 5, 4, 6, 1, 6, 4, 6}, words[] = {2, 0, 0, 161, 13},
                         types[] = {3, 0, 12, 40, 0, 13, 40}, norm[] = {2, 0, 129, 0, 0, 130, 1},
                         key[] = {0, 1, 128, 4, 10, 1, 129, 4, 4};
    static const struct {
        const uint8_t * bytes;
        size_t n;
    } seeds[] = {{right, sizeof right}, {gemma, sizeof gemma}, {name, sizeof name},
                 {heads, sizeof heads}, {words, sizeof words}, {types, sizeof types},
                 {norm, sizeof norm},   {key, sizeof key}};
    return (size_t) i < sizeof seeds / sizeof seeds[0] &&
           fuzz_bytes(seeds[i].bytes, seeds[i].n, data, size);
}
