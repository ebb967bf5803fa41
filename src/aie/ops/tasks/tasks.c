// tasks: the core program's part of them. A task sets the constants that the loops want, for a
// product's tiles lay where they stand; then unit after unit goes from the buffers of x and y to
// those of tiles. Loops are those of the elementwise and row programs.
#include "tasks.h"

#include "aie/ops/elementwise/elementwise-ops.h"
#include "aie/ops/lanes/math.h"
#include "aie/ops/rows/rows-ops.h"
#include "aie/verbs/verbs.h"

enum { FIRST_CONST = RW_SLOT_FACTOR + 3 }; // slots before are a norm's

struct program {
    struct asm_program * p;
    const struct task_lent * lent;
    struct lanes lanes;
    struct asm_reg pa, pb, pout;
};

static int32_t address(const struct program * w, int32_t at) {
    return (int32_t) asm_target(w->p)->own_window + at;
}

static void acquire(struct program * w, int lock, struct asm_reg value) {
    asm_lock_acquire(w->p, asm_target(w->p)->own_locks + lock, value);
}

static void release(struct program * w, int lock, struct asm_reg value) {
    asm_lock_release(w->p, asm_target(w->p)->own_locks + lock, value);
}

// A parameter, by a pointer that holds nothing then.
static void parameter(struct program * w, struct asm_reg to, int param) {
    emit_set(w->p, w->pa, address(w, MM_PARAMS + 4 * param));
    emit_load_word(w->p, MEM_PARAMS, to, w->pa, 0);
}

static void flip(struct program * w, struct asm_reg r, int param) {
    struct asm_reg other = asm_local(w->p, ASM_R);
    parameter(w, other, param);
    emit_alu(w->p, AIE_BASIC_XOR, r, r, other);
}

static void point(struct program * w) {
    emit_copy(w->p, w->pa, w->lent->x);
    emit_copy(w->p, w->pb, w->lent->y);
    emit_copy(w->p, w->pout, w->lent->c);
}

static void begin(struct program * w) {
    const struct task_lent * lent = w->lent;
    w->pa = lent->pointers[0];
    w->pb = lent->pointers[1];
    w->pout = lent->pointers[2];
    w->lanes = (struct lanes){.p = w->p,
                              .dtype = DTYPE_F32,
                              .fast = true,
                              .vectors = 1,
                              .n_consts = FIRST_CONST,
                              .pool = lent->pointers[3],
                              .one = lent->one,
                              .minus_one = lent->minus_one,
                              .float_config = asm_global(w->p, ASM_R),
                              .mul_config = asm_global(w->p, ASM_R)};
    for (int slot = 0; slot < FIRST_CONST; slot++) {
        w->lanes.consts[slot] = RW_NO_CONSTANT;
    }
    emit_set_small(w->p, w->lanes.float_config, (int32_t) asm_target(w->p)->add_config);
    emit_set_small(w->p, w->lanes.mul_config, (int32_t) asm_target(w->p)->mul_config);
    lanes_use_pool(&w->lanes, address(w, TASK_POOL));
    emit_spill_to(w->p, MEM_SPILLS, address(w, TASK_SPILLS), TASK_N_SPILLS);
    struct asm_reg out = asm_local(w->p, ASM_R);
    emit_set(w->p, out, TASK_OUT - MM_C);
    emit_alu(w->p, AIE_BASIC_ADD, lent->c, lent->c, out);
    const int buffers[] = {MEM_A, MEM_B, MEM_OUT};
    for (int i = 0; i < 3; i++) {
        asm_margin(w->p, buffers[i], EW_MARGIN);
    }
}

// Every constant that a loop asked for, in its slot.
static void set_constants(struct program * w) {
    emit_set(w->p, w->pb, address(w, TASK_POOL + FIRST_CONST * LANES_POOL_SLOT_BYTES));
    for (int slot = FIRST_CONST; slot < w->lanes.n_consts; slot++) {
        struct asm_reg r = asm_local(w->p, ASM_R), x = emit_new_value(w->p);
        emit_set(w->p, r, (int32_t) w->lanes.consts[slot]);
        emit_splat(w->p, LANE_32, x, r);
        emit_store_next(w->p, MEM_POOL, asm_half(x, 0), w->pb);
    }
}

// ---- rows ----

