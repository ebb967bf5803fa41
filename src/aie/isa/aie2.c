// aie2: the tables of XDNA. Which instructions there are is in aie2.def, which bundles in
// aie2/formats.def; here are the operand classes: which registers an operand can name, and the code
// of each. Nothing in here is code.
#include "aie/isa/aie2.h"
#include "aie/isa/target.h"

static const struct isa_row rows[] = {
#define I(name, slot, pattern, text, operands) {#name, AIE_SLOT_##slot, pattern, text, operands},
#include "aie/isa/aie2.def"
#undef I
};

static const struct isa_evidence_row evidence[] = {
#define E(name, evidence) {name, AIE_EVIDENCE_##evidence},
#include "aie/isa/aie2/evidence.def"
#undef E
};

static const struct isa_format_row formats[] = {
#define F(name, bytes, layout) {#name, bytes, layout},
#include "aie/isa/aie2/formats.def"
#undef F
};

// clang-format off

// r and the modifiers have the same codes wherever a scalar operand can be more than an r.
#define SCALARS                                                                                    \
    ISA_RUN(R, 0, 32, 0x00, 4), ISA_RUN(M, 0, 8, 0x02, 4), ISA_RUN(DN, 0, 8, 0x22, 4),             \
    ISA_RUN(DJ, 0, 8, 0x42, 4), ISA_RUN(DC, 0, 8, 0x62, 4)

#define MOVABLE                                                                                    \
    SCALARS, ISA_RUN(P, 0, 8, 0x03, 16), ISA_RUN(S, 0, 4, 0x0b, 32),                               \
    ISA_RUN(CR, 0, 12, 0x01, 8), ISA_RUN(SR, 0, 10, 0x05, 8),                                      \
    ISA_ONE(SPC, AIE_SPC_LS, 0x07), ISA_ONE(SPC, AIE_SPC_DP, 0x17), ISA_ONE(SPC, AIE_SPC_LR, 0x27),\
    ISA_ONE(SPC, AIE_SPC_LE, 0x47), ISA_ONE(SPC, AIE_SPC_LC, 0x57), ISA_ONE(SPC, AIE_SPC_SP, 0x67)

// Wide moves split the number of a w into half, parity and the rest: w 4n+0..3 = wl, wh of x<2n>,
// then wl, wh of x<2n+1>.
#define SPLIT_W(base, stride, half, odd, ignore)                                                   \
    {AIE_W, 0, 4, 6, (base), stride, ignore}, {AIE_W, 1, 4, 6, (base) + (half), stride, ignore},   \
    {AIE_W, 2, 4, 6, (base) + (odd), stride, ignore},                                              \
    {AIE_W, 3, 4, 6, (base) + (half) + (odd), stride, ignore}

