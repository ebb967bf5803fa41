// dir: opening directories. The walk resolves links by itself, because only so can it ask who made
// each of them: a link of another user in /tmp would lead our files to where that user wants them.
#include "dir.h"

#include "dir-impl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_LINKS 40 // as the kernel's own limit

struct walk {
    int fd;               // what was reached
    char rest[PATH_MAX];  // what is still to go
    char shown[PATH_MAX]; // what was reached, for messages
    int links;
};

// Cuts the next component off path; false at the end.
static bool next_component(char * path, char name[NAME_MAX + 1], bool * too_long) {
    size_t skip = strspn(path, "/");
    size_t n = strcspn(path + skip, "/");
    *too_long = n > NAME_MAX;
    if (n == 0 || *too_long) {
        return n != 0;
    }
    memcpy(name, path + skip, n);
    name[n] = '\0';
    memmove(path, path + skip + n, strlen(path + skip + n) + 1);
    return true;
}

static void show(struct walk * w, const char * name) {
    size_t n = strlen(w->shown);
    if (!strcmp(name, "..")) {
        char * slash = strrchr(w->shown, '/');
        if (slash) {
            *slash = '\0';
        }
        return;
    }
    snprintf(w->shown + n, sizeof w->shown - n, "/%s", name);
}

static enum status refuse(struct error * err, const char * path, const char * why) {
    return error_set(err, ST_INVALID, "%.250s: %s", *path ? path : "/", why);
}

static enum status system_error(struct error * err, const char * path) {
    int e = errno;
    return error_set(err, e == ENOENT ? ST_NOT_FOUND : ST_IO, "%.250s: %s", *path ? path : "/",
                     strerror(e));
}

// A level that leads to us: nobody but root and we may be able to put something else in its place.
static enum status check_ancestor(const struct stat * info, const char * path, struct error * err) {
    if (info->st_uid != 0 && info->st_uid != geteuid()) {
        return refuse(err, path, "it belongs to another user; name a directory below your own");
    }
    if ((info->st_mode & (S_IWGRP | S_IWOTH)) && !(info->st_mode & S_ISVTX)) {
        return refuse(err, path, "others can write it; take that away with chmod go-w");
    }
    return ST_OK;
}

static enum status check_own(int fd, const char * path, struct error * err) {
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return system_error(err, path);
    }
    if (info.st_uid != geteuid()) {
        return refuse(err, path, "it belongs to another user; remove it or name another directory");
    }
    if (info.st_mode & (S_IWGRP | S_IWOTH)) {
        return refuse(err, path, "others can write it; take that away with chmod go-w");
    }
    return ST_OK;
}

static enum status start(struct walk * w, struct error * err) {
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat info;
    if (w->fd >= 0) {
        close(w->fd);
    }
    w->fd = root;
    w->shown[0] = '\0';
    if (root < 0 || fstat(root, &info) != 0) {
        return system_error(err, "/");
    }
    return check_ancestor(&info, "/", err);
}

static enum status follow(struct walk * w, int link, const struct stat * info, struct error * err) {
    char target[PATH_MAX];
    char path[PATH_MAX * 2];
    if (info->st_uid != 0 && info->st_uid != geteuid()) {
        return refuse(err, w->shown, "a link of another user");
    }
    ssize_t n = readlinkat(link, "", target, sizeof target - 1);
    if (n < 0) {
        return system_error(err, w->shown);
    }
    target[n] = '\0';
    if (++w->links > MAX_LINKS ||
        snprintf(path, sizeof path, "%s/%s", target, w->rest) >= (int) sizeof w->rest) {
        return refuse(err, w->shown, "too many or too long links");
    }
    memcpy(w->rest, path, strlen(path) + 1);
    show(w, "..");
    return target[0] == '/' ? start(w, err) : ST_OK;
}

