// tiny-model FILE.gguf [ARCHITECTURE]: a language model of no language, for who has none at hand.
// llama-wide is llama with half as many heads that are twice as wide, as quantized caches want
// them. The architecture is llama's unless told, two layers of 64; the others are there for their
// graphs. Where an architecture mixes kinds of layers, the first is recurrent and the second has
// attention; falcon-h1 has both in each. The numbers come from a generator with a fixed seed, so
// that the file is the same everywhere. Random weights alone would make every next token a toss-up
// that the last bits decide; here each token's row of the output is the embedding of the one before
// it in a cycle, and the layers add to that: the likeliest token is clearly the likeliest, and
// every layer is computed to find it.
#include "ggml.h"
#include "gguf.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef TINY_WIDTH // 256 is the least of which a row can be of the types with blocks of that many
#    define TINY_WIDTH 64
#endif

enum {
    EMBD = TINY_WIDTH,
    LAYERS = 2,
    HEADS = 4,
    KV_HEADS = 2,
    FFN = 2 * EMBD,
    EXPERTS = 8,
    EXPERTS_USED = 2,
    EXPERT_FFN = EMBD,
    CONTEXT = 512,
    // Of what is recurrent: a convolution, and heads with a state each.
    CONV = 4,
    STATE = 16,
    SSM_HEADS = 4,
    SSM_INNER = 2 * EMBD,
    SSM_CONVOLVED = SSM_INNER + 2 * STATE,
    DELTA_KEYS = 2 * STATE, // of two heads
    DELTA_VALUES = SSM_HEADS * STATE,
    WKV_HEAD = 32,
    LORA = 16,
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

// What numbers a weight has, by the last part of its name.
static float number_for(const char * name, float size) {
    bool factor = !strstr(name, ".bias") && (strstr(name, "norm") || strstr(name, "_ln"));
    bool decay = strstr(name, "ssm_a"); // below zero, or states would grow
    return factor  ? 1.0f + random_float(0.25f)
           : decay ? -1.0f + random_float(0.5f)
                   : random_float(size);
}

// Dimensions that are 0 are not there.
static struct ggml_tensor * add(struct ggml_context * ctx, struct gguf_context * g, int64_t columns,
                                int64_t rows, int64_t experts, float size, const char * name) {
    const int64_t ne[4] = {columns, rows ? rows : 1, experts > 0 ? experts : 1,
                           experts < 0 ? -experts : 1}; // below zero: the fourth
    int dims = experts < 0 ? 4 : experts ? 3 : rows ? 2 : 1;
    struct ggml_tensor * t = ggml_new_tensor(ctx, GGML_TYPE_F32, dims, ne);
    float * data = ggml_get_data_f32(t);
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        data[i] = number_for(name, size);
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

enum {
    LLAMA = 1,
    QWEN2 = 2,
    QWEN3 = 4,
    QWEN3MOE = 8,
    GEMMA2 = 16,
    GEMMA3 = 32,
    GPT_OSS = 64,
    QWEN3NEXT = 128,
    MAMBA2 = 256,
    GRANITE = 512,
    RWKV7 = 1024,
    BERT = 2048,
    FALCON = 4096,
    JAMBA = 8192,
    LFM2 = 16384,
    ALL = 32767,
    MIXED = QWEN3MOE | GPT_OSS | QWEN3NEXT,                     // of experts
    ATTENTIVE = ALL & ~(MAMBA2 | RWKV7),                        // in the second layer at least
    HYBRID = QWEN3NEXT | GRANITE | JAMBA | LFM2,                // not in the first
    SCANNED = MAMBA2 | GRANITE | FALCON,                        // by heads
    PLAIN = LLAMA | QWEN2 | QWEN3 | QWEN3MOE | GEMMA2 | GEMMA3, // llama's figures and norms
};

static const struct {
    const char * name;
    int bit;
} architectures[] = {{"llama", LLAMA},           {"qwen2", QWEN2},         {"qwen3", QWEN3},
                     {"qwen3moe", QWEN3MOE},     {"gemma2", GEMMA2},       {"gemma3", GEMMA3},
                     {"gpt-oss", GPT_OSS},       {"qwen3next", QWEN3NEXT}, {"mamba2", MAMBA2},
                     {"granitehybrid", GRANITE}, {"rwkv7", RWKV7},         {"bert", BERT},
                     {"falcon-h1", FALCON},      {"jamba", JAMBA},         {"lfm2", LFM2}};
enum { N_ARCHITECTURES = sizeof architectures / sizeof architectures[0] };

struct weight {
    int of;
    const char * name;
    int columns, rows, experts; // experts below zero: the fourth dimension, with a third of one
    float size;
};

enum { HEAD = EMBD / HEADS, KV = HEAD * KV_HEADS };

static const struct weight every_layer[] = {
    {ALL & ~BERT, "attn_norm.weight", EMBD, 0, 0, 0},
};

static const struct weight with_attention[] = {
    {ATTENTIVE & ~QWEN3NEXT, "attn_q.weight", EMBD, EMBD, 0, 0.2f},
    {QWEN3NEXT, "attn_q.weight", EMBD, 2 * EMBD, 0, 0.2f}, // and a gate
    {ATTENTIVE, "attn_k.weight", EMBD, KV, 0, 0.2f},
    {ATTENTIVE, "attn_v.weight", EMBD, KV, 0, 0.25f},
    {ATTENTIVE, "attn_output.weight", EMBD, EMBD, 0, 0.25f},
};

static const struct weight behind[] = {
    {PLAIN | GRANITE | JAMBA | LFM2, "ffn_norm.weight", EMBD, 0, 0, 0},
    {FALCON, "ffn_norm", EMBD, 0, 0, 0},
    {PLAIN & ~QWEN3MOE, "ffn_gate.weight", EMBD, FFN, 0, 0.15f},
    {PLAIN & ~QWEN3MOE, "ffn_up.weight", EMBD, FFN, 0, 0.15f},
    {PLAIN & ~QWEN3MOE, "ffn_down.weight", FFN, EMBD, 0, 0.25f},
    {QWEN2, "attn_q.bias", EMBD, 0, 0, 0.1f},
    {QWEN2, "attn_k.bias", KV, 0, 0, 0.1f},
    {QWEN2, "attn_v.bias", KV, 0, 0, 0.1f},
    {QWEN3 | QWEN3MOE | GEMMA3, "attn_q_norm.weight", HEAD, 0, 0, 0},
    {QWEN3 | QWEN3MOE | GEMMA3, "attn_k_norm.weight", HEAD, 0, 0, 0},
    {MIXED, "ffn_gate_inp.weight", EMBD, EXPERTS, 0, 0.5f},
    {MIXED, "ffn_gate_exps.weight", EMBD, EXPERT_FFN, EXPERTS, 0.15f},
    {MIXED, "ffn_up_exps.weight", EMBD, EXPERT_FFN, EXPERTS, 0.15f},
    {MIXED, "ffn_down_exps.weight", EXPERT_FFN, EMBD, EXPERTS, 0.25f},
    {GEMMA2 | GEMMA3 | GPT_OSS | QWEN3NEXT, "post_attention_norm.weight", EMBD, 0, 0, 0},
    {GEMMA2 | GEMMA3, "post_ffw_norm.weight", EMBD, 0, 0, 0},
    {GPT_OSS | BERT, "attn_q.bias", EMBD, 0, 0, 0.1f},
    {GPT_OSS | BERT, "attn_k.bias", KV, 0, 0, 0.1f},
    {GPT_OSS | BERT, "attn_v.bias", KV, 0, 0, 0.1f},
    {GPT_OSS | BERT, "attn_output.bias", EMBD, 0, 0, 0.1f},
    {GPT_OSS, "attn_sinks.weight", HEADS, 0, 0, 1},
    {GPT_OSS, "ffn_gate_inp.bias", EXPERTS, 0, 0, 0.1f},
    {GPT_OSS, "ffn_gate_exps.bias", EXPERT_FFN, EXPERTS, 0, 0.1f},
    {GPT_OSS, "ffn_up_exps.bias", EXPERT_FFN, EXPERTS, 0, 0.1f},
    {GPT_OSS, "ffn_down_exps.bias", EMBD, EXPERTS, 0, 0.1f},
    {QWEN3NEXT, "ffn_gate_inp_shexp.weight", EMBD, 0, 0, 0.2f},
    {QWEN3NEXT, "ffn_gate_shexp.weight", EMBD, EXPERT_FFN, 0, 0.15f},
    {QWEN3NEXT, "ffn_up_shexp.weight", EMBD, EXPERT_FFN, 0, 0.15f},
    {QWEN3NEXT, "ffn_down_shexp.weight", EXPERT_FFN, EMBD, 0, 0.25f},
    {GRANITE | FALCON | JAMBA | LFM2, "ffn_gate.weight", EMBD, FFN, 0, 0.15f},
    {GRANITE | FALCON | JAMBA | LFM2 | BERT, "ffn_up.weight", EMBD, FFN, 0, 0.15f},
    {GRANITE | FALCON | JAMBA | LFM2 | BERT, "ffn_down.weight", FFN, EMBD, 0, 0.25f},
    {BERT, "attn_output_norm.weight", EMBD, 0, 0, 0},
    {BERT, "attn_output_norm.bias", EMBD, 0, 0, 0.1f},
    {BERT, "ffn_up.bias", FFN, 0, 0, 0.1f},
    {BERT, "ffn_down.bias", EMBD, 0, 0, 0.1f},
    {BERT, "layer_output_norm.weight", EMBD, 0, 0, 0},
    {BERT, "layer_output_norm.bias", EMBD, 0, 0, 0.1f},
    {RWKV7, "attn_norm.bias", EMBD, 0, 0, 0.1f},
    {RWKV7, "attn_norm_2.weight", EMBD, 0, 0, 0},
    {RWKV7, "attn_norm_2.bias", EMBD, 0, 0, 0.1f},
    {RWKV7, "time_mix_w0.weight", EMBD, 0, 0, 0.5f},
    {RWKV7, "time_mix_w1.weight", EMBD, LORA, 0, 0.2f},
    {RWKV7, "time_mix_w2.weight", LORA, EMBD, 0, 0.2f},
    {RWKV7, "time_mix_a0.weight", EMBD, 0, 0, 0.5f},
    {RWKV7, "time_mix_a1.weight", EMBD, LORA, 0, 0.2f},
    {RWKV7, "time_mix_a2.weight", LORA, EMBD, 0, 0.2f},
    {RWKV7, "time_mix_v0.weight", EMBD, 0, 0, 0.5f},
    {RWKV7, "time_mix_v1.weight", EMBD, LORA, 0, 0.2f},
    {RWKV7, "time_mix_v2.weight", LORA, EMBD, 0, 0.2f},
    {RWKV7, "time_mix_g1.weight", EMBD, LORA, 0, 0.2f},
    {RWKV7, "time_mix_g2.weight", LORA, EMBD, 0, 0.5f},
    {RWKV7, "time_mix_lerp_fused.weight", EMBD, 0, -6, 0.5f},
    {RWKV7, "time_mix_k_k.weight", EMBD, 0, 0, 1},
    {RWKV7, "time_mix_k_a.weight", EMBD, 0, 0, 1},
    {RWKV7, "time_mix_r_k.weight", EMBD, 0, 0, 0.5f},
    {RWKV7, "time_mix_key.weight", EMBD, EMBD, 0, 0.2f},
    {RWKV7, "time_mix_value.weight", EMBD, EMBD, 0, 0.2f},
    {RWKV7, "time_mix_receptance.weight", EMBD, EMBD, 0, 0.2f},
    {RWKV7, "time_mix_ln.weight", EMBD, 0, 0, 0},
    {RWKV7, "time_mix_ln.bias", EMBD, 0, 0, 0.1f},
    {RWKV7, "time_mix_output.weight", EMBD, EMBD, 0, 0.25f},
    {RWKV7, "channel_mix_lerp_k.weight", EMBD, 1, 1, 0.5f},
    {RWKV7, "channel_mix_key.weight", EMBD, FFN, 0, 0.15f},
    {RWKV7, "channel_mix_value.weight", FFN, EMBD, 0, 0.15f},
};

static const struct weight recurrent[] = {
    {SCANNED, "ssm_in.weight", EMBD, SSM_INNER + SSM_CONVOLVED + SSM_HEADS, 0, 0.2f},
    {SCANNED, "ssm_conv1d.weight", CONV, SSM_CONVOLVED, 0, 0.5f},
    {SCANNED, "ssm_conv1d.bias", SSM_CONVOLVED, 0, 0, 0.1f},
    {SCANNED | QWEN3NEXT, "ssm_dt.bias", SSM_HEADS, 0, 0, 0.5f},
    {SCANNED, "ssm_a", 1, SSM_HEADS, 0, 0},
    {SCANNED, "ssm_d", 1, SSM_HEADS, 0, 1},
    {SCANNED, "ssm_norm.weight", SSM_INNER, 1, 0, 0},
    {SCANNED | JAMBA, "ssm_out.weight", SSM_INNER, EMBD, 0, 0.25f},
    {JAMBA, "ssm_in.weight", EMBD, 2 * SSM_INNER, 0, 0.2f},
    {JAMBA, "ssm_conv1d.weight", CONV, SSM_INNER, 0, 0.5f},
    {JAMBA, "ssm_conv1d.bias", SSM_INNER, 0, 0, 0.1f},
    {JAMBA, "ssm_x.weight", SSM_INNER, SSM_HEADS + 2 * STATE, 0, 0.2f},
    {JAMBA, "ssm_dt_norm.weight", SSM_HEADS, 0, 0, 0},
    {JAMBA, "ssm_dt.weight", SSM_HEADS, SSM_INNER, 0, 0.2f},
    {JAMBA, "ssm_dt.bias", SSM_INNER, 0, 0, 0.5f},
    {JAMBA, "ssm_b_norm.weight", STATE, 0, 0, 0},
    {JAMBA, "ssm_c_norm.weight", STATE, 0, 0, 0},
    {JAMBA, "ssm_a", STATE, SSM_INNER, 0, 0},
    {JAMBA, "ssm_d", SSM_INNER, 0, 0, 1},
    {LFM2, "shortconv.conv.weight", CONV, EMBD, 0, 0.5f},
    {LFM2, "shortconv.in_proj.weight", EMBD, 3 * EMBD, 0, 0.2f},
    {LFM2, "shortconv.out_proj.weight", EMBD, EMBD, 0, 0.25f},
    {QWEN3NEXT, "attn_qkv.weight", EMBD, 2 * DELTA_KEYS + DELTA_VALUES, 0, 0.2f},
    {QWEN3NEXT, "attn_gate.weight", EMBD, DELTA_VALUES, 0, 0.2f},
    {QWEN3NEXT, "ssm_conv1d.weight", CONV, 2 * DELTA_KEYS + DELTA_VALUES, 0, 0.5f},
    {QWEN3NEXT, "ssm_a", SSM_HEADS, 0, 0, 0},
    {QWEN3NEXT, "ssm_ba.weight", EMBD, 2 * SSM_HEADS, 0, 0.2f},
    {QWEN3NEXT, "ssm_norm.weight", STATE, 0, 0, 0},
    {QWEN3NEXT, "ssm_out.weight", DELTA_VALUES, EMBD, 0, 0.25f},
};

static const struct weight attention_of_hybrids[] = {
    {QWEN3NEXT | LFM2, "attn_q_norm.weight", HEAD, 0, 0, 0},
    {QWEN3NEXT | LFM2, "attn_k_norm.weight", HEAD, 0, 0, 0},
};

static const struct weight outside[] = {
    {RWKV7 | BERT | LFM2, "token_embd_norm.weight", EMBD, 0, 0, 0},
    {RWKV7 | BERT, "token_embd_norm.bias", EMBD, 0, 0, 0.1f},
    {RWKV7, "output_norm.bias", EMBD, 0, 0, 0.1f},
    {BERT, "token_types.weight", EMBD, 2, 0, 0.5f},
    {BERT, "position_embd.weight", EMBD, CONTEXT, 0, 0.5f},
};

static void put_rows(struct ggml_context * ctx, struct gguf_context * g, int architecture,
                     int layer, const struct weight * rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, layer < 0 ? "%.0d%s" : "blk.%d.%s", layer < 0 ? 0 : layer,
                 rows[i].name);
        // Wider layers add more numbers, and are to add no more to what they are given.
        float size = rows[i].size * (rows[i].rows ? sqrtf(64.0f / EMBD) : 1.0f);
        if (rows[i].of & architecture) {
            add(ctx, g, rows[i].columns, rows[i].rows, rows[i].experts, size, name);
        }
    }
}

