// wait: how long a device may give no sign of life before who waits for it gives up. A real one
// that hangs would otherwise hang its caller for ever.
//
// Kept true: time counts from the last progress, not from the beginning, so that many kernels in a
// row are no reason to give up, however long they take together. And it counts only where we were
// there to look: a process that was stopped, or a machine that slept, has seen no silence.
#include "hsac-impl.h"

#include <time.h>

// A kernel of one second is a slow one already.
enum { DEFAULT_LIMIT_S = 60, MOST_LIMIT_S = 1000000 };
// A waiting thread looks every few milliseconds; a longer pause between two looks counts as this
// much.
enum { MOST_STEP_MS = 250 };

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// An emulated device ends loops without end itself, and is too slow to be measured by time. An
// emulated NPU runs in the call that rings for it, where nobody looks: the runtime keeps the limit.
static int limit_of(const struct hsac * h) {
    return env_number("GGML_HSA_WAIT_LIMIT", MOST_LIMIT_S, h->emulated ? 0 : DEFAULT_LIMIT_S);
}

struct hsac_watch hsac_watch_start(const struct hsac * h) {
    return (struct hsac_watch){.limit_s = limit_of(h), .looked_ms = now_ms()};
}

bool hsac_watch_silent(struct hsac_watch * w, uint64_t progress) {
    int64_t now = now_ms(), step = now - w->looked_ms;
    w->looked_ms = now;
    w->silent_ms += step < MOST_STEP_MS ? step : MOST_STEP_MS;
    if (progress != w->progress) {
        w->progress = progress;
        w->silent_ms = 0;
    }
    return w->limit_s && w->silent_ms > 1000 * (int64_t) w->limit_s;
}

enum status hsac_watch_error(const struct hsac_watch * w, const struct hsac_agent * a,
                             const char * what, struct error * err) {
    return error_set(err, ST_DEVICE,
                     "%s: %s: no sign of life for %d s; GGML_HSA_WAIT_LIMIT sets how many seconds "
                     "to wait (0: without end)",
                     a->name, what, w->limit_s);
}
