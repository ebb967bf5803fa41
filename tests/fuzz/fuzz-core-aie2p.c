// fuzz-core-aie2p: fuzz-core for the other NPU.
#define ARCH AIE_ARCH_AIE2P
#include "fuzz-core.c"
