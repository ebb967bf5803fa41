// aie2-quant-onerow: q4_K and q6_K times one row of b. The multiplier takes four rows of b as
// columns, of which three would be nothing. But a byte of q4_K has a number of one group in its
// lower half and one of the next group in its upper, and the sums of groups stay apart. So the
// columns are:
//
//     0   b's numbers of the first group, at the places of lower halves; zeros at the others
//     1   those of the second group, at the places of upper halves
//     2   zeros: its sum is what the accumulator had before, the sum of b's numbers of the first
//         group, negative
//     3   zeros: the same of the second group
//
// Both groups are multiplied in one pass over the words as they came (aie2-quant-inreg.c), and
// minima, which are taken away times the sum of b's numbers, are factors of columns as the scales
// are. The tile has four columns for the one row, which are added up when it is complete.
//
// q6_K has the lower four bits of its numbers so, but the halves of a byte are 64 numbers apart. So
// two slices go together, as two units of 32 numbers of either:
//
//     unit   numbers              lower bits: words        upper bits, of the same eight words
//     0      0 .. 31, 64 .. 95    the first eight          & 0x33, which are numbers of two bits,
//     1      32 .. 63, 96 .. 127  the second eight         & 0xcc, and four times such ones
//
// Each is a run of the loop: its upper bits, 2048 + 16 q or 512 + 4 (4 q), then its lower ones, 128
// + q. What is too much is taken away so that each sum is about a middle, 16 q - 24 and q - 8: they
// are rounded one by one. Groups have 16 numbers, so that both sums of a run have scales of their
// own; columns 2 and 3 stay zeros. Of the two slices of b the first is where the core made it bf16.
#include "aie2-quant-inreg.h"

enum {
    COLUMN = 4 * 4,           // bytes of four rows of a in the tile
    UNIT = WORDS * WORD,      // 2^11
    UPPER_AT = 128 * MM_TILE, // of a block of q6_K
    AT_ONCE = 4,              // vectors
};

// In bf16, and the upper bytes of two numbers.
enum {
    MINUS_24 = 0xc1c0,
    MINUS_128 = 0xc300,
    MINUS_2048 = 0xc500,
    TOPS = 0x4343,
    UPPER_TOPS = 0x4545
};

// ---- numbers ----

// Of both units that two slices of q6_K are, the upper two bits, in bytes of which nothing else is
// left.
void columns_upper_bits(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg from = q->pointers[0], *to = q->pointers + 1;
    struct asm_reg trips = take_set(w, ASM_R, UNIT / VECTOR / AT_ONCE), at = asm_local(p, ASM_R);
    struct asm_reg bits[2] = {take_splat(w, LANE_8, 0x33), take_splat(w, LANE_8, 0xcc)};
    quant_ready(w);
    find_block(w, from);
    emit_alu(p, AIE_BASIC_ADD, at, q->number, shifted(w, shifted(w, slice_number(w), -1), 11));
    emit_copy(p, from, sum_of(w, at, UPPER_AT));
    for (int i = 0; i < 2; i++) {
        emit_set(p, to[i], address(w, MM_LONG_BYTES + i * UNIT));
    }
    asm_loop_begin(p, trips);
    asm_loop_alone(p); // overlapping trips of one vector take 300 bytes more
    for (int n = 0; n < AT_ONCE; n++) {
        struct asm_reg v = asm_local(p, ASM_X);
        emit_load_next(p, MEM_BLOCKS, v, from);
        for (int i = 0; i < 2; i++) {
            struct asm_reg d = asm_local(p, ASM_X);
            emit_lanes(p, LANE_AND, LANE_8, d, v, bits[i]);
            emit_store_next(p, MEM_BYTES, d, to[i]);
        }
    }
    asm_loop_end(p);
    quant_end(w);
}

// ---- factors ----

