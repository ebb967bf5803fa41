// test-plugin-mat: products on the device against doubles: every datatype, odd sizes, views and
// batches, integers, and weights that change after they were uploaded. With the argument "train"
// the CPU fallback changes them; with any other, it is the value of GGML_HSA_MUL_MAT.
#include <pthread.h>

#include "mat-world.h"

// ---- datatypes and shapes ----

// Computes twice with different data: nothing of the first run may be left in the second.
static void compute_twice(struct world * w, struct ggml_tensor * node, struct ggml_tensor * a,
                          struct ggml_tensor * b, double tolerance) {
    world_alloc(w, node);
    for (uint32_t round = 0; round < 2; round++) {
        fill(a, 10 * round + 1);
        fill(b, 10 * round + 2);
        world_compute(w);
        check_product(node, tolerance);
    }
    world_free(w);
}

static void check_pair(enum ggml_type type_a, enum ggml_type type_b, int64_t m, int64_t n,
                       int64_t k, bool as_weights) {
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(as_weights ? w.weights : w.ctx, type_a, k, m);
    struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, type_b, k, n);
    compute_twice(&w, ggml_mul_mat(w.ctx, a, b), a, b, TOLERANCE_BF16);
}

static void odd_sizes(void ** state) {
    (void) state;
    static const int64_t sizes[][3] = {{1, 1, 1},    {1, 1, 8},    {5, 3, 7},   {17, 16, 40},
                                       {33, 17, 9},  {65, 1, 129}, {1, 70, 33}, {31, 9, 67},
                                       {64, 64, 64}, {2, 130, 250}};
    static const enum ggml_type pairs[][2] = {{GGML_TYPE_F32, GGML_TYPE_F32},
                                              {GGML_TYPE_F16, GGML_TYPE_F32},
                                              {GGML_TYPE_F16, GGML_TYPE_F16},
                                              {GGML_TYPE_BF16, GGML_TYPE_F32},
                                              {GGML_TYPE_BF16, GGML_TYPE_BF16}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++) {
            check_pair(pairs[p][0], pairs[p][1], sizes[i][0], sizes[i][1], sizes[i][2], p % 2);
        }
    }
}

static void every_quantized_type(void ** state) {
    (void) state;
    int n_types = 0;
    for (int t = 0; t < GGML_TYPE_COUNT; t++) {
        enum ggml_type type = (enum ggml_type) t;
        if (ggml_is_quantized(type) && ggml_get_type_traits(type)->to_float) {
            check_pair(type, GGML_TYPE_F32, 19, 3, 2 * ggml_blck_size(type), t % 2);
            n_types++;
        }
    }
    assert_true(n_types >= 20);
}

static void batches_and_views(void ** state) {
    (void) state;
    for (int t = 0; t < 3; t++) {
        enum ggml_type type = t == 0 ? GGML_TYPE_F32 : t == 1 ? GGML_TYPE_F16 : GGML_TYPE_BF16;
        // Repeated along both dimensions.
        struct world w = world_new();
        struct ggml_tensor * a = ggml_new_tensor_4d(w.ctx, type, 40, 9, 2, 3);
        struct ggml_tensor * b = ggml_new_tensor_4d(w.ctx, GGML_TYPE_F32, 40, 5, 4, 6);
        compute_twice(&w, ggml_mul_mat(w.ctx, a, b), a, b, TOLERANCE_BF16);
        // Keys: heads before tokens, two heads share one.
        w = world_new();
        a = ggml_new_tensor_3d(w.ctx, type, 24, 2, 50);
        b = ggml_new_tensor_3d(w.ctx, GGML_TYPE_F32, 24, 4, 7);
        compute_twice(&w,
                      ggml_mul_mat(w.ctx, ggml_permute(w.ctx, a, 0, 2, 1, 3),
                                   ggml_permute(w.ctx, b, 0, 2, 1, 3)),
                      a, b, TOLERANCE_BF16);
        // Elements that do not follow each other in src1, and a part of src0 from an odd place on.
        w = world_new();
        a = ggml_new_tensor_2d(w.ctx, type, 50, 20);
        b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 6, 33);
        compute_twice(&w,
                      ggml_mul_mat(w.ctx, ggml_view_2d(w.ctx, a, 33, 11, a->nb[1], a->nb[0] * 3),
                                   ggml_permute(w.ctx, b, 1, 0, 2, 3)),
                      a, b, TOLERANCE_BF16);
    }
}

