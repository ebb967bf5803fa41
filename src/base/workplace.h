// workplace: a directory for the files of a program that we run. Its name is random, only we can
// enter it, and it goes with all that the program left there.
#pragma once

#include "base.h"

#include <limits.h>

struct workplace {
    int dir;
    char path[PATH_MAX];
};

// In TMPDIR, or in /tmp where that is no place to be trusted. The name begins with prefix.
enum status workplace_make(const char * prefix, struct workplace * w, struct error * err);
void workplace_remove(struct workplace * w);
// Only what is in it; safe in a forked child of a program with threads.
void workplace_empty(int dir);
