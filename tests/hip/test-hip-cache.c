// test-hip-cache: get_or_compile and what it keeps on disk. Compilers are scripts that count their
// runs; what they make is compared with the source that it must be of.
#include "hip-rig.h"

#include "base/dir.h"

#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>

static const char source[] = "__global__ void f() {}\n";

static void entry_path(char out[512], const char * suffix) {
    char hash[SHA256_TEXT];
    uint8_t digest[SHA256_BYTES];
    sha256(source, strlen(source), digest);
    sha256_print(digest, hash);
    snprintf(out, 512, "%s/gfx90a-5.2/add_%.16s%s", cache_dir, hash, suffix);
}

// ---- the layout, and the second process ----

static void test_layout(void ** state) {
    (void) state;
    char want[512], path[512], litters[512];
    snprintf(litters, sizeof litters,
             "%s; /bin/mkdir \"$TMPDIR/left\" && echo x > \"$TMPDIR/left/file\"", good_body());
    install_compiler("hipcc", litters);
    struct rocm_kernels * k = open_rig();
    const struct rocm_code *code, *again;
    assert_int_equal(rocm_kernels_get_or_compile(k, "add", source, &code, NULL), ROCM_OK);
    entry_path(want, ".cso");
    assert_string_equal(code->path, want);
    assert_true(code->compiled && is_right(code, source));
    assert_int_equal(rocm_kernels_get_or_compile(k, "add", source, &again, NULL), ROCM_OK);
    assert_ptr_equal(code, again);
    struct rocm_counters n;
    rocm_kernels_counters(k, &n);
    assert_int_equal(n.memory_hits, 1);
    assert_int_equal(n.compiles, 1);
    assert_int_equal(n.other_runs, 1); // hipcc --version
    uint8_t * data;
    size_t size;
    assert_int_equal(file_read(want, 1 << 20, &data, &size, NULL), ST_OK);
    assert_int_equal(size, code->size);
    assert_memory_equal(data, code->data, size);
    free(data);
    rocm_kernels_close(k);
    entry_path(want, ".meta");
    assert_int_equal(access(want, R_OK), 0);
    entry_path(want, ".lock");
    assert_int_not_equal(access(want, F_OK), 0);
    path_in(path, "tmp");
    assert_int_equal(count_entries(path), 0);
    // The next process runs nothing at all: neither a compiler nor hipcc --version.
    n = get_once("add", source);
    assert_int_equal(n.disk_hits, 1);
    assert_int_equal(n.compiles + n.other_runs, 0);
    assert_int_equal(count_lines("runs"), 1);
    assert_int_equal(count_lines("asked"), 1);
}

static void test_keys(void ** state) {
    (void) state;
    expect_compile("add", source);
    expect_compile("add", "// another\n");
    expect_compile("sub", source);
    setenv("CANDLE_ROCM_VERSION", "6.0", 1);
    expect_compile("add", source);
    setenv("CANDLE_ROCM_VERSION", "5.2", 1);
    expect_hit("add", source);
    char dir[512];
    path_in(dir, "elsewhere");
    setenv("CANDLE_ROCM_CACHE_DIR", dir, 1);
    expect_compile("add", source);
    snprintf(dir + strlen(dir), 64, "/gfx90a-5.2");
    assert_int_equal(count_entries(dir), 2);
    unsetenv("CANDLE_ROCM_CACHE_DIR");
    path_in(dir, "xdg");
    setenv("XDG_CACHE_HOME", dir, 1);
    expect_compile("add", source);
    snprintf(dir + strlen(dir), 64, "/hanzo-ml-rocm/gfx90a-5.2");
    assert_int_equal(count_entries(dir), 2);
}

static void test_force(void ** state) {
    (void) state;
    expect_compile("add", source);
    setenv("CANDLE_ROCM_FORCE_RECOMPILE", "1", 1);
    expect_compile("add", source);
    unsetenv("CANDLE_ROCM_FORCE_RECOMPILE");
    expect_hit("add", source);
}

// ---- compilers ----

