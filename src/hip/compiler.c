// compiler: which compilers there are, and how to tell that one has changed. A compiler is known by
// its real path, size and time of change. hipcc is a script that calls another program, so what
// `hipcc --version` prints counts too; it is asked once and remembered in the cache, because it
// takes as long as a compile.
#include "hip-impl.h"

#include "base/dir.h"
#include "base/gpus.h"
#include "base/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// ---- what they are called with ----

static const char * const flags[2][12] = {
    [HIP_HIPCC] = {"-O3", "-fPIC", "-mcode-object-version=4", "--cuda-device-only",
                   "--no-gpu-bundle-output", "-c"},
    // Neither headers nor device libraries: the compiler alone is enough.
    [HIP_CLANG] = {"-x", "hip", "-O3", "-std=c++17", "-mcode-object-version=4",
                   "--cuda-device-only", "--no-gpu-bundle-output", "-nogpulib", "-nogpuinc",
                   "-DROCM_KERNELS_FREESTANDING=1"},
};

void hip_compiler_flags(enum hip_compiler_kind kind, const char * arch, struct buf * out) {
    buf_printf(out, "--offload-arch=%s", arch);
    for (const char * const * flag = flags[kind]; *flag; flag++) {
        buf_printf(out, " %s", *flag);
    }
}

static bool hipcc_knows(const char * version, const struct gpu_name * gpu) {
    int major = 0, minor = 0;
    if (!gpu || sscanf(version, "%9d.%9d", &major, &minor) < 1) {
        return true; // it does not say: try
    }
    return major * 100 + minor >= gpu->hip;
}

static bool clang_knows(struct hip_toolchain * t, const struct gpu_name * gpu) {
    char version[HIP_VERSION_MAX];
    return !gpu || !gpu->clang || !hip_toolchain_clang(t, version) || atoi(version) >= gpu->clang;
}

// ---- finding ----

static char * find_hipcc(void) {
    char * path = process_find("hipcc");
    const char * rocm = secure_getenv("ROCM_PATH");
    if (!path) { // AMD's own packages do not always add it to PATH
        struct buf name = {0};
        buf_printf(&name, "%s/bin/hipcc", rocm && *rocm ? rocm : "/opt/rocm");
        path = name.failed ? NULL : process_find((const char *) name.data);
        buf_free(&name);
    }
    return path;
}

// A plain `clang++` leads to a file whose name, or its directory's, ends in its version. 0: not so.
static int version_in_path(const char * path) {
    static const char * const before[] = {"/clang-", "/llvm-"};
    char * real = realpath(path, NULL);
    int version = 0;
    for (size_t i = 0; real && i < 2; i++) {
        const char * p = strstr(real, before[i]);
        int n = p ? atoi(p + strlen(before[i])) : 0;
        version = n > version ? n : version;
    }
    free(real);
    return version;
}

static char * find_clang(void) {
    for (int version = 19; version < 30; version++) {
        char name[24];
        snprintf(name, sizeof name, "clang++-%d", version);
        char * path = process_find(name);
        if (path) {
            return path;
        }
    }
    char * plain = process_find("clang++");
    if (plain && version_in_path(plain) < 19) {
        free(plain);
        plain = NULL;
    }
    return plain;
}

const char * hip_compiler_choice(const char * asked) {
    const char * set = secure_getenv("ROCM_KERNELS_COMPILER");
    return asked ? asked : set && *set ? set : NULL;
}

enum status hip_toolchain_find(struct hip_toolchain * t, const char * choice, struct error * err) {
    if (!choice || !strcmp(choice, "hipcc")) {
        t->hipcc = find_hipcc();
    }
    if (!choice || !strcmp(choice, "clang")) {
        t->clang = find_clang();
    }
    if (!choice || t->hipcc || t->clang) {
        return ST_OK;
    }
    const char * slash = strrchr(choice, '/');
    char * path = process_find(choice);
    if (!path) {
        return error_set(err, ST_NOT_FOUND, "%.200s: no such compiler; hipcc, clang or a path",
                         choice);
    }
    if (strstr(slash ? slash + 1 : choice, "hipcc")) {
        t->hipcc = path;
    } else {
        t->clang = path;
    }
    return ST_OK;
}

