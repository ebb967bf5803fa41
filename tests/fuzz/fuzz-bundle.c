// fuzz-bundle: arbitrary bytes as a core program. A bundle that decodes has the size that its first
// byte tells, can be printed, and can be encoded to bytes that decode to the same bundle.
#include "isa-seeds.h"

#ifndef ARCH
#    define ARCH AIE_ARCH_AIE2
#endif

const int fuzz_rounds = 200;
const int fuzz_longest = 64;

static bool same_inst(const struct aie_isa * isa, const struct aie_inst * a,
                      const struct aie_inst * b) {
    return a->op == b->op &&
           !memcmp(a->values, b->values,
                   (size_t) aie_isa_instr(isa, a->op)->n_explicit * sizeof a->values[0]);
}

static void check_bundle(const struct aie_isa * isa, const struct aie_bundle * bundle) {
    struct error err;
    uint8_t bytes[AIE_MAX_BUNDLE_BYTES];
    int size = 0;
    struct aie_bundle again;
    if (aie_bundle_encode(isa, bundle, bytes, &size, &err) != ST_OK || size != bundle->size ||
        aie_bundle_decode(isa, bytes, (size_t) size, &again, &err) != ST_OK ||
        again.present != bundle->present) {
        abort();
    }
    for (int s = 0; s < AIE_SLOT_COUNT; s++) {
        if (bundle->present >> s & 1 && !same_inst(isa, &bundle->slot[s], &again.slot[s])) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    const struct aie_isa * isa = aie_isa_get(ARCH);
    struct buf text = {0};
    for (size_t at = 0; at < size;) {
        struct aie_bundle bundle;
        struct error err;
        int told = aie_bundle_size(isa, data[at]);
        if (told < 2 || told > AIE_MAX_BUNDLE_BYTES) {
            abort();
        }
        if (aie_bundle_decode(isa, data + at, size - at, &bundle, &err) == ST_OK) {
            if (bundle.size != told || (size_t) told > size - at) {
                abort();
            }
            text.size = 0;
            aie_bundle_print(isa, &bundle, &text);
            if (text.size == 0) {
                abort();
            }
            check_bundle(isa, &bundle);
        }
        at += (size_t) told;
    }
    buf_free(&text);
    return 0;
}

// Bytes of all kinds of bundles: noise. Golden programs: noise that makes sense.
static void noise(uint8_t ** data, size_t * size) {
    *size = 4096;
    *data = malloc(*size);
    uint32_t state = 12345;
    for (size_t i = 0; *data && i < *size; i++) {
        state = state * 1664525 + 1013904223;
        (*data)[i] = (uint8_t) (state >> 24);
    }
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    static const char * const files[] = {
        GOLDEN_DIR "/aie2-kernels/single-add.pdi",
        GOLDEN_DIR "/aie2-kernels/gemm-i16-256-1core.pdi",
    };
    enum { FILES = ARCH == AIE_ARCH_AIE2 ? sizeof files / sizeof files[0] : 0 };
    if (i == 0) {
        noise(data, size);
        return true;
    }
    if (i < 0 || i > FILES) {
        return isa_seed(ARCH, i - 1 - FILES, data, size);
    }
    fuzz_golden(files[i - 1], data, size);
    if (*data && *size > 0x1d0 + 1600) { // its first program begins there
        *size = 1600;
        memmove(*data, *data + 0x1d0, *size);
    }
    return true;
}
