// tune/patient: the search for an interval with all the time that there is. What the quick search
// has found is tried shorter: the instructions of a long loop are moved about at random (anneal.c)
// for what would be a good interval, then for shorter ones; one bundle after the other is taken out
// of what was found; and where a little more time takes much less room, it may take that.
//
// Kept true: what it leaves behind is a placement that search_try takes.
#include "tune.h"

#include <stdlib.h>
#include <string.h>

enum {
    ANNEAL_LEAST = 24,    // instructions of a loop that is worth it
    ANNEAL_STEPS = 3000,  // for each instruction,
    ANNEAL_LONG = 12000,  // and where a loop would be loose
    ANNEAL_TRIES = 8,     // so often
    SQUEEZE_STEPS = 2500, // where a bundle is taken out of what was found,
    SQUEEZE_TRIES = 24,   // so often,
    SQUEEZE_APART = 37,   // each time another one
    MOST_STAGES = 4,      // trips in flight of a long loop that does not roll: each takes its room
};

static bool has_registers(struct search * s) {
    size_t bytes = (size_t) s->n * sizeof *s->q->time;
    int * time = malloc(bytes);
    if (time) {
        memcpy(time, s->q->time, bytes);
    }
    int copies = s->q->copies;
    bool found = time && search_finish(s, NULL) == FOUND;
    if (time && !found) { // the search goes on from there
        memcpy(s->q->time, time, bytes);
        s->q->copies = copies;
    }
    free(time);
    return found;
}

// most: trips in flight; steps: for each instruction.
static bool anneal_at(struct search * s, int ii, int most, int steps, int tries,
                      struct asm_choice * c) {
    s->ii = s->q->ii = ii;
    s->q->copies = 1;
    int deepest = 0;
    for (int i = 0; i < s->n; i++) {
        deepest = s->nodes[i].depth > deepest ? s->nodes[i].depth : deepest;
    }
    int stages = deepest / ii + 3;
    stages = stages < most ? stages : most;
    stages = stages * ii < PLACEMENT_TIMES ? stages : PLACEMENT_TIMES / ii;
    for (int seed = 1; seed <= tries; seed++) {
        struct annealing how = {.stages = stages, .steps = (long) steps * s->n, .seed = seed};
        if (tune_anneal(s, &how, has_registers)) {
            *c = (struct asm_choice){.ii = ii, .copies = s->q->copies, .method = METHOD_PLACED};
            return true;
        }
    }
    return false;
}

// What is good first, then what would be better, or else longer ones. Leaves the times of the best
// behind, as text, to be freed; NULL: there is none before `end`.
static char * try_intervals(struct search * s, int least, int end, struct asm_choice * best) {
    int good = s->q->resource_ii * TUNE_LOOSE_TENTHS / 10;
    char * placement = NULL;
    int most = s->q->rolling ? s->q->rolling : MOST_STAGES;
    end = end <= MODULO_MAX_II ? end : MODULO_MAX_II + 1;
    good = good > least ? good : least + 1;
    for (int ii = good < end ? good : end - 1; ii < end && !placement; ii += 1 + ii / 9) {
        placement =
            anneal_at(s, ii, most, ANNEAL_LONG, ANNEAL_TRIES, best) ? placement_print(s) : NULL;
    }
    for (int ii = placement ? best->ii : 0, less; ii > least; ii = less) {
        less = least + (ii - least) / 2;
        if (!anneal_at(s, less, most, ANNEAL_LONG, 1, best)) {
            break;
        }
        free(placement);
        placement = placement_print(s);
    }
    return placement;
}

// What was found, with one bundle of its interval taken out: all else stands as it did, so that
// little is left to put right.
static bool squeeze_at(struct search * s, const struct asm_choice * from, int row, int seed,
                       int stages) {
    int ii = from->ii - 1;
    if (!placement_read(s, from->placement)) {
        return false;
    }
    for (int i = 0; i < s->n; i++) {
        int * time = &s->q->time[i];
        *time = *time / from->ii * ii + *time % from->ii - (*time % from->ii > row);
    }
    struct annealing how = {
        .stages = stages, .steps = (long) SQUEEZE_STEPS * s->n, .seed = seed, .as_placed = true};
    s->ii = s->q->ii = ii;
    s->q->copies = 1;
    s->one_each = from->copies == 1;
    bool found = tune_anneal(s, &how, has_registers);
    s->one_each = false;
    return found;
}

// From what was found, bundle by bundle, as far as it goes with no more trips in flight: those take
// room, or time where the loop rolls. The times of the best as text, NULL: there is nothing better.
static char * squeeze(struct search * s, int least, struct asm_choice * best) {
    char * placement = NULL;
    int stages = 1;
    bool placed = placement_read(s, best->placement);
    for (int i = 0; i < s->n && placed; i++) {
        int stage = s->q->time[i] / best->ii + 1;
        stages = stage > stages ? stage : stages;
    }
    for (int seed = 1; placed && seed <= SQUEEZE_TRIES && best->ii > least;) {
        if (!squeeze_at(s, best, seed * SQUEEZE_APART % best->ii, seed, stages)) {
            seed++;
            continue;
        }
        free(placement);
        placement = placement_print(s);
        *best = (struct asm_choice){
            .ii = s->ii, .copies = s->q->copies, .method = METHOD_PLACED, .placement = placement};
        seed = 1;
    }
    return placement;
}

static char * try_long(struct search * s, int least, int end, struct asm_choice * best) {
    int edges = anneal_set_up(s);
    s->ordered = METHOD_HEIGHT; // what was in order is not any more
    char * placement = lifetime_times(s) ? try_intervals(s, least, end, best) : NULL;
    anneal_clear_up(s, edges);
    return placement;
}

// A loop that does not roll takes the least room with two trips in flight and one register for each
// value, and less with more trips and one register than with several: it is worth a tenth of the
// time, as far as the loop does not become a loose one.
static char * try_small(struct search * s, int least, struct asm_choice * best) {
    int found = best->ii, good = s->q->resource_ii * TUNE_LOOSE_TENTHS / 10;
    int end = found + found / 10, stages = s->q->copies > 1 ? s->q->stages : 2;
    end = end < good ? end : good > found ? good : found;
    s->ordered = METHOD_HEIGHT;
    if (s->q->rolling || pipeline_covers_all(s->q) || !lifetime_times(s)) {
        return NULL;
    }
    least = least > found ? least : found;
    for (int most = 2; most <= stages; most++) {
        for (int ii = least, step = (end - least) / 2; ii <= end; ii += step > 0 ? step : 1) {
            if (anneal_at(s, ii, most, ANNEAL_STEPS, 1, best)) {
                return placement_print(s);
            }
        }
    }
    return NULL;
}

// With all patience, from what is known (ii 0: nothing); NULL: there is nothing better.
char * tune_patiently(struct search * s, int least, int plain, int tenths, struct asm_choice * c) {
    int end = c->ii ? c->ii : plain;
    bool worth = s->n > ANNEAL_LEAST && 10 * end > tenths * s->q->resource_ii;
    bool was_placed = c->placement != NULL;
    char * placement = worth ? try_long(s, least, end, c) : NULL;
    c->placement = placement ? placement : c->placement;
    char * shorter = worth && c->placement ? squeeze(s, least, c) : NULL;
    if (shorter) {
        free(placement);
        placement = shorter;
    }
    if (c->ii && !was_placed && search_try(s, c) == FOUND) {
        char * smaller = try_small(s, least, c);
        if (smaller) {
            free(placement);
            placement = smaller;
        }
        c->placement = placement ? placement : c->placement;
    }
    return placement;
}
