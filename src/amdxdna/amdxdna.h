// amdxdna: a client of the kernel driver of AMD's NPUs, /dev/accel/accelN. Devices are found and
// told apart, buffers made, contexts configured with PDIs, commands run and waited for. Nothing of
// HSA and nothing of ggml is in here.
//
// What the driver wants, and how it differs between kernels, is written where it matters; the
// layouts are in uapi.h. Calls that a signal interrupted are repeated; EAGAIN is not, for there it
// has meanings of its own.
//
// Threads: a device may be used by many; a context by one at a time.
#pragma once

#include "base/base.h"
#include "flush.h"
#include "uapi.h"

struct amdxdna;         // an open device
struct amdxdna_context; // a share of its array, with PDIs

// ---- devices ----

struct amdxdna_model {    // by PCI id
    const char * device;  // "npu1", as AMD's files call it
    const char * arch;    // "aie2", "aie2p"
    const char * product; // where the driver has no name for it
    unsigned pci, revision;
    unsigned columns;     // that a context gets
    unsigned heap_chunks; // of 64 MiB, at most
    bool any_revision;
};

enum { AMDXDNA_DEVICES = 64 }; // nodes that are looked at

struct amdxdna_info {
    char path[32];    // "/dev/accel/accel0"
    char product[64]; // as the driver calls it
    const struct amdxdna_model * model;
    bool legacy;      // AMD's old module (1.x); else the driver that is in Linux (0.x)
    int major, minor; // of the driver's interface
    uint32_t firmware[4];
    unsigned columns, rows; // that the array has
};

// What node `index` is. ST_NOT_FOUND: there is none, or not of this driver; ST_UNSUPPORTED: a
// device that we do not know; others say what is in the way (rights, a device that does not
// answer).
enum status amdxdna_probe(int index, struct amdxdna_info * out, struct error * err);
// The driver and firmware as a line for people: "amdxdna 0.16, firmware 1.1.2.64".
void amdxdna_describe(const struct amdxdna_info * info, char * text, size_t size);

enum status amdxdna_open(int index, struct amdxdna ** out, struct error * err);
void amdxdna_close(struct amdxdna * d); // contexts and buffers first
const struct amdxdna_info * amdxdna_info(const struct amdxdna * d);
// Still there? ST_DEVICE: lost; everything fails from then on.
enum status amdxdna_check(struct amdxdna * d, struct error * err);

struct amdxdna_counts { // since the device was opened
    uint64_t calls;     // of the driver
    uint64_t waits;     // that went to the kernel; the others saw the command end
    uint64_t contexts, chains, commands, failed;
    uint64_t heap_bytes; // that are in use
};

void amdxdna_counts(const struct amdxdna * d, struct amdxdna_counts * out);

struct amdxdna_state { // what the device reports of itself now; what it does not report is 0
    uint32_t npu_mhz, array_mhz;
    int power_mode; // -1: it does not say
    uint64_t contexts, contexts_max, tops_max;
    struct xdna_last_error last_error;
    double watts; // -1: no sensor
};

void amdxdna_state(struct amdxdna * d, struct amdxdna_state * out);
// 0 default, 1 low, 2 medium, 3 high, 4 turbo. Root alone may, and it takes seconds to settle.

// ---- buffers ----

struct amdxdna_buffer {
    enum xdna_bo_type type;
    uint32_t handle;
    uint64_t size;   // whole pages
    uint8_t * host;  // where the program sees it
    uint64_t device; // where the device does
};

// SHARE: operands. DEV: PDIs and instruction streams, of the heap; ST_NO_MEMORY when it has no
// room. Fresh ones are flushed.
enum status amdxdna_buffer_new(struct amdxdna * d, enum xdna_bo_type type, uint64_t size,
                               struct amdxdna_buffer * out, struct error * err);
void amdxdna_buffer_free(struct amdxdna * d, struct amdxdna_buffer * b);
// A dma-buf of a SHARE buffer, for another driver to import; the caller closes it.
enum status amdxdna_buffer_export(struct amdxdna * d, const struct amdxdna_buffer * b, int * fd,
                                  struct error * err);
uint64_t amdxdna_heap_limit(const struct amdxdna * d); // bytes that DEV buffers can have in all

// ---- contexts and commands ----

enum { AMDXDNA_PDIS = 32 }; // of a context

// The whole array, with these PDIs; they must live longer than the context.
enum status amdxdna_context_new(struct amdxdna * d, const struct amdxdna_buffer * pdis, unsigned n,
                                struct amdxdna_context ** out, struct error * err);
void amdxdna_context_free(struct amdxdna_context * x);

enum { AMDXDNA_OPERANDS = 64 };

struct amdxdna_command {
    unsigned pdi;     // of the context's, by index
    uint64_t stream;  // device address
    uint32_t n_words; // of it
    unsigned n_operands;
    uint64_t operands[AMDXDNA_OPERANDS]; // device addresses
};

// Runs commands in their order, in as few chains as they fit in, and waits for all. `buffers` are
// the handles of streams and operands, each as often as you like: what is not named may not be
// there. *done commands are complete, also after an error; the one behind them failed. After an
// error the context is of no more use. limit_ms: of a device that is silent; 0: none.
enum status amdxdna_run(struct amdxdna_context * x, const struct amdxdna_command * commands,
                        size_t n, const uint32_t * buffers, size_t n_buffers, uint64_t limit_ms,
                        size_t * done, struct error * err);
