// gen-kernels-run: threads over a list, and a bar that says how far they are.
#include "gen-kernels.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 256

struct run {
    atomic_int next;
    int n;
    const atomic_bool * stop;
    void (*work)(void * user, int i);
    void * user;
};

static void * run_thread(void * user) {
    struct run * r = user;
    for (int i; !atomic_load(r->stop) && (i = atomic_fetch_add(&r->next, 1)) < r->n;) {
        r->work(r->user, i);
    }
    return NULL;
}

void run_parallel(int threads, int n, const atomic_bool * stop, void (*work)(void * user, int i),
                  void * user) {
    struct run r = {.n = n, .stop = stop, .work = work, .user = user};
    pthread_t ids[MAX_THREADS];
    int started = 0, wanted = threads < n ? threads : n;
    // This thread works too, so that fewer threads than wanted, or none, still do it all.
    while (started < wanted - 1 && started < MAX_THREADS &&
           pthread_create(&ids[started], NULL, run_thread, &r) == 0) {
        started++;
    }
    run_thread(&r);
    for (int i = 0; i < started; i++) {
        pthread_join(ids[i], NULL);
    }
}

double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

// ---- progress ----

static void draw(const struct progress * p, int done) {
    enum { WIDTH = 40 };
    int filled = p->total ? (int) ((long long) WIDTH * done / p->total) : WIDTH;
    char bar[WIDTH + 1];
    for (int i = 0; i < WIDTH; i++) {
        bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
    }
    bar[WIDTH] = '\0';
    fprintf(stderr, "\r[%s] %d/%d", bar, done, p->total);
    fflush(stderr);
}

void progress_begin(struct progress * p, int total) {
    *p = (struct progress){.total = total, .on = isatty(STDERR_FILENO)};
    if (p->on) {
        draw(p, 0);
    }
}

void progress_step(struct progress * p) {
    int done = atomic_fetch_add(&p->done, 1) + 1;
    if (!p->on) {
        return;
    }
    long long now = (long long) (seconds_now() * 1000), before = atomic_load(&p->shown_ms);
    // 25 times a second; who loses the exchange leaves the drawing to the winner.
    if (now - before >= 40 && atomic_compare_exchange_strong(&p->shown_ms, &before, now)) {
        draw(p, done);
    }
}

void progress_end(struct progress * p) {
    if (p->on) {
        fprintf(stderr, "\r%60s\r", "");
        fflush(stderr);
    }
}
