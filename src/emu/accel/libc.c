// libc: the functions of libc that preload.c stands before, found once. They may be wanted before
// any constructor ran, so they are found when they are first asked for.
#include "accel.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static struct accel_libc found;

static void find(void) {
    void * p;
    // Function pointers and data pointers are the same on every system that has dlsym.
#define FIND(type, name, args)                                                                     \
    p = dlsym(RTLD_NEXT, #name);                                                                   \
    if (!p) {                                                                                      \
        fprintf(stderr, "accel-emu: libc has no %s\n", #name);                                     \
        abort(); /* every libc that can load us has it */                                          \
    }                                                                                              \
    memcpy(&found.name, &p, sizeof p);
    ACCEL_LIBC(FIND)
#undef FIND
}

const struct accel_libc * accel_libc(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
    return &found;
}
