// asm/choices: what the search for the interval of a loop found, for the loops that the compiler
// has. The table is data that the search made (build/bin/test-choices --write): a loop that is not
// in it is searched for, within bounds, and comes out the same as long as that has the patience.
// Likewise the programs that the checker went through: it takes a quarter of a compilation, and has
// nothing new to say of the same bytes.
#include "modulo.h"

#include <stdlib.h>
#include <string.h>

static const struct asm_found choices[] = {
#define LOOP(id, interval, registers, order, seed, alone, window)                                  \
    {id, ASM_FOUND_LOOP, interval, registers, order, seed, alone, window, NULL},
#define PLACED(id, interval, registers, seed, alone, window, places)                               \
    {id, ASM_FOUND_LOOP, interval, registers, WAY_PLACED, seed, alone, window, places},
#define REGION(id, window) {id, ASM_FOUND_REGION, 0, 0, 0, 0, 0, window, NULL},
#define PROVED(id)         {id, ASM_FOUND_PROGRAM, 0, 0, 0, 0, 0, 0, NULL},
#include "choices.def"
#undef LOOP
#undef PLACED
#undef REGION
#undef PROVED
    {UINT64_MAX, ASM_FOUND_LOOP, 0, 0, 0, 0, 0, 0, NULL},
};

static _Thread_local asm_found_fn watch_fn;
static _Thread_local void * watch_user;
static _Thread_local enum asm_search watch_which;
static _Thread_local int counts[2]; // not in the table, in it

// What has been found since somebody watches: once is enough.
static _Thread_local struct asm_found * memo;
static _Thread_local int n_memo, cap_memo;

static const struct asm_found * in_memo(uint64_t loop) {
    for (int i = 0; i < n_memo; i++) {
        if (memo[i].loop == loop) {
            return &memo[i];
        }
    }
    return NULL;
}

static void remember(const struct asm_found * found) {
    if (in_memo(found->loop)) {
        return;
    }
    if (n_memo == cap_memo) {
        int cap = 2 * cap_memo + 64;
        struct asm_found * larger = realloc(memo, (size_t) cap * sizeof *memo);
        if (!larger) {
            return; // it will be found once more
        }
        memo = larger;
        cap_memo = cap;
    }
    memo[n_memo] = *found;
    memo[n_memo++].places = found->places ? strdup(found->places) : NULL;
}

static void forget(void) {
    for (int i = 0; i < n_memo; i++) {
        free((char *) memo[i].places);
    }
    free(memo);
    memo = NULL;
    n_memo = cap_memo = 0;
}

void asm_watch_found(asm_found_fn watch, void * user, enum asm_search which) {
    forget();
    watch_fn = watch;
    watch_user = user;
    watch_which = which;
}

void asm_count_found(int * known, int * unknown) {
    *known = counts[1];
    *unknown = counts[0];
    counts[0] = counts[1] = 0;
}

bool choices_watched(void) {
    return watch_fn != NULL;
}

bool choices_patient(void) {
    return watch_fn && watch_which != ASM_SEARCH_QUICK;
}

bool choices_all_wanted(void) {
    return watch_fn && watch_which == ASM_SEARCH_ALL;
}

bool choices_loose_wanted(const struct asm_found * known) {
    return watch_fn && watch_which == ASM_SEARCH_LOOSE && !in_memo(known->loop);
}

