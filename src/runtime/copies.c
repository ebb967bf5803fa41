// copies: moving and filling memory, at once or when signals allow it. All memory is the host's, so
// a copy is memmove; what is kept true is that asynchronous ones touch only memory that the GPU
// which makes them can reach, and that the completion signal changes after the last byte is there.
//
// A copy whose signals are at 0 already is done in the calling thread, which saves a change of
// threads. Others, and all of them when the runtime is strict, wait in rt->copies, where none holds
// up those behind it.
#include "runtime.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct copy {
    struct rt_task task;
    uint8_t * to;
    const uint8_t * from;
    size_t x, y, z; // bytes of a row, rows, planes
    size_t to_pitch, to_slice, from_pitch, from_slice;
    hsa_signal_t completion; // handle 0: none
    uint32_t n_deps;
    hsa_signal_t deps[];
};

static bool copy_ready(struct rt_runtime * rt, const struct rt_task * task) {
    const struct copy * c = (const struct copy *) task;
    for (uint32_t i = 0; i < c->n_deps; i++) {
        int64_t value;
        if (rt_signal_peek(rt, c->deps[i], &value) && value != 0) {
            return false;
        }
    }
    return true; // a signal that is gone holds nobody up
}

static bool copy_run(struct rt_runtime * rt, struct rt_task * task) {
    const struct copy * c = (const struct copy *) task;
    if (rt->strict) {
        const struct timespec moment = {.tv_nsec = 100000};
        nanosleep(&moment, NULL);
    }
    uint64_t start = rt_now_ns();
    for (size_t z = 0; z < c->z; z++) {
        for (size_t y = 0; y < c->y; y++) {
            memmove(c->to + z * c->to_slice + y * c->to_pitch,
                    c->from + z * c->from_slice + y * c->from_pitch, c->x);
        }
    }
    if (c->completion.handle) {
        rt_signal_complete(rt, c->completion, start, rt_now_ns());
    }
    return false;
}

static void copy_drop(struct rt_task * task) {
    free(task);
}

// Bytes from a corner to the opposite one; false: more than there are.
static bool extent(const struct copy * c, size_t pitch, size_t slice, size_t * bytes) {
    size_t planes, rows;
    return !__builtin_mul_overflow(c->z - 1, slice, &planes) &&
           !__builtin_mul_overflow(c->y - 1, pitch, &rows) &&
           !__builtin_add_overflow(planes, rows, bytes) &&
           !__builtin_add_overflow(*bytes, c->x, bytes);
}

// Memory that an agent reaches, where the host sees it; NULL: it does not reach it.
static void * reached(struct rt_agent * agent, const void * ptr, size_t bytes) {
    return rt_memory_resolve(agent, (uint64_t) (uintptr_t) ptr, bytes, false);
}

// Memory that the runtime knows.
static void * known(struct rt_runtime * rt, const void * ptr, size_t bytes) {
    return reached(&rt->agents[0], ptr, bytes);
}

// Any memory of the process will do, but not what begins in the runtime's and does not end there.
static bool may_be_any(struct rt_runtime * rt, const void * ptr, const void * found) {
    return found || !rt_memory_is_ours(rt, (uint64_t) (uintptr_t) ptr);
}

