// whisper-model MODEL WAV [STEPS]: a tiny model of speech in whisper.cpp's file format, and two
// seconds of sound for it. The model is whisper's English one in all but size: two layers of 64
// each way, f16 weights as in the files that people have. The numbers come from a generator with a
// fixed seed, so that the files are the same everywhere. Of the words only every 997th can be said,
// the other rows of the embedding are zeros, so that the likeliest word is clearly the likeliest;
// and the model falls silent after WORDS_SAID, for it would else write until its context is full:
// behind them positions have the direction of the token that ends a text. STEPS of sound are 1,500,
// the 30 seconds that every model hears, unless told.
#include "ggml.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VOCAB = 51864, // of the English models, by which whisper.cpp knows what its special tokens are
    WORDS = 50257, // what has a text; the last is the end of a text
    END = WORDS - 1,
    BLANK = 220, // which whisper.cpp looks for by this text: a space
    SAID = 997,
    WORDS_SAID = 12,
    AUDIO_CONTEXT = 1500,
    TEXT_CONTEXT = 448,
    STATE = 64,
    HEADS = 4,
    LAYERS = 2,
    MELS = 80,
    BINS = 201,
};

typedef enum { F32, F16 } type_t; // their numbers in the file

static FILE * out;
static uint32_t seed = 1;
static int steps = AUDIO_CONTEXT;

static float next(float size) { // even between -size and size
    seed = seed * 1664525u + 1013904223u;
    return size * ((float) (seed >> 8) / 8388608.0f - 1.0f);
}

// ---- the file ----

// A write that fails is seen at the end, by ferror.
static void put(const void * bytes, size_t n) {
    fwrite(bytes, 1, n, out);
}

static void put_int(int32_t v) {
    put(&v, sizeof v);
}

static void put_number(type_t type, float v) {
    if (type == F32) {
        put(&v, sizeof v);
        return;
    }
    ggml_fp16_t half = ggml_fp32_to_fp16(v);
    put(&half, sizeof half);
}

static void put_text(const char * text) {
    put(text, strlen(text));
}

// What stands before a tensor's numbers.
static void head(const char * name, type_t type, int dims, const int32_t * ne) {
    put_int(dims);
    put_int((int32_t) strlen(name));
    put_int(type);
    put(ne, (size_t) dims * sizeof *ne);
    put_text(name);
}

// ---- tensors ----

static void numbers(const char * name, type_t type, int dims, int32_t ne0, int32_t ne1, int32_t ne2,
                    float around, float size) {
    head(name, type, dims, (const int32_t[]){ne0, ne1, ne2});
    for (int64_t i = 0; i < (int64_t) ne0 * ne1 * ne2; i++) {
        put_number(type, around + next(size));
    }
}

static void vector(const char * part, const char * name, int n, float around) {
    char text[96];
    snprintf(text, sizeof text, "%s.%s", part, name);
    numbers(text, F32, 1, n, 1, 1, around, 0.1f);
}

static void norm(const char * name) {
    vector(name, "weight", STATE, 1);
    vector(name, "bias", STATE, 0);
}

static void linear(const char * name, int k, int m, bool bias) {
    char text[96];
    snprintf(text, sizeof text, "%s.weight", name);
    numbers(text, F16, 2, k, m, 1, 0, 2.5f / sqrtf((float) k));
    if (bias) {
        vector(name, "bias", m, 0);
    }
}

static void convolution(const char * name, int in) {
    char text[96];
    snprintf(text, sizeof text, "%s.weight", name);
    numbers(text, F16, 3, 3, in, STATE, 0, 0.1f);
    snprintf(text, sizeof text, "%s.bias", name);
    numbers(text, F32, 2, 1, STATE, 1, 0, 0.1f);
}

static void attention(const char * block, const char * name) {
    static const char * const of[] = {"query", "key", "value", "out"};
    char text[80];
    snprintf(text, sizeof text, "%s.%s_ln", block, name);
    norm(text);
    for (int i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "%s.%s.%s", block, name, of[i]);
        linear(text, STATE, STATE, i != 1); // keys have no bias
    }
}

static void layers(const char * part, bool hears) {
    for (int i = 0; i < LAYERS; i++) {
        char block[48], text[64];
        snprintf(block, sizeof block, "%s.blocks.%d", part, i);
        attention(block, "attn");
        if (hears) {
            attention(block, "cross_attn");
        }
        snprintf(text, sizeof text, "%s.mlp_ln", block);
        norm(text);
        snprintf(text, sizeof text, "%s.mlp.0", block);
        linear(text, STATE, 4 * STATE, true);
        snprintf(text, sizeof text, "%s.mlp.2", block);
        linear(text, 4 * STATE, STATE, true);
    }
}

