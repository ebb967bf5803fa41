// async: copies in a GPU's queue, and marks in it, which events are made of. A mark is a signal: a
// barrier packet behind kernels sets it to 0, or a copy of the runtime's engine, which begins when
// the signals before it are 0. So kernels and copies wait for each other on the device, and the
// host for neither.
//
// The engine reaches only memory of the runtime: other bytes of the host pass through slots in the
// host pool, one behind the other. A slot is written to again when the last copy from it is
// complete.
//
// Kept true: a mark that packets or copies name lives until these are settled, whoever else lets go
// of it. And no mark stays out for ever: one that a queue which stopped would have reached, or that
// a copy made negative, is given up, so that who waits for it goes on, and then learns that it
// failed; so does who waits for a mark behind it, in whatever queue. What was copied behind it is
// lost (lost.c).
#include "hsac-impl.h"

#include <stdlib.h>
#include <string.h>

enum { WAIT_SLICE_MS = 20, SLOT_ALIGNMENT = 64 };

// ---- marks ----

// How marks ended, and what is before them: any thread may wait for any.
static pthread_mutex_t outcomes = PTHREAD_MUTEX_INITIALIZER;

static struct hsac_mark * mark_new(struct hsac_agent * a, struct error * err) {
    struct hsac_mark * m = calloc(1, sizeof *m);
    if (!m || a->h->api.hsa_signal_create(1, 0, NULL, &m->signal) != HSA_STATUS_SUCCESS) {
        free(m);
        error_set(err, ST_NO_MEMORY, "%s: no signal for a copy or an event", a->name);
        return NULL;
    }
    m->agent = a;
    m->refs = 1;
    return m;
}

static struct hsac_mark * mark_ref(struct hsac_mark * m) {
    __atomic_fetch_add(&m->refs, 1, __ATOMIC_RELAXED);
    return m;
}

void hsac_mark_free(struct hsac_mark * m) {
    if (!m || hsac_forked(m->agent->h) || __atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL) > 0) {
        return;
    }
    for (int i = 0; i < m->n_before; i++) {
        hsac_mark_free(m->before[i]);
    }
    if (!m->abandoned) {
        m->agent->h->api.hsa_signal_destroy(m->signal);
    }
    free(m->before);
    free(m);
}

static hsa_signal_value_t mark_value(const struct hsac_mark * m) {
    return m->agent->h->api.hsa_signal_wait_scacquire(m->signal, HSA_SIGNAL_CONDITION_LT, 1, 0,
                                                      HSA_WAIT_STATE_ACTIVE);
}

static bool mark_failed(const struct hsac_mark * m) {
    return __atomic_load_n(&m->failed, __ATOMIC_ACQUIRE);
}

// The reason is there before anybody sees the signal at 0. Several may give it up at once.
static void mark_fail(struct hsac_mark * m, const struct error * why) {
    pthread_mutex_lock(&outcomes);
    if (!m->failed) {
        m->why = *why;
        __atomic_store_n(&m->failed, 1, __ATOMIC_RELEASE);
        m->agent->h->api.hsa_signal_store_screlease(m->signal, 0);
    }
    pthread_mutex_unlock(&outcomes);
}

// A mark that is reached has failed if one before it failed. The caller holds the lock of outcomes.
static void mark_judge(struct hsac_mark * m) {
    for (int i = 0; i < m->n_before; i++) {
        mark_judge(m->before[i]);
        if (m->before[i]->failed && !m->failed) {
            m->why = m->before[i]->why;
            __atomic_store_n(&m->failed, 1, __ATOMIC_RELEASE);
        }
        hsac_mark_free(m->before[i]);
    }
    free(m->before);
    m->before = NULL;
    m->n_before = 0;
}

// Gives up what failed, of this mark and of all that it is behind, in whatever queue: a copy that
// failed makes its signal negative, and packets wait for 0. With outcomes locked.
static void mark_search(struct hsac_mark * m, unsigned search) {
    if (m->searched == search) {
        return;
    }
    m->searched = search;
    if (mark_value(m) < 0 && !m->failed) {
        error_set(&m->why, ST_DEVICE, "%s: a copy failed", m->agent->name);
        __atomic_store_n(&m->failed, 1, __ATOMIC_RELEASE);
        m->agent->h->api.hsa_signal_store_screlease(m->signal, 0);
    }
    for (int i = 0; i < m->n_before; i++) {
        mark_search(m->before[i], search);
    }
}

