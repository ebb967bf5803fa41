// fuzz-bundle-aie2p: fuzz-bundle for the other instruction set.
#define ARCH AIE_ARCH_AIE2P
#include "fuzz-bundle.c"