static void outer_products(void ** state) {
    (void) state;
    static const enum ggml_type types[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_0,
                                           GGML_TYPE_Q6_K};
    for (int t = 0; t < 4; t++) {
        for (int transposed = 0; transposed < 2; transposed++) {
            struct world w = world_new();
            int64_t m = ggml_is_quantized(types[t]) ? 256 : 21, repeat = t == 0 ? 3 : 1;
            struct ggml_tensor * a = ggml_new_tensor_3d(w.ctx, types[t], m, 13, 2);
            struct ggml_tensor * b =
                transposed ? ggml_new_tensor_3d(w.ctx, GGML_TYPE_F32, 13, 6, 2 * repeat)
                           : ggml_new_tensor_3d(w.ctx, GGML_TYPE_F32, 6, 13, 2 * repeat);
            struct ggml_tensor * node =
                ggml_out_prod(w.ctx, a, transposed ? ggml_transpose(w.ctx, b) : b);
            compute_twice(&w, node, a, b, TOLERANCE_BF16);
        }
    }
}

// Exact, as long as the sums fit: these do.
static void integers(void ** state) {
    (void) state;
    static const int64_t sizes[][3] = {{1, 1, 8}, {9, 5, 16}, {17, 33, 24}, {40, 3, 13}, {7, 7, 1}};
    for (int wide = 0; wide < 2; wide++) {
        enum ggml_type type = wide ? GGML_TYPE_I16 : GGML_TYPE_I8;
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            struct world w = world_new();
            struct ggml_tensor * a = ggml_new_tensor_2d(w.ctx, type, sizes[i][2], sizes[i][0]);
            struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, type, sizes[i][2], sizes[i][1]);
            struct ggml_tensor * node = ggml_mul_mat(w.ctx, a, b);
            node->type = GGML_TYPE_I32; // which ggml has no function for
            // Two of 16 bits already come to 31; eight times smaller ones leave room for 24.
            if (!wide) {
                compute_twice(&w, node, a, b, 0);
                continue;
            }
            world_alloc(&w, node);
            for (uint32_t round = 0; round < 2; round++) {
                int16_t data[24 * 40];
                for (int operand = 0; operand < 2; operand++) {
                    struct ggml_tensor * t = operand ? b : a;
                    uint32_t seed = round + 7 * (uint32_t) operand;
                    for (int64_t e = 0; e < ggml_nelements(t); e++) {
                        data[e] = (int16_t) (next_value(&seed) * 8192);
                    }
                    ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
                }
                world_compute(&w);
                check_product(node, 0);
            }
            world_free(&w);
        }
    }
}

// More than one kernel takes along k.
static void long_k(void ** state) {
    (void) state;
    check_pair(GGML_TYPE_F32, GGML_TYPE_F32, 5, 3, 30001, true);
    check_pair(GGML_TYPE_BF16, GGML_TYPE_F32, 20, 18, 25600, false);
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(w.ctx, GGML_TYPE_I8, 60000, 2);
    struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_I8, 60000, 3);
    struct ggml_tensor * node = ggml_mul_mat(w.ctx, a, b);
    node->type = GGML_TYPE_I32;
    compute_twice(&w, node, a, b, 0);
}

// No rows, and sums of nothing.
static void empty(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 8, 3);
    struct ggml_tensor * none = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 8, 0);
    struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 8, 4);
    ggml_build_forward_expand(w.graph, ggml_mul_mat(w.ctx, a, none));
    struct ggml_tensor * zeros = ggml_mul_mat(w.ctx, a, b);
    world_alloc(&w, zeros);
    fill(a, 1);
    fill(b, 2);
    a->ne[0] = b->ne[0] = 0;
    assert_true(ggml_backend_dev_supports_op(dev, zeros));
    world_compute(&w);
    double * got = values(zeros);
    for (int i = 0; i < 12; i++) {
        assert_true(got[i] == 0);
    }
    free(got);
    a->ne[0] = b->ne[0] = 8;
    world_free(&w);
}

// One infinity among numbers that have no lower piece; laid out by the host and by the kernel.
static void infinity(enum ggml_type type, bool as_weights) {
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(as_weights ? w.weights : w.ctx, type, 10, 2);
    struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 10, 2);
    struct ggml_tensor * node = ggml_mul_mat(w.ctx, a, b);
    ggml_prec_set_acc(node, GGML_PREC_F32);
    world_alloc(&w, node);
    float pa[20], pb[20];
    for (int i = 0; i < 20; i++) {
        pa[i] = pb[i] = 1.5f;
    }
    pa[3] = INFINITY;
    ggml_fp16_t halves[20];
    ggml_fp32_to_fp16_row(pa, halves, 20);
    bool half = type == GGML_TYPE_F16;
    ggml_backend_tensor_set(a, half ? (void *) halves : pa, 0, half ? sizeof halves : sizeof pa);
    ggml_backend_tensor_set(b, pb, 0, sizeof pb);
    world_compute(&w);
    double * got = values(node);
    assert_true(got[0] == INFINITY && got[2] == INFINITY && got[1] == 22.5 && got[3] == 22.5);
    free(got);
    world_free(&w);
}

