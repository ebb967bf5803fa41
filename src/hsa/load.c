// load: finds a runtime, opens it with dlopen, and chooses the packet ABI.
//
// Kept true: emulation is asked for, never silent. GGML_HSA_RUNTIME names a file or our runtime
// ("native"), and GGML_HSA_EMULATE asks for emulated agents. With neither our runtime is opened
// where the machine has an NPU that it can drive, and the system's for GPUs: the one that the
// loader finds, and where that cannot be used (a distribution's old one), the one of ROCm's own
// packages, which do not always add it to the loader's paths.
#include "hsac-impl.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char own_file[] = "libhsa-npu.so";
// Where it is, seen from the plugin or the program: beside them in a build, in a directory of its
// own where it is installed, two up from ggml's directory of backends. HSAC_LIBDIR is what this
// installation calls lib.
#ifndef HSAC_LIBDIR
#    define HSAC_LIBDIR "lib"
#endif
static const char * const own_dirs[] = {"", "ggml-hsa/", "../../ggml-hsa/", "../lib/",
                                        "../" HSAC_LIBDIR "/ggml-hsa/"};
static const char system_file[] = "libhsa-runtime64.so.1";

static const char * env_text(const char * name) {
    const char * text = secure_getenv(name);
    return text && *text ? text : NULL;
}

// Notes a name and why it could not be opened, for the error that follows when none could.
static bool try_file(struct hsac * h, const char * file, struct buf * tried) {
    h->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!h->library) {
        const char * why = dlerror();
        // dlerror begins with the file's name, which stands here already.
        size_t n = strlen(file);
        if (why && !strncmp(why, file, n) && !strncmp(why + n, ": ", 2)) {
            why += n + 2;
        }
        buf_printf(tried, "%s%s (%.70s)", tried->size ? ", " : "", file,
                   why ? why : "unknown reason");
    }
    return h->library != NULL;
}

// Tries dir(path)/sub/libhsa-npu.so.
static bool try_beside(struct hsac * h, const char * path, const char * sub, struct buf * tried) {
    const char * slash = strrchr(path, '/');
    char file[1024];
    int n = snprintf(file, sizeof file, "%.*s%s%s", slash ? (int) (slash - path + 1) : 2,
                     slash ? path : "./", sub, own_file);
    return n > 0 && (size_t) n < sizeof file && try_file(h, file, tried);
}

static bool try_around(struct hsac * h, const char * path, struct buf * tried) {
    for (size_t i = 0; i < sizeof own_dirs / sizeof own_dirs[0]; i++) {
        if (try_beside(h, path, own_dirs[i], tried)) {
            return true;
        }
    }
    return false;
}

static bool open_own(struct hsac * h, struct buf * tried) {
    Dl_info self;
    static const char anchor; // an address inside the object that this code was linked into
    if (dladdr(&anchor, &self) && self.dli_fname && strchr(self.dli_fname, '/') &&
        try_around(h, self.dli_fname, tried)) {
        return true;
    }
    // A program found through PATH knows itself by its bare name only.
    char exe[512];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n > 0) {
        exe[n] = '\0';
        if (try_around(h, exe, tried)) {
            return true;
        }
    }
    return try_file(h, own_file, tried);
}

static enum status none_opened(const char * mend, struct buf * tried, struct error * err) {
    return error_set(err, ST_NOT_FOUND, "no HSA runtime. %s; `ggml-hsa doctor` says more. Tried %s",
                     mend, tried->data ? (const char *) tried->data : "nothing: out of memory");
}

