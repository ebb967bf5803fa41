// gfx: the front door: a dispatch is checked, its kernel descriptor read, and its work-groups
// handed to the workers, which take the next one from a common counter until none is left. A worker
// whose groups all wait takes one more, as long as the card would hold it: so groups that wait for
// each other meet, however few host threads there are.
//
// Kept true: one dispatch at a time (g->run); what a dispatch says is constant while workers are at
// it. Threads are started with the first dispatch that has more than one group, and sleep between.
#include "emu/gfx/impl.h"
#include "emu/gfx/models.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const struct {
    const char * name;
    gfx_decode_fn decode;
} archs[] = {
    [GFX_90A] = {"gfx90a", gfx9_decode},
    [GFX_942] = {"gfx942", gfx9_decode},
    [GFX_1100] = {"gfx1100", gfx11_decode},
    [GFX_1151] = {"gfx1151", gfx11_decode},
};

const char * gfx_arch_name(enum gfx_arch arch) {
    return archs[arch].name;
}

enum { MAX_THREADS = 64, MAX_PRIVATE = 64 << 10 };

static const uint64_t default_budget = UINT64_C(1) << 31;

// ---- life ----

static struct gfx_worker * worker_new(struct gfx * g) {
    struct gfx_worker * k = aligned_alloc(64, (sizeof *k + 63) & ~(size_t) 63);
    if (k) {
        memset(k, 0, sizeof *k);
        k->gpu = g;
        k->t.exec_of = 0; // its row is all zeros, as that says
    }
    return k;
}

static void worker_free(struct gfx_worker * k) {
    if (k) {
        gfx_code_forget(k);
        gfx_group_free(k->spare);
        free(k);
    }
}

static int resident_waves(enum gfx_arch arch) {
    const char * name = gfx_arch_name(arch);
    const struct emu_gpu_model * m = emu_gpu_model(name, strlen(name));
    return m ? (int) (m->compute_units * m->waves_per_cu) : MAX_WAVES;
}

enum status gfx_new(const struct gfx_config * config, struct gfx ** gpu, struct error * err) {
    *gpu = NULL;
    if ((unsigned) config->arch > GFX_1151 || !config->resolve) {
        return error_set(err, ST_INVALID, "gfx: no such GPU, or no way to resolve addresses");
    }
    struct gfx * g = calloc(1, sizeof *g);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int n = config->threads > 0 ? config->threads : cores > 0 ? (int) cores : 1;
    n = n > MAX_THREADS ? MAX_THREADS : n;
    if (g) {
        g->workers = calloc((size_t) n, sizeof *g->workers);
        g->config = *config;
        g->decode = archs[config->arch].decode;
        g->n_threads = n;
        g->max_resident = resident_waves(config->arch);
        if (!g->config.wave_budget) {
            g->config.wave_budget = default_budget;
        }
        pthread_mutex_init(&g->run, NULL);
        pthread_mutex_init(&g->lock, NULL);
        pthread_cond_init(&g->wake, NULL);
        pthread_cond_init(&g->done, NULL);
        if (g->workers) {
            g->workers[0] = worker_new(g);
        }
        if (!g->workers || !g->workers[0]) {
            gfx_free(g);
            g = NULL;
        }
    }
    *gpu = g;
    return g ? ST_OK : error_set(err, ST_NO_MEMORY, "gfx: no memory for a GPU");
}

void gfx_free(struct gfx * g) {
    if (!g) {
        return;
    }
    pthread_mutex_lock(&g->lock);
    g->stop = true;
    pthread_cond_broadcast(&g->wake);
    pthread_mutex_unlock(&g->lock);
    for (int i = 1; i <= g->n_started; i++) {
        pthread_join(g->workers[i]->thread, NULL);
    }
    for (int i = 0; g->workers && i < g->n_threads; i++) {
        worker_free(g->workers[i]);
    }
    pthread_cond_destroy(&g->wake);
    pthread_cond_destroy(&g->done);
    pthread_mutex_destroy(&g->lock);
    pthread_mutex_destroy(&g->run);
    free(g->workers);
    free(g);
}

void gfx_counters_get(const struct gfx * g, struct gfx_counters * c) {
    struct gfx * m = (struct gfx *) (uintptr_t) g; // C11 atomics load from non-const only
    c->dispatches = atomic_load(&m->dispatches);
    c->waves = atomic_load(&m->waves);
    c->instructions = atomic_load(&m->instructions);
    for (int i = 0; i < GFX_KINDS; i++) {
        c->kinds[i] = atomic_load(&m->kinds[i]);
        c->bytes[i] = atomic_load(&m->bytes[i]);
    }
    pthread_mutex_lock(&m->lock);
    c->lanes = m->last_lanes;
    c->vgprs = m->last_vgprs;
    pthread_mutex_unlock(&m->lock);
}

