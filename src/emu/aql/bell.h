// bell: a thread that looks after a ring when it is rung. Rings that come while it works are not
// lost: it looks once more.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct bell {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t rung;
    uint64_t rings; // under lock
    bool stop;      // atomic
    void (*work)(void * user);
    void * user;
};

bool bell_start(struct bell * b, void (*work)(void * user), void * user); // false: no thread
void bell_ring(struct bell * b);
bool bell_stopping(const struct bell * b); // for work that takes long
// Says that it is to stop; false when the caller is the thread itself, which cannot be waited for.
bool bell_stop(struct bell * b);
void bell_join(struct bell * b);
