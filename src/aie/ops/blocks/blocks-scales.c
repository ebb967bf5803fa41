// blocks-scales: scales and minima that are numbers of a few bits, times one of the whole block.
// Those of a slice are made bytes, [group][64 rows], first all scales and 256 bytes behind them all
// minima, by a function of the type; and bytes become factors in bf16 (blocks.h), where what is too
// much of each comes with the parameters:
//
//     factor = (top + byte) d - less d      top is 128, or 32 for a fourth of the byte
#include "blocks.h"

#include "aie/ops/mul-mat/quant-writer.h"

enum {
    WORD = MM_TILE * 4,  // bytes from word to word
    PLANE = MM_TILE * 2, // a factor of each row
    VECTOR = QUANT_VECTOR,
    MINIMA = 4 * MM_TILE, // behind scales, as bytes
};

// Four vectors of 16 rows, [row][4 bytes], as [4][64 rows].
static void by_groups(struct writer * w, const struct asm_reg pick[2], const struct asm_reg v[4],
                      struct asm_reg out[4]) {
    for (int odd = 0; odd < 2; odd++) {
        struct asm_reg two[2];
        for (int i = 0; i < 2; i++) {
            two[i] = shuffled(w, v[2 * i], v[2 * i + 1], pick[odd]);
        }
        for (int i = 0; i < 2; i++) {
            out[2 * i + odd] = shuffled(w, two[0], two[1], pick[i]);
        }
    }
}

// One byte of 64 rows of such vectors. Two registers choose it, each with the shuffle for one bit
// of its place.
static struct asm_reg byte_of(struct writer * w, struct asm_reg low, struct asm_reg high,
                              const struct asm_reg v[4]) {
    struct asm_reg two[2];
    for (int i = 0; i < 2; i++) {
        two[i] = shuffled(w, v[2 * i], v[2 * i + 1], low);
    }
    return shuffled(w, two[0], two[1], high);
}

static void load_word(struct writer * w, struct asm_reg from, struct asm_reg v[4]) {
    for (int i = 0; i < 4; i++) {
        v[i] = asm_local(w->p, ASM_X);
        emit_load(w->p, MEM_BLOCKS, v[i], from, i * VECTOR);
    }
}

// A byte for each group: its scale in the lower half, its minimum in the upper one.
void blocks_scales_q2_K(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg from = q->pointers[0], to = q->pointers[1], pick[2], v[4], groups[4];
    for (int i = 0; i < 2; i++) {
        pick[i] = take_set(w, ASM_MASK, EVEN_8 + i);
    }
    quant_ready(w);
    emit_nibbles_begin(p);
    find_block(w, from);
    struct asm_reg at = asm_local(p, ASM_R);
    emit_alu(p, AIE_BASIC_ADD, at, q->number, shifted(w, slice_number(w), 8 /* WORD */));
    emit_copy(p, from, at);
    emit_set(p, to, address(w, MM_LONG_SIX));
    load_word(w, from, v);
    by_groups(w, pick, v, groups);
    for (int g = 0; g < 4; g++) {
        struct asm_reg part[2];
        nibbles_of(w, pick, groups[g], part);
        for (int i = 0; i < 2; i++) {
            emit_store(p, MEM_SIX, part[i], to, i * MINIMA + g * MM_TILE);
        }
    }
    quant_end(w);
}

// Four bits of each scale are in one of two words, slices taking turns. Two more bits are in a
// third word: one scale's, then the other's.
static void scales_q3_K(struct quant * q, bool above) {
    enum { SCALES_AT = 24 * WORD, ABOVE = 2 * WORD };
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg from = q->pointers[0], to = q->pointers[1], pick[2], v[4], groups[4];
    struct blocks_pair pair = blocks_take_pair(w);
    for (int i = 0; i < 2; i++) {
        pick[i] = take_set(w, ASM_MASK, EVEN_8 + i);
    }
    quant_ready(w);
    emit_nibbles_begin(p);
    find_block(w, from);
    struct asm_reg slice = slice_number(w), at = asm_local(p, ASM_R);
    blocks_find_pair(w, &pair, slice);
    emit_alu(p, AIE_BASIC_ADD, at, q->number, shifted(w, masked(w, slice, 1), 8 /* WORD */));
    emit_copy(p, from, sum_of(w, above ? q->number : at, SCALES_AT + (above ? ABOVE : 0)));
    emit_set(p, to, address(w, MM_LONG_SIX));
    load_word(w, from, v);
    by_groups(w, pick, v, groups);
    for (int g = 0; g < 4; g++) {
        struct asm_reg d, n[2];
        if (above) {
            d = blocks_pair_of(w, &pair, groups[g]);
            for (int i = 0; i < 3; i++) { // of four times them, and what is below
                struct asm_reg next = asm_local(p, ASM_X), low = d;
                if (i == 2) {
                    low = asm_local(p, ASM_X);
                    emit_load(p, MEM_SIX, low, to, g * MM_TILE);
                }
                emit_lanes(p, LANE_ADD, LANE_8, next, d, low);
                d = next;
            }
        } else {
            for (int i = 0; i < 2; i++) {
                n[i] = asm_local(p, ASM_X);
                emit_nibbles(p, n[i], asm_half(groups[g], i));
            }
            d = shuffled(w, n[0], n[1], pair.pick);
        }
        emit_store(p, MEM_SIX, d, to, g * MM_TILE);
    }
    quant_end(w);
}

