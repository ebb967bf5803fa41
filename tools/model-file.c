// model-file: see model-file.h. ggml's own reader takes the file apart; what it gives is hostile
// still, and each number is held against its bounds before anything is computed from it. What an
// architecture does is a row of a table, what the file has of optional weights is looked up.
#include "model-file.h"

#include "base/plain.h"
#include "gguf.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// Which weights layers have. Of GATE_UP and UP the name is the same.
enum form { DENSE = 1, FUSED = 2, EXPERTS = 4, OAI = 8, ANY = 15 };

static const struct architecture {
    const char * name;
    enum form form;
    bool neox, gelu, scales; // scales: embeddings, by the root of their length
    int pattern;             // of so many layers all but the last have the window; 0: none has
} architectures[] = {
    {"llama", DENSE, false, false, false, 0},   {"qwen2", DENSE, true, false, false, 0},
    {"qwen3", DENSE, true, false, false, 0},    {"qwen3moe", EXPERTS, true, false, false, 0},
    {"gpt-oss", OAI, true, false, false, 2},    {"phi3", FUSED, true, false, false, 0},
    {"granite", DENSE, false, false, false, 0}, {"gemma", DENSE, true, true, true, 0},
    {"gemma2", DENSE, true, true, true, 2},     {"gemma3", DENSE, true, true, true, 6},
};
enum { ARCHITECTURES = sizeof architectures / sizeof architectures[0] };

// Which forms cannot do without a weight, and which may have it.
static const struct {
    uint8_t needs, may;
} weights[DECODER_WEIGHTS] = {
    [DECODER_ATTN_NORM] = {ANY, ANY},
    [DECODER_Q] = {ANY & ~FUSED, ANY & ~FUSED},
    [DECODER_K] = {ANY & ~FUSED, ANY & ~FUSED},
    [DECODER_V] = {ANY & ~FUSED, ANY & ~FUSED},
    [DECODER_OUT] = {ANY, ANY},
    [DECODER_FFN_NORM] = {ANY & ~OAI, ANY & ~OAI},
    [DECODER_GATE] = {DENSE, DENSE},
    [DECODER_UP] = {DENSE, DENSE},
    [DECODER_DOWN] = {DENSE | FUSED, DENSE | FUSED},
    [DECODER_Q_BIAS] = {OAI, ANY & ~FUSED},
    [DECODER_K_BIAS] = {OAI, ANY & ~FUSED},
    [DECODER_V_BIAS] = {OAI, ANY & ~FUSED},
    [DECODER_OUT_BIAS] = {OAI, OAI},
    [DECODER_Q_NORM] = {0, DENSE | EXPERTS},
    [DECODER_K_NORM] = {0, DENSE | EXPERTS},
    [DECODER_ATTN_POST_NORM] = {OAI, DENSE | OAI},
    [DECODER_FFN_POST_NORM] = {0, DENSE},
    [DECODER_SINKS] = {OAI, OAI},
    [DECODER_QKV] = {FUSED, FUSED},
    [DECODER_GATE_UP] = {FUSED, FUSED},
    [DECODER_ROUTER] = {EXPERTS | OAI, EXPERTS | OAI},
    [DECODER_ROUTER_BIAS] = {OAI, OAI},
    [DECODER_GATE_EXPERTS] = {EXPERTS | OAI, EXPERTS | OAI},
    [DECODER_UP_EXPERTS] = {EXPERTS | OAI, EXPERTS | OAI},
    [DECODER_DOWN_EXPERTS] = {EXPERTS | OAI, EXPERTS | OAI},
    [DECODER_GATE_EXPERTS_BIAS] = {OAI, OAI},
    [DECODER_UP_EXPERTS_BIAS] = {OAI, OAI},
    [DECODER_DOWN_EXPERTS_BIAS] = {OAI, OAI},
    [DECODER_ROPE_FACTORS] = {0, ANY},
    [DECODER_EMBD] = {ANY, ANY},
    [DECODER_OUTPUT_NORM] = {ANY, ANY},
    [DECODER_OUTPUT] = {0, ANY},
};

struct reader {
    const struct gguf_context * gguf;
    const char * path;
    const char * architecture;
    enum form form;
    struct error * err;
};

// ---- numbers ----

static int64_t find(const struct reader * r, const char * key) {
    char name[96];
    snprintf(name, sizeof name, "%s.%s", r->architecture, key);
    return gguf_find_key(r->gguf, name);
}

