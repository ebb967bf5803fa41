// test-plugin: the plugin as a program uses it, through ggml's public interface alone, on an
// emulated NPU (or on a real one, where GGML_HSA_EMULATE is set to nothing). Expected values are
// computed here, exactly.
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-hsa.h"

static ggml_backend_dev_t dev, cpu;
static ggml_backend_t stream;

static int setup(void ** state) {
    (void) state;
    setenv("GGML_HSA_EMULATE", "aie2", 0);
    ggml_backend_reg_t reg = ggml_backend_load(PLUGIN);
    ggml_backend_load(CPU_BACKEND);
    cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    dev = reg ? ggml_backend_dev_by_name("HSA0") : NULL;
    stream = dev ? ggml_backend_dev_init(dev, NULL) : NULL;
    return stream && cpu ? 0 : -1;
}

static int teardown(void ** state) {
    (void) state;
    ggml_backend_free(stream);
    return 0;
}

// ---- values ----

static float
next_value(uint32_t * seed) { // multiples of 1/64 in [-8, 8): sums are exact in f32 and f16
    *seed = *seed * 1664525u + 1013904223u;
    return (float) ((int32_t) (*seed >> 22) - 512) / 64.0f;
}

static void put(enum ggml_type type, void * data, int64_t i, float v) {
    switch (type) {
    case GGML_TYPE_F32:
        ((float *) data)[i] = v;
        break;
    case GGML_TYPE_F16:
        ((ggml_fp16_t *) data)[i] = ggml_fp32_to_fp16(v);
        break;
    case GGML_TYPE_BF16:
        ((ggml_bf16_t *) data)[i] = ggml_fp32_to_bf16(v);
        break;
    case GGML_TYPE_I8:
        ((int8_t *) data)[i] = (int8_t) (v * 15);
        break;
    case GGML_TYPE_I16:
        ((int16_t *) data)[i] = (int16_t) (v * 4000);
        break;
    case GGML_TYPE_I32:
        ((int32_t *) data)[i] = (int32_t) (v * 260000000);
        break;
    default:
        fail_msg("type %s", ggml_type_name(type));
    }
}

// out[i] = a[i] + b[j], in out's type; integers wrap around
static void add(enum ggml_type type, void * out, int64_t i, const void * a, const void * b,
                int64_t j) {
    switch (type) {
    case GGML_TYPE_F32:
        ((float *) out)[i] = ((const float *) a)[i] + ((const float *) b)[j];
        break;
    case GGML_TYPE_F16:
        ((ggml_fp16_t *) out)[i] =
            ggml_fp32_to_fp16(ggml_fp16_to_fp32(((const ggml_fp16_t *) a)[i]) +
                              ggml_fp16_to_fp32(((const ggml_fp16_t *) b)[j]));
        break;
    case GGML_TYPE_BF16:
        ((ggml_bf16_t *) out)[i] =
            ggml_fp32_to_bf16(ggml_bf16_to_fp32(((const ggml_bf16_t *) a)[i]) +
                              ggml_bf16_to_fp32(((const ggml_bf16_t *) b)[j]));
        break;
    case GGML_TYPE_I8:
        ((int8_t *) out)[i] = (int8_t) (((const int8_t *) a)[i] + ((const int8_t *) b)[j]);
        break;
    case GGML_TYPE_I16:
        ((int16_t *) out)[i] = (int16_t) (((const int16_t *) a)[i] + ((const int16_t *) b)[j]);
        break;
    case GGML_TYPE_I32:
        ((uint32_t *) out)[i] = ((const uint32_t *) a)[i] + ((const uint32_t *) b)[j];
        break;
    default:
        fail_msg("type %s", ggml_type_name(type));
    }
}

static int64_t repeat_index(const int64_t ne[4], const int64_t small[4], int64_t i) {
    int64_t i0 = i % ne[0], i1 = i / ne[0] % ne[1], i2 = i / ne[0] / ne[1] % ne[2],
            i3 = i / ne[0] / ne[1] / ne[2];
    return i0 % small[0] +
           small[0] * (i1 % small[1] + small[1] * (i2 % small[2] + small[2] * (i3 % small[3])));
}

// ---- graphs ----

struct world {
    struct ggml_context * ctx;
    struct ggml_cgraph * graph;
    ggml_backend_buffer_t buffer;
};

