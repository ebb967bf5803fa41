// fuzz-machine-aie2p: fuzz-machine for the other NPU.
#define ARCH AIE_ARCH_AIE2P
#include "fuzz-machine.c"
