// isa: instructions of AMD GPUs in one form for all generations. A decoder turns bytes into struct
// gfx_inst with a canonical operation (the names of gfx11; older generations map theirs); the rest
// of the room sees nothing else. Operations stand in ops.def, one row each.
//
// Kept true by every decoder:
// - Registers are canonical: scalar 0..105, VCC 106, M0 124, NULL 125, EXEC 126, whatever numbers
// the
//   encoding uses; vector 0..255, accumulation 256..511.
// - Constants, inline or literal, arrive as values of the width that the operation's type asks for
//   (gfx_inline_constant and gfx_literal), so that no one behind the decoder knows encodings.
// - What an encoding implies is written out: VCC as sdst of a VOP2 carry or as the mask of
//   v_cndmask_b32_e32; the literal of v_fmamk as src[1]. Tied destinations are added by
//   gfx_prepare.
#pragma once

#include "base/base.h"

#include "emu/gfx/gfx.h"

// ---- types of operands: width, and what the float modifiers touch ----

enum gfx_type {
    GFX_T_N,   // no operand
    GFX_T_B16, // low half of a register; B: modifiers have no meaning
    GFX_T_F16,
    GFX_T_B32,
    GFX_T_F32,
    GFX_T_B64, // literals are zero-extended
    GFX_T_I64, // literals are sign-extended
    GFX_T_F64, // literals are the high word
    GFX_T_P16, // two halves in one register; op_sel, op_sel_hi, neg, neg_hi for each of them
    GFX_T_P32, // two words in two registers, likewise
    GFX_T_M,   // a bit for each lane, in scalar registers
};

// ---- operations ----

enum gfx_class {
    GFX_C_SALU,   // scalar arithmetic
    GFX_C_SCTL,   // scalar instructions that see the whole wave: branches, barriers, modes
    GFX_C_SMEM,   // scalar memory
    GFX_C_VALU,   // each lane by itself
    GFX_C_VCMP,   // each lane by itself, the result is a mask
    GFX_C_VLANE,  // lanes see each other
    GFX_C_MEM,    // vector memory, LDS included
    GFX_C_DS,     // what only LDS hardware does: two addresses, permutes
    GFX_C_MATRIX, // lanes hold parts of matrices
};

enum gfx_op {
    GFX_OP_INVALID,
#define SALU(name, d, a, b)           GFX_##name,
#define SCTL(name, d, a)              GFX_##name,
#define SMEM(name, kind, bytes)       GFX_##name,
#define VALU(name, d, a, b, c, flags) GFX_##name,
#define VCMP(name, type, type2)       GFX_##name,
#define VLANE(name, d, a, b, c)       GFX_##name,
#define MEM(name, kind, bytes, form)  GFX_##name,
#define DS(name, bytes)               GFX_##name,
#include "emu/gfx/ops.def"
#define MFMA(name, gfx90a, gfx942, ab, d, m, n, k, blocks) GFX_##name,
#define WMMA(name, gfx11, ab, d, m, n, k, blocks)          GFX_##name,
#include "emu/gfx/matrix.def"
    GFX_OP_COUNT,
};
enum { GFX_MATRIX_FIRST = GFX_v_mfma_f32_32x32x1_2b_f32 }; // from there on, to the last

// What a memory operation does; the form says how memory becomes register and back.
enum gfx_mem_kind {
    GFX_M_LOAD,
    GFX_M_STORE,
    GFX_M_ATOMIC,
    GFX_M_FENCE, // cache control
    GFX_M_TIME,  // s_memtime
};

enum gfx_mem_form {
    GFX_X_RAW,    // words as they are
    GFX_X_ZERO,   // zero-extended
    GFX_X_SIGN,   // sign-extended
    GFX_X_D16,    // zero-extended into the low half, the other half stays
    GFX_X_D16_S,  // sign-extended into the low half
    GFX_X_D16_HI, // the same for the high half
    GFX_X_D16_HI_S,
};

enum gfx_op_flags {
    GFX_O_TIED = 1,   // the destination is src[2] as well
    GFX_O_CARRY = 2,  // writes a mask to sdst
    GFX_O_VCC = 4,    // reads VCC whatever the encoding says
    GFX_O_HALVES = 8, // looks at op_sel itself
    GFX_O_ALIAS = 16, // v_swap_b32: the first source is written too
};

