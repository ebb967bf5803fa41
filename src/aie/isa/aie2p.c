// aie2p: the tables of XDNA 2. Which instructions there are is in aie2p.def, which bundles in
// aie2p/formats.def; here are the operand classes. Nothing in here is code.
#include "aie/isa/aie2p.h"
#include "aie/isa/target.h"

static const struct isa_row rows[] = {
#define I(name, slot, pattern, text, operands) {#name, AIE_SLOT_##slot, pattern, text, operands},
#include "aie/isa/aie2p.def"
#undef I
};

static const struct isa_format_row formats[] = {
#define F(name, bytes, layout) {#name, bytes, layout},
#include "aie/isa/aie2p/formats.def"
#undef F
};

static const struct isa_evidence_row evidence[] = {
#define E(name, evidence) {name, AIE_EVIDENCE_##evidence},
#include "aie/isa/aie2p/evidence.def"
#undef E
};

// clang-format off

#define CR(name, code)  ISA_ONE(CR, AIE_CR_##name, code)
#define CRP(name, code) ISA_ONE(CRP, AIE_CRP_##name, code)
#define SR(name, code)  ISA_ONE(SR, AIE_SR_##name, code)
#define SPC(name, code) ISA_ONE(SPC, AIE_SPC_##name, code)

// m, dn, dj, dc: from base on, step apart.
#define MODIFIERS(base, step)                                                                      \
    ISA_RUN(M, 0, 8, base, 16), ISA_RUN(DN, 0, 8, (base) + (step), 16),                            \
    ISA_RUN(DJ, 0, 8, (base) + 2 * (step), 16), ISA_RUN(DC, 0, 8, (base) + 3 * (step), 16)

// What a mov reads and writes under the same code.
#define MOVABLE                                                                                    \
    ISA_RUN(R, 0, 32, 1, 4), MODIFIERS(0, 4), ISA_RUN(P, 0, 8, 6, 16), ISA_RUN(S, 0, 4, 14, 32),   \
    CRP(UPS_SIGN0, 3),      CRP(UPS_SIGN1, 67),     CRP(VADD_SIGN0, 19),    CRP(VADD_SIGN1, 83),   \
    CRP(PACK_SIGN0, 30),    CRP(PACK_SIGN1, 94),    CRP(UNPACK_SIGN0, 35),  CRP(UNPACK_SIGN1, 99), \
    CRP(SRS_SIGN0, 62),     CRP(SRS_SIGN1, 126),    CR(SCD_EN, 7),          CR(F2I_MASK, 11),      \
    CRP(UNPACK_SIZE, 23),   CRP(FP_NLF_MASK, 27),   CR(SAT, 39),            CRP(FX2FL_MASK, 43),   \
    CRP(F2B_MASK, 51),      CRP(PACK_SIZE, 59),     CRP(SRS_MODE, 71),      CRP(FL2FX_MASK, 75),   \
    CR(MCD_EN, 91),         CRP(UPS_MODE, 103),     CR(FP_MASK, 107),       CR(F2F_MASK, 115),     \
    CR(RND, 123),                                                                                  \
    SR(CARRY, 2),           SR(F2B_FLAGS, 10),      SR(F2F_FLAGS, 18),      SR(F2I_FLAGS, 26),     \
    SR(FL2FX, 34),          SR(FX2FL, 42),          SR(FP_FLAGS, 50),       SR(FP_NLF, 58),        \
    SR(FIFO_OF, 66),        SR(FIFO_UF, 74),        SR(MS0, 82),            SR(SRS_OF, 90),        \
    SR(SS0, 98),            SR(SPARSE_OF, 106),     SR(UPS_OF, 114)

