// device: nodes under /dev/accel, what they are, and the one way of a call to the driver.
//
// Two drivers go by the name amdxdna. The one in Linux counts its interface 0.x; AMD's own module
// was 1.x until May 2026, when its package took over the other. They differ in how a program waits.
#include "impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char driver_name[] = "amdxdna_accel_driver";

// The first row that fits. An unknown revision of 17f0 is taken for the first of its kind: they
// have the same array.
static const struct amdxdna_model models[] = {
    {"npu1", "aie2", "RyzenAI-npu1", 0x1502, 0x00, 4, 1, true},   // Phoenix, Hawk Point
    {"npu4", "aie2p", "RyzenAI-npu4", 0x17f0, 0x10, 8, 8, false}, // Strix Point
    {"npu5", "aie2p", "RyzenAI-npu5", 0x17f0, 0x11, 8, 8, false}, // Strix Halo
    {"npu6", "aie2p", "RyzenAI-npu6", 0x17f0, 0x20, 8, 8, false}, // Krackan Point
    {"npu4", "aie2p", "RyzenAI-npu4", 0x17f0, 0x00, 8, 8, true},
};

enum { CHUNKS_FROM = 10 }; // minor version from which on a heap can grow (Linux 7.2)

// ---- calls ----

void amdxdna_count(uint64_t * counter, uint64_t n) {
    __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static bool means_gone(int error) {
    return error == ENODEV || error == ENXIO || error == EIO || error == EBADF;
}

int amdxdna_call(struct amdxdna * d, unsigned long request, void * arg) {
    int rc;
    do {
        rc = ioctl(d->fd, request, arg);
        amdxdna_count(&d->counts.calls, 1);
    } while (rc != 0 && errno == EINTR);
    int error = rc != 0 ? errno : 0;
    if (means_gone(error)) {
        __atomic_store_n(&d->lost, error, __ATOMIC_RELEASE);
    }
    return error;
}

enum status amdxdna_refused(const struct amdxdna * d, const char * call, int error,
                            struct error * err) {
    return means_gone(error)
               ? error_set(err, ST_DEVICE,
                           "%s is gone: its driver answers %s with %s (%s); the kernel's log says "
                           "why",
                           d->info.path, call, strerrorname_np(error), strerror(error))
               : error_set(err, error == ENOMEM ? ST_NO_MEMORY : ST_DEVICE, "%s: %s: %s (%s)",
                           d->info.path, call, strerrorname_np(error), strerror(error));
}

static int ask(struct amdxdna * d, uint32_t question, void * answer, uint32_t size) {
    struct xdna_get_info q = {question, size, (uint64_t) (uintptr_t) answer};
    return amdxdna_call(d, XDNA_IOCTL(XDNA_GET_INFO, struct xdna_get_info), &q);
}

// ---- what it is ----

// A word of sysfs; "" when it cannot be read.
static void sysfs_text(int index, const char * file, char * text, size_t size) {
    char path[96];
    snprintf(path, sizeof path, "/sys/class/accel/accel%d/device/%s", index, file);
    FILE * f = fopen(path, "re");
    text[0] = '\0';
    if (f && !fgets(text, (int) size, f)) {
        text[0] = '\0';
    }
    if (f) {
        fclose(f);
    }
    text[strcspn(text, "\n")] = '\0';
    for (char * c = text; *c; c++) { // it goes to terminals
        *c = *c >= ' ' && *c < 0x7f ? *c : '?';
    }
}

static const struct amdxdna_model * find_model(unsigned pci, unsigned revision) {
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        if (models[i].pci == pci && (models[i].any_revision || models[i].revision == revision)) {
            return &models[i];
        }
    }
    return NULL;
}