// ---- work ----

// Puts a group away that has ended or will not run any more.
static void put_away(struct gfx_worker * k, struct gfx_group * group) {
    atomic_fetch_sub(&k->gpu->resident, group->n_waves);
    group->next = k->spare;
    k->spare = group;
}

// Begins the next group, in front of those that wait; false: there is none, or no room for it.
static bool take_group(struct gfx_worker * k) {
    struct gfx * g = k->gpu;
    if (atomic_load(&g->next_group) >= g->total_groups ||
        (k->ring && atomic_load(&g->resident) >= g->max_resident)) {
        return false;
    }
    struct gfx_group * group = gfx_group_new(k);
    if (!group) {
        if (!k->ring) {
            k->failed = true;
            error_set(&k->error, ST_NO_MEMORY, "no memory for the waves of a work-group");
            atomic_store(&g->failed, true);
        }
        return false;
    }
    uint64_t index = atomic_fetch_add(&g->next_group, 1);
    if (index >= g->total_groups) {
        group->next = k->spare;
        k->spare = group;
        return false;
    }
    gfx_group_start(k, group, g->config.strict ? g->total_groups - 1 - index : index);
    atomic_fetch_add(&g->resident, group->n_waves);
    group->next = k->ring;
    k->ring = group;
    return true;
}

// Each group of the ring has its turn; false: all of them wait.
static bool turn_ring(struct gfx_worker * k) {
    bool ended = false;
    for (struct gfx_group ** at = &k->ring; *at;) {
        struct gfx_group * group = *at;
        enum gfx_turn turn = gfx_group_turn(k, group);
        if (turn == TURN_FAILED) {
            atomic_store(&k->gpu->failed, true);
            break;
        }
        if (turn == TURN_ENDED) {
            ended = true;
            *at = group->next;
            put_away(k, group);
        } else {
            at = &group->next;
        }
    }
    return ended;
}

// Every group waits, for those of other workers or for the host: they have the processor first.
static void rest(int rounds) {
    static const struct timespec while_ = {0, 20000};
    if (rounds < 64) {
        sched_yield();
    } else {
        nanosleep(&while_, NULL);
    }
}

static void work(struct gfx_worker * k) {
    struct gfx * g = k->gpu;
    k->failed = false;
    k->instructions = k->n_waves_run = 0;
    memset(k->kinds, 0, sizeof k->kinds);
    memset(k->bytes, 0, sizeof k->bytes);
    gfx_tlb_clear(k);
    int resting = 0;
    bool ended = true;
    while (!atomic_load_explicit(&g->failed, memory_order_relaxed)) {
        bool took = (!k->ring || !ended) && take_group(k);
        if (!k->ring) {
            break;
        }
        resting = ended || took ? 0 : resting + 1;
        if (resting > 1) {
            rest(resting);
        }
        ended = turn_ring(k);
    }
    while (k->ring) {
        struct gfx_group * group = k->ring;
        k->ring = group->next;
        put_away(k, group);
    }
    while (k->spare && k->spare->next) { // one is kept for the next dispatch
        struct gfx_group * group = k->spare;
        k->spare = group->next;
        gfx_group_free(group);
    }
    atomic_fetch_add(&g->instructions, k->instructions);
    atomic_fetch_add(&g->waves, k->n_waves_run);
    for (int i = 0; i < GFX_KINDS; i++) {
        atomic_fetch_add(&g->kinds[i], k->kinds[i]);
        atomic_fetch_add(&g->bytes[i], k->bytes[i]);
    }
}

