// quant-writer: what the parts of a program that make quantized blocks into numbers are written
// with: registers of a section with their values, and short scalar sums.
#pragma once

#include "quant.h"

#include "aie/target/verbs.h"

enum quant_memory {
    MEM_PARAMS,
    MEM_BLOCKS,
    MEM_SCALES,
    MEM_SPREAD,
    MEM_OUT,
    MEM_ALIGNED,
    MEM_BYTES,
    MEM_SIX,
    MEM_TABLE
};

enum { MOST_TAKEN = 24 };

// A section's registers are taken before its first instruction, so what they are to hold is noted.
struct writer {
    const struct quant * q;
    struct asm_program * p;
    struct taken {
        struct asm_reg r;
        bool is_set;
        int32_t value;
        int width; // of the lanes that it is for; -1: a scalar
    } taken[MOST_TAKEN];
    int n_taken;
};

static inline int32_t address(const struct writer * w, int32_t at) {
    return (int32_t) asm_target(w->p)->own_window + at;
}

static inline struct asm_reg take(struct writer * w, enum asm_class cls) {
    struct asm_reg r = asm_global(w->p, cls);
    w->taken[w->n_taken++] = (struct taken){.r = r};
    return r;
}

static inline struct asm_reg take_set(struct writer * w, enum asm_class cls, int32_t value) {
    struct asm_reg r = asm_global(w->p, cls);
    w->taken[w->n_taken++] = (struct taken){r, true, value, -1};
    return r;
}

static inline struct asm_reg take_splat(struct writer * w, enum lane_width width, int32_t value) {
    struct asm_reg r = asm_global(w->p, ASM_X);
    w->taken[w->n_taken++] = (struct taken){r, true, value, width};
    return r;
}

static inline void end(struct writer * w) {
    while (w->n_taken > 0) {
        asm_release(w->p, w->taken[--w->n_taken].r);
    }
    asm_section(w->p);
}

static inline struct asm_reg sum_of(struct writer * w, struct asm_reg a, int32_t b) {
    struct asm_reg n = asm_local(w->p, ASM_R), d = asm_local(w->p, ASM_R);
    emit_set(w->p, n, b);
    emit_alu(w->p, AIE_BASIC_ADD, d, a, n);
    return d;
}

static inline struct asm_reg shifted(struct writer * w, struct asm_reg a, int bits) {
    struct asm_reg n = asm_local(w->p, ASM_R), d = asm_local(w->p, ASM_R);
    emit_set(w->p, n, bits);
    emit_alu(w->p, AIE_BASIC_SHIFT, d, a, n);
    return d;
}

static inline struct writer begin(struct quant * q) {
    asm_section(q->p);
    return (struct writer){.q = q, .p = q->p};
}

// All registers are taken.
static inline void ready(struct writer * w) {
    struct asm_program * p = w->p;
    for (int i = 0; i < w->n_taken; i++) {
        const struct taken * t = &w->taken[i];
        if (t->is_set && t->width >= 0) {
            struct asm_reg r = asm_local(p, ASM_R);
            emit_set(p, r, t->value);
            emit_splat(p, t->width, t->r, r);
        } else if (t->is_set) {
            emit_set(p, t->r, t->value);
        }
    }
}

static inline struct asm_reg masked(struct writer * w, struct asm_reg a, int32_t bits) {
    struct asm_reg n = asm_local(w->p, ASM_R), d = asm_local(w->p, ASM_R);
    emit_set(w->p, n, bits);
    emit_alu(w->p, AIE_BASIC_AND, d, a, n);
    return d;
}

// Where the slice's blocks are: ping or pong, as the bf16 slice is.
static inline struct asm_reg raw_of(struct writer * w) {
    return sum_of(w, shifted(w, masked(w, w->q->base, MM_XY_OTHER), 1), address(w, MM_BLOCKS));
}

static inline void read_param(struct writer * w, struct asm_reg to, int param,
                              struct asm_reg pointer) {
    emit_set(w->p, pointer, address(w, MM_PARAMS + 4 * param));
    emit_load_scalar(w->p, MEM_PARAMS, LANE_32, A_REG(to), pointer, 0);
}

static inline struct asm_reg shuffled(struct writer * w, struct asm_reg a, struct asm_reg b,
                                      struct asm_reg pattern) {
    struct asm_reg d = asm_local(w->p, ASM_X);
    emit_shuffle(w->p, d, a, b, pattern);
    return d;
}
