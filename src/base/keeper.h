// keeper: stands between us and a program that we run, and outlives neither. A process group is not
// enough: what a compiler starts may leave the group, and nobody cleans up behind a caller that was
// interrupted. The keeper takes in every orphan below it (Linux calls it a subreaper), and ends all
// of them when the program has ended, when it is told to, or when its caller is gone; then it also
// removes the workplace that the caller can no longer remove.
//
// It is forked from a program with threads: whatever it calls must be safe there, so no malloc.
#pragma once

#include <sys/types.h>

struct keeper {
    int lifeline;      // read end: whoever holds the other end wants the program to go on
    int told;          // write end: gets the program's wait status when all is over
    int report;        // write end: gets errno when no process could be had for the program
    int place;         // a workplace's directory, or -1
    const char * path; // and its name
    pid_t caller;
};

// What runs in the keeper's child: it executes the program and does not return.
typedef void (*keeper_program)(void * user, pid_t keeper);

_Noreturn void keeper_run(const struct keeper * k, keeper_program program, void * user);
