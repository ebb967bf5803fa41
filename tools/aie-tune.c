// aie-tune: makes the table of schedules that the NPU compiler looks its loops up in. For who has
// changed or added an op: the compiler overlaps the trips of a loop that is not in the table as a
// short search finds, which is right and perhaps slower.
//
//   aie-tune                       lists loops that the table has no schedule for
//   aie-tune --write FILE          writes the table: what holds stays, what is missing is searched
//                                  for, some 20 seconds for a long loop
//   aie-tune --write FILE --quick  without patience, as a compilation does
//   aie-tune --write FILE --loose  searches again where an interval is over 1.3 of what slots take
//   aie-tune --write FILE --anew   searches for all of them, which takes an hour
//
// A loop's name behind these (aie2/plain/3) leaves all others as they are.
#include "aie/asm/text.h"
#include "aie/tune/tune.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct counts {
    int loops, untuned;
};

static enum status list(void * user, const char * name, const char * text, struct error * err) {
    struct counts * n = user;
    struct asm_program * p = NULL;
    struct asm_code code = {0};
    enum status st = asm_read(text, &p, err);
    st = st == ST_OK ? asm_finish(p, &code, err) : st;
    for (int i = 0; st == ST_OK && i < code.stats.n_loops; i++) {
        n->loops++;
        n->untuned += code.stats.loop_untuned[i];
        if (code.stats.loop_untuned[i]) {
            printf("%s/%d: %d instructions every %d bundles\n", name, i, code.stats.loop_ops[i],
                   code.stats.loop_ii[i]);
        }
    }
    free(code.bytes);
    asm_free(p);
    return st;
}

static int list_all(void) {
    struct counts n = {0};
    struct error err = {0};
    if (tune_every_program(list, &n, &err) != ST_OK) {
        fprintf(stderr, "aie-tune: %s\n", err.text);
        return 1;
    }
    printf("%d of %d loops want tuning\n", n.untuned, n.loops);
    return 0;
}

static enum status tune(void * user, const char * name, const char * text, struct error * err) {
    return tune_program(user, name, text, err);
}

static enum status write_file(const char * path, const struct buf * text, struct error * err) {
    FILE * file = fopen(path, "we");
    bool ok = file && fwrite(text->data, 1, text->size, file) == text->size;
    ok = file && fclose(file) == 0 && ok;
    return ok ? ST_OK : error_set(err, ST_IO, "%s could not be written: %s", path, strerror(errno));
}

static int write_table(const char * path, enum tune_effort effort, const char * only) {
    struct tune t;
    struct buf text = {0};
    struct error err = {0};
    tune_init(&t, effort, &asm_own_schedules);
    t.only = only;
    enum status st = tune_every_program(tune, &t, &err);
    st = st == ST_OK ? tune_print(&t, &text, &err) : st;
    st = st == ST_OK ? write_file(path, &text, &err) : st;
    if (st != ST_OK) {
        fprintf(stderr, "aie-tune: %s\n", err.text);
    } else {
        printf("%d schedules; build again, and write the digests:\n"
               "build/bin/test-digests --write tests/aie/ops/digests.txt\n",
               t.n);
    }
    buf_free(&text);
    tune_free(&t);
    return st == ST_OK ? 0 : 1;
}

static int usage(void) {
    fprintf(stderr, "usage: aie-tune [--write FILE [--quick | --loose | --anew] [LOOP]]\n");
    return 2;
}

int main(int argc, char ** argv) {
    static const struct {
        const char * word;
        enum tune_effort effort;
    } efforts[] = {{"--quick", TUNE_QUICK}, {"--loose", TUNE_LOOSE}, {"--anew", TUNE_ANEW}};
    const char *path = NULL, *only = NULL;
    enum tune_effort effort = TUNE_NEW;
    for (int i = 1; i < argc; i++) {
        int e = 0;
        while (e < 3 && strcmp(argv[i], efforts[e].word) != 0) {
            e++;
        }
        if (e < 3) {
            effort = efforts[e].effort;
        } else if (strcmp(argv[i], "--write") == 0 && i + 1 < argc && !path) {
            path = argv[++i];
        } else if (argv[i][0] != '-' && !only) {
            only = argv[i];
        } else {
            return usage();
        }
    }
    if (!path && argc > 1) {
        return usage();
    }
    return path ? write_table(path, effort, only) : list_all();
}