static const struct isa_class classes[] = {
    ISA_REGS("r",    5, ISA_RUN(R, 0, 32, 0, 1)),
    ISA_REGS("rs16", 4, ISA_RUN(R, 16, 16, 0, 1)),
    ISA_REGS("l",    4, ISA_RUN(L, 8, 8, 0, 1), ISA_RUN(L, 0, 8, 8, 1)),
    ISA_REGS("p",    3, ISA_RUN(P, 0, 8, 0, 1)),
    ISA_REGS("ps",   1, ISA_RUN(P, 0, 2, 0, 1)),
    ISA_REGS("m",    3, ISA_RUN(M, 0, 8, 0, 1)),
    ISA_REGS("dj",   3, ISA_RUN(DJ, 0, 8, 0, 1)),
    ISA_REGS("d",    3, ISA_RUN(D, 0, 8, 0, 1)),
    ISA_REGS("d3",   2, ISA_RUN(D3, 0, 4, 0, 1)),
    ISA_REGS("s",    2, ISA_RUN(S, 0, 4, 0, 1)),
    ISA_REGS("w",    5, {AIE_W, 0, 2, 12, 1, 2, 0}, {AIE_W, 1, 2, 12, 0, 2, 0}),
    ISA_REGS("x",    4, ISA_RUN(X, 0, 12, 0, 1)),
    ISA_REGS("y",    3, ISA_RUN(Y, 0, 6, 0, 1)),
    ISA_REGS("q",    2, ISA_RUN(Q, 0, 4, 0, 1)),
    ISA_REGS("qx",   2, ISA_RUN(QX, 0, 4, 0, 1)),
    ISA_REGS("qy",   1, ISA_RUN(QY, 0, 2, 0, 1)),
    ISA_REGS("el",   4, {AIE_E, 0, 2, 12, 0, 1, 0}),
    ISA_REGS("eh",   4, {AIE_E, 1, 2, 12, 0, 1, 0}),
    ISA_REGS("ex",   4, ISA_RUN(EX, 0, 12, 0, 1)),
    ISA_REGS("ey",   3, ISA_RUN(EY, 0, 6, 0, 1)),
    ISA_REGS("qex",  2, ISA_RUN(QEX, 0, 4, 0, 1)),
    ISA_REGS("qey",  1, ISA_RUN(QEY, 0, 2, 0, 1)),
    ISA_REGS("bm",   5, ISA_RUN(BM4, 0, 20, 0, 1)),
    ISA_REGS("bms",  4, ISA_RUN(BM4, 0, 16, 0, 1)),
    ISA_REGS("cm",   4, ISA_RUN(CM2, 0, 10, 0, 1)),
    ISA_REGS("dm",   3, ISA_RUN(DM, 0, 5, 0, 1)),
    // halves of the fifos: lfl0 lfh0 lfl1 lfh1 sfl sfh lfe
    ISA_REGS("fifo", 3, ISA_ONE(FIFO, 0, 1), ISA_ONE(FIFO, 1, 0), ISA_ONE(FIFO, 2, 5),
                        ISA_ONE(FIFO, 3, 4), ISA_ONE(FIFO, 4, 3), ISA_ONE(FIFO, 5, 6),
                        ISA_ONE(FIFO, 6, 2)),

    // control registers of movx
    ISA_REGS("cr", 5, CRP(F2B_MASK, 0), CRP(PACK_SIGN0, 1), CR(F2F_MASK, 2), CRP(SRS_SIGN0, 3),
                      CR(F2I_MASK, 4), CRP(UPS_SIGN0, 5), CR(FP_MASK, 6), CRP(UNPACK_SIGN0, 7),
                      CRP(PACK_SIZE, 8), CRP(VADD_SIGN0, 9), CR(RND, 10), CR(MCD_EN, 11),
                      CRP(SRS_MODE, 12), CR(SAT, 14), CRP(UPS_MODE, 16), CRP(PACK_SIGN1, 17),
                      CRP(UNPACK_SIZE, 18), CRP(SRS_SIGN1, 19), CRP(UPS_SIGN1, 21),
                      CRP(UNPACK_SIGN1, 23), CRP(VADD_SIGN1, 25), CR(SCD_EN, 27)),
    // scalar moves: written, read; the special registers have other codes when read
    ISA_REGS("mvd", 7, MOVABLE, SPC(LS, 15), SPC(LE, 55), SPC(SP, 79), SPC(LC, 87), SPC(LR, 119)),
    ISA_REGS("mvs", 7, MOVABLE, SPC(LR, 15), SPC(SP, 47), SPC(LC, 55), SPC(LS, 79), SPC(LE, 119),
                       SPC(COREID, 87)),
    // loaded and stored; loaded with a constant; sent to a stream; movx; movs
    ISA_REGS("ld",  7, ISA_RUN(R, 0, 32, 2, 4), MODIFIERS(0, 4), ISA_RUN(P, 0, 8, 3, 16),
                       {AIE_E, 1, 2, 12, 1, 8, 0}, {AIE_E, 0, 2, 12, 5, 8, 0}, SPC(LR, 7)),
    ISA_REGS("ldc", 7, ISA_RUN(R, 0, 32, 0, 4), MODIFIERS(2, 4), ISA_RUN(P, 0, 8, 13, 16),
                       SPC(LC, 21)),
    ISA_REGS("ms",  7, ISA_RUN(R, 0, 32, 0, 4), MODIFIERS(2, 4), ISA_RUN(P, 0, 8, 13, 16)),
    ISA_REGS("alu", 6, ISA_RUN(R, 0, 32, 0, 2), SPC(LC, 1)),
    ISA_REGS("agud", 6, ISA_RUN(DC, 0, 8, 0, 8), ISA_RUN(DJ, 0, 8, 1, 8), ISA_RUN(DN, 0, 8, 2, 8),
                        ISA_RUN(M, 0, 8, 3, 8), ISA_RUN(P, 0, 8, 4, 8)),
    ISA_REGS("agus", 7, ISA_RUN(R, 0, 32, 0, 4), ISA_RUN(DC, 0, 8, 1, 16), ISA_RUN(DJ, 0, 8, 5, 16),
                        ISA_RUN(DN, 0, 8, 9, 16), ISA_RUN(M, 0, 8, 13, 16),
                        ISA_RUN(P, 0, 8, 2, 16)),
    // vmov of 512 bits
    ISA_REGS("bmx", 6, ISA_RUN(BM4, 0, 20, 0, 2), ISA_RUN(X, 0, 12, 1, 4),
                       ISA_ONE(FIFO, 0, 11), ISA_ONE(FIFO, 1, 3), ISA_ONE(FIFO, 2, 43),
                       ISA_ONE(FIFO, 3, 35), ISA_ONE(FIFO, 4, 27), ISA_ONE(FIFO, 5, 51),
                       ISA_ONE(FIFO, 6, 19)),

    ISA_IMM("u1", 1, 'u', 1),       ISA_IMM("u2", 2, 'u', 1),       ISA_IMM("u3", 3, 'u', 1),
    ISA_IMM("u5", 5, 'u', 1),       ISA_IMM("u6", 6, 'u', 1),       ISA_IMM("u20", 20, 'u', 1),
    ISA_IMM("s4", 4, 's', 1),       ISA_IMM("s7", 7, 's', 1),       ISA_IMM("s8", 8, 's', 1),
    ISA_IMM("s11", 11, 's', 1),     ISA_IMM("s32", 32, 's', 1),
    ISA_IMM("s4x2", 4, 's', 2),     ISA_IMM("s4x4", 4, 's', 4),     ISA_IMM("s4x16", 4, 's', 16),
    ISA_IMM("s4x32", 4, 's', 32),   ISA_IMM("s4x64", 4, 's', 64),   ISA_IMM("s13x64", 13, 's', 64),
    ISA_IMM("n9x4", 9, 'n', 4),     ISA_IMM("n9x16", 9, 'n', 16),   ISA_IMM("n9x32", 9, 'n', 32),
    ISA_IMM("n9x64", 9, 'n', 64),
};

