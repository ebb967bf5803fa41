// buffers: memory that the device reaches, by handle. Handles are the lowest free number, as DRM
// gives them, and mean something in their own file only. A buffer lives as long as a handle, a
// mapping or a job holds on to it; DEV buffers are pieces of the file's one heap, which must be
// mapped before there can be any.
#include "accel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const char * const type_names[] = {"?", "SHARE", "HEAP", "DEV", "CMD"};

struct accel_bo * accel_bo_get(const struct accel_file * f, uint32_t handle) {
    return handle < f->max_handles ? f->handles[handle] : NULL;
}

uint32_t accel_handle_new(struct accel_device * dev, struct accel_file * f, struct accel_bo * bo) {
    uint32_t h = 1;
    while (h < f->max_handles && f->handles[h]) {
        h++;
    }
    if (h >= f->max_handles) {
        uint32_t max = f->max_handles ? 2 * f->max_handles : 64;
        struct accel_bo ** handles = realloc(f->handles, max * sizeof *handles);
        if (!handles) {
            return 0;
        }
        memset(handles + f->max_handles, 0, (max - f->max_handles) * sizeof *handles);
        f->handles = handles;
        f->max_handles = max;
    }
    f->handles[h] = bo;
    bo->handles++;
    bo->refs++;
    dev->counts.live_buffers++;
    return h;
}

static void handle_close(struct accel_device * dev, struct accel_file * f, uint32_t handle) {
    struct accel_bo * bo = f->handles[handle];
    f->handles[handle] = NULL;
    dev->counts.live_buffers--;
    if (--bo->handles == 0 && bo->mappings) {
        dev->counts.kept_bytes += bo->size;
    }
    accel_bo_put(dev, bo);
}

// ---- the heap ----

bool accel_heap_take(struct accel_device * dev, struct accel_file * f, uint64_t size,
                     uint64_t * at) {
    if (!accel_ranges_take(&f->heap_used, size, dev->settings.heap_align, at)) {
        return false;
    }
    uint64_t used = 0;
    for (size_t i = 0; i < f->heap_used.n; i++) {
        used += f->heap_used.taken[i].size;
    }
    if (used > dev->counts.most_heap_bytes) {
        dev->counts.most_heap_bytes = used;
    }
    return true;
}

uint64_t accel_heap_va(const struct accel_file * f, uint64_t at) {
    return f->heap && f->heap->va != XDNA_NO_ADDRESS ? f->heap->va + at : XDNA_NO_ADDRESS;
}

// ---- their life ----

void accel_bo_put(struct accel_device * dev, struct accel_bo * bo) {
    if (--bo->refs > 0) {
        return;
    }
    struct accel_file * f = bo->file;
    if (bo->type == XDNA_BO_DEV) {
        accel_ranges_give(&f->heap_used, bo->at);
        accel_bo_put(dev, f->heap);
    } else {
        accel_libc()->munmap(bo->bytes, bo->size);
        // Gives the memory back; what takes its place begins with zeros, as from the kernel.
        if (fallocate(f->memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) bo->at,
                      (off_t) bo->size) == 0) {
            accel_ranges_give(&f->used, bo->at);
        }
        if (bo == f->heap) {
            f->heap = NULL;
            accel_ranges_free(&f->heap_used);
        }
    }
    free(bo);
}

static int new_memory(struct accel_file * f, struct accel_bo * bo) {
    if (!accel_ranges_take(&f->used, bo->size, ACCEL_PAGE, &bo->at)) {
        return ENOMEM;
    }
    bo->bytes = accel_libc()->mmap(NULL, bo->size, PROT_READ | PROT_WRITE, MAP_SHARED, f->memory,
                                   (off_t) bo->at);
    if (bo->bytes == MAP_FAILED) {
        accel_ranges_give(&f->used, bo->at);
        return ENOMEM;
    }
    return 0;
}

