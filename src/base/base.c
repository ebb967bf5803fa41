// base: error values, environment flags, growing buffers, whole-file reads.
#include "base.h"

#include "plain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status set(struct error * err, enum status st, bool lines, const char * fmt,
                       va_list args) {
    if (err) {
        err->status = st;
        vsnprintf(err->text, sizeof err->text, fmt, args);
        plain_make(err->text, lines); // texts quote files, JSON, the environment
    }
    return st;
}

enum status error_set(struct error * err, enum status st, const char * fmt, ...) {
    va_list args;
    va_start(args, fmt);
    set(err, st, false, fmt, args);
    va_end(args);
    return st;
}

enum status error_set_lines(struct error * err, enum status st, const char * fmt, ...) {
    va_list args;
    va_start(args, fmt);
    set(err, st, true, fmt, args);
    va_end(args);
    return st;
}

enum status error_prefix(struct error * err, enum status st, const char * fmt, ...) {
    if (!err) {
        return st;
    }
    char prefix[sizeof err->text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(prefix, sizeof prefix, fmt, args);
    va_end(args);
    plain_make(prefix, false);
    char joined[sizeof err->text * 2 + 4];
    snprintf(joined, sizeof joined, "%s: %s", prefix, err->text);
    memcpy(err->text, joined, sizeof err->text - 1);
    err->text[sizeof err->text - 1] = '\0';
    plain_make(err->text, true); // what was cut in its midst; lines are as they were set
    err->status = st;
    return st;
}

const char * status_name(enum status st) {
    static const char * const names[] = {
        [ST_OK] = "ok",
        [ST_INVALID] = "invalid input",
        [ST_UNSUPPORTED] = "not supported",
        [ST_NOT_FOUND] = "not found",
        [ST_NO_MEMORY] = "out of memory",
        [ST_IO] = "input/output error",
        [ST_CORRUPT] = "corrupt data",
        [ST_DEVICE] = "device error",
        [ST_BUSY] = "busy",
    };
    return (size_t) st < sizeof names / sizeof names[0] ? names[st] : "unknown status";
}

bool env_flag(const char * name, bool fallback) {
    const char * value = getenv(name);
    static const char * const words[2][4] = {{"0", "false", "off", "no"},
                                             {"1", "true", "on", "yes"}};
    for (int i = 0; value && i < 8; i++) {
        if (!strcasecmp(value, words[i / 4][i % 4])) {
            return i / 4;
        }
    }
    return fallback;
}

int env_number(const char * name, int most, int fallback) {
    const char * text = getenv(name);
    if (!text || !*text) {
        return fallback;
    }
    char * end;
    errno = 0;
    long n = strtol(text, &end, 10);
    return !*end && !errno && n >= 0 && n <= most ? (int) n : fallback;
}

static bool buf_reserve(struct buf * b, size_t extra) {
    if (b->failed || extra > SIZE_MAX - b->size) {
        b->failed = true;
        return false;
    }
    size_t need = b->size + extra;
    if (need <= b->capacity) {
        return true;
    }
    size_t capacity = b->capacity ? b->capacity : 256;
    while (capacity < need) {
        capacity = capacity > SIZE_MAX / 2 ? need : capacity * 2;
    }
    uint8_t * data = realloc(b->data, capacity);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->capacity = capacity;
    return true;
}

void buf_append(struct buf * b, const void * data, size_t size) {
    if (size && buf_reserve(b, size + 1)) {
        memcpy(b->data + b->size, data, size);
        b->size += size;
        b->data[b->size] = 0;
    }
}

void buf_append_u32(struct buf * b, uint32_t word) {
    uint8_t bytes[4];
    store_u32(bytes, word);
    buf_append(b, bytes, sizeof bytes);
}

void buf_printf(struct buf * b, const char * fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n >= 0 && buf_reserve(b, (size_t) n + 1)) {
        vsnprintf((char *) b->data + b->size, (size_t) n + 1, fmt, again);
        b->size += (size_t) n;
    }
    va_end(again);
}

void buf_free(struct buf * b) {
    free(b->data);
    *b = (struct buf){0};
}

enum status file_read(const char * path, size_t max, uint8_t ** data, size_t * size,
                      struct error * err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        int e = errno;
        return error_set(err, e == ENOENT ? ST_NOT_FOUND : ST_IO, "%s: %s", path, strerror(e));
    }
    enum status st = ST_OK;
    uint8_t * bytes = NULL;
    size_t n = 0;
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        st = error_set(err, ST_IO, "%s: not a regular file", path);
    } else if (info.st_size < 0 || (uint64_t) info.st_size > max) {
        st = error_set(err, ST_INVALID, "%s: %lld bytes, at most %zu are accepted", path,
                       (long long) info.st_size, max);
    } else if (!(bytes = malloc((size_t) info.st_size + 1))) {
        st = error_set(err, ST_NO_MEMORY, "%s: no memory for %lld bytes", path,
                       (long long) info.st_size);
    }
    while (st == ST_OK && n < (size_t) info.st_size) {
        ssize_t got = read(fd, bytes + n, (size_t) info.st_size - n);
        if (got > 0) {
            n += (size_t) got;
        } else if (got == 0) {
            break; // it shrank while we read: what is there is what we return
        } else if (errno != EINTR) {
            st = error_set(err, ST_IO, "%s: %s", path, strerror(errno));
        }
    }
    close(fd);
    if (st != ST_OK) {
        free(bytes);
        return st;
    }
    *data = bytes;
    *size = n;
    return ST_OK;
}
