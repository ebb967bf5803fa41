// The order of a graph's nodes: what the device wants together follows each other, unless memory
// says that somebody could tell.
#include "base/cmocka-all.h"

#include "backend/inplace.h"
#include "backend/order.h"

static bool together(const struct ggml_tensor * node, const struct ggml_tensor * other) {
    return node->op == GGML_OP_MUL_MAT && other->op == GGML_OP_MUL_MAT &&
           node->src[1] == other->src[1];
}

static const struct device_kind grouping = {.together = together}, plain = {.together = NULL};

enum { PRODUCTS = 3 };

struct world {
    struct ggml_context * ctx;
    struct ggml_cgraph * graph;
    struct ggml_tensor *products[PRODUCTS], *between[PRODUCTS];
};

// Products of one tensor, each with a node behind it that reads it.
static struct world world_new(void) {
    struct world w = {.ctx = ggml_init((struct ggml_init_params){.mem_size = 1 << 20})};
    w.graph = ggml_new_graph(w.ctx);
    struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 32, 20);
    for (int i = 0; i < PRODUCTS; i++) {
        struct ggml_tensor * a = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 32, 8);
        w.products[i] = ggml_mul_mat(w.ctx, a, b);
        w.between[i] = ggml_relu(w.ctx, w.products[i]);
        ggml_build_forward_expand(w.graph, w.between[i]);
    }
    return w;
}

static void expect(struct world * w, const struct device_kind * kind,
                   struct ggml_tensor * const * want, int n) {
    struct order order = order_of(w->graph, kind);
    int index;
    for (int i = 0; i < n; i++) {
        const struct ggml_tensor * got = order_next(&order, &index);
        assert_ptr_equal(got, want[i]);
        assert_ptr_equal(ggml_graph_node(w->graph, index), got);
    }
    assert_null(order_next(&order, &index));
    ggml_free(w->ctx);
}

static void groups(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor *const *p = w.products, *const *r = w.between;
    expect(&w, &grouping, (struct ggml_tensor *[]){p[0], p[1], p[2], r[0], r[1], r[2]}, 6);
}

static void as_it_stands(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor *const *p = w.products, *const *r = w.between;
    expect(&w, &plain, (struct ggml_tensor *[]){p[0], r[0], p[1], r[1], p[2], r[2]}, 6);
}

// The second product is written where the first one is, which is still to be read; the third one's
// factor is what the first node behind a product writes.
static void memory_decides(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor *const *p = w.products, *const *r = w.between;
    p[1]->data = p[0]->data;
    expect(&w, &grouping, (struct ggml_tensor *[]){p[0], p[2], r[0], p[1], r[1], r[2]}, 6);
    w = world_new();
    w.products[2]->src[0]->data = w.between[0]->data;
    p = w.products, r = w.between;
    expect(&w, &grouping, (struct ggml_tensor *[]){p[0], p[1], r[0], r[1], p[2], r[2]}, 6);
}

// Two that were computed as one. What has had its turn is not among those that follow.
static void had(void ** state) {
    (void) state;
    struct world w = world_new();
    struct order order = order_of(w.graph, &grouping);
    int index;
    assert_ptr_equal(order_next(&order, &index), w.products[0]);
    struct order_run run = order_run(&order, index, ORDER_RUN);
    assert_int_equal(run.n, ORDER_RUN);
    assert_ptr_equal(run.nodes[0], w.products[0]);
    assert_ptr_equal(run.nodes[1], w.between[0]);
    assert_ptr_equal(run.nodes[2], w.products[1]);
    assert_ptr_equal(order_next(&order, &index), w.products[1]);
    run = order_run(&order, 0, ORDER_RUN);
    assert_ptr_equal(run.nodes[2], w.between[1]);
    order_had(&order, 1);
    assert_ptr_equal(order_next(&order, &index), w.products[2]);
    assert_ptr_equal(order_next(&order, &index), w.between[1]);
    ggml_free(w.ctx);
}

// ---- nodes as one ----

// first, a view of it, second that reads the view, then two more nodes. Where they lie and what the
// latter read decides whether first may be left out.
static const struct join_case {
    const char * name;
    bool in_place;       // second is written to where first is
    bool third_reads;    // first, by a view
    bool third_covers;   // first, and reads it not
    bool fourth_covers;  // likewise
    bool third_is_early; // had its turn before
    bool joins;
} join_cases[] = {
    {"in place", .in_place = true, .joins = true},
    {"nobody writes there", .joins = false},
    {"given to the next", .third_covers = true, .joins = true},
    {"given to the one behind", .fourth_covers = true, .joins = true},
    {"read before it is given away", .third_reads = true, .fourth_covers = true, .joins = false},
    {"given to what came before", .third_covers = true, .third_is_early = true, .joins = false},
};