static void test_new_compiler(void ** state) {
    (void) state;
    char body[512];
    expect_compile("add", source);
    expect_hit("add", source);
    snprintf(body, sizeof body, "%s # 5.3", good_body());
    install_compiler("hipcc", body);
    expect_compile("add", source);
    expect_hit("add", source);
    // One that was installed beside it changes nothing.
    remove_compiler("clang++-19");
    expect_hit("add", source);
    // Without any, what is there is the best there is.
    remove_compiler("hipcc");
    setenv("CANDLE_ROCM_VERSION", "5.2", 1);
    expect_hit("add", source);
    install_compiler("clang++-20", good_body());
    expect_compile("add", source);
}

// Nobody is there to tell the version: it is that under which there is something, the highest.
static void test_kept_without_a_version(void ** state) {
    (void) state;
    static const char * const versions[] = {"9.9", "19", "7.0"};
    for (int i = 0; i < 3; i++) {
        setenv("CANDLE_ROCM_VERSION", versions[i], 1);
        expect_compile("add", source);
    }
    expect_compile("only", source); // of 7.0
    unsetenv("CANDLE_ROCM_VERSION");
    remove_compiler("hipcc");
    remove_compiler("clang++-19");
    struct rocm_kernels * k = open_rig();
    const struct rocm_code * code;
    struct rocm_error err = {0};
    assert_int_equal(rocm_kernels_get_or_compile(k, "add", source, &code, &err), ROCM_OK);
    assert_true(is_right(code, source));
    assert_non_null(strstr(code->path, "/gfx90a-19/"));
    assert_int_equal(rocm_kernels_get_or_compile(k, "only", source, &code, &err), ROCM_OK);
    assert_non_null(strstr(code->path, "/gfx90a-7.0/"));
    assert_null(rocm_kernels_version(k, &err));
    // What is not kept is an error about compilers, and leaves no trace.
    int before = count_entries(cache_dir);
    assert_int_equal(rocm_kernels_get_or_compile(k, "none", source, &code, &err), ROCM_NOT_FOUND);
    assert_non_null(strstr(err.text, "no HIP compiler"));
    assert_int_equal(count_entries(cache_dir), before);
    rocm_kernels_close(k);
    setenv("CANDLE_ROCM_ARCH", "gfx90", 1); // no architecture, and not gfx90a's
    k = open_rig();
    assert_int_not_equal(rocm_kernels_get_or_compile(k, "add", source, &code, &err), ROCM_OK);
    rocm_kernels_close(k);
}

static void test_read_only(void ** state) {
    (void) state;
    setenv("ROCM_KERNELS_CACHE_READ_ONLY", "1", 1);
    expect_compile("add", source);
    expect_compile("add", source);
    assert_int_not_equal(access(cache_dir, F_OK), 0);
    unsetenv("ROCM_KERNELS_CACHE_READ_ONLY");
    expect_compile("add", source);
    int before = count_entries(cache_dir);
    setenv("ROCM_KERNELS_CACHE_READ_ONLY", "1", 1);
    expect_hit("add", source);
    expect_compile("other", source);
    expect_compile("other", source);
    assert_int_equal(count_entries(cache_dir), before);
}

static void expect_error(const char * name, enum rocm_status want, const char * words[4]) {
    struct rocm_kernels * k = open_rig();
    const struct rocm_code * code;
    struct rocm_error err = {0};
    assert_int_equal(rocm_kernels_get_or_compile(k, name, source, &code, &err), want);
    assert_null(code);
    print_message("%s\n", err.text);
    for (int i = 0; i < 4 && words[i]; i++) {
        assert_non_null(strstr(err.text, words[i]));
    }
    rocm_kernels_close(k);
    char path[512];
    path_in(path, "tmp");
    assert_int_equal(count_entries(path), 0);
    entry_path(path, ".cso");
    assert_int_not_equal(access(path, F_OK), 0);
}

static void test_no_compiler(void ** state) {
    (void) state;
    remove_compiler("hipcc");
    remove_compiler("clang++-19");
    setenv("CANDLE_ROCM_VERSION", "6.0", 1);
    expect_error("add", ROCM_NOT_FOUND, (const char * [4]){"hipcc", "clang++ 19", "install"});
    unsetenv("CANDLE_ROCM_VERSION");
    expect_error("add", ROCM_NOT_FOUND, (const char * [4]){"hipcc", "clang++ 19", "install"});
    setenv("ROCM_KERNELS_COMPILER", "/no/such/clang", 1);
    expect_error("add", ROCM_NOT_FOUND, (const char * [4]){"/no/such/clang"});
}

