// attention-products: s = q . k for the keys of a block, and o += p . v. Both take two rows at a
// time, and as many vectors of keys or of dimensions as there are accumulators for; what does not
// come out even goes vector by vector. A factor that all lanes share is a word of two numbers of
// bf16, in all lanes of a vector, whose even and odd places are set apart: then the lower half is
// one of them and the upper half the other, as k's dimensions and v's keys are.
#include "attention-program.h"

#include "aie/target/verbs.h"

enum { ROWS = 2, VECTOR = 64, HALF = 32 };

struct group {
    struct asm_reg acc[ROWS][AT_ACCS / ROWS];
    int vectors;
};

static void take(struct at_writer * w, struct group * g, int vectors) {
    g->vectors = vectors;
    for (int i = 0; i < ROWS * vectors; i++) {
        g->acc[i / vectors][i % vectors] =
            asm_global(w->p, (enum asm_class) asm_target(w->p)->acc_class);
    }
}

static void give_back(struct at_writer * w, struct group * g) {
    for (int i = 0; i < ROWS * g->vectors; i++) {
        asm_release(w->p, g->acc[i / g->vectors][i % g->vectors]);
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

// The next word of a row in all lanes, its numbers in a half each.
static struct asm_reg shared(struct at_writer * w, int memory, struct asm_reg pointer,
                             struct asm_reg split) {
    struct asm_reg word = asm_local(w->p, ASM_R), x = emit_new_pair(w->p), y = emit_new_pair(w->p);
    emit_load_word(w->p, memory, word, pointer, 0);
    emit_advance(w->p, pointer, 4);
    emit_splat(w->p, LANE_32, x, word);
    emit_shuffle(w->p, y, x, x, split);
    return y;
}

// The shuffle that sets even and odd places of 16 bits apart.
static struct asm_reg split_places(struct at_writer * w) {
    enum { SPLIT_16 = 44 };
    struct asm_reg r = asm_local(w->p, ASM_R);
    emit_set_small(w->p, r, SPLIT_16);
    return r;
}

static void multiply(struct at_writer * w, const struct group * g, int vector, struct asm_reg x,
                     const struct asm_reg by[ROWS]) {
    for (int r = 0; r < ROWS; r++) {
        struct asm_reg acc = g->acc[r][vector];
        emit_mac(w->p, acc, acc, x, by[r], w->lanes.mul_config);
    }
}

// The results' rows are where w->d is.
static void move_results(struct at_writer * w, const struct group * g, int step_param, int memory,
                         bool load) {
    rows_at(w, w->at[0], w->at[1], w->d, step_param);
    for (int r = 0; r < ROWS; r++) {
        for (int v = 0; v < g->vectors; v++) {
            (load ? emit_load : emit_store)(w->p, memory, g->acc[r][v], w->at[r], VECTOR * v);
        }
    }
}

// ---- scores ----

// From q at w->b and k at w->a.
static void score(struct at_writer * w, int vectors) {
    struct group g;
    struct val zero = k_bits(&w->lanes, 0);
    take(w, &g, vectors);
    for (int i = 0; i < ROWS * vectors; i++) {
        emit_load_same(w->p, MEM_POOL, g.acc[i / vectors][i % vectors], w->lanes.pool,
                       lanes_slot_offset(zero.slot));
    }
    rows_at(w, w->at[1], w->at[2], w->b, AT_PARAM_Q_STEP);
    at_copy(w, w->c, w->a);
    at_param(w, w->step, AT_PARAM_K_STEP);
    at_param(w, w->n, AT_PARAM_K_PAIRS);
    asm_loop_begin(w->p, w->n);
    at_copy(w, w->at[0], w->c);
    at_add(w, w->c, w->c, w->step);
    struct asm_reg split = split_places(w);
    const struct asm_reg by[ROWS] = {shared(w, MEM_Q, w->at[1], split),
                                     shared(w, MEM_Q, w->at[2], split)};
    for (int v = 0; v < vectors; v++) {
        struct asm_reg raw = emit_new_pair(w->p), x = emit_new_pair(w->p);
        emit_load(w->p, MEM_K, raw, w->at[0], VECTOR * v);
        emit_shuffle(w->p, x, raw, raw, split);
        multiply(w, &g, v, x, by);
    }
    asm_loop_end(w->p);
    move_results(w, &g, AT_PARAM_S_STEP, MEM_S_NEW, false);
    give_back(w, &g);
}

// ---- values ----

// From p at w->b and v at w->a.
static void value(struct at_writer * w, int vectors) {
    struct group g;
    take(w, &g, vectors);
    move_results(w, &g, AT_PARAM_O_STEP, MEM_O, true);
    asm_label(w->p, asm_label_new(w->p)); // pointers are free again
    rows_at(w, w->at[2], w->at[3], w->b, AT_PARAM_S_STEP);
    at_copy(w, w->c, w->a);
    at_param(w, w->step, AT_PARAM_V_STEP);
    at_param(w, w->n, AT_NOW_PAIRS);
    asm_loop_begin(w->p, w->n);
    struct asm_reg second = asm_local(w->p, ASM_R);
    at_add(w, second, w->c, w->step);
    at_copy(w, w->at[0], w->c);
    at_copy(w, w->at[1], second);
    at_add(w, w->c, second, w->step);
    struct asm_reg split = split_places(w);
    const struct asm_reg by[ROWS] = {shared(w, MEM_S, w->at[2], split),
                                     shared(w, MEM_S, w->at[3], split)};
    for (int v = 0; v < vectors; v++) {
        struct asm_reg x = emit_new_pair(w->p);
        for (int half = 0; half < 2; half++) {
            emit_load(w->p, MEM_V, asm_half(x, half), w->at[half], HALF * v);
        }
        multiply(w, &g, v, x, by);
    }
    asm_loop_end(w->p);
    move_results(w, &g, AT_PARAM_O_STEP, MEM_O_NEW, false);
    give_back(w, &g);
}

// ---- both ----

typedef void group_fn(struct at_writer * w, int vectors);

// All vectors of two rows, in groups: w->left says how many are left. bytes: of a vector of k or v.
static void vectors_of(struct at_writer * w, group_fn * fn, int each, int bytes, int end) {
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
    emit_set_small(w->p, by, each * VECTOR);
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
    if (w->vectors > 1) {
        vectors_of(w, way->fn, w->vectors, way->bytes, asm_label_new(w->p));
    }
    vectors_of(w, way->fn, 1, way->bytes, asm_label_new(w->p));
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
