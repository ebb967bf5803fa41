// attention-matrix: the core program for prompts. It waits for parameters, then goes through items:
// makes its rows of q bf16, goes through the blocks of keys, and hands on what the sums have
// become. Where everything lies and what is turned over is said in attention-matrix.h; both
// products are those of aie2-matrix.c. A core without units takes part in all streams and computes
// nothing.
#include "attention-matrix-program.h"

#include "aie/ops/lanes/math-fast.h"
#include "aie/ops/lanes/pieces.h"
#include "aie/verbs/verbs.h"

enum { Q_HALF = 2 * MX_UNIT * MX_DIM }; // bytes of a unit's

void mx_point(struct at_writer * w, int i, int32_t at) {
    at_set(w, w->at[i], at_address(w, at));
}

static void skip_without_units(struct at_writer * w, int label) {
    at_param(w, w->n, MX_PARAM_UNITS);
    asm_jump_if_zero(w->p, w->n, label);
}

void mx_trips_of_units(struct at_writer * w, int bits) {
    struct asm_reg by = asm_local(w->p, ASM_R);
    at_param(w, w->n, MX_PARAM_UNITS);
    emit_set_small(w->p, by, bits);
    emit_alu(w->p, AIE_BASIC_SHIFT, w->n, w->n, by);
}

int mx_units_begin(struct at_writer * w) {
    int again = asm_label_new(w->p);
    at_param(w, w->left, MX_PARAM_UNITS);
    emit_set_small(w->p, w->a, 0);
    asm_label(w->p, again);
    return again;
}

void mx_units_end(struct at_writer * w, int again) {
    emit_add_small(w->p, w->a, w->a, 1);
    emit_add_small(w->p, w->left, w->left, -1);
    asm_jump_if_nonzero(w->p, w->left, again);
}

void mx_point_unit(struct at_writer * w, int i, int32_t at, int bits) {
    struct asm_reg by = asm_local(w->p, ASM_R), base = asm_local(w->p, ASM_R),
                   sum = asm_local(w->p, ASM_R);
    emit_set_small(w->p, by, bits);
    emit_alu(w->p, AIE_BASIC_SHIFT, by, w->a, by);
    at_set(w, base, at_address(w, at));
    at_add(w, sum, base, by);
    at_copy(w, w->at[i], sum);
}

void mx_point_rows(struct mx_writer * m, int i, int32_t at, int bits) {
    mx_point_unit(&m->w, i, at, bits + m->to->halves - 1);
}

struct val mx_across_keys(struct at_writer * w, lanes_fold fold, struct val v) {
    for (int bytes = VECTOR / 2; bytes >= VECTOR / 4; bytes /= 2) {
        struct asm_reg by = asm_local(w->p, ASM_R), turned = emit_new_value(w->p);
        struct asm_reg x = lanes_x(&w->lanes, &v);
        emit_set_small(w->p, by, bytes);
        emit_shift_bytes(w->p, turned, x, x, by);
        v = fold(&w->lanes, v, val_x(turned));
    }
    return v;
}

struct asm_reg mx_constant(struct at_writer * w, uint32_t word) {
    struct asm_reg x = asm_global(w->p, ASM_X), r = asm_local(w->p, ASM_R);
    at_set(w, r, (int32_t) word);
    emit_splat(w->p, LANE_32, x, r);
    return x;
}

struct asm_reg mx_pieces(struct at_writer * w, struct asm_reg acc, struct asm_reg rest,
                         struct asm_reg half) {
    struct asm_reg twice = asm_local(w->p, ASM_X);
    for (int i = 0; i < 2; i++) {
        emit_to_bf16(w->p, asm_half(twice, i), acc);
    }
    emit_msc(w->p, rest, acc, twice, half, w->lanes.mul_config);
    emit_to_bf16(w->p, asm_half(twice, 1), rest);
    return twice;
}

// ---- subroutines ----

