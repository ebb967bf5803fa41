// place: a directory of a fuzzer's own, in memory where there is such a place, for code that reads
// files by their names. It goes when the program ends.
#pragma once

#include "fuzz.h"

#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char place[64];

static int place_remove_one(const char * path, const struct stat * info, int kind,
                            struct FTW * at) {
    (void) info, (void) kind;
    if (at->level > 0) {
        remove(path);
    }
    return 0;
}

// Everything in it, or in a directory below it.
static inline void place_empty(const char * path) {
    nftw(path, place_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void place_leave(void) {
    place_empty(place);
    rmdir(place);
}

// True: it was made by this call.
static inline bool place_make(void) {
    static const char * const bases[] = {"/dev/shm", "/tmp"};
    for (int i = 0; i < 2 && !place[0]; i++) {
        snprintf(place, sizeof place, "%s/fuzz-XXXXXX", bases[i]);
        if (mkdtemp(place)) {
            atexit(place_leave);
            return true;
        }
        place[0] = '\0';
    }
    if (!place[0]) {
        abort();
    }
    return false;
}

static inline void place_write(const char * path, const void * data, size_t size) {
    FILE * f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f)) {
        abort();
    }
}
