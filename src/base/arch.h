// arch: the NPU architectures by name. A number that every room may use; what an architecture is
// made of is in the tables of aie/isa and aie/array.
#pragma once

enum aie_arch { AIE_ARCH_AIE2, AIE_ARCH_AIE2P, AIE_ARCH_COUNT };
