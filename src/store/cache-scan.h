// cache-scan: what lies in the directory of the cache, by name and inode, without reading any of
// it.
#pragma once

#include "cache-impl.h"

struct scan_kernel {
    enum aie_arch arch;
    char * name;
    bool parts[PART_LOCK]; // which of its files are there
    uint64_t blocks;       // of its files without the PDI
    uint64_t pdi_inode;    // 0: none
    uint64_t pdi_blocks;
    int64_t used;
    bool ours; // made by a cache like this one, if not to the end; the rest is not touched
};

struct scan_inode { // a PDI, however many kernels link to it
    uint64_t inode, blocks;
    int kernels;   // of ours
    char * shared; // its name in <dir>/shared, or NULL
};

struct scan_stray { // in the quarantine, or left by a process that was killed
    int place;      // arch, or one of the two below
    char * name;
    uint64_t blocks;
    int64_t changed;
    bool quarantined;
};
enum { PLACE_SHARED = AIE_ARCH_COUNT, PLACE_QUARANTINE, PLACES };

struct scan {
    int dirs[PLACES]; // -1: not there, or not to be trusted
    struct scan_kernel * kernels;
    size_t n_kernels;
    struct scan_inode * inodes; // in the order of their numbers
    size_t n_inodes;
    struct scan_stray * strays;
    size_t n_strays;
    uint64_t blocks, files, quarantined; // without those of kernels that are not ours
    size_t n_foreign;                    // such kernels
    bool failed;                         // no memory
};

enum status scan_cache(struct cache * c, struct scan * out, struct error * err);
void scan_free(struct scan * s);
struct scan_inode * scan_find_inode(struct scan * s, uint64_t inode);

// Is this the name of a file of a kernel? *part and the length of the kernel's name in it.
bool scan_is_kernel_file(const char * file, enum cache_part * part, size_t * stem);
