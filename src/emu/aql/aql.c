// aql: the ring and the thread that runs it.
//
// Kept true: a packet is taken when its header says that it is one; while it runs its slot stays as
// it is, for kernels read it. Then its header becomes INVALID, the read index moves on, and last of
// all the completion signal changes. A packet that fails leaves its slot, the read index and its
// signal alone; the queue runs nothing more.
#include "emu/aql/aql.h"

#include "emu/aql/bell.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

struct aql {
    struct aql_config config;
    struct bell bell;
    bool halted; // atomic: no more packets
};

const struct aql_config * aql_config_of(const struct aql * q) {
    return &q->config;
}

bool aql_stopping(const struct aql * q) {
    return bell_stopping(&q->bell);
}

void aql_halt(struct aql * q) {
    __atomic_store_n(&q->halted, true, __ATOMIC_RELEASE);
}

// ---- the ring ----

static uint8_t * slot_at(const struct aql * q, uint64_t index) {
    return q->config.ring + (index & (q->config.packets - 1)) * AQL_PACKET_BYTES;
}

// The header of a packet, or that of an invalid one where none is written yet.
static uint32_t header_at(const struct aql * q, uint64_t index) {
    uint64_t write = __atomic_load_n(q->config.write, __ATOMIC_ACQUIRE);
    const uint16_t * header = (const uint16_t *) (const void *) slot_at(q, index);
    return index < write ? __atomic_load_n(header, __ATOMIC_ACQUIRE) : HSA_PACKET_TYPE_INVALID;
}

static uint32_t type_of(uint32_t header) {
    return header >> HSA_PACKET_HEADER_TYPE & 0xff;
}

// Whether the owner has to make it ready, for which it looks at the packet of the read index.
static bool needs_its_turn(const struct aql * q, uint64_t index) {
    const hsa_kernel_dispatch_packet_t * p = (const void *) slot_at(q, index);
    return q->config.owner->before && p->private_segment_size;
}

// How many packets from `first` on may run in any order.
static int free_packets(const struct aql * q, uint64_t first) {
    int n = 1;
    if (!q->config.strict || type_of(header_at(q, first)) != HSA_PACKET_TYPE_KERNEL_DISPATCH ||
        needs_its_turn(q, first)) {
        return n;
    }
    if (type_of(header_at(q, first + 1)) == HSA_PACKET_TYPE_INVALID) {
        const struct timespec moment = {.tv_nsec = 200000}; // for the next one to be written
        nanosleep(&moment, NULL);
    }
    for (uint32_t header; n < AQL_MAX_FREE; n++) {
        header = header_at(q, first + (uint64_t) n);
        if (type_of(header) != HSA_PACKET_TYPE_KERNEL_DISPATCH ||
            header >> HSA_PACKET_HEADER_BARRIER & 1 || needs_its_turn(q, first + (uint64_t) n)) {
            break;
        }
    }
    return n;
}

struct end_of_packet {
    uint64_t completion, start, end;
};

static bool run_at(struct aql * q, uint64_t index, struct end_of_packet * out) {
    const struct aql_config * c = &q->config;
    struct error err = {0};
    out->start = c->owner->now();
    enum aql_fault fault =
        aql_run(q, slot_at(q, index), type_of(header_at(q, index)), &out->completion, &err);
    out->end = c->owner->now();
    if (fault != AQL_OK) {
        uint64_t address = fault == AQL_MEMORY_FAULT ? aql_fault_address(err.text) : UINT64_MAX;
        error_prefix(&err, err.status, "%s, queue %" PRIu64 ", packet %" PRIu64, c->name, c->id,
                     index);
        aql_halt(q);
        c->owner->fail(c->user, fault, address, &err);
        return false;
    }
    return !aql_stopping(q); // or it is a barrier that was given up
}

// Runs what is there; returns when the next packet is not written yet.
static void run_ring(void * data) {
    struct aql * q = data;
    const struct aql_config * c = &q->config;
    while (!aql_stopping(q) && !__atomic_load_n(&q->halted, __ATOMIC_ACQUIRE)) {
        uint64_t read = __atomic_load_n(c->read, __ATOMIC_ACQUIRE);
        if (type_of(header_at(q, read)) == HSA_PACKET_TYPE_INVALID) {
            return;
        }
        struct end_of_packet ends[AQL_MAX_FREE];
        int n = free_packets(q, read);
        for (int i = n - 1; i >= 0; i--) {
            if (!run_at(q, read + (uint64_t) i, &ends[i])) {
                return;
            }
        }
        for (int i = 0; i < n; i++, read++) {
            uint16_t * header = (uint16_t *) (void *) slot_at(q, read);
            __atomic_store_n(header, HSA_PACKET_TYPE_INVALID, __ATOMIC_RELEASE);
            __atomic_store_n(c->read, read + 1, __ATOMIC_RELEASE);
            if (ends[i].completion) {
                c->owner->complete(c->user, ends[i].completion, ends[i].start, ends[i].end);
            }
        }
    }
}

// ---- life ----

enum status aql_start(const struct aql_config * config, struct aql ** out, struct error * err) {
    struct aql * q = calloc(1, sizeof *q);
    *out = NULL;
    if (!q) {
        return error_set(err, ST_NO_MEMORY, "%s: no memory for a queue", config->name);
    }
    q->config = *config;
    if (!bell_start(&q->bell, run_ring, q)) {
        free(q);
        return error_set(err, ST_NO_MEMORY, "%s: no thread for a queue", config->name);
    }
    *out = q;
    return ST_OK;
}

void aql_ring(struct aql * q) {
    bell_ring(&q->bell);
}

bool aql_stop(struct aql * q) {
    if (!bell_stop(&q->bell)) {
        return false;
    }
    q->config.owner->wake(q->config.user); // it may stand before a barrier
    bell_join(&q->bell);
    return true;
}

void aql_free(struct aql * q) {
    free(q);
}
