// mul-mat: the core program around the inner loop. It waits for a slice, reads what the run is to
// be, then makes tile after tile: takes an empty tile buffer, runs the loop over each slice of x
// and y as it arrives, hands the tile on. Every lock is back at its first value when a run is over.
// The program of gemv in bf16 waits for a task, which is that or a conversion (convert.c).
#include "mul-mat-program.h"

#include "aie/ops/convert/convert.h"
#include "aie/ops/tasks/tasks.h"

#include <string.h>

static const struct mm_machine * const machines[AIE_ARCH_COUNT] = {
    [AIE_ARCH_AIE2] = &mm_aie2,
    [AIE_ARCH_AIE2P] = &mm_aie2p,
};

static const struct mm_type * const types[AIE_ARCH_COUNT] = {
    [AIE_ARCH_AIE2] = mm_aie2_types,
    [AIE_ARCH_AIE2P] = mm_aie2p_types,
};

const struct mm_type * mm_type(enum aie_arch arch, enum dtype in) {
    for (int i = 0; types[arch] && i < MM_TYPES; i++) {
        if (types[arch][i].element_bytes && types[arch][i].in == in && !types[arch][i].shared) {
            return &types[arch][i];
        }
    }
    return NULL;
}

const struct mm_type * mm_shared_type(enum aie_arch arch, bool stored) {
    for (int i = 0; types[arch] && i < MM_TYPES; i++) {
        if (types[arch][i].shared && types[arch][i].stored == stored) {
            return &types[arch][i];
        }
    }
    return NULL;
}
// ---- program ----

static void acquire(struct mm_writer * w, int lock) {
    asm_lock_acquire(w->p, asm_target(w->p)->own_locks + lock, w->minus_one);
}

static void release(struct mm_writer * w, int lock) {
    asm_lock_release(w->p, asm_target(w->p)->own_locks + lock, w->one);
}

// Whether constants have no registers of their own, for there is much else in the program.
static bool has_no_constants(const struct mm_writer * w) {
    return w->converts || w->unpacks || w->takes_blocks || w->takes_kinds || w->t->stored;
}

// Whether what makes slices of y wants the register of `many`.
static bool lends_many(const struct mm_writer * w) {
    return w->takes_blocks || w->t->stored;
}

static void flip(struct mm_writer * w, struct asm_reg r, struct asm_reg other, int32_t value) {
    if (has_no_constants(w)) {
        other = asm_local(w->p, ASM_R);
        mw_set(w, other, value);
    }
    emit_alu(w->p, AIE_BASIC_XOR, r, r, other);
}

