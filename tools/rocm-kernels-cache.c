// rocm-kernels-cache: the cache for people and scripts.
#include "rocm-kernels.h"

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
    uint64_t states[HIP_STATES];
    int64_t now;
};

static bool print_item(void * user, const struct hip_item * item) {
    struct listing * l = user;
    l->states[item->state]++;
    if (!l->only_bad || item->state != HIP_GOOD) {
        printf("%-8s %7llu KiB  %5.1f days  %s/%s%s%s\n", state_names[item->state],
               (unsigned long long) item->bytes >> 10, (double) (l->now - item->used) / 86400,
               item->dir, item->stem, item->why.text[0] ? "  " : "", item->why.text);
    }
    return true;
}

static int show(struct hip_cache * cache, bool verify) {
    struct listing l = {.only_bad = verify, .now = time(NULL)};
    struct hip_totals totals;
    struct error err = {0};
    struct hip_toolchain current = {.root = cache->root};
    if (verify && hip_toolchain_find(&current, NULL, &err) != ST_OK) {
        return say_failed(err.text);
    }
    enum status st =
        hip_cache_walk(cache, verify, verify ? &current : NULL, print_item, &l, &totals, &err);
    hip_toolchain_free(&current);
    if (st != ST_OK) {
        return say_failed(err.text);
    }
    for (int i = 0; verify && i < HIP_STATES; i++) {
        printf("%s%llu %s%s", i ? ", " : "", (unsigned long long) l.states[i], state_names[i],
               i + 1 == HIP_STATES ? "\n" : "");
    }
    return l.states[HIP_DAMAGED] ? EXIT_BAD_INPUT : EXIT_OK;
}

static int show_stat(struct hip_cache * cache) {
    struct hip_totals t;
    struct error err = {0};
    if (hip_cache_walk(cache, false, NULL, NULL, NULL, &t, &err) != ST_OK) {
        return say_failed(err.text);
    }
    printf("directory     %s\ncode objects  %llu\nsize          %.1f MB of at most %.1f MB\n",
           cache->path, (unsigned long long) t.items, (double) t.bytes * 1e-6,
           (double) cache->max * 1e-6);
    return EXIT_OK;
}

static int show_removed(enum status st, const struct hip_totals * t, const struct error * err) {
    if (st != ST_OK) {
        return say_failed(err->text);
    }
    printf("%llu of %llu code objects removed, %.1f MB freed\n", (unsigned long long) t->removed,
           (unsigned long long) t->items, (double) t->removed_bytes * 1e-6);
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
    if (!known || argc > 2 + trim || (trim && argc < 3)) {
        return say_usage("cache stat, list, verify, trim SIZE or clear");
    }
    struct error err = {0};
    struct hip_cache cache = {0};
    uint64_t max = 0;
    if (trim) { // sizes are written as in the variable, so its reader reads them
        setenv("ROCM_KERNELS_TRIM", argv[2], 1);
        if (keep_size("ROCM_KERNELS_TRIM", 0, &max, &err) != ST_OK) {
            return say_usage("trim wants bytes, e.g. 500M");
        }
    }
    enum status st = hip_cache_open(false, &cache, &err);
    if (st == ST_NOT_FOUND) { // nothing was ever compiled here, or the user wants no cache
        printf("no cache: %s\n", err.text);
        return EXIT_OK;
    }
    if (st != ST_OK) {
        return say_failed(err.text);
    }
    int status = run_on(&cache, what, max);
    hip_cache_close(&cache);
    return status;
}
