// tool: what the subcommands of `ggml-hsa` share. A subcommand is one row in the table of
// ggml-hsa.c and one function.
#pragma once

#include "base/base.h"

enum { // exit status
    EXIT_OK = 0,
    EXIT_BAD_INPUT = 1, // a file or device is not as it should be
    EXIT_USAGE = 2,     // the command line is not understood
};

struct subcommand {
    const char * name;
    const char * summary;               // one line
    const char * help;                  // all of its own --help
    int (*run)(int argc, char ** argv); // argv[0] is the subcommand's name
};

extern const struct subcommand inspect_subcommand;
extern const struct subcommand info_subcommand;
extern const struct subcommand doctor_subcommand;
extern const struct subcommand cache_subcommand;
extern const struct subcommand bench_subcommand;
extern const struct subcommand model_subcommand;
extern const struct subcommand validate_subcommand;

// Colour escapes, or "" when standard output is no terminal, NO_COLOR is set or TERM is dumb.
struct colours {
    const char *head, *dim, *name, *off;
};
struct colours tool_colours(void);

// "ggml-hsa: ..." to standard error; returns EXIT_USAGE.
int tool_usage(const struct subcommand * sub, const char * fmt, ...) BASE_PRINTF(2, 3);
