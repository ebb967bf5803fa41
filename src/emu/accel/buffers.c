// buffers: memory that the device reaches, by handle. Handles are the lowest free number, as DRM
// gives them, and mean something in their own file only. A buffer lives as long as a handle, a
// mapping or a job holds on to it.
//
// DEV buffers are pieces of the file's heap, which must be mapped before there can be any. The heap
// is one buffer, or several chunks one behind the other where the kernel lets it grow: a piece that
// would lie in a chunk that is not there yet is refused with EAGAIN, which means "make one". Chunks
// stay until the file is closed; the package's module gave its one heap back with its last user.
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

// The address in the program of what lies there in the heap, or XDNA_NO_ADDRESS.
static uint64_t accel_heap_va(const struct accel_file * f, uint64_t at) {
    for (unsigned i = 0; i < f->n_heaps; i++) {
        const struct accel_bo * h = f->heaps[i];
        if (at - h->heap_at < h->size) {
            return h->va == XDNA_NO_ADDRESS ? XDNA_NO_ADDRESS : h->va + (at - h->heap_at);
        }
    }
    return XDNA_NO_ADDRESS;
}

// A piece lies in chunks that are there, mapped, and one behind the other in the program.
static int check_piece(struct accel_call * c, uint64_t at, uint64_t size, const char * what) {
    const struct accel_file * f = c->file;
    uint64_t expected = XDNA_NO_ADDRESS;
    for (unsigned i = 0; i < f->n_heaps; i++) {
        const struct accel_bo * h = f->heaps[i];
        if (h->heap_at + h->size <= at || h->heap_at >= at + size) {
            continue;
        }
        if (h->va == XDNA_NO_ADDRESS) {
            return accel_refuse(c, c->dev->settings.kernel->early_piece,
                                "%s before chunk %u of the heap was mapped", what, i);
        }
        if (expected != XDNA_NO_ADDRESS && expected != h->va) {
            return accel_refuse(c, EINVAL,
                                "%s of %llu bytes over two chunks of the heap, of which the second "
                                "is mapped at 0x%llx and not behind the first, at 0x%llx",
                                what, (unsigned long long) size, (unsigned long long) h->va,
                                (unsigned long long) expected);
        }
        expected = h->va + h->size;
    }
    return at + size <= f->heap_size
               ? 0
               : accel_refuse(c, EAGAIN,
                              "%s of %llu bytes: the heap's %llu are full; another chunk of it is "
                              "wanted, made and mapped behind the last",
                              what, (unsigned long long) size, (unsigned long long) f->heap_size);
}

int accel_heap_take(struct accel_call * c, uint64_t size, const char * what, uint64_t * at) {
    struct accel_file * f = c->file;
    const struct accel_settings * s = &c->dev->settings;
    if (f->n_heaps == 0) {
        return accel_refuse(c, s->kernel->early_piece, "%s before the heap was made", what);
    }
    if (s->kernel->heap_grows && size > s->model->heap_max) {
        return accel_refuse(c, EINVAL, "%s of %llu bytes: more than any heap has", what,
                            (unsigned long long) size);
    }
    if (!accel_ranges_take(&f->heap_used, size, s->heap_align, at)) {
        return accel_refuse(c, ENOSPC,
                            "%s of %llu bytes: the heap has no such hole between its %zu buffers, "
                            "which lie %llu bytes apart at least",
                            what, (unsigned long long) size, f->heap_used.n,
                            (unsigned long long) s->heap_align);
    }
    int result = check_piece(c, *at, size, what);
    if (result != 0) {
        accel_ranges_give(&f->heap_used, *at);
        return result;
    }
    uint64_t used = 0;
    for (size_t i = 0; i < f->heap_used.n; i++) {
        used += f->heap_used.taken[i].size;
    }
    used -= f->heap_kept;
    if (used > c->dev->counts.most_heap_bytes) {
        c->dev->counts.most_heap_bytes = used;
    }
    return 0;
}

// ---- their life ----

