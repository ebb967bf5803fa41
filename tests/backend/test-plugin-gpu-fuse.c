// test-plugin-gpu-fuse: nodes that a GPU computes as one. Each graph is computed twice, as ggml's
// allocator lays it out, and with all its nodes marked as outputs, so that none may be left out:
// launches are counted and results compared, bit by bit, and with the CPU's. The argument names the
// GPU.
#include "gpu-world.h"

enum { HEAD = 32, HEADS = 4, KV_HEADS = 2, WIDE = HEAD * HEADS, KV = HEAD * KV_HEADS, INNER = 96 };
enum { CELLS = 64 };

static ggml_backend_t cpu;
static ggml_backend_hsa_get_stats_t get_stats;

static int setup(void ** state) {
    ggml_backend_load(CPU_BACKEND);
    ggml_backend_dev_t dev = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    cpu = dev ? ggml_backend_dev_init(dev, NULL) : NULL;
    if (!cpu || gpu_setup(state)) {
        return -1;
    }
    void * stats = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(gpu),
                                                     "ggml_backend_hsa_get_stats");
    memcpy(&get_stats, &stats, sizeof stats);
    return stats ? 0 : -1;
}

static int teardown(void ** state) {
    ggml_backend_free(cpu);
    return gpu_teardown(state);
}

// ---- graphs ----

struct parts {
    struct ggml_context *kept, *ctx; // weights, the cache and inputs; the graph's nodes
    struct ggml_cgraph * graph;
    int64_t tokens;
    enum ggml_type cache;
    bool outputs; // all of them
};

static struct ggml_tensor * kept(struct parts * p, enum ggml_type type, int64_t a, int64_t b) {
    return ggml_new_tensor_2d(p->kept, type, a, b);
}

static struct ggml_tensor * weights(struct parts * p, int64_t a, int64_t b) {
    return kept(p, GGML_TYPE_F32, a, b);
}

static struct ggml_tensor * norm(struct parts * p, struct ggml_tensor * x) {
    struct ggml_tensor * n = ggml_rms_norm(p->ctx, x, 1e-5f);
    return ggml_mul(p->ctx, n, weights(p, x->ne[0], 1));
}

static struct ggml_tensor * turned(struct parts * p, struct ggml_tensor * x, int64_t heads) {
    struct ggml_tensor * at = kept(p, GGML_TYPE_I32, p->tokens, 1);
    return ggml_rope(p->ctx, ggml_reshape_3d(p->ctx, x, HEAD, heads, p->tokens), at, HEAD,
                     GGML_ROPE_TYPE_NEOX);
}

// As llama.cpp does it: whole rows into the cells that ids name.
static struct ggml_tensor * stored(struct parts * p, struct ggml_tensor * x,
                                   struct ggml_tensor * ids) {
    struct ggml_tensor * cache = kept(p, p->cache, KV, CELLS);
    struct ggml_tensor * rows = ggml_view_2d(p->ctx, x, KV, p->tokens, KV * sizeof(float), 0);
    struct ggml_tensor * set = ggml_set_rows(p->ctx, cache, rows, ids);
    ggml_build_forward_expand(p->graph, set);
    return ggml_permute(p->ctx,
                        ggml_view_3d(p->ctx, set, HEAD, KV_HEADS, CELLS,
                                     ggml_row_size(p->cache, HEAD), set->nb[1], 0),
                        0, 2, 1, 3);
}

static struct ggml_tensor * decoder_layer(struct parts * p) {
    struct ggml_tensor * x = weights(p, WIDE, p->tokens);
    struct ggml_tensor * n = norm(p, x);
    struct ggml_tensor * q = turned(p, ggml_mul_mat(p->ctx, weights(p, WIDE, WIDE), n), HEADS);
    struct ggml_tensor * v = ggml_mul_mat(p->ctx, weights(p, WIDE, KV), n);
    ggml_build_forward_expand(p->graph, q);
    ggml_build_forward_expand(p->graph, v);
    struct ggml_tensor * k = turned(p, ggml_mul_mat(p->ctx, weights(p, WIDE, KV), n), KV_HEADS);
    ggml_build_forward_expand(p->graph, k);
    struct ggml_tensor * ids = kept(p, GGML_TYPE_I64, p->tokens, 1);
    k = stored(p, k, ids);
    v = stored(p, v, ids);
    struct ggml_tensor * mask = kept(p, GGML_TYPE_F16, CELLS, p->tokens);
    struct ggml_tensor * seen =
        ggml_flash_attn_ext(p->ctx, ggml_permute(p->ctx, q, 0, 2, 1, 3), k, v, mask, 0.2f, 0, 0);
    struct ggml_tensor * y = ggml_mul_mat(p->ctx, weights(p, WIDE, WIDE),
                                          ggml_reshape_2d(p->ctx, seen, WIDE, p->tokens));
    y = ggml_add(p->ctx, y, x);
    n = norm(p, y);
    struct ggml_tensor * gate = ggml_mul_mat(p->ctx, weights(p, WIDE, INNER), n);
    struct ggml_tensor * up = ggml_mul_mat(p->ctx, weights(p, WIDE, INNER), n);
    n = ggml_swiglu_split(p->ctx, gate, up);
    return ggml_add(p->ctx, ggml_mul_mat(p->ctx, weights(p, INNER, WIDE), n), y);
}

