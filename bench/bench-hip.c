// bench-hip: what a GPU kernel costs that was compiled before: in memory, and on disk for a manager
// that has just been opened; and what it costs to compile one, with the compiler that is here.
// Times are of this machine and its disk. Prints a table, asserts nothing.
#include "bench.h"

#include "rocm-kernels.h"

enum { ROUNDS = 200 };

static const char arch[] = "gfx1100";

static struct rocm_kernels * open_manager(void) {
    struct rocm_options options = {.arch = arch, .version = "0"};
    struct rocm_kernels * k;
    struct rocm_error err;
    if (rocm_kernels_open(&options, &k, &err) != ROCM_OK) {
        fprintf(stderr, "bench-hip: %s\n", err.text);
        exit(1);
    }
    return k;
}

static const struct rocm_code * get_as(struct rocm_kernels * k, const char * name,
                                       const char * module) {
    const struct rocm_code * code;
    struct rocm_error err;
    if (rocm_kernels_get_or_compile(k, name, rocm_modules_source(module), &code, &err) != ROCM_OK) {
        printf("skipped: %s\n", err.text);
        return NULL;
    }
    return code;
}

static const struct rocm_code * get(struct rocm_kernels * k, const char * module) {
    return get_as(k, module, module);
}

static void must_have(struct rocm_kernels * k, uint64_t compiles, uint64_t disk_hits) {
    struct rocm_counters c;
    rocm_kernels_counters(k, &c);
    if (c.compiles != compiles || c.disk_hits != disk_hits) {
        fprintf(stderr, "bench-hip: %llu compiler runs and %llu hits on disk, not %llu and %llu\n",
                (unsigned long long) c.compiles, (unsigned long long) c.disk_hits,
                (unsigned long long) compiles, (unsigned long long) disk_hits);
        exit(1);
    }
}

// False: there is no compiler, and that was said.
static bool bench_compile(void) {
    static double times[64];
    struct rocm_kernels * k = open_manager();
    int n = rocm_modules_count() < 64 ? rocm_modules_count() : 64, slowest = 0;
    // The first one also asks the compilers what they are.
    bool ok = get_as(k, "first", "fill") != NULL;
    for (int i = 0; i < n && ok; i++) {
        double start = bench_seconds();
        ok = get(k, rocm_modules_name(i)) != NULL;
        times[i] = bench_seconds() - start;
        slowest = times[i] > times[slowest] ? i : slowest;
    }
    if (!ok) {
        rocm_kernels_close(k);
        return false;
    }
    must_have(k, (uint64_t) n + 1, 0);
    char what[64];
    snprintf(what, sizeof what, "    slowest: %s", rocm_modules_name(slowest));
    bench_row("compile one module and put it on disk, median", bench_median(times, n) * 1e3, "ms",
              "");
    bench_row(what, times[n - 1] * 1e3, "ms", "<= 500");
    rocm_kernels_close(k);
    return true;
}

static void bench_warm(const char * module) {
    static double opened[ROUNDS], on_disk[ROUNDS], in_memory[ROUNDS];
    size_t bytes = 0;
    for (int i = 0; i < ROUNDS; i++) {
        double start = bench_seconds();
        struct rocm_kernels * k = open_manager();
        const struct rocm_code * other = get(k, "fill"); // the manager finds its place with this
        double ready = bench_seconds();
        const struct rocm_code * code = get(k, module);
        double found = bench_seconds();
        if (!code || !other || get(k, module) != code) {
            exit(1);
        }
        opened[i] = ready - start;
        on_disk[i] = found - ready;
        in_memory[i] = bench_seconds() - found;
        bytes = code->size;
        must_have(k, 0, 2);
        rocm_kernels_close(k);
    }
    char what[64];
    snprintf(what, sizeof what, "get_or_compile on disk, %zu KB of code, median", bytes / 1000);
    bench_row("a new manager and its first module, median", bench_median(opened, ROUNDS) * 1e6,
              "us", "<= 200");
    bench_row(what, bench_median(on_disk, ROUNDS) * 1e6, "us", "<= 200");
    bench_row("    slowest of 200", on_disk[ROUNDS - 1] * 1e6, "us", "");
    bench_row("get_or_compile in memory, median", bench_median(in_memory, ROUNDS) * 1e6, "us", "");
}

int main(int argc, char ** argv) {
    bench_no_arguments(argc, argv, "bench-hip", "what compiling and finding GPU kernels takes");
    char dir[512];
    bench_dir_new(dir);
    setenv("CANDLE_ROCM_CACHE_DIR", dir, 1);
    unsetenv("CANDLE_ROCM_FORCE_RECOMPILE");
    unsetenv("ROCM_KERNELS_CACHE_MAX_SIZE");
    bench_head();
    if (bench_compile()) {
        bench_warm("index_int");
    }
    bench_dir_remove(dir);
    return 0;
}