static void test_failures(void ** state) {
    (void) state;
    install_compiler("hipcc", "echo \"$in:3:7: error: use of 'blub'\" >&2; echo more >&2; exit 1");
    // The message is about the source, not about where it lay.
    expect_error("add", ROCM_INVALID,
                 (const char * [4]){"status 1", ":\nadd.hip:3:7: error:", "more"});
    // Clang's own words, where there is no lld.
    install_compiler("hipcc", "echo 'unsupported HIP gpu architecture' >&2; exit 1");
    install_compiler("clang++-19", "echo 'clang++-19: error: unable to execute command: Executable "
                                   "\"lld\" doesn'\\''t exist!' >&2; exit 1");
    expect_error("add", ROCM_UNSUPPORTED, (const char * [4]){"no linker", "install lld", "lld-19"});
    install_compiler("clang++-19", good_body());
    install_compiler("hipcc", "kill -SEGV $$");
    expect_error("add", ROCM_IO, (const char * [4]){"signal 11"});
    install_compiler("hipcc", "exit 0");
    expect_error("add", ROCM_CORRUPT, (const char * [4]){"said all is well"});
    install_compiler("hipcc", "echo rubbish > \"$out\"");
    expect_error("add", ROCM_CORRUPT, (const char * [4]){"not an AMD GPU code object"});
    install_compiler("hipcc", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxx; done | "
                              "/usr/bin/head -c 3000000; exit 3");
    expect_error("add", ROCM_INVALID, (const char * [4]){"status 3"});
    install_compiler("hipcc", good_body());
    expect_compile("add", source);
}

