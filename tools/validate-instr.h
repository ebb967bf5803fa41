// validate-instr: single instructions: what the files of that step share.
#pragma once

#include "validate.h"

// Registers that belong to us: what points at memory, and what carries others' values.
#define REG_POINTER AIE_REG(AIE_P, 7)
#define REG_CARRY   AIE_REG(AIE_R, 28)

// The register that a unit is, and its bytes; 0 bytes: it is none that can be set.
aie_reg register_of_unit(int unit, int * bytes);
// Code that sets a unit's register from the core's memory at that address, or stores it there;
// false: there is no way.
bool register_set(struct code * c, aie_reg reg, uint32_t address);
bool register_store(struct code * c, aie_reg reg, uint32_t address);