struct gfx_op_info {
    const char * name;   // canonical; memory operations without the prefix of their segment
    uint8_t class;       // enum gfx_class
    uint8_t dst, src[3]; // enum gfx_type
    uint8_t flags;       // enum gfx_op_flags
    uint8_t kind, form;  // memory: enum gfx_mem_kind, gfx_mem_form
    uint8_t bytes;       // memory: of one lane
};

extern const struct gfx_op_info gfx_op_info[GFX_OP_COUNT];

// ---- instructions ----

enum gfx_reg {
    GFX_SGPR_FLAT_SCRATCH = 102, // gfx9
    GFX_SGPR_VCC = 106,
    GFX_SGPR_TTMP = 108,
    GFX_SGPR_M0 = 124,
    GFX_SGPR_NULL = 125, // reads 0, forgets writes
    GFX_SGPR_EXEC = 126,
    GFX_SGPR_COUNT = 128,
    GFX_VGPR_ACC = 256,
    GFX_VGPR_COUNT = 512,
};

enum gfx_operand_kind {
    GFX_K_NONE,
    GFX_K_VGPR,
    GFX_K_SGPR,
    GFX_K_CONST,   // value
    GFX_K_SPECIAL, // reg is enum gfx_special
};

enum gfx_special {
    GFX_S_SHARED_BASE,
    GFX_S_SHARED_LIMIT,
    GFX_S_PRIVATE_BASE,
    GFX_S_PRIVATE_LIMIT,
    GFX_S_VCCZ,
    GFX_S_EXECZ,
    GFX_S_SCC,
};

struct gfx_operand {
    uint8_t kind; // enum gfx_operand_kind
    uint8_t neg, abs;
    uint16_t reg;
    uint64_t value;
};

enum gfx_segment { GFX_GLOBAL, GFX_FLAT, GFX_SCRATCH, GFX_BUFFER, GFX_LDS };

enum gfx_inst_flags {
    GFX_F_CLAMP = 1 << 0,
    GFX_F_CMPX = 1 << 1,      // the mask goes to EXEC
    GFX_F_CMPX_ONLY = 1 << 2, // ... and nowhere else (gfx10 and later)
    GFX_F_PAIR = 1 << 3,      // VOPD: the instruction behind it reads before this one writes
    GFX_F_SDWA = 1 << 4,
    GFX_F_DPP = 1 << 5,      // dpp.control
    GFX_F_DPP8 = 1 << 6,     // dpp.lanes
    GFX_F_RETURN = 1 << 7,   // atomic: the old value goes to dst
    GFX_F_OFFEN = 1 << 8,    // buffer: src[0] holds an offset
    GFX_F_IDXEN = 1 << 9,    // buffer: src[0] holds an index
    GFX_F_LDS_DMA = 1 << 10, // load goes to LDS; not executed here
    GFX_F_HIGH = 1 << 11,    // op_sel of the destination: write the high half
    GFX_F_KEEP = 1 << 12, // 16-bit result: the other half of the register stays (else it is zeroed)
};

// SDWA: which part of a register.
enum gfx_sdwa_sel {
    GFX_SEL_BYTE0,
    GFX_SEL_BYTE1,
    GFX_SEL_BYTE2,
    GFX_SEL_BYTE3,
    GFX_SEL_WORD0,
    GFX_SEL_WORD1,
    GFX_SEL_DWORD,
};

enum gfx_sdwa_unused { GFX_UNUSED_PAD, GFX_UNUSED_SEXT, GFX_UNUSED_KEEP };

struct gfx_wave;
struct gfx_lanes;
struct gfx_inst;
typedef void (*gfx_step_fn)(struct gfx_wave * w, const struct gfx_inst * in);
typedef void (*gfx_lanes_fn)(struct gfx_lanes * x);