// Norms with a sum behind them: of the layer's input (Gemma), and of a bias (BERT, which has NORM).
static struct ggml_tensor * norm_and_sum(struct parts * p) {
    struct ggml_tensor * x = weights(p, WIDE, p->tokens);
    struct ggml_tensor * y = ggml_mul_mat(p->ctx, weights(p, WIDE, WIDE), x);
    y = ggml_add(p->ctx, norm(p, y), x);
    y = ggml_mul(p->ctx, ggml_norm(p->ctx, y, 1e-5f), weights(p, WIDE, 1));
    return ggml_add(p->ctx, y, weights(p, WIDE, 1));
}

// Norms of heads, whose weights are one row for all of them.
static struct ggml_tensor * norm_of_heads(struct parts * p) {
    struct ggml_tensor * x = weights(p, WIDE, p->tokens);
    return turned(p, norm(p, ggml_reshape_3d(p->ctx, x, HEAD, HEADS, p->tokens)), HEADS);
}

static struct ggml_tensor * norm_read_twice(struct parts * p) {
    struct ggml_tensor * n = ggml_rms_norm(p->ctx, weights(p, WIDE, p->tokens), 1e-5f);
    struct ggml_tensor * y = ggml_mul(p->ctx, n, weights(p, WIDE, 1));
    return ggml_add(p->ctx, y, n);
}

static struct ggml_tensor * norm_by_itself(struct parts * p) {
    struct ggml_tensor * n = ggml_rms_norm(p->ctx, weights(p, WIDE, p->tokens), 1e-5f);
    return ggml_mul(p->ctx, n, n);
}

static struct ggml_tensor * weights_of_rows(struct parts * p) { // not one row for all
    struct ggml_tensor * n = ggml_rms_norm(p->ctx, weights(p, WIDE, p->tokens), 1e-5f);
    return ggml_mul(p->ctx, n, weights(p, WIDE, p->tokens));
}

static struct ggml_tensor * keys_read_twice(struct parts * p) {
    struct ggml_tensor * k = turned(
        p, ggml_mul_mat(p->ctx, weights(p, WIDE, KV), weights(p, WIDE, p->tokens)), KV_HEADS);
    ggml_build_forward_expand(p->graph, k);
    ggml_build_forward_expand(p->graph, stored(p, k, kept(p, GGML_TYPE_I64, p->tokens, 1)));
    return ggml_scale(p->ctx, ggml_sqr(p->ctx, k), 3);
}

// ---- columns that become bytes ----

// Two products with the same column, which becomes bytes once.
static struct ggml_tensor * column_twice(struct parts * p) {
    struct ggml_tensor * x = weights(p, WIDE, p->tokens);
    struct ggml_tensor * a = ggml_mul_mat(p->ctx, kept(p, GGML_TYPE_Q8_0, WIDE, WIDE), x);
    return ggml_add(p->ctx, a, ggml_mul_mat(p->ctx, kept(p, GGML_TYPE_Q8_0, WIDE, WIDE), x));
}

// Between the two its numbers become others, at the same place.
static struct ggml_tensor * column_changed(struct parts * p) {
    struct ggml_tensor * x = weights(p, WIDE, p->tokens);
    struct ggml_tensor * w = kept(p, GGML_TYPE_Q8_0, WIDE, WIDE);
    struct ggml_tensor * a = ggml_mul_mat(p->ctx, w, x);
    ggml_build_forward_expand(p->graph, a);
    struct ggml_tensor * b = ggml_mul_mat(p->ctx, w, ggml_scale_inplace(p->ctx, x, -2.5f));
    return ggml_add(p->ctx, a, b);
}

