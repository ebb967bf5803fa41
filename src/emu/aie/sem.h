// sem: what AIE2 vector instructions compute, as plain functions on raw lanes. Nothing here knows
// registers, bundles or time: the register forms (sem-*.c) and the fused load / store forms of the
// core call the same functions, so that `vlda.ups` and `vlda; vups` cannot differ.
//
// Lanes are little-endian in byte arrays, as registers and memory hold them. Pointers need no
// alignment; source and destination may not overlap. Rules come from results read on silicon; where
// none exist, the function says "not seen on silicon".
#pragma once

#include "emu/aie/core.h"

enum sem_rnd { // crRnd
    SEM_RND_FLOOR = 0,
    SEM_RND_CEIL = 1,
    SEM_RND_SYM_FLOOR = 2, // towards zero
    SEM_RND_SYM_CEIL = 3,  // away from zero
    SEM_RND_NEG_INF = 8,   // nearest, ties down
    SEM_RND_POS_INF = 9,   // nearest, ties up
    SEM_RND_SYM_ZERO = 10, // nearest, ties towards zero
    SEM_RND_SYM_INF = 11,  // nearest, ties away from zero
    SEM_RND_CONV_EVEN = 12,
    SEM_RND_CONV_ODD = 13,
};

enum sem_sat { // crSat
    SEM_SAT_NONE = 0,
    SEM_SAT_FULL = 1, // -2^(n-1) .. 2^(n-1)-1, or 0 .. 2^n-1
    SEM_SAT_SYM = 3,  // -(2^(n-1)-1) .. 2^(n-1)-1
};

// Result of the converting functions: what the sticky status register learns. A negative result
// says that nothing is known of these operands, and nothing was written.
enum { SEM_OVERFLOW = 1 };

// acc[i] = src[i] << shift. (src_bits, acc_bits) is (16, 32), (8, 32), (32, 64) or (16, 64); shift
// is an s register, known for 0 to 63. Returns SEM_OVERFLOW when a lane did not fit.
int sem_ups(uint8_t * acc, const uint8_t * src, int lanes, int src_bits, int acc_bits,
            bool is_signed, uint32_t shift, uint32_t sat);

// dst[i] = saturate(round(acc[i] >> shift)). (acc_bits, dst_bits) is (32, 16), (32, 8), (64, 32) or
// (64, 16); rnd and sat as in crRnd and crSat; is_signed says how to saturate. Returns SEM_OVERFLOW
// when a lane did not fit. shift goes from 0 to 59, and from 60 (or -4) on stands for -4 to -1.
int sem_srs(uint8_t * dst, const uint8_t * acc, int lanes, int acc_bits, int dst_bits,
            bool is_signed, uint32_t shift, uint32_t sat, uint32_t rnd);

// dst[i] = src[i] with dst_bits = src_bits / 2 of 8 (from 16) or 4 (from 8; two lanes to a byte,
// low nibble first).
int sem_pack(uint8_t * dst, const uint8_t * src, int lanes, int src_bits, bool is_signed,
             uint32_t sat);

// dst[i] = src[i] extended to twice its width; src_bits 8 or 4.
void sem_unpack(uint8_t * dst, const uint8_t * src, int lanes, int src_bits, bool is_signed);

// fp32 to bf16 and back.
int sem_fp32_to_bf16(uint8_t * dst, const uint8_t * src, int lanes, uint32_t rnd);
void sem_bf16_to_fp32(uint8_t * dst, const uint8_t * src, int lanes);

// aie2p: 64 fp32 lanes to eight blocks of eight (bfp16ebs8): 64 mantissas, then 8 exponents.
int sem_fp32_to_bfp16(uint8_t * dst, const uint8_t * src, uint32_t rnd);