// `by` must reach both sides, unless any memory of the process will do. Takes over c.
static hsa_status_t copy_submit(struct rt_runtime * rt, struct rt_agent * by, struct copy * c,
                                bool any) {
    size_t to, from;
    hsa_status_t status = HSA_STATUS_SUCCESS;
    if (!extent(c, c->to_pitch, c->to_slice, &to) ||
        !extent(c, c->from_pitch, c->from_slice, &from)) {
        status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
    } else {
        uint8_t *a = reached(by, c->to, to), *b = reached(by, c->from, from);
        if (any ? !may_be_any(rt, c->to, a) || !may_be_any(rt, c->from, b) : !a || !b) {
            status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
        }
        c->to = a ? a : c->to;
        c->from = b ? b : c->from;
    }
    for (uint32_t i = 0; i < c->n_deps && status == HSA_STATUS_SUCCESS; i++) {
        if (!rt_signal_is_live(rt, c->deps[i])) {
            status = HSA_STATUS_ERROR_INVALID_SIGNAL;
        }
    }
    if (c->completion.handle && !rt_signal_is_live(rt, c->completion)) {
        status = HSA_STATUS_ERROR_INVALID_SIGNAL;
    }
    if (status == HSA_STATUS_SUCCESS && (rt->strict || !copy_ready(rt, &c->task))) {
        c->task.ready = copy_ready;
        c->task.run = copy_run;
        c->task.drop = copy_drop;
        if (rt_worker_add(&rt->copies, &c->task)) {
            return HSA_STATUS_SUCCESS;
        }
        status = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    if (status == HSA_STATUS_SUCCESS) {
        copy_run(rt, &c->task);
    }
    free(c);
    return status;
}

static struct copy * copy_new(uint32_t n, const hsa_signal_t * deps) {
    struct copy * c = calloc(1, sizeof *c + n * sizeof *deps);
    if (c) {
        c->n_deps = n;
        if (n) {
            memcpy(c->deps, deps, n * sizeof *deps);
        }
    }
    return c;
}

hsa_status_t hsa_amd_memory_async_copy(void * to, hsa_agent_t to_agent, const void * from,
                                       hsa_agent_t from_agent, size_t size, uint32_t n_deps,
                                       const hsa_signal_t * deps, hsa_signal_t completion) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    struct rt_agent *a = rt_agent_find(to_agent), *b = rt_agent_find(from_agent);
    if (!a || !b) {
        return HSA_STATUS_ERROR_INVALID_AGENT;
    }
    if (!to || !from || (n_deps && !deps)) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    if (size == 0) {
        return HSA_STATUS_SUCCESS; // ROCr leaves the signal alone
    }
    struct copy * c = copy_new(n_deps, deps);
    if (!c) {
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    c->to = to;
    c->from = from;
    c->x = size;
    c->y = c->z = 1;
    c->completion = completion;
    struct rt_agent * by = a->gpu ? a : b->gpu ? b : &rt->agents[0];
    bool any = a->device == HSA_DEVICE_TYPE_CPU && b->device == HSA_DEVICE_TYPE_CPU;
    return copy_submit(rt, by, c, any);
}

// ---- engines ----

// Which engines may copy between two agents: bit i is engine i. The first one of a gfx90a only
// copies from the host; ours are never busy, for copies wait elsewhere.
static uint32_t engines_between(const struct rt_agent * to, const struct rt_agent * from) {
    const struct emu_gpu_model * gpu = from->gpu ? from->gpu : to->gpu;
    const uint32_t all = (1u << RT_GPU_COPY_ENGINES) - 1;
    return !gpu ? 0 : gpu->arch == GFX_90A && from->gpu ? all & ~1u : all;
}

static hsa_status_t engines(hsa_agent_t to_agent, hsa_agent_t from_agent, uint32_t * mask) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    const struct rt_agent *a = rt_agent_find(to_agent), *b = rt_agent_find(from_agent);
    if (!a || !b || a == b || (!a->gpu && !b->gpu)) {
        return HSA_STATUS_ERROR_INVALID_AGENT;
    }
    if (!mask) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    *mask = engines_between(a, b);
    return HSA_STATUS_SUCCESS;
}

hsa_status_t emu_copy_engine_status(hsa_agent_t to_agent, hsa_agent_t from_agent, uint32_t * mask)
    RT_NEWER(hsa_amd_memory_copy_engine_status);
hsa_status_t emu_copy_engine_status(hsa_agent_t to_agent, hsa_agent_t from_agent, uint32_t * mask) {
    return engines(to_agent, from_agent, mask);
}

hsa_status_t emu_copy_engine_preferred(hsa_agent_t to_agent, hsa_agent_t from_agent,
                                       uint32_t * mask)
    RT_NEWER(hsa_amd_memory_get_preferred_copy_engine);
hsa_status_t emu_copy_engine_preferred(hsa_agent_t to_agent, hsa_agent_t from_agent,
                                       uint32_t * mask) {
    hsa_status_t status = engines(to_agent, from_agent, mask);
    if (status == HSA_STATUS_SUCCESS) {
        *mask = 0; // none: only links between GPUs have engines of their own
    }
    return status;
}

