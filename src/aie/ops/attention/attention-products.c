// attention-products: s = q . k for the keys of a block, and o += p . v. Both take two rows at a
// time, and as many vectors of keys or of dimensions as there are accumulators for; what does not
// come out even goes vector by vector. A factor that all lanes share comes in a word of two numbers
// of bf16, for two dimensions of k or two keys of v.
//
// A multiplication makes two products for each lane of a vector, and then a factor's word is in all
// lanes, its even and odd places set apart: the lower half is one number and the upper half the
// other, as k's dimensions and v's keys are. Or it makes one for each lane of two vectors, which
// share an accumulator (lanes/aie2p-wide.h): then each number is in all lanes of a vector of its
// own.
#include "attention-program.h"

#include "aie/ops/lanes/aie2p-wide.h"
#include "aie/verbs/verbs.h"

enum { ROWS = 2, NUMBERS = 2 /* of a word */, VECTOR = 64, HALF = 32 };

struct group {
    struct asm_reg acc[ROWS][AT_ACCS / ROWS];
    int vectors, accs; // of a row
    bool wide;
};

static int most_vectors(const struct at_writer * w) {
    enum { WIDE_ACCS = 2 };
    return wide_is_there(asm_target(w->p)) ? WIDE_ACCS * WIDE_VALUES : AT_ACCS / ROWS;
}

static void take(struct at_writer * w, struct group * g, int vectors) {
    g->vectors = vectors;
    g->wide = wide_is_there(asm_target(w->p));
    g->accs = g->wide ? (vectors + WIDE_VALUES - 1) / WIDE_VALUES : vectors;
    for (int i = 0; i < ROWS * g->accs; i++) {
        g->acc[i / g->accs][i % g->accs] =
            asm_global(w->p, (enum asm_class) asm_target(w->p)->acc_class);
    }
}

static void give_back(struct at_writer * w, struct group * g) {
    for (int i = 0; i < ROWS * g->accs; i++) {
        asm_release(w->p, g->acc[i / g->accs][i % g->accs]);
    }
}

static struct asm_reg vector_of(const struct group * g, int row, int v) {
    return g->wide ? asm_quarter(g->acc[row][v / WIDE_VALUES], v % WIDE_VALUES) : g->acc[row][v];
}

// Clears the accumulators from a vector on. A lone vector has more of them than it uses: an
// accumulator that was never written must not be added to.
static void clear(struct at_writer * w, const struct group * g, int first) {
    struct val zero = k_bits(&w->lanes, 0);
    for (int r = 0; r < ROWS; r++) {
        for (int v = first; v < (g->wide ? WIDE_VALUES * g->accs : g->accs); v++) {
            emit_load_same(w->p, MEM_POOL, vector_of(g, r, v), w->lanes.pool,
                           lanes_slot_offset(zero.slot));
        }
    }
}

// Pointers to the first and the second row.
static void rows_at(struct at_writer * w, struct asm_reg first, struct asm_reg second,
                    struct asm_reg at, int step_param) {
    struct asm_reg next = asm_local(w->p, ASM_R);
    at_copy(w, first, at);
    at_add(w, next, at, at_local_param(w, step_param));
    at_copy(w, second, next);
}

// The results' rows are where w->d is.
static void move_results(struct at_writer * w, const struct group * g, int step_param, int memory,
                         bool load) {
    rows_at(w, w->at[0], w->at[1], w->d, step_param);
    for (int r = 0; r < ROWS; r++) {
        for (int v = 0; v < g->vectors; v++) {
            (load ? emit_load : emit_store)(w->p, memory, vector_of(g, r, v), w->at[r], VECTOR * v);
        }
    }
}

static struct asm_reg small(struct at_writer * w, int value) {
    struct asm_reg r = asm_local(w->p, ASM_R);
    emit_set_small(w->p, r, value);
    return r;
}

// ---- factors ----

// Of each row: a vector with both numbers, or one for each.
struct factors {
    struct asm_reg of[ROWS][NUMBERS];
    struct asm_reg how; // the numbers were set apart: by a shift, or this shuffle
};

enum { SPLIT_16 = 44 }; // the shuffle that sets even and odd places of 16 bits apart

// The next words of the rows.
static struct factors factors_at(struct at_writer * w, int memory,
                                 const struct asm_reg pointers[ROWS], bool wide) {
    struct factors f = {.how = small(w, wide ? -16 : SPLIT_16)};
    for (int r = 0; r < ROWS; r++) {
        struct asm_reg word = asm_local(w->p, ASM_R);
        emit_load_word_next(w->p, memory, word, pointers[r]);
        if (wide) {
            struct asm_reg upper = asm_local(w->p, ASM_R);
            emit_alu(w->p, AIE_BASIC_SHIFT, upper, word, f.how);
            for (int i = 0; i < NUMBERS; i++) {
                f.of[r][i] = asm_local(w->p, ASM_X);
                emit_splat(w->p, LANE_16, f.of[r][i], i ? upper : word);
            }
        } else {
            struct asm_reg x = emit_new_pair(w->p);
            f.of[r][0] = emit_new_pair(w->p);
            emit_splat(w->p, LANE_32, x, word);
            emit_shuffle(w->p, f.of[r][0], x, x, f.how);
        }
    }
    return f;
}

