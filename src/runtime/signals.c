// signals: a 64-bit value, read and changed by atomic operations in every memory order, and waits.
//
// Kept true: after an operation has changed a value, it touches nothing of that signal any more,
// for a waiter that saw the value may already have destroyed it. Waiters therefore sleep on one
// condition of the process, not of the signal. They wake now and then on their own, because a value
// may also be written by hand through its address.
#include "runtime.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WAIT_SLICE_NS = 2 * 1000 * 1000 };

// Outlives every runtime: a thread may still be leaving a wait while another shuts the runtime
// down.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t waiters; // atomic
} waiting = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

bool rt_signals_init(struct rt_runtime * rt) {
    return pthread_rwlock_init(&rt->signals.lock, NULL) == 0;
}

void rt_signals_release(struct rt_runtime * rt) {
    for (size_t i = 0; i < rt->signals.live.count; i++) {
        free((void *) (uintptr_t) rt->signals.live.items[i].base);
    }
    ranges_free(&rt->signals.live);
    pthread_rwlock_destroy(&rt->signals.lock);
}

amd_signal_t * rt_signal_new(struct rt_runtime * rt, int64_t value, struct rt_queue * queue) {
    amd_signal_t * s = aligned_alloc(AMD_SIGNAL_ALIGN_BYTES, sizeof *s);
    if (!s) {
        return NULL;
    }
    *s = (amd_signal_t){
        .kind = queue ? AMD_SIGNAL_KIND_DOORBELL : AMD_SIGNAL_KIND_USER,
        .value = value,
        .queue_ptr = queue ? (void *) &queue->amd : NULL, // from ROCm 6.4 on it is of another type
    };
    pthread_rwlock_wrlock(&rt->signals.lock);
    bool ok = ranges_add(&rt->signals.live, (uint64_t) (uintptr_t) s, sizeof *s, queue);
    pthread_rwlock_unlock(&rt->signals.lock);
    if (!ok) {
        free(s);
        return NULL;
    }
    return s;
}

void rt_signal_free(struct rt_runtime * rt, amd_signal_t * signal) {
    pthread_rwlock_wrlock(&rt->signals.lock);
    bool ok = ranges_remove(&rt->signals.live, (uint64_t) (uintptr_t) signal);
    pthread_rwlock_unlock(&rt->signals.lock);
    if (ok) {
        free(signal);
    }
}

void rt_signals_wake(void) {
    if (__atomic_load_n(&waiting.waiters, __ATOMIC_SEQ_CST)) {
        pthread_mutex_lock(&waiting.lock);
        pthread_cond_broadcast(&waiting.changed);
        pthread_mutex_unlock(&waiting.lock);
    }
}

// The caller holds signals.lock.
static amd_signal_t * find_live(struct rt_runtime * rt, hsa_signal_t handle) {
    const struct range * r = ranges_find(&rt->signals.live, handle.handle);
    return r && r->base == handle.handle && !r->value ? (amd_signal_t *) (uintptr_t) r->base : NULL;
}

bool rt_signal_is_live(struct rt_runtime * rt, hsa_signal_t handle) {
    pthread_rwlock_rdlock(&rt->signals.lock);
    bool live = find_live(rt, handle) != NULL;
    pthread_rwlock_unlock(&rt->signals.lock);
    return live;
}

bool rt_signal_peek(struct rt_runtime * rt, hsa_signal_t handle, int64_t * value) {
    pthread_rwlock_rdlock(&rt->signals.lock);
    const amd_signal_t * s = find_live(rt, handle);
    if (s) {
        *value = __atomic_load_n(&s->value, __ATOMIC_SEQ_CST);
    }
    pthread_rwlock_unlock(&rt->signals.lock);
    return s != NULL;
}

bool rt_signal_covers(struct rt_runtime * rt, uint64_t addr, uint64_t len) {
    pthread_rwlock_rdlock(&rt->signals.lock);
    const struct range * r = ranges_find(&rt->signals.live, addr);
    bool covers = r && len <= r->size - (addr - r->base);
    pthread_rwlock_unlock(&rt->signals.lock);
    return covers;
}

