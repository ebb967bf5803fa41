// roofline: a node of ggml on an emulated GPU, for `ggml-hsa bench --arch gfx...`: what it reads,
// writes and computes, what its kernels are by their code objects, what they executed, and beside
// it what a real chip could do at best. Times are estimated; nothing here is measured on hardware.
#pragma once

#include "llm.h"

#include "hsa-emu.h"

#include <stdbool.h>

struct gpu_chip {
    const char *arch, *emulated, *name;
    double cus, mhz, gbs, f32, f16; // gpu-chips.def
    uint32_t simds, vgprs, granule, waves, lds;
    const char *source, *guessed; // "": nothing is
};

const struct gpu_chip * gpu_chip_named(const char * arch); // NULL: it is not in the table
void gpu_chips_list(char * text, size_t size);             // their names

enum { GPU_LAUNCHES = 16 };

struct gpu_account {
    const struct gpu_chip * chip;
    double bytes, flops; // of the op: every operand once; 0 flops: no product
    int n;               // launches, of which the first GPU_LAUNCHES are here
    struct hsa_emu_launch launches[GPU_LAUNCHES];
};

// As llm_open, for the chip. The environment is changed: GGML_HSA_EMULATE.
const char * gpu_open(const char * plugin, const struct gpu_chip * chip, struct llm_device * out);
// Computes the graph, which is that node; NULL, or what is wrong.
const char * gpu_compute(const struct llm_device * d, struct ggml_cgraph * graph,
                         const struct ggml_tensor * node, struct gpu_account * a);

// Waves of a SIMD at a time, of those that the chip has room for; *by says what limits them.
uint32_t gpu_occupancy(const struct gpu_chip * chip, const struct hsa_emu_launch * l,
                       const char ** by);

int gpu_print(const char * op, const char * type, const char * shape, const struct gpu_account * a,
              bool json); // 0, or the tool's exit status
