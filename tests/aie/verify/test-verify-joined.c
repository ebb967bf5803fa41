// What is sent is what was verified: kernels of ours that follow each other on one PDI are one
// stream, without descriptors that stand already and with patches that name other operands. Such a
// stream passes the verifier with the operands of each of its kernels as bounds, and with one of
// them a word shorter it does not.
#include "aie/verify/verify.h"

#include "aie/plan/join.h"
#include "aie/tune/every-kernel.h"
#include "base/cmocka-all.h"
#include "random-spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 8, RANDOM = 300, MOST = 4096, OPERANDS = LENGTH * VERIFY_KERNEL_OPERANDS };

struct kernel {
    struct kernel_spec spec;
    char program[KERNEL_NAME_MAX];
    uint32_t * insts;
    size_t n;
    bool used;
};

static struct kernel kernels[MOST];
static int n_kernels;
static int joined, refused, left_out;

static void take(void * user, const struct kernel_spec * spec) {
    (void) user;
    assert_true(n_kernels < MOST);
    struct kernel * k = &kernels[n_kernels];
    *k = (struct kernel){.spec = *spec};
    if (aie_supports(spec, NULL) == ST_OK &&
        aie_compile_insts(spec, &k->insts, &k->n, NULL) == ST_OK) {
        aie_program_name(spec, k->program);
        n_kernels++;
    }
}

// The next ones on the same PDI, not used so far.
static int chain_of(int first, struct kernel * chain[LENGTH]) {
    int n = 0;
    for (int i = first; i < n_kernels && n < LENGTH; i++) {
        const struct kernel_spec *a = &kernels[first].spec, *b = &kernels[i].spec;
        if (!kernels[i].used && a->arch == b->arch && a->columns == b->columns &&
            !strcmp(kernels[first].program, kernels[i].program)) {
            kernels[i].used = true;
            chain[n++] = &kernels[i];
        }
    }
    return n;
}

static void check(struct kernel ** chain, int n, const uint8_t * pdi, size_t pdi_size) {
    struct aie_stream_part parts[LENGTH];
    struct verify_operand operands[OPERANDS];
    struct aie_joined all;
    int base[LENGTH], n_operands = 0;
    size_t words = 0;
    struct error err = {0};
    for (int i = 0; i < n; i++) {
        base[i] = n_operands;
        n_operands += aie_verify_operands(&chain[i]->spec, operands + n_operands);
        parts[i] = (struct aie_stream_part){.insts = chain[i]->insts,
                                            .n_words = chain[i]->n,
                                            .n_operands = n_operands - base[i],
                                            .ready = UINT32_MAX}; // each has its own
        words += chain[i]->n;
    }
    if (aie_stream_join(parts, n, &all, &err) != ST_OK) {
        fail_msg("%s: %s", chain[0]->program, err.text);
    }
    left_out += (int) (words - all.n_words);
    for (size_t i = 0; i < all.n_aims; i++) {
        const struct txn_aim * a = &all.aims[i];
        uint32_t size;
        txn_aim(all.insts, a, base[a->part] + a->operand, a->byte_offset, &size);
    }
    struct verify_job job = {.arch = chain[0]->spec.arch,
                             .columns = chain[0]->spec.columns,
                             .pdi = pdi,
                             .pdi_size = pdi_size,
                             .insts = (const uint8_t *) all.insts,
                             .insts_size = 4 * all.n_words,
                             .operands = operands,
                             .n_operands = n_operands,
                             .own = true};
    if (aie_verify(&job, &err) != ST_OK) {
        fail_msg("%d kernels of %s on %s: %s", n, chain[0]->program, kernel_arch_name(job.arch),
                 err.text);
    }
    joined += n;
    for (int i = 0; i < n; i++) { // results that are written to their ends
        struct verify_operand * out = &operands[i + 1 < n ? base[i + 1] - 1 : n_operands - 1];
        if (kernel_op_info(chain[i]->spec.op)->family <= KERNEL_CONVERSION) {
            uint64_t bytes = out->bytes;
            out->bytes = (bytes + 3) / 4 * 4 - 4;
            assert_int_equal(aie_verify(&job, &err), ST_CORRUPT);
            assert_non_null(strstr(err.text, "of operand"));
            out->bytes = bytes;
            refused++;
        }
    }
    aie_joined_free(&all);
    parts[n - 1].foreign = true; // which is sent as it was verified, or not at all
    assert_int_equal(aie_stream_join(parts, n, &all, &err), ST_UNSUPPORTED);
    parts[n - 1].foreign = false;
    parts[n - 1].n_operands = 1; // and each names an output behind its first operand
    assert_int_equal(aie_stream_join(parts, n, &all, &err), ST_CORRUPT);
}

static void test_joined(void ** state) {
    (void) state;
    for (int arch = 0; arch < AIE_ARCH_COUNT; arch++) {
        every_arch = (enum aie_arch) arch;
        visit_all(take, NULL);
    }
    for (uint64_t i = 0; i < RANDOM; i++) {
        struct kernel_spec spec = random_spec(i);
        take(NULL, &spec);
    }
    int chains = 0;
    for (int i = 0; i < n_kernels; i++) {
        struct kernel * chain[LENGTH];
        int n = kernels[i].used ? 0 : chain_of(i, chain);
        uint8_t * pdi = NULL;
        size_t size;
        if (n > 1) {
            assert_int_equal(aie_compile_pdi(&kernels[i].spec, &pdi, &size, NULL), ST_OK);
        }
        for (; n > 1; n = chain_of(i, chain), chains++) { // all that are on it
            check(chain, n, pdi, size);
        }
        free(pdi);
    }
    printf("%d kernels in %d streams pass, without %d words of theirs; %d are refused for a result "
           "that is a word shorter\n",
           joined, chains, left_out, refused);
    assert_true(joined > 100 && refused > 50 && left_out > 0);
    for (int i = 0; i < n_kernels; i++) {
        free(kernels[i].insts);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_joined)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