// Is it reached, or given up?
static bool mark_look(struct hsac_mark * m) {
    static unsigned searches;
    pthread_mutex_lock(&outcomes);
    mark_search(m, ++searches);
    bool reached = mark_value(m) <= 0;
    if (reached) {
        mark_judge(m);
    }
    pthread_mutex_unlock(&outcomes);
    return reached;
}

// False: it is silent. Nothing shows how far the device is, so that the limit is for all that is
// before the mark.
static bool mark_waited(struct hsac_mark * m) {
    const struct hsac_api * api = &m->agent->h->api;
    struct hsac_watch watch = hsac_watch_start(m->agent->h);
    struct error why = {0};
    while (api->hsa_signal_wait_scacquire(m->signal, HSA_SIGNAL_CONDITION_LT, 1,
                                          WAIT_SLICE_MS * 1000 * 1000,
                                          HSA_WAIT_STATE_BLOCKED) >= 1) {
        if (hsac_watch_silent(&watch, 0)) {
            hsac_watch_error(&watch, m->agent, "a copy", &why);
            mark_fail(m, &why);
            return false;
        }
        mark_look(m);
    }
    mark_look(m);
    return true;
}

static enum status mark_status(const struct hsac_mark * m, struct error * err) {
    if (mark_failed(m) && err) {
        *err = m->why;
    }
    return mark_failed(m) ? m->why.status : ST_OK;
}

enum status hsac_mark_wait(struct hsac_mark * m, struct error * err) {
    enum status st = m ? hsac_check_fork(m->agent, err) : ST_OK;
    if (!m || st != ST_OK) {
        return st;
    }
    mark_waited(m);
    return mark_status(m, err);
}

// ---- what a queue holds ----

static void hold(struct hsac_gpu_queue * q, struct hsac_held held) {
    pthread_mutex_lock(&q->held_lock);
    q->held[q->n_held++] = held;
    pthread_mutex_unlock(&q->held_lock);
}

// A mark of the queue's own, which is behind its last one and what the queue waits for since.
static struct hsac_mark * mark_behind(struct hsac_agent * a, const struct hsac_gpu_queue * q,
                                      struct error * err) {
    int from = q->own ? q->own - 1 : 0, n = q->n_held - from;
    struct hsac_mark * m = mark_new(a, err);
    if (m && n > 0) {
        m->before = calloc((size_t) n, sizeof *m->before);
    }
    if (m && n > 0 && !m->before) {
        hsac_mark_free(m);
        error_set(err, ST_NO_MEMORY, "%s: no memory for a copy or an event", a->name);
        return NULL;
    }
    for (int i = 0; m && i < n; i++) {
        m->before[m->n_before++] = mark_ref(q->held[from + i].mark);
    }
    return m;
}

static void hold_own(struct hsac_gpu_queue * q, struct hsac_held held) {
    hold(q, held);
    q->own = q->n_held;
}

void hsac_held_look(struct hsac_gpu_queue * q) {
    for (int i = 0; i < q->n_held; i++) {
        mark_look(q->held[i].mark);
    }
}

void hsac_held_fail(struct hsac_gpu_queue * q, const struct error * why) {
    pthread_mutex_lock(&q->held_lock);
    for (int i = 0; i < q->n_held; i++) {
        if (q->held[i].by_packet && mark_value(q->held[i].mark) > 0) {
            mark_fail(q->held[i].mark, why);
        }
    }
    pthread_mutex_unlock(&q->held_lock);
}

// The engine may still write to what was given up: signal and slots are left to it.
static void abandon(struct hsac_gpu_queue * q, struct hsac_mark * m) {
    m->abandoned = true; // before it is let go of
    for (int i = 0; i < HSAC_SLOTS; i++) {
        q->slots[i].base = NULL;
    }
}

