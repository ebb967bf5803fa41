// quant-columns: q4_K times one row of b. The multiplier takes four rows of b as columns, of which
// three would be nothing. But a byte of q4_K has a number of one group in its lower half and one of
// the next group in its upper, and the sums of groups stay apart. So the columns are:
//
//     0   b's numbers of the first group, at the places of lower halves; zeros at the others
//     1   those of the second group, at the places of upper halves
//     2   zeros: its sum is what the accumulator had before, b's numbers of the first group,
//     3   and of the second, less than nothing
//
// Both groups are multiplied in one pass over the words as they came (quant-fused.c), and minima,
// which are taken away times the sum of b's numbers, are factors of columns as the scales are. The
// tile has four columns for the one row, which are added up when it is complete.
#include "quant-writer.h"

enum {
    VECTOR = QUANT_VECTOR,
    PLANE = MM_TILE * 2,
    SLICES = 4,
    MINIMA_AT = 2 * SLICES * PLANE, // in the table
    COLUMN = 4 * 4,                 // bytes of four rows of a in the tile
    ZIP_128 = 12,                   // a shuffle
};

// ---- factors ----

// Of a block: for each slice [4 rows][2 scales, 2 minima][rows], from planes of 64 rows.
void columns_pages(struct quant * q) {
    struct writer writer = begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg *from = q->pointers, to = q->pointers[2];
    struct asm_reg zip_64[2], zip_128[2], trips = take_set(w, ASM_R, SLICES);
    for (int i = 0; i < 2; i++) {
        zip_64[i] = take_set(w, ASM_MASK, ZIP_64 + i);
        zip_128[i] = take_set(w, ASM_MASK, ZIP_128 + i);
    }
    ready(w);
    for (int i = 0; i < 2; i++) {
        emit_set(p, from[i], address(w, MM_LONG_TABLE + i * MINIMA_AT));
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
                emit_load(p, MEM_TABLE, v[i], from[kind], i * PLANE + rows * VECTOR);
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
    for (int i = 0; i < 2; i++) {
        emit_advance(p, from[i], 2 * PLANE);
    }
    asm_loop_end(p);
    end(w);
}

// ---- the tile ----

// [4 columns][4 rows] of f32: each column becomes the sum of all.
void columns_sum(struct fused * f) {
    struct quant q = {.p = f->p, .fused = true};
    struct writer writer = begin(&q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg from = f->pointers[0], to = f->pointers[1];
    struct asm_reg trips = take_set(w, ASM_R, MM_TILE / 4), by[4];
    struct asm_reg add = take_set(w, ASM_R, (int32_t) asm_target(p)->add_config);
    for (int i = 1; i < 4; i++) {
        by[i] = take_set(w, ASM_R, i * COLUMN);
    }
    ready(w);
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
    end(w);
}
