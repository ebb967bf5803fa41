// probe: what runs code of others, and texts made safe to print. See probe.h.
#include "probe.h"

#include "base/plain.h"
#include "hsa/hsac.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIME_LIMIT_MS 60000 // hsa_init on a busy machine takes seconds

const struct probe_option probe_options[] = {
#ifdef GGML_HSA
    {"GGML_HSA", true},
#else
    {"GGML_HSA", false},
#endif
#ifdef GGML_HSA_JIT_COMPILE
    {"GGML_HSA_JIT_COMPILE", true},
#else
    {"GGML_HSA_JIT_COMPILE", false},
#endif
#ifdef GGML_HSA_JIT_STDOUT_REDIRECT
    {"GGML_HSA_JIT_STDOUT_REDIRECT", true},
#else
    {"GGML_HSA_JIT_STDOUT_REDIRECT", false},
#endif
#ifdef GGML_HSA_CPU_FALLBACK
    {"GGML_HSA_CPU_FALLBACK", true},
#else
    {"GGML_HSA_CPU_FALLBACK", false},
#endif
};
const int probe_n_options = sizeof probe_options / sizeof probe_options[0];

// ---- in a process of its own ----

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool read_all(int fd, void * data, size_t size) {
    int64_t deadline = now_ms() + TIME_LIMIT_MS;
    for (size_t n = 0; n < size;) {
        int64_t left = deadline - now_ms();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (left <= 0 || (poll(&p, 1, (int) left) < 0 && errno != EINTR)) {
            return false;
        }
        ssize_t got = p.revents ? read(fd, (char *) data + n, size - n) : 0;
        if (got < 0 && errno != EINTR) {
            return false;
        }
        if (p.revents && got == 0) {
            return false;
        }
        n += got > 0 ? (size_t) got : 0;
    }
    return true;
}