static void infinities(void ** state) {
    (void) state;
    for (int as_weights = 0; as_weights < 2; as_weights++) {
        infinity(GGML_TYPE_F32, as_weights);
        infinity(GGML_TYPE_F16, as_weights);
    }
}

// ---- precision ----

static void precise_where_asked(void ** state) {
    (void) state;
    for (int t = 0; t < 3; t++) {
        for (int as_weights = 0; as_weights < 2; as_weights++) {
            enum ggml_type type = t == 0 ? GGML_TYPE_F32 : t == 1 ? GGML_TYPE_BF16 : GGML_TYPE_Q8_0;
            int64_t k = type == GGML_TYPE_Q8_0 ? 96 : 75;
            struct world w = world_new();
            struct ggml_tensor * a =
                ggml_new_tensor_2d(as_weights ? w.weights : w.ctx, type, k, 20);
            struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, k, 18);
            struct ggml_tensor * node = ggml_mul_mat(w.ctx, a, b);
            ggml_prec_set_acc(node, GGML_PREC_F32);
            compute_twice(&w, node, a, b, TOLERANCE_PRECISE);
        }
    }
}

// ---- weights ----

struct layer { // out = w * b
    struct world w;
    struct ggml_tensor *a, *b, *out;
};

static struct layer layer_new(enum ggml_type type, int64_t k, int64_t m) {
    struct layer l = {.w = world_new()};
    l.a = ggml_new_tensor_2d(l.w.weights, type, k, m);
    l.b = ggml_new_tensor_2d(l.w.ctx, GGML_TYPE_F32, k, 3);
    l.out = ggml_mul_mat(l.w.ctx, l.a, l.b);
    world_alloc(&l.w, l.out);
    fill(l.a, 1);
    fill(l.b, 2);
    return l;
}

static void layer_check(struct layer * l) {
    world_compute(&l->w);
    check_product(l->out, TOLERANCE_BF16);
}

static void converted_once(void ** state) {
    (void) state;
    struct layer l = layer_new(GGML_TYPE_IQ3_S, 256, 12);
    struct ggml_backend_hsa_stats before = stats();
    layer_check(&l);
    assert_int_equal(stats().staged_operands - before.staged_operands, 1);
    before = stats();
    fill(l.b, 3);
    layer_check(&l);
    assert_int_equal(stats().staged_operands - before.staged_operands, 0);
    world_free(&l.w);
}

// The cores make blocks bf16: nothing is laid out by the host, nothing is kept, and what is
// uploaded later counts at once.
static void streamed_blocks(void ** state) {
    (void) state;
    static const struct {
        enum ggml_type type;
        int64_t k[2];
    } types[] = {
// clang-format off
#define BLOCKS(id, name, bytes, k, once, cut, ...)                                                 \
    {GGML_TYPE_##id, {(cut) < 512 ? 3 * (cut) : 2 * (cut), (cut) < 128 ? 128 : (cut)}},
#include "kernel/blocks.def"
        // clang-format on
    };
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        struct layer l = layer_new(types[t].type, types[t].k[0], 70);
        struct ggml_backend_hsa_stats before = stats();
        layer_check(&l);
        fill(l.a, 5);
        layer_check(&l);
        assert_int_equal(stats().staged_operands - before.staged_operands, 0);
        world_free(&l.w);

        static const int64_t rows[] = {40, 130, 257}, of_a[] = {20, 20, 301};
        for (int i = 0; i < 3; i++) {
            struct world w = world_new();
            struct ggml_tensor * a =
                ggml_new_tensor_2d(w.weights, types[t].type, types[t].k[1], of_a[i]);
            struct ggml_tensor * b =
                ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, types[t].k[1], rows[i]);
            struct ggml_tensor * out = ggml_mul_mat(w.ctx, a, b);
            world_alloc(&w, out);
            fill(a, 7);
            fill(out->src[1], 8);
            for (int again = 0; again < 2; again++) {
                before = stats();
                world_compute(&w);
                check_product(out, TOLERANCE_BF16);
                assert_int_equal(stats().staged_operands - before.staged_operands, 0);
            }
            world_free(&w);
        }
    }
}

