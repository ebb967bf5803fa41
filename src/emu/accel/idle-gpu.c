// idle-gpu: a GPU that is there and does nothing. ROCr does not start without one, even where only
// the NPU is wanted; its libhsakmt loads this file when HSA_MODEL_LIB names it, instead of asking
// the kernel, and calls the functions of the table below. Nothing is ever sent to this GPU.
#include "start.h"

#include <stdint.h>
#include <stdlib.h>

struct model; // the runtime's words for what create and register_queue return
struct queue;

__attribute__((constructor)) static void begin(void) {
    if (accel_start_hold) {
        accel_start_hold();
    }
}

static struct model * create(void) {
    if (accel_start_release) {
        accel_start_release();
    }
    return malloc(1);
}

static void destroy(struct model * m) {
    free(m);
}

static void aperture(struct model * m, void * base, uint64_t size) {
    (void) m;
    (void) base;
    (void) size;
}

static void allocated(struct model * m, void * base, uint64_t size, uint32_t flags) {
    (void) flags;
    aperture(m, base, size);
}

static void on_event(struct model * m, void (*callback)(void *), void * data) {
    (void) m;
    (void) callback;
    (void) data;
}

static void on_wait(struct model * m, void (*callback)(void *, uint64_t, uint64_t), void * data) {
    (void) m;
    (void) callback;
    (void) data;
}

static struct queue * register_queue(struct model * m, void * info) {
    (void) m;
    (void) info;
    return malloc(1);
}

static void on_set(struct model * m, void (*set)(void *, unsigned), void * data) {
    (void) m;
    (void) set;
    (void) data;
}

static void destroy_queue(struct model * m, struct queue * q) {
    (void) m;
    free(q);
}

struct functions { // version 0.4 of the interface
    uint32_t major, minor;
    struct model * (*create)(void);
    void (*destroy)(struct model *);
    void (*set_global_aperture)(struct model *, void *, uint64_t);
    void (*allocated_memory)(struct model *, void *, uint64_t, uint32_t);
    void (*freed_memory)(struct model *, void *, uint64_t);
    void (*set_notify_event)(struct model *, void (*)(void *), void *);
    void (*set_wait_event)(struct model *, void (*)(void *, uint64_t, uint64_t), void *);
    struct queue * (*register_queue)(struct model *, void *);
    void (*set_set_event)(struct model *, void (*)(void *, unsigned), void *);
    void (*destroy_queue)(struct model *, struct queue *);
};

const struct functions * get_hsakmt_model_functions(void);

__attribute__((visibility("default"))) const struct functions * get_hsakmt_model_functions(void) {
    static const struct functions functions = {
        0,        4,        create,  destroy,        aperture, allocated,
        aperture, on_event, on_wait, register_queue, on_set,   destroy_queue,
    };
    return &functions;
}
