// kfd-topology: kfd-topology DIRECTORY [GPU] writes what HSA_MODEL_TOPOLOGY wants, with one of the
// GPUs of emu/gfx/models.c.
#include "emu/kfd/kfd.h"

#include <stdio.h>
#include <string.h>

static int usage(void) {
    fprintf(stderr, "usage: kfd-topology DIRECTORY [gfx1100 | gfx942]\n");
    return 2;
}

int main(int argc, char ** argv) {
    const char * name = argc > 2 ? argv[2] : "gfx1100";
    const struct emu_gpu_model * gpu = emu_gpu_model(name, strlen(name));
    struct error err;
    if (argc < 2 || argc > 3 || argv[1][0] == '-' || !gpu) {
        return usage();
    }
    if (gpu->arch == GFX_90A) {
        fprintf(stderr,
                "kfd-topology: ROCr 7.2 gives a %s a trap handler, which its model does not "
                "know; take gfx942\n",
                name);
        return 1;
    }
    if (kfd_topology_write(argv[1], gpu, &err) != ST_OK) {
        fprintf(stderr, "kfd-topology: %s\n", err.text);
        return 1;
    }
    return 0;
}