// The columns of one lie in those of the other: another number of them, and other strides.
static struct ggml_tensor * columns_within(struct parts * p) {
    struct ggml_tensor * x = weights(p, WIDE, 4);
    struct ggml_tensor * w = kept(p, GGML_TYPE_Q8_0, WIDE, WIDE);
    struct ggml_tensor * all = ggml_mul_mat(p->ctx, w, x);
    struct ggml_tensor * of = ggml_view_2d(p->ctx, x, WIDE, 2, 2 * x->nb[1], 0);
    struct ggml_tensor * some = ggml_mul_mat(p->ctx, w, of);
    return ggml_add(p->ctx, ggml_view_2d(p->ctx, all, WIDE, 2, all->nb[1], 0), some);
}

// ---- two ways ----

struct outcome {
    uint64_t launches;
    size_t bytes, result; // of all and of the result, which is first
    char * data;          // behind it all that is kept, the cache too
};

static void fill_blocks(struct ggml_tensor * t, uint32_t seed) {
    size_t n = (size_t) ggml_nelements(t);
    float * from = malloc(n * sizeof *from);
    void * blocks = malloc(ggml_nbytes(t));
    for (size_t i = 0; i < n; i++) {
        from[i] = (float) next_value(&seed);
    }
    ggml_quantize_chunk(t->type, from, blocks, 0, ggml_nrows(t), t->ne[0], NULL);
    ggml_backend_tensor_set(t, blocks, 0, ggml_nbytes(t));
    free(from);
    free(blocks);
}

static void fill_kept(struct parts * p) {
    uint32_t seed = 77;
    // Those that are no cells write nothing, but on the CPU, which asserts: it has one token.
    static const int64_t ids[] = {CELLS - 1, 3, -1, CELLS, 12};
    for (struct ggml_tensor * t = ggml_get_first_tensor(p->kept); t;
         t = ggml_get_next_tensor(p->kept, t)) {
        if (t->type == GGML_TYPE_I64) {
            ggml_backend_tensor_set(t, ids, 0, ggml_nbytes(t));
        } else if (t->type == GGML_TYPE_I32) {
            for (int32_t i = 0; i < t->ne[0]; i++) {
                int32_t at = 1000 + i;
                ggml_backend_tensor_set(t, &at, (size_t) i * sizeof at, sizeof at);
            }
        } else if (ggml_is_quantized(t->type)) {
            fill_blocks(t, seed++ * 7919);
        } else {
            fill(t, seed++ * 7919);
        }
    }
}

static struct outcome compute(ggml_backend_t backend, struct ggml_tensor * build(struct parts *),
                              struct parts p) {
    struct ggml_init_params room = {
        .mem_size = 256 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true};
    struct outcome out = {.launches = 0};
    struct ggml_backend_hsa_stats before = {0}, after = {0};
    p.kept = ggml_init(room);
    p.ctx = ggml_init(room);
    p.graph = ggml_new_graph(p.ctx);
    struct ggml_tensor * result = build(&p);
    ggml_build_forward_expand(p.graph, result);
    for (int i = 0; i < ggml_graph_n_nodes(p.graph); i++) {
        struct ggml_tensor * node = ggml_graph_node(p.graph, i);
        if (p.outputs || node == result) {
            ggml_set_output(node);
        }
    }
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(p.kept, backend);
    ggml_gallocr_t alloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    assert_non_null(buffer);
    assert_true(ggml_gallocr_alloc_graph(alloc, p.graph));
    fill_kept(&p);
    get_stats(gpu, &before);
    assert_int_equal(ggml_backend_graph_compute(backend, p.graph), GGML_STATUS_SUCCESS);
    get_stats(gpu, &after);
    out.launches = after.dispatches - before.dispatches;
    assert_int_equal(after.cpu_nodes, before.cpu_nodes);
    out.bytes = out.result = ggml_nbytes(result);
    for (struct ggml_tensor * t = ggml_get_first_tensor(p.kept); t;
         t = ggml_get_next_tensor(p.kept, t)) {
        out.bytes += ggml_nbytes(t);
    }
    out.data = malloc(out.bytes);
    size_t at = out.result;
    ggml_backend_tensor_get(result, out.data, 0, at);
    for (struct ggml_tensor * t = ggml_get_first_tensor(p.kept); t;
         at += ggml_nbytes(t), t = ggml_get_next_tensor(p.kept, t)) {
        ggml_backend_tensor_get(t, out.data + at, 0, ggml_nbytes(t));
    }
    ggml_gallocr_free(alloc);
    ggml_backend_buffer_free(buffer);
    ggml_free(p.ctx);
    ggml_free(p.kept);
    return out;
}

