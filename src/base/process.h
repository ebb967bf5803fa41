// process: runs a program without a shell, with a time limit, and keeps the end of what it prints.
// Nothing of the caller leaks into the program but its environment and its working directory: open
// files are closed, signals are back at their defaults, standard input is empty. The program and
// whatever it starts are gone when process_run returns, and soon after the caller itself has died:
// see keeper.h.
#pragma once

#include "base.h"
#include "workplace.h"

#include <sys/types.h>

struct process {
    char * const * argv;            // ends with NULL; argv[0] without '/' is looked for along PATH
    const char * tmpdir;            // the program's TMPDIR; NULL: as ours
    const struct workplace * place; // instead: its TMPDIR, removed if we die meanwhile; may be NULL
    unsigned time_limit_s;          // 0: none
    bool capture; // false: the program's output goes where ours goes, and none is kept
    bool show;    // with capture: pass it on to standard error as it comes
    size_t keep;  // with capture: bytes of the end that are kept
};

struct process_end {
    bool timed_out;    // it was killed because the time was up
    bool known;        // false: somebody else took its exit status; nothing below is set
    int exit_status;   // when signal is 0
    int signal;        // that ended it
    uint64_t printed;  // bytes in all
    bool unheard;      // it was to be shown, but nobody read it
    struct buf output; // the last `keep` bytes; the caller frees it
};

// ST_OK when the program ran, however it ended. ST_NOT_FOUND when there is no such program,
// ST_IO when it could not be started; err names it.
enum status process_run(const struct process * p, struct process_end * end, struct error * err);

// Where a program is, as process_run would find it. The caller frees the path; NULL when there is
// none or it is not executable.
char * process_find(const char * name);

// Closes all descriptors from `first` on; for the time between fork and exec.
void process_close_from(int first);