void hsac_held_settle(struct hsac_agent * a, struct hsac_gpu_queue * q, struct error * why) {
    struct error failed = {0}; // what is behind it is not to be trusted
    (void) a;
    for (int i = 0; i < q->n_held; i++) {
        const struct hsac_held * h = &q->held[i];
        if (!mark_waited(h->mark)) {
            abandon(q, h->mark);
        }
        if (failed.status == ST_OK) {
            mark_status(h->mark, &failed);
        }
        if (h->of && failed.status != ST_OK) {
            hsac_lose(h->of, h->at, h->size, h->read, &failed);
        }
    }
    if (why->status == ST_OK) {
        *why = failed;
    }
    for (int i = 0; i < HSAC_SLOTS; i++) {
        hsac_mark_free(q->slots[i].last);
        q->slots[i].last = NULL;
        q->slots[i].used = 0;
    }
    pthread_mutex_lock(&q->held_lock);
    int n = q->n_held;
    q->n_held = q->n_front = q->own = 0;
    pthread_mutex_unlock(&q->held_lock);
    for (int i = 0; i < n; i++) {
        hsac_mark_free(q->held[i].mark);
    }
}

// ---- in the queue ----

void hsac_front_send(const struct hsac_agent * a, struct hsac_gpu_queue * q) {
    if (q->n_front) {
        hsac_gpu_queue_barrier(a, q, true, NULL);
        q->n_front = 0;
        q->open = true;
    }
}

// Room for packets and marks; what makes it may have waited for all.
static enum status make_room(struct hsac_agent * a, struct hsac_gpu_queue * q, struct error * err) {
    enum status st = ST_OK;
    if (q->n_held + 4 > HSAC_HELD) {
        st = hsac_gpu_queue_wait(a, q, err);
    }
    return st == ST_OK ? hsac_gpu_queue_room(a, q, 3, err) : st;
}

// A mark behind the packets, where there are any behind the last one. There is room.
static enum status close_packets(struct hsac_agent * a, struct hsac_gpu_queue * q,
                                 struct error * err) {
    if (!q->open) {
        return ST_OK;
    }
    struct hsac_mark * m = mark_behind(a, q, err);
    if (!m) {
        return ST_NO_MEMORY;
    }
    hold_own(q, (struct hsac_held){.mark = m, .by_packet = true});
    hsac_gpu_queue_barrier(a, q, false, m);
    q->front[q->n_front++] = m;
    q->open = false;
    if (__atomic_load_n(&q->failure, __ATOMIC_SEQ_CST)) { // the callback may not have seen it
        struct error why = {0};
        error_set(&why, ST_DEVICE, "%s: kernels before it failed", a->name);
        hsac_held_fail(q, &why);
    }
    return ST_OK;
}

// One mark in front, or none. There is room.
static enum status one_front(struct hsac_agent * a, struct hsac_gpu_queue * q, struct error * err) {
    enum status st = close_packets(a, q, err);
    if (st == ST_OK && q->n_front > 1) {
        hsac_front_send(a, q);
        st = close_packets(a, q, err);
    }
    return st;
}

enum status hsac_queue_mark(struct hsac_queue * handle, struct hsac_mark ** out,
                            struct error * err) {
    struct hsac_gpu_queue * q = handle->gpu;
    *out = NULL;
    if (!q) { // a NPU's batches are rung and waited for
        return hsac_queue_wait(handle, err);
    }
    enum status st = hsac_check_fork(handle->agent, err);
    if (st != ST_OK) {
        return st;
    }
    pthread_mutex_lock(&q->lock);
    if (q->open || q->n_front) {
        st = make_room(handle->agent, q, err);
        st = st == ST_OK ? one_front(handle->agent, q, err) : st;
    }
    if (st == ST_OK && q->n_front) {
        *out = mark_ref(q->front[0]);
    }
    pthread_mutex_unlock(&q->lock);
    return st;
}

enum status hsac_queue_after(struct hsac_queue * handle, struct hsac_mark * m, struct error * err) {
    struct hsac_agent * a = handle->agent;
    struct hsac_gpu_queue * q = handle->gpu;
    enum status st = hsac_check_fork(a, err);
    if (st != ST_OK || !m) {
        return st;
    }
    if (!q || m->agent->h != a->h) { // packets know no signals of another runtime
        return hsac_mark_wait(m, err);
    }
    pthread_mutex_lock(&q->lock);
    bool there = mark_look(m) && !mark_failed(m);
    for (int i = 0; i < q->n_front; i++) {
        there = there || q->front[i] == m;
    }
    if (!there) {
        st = make_room(a, q, err);
        if (st == ST_OK && q->n_front + 2 > HSAC_FRONT) { // a place is for the packets
            st = one_front(a, q, err);
        }
        if (st == ST_OK) {
            hold(q, (struct hsac_held){.mark = mark_ref(m)});
            q->front[q->n_front++] = m;
        }
    }
    pthread_mutex_unlock(&q->lock);
    return st;
}

