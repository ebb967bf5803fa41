// rocm-kernels-cache: the cache for people and scripts.
#include "rocm-kernels.h"

#include "words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char * const state_names[HIP_STATES] = {[HIP_GOOD] = "good",
                                                     [HIP_STALE] = "stale",
                                                     [HIP_DAMAGED] = "damaged",
                                                     [HIP_FOREIGN] = "foreign"};

struct listing {
    bool only_bad;
    json_t * items; // with --json
    uint64_t states[HIP_STATES];
    int64_t now;
};

static bool print_item(void * user, const struct hip_item * item) {
    struct listing * l = user;
    l->states[item->state]++;
    if (l->only_bad && item->state == HIP_GOOD) {
        return true;
    }
    if (in_json) {
        json_t * entry = json_object();
        json_put(&entry, "directory", json_string(item->dir));
        json_put(&entry, "name", json_string(item->stem));
        json_put(&entry, "state", json_string(state_names[item->state]));
        json_put(&entry, "bytes", json_size(item->bytes));
        json_put(&entry, "why", item->why.text[0] ? json_string(item->why.text) : json_null());
        json_append(&l->items, entry);
    } else {
        printf("%-8s %7llu KiB  %5.1f days  %s/%s%s%s\n", state_names[item->state],
               (unsigned long long) item->bytes >> 10, (double) (l->now - item->used) / 86400,
               item->dir, item->stem, item->why.text[0] ? "  " : "", item->why.text);
    }
    return true;
}

static int show(struct hip_cache * cache, bool verify) {
    struct listing l = {
        .only_bad = verify, .items = in_json ? json_array() : NULL, .now = time(NULL)};
    struct hip_totals totals;
    struct error err = {0};
    struct hip_toolchain current = {.root = cache->root};
    if (verify && hip_toolchain_find(&current, hip_compiler_choice(NULL), &err) != ST_OK) {
        return say_failed(err.text);
    }
    enum status st =
        hip_cache_walk(cache, verify, verify ? &current : NULL, print_item, &l, &totals, &err);
    hip_toolchain_free(&current);
    if (st != ST_OK) {
        return say_failed(err.text);
    }
    if (in_json) {
        json_put(&answer, "code_objects", l.items);
    }
    for (int i = 0; verify && in_json && i < HIP_STATES; i++) {
        json_put(&answer, state_names[i], json_size(l.states[i]));
    }
    for (int i = 0; verify && !in_json && i < HIP_STATES; i++) {
        printf("%s%llu %s%s", i ? ", " : "", (unsigned long long) l.states[i], state_names[i],
               i + 1 == HIP_STATES ? "\n" : "");
    }
    return l.states[HIP_DAMAGED] ? EXIT_BAD_INPUT : EXIT_OK;
}

static double mib(uint64_t bytes) {
    return (double) bytes / (1 << 20);
}

static int show_stat(struct hip_cache * cache) {
    struct hip_totals t;
    struct error err = {0};
    if (hip_cache_walk(cache, false, NULL, NULL, NULL, &t, &err) != ST_OK) {
        return say_failed(err.text);
    }
    if (in_json) {
        json_put(&answer, "directory", json_string(cache->path));
        json_put(&answer, "code_objects", json_size(t.items));
        json_put(&answer, "bytes", json_size(t.bytes));
        json_put(&answer, "max_bytes", json_size(cache->max));
        return EXIT_OK;
    }
    printf("directory     %s\ncode objects  %llu\nsize          %.1f MiB of at most %.1f MiB\n",
           cache->path, (unsigned long long) t.items, mib(t.bytes), mib(cache->max));
    return EXIT_OK;
}

static int show_removed(enum status st, const struct hip_totals * t, const struct error * err) {
    if (st != ST_OK) {
        return say_failed(err->text);
    }
    if (in_json) {
        json_put(&answer, "removed", json_size(t->removed));
        json_put(&answer, "removed_bytes", json_size(t->removed_bytes));
        json_put(&answer, "code_objects", json_size(t->items - t->removed));
        json_put(&answer, "in_use", json_size(t->skipped));
        return EXIT_OK;
    }
    printf("%llu of %llu code objects removed, %.1f MiB freed\n", (unsigned long long) t->removed,
           (unsigned long long) t->items, mib(t->removed_bytes));
    if (t->skipped) {
        printf("%llu are being made by other processes and stay\n",
               (unsigned long long) t->skipped);
    }
    return EXIT_OK;
}

static int run_on(struct hip_cache * cache, const char * what, uint64_t max) {
    struct hip_totals totals;
    struct error err = {0};
    if (!strcmp(what, "stat")) {
        return show_stat(cache);
    }
    if (!strcmp(what, "list") || !strcmp(what, "verify")) {
        return show(cache, what[0] == 'v');
    }
    enum status st = !strcmp(what, "clear") ? hip_cache_clear(cache, &totals, &err)
                                            : hip_cache_trim(cache, max, &totals, &err);
    return show_removed(st, &totals, &err);
}

int run_cache(int argc, char ** argv) {
    static const char * const words[] = {"stat", "list", "verify", "trim", "clear"};
    const char * what = argc > 1 ? argv[1] : "stat";
    bool known = false, trim = !strcmp(what, "trim");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        known = known || !strcmp(what, words[i]);
    }
    // As `ggml-hsa cache trim`: --max-size N, or N alone; neither: the limit that is set.
    bool named = trim && argc > 2 && !strcmp(argv[2], "--max-size");
    const char * size = trim && argc > 2 + named ? argv[2 + named] : NULL;
    if (!known || argc > 2 + named + (size != NULL) || (named && !size)) {
        struct nearest near = {0};
        char hint[WORDS_HINT];
        for (size_t i = 0; !known && i < sizeof words / sizeof words[0]; i++) {
            words_consider(what, words[i], &near);
        }
        return say_usage("cache stat, list, verify, trim [--max-size N] or clear%s",
                         words_hint(&near, hint));
    }
    struct error err = {0};
    struct hip_cache cache = {0};
    uint64_t max = 0;
    if (size) { // sizes are written as in the variable, so its reader reads them
        setenv("ROCM_KERNELS_TRIM", size, 1);
        if (keep_size("ROCM_KERNELS_TRIM", 0, &max, &err) != ST_OK) {
            return say_usage("--max-size wants bytes, e.g. 500M");
        }
    }
    enum status st = hip_cache_open(false, &cache, &err);
    if (st == ST_NOT_FOUND) { // nothing was ever compiled here, or the user wants no cache
        if (in_json) {
            json_put(&answer, "directory", json_null());
            json_put(&answer, "reason", json_string(err.text));
        } else {
            printf("no cache: %s\n", err.text);
        }
        return EXIT_OK;
    }
    if (st != ST_OK) {
        return say_failed(err.text);
    }
    int status = run_on(&cache, what, size ? max : cache.max);
    hip_cache_close(&cache);
    return status;
}