static void read_parameters(struct mm_writer * w) {
    struct asm_program * p = w->p;
    struct asm_reg at = w->block.x; // not in use yet
    // Offset registers belong to the walks, so immediates have to reach all of them.
    int middle = asm_target(p)->word_reach < 4 * MM_PARAM_COUNT ? 32 : 0;
    const struct {
        struct asm_arg to;
        int param;
    } loads[] = {
        {A_REG(w->tiles), MM_PARAM_TILES},
        {A_REG(w->slices), MM_PARAM_SLICES},
        {A_REG(w->trips), MM_PARAM_TRIPS},
        {A_REG(w->row), MM_PARAM_ROW},
        {A_FIXED(AIE_REG(AIE_DJ, 4)), MM_PARAM_X_NEXT},
        {A_FIXED(AIE_REG(AIE_M, 4)), MM_PARAM_X_WRAP},
        {A_FIXED(AIE_REG(AIE_DJ, 5)), MM_PARAM_Y_NEXT},
        {A_FIXED(AIE_REG(AIE_M, 5)), MM_PARAM_Y_WRAP},
        {A_FIXED(AIE_REG(AIE_M, 6)), MM_PARAM_X_STEP},
        {A_FIXED(AIE_REG(AIE_M, 7)), MM_PARAM_Y_STEP},
    };
    mw_set(w, at, mw_address(w, MM_PARAMS + middle));
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        emit_load_scalar(p, 0, LANE_32, loads[i].to, at, 4 * loads[i].param - middle);
    }
    for (int d = 0; d < 6; d++) {
        emit_load_scalar(p, 0, LANE_32, A_FIXED(AIE_REG(AIE_DN, d)), at,
                         4 * MM_PARAM_LAST - middle);
        emit_set_fixed(p, AIE_REG(AIE_DC, d), 0);
    }
    for (int d = 0; d < 4; d++) {
        bool is_x = w->machine->x_walks >> d & 1, is_y = w->machine->y_walks >> d & 1;
        int wrap = is_x ? MM_PARAM_X_WRAP : is_y ? MM_PARAM_Y_WRAP : MM_PARAM_C_WRAP;
        emit_load_scalar(p, 0, LANE_32, A_FIXED(AIE_REG(AIE_M, d)), at, 4 * wrap - middle);
        if (is_x || is_y) {
            emit_load_scalar(p, 0, LANE_32, A_FIXED(AIE_REG(AIE_DJ, d)), at,
                             4 * (is_x ? MM_PARAM_X_NEXT : MM_PARAM_Y_NEXT) - middle);
        } else {
            emit_set_fixed(p, AIE_REG(AIE_DJ, d), mm_trip_c_bytes(w->t));
        }
    }
    for (int i = 0; i < (w->t->shared ? 2 : 0); i++) {
        emit_load_scalar(p, 0, LANE_32, A_REG(w->block.counts[i]), at,
                         4 * (MM_PARAM_X_TRIPS + i + w->t->stored) - middle);
    }
    if (w->has_tasks) {
        emit_load_scalar(p, 0, LANE_32, A_REG(w->many), at, 4 * MM_PARAM_MANY - middle);
    }
    if (w->takes_kinds) {
        emit_load_scalar(p, 0, LANE_32, A_REG(w->kind), at, 4 * MM_PARAM_TASK - middle);
    }
    struct mm_offsets o = w->machine->offsets(w->t);
    mw_set(w, w->x, mw_address(w, MM_X + o.x));
    mw_set(w, w->y, mw_address(w, MM_Y + o.y));
    mw_set(w, w->c, mw_address(w, MM_C + o.c));
}

// The registers of a program, and how many of them one that converts has.
enum { REGISTERS = 13, REGISTERS_KEPT = 10 };

static struct asm_reg * register_of(struct mm_writer * w, int i) {
    struct asm_reg * const registers[REGISTERS] = {
        &w->tiles, &w->slices, &w->trips,     &w->row,      &w->left,    &w->x,           &w->y,
        &w->c,     &w->one,    &w->minus_one, &w->xy_other, &w->c_other, &w->first_config};
    return registers[i];
}

static int32_t first_config(const struct mm_writer * w) {
    return (int32_t) w->machine->config(w->t) | 1; // drops the accumulator
}

static void set_constants(struct mm_writer * w) {
    mw_set(w, w->xy_other, MM_XY_OTHER);
    mw_set(w, w->c_other, MM_C_OTHER);
    mw_set(w, w->first_config, first_config(w));
}

static void take_registers(struct mm_writer * w) {
    if (w->machine->reserve) {
        w->machine->reserve(&w->block, w->p);
    }
    for (int i = 0; i < (has_no_constants(w) ? REGISTERS_KEPT : REGISTERS); i++) {
        *register_of(w, i) = asm_global(w->p, ASM_R);
    }
    if (w->converts || w->has_tasks || w->unpacks) {
        w->number = asm_global(w->p, ASM_R);
    }
    if (w->has_tasks) {
        w->many = asm_global(w->p, ASM_R);
    }
    if (w->takes_kinds) {
        w->kind = asm_global(w->p, ASM_R);
    }
    w->machine->begin(&w->block, w->p, w->t);
    w->block.small = w->converts;
    mw_set(w, w->one, 1);
    mw_set(w, w->minus_one, -1);
    if (!w->has_tasks && !has_no_constants(w)) {
        set_constants(w);
    }
}

