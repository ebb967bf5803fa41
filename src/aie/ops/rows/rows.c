// rows: the driver of the row programs. It waits for parameters, takes chunks, and walks rows and
// passes; what a pass does is in rows-ops.c. A pass has an entry, which sets its state to nothing
// and is taken once a row, and a body, which is taken once for each chunk and adds to the state.
// Every lock is back at its first value when a run is over.
//
// Program memory is short and a branch or a lock costs a dozen bundles, so chunks are taken and
// given back in one place each; what differs between runs is in the values that the locks are moved
// by.
#include "rows.h"

#include "aie/verbs/verbs.h"

#include <string.h>

void rows_set(struct rows_writer * w, struct asm_reg r, int32_t value) {
    emit_set(w->p, r, value);
}

void rows_copy(struct rows_writer * w, struct asm_reg to, struct asm_reg from) {
    emit_copy(w->p, to, from);
}

int32_t rows_slot_offset(int slot) {
    return lanes_slot_offset(slot);
}

void rows_param(struct rows_writer * w, struct asm_reg to, int param) {
    emit_load_word(w->p, MEM_PARAMS, to, w->lanes.pool,
                   rows_slot_offset(RW_SLOT_PARAMS) + 4 * param);
}

void rows_set_param(struct rows_writer * w, int param, struct asm_reg from) {
    emit_store_word(w->p, MEM_PARAMS, from, w->lanes.pool,
                    rows_slot_offset(RW_SLOT_PARAMS) + 4 * param);
}

void rows_label_to(struct rows_writer * w, struct asm_reg pointer, int label) {
    emit_set_label(w->p, pointer, label);
}

struct val rows_get_lanes(struct rows_writer * w, int slot) {
    struct asm_reg x = emit_new_value(w->p);
    for (int half = 0; half < 2; half++) { // a slot is aligned for half a vector only
        emit_load(w->p, MEM_POOL, asm_half(x, half), w->lanes.pool, rows_slot_offset(slot + half));
    }
    return val_x(x);
}

// ---- scalars ----

static void acquire(struct rows_writer * w, int lock, struct asm_reg value) {
    asm_lock_acquire(w->p, asm_target(w->p)->own_locks + lock, value);
}

static void release(struct rows_writer * w, int lock, struct asm_reg value) {
    asm_lock_release(w->p, asm_target(w->p)->own_locks + lock, value);
}

static struct asm_reg local_param(struct rows_writer * w, int param) {
    struct asm_reg r = asm_local(w->p, ASM_R);
    rows_param(w, r, param);
    return r;
}

static struct asm_reg scalar2(struct rows_writer * w, enum aie_basic op, struct asm_reg a,
                              struct asm_reg b) {
    struct asm_reg d = asm_local(w->p, ASM_R);
    emit_alu(w->p, op, d, a, b);
    return d;
}

static void add_to(struct rows_writer * w, struct asm_reg r, struct asm_reg n) {
    emit_alu(w->p, AIE_BASIC_ADD, r, r, n);
}

static void count_down(struct rows_writer * w, struct asm_reg r) {
    emit_add_small(w->p, r, r, -1);
}

// All ones where r is 0, else 0.
static struct asm_reg ones_if_zero(struct rows_writer * w, struct asm_reg r) {
    struct asm_reg is_zero = asm_local(w->p, ASM_R), d = asm_local(w->p, ASM_R);
    emit_not_zero(w->p, is_zero, r);
    emit_add_small(w->p, d, is_zero, -1);
    return d;
}

// ---- start of a run ----

static void choose_op(struct rows_writer * w, const int labels[RW_MAX_INDEX], int n) {
    int chosen = asm_label_new(w->p);
    for (int i = 0; i < n; i++) {
        if (i > 0) {
            asm_jump_if_zero(w->p, w->flag, chosen);
            count_down(w, w->flag);
        }
        rows_label_to(w, w->first, labels[i]);
    }
    asm_label(w->p, chosen);
    rows_copy(w, w->stage, w->first);
}