// Gives the memory back; what takes its place begins with zeros, as from the kernel. Where the
// program still has it mapped, at the end of a file, it stays as it is.
static void free_memory(struct accel_bo * bo) {
    struct accel_file * f = bo->file;
    accel_libc()->munmap(bo->bytes, bo->size);
    if (bo->mappings == 0 && fallocate(f->memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                       (off_t) bo->at, (off_t) bo->size) == 0) {
        accel_ranges_give(&f->used, bo->at);
    }
    if (bo->type == XDNA_BO_HEAP && --f->n_heaps == 0) { // a file's chunks go together
        accel_libc()->munmap(f->heap_bytes, ACCEL_HEAP_MAX);
        f->heap_bytes = NULL;
        f->heap_size = 0;
        accel_ranges_free(&f->heap_used);
    }
}

void accel_bo_put(struct accel_device * dev, struct accel_bo * bo) {
    if (--bo->refs > 0) {
        return;
    }
    struct accel_file * f = bo->file;
    accel_caches_remove(dev, bo);
    if (bo->type == XDNA_BO_DEV) {
        accel_ranges_give(&f->heap_used, bo->at);
        accel_bo_put(dev, f->heaps[0]);
    } else {
        free_memory(bo);
    }
    free(bo);
}

static int new_memory(struct accel_file * f, struct accel_bo * bo, void * where) {
    if (!accel_ranges_take(&f->used, bo->size, ACCEL_PAGE, &bo->at)) {
        return ENOMEM;
    }
    bo->bytes = accel_libc()->mmap(where, bo->size, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | (where ? MAP_FIXED : 0), f->memory, (off_t) bo->at);
    if (bo->bytes == MAP_FAILED) {
        accel_ranges_give(&f->used, bo->at);
        return ENOMEM;
    }
    return 0;
}

static int check_heap(struct accel_call * c, const struct accel_bo * bo) {
    const struct accel_file * f = c->file;
    const struct accel_kernel * k = c->dev->settings.kernel;
    uint64_t max = k->heap_grows ? c->dev->settings.model->heap_max : ACCEL_HEAP_BYTES;
    if (bo->size % ACCEL_HEAP_BYTES) {
        return accel_refuse(c, EINVAL, "a heap of %llu bytes: expected a multiple of %llu",
                            (unsigned long long) bo->size, (unsigned long long) ACCEL_HEAP_BYTES);
    }
    if (f->heap_size + bo->size > max) {
        return accel_refuse(c, f->n_heaps ? k->second_heap : ENOSPC,
                            "a heap of %llu bytes beside %llu that are there: this device's has "
                            "%llu",
                            (unsigned long long) bo->size, (unsigned long long) f->heap_size,
                            (unsigned long long) max);
    }
    return 0;
}

// Tests set which part of the heap is given out. In a heap that grows the rest of the first chunk
// counts as taken.
static void first_heap(struct accel_call * c) {
    struct accel_file * f = c->file;
    const struct accel_settings * s = &c->dev->settings;
    uint64_t end = s->heap_start + s->heap_bytes, hole;
    end = end < ACCEL_HEAP_BYTES ? end : ACCEL_HEAP_BYTES;
    f->heap_used = (struct accel_ranges){.begin = s->heap_start, .end = end};
    f->heap_kept = 0;
    if (s->kernel->heap_grows && s->model->heap_max > ACCEL_HEAP_BYTES) {
        f->heap_used.end = s->model->heap_max;
        f->heap_kept = ACCEL_HEAP_BYTES - end;
        if (f->heap_kept) {
            struct accel_ranges rest = {.begin = end, .end = ACCEL_HEAP_BYTES};
            if (accel_ranges_take(&rest, f->heap_kept, 1, &hole)) {
                rest.begin = s->heap_start;
                rest.end = s->model->heap_max;
                f->heap_used = rest;
            }
        }
    }
}

static int new_heap(struct accel_call * c, struct accel_bo * bo) {
    struct accel_file * f = c->file;
    int result = check_heap(c, bo);
    if (result != 0) {
        return result;
    }
    if (!f->heap_bytes) {
        void * p = accel_libc()->mmap(NULL, ACCEL_HEAP_MAX, PROT_NONE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) {
            return accel_refuse(c, ENOMEM, "no addresses for the heap");
        }
        f->heap_bytes = p;
    }
    int error = new_memory(f, bo, f->heap_bytes + f->heap_size);
    if (error) {
        return accel_refuse(c, error, "no memory for the heap");
    }
    if (f->n_heaps == 0) {
        first_heap(c);
    }
    bo->heap_at = f->heap_size;
    f->heap_size += bo->size;
    f->heaps[f->n_heaps++] = bo;
    bo->refs += c->dev->settings.kernel->upstream; // the file's own
    return 0;
}

