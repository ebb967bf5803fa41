// kernel: the verifier in terms of kernel specs: which operands a kernel has, and what a verdict
// that is kept is about.
#include "verify.h"

#include <string.h>

// Goes up whenever the verifier becomes stricter: what an older one passed is looked at again.
enum { VERIFIER_VERSION = 2 };

int aie_verify_operands(const struct kernel_spec * spec,
                        struct verify_operand out[VERIFY_KERNEL_OPERANDS]) {
    for (int i = 0; i <= spec->n_inputs; i++) {
        bool result = i == spec->n_inputs;
        int64_t bytes = tensor_bytes(result ? &spec->output : &spec->inputs[i]);
        out[i] = (struct verify_operand){bytes < 0 ? 0 : (uint64_t) bytes,
                                         result ? VERIFY_OUT : VERIFY_IN};
    }
    return spec->n_inputs + 1;
}

enum status aie_verify_files(const struct kernel_spec * spec, const uint8_t * pdi, size_t pdi_size,
                             const uint8_t * insts, size_t insts_size, struct error * err) {
    struct verify_operand operands[VERIFY_KERNEL_OPERANDS];
    if (spec->n_inputs < 0 || spec->n_inputs > KERNEL_MAX_INPUTS) {
        return error_set(err, ST_INVALID, "a kernel of %d inputs", spec->n_inputs);
    }
    struct verify_job job = {
        .arch = spec->arch,
        .columns = spec->columns,
        .pdi = pdi,
        .pdi_size = pdi_size,
        .insts = insts,
        .insts_size = insts_size,
        .operands = operands,
        .n_operands = aie_verify_operands(spec, operands),
    };
    return aie_verify(&job, err);
}

void aie_verify_digest(const struct kernel_spec * spec, const uint8_t pdi[SHA256_BYTES],
                       const uint8_t insts[SHA256_BYTES], uint8_t out[SHA256_BYTES]) {
    struct verify_operand operands[VERIFY_KERNEL_OPERANDS];
    int n = aie_verify_operands(spec, operands);
    uint8_t text[16 + 2 * SHA256_BYTES + 12 * VERIFY_KERNEL_OPERANDS], *p = text;
    store_u32(p, VERIFIER_VERSION);
    store_u32(p + 4, (uint32_t) spec->arch);
    store_u32(p + 8, (uint32_t) spec->columns);
    store_u32(p + 12, (uint32_t) n);
    p += 16;
    memcpy(p, pdi, SHA256_BYTES);
    memcpy(p + SHA256_BYTES, insts, SHA256_BYTES);
    p += 2 * SHA256_BYTES;
    for (int i = 0; i < n; i++, p += 12) {
        store_u32(p, (uint32_t) operands[i].bytes);
        store_u32(p + 4, (uint32_t) (operands[i].bytes >> 32));
        store_u32(p + 8, (uint32_t) operands[i].access);
    }
    sha256(text, (size_t) (p - text), out);
}