static void give_back_registers(struct mm_writer * w) {
    const struct mm_block * b = &w->block;
    const struct asm_reg pointers[] = {b->x, b->y, b->from[0], b->from[1], b->to[0], b->to[1]};
    for (int i = 0; i < REGISTERS_KEPT; i++) {
        asm_release(w->p, *register_of(w, i));
    }
    asm_release(w->p, w->number);
    for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++) {
        asm_release(w->p, pointers[i]);
    }
}

static void slice_of(struct mm_writer * w) {
    struct mm_block * b = &w->block;
    memset(b->uses, 0, sizeof b->uses); // of one loop, where there are two
    memset(b->accesses, 0, sizeof b->accesses);
    b->conflicts = 0;
    struct mm_at at = {.x = w->x,
                       .y = w->y,
                       .c = w->c,
                       .row = w->row,
                       .trips = w->trips,
                       .is_apart = w->takes_blocks,
                       .may_be_apart = w->converts && w->machine->sets_apart,
                       .pairs = w->number};
    if (at.may_be_apart) {
        mw_read_number(w, MM_PARAM_PAIRS);
    }
    w->machine->slice(b, w->t, &at);
}

// Slices of x that are f32 become bf16, in the tile's place; then goes to the label.
static void convert_many(struct mm_writer * w, int end) {
    struct asm_program * p = w->p;
    const struct mm_block * b = &w->block;
    struct mm_offsets o = w->machine->offsets(w->t);
    int again = asm_label_new(p);
    asm_label(p, again);
    acquire(w, MM_LOCK_X_FULL);
    acquire(w, MM_LOCK_C_EMPTY);
    mw_point_behind(w, b->to[0], w->c, -o.c);
    mw_point_behind(w, b->from[0], w->x, -o.x);
    mw_point_behind(w, b->from[1], w->x, -o.x);
    mw_set(w, w->number, CV_CHUNK / CV_TRIP);
    convert_loop(p, DTYPE_F32, w->t->stored, w->number, b->from[0], b->from[1], b->to[0]);
    release(w, MM_LOCK_X_EMPTY);
    release(w, MM_LOCK_C_FULL);
    flip(w, w->x, w->xy_other, MM_XY_OTHER);
    flip(w, w->c, w->c_other, MM_C_OTHER);
    mw_count_down(w, w->tiles);
    asm_jump_if_nonzero(p, w->tiles, again);
    asm_jump(p, end);
}

// Slices of blocks become bf16 and leave as they are; then goes to the label. Those of a block that
// is longer than a slice come with it.
static void unpack(struct mm_writer * w, int end) {
    struct asm_program * p = w->p;
    int slice = asm_label_new(p), has_come = asm_label_new(p);
    mw_copy(w, w->left, w->tiles);
    mw_set(w, w->y, mw_address(w, MM_Y));
    asm_label(p, slice);
    mw_read_number(w, MM_PARAM_LATER);
    emit_alu(p, AIE_BASIC_AND, w->number, w->number, w->left);
    asm_jump_if_nonzero(p, w->number, has_come);
    acquire(w, MM_LOCK_X_FULL);
    asm_label(p, has_come);
    acquire(w, MM_LOCK_C_EMPTY);
    if (w->planes) {
        mw_convert_planes(w);
    } else {
        mw_convert_y(w, end, end, end);
    }
    release(w, MM_LOCK_C_FULL);
    struct asm_reg other = asm_local(p, ASM_R);
    mw_set(w, other, MM_UNPACKED_OTHER);
    emit_alu(p, AIE_BASIC_XOR, w->y, w->y, other);
    mw_count_down(w, w->left);
    mw_read_number(w, MM_PARAM_LATER);
    emit_alu(p, AIE_BASIC_AND, w->number, w->number, w->left);
    asm_jump_if_nonzero(p, w->number, slice);
    release(w, MM_LOCK_X_EMPTY);
    asm_jump_if_nonzero(p, w->left, slice);
    asm_jump(p, end);
}

