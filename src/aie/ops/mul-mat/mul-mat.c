// mul-mat: the core program around the inner loop. It waits for a slice, reads what the run is to
// be, then makes tile after tile: takes an empty tile buffer, runs the loop over each slice of x
// and y as it arrives, hands the tile on. Every lock is back at its first value when a run is over.
// The program of gemv in bf16 waits for a task, which is that or a conversion (convert.c).
#include "mul-mat.h"

#include "quant.h"

#include "aie/ops/blocks/blocks.h"
#include "aie/ops/convert/convert.h"
#include "aie/ops/tasks/tasks.h"
#include "aie/verbs/verbs.h"

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

const struct mm_type * mm_shared_type(enum aie_arch arch) {
    for (int i = 0; types[arch] && i < MM_TYPES; i++) {
        if (types[arch][i].shared) {
            return &types[arch][i];
        }
    }
    return NULL;
}

// ---- program ----

// Where a slice of y goes before it is multiplied: those with the least time first.
enum way {
    WAY_COLUMNS,
    WAY_Q4_0,
    WAY_TWO_SLICES,
    WAY_LONG,
    WAY_SHORT,
    WAY_F16,
    WAY_AS_IT_IS,
    WAYS
};

struct program {
    struct asm_program * p;
    const struct mm_machine * machine;
    const struct mm_type * t;
    struct mm_block block;
    struct asm_reg tiles, slices, trips, row; // parameters
    struct asm_reg left;                      // slices of this tile
    struct asm_reg x, y, c;                   // where pointers into the current buffers begin
    struct asm_reg xy_other, c_other, minus_one, one, first_config;
    bool converts;          // then fewer registers are kept: loops want the rest
    bool unpacks;           // nothing is multiplied: blocks become bf16 and leave
    bool planes;            // its blocks are those of ops/blocks
    bool has_tasks;         // of gemm: what `many` says
    int f16_loop, f32_loop; // labels: the loops that CONVERT has from here
    int ways[WAYS];         // labels
    struct asm_reg number, many;
};

static int32_t address(const struct program * w, int32_t at) { // by which the core knows it
    return (int32_t) asm_target(w->p)->own_window + at;
}

static void set(struct program * w, struct asm_reg r, int32_t value) {
    emit_set(w->p, r, value);
}

static void copy(struct program * w, struct asm_reg to, struct asm_reg from) {
    emit_copy(w->p, to, from);
}

static void acquire(struct program * w, int lock) {
    asm_lock_acquire(w->p, asm_target(w->p)->own_locks + lock, w->minus_one);
}

static void release(struct program * w, int lock) {
    asm_lock_release(w->p, asm_target(w->p)->own_locks + lock, w->one);
}

static void flip(struct program * w, struct asm_reg r, struct asm_reg other, int32_t value) {
    if (w->converts) {
        other = asm_local(w->p, ASM_R);
        set(w, other, value);
    }
    emit_alu(w->p, AIE_BASIC_XOR, r, r, other);
}

static void count_down(struct program * w, struct asm_reg r) {
    emit_add_small(w->p, r, r, -1);
}

static void read_parameters(struct program * w) {
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
    set(w, at, address(w, MM_PARAMS + middle));
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
    for (int i = 0; i < 2 && w->t->shared; i++) {
        emit_load_scalar(p, 0, LANE_32, A_REG(w->block.counts[i]), at,
                         4 * (MM_PARAM_X_TRIPS + i) - middle);
    }
    if (w->has_tasks) {
        emit_load_scalar(p, 0, LANE_32, A_REG(w->many), at, 4 * MM_PARAM_MANY - middle);
    }
    struct mm_offsets o = w->machine->offsets(w->t);
    set(w, w->x, address(w, MM_X + o.x));
    set(w, w->y, address(w, MM_Y + o.y));
    set(w, w->c, address(w, MM_C + o.c));
}

// ---- slices that are not bf16 yet ----

static bool fuses(const struct program * w) {
    return w->converts && !w->planes && mm_fuses(w->t, KERNEL_Q4_0);
}

static void read_number(struct program * w, int param) {
    struct asm_reg pointer = w->block.to[0];
    set(w, pointer, address(w, MM_PARAMS + 4 * param));
    emit_load_scalar(w->p, 0, LANE_32, A_REG(w->number), pointer, 0);
}