void choices_show(const struct asm_found * found) {
    if (watch_fn) {
        remember(found);
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

int asm_found_order(const void * a, const void * b) {
    const struct asm_found * x = a;
    const struct asm_found * y = b;
    return x->kind != y->kind ? (int) x->kind - (int) y->kind
                              : (x->loop > y->loop) - (x->loop < y->loop);
}

static const struct asm_found * in_table(enum asm_found_kind kind, uint64_t number) {
    const struct asm_found key = {.loop = number, .kind = kind};
    size_t n = sizeof choices / sizeof choices[0] - 1;
    return bsearch(&key, choices, n, sizeof choices[0], asm_found_order);
}

const struct asm_found * choices_find(uint64_t loop) {
    bool any = !watch_fn || watch_which != ASM_SEARCH_ALL;
    const struct asm_found * found = watch_fn ? in_memo(loop) : NULL;
    found = found || !any ? found : in_table(ASM_FOUND_LOOP, loop);
    counts[found != NULL]++;
    return found;
}

// ---- regions ----

// Its instructions, and the registers that others leave it: no more than a guess depends on it.
static uint64_t region_number(const struct asm_program * p, const struct asm_item * region) {
    uint64_t hash = mix((uint64_t) p->target->arch, (uint64_t) region->count);
    for (int i = region->first; i < region->first + region->count; i++) {
        hash = mix(hash, (uint64_t) p->nodes[i].op << 8 | p->nodes[i].memory);
    }
    for (int c = 0; c < ASM_CLASS_COUNT; c++) {
        hash = mix(hash, p->global_taken[c]);
    }
    return hash;
}

int choices_window(const struct asm_program * p, const struct asm_item * region) {
    const struct asm_found * found = in_table(ASM_FOUND_REGION, region_number(p, region));
    return found && found->window <= region->count ? found->window : 0;
}

void choices_show_window(const struct asm_program * p, const struct asm_item * region) {
    if (watch_fn) {
        watch_fn(watch_user, &(struct asm_found){.loop = region_number(p, region),
                                                 .kind = ASM_FOUND_REGION,
                                                 .window = (int16_t) region->window});
    }
}

// ---- programs ----

static uint64_t program_number(enum aie_arch arch, const uint8_t * bytes, size_t size) {
    uint64_t hash = mix(arch, size), word;
    for (size_t at = 0; at + sizeof word <= size; at += sizeof word) {
        memcpy(&word, bytes + at, sizeof word);
        hash = mix(hash, word);
    }
    return hash;
}

bool asm_is_proved(uint64_t program) {
    return in_table(ASM_FOUND_PROGRAM, program) != NULL;
}

enum status choices_prove(enum aie_arch arch, const uint8_t * bytes, size_t size,
                          struct error * err) {
    uint64_t program = program_number(arch, bytes, size);
    if (!watch_fn && asm_is_proved(program)) {
        return ST_OK;
    }
    enum status st = asm_check(arch, bytes, size, err);
    if (st == ST_OK && watch_fn) {
        watch_fn(watch_user, &(struct asm_found){.loop = program, .kind = ASM_FOUND_PROGRAM});
    }
    return st;
}

// ---- places as text ----

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";

char asm_digit(int value) {
    return digits[value];
}

int asm_digit_value(char c) {
    return c >= 'a'   ? c - 'a' + 26
           : c >= 'A' ? c - 'A'
           : c >= '0' ? c - '0' + 52
           : c == '+' ? 62
                      : 63;
}

char * choices_places(const struct search * s) {
    const struct pipeline * q = s->q;
    char * text = malloc(2 * (size_t) s->n + (size_t) (q->n_locals * q->copies) + 1);
    int at = 0;
    for (int i = 0; text && i < s->n; i++) {
        int place = 2 * q->time[i] + s->nodes[i].carrier;
        text[at++] = asm_digit(place / 64);
        text[at++] = asm_digit(place % 64);
    }
    for (int l = 0; text && l < q->n_locals; l++) {
        int v = q->locals[l];
        for (int c = 0; c < q->copies && q->lives[v].from < q->lives[v].to; c++) {
            text[at++] = asm_digit(q->phys[v * q->copies + c]);
        }
    }
    if (text) {
        text[at] = 0;
    }
    return text;
}

bool choices_place(struct search * s, const char * places) {
    for (int i = 0; i < s->n; i++) {
        if (!places[2 * i] || !places[2 * i + 1]) {
            return false;
        }
        int place = 64 * asm_digit_value(places[2 * i]) + asm_digit_value(places[2 * i + 1]);
        s->q->time[i] = place / 2;
        s->nodes[i].carrier = place % 2;
    }
    return true;
}

const char * choices_registers(const struct search * s, const char * places) {
    return places + 2 * (size_t) s->n;
}
