// ops-rig: a machine with one wave whose registers a test fills and looks at, random bits that are
// interesting, and floats as bits.
#pragma once

#include "base/cmocka-all.h"

#include "emu/gfx/impl.h"

#include <math.h>
#include <stdlib.h>

enum { ROUNDS = 8, A = 0, B = 2, C = 4, D = 6 }; // rounds of up to 64 operand sets; registers

// ---- random bits that are interesting ----

static uint64_t state = 0x2545f4914f6cdd1du;

static inline uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1du;
}

static inline uint32_t word(enum gfx_type t, int high) {
    static const uint32_t words[] = {0,          1,          ~0u,        0x80000000, 0x7fffffff,
                                     0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000,
                                     0x00000001, 0x00800000, 0x007fffff, 0x4f000000, 0xcf000000,
                                     0x3c003c00, 0x7c00fc00, 0x00010001, 0x80008000, 0xffff0001};
    uint64_t r = next();
    if (r % 6 == 0) {
        return words[(r >> 8) % (sizeof words / sizeof *words)];
    }
    uint32_t v = (uint32_t) (r >> 20);
    if (r % 6 < 4) { // everyday numbers
        if (t == GFX_T_F32 || t == GFX_T_P32) {
            return (v & 0x807fffff) | (uint32_t) (117 + (r >> 52) % 20) << 23;
        }
        if (t == GFX_T_F64 && high) {
            return (v & 0x800fffff) | (uint32_t) (1003 + (r >> 52) % 40) << 20;
        }
        if (t == GFX_T_F16 || t == GFX_T_P16) {
            return (v & 0x83ff83ff) | (uint32_t) (8 + (r >> 52) % 14) << 10 |
                   (uint32_t) (8 + (r >> 56) % 14) << 26;
        }
        if (t == GFX_T_B32 && r % 6 == 3) {
            return v >> (r >> 58) % 32;
        }
    }
    return v;
}

// ---- floats as bits ----

static inline uint64_t bits_f(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static inline float f_bits(uint64_t u) {
    uint32_t w = (uint32_t) u;
    float f;
    memcpy(&f, &w, 4);
    return f;
}

static inline uint64_t bits_d(double f) {
    uint64_t u;
    memcpy(&u, &f, 8);
    return u;
}

static inline double d_bits(uint64_t u) {
    double f;
    memcpy(&f, &u, 8);
    return f;
}

__extension__ typedef _Float16 half;
__extension__ typedef unsigned __int128 wide;

static inline uint64_t bits_h(half h) {
    uint16_t u;
    memcpy(&u, &h, 2);
    return u;
}

static inline half h_bits(uint64_t u) {
    uint16_t w = (uint16_t) u;
    half h;
    memcpy(&h, &w, 2);
    return h;
}

// ---- a machine with one wave ----

static struct gfx machine;
static struct gfx_worker * worker;
static struct gfx_group * group;
static struct gfx_wave * wave;

static inline void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    (void) user, (void) len, (void) write;
    return (void *) (uintptr_t) addr;
}

static inline int start(void ** unused) {
    (void) unused;
    machine.config.resolve = resolve;
    worker = aligned_alloc(64, (sizeof *worker + 63) & ~(size_t) 63);
    wave = aligned_alloc(64, sizeof *wave);
    group = aligned_alloc(64, (sizeof *group + 63) & ~(size_t) 63);
    memset(worker, 0, sizeof *worker);
    memset(group, 0, sizeof *group);
    memset(wave, 0, sizeof *wave);
    worker->gpu = &machine;
    wave->worker = worker;
    wave->group = group;
    gfx_tlb_clear(worker);
    return 0;
}

static inline int finish(void ** unused) {
    (void) unused;
    free(worker);
    free(group);
    free(wave);
    return 0;
}

static inline void set_lanes(int lanes) {
    wave->lanes = lanes;
    wave->all = lanes == 64 ? ~UINT64_C(0) : 0xffffffff;
}

static inline void set_exec(uint64_t exec) {
    sgpr_put64(wave, GFX_SGPR_EXEC, exec);
}

static inline uint64_t lane(unsigned reg, int i, enum gfx_type t) {
    return wave->v[reg][i] | (gfx_type_words(t) == 2 ? (uint64_t) wave->v[reg + 1][i] << 32 : 0);
}

static inline uint64_t width_mask(enum gfx_type t) {
    return gfx_type_words(t) == 2             ? ~UINT64_C(0)
           : t == GFX_T_F16 || t == GFX_T_B16 ? 0xffff
                                              : 0xffffffff;
}

static inline bool is_nan(enum gfx_type t, uint64_t v) {
    return t == GFX_T_F16   ? (v & 0x7fff) > 0x7c00
           : t == GFX_T_F32 ? (v & 0x7fffffff) > 0x7f800000
                            : t == GFX_T_F64 && (v & INT64_MAX) > UINT64_C(0x7ff) << 52;
}

static inline struct gfx_inst instruction(enum gfx_op op) {
    struct gfx_inst in;
    memset(&in, 0, sizeof in);
    in.op = (uint16_t) op;
    in.op_sel_hi = 7;
    in.sdst = GFX_SGPR_NULL;
    in.dst = (struct gfx_operand){.kind = GFX_K_VGPR, .reg = D};
    for (int k = 0; k < 3; k++) {
        in.src[k] = (struct gfx_operand){.kind = GFX_K_VGPR, .reg = (uint16_t) (A + 2 * k)};
    }
    return in;
}
