// quant-writer: what the parts of a program that make quantized blocks into numbers are written
// with: registers of a section with their values, and short scalar sums.
#pragma once

#include "quant.h"

#include "aie/verbs/verbs.h"

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

// Memory of blocks that are multiplied as they are unpacked. No load of a loop reads what its
// stores write.
enum {
    MEM_X = MEM_TABLE + 1,
    MEM_FACTORS,
    MEM_C_IN,
    MEM_C_OUT,
    MEM_WORDS,
    MEM_JOINED,
    MEM_ORDERED
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

static inline void quant_end(struct writer * w) {
    while (w->n_taken > 0) {
        asm_release(w->p, w->taken[--w->n_taken].r);
    }
    asm_section(w->p);
}

// A scalar. Where there is much else in a program, short instructions set short ones.
static inline void set_scalar(struct writer * w, struct asm_reg r, int32_t value) {
    enum { SHORT = 1024 };
    enum asm_class cls = asm_class_of(w->p, r);
    if (w->q->fused && value >= -SHORT && value < SHORT && (cls == ASM_R || cls == ASM_MASK)) {
        emit_set_small(w->p, r, value);
    } else {
        emit_set(w->p, r, value);
    }
}

// What an operation gives with a number.
static inline struct asm_reg alu(struct writer * w, enum aie_basic op, struct asm_reg a,
                                 int32_t b) {
    struct asm_reg n = asm_local(w->p, ASM_R), d = asm_local(w->p, ASM_R);
    set_scalar(w, n, b);
    emit_alu(w->p, op, d, a, n);
    return d;
}

static inline struct asm_reg sum_of(struct writer * w, struct asm_reg a, int32_t b) {
    return alu(w, AIE_BASIC_ADD, a, b);
}

static inline struct asm_reg shifted(struct writer * w, struct asm_reg a, int bits) {
    return alu(w, AIE_BASIC_SHIFT, a, bits);
}

static inline struct asm_reg masked(struct writer * w, struct asm_reg a, int32_t bits) {
    return alu(w, AIE_BASIC_AND, a, bits);
}

static inline struct writer quant_begin(struct quant * q) {
    asm_section(q->p);
    return (struct writer){.q = q, .p = q->p};
}

static inline struct asm_reg splat(struct writer * w, enum lane_width width, int32_t value) {
    struct asm_reg r = asm_local(w->p, ASM_R), d = asm_local(w->p, ASM_X);
    emit_set(w->p, r, value);
    emit_splat(w->p, width, d, r);
    return d;
}

// All registers are taken.
static inline void quant_ready(struct writer * w) {
    struct asm_program * p = w->p;
    for (int i = 0; i < w->n_taken; i++) {
        const struct taken * t = &w->taken[i];
        if (t->is_set && t->width >= 0) {
            struct asm_reg r = asm_local(p, ASM_R);
            emit_set(p, r, t->value);
            emit_splat(p, t->width, t->r, r);
        } else if (t->is_set) {
            set_scalar(w, t->r, t->value);
        }
    }
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

// Which slice of its block this one is.
static inline struct asm_reg slice_number(struct writer * w) {
    struct asm_reg none = asm_local(w->p, ASM_R), n = asm_local(w->p, ASM_R);
    set_scalar(w, none, 0);
    emit_alu(w->p, AIE_BASIC_SUB, n, none, w->q->left);
    return masked(w, n, 3);
}

// Where a block that is longer than a slice is, in q->number.
static inline void find_block(struct writer * w, struct asm_reg pointer) {
    read_param(w, w->q->number, MM_PARAM_RAW, pointer);
    struct asm_reg at = sum_of(w, w->q->number, address(w, 0));
    emit_copy(w->p, w->q->number, at);
}

// Where the scales of a slice begin, [group][64 rows].
static inline struct asm_reg planes_of(struct writer * w) {
    static const int params[3] = {MM_PARAM_TABLE_SHIFT, MM_PARAM_PLANES_OF, MM_PARAM_PLANES};
    struct asm_reg n[3], at = slice_number(w);
    for (int i = 0; i < 3; i++) {
        n[i] = asm_local(w->p, ASM_R);
        read_param(w, n[i], params[i], w->q->pointers[i]);
    }
    emit_alu(w->p, AIE_BASIC_SHIFT, at, at, n[0]);
    emit_alu(w->p, AIE_BASIC_AND, at, at, n[1]);
    emit_alu(w->p, AIE_BASIC_ADD, at, at, n[2]);
    return sum_of(w, at, address(w, 0));
}

static inline void store_param(struct writer * w, struct asm_reg a, int param,
                               struct asm_reg pointer) {
    emit_set(w->p, pointer, address(w, MM_PARAMS + 4 * param));
    emit_store_word(w->p, MEM_PARAMS, a, pointer, 0);
}

static inline struct asm_reg shuffled(struct writer * w, struct asm_reg a, struct asm_reg b,
                                      struct asm_reg pattern) {
    struct asm_reg d = asm_local(w->p, ASM_X);
    emit_shuffle(w->p, d, a, b, pattern);
    return d;
}

// Numbers of mxfp4, of the bytes that are their places (quant-table.c): `middle` and what the table
// has there.
struct quant_places {
    struct asm_reg seven, four, eight, middle;
};
// Where the places of a slice are, as whole words.
struct asm_reg quant_places_at(struct writer * w, struct asm_reg pointer);
void quant_take_places(struct writer * w, struct quant_places * c); // all but `middle`
struct asm_reg quant_worked_out(struct writer * w, const struct quant_places * c,
                                struct asm_reg places);

// The lower halves of the bytes of a vector, and the upper ones; pick: the even and the odd of 64
// bytes.
static inline void nibbles_of(struct writer * w, const struct asm_reg pick[2], struct asm_reg bytes,
                              struct asm_reg out[2]) {
    struct asm_reg part[2];
    for (int i = 0; i < 2; i++) {
        part[i] = asm_local(w->p, ASM_X);
        emit_nibbles(w->p, part[i], asm_half(bytes, i));
    }
    for (int i = 0; i < 2; i++) {
        out[i] = shuffled(w, part[0], part[1], pick[i]);
    }
}

// Units moved by 16 bits: each is what stands at from[0], moved by by[0] bytes, and what stands at
// from[1], moved by by[1]; of `which` the 16-bit lanes of the mask.
static inline void move_units(struct writer * w, struct asm_reg trips, const struct asm_reg from[2],
                              const struct asm_reg by[2], struct asm_reg to, struct asm_reg mask,
                              int which) {
    struct asm_program * p = w->p;
    asm_loop_begin(p, trips);
    if (w->q->fused || w->q->apart) { // gemv: in panels few are, and there is much else
        asm_loop_alone(p);
    }
    struct asm_reg v[2], moved[2], d = asm_local(p, ASM_X);
    for (int i = 0; i < 2; i++) {
        v[i] = asm_local(p, ASM_X);
        moved[i] = asm_local(p, ASM_X);
        emit_load_next(p, MEM_BLOCKS, v[i], from[i]);
        emit_shift_bytes(p, moved[i], v[i], v[i], by[i]);
    }
    emit_select(p, LANE_16, d, moved[!which], moved[which], mask);
    emit_store_next(p, MEM_ALIGNED, d, to);
    asm_loop_end(p);
}

// Both of two neighbouring pairs of k of 16 rows, a word of 64 rows apart: from a pointer between
// them, or where offsets do not reach that far, one that goes on.
enum { QUANT_PAIR = MM_TILE * 4 };
static inline int pair_at(const struct quant * q) { // where the pointer begins
    return q->wide ? 0 : QUANT_PAIR;
}
static inline void put_pair(struct writer * w, const struct emit_scale * by,
                            const struct asm_reg * terms, int n, struct asm_reg to, int k,
                            struct asm_reg config) {
    emit_scaled(w->p, MEM_OUT, by, terms, n, to, w->q->wide ? 0 : (k - 1) * QUANT_PAIR, config);
    if (w->q->wide) {
        emit_advance(w->p, to, QUANT_PAIR);
    }
}

// f16 to bf16 in 32 lanes (aie2-quant-inreg.c). Taking what that wants ends the taking: all is
// ready then.
struct half_numbers {
    struct asm_reg magnitude, inf, normal, bf16_inf; // vectors
    struct asm_reg rebias, smallest;                 // accumulators
    struct asm_reg raise, lower, add_bits, add;      // scalars
};
void quant_take_half_numbers(struct writer * w, struct half_numbers * c);
struct asm_reg quant_half_to_bf16(struct writer * w, const struct half_numbers * c,
                                  struct asm_reg a);