static enum status ask_version(struct amdxdna * d, struct error * err) {
    char name[sizeof driver_name] = {0};
    struct xdna_version v = {.name_size = sizeof name - 1, .name = (uint64_t) (uintptr_t) name};
    int error = amdxdna_call(d, XDNA_IOCTL(XDNA_VERSION, struct xdna_version), &v);
    if (error || v.name_size != sizeof name - 1 || strcmp(name, driver_name) != 0) {
        return error_set(err, ST_NOT_FOUND, "%s belongs to another driver than amdxdna",
                         d->info.path);
    }
    d->info.major = v.major;
    d->info.minor = v.minor;
    d->info.legacy = v.major > 0;
    return v.major <= 1 ? ST_OK
                        : error_set(err, ST_UNSUPPORTED,
                                    "%s: version %d.%d of its driver is not known; 0.x and 1.x are",
                                    d->info.path, v.major, v.minor);
}

static enum status ask_device(struct amdxdna * d, int index, struct error * err) {
    struct xdna_metadata metadata = {0};
    char pci[16], revision[16];
    sysfs_text(index, "device", pci, sizeof pci);
    sysfs_text(index, "revision", revision, sizeof revision);
    sysfs_text(index, "vbnv", d->info.product, sizeof d->info.product);
    d->info.model =
        find_model((unsigned) strtoul(pci, NULL, 16), (unsigned) strtoul(revision, NULL, 16));
    if (!d->info.model) {
        return error_set(
            err, ST_UNSUPPORTED,
            "%s is a device 1022:%.8s that is not known here; known are 1502 (Phoenix, "
            "Hawk Point) and 17f0 (Strix, Strix Halo, Krackan)",
            d->info.path, *pci ? pci : "?");
    }
    if (!*d->info.product) {
        snprintf(d->info.product, sizeof d->info.product, "%s", d->info.model->product);
    }
    int error = ask(d, XDNA_QUERY_METADATA, &metadata, sizeof metadata);
    if (!error) {
        error = ask(d, XDNA_QUERY_FIRMWARE, d->info.firmware, sizeof d->info.firmware);
    }
    d->info.columns = metadata.columns;
    d->info.rows = metadata.rows;
    return error ? amdxdna_refused(d, "GET_INFO", error, err) : ST_OK;
}

static enum status cannot_open(const char * path, int error, struct error * err) {
    return error == ENOENT || error == ENOTDIR
               ? error_set(err, ST_NOT_FOUND, "there is no %s", path)
           : error == EACCES || error == EPERM
               ? error_set(err, ST_IO,
                           "%s may not be opened by this user: add it to the group that owns the "
                           "device (usually render) and log in again",
                           path)
               : error_set(err, ST_IO, "%s: %s", path, strerror(error));
}

static enum status begin(int index, struct amdxdna * d, struct error * err) {
    *d = (struct amdxdna){.fd = -1};
    snprintf(d->info.path, sizeof d->info.path, "/dev/accel/accel%d", index);
    do {
        // Not open: our runtime has one of its own, for rocminfo, which knows no played driver.
        d->fd = openat(AT_FDCWD, d->info.path, O_RDWR | O_CLOEXEC);
    } while (d->fd < 0 && errno == EINTR);
    if (d->fd < 0) {
        return cannot_open(d->info.path, errno, err);
    }
    enum status st = ask_version(d, err);
    return st == ST_OK ? ask_device(d, index, err) : st;
}

static void end(struct amdxdna * d) {
    if (d->fd >= 0) {
        close(d->fd);
    }
}

enum status amdxdna_probe(int index, struct amdxdna_info * out, struct error * err) {
    struct amdxdna d;
    enum status st = begin(index, &d, err);
    end(&d);
    *out = d.info;
    return st;
}

void amdxdna_describe(const struct amdxdna_info * info, char * text, size_t size) {
    snprintf(text, size, "amdxdna %d.%d (%s), firmware %u.%u.%u.%u", info->major, info->minor,
             info->legacy ? "AMD's old module" : "Linux", info->firmware[0], info->firmware[1],
             info->firmware[2], info->firmware[3]);
}

