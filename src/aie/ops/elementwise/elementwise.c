// elementwise: out[i] = op(a[i], b[i]) over chunks. The program waits for the first chunk of a, by
// when the parameters are there (they are written before that chunk can come), finds the op that
// they name, then for each chunk acquires a full a (and b) and an empty out buffer, runs the
// op's zero-overhead loop, or its stages one after the other, over the chunk and hands the buffers
// on. It loops for ever; every lock is back at its first value when a run is over, so that the next
// dispatch finds the array as the first one did.
#include "elementwise-ops.h"

#include "aie/ops/lanes/aie2p-wide.h"
#include "aie/ops/lanes/math.h"
#include "aie/verbs/verbs.h"

#include <string.h>

enum { FILL_STORES = 8 }; // per trip when a splatted input is spread over its buffers

struct program {
    struct lanes lanes;
    struct asm_program * p;
    int32_t memory; // where the core's own begins

    struct asm_reg chunks, trips, trips_last, op, stream_b, splat_b, splat_byte; // parameters
    struct asm_reg a, b, out;    // addresses of the current buffers, as scalars
    struct asm_reg other;        // what turns ping into pong
    struct asm_reg pa, pb, pout; // pointers that walk them
    struct asm_reg temps;        // pointer that walks the temporaries
    struct asm_reg loop;         // pointer to the loop's code
    struct ew_loop loops[EW_MAX_LOOPS];
    int labels[EW_MAX_LOOPS];
    int n_loops;
    bool staged;
    bool exact;
    bool alone; // trips do not overlap
    const struct ew_op * ops[EW_PROGRAM_OPS];
    int n_ops;
    // Constants: what a page's slots hold, in lanes while loops are written that use it.
    struct page {
        uint32_t consts[LANES_POOL_SLOTS];
        int n_consts;
    } pages[EW_POOL_PAGES];
    int page, n_pages;
    int32_t pool_at;
};

static void set(struct program * w, struct asm_reg r, int32_t value) {
    emit_set(w->p, r, value);
}

static void copy(struct program * w, struct asm_reg to, struct asm_reg from) {
    emit_copy(w->p, to, from);
}

static void acquire(struct program * w, int lock) {
    asm_lock_acquire(w->p, asm_target(w->p)->own_locks + lock, w->lanes.minus_one);
}

static void release(struct program * w, int lock) {
    asm_lock_release(w->p, asm_target(w->p)->own_locks + lock, w->lanes.one);
}

static int32_t page_address(const struct program * w, int page) {
    return w->memory + w->pool_at + page * LANES_POOL_SLOTS * LANES_POOL_SLOT_BYTES;
}

static void read_parameters(struct program * w) {
    const struct asm_reg to[EW_PARAM_ARGS] = {
        [EW_PARAM_CHUNKS] = w->chunks,         [EW_PARAM_TRIPS] = w->trips,
        [EW_PARAM_TRIPS_LAST] = w->trips_last, [EW_PARAM_OP] = w->op,
        [EW_PARAM_STREAM_B] = w->stream_b,     [EW_PARAM_SPLAT_B] = w->splat_b,
        [EW_PARAM_SPLAT_BYTE] = w->splat_byte,
    };
    set(w, w->pa, w->memory + EW_PARAMS);
    for (int i = 0; i < EW_PARAM_ARGS; i++) {
        emit_load_word(w->p, MEM_PARAMS, to[i], w->pa, 4 * i);
    }
    int n_args = 0;
    for (int i = 0; i < w->n_ops; i++) {
        int n = ew_n_args(w->ops[i]->op);
        n_args = n > n_args ? n : n_args;
    }
    if (n_args) {
        lanes_use_pool(&w->lanes, page_address(w, 0)); // the last run may have left another
    }
    for (int i = 0; i < n_args; i++) {
        struct asm_reg arg = asm_local(w->p, ASM_R);
        emit_load_word(w->p, MEM_PARAMS, arg, w->pa, 4 * (EW_PARAM_ARGS + i));
        lanes_set_param(&w->lanes, i, arg);
    }
    set(w, w->a, w->memory + EW_BUFFER_A);
    set(w, w->b, w->memory + EW_BUFFER_B);
    set(w, w->out, w->memory + EW_BUFFER_OUT);
}

