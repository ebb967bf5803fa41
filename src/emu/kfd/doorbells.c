// doorbells: the thread that sees doorbells ring. They are words of a page that ROCr writes to like
// any other memory; the number of a queue in it follows from the order in which queues come and go,
// which is the same on both sides: the lowest that is free, counted over all GPUs.
//
// Kept true: a ring is seen once and none is lost: the word is exchanged for one that nobody
// writes. Packets that nobody rang for are not looked at.
//
// Beside that it says events again: ROCr's model wakes waiters without its lock, so one that is
// just about to sleep can miss it, and would sleep for good.
#include "emu/kfd/kfd.h"

#include <sys/mman.h>
#include <time.h>

enum {
    DOORBELL_BYTES = 8192,
    SHORT_PAUSE_NS = 20 * 1000,
    LONG_PAUSE_NS = 1000 * 1000,
    REPEATS = 3,
    FIRST_REPEAT_NS = 300 * 1000, // and each one four times later
    ASK_NS = 2 * 1000 * 1000,
};

static const uint64_t not_rung = UINT64_C(1) << 63;

void kfd_event(struct kfd_queue * q, unsigned event) {
    if (!event) {
        return; // nobody waits for that signal but by looking at it
    }
    q->gpu->set_event(q->gpu->event_data, event);
    pthread_mutex_lock(&q->gpu->lock);
    q->event = event;
    q->repeats = REPEATS;
    q->repeat_at = kfd_now_ns() + FIRST_REPEAT_NS;
    pthread_mutex_unlock(&q->gpu->lock);
}

// The page is mapped behind the first queue's back. A view of our own outlives ROCr's, so that
// nothing is pulled away under the thread; a view of what is not mapped yet cannot be had.
static bool find_page(struct kfd_gpu * gpu) {
    struct kfd_memory * m = &gpu->memory;
    pthread_rwlock_rdlock(&m->lock);
    uint64_t address = m->doorbells;
    pthread_rwlock_unlock(&m->lock);
    void * view =
        address ? mremap(m->aperture + address, 0, DOORBELL_BYTES, MREMAP_MAYMOVE) : MAP_FAILED;
    if (view == MAP_FAILED) {
        return false;
    }
    gpu->doorbells = view;
    return true;
}

// The lock is held. True: something rang.
static bool look(struct kfd_gpu * gpu, uint64_t now) {
    bool found = !gpu->doorbells && find_page(gpu), any = found;
    for (struct kfd_queue * q = gpu->queues; q && gpu->doorbells; q = q->next) {
        uint64_t * bell = &gpu->doorbells[q->slot];
        bool rung = __atomic_load_n(bell, __ATOMIC_RELAXED) != not_rung &&
                    __atomic_exchange_n(bell, not_rung, __ATOMIC_ACQ_REL) != not_rung;
        if (rung || found) { // 0 may mean packet 0, or that nothing happened yet
            kfd_queue_ring(q);
            any = true;
        }
        if (q->repeats && now >= q->repeat_at) {
            gpu->set_event(gpu->event_data, q->event);
            q->repeats--;
            q->repeat_at = now + (UINT64_C(4) * FIRST_REPEAT_NS << 2 * (REPEATS - 1 - q->repeats));
        }
        if (now >= q->ask_at) {
            unsigned event = kfd_queue_unanswered(q);
            if (event) {
                gpu->set_event(gpu->event_data, event);
            }
            q->ask_at = now + ASK_NS;
        }
    }
    return any;
}

static void * watch(void * data) {
    struct kfd_gpu * gpu = data;
    long pause = SHORT_PAUSE_NS;
    for (;;) {
        pthread_mutex_lock(&gpu->lock);
        while (!gpu->queues) {
            pthread_cond_wait(&gpu->has_queue, &gpu->lock);
        }
        uint64_t now = kfd_now_ns();
        bool any = look(gpu, now);
        pthread_mutex_unlock(&gpu->lock);
        pause = any ? SHORT_PAUSE_NS : pause + pause / 32;
        pause = pause < LONG_PAUSE_NS ? pause : LONG_PAUSE_NS;
        nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
    }
    return NULL;
}

bool kfd_doorbells_start(struct kfd_gpu * gpu) {
    if (!gpu->has_thread) {
        pthread_t thread; // lives as long as the process: ROCr never gives a model back
        gpu->has_thread = pthread_create(&thread, NULL, watch, gpu) == 0;
    }
    return gpu->has_thread;
}

void kfd_doorbell_reset(struct kfd_gpu * gpu, uint32_t slot) {
    if (gpu->doorbells) {
        __atomic_store_n(&gpu->doorbells[slot], not_rung, __ATOMIC_RELEASE);
    }
}
