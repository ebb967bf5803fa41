// contexts: a program's share of the array. A context gets columns, an id, and a few chain buffers
// in the heap; its CUs are the PDIs that it was configured with, once, by number: what a command
// runs is CU n of this list, whatever the caller believes it put there. Ids go round, so that one
// comes back after a while. A context's commands are the points of its timeline, which the program
// has a syncobj of.
#include "accel.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CORE_ROWS = 4 };

struct accel_context * accel_context_get(const struct accel_file * f, uint32_t id) {
    struct accel_context * x = f->contexts;
    while (x && (x->id != id || x->leaving)) {
        x = x->next;
    }
    return x;
}

// The file's next free id after the last that was given, and from 1 again after the highest;
// 0: none is free.
static uint32_t next_id(struct accel_device * dev, struct accel_file * f) {
    uint64_t ids = dev->settings.context_ids;
    for (uint64_t i = 0; i < ids; i++) {
        uint32_t id = (uint32_t) ((f->last_context + i) % ids + 1);
        const struct accel_context * x = f->contexts;
        while (x && x->id != id) {
            x = x->next;
        }
        if (!x) {
            return f->last_context = id;
        }
    }
    return 0;
}

uint64_t accel_context_count(const struct accel_device * dev) {
    uint64_t n = 0;
    for (const struct accel_file * f = dev->files; f; f = f->next) {
        for (const struct accel_context * x = f->contexts; x; x = x->next) {
            n++;
        }
    }
    return n;
}

static void give_chains(struct accel_file * f, const struct accel_context * x, int n) {
    while (n-- > 0) {
        accel_ranges_give(&f->heap_used, x->chain_at[n]);
    }
}

static int take_chains(struct accel_call * c, struct accel_context * x) {
    uint64_t size = (c->dev->settings.chain_bytes + ACCEL_PAGE - 1) / ACCEL_PAGE * ACCEL_PAGE;
    for (int i = 0; i < ACCEL_JOBS; i++) {
        int result = accel_heap_take(c, size, "a chain buffer of the context", &x->chain_at[i]);
        if (result != 0) {
            give_chains(c->file, x, i);
            return result;
        }
    }
    return 0;
}

static int check_create(struct accel_call * c, const struct xdna_create_hwctx * a) {
    struct xdna_qos qos;
    if (a->ext || a->ext_flags) {
        return accel_refuse(c, EINVAL, "ext or ext_flags is not 0");
    }
    if (!accel_user_read(&qos, a->qos, sizeof qos)) {
        return accel_refuse(c, EFAULT, "its quality of service at 0x%llx cannot be read",
                            (unsigned long long) a->qos);
    }
    return 0;
}

static int check_tiles(struct accel_call * c, uint32_t tiles) {
    const struct accel_model * m = c->dev->settings.model;
    if (tiles / CORE_ROWS == 0 || tiles / CORE_ROWS > m->columns) {
        return accel_refuse(c, EINVAL, "%u tiles: %d to %u are columns of this device", tiles,
                            CORE_ROWS, CORE_ROWS * m->columns);
    }
    return 0;
}

static int find_place(struct accel_call * c, struct accel_context * x) {
    struct accel_device * dev = c->dev;
    const struct accel_kernel * k = dev->settings.kernel;
    switch (accel_shared_add(dev, x)) {
    case ACCEL_PLACE_NO_COLUMNS:
        return accel_refuse(c, ENODEV, "%u columns: contexts of other widths are in the way",
                            x->columns);
    case ACCEL_PLACE_NO_CONTEXT:
        return accel_refuse(c, k->upstream ? EINVAL : ENOENT,
                            "the device has its %" PRIu64 " contexts already (firmware status "
                            "0x2000003)",
                            dev->settings.contexts);
    case ACCEL_PLACE_NO_ID:
        break;
    case ACCEL_PLACE_OK:
        x->id = k->device_ids ? x->id : next_id(dev, c->file);
        break;
    }
    return x->id ? 0 : accel_refuse(c, EBUSY, "no id is free");
}

