// preload: the functions of libc that lead to the driver. Each looks whether the path or descriptor
// is the driver's, and passes everything else on to libc as it came.
//
// These are the ways by which ROCr, libstdc++'s streams and our own tools come here. A program that
// makes system calls by itself goes past them.
#include "accel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static int give(int result) {
    if (result < 0) {
        errno = -result;
        return -1;
    }
    return result;
}

static bool takes_mode(int flags) {
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
}

EXPORT int clock_gettime(clockid_t id, struct timespec * out) {
    return accel_time_get(id, out);
}

// ---- descriptors ----

#define OPEN(name)                                                                                 \
    EXPORT int name(const char * path, int flags, ...) {                                           \
        mode_t mode = 0;                                                                           \
        if (takes_mode(flags)) { /* else there is no third argument to read */                     \
            va_list args;                                                                          \
            va_start(args, flags);                                                                 \
            mode = (mode_t) va_arg(args, unsigned);                                                \
            va_end(args);                                                                          \
        }                                                                                          \
        const struct accel_node * n = accel_node_find(path);                                       \
        return n ? give(accel_node_open(n, flags)) : accel_libc()->open(path, flags, mode);        \
    }
#define OPENAT(name)                                                                               \
    EXPORT int name(int dir, const char * path, int flags, ...) {                                  \
        mode_t mode = 0;                                                                           \
        if (takes_mode(flags)) {                                                                   \
            va_list args;                                                                          \
            va_start(args, flags);                                                                 \
            mode = (mode_t) va_arg(args, unsigned);                                                \
            va_end(args);                                                                          \
        }                                                                                          \
        const struct accel_node * n = accel_node_find(path);                                       \
        return n ? give(accel_node_open(n, flags)) : accel_libc()->openat(dir, path, flags, mode); \
    }

// clang-format off
OPEN(open) OPEN(open64)
OPENAT(openat) OPENAT(openat64)
    // clang-format on

    // What fortified programs call when there is no third argument.
    int __open_2(const char * path, int flags);
int __open64_2(const char * path, int flags);
int __openat_2(int dir, const char * path, int flags);
int __openat64_2(int dir, const char * path, int flags);

EXPORT int __open_2(const char * path, int flags) {
    return open(path, flags);
}

EXPORT int __open64_2(const char * path, int flags) {
    return open(path, flags);
}

EXPORT int __openat_2(int dir, const char * path, int flags) {
    return openat(dir, path, flags);
}

EXPORT int __openat64_2(int dir, const char * path, int flags) {
    return openat(dir, path, flags);
}

EXPORT int close(int fd) {
    accel_close(fd);
    return accel_libc()->close(fd);
}

EXPORT int ioctl(int fd, unsigned long request, ...) {
    va_list args;
    va_start(args, request);
    void * arg = va_arg(args, void *);
    va_end(args);
    int result;
    return accel_ioctl(fd, request, arg, &result) ? give(result)
                                                  : accel_libc()->ioctl(fd, request, arg);
}

// ---- memory ----

EXPORT void * mmap(void * addr, size_t size, int prot, int flags, int fd, off_t offset) {
    void * out = MAP_FAILED;
    int error = 0;
    if ((fd >= 0 && !(flags & MAP_ANONYMOUS)) || flags & MAP_FIXED) {
        if (accel_mmap(addr, size, prot, flags, flags & MAP_ANONYMOUS ? -1 : fd, (uint64_t) offset,
                       &out, &error)) {
            errno = error ? error : errno;
            return error ? MAP_FAILED : out;
        }
    }
    return accel_libc()->mmap(addr, size, prot, flags, fd, offset);
}

EXPORT void * mmap64(void * addr, size_t size, int prot, int flags, int fd, off64_t offset) {
    return mmap(addr, size, prot, flags, fd, (off_t) offset);
}

EXPORT int munmap(void * addr, size_t size) {
    accel_unmap((uint64_t) (uintptr_t) addr, size);
    return accel_libc()->munmap(addr, size);
}

EXPORT void * mremap(void * addr, size_t old_size, size_t new_size, int flags, ...) {
    va_list args;
    va_start(args, flags);
    void * to = flags & MREMAP_FIXED ? va_arg(args, void *) : NULL;
    va_end(args);
    accel_unmap((uint64_t) (uintptr_t) addr, old_size);
    return accel_libc()->mremap(addr, old_size, new_size, flags, to);
}

// ---- paths ----

#define FOPEN(name)                                                                                \
    EXPORT FILE * name(const char * path, const char * mode) {                                     \
        const struct accel_node * n = accel_node_find(path);                                       \
        if (!n) {                                                                                  \
            return accel_libc()->fopen(path, mode);                                                \
        }                                                                                          \
        int flags = strpbrk(mode, "wa+") ? O_RDWR : O_RDONLY;                                      \
        int fd = give(accel_node_open(n, flags | (strchr(mode, 'e') ? O_CLOEXEC : 0)));            \
        return fd < 0 ? NULL : fdopen(fd, mode);                                                   \
    }
// clang-format off
FOPEN(fopen) FOPEN(fopen64)
    // clang-format on

    static int may(const struct accel_node * n, int how) {
    return how & X_OK && n->kind != ACCEL_NODE_DIR ? give(-EACCES) : 0;
}

EXPORT int access(const char * path, int how) {
    const struct accel_node * n = accel_node_find(path);
    return n ? may(n, how) : accel_libc()->access(path, how);
}

EXPORT int faccessat(int dir, const char * path, int how, int flags) {
    const struct accel_node * n = accel_node_find(path);
    return n ? may(n, how) : accel_libc()->faccessat(dir, path, how, flags);
}

