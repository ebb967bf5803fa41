// test-plugin-panels: weights that lie in panels are nobody's business but the array's. Every byte
// that was written is read back, whatever range and in whatever pieces; products are right before
// and after; what cannot take panels, on the device, on the CPU, by a view, in another thread's
// graph, finds the tensor as ggml has it.
#include "mat-world.h"

#include <pthread.h>

static uint64_t seed = 99;

static uint32_t next(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (seed >> 33);
}

// Whether the bytes in memory are not those that were written: a NPU's memory is the host's.
static bool is_in_panels(const struct ggml_tensor * t) {
    char * bytes = malloc(ggml_nbytes(t));
    ggml_backend_tensor_get(t, bytes, 0, ggml_nbytes(t));
    bool differs = memcmp(bytes, t->data, ggml_nbytes(t)) != 0;
    free(bytes);
    return differs;
}

static uint8_t * noise(size_t n) {
    uint8_t * bytes = malloc(n + 1);
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t) next();
    }
    return bytes;
}

static const enum ggml_type streamed[] = {
#define BLOCKS(id, ...) GGML_TYPE_##id,
#include "kernel/blocks.def"
};
enum { STREAMED = sizeof streamed / sizeof streamed[0] };

static bool streams(enum ggml_type type) {
    bool any = false;
    for (int i = 0; i < STREAMED; i++) {
        any |= streamed[i] == type;
    }
    return any;
}

// ---- bytes ----

static void every_type_comes_back(void ** state) {
    (void) state;
    int in_panels = 0;
    for (int type = 0; type < GGML_TYPE_COUNT; type++) {
        if (ggml_type_size((enum ggml_type) type) == 0 ||
            ggml_blck_size((enum ggml_type) type) == 0) {
            continue;
        }
        struct world w = world_new();
        struct ggml_tensor * t = ggml_new_tensor_3d(w.weights, (enum ggml_type) type, 2048, 64, 2);
        struct ggml_tensor * x = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, 8);
        world_alloc(&w, ggml_scale(w.ctx, x, 1));
        size_t n = ggml_nbytes(t);
        uint8_t *bytes = noise(n), *back = malloc(n);
        ggml_backend_tensor_set(t, bytes, 0, n);
        ggml_backend_tensor_get(t, back, 0, n);
        assert_memory_equal(bytes, back, n);
        assert_int_equal(is_in_panels(t), streams((enum ggml_type) type));
        in_panels += is_in_panels(t);
        free(bytes);
        free(back);
        world_free(&w);
    }
    assert_int_equal(in_panels, STREAMED);
}

enum { TENSORS = STREAMED + 2, RANGES = 10000 };

// Written, filled and read in pieces that begin and end anywhere, of tensors and of views; the
// first piece that is written of a tensor may be any.
static void any_range(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * t[TENSORS];
    uint8_t * want[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        enum ggml_type type = i < STREAMED ? streamed[i] : i % 2 ? GGML_TYPE_F16 : GGML_TYPE_IQ3_S;
        t[i] = ggml_new_tensor_2d(w.weights, type, 1024, 48 + 16 * (i % 3));
    }
    struct ggml_tensor * x = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, 8);
    world_alloc(&w, ggml_scale(w.ctx, x, 1));
    ggml_backend_buffer_clear(w.weights_buffer, 0x5a);
    for (int i = 0; i < TENSORS; i++) {
        want[i] = malloc(ggml_nbytes(t[i]));
        memset(want[i], 0x5a, ggml_nbytes(t[i]));
    }
    for (int round = 0; round < RANGES; round++) {
        int i = (int) (next() % TENSORS);
        size_t n = ggml_nbytes(t[i]), most = next() % 8 ? 600 : n;
        size_t from = next() % n, size = next() % most + 1;
        size = size < n - from ? size : n - from;
        struct ggml_tensor view = *t[i]; // as ggml_view_1d makes it, of bytes
        size_t shift = next() % 2 ? next() % (from + 1) : 0;
        if (shift) {
            view.view_src = t[i];
            view.view_offs = shift;
            view.data = (char *) t[i]->data + shift;
            view.type = GGML_TYPE_I8;
            view.ne[0] = (int64_t) (n - shift);
            view.ne[1] = 1;
            view.nb[0] = 1;
            view.nb[1] = view.nb[2] = view.nb[3] = n - shift;
        }
        uint8_t * bytes = noise(size);
        switch (next() % 4) {
        case 0:
            ggml_backend_tensor_set(&view, bytes, from - shift, size);
            memcpy(want[i] + from, bytes, size);
            break;
        case 1:
            ggml_backend_tensor_memset(&view, (uint8_t) round, from - shift, size);
            memset(want[i] + from, (uint8_t) round, size);
            break;
        default:
            ggml_backend_tensor_get(&view, bytes, from - shift, size);
            assert_memory_equal(bytes, want[i] + from, size);
        }
        free(bytes);
    }
    int in_panels = 0;
    for (int i = 0; i < TENSORS; i++) {
        uint8_t * bytes = malloc(ggml_nbytes(t[i]));
        ggml_backend_tensor_get(t[i], bytes, 0, ggml_nbytes(t[i]));
        assert_memory_equal(bytes, want[i], ggml_nbytes(t[i]));
        in_panels += is_in_panels(t[i]);
        free(bytes);
        free(want[i]);
    }
    assert_int_equal(in_panels, STREAMED);
    world_free(&w);
}