// The direction of the end of a text.
static float end_of_text(int i) {
    return i & 1 ? -0.7f : 0.7f;
}

// Positions weigh more than the word before, which a model of random weights would repeat.
static void positions(void) {
    head("decoder.positional_embedding", F32, 2, (const int32_t[]){STATE, TEXT_CONTEXT});
    for (int at = 0; at < TEXT_CONTEXT; at++) {
        for (int i = 0; i < STATE; i++) {
            put_number(F32, next(5.0f) + (at > WORDS_SAID ? 12 * end_of_text(i) : 0));
        }
    }
}

static void embedding(void) {
    head("decoder.token_embedding.weight", F16, 2, (const int32_t[]){STATE, VOCAB});
    for (int word = 0; word < VOCAB; word++) {
        for (int i = 0; i < STATE; i++) {
            float v = word == END ? end_of_text(i) : word % SAID == 0 ? next(1.5f) : 0;
            put_number(F16, v);
        }
    }
}

// ---- the two files ----

static void model(void) {
    const int32_t sizes[] = {VOCAB, steps, STATE,  HEADS, LAYERS, TEXT_CONTEXT,
                             STATE, HEADS, LAYERS, MELS,  F16};
    put_int(0x67676d6c);
    put(sizes, sizeof sizes);
    put_int(MELS);
    put_int(BINS);
    for (int mel = 0; mel < MELS; mel++) { // triangles, two and a half bins apart
        for (int bin = 0; bin < BINS; bin++) {
            float off = fabsf((float) bin - 2.5f * (float) mel) / 2.5f;
            put_number(F32, off < 1 ? 1 - off : 0);
        }
    }
    put_int(WORDS);
    for (int i = 0; i < WORDS; i++) {
        char word[16];
        snprintf(word, sizeof word, i == BLANK ? " " : " w%d", i);
        put_int((int32_t) strlen(word));
        put_text(word);
    }
    numbers("encoder.positional_embedding", F32, 2, STATE, steps, 1, 0, 0.5f);
    convolution("encoder.conv1", MELS);
    convolution("encoder.conv2", STATE);
    norm("encoder.ln_post");
    layers("encoder", false);
    positions();
    embedding();
    norm("decoder.ln");
    layers("decoder", true);
}

// 16 bits, one channel, 16 kHz: a tone that rises and falls.
static void sound(void) {
    enum { RATE = 16000, SAMPLES = 2 * RATE };
    const struct {
        char riff[4];
        uint32_t size;
        char wave[8];
        uint32_t format_size;
        uint16_t format, channels;
        uint32_t rate, bytes_a_second;
        uint16_t frame, bits;
        char data[4];
        uint32_t bytes;
    } h = {
        {'R', 'I', 'F', 'F'},
        36 + 2 * SAMPLES,
        {'W', 'A', 'V', 'E', 'f', 'm', 't', ' '},
        16,
        1,
        1,
        RATE,
        2 * RATE,
        2,
        16,
        {'d', 'a', 't', 'a'},
        2 * SAMPLES,
    };
    put(&h, sizeof h);
    double phase = 0;
    for (int i = 0; i < SAMPLES; i++) {
        phase += 0.05 + 0.04 * sin(i / 2500.0);
        int16_t v = (int16_t) (9000 * sin(phase) + 3000 * sin(3.1 * phase));
        put(&v, sizeof v);
    }
}

int main(int argc, char ** argv) {
    static void (*const write[])(void) = {model, sound};
    if (argc == 4) {
        steps = atoi(argv[3]);
    }
    if (argc < 3 || argc > 4 || argv[1][0] == '-' || steps < 1 || steps > AUDIO_CONTEXT) {
        fprintf(stderr, "usage: whisper-model MODEL WAV [STEPS]\n");
        return 2;
    }
    for (int i = 0; i < 2; i++) {
        out = fopen(argv[i + 1], "wb");
        if (!out) {
            perror(argv[i + 1]);
            return 1;
        }
        write[i]();
        bool failed = ferror(out);
        if (fclose(out) || failed) {
            perror(argv[i + 1]);
            return 1;
        }
    }
    return 0;
}
