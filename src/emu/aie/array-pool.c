// array-pool: cores run ahead on several host threads. A core meets others (locks, streams, the
// cascade) on the array's thread only, at the array's time and in a fixed order. What it does until
// its next meeting touches nothing but itself and memory that locks keep for it, so that it may
// happen at any moment until then and beside anything else.
//
// Kept true:
// - the array never passes a cycle in which a core that runs ahead might want to meet: each says
//   from time to time how far it came without (bound: it may want to meet in that very cycle), and
//   array_cores_due and array_cores_here wait for that.
// - what they answer does not depend on who ran what and when: results, cycles and
//   counts are the same for any number of threads. A design that touches memory without a lock gets
//   what was there at some moment, as on hardware; with one thread always the same.
// - the array's thread is one of the threads: where it would wait it takes work, and with one
//   thread there is no pool. Threads that find nothing to do sleep.
// - a child process that inherits a pool without its threads makes its own.
#include "emu/aie/array-model.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    POOL_MAX = 8,    // threads, the array's included
    SLICE = 256,     // cycles after which a core says how far it came
    SPIN_WORK = 200, // looks for work before going to sleep, some 10 us
    SPIN_WAIT = 100, // the same for the array's thread, which others wait for
};

enum stage { STAGE_NONE, STAGE_QUEUED, STAGE_TAKEN, STAGE_DONE };

struct pool {
    pid_t pid; // whose threads these are
    int n_threads;
    pthread_t threads[POOL_MAX];
    pthread_mutex_t lock; // of all below but the atomics; a core's stage changes under it
    pthread_cond_t work, progress;
    struct core_ahead * first; // that nobody has taken yet
    atomic_int queued;
    int asleep;       // threads that wait for work
    bool array_waits; // for progress
    bool stop;
};

// ---- settings ----

static int host_threads(void) {
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < POOL_MAX ? n : POOL_MAX;
}

enum status array_pool_setting(const struct emu_config * config, int * threads,
                               struct error * err) {
    const char * text = getenv("GGML_HSA_EMU_THREADS");
    int cores = config->columns * (ARRAY_ROWS - ARRAY_FIRST_CORE_ROW);
    long n = config->threads;
    if (n == 0 && text && *text) {
        char * end;
        n = strtol(text, &end, 10);
        if (*end || n < 1 || n > POOL_MAX) {
            return error_set(err, ST_INVALID,
                             "GGML_HSA_EMU_THREADS=%s: say how many host threads the cores of an "
                             "array may use, 1 to %d",
                             text, POOL_MAX);
        }
    }
    n = n > 0 ? n : host_threads();
    n = n < POOL_MAX ? n : POOL_MAX;
    n = n < cores ? n : cores;
    *threads = config->trace ? 1 : (int) n; // lines of a trace come in order
    return ST_OK;
}

// ---- running ahead ----

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static uint64_t bound_of(struct core_ahead * k) {
    return atomic_load(&k->bound);
}

static bool is_done(struct core_ahead * k) {
    return atomic_load(&k->stage) == STAGE_DONE;
}

static void tell_array(struct pool * p) {
    pthread_mutex_lock(&p->lock);
    if (p->array_waits) {
        pthread_cond_signal(&p->progress);
    }
    pthread_mutex_unlock(&p->lock);
}

// Returns whether it is over; if not, it came to `until`.
static bool run(struct pool * p, struct core_ahead * k, uint64_t until) {
    uint64_t now = core_now(k->core);
    for (;;) {
        uint64_t end = now + SLICE < k->limit ? now + SLICE : k->limit;
        enum core_state state = core_run_on(k->core, k->from, end, k->limit);
        now = core_now(k->core);
        if (state != CORE_READY || now <= end || now > k->limit) {
            break; // stopped, at its next meeting, or as far as it may go
        }
        atomic_store(&k->bound, now);
        if (now >= until) {
            return false;
        }
        if (now >= atomic_load(&k->awaited)) {
            tell_array(p);
        }
    }
    atomic_store(&k->stage, STAGE_DONE);
    return true;
}

// Under the lock: into the line, which is in no order.
static void queue(struct pool * p, struct core_ahead * k) {
    atomic_store(&k->stage, STAGE_QUEUED);
    k->next = p->first;
    p->first = k;
    atomic_fetch_add(&p->queued, 1);
    if (p->asleep) {
        pthread_cond_signal(&p->work);
    }
}

// Under the lock: the one that is furthest behind, for the array waits for it first; or NULL.
static struct core_ahead * take(struct pool * p) {
    struct core_ahead ** best = &p->first;
    for (struct core_ahead ** at = &p->first; *at; at = &(*at)->next) {
        best = bound_of(*at) < bound_of(*best) ? at : best; // nobody moves them meanwhile
    }
    struct core_ahead * k = *best;
    if (k) {
        *best = k->next;
        atomic_store(&k->stage, STAGE_TAKEN);
        atomic_fetch_sub(&p->queued, 1);
    }
    return k;
}