// Bits of a product's configuration word; its modes are each file's own.
enum {
    CONF_ZERO_ACC1 = 1 << 0,
    CONF_SIGN_Y = 1 << 8,
    CONF_SIGN_X = 1 << 9,
    CONF_SHIFT16 = 1 << 10, // acc1 << 16, each lane by itself; acc2 is not shifted
    CONF_NEG_MUL = 1 << 11,
    CONF_NEG_ACC1 = 1 << 12,
    CONF_NEG_ACC2 = 1 << 13,
};

// out = +-(acc1, perhaps shifted) +- acc2 +- sum, all lanes wrapping. NULL is zero.
#define COMBINE(T, n, bytes, sum)                                                                  \
    do {                                                                                           \
        T a[n] = {0}, b[n] = {0};                                                                  \
        T na = conf & CONF_NEG_ACC1 ? (T) -1 : 1, nb = conf & CONF_NEG_ACC2 ? (T) -1 : 1;          \
        T ns = conf & CONF_NEG_MUL ? (T) -1 : 1;                                                   \
        int shift = conf & CONF_SHIFT16 ? 16 : 0;                                                  \
        if (acc1 && !(conf & CONF_ZERO_ACC1)) {                                                    \
            memcpy(a, acc1, bytes);                                                                \
        }                                                                                          \
        if (acc2) {                                                                                \
            memcpy(b, acc2, bytes);                                                                \
        }                                                                                          \
        for (int i = 0; i < (n); i++) {                                                            \
            a[i] = na * (a[i] << shift) + nb * b[i] + ns * (sum)[i];                               \
        }                                                                                          \
        memcpy(out, a, bytes);                                                                     \
    } while (0)

// fp32 sum of two lanes as the accumulator adder makes it.
uint32_t sem_fp32_add(uint32_t a, uint32_t b);
// flip_a, flip_b are XORed into the lanes (their sign bit) before the sum.
void sem_fp32_add_lanes(uint8_t * dst, const uint8_t * a, const uint8_t * b, int lanes,
                        uint32_t flip_a, uint32_t flip_b);

// One lane of the bf16 MAC: acc1 + acc2 + sum of n (at most 16) products x[k] * y[k], each aligned
// to the largest exponent and rounded there, added, the sum rounded once more.
uint32_t sem_bf16_mac(const uint16_t * x, const uint16_t * y, int n, uint32_t acc1, uint32_t acc2);

// Lane by lane, one product each; lanes is a multiple of 16. acc2 NULL is zero.
void sem_bf16_mac_elements(uint32_t * restrict out, const uint32_t * acc1, const uint32_t * acc2,
                           const uint16_t * x, const uint16_t * y, int lanes);
// The same with one accumulator, of which NULL is zero and which may be out; at most 64 lanes, of
// which the first ones have a product. `flip` is XORed into the second factors as fp32.
void sem_bf16_mac_lanes(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y,
                        int lanes, int products, uint32_t flip);

// Sixteen such lanes at once, fast: out = acc (NULL: zero) + x * y. False when an operand is
// outside the range that they handle; out is then not written. 4x8 times 8x4; and lane by lane,
// with x[i] * y[i] + x[16 + i] * y[16 + i].
bool sem_bf16_mac_4x8x4(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y);
bool sem_bf16_mac_pairs(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y);

// The short ways (core_mac_fn) of vmac.f and of vmac.
bool sem_mac_bf16(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y,
                  uint32_t conf);
// The same of aie2p, lane by lane, as long as floats are added aligned; acc and out are dm.
bool sem_mac_bf16_x(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y,
                    uint32_t conf);
bool sem_mac_bf16_y(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y,
                    uint32_t conf);
bool sem_msc_bf16_x(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y,
                    uint32_t conf);
bool sem_msc_bf16_y(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y,
                    uint32_t conf);
bool sem_mac_int(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y,
                 uint32_t conf);

// ---- for the tables in sem-*.c ----

// What a record does; a name may end with '*': all records that begin so.
struct core_semantic {
    const char * name;
    core_semantic_fn fn;
};

