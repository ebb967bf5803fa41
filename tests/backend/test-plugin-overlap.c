// test-plugin-overlap: random graphs of the nodes whose kernels are joined, issued ahead of a sync,
// read early, fused, paired and kept, in memory that ggml's allocator gives from tensor to tensor,
// with nodes in place, and views that overlap in part. Two graphs take turns on one stream, three
// times each: again as they were, with other data and other ids, and built anew at other addresses.
// Each time all outputs, and the caches that nodes wrote rows to, are to the last bit what the same
// kernels come to when each is sent by itself, and are ggml's CPU's, which has the weights as f32.
//
// test-plugin-overlap [FIRST-SEED [COUNT [NODES]]]: these seeds, and no more steps than NODES of
// each graph, which leaves a failing graph's beginning as it was.
#include "random-graph.h"
#include "sanitized.h"

enum { ROUNDS = 3, GRAPHS = 2 };
#define MOST_OFF 0.1 // of the sum of squares

static ggml_backend_t one_by_one; // a stream of the device that sends each kernel by itself
static bool precise;
static int n_nodes; // of all graphs

// ---- data ----

static void fill_rows(uint32_t * seed, int64_t n, int64_t below, int64_t * to) {
    int64_t all[256], first = draw(seed, (uint32_t) (below - n + 1));
    bool apart = draw(seed, 2);
    assert_true(below <= 256);
    for (int64_t i = 0; i < below; i++) {
        all[i] = i;
    }
    for (int64_t i = 0; i < n; i++) { // the first ones of a permutation
        int64_t k = i + draw(seed, (uint32_t) (below - i)), at = all[k];
        all[k] = all[i];
        all[i] = at;
        to[i] = apart ? at : first + i;
    }
}

// Of a token they differ.
static void fill_ids(uint32_t * seed, const struct leaf * l, int32_t * to) {
    for (int64_t token = 0; token < l->t->ne[1]; token++) {
        int64_t ids[EXPERTS];
        fill_rows(seed, l->t->ne[0], l->below, ids);
        for (int64_t i = 0; i < l->t->ne[0]; i++) {
            to[token * l->t->ne[0] + i] = (int32_t) ids[i];
        }
    }
}

static void * data_of(const struct leaf * l, uint32_t seed) {
    if (l->fill == FILL_RANDOM) {
        return random_bytes(l->t->type, l->t->ne[0], ggml_nrows(l->t), seed);
    }
    void * data = malloc(ggml_nbytes(l->t));
    int32_t * words = data;
    if (l->fill == FILL_ROWS) {
        fill_rows(&seed, l->t->ne[0], l->below, data);
    } else if (l->fill == FILL_IDS) {
        fill_ids(&seed, l, words);
    } else {
        int32_t first = (int32_t) draw(&seed, 100);
        for (int64_t i = 0; i < l->t->ne[0]; i++) {
            words[i] = l->fill == FILL_PLACES ? first + (int32_t) i
                                              : (int32_t) draw(&seed, (uint32_t) l->below);
        }
    }
    return data;
}

static void set_both(struct ggml_tensor * t, struct ggml_tensor * want, void * data) {
    ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
    if (t->type == want->type) {
        ggml_backend_tensor_set(want, data, 0, ggml_nbytes(t));
    } else { // weights, as numbers
        int64_t n = ggml_nelements(t);
        float * numbers = malloc((size_t) n * sizeof *numbers);
        ggml_get_type_traits(t->type)->to_float(data, numbers, n);
        ggml_backend_tensor_set(want, numbers, 0, ggml_nbytes(want));
        free(numbers);
    }
    free(data);
}

static void fill_weights(struct side * d, struct side * r, uint32_t seed) {
    for (int i = 0; i < MOST_STEPS * 4; i++) {
        struct ggml_tensor *t = d->weights[i / 4][i % 4], *want = r->weights[i / 4][i % 4];
        if (t && want) {
            set_both(t, want, random_bytes(t->type, t->ne[0], ggml_nrows(t), seed + (uint32_t) i));
        }
    }
}

static void fill_both(struct side * d, struct side * r, uint32_t seed) {
    for (int i = 0; i < CACHES; i++) {
        struct ggml_tensor * t = d->caches[i];
        set_both(t, r->caches[i],
                 random_bytes(t->type, t->ne[0], ggml_nrows(t), seed + 900 + (uint32_t) i));
    }
    assert_int_equal(d->n_leaves, r->n_leaves);
    for (int i = 0; i < d->n_leaves; i++) {
        if (d->leaves[i].t->buffer) { // it is used
            set_both(d->leaves[i].t, r->leaves[i].t, data_of(&d->leaves[i], seed + (uint32_t) i));
        }
    }
}

// ---- comparison ----

static void describe(const struct program * p, const struct side * s) {
    print_message("seed %u, %lld tokens:\n", p->seed, (long long) p->tokens);
    for (int i = 0; i < p->n; i++) {
        const struct step * st = &p->steps[i];
        const struct ggml_tensor *t = s->values[INPUTS + i], *w = s->weights[i][0];
        if (!st->dropped) {
            print_message("  %d: %s of about %d, %d%s%s: %lld, %s\n", INPUTS + i,
                          kinds[st->kind].name, st->a, st->b, st->in_place ? ", in place" : "",
                          t->flags & GGML_TENSOR_FLAG_OUTPUT ? ", output" : "",
                          (long long) t->ne[0], w ? ggml_type_name(w->type) : "-");
        }
    }
}

