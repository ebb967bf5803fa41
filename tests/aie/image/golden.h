// Golden files: names and how to read them. Tests skip when the directory is not there.
#pragma once

#include "base/base.h"
#include "base/cmocka-all.h"

#define AIE2  GOLDEN_DIR "/aie2-kernels/"
#define AIE2P GOLDEN_DIR "/aie2p-project/"

static const char * const golden_pdis[] = {
    AIE2 "single-add.pdi",          AIE2 "fused-add-add.pdi", AIE2 "gemm-i16-256-1core.pdi",
    AIE2 "gemm-i16-512-16core.pdi", AIE2P "main.pdi",
};
static const char * const golden_streams[] = {
    AIE2 "single-add_insts.bin",
    AIE2 "fused-add-add_insts.bin",
    AIE2 "gemm-i16-256-1core_insts.bin",
    AIE2 "gemm-i16-512-16core_insts.bin",
    AIE2P "insts.bin",
};
enum { GOLDEN_KERNELS = 5 };

struct bytes {
    uint8_t * data;
    size_t size;
};

// The caller frees data. Leaves the test when the file is not there.
static inline struct bytes golden(const char * path) {
    struct bytes b;
    struct error err = {0};
    enum status st = file_read(path, 1 << 24, &b.data, &b.size, &err);
    if (st == ST_NOT_FOUND) {
        skip_golden(path);
    }
    if (st != ST_OK) {
        fail_msg("%s", err.text);
    }
    return b;
}
