// rows-pairs: SORT_PAIRS and MERGE_PAIRS, which longer rows are sorted with than a core keeps. A
// row is 1024 numbers and their places, a vector of either in turn; the largest number comes first.
//
// Both are bitonic networks whose every stage is one loop: each element of the row's first half is
// held against its like in the second, the larger goes first, and the two halves are zipped. What
// is compared next then lies half a row apart again, and after ten stages each element lies where
// its number says. A merge is ten such stages, its second half turned round before.
//
// Sorting has ten levels, of runs of 2, 4, ... 1024, whose stages follow ten less as many that only
// zip. Every other run has to be in reverse order: its keys are complemented for as long, so that
// the stages need not know.
#include "rows-ops.h"

#include "aie/verbs/verbs.h"

enum {
    MEM_FROM = MEM_SCRATCH, // what a loop reads here it does not write, or in the same trip
    MEM_TO = MEM_SCRATCH + 1,
    ELEMENTS = RW_CHUNK_WORDS / 2,
    STAGES = 10,          // ELEMENTS is 2^STAGES
    ZIP_32 = 16,          // the shuffle; the next one makes what comes behind it
    PLACE_0 = 0x4b000000, // 2^23
    VECTOR_BYTES = 64,
};

struct pairs {
    struct rows_writer * w;
    struct asm_reg from;        // where the elements are
    struct asm_reg idle;        // stages of the level that only zip
    struct asm_reg stage, left; // the first that compares is 0; how many there are to come
    struct asm_reg compares;    // all ones, or 0
    struct asm_reg low, high;   // bits of an element's number: is it complemented, is it to be
    struct asm_reg trips, zip[2];
    struct asm_reg number; // of elements, a vector
};

static int vectors(const struct pairs * s) {
    return ELEMENTS / asm_target(s->w->p)->lanes;
}

// ---- what comes in ----

// Floats as integers in the wanted order; below all of them NaNs, and below these what is nobody's.
static void write_keys(const struct pairs * s) {
    struct rows_writer * w = s->w;
    struct lanes * l = &w->lanes;
    rows_copy(w, w->pout, s->from);
    emit_set_small(w->p, s->trips, vectors(s));
    asm_loop_begin(w->p, s->trips);
    struct asm_reg ascending = emit_new_mask(w->p, LANE_32);
    struct val x = lanes_load(l, w->pa, MEM_A, true), raised = lanes_load(l, w->pa, MEM_A, true);
    struct val place = i_sub(l, raised, k_bits(l, PLACE_0)), key = rows_order_key(l, x);
    rows_param(w, ascending, RW_PARAM_ARGS + RW_ARG_ASCENDING);
    key = v_select(l, mask_in(ascending), key, i_sub(l, k_bits(l, UINT32_MAX), key));
    // One by one: a compiler may evaluate arguments in any order, and bytes would follow it.
    struct val of_nan = k_bits(l, (uint32_t) ROWS_NO_KEY + 1);
    key = v_select(l, m_nan(l, x), key, of_nan);
    struct val of_nobody = k_bits(l, (uint32_t) ROWS_NO_KEY);
    key = v_select(l, m_negative(l, place), key, of_nobody);
    lanes_store(l, key, w->pout, MEM_TO, true);
    lanes_store(l, place, w->pout, MEM_TO, true);
    asm_loop_end(w->p);
}

static void copy_half(const struct pairs * s) {
    struct rows_writer * w = s->w;
    struct lanes * l = &w->lanes;
    rows_copy(w, w->pout, s->from);
    emit_set_small(w->p, s->trips, vectors(s));
    asm_loop_begin(w->p, s->trips);
    lanes_store(l, lanes_load(l, w->pa, MEM_A, true), w->pout, MEM_TO, true);
    asm_loop_end(w->p);
}

// The last lane first: halves change places, then quarters within them, and so on.
static struct asm_reg reversed(struct asm_program * p, struct asm_reg x) {
    static const uint16_t upper[] = {0xf0f0, 0xcccc, 0xaaaa};
    struct asm_reg by = asm_local(p, ASM_R), turned = emit_new_value(p);
    emit_set_small(p, by, VECTOR_BYTES / 2);
    emit_shift_bytes(p, turned, x, x, by);
    for (int i = 0, bytes = VECTOR_BYTES / 4; i < 3; i++, bytes /= 2) {
        struct asm_reg up = asm_local(p, ASM_R), down = asm_local(p, ASM_R),
                       mask = emit_new_mask(p, LANE_32), before = emit_new_value(p),
                       behind = emit_new_value(p), next = emit_new_value(p);
        emit_set_small(p, up, bytes);
        emit_set_small(p, down, VECTOR_BYTES - bytes);
        emit_set(p, mask, upper[i]);
        emit_shift_bytes(p, behind, turned, turned, up);
        emit_shift_bytes(p, before, turned, turned, down);
        emit_select(p, LANE_32, next, behind, before, mask);
        turned = next;
    }
    return turned;
}

