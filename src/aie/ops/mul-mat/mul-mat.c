// mul-mat: the core program around the inner loop. It waits for a slice, reads what the run is to
// be, then makes tile after tile: takes an empty tile buffer, runs the loop over each slice of x
// and y as it arrives, hands the tile on. Every lock is back at its first value when a run is over.
#include "mul-mat.h"

#include "aie/isa/aie2.h"

#include <string.h>

enum { OWN_LOCKS = 48 }; // the core's numbering of its own tile's locks

static const struct mm_type types[] = {
    {DTYPE_BF16, DTYPE_F32, 2, 16, 8, 4, 16, 64},
    {DTYPE_I16, DTYPE_I32, 2, 8, 16, 4, 8, 65},
    {DTYPE_I8, DTYPE_I32, 1, 8, 16, 8, 16, 65},
};

const struct mm_type * mm_type(enum dtype in) {
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].in == in) {
            return &types[i];
        }
    }
    return NULL;
}

// ---- parameters ----

// Bytes of the tile that a trip takes of each of its two rows of blocks.
static int trip_c_bytes(const struct mm_type * t) {
    return 4 * 4 * t->trip_rows;
}

void mm_params(const struct mm_type * t, int x_groups, int y_groups, uint32_t tiles,
               uint32_t slices, uint32_t out[MM_PARAM_COUNT]) {
    int last_block = t->slice_blocks - 1, row = 4 * 4 * MM_Y_ROWS * y_groups;
    int y_trips = y_groups * MM_Y_ROWS / t->trip_rows;
    int x_group = MM_X_ROWS * t->block_bytes, y_group = t->trip_rows * t->block_bytes;
    int x_step = x_group * x_groups, y_step = y_group * y_trips;
    // A row of trips goes through all groups of y with one group of x.
    int32_t p[MM_PARAM_COUNT] = {
        [MM_PARAM_TILES] = (int32_t) tiles,
        [MM_PARAM_SLICES] = (int32_t) slices,
        [MM_PARAM_TRIPS] = x_groups * y_trips,
        [MM_PARAM_ROW] = row,
        [MM_PARAM_LAST] = y_trips - 1,
        [MM_PARAM_C_WRAP] = trip_c_bytes(t) + row,
        [MM_PARAM_X_STEP] = x_step,
        [MM_PARAM_X_NEXT] = -last_block * x_step,
        [MM_PARAM_X_WRAP] = -last_block * x_step + x_group,
        [MM_PARAM_Y_STEP] = y_step,
        [MM_PARAM_Y_NEXT] = -last_block * y_step + y_group,
        [MM_PARAM_Y_WRAP] = -last_block * y_step - y_group * (y_trips - 1),
    };
    for (int i = 0; i < MM_PARAM_COUNT; i++) {
        out[i] = (uint32_t) p[i];
    }
}

// ---- program ----

struct program {
    struct asm_program * p;
    const struct mm_type * t;
    struct mm_block block;
    struct asm_reg tiles, slices, trips, row; // parameters
    struct asm_reg left;                      // slices of this tile
    struct asm_reg x, y, c;                   // addresses of the current buffers
    struct asm_reg xy_other, c_other, minus_one, one, first_config;
};

static void set(struct program * w, struct asm_reg r, int32_t value) {
    ASM(w->p, AIE2_MOVXM_lng_cg, A_REG(r), A_IMM(value));
}

static void copy(struct program * w, struct asm_reg to, struct asm_reg from) {
    ASM(w->p, AIE2_MOV_mv_scl, A_REG(to), A_REG(from));
}

static void acquire(struct program * w, int lock) {
    asm_lock_acquire(w->p, OWN_LOCKS + lock, w->minus_one);
}

static void release(struct program * w, int lock) {
    asm_lock_release(w->p, OWN_LOCKS + lock, w->one);
}

static void flip(struct program * w, struct asm_reg r, struct asm_reg other) {
    ASM(w->p, AIE2_XOR, A_REG(r), A_REG(r), A_REG(other));
}

static void count_down(struct program * w, struct asm_reg r) {
    ASM(w->p, AIE2_ADD_add_r_ri, A_REG(r), A_REG(r), A_IMM(-1));
}