// Sums between products of blocks that go by planes stay on these products' PDI: once that is
// there, a graph loads none, though sums alone would want another one.
static void one_decoder(void ** state) {
    (void) state;
    enum { K = 64, PRODUCTS = 3 };
    struct world w = world_new();
    struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, K, 1);
    struct ggml_tensor * at = b;
    struct ggml_tensor *weights[PRODUCTS], *products[PRODUCTS];
    for (int i = 0; i < PRODUCTS; i++) {
        weights[i] = ggml_new_tensor_2d(w.weights, GGML_TYPE_Q4_1, K, K);
        products[i] = ggml_mul_mat(w.ctx, weights[i], ggml_add(w.ctx, at, b));
        at = products[i];
    }
    world_alloc(&w, ggml_add(w.ctx, at, b));
    for (int i = 0; i < PRODUCTS; i++) {
        fill(weights[i], 3 + i);
    }
    fill(b, 8);
    world_compute(&w);
    uint64_t before = counters().pdi_loads;
    world_compute(&w);
    assert_int_equal(counters().pdi_loads - before, 0);
    for (int i = 0; i < PRODUCTS; i++) {
        check_product(products[i], TOLERANCE_BF16);
    }
    world_free(&w);
}

// A product that gemm's array would make faster stays on the decoder's where a layer's other nodes
// are, as long as it takes less longer than the PDIs that are loaded for it and behind it.
static void short_prompt(void ** state) {
    (void) state;
    enum { K = 1024, M = 2048, ROWS = 24 };
    struct world w = world_new();
    struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, K, ROWS);
    struct ggml_tensor * bias = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, M);
    struct ggml_tensor * weights = ggml_new_tensor_2d(w.weights, GGML_TYPE_Q4_0, K, M);
    struct ggml_tensor * product = ggml_mul_mat(w.ctx, weights, b);
    world_alloc(&w, ggml_add(w.ctx, product, bias));
    fill(weights, 3);
    fill(b, 4);
    fill(bias, 5);
    world_compute(&w);
    uint64_t before = counters().pdi_loads;
    world_compute(&w);
    assert_int_equal(counters().pdi_loads - before, 0);
    check_product(product, TOLERANCE_BF16);
    world_free(&w);
}

// Every way that ggml has to write to a tensor.
static void changed_after_upload(void ** state) {
    (void) state;
    struct layer l = layer_new(GGML_TYPE_F32, 40, 9);
    layer_check(&l);
    fill(l.a, 77);
    layer_check(&l);
    float one = 4.5f;
    ggml_backend_tensor_set(l.a, &one, ggml_nbytes(l.a) - sizeof one, sizeof one); // the last
    layer_check(&l);
    ggml_backend_tensor_set_async(stream, l.a, &one, 0, sizeof one);
    ggml_backend_synchronize(stream);
    layer_check(&l);
    ggml_backend_tensor_memset(l.a, 0x3f, l.a->nb[1], l.a->nb[1]);
    layer_check(&l);
    ggml_backend_buffer_clear(l.w.weights_buffer, 0x3e);
    layer_check(&l);

    struct layer other = layer_new(GGML_TYPE_F32, 40, 9);
    fill(other.a, 99);
    ggml_backend_tensor_copy(other.a, l.a);
    layer_check(&l);
    world_free(&other.w);
    world_free(&l.w);
}

// A graph that writes to weights between two products of them: by the host, and by a kernel.
static void changed_by_a_graph(void ** state) {
    (void) state;
    for (int by_kernel = 0; by_kernel < 2; by_kernel++) {
        struct world w = world_new();
        struct ggml_tensor * a = ggml_new_tensor_2d(w.weights, GGML_TYPE_F32, 32, 10);
        struct ggml_tensor * part = ggml_view_2d(w.ctx, a, 32, 2, a->nb[1], 3 * a->nb[1]);
        struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 32, 5);
        struct ggml_tensor * new = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 32, 2);
        struct ggml_tensor * first = ggml_mul_mat(w.ctx, a, b);
        struct ggml_tensor * second = ggml_mul_mat(w.ctx, a, b);
        struct ggml_tensor * change =
            by_kernel ? ggml_add_inplace(w.ctx, part, new) : ggml_cpy(w.ctx, new, part);
        ggml_build_forward_expand(w.graph, first);
        ggml_build_forward_expand(w.graph, change);
        world_alloc(&w, second);
        for (uint32_t round = 0; round < 2; round++) {
            fill(a, 1 + round);
            fill(b, 20 + round);
            fill(new, 30 + round);
            double * was = values(a);
            world_compute(&w);
            check_product(second, TOLERANCE_BF16);
            double *pb = values(b), *got = values(first);
            for (int64_t i = 0; i < 50; i++) {
                assert_close(got[i], dot(was, i % 10, 10, pb, i / 10, 5, 32, false), TOLERANCE_BF16,
                             "before the change", i);
            }
            free(was);
            free(pb);
            free(got);
        }
        world_free(&w);
    }
}

