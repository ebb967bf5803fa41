// events: functions of the user that run when a signal reaches a value, on a thread of the runtime.
// As in ROCr they run one after the other, on one thread; a handler whose signal is destroyed is
// forgotten.
#include "runtime.h"

#include <stdlib.h>

struct event {
    struct rt_task task;
    hsa_signal_t signal; // handle 0: at once
    hsa_signal_condition_t condition;
    hsa_signal_value_t compare;
    hsa_amd_signal_handler handler;
    void (*function)(void *);
    void * data;
};

static bool event_ready(struct rt_runtime * rt, const struct rt_task * task) {
    const struct event * e = (const struct event *) task;
    int64_t value;
    return !e->signal.handle || !rt_signal_peek(rt, e->signal, &value) ||
           aql_condition_holds(e->condition, value, e->compare);
}

static bool event_run(struct rt_runtime * rt, struct rt_task * task) {
    const struct event * e = (const struct event *) task;
    if (e->function) {
        e->function(e->data);
        return false;
    }
    int64_t value = 0;
    if (e->signal.handle && !rt_signal_peek(rt, e->signal, &value)) {
        return false;
    }
    if (e->signal.handle && !aql_condition_holds(e->condition, value, e->compare)) {
        return true; // it held a moment ago
    }
    return e->handler(value, e->data);
}

static void event_drop(struct rt_task * task) {
    free(task);
}

static hsa_status_t event_add(struct rt_runtime * rt, struct event event) {
    struct event * e = malloc(sizeof *e);
    if (!e) {
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    *e = event;
    e->task = (struct rt_task){.ready = event_ready, .run = event_run, .drop = event_drop};
    if (!rt_worker_add(&rt->events, &e->task)) {
        free(e);
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_signal_async_handler(hsa_signal_t signal, hsa_signal_condition_t condition,
                                          hsa_signal_value_t value, hsa_amd_signal_handler handler,
                                          void * data) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!handler) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    if (signal.handle && !rt_signal_is_live(rt, signal)) {
        return HSA_STATUS_ERROR_INVALID_SIGNAL;
    }
    return event_add(rt, (struct event){.signal = signal,
                                        .condition = condition,
                                        .compare = value,
                                        .handler = handler,
                                        .data = data});
}

hsa_status_t hsa_amd_async_function(void (*function)(void *), void * data) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    return function ? event_add(rt, (struct event){.function = function, .data = data})
                    : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

// Memory faults are the only events of the system. One handler is enough for ROCr, too.
hsa_status_t hsa_amd_register_system_event_handler(hsa_amd_system_event_callback_t callback,
                                                   void * data) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    pthread_mutex_lock(&rt->agents[0].lock);
    bool taken = callback && rt->event_handler;
    if (!taken) {
        rt->event_handler = callback;
        rt->event_data = data;
    }
    pthread_mutex_unlock(&rt->agents[0].lock);
    return taken ? HSA_STATUS_ERROR : HSA_STATUS_SUCCESS;
}
