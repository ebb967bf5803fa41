// times: how long things take on a chip, in cycles of the array, as far as the compiler has to
// know: for choosing how work is shared out (array/spread.c, the families' plans), and for saying
// at most how long a kernel takes (the families' bounds, aie/plan/bound.h). One struct, a table of
// it for each chip in times.c, where every figure has its source. What the emulated clock says of
// the same things is its own affair (src/emu/aie/clock.c).
#pragma once

#include "base/arch.h"

#include <stdint.h>

// Cycles for a word of the largest operand in one column, by datatype.
struct aie_word_times {
    int f32, f16, bf16, integer;
};

// The same for row ops: rows that a core keeps, that a memtile holds, and longer ones, which one
// core of a column works through.
struct aie_row_times {
    int kept, held, streamed;
};

// What is likely, where the rest is rather too much: for choosing between ways (aie_likely).
struct aie_likely_times {
    int memory_tenths; // of a byte that host memory brings or takes in a cycle
    int edges;         // before the first slice and behind the last one, with all columns
    int gemm_edges;    // the same of gemm, which has more cores to be told
    int rows;          // of weights that all columns take at a time,
    int gemm_rows;     // and gemm: fewer take as long
    int load;          // of a PDI
    int gemm_slice;    // gemm: a slice of 64 k, whatever its rows of b,
    int gemm_row;      // and more for each of these
};

struct aie_times {
    int slowest_mhz;  // of the array's clock
    int memory_bytes; // that host memory brings or takes in a cycle at the least
    int core_factor;  // the cores' figures below are aie2's; on this chip times so much

    // The instruction stream and PDIs.
    int start;         // before the first word and behind the last
    int column;        // for telling a column
    int again;         // for telling it again, when it is done
    int load;          // three quarters of what loading a PDI takes: what another one must save
    int mixed_most;    // of attention, to run among the decoder's programs,
    int mixed_queries; // of so many queries: those whose products stay there, too

    // Elementwise, rows, moves.
    struct aie_word_times plain, heavy; // one loop that is no series; all else
    int scattered;                      // more, for a word that a descriptor takes by itself
    int row;                            // a row, however short
    struct aie_row_times soft_max, loss, other_rows;
    int sort;          // a word of a row that is sorted, and an eighth for each other
    int pairs[2];      // a word of pairs that are sorted, or merged
    int long_soft[3];  // a word of a row of softmax that no memtile holds: bare, with a mask,
                       // and what exact takes more; 0: as soft_max says
    int mixed_penalty; // most that is lost among other programs, in half of the columns

    // Products: multiplications of all cores in a cycle, and slices of 64 k.
    int macs_i8, macs_i16, macs_bf16;
    int f16_k;           // cycles for a k of 64 rows that are made bf16; 0: it does not count
    int gemm_slice;      // of blocks, by many rows of b
    int gemv_slice;      // by few,
    int gemv_four_rows;  // more for four of these
    int gemv_look_up;    // and for numbers that are looked up in a table,
    int gemv_planes;     // or that become bytes and planes of factors
    int batch;           // that begins and ends a run
    int unpack_slice[2]; // UNPACK: by one core of a column; numbers that are looked up, more
    int unpack_turn[2];  // the same where four cores take turns

    // Attention.
    int attention_step; // of an item

    struct aie_likely_times likely;
};

const struct aie_times * aie_times(enum aie_arch arch); // never NULL for a known arch

// In microseconds, at the slowest clock that the driver gives the array.
uint64_t aie_us(enum aie_arch arch, uint64_t cycles);
