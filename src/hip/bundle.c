// bundle: the bytes that a compiler left. They are hostile like all bytes from outside: a length is
// compared with what is there before it is believed.
//
// An offload bundle is "__CLANG_OFFLOAD_BUNDLE__", u64 count, and for each entry u64 offset, u64
// size, u64 length of its name, and the name: "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-".
#include "hip-impl.h"

#include "base/gpus.h"

#include <string.h>

static const char magic[] = "__CLANG_OFFLOAD_BUNDLE__";
enum { MAGIC = sizeof magic - 1, MAX_ENTRIES = 256 };

static enum status check_elf(const uint8_t * elf, size_t size, const char * arch,
                             struct error * err) {
    // ELF64, little-endian, for AMD's HSA; a shared object for machine 224.
    if (size < 64 || memcmp(elf, "\177ELF\2\1\1\100", 8)) {
        return error_set(err, ST_CORRUPT, "not an AMD GPU code object");
    }
    uint32_t kind = load_u32(elf + 16), flags = load_u32(elf + 48);
    if (kind >> 16 != 224 || (kind & 0xffff) != 3) {
        return error_set(err, ST_CORRUPT,
                         "an ELF file of type %u for machine %u, not a code object", kind & 0xffff,
                         kind >> 16);
    }
    const struct gpu_name * gpu = gpu_by_name(arch); // what is not there, at the compiler's word
    if (gpu && (flags & 0xff) != gpu->mach) {
        return error_set(err, ST_CORRUPT, "a code object for machine 0x%02x, not for %s (0x%02x)",
                         flags & 0xff, arch, gpu->mach);
    }
    return ST_OK;
}

// Does the name of an entry mean arch? What comes before it is the kind and the triple.
static bool names_arch(const char * name, size_t n, const char * arch) {
    size_t want = strlen(arch);
    if (n < 4 || memcmp(name, "hip", 3)) {
        return false; // the host's
    }
    for (size_t at = 0; at + want <= n; at++) {
        if ((at == 0 || name[at - 1] == '-') && !memcmp(name + at, arch, want) &&
            (at + want == n || name[at + want] == ':')) {
            return true;
        }
    }
    return false;
}

enum status hip_find_code(const uint8_t * data, size_t size, const char * arch, size_t * at,
                          size_t * length, struct error * err) {
    if (size < MAGIC || memcmp(data, magic, MAGIC)) {
        *at = 0;
        *length = size;
        return check_elf(data, size, arch, err);
    }
    if (size < MAGIC + 8) {
        return error_set(err, ST_CORRUPT, "an offload bundle that is cut");
    }
    uint64_t count = load_u64(data + MAGIC);
    if (count > MAX_ENTRIES) {
        return error_set(err, ST_CORRUPT, "an offload bundle of %llu entries",
                         (unsigned long long) count);
    }
    size_t p = MAGIC + 8;
    for (uint64_t i = 0; i < count; i++) {
        if (size - p < 24 || size - p - 24 < load_u64(data + p + 16)) {
            return error_set(err, ST_CORRUPT, "an offload bundle whose entry %u is cut",
                             (unsigned) i);
        }
        uint64_t offset = load_u64(data + p), bytes = load_u64(data + p + 8);
        size_t name = (size_t) load_u64(data + p + 16);
        if (offset > size || bytes > size - offset) {
            return error_set(err, ST_CORRUPT, "an offload bundle whose entry %u lies outside of it",
                             (unsigned) i);
        }
        if (names_arch((const char *) data + p + 24, name, arch)) {
            *at = (size_t) offset;
            *length = (size_t) bytes;
            return check_elf(data + offset, (size_t) bytes, arch, err);
        }
        p += 24 + name;
    }
    return error_set(err, ST_NOT_FOUND, "an offload bundle without code for %s", arch);
}
