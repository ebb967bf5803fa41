// lost: bytes of a GPU's memory that a copy failed for. ggml's set_tensor and get_tensor have no
// status, so that a graph would compute with what happens to lie there, and succeed. What could not
// be written is listed here until something is written there or it is freed, and a graph that uses
// it fails; what could not be read fails one graph that uses it.
//
// The list is short. When it is full its last entry becomes large enough for two, so that it names
// too much rather than too little.
#include "hsac-impl.h"

static int count(const struct hsac_agent * a) {
    return __atomic_load_n(&a->n_lost, __ATOMIC_ACQUIRE);
}

static void set_count(struct hsac_agent * a, int n) {
    __atomic_store_n(&a->n_lost, n, __ATOMIC_RELEASE);
}

void hsac_lose(struct hsac_agent * a, const void * at, size_t size, bool read,
               const struct error * why) {
    struct hsac_lost fresh = {(uintptr_t) at, (uintptr_t) at + size, read, *why};
    if (hsac_forked(a->h) || size == 0) {
        return;
    }
    pthread_mutex_lock(&a->lost_lock);
    int n = count(a);
    if (n < HSAC_MOST_LOST) {
        a->lost[n] = fresh;
        set_count(a, n + 1);
    } else {
        struct hsac_lost * last = &a->lost[n - 1];
        last->from = last->from < fresh.from ? last->from : fresh.from;
        last->to = last->to > fresh.to ? last->to : fresh.to;
        last->read = last->read && read;
    }
    pthread_mutex_unlock(&a->lost_lock);
}

static void forget(struct hsac_agent * a, int i) {
    a->lost[i] = a->lost[count(a) - 1];
    set_count(a, count(a) - 1);
}

// A range that is written in part is mended in part: the rest stays lost.
void hsac_agent_written(struct hsac_agent * a, const void * at, size_t size) {
    if (count(a) == 0 || size == 0 || hsac_forked(a->h)) {
        return;
    }
    uintptr_t from = (uintptr_t) at, to = from + size;
    pthread_mutex_lock(&a->lost_lock);
    for (int i = count(a); i-- > 0;) {
        struct hsac_lost * l = &a->lost[i];
        if (from <= l->from && to >= l->to) {
            forget(a, i);
        } else if (from <= l->from && to > l->from) {
            l->from = to;
        } else if (to >= l->to && from < l->to) {
            l->to = from;
        }
    }
    pthread_mutex_unlock(&a->lost_lock);
}

bool hsac_agent_has_lost(const struct hsac_agent * a) {
    return count(a) != 0;
}

enum status hsac_agent_may_use(struct hsac_agent * a, const void * at, size_t size, bool writes,
                               struct error * err) {
    enum status st = ST_OK;
    if (count(a) == 0 || size == 0 || hsac_forked(a->h)) {
        return st;
    }
    uintptr_t from = (uintptr_t) at, to = from + size;
    pthread_mutex_lock(&a->lost_lock);
    for (int i = 0; i < count(a) && st == ST_OK; i++) {
        const struct hsac_lost * l = &a->lost[i];
        if (from < l->to && l->from < to && (l->read || !writes)) {
            st = error_set(err, ST_DEVICE, "%s before: %s",
                           l->read ? "it could not be read" : "it could not be written",
                           l->why.text);
            if (l->read) {
                forget(a, i);
            }
        }
    }
    pthread_mutex_unlock(&a->lost_lock);
    return st;
}
