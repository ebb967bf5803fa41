// fork: a child that was forked has the memory of its parent but none of its threads, and ROCr, the
// driver and the emulated runtime all live by theirs: what is sent from there is never done, and
// what is closed there waits for threads that are not there. Nor does anybody give back the locks
// that threads of the parent had at the moment of the fork. So every function of the client asks
// here before it takes a lock; a forked child gets that error, and closes nothing.
#include "hsac-impl.h"

#include <pthread.h>

static uint32_t forks; // that lead to this process

static void in_child(void) {
    __atomic_fetch_add(&forks, 1, __ATOMIC_RELAXED);
}

static void watch_forks(void) {
    pthread_atfork(NULL, NULL, in_child);
}

uint32_t hsac_forks(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    return __atomic_load_n(&forks, __ATOMIC_RELAXED);
}

bool hsac_forked(const struct hsac * h) {
    return h->forks != hsac_forks();
}

enum status hsac_check_fork(const struct hsac_agent * a, struct error * err) {
    return hsac_forked(a->h)
               ? error_set(err, ST_DEVICE,
                           "%s: this process was forked after the device was opened, and devices "
                           "do not follow there; open it in the child, or start a new program",
                           a->name)
               : ST_OK;
}
