// isa: what an AIE core instruction looks like. This room holds tables and the code that reads
// them: decode bytes to instructions, encode instructions to bytes, print them. It knows nothing of
// what an instruction does (that is the emulator's) nor when to issue it (that is the scheduler's).
//
// A target is data: one table of instructions, one of bundle formats, one of register operand
// codes. The compiler and the emulator share this room and nothing else.
#pragma once

#include "base/arch.h"
#include "base/base.h"

enum aie_slot {
    AIE_SLOT_LDA,
    AIE_SLOT_LDB,
    AIE_SLOT_ALU,
    AIE_SLOT_MV,
    AIE_SLOT_ST,
    AIE_SLOT_VEC,
    AIE_SLOT_LNG, // takes the place of ALU and MV
    AIE_SLOT_NOP, // the 16-bit bundle that does nothing
    AIE_SLOT_COUNT,
};

// ---- registers ----

// A register is a kind and a number. Composite kinds (L, D, D3, X, Y, QX, BM, CM) are made of the
// units that aie_reg_units() lists; two registers overlap when they share a unit.
enum aie_reg_kind {
    AIE_NONE,
    AIE_R,   // r0-31, 32 bit
    AIE_P,   // p0-7, 20 bit pointers
    AIE_M,   // m0-7 modifiers, 20 bit
    AIE_DN,  // dn0-7 (size of a 2d/3d walk)
    AIE_DJ,  // dj0-7 (jump)
    AIE_DC,  // dc0-7 (count)
    AIE_S,   // s0-3 shift amounts
    AIE_CR,  // control registers by their code (enum aie_cr)
    AIE_SR,  // status registers by their code
    AIE_SPC, // special registers (enum aie_spc)
    AIE_L,   // l0-7: pairs r16:r17 ... r30:r31; aie2p: l8-15 are r0:r1 ... r14:r15
    AIE_D,   // d0-7: m, dn, dj, dc of that number (2d walks)
    AIE_D3,  // d0_3d..d3_3d: d<n> and d<n+4> (3d walks)
    AIE_W,   // 256 bit: wl<n/2> or wh<n/2>
    AIE_X,   // x0-11, 512 bit = w<2n>, w<2n+1>
    AIE_Y,   // y2-5 (aie2p y0-5), 1024 bit = x<2n>, x<2n+1>
    AIE_Q,   // q0-3, 128 bit masks
    AIE_QX,  // qx0-3 = x<n>, q<n>
    AIE_QW,  // qwl<n/2>, qwh<n/2>: half of q<n/2> with wl<n/2> or wh<n/2>
    AIE_AM,  // 256 bit quarter of an accumulator: cm<n/4>, quarter n%4 = ll, lh, hl, hh
    AIE_BM,  // 512 bit half: bml<n/2>, bmh<n/2>
    AIE_CM,  // cm0-8, 1024 bit
    // aie2p only
    AIE_CRP,  // control registers that aie2 lacks (enum aie_crp)
    AIE_E,    // el<n/2>, eh<n/2>: 32 bit exponents of x<n/2>
    AIE_EX,   // ex0-11 = x<n>, el<n>, eh<n>
    AIE_EY,   // ey0-5 = ex<2n>, ex<2n+1>
    AIE_QEX,  // qex0-3 = ex<n>, q<n>
    AIE_QY,   // qy0-1 = qx<2n>, qx<2n+1>
    AIE_QEY,  // qey0-1 = qex<2n>, qex<2n+1>
    AIE_FIFO, // 512 bit: lfl0, lfh0, lfl1, lfh1, sfl, sfh, lfe
    AIE_LF,   // 1024 bit: lf0, lf1, sf
    AIE_BM4,  // 512 bit quarter of an accumulator: dm<n/4>, quarter n%4 = bmll, bmlh, bmhl, bmhh
    AIE_CM2,  // 1024 bit half: cml<n/2>, cmh<n/2>
    AIE_DM,   // dm0-4, 2048 bit
    AIE_REG_KIND_COUNT,
};

typedef uint16_t aie_reg;
#define AIE_REG(kind, n)  ((aie_reg) ((kind) << 8 | (n)))
#define AIE_REG_KIND(reg) ((enum aie_reg_kind)((reg) >> 8))
#define AIE_REG_NUM(reg)  (0xff & (reg))