static void start_run(struct rows_writer * w, const int labels[RW_MAX_INDEX]) {
    const struct rows_program * program = w->program;
    acquire(w, RW_LOCK_GO, w->lanes.minus_one);
    if (program->sink) {
        rows_param(w, w->flag, RW_PARAM_SINK_TAKE);
        acquire(w, RW_LOCK_SINK, w->flag);
    }
    rows_param(w, w->flag, RW_PARAM_OP);
    rows_param(w, w->streamed, RW_PARAM_STREAMED);
    rows_param(w, w->chunks, RW_PARAM_CHUNKS);
    rows_param(w, w->more, RW_PARAM_MORE);
    for (int i = 0; i < program->n_args; i++) {
        lanes_set_param(&w->lanes, RW_SLOT_ARGS + i, local_param(w, RW_PARAM_ARGS + i));
    }
    if (program->total) {
        struct asm_reg first = emit_new_mask(w->p, LANE_32);
        rows_param(w, first, RW_PARAM_FIRST);
        lanes_put(
            &w->lanes, RW_SLOT_TOTAL,
            v_select(&w->lanes, mask_in(first), lanes_get(RW_SLOT_TOTAL), k_bits(&w->lanes, 0)));
    }
    rows_set(w, w->a, rows_address(w, RW_BUFFER_A));
    rows_set(w, w->out, rows_address(w, RW_BUFFER_OUT));
    if (program->prepare) {
        program->prepare(w);
    }
    choose_op(w, labels, program->n_indices);
}

// ---- chunks, rows, passes ----

// trips and rows are set here and free for other numbers before.
static void take_chunk(struct rows_writer * w) {
    rows_param(w, w->flag, RW_PARAM_B_TAKE);
    rows_param(w, w->trips, RW_PARAM_OUT_LOCK);
    rows_param(w, w->rows, RW_PARAM_OUT_TAKE);
    acquire(w, RW_LOCK_A_FULL, w->lanes.minus_one);
    acquire(w, RW_LOCK_B_FULL, w->flag);
    asm_lock_acquire_any(w->p, w->trips, w->rows);

    struct asm_reg given = asm_local(w->p, ASM_R), to_b = asm_local(w->p, ASM_R),
                   zero = asm_local(w->p, ASM_R);
    emit_set_small(w->p, zero, 0);
    emit_alu(w->p, AIE_BASIC_SUB, given, zero, w->rows);
    rows_set_param(w, RW_PARAM_OUT_GIVE, given);
    rows_copy(w, w->row_a, w->a);
    rows_set(w, to_b, RW_BUFFER_B - RW_BUFFER_A);
    emit_alu(w->p, AIE_BASIC_ADD, w->row_b, w->a, to_b);
    rows_copy(w, w->row_out, w->out);

    struct asm_reg last = ones_if_zero(w, w->more);
    struct asm_reg not_last = scalar2(w, AIE_BASIC_XOR, last, w->lanes.minus_one);
    for (int i = 0; i < 2; i++) {
        rows_set_param(w, RW_PARAM_NOW_TAIL0 + i,
                       scalar2(w, AIE_BASIC_OR, local_param(w, RW_PARAM_TAIL0 + i), not_last));
    }
    rows_set_param(w, RW_PARAM_NOW_TAIL_AT,
                   scalar2(w, AIE_BASIC_AND, local_param(w, RW_PARAM_TAIL_AT), last));
    rows_param(w, w->trips, RW_PARAM_TRIPS);
    add_to(w, w->trips, scalar2(w, AIE_BASIC_AND, local_param(w, RW_PARAM_TRIPS_DIFF), last));
    count_down(w, w->chunks);
    rows_param(w, w->rows, RW_PARAM_ROWS);
    struct asm_reg last_chunk = ones_if_zero(w, w->chunks);
    add_to(w, w->rows, scalar2(w, AIE_BASIC_AND, local_param(w, RW_PARAM_ROWS_DIFF), last_chunk));
}

