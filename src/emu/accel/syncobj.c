// syncobj: the way to wait. A context has a timeline, whose points are the numbers of its commands;
// the program has a handle of it, waits for points, asks which came last, or has an eventfd told.
// Point 0 means the newest, as everywhere in the DRM, and the first command has number 0: who waits
// for it waits for all that were sent by then.
//
// Time is modelled: whoever waits for a command that is on its way waits until it ended, however
// long the emulation takes, and is then told ETIME when its modelled time was longer than the rest
// of his patience. Where nothing is on its way (a point that nobody submitted, a command that is
// stuck for good) the clock on the wall counts.
#include "accel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
    CREATE_SIGNALED = 1,
    WAIT_ALL = 1,
    WAIT_FOR_SUBMIT = 2,
    WAIT_AVAILABLE = 4,
    WAIT_DEADLINE = 8,
    QUERY_LAST_SUBMITTED = 1,
    MAX_HANDLES = 1024,
};

// ---- timelines ----

struct accel_timeline * accel_timeline_new(void) {
    struct accel_timeline * t = calloc(1, sizeof *t);
    if (t) {
        t->refs = 1;
    }
    return t;
}

void accel_timeline_put(struct accel_timeline * t) {
    if (--t->refs > 0) {
        return;
    }
    while (t->notices) {
        struct accel_notice * n = t->notices;
        t->notices = n->next;
        accel_libc()->close(n->fd);
        free(n);
    }
    free(t);
}

// The point that is meant, as the number of points that must be there.
static uint64_t wanted(const struct accel_timeline * t, uint64_t point) {
    return point ? point + 1 : t->submitted;
}

static bool submitted(const struct accel_timeline * t, uint64_t point) {
    return t->has_fence && wanted(t, point) <= t->submitted;
}

void accel_timeline_tell(struct accel_timeline * t) {
    for (struct accel_notice ** link = &t->notices; *link;) {
        struct accel_notice * n = *link;
        if (n->point >= (n->available ? t->submitted : t->ended)) {
            link = &n->next;
            continue;
        }
        *link = n->next;
        // An eventfd that the program has filled to the brim takes no more; so be it in the kernel.
        (void) !eventfd_write(n->fd, 1);
        accel_libc()->close(n->fd);
        free(n);
    }
}

// ---- handles ----

uint32_t accel_syncobj_new(struct accel_device * dev, struct accel_file * f,
                           struct accel_timeline * t) {
    uint32_t h = 1;
    while (h < f->max_syncobjs && f->syncobjs[h]) {
        h++;
    }
    if (h >= f->max_syncobjs) {
        uint32_t max = f->max_syncobjs ? 2 * f->max_syncobjs : 16;
        struct accel_timeline ** syncobjs = realloc(f->syncobjs, max * sizeof *syncobjs);
        if (!syncobjs) {
            return 0;
        }
        memset(syncobjs + f->max_syncobjs, 0, (max - f->max_syncobjs) * sizeof *syncobjs);
        f->syncobjs = syncobjs;
        f->max_syncobjs = max;
    }
    f->syncobjs[h] = t;
    t->refs++;
    dev->counts.live_syncobjs++;
    return h;
}

static struct accel_timeline * find(const struct accel_file * f, uint32_t handle) {
    return handle < f->max_syncobjs ? f->syncobjs[handle] : NULL;
}

static void drop(struct accel_device * dev, struct accel_file * f, uint32_t handle) {
    accel_timeline_put(f->syncobjs[handle]);
    f->syncobjs[handle] = NULL;
    dev->counts.live_syncobjs--;
}

void accel_file_drop_syncobjs(struct accel_device * dev, struct accel_file * f) {
    for (uint32_t h = 1; h < f->max_syncobjs; h++) {
        if (f->syncobjs[h]) {
            drop(dev, f, h);
        }
    }
    free(f->syncobjs);
}

int accel_syncobj_create(struct accel_call * c) {
    struct xdna_syncobj * a = c->arg;
    if (a->flags & ~(uint32_t) CREATE_SIGNALED) {
        return accel_refuse(c, EINVAL, "flags 0x%x: expected 0 or 1", a->flags);
    }
    struct accel_timeline * t = accel_timeline_new();
    a->handle = t ? accel_syncobj_new(c->dev, c->file, t) : 0;
    if (t) {
        t->has_fence = a->flags & CREATE_SIGNALED;
        accel_timeline_put(t); // the handle holds it now
    }
    if (!a->handle) {
        return accel_refuse(c, ENOMEM, "no memory for a syncobj");
    }
    accel_words(c, "syncobj %u", a->handle);
    return 0;
}