// A buffer that is declared one of weights after they were written keeps them as they are.
static void declared_late(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(w.weights, GGML_TYPE_Q4_0, 2048, 64);
    struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 2048, 1);
    struct ggml_tensor * out = ggml_mul_mat(w.ctx, a, b);
    world_alloc(&w, out);
    ggml_backend_buffer_set_usage(w.weights_buffer, GGML_BACKEND_BUFFER_USAGE_ANY);
    fill(a, 1);
    fill(b, 2);
    ggml_backend_buffer_set_usage(w.weights_buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    assert_false(is_in_panels(a));
    world_compute(&w);
    check_product(out, TOLERANCE_BF16);
    world_free(&w);
}

static void copies(void ** state) {
    (void) state;
    struct world w = world_new(), other = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(w.weights, GGML_TYPE_Q4_0, 2048, 64);
    struct ggml_tensor * same = ggml_new_tensor_2d(other.weights, GGML_TYPE_Q4_0, 2048, 64);
    struct ggml_tensor * plain = ggml_new_tensor_2d(other.ctx, GGML_TYPE_Q4_0, 2048, 64);
    world_alloc(&w, ggml_scale(w.ctx, ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, 8), 1));
    world_alloc(&other, ggml_scale(other.ctx, ggml_new_tensor_1d(other.ctx, GGML_TYPE_F32, 8), 1));
    size_t n = ggml_nbytes(a);
    uint8_t *want = noise(n), *got = malloc(n);
    ggml_backend_tensor_set(a, want, 0, n);
    struct ggml_tensor * way[] = {a, plain, same, plain, a};
    for (int i = 0; i < 4; i++) {
        ggml_backend_tensor_copy(way[i], way[i + 1]);
        ggml_backend_tensor_get(way[i + 1], got, 0, n);
        assert_memory_equal(want, got, n);
        ggml_backend_tensor_memset(way[i], 0, 0, n);
    }
    ggml_backend_tensor_set(same, want, 0, n);
    assert_true(is_in_panels(same) && is_in_panels(a) && !is_in_panels(plain));
    free(want);
    free(got);
    world_free(&w);
    world_free(&other);
}

// ---- products ----

static void rows_of_any_number(void ** state) {
    (void) state;
    static const int64_t ns[] = {1, 3, 16, 17, 40, 130};
    for (int i = 0; i < STREAMED; i++) {
        for (size_t j = (size_t) i % 2; j < sizeof ns / sizeof ns[0]; j += 2) {
            struct world w = world_new();
            struct ggml_tensor * a = ggml_new_tensor_2d(w.weights, streamed[i], 1024, 80);
            struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 1024, ns[j]);
            struct ggml_tensor * out = ggml_mul_mat(w.ctx, a, b);
            world_alloc(&w, out);
            for (uint32_t round = 0; round < 2; round++) {
                fill(a, 3 + round);
                fill(b, 4 + round);
                world_compute(&w);
                check_product(out, TOLERANCE_BF16);
            }
            assert_true(is_in_panels(a));
            world_free(&w);
        }
    }
}