// Out last: its arrival is what the instruction stream waits for, and by then all is done.
static void give_chunk(struct rows_writer * w) {
    rows_param(w, w->flag, RW_PARAM_B_GIVE);
    rows_param(w, w->trips, RW_PARAM_OUT_GIVE);
    release(w, RW_LOCK_A_EMPTY, w->lanes.one);
    release(w, RW_LOCK_B_EMPTY, w->flag);
    release(w, RW_LOCK_OUT_FULL, w->trips);
    struct asm_reg other = asm_local(w->p, ASM_R);
    rows_set(w, other, RW_CHUNK_BYTES); // what turns ping into pong
    emit_alu(w->p, AIE_BASIC_XOR, w->a, w->a, other);
    struct asm_reg kept = ones_if_zero(w, w->trips);
    struct asm_reg given = scalar2(w, AIE_BASIC_XOR, kept, w->lanes.minus_one);
    emit_alu(w->p, AIE_BASIC_XOR, w->out, w->out, scalar2(w, AIE_BASIC_AND, other, given));
}

// Where the passes of a row go: on in the row where it is resident, to the next chunk where not.
static void between_passes(struct rows_writer * w, int row, int chunk_done) {
    struct asm_program * p = w->p;
    asm_label(p, w->last_pass);
    struct asm_reg lock = asm_local(p, ASM_R);
    emit_set_small(p, lock, asm_target(p)->own_locks + RW_LOCK_OUT_EMPTY);
    rows_set_param(w, RW_PARAM_OUT_LOCK, lock); // as it is already, where the row is resident
    rows_set_param(w, RW_PARAM_OUT_TAKE, w->lanes.minus_one);
    asm_label(p, w->next_pass);
    asm_jump_if_zero(p, w->streamed, row);
    rows_param(w, w->more, RW_PARAM_MORE);
    asm_jump(p, chunk_done);
    asm_label(p, w->next_chunk);
    count_down(w, w->more);
    asm_jump(p, chunk_done);
}

// A streamed row that follows another begins as the first did.
static void begin_anew(struct rows_writer * w) {
    rows_param(w, w->more, RW_PARAM_MORE);
    rows_set_param(w, RW_PARAM_OUT_LOCK, local_param(w, RW_PARAM_ROW_LOCK));
    rows_set_param(w, RW_PARAM_OUT_TAKE, local_param(w, RW_PARAM_ROW_TAKE));
}

static void next_row(struct rows_writer * w, bool halves, int row, int chunk_done) {
    asm_label(w->p, w->row_done);
    if (!w->program->total) {
        begin_anew(w);
    }
    if (halves) {
        struct asm_reg odd = local_param(w, RW_PARAM_B_ODD);
        rows_set_param(w, RW_PARAM_B_ODD,
                       scalar2(w, AIE_BASIC_XOR, odd, local_param(w, RW_PARAM_B_FLIP)));
    }
    rows_copy(w, w->stage, w->first);
    count_down(w, w->rows);
    asm_jump_if_zero(w->p, w->rows, chunk_done);
    add_to(w, w->row_a, local_param(w, RW_PARAM_STRIDE_A));
    add_to(w, w->row_b, local_param(w, RW_PARAM_STRIDE_B));
    add_to(w, w->row_out, local_param(w, RW_PARAM_STRIDE_OUT));
    asm_jump(w->p, row);
}

// ---- totals ----

static struct val fold_total(struct rows_writer * w, struct asm_reg integer, struct val a,
                             struct val b) {
    struct val count = i_add(&w->lanes, a, b);
    return v_select(&w->lanes, mask_in(integer), f_add(&w->lanes, a, b), count);
}

