// test-plugin-gpu-layout: nodes of an emulated GPU whose results lie in odd places: in larger
// tensors, with gaps, over their own inputs, or over inputs with another layout. Such a node is
// right, and what lies around it is untouched, or it is refused with a status.
#include "gpu-world.h"

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

enum { ROOT = 2000 }; // elements

// Everything lies in one tensor, the root.
struct scene {
    struct world w;
    struct ggml_tensor * root;
    enum ggml_type type;
};

static struct scene scene_new(enum ggml_type type) {
    struct scene s = {.w = world_new(), .type = type};
    s.root = ggml_new_tensor_1d(s.w.ctx, type, ROOT);
    s.w.buffer = ggml_backend_alloc_ctx_tensors(s.w.ctx, stream);
    assert_non_null(s.w.buffer);
    fill(s.root, 77);
    return s;
}

static struct ggml_tensor * line(struct scene * s, int64_t n, size_t first) {
    return ggml_view_1d(s->w.ctx, s->root, n, first * ggml_type_size(s->type));
}

static struct ggml_tensor * sheet(struct scene * s, int64_t n0, int64_t n1, size_t pitch,
                                  size_t first) {
    size_t size = ggml_type_size(s->type);
    return ggml_view_2d(s->w.ctx, s->root, n0, n1, pitch * size, first * size);
}

// A tensor of other datatype or of the allocator's choosing, put over the root from element
// `first`.
static struct ggml_tensor * laid(struct scene * s, struct ggml_tensor * t, size_t first) {
    char * at = (char *) s->root->data + first * ggml_type_size(s->type);
    assert_int_equal(ggml_backend_tensor_alloc(s->w.buffer, t, at), GGML_STATUS_SUCCESS);
    return t;
}

static void place_views(struct scene * s) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(s->w.ctx); t;
         t = ggml_get_next_tensor(s->w.ctx, t)) {
        if (t->view_src && !t->buffer) {
            assert_int_equal(ggml_backend_view_init(t), GGML_STATUS_SUCCESS);
        }
    }
}

// Computes one node and compares all of the root. MAY_REFUSE: a status will do as well.
enum answer { MUST, MAY_REFUSE };

static void scene_check(struct scene * s, struct ggml_tensor * node, enum answer answer,
                        const char * what) {
    place_views(s);
    ggml_build_forward_expand(s->w.graph, node);
    char *before = bytes_of(s->root), *data[3] = {NULL, NULL, NULL};
    const char * root = s->root->data;
    for (int i = 0; i < 3; i++) {
        data[i] = node->src[i] ? before + ((const char *) node->src[i]->data - root) : NULL;
    }
    enum ggml_status st = ggml_backend_graph_compute(stream, s->w.graph);
    if (st == GGML_STATUS_SUCCESS) {
        char * after = bytes_of(s->root);
        char * own = calloc(1, ggml_nbytes(s->root)); // 1: a byte of the result
        size_t at = (size_t) ((const char *) node->data - root);
        FOR_INDICES(node, i) {
            memset(place(node, own + at, i), 1, ggml_type_size(node->type));
        }
        for (size_t i = 0; i < ggml_nbytes(s->root); i++) {
            if (!own[i] && before[i] != after[i]) {
                fail_msg("%s: byte %zu is none of the result's, and changed", what, i);
            }
        }
        if (!node_is_right(node, after + at, data)) {
            fail_msg("%s: wrong", what);
        }
        free(after);
        free(own);
    } else if (answer == MUST || st != GGML_STATUS_FAILED) {
        fail_msg("%s: status %d", what, st);
    } else {
        print_message("%s: refused\n", what);
    }
    free(before);
    ggml_free(s->w.ctx);
    ggml_backend_buffer_free(s->w.buffer);
}