enum aie_cr { // number of an AIE_CR register, as in the operand codes
    AIE_CR_VADD_SIGN = 0,
    AIE_CR_F2F_MASK = 1,
    AIE_CR_F2I_MASK = 2,
    AIE_CR_FP_MASK = 3,
    AIE_CR_MCD_EN = 4,
    AIE_CR_PACK_SIGN = 5,
    AIE_CR_RND = 6,
    AIE_CR_SCD_EN = 7,
    AIE_CR_SRS_SIGN = 8,
    AIE_CR_SAT = 9,
    AIE_CR_UPS_SIGN = 10,
    AIE_CR_UNPACK_SIGN = 11,
    AIE_CR_COUNT = 16,
};

enum aie_crp { // number of an AIE_CRP register
    AIE_CRP_F2B_MASK,
    AIE_CRP_SRS_MODE,
    AIE_CRP_UPS_MODE,
    AIE_CRP_UNPACK_SIZE,
    AIE_CRP_PACK_SIZE,
    AIE_CRP_FP_NLF_MASK,
    AIE_CRP_FX2FL_MASK,
    AIE_CRP_FL2FX_MASK,
    AIE_CRP_VADD_SIGN0,
    AIE_CRP_VADD_SIGN1,
    AIE_CRP_UNPACK_SIGN0,
    AIE_CRP_UNPACK_SIGN1,
    AIE_CRP_PACK_SIGN0,
    AIE_CRP_PACK_SIGN1,
    AIE_CRP_UPS_SIGN0,
    AIE_CRP_UPS_SIGN1,
    AIE_CRP_SRS_SIGN0,
    AIE_CRP_SRS_SIGN1,
    AIE_CRP_COUNT,
};

enum aie_sr { // number of an AIE_SR register
    AIE_SR_CARRY = 0,
    AIE_SR_COMPR_UF = 1,
    AIE_SR_F2F_FLAGS = 2,
    AIE_SR_F2I_FLAGS = 3,
    AIE_SR_FP_FLAGS = 4,
    AIE_SR_MS0 = 5,
    AIE_SR_SRS_OF = 6,
    AIE_SR_SS0 = 7,
    AIE_SR_SPARSE_OF = 8,
    AIE_SR_UPS_OF = 9,
    AIE_SR_FIFO_OF = 10, // from here on aie2p only
    AIE_SR_FIFO_UF = 11,
    AIE_SR_F2B_FLAGS = 12,
    AIE_SR_FP_NLF = 13,
    AIE_SR_FX2FL = 14,
    AIE_SR_FL2FX = 15,
    AIE_SR_COUNT = 16,
};

enum aie_spc {
    AIE_SPC_LS,
    AIE_SPC_LE,
    AIE_SPC_LC,
    AIE_SPC_LR,
    AIE_SPC_SP,
    AIE_SPC_DP,
    AIE_SPC_COREID,
    AIE_SPC_COUNT
};

// Register units: the flat space in which overlap is decided (and a register file can be laid out).
enum {
    AIE_UNIT_R = 0,
    AIE_UNIT_P = 32,
    AIE_UNIT_M = 40,
    AIE_UNIT_DN = 48,
    AIE_UNIT_DJ = 56,
    AIE_UNIT_DC = 64,
    AIE_UNIT_S = 72,
    AIE_UNIT_CR = 76,
    AIE_UNIT_SR = 92,
    AIE_UNIT_SPC = 108,
    AIE_UNIT_W = 116,  // 24 of 256 bit
    AIE_UNIT_Q = 140,  // 4 of 128 bit
    AIE_UNIT_AM = 144, // 36 of 256 bit
    // aie2p only
    AIE_UNIT_CRP = 180,
    AIE_UNIT_E = 198,    // 12 of 64 bit: el and eh
    AIE_UNIT_FIFO = 210, // 7 of 512 bit
    AIE_UNIT_BM4 = 217,  // 20 of 512 bit
    AIE_UNIT_COUNT = 237,
};

// The units of reg, least significant first; returns how many (at most 8).
int aie_reg_units(aie_reg reg, uint8_t units[8]);

