// fuzz-verify-aie2p: fuzz-verify for the other NPU.
#define ARCH AIE_ARCH_AIE2P
#include "fuzz-verify.c"
