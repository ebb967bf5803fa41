// child: another process that a test runs, and what it says.
#pragma once

#include "base/cmocka-all.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

// What a shell command prints; it must end well. Good until the next one.
static inline const char * child_output(const char * command) {
    static char out[16384];
    FILE * pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t n = fread(out, 1, sizeof out - 1, pipe);
    out[n] = '\0';
    int status = pclose(pipe);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail_msg("%s\n-> status %d:\n%s", command, status, out);
    }
    return out;
}

static inline void assert_says(const char * out, const char * text) {
    if (!strstr(out, text)) {
        fail_msg("no \"%s\" in:\n%s", text, out);
    }
}
