// bench: what its parts share. bench.c reads the command line and makes the kernel's spec,
// bench-run.c runs a kernel on the emulated array, bench-report.c tells what came out.
#pragma once

#include "emu/aie/clock.h"
#include "hsa/hsac.h"
#include "store/store.h"
#include "tool.h"

struct bench_task {
    struct kernel_spec spec;
    uint64_t macs;          // 0: no matrix product
    int64_t m, n, k;        // of one
    const char * shape;     // as it was asked for
    struct emu_clock clock; // asked for, or the architecture's own
    bool range;             // under its low, likely and high memory
};

// The kernel that those words ask for ("ADD", "f32", "1024x16"); the clock is left as it is.
enum status bench_task_make(const char * op, const char * type, const char * shape,
                            struct bench_task * t, struct error * err);

struct bench_result {
    const char * source; // "compiled", "from a pack" ...
    char pack[256];      // which, for a pack asked for
    size_t pdi_bytes, insts_words;
    // A dispatch that loads the PDI, and one that finds it there; without texts, which the runtime
    // took with it.
    struct hsac_account first, again;
    struct hsac_account range[EMU_RANGES]; // `again` under each, where the range was asked for
    double wall_seconds;                   // that the emulation of `again` took on this machine
    uint8_t * output;                      // malloc'ed
    size_t output_bytes;
};

enum { BENCH_ROWS = 4, BENCH_CHANNELS = 2 }; // of cores; shim channels of a column and direction
enum { BENCH_LANES = 64 };                   // of aie2p's accumulators

// With pack NULL the kernel comes from where the backend would get it. It is made once; with a
// range it runs under each clock, and at last under the likely one, whose figures are the others.
enum status bench_run(const struct bench_task * t, const char * pack, struct bench_result * out,
                      struct error * err);
void bench_result_free(struct bench_result * r);

// What the hardware could do at best, in cycles; *what says what bounds it.
uint64_t bench_bound(const struct bench_task * t, const char ** what);
int bench_columns(const struct kernel_spec * spec);
int bench_macs(const struct kernel_spec * spec); // of a core in a cycle, 0: not known

// One result, or two side by side.
void bench_print(const struct bench_task * t, const struct bench_result * r, int n, struct buf * b);
void bench_print_json(const struct bench_task * t, const struct bench_result * r, int n,
                      struct buf * b);