int accel_syncobj_destroy(struct accel_call * c) {
    const struct xdna_syncobj * a = c->arg;
    if (a->flags) { // what DRM calls pad here
        return accel_refuse(c, EINVAL, "pad is not 0");
    }
    if (!find(c->file, a->handle)) {
        return accel_refuse(c, EINVAL, "there is no syncobj %u", a->handle);
    }
    accel_words(c, "syncobj %u", a->handle);
    drop(c->dev, c->file, a->handle);
    return 0;
}

// ---- many at once ----

struct awaited {
    struct accel_timeline * t; // held
    uint64_t point, first;     // as asked, and what had ended then
};

static void release(struct awaited * list, uint32_t n) {
    for (uint32_t i = 0; list && i < n; i++) {
        if (list[i].t) {
            accel_timeline_put(list[i].t);
        }
    }
    free(list);
}

// Reads handles, and points unless `points` is 0. *out is to be released, also after a refusal.
static int take(struct accel_call * c, uint64_t handles, uint64_t points, uint32_t n,
                struct awaited ** out) {
    struct awaited * list = *out = calloc(n, sizeof *list);
    if (!list) {
        return accel_refuse(c, ENOMEM, "no memory for %u syncobjs", n);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t handle;
        if (!accel_user_read(&handle, handles + 4 * (uint64_t) i, sizeof handle) ||
            (points &&
             !accel_user_read(&list[i].point, points + 8 * (uint64_t) i, sizeof list[i].point))) {
            return accel_refuse(c, EFAULT, "handle or point %u cannot be read", i);
        }
        struct accel_timeline * t = find(c->file, handle);
        if (!t) {
            return accel_refuse(c, ENOENT, "there is no syncobj %u", handle);
        }
        t->refs++;
        list[i].t = t;
        list[i].first = t->ended;
    }
    return 0;
}

// ---- waiting ----

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static bool come(const struct awaited * w, uint32_t flags) {
    const struct accel_timeline * t = w->t;
    return submitted(t, w->point) && (flags & WAIT_AVAILABLE || wanted(t, w->point) <= t->ended);
}

static double modelled_ms(const struct awaited * w) {
    double ms = 0;
    uint64_t end = wanted(w->t, w->point);
    for (uint64_t seq = w->first; seq < end && seq < w->t->ended; seq++) {
        const struct accel_result * r = &w->t->results[seq % ACCEL_RESULTS];
        ms += r->seq == seq ? r->ms : 0;
    }
    return ms;
}

// Until enough have come: all, or the first. True when the clock on the wall was faster.
static bool wait_for(struct accel_call * c, struct awaited * list, uint32_t n, uint32_t flags,
                     int64_t until, uint32_t * first) {
    for (;;) {
        uint32_t here = 0;
        bool wall = false;
        for (uint32_t i = 0; i < n; i++) {
            bool there = come(&list[i], flags);
            *first = there && here++ == 0 ? i : *first;
            wall |= !there && (c->dev->stuck || !submitted(list[i].t, list[i].point));
        }
        if (flags & WAIT_ALL ? here == n : here > 0) {
            return false;
        }
        if (until <= 0 || (wall && now_ns() >= until)) {
            return true;
        }
        if (wall && until < INT64_MAX) {
            const struct timespec t = {until / 1000000000, until % 1000000000};
            pthread_cond_clockwait(&c->dev->changed, &c->dev->lock, CLOCK_MONOTONIC, &t);
        } else {
            pthread_cond_wait(&c->dev->changed, &c->dev->lock);
        }
    }
}

static int check_submitted(struct accel_call * c, const struct awaited * list, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (!submitted(list[i].t, list[i].point)) {
            return accel_refuse(c, EINVAL, "point %llu of syncobj number %u was not submitted",
                                (unsigned long long) list[i].point, i);
        }
    }
    return 0;
}