// ---- which loop ----

enum { WORD = 4, FROM_MIDDLE = EW_MAX_LOOPS / 2 }; // offsets reach as far back as forth

// Once, before the first run: the loops' addresses. A program of many loops would take longer to
// count its way to one of them than the loop takes.
static void list_loops(struct program * w) {
    set(w, w->pa, w->memory + EW_LOOPS + FROM_MIDDLE * WORD);
    for (int i = 0; i < w->n_loops; i++) {
        struct asm_reg address = asm_local(w->p, ASM_R);
        emit_set_label(w->p, w->loop, w->labels[i]);
        copy(w, address, w->loop);
        emit_store_word(w->p, MEM_PARAMS, address, w->pa, (i - FROM_MIDDLE) * WORD);
    }
}

// Points `loop` at the code of the loop with the given number, counted from `first`.
static void choose_loop(struct program * w, struct asm_reg number, int first) {
    struct asm_reg at = asm_local(w->p, ASM_R), base = asm_local(w->p, ASM_R),
                   address = asm_local(w->p, ASM_R);
    set(w, base, w->memory + EW_LOOPS - first * WORD);
    emit_alu(w->p, AIE_BASIC_ADD, at, number, number);
    emit_alu(w->p, AIE_BASIC_ADD, at, at, at);
    emit_alu(w->p, AIE_BASIC_ADD, at, at, base);
    copy(w, w->pa, at);
    emit_load_word(w->p, MEM_PARAMS, address, w->pa, 0);
    copy(w, w->loop, address);
}

// ---- pages of constants ----

static void use_page(struct program * w, int page) {
    struct lanes * l = &w->lanes;
    struct page *old = &w->pages[w->page], *new = &w->pages[page];
    memcpy(old->consts, l->consts, sizeof old->consts);
    old->n_consts = l->n_consts;
    memcpy(l->consts, new->consts, sizeof l->consts);
    l->n_consts = new->n_consts;
    w->page = page;
    w->n_pages = page >= w->n_pages ? page + 1 : w->n_pages;
}

// No loop wants more constants. Parameters are on the first page, which is for the ops that have
// some.
enum { CONSTANTS_OF_A_LOOP = 40 };

static void choose_page(struct program * w, const struct ew_op * e) {
    int page = ew_n_args(e->op) ? 0 : 1;
    use_page(w, w->page); // with what it has by now
    while (page > 0 && page < EW_POOL_PAGES - 1 &&
           w->pages[page].n_consts + CONSTANTS_OF_A_LOOP > LANES_POOL_SLOTS) {
        page++;
    }
    use_page(w, page);
    lanes_use_pool(&w->lanes, page_address(w, page));
    w->lanes.side_by_side = page > 0 && page < EW_POOL_PAGES - 1; // the others are many ops'
}

// ---- a run ----

// One element for the whole run: it is spread over both b buffers, which then stay as they are.
static void spread_splat(struct program * w) {
    int width = dtype_size(w->lanes.dtype) / 2, none = asm_label_new(w->p);
    asm_jump_if_zero(w->p, w->splat_b, none);
    acquire(w, EW_LOCK_B_FULL);
    struct asm_reg address = asm_local(w->p, ASM_R), element = w->splat_byte; // it takes its place
    emit_alu(w->p, AIE_BASIC_ADD, address, w->b, w->splat_byte);
    copy(w, w->pb, address);
    emit_load_scalar(w->p, MEM_B, width, A_REG(element), w->pb, 0);
    copy(w, w->pb, w->b);
    set(w, w->splat_b,
        2 * EW_CHUNK_BYTES /
            (asm_target(w->p)->vector_bytes / 2 * FILL_STORES)); // is no longer needed
    asm_loop_begin(w->p, w->splat_b);
    struct asm_reg x = asm_local(w->p, ASM_X); // anew in each trip: no register is held for it
    emit_splat(w->p, width, x, element);
    for (int i = 0; i < FILL_STORES; i++) {
        emit_store_next(w->p, MEM_B, asm_half(x, 0), w->pb);
    }
    asm_loop_end(w->p);
    release(w, EW_LOCK_B_EMPTY);
    asm_label(w->p, none);
}

