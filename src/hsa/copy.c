// copy: bytes between an agent's memory and the host's. A NPU's memory is memory of the host. A GPU
// has its own, which the host need not see: there the runtime's copy engine moves them, and since
// it reaches only memory of the runtime, they pass through a stage in the host pool.
//
// One copy at a time for each agent: several would share the same bus. What a copy failed for is
// remembered (lost.c).
#include "hsac-impl.h"

#include <string.h>

enum { STAGE_BYTES = 1 << 20, WAIT_SLICE_MS = 20 };

static enum status stage_open(struct hsac_agent * a, struct error * err) {
    struct hsac_stage * s = &a->stage;
    if (s->buffer) {
        return ST_OK;
    }
    if (!s->done.handle &&
        a->h->api.hsa_signal_create(0, 0, NULL, &s->done) != HSA_STATUS_SUCCESS) {
        s->done.handle = 0;
        return error_set(err, ST_DEVICE, "%s: no signal for copies", a->name);
    }
    s->buffer = hsac_alloc(a, HSAC_POOL_HOST, STAGE_BYTES);
    return s->buffer ? ST_OK
                     : error_set(err, ST_NO_MEMORY, "%s: no host memory for copies", a->name);
}

void hsac_stage_free(struct hsac_agent * a) {
    hsac_free(a, a->stage.buffer);
    a->stage.buffer = NULL;
    if (a->stage.done.handle) {
        a->h->api.hsa_signal_destroy(a->stage.done);
        a->stage.done.handle = 0;
    }
}

// Both addresses are the runtime's. With the stage's lock held.
static enum status move(struct hsac_agent * a, void * to, hsa_agent_t to_agent, const void * from,
                        hsa_agent_t from_agent, size_t size, struct error * err) {
    const struct hsac_api * api = &a->h->api;
    api->hsa_signal_store_screlease(a->stage.done, 1);
    hsa_status_t status = api->hsa_amd_memory_async_copy(to, to_agent, from, from_agent, size, 0,
                                                         NULL, a->stage.done);
    if (status != HSA_STATUS_SUCCESS) {
        return error_set(err, ST_DEVICE, "%s: copying %zu bytes: %s", a->name, size,
                         hsac_status_text(a->h, status));
    }
    hsa_signal_value_t left;
    struct hsac_watch watch = hsac_watch_start(a->h);
    while ((left = api->hsa_signal_wait_scacquire(a->stage.done, HSA_SIGNAL_CONDITION_LT, 1,
                                                  WAIT_SLICE_MS * 1000 * 1000,
                                                  HSA_WAIT_STATE_BLOCKED)) >= 1) {
        if (hsac_watch_silent(&watch, 0)) {
            // The engine may still write to the stage, and to its signal: both are left to it.
            a->stage.buffer = NULL;
            a->stage.done.handle = 0;
            return hsac_watch_error(&watch, a, "a copy", err);
        }
    }
    return left == 0 ? ST_OK // a copy that failed makes its signal negative
                     : error_set(err, ST_DEVICE, "%s: copying %zu bytes failed", a->name, size);
}

enum way { WRITE, READ, FILL };

// The outcome of a copy, for whatever uses the agent's bytes later.
static enum status note(struct hsac_agent * a, enum way way, const void * agent_at, size_t size,
                        const struct error * why, struct error * err) {
    if (why->status != ST_OK) {
        hsac_lose(a, agent_at, size, way == READ, why);
    } else if (way != READ) {
        hsac_agent_written(a, agent_at, size);
    }
    if (err && why->status != ST_OK) {
        *err = *why;
    }
    return why->status;
}

// Piece by piece through the stage. `host` is where bytes come from or go to; FILL has none.
static enum status pass(struct hsac_agent * a, enum way way, char * agent_at, char * host,
                        uint8_t value, size_t size, struct error * err) {
    struct error why = {0};
    enum status st = hsac_check_fork(a, err);
    if (st != ST_OK) {
        return st;
    }
    pthread_mutex_lock(&a->stage.lock);
    st = stage_open(a, &why);
    uint8_t * stage = a->stage.buffer;
    if (st == ST_OK && way == FILL) {
        memset(stage, value, size < STAGE_BYTES ? size : STAGE_BYTES);
    }
    for (size_t done = 0; st == ST_OK && done < size; done += STAGE_BYTES) {
        size_t n = size - done < STAGE_BYTES ? size - done : STAGE_BYTES;
        if (way == WRITE) {
            memcpy(stage, host + done, n);
        }
        st = way == READ ? move(a, stage, a->h->cpu, agent_at + done, a->handle, n, &why)
                         : move(a, agent_at + done, a->handle, stage, a->h->cpu, n, &why);
        if (st == ST_OK && way == READ) {
            memcpy(host + done, stage, n);
        }
    }
    pthread_mutex_unlock(&a->stage.lock);
    return note(a, way, agent_at, size, &why, err);
}

enum status hsac_write(struct hsac_agent * a, void * to, const void * from, size_t size,
                       struct error * err) {
    if (a->kind == HSAC_GPU) {
        return pass(a, WRITE, to, (char *) (uintptr_t) from, 0, size, err);
    }
    hsac_host_begin(a, to, size);
    memcpy(to, from, size);
    hsac_host_end(a, to, size);
    return ST_OK;
}

enum status hsac_read(struct hsac_agent * a, void * to, const void * from, size_t size,
                      struct error * err) {
    if (a->kind == HSAC_GPU) {
        return pass(a, READ, (char *) (uintptr_t) from, to, 0, size, err);
    }
    hsac_host_begin(a, from, size);
    memcpy(to, from, size);
    return ST_OK;
}

enum status hsac_fill(struct hsac_agent * a, void * to, uint8_t value, size_t size,
                      struct error * err) {
    if (a->kind == HSAC_GPU) {
        return pass(a, FILL, to, NULL, value, size, err);
    }
    hsac_host_begin(a, to, size);
    memset(to, value, size);
    hsac_host_end(a, to, size);
    return ST_OK;
}

enum status hsac_copy(struct hsac_agent * a, void * to, const void * from, size_t size,
                      struct error * err) {
    if (a->kind == HSAC_NPU) {
        hsac_host_begin(a, from, size);
        hsac_host_begin(a, to, size);
        memmove(to, from, size);
        hsac_host_end(a, to, size);
        return ST_OK;
    }
    enum status st = hsac_check_fork(a, err);
    if (st != ST_OK) {
        return st;
    }
    struct error why = {0};
    pthread_mutex_lock(&a->stage.lock);
    st = hsac_agent_may_use(a, from, size, false, &why);
    st = st == ST_OK ? stage_open(a, &why) : st;
    if (st == ST_OK && size) {
        move(a, to, a->handle, from, a->handle, size, &why);
    }
    pthread_mutex_unlock(&a->stage.lock);
    return note(a, WRITE, to, size, &why, err);
}