enum status amdxdna_open(int index, struct amdxdna ** out, struct error * err) {
    struct amdxdna * d = malloc(sizeof *d);
    *out = NULL;
    if (!d) {
        return error_set(err, ST_NO_MEMORY, "no memory for a device");
    }
    enum status st = begin(index, d, err);
    if (st != ST_OK) {
        end(d);
        free(d);
        return st;
    }
    pthread_mutex_init(&d->lock, NULL);
    *out = d;
    return ST_OK;
}

void amdxdna_close(struct amdxdna * d) {
    if (!d) {
        return;
    }
    amdxdna_heap_end(d);
    end(d);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

const struct amdxdna_info * amdxdna_info(const struct amdxdna * d) {
    return &d->info;
}

uint64_t amdxdna_heap_limit(const struct amdxdna * d) {
    bool grows = !d->info.legacy && d->info.minor >= CHUNKS_FROM;
    return (uint64_t) HEAP_CHUNK * (grows ? d->info.model->heap_chunks : 1);
}

enum status amdxdna_check(struct amdxdna * d, struct error * err) {
    uint32_t version[2];
    int error = __atomic_load_n(&d->lost, __ATOMIC_ACQUIRE);
    if (!error) {
        error = ask(d, XDNA_QUERY_AIE_VERSION, version, sizeof version);
    }
    return error ? amdxdna_refused(d, "GET_INFO", error, err) : ST_OK;
}

void amdxdna_counts(const struct amdxdna * d, struct amdxdna_counts * out) {
    uint64_t * to = (uint64_t *) out;
    const uint64_t * from = (const uint64_t *) &d->counts;
    for (size_t i = 0; i < sizeof *out / sizeof *to; i++) {
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    }
}

// ---- what it says of itself ----

// Reads the power sensor. Drivers have sensors since 0.7, where another module measures the power.
static double ask_watts(struct amdxdna * d) {
    struct xdna_sensor sensors[8] = {0};
    double watts = -1;
    struct xdna_get_info q = {XDNA_QUERY_SENSORS, sizeof sensors, (uint64_t) (uintptr_t) sensors};
    if (amdxdna_call(d, XDNA_IOCTL(XDNA_GET_INFO, struct xdna_get_info), &q) == 0) {
        for (size_t i = 0; i < sizeof sensors / sizeof sensors[0] && watts < 0; i++) {
            if (*sensors[i].label && sensors[i].type == 0) {
                watts = sensors[i].input;
                for (int e = sensors[i].exponent; e != 0; e += e < 0 ? 1 : -1) {
                    watts *= e < 0 ? 0.1 : 10;
                }
            }
        }
    }
    return watts;
}

void amdxdna_state(struct amdxdna * d, struct amdxdna_state * out) {
    struct xdna_clocks clocks = {0};
    struct xdna_resources resources = {0};
    uint8_t mode[8] = {0};
    *out = (struct amdxdna_state){.power_mode = -1};
    if (ask(d, XDNA_QUERY_CLOCKS, &clocks, sizeof clocks) == 0) {
        out->npu_mhz = clocks.npu.mhz;
        out->array_mhz = clocks.h.mhz;
    }
    if (ask(d, XDNA_QUERY_POWER_MODE, mode, sizeof mode) == 0) {
        out->power_mode = mode[0];
    }
    if (ask(d, XDNA_QUERY_RESOURCES, &resources, sizeof resources) == 0) {
        out->contexts = resources.tasks;
        out->contexts_max = resources.tasks_max;
        out->tops_max = resources.tops_max;
    }
    struct xdna_get_array last = {.param = XDNA_ARRAY_LAST_ERROR,
                                  .element_size = sizeof out->last_error,
                                  .elements = 1,
                                  .buffer = (uint64_t) (uintptr_t) &out->last_error};
    amdxdna_call(d, XDNA_IOCTL(XDNA_GET_ARRAY, struct xdna_get_array), &last);
    out->watts = ask_watts(d);
}