// which: of the numbers.
static void multiply(struct at_writer * w, const struct group * g, int acc, struct asm_reg x,
                     const struct factors * by, int which) {
    for (int r = 0; r < ROWS; r++) {
        struct asm_reg sum = g->acc[r][acc];
        if (g->wide) {
            emit_each(w->p, LANE_PLUS_PRODUCT, sum, sum, x, by->of[r][which], w->lanes.mul_config);
        } else {
            emit_mac(w->p, sum, sum, x, by->of[r][which], w->lanes.mul_config);
        }
    }
}

// ---- scores ----

// Two dimensions of so many vectors of keys.
static void score_pairs(struct at_writer * w, const struct group * g, const struct factors * by) {
    for (int v = 0; v < g->vectors; v++) {
        struct asm_reg raw = emit_new_pair(w->p), x = emit_new_pair(w->p);
        emit_load(w->p, MEM_K, raw, w->at[0], VECTOR * v);
        emit_shuffle(w->p, x, raw, raw, by->how);
        multiply(w, g, v, x, by, 0);
    }
}

static void score_each(struct at_writer * w, const struct group * g, const struct factors * by) {
    enum { EVEN_16 = 2 }; // places of two vectors; behind it, the odd ones
    struct asm_reg places[NUMBERS];
    for (int i = 0; i < NUMBERS; i++) {
        places[i] = small(w, EVEN_16 + i);
    }
    for (int a = 0; a < g->accs; a++) {
        struct asm_reg raw[WIDE_VALUES];
        for (int i = 0; i < WIDE_VALUES && WIDE_VALUES * a + i < g->vectors; i++) {
            raw[i] = asm_local(w->p, ASM_X);
            emit_load(w->p, MEM_K, raw[i], w->at[0], VECTOR * (WIDE_VALUES * a + i));
        }
        for (int i = 0; i < NUMBERS; i++) {
            struct asm_reg x = asm_local(w->p, ASM_X);
            emit_shuffle(w->p, x, raw[0], raw[g->vectors > 1], places[i]);
            multiply(w, g, a, x, by, i);
        }
    }
}

// From q at w->b and k at w->a.
static void score(struct at_writer * w, int vectors) {
    struct group g;
    take(w, &g, vectors);
    clear(w, &g, 0);
    rows_at(w, w->at[1], w->at[2], w->b, AT_PARAM_Q_STEP);
    at_copy(w, w->c, w->a);
    at_param(w, w->step, AT_PARAM_K_STEP);
    at_param(w, w->n, AT_PARAM_K_PAIRS);
    asm_loop_begin(w->p, w->n);
    at_copy(w, w->at[0], w->c);
    at_add(w, w->c, w->c, w->step);
    struct factors by = factors_at(w, MEM_Q, w->at + 1, g.wide);
    (g.wide ? score_each : score_pairs)(w, &g, &by);
    asm_loop_end(w->p);
    move_results(w, &g, AT_PARAM_S_STEP, MEM_S_NEW, false);
    give_back(w, &g);
}

// ---- values ----

// Two keys of so many vectors of dimensions; rows of v begin where halves of vectors do.
static void value_pairs(struct at_writer * w, const struct group * g, const struct factors * by) {
    for (int v = 0; v < g->vectors; v++) {
        struct asm_reg x = emit_new_pair(w->p);
        for (int key = 0; key < NUMBERS; key++) {
            emit_load(w->p, MEM_V, asm_half(x, key), w->at[key], HALF * v);
        }
        multiply(w, g, v, x, by, 0);
    }
}

static void value_each(struct at_writer * w, const struct group * g, const struct factors * by) {
    for (int key = 0; key < NUMBERS; key++) {
        for (int a = 0; a < g->accs; a++) {
            struct asm_reg x = asm_local(w->p, ASM_X);
            for (int i = 0; i < WIDE_VALUES; i++) {
                int v = g->vectors > 1 ? WIDE_VALUES * a + i : 0;
                emit_load(w->p, MEM_V, asm_half(x, i), w->at[key], HALF * v);
            }
            multiply(w, g, a, x, by, key);
        }
    }
}

