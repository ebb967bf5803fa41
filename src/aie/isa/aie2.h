// aie2: the instructions of XDNA by name. AIE2_ADD is the op of the row I(ADD, ...) in aie2.def.
#pragma once

#include "aie/isa/isa.h"

enum aie2_op {
#define I(name, slot, pattern, text, operands) AIE2_##name,
#include "aie/isa/aie2.def"
#undef I
    AIE2_OP_COUNT
};
