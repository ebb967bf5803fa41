// tool-run: runs ggml-hsa as people do, and keeps what it says.
#pragma once

#include "base/base.h"
#include "base/cmocka-all.h"

#include <stdio.h>
#include <sys/wait.h>

struct result {
    int status;
    struct buf text; // standard output and standard error
};

static inline struct result run(const char * arguments) {
    char command[2048];
    snprintf(command, sizeof command, "%s %s 2>&1", TOOL, arguments);
    FILE * pipe = popen(command, "r");
    assert_non_null(pipe);
    struct result r = {0};
    char part[4096];
    for (size_t n; (n = fread(part, 1, sizeof part, pipe)) > 0;) {
        buf_append(&r.text, part, n);
    }
    buf_append(&r.text, "", 1);
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    r.status = WEXITSTATUS(status);
    return r;
}
