// hsa-emu: what our HSA runtime (libhsa-npu.so) exports beside the hsa_* functions of
// libhsa-runtime64.so.1. The functions are thread safe and need an initialised runtime.
//
// Environment, read by hsa_init:
//   GGML_HSA_EMULATE        comma list of agents to emulate: aie2, gfx90a, gfx942, gfx1100,
//   gfx1151, in any
//                           order and more than once. aie2p:4 is a NPU of four columns. Unset:
//                           the NPUs of this machine, through the kernel's driver
//   GGML_HSA_EMU_TRACE      col,row: print the instructions of that tile to stderr
//   GGML_HSA_TRACE          file for what NPUs did over modelled time, as Chrome's trace events
//   GGML_HSA_EMU_TIME       modelled: HSA's timestamps are what emulated NPUs have taken; host
//   GGML_HSA_EMU_PLANT      a difference to be found, see emu/aie/machine.h
//   GGML_HSA_EMU_ROCR_BUGS  1: behave like ROCr 7.2, faults included (packet ABI B only); what
//   would
//                           end the process there stops the queue with a message
//   GGML_HSA_EMU_CONTEXT_IDS  with it: ids of hardware contexts before they come round, 255
//   GGML_HSA_EMU_CACHES     1: NPUs see memory behind the CPU's caches, as real ones do; another
//                           number is a seed for the lines that are written back by themselves
//   GGML_HSA_EMU_REST       1: the array of a NPU is cleared before each doorbell, as after a rest
#ifndef HSA_EMU_H
#define HSA_EMU_H

#if !defined(LITTLEENDIAN_CPU) && !defined(BIGENDIAN_CPU)
#    define LITTLEENDIAN_CPU // hsa.h of ROCm 5.2 finds this out on x86 only
#endif
#include <hsa/hsa.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Of one agent, since hsa_init. A GPU has no cycles, PDIs and streams: these stay 0.
struct hsa_emu_counters {
    uint64_t dispatches;
    uint64_t pdi_loads;
    uint64_t cycles;       // modelled array cycles, summed over dispatches
    uint64_t bundles;      // instruction bundles executed by all cores; of a GPU: by all waves
    uint64_t core_stalls;  // core cycles spent waiting on locks, streams and memory
    uint64_t stream_words; // 32-bit words moved by shim DMA
    uint64_t last_cycles;  // modelled cycles of the last dispatch
    uint64_t doorbells;
    uint64_t queues_created;
    uint64_t errors; // packets that put a queue into the error state
};

// HSA_STATUS_ERROR_INVALID_AGENT for a handle that is no emulated NPU or GPU.
hsa_status_t hsa_emu_counters(hsa_agent_t agent, struct hsa_emu_counters * out);

// A kernel that an emulated GPU ran: what its code object says of it, and what its waves executed.
enum { HSA_EMU_KINDS = 11, HSA_EMU_LAUNCHES = 64 };

struct hsa_emu_launch {
    size_t size;                // of this struct, set by the caller: later versions append to it
    uint64_t number;            // 1: the agent's first
    char kernel[64];            // "": of a code object that is gone
    uint32_t grid[3], group[3]; // work-items
    uint32_t lanes;             // of a wave
    uint32_t vgprs;             // of a lane, those for accumulation included
    uint32_t group_bytes, private_bytes; // LDS of a group, scratch of a work-item
    uint64_t waves, instructions;        // instructions: of waves
    struct {
        const char * name;            // lives as long as the process
        uint64_t instructions, bytes; // bytes: of memory or LDS, of all lanes that were on
    } kinds[HSA_EMU_KINDS];
};

// A launch by its number, 0: the last one. HSA_EMU_LAUNCHES are remembered; of kernels of several
// queues that run at the same time the counts are not told apart. HSA_STATUS_ERROR_INVALID_INDEX
// where there was none; HSA_STATUS_ERROR_INVALID_AGENT for a handle that is no emulated GPU.
hsa_status_t hsa_emu_launch(hsa_agent_t agent, uint64_t number, struct hsa_emu_launch * out);

