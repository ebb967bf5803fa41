// target: the targets by their number, and what is asked of any of them.
#include "target.h"

extern const struct aie_target target_aie2, target_aie2p;

static const struct aie_target * const targets[AIE_ARCH_COUNT] = {
    [AIE_ARCH_AIE2] = &target_aie2,
    [AIE_ARCH_AIE2P] = &target_aie2p,
};

const struct aie_target * aie_target(enum aie_arch arch) {
    return targets[arch];
}

const struct aie_target * aie_target_of_generation(unsigned generation) {
    for (int i = 0; i < AIE_ARCH_COUNT; i++) {
        if ((unsigned) targets[i]->device_generation == generation) {
            return targets[i];
        }
    }
    return NULL;
}

enum aie_file aie_target_file(const struct aie_target * t, int unit) {
    int run = 0;
    while (run + 1 < AIE_MOST_FILE_RUNS && t->files[run + 1].unit &&
           unit >= t->files[run + 1].unit) {
        run++;
    }
    return (enum aie_file) t->files[run].file;
}
