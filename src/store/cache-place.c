// cache-place: where the cache is and how large it may grow, from the environment.
#include "cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char * absolute(const char * variable) {
    const char * value = getenv(variable);
    return value && value[0] == '/' ? value : NULL;
}

static enum status place(struct cache_place * out, char * base, const char * own,
                         const char * reason, struct error * err) {
    *out = (struct cache_place){base, strdup(own), reason};
    if (!out->base || !out->own) {
        cache_place_free(out);
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
static enum status place_named(const char * path, struct cache_place * out, struct error * err) {
    static const char reason[] = "GGML_HSA_KERNEL_CACHE_DIR";
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

enum status cache_place_find(struct cache_place * out, struct error * err) {
    const char * named = getenv("GGML_HSA_KERNEL_CACHE_DIR");
    if (named && *named) {
        return place_named(named, out, err);
    }
    // The standard of XDG says that relative paths there do not count.
    const char * xdg = absolute("XDG_CACHE_HOME");
    if (xdg) {
        return place(out, strdup(xdg), "ggml", "XDG_CACHE_HOME", err);
    }
    // Users of daemons have a HOME that does not exist, and we are not the ones to make it.
    const char * home = absolute("HOME");
    if (home && access(home, F_OK) == 0) {
        return place(out, join(home, ".cache"), "ggml", "HOME", err);
    }
    return place(out, strdup("/tmp"), "ggml/ggml-hsa", "no HOME", err);
}

void cache_place_free(struct cache_place * p) {
    free(p->base);
    free(p->own);
    *p = (struct cache_place){0};
}

enum status cache_max_size(uint64_t * out, struct error * err) {
    const char * text = getenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE");
    *out = CACHE_DEFAULT_MAX;
    if (!text || !*text) {
        return ST_OK;
    }
    static const char units[] = "KMGT";
    char * end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    const char * unit = *end ? strchr(units, *end & ~0x20) : NULL;
    int shift = unit ? 10 * (int) (unit - units + 1) : 0;
    // strtoull takes a sign and blanks, a size has neither.
    if (text[0] < '0' || text[0] > '9' || errno || (*end && (!unit || end[1])) ||
        n > UINT64_MAX >> shift) {
        return error_set(
            err, ST_INVALID,
            "GGML_HSA_KERNEL_CACHE_MAX_SIZE=%.100s: not a number of bytes with K, M, G "
            "or nothing behind it",
            text);
    }
    *out = (uint64_t) n << shift;
    return ST_OK;
}
