// bench-store: what a kernel costs that was compiled before: in memory, and on disk for a store
// that has just been opened; and what it costs to put one there. Times are of this machine and its
// disk. Prints a table, asserts nothing.
#include "bench.h"

#include "store/store.h"

enum { KERNELS = 200, ROUNDS = 50 };

static void die(const struct error * err) {
    fprintf(stderr, "bench-store: %s\n", err->text);
    exit(1);
}

static struct store * open_store(void) {
    struct store * s;
    struct error err = {0};
    if (store_new(&s, &err) != ST_OK) {
        die(&err);
    }
    return s;
}

static void get(struct store * s, int64_t n) {
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    spec.inputs[0] = spec.inputs[1] = spec.output =
        tensor_contiguous(DTYPE_F32, (const int64_t[TENSOR_DIMS]){n, 1, 1, 1});
    struct store_kernel * k;
    struct error err = {0};
    if (store_get(s, &spec, &k, &err) != ST_OK) {
        die(&err);
    }
}

// What a node asks before its kernel is sent: a product of one row and m rows of q4_0.
static void ask(struct store * s, enum aie_arch arch, int64_t m) {
    const int64_t k = 2048, words = k / 32 * 18 / 4;
    struct kernel_spec spec = {
        .op = KERNEL_OP_MUL_MAT_BLOCKS, .arch = arch, .n_inputs = 2, .params[0] = KERNEL_Q4_0};
    spec.inputs[0] = tensor_contiguous(DTYPE_I32, (const int64_t[TENSOR_DIMS]){words, m, 1, 1});
    spec.inputs[1] = tensor_contiguous(DTYPE_F32, (const int64_t[TENSOR_DIMS]){k, 1, 1, 1});
    spec.output = tensor_contiguous(DTYPE_F32, (const int64_t[TENSOR_DIMS]){m, 1, 1, 1});
    struct store_kernel * kernel;
    struct error err = {0};
    if (store_us(s, &spec) == 0 || !store_can_itself(s, &spec)) {
        die(&err);
    }
    if (store_get(s, &spec, &kernel, &err) != ST_OK) {
        die(&err);
    }
    store_put(s, kernel);
}

// Without a cache on disk: what the compiler and the store take. The first kernel brings the PDI.
static void bench_nodes(void) {
    static double times[KERNELS];
    char what[100];
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 1);
    for (int arch = 0; arch < AIE_ARCH_COUNT; arch++) {
        struct store * s = open_store();
        ask(s, (enum aie_arch) arch, 512);
        for (int i = 0; i < KERNELS; i++) {
            double t0 = bench_seconds();
            ask(s, (enum aie_arch) arch, 1024 + 64 * i);
            times[i] = bench_seconds() - t0;
        }
        snprintf(what, sizeof what, "%s: ask for and make a q4_0 product of one row, median",
                 kernel_arch_name((enum aie_arch) arch));
        bench_row(what, bench_median(times, KERNELS) * 1e6, "us", "");
        double best = 1e9;
        for (int round = 0; round < ROUNDS; round++) {
            double t0 = bench_seconds();
            for (int i = 0; i < KERNELS; i++) {
                ask(s, (enum aie_arch) arch, 1024 + 64 * i);
            }
            double t = (bench_seconds() - t0) / KERNELS;
            best = t < best ? t : best;
        }
        snprintf(what, sizeof what, "%s: ask for it again", kernel_arch_name((enum aie_arch) arch));
        bench_row(what, best * 1e6, "us", "");
        store_free(s);
    }
}

static void must_have(struct store * s, uint64_t hits, uint64_t compiles) {
    struct store_stats stats;
    store_get_stats(s, &stats);
    if (stats.cache_hits != hits || stats.compiles != compiles) {
        fprintf(stderr, "bench-store: %llu hits on disk and %llu compiles, not %llu and %llu\n",
                (unsigned long long) stats.cache_hits, (unsigned long long) stats.compiles,
                (unsigned long long) hits, (unsigned long long) compiles);
        exit(1);
    }
}

static void bench(void) {
    static double times[KERNELS];
    struct store * s = open_store();
    for (int i = 0; i < KERNELS; i++) {
        double t0 = bench_seconds();
        get(s, 1000 + i);
        times[i] = bench_seconds() - t0;
    }
    must_have(s, 0, KERNELS);
    bench_row("compile one ADD f32 and put it on disk, median", bench_median(times, KERNELS) * 1e6,
              "us", "");

    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double t0 = bench_seconds();
        for (int i = 0; i < KERNELS; i++) {
            get(s, 1000 + i);
        }
        double t = (bench_seconds() - t0) / KERNELS;
        best = t < best ? t : best;
    }
    bench_row("hit in memory", best * 1e6, "us", "<= 1");
    store_free(s);

    for (int i = 0; i < KERNELS; i++) {
        double t0 = bench_seconds();
        s = open_store();
        get(s, 1000 + i);
        times[i] = bench_seconds() - t0;
        must_have(s, 1, 0);
        store_free(s);
    }
    bench_row("hit on disk, store opened for it, median", bench_median(times, KERNELS) * 1e6, "us",
              "<= 200");
    bench_row("    slowest of 200", times[KERNELS - 1] * 1e6, "us", "");

    s = open_store();
    for (int i = 0; i < KERNELS; i++) {
        double t0 = bench_seconds();
        get(s, 1000 + i);
        times[i] = bench_seconds() - t0;
    }
    must_have(s, KERNELS, 0);
    bench_row("hit on disk, store in use, median", bench_median(times, KERNELS) * 1e6, "us",
              "<= 200");
    store_free(s);
}

int main(int argc, char ** argv) {
    bench_no_arguments(argc, argv, "bench-store",
                       "what finding a kernel takes, in memory and on disk");
    char dir[512];
    bench_dir_new(dir);
    setenv("GGML_HSA_KERNEL_CACHE_DIR", dir, 1);
    setenv("GGML_HSA_KERNEL_DIR", "", 1);
    unsetenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE");
    unsetenv("GGML_HSA_KERNEL_CACHE_CLEAR");
    unsetenv("GGML_HSA_JIT_CLEAR_CACHE");
    bench_head();
    bench();
    bench_nodes();
    bench_dir_remove(dir);
    return 0;
}
