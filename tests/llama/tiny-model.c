// tiny-model FILE.gguf [ARCHITECTURE]: a language model of no language, for who has none at hand.
// The architecture is llama's unless told, two layers of 64; the others are there for their graphs.
// The numbers come from a generator with a fixed seed, so that the file is the same everywhere.
// Random weights alone would make every next token a toss-up that the last bits decide; here each
// token's row of the output is the embedding of the one before it in a cycle, and the layers add to
// that: the likeliest token is clearly the likeliest, and every layer is computed to find it.
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
    EXPERTS = 8,
    EXPERTS_USED = 2,
    EXPERT_FFN = 64,
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
                                int64_t rows, int64_t experts, float size, const char * name) {
    struct ggml_tensor * t = experts
                                 ? ggml_new_tensor_3d(ctx, GGML_TYPE_F32, columns, rows, experts)
                             : rows ? ggml_new_tensor_2d(ctx, GGML_TYPE_F32, columns, rows)
                                    : ggml_new_tensor_1d(ctx, GGML_TYPE_F32, columns);
    float * data = ggml_get_data_f32(t);
    bool norm = strstr(name, "norm") != NULL; // whose numbers are near 1
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        data[i] = norm ? 1.0f + random_float(0.25f) : random_float(size);
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

// ---- architectures ----

enum { LLAMA = 1, QWEN2 = 2, QWEN3 = 4, QWEN3MOE = 8, GEMMA2 = 16, GEMMA3 = 32, ALL = 63 };

static const struct {
    const char * name;
    int bit;
} architectures[] = {{"llama", LLAMA},       {"qwen2", QWEN2},   {"qwen3", QWEN3},
                     {"qwen3moe", QWEN3MOE}, {"gemma2", GEMMA2}, {"gemma3", GEMMA3}};
enum { N_ARCHITECTURES = sizeof architectures / sizeof architectures[0] };

static void put_weights(struct ggml_context * ctx, struct gguf_context * g, int architecture) {
    enum { HEAD = EMBD / HEADS, KV = HEAD * KV_HEADS, DENSE = ALL & ~QWEN3MOE };
    static const struct {
        int of;
        const char * name;
        int columns, rows, experts;
        float size;
    } rows[] = {
        {ALL, "attn_norm.weight", EMBD, 0, 0, 0},
        {ALL, "attn_q.weight", EMBD, EMBD, 0, 0.2f},
        {ALL, "attn_k.weight", EMBD, KV, 0, 0.2f},
        {ALL, "attn_v.weight", EMBD, KV, 0, 0.25f},
        {ALL, "attn_output.weight", EMBD, EMBD, 0, 0.25f},
        {ALL, "ffn_norm.weight", EMBD, 0, 0, 0},
        {DENSE, "ffn_gate.weight", EMBD, FFN, 0, 0.15f},
        {DENSE, "ffn_up.weight", EMBD, FFN, 0, 0.15f},
        {DENSE, "ffn_down.weight", FFN, EMBD, 0, 0.25f},
        {QWEN2, "attn_q.bias", EMBD, 0, 0, 0.1f},
        {QWEN2, "attn_k.bias", KV, 0, 0, 0.1f},
        {QWEN2, "attn_v.bias", KV, 0, 0, 0.1f},
        {QWEN3 | QWEN3MOE | GEMMA3, "attn_q_norm.weight", HEAD, 0, 0, 0},
        {QWEN3 | QWEN3MOE | GEMMA3, "attn_k_norm.weight", HEAD, 0, 0, 0},
        {QWEN3MOE, "ffn_gate_inp.weight", EMBD, EXPERTS, 0, 0.5f},
        {QWEN3MOE, "ffn_gate_exps.weight", EMBD, EXPERT_FFN, EXPERTS, 0.15f},
        {QWEN3MOE, "ffn_up_exps.weight", EMBD, EXPERT_FFN, EXPERTS, 0.15f},
        {QWEN3MOE, "ffn_down_exps.weight", EXPERT_FFN, EMBD, EXPERTS, 0.25f},
        {GEMMA2 | GEMMA3, "post_attention_norm.weight", EMBD, 0, 0, 0},
        {GEMMA2 | GEMMA3, "post_ffw_norm.weight", EMBD, 0, 0, 0},
    };
    struct ggml_tensor * embd = add(ctx, g, EMBD, VOCAB, 0, 1.0f, "token_embd.weight");
    if (architecture != GEMMA2) { // whose output is the embedding: a word follows itself
        link_words(embd, add(ctx, g, EMBD, VOCAB, 0, 1.0f, "output.weight"));
    }
    add(ctx, g, EMBD, 0, 0, 0, "output_norm.weight");
    for (int layer = 0; layer < LAYERS; layer++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%d.%s", layer, rows[i].name);
            if (rows[i].of & architecture) {
                add(ctx, g, rows[i].columns, rows[i].rows, rows[i].experts, rows[i].size, name);
            }
        }
    }
}

