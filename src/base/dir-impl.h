// dir-impl: what the files of dir share. FAULT stands before every call that changes the disk, so
// that a test can visit them all by counting.
#pragma once

#include "dir.h"

#include <errno.h>

// True, with errno set, where a test wants this step to fail.
static inline bool dir_step_fails(const char * step) {
    int e = dir_fault ? dir_fault(step) : 0;
    if (e) {
        errno = e;
    }
    return e != 0;
}

#define FAULT(step) dir_step_fails(step)
