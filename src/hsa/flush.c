// flush: NPUs do not snoop the CPU's caches. Who reads or writes memory of one on the host says so
// here, before and after; nobody else flushes anything.
//
// Kept true: while a dispatch is in flight, no line that it reads or writes is dirty in a cache.
// Such a line would be written back at any moment, over what the NPU wrote there. So fresh memory
// for operands, whose pages the kernel has cleared, is flushed once as a whole (code the NPU only
// reads, and only what was written), and what the host wrote when it has written it. What the host
// reads, or writes in part, is flushed before: its copy may be older than what the NPU wrote.
// Weights, caches of keys and values and what kernels hand to each other are then flushed when they
// are uploaded, and never again.
//
// The runtime would do it too, for all bytes that the operands of a packet declare, before and
// after each dispatch: 18 us a MB, and a packet's operands are whole allocations. It is told that
// these are of 0 bytes; nothing else depends on it. GGML_HSA_FLUSH=declared has it as it was, to
// compare, and so has a CPU without an instruction for it that programs may use.
//
// Packets and their arguments are read by the runtime, on the CPU: they are not flushed.
#include "hsac-impl.h"

#include "amdxdna/flush.h"

#include <stdlib.h>
#include <string.h>

enum status hsac_flush_check(struct error * err) {
    const char * text = secure_getenv("GGML_HSA_FLUSH");
    return !text || !*text || !strcmp(text, "touched") || !strcmp(text, "declared")
               ? ST_OK
               : error_set(err, ST_INVALID, "GGML_HSA_FLUSH=%.40s: expected touched or declared",
                           text);
}

static bool declares;
static pthread_once_t declares_once = PTHREAD_ONCE_INIT;

static void read_declares(void) {
    const char * text = secure_getenv("GGML_HSA_FLUSH");
    declares = !amdxdna_can_flush() || (text && !strcmp(text, "declared"));
}

bool hsac_declares(void) {
    pthread_once(&declares_once, read_declares);
    return declares;
}

static void flush(struct hsac_agent * a, const void * at, size_t size) {
    if (a->kind != HSAC_NPU || size == 0 || hsac_forked(a->h)) {
        return;
    }
    enum hsac_pool pool;
    if (hsac_declares() && !(hsac_agent_owns(a, at, size, &pool) &&
                             (pool == HSAC_POOL_DEV || pool == HSAC_POOL_STREAM))) {
        return; // code is no operand
    }
    __atomic_fetch_add(&a->flushed, size, __ATOMIC_RELAXED);
    // An agent that is no emulated one of this runtime is a real one.
    if (!a->h->emulated || a->h->api.hsa_emu_flushed(a->handle, at, size) != HSA_STATUS_SUCCESS) {
        amdxdna_flush(at, size);
    }
}

void hsac_host_begin(struct hsac_agent * a, const void * at, size_t size) {
    flush(a, at, size);
}

void hsac_host_end(struct hsac_agent * a, const void * at, size_t size) {
    flush(a, at, size);
}

uint64_t hsac_agent_flushed(const struct hsac_agent * a) {
    return __atomic_load_n(&a->flushed, __ATOMIC_RELAXED);
}
