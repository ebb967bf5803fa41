// bell: see bell.h.
#include "emu/aql/bell.h"

bool bell_stopping(const struct bell * b) {
    return __atomic_load_n(&b->stop, __ATOMIC_ACQUIRE);
}

static void * main_of(void * data) {
    struct bell * b = data;
    uint64_t seen = 0;
    while (!bell_stopping(b)) {
        pthread_mutex_lock(&b->lock);
        while (b->rings == seen && !bell_stopping(b)) {
            pthread_cond_wait(&b->rung, &b->lock);
        }
        seen = b->rings;
        pthread_mutex_unlock(&b->lock);
        b->work(b->user);
    }
    return NULL;
}

bool bell_start(struct bell * b, void (*work)(void * user), void * user) {
    *b = (struct bell){.work = work, .user = user};
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->rung, NULL);
    if (pthread_create(&b->thread, NULL, main_of, b) == 0) {
        return true;
    }
    pthread_cond_destroy(&b->rung);
    pthread_mutex_destroy(&b->lock);
    return false;
}

void bell_ring(struct bell * b) {
    pthread_mutex_lock(&b->lock);
    b->rings++;
    pthread_cond_signal(&b->rung);
    pthread_mutex_unlock(&b->lock);
}

bool bell_stop(struct bell * b) {
    pthread_mutex_lock(&b->lock);
    __atomic_store_n(&b->stop, true, __ATOMIC_RELEASE);
    pthread_cond_signal(&b->rung);
    pthread_mutex_unlock(&b->lock);
    return !pthread_equal(pthread_self(), b->thread);
}

void bell_join(struct bell * b) {
    pthread_join(b->thread, NULL);
    pthread_cond_destroy(&b->rung);
    pthread_mutex_destroy(&b->lock);
}