static void put_figures(struct gguf_context * g, const char * name, int architecture) {
    static const struct {
        int of;
        const char * key;
        uint32_t value;
    } numbers[] = {
        {ALL, "context_length", 512},
        {ALL, "embedding_length", EMBD},
        {ALL, "block_count", LAYERS},
        {ALL, "feed_forward_length", FFN},
        {ALL, "attention.head_count", HEADS},
        {ALL, "attention.head_count_kv", KV_HEADS},
        {ALL & ~LLAMA, "attention.key_length", EMBD / HEADS},
        {ALL & ~LLAMA, "attention.value_length", EMBD / HEADS},
        {ALL, "rope.dimension_count", EMBD / HEADS},
        {QWEN3MOE, "expert_count", EXPERTS},
        {QWEN3MOE, "expert_used_count", EXPERTS_USED},
        {QWEN3MOE, "expert_feed_forward_length", EXPERT_FFN},
        {GEMMA2 | GEMMA3, "attention.sliding_window", 64},
    };
    char key[96];
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        snprintf(key, sizeof key, "%s.%s", name, numbers[i].key);
        if (numbers[i].of & architecture) {
            gguf_set_val_u32(g, key, numbers[i].value);
        }
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", name);
    gguf_set_val_f32(g, key, 1e-5f);
    if (architecture == GEMMA2) {
        gguf_set_val_f32(g, "gemma2.attn_logit_softcapping", 50);
        gguf_set_val_f32(g, "gemma2.final_logit_softcapping", 30);
    }
}

int main(int argc, char ** argv) {
    const char * name = argc > 2 ? argv[2] : "llama";
    int architecture = 0;
    for (int i = 0; i < N_ARCHITECTURES; i++) {
        architecture |= !strcmp(name, architectures[i].name) ? architectures[i].bit : 0;
    }
    if (argc < 2 || argc > 3 || !architecture || argv[1][0] == '-') {
        bool help = argc == 2 && !strcmp(argv[1], "--help");
        FILE * out = help ? stdout : stderr;
        fprintf(out, "usage: tiny-model FILE.gguf [ARCHITECTURE]\n\n"
                     "Writes a language model of random weights.\n\narchitectures:");
        for (int i = 0; i < N_ARCHITECTURES; i++) {
            fprintf(out, " %s", architectures[i].name);
        }
        fprintf(out, "\n");
        return help ? 0 : 2;
    }
    struct ggml_init_params params = {.mem_size = (size_t) 16 << 20};
    struct ggml_context * ctx = ggml_init(params);
    struct gguf_context * g = gguf_init_empty();
    gguf_set_val_str(g, "general.architecture", name);
    gguf_set_val_str(g, "general.name", "tiny random model");
    put_figures(g, name, architecture);
    put_vocabulary(g);
    put_weights(ctx, g, architecture);
    bool ok = gguf_write_to_file(g, argv[1], false);
    if (!ok) {
        fprintf(stderr, "tiny-model: %s cannot be written\n", argv[1]);
    }
    gguf_free(g);
    ggml_free(ctx);
    return ok ? 0 : 1;
}
