// cache: `ggml-hsa cache`, the kernel cache for people and scripts: how full it is, what is in it,
// whether it is whole, and why a kernel is not found.
#include "cache.h"

#include "words.h"

#include "probe.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char * const state_names[CACHE_STATES] = {[CACHE_GOOD] = "good",
                                                       [CACHE_STALE] = "stale",
                                                       [CACHE_DAMAGED] = "damaged",
                                                       [CACHE_FOREIGN] = "foreign"};

const char * cache_own_identity(void) {
    const struct store_compiler * own = store_own_compiler();
    return own && own->pdi ? own->identity : NULL; // else nothing is kept
}

int cache_failed(const struct error * err) {
    fprintf(stderr, "ggml-hsa cache: %s\n", err->text);
    return EXIT_BAD_INPUT;
}

static unsigned long long number(uint64_t v) {
    return (unsigned long long) v;
}

// ---- stat ----

static int show_stat(struct cache * cache, struct cache_command * cmd) {
    struct cache_totals t;
    struct error err = {0};
    if (cache_walk(cache, NULL, false, NULL, NULL, &t, &err) != ST_OK) {
        return cache_failed(&err);
    }
    struct buf * b = &cmd->out;
    if (cmd->json) {
        json_put(&cmd->answer, "directory", json_text(cache_path(cache)));
        json_put(&cmd->answer, "kernels", json_size(t.kernels));
        json_put(&cmd->answer, "files", json_size(t.files));
        json_put(&cmd->answer, "bytes", json_size(t.bytes));
        json_put(&cmd->answer, "max_bytes", json_size(cache_max(cache)));
        json_put(&cmd->answer, "quarantined_files", json_size(t.quarantined));
        return EXIT_OK;
    }
    buf_printf(b, "directory    ");
    plain_text(b, cache_path(cache));
    buf_printf(b, "\nkernels      %llu in %llu files\nsize         ", number(t.kernels),
               number(t.files));
    size_text(b, t.bytes);
    buf_printf(b, " of at most ");
    size_text(b, cache_max(cache));
    buf_printf(b, "\nquarantined  %llu files\n", number(t.quarantined));
    return EXIT_OK;
}

// ---- list, verify ----

struct listing {
    struct cache_command * cmd;
    json_t * kernels; // with cmd->json
    bool only_bad, headed;
    uint64_t states[CACHE_STATES];
    int64_t now;
};

static bool list_item(void * user, const struct cache_item * item) {
    struct listing * l = user;
    struct buf * b = &l->cmd->out;
    l->states[item->state]++;
    if (l->only_bad && item->state != CACHE_DAMAGED && item->state != CACHE_FOREIGN) {
        return true;
    }
    if (l->cmd->json) {
        json_t * kernel = json_object();
        json_put(&kernel, "arch", json_string(kernel_arch_name(item->arch)));
        json_put(&kernel, "name", json_text(item->name));
        json_put(&kernel, "state", json_string(state_names[item->state]));
        json_put(&kernel, "bytes", json_size(item->bytes));
        json_put(&kernel, "used", json_integer(item->used));
        if (item->state != CACHE_GOOD) {
            json_put(&kernel, "reason", json_text(item->why.text));
        }
        json_append(&l->kernels, kernel);
    } else {
        if (!l->headed) {
            buf_printf(b, "%-8s %11s  %10s  %s\n", "state", "size", "unused for",
                       "kernel (a PDI that several share counts in each)");
            l->headed = true;
        }
        buf_printf(b, "%-8s %7llu KiB  %5.1f days  %s%s/", state_names[item->state],
                   number(item->bytes >> 10), (double) (l->now - item->used) / 86400,
                   l->cmd->c.name, kernel_arch_name(item->arch));
        plain_text(b, item->name);
        buf_printf(b, "%s%s", l->cmd->c.off, item->state == CACHE_GOOD ? "" : "  ");
        plain_text(b, item->why.text);
        buf_printf(b, "\n");
    }
    return true;
}

static int show_list(struct cache * cache, struct cache_command * cmd, bool verify) {
    struct listing l = {.cmd = cmd, .only_bad = verify, .now = time(NULL)};
    struct cache_totals t;
    struct error err = {0};
    if (cmd->json) {
        l.kernels = json_array();
    }
    // `list` tells stale from good only by reading, and reading is what `verify` is for.
    if (cache_walk(cache, verify ? cache_own_identity() : NULL, verify, list_item, &l, &t, &err) !=
        ST_OK) {
        json_decref(l.kernels);
        return cache_failed(&err);
    }
    if (cmd->json) {
        json_put(&cmd->answer, "kernels", l.kernels);
        for (int i = 0; verify && i < CACHE_STATES; i++) {
            json_put(&cmd->answer, state_names[i], json_size(l.states[i]));
        }
    } else if (verify) {
        for (int i = 0; i < CACHE_STATES; i++) {
            buf_printf(&cmd->out, "%s%llu %s", i ? ", " : "", number(l.states[i]), state_names[i]);
        }
        buf_printf(&cmd->out, "\n");
    }
    return l.states[CACHE_DAMAGED] ? EXIT_BAD_INPUT : EXIT_OK;
}