// Fills data by work(data) in a child. False with the reason in err when the child did not come
// back.
static bool isolated(void (*work)(void * data), void * data, size_t size, const char * what,
                     struct error * err) {
    int fds[2];
    fflush(stdout);
    fflush(stderr);
    if (pipe(fds) != 0) {
        error_set(err, ST_IO, "no pipe: %s", strerror(errno));
        return false;
    }
    pid_t pid = fork();
    if (pid == 0) {
        // What is printed there (by a runtime that asserts, by ggml's log) is not our finding.
        int null = open("/dev/null", O_RDWR);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        close(fds[0]);
        work(data);
        const char * p = data;
        for (size_t n = 0; n < size;) {
            ssize_t put = write(fds[1], p + n, size - n);
            if (put <= 0) {
                _exit(1);
            }
            n += (size_t) put;
        }
        _exit(0); // not exit: a runtime's own clean-up may fail, and means nothing here
    }
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        error_set(err, ST_IO, "no process for it: %s", strerror(errno));
        return false;
    }
    bool ok = read_all(fds[0], data, size);
    close(fds[0]);
    int status = 0;
    bool ended = waitpid(pid, &status, ok ? 0 : WNOHANG) == pid;
    for (int i = 0; !ended && i < 50; i++) { // it may be writing a core file
        poll(NULL, 0, 20);
        ended = waitpid(pid, &status, WNOHANG) == pid;
    }
    if (!ended) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        error_set(err, ST_DEVICE, "%s did not come back within %d s", what, TIME_LIMIT_MS / 1000);
    } else if (!ok && WIFSIGNALED(status)) {
        error_set(err, ST_DEVICE, "%s ended the process with signal %d (%s)", what,
                  WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else if (!ok) {
        error_set(err, ST_DEVICE, "%s ended the process with exit status %d", what,
                  WEXITSTATUS(status));
    }
    return ok;
}

// ---- runtime ----

// What the runtime says of itself. Numbers that it does not know stay 0.
static void ask_versions(const struct hsac * h, struct probe_runtime * r) {
    enum { MAJOR, MINOR, BUILD = 0x200, EXT_MAJOR = 0x207, EXT_MINOR }; // hsa_system_info_t
    int (*ask)(int attribute, void * value);
    void * address = hsac_symbol(h, "hsa_system_get_info");
    memcpy(&ask, &address, sizeof address);
    const struct {
        int attribute, *to;
    } numbers[] = {{MAJOR, &r->interface[0]},
                   {MINOR, &r->interface[1]},
                   {EXT_MAJOR, &r->extension[0]},
                   {EXT_MINOR, &r->extension[1]}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        uint16_t value = 0;
        *numbers[i].to = ask && ask(numbers[i].attribute, &value) == 0 ? value : 0;
    }
    const char * build = NULL;
    if (ask && ask(BUILD, &build) == 0 && build) { // ROCr's stands in quotes
        build += *build == '"';
        snprintf(r->build, sizeof r->build, "%.*s", (int) strcspn(build, "\""), build);
    }
}

static void real_path(const struct hsac * h, char path[512]) {
    char real[PATH_MAX];
    snprintf(path, 512, "%.511s",
             realpath(hsac_runtime_path(h), real) ? real : hsac_runtime_path(h));
}

static void add_agents(struct hsac * h, struct probe_runtime * r) {
    for (int i = 0; i < hsac_agent_count(h) && r->n_agents < PROBE_MAX_AGENTS; i++) {
        struct hsac_agent * a = hsac_agent_get(h, i);
        struct probe_agent * out = &r->agents[r->n_agents++];
        out->kind = hsac_agent_kind(a);
        snprintf(out->name, sizeof out->name, "%s", hsac_agent_name(a));
        snprintf(out->product, sizeof out->product, "%s", hsac_agent_product(a));
        out->columns = hsac_agent_columns(a);
        hsac_agent_check(a, &out->check);
        struct hsac_driver driver;
        if (hsac_agent_driver(a, &driver)) {
            snprintf(out->driver, sizeof out->driver, "%s", driver.driver);
        }
        hsac_agent_memory(a, &out->data_free, &out->data_total);
        out->device_heap = hsac_agent_pool_size(a, HSAC_POOL_DEV);
        out->kernel_arguments = hsac_agent_pool_size(a, HSAC_POOL_KERNARG);
    }
}

static void open_runtime(void * data) {
    struct probe_runtime * r = data;
    struct hsac * all[HSAC_RUNTIMES];
    int n;
    if (hsac_open_all(all, &n, &r->err) != ST_OK) {
        return;
    }
    real_path(all[0], r->path);
    r->emulated = hsac_is_emulated(all[0]);
    r->native = hsac_is_native(all[0]);
    r->abi = hsac_abi_name(all[0]);
    ask_versions(all[0], r);
    for (int i = 0; i < n; i++) {
        add_agents(all[i], r);
        if (i) {
            real_path(all[i], r->second);
        }
    }
}

void probe_runtime(struct probe_runtime * out) {
    struct error err = {0};
    *out = (struct probe_runtime){0};
    if (!isolated(open_runtime, out, sizeof *out, "the HSA runtime", &err)) {
        *out = (struct probe_runtime){.err = err};
    }
}

// ---- loader ----

struct library {
    char name[64], path[512];
};

static void load_library(void * data) {
    struct library * l = data;
    struct link_map * map = NULL;
    void * handle = dlopen(l->name, RTLD_LAZY | RTLD_LOCAL);
    char real[PATH_MAX];
    if (handle && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && realpath(map->l_name, real)) {
        snprintf(l->path, sizeof l->path, "%.511s", real);
    }
}

void probe_loader(const char * name, char * path, size_t size) {
    struct library l = {{0}, {0}};
    snprintf(l.name, sizeof l.name, "%s", name);
    bool found = isolated(load_library, &l, sizeof l, "loading it", NULL);
    snprintf(path, size, "%s", found ? l.path : "");
}

// ---- plugin ----

struct reg { // the beginning of ggml's registry entry, the same in all of its versions
    int api_version;
};

static void listen(int level, const char * text, void * user) {
    struct probe_plugin * p = user;
    (void) level; // what is no warning is not said unless it is asked for
    if (!p->said[0] && strstr(text, "ggml-hsa: ")) {
        snprintf(p->said, sizeof p->said, "%.*s", (int) strcspn(text, "\n"), text);
    }
}

static void load_plugin(void * data) {
    struct probe_plugin * p = data;
    // Looking must not change anything: no cache is cleared or made, no record begun.
    static const char * const side_effects[] = {"GGML_HSA_KERNEL_CACHE_CLEAR",
                                                "GGML_HSA_JIT_CLEAR_CACHE", "GGML_HSA_RECORD"};
    for (size_t i = 0; i < sizeof side_effects / sizeof side_effects[0]; i++) {
        unsetenv(side_effects[i]);
    }
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 1);
    setenv("ROCM_KERNELS_CACHE_READ_ONLY", "1", 1);
    setenv("GGML_HSA_ENABLE_LOG", "0", 1);
    void * library = dlopen(p->path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        error_set(&p->err, ST_IO, "%s", dlerror());
        return;
    }
    const char * (*version)(void);
    void (*log_set)(void (*)(int, const char *, void *), void *);
    struct reg * (*init)(void);
    int (*count)(void);
    void * address = dlsym(library, "ggml_version"); // also in the libraries that it needs
    memcpy(&version, &address, sizeof address);
    address = dlsym(library, "ggml_log_set");
    memcpy(&log_set, &address, sizeof address);
    address = dlsym(library, "ggml_backend_init");
    memcpy(&init, &address, sizeof address);
    address = dlsym(library, "ggml_backend_hsa_get_device_count");
    memcpy(&count, &address, sizeof address);
    snprintf(p->ggml_version, sizeof p->ggml_version, "%s", version ? version() : "unknown");
    if (!init || !count) {
        error_set(&p->err, ST_INVALID, "%s is no ggml-hsa plugin", p->path);
        return;
    }
    if (log_set) {
        log_set(listen, p);
    }
    struct reg * reg = init();
    if (!reg) {
        error_set(&p->err, ST_UNSUPPORTED, "it refuses ggml %s", p->ggml_version);
        return;
    }
    p->api = reg->api_version;
    p->devices = count();
    int (*missing)(int, char *, size_t);
    address = dlsym(library, "ggml_backend_hsa_missing_ops");
    memcpy(&missing, &address, sizeof address);
    p->missing = missing ? missing(0, p->missing_ops, sizeof p->missing_ops) : -1;
}

