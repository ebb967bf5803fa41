// attention-matrix: the core program for prompts. It waits for parameters, then goes through items:
// makes its rows of q bf16, goes through the blocks of keys, and hands on what the sums have
// become. Where everything lies and what is turned over is said in attention-matrix.h; both
// products are those of aie2-matrix.c. A core without units takes part in all streams and computes
// nothing.
#include "attention-matrix-program.h"

#include "aie/ops/lanes/math-fast.h"
#include "aie/ops/lanes/pieces.h"
#include "aie/verbs/verbs.h"

struct mx_writer {
    struct at_writer w;
    struct asm_reg sixth; // pointer
    struct mx_registers product;
    int product_loop; // label
};

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

// ---- subroutines ----

// Sums times factors, both to 16 bits: to their own place, or as they leave.
static void times_factors(struct at_writer * w, bool leave) {
    struct lanes * l = &w->lanes;
    enum { STEP = QUERIES * VECTOR };
    int unit, query = asm_label_new(w->p);
    unit = mx_units_begin(w);
    mx_point_unit(w, 2, MX_FACTORS, 8);
    mx_point_unit(w, 0, MX_O, 12);
    mx_point_unit(w, 1, leave ? MX_OUT : MX_O, 12);
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
    emit_set_small(w->p, w->n, MX_DIM / 4);
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
    emit_set_small(w->p, next, leave ? MX_DIM / 4 * VECTOR / 2 : VECTOR / 2);
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

static void begin_rows(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    int four = asm_label_new(w->p);
    lanes_set_param(l, AT_SLOT_SCALE, at_local_param(w, MX_PARAM_SCALE));
    at_copy(w, w->at[0], at_local_param(w, MX_PARAM_RAW));
    int again = mx_units_begin(w);
    mx_point_unit(w, 1, MX_Q, 11);
    at_copy(w, w->b, w->at[1]);
    emit_set_small(w->p, w->d, QUERIES);
    asm_label(w->p, four);
    at_copy(w, w->at[1], w->b);
    emit_set_small(w->p, w->n, MX_DIM / 4);
    asm_loop_begin(w->p, w->n);
    struct val q = at_times(w, lanes_load(l, w->at[0], MEM_Q, false), lanes_get(AT_SLOT_SCALE));
    emit_store_bf16(w->p, MEM_S, lanes_bm(l, &q), w->at[1], 0);
    emit_advance(w->p, w->at[1], MX_GROUP);
    asm_loop_end(w->p);
    emit_add_small(w->p, w->b, w->b, HALF);
    emit_add_small(w->p, w->d, w->d, -1);
    asm_jump_if_nonzero(w->p, w->d, four);
    mx_units_end(w, again);
    fill_all(w, MEM_STATE, MX_STATE, MX_CORE_UNITS * QUERIES, MX_FAR_BELOW);
    fill_all(w, MEM_SUMS, MX_SUMS, MX_CORE_UNITS * QUERIES, 0);
    fill_all(w, MEM_O, MX_O, MX_CORE_UNITS * UNIT_BYTES / VECTOR, 0);
}

// Factors become 1 / the sums; 0 where these are 0.
static void invert_sums(struct at_writer * w) {
    struct lanes * l = &w->lanes;
    mx_point(w, 0, MX_SUMS);
    mx_point(w, 1, MX_FACTORS);
    mx_trips_of_units(w, 2);
    asm_loop_begin(w->p, w->n);
    asm_loop_alone(w->p);
    struct val sum = mx_across_keys(w, f_add, lanes_load(l, w->at[0], MEM_SUMS, false));
    struct val inverse = m_fast_inverse(l, m_fast_invert(l, sum));
    inverse = v_select(l, m_zero(l, sum), inverse, k_bits(l, 0));
    lanes_store(l, inverse, w->at[1], MEM_STATE, false);
    asm_loop_end(w->p);
}

// ---- products ----

static void multiply(struct mx_writer * m, const struct mx_product * of) {
    struct at_writer * w = &m->w;
    mx_trips_of_units(w, 3);
    mx_product_at(w->p, &m->product, of);
    at_call(w, m->product_loop);
}

static void scores(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    emit_add_small(w->p, m->product.first, m->product.conf, 1); // nothing is summed up yet
    multiply(m, &(struct mx_product){.x = at_address(w, MX_K),
                                     .x_step = 16 * MX_KEYS,
                                     .x_next = MX_TILE,
                                     .y = at_address(w, MX_Q),
                                     .y_step = 2 * MX_GROUP,
                                     .y_next = UNIT_BYTES / 2,
                                     .c = at_address(w, MX_S),
                                     .c_second = UNIT_BYTES / 2,
                                     .c_next = QUERIES * VECTOR,
                                     .c_more = UNIT_BYTES / 2,
                                     .turn = MX_TURN_NONE});
}

static void values(struct mx_writer * m) {
    struct at_writer * w = &m->w;
    emit_copy(w->p, m->product.first, m->product.conf);
    multiply(m, &(struct mx_product){.x = at_address(w, MX_V),
                                     .x_step = MX_TILE,
                                     .x_next = 2 * MX_X_APART,
                                     .y = at_address(w, MX_P),
                                     .y_step = 2 * MX_GROUP,
                                     .y_next = UNIT_BYTES / 2,
                                     .c = at_address(w, MX_O),
                                     .c_second = QUERIES * VECTOR,
                                     .c_next = 2 * QUERIES * VECTOR,
                                     .turn = MX_TURN_8X4});
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
// has a weight of 0, but must be a number.
static void give(struct at_writer * w, int lock) {
    emit_not_zero(w->p, w->n, at_local_param(w, MX_NOW_BLOCKS));
    at_release_by(w, lock, w->n);
}

static void clear_values(struct at_writer * w) {
    int none = asm_label_new(w->p);
    at_param(w, w->n, MX_PARAM_SHORT);
    asm_jump_if_zero(w->p, w->n, none);
    at_param(w, w->n, MX_NOW_BLOCKS);
    emit_add_small(w->p, w->n, w->n, -1);
    asm_jump_if_nonzero(w->p, w->n, none);
    fill_all(w, MEM_V, MX_V, 2 * MX_DIM * MX_KEYS / VECTOR, 0);
    asm_label(w->p, none);
}

static void give_mask(struct at_writer * w) {
    struct asm_reg is_mask = asm_local(w->p, ASM_R), is_block = asm_local(w->p, ASM_R);
    emit_not_zero(w->p, is_mask, at_local_param(w, MX_PARAM_MASK));
    emit_not_zero(w->p, is_block, at_local_param(w, MX_NOW_BLOCKS));
    emit_alu(w->p, AIE_BASIC_AND, w->n, is_mask, is_block);
    at_release_by(w, AT_LOCK_MASK_EMPTY, w->n);
}

static void place_all(struct asm_program * p) {
    static const struct {
        int memory;
        uint32_t at;
    } places[] = {{MEM_POOL, 0},
                  {MEM_Q, MX_Q},
                  {MEM_P, MX_P},
                  {MEM_K, MX_K},
                  {MEM_V, MX_V},
                  {MEM_S, MX_S},
                  {MEM_S_NEW, MX_S},
                  {MEM_O, MX_O},
                  {MEM_O_NEW, MX_O},
                  {MEM_STATE, MX_STATE},
                  {MEM_MASK, MX_MASK},
                  {MEM_SUMS, MX_SUMS},
                  {MEM_STATE_NEW, MX_STATE}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        asm_place(p, places[i].memory, places[i].at);
    }
}

static void write_program(struct mx_writer * m) {
    enum { CONFIG_BF16 = 28 };
    struct at_writer * w = &m->w;
    struct asm_program * p = w->p;
    int wait = asm_label_new(p), item = asm_label_new(p), begun = asm_label_new(p);
    int block = asm_label_new(p), k_done = asm_label_new(p), v_done = asm_label_new(p);
    int item_done = asm_label_new(p), no_mask = asm_label_new(p), first = asm_label_new(p);
    int no_out = asm_label_new(p);
    w->convert = asm_label_new(p);
    m->product_loop = asm_label_new(p);
    take_registers(m);
    at_begin_lanes(w);
    emit_set(p, m->product.conf, CONFIG_BF16);
    place_all(p);

    asm_label(p, wait);
    at_acquire(w, AT_LOCK_GO);
    at_keep(w, MX_NOW_ITEMS, at_local_param(w, MX_PARAM_ITEMS));
    asm_label(p, item);
    skip_without_units(w, no_out);
    at_acquire(w, AT_LOCK_OUT_EMPTY); // its place is among those where q comes
    asm_label(p, no_out);
    at_release(w, AT_LOCK_Q_EMPTY);
    at_acquire(w, AT_LOCK_Q_FULL);
    skip_without_units(w, begun);
    begin_rows(w);
    asm_label(p, begun);
    at_keep(w, MX_NOW_BLOCKS, at_local_param(w, MX_PARAM_BLOCKS));
    clear_values(w);
    at_release(w, AT_LOCK_K_EMPTY);
    at_release(w, AT_LOCK_V_EMPTY);
    give_mask(w);
    emit_set_small(p, w->n, 0);
    at_keep(w, MX_NOW_SUMS, w->n);

    asm_label(p, block);
    at_param(w, w->n, MX_NOW_BLOCKS);
    emit_add_small(p, w->n, w->n, -1);
    at_keep(w, MX_NOW_BLOCKS, w->n);
    at_param(w, w->n, MX_PARAM_MASK);
    asm_jump_if_zero(p, w->n, no_mask);
    at_acquire(w, AT_LOCK_MASK_FULL);
    asm_label(p, no_mask);
    at_acquire(w, AT_LOCK_K_FULL);
    skip_without_units(w, k_done);
    mx_skip_masked(w, k_done);
    at_param(w, w->n, MX_PARAM_K_TRIPS);
    at_set(w, w->a, at_address(w, MX_K));
    at_call(w, w->convert);
    scores(m);
    give(w, AT_LOCK_K_EMPTY);
    mx_end_keys(w);
    mx_add_mask(w);
    give_mask(w);
    mx_soft(w);
    at_acquire(w, AT_LOCK_V_FULL);
    at_param(w, w->n, MX_PARAM_V_TRIPS);
    at_set(w, w->a, at_address(w, MX_V));
    at_call(w, w->convert);
    at_param(w, w->n, MX_NOW_SUMS);
    asm_jump_if_zero(p, w->n, first);
    at_param(w, w->n, MX_NOW_RAISED);
    asm_jump_if_zero(p, w->n, first);
    times_factors(w, false);
    asm_label(p, first);
    values(m);
    at_keep(w, MX_NOW_SUMS, w->lanes.one);
    asm_jump(p, v_done);
    asm_label(p, k_done); // nothing is seen of it
    give(w, AT_LOCK_K_EMPTY);
    give_mask(w);
    at_acquire(w, AT_LOCK_V_FULL);
    asm_label(p, v_done);
    clear_values(w);
    give(w, AT_LOCK_V_EMPTY);
    at_param(w, w->n, MX_NOW_BLOCKS);
    asm_jump_if_nonzero(p, w->n, block);

    skip_without_units(w, item_done);
    invert_sums(w);
    times_factors(w, true);
    at_release(w, AT_LOCK_OUT_FULL);
    asm_label(p, item_done);
    at_param(w, w->n, MX_NOW_ITEMS);
    emit_add_small(p, w->n, w->n, -1);
    at_keep(w, MX_NOW_ITEMS, w->n);
    asm_jump_if_nonzero(p, w->n, item);
    asm_jump(p, wait);
    at_convert_block(w);
    asm_label(p, m->product_loop);
    mx_product_loop(p, &m->product, w->n);
    asm_jump_pointer(p, w->back);
}

enum status mx_program(enum aie_arch arch, struct at_code * out, struct error * err) {
    struct mx_writer m = {0};
    if (asm_new(arch, &m.w.p) != ST_OK) {
        return error_set(err, ST_NO_MEMORY, "aie: out of memory");
    }
    write_program(&m);
    enum status st = asm_finish(m.w.p, &out->code, err);
    lanes_pool_bytes(&m.w.lanes, out->pool);
    asm_free(m.w.p);
    return st == ST_OK ? ST_OK : error_prefix(err, st, "aie: attention_matrix");
}