static int list(struct cache * cache, struct cache_command * cmd) {
    return show_list(cache, cmd, false); // nothing is read, and so nothing is damaged
}

static int verify(struct cache * cache, struct cache_command * cmd) {
    return show_list(cache, cmd, true);
}

// ---- trim, clear ----

static int show_removed(struct cache_command * cmd, const struct cache_totals * t) {
    struct buf * b = &cmd->out;
    const char * would = cmd->dry_run ? "would be " : "";
    if (cmd->json) {
        json_put(&cmd->answer, "removed_kernels", json_size(t->removed_kernels));
        json_put(&cmd->answer, "removed_bytes", json_size(t->removed_bytes));
        json_put(&cmd->answer, "bytes", json_size(t->bytes - t->removed_bytes));
        json_put(&cmd->answer, "in_use", json_size(t->skipped));
        json_put(&cmd->answer, "foreign", json_size(t->foreign));
        json_put(&cmd->answer, "dry_run", json_boolean(cmd->dry_run));
        return EXIT_OK;
    }
    buf_printf(b, "%llu of %llu kernels %sremoved, ", number(t->removed_kernels),
               number(t->kernels), would);
    size_text(b, t->removed_bytes);
    buf_printf(b, " %sfreed, ", would);
    size_text(b, t->bytes - t->removed_bytes);
    buf_printf(b, " %sleft\n", would);
    if (t->skipped) {
        buf_printf(b, "%llu kernels are being made by other processes and stay\n",
                   number(t->skipped));
    }
    if (t->foreign) {
        buf_printf(b, "%llu kernels that other programs put there stay\n", number(t->foreign));
    }
    return EXIT_OK;
}

static int trim(struct cache * cache, struct cache_command * cmd) {
    struct cache_totals t;
    struct error err = {0};
    uint64_t max = cmd->max_given ? cmd->max : cache_max(cache);
    return cache_trim(cache, max, cmd->dry_run, &t, &err) == ST_OK ? show_removed(cmd, &t)
                                                                   : cache_failed(&err);
}

static int clear(struct cache * cache, struct cache_command * cmd) {
    struct cache_totals t;
    struct error err = {0};
    return cache_clear(cache, &t, &err) == ST_OK ? show_removed(cmd, &t) : cache_failed(&err);
}

// ---- command line ----

enum { TAKES_WORDS = 1, TAKES_MAX = 2, TAKES_DRY_RUN = 4 };

static const struct {
    const char * name;
    int takes;
    int (*run)(struct cache * cache, struct cache_command * cmd);
} commands[] = {
    {"stat", 0, show_stat}, {"list", 0, list},
    {"verify", 0, verify},  {"trim", TAKES_MAX | TAKES_DRY_RUN, trim},
    {"clear", 0, clear},    {"why", TAKES_WORDS, cache_why},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

// Sizes are written as in the variable, so its reader reads them.
static bool parse_size(const char * text, uint64_t * out) {
    const char * old = getenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE");
    char * saved = old ? strdup(old) : NULL;
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", text, 1);
    bool ok = *text && cache_max_size(out, NULL) == ST_OK;
    if (saved) {
        setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", saved, 1);
    } else {
        unsetenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE");
    }
    free(saved);
    return ok;
}

static int parse(int argc, char ** argv, int takes, struct cache_command * cmd) {
    for (int i = 2; i < argc; i++) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(option, "--json")) {
            cmd->json = true;
        } else if (!strcmp(option, "--dry-run") && (takes & TAKES_DRY_RUN)) {
            cmd->dry_run = true;
        } else if (!strcmp(option, "--max-size") && (takes & TAKES_MAX)) {
            if (!value || !parse_size(value, &cmd->max)) {
                return tool_usage(&cache_subcommand, "--max-size wants bytes, e.g. 500M");
            }
            cmd->max_given = true;
            i++;
        } else if (!strcmp(option, "--config") && (takes & TAKES_WORDS)) {
            if (!value) {
                return tool_usage(&cache_subcommand, "--config wants a file");
            }
            cmd->config = value;
            i++;
        } else if (!strcmp(option, "--arch") && (takes & TAKES_WORDS)) {
            if (!value || !kernel_arch_parse(value, &cmd->arch)) {
                return tool_usage(&cache_subcommand, "--arch wants aie2 or aie2p");
            }
            i++;
        } else if (option[0] == '-') {
            return tool_usage(&cache_subcommand, "no option '%s' of %s", option, argv[1]);
        } else if ((takes & TAKES_MAX) && !cmd->max_given && parse_size(option, &cmd->max)) {
            cmd->max_given = true; // trim 500M
        } else if (!(takes & TAKES_WORDS)) {
            return tool_usage(&cache_subcommand, "%s takes no '%s'", argv[1], option);
        } else {
            cmd->words[cmd->n_words++] = option;
        }
    }
    return EXIT_OK;
}

