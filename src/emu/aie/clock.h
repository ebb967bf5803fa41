// clock: what things cost on a device, as one table of figures. A cycle is one of the array's clock
// ("H clock"). clock.c has the devices with the source of each figure and how far it is to be
// trusted; the files of the machine read the table and hold no figures of their own.
#pragma once

#include "aie/isa/isa.h"

struct emu_clock {
    const char * name;
    uint32_t mhz;

    // ---- core ----
    uint8_t bank_bit; // of an address: chooses the half of a logical bank; 0: no bank is ever busy
    uint8_t lock_stall;  // of an acquire or release, besides its bundle and besides waiting
    uint8_t dma_granule; // bytes that a DMA channel takes from a bank at once
    // How many of 1000 meetings of core and DMA in a bank stall the core: when the core uses the
    // bank in less than half of the cycles, and when it uses it in all of them.
    uint16_t dma_wins_sparse, dma_wins_dense;

    // ---- locks and descriptors ----
    uint8_t lock_to_core; // from the release until the acquire of a waiting core is through
    uint8_t lock_to_s2mm; // ... to the first word that a stream-to-memory channel takes
    uint8_t lock_to_mm2s; // ... to the first word of a memory-to-stream channel
    uint8_t mem_to_mm2s;  // ... of a memtile, from the last word of the channel that filled it
    uint8_t fetch;        // ... of these, from memory to the stream
    uint8_t bd_gap;       // cycles without a word between two descriptors, lock free
    uint8_t task_start;   // first descriptor of a task in a tile or memtile

    // ---- streams ----
    uint8_t stream_words;             // 32-bit words that a stream carries in a cycle
    uint8_t hop_local, hop_outside;   // a switch: into a port of the tile, on to a neighbour
    uint8_t fifo_local, fifo_outside; // words that wait in such a switch
    uint8_t fifo_in;                  // words that wait in front of a stream-to-memory channel
    uint8_t fifo_out;                 // words on their way out of a memory-to-stream channel
    uint8_t
        packet_word; // a control packet's access to one register, before its next word or answer

    // ---- shim and DDR: task i of a channel starts after steady + cold * decay^i ----
    uint16_t mm2s_cold, mm2s_steady, mm2s_decay; // decay in 1/1000
    uint16_t s2mm_cold, s2mm_steady, s2mm_decay;
    uint16_t burst_words; // that a channel asks of memory at once
    uint16_t burst_gap;   // cycles between two bursts of a reading channel
    // Bytes in 1000 cycles, all channels together: one way, and both ways at once. 0: no limit.
    uint32_t ddr_read, ddr_write, ddr_both;
    // Bytes that a run costs at least. A run is what a descriptor reads or writes at addresses that
    // follow each other.
    uint32_t run_bytes;

    // ---- instruction stream ----
    uint16_t txn_write;                 // WRITE32, a task queued by it too
    uint16_t txn_block, txn_block_word; // BLOCKWRITE, and each of its words
    uint16_t txn_mask;                  // MASKWRITE
    uint16_t txn_patch;                 // address patch
    uint16_t txn_sync;                  // the operation itself
    uint16_t token;                     // from the end of a task until a sync has seen its token
    uint16_t txn_token;                 // a token that comes meanwhile holds up the operations

    // ---- dispatch ----
    uint32_t submit_ns;                   // host and driver, for each submission
    uint32_t dispatch_ns;                 // each dispatch, from the command to its first operation
    uint32_t pdi_ns;                      // loading a PDI
    uint32_t pdi_command_ns, pdi_word_ns; // each command of its CDO, each word of its payload
    uint32_t context_ns;                  // making a hardware context, before its first PDI
    uint32_t flush_mb_ns; // 10^6 bytes of the host's caches, flushed once by its CPU
};

// Where the time of a dispatch went. The causes of a dispatch add up to its time: each cycle is
// shared out among the cores that are switched on, a running core's part to itself, a waiting one's
// to what the array waits for.
enum emu_cause {
    EMU_CORE,     // bundles
    EMU_BANK,     // stalls at a memory bank
    EMU_LOCK,     // inside the array: locks, descriptors, words on their way
    EMU_STREAM,   // shim channels move words as fast as they can
    EMU_START,    // shim channels start a task
    EMU_DDR,      // shim channels wait for host memory
    EMU_CONTROL,  // nobody moves: the instruction stream goes on
    EMU_RECONFIG, // a PDI is loaded
    EMU_HOST,     // submission and dispatch
    EMU_FLUSH,    // the host's CPU flushes lines of its caches, which the array does not snoop
    EMU_CAUSES
};
extern const char * const emu_cause_names[EMU_CAUSES];

struct emu_account {
    uint64_t cycles[EMU_CAUSES];
};

uint64_t emu_account_cycles(const struct emu_account * account); // all of it

const struct emu_clock * emu_clock_default(enum aie_arch arch);

// What is published of host memory differs by a factor of two. So each device has three memories.
enum emu_range { EMU_LOW, EMU_LIKELY, EMU_HIGH, EMU_RANGES };
extern const char * const emu_range_names[EMU_RANGES];

// "phoenix", "strix", "ideal", with settings behind it: "phoenix,range=low",
// "phoenix,ddr=0,mhz=1600". The clock that the text asks for goes to *out, whose name points into a
// table. ddr is in GB/s, for either direction and for both together.
enum status emu_clock_parse(const char * text, struct emu_clock * out, struct error * err);

// What stands before the first comma may also be a file, which has a '/' or a '.': clock-file.c.
enum status emu_clock_read(const char * text, size_t size, struct emu_clock * out,
                           struct error * err);
enum status emu_clock_file(const char * path, struct emu_clock * out, struct error * err);

// The figures, by number and by name. emu_clock_set: false where there is none of that name, or the
// value is none that the machine can play.
int emu_clock_figures(void);
const char * emu_clock_figure(int i);
uint32_t emu_clock_value(const struct emu_clock * c, int i);
bool emu_clock_set(struct emu_clock * c, const char * name, uint64_t value);

// What GGML_HSA_EMU_CLOCK asks for, or the default.
enum status emu_clock_get(enum aie_arch arch, struct emu_clock * out, struct error * err);
