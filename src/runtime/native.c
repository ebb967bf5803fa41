// native: see the header. A context knows a list of PDIs, given when it is made. A dispatch with
// another one means a new context with a longer list; when the list is full the PDIs that were used
// longest ago leave it.
//
// What a packet declares of an operand is flushed from the CPU's caches before the batch and again
// behind it, as ROCr does. Streams and PDIs are flushed always: whoever wrote them through ROCr's
// interface counts on it.
#include "native.h"

#include "hsa-emu.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_LIMIT_S = 60 };

struct known { // a PDI
    const void * at;
    struct amdxdna_buffer buffer;
    uint64_t used; // batch that used it last
};

struct rt_native {
    struct amdxdna * device;
    struct amdxdna_context * context; // NULL: none, or one that failed
    struct known pdis[AMDXDNA_PDIS];  // of the context
    unsigned n_pdis;
    uint64_t batches, dispatches, pdi_loads;
    const void * resident; // PDI of the last command
    uint64_t limit_ms;
};

struct batch {
    struct rt_agent * agent;
    struct rt_native * v;
    struct amdxdna_command * commands;
    uint32_t * buffers; // handles
    size_t n_buffers;
};

// ---- devices ----

struct rt_native * rt_native_open(int index, struct error * err) {
    struct rt_native * v = calloc(1, sizeof *v);
    if (!v) {
        error_set(err, ST_NO_MEMORY, "no memory for a NPU");
    } else if (amdxdna_open(index, &v->device, err) != ST_OK) {
        free(v);
        v = NULL;
    } else {
        v->limit_ms = 1000 * (uint64_t) env_number("GGML_HSA_WAIT_LIMIT", 1000000, WAIT_LIMIT_S);
    }
    return v;
}

const struct amdxdna_info * rt_native_info(const struct rt_native * v) {
    return amdxdna_info(v->device);
}

uint64_t rt_native_heap(const struct rt_native * v) {
    return amdxdna_heap_limit(v->device);
}

void rt_native_close(struct rt_native * v) {
    if (v) {
        rt_native_idle(v);
        amdxdna_close(v->device);
        free(v);
    }
}

// ---- memory ----

uint64_t rt_native_allocate(struct rt_native * v, bool heap, size_t size,
                            struct amdxdna_buffer * out) {
    struct error err = {0};
    if (amdxdna_buffer_new(v->device, heap ? XDNA_BO_DEV : XDNA_BO_SHARE, size, out, &err) !=
        ST_OK) {
        return 0;
    }
    if (heap) { // what lay there before is not to be seen
        memset(out->host, 0, out->size);
        amdxdna_flush(out->host, out->size);
    }
    return (uint64_t) (uintptr_t) out->host;
}

void rt_native_free(struct rt_native * v, struct amdxdna_buffer * b) {
    amdxdna_buffer_free(v->device, b);
}

enum status rt_native_export(struct rt_native * v, const struct amdxdna_buffer * b, int * fd,
                             struct error * err) {
    return amdxdna_buffer_export(v->device, b, fd, err);
}

// ---- contexts ----

void rt_native_idle(struct rt_native * v) {
    amdxdna_context_free(v->context);
    v->context = NULL;
    v->resident = NULL;
}

static struct known * known(struct rt_native * v, const void * pdi) {
    for (unsigned i = 0; i < v->n_pdis; i++) {
        if (v->pdis[i].at == pdi) {
            return &v->pdis[i];
        }
    }
    return NULL;
}

void rt_native_forget(struct rt_native * v, const void * pdi) {
    struct known * k = known(v, pdi);
    if (k) {
        rt_native_idle(v);
        *k = v->pdis[--v->n_pdis];
    }
}

