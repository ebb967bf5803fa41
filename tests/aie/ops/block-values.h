// block-values: what the numbers of quantized blocks are, straight from ggml's formats: exactly,
// and as the cores round them: factors to bf16, what they come to together to bf16, sums in f32.
#pragma once

#include "kernel/kernel.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float block_bf16(double v) { // to nearest even; what is no normal number is 0
    float f = fabs(v) < 0x1p-126 ? 0 : (float) v;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&f, &bits, 4);
    return f;
}

static inline double block_f16(const uint8_t * at) {
    unsigned v = at[0] | (unsigned) at[1] << 8, exponent = v >> 10 & 31;
    double m = exponent ? 1024 + (v & 1023) : v & 1023;
    return ldexp(v & 0x8000 ? -m : m, (int) (exponent ? exponent : 1) - 25);
}

// Whether a byte of a block belongs to a number of f16.
static inline bool block_is_scale(enum kernel_blocks kind, int byte) {
    if (kind == KERNEL_Q2_K || kind == KERNEL_Q3_K) {
        return byte >= (kind == KERNEL_Q2_K ? 80 : 108);
    }
    if (kind == KERNEL_Q6_K || kind == KERNEL_MXFP4) { // which has an exponent of its own
        return kind == KERNEL_Q6_K && byte >= 208;
    }
    bool has_minimum =
        kind == KERNEL_Q4_K || kind == KERNEL_Q5_K || kind == KERNEL_Q4_1 || kind == KERNEL_Q5_1;
    return byte < (has_minimum ? 4 : 2);
}

// A number is q s - m; s = d a and m = dmin b, which are numbers of the block.
struct block_number {
    int q, a, b;
    double d, dmin;
};

static inline struct block_number block_q4_K(const uint8_t * block, int i) {
    const uint8_t * s = block + 4;
    int j = i / 32;
    return (struct block_number){.q =
                                     block[16 + i / 64 * 32 + i % 32] >> (i % 64 < 32 ? 0 : 4) & 15,
                                 .a = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4,
                                 .b = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | s[j] >> 6 << 4,
                                 .d = block_f16(block),
                                 .dmin = block_f16(block + 2)};
}

static inline struct block_number block_q5_K(const uint8_t * block, int i) {
    uint8_t numbers[144];
    memcpy(numbers, block, 16);
    memcpy(numbers + 16, block + 48, 128);
    struct block_number n = block_q4_K(numbers, i);
    n.q |= (block[16 + i % 32] >> i / 32 & 1) << 4;
    return n;
}

