// test-plugin-foreign: a kernel of somebody else beside ours on equal programs. A pack brings ABS
// with our own PDI and a stream that passes the verifier and computes ABS, but leaves the locks of
// a core as no kernel of ours expects them. What is computed behind it by kernels of ours must be
// right, in the same graph and in the next; and a stream of ours from a pack is one of ours.
#include "aie/aie.h"
#include "aie/image/image.h"
#include "aie/verify/verify.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-hsa.h"

enum { N = 1024, WRITE_WORDS = 6, LOCKS = 16 };

static ggml_backend_t npu;
static char home[] = "/tmp/test-foreign-XXXXXX";

static struct kernel_spec spec_of(enum kernel_op op) {
    struct kernel_spec spec = {.op = op, .arch = AIE_ARCH_AIE2, .n_inputs = 1};
    spec.inputs[0] = spec.output = tensor_contiguous(DTYPE_F32, (int64_t[]){N, 1, 1, 1});
    return spec;
}

// ---- the pack ----

static void path_of(enum kernel_op op, const char * suffix, char path[], size_t size) {
    struct kernel_spec spec = spec_of(op);
    char name[KERNEL_NAME_MAX];
    kernel_name(&spec, name);
    snprintf(path, size, "%s/aie2/%s%s", home, name, suffix);
}

static bool put(enum kernel_op op, const char * suffix, const void * data, size_t size) {
    char path[KERNEL_NAME_MAX + 64];
    path_of(op, suffix, path, sizeof path);
    FILE * f = fopen(path, "wb");
    bool ok = f && fwrite(data, 1, size, f) == size;
    return f && fclose(f) == 0 && ok;
}

// The kernel as our compiler makes it; `spoiled`: with writes behind its end to every lock of a
// core.
static bool put_kernel(enum kernel_op op, bool spoiled) {
    struct kernel_spec spec = spec_of(op);
    struct kernel_code code;
    struct error err = {0};
    if (aie_compile(&spec, &code, &err) != ST_OK) {
        return false;
    }
    uint32_t * insts = malloc(4 * (code.n_insts + LOCKS * WRITE_WORDS));
    size_t n = code.n_insts;
    memcpy(insts, code.insts, 4 * n);
    for (uint32_t lock = 0; lock < LOCKS && spoiled; lock++, n += WRITE_WORDS) {
        const uint32_t op_words[WRITE_WORDS] = {
            0, 0, image_addr(0, ARRAY_ROW_CORE, CORE_LOCK + 0x10 * lock), 0, 5, 4 * WRITE_WORDS};
        memcpy(insts + n, op_words, sizeof op_words);
        insts[2]++;
        insts[3] += 4 * WRITE_WORDS;
    }
    bool passes = aie_verify_files(&spec, code.pdi, code.pdi_size, (const uint8_t *) insts, 4 * n,
                                   &err) == ST_OK;
    bool ok =
        passes && put(op, ".pdi", code.pdi, code.pdi_size) && put(op, "_insts.bin", insts, 4 * n);
    free(insts);
    kernel_code_free(&code);
    return ok;
}

static int setup(void ** state) {
    (void) state;
    char dir[64];
    if (!mkdtemp(home)) {
        return -1;
    }
    snprintf(dir, sizeof dir, "%s/aie2", home);
    mkdir(dir, 0700);
    if (!put_kernel(KERNEL_OP_ABS, true) || !put_kernel(KERNEL_OP_SQR, false)) {
        return -1;
    }
    setenv("GGML_HSA_KERNEL_DIR", home, 1);
    setenv("GGML_HSA_EMULATE", "aie2", 1);
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 0);
    if (!ggml_backend_load(PLUGIN)) {
        return -1;
    }
    npu = ggml_backend_dev_init(ggml_backend_dev_by_name("HSA0"), NULL);
    return npu ? 0 : -1;
}

static int teardown(void ** state) {
    (void) state;
    static const enum kernel_op ops[] = {KERNEL_OP_ABS, KERNEL_OP_SQR};
    char path[KERNEL_NAME_MAX + 64];
    ggml_backend_free(npu);
    for (int i = 0; i < 4; i++) {
        path_of(ops[i / 2], i % 2 ? ".pdi" : "_insts.bin", path, sizeof path);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/aie2", home);
    rmdir(path);
    return rmdir(home);
}

// ---- graphs ----

// Functions of f32, one after the other.
typedef struct ggml_tensor * (*function)(struct ggml_context *, struct ggml_tensor *);

static void compute(const function * functions, int n, float (*want)(float), const char * what) {
    struct ggml_init_params params = {16 * ggml_tensor_overhead() + ggml_graph_overhead(), NULL,
                                      true};
    struct ggml_context * ctx = ggml_init(params);
    struct ggml_tensor *x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, N), *y = x;
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    static float values[N], got[N];
    for (int i = 0; i < n; i++) {
        y = functions[i](ctx, y);
    }
    ggml_build_forward_expand(graph, y);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, npu);
    assert_non_null(buffer);
    for (int i = 0; i < N; i++) {
        values[i] = sinf((float) (i * 7 + n)) * 3;
    }
    ggml_backend_tensor_set(x, values, 0, sizeof values);
    assert_int_equal(ggml_backend_graph_compute(npu, graph), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_get(y, got, 0, sizeof got);
    for (int i = 0; i < N; i++) {
        float w = want(values[i]);
        if (!(fabsf(got[i] - w) <= 1e-4f * fabsf(w) + 1e-6f)) {
            fail_msg("%s, element %d: %g instead of %g", what, i, (double) got[i], (double) w);
        }
    }
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

static float magnitude(float x) {
    return x < 0 ? -x : x;
}

static float minus(float x) {
    return -x;
}

static float minus_abs_minus(float x) {
    return -magnitude(-x);
}

static float square(float x) {
    return x * x;
}

static void test_spoiled(void ** state) {
    (void) state;
    for (int turn = 0; turn < 2; turn++) {
        compute((function[]){ggml_neg}, 1, minus, "ours");
        compute((function[]){ggml_abs}, 1, magnitude, "the pack's");
        compute((function[]){ggml_neg}, 1, minus, "ours behind the pack's");
        compute((function[]){ggml_neg, ggml_abs, ggml_neg}, 3, minus_abs_minus, "in one graph");
    }
    struct ggml_backend_hsa_stats stats;
    assert_true(ggml_backend_hsa_get_stats(ggml_backend_get_device(npu), &stats));
    assert_true(stats.pack_hits >= 1); // it was the pack's
}

static void test_own(void ** state) {
    (void) state;
    struct ggml_backend_hsa_stats before, after;
    ggml_backend_dev_t device = ggml_backend_get_device(npu);
    compute((function[]){ggml_sqr}, 1, square, "of the pack and ours");
    compute((function[]){ggml_neg}, 1, minus, "ours");
    assert_true(ggml_backend_hsa_get_stats(device, &before));
    compute((function[]){ggml_neg, ggml_sqr}, 2, square, "of the pack and ours");
    assert_true(ggml_backend_hsa_get_stats(device, &after));
    assert_int_equal(after.packets - before.packets, 1); // joined: they share their program
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_spoiled), cmocka_unit_test(test_own)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
