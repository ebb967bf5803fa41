// fail: memory that runs out at a chosen call. Every call of our own code that can find no memory
// counts: allocations, and what of libc allocates for it (opendir, fopen, getcwd, threads). Calls
// of ggml, libstdc++ and libc itself do not: what they do without memory is theirs.
//
// In a plain build the functions below stand before libc's for the whole process, the plugin and
// the emulated runtime included, and who called is told by the address; as a library to preload
// (libno-memory.so) they do so in any program, with NO_MEMORY_AT=N in the environment. Under a
// sanitizer, which has the same place, the linker puts them before what is linked statically.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum fail_mode {
    FAIL_ONCE,      // the n-th call from now fails
    FAIL_ON,        // and every call behind it
    FAIL_SOMETIMES, // one of n, at random
    FAIL_NEVER,     // but where calls come from is noted
};

enum { FAIL_MOST_NOTED = 1 << 15, FAIL_DEPTH = 2 };

// Whose calls count: what is loaded now, and the program itself where it is under test. Before it
// nothing fails.
void fail_learn(bool program);
void fail_begin(enum fail_mode mode, uint64_t n);
uint64_t fail_end(void);    // calls that counted since; afterwards nothing fails
uint64_t fail_failed(void); // how many of them failed
// With FAIL_NEVER: a number for each call that stands for who called, and who called him.
extern uint64_t * fail_noted; // NULL: nowhere; else FAIL_MOST_NOTED of them
