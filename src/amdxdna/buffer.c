// buffer: memory that the device reaches. SHARE buffers are pages of their own, at the same address
// for both sides; DEV buffers are pieces of the heap, which the firmware sees at addresses of its
// own.
//
// The heap is mapped at a multiple of 64 MiB, or no context can be made. Where it may grow, its
// chunks lie one directly behind the other, so addresses for all of them are reserved at once.
//
// Kept true: heap_used is what the driver has given out, counted as it counts, and nothing is asked
// for that cannot fit. The driver says EAGAIN when its heap is full and could grow: whoever repeats
// the call then does so for ever.
#include "impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static uint64_t up(uint64_t v, uint64_t align) {
    return (v + align - 1) / align * align;
}

static void close_handle(struct amdxdna * d, uint32_t handle) {
    struct xdna_gem_close c = {.handle = handle};
    amdxdna_call(d, _IOW(XDNA_IOCTL_TYPE, XDNA_GEM_CLOSE, struct xdna_gem_close), &c);
}

static int create(struct amdxdna * d, enum xdna_bo_type type, uint64_t size, uint32_t * handle) {
    struct xdna_create_bo c = {.size = size, .type = type};
    int error = amdxdna_call(d, XDNA_IOCTL(XDNA_CREATE_BO, struct xdna_create_bo), &c);
    *handle = c.handle;
    return error;
}

static int ask(struct amdxdna * d, uint32_t handle, struct xdna_get_bo_info * out) {
    *out = (struct xdna_get_bo_info){.handle = handle};
    return amdxdna_call(d, XDNA_IOCTL(XDNA_GET_BO_INFO, struct xdna_get_bo_info), out);
}

// Maps a buffer that has pages of its own, at `place` or anywhere, and learns its device address:
// the one of the mapping, unless the driver names another (without shared virtual memory).
static int map(struct amdxdna * d, struct amdxdna_buffer * b, void * place) {
    struct xdna_get_bo_info info;
    int error = ask(d, b->handle, &info);
    if (error) {
        return error;
    }
    void * p;
    do {
        p = mmap(place, b->size, PROT_READ | PROT_WRITE, MAP_SHARED | (place ? MAP_FIXED : 0),
                 d->fd, (off_t) info.map_offset);
    } while (p == MAP_FAILED && errno == EINTR);
    if (p == MAP_FAILED) {
        return errno;
    }
    b->host = p;
    error = ask(d, b->handle, &info);
    b->device = info.xdna_addr != XDNA_NO_ADDRESS ? info.xdna_addr : (uint64_t) (uintptr_t) p;
    return error;
}

// ---- the heap; d->lock is held ----

