// target-aie2p: the core of XDNA 2 (Strix, Krackan): nothing yet.
#include "emu/aie/core-target.h"

static const struct sem_family * const families[] = {NULL};

const struct core_target core_target_aie2p = {
    .arch = AIE_ARCH_AIE2P, .generation = 4, .clock = "strix", .families = families};
