// probe: what `info` and `doctor` find out, as data. What runs code of others (a runtime, a plugin)
// runs in a process of its own with a time limit: real runtimes end the process on what they do not
// expect, and the tool is for such machines.
#pragma once

#include "base/json.h"
#include "hsa/hsac.h"

#define PROBE_MAX_AGENTS 16

struct probe_agent {
    enum hsac_kind kind;
    char name[64], product[64];
    int columns;        // of a NPU's array; 0: it does not say
    struct error check; // status not ST_OK: why no kernels can be sent to it
    char driver[96];    // of a NPU that our runtime drives: the kernel's, and its firmware
    uint64_t data_free, data_total, device_heap, kernel_arguments; // bytes
};

struct probe_runtime {
    struct error err; // status ST_OK: all below is set
    char path[512];
    bool emulated;
    bool native;      // ours, with NPUs of this machine
    char second[512]; // the one that is opened beside it for GPUs, or ""
    char abi;
    char build[96];                 // "1.18.0-local-build-unknown"; "": it does not say
    int interface[2], extension[2]; // of HSA, of AMD's additions; 0.0: it does not say
    int n_agents;
    struct probe_agent agents[PROBE_MAX_AGENTS];
};

static inline bool probe_has(const struct probe_runtime * r, enum hsac_kind kind) {
    for (int i = 0; i < r->n_agents; i++) {
        if (r->agents[i].kind == kind) {
            return true;
        }
    }
    return false;
}

void probe_runtime(struct probe_runtime * out);
// The file that the loader finds for a library's name; "" when there is none that loads.
void probe_loader(const char * name, char * path, size_t size);

struct probe_plugin {
    struct error err; // ST_NOT_FOUND: no file; ST_UNSUPPORTED: it refuses this ggml
    char path[512];
    char ggml_version[32];
    int api, devices;
    char said[512]; // its first warning
    int missing;    // ops without a kernel on the first device; -1: the plugin does not say
    char missing_ops[1024];
};

void probe_plugin(struct probe_plugin * out);

// One variable of ours that is set.
struct probe_variable {
    const char * name;
    size_t name_size;
    const char * value;
    const char * meaning; // NULL: there is no such variable
    const char * alike;   // then: one whose name is close, or NULL
};

// Calls visit for each variable of base/variables.h in the environment, and for whatever else
// begins with GGML_HSA_.
void probe_environment(void (*visit)(void * user, const struct probe_variable * v), void * user);

// What this build contains, by the names of its CMake options.
struct probe_option {
    const char * name;
    bool on;
};
extern const struct probe_option probe_options[];
extern const int probe_n_options;

// A JSON string; bytes that are no UTF-8 become '?'.
// A file that is installed with this tool, or built beside it.
bool probe_find(const char * name, char path[512]);

json_t * json_text(const char * text);
// Text for a terminal: what could steer one becomes '?'.
void plain_text(struct buf * b, const char * text);
// "64 MiB", "1.5 GiB", "12 bytes".
void size_text(struct buf * b, uint64_t bytes);
