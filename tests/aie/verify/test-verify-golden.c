// Kernels that others made: each passes with the operands that are known of it, and none passes
// when one of them is a word shorter than its transfers reach, or goes the other way. What each
// gives is printed.
#include "aie/verify/verify.h"

#include "aie/image/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 5 };

struct design {
    const char *pdi, *insts;
    enum aie_arch arch;
    struct {
        uint32_t bytes;
        uint8_t access; // 0: there are no more
        bool loose;     // its transfers do not reach its end
    } operands[MOST];
};

enum { IN = VERIFY_IN, OUT = VERIFY_OUT, BOTH = VERIFY_BOTH };

#define TWO(dir, name)    dir name ".pdi", dir name "_insts.bin"
#define AIE2_KERNEL(name) TWO(GOLDEN_DIR "/aie2-kernels/", name), AIE_ARCH_AIE2
#define AIE2_TIMED(name)  TWO(GOLDEN_DIR "/timing/aie2-phoenix/", name), AIE_ARCH_AIE2
#define AIE2P_KERNEL(name)                                                                         \
    GOLDEN_DIR "/aie2p-kernels/" name "/design.pdi",                                               \
        GOLDEN_DIR "/aie2p-kernels/" name "/insts.bin", AIE_ARCH_AIE2P

// Sizes are those of the READMEs beside the files. Of the timed ones and of aie2p-project nobody
// tells them: they are what the streams reach, so that these show only that such streams pass.
static const struct design designs[] = {
    {AIE2_KERNEL("single-add"), {{8192, IN, 0}, {8192, IN, 0}, {8192, OUT, 0}}},
    {AIE2_KERNEL("fused-add-add"), {{8192, IN, 0}, {8192, IN, 0}, {8192, IN, 0}, {8192, OUT, 0}}},
    {AIE2_KERNEL("gemm-i16-256-1core"), {{131072, IN, 0}, {131072, IN, 0}, {262144, OUT, 0}}},
    {AIE2_KERNEL("gemm-i16-512-16core"), {{524288, IN, 0}, {524288, IN, 0}, {1048576, OUT, 0}}},
    {AIE2_TIMED("gelu_2048"), {{2048, IN, 0}, {2048, OUT, 0}}},
    {AIE2_TIMED("gelu_simple"), {{512, IN, 0}, {512, OUT, 0}}},
    {AIE2_TIMED("layernorm_bf16"), {{2048, IN, 0}, {2048, OUT, 0}}},
    {AIE2_TIMED("matmul_bf16_vectorized"), {{8192, IN, 0}, {8192, IN, 0}, {8192, OUT, 0}}},
    {AIE2_TIMED("matmul_fixed"), {{512, IN, 0}, {256, OUT, 0}}},
    {AIE2_TIMED("softmax_bf16"), {{2048, IN, 0}, {2048, OUT, 0}}},
    {GOLDEN_DIR "/aie2p-project/main.pdi",
     GOLDEN_DIR "/aie2p-project/insts.bin",
     AIE_ARCH_AIE2P,
     {{512, IN, 0}, {16384, OUT, 0}}},
    {AIE2P_KERNEL("i32-add3"), {{16, BOTH, 0}}},
    {AIE2P_KERNEL("i32-copy"), {{16384, IN, 0}, {16384, OUT, 0}}},
    {AIE2P_KERNEL("i32-add1"), {{4096, IN, 0}, {4096, OUT, 0}}},
    {AIE2P_KERNEL("f32-reciprocal"), {{262144, IN, 0}, {262144, OUT, 0}}},
    {AIE2P_KERNEL("f32-square"), {{131072, IN, 0}, {131072, OUT, 0}}},
    {AIE2P_KERNEL("f32-mul"), {{131072, IN, 0}, {131072, IN, 0}, {131072, OUT, 0}}},
    {AIE2P_KERNEL("f32-div"), {{131072, IN, 0}, {131072, IN, 0}, {131072, OUT, 0}}},
    {AIE2P_KERNEL("i8-gemm-1core"), {{128 * 3072, IN, 0}, {3072 * 1024, IN, 0}, {524288, OUT, 0}}},
    {AIE2P_KERNEL("i16-gemm"), {{131072, IN, 0}, {131072, IN, 0}, {65536, OUT, 0}}},
    {AIE2P_KERNEL("bf16-gemm"), {{131072, IN, 0}, {131072, IN, 0}, {131072, OUT, 0}}},
    {AIE2P_KERNEL("bfp16-gemm"),
     {{786432, IN, 0}, {3072 * 1024 / 64 * 72, IN, 0}, {262144, OUT, 0}}},
    {AIE2P_KERNEL("flash-attention"),
     {{8192, IN, 0}, {1572864, IN, 0}, {1572864, IN, 0}, {64, IN, 1}, {8192, OUT, 0}}},
    {AIE2P_KERNEL("rmsnorm"), {{2048, IN, 0}, {2048, IN, 0}, {2048, IN, 0}, {2048, OUT, 0}}},
    {AIE2P_KERNEL("q4-gemv"), {{2048, IN, 0}, {4 * 4 * 5120, IN, 0}, {4 * 68, OUT, 0}}},
    {AIE2P_KERNEL("swiglu"), {{2048, IN, 0}, {1024, OUT, 0}}},
};

static int operands_of(const struct design * d, struct verify_operand out[MOST]) {
    int n = 0;
    for (; n < MOST && d->operands[n].access; n++) {
        out[n] = (struct verify_operand){d->operands[n].bytes,
                                         (enum verify_access) d->operands[n].access};
    }
    return n;
}

static void test_golden(void ** state) {
    (void) state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof designs / sizeof designs[0]; i++) {
        const struct design * d = &designs[i];
        struct bytes pdi = golden(d->pdi), insts = golden(d->insts);
        struct verify_operand operands[MOST];
        struct verify_job job = {.arch = d->arch,
                                 .pdi = pdi.data,
                                 .pdi_size = pdi.size,
                                 .insts = insts.data,
                                 .insts_size = insts.size,
                                 .operands = operands,
                                 .n_operands = operands_of(d, operands)};
        struct error err = {0};
        bool ok = aie_verify(&job, &err) == ST_OK;
        printf("%-60s %s\n", d->pdi + strlen(GOLDEN_DIR) + 1, ok ? "passes" : err.text);
        wrong += !ok;
        for (int k = 0; k < job.n_operands && ok; k++) {
            if (!d->operands[k].loose) {
                operands[k].bytes -= 4;
                assert_int_equal(aie_verify(&job, &err), ST_CORRUPT);
                assert_non_null(strstr(err.text, "of operand"));
                operands[k].bytes += 4;
                operands[k].access = operands[k].access == VERIFY_IN ? VERIFY_OUT : VERIFY_IN;
                assert_int_equal(aie_verify(&job, &err), ST_CORRUPT);
                operands_of(d, operands);
            }
        }
        // of the other architecture
        job.arch = d->arch == AIE_ARCH_AIE2 ? AIE_ARCH_AIE2P : AIE_ARCH_AIE2;
        assert_int_equal(aie_verify(&job, &err), ST_CORRUPT);
        free(pdi.data);
        free(insts.data);
    }
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