static void * worker_main(void * argument) {
    struct gfx_worker * k = argument;
    struct gfx * g = k->gpu;
    uint64_t seen = 0;
    pthread_mutex_lock(&g->lock);
    for (;;) {
        while (!g->stop && g->generation == seen) {
            pthread_cond_wait(&g->wake, &g->lock);
        }
        if (g->stop) {
            break;
        }
        seen = g->generation;
        pthread_mutex_unlock(&g->lock);
        work(k);
        pthread_mutex_lock(&g->lock);
        if (--g->n_busy == 0) {
            pthread_cond_signal(&g->done);
        }
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

// Fewer threads than wanted are fine; the caller's is always there.
static void start_threads(struct gfx * g) {
    for (int i = g->n_started + 1; i < g->n_threads; i++) {
        struct gfx_worker * k = worker_new(g);
        if (!k || pthread_create(&k->thread, NULL, worker_main, k)) {
            worker_free(k);
            break;
        }
        g->workers[i] = k;
        g->n_started = i;
    }
}

static void run_groups(struct gfx * g) {
    if (g->total_groups == 1 || g->n_threads == 1) {
        work(g->workers[0]);
        return;
    }
    pthread_mutex_lock(&g->lock);
    start_threads(g); // they wait for the lock, and then find the new generation
    g->generation++;
    g->n_busy = g->n_started;
    pthread_cond_broadcast(&g->wake);
    pthread_mutex_unlock(&g->lock);
    work(g->workers[0]);
    pthread_mutex_lock(&g->lock);
    while (g->n_busy) {
        pthread_cond_wait(&g->done, &g->lock);
    }
    pthread_mutex_unlock(&g->lock);
}

// ---- a dispatch ----

static enum status check(struct gfx * g, const struct gfx_dispatch * d, struct error * err) {
    uint64_t items = 1, groups = 1;
    for (int k = 0; k < 3; k++) {
        if (!d->grid[k] || !d->group[k]) {
            return error_set(err, ST_INVALID, "dispatch: a grid or a group of no work-items");
        }
        items *= d->group[k];
        g->n_groups[k] = (d->grid[k] - 1) / d->group[k] + 1;
        if (groups > UINT64_MAX / 2 / g->n_groups[k]) {
            return error_set(err, ST_INVALID, "dispatch: too many work-groups");
        }
        groups *= g->n_groups[k];
    }
    if (items > 1024) {
        return error_set(err, ST_INVALID,
                         "dispatch: a group of %" PRIu64 " work-items; at most 1024 fit", items);
    }
    if (d->group_bytes > LDS_LIMIT || d->private_bytes > MAX_PRIVATE) {
        return error_set(err, ST_INVALID,
                         "dispatch: %u bytes of LDS and %u of scratch; %d and %d are there",
                         d->group_bytes, d->private_bytes, LDS_LIMIT, MAX_PRIVATE);
    }
    g->total_groups = groups;
    const uint8_t * kd = g->config.resolve(g->config.user, d->kernel_object, 64, false);
    if (!kd || d->kernel_object & 63) {
        return error_set(err, ST_INVALID,
                         "dispatch: kernel object 0x%" PRIx64 " is no kernel descriptor",
                         d->kernel_object);
    }
    memcpy(g->descriptor, kd, 64);
    g->entry = d->kernel_object + load_u64(kd + 16);
    uint32_t properties = load_u32(kd + 56);
    g->wave32 = g->config.arch >= GFX_1100 && properties >> 10 & 1;
    g->n_vgprs = ((int) (load_u32(kd + 48) & 63) + 1) * 8; // in units of 8 or of 4
    g->n_vgprs = g->n_vgprs > GFX_VGPR_ACC ? GFX_VGPR_ACC : g->n_vgprs;
    return ST_OK;
}

// Registers of a lane by the descriptor, which counts eights, and fours for the wide waves of
// gfx11.
static uint32_t allotted(const struct gfx * g) {
    uint32_t units = (load_u32(g->descriptor + 48) & 63) + 1;
    return units * (g->config.arch >= GFX_1100 && !g->wave32 ? 4 : 8);
}

enum status gfx_run(struct gfx * g, const struct gfx_dispatch * dispatch, struct error * err) {
    pthread_mutex_lock(&g->run);
    enum status st = check(g, dispatch, err);
    if (st == ST_OK) {
        g->dispatch = *dispatch;
        g->serial++;
        pthread_mutex_lock(&g->lock);
        g->last_lanes = g->wave32 ? 32 : 64;
        g->last_vgprs = allotted(g);
        pthread_mutex_unlock(&g->lock);
        atomic_store(&g->next_group, 0);
        atomic_store(&g->resident, 0);
        atomic_store(&g->failed, false);
        for (int i = 0; i <= g->n_started; i++) {
            g->workers[i]->failed = false;
        }
        run_groups(g);
        for (int i = 0; i <= g->n_started && st == ST_OK; i++) {
            if (g->workers[i]->failed) {
                st = error_set(err, g->workers[i]->error.status, "%s", g->workers[i]->error.text);
            }
        }
        atomic_fetch_add(&g->dispatches, 1);
    }
    pthread_mutex_unlock(&g->run);
    return st;
}
