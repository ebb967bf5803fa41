// inspect-code: core programs as assembly. Bytes that are no instruction are shown as bytes with
// the reason, and the listing goes on behind them: data may lie among code.
#include "inspect.h"

#include <string.h>

static size_t without_zeros(const uint8_t * code, size_t size) {
    while (size && code[size - 1] == 0) {
        size--;
    }
    return size;
}

// How many of the bytes belong to bundles that decode.
static size_t decodable(const struct aie_isa * isa, const uint8_t * code, size_t size) {
    size_t good = 0;
    for (size_t at = 0, n; at < size; at += n) {
        struct aie_bundle bundle;
        if (aie_bundle_decode(isa, code + at, size - at, &bundle, NULL) == ST_OK) {
            n = bundle.size;
            good += n;
        } else {
            n = (size_t) aie_bundle_size(isa, code[at]);
        }
    }
    return good;
}

bool code_guess_arch(const uint8_t * code, size_t size, enum aie_arch * out) {
    // A program of another target decodes to nonsense here and there, but not nearly all of it.
    size_t used = without_zeros(code, size), best = used - used / 8;
    bool found = false;
    for (int i = 0; i < AIE_ARCH_COUNT; i++) {
        size_t good = decodable(aie_isa_get((enum aie_arch) i), code, size);
        if (found ? good > best : good >= best) {
            best = good;
            *out = (enum aie_arch) i;
            found = true;
        }
    }
    return found;
}

// A line of bytes that are no instruction.
static void print_bytes(const uint8_t * code, size_t n, const char * reason, struct buf * b) {
    buf_printf(b, ".byte");
    for (size_t i = 0; i < n; i++) {
        buf_printf(b, " %02x", code[i]);
    }
    buf_printf(b, "%s%s\n", *reason ? "  // " : "", reason);
}

void code_print(enum aie_arch arch, uint32_t address, const uint8_t * code, size_t size,
                struct buf * b) {
    const struct aie_isa * isa = aie_isa_get(arch);
    size_t used = without_zeros(code, size), at = 0;
    while (at < used) {
        struct aie_bundle bundle;
        struct error err = {.text = ""};
        size_t n = size - at < AIE_MAX_BUNDLE_BYTES ? size - at : AIE_MAX_BUNDLE_BYTES;
        buf_printf(b, "    %04zx: ", address + at);
        if (aie_bundle_decode(isa, code + at, size - at, &bundle, &err) == ST_OK) {
            aie_bundle_print(isa, &bundle, b);
            buf_printf(b, "\n");
            n = bundle.size;
        } else {
            if ((size_t) aie_bundle_size(isa, code[at]) < n) {
                n = (size_t) aie_bundle_size(isa, code[at]);
            }
            print_bytes(code + at, n, err.text, b);
        }
        at += n;
    }
    if (at < size) {
        buf_printf(b, "    %04zx: %zu bytes of zeros\n", address + at, size - at);
    }
}