// clang-format on

const struct isa_target isa_aie2p = {
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
            [AIE_SLOT_LDA] = 20,
            [AIE_SLOT_LDB] = 17,
            [AIE_SLOT_ALU] = 20,
            [AIE_SLOT_MV] = 22,
            [AIE_SLOT_ST] = 20,
            [AIE_SLOT_VEC] = 26,
            [AIE_SLOT_LNG] = 42,
            [AIE_SLOT_NOP] = 1,
        },
    // ...1: 16, 100: 6, 0000: 2, 1000: 4, 0010: 8, 1010: 10, 0110: 12, 1110: 14
    .size_of_nibble = {2, 16, 8, 16, 6, 16, 12, 16, 4, 16, 10, 16, 6, 16, 14, 16},
    .nops =
        {
            [AIE_SLOT_LDA] = AIE2P_NOPA,
            [AIE_SLOT_LDB] = AIE2P_NOPB,
            [AIE_SLOT_ALU] = AIE2P_NOPX,
            [AIE_SLOT_MV] = AIE2P_NOPM,
            [AIE_SLOT_ST] = AIE2P_NOPS,
            [AIE_SLOT_VEC] = AIE2P_NOPV,
            [AIE_SLOT_LNG] = AIE2P_NOPXM,
            [AIE_SLOT_NOP] = AIE2P_NOP,
        },
};