static enum status find_symbols(struct hsac * h, struct error * err) {
    const char * missing = NULL;
    void * p;
    // Function pointers and data pointers are the same on every system that has dlsym.
#define FIND(name)                                                                                 \
    p = dlsym(h->library, #name);                                                                  \
    memcpy(&h->api.name, &p, sizeof p);                                                            \
    missing = p ? missing : #name;
    HSAC_EMU_SYMBOLS(FIND)
    h->ours = !missing;
    h->emulated = h->ours && env_text("GGML_HSA_EMULATE");
    missing = NULL;
    HSAC_SYMBOLS(FIND)
#undef FIND
    // By the library that was opened, not by a symbol of it: the one that is missing has no place.
    struct link_map * where = NULL;
    bool found = dlinfo(h->library, RTLD_DI_LINKMAP, &where) == 0 && where && where->l_name[0];
    snprintf(h->path, sizeof h->path, "%s", found ? where->l_name : "the HSA runtime");
    if (missing) {
        return error_set(err, ST_UNSUPPORTED,
                         "%s lacks %s: not an HSA runtime, or one older than ROCr 5", h->path,
                         missing);
    }
    return ST_OK;
}

const char * hsac_status_text(const struct hsac * h, hsa_status_t status) {
    const char * text = NULL;
    if (h->api.hsa_status_string(status, &text) != HSA_STATUS_SUCCESS || !text) {
        text = "unknown HSA status";
    }
    return text;
}

// ROCr 7 ends the process in hsa_init when it finds an NPU but no /dev/kfd; older ones only fail.
static enum status check_driver(const struct hsac * h, struct error * err) {
    if (h->ours || env_flag("GGML_HSA_SKIP_DRIVER_CHECK", false) || access("/dev/kfd", F_OK) == 0) {
        return ST_OK;
    }
    return error_set(
        err, ST_NOT_FOUND,
        "no AMD device: %s needs /dev/kfd, which the amdgpu driver makes, even for an NPU; "
        "load the driver, or set GGML_HSA_EMULATE=aie2 for an emulated NPU, gfx1100 for a GPU "
        "(`ggml-hsa doctor` says more; "
        "GGML_HSA_SKIP_DRIVER_CHECK=1 tries anyway)",
        h->path);
}

// Ours takes every format, and of a runtime that is not known anything may be tried. Otherwise the
// wrong packets end the process.
static enum status may_force(const struct hsac * h, char asked, struct error * err) {
    char known = h->runtime->abi;
    if (h->ours || !known || asked == known || asked == h->runtime->also) {
        return ST_OK;
    }
    return error_set(err, ST_INVALID,
                     "GGML_HSA_AIE_ABI=%c: %s (%s) takes packets of format %c; unset it", asked,
                     h->runtime->name, h->says, known);
}

static enum status choose_abi(struct hsac * h, struct error * err) {
    h->runtime = hsac_runtime_find(h, h->says, sizeof h->says);
    const char * asked = env_text("GGML_HSA_AIE_ABI");
    if (asked) {
        h->abi = asked[1] ? NULL : hsac_abi_find(asked[0]);
        return h->abi ? may_force(h, h->abi->name, err)
                      : error_set(err, ST_INVALID, "GGML_HSA_AIE_ABI=%.40s: expected B, C or D",
                                  asked);
    }
    h->abi = hsac_abi_find(h->runtime->abi);
    return ST_OK;
}

static enum status start(struct hsac * h, struct error * err) {
    hsa_status_t status = h->api.hsa_init();
    if (status != HSA_STATUS_SUCCESS) {
        const char * more = h->ours ? h->api.hsa_emu_last_error((hsa_agent_t){0}) : "";
        return error_set(err, ST_DEVICE, "%s: hsa_init failed: %s; `ggml-hsa doctor` says more",
                         h->path, *more ? more : hsac_status_text(h, status));
    }
    h->initialised = true;
    enum status st = choose_abi(h, err);
    return st == ST_OK ? hsac_agents_find(h, err) : st;
}

// ---- opening ----

static enum status begin(struct hsac * h, struct error * err) {
    enum status st = find_symbols(h, err);
    if (st == ST_OK) {
        st = check_driver(h, err);
    }
    return st == ST_OK ? start(h, err) : st;
}

static enum status new_client(struct hsac ** out, struct error * err) {
    *out = calloc(1, sizeof **out);
    if (!*out) {
        return error_set(err, ST_NO_MEMORY, "no memory for the HSA client");
    }
    (*out)->forks = hsac_forks();
    return ST_OK;
}

// One that was named, or ours when `named` is NULL.
static enum status open_one(const char * named, struct hsac ** out, struct error * err) {
    struct buf tried = {0};
    struct hsac * h;
    enum status st = new_client(&h, err);
    if (st != ST_OK) {
        return st;
    }
    if (named && !try_file(h, named, &tried)) {
        st =
            none_opened("GGML_HSA_RUNTIME must name a libhsa-runtime64, or be native", &tried, err);
    } else if (!named && !open_own(h, &tried)) {
        st = none_opened("libhsa-npu.so must lie beside the program, or GGML_HSA_RUNTIME name it",
                         &tried, err);
    }
    buf_free(&tried);
    if (st != ST_OK || (st = begin(h, err)) != ST_OK) {
        hsac_close(h);
        return st;
    }
    *out = h;
    return ST_OK;
}

// The first of the system's that works; else what was wrong with the first that is there at all.
static enum status open_system(bool no_npus, struct hsac ** out, struct error * err) {
    const char * rocm = env_text("ROCM_PATH");
    char own[1024];
    snprintf(own, sizeof own, "%s/lib/%s", rocm ? rocm : "/opt/rocm", system_file);
    const char * const files[] = {system_file, own};
    struct buf tried = {0};
    struct error first = {0};
    enum status st = ST_NOT_FOUND;
    for (size_t i = 0; i < sizeof files / sizeof files[0] && st != ST_OK; i++) {
        struct error why = {0};
        struct hsac * h;
        if ((st = new_client(&h, err)) != ST_OK) {
            buf_free(&tried);
            return st;
        }
        h->no_npus = no_npus;
        if (!try_file(h, files[i], &tried)) {
            st = ST_NOT_FOUND;
        } else if ((st = begin(h, &why)) == ST_OK) {
            *out = h;
            break;
        } else if (first.status == ST_OK) {
            first = why;
        } else if (strcmp(first.text, why.text)) { // not the same file by another name
            error_set(&first, first.status, "%.270s. Then %.190s", first.text, why.text);
        }
        hsac_close(h);
    }
    if (st != ST_OK) {
        st = first.status != ST_OK
                 ? error_set(err, first.status, "%s", first.text)
                 : none_opened("install ROCr 7 or later, or set GGML_HSA_EMULATE=aie2 (an emulated "
                               "NPU) or gfx1100 (a GPU)",
                               &tried, err);
    }
    buf_free(&tried);
    return st;
}

// Is there an NPU that our runtime can drive? Only then is it opened unasked: where there is none,
// what is wrong with the system's is what people want to hear. *why: of the first that is there and
// cannot be used.
static bool has_npu(struct error * why) {
    struct amdxdna_info info;
    bool found = false;
    why->status = ST_OK;
    for (int i = 0; i < AMDXDNA_DEVICES && !found; i++) {
        struct error err = {0};
        enum status st = amdxdna_probe(i, &info, &err);
        found = st == ST_OK;
        if (st != ST_OK && st != ST_NOT_FOUND && why->status == ST_OK) {
            *why = err;
        }
    }
    return found;
}

static enum status open_unasked(struct hsac * out[HSAC_RUNTIMES], int * n, struct error * err) {
    struct error why = {0}, own = {0}, system = {0};
    if (has_npu(&why) && open_one(NULL, &out[0], &own) == ST_OK) {
        *n = 1;
    }
    // GPUs. Without a NPU of our own the system's may have one.
    enum status st = open_system(*n > 0, &out[*n], &system);
    *n += st == ST_OK;
    if (*n) {
        return ST_OK;
    }
    const struct error * first = own.status != ST_OK ? &own : why.status != ST_OK ? &why : &system;
    return first == &system
               ? error_set(err, st, "%s", system.text)
               : error_set(err, first->status, "%.270s. Then %.190s", first->text, system.text);
}

enum status hsac_open_all(struct hsac * out[HSAC_RUNTIMES], int * n, struct error * err) {
    const char *named = env_text("GGML_HSA_RUNTIME"), *emulate = env_text("GGML_HSA_EMULATE");
    bool native = named && !strcmp(named, "native");
    *n = 0;
    if (native && emulate) {
        return error_set(
            err, ST_INVALID,
            "GGML_HSA_RUNTIME=native asks for this machine's NPU, GGML_HSA_EMULATE=%.40s "
            "for an emulated one; unset one of them",
            emulate);
    }
    if (!named && !emulate) {
        return open_unasked(out, n, err);
    }
    struct error why;
    if (native && !has_npu(&why)) {
        return why.status != ST_OK
                   ? error_set(err, why.status, "GGML_HSA_RUNTIME=native: %s", why.text)
                   : error_set(err, ST_NOT_FOUND,
                               "GGML_HSA_RUNTIME=native: there is no NPU with the amdxdna driver, "
                               "/dev/accel/accel*; `ggml-hsa doctor` says more");
    }
    enum status st = open_one(native ? NULL : named, &out[0], err);
    *n = st == ST_OK;
    return st;
}

static bool has_gpu(const struct hsac * h) {
    return h->n_agents && h->agents[h->n_agents - 1].kind == HSAC_GPU; // behind all NPUs
}

static enum status open_some(bool gpus, struct hsac ** out, struct error * err) {
    struct hsac * all[HSAC_RUNTIMES];
    int n, chosen = 0;
    enum status st = hsac_open_all(all, &n, err);
    for (int i = 1; i < n && gpus; i++) {
        chosen = !has_gpu(all[chosen]) && has_gpu(all[i]) ? i : chosen;
    }
    *out = n > 0 ? all[chosen] : NULL;
    for (int i = 0; i < n; i++) {
        if (i != chosen) {
            hsac_close(all[i]);
        }
    }
    return st;
}

enum status hsac_open(struct hsac ** out, struct error * err) {
    return open_some(false, out, err);
}

enum status hsac_open_gpus(struct hsac ** out, struct error * err) {
    return open_some(true, out, err);
}

void hsac_close(struct hsac * h) {
    if (!h || hsac_forked(h)) {
        return;
    }
    hsac_agents_free(h);
    if (h->initialised) {
        h->api.hsa_shut_down();
    }
    if (h->library) {
        dlclose(h->library);
    }
    free(h);
}

bool hsac_in_use(struct hsac * h) {
    bool used = hsac_forked(h); // not ours to close
    for (int i = 0; !used && i < h->n_agents; i++) {
        struct hsac_agent * a = &h->agents[i];
        pthread_mutex_lock(&a->ring.lock);
        used |= a->ring.handles != NULL;
        pthread_mutex_unlock(&a->ring.lock);
        pthread_mutex_lock(&a->lock);
        used |= a->used[HSAC_POOL_DATA] || a->used[HSAC_POOL_HOST] ||
                (a->kind == HSAC_GPU && a->used[HSAC_POOL_KERNARG]); // of its queues
        pthread_mutex_unlock(&a->lock);
    }
    return used;
}

const char * hsac_runtime_path(const struct hsac * h) {
    return h->path;
}

void * hsac_symbol(const struct hsac * h, const char * name) {
    return dlsym(h->library, name);
}

bool hsac_is_emulated(const struct hsac * h) {
    return h->emulated;
}

bool hsac_is_native(const struct hsac * h) {
    return h->ours && !h->emulated;
}

char hsac_abi_name(const struct hsac * h) {
    return h->abi ? h->abi->name : 'A';
}

const char * hsac_runtime_known_as(const struct hsac * h) {
    return h->runtime->name;
}
