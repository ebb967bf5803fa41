// context: a share of the array with its PDIs. A context is configured once; a further PDI means a
// further context. What the array holds is gone after five seconds of rest, and whenever another
// context had a turn: the driver loads the PDI anew, and nothing else.
#include "impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void destroy(struct amdxdna * d, uint32_t id, uint32_t syncobj) {
    struct xdna_destroy_hwctx c = {.handle = id};
    struct xdna_syncobj s = {.handle = syncobj};
    amdxdna_call(d, XDNA_IOCTL(XDNA_DESTROY_HWCTX, struct xdna_destroy_hwctx), &c);
    if (!d->info.legacy && syncobj) { // a handle of the file's own, which else stays
        amdxdna_call(d, XDNA_IOCTL(XDNA_SYNCOBJ_DESTROY, struct xdna_syncobj), &s);
    }
}

static enum status cannot_create(struct amdxdna * d, int error, struct error * err) {
    struct amdxdna_state now;
    if (error != EINVAL && error != ENOENT && error != EBUSY && error != ENODEV &&
        error != EAGAIN) {
        return amdxdna_refused(d, "CREATE_HWCTX", error, err);
    }
    amdxdna_state(d, &now); // the firmware's reason does not come up here; the usual one does
    return error_set(err, ST_DEVICE,
                     "%s gives no hardware context (%s): %llu of %llu are taken by all processes; "
                     "end other programs that use the NPU",
                     d->info.path, strerrorname_np(error), (unsigned long long) now.contexts,
                     (unsigned long long) now.contexts_max);
}

static enum status configure(struct amdxdna * d, uint32_t id, const struct amdxdna_buffer * pdis,
                             unsigned n, struct error * err) {
    union {
        struct xdna_cus cus;
        uint8_t bytes[sizeof(struct xdna_cus) + AMDXDNA_PDIS * sizeof(struct xdna_cu)];
    } config;
    memset(&config, 0, sizeof config); // the driver looks at the padding
    config.cus.count = (uint16_t) n;
    for (unsigned i = 0; i < n; i++) {
        config.cus.cus[i].bo = pdis[i].handle;
    }
    struct xdna_config_hwctx c = {
        .handle = id,
        .type = XDNA_CONFIG_CU,
        .value = (uint64_t) (uintptr_t) &config,
        .size = (uint32_t) (sizeof(struct xdna_cus) + n * sizeof(struct xdna_cu)),
    };
    int error = amdxdna_call(d, XDNA_IOCTL(XDNA_CONFIG_HWCTX, struct xdna_config_hwctx), &c);
    return error ? amdxdna_refused(d, "CONFIG_HWCTX", error, err) : ST_OK;
}

enum status amdxdna_context_new(struct amdxdna * d, const struct amdxdna_buffer * pdis, unsigned n,
                                struct amdxdna_context ** out, struct error * err) {
    struct amdxdna_context * x = n <= AMDXDNA_PDIS ? calloc(1, sizeof *x) : NULL;
    *out = NULL;
    if (!x) {
        return n > AMDXDNA_PDIS ? error_set(err, ST_INVALID, "%u PDIs: a context has %d at most", n,
                                            AMDXDNA_PDIS)
                                : error_set(err, ST_NO_MEMORY, "no memory for a context");
    }
    enum status st = amdxdna_heap_begin(d, err);
    if (st == ST_OK && !amdxdna_heap_reserve(d, CONTEXT_BUFFERS * HEAP_ALIGN)) {
        st = error_set(err, ST_NO_MEMORY, "the device heap of %s has no room for a context",
                       d->info.path);
    }
    if (st != ST_OK) {
        free(x);
        return st;
    }
    uint32_t qos[8] = {0}; // all 0: the highest clock. AMD's old module reads two words more
    qos[6] = 0xff;         // any column
    struct xdna_create_hwctx c = {
        .qos = (uint64_t) (uintptr_t) qos,
        .max_opc = 0x800,
        .num_tiles = d->info.model->columns * MIN_TILES,
    };
    int error = amdxdna_call(d, XDNA_IOCTL(XDNA_CREATE_HWCTX, struct xdna_create_hwctx), &c);
    if (error) {
        amdxdna_heap_return(d, CONTEXT_BUFFERS * HEAP_ALIGN);
        free(x);
        return cannot_create(d, error, err);
    }
    *x = (struct amdxdna_context){.d = d, .id = c.handle, .syncobj = c.syncobj, .n_pdis = n};
    st = n ? configure(d, x->id, pdis, n, err) : ST_OK;
    if (st != ST_OK) {
        amdxdna_context_free(x);
        return st;
    }
    amdxdna_count(&d->counts.contexts, 1);
    *out = x;
    return ST_OK;
}

// The driver waits for what is on its way, so that its buffers are free afterwards.
void amdxdna_context_free(struct amdxdna_context * x) {
    if (!x) {
        return;
    }
    if (__atomic_load_n(&x->d->lost, __ATOMIC_ACQUIRE) == ETIME) {
        return; // the driver would wait for what never ends: it goes with the process
    }
    destroy(x->d, x->id, x->syncobj);
    amdxdna_command_give(x->d, x->held);
    amdxdna_heap_return(x->d, CONTEXT_BUFFERS * HEAP_ALIGN);
    free(x);
}