// Host memory is written to by others without a word: nothing is kept of it.
static void weights_in_host_memory(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(w.weights, GGML_TYPE_F32, 16, 6);
    struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 16, 2);
    struct ggml_tensor * out = ggml_mul_mat(w.ctx, a, b);
    ggml_build_forward_expand(w.graph, out);
    w.weights_buffer =
        ggml_backend_alloc_ctx_tensors_from_buft(w.weights, ggml_backend_dev_host_buffer_type(dev));
    ggml_backend_buffer_set_usage(w.weights_buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    w.buffer = ggml_backend_alloc_ctx_tensors(w.ctx, stream);
    fill(a, 1);
    fill(b, 2);
    world_compute(&w);
    check_product(out, TOLERANCE_BF16);
    for (int i = 0; i < 96; i++) {
        ((float *) a->data)[i] = (float) (i % 7);
    }
    world_compute(&w);
    check_product(out, TOLERANCE_BF16);
    world_free(&w);
}

static void * compute_many(void * user) {
    struct layer * l = user;
    ggml_backend_t own = ggml_backend_dev_init(dev, NULL);
    struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * 8 +
                                                  ggml_graph_overhead_custom(8, false),
                                      .no_alloc = true};
    bool ok = own;
    for (uint32_t i = 0; ok && i < 8; i++) {
        struct ggml_context * ctx = ggml_init(params);
        struct ggml_tensor * b = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, l->a->ne[0], 2);
        struct ggml_tensor * out = ggml_mul_mat(ctx, l->a, b);
        struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 8, false);
        ggml_build_forward_expand(graph, out);
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, own);
        fill(b, i);
        ok = ggml_backend_graph_compute(own, graph) == GGML_STATUS_SUCCESS;
        if (ok) {
            check_product(out, TOLERANCE_BF16);
        }
        ggml_backend_buffer_free(buffer);
        ggml_free(ctx);
    }
    ggml_backend_free(own);
    return ok ? user : NULL;
}

// Both want the same weights converted at the same time.
static void two_streams_one_weight(void ** state) {
    (void) state;
    struct layer l = layer_new(GGML_TYPE_IQ3_S, 256, 30);
    pthread_t thread;
    void * result;
    struct ggml_backend_hsa_stats before = stats();
    assert_int_equal(pthread_create(&thread, NULL, compute_many, &l), 0);
    assert_ptr_equal(compute_many(&l), &l);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &l);
    assert_between(stats().staged_operands - before.staged_operands, 1, 2);
    world_free(&l.w);
}

// ---- graphs ----

// A layer with bias and activation: nothing goes through the host.
static void stays_on_the_device(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * w1 = ggml_new_tensor_2d(w.weights, GGML_TYPE_F32, 36, 20);
    struct ggml_tensor * bias = ggml_new_tensor_1d(w.weights, GGML_TYPE_F32, 20);
    struct ggml_tensor * w2 = ggml_new_tensor_2d(w.weights, GGML_TYPE_F16, 20, 10);
    struct ggml_tensor * x = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 36, 24);
    struct ggml_tensor * hidden =
        ggml_relu(w.ctx, ggml_add(w.ctx, ggml_mul_mat(w.ctx, w1, x), bias));
    struct ggml_tensor * out = ggml_mul_mat(w.ctx, w2, hidden);
    world_alloc(&w, out);
    fill(w1, 1);
    fill(bias, 2);
    fill(w2, 3);
    struct ggml_backend_hsa_stats before = {0};
    for (uint32_t round = 0; round < 2; round++) {
        fill(x, 4 + round);
        before = stats();
        world_compute(&w);
        check_product(out, TOLERANCE_BF16); // of the hidden layer as it is
    }
    struct ggml_backend_hsa_stats after = stats();
    assert_int_equal(after.staged_operands - before.staged_operands, 0);
    assert_int_equal(after.host_copies - before.host_copies, 0);
    assert_int_equal(after.dispatches - before.dispatches, 6); // two products, each with CONVERT

    double *p1 = values(w1), *px = values(x), *pb = values(bias), *got = values(hidden);
    for (int64_t i = 0; i < 480; i++) {
        struct sum s = dot(p1, i % 20, 20, px, i / 20, 24, 36, false);
        s.value = fmax(s.value + pb[i % 20], 0);
        assert_close(got[i], s, TOLERANCE_BF16, "hidden", i);
    }
    free(p1);
    free(px);
    free(pb);
    free(got);
    world_free(&w);
}

