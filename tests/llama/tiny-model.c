// tiny-model FILE.gguf: a language model of no language, for who has none at hand. The architecture
// is llama's, two layers of 64; the numbers come from a generator with a fixed seed, so that the
// file is the same everywhere. Random weights alone would make every next token a toss-up that the
// last bits decide; here each token's row of the output is the embedding of the one before it in a
// cycle, and the layers add to that: the likeliest token is clearly the likeliest, and every layer
// is computed to find it.
#include "ggml.h"
#include "gguf.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EMBD = 64,
    LAYERS = 2,
    HEADS = 4,
    KV_HEADS = 2,
    FFN = 128,
    BYTES = 256,
    WORDS = 240,
    FIRST_WORD = 3 + BYTES,
    VOCAB = FIRST_WORD + WORDS + 13, // a multiple of 32
};

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint32_t random_word(void) { // xorshift64*
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (uint32_t) ((state * 0x2545f4914f6cdd1du) >> 32);
}

static float random_float(float size) { // even between -size and size
    return size * ((float) (random_word() >> 8) / (float) (1 << 23) - 1.0f);
}

// ---- words ----

// Two syllables each, no two words alike; what comes before, "▁", is SentencePiece's space.
static void word_text(int i, char text[32]) {
    static const char * const syllables[] = {"ba", "de", "fi", "go", "hu", "ka", "le", "mi",
                                             "no", "pu", "ra", "se", "ti", "vo", "wu", "za"};
    snprintf(text, 32, "\xe2\x96\x81%s%s", syllables[i / 16 % 16], syllables[i % 16]);
}

static void put_vocabulary(struct gguf_context * g) {
    enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, UNUSED = 5, BYTE = 6 };
    static char texts[VOCAB][32];
    static const char * tokens[VOCAB];
    static float scores[VOCAB];
    static int32_t types[VOCAB];
    for (int i = 0; i < VOCAB; i++) {
        bool is_byte = i >= 3 && i < FIRST_WORD,
             is_word = i >= FIRST_WORD && i < FIRST_WORD + WORDS;
        if (i < 3) {
            snprintf(texts[i], sizeof texts[i], "%s", i == 0 ? "<unk>" : i == 1 ? "<s>" : "</s>");
        } else if (is_byte) {
            snprintf(texts[i], sizeof texts[i], "<0x%02X>", i - 3);
        } else if (is_word) {
            word_text(i - FIRST_WORD, texts[i]);
        } else {
            snprintf(texts[i], sizeof texts[i], "<unused%d>", i - FIRST_WORD - WORDS);
        }
        tokens[i] = texts[i];
        scores[i] = is_word ? -(float) (i - FIRST_WORD) : 0;
        types[i] = i == 0 ? UNKNOWN : i < 3 ? CONTROL : is_byte ? BYTE : is_word ? NORMAL : UNUSED;
    }
    gguf_set_val_str(g, "tokenizer.ggml.model", "llama");
    gguf_set_arr_str(g, "tokenizer.ggml.tokens", tokens, VOCAB);
    gguf_set_arr_data(g, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores, VOCAB);
    gguf_set_arr_data(g, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types, VOCAB);
    gguf_set_val_u32(g, "tokenizer.ggml.bos_token_id", 1);
    gguf_set_val_u32(g, "tokenizer.ggml.eos_token_id", 2);
    gguf_set_val_u32(g, "tokenizer.ggml.unknown_token_id", 0);
}

// ---- weights ----

static struct ggml_tensor * add(struct ggml_context * ctx, struct gguf_context * g, int64_t columns,
                                int64_t rows, float size, const char * name) {
    struct ggml_tensor * t = rows ? ggml_new_tensor_2d(ctx, GGML_TYPE_F32, columns, rows)
                                  : ggml_new_tensor_1d(ctx, GGML_TYPE_F32, columns);
    float * data = ggml_get_data_f32(t);
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        data[i] = rows ? random_float(size) : 1.0f + random_float(0.25f); // a norm's is near 1
    }
    ggml_set_name(t, name);
    gguf_add_tensor(g, t);
    return t;
}

// The row of each word is the embedding of the word before it in a cycle through all of them; what
// is no word leads to one, and is never led to.
static void link_words(const struct ggml_tensor * embd, struct ggml_tensor * output) {
    const float * from = ggml_get_data_f32(embd);
    float * to = ggml_get_data_f32(output);
    for (int i = 0; i < VOCAB; i++) {
        bool is_word = i >= FIRST_WORD && i < FIRST_WORD + WORDS;
        int before = FIRST_WORD + (i - FIRST_WORD + WORDS - 77) % WORDS;
        for (int k = 0; k < EMBD; k++) {
            float * at = &to[i * EMBD + k];
            *at = is_word ? from[before * EMBD + k] + 0.1f * *at : 0.01f * *at;
        }
    }
}

static void put_weights(struct ggml_context * ctx, struct gguf_context * g) {
    static const struct {
        const char * name;
        int columns, rows;
        float size;
    } rows[] = {
        {"attn_norm", EMBD, 0, 0},
        {"attn_q", EMBD, EMBD, 0.2f},
        {"attn_k", EMBD, EMBD / HEADS * KV_HEADS, 0.2f},
        {"attn_v", EMBD, EMBD / HEADS * KV_HEADS, 0.25f},
        {"attn_output", EMBD, EMBD, 0.25f},
        {"ffn_norm", EMBD, 0, 0},
        {"ffn_gate", EMBD, FFN, 0.15f},
        {"ffn_up", EMBD, FFN, 0.15f},
        {"ffn_down", FFN, EMBD, 0.25f},
    };
    struct ggml_tensor * embd = add(ctx, g, EMBD, VOCAB, 1.0f, "token_embd.weight");
    struct ggml_tensor * output = add(ctx, g, EMBD, VOCAB, 1.0f, "output.weight");
    link_words(embd, output);
    add(ctx, g, EMBD, 0, 0, "output_norm.weight");
    for (int layer = 0; layer < LAYERS; layer++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%d.%s.weight", layer, rows[i].name);
            add(ctx, g, rows[i].columns, rows[i].rows, rows[i].size, name);
        }
    }
}

int main(int argc, char ** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: tiny-model FILE.gguf\n");
        return 2;
    }
    struct ggml_init_params params = {.mem_size = (size_t) 16 << 20};
    struct ggml_context * ctx = ggml_init(params);
    struct gguf_context * g = gguf_init_empty();
    gguf_set_val_str(g, "general.architecture", "llama");
    gguf_set_val_str(g, "general.name", "tiny random model");
    gguf_set_val_u32(g, "llama.context_length", 512);
    gguf_set_val_u32(g, "llama.embedding_length", EMBD);
    gguf_set_val_u32(g, "llama.block_count", LAYERS);
    gguf_set_val_u32(g, "llama.feed_forward_length", FFN);
    gguf_set_val_u32(g, "llama.attention.head_count", HEADS);
    gguf_set_val_u32(g, "llama.attention.head_count_kv", KV_HEADS);
    gguf_set_val_u32(g, "llama.rope.dimension_count", EMBD / HEADS);
    gguf_set_val_f32(g, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    put_vocabulary(g);
    put_weights(ctx, g);
    bool ok = gguf_write_to_file(g, argv[1], false);
    if (!ok) {
        fprintf(stderr, "tiny-model: %s cannot be written\n", argv[1]);
    }
    gguf_free(g);
    ggml_free(ctx);
    return ok ? 0 : 1;
}
