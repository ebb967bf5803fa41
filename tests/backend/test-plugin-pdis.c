// test-plugin-pdis: more PDIs than ROCr 7.2 keeps in the life of a process. Ours are too few for
// that, so a pack brings one PDI for each of 40 lengths, all different by a word that nobody reads.
// What comes behind the last one that is kept is computed on the CPU, also where a node writes over
// its own input. Every result is compared with that of the CPU backend. No memory is given to
// kernels that nobody uses: what such a runtime remembers must stay all the same.
//
// With the word "dropped" on a runtime without that limit, where all of them run, and each goes
// from the device before the next comes, which may get its address.
#include "aie/aie.h"
#include "aie/image/image.h"

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

enum { LENGTHS = 40, KEPT = 32, UNREAD = 0x7f0 }; // the address lies behind an op's parameters

static bool dropped;
static ggml_backend_t npu, cpu;
static char home[] = "/tmp/test-pdis-XXXXXX";

static int length(int i) {
    return 96 + 32 * i;
}

// ---- the pack ----

static bool copy(void * user, const struct image_command * c) {
    struct cdo * to = user;
    if (c->op == IMAGE_WRITE) {
        cdo_write(to, c->addr, c->value);
    } else if (c->op == IMAGE_MASK_WRITE) {
        cdo_mask_write(to, c->addr, c->mask, c->value);
    } else if (c->op == IMAGE_BLOCK_WRITE) {
        uint32_t * words = malloc(4 * (size_t) c->n_words);
        for (uint32_t i = 0; i < c->n_words; i++) {
            words[i] = load_u32(c->data + 4 * i);
        }
        cdo_block_write(to, c->addr, words, c->n_words);
        free(words);
    }
    return true;
}

static bool put(const char * name, const char * suffix, const void * data, size_t size) {
    char path[KERNEL_NAME_MAX + 64];
    snprintf(path, sizeof path, "%s/aie2/%s%s", home, name, suffix);
    FILE * f = fopen(path, "wb");
    bool ok = f && fwrite(data, 1, size, f) == size;
    return f && fclose(f) == 0 && ok;
}

static bool put_kernel(int i) {
    struct kernel_spec spec = {.op = KERNEL_OP_SQR, .arch = AIE_ARCH_AIE2, .n_inputs = 1};
    spec.inputs[0] = spec.output = tensor_contiguous(DTYPE_F32, (int64_t[]){length(i), 1, 1, 1});
    uint8_t *pdi, *other;
    uint32_t * insts;
    size_t size, n;
    char name[KERNEL_NAME_MAX];
    struct cdo c;
    kernel_name(&spec, name);
    cdo_begin(&c);
    cdo_write(&c, image_addr(0, 2, UNREAD), (uint32_t) i);
    bool ok = aie_compile_pdi(&spec, &pdi, &size, NULL) == ST_OK &&
              pdi_read(pdi, size, copy, &c, NULL) == ST_OK &&
              pdi_write(&c, 1, &other, &size, NULL) == ST_OK &&
              aie_compile_insts(&spec, &insts, &n, NULL) == ST_OK &&
              put(name, ".pdi", other, size) && put(name, "_insts.bin", insts, 4 * n);
    cdo_free(&c);
    if (ok) {
        free(pdi);
        free(other);
        free(insts);
    }
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
    for (int i = 0; i < LENGTHS; i++) {
        if (!put_kernel(i)) {
            return -1;
        }
    }
    setenv("GGML_HSA_KERNEL_DIR", home, 1);
    setenv("GGML_HSA_EMULATE", "aie2", 1);
    setenv("GGML_HSA_EMU_ROCR_BUGS", dropped ? "0" : "1", 1);
    setenv("GGML_HSA_KERNEL_MEMORY", "0", 1);
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
    for (int i = 0; i < LENGTHS; i++) {
        struct kernel_spec spec = {.op = KERNEL_OP_SQR, .arch = AIE_ARCH_AIE2, .n_inputs = 1};
        spec.inputs[0] = spec.output =
            tensor_contiguous(DTYPE_F32, (int64_t[]){length(i), 1, 1, 1});
        char name[KERNEL_NAME_MAX], path[KERNEL_NAME_MAX + 64];
        kernel_name(&spec, name);
        for (int f = 0; f < 2; f++) {
            snprintf(path, sizeof path, "%s/aie2/%s%s", home, name, f ? ".pdi" : "_insts.bin");
            unlink(path);
        }
    }
    char dir[64];
    snprintf(dir, sizeof dir, "%s/aie2", home);
    rmdir(dir);
    return rmdir(home);
}

// ---- the nodes ----

static void compute(ggml_backend_t backend, int n, float * out) {
    struct ggml_init_params params = {16 * ggml_tensor_overhead() + ggml_graph_overhead(), NULL,
                                      true};
    struct ggml_context * ctx = ggml_init(params);
    struct ggml_tensor * x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, n);
    struct ggml_tensor * y = ggml_sqr_inplace(ctx, x);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    assert_true(ggml_backend_supports_op(backend, y));
    ggml_build_forward_expand(graph, y);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    assert_non_null(buffer);
    for (int i = 0; i < n; i++) {
        out[i] = sinf((float) (i * 7 + n)) * 3;
    }
    ggml_backend_tensor_set(x, out, 0, ggml_nbytes(x));
    assert_int_equal(ggml_backend_graph_compute(backend, graph), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_get(y, out, 0, ggml_nbytes(y));
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

static void beyond_the_last_pdi(void ** state) {
    (void) state;
    static float got[96 + 32 * LENGTHS], want[96 + 32 * LENGTHS];
    for (int turn = 0; turn < 2 * LENGTHS; turn++) {
        int i = turn % LENGTHS;
        compute(npu, length(i), got);
        compute(cpu, length(i), want);
        for (int k = 0; k < length(i); k++) {
            if (!(fabsf(got[k] - want[k]) <= 1e-4f * fabsf(want[k]) + 1e-6f)) {
                fail_msg("length %d, element %d: %g instead of %g", length(i), k, (double) got[k],
                         (double) want[k]);
            }
        }
    }
    struct ggml_backend_hsa_stats stats;
    assert_true(ggml_backend_hsa_get_stats(ggml_backend_get_device(npu), &stats));
    print_message("%d nodes, %d kernels sent, %d nodes on the CPU\n", 2 * LENGTHS,
                  (int) stats.dispatches, (int) stats.cpu_nodes);
    int kept = dropped ? LENGTHS : KEPT;
    assert_true(stats.dispatches >= (uint64_t) (2 * kept));
    assert_int_equal(stats.cpu_nodes, 2 * (LENGTHS - kept));
    // A PDI that went is taken from its pack again, and so is its kernel.
    assert_true(stats.pack_hits >= (uint64_t) (2 * kept));
}

int main(int argc, char ** argv) {
    dropped = argc > 1 && !strcmp(argv[1], "dropped");
    const struct CMUnitTest tests[] = {cmocka_unit_test(beyond_the_last_pdi)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
