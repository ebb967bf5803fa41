// machine: the NPU array as one object. The HSA side (runtime) hands it a PDI, an instruction
// stream and operand addresses, as the firmware of a real NPU would get them; the machine plays the
// array until the stream's last token arrived, or stops with an error that names tile, PC and
// bytes.
//
// One machine is one hardware context: it keeps the configuration that the last PDI left behind and
// loads a PDI only when it differs from the resident one, like the firmware. Not thread safe.
#pragma once

#include "emu/aie/clock.h"

struct emu_machine;

// Where the machine's shim DMA finds host memory: returns a host pointer to len readable (and, for
// write, writable) bytes at device address addr, or NULL when they lie in no allocation.
typedef void * (*emu_resolve_fn)(void * user, uint64_t addr, uint64_t len, bool write);

// Something that took modelled time, reported when it is over: for a timeline.
enum emu_event_kind {
    EMU_EVENT_CORE,     // a core executed bundles; stalls at banks are within
    EMU_EVENT_WAIT,     // a core waited; what says for what
    EMU_EVENT_DMA,      // a channel moved the words of a descriptor
    EMU_EVENT_DMA_WAIT, // a channel waited; what says for what
    EMU_EVENT_CONTROL,  // an operation of the instruction stream; what is its name
    EMU_EVENT_LOCK,     // a lock changed; channel is its number, words its new value
    EMU_EVENT_LOAD,     // a PDI was loaded
    EMU_EVENT_DISPATCH, // a whole dispatch
};

struct emu_event {
    enum emu_event_kind kind;
    int col, row;        // tile; -1: none
    int channel;         // of DMA: S2MM 0.., MM2S 16..; else -1
    const char * what;   // lives as long as the program
    uint64_t start, end; // modelled cycles since the machine was made
    uint64_t words;
};

// How an aie2p core adds floats; aie2's rule was measured. EMU_ADDER_ENV: as GGML_HSA_EMU_ADDER
// says, or aligned.
enum emu_adder { EMU_ADDER_ENV, EMU_ADDER_ALIGNED, EMU_ADDER_IEEE };

// Differences that tests plant, for tools that must find them: an instruction that does what
// another one of the same operands does, and a lock that keeps its value. All zero: none.
struct emu_plant {
    int op, as; // of the architecture's table; as 0: none
    bool stuck;
    int col, row, lock;
};
// What GGML_HSA_EMU_PLANT asks for: "VADD_32=VSUB_32", "lock=COL,ROW,NUMBER", or both, with a
// semicolon between them.
enum status emu_plant_get(enum aie_arch arch, struct emu_plant * out, struct error * err);

struct emu_config {
    enum aie_arch arch;
    const struct emu_clock * clock; // copied; NULL: the usual one of the architecture
    int columns;                    // usable columns of the partition: 4 on aie2, 8 on aie2p
    emu_resolve_fn resolve;
    void * user;
    uint64_t max_cycles; // stop with an error when one dispatch models more; 0 = a generous default
    int wall_s; // stop with an error when one takes more seconds of the host's time; 0 = no limit
    bool single_cycles; // never take many cycles in one go; the results are the same, slower
    // Registers and memories of tiles begin with garbage, not with zeros, and transfers start later
    // than they could, by times that vary: what is right must not depend on either.
    bool strict;
    enum emu_adder adder; // aie2p
    struct emu_plant plant;
    int threads; // host threads that cores may run on; 0 = GGML_HSA_EMU_THREADS, else one per CPU
    int trace_col, trace_row; // tile whose instructions are printed to trace; -1 = none
    void (*trace)(void * user, const char * line);
    void (*event)(void * user, const struct emu_event * event); // NULL: nobody looks
};

struct emu_operand {
    uint64_t addr;
    uint64_t size; // bytes; 0 = unknown
};

// Bytes that passed the shim, by the length of the run that they lay in: less than
// emu_run_limits[i] bytes; the last kind has no limit.
enum { EMU_RUN_KINDS = 7 };
extern const uint32_t emu_run_limits[EMU_RUN_KINDS];
struct emu_runs {
    uint64_t read[EMU_RUN_KINDS], written[EMU_RUN_KINDS];
};

struct emu_counters { // since the machine was made
    uint64_t dispatches;
    uint64_t pdi_loads;
    uint64_t cycles;       // modelled array cycles, summed over dispatches
    uint64_t bundles;      // executed by all cores
    uint64_t core_stalls;  // core cycles spent waiting on locks, streams and memory
    uint64_t bank_stalls;  // those of them at memory banks
    uint64_t stream_words; // words moved by shim DMA
    struct emu_runs runs;  // the same, in bytes
    uint64_t last_cycles;  // of the last dispatch, from its first operation to its last
    uint32_t last_ended;   // operations of its stream that came to their end
    // Loads of cores at addresses that are not aligned or where there is no memory. They end, as on
    // silicon, and what they bring is not worth having: in a program of ours each is a mistake.
    uint64_t stray_loads;
    uint64_t flushed; // bytes of the host's caches
    struct emu_account account, last_account;
};

// What GGML_HSA_EMU_ADDER asks for: "aligned" or "ieee".
enum status emu_adder_get(enum emu_adder * out, struct error * err);

// Can GGML_HSA_EMU_THREADS be read? Asked before a device is offered, for every dispatch would
// fail.
enum status emu_threads_check(struct error * err);

enum status emu_machine_new(const struct emu_config * config, struct emu_machine ** out,
                            struct error * err);
void emu_machine_free(struct emu_machine * m); // NULL is fine

// Runs one dispatch to completion. After an error the machine is reset and the next dispatch loads
// its PDI again; an error never leaves the process in doubt.
enum status emu_machine_run(struct emu_machine * m, const uint8_t * pdi, size_t pdi_size,
                            const uint32_t * insts, size_t n_insts,
                            const struct emu_operand * operands, int n_operands,
                            struct error * err);

// Where the PDI of the next dispatch lies. Firmware knows PDIs by that: at another place it is
// another one, and is loaded, whatever its bytes. Who never says so has them told apart by these.
void emu_machine_pdi_at(struct emu_machine * m, const void * where);

void emu_machine_counters(const struct emu_machine * m, struct emu_counters * out);

// The dispatches that follow were handed over by the host in one go: its time is in the account.
void emu_machine_submit(struct emu_machine * m);
// So is the time that a new hardware context takes.
void emu_machine_context(struct emu_machine * m);
// And that in which its CPU flushes so many bytes.
void emu_machine_flush(struct emu_machine * m, uint64_t bytes);
// The device rested, or another context had its turn: nothing is left of what dispatches before
// did to the array, and the next one loads its PDI.
void emu_machine_rest(struct emu_machine * m);
const struct emu_clock * emu_machine_clock(const struct emu_machine * m);
