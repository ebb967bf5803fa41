// flush: see the header. CLFLUSH is what AMD's own client uses; CLFLUSHOPT would be faster, but
// needs a fence of its own and is not on every CPU. Of an Arm CPU the program may clean and drop
// lines too, where the kernel lets it (Linux does). No such CPU has an NPU of AMD's; there the
// function serves tests.
//
// The hook is how a played driver learns of flushes: it defines the symbol, and the loader finds
// it. A kernel's driver needs none, and the symbol is NULL.
#include "flush.h"

extern void amdxdna_flush_hook(const void * at, size_t size) __attribute__((weak));

static _Atomic uint64_t flushed;

#if defined(__x86_64__)
#    include <emmintrin.h>

bool amdxdna_can_flush(void) {
    return true; // every x86-64 has SSE2, and with it CLFLUSH
}

static void fence(void) {
    _mm_mfence();
}

static void flush_line(const char * at) {
    _mm_clflush(at);
}
#elif defined(__aarch64__)
bool amdxdna_can_flush(void) {
    return true;
}

static void fence(void) {
    __asm__ volatile("dsb sy" ::: "memory");
}

static void flush_line(const char * at) {
    __asm__ volatile("dc civac, %0" ::"r"(at) : "memory");
}
#else
bool amdxdna_can_flush(void) {
    return false;
}

static void fence(void) {}

static void flush_line(const char * at) {
    (void) at;
}
#endif

void amdxdna_flush(const void * at, size_t size) {
    if (size == 0) {
        return;
    }
    const char * line = (const char *) ((uintptr_t) at & ~(uintptr_t) (AMDXDNA_LINE - 1));
    const char * end = (const char *) at + size;
    uint64_t lines = 0;
    fence();
    for (; line < end; line += AMDXDNA_LINE, lines++) {
        flush_line(line);
    }
    fence();
    flushed += lines * AMDXDNA_LINE;
    if (amdxdna_flush_hook) {
        amdxdna_flush_hook(at, size);
    }
}

uint64_t amdxdna_flushed(void) {
    return flushed;
}
