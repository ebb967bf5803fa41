// get: how an entry of a cache is got, or made by one process for all.
#include "keep.h"

// With the entry's lock: whoever held it before may have made the entry.
static enum status keep_make_locked(const struct keep_entry * e, void * user, struct error * err) {
    enum status st = e->load(user, err);
    if (st == ST_CORRUPT) {
        e->put_aside(user);
    }
    if (st == ST_OK || (st = e->make(user, err)) != ST_OK) {
        return st;
    }
    struct error why = {0};
    enum status kept = e->publish(user, &why);
    if (kept != ST_OK) {
        e->unkept(user, kept, &why);
    }
    return ST_OK;
}

enum status keep_get(const struct keep_entry * e, void * user, struct error * err) {
    enum status st = e->load(user, err);
    if (st == ST_OK) {
        return ST_OK;
    }
    struct error why = {0};
    enum status locked = e->lock(user, &why);
    if (locked == ST_OK) {
        st = keep_make_locked(e, user, err);
        e->unlock(user);
        return st;
    }
    if (locked != ST_BUSY) {
        e->unkept(user, locked, &why);
    }
    return e->make(user, err);
}
