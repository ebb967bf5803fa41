// test-plugin-pdis: more kinds of kernels than ROCr 7.2 keeps programs for in the life of a
// process. What comes behind the last of them is computed on the CPU, also where a node writes over
// its own input. Every result is compared with that of the CPU backend.
#include <math.h>
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

enum { ELEMENTS = 96, ROWS = 3 };

static ggml_backend_t npu, cpu;
static int refused;

static int setup(void ** state) {
    (void) state;
    setenv("GGML_HSA_EMULATE", "aie2", 1);
    setenv("GGML_HSA_EMU_ROCR_BUGS", "1", 1);
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 0);
    if (!ggml_backend_load(CPU_BACKEND) || !ggml_backend_load(PLUGIN)) {
        return -1;
    }
    npu = ggml_backend_dev_init(ggml_backend_dev_by_name("HSA0"), NULL);
    cpu = ggml_backend_dev_init(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU), NULL);
    return npu && cpu ? 0 : -1;
}

static int teardown(void ** state) {
    (void) state;
    ggml_backend_free(npu);
    ggml_backend_free(cpu);
    return 0;
}

typedef struct ggml_tensor * (*make_fn)(struct ggml_context * ctx, struct ggml_tensor * x, int op);

static struct ggml_tensor * make_unary(struct ggml_context * ctx, struct ggml_tensor * x, int op) {
    return ggml_unary_inplace(ctx, x, (enum ggml_unary_op) op);
}

static struct ggml_tensor * make_row(struct ggml_context * ctx, struct ggml_tensor * x, int op) {
    switch (op) {
    case 0:
        return ggml_rms_norm_inplace(ctx, x, 1e-6f);
    case 1:
        return ggml_norm_inplace(ctx, x, 1e-6f);
    case 2:
        return ggml_l2_norm_inplace(ctx, x, 1e-6f);
    case 3:
        return ggml_soft_max_inplace(ctx, x);
    case 4:
        return ggml_sqr_inplace(ctx, x);
    case 5:
        return ggml_scale_inplace(ctx, x, 0.5f);
    default:
        return ggml_clamp(ctx, x, -1.0f, 1.0f); // in place by itself
    }
}

// The values that the backend computes, as floats. False: it does not take the node.
static bool compute(ggml_backend_t backend, make_fn make, int op, enum ggml_type rounded,
                    enum ggml_type type, float out[ELEMENTS * ROWS]) {
    struct ggml_init_params params = {16 * ggml_tensor_overhead() + ggml_graph_overhead(), NULL,
                                      true};
    struct ggml_context * ctx = ggml_init(params);
    struct ggml_tensor * x = ggml_new_tensor_2d(ctx, type, ELEMENTS, ROWS);
    struct ggml_tensor * y = make(ctx, x, op);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    bool takes = ggml_backend_supports_op(backend, y);
    if (takes) {
        ggml_build_forward_expand(graph, y);
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
        assert_non_null(buffer);
        const struct ggml_type_traits * traits = ggml_get_type_traits(type);
        float values[ELEMENTS * ROWS];
        uint8_t bytes[ELEMENTS * ROWS * 4];
        for (int i = 0; i < ELEMENTS * ROWS; i++) {
            values[i] = sinf((float) (i * 7 + op)) * 3;
        }
        if (rounded != GGML_TYPE_F32) {
            ggml_get_type_traits(rounded)->from_float_ref(values, bytes, ELEMENTS * ROWS);
            ggml_get_type_traits(rounded)->to_float(bytes, values, ELEMENTS * ROWS);
        }
        if (type == GGML_TYPE_F32) {
            memcpy(bytes, values, sizeof values);
        }
        ggml_backend_tensor_set(x, bytes, 0, ggml_nbytes(x));
        enum ggml_status status = ggml_backend_graph_compute(backend, graph);
        // What neither device has any more is an error of the graph, and never the process's end.
        takes = status == GGML_STATUS_SUCCESS;
        assert_true(takes || (type != GGML_TYPE_F32 && status == GGML_STATUS_FAILED));
        refused += !takes;
        ggml_backend_tensor_get(y, bytes, 0, ggml_nbytes(y));
        if (type == GGML_TYPE_F32) {
            memcpy(out, bytes, sizeof values);
        } else {
            traits->to_float(bytes, out, ELEMENTS * ROWS);
        }
        ggml_backend_buffer_free(buffer);
    }
    ggml_free(ctx);
    return takes;
}

static int compare(make_fn make, int op, enum ggml_type type) {
    float got[ELEMENTS * ROWS], want[ELEMENTS * ROWS];
    if (!compute(npu, make, op, type, type, got)) {
        return 0;
    }
    assert_true(compute(cpu, make, op, type, GGML_TYPE_F32, want)); // it has all of them for f32
    double error = 0, size = 0;
    for (int i = 0; i < ELEMENTS * ROWS; i++) {
        double d = (double) got[i] - (double) want[i];
        error += isnan(got[i]) && isnan(want[i]) ? 0 : d * d;
        size += isnan(want[i]) ? 0 : (double) want[i] * (double) want[i];
    }
    if (!(error <= 1e-4 * size)) {
        fail_msg("op %d, %s: off by %g of %g", op, ggml_type_name(type), error, size);
    }
    return 1;
}

static void beyond_the_last_pdi(void ** state) {
    (void) state;
    static const enum ggml_type types[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16};
    int n = 0;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        for (int op = 0; op < GGML_UNARY_OP_COUNT; op++) {
            n +=
                op == GGML_UNARY_OP_XIELU ? 0 : compare(make_unary, op, types[t]); // has parameters
        }
        for (int op = 0; op < 7 && t == 0; op++) { // the CPU has them for f32 alone
            n += compare(make_row, op, types[t]);
        }
    }
    struct ggml_backend_hsa_stats stats;
    assert_true(ggml_backend_hsa_get_stats(ggml_backend_get_device(npu), &stats));
    print_message("%d nodes, %d kernels sent, %d nodes on the CPU, %d refused\n", n,
                  (int) stats.dispatches, (int) stats.cpu_nodes, refused);
    assert_true(stats.cpu_nodes > 0); // or there were not enough of them
    assert_true(stats.dispatches > 32);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(beyond_the_last_pdi)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
