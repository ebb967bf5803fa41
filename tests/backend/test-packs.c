// test-packs: the plugin with kernels from a pack that this program fills: a good one is used
// instead of the compiler, and one that reaches beyond its operands is refused: the compiler makes
// it, or without one it is a failed graph.
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "aie/aie.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-hsa.h"

static char dir[] = "/tmp/ggml-hsa-packs-XXXXXX";
static ggml_backend_dev_t dev;
static ggml_backend_t stream;

static struct kernel_spec spec_of(int64_t n) {
    int64_t ne[TENSOR_DIMS] = {n, 1, 1, 1};
    struct tensor t = tensor_contiguous(DTYPE_F32, ne);
    return (struct kernel_spec){
        .op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2, .inputs = {t, t}, .output = t};
}

static void path_of(char * path, size_t size, int64_t n, const char * suffix) {
    struct kernel_spec spec = spec_of(n);
    char name[KERNEL_NAME_MAX];
    kernel_name(&spec, name);
    snprintf(path, size, "%s/aie2/%s%s", dir, name, suffix);
}

static bool write_file(const char * path, const void * data, size_t size) {
    FILE * f = fopen(path, "wb");
    bool ok = f && fwrite(data, 1, size, f) == size;
    return f && fclose(f) == 0 && ok;
}

// Puts the kernel for `made` elements where the one for `named` is looked for.
static bool put_kernel(int64_t named, int64_t made) {
    struct kernel_spec spec = spec_of(made);
    struct kernel_code code;
    char path[512];
    if (aie_compile(&spec, &code, NULL) != ST_OK) {
        return false;
    }
    path_of(path, sizeof path, named, ".pdi");
    bool ok = write_file(path, code.pdi, code.pdi_size);
    path_of(path, sizeof path, named, "_insts.bin");
    ok = ok && write_file(path, code.insts, code.n_insts * sizeof *code.insts);
    kernel_code_free(&code);
    return ok;
}

static int setup(void ** state) {
    (void) state;
    char sub[512];
    if (!mkdtemp(dir)) {
        return -1;
    }
    snprintf(sub, sizeof sub, "%s/aie2", dir);
    if (mkdir(sub, 0700) != 0 || !put_kernel(1000, 1000) || !put_kernel(32, 1 << 20)) {
        return -1;
    }
    setenv("GGML_HSA_EMULATE", "aie2", 1);
    setenv("GGML_HSA_KERNEL_DIR", dir, 1);
    ggml_backend_reg_t reg = ggml_backend_load(PLUGIN);
    dev = reg ? ggml_backend_dev_by_name("HSA0") : NULL;
    stream = dev ? ggml_backend_dev_init(dev, NULL) : NULL;
    return stream ? 0 : -1;
}

static int teardown(void ** state) {
    (void) state;
    ggml_backend_free(stream);
    for (int i = 0; i < 4; i++) {
        char path[512];
        path_of(path, sizeof path, i % 2 ? 1000 : 32, i / 2 ? ".pdi" : "_insts.bin");
        unlink(path);
    }
    char sub[512];
    snprintf(sub, sizeof sub, "%s/aie2", dir);
    return rmdir(sub) == 0 && rmdir(dir) == 0 ? 0 : -1;
}

// Adds n numbers; the sums are checked when it succeeds.
static enum ggml_status add(int64_t n) {
    struct ggml_init_params params = {
        .mem_size = ggml_tensor_overhead() * 8 + ggml_graph_overhead(), .no_alloc = true};
    struct ggml_context * ctx = ggml_init(params);
    struct ggml_tensor * a = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, n);
    struct ggml_tensor * out = ggml_add(ctx, a, a);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, out);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, stream);
    assert_non_null(buffer);
    float * values = malloc((size_t) n * sizeof *values);
    for (int64_t i = 0; i < n; i++) {
        values[i] = (float) i;
    }
    ggml_backend_tensor_set(a, values, 0, ggml_nbytes(a));
    enum ggml_status status = ggml_backend_graph_compute(stream, graph);
    if (status == GGML_STATUS_SUCCESS) {
        ggml_backend_tensor_get(out, values, 0, ggml_nbytes(out));
        for (int64_t i = 0; i < n; i++) {
            assert_true(values[i] == (float) (2 * i));
        }
    }
    free(values);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    return status;
}

static struct ggml_backend_hsa_stats stats(void) {
    struct ggml_backend_hsa_stats s;
    ggml_backend_hsa_get_stats_t get;
    void * address = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(dev),
                                                       "ggml_backend_hsa_get_stats");
    memcpy(&get, &address, sizeof get);
    assert_true(get(dev, &s));
    return s;
}

static void pack_before_compiler(void ** state) {
    (void) state;
    assert_int_equal(add(1000), GGML_STATUS_SUCCESS);
    assert_int_equal(stats().pack_hits, 1);
    assert_int_equal(stats().kernels_compiled, 0);
}

static void faulty_kernel_is_refused(void ** state) {
    (void) state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(add(32), WITH_COMPILER ? GGML_STATUS_SUCCESS : GGML_STATUS_FAILED);
        assert_int_equal(add(1000), GGML_STATUS_SUCCESS);
        assert_int_equal(add(2000 + i), WITH_COMPILER ? GGML_STATUS_SUCCESS : GGML_STATUS_FAILED);
    }
    assert_int_equal(stats().pack_hits, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pack_before_compiler),
        cmocka_unit_test(faulty_kernel_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