static void * worker(void * argument) {
    struct pool * p = argument;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        struct core_ahead * k = take(p);
        if (k) {
            pthread_mutex_unlock(&p->lock);
            run(p, k, NEVER);
            tell_array(p);
            for (int i = 0; i < SPIN_WORK && atomic_load(&p->queued) == 0; i++) {
                relax();
            }
            pthread_mutex_lock(&p->lock);
        } else {
            p->asleep++;
            pthread_cond_wait(&p->work, &p->lock);
            p->asleep--;
        }
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

// ---- life ----

static void release(struct pool * p) {
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->progress);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

// Signals are for the threads of the program.
static void start(struct pool * p, int n) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (p->n_threads < n && pthread_create(&p->threads[p->n_threads], NULL, worker, p) == 0) {
        p->n_threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

// The pool, or NULL where the array's thread is alone.
static struct pool * pool_of(struct array * a) {
    if (!a->pool && a->threads > 1) {
        struct pool * p = calloc(1, sizeof(*p));
        if (p) {
            p->pid = getpid();
            pthread_mutex_init(&p->lock, NULL);
            pthread_cond_init(&p->work, NULL);
            pthread_cond_init(&p->progress, NULL);
            start(p, a->threads - 1);
        }
        if (p && p->n_threads == 0) {
            release(p);
            p = NULL;
        }
        a->pool = p;
        a->threads = p ? a->threads : 1;
    }
    return a->pool;
}

void array_pool_begin(struct array * a) {
    if (a->pool && a->pool->pid != getpid()) {
        a->pool = NULL; // the parent's: its locks may be held by threads that are not here
        a->ahead = 0;
        a->horizon = NEVER;
    }
}

void array_pool_free(struct array * a) {
    struct pool * p = a->pool;
    a->pool = NULL;
    if (!p || p->pid != getpid()) {
        return;
    }
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->n_threads; i++) {
        pthread_join(p->threads[i], NULL);
    }
    release(p);
}

// ---- the array's side ----

static uint64_t bit_of(const struct tile * t) {
    return UINT64_C(1) << (t->col * ARRAY_ROWS + t->row);
}
_Static_assert(ARRAY_MAX_COLUMNS * ARRAY_ROWS <= 64, "a bit for each tile");

bool array_pool_add(struct tile * t, uint64_t limit) {
    struct array * a = t->array;
    struct pool * p = pool_of(a);
    struct core_ahead * k = &t->ahead;
    if (!p) {
        return false;
    }
    k->core = t->core;
    k->from = a->now;
    k->limit = limit;
    atomic_store(&k->bound, core_now(t->core));
    atomic_store(&k->awaited, NEVER);
    a->ahead |= bit_of(t);
    a->horizon = core_now(t->core) < a->horizon ? core_now(t->core) : a->horizon;
    pthread_mutex_lock(&p->lock);
    queue(p, k);
    pthread_mutex_unlock(&p->lock);
    return true;
}

// Until k is over or has come to cycle t, or something else was done meanwhile. The array's thread
// goes no further with a core than it must: the rest is for the others, while it goes on itself.
static void wait_for(struct pool * p, struct core_ahead * k, uint64_t t) {
    pthread_mutex_lock(&p->lock);
    struct core_ahead * mine = take(p);
    pthread_mutex_unlock(&p->lock);
    if (mine) {
        if (!run(p, mine, mine == k ? t : bound_of(mine) + SLICE)) {
            pthread_mutex_lock(&p->lock);
            queue(p, mine);
            pthread_mutex_unlock(&p->lock);
        }
        return;
    }
    for (int i = 0; i < SPIN_WAIT; i++) {
        if (is_done(k) || bound_of(k) >= t) {
            return;
        }
        relax();
    }
    pthread_mutex_lock(&p->lock);
    p->array_waits = true;
    atomic_store(&k->awaited, t);
    while (!is_done(k) && bound_of(k) < t) {
        pthread_cond_wait(&p->progress, &p->lock);
    }
    atomic_store(&k->awaited, NEVER);
    p->array_waits = false;
    pthread_mutex_unlock(&p->lock);
}

// Takes back the cores that are over and finds how far the others are; returns the last of them.
static struct core_ahead * look(struct array * a) {
    struct core_ahead * last = NULL;
    a->horizon = NEVER;
    for (uint64_t left = a->ahead; left; left &= left - 1) {
        struct tile * t = &a->tiles[__builtin_ctzll(left)];
        uint64_t bound = bound_of(&t->ahead); // once: it moves on while we look
        if (is_done(&t->ahead)) {
            a->ahead &= ~bit_of(t);
            tile_core_came(t);
        } else if (bound < a->horizon) {
            a->horizon = bound;
            last = &t->ahead;
        }
    }
    return last;
}

uint64_t array_cores_due(struct array * a, uint64_t until) {
    uint64_t due = a->next_core < until ? a->next_core : until;
    while (a->horizon < due) {
        struct core_ahead * last = look(a);
        due = a->next_core < until ? a->next_core : until;
        if (a->horizon < due) {
            wait_for(a->pool, last, due);
        }
    }
    return due;
}

bool array_cores_here(struct array * a) {
    while (a->horizon <= a->now) {
        struct core_ahead * last = look(a);
        if (a->horizon <= a->now) {
            wait_for(a->pool, last, a->now + 1);
        }
    }
    return a->next_core <= a->now;
}

void array_cores_join(struct array * a) {
    struct core_ahead * last;
    while (a->ahead && (last = look(a)) != NULL) {
        wait_for(a->pool, last, NEVER);
    }
}
