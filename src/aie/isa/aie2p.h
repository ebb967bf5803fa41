// aie2p: the instructions of XDNA 2 by name. AIE2P_ADD is the op of the row I(ADD, ...) in
// aie2p.def.
#pragma once

#include "aie/isa/isa.h"

enum aie2p_op {
#define I(name, slot, pattern, text, operands) AIE2P_##name,
#include "aie/isa/aie2p.def"
#undef I
    AIE2P_OP_COUNT
};