static enum status step(struct walk * w, const char * name, bool create, struct error * err) {
    int fd = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && create) {
        if (FAULT("mkdir") || (mkdirat(w->fd, name, 0700) != 0 && errno != EEXIST)) {
            show(w, name);
            return system_error(err, w->shown);
        }
        fd = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    }
    show(w, name);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0) {
        enum status st = system_error(err, w->shown);
        if (fd >= 0) {
            close(fd);
        }
        return st;
    }
    enum status st;
    if (S_ISLNK(info.st_mode)) {
        st = follow(w, fd, &info, err);
    } else if (!S_ISDIR(info.st_mode)) {
        st = refuse(err, w->shown, "not a directory");
    } else if ((st = check_ancestor(&info, w->shown, err)) == ST_OK) {
        int parent = w->fd;
        w->fd = fd;
        fd = parent;
    }
    close(fd);
    return st;
}

static enum status open_own(int parent, const char * name, const char * path, bool create, int * fd,
                            struct error * err) {
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    *fd = openat(parent, name, flags);
    if (*fd < 0 && errno == ENOENT && create) {
        if (FAULT("mkdir") || (mkdirat(parent, name, 0700) != 0 && errno != EEXIST)) {
            return system_error(err, path);
        }
        *fd = openat(parent, name, flags);
    }
    if (*fd < 0) {
        if (errno == ELOOP || errno == ENOTDIR) {
            return refuse(err, path,
                          "a link or a file stands where a directory of ours should be; "
                          "remove it or name another directory");
        }
        return system_error(err, path);
    }
    enum status st = check_own(*fd, path, err);
    if (st != ST_OK) {
        close(*fd);
        *fd = -1;
    }
    return st;
}

enum status dir_open_child(int parent, const char * name, bool create, int * fd,
                           struct error * err) {
    return open_own(parent, name, name, create, fd, err);
}

static enum status walk_base(struct walk * w, const char * base, bool create, struct error * err) {
    char name[NAME_MAX + 1];
    bool too_long;
    if (snprintf(w->rest, sizeof w->rest, "%s", base) >= (int) sizeof w->rest) {
        return error_set(err, ST_INVALID, "a path of %zu bytes is too long", strlen(base));
    }
    enum status st = start(w, err);
    while (st == ST_OK && next_component(w->rest, name, &too_long)) {
        if (too_long) {
            return refuse(err, w->shown, "a name below it is too long");
        }
        st = strcmp(name, ".") ? step(w, name, create, err) : ST_OK;
    }
    return st;
}

static enum status walk_own(struct walk * w, const char * own, bool create, struct error * err) {
    char name[NAME_MAX + 1];
    bool too_long;
    if (snprintf(w->rest, sizeof w->rest, "%s", own) >= (int) sizeof w->rest) {
        return error_set(err, ST_INVALID, "a path of %zu bytes is too long", strlen(own));
    }
    enum status st = ST_OK;
    int levels = 0;
    while (st == ST_OK && next_component(w->rest, name, &too_long)) {
        if (too_long || !strcmp(name, ".") || !strcmp(name, "..")) {
            return refuse(err, own, "the directory must be called by its name");
        }
        int fd;
        show(w, name);
        st = open_own(w->fd, name, w->shown, create, &fd, err);
        if (st == ST_OK) {
            close(w->fd);
            w->fd = fd;
            levels++;
        }
    }
    return st == ST_OK && levels == 0 ? refuse(err, own, "no directory is named") : st;
}

enum status dir_open(const char * base, const char * own, bool create, int * fd,
                     struct error * err) {
    struct walk * w = calloc(1, sizeof *w);
    if (!w) {
        return error_set(err, ST_NO_MEMORY, "no memory for a path");
    }
    w->fd = -1;
    enum status st = base[0] == '/'
                         ? walk_base(w, base, create, err)
                         : error_set(err, ST_INVALID, "%.250s: not an absolute path", base);
    if (st == ST_OK) {
        st = walk_own(w, own, create, err);
    }
    if (st == ST_OK) {
        *fd = w->fd;
    } else if (w->fd >= 0) {
        close(w->fd);
    }
    free(w);
    return st;
}