// From and to a place that is `by` bytes behind another.
static void point_behind(struct program * w, struct asm_reg pointer, struct asm_reg base,
                         int32_t by) {
    struct asm_reg n = asm_local(w->p, ASM_R), at = asm_local(w->p, ASM_R);
    set(w, n, by);
    emit_alu(w->p, AIE_BASIC_ADD, at, base, n);
    copy(w, pointer, at);
}

// Where there is much else in the program, one loop makes f16 bf16 and one f32, for CONVERT as
// well; behind them a pointer says where to go on.
static bool lends_loop(const struct program * w) {
    return fuses(w);
}

static void go_on_at(struct program * w, int label) {
    if (lends_loop(w)) {
        emit_set_label(w->p, w->block.to[1], label);
    }
}

// x, from behind its place.
static void convert_x(struct program * w) {
    struct asm_program * p = w->p;
    const struct mm_block * b = &w->block;
    int none = asm_label_new(p), offset = w->machine->offsets(w->t).x;
    read_number(w, MM_PARAM_X_TRIPS);
    asm_jump_if_zero(p, w->number, none);
    point_behind(w, b->to[0], w->x, -offset);
    point_behind(w, b->from[0], w->x, MM_X_RAW - offset);
    point_behind(w, b->from[1], w->x, MM_X_RAW - offset);
    go_on_at(w, none);
    if (lends_loop(w)) {
        asm_label(p, w->f32_loop);
    }
    convert_loop(p, DTYPE_F32, w->number, b->from[0], b->from[1], b->to[0]);
    if (lends_loop(w)) {
        asm_jump_pointer(p, b->to[1]);
    }
    asm_label(p, none);
}

static struct quant quant_of(const struct program * w) {
    const struct mm_block * b = &w->block;
    return (struct quant){.p = w->p,
                          .base = w->y,
                          .offset = w->converts ? w->machine->offsets(w->t).y : 0,
                          .number = w->number,
                          .left = w->left,
                          .wide = asm_target(w->p)->lane_products == 2,
                          .apart = w->converts && w->machine->sets_apart,
                          .rows = w->converts && !w->machine->sets_apart,
                          .pointers = {b->x, b->y, b->from[0], b->from[1], b->to[0], b->to[1]}};
}

// y, where its blocks are those of ops/blocks.
static void convert_planes(struct program * w) {
    struct asm_program * p = w->p;
    const struct mm_block * b = &w->block;
    const struct asm_reg pointers[] = {b->to[0], b->from[0], b->from[1]};
    struct quant q = quant_of(w);
    int none = asm_label_new(p), plain = asm_label_new(p), loop = asm_label_new(p),
        slice = asm_label_new(p);
    if (w->converts) { // else it is blocks
        read_number(w, MM_PARAM_Y_TRIPS);
        asm_jump_if_zero(p, w->number, none);
        read_number(w, MM_PARAM_BITS);
        asm_jump_if_zero(p, w->number, plain);
        set(w, w->y, address(w, MM_Y + q.offset)); // of blocks there is one slice in bf16
    }
    read_number(w, MM_PARAM_LATER);
    emit_alu(p, AIE_BASIC_AND, w->number, w->number, w->left);
    asm_jump_if_nonzero(p, w->number, slice);
    quant_next_block(&q);
    blocks_gather(&q);
    read_number(w, MM_PARAM_D_AT);
    for (int i = 0; i < 3; i++) {
        point_behind(w, pointers[i], w->number, address(w, 0));
    }
    asm_jump(p, loop);
    asm_label(p, plain);
    for (int i = 0; i < 3 && w->converts; i++) {
        point_behind(w, pointers[i], w->y, -q.offset);
    }
    asm_label(p, loop);
    set(w, b->x, address(w, MM_PARAMS + 4 * MM_PARAM_Y_TRIPS)); // the other pointers are set
    emit_load_scalar(p, 0, LANE_32, A_REG(w->number), b->x, 0);
    convert_loop(p, DTYPE_F16, w->number, b->from[0], b->from[1], b->to[0]);
    if (w->converts) {
        read_number(w, MM_PARAM_BITS);
        asm_jump_if_zero(p, w->number, none);
    }
    asm_label(p, slice);
    blocks_slice(&q);
    asm_label(p, none);
}