// Writes the name as LLVM prints it, into AIE_REG_NAME_SIZE bytes (aie2's fit in 16); returns text.
#define AIE_REG_NAME_SIZE 20
const char * aie_reg_name(aie_reg reg, char * text);

// ---- instructions ----

enum aie_bypass {
    AIE_BYPASS_NONE,
    AIE_BYPASS_MOV,
    AIE_BYPASS_VEC,
    AIE_BYPASS_MOV_LOW, // as MOV when the register is an x or a wl, else none (vmov, vconv)
};

// The bypass that an operand has with this register in it: never AIE_BYPASS_MOV_LOW.
enum aie_bypass aie_bypass_of(uint8_t bypass, aie_reg reg);

enum aie_role { AIE_DEF = 1, AIE_USE = 2 }; // a post-modified pointer is both

// One operand of an instruction: explicit ones first, in the order of LLVM's record (outs, then
// ins; a tied pair is one operand with both roles), then the implicit registers. A 2d or 3d walk is
// a use of the whole d register and, as implicit operands that name the same field, a def of its dc
// registers (part).
struct aie_operand {
    char field;         // letter of its bits in the pattern; 0 for a fixed register
    uint8_t part;       // implicit: enum aie_part of the register in that field
    uint8_t role;       // enum aie_role bits
    uint8_t is_imm;     // 1: immediate
    uint8_t cls;        // register class or immediate class: index into the room's own tables
    uint8_t def_cycle;  // E-stage in which the result is there (1 = visible to the next bundle)
    uint8_t use_cycle;  // E-stage in which the source is read (1 = with issue)
    uint8_t def_bypass; // enum aie_bypass
    uint8_t use_bypass;
    aie_reg fixed; // implicit register, else 0
};

enum aie_part {
    AIE_PART_ALL,
    AIE_PART_DC,  // dc<n> of d<n>
    AIE_PART_DC2, // dc<n+4> of d<n>_3d
    AIE_PART_LF,  // aie2p: lf<n> of the pointer p<n>
    AIE_PART_POS, // aie2p: r<24+n> of the pointer p<n>, the position in that fifo
};

#define AIE_MAX_OPERANDS 12

// What is known of the meaning of an instruction, from nothing to the most.
enum aie_evidence {
    AIE_EVIDENCE_NONE,     // nobody has published it, or not its bits
    AIE_EVIDENCE_SIBLING,  // the older architecture has one of the same name
    AIE_EVIDENCE_VENDOR,   // AMD's headers, compiler or simulator
    AIE_EVIDENCE_EXECUTED, // in designs of AMD's compilers, to the right result
    AIE_EVIDENCE_SILICON,  // measured
    AIE_EVIDENCE_COUNT
};

struct aie_instr {
    const char * name; // record name, e.g. "ADD_add_r_ri"; unique within a target
    const char * text; // assembly with operands by letter, e.g. "add %d, %a, #%i"
    enum aie_slot slot;
    uint64_t mask, value; // fixed bits of the slot word
    int n_operands;
    int n_explicit;
    struct aie_operand operands[AIE_MAX_OPERANDS];
    uint16_t defs, uses; // those of them that are of these roles, bit each
    uint8_t last_cycle;  // E-stage in which the last operand is read or there, flags apart
    uint8_t mem_cycle; // E-stage in which memory is touched (of st.s8, st.s16: written), 0 = never
    uint8_t mem_first; // E-stage of the first touch: differs for st.s8, st.s16, which read in E5
    bool loads, stores, branches, locks;
    bool has_fixed;   // implicit registers, other than flags that it writes
    uint8_t evidence; // enum aie_evidence
};

// A decoded instruction: op is an enum aie2_op / aie2p_op, values[] parallel to the explicit
// operands: an aie_reg for registers, the signed value in bytes / lanes / steps as written in
// assembly for immediates (an imm7x32 of 1 is 32).
struct aie_inst {
    uint16_t op;
    int32_t values[AIE_MAX_OPERANDS];
};

struct aie_bundle {
    uint8_t size;    // bytes
    uint8_t present; // bit per enum aie_slot; slots filled with that slot's NOP are present too
    struct aie_inst slot[AIE_SLOT_COUNT];
};

