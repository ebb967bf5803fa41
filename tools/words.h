// words: "did you mean" for subcommands and options, for all three tools.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define WORDS_HINT 80

struct nearest { // all zero: nothing is near
    char text[48];
    int far;
};

// Letters to change, add, drop or swap with a neighbour, to get from a (n of them) to b (m); 100
// where one is longer than 47.
int words_distance(const char * a, size_t n, const char * b, size_t m);

// Is word nearer to what was asked for than the best so far?
void words_consider(const char * asked, const char * word, struct nearest * best);

// Does the help text name that option ("--json")? If not, *best is the nearest that it names.
bool words_know_option(const char * help, const char * option, struct nearest * best);

// "; did you mean 'x'?", or nothing.
const char * words_hint(const struct nearest * best, char text[WORDS_HINT]);
