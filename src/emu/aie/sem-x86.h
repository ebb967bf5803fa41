// sem-x86: the multiply-accumulates of inner loops on x86-64 hosts with wide vectors, shared by
// sem-x86.c, the files that choose them (sem-bf16.c, sem-mac.c) and their test only; and the range
// in which the bf16 ways work, on every host.
#pragma once

#include "emu/aie/sem-v4.h"
#include "emu/aie/sem.h"

// Biased exponents that a factor other than zero may have, and so a product; the sum of a lane may
// still overflow: to infinity, as by the rule.
enum { FACTOR_MIN = 76, FACTOR_MAX = 189 };
enum { TOP_MIN = 2 * FACTOR_MIN - 127, TOP_MAX = 2 * FACTOR_MAX - 127 };

// Stands in for the largest exponent of a lane of zeros, so that all scaling is by normal numbers.
enum { TOP_NONE = TOP_MIN - 1 };
_Static_assert(TOP_NONE - 23 > 0 && 277 - TOP_NONE < 255, "scales are normal numbers");

#if defined(__x86_64__) && defined(__GNUC__)
#    define SEM_X86 1
#else
#    define SEM_X86 0
#endif

#if SEM_X86
// What the host has, at the price of a test.
static inline bool sem_x86_has_256(void) {
    return __builtin_cpu_supports("avx2");
}
static inline bool sem_x86_has_512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
}

// 512 needs sem_x86_has_512, 256 the other one. acc NULL is zero; false as in sem.h.
bool sem_x86_512_bf16_4x8x4(uint8_t * out, const uint8_t * acc, const uint8_t * x,
                            const uint8_t * y);
bool sem_x86_512_bf16_pairs(uint8_t * out, const uint8_t * acc, const uint8_t * x,
                            const uint8_t * y);
// A product to each of the first lanes; `lanes` is a multiple of 16 and at most 64, acc NULL is
// zero, `flip` is XORed into the second factor as fp32. Returns the lanes that are left to the
// rule, as bits: of those nothing was written, and out may be acc.
uint64_t sem_x86_512_bf16_elements(uint8_t * out, const uint8_t * acc, const uint8_t * x,
                                   const uint8_t * y, int lanes, int products, uint32_t flip);
uint64_t sem_x86_256_bf16_elements(uint8_t * out, const uint8_t * acc, const uint8_t * x,
                                   const uint8_t * y, int lanes, int products, uint32_t flip);
bool sem_x86_256_bf16_4x8x4(uint8_t * out, const uint8_t * acc, const uint8_t * x,
                            const uint8_t * y);
bool sem_x86_256_bf16_pairs(uint8_t * out, const uint8_t * acc, const uint8_t * x,
                            const uint8_t * y);
void sem_x86_256_i8_4x8x8(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y,
                          bool x_signed, bool y_signed);
// Sums of 64 bits: 4x4 times 4x4, or with `wide` 2x4 times 4x8.
void sem_x86_256_i16_64(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y,
                        bool wide);
void sem_x86_256_i16_4x2x8(uint8_t * out, const uint8_t * acc, const uint8_t * x,
                           const uint8_t * y);
#endif