// The firmware is told where the heap lies, and wants a multiple of its size.
static int check_heap_place(struct accel_call * c) {
    const struct accel_bo * heap = c->file->heaps[0];
    if (c->dev->settings.kernel->upstream && heap->va % ACCEL_HEAP_BYTES) {
        return accel_refuse(
            c, EINVAL,
            "the heap is mapped at 0x%llx, which is no multiple of 64 MiB (firmware "
            "status 0x4000003)",
            (unsigned long long) heap->va);
    }
    return 0;
}

static void context_drop(struct accel_device * dev, struct accel_context * x) {
    for (unsigned i = 0; i < x->n_cus; i++) {
        if (x->cus[i].held) {
            accel_bo_put(dev, x->cus[i].held);
        }
    }
    emu_machine_free(x->machine);
    if (x->timeline) {
        accel_timeline_put(x->timeline);
    }
    accel_shared_remove(dev, x);
    free(x);
}

// In the order of the kernel's checks, so that of two mistakes the same one is reported.
static int prepare(struct accel_call * c, struct accel_context * x, uint32_t tiles) {
    if (c->file->n_heaps == 0) {
        return accel_refuse(c, ENOENT, "this file has no heap yet");
    }
    if (c->dev->settings.kernel->upstream && c->file->heaps[0]->va == XDNA_NO_ADDRESS) {
        return accel_refuse(c, EAGAIN, "the heap is not mapped yet");
    }
    int result = take_chains(c, x);
    if (result != 0) {
        return result;
    }
    result = check_tiles(c, tiles);
    if (result == 0) {
        result = find_place(c, x);
    }
    if (result == 0) {
        result = check_heap_place(c);
    }
    if (result != 0) {
        give_chains(c->file, x, ACCEL_JOBS);
    }
    return result;
}

int accel_create_hwctx(struct accel_call * c) {
    struct xdna_create_hwctx * a = c->arg;
    struct accel_file * f = c->file;
    int result = check_create(c, a);
    struct accel_context * x = result == 0 ? calloc(1, sizeof *x) : NULL;
    if (!x) {
        return result ? result : accel_refuse(c, ENOMEM, "no memory for a context");
    }
    x->file = f;
    x->entry = -1;
    x->columns = a->num_tiles / CORE_ROWS;
    x->timeline = accel_timeline_new();
    result = x->timeline ? prepare(c, x, a->num_tiles)
                         : accel_refuse(c, ENOMEM, "no memory for a timeline");
    if (result == 0) {
        a->syncobj = accel_syncobj_new(c->dev, f, x->timeline);
        if (!a->syncobj) {
            give_chains(f, x, ACCEL_JOBS);
            result = accel_refuse(c, ENOMEM, "no memory for a syncobj");
        }
    }
    if (result != 0) {
        context_drop(c->dev, x);
        return result;
    }
    f->heaps[0]->refs++;
    x->next = f->contexts;
    f->contexts = x;
    accel_shared_tell(c->dev, x);
    a->handle = x->id;
    a->umq_doorbell = UINT32_MAX;
    c->dev->counts.contexts++;
    accel_time_pass(c->dev->settings.clock.context_ns);
    accel_words(c, "%u tiles: context %u, columns %u to %u, syncobj %u", a->num_tiles, x->id,
                x->first_column, x->first_column + x->columns - 1, a->syncobj);
    return 0;
}

void accel_context_free(struct accel_device * dev, struct accel_context * x) {
    struct accel_file * f = x->file;
    x->leaving = true;
    pthread_cond_broadcast(&dev->changed); // a command that is stuck ends with its context
    while (x->timeline->submitted != x->timeline->ended) {
        pthread_cond_wait(&dev->changed, &dev->lock);
    }
    struct accel_context ** link = &f->contexts;
    while (*link != x) {
        link = &(*link)->next;
    }
    *link = x->next;
    give_chains(f, x, ACCEL_JOBS);
    struct accel_bo * heap = f->heaps[0];
    context_drop(dev, x);
    accel_bo_put(dev, heap);
}