// By squares, as ggml's own tests do it.
static void compare(const char * name, const struct outcome * got, const struct outcome * want,
                    double most) {
    const float *a = (const void *) got->data, *b = (const void *) want->data;
    double error = 0, size = 0;
    for (size_t i = 0; i < want->result / sizeof *b; i++) {
        error += pow((double) a[i] - b[i], 2);
        size += (double) b[i] * b[i];
    }
    if (!(error <= most * size)) {
        fail_msg("%s: an error of %g", name, error / size);
    }
}

static const struct fuse_case {
    const char * name;
    struct ggml_tensor * (*build)(struct parts * p);
    enum ggml_type cache;
    uint64_t separate, fused; // launches for one token
} fuse_cases[] = {
    // Two norms with their weights, and the keys into the cache; q8_0 has no kernel for the latter.
    {"decoder layer", decoder_layer, GGML_TYPE_F16, 19, 16},
    {"decoder layer, cache of f32", decoder_layer, GGML_TYPE_F32, 19, 16},
    {"decoder layer, cache of bf16", decoder_layer, GGML_TYPE_BF16, 19, 16},
    {"decoder layer, cache of q8_0", decoder_layer, GGML_TYPE_Q8_0, 19, 17},
    {"norm and sum", norm_and_sum, GGML_TYPE_F16, 7, 3},
    {"norm of heads", norm_of_heads, GGML_TYPE_F16, 3, 2},
    {"norm that is read twice", norm_read_twice, GGML_TYPE_F16, 3, 3},
    {"norm times itself", norm_by_itself, GGML_TYPE_F16, 2, 2},
    {"keys that are read twice", keys_read_twice, GGML_TYPE_F16, 5, 5},
};

static void as_one(void ** state) {
    (void) state;
    for (size_t i = 0; i < sizeof fuse_cases / sizeof fuse_cases[0]; i++) {
        const struct fuse_case * c = &fuse_cases[i];
        int64_t most = c->cache == GGML_TYPE_F16 ? 5 : 1;
        for (int64_t tokens = 1; tokens <= most; tokens += 4) {
            struct parts p = {.tokens = tokens, .cache = c->cache};
            struct outcome fused = compute(stream, c->build, p);
            p.outputs = true;
            struct outcome separate = compute(stream, c->build, p);
            if (tokens == 1) {
                print_message("%s: %d launches, %d as one\n", c->name, (int) separate.launches,
                              (int) fused.launches);
                assert_int_equal(separate.launches, c->separate);
                assert_int_equal(fused.launches, c->fused);
                struct outcome want = compute(cpu, c->build, p);
                compare(c->name, &fused, &want, 1e-5);
                free(want.data);
            }
            assert_int_equal(fused.bytes, separate.bytes);
            assert_memory_equal(fused.data, separate.data, fused.bytes);
            free(fused.data);
            free(separate.data);
        }
    }
}

static void weights_that_differ(void ** state) {
    (void) state;
    for (int64_t tokens = 1; tokens <= 2; tokens++) { // one row is a row for all
        struct parts p = {.tokens = tokens};
        struct outcome o = compute(stream, weights_of_rows, p);
        assert_int_equal(o.launches, tokens);
        free(o.data);
    }
}

static void columns_as_bytes(void ** state) {
    static const struct {
        const char * name;
        struct ggml_tensor * (*build)(struct parts * p);
        uint64_t launches;
    } cases[] = {
        {"a column for two products", column_twice, 4},
        {"a column that is changed between", column_changed, 6},
        {"columns within others", columns_within, 5},
    };
    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct parts p = {.tokens = 1};
        struct outcome got = compute(stream, cases[i].build, p);
        struct outcome want = compute(cpu, cases[i].build, p);
        print_message("%s: %d launches\n", cases[i].name, (int) got.launches);
        // Bytes and scales are those of the CPU: what differs is the order of sums.
        compare(cases[i].name, &got, &want, 1e-11);
        assert_int_equal(got.launches, cases[i].launches);
        free(got.data);
        free(want.data);
    }
}

int main(int argc, char ** argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_one),
                                       cmocka_unit_test(weights_that_differ),
                                       cmocka_unit_test(columns_as_bytes)};
    gpu_arch = argc > 1 ? argv[1] : gpu_arch;
    if (!gpu_have_compiler()) {
        return skip_say("no clang++-19 or later with its lld to compile GPU kernels with");
    }
    return skip_run(gpu_arch, tests, sizeof tests / sizeof tests[0], setup, teardown);
}