// Beside the program in a build, in the library directory where it is installed.
static bool find_around(const char * program, const char * name, char path[512]) {
#ifndef HSAC_LIBDIR
#    define HSAC_LIBDIR "lib"
#endif
#ifndef HSAC_PLUGIN_DIR
#    define HSAC_PLUGIN_DIR HSAC_LIBDIR
#endif
    static const char * const dirs[] = {"", "../" HSAC_PLUGIN_DIR "/", "../" HSAC_LIBDIR "/",
                                        "../lib/", "../" HSAC_LIBDIR "/ggml-hsa/"};
    const char * slash = strrchr(program, '/');
    for (size_t i = 0; slash && i < sizeof dirs / sizeof dirs[0]; i++) {
        int n =
            snprintf(path, 512, "%.*s%s%s", (int) (slash - program + 1), program, dirs[i], name);
        if (n >= 512) {
            continue;
        }
        char real[PATH_MAX];
        if (realpath(path, real) && strlen(real) < 512) {
            memcpy(path, real, strlen(real) + 1);
            return true;
        }
    }
    return false;
}

// By the name that the program was started with; one found through PATH has none with a directory.
// The kernel's name for it comes second: of a program that a dynamic linker was told to run, that
// is the linker.
bool probe_find(const char * name, char path[512]) {
    Dl_info self;
    static const char anchor;
    if (dladdr(&anchor, &self) && self.dli_fname && find_around(self.dli_fname, name, path)) {
        return true;
    }
    char exe[400];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = '\0';
    return find_around(exe, name, path);
}

void probe_plugin(struct probe_plugin * out) {
    *out = (struct probe_plugin){0};
    if (!probe_find("libggml-hsa.so", out->path)) {
        error_set(&out->err, ST_NOT_FOUND, "there is no libggml-hsa.so beside this tool");
        out->path[0] = '\0';
        return;
    }
    struct probe_plugin copy = *out;
    struct error err = {0};
    if (!isolated(load_plugin, out, sizeof *out, "loading it", &err)) {
        *out = copy;
        out->err = err;
    }
}

// ---- text ----

json_t * json_text(const char * text) {
    struct buf b = {0};
    for (const char * p = text; *p;) {
        size_t n = plain_utf8(p);
        buf_append(&b, n ? p : "?", n ? n : 1);
        p += n ? n : 1;
    }
    json_t * value = b.failed ? NULL : json_string(b.data ? (const char *) b.data : "");
    buf_free(&b);
    return value;
}

void plain_text(struct buf * b, const char * text) {
    size_t n;
    for (const char * p = text; *p; p += n) {
        bool shown = plain_character(p, &n);
        buf_append(b, shown ? p : "?", shown ? n : 1);
    }
}

void size_text(struct buf * b, uint64_t bytes) {
    static const char * const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    double v = (double) bytes;
    while (v >= 1024 && unit < 4) {
        v /= 1024;
        unit++;
    }
    buf_printf(b, v == (double) (uint64_t) v ? "%.0f %s" : "%.1f %s", v, units[unit]);
}
