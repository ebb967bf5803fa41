// variables: the one list of the environment variables that ggml-hsa reads, with what each takes.
// The plugin warns of values that none of its readers understands, `ggml-hsa doctor` finds them,
// `ggml-hsa help environment`, the manual pages and docs/environment.md print the list, and a test
// compares it with what the sources read.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum variable_kind {
    VARIABLE_TEXT,   // a path, a list, a program: nobody can say by looking at it that it is wrong
    VARIABLE_FLAG,   // what env_flag() takes, or one of .words
    VARIABLE_NUMBER, // from .least to .most
    VARIABLE_SIZE,   // bytes, with K, M, G or T behind them
    VARIABLE_WORD,   // one of .words
};

struct variable {
    const char * name;
    enum variable_kind kind;
    const char * takes;   // of a text: what it is
    const char * words;   // divided by blanks
    long least, most;     // of a number
    const char * meaning; // what it is for, and the default
    bool said;            // whoever reads it says himself that a value is wrong
};

extern const struct variable variables[]; // the last has no name

// What it takes, as a phrase: "1 or 0", "one of fast, exact", "a number from 0 to 8".
void variable_phrase(const struct variable * v, char * text, size_t size);
// Calls visit for each variable of the environment that has a value it does not take.
void variables_wrong(void (*visit)(void * user, const struct variable * v, const char * value),
                     void * user);