// The buffer that lies at a PDI's address. A PDI begins a buffer: a command names it by its handle.
static hsa_status_t buffer_of(struct rt_agent * agent, const void * at, struct amdxdna_buffer * out,
                              struct error * err) {
    struct rt_memory * m = &agent->rt->memory;
    hsa_status_t status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
    pthread_rwlock_rdlock(&m->lock);
    const struct range * r = ranges_find(&m->blocks, (uint64_t) (uintptr_t) at);
    if (r && ((const struct rt_block *) r->value)->agent == agent &&
        r->base == (uint64_t) (uintptr_t) at) {
        *out = ((const struct rt_block *) r->value)->native;
        status = HSA_STATUS_SUCCESS;
    }
    pthread_rwlock_unlock(&m->lock);
    if (status != HSA_STATUS_SUCCESS) {
        error_set(err, ST_INVALID, "the PDI at %p does not begin an allocation of the agent's", at);
    }
    return status;
}

// Drops the object that was used longest ago among those that this batch does not use.
static bool make_room(struct rt_native * v) {
    unsigned oldest = v->n_pdis;
    for (unsigned i = 0; i < v->n_pdis; i++) {
        if (v->pdis[i].used != v->batches &&
            (oldest == v->n_pdis || v->pdis[i].used < v->pdis[oldest].used)) {
            oldest = i;
        }
    }
    if (oldest == v->n_pdis) {
        return false;
    }
    v->pdis[oldest] = v->pdis[--v->n_pdis];
    return true;
}

// Dispatches from the first on whose PDIs fit into one context; they are on its list then.
static hsa_status_t know_pdis(struct batch * b, const struct rt_dispatch * d, size_t n,
                              size_t * fit, struct error * err) {
    struct rt_native * v = b->v;
    hsa_status_t status = HSA_STATUS_SUCCESS;
    v->batches++;
    for (*fit = 0; *fit < n && status == HSA_STATUS_SUCCESS; ++*fit) {
        struct known * k = known(v, d[*fit].pdi);
        if (!k) {
            struct amdxdna_buffer buffer;
            status = buffer_of(b->agent, d[*fit].pdi, &buffer, err);
            if (status != HSA_STATUS_SUCCESS) {
                break;
            }
            if (v->n_pdis == AMDXDNA_PDIS && !make_room(v)) {
                break; // the rest is another batch
            }
            rt_native_idle(v);
            amdxdna_flush(buffer.host, buffer.size);
            k = &v->pdis[v->n_pdis++];
            *k = (struct known){d[*fit].pdi, buffer, 0};
        }
        k->used = v->batches;
    }
    return *fit ? HSA_STATUS_SUCCESS : status;
}

static enum status begin_context(struct rt_native * v, struct error * err) {
    struct amdxdna_buffer pdis[AMDXDNA_PDIS];
    for (unsigned i = 0; i < v->n_pdis; i++) {
        pdis[i] = v->pdis[i].buffer;
    }
    return v->context ? ST_OK : amdxdna_context_new(v->device, pdis, v->n_pdis, &v->context, err);
}

// ---- batches ----

// Where the device sees an address, and the handle of the buffer around it.
static bool reach(struct batch * b, uint64_t addr, uint64_t * device) {
    struct rt_memory * m = &b->agent->rt->memory;
    uint32_t handle = 0;
    pthread_rwlock_rdlock(&m->lock);
    const struct range * r = ranges_find(&m->blocks, addr);
    if (r && ((const struct rt_block *) r->value)->agent == b->agent) {
        const struct rt_block * block = r->value;
        handle = block->native.handle;
        *device = block->native.device + (addr - r->base);
    }
    pthread_rwlock_unlock(&m->lock);
    if (handle) {
        b->buffers[b->n_buffers++] = handle;
    }
    return handle != 0;
}

static hsa_status_t write_command(struct batch * b, const struct rt_dispatch * d, size_t i,
                                  struct error * err) {
    struct amdxdna_command * c = &b->commands[i];
    *c = (struct amdxdna_command){
        .pdi = (unsigned) (known(b->v, d->pdi) - b->v->pdis),
        .n_words = (uint32_t) d->n_insts,
        .n_operands = (unsigned) d->n_operands,
    };
    bool ok = reach(b, (uint64_t) (uintptr_t) d->insts, &c->stream);
    for (int k = 0; ok && k < d->n_operands; k++) {
        ok = reach(b, d->operands[k].addr, &c->operands[k]);
    }
    if (!ok) {
        error_set(err, ST_INVALID, "dispatch %zu names memory that is none of the NPU's", i);
    }
    return ok ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ALLOCATION;
}

