// asm/choices: what the search for the interval of a loop found, for the loops that the compiler
// has. The table is data that the search made (build/bin/test-choices --write): a loop that is not
// in it is searched for, within bounds, and comes out the same as long as that has the patience.
#include "modulo.h"

#include <stdlib.h>

static const struct asm_found choices[] = {
#define LOOP(id, interval, registers, order, seed, alone, window)                                  \
    {id, interval, registers, order, seed, alone, window},
#include "choices.def"
#undef LOOP
    {UINT64_MAX, 0, 0, 0, 0, 0, 0},
};

static _Thread_local asm_found_fn watch_fn;
static _Thread_local void * watch_user;
static _Thread_local int counts[2]; // not in the table, in it

void asm_watch_found(asm_found_fn watch, void * user) {
    watch_fn = watch;
    watch_user = user;
}

void asm_count_found(int * known, int * unknown) {
    *known = counts[1];
    *unknown = counts[0];
    counts[0] = counts[1] = 0;
}

bool choices_watched(void) {
    return watch_fn != NULL;
}

void choices_show(const struct asm_found * found) {
    if (watch_fn) {
        watch_fn(watch_user, found);
    }
}

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

uint64_t choices_loop(const struct search * s) {
    const struct deps * d = &s->q->deps;
    uint64_t hash = mix((uint64_t) s->n, (uint64_t) s->q->rolling);
    for (int c = 0; c < ASM_CLASS_COUNT; c++) {
        if (c == ASM_EX && !(s->q->p->classes >> c & 1)) {
            continue; // few programs have it: others keep their numbers
        }
        hash = mix(hash, asm_class_set(s->q->p, (enum asm_class) c) & ~s->q->p->global_taken[c]);
    }
    for (int i = 0; i < s->n; i++) {
        const struct carrier * c = s->nodes[i].carriers;
        hash = mix(hash, (uint64_t) c[0].op << 32 | (uint64_t) s->nodes[i].n_carriers << 16 |
                             (uint8_t) c[0].bank);
    }
    for (int e = 0; e < d->n_edges; e++) {
        hash = mix(hash, (uint64_t) d->edges[e].from << 48 | (uint64_t) d->edges[e].to << 32 |
                             (uint64_t) (uint16_t) d->edges[e].latency << 8 | d->edges[e].trips);
    }
    return hash;
}

static int by_loop(const void * a, const void * b) {
    uint64_t x = ((const struct asm_found *) a)->loop, y = ((const struct asm_found *) b)->loop;
    return (x > y) - (x < y);
}

const struct asm_found * choices_find(uint64_t loop) {
    const struct asm_found key = {.loop = loop};
    size_t n = sizeof choices / sizeof choices[0] - 1;
    const struct asm_found * found =
        watch_fn ? NULL : bsearch(&key, choices, n, sizeof choices[0], by_loop);
    counts[found != NULL]++;
    return found;
}
