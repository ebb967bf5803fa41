// nvcc-bench: how fast the kernels are as CUDA on an NVIDIA GPU, beside what that GPU can do:
// products of matrices beside cuBLAS without TF32, products with few columns and attention beside
// its memory. nvcc-bench.sh builds and runs it; it is no part of the test suite.
//
//   nvcc-bench memory|columns|attention|products FILE.cubin...
//
// Kept true: what is timed is compared with double precision, computed here; inputs are random and
// larger than the GPU's caches, or several that take turns. A time is the median of seven runs of a
// graph of launches, each of which waits for the one before it, divided by their number.
#include "nvcc-rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct copy_job {
    CUdeviceptr from, to;
    size_t size;
};

static void call_copy(void * user, int turn) {
    struct copy_job * j = user;
    (void) turn;
    bench_must(cuMemcpyDtoDAsync(j->to, j->from, j->size, bench_stream), "copy");
}

static void call_nothing(void * user, int turn) {
    (void) turn;
    bench_launch("bench_nothing", user, sizeof(CUdeviceptr), 132, 1, 1, RK_BLOCK);
}

static double copied, read_alone; // bytes a second

static void measure_memory(void) {
    struct copy_job j = {.size = (size_t) 1 << 30};
    j.from = bench_room(j.size);
    j.to = bench_room(j.size);
    bench_must(cuMemsetD32(j.from, 0x3f9d70a4, j.size / 4), "set");
    copied = 2.0 * (double) j.size / bench_time(call_copy, &j, 4);
    read_alone = (double) j.size / bench_read_time(j.size);
    bench_bandwidth = read_alone > copied ? read_alone : copied;
    cuMemFree(j.from), cuMemFree(j.to);
}

static void print_memory(void) {
    static const size_t sizes[] = {9, 17, 33, 67, 134, 268};
    CUdeviceptr nothing = bench_room(4);
    bench_describe();
    printf("memory: copied %.2f TB/s (read and written), read %.2f TB/s; 4.80 by its data sheet\n",
           copied / 1e12, read_alone / 1e12);
    printf("a launch that does nothing, behind another: %.2f us\n",
           bench_time(call_nothing, &nothing, 256) * 1e6);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        double took = bench_read_time(sizes[i] * 1000000);
        printf("a launch that reads %3zu MB: %.2f us, %.1f %% of memory\n", sizes[i], took * 1e6,
               100 * (double) sizes[i] * 1e6 / took / bench_bandwidth);
    }
    cuMemFree(nothing);
}

int main(int argc, char ** argv) {
    static const struct {
        const char * name;
        void (*run)(void);
    } sections[] = {{"memory", print_memory},
                    {"columns", bench_columns},
                    {"attention", bench_attention},
                    {"products", bench_products}};
    setvbuf(stdout, NULL, _IOLBF, 0);
    bench_open(argc - 2, argv + 2);
    measure_memory(); // what the others are compared with
    for (size_t i = 0; argc > 1 && i < sizeof sections / sizeof sections[0]; i++) {
        if (!strcmp(argv[1], sections[i].name)) {
            sections[i].run();
        }
    }
    if (bench_wrong) {
        printf("%d wrong\n", bench_wrong);
    }
    return bench_wrong != 0;
}
