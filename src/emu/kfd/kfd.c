// kfd: the functions that ROCr calls, and where a GPU and its queues begin and end.
#include "emu/kfd/kfd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_QUEUES = 128 };

// ROCr numbers the queues of a process and does not pass the numbers on; they are counted here in
// the same way.
static struct {
    pthread_mutex_t lock;
    bool taken[MAX_QUEUES];
} numbers = {.lock = PTHREAD_MUTEX_INITIALIZER};

void kfd_say(const char * fmt, ...) {
    char line[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    fprintf(stderr, "kfd-emu: %s\n", line);
}

uint64_t kfd_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

uint64_t kfd_ticks(void) {
    return kfd_now_ns() / 10;
}

static struct kfd_gpu * create(void) {
    struct error err = {0};
    const char * dir = secure_getenv("HSA_MODEL_TOPOLOGY");
    struct kfd_gpu * gpu = calloc(1, sizeof *gpu);
    enum status st = gpu ? kfd_topology_gpu(dir ? dir : "", &gpu->model, &err)
                         : error_set(&err, ST_NO_MEMORY, "no memory for a GPU");
    if (st != ST_OK) {
        kfd_say("%s", err.text);
        free(gpu);
        return NULL;
    }
    gpu->strict = env_flag("GGML_HSA_EMU_STRICT", false);
    pthread_mutex_init(&gpu->lock, NULL);
    pthread_cond_init(&gpu->has_queue, NULL);
    kfd_memory_init(&gpu->memory);
    return gpu;
}

static void destroy(struct kfd_gpu * gpu) {
    (void) gpu; // ROCr 7.2 never calls this; its threads still read doorbells
}

static void set_aperture(struct kfd_gpu * gpu, void * base, uint64_t size) {
    gpu->memory.aperture = base;
    gpu->memory.aperture_bytes = size;
}

static void allocated(struct kfd_gpu * gpu, void * address, uint64_t size, uint32_t flags) {
    kfd_memory_add(&gpu->memory, (uint64_t) (uintptr_t) address, size, flags);
}

static void freed(struct kfd_gpu * gpu, void * address, uint64_t size) {
    (void) size;
    kfd_memory_remove(&gpu->memory, (uint64_t) (uintptr_t) address);
}

static void set_notify(struct kfd_gpu * gpu, void (*call)(void *), void * data) {
    (void) gpu, (void) call, (void) data; // deprecated, and not called
}

static void set_wait(struct kfd_gpu * gpu, void (*call)(void *, uint64_t, uint64_t), void * data) {
    (void) gpu, (void) call, (void) data; // not called either
}

static void set_set_event(struct kfd_gpu * gpu, void (*set)(void *, unsigned), void * data) {
    gpu->set_event = set;
    gpu->event_data = data;
}

static int take_slot(void) {
    int slot = 0;
    pthread_mutex_lock(&numbers.lock);
    while (slot < MAX_QUEUES && numbers.taken[slot]) {
        slot++;
    }
    if (slot < MAX_QUEUES) {
        numbers.taken[slot] = true;
    }
    pthread_mutex_unlock(&numbers.lock);
    return slot;
}

static void give_slot(uint32_t slot) {
    pthread_mutex_lock(&numbers.lock);
    numbers.taken[slot] = false;
    pthread_mutex_unlock(&numbers.lock);
}

// Without a queue ROCr goes on as if there were one, which nobody then serves; so the reason is
// told.
static struct kfd_queue * add_queue(struct kfd_gpu * gpu, struct kfd_queue_info * info) {
    struct error err = {0};
    int slot = take_slot();
    pthread_mutex_lock(&gpu->lock);
    struct kfd_queue * q = NULL;
    if (slot < MAX_QUEUES && kfd_doorbells_start(gpu)) {
        kfd_doorbell_reset(gpu, (uint32_t) slot);
        q = kfd_queue_new(gpu, info, (uint32_t) slot, &err);
    } else {
        error_set(&err, ST_NO_MEMORY, "more than %d queues, or no thread", MAX_QUEUES);
    }
    if (q) {
        q->next = gpu->queues;
        gpu->queues = q;
        pthread_cond_signal(&gpu->has_queue);
    }
    pthread_mutex_unlock(&gpu->lock);
    if (!q) {
        kfd_say("%s: %s", gfx_arch_name(gpu->model->arch), err.text);
        if (slot < MAX_QUEUES) {
            give_slot((uint32_t) slot);
        }
    }
    return q;
}

static void remove_queue(struct kfd_gpu * gpu, struct kfd_queue * q) {
    pthread_mutex_lock(&gpu->lock);
    struct kfd_queue ** link = &gpu->queues;
    while (*link && *link != q) {
        link = &(*link)->next;
    }
    bool ours = *link;
    if (ours) {
        *link = q->next;
    }
    pthread_mutex_unlock(&gpu->lock);
    if (ours) {
        uint32_t slot = q->slot;
        kfd_queue_free(q);
        give_slot(slot);
        kfd_rocr_rest(); // its signals and events go next
    }
}

static const struct kfd_functions functions = {
    .major = 0,
    .minor = 4,
    .create = create,
    .destroy = destroy,
    .set_aperture = set_aperture,
    .allocated = allocated,
    .freed = freed,
    .set_notify = set_notify,
    .set_wait = set_wait,
    .add_queue = add_queue,
    .set_set_event = set_set_event,
    .remove_queue = remove_queue,
};

__attribute__((visibility("default"))) const struct kfd_functions *
get_hsakmt_model_functions(void);

const struct kfd_functions * get_hsakmt_model_functions(void) {
    return &functions;
}
