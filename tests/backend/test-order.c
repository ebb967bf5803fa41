// The order of a graph's nodes: what the device wants together follows each other, unless memory
// says that somebody could tell.
#include "base/cmocka-all.h"

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

// Two that were computed as one.
static void had(void ** state) {
    (void) state;
    struct world w = world_new();
    struct order order = order_of(w.graph, &plain);
    int index;
    assert_ptr_equal(order_next(&order, &index), w.products[0]);
    assert_ptr_equal(order_peek(&order, index), w.between[0]);
    order_had(&order, index + 1);
    assert_ptr_equal(order_next(&order, &index), w.products[1]);
    ggml_free(w.ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(groups), cmocka_unit_test(as_it_stands),
                                       cmocka_unit_test(memory_decides), cmocka_unit_test(had)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
