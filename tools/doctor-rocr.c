// doctor-rocr: the HSA runtimes of the machine. A distribution's ROCr and AMD's own in /opt/rocm
// can both be there, and the one that the loader finds need not be the one that can do more. They
// are told apart by the build that stands in their bytes, so that only one is ever started; that
// one, and the loader's search for its file, run in processes of their own (probe.c).
#include "doctor.h"

#include "hip/hip-impl.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ROCR_FILE "libhsa-runtime64.so.1"

struct rocr {
    char path[MACHINE_PATH]; // as it is to be named
    dev_t device;
    ino_t inode;
    int build[3]; // all 0: not known
};

enum { MAX_ROCRS = 8, MAX_ROCR_BYTES = 64 << 20 };

// The one that is opened first stands first.
struct rocrs {
    int n;
    struct rocr list[MAX_ROCRS];
};

// Every ROCr carries the text that hsa_system_get_info gives as its build version. Failing that,
// the file's full name ends in the same numbers.
static void find_build(const char * file, int build[3]) {
    static const char mark[] = "ROCR BUILD ID: ";
    uint8_t * data = NULL;
    size_t size = 0;
    bool found = false;
    if (file_read(file, MAX_ROCR_BYTES, &data, &size, NULL) == ST_OK) {
        const char * p = memmem(data, size, mark, sizeof mark - 1);
        char text[64] = "";
        if (p) {
            p += sizeof mark - 1;
            size_t left = size - (size_t) (p - (const char *) data);
            snprintf(text, sizeof text, "%.*s", left < 63 ? (int) left : 63, p);
        }
        found = machine_version(text + (*text == '"'), build, 3) >= 2;
        free(data);
    }
    char real[PATH_MAX];
    const char * number = realpath(file, real) ? strstr(real, ".so.") : NULL;
    if (!found && number) {
        machine_version(number + 4, build, 3);
    }
}

// file is where it lies, path is what the user is told. The same file under two names is one.
static void add_rocr(struct rocrs * r, const char * file, const char * path) {
    struct stat info;
    if (r->n == MAX_ROCRS || stat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
        return;
    }
    for (int i = 0; i < r->n; i++) {
        if (r->list[i].device == info.st_dev && r->list[i].inode == info.st_ino) {
            return;
        }
    }
    struct rocr * new = &r->list[r->n++];
    *new = (struct rocr){.device = info.st_dev, .inode = info.st_ino};
    snprintf(new->path, sizeof new->path, "%.511s", path);
    find_build(file, new->build);
}

// False: GGML_HSA_RUNTIME names something that is not there.
static bool find_rocrs(const struct doctor * d, const char * named, struct rocrs * r) {
    const struct machine * m = &d->machine;
    char loader[MACHINE_PATH] = "", path[MACHINE_PATH], shown[MACHINE_PATH];
    if (named) { // a bare name goes to the loader
        probe_loader(named, loader, sizeof loader);
        add_rocr(r, strchr(named, '/') ? named : loader, named);
        if (r->n == 0) {
            return false;
        }
    } else if (d->runtime.err.status == ST_OK) {
        const char * opened = d->runtime.native ? d->runtime.second : d->runtime.path;
        add_rocr(r, opened, opened);
    }
    probe_loader(ROCR_FILE, loader, sizeof loader);
    add_rocr(r, loader, loader);
    machine_path(m, path, "/opt/rocm/lib/" ROCR_FILE);
    add_rocr(r, path, "/opt/rocm/lib/" ROCR_FILE);
    machine_path(m, path, "/opt");
    DIR * dir = opendir(path);
    for (struct dirent * e; dir && (e = readdir(dir));) { // AMD's packages can stand side by side
        if (!strncmp(e->d_name, "rocm-", 5)) {
            snprintf(shown, sizeof shown, "/opt/%.200s/lib/" ROCR_FILE, e->d_name);
            machine_path(m, path, "%s", shown);
            add_rocr(r, path, shown);
        }
    }
    if (dir) {
        closedir(dir);
    }
    return true;
}

static int compare(const int a[3], const int b[3]) {
    for (int i = 0; i < 3; i++) {
        if (a[i] != b[i]) {
            return a[i] < b[i] ? -1 : 1;
        }
    }
    return 0;
}

// What the builds are called; of those that were seen, 1.18 is the first that runs NPU kernels.
static const struct {
    int up_to; // 1.x
    const char * release;
    bool npu;
} releases[] = {
    {14, "ROCm before 6.4", false},
    {15, "ROCm 6.4", false},
    {18, "ROCm 7", true},
    {INT_MAX, "later than ROCm 7.2", true},
};

static int release_of(const struct rocr * r) {
    int i = 0;
    while (r->build[0] <= 1 && r->build[1] > releases[i].up_to) {
        i++;
    }
    return r->build[0] > 1 ? (int) (sizeof releases / sizeof releases[0]) - 1 : i;
}

static void build_text(const struct rocr * r, char text[80]) {
    if (r->build[0]) {
        snprintf(text, 80, "build %d.%d.%d, %s", r->build[0], r->build[1], r->build[2],
                 releases[release_of(r)].release);
    } else {
        snprintf(text, 80, "of an unknown build");
    }
}

