// group: a work-group from its first instruction to its last. All its waves live in one worker and
// take turns; a barrier holds a wave until every other one waits there or has ended.
//
// Groups may wait for each other, at barriers of the whole grid. A pass over the waves in which
// each of them slept or only waited ends the group's turn, and so do many passes on end, for there
// are loops that nobody can tell from work: its worker then has others run.
//
// The registers of a wave begin as the kernel descriptor asks: user registers in the order of its
// bits, then the number of the group, then what scratch needs.
#include "emu/gfx/impl.h"

#include <stdlib.h>

// ---- the kernel descriptor ----

enum {
    KD_RSRC1 = 48,
    KD_RSRC2 = 52,
    KD_PROPERTIES = 56,
    PROP_PRIVATE_BUFFER = 1 << 0,
    PROP_DISPATCH_PTR = 1 << 1,
    PROP_QUEUE_PTR = 1 << 2,
    PROP_KERNARG_PTR = 1 << 3,
    PROP_DISPATCH_ID = 1 << 4,
    PROP_FLAT_SCRATCH = 1 << 5,
    PROP_PRIVATE_SIZE = 1 << 6,
};

enum { GARBAGE = 0xff }; // NaNs, lanes that are on, addresses of nothing

// The scratch descriptor: lane numbers are added, which is how buffer instructions know it
// (memory.c).
static void put_scratch_buffer(uint32_t * s) {
    s[0] = 0;
    s[1] = GFX_APERTURE_PRIVATE >> 16 | 1u << 31;
    s[2] = ~0u;
    s[3] = 1u << 23;
}

static unsigned put64(uint32_t * s, unsigned at, uint64_t v) {
    s[at] = (uint32_t) v;
    s[at + 1] = (uint32_t) (v >> 32);
    return at + 2;
}

static void scalar_start(struct gfx_wave * w, const uint32_t group[3]) {
    struct gfx * g = w->worker->gpu;
    uint32_t properties = load_u32(g->descriptor + KD_PROPERTIES) & 0xffff;
    uint32_t rsrc2 = load_u32(g->descriptor + KD_RSRC2);
    unsigned user = rsrc2 >> 1 & 31, at = 0;
    memset(w->s, g->config.strict ? GARBAGE : 0, sizeof w->s);
    w->s[GFX_SGPR_NULL] = 0;
    if (properties & PROP_PRIVATE_BUFFER) {
        put_scratch_buffer(w->s);
        at = 4;
    }
    if (properties & PROP_DISPATCH_PTR) {
        at = put64(w->s, at, g->dispatch.packet);
    }
    if (properties & PROP_QUEUE_PTR) {
        at = put64(w->s, at, 0);
    }
    if (properties & PROP_KERNARG_PTR) {
        at = put64(w->s, at, g->dispatch.kernarg);
    }
    if (properties & PROP_DISPATCH_ID) {
        at = put64(w->s, at, g->serial);
    }
    if (properties & PROP_FLAT_SCRATCH) {
        at = put64(w->s, at, (uint64_t) GFX_APERTURE_PRIVATE << 32);
    }
    if (properties & PROP_PRIVATE_SIZE) {
        w->s[at++] = g->dispatch.private_bytes;
    }
    at = user; // more may be asked for (preloaded arguments); the kernel's first block loads those
    for (int k = 0; k < 3; k++) {
        if (rsrc2 >> (7 + k) & 1) {
            w->s[at++] = group[k];
        }
    }
    if (rsrc2 >> 10 & 1) {
        w->s[at++] = (uint32_t) w->group->n_waves;
    }
    if (rsrc2 & 1 && g->config.arch == GFX_90A) {
        w->s[at++] = 0; // a wave's scratch begins where the descriptor says
    }
}

// ---- starting ----

static void wave_start(struct gfx_wave * w, int index, const uint32_t group[3],
                       const uint32_t size[3], uint32_t items) {
    struct gfx_group * p = w->group;
    struct gfx * g = w->worker->gpu;
    uint32_t first = (uint32_t) index * (uint32_t) w->lanes;
    scalar_start(w, group);
    if (g->config.strict) {
        memset(w->v, GARBAGE, sizeof w->v);
    }
    for (uint32_t i = 0; i < (uint32_t) w->lanes; i++) {
        uint32_t item = first + i;
        uint32_t x = item % size[0], y = item / size[0] % size[1], z = item / size[0] / size[1];
        w->v[0][i] = x | y << 10 | z << 20;
    }
    uint64_t exec =
        items - first >= (uint32_t) w->lanes ? w->all : (UINT64_C(1) << (items - first)) - 1;
    sgpr_put64(w, GFX_SGPR_EXEC, exec);
    w->pc = w->at = g->entry;
    w->page = NULL;
    w->scc = w->stored = w->indexed = w->idle = false;
    w->state = WAVE_READY;
    w->count = 0;
    w->slice = FIRST_SLICE;
    w->mode = load_u32(g->descriptor + KD_RSRC1) >> 12 & 0xff;
    // a kernel without private memory has none to point at
    w->scratch =
        p->scratch ? p->scratch + (size_t) index * (size_t) w->lanes * p->private_bytes : NULL;
}