static struct world world_new(void) {
    struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * 2048 +
                                                  ggml_graph_overhead_custom(1024, false),
                                      .no_alloc = true};
    struct world w = {.ctx = ggml_init(params)};
    assert_non_null(w.ctx);
    w.graph = ggml_new_graph_custom(w.ctx, 1024, false);
    return w;
}

static void world_alloc(struct world * w, struct ggml_tensor * out) {
    ggml_build_forward_expand(w->graph, out);
    w->buffer = ggml_backend_alloc_ctx_tensors(w->ctx, stream);
    assert_non_null(w->buffer);
}

static void world_free(struct world * w) {
    ggml_backend_buffer_free(w->buffer);
    ggml_free(w->ctx);
}

static void * fill(struct ggml_tensor * t, uint32_t seed) { // returns a copy of its data
    void * data = calloc(1, ggml_nbytes(t) + 16);
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        put(t->type, data, i, next_value(&seed));
    }
    ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
    return data;
}

static void assert_holds(const struct ggml_tensor * t, const void * want, const char * what) {
    char * got = malloc(ggml_nbytes(t) + 1);
    ggml_backend_tensor_get(t, got, 0, ggml_nbytes(t));
    size_t size = ggml_type_size(t->type);
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        if (memcmp(got + size * (size_t) i, (const char *) want + size * (size_t) i, size) != 0) {
            uint32_t g = 0, w = 0;
            memcpy(&g, got + size * (size_t) i, size);
            memcpy(&w, (const char *) want + size * (size_t) i, size);
            fail_msg("%s: element %lld of %lld is 0x%x, not 0x%x", what, (long long) i,
                     (long long) ggml_nelements(t), g, w);
        }
    }
    free(got);
}

static void check_add(ggml_backend_t backend, enum ggml_type type, const int64_t ne[4],
                      const int64_t small[4]) {
    char what[160];
    snprintf(what, sizeof what, "%s (%lld,%lld,%lld,%lld) + (%lld,%lld,%lld,%lld)",
             ggml_type_name(type), (long long) ne[0], (long long) ne[1], (long long) ne[2],
             (long long) ne[3], (long long) small[0], (long long) small[1], (long long) small[2],
             (long long) small[3]);
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor(w.ctx, type, 4, ne);
    struct ggml_tensor * b = ggml_new_tensor(w.ctx, type, 4, small);
    struct ggml_tensor * out = ggml_add(w.ctx, a, b);
    world_alloc(&w, out);
    void * pa = fill(a, 1);
    void * pb = fill(b, 2);
    void * want = calloc(1, ggml_nbytes(out) + 1);
    for (int64_t i = 0; i < ggml_nelements(out); i++) {
        add(type, want, i, pa, pb, repeat_index(ne, small, i));
    }
    if (!ggml_backend_dev_supports_op(dev, out)) {
        fail_msg("%s is not supported", what);
    }
    ggml_backend_buffer_clear(w.buffer, 0xa5);
    ggml_backend_tensor_set(a, pa, 0, ggml_nbytes(a));
    ggml_backend_tensor_set(b, pb, 0, ggml_nbytes(b));
    for (int twice = 0; twice < 2; twice++) {
        assert_int_equal(ggml_backend_graph_compute(backend, w.graph), GGML_STATUS_SUCCESS);
        assert_holds(out, want, what);
    }
    assert_holds(a, pa, what); // inputs are only read
    assert_holds(b, pb, what);
    free(pa);
    free(pb);
    free(want);
    world_free(&w);
}

static const enum ggml_type all_types[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16,
                                           GGML_TYPE_I8,  GGML_TYPE_I16, GGML_TYPE_I32};
#define N_TYPES (sizeof all_types / sizeof all_types[0])

// ---- tests ----