// Over the buffers from their start. The stages of a script come one after the other.
static void run_loops(struct program * w, int done) {
    struct asm_program * p = w->p;
    struct asm_reg script = {0, -1};
    int next = w->staged ? asm_label_new(p) : -1;
    if (w->staged) {
        asm_release(p, w->splat_b); // b is spread, or comes chunk by chunk
        asm_release(p, w->splat_byte);
        struct asm_reg number = asm_global(p, ASM_R);
        script = asm_global(p, ASM_R);
        copy(w, script, w->op);
        asm_label(p, next);
        struct asm_reg mask = asm_local(p, ASM_R), shift = asm_local(p, ASM_R);
        set(w, mask, (1 << EW_SCRIPT_BITS) - 1);
        set(w, shift, -EW_SCRIPT_BITS);
        emit_alu(p, AIE_BASIC_AND, number, script, mask);
        emit_alu(p, AIE_BASIC_SHIFT, script, script, shift);
        set(w, w->temps, w->memory + EW_TEMPS_AT);
        choose_loop(w, number, 1);
    }
    copy(w, w->pa, w->a);
    copy(w, w->pb, w->b);
    copy(w, w->pout, w->out);
    asm_jump_pointer(p, w->loop);
    asm_label(p, done);
    if (w->staged) {
        asm_jump_if_nonzero(p, script, next);
    }
    emit_alu(p, AIE_BASIC_XOR, w->a, w->a, w->other);
    emit_alu(p, AIE_BASIC_XOR, w->b, w->b, w->other);
    struct asm_reg other = asm_local(p, ASM_R);
    set(w, other, EW_BUFFER_OUT ^ EW_BUFFER_OUT_PONG);
    emit_alu(p, AIE_BASIC_XOR, w->out, w->out, other);
}

static void chunk_begin(struct program * w, int again) {
    struct asm_program * p = w->p;
    int not_last = asm_label_new(p), no_b = asm_label_new(p);
    asm_label(p, again);
    emit_add_small(p, w->chunks, w->chunks, -1);
    asm_jump_if_nonzero(p, w->chunks, not_last);
    copy(w, w->trips, w->trips_last);
    asm_label(p, not_last);
    asm_jump_if_zero(p, w->stream_b, no_b);
    acquire(w, EW_LOCK_B_FULL);
    asm_label(p, no_b);
    acquire(w, EW_LOCK_A_FULL);
    acquire(w, EW_LOCK_OUT_EMPTY);
}

enum { MEM_TEMP_IN = MEM_POOL + 1, MEM_TEMP_OUT };

static struct val load_temp(struct program * w, int32_t offset, bool to_x) {
    struct asm_reg to = to_x ? emit_new_value(w->p) : emit_new_acc(w->p);
    emit_load(w->p, MEM_TEMP_IN, to, w->temps, offset);
    return to_x ? val_x(to) : val_bm(to);
}

static void store_temp(struct program * w, int32_t offset, struct val v) {
    struct asm_reg from = v.has_bm ? v.bm : lanes_x(&w->lanes, &v);
    emit_store(w->p, MEM_TEMP_OUT, from, w->temps, offset);
}

static void stage_trip(struct program * w, const struct ew_stage * s, int unroll) {
    struct lanes * l = &w->lanes;
    const int temp_bytes = 4 * asm_target(w->p)->lanes;
    for (int i = 0; i < unroll; i++) {
        struct ew_vals v = {.a = {.slot = -1}};
        int32_t at = i * EW_TEMPS * temp_bytes;
        if (s->in & EW_A) {
            v.a = lanes_load(l, w->pa, MEM_A, false);
        }
        if (s->in & EW_B) {
            v.b = lanes_load(l, w->pb, MEM_B, false);
        }
        for (int t = 0; t < EW_TEMPS; t++) {
            if (s->in & EW_T0 << t) {
                v.t[t] = load_temp(w, at + t * temp_bytes, t & 1);
            }
        }
        s->fn(l, &v);
        for (int t = 0; t < EW_TEMPS; t++) {
            if (s->out & EW_T0 << t) {
                store_temp(w, at + t * temp_bytes, v.t[t]);
            }
        }
        if (s->out & EW_OUT) {
            lanes_store(l, v.out, w->pout, MEM_OUT, false);
        }
    }
    emit_advance(w->p, w->temps, unroll * EW_TEMPS * temp_bytes);
}