// The rows of one family of an architecture; core-target.c walks the families.
struct sem_family {
    const struct core_semantic * rows;
    int count;
};
extern const struct sem_family sem_lanes, sem_moves, sem_converts, sem_macs, sem_floats; // aie2
extern const struct sem_family sem_lanes_aie2p, sem_moves_aie2p, sem_converts_aie2p, sem_macs_aie2p,
    sem_floats_aie2p;

#define SEM_FAMILY(rows)                                                                           \
    { (rows), (int) (sizeof(rows) / sizeof((rows)[0])) }

// Value of an implicit register operand (a control register), or fallback when the ISA table does
// not list it for this instruction.
static inline uint32_t sem_implicit(const struct core_exec * x, aie_reg reg, uint32_t fallback) {
    for (int i = x->instr->n_explicit; i < x->instr->n_operands; i++) {
        if (x->instr->operands[i].fixed == reg && x->in[i]) {
            return load_u32(x->in[i]);
        }
    }
    return fallback;
}

enum {
    SEM_SIGN_REGISTERS = 1 << AIE_CR_VADD_SIGN | 1 << AIE_CR_PACK_SIGN | 1 << AIE_CR_SRS_SIGN |
                         1 << AIE_CR_UPS_SIGN | 1 << AIE_CR_UNPACK_SIGN
};

static inline uint32_t sem_control(const struct core_exec * x, enum aie_cr cr) {
    return sem_implicit(x, AIE_REG(AIE_CR, cr), 0);
}

// The sign register that the instruction reads, if it reads one: 1 is signed.
static inline bool sem_sign(const struct core_exec * x) {
    for (int i = x->instr->n_explicit; i < x->instr->n_operands; i++) {
        aie_reg reg = x->instr->operands[i].fixed;
        int n = AIE_REG_NUM(reg);
        bool is_sign = AIE_REG_KIND(reg) == AIE_CRP
                           ? n >= AIE_CRP_VADD_SIGN0
                           : AIE_REG_KIND(reg) == AIE_CR && (1u << n & SEM_SIGN_REGISTERS) != 0;
        if (is_sign && x->in[i]) {
            return load_u32(x->in[i]) & 1;
        }
    }
    return false;
}

// Bits of the lanes on both sides of a conversion. Where the record does not say them (narrow 0),
// a control register does, and `wide` is their ratio.
struct sem_widths {
    int narrow, wide;
};

static inline struct sem_widths sem_widths(const struct core_exec * x, int narrow, int wide) {
    for (int i = x->instr->n_explicit; narrow == 0 && i < x->instr->n_operands; i++) {
        aie_reg reg = x->instr->operands[i].fixed;
        if (AIE_REG_KIND(reg) != AIE_CRP || x->in[i] == NULL) {
            continue;
        }
        uint32_t v = load_u32(x->in[i]) & 1;
        if (AIE_REG_NUM(reg) == AIE_CRP_UPS_MODE || AIE_REG_NUM(reg) == AIE_CRP_SRS_MODE) {
            return (struct sem_widths){(v ? 64 : 32) / wide, v ? 64 : 32};
        }
        if (AIE_REG_NUM(reg) == AIE_CRP_PACK_SIZE || AIE_REG_NUM(reg) == AIE_CRP_UNPACK_SIZE) {
            return (struct sem_widths){v ? 8 : 4, v ? 16 : 8};
        }
    }
    return (struct sem_widths){narrow, wide};
}

// Status registers are sticky: every one that the instruction defines learns the flags.
static inline void sem_status(struct core_exec * x, uint32_t flags) {
    for (int i = x->instr->n_explicit; i < x->instr->n_operands; i++) {
        if (AIE_REG_KIND(x->instr->operands[i].fixed) == AIE_SR && x->out[i]) {
            store_u32(x->out[i], flags | (x->in[i] ? load_u32(x->in[i]) : 0));
        }
    }
}
