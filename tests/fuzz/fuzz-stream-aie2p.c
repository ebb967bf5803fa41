// fuzz-stream-aie2p: fuzz-stream on the other architecture.
#define ARCH AIE_ARCH_AIE2P
#include "fuzz-stream.c"
