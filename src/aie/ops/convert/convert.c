// convert: a part of the program that products of few rows have (mul-mat.c). It reads parameters,
// clears its buffers where rows are padded, and turns chunks of numbers into bf16, 32 at a time.
// Both input buffers belong to the core between runs: the DMA gets them when they are clear, and
// the core has them back before it hands out the last chunk, which is what the instruction stream
// waits for.
//
// lo is exact before it is rounded. The adder rounds the smaller operand at the larger one's last
// place, and where hi was rounded up to a power of two, x - hi would lose a bit. So for f32 the
// difference is taken in the bits, where it is a number of x's last places, and made a float with
// x's exponent: (1.5 2^e + difference) - 1.5 2^e. f16 numbers have 11 bits and nothing to lose.
#include "convert.h"

#include "aie/ops/lanes/f16.h"
#include "aie/verbs/verbs.h"

enum { INT_ADD_CONFIG = 0 };
enum { MEM_PARAMS, MEM_IN, MEM_HI, MEM_HI2, MEM_LO, MEM_SPILLS };

// f16 as integers of 16 bits.
enum {
    REBIAS = F16_REBIAS >> F16_LOWER, // in bf16
    BEYOND = BF16_INF - F16_INF,      // from f16's infinity to bf16's
};

// f32
enum { SIGN_AND_EXPONENT = (int) 0xff800000, MIDDLE = 0x00400000 };

// Limits in bf16. Of f32 it is 2^127: a larger number may round up in a block, whose exponent would
// then be that of infinities. Of f16 it is 2^16, to which its largest number rounds.
enum { MOST_F32 = 0x7f00, LEAST_F32 = 0xff00, MOST_F16 = 0x4780 };

enum { MOST_TAKEN = 32 };

struct program {
    struct asm_program * p;
    enum dtype source;
    bool as_integers;                 // f16_integer_trip
    bool limited;                     // what is not finite becomes a large number
    const struct convert_lent * lent; // whose registers they are; NULL: its own
    struct asm_reg taken[MOST_TAKEN]; // to be given back
    int n_taken;
    struct asm_reg one, minus_one, two, minus_two;
    struct asm_reg chunks, trips, pieces, flag, stride;
    struct asm_reg in, out; // current buffers, as scalars
    struct asm_reg float_config, int_config;
    struct asm_reg params, pin, pin2, phi, phi2, plo; // pointers
    struct asm_reg zero, magnitude, inf;              // X, in 16-bit lanes
    struct asm_reg f16_inf, f16_normal, sign;
    struct asm_reg rebias, small, raise; // CM, CM, S
    struct asm_reg lower, bias, beyond;  // S, X, X: of numbers that are rounded as integers
    struct asm_reg exponent, middle;     // X, in 32-bit lanes
    struct asm_reg most, least;          // X: of f32 that is limited
};

static int32_t address(const struct program * w, int32_t at) { // by which the core knows it
    return (int32_t) asm_target(w->p)->own_window + at;
}

static struct asm_reg take(struct program * w, enum asm_class cls) {
    return w->taken[w->n_taken++] = asm_global(w->p, cls);
}

static void give_back(struct program * w) {
    while (w->n_taken > 0) {
        asm_release(w->p, w->taken[--w->n_taken]);
    }
}

static void set(struct program * w, struct asm_reg r, int32_t value) {
    emit_set(w->p, r, value);
}

static void copy(struct program * w, struct asm_reg to, struct asm_reg from) {
    emit_copy(w->p, to, from);
}

static void pointer_to(struct program * w, struct asm_reg to, struct asm_reg base,
                       struct asm_reg offset) {
    struct asm_reg sum = asm_local(w->p, ASM_R);
    emit_alu(w->p, AIE_BASIC_ADD, sum, base, offset);
    copy(w, to, sum);
}

static void flip(struct program * w, struct asm_reg r, int32_t bits_) {
    struct asm_reg other = asm_local(w->p, ASM_R);
    set(w, other, bits_);
    emit_alu(w->p, AIE_BASIC_XOR, r, r, other);
}

static void acquire(struct program * w, int lock, struct asm_reg value) {
    asm_lock_acquire(w->p, asm_target(w->p)->own_locks + lock, value);
}

