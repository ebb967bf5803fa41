// hip-rig: what the tests of the kernel manager share: a directory of their own, and compilers that
// are scripts. Such a compiler notes that it ran, and makes an ELF header with the source behind
// it, so that a wrong code object cannot pass for the right one.
#pragma once

#include "base/cmocka-all.h"
#include "hip/hip-impl.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char rig_dir[64], cache_dir[128], bin_dir[96];
static char saved_path[4096];

static inline void path_in(char out[512], const char * fmt, ...) BASE_PRINTF(2, 3);
static inline void path_in(char out[512], const char * fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int n = snprintf(out, 512, "%s/", rig_dir);
    vsnprintf(out + n, 512 - (size_t) n, fmt, args);
    va_end(args);
}

static inline void write_bytes(const char * path, const void * data, size_t size, mode_t mode) {
    FILE * f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static inline void write_text(const char * path, const char * text, mode_t mode) {
    write_bytes(path, text, strlen(text), mode);
}

// The header of a code object for gfx90a.
static inline void make_elf(uint8_t elf[64]) {
    memset(elf, 0, 64);
    memcpy(elf, "\177ELF\2\1\1\100", 8);
    store_u32(elf + 16, 224u << 16 | 3);
    store_u32(elf + 48, 0x53f);
}

// ---- compilers ----

// `body` runs with $in and $out set, after the run was noted.
static inline void install_compiler(const char * name, const char * body) {
    char path[512], script[4096];
    path_in(path, "bin/%s", name);
    snprintf(script, sizeof script,
             "#!/bin/sh\n"
             "if [ \"$1\" = --version ]; then\n"
             "    echo asked >> %s/asked\n"
             "    echo 'HIP version: 5.2.21153-0'\n"
             "    exit 0\n"
             "fi\n"
             "echo \"%s $*\" >> %s/runs\n"
             "while [ $# -gt 1 ]; do [ \"$1\" = -o ] && out=$2; shift; done\n"
             "in=$1\n"
             "%s\n",
             rig_dir, name, rig_dir, body);
    write_text(path, script, 0755);
}

static inline const char * good_body(void) {
    static char body[256];
    snprintf(body, sizeof body, "/bin/cat %s/elf \"$in\" > \"$out\"", rig_dir);
    return body;
}

static inline void remove_compiler(const char * name) {
    char path[512];
    path_in(path, "bin/%s", name);
    unlink(path);
}

static inline int count_lines(const char * name) {
    char path[512];
    int n = 0, c;
    path_in(path, "%s", name);
    FILE * f = fopen(path, "r");
    while (f && (c = fgetc(f)) != EOF) {
        n += c == '\n';
    }
    if (f) {
        fclose(f);
    }
    return n;
}

// ---- managers ----

static int n_warnings;
static char last_warning[1024];

static inline void rig_warn(void * user, const char * text) {
    (void) user;
    n_warnings++;
    snprintf(last_warning, sizeof last_warning, "%s", text);
}

static inline struct rocm_kernels * open_rig(void) {
    struct rocm_options options = {.warn = rig_warn};
    struct rocm_kernels * k = NULL;
    n_warnings = 0;
    assert_int_equal(rocm_kernels_open(&options, &k, NULL), ROCM_OK);
    return k;
}

// What the scripts make of a source.
static inline bool is_right(const struct rocm_code * code, const char * source) {
    return code && code->size == 64 + strlen(source) &&
           !memcmp((const char *) code->data + 64, source, strlen(source));
}

// One get in a manager of its own; its counters.
static inline struct rocm_counters get_once(const char * name, const char * source) {
    struct rocm_kernels * k = open_rig();
    const struct rocm_code * code;
    struct rocm_error err = {0};
    if (rocm_kernels_get_or_compile(k, name, source, &code, &err) != ROCM_OK) {
        fail_msg("%s", err.text);
    }
    assert_true(is_right(code, source));
    struct rocm_counters n;
    rocm_kernels_counters(k, &n);
    rocm_kernels_close(k);
    return n;
}

static inline void expect_compile(const char * name, const char * source) {
    struct rocm_counters n = get_once(name, source);
    assert_int_equal(n.compiles, 1);
    assert_int_equal(n.disk_hits, 0);
}

static inline void expect_hit(const char * name, const char * source) {
    struct rocm_counters n = get_once(name, source);
    assert_int_equal(n.compiles, 0);
    assert_int_equal(n.disk_hits, 1);
}

// ---- files ----

static inline int remove_one(const char * path, const struct stat * info, int kind,
                             struct FTW * at) {
    (void) info, (void) kind, (void) at;
    return remove(path);
}

static inline int count_entries(const char * path) {
    int n = 0;
    DIR * d = opendir(path);
    for (struct dirent * e; d && (e = readdir(d));) {
        n += e->d_name[0] != '.';
    }
    if (d) {
        closedir(d);
    }
    return n;
}

static inline void rig_empty(void) {
    nftw(rig_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline int rig_setup(void ** state) {
    (void) state;
    snprintf(saved_path, sizeof saved_path, "%s", getenv("PATH") ? getenv("PATH") : "");
    snprintf(rig_dir, sizeof rig_dir, "%s/test-hip-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(rig_dir)) {
        return -1;
    }
    snprintf(cache_dir, sizeof cache_dir, "%s/home/.cache/hanzo-ml-rocm", rig_dir);
    snprintf(bin_dir, sizeof bin_dir, "%s/bin", rig_dir);
    return 0;
}

static inline int rig_teardown(void ** state) {
    (void) state;
    rig_empty();
    return 0;
}

// Before each test: an empty home, two good compilers and nothing else along PATH, and an
// environment that says only what the GPU is.
static inline int rig_reset(void ** state) {
    (void) state;
    static const char * const variables[] = {"CANDLE_ROCM_ARCH",
                                             "ROCM_GFX_ARCH",
                                             "CANDLE_ROCM_VERSION",
                                             "XDG_CACHE_HOME",
                                             "CANDLE_ROCM_CACHE_DIR",
                                             "CANDLE_ROCM_FORCE_RECOMPILE",
                                             "ROCM_KERNELS_COMPILER",
                                             "ROCM_KERNELS_CACHE_MAX_SIZE",
                                             "ROCM_KERNELS_CACHE_READ_ONLY"};
    char path[512];
    uint8_t elf[64];
    rig_empty();
    mkdir(rig_dir, 0755);
    chmod(rig_dir, 0755);
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        unsetenv(variables[i]);
    }
    path_in(path, "bin");
    mkdir(path, 0755);
    path_in(path, "tmp");
    mkdir(path, 0700);
    setenv("TMPDIR", path, 1);
    path_in(path, "home");
    mkdir(path, 0755);
    setenv("HOME", path, 1);
    setenv("PATH", bin_dir, 1);
    setenv("ROCM_PATH", rig_dir, 1); // an /opt/rocm of this machine must not step in
    setenv("CANDLE_ROCM_ARCH", "gfx90a", 1);
    make_elf(elf);
    path_in(path, "elf");
    write_bytes(path, elf, sizeof elf, 0644);
    install_compiler("hipcc", good_body());
    install_compiler("clang++-19", good_body());
    return 0;
}
