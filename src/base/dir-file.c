// dir-file: files in a directory that dir_open gave. A file that is written has no name until its
// bytes are on the disk, where the system offers that (O_TMPFILE), and a random one that is swept
// up later where it does not; then rename puts it in its place in one step.
#include "dir-impl.h"
#include "quiet.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static enum status file_error(struct error * err, const char * name, const char * what) {
    int e = errno;
    return error_set(err, e == ENOENT ? ST_NOT_FOUND : ST_IO, "%.250s: %s: %s", name, what,
                     strerror(e));
}

// ---- reading ----

static enum status read_open(int fd, const char * name, size_t max, uint8_t ** data, size_t * size,
                             struct error * err) {
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return file_error(err, name, "stat");
    }
    if (!S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
        (info.st_mode & (S_IWGRP | S_IWOTH))) {
        return error_set(err, ST_CORRUPT, "%.250s: not a regular file that only we can write",
                         name);
    }
    if (info.st_size < 0 || (uint64_t) info.st_size > max) {
        return error_set(err, ST_CORRUPT, "%.250s: %lld bytes, at most %zu are accepted", name,
                         (long long) info.st_size, max);
    }
    size_t want = (size_t) info.st_size, n = 0;
    uint8_t * bytes = malloc(want + 1);
    if (!bytes) {
        return error_set(err, ST_NO_MEMORY, "%.250s: no memory for %zu bytes", name, want);
    }
    while (n < want) {
        ssize_t got = read(fd, bytes + n, want - n);
        if (got == 0) {
            break; // it shrank: its checksum will tell
        }
        if (got < 0 && errno != EINTR) {
            free(bytes);
            return file_error(err, name, "read");
        }
        n += got > 0 ? (size_t) got : 0;
    }
    bytes[n] = 0;
    *data = bytes;
    *size = n;
    return ST_OK;
}

enum status dir_read(int dir, const char * name, size_t max, uint8_t ** data, size_t * size,
                     struct error * err) {
    // Without O_NONBLOCK a pipe of that name would stop us.
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        if (errno == ELOOP || errno == ENXIO) { // a link; a socket
            return error_set(err, ST_CORRUPT, "%.250s: not a regular file", name);
        }
        return file_error(err, name, "open");
    }
    enum status st = read_open(fd, name, max, data, size, err);
    close(fd);
    return st;
}

// ---- writing ----

#define TEMP_NAME_MAX (sizeof DIR_TEMP_PREFIX + 16)

static bool random_name(char name[TEMP_NAME_MAX]) {
    uint64_t r;
    if (getrandom(&r, sizeof r, 0) != sizeof r) {
        return false;
    }
    snprintf(name, TEMP_NAME_MAX, DIR_TEMP_PREFIX "%016llx", (unsigned long long) r);
    return true;
}

static bool write_all(int fd, const uint8_t * data, size_t size) {
    // In two parts, so that a test can die between them.
    size_t half = size / 2;
    for (size_t n = 0; n < size;) {
        if ((n == 0 || n == half) && FAULT("write")) {
            return false;
        }
        size_t end = n < half ? half : size;
        ssize_t put = write(fd, data + n, end - n);
        if (put < 0 && errno != EINTR) {
            return false;
        }
        n += put > 0 ? (size_t) put : 0;
    }
    return !FAULT("fsync") && fsync(fd) == 0;
}

// Gives the open file the temporary name.
static bool name_unnamed(int fd, int dir, const char * temp) {
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    return !FAULT("link") && linkat(AT_FDCWD, self, dir, temp, AT_SYMLINK_FOLLOW) == 0;
}

// True when temp holds the bytes; errno otherwise, and there is no temp.
static bool write_temp_loud(int dir, const char * temp, const void * data, size_t size) {
    if (FAULT("create")) {
        return false;
    }
    int fd = openat(dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0) {
        bool ok = write_all(fd, data, size), linked = ok && name_unnamed(fd, dir, temp);
        int e = errno;
        close(fd);
        errno = e;
        if (linked || !ok) {
            return linked;
        }
        // No /proc, or a file system that makes such files but cannot name them.
    }
    fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return false;
    }
    bool ok = write_all(fd, data, size);
    int e = errno;
    if (close(fd) != 0 && ok) { // where network file systems report a full disk
        ok = false;
        e = errno;
    }
    if (!ok) {
        unlinkat(dir, temp, 0);
    }
    errno = e;
    return ok;
}