// Sums times factors, both to 16 bits: to their own place, or as they leave.
static void times_factors(struct mx_writer * m, bool leave) {
    struct at_writer * w = &m->w;
    struct lanes * l = &w->lanes;
    int vectors = m->to->halves * MX_DIM / 4;
    enum { STEP = QUERIES * VECTOR };
    int unit, query = asm_label_new(w->p);
    unit = mx_units_begin(w);
    mx_point_unit(w, 2, MX_FACTORS, 8);
    mx_point_rows(m, 0, m->to->o, 12);
    mx_point_rows(m, 1, leave ? m->to->out : m->to->o, 12);
    at_copy(w, w->b, w->at[0]);
    at_copy(w, w->c, w->at[1]);
    emit_set_small(w->p, w->d, QUERIES);
    asm_label(w->p, query);
    at_copy(w, w->at[0], w->b);
    at_copy(w, w->at[1], w->c);
    struct asm_reg by[2];
    for (int i = 0; i < 2; i++) {
        by[i] = asm_global(w->p, ASM_X);
    }
    struct pair pieces = p_halves(l, lanes_load(l, w->at[2], MEM_STATE, false));
    emit_move(w->p, by[0], pieces.x[0]);
    emit_move(w->p, by[1], p_swapped(l, pieces).x[0]);
    emit_set_small(w->p, w->n, vectors);
    asm_loop_begin(w->p, w->n);
    if (!leave) {
        asm_loop_alone(w->p); // seldom wanted
    }
    struct pair o = p_halves(l, at_load(w, MEM_O, w->at[0], 0));
    emit_advance(w->p, w->at[0], STEP);
    struct val product = p_mac(l, p_mul(l, o, pair_in(by[1])), o, pair_in(by[0]));
    emit_store(w->p, MEM_O_NEW, lanes_bm(l, &product), w->at[1], 0);
    emit_advance(w->p, w->at[1], leave ? VECTOR : STEP);
    asm_loop_end(w->p);
    for (int i = 0; i < 2; i++) {
        asm_release(w->p, by[i]);
    }
    struct asm_reg next = asm_local(w->p, ASM_R);
    emit_set_small(w->p, next, VECTOR);
    at_add(w, w->b, w->b, next);
    at_set(w, next, leave ? vectors * VECTOR / 2 : VECTOR / 2);
    at_add(w, w->c, w->c, next);
    at_add(w, w->c, w->c, next);
    emit_add_small(w->p, w->d, w->d, -1);
    asm_jump_if_nonzero(w->p, w->d, query);
    mx_units_end(w, unit);
}

void mx_fill(struct at_writer * w, int memory, struct val v) {
    struct asm_reg x = asm_global(w->p, (enum asm_class) asm_target(w->p)->value_class);
    emit_move(w->p, x, lanes_x(&w->lanes, &v));
    asm_loop_begin(w->p, w->n);
    asm_loop_alone(w->p);
    emit_store_next(w->p, memory, x, w->at[0]);
    asm_loop_end(w->p);
    asm_release(w->p, x);
}

static void fill_all(struct at_writer * w, int memory, int32_t at, int vectors, float v) {
    mx_point(w, 0, at);
    at_set(w, w->n, vectors);
    mx_fill(w, memory, v == 0 ? k_bits(&w->lanes, 0) : k_float(&w->lanes, v));
}

// ---- rows ----

