// impl: what the files of the driver's client share.
#pragma once

#include "amdxdna.h"

#include <pthread.h>

enum {
    HEAP_CHUNK = 64 << 20,
    HEAP_ALIGN = 32 << 10, // of each DEV buffer
    MAX_CHUNKS = 8,
    PAGE = 4096,
    CHAIN_BYTES = 4096,  // the driver's buffer that the commands of a chain are copied into
    SLOT_BYTES = 52,     // of each command there, beside its arguments; less with old firmware
    IN_FLIGHT = 4,       // commands or chains of a context; one more sleeps in the kernel
    CONTEXT_BUFFERS = 4, // that the driver takes of the heap for each
    MIN_TILES = 4,       // rows of cores: a column
};

struct command_buffer { // a page that holds a command or a chain
    struct amdxdna_buffer b;
    struct command_buffer * next;
};

struct amdxdna {
    int fd;
    struct amdxdna_info info;
    struct amdxdna_counts counts; // atomic, each by itself
    int lost;                     // errno by which the device went; atomic

    pthread_mutex_t lock; // what follows
    uint8_t * place;      // addresses for all chunks of the heap, one behind the other
    struct amdxdna_buffer chunks[MAX_CHUNKS];
    unsigned n_chunks;
    uint64_t heap_used;            // with what contexts take
    struct command_buffer * spare; // for commands
};

struct amdxdna_context {
    struct amdxdna * d;
    uint32_t id, syncobj;
    unsigned n_pdis;
    bool broken; // a command failed: the driver may have begun it anew without its state
    struct command_buffer * held; // commands that may still be on their way
};

// device.c: ioctl, until no signal interrupts it. 0 or an errno, which is noted when it says that
// the device is gone.
int amdxdna_call(struct amdxdna * d, unsigned long request, void * arg);
// An error with the call's name, what was asked, and what the errno means here.
enum status amdxdna_refused(const struct amdxdna * d, const char * call, int error,
                            struct error * err);
void amdxdna_count(uint64_t * counter, uint64_t n);

// buffer.c: the heap is there, with room for a context; ST_NO_MEMORY else.
enum status amdxdna_heap_begin(struct amdxdna * d, struct error * err);
bool amdxdna_heap_reserve(struct amdxdna * d, uint64_t bytes); // in the ledger alone
void amdxdna_heap_return(struct amdxdna * d, uint64_t bytes);
void amdxdna_heap_end(struct amdxdna * d);
struct command_buffer * amdxdna_command_take(struct amdxdna * d, struct error * err);
void amdxdna_command_give(struct amdxdna * d, struct command_buffer * c); // a list
