// queries: what the device says of itself. A caller whose buffer is smaller than the answer gets
// the beginning of it, as from the kernel; questions that the driver of the out-of-tree package
// knows and that are not played are refused with EOPNOTSUPP.
#include "accel.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *date, *description;
} driver = {"amdxdna_accel_driver", "", "AMD XDNA DRM implementation"};

static bool give_text(uint64_t to, uint64_t * room, const char * text) {
    size_t n = strlen(text);
    bool ok = accel_user_write(to, text, *room < n ? (size_t) *room : n);
    *room = n;
    return ok;
}

int accel_version(struct accel_call * c) {
    struct xdna_version * a = c->arg;
    const struct accel_kernel * k = c->dev->settings.kernel;
    a->major = k->major;
    a->minor = k->minor;
    a->patch = 0;
    if (!give_text(a->name, &a->name_size, driver.name) ||
        !give_text(a->date, &a->date_size, driver.date) ||
        !give_text(a->description, &a->description_size, driver.description)) {
        return accel_refuse(c, EFAULT, "its texts cannot be written");
    }
    accel_words(c, "%s %d.%d", driver.name, k->major, k->minor);
    return 0;
}

// The version of the array; the package's module gives the generation in its place.
static void aie_version(const struct accel_settings * s, uint32_t * major, uint32_t * minor) {
    *major = s->model->arch == AIE_ARCH_AIE2 ? 2 : 4;
    *minor = 0;
    if (s->kernel->upstream) {
        sscanf(s->model->aie_version, "%u.%u", major, minor);
    }
}

static void fill_metadata(const struct accel_settings * s, struct xdna_metadata * out) {
    enum { COLUMN_SIZE = 504 }; // as a Strix Halo says it; of what, it does not say
    *out = (struct xdna_metadata){
        .column_size = s->kernel->upstream ? COLUMN_SIZE : 1u << 25,
        .columns = (uint16_t) s->model->columns,
        .rows = 6,
        .core = {.rows = 4, .first_row = 2, .dma_channels = 2, .locks = 16, .events = 1},
        .mem = {.rows = 1, .first_row = 1, .dma_channels = 6, .locks = 64, .events = 1},
        .shim = {.rows = 1, .first_row = 0, .dma_channels = 2, .locks = 16, .events = 1},
    };
    aie_version(s, &out->major, &out->minor);
}

enum { MAX_LISTED = 64 };

union answer {
    uint32_t words[4];
    struct xdna_metadata metadata;
    struct xdna_clocks clocks;
    struct xdna_resources resources;
    struct xdna_context_info contexts[MAX_LISTED];
    uint8_t power_mode[8];
    struct xdna_sensor sensors[1 + 8];
};

// MHz of the management processor and of the array, by level; the lowest, the middle, the highest.
struct level {
    unsigned npu, h;
};

static struct level clocks_now(const struct accel_model * m, uint32_t power_mode) {
    enum { LOW = 1, MEDIUM = 2 };
    const struct level aie2[] = {{400, 800}, {600, 1024}}, aie2p[] = {{396, 792}, {975, 1267}};
    const struct level * l = m->arch == AIE_ARCH_AIE2 ? aie2 : aie2p;
    return power_mode == LOW      ? l[0]
           : power_mode == MEDIUM ? l[1]
                                  : (struct level){m->npu_mhz, m->h_mhz};
}

// Power in milliwatts, and how many percent of its time each column had work.
static size_t fill_sensors(const struct accel_device * dev, struct xdna_sensor * out) {
    const struct accel_model * m = dev->settings.model;
    bool busy = accel_shared_busy(dev);
    out[0] = (struct xdna_sensor){.label = "Total Power",
                                  .input = busy ? 6000 : 500,
                                  .status = "OK",
                                  .units = "mW",
                                  .exponent = -3,
                                  .type = 0};
    for (unsigned i = 0; i < m->columns; i++) {
        out[1 + i] = (struct xdna_sensor){
            .input = busy ? 100 : 0, .max = 100, .status = "OK", .units = "%", .type = 1};
        snprintf(out[1 + i].label, sizeof out[1 + i].label, "Column %u Utilization", i);
    }
    return (1 + m->columns) * sizeof out[0];
}

static size_t fill_contexts(struct accel_device * dev, struct xdna_context_info * out, size_t max) {
    struct xdna_context_entry list[MAX_LISTED];
    size_t n = accel_shared_list(dev, list, max);
    for (size_t i = 0; i < n; i++) {
        memcpy(&out[i], &list[i], sizeof out[i]); // it begins so
        out[i].pad = 0;
    }
    return n;
}