int accel_timeline_wait(struct accel_call * c) {
    struct xdna_timeline_wait * a = c->arg;
    if (a->flags & ~(uint32_t) (WAIT_ALL | WAIT_FOR_SUBMIT | WAIT_AVAILABLE | WAIT_DEADLINE)) {
        return accel_refuse(c, EINVAL, "flags 0x%x", a->flags);
    }
    if (a->count == 0) {
        return 0;
    }
    if (a->count > MAX_HANDLES) {
        return accel_refuse(c, ENOMEM, "%u syncobjs at once", a->count);
    }
    struct awaited * list = NULL;
    int result = take(c, a->handles, a->points, a->count, &list);
    if (result == 0 && !(a->flags & (WAIT_FOR_SUBMIT | WAIT_AVAILABLE))) {
        result = check_submitted(c, list, a->count);
    }
    int64_t begin = now_ns();
    if (result == 0) {
        accel_words(c, "%u syncobjs, the first at point %llu, %lld ns from now", a->count,
                    (unsigned long long) list[0].point, (long long) (a->timeout_ns - begin));
        // What is in the past is a look.
        int64_t until = a->timeout_ns > begin ? a->timeout_ns : 0;
        uint32_t first = 0;
        bool late = wait_for(c, list, a->count, a->flags, until, &first);
        double ms = 0, patience = (double) (a->timeout_ns - begin) / 1e6;
        for (uint32_t i = 0; i < a->count && !late; i++) {
            double each = a->flags & WAIT_ALL || i == first ? modelled_ms(&list[i]) : 0;
            ms = each > ms ? each : ms;
        }
        if (late || (ms > 0 && ms > patience)) {
            c->dev->counts.timeouts += until != 0;
            // A caller that only polls made no mistake: nothing is reported.
            result = until == 0
                         ? -ETIME
                         : accel_refuse(c, ETIME,
                                        "point %llu takes %.3f modelled ms, the caller waits "
                                        "%.3f",
                                        (unsigned long long) list[0].point, ms, patience);
        }
        a->first_signaled = first;
    }
    release(list, a->count);
    return result;
}

// ---- questions and eventfds ----

int accel_syncobj_query(struct accel_call * c) {
    const struct xdna_timeline_query * a = c->arg;
    if (a->flags & ~(uint32_t) QUERY_LAST_SUBMITTED) {
        return accel_refuse(c, EINVAL, "flags 0x%x", a->flags);
    }
    if (a->count == 0 || a->count > MAX_HANDLES) {
        return accel_refuse(c, EINVAL, "%u syncobjs", a->count);
    }
    struct awaited * list = NULL;
    int result = take(c, a->handles, 0, a->count, &list);
    for (uint32_t i = 0; i < a->count && result == 0; i++) {
        const struct accel_timeline * t = list[i].t;
        uint64_t points = a->flags & QUERY_LAST_SUBMITTED ? t->submitted : t->ended;
        points = points ? points - 1 : 0;
        if (!accel_user_write(a->points + 8 * (uint64_t) i, &points, sizeof points)) {
            result = accel_refuse(c, EFAULT, "point %u cannot be written", i);
        }
    }
    release(list, a->count);
    accel_words(c, "%u syncobjs", a->count);
    return result;
}

static bool is_eventfd(int fd) {
    char path[64], target[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t n = accel_libc()->readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    return strstr(target, "[eventfd]") != NULL;
}

int accel_syncobj_eventfd(struct accel_call * c) {
    const struct xdna_syncobj_eventfd * a = c->arg;
    struct accel_timeline * t = find(c->file, a->handle);
    if (a->pad || a->flags & ~(uint32_t) WAIT_AVAILABLE) {
        return accel_refuse(c, EINVAL, "flags 0x%x, pad %u", a->flags, a->pad);
    }
    if (!t) {
        return accel_refuse(c, ENOENT, "there is no syncobj %u", a->handle);
    }
    if (!is_eventfd(a->fd)) {
        return accel_refuse(c, fcntl(a->fd, F_GETFD) < 0 ? EBADF : EINVAL,
                            "descriptor %d is no eventfd", a->fd);
    }
    struct accel_notice * n = calloc(1, sizeof *n);
    int fd = n ? fcntl(a->fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (fd < 0) {
        free(n);
        return accel_refuse(c, ENOMEM, "no memory for a notice");
    }
    // Point 0 stands for the newest point, or for the first where there is none yet.
    uint64_t point = a->point || t->submitted == 0 ? a->point : t->submitted - 1;
    *n = (struct accel_notice){t->notices, point, a->flags & WAIT_AVAILABLE, fd};
    t->notices = n;
    accel_timeline_tell(t);
    accel_words(c, "syncobj %u, point %llu, descriptor %d", a->handle,
                (unsigned long long) a->point, a->fd);
    return 0;
}
