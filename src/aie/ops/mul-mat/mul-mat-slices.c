// mul-mat-slices: slices of products that are not bf16 yet become so: x of f32, y of f16, of blocks
// and of planes. Blocks that a chip multiplies as it unpacks them have ways of their own, which a
// run chooses once.
#include "mul-mat-program.h"

#include "aie/ops/blocks/blocks.h"
#include "aie/ops/convert/convert.h"

bool mw_fuses(const struct mm_writer * w) {
    return w->converts && !w->planes && mm_fuses(w->t, KERNEL_Q4_0);
}

void mw_read_number(struct mm_writer * w, int param) {
    struct asm_reg pointer = w->block.to[0];
    mw_set(w, pointer, mw_address(w, MM_PARAMS + 4 * param));
    emit_load_scalar(w->p, 0, LANE_32, A_REG(w->number), pointer, 0);
}

// From and to a place that is `by` bytes behind another.
void mw_point_behind(struct mm_writer * w, struct asm_reg pointer, struct asm_reg base,
                     int32_t by) {
    struct asm_reg n = asm_local(w->p, ASM_R), at = asm_local(w->p, ASM_R);
    mw_set(w, n, by);
    emit_alu(w->p, AIE_BASIC_ADD, at, base, n);
    mw_copy(w, pointer, at);
}

// Where there is much else in the program, one loop makes f16 bf16 and one f32, for CONVERT as
// well; behind them a pointer says where to go on.
bool mw_lends_loop(const struct mm_writer * w) {
    return mw_fuses(w);
}

static void go_on_at(struct mm_writer * w, int label) {
    if (mw_lends_loop(w)) {
        emit_set_label(w->p, w->block.to[1], label);
    }
}

// x, from behind its place.
void mw_convert_x(struct mm_writer * w) {
    struct asm_program * p = w->p;
    const struct mm_block * b = &w->block;
    int none = asm_label_new(p), offset = w->machine->offsets(w->t).x;
    mw_read_number(w, MM_PARAM_X_TRIPS);
    asm_jump_if_zero(p, w->number, none);
    mw_point_behind(w, b->to[0], w->x, -offset);
    mw_point_behind(w, b->from[0], w->x, MM_X_RAW - offset);
    mw_point_behind(w, b->from[1], w->x, MM_X_RAW - offset);
    go_on_at(w, none);
    if (mw_lends_loop(w)) {
        asm_label(p, w->f32_loop);
    }
    convert_loop(p, DTYPE_F32, false, w->number, b->from[0], b->from[1], b->to[0]);
    if (mw_lends_loop(w)) {
        asm_jump_pointer(p, b->to[1]);
    }
    asm_label(p, none);
}

static struct quant quant_of(const struct mm_writer * w) {
    const struct mm_block * b = &w->block;
    return (struct quant){.p = w->p,
                          .base = w->y,
                          .offset = w->converts ? w->machine->offsets(w->t).y : 0,
                          .number = w->number,
                          .left = w->left,
                          .wide = asm_target(w->p)->lane_products == 2,
                          .apart = (w->converts || w->takes_blocks) && w->machine->sets_apart,
                          .rows = w->converts && !w->machine->sets_apart,
                          .at_once = w->converts && w->machine->sets_apart,
                          .pointers = {b->x, b->y, b->from[0], b->from[1], b->to[0], b->to[1]}};
}

void mw_make_shared(struct mm_writer * w) {
    int none = asm_label_new(w->p);
    struct quant q = quant_of(w);
    asm_jump_if_zero(w->p, w->block.counts[1], none);
    quant_make_shared(&q, w->block.counts[1]);
    asm_label(w->p, none);
}