// From p at w->b and v at w->a.
static void value(struct at_writer * w, int vectors) {
    struct group g;
    take(w, &g, vectors);
    clear(w, &g, vectors);
    move_results(w, &g, AT_PARAM_O_STEP, MEM_O, true);
    asm_label(w->p, asm_label_new(w->p)); // pointers are free again
    rows_at(w, w->at[2], w->at[3], w->b, AT_PARAM_S_STEP);
    at_copy(w, w->c, w->a);
    at_param(w, w->step, AT_PARAM_V_STEP);
    at_param(w, w->n, AT_NOW_PAIRS);
    asm_loop_begin(w->p, w->n);
    if (g.wide && vectors == 1) {
        asm_loop_alone(w->p); // of heads that are no multiples of 64; there is no room for more
    }
    struct asm_reg second = asm_local(w->p, ASM_R);
    at_add(w, second, w->c, w->step);
    at_copy(w, w->at[0], w->c);
    at_copy(w, w->at[1], second);
    at_add(w, w->c, second, w->step);
    struct factors by = factors_at(w, MEM_S, w->at + 2, g.wide);
    (g.wide ? value_each : value_pairs)(w, &g, &by);
    asm_loop_end(w->p);
    move_results(w, &g, AT_PARAM_O_STEP, MEM_O_NEW, false);
    give_back(w, &g);
}

// ---- both ----

typedef void group_fn(struct at_writer * w, int vectors);

// All vectors of two rows, in groups: w->left says how many are left. bytes: of a vector of k or v.
static void in_groups(struct at_writer * w, group_fn * fn, int each, int bytes, int end) {
    int again = asm_label_new(w->p);
    struct asm_reg enough = asm_local(w->p, ASM_R), size = asm_local(w->p, ASM_R);
    asm_label(w->p, again);
    if (each > 1) {
        emit_set_small(w->p, size, each);
        emit_alu(w->p, AIE_BASIC_LESS, enough, w->left, size);
        asm_jump_if_nonzero(w->p, enough, end);
    } else {
        asm_jump_if_zero(w->p, w->left, end);
    }
    fn(w, each);
    struct asm_reg by = asm_local(w->p, ASM_R);
    emit_set_small(w->p, by, each * bytes);
    at_add(w, w->a, w->a, by);
    if (bytes != VECTOR) {
        emit_set_small(w->p, by, each * VECTOR);
    }
    at_add(w, w->d, w->d, by);
    emit_add_small(w->p, w->left, w->left, -each);
    asm_jump(w->p, again);
    asm_label(w->p, end);
}

struct way { // of rows that are multiplied with something
    group_fn * fn;
    int bytes;               // of a vector of what is shared
    int from, rows, results; // parameters: addresses
    int row_step, result_step;
};

// Rows by twos. Registers: a shared, b rows, d results, left vectors.
static void products(struct at_writer * w, const struct way * way) {
    int again = asm_label_new(w->p);
    at_keep(w, AT_NOW_ROWS, at_local_param(w, AT_PARAM_PAIRED));
    at_keep(w, AT_NOW_ROW, at_local_param(w, way->rows));
    at_keep(w, AT_NOW_RESULT, at_local_param(w, way->results));
    asm_label(w->p, again);
    at_param(w, w->a, way->from);
    at_param(w, w->b, AT_NOW_ROW);
    at_param(w, w->d, AT_NOW_RESULT);
    at_param(w, w->left, way->fn == score ? AT_NOW_VECTORS : AT_PARAM_V_VECTORS);
    in_groups(w, way->fn, most_vectors(w), way->bytes, asm_label_new(w->p));
    in_groups(w, way->fn, 1, way->bytes, asm_label_new(w->p));
    at_param(w, w->b, AT_NOW_ROW);
    at_param(w, w->d, AT_NOW_RESULT);
    at_param(w, w->n, AT_NOW_ROWS);
    for (int i = 0; i < ROWS; i++) {
        at_add_param(w, w->b, way->row_step);
        at_add_param(w, w->d, way->result_step);
    }
    emit_add_small(w->p, w->n, w->n, -1);
    at_keep(w, AT_NOW_ROW, w->b);
    at_keep(w, AT_NOW_RESULT, w->d);
    at_keep(w, AT_NOW_ROWS, w->n);
    asm_jump_if_nonzero(w->p, w->n, again);
}

void at_scores(struct at_writer * w) {
    products(w, &(struct way){score, VECTOR, AT_PARAM_K, AT_PARAM_Q, AT_PARAM_S, AT_PARAM_Q_STEP,
                              AT_PARAM_S_STEP});
}

void at_values(struct at_writer * w) {
    products(w, &(struct way){value, HALF, AT_PARAM_V, AT_PARAM_S, AT_PARAM_O, AT_PARAM_S_STEP,
                              AT_PARAM_O_STEP});
}