static void check_rocrs(struct doctor * d) {
    static const char install[] =
        "install ROCr 7.0 or later: Debian experimental's or Ubuntu 26.04's libhsa-runtime64-1, "
        "Fedora 44's rocm-runtime, Arch's or AMD's hsa-rocr; docs/hardware.md lists them";
    const char * named = getenv("GGML_HSA_RUNTIME");
    named = named && *named && strcmp(named, "native") != 0 ? named : NULL;
    struct rocrs r = {0};
    if (!find_rocrs(d, named, &r)) {
        report_need(d, FAIL, "ROCr", "unset GGML_HSA_RUNTIME, or name a " ROCR_FILE " in it",
                    "GGML_HSA_RUNTIME=%s: there is no such library", named);
        return;
    }
    if (r.n == 0) {
        report_need(d, FAIL, "ROCr", install,
                    "no " ROCR_FILE " where the loader looks, and none in /opt/rocm");
        return;
    }
    const struct rocr * first = &r.list[0];
    char build[80], mend[MACHINE_PATH + 100];
    build_text(first, build);
    const char * why = named               ? "named by GGML_HSA_RUNTIME"
                       : d->runtime.native ? (*d->runtime.second ? "opened for GPUs" : "not opened")
                                           : "opened first";
    if (first->build[0] && !releases[release_of(first)].npu && !d->runtime.native) {
        report_need(d, FAIL, "ROCr", install, "%s, %s: %s; it takes no NPU kernels", first->path,
                    why, build);
    } else {
        report(d, PASS, "ROCr", "", "%s, %s: %s", first->path, why, build);
    }
    for (int i = 1; i < r.n; i++) {
        const struct rocr * other = &r.list[i];
        bool newer = first->build[0] && compare(other->build, first->build) > 0;
        build_text(other, build);
        if (newer && !named) {
            snprintf(mend, sizeof mend, "to use the newer one, set GGML_HSA_RUNTIME=%.511s",
                     other->path);
            report_need(d, WARN, "ROCr", mend, "%s is newer and not opened: %s", other->path,
                        build);
        } else {
            report(d, PASS, "ROCr", "", "%s is there too and not opened: %s", other->path, build);
        }
    }
}

// ---- the one that was opened ----

// Which packets are sent, and what decided it.
static void check_abi(struct doctor * d) {
    const struct probe_runtime * r = &d->runtime;
    const char * asked = getenv("GGML_HSA_AIE_ABI");
    if (r->abi == 'A') {
        report(d, FAIL, "packet ABI",
               "install ROCr 7.0 or later; if this one is, set GGML_HSA_AIE_ABI=B",
               "A, by what the runtime says of itself: too old to run NPU kernels");
    } else if (asked && *asked) {
        report(d, PASS, "packet ABI", "", "%c, asked for by GGML_HSA_AIE_ABI", r->abi);
    } else {
        report(d, PASS, "packet ABI", "", "%c, by what the runtime says of itself", r->abi);
    }
}

static void check_agents(struct doctor * d) {
    const struct probe_runtime * r = &d->runtime;
    bool npu = probe_has(r, HSAC_NPU); // a runtime without any device is an error before
    if (!npu && d->emulated) {
        report(d, PASS, "NPU", "", "the runtime lists none, only GPUs");
    } else if (!npu) {
        report_need(d, WARN, "NPU", "mend what is said above, or set GGML_HSA_EMULATE=aie2",
                    "the runtime lists none, only GPUs");
    }
    for (int i = 0; i < r->n_agents; i++) {
        const struct probe_agent * a = &r->agents[i];
        struct buf memory = {0};
        if (a->check.status != ST_OK) {
            report(d, FAIL, "NPU",
                   "unset GGML_HSA_RUNTIME: the NPU is then used through the kernel's driver "
                   "alone; docs/hardware.md lists which ROCr works with which driver",
                   "%s (%s): %s", a->product, a->name, a->check.text);
            continue;
        }
        size_text(&memory, a->data_total);
        // GPUs come last; where some are left out, who knows which has which name?
        char name[24] = "";
        if (a->kind == HSAC_NPU || d->plugin.devices == r->n_agents) {
            snprintf(name, sizeof name, "HSA%d: ", i);
        }
        report(d, PASS, a->kind == HSAC_GPU ? "GPU" : "NPU", "", "%s%s (%s), %s%s%s", name,
               a->product, a->name, memory.data ? (char *) memory.data : "?",
               *a->driver ? "; without ROCr, by " : "", a->driver);
        buf_free(&memory);
        if (a->kind == HSAC_GPU) {
            check_gpu_compiler(d, a->name);
        }
    }
}

void check_runtime(struct doctor * d) {
    const struct probe_runtime * r = &d->runtime;
    if (!d->emulated) {
        check_rocrs(d);
    }
    if (r->err.status != ST_OK) {
        report(d, FAIL, "HSA runtime",
               d->emulated
                   ? "GGML_HSA_EMULATE wants aie2 (or gfx90a, gfx942, gfx1100, gfx1151), and "
                     "libhsa-npu.so beside this tool or in lib/ggml-hsa"
                   : "mend what is said above, or set GGML_HSA_EMULATE=aie2",
               "%s", r->err.text);
        return;
    }
    report(d, PASS, "HSA runtime", "", "%s%s, build %s, interface %d.%d, AMD extension %d.%d",
           r->path,
           r->emulated ? " (emulated)"
           : r->native ? " (this machine's NPU)"
                       : "",
           *r->build ? r->build : "unknown", r->interface[0], r->interface[1], r->extension[0],
           r->extension[1]);
    if (probe_has(r, HSAC_NPU)) {
        check_abi(d);
    }
    check_agents(d);
}