// Whether the op's trips may begin early and end late: then buffers are reached by offsets. Where
// pointers move by whole vectors alone that is for functions, which gain more than it takes.
static bool rolls(const struct program * w, const struct ew_op * e, int unroll) {
    const struct aie_target * t = asm_target(w->p);
    return unroll == w->lanes.vectors && !e->native && !e->cast &&
           (e->fast || w->lanes.vectors > 1 || t->pointer_step < t->vector_bytes) &&
           unroll * lanes_step(t->arch, w->lanes.dtype, false) % t->pointer_step == 0;
}

// Where an accumulator has quarters, each for a value, the adder adds all four at once.
enum { QUARTERS = 4 };
static bool in_quarters(const struct program * w, const struct ew_op * e, int unroll) {
    const struct aie_target * t = asm_target(w->p);
    return t->classes[t->acc_class].quarter != AIE_NONE && ew_weight(e) == EW_SUM &&
           unroll == QUARTERS && w->lanes.dtype != DTYPE_F16;
}

static void load_quarters(struct program * w, struct asm_reg acc, struct asm_reg pointer,
                          int memory) {
    for (int i = 0; i < QUARTERS; i++) {
        (w->lanes.dtype == DTYPE_BF16 ? emit_load_bf16_next
                                      : emit_load_next)(w->p, memory, asm_quarter(acc, i), pointer);
    }
}

static void quarters_trip(struct program * w, const struct ew_op * e) {
    struct lanes * l = &w->lanes;
    struct asm_reg a = emit_new_acc(w->p), b = emit_new_acc(w->p);
    load_quarters(w, a, w->pa, MEM_A);
    load_quarters(w, b, w->pb, MEM_B);
    struct asm_reg out = ew_function(e, l->fast)(l, val_bm(a), val_bm(b)).bm;
    for (int i = 0; i < QUARTERS; i++) {
        (l->dtype == DTYPE_BF16 ? emit_store_bf16_next
                                : emit_store_next)(w->p, MEM_OUT, asm_quarter(out, i), w->pout);
    }
}

static void op_trip(struct program * w, const struct ew_op * e, int unroll) {
    struct lanes * l = &w->lanes;
    bool two = kernel_op_info(e->op)->n_inputs > 1;
    if (in_quarters(w, e, unroll)) {
        quarters_trip(w, e);
        return;
    }
    if (ew_is_wide(e, asm_target(w->p)->arch, l->dtype)) {
        ew_wide_trip(l, e, w->pa, w->pb, w->pout);
        return;
    }
    if (rolls(w, e, unroll)) {
        int32_t step = unroll * lanes_step(asm_target(w->p)->arch, l->dtype, false);
        struct val a = lanes_load_at(l, w->pa, 0, MEM_A), b = {.slot = -1};
        if (two) {
            b = lanes_load_at(l, w->pb, 0, MEM_B);
        }
        lanes_store_at(l, ew_function(e, l->fast)(l, a, b), w->pout, 0, MEM_OUT);
        emit_advance(w->p, w->pout, step);
        emit_advance(w->p, w->pa, step);
        if (two) {
            emit_advance(w->p, w->pb, step);
        }
        return;
    }
    const enum dtype t = l->dtype;
    for (int i = 0; i < unroll; i += l->vectors) {
        l->dtype = e->cast ? e->from : t;
        struct val a = lanes_load(l, w->pa, MEM_A, e->native), b = {.slot = -1};
        if (two) {
            b = lanes_load(l, w->pb, MEM_B, e->native);
        }
        struct val out = ew_function(e, l->fast)(l, a, b);
        l->dtype = e->cast ? e->to : t;
        lanes_store(l, out, w->pout, MEM_OUT, e->native);
        l->dtype = t;
    }
}