// The engine is a matter of speed alone, but it must be one.
hsa_status_t emu_copy_on_engine(void * to, hsa_agent_t to_agent, const void * from,
                                hsa_agent_t from_agent, size_t size, uint32_t n_deps,
                                const hsa_signal_t * deps, hsa_signal_t completion, uint32_t engine,
                                bool not_by_kernel) RT_NEWER(hsa_amd_memory_async_copy_on_engine);
hsa_status_t emu_copy_on_engine(void * to, hsa_agent_t to_agent, const void * from,
                                hsa_agent_t from_agent, size_t size, uint32_t n_deps,
                                const hsa_signal_t * deps, hsa_signal_t completion, uint32_t engine,
                                bool not_by_kernel) {
    (void) not_by_kernel; // none is
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    const struct rt_agent *a = rt_agent_find(to_agent), *b = rt_agent_find(from_agent);
    if (!a || !b) {
        return HSA_STATUS_ERROR_INVALID_AGENT;
    }
    uint32_t may = a == b ? (1u << RT_GPU_COPY_ENGINES) - 1 : engines_between(a, b);
    return engine & (engine - 1) || !(engine & may)
               ? HSA_STATUS_ERROR_INVALID_ARGUMENT
               : hsa_amd_memory_async_copy(to, to_agent, from, from_agent, size, n_deps, deps,
                                           completion);
}

// ---- rectangles ----

static bool corner(const hsa_pitched_ptr_t * p, const hsa_dim3_t * at, size_t * offset) {
    size_t planes, rows;
    return !__builtin_mul_overflow((size_t) at->z, p->slice, &planes) &&
           !__builtin_mul_overflow((size_t) at->y, p->pitch, &rows) &&
           !__builtin_add_overflow(planes, rows, offset) &&
           !__builtin_add_overflow(*offset, (size_t) at->x, offset);
}

hsa_status_t hsa_amd_memory_async_copy_rect(const hsa_pitched_ptr_t * to,
                                            const hsa_dim3_t * to_offset,
                                            const hsa_pitched_ptr_t * from,
                                            const hsa_dim3_t * from_offset,
                                            const hsa_dim3_t * range, hsa_agent_t agent,
                                            hsa_amd_copy_direction_t direction, uint32_t n_deps,
                                            const hsa_signal_t * deps, hsa_signal_t completion) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    struct rt_agent * a = rt_agent_find(agent);
    if (!a || !a->gpu) {
        return HSA_STATUS_ERROR_INVALID_AGENT;
    }
    size_t to_at, from_at;
    if (!to || !from || !to_offset || !from_offset || !range || (n_deps && !deps) ||
        direction == hsaHostToHost || !to->base || !from->base || !corner(to, to_offset, &to_at) ||
        !corner(from, from_offset, &from_at)) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    if (!range->x || !range->y || !range->z) {
        return HSA_STATUS_SUCCESS;
    }
    struct copy * c = copy_new(n_deps, deps);
    if (!c) {
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    c->to = (uint8_t *) ((uintptr_t) to->base + to_at);
    c->from = (const uint8_t *) ((uintptr_t) from->base + from_at);
    c->to_pitch = to->pitch;
    c->to_slice = to->slice;
    c->from_pitch = from->pitch;
    c->from_slice = from->slice;
    c->x = range->x;
    c->y = range->y;
    c->z = range->z;
    c->completion = completion;
    return copy_submit(rt, a, c, false);
}

hsa_status_t hsa_memory_copy(void * to, const void * from, size_t size) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!to || !from) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    void *a = known(rt, to, size), *b = known(rt, from, size);
    if (!may_be_any(rt, to, a) || !may_be_any(rt, from, b)) {
        return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    }
    memmove(a ? a : to, b ? b : from, size);
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_fill(void * ptr, uint32_t value, size_t count) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!ptr || (uintptr_t) ptr % sizeof value || count > SIZE_MAX / sizeof value) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    uint32_t * words = known(rt, ptr, count * sizeof value);
    if (!words) {
        return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    }
    for (size_t i = 0; i < count; i++) {
        words[i] = value;
    }
    return HSA_STATUS_SUCCESS;
}

// Times are taken always, so there is nothing to switch on.
hsa_status_t hsa_amd_profiling_async_copy_enable(bool enable) {
    (void) enable;
    return rt_runtime() ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_NOT_INITIALIZED;
}