static void release(struct program * w, int lock, struct asm_reg value) {
    asm_lock_release(w->p, asm_target(w->p)->own_locks + lock, value);
}

static void parameter(struct program * w, struct asm_reg to, int i) {
    emit_load_word(w->p, MEM_PARAMS, to, w->params, 4 * i);
}

// ---- constants ----

// WIDE: 32 lanes of an accumulator, which are its halves or two quarters.
enum constant_kind { SCALAR, SHIFT, LANES_16, LANES_32, WIDE, WIDE_LOW };

struct constant {
    struct asm_reg * to;
    enum constant_kind kind;
    int32_t value;
};

static void set_constant(struct program * w, const struct constant * c) {
    struct asm_reg r = asm_local(w->p, ASM_R), x = *c->to;
    if (c->kind == SCALAR) {
        set(w, x, c->value);
        return;
    }
    set(w, r, c->value);
    if (c->kind == SHIFT) {
        copy(w, x, r);
        return;
    }
    if (c->kind >= WIDE) {
        x = asm_local(w->p, ASM_X);
    }
    emit_splat(w->p, c->kind == LANES_16 ? LANE_16 : LANE_32, x, r);
    for (int i = 0; i < 2 && c->kind >= WIDE; i++) {
        emit_move(w->p, c->kind == WIDE ? asm_half(*c->to, i) : asm_quarter(*c->to, i), x);
    }
}

// All registers are taken before the first is set: a section's registers must be there before its
// code.
static void take_all(struct program * w, const struct constant * constants, size_t n) {
    static const enum asm_class classes[] = {
        [SCALAR] = ASM_R,   [SHIFT] = ASM_S, [LANES_16] = ASM_X,
        [LANES_32] = ASM_X, [WIDE] = ASM_CM, [WIDE_LOW] = ASM_BM};
    for (size_t i = 0; i < n; i++) {
        *constants[i].to = take(w, classes[constants[i].kind]);
    }
    for (size_t i = 0; i < n; i++) {
        set_constant(w, &constants[i]);
    }
}

// What the loops want.
static void take_constants(struct program * w) {
    const int32_t add = (int32_t) asm_target(w->p)->add_config;
    if (w->limited && w->source == DTYPE_F32) {
        const struct constant constants[] = {{&w->most, LANES_16, MOST_F32},
                                             {&w->least, LANES_16, LEAST_F32}};
        take_all(w, constants, sizeof constants / sizeof constants[0]);
    } else if (w->as_integers) {
        const struct constant constants[] = {{&w->float_config, SCALAR, add},
                                             {&w->int_config, SCALAR, INT_ADD_CONFIG},
                                             {&w->raise, SHIFT, F16_RAISE},
                                             {&w->lower, SHIFT, F16_LOWER},
                                             {&w->magnitude, LANES_16, F16_MAGNITUDE},
                                             {&w->f16_inf, LANES_16, F16_INF},
                                             {&w->f16_normal, LANES_16, F16_NORMAL},
                                             {&w->sign, LANES_16, F16_SIGN},
                                             {&w->bias, LANES_16, REBIAS},
                                             {&w->beyond, LANES_16, w->limited ? MOST_F16 : BEYOND},
                                             {&w->small, WIDE_LOW, F16_SMALLEST}};
        take_all(w, constants, sizeof constants / sizeof constants[0]);
    } else if (w->source == DTYPE_F16) {
        const struct constant constants[] = {{&w->float_config, SCALAR, add},
                                             {&w->int_config, SCALAR, INT_ADD_CONFIG},
                                             {&w->raise, SHIFT, F16_RAISE},
                                             {&w->zero, LANES_32, 0},
                                             {&w->magnitude, LANES_16, F16_MAGNITUDE},
                                             {&w->f16_inf, LANES_16, F16_INF},
                                             {&w->f16_normal, LANES_16, F16_NORMAL},
                                             {&w->sign, LANES_16, F16_SIGN},
                                             {&w->rebias, WIDE, F16_REBIAS},
                                             {&w->small, WIDE, F16_SMALLEST}};
        take_all(w, constants, sizeof constants / sizeof constants[0]);
    } else {
        const struct constant constants[] = {{&w->float_config, SCALAR, add},
                                             {&w->zero, LANES_32, 0},
                                             {&w->magnitude, LANES_16, F16_MAGNITUDE},
                                             {&w->inf, LANES_16, BF16_INF},
                                             {&w->exponent, LANES_32, SIGN_AND_EXPONENT},
                                             {&w->middle, LANES_32, MIDDLE}};
        take_all(w, constants, sizeof constants / sizeof constants[0]);
    }
}