static void describes_itself(void ** state) {
    (void) state;
    struct ggml_backend_dev_props props;
    ggml_backend_dev_get_props(dev, &props);
    assert_string_equal(props.name, "HSA0");
    assert_non_null(strstr(props.description, "(aie2"));
    assert_int_equal(props.type, GGML_BACKEND_DEVICE_TYPE_GPU);
    assert_true(props.memory_total > 0 && props.memory_free <= props.memory_total);
    assert_string_equal(ggml_backend_reg_name(ggml_backend_dev_backend_reg(dev)), "HSA");
    assert_string_equal(ggml_backend_name(stream), "HSA0");

    ggml_backend_buffer_type_t buft = ggml_backend_dev_buffer_type(dev);
    ggml_backend_buffer_type_t host = ggml_backend_dev_host_buffer_type(dev);
    assert_false(ggml_backend_buft_is_host(buft));
    assert_true(ggml_backend_buft_is_host(host));
    assert_true(ggml_backend_dev_supports_buft(dev, buft) &&
                ggml_backend_dev_supports_buft(dev, host));
    assert_false(ggml_backend_dev_supports_buft(dev, ggml_backend_dev_buffer_type(cpu)));
    assert_int_equal(ggml_backend_buft_get_alignment(buft), 128);
}

static void add_all_types_and_lengths(void ** state) {
    (void) state;
    static const int64_t lengths[] = {1, 2, 3, 15, 16, 17, 31, 33, 100, 1000, 1023, 4096, 5000};
    for (size_t t = 0; t < N_TYPES; t++) {
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            int64_t ne[4] = {lengths[i], 1, 1, 1};
            check_add(stream, all_types[t], ne, ne);
        }
    }
}

static void add_with_broadcast(void ** state) {
    (void) state;
    static const int64_t ne[4] = {12, 6, 4, 2};
    static const int64_t small[][4] = {{12, 6, 4, 2}, {12, 1, 1, 1}, {1, 1, 1, 1}, {1, 6, 4, 2},
                                       {4, 3, 2, 1},  {12, 6, 1, 1}, {1, 1, 4, 1}, {6, 1, 2, 2}};
    for (size_t t = 0; t < N_TYPES; t++) {
        for (size_t i = 0; i < sizeof small / sizeof small[0]; i++) {
            check_add(stream, all_types[t], ne, small[i]);
        }
    }
    check_add(stream, GGML_TYPE_I8, (int64_t[]){7, 5, 3, 2}, (int64_t[]){7, 1, 3, 1});
    check_add(stream, GGML_TYPE_F16, (int64_t[]){7, 5, 3, 2}, (int64_t[]){1, 5, 1, 2});
}

static void add_of_mixed_types(void ** state) {
    (void) state;
    static const enum ggml_type halves[] = {GGML_TYPE_F16, GGML_TYPE_BF16};
    for (int k = 0; k < 2; k++) {
        struct world w = world_new();
        struct ggml_tensor * a = ggml_new_tensor_2d(w.ctx, halves[k], 33, 5);
        struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 33, 1);
        struct ggml_tensor * half = ggml_add(w.ctx, a, b);
        struct ggml_tensor * full = ggml_add_cast(w.ctx, a, b, GGML_TYPE_F32);
        ggml_build_forward_expand(w.graph, half);
        world_alloc(&w, full);
        uint16_t * pa = fill(a, 3);
        float * pb = fill(b, 4);
        float want[165];
        uint16_t rounded[165];
        for (int i = 0; i < 165; i++) {
            float v;
            ggml_get_type_traits(halves[k])->to_float(&pa[i], &v, 1);
            want[i] = v + pb[i % 33];
            ggml_get_type_traits(halves[k])->from_float_ref(&want[i], &rounded[i], 1);
        }
        assert_true(ggml_backend_dev_supports_op(dev, half) &&
                    ggml_backend_dev_supports_op(dev, full));
        assert_int_equal(ggml_backend_graph_compute(stream, w.graph), GGML_STATUS_SUCCESS);
        assert_holds(half, rounded, "half + f32 -> half");
        assert_holds(full, want, "half + f32 -> f32");
        free(pa);
        free(pb);
        world_free(&w);
    }
}

// A result inside a larger tensor: what lies around it stays.
static void add_into_views(void ** state) {
    (void) state;
    for (size_t t = 0; t < N_TYPES; t++) {
        for (int64_t offset = 0; offset < 5; offset++) {
            enum ggml_type type = all_types[t];
            size_t size = ggml_type_size(type);
            struct world w = world_new();
            struct ggml_tensor * whole = ggml_new_tensor_1d(w.ctx, type, 100);
            struct ggml_tensor * part = ggml_view_1d(w.ctx, whole, 37, (size_t) offset * size);
            struct ggml_tensor * b = ggml_new_tensor_1d(w.ctx, type, 37);
            struct ggml_tensor * out = ggml_add_inplace(w.ctx, part, b);
            world_alloc(&w, out);
            char * pw = fill(whole, 5);
            void * pb = fill(b, 6);
            char * want = calloc(1, ggml_nbytes(whole));
            memcpy(want, pw, ggml_nbytes(whole));
            for (int64_t i = 0; i < 37; i++) {
                add(type, want + (size_t) offset * size, i, pw + (size_t) offset * size, pb, i);
            }
            assert_int_equal(ggml_backend_graph_compute(stream, w.graph), GGML_STATUS_SUCCESS);
            assert_holds(whole, want, ggml_type_name(type));
            free(pw);
            free(pb);
            free(want);
            world_free(&w);
        }
    }
}