static void norm(struct program * w, struct rows_writer * rows) {
    struct lanes * l = &rows->lanes;
    struct asm_program * p = w->p;
    rows_clear_sums(rows);
    asm_loop_begin(p, w->lent->trips);
    asm_loop_alone(p); // the stream takes longer, and program memory is short
    rows_norm_squares(rows);
    asm_loop_end(p);
    struct val sum = lanes_across(l, f_add, f_add(l, rows_acc(rows, 0), rows_acc(rows, 1)));
    struct val s = f_times(l, sum, k_param(l, RW_ARG_FACTOR));
    lanes_put(l, RW_SLOT_SUM, f_add(l, s, k_param(l, RW_ARG_ADD)));
    asm_label(p, asm_label_new(p)); // the next region loads what this one stored
    rows_put_factor(rows, RW_SLOT_FACTOR, rows_inverse_root(rows, RW_SLOT_SUM));
    asm_label(p, asm_label_new(p));
    emit_copy(p, w->pa, w->lent->x);
    asm_loop_begin(p, w->lent->trips);
    rows_norm_scale(rows, true);
    asm_loop_end(p);
}

static void write_norm(struct program * w) {
    struct rows_writer rows = {.lanes = w->lanes,
                               .p = w->p,
                               .fast = true,
                               .no_mean = true,
                               .trips = w->lent->trips,
                               .pa = w->pa,
                               .pb = w->pb,
                               .pout = w->pout,
                               .ps = w->lent->pointers[4]};
    enum asm_class cls =
        asm_target(w->p)->sums_in_vectors ? ASM_X : (enum asm_class) asm_target(w->p)->acc_class;
    for (int i = 0; i < 2; i++) {
        rows.acc[i] = asm_global(w->p, cls);
    }
    norm(w, &rows);
    for (int i = 0; i < 2; i++) {
        asm_release(w->p, rows.acc[i]);
    }
    w->lanes = rows.lanes;
}

// ---- all of them ----

void tasks_write(struct asm_program * p, const struct task_lent * lent, int end) {
    struct program writer = {.p = p, .lent = lent}, *w = &writer;
    int start = asm_label_new(p), unit = asm_label_new(p), done = asm_label_new(p);
    int swiglu = asm_label_new(p), is_norm = asm_label_new(p), begun = asm_label_new(p);
    int two = asm_label_new(p);
    asm_section(p);
    begin(w);
    asm_jump(p, start);
    asm_label(p, begun);
    lanes_set_param(&w->lanes, RW_ARG_FACTOR, lent->factor);
    lanes_set_param(&w->lanes, RW_ARG_ADD, lent->add);
    asm_label(p, unit);
    struct asm_reg zero = asm_local(p, ASM_R);
    parameter(w, lent->scratch, TASK_PARAM_BUFFERS);
    emit_set_small(p, zero, 0);
    emit_alu(p, AIE_BASIC_SUB, lent->scratch, zero, lent->scratch);
    acquire(w, MM_LOCK_X_FULL, lent->minus_one);
    acquire(w, MM_LOCK_C_EMPTY, lent->scratch);
    point(w);
    struct asm_reg which = asm_global(p, ASM_R);
    emit_add_small(p, which, lent->which, -(MM_MANY_TASK + TASK_SWIGLU));
    asm_jump_if_zero(p, which, swiglu);
    emit_add_small(p, which, which, TASK_SWIGLU - TASK_NORM);
    asm_jump_if_zero(p, which, is_norm);
    asm_release(p, which);
    ew_loop_with(&w->lanes, KERNEL_OP_ADD, lent->trips, w->pa, w->pb, w->pout, true);
    lanes_set_fast(&w->lanes, true); // else conversions would cut
    asm_jump(p, two);
    asm_label(p, swiglu);
    ew_loop_with(&w->lanes, KERNEL_OP_SWIGLU, lent->trips, w->pa, w->pb, w->pout, false);
    asm_label(p, two);
    flip(w, lent->y, TASK_PARAM_X_OTHER); // a norm's weights stay
    asm_jump(p, done);
    asm_label(p, is_norm);
    write_norm(w);
    asm_label(p, done);
    parameter(w, lent->scratch, TASK_PARAM_BUFFERS);
    release(w, MM_LOCK_X_EMPTY, lent->scratch);
    release(w, MM_LOCK_C_FULL, lent->one);
    flip(w, lent->x, TASK_PARAM_X_OTHER);
    flip(w, lent->c, TASK_PARAM_C_OTHER);
    emit_add_small(p, lent->units, lent->units, -1);
    asm_jump_if_nonzero(p, lent->units, unit);
    asm_jump(p, end);
    asm_label(p, start);
    set_constants(w);
    asm_jump(p, begun);
}