static void take_registers(struct program * w) {
    struct asm_reg * const scalars[] = {&w->chunks, &w->trips,     &w->pieces,   &w->flag,
                                        &w->stride, &w->in,        &w->out,      &w->one,
                                        &w->two,    &w->minus_one, &w->minus_two};
    struct asm_reg * const pointers[] = {&w->params, &w->pin, &w->pin2, &w->phi, &w->phi2, &w->plo};
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        *scalars[i] = take(w, ASM_R);
    }
    for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++) {
        *pointers[i] = take(w, ASM_P);
    }
    take_constants(w);
    set(w, w->one, 1);
    set(w, w->minus_one, -1);
    set(w, w->two, 2);
    set(w, w->minus_two, -2);
    set(w, w->params, address(w, CV_PARAMS));
}

void convert_begin(struct asm_program * p) {
    struct asm_reg mode = asm_local(p, ASM_R);
    emit_begin(p);
    emit_spill_to(p, MEM_SPILLS, (int32_t) asm_target(p)->own_window + CV_SPILLS, 64);
    emit_set(p, mode, AIE_ROUND_NEAREST_EVEN);
    emit_control(p, AIE_CONTROL_ROUND, mode);
}

// ---- 32 numbers ----

static struct asm_reg vector2(struct program * w, enum lane_op op, enum lane_width width,
                              struct asm_reg a, struct asm_reg b) {
    struct asm_reg d = asm_local(w->p, ASM_X);
    emit_lanes(w->p, op, width, d, a, b);
    return d;
}

static struct asm_reg less(struct program * w, struct asm_reg a, struct asm_reg b) {
    struct asm_reg mask = emit_new_mask(w->p, LANE_16);
    emit_compare(w->p, LANE_LESS, LANE_16, mask, a, b);
    return mask;
}

static struct asm_reg choose(struct program * w, struct asm_reg mask, struct asm_reg if_clear,
                             struct asm_reg if_set) {
    struct asm_reg d = asm_local(w->p, ASM_X);
    emit_select(w->p, LANE_16, d, if_clear, if_set, mask);
    return d;
}

// 64 bytes, by a pointer that moves on.
static void load_next(struct program * w, struct asm_reg to, struct asm_reg pointer) {
    emit_load_next(w->p, MEM_IN, to, pointer);
}

static void store(struct program * w, struct asm_reg x, struct asm_reg pointer, int memory) {
    emit_store_next(w->p, memory, x, pointer);
}

// What is not finite stands in the first piece alone. Its rest would be NaN, and a rest of zero
// times an infinity as well.
static void store_pieces(struct program * w, struct asm_reg hi, struct asm_reg rest,
                         struct asm_reg finite) {
    store(w, hi, w->phi, MEM_HI);
    store(w, choose(w, finite, w->zero, hi), w->phi2, MEM_HI2);
    store(w, choose(w, finite, w->zero, rest), w->plo, MEM_LO);
}

// ---- f32 ----

static void f32_trip(struct program * w) {
    for (int i = 0; i < 2; i++) {
        struct asm_reg bm = asm_local(w->p, ASM_BM);
        load_next(w, bm, w->pin);
        emit_store_bf16_next(w->p, MEM_HI, bm, w->phi);
    }
}