// A whole number between 1 and `most`; `missing` where there is none, unless that is 0.
static enum status number(const struct reader * r, const char * key, int64_t most, int64_t missing,
                          int64_t * out) {
    int64_t id = find(r, key);
    if (id < 0) {
        *out = missing;
        return missing ? ST_OK
                       : error_set(r->err, ST_INVALID, "%s: does not say %s.%s", r->path,
                                   r->architecture, key);
    }
    switch (gguf_get_kv_type(r->gguf, id)) {
    case GGUF_TYPE_UINT32:
        *out = gguf_get_val_u32(r->gguf, id);
        break;
    case GGUF_TYPE_INT32:
        *out = gguf_get_val_i32(r->gguf, id);
        break;
    case GGUF_TYPE_UINT64: {
        uint64_t v = gguf_get_val_u64(r->gguf, id);
        *out = v > (uint64_t) most ? most + 1 : (int64_t) v;
        break;
    }
    default:
        return error_set(r->err, ST_UNSUPPORTED, "%s: %s.%s is no single whole number", r->path,
                         r->architecture, key);
    }
    if (*out < 1 || *out > most) {
        return error_set(r->err, ST_INVALID, "%s: %s.%s is %lld; 1 to %lld makes sense", r->path,
                         r->architecture, key, (long long) *out, (long long) most);
    }
    return ST_OK;
}

static float fraction(const struct reader * r, const char * key, float missing) {
    int64_t id = find(r, key);
    bool has = id >= 0 && gguf_get_kv_type(r->gguf, id) == GGUF_TYPE_FLOAT32;
    float v = has ? gguf_get_val_f32(r->gguf, id) : missing;
    return isfinite(v) ? v : missing;
}

static void text(const struct gguf_context * g, const char * key, char * out, size_t size) {
    int64_t id = gguf_find_key(g, key);
    bool has = id >= 0 && gguf_get_kv_type(g, id) == GGUF_TYPE_STRING;
    snprintf(out, size, "%.*s", (int) size - 1, has ? gguf_get_val_str(g, id) : "");
    plain_make(out, false); // it goes to a terminal
}

enum {
    MOST_LAYERS = DECODER_MOST_LAYERS,
    MOST_WIDTH = 1 << 18,
    MOST_HEADS = 4096,
    MOST_HEAD = 4096,
    MOST_WINDOW = 1 << 24,
    MOST_EXPERTS = 1024,
    MOST_USED = 16, // more than any model has, and each is a few nodes
};

// How wide an expert is, how many there are, and how many of them a token has.
static enum status expert_sizes(const struct reader * r, struct decoder * d) {
    bool mixture = r->form == EXPERTS || r->form == OAI;
    if (!mixture && find(r, "expert_count") >= 0) {
        return error_set(r->err, ST_UNSUPPORTED,
                         "%s: experts in a model of '%s' are not known; in qwen3moe and gpt-oss "
                         "they are",
                         r->path, r->architecture);
    }
    if (!mixture) {
        return ST_OK;
    }
    enum status st = number(r, "expert_count", MOST_EXPERTS, 0, &d->experts);
    if (st == ST_OK) {
        st = number(r, "expert_used_count", MOST_USED, 0, &d->used);
    }
    if (st == ST_OK && d->used > d->experts) {
        st = error_set(r->err, ST_INVALID, "%s: %lld experts for a token, of %lld", r->path,
                       (long long) d->used, (long long) d->experts);
    }
    int64_t usual = st == ST_OK && d->ff >= d->used ? d->ff / d->used : 1;
    return st == ST_OK ? number(r, "expert_feed_forward_length", 4 * MOST_WIDTH, usual, &d->ff)
                       : st;
}

static enum status sizes(const struct reader * r, struct decoder * d) {
    enum status st = number(r, "block_count", MOST_LAYERS, 0, &d->layers);
    if (st == ST_OK) {
        st = number(r, "embedding_length", MOST_WIDTH, 0, &d->embd);
    }
    if (st == ST_OK) {
        st = number(r, "feed_forward_length", 4 * MOST_WIDTH, 0, &d->ff);
    }
    if (st == ST_OK) {
        st = number(r, "attention.head_count", MOST_HEADS, 0, &d->heads);
    }
    if (st == ST_OK) {
        st = number(r, "attention.head_count_kv", MOST_HEADS, d->heads, &d->kv_heads);
    }
    if (st == ST_OK) {
        int64_t usual = d->embd / d->heads;
        st = number(r, "attention.key_length", MOST_HEAD, usual ? usual : 1, &d->head_dim);
    }
    if (st == ST_OK) {
        st = number(r, "rope.dimension_count", MOST_HEAD, d->head_dim, &d->rope_dims);
    }
    if (st == ST_OK && (d->heads % d->kv_heads || d->rope_dims > d->head_dim || d->rope_dims % 2)) {
        st = error_set(r->err, ST_INVALID,
                       "%s: %lld heads, %lld of keys, of %lld, %lld of them turned: these do not "
                       "go together",
                       r->path, (long long) d->heads, (long long) d->kv_heads,
                       (long long) d->head_dim, (long long) d->rope_dims);
    }
    if (st == ST_OK && find(r, "attention.sliding_window") >= 0) {
        st = number(r, "attention.sliding_window", MOST_WINDOW, 0, &d->window);
    }
    return st == ST_OK ? expert_sizes(r, d) : st;
}

