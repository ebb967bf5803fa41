// doctor: what the files of `ggml-hsa doctor` share. A check looks at one thing and reports what it
// found; where that is not good it also reports the mend, as words to act on.
#pragma once

#include "machine.h"
#include "probe.h"

enum verdict { PASS, WARN, FAIL };

struct doctor {
    bool json;
    bool issue;    // --report: for others to read, without mends and without what is personal
    bool emulated; // asked for: the machine's own hardware does not matter
    struct buf out;
    struct buf unneeded; // checks that an emulated NPU does without, with commas between them
    json_t * checks;     // with `json`: the findings
    int n[3];            // findings by verdict
    struct machine machine;
    bool refused; // a device file cannot be opened for want of rights
    struct probe_runtime runtime;
    struct probe_plugin plugin;
};

// mend is "" where nothing is to be done. Texts may hold anything; they are made safe here.
void report(struct doctor * d, enum verdict v, const char * check, const char * mend,
            const char * fmt, ...) BASE_PRINTF(5, 6);
// The same for what a real NPU needs. Where there is a GPU to compute on, the lack is a warning; an
// emulated NPU, and a machine that has a GPU and no NPU at all, do not miss it.
void report_need(struct doctor * d, enum verdict v, const char * check, const char * mend,
                 const char * fmt, ...) BASE_PRINTF(5, 6);

// doctor-system.c: the kernel, the NPU on its bus, driver, firmware, IOMMU
void check_system(struct doctor * d);
// doctor-access.c: device files and who may open them, limits
void check_access(struct doctor * d);
// doctor-rocr.c: which HSA runtimes there are, which is opened, and what that one says
void check_runtime(struct doctor * d);
// doctor-report.c: takes home directories, user and host names out of a text
void hide_personal(struct buf * text);
// doctor-gpu.c: can kernels be had for this architecture?
void check_gpu_compiler(struct doctor * d, const char * arch);