// Debian's hipcc knows gfx90a but not gfx1100; the table sends that to clang, and what hipcc says
// of one that the table does not know does so too.
static void test_choice(void ** state) {
    (void) state;
    char path[512], text[4096] = "";
    struct rocm_kernels * k = open_rig();
    const struct rocm_code * code;
    uint8_t elf[64];
    make_elf(elf);
    store_u32(elf + 48, 0x41);
    path_in(path, "elf");
    write_bytes(path, elf, sizeof elf, 0644);
    assert_int_equal(rocm_kernels_get_or_compile_for(k, "gfx1100", "add", source, &code, NULL), 0);
    install_compiler("hipcc", "echo \"error: invalid target ID 'gfx1399'\" >&2; exit 1");
    rocm_kernels_close(k);
    k = open_rig();
    assert_int_equal(rocm_kernels_get_or_compile_for(k, "gfx1399", "add", source, &code, NULL), 0);
    rocm_kernels_close(k);
    k = open_rig(); // made by the second choice, and found again
    assert_int_equal(rocm_kernels_get_or_compile_for(k, "gfx1399", "add", source, &code, NULL), 0);
    assert_false(code->compiled);
    rocm_kernels_close(k);
    path_in(path, "runs");
    FILE * f = fopen(path, "r");
    assert_true(f && fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_int_equal(count_lines("runs"), 3);
    const char * line = text;
    assert_memory_equal(line, "clang++-19 --offload-arch=gfx1100", 33);
    line = strchr(line, '\n') + 1;
    assert_memory_equal(line, "hipcc --offload-arch=gfx1399 -O3 -fPIC", 38);
    line = strchr(line, '\n') + 1;
    assert_memory_equal(line, "clang++-19 --offload-arch=gfx1399", 33);
    assert_non_null(strstr(line, "-nogpulib"));
}

// A bundle is unpacked: the file on disk is the code object alone.
static void test_bundle(void ** state) {
    (void) state;
    char path[512], body[600];
    uint8_t elf[64];
    static const char id[] = "hipv4-amdgcn-amd-amdhsa--gfx90a";
    struct buf b = {0};
    make_elf(elf);
    buf_append(&b, "__CLANG_OFFLOAD_BUNDLE__\1\0\0\0\0\0\0\0", 32);
    const uint64_t head[3] = {32 + 24 + sizeof id - 1, 64 + strlen(source), sizeof id - 1};
    buf_append(&b, head, sizeof head);
    buf_append(&b, id, sizeof id - 1);
    buf_append(&b, elf, sizeof elf);
    path_in(path, "bundle");
    write_bytes(path, b.data, b.size, 0644);
    buf_free(&b);
    snprintf(body, sizeof body, "/bin/cat %s \"$in\" > \"$out\"", path);
    install_compiler("hipcc", body);
    expect_compile("add", source);
    expect_hit("add", source);
}

// ---- damage ----

static void test_damage(void ** state) {
    (void) state;
    static const char * const suffixes[] = {".cso", ".meta"};
    char path[512];
    uint8_t * data;
    size_t size;
    int noticed = 0;
    expect_compile("add", source);
    for (int s = 0; s < 2; s++) {
        entry_path(path, suffixes[s]);
        assert_int_equal(file_read(path, 1 << 20, &data, &size, NULL), ST_OK);
        for (size_t i = 0; i < size; i += 1 + size / 40) {
            data[i] ^= 4;
            write_bytes(path, data, size, 0600);
            data[i] ^= 4;
            expect_compile("add", source);
            noticed++;
        }
        write_bytes(path, data, size / 2, 0600);
        expect_compile("add", source);
        unlink(path);
        expect_compile("add", source);
        expect_hit("add", source);
        free(data);
    }
    print_message("%d flipped bytes, each noticed\n", noticed);
    char quarantine[512];
    snprintf(quarantine, sizeof quarantine, "%s/quarantine", cache_dir);
    assert_between(count_entries(quarantine), 1, 48);
    // A .cso of another program is not believed, and neither is a link.
    entry_path(path, ".meta");
    unlink(path);
    expect_compile("add", source);
    entry_path(path, ".cso");
    char other[512];
    path_in(other, "other");
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
    expect_compile("add", source);
    expect_hit("add", source);
}

// ---- many at once ----

static void test_race(void ** state) {
    (void) state;
    char body[512];
    snprintf(body, sizeof body, "/bin/sleep 0.3; %s", good_body());
    install_compiler("hipcc", body);
    pid_t pids[16];
    for (int i = 0; i < 16; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            struct rocm_kernels * k = open_rig();
            const struct rocm_code * code = NULL;
            bool ok = rocm_kernels_get_or_compile(k, "add", source, &code, NULL) == ROCM_OK &&
                      is_right(code, source) && code->path;
            rocm_kernels_close(k);
            _exit(ok ? 0 : 1);
        }
    }
    for (int i = 0; i < 16; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(count_lines("runs"), 1);
    print_message("16 processes, %d compile\n", count_lines("runs"));
}

static void * get_in_thread(void * user) {
    const struct rocm_code * code = NULL;
    bool ok = rocm_kernels_get_or_compile(user, "add", source, &code, NULL) == ROCM_OK &&
              is_right(code, source);
    return ok ? (void *) (uintptr_t) code : NULL;
}

static void test_threads(void ** state) {
    (void) state;
    char body[512];
    snprintf(body, sizeof body, "/bin/sleep 0.1; %s", good_body());
    install_compiler("hipcc", body);
    for (int kept = 0; kept < 2; kept++) {
        setenv("ROCM_KERNELS_CACHE_MAX_SIZE", kept ? "1M" : "0", 1);
        struct rocm_kernels * k = open_rig();
        pthread_t ids[8];
        void * first = NULL;
        for (int i = 0; i < 8; i++) {
            assert_int_equal(pthread_create(&ids[i], NULL, get_in_thread, k), 0);
        }
        for (int i = 0; i < 8; i++) {
            void * got;
            pthread_join(ids[i], &got);
            assert_non_null(got);
            first = first ? first : got;
            assert_ptr_equal(got, first);
        }
        struct rocm_counters n;
        rocm_kernels_counters(k, &n);
        assert_int_equal(n.compiles, 1);
        assert_int_equal(n.memory_hits, 7);
        assert_int_equal(n_warnings, 0);
        rocm_kernels_close(k);
    }
}

// ---- homes that cannot be used ----

static int works_from_memory(const char * word) {
    struct rocm_kernels * k = open_rig();
    const struct rocm_code *a = NULL, *b = NULL;
    bool ok = rocm_kernels_get_or_compile(k, "add", source, &a, NULL) == ROCM_OK &&
              rocm_kernels_get_or_compile(k, "sub", source, &b, NULL) == ROCM_OK &&
              is_right(a, source) && is_right(b, source) && !a->path && !b->path;
    rocm_kernels_close(k);
    fprintf(stderr, "%d warning: %s\n", n_warnings, last_warning);
    return ok && n_warnings == 1 && strstr(last_warning, word) &&
                   strstr(last_warning, "in memory only")
               ? 0
               : 1;
}

static void test_read_only_home(void ** state) {
    (void) state;
    char path[512];
    path_in(path, "home");
    chmod(path, 0555);
    path_in(path, "tmp");
    chmod(path, 01777);
    chmod(rig_dir, 01777); // for what the scripts note
    pid_t pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) { // root may write all
            _exit(2);
        }
        _exit(works_from_memory("Permission denied"));
    }
    int status;
    waitpid(pid, &status, 0);
    path_in(path, "home");
    chmod(path, 0755);
    assert_int_equal(status, 0);
}

