// vision-model MODEL.gguf IMAGE.ppm [PROJECTOR]: the part of a model that sees, in llama.cpp's file
// format, and a picture for it. It is Gemma 3's in all but size, unless told: a convolution that
// makes the patches of a picture of 64 x 64, two layers of attention, the mean of each four
// neighbours, and a projection to the 64 numbers of a token that tiny-model's models have. Others
// differ by their projectors, by a patch of no place before the first, and by products of queries,
// keys and values that are one. The numbers come from a generator
// with a fixed seed, so that both files are the same everywhere.
#include "ggml.h"
#include "gguf.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    SIDE = 64, // of the picture, in dots
    PATCH = 8,
    COLORS = 3,
    PATCHES = SIDE / PATCH * (SIDE / PATCH),
    STATE = 64,
    FFN = 128,
    HEADS = 4,
    LAYERS = 2,
    MERGED = 2, // patches of a side that become one token
    MEMORY = 8 << 20,
};

static struct ggml_context * ctx;
static struct gguf_context * file;
static uint32_t seed = 1;

static float next(float size) { // even between -size and size
    seed = seed * 1664525u + 1013904223u;
    return size * ((float) (seed >> 8) / 8388608.0f - 1.0f);
}

static const struct projector {
    const char * name;
    bool first, joined, norm; // norm: before the products
    const char *one, *two;    // products
    int merged;               // patches that one token is made of; 1: not read from the file
} projectors[] = {
    {"gemma3", false, false, false, NULL, NULL, 1},
    {"mlp", true, false, false, "mm.0", "mm.2", 1},
    {"idefics3", false, false, false, "mm.model.fc", NULL, MERGED * MERGED},
    {"internvl", true, true, true, "mm.1", "mm.3", MERGED * MERGED},
    {"lfm2", false, false, true, "mm.1", "mm.2", MERGED * MERGED},
    {"janus_pro", false, false, false, "mm.0", "mm.1", 1},
    {"phi4", false, false, false, "mm.0", "mm.2", 1},
};
enum { PROJECTORS = sizeof projectors / sizeof projectors[0] };
static const struct projector * projector = projectors;

// ---- tensors ----

static void add(struct ggml_tensor * t, const char * name, float around, float size) {
    ggml_set_name(t, name);
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        float v = around + next(size);
        if (t->type == GGML_TYPE_F16) {
            ((ggml_fp16_t *) t->data)[i] = ggml_fp32_to_fp16(v);
        } else {
            ((float *) t->data)[i] = v;
        }
    }
    gguf_add_tensor(file, t);
}

static void vector(const char * name, const char * part, int n, float around) {
    char text[64];
    snprintf(text, sizeof text, "%s.%s", name, part);
    add(ggml_new_tensor_1d(ctx, GGML_TYPE_F32, n), text, around, 0.1f);
}

static void norm_of(const char * name, int n) {
    vector(name, "weight", n, 1);
    vector(name, "bias", n, 0);
}

static void norm(const char * name) {
    norm_of(name, STATE);
}

static void linear(const char * name, int k, int m) {
    char text[64];
    snprintf(text, sizeof text, "%s.weight", name);
    add(ggml_new_tensor_2d(ctx, GGML_TYPE_F16, k, m), text, 0, 2.0f / sqrtf((float) k));
    vector(name, "bias", m, 0);
}

static void layer(int i) {
    static const struct {
        const char * name;
        int k, m; // no k: a norm
        enum { ALWAYS, APART, JOINED } when;
    } parts[] = {
        {"ln1", 0, 0, ALWAYS},
        {"attn_q", STATE, STATE, APART},
        {"attn_k", STATE, STATE, APART},
        {"attn_v", STATE, STATE, APART},
        {"attn_qkv", STATE, 3 * STATE, JOINED},
        {"attn_out", STATE, STATE, ALWAYS},
        {"ln2", 0, 0, ALWAYS},
        {"ffn_up", STATE, FFN, ALWAYS},
        {"ffn_down", FFN, STATE, ALWAYS},
    };
    for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
        char name[48];
        snprintf(name, sizeof name, "v.blk.%d.%s", i, parts[p].name);
        if (parts[p].when == (projector->joined ? APART : JOINED)) {
            continue;
        }
        if (parts[p].k) {
            linear(name, parts[p].k, parts[p].m);
        } else {
            norm(name);
        }
    }
    if (projector->joined) { // and what scales both results
        for (int k = 1; k <= 2; k++) {
            char name[48];
            snprintf(name, sizeof name, "v.blk.%d.ls%d", i, k);
            vector(name, "weight", STATE, 1);
        }
    }
}

