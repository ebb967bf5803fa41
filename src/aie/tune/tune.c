// tune: a tuner of loops, and the table that comes of it. See tune.h.
#include "tune.h"
#include "aie/asm/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORK_PATIENT = 100000000, // for each loop, in steps of the innermost loops
    SEEDS = 10,               // of changes to an order
    GOOD_TENTHS = 11,         // of what slots take: nothing better is looked for
    LINE = 100,               // characters of a placement
};

// ---- the new table ----

static struct asm_schedule * row_of(const struct tune * t, uint64_t loop) {
    for (int i = 0; i < t->n; i++) {
        if (t->rows[i].loop == loop) {
            return &t->rows[i];
        }
    }
    return NULL;
}

static void name_of(const struct tune * t, const struct search * s, char name[TUNE_NAME_MAX]) {
    snprintf(name, TUNE_NAME_MAX, "%s/%d", t->program, s->q->p->stats.n_loops);
}

static void note(struct tune * t, const struct asm_schedule * row) {
    if (t->n == t->cap) {
        int cap = 2 * t->cap + 64;
        struct asm_schedule * rows = realloc(t->rows, (size_t) cap * sizeof *rows);
        t->no_memory |= !rows;
        if (!rows) {
            return;
        }
        t->rows = rows;
        t->cap = cap;
    }
    struct asm_schedule * own = &t->rows[t->n++];
    *own = *row;
    own->name = strdup(row->name);
    own->placement = row->placement ? strdup(row->placement) : NULL;
    t->no_memory |= !own->name || (row->placement && !own->placement);
}

// What the search has left behind; a loop too long to be written down stays without a row.
static void note_found(struct tune * t, const struct search * s, bool found,
                       struct asm_schedule row) {
    for (int i = 0; i < s->n && found; i++) {
        if (s->q->time[i] >= PLACEMENT_TIMES) {
            return;
        }
    }
    char * placement = found ? placement_print(s) : NULL;
    t->no_memory |= found && !placement;
    row.ii = (int16_t) (found ? s->ii : 0);
    row.copies = (int8_t) (found ? s->q->copies : 0);
    row.placement = placement;
    if (!row_of(t, row.loop)) {
        note(t, &row);
    }
    free(placement);
}

// ---- one loop ----

// A row that there is, or something better; *found: trips overlap. False: the row does not hold.
static bool take_known(struct tune * t, struct search * s, const struct asm_schedule * known,
                       bool better, const char * name, bool * found) {
    struct asm_choice c = {.ii = known->ii,
                           .copies = known->copies,
                           .method = METHOD_PLACED,
                           .placement = known->placement};
    char * placement = NULL;
    int longest;
    s->q->plain = known->plain;
    s->q->window = known->window;
    if (better) {
        int least = search_least_with_lives(s, &longest);
        placement = tune_patiently(s, least, known->plain, TUNE_LOOSE_TENTHS, &c);
    }
    *found = c.ii && search_try(s, &c) == FOUND;
    bool holds = *found || !c.ii;
    if (holds) {
        struct asm_schedule row = *known;
        row.name = name;
        note_found(t, s, *found, row);
    }
    free(placement);
    return holds;
}

static bool find_patiently(struct search * s, int plain) {
    struct asm_choice c = {0};
    int longest, least = search_least_with_lives(s, &longest);
    if (!search_all(s, least, longest, plain, &c)) {
        c = (struct asm_choice){0};
    }
    char * placement = tune_patiently(s, least, plain, GOOD_TENTHS, &c);
    bool found = c.ii && search_try(s, &c) == FOUND; // the search has left its traces
    free(placement);
    return found;
}

static bool find(struct asm_tuner * tuner, struct search * s, int plain) {
    struct tune * t = (struct tune *) tuner;
    uint64_t loop = schedules_digest(s);
    char name[TUNE_NAME_MAX];
    bool found;
    name_of(t, s, name);
    bool meant = !t->only || strcmp(t->only, name) == 0;
    enum tune_effort effort = meant ? t->effort : TUNE_QUICK;
    const struct asm_schedule * mine = row_of(t, loop);
    const struct asm_schedule * known = mine ? mine : schedules_find(t->known, loop);
    if (known && (mine || effort != TUNE_ANEW)) {
        s->work_limit = WORK_PATIENT;
        search_bounds(s);
        if (take_known(t, s, known, effort == TUNE_LOOSE && !mine, name, &found)) {
            return found;
        }
    }
    if (!plain) {
        s->q->wanted = true;
        return false;
    }
    if (effort != TUNE_QUICK) {
        s->seeds = SEEDS;
        s->work_limit = WORK_PATIENT;
        search_bounds(s);
    }
    found = effort == TUNE_QUICK ? search_quickly(s, plain) : find_patiently(s, plain);
    if (meant) {
        note_found(t, s, found,
                   (struct asm_schedule){.loop = loop,
                                         .name = name,
                                         .plain = (int16_t) plain,
                                         .window = (int16_t) s->q->window});
    }
    return found;
}

// ---- programs ----

void tune_init(struct tune * t, enum tune_effort effort, const struct asm_schedules * known) {
    *t = (struct tune){.tuner = {find}, .effort = effort, .known = known};
}

void tune_free(struct tune * t) {
    for (int i = 0; i < t->n; i++) {
        free((char *) t->rows[i].name);
        free((char *) t->rows[i].placement);
    }
    free(t->rows);
}

enum status tune_program(struct tune * t, const char * name, const char * text,
                         struct error * err) {
    struct asm_program * p = NULL;
    struct asm_code code = {0};
    enum status st = asm_read(text, &p, err);
    t->program = name;
    if (st == ST_OK) {
        p->tuner = &t->tuner;
        st = asm_finish(p, &code, err);
    }
    if (st == ST_OK && t->no_memory) {
        st = error_set(err, ST_NO_MEMORY, "tune: %s: out of memory", name);
    }
    free(code.bytes);
    asm_free(p);
    return st;
}

static void print_row(const struct asm_schedule * row, struct buf * out) {
    if (!row->ii) {
        buf_printf(out, "ALONE(0x%016" PRIx64 ", \"%s\", %d, %d)\n", row->loop, row->name,
                   row->plain, row->window);
        return;
    }
    buf_printf(out, "SCHEDULE(0x%016" PRIx64 ", \"%s\", %d, %d, %d, %d,\n", row->loop, row->name,
               row->ii, row->copies, row->plain, row->window);
    for (size_t at = 0; at < strlen(row->placement); at += LINE) {
        bool last = at + LINE >= strlen(row->placement);
        buf_printf(out, "         \"%.*s\"%s\n", LINE, row->placement + at, last ? ")" : "");
    }
}

enum status tune_print(struct tune * t, struct buf * out, struct error * err) {
    if (t->n) {
        qsort(t->rows, (size_t) t->n, sizeof t->rows[0], asm_schedule_order);
    }
    buf_printf(
        out, "// Written by build/bin/aie-tune --write, by digest. SCHEDULE(digest of the loop, a\n"
             "// program that has it and its number there, bundles from trip to trip, registers\n"
             "// of each value, bundles of a trip alone, its window, the placement). ALONE(the\n"
             "// digest, its name, bundles of a trip, its window): trips do not overlap.\n");
    for (int i = 0; i < t->n; i++) {
        print_row(&t->rows[i], out);
    }
    return out->failed ? error_set(err, ST_NO_MEMORY, "tune: out of memory") : ST_OK;
}