// Turns to the next tile: the other one of two, or where there is one, when it is done, the other
// buffer.
static void flip_tile(struct mm_writer * w, bool is_done) {
    struct asm_program * p = w->p;
    struct asm_reg n = asm_local(p, ASM_R), other = asm_local(p, ASM_R), more = asm_local(p, ASM_R);
    enum { SHIFT = 14 }; // of MM_C_OTHER
    emit_add_small(p, more, w->many, is_done ? -2 : -1);
    mw_set(w, n, SHIFT);
    emit_alu(p, AIE_BASIC_SHIFT, other, more, n);
    mw_set(w, n, MM_C_OTHER);
    emit_alu(p, AIE_BASIC_AND, other, other, n);
    emit_alu(p, AIE_BASIC_XOR, w->c, w->c, other);
}

// A slice of y from blocks to bf16.
static void make_slice(struct mm_writer * w) {
    struct asm_program * p = w->p;
    struct mm_block * b = &w->block;
    struct quant q = {.p = p,
                      .number = w->number,
                      .left = w->left,
                      .pointers = {b->x, b->y, b->from[0], b->from[1], b->to[0], b->to[1]}};
    if (!w->takes_kinds) {
        many_slice(&q);
        return;
    }
    int bytes = asm_label_new(p), done = asm_label_new(p);
    mw_set(w, w->number, MM_KIND_TURNS - 1);
    emit_alu(p, AIE_BASIC_AND, w->number, w->number, w->kind);
    asm_jump_if_zero(p, w->number, bytes);
    many_long_slice(&q, w->kind);
    asm_jump(p, done);
    asm_label(p, bytes);
    many_bytes_slice(&q, w->kind);
    asm_label(p, done);
}

static void give_blocks(struct mm_writer * w) {
    mw_set(w, w->number, mm_lock_init[MM_LOCK_Y_EMPTY]);
    if (w->takes_kinds) { // one, where there are two places
        struct asm_reg down = asm_local(w->p, ASM_R), turns = asm_local(w->p, ASM_R);
        mw_set(w, down, -MM_KIND_TURNS_BIT);
        emit_alu(w->p, AIE_BASIC_SHIFT, turns, w->kind, down);
        emit_alu(w->p, AIE_BASIC_SUB, w->number, w->number, turns);
    }
    asm_lock_release(w->p, asm_target(w->p)->own_locks + MM_LOCK_Y_EMPTY, w->number);
}

// Two slices of q6_K come together: of these goes to the label with the first, or with the second.
static void jump_if_half(struct mm_writer * w, int left, int label) {
    struct asm_program * p = w->p;
    struct asm_reg down = asm_local(p, ASM_R), half = asm_local(p, ASM_R);
    _Static_assert(MM_KIND_Q6_K == 2 && MM_KIND_Q4_K < 2, "its bit is none of the others'");
    mw_set(w, down, -1);
    emit_alu(p, AIE_BASIC_SHIFT, half, w->kind, down);
    emit_alu(p, AIE_BASIC_AND, half, half, w->one);
    if (left) {
        emit_alu(p, AIE_BASIC_AND, w->number, half, w->left);
    } else {
        struct asm_reg more = asm_local(p, ASM_R);
        emit_add_small(p, more, w->left, 1);
        emit_alu(p, AIE_BASIC_AND, w->number, half, more);
    }
    asm_jump_if_nonzero(p, w->number, label);
}

