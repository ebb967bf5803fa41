// workplace: see workplace.h.
#include "workplace.h"

#include "dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_DEPTH 32 // of directories that we remove

// mkdtemp makes it for us alone; walking there again, step by step, tells whether others could have
// put something in its place.
enum status workplace_make(const char * prefix, struct workplace * w, struct error * err) {
    const char * variable = getenv("TMPDIR");
    const char * const bases[] = {variable && variable[0] == '/' ? variable : "/tmp", "/tmp"};
    enum status st = ST_IO;
    for (int i = 0; i < 2; i++) {
        snprintf(w->path, sizeof w->path, "%.3000s/%.80s-XXXXXX", bases[i], prefix);
        if (!mkdtemp(w->path)) {
            st = error_set(err, ST_IO, "%.250s: %s", w->path, strerror(errno));
            continue;
        }
        st = dir_open(bases[i], strrchr(w->path, '/') + 1, false, &w->dir, err);
        if (st == ST_OK) {
            return ST_OK;
        }
        rmdir(w->path);
    }
    error_prefix(err, "no directory for temporary files; name one in TMPDIR");
    return st;
}

// Opens a directory, not a link to one, also where its mode keeps even us out.
static int open_directory(int parent, const char * name) {
    enum { FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
    int fd = openat(parent, name, FLAGS);
    struct stat info;
    // chmod would follow a link.
    if (fd < 0 && errno == EACCES && fstatat(parent, name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(info.st_mode) && fchmodat(parent, name, 0700, 0) == 0) {
        fd = openat(parent, name, FLAGS);
    }
    return fd;
}

// Removes what is in a directory, links as links. Takes fd over.
static void empty_directory(int fd, int depth) {
    DIR * dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return;
    }
    fchmod(fd, 0700);
    // What is removed while it is read may make readdir skip others: again until nothing goes.
    for (bool removed = true; removed;) {
        removed = false;
        rewinddir(dir);
        for (struct dirent * e; (e = readdir(dir));) {
            if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) {
                continue;
            }
            bool gone = unlinkat(fd, e->d_name, 0) == 0;
            int sub = gone || depth == 0 ? -1 : open_directory(fd, e->d_name);
            if (sub >= 0) {
                empty_directory(sub, depth - 1);
                gone = unlinkat(fd, e->d_name, AT_REMOVEDIR) == 0;
            }
            removed |= gone;
        }
    }
    closedir(dir);
}

void workplace_remove(struct workplace * w) {
    empty_directory(w->dir, MAX_DEPTH);
    rmdir(w->path);
}