// y, where its blocks are those of ops/blocks.
void mw_convert_planes(struct mm_writer * w) {
    struct asm_program * p = w->p;
    const struct mm_block * b = &w->block;
    const struct asm_reg pointers[] = {b->to[0], b->from[0], b->from[1]};
    struct quant q = quant_of(w);
    int none = asm_label_new(p), plain = asm_label_new(p), loop = asm_label_new(p),
        slice = asm_label_new(p);
    if (w->converts) { // else it is blocks
        mw_read_number(w, MM_PARAM_Y_TRIPS);
        asm_jump_if_zero(p, w->number, none);
        mw_read_number(w, MM_PARAM_BITS);
        asm_jump_if_zero(p, w->number, plain);
        mw_set(w, w->y, mw_address(w, MM_Y + q.offset)); // of blocks there is one slice in bf16
    }
    mw_read_number(w, MM_PARAM_LATER);
    emit_alu(p, AIE_BASIC_AND, w->number, w->number, w->left);
    asm_jump_if_nonzero(p, w->number, slice);
    quant_next_block(&q);
    blocks_gather(&q);
    mw_read_number(w, MM_PARAM_D_AT);
    for (int i = 0; i < 3; i++) {
        mw_point_behind(w, pointers[i], w->number, mw_address(w, 0));
    }
    asm_jump(p, loop);
    asm_label(p, plain);
    for (int i = 0; i < 3 && w->converts; i++) {
        mw_point_behind(w, pointers[i], w->y, -q.offset);
    }
    asm_label(p, loop);
    mw_set(w, b->x, mw_address(w, MM_PARAMS + 4 * MM_PARAM_Y_TRIPS)); // the other pointers are set
    emit_load_scalar(p, 0, LANE_32, A_REG(w->number), b->x, 0);
    convert_loop(p, DTYPE_F16, false, w->number, b->from[0], b->from[1], b->to[0]);
    if (w->converts) {
        mw_read_number(w, MM_PARAM_BITS);
        asm_jump_if_zero(p, w->number, none);
    }
    asm_label(p, slice);
    blocks_slice(&q);
    asm_label(p, none);
}

static void point_all(struct mm_writer * w, int32_t at) {
    const struct mm_block * b = &w->block;
    const struct asm_reg pointers[] = {b->to[0], b->from[0], b->from[1]};
    for (int i = 0; i < 3; i++) {
        mw_set(w, pointers[i], mw_address(w, at));
    }
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
static void enter_fused(struct mm_writer * w, const struct quant * q, const struct y_sections * y) {
    struct asm_program * p = w->p;
    asm_label(p, w->ways[WAY_COLUMNS]);
    struct asm_reg later = asm_local(p, ASM_R);
    mw_set(w, later, kernel_block_once(KERNEL_Q4_K) / mm_slice_k(w->t) - 1);
    emit_alu(p, AIE_BASIC_AND, w->number, w->left, later);
    asm_jump_if_nonzero(p, w->number, y->multiply_columns);
    asm_jump(p, y->new_block);
    asm_label(p, w->ways[WAY_TWO_SLICES]); // of four the second and the last
    emit_alu(p, AIE_BASIC_AND, w->number, w->left, w->one);
    asm_jump_if_nonzero(p, w->number, q->pages);
    struct asm_reg third = asm_local(p, ASM_R);
    mw_set(w, third, 2);
    emit_alu(p, AIE_BASIC_AND, w->number, w->left, third);
    asm_jump_if_nonzero(p, w->number, y->skip);
    asm_jump(p, y->new_block);
    asm_label(p, w->ways[WAY_LONG]);
}

// The scales of a block: powers of two are ready at once, f16 goes through the loop.
static void gather_scales(struct mm_writer * w, struct quant * q, const struct y_sections * y) {
    struct asm_program * p = w->p;
    asm_label(p, y->new_block);
    quant_next_block(q);
    mw_read_number(w, MM_PARAM_BITS);
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
    mw_read_number(w, MM_PARAM_BITS);
    quant_gather(q);
    point_all(w, MM_SCALES);
    go_on_at(w, y->spread);
    asm_jump(p, y->loop);
}

static void convert_f16(struct mm_writer * w, const struct y_sections * y) {
    struct asm_program * p = w->p;
    const struct mm_block * b = &w->block;
    asm_label(p, y->loop);
    mw_set(w, b->x, mw_address(w, MM_PARAMS + 4 * MM_PARAM_Y_TRIPS)); // the other pointers are set
    emit_load_scalar(p, 0, LANE_32, A_REG(w->number), b->x, 0);
    if (mw_lends_loop(w)) {
        asm_label(p, w->f16_loop);
    }
    convert_loop(p, DTYPE_F16, false, w->number, b->from[0], b->from[1], b->to[0]);
    if (mw_lends_loop(w)) {
        asm_jump_pointer(p, b->to[1]);
        return;
    }
    if (w->converts) {
        mw_read_number(w, MM_PARAM_BITS);
        asm_jump_if_zero(p, w->number, y->none);
    }
    mw_read_number(w, MM_PARAM_LATER);
    asm_jump_if_zero(p, w->number, y->spread);
}

static void unpack_numbers(struct mm_writer * w, struct quant * q, const struct y_sections * y) {
    struct asm_program * p = w->p;
    asm_label(p, y->table);
    quant_long_table(q);
    asm_label(p, y->slice);
    mw_read_number(w, MM_PARAM_TABLED);
    asm_jump_if_nonzero(p, w->number, y->spread);
    quant_long_numbers(q);
    asm_jump(p, q->fused ? y->multiply_blocks : y->none);
    asm_label(p, y->spread);
    mw_read_number(w, MM_PARAM_BITS);
    quant_spread(q);
    if (q->fused) {
        asm_jump(p, y->multiply_blocks);
    }
}

// y becomes bf16 in its place. The loop that converts f16 makes bf16 of the scales of quantized
// blocks, too. Fused blocks, which are multiplied as they are unpacked, come here by labels of
// their own and go on at `multiply_blocks` or `multiply_columns`.
void mw_convert_y(struct mm_writer * w, int multiply_blocks, int multiply_columns, int skip) {
    struct asm_program * p = w->p;
    const struct mm_block * b = &w->block;
    const struct asm_reg pointers[] = {b->to[0], b->from[0], b->from[1]};
    bool fused = mw_fuses(w);
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
        mw_read_number(w, MM_PARAM_Y_TRIPS);
        asm_jump_if_zero(p, w->number, y.none);
        mw_read_number(w, MM_PARAM_BITS);
        asm_jump_if_zero(p, w->number, y.plain);
    }
    mw_read_number(w, MM_PARAM_LATER);
    if (!fused) {
        asm_jump_if_zero(p, w->number, y.is_short);
    }
    if (w->converts || w->takes_blocks) { // of these there is one slice in bf16
        mw_set(w, w->y, mw_address(w, MM_Y + offset));
    }
    emit_alu(p, AIE_BASIC_AND, w->number, w->number, w->left);
    asm_jump_if_nonzero(p, w->number, y.slice);
    gather_scales(w, &q, &y);
    asm_label(p, y.plain);
    for (int i = 0; i < 3 && w->converts; i++) {
        mw_point_behind(w, pointers[i], w->y, -offset);
    }
    go_on_at(w, y.none);
    convert_f16(w, &y);
    unpack_numbers(w, &q, &y);
    asm_label(p, y.none);
}