// Addresses for as many chunks as there may be, from a multiple of a chunk on.
static bool reserve_place(struct amdxdna * d) {
    uint64_t size = amdxdna_heap_limit(d);
    uint8_t * wide = mmap(NULL, size + HEAP_CHUNK, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (wide == MAP_FAILED) {
        return false;
    }
    d->place = (uint8_t *) (uintptr_t) up((uint64_t) (uintptr_t) wide, HEAP_CHUNK);
    uint64_t before = (uint64_t) (d->place - wide), after = HEAP_CHUNK - before;
    if (before) {
        munmap(wide, before);
    }
    if (after) {
        munmap(d->place + size, after);
    }
    return true;
}

static enum status add_chunk(struct amdxdna * d, struct error * err) {
    if ((uint64_t) HEAP_CHUNK * (d->n_chunks + 1) > amdxdna_heap_limit(d)) {
        return error_set(err, ST_NO_MEMORY,
                         "the device heap of %s is full: it has %llu MiB at most", d->info.path,
                         (unsigned long long) (amdxdna_heap_limit(d) >> 20));
    }
    if (!d->place && !reserve_place(d)) {
        return error_set(err, ST_NO_MEMORY, "no addresses for the device heap of %s", d->info.path);
    }
    struct amdxdna_buffer chunk = {.type = XDNA_BO_HEAP, .size = HEAP_CHUNK};
    int error = create(d, XDNA_BO_HEAP, HEAP_CHUNK, &chunk.handle);
    if (error == ENOSPC || error == EBUSY) { // a driver that is older than its number says
        return error_set(err, ST_NO_MEMORY, "the device heap of %s is full and cannot grow",
                         d->info.path);
    }
    if (error) {
        return amdxdna_refused(d, "CREATE_BO of the heap", error, err);
    }
    error = map(d, &chunk, d->place + (uint64_t) HEAP_CHUNK * d->n_chunks);
    if (error) {
        close_handle(d, chunk.handle);
        return amdxdna_refused(d, "mapping the heap", error, err);
    }
    d->chunks[d->n_chunks++] = chunk;
    return ST_OK;
}

static bool fits(const struct amdxdna * d, uint64_t bytes) {
    uint64_t size = (uint64_t) HEAP_CHUNK * d->n_chunks;
    return bytes <= size && d->heap_used <= size - bytes;
}

// Until the ledger has room for `bytes`.
static enum status grow(struct amdxdna * d, uint64_t bytes, struct error * err) {
    enum status st = ST_OK;
    while (st == ST_OK && !fits(d, bytes)) {
        st = add_chunk(d, err);
    }
    return st;
}

enum status amdxdna_heap_begin(struct amdxdna * d, struct error * err) {
    pthread_mutex_lock(&d->lock);
    enum status st = grow(d, CONTEXT_BUFFERS * HEAP_ALIGN, err);
    pthread_mutex_unlock(&d->lock);
    return st;
}

bool amdxdna_heap_reserve(struct amdxdna * d, uint64_t bytes) {
    pthread_mutex_lock(&d->lock);
    bool ok = fits(d, bytes);
    d->heap_used += ok ? bytes : 0;
    pthread_mutex_unlock(&d->lock);
    return ok;
}

void amdxdna_heap_return(struct amdxdna * d, uint64_t bytes) {
    pthread_mutex_lock(&d->lock);
    d->heap_used -= bytes;
    pthread_mutex_unlock(&d->lock);
}

void amdxdna_heap_end(struct amdxdna * d) {
    while (d->spare) {
        struct command_buffer * c = d->spare;
        d->spare = c->next;
        amdxdna_buffer_free(d, &c->b);
        free(c);
    }
    for (unsigned i = d->n_chunks; i-- > 0;) {
        munmap(d->chunks[i].host, HEAP_CHUNK);
        close_handle(d, d->chunks[i].handle);
    }
    if (d->place) {
        munmap(d->place, amdxdna_heap_limit(d));
    }
}

// A piece of the heap. There is always room left for a context: without one nothing runs.
static enum status dev_new(struct amdxdna * d, struct amdxdna_buffer * b, struct error * err) {
    const uint64_t bytes = up(b->size, HEAP_ALIGN), spare = CONTEXT_BUFFERS * HEAP_ALIGN;
    if (bytes > amdxdna_heap_limit(d) - spare) {
        return error_set(err, ST_NO_MEMORY, "%llu bytes of a device heap of %llu MiB",
                         (unsigned long long) b->size,
                         (unsigned long long) (amdxdna_heap_limit(d) >> 20));
    }
    enum status st = grow(d, bytes + spare, err);
    int error = st == ST_OK ? create(d, XDNA_BO_DEV, b->size, &b->handle) : 0;
    // What is free may lie in pieces that are too small: one chunk more has room for certain.
    if (error == EAGAIN && (st = add_chunk(d, err)) == ST_OK) {
        error = create(d, XDNA_BO_DEV, b->size, &b->handle);
    }
    if (st != ST_OK) {
        return st;
    }
    if (error == EAGAIN || error == ENOSPC) {
        return error_set(
            err, ST_NO_MEMORY,
            "the device heap of %s has no %llu bytes in one piece (%llu of %llu KiB are "
            "in use)",
            d->info.path, (unsigned long long) b->size, (unsigned long long) (d->heap_used >> 10),
            (unsigned long long) ((uint64_t) HEAP_CHUNK * d->n_chunks >> 10));
    }
    if (error) {
        return amdxdna_refused(d, "CREATE_BO in the heap", error, err);
    }
    struct xdna_get_bo_info info;
    error = ask(d, b->handle, &info);
    if (error || info.vaddr == XDNA_NO_ADDRESS || info.vaddr == 0) {
        close_handle(d, b->handle);
        return amdxdna_refused(d, "GET_BO_INFO in the heap", error ? error : EINVAL, err);
    }
    b->host = (uint8_t *) (uintptr_t) info.vaddr;
    b->device = info.xdna_addr;
    d->heap_used += bytes;
    amdxdna_flush(b->host, b->size); // fresh pages were cleared by the CPU
    return ST_OK;
}

// ---- for callers ----

static enum status share_new(struct amdxdna * d, struct amdxdna_buffer * b, struct error * err) {
    int error = create(d, b->type, b->size, &b->handle);
    if (error) {
        return amdxdna_refused(d, "CREATE_BO", error, err);
    }
    error = map(d, b, NULL);
    if (error) {
        close_handle(d, b->handle);
        return amdxdna_refused(d, "mapping a buffer", error, err);
    }
    if (b->type == XDNA_BO_SHARE) { // or what the CPU cleared is written over results later
        amdxdna_flush(b->host, b->size);
    }
    return ST_OK;
}

enum status amdxdna_buffer_new(struct amdxdna * d, enum xdna_bo_type type, uint64_t size,
                               struct amdxdna_buffer * out, struct error * err) {
    if (size == 0 || size > UINT64_MAX / 2) {
        return error_set(err, ST_INVALID, "a buffer of %llu bytes", (unsigned long long) size);
    }
    *out = (struct amdxdna_buffer){.type = type, .size = up(size, PAGE)};
    if (type != XDNA_BO_DEV) {
        return share_new(d, out, err);
    }
    pthread_mutex_lock(&d->lock);
    enum status st = dev_new(d, out, err);
    amdxdna_count(&d->counts.heap_bytes, st == ST_OK ? up(out->size, HEAP_ALIGN) : 0);
    pthread_mutex_unlock(&d->lock);
    return st;
}

void amdxdna_buffer_free(struct amdxdna * d, struct amdxdna_buffer * b) {
    if (!b->handle) {
        return;
    }
    if (b->type == XDNA_BO_DEV) {
        close_handle(d, b->handle);
        amdxdna_heap_return(d, up(b->size, HEAP_ALIGN));
        amdxdna_count(&d->counts.heap_bytes, -up(b->size, HEAP_ALIGN));
    } else {
        munmap(b->host, b->size);
        close_handle(d, b->handle);
    }
    *b = (struct amdxdna_buffer){0};
}

enum status amdxdna_buffer_export(struct amdxdna * d, const struct amdxdna_buffer * b, int * fd,
                                  struct error * err) {
    struct xdna_prime p = {.handle = b->handle, .flags = O_CLOEXEC | O_RDWR, .fd = -1};
    int error =
        amdxdna_call(d, _IOWR(XDNA_IOCTL_TYPE, XDNA_PRIME_HANDLE_TO_FD, struct xdna_prime), &p);
    if (error) {
        return amdxdna_refused(d, "PRIME_HANDLE_TO_FD", error, err);
    }
    *fd = p.fd;
    return ST_OK;
}

// ---- buffers for commands ----

struct command_buffer * amdxdna_command_take(struct amdxdna * d, struct error * err) {
    pthread_mutex_lock(&d->lock);
    struct command_buffer * c = d->spare;
    if (c) {
        d->spare = c->next;
    }
    pthread_mutex_unlock(&d->lock);
    if (c) {
        return c;
    }
    c = calloc(1, sizeof *c);
    if (!c) {
        error_set(err, ST_NO_MEMORY, "no memory for a command");
    } else if (amdxdna_buffer_new(d, XDNA_BO_CMD, PAGE, &c->b, err) != ST_OK) {
        free(c);
        c = NULL;
    }
    return c;
}

void amdxdna_command_give(struct amdxdna * d, struct command_buffer * c) {
    pthread_mutex_lock(&d->lock);
    while (c) {
        struct command_buffer * next = c->next;
        c->next = d->spare;
        d->spare = c;
        c = next;
    }
    pthread_mutex_unlock(&d->lock);
}
