// fuzz-bundle-offload: arbitrary bytes as what a compiler left. A code object that is found lies
// inside the bytes and begins like one.
#include "fuzz.h"

#include "hip/hip-impl.h"

const int fuzz_rounds = 4000;
const int fuzz_longest = 600;

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    static const char * const archs[] = {"gfx90a", "gfx1100", "gfx9999"};
    for (int i = 0; i < 3; i++) {
        size_t at = 0, length = 0;
        struct error err = {0};
        enum status st = hip_find_code(data, size, archs[i], &at, &length, &err);
        if (st == ST_OK &&
            (at > size || length > size - at || length < 64 || memcmp(data + at, "\177ELF", 4))) {
            abort();
        }
        if (st != ST_OK && !err.text[0]) {
            abort();
        }
    }
    return 0;
}

static void put_u64(struct buf * b, uint64_t v) {
    buf_append_u32(b, (uint32_t) v);
    buf_append_u32(b, (uint32_t) (v >> 32));
}

// Seed 0: a code object. Seed 1: a bundle with a host entry and two architectures.
bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    static const char * const names[] = {"host-x86_64-unknown-linux--",
                                         "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-",
                                         "hip-amdgcn-amd-amdhsa-gfx1100"};
    struct buf b = {0};
    uint8_t elf[64] = "\177ELF\2\1\1\100";
    store_u32(elf + 16, 224u << 16 | 3);
    store_u32(elf + 48, 0x3f);
    if (i > 1) {
        return false;
    }
    if (i == 1) {
        buf_append(&b, "__CLANG_OFFLOAD_BUNDLE__", 24);
        put_u64(&b, 3);
        for (int k = 0; k < 3; k++) {
            put_u64(&b, 256 + (k == 2 ? sizeof elf : 0));
            put_u64(&b, k ? sizeof elf : 0);
            put_u64(&b, strlen(names[k]));
            buf_append(&b, names[k], strlen(names[k]));
        }
        while (b.size < 256) {
            buf_append(&b, "", 1);
        }
        buf_append(&b, elf, sizeof elf);
        store_u32(elf + 48, 0x41);
    }
    buf_append(&b, elf, sizeof elf);
    *data = b.data;
    *size = b.size;
    return true;
}