// The same with limits: in the bits, where negative numbers are the larger unsigned ones.
static void f32_limited_trip(struct program * w) {
    struct asm_program * p = w->p;
    struct asm_reg x = asm_local(p, ASM_X), below = asm_local(p, ASM_X),
                   within = asm_local(p, ASM_X);
    for (int half = 0; half < 2; half++) {
        struct asm_reg bm = asm_local(p, ASM_BM);
        load_next(w, bm, w->pin);
        emit_to_bf16(p, asm_half(x, half), bm);
    }
    emit_choose(p, LANE_MIN, LANE_16, below, emit_new_mask(p, LANE_16), x, w->most);
    emit_choose(p, LANE_MIN_UNSIGNED, LANE_16, within, emit_new_mask(p, LANE_16), below, w->least);
    store(w, within, w->phi, MEM_HI);
}

// 16 of x - hi, for finite ones.
static struct asm_reg f32_rest(struct program * w, struct asm_reg x, struct asm_reg hi_half) {
    struct asm_program * p = w->p;
    struct asm_reg hi_bm = asm_local(p, ASM_BM), hi = asm_local(p, ASM_X);
    struct asm_reg bm[2], rest = asm_local(p, ASM_BM);
    emit_from_bf16(p, hi_bm, hi_half);
    emit_move(p, hi, hi_bm);
    struct asm_reg middle =
        vector2(w, LANE_OR, LANE_32, vector2(w, LANE_AND, LANE_32, x, w->exponent), w->middle);
    struct asm_reg moved =
        vector2(w, LANE_ADD, LANE_32, middle, vector2(w, LANE_SUB, LANE_32, x, hi));
    for (int i = 0; i < 2; i++) {
        bm[i] = asm_local(p, ASM_BM);
        emit_move(p, bm[i], i ? middle : moved);
    }
    emit_f_sub(p, rest, bm[0], bm[1], w->float_config);
    return rest;
}

static void f32_pieces_trip(struct program * w) {
    struct asm_reg hi = asm_local(w->p, ASM_X), rest = asm_local(w->p, ASM_X);
    for (int half = 0; half < 2; half++) {
        struct asm_reg bm = asm_local(w->p, ASM_BM), x = asm_local(w->p, ASM_X);
        load_next(w, bm, w->pin);
        load_next(w, x, w->pin2);
        emit_to_bf16(w->p, asm_half(hi, half), bm);
        emit_to_bf16(w->p, asm_half(rest, half), f32_rest(w, x, asm_half(hi, half)));
    }
    struct asm_reg finite = less(w, vector2(w, LANE_AND, LANE_16, hi, w->magnitude), w->inf);
    store_pieces(w, hi, rest, finite);
}

// ---- f16 ----

// bf16 of 32 f32 lanes.
static struct asm_reg narrow(struct program * w, struct asm_reg cm) {
    struct asm_reg d = asm_local(w->p, ASM_X);
    for (int half = 0; half < 2; half++) {
        emit_to_bf16(w->p, asm_half(d, half), asm_half(cm, half));
    }
    return d;
}

static struct asm_reg subtract(struct program * w, struct asm_reg a, struct asm_reg b) {
    struct asm_reg d = asm_local(w->p, ASM_CM);
    emit_f_sub(w->p, d, a, b, w->float_config);
    return d;
}

static struct asm_reg add_bits(struct program * w, struct asm_reg a, struct asm_reg b) {
    struct asm_reg d = asm_local(w->p, ASM_CM);
    emit_acc_add(w->p, d, a, b, w->int_config);
    return d;
}