static int new_heap(struct accel_call * c, struct accel_bo * bo) {
    struct accel_file * f = c->file;
    const struct accel_settings * s = &c->dev->settings;
    if (bo->size != ACCEL_HEAP_BYTES) {
        return accel_refuse(c, bo->size % ACCEL_HEAP_BYTES ? EINVAL : ENOSPC,
                            "a heap of %llu bytes: this device's has %llu",
                            (unsigned long long) bo->size, (unsigned long long) ACCEL_HEAP_BYTES);
    }
    if (f->heap) {
        return accel_refuse(c, EBUSY, "this file has a heap already");
    }
    int error = new_memory(f, bo);
    if (error) {
        return accel_refuse(c, error, "no memory for the heap");
    }
    uint64_t end = s->heap_start + s->heap_bytes;
    f->heap = bo;
    f->heap_used = (struct accel_ranges){
        .begin = s->heap_start,
        .end = end < ACCEL_HEAP_BYTES ? end : ACCEL_HEAP_BYTES,
    };
    return 0;
}

static int new_piece(struct accel_call * c, struct accel_bo * bo) {
    struct accel_file * f = c->file;
    if (!f->heap || f->heap->va == XDNA_NO_ADDRESS) {
        return accel_refuse(c, EINVAL, "a DEV buffer before the heap was %s",
                            f->heap ? "mapped" : "made");
    }
    if (!accel_heap_take(c->dev, f, bo->size, &bo->at)) {
        return accel_refuse(c, ENOSPC,
                            "a DEV buffer of %llu bytes: the heap has no such hole between its %zu "
                            "buffers, which lie %llu bytes apart at least",
                            (unsigned long long) bo->size, f->heap_used.n,
                            (unsigned long long) c->dev->settings.heap_align);
    }
    bo->bytes = f->heap->bytes + bo->at;
    f->heap->refs++;
    if (c->dev->settings.strict) {
        memset(bo->bytes, 0xff, bo->size); // the kernel leaves what was there before
    }
    return 0;
}

int accel_create_bo(struct accel_call * c) {
    struct xdna_create_bo * a = c->arg;
    if (a->flags) {
        return accel_refuse(c, EINVAL, "flags 0x%llx: expected 0", (unsigned long long) a->flags);
    }
    if (a->type < XDNA_BO_SHARE || a->type > XDNA_BO_CMD) {
        return accel_refuse(c, EINVAL, "type %u: expected 1 to 4", a->type);
    }
    if (a->size == 0 || a->size > ACCEL_HEAP_BYTES << 12) {
        return accel_refuse(c, EINVAL, "%llu bytes", (unsigned long long) a->size);
    }
    if (a->vaddr) {
        return accel_refuse(c, EOPNOTSUPP, "memory of the program's own: it is not played");
    }
    struct accel_bo * bo = calloc(1, sizeof *bo);
    if (!bo) {
        return accel_refuse(c, ENOMEM, "no memory for a buffer");
    }
    *bo = (struct accel_bo){
        .type = a->type,
        .size = (a->size + ACCEL_PAGE - 1) / ACCEL_PAGE * ACCEL_PAGE,
        .va = XDNA_NO_ADDRESS,
        .refs = 1,
        .file = c->file,
        .serial = ++c->dev->serial,
    };
    int result = bo->type == XDNA_BO_HEAP  ? new_heap(c, bo)
                 : bo->type == XDNA_BO_DEV ? new_piece(c, bo)
                                           : -new_memory(c->file, bo);
    if (result != 0) {
        free(bo);
        return result;
    }
    a->handle = accel_handle_new(c->dev, c->file, bo);
    accel_bo_put(c->dev, bo); // the handle holds it now
    if (a->handle == 0) {
        return accel_refuse(c, ENOMEM, "no memory for a handle");
    }
    c->dev->counts.buffers++;
    accel_words(c, "%s of %llu bytes: handle %u at 0x%llx", type_names[a->type],
                (unsigned long long) a->size, a->handle, (unsigned long long) bo->at);
    return 0;
}