#define SCENE(type, answer, node)                                                                  \
    do {                                                                                           \
        struct scene s = scene_new(type);                                                          \
        struct ggml_context * ctx = s.w.ctx;                                                       \
        (void) ctx;                                                                                \
        scene_check(&s, node, answer, #node);                                                      \
    } while (0)

static const enum ggml_type floats[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16};

// ---- results in larger tensors ----

static void into_views(void ** state) {
    (void) state;
    for (size_t t = 0; t < COUNT(floats); t++) {
        for (size_t at = 0; at < 4; at++) {
            SCENE(floats[t], MUST, ggml_add_inplace(ctx, line(&s, 37, at), line(&s, 37, 100)));
            SCENE(floats[t], MUST, ggml_cpy(ctx, line(&s, 37, 101), line(&s, 37, at)));
        }
        SCENE(floats[t], MUST,
              ggml_add_inplace(ctx, sheet(&s, 7, 9, 13, 5), sheet(&s, 7, 3, 8, 700)));
        SCENE(floats[t], MUST, ggml_cpy(ctx, sheet(&s, 7, 9, 20, 5), sheet(&s, 7, 9, 11, 1000)));
        SCENE(floats[t], MUST, ggml_rms_norm_inplace(ctx, sheet(&s, 65, 5, 70, 3), 1e-5f));
    }
    SCENE(GGML_TYPE_F32, MUST, ggml_scale_inplace(ctx, sheet(&s, 7, 9, 13, 5), 3));
    SCENE(GGML_TYPE_F32, MUST, ggml_norm_inplace(ctx, sheet(&s, 10, 5, 11, 3), 1e-5f));
    SCENE(GGML_TYPE_I32, MUST,
          ggml_cpy(ctx, ggml_transpose(ctx, sheet(&s, 30, 20, 30, 0)), sheet(&s, 20, 30, 21, 900)));
    SCENE(GGML_TYPE_F32, MUST, ggml_relu_inplace(ctx, sheet(&s, 7, 9, 13, 5)));
    // Into a transposed view, and of another datatype into the middle of this one.
    SCENE(GGML_TYPE_F32, MUST,
          ggml_cpy(ctx, sheet(&s, 20, 30, 20, 0), ggml_transpose(ctx, sheet(&s, 30, 20, 33, 800))));
    SCENE(GGML_TYPE_F32, MUST,
          ggml_cpy(ctx, line(&s, 51, 0), laid(&s, ggml_new_tensor_1d(ctx, GGML_TYPE_F16, 51), 64)));
}

static struct ggml_tensor * gappy(struct ggml_tensor * t) { // rows with 3 elements between them
    t->nb[1] += 3 * ggml_type_size(t->type);
    t->nb[2] = t->nb[1] * (size_t) t->ne[1];
    t->nb[3] = t->nb[2] * (size_t) t->ne[2];
    return t;
}

// ggml makes no such results itself, but they may come from another machine.
static void results_with_gaps(void ** state) {
    (void) state;
    for (int64_t n = 3; n <= 10; n += 7) {
        SCENE(GGML_TYPE_F32, MUST,
              laid(&s, gappy(ggml_mul_mat(ctx, sheet(&s, 9, 11, 9, 0), sheet(&s, 9, n, 9, 200))),
                   512));
    }
    SCENE(GGML_TYPE_F32, MUST, laid(&s, gappy(ggml_soft_max(ctx, sheet(&s, 66, 5, 66, 0))), 512));
    SCENE(GGML_TYPE_F32, MUST, laid(&s, gappy(ggml_sum_rows(ctx, sheet(&s, 66, 5, 66, 0))), 512));
    SCENE(GGML_TYPE_F32, MUST,
          laid(&s, gappy(ggml_add(ctx, sheet(&s, 6, 5, 6, 0), sheet(&s, 6, 5, 6, 100))), 512));
}

// ---- in place ----

static void in_place(void ** state) {
    (void) state;
    for (size_t t = 0; t < COUNT(floats); t++) {
        SCENE(floats[t], MUST, ggml_add_inplace(ctx, line(&s, 999, 1), line(&s, 999, 1)));
        SCENE(floats[t], MUST,
              ggml_add_inplace(ctx, ggml_transpose(ctx, sheet(&s, 9, 5, 9, 0)),
                               ggml_transpose(ctx, sheet(&s, 9, 5, 9, 0))));
    }
    SCENE(GGML_TYPE_F32, MUST, ggml_soft_max_inplace(ctx, sheet(&s, 300, 5, 300, 0)));
    SCENE(GGML_TYPE_F32, MUST, ggml_rms_norm_inplace(ctx, sheet(&s, 300, 5, 300, 0), 1e-5f));
    SCENE(GGML_TYPE_F32, MUST, ggml_scale_bias_inplace(ctx, line(&s, ROOT, 0), 2, 1));
    SCENE(GGML_TYPE_F32, MUST, ggml_cpy(ctx, line(&s, 500, 3), line(&s, 500, 3)));
    // The result over the second of two inputs.
    SCENE(GGML_TYPE_F32, MUST, laid(&s, ggml_sub(ctx, line(&s, 500, 0), line(&s, 500, 640)), 640));
}

// ---- over inputs with another layout ----

static void over_other_layouts(void ** state) {
    (void) state;
    SCENE(GGML_TYPE_F32, MUST, ggml_add_inplace(ctx, line(&s, 600, 10), line(&s, 600, 0)));
    SCENE(GGML_TYPE_F32, MUST, ggml_add_inplace(ctx, line(&s, 600, 0), line(&s, 600, 10)));
    SCENE(GGML_TYPE_F16, MUST, ggml_add_inplace(ctx, line(&s, 600, 1), line(&s, 600, 0)));
    // A row, a column and an element of itself, repeated.
    SCENE(GGML_TYPE_F32, MUST,
          ggml_add_inplace(ctx, sheet(&s, 30, 20, 30, 0), sheet(&s, 30, 1, 30, 30)));
    SCENE(GGML_TYPE_F32, MUST,
          ggml_mul_inplace(ctx, sheet(&s, 30, 20, 30, 0), sheet(&s, 1, 20, 30, 0)));
    SCENE(GGML_TYPE_F32, MUST, ggml_mul_inplace(ctx, line(&s, 600, 0), line(&s, 1, 0)));
    SCENE(GGML_TYPE_F32, MUST,
          ggml_add_inplace(ctx, sheet(&s, 20, 20, 20, 0),
                           ggml_transpose(ctx, sheet(&s, 20, 20, 20, 0))));
    SCENE(GGML_TYPE_F32, MUST, laid(&s, ggml_swiglu(ctx, sheet(&s, 40, 20, 40, 0)), 0));
    SCENE(GGML_TYPE_F32, MUST, laid(&s, ggml_relu(ctx, line(&s, 600, 0)), 32));
    SCENE(GGML_TYPE_F32, MUST, laid(&s, ggml_rms_norm(ctx, sheet(&s, 20, 30, 40, 0), 1e-5f), 0));
    SCENE(GGML_TYPE_F32, MUST, laid(&s, ggml_sum_rows(ctx, sheet(&s, 9, 80, 9, 0)), 32));
    SCENE(GGML_TYPE_F32, MUST, laid(&s, ggml_argmax(ctx, sheet(&s, 9, 80, 9, 0)), 32));
    for (int64_t n = 2; n <= 20; n += 18) {
        SCENE(GGML_TYPE_F32, MUST,
              laid(&s, ggml_mul_mat(ctx, sheet(&s, 20, 20, 20, 0), sheet(&s, 20, n, 20, 512)), 0));
        SCENE(
            GGML_TYPE_F32, MUST,
            laid(&s, ggml_mul_mat(ctx, sheet(&s, 20, 20, 20, 0), sheet(&s, 20, n, 20, 512)), 512));
    }
}

static struct ggml_tensor * soft_max_over(struct scene * s, struct ggml_tensor * mask, bool sinks,
                                          size_t at) {
    struct ggml_context * ctx = s->w.ctx;
    struct ggml_tensor * x = ggml_reshape_3d(ctx, sheet(s, 20, 20, 20, 0), 20, 4, 5);
    struct ggml_tensor * y = ggml_soft_max_ext(ctx, x, mask, 1, 0);
    if (sinks) {
        ggml_soft_max_add_sinks(y, line(s, 5, 512 + 41));
    }
    return laid(s, y, at);
}

static void soft_max_over_its_inputs(void ** state) {
    (void) state;
    SCENE(GGML_TYPE_F32, MUST, soft_max_over(&s, NULL, true, 1024)); // over none of them
    SCENE(GGML_TYPE_F32, MUST, soft_max_over(&s, sheet(&s, 20, 4, 20, 600), false, 512));
    SCENE(GGML_TYPE_F32, MUST, soft_max_over(&s, sheet(&s, 20, 4, 20, 1200), true, 512));
    SCENE(GGML_TYPE_F32, MUST, soft_max_over(&s, NULL, true, 512));
    SCENE(GGML_TYPE_F32, MUST, soft_max_over(&s, NULL, true, 32));
}

static struct ggml_tensor * rows_over(struct scene * s, size_t at) {
    struct ggml_tensor * ids = ggml_new_tensor_1d(s->w.ctx, GGML_TYPE_I32, 9);
    const int32_t rows[9] = {8, 7, 6, 5, 4, 3, 2, 1, 0};
    laid(s, ids, 1024);
    ggml_backend_tensor_set(ids, rows, 0, sizeof rows);
    return laid(s, ggml_get_rows(s->w.ctx, sheet(s, 40, 9, 40, 0), ids), at);
}

// Copies within one tensor, as a program that shifts its cache has them.
static void copies_that_overlap(void ** state) {
    (void) state;
    for (size_t t = 0; t < COUNT(floats); t++) {
        SCENE(floats[t], MAY_REFUSE, ggml_cpy(ctx, line(&s, 900, 0), line(&s, 900, 10)));
        SCENE(floats[t], MAY_REFUSE, ggml_cpy(ctx, line(&s, 900, 10), line(&s, 900, 0)));
        SCENE(floats[t], MAY_REFUSE, ggml_cpy(ctx, line(&s, 900, 1), line(&s, 900, 0)));
        SCENE(
            floats[t], MAY_REFUSE,
            ggml_cpy(ctx, ggml_transpose(ctx, sheet(&s, 30, 30, 30, 0)), sheet(&s, 30, 30, 30, 0)));
        // Side by side, and between each other: no element is of both.
        SCENE(floats[t], MAY_REFUSE, ggml_cpy(ctx, line(&s, 3, 3), line(&s, 3, 0)));
        SCENE(floats[t], MAY_REFUSE, ggml_cpy(ctx, line(&s, 3, 0), line(&s, 3, 3)));
        SCENE(floats[t], MAY_REFUSE,
              ggml_cpy(ctx, sheet(&s, 5, 30, 10, 0), sheet(&s, 5, 30, 10, 5)));
    }
    SCENE(GGML_TYPE_F32, MAY_REFUSE,
          laid(&s, ggml_repeat(ctx, line(&s, 50, 0), line(&s, 500, 1000)), 0));
    SCENE(GGML_TYPE_F32, MAY_REFUSE,
          laid(&s, ggml_cont(ctx, ggml_transpose(ctx, sheet(&s, 30, 20, 30, 0))), 32));
    SCENE(
        GGML_TYPE_F32, MAY_REFUSE, // to half the size, in place
        ggml_cpy(ctx, line(&s, 640, 0), laid(&s, ggml_new_tensor_1d(ctx, GGML_TYPE_F16, 640), 0)));
    // Joined over the first, over the second, and over both.
    SCENE(GGML_TYPE_F32, MAY_REFUSE,
          laid(&s, ggml_concat(ctx, line(&s, 100, 0), line(&s, 100, 512), 0), 0));
    SCENE(GGML_TYPE_F32, MAY_REFUSE,
          laid(&s, ggml_concat(ctx, line(&s, 100, 0), line(&s, 100, 512), 0), 512));
    SCENE(GGML_TYPE_F32, MAY_REFUSE,
          laid(&s, ggml_concat(ctx, line(&s, 100, 64), line(&s, 100, 0), 0), 0));
    SCENE(GGML_TYPE_F32, MAY_REFUSE,
          laid(&s, ggml_concat(ctx, sheet(&s, 9, 9, 9, 0), sheet(&s, 9, 9, 9, 81), 0), 0));
    SCENE(GGML_TYPE_F32, MUST, rows_over(&s, 512));
    SCENE(GGML_TYPE_F32, MAY_REFUSE, rows_over(&s, 32));
    SCENE(GGML_TYPE_F32, MAY_REFUSE, rows_over(&s, 992));
}

// ---- views as inputs ----

static void permuted_and_sliced(void ** state) {
    (void) state;
    static const int orders[][4] = {{0, 2, 1, 3}, {1, 0, 2, 3}, {3, 2, 1, 0},
                                    {2, 3, 0, 1}, {1, 2, 3, 0}, {0, 1, 3, 2}};
    for (size_t t = 0; t < COUNT(floats); t++) {
        for (size_t o = 0; o < COUNT(orders); o++) {
            struct world w = world_new();
            struct ggml_tensor * a = ggml_new_tensor_4d(w.ctx, floats[t], 5, 6, 4, 3);
            struct ggml_tensor * part = ggml_view_4d(w.ctx, a, 4, 3, 2, 2, a->nb[1], a->nb[2],
                                                     a->nb[3], a->nb[1] + a->nb[0]);
            const int * p = orders[o];
            struct ggml_tensor * x = ggml_permute(w.ctx, part, p[0], p[1], p[2], p[3]);
            struct ggml_tensor * y = ggml_new_tensor(w.ctx, floats[t], 4, x->ne);
            struct ggml_tensor * few =
                ggml_new_tensor_4d(w.ctx, floats[t], x->ne[0], 1, x->ne[2], 1);
            ggml_build_forward_expand(w.graph, ggml_add(w.ctx, x, y));
            ggml_build_forward_expand(w.graph, ggml_mul(w.ctx, y, x));
            ggml_build_forward_expand(w.graph, ggml_sub(w.ctx, x, few));
            ggml_build_forward_expand(w.graph, ggml_cpy(w.ctx, x, ggml_dup_tensor(w.ctx, y)));
            ggml_build_forward_expand(w.graph, ggml_rms_norm(w.ctx, x, 0.1f));
            world_check(&w, ggml_cont(w.ctx, x), NULL);
        }
    }
}

// Each node waits for the one before it.
static void order_of_nodes(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, 5000);
    struct ggml_tensor * b = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, 5000);
    struct ggml_tensor * x = a;
    for (int i = 0; i < 40; i++) { // a = 2 a + b each time, through two nodes in place
        x = ggml_add_inplace(w.ctx, ggml_scale_inplace(w.ctx, x, 2), b);
    }
    ggml_build_forward_expand(w.graph, x);
    w.buffer = ggml_backend_alloc_ctx_tensors(w.ctx, stream);
    float in[5000], step[5000], got[5000];
    for (int i = 0; i < 5000; i++) {
        in[i] = (float) (i % 3);
        step[i] = (float) (i % 2);
    }
    ggml_backend_tensor_set(a, in, 0, sizeof in);
    ggml_backend_tensor_set(b, step, 0, sizeof step);
    assert_int_equal(ggml_backend_graph_compute(stream, w.graph), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_get(a, got, 0, sizeof got);
    for (int i = 0; i < 5000; i++) {
        double want = in[i];
        for (int k = 0; k < 40; k++) {
            want = (float) (2 * want + step[i]);
        }
        assert_true(got[i] == (float) want);
    }
    world_free(&w);
}

