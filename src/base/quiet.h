// quiet: writes that fail with an errno, never with a signal. A limit on file sizes sends SIGXFSZ
// and a reader that went away SIGPIPE; both end a program that did not expect them, and a library
// has no right to end its host or to change its handlers. While a quiet section lasts they are held
// back for this thread alone, and what our own write raised is taken before they are let in again.
#pragma once

#include <signal.h>
#include <stdbool.h>

struct quiet {
    sigset_t before;  // the thread's mask
    sigset_t pending; // what the host program had waiting already, and keeps
};

void quiet_begin(struct quiet * q);
void quiet_end(const struct quiet * q); // errno is as it was
