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

static void fill_metadata(const struct accel_model * m, struct xdna_metadata * out) {
    *out = (struct xdna_metadata){
        .column_size = 1u << 25,
        .columns = (uint16_t) m->columns,
        .rows = 6,
        .major = m->arch == AIE_ARCH_AIE2 ? 2 : 4,
        .core = {.rows = 4, .first_row = 2, .dma_channels = 2, .locks = 16, .events = 1},
        .mem = {.rows = 1, .first_row = 1, .dma_channels = 6, .locks = 64, .events = 1},
        .shim = {.rows = 1, .first_row = 0, .dma_channels = 2, .locks = 16, .events = 1},
    };
}

static size_t fill_contexts(const struct accel_device * dev, struct xdna_context_info * out,
                            size_t max) {
    size_t n = 0;
    for (const struct accel_file * f = dev->files; f; f = f->next) {
        for (const struct accel_context * x = f->contexts; x && n < max; x = x->next) {
            out[n++] = (struct xdna_context_info){
                .id = x->id,
                .first_column = x->first_column,
                .columns = x->columns,
                .pid = getpid(),
                .submissions = x->timeline->submitted,
                .completions = x->timeline->ended,
                .errors = x->errors,
            };
        }
    }
    return n;
}

enum { MAX_LISTED = 64 };

union answer {
    uint32_t words[4];
    struct xdna_metadata metadata;
    struct xdna_clocks clocks;
    struct xdna_resources resources;
    struct xdna_context_info contexts[MAX_LISTED];
    uint8_t power_mode[8];
};

// The answer's size, or 0 when the question is not played.
static size_t fill(const struct accel_device * dev, uint32_t param, union answer * out) {
    const struct accel_settings * s = &dev->settings;
    const struct accel_model * m = s->model;
    memset(out, 0, sizeof *out);
    switch (param) {
    case XDNA_QUERY_METADATA:
        fill_metadata(m, &out->metadata);
        return sizeof out->metadata;
    case XDNA_QUERY_AIE_VERSION:
        out->words[0] = m->arch == AIE_ARCH_AIE2 ? 2 : 4;
        return 8;
    case XDNA_QUERY_CLOCKS:
        out->clocks =
            (struct xdna_clocks){{"MP-NPU Clock", m->npu_mhz, 0}, {"H Clock", m->h_mhz, 0}};
        return sizeof out->clocks;
    case XDNA_QUERY_CONTEXTS:
        return sizeof out->contexts[0] * fill_contexts(dev, out->contexts, MAX_LISTED);
    case XDNA_QUERY_FIRMWARE:
        sscanf(s->firmware, "%u.%u.%u.%u", &out->words[0], &out->words[1], &out->words[2],
               &out->words[3]);
        return 16;
    case XDNA_QUERY_POWER_MODE:
        return sizeof out->power_mode;
    case XDNA_QUERY_RESOURCES:
        out->resources = (struct xdna_resources){
            .clock_max = m->h_mhz,
            .tops_max = 2 * m->columns,
            .tasks_max = s->contexts,
            .tops = 2 * m->columns,
            .tasks = accel_context_count(dev),
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

int accel_get_array(struct accel_call * c) {
    struct xdna_get_array * a = c->arg;
    if (a->pad || a->elements == 0 || a->element_size == 0) {
        return accel_refuse(c, EINVAL, "%u elements of %u bytes", a->elements, a->element_size);
    }
    if (a->param != XDNA_ARRAY_CONTEXTS) {
        return accel_refuse(c, EOPNOTSUPP, "array %u is not played", a->param);
    }
    struct xdna_context_info list[MAX_LISTED];
    size_t max = a->elements < MAX_LISTED ? a->elements : MAX_LISTED;
    size_t n = fill_contexts(c->dev, list, max);
    size_t each = a->element_size < sizeof list[0] ? a->element_size : sizeof list[0];
    for (size_t i = 0; i < n; i++) {
        if (!accel_user_write(a->buffer + i * each, &list[i], each)) {
            return accel_refuse(c, EFAULT, "the array has no place at 0x%llx",
                                (unsigned long long) a->buffer);
        }
    }
    a->element_size = (uint32_t) each;
    a->elements = (uint32_t) n;
    accel_words(c, "%zu contexts", n);
    return 0;
}

int accel_set_state(struct accel_call * c) {
    const struct xdna_get_info * a = c->arg;
    if (geteuid() != 0) {
        return accel_refuse(c, EACCES, "only root may set states");
    }
    return accel_refuse(c, EOPNOTSUPP, "state %u is not played", a->param);
}