void hip_toolchain_free(struct hip_toolchain * t) {
    free(t->hipcc);
    free(t->clang);
}

// ---- telling one from another ----

// "/usr/lib/llvm-19/bin/clang 94000 1700000000.123456789"; false: it does not fit in one line.
static bool print_file(const char * path, struct buf * out) {
    char * real = realpath(path, NULL);
    struct stat info;
    bool ok = real && stat(real, &info) == 0;
    for (const char * p = real; ok && *p; p++) {
        ok = (unsigned char) *p >= 0x20;
    }
    if (ok) {
        buf_printf(out, "%s %lld %lld.%09ld", real, (long long) info.st_size,
                   (long long) info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
    }
    free(real);
    return ok && !out->failed;
}

// What hipcc said is kept in a sealed text of its own:
//
//   rocm-kernels compiler
//   format 1
//   file /usr/bin/hipcc 31022 1660000000.000000000
//   version 5.2
//   text 5be0...                   SHA-256 of all that it printed
//   check 9b05...
static const struct keep_form memo = {
    .magic = "rocm-kernels compiler\n", .format = 1, .last_word = "\ntext "};
static const char memo_file[] = "hipcc.version";

static void print_memo_start(const struct buf * file, struct buf * out) {
    buf_printf(out, "%sformat %d\nfile %s\n", memo.magic, memo.format, (const char *) file->data);
}

static bool digest_from_text(const char * text, uint8_t digest[SHA256_BYTES]) {
    for (int i = 0; i < SHA256_BYTES; i++) {
        unsigned byte;
        if (sscanf(text + 2 * i, "%2x", &byte) != 1) {
            return false;
        }
        digest[i] = (uint8_t) byte;
    }
    return true;
}

static bool recall(struct hip_toolchain * t, const struct buf * start) {
    uint8_t * text;
    size_t size, key_size;
    if (t->root < 0 || dir_read(t->root, memo_file, HIP_META_MAX, &text, &size, NULL) != ST_OK) {
        return false;
    }
    bool ok = keep_unseal(&memo, text, size, &key_size, NULL, NULL) == ST_OK &&
              key_size > start->size && !memcmp(text, start->data, start->size);
    char version[HIP_VERSION_MAX] = "", digest[SHA256_TEXT];
    // A hipcc that did not print its version has an empty one here.
    if (ok) {
        const char * p = (const char *) text + start->size;
        ok = sscanf(p, "version %15[0-9.]\ntext %64[0-9a-f]\n", version, digest) == 2 &&
             strlen(digest) == 2 * SHA256_BYTES && digest_from_text(digest, t->hipcc_text);
    }
    free(text);
    if (ok) {
        memcpy(t->hipcc_version, version, sizeof version);
    }
    return ok;
}

static void remember(struct hip_toolchain * t, const struct buf * start) {
    struct buf key = {0}, text = {0};
    char digest[SHA256_TEXT];
    sha256_print(t->hipcc_text, digest);
    buf_append(&key, start->data, start->size);
    buf_printf(&key, "version %s\ntext %s\n", t->hipcc_version, digest);
    keep_seal(&memo, &key, NULL, &text);
    if (t->root >= 0 && t->hipcc_version[0] && !key.failed && !text.failed) {
        dir_write(t->root, memo_file, text.data, text.size, NULL); // asked again where it fails
    }
    buf_free(&key);
    buf_free(&text);
}

// What `program --version` prints; the caller frees it.
static bool ask(struct hip_toolchain * t, char * program, struct buf * said) {
    struct process p = {.argv = (char *[]){program, (char[]){"--version"}, NULL},
                        .time_limit_s = 30,
                        .capture = true,
                        .keep = 65536};
    struct process_end end;
    t->runs++;
    bool ok = process_run(&p, &end, NULL) == ST_OK && end.known && !end.signal && !end.timed_out &&
              end.exit_status == 0 && end.output.data;
    *said = end.output;
    return ok;
}

void hip_toolchain_ask(struct hip_toolchain * t) {
    struct buf file = {0}, start = {0};
    if (t->hipcc_asked || !t->hipcc || !print_file(t->hipcc, &file)) {
        buf_free(&file);
        return;
    }
    t->hipcc_asked = true;
    print_memo_start(&file, &start);
    if (!start.failed && !recall(t, &start)) {
        struct buf said = {0};
        if (ask(t, t->hipcc, &said)) {
            hip_version_from_hipcc((const char *) said.data, t->hipcc_version);
            // A traceback of a script that hipcc calls comes before, and is not always the same.
            const char * from = strstr((const char *) said.data, "HIP version:");
            from = from ? from : (const char *) said.data;
            sha256(from, strlen(from), t->hipcc_text);
            remember(t, &start);
        }
        buf_free(&said);
    }
    buf_free(&file);
    buf_free(&start);
}

bool hip_toolchain_clang(struct hip_toolchain * t, char version[HIP_VERSION_MAX]) {
    int n = t->clang ? version_in_path(t->clang) : 0;
    if (n > 0) {
        snprintf(version, HIP_VERSION_MAX, "%d", n);
    }
    if (n > 0 || !t->clang) {
        return n > 0;
    }
    struct buf said = {0};
    bool ok = ask(t, t->clang, &said) && hip_version_from_clang((const char *) said.data, version);
    buf_free(&said);
    return ok;
}

// One that is gone meanwhile is left out. Without memory it is not known what there is.
static void add(struct hip_compilers * out, enum hip_compiler_kind kind, const char * path,
                const uint8_t * text) {
    struct buf identity = {0};
    buf_printf(&identity, "%s ", kind == HIP_HIPCC ? "hipcc" : "clang");
    errno = 0;
    bool ok = print_file(path, &identity);
    bool no_memory = !ok && errno == ENOMEM;
    if (ok && text) {
        char digest[SHA256_TEXT];
        sha256_print(text, digest);
        buf_printf(&identity, " %s", digest);
    }
    char * copy = strdup(path);
    if (no_memory || identity.failed || !copy) {
        error_set(&out->why, ST_NO_MEMORY, "no memory to tell compilers from one another");
    }
    if (!ok || identity.failed || !copy) {
        buf_free(&identity);
        free(copy);
        return;
    }
    out->list[out->n++] = (struct hip_compiler){kind, copy, (char *) identity.data};
}

void hip_toolchain_compilers(struct hip_toolchain * t, const char * arch,
                             struct hip_compilers * out) {
    *out = (struct hip_compilers){0};
    if (t->hipcc) {
        hip_toolchain_ask(t);
    }
    // A hipcc that does not know the architecture is asked only where there is no other, for what
    // it says is then the best error there is.
    const struct gpu_name * gpu = gpu_by_name(arch);
    bool clang = t->clang && clang_knows(t, gpu);
    if (t->hipcc && (hipcc_knows(t->hipcc_version, gpu) || !t->clang)) {
        add(out, HIP_HIPCC, t->hipcc, t->hipcc_text);
    }
    if (clang) {
        add(out, HIP_CLANG, t->clang, NULL);
    }
    if (!out->n && out->why.status == ST_OK && t->clang && !clang) {
        error_set(&out->why, ST_UNSUPPORTED,
                  "%s is newer than the compilers here: %.200s does not know it; clang++ %d or "
                  "newer does, and hipcc of ROCm %d.%d",
                  arch, t->clang, gpu->clang, gpu->hip / 100, gpu->hip % 100);
    } else if (!out->n && out->why.status == ST_OK) {
        error_set(&out->why, ST_NOT_FOUND,
                  "no HIP compiler: neither hipcc nor clang++ 19 or newer is along PATH; install "
                  "hipcc, or clang-19 and lld-19, or name one in ROCM_KERNELS_COMPILER");
    }
}

void hip_compilers_free(struct hip_compilers * c) {
    for (int i = 0; i < c->n; i++) {
        free(c->list[i].path);
        free(c->list[i].identity);
    }
    c->n = 0;
}
