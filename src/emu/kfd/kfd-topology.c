// kfd-topology: kfd-topology DIRECTORY [GPU...] writes what HSA_MODEL_TOPOLOGY wants, with one or
// more GPUs of emu/gfx/models.c.
#include "emu/kfd/kfd.h"

#include <stdio.h>
#include <string.h>

enum { MAX_GPUS = 8 };

static int usage(void) {
    fprintf(stderr, "usage: kfd-topology DIRECTORY [GPU...]\nGPUs:");
    for (int i = 0; i < EMU_GPU_MODELS; i++) {
        fprintf(stderr, " %s", gfx_arch_name(emu_gpu_models[i].arch));
    }
    fprintf(stderr, "; without one, gfx1100\n");
    return 2;
}

int main(int argc, char ** argv) {
    const struct emu_gpu_model * gpus[MAX_GPUS] = {emu_gpu_model("gfx1100", 7)};
    int n = argc > 2 ? argc - 2 : 1;
    if (argc < 2 || argv[1][0] == '-' || n > MAX_GPUS) {
        return usage();
    }
    for (int i = 2; i < argc; i++) {
        gpus[i - 2] = emu_gpu_model(argv[i], strlen(argv[i]));
        if (!gpus[i - 2]) {
            fprintf(stderr, "kfd-topology: '%.40s' is no GPU that is emulated\n", argv[i]);
            return usage();
        }
    }
    struct error err;
    if (kfd_topology_write(argv[1], gpus, n, &err) != ST_OK) {
        fprintf(stderr, "kfd-topology: %s\n", err.text);
        return 1;
    }
    return 0;
}
