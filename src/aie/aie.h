// aie: the NPU compiler. A kernel spec goes in, a PDI and an instruction stream come out.
#pragma once

#include "kernel/kernel.h"

// Cheap: ST_OK when aie_compile would make this kernel, ST_UNSUPPORTED with the reason otherwise.
// Never allocates.
enum status aie_supports(const struct kernel_spec * spec, struct error * err);

// Makes the kernel. On success the caller owns *out (kernel_code_free).
enum status aie_compile(const struct kernel_spec * spec, struct kernel_code * out, struct error * err);