static void begin_rows(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    struct lanes * l = &w->lanes;
    int four = asm_label_new(w->p);
    struct asm_reg half = mx_constant(w, mx_twice(0.5f)), scale[2];
    for (int i = 0; i < 2; i++) {
        scale[i] = asm_global(w->p, ASM_X);
        emit_splat(w->p, LANE_32, scale[i], at_local_param(w, MX_PARAM_SCALE + i));
    }
    at_copy(w, w->at[0], at_local_param(w, MX_PARAM_RAW));
    int again = mx_units_begin(w);
    mx_point_rows(m, 1, MX_Q, 11);
    at_copy(w, w->b, w->at[1]);
    emit_set_small(w->p, w->d, QUERIES);
    asm_label(w->p, four);
    at_copy(w, w->at[1], w->b);
    emit_set_small(w->p, w->n, m->to->halves * MX_DIM / 4);
    asm_loop_begin(w->p, w->n);
    struct asm_reg q = asm_local(w->p, ASM_BM), small = asm_local(w->p, ASM_BM),
                   rest = asm_local(w->p, ASM_BM), made = asm_local(w->p, ASM_BM);
    emit_load_next(w->p, MEM_Q, q, w->at[0]);
    struct asm_reg pieces = mx_pieces(w, q, rest, half);
    emit_mul(w->p, small, pieces, scale[1], l->mul_config);
    emit_mac(w->p, made, small, pieces, scale[0], l->mul_config);
    emit_store_bf16(w->p, MEM_S, made, w->at[1], 0);
    emit_advance(w->p, w->at[1], MX_GROUP);
    asm_loop_end(w->p);
    emit_add_small(w->p, w->b, w->b, HALF);
    emit_add_small(w->p, w->d, w->d, -1);
    asm_jump_if_nonzero(w->p, w->d, four);
    mx_units_end(w, again);
    asm_release(w->p, scale[1]);
    asm_release(w->p, scale[0]);
    asm_release(w->p, half);
    fill_all(w, MEM_STATE, MX_STATE, MX_CORE_UNITS * QUERIES, MX_ORIGIN + MX_FAR_BELOW);
    fill_all(w, MEM_SUMS, MX_SUMS, MX_CORE_UNITS * QUERIES, 0);
}

// Factors become 1 / the sums; 0 where these are 0.
static void invert_sums(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    mx_point(w, 0, MX_SUMS);
    mx_point(w, 1, MX_FACTORS);
    at_param(w, w->a, MX_PARAM_OUT_UP);
    mx_trips_of_units(w, 2);
    asm_loop_begin(w->p, w->n);
    asm_loop_alone(w->p);
    struct val sum = mx_across_keys(w, f_add, lanes_load(l, w->at[0], MEM_SUMS, false));
    struct val inverse = m_fast_inverse(l, m_fast_invert(l, sum));
    struct asm_reg up = emit_new_value(w->p);
    emit_splat(w->p, LANE_32, up, w->a);
    inverse = v_select(l, m_zero(l, sum), i_add(l, inverse, val_x(up)), k_bits(l, 0));
    lanes_store(l, inverse, w->at[1], MEM_STATE, false);
    asm_loop_end(w->p);
}

// ---- products ----

static void multiply(struct mx_writer * m, const struct mx_product * of, int half) {
    struct at_writer * w = &m->w;
    mx_trips_of_units(w, 3);
    (half ? mx_product_again : mx_product_at)(w->p, &m->product, of);
    at_call(w, m->product_loop);
}

// Where a half of k or v is.
static int32_t place_of(int half) {
    return half ? MX_V : MX_K;
}

static void scores(struct mx_writer * m, int half) {
    struct at_writer * w = &m->w;
    int nothing_yet = half == 0;
    emit_add_small(w->p, m->product.first, m->product.conf, nothing_yet);
    multiply(m,
             &(struct mx_product){.x = at_address(w, place_of(half)),
                                  .x_step = 16 * MX_KEYS,
                                  .x_next = MX_TILE,
                                  .y = at_address(w, MX_Q + half * Q_HALF),
                                  .y_step = 2 * MX_GROUP,
                                  .y_next = m->to->halves * Q_HALF,
                                  .c = at_address(w, m->to->s),
                                  .c_second = UNIT_BYTES / 2,
                                  .c_next = QUERIES * VECTOR,
                                  .c_more = UNIT_BYTES / 2,
                                  .turn = MX_TURN_NONE},
             half);
}