void rt_signal_complete(struct rt_runtime * rt, hsa_signal_t handle, uint64_t start, uint64_t end) {
    pthread_rwlock_rdlock(&rt->signals.lock);
    amd_signal_t * s = find_live(rt, handle);
    if (s) {
        if (end) {
            __atomic_store_n(&s->start_ts, start, __ATOMIC_RELAXED);
            __atomic_store_n(&s->end_ts, end, __ATOMIC_RELAXED);
        }
        __atomic_fetch_sub(&s->value, 1, __ATOMIC_SEQ_CST);
    }
    pthread_rwlock_unlock(&rt->signals.lock);
    rt_signals_wake();
}

// Times of the dispatch or the copy that completed a signal last.
static hsa_status_t completion_times(hsa_signal_t handle, uint64_t * start, uint64_t * end) {
    struct rt_runtime * rt = rt_runtime();
    pthread_rwlock_rdlock(&rt->signals.lock);
    const amd_signal_t * s = find_live(rt, handle);
    if (s) {
        *start = __atomic_load_n(&s->start_ts, __ATOMIC_RELAXED);
        *end = __atomic_load_n(&s->end_ts, __ATOMIC_RELAXED);
    }
    pthread_rwlock_unlock(&rt->signals.lock);
    return s ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_SIGNAL;
}

hsa_status_t hsa_amd_profiling_get_dispatch_time(hsa_agent_t agent, hsa_signal_t signal,
                                                 hsa_amd_profiling_dispatch_time_t * time) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!rt_agent_find(agent)) {
        return HSA_STATUS_ERROR_INVALID_AGENT;
    }
    return time ? completion_times(signal, &time->start, &time->end)
                : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

// One clock for all.
hsa_status_t hsa_amd_profiling_convert_tick_to_system_domain(hsa_agent_t agent, uint64_t tick,
                                                             uint64_t * system_tick) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!rt_agent_find(agent)) {
        return HSA_STATUS_ERROR_INVALID_AGENT;
    }
    if (!system_tick) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    *system_tick = tick;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_profiling_get_async_copy_time(hsa_signal_t signal,
                                                   hsa_amd_profiling_async_copy_time_t * time) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    return time ? completion_times(signal, &time->start, &time->end)
                : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_signal_create(hsa_signal_value_t value, uint32_t n_consumers,
                               const hsa_agent_t * consumers, hsa_signal_t * out) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!out || (n_consumers && !consumers)) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    for (uint32_t i = 0; i < n_consumers; i++) {
        if (!rt_agent_find(consumers[i])) {
            return HSA_STATUS_ERROR_INVALID_AGENT;
        }
    }
    amd_signal_t * s = rt_signal_new(rt, value, NULL);
    if (!s) {
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    out->handle = (uint64_t) (uintptr_t) s;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_signal_create(hsa_signal_value_t value, uint32_t n_consumers,
                                   const hsa_agent_t * consumers, uint64_t attributes,
                                   hsa_signal_t * out) {
    const uint64_t known = HSA_AMD_SIGNAL_AMD_GPU_ONLY;
    return attributes & ~known ? HSA_STATUS_ERROR_INVALID_ARGUMENT
                               : hsa_signal_create(value, n_consumers, consumers, out);
}

hsa_status_t hsa_signal_destroy(hsa_signal_t handle) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    pthread_rwlock_wrlock(&rt->signals.lock);
    amd_signal_t * s = find_live(rt, handle); // a doorbell belongs to its queue and is not found
    if (s) {
        ranges_remove(&rt->signals.live, handle.handle);
    }
    pthread_rwlock_unlock(&rt->signals.lock);
    free(s);
    return s ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_SIGNAL;
}