// Operands that the host lays out, from panels.
static void precise(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(w.weights, GGML_TYPE_Q4_K, 512, 48);
    struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 512, 5);
    struct ggml_tensor * out = ggml_mul_mat(w.ctx, a, b);
    ggml_prec_set_acc(out, GGML_PREC_F32);
    world_alloc(&w, out);
    fill(a, 5);
    fill(b, 6);
    world_compute(&w);
    check_product(out, TOLERANCE_PRECISE);
    assert_true(is_in_panels(a));
    world_free(&w);
}

// ---- everybody else ----

static void check_rows(const struct ggml_tensor * out) {
    const struct ggml_tensor *a = out->src[0], *ids = out->src[1];
    double *pa = values(a), *which = values(ids), *got = values(out);
    for (int64_t i = 0; i < ggml_nelements(out); i++) {
        double want = pa[(int64_t) which[i / out->ne[0]] * a->ne[0] + i % out->ne[0]];
        assert_true(fabs(got[i] - want) <= 1e-6 * (1 + fabs(want)));
    }
    free(pa);
    free(which);
    free(got);
}

// Rows are looked up in weights that are multiplied as well, as in models with one embedding.
static void looked_up(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(w.weights, GGML_TYPE_Q8_0, 512, 64);
    struct ggml_tensor * ids = ggml_new_tensor_1d(w.ctx, GGML_TYPE_I32, 7);
    struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 512, 2);
    struct ggml_tensor * first = ggml_mul_mat(w.ctx, a, b);
    struct ggml_tensor * rows = ggml_get_rows(w.ctx, a, ids);
    struct ggml_tensor * second = ggml_mul_mat(w.ctx, a, rows);
    ggml_build_forward_expand(w.graph, first);
    world_alloc(&w, second);
    fill(a, 7);
    fill(b, 8);
    int32_t which[] = {0, 63, 5, 17, 16, 15, 33};
    ggml_backend_tensor_set(ids, which, 0, sizeof which);
    assert_true(is_in_panels(a));
    for (int round = 0; round < 2; round++) {
        world_compute(&w);
        check_product(first, TOLERANCE_BF16);
        check_rows(rows);
        check_product(second, TOLERANCE_BF16);
    }
    assert_false(is_in_panels(a));
    world_free(&w);
}

// A part of the rows, and of them all a part of k.
static void views(void ** state) {
    (void) state;
    for (int part = 0; part < 2; part++) {
        struct world w = world_new();
        struct ggml_tensor * a = ggml_new_tensor_2d(w.weights, GGML_TYPE_Q4_0, 1024, 64);
        struct ggml_tensor * half =
            part ? ggml_view_2d(w.ctx, a, 512, 64, a->nb[1], ggml_row_size(a->type, 512))
                 : ggml_view_2d(w.ctx, a, 1024, 32, a->nb[1], 8 * a->nb[1]);
        struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, half->ne[0], 3);
        struct ggml_tensor * out = ggml_mul_mat(w.ctx, half, b);
        world_alloc(&w, out);
        fill(a, 9);
        fill(b, 10);
        assert_true(is_in_panels(a));
        world_compute(&w);
        check_product(out, TOLERANCE_BF16);
        world_free(&w);
    }
}