// Magnitudes are converted in f32 lanes as normal numbers, as denormal ones and as what lies beyond
// both; which is right is chosen among bf16 lanes. The raw numbers are loaded twice because
// registers are short: once for the magnitude, once for the sign.
static void f16_trip(struct program * w, bool pieces) {
    struct asm_program * p = w->p;
    struct asm_reg raw = asm_local(p, ASM_X), raised = asm_local(p, ASM_CM);
    load_next(w, raw, w->pin);
    struct asm_reg m = vector2(w, LANE_AND, LANE_16, raw, w->magnitude);
    emit_widen_16(p, raised, m, w->raise);
    struct asm_reg is_denormal = less(w, m, w->f16_normal);
    struct asm_reg finite = less(w, m, w->f16_inf);
    struct asm_reg normal = add_bits(w, raised, w->rebias);
    struct asm_reg denormal = subtract(w, add_bits(w, raised, w->small), w->small);
    struct asm_reg special = add_bits(w, normal, w->rebias); // exponent 255
    struct asm_reg small = narrow(w, denormal);
    struct asm_reg number = choose(w, is_denormal, narrow(w, normal), small);
    struct asm_reg magnitude = choose(w, finite, narrow(w, special), number);

    struct asm_reg again = asm_local(p, ASM_X);
    load_next(w, again, w->pin2);
    struct asm_reg sign = vector2(w, LANE_AND, LANE_16, again, w->sign);
    struct asm_reg hi = vector2(w, LANE_OR, LANE_16, magnitude, sign);
    if (!pieces) {
        store(w, hi, w->phi, MEM_HI);
        return;
    }
    struct asm_reg hi_cm = asm_local(p, ASM_CM);
    for (int half = 0; half < 2; half++) {
        emit_from_bf16(p, asm_half(hi_cm, half), asm_half(magnitude, half));
    }
    struct asm_reg small_rest = narrow(w, subtract(w, denormal, hi_cm));
    struct asm_reg rest = narrow(w, subtract(w, normal, hi_cm));
    rest = choose(w, is_denormal, rest, small_rest);
    rest = vector2(w, LANE_ADD, LANE_16, rest, sign); // flips it where x is negative
    store_pieces(w, hi, rest, finite);
}

// The same where accumulators are few, each for two values: those that are normal are rounded as
// integers, and only denormal ones as floats. What is no number stays none, unless it is limited.
static void f16_integer_trip(struct program * w) {
    struct asm_program * p = w->p;
    struct asm_reg raw = asm_local(p, ASM_X), normal = asm_local(p, ASM_X);
    struct asm_reg small = asm_local(p, ASM_X), special = asm_local(p, ASM_X), acc[3];
    for (int i = 0; i < 3; i++) {
        acc[i] = asm_local(p, ASM_BM);
    }
    load_next(w, raw, w->pin);
    struct asm_reg m = vector2(w, LANE_AND, LANE_16, raw, w->magnitude);
    emit_widen_16(p, asm_half(acc[0], 0), m, w->raise);
    struct asm_reg is_denormal = less(w, m, w->f16_normal);
    struct asm_reg finite = less(w, m, w->f16_inf);
    emit_narrow_16(p, normal, asm_half(acc[0], 0), w->lower);
    emit_acc_add(p, acc[1], acc[0], w->small, w->int_config);
    emit_f_sub(p, acc[2], acc[1], w->small, w->float_config);
    emit_to_bf16(p, small, asm_half(acc[2], 0));
    struct asm_reg number =
        choose(w, is_denormal, vector2(w, LANE_ADD, LANE_16, normal, w->bias), small);
    if (!w->limited) {
        struct asm_reg which = emit_new_mask(p, LANE_16);
        emit_choose(p, LANE_MIN_UNSIGNED, LANE_16, special, which,
                    vector2(w, LANE_ADD, LANE_16, m, w->beyond), w->magnitude);
    }
    struct asm_reg again = asm_local(p, ASM_X);
    load_next(w, again, w->pin2);
    struct asm_reg sign = vector2(w, LANE_AND, LANE_16, again, w->sign);
    struct asm_reg magnitude = choose(w, finite, w->limited ? w->beyond : special, number);
    store(w, vector2(w, LANE_OR, LANE_16, magnitude, sign), w->phi, MEM_HI);
}

// ---- around the loops ----

static void start_run(struct program * w) {
    parameter(w, w->chunks, CV_PARAM_CHUNKS);
    parameter(w, w->pieces, CV_PARAM_PIECES);
    parameter(w, w->flag, CV_PARAM_CLEAR);
    set(w, w->in, address(w, CV_BUFFER_IN));
    set(w, w->out, address(w, CV_BUFFER_OUT));
    int clear = asm_label_new(w->p);
    asm_jump_if_zero(w->p, w->flag, clear);
    struct asm_reg at = asm_local(w->p, ASM_R), first = asm_local(w->p, ASM_R);
    parameter(w, at, CV_PARAM_CLEAR_AT);
    emit_alu(w->p, AIE_BASIC_ADD, first, w->in, at);
    copy(w, w->pin, first);
    flip(w, first, CV_IN_BYTES);
    copy(w, w->pin2, first);
    asm_loop_begin(w->p, w->flag);
    for (int half = 0; half < 2; half++) { // they begin anywhere
        store(w, asm_half(w->zero, half), w->pin, MEM_IN);
    }
    for (int half = 0; half < 2; half++) {
        store(w, asm_half(w->zero, half), w->pin2, MEM_HI); // never the same buffer
    }
    asm_loop_end(w->p);
    asm_label(w->p, clear);
    if (w->lent) {
        set(w, w->two, 2);
    }
    release(w, CV_LOCK_IN_EMPTY, w->two);
}