static int run_on_cache(struct cache_command * cmd,
                        int (*body)(struct cache * cache, struct cache_command * cmd)) {
    struct cache * cache = NULL;
    struct error err = {0};
    enum status st = cache_open(false, &cache, &err);
    if (st == ST_NOT_FOUND) {
        // Nothing was ever compiled here, or the user wants no cache: no fault of anybody's.
        if (cmd->json) {
            json_put(&cmd->answer, "directory", json_null());
            json_put(&cmd->answer, "reason", json_text(err.text));
        } else {
            buf_printf(&cmd->out, "no kernel cache: ");
            plain_text(&cmd->out, err.text);
            buf_printf(&cmd->out, "\n");
        }
        return body == cache_why ? EXIT_BAD_INPUT : EXIT_OK; // nothing is found in nothing
    }
    if (st != ST_OK) {
        return cache_failed(&err);
    }
    int status = body(cache, cmd);
    cache_close(cache);
    return status;
}

static bool print_answer(struct cache_command * cmd) {
    if (cmd->json && (!cmd->answer || json_object_size(cmd->answer))) {
        json_print(cmd->answer, JSON_INDENT(2), &cmd->out);
        buf_printf(&cmd->out, "\n");
    }
    if (cmd->out.failed) {
        fprintf(stderr, "ggml-hsa cache: %s\n", json_trouble());
        return false;
    }
    fwrite(cmd->out.data ? (const char *) cmd->out.data : "", 1, cmd->out.size, stdout);
    return true;
}

static int run(int argc, char ** argv) {
    if (argc < 2) {
        return tool_usage(&cache_subcommand, "stat, list, verify, trim, clear or why?");
    }
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name)) {
            continue;
        }
        struct cache_command cmd = {.c = tool_colours(),
                                    .words = calloc((size_t) argc, sizeof *cmd.words)};
        if (!cmd.words) {
            struct error err;
            error_set(&err, ST_NO_MEMORY, "no memory for the command line");
            return cache_failed(&err);
        }
        int status = parse(argc, argv, commands[i].takes, &cmd);
        if (status == EXIT_OK) {
            cmd.answer = cmd.json ? json_object() : NULL;
            status = run_on_cache(&cmd, commands[i].run);
            status = print_answer(&cmd) ? status : EXIT_BAD_INPUT;
        }
        json_decref(cmd.answer);
        buf_free(&cmd.out);
        free(cmd.words);
        return status;
    }
    struct nearest near = {0};
    char hint[WORDS_HINT];
    for (int i = 0; i < COMMANDS; i++) {
        words_consider(argv[1], commands[i].name, &near);
    }
    return tool_usage(&cache_subcommand, "no command '%s'%s", argv[1], words_hint(&near, hint));
}

const struct subcommand cache_subcommand = {
    .name = "cache",
    .summary = "the kernels that were compiled before: look, check, trim, clear",
    .help =
        "usage: ggml-hsa cache COMMAND [--json]\n\n"
        "  stat                       where it is, how full it is\n"
        "  list                       every kernel, its size, and when it was last used\n"
        "  verify                     reads all of it; shows kernels that are damaged or not ours\n"
        "  trim [[--max-size] N] [--dry-run]\n"
        "                             drops what was not used for longest (N: bytes, or 500M, "
        "2G),\n"
        "                             and sweeps up after killed processes\n"
        "  clear                      removes all kernels, and nothing else\n"
        "  why NAME [--arch ARCH]     why this kernel is not found: what differs\n"
        "  why OP INPUT... OUTPUT [--arch ARCH]\n"
        "                             the same, e.g. why add '(8,1,1,1)/f32' '(8,1,1,1)/f32'\n"
        "                             '(8,1,1,1)/f32'\n"
        "  why --config FILE [EXPORTED_NAME]\n"
        "                             for the entries of a configuration, e.g. a recorded one\n\n"
        "The directory is GGML_HSA_KERNEL_CACHE_DIR, $XDG_CACHE_HOME/ggml or $HOME/.cache/ggml, "
        "its\n"
        "size at most GGML_HSA_KERNEL_CACHE_MAX_SIZE (1G).\n\n"
        "exit status: 0 done, 1 a kernel is damaged or would not be found, or the cache cannot be\n"
        "used, 2 wrong usage\n",
    .run = run,
};