// Sections of convert_y.
struct y_sections {
    int none;             // y is bf16
    int loop;             // f16 to bf16
    int plain;            // y is f16
    int slice;            // of a long block whose scales are ready
    int is_short, spread; // blocks of one scale, and numbers that go with their scales
    int new_block;        // a long one
    int has_f16, table;   // scales of a long block, and the table made of them
    int multiply_blocks;  // outside: where fused blocks go on
    int multiply_columns; // outside: by columns
    int skip;             // outside: nothing is to be multiplied
};

// Blocks that are multiplied by columns or two slices at a time have scales in some slices alone.
static void enter_fused(struct program * w, const struct quant * q, const struct y_sections * y) {
    struct asm_program * p = w->p;
    asm_label(p, w->ways[WAY_COLUMNS]);
    struct asm_reg later = asm_local(p, ASM_R);
    set(w, later, kernel_block_once(KERNEL_Q4_K) / mm_slice_k(w->t) - 1);
    emit_alu(p, AIE_BASIC_AND, w->number, w->left, later);
    asm_jump_if_nonzero(p, w->number, y->multiply_columns);
    asm_jump(p, y->new_block);
    asm_label(p, w->ways[WAY_TWO_SLICES]); // of four the second and the last
    emit_alu(p, AIE_BASIC_AND, w->number, w->left, w->one);
    asm_jump_if_nonzero(p, w->number, q->pages);
    struct asm_reg third = asm_local(p, ASM_R);
    set(w, third, 2);
    emit_alu(p, AIE_BASIC_AND, w->number, w->left, third);
    asm_jump_if_nonzero(p, w->number, y->skip);
    asm_jump(p, y->new_block);
    asm_label(p, w->ways[WAY_LONG]);
}

static void point_all(struct program * w, int32_t at) {
    const struct mm_block * b = &w->block;
    const struct asm_reg pointers[] = {b->to[0], b->from[0], b->from[1]};
    for (int i = 0; i < 3; i++) {
        set(w, pointers[i], address(w, at));
    }
}

// The scales of a block: powers of two are ready at once, f16 goes through the loop.
static void gather_scales(struct program * w, struct quant * q, const struct y_sections * y) {
    struct asm_program * p = w->p;
    asm_label(p, y->new_block);
    quant_next_block(q);
    read_number(w, MM_PARAM_BITS);
    emit_add_small(p, w->number, w->number, -MM_BITS_POWER);
    asm_jump_if_nonzero(p, w->number, y->has_f16);
    quant_power_scales(q);
    asm_jump(p, y->spread);
    asm_label(p, y->has_f16);
    quant_long_gather(q);
    point_all(w, MM_LONG_SCALES);
    go_on_at(w, y->table);
    asm_jump(p, y->loop);
    asm_label(p, y->is_short);
    read_number(w, MM_PARAM_BITS);
    quant_gather(q);
    point_all(w, MM_SCALES);
    go_on_at(w, y->spread);
    asm_jump(p, y->loop);
}

static void convert_f16(struct program * w, const struct y_sections * y) {
    struct asm_program * p = w->p;
    const struct mm_block * b = &w->block;
    asm_label(p, y->loop);
    set(w, b->x, address(w, MM_PARAMS + 4 * MM_PARAM_Y_TRIPS)); // the other pointers are set
    emit_load_scalar(p, 0, LANE_32, A_REG(w->number), b->x, 0);
    if (lends_loop(w)) {
        asm_label(p, w->f16_loop);
    }
    convert_loop(p, DTYPE_F16, w->number, b->from[0], b->from[1], b->to[0]);
    if (lends_loop(w)) {
        asm_jump_pointer(p, b->to[1]);
        return;
    }
    if (w->converts) {
        read_number(w, MM_PARAM_BITS);
        asm_jump_if_zero(p, w->number, y->none);
    }
    read_number(w, MM_PARAM_LATER);
    asm_jump_if_zero(p, w->number, y->spread);
}

static void unpack_numbers(struct program * w, struct quant * q, const struct y_sections * y) {
    struct asm_program * p = w->p;
    asm_label(p, y->table);
    quant_long_table(q);
    asm_label(p, y->slice);
    read_number(w, MM_PARAM_TABLED);
    asm_jump_if_nonzero(p, w->number, y->spread);
    quant_long_numbers(q);
    asm_jump(p, q->fused ? y->multiply_blocks : y->none);
    asm_label(p, y->spread);
    read_number(w, MM_PARAM_BITS);
    quant_spread(q);
    if (q->fused) {
        asm_jump(p, y->multiply_blocks);
    }
}

