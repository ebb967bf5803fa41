// code: what was uploaded to the device heap. A PDI is uploaded once and stays until the store
// drops it: kernels share it, and a queue tells by its address that the array is configured
// already. Instruction streams are many and small; when the heap is full the one that was used
// longest ago is dropped, never one that a dispatch may still read (a pin says so).
//
// Everything here is done under the heap's lock, store_kernel.device and store_pdi.device included.
#include "npu.h"

#include "aie/image/image.h"
#include "aie/target/times.h"

#include <stdlib.h>
#include <string.h>

struct code_stream {
    struct store_kernel * kernel;
    void * addr;
    uint64_t us; // of its control path, about
    size_t pins;
    struct code_stream * newer;
    struct code_stream * older;
};

void code_heap_init(struct code_heap * h, struct hsac_agent * agent, enum aie_arch arch) {
    *h = (struct code_heap){.agent = agent, .arch = arch};
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->released, NULL);
}

static void unlink_stream(struct code_heap * h, struct code_stream * s) {
    *(s->newer ? &s->newer->older : &h->newest) = s->older;
    *(s->older ? &s->older->newer : &h->oldest) = s->newer;
    s->newer = s->older = NULL;
}

static void link_newest(struct code_heap * h, struct code_stream * s) {
    s->older = h->newest;
    *(h->newest ? &h->newest->newer : &h->oldest) = s;
    h->newest = s;
}

static void drop(struct code_heap * h, struct code_stream * s) {
    unlink_stream(h, s);
    s->kernel->device = NULL;
    hsac_free(h->agent, s->addr);
    free(s);
}

void code_forget_kernel(void * heap, struct store_kernel * k) {
    struct code_heap * h = heap;
    pthread_mutex_lock(&h->lock);
    if (k->device) {
        drop(h, k->device);
    }
    pthread_mutex_unlock(&h->lock);
}

bool code_forget_pdi(void * heap, struct store_pdi * p) {
    struct code_heap * h = heap;
    pthread_mutex_lock(&h->lock);
    bool may = !p->device || hsac_agent_forget_pdi(h->agent, p->device);
    if (may && p->device) {
        hsac_free(h->agent, p->device);
        p->device = NULL;
    }
    pthread_mutex_unlock(&h->lock);
    return may;
}

// PDIs are freed with the runtime: the store that knows them owns no device memory.
void code_heap_free(struct code_heap * h) {
    while (h->oldest) {
        drop(h, h->oldest);
    }
    pthread_cond_destroy(&h->released);
    pthread_mutex_destroy(&h->lock);
}

static bool drop_oldest(struct code_heap * h) {
    for (struct code_stream * s = h->oldest; s; s = s->newer) {
        if (s->pins == 0) {
            drop(h, s);
            return true;
        }
    }
    return false;
}

// Device memory for size bytes, dropping and waiting as code_acquire promises.
static void * heap_alloc(struct code_heap * h, enum hsac_pool pool, size_t size, bool holds_pins) {
    for (;;) {
        void * addr = hsac_alloc(h->agent, pool, size);
        if (addr) {
            return addr;
        }
        if (drop_oldest(h)) {
            continue;
        }
        if (holds_pins || h->n_pins == 0) {
            return NULL;
        }
        pthread_cond_wait(&h->released, &h->lock);
    }
}

static enum status upload(struct code_heap * h, struct store_kernel * k, bool holds_pins,
                          struct error * err) {
    if (!k->pdi->device) {
        void * addr = heap_alloc(h, HSAC_POOL_DEV, k->pdi->size, holds_pins);
        if (!addr) {
            return error_set(err, ST_NO_MEMORY,
                             "the device heap has no room for a PDI of %zu bytes", k->pdi->size);
        }
        // heap_alloc may have released the lock, and another thread may have uploaded the same PDI
        // meanwhile.
        if (k->pdi->device) {
            hsac_free(h->agent, addr);
        } else {
            memcpy(addr, k->pdi->data, k->pdi->size);
            hsac_host_end(h->agent, addr, k->pdi->size);
            k->pdi->device = addr;
        }
    }
    if (k->device) {
        return ST_OK;
    }
    struct code_stream * s = calloc(1, sizeof *s);
    size_t size = k->n_insts * sizeof *k->insts;
    void * addr = s ? heap_alloc(h, HSAC_POOL_STREAM, size, holds_pins) : NULL;
    if (!addr) {
        free(s);
        return error_set(err, ST_NO_MEMORY,
                         "the device heap has no room for an instruction stream of %zu bytes",
                         size);
    }
    if (k->device) { // as above
        hsac_free(h->agent, addr);
        free(s);
        return ST_OK;
    }
    memcpy(addr, k->insts, size);
    hsac_host_end(h->agent, addr, size);
    s->kernel = k;
    s->addr = addr;
    s->us = aie_us(h->arch, txn_cycles(k->insts, k->n_insts));
    k->device = s;
    link_newest(h, s);
    return ST_OK;
}

enum status code_acquire(struct code_heap * h, struct store_kernel * k, bool holds_pins,
                         struct hsac_dispatch * d, struct code_stream ** pin, struct error * err) {
    if (k->n_insts == 0 || k->n_insts > UINT32_MAX || k->pdi->size == 0) {
        return error_set(err, ST_CORRUPT, "the kernel is empty");
    }
    pthread_mutex_lock(&h->lock);
    enum status st = upload(h, k, holds_pins, err);
    if (st == ST_OK) {
        struct code_stream * s = k->device;
        unlink_stream(h, s);
        link_newest(h, s);
        s->pins++;
        h->n_pins++;
        d->pdi = k->pdi->device;
        d->pdi_size = k->pdi->size;
        d->insts = s->addr;
        d->n_insts = (uint32_t) k->n_insts;
        d->us = s->us;
        *pin = s;
    }
    pthread_mutex_unlock(&h->lock);
    return st;
}

void code_release(struct code_heap * h, struct code_stream ** pins, size_t n) {
    if (n == 0) {
        return;
    }
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < n; i++) {
        pins[i]->pins--;
    }
    h->n_pins -= n;
    pthread_cond_broadcast(&h->released);
    pthread_mutex_unlock(&h->lock);
}
