// quant-words: blocks whose numbers begin in the middle of a word, as whole words, [word][64 rows]:
// both of a slice, one behind the other.
#include "quant-writer.h"

enum { WORD = MM_TILE * 4 }; // bytes from word to word

// Each word is the end of one and the beginning of the next, by what stands in the vectors of 16
// rows.
static void straighten_trip(struct writer * w, const struct asm_reg from[2],
                            const struct asm_reg by[2], const struct asm_reg bits[2],
                            struct asm_reg more, struct asm_reg to) {
    struct asm_program * p = w->p;
    struct asm_reg sum = more;
    for (int i = 0; i < 2; i++) {
        struct asm_reg v = asm_local(p, ASM_X), moved = asm_local(p, ASM_X),
                       part = asm_local(p, ASM_X), next = asm_local(p, ASM_X);
        emit_load_next(p, MEM_BLOCKS, v, from[i]);
        emit_shift_bytes(p, moved, v, v, by[i]);
        emit_lanes(p, LANE_AND, LANE_8, part, moved, bits[i]);
        emit_lanes(p, LANE_ADD, LANE_8, next, sum, part);
        sum = next;
    }
    emit_store_next(p, MEM_ALIGNED, sum, to);
}

void quant_straighten(struct quant * q) {
    struct writer writer = begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg *from = q->pointers, to = q->pointers[2], scratch = q->pointers[3];
    struct asm_reg at = take(w, ASM_R), left = take_set(w, ASM_R, 2), raw = take(w, ASM_R);
    struct asm_reg by[2] = {take(w, ASM_MASK), take(w, ASM_MASK)};
    struct asm_reg bits[2] = {take(w, ASM_X), take(w, ASM_X)}, more = take(w, ASM_X);
    int again = asm_label_new(p);
    ready(w);
    emit_copy(p, raw, raw_of(w));
    struct asm_reg n = asm_local(p, ASM_R);
    read_param(w, at, MM_PARAM_FIRST, scratch);
    read_param(w, n, MM_PARAM_MORE, from[0]);
    emit_splat(p, LANE_8, more, n);
    emit_set(p, to, address(w, MM_LONG_BYTES));
    asm_label(p, again);
    struct asm_reg begins = asm_local(p, ASM_R), all = asm_local(p, ASM_R),
                   none = asm_local(p, ASM_R), mask[2], byte = masked(w, at, 3);
    emit_alu(p, AIE_BASIC_ADD, begins, raw, shifted(w, masked(w, at, ~3), 8 - 2));
    emit_copy(p, from[0], begins);
    emit_copy(p, from[1], sum_of(w, begins, WORD));
    emit_copy(p, by[0], byte);
    emit_copy(p, by[1], sum_of(w, byte, QUANT_VECTOR - 4));
    emit_set(p, all, -1);
    emit_set(p, none, 0);
    for (int i = 0; i < 2; i++) {
        mask[i] = asm_local(p, ASM_R);
    }
    struct asm_reg down = asm_local(p, ASM_R);
    emit_alu(p, AIE_BASIC_SUB, down, none, shifted(w, byte, 3));
    emit_alu(p, AIE_BASIC_SHIFT, mask[0], all, down);
    emit_alu(p, AIE_BASIC_XOR, mask[1], mask[0], all);
    for (int i = 0; i < 2; i++) {
        emit_splat(p, LANE_32, bits[i], mask[i]);
    }
    read_param(w, q->number, MM_PARAM_BLOCK_TRIPS, scratch);
    asm_loop_begin(p, q->number);
    straighten_trip(w, from, by, bits, more, to);
    asm_loop_end(p);
    read_param(w, q->number, MM_PARAM_BLOCK, scratch);
    emit_alu(p, AIE_BASIC_ADD, at, at, q->number);
    emit_add_small(p, left, left, -1);
    asm_jump_if_nonzero(p, left, again);
    end(w);
}
