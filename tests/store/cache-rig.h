// cache-rig: what the tests of the kernel cache share: a directory of their own, and a small
// compiler whose kernels carry what they were made for, so that a wrong one cannot pass for the
// right one.
#pragma once

#include "store/small-kernel.h"
#include "store/store.h"
#include "base/cmocka-all.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct shared { // between processes
    atomic_int compiles;
    atomic_int hits;
    atomic_int ready; // processes that wait for go
    atomic_int go;
    atomic_int done; // processes that have done their rounds
};

static struct shared * shared;
static char rig_dir[64];   // ours
static char cache_dir[96]; // the cache in it
static int compile_ms;     // how long a compile takes

static inline struct kernel_spec make_spec(enum dtype t, int64_t n) {
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    spec.inputs[0] = spec.inputs[1] = spec.output = tensor_contiguous(t, (int64_t[]){n, 1, 1, 1});
    return spec;
}

// ---- the compiler ----

static inline enum status rig_pdi(const struct aie_program * program, enum aie_arch arch,
                                  int columns, uint8_t ** pdi, size_t * size, struct error * err) {
    (void) arch, (void) columns;
    return small_kernel_pdi((uint32_t) program->dtype, pdi, size, err);
}

static inline enum status rig_stream(const struct aie_plan * plan, uint32_t ** insts,
                                     size_t * n_words, struct error * err) {
    atomic_fetch_add(&shared->compiles, 1);
    nanosleep(&(struct timespec){compile_ms / 1000, compile_ms % 1000 * 1000000L}, NULL);
    return small_kernel_stream(&plan->spec, 2, txn_generation(plan->spec.arch), insts, n_words,
                               err);
}

static const struct store_compiler rig_compiler = {
    .plan = small_kernel_plan, .pdi = rig_pdi, .stream = rig_stream, .identity = "rig 1"};

// Both halves, as a store would have them made.
static inline enum status rig_make(const struct kernel_spec * spec, struct kernel_code * out) {
    struct aie_plan plan;
    *out = (struct kernel_code){0};
    enum status st = small_kernel_plan(spec, &plan, NULL);
    st = st == ST_OK ? rig_pdi(plan.program, spec->arch, 0, &out->pdi, &out->pdi_size, NULL) : st;
    return st == ST_OK ? rig_stream(&plan, &out->insts, &out->n_insts, NULL) : st;
}

// ---- stores ----

static int n_warnings;
static char last_warning[512];

static inline void rig_warn(const char * text) {
    n_warnings++;
    snprintf(last_warning, sizeof last_warning, "%s", text);
}

static inline struct store * open_with(const struct store_compiler * compiler) {
    struct store * s = NULL;
    n_warnings = 0;
    last_warning[0] = '\0';
    if (store_new_with(compiler, &s, NULL) != ST_OK) {
        fail_msg("no store");
    }
    store_set_log(s, rig_warn);
    return s;
}

static inline struct store * open_store(void) {
    return open_with(&rig_compiler);
}

// The kernel, compared with what the compiler makes of the spec; false when it is not that.
static inline bool got_right(struct store * s, const struct kernel_spec * spec) {
    struct store_kernel * k = NULL;
    struct error err = {0};
    if (store_get(s, spec, &k, &err) != ST_OK) {
        fprintf(stderr, "%s\n", err.text);
        return false;
    }
    int ms = compile_ms;
    struct kernel_code code;
    compile_ms = 0;
    bool ok = rig_make(spec, &code) == ST_OK && code.pdi_size == k->pdi->size &&
              !memcmp(code.pdi, k->pdi->data, code.pdi_size) && code.n_insts == k->n_insts &&
              !memcmp(code.insts, k->insts, code.n_insts * sizeof *code.insts);
    kernel_code_free(&code);
    compile_ms = ms;
    atomic_fetch_sub(&shared->compiles, 1); // the one for the comparison
    return ok;
}

static inline struct store_stats stats_of(struct store * s) {
    struct store_stats stats;
    store_get_stats(s, &stats);
    return stats;
}

// One get in a store of its own; its counters.
static inline struct store_stats get_once(const struct store_compiler * compiler,
                                          const struct kernel_spec * spec) {
    struct store * s = open_with(compiler);
    assert_true(got_right(s, spec));
    struct store_stats stats = stats_of(s);
    store_free(s);
    return stats;
}

static inline void expect_hit(const struct kernel_spec * spec) {
    struct store_stats stats = get_once(&rig_compiler, spec);
    assert_int_equal(stats.cache_hits, 1);
    assert_int_equal(stats.compiles, 0);
}

static inline void expect_compile(const struct kernel_spec * spec) {
    struct store_stats stats = get_once(&rig_compiler, spec);
    assert_int_equal(stats.cache_hits, 0);
    assert_int_equal(stats.compiles, 1);
}

// ---- files ----

static inline void path_of(const struct kernel_spec * spec, const char * suffix, char path[512]) {
    char name[KERNEL_NAME_MAX];
    kernel_name(spec, name);
    snprintf(path, 512, "%s/%s/%s%s", cache_dir, kernel_arch_name(spec->arch), name, suffix);
}

static inline int remove_one(const char * path, const struct stat * info, int kind,
                             struct FTW * at) {
    (void) info, (void) kind, (void) at;
    return remove(path);
}

static inline void remove_tree(const char * dir) {
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline int count_entries(const char * below, const char * suffix) {
    char path[256];
    int n = 0;
    snprintf(path, sizeof path, "%s/%s", cache_dir, below);
    DIR * d = opendir(path);
    for (struct dirent * e; d && (e = readdir(d));) {
        size_t len = strlen(e->d_name), end = strlen(suffix);
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && len >= end &&
             !strcmp(e->d_name + len - end, suffix);
    }
    if (d) {
        closedir(d);
    }
    return n;
}

static inline void write_file(const char * path, const void * data, size_t size) {
    FILE * f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

// In memory where that is possible: thousands of kernels are written, each waits for the disk.
static inline int rig_setup(void ** state) {
    (void) state;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(rig_dir, sizeof rig_dir, "%s/test-cache-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (shared == MAP_FAILED || !mkdtemp(rig_dir)) {
        return -1;
    }
    snprintf(cache_dir, sizeof cache_dir, "%s/cache", rig_dir);
    return 0;
}

static inline int rig_teardown(void ** state) {
    (void) state;
    remove_tree(rig_dir);
    return munmap(shared, sizeof *shared);
}

// Before each test: no cache, and an environment that says only where it is.
static inline int rig_reset(void ** state) {
    (void) state;
    remove_tree(cache_dir);
    unsetenv("GGML_HSA_KERNEL_DIR");
    unsetenv("GGML_HSA_RECORD");
    unsetenv("GGML_HSA_JIT_COMMAND");
    unsetenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE");
    unsetenv("GGML_HSA_KERNEL_CACHE_CLEAR");
    unsetenv("GGML_HSA_JIT_CLEAR_CACHE");
    setenv("GGML_HSA_KERNEL_CACHE_DIR", cache_dir, 1);
    atomic_store(&shared->compiles, 0);
    atomic_store(&shared->hits, 0);
    atomic_store(&shared->ready, 0);
    atomic_store(&shared->go, 0);
    atomic_store(&shared->done, 0);
    compile_ms = 0;
    return 0;
}