// A total: from the west, with this column's share, to the east or out.
static void write_total(struct rows_writer * w) {
    struct lanes * l = &w->lanes;
    int no_west = asm_label_new(w->p), here = asm_label_new(w->p);
    asm_label(w->p, w->total);
    rows_param(w, w->flag, RW_PARAM_FROM_WEST);
    rows_param(w, w->trips, RW_PARAM_TO_EAST);
    asm_jump_if_zero(w->p, w->flag, no_west);
    asm_lock_acquire(w->p, asm_target(w->p)->west_locks + RW_LOCK_PARTIAL, l->minus_one);
    struct asm_reg west = emit_new_value(w->p), integer = emit_new_mask(w->p, LANE_32);
    rows_param(w, integer, RW_PARAM_INTEGER);
    rows_set(w, w->ps, (int32_t) asm_target(w->p)->west_window + RW_PARTIAL);
    emit_load(w->p, MEM_B, west, w->ps, 0);
    lanes_put(&w->lanes, RW_SLOT_TOTAL,
              fold_total(w, integer, lanes_get(RW_SLOT_TOTAL), val_x(west)));
    asm_label(w->p, no_west);
    asm_jump_if_zero(w->p, w->trips, here);
    struct val total = lanes_get(RW_SLOT_TOTAL);
    lanes_x(l, &total);
    rows_set(w, w->ps, rows_address(w, RW_PARTIAL));
    emit_store(w->p, MEM_B, total.x[0], w->ps, 0);
    release(w, RW_LOCK_PARTIAL, l->one);
    asm_jump(w->p, w->wait);

    asm_label(w->p, here);
    acquire(w, RW_LOCK_OUT_EMPTY, l->minus_one);
    integer = emit_new_mask(w->p, LANE_32);
    rows_param(w, integer, RW_PARAM_INTEGER);
    total = lanes_get(RW_SLOT_TOTAL);
    struct val result =
        v_select(l, mask_in(integer), f_mul(l, total, k_param(l, RW_ARG_TOTAL)), total);
    rows_copy(w, w->pout, w->out);
    struct val zero = k_bits(l, 0); // above an integer, where 64 bits of it are wanted
    emit_store(w->p, MEM_OUT, asm_half(lanes_x(l, &result), 0), w->pout, 0);
    emit_store(w->p, MEM_OUT, asm_half(lanes_x(l, &zero), 0), w->pout, 32);
    release(w, RW_LOCK_OUT_FULL, l->one);
    asm_jump(w->p, w->wait);
}

// ---- the program ----

static void take_registers(struct rows_writer * w, int n_best) {
    struct asm_reg * const scalars[] = {&w->streamed, &w->flag,    &w->chunks, &w->rows,
                                        &w->more,     &w->a,       &w->out,    &w->row_a,
                                        &w->row_b,    &w->row_out, &w->trips};
    struct asm_reg * const pointers[] = {&w->pa,    &w->pb,    &w->pout, &w->ps,
                                         &w->first, &w->stage, &w->back};
    int * const labels[] = {&w->wait,      &w->total,     &w->next_chunk,
                            &w->next_pass, &w->last_pass, &w->row_done};
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        *scalars[i] = asm_global(w->p, ASM_R);
    }
    for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++) {
        *pointers[i] = asm_global(w->p, ASM_P);
    }
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        *labels[i] = asm_label_new(w->p);
    }
    const struct aie_target * t = asm_target(w->p);
    for (int i = 0; i < (t->sums_in_vectors ? w->program->n_sums : 6); i++) {
        uint8_t cls = t->sums_in_vectors ? t->value_class : t->acc_class;
        w->acc[i] = asm_global(w->p, (enum asm_class) cls);
    }
    for (int i = 0; i < n_best; i++) {
        w->best[i] = asm_global(w->p, (enum asm_class) asm_target(w->p)->value_class);
    }
}