// ---- constants that stay in registers ----

// A short loop keeps its constants in registers: their loads would take longer than what is done
// with them. Loops on f32 lanes have few registers left for that, and those with all pieces of f32
// none. Which constants are wanted most is seen by writing a trip into a program that nobody wants.
static int most_kept(const struct program * w, const struct ew_op * e) {
    const struct aie_target * t = asm_target(w->p);
    enum { OF_LANES = 2 };
    if (!wide_is_there(t) || e->types != EW_FLOATS || e->cast || e->fast) {
        return 0;
    }
    bool wide = ew_is_wide(e, t->arch, w->lanes.dtype);
    if (wide && w->lanes.dtype == DTYPE_BF16) {
        return ew_wide_kept(e, t->arch, w->lanes.dtype);
    }
    bool none = wide || w->lanes.vectors > 1 || w->lanes.dtype == DTYPE_F16;
    return e->native ? LANES_MOST_KEPT : none ? 0 : OF_LANES;
}

static void count_constants(const struct program * w, const struct ew_op * e, int unroll,
                            uint8_t uses[LANES_POOL_SLOTS], uint8_t acc_uses[LANES_POOL_SLOTS]) {
    struct program dry = *w;
    if (asm_new(asm_target(w->p)->arch, &dry.p) != ST_OK) {
        asm_free_trial(NULL, w->p);
        return;
    }
    struct lanes * l = &dry.lanes;
    lanes_begin(l, dry.p, w->lanes.dtype, w->lanes.fast, 0);
    memcpy(l->consts, w->lanes.consts, sizeof l->consts);
    l->n_consts = w->lanes.n_consts;
    l->fast = w->lanes.fast;
    l->vectors = w->lanes.vectors;
    l->side_by_side = w->lanes.side_by_side;
    l->uses = uses;
    l->acc_uses = acc_uses;
    dry.pa = asm_global(dry.p, ASM_P);
    dry.pb = asm_global(dry.p, ASM_P);
    dry.pout = asm_global(dry.p, ASM_P);
    op_trip(&dry, e, unroll);
    asm_free_trial(dry.p, w->p);
}

// The slot that is wanted most, which is then wanted no more; -1: none is.
static int wanted_most(uint8_t uses[LANES_POOL_SLOTS]) {
    int best = 0;
    for (int i = 1; i < LANES_POOL_SLOTS; i++) {
        best = uses[i] > uses[best] ? i : best;
    }
    bool is_wanted = uses[best] > 0;
    uses[best] = 0;
    return is_wanted ? best : -1;
}

// A constant that the adder wants would be moved to an accumulator in each trip, and moves are what
// bounds a rounding; ROUND has no vector left to gain by it.
static int most_acc_kept(const struct program * w, const struct ew_op * e) {
    bool rounds = e->op == KERNEL_OP_FLOOR || e->op == KERNEL_OP_CEIL || e->op == KERNEL_OP_TRUNC;
    return rounds && w->lanes.dtype == DTYPE_F32 ? LANES_MOST_ACC : 0;
}

static void keep_constants(struct program * w, const struct ew_op * e, int unroll) {
    uint8_t uses[LANES_POOL_SLOTS] = {0}, acc_uses[LANES_POOL_SLOTS] = {0};
    int most = most_kept(w, e), most_acc = most ? most_acc_kept(w, e) : 0, slot;
    if (most) {
        count_constants(w, e, unroll, uses, acc_uses);
    }
    for (int n = 0; n < most && (slot = wanted_most(uses)) >= 0; n++) {
        lanes_keep(&w->lanes, slot);
    }
    for (int n = 0; n < most_acc && (slot = wanted_most(acc_uses)) >= 0; n++) {
        lanes_keep_acc(&w->lanes, slot);
    }
}

// ---- rows by their weights ----

