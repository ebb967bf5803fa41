// test-joined: what the NPU really gets passes the verifier. A small graph is computed on each
// chip, twice, the second time at other addresses; every dispatch is taken on its way into the
// queue, with its PDI, its instruction stream (of several kernels, joined, aimed at windows of
// memory, without descriptors that stand already) and its operands as they are sent. With any of
// these operands one word long the verifier refuses the stream, so that it does look. And of what a
// kernel reads nothing that one before it writes is called ready to be read early.
#include "backend/backend.h"
#include "base/cmocka-all.h"

#include "aie/plan/join.h"
#include "aie/verify/verify.h"
#include "ggml-alloc.h"

#include <sys/wait.h>
#include <unistd.h>

enum { N = 64, LAYERS = 3, KERNELS = 5 * LAYERS + 1 };

static enum aie_arch arch;
static int streams, joined_words, longest, refused, chains, early;
static char failure[600];

enum status __real_hsac_queue_dispatch(struct hsac_queue * q, const struct hsac_dispatch * d,
                                       struct error * err);
enum status __wrap_hsac_queue_dispatch(struct hsac_queue * q, const struct hsac_dispatch * d,
                                       struct error * err);

static enum status verify(const struct hsac_dispatch * d, int shortened, struct error * err) {
    struct verify_operand operands[HSAC_MAX_OPERANDS];
    for (int i = 0; i < d->n_operands; i++) {
        operands[i] =
            (struct verify_operand){i == shortened ? 4 : d->operands[i].size, VERIFY_BOTH};
    }
    return aie_verify(&(struct verify_job){.arch = arch,
                                           .pdi = d->pdi,
                                           .pdi_size = d->pdi_size,
                                           .insts = d->insts,
                                           .insts_size = 4 * (size_t) d->n_insts,
                                           .operands = operands,
                                           .n_operands = d->n_operands,
                                           .own = true},
                      err);
}

enum status __wrap_hsac_queue_dispatch(struct hsac_queue * q, const struct hsac_dispatch * d,
                                       struct error * err) {
    struct error why = {0};
    if (verify(d, -1, &why) != ST_OK && !failure[0]) {
        snprintf(failure, sizeof failure, "%.500s", why.text);
    }
    streams++;
    joined_words += (int) d->n_insts;
    longest = (int) d->n_insts > longest ? (int) d->n_insts : longest;
    for (int i = 0; i < d->n_operands; i++) {
        refused += verify(d, i, &why) == ST_CORRUPT;
    }
    return __real_hsac_queue_dispatch(q, d, err);
}

enum status __real_aie_stream_join(const struct aie_stream_part * parts, int n,
                                   struct aie_joined * out, struct error * err);
enum status __wrap_aie_stream_join(const struct aie_stream_part * parts, int n,
                                   struct aie_joined * out, struct error * err);

// Norm, products, SILU, MUL, ADD: weights are ready, and x of the first layer is.
static uint32_t ready_of(int kernel) {
    static const uint32_t first[] = {1, 1, 0, 0, 1}, later[] = {0, 1, 0, 0, 0};
    return kernel == KERNELS - 1 ? 0 : (kernel < 5 ? first : later)[kernel % 5];
}

enum status __wrap_aie_stream_join(const struct aie_stream_part * parts, int n,
                                   struct aie_joined * out, struct error * err) {
    chains++;
    early += n != KERNELS;
    for (int i = 0; i < n; i++) {
        early += parts[i].ready != ready_of(i);
    }
    return __real_aie_stream_join(parts, n, out, err);
}

// Norms, gates, sums and products of few rows, two of them as one: all of it runs on the decoder's
// PDI.
static struct ggml_tensor * layers(struct ggml_context * ctx, struct ggml_tensor * x,
                                   struct ggml_tensor * w, struct ggml_tensor * v) {
    for (int i = 0; i < LAYERS; i++) {
        struct ggml_tensor * n = ggml_rms_norm(ctx, x, 1e-5f);
        struct ggml_tensor *gate = ggml_mul_mat(ctx, w, n), *up = ggml_mul_mat(ctx, v, n);
        x = ggml_add(ctx, x, ggml_mul(ctx, ggml_silu(ctx, gate), up));
    }
    return ggml_soft_max(ctx, x);
}

static int compute(ggml_backend_dev_t dev, ggml_backend_t stream, int before) {
    struct ggml_context * ctx = ggml_init((struct ggml_init_params){
        .mem_size = 64 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true});
    for (int i = 0; i < before; i++) { // which moves the rest
        ggml_new_tensor_1d(ctx, GGML_TYPE_F32, N);
    }
    struct ggml_tensor * x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, N, 4);
    struct ggml_tensor * w = ggml_new_tensor_2d(ctx, GGML_TYPE_BF16, N, N);
    struct ggml_tensor * v = ggml_new_tensor_2d(ctx, GGML_TYPE_BF16, N, N);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, layers(ctx, x, w, v));
    ggml_backend_buffer_t buffer =
        ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_dev_buffer_type(dev));
    ggml_backend_buffer_clear(buffer, 0x3c); // small numbers, of either type
    int rc = ggml_backend_graph_compute(stream, graph) == GGML_STATUS_SUCCESS ? 0 : 1;
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    return rc;
}

static int run(enum aie_arch on) {
    arch = on;
    setenv("GGML_HSA_EMULATE", kernel_arch_name(on), 1);
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 1);
    ggml_backend_load(CPU_BACKEND);
    ggml_backend_reg_t reg = ggml_backend_hsa_reg();
    ggml_backend_dev_t dev = reg ? ggml_backend_reg_dev_get(reg, 0) : NULL;
    ggml_backend_t stream = dev ? ggml_backend_dev_init(dev, NULL) : NULL;
    if (!stream) {
        return 10;
    }
    int rc = compute(dev, stream, 0);
    rc = rc ? rc : compute(dev, stream, 1);
    struct ggml_backend_hsa_stats stats;
    ggml_backend_hsa_get_stats(dev, &stats);
    int kernels = (int) stats.dispatches;
    printf("%s: %d kernels in %d streams of %d words, the longest %d; %d refused\n",
           kernel_arch_name(on), kernels, streams, joined_words, longest, refused);
    if (failure[0]) {
        printf("%s\n", failure);
    }
    fflush(stdout);
    // Several kernels went in one stream, and each stream had an operand that is longer than a
    // word.
    bool looked = streams > 0 && kernels > 2 * streams && refused >= streams;
    if (!chains || early) {
        printf("%s: %d chains, %d kernels of which are wrong about what is ready\n",
               kernel_arch_name(on), chains, early);
        fflush(stdout);
        return 13;
    }
    return rc ? rc : failure[0] ? 11 : looked ? 0 : 12;
}

static void test_joined(void ** state) {
    (void) state;
    for (int i = 0; i < AIE_ARCH_COUNT; i++) { // a device is opened once in a process
        int status = 0;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            _exit(run((enum aie_arch) i));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_joined)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
