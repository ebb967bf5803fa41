// rows-sort: ARGSORT. The place of an element in the sorted row is the number of those that come
// before it: the greater ones, and of its equals those that stand before it. So sixteen elements at
// a time are held against each one of the row, and each then writes its number at its place. That
// is work by the square of the row's length, but in few instructions without a branch; a router
// sorts some dozens, and rows that a core does not keep are not sorted here.
//
// The row is taken as integers that are in the wanted order, largest first. Lanes behind its end
// are the least of them, with the highest numbers: they end up behind the row's end again.
#include "rows-ops.h"

#include "aie/verbs/verbs.h"

enum { MEM_RANKS = MEM_SCRATCH + 1 };

// What stays in registers for the loops of a block of lanes; they are the rows_writer's.
struct sort {
    struct rows_writer * w;
    struct asm_reg elements;   // of the row, with what fills it up
    struct asm_reg keys, sums; // of the block
    struct asm_reg first;      // 0 less the number of its first element
    struct asm_reg number;     // of an element, counted from the block's first; or of the row
    struct asm_reg behind;     // the lanes that stand behind that element
};

// Every element as a key. In ascending order the keys are turned round, but those of NaNs and of
// what is behind the end are not.
static void write_keys(struct rows_writer * w) {
    struct lanes * l = &w->lanes;
    rows_fill(w, w->row_a, MEM_A, k_bits(l, ROWS_NAN_BITS));
    rows_set(w, w->ps, rows_address(w, RW_SCRATCH));
    asm_loop_begin(w->p, w->trips);
    for (int i = 0; i < 2; i++) {
        struct val x = lanes_load(l, w->pa, MEM_A, true);
        struct asm_reg ascending = emit_new_mask(w->p, LANE_32);
        struct mask nan = m_nan(l, x);
        rows_param(w, ascending, RW_PARAM_ARGS + RW_ARG_ASCENDING);
        struct val key = rows_order_key(l, x);
        key = v_select(l, mask_in(ascending), key, i_sub(l, k_bits(l, UINT32_MAX), key));
        lanes_store(l, v_select(l, nan, key, k_bits(l, (uint32_t) ROWS_NO_KEY)), w->ps, MEM_SCRATCH,
                    true);
    }
    asm_loop_end(w->p);
}

// One less for each element that comes before, one more for each that does not.
static void count_before(const struct sort * s) {
    struct rows_writer * w = s->w;
    struct asm_program * p = w->p;
    struct val zero = k_bits(&w->lanes, 0);
    rows_move(w, s->sums, zero);
    emit_load_next(p, MEM_SCRATCH, s->keys, w->pa);
    rows_copy(w, s->number, s->first);
    rows_copy(w, s->behind, w->lanes.minus_one);
    rows_set(w, w->pb, rows_address(w, RW_SCRATCH));
    asm_loop_begin(p, s->elements);
    struct asm_reg word = asm_local(p, ASM_R), key = emit_new_value(p), by = asm_local(p, ASM_R),
                   greater = emit_new_mask(p, LANE_32), no_less = emit_new_mask(p, LANE_32),
                   earlier = emit_new_mask(p, LANE_32), comes = emit_new_mask(p, LANE_32);
    emit_load_word_next(p, MEM_SCRATCH, word, w->pb);
    emit_splat(p, LANE_32, key, word);
    emit_compare(p, LANE_LESS, LANE_32, greater, s->keys, key);
    emit_compare(p, LANE_NOT_LESS, LANE_32, no_less, key, s->keys);
    // All lanes are behind an element that comes before the block; from its first one on, one less
    // with each.
    emit_alu(p, AIE_BASIC_LESS, by, w->lanes.minus_one, s->number);
    emit_alu(p, AIE_BASIC_SHIFT, s->behind, s->behind, by);
    emit_add_small(p, s->number, s->number, 1);
    emit_alu(p, AIE_BASIC_AND, earlier, no_less, s->behind);
    emit_alu(p, AIE_BASIC_OR, comes, earlier, greater);
    struct val one = k_bits(&w->lanes, 1);
    emit_add_or_sub(p, LANE_32, s->sums, s->sums, lanes_x(&w->lanes, &one), comes);
    asm_loop_end(p);
}

// Each of the block writes its number where it belongs: n elements less twice those before it were
// counted.
static void write_places(const struct sort * s) {
    struct rows_writer * w = s->w;
    struct asm_program * p = w->p;
    struct asm_reg zero = asm_local(p, ASM_R);
    rows_set(w, w->ps, rows_address(w, RW_RANKS));
    emit_store(p, MEM_RANKS, s->sums, w->ps, 0);
    emit_set_small(p, zero, 0);
    emit_alu(p, AIE_BASIC_SUB, s->number, zero, s->first);
    emit_set_small(p, s->behind, asm_target(p)->lanes);
    asm_loop_begin(p, s->behind);
    struct asm_reg count = asm_local(p, ASM_R), twice = asm_local(p, ASM_R),
                   at = asm_local(p, ASM_R), to = asm_local(p, ASM_R);
    emit_load_word_next(p, MEM_RANKS, count, w->ps);
    emit_alu(p, AIE_BASIC_SUB, twice, s->elements, count);
    emit_alu(p, AIE_BASIC_ADD, at, twice, twice); // 4 bytes for each
    emit_alu(p, AIE_BASIC_ADD, to, at, w->row_out);
    rows_copy(w, w->pout, to);
    emit_store_word(p, MEM_OUT, s->number, w->pout, 0);
    emit_add_small(p, s->number, s->number, 1);
    asm_loop_end(p);
}

void rows_argsort(struct rows_writer * w, int entry) {
    struct asm_program * p = w->p;
    // There is no second input, and a row is one chunk: these are free until the next one.
    struct sort s = {.w = w,
                     .elements = w->streamed,
                     .keys = w->best[0],
                     .sums = w->best[1],
                     .number = w->flag,
                     .behind = w->more,
                     .first = w->row_b};
    int body = asm_label_new(p), block = asm_label_new(p);
    rows_entry(w, entry, body);
    asm_label(p, body);
    write_keys(w);
    rows_set(w, w->pa, rows_address(w, RW_SCRATCH));
    struct asm_reg by = asm_local(p, ASM_R);
    emit_set_small(p, by, 5); // a trip takes two vectors
    emit_alu(p, AIE_BASIC_SHIFT, s.elements, w->trips, by);
    emit_set_small(p, s.first, 0);
    asm_label(p, block);
    count_before(&s);
    write_places(&s);
    emit_add_small(p, s.first, s.first, -asm_target(p)->lanes);
    emit_alu(p, AIE_BASIC_ADD, s.number, s.first, s.elements);
    asm_jump_if_nonzero(p, s.number, block);
    emit_set_small(p, w->streamed, 0);
    rows_param(w, w->more, RW_PARAM_MORE);
    rows_end(w, w->wait);
}