// Tiles of slices of y that come as blocks; then goes to the label. Each becomes bf16 once for all
// tiles that stand in the core, whose slices of x follow each other. The next one may come as soon
// as it has: there is one place for them, for which the DMA wants both empty ones. A tile's buffer
// is taken with its first slice and given with its last, for the sake of the DMA that empties it.
static void multiply_many(struct mm_writer * w, int end) {
    struct asm_program * p = w->p;
    struct mm_block * b = &w->block;
    int tile = asm_label_new(p), slice = asm_label_new(p), next = asm_label_new(p);
    int taken = asm_label_new(p), given = asm_label_new(p);
    asm_label(p, tile);
    mw_copy(w, w->left, w->slices);
    mw_set(w, b->first, first_config(w));
    asm_label(p, slice);
    if (w->takes_kinds) {
        int has_come = asm_label_new(p), stays = asm_label_new(p);
        jump_if_half(w, 1, has_come);
        acquire(w, MM_LOCK_Y_FULL);
        asm_label(p, has_come);
        make_slice(w);
        jump_if_half(w, 0, stays);
        give_blocks(w);
        asm_label(p, stays);
    } else {
        acquire(w, MM_LOCK_Y_FULL);
        make_slice(w);
        give_blocks(w);
    }
    mw_copy(w, w->number, w->many);
    asm_label(p, next);
    struct asm_reg is_first = asm_global(p, ASM_R);
    emit_alu(p, AIE_BASIC_AND, is_first, b->first, w->one);
    asm_jump_if_zero(p, is_first, taken);
    acquire(w, MM_LOCK_C_EMPTY);
    asm_release(p, is_first);
    asm_label(p, taken);
    acquire(w, MM_LOCK_X_FULL);
    slice_of(w);
    release(w, MM_LOCK_X_EMPTY);
    struct asm_reg other = asm_local(p, ASM_R), more = asm_global(p, ASM_R);
    mw_set(w, other, MM_XY_OTHER);
    emit_alu(p, AIE_BASIC_XOR, w->x, w->x, other);
    flip_tile(w, false);
    emit_add_small(p, more, w->left, -1);
    asm_jump_if_nonzero(p, more, given);
    release(w, MM_LOCK_C_FULL);
    asm_release(p, more);
    asm_label(p, given);
    mw_count_down(w, w->number);
    asm_jump_if_nonzero(p, w->number, next);
    mw_copy(w, b->first, b->conf);
    mw_count_down(w, w->left);
    asm_jump_if_nonzero(p, w->left, slice);
    flip_tile(w, true);
    mw_count_down(w, w->tiles);
    asm_jump_if_nonzero(p, w->tiles, tile);
    asm_jump(p, end);
}

// What is no product (tasks.h); then goes to the label.
static void between_products(struct mm_writer * w, int end) {
    const struct mm_block * b = &w->block;
    struct task_lent lent = {.units = w->tiles,
                             .trips = w->trips,
                             .factor = w->slices,
                             .add = w->row,
                             .x = w->x,
                             .y = w->y,
                             .c = w->c,
                             .which = w->number,
                             .one = w->one,
                             .minus_one = w->minus_one,
                             .scratch = w->left,
                             .pointers = {b->x, b->y, b->to[0], b->from[0], b->from[1]}};
    mw_set(w, w->x, mw_address(w, MM_X));
    mw_set(w, w->y, mw_address(w, MM_Y));
    mw_set(w, w->c, mw_address(w, MM_C));
    tasks_write(w->p, &lent, end);
}

// From one slice to the next; at `first` its numbers are there.
static void next_slice(struct mm_writer * w, int first) {
    struct asm_program * p = w->p;
    if (w->converts || w->takes_blocks) { // a block's later slices come with it
        int all = asm_label_new(p);
        mw_read_number(w, MM_PARAM_LATER);
        emit_alu(p, AIE_BASIC_AND, w->number, w->number, w->left);
        asm_jump_if_zero(p, w->number, all);
        release(w, MM_LOCK_X_EMPTY);
        acquire(w, MM_LOCK_X_FULL);
        asm_jump(p, first);
        asm_label(p, all);
    }
    // One row of locks between two slices: each wants idle bundles around it.
    release(w, MM_LOCK_Y_EMPTY);
    release(w, MM_LOCK_X_EMPTY);
    acquire(w, MM_LOCK_Y_FULL);
    acquire(w, MM_LOCK_X_FULL);
}

