// start: see the header. RLIMIT_DATA counts what a process may write of its own, so it is set to
// what is used already and a little more.
#include "start.h"

#include "accel.h"

#include <sys/resource.h>

enum { SPARE_BYTES = 64 << 20 };

static struct rlimit before;
static bool held;

static uint64_t data_bytes(void) {
    unsigned long long kib = 0;
    char line[128];
    FILE * f = accel_libc()->fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "VmData: %llu kB", &kib) != 1) {
    }
    if (f) {
        fclose(f);
    }
    return (uint64_t) kib << 10;
}

void accel_start_hold(void) {
    uint64_t used = data_bytes();
    if (held || used == 0 || getrlimit(RLIMIT_DATA, &before) != 0) {
        return;
    }
    struct rlimit little = before;
    little.rlim_cur = used + SPARE_BYTES;
    held = little.rlim_cur < before.rlim_cur && setrlimit(RLIMIT_DATA, &little) == 0;
}

void accel_start_release(void) {
    if (held) {
        setrlimit(RLIMIT_DATA, &before);
        held = false;
    }
}
