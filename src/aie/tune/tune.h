// tune: makes the table of schedules (src/aie/asm/schedules.def) that the compiler looks its loops
// up in. A program is given as the text of its instructions (asm/text.h) and compiled with a tuner
// in place of the look-up; what holds in the table stays, and what is missing is searched for.
// Nothing of this is part of the plugin: build/bin/aie-tune is what it is for.
#pragma once

#include "aie/asm/modulo.h"

enum { TUNE_LOOSE_TENTHS = 13 }; // of what slots take: an interval that is not good

enum tune_effort {
    TUNE_QUICK, // what a compilation finds, for loops that the table has not
    TUNE_NEW,   // with all patience, for these
    TUNE_LOOSE, // and for those whose interval is loose
    TUNE_ANEW,  // and for all
};

struct tune {
    struct asm_tuner tuner; // first: it is handed on as that
    enum tune_effort effort;
    const char * only;                  // a loop by name; others stay as they are. NULL: all
    const struct asm_schedules * known; // the table that there is
    const char * program;               // that is being compiled
    struct asm_schedule * rows;         // of the new table, as they come
    int n, cap;
    bool no_memory;
};

// programs.c: shows the text of every program of the compiler, each once and by its name, until one
// fails.
enum { TUNE_NAME_MAX = 256 };
typedef enum status (*tune_program_fn)(void * user, const char * name, const char * text,
                                       struct error * err);
enum status tune_every_program(tune_program_fn fn, void * user, struct error * err);

void tune_init(struct tune * t, enum tune_effort effort, const struct asm_schedules * known);
void tune_free(struct tune * t);
// Compiles a program by its text, as it was built, and notes the schedules of its loops.
enum status tune_program(struct tune * t, const char * name, const char * text, struct error * err);
// The table as it stands in schedules.def.
enum status tune_print(struct tune * t, struct buf * out, struct error * err);

// patient.c: with all patience, from what is known (ii 0: nothing); the placement of something
// better, to be freed, NULL: there is none. tenths: of what slots take, up to which an interval is
// good.
char * tune_patiently(struct search * s, int least, int plain, int tenths, struct asm_choice * c);

// anneal-setup.c: edges more for instructions that would meet; returns how many there were, and
// these are all again.
int anneal_set_up(struct search * s);
void anneal_clear_up(struct search * s, int edges);

// anneal.c: places all nodes for the interval; what it finds it shows to a function until that says
// yes.
struct annealing {
    int stages; // trips in flight at most
    long steps;
    int seed;
    bool as_placed; // begins where nodes stand, and colder; else from the depths of lifetime_times
};
bool tune_anneal(struct search * s, const struct annealing * how, bool (*accept)(struct search *));