// y becomes bf16 in its place. The loop that converts f16 makes bf16 of the scales of quantized
// blocks, too. Fused blocks, which are multiplied as they are unpacked, come here by labels of
// their own and go on at `multiply_blocks` or `multiply_columns`.
static void convert_y(struct program * w, int multiply_blocks, int multiply_columns, int skip) {
    struct asm_program * p = w->p;
    const struct mm_block * b = &w->block;
    const struct asm_reg pointers[] = {b->to[0], b->from[0], b->from[1]};
    bool fused = fuses(w);
    struct y_sections y = {
        .multiply_blocks = multiply_blocks, .multiply_columns = multiply_columns, .skip = skip};
    y.none = fused ? w->ways[WAY_AS_IT_IS] : asm_label_new(p);
    y.loop = asm_label_new(p);
    y.plain = fused ? w->ways[WAY_F16] : asm_label_new(p);
    y.slice = asm_label_new(p);
    y.is_short = fused ? w->ways[WAY_SHORT] : asm_label_new(p);
    y.spread = asm_label_new(p);
    y.new_block = asm_label_new(p);
    y.has_f16 = asm_label_new(p);
    y.table = asm_label_new(p);
    int offset = w->converts ? w->machine->offsets(w->t).y : 0;
    struct quant q = quant_of(w);
    q.columns = multiply_columns;
    q.pages = fused ? asm_label_new(p) : 0;
    q.skip = skip;
    q.fused = fused;
    if (fused) {
        enter_fused(w, &q, &y);
    } else if (w->converts) { // else it is blocks
        read_number(w, MM_PARAM_Y_TRIPS);
        asm_jump_if_zero(p, w->number, y.none);
        read_number(w, MM_PARAM_BITS);
        asm_jump_if_zero(p, w->number, y.plain);
    }
    read_number(w, MM_PARAM_LATER);
    if (!fused) {
        asm_jump_if_zero(p, w->number, y.is_short);
    }
    if (w->converts) { // of these there is one slice in bf16
        set(w, w->y, address(w, MM_Y + offset));
    }
    emit_alu(p, AIE_BASIC_AND, w->number, w->number, w->left);
    asm_jump_if_nonzero(p, w->number, y.slice);
    gather_scales(w, &q, &y);
    asm_label(p, y.plain);
    for (int i = 0; i < 3 && w->converts; i++) {
        point_behind(w, pointers[i], w->y, -offset);
    }
    go_on_at(w, y.none);
    convert_f16(w, &y);
    unpack_numbers(w, &q, &y);
    asm_label(p, y.none);
}

// Blocks that are multiplied as they are unpacked.
static struct fused fused_of(const struct program * w) {
    const struct mm_block * b = &w->block;
    struct mm_offsets o = w->machine->offsets(w->t);
    return (struct fused){.p = w->p,
                          .x = w->x,
                          .y = w->y,
                          .c = w->c,
                          .row = w->row,
                          .left = w->left,
                          .groups = w->number,
                          .conf = b->conf,
                          .first = b->first,
                          .turn = b->mode,
                          .x_offset = o.x,
                          .c_offset = o.c,
                          .pointers = {b->x, b->y, b->from[0], b->from[1], b->to[0]},
                          .back = b->to[1]};
}

// Once a run: a slice has no time to find out. It stands where the task did, which is known by
// then.
static void choose_way(struct program * w) {
    struct asm_program * p = w->p;
    static const struct {
        enum way way;
        int param, value; // which tells it, if none of those before did
    } tests[] = {{WAY_AS_IT_IS, MM_PARAM_Y_TRIPS, 0},
                 {WAY_F16, MM_PARAM_BITS, 0},
                 {WAY_Q4_0, MM_PARAM_PASSES, 1},
                 {WAY_COLUMNS, MM_PARAM_PASSES, MM_BY_COLUMNS},
                 {WAY_TWO_SLICES, MM_PARAM_PASSES, MM_BY_TWO_SLICES},
                 {WAY_SHORT, MM_PARAM_LATER, 0}};
    struct asm_reg way = asm_global(p, ASM_R), pointer = w->block.y; // not in use yet
    int chosen = asm_label_new(p);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        set(w, way, tests[i].way);
        read_number(w, tests[i].param);
        emit_add_small(p, w->number, w->number, -tests[i].value);
        asm_jump_if_zero(p, w->number, chosen);
    }
    set(w, way, WAY_LONG);
    asm_label(p, chosen);
    set(w, pointer, address(w, MM_TASK));
    emit_store_word(p, 0, way, pointer, 0);
    asm_release(p, way);
}