// How many columns the array of a NPU has: kernels are made for so many. ROCr does not tell; who
// has a real NPU asks its driver. HSA_STATUS_ERROR_INVALID_AGENT for a handle that is no emulated
// NPU.
hsa_status_t hsa_emu_columns(hsa_agent_t agent, uint32_t * columns);

// Where modelled time went: so many cycles of the clock to each cause, which together are the time.
// A cycle of the array is shared out among the cores that are switched on; a running core's part is
// its own, a waiting one's goes to what the array waits for. docs/profiling.md has the causes.
enum { HSA_EMU_CAUSES = 10, HSA_EMU_RUNS = 7 };

struct hsa_emu_account {
    uint64_t size; // of this struct, set by the caller: later versions append to it
    uint64_t dispatches;
    uint64_t pdi_loads;
    uint64_t cycles; // of the array
    uint64_t bundles;
    uint64_t core_stalls, bank_stalls; // core cycles; those at memory banks are among the former
    uint64_t stream_words;
    uint64_t ns; // of all causes: with what the host, the driver and loading PDIs take
    struct {
        const char * name; // lives as long as the library is loaded
        uint64_t cycles;
    } causes[HSA_EMU_CAUSES];
    const char * clock; // name of the device whose figures are used; "" before the first dispatch
    uint64_t mhz;
    // Bytes through the shim by the length of the run that they lay in, at addresses that follow
    // each other: runs of less than `below` bytes and no less than the one before; 0: all that are
    // longer.
    struct {
        uint64_t below, read, written;
    } runs[HSA_EMU_RUNS];
    uint64_t flushed; // bytes of the host's caches, by the program and by what packets declare
};

// dispatch 0 asks for all of a NPU's dispatches since hsa_init, n for the n-th alone, in the order
// in which they ran; as many are remembered as a queue has packets. What the host spends to hand a
// batch over belongs to its first. HSA_STATUS_ERROR_INVALID_INDEX: it is forgotten or was not yet.
hsa_status_t hsa_emu_account(hsa_agent_t agent, uint64_t dispatch, struct hsa_emu_account * out);

// What the n-th dispatch of a NPU will be called in the file of GGML_HSA_TRACE: one line that names
// it, and behind a line end whatever else is to be known of it. It is copied; without a trace it is
// not kept. HSA_STATUS_ERROR_INVALID_INDEX: it ran already, or a queue has not so many packets.
hsa_status_t hsa_emu_name(hsa_agent_t agent, uint64_t dispatch, const char * text);

// A NPU of this machine, through the kernel's driver: what was asked of that since hsa_init.
struct hsa_emu_native {
    uint64_t size; // of this struct, set by the caller: later versions append to it
    uint64_t dispatches;
    uint64_t pdi_switches; // dispatches whose PDI was not that of the one before
    uint64_t calls;        // of the driver
    uint64_t waits;        // that slept in the kernel
    uint64_t contexts;     // that were made
    uint64_t chains;       // submissions
    uint64_t failed;
    uint64_t heap_bytes;    // of the device heap in use
    uint64_t flushed_bytes; // of the CPU's caches, by this library
    char path[32];          // "/dev/accel/accel0"
    char driver[96];        // its version, and the firmware's
};

// HSA_STATUS_ERROR_INVALID_AGENT for an agent that is emulated, or no NPU.
hsa_status_t hsa_emu_native(hsa_agent_t agent, struct hsa_emu_native * out);

// The program flushed these bytes from the CPU's caches, because the NPU does not snoop them: it is
// in the account, and with GGML_HSA_EMU_CACHES the NPU sees what was written, and the program what
// the NPU wrote. Who has real hardware uses the CPU's instruction. HSA_STATUS_ERROR_INVALID_AGENT
// for a handle that is no emulated NPU: then that is to be done.
hsa_status_t hsa_emu_flushed(hsa_agent_t agent, const void * at, size_t size);

// Text of the last packet error of an agent; handle 0 asks for the last error of hsa_init (also
// while the runtime is not initialised). Empty when there was none. The text belongs to the calling
// thread and stays valid until it calls this function again.
const char * hsa_emu_last_error(hsa_agent_t agent);

#ifdef __cplusplus
}
#endif

#endif