static void add_of_permuted_and_overlapping(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 20, 30);
    struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 30, 20);
    struct ggml_tensor * sum = ggml_add(w.ctx, ggml_transpose(w.ctx, a), b);
    struct ggml_tensor * line = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, 110);
    struct ggml_tensor * shifted = ggml_add_inplace(w.ctx, ggml_view_1d(w.ctx, line, 100, 40),
                                                    ggml_view_1d(w.ctx, line, 100, 0));
    ggml_build_forward_expand(w.graph, sum);
    world_alloc(&w, shifted);
    float *pa = fill(a, 7), *pb = fill(b, 8), *pl = fill(line, 9);
    float want[600], want_line[110];
    for (int i = 0; i < 600; i++) {
        want[i] = pa[i / 30 + 20 * (i % 30)] + pb[i];
    }
    memcpy(want_line, pl, sizeof want_line);
    for (int i = 0; i < 100; i++) {
        want_line[i + 10] = pl[i + 10] + pl[i];
    }
    assert_int_equal(ggml_backend_graph_compute(stream, w.graph), GGML_STATUS_SUCCESS);
    assert_holds(sum, want, "transposed");
    assert_holds(line, want_line, "overlapping");
    free(pa);
    free(pb);
    free(pl);
    world_free(&w);
}

static void empty_tensors(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 8, 0);
    struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 8, 1);
    struct ggml_tensor * c = ggml_add(w.ctx, b, b);
    struct ggml_tensor * copy = ggml_cpy(w.ctx, a, ggml_new_tensor_2d(w.ctx, GGML_TYPE_F16, 0, 8));
    ggml_build_forward_expand(w.graph, ggml_add(w.ctx, a, a));
    ggml_build_forward_expand(w.graph, copy);
    world_alloc(&w, c);
    float * pb = fill(b, 10);
    float want[8];
    for (int i = 0; i < 8; i++) {
        want[i] = pb[i] + pb[i];
    }
    assert_int_equal(ggml_backend_graph_compute(stream, w.graph), GGML_STATUS_SUCCESS);
    assert_holds(c, want, "beside empty ones");
    free(pb);
    world_free(&w);
}

// Each node reads the one before it, and there are more of them than may be in flight at once.
static void long_chain(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_1d(w.ctx, GGML_TYPE_I32, 40);
    struct ggml_tensor * one = ggml_new_tensor_1d(w.ctx, GGML_TYPE_I32, 40);
    struct ggml_tensor * out = a;
    for (int i = 0; i < 600; i++) {
        out = ggml_add(w.ctx, out, one);
    }
    world_alloc(&w, out);
    int32_t start[40], step[40], want[40];
    for (int i = 0; i < 40; i++) {
        start[i] = i;
        step[i] = i + 1;
        want[i] = start[i] + 600 * step[i];
    }
    ggml_backend_tensor_set(a, start, 0, sizeof start);
    ggml_backend_tensor_set(one, step, 0, sizeof step);
    assert_int_equal(ggml_backend_graph_compute(stream, w.graph), GGML_STATUS_SUCCESS);
    assert_holds(out, want, "chain");
    world_free(&w);
}

// Kernels and host copies in turn: the host must see what the kernels wrote, and the other way.
static void host_and_device_in_turn(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 6, 10);
    struct ggml_tensor * t = ggml_cont(w.ctx, ggml_transpose(w.ctx, ggml_add(w.ctx, a, a)));
    struct ggml_tensor * h = ggml_cast(w.ctx, ggml_add(w.ctx, t, t), GGML_TYPE_F16);
    struct ggml_tensor * out = ggml_add(w.ctx, h, h);
    world_alloc(&w, out);
    float * pa = fill(a, 11);
    ggml_fp16_t want[60];
    for (int i = 0; i < 60; i++) {
        want[i] = ggml_fp32_to_fp16(8 * pa[i / 10 + 6 * (i % 10)]);
    }
    assert_int_equal(ggml_backend_graph_compute(stream, w.graph), GGML_STATUS_SUCCESS);
    assert_holds(out, want, "8 a^T");
    free(pa);
    world_free(&w);
}