static bool write_temp(int dir, const char * temp, const void * data, size_t size) {
    struct quiet quiet;
    quiet_begin(&quiet);
    bool ok = write_temp_loud(dir, temp, data, size);
    quiet_end(&quiet);
    return ok;
}

enum status dir_write(int dir, const char * name, const void * data, size_t size,
                      struct error * err) {
    char temp[TEMP_NAME_MAX];
    if (!random_name(temp) || !write_temp(dir, temp, data, size)) {
        return file_error(err, name, "write");
    }
    if (FAULT("rename") || renameat(dir, temp, dir, name) != 0) {
        enum status st = file_error(err, name, "rename");
        unlinkat(dir, temp, 0);
        return st;
    }
    return ST_OK;
}

enum status dir_link(int from_dir, const char * from, int dir, const char * name,
                     struct error * err) {
    char temp[TEMP_NAME_MAX];
    if (!random_name(temp) || FAULT("link") || linkat(from_dir, from, dir, temp, 0) != 0) {
        return file_error(err, name, "link");
    }
    enum status st = ST_OK;
    if (FAULT("rename") || renameat(dir, temp, dir, name) != 0) {
        st = file_error(err, name, "rename");
    }
    // rename does nothing where both names are the same file already.
    unlinkat(dir, temp, 0);
    return st;
}

int dir_remove(int dir, const char * name) {
    bool gone = !FAULT("unlink") && (unlinkat(dir, name, 0) == 0 || errno == ENOENT);
    return gone ? 0 : errno;
}

void dir_move(int from_dir, const char * from, int dir, const char * name) {
    if (!FAULT("rename")) {
        renameat(from_dir, from, dir, name);
    }
}

enum status dir_sync(int dir, struct error * err) {
    return FAULT("fsync dir") || fsync(dir) != 0 ? file_error(err, "directory", "fsync") : ST_OK;
}

// ---- locks ----

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000u + (uint64_t) t.tv_nsec / 1000000u;
}

// flock has no time limit of its own. Kernels compile in a millisecond, so the first looks are
// close together; an external compiler takes minutes, for which 20 ms is as good as at once.
static bool flock_until(int fd, uint64_t deadline) {
    for (long pause_us = 200;; pause_us = pause_us < 20000 ? pause_us * 2 : 20000) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            return true;
        }
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return false;
        }
        if (now_ms() >= deadline) {
            errno = EWOULDBLOCK;
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = pause_us * 1000}, NULL);
    }
}

// True when the name still means the file that was locked: its last holder takes it away.
static bool still_named(int dir, const char * name, int fd) {
    struct stat held, named;
    return fstat(fd, &held) == 0 && fstatat(dir, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

enum status dir_lock(int dir, const char * name, unsigned wait_ms, int * lock, struct error * err) {
    uint64_t deadline = now_ms() + wait_ms;
    for (;;) {
        int fd =
            FAULT("lock")
                ? -1
                : openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
        if (fd < 0) {
            return file_error(err, name, "open");
        }
        if (!flock_until(fd, deadline)) {
            enum status st =
                errno == EWOULDBLOCK
                    ? error_set(err, ST_BUSY, "%.250s: held for more than %u ms", name, wait_ms)
                    : file_error(err, name, "flock");
            close(fd);
            return st;
        }
        if (still_named(dir, name, fd)) {
            *lock = fd;
            return ST_OK;
        }
        close(fd);
    }
}

void dir_unlock(int dir, const char * name, int lock) {
    if (!FAULT("unlock")) {
        unlinkat(dir, name, 0);
    }
    flock(lock, LOCK_UN); // a child that was forked meanwhile holds it too
    close(lock);
}