// What several products share is converted once, as long as it is the same. Of fewer rows the cores
// of each product make it bf16.
static void shared_operand(void ** state) {
    (void) state;
    enum { ROWS = 24 };
    for (int in_place = 0; in_place < 2; in_place++) {
        struct world w = world_new();
        struct ggml_tensor * x = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 40, ROWS);
        struct ggml_tensor * y = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 40, ROWS);
        struct ggml_tensor *weights[4], *out[4];
        for (int i = 0; i < 4; i++) {
            weights[i] = ggml_new_tensor_2d(w.weights, GGML_TYPE_BF16, 40, 10 + i);
            out[i] = ggml_mul_mat(w.ctx, weights[i], x);
        }
        struct ggml_tensor * add = ggml_add_inplace(w.ctx, x, y);
        for (int i = 0; i < 4; i++) {
            if (in_place && i == 2) {
                ggml_build_forward_expand(w.graph, add);
            }
            ggml_build_forward_expand(w.graph, out[i]);
        }
        world_alloc(&w, out[3]);
        for (int i = 0; i < 4; i++) {
            fill(weights[i], (uint32_t) i);
        }
        for (uint32_t round = 0; round < 2; round++) { // nothing is left of the graph before
            fill(x, 50 + round);
            fill(y, 60);
            double * was = values(x);
            uint64_t before = stats().dispatches;
            world_compute(&w);
            assert_int_equal(stats().dispatches - before, in_place ? 4 + 2 + 1 : 4 + 1);
            for (int i = in_place ? 2 : 0; i < 4; i++) {
                check_product(out[i], TOLERANCE_BF16);
            }
            double *pw = values(weights[0]), *got = values(out[0]);
            for (int64_t i = 0; i < 10 * ROWS; i++) {
                assert_close(got[i], dot(pw, i % 10, 10, was, i / 10, ROWS, 40, false),
                             TOLERANCE_BF16, "before the change", i);
            }
            free(was);
            free(pw);
            free(got);
        }
        world_free(&w);
    }
}

// As llama.cpp asks, with a buffer of no bytes and weights that have no address.
static void asked_before_there_is_memory(void ** state) {
    (void) state;
    struct world w = world_new();
    static const enum ggml_type types[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16,
                                           GGML_TYPE_Q4_0, GGML_TYPE_Q6_K, GGML_TYPE_IQ2_XXS};
    for (int i = 0; i < 6; i++) {
        struct ggml_tensor * a = ggml_new_tensor_2d(w.ctx, types[i], 2048, 5632);
        struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 2048, 512);
        struct ggml_tensor * as = ggml_new_tensor_3d(w.ctx, types[i], 2048, 1024, 8);
        struct ggml_tensor * rows = ggml_new_tensor_3d(w.ctx, GGML_TYPE_F32, 2048, 2, 512);
        struct ggml_tensor * ids = ggml_new_tensor_2d(w.ctx, GGML_TYPE_I32, 2, 512);
        struct ggml_tensor * nodes[] = {ggml_mul_mat(w.ctx, a, b),
                                        ggml_mul_mat_id(w.ctx, as, rows, ids)};
        for (int n = 0; n < 2; n++) {
            struct ggml_tensor * weights = nodes[n]->src[0];
            weights->buffer = ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(dev), 0);
            assert_true(ggml_backend_dev_supports_op(dev, nodes[n]));
            ggml_backend_buffer_free(weights->buffer);
            weights->buffer = NULL;
        }
    }
    world_free(&w);
}

// ---- what the environment asks for ----

static int n_warnings;

static void listen(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    if (level == GGML_LOG_LEVEL_WARN && strstr(text, "GGML_HSA_MUL_MAT")) {
        assert_non_null(strstr(text, "bf16"));
        assert_non_null(strstr(text, "precise"));
        assert_non_null(strstr(text, "block"));
        n_warnings++;
    }
}

static double worst; // error, as a part of the products' sizes

static void measure(bool wish) {
    enum { ROWS = 20 }; // of b: more than the products of few take
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 64, 16);
    struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 64, ROWS);
    struct ggml_tensor * node = ggml_mul_mat(w.ctx, a, b);
    if (wish) {
        ggml_prec_set_acc(node, GGML_PREC_F32);
    }
    world_alloc(&w, node);
    fill(a, 1);
    fill(b, 2);
    world_compute(&w);
    double *pa = values(a), *pb = values(b), *got = values(node);
    worst = 0;
    for (int64_t i = 0; i < 16 * ROWS; i++) {
        struct sum want = dot(pa, i % 16, 16, pb, i / 16, ROWS, 64, false);
        worst = fmax(worst, fabs(got[i] - want.value) / want.size);
    }
    free(pa);
    free(pb);
    free(got);
    world_free(&w);
}