// A slice's numbers become bf16 and are multiplied; goes on at `done`, or at `skip` where nothing
// was multiplied.
static void multiply_slice(struct mm_writer * w, int blocks, int columns, int skip, int done) {
    struct asm_program * p = w->p;
    if (w->converts) {
        mw_convert_x(w);
        if (mw_fuses(w)) {
            mw_go_the_way(w);
            mw_gather_blocks(w, blocks);
        }
        if (w->planes) {
            mw_convert_planes(w);
        } else {
            mw_convert_y(w, blocks, columns, skip);
        }
    }
    if (w->t->stored) {
        mw_make_shared(w);
    }
    if (w->takes_blocks) {
        mw_convert_y(w, done, done, done);
    }
    slice_of(w);
    if (mw_fuses(w)) {
        struct fused f = mw_fused_of(w);
        asm_jump(p, done);
        asm_label(p, blocks);
        f.columns = columns;
        fused_products(&f);
    }
}

// What the program does besides products of one slice after another (MM_PARAM_MANY).
static void other_tasks(struct mm_writer * w, int many, int end) {
    struct asm_program * p = w->p;
    int tasks = asm_label_new(p), blocks_of_y = lends_many(w) ? tasks : asm_label_new(p);
    asm_label(p, many);
    if (lends_many(w)) { // its register is others' by now
        mw_read_number(w, MM_PARAM_MANY);
        emit_add_small(p, w->number, w->number, -MM_MANY_CONVERTS);
        asm_jump_if_nonzero(p, w->number, tasks);
        convert_many(w, end);
        asm_label(p, tasks);
        mw_read_number(w, MM_PARAM_MANY);
        between_products(w, end);
        return;
    }
    emit_add_small(p, w->number, w->many, -MM_MANY_CONVERTS);
    asm_jump_if_nonzero(p, w->number, blocks_of_y);
    convert_many(w, end);
    asm_label(p, blocks_of_y);
    mw_set(w, w->number, MM_MANY_TASK);
    emit_alu(p, AIE_BASIC_AND, w->number, w->number, w->many);
    asm_jump_if_nonzero(p, w->number, tasks);
    for (int i = REGISTERS_KEPT; i < REGISTERS && !has_no_constants(w); i++) {
        asm_release(p, *register_of(w, i)); // loops want them for themselves; every run sets them
    }
    if (w->t->gemm_unpacks) {
        asm_release(p, w->many);
        unpack(w, end);
    } else if (w->t->gemm_takes_blocks) {
        multiply_many(w, end);
    }
    asm_label(p, tasks);
    mw_read_number(w, MM_PARAM_MANY);
    between_products(w, end);
}