static int new_piece(struct accel_call * c, struct accel_bo * bo) {
    struct accel_file * f = c->file;
    int result = accel_heap_take(c, bo->size, "a DEV buffer", &bo->at);
    if (result != 0) {
        return result;
    }
    bo->bytes = f->heap_bytes + bo->at;
    f->heaps[0]->refs++;
    if (c->dev->settings.strict) {
        memset(bo->bytes, 0xff, bo->size); // the kernel leaves what was there before
    }
    return 0;
}

static int new_host_memory(struct accel_call * c, struct accel_bo * bo) {
    const struct accel_kernel * k = c->dev->settings.kernel;
    if (bo->type == XDNA_BO_CMD && k->command_bytes && bo->size > k->command_bytes) {
        return accel_refuse(c, EINVAL, "a CMD buffer of %llu bytes: at most %llu",
                            (unsigned long long) bo->size, (unsigned long long) k->command_bytes);
    }
    if (k->one_buffer_type) {
        bo->type = XDNA_BO_SHARE;
    }
    int error = new_memory(c->file, bo, NULL);
    return error ? accel_refuse(c, error, "no memory for %llu bytes", (unsigned long long) bo->size)
                 : 0;
}

bool accel_is_command(const struct accel_device * dev, const struct accel_bo * bo) {
    return bo->type == (dev->settings.kernel->one_buffer_type ? XDNA_BO_SHARE : XDNA_BO_CMD);
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
                                           : new_host_memory(c, bo);
    if (result != 0) {
        free(bo);
        return result;
    }
    result = accel_caches_add(c, bo);
    if (result != 0) {
        accel_bo_put(c->dev, bo);
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
                   : bo->type == XDNA_BO_HEAP ? ACCEL_HEAP_BASE + bo->heap_at
                                              : bo->va;
    accel_words(c, "buffer %u (%s): offset 0x%llx, address 0x%llx, device 0x%llx", a->handle,
                type_names[bo->type], (unsigned long long) a->map_offset,
                (unsigned long long) a->vaddr, (unsigned long long) a->xdna_addr);
    return 0;
}

// Linux's driver flushes what the range has of the buffer, then asks for the debug buffer that it
// takes every buffer for whose direction is from the device, and there is none.
int accel_sync_bo(struct accel_call * c) {
    const struct xdna_sync_bo * a = c->arg;
    const struct accel_bo * bo = accel_bo_get(c->file, a->handle);
    bool upstream = c->dev->settings.kernel->upstream;
    if (!bo) {
        return accel_refuse(c, ENOENT, "there is no buffer %u", a->handle);
    }
    if (!upstream && a->direction > XDNA_SYNC_FROM_DEVICE) {
        return accel_refuse(c, EINVAL, "direction %u: expected 0 or 1", a->direction);
    }
    // Some kernels fault on a range that ends behind its buffer (seen with 7.1), others cut it.
    if (a->offset > bo->size - upstream || a->size > bo->size - a->offset) {
        return accel_refuse(c, EINVAL, "bytes %llu to %llu of buffer %u, which has %llu",
                            (unsigned long long) a->offset,
                            (unsigned long long) (a->offset + a->size), a->handle,
                            (unsigned long long) bo->size);
    }
    accel_caches_flush(c->dev, bo->bytes + a->offset, a->size);
    if (upstream && a->direction == XDNA_SYNC_FROM_DEVICE) {
        return accel_refuse(c, EINVAL,
                            "buffer %u is no debug buffer; it was flushed all the same, and with "
                            "direction 0 that is a success",
                            a->handle);
    }
    accel_words(c, "buffer %u %s device", a->handle, a->direction ? "from" : "to");
    return 0;
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

// The program may still have them mapped: then the kernel keeps the pages.
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
        } else {
            accel_bo_put(dev, bo);
        }
    }
    dev->n_mappings = kept;
    for (unsigned n = dev->settings.kernel->upstream ? f->n_heaps : 0; n-- > 0;) {
        accel_bo_put(dev, f->heaps[n]); // the file's own hold on it
    }
    free(f->handles);
    accel_ranges_free(&f->used);
    accel_ranges_free(&f->heap_used);
}