// Whether a large number takes the bits of the seven small ones beside it, as where eight share an
// exponent: the large ones are multiplied by 0.
static bool loses_small_ones(bool weights) {
    enum { K = 64, ROWS = 24 };
    struct world w = world_new();
    struct ggml_tensor * a =
        ggml_new_tensor_2d(weights ? w.weights : w.ctx, GGML_TYPE_F32, K, ROWS);
    struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, K, ROWS);
    struct ggml_tensor * node = ggml_mul_mat(w.ctx, a, b);
    float left[K * ROWS], right[K * ROWS];
    for (int i = 0; i < K * ROWS; i++) {
        left[i] = i % 8 ? 0.25f : 128;
        right[i] = i % 8 != 0;
    }
    world_alloc(&w, node);
    ggml_backend_tensor_set(a, left, 0, sizeof left);
    ggml_backend_tensor_set(b, right, 0, sizeof right);
    world_compute(&w);
    double * got = values(node);
    bool lost = got[0] == 0;
    for (int i = 0; i < ROWS * ROWS; i++) {
        assert_true(got[i] == (lost ? 0 : 0.25 * K * 7 / 8));
    }
    free(got);
    world_free(&w);
    return lost;
}

// Weights that are kept as block floats: as near as ggml asks, made once, made again when they
// change; and where a number is too large for a block, as before. Sizes are no multiples of tiles.
// Or block floats that the cores make, of which nothing is kept: as near, and not as near as bf16.
static void kept_as_block_floats(bool are_kept, bool by_blocks) {
    static const struct {
        enum ggml_type type;
        int64_t k, m, n;
        bool huge, stages; // the host lays these weights out in any case
    } cases[] = {
        {GGML_TYPE_Q4_0, 1024, 520, 200, false, false},
        {GGML_TYPE_Q8_0, 512, 264, 300, false, false},
        {GGML_TYPE_F16, 192, 72, 33, false, true},
        {GGML_TYPE_F32, 64, 24, 17, false, true},
        {GGML_TYPE_F32, 64, 16, 40, true, true},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct world w = world_new();
        struct ggml_tensor * a =
            ggml_new_tensor_2d(w.weights, cases[c].type, cases[c].k, cases[c].m);
        struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, cases[c].k, cases[c].n);
        struct ggml_tensor * out = ggml_mul_mat(w.ctx, a, b);
        world_alloc(&w, out);
        for (uint32_t round = 0; round < 3; round++) { // the third with the second's weights
            struct ggml_backend_hsa_stats before = stats();
            if (round < 2) {
                fill(a, 20 + round);
            }
            if (cases[c].huge && round < 2) {
                ggml_backend_tensor_set(a, &(float){0x1.ffp127f}, 0, sizeof(float));
            }
            fill(b, 30 + round);
            world_compute(&w);
            bool makes = round < 2 && (cases[c].stages || are_kept);
            assert_int_equal(stats().staged_operands - before.staged_operands, makes);
            double *pa = values(a), *pb = values(b), *got = values(out), off = 0, all = 0;
            for (int64_t i = cases[c].huge; i < cases[c].m * cases[c].n; i++) {
                if (cases[c].huge && i % cases[c].m == 0) {
                    continue; // the row of the huge one
                }
                double want = dot(pa, i % cases[c].m, cases[c].m, pb, i / cases[c].m, cases[c].n,
                                  cases[c].k, false)
                                  .value;
                off += (got[i] - want) * (got[i] - want);
                all += want * want;
            }
            assert_true(off < 5e-4 * all);
            assert_true(c > 0 || by_blocks == (off > 1e-5 * all));
            free(pa);
            free(pb);
            free(got);
        }
        world_free(&w);
    }
}

// Attention whose kernel rounds to bf16 is not what precise asks for: programs then take products.
static bool takes_attention(void) {
    struct world w = world_new();
    struct ggml_tensor * q = ggml_new_tensor_3d(w.ctx, GGML_TYPE_F32, 64, 1, 4);
    struct ggml_tensor * k = ggml_new_tensor_3d(w.ctx, GGML_TYPE_F16, 64, 256, 2);
    struct ggml_tensor * v = ggml_new_tensor_3d(w.ctx, GGML_TYPE_F16, 64, 256, 2);
    struct ggml_tensor * node = ggml_flash_attn_ext(w.ctx, q, k, v, NULL, 0.125f, 0, 0);
    bool takes = ggml_backend_dev_supports_op(dev, node);
    world_free(&w);
    return takes;
}