// The second half from its end to its beginning.
static void reverse_half(const struct pairs * s) {
    struct rows_writer * w = s->w;
    struct asm_program * p = w->p;
    struct asm_reg last = asm_local(p, ASM_R), at = asm_local(p, ASM_R);
    emit_set(p, last, RW_CHUNK_BYTES - 2 * VECTOR_BYTES);
    emit_alu(p, AIE_BASIC_ADD, at, s->from, last);
    rows_copy(w, w->pout, at);
    emit_set_small(p, s->trips, vectors(s) / 2);
    asm_loop_begin(p, s->trips);
    for (int i = 0; i < 2; i++) {
        struct asm_reg x = emit_new_value(p);
        emit_load_next(p, MEM_A, x, w->pa);
        emit_store(p, MEM_TO, reversed(p, x), w->pout, i * VECTOR_BYTES);
    }
    emit_advance(p, w->pout, -2 * VECTOR_BYTES);
    asm_loop_end(p);
}

// ---- levels ----

static struct mask is_clear(const struct pairs * s, struct asm_reg bit) {
    struct lanes * l = &s->w->lanes;
    struct asm_reg all = emit_new_value(s->w->p);
    emit_splat(s->w->p, LANE_32, all, bit);
    return m_zero(l, b_and(l, val_x(s->number), val_x(all)));
}

// Keys whose number has one of two bits: those of which the level before and this one complement
// one.
static void complement(const struct pairs * s) {
    struct rows_writer * w = s->w;
    struct asm_program * p = w->p;
    struct lanes * l = &w->lanes;
    rows_copy(w, w->pa, s->from);
    rows_copy(w, w->pout, s->from);
    rows_move(w, s->number, rows_get_lanes(w, RW_SLOT_LANES));
    emit_set_small(p, s->trips, vectors(s));
    asm_loop_begin(p, s->trips);
    struct asm_reg differ = emit_new_mask(p, LANE_32);
    struct val key = lanes_load(l, w->pa, MEM_FROM, true);
    struct mask low = is_clear(s, s->low), high = is_clear(s, s->high);
    emit_alu(p, AIE_BASIC_XOR, differ, low.of[0], high.of[0]);
    key = v_select(l, mask_in(differ), key, i_sub(l, k_bits(l, UINT32_MAX), key));
    lanes_store(l, key, w->pout, MEM_TO, true);
    emit_advance(p, w->pa, VECTOR_BYTES);
    emit_advance(p, w->pout, VECTOR_BYTES);
    struct val step = k_bits(l, (uint32_t) asm_target(p)->lanes);
    emit_lanes(p, LANE_ADD, LANE_32, s->number, s->number, lanes_x(l, &step));
    asm_loop_end(p);
}

// Of two vectors the elements of larger keys and the others, zipped.
static void exchange(const struct pairs * s) {
    struct rows_writer * w = s->w;
    struct asm_program * p = w->p;
    struct asm_reg x[2][2], less = emit_new_mask(p, LANE_32), change = emit_new_mask(p, LANE_32);
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < 2; i++) {
            x[i][side] = emit_new_value(p);
            emit_load_next(p, MEM_FROM, x[i][side], side ? w->pb : w->pa);
        }
    }
    emit_compare(p, LANE_LESS, LANE_32, less, x[0][0], x[0][1]);
    emit_alu(p, AIE_BASIC_AND, change, less, s->compares);
    struct asm_reg zipped[2][2];
    for (int i = 0; i < 2; i++) {
        struct asm_reg larger = emit_new_value(p), other = emit_new_value(p);
        emit_select(p, LANE_32, larger, x[i][0], x[i][1], change);
        emit_select(p, LANE_32, other, x[i][1], x[i][0], change);
        for (int half = 0; half < 2; half++) {
            zipped[half][i] = emit_new_value(p);
            emit_shuffle(p, zipped[half][i], larger, other, s->zip[half]);
        }
    }
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < 2; i++) {
            emit_store_next(p, MEM_TO, zipped[half][i], w->pout);
        }
    }
}