static inline struct block_number block_q6_K(const uint8_t * block, int i) {
    int low = block[i / 128 * 64 + i % 64] >> (i % 128 < 64 ? 0 : 4) & 15;
    int high = block[128 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
    int8_t a = (int8_t) block[192 + i / 16];
    double d = block_f16(block + 208);
    return (struct block_number){.q = low | high << 4, .a = a, .b = 32 * a, .d = d, .dmin = d};
}

static inline struct block_number block_q5(const uint8_t * block, int i, bool has_minimum) {
    const uint8_t * bits = block + (has_minimum ? 4 : 2);
    int q = (bits[4 + i % 16] >> (i < 16 ? 0 : 4) & 15) | (bits[i / 8] >> i % 8 & 1) << 4;
    return has_minimum ? (struct block_number){q, 1, -1, block_f16(block), block_f16(block + 2)}
                       : (struct block_number){q, 1, 16, block_f16(block), block_f16(block)};
}

static inline struct block_number block_q3_K(const uint8_t * block, int i) {
    int run = i / 32 % 4, half = i / 128, group = i / 16;
    int low = block[96 + group % 8] >> (group < 8 ? 0 : 4) & 15;
    int a = (low | (block[104 + group % 4] >> group / 4 * 2 & 3) << 4) - 32;
    int q = (block[32 + half * 32 + i % 32] >> run * 2 & 3) |
            (block[i % 32] >> (4 * half + run) & 1) << 2;
    double d = block_f16(block + 108);
    return (struct block_number){.q = q, .a = a, .b = 4 * a, .d = d, .dmin = d};
}

static const int8_t block_iq4_values[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

static inline struct block_number block_iq4_xs(const uint8_t * block, int i) {
    int group = i / 32, high = (block[2] | block[3] << 8) >> 2 * group & 3;
    int a = ((block[4 + group / 2] >> 4 * (group % 2) & 15) | high << 4) - 32;
    int place = block[8 + group * 16 + i % 16] >> (i % 32 < 16 ? 0 : 4) & 15;
    return (struct block_number){block_iq4_values[place], a, 0, block_f16(block), 0};
}

static inline struct block_number block_number(enum kernel_blocks kind, const uint8_t * block,
                                               int i) {
    static const int8_t mxfp4[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    switch (kind) {
    case KERNEL_IQ4_XS:
        return block_iq4_xs(block, i);
    case KERNEL_Q3_K:
        return block_q3_K(block, i);
    case KERNEL_Q2_K:
        return (struct block_number){block[16 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3,
                                     block[i / 16] & 15, block[i / 16] >> 4, block_f16(block + 80),
                                     block_f16(block + 82)};
    case KERNEL_Q5_0:
    case KERNEL_Q5_1:
        return block_q5(block, i, kind == KERNEL_Q5_1);
    case KERNEL_Q4_1:
        return (struct block_number){block[4 + i % 16] >> (i < 16 ? 0 : 4) & 15, 1, -1,
                                     block_f16(block), block_f16(block + 2)};
    case KERNEL_IQ4_NL:
        return (struct block_number){block_iq4_values[block[2 + i % 16] >> (i < 16 ? 0 : 4) & 15],
                                     1, 0, block_f16(block), 0};
    case KERNEL_MXFP4:
        return (struct block_number){mxfp4[block[1 + i % 16] >> (i < 16 ? 0 : 4) & 15], 1, 0,
                                     ldexp(1, block[0] - 128), 0};
    case KERNEL_Q8_0:
        return (struct block_number){(int8_t) block[2 + i], 1, 0, block_f16(block), 0};
    case KERNEL_Q4_K:
        return block_q4_K(block, i);
    case KERNEL_Q5_K:
        return block_q5_K(block, i);
    case KERNEL_Q6_K:
        return block_q6_K(block, i);
    default:
        return (struct block_number){(block[2 + i % 16] >> (i < 16 ? 0 : 4) & 15) - 8, 1, 0,
                                     block_f16(block), 0};
    }
}

// Of types whose numbers are about a middle: how many scales are taken away in place of a minimum.
static inline int block_middle(enum kernel_blocks kind) {
    return kind == KERNEL_Q6_K ? 32 : kind == KERNEL_Q5_0 ? 16 : kind == KERNEL_Q3_K ? 4 : 0;
}

// With its factors rounded.
static inline double block_factored(enum kernel_blocks kind, const struct block_number * n) {
    double s = block_bf16((double) block_bf16(n->d) * n->a);
    return block_middle(kind)
               ? s * (n->q - block_middle(kind))
               : (double) (float) (s * n->q - block_bf16((double) block_bf16(n->dmin) * n->b));
}

static inline double block_value(enum kernel_blocks kind, const uint8_t * row, int64_t i,
                                 bool rounded) {
    int k = kernel_block_k(kind);
    struct block_number n =
        block_number(kind, row + i / k * kernel_block_bytes(kind), (int) (i % k));
    if (!rounded) {
        return n.d * n.a * n.q - n.dmin * n.b;
    }
    float s = block_bf16((double) block_bf16(n.d) * n.a);
    int middle = block_middle(kind);
    float m = middle ? (float) middle * s : block_bf16((double) block_bf16(n.dmin) * n.b);
    int times = kind == KERNEL_Q2_K || kind == KERNEL_Q3_K
                    ? 4
                    : 1; // of a number its byte is, of which the scale is less
    float sum = -128 * (s / (float) times) - m; // in the order of the cores
    return block_bf16((double) (float) (sum + (float) (128 + times * n.q) * (s / (float) times)));
}