// Of products of bf16 the first digits are lost in a long chain, the more where a norm follows what
// nearly cancels out: it is told by all numbers together. Of precise ones it is each number.
static bool is_close(const double * x, const double * y, int64_t n) {
    double size = 0, off = 0;
    bool close = true;
    for (int64_t i = 0; i < n; i++) {
        size += y[i] * y[i] / (double) n;
        off += (x[i] - y[i]) * (x[i] - y[i]) / (double) n;
    }
    for (int64_t i = 0; i < n && precise; i++) {
        close &= fabs(x[i] - y[i]) <= 0.03 * (sqrt(size) + fabs(y[i]));
    }
    return close && off <= MOST_OFF * size;
}

// What is compared: outputs, and then caches; NULL: none with that number.
static const struct ggml_tensor * compared(const struct side * s, int i) {
    const struct ggml_tensor * t = i < VALUES ? s->values[i] : s->caches[i - VALUES];
    return t && (i >= VALUES || t->flags & GGML_TENSOR_FLAG_OUTPUT) ? t : NULL;
}

static void compare(const struct program * p, const struct side * d, const struct side * r,
                    int round, double * const alone[]) {
    for (int i = 0; i < VALUES + CACHES; i++) {
        const struct ggml_tensor * t = compared(d, i);
        double * got = t ? values(t) : NULL;
        double * want = t ? values(compared(r, i)) : NULL;
        int64_t n = t ? ggml_nelements(t) : 0;
        bool same = !t || !memcmp(got, alone[i], (size_t) n * sizeof *got);
        if (!same || !is_close(got, want, n)) {
            describe(p, d);
            fail_msg("seed %u, round %d: %d is not what %s", p->seed, round, i,
                     same ? "ggml's CPU has" : "its kernels come to one by one");
        }
        free(got);
        free(want);
    }
}

static void compute(const struct side * s, ggml_backend_t backend) {
    assert_int_equal(ggml_backend_graph_compute(backend, s->graph), GGML_STATUS_SUCCESS);
}

static void run_round(struct program * p, struct side * d, struct side * r, int round) {
    uint32_t seed = p->seed * 1000 + 100 * (uint32_t) round;
    double * alone[VALUES + CACHES] = {NULL};
    if (round == ROUNDS - 1) {
        build(d, p);
        build(r, p);
    }
    if (round != 1) {
        assert_true(ggml_gallocr_alloc_graph(d->places[round > 0], d->graph));
        assert_true(ggml_gallocr_alloc_graph(r->places[round > 0], r->graph));
    }
    if (round == 0 || p->seed % 4 == 0) {
        fill_weights(d, r, p->seed + (uint32_t) round);
    }
    fill_both(d, r, seed);
    compute(d, one_by_one);
    for (int i = 0; i < VALUES + CACHES; i++) {
        alone[i] = compared(d, i) ? values(compared(d, i)) : NULL;
    }
    fill_both(d, r, seed); // some of it was written over
    compute(d, stream);
    compute(r, reference);
    compare(p, d, r, round, alone);
    for (int i = 0; i < VALUES + CACHES; i++) {
        free(alone[i]);
    }
}

static void run_pair(uint32_t seed, int most) {
    struct program p[GRAPHS];
    struct side device[GRAPHS], other[GRAPHS];
    for (int i = 0; i < GRAPHS; i++) {
        p[i] = draw_program(2 * seed + (uint32_t) i, most);
        side_open(&device[i], stream, &p[i]);
        side_open(&other[i], reference, &p[i]);
        n_nodes += ggml_graph_n_nodes(device[i].graph);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < GRAPHS; i++) {
            run_round(&p[i], &device[i], &other[i], round);
        }
    }
    for (int i = 0; i < GRAPHS; i++) {
        side_close(&device[i]);
        side_close(&other[i]);
    }
}

static uint32_t first = 1, count = SANITIZED ? 1 : 4;
static int nodes = MOST_STEPS;

static void random_graphs(void ** state) {
    (void) state;
    struct ggml_backend_hsa_stats before = stats();
    for (uint32_t seed = first; seed < first + count; seed++) {
        run_pair(seed, nodes);
    }
    struct ggml_backend_hsa_stats after = stats();
    print_message("seeds %u to %u: %d graphs of %d nodes, %llu kernels in %llu packets\n", first,
                  first + count - 1, GRAPHS * (int) count, n_nodes,
                  (unsigned long long) (after.dispatches - before.dispatches),
                  (unsigned long long) (after.packets - before.packets));
    // Half of them went one by one, and of the others more than two together.
    assert_true(nodes < MOST_STEPS ||
                3 * (after.dispatches - before.dispatches) > 4 * (after.packets - before.packets));
}

static int load_all(void ** state) {
    if (load_both(state) != 0) {
        return -1;
    }
    setenv("GGML_HSA_JOIN", "0", 1);
    one_by_one = ggml_backend_dev_init(dev, NULL);
    unsetenv("GGML_HSA_JOIN");
    return one_by_one ? 0 : -1;
}

static int unload_all(void ** state) {
    ggml_backend_free(one_by_one);
    return unload_both(state);
}

int main(int argc, char ** argv) {
    setenv("GGML_HSA_EMU_STRICT", "1", 0);
    first = argc > 1 ? (uint32_t) strtoul(argv[1], NULL, 10) : first;
    count = argc > 2 ? (uint32_t) strtoul(argv[2], NULL, 10) : count;
    nodes = argc > 3 ? atoi(argv[3]) : nodes;
    const char * kind = getenv("GGML_HSA_MUL_MAT");
    precise = kind && !strcmp(kind, "precise");
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs)};
    return cmocka_run_group_tests(tests, load_all, unload_all);
}
