// bench-client: what a dispatch to an NPU costs the host. Kernels that do nothing are sent through
// the HSA client to whatever runtime it opens: the emulated one, or AMD's ROCr on the emulated
// driver (tests/emu/accel/run.sh). Our own part is the time until the doorbell; the runtime's is
// the rest.
#include "aie/aie.h"
#include "aie/image/image.h"
#include "bench.h"
#include "hsa/hsac.h"

enum { BATCH = 32, BATCHES = 400 }; // packets, so that none rings by itself

static void must(enum status st, const struct error * err) {
    if (st != ST_OK) {
        fprintf(stderr, "bench-client: %s\n", err->text);
        exit(1);
    }
}

static void * upload(struct hsac_agent * a, enum hsac_pool pool, const void * data, size_t size) {
    void * at = hsac_alloc(a, pool, size);
    if (!at) {
        fprintf(stderr, "bench-client: no device memory\n");
        exit(1);
    }
    memcpy(at, data, size);
    return at;
}

static struct hsac_dispatch idle_kernel(struct hsac_agent * a) {
    const int64_t ne[TENSOR_DIMS] = {1024, 1, 1, 1};
    struct kernel_spec s = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    struct error err = {0};
    uint8_t * pdi;
    uint32_t * insts;
    size_t pdi_size, n;
    s.inputs[0] = s.inputs[1] = s.output = tensor_contiguous(DTYPE_F32, ne);
    must(aie_compile_pdi(&s, &pdi, &pdi_size, &err), &err);
    must(txn_idle(AIE_ARCH_AIE2, &insts, &n, &err), &err);
    void * data = hsac_alloc(a, HSAC_POOL_DATA, 4096);
    struct hsac_dispatch d = {
        .pdi = upload(a, HSAC_POOL_DEV, pdi, pdi_size),
        .pdi_size = pdi_size,
        .insts = upload(a, HSAC_POOL_STREAM, insts, 4 * n),
        .n_insts = (uint32_t) n,
        .n_operands = 3,
        .operands = {{data, 1024}, {(char *) data + 1024, 1024}, {(char *) data + 2048, 1024}},
    };
    free(pdi);
    free(insts);
    return d;
}

int main(int argc, char ** argv) {
    bench_no_arguments(argc, argv, "bench-client", "what the host pays for a dispatch");
    struct hsac * h;
    struct hsac_queue * q;
    struct error err = {0};
    static double own[BATCHES], rest[BATCHES];
    must(hsac_open(&h, &err), &err);
    struct hsac_agent * a = hsac_agent_get(h, 0);
    if (hsac_agent_kind(a) != HSAC_NPU) {
        fprintf(stderr, "bench-client: no NPU\n");
        return 1;
    }
    must(hsac_queue_new(a, &q, &err), &err);
    struct hsac_dispatch d = idle_kernel(a);
    for (int i = 0; i < BATCHES; i++) {
        double t0 = bench_seconds();
        for (int k = 0; k < BATCH; k++) {
            must(hsac_queue_dispatch(q, &d, &err), &err);
        }
        double t1 = bench_seconds();
        must(hsac_queue_wait(q, &err), &err);
        own[i] = (t1 - t0) / BATCH * 1e6;
        rest[i] = (bench_seconds() - t1) / BATCH * 1e6;
    }
    printf("%s (%s), packets of ABI %c, %d a batch, an array that does nothing\n",
           hsac_runtime_path(h), hsac_runtime_known_as(h), hsac_abi_name(h), BATCH);
    bench_head();
    bench_row("dispatch: our own code", bench_median(own, BATCHES), "us a packet", "<= 5");
    bench_row("dispatch: doorbell, runtime and driver", bench_median(rest, BATCHES), "us a packet",
              "");
    hsac_queue_free(q);
    hsac_close(h);
    return 0;
}
