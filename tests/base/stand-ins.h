// stand-ins: what may stand where a file is to be written and is no regular file. A test puts one
// there, has the file written, and asks whether all is as it was: a program that runs as root and
// is told to write to /dev/null must not leave a file in its place, and a link that somebody else
// made must not lead to another file.
#pragma once

#include "base/cmocka-all.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct stand_in {
    char path[512], victim[512]; // the place, and a file that a link there leads to
    struct stat before;
};

static const char * const stand_ins[] = {"a link to a file",
                                         "a link that leads nowhere",
                                         "a link to a directory",
                                         "a pipe",
                                         "a socket",
                                         "a directory",
                                         "a device (not as root)",
                                         NULL};

#define STAND_IN_TEXT "of somebody else\n"

static inline void stand_in_victim(const char * path) {
    FILE * f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(STAND_IN_TEXT, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

// False where this system makes none: a device takes root.
static inline bool stand_in_make(struct stand_in * s, int kind, const char * path) {
    snprintf(s->path, sizeof s->path, "%s", path);
    snprintf(s->victim, sizeof s->victim, "%.500s.victim", path);
    stand_in_victim(s->victim);
    int failed;
    switch (kind) {
    case 0:
        failed = symlink(s->victim, path);
        break;
    case 1:
        failed = symlink("nowhere-at-all", path);
        break;
    case 2:
        failed = symlink("/tmp", path);
        break;
    case 3:
        failed = mkfifo(path, 0666);
        break;
    case 4:
        failed = mknod(path, S_IFSOCK | 0666, 0);
        break;
    case 5:
        failed = mkdir(path, 0777);
        break;
    default: // that of /dev/null
        failed = mknod(path, S_IFCHR | 0666, makedev(1, 3));
    }
    if (failed && kind == 6) {
        unlink(s->victim);
        return false;
    }
    assert_int_equal(failed, 0);
    assert_int_equal(lstat(path, &s->before), 0);
    return true;
}

// All is as it was; it is gone then. `of` may be NULL.
static inline void stand_in_check(const struct stand_in * s, int kind, const char * of) {
    struct stat now;
    char text[sizeof STAND_IN_TEXT + 8] = "";
    if (lstat(s->path, &now) != 0 || now.st_ino != s->before.st_ino ||
        now.st_mode != s->before.st_mode || now.st_rdev != s->before.st_rdev) {
        fail_msg("%s%swrote over %s", of ? of : "", of ? ": " : "", stand_ins[kind]);
    }
    FILE * f = fopen(s->victim, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    if (n != sizeof STAND_IN_TEXT - 1 || strcmp(text, STAND_IN_TEXT) != 0) {
        fail_msg("%s%sfollowed %s", of ? of : "", of ? ": " : "", stand_ins[kind]);
    }
    unlink(s->victim);
    assert_int_equal(kind == 5 ? rmdir(s->path) : unlink(s->path), 0);
}