hsa_status_t hsa_amd_signal_value_pointer(hsa_signal_t handle, volatile hsa_signal_value_t ** out) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!out) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    if (!rt_signal_is_live(rt, handle)) {
        return HSA_STATUS_ERROR_INVALID_SIGNAL;
    }
    *out = &((amd_signal_t *) (uintptr_t) handle.handle)->value;
    return HSA_STATUS_SUCCESS;
}

// ---- operations ----
// The interface gives them no way to fail. With a handle that is none ROCr reads and writes
// whatever lies there; here the caller gets an error, nothing is touched, and the value counts as
// 0. All of them use sequential consistency, which satisfies each of the orders and lets
// rt_signals_wake see every waiter that has not seen the new value.

static amd_signal_t * at(hsa_signal_t handle) {
    enum { TOLD_MOST = 8 };
    static int told;
    struct rt_runtime * rt = rt_runtime();
    bool live = false;
    if (rt) {
        pthread_rwlock_rdlock(&rt->signals.lock);
        const struct range * r = ranges_find(&rt->signals.live, handle.handle);
        live = r && r->base == handle.handle; // doorbells too
        pthread_rwlock_unlock(&rt->signals.lock);
    }
    if (!live && __atomic_fetch_add(&told, 1, __ATOMIC_RELAXED) < TOLD_MOST) {
        fprintf(stderr, "hsa-npu: 0x%" PRIx64 " is no signal%s; ROCr would use what lies there\n",
                handle.handle, handle.handle ? ": destroyed, or never made" : "");
    }
    return live ? (amd_signal_t *) (uintptr_t) handle.handle : NULL;
}

static hsa_signal_value_t load(hsa_signal_t handle) {
    const amd_signal_t * s = at(handle);
    return s ? __atomic_load_n(&s->value, __ATOMIC_SEQ_CST) : 0;
}

static void store(hsa_signal_t handle, hsa_signal_value_t value) {
    amd_signal_t * s = at(handle);
    if (!s) {
        return;
    }
    if (s->kind == AMD_SIGNAL_KIND_DOORBELL) {
        __atomic_store_n(&s->value, value, __ATOMIC_SEQ_CST);
        rt_queue_ring((struct rt_queue *) (void *) s->queue_ptr);
    } else {
        __atomic_store_n(&s->value, value, __ATOMIC_SEQ_CST);
        rt_signals_wake();
    }
}

#define LOAD(order)                                                                                \
    hsa_signal_value_t hsa_signal_load_##order(hsa_signal_t signal) {                              \
        return load(signal);                                                                       \
    }
#define STORE(order)                                                                               \
    void hsa_signal_store_##order(hsa_signal_t signal, hsa_signal_value_t value) {                 \
        store(signal, value);                                                                      \
    }
#define SILENT_STORE(order)                                                                        \
    void hsa_signal_silent_store_##order(hsa_signal_t signal, hsa_signal_value_t value) {          \
        amd_signal_t * s = at(signal);                                                             \
        if (s) {                                                                                   \
            __atomic_store_n(&s->value, value, __ATOMIC_SEQ_CST);                                  \
        }                                                                                          \
    }
#define CHANGE(name, atomic, order)                                                                \
    void hsa_signal_##name##_##order(hsa_signal_t signal, hsa_signal_value_t value) {              \
        amd_signal_t * s = at(signal);                                                             \
        if (s) {                                                                                   \
            atomic(&s->value, value, __ATOMIC_SEQ_CST);                                            \
            rt_signals_wake();                                                                     \
        }                                                                                          \
    }
#define EXCHANGE(order)                                                                            \
    hsa_signal_value_t hsa_signal_exchange_##order(hsa_signal_t signal,                            \
                                                   hsa_signal_value_t value) {                     \
        amd_signal_t * s = at(signal);                                                             \
        if (!s) {                                                                                  \
            return 0;                                                                              \
        }                                                                                          \
        hsa_signal_value_t old = __atomic_exchange_n(&s->value, value, __ATOMIC_SEQ_CST);          \
        rt_signals_wake();                                                                         \
        return old;                                                                                \
    }