struct aie_isa; // one target's tables, built once, immutable afterwards

const struct aie_isa * aie_isa_get(enum aie_arch arch); // never NULL for a known arch
int aie_isa_count(const struct aie_isa * isa);
const struct aie_instr * aie_isa_instr(const struct aie_isa * isa, int op); // they lie in a row
int aie_isa_find(const struct aie_isa * isa, const char * name);            // -1 if unknown
int aie_isa_nop(const struct aie_isa * isa, enum aie_slot slot);            // op of the slot's NOP
int aie_slot_bits(const struct aie_isa * isa, enum aie_slot slot);

// Index of the explicit operand with this letter, -1 if there is none.
int aie_instr_operand(const struct aie_instr * instr, char field);

// The register of operand k (explicit, fixed or part of a walk); 0 for an immediate.
aie_reg aie_inst_reg(const struct aie_instr * instr, const struct aie_inst * inst, int k);

// The register of that name that operand k can hold; 0 if there is none.
aie_reg aie_operand_reg(const struct aie_isa * isa, int op, int k, const char * name,
                        size_t length);

// Whether value is what operand k can hold (a register of its class, an immediate in its range).
bool aie_operand_fits(const struct aie_isa * isa, int op, int k, int32_t value);
// The range of an immediate: its least and greatest value, and the step between values.
struct aie_range {
    int64_t min, max;
    int step;
};
struct aie_range aie_operand_range(const struct aie_isa * isa, int op, int k);

#define AIE_MAX_BUNDLE_BYTES 16

// Size of the bundle that starts with this byte; never 0.
int aie_bundle_size(const struct aie_isa * isa, uint8_t first_byte);

// The sizes of bundles that hold these slots (bit per enum aie_slot), NOPs in the rest: bit n is
// set when there is a format of 2 n bytes.
unsigned aie_bundle_sizes(const struct aie_isa * isa, unsigned present);

// A bundle as the words of its slots, not decoded yet or encoded already.
struct aie_words {
    uint8_t size, present; // as in aie_bundle
    uint64_t word[AIE_SLOT_COUNT];
};

// Fails on truncation or an unknown format, naming the bytes.
enum status aie_bundle_split(const struct aie_isa * isa, const uint8_t * bytes, size_t available,
                             struct aie_words * out, struct error * err);

// Decodes one bundle. Fails on truncation, an unknown format or slot word, naming the bytes.
enum status aie_bundle_decode(const struct aie_isa * isa, const uint8_t * bytes, size_t available,
                              struct aie_bundle * out, struct error * err);

// Encodes the bundle: with size set, in the format of that size that holds exactly its present
// slots (NOPs fill the rest when no exact format exists); with size 0, in the shortest that fits.
// Fails when an operand does not fit its field, naming instruction and operand.
enum status aie_bundle_encode(const struct aie_isa * isa, const struct aie_bundle * in,
                              uint8_t bytes[AIE_MAX_BUNDLE_BYTES], int * size, struct error * err);
// The same for slots that are encoded, each by aie_slot_encode for its own slot.
enum status aie_bundle_join(const struct aie_isa * isa, const struct aie_words * in,
                            uint8_t bytes[AIE_MAX_BUNDLE_BYTES], int * size, struct error * err);

enum status aie_slot_decode(const struct aie_isa * isa, enum aie_slot slot, uint64_t word,
                            struct aie_inst * out, struct error * err);
enum status aie_slot_encode(const struct aie_isa * isa, const struct aie_inst * in, uint64_t * word,
                            struct error * err);

// The text of an instruction with operands (by their index) written by the caller.
typedef void aie_operand_print(void * user, const struct aie_instr * in, int k, struct buf * b);
void aie_instr_print(const struct aie_instr * in, aie_operand_print * operand, void * user,
                     struct buf * b);

// Assembly text, LLVM's syntax: "vlda wl0, [p0], #32". Appends to b.
void aie_inst_print(const struct aie_isa * isa, const struct aie_inst * inst, struct buf * b);
void aie_bundle_print(const struct aie_isa * isa, const struct aie_bundle * bundle, struct buf * b);