static void values(struct mx_writer * m, int32_t at, int half) {
    struct at_writer * w = &m->w;
    struct asm_reg none = asm_local(w->p, ASM_R); // 1: nothing is summed up yet
    emit_alu(w->p, AIE_BASIC_SUB, none, w->lanes.one, at_local_param(w, MX_NOW_SUMS));
    emit_alu(w->p, AIE_BASIC_ADD, m->product.first, m->product.conf, none);
    multiply(m,
             &(struct mx_product){.x = at_address(w, at),
                                  .x_step = MX_TILE,
                                  .x_next = 2 * MX_X_APART,
                                  .y = at_address(w, m->to->p),
                                  .y_step = 2 * MX_GROUP,
                                  .y_next = UNIT_BYTES / 2,
                                  .c = at_address(w, m->to->o + half * UNIT_BYTES),
                                  .c_second = QUERIES * VECTOR,
                                  .c_next = 2 * QUERIES * VECTOR,
                                  .c_more = (m->to->halves - 1) * UNIT_BYTES,
                                  .turn = MX_TURN_8X4},
             half);
}

// ---- the program ----

static void take_registers(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    struct asm_reg * const scalars[] = {
        &w->left,          &w->n,           &w->a, &w->b, &w->c, &w->d, &w->step, &m->product.conf,
        &m->product.first, &m->product.mode};
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        *scalars[i] = asm_global(w->p, ASM_R);
    }
    for (int i = 0; i < AT_POINTERS; i++) {
        m->product.pointers[i] = w->at[i] = asm_global(w->p, ASM_P);
    }
    m->product.pointers[AT_POINTERS] = m->sixth = asm_global(w->p, ASM_P);
    w->back = asm_global(w->p, ASM_P);
}

// Gives a buffer for the next block, where there is one. Of a short one, what is behind its values
// has a weight of 0, but must be a number. With halves it is that of an earlier block.
static void give(struct at_writer * w, int lock) {
    emit_not_zero(w->p, w->n, at_local_param(w, MX_NOW_BLOCKS));
    at_release_by(w, lock, w->n);
}

static void clear_values(struct at_writer * w, int32_t from) {
    int none = asm_label_new(w->p);
    at_param(w, w->n, MX_PARAM_SHORT);
    asm_jump_if_zero(w->p, w->n, none);
    at_param(w, w->n, MX_NOW_BLOCKS);
    emit_add_small(w->p, w->n, w->n, -1);
    asm_jump_if_nonzero(w->p, w->n, none);
    int32_t end = MX_V + 2 * MX_DIM * MX_KEYS;
    fill_all(w, MEM_V, from, (end - from) / VECTOR, 0);
    asm_label(w->p, none);
}

static void give_mask(struct at_writer * w) {
    struct asm_reg is_mask = asm_local(w->p, ASM_R), is_block = asm_local(w->p, ASM_R);
    emit_not_zero(w->p, is_mask, at_local_param(w, MX_PARAM_MASK));
    emit_not_zero(w->p, is_block, at_local_param(w, MX_NOW_BLOCKS));
    emit_alu(w->p, AIE_BASIC_AND, w->n, is_mask, is_block);
    at_release_by(w, AT_LOCK_MASK_EMPTY, w->n);
}

// Goes to the label where the mask takes nothing away.
static void skip_added(struct at_writer * w, int label) {
    at_param(w, w->n, MX_NOW_SEEN);
    emit_add_small(w->p, w->n, w->n, -AT_SEEN_ALL);
    asm_jump_if_zero(w->p, w->n, label);
}

// One item less; q of the next one may come where keys and values were.
static void next_item(struct at_writer * w) {
    at_param(w, w->n, MX_NOW_ITEMS);
    emit_add_small(w->p, w->n, w->n, -1);
    at_keep(w, MX_NOW_ITEMS, w->n);
    emit_not_zero(w->p, w->n, at_local_param(w, MX_NOW_ITEMS));
    at_release_by(w, AT_LOCK_Q_EMPTY, w->n);
}

static void place_all(struct asm_program * p, const struct mx_layout * to) {
    const struct {
        int memory;
        int32_t at;
    } places[] = {
        {MEM_POOL, 0},         {MEM_Q, MX_Q},                       // and MEM_P_NEW
        {MEM_P, to->p},        {MEM_K, MX_K},       {MEM_V, to->e}, // which is MEM_E
        {MEM_S, to->s},        {MEM_S_NEW, to->s},  {MEM_O, to->o},      {MEM_O_NEW, to->o},
        {MEM_STATE, MX_STATE}, {MEM_MASK, MX_MASK}, {MEM_SUMS, MX_SUMS}, {MEM_STATE_NEW, MX_STATE}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        asm_place(p, places[i].memory, (uint32_t) places[i].at);
    }
}

