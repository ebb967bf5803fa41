// sem-v4: four lanes of 32 bits as every host has them, and the parts of an fp32 number, for the
// files that compute with them (sem-float.c, sem-bf16.c, sem-x86.c).
#pragma once

#include <stdint.h>

typedef float v4f __attribute__((vector_size(16)));
typedef int32_t v4i __attribute__((vector_size(16)));
typedef uint32_t v4u __attribute__((vector_size(16)));

enum { MAGNITUDE = 0x7fffffff, EXPONENT = 0x7f800000, SMALLEST = 0x800000 };

static inline v4i select4(v4i mask, v4i yes, v4i no) {
    return (yes & mask) | (no & ~mask);
}