static void read_parameters(struct program * w) {
    struct asm_program * p = w->p;
    struct asm_reg at = w->block.x; // not in use yet
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
    set(w, at, MM_CORE_MEMORY + MM_PARAMS);
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        ASM(p, AIE2_LDA_dms_lda_idx_imm, loads[i].to, A_REG(at), A_IMM(4 * loads[i].param));
    }
    for (int d = 0; d < 6; d++) {
        ASM(p, AIE2_LDA_dms_lda_idx_imm, A_FIXED(AIE_REG(AIE_DN, d)), A_REG(at),
            A_IMM(4 * MM_PARAM_LAST));
        ASM(p, AIE2_MOVXM_lng_cg, A_FIXED(AIE_REG(AIE_DC, d)), A_IMM(0));
    }
    for (int d = 0; d < 4; d++) {
        ASM(p, AIE2_LDA_dms_lda_idx_imm, A_FIXED(AIE_REG(AIE_M, d)), A_REG(at),
            A_IMM(4 * MM_PARAM_C_WRAP));
        ASM(p, AIE2_MOVXM_lng_cg, A_FIXED(AIE_REG(AIE_DJ, d)), A_IMM(trip_c_bytes(w->t)));
    }
    set(w, w->x, MM_CORE_MEMORY + MM_X);
    set(w, w->y, MM_CORE_MEMORY + MM_Y);
    set(w, w->c, MM_CORE_MEMORY + MM_C);
}

static void point(struct program * w, struct asm_reg to, struct asm_reg base, int offset) {
    struct asm_reg at = asm_local(w->p, ASM_R), by = asm_local(w->p, ASM_R);
    set(w, by, offset);
    ASM(w->p, AIE2_ADD, A_REG(at), A_REG(base), A_REG(by));
    copy(w, to, at);
}

static void run_slice(struct program * w) {
    struct mm_offsets o = mm_block_offsets(w->t);
    struct asm_reg second = asm_local(w->p, ASM_R);
    point(w, w->block.x, w->x, o.x);
    point(w, w->block.y, w->y, o.y);
    ASM(w->p, AIE2_ADD, A_REG(second), A_REG(w->c), A_REG(w->row));
    point(w, w->block.from[0], w->c, o.c);
    point(w, w->block.from[1], second, o.c);
    point(w, w->block.to[0], w->c, o.c);
    point(w, w->block.to[1], second, o.c);
    mm_block_loop(&w->block, w->t, w->trips);
}

static void write_program(struct program * w) {
    struct asm_program * p = w->p;
    struct asm_reg * const scalars[] = {
        &w->tiles, &w->slices, &w->trips,    &w->row,     &w->left,         &w->x,        &w->y,
        &w->c,     &w->one,    &w->xy_other, &w->c_other, &w->first_config, &w->minus_one};
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        *scalars[i] = asm_global(p, ASM_R);
    }
    mm_block_begin(&w->block, p, w->t);
    set(w, w->one, 1);
    set(w, w->minus_one, -1);
    set(w, w->xy_other, MM_XY_OTHER);
    set(w, w->c_other, MM_C_OTHER);
    set(w, w->first_config, (int32_t) mm_block_config(w->t) | 1); // drops the accumulator
    int wait = asm_label_new(p), tile = asm_label_new(p), slice = asm_label_new(p);
    asm_label(p, wait);
    acquire(w, MM_LOCK_X_FULL); // the parameters came before it
    release(w, MM_LOCK_X_FULL);
    read_parameters(w);
    asm_label(p, tile);
    acquire(w, MM_LOCK_C_EMPTY);
    copy(w, w->left, w->slices);
    copy(w, w->block.first, w->first_config);
    asm_label(p, slice);
    acquire(w, MM_LOCK_Y_FULL);
    acquire(w, MM_LOCK_X_FULL);
    run_slice(w);
    release(w, MM_LOCK_Y_EMPTY);
    release(w, MM_LOCK_X_EMPTY);
    flip(w, w->x, w->xy_other);
    flip(w, w->y, w->xy_other);
    copy(w, w->block.first, w->block.conf);
    count_down(w, w->left);
    asm_jump_if_nonzero(p, w->left, slice);
    release(w, MM_LOCK_C_FULL);
    flip(w, w->c, w->c_other);
    count_down(w, w->tiles);
    asm_jump_if_nonzero(p, w->tiles, tile);
    asm_jump(p, wait);
}

enum status mm_program(enum aie_arch arch, const struct mm_type * t, struct asm_code * out,
                       struct mm_bank_use * use, struct error * err) {
    struct program w = {.t = t};
    if (asm_new(arch, &w.p) != ST_OK) {
        return error_set(err, ST_NO_MEMORY, "aie: out of memory");
    }
    write_program(&w);
    enum status st = asm_finish(w.p, out, err);
    asm_free(w.p);
    if (use) {
        memcpy(use->accesses, w.block.accesses, sizeof use->accesses);
        use->conflicts = w.block.conflicts;
    }
    return st == ST_OK ? ST_OK : error_prefix(err, "aie: mul_mat_%s", dtype_name(t->in));
}