// Of a block: for each slice [4 rows][2 scales, 2 minima][rows], from planes of 64 rows.
void columns_pages(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg *from = q->pointers, to = q->pointers[4];
    struct asm_reg zip_64[2], zip_128[2], trips = take(w, ASM_R);
    for (int i = 0; i < 2; i++) {
        zip_64[i] = take_set(w, ASM_MASK, ZIP_64 + i);
        zip_128[i] = take_set(w, ASM_MASK, ZIP_128 + i);
    }
    quant_ready(w);
    struct asm_reg at = sum_of(w, shifted(w, shifted(w, slice_number(w), -1), 10 /* 8 PLANE */),
                               address(w, MM_LONG_TABLE));
    struct asm_reg far[2] = {asm_local(p, ASM_R), asm_local(p, ASM_R)}, plane[4] = {at};
    read_param(w, far[0], MM_PARAM_PLANES_NEXT, from[0]);
    read_param(w, far[1], MM_PARAM_MINIMA, from[1]);
    read_param(w, trips, MM_PARAM_PAGES, from[2]);
    for (int i = 1; i < 4; i++) {
        plane[i] = asm_local(p, ASM_R);
        emit_alu(p, AIE_BASIC_ADD, plane[i], plane[i & 2 ? i - 2 : 0], far[i / 2]);
    }
    for (int i = 0; i < 4; i++) {
        emit_copy(p, from[i], plane[i]);
    }
    emit_set(p, to, address(w, MM_FUSED_PAGE));
    asm_loop_begin(p, trips);
    asm_loop_alone(p);
    for (int rows = 0; rows < 2; rows++) {
        struct asm_reg pair[2][2];
        for (int kind = 0; kind < 2; kind++) {
            struct asm_reg v[2];
            for (int i = 0; i < 2; i++) {
                v[i] = asm_local(p, ASM_X);
                emit_load(p, MEM_TABLE, v[i], from[2 * kind + i], rows * VECTOR);
            }
            for (int i = 0; i < 2; i++) {
                pair[i][kind] = shuffled(w, v[0], v[1], zip_64[i]);
            }
        }
        for (int i = 0; i < 4; i++) {
            const struct asm_reg * of = pair[i / 2];
            emit_store_next(p, MEM_SCALES, shuffled(w, of[0], of[1], zip_128[i % 2]), to);
        }
    }
    for (int i = 0; i < 4; i++) {
        emit_advance(p, from[i], 2 * PLANE);
    }
    asm_loop_end(p);
    quant_end(w);
}

// ---- what the loop wants ----

void columns_order(struct writer * w, const struct fused * f, const struct constants * c,
                   const struct one_row * o, const struct asm_reg from[2], struct asm_reg to) {
    struct asm_program * p = w->p;
    struct asm_reg minus[2], row = small(w, ASM_R, VECTOR - K_BLOCK / 4), sum = {0};
    for (int i = 0; i < 2; i++) {
        minus[i] = asm_local(p, ASM_X);
        emit_splat(p, LANE_16, minus[i], o->minus[i]);
    }
    struct asm_reg x[4][2];
    for (int i = -2; i < 4; i++) {
        for (int half = 0; half < 2 && i < 2; half++) { // long before they are wanted
            x[i + 2][half] = asm_local(p, ASM_X);
            emit_load(p, MEM_X, x[i + 2][half], from[half], (i + 2) * K_BLOCK);
        }
        if (i < 0) {
            continue;
        }
        struct asm_reg of[2], both[2], moved = asm_local(p, ASM_X);
        emit_shift_bytes(p, moved, x[i][1], x[i][1], row);
        of[0] = shuffled(w, x[i][0], x[i][0], f->turn);
        of[1] = shuffled(w, moved, moved, f->turn);
        for (int n = 0; n < 2; n++) {
            emit_store(p, MEM_FACTORS, shuffled(w, of[0], of[1], c->zip_64[n]), to,
                       (2 * i + n) * K_BLOCK);
        }
        both[0] = lanes_16(w, LANE_OR, of[0], of[1]);
        both[1] = asm_local(p, ASM_X);
        emit_shift_bytes(p, both[1], both[0], both[0], o->by);
        for (int n = 0; n < 2; n++) {
            struct asm_reg next = i % 2 && n ? c->rest[i / 2] : asm_local(p, ASM_BM);
            if (i % 2 == 0 && n == 0) {
                emit_mul(p, next, minus[n], both[n], f->conf);
            } else {
                emit_mac(p, next, sum, minus[n], both[n], f->conf);
            }
            sum = next;
        }
    }
}

