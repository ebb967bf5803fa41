// worker: a thread that runs tasks when they are ready, in the order in which they came. Handlers
// of signals and copies that wait for signals are such tasks.
//
// Kept true: a task is in the list or in the hands of the thread, never both; so run() may take
// long, wait for other workers, and add tasks.
#include "runtime.h"

static bool stopping(const struct rt_worker * w) {
    return __atomic_load_n(&w->stop, __ATOMIC_ACQUIRE);
}

// The caller holds the lock.
static struct rt_task ** find_ready(struct rt_worker * w) {
    struct rt_task ** link = &w->first;
    while (*link && !(*link)->ready(w->rt, *link)) {
        link = &(*link)->next;
    }
    return link;
}

static void append(struct rt_worker * w, struct rt_task * task) {
    task->next = NULL;
    *w->last = task;
    w->last = &task->next;
}

static struct rt_task * take_ready(struct rt_worker * w) {
    pthread_mutex_lock(&w->lock);
    struct rt_task ** link = find_ready(w);
    struct rt_task * task = *link;
    if (task) {
        *link = task->next;
        if (!*link) {
            w->last = link;
        }
    }
    pthread_mutex_unlock(&w->lock);
    return task;
}

static bool something_ready(void * user) {
    struct rt_worker * w = user;
    pthread_mutex_lock(&w->lock);
    bool ready = !w->first || *find_ready(w);
    pthread_mutex_unlock(&w->lock);
    return ready || stopping(w);
}

static void * work(void * data) {
    struct rt_worker * w = data;
    while (!stopping(w)) {
        pthread_mutex_lock(&w->lock);
        while (!w->first && !stopping(w)) {
            pthread_cond_wait(&w->changed, &w->lock);
        }
        pthread_mutex_unlock(&w->lock);
        rt_signals_sleep(something_ready, w);
        struct rt_task * task = stopping(w) ? NULL : take_ready(w);
        if (!task) {
            continue;
        }
        if (task->run(w->rt, task)) {
            pthread_mutex_lock(&w->lock);
            append(w, task);
            pthread_mutex_unlock(&w->lock);
        } else {
            task->drop(task);
        }
    }
    return NULL;
}

bool rt_worker_init(struct rt_worker * w, struct rt_runtime * rt) {
    w->rt = rt;
    w->last = &w->first;
    return pthread_mutex_init(&w->lock, NULL) == 0 && pthread_cond_init(&w->changed, NULL) == 0;
}

bool rt_worker_add(struct rt_worker * w, struct rt_task * task) {
    pthread_mutex_lock(&w->lock);
    if (!w->running) {
        w->running = pthread_create(&w->thread, NULL, work, w) == 0;
    }
    bool ok = w->running;
    if (ok) {
        append(w, task);
        pthread_cond_signal(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    rt_signals_wake(); // it may be asleep over the tasks that were there before
    return ok;
}

void rt_worker_release(struct rt_worker * w) {
    pthread_mutex_lock(&w->lock);
    __atomic_store_n(&w->stop, true, __ATOMIC_RELEASE);
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    rt_signals_wake();
    if (w->running) {
        pthread_join(w->thread, NULL);
    }
    while (w->first) {
        struct rt_task * task = w->first;
        w->first = task->next;
        task->drop(task);
    }
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
}