static void put_projector(void) {
    int in = STATE * projector->merged;
    if (!projector->one) {
        vector("mm.soft_emb_norm", "weight", STATE, 1);
        add(ggml_new_tensor_2d(ctx, GGML_TYPE_F32, STATE, STATE), "mm.input_projection.weight", 0,
            0.2f);
        return;
    }
    if (projector->norm) {
        norm_of(projector->joined ? "mm.0" : "mm.input_norm", in);
    }
    if (projector->two) {
        linear(projector->one, in, FFN);
        linear(projector->two, FFN, STATE);
    } else { // without a bias
        char name[48];
        snprintf(name, sizeof name, "%s.weight", projector->one);
        add(ggml_new_tensor_2d(ctx, GGML_TYPE_F16, in, STATE), name, 0, 0.1f);
    }
}

// ---- the files ----

static void put_keys(void) {
    static const struct {
        const char * key;
        uint32_t value;
    } numbers[] = {
        {"image_size", SIDE},
        {"patch_size", PATCH},
        {"embedding_length", STATE},
        {"feed_forward_length", FFN},
        {"block_count", LAYERS},
        {"projection_dim", STATE},
        {"attention.head_count", HEADS},
        {"projector.scale_factor", MERGED},
    };
    static const float half[COLORS] = {0.5f, 0.5f, 0.5f};
    gguf_set_val_str(file, "general.architecture", "clip");
    gguf_set_val_str(file, "clip.projector_type", projector->name);
    gguf_set_val_bool(file, "clip.has_vision_encoder", true);
    gguf_set_val_bool(file, "clip.use_gelu", true);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char key[64];
        snprintf(key, sizeof key, "clip.vision.%s", numbers[i].key);
        bool merge = !strcmp(numbers[i].key, "projector.scale_factor");
        if (!merge || !projector->one || projector->merged > 1) {
            gguf_set_val_u32(file, key, numbers[i].value);
        }
    }
    gguf_set_val_f32(file, "clip.vision.attention.layer_norm_epsilon", 1e-6f);
    gguf_set_arr_data(file, "clip.vision.image_mean", GGUF_TYPE_FLOAT32, half, COLORS);
    gguf_set_arr_data(file, "clip.vision.image_std", GGUF_TYPE_FLOAT32, half, COLORS);
}

static bool write_model(const char * path) {
    ctx = ggml_init((struct ggml_init_params){.mem_size = MEMORY});
    file = gguf_init_empty();
    put_keys();
    add(ggml_new_tensor_4d(ctx, GGML_TYPE_F16, PATCH, PATCH, COLORS, STATE), "v.patch_embd.weight",
        0, 0.15f);
    vector("v.patch_embd", "bias", STATE, 0);
    int first = projector->first;
    if (first) {
        add(ggml_new_tensor_1d(ctx, GGML_TYPE_F32, STATE), "v.class_embd", 0, 0.5f);
        norm("v.pre_ln");
    }
    add(ggml_new_tensor_2d(ctx, GGML_TYPE_F32, STATE, PATCHES + first), "v.position_embd.weight", 0,
        0.5f);
    for (int i = 0; i < LAYERS; i++) {
        layer(i);
    }
    norm("v.post_ln");
    put_projector();
    bool ok = gguf_write_to_file(file, path, false);
    gguf_free(file);
    ggml_free(ctx);
    return ok;
}

// Rings of colour.
static bool write_picture(const char * path) {
    FILE * out = fopen(path, "wb");
    if (!out) {
        return false;
    }
    fprintf(out, "P6\n%d %d\n255\n", SIDE, SIDE);
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            double away = hypot(x - 20, y - 40);
            for (int c = 0; c < COLORS; c++) {
                fputc((int) (127.5 + 127 * sin(away / (3 + c))), out);
            }
        }
    }
    bool ok = !ferror(out);
    return fclose(out) == 0 && ok;
}

int main(int argc, char ** argv) {
    for (int i = 0; i < PROJECTORS && argc == 4; i++) {
        projector = !strcmp(projectors[i].name, argv[3]) ? &projectors[i] : projector;
    }
    bool known = argc < 4 || !strcmp(projector->name, argv[3]);
    if (argc < 3 || argc > 4 || argv[1][0] == '-' || !known) {
        fprintf(stderr, "usage: vision-model MODEL.gguf IMAGE.ppm [PROJECTOR]\n");
        return 2;
    }
    for (int i = 1; i < 3; i++) {
        if (!(i == 1 ? write_model : write_picture)(argv[i])) {
            fprintf(stderr, "vision-model: %s cannot be written\n", argv[i]);
            return 1;
        }
    }
    return 0;
}
