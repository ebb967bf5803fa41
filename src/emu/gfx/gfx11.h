// gfx11.h: what the two halves of the gfx11 decoder share: the words that are being read, and
// scalar operands. Nobody else includes it.
//
// Kept true: nothing is read beyond `count`; what is missing reads as 0 and `missing` stays set,
// and the caller asks for more words instead of trusting what came out.
#pragma once

#include "emu/gfx/isa.h"

struct gfx11_code {
    const uint32_t * words;
    int count, used;
    bool missing;     // an instruction that goes on behind the words
    bool bad;         // an operand that no instruction has
    bool has_literal; // one literal serves every source that asks for it
    uint32_t literal;
};

struct gfx11_row {
    uint16_t op; // enum gfx_op
    uint8_t form;
};

uint32_t gfx11_next(struct gfx11_code * c);
uint32_t gfx11_literal(struct gfx11_code * c);

// The canonical number of scalar register `encoding` (0..127): null and m0 change places.
uint16_t gfx11_sgpr(unsigned encoding);
struct gfx_operand gfx11_scalar_dst(unsigned encoding);

// Source `encoding` (9 bits) as a value of that type.
struct gfx_operand gfx11_source(struct gfx11_code * c, unsigned encoding, enum gfx_type type);

static inline struct gfx_operand gfx11_vgpr(unsigned reg) {
    return (struct gfx_operand){.kind = GFX_K_VGPR, .reg = (uint16_t) reg};
}

// Instructions of the vector unit. word is the first one, already read; false: there is none such.
bool gfx11_vector(struct gfx11_code * c, uint32_t word, struct gfx_inst out[2]);