// What a graph needed beside its tensors serves the next one.
static void scratch_is_used_again(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 400, 400);
    struct ggml_tensor * turned = ggml_transpose(w.ctx, ggml_view_tensor(w.ctx, a));
    ggml_build_forward_expand(w.graph, ggml_cpy(w.ctx, turned, a));
    w.buffer = ggml_backend_alloc_ctx_tensors(w.ctx, stream);
    fill(a, 1);
    size_t first = 0, now = 0, total;
    float before[2], after[2];
    for (int round = 0; round < 5; round++) {
        ggml_backend_tensor_get(a, before, 4 * 399, sizeof before); // (399, 0) and (0, 1)
        assert_int_equal(ggml_backend_graph_compute(stream, w.graph), GGML_STATUS_SUCCESS);
        ggml_backend_tensor_get(a, &after[0], 4 * 400 * 399, 4);
        ggml_backend_tensor_get(a, &after[1], 4, 4);
        assert_memory_equal(before, after, sizeof before);
        ggml_backend_dev_memory(gpu, &now, &total);
        first = round ? first : now;
    }
    assert_int_equal(first, now);
    world_free(&w);
}

// ---- nothing ----

static void empty_tensors(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * none = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 8, 0);
    struct ggml_tensor * thin = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 0, 8);
    struct ggml_tensor * some = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 8, 3);
    ggml_build_forward_expand(w.graph, ggml_add(w.ctx, none, none));
    ggml_build_forward_expand(w.graph, ggml_rms_norm(w.ctx, thin, 1e-5f));
    ggml_build_forward_expand(w.graph, ggml_soft_max(w.ctx, none));
    ggml_build_forward_expand(w.graph, ggml_mul_mat(w.ctx, some, none));
    ggml_build_forward_expand(w.graph, ggml_cpy(w.ctx, none, thin));
    ggml_build_forward_expand(
        w.graph, ggml_get_rows(w.ctx, some, ggml_new_tensor_1d(w.ctx, GGML_TYPE_I32, 0)));
    ggml_build_forward_expand(w.graph, ggml_add(w.ctx, some, some));
    for (int i = 0; i < ggml_graph_n_nodes(w.graph); i++) {
        ggml_backend_dev_supports_op(gpu, ggml_graph_node(w.graph, i)); // yes and no are both right
    }
    w.buffer = ggml_backend_alloc_ctx_tensors(w.ctx, stream);
    world_fill(&w, 3);
    assert_int_equal(ggml_backend_graph_compute(stream, w.graph), GGML_STATUS_SUCCESS);
    assert_true(world_is_right(&w));
    world_free(&w);
}

int main(int argc, char ** argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(into_views),
        cmocka_unit_test(results_with_gaps),
        cmocka_unit_test(in_place),
        cmocka_unit_test(over_other_layouts),
        cmocka_unit_test(soft_max_over_its_inputs),
        cmocka_unit_test(copies_that_overlap),
        cmocka_unit_test(permuted_and_sliced),
        cmocka_unit_test(order_of_nodes),
        cmocka_unit_test(scratch_is_used_again),
        cmocka_unit_test(empty_tensors),
    };
    return gpu_main(argc, argv, tests, COUNT(tests));
}