// ---- memory ----

struct gfx_group * gfx_group_new(struct gfx_worker * k) {
    const struct gfx * g = k->gpu;
    const struct gfx_dispatch * d = &g->dispatch;
    int lanes = g->wave32 ? 32 : 64, items = d->group[0] * d->group[1] * d->group[2];
    int n_waves = (items + lanes - 1) / lanes;
    uint32_t private_bytes = (d->private_bytes + 15) & ~15u;
    uint64_t scratch = (uint64_t) n_waves * LANES * private_bytes;
    struct gfx_group * group = k->spare;
    if (group) {
        k->spare = group->next;
    } else {
        group = aligned_alloc(64, (sizeof *group + 63) & ~(size_t) 63);
        if (!group) {
            return NULL;
        }
        memset(group, 0, sizeof *group);
    }
    if (n_waves > group->max_waves) {
        // zeros that the host has not made yet: rows that no wave touches cost nothing
        size_t bytes = sizeof(struct gfx_wave) * (size_t) n_waves + 64;
        free(group->memory);
        group->memory = calloc(1, bytes);
        group->max_waves = group->memory ? n_waves : 0;
        uintptr_t at = ((uintptr_t) group->memory + 63) & ~(uintptr_t) 63;
        group->waves = (struct gfx_wave *) at;
    }
    if (scratch > group->scratch_bytes) {
        free(group->scratch);
        group->scratch = calloc(1, scratch);
        group->scratch_bytes = group->scratch ? scratch : 0;
    }
    group->private_bytes = private_bytes;
    if (!group->memory || group->scratch_bytes < scratch) {
        gfx_group_free(group);
        return NULL;
    }
    return group;
}

void gfx_group_free(struct gfx_group * group) {
    if (group) {
        free(group->memory);
        free(group->scratch);
        free(group);
    }
}

void gfx_group_start(struct gfx_worker * k, struct gfx_group * p, uint64_t index) {
    struct gfx * g = k->gpu;
    uint32_t group[3], size[3];
    for (int d = 0; d < 3; d++) {
        group[d] = (uint32_t) (index % g->n_groups[d]);
        index /= g->n_groups[d];
        uint32_t left = g->dispatch.grid[d] - group[d] * g->dispatch.group[d];
        size[d] = left < g->dispatch.group[d] ? left : g->dispatch.group[d];
    }
    uint32_t items = size[0] * size[1] * size[2];
    int lanes = g->wave32 ? 32 : 64;
    p->n_waves = (int) ((items + (uint32_t) lanes - 1) / (uint32_t) lanes);
    p->lds_bytes = g->dispatch.group_bytes;
    for (int i = 0; i < p->n_waves; i++) {
        struct gfx_wave * w = &p->waves[i];
        w->worker = k;
        w->group = p;
        w->lanes = lanes;
        w->all = lanes == 64 ? ~UINT64_C(0) : 0xffffffff;
        wave_start(w, i, group, size, items);
    }
    if (g->config.strict) {
        memset(p->lds, GARBAGE, sizeof p->lds);
        if (p->scratch) {
            memset(p->scratch, GARBAGE, p->scratch_bytes);
        }
    }
    k->n_waves_run += (uint64_t) p->n_waves;
}

// ---- turns ----

enum { PATIENCE = 32, IDLE_COST = 1024 }; // passes; instructions that a turn of waiting counts as

static void release_barrier(struct gfx_group * p) {
    for (int i = 0; i < p->n_waves; i++) {
        if (p->waves[i].state == WAVE_BARRIER) {
            p->waves[i].state = WAVE_READY;
        }
    }
}

// One slice of a wave; false: it only waited. Waiting uses the budget too, so that it has an end.
static bool wave_turn(struct gfx_wave * w) {
    w->state = WAVE_READY;
    gfx_wave_run(w);
    w->idle |= w->state == WAVE_ASLEEP;
    w->count += w->idle ? IDLE_COST : 0;
    return !w->idle;
}

enum gfx_turn gfx_group_turn(struct gfx_worker * k, struct gfx_group * p) {
    for (int pass = 0; pass < PATIENCE; pass++) {
        int running = 0, waiting = 0;
        bool moved = false;
        for (int i = 0; i < p->n_waves; i++) {
            struct gfx_wave * w = &p->waves[i];
            if (w->state == WAVE_READY || w->state == WAVE_ASLEEP) {
                moved |= wave_turn(w);
                if (k->failed || atomic_load_explicit(&k->gpu->failed, memory_order_relaxed)) {
                    return TURN_FAILED;
                }
            }
            running += w->state == WAVE_READY || w->state == WAVE_ASLEEP;
            waiting += w->state == WAVE_BARRIER;
        }
        if (!running && !waiting) {
            return TURN_ENDED;
        }
        if (!running) {
            release_barrier(p);
        } else if (!moved) {
            return TURN_WAITS;
        }
    }
    return TURN_WAITS;
}