#define CAS(order)                                                                                 \
    hsa_signal_value_t hsa_signal_cas_##order(hsa_signal_t signal, hsa_signal_value_t expected,    \
                                              hsa_signal_value_t value) {                          \
        hsa_signal_value_t old = expected;                                                         \
        amd_signal_t * s = at(signal);                                                             \
        if (!s) {                                                                                  \
            return 0;                                                                              \
        }                                                                                          \
        __atomic_compare_exchange_n(&s->value, &old, value, false, __ATOMIC_SEQ_CST,               \
                                    __ATOMIC_SEQ_CST);                                             \
        rt_signals_wake();                                                                         \
        return old;                                                                                \
    }

// Since 1.1 the orders have longer names; the old ones stay exported.
#define ORDERS_LOAD(X)  X(relaxed) X(acquire) X(scacquire)
#define ORDERS_STORE(X) X(relaxed) X(release) X(screlease)
#define ORDERS(X)                                                                                  \
    X(relaxed) X(acquire) X(release) X(acq_rel) X(scacquire) X(screlease) X(scacq_screl)
#define ADD(order)      CHANGE(add, __atomic_fetch_add, order)
#define SUBTRACT(order) CHANGE(subtract, __atomic_fetch_sub, order)
#define AND(order)      CHANGE(and, __atomic_fetch_and, order)
#define OR(order)       CHANGE(or, __atomic_fetch_or, order)
#define XOR(order)      CHANGE(xor, __atomic_fetch_xor, order)

ORDERS_LOAD(LOAD)
ORDERS_STORE(STORE)
SILENT_STORE(relaxed)
SILENT_STORE(screlease)
ORDERS(ADD)
ORDERS(SUBTRACT)
ORDERS(AND)
ORDERS(OR)
ORDERS(XOR)
ORDERS(EXCHANGE)
ORDERS(CAS)

// ---- waits ----

struct wait_item {
    hsa_signal_t signal;
    hsa_signal_condition_t condition;
    hsa_signal_value_t compare;
};

static bool any_holds(const struct wait_item * items, uint32_t n, uint32_t * which,
                      hsa_signal_value_t * value) {
    for (uint32_t i = 0; i < n; i++) {
        const amd_signal_t * s = at(items[i].signal);
        *value = s ? __atomic_load_n(&s->value, __ATOMIC_SEQ_CST) : 0;
        // One that is none holds nobody up: nothing would ever change it.
        if (!s || aql_condition_holds(items[i].condition, *value, items[i].compare)) {
            *which = i;
            return true;
        }
    }
    return false;
}

// One nap on the condition of the process; waiting.lock is held. Not by the clock on the wall,
// which may be set back: the nap would last as long as that.
static void nap(uint64_t ns) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    ns += (uint64_t) until.tv_nsec;
    until.tv_sec += (time_t) (ns / 1000000000u);
    until.tv_nsec = (long) (ns % 1000000000u);
    pthread_cond_clockwait(&waiting.changed, &waiting.lock, CLOCK_MONOTONIC, &until);
}

void rt_signals_sleep(bool (*ready)(void * user), void * user) {
    if (ready(user)) {
        return;
    }
    __atomic_fetch_add(&waiting.waiters, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&waiting.lock);
    while (!ready(user)) {
        nap(WAIT_SLICE_NS);
    }
    pthread_mutex_unlock(&waiting.lock);
    __atomic_fetch_sub(&waiting.waiters, 1, __ATOMIC_SEQ_CST);
}

// Index of the first item that holds, n after timeout nanoseconds.
static uint32_t wait_any(const struct wait_item * items, uint32_t n, uint64_t timeout,
                         hsa_signal_value_t * value) {
    uint32_t which = n;
    if (any_holds(items, n, &which, value)) {
        return which;
    }
    uint64_t start = rt_now_ns();
    __atomic_fetch_add(&waiting.waiters, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&waiting.lock);
    while (!any_holds(items, n, &which, value)) {
        uint64_t passed = rt_now_ns() - start;
        if (passed >= timeout) {
            break;
        }
        nap(timeout - passed < WAIT_SLICE_NS ? timeout - passed : WAIT_SLICE_NS);
    }
    pthread_mutex_unlock(&waiting.lock);
    __atomic_fetch_sub(&waiting.waiters, 1, __ATOMIC_SEQ_CST);
    return which;
}