int accel_destroy_hwctx(struct accel_call * c) {
    const struct xdna_destroy_hwctx * a = c->arg;
    if (a->pad) {
        return accel_refuse(c, EINVAL, "pad is not 0");
    }
    struct accel_context * x = accel_context_get(c->file, a->handle);
    if (!x) {
        return accel_refuse(c, EINVAL, "there is no context %u", a->handle);
    }
    accel_words(c, "context %u after %llu commands", x->id,
                (unsigned long long) x->timeline->submitted);
    accel_context_free(c->dev, x);
    return 0;
}

// ---- CUs ----

static bool any(const void * bytes, size_t n) {
    const uint8_t * b = bytes;
    bool found = false;
    for (size_t i = 0; i < n; i++) {
        found |= b[i] != 0;
    }
    return found;
}

static int config_cus(struct accel_call * c, struct accel_context * x, const struct xdna_cus * cus,
                      uint32_t size) {
    if (x->n_cus) {
        return accel_refuse(c, EINVAL, "context %u has its CUs already", x->id);
    }
    if (size < sizeof *cus || cus->count == 0 || cus->count > ACCEL_MAX_CUS ||
        size < sizeof *cus + cus->count * sizeof cus->cus[0]) {
        return accel_refuse(c, EINVAL, "%u CUs in %u bytes: expected 1 to %d", cus->count, size,
                            ACCEL_MAX_CUS);
    }
    const bool padding = c->dev->settings.cu_padding;
    if (padding && any(cus->pad, sizeof cus->pad)) {
        return accel_refuse(c, EINVAL, "the padding of its CUs is not 0");
    }
    for (unsigned i = 0; i < cus->count; i++) {
        struct accel_bo * bo = accel_bo_get(c->file, cus->cus[i].bo);
        if (padding && any(cus->cus[i].pad, sizeof cus->cus[i].pad)) {
            return accel_refuse(c, EINVAL, "CU %u: its padding is not 0", i);
        }
        if (!bo || bo->type != XDNA_BO_DEV) {
            return accel_refuse(c, EINVAL, "CU %u: buffer %u is %s", i, cus->cus[i].bo,
                                bo ? "no DEV buffer" : "not there");
        }
        x->cus[i] = (struct accel_cu){cus->cus[i].bo, bo->at, bo->size, bo->serial, NULL};
    }
    x->n_cus = cus->count;
    for (unsigned i = 0; i < x->n_cus && c->dev->settings.kernel->holds_cus; i++) {
        x->cus[i].held = accel_bo_get(c->file, x->cus[i].handle);
        x->cus[i].held->refs++;
    }
    return 0;
}

int accel_config_hwctx(struct accel_call * c) {
    const struct xdna_config_hwctx * a = c->arg;
    union {
        struct xdna_cus cus;
        uint8_t bytes[ACCEL_PAGE];
    } config = {.bytes = {0}};
    if (a->pad) {
        return accel_refuse(c, EINVAL, "pad is not 0");
    }
    if (a->type == XDNA_CONFIG_ATTACH_DEBUG || a->type == XDNA_CONFIG_DETACH_DEBUG) {
        return accel_refuse(c, EOPNOTSUPP, "debug buffers are not played");
    }
    if (a->type != XDNA_CONFIG_CU) {
        return accel_refuse(c, EINVAL, "type %u: expected 0", a->type);
    }
    if (a->size > sizeof config) {
        return accel_refuse(c, E2BIG, "%u bytes: at most %zu", a->size, sizeof config);
    }
    if (!accel_user_read(&config, a->value, a->size)) {
        return accel_refuse(c, EFAULT, "its CUs at 0x%llx cannot be read",
                            (unsigned long long) a->value);
    }
    struct accel_context * x = accel_context_get(c->file, a->handle);
    if (!x) {
        return accel_refuse(c, EINVAL, "there is no context %u", a->handle);
    }
    int result = config_cus(c, x, &config.cus, a->size);
    if (result == 0) {
        size_t n =
            (size_t) snprintf(c->words, sizeof c->words, "context %u: PDIs in buffers", x->id);
        for (unsigned i = 0; i < x->n_cus && n < sizeof c->words; i++) {
            n += (size_t) snprintf(c->words + n, sizeof c->words - n, " %u", x->cus[i].handle);
        }
    }
    return result;
}
