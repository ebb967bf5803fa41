// record: one line for each kernel, put before the end of the file in one write under a lock on the
// file, so that there is nothing to do at the end of the process and nothing lost with it. A write
// that fails halfway is taken back.
#include "record.h"

#include "base/out.h"
#include "base/quiet.h"
#include "kernel/config.h"
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define VARIABLE         "GGML_HSA_RECORD"
#define MAX_RECORD_BYTES ((off_t) 64 << 20)
#define LOCK_WAIT_MS     5000 // one entry is written in well under a millisecond

static const char head[] = "{\"kernels\": [";
static const char tail[] = "\n]}\n";
enum { TAIL = sizeof tail - 1 };

struct record {
    char * path;
    pthread_mutex_t lock; // guards all below
    struct table seen;
    bool failed;
};

enum status record_open(struct record ** out, struct error * err) {
    const char * path = secure_getenv(VARIABLE);
    *out = NULL;
    if (!path || !*path) {
        return ST_OK;
    }
    enum status st = json_library(err);
    if (st != ST_OK) {
        error_prefix(err, st, VARIABLE);
        return st;
    }
    struct buf full = {0};
    if (*path != '/') { // the process may go elsewhere
        char * here = getcwd(NULL, 0);
        buf_printf(&full, "%s/", here ? here : ".");
        free(here);
    }
    buf_printf(&full, "%s", path);
    struct record * r = calloc(1, sizeof *r);
    if (!r || full.failed) {
        free(r);
        buf_free(&full);
        return error_set(err, ST_NO_MEMORY, VARIABLE ": no memory");
    }
    r->path = (char *) full.data;
    pthread_mutex_init(&r->lock, NULL);
    *out = r;
    return ST_OK;
}

void record_close(struct record * r) {
    if (r) {
        table_free(&r->seen);
        pthread_mutex_destroy(&r->lock);
        free(r->path);
        free(r);
    }
}

static enum status system_error(const struct record * r, int code, struct error * err) {
    return error_set(err, ST_IO, VARIABLE ": %s: %s", r->path, strerror(code));
}

static bool read_all(int fd, char * data, size_t size) {
    for (size_t n = 0; n < size;) {
        ssize_t got = pread(fd, data + n, size - n, (off_t) n);
        if (got <= 0 && !(got < 0 && errno == EINTR)) {
            return false;
        }
        n += got > 0 ? (size_t) got : 0;
    }
    return true;
}

// All of it, or the errno that stopped it.
static int write_all(int fd, const void * data, size_t size, off_t at) {
    for (size_t n = 0; n < size;) {
        ssize_t put = pwrite(fd, (const char *) data + n, size - n, at + (off_t) n);
        if (put < 0 && errno != EINTR) {
            return errno;
        }
        n += put > 0 ? (size_t) put : 0;
    }
    return 0;
}

// An editor may have left lines between the head and the tail of a list that has nothing in it.
static bool is_blank(const char * text, size_t size) {
    while (size && memchr(" \t\r\n", text[size - 1], 4)) {
        size--;
    }
    return size == 0;
}

// The file is ours alone here.
static enum status insert(const struct record * r, int fd, const char * entry, struct error * err) {
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return system_error(r, errno, err);
    }
    if (info.st_size > MAX_RECORD_BYTES) {
        return error_set(err, ST_INVALID,
                         VARIABLE ": %s: more than %lld bytes; move it away, or name another file",
                         r->path, (long long) MAX_RECORD_BYTES);
    }
    size_t size = (size_t) info.st_size;
    char * text = malloc(size + 1);
    if (!text) {
        return error_set(err, ST_NO_MEMORY, VARIABLE ": %s: no memory to read it", r->path);
    }
    enum status st = ST_OK;
    if (!read_all(fd, text, size)) {
        st = system_error(r, errno ? errno : EIO, err);
    } else if (size && (size < sizeof head - 1 + TAIL || memcmp(text, head, sizeof head - 1) ||
                        memcmp(text + size - TAIL, tail, TAIL))) {
        st = error_set(err, ST_INVALID,
                       VARIABLE ": %s: not a recording; move it away, or name another file",
                       r->path);
    }
    if (st == ST_OK && !(size && memmem(text, size, entry, strlen(entry)))) {
        struct buf fresh = {0};
        bool first = is_blank(text + (sizeof head - 1), size ? size - (sizeof head - 1) - TAIL : 0);
        off_t at = size ? (off_t) size - TAIL : 0;
        buf_printf(&fresh, "%s%s\n%s%s", size ? "" : head, first ? "" : ",", entry, tail);
        int code = fresh.failed ? ENOMEM : write_all(fd, fresh.data, fresh.size, at);
        if (code) {
            // What was there is restored in place, which takes no room on a full disk.
            if (ftruncate(fd, (off_t) size) != 0 || (size && write_all(fd, tail, TAIL, at) != 0)) {
                code = EIO;
            }
            st = system_error(r, code, err);
        }
        buf_free(&fresh);
    }
    free(text);
    return st;
}

// flock has no time limit of its own, and whoever may open the file may hold its lock for ever.
static bool lock_within(int fd, int wait_ms) {
    enum { PAUSE_MS = 5 };
    for (int waited = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; waited += PAUSE_MS) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || waited >= wait_ms) {
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000}, NULL);
    }
    return true;
}

static enum status append(const struct record * r, const struct kernel_spec * spec,
                          struct error * err) {
    char name[KERNEL_NAME_MAX];
    struct buf entry = {0};
    kernel_name(spec, name);
    kernel_config_print(spec, name, &entry);
    if (entry.failed) {
        buf_free(&entry);
        return error_set(err, ST_NO_MEMORY, VARIABLE ": no memory for an entry");
    }
    enum status st;
    int fd;
    if ((st = out_open(r->path, O_RDWR, &fd, err)) != ST_OK) {
        error_prefix(err, st, VARIABLE);
    } else {
        struct quiet quiet;
        quiet_begin(&quiet);
        if (lock_within(fd, LOCK_WAIT_MS)) {
            st = insert(r, fd, (const char *) entry.data, err);
        } else if (errno == EWOULDBLOCK) {
            st = error_set(err, ST_BUSY,
                           VARIABLE ": %s: another program has held its lock for %d seconds; "
                                    "end it, or name another file",
                           r->path, LOCK_WAIT_MS / 1000);
        } else {
            st = system_error(r, errno, err);
        }
        close(fd);
        quiet_end(&quiet);
    }
    buf_free(&entry);
    return st;
}

enum status record_add(struct record * r, const struct kernel_spec * asked, struct error * err) {
    if (!r) {
        return ST_OK;
    }
    struct kernel_spec spec = spec_canonical(asked);
    uint64_t hash = spec_hash(&spec);
    enum status st = ST_OK;
    pthread_mutex_lock(&r->lock);
    if (!r->failed && !table_find(&r->seen, &spec, hash)) {
        st = table_add(&r->seen, &spec, hash)
                 ? append(r, &spec, err)
                 : error_set(err, ST_NO_MEMORY, VARIABLE ": no memory");
        r->failed = st != ST_OK;
    }
    pthread_mutex_unlock(&r->lock);
    return st;
}
