// machine: what the machine is that an NPU would be in, read from /sys, /proc, /etc and /dev and as
// data. Every path goes below a root directory: "" is the machine itself, anything else a copy of
// another one's files, as tests have them. Files are read, never run, with the caller's rights.
#pragma once

#include "base/base.h"

#define MACHINE_PATH     512
#define MACHINE_MAX_NPUS 4

struct machine_npu { // on the PCI bus, whether or not a driver holds it
    char bus[32];    // "0000:c4:00.1"
    unsigned device, revision;
    const char * family;       // "Phoenix or Hawk Point"
    const char * arch;         // "aie2", "aie2p"; NULL: the runtime does not know it
    const char * firmware_dir; // "amdnpu/1502_00" where the driver looks; NULL like arch
    char driver[32];           // that holds it; "": none
    char firmware[32];         // version that runs on it; "": the driver does not say
    char iommu[32];            // kind of its IOMMU group, "DMA-FQ" or "identity"; "": it is in none
};

struct machine {
    const char * root;
    char system[96], release[96], processor[96]; // "": not known
    int kernel[2];                               // of the release: 6, 14
    bool bus;                                    // there is a PCI bus to look at
    bool driver, out_of_tree;                    // amdxdna is loaded; not the kernel's own
    char driver_version[64];
    int n_npus;
    struct machine_npu npus[MACHINE_MAX_NPUS];
};

void machine_look(struct machine * m, const char * root);

// The kernel is of this version or later.
static inline bool machine_kernel_has(const struct machine * m, int major, int minor) {
    return m->kernel[0] > major || (m->kernel[0] == major && m->kernel[1] >= minor);
}

// "aie2" of a PCI device number, or NULL.
const char * machine_arch(unsigned device);

// The numbers of a version, "1.18.0-x", as far as there are any; the others are 0. Returns how
// many.
int machine_version(const char * text, int numbers[], int n);

// A path below the root. One that is too long becomes "", which no file has.
void machine_path(const struct machine * m, char path[MACHINE_PATH], const char * fmt, ...)
    BASE_PRINTF(3, 4);
// First line of a small file without its end; "" when there is none.
void machine_line(const struct machine * m, char * line, size_t size, const char * fmt, ...)
    BASE_PRINTF(4, 5);
// Last part of what a link points to; "" when there is none.
void machine_link(const struct machine * m, char * name, size_t size, const char * fmt, ...)
    BASE_PRINTF(4, 5);
bool machine_has(const struct machine * m, const char * fmt, ...) BASE_PRINTF(2, 3);
