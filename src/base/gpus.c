// gpus: finds rows of gpus.def.
#include "base/gpus.h"

#include <string.h>

const struct gpu_name gpu_names[GPU_NAMES] = {
#define GPU(name, mach, hip, clang, in_all) {#name, mach, clang, hip, in_all},
#include "base/gpus.def"
#undef GPU
};

const struct gpu_name * gpu_by_name(const char * name) {
    for (int i = 0; i < GPU_NAMES; i++) {
        if (!strcmp(gpu_names[i].name, name)) {
            return &gpu_names[i];
        }
    }
    return NULL;
}

const struct gpu_name * gpu_by_mach(uint32_t mach) {
    for (int i = 0; i < GPU_NAMES; i++) {
        if (gpu_names[i].mach == mach) {
            return &gpu_names[i];
        }
    }
    return NULL;
}
