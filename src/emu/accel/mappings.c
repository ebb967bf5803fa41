// mappings: where the program sees buffers. The device of a real driver walks the process's own
// page tables, so an address means a buffer only as long as it is mapped; this table is kept for
// that, by mmap and munmap alike. PRIME descriptors are here too, for they exist to be mapped
// elsewhere.
#include "accel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

// Index of the first mapping that ends above va.
static size_t above(const struct accel_device * dev, uint64_t va) {
    size_t lo = 0, hi = dev->n_mappings;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (dev->mappings[mid].va + dev->mappings[mid].size <= va) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

const struct accel_mapping * accel_mapping_of(const struct accel_device * dev, uint64_t va) {
    size_t i = above(dev, va);
    return i < dev->n_mappings && dev->mappings[i].va <= va ? &dev->mappings[i] : NULL;
}

const struct accel_mapping * accel_mapping_from(const struct accel_device * dev, uint64_t va) {
    size_t i = above(dev, va);
    return i < dev->n_mappings ? &dev->mappings[i] : NULL;
}

static void remove_at(struct accel_device * dev, size_t i) {
    struct accel_bo * bo = dev->mappings[i].bo;
    memmove(dev->mappings + i, dev->mappings + i + 1,
            (dev->n_mappings - i - 1) * sizeof *dev->mappings);
    dev->n_mappings--;
    if (--bo->mappings == 0) {
        bo->va = XDNA_NO_ADDRESS;
        dev->counts.kept_bytes -= bo->handles ? 0 : bo->size;
    }
    accel_bo_put(dev, bo);
}

static bool add(struct accel_device * dev, struct accel_mapping m) {
    if (dev->n_mappings == dev->max_mappings) {
        size_t max = dev->max_mappings ? 2 * dev->max_mappings : 64;
        struct accel_mapping * mappings = realloc(dev->mappings, max * sizeof *mappings);
        if (!mappings) {
            return false;
        }
        dev->mappings = mappings;
        dev->max_mappings = max;
    }
    size_t i = above(dev, m.va);
    memmove(dev->mappings + i + 1, dev->mappings + i,
            (dev->n_mappings - i) * sizeof *dev->mappings);
    dev->mappings[i] = m;
    dev->n_mappings++;
    m.bo->refs++;
    if (m.bo->mappings++ == 0) {
        m.bo->va = m.va;
    }
    return true;
}

// A mapping that loses a part of itself is lost to the device as a whole: the driver registers
// whole mappings only.
static void drop(struct accel_device * dev, uint64_t va, uint64_t size) {
    for (size_t i = above(dev, va); i < dev->n_mappings && dev->mappings[i].va < va + size;) {
        accel_trace(dev, "munmap 0x%llx, %llu bytes", (unsigned long long) dev->mappings[i].va,
                    (unsigned long long) dev->mappings[i].size);
        remove_at(dev, i);
    }
}

void accel_unmap(uint64_t va, uint64_t size) {
    struct accel_device * dev = accel_device();
    if (accel_caches_inside()) {
        return;
    }
    pthread_mutex_lock(&dev->lock);
    drop(dev, va, size);
    pthread_mutex_unlock(&dev->lock);
}

// ---- mmap ----

static struct accel_bo * at_offset(const struct accel_file * f, uint64_t offset) {
    for (uint32_t h = 1; h < f->max_handles; h++) {
        struct accel_bo * bo = f->handles[h];
        if (bo && bo->type != XDNA_BO_DEV && bo->file == f && ACCEL_FAKE_BASE + bo->at == offset) {
            return bo;
        }
    }
    return NULL;
}

static struct accel_export * export_of(struct accel_device * dev, int fd) {
    struct stat info;
    if (!dev->exports || fstat(fd, &info) != 0) {
        return NULL;
    }
    struct accel_export * e = dev->exports;
    while (e && (e->ino != info.st_ino || e->dev != info.st_dev)) {
        e = e->next;
    }
    return e;
}

static int refuse_map(struct accel_device * dev, int error, const char * why, uint64_t offset,
                      uint64_t size) {
    dev->counts.refused++;
    accel_say(dev, "mmap: %s: offset 0x%llx, %llu bytes: %s", strerrorname_np(error),
              (unsigned long long) offset, (unsigned long long) size, why);
    return error;
}

static int map_locked(struct accel_device * dev, struct accel_bo * bo, void * addr, size_t size,
                      int prot, int flags, uint64_t offset, void ** out) {
    uint64_t whole = (size + ACCEL_PAGE - 1) / ACCEL_PAGE * ACCEL_PAGE;
    int fault = accel_fault(dev, "MMAP");
    if (fault) {
        return fault;
    }
    if (!bo) {
        return refuse_map(dev, EINVAL, "no buffer of this file begins there", offset, size);
    }
    if (size == 0 || whole > bo->size) {
        return refuse_map(dev, EINVAL, "more than the buffer has", offset, size);
    }
    if ((flags & MAP_TYPE) == MAP_PRIVATE && prot & PROT_WRITE) {
        return refuse_map(dev, EINVAL, "a private copy of device memory", offset, size);
    }
    if (flags & MAP_FIXED) {
        drop(dev, (uint64_t) (uintptr_t) addr, whole);
    }
    void * p = accel_libc()->mmap(addr, size, prot, flags, bo->file->memory, (off_t) bo->at);
    if (p == MAP_FAILED) {
        return errno;
    }
    if (!add(dev, (struct accel_mapping){(uint64_t) (uintptr_t) p, whole, bo})) {
        accel_libc()->munmap(p, size);
        return ENOMEM;
    }
    accel_trace(dev, "mmap: offset 0x%llx, %zu bytes -> %p", (unsigned long long) offset, size, p);
    *out = p;
    return 0;
}

bool accel_mmap(void * addr, size_t size, int prot, int flags, int fd, uint64_t offset, void ** out,
                int * error) {
    struct accel_device * dev = accel_device();
    pthread_mutex_lock(&dev->lock);
    struct accel_file * f = accel_file_of(dev, fd);
    struct accel_export * e = f ? NULL : export_of(dev, fd);
    bool ours = f || e;
    if (ours) {
        struct accel_bo * bo = f ? at_offset(f, offset) : offset == 0 ? e->bo : NULL;
        *error = map_locked(dev, bo, addr, size, prot, flags, offset, out);
    } else if (flags & MAP_FIXED) {
        drop(dev, (uint64_t) (uintptr_t) addr, size);
    }
    pthread_mutex_unlock(&dev->lock);
    return ours;
}

// ---- PRIME ----

int accel_prime_export(struct accel_call * c) {
    struct xdna_prime * a = c->arg;
    struct accel_bo * bo = accel_bo_get(c->file, a->handle);
    if (!bo) {
        return accel_refuse(c, ENOENT, "there is no buffer %u", a->handle);
    }
    if (bo->type == XDNA_BO_DEV) {
        return accel_refuse(c, EOPNOTSUPP, "buffer %u is a piece of the heap", a->handle);
    }
    struct accel_export * e = calloc(1, sizeof *e);
    int fd = memfd_create("accel0-buffer", a->flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
    struct stat info;
    if (!e || fd < 0 || fstat(fd, &info) != 0) {
        free(e);
        return accel_refuse(c, ENOMEM, "no descriptor for buffer %u", a->handle);
    }
    *e = (struct accel_export){c->dev->exports, info.st_dev, info.st_ino, bo};
    c->dev->exports = e;
    bo->refs++;
    a->fd = fd;
    accel_words(c, "buffer %u: descriptor %d", a->handle, fd);
    return 0;
}

int accel_prime_import(struct accel_call * c) {
    struct xdna_prime * a = c->arg;
    struct accel_export * e = export_of(c->dev, a->fd);
    if (!e) {
        return accel_refuse(c, EINVAL, "descriptor %d is no buffer of this device", a->fd);
    }
    if (e->bo->file != c->file) {
        return accel_refuse(c, EOPNOTSUPP, "descriptor %d is of another open file: not played",
                            a->fd);
    }
    a->handle = 0;
    for (uint32_t h = 1; h < c->file->max_handles && !a->handle; h++) {
        a->handle = c->file->handles[h] == e->bo ? h : 0;
    }
    if (!a->handle && !(a->handle = accel_handle_new(c->dev, c->file, e->bo))) {
        return accel_refuse(c, ENOMEM, "no memory for a handle");
    }
    accel_words(c, "descriptor %d: buffer %u", a->fd, a->handle);
    return 0;
}
