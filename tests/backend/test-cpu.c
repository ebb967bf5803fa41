// test-cpu: rows that the host quantizes are those of the CPU backend that the process has, byte by
// byte, also when it is loaded late, unloaded, and loaded again. The reference is that backend
// itself, asked through ggml's public interface for the same copy. Without one they are those of
// ggml's own reference.
#include "base/cmocka-all.h"

#include "backend/cpu.h"
#include "backend/npu/host-ops.h"

#include "ggml-backend.h"

enum { N = 256, ROWS = 8 };

static const enum ggml_type floats[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16};

// What rounds differently wherever it can: halves of the step that q8_0 has in most of these rows,
// both signs, steps that are no power of two. No row of zeros: of such a block some types leave
// anything behind a scale of zero.
static float number(int64_t i) {
    int64_t row = i / N % ROWS, k = i % N;
    static const float steps[ROWS] = {1, 0.5f, 2, 0.25f, 0.0078125f, 0.013f, 3.7f, 1000};
    float sign = k % 3 ? 1.0f : -1.0f;
    return sign * steps[row] * (k % 32 == 7 ? 127.0f : (float) (k * 37 % 253) / 2.0f);
}

static void fill(struct ggml_tensor * t) {
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        float v = number(i);
        if (t->type == GGML_TYPE_F32) {
            ((float *) t->data)[i] = v;
        } else if (t->type == GGML_TYPE_F16) {
            ((ggml_fp16_t *) t->data)[i] = ggml_fp32_to_fp16(v);
        } else {
            ((ggml_bf16_t *) t->data)[i] = ggml_fp32_to_bf16(v);
        }
    }
}

static struct ggml_context * context(void) {
    struct ggml_init_params params = {.mem_size = 4 << 20, .mem_buffer = NULL, .no_alloc = false};
    struct ggml_context * ctx = ggml_init(params);
    assert_non_null(ctx);
    return ctx;
}

static void compute_on_cpu(struct ggml_context * ctx, struct ggml_tensor * node) {
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, node);
    ggml_backend_t cpu = ggml_backend_dev_init(cpu_device(), NULL);
    assert_non_null(cpu);
    assert_int_equal(ggml_backend_graph_compute(cpu, graph), GGML_STATUS_SUCCESS);
    ggml_backend_free(cpu);
}

// As ggml's reference makes them, from the same floats.
static void compute_by_reference(const struct ggml_tensor * src, struct ggml_tensor * dst) {
    float row[N];
    for (int64_t r = 0; r < ROWS; r++) {
        const char * from = (const char *) src->data + (size_t) r * src->nb[1];
        if (src->type == GGML_TYPE_F32) {
            memcpy(row, from, sizeof row);
        } else {
            ggml_get_type_traits(src->type)->to_float(from, row, N);
        }
        ggml_get_type_traits(dst->type)->from_float_ref(
            row, (char *) dst->data + (size_t) r * dst->nb[1], N);
    }
}

static void assert_same(const struct ggml_tensor * src, const struct ggml_tensor * got,
                        const struct ggml_tensor * want, const char * what) {
    for (size_t i = 0; i < ggml_nbytes(want); i++) {
        int a = ((const uint8_t *) got->data)[i], b = ((const uint8_t *) want->data)[i];
        if (a != b) {
            fail_msg("%s of %s to %s: byte %zu is %d, not %d", what, ggml_type_name(src->type),
                     ggml_type_name(got->type), i, a, b);
        }
    }
}

// Every copy and every SET_ROWS from floats to a quantized type; returns how many.
static int compare_all(bool with_cpu) {
    int n = 0;
    for (int t = 0; t < GGML_TYPE_COUNT; t++) {
        for (int s = 0; s < 3 && host_can_quantize_to((enum ggml_type) t); s++, n++) {
            struct ggml_context * ctx = context();
            struct error err = {0};
            struct ggml_tensor * src = ggml_new_tensor_2d(ctx, floats[s], N, ROWS);
            struct ggml_tensor * got = ggml_new_tensor_2d(ctx, (enum ggml_type) t, N, ROWS);
            struct ggml_tensor * want = ggml_new_tensor_2d(ctx, (enum ggml_type) t, N, ROWS);
            fill(src);
            struct view from = view_of(src), to = view_of(got);
            assert_true(host_can_copy(src, got));
            assert_int_equal(host_copy(&from, &to, &err), ST_OK);
            struct ggml_tensor * node = ggml_cpy(ctx, src, want);
            if (!with_cpu) {
                compute_by_reference(src, want);
            } else if (ggml_backend_dev_supports_op(cpu_device(), node)) {
                compute_on_cpu(ctx, node);
            } else {
                ggml_free(ctx);
                continue;
            }
            assert_same(src, got, want, "CPY");
            if (with_cpu && floats[s] == GGML_TYPE_F32) {
                struct ggml_tensor * index = ggml_new_tensor_1d(ctx, GGML_TYPE_I64, ROWS);
                for (int64_t i = 0; i < ROWS; i++) {
                    ((int64_t *) index->data)[i] = (i * 3 + 1) % ROWS;
                }
                node = ggml_set_rows(ctx, want, src, index);
                compute_on_cpu(ctx, node);
                memset(got->data, 0, ggml_nbytes(got));
                node->data = got->data;
                assert_true(host_can_set_rows(node));
                assert_int_equal(host_set_rows(node, &err), ST_OK);
                assert_same(src, got, want, "SET_ROWS");
            }
            ggml_free(ctx);
        }
    }
    return n;
}

static void without_a_cpu_backend(void ** state) {
    (void) state;
    assert_null(cpu_device());
    assert_true(compare_all(false) > 30);
}

static void with_a_cpu_backend(void ** state) {
    (void) state;
    ggml_backend_reg_t reg = ggml_backend_load(CPU_BACKEND);
    assert_non_null(reg);
    assert_non_null(cpu_device());
    // Not the reference by chance: it is a function of that library.
    assert_ptr_not_equal(cpu_from_float(GGML_TYPE_Q8_0),
                         ggml_get_type_traits(GGML_TYPE_Q8_0)->from_float_ref);
    assert_true(compare_all(true) > 30);
    ggml_backend_unload(reg);
}

static void types_that_nothing_is_made_into(void ** state) {
    (void) state;
    assert_null(cpu_from_float(GGML_TYPE_I64));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_cpu_backend),           cmocka_unit_test(with_a_cpu_backend),
        cmocka_unit_test(without_a_cpu_backend),           cmocka_unit_test(with_a_cpu_backend),
        cmocka_unit_test(types_that_nothing_is_made_into),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
