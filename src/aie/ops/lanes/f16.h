// f16: the numbers by which core programs take f16 apart. "Raised" is a magnitude that was moved to
// f32's exponent and mantissa: f16's exponent stands at bits 27..23, its mantissa at bits 22..13. A
// normal number is rebiased there; a denormal one becomes a number when 2^-14 is added in its bits
// and taken away as a float; infinity and NaN are rebiased twice, to exponent 255.
//
// Three programs do so. They share these numbers; their instructions differ with what they make and
// with the registers that are free around them:
//     lanes-edge.c        f32, exactly. Lanes have 32 bits, and values move between vectors and
//                         accumulators as the expression around them asks
//     convert.c           one or two numbers of bf16, from memory to memory. Registers are short,
//                         and the raw numbers are loaded twice: for the magnitude and for the sign
//     aie2-quant-inreg.c  one number of bf16, of a block's scale, from a register to a register:
//                         there is nothing to load again, and the sign stays in one
#pragma once

enum {
    F16_MAGNITUDE = 0x7fff,
    F16_SIGN = 0x8000,
    F16_INF = 0x7c00,
    F16_NORMAL = 0x0400, // the smallest normal one

    F16_RAISE = 13,                 // bits from f16's mantissa to f32's
    F16_LOWER = 16,                 // and from there down to bf16
    F16_RAISED = 0x0fffe000,        // the bits of a raised magnitude
    F16_RAISED_INF = 0x0f800000,    // raised exponent 31
    F16_RAISED_NAN = 0x0fc00000,    // a quiet NaN, raised
    F16_RAISED_NORMAL = 0x00800000, // the smallest raised normal one
    F16_REBIAS = 0x38000000,        // 112 << 23: from f16's exponent bias to f32's
    F16_SMALLEST = 0x38800000,      // 2^-14 in f32

    BF16_INF = 0x7f80,
};