// Rows so long that a memtile has room for few of b: k is taken by parts, of whole chunks, for more
// of b at once, and their sums are added. What stands around the product keeps it on its PDI.
static void parts_of_k(void ** state) {
    (void) state;
    enum { K = 8192, M = 64, AROUND = 2 };
    static const struct {
        int64_t rows;
        // on aie2: parts of 4096; all of k by 12 rows, as bf16; on aie2p as bf16: parts of 4096; of
        // 2048 by 32 rows
        uint64_t kernels[2];
    } cases[] = {{12, {3, 4}}, {32, {4, 8}}};
    bool aie2p = !strcmp(getenv("GGML_HSA_EMULATE"), "aie2p");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world w = world_new();
        struct ggml_tensor * a = ggml_new_tensor_2d(w.weights, GGML_TYPE_Q4_0, K, M);
        struct ggml_tensor * x = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, K, cases[i].rows);
        struct ggml_tensor * product = ggml_mul_mat(w.ctx, a, ggml_scale(w.ctx, x, 0.5f));
        world_alloc(&w, ggml_scale(w.ctx, product, 2));
        fill(a, 9);
        fill(x, 10);
        assert_true(is_in_panels(a));
        uint64_t before = stats().dispatches;
        world_compute(&w);
        check_product(product, TOLERANCE_BF16);
        assert_int_equal(stats().dispatches - before, cases[i].kernels[aie2p] + AROUND);
        world_free(&w);
    }
}

// A node that is no product, by whoever computes it.
static void duplicated(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(w.weights, GGML_TYPE_Q4_0, 512, 64);
    struct ggml_tensor * sum = ggml_dup(w.ctx, a);
    ggml_build_forward_expand(w.graph, sum);
    w.weights_buffer = ggml_backend_alloc_ctx_tensors(w.weights, stream);
    ggml_backend_buffer_set_usage(w.weights_buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    w.buffer = ggml_backend_alloc_ctx_tensors(w.ctx, stream);
    assert_true(w.weights_buffer && w.buffer);
    fill(a, 11);
    assert_true(is_in_panels(a));
    assert_int_equal(ggml_backend_graph_compute(stream, w.graph), GGML_STATUS_SUCCESS);
    double *want = values(a), *got = values(sum);
    for (int64_t i = 0; i < ggml_nelements(a); i++) {
        assert_true(want[i] == got[i]);
    }
    free(want);
    free(got);
    world_free(&w);
}

// ---- several streams ----

enum { THREADS = 3, GRAPHS = 12 };

struct worker {
    struct ggml_tensor * a;
    int number;
    bool ok;
};

// Tokens are added to a cache and attended to, graph after graph, with the views that llama.cpp has
// as nodes. The cache is laid out for attention once, and then it stays so: what the host touches
// for a later graph is less than the cache. All values of a head are the same number, and so is
// what attention makes of them.
enum { HEADS = 4, SIZE = 32, TOKENS = 256, WIDTH = HEADS * SIZE };

static void add_token(struct world * w, struct ggml_tensor * cache, struct ggml_tensor * row,
                      struct ggml_tensor * at) {
    ggml_build_forward_expand(w->graph, ggml_set_rows(w->ctx, cache, row, at));
}

static struct ggml_tensor * heads_of(struct world * w, struct ggml_tensor * cache) {
    struct ggml_tensor * tokens =
        ggml_view_3d(w->ctx, cache, SIZE, HEADS, TOKENS, cache->nb[0] * SIZE, cache->nb[1], 0);
    return ggml_permute(w->ctx, tokens, 0, 2, 1, 3);
}

static void caches_stay(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor *keys = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F16, WIDTH, TOKENS),
                       *values_of = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F16, WIDTH, TOKENS),
                       *q = ggml_new_tensor_3d(w.ctx, GGML_TYPE_F32, SIZE, 1, HEADS),
                       *row = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, WIDTH, 1),
                       *at = ggml_new_tensor_1d(w.ctx, GGML_TYPE_I64, 1);
    add_token(&w, keys, row, at);
    add_token(&w, values_of, row, at);
    struct ggml_tensor * out = ggml_flash_attn_ext(w.ctx, q, heads_of(&w, keys),
                                                   heads_of(&w, values_of), NULL, 0.1f, 0, 0);
    world_alloc(&w, out);
    float numbers[WIDTH];
    ggml_fp16_t rows[WIDTH];
    for (int i = 0; i < WIDTH; i++) {
        numbers[i] = (float) (1 + i / SIZE);
        rows[i] = ggml_fp32_to_fp16(numbers[i]);
    }
    for (size_t i = 0; i < TOKENS; i++) {
        ggml_backend_tensor_set(keys, rows, i * sizeof rows, sizeof rows);
        ggml_backend_tensor_set(values_of, rows, i * sizeof rows, sizeof rows);
    }
    ggml_backend_tensor_set(q, numbers, 0, sizeof numbers);
    for (int64_t token = 0; token < 3; token++) {
        ggml_backend_tensor_set(row, numbers, 0, sizeof numbers);
        ggml_backend_tensor_set(at, &token, 0, sizeof token);
        uint64_t before = stats().flushed_bytes;
        world_compute(&w);
        uint64_t flushed = stats().flushed_bytes - before;
        assert_true(token == 0 ? flushed > 4 * ggml_nbytes(keys) : flushed < ggml_nbytes(keys));
        double * got = values(out);
        for (int i = 0; i < WIDTH; i++) {
            assert_true(fabs(got[i] - numbers[i]) <= 0.02 * numbers[i]);
        }
        free(got);
    }
    world_free(&w);
}