// ---- copies ----

struct side {
    hsa_agent_t agent;
    const void * at;
};

// Behind all that was sent. `held` says whose bytes these are.
static enum status submit(struct hsac_agent * a, struct hsac_gpu_queue * q, struct side to,
                          struct side from, size_t size, struct hsac_held held,
                          struct error * err) {
    hsa_signal_t before[HSAC_FRONT];
    enum status st = make_room(a, q, err);
    st = st == ST_OK ? close_packets(a, q, err) : st;
    held.mark = st == ST_OK ? mark_behind(a, q, err) : NULL;
    if (!held.mark) {
        return st == ST_OK ? ST_NO_MEMORY : st;
    }
    for (int i = 0; i < q->n_front; i++) {
        before[i] = q->front[i]->signal;
    }
    hsa_status_t status = a->h->api.hsa_amd_memory_async_copy(
        (void *) (uintptr_t) to.at, to.agent, from.at, from.agent, size, (uint32_t) q->n_front,
        q->n_front ? before : NULL, held.mark->signal);
    if (status != HSA_STATUS_SUCCESS) {
        hsac_mark_free(held.mark);
        return error_set(err, ST_DEVICE, "%s: copying %zu bytes: %s", a->name, size,
                         hsac_status_text(a->h, status));
    }
    hold_own(q, held);
    q->front[0] = held.mark;
    q->n_front = 1;
    return ST_OK;
}

void hsac_slots_free(struct hsac_agent * a, struct hsac_gpu_queue * q) {
    for (int i = 0; i < HSAC_SLOTS; i++) {
        hsac_free(a, q->slots[i].base);
        q->slots[i].base = NULL;
    }
}

// Room for bytes on their way, at most HSAC_SLOT_BYTES of them.
static enum status take_slot(struct hsac_agent * a, struct hsac_gpu_queue * q, size_t size,
                             uint8_t ** out, struct error * err) {
    size = (size + SLOT_ALIGNMENT - 1) / SLOT_ALIGNMENT * SLOT_ALIGNMENT;
    if (q->slots[q->slot].used + size > HSAC_SLOT_BYTES) {
        q->slot = (q->slot + 1) % HSAC_SLOTS;
        struct hsac_mark * last = q->slots[q->slot].last;
        if (last && mark_value(last) != 0) {
            enum status st = hsac_gpu_queue_wait(a, q, err); // whose slots are all free then
            if (st != ST_OK) {
                return st;
            }
        }
        q->slots[q->slot].used = 0;
    }
    uint8_t ** base = &q->slots[q->slot].base;
    *base = *base ? *base : hsac_alloc(a, HSAC_POOL_HOST, HSAC_SLOT_BYTES);
    if (!*base) {
        return error_set(err, ST_NO_MEMORY, "%s: no host memory for copies", a->name);
    }
    *out = *base + q->slots[q->slot].used;
    q->slots[q->slot].used += size;
    return ST_OK;
}

static void slot_is_used(struct hsac_gpu_queue * q) {
    hsac_mark_free(q->slots[q->slot].last);
    q->slots[q->slot].last = mark_ref(q->front[0]);
}

static bool is_own_host(struct hsac_agent * a, const void * at, size_t size) {
    enum hsac_pool pool;
    return hsac_agent_owns(a, at, size, &pool) && pool == HSAC_POOL_HOST;
}

static enum status write_staged(struct hsac_agent * a, struct hsac_gpu_queue * q, char * to,
                                const char * from, size_t size, struct hsac_held held,
                                struct error * err) {
    enum status st = ST_OK;
    for (size_t done = 0; done < size && st == ST_OK; done += HSAC_SLOT_BYTES) {
        size_t n = size - done < HSAC_SLOT_BYTES ? size - done : HSAC_SLOT_BYTES;
        uint8_t * slot;
        // First of all, for making room may wait, and then takes back what was handed out.
        st = make_room(a, q, err);
        st = st == ST_OK ? take_slot(a, q, n, &slot, err) : st;
        if (st == ST_OK) {
            memcpy(slot, from + done, n);
            st = submit(a, q, (struct side){a->handle, to + done}, (struct side){a->h->cpu, slot},
                        n, held, err);
        }
        if (st == ST_OK) {
            slot_is_used(q);
        }
    }
    return st;
}

