// bench-gfx: how many wave instructions per second the emulated GPU executes, on one host core and
// on all: the kernels of the test corpus that programs are mostly made of. Per second of processor
// time, which is a core's rate whatever else the machine does, and per second on the wall. Prints a
// table, asserts nothing.
#include "bench.h"

#include "emu/gfx/loader.h"

#include <time.h>
#include <unistd.h>

enum { COUNT = 1 << 20, COLUMNS = 1000, ROWS = 1024, SIDE = 256 };

static void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    (void) user, (void) len, (void) write; // what is measured here is trusted
    return addr < 1 << 20 ? NULL : (void *) (uintptr_t) addr;
}

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

struct kernel {
    const char * name;
    uint32_t grid[3];
    uint16_t group[3];
    int numbers[3];
    int pointers;
};

static const struct kernel kernels[] = {
    {"add", {COUNT, 1, 1}, {256, 1, 1}, {COUNT}, 3},
    {"gelu", {COUNT, 1, 1}, {256, 1, 1}, {COUNT}, 2},
    {"softmax", {ROWS * 256, 1, 1}, {256, 1, 1}, {COLUMNS}, 2},
    {"matmul", {SIDE, SIDE, 1}, {16, 16, 1}, {SIDE, SIDE, SIDE}, 3},
};

// Repeats for about a second and keeps the fastest run, which the rest of the machine disturbed
// least.
static void measure(struct gfx * gpu, const struct image * image, const struct kernel * k,
                    float ** buffers, int threads) {
    char name[64];
    snprintf(name, sizeof name, "%s.kd", k->name);
    uint64_t object = image_symbol(image, name);
    _Alignas(64) uint8_t kernarg[64] = {0};
    for (int i = 0; i < k->pointers; i++) {
        memcpy(kernarg + 8 * i, &buffers[k->pointers == 2 && i == 1 ? 2 : i], 8);
    }
    memcpy(kernarg + 8 * k->pointers, k->numbers, sizeof k->numbers);
    _Alignas(64) struct aql packet = {.header = 2, .setup = 3};
    const uint8_t * kd = (const uint8_t *) (uintptr_t) object;
    struct gfx_dispatch d = {.kernel_object = object,
                             .kernarg = (uintptr_t) kernarg,
                             .packet = (uintptr_t) &packet,
                             .group_bytes = load_u32(kd),
                             .private_bytes = load_u32(kd + 4)};
    for (int i = 0; i < 3; i++) {
        packet.grid[i] = d.grid[i] = k->grid[i];
        packet.group[i] = d.group[i] = k->group[i];
    }
    double best = 1e9, best_cpu = 1e9, begin = seconds(CLOCK_MONOTONIC);
    struct gfx_counters before, after;
    uint64_t instructions = 0;
    for (int i = 0; i < 3 || seconds(CLOCK_MONOTONIC) - begin < 1; i++) {
        struct error err;
        gfx_counters_get(gpu, &before);
        double start = seconds(CLOCK_MONOTONIC), start_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        if (gfx_run(gpu, &d, &err) != ST_OK) {
            fprintf(stderr, "%s: %s\n", k->name, err.text);
            return;
        }
        double time = seconds(CLOCK_MONOTONIC) - start;
        double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - start_cpu;
        best = time < best ? time : best;
        best_cpu = cpu < best_cpu ? cpu : best_cpu;
        gfx_counters_get(gpu, &after);
        instructions = after.instructions - before.instructions;
    }
    printf("%-10s %8d %10.2f %10.1f %22.1f %20.1f\n", k->name, threads, best * 1e3,
           (double) instructions * 1e-6, (double) instructions / best_cpu * 1e-6,
           (double) instructions / best * 1e-6);
}

int main(int argc, char ** argv) {
    bench_no_arguments(argc, argv, "bench-gfx", "how fast the emulated GPUs are");
    if (!rig_have_compiler()) {
        printf("bench-gfx: no " RIG_COMPILER ", nothing measured\n");
        return 0;
    }
    float * buffers[3];
    for (int i = 0; i < 3; i++) {
        buffers[i] = aligned_alloc(4096, sizeof(float) * COUNT);
        for (int j = 0; buffers[i] && j < COUNT; j++) {
            buffers[i][j] = (float) (j % 1000 * 7919 % 1000) * 0.004f - 2;
        }
        if (!buffers[i]) {
            return 1;
        }
    }
    printf("%-10s %8s %10s %10s %22s %20s\n", "kernel", "threads", "ms", "M instr.",
           "M instr./s of a core", "M instr./s");
    int cores = (int) sysconf(_SC_NPROCESSORS_ONLN);
    for (int arch = GFX_90A; arch <= GFX_1100; arch++) {
        char out[] = "/tmp/bench-gfx-XXXXXX";
        struct image image;
        int fd = mkstemp(out);
        if (fd < 0 || close(fd) || !rig_compile(gfx_arch_name(arch), CORPUS, out) ||
            !image_load(&image, out)) {
            return 1;
        }
        unlink(out);
        printf("%s\n", gfx_arch_name(arch));
        for (int threads = 1;; threads = cores) {
            struct gfx_config c = {.arch = arch, .threads = threads, .resolve = resolve};
            struct gfx * gpu;
            struct error err;
            if (gfx_new(&c, &gpu, &err) != ST_OK) {
                fprintf(stderr, "%s\n", err.text);
                return 1;
            }
            for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
                measure(gpu, &image, &kernels[i], buffers, threads);
            }
            gfx_free(gpu);
            if (threads >= cores) {
                break;
            }
        }
        image_free(&image);
    }
    for (int i = 0; i < 3; i++) {
        free(buffers[i]);
    }
    return 0;
}