// To where a slice of y goes.
static void go_the_way(struct program * w) {
    struct asm_program * p = w->p;
    read_number(w, MM_PARAM_TASK);
    for (int i = 0; i + 1 < WAYS; i++) {
        asm_jump_if_zero(p, w->number, w->ways[i]);
        count_down(w, w->number);
    }
    asm_jump(p, w->ways[WAYS - 1]);
}

// Blocks that stay as they are, then go to the label.
static void gather_blocks(struct program * w, int multiply) {
    struct fused f = fused_of(w);
    asm_label(w->p, w->ways[WAY_Q4_0]);
    fused_gather(&f);
    asm_jump(w->p, multiply);
}

// The end of a tile that is complete.
static void sum_columns(struct program * w) {
    struct asm_program * p = w->p;
    struct fused f = fused_of(w);
    int none = asm_label_new(p);
    struct asm_reg columns = asm_local(p, ASM_R);
    read_number(w, MM_PARAM_PASSES);
    set(w, columns, MM_BY_COLUMNS);
    emit_alu(p, AIE_BASIC_AND, w->number, w->number, columns); // of either kind
    asm_jump_if_zero(p, w->number, none);
    columns_sum(&f);
    asm_label(p, none);
}

// The registers of a program, and how many of them one that converts has.
enum { REGISTERS = 13, REGISTERS_KEPT = 10 };

static struct asm_reg * register_of(struct program * w, int i) {
    struct asm_reg * const registers[REGISTERS] = {
        &w->tiles, &w->slices, &w->trips,     &w->row,      &w->left,    &w->x,           &w->y,
        &w->c,     &w->one,    &w->minus_one, &w->xy_other, &w->c_other, &w->first_config};
    return registers[i];
}

static int32_t first_config(const struct program * w) {
    return (int32_t) w->machine->config(w->t) | 1; // drops the accumulator
}

static void set_constants(struct program * w) {
    set(w, w->xy_other, MM_XY_OTHER);
    set(w, w->c_other, MM_C_OTHER);
    set(w, w->first_config, first_config(w));
}

static void take_registers(struct program * w) {
    if (w->machine->reserve) {
        w->machine->reserve(&w->block, w->p);
    }
    for (int i = 0; i < (w->converts || w->unpacks ? REGISTERS_KEPT : REGISTERS); i++) {
        *register_of(w, i) = asm_global(w->p, ASM_R);
    }
    if (w->converts || w->has_tasks || w->unpacks) {
        w->number = asm_global(w->p, ASM_R);
    }
    if (w->has_tasks) {
        w->many = asm_global(w->p, ASM_R);
    }
    w->machine->begin(&w->block, w->p, w->t);
    w->block.small = w->converts;
    set(w, w->one, 1);
    set(w, w->minus_one, -1);
    if (!w->converts && !w->has_tasks && !w->unpacks) {
        set_constants(w);
    }
}

