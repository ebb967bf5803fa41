// ggml-hsa: the ggml backend for AMD NPUs. The backend is a plugin (libggml-hsa.so): load it with
// ggml_backend_load(path) or GGML_BACKEND_PATH, then use ggml's own device and backend functions.
// A program that links the library calls ggml_backend_hsa_reg() instead. What this header adds to
// ggml's interface is also reachable by name through ggml_backend_reg_get_proc_address().
#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GGML_HSA_NAME        "HSA"
#define GGML_HSA_MAX_DEVICES 16

// The registry entry. It is made at the first call and lives as long as the process. NULL when the
// ggml in this process has a layout that we do not know; one line on ggml's log says so.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_hsa_reg(void);

// How many devices were found, NPUs and then GPUs; 0 is a valid answer, and the log says why.
GGML_BACKEND_API int ggml_backend_hsa_get_device_count(void);

// A stream of the device HSA<device>; free it with ggml_backend_free(). NULL when there is no such
// device or its queue cannot be made. Streams of one device are independent: each may be used by
// one thread at a time, several by several threads at once.
GGML_BACKEND_API ggml_backend_t ggml_backend_hsa_init(int device);

GGML_BACKEND_API bool ggml_backend_is_hsa(ggml_backend_t backend);

// Memory that the device computes in; the host reaches it through ggml's tensor set and get.
// NULL when there is no such device.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_hsa_buffer_type(int device);

// The same memory declared as host memory, so that the CPU backend can compute in it as well.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_hsa_host_buffer_type(int device);

// What a device did since the process began. All counts only grow.
struct ggml_backend_hsa_stats {
    uint64_t kernels_compiled; // kernels made by the compiler in this process
    uint64_t compile_ns;       // time spent in it
    uint64_t pack_hits;        // kernels that came from a pack
    uint64_t memory_hits;      // kernels that were in memory already
    uint64_t dispatches;       // kernels sent to the device
    uint64_t host_copies;      // nodes that move data about (CPY, GET_ROWS ...), done by the host,
                               // and small ones that loading a PDI would take longer for
    uint64_t staged_operands;  // operands that the host laid out anew for a kernel
    uint64_t cpu_nodes;        // nodes that the CPU fallback computed
    uint64_t streams_made;     // kernels of shapes that no pack has, on a pack's program
    uint64_t kept_nodes;       // nodes that were sent as one like them was planned before
    uint64_t operations;       // of the instruction streams of all kernels that were sent to a NPU
    uint64_t waits;            // times that the host waited for the device, ends of graphs included
    uint64_t packets;          // that kernels were sent to a NPU in: those that follow each other
                               // on one program are one
    uint64_t flushed_bytes;    // of the CPU's caches, for a NPU, which does not snoop them
    uint64_t graphs;           // that were computed, or failed
    uint64_t driver_calls;     // of the kernel's driver, where our own runtime drives the NPU
    uint64_t driver_contexts;  // hardware contexts that it made
    uint64_t copied_bytes;     // that came to its memory from another device's
};

// What an emulated device counts in its machine; see ggml_backend_hsa_get_counters.
struct ggml_backend_hsa_counters {
    uint64_t dispatches;
    uint64_t pdi_loads;    // array configurations
    uint64_t cycles;       // modelled array cycles of all dispatches
    uint64_t last_cycles;  // of the last dispatch
    uint64_t bundles;      // instructions issued by all cores
    uint64_t core_stalls;  // cycles in which a core waited for a lock or a stream
    uint64_t stream_words; // 32-bit words moved through the array's streams
};

// Where the modelled time of an emulated NPU went; see ggml_backend_hsa_get_account. The causes are
// core, bank, lock, stream, start-up, DDR, control, reconfig, host and flush (docs/profiling.md).
enum { GGML_BACKEND_HSA_CAUSES = 10, GGML_BACKEND_HSA_RUNS = 7 };

struct ggml_backend_hsa_account {
    uint64_t size; // of this struct, set by the caller: later versions append to it
    uint64_t dispatches;
    uint64_t pdi_loads;
    uint64_t cycles; // of the array
    uint64_t bundles;
    uint64_t core_stalls, bank_stalls; // core cycles; those at memory banks are among the former
    uint64_t stream_words;
    uint64_t ns; // modelled time, of all causes together
    struct {
        const char * name; // lives as long as the process
        uint64_t cycles;   // of the clock
    } causes[GGML_BACKEND_HSA_CAUSES];
    const char * clock; // the device whose figures are used; "" before the first dispatch
    uint64_t mhz;
    // Bytes through the shim by the length of the run that they lay in, at addresses that follow
    // each other: runs of less than `below` bytes and no less than the one before; 0: all that are
    // longer.
    struct {
        uint64_t below, read, written;
    } runs[GGML_BACKEND_HSA_RUNS];
    uint64_t flushed; // bytes of the CPU's caches, by us and by what packets declare
};

// False when dev is not one of ours.
GGML_BACKEND_API bool ggml_backend_hsa_get_stats(ggml_backend_dev_t dev,
                                                 struct ggml_backend_hsa_stats * out);

// False when dev is not one of ours or is not emulated; *out is then all zero.
GGML_BACKEND_API bool ggml_backend_hsa_get_counters(ggml_backend_dev_t dev,
                                                    struct ggml_backend_hsa_counters * out);

// False when dev is no emulated NPU of ours, or when out->size is not set.
GGML_BACKEND_API bool ggml_backend_hsa_get_account(ggml_backend_dev_t dev,
                                                   struct ggml_backend_hsa_account * out);

// Why the device itself does not compute a node, as one line with the limit that was met. False,
// and an empty text, when it does, or when dev is not one of ours.
GGML_BACKEND_API bool ggml_backend_hsa_why_not(ggml_backend_dev_t dev,
                                               const struct ggml_tensor * op, char * text,
                                               size_t size);

// What GGML_HSA_PROFILE has counted of the device so far is forgotten, as between a run that warms
// up and the one that is meant. No graph may be computed meanwhile.
GGML_BACKEND_API void ggml_backend_hsa_clear_profile(ggml_backend_dev_t dev);

// How many of ggml's ops the device HSA<device> computes no nodes of; text is their names, with
// blanks between them, cut to size. -1 when there is no such device.
GGML_BACKEND_API int ggml_backend_hsa_missing_ops(int device, char * text, size_t size);

typedef bool (*ggml_backend_hsa_get_stats_t)(ggml_backend_dev_t dev,
                                             struct ggml_backend_hsa_stats * out);
typedef bool (*ggml_backend_hsa_get_counters_t)(ggml_backend_dev_t dev,
                                                struct ggml_backend_hsa_counters * out);
typedef bool (*ggml_backend_hsa_get_account_t)(ggml_backend_dev_t dev,
                                               struct ggml_backend_hsa_account * out);
typedef void (*ggml_backend_hsa_clear_profile_t)(ggml_backend_dev_t dev);
typedef bool (*ggml_backend_hsa_why_not_t)(ggml_backend_dev_t dev, const struct ggml_tensor * op,
                                           char * text, size_t size);

#ifdef __cplusplus
}
#endif