static void joins(void ** state) {
    (void) state;
    for (size_t i = 0; i < sizeof join_cases / sizeof join_cases[0]; i++) {
        const struct join_case * c = &join_cases[i];
        struct ggml_context * ctx = ggml_init((struct ggml_init_params){.mem_size = 1 << 20});
        struct ggml_cgraph * graph = ggml_new_graph(ctx);
        struct ggml_tensor * x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 32, 20);
        struct ggml_tensor * first = ggml_relu(ctx, x);
        struct ggml_tensor * second = ggml_sqr(ctx, ggml_reshape_2d(ctx, first, 32, 20));
        struct ggml_tensor * view = ggml_view_2d(ctx, first, 8, 20, first->nb[1], 64);
        struct ggml_tensor * third = ggml_neg(ctx, c->third_reads ? view : x);
        struct ggml_tensor * fourth = ggml_abs(ctx, x);
        ggml_build_forward_expand(graph, second);
        ggml_build_forward_expand(graph, third);
        ggml_build_forward_expand(graph, fourth);
        second->data = c->in_place ? first->data : second->data;
        third->data = c->third_covers ? (char *) first->data + 128 : third->data;
        fourth->data = c->fourth_covers ? first->data : fourth->data;
        struct order order = order_of(graph, &plain);
        int index;
        assert_ptr_equal(order_next(&order, &index), first);
        struct order_run run = order_run(&order, index, ORDER_RUN);
        assert_int_equal(run.n, ORDER_RUN);
        assert_ptr_equal(run.nodes[1], second); // the view between is none that is computed
        if (c->third_is_early) {
            order_had(&order, run.at[2]);
        }
        if (order_may_join(&order, &run, 2) != c->joins) {
            fail_msg("%s", c->name);
        }
        ggml_free(ctx);
    }
}

// A product whose ROPE is all that reads it is written where the ROPE's result goes, and only then.
static void in_place(void ** state) {
    (void) state;
    enum { AS_IT_IS, A_ROW, OUTPUT, READ_AGAIN, NEVER_GIVEN, OVERLAPS, PART, CASES };
    for (int i = 0; i < CASES; i++) {
        struct ggml_context * ctx = ggml_init((struct ggml_init_params){.mem_size = 1 << 20});
        struct ggml_cgraph * graph = ggml_new_graph(ctx);
        const int64_t tokens = i == A_ROW ? 1 : 20;
        struct ggml_tensor * a = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 32, 64);
        struct ggml_tensor * b = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 32, tokens);
        struct ggml_tensor * positions = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, tokens);
        struct ggml_tensor * product = ggml_mul_mat(ctx, a, b);
        struct ggml_tensor * heads =
            i == PART ? ggml_view_3d(ctx, product, 16, 1, tokens, 64, product->nb[1], 0)
                      : ggml_reshape_3d(ctx, product, 16, 4, tokens);
        struct ggml_tensor * turned = ggml_rope(ctx, heads, positions, 16, GGML_ROPE_TYPE_NORMAL);
        ggml_build_forward_expand(graph, turned);
        if (i == READ_AGAIN) {
            ggml_build_forward_expand(graph, ggml_relu(ctx, product));
        }
        struct ggml_tensor * next = ggml_relu(ctx, turned);
        ggml_build_forward_expand(graph, next);
        next->data = i == NEVER_GIVEN ? next->data : product->data;
        turned->data = i == OVERLAPS ? b->data : turned->data;
        product->flags |= i == OUTPUT ? GGML_TENSOR_FLAG_OUTPUT : 0;
        void * was = product->data;
        struct inplace p;
        inplace_begin(&p, graph);
        assert_ptr_equal(product->data, i <= A_ROW ? turned->data : was);
        assert_ptr_equal(heads->data, product->data);
        inplace_end(&p);
        assert_ptr_equal(product->data, was);
        assert_ptr_equal(heads->data, was);
        ggml_free(ctx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups), cmocka_unit_test(as_it_stands), cmocka_unit_test(memory_decides),
        cmocka_unit_test(had),    cmocka_unit_test(in_place),     cmocka_unit_test(joins)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
