// sdma: a copy engine. Its ring holds commands of different lengths, which it runs one after the
// other, indices counting bytes; they are what ROCr sends for a copy: wait for a signal, copy or
// fill, write a time, take 1 from a signal, raise an interrupt.
//
// A command that cannot be done stops the engine, which says so; whoever waits for it waits on, as
// with hardware, where the driver ends the process.
#include "emu/kfd/kfd.h"

#include "emu/aql/bell.h"

#include <hsa/amd_hsa_signal.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum sdma_op {
    OP_NOP = 0,
    OP_COPY = 1,
    OP_FENCE = 5,
    OP_TRAP = 6,
    OP_POLL = 8,
    OP_ATOMIC = 10,
    OP_FILL = 11,
    OP_TIMESTAMP = 13,
    OP_CACHES = 17,
};
enum { SUB_COPY_LINEAR = 0, SUB_TIME_GLOBAL = 2, ATOMIC_ADD64 = 47, MAX_WORDS = 8 };

struct kfd_sdma {
    struct kfd_queue * queue;
    struct bell bell;
    const uint8_t * ring;
    uint32_t bytes; // of the ring, a power of two
    uint64_t *read, *write;
    bool broken;
};

// Words of a command; 0: not known.
static uint32_t length_of(uint32_t head) {
    switch ((enum sdma_op)(head & 0xff)) {
    case OP_NOP:
        return 1 + (head >> 16 & 0x3fff);
    case OP_COPY:
        return (head >> 8 & 0xff) == SUB_COPY_LINEAR ? 7 : 0;
    case OP_FENCE:
        return 4;
    case OP_TRAP:
        return 2;
    case OP_POLL:
        return 6;
    case OP_ATOMIC:
        return head >> 25 == ATOMIC_ADD64 ? 8 : 0;
    case OP_FILL:
        return head >> 30 == 2 ? 5 : 0; // words; ROCr fills with nothing smaller
    case OP_TIMESTAMP:
        return (head >> 8 & 0xff) == SUB_TIME_GLOBAL ? 3 : 0;
    case OP_CACHES:
        return 5;
    }
    return 0;
}

static struct kfd_memory * memory_of(const struct kfd_sdma * s) {
    return &s->queue->gpu->memory;
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static enum status unreachable(struct error * err, uint64_t address, bool write) {
    return error_set(err, ST_CORRUPT, "%s 0x%" PRIx64 ", which the GPU does not reach",
                     write ? "writes to" : "reads", address);
}

static enum status copy(struct kfd_sdma * s, uint64_t to, uint64_t from, uint64_t n,
                        struct error * err) {
    for (uint64_t part; n; n -= part, to += part, from += part) {
        uint64_t left[2];
        const uint8_t * source = kfd_memory_at(memory_of(s), from, 1, false, &left[0]);
        uint8_t * target = kfd_memory_at(memory_of(s), to, 1, true, &left[1]);
        if (!source || !target) {
            return unreachable(err, source ? to : from, source);
        }
        part = smaller(n, smaller(left[0], left[1]));
        memmove(target, source, part);
    }
    return ST_OK;
}

static enum status fill(struct kfd_sdma * s, uint64_t to, uint32_t word, uint64_t n,
                        struct error * err) {
    for (uint64_t i = 0; i < n; i++, to += 4) {
        uint8_t * target = kfd_memory_at(memory_of(s), to, 4, true, NULL);
        if (!target) {
            return unreachable(err, to, true);
        }
        memcpy(target, &word, 4);
    }
    return ST_OK;
}

struct poll {
    const struct kfd_sdma * sdma;
    const uint32_t * word;
    uint32_t function, value, mask;
};

static bool poll_holds(void * arg) {
    const struct poll * p = arg;
    uint32_t v = __atomic_load_n(p->word, __ATOMIC_ACQUIRE) & p->mask;
    const bool results[8] = {
        true, v<p->value, v <= p->value, v == p->value, v != p->value, v >= p->value, v> p->value,
        true};
    return results[p->function] || bell_stopping(&p->sdma->bell);
}

static enum status poll(struct kfd_sdma * s, const uint32_t * w, uint64_t address,
                        struct error * err) {
    if (!(w[0] >> 31)) {
        return ST_OK; // of a register: the caches between host and GPU are flushed
    }
    struct poll p = {s, (void *) kfd_memory_at(memory_of(s), address, 4, false, NULL),
                     w[0] >> 28 & 7, w[3], w[4]};
    if (!p.word || address & 3) {
        return unreachable(err, address, false);
    }
    kfd_poll(poll_holds, &p);
    return ST_OK;
}

// ROCr takes 1 from a signal with this. In the model its signals have no mailbox, for which reason
// it sends no interrupt behind it; the event is in the signal.
static enum status add64(struct kfd_sdma * s, uint64_t address, uint64_t value,
                         struct error * err) {
    const uint64_t offset = offsetof(amd_signal_t, value);
    uint64_t * word = (void *) kfd_memory_at(memory_of(s), address, 8, true, NULL);
    if (!word || address & 7) {
        return unreachable(err, address, true);
    }
    const amd_signal_t * signal =
        (void *) kfd_memory_at(memory_of(s), address - offset, sizeof *signal, false, NULL);
    unsigned event = signal && signal->kind == AMD_SIGNAL_KIND_USER ? signal->event_id : 0;
    __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST);
    kfd_event(s->queue, event);
    return ST_OK;
}