static ssize_t link_text(const struct accel_node * n, char * text, size_t size) {
    if (n->kind != ACCEL_NODE_LINK) {
        return give(-EINVAL);
    }
    size_t length = strlen(n->text);
    memcpy(text, n->text, length < size ? length : size);
    return (ssize_t) (length < size ? length : size);
}

EXPORT ssize_t readlink(const char * path, char * text, size_t size) {
    const struct accel_node * n = accel_node_find(path);
    return n ? link_text(n, text, size) : accel_libc()->readlink(path, text, size);
}

// What a program calls that was built with _FORTIFY_SOURCE.
ssize_t __readlink_chk(const char * path, char * text, size_t size, size_t room);
EXPORT ssize_t __readlink_chk(const char * path, char * text, size_t size, size_t room) {
    return readlink(path, text, size < room ? size : room);
}

EXPORT ssize_t readlinkat(int dir, const char * path, char * text, size_t size) {
    const struct accel_node * n = accel_node_find(path);
    return n ? link_text(n, text, size) : accel_libc()->readlinkat(dir, path, text, size);
}

static int fill_stat(const struct accel_node * n, struct stat * out) {
    memset(out, 0, sizeof *out);
    out->st_mode = accel_node_mode(n);
    out->st_nlink = 1;
    out->st_rdev = n->kind == ACCEL_NODE_DEVICE ? makedev(261, 0) : 0;
    out->st_size = n->kind == ACCEL_NODE_TEXT ? (off_t) ACCEL_PAGE : 0;
    out->st_blksize = (blksize_t) ACCEL_PAGE;
    return 0;
}

#define STAT(name, real, type)                                                                     \
    EXPORT int name(const char * path, struct type * out) {                                        \
        const struct accel_node * n = accel_node_find(path);                                       \
        return n ? fill_stat(n, (struct stat *) out)                                               \
                 : accel_libc()->real(path, (struct stat *) out);                                  \
    }
#define FSTATAT(name, type)                                                                        \
    EXPORT int name(int dir, const char * path, struct type * out, int flags) {                    \
        const struct accel_node * n = accel_node_find(path);                                       \
        return n ? fill_stat(n, (struct stat *) out)                                               \
                 : accel_libc()->fstatat(dir, path, (struct stat *) out, flags);                   \
    }
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "they are the same on 64-bit systems");
// clang-format off
STAT(stat, stat, stat) STAT(stat64, stat, stat64)
STAT(lstat, lstat, stat) STAT(lstat64, lstat, stat64)
FSTATAT(fstatat, stat) FSTATAT(fstatat64, stat64)
    // clang-format on

    EXPORT int statx(int dir, const char * path, int flags, unsigned mask, struct statx * out) {
    const struct accel_node * n = accel_node_find(path);
    if (!n) {
        return accel_libc()->statx(dir, path, flags, mask, out);
    }
    struct stat info;
    fill_stat(n, &info);
    memset(out, 0, sizeof *out);
    out->stx_mask = STATX_BASIC_STATS;
    out->stx_mode = (uint16_t) info.st_mode;
    out->stx_nlink = 1;
    out->stx_size = (uint64_t) info.st_size;
    out->stx_blksize = (uint32_t) info.st_blksize;
    out->stx_rdev_major = major(info.st_rdev);
    out->stx_rdev_minor = minor(info.st_rdev);
    return 0;
}

// ---- directories ----

struct directory {
    struct directory * next;
    const struct accel_node * node;
    size_t at;
    struct dirent entry;
};

static pthread_mutex_t directories_lock = PTHREAD_MUTEX_INITIALIZER;
static struct directory * directories;

static struct directory * directory_of(DIR * dir) {
    pthread_mutex_lock(&directories_lock);
    struct directory * d = directories;
    while (d && (DIR *) d != dir) {
        d = d->next;
    }
    pthread_mutex_unlock(&directories_lock);
    return d;
}

EXPORT DIR * opendir(const char * path) {
    const struct accel_node * n = accel_node_find(path);
    if (!n) {
        return accel_libc()->opendir(path);
    }
    struct directory * d = n->kind == ACCEL_NODE_DIR ? calloc(1, sizeof *d) : NULL;
    if (!d) {
        errno = n->kind == ACCEL_NODE_DIR ? ENOMEM : ENOTDIR;
        return NULL;
    }
    d->node = n;
    pthread_mutex_lock(&directories_lock);
    d->next = directories;
    directories = d;
    pthread_mutex_unlock(&directories_lock);
    return (DIR *) d;
}

EXPORT struct dirent * readdir(DIR * dir) {
    struct directory * d = directory_of(dir);
    if (!d) {
        return accel_libc()->readdir(dir);
    }
    const char * name;
    const struct accel_node * n = accel_node_entry(d->node, d->at, &name);
    if (!n) {
        return NULL;
    }
    d->at++;
    d->entry.d_ino = d->at;
    d->entry.d_reclen = sizeof d->entry;
    d->entry.d_type = (unsigned char) IFTODT(accel_node_mode(n));
    snprintf(d->entry.d_name, sizeof d->entry.d_name, "%s", name);
    return &d->entry;
}

EXPORT struct dirent64 * readdir64(DIR * dir) {
    return (struct dirent64 *) readdir(dir);
}

EXPORT int closedir(DIR * dir) {
    struct directory * d = directory_of(dir);
    if (!d) {
        return accel_libc()->closedir(dir);
    }
    pthread_mutex_lock(&directories_lock);
    struct directory ** link = &directories;
    while (*link != d) {
        link = &(*link)->next;
    }
    *link = d->next;
    pthread_mutex_unlock(&directories_lock);
    free(d);
    return 0;
}