// A chunk of a is so many parts of rows, one behind the other, and one of b their weights: each
// part times its weight is added to the results, which begin as zeros. So a number is rounded as it
// is by MUL and the ADDs behind it. A weight stands in all lanes behind those that came.
enum { WEIGHT_SLOT = EW_CHUNK_BYTES / 2 };

static void spread_weight(struct program * w, struct asm_reg address, struct asm_reg slot) {
    struct asm_program * p = w->p;
    struct asm_reg value = asm_local(p, ASM_R), x = asm_local(p, ASM_X);
    copy(w, w->pb, address);
    emit_load_scalar(p, MEM_B, LANE_32, A_REG(value), w->pb, 0);
    copy(w, w->pb, slot);
    emit_splat(p, LANE_32, x, value);
    for (int at = 0; at < lanes_step(asm_target(p)->arch, DTYPE_F32, false);
         at += asm_target(p)->vector_bytes / 2) {
        emit_store_next(p, MEM_B, asm_half(x, 0), w->pb);
    }
    copy(w, w->pb, slot);
}

static void weigh_trip(struct program * w, int unroll) {
    struct lanes * l = &w->lanes;
    const int32_t step = lanes_step(asm_target(w->p)->arch, l->dtype, false);
    struct val sums[2];
    for (int i = 0; i < unroll; i++) {
        struct val a = lanes_load(l, w->pa, MEM_A, false), b = lanes_load_at(l, w->pb, 0, MEM_B);
        struct val sum = lanes_load_at(l, w->pout, i * step, MEM_OUT);
        sums[i] = f_add(l, sum, f_mul(l, a, b));
    }
    for (int i = 0; i < unroll; i++) {
        lanes_store(l, sums[i], w->pout, MEM_OUT, false);
    }
}

static void write_weigh(struct program * w, int unroll) {
    struct asm_program * p = w->p;
    struct asm_reg left = w->splat_b, weight = w->splat_byte; // no b is spread in such a run
    int part = asm_label_new(p);
    lanes_set_fast(&w->lanes, false);
    set(w, w->pb, w->memory + EW_PARAMS);
    emit_load_word(p, MEM_PARAMS, left, w->pb, 4 * EW_PARAM_ARGS);
    copy(w, weight, w->b);
    asm_loop_begin(p, w->trips);
    for (int i = 0; i < unroll; i++) {
        lanes_store(&w->lanes, k_bits(&w->lanes, 0), w->pout, MEM_OUT, false);
    }
    asm_loop_end(p);
    asm_label(p, part);
    struct asm_reg slot = asm_local(p, ASM_R), behind = asm_local(p, ASM_R);
    set(w, behind, WEIGHT_SLOT);
    emit_alu(p, AIE_BASIC_ADD, slot, w->b, behind);
    spread_weight(w, weight, slot);
    emit_add_small(p, weight, weight, 4);
    emit_add_small(p, left, left, -1);
    copy(w, w->pout, w->out);
    asm_loop_begin(p, w->trips);
    weigh_trip(w, unroll);
    asm_loop_end(p);
    asm_jump_if_nonzero(p, left, part);
}

// Long vals take the more registers the longer their loads and products are on their way: their
// loops are late ones.
static void write_loop(struct program * w, const struct ew_loop * loop) {
    const enum aie_arch arch = asm_target(w->p)->arch;
    const enum dtype t = w->lanes.dtype;
    int unroll = ew_unroll(loop->op, arch, t, w->exact);
    if (loop->op->op == KERNEL_OP_WEIGHTED_SUM) {
        write_weigh(w, unroll);
        return;
    }
    lanes_set_vectors(&w->lanes,
                      !loop->stage && ew_is_doubled(loop->op, arch, t, w->exact) ? unroll : 1);
    lanes_set_fast(&w->lanes, ew_fast(loop->op, t, w->exact));
    if (loop->op->native) {
        native_prepare(&w->lanes, loop->op->op);
    }
    if (!loop->stage) {
        keep_constants(w, loop->op, unroll);
    }
    if (!loop->stage && ew_loads_twice(loop->op, arch, t)) {
        copy(w, w->pb, w->pa);
    }
    bool rolling = !loop->stage && rolls(w, loop->op, unroll);
    bool late = rolling && w->lanes.vectors > 1;
    if (late) {
        asm_mark(w->p);
    }
    (rolling ? asm_loop_begin_rolling : asm_loop_begin)(w->p, w->trips);
    if (late) {
        asm_loop_late(w->p);
    }
    if (w->alone) {
        asm_loop_alone(w->p);
    }
    if (loop->stage) {
        stage_trip(w, loop->stage, unroll);
    } else {
        op_trip(w, loop->op, unroll);
    }
    asm_loop_end(w->p);
    if (late) {
        asm_mark_end(w->p);
    }
    lanes_let_go(&w->lanes);
    lanes_set_vectors(&w->lanes, 1);
}