// Blocks that are multiplied as they are unpacked.
struct fused mw_fused_of(const struct mm_writer * w) {
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
void mw_choose_way(struct mm_writer * w) {
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
        mw_set(w, way, tests[i].way);
        mw_read_number(w, tests[i].param);
        emit_add_small(p, w->number, w->number, -tests[i].value);
        asm_jump_if_zero(p, w->number, chosen);
    }
    mw_set(w, way, WAY_LONG);
    asm_label(p, chosen);
    mw_set(w, pointer, mw_address(w, MM_TASK));
    emit_store_word(p, 0, way, pointer, 0);
    asm_release(p, way);
}

// To where a slice of y goes.
void mw_go_the_way(struct mm_writer * w) {
    struct asm_program * p = w->p;
    mw_read_number(w, MM_PARAM_TASK);
    for (int i = 0; i + 1 < WAYS; i++) {
        asm_jump_if_zero(p, w->number, w->ways[i]);
        mw_count_down(w, w->number);
    }
    asm_jump(p, w->ways[WAYS - 1]);
}

// Blocks that stay as they are, then go to the label.
void mw_gather_blocks(struct mm_writer * w, int multiply) {
    struct fused f = mw_fused_of(w);
    asm_label(w->p, w->ways[WAY_Q4_0]);
    fused_gather(&f);
    asm_jump(w->p, multiply);
}

// The end of a tile that is complete.
void mw_sum_columns(struct mm_writer * w) {
    struct asm_program * p = w->p;
    struct fused f = mw_fused_of(w);
    int none = asm_label_new(p);
    struct asm_reg columns = asm_local(p, ASM_R);
    mw_read_number(w, MM_PARAM_PASSES);
    mw_set(w, columns, MM_BY_COLUMNS);
    emit_alu(p, AIE_BASIC_AND, w->number, w->number, columns); // of either kind
    asm_jump_if_zero(p, w->number, none);
    columns_sum(&f);
    asm_label(p, none);
}