// All tiles, slice by slice; then goes to the label.
static void multiply(struct mm_writer * w, int end) {
    struct asm_program * p = w->p;
    int tile = asm_label_new(p), slice = asm_label_new(p), first = asm_label_new(p);
    int done = asm_label_new(p), blocks = mw_fuses(w) ? asm_label_new(p) : done;
    int columns = mw_fuses(w) ? asm_label_new(p) : done, skip = asm_label_new(p);
    int many = w->has_tasks ? asm_label_new(p) : done;
    release(w, MM_LOCK_X_FULL);
    read_parameters(w);
    if (mw_fuses(w)) {
        for (int i = 0; i < WAYS; i++) {
            w->ways[i] = asm_label_new(p);
        }
        mw_choose_way(w);
    }
    if (w->has_tasks) {
        if (!has_no_constants(w)) {
            set_constants(w);
        }
        asm_jump_if_nonzero(p, w->many, many);
        if (lends_many(w)) {
            asm_release(p, w->many);
        }
    }
    asm_label(p, tile);
    mw_copy(w, w->left, w->slices);
    if (has_no_constants(w)) {
        mw_set(w, w->block.first, first_config(w));
    } else {
        mw_copy(w, w->block.first, w->first_config);
    }
    acquire(w, MM_LOCK_C_EMPTY);
    acquire(w, MM_LOCK_Y_FULL);
    acquire(w, MM_LOCK_X_FULL);
    asm_jump(p, first);
    asm_label(p, slice);
    next_slice(w, first);
    asm_label(p, first);
    multiply_slice(w, blocks, columns, skip, done);
    asm_label(p, done);
    mw_copy(w, w->block.first, w->block.conf);
    asm_label(p, skip); // nothing was multiplied
    flip(w, w->x, w->xy_other, MM_XY_OTHER);
    flip(w, w->y, w->xy_other, MM_XY_OTHER);
    mw_count_down(w, w->left);
    asm_jump_if_nonzero(p, w->left, slice);
    release(w, MM_LOCK_Y_EMPTY);
    release(w, MM_LOCK_X_EMPTY);
    if (mw_fuses(w)) {
        mw_sum_columns(w);
    }
    release(w, MM_LOCK_C_FULL);
    flip(w, w->c, w->c_other, MM_C_OTHER);
    mw_count_down(w, w->tiles);
    asm_jump_if_nonzero(p, w->tiles, tile);
    asm_jump(p, end);
    if (w->has_tasks) {
        other_tasks(w, many, end);
    }
}

// The same where all tiles are of several, or one of these, and y comes as blocks.
static void multiply_blocks(struct mm_writer * w, int end) {
    release(w, MM_LOCK_X_FULL);
    read_parameters(w);
    other_tasks(w, asm_label_new(w->p), end);
}

// For what makes numbers bf16.
static void round_to_even(struct mm_writer * w) {
    struct asm_reg mode = asm_local(w->p, ASM_R);
    emit_begin(w->p);
    mw_set(w, mode, AIE_ROUND_NEAREST_EVEN);
    emit_control(w->p, AIE_CONTROL_ROUND, mode);
}

static void write_program(struct mm_writer * w) {
    int wait = asm_label_new(w->p);
    if (w->has_tasks) {
        round_to_even(w);
    }
    take_registers(w);
    asm_label(w->p, wait);
    acquire(w, MM_LOCK_X_FULL); // the parameters came before it
    (w->takes_kinds ? multiply_blocks : multiply)(w, wait);
}

// A run of CONVERT on the registers of products, and with their loop for f16.
static void convert_with_lent(struct mm_writer * w, struct asm_reg is_f16, int end) {
    const struct mm_block * b = &w->block;
    struct convert_lent lent = {
        .scalars = {w->slices, w->trips, w->row, w->left, w->x, w->y},
        .one = w->one,
        .minus_one = w->minus_one,
        .is_f16 = is_f16,
        .trips = w->number,
        .from = {b->from[0], b->from[1]},
        .to = b->to[0],
        .pointers = {b->x, b->y},
        .back = b->to[1],
        .f16_loop = w->f16_loop,
        .f32_loop = w->f32_loop,
    };
    convert_with(w->p, &lent, end);
}

// Products and conversions have registers of their own, which are set in every run.
static void convert_apart(struct mm_writer * w, struct asm_reg is_f16, int end) {
    int f16 = asm_label_new(w->p);
    asm_jump_if_nonzero(w->p, is_f16, f16);
    give_back_registers(w);
    convert_section(w->p, DTYPE_F32, end);
    asm_label(w->p, f16);
    convert_section(w->p, DTYPE_F16, end);
}