static hsa_signal_value_t wait_one(hsa_signal_t signal, hsa_signal_condition_t condition,
                                   hsa_signal_value_t compare, uint64_t timeout) {
    hsa_signal_value_t value = 0;
    wait_any(&(struct wait_item){signal, condition, compare}, 1, timeout, &value);
    return value;
}

#define WAIT(order)                                                                                \
    hsa_signal_value_t hsa_signal_wait_##order(                                                    \
        hsa_signal_t signal, hsa_signal_condition_t condition, hsa_signal_value_t compare,         \
        uint64_t timeout, hsa_wait_state_t state) {                                                \
        (void) state;                                                                              \
        return wait_one(signal, condition, compare, timeout);                                      \
    }
ORDERS_LOAD(WAIT)

uint32_t hsa_amd_signal_wait_any(uint32_t n, hsa_signal_t * signals,
                                 hsa_signal_condition_t * conditions, hsa_signal_value_t * compares,
                                 uint64_t timeout, hsa_wait_state_t state,
                                 hsa_signal_value_t * satisfying) {
    (void) state;
    if (!rt_runtime() || !n || !signals || !conditions || !compares) {
        return UINT32_MAX;
    }
    struct wait_item * items = calloc(n, sizeof *items);
    if (!items) {
        return UINT32_MAX;
    }
    for (uint32_t i = 0; i < n; i++) {
        items[i] = (struct wait_item){signals[i], conditions[i], compares[i]};
    }
    hsa_signal_value_t value = 0;
    uint32_t which = wait_any(items, n, timeout, &value);
    free(items);
    if (which == n) {
        return UINT32_MAX;
    }
    if (satisfying) {
        *satisfying = value;
    }
    return which;
}

struct all_wait {
    struct rt_runtime * rt;
    uint32_t n;
    const hsa_signal_t * signals;
    const hsa_signal_condition_t * conditions;
    const hsa_signal_value_t * compares;
    hsa_signal_value_t * values; // or NULL
    uint64_t until;              // in rt_now_ns
    bool hold;
};

// Signals that are none hold nobody up, and count as 0.
static bool all_hold(void * user) {
    struct all_wait * w = user;
    w->hold = true;
    for (uint32_t i = 0; i < w->n; i++) {
        int64_t value = 0;
        if (rt_signal_peek(w->rt, w->signals[i], &value) &&
            !aql_condition_holds(w->conditions[i], value, w->compares[i])) {
            w->hold = false;
        }
        if (w->values) {
            w->values[i] = value;
        }
    }
    return w->hold || rt_now_ns() >= w->until;
}

uint32_t emu_signal_wait_all(uint32_t n, hsa_signal_t * signals,
                             hsa_signal_condition_t * conditions, hsa_signal_value_t * compares,
                             uint64_t timeout, hsa_wait_state_t state, hsa_signal_value_t * values)
    RT_NEWER(hsa_amd_signal_wait_all);
uint32_t emu_signal_wait_all(uint32_t n, hsa_signal_t * signals,
                             hsa_signal_condition_t * conditions, hsa_signal_value_t * compares,
                             uint64_t timeout, hsa_wait_state_t state,
                             hsa_signal_value_t * values) {
    (void) state;
    struct rt_runtime * rt = rt_runtime();
    if (!rt || (n && (!signals || !conditions || !compares))) {
        return UINT32_MAX;
    }
    uint64_t now = rt_now_ns();
    struct all_wait w = {rt,
                         n,
                         signals,
                         conditions,
                         compares,
                         values,
                         timeout < UINT64_MAX - now ? now + timeout : UINT64_MAX,
                         false};
    rt_signals_sleep(all_hold, &w);
    return w.hold ? 0 : UINT32_MAX;
}
