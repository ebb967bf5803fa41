// aql: what the packet processor of a GPU does with a ring of AQL packets: takes them, runs them
// and tells of their ends. Whose ring it is decides what a signal is, how one waits, and who hears
// of errors: our runtime, or the driver below AMD's own (emu/kfd).
//
// Kept true: packets run one after the other in the order of the ring, which satisfies the barrier
// bit and every fence. A strict one makes use of what hardware is free to do: of kernels that
// follow each other without a barrier bit the last one runs first.
#pragma once

#include "emu/gfx/gfx.h"

#include <hsa/hsa.h> // LITTLEENDIAN_CPU comes with the target hsa_headers

enum { AQL_PACKET_BYTES = 64, AQL_MAX_FREE = 16 };

// What can be wrong with a packet. Owners have names of their own for these.
enum aql_fault {
    AQL_OK,
    AQL_BAD_FORMAT,       // a packet type that is none of a GPU's
    AQL_BAD_VENDOR,       // a vendor packet that is not known
    AQL_BAD_SIGNAL,       // a handle that is no signal
    AQL_BAD_DIMENSIONS,   // a grid or a group of nothing
    AQL_BAD_GROUP,        // too many work-items in a group
    AQL_BAD_GROUP_MEMORY, // more LDS than there is
    AQL_BAD_CODE,         // no kernel descriptor
    AQL_NO_RESOURCES,
    AQL_ILLEGAL,      // the code did what hardware does not
    AQL_MEMORY_FAULT, // the code touched memory that is not its own
    AQL_FAULTS,
};

struct aql_owner {
    bool (*is_signal)(void * user, uint64_t handle);
    // Its value; false: it is gone.
    bool (*peek)(void * user, uint64_t handle, int64_t * value);
    // Takes 1 from it and wakes its waiters; nothing of it is touched after that. The times are
    // those of now().
    void (*complete)(void * user, uint64_t handle, uint64_t start, uint64_t end);
    uint64_t (*now)(void);
    // Returns when ready says so, which is asked now and then and after each wake.
    void (*sleep)(void * user, bool (*ready)(void *), void * arg);
    void (*wake)(void * user);
    // The queue has stopped for good. address: of a memory fault, UINT64_MAX when it is not known.
    void (*fail)(void * user, enum aql_fault fault, uint64_t address, const struct error * err);
    // May be NULL. Before a kernel runs, and after it. Kernels with private memory are then at the
    // read index.
    enum aql_fault (*before)(void * user, const hsa_kernel_dispatch_packet_t * p,
                             struct error * err);
    void (*after)(void * user, const hsa_kernel_dispatch_packet_t * p);
    // May be NULL. A vendor packet that is no barrier on a value.
    enum aql_fault (*vendor)(void * user, const uint8_t packet[AQL_PACKET_BYTES],
                             struct error * err);
};

struct aql_config {
    const struct aql_owner * owner;
    void * user;
    struct gfx * gpu;
    const char * name; // of the agent, for errors; outlives the queue
    uint64_t id;       // likewise
    bool strict;
    uint32_t lds_bytes;
    uint8_t * ring;          // on the host
    uint64_t address;        // where kernels see it
    uint32_t packets;        // a power of two
    volatile uint64_t *read, // index of the next packet; ours to change
        *write;              // and of the first that is not written
};

struct aql;

// A thread that runs the ring. It starts to look at it when it is rung.
enum status aql_start(const struct aql_config * config, struct aql ** out, struct error * err);
void aql_ring(struct aql * q);
// Nothing more runs, behind the packet that runs now.
void aql_halt(struct aql * q);
// Waits for the packet that runs and ends the thread; false when the caller is that thread, which
// cannot wait for itself.
bool aql_stop(struct aql * q);
void aql_free(struct aql * q); // stopped; NULL is fine
bool aql_stopping(const struct aql * q);

// aql-packets.c: runs one packet; *completion is its signal or 0.
enum aql_fault aql_run(struct aql * q, const uint8_t * slot, uint32_t type, uint64_t * completion,
                       struct error * err);
const struct aql_config * aql_config_of(const struct aql * q);
bool aql_condition_holds(uint32_t condition, int64_t value, int64_t compare);
// The address in the text of a memory fault, UINT64_MAX: it names none.
uint64_t aql_fault_address(const char * text);
