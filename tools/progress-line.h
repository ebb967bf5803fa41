// progress-line: how far a long command is. On a terminal it is drawn over itself; a pipe or a file
// has a line a minute, so that a log of hours shows that the command lives and is no book.
#pragma once

#include "base/base.h"

#include <pthread.h>
#include <stdio.h>

struct progress_line {
    FILE * to;
    const char * program; // before each line
    bool drawn;           // it is a terminal
    pthread_mutex_t lock; // told
    double told;          // when the last line was written
};

// Times are seconds of a clock that only goes forward.
void progress_line_begin(struct progress_line * p, FILE * to, const char * program, double now);
// From several threads at a time.
void progress_line_tell(struct progress_line * p, double now, const char * fmt, ...)
    BASE_PRINTF(3, 4);
// What was drawn goes, for what is said next.
void progress_line_clear(struct progress_line * p);
void progress_line_end(struct progress_line * p);