// How the operands of each class lie:
// - SALU, SCTL: dst, src[0], src[1]; imm is the 16-bit constant of SOPK and SOPP, sign-extended.
// - SMEM: dst (data), src[0] (base, a pair; four for buffers), src[1] (offset register or none),
// imm.
// - VALU, VCMP, VLANE: dst (vector; scalar for v_readlane and compares), sdst (carry), src[0..2].
// - MEM: dst (vector, loads and atomics that return), src[0] address, src[1] data, src[2] scalar
// base
//   (pair for global; word for scratch; four for buffer) or none, src[3] soffset of buffers, imm.
//   cmpswap: src[1] holds the new value, the compared one follows; LDS: src[1] compared, src[2] new
//   on gfx9 and the other way round on gfx11, so decoders put the new value into src[1] and the
//   compared one into src[2].
// - DS: dst, src[0] address, src[1], src[2] data; imm is offset0, imm2 offset1 (both in bytes).
// - MATRIX: dst D, src[0] A, src[1] B (vectors), src[2] C (vector or constant). MFMA: imm is
//   CBSZ + ABID * 16, imm2 BLGP. WMMA: signs and op_sel as in VOP3P.
struct gfx_inst {
    gfx_step_fn step; // filled by gfx_prepare
    gfx_lanes_fn lanes;
    uint16_t op;     // enum gfx_op
    uint8_t size;    // bytes; 0 marks what was never decoded
    uint8_t segment; // enum gfx_segment
    uint32_t flags;  // enum gfx_inst_flags
    struct gfx_operand dst, src[4];
    uint16_t sdst;     // scalar register of the mask that is written; GFX_SGPR_NULL: none
    uint8_t omod;      // result times 1, 2, 4, 1/2
    uint8_t op_sel;    // bit per source: its half (low half's source for packed)
    uint8_t op_sel_hi; // packed: source of the high half; 7 is the plain one
    uint8_t neg_hi;    // packed: bit per source
    uint8_t plain;     // filled by gfx_prepare: no modifiers on sources, result goes straight out
    uint8_t kind;      // likewise: enum gfx_kind
    uint8_t bytes;     // likewise: of memory or LDS, for each lane
    struct {
        uint8_t dst_sel, dst_unused, src_sel[2]; // enum gfx_sdwa_sel, gfx_sdwa_unused
        uint8_t sext[2];
    } sdwa;
    struct {
        uint16_t control; // 9 bits as in the encoding
        uint8_t row_mask, bank_mask;
        uint8_t bound_ctrl, fetch_inactive;
        uint32_t lanes; // DPP8: 3 bits for each of eight lanes
    } dpp;
    int32_t imm, imm2;
};

// A decoder reads at most `count` words (1..5) and fills out[0], and out[1] for GFX_F_PAIR. Returns
// the words that the instruction takes, 0 when there is no such instruction, -1 when count is too
// small for it.
typedef int (*gfx_decode_fn)(enum gfx_arch arch, const uint32_t * words, int count,
                             struct gfx_inst out[2]);
int gfx9_decode(enum gfx_arch arch, const uint32_t * words, int count, struct gfx_inst out[2]);
int gfx11_decode(enum gfx_arch arch, const uint32_t * words, int count, struct gfx_inst out[2]);

// ---- for decoders (ops.c) ----

// The value of source encoding 128..208 and 240..248 as type, in *value; false for others.
bool gfx_inline_constant(unsigned encoding, enum gfx_type type, uint64_t * value);
uint64_t gfx_literal(uint32_t literal, enum gfx_type type);

// Words of a type: 2 for 64 bits and P32, else 1.
static inline int gfx_type_words(enum gfx_type t) {
    return t == GFX_T_B64 || t == GFX_T_I64 || t == GFX_T_F64 || t == GFX_T_P32 ? 2 : 1;
}

// Registers of a lane that matrix operation `op` reads for A and for B, or for C and D, in a wave
// of that many lanes.
int gfx_matrix_words_ab(enum gfx_op op);
int gfx_matrix_words_cd(enum gfx_op op, int lanes);

// Fills step, lanes and plain, and adds what the operation implies. Called once for each decoded
// instruction; false when nothing executes it.
bool gfx_prepare(struct gfx_inst * in);

// "v_add_f32", "global_load_b32", ...; the name of an instruction for messages and tests.
const char * gfx_inst_name(const struct gfx_inst * in, char * text, size_t size);

// The name of an instruction that `arch` has and no decoder here knows, by its first word, or NULL.
const char * gfx_absent_name(enum gfx_arch arch, uint32_t word);