void ew_loop_with(struct lanes * l, enum kernel_op op, struct asm_reg trips, struct asm_reg pa,
                  struct asm_reg pb, struct asm_reg pout, bool alone) {
    struct program w = {
        .lanes = *l, .p = l->p, .trips = trips, .pa = pa, .pb = pb, .pout = pout, .alone = alone};
    write_loop(&w, &(struct ew_loop){.op = ew_find(op, l->dtype)});
    *l = w.lanes;
}

// Out last: its arrival is what the instruction stream waits for, and by then all is done.
static void chunk_end(struct program * w, int again, int wait) {
    int no_b = asm_label_new(w->p);
    release(w, EW_LOCK_A_EMPTY);
    asm_jump_if_zero(w->p, w->stream_b, no_b);
    release(w, EW_LOCK_B_EMPTY);
    asm_label(w->p, no_b);
    release(w, EW_LOCK_OUT_FULL);
    asm_jump_if_nonzero(w->p, w->chunks, again);
    asm_jump(w->p, wait);
}

// Which buffers lie in which bank, so that accesses that meet are kept apart. Where there are no
// temporaries the constants stand twice: a core loads two vectors a cycle, but from two banks.
static void place_memory(struct program * w) {
    const struct {
        int memory, at;
    } places[] = {{MEM_A, EW_BUFFER_A},   {MEM_B, EW_BUFFER_B},       {MEM_OUT, EW_BUFFER_OUT},
                  {MEM_POOL, w->pool_at}, {MEM_TEMP_IN, EW_TEMPS_AT}, {MEM_TEMP_OUT, EW_TEMPS_AT}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        asm_place(w->p, places[i].memory, (uint32_t) places[i].at);
    }
    const int buffers[] = {MEM_A, MEM_B, MEM_OUT};
    for (int i = 0; i < 3; i++) { // for four trips of the longest vals
        asm_margin(w->p, buffers[i], wide_is_there(asm_target(w->p)) ? EW_MARGIN : EW_MARGIN / 2);
    }
    if (w->pool_at == EW_POOL) {
        asm_mirror(w->p, MEM_POOL, lanes_slot_offset(LANES_PARAMS), EW_POOL_AGAIN - EW_POOL);
    }
}

static void copy_constants(struct program * w) {
    if (w->pool_at != EW_POOL) {
        return;
    }
    set(w, w->pa, w->memory + EW_POOL);
    set(w, w->pout, w->memory + EW_POOL_AGAIN);
    set(w, w->trips, w->n_pages * LANES_POOL_SLOTS / 2);
    asm_loop_begin(w->p, w->trips);
    struct asm_reg x = emit_new_value(w->p);
    emit_load_next(w->p, MEM_POOL, x, w->pa);
    emit_store_next(w->p, MEM_OUT, x, w->pout);
    asm_loop_end(w->p);
}

static bool casts_f16(const struct program * w) {
    for (int i = 0; i < w->n_loops; i++) {
        const struct ew_op * e = w->loops[i].op;
        if (e->cast && (e->from == DTYPE_F16 || e->to == DTYPE_F16)) {
            return true;
        }
    }
    return false;
}