static void * add_on_own_stream(void * failed) {
    ggml_backend_t own = ggml_backend_dev_init(dev, NULL);
    *(bool *) failed = !own;
    for (int round = 0; own && round < 12; round++) {
        for (size_t t = 0; t < N_TYPES; t++) {
            // Both threads want the same new kernels at the same time.
            check_add(own, all_types[t], (int64_t[]){2000 + 8 * round, 2, 1, 1},
                      (int64_t[]){2000 + 8 * round, 1, 1, 1});
        }
    }
    ggml_backend_free(own);
    return NULL;
}

static void two_threads_two_streams(void ** state) {
    (void) state;
    pthread_t thread;
    bool failed[2];
    assert_int_equal(pthread_create(&thread, NULL, add_on_own_stream, &failed[0]), 0);
    add_on_own_stream(&failed[1]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(failed[0] || failed[1]);
}

static void events_and_async_copies(void ** state) {
    (void) state;
    ggml_backend_t other = ggml_backend_dev_init(dev, NULL);
    ggml_backend_event_t event = ggml_backend_event_new(dev);
    assert_non_null(other);
    assert_non_null(event);
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, 1000);
    struct ggml_tensor * out = ggml_add(w.ctx, a, a);
    struct ggml_tensor * copy = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, 1000);
    world_alloc(&w, out);
    float in[1000], got[1000];
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 1000; i++) {
            in[i] = (float) (i * (round + 1));
        }
        ggml_backend_tensor_set_async(stream, a, in, 0, sizeof in);
        assert_int_equal(ggml_backend_graph_compute_async(stream, w.graph), GGML_STATUS_SUCCESS);
        ggml_backend_event_record(event, stream);
        ggml_backend_event_wait(other, event);
        ggml_backend_tensor_copy_async(stream, other, out, copy);
        ggml_backend_tensor_get_async(other, copy, got, 0, sizeof got);
        ggml_backend_synchronize(other);
        ggml_backend_event_synchronize(event);
        for (int i = 0; i < 1000; i++) {
            assert_true(got[i] == 2 * in[i]);
        }
    }
    ggml_backend_event_free(event);
    ggml_backend_free(other);
    world_free(&w);
}

// An op that we never claimed is computed all the same, for programs that do not ask.
static void unclaimed_goes_to_the_cpu(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, 16);
    struct ggml_tensor * out = ggml_diag_mask_zero(w.ctx, ggml_add(w.ctx, a, a), 9);
    assert_false(ggml_backend_dev_supports_op(dev, out));
    world_alloc(&w, out);
    float in[16], got[16];
    for (int i = 0; i < 16; i++) {
        in[i] = (float) (i * i);
    }
    ggml_backend_tensor_set(a, in, 0, sizeof in);
    assert_int_equal(ggml_backend_graph_compute(stream, w.graph), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_get(out, got, 0, sizeof got);
    for (int i = 0; i < 16; i++) {
        assert_true(got[i] == (i <= 9 ? 2 * in[i] : 0));
    }
    world_free(&w);
    check_add(stream, GGML_TYPE_F32, (int64_t[]){16, 1, 1, 1}, (int64_t[]){16, 1, 1, 1});
}