static const struct isa_class classes[] = {
    ISA_REGS("r",   5, ISA_RUN(R, 0, 32, 0, 1)),
    ISA_REGS("rs4", 2, ISA_RUN(R, 16, 4, 0, 1)),
    ISA_REGS("rs8", 3, ISA_RUN(R, 16, 8, 0, 1)),
    ISA_REGS("l",   3, ISA_RUN(L, 0, 8, 0, 1)),
    ISA_REGS("p",   3, ISA_RUN(P, 0, 8, 0, 1)),
    ISA_REGS("m",   3, ISA_RUN(M, 0, 8, 0, 1)),
    ISA_REGS("dj",  3, ISA_RUN(DJ, 0, 8, 0, 1)),
    ISA_REGS("d",   3, ISA_RUN(D, 0, 8, 0, 1)),
    ISA_REGS("d3",  2, ISA_RUN(D3, 0, 4, 0, 1)),
    ISA_REGS("s",   2, ISA_RUN(S, 0, 4, 0, 1)),
    ISA_REGS("cr",  4, ISA_RUN(CR, 0, 12, 0, 1)),
    ISA_REGS("w",   5, ISA_RUN(W, 0, 24, 0, 1)),
    ISA_REGS("wm",  5, SPLIT_W(0, 1, 16, 8, 0)),
    ISA_REGS("x",   4, ISA_RUN(X, 0, 12, 0, 1)),
    ISA_REGS("y",   2, ISA_RUN(Y, 2, 4, 0, 1)),
    ISA_REGS("q",   2, ISA_RUN(Q, 0, 4, 0, 1)),
    ISA_REGS("qx",  2, ISA_RUN(QX, 0, 4, 0, 1)),
    ISA_REGS("qw",  3, {AIE_QW, 1, 2, 4, 0, 2, 0}, {AIE_QW, 0, 2, 4, 1, 2, 0}),
    ISA_REGS("am",  6, ISA_RUN(AM, 0, 36, 0, 1)),
    ISA_REGS("bm",  5, ISA_RUN(BM, 0, 18, 0, 1)),
    ISA_REGS("cm",  4, ISA_RUN(CM, 0, 9, 0, 1)),

    // scalar moves: written by and read by mov; core_id can only be read
    ISA_REGS("mvd", 7, MOVABLE),
    ISA_REGS("mvs", 7, MOVABLE, ISA_ONE(SPC, AIE_SPC_COREID, 0x37)),
    // loaded and stored; loaded with a constant; sent to a stream; movx
    ISA_REGS("ld",  7, SCALARS, ISA_RUN(P, 0, 8, 0x0d, 16), ISA_ONE(SPC, AIE_SPC_LR, 0x05)),
    ISA_REGS("ldc", 7, SCALARS, ISA_RUN(P, 0, 8, 0x0d, 16), ISA_ONE(SPC, AIE_SPC_LC, 0x15)),
    ISA_REGS("ms",  7, SCALARS, ISA_RUN(P, 0, 8, 0x0d, 16)),
    ISA_REGS("alu", 6, ISA_RUN(R, 0, 32, 0, 2), ISA_ONE(SPC, AIE_SPC_LC, 1)),
    // vmov of 256 and 128 bits, of 512 bits; vshuffle, which reaches bm0..7 only
    ISA_REGS("amwqd", 7, {AIE_AM, 0, 1, 36, 1, 2, 0}, SPLIT_W(0, 4, 64, 32, 0),
                         {AIE_Q, 0, 1, 4, 2, 32, 0x1c}),
    ISA_REGS("amwqs", 9, {AIE_AM, 0, 1, 36, 1, 8, 2}, SPLIT_W(0x180, 1, 16, 8, 0x20),
                         {AIE_Q, 0, 1, 4, 0x1c0, 16, 0xf}),
    ISA_REGS("bmxd",  6, ISA_RUN(BM, 0, 18, 1, 2), ISA_RUN(X, 0, 12, 0, 4)),
    ISA_REGS("bmxs",  9, {AIE_BM, 0, 1, 18, 0, 16, 0xf}, {AIE_X, 0, 1, 12, 0x180, 1, 0x70}),
    ISA_REGS("shfl",  5, ISA_RUN(X, 0, 12, 0, 2), {AIE_BM, 0, 2, 8, 1, 2, 0},
                         {AIE_BM, 1, 2, 8, 17, 2, 0}),

    ISA_IMM("u2", 2, 'u', 1),        ISA_IMM("u3", 3, 'u', 1),        ISA_IMM("u5", 5, 'u', 1),
    ISA_IMM("u6", 6, 'u', 1),        ISA_IMM("u20", 20, 'u', 1),
    ISA_IMM("s3", 3, 's', 1),        ISA_IMM("s4", 4, 's', 1),        ISA_IMM("s6", 6, 's', 1),
    ISA_IMM("s7", 7, 's', 1),        ISA_IMM("s10", 10, 's', 1),      ISA_IMM("s11", 11, 's', 1),
    ISA_IMM("s32", 32, 's', 1),
    ISA_IMM("s6x4", 6, 's', 4),      ISA_IMM("s7x4", 7, 's', 4),      ISA_IMM("s9x4", 9, 's', 4),
    ISA_IMM("s10x4", 10, 's', 4),    ISA_IMM("s12x4", 12, 's', 4),
    ISA_IMM("s6x16", 6, 's', 16),    ISA_IMM("s7x16", 7, 's', 16),
    ISA_IMM("s3x32", 3, 's', 32),    ISA_IMM("s4x32", 4, 's', 32),    ISA_IMM("s6x32", 6, 's', 32),
    ISA_IMM("s7x32", 7, 's', 32),    ISA_IMM("s12x32", 12, 's', 32), ISA_IMM("s13x32", 13, 's', 32),
    ISA_IMM("n12x16", 12, 'n', 16),  ISA_IMM("n12x32", 12, 'n', 32),
};

// clang-format on

const struct isa_target isa_aie2 = {
    .rows = rows,
    .n_rows = sizeof(rows) / sizeof(rows[0]),
    .formats = formats,
    .n_formats = sizeof(formats) / sizeof(formats[0]),
    .classes = classes,
    .n_classes = sizeof(classes) / sizeof(classes[0]),
    .evidence = evidence,
    .n_evidence = sizeof(evidence) / sizeof(evidence[0]),
    .slot_bits =
        {
            [AIE_SLOT_LDA] = 21,
            [AIE_SLOT_LDB] = 16,
            [AIE_SLOT_ALU] = 20,
            [AIE_SLOT_MV] = 22,
            [AIE_SLOT_ST] = 21,
            [AIE_SLOT_VEC] = 26,
            [AIE_SLOT_LNG] = 42,
            [AIE_SLOT_NOP] = 1,
        },
    // ...0: 16, 101: 6, 0001: 2, 1001: 4, 0011: 8, 1011: 10, 0111: 12, 1111: 14
    .size_of_nibble = {16, 2, 16, 8, 16, 6, 16, 12, 16, 4, 16, 10, 16, 6, 16, 14},
    .nops =
        {
            [AIE_SLOT_LDA] = AIE2_NOPA,
            [AIE_SLOT_LDB] = AIE2_NOPB,
            [AIE_SLOT_ALU] = AIE2_NOPX,
            [AIE_SLOT_MV] = AIE2_NOPM,
            [AIE_SLOT_ST] = AIE2_NOPS,
            [AIE_SLOT_VEC] = AIE2_NOPV,
            [AIE_SLOT_LNG] = AIE2_NOPXM,
            [AIE_SLOT_NOP] = AIE2_NOP,
        },
};