static void write_program(struct program * w, enum dtype t) {
    struct asm_reg * const scalars[] = {&w->chunks,   &w->trips,   &w->trips_last, &w->op,
                                        &w->stream_b, &w->splat_b, &w->splat_byte, &w->a,
                                        &w->b,        &w->out,     &w->other};
    struct asm_reg * const pointers[] = {&w->pa, &w->pb, &w->pout, &w->loop};
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        *scalars[i] = asm_global(w->p, ASM_R);
    }
    for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++) {
        *pointers[i] = asm_global(w->p, ASM_P);
    }
    w->n_loops = ew_loops_of(w->ops, w->n_ops, t, w->exact, w->loops, &w->staged);
    if (w->staged) {
        w->temps = asm_global(w->p, ASM_P);
    }
    w->pool_at = w->staged ? EW_POOL_BEHIND : EW_POOL;
    lanes_begin(&w->lanes, w->p, t, false, page_address(w, 0));
    if (casts_f16(w)) {
        lanes_begin_f16(&w->lanes);
    }
    emit_spill_to(w->p, MEM_SPILLS, w->memory + EW_SPILLS, 64);
    set(w, w->other, EW_CHUNK_BYTES);
    place_memory(w);
    for (int i = 0; i < w->n_loops; i++) {
        w->labels[i] = asm_label_new(w->p);
    }
    for (int i = 0; i < EW_POOL_PAGES; i++) {
        w->pages[i].n_consts = LANES_PARAMS;
    }
    int wait = asm_label_new(w->p), again = asm_label_new(w->p), done = asm_label_new(w->p);
    int start = asm_label_new(w->p);
    if (wide_is_there(asm_target(w->p))) {
        lanes_may_keep(&w->lanes);
    }
    asm_jump(w->p, start);
    asm_label(w->p, wait);
    acquire(w, EW_LOCK_A_FULL);
    release(w, EW_LOCK_A_FULL); // for the chunk's own acquire
    read_parameters(w);
    if (!w->staged) {
        choose_loop(w, w->op, 0);
    }
    spread_splat(w);
    chunk_begin(w, again);
    run_loops(w, done);
    chunk_end(w, again, wait);
    for (int i = 0; i < w->n_loops; i++) {
        asm_label(w->p, w->labels[i]);
        choose_page(w, w->loops[i].op);
        write_loop(w, &w->loops[i]);
        asm_jump(w->p, done);
    }
    asm_label(w->p, start);
    list_loops(w);
    copy_constants(w);
    asm_jump(w->p, wait);
}

// only: with this op alone; KERNEL_OP_COUNT: with all.
static enum status make_program(const struct aie_program * of, enum aie_arch arch,
                                enum kernel_op only, struct ew_program * out, struct error * err) {
    enum dtype t = of->dtype;
    struct program w = {.exact = of->exact};
    const size_t page_bytes = LANES_POOL_SLOTS * LANES_POOL_SLOT_BYTES;
    _Static_assert(sizeof out->pool == EW_POOL_PAGES * LANES_POOL_SLOTS * LANES_POOL_SLOT_BYTES,
                   "the pages fit");
    if (asm_new(arch, &w.p) != ST_OK) {
        return error_set(err, ST_NO_MEMORY, "aie: out of memory");
    }
    w.memory = (int32_t) aie_target(arch)->own_window;
    w.ops[0] = ew_find(only, t);
    w.n_ops = w.ops[0] ? 1 : ew_program_ops(of, w.ops);
    write_program(&w, t);
    enum status st = asm_finish(w.p, &out->code, err);
    for (int i = 0; i < w.n_pages; i++) {
        use_page(&w, i);
        lanes_pool_bytes(&w.lanes, out->pool + (size_t) i * page_bytes);
    }
    out->pool_at = (uint32_t) w.pool_at;
    out->pool_size = (size_t) w.n_pages * page_bytes;
    asm_free(w.p);
    return st == ST_OK ? ST_OK : error_prefix(err, st, "aie: %s", of->name);
}

enum status elementwise_program(const struct aie_program * of, enum aie_arch arch,
                                struct ew_program * out, struct error * err) {
    return make_program(of, arch, KERNEL_OP_COUNT, out, err);
}

enum status elementwise_alone(const struct aie_program * of, enum aie_arch arch, enum kernel_op op,
                              struct ew_program * out, struct error * err) {
    return make_program(of, arch, op, out, err);
}
