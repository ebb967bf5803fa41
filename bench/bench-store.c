// bench-store: what a kernel costs that was compiled before: in memory, and on disk for a store
// that has just been opened; and what it costs to put one there. Times are of this machine and its
// disk. Prints a table, asserts nothing.
#include "store/store.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { KERNELS = 200, ROUNDS = 50 };

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static void row(const char * what, double measured, const char * unit, const char * target) {
    printf("%-52s %10.3f %-22s %s\n", what, measured, unit, target);
}

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

static int by_value(const void * a, const void * b) {
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static double median(double * v, int n) {
    qsort(v, (size_t) n, sizeof *v, by_value);
    return v[n / 2];
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
        double t0 = seconds();
        get(s, 1000 + i);
        times[i] = seconds() - t0;
    }
    must_have(s, 0, KERNELS);
    row("compile one ADD f32 and put it on disk, median", median(times, KERNELS) * 1e6, "us", "");

    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double t0 = seconds();
        for (int i = 0; i < KERNELS; i++) {
            get(s, 1000 + i);
        }
        double t = (seconds() - t0) / KERNELS;
        best = t < best ? t : best;
    }
    row("hit in memory", best * 1e6, "us", "<= 1");
    store_free(s);

    for (int i = 0; i < KERNELS; i++) {
        double t0 = seconds();
        s = open_store();
        get(s, 1000 + i);
        times[i] = seconds() - t0;
        must_have(s, 1, 0);
        store_free(s);
    }
    row("hit on disk, store opened for it, median", median(times, KERNELS) * 1e6, "us", "<= 200");
    row("    slowest of 200", times[KERNELS - 1] * 1e6, "us", "");

    s = open_store();
    for (int i = 0; i < KERNELS; i++) {
        double t0 = seconds();
        get(s, 1000 + i);
        times[i] = seconds() - t0;
    }
    must_have(s, KERNELS, 0);
    row("hit on disk, store in use, median", median(times, KERNELS) * 1e6, "us", "<= 200");
    store_free(s);
}

static int remove_one(const char * path, const struct stat * info, int kind, struct FTW * at) {
    (void) info, (void) kind, (void) at;
    return remove(path);
}

int main(void) {
    const char * home = getenv("HOME"); // a real disk, which /tmp need not be
    char dir[512];
    snprintf(dir, sizeof dir, "%s/.bench-store-XXXXXX", home ? home : "/tmp");
    if (!mkdtemp(dir)) {
        perror(dir);
        return 1;
    }
    setenv("GGML_HSA_KERNEL_CACHE_DIR", dir, 1);
    setenv("GGML_HSA_KERNEL_DIR", "", 1);
    unsetenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE");
    unsetenv("GGML_HSA_KERNEL_CACHE_CLEAR");
    unsetenv("GGML_HSA_JIT_CLEAR_CACHE");
    printf("%-52s %10s %-22s %s\n", "what", "measured", "unit", "target");
    bench();
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS); // made by mkdtemp, all of it is ours
    return 0;
}