static void give_back_registers(struct program * w) {
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

static void slice_of(struct program * w) {
    struct mm_block * b = &w->block;
    memset(b->uses, 0, sizeof b->uses); // of one loop, where there are two
    memset(b->accesses, 0, sizeof b->accesses);
    b->conflicts = 0;
    struct mm_at at = {.x = w->x,
                       .y = w->y,
                       .c = w->c,
                       .row = w->row,
                       .trips = w->trips,
                       .may_be_apart = w->converts && w->machine->sets_apart,
                       .pairs = w->number};
    if (at.may_be_apart) {
        read_number(w, MM_PARAM_PAIRS);
    }
    w->machine->slice(b, w->t, &at);
}

// Slices of x that are f32 become bf16, in the tile's place; then goes to the label.
static void convert_many(struct program * w, int end) {
    struct asm_program * p = w->p;
    const struct mm_block * b = &w->block;
    struct mm_offsets o = w->machine->offsets(w->t);
    int again = asm_label_new(p);
    asm_label(p, again);
    acquire(w, MM_LOCK_X_FULL);
    acquire(w, MM_LOCK_C_EMPTY);
    point_behind(w, b->to[0], w->c, -o.c);
    point_behind(w, b->from[0], w->x, -o.x);
    point_behind(w, b->from[1], w->x, -o.x);
    set(w, w->number, CV_CHUNK / CV_TRIP);
    convert_loop(p, DTYPE_F32, w->number, b->from[0], b->from[1], b->to[0]);
    release(w, MM_LOCK_X_EMPTY);
    release(w, MM_LOCK_C_FULL);
    flip(w, w->x, w->xy_other, MM_XY_OTHER);
    flip(w, w->c, w->c_other, MM_C_OTHER);
    count_down(w, w->tiles);
    asm_jump_if_nonzero(p, w->tiles, again);
    asm_jump(p, end);
}

// Slices of blocks become bf16 and leave as they are; then goes to the label. Those of a block that
// is longer than a slice come with it.
static void unpack(struct program * w, int end) {
    struct asm_program * p = w->p;
    int slice = asm_label_new(p), has_come = asm_label_new(p);
    copy(w, w->left, w->tiles);
    set(w, w->y, address(w, MM_Y));
    asm_label(p, slice);
    read_number(w, MM_PARAM_LATER);
    emit_alu(p, AIE_BASIC_AND, w->number, w->number, w->left);
    asm_jump_if_nonzero(p, w->number, has_come);
    acquire(w, MM_LOCK_X_FULL);
    asm_label(p, has_come);
    acquire(w, MM_LOCK_C_EMPTY);
    if (w->planes) {
        convert_planes(w);
    } else {
        convert_y(w, end, end, end);
    }
    release(w, MM_LOCK_C_FULL);
    struct asm_reg other = asm_local(p, ASM_R);
    set(w, other, MM_UNPACKED_OTHER);
    emit_alu(p, AIE_BASIC_XOR, w->y, w->y, other);
    count_down(w, w->left);
    read_number(w, MM_PARAM_LATER);
    emit_alu(p, AIE_BASIC_AND, w->number, w->number, w->left);
    asm_jump_if_nonzero(p, w->number, slice);
    release(w, MM_LOCK_X_EMPTY);
    asm_jump_if_nonzero(p, w->left, slice);
    asm_jump(p, end);
}

// Turns to the next tile: the other one of two, or where there is one, when it is done, the other
// buffer.
static void flip_tile(struct program * w, bool is_done) {
    struct asm_program * p = w->p;
    struct asm_reg n = asm_local(p, ASM_R), other = asm_local(p, ASM_R), more = asm_local(p, ASM_R);
    enum { SHIFT = 14 }; // of MM_C_OTHER
    emit_add_small(p, more, w->many, is_done ? -2 : -1);
    set(w, n, SHIFT);
    emit_alu(p, AIE_BASIC_SHIFT, other, more, n);
    set(w, n, MM_C_OTHER);
    emit_alu(p, AIE_BASIC_AND, other, other, n);
    emit_alu(p, AIE_BASIC_XOR, w->c, w->c, other);
}

// Tiles of slices of y that come as blocks; then goes to the label. Each becomes bf16 once for all
// tiles that stand in the core, whose slices of x follow each other. The next one may come as soon
// as it has: there is one place for them, for which the DMA wants both empty ones. A tile's buffer
// is taken with its first slice and given with its last, for the sake of the DMA that empties it.
static void multiply_many(struct program * w, int end) {
    struct asm_program * p = w->p;
    struct mm_block * b = &w->block;
    int tile = asm_label_new(p), slice = asm_label_new(p), next = asm_label_new(p);
    int taken = asm_label_new(p), given = asm_label_new(p);
    struct quant q = {.p = p,
                      .number = w->number,
                      .pointers = {b->x, b->y, b->from[0], b->from[1], b->to[0], b->to[1]}};
    asm_label(p, tile);
    copy(w, w->left, w->slices);
    set(w, b->first, first_config(w));
    asm_label(p, slice);
    acquire(w, MM_LOCK_Y_FULL);
    many_slice(&q);
    set(w, w->number, mm_lock_init[MM_LOCK_Y_EMPTY]);
    asm_lock_release(p, asm_target(p)->own_locks + MM_LOCK_Y_EMPTY, w->number);
    copy(w, w->number, w->many);
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
    set(w, other, MM_XY_OTHER);
    emit_alu(p, AIE_BASIC_XOR, w->x, w->x, other);
    flip_tile(w, false);
    emit_add_small(p, more, w->left, -1);
    asm_jump_if_nonzero(p, more, given);
    release(w, MM_LOCK_C_FULL);
    asm_release(p, more);
    asm_label(p, given);
    count_down(w, w->number);
    asm_jump_if_nonzero(p, w->number, next);
    copy(w, b->first, b->conf);
    count_down(w, w->left);
    asm_jump_if_nonzero(p, w->left, slice);
    flip_tile(w, true);
    count_down(w, w->tiles);
    asm_jump_if_nonzero(p, w->tiles, tile);
    asm_jump(p, end);
}

// What is no product (tasks.h); then goes to the label.
static void between_products(struct program * w, int end) {
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
    set(w, w->x, address(w, MM_X));
    set(w, w->y, address(w, MM_Y));
    set(w, w->c, address(w, MM_C));
    tasks_write(w->p, &lent, end);
}

// From one slice to the next; at `first` its numbers are there.
static void next_slice(struct program * w, int first) {
    struct asm_program * p = w->p;
    if (w->converts) { // a block's later slices come with it
        int all = asm_label_new(p);
        read_number(w, MM_PARAM_LATER);
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
static void multiply_slice(struct program * w, int blocks, int columns, int skip, int done) {
    struct asm_program * p = w->p;
    if (w->converts) {
        convert_x(w);
        if (fuses(w)) {
            go_the_way(w);
            gather_blocks(w, blocks);
        }
        if (w->planes) {
            convert_planes(w);
        } else {
            convert_y(w, blocks, columns, skip);
        }
    }
    slice_of(w);
    if (fuses(w)) {
        struct fused f = fused_of(w);
        asm_jump(p, done);
        asm_label(p, blocks);
        f.columns = columns;
        fused_products(&f);
    }
}

// What the program does besides products of one slice after another (MM_PARAM_MANY).
static void other_tasks(struct program * w, int many, int end) {
    struct asm_program * p = w->p;
    int blocks_of_y = asm_label_new(p), tasks = asm_label_new(p);
    asm_label(p, many);
    emit_add_small(p, w->number, w->many, -MM_MANY_CONVERTS);
    asm_jump_if_nonzero(p, w->number, blocks_of_y);
    convert_many(w, end);
    asm_label(p, blocks_of_y);
    set(w, w->number, MM_MANY_TASK);
    emit_alu(p, AIE_BASIC_AND, w->number, w->number, w->many);
    asm_jump_if_nonzero(p, w->number, tasks);
    // What loops want for themselves; every run sets it.
    asm_release(p, w->xy_other);
    asm_release(p, w->c_other);
    asm_release(p, w->first_config);
    if (w->t->gemm_unpacks) {
        asm_release(p, w->many);
        unpack(w, end);
    } else {
        multiply_many(w, end);
    }
    asm_label(p, tasks);
    read_number(w, MM_PARAM_MANY);
    between_products(w, end);
}

// All tiles, slice by slice; then goes to the label.
static void multiply(struct program * w, int end) {
    struct asm_program * p = w->p;
    int tile = asm_label_new(p), slice = asm_label_new(p), first = asm_label_new(p);
    int done = asm_label_new(p), blocks = fuses(w) ? asm_label_new(p) : done;
    int columns = fuses(w) ? asm_label_new(p) : done, skip = asm_label_new(p);
    int many = w->has_tasks ? asm_label_new(p) : done;
    release(w, MM_LOCK_X_FULL);
    read_parameters(w);
    if (fuses(w)) {
        for (int i = 0; i < WAYS; i++) {
            w->ways[i] = asm_label_new(p);
        }
        choose_way(w);
    }
    if (w->has_tasks) {
        set_constants(w);
        asm_jump_if_nonzero(p, w->many, many);
    }
    asm_label(p, tile);
    copy(w, w->left, w->slices);
    if (w->converts) {
        set(w, w->block.first, first_config(w));
    } else {
        copy(w, w->block.first, w->first_config);
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
    copy(w, w->block.first, w->block.conf);
    asm_label(p, skip); // nothing was multiplied
    flip(w, w->x, w->xy_other, MM_XY_OTHER);
    flip(w, w->y, w->xy_other, MM_XY_OTHER);
    count_down(w, w->left);
    asm_jump_if_nonzero(p, w->left, slice);
    release(w, MM_LOCK_Y_EMPTY);
    release(w, MM_LOCK_X_EMPTY);
    if (fuses(w)) {
        sum_columns(w);
    }
    release(w, MM_LOCK_C_FULL);
    flip(w, w->c, w->c_other, MM_C_OTHER);
    count_down(w, w->tiles);
    asm_jump_if_nonzero(p, w->tiles, tile);
    asm_jump(p, end);
    if (w->has_tasks) {
        other_tasks(w, many, end);
    }
}

// For what makes numbers bf16.
static void round_to_even(struct program * w) {
    struct asm_reg mode = asm_local(w->p, ASM_R);
    emit_begin(w->p);
    set(w, mode, AIE_ROUND_NEAREST_EVEN);
    emit_control(w->p, AIE_CONTROL_ROUND, mode);
}

static void write_program(struct program * w) {
    int wait = asm_label_new(w->p);
    if (w->has_tasks) {
        round_to_even(w);
    }
    take_registers(w);
    asm_label(w->p, wait);
    acquire(w, MM_LOCK_X_FULL); // the parameters came before it
    multiply(w, wait);
}

// A run of CONVERT on the registers of products, and with their loop for f16.
static void convert_with_lent(struct program * w, struct asm_reg is_f16, int end) {
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
static void convert_apart(struct program * w, struct asm_reg is_f16, int end) {
    int f16 = asm_label_new(w->p);
    asm_jump_if_nonzero(w->p, is_f16, f16);
    give_back_registers(w);
    convert_section(w->p, DTYPE_F32, end);
    asm_label(w->p, f16);
    convert_section(w->p, DTYPE_F16, end);
}

static void write_vector_program(struct program * w) {
    struct asm_program * p = w->p;
    int wait = asm_label_new(p), convert = asm_label_new(p);
    if (lends_loop(w)) {
        w->f16_loop = asm_label_new(p);
        w->f32_loop = asm_label_new(p);
    }
    convert_begin(p);
    asm_label(p, wait);
    take_registers(w);
    acquire(w, MM_LOCK_X_FULL);
    struct asm_reg task = w->tiles; // which is not in use yet
    set(w, w->block.x, address(w, MM_TASK));
    emit_load_scalar(p, 0, LANE_32, A_REG(task), w->block.x, 0);
    asm_jump_if_nonzero(p, task, convert);
    multiply(w, wait);
    asm_label(p, convert);
    count_down(w, task);
    (lends_loop(w) ? convert_with_lent : convert_apart)(w, task, wait);
}

// Blocks become bf16, where gemm's loops fill gemm's memory.
static void write_unpack_program(struct program * w) {
    int wait = asm_label_new(w->p);
    round_to_even(w);
    take_registers(w);
    asm_label(w->p, wait);
    acquire(w, MM_LOCK_X_FULL); // the parameters came before it
    release(w, MM_LOCK_X_FULL);
    read_number(w, MM_PARAM_TILES);
    copy(w, w->tiles, w->number);
    unpack(w, wait);
}

enum task { TASK_MULTIPLY, TASK_CONVERT, TASK_UNPACK };

static enum status write_with(enum aie_arch arch, const struct mm_type * t, enum task task,
                              bool planes, struct asm_code * out, struct mm_bank_use * use,
                              struct error * err) {
    struct program w = {.t = t,
                        .machine = t->shared ? &mm_aie2p_shared : machines[arch],
                        .converts = task == TASK_CONVERT,
                        .unpacks = task == TASK_UNPACK,
                        .planes = planes,
                        .has_tasks = task == TASK_MULTIPLY && mm_has_tasks(t)};
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

enum status mm_unpack_program(enum aie_arch arch, bool planes, struct asm_code * out,
                              struct error * err) {
    return write_with(arch, mm_type(arch, DTYPE_BF16), TASK_UNPACK, planes, out, NULL, err);
}