static enum status read_staged(struct hsac_agent * a, struct hsac_gpu_queue * q, char * to,
                               const char * from, size_t size, struct hsac_held held,
                               struct error * err) {
    enum status st = ST_OK;
    for (size_t done = 0; done < size && st == ST_OK; done += HSAC_SLOT_BYTES) {
        size_t n = size - done < HSAC_SLOT_BYTES ? size - done : HSAC_SLOT_BYTES;
        uint8_t * slot;
        st = make_room(a, q, err);
        st = st == ST_OK ? take_slot(a, q, n, &slot, err) : st;
        st = st == ST_OK ? submit(a, q, (struct side){a->h->cpu, slot},
                                  (struct side){a->handle, from + done}, n, held, err)
                         : st;
        st = st == ST_OK ? hsac_gpu_queue_wait(a, q, err) : st;
        if (st == ST_OK) {
            memcpy(to + done, slot, n);
        }
    }
    return st;
}

enum way { WRITE, TAKE, READ };

static enum status pass(struct hsac_queue * handle, enum way way, char * agent_at, char * host,
                        size_t size, struct error * err) {
    struct hsac_agent * a = handle->agent;
    struct hsac_gpu_queue * q = handle->gpu;
    struct error why = {0};
    enum status st = hsac_check_fork(a, err);
    if (st != ST_OK || size == 0) {
        return st;
    }
    if (!q) {
        return error_set(err, ST_INVALID, "%s takes no copies in its queue", a->name);
    }
    const struct hsac_held held = {.of = a, .at = agent_at, .size = size, .read = way == READ};
    const struct side device = {a->handle, agent_at}, own = {a->h->cpu, host};
    bool direct = way != TAKE && is_own_host(a, host, size);
    if (way != READ) { // what fails is lost from now on, and not before
        hsac_agent_written(a, agent_at, size);
    }
    pthread_mutex_lock(&q->lock);
    if (way == READ) {
        direct ? submit(a, q, own, device, size, held, &why)
               : read_staged(a, q, host, agent_at, size, held, &why);
    } else {
        direct ? submit(a, q, device, own, size, held, &why)
               : write_staged(a, q, agent_at, host, size, held, &why);
    }
    pthread_mutex_unlock(&q->lock);
    if (why.status != ST_OK) {
        hsac_lose(a, agent_at, size, way == READ, &why);
    }
    if (err && why.status != ST_OK) {
        *err = why;
    }
    return why.status;
}

enum status hsac_queue_write(struct hsac_queue * q, void * to, const void * from, size_t size,
                             struct error * err) {
    return pass(q, WRITE, to, (char *) (uintptr_t) from, size, err);
}

enum status hsac_queue_take(struct hsac_queue * q, void * to, const void * from, size_t size,
                            struct error * err) {
    return pass(q, TAKE, to, (char *) (uintptr_t) from, size, err);
}

enum status hsac_queue_read(struct hsac_queue * q, void * to, const void * from, size_t size,
                            struct error * err) {
    return pass(q, READ, (char *) (uintptr_t) from, to, size, err);
}

enum status hsac_queue_copy(struct hsac_queue * handle, void * to, struct hsac_agent * from_agent,
                            const void * from, size_t size, struct error * err) {
    struct hsac_agent * a = handle->agent;
    struct hsac_gpu_queue * q = handle->gpu;
    struct error why = {0};
    enum status st = hsac_check_fork(a, err);
    if (st != ST_OK || size == 0) {
        return st;
    }
    if (!q || from_agent->kind != HSAC_GPU) {
        return error_set(err, ST_UNSUPPORTED, "%s takes no copies from %s in its queue", a->name,
                         from_agent->name);
    }
    st = from_agent == a ? ST_OK : hsac_agent_share(from_agent, from, a, err);
    if (st != ST_OK) {
        return st;
    }
    hsac_agent_written(a, to, size);
    st = hsac_agent_may_use(from_agent, from, size, false, &why);
    if (st == ST_OK) {
        pthread_mutex_lock(&q->lock);
        submit(a, q, (struct side){a->handle, to}, (struct side){from_agent->handle, from}, size,
               (struct hsac_held){.of = a, .at = to, .size = size}, &why);
        pthread_mutex_unlock(&q->lock);
    }
    if (why.status != ST_OK) {
        hsac_lose(a, to, size, false, &why);
    }
    if (err && why.status != ST_OK) {
        *err = why;
    }
    return why.status;
}
