// place: where a cache is and how large it may grow, from the environment.
#include "keep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char * absolute(const char * variable) {
    const char * value = secure_getenv(variable);
    return value && value[0] == '/' ? value : NULL;
}

static enum status place(struct keep_place * out, char * base, const char * own,
                         const char * reason, struct error * err) {
    *out = (struct keep_place){base, strdup(own), reason};
    if (!out->base || !out->own) {
        keep_place_free(out);
        return error_set(err, ST_NO_MEMORY, "no memory for a path");
    }
    return ST_OK;
}

static char * join(const char * a, const char * b) {
    struct buf path = {0};
    buf_printf(&path, "%s/%s", a, b);
    return (char *) path.data;
}

// The last level of a path that the user gave is the cache's own.
static enum status place_named(const char * reason, const char * path, struct keep_place * out,
                               struct error * err) {
    char * full = NULL;
    if (path[0] == '/') {
        full = strdup(path);
    } else {
        char * here = getcwd(NULL, 0);
        full = here ? join(here, path) : NULL;
        free(here);
    }
    if (!full) {
        return error_set(err, ST_NO_MEMORY, "%s=%.250s: no memory, or no working directory", reason,
                         path);
    }
    size_t n = strlen(full);
    while (n > 1 && full[n - 1] == '/') {
        full[--n] = '\0';
    }
    char * slash = strrchr(full, '/');
    char * own = strdup(slash + 1);
    slash[slash == full] = '\0';
    enum status st = own ? place(out, full, own, reason, err)
                         : error_set(err, ST_NO_MEMORY, "no memory for a path");
    if (!own) {
        free(full);
    }
    free(own);
    return st;
}

enum status keep_place_find(const struct keep_names * names, struct keep_place * out,
                            struct error * err) {
    const char * named = secure_getenv(names->variable);
    if (named && *named) {
        return place_named(names->variable, named, out, err);
    }
    // The standard of XDG says that relative paths there do not count.
    const char * xdg = absolute("XDG_CACHE_HOME");
    if (xdg) {
        return place(out, strdup(xdg), names->own, "XDG_CACHE_HOME", err);
    }
    // Users of daemons have a HOME that does not exist, and we are not the ones to make it.
    const char * home = absolute("HOME");
    if (home && access(home, F_OK) == 0) {
        return place(out, join(home, ".cache"), names->own, "HOME", err);
    }
    if (!names->nowhere) {
        return error_set(err, ST_NOT_FOUND, "neither %s nor XDG_CACHE_HOME nor HOME says where",
                         names->variable);
    }
    return place(out, strdup("/tmp"), names->nowhere, "no HOME", err);
}

void keep_place_free(struct keep_place * p) {
    free(p->base);
    free(p->own);
    *p = (struct keep_place){0};
}

enum status keep_size(const char * variable, uint64_t fallback, uint64_t * out,
                      struct error * err) {
    const char * text = secure_getenv(variable);
    *out = fallback;
    if (!text || !*text) {
        return ST_OK;
    }
    static const char units[] = "KMGT";
    char * end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    // strchr would find the end of units for a blank, which is 0 without its lower-case bit.
    const char * unit = *end & ~0x20 ? strchr(units, *end & ~0x20) : NULL;
    int shift = unit ? 10 * (int) (unit - units + 1) : 0;
    // strtoull takes a sign and blanks, a size has neither.
    if (text[0] < '0' || text[0] > '9' || errno || (*end && (!unit || end[1])) ||
        n > UINT64_MAX >> shift) {
        return error_set(err, ST_INVALID,
                         "%s=%.100s: not a number of bytes with K, M, G or nothing behind it",
                         variable, text);
    }
    *out = (uint64_t) n << shift;
    return ST_OK;
}
