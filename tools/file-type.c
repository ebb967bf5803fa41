// file-type: see file-type.h. The rules are llama-quantize's without an importance matrix; a test
// compares them with the tool itself. Llama 70B has one more rule, for the values of its 80 layers,
// and mixtures of eight experts have theirs: these are not here.
#include "file-type.h"

// clang-format off
const struct file_type file_types[FILE_TYPES] = {
    // name        base            head            more
    {"Q4_0",      GGML_TYPE_Q4_0, GGML_TYPE_Q6_K, GGML_TYPE_Q4_0, false, false},
    {"Q4_K_M",    GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_Q6_K, false, false},
    {"Q8_0",      GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, false, false},
    {"F16",       GGML_TYPE_F16,  GGML_TYPE_F16,  GGML_TYPE_F16,  false, false},
    {"BF16",      GGML_TYPE_BF16, GGML_TYPE_BF16, GGML_TYPE_BF16, false, false},
    {"Q4_0-pure", GGML_TYPE_Q4_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_0, true, false},
    {"Q4_K-pure", GGML_TYPE_Q4_K, GGML_TYPE_Q4_K, GGML_TYPE_Q4_K, true, false},
    {"MXFP4_MOE", GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, false, true},
};
// clang-format on

// Layers of the first and the last eighth, and every third in between.
static bool is_favoured(int64_t layer, int64_t layers) {
    int64_t first = layers / 8;
    return layer < first || layer >= 7 * layers / 8 || (layer - first) % 3 == 2;
}

// Rows that are no whole blocks: a type of smaller blocks, and where these do not fit either, f16.
static enum ggml_type fitting(enum ggml_type type, int64_t columns) {
    if (columns % ggml_blck_size(type) == 0) {
        return type;
    }
    enum ggml_type smaller = type == GGML_TYPE_Q4_K   ? GGML_TYPE_Q5_0
                             : type == GGML_TYPE_Q6_K ? GGML_TYPE_Q8_0
                                                      : type;
    return columns % ggml_blck_size(smaller) == 0 ? smaller : GGML_TYPE_F16;
}

enum ggml_type file_type_weight(const struct file_type * f, const struct decoder * d,
                                enum decoder_weight w, int64_t layer) {
    int64_t ne[3];
    decoder_weight_shape(d, w, ne);
    bool stays = !ne[1] || w == DECODER_ROUTER || w == DECODER_GATE_EXPERTS_BIAS ||
                 w == DECODER_UP_EXPERTS_BIAS || w == DECODER_DOWN_EXPERTS_BIAS;
    if (stays) {
        return GGML_TYPE_F32; // norms, biases, factors and what chooses experts
    }
    if (f->mxfp4 && ne[2]) {
        return GGML_TYPE_MXFP4;
    }
    bool is_head = w == DECODER_OUTPUT || (w == DECODER_EMBD && !d->has[DECODER_OUTPUT]);
    bool has_more = w == DECODER_V || w == DECODER_DOWN || w == DECODER_DOWN_EXPERTS;
    enum ggml_type type = is_head                                     ? f->head
                          : has_more && is_favoured(layer, d->layers) ? f->more
                                                                      : f->base;
    if (is_head && !f->pure && ne[0] % ggml_blck_size(f->base)) {
        type = GGML_TYPE_Q8_0;
    }
    return fitting(type, ne[0]);
}

void file_type_model(const struct file_type * f, const struct decoder * sizes,
                     struct decoder_model * out) {
    *out = (struct decoder_model){.decoder = *sizes};
    struct decoder * d = &out->decoder;
    for (int w = 0; w < DECODER_WEIGHTS; w++) {
        d->types[w] = file_type_weight(f, d, (enum decoder_weight) w, 0);
    }
    for (int64_t layer = 0; layer < d->layers; layer++) {
        enum ggml_type types[DECODER_LAYER_WEIGHTS];
        for (int w = 0; w < DECODER_LAYER_WEIGHTS; w++) {
            types[w] = file_type_weight(f, d, (enum decoder_weight) w, layer);
        }
        decoder_model_add(out, types, d->window && layer % 2 == 0); // four kinds at most
    }
}