static void write_program(struct rows_writer * w) {
    const struct rows_program * program = w->program;
    struct asm_program * p = w->p;
    take_registers(w, program->n_best);
    lanes_begin(&w->lanes, p, DTYPE_F32, w->fast, rows_address(w, RW_POOL));
    emit_spill_to(p, MEM_SPILLS, rows_address(w, RW_SPILLS), 64);
    for (int i = LANES_PARAMS; i < RW_SLOT_MORE_CONSTS; i++) {
        w->lanes.consts[i] = RW_NO_CONSTANT;
    }
    w->lanes.n_consts = program->first_const;
    w->lanes.hole = RW_SLOT_PARAMS;
    w->lanes.hole_end = RW_SLOT_MORE_CONSTS;
    int labels[RW_MAX_INDEX], chunk = asm_label_new(p), row = asm_label_new(p),
                              chunk_done = asm_label_new(p);
    for (int i = 0; i < program->n_indices; i++) {
        labels[i] = asm_label_new(p);
    }
    asm_label(p, w->wait);
    start_run(w, labels);
    asm_label(p, chunk);
    take_chunk(w);
    asm_label(p, row);
    rows_copy(w, w->pa, w->row_a);
    rows_copy(w, w->pb, w->row_b);
    rows_copy(w, w->pout, w->row_out);
    asm_jump_pointer(p, w->stage);
    between_passes(w, row, chunk_done);
    next_row(w, program->halves, row, chunk_done);
    asm_label(p, chunk_done);
    give_chunk(w);
    asm_jump_if_nonzero(p, w->chunks, chunk);
    asm_jump_pointer(p, w->back);
    if (program->total) {
        write_total(w);
    } else {
        asm_label(p, w->total);
    }
    program->passes(w, labels);
}

static const struct rows_program * writer_of(const struct aie_program * of) {
    return of->code == AIE_CODE_ROWS_LAYER  ? &rows_layer
           : of->code == AIE_CODE_ROWS_SORT ? &rows_sort
                                            : &rows_reduce;
}

// Norms and softmax are the functions that may be fast.
static bool is_fast(const struct aie_program * of) {
    return of->code == AIE_CODE_ROWS_LAYER && !of->exact;
}

static enum status write_with(const struct aie_program * of, enum aie_arch arch, int exp_vectors,
                              bool alone, struct rows_code * out, struct error * err) {
    struct rows_writer w = {
        .program = writer_of(of), .alone = alone, .fast = is_fast(of), .exp_vectors = exp_vectors};
    if (asm_new(arch, &w.p) != ST_OK) {
        return error_set(err, ST_NO_MEMORY, "aie: out of memory");
    }
    write_program(&w);
    enum status st = asm_finish(w.p, &out->code, err);
    lanes_pool_bytes(&w.lanes, out->pool);
    for (int lane = 0; lane < aie_target(arch)->lanes; lane++) {
        store_u32(out->pool + RW_SLOT_LANES * LANES_POOL_SLOT_BYTES + 4 * lane, (uint32_t) lane);
    }
    rows_log_tables(out->tables);
    asm_free(w.p);
    return st == ST_OK ? ST_OK : error_prefix(err, st, "aie: %s", of->name);
}

static enum status make_program(const struct aie_program * of, enum aie_arch arch, bool alone,
                                struct rows_code * out, struct error * err) {
    // Where two vectors side by side are too much for the program memory, one has to do; the trips
    // of the fast exponential overlap, which is better.
    int most = is_fast(of) ? 1 : writer_of(of)->exp_vectors;
    enum status st = ST_INVALID;
    for (int vectors = most; vectors > 0 && st == ST_INVALID; vectors--) {
        st = write_with(of, arch, vectors, alone, out, err);
    }
    return st;
}

enum status rows_compile(const struct aie_program * of, enum aie_arch arch, struct rows_code * out,
                         struct error * err) {
    return make_program(of, arch, false, out, err);
}

enum status rows_soft_max_alone(const struct aie_program * of, enum aie_arch arch,
                                struct rows_code * out, struct error * err) {
    return make_program(of, arch, true, out, err);
}