// Takes rows of q, and gives room for the first block.
static void begin_item(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    int begun = asm_label_new(w->p);
    at_acquire(w, AT_LOCK_Q_FULL);
    skip_without_units(w, begun);
    begin_rows(m);
    at_acquire(w, AT_LOCK_OUT_EMPTY); // its place is that of scores, or of v
    asm_label(w->p, begun);
    at_keep(w, MX_NOW_BLOCKS, at_local_param(w, MX_PARAM_BLOCKS));
    clear_values(w, m->to->halves > 1 ? MX_K : MX_V);
    at_release(w, AT_LOCK_K_EMPTY);
    at_release(w, AT_LOCK_V_EMPTY);
    give_mask(w);
    emit_set_small(w->p, w->n, 0);
    at_keep(w, MX_NOW_SUMS, w->n);
}

// Waits for a block's mask and k; goes to the label where there is nothing to do.
static void begin_block(struct at_writer * w, int nothing) {
    int no_mask = asm_label_new(w->p);
    at_param(w, w->n, MX_NOW_BLOCKS);
    emit_add_small(w->p, w->n, w->n, -1);
    at_keep(w, MX_NOW_BLOCKS, w->n);
    at_param(w, w->n, MX_PARAM_MASK);
    asm_jump_if_zero(w->p, w->n, no_mask);
    at_acquire(w, AT_LOCK_MASK_FULL);
    asm_label(w->p, no_mask);
    at_acquire(w, AT_LOCK_K_FULL);
    skip_without_units(w, nothing);
    mx_skip_masked(w, nothing);
}

static void convert(struct at_writer * w, int trips, int32_t at) {
    at_param(w, w->n, trips);
    at_set(w, w->a, at_address(w, at));
    at_call(w, w->convert);
}

// From k to p; k's and the mask's buffers are given back, with halves both places for v's.
static void block_scores(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    bool halves = m->to->halves > 1;
    int added = asm_label_new(w->p);
    convert(w, MX_PARAM_K_TRIPS, MX_K);
    scores(m, 0);
    if (halves) {
        at_release(w, AT_LOCK_K_EMPTY);
        at_acquire(w, AT_LOCK_V_FULL);
        convert(w, MX_PARAM_K_TRIPS, MX_V);
        scores(m, 1);
        at_release(w, AT_LOCK_V_EMPTY);
    } else {
        give(w, AT_LOCK_K_EMPTY);
    }
    mx_end_keys(m);
    skip_added(w, added);
    at_call(w, m->add_mask);
    asm_label(w->p, added);
    if (!m->to->in_mask) {
        give_mask(w);
    }
    mx_soft(m);
    if (m->to->in_mask) {
        give_mask(w);
    }
}

// From p and v to sums.
static void block_values(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    bool halves = m->to->halves > 1;
    int first = asm_label_new(w->p);
    at_acquire(w, halves ? AT_LOCK_K_FULL : AT_LOCK_V_FULL);
    convert(w, MX_PARAM_V_TRIPS, halves ? MX_K : MX_V);
    at_param(w, w->n, MX_NOW_SUMS);
    asm_jump_if_zero(w->p, w->n, first);
    at_param(w, w->n, MX_NOW_RAISED);
    asm_jump_if_zero(w->p, w->n, first);
    times_factors(m, false);
    asm_label(w->p, first);
    values(m, halves ? MX_K : MX_V, 0);
    if (halves) {
        give(w, AT_LOCK_K_EMPTY);
        at_acquire(w, AT_LOCK_V_FULL);
        convert(w, MX_PARAM_V_TRIPS, MX_V);
        values(m, MX_V, 1);
    }
    at_keep(w, MX_NOW_SUMS, w->lanes.one);
}