// ggml's scheduler moves a graph between us and the CPU.
static void scheduled_with_the_cpu(void ** state) {
    (void) state;
    ggml_backend_t on_cpu = ggml_backend_dev_init(cpu, NULL);
    assert_non_null(on_cpu);
    ggml_backend_t backends[2] = {stream, on_cpu};
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, 2, 64, false, true);
    struct ggml_init_params params = {
        .mem_size = ggml_tensor_overhead() * 64 + ggml_graph_overhead(), .no_alloc = true};
    struct ggml_context * ctx = ggml_init(params);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    struct ggml_tensor * a = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 50, 4);
    struct ggml_tensor * sum = ggml_add(ctx, a, a);
    struct ggml_tensor * out = ggml_add(ctx, ggml_diag_mask_zero(ctx, sum, 20), a);
    ggml_set_input(a);
    ggml_set_output(out);
    ggml_build_forward_expand(graph, out);
    ggml_backend_sched_set_tensor_backend(sched, sum,
                                          stream); // nothing else draws a graph of inputs to us
    ggml_backend_sched_set_tensor_backend(sched, out, stream);
    assert_true(ggml_backend_sched_alloc_graph(sched, graph));
    assert_int_equal(ggml_backend_sched_get_n_splits(sched), 3);
    float * pa = fill(a, 13);
    float want[200];
    for (int i = 0; i < 200; i++) {
        want[i] = (i % 50 <= 20 + i / 50 ? pa[i] + pa[i] : 0) + pa[i];
    }
    assert_int_equal(ggml_backend_sched_graph_compute(sched, graph), GGML_STATUS_SUCCESS);
    assert_holds(out, want, "scheduled");
    free(pa);
    ggml_backend_sched_free(sched);
    ggml_free(ctx);
    ggml_backend_free(on_cpu);
}

static void counts_what_it_did(void ** state) {
    (void) state;
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(dev);
    ggml_backend_hsa_get_stats_t get_stats;
    ggml_backend_hsa_get_counters_t get_counters;
    void * stats_address = ggml_backend_reg_get_proc_address(reg, "ggml_backend_hsa_get_stats");
    void * counters_address =
        ggml_backend_reg_get_proc_address(reg, "ggml_backend_hsa_get_counters");
    assert_non_null(stats_address);
    assert_non_null(counters_address);
    memcpy(&get_stats, &stats_address, sizeof get_stats);
    memcpy(&get_counters, &counters_address, sizeof get_counters);
    assert_null(ggml_backend_reg_get_proc_address(reg, "ggml_backend_hsa_nothing"));

    struct ggml_backend_hsa_stats before, after;
    struct ggml_backend_hsa_counters c;
    assert_true(get_stats(dev, &before));
    check_add(stream, GGML_TYPE_F32, (int64_t[]){777, 1, 1, 1},
              (int64_t[]){777, 1, 1, 1}); // computes twice
    assert_true(get_stats(dev, &after));
    assert_int_equal(after.dispatches - before.dispatches, 2);
    assert_int_equal(
        after.kernels_compiled + after.pack_hits - before.kernels_compiled - before.pack_hits, 1);
    assert_int_equal(after.memory_hits - before.memory_hits, 1);
    assert_false(get_stats(cpu, &after));
    if (get_counters(dev, &c)) {
        assert_true(c.cycles > 0 && c.dispatches > 0 && c.pdi_loads > 0);
        ggml_backend_hsa_get_account_t get_account;
        void * address = ggml_backend_reg_get_proc_address(reg, "ggml_backend_hsa_get_account");
        assert_non_null(address);
        memcpy(&get_account, &address, sizeof get_account);
        struct ggml_backend_hsa_account a = {.size = sizeof a};
        assert_true(get_account(dev, &a));
        assert_int_equal(a.dispatches, c.dispatches);
        assert_int_equal(a.cycles, c.cycles);
        assert_true(a.ns > 0 && a.mhz > 0 && *a.clock);
        assert_false(get_account(cpu, &a));
        a.size = 1;
        assert_false(get_account(dev, &a));
    }
}

static void buffers_too_large(void ** state) {
    (void) state;
    assert_null(
        ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(dev), (size_t) 1 << 60));
    assert_null(ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(dev), SIZE_MAX - 8));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(describes_itself),
        cmocka_unit_test(add_all_types_and_lengths),
        cmocka_unit_test(add_with_broadcast),
        cmocka_unit_test(add_of_mixed_types),
        cmocka_unit_test(add_into_views),
        cmocka_unit_test(add_of_permuted_and_overlapping),
        cmocka_unit_test(empty_tensors),
        cmocka_unit_test(long_chain),
        cmocka_unit_test(host_and_device_in_turn),
        cmocka_unit_test(two_threads_two_streams),
        cmocka_unit_test(events_and_async_copies),
        cmocka_unit_test(unclaimed_goes_to_the_cpu),
        cmocka_unit_test(scheduled_with_the_cpu),
        cmocka_unit_test(counts_what_it_did),
        cmocka_unit_test(buffers_too_large),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