// A row of an odd number of f16 ends in the lower half of a word. The upper half belongs to other
// data.
static void clear_odd_ends(struct program * w) {
    int even = asm_label_new(w->p);
    struct asm_reg odd = w->trips, at = asm_local(w->p, ASM_R); // trips is set behind
    parameter(w, w->flag, CV_PARAM_ODD);
    asm_jump_if_zero(w->p, w->flag, even);
    parameter(w, at, CV_PARAM_ODD_AT);
    parameter(w, w->stride, CV_PARAM_ODD_STRIDE);
    emit_alu(w->p, AIE_BASIC_ADD, odd, w->in, at);
    asm_loop_begin(w->p, w->flag);
    asm_loop_alone(w->p); // seldom asked for, and a trip a row: overlap gains two bundles of ten
    struct asm_reg own = asm_local(w->p, ASM_R);
    copy(w, w->pin, odd);
    emit_load_scalar(w->p, MEM_IN, LANE_16, A_REG(own), w->pin, 0);
    emit_store_word(w->p, MEM_IN, own, w->pin, 0);
    emit_alu(w->p, AIE_BASIC_ADD, odd, odd, w->stride);
    asm_loop_end(w->p);
    asm_label(w->p, even);
}

static void take_chunk(struct program * w) {
    struct asm_program * p = w->p;
    int not_last = asm_label_new(p);
    struct asm_reg hi_at = asm_local(p, ASM_R), lo_at = asm_local(p, ASM_R);
    acquire(w, CV_LOCK_IN_FULL, w->minus_one);
    acquire(w, CV_LOCK_OUT_EMPTY, w->minus_one);
    if (w->source == DTYPE_F16 || w->lent) {
        clear_odd_ends(w);
    }
    parameter(w, hi_at, CV_PARAM_HI_AT);
    parameter(w, lo_at, CV_PARAM_LO_AT);
    parameter(w, w->trips, CV_PARAM_TRIPS);
    copy(w, w->pin, w->in);
    copy(w, w->pin2, w->in);
    copy(w, w->phi, w->out);
    pointer_to(w, w->phi2, w->out, hi_at);
    pointer_to(w, w->plo, w->out, lo_at);
    emit_add_small(p, w->chunks, w->chunks, -1);
    asm_jump_if_nonzero(p, w->chunks, not_last);
    parameter(w, w->trips, CV_PARAM_TRIPS_LAST);
    asm_label(p, not_last);
}

static void loop(struct program * w, bool pieces) {
    asm_loop_begin(w->p, w->trips);
    if (w->as_integers) {
        f16_integer_trip(w);
    } else if (w->source == DTYPE_F16) {
        if (pieces) { // rare, and overlapping trips take 500 bytes more
            asm_loop_alone(w->p);
        }
        f16_trip(w, pieces);
    } else if (pieces) {
        f32_pieces_trip(w);
    } else if (w->limited) {
        f32_limited_trip(w);
    } else {
        f32_trip(w);
    }
    asm_loop_end(w->p);
}

// The loop for hi alone comes first: it has to keep up with a stream of 16 words a trip, and the
// scheduler searches longest for the first loops.
static void run_loops(struct program * w) {
    int pieces = asm_label_new(w->p), done = asm_label_new(w->p);
    asm_jump_if_nonzero(w->p, w->pieces, pieces);
    loop(w, false);
    asm_jump(w->p, done);
    asm_label(w->p, pieces);
    loop(w, true);
    asm_label(w->p, done);
}