static void * work(void * user) {
    struct worker * me = user;
    ggml_backend_t own = ggml_backend_dev_init(dev, NULL);
    struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * 16 +
                                                  ggml_graph_overhead_custom(16, false),
                                      .no_alloc = true};
    me->ok = own != NULL;
    for (int i = 0; i < GRAPHS && me->ok; i++) {
        bool looks = me->number == 0 && i == GRAPHS / 2; // once, in the midst of the others
        struct ggml_context * ctx = ggml_init(params);
        struct ggml_tensor * b = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 512, 2);
        struct ggml_tensor * ids = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 2);
        struct ggml_tensor * out =
            looks ? ggml_get_rows(ctx, me->a, ids) : ggml_mul_mat(ctx, me->a, b);
        struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 16, false);
        ggml_build_forward_expand(graph, out);
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, own);
        float ones[1024];
        int32_t which[] = {3, 40};
        for (int j = 0; j < 1024; j++) {
            ones[j] = 1;
        }
        if (!looks) {
            ggml_backend_tensor_set(b, ones, 0, sizeof ones);
        } else {
            ggml_backend_tensor_set(ids, which, 0, sizeof which);
        }
        me->ok = ggml_backend_graph_compute(own, graph) == GGML_STATUS_SUCCESS;
        float got[1024];
        size_t n = ggml_nbytes(out) / sizeof(float);
        ggml_backend_tensor_get(out, got, 0, ggml_nbytes(out));
        double * pa = values(me->a);
        for (size_t j = 0; j < n && me->ok; j++) {
            double want = 0, size = 0;
            for (int k = 0; k < 512 && !looks; k++) {
                want += pa[j % 64 * 512 + (size_t) k];
                size += fabs(pa[j % 64 * 512 + (size_t) k]);
            }
            want = looks ? pa[(size_t) which[j / 512] * 512 + j % 512] : want;
            me->ok = fabs((double) got[j] - want) <= (looks ? 1e-6 : size * TOLERANCE_BF16);
        }
        free(pa);
        ggml_backend_buffer_free(buffer);
        ggml_free(ctx);
    }
    if (own) {
        ggml_backend_free(own);
    }
    return NULL;
}

static void streams_share_weights(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(w.weights, GGML_TYPE_Q4_0, 512, 64);
    world_alloc(&w, ggml_scale(w.ctx, ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, 8), 1));
    fill(a, 12);
    assert_true(is_in_panels(a));
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.a = a, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(workers[i].ok);
    }
    assert_false(is_in_panels(a));
    world_free(&w);
}

int main(void) {
    setenv("GGML_HSA_PLANES", "1", 1); // every type of blocks.def as it is
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_comes_back),
        cmocka_unit_test(any_range),
        cmocka_unit_test(declared_late),
        cmocka_unit_test(copies),
        cmocka_unit_test(rows_of_any_number),
        cmocka_unit_test(precise),
        cmocka_unit_test(looked_up),
        cmocka_unit_test(views),
        cmocka_unit_test(parts_of_k),
        cmocka_unit_test(duplicated),
        cmocka_unit_test(caches_stay),
        cmocka_unit_test(streams_share_weights),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
