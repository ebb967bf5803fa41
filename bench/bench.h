// bench: what benchmarks that write files share: a clock, a median, a row of the table, and a
// directory of their own.
#pragma once

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// What a benchmark without arguments does with some: --help says what it measures and ends with 0,
// another one with 2.
static inline void bench_no_arguments(int argc, char ** argv, const char * name,
                                      const char * about) {
    if (argc > 1) {
        int help = !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h");
        fprintf(help ? stdout : stderr, "usage: %s\n\nMeasures %s. It takes no arguments.\n", name,
                about);
        exit(help ? 0 : 2);
    }
}

static inline double bench_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static inline void bench_head(void) {
    printf("%-52s %10s %-22s %s\n", "what", "measured", "unit", "target");
}

static inline void bench_row(const char * what, double measured, const char * unit,
                             const char * target) {
    printf("%-52s %10.3f %-22s %s\n", what, measured, unit, target);
}

static inline int bench_by_value(const void * a, const void * b) {
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static inline double bench_median(double * v, int n) { // sorts them
    qsort(v, (size_t) n, sizeof *v, bench_by_value);
    return v[n / 2];
}

static inline void bench_dir_new(char dir[512]) {
    const char * home = getenv("HOME"); // a real disk, which /tmp need not be
    snprintf(dir, 512, "%s/.bench-XXXXXX", home ? home : "/tmp");
    if (!mkdtemp(dir)) {
        perror(dir);
        exit(1);
    }
}

static inline int bench_remove_one(const char * path, const struct stat * info, int kind,
                                   struct FTW * at) {
    (void) info, (void) kind, (void) at;
    return remove(path);
}

static inline void bench_dir_remove(const char * dir) {
    nftw(dir, bench_remove_one, 16, FTW_DEPTH | FTW_PHYS); // made by mkdtemp, all of it is ours
}