// ---- tensors ----

// The tensor's datatype; false: it is not there, which is fine for what is optional.
static bool has_tensor(const struct reader * r, const char * name, int64_t * id) {
    *id = gguf_find_tensor(r->gguf, name);
    return *id >= 0;
}

static enum status check_tensor(const struct reader * r, const char * name, int64_t id,
                                const int64_t want[3], enum ggml_type * type) {
    const int64_t * ne = gguf_get_tensor_ne(r->gguf, id);
    *type = gguf_get_tensor_type(r->gguf, id);
    int64_t rows = want[1] ? want[1] : 1, matrices = want[2] ? want[2] : 1;
    if (ne[0] != want[0] || ne[1] != rows || ne[2] != matrices || ne[3] != 1) {
        return error_set(
            r->err, ST_INVALID, "%s: %s is [%lld, %lld, %lld, %lld], not [%lld, %lld, %lld]",
            r->path, name, (long long) ne[0], (long long) ne[1], (long long) ne[2],
            (long long) ne[3], (long long) want[0], (long long) rows, (long long) matrices);
    }
    if (!want[1] && *type != GGML_TYPE_F32) {
        return error_set(r->err, ST_UNSUPPORTED, "%s: %s is of type %s, not f32", r->path, name,
                         ggml_type_name(*type));
    }
    return ST_OK;
}

static enum status look_up(const struct reader * r, const struct decoder * d, int w, int64_t layer,
                           bool * has, enum ggml_type * type) {
    const char * plain = decoder_weight_name((enum decoder_weight) w);
    char name[96];
    bool of_layer = w < DECODER_LAYER_WEIGHTS && w != DECODER_ROPE_FACTORS;
    int n = of_layer ? snprintf(name, sizeof name, "blk.%lld.%s", (long long) layer, plain)
                     : snprintf(name, sizeof name, "%s", plain);
    (void) n;
    int64_t id, ne[3];
    *has = (weights[w].may & r->form) && has_tensor(r, name, &id);
    *type = GGML_TYPE_F32;
    if (w == DECODER_ROPE_FACTORS && !*has) { // of a model with two tables, for a short context
        *has = has_tensor(r, "rope_factors_short.weight", &id);
    }
    if (!*has) {
        return weights[w].needs & r->form
                   ? error_set(r->err, ST_INVALID, "%s: has no tensor '%s'", r->path, name)
                   : ST_OK;
    }
    decoder_weight_shape(d, (enum decoder_weight) w, ne);
    return check_tensor(r, name, id, ne, type);
}

static enum status read_layers(const struct reader * r, int pattern, struct model_file * out) {
    struct decoder * d = &out->model.decoder;
    enum status st = ST_OK;
    for (int64_t layer = 0; layer < d->layers && st == ST_OK; layer++) {
        bool slides = pattern && d->window && layer % pattern < pattern - 1;
        enum ggml_type types[DECODER_LAYER_WEIGHTS] = {0};
        for (int w = 0; w < DECODER_LAYER_WEIGHTS && st == ST_OK; w++) {
            bool has;
            st = look_up(r, d, w, layer, &has, &types[w]);
            if (st == ST_OK && layer > 0 && has != d->has[w]) {
                st = error_set(r->err, ST_INVALID, "%s: layer %lld is not like the first one: %s",
                               r->path, (long long) layer,
                               decoder_weight_name((enum decoder_weight) w));
            }
            d->has[w] = has;
        }
        if (st == ST_OK && !decoder_model_add(&out->model, types, slides)) {
            st = error_set(r->err, ST_UNSUPPORTED,
                           "%s: layers of more than %d kinds, by the datatypes of their weights",
                           r->path, DECODER_MOST_KINDS);
        }
    }
    return st;
}