void columns_begin(struct writer * w) {
    quant_ready(w);
    emit_nibbles_begin(w->p);
    set_steps(w, VECTOR / 2);
}

static void set_top(struct writer * w, const struct constants * c, struct asm_reg top) {
    emit_splat(w->p, LANE_16, c->top, top);
}

// Of a slice of q4_K.
void columns_slice(struct writer * w, const struct fused * f, const struct one_row * o) {
    struct asm_program * p = w->p;
    const struct asm_reg * at = w->q->pointers;
    struct asm_reg x = sum_of(w, f->x, -f->x_offset);
    emit_copy(p, at[3], x);
    emit_copy(p, at[2], sum_of(w, x, 4 * K_BLOCK));
    emit_set(p, o->minus[0], MINUS_128);
    emit_set(p, o->minus[1], MINUS_ONE);
    emit_set_small(p, o->by, VECTOR - 2 * 2); // two columns
}

// Of a unit of q6_K: the other slice of x is still there.
void columns_unit(struct writer * w, const struct fused * f, const struct constants * c,
                  const struct one_row * o, struct asm_reg unit) {
    struct asm_program * p = w->p;
    const struct asm_reg * at = w->q->pointers;
    struct asm_reg other = asm_local(p, ASM_R), x[2], far = shifted(w, unit, 8 /* 4 K_BLOCK */);
    emit_set(p, other, MM_XY_OTHER);
    for (int i = 0; i < 2; i++) {
        x[i] = asm_local(p, ASM_R);
        emit_alu(p, AIE_BASIC_ADD, x[i], sum_of(w, f->x, -f->x_offset), far);
    }
    emit_alu(p, AIE_BASIC_XOR, x[0], x[0], other);
    emit_copy(p, at[3], x[0]);
    emit_copy(p, at[2], x[1]);
    emit_set(p, o->minus[0], MINUS_2048);
    emit_alu(p, AIE_BASIC_SUB, o->minus[0], o->minus[0], far); // of the second unit 512
    emit_set(p, o->minus[1], MINUS_24);
    emit_set_small(p, o->by, 0);
    emit_set_small(p, c->zip_64[0], ZIP_64);
}

// The configuration of a tile's first multiplication has one bit more.
void columns_scale(struct writer * w, const struct fused * f, const struct constants * c) {
    struct asm_program * p = w->p;
    struct asm_reg n[2] = {asm_local(p, ASM_R), asm_local(p, ASM_R)};
    emit_set(p, n[0], (int32_t) asm_target(p)->mul_config);
    emit_alu(p, AIE_BASIC_XOR, n[1], f->first, f->conf);
    emit_alu(p, AIE_BASIC_OR, c->scale, n[0], n[1]);
    emit_set_small(p, c->zip_64[0], THE_FIRST);
}

// Words of a block of either kind: eight for each number of `unit`.
static struct asm_reg words_of(struct writer * w, struct asm_reg unit, int32_t from,
                               struct asm_reg scratch) {
    struct asm_reg raw = asm_local(w->p, ASM_R), sum = asm_local(w->p, ASM_R);
    read_param(w, raw, MM_PARAM_RAW, scratch);
    emit_alu(w->p, AIE_BASIC_ADD, sum, raw, shifted(w, unit, 11 /* WORDS * WORD */));
    return sum_of(w, sum, from);
}