static void write_vector_program(struct mm_writer * w) {
    struct asm_program * p = w->p;
    int wait = asm_label_new(p), convert = asm_label_new(p);
    if (mw_lends_loop(w)) {
        w->f16_loop = asm_label_new(p);
        w->f32_loop = asm_label_new(p);
    }
    convert_begin(p);
    asm_label(p, wait);
    take_registers(w);
    acquire(w, MM_LOCK_X_FULL);
    struct asm_reg task = w->tiles; // which is not in use yet
    mw_set(w, w->block.x, mw_address(w, MM_TASK));
    emit_load_scalar(p, 0, LANE_32, A_REG(task), w->block.x, 0);
    asm_jump_if_nonzero(p, task, convert);
    multiply(w, wait);
    asm_label(p, convert);
    mw_count_down(w, task);
    (mw_lends_loop(w) ? convert_with_lent : convert_apart)(w, task, wait);
}

// Blocks become bf16, where gemm's loops fill gemm's memory.
static void write_unpack_program(struct mm_writer * w) {
    int wait = asm_label_new(w->p);
    round_to_even(w);
    take_registers(w);
    asm_label(w->p, wait);
    acquire(w, MM_LOCK_X_FULL); // the parameters came before it
    release(w, MM_LOCK_X_FULL);
    mw_read_number(w, MM_PARAM_TILES);
    mw_copy(w, w->tiles, w->number);
    unpack(w, wait);
}

enum task { TASK_MULTIPLY, TASK_BLOCKS, TASK_CONVERT, TASK_UNPACK };

static enum status write_with(enum aie_arch arch, const struct mm_type * t, enum task task,
                              bool planes, struct asm_code * out, struct mm_bank_use * use,
                              struct error * err) {
    struct mm_writer w = {.t = t,
                          .machine = t->shared ? &mm_aie2p_shared : machines[arch],
                          .converts = task == TASK_CONVERT,
                          .unpacks = task == TASK_UNPACK,
                          .planes = planes,
                          .takes_blocks = task == TASK_BLOCKS && t->gemm_by_blocks,
                          .takes_kinds = task == TASK_BLOCKS && t->gemm_takes_blocks,
                          .has_tasks =
                              task == TASK_BLOCKS || (task == TASK_MULTIPLY && mm_has_tasks(t))};
    if (!w.machine) {
        return error_set(err, ST_UNSUPPORTED, "products are not yet there on %s",
                         aie_target(arch)->name);
    }
    if (asm_new(arch, &w.p) != ST_OK) {
        return error_set(err, ST_NO_MEMORY, "aie: out of memory");
    }
    (task == TASK_CONVERT  ? write_vector_program
     : task == TASK_UNPACK ? write_unpack_program
                           : write_program)(&w);
    enum status st = asm_finish(w.p, out, err);
    asm_free(w.p);
    if (use) {
        memcpy(use->accesses, w.block.accesses, sizeof use->accesses);
        use->conflicts = w.block.conflicts;
    }
    return st == ST_OK ? ST_OK : error_prefix(err, st, "aie: mul_mat_%s", mm_type_name(t));
}

enum status mm_program(enum aie_arch arch, const struct mm_type * t, struct asm_code * out,
                       struct mm_bank_use * use, struct error * err) {
    return write_with(arch, t, TASK_MULTIPLY, false, out, use, err);
}

enum status mm_vector_program(enum aie_arch arch, bool planes, struct asm_code * out,
                              struct error * err) {
    return write_with(arch, mm_type(arch, DTYPE_BF16), TASK_CONVERT, planes, out, NULL, err);
}

enum status mm_blocks_program(enum aie_arch arch, struct asm_code * out, struct error * err) {
    return write_with(arch, mm_type(arch, DTYPE_BF16), TASK_BLOCKS, false, out, NULL, err);
}

enum status mm_unpack_program(enum aie_arch arch, bool planes, struct asm_code * out,
                              struct error * err) {
    return write_with(arch, mm_type(arch, DTYPE_BF16), TASK_UNPACK, planes, out, NULL, err);
}
