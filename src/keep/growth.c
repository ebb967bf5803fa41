// growth: how much came in, what was used, what is broken.
#include "keep.h"

#include "base/dir.h"
#include "base/quiet.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// The cache is measured when it has grown by a 16th, and then cut to 7/8 if less than a 16th is
// free: so it stays below its size, and a full one is measured only once for some hundred entries.
#define GROWTH_SHARE 16
#define LOW_SHARE    8
#define GROWTH       "growth"

// How exact the order of use is. Every hit could note its time, but a disk that is written at each
// read wears out, and an hour's grain tells a day of use from a week's as well.
#define TOUCH_SECONDS 3600

// Enough to see what went wrong, not enough to matter.
#define MAX_QUARANTINE_FILES 48

uint64_t keep_high(uint64_t max) {
    return max - max / GROWTH_SHARE;
}

uint64_t keep_low(uint64_t max) {
    return max - max / LOW_SHARE;
}

bool keep_grown(int root, uint64_t max, uint64_t blocks) {
    static const uint8_t ones[256];
    bool due = false;
    // Without O_NONBLOCK a pipe of that name would stop us.
    int fd = openat(root, GROWTH, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return true; // it was never measured
    }
    struct stat info;
    struct quiet quiet;
    quiet_begin(&quiet);
    due = fstat(fd, &info) != 0 || !S_ISREG(info.st_mode);
    while (blocks && !due) {
        size_t n = blocks < sizeof ones ? (size_t) blocks : sizeof ones;
        due = write(fd, ones, n) != (ssize_t) n;
        blocks -= n;
    }
    due =
        due || fstat(fd, &info) != 0 || (uint64_t) info.st_size >= max / GROWTH_SHARE / KEEP_BLOCK;
    close(fd);
    quiet_end(&quiet);
    return due;
}

// The file, ours alone to count in: whatever else took its name has no business there and goes.
static int open_growth(int root) {
    enum { FLAGS = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK };
    for (int again = 0; again < 2; again++) {
        struct stat info;
        int fd = openat(root, GROWTH, FLAGS, 0600);
        if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
            return fd;
        }
        if (fd >= 0) {
            close(fd);
        } else if (errno != ELOOP && errno != ENXIO) {
            return -1;
        }
        unlinkat(root, GROWTH, 0);
    }
    return -1;
}

enum status keep_trim_begin(int root, bool dry_run, int * lock, struct error * err) {
    *lock = open_growth(root);
    // A read-only or full disk gives no lock, and may give no harm either.
    if (*lock >= 0 && flock(*lock, LOCK_EX | LOCK_NB) != 0) {
        close(*lock);
        return error_set(err, ST_BUSY, "another process is trimming the cache");
    }
    // Before the scan: what comes in meanwhile is counted once too often rather than not at all.
    if (*lock >= 0 && !dry_run && ftruncate(*lock, 0) != 0) {
        int e = errno;
        close(*lock);
        return error_set(err, ST_IO, GROWTH ": %s", strerror(e));
    }
    return ST_OK;
}

void keep_trim_end(int lock) {
    if (lock >= 0) {
        flock(lock, LOCK_UN);
        close(lock);
    }
}

enum status keep_removed(uint64_t removed, uint64_t of, uint64_t stayed, int code,
                         const char * what, struct error * err) {
    return stayed == 0 ? ST_OK
                       : error_set(err, ST_IO, "%llu of %llu %s were removed, %llu cannot be: %s",
                                   (unsigned long long) removed, (unsigned long long) of, what,
                                   (unsigned long long) stayed, strerror(code));
}

void keep_touch(int dir, const char * name) {
    struct stat info;
    if (fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        time(NULL) - info.st_mtime >= TOUCH_SECONDS) {
        utimensat(dir, name, NULL, AT_SYMLINK_NOFOLLOW); // one that fails is used too seldom to say
    }
}

static int count_files(int dir) {
    int n = 0, fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR * d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        if (fd >= 0) {
            close(fd);
        }
        return MAX_QUARANTINE_FILES;
    }
    while (readdir(d)) {
        n++;
    }
    closedir(d);
    return n - 2; // "." and ".."
}

void keep_quarantine(int root, int dir, const char * prefix, const char * const * files, int n) {
    int quarantine;
    if (dir_open_child(root, KEEP_QUARANTINE, true, &quarantine, NULL) == ST_OK) {
        bool room = count_files(quarantine) + n <= MAX_QUARANTINE_FILES;
        for (int i = 0; room && i < n; i++) {
            char to[NAME_MAX + 1];
            if (snprintf(to, sizeof to, "%s-%s", prefix, files[i]) < (int) sizeof to) {
                dir_move(dir, files[i], quarantine, to);
            }
        }
        close(quarantine);
    }
    for (int i = 0; i < n; i++) { // what could not be moved
        dir_remove(dir, files[i]);
    }
}
