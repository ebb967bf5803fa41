// out: see out.h. What stands there is asked for by name and, where it was opened, asked again:
// opening some devices does things (a tape winds), and names may change in between. Nobody can make
// a rename follow a link, so that a race costs at most the thing whose name was changed.
#include "out.h"

#include "quiet.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static const char * kind_name(mode_t mode) {
    return S_ISLNK(mode)    ? "a link"
           : S_ISDIR(mode)  ? "a directory"
           : S_ISFIFO(mode) ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

static enum status not_regular(const char * path, mode_t mode, struct error * err) {
    return error_set(err, ST_IO,
                     "%.300s: %s, which stays as it is; name a regular file, or one that is not "
                     "there yet",
                     path, kind_name(mode));
}

enum status out_may_write(int dir, const char * name, const char * path, struct error * err) {
    struct stat info;
    if (fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT ? ST_OK : error_set(err, ST_IO, "%.300s: %s", path, strerror(errno));
    }
    return S_ISREG(info.st_mode) ? ST_OK : not_regular(path, info.st_mode, err);
}

enum status out_open(const char * path, int flags, int * fd, struct error * err) {
    enum { ALWAYS = O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };
    *fd = -1;
    enum status st = out_may_write(AT_FDCWD, path, path, err);
    if (st != ST_OK) {
        return st;
    }
    struct stat info;
    *fd = open(path, flags | ALWAYS, 0666);
    if (*fd < 0) {
        return error_set(err, ST_IO, "%.300s: %s", path, strerror(errno));
    }
    if (fstat(*fd, &info) != 0) {
        st = error_set(err, ST_IO, "%.300s: %s", path, strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        st = not_regular(path, info.st_mode, err);
    }
    if (st != ST_OK) {
        close(*fd);
        *fd = -1;
    }
    return st;
}

// ---- whole files ----

// `dir` is o's from now on.
static enum status begin(int dir, const char * name, const char * path, struct out * o,
                         struct error * err) {
    *o = (struct out){.dir = dir};
    enum status st = out_may_write(dir, name, path, err);
    uint64_t r;
    if (st == ST_OK && (size_t) snprintf(o->name, sizeof o->name, "%s", name) >= sizeof o->name) {
        st = error_set(err, ST_IO, "%.300s: %s", path, strerror(ENAMETOOLONG));
    }
    if (st == ST_OK) {
        int fd = -1;
        if (getrandom(&r, sizeof r, 0) == sizeof r) {
            snprintf(o->temp, sizeof o->temp, ".ggml-hsa-%016llx.part", (unsigned long long) r);
            fd = openat(dir, o->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        }
        o->file = fd < 0 ? NULL : fdopen(fd, "w");
        if (!o->file) {
            st = error_set(err, ST_IO, "%.300s: no file can be made there: %s", path,
                           strerror(errno));
            if (fd >= 0) {
                close(fd);
                unlinkat(dir, o->temp, 0);
            }
        }
    }
    if (st != ST_OK) {
        close(dir);
        *o = (struct out){0};
    }
    return st;
}

enum status out_begin(const char * path, struct out * o, struct error * err) {
    *o = (struct out){0};
    const char * slash = strrchr(path, '/');
    const char * name = slash ? slash + 1 : path;
    struct buf dir = {0};
    buf_append(&dir, path, (size_t) (name - path));
    if (dir.failed) {
        return error_set(err, ST_NO_MEMORY, "%.300s: no memory", path);
    }
    // Held open: the process may go elsewhere before the file is whole.
    int fd = open(slash ? (const char *) dir.data : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    buf_free(&dir);
    if (fd < 0) {
        return error_set(err, ST_IO, "%.300s: %s", path, strerror(errno));
    }
    return begin(fd, *name ? name : ".", path, o, err);
}

void out_drop(struct out * o) {
    if (o->file) {
        fclose(o->file);
        unlinkat(o->dir, o->temp, 0);
        close(o->dir);
    }
    *o = (struct out){0};
}

enum status out_end(struct out * o, struct error * err) {
    if (!o->file) {
        return error_set(err, ST_IO, "no file was begun");
    }
    struct quiet quiet; // a limit on the size of files ends the file, not the program
    quiet_begin(&quiet);
    errno = 0;
    bool whole = fflush(o->file) == 0 && !ferror(o->file) && fsync(fileno(o->file)) == 0;
    int code = whole ? 0 : errno ? errno : EIO;
    if (fclose(o->file) != 0 && !code) { // where network file systems report a full disk
        code = errno;
    }
    quiet_end(&quiet);
    enum status st = code ? error_set(err, ST_IO, "%s", strerror(code))
                          : out_may_write(o->dir, o->name, o->name, err);
    if (st == ST_OK && renameat(o->dir, o->temp, o->dir, o->name) != 0) {
        st = error_set(err, ST_IO, "%s", strerror(errno));
    }
    if (st != ST_OK) {
        unlinkat(o->dir, o->temp, 0);
    }
    close(o->dir);
    *o = (struct out){0};
    return st;
}