static void environment(void ** state) {
    (void) state;
    const char * value = getenv("GGML_HSA_MUL_MAT");
    const char * device = getenv("GGML_HSA_EMULATE");
    bool lean = !strcmp(value, "block-lean"), block = lean || !strcmp(value, "block");
    bool is_known = block || !strcmp(value, "precise") || !strcmp(value, "bf16");
    measure(false);
    bool by_blocks = block && device && !strcmp(device, "aie2p");
    assert_int_equal(loses_small_ones(false), by_blocks);
    assert_int_equal(loses_small_ones(true), by_blocks);
    if (block) {
        kept_as_block_floats(by_blocks && !lean, by_blocks);
    }
    assert_true(worst < 0x1p-6);
    assert_int_equal(worst < TOLERANCE_PRECISE, !strcmp(value, "precise"));
    measure(true);
    assert_int_equal(worst < TOLERANCE_PRECISE, strcmp(value, "bf16") != 0);
    assert_int_equal(n_warnings, is_known ? 0 : 1);
    assert_int_equal(takes_attention(), strcmp(value, "precise") != 0);
}

// ---- training ----

// Weights that a graph changes between two products of them: by a step of the optimizer, or by the
// CPU inside the stream, in the device's memory.
static void check_changed(bool by_cpu) {
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(w.weights, GGML_TYPE_F32, 32, 10);
    struct ggml_tensor * gradient = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 32, 10);
    struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 32, 5);
    struct ggml_tensor * rate = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, 2);
    ggml_set_param(a);
    struct ggml_tensor * first = ggml_mul_mat(w.ctx, a, b);
    struct ggml_tensor * step = by_cpu ? ggml_diag_mask_zero_inplace(w.ctx, a, 3)
                                       : ggml_opt_step_sgd(w.ctx, a, gradient, rate);
    struct ggml_tensor * second = ggml_mul_mat(w.ctx, a, b);
    ggml_build_forward_expand(w.graph, first);
    ggml_build_forward_expand(w.graph, step);
    world_alloc(&w, second);
    fill(b, 2);
    fill(gradient, 3);
    ggml_backend_tensor_set(rate, (float[]){0.5f, 0.0f}, 0, 2 * sizeof(float));
    uint64_t before = stats().cpu_nodes;
    for (uint32_t round = 0; round < 2; round++) {
        fill(a, 10 + round);
        double * was = values(a);
        world_compute(&w);
        double * is = values(a);
        assert_true(was[5] != is[5]);
        free(was);
        free(is);
        check_product(second, TOLERANCE_BF16);
    }
    assert_int_equal(stats().cpu_nodes - before, by_cpu ? 2 : 0);
    world_free(&w);
}

static void changed_by_a_step(void ** state) {
    (void) state;
    check_changed(false);
}

static void changed_by_the_cpu(void ** state) {
    (void) state;
    check_changed(true);
}

static int load_with_cpu(void ** state) {
    setenv("GGML_HSA_HOST_FALLBACK", "1", 1);
    return ggml_backend_load(CPU_BACKEND) ? load(state) : -1;
}

int main(int argc, char ** argv) {
    setenv("GGML_HSA_PLANES", "1", 1); // every type of blocks.def as it is
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odd_sizes),
        cmocka_unit_test(every_quantized_type),
        cmocka_unit_test(batches_and_views),
        cmocka_unit_test(outer_products),
        cmocka_unit_test(integers),
        cmocka_unit_test(long_k),
        cmocka_unit_test(empty),
        cmocka_unit_test(infinities),
        cmocka_unit_test(precise_where_asked),
        cmocka_unit_test(converted_once),
        cmocka_unit_test(streamed_blocks),
        cmocka_unit_test(one_decoder),
        cmocka_unit_test(short_prompt),
        cmocka_unit_test(changed_after_upload),
        cmocka_unit_test(changed_by_a_graph),
        cmocka_unit_test(weights_in_host_memory),
        cmocka_unit_test(two_streams_one_weight),
        cmocka_unit_test(stays_on_the_device),
        cmocka_unit_test(shared_operand),
        cmocka_unit_test(asked_before_there_is_memory),
    };
    const struct CMUnitTest training[] = {cmocka_unit_test(changed_by_a_step),
                                          cmocka_unit_test(changed_by_the_cpu)};
    const struct CMUnitTest with[] = {cmocka_unit_test(environment)};
    if (argc == 2 && !strcmp(argv[1], "train")) {
        return cmocka_run_group_tests(training, load_with_cpu, unload);
    }
    if (argc == 2) {
        setenv("GGML_HSA_MUL_MAT", argv[1], 1);
        ggml_log_set(listen, NULL);
        return cmocka_run_group_tests(with, load, unload);
    }
    unsetenv("GGML_HSA_MUL_MAT");
    return cmocka_run_group_tests(tests, load, unload);
}