// A program with a limit on the size of its files gets an error for a source that is longer, and is
// not ended by a signal.
static void test_small_files(void ** state) {
    (void) state;
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit limit = {4096, RLIM_INFINITY};
        char text[20000];
        memset(text, ' ', sizeof text - 1);
        text[sizeof text - 1] = '\0';
        setrlimit(RLIMIT_FSIZE, &limit);
        struct rocm_kernels * k = open_rig();
        const struct rocm_code * code;
        struct rocm_error err = {0};
        enum rocm_status st = rocm_kernels_get_or_compile(k, "add", text, &code, &err);
        rocm_kernels_close(k);
        _exit(st != ROCM_IO || !strstr(err.text, strerror(EFBIG)));
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

static void test_untrusted(void ** state) {
    (void) state;
    expect_compile("add", source);
    chmod(cache_dir, 0777);
    assert_int_equal(works_from_memory("others can write it"), 0);
    chmod(cache_dir, 0700);
    expect_hit("add", source);
    unsetenv("HOME");
    assert_int_equal(works_from_memory("HOME"), 0);
}

static void test_bounded(void ** state) {
    (void) state;
    setenv("ROCM_KERNELS_CACHE_MAX_SIZE", "200K", 1);
    for (int i = 0; i < 60; i++) {
        char text[64];
        snprintf(text, sizeof text, "// source %d\n", i);
        expect_compile("add", text);
    }
    struct hip_cache c = {0};
    struct hip_totals t;
    assert_int_equal(hip_cache_open(false, &c, NULL), ST_OK);
    assert_int_equal(hip_cache_walk(&c, true, NULL, NULL, NULL, &t, NULL), ST_OK);
    print_message("%llu of 60 are kept, %llu bytes\n", (unsigned long long) t.items,
                  (unsigned long long) t.bytes);
    assert_between(t.items, 10, 25);
    assert_true(t.bytes <= 200 << 10);
    expect_hit("add", "// source 59\n");
    static const char * const strangers[] = {"notes.txt", "other_0123456789abcdef.cso"};
    char stranger[2][512];
    for (int i = 0; i < 2; i++) {
        snprintf(stranger[i], sizeof stranger[i], "%s/gfx90a-5.2/%s", cache_dir, strangers[i]);
        write_text(stranger[i], "mine", 0600);
    }
    assert_int_equal(hip_cache_clear(&c, &t, NULL), ST_OK);
    assert_true(t.removed == t.items && t.items > 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(access(stranger[i], F_OK), 0);
    }
    expect_compile("add", "// source 59\n");
    hip_cache_close(&c);
}

static int unlink_errno;

int dir_fault(const char * step) {
    return strcmp(step, "unlink") ? 0 : unlink_errno;
}

// What cannot be removed is not said to be gone, and is still there.
static void test_not_removed(void ** state) {
    (void) state;
    expect_compile("add", source);
    expect_compile("sub", source);
    for (int clear = 0; clear < 2; clear++) {
        struct hip_cache c = {0};
        struct hip_totals t = {0};
        struct error err = {0};
        assert_int_equal(hip_cache_open(false, &c, NULL), ST_OK);
        unlink_errno = EROFS;
        enum status st = clear ? hip_cache_clear(&c, &t, &err) : hip_cache_trim(&c, 0, &t, &err);
        unlink_errno = 0;
        hip_cache_close(&c);
        assert_int_equal(st, ST_IO);
        assert_non_null(strstr(err.text, strerror(EROFS)));
        assert_non_null(strstr(err.text, "0 of 2"));
        assert_int_equal(t.removed, 0);
        assert_int_equal(t.removed_bytes, 0);
    }
    expect_hit("add", source);
    expect_hit("sub", source);
}

// While one is shown, another process clears the rest.
struct witness {
    struct hip_cache * c;
    int seen, not_good;
};

static bool clear_rest(void * user, const struct hip_item * item) {
    struct witness * w = user;
    struct hip_totals totals;
    w->not_good += item->state != HIP_GOOD;
    return w->seen++ || hip_cache_clear(w->c, &totals, NULL) == ST_OK;
}

static void test_removed_meanwhile(void ** state) {
    (void) state;
    struct hip_cache c = {0};
    struct hip_totals totals;
    struct witness w = {.c = &c};
    expect_compile("add", source);
    expect_compile("sub", source);
    expect_compile("mul", source);
    assert_int_equal(hip_cache_open(false, &c, NULL), ST_OK);
    assert_int_equal(hip_cache_walk(&c, true, NULL, clear_rest, &w, &totals, NULL), ST_OK);
    hip_cache_close(&c);
    assert_int_equal(w.seen, 1);
    assert_int_equal(w.not_good, 0);
}

// What looking at a cache costs, by the calls that grow with it: the linker puts these in their
// place
// (--wrap).
static struct cost { long reads, stats, compares; } cost;

struct dirent * __real_readdir(DIR * dir);
struct dirent * __wrap_readdir(DIR * dir);
struct dirent * __wrap_readdir(DIR * dir) {
    cost.reads++;
    return __real_readdir(dir);
}

int __real_fstatat(int dir, const char * path, struct stat * info, int flags);
int __wrap_fstatat(int dir, const char * path, struct stat * info, int flags);
int __wrap_fstatat(int dir, const char * path, struct stat * info, int flags) {
    cost.stats++;
    return __real_fstatat(dir, path, info, flags);
}

int __real_strcmp(const char * a, const char * b);
int __wrap_strcmp(const char * a, const char * b);
int __wrap_strcmp(const char * a, const char * b) {
    cost.compares++;
    return __real_strcmp(a, b);
}

// Looking at four times as many costs about four times as much, not sixteen; locks of the dead and
// what was set aside are counted and cleared.
static void test_many(void ** state) {
    (void) state;
    struct hip_cache c = {0};
    struct hip_totals t;
    struct cost took[2];
    expect_compile("add", source);
    assert_int_equal(hip_cache_open(false, &c, NULL), ST_OK);
    for (int round = 0, made = 0; round < 2; round++) {
        for (; made < (round ? 16000 : 4000); made++) {
            char path[600];
            snprintf(path, sizeof path, "%s/gfx90a-5.2/m_%016x.meta", cache_dir, made);
            int fd = open(path, O_WRONLY | O_CREAT, 0600);
            assert_true(fd >= 0);
            close(fd);
        }
        cost = (struct cost){0};
        assert_int_equal(hip_cache_walk(&c, false, NULL, NULL, NULL, &t, NULL), ST_OK);
        took[round] = cost;
        assert_int_equal(t.items, made + 1);
    }
    for (int round = 0; round < 2; round++) {
        print_message("%d: %ld names read, %ld files asked, %ld names compared\n",
                      round ? 16000 : 4000, took[round].reads, took[round].stats,
                      took[round].compares);
    }
    assert_true(took[0].reads >= 4000 && took[0].stats >= 4000 && took[0].compares >= 4000);
    assert_true(took[1].reads <= 5 * took[0].reads);
    assert_true(took[1].stats <= 5 * took[0].stats);
    assert_true(took[1].compares <= 6 * took[0].compares); // sorted: four times, and log of it
    char path[600];
    snprintf(path, sizeof path, "%s/gfx90a-5.2/m_%016x.lock", cache_dir, 1);
    write_text(path, "", 0600);
    uint64_t before = t.bytes;
    assert_int_equal(hip_cache_walk(&c, false, NULL, NULL, NULL, &t, NULL), ST_OK);
    assert_int_equal(t.quarantine_bytes, 0);
    char set_aside[600];
    snprintf(set_aside, sizeof set_aside, "%s/quarantine", cache_dir);
    mkdir(set_aside, 0700);
    snprintf(set_aside, sizeof set_aside, "%s/quarantine/gfx90a-5.2-m_%016x.cso", cache_dir, 1);
    write_text(set_aside, "broken", 0600);
    assert_int_equal(hip_cache_walk(&c, false, NULL, NULL, NULL, &t, NULL), ST_OK);
    assert_true(t.quarantine_bytes > 0 && t.bytes == before + t.quarantine_bytes);
    assert_int_equal(hip_cache_clear(&c, &t, NULL), ST_OK);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_not_equal(access(set_aside, F_OK), 0);
    hip_cache_close(&c);
}

// ---- names ----

static void test_names(void ** state) {
    (void) state;
    char longest[HIP_NAME_MAX + 1] = "";
    memset(longest, 'x', HIP_NAME_MAX);
    const char * const bad[] = {"", "../x", "a/b", ".x", "-o", "_x", "a b", "a\n", "a;b", longest};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct rocm_kernels * k = open_rig();
        const struct rocm_code * code;
        assert_int_equal(rocm_kernels_get_or_compile(k, bad[i], source, &code, NULL), ROCM_INVALID);
        rocm_kernels_close(k);
    }
    assert_int_equal(count_lines("runs"), 0);
}