int accel_get_bo_info(struct accel_call * c) {
    struct xdna_get_bo_info * a = c->arg;
    if (a->ext || a->ext_flags || a->pad) {
        return accel_refuse(c, EINVAL, "ext, ext_flags or pad is not 0");
    }
    const struct accel_bo * bo = accel_bo_get(c->file, a->handle);
    if (!bo) {
        return accel_refuse(c, ENOENT, "there is no buffer %u", a->handle);
    }
    bool piece = bo->type == XDNA_BO_DEV;
    a->map_offset = piece ? XDNA_NO_ADDRESS : ACCEL_FAKE_BASE + bo->at;
    a->vaddr = piece ? accel_heap_va(c->file, bo->at) : bo->va;
    a->xdna_addr = piece                      ? ACCEL_HEAP_BASE + bo->at
                   : bo->type == XDNA_BO_HEAP ? ACCEL_HEAP_BASE
                                              : bo->va;
    accel_words(c, "buffer %u (%s): offset 0x%llx, address 0x%llx, device 0x%llx", a->handle,
                type_names[bo->type], (unsigned long long) a->map_offset,
                (unsigned long long) a->vaddr, (unsigned long long) a->xdna_addr);
    return 0;
}

int accel_sync_bo(struct accel_call * c) {
    const struct xdna_sync_bo * a = c->arg;
    const struct accel_bo * bo = accel_bo_get(c->file, a->handle);
    if (!bo) {
        return accel_refuse(c, ENOENT, "there is no buffer %u", a->handle);
    }
    if (a->direction > XDNA_SYNC_FROM_DEVICE) {
        return accel_refuse(c, EINVAL, "direction %u: expected 0 or 1", a->direction);
    }
    if (a->offset > bo->size || a->size > bo->size - a->offset) {
        return accel_refuse(c, EINVAL, "bytes %llu to %llu of buffer %u, which has %llu",
                            (unsigned long long) a->offset,
                            (unsigned long long) (a->offset + a->size), a->handle,
                            (unsigned long long) bo->size);
    }
    accel_words(c, "buffer %u %s device", a->handle, a->direction ? "from" : "to");
    return 0; // there are no caches between
}

int accel_gem_close(struct accel_call * c) {
    const struct xdna_gem_close * a = c->arg;
    struct accel_bo * bo = accel_bo_get(c->file, a->handle);
    if (a->pad || !bo) {
        return accel_refuse(c, EINVAL, "there is no buffer %u", a->handle);
    }
    accel_words(c, "buffer %u (%s)%s", a->handle, type_names[bo->type],
                bo->mappings ? ", which stays mapped" : "");
    handle_close(c->dev, c->file, a->handle);
    return 0;
}

// The program may still have them mapped: then the kernel keeps the pages, and nothing is zeroed.
void accel_file_drop_buffers(struct accel_device * dev, struct accel_file * f) {
    for (struct accel_export ** e = &dev->exports; *e;) {
        struct accel_export * gone = *e;
        if (gone->bo->file == f) {
            *e = gone->next;
            accel_bo_put(dev, gone->bo);
            free(gone);
        } else {
            e = &gone->next;
        }
    }
    for (uint32_t h = 1; h < f->max_handles; h++) {
        if (f->handles[h]) {
            dev->counts.left_buffers++;
            handle_close(dev, f, h);
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < dev->n_mappings; i++) {
        struct accel_bo * bo = dev->mappings[i].bo;
        if (bo->file != f) {
            dev->mappings[kept++] = dev->mappings[i];
        } else if (--bo->refs == 0) {
            accel_libc()->munmap(bo->bytes, bo->size);
            free(bo);
        }
    }
    dev->n_mappings = kept;
    free(f->handles);
    accel_ranges_free(&f->used);
    accel_ranges_free(&f->heap_used);
}