// The answer's size, or 0 when the question is not played.
static size_t fill(struct accel_device * dev, uint32_t param, union answer * out) {
    const struct accel_settings * s = &dev->settings;
    const struct accel_model * m = s->model;
    // 4 rows, 256 or 512 multiply-adds of bytes a cycle, by clock; an aie2p says 58.
    uint64_t tops = m->arch == AIE_ARCH_AIE2P ? 58 : 2 * m->columns;
    struct level level;
    memset(out, 0, sizeof *out);
    switch (param) {
    case XDNA_QUERY_METADATA:
        fill_metadata(s, &out->metadata);
        return sizeof out->metadata;
    case XDNA_QUERY_AIE_VERSION:
        aie_version(s, &out->words[0], &out->words[1]);
        return 8;
    case XDNA_QUERY_CLOCKS:
        level = clocks_now(m, *accel_shared_power(dev));
        out->clocks = (struct xdna_clocks){{"MP-NPU Clock", level.npu, 0}, {"H Clock", level.h, 0}};
        return sizeof out->clocks;
    case XDNA_QUERY_SENSORS:
        return s->kernel->sensors && m->whole_array ? fill_sensors(dev, out->sensors) : 0;
    case XDNA_QUERY_CONTEXTS:
        return sizeof out->contexts[0] * fill_contexts(dev, out->contexts, MAX_LISTED);
    case XDNA_QUERY_FIRMWARE:
        sscanf(s->firmware, "%u.%u.%u.%u", &out->words[0], &out->words[1], &out->words[2],
               &out->words[3]);
        return 16;
    case XDNA_QUERY_POWER_MODE:
        out->power_mode[0] = (uint8_t) *accel_shared_power(dev);
        return sizeof out->power_mode;
    case XDNA_QUERY_RESOURCES:
        out->resources = (struct xdna_resources){
            .clock_max = m->h_mhz,
            .tops_max = tops,
            .tasks_max = s->contexts,
            .tops = tops,
            .tasks = accel_shared_count(dev),
        };
        return sizeof out->resources;
    default:
        return 0;
    }
}

int accel_get_info(struct accel_call * c) {
    struct xdna_get_info * a = c->arg;
    union answer answer;
    size_t size = fill(c->dev, a->param, &answer);
    if (size == 0 && a->param != XDNA_QUERY_CONTEXTS) {
        return accel_refuse(c, EOPNOTSUPP, "question %u is not played", a->param);
    }
    if (a->param == XDNA_QUERY_CONTEXTS && a->size < size) {
        a->size = (uint32_t) size;
        return accel_refuse(c, EINVAL, "the contexts take %zu bytes", size);
    }
    size = a->size < size ? a->size : size;
    if (!accel_user_write(a->buffer, &answer, size)) {
        return accel_refuse(c, EFAULT, "the answer to question %u has no place at 0x%llx", a->param,
                            (unsigned long long) a->buffer);
    }
    if (a->param == XDNA_QUERY_CONTEXTS) {
        a->size = (uint32_t) size;
    }
    accel_words(c, "question %u, %zu bytes", a->param, size);
    return 0;
}

// As many elements as there is room for, of as many bytes as both know.
static int give_array(struct accel_call * c, const void * list, size_t size, size_t n) {
    struct xdna_get_array * a = c->arg;
    size_t each = a->element_size < size ? a->element_size : size;
    n = n < a->elements ? n : a->elements;
    for (size_t i = 0; i < n; i++) {
        if (!accel_user_write(a->buffer + i * each, (const char *) list + i * size, each)) {
            return accel_refuse(c, EFAULT, "the array has no place at 0x%llx",
                                (unsigned long long) a->buffer);
        }
    }
    a->element_size = (uint32_t) each;
    a->elements = (uint32_t) n;
    accel_words(c, "%zu elements of %zu bytes", n, each);
    return 0;
}

int accel_get_array(struct accel_call * c) {
    struct xdna_get_array * a = c->arg;
    const struct accel_kernel * k = c->dev->settings.kernel;
    if (a->pad || a->elements == 0 || a->element_size == 0) {
        return accel_refuse(c, EINVAL, "%u elements of %u bytes", a->elements, a->element_size);
    }
    if (a->param == XDNA_ARRAY_LAST_ERROR && k->upstream) {
        return give_array(c, accel_shared_error(c->dev), sizeof(struct xdna_last_error), 1);
    }
    if (a->param != XDNA_ARRAY_CONTEXTS) {
        return accel_refuse(c, EOPNOTSUPP, "array %u is not played", a->param);
    }
    struct xdna_context_entry list[MAX_LISTED];
    struct xdna_context_info old[MAX_LISTED];
    if (k->upstream) {
        size_t n = accel_shared_list(c->dev, list, MAX_LISTED);
        for (size_t i = 0; i < n && k->entry_bytes < sizeof list[0];
             i++) { // older ones are shorter
            memmove((char *) list + i * k->entry_bytes, &list[i], k->entry_bytes);
        }
        return give_array(c, list, k->entry_bytes, n);
    }
    return give_array(c, old, sizeof old[0], fill_contexts(c->dev, old, MAX_LISTED));
}

int accel_set_state(struct accel_call * c) {
    const struct xdna_get_info * a = c->arg;
    if (geteuid() != 0) {
        return accel_refuse(c, EACCES, "only root may set states");
    }
    uint8_t mode[8] = {0};
    if (a->param != 0 || !c->dev->settings.kernel->upstream) {
        return accel_refuse(c, EOPNOTSUPP, "state %u is not played", a->param);
    }
    if (a->size != sizeof mode || !accel_user_read(mode, a->buffer, sizeof mode)) {
        return accel_refuse(c, a->size != sizeof mode ? EINVAL : EFAULT,
                            "a power mode of %u bytes at 0x%llx", a->size,
                            (unsigned long long) a->buffer);
    }
    if (mode[0] > 4) {
        return accel_refuse(c, EINVAL, "power mode %u: expected 0 to 4", mode[0]);
    }
    *accel_shared_power(c->dev) = mode[0];
    accel_words(c, "power mode %u", mode[0]);
    return 0;
}
