// nvcc-bench: what memory can give. Words of 16 bytes are read, four at a time by each work-item,
// and their sum is written, so that none is left out.
#include "../../src/hip/kernels/compat.h"

struct read_args {
    const void * x;
    u32 n;
    u32 * y;
};

KERNEL(bench_read, read_args) {
    const uint4 * x = (const uint4 *) args.x;
    u32 step = RK_BLOCK * 4, sum = 0;
    for (u32 i = group_index() * step + thread_index(); i < args.n; i += gridDim.x * step) {
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            uint4 s = i + j * RK_BLOCK < args.n ? x[i + j * RK_BLOCK] : uint4{};
            sum += s.x ^ s.y ^ s.z ^ s.w;
        }
    }
    args.y[global_index()] = sum;
}

struct nothing_args {
    void * y;
};

KERNEL(bench_nothing, nothing_args) {
    if (!args.y) {
        *(u32 *) args.y = 0;
    }
}