// ---- speed ----

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e6 + (double) t.tv_nsec * 1e-3;
}

static void test_warm(void ** state) {
    (void) state;
    const char * text = rocm_modules_source("index_float"); // the largest code object
    char path[512];
    uint8_t * elf = calloc(1, 50000);
    make_elf(elf);
    path_in(path, "elf");
    write_bytes(path, elf, 50000, 0644);
    free(elf);
    double least = 1e9, whole = 1e9, memory = 1e9;
    for (int i = 0; i < 100; i++) {
        double start = now_us();
        struct rocm_kernels * k = open_rig();
        const struct rocm_code * code;
        assert_int_equal(rocm_kernels_get_or_compile(k, "first", "// first\n", &code, NULL), 0);
        double middle = now_us();
        assert_int_equal(rocm_kernels_get_or_compile(k, "index", text, &code, NULL), 0);
        double end = now_us();
        assert_int_equal(rocm_kernels_get_or_compile(k, "index", text, &code, NULL), 0);
        double again = now_us() - end;
        memory = again < memory ? again : memory;
        least = i && end - middle < least ? end - middle : least;
        whole = i && end - start < whole ? end - start : whole;
        rocm_kernels_close(k);
    }
    print_message(
        "warm get_or_compile of %zu + 50000 bytes: %.0f us from disk, %.0f us from memory; "
        "opening a manager, a first one and this one: %.0f us\n",
        strlen(text), least, memory, whole);
    assert_int_equal(count_lines("runs"), 2); // once for each of the two sources
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_layout, rig_reset),
        cmocka_unit_test_setup(test_keys, rig_reset),
        cmocka_unit_test_setup(test_force, rig_reset),
        cmocka_unit_test_setup(test_new_compiler, rig_reset),
        cmocka_unit_test_setup(test_kept_without_a_version, rig_reset),
        cmocka_unit_test_setup(test_read_only, rig_reset),
        cmocka_unit_test_setup(test_no_compiler, rig_reset),
        cmocka_unit_test_setup(test_failures, rig_reset),
        cmocka_unit_test_setup(test_choice, rig_reset),
        cmocka_unit_test_setup(test_bundle, rig_reset),
        cmocka_unit_test_setup(test_damage, rig_reset),
        cmocka_unit_test_setup(test_race, rig_reset),
        cmocka_unit_test_setup(test_threads, rig_reset),
        cmocka_unit_test_setup(test_read_only_home, rig_reset),
        cmocka_unit_test_setup(test_small_files, rig_reset),
        cmocka_unit_test_setup(test_untrusted, rig_reset),
        cmocka_unit_test_setup(test_bounded, rig_reset),
        cmocka_unit_test_setup(test_not_removed, rig_reset),
        cmocka_unit_test_setup(test_removed_meanwhile, rig_reset),
        cmocka_unit_test_setup(test_many, rig_reset),
        cmocka_unit_test_setup(test_names, rig_reset),
        cmocka_unit_test_setup(test_warm, rig_reset),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