static enum status read_head(const struct reader * r, struct model_file * out) {
    struct decoder * d = &out->model.decoder;
    enum { MOST_WORDS = 1 << 20 }; // four times as many as any model has
    int64_t id;
    if (!has_tensor(r, decoder_weight_name(DECODER_EMBD), &id)) {
        return error_set(r->err, ST_INVALID, "%s: has no tensor '%s'", r->path,
                         decoder_weight_name(DECODER_EMBD));
    }
    d->vocab = gguf_get_tensor_ne(r->gguf, id)[1];
    if (d->vocab < 1 || d->vocab > MOST_WORDS) {
        return error_set(r->err, ST_INVALID,
                         "%s: a vocabulary of %lld; at most %d words are believed", r->path,
                         (long long) d->vocab, MOST_WORDS);
    }
    enum status st = ST_OK;
    for (int w = DECODER_EMBD; w < DECODER_WEIGHTS && st == ST_OK; w++) {
        st = look_up(r, d, w, 0, &d->has[w], &d->types[w]);
    }
    return st;
}

// ---- files ----

static enum status read_model(struct reader * r, struct model_file * out) {
    struct decoder * d = &out->model.decoder;
    text(r->gguf, "general.architecture", out->architecture, sizeof out->architecture);
    text(r->gguf, "general.name", out->name, sizeof out->name);
    out->tensors = (uint64_t) gguf_get_n_tensors(r->gguf);
    for (int64_t i = 0; i < gguf_get_n_tensors(r->gguf); i++) {
        out->bytes += gguf_get_tensor_size(r->gguf, i);
    }
    int a = 0;
    while (a < ARCHITECTURES && strcmp(architectures[a].name, out->architecture) != 0) {
        a++;
    }
    if (a == ARCHITECTURES) {
        return error_set(r->err, ST_UNSUPPORTED,
                         "%s: the architecture '%s' is not known; llama, qwen2, qwen3, qwen3moe, "
                         "gpt-oss, phi3, granite, gemma, gemma2 and gemma3 are",
                         r->path, out->architecture);
    }
    r->architecture = architectures[a].name;
    r->form = architectures[a].form;
    enum status st = sizes(r, d);
    if (st != ST_OK) {
        return st;
    }
    d->neox = architectures[a].neox;
    d->gelu = architectures[a].gelu;
    d->oai = d->chosen_first = r->form == OAI;
    d->scales_queries = r->form == FUSED;
    d->residual_scale = fraction(r, "residual_scale", 0);
    d->logits_scale = fraction(r, "logit_scale", 0);
    d->embd_scale =
        architectures[a].scales ? sqrtf((float) d->embd) : fraction(r, "embedding_scale", 0);
    d->eps = fraction(r, "attention.layer_norm_rms_epsilon", 1e-5f);
    d->rope_base = fraction(r, "rope.freq_base", 10000);
    d->rope_scale = 1;
    d->attn_cap = fraction(r, "attn_logit_softcapping", 0);
    d->logits_cap = fraction(r, "final_logit_softcapping", 0);
    d->kv = GGML_TYPE_F16;
    st = read_head(r, out);
    return st == ST_OK ? read_layers(r, architectures[a].pattern, out) : st;
}

static void keep_quiet(enum ggml_log_level level, const char * line, void * user) {
    (void) level;
    char * said = user;
    if (!*said) {
        snprintf(said, 160, "%s", line);
        said[strcspn(said, "\n")] = '\0';
    }
}

enum status model_file_read(const char * path, struct model_file * out, struct error * err) {
    *out = (struct model_file){0};
    char said[160] = "";
    FILE * file = fopen(path, "rb");
    if (!file) {
        return error_set(err, ST_NOT_FOUND, "%s: %s", path, strerror(errno));
    }
    errno = 0;
    char first[4] = "";
    size_t n = fread(first, 1, sizeof first, file);
    int why = errno;
    fclose(file);
    if (n == 0) {
        return error_set(err, ST_INVALID, "%s: %s", path,
                         why ? strerror(why) : "no GGUF file: it is empty");
    }
    ggml_log_set(keep_quiet, said);
    struct gguf_context * gguf = gguf_init_from_file(path, (struct gguf_init_params){true, NULL});
    ggml_log_set(NULL, NULL);
    if (!gguf) {
        return error_set(err, ST_CORRUPT, "%s: no GGUF file, or not a whole one%s%s; get it anew",
                         path, *said ? ": " : "", said);
    }
    struct reader r = {.gguf = gguf, .path = path, .err = err};
    enum status st = read_model(&r, out);
    gguf_free(gguf);
    return st;
}