static enum status put(struct kfd_sdma * s, uint64_t address, const void * from, uint64_t n,
                       struct error * err) {
    uint8_t * target = kfd_memory_at(memory_of(s), address, n, true, NULL);
    if (!target) {
        return unreachable(err, address, true);
    }
    memcpy(target, from, n);
    return ST_OK;
}

static enum status run(struct kfd_sdma * s, const uint32_t * w, struct error * err) {
    uint64_t address = w[1] | (uint64_t) w[2] << 32;
    switch ((enum sdma_op)(w[0] & 0xff)) {
    case OP_COPY:
        return copy(s, w[5] | (uint64_t) w[6] << 32, w[3] | (uint64_t) w[4] << 32,
                    (uint64_t) (w[1] & 0x3fffffff) + 1, err);
    case OP_FILL:
        return fill(s, address, w[3], (w[4] & 0x3fffffff) / 4 + 1, err);
    case OP_FENCE:
        return put(s, address, &w[3], 4, err);
    case OP_TRAP:
        kfd_event(s->queue, w[1] & 0xfffffff);
        return ST_OK;
    case OP_POLL:
        return poll(s, w, address, err);
    case OP_ATOMIC:
        return add64(s, address, w[3] | (uint64_t) w[4] << 32, err);
    case OP_TIMESTAMP: {
        uint64_t ticks = kfd_ticks();
        return put(s, address, &ticks, 8, err);
    }
    case OP_NOP:
    case OP_CACHES:
        return ST_OK;
    }
    return error_set(err, ST_UNSUPPORTED, "not known");
}

static void work(void * data) {
    struct kfd_sdma * s = data;
    struct error err = {0};
    while (!bell_stopping(&s->bell) && !s->broken) {
        uint64_t read = __atomic_load_n(s->read, __ATOMIC_ACQUIRE);
        uint64_t left = __atomic_load_n(s->write, __ATOMIC_ACQUIRE) - read;
        if (left == 0) {
            return;
        }
        uint32_t at = (uint32_t) read & (s->bytes - 1), w[MAX_WORDS] = {0};
        w[0] = load_u32(s->ring + at);
        uint32_t bytes = 4 * length_of(w[0]);
        bool ok = bytes && bytes <= left && bytes <= s->bytes - at;
        if (!ok) {
            error_set(&err, ST_UNSUPPORTED, "no command that is known, or it does not end here");
        } else {
            memcpy(w, s->ring + at, bytes < sizeof w ? bytes : sizeof w);
            __atomic_fetch_add(&memory_of(s)->epoch, 1, __ATOMIC_RELAXED);
            ok = run(s, w, &err) == ST_OK;
        }
        if (!ok) {
            s->broken = true;
            kfd_say("%s, copy queue %" PRIu32 ", byte %" PRIu64 " (0x%08" PRIx32 "): %s",
                    gfx_arch_name(s->queue->gpu->model->arch), s->queue->slot, read, w[0],
                    err.text);
        } else if (!bell_stopping(&s->bell)) {
            __atomic_store_n(s->read, read + bytes, __ATOMIC_RELEASE);
        }
    }
}

// ---- life ----

enum status kfd_sdma_start(struct kfd_queue * q, const struct kfd_queue_info * info,
                           struct kfd_sdma ** out, struct error * err) {
    struct kfd_sdma * s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s) {
        return error_set(err, ST_NO_MEMORY, "no memory for a copy engine");
    }
    struct kfd_memory * m = &q->gpu->memory;
    s->queue = q;
    s->bytes = info->ring_bytes;
    s->ring = kfd_memory_at(m, info->ring, info->ring_bytes, false, NULL);
    s->read = (void *) kfd_memory_at(m, info->read_index, 8, true, NULL);
    s->write = (void *) kfd_memory_at(m, info->write_index, 8, true, NULL);
    enum status st = ST_OK;
    if (!s->ring || !s->read || !s->write || !s->bytes || s->bytes & (s->bytes - 1)) {
        st = error_set(err, ST_INVALID,
                       "a copy queue of %" PRIu32 " bytes at 0x%" PRIx64
                       " which the GPU does not reach",
                       info->ring_bytes, info->ring);
    } else if (!bell_start(&s->bell, work, s)) {
        st = error_set(err, ST_NO_MEMORY, "no thread for a copy engine");
    }
    if (st != ST_OK) {
        free(s);
        return st;
    }
    *out = s;
    return ST_OK;
}

void kfd_sdma_ring(struct kfd_sdma * s) {
    bell_ring(&s->bell);
}

void kfd_sdma_free(struct kfd_sdma * s) {
    if (s) {
        bell_stop(&s->bell);
        bell_join(&s->bell);
        free(s);
    }
}
