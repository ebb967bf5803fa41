// preflight: lets an unmodified rocminfo start without the amdgpu driver. Before it calls hsa_init
// it looks for the driver's module, in 5.2 by `lsmod | grep amdgpu` and since 6.0 by opening its
// directory in /sys, then opens /dev/kfd, and stops when either fails. This library stands before
// libc in rocminfo's search order, so its open() and popen() are found first.
//
// Kept true: only those requests are answered here, and only while GGML_HSA_EMULATE is set or the
// machine has an NPU, which needs neither; everything else goes to libc as it came. A program that
// loads us with dlopen never calls these.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

// What is opened in place of what the driver would have made.
static const struct {
    const char *path, *instead;
} stand_ins[] = {
    {"/dev/kfd", "/dev/null"}, {"/sys/module/amdgpu", "/"}, // asked for as a directory
};

static bool emulating(void) {
    const char * names = getenv("GGML_HSA_EMULATE");
    return (names && *names) || access("/dev/accel/accel0", F_OK) == 0;
}

EXPORT int open(const char * path, int flags, ...) {
    int (*libc_open)(const char *, int, ...);
    *(void **) &libc_open = dlsym(RTLD_NEXT, "open");
    mode_t mode = 0;
    if (flags & O_CREAT ||
        (flags & O_TMPFILE) == O_TMPFILE) { // else there is no third argument to read
        va_list args;
        va_start(args, flags);
        mode = (mode_t) va_arg(args, unsigned);
        va_end(args);
    }
    for (size_t i = 0; i < sizeof stand_ins / sizeof stand_ins[0]; i++) {
        if (!strcmp(path, stand_ins[i].path) && emulating()) {
            path = stand_ins[i].instead;
        }
    }
    return libc_open(path, flags, mode);
}

EXPORT FILE * popen(const char * command, const char * type) {
    FILE * (*libc_popen)(const char *, const char *);
    *(void **) &libc_popen = dlsym(RTLD_NEXT, "popen");
    if (command && !strcmp(command, "lsmod | grep amdgpu") && emulating()) {
        command = "echo amdgpu"; // a real child, so that pclose() has one to wait for
    }
    return libc_popen(command, type);
}
