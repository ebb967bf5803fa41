// times: the chips' figures. Sources:
//
//     [driver]  the lowest level of the clock in the Linux driver's table: an array begins with it,
//               and no runtime that there is asks for more
//     [memory]  12 GB/s on aie2, 45 on aie2p
//     [bench]   bench-ops and bench-mul-mat on the emulated device, rounded up, for the whole class
//               of an op, so that no kernel takes longer than is said by much; tests/aie/ops hold
//               every kernel that they run against it
//     [likely]  the emulated device's clock (src/emu/aie/clock.c) at its likely memory, and what
//               `ggml-hsa bench MUL_MAT` tells on it of 2048 x 2048
//     [spread]  docs/spread.md: what the controller takes for its operations, fitted to bench-ops
#include "times.h"

// The same on both: what [bench] and [spread] gave for aie2, with core_factor.
#define COMMON                                                                                     \
    .start = 60000,                   /* [bench] */                                                \
        .column = 4500,               /* [spread] */                                               \
        .again = 60000,               /* [spread] */                                               \
        .load = 400000,               /* [spread] */                                               \
        .plain = {4, 8, 5, 2},        /* [bench] */                                                \
        .heavy = {14, 30, 21, 7},     /* [bench] */                                                \
        .scattered = 8,               /* [bench] */                                                \
        .row = 1000,                  /* [bench] */                                                \
        .soft_max = {7, 13, 28},      /* [bench] */                                                \
        .loss = {18, 18, 18},         /* [bench] */                                                \
        .other_rows = {4, 5, 9},      /* [bench] */                                                \
        .sort = 5,                    /* [bench] */                                                \
        .pairs = {10, 3},             /* [bench] */                                                \
        .mixed_penalty = 400000,      /* what would lose more has a PDI of its own */              \
        .macs_bf16 = 2048,            /* the multiplier's rate, all cores */                       \
        .gemm_slice = 6000,           /* [bench] */                                                \
        .batch = 30000,               /* [bench] */                                                \
        .unpack_slice = {7000, 9000}, /* [bench] */                                                \
        .unpack_turn = {3000, 3000},  /* [bench] */                                                \
        .attention_step = 40000       /* [bench] */

static const struct aie_times chips[AIE_ARCH_COUNT] = {
    [AIE_ARCH_AIE2] =
        {
            .slowest_mhz = 800, // [driver]
            .memory_bytes = 11, // [memory]
            .core_factor = 1,
            .mixed_most = 1 << 20, // loading attention's PDI and the decoder's again
            .mixed_queries = 48,   // [likely] 2048 x 2048 of q4_0: 64 rows are gemm's
            .macs_i8 = 4096,       // the multiplier's rate, all cores
            .macs_i16 = 1024,
            .gemv_slice = 1600,    // [bench]
            .gemv_four_rows = 900, // [bench]
            .gemv_look_up = 4400,  // [bench]
            .gemv_planes = 2400,   // [bench]
            // [likely]
            .likely = {.memory_tenths = 156,
                       .edges = 25000,
                       .gemm_edges = 45000,
                       .rows = 512,
                       .gemm_rows = 256,
                       .load = 460000,
                       .gemm_slice = 100,
                       .gemm_row = 40},
            COMMON,
        },
    [AIE_ARCH_AIE2P] =
        {
            .slowest_mhz = 792,        // [driver]
            .memory_bytes = 24,        // [memory]
            .core_factor = 4,          // fewer accumulators; a core waits for memory instead
            .mixed_most = 3 << 20,     // loading attention's PDI and the decoder's again
            .mixed_queries = 127,      // [likely] gemm's are 250; of 128 a prompt is made
            .long_soft = {36, 44, 13}, // measured: 33.0 fast and 44.7 exact (200000x1)
            .macs_i8 = 16384,          // the multiplier's rate, all cores
            .macs_i16 = 4096,
            .f16_k = 64,
            .gemv_slice = 4800,   // [bench]
            .gemv_look_up = 8000, // [bench]
            // [likely]
            .likely = {.memory_tenths = 278,
                       .edges = 45000,
                       .gemm_edges = 90000,
                       .rows = 1024,
                       .gemm_rows = 256,
                       .load = 1680000,
                       .gemm_slice = 600,
                       .gemm_row = 82},
            COMMON,
        },
};

const struct aie_times * aie_times(enum aie_arch arch) {
    return &chips[arch];
}

uint64_t aie_us(enum aie_arch arch, uint64_t cycles) {
    uint64_t mhz = (uint64_t) chips[arch].slowest_mhz;
    return (cycles + mhz - 1) / mhz;
}