// A loop with constants of its own.
static void loop_with_constants(struct program * w, enum dtype source, bool pieces) {
    struct program writer = *w;
    writer.source = source;
    writer.n_taken = 0;
    asm_section(w->p);
    take_constants(&writer);
    loop(&writer, pieces);
    give_back(&writer);
    asm_section(w->p);
}

// Loops for either source; the loops for hi alone are those of the program that lends its
// registers.
static void run_lent_loops(struct program * w) {
    struct asm_program * p = w->p;
    int pieces = asm_label_new(p), f16 = asm_label_new(p), done = asm_label_new(p);
    asm_jump_if_nonzero(p, w->pieces, pieces);
    emit_set_label(p, w->lent->back, done);
    asm_jump_if_zero(p, w->lent->is_f16, w->lent->f32_loop);
    asm_jump(p, w->lent->f16_loop);
    asm_label(p, pieces);
    asm_jump_if_nonzero(p, w->lent->is_f16, f16);
    loop_with_constants(w, DTYPE_F32, true);
    asm_jump(p, done);
    asm_label(p, f16);
    loop_with_constants(w, DTYPE_F16, true);
    asm_label(p, done);
}

// A run, from its parameters on.
static void convert_run(struct program * w, int end) {
    struct asm_program * p = w->p;
    int again = asm_label_new(p), last = asm_label_new(p);
    start_run(w);
    if (w->lent) {
        give_back(w);
    }
    asm_label(p, again);
    take_chunk(w);
    if (w->lent) {
        run_lent_loops(w);
    } else {
        run_loops(w);
    }
    flip(w, w->in, CV_IN_BYTES);
    flip(w, w->out, CV_OUT_BYTES);
    release(w, CV_LOCK_IN_EMPTY, w->one);
    asm_jump_if_zero(p, w->chunks, last);
    release(w, CV_LOCK_OUT_FULL, w->one);
    asm_jump(p, again);
    asm_label(p, last);
    if (w->lent) {
        set(w, w->minus_two, -2);
    }
    acquire(w, CV_LOCK_IN_EMPTY, w->minus_two);
    release(w, CV_LOCK_OUT_FULL, w->one);
    asm_jump(p, end);
}

void convert_section(struct asm_program * p, enum dtype source, int end) {
    struct program writer = {.p = p, .source = source};
    asm_section(p);
    take_registers(&writer);
    convert_run(&writer, end);
    give_back(&writer);
}

void convert_with(struct asm_program * p, const struct convert_lent * lent, int end) {
    const struct asm_reg *r = lent->scalars, *pointers = lent->pointers;
    struct program writer = {
        .p = p,
        .source = DTYPE_F32,
        .lent = lent,
        .chunks = r[0],
        .trips = lent->trips,
        .pieces = r[1],
        .flag = r[2],
        .stride = r[3],
        .in = r[4],
        .out = r[5],
        .two = r[2], // where they are wanted, flag is not
        .minus_two = r[2],
        .one = lent->one,
        .minus_one = lent->minus_one,
        .params = pointers[0],
        .phi2 = pointers[1],
        .pin = lent->from[0],
        .pin2 = lent->from[1],
        .phi = lent->to,
        .plo = lent->back, // of pieces, which the lender's loop does not make
    };
    const struct constant zero = {&writer.zero, LANES_32, 0};
    asm_section(p);
    take_all(&writer, &zero, 1);
    set(&writer, writer.params, address(&writer, CV_PARAMS));
    convert_run(&writer, end);
}

void convert_loop(struct asm_program * p, enum dtype source, bool limited, struct asm_reg trips,
                  struct asm_reg from, struct asm_reg from_again, struct asm_reg to) {
    struct program writer = {.p = p,
                             .source = source,
                             .limited = limited,
                             .trips = trips,
                             .pin = from,
                             .pin2 = from_again,
                             .phi = to};
    bool has_constants = source == DTYPE_F16 || limited;
    writer.as_integers = source == DTYPE_F16 && asm_target(p)->classes[ASM_BM].quarter != AIE_NONE;
    if (has_constants) {
        asm_section(p);
        take_constants(&writer);
    }
    loop(&writer, false);
    give_back(&writer);
    if (has_constants) {
        asm_section(p);
    }
}
