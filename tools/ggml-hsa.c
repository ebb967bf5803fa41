// ggml-hsa: the tool for people. This file knows the list of subcommands, --help and --version, and
// nothing of what they do.
#include "tool.h"

#include "base/plain.h"
#include "base/variables.h"

#include "words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct subcommand * const subcommands[] = {
    &info_subcommand,    &doctor_subcommand, &validate_subcommand, &cache_subcommand,
    &inspect_subcommand, &bench_subcommand,  &model_subcommand,
};
enum { SUBCOMMANDS = sizeof subcommands / sizeof subcommands[0] };

struct colours tool_colours(void) {
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    if (!isatty(STDOUT_FILENO) || (no_color && *no_color) || (term && !strcmp(term, "dumb"))) {
        return (struct colours){"", "", "", ""};
    }
    return (struct colours){"\033[1m", "\033[2m", "\033[36m", "\033[0m"};
}

int tool_usage(const struct subcommand * sub, const char * fmt, ...) {
    char text[1024];
    const char *space = sub ? " " : "", *name = sub ? sub->name : "";
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    plain_make(text, false); // words may be names of files
    fprintf(stderr, "ggml-hsa%s%s: %s (see ggml-hsa%s%s --help)\n", space, name, text, space, name);
    return EXIT_USAGE;
}

static void print_help(void) {
    printf("ggml-hsa: the tool of the ggml backend for AMD NPUs\n\n"
           "usage: ggml-hsa SUBCOMMAND [ARGUMENTS]\n"
           "       ggml-hsa SUBCOMMAND --help\n\n");
    for (int i = 0; i < SUBCOMMANDS; i++) {
        printf("  %-12s %s\n", subcommands[i]->name, subcommands[i]->summary);
    }
    printf("\n  --help       this text\n  --version    version of the tool\n"
           "\n  help SUBCOMMAND     its help\n  help environment    the variables that are read\n");
}

// Every variable, what it takes, and what for, in columns as far as they go.
static void print_environment(void) {
    char phrase[256];
    for (const struct variable * v = variables; v->name; v++) {
        variable_phrase(v, phrase, sizeof phrase);
        printf("%s=%s\n    %s\n", v->name, phrase, v->meaning);
    }
}

static const struct subcommand * subcommand_named(const char * name) {
    for (int i = 0; i < SUBCOMMANDS; i++) {
        if (!strcmp(name, subcommands[i]->name)) {
            return subcommands[i];
        }
    }
    return NULL;
}

static int no_subcommand(const char * word) {
    static const char * const others[] = {"--help", "--version", "help", "environment"};
    struct nearest near = {0};
    char hint[WORDS_HINT];
    for (int i = 0; i < SUBCOMMANDS; i++) {
        words_consider(word, subcommands[i]->name, &near);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        words_consider(word, others[i], &near);
    }
    return tool_usage(NULL, "no %s '%s'%s", *word == '-' ? "option" : "subcommand", word,
                      words_hint(&near, hint));
}

// help, help SUBCOMMAND and help environment
static int help(const char * about) {
    const struct subcommand * sub = about ? subcommand_named(about) : NULL;
    if (about && !sub && strcmp(about, "environment")) {
        return no_subcommand(about);
    }
    if (sub) {
        fputs(sub->help, stdout);
    } else if (about) {
        print_environment();
    } else {
        print_help();
    }
    return EXIT_OK;
}

static int run(int argc, char ** argv) {
    struct nearest near;
    char hint[WORDS_HINT];
    if (argc < 2) {
        return tool_usage(NULL, "a subcommand is missing");
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        return help(!strcmp(argv[1], "help") && argc > 2 ? argv[2] : NULL);
    }
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
        printf("ggml-hsa %s\n", GGML_HSA_VERSION);
        return EXIT_OK;
    }
    const struct subcommand * sub = subcommand_named(argv[1]);
    if (sub) {
        for (int k = 2; k < argc; k++) {
            if (!strcmp(argv[k], "--help") || !strcmp(argv[k], "-h")) {
                fputs(sub->help, stdout);
                return EXIT_OK;
            }
        }
        // An option that the help does not name is none, whatever the subcommand.
        for (int k = 2; k < argc; k++) {
            if (!strncmp(argv[k], "--", 2) && !words_know_option(sub->help, argv[k], &near)) {
                return tool_usage(sub, "no option '%s'%s", argv[k], words_hint(&near, hint));
            }
        }
        return sub->run(argc - 1, argv + 1);
    }
    return no_subcommand(argv[1]);
}

int main(int argc, char ** argv) {
    int status = run(argc, argv);
    if ((fflush(stdout) || ferror(stdout)) && errno != EPIPE) { // a closed pager is no error
        fprintf(stderr, "ggml-hsa: standard output: %s\n", strerror(errno));
        return EXIT_BAD_INPUT;
    }
    return status;
}