static void write_stage(const struct pairs * s) {
    struct rows_writer * w = s->w;
    struct asm_program * p = w->p;
    struct asm_reg half = asm_local(p, ASM_R), second = asm_local(p, ASM_R),
                   scratch = asm_local(p, ASM_R), both = asm_local(p, ASM_R),
                   to = asm_local(p, ASM_R), now = asm_local(p, ASM_R), zero = asm_local(p, ASM_R);
    rows_set(w, scratch, rows_address(w, RW_SCRATCH));
    emit_alu(p, AIE_BASIC_ADD, both, w->row_out, scratch);
    emit_alu(p, AIE_BASIC_SUB, to, both, s->from); // the other one
    rows_set(w, half, RW_CHUNK_BYTES / 2);
    emit_alu(p, AIE_BASIC_ADD, second, s->from, half);
    rows_copy(w, w->pa, s->from);
    rows_copy(w, w->pb, second);
    rows_copy(w, w->pout, to);
    emit_set_small(p, zero, 0);
    emit_alu(p, AIE_BASIC_LESS, now, w->lanes.minus_one, s->stage);
    emit_alu(p, AIE_BASIC_SUB, s->compares, zero, now);
    emit_copy(p, s->from, to);
    emit_set_small(p, s->trips, vectors(s) / 2);
    asm_loop_begin(p, s->trips);
    exchange(s);
    asm_loop_end(p);
    struct asm_reg last = asm_local(p, ASM_R), done = asm_local(p, ASM_R);
    emit_add_small(p, s->stage, s->stage, 1);
    emit_set_small(p, last, STAGES);
    emit_alu(p, AIE_BASIC_ADD, done, s->stage, s->idle);
    emit_alu(p, AIE_BASIC_SUB, s->left, last, done);
}

// The number of stages is even: what was sorted then is where it was.
static void write_levels(const struct pairs * s, int level, int merge) {
    struct rows_writer * w = s->w;
    struct asm_program * p = w->p;
    int stages = asm_label_new(p);
    asm_label(p, level);
    complement(s);
    asm_label(p, merge);
    struct asm_reg zero = asm_local(p, ASM_R);
    emit_set_small(p, zero, 0);
    emit_alu(p, AIE_BASIC_SUB, s->stage, zero, s->idle);
    asm_label(p, stages);
    write_stage(s);
    asm_jump_if_nonzero(p, s->left, stages);
    emit_copy(p, s->low, s->high);
    emit_alu(p, AIE_BASIC_ADD, s->high, s->high, s->high);
    emit_add_small(p, s->idle, s->idle, -1);
    emit_add_small(p, s->left, s->idle, 1);
    asm_jump_if_nonzero(p, s->left, level);
    emit_set_small(p, w->streamed, 0);
    rows_end(w, w->wait);
}

static void begin(const struct pairs * s, int idle) {
    struct rows_writer * w = s->w;
    rows_copy(w, s->from, w->row_out);
    emit_set_small(w->p, s->idle, idle);
    emit_set_small(w->p, s->low, 0);
    emit_set_small(w->p, s->high, 2);
    for (int i = 0; i < 2; i++) {
        emit_set_small(w->p, s->zip[i], ZIP_32 + i);
    }
}

void rows_pairs(struct rows_writer * w, const int op_label[RW_MAX_INDEX]) {
    struct asm_program * p = w->p;
    // A row is a chunk, and there is no second input: these are free until the next one.
    struct pairs s = {.w = w,
                      .number = w->best[0],
                      .trips = w->trips,
                      .left = w->flag,
                      .low = w->more,
                      .high = w->row_b,
                      .idle = w->streamed};
    struct asm_reg * const masks[] = {&s.compares, &s.zip[0], &s.zip[1]};
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        *masks[i] = asm_global(p, ASM_MASK);
    }
    s.from = asm_global(p, ASM_R);
    s.stage = asm_global(p, ASM_R);
    int level = asm_label_new(p), merge = asm_label_new(p);
    for (int op = 0; op < 2; op++) {
        int body = asm_label_new(p);
        rows_entry(w, op_label[op], body);
        asm_label(p, body);
        begin(&s, op ? 0 : STAGES - 1);
        if (op) {
            copy_half(&s);
            reverse_half(&s);
            asm_jump(p, merge);
        } else {
            write_keys(&s);
            asm_jump(p, level);
        }
    }
    write_levels(&s, level, merge);
}