static void flush_operands(const struct rt_dispatch * d, size_t n) {
    for (size_t i = 0; i < n; i++) {
        for (int k = 0; k < d[i].n_operands; k++) {
            amdxdna_flush((const void *) (uintptr_t) d[i].operands[k].addr, d[i].operands[k].size);
        }
    }
}

static void note(struct rt_native * v, const struct rt_dispatch * d, size_t n) {
    for (size_t i = 0; i < n; i++) {
        v->pdi_loads += d[i].pdi != v->resident;
        v->resident = d[i].pdi;
    }
    v->dispatches += n;
}

static hsa_status_t run_some(struct batch * b, const struct rt_dispatch * d, size_t n,
                             size_t * done, struct error * err) {
    hsa_status_t status = HSA_STATUS_SUCCESS;
    b->n_buffers = 0;
    for (size_t i = 0; i < n && status == HSA_STATUS_SUCCESS; i++) {
        status = write_command(b, &d[i], i, err);
        amdxdna_flush(d[i].insts, 4 * d[i].n_insts);
    }
    if (status != HSA_STATUS_SUCCESS) {
        return status;
    }
    enum status st = begin_context(b->v, err);
    if (st == ST_OK) {
        flush_operands(d, n);
        st = amdxdna_run(b->v->context, b->commands, n, b->buffers, b->n_buffers, b->v->limit_ms,
                         done, err);
        flush_operands(d, *done);
        note(b->v, d, *done);
    }
    if (st != ST_OK) { // the next batch has a new one
        rt_native_idle(b->v);
    }
    return st == ST_OK ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_EXCEPTION;
}

hsa_status_t rt_native_run(struct rt_agent * agent, const struct rt_dispatch * d, size_t n,
                           size_t * done, struct error * err) {
    size_t max = 0;
    *done = 0;
    for (size_t i = 0; i < n; i++) {
        max += 1 + (size_t) d[i].n_operands;
    }
    struct batch b = {
        .agent = agent,
        .v = agent->native,
        .commands = calloc(n, sizeof *b.commands),
        .buffers = calloc(max, sizeof *b.buffers),
    };
    hsa_status_t status = HSA_STATUS_SUCCESS;
    if (!b.commands || !b.buffers) {
        error_set(err, ST_NO_MEMORY, "no memory for a batch");
        status = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    while (status == HSA_STATUS_SUCCESS && *done < n) {
        size_t fit, ran = 0;
        status = know_pdis(&b, d + *done, n - *done, &fit, err);
        if (status == HSA_STATUS_SUCCESS) {
            status = run_some(&b, d + *done, fit, &ran, err);
        }
        *done += ran;
    }
    free(b.commands);
    free(b.buffers);
    return status;
}

// ---- what it did ----

hsa_status_t hsa_emu_native(hsa_agent_t handle, struct hsa_emu_native * out) {
    struct rt_agent * agent = rt_agent_find(handle);
    if (!agent || !agent->native) {
        return rt_runtime() ? HSA_STATUS_ERROR_INVALID_AGENT : HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!out || out->size < sizeof *out) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    struct amdxdna_counts c;
    pthread_mutex_lock(&agent->lock);
    const struct rt_native * v = agent->native;
    amdxdna_counts(v->device, &c);
    *out = (struct hsa_emu_native){
        .size = sizeof *out,
        .dispatches = v->dispatches,
        .pdi_switches = v->pdi_loads,
        .calls = c.calls,
        .waits = c.waits,
        .contexts = c.contexts,
        .chains = c.chains,
        .failed = c.failed,
        .heap_bytes = c.heap_bytes,
        .flushed_bytes = amdxdna_flushed(),
    };
    snprintf(out->path, sizeof out->path, "%s", amdxdna_info(v->device)->path);
    amdxdna_describe(amdxdna_info(v->device), out->driver, sizeof out->driver);
    pthread_mutex_unlock(&agent->lock);
    return HSA_STATUS_SUCCESS;
}