void blocks_scales_q3_K(struct quant * q) {
    scales_q3_K(q, false);
    scales_q3_K(q, true);
}

// Slice s has both of its scales in byte s of the second word, half a byte each, and above them
// twice two bits in half s of the two bytes behind d.
void blocks_scales_iq4_xs(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg from = q->pointers[0], to = q->pointers[1], pick[2], v[4], low[2], n[2];
    struct asm_reg here[2] = {take(w, ASM_MASK), take(w, ASM_MASK)}; // bits of the slice's number
    struct asm_reg bits = take_splat(w, LANE_8, 3 << 4);
    for (int i = 0; i < 2; i++) {
        pick[i] = take_set(w, ASM_MASK, EVEN_8 + i);
    }
    quant_ready(w);
    emit_nibbles_begin(p);
    find_block(w, from);
    struct asm_reg slice = slice_number(w);
    emit_copy(p, here[0], sum_of(w, masked(w, slice, 1), EVEN_8));
    emit_copy(p, here[1], sum_of(w, shifted(w, slice, -1), EVEN_8));
    emit_copy(p, from, sum_of(w, q->number, WORD));
    emit_set(p, to, address(w, MM_LONG_SIX));
    load_word(w, from, v);
    nibbles_of(w, pick, byte_of(w, here[0], here[1], v), low);
    emit_copy(p, from, q->number);
    load_word(w, from, v);
    struct asm_reg bytes = byte_of(w, here[1], pick[1], v);
    for (int i = 0; i < 2; i++) {
        n[i] = asm_local(p, ASM_X);
        emit_nibbles(p, n[i], asm_half(bytes, i));
    }
    struct asm_reg above = shuffled(w, n[0], n[1], here[0]);
    for (int up = 1; up <= 4; up++) { // the second one's two bits are where they belong first
        struct asm_reg next = asm_local(p, ASM_X);
        emit_lanes(p, LANE_ADD, LANE_8, next, above, above);
        above = next;
        if (up % 2 == 0) {
            struct asm_reg part = asm_local(p, ASM_X), scale = asm_local(p, ASM_X);
            emit_lanes(p, LANE_AND, LANE_8, part, above, bits);
            emit_lanes(p, LANE_ADD, LANE_8, scale, low[up == 2], part);
            emit_store(p, MEM_SIX, scale, to, (up == 2) * MM_TILE);
        }
    }
    quant_end(w);
}

// ---- factors ----

void blocks_factors(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    bool wide = q->wide;
    struct asm_reg from = q->pointers[0], to = q->pointers[1], scale = q->pointers[2];
    struct asm_reg minima = take(w, ASM_R), d[2] = {take(w, ASM_X), take(w, ASM_X)}, zip[2];
    struct asm_reg top = take(w, ASM_X), less = take(w, ASM_X), zero = top, low = {0};
    struct asm_reg config =
        take_set(w, wide ? ASM_MASK : ASM_R, (int32_t) asm_target(p)->mul_config);
    for (int i = 0; i < 2; i++) {
        zip[i] = take_set(w, ASM_MASK, ZIP_8 + i);
    }
    if (wide) {
        zero = take_splat(w, LANE_32, 0);
        low = take_set(w, ASM_MASK, 0xffff);
    }
    int again = asm_label_new(p), done = asm_label_new(p);
    quant_ready(w);
    read_param(w, q->number, MM_PARAM_SCALES_TOP, from);
    emit_splat(p, LANE_16, top, q->number);
    read_param(w, q->number, MM_PARAM_TABLE_LESS, from);
    emit_splat(p, LANE_16, less, q->number);
    read_param(w, minima, MM_PARAM_LESS, from);
    emit_set(p, from, address(w, MM_LONG_SIX));
    emit_set(p, to, address(w, MM_LONG_TABLE));
    emit_set(p, scale, address(w, MM_LONG_SCALES));
    asm_label(p, again);
    for (int rows = 0; rows < 2; rows++) {
        emit_load_next(p, MEM_SCALES, d[rows], scale);
    }
    read_param(w, q->number, MM_PARAM_GROUPS, q->pointers[3]);
    asm_loop_begin(p, q->number);
    struct asm_reg bytes = asm_local(p, ASM_X);
    emit_load_next(p, MEM_SIX, bytes, from);
    for (int rows = 0; rows < 2; rows++) {
        struct emit_scale by = {0};
        emit_scale(p, &by, d[rows], less, zero, low, config);
        struct asm_reg number = shuffled(w, bytes, top, zip[rows]);
        emit_scaled(p, MEM_TABLE, &by, &number, 1, to, rows * VECTOR, config);
    }
    emit_advance(p, to, PLANE);
    asm_loop_end(p);
    asm_jump_if_zero(p, minima, done);
    emit_set(p, minima, 0);
    emit_set(p, from, address(w, MM_LONG_SIX + MINIMA));
    asm_jump(p, again);
    asm_label(p, done);
    quant_end(w);
}
