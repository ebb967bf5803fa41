// doctor: what the files of `ggml-hsa doctor` share. A check looks at one thing and reports what it
// found; where that is not good it also reports the mend, as words to act on.
#pragma once

#include "probe.h"

enum verdict { PASS, WARN, FAIL };

struct doctor {
    bool json;
    bool emulated; // asked for: the machine's own hardware does not matter
    struct buf out;
    json_t * checks; // with `json`: the findings
    int n[3];        // findings by verdict
    struct probe_runtime runtime;
    struct probe_plugin plugin;
};

// mend is "" where nothing is to be done. Texts may hold anything; they are made safe here.
void report(struct doctor * d, enum verdict v, const char * check, const char * mend,
            const char * fmt, ...) BASE_PRINTF(5, 6);

// doctor-system.c: driver, device nodes, groups, limits, firmware
void check_system(struct doctor * d);

// doctor-gpu.c: can kernels be had for this architecture?
void check_gpu_compiler(struct doctor * d, const char * arch);