// A block that nobody wants; k, or its first half, is there.
static void pass_block(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    if (m->to->halves > 1) {
        at_release(w, AT_LOCK_K_EMPTY);
        at_acquire(w, AT_LOCK_V_FULL);
        at_release(w, AT_LOCK_V_EMPTY);
        at_acquire(w, AT_LOCK_K_FULL);
    }
    give(w, AT_LOCK_K_EMPTY);
    give_mask(w);
    at_acquire(w, AT_LOCK_V_FULL);
}

// Sums become results. Those of rows that saw nothing were never written.
static void end_item(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    int vectors = m->to->halves * MX_CORE_UNITS * UNIT_BYTES / VECTOR;
    int done = asm_label_new(w->p), summed = asm_label_new(w->p);
    skip_without_units(w, done);
    at_param(w, w->n, MX_NOW_SUMS);
    asm_jump_if_nonzero(w->p, w->n, summed);
    fill_all(w, MEM_O, m->to->o, vectors, 0);
    asm_label(w->p, summed);
    invert_sums(w);
    times_factors(m, true);
    at_release(w, AT_LOCK_OUT_FULL);
    asm_label(w->p, done);
}

static void write_subroutines(struct mx_writer * m) {
    struct asm_program * p = m->w.p;
    asm_section(p);
    mx_convert(&m->w);
    mx_add_mask(m);
    mx_powers(m);
    asm_section(p);
    asm_label(p, m->product_loop);
    mx_product_loop(p, &m->product, m->w.n);
    asm_jump_pointer(p, m->w.back);
}

static void begin_program(struct mx_writer * m) {
    enum { CONFIG_BF16 = 28 };
    struct at_writer * w = &m->w;
    int * const labels[] = {&w->convert, &m->product_loop, &m->add_mask, &m->powers};
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        *labels[i] = asm_label_new(w->p);
    }
    take_registers(m);
    at_begin_lanes(w);
    emit_set(w->p, m->product.conf, CONFIG_BF16);
    w->lanes.shift0 = asm_global(w->p, ASM_S);
    emit_set_shift(w->p, w->lanes.shift0, 0);
    emit_control(w->p, AIE_CONTROL_SATURATE, w->lanes.one);
    place_all(w->p, m->to);
}

static void write_program(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    struct asm_program * p = w->p;
    int wait = asm_label_new(p), item = asm_label_new(p), block = asm_label_new(p);
    int nothing = asm_label_new(p), done = asm_label_new(p);
    begin_program(m);
    asm_label(p, wait);
    at_acquire(w, AT_LOCK_GO);
    at_keep(w, MX_NOW_ITEMS, at_local_param(w, MX_PARAM_ITEMS));
    at_release(w, AT_LOCK_Q_EMPTY);
    asm_label(p, item);
    begin_item(m);
    asm_label(p, block);
    begin_block(w, nothing);
    block_scores(m);
    block_values(m);
    asm_jump(p, done);
    asm_label(p, nothing);
    pass_block(m);
    asm_label(p, done);
    if (m->to->halves == 1) {
        clear_values(w, MX_V);
    }
    give(w, AT_LOCK_V_EMPTY);
    at_param(w, w->n, MX_NOW_BLOCKS);
    asm_jump_if_nonzero(p, w->n, block);
    next_item(w);
    end_item(m);
    at_param(w, w->n, MX_NOW_ITEMS);
    asm_jump_if_nonzero(p, w->n, item);
    asm_jump(p, wait);
    write_subroutines(m);
}

enum status mx_program(enum aie_arch arch, int halves, struct at_code * out, struct error * err) {
    struct mx_writer m = {.to = &mx_layouts[halves - 1]};
    if (asm_new(arch, &m.w.p) != ST_OK) {
        return error_set(err, ST_NO_MEMORY, "aie: out of memory");
    }
    write_program(&m);
    enum status st = asm_finish(m.w.p, &out->code, err);
    lanes_pool_bytes(&m.w.lanes, out->pool);
    asm_free(m.w.p);
    return st == ST_OK ? ST_OK : error_prefix(err, st, "aie: attention_matrix");
}