#define PUT(rows, layer)                                                                           \
    put_rows(ctx, g, architecture, layer, rows, sizeof(rows) / sizeof((rows)[0]))

static void put_weights(struct ggml_context * ctx, struct gguf_context * g, int architecture) {
    struct ggml_tensor * embd = add(ctx, g, EMBD, VOCAB, 0, 1.0f, "token_embd.weight");
    bool shared = architecture == GEMMA2; // its output is the embedding: a word follows itself
    if (!shared && architecture != BERT) {
        link_words(embd, add(ctx, g, EMBD, VOCAB, 0, 1.0f, "output.weight"));
    }
    if (architecture != BERT && architecture != LFM2) {
        add(ctx, g, EMBD, 0, 0, 0, "output_norm.weight");
    }
    PUT(outside, -1);
    for (int layer = 0; layer < LAYERS; layer++) {
        bool recurs = (architecture & (MAMBA2 | FALCON)) || ((architecture & HYBRID) && layer == 0);
        PUT(every_layer, layer);
        if (recurs) {
            PUT(recurrent, layer);
        }
        if (!recurs || architecture == FALCON) {
            PUT(with_attention, layer);
            PUT(attention_of_hybrids, layer);
        }
        PUT(behind, layer);
    }
}

static void put_figures(struct gguf_context * g, const char * name, int architecture) {
    static const struct {
        int of;
        const char * key;
        uint32_t value;
    } numbers[] = {
        {ALL, "context_length", CONTEXT},
        {ALL, "embedding_length", EMBD},
        {ALL, "block_count", LAYERS},
        {ALL & ~MAMBA2, "feed_forward_length", FFN},
        {ATTENTIVE, "attention.head_count", HEADS},
        {ATTENTIVE & ~(GRANITE | JAMBA | LFM2), "attention.head_count_kv", KV_HEADS},
        {ATTENTIVE & ~(LLAMA | BERT), "attention.key_length", EMBD / HEADS},
        {ATTENTIVE & ~(LLAMA | BERT), "attention.value_length", EMBD / HEADS},
        {ATTENTIVE & ~BERT, "rope.dimension_count", EMBD / HEADS},
        {MIXED, "expert_count", EXPERTS},
        {MIXED, "expert_used_count", EXPERTS_USED},
        {MIXED, "expert_feed_forward_length", EXPERT_FFN},
        {GEMMA2 | GEMMA3 | GPT_OSS, "attention.sliding_window", 64},
        {QWEN3NEXT, "expert_shared_feed_forward_length", EXPERT_FFN},
        {QWEN3NEXT, "full_attention_interval", 2},
        {SCANNED | QWEN3NEXT | JAMBA, "ssm.conv_kernel", CONV},
        {SCANNED | QWEN3NEXT | JAMBA, "ssm.state_size", STATE},
        {SCANNED | QWEN3NEXT | JAMBA, "ssm.time_step_rank", SSM_HEADS},
        {SCANNED | JAMBA, "ssm.inner_size", SSM_INNER},
        {SCANNED, "ssm.group_count", 1},
        {LFM2, "shortconv.l_cache", CONV},
        {QWEN3NEXT, "ssm.inner_size", DELTA_VALUES},
        {QWEN3NEXT, "ssm.group_count", DELTA_KEYS / STATE},
        {RWKV7, "wkv.head_size", WKV_HEAD},
        {RWKV7, "attention.decay_lora_rank", LORA},
        {RWKV7, "attention.iclr_lora_rank", LORA},
        {RWKV7, "attention.value_residual_mix_lora_rank", LORA},
        {RWKV7, "attention.gate_lora_rank", LORA},
        {RWKV7, "token_shift_count", 2},
        {BERT, "pooling_type", 1}, // the mean
    };
    char key[96];
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        snprintf(key, sizeof key, "%s.%s", name, numbers[i].key);
        if (numbers[i].of & architecture) {
            gguf_set_val_u32(g, key, numbers[i].value);
        }
    }
    bool has_mean = architecture & (RWKV7 | BERT); // norms that take it off
    snprintf(key, sizeof key, "%s.attention.layer_norm_%sepsilon", name, has_mean ? "" : "rms_");
    gguf_set_val_f32(g, key, 1e-5f);
    if (architecture == GEMMA2) {
        gguf_set_val_f32(g, "gemma2.attn_logit_softcapping", 50);
        gguf_set_val_f32(g, "gemma2.final_logit_softcapping", 30);
    } else if (architecture & (GRANITE | JAMBA | LFM2)) { // without heads of keys: recurrent
        static const int32_t heads[LAYERS] = {0, KV_HEADS};
        snprintf(key, sizeof key, "%s.attention.head_count_kv", name);
        gguf_set_arr_data(g, key, GGUF_TYPE_INT32, heads, LAYERS);
    } else if (architecture == BERT) {
        gguf_set_val_bool(g, "bert.attention.causal", false);
        gguf_set_val_u32(g, "tokenizer.ggml.token_type_count", 2);
    }
}

// The weights are those of llama, of which nothing is of one head's size.
static void widen_heads(struct gguf_context * g) {
    gguf_set_val_u32(g, "llama.attention.head_count", HEADS / 2);
    gguf_set_val_u32(g, "llama.attention.head_count_kv", KV_HEADS / 2);
    gguf_set_val_u32(g, "llama.rope.dimension_count", 2 * HEAD);
}

int main(int argc, char ** argv) {
    const char * name = argc > 2 ? argv[2] : "llama";
    bool wide = !strcmp(name, "llama-wide");
    name = wide ? "llama" : name;
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
        fprintf(out, " llama-wide\n");
        return help ? 0 : 2;
    }
    struct ggml_init_params params = {.mem_size = (size_t) 64 << 20};
    struct ggml_context * ctx = ggml_init(params);
    struct gguf_context * g = gguf_init_empty();
    gguf_set_val_str(g, "general.architecture", name);
    gguf_set_val_str(g, "general.name", "tiny random model");
    put_figures(g, name, architecture);
    if (wide) {
        widen_heads(g);
    }
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
