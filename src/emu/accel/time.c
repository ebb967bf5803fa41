// time: the clock of a program whose NPU is played. Where ACCEL_EMU_MODELLED_TIME=1 asks for it,
// the program's monotonic clock stands still but for what the device has taken by its model, so
// that whoever measures by that clock, as on silicon, measures the model and not the emulation.
//
// Kept true: the clock never goes back, and other clocks are the machine's.
#include "accel.h"

#include <stdatomic.h>

static atomic_bool modelled;
static _Atomic uint64_t passed; // ns, from the machine's time when it began

static uint64_t real_ns(void) {
    struct timespec t;
    accel_libc()->clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

void accel_time_begin(bool on) {
    if (on && !atomic_load(&modelled)) {
        atomic_store(&passed, real_ns());
        atomic_store(&modelled, true);
    }
}

void accel_time_pass(uint64_t ns) {
    atomic_fetch_add(&passed, ns);
}

int accel_time_get(clockid_t id, struct timespec * out) {
    // Those by which our runtime, ROCr and programs measure.
    bool ours = id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_RAW || id == CLOCK_BOOTTIME;
    if (!ours || !atomic_load(&modelled)) {
        return accel_libc()->clock_gettime(id, out);
    }
    uint64_t ns = atomic_load(&passed);
    *out = (struct timespec){(time_t) (ns / 1000000000), (long) (ns % 1000000000)};
    return 0;
}
