// blocks_grids: ggml's formats that keep numbers by fours or eights, as places in a table (iq1,
// iq2, iq3). The tables are ggml's: the build takes them from the ggml that it is for
// (cmake/ggml/grids.c), and where it had none these formats are not there. An entry has two or
// three bits for each number, the first lowest.
#ifndef ROCM_KERNELS_BLOCKS_GRIDS_H
#define ROCM_KERNELS_BLOCKS_GRIDS_H

#include "blocks.h"

#ifdef RK_GRID_iq1_s

#    define GRID(q) static __device__ const uint16_t grid_##q[] = {RK_GRID_##q};
GRID(iq2_xxs)
GRID(iq2_xs)
GRID(iq2_s)
GRID(iq3_xxs)
GRID(iq3_s)
GRID(iq1_s)

DEVICE u32 word_at(const u8 * p) { // wherever it begins
    u32 word;
    __builtin_memcpy(&word, p, sizeof word);
    return word;
}
DEVICE u32 short_at(const u8 * p) {
    return (u32) (p[0] | p[1] << 8);
}
DEVICE i32 with_sign(i32 v, u32 signs, u32 j) {
    return bit(signs, j) ? -v : v;
}
// Seven signs; the eighth is such that an even number of them is set.
DEVICE u32 even_signs(u32 seven) {
    return seven | (0x6996u >> ((seven ^ seven >> 4) & 15) & 1) << 7;
}
// Half a step above one of 16 scales.
DEVICE scale half_step(const u8 * d, u32 step, f32 times) {
    return scale_of(half_at(d) * (0.5f + (f32) step) * times, 0);
}

// ---- iq2: eights of 8, 25 and 43 ----

DEVICE i32 one_of_three(u32 entry, u32 j) {
    return (i32) (0x2b1908u >> 8 * bits2(entry, j) & 255);
}

// Of 32 numbers: four places, then four times seven signs, and a scale above them.
struct iq2_xxs {
    enum { LENGTH = 256 };
    u8 d[2], q[64];
    __device__ u32 signs_and_scale(u32 i) const {
        return word_at(q + i / 32 * 8 + 4);
    }
    __device__ scale scale_at(u32 i) const {
        return half_step(d, signs_and_scale(i) >> 28, 0.25f);
    }
    __device__ i32 value(u32 i, u32 j) const {
        u32 signs = even_signs(signs_and_scale(i) >> i % 32 / 8 * 7 & 127);
        return with_sign(one_of_three(grid_iq2_xxs[q[i / 32 * 8 + i % 32 / 8]], j), signs, j);
    }
};

// Nine bits of a place, seven signs.
struct iq2_xs {
    enum { LENGTH = 256 };
    u8 d[2], q[64], scales[8];
    __device__ scale scale_at(u32 i) const {
        return half_step(d, scales[i / 32] >> i / 16 % 2 * 4 & 15, 0.25f);
    }
    __device__ i32 value(u32 i, u32 j) const {
        u32 at = short_at(q + i / 8 * 2);
        return with_sign(one_of_three(grid_iq2_xs[at & 511], j), even_signs(at >> 9), j);
    }
};

struct iq2_s {
    enum { LENGTH = 256 };
    u8 d[2], q[32], signs[32], high[8], scales[8];
    __device__ scale scale_at(u32 i) const {
        return half_step(d, scales[i / 32] >> i / 16 % 2 * 4 & 15, 0.25f);
    }
    __device__ i32 value(u32 i, u32 j) const {
        u32 at = q[i / 8] | bits2(high[i / 32], i / 8 % 4) << 8;
        return with_sign(one_of_three(grid_iq2_s[at], j), signs[i / 8], j);
    }
};

// ---- iq3: fours, of eight kinds ----

DEVICE u32 bits3(u32 entry, u32 j) {
    return entry >> 3 * j & 7;
}

// Of 32 numbers: eight places, and elsewhere four times seven signs and a scale above them.
struct iq3_xxs {
    enum { LENGTH = 256 };
    u8 d[2], q[64], signs[32];
    __device__ scale scale_at(u32 i) const {
        return half_step(d, word_at(signs + i / 32 * 4) >> 28, 0.5f);
    }
    __device__ i32 value(u32 i, u32 j) const {
        u32 kind = bits3(grid_iq3_xxs[q[i / 4 + j / 4]], j % 4);
        u32 eight = even_signs(word_at(signs + i / 32 * 4) >> i % 32 / 8 * 7 & 127);
        return with_sign((i32) (4 + 8 * kind + kind / 7 * 2), eight, j); // 4, 12 ... 52, 62
    }
};

struct iq3_s {
    enum { LENGTH = 256 };
    u8 d[2], q[64], high[8], signs[32], scales[4];
    __device__ scale scale_at(u32 i) const {
        return scale_of(half_at(d) * (f32) (1 + 2 * (scales[i / 64] >> i / 32 % 2 * 4 & 15)), 0);
    }
    __device__ i32 value(u32 i, u32 j) const {
        u32 four = i / 4 + j / 4, at = q[four] | bit(high[i / 32], four % 8) << 8;
        return with_sign((i32) (1 + 2 * bits3(grid_iq3_s[at], j % 4)), signs[i / 8], j);
    }
};

// ---- iq1: eights of -1, 0 and 1, all of them an eighth up or down ----

DEVICE scale odd_scale(f32 d, u32 step, bool down) {
    f32 mul = d * (f32) (2 * step + 1);
    return scale_of(mul, down ? -0.125f * mul : 0.125f * mul);
}

// Of 32 numbers: four places, and a word with three bits more of each, a scale and the direction.
struct iq1_s {
    enum { LENGTH = 256 };
    u8 d[2], q[32], high[16];
    __device__ scale scale_at(u32 i) const {
        u32 h = short_at(high + i / 32 * 2);
        return odd_scale(half_at(d), h >> 12 & 7, h >> 15);
    }
    __device__ i32 value(u32 i, u32 j) const {
        u32 at = q[i / 8] | bits3(short_at(high + i / 32 * 2), i / 8 % 4) << 8;
        return (i32) bits2(grid_iq1_s[at], j) - 1;
    }
};

// Of each eight three bits more and the direction; of each 64 four scales of three bits, above
// which stand four bits of the f16 that all share.
struct iq1_m {
    enum { LENGTH = 256 };
    u8 q[32], high[16], scales[8];
    __device__ u32 more(u32 i) const {
        return high[i / 16] >> i / 8 % 2 * 4 & 15u;
    }
    __device__ scale scale_at(u32 i) const {
        u32 low = (u32) (scales[1] >> 4) | (scales[3] & 0xf0u);
        u32 top = (u32) (scales[5] >> 4) | (scales[7] & 0xf0u);
        u8 d[2] = {(u8) low, (u8) top};
        return odd_scale(half_at(d), bits3(short_at(scales + i / 64 * 2), i / 16 % 4), more(i) & 8);
    }
    __device__ i32 value(u32 i, u32 j) const {
        return (i32) bits2(grid_iq1_s[q[i / 8] | (more(i) & 7) << 8], j) - 1;
    }
};

#    define FOR_GRIDS(X) X(iq2_xxs) X(iq2_xs) X(iq2_s) X(iq3_xxs) X(iq3_s) X(iq1_s) X(iq1_m)
#else
#    define FOR_GRIDS(X)
#endif
FOR_GRIDS(BLOCK_READER)

#endif
