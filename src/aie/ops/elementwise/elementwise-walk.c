// elementwise-walk: a nest of loops over memory as one shim descriptor. A descriptor counts two
// dimensions and runs on along a third; a task may run it several times, each time a fixed step
// further, or on the same words again. Dimensions that lie end to end are one.
//
// Kept true: every field fits its bits; what does not is refused, never cut.
#include "elementwise-plan.h"

enum {
    MAX_WRAP = 1023,     // 10 bits, 0 means none
    MAX_STEP = 1 << 20,  // 20 bits, kept less one
    MAX_ITERATIONS = 64, // 6 bits, kept less one
    MAX_REPEAT = 256,    // of a task in the queue
};

struct loop {
    int64_t extent, step; // step in words
};

// Drops what does not move and joins what lies end to end.
static int simplify(const struct plan_dim * dims, int n, int operand,
                    struct loop loops[PLAN_DIMS]) {
    int count = 0;
    for (int i = 0; i < n; i++) {
        struct loop d = {dims[i].extent, dims[i].stride[operand] / 4};
        if (d.extent == 1) {
            continue;
        }
        struct loop * last = count ? &loops[count - 1] : NULL;
        if (last && d.step == last->extent * last->step) {
            last->extent *= d.extent;
        } else {
            loops[count++] = d;
        }
    }
    return count;
}

// The largest divisor of n that a wrap can hold together with n over it, or 0.
static int64_t divisor(int64_t n) {
    for (int64_t f = MAX_WRAP; f > 1 && n / f <= MAX_WRAP; f--) {
        if (n % f == 0) {
            return f;
        }
    }
    return 0;
}

static bool add_counted(struct plan_walk * w, int * at, int64_t extent, int64_t step) {
    if (*at > 1 || extent > MAX_WRAP || step > MAX_STEP) {
        return false;
    }
    w->wrap[*at] = (uint32_t) extent;
    w->step[(*at)++] = (uint32_t) step;
    return true;
}

// The loops within one run of the descriptor; the outermost needs no counter.
static bool fit(const struct loop * loops, int n, struct plan_walk * w) {
    int at = 0;
    int64_t words = 1;
    for (int i = 0; i < n; i++) {
        const struct loop * d = &loops[i];
        words *= d->extent;
        if (d->step < 1 || d->step > MAX_STEP || words > UINT32_MAX) {
            return false;
        }
        if (i == n - 1) {
            w->step[at] = (uint32_t) d->step;
        } else if (d->extent <= MAX_WRAP) {
            if (!add_counted(w, &at, d->extent, d->step)) {
                return false;
            }
        } else {
            int64_t f = divisor(d->extent);
            if (!f || !add_counted(w, &at, f, d->step) ||
                !add_counted(w, &at, d->extent / f, f * d->step)) {
                return false;
            }
        }
    }
    w->words = (uint32_t) words;
    return true;
}

bool plan_walk_make(const struct plan_dim * dims, int n, int operand, struct plan_walk * out) {
    struct loop loops[PLAN_DIMS];
    int count = simplify(dims, n, operand, loops);
    const struct plan_walk start = {.offset = out->offset, .repeat = 1};
    *out = start;
    if (count && loops[count - 1].step == 0) { // the same words again
        out->repeat = (uint32_t) loops[--count].extent;
        return loops[count].extent <= MAX_REPEAT && fit(loops, count, out);
    }
    if (fit(loops, count, out)) {
        return true;
    }
    *out = start;
    const struct loop * last = &loops[--count];
    if (last->extent > MAX_ITERATIONS || last->step < 1 || last->step > MAX_STEP) {
        return false;
    }
    out->repeat = (uint32_t) last->extent;
    out->repeat_step = (uint32_t) last->step;
    return fit(loops, count, out);
}