// A slice of q4_K: its numbers are where they came, and it has a page of its own.
void columns_lead(struct writer * w, const struct constants * c) {
    struct asm_program * p = w->p;
    const struct asm_reg * at = w->q->pointers;
    struct asm_reg slice = slice_number(w), top = asm_local(p, ASM_R);
    emit_set(p, top, TOPS);
    set_top(w, c, top);
    emit_copy(p, at[0], words_of(w, slice, address(w, MM_LONG_HEADER), at[0]));
    emit_copy(p, at[2], sum_of(w, shifted(w, slice, 9), address(w, MM_FUSED_PAGE)));
    for (int i = 0; i < 2; i++) {
        emit_set_small(p, c->zip_128[i], ZIP_256 + i);
    }
}

static struct asm_reg page_of(struct writer * w, struct asm_reg unit) {
    return sum_of(w, shifted(w, unit, 9), address(w, MM_FUSED_PAGE));
}

// A unit: its upper bits first.
void columns_lead_upper(struct writer * w, const struct fused * f, const struct constants * c,
                        struct asm_reg unit) {
    struct asm_program * p = w->p;
    const struct asm_reg * at = w->q->pointers;
    struct asm_reg top = asm_local(p, ASM_R), less = asm_local(p, ASM_R);
    emit_set(p, top, UPPER_TOPS);
    emit_alu(p, AIE_BASIC_ADD, less, unit, shifted(w, unit, 8));
    emit_alu(p, AIE_BASIC_SUB, top, top, less);
    set_top(w, c, top);
    emit_copy(p, at[0], sum_of(w, shifted(w, unit, 11), address(w, MM_LONG_BYTES)));
    emit_copy(p, at[2], page_of(w, unit));
    emit_copy(p, f->first, f->conf);
}

// Then the lower ones; the rest is as for any four rows.
void columns_lead_lower(struct writer * w, const struct fused * f, const struct constants * c,
                        struct asm_reg unit) {
    struct asm_program * p = w->p;
    const struct asm_reg * at = w->q->pointers;
    struct asm_reg top = asm_local(p, ASM_R), number = asm_local(p, ASM_R);
    emit_set(p, top, TOPS);
    set_top(w, c, top);
    emit_alu(p, AIE_BASIC_ADD, number, masked(w, slice_number(w), 2), unit);
    store_param(w, words_of(w, number, 0, at[0]), MM_PARAM_NUMBERS, at[3]);
    emit_copy(p, at[2], page_of(w, unit));
    columns_scale(w, f, c);
}

// ---- the tile ----

// [4 columns][4 rows] of f32: each column becomes the sum of all.
void columns_sum(struct fused * f) {
    struct quant q = {.p = f->p, .fused = true};
    struct writer writer = quant_begin(&q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg from = f->pointers[0], to = f->pointers[1];
    struct asm_reg trips = take_set(w, ASM_R, MM_TILE / 4), by[4];
    struct asm_reg add = take_set(w, ASM_R, (int32_t) asm_target(p)->add_config);
    for (int i = 1; i < 4; i++) {
        by[i] = take_set(w, ASM_R, i * COLUMN);
    }
    quant_ready(w);
    struct asm_reg tile = sum_of(w, f->c, -f->c_offset);
    emit_copy(p, from, tile);
    emit_copy(p, to, tile);
    asm_loop_begin(p, trips);
    asm_loop_alone(p);
    struct asm_reg all = asm_local(p, ASM_X), column[4], sum[3];
    emit_load_next(p, MEM_C_IN, all, from);
    for (int i = 0; i < 4; i++) {
        struct asm_reg x = all;
        if (i) {
            x = asm_local(p, ASM_X);
            emit_shift_bytes(p, x, all, all, by[i]);
        }
        column[i] = asm_local(p, ASM_BM);
        emit_move(p, column[i], x);
    }
    for (int i = 0; i < 3; i++) {
        sum[i] = asm_local(p, ASM_BM);
        emit_f_add(p, sum[i], i < 2 ? column[2 * i] : sum[0], i < 2 ? column[2 * i + 1] : sum[1],
                   add);
    }
    emit_store_next(p, MEM_C_OUT, sum[2], to);
    asm_loop_end(p);
    quant_end(w);
}
