// workplace: see workplace.h.
#include "workplace.h"

#include "dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// mkdtemp makes it for us alone; walking there again, step by step, tells whether others could have
// put something in its place.
enum status workplace_make(const char * prefix, struct workplace * w, struct error * err) {
    const char * variable = secure_getenv("TMPDIR");
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
    error_prefix(err, st, "no directory for temporary files; name one in TMPDIR");
    return st;
}

// ---- removing ----
//
// Without malloc, and however deep it goes: what is two levels down is moved up to the top before
// it is looked into. Everything is named by its parent's descriptor, and links go as links.

// Opens a directory, not a link to one, also where its mode keeps even us out.
static int open_directory(int parent, const char * name) {
    enum { FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
    int fd = openat(parent, name, FLAGS);
    if (fd >= 0 || errno != EACCES) {
        return fd;
    }
    // chmod by name would follow a link that took its place meanwhile.
    int handle = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (handle < 0) {
        return -1;
    }
    char path[] = "/proc/self/fd/0000000000";
    char * end = path + sizeof path - 1;
    for (int n = handle, i = 1; i <= 10; n /= 10, i++) {
        end[-i] = (char) ('0' + n % 10);
    }
    char * digits = end - 10;
    while (digits[0] == '0' && digits[1]) { // the name has no zeros in front
        memmove(digits, digits + 1, strlen(digits));
    }
    if (chmod(path, 0700) == 0) {
        fd = openat(parent, name, FLAGS);
    }
    close(handle);
    return fd;
}

struct entries { // of a directory, as the system gives them
    int fd;
    long size, at;
    char data[4096] __attribute__((aligned(8)));
};

// The next name but "." and "..", or NULL.
static const char * next_entry(struct entries * e) {
    enum { RECORD_LENGTH = 16, NAME = 19 }; // struct linux_dirent64
    for (;;) {
        if (e->at >= e->size) {
            e->at = 0;
            e->size = syscall(SYS_getdents64, e->fd, e->data, sizeof e->data);
            if (e->size <= 0) {
                return NULL;
            }
        }
        unsigned short length;
        memcpy(&length, e->data + e->at + RECORD_LENGTH, sizeof length);
        const char * name = e->data + e->at + NAME;
        e->at += length;
        if (strcmp(name, ".") && strcmp(name, "..")) {
            return name;
        }
    }
}

static bool remove_simple(int dir, const char * name) {
    return unlinkat(dir, name, 0) == 0 || unlinkat(dir, name, AT_REMOVEDIR) == 0;
}

// A name at the top that nobody has yet.
static void next_name(char name[12], unsigned * count) {
    unsigned n = ++*count;
    memcpy(name, "#0000000000", 12);
    for (int i = 10; n; i--, n /= 10) {
        name[i] = (char) ('0' + n % 10);
    }
}

// Empties a directory of the top: files go, directories below move up.
static void flatten(int top, const char * name, unsigned * count) {
    struct entries e = {.fd = open_directory(top, name)};
    if (e.fd < 0) {
        return;
    }
    fchmod(e.fd, 0700);
    for (const char * inner; (inner = next_entry(&e));) {
        if (!remove_simple(e.fd, inner)) {
            char up[12];
            do {
                next_name(up, count);
            } while (faccessat(top, up, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
            int sub = open_directory(e.fd, inner); // its mode must let it be moved
            if (sub >= 0) {
                fchmod(sub, 0700);
                close(sub);
            }
            renameat(e.fd, inner, top, up);
        }
    }
    close(e.fd);
    unlinkat(top, name, AT_REMOVEDIR);
}

void workplace_empty(int dir) {
    unsigned count = 0;
    fchmod(dir, 0700);
    // What is removed while it is read may make others be passed over: again until nothing is left,
    // or nothing moves.
    for (unsigned before = UINT_MAX; count != before;) {
        struct entries e = {.fd = open_directory(dir, ".")};
        if (e.fd < 0) {
            return;
        }
        bool any = false;
        before = count;
        for (const char * name; (name = next_entry(&e));) {
            any = true;
            if (remove_simple(dir, name)) {
                count++;
            } else {
                flatten(dir, name, &count);
                count += faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
            }
        }
        close(e.fd);
        if (!any) {
            return;
        }
    }
}

void workplace_remove(struct workplace * w) {
    workplace_empty(w->dir);
    close(w->dir);
    rmdir(w->path);
}
