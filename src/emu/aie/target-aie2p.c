// target-aie2p: the core of XDNA 2 (Strix, Krackan, Strix Halo): register file, rules, and what its
// instructions outside the vector lanes are. Those of the lanes are in sem-*.c; what each of them
// rests on is in aie/isa/aie2p/evidence.def.
//
// What has no row here or there stops the core, with the reason that refusals[] has for it.
#include "emu/aie/core-target.h"

#define CRP(cr) CORE_CRP + AIE_CRP_##cr

// Offsets. Pieces: 24 of w (32 bytes), 4 of q (16), 20 quarters of accumulators (64) and 7 halves
// of fifos (64).
enum {
    FILE_W = CORE_VECTORS,
    FILE_Q = FILE_W + 24 * 32,
    FILE_BM = FILE_Q + 4 * 16,
    FILE_FIFO = FILE_BM + 20 * 64
};
enum { PIECE_W = 0, PIECE_Q = 24, PIECE_BM = 28, PIECE_FIFO = 48 };
_Static_assert(FILE_BM % 64 == 0, "accumulators lie on cache lines");
_Static_assert(FILE_FIFO + 7 * 64 <= CORE_REG_BYTES && PIECE_FIFO + 7 <= 64, "they fit");

static const struct core_row rows[] = {
    CORE_ROWS_OF_BOTH,
    {"ADD_alu_r_rr", CORE_SCALAR, CORE_ADD, 0},
    {"MUL", CORE_SCALAR, CORE_MUL, 0},
    {"SEL_NEZ", CORE_SCALAR, CORE_SEL_NEZ, 0},
    {"SEL_EQZ", CORE_SCALAR, CORE_SEL_EQZ, 0},
    {"EXTEND_s8", CORE_SCALAR, CORE_EXTEND_S8, 0},
    {"EXTEND_s16", CORE_SCALAR, CORE_EXTEND_S16, 0},
    {"EXTEND_u8", CORE_SCALAR, CORE_EXTEND_U8, 0},
    {"EXTEND_u16", CORE_SCALAR, CORE_EXTEND_U16, 0},
    {"MOVX_mvx_cr_imm", CORE_SCALAR, CORE_MOV_IMM, 0},
    {"MOVX_mvx_cr_r", CORE_SCALAR, CORE_MOV, 0},
    {"MOVXM", CORE_SCALAR, CORE_MOV_IMM, 0},
    {"MOVA", CORE_SCALAR, CORE_MOV_IMM, 0},
    {"MOVS", CORE_SCALAR, CORE_MOV, 0},
    {"MOV_alu_mv_mv_mv_cg", CORE_SCALAR, CORE_MOV_IMM, 0},
    {"MOV_alu_mv_mv_mv_scl", CORE_SCALAR, CORE_MOV, 0},
    {"MOV_alu_mv_mv_mv_cntr2l", CORE_SCALAR, CORE_MOV_COUNTER, 0},
    {"MOV_d*", CORE_SCALAR, CORE_MOV, 0},
    {"ADD_NC_mv_add_ri", CORE_SCALAR, CORE_ADD_NC, 0},
    {"ADD_NC_mv_add_rr", CORE_SCALAR, CORE_ADD_NC_RR, 0},
    {"J_lng", CORE_CONTROL, CORE_J, 0},
    {"J_alumv_or", CORE_CONTROL, CORE_J_IND, 0},
    {"JL_lng", CORE_CONTROL, CORE_JL, 0},
    {"JL_alumv_or", CORE_CONTROL, CORE_JL_IND, 0},
    {"EVENT_*", CORE_CONTROL, CORE_EVENT, 0},
    {"MOV_lda", CORE_OUTSIDE, CORE_STREAM_READ, 0},
    {"MOV_st_mMStream_tlast_imm", CORE_OUTSIDE, CORE_STREAM_WRITE, 0},
    {"MOV_st_mMStream_tlast_reg", CORE_OUTSIDE, CORE_STREAM_WRITE_R28, 0},
    {"MOV_tlast", CORE_OUTSIDE, CORE_STREAM_WRITE_LAST, 0},
    {"VMOV_lda_mv_scd_x", CORE_OUTSIDE, CORE_CASCADE_READ, 0},
    {"VMOV_lda_mv_scd_bm", CORE_OUTSIDE, CORE_CASCADE_READ, 0},
    {"VMOV_0_mv_scd_cm", CORE_OUTSIDE, CORE_CASCADE_READ, 0},
    {"VMOV_1_mv_scd_cm", CORE_OUTSIDE, CORE_CASCADE_READ, 1},
    {"VMOV_0_mv_scd_dm_imm", CORE_OUTSIDE, CORE_CASCADE_READ, 0},
    {"VMOV_1_mv_scd_dm_imm", CORE_OUTSIDE, CORE_CASCADE_READ, 1},
    {"VMOV_2", CORE_OUTSIDE, CORE_CASCADE_READ, 2},
    {"VMOV_3", CORE_OUTSIDE, CORE_CASCADE_READ, 3},
    {"VMOV_st_mv_mcd_x", CORE_OUTSIDE, CORE_CASCADE_WRITE, 0},
    {"VMOV_st_mv_mcd_bm", CORE_OUTSIDE, CORE_CASCADE_WRITE, 0},
    {"LDA_TM_*", CORE_OUTSIDE, CORE_TILE_READ, 0},
    {"ST_TM_*", CORE_OUTSIDE, CORE_TILE_WRITE, 0},
    {"VLDB_4x16_lo", CORE_LOOKUP, 0, 2},
    {"VLDB_4x16_hi", CORE_LOOKUP, 1, 2},
    {"VLDB_4x32_lo", CORE_LOOKUP, 0, 4},
    {"VLDB_4x32_hi", CORE_LOOKUP, 1, 4},
    {"VLDB_4x64_lo", CORE_LOOKUP, 0, 8},
    {"VLDB_4x64_hi", CORE_LOOKUP, 1, 8},
    {"VLDA_FILL_*", CORE_FIFO, 0, 0},
    {"VLDB_FILL_*", CORE_FIFO, 0, 0},
    {"VLDA_POP_*", CORE_FIFO, 0, 0},
    {"VLDB_POP_*", CORE_FIFO, 0, 0},
    {"VST_PUSH_*", CORE_FIFO, 0, 0},
    {"VST_FLUSH_*", CORE_FIFO, 0, 0},
};

static const struct core_refusal refusals[] = {
    {"POPX", "what the step and the mask in r30 make of the fifo and of lfe is not published"},
    {"FILLX", "what the step and the mask in r30 make of the fifo and of lfe is not published"},
    {"_544", "how blocks of 68 bytes lie in the fifo is not known"},
    {"_640", "how blocks of 80 bytes lie in the fifo is not known"},
    {"_704", "how blocks of 88 bytes lie in the fifo is not known"},
    {"_POP_", "fifos that step by a modifier are not known well enough: some strides go wrong"},
    {"VST_FLUSH_",
     "fifos that step by a modifier are not known well enough: some strides go wrong"},
    {"ebs16", "conversions to blocks of 16 elements are not published"},
    {"_add_scd", "how a sum takes its terms from the cascade is not published"},
    {"mv_scd_dm", "which part of an accumulator r31 selects is not published"},
    {"_QX", "the shapes of sparse products are not published"},
    {"_QY", "the shapes of sparse products are not published"},
    {"_QEX", "the shapes of sparse products are not published"},
    {"_QEY", "the shapes of sparse products are not published"},
    {"_EX_EY", "the shapes of products of one block register with two are not published"},
    {"mOptConv", "the bits of conversions from and to fixed point are not published"},
    {"flt2fx", "the bits of conversions from and to fixed point are not published"},
    {"fx2flt", "the bits of conversions from and to fixed point are not published"},
    {"float_to_int_bm", "which half of the accumulator it takes is not published"},
    {"shuffle_ex", "how a shuffle permutes exponents is not published"},
    {"POPCOUNT", "nobody has published what it does"},
    {"PH_", "packet headers that a core makes are not modelled"},
    {"_nb_", "streams without blocking are not modelled"},
};

static const struct core_semantic copies[] = {
    {"MOV_alu_mv_mv_mv_e_*", core_copy},
    {"VMOV_alu_mv_mv_cm", core_copy},
    {"VMOV_alu_mv_mv_ex", core_copy},
    {"VMOV_alu_mv_mv_q", core_copy},
    {"VMOV_alu_mv_mv_qx", core_copy},
    {"VMOV_alu_mv_mv_qex", core_copy},
    {"VMOV_alu_mv_mv_w", core_copy},
    {"VMOV_alu_mv_mv_x", core_copy},
    {"VMOV_D", core_copy},
};
static const struct sem_family moves = SEM_FAMILY(copies);

static const struct core_semantic staged_scalars[] = {
    {"MAC", core_scalar_mac},
    {"MSC", core_scalar_msc},
};
static const struct sem_family scalars = SEM_FAMILY(staged_scalars);

static const struct core_mac_row macs[] = {
    {"VMAC_f_vmac_bf_vmul_bf_core_X_X", sem_mac_bf16_x},
    {"VMAC_f_vmac_bf_vmul_bf_core_Y_Y", sem_mac_bf16_y},
    {"VMSC_f_vmac_bf_vmul_bf_core_X_X", sem_msc_bf16_x},
    {"VMSC_f_vmac_bf_vmul_bf_core_Y_Y", sem_msc_bf16_y},
};

static const struct sem_family * const families[] = {&sem_lanes_aie2p,
                                                     &sem_moves_aie2p,
                                                     &sem_converts_aie2p,
                                                     &sem_macs_aie2p,
                                                     &sem_floats_aie2p,
                                                     &moves,
                                                     &scalars,
                                                     NULL};

// The sign registers come in pairs, and a program that writes neither finds 0 and 1 in them.
static const struct core_preset presets[] = {
    {CRP(VADD_SIGN1), 1}, {CRP(UNPACK_SIGN1), 1}, {CRP(PACK_SIGN1), 1},
    {CRP(UPS_SIGN1), 1},  {CRP(SRS_SIGN1), 1},
};

const struct core_target core_target_aie2p = {
    .arch = AIE_ARCH_AIE2P,
    .generation = 4,
    .packets_follow = true, // [?] iree-amd-aie #1211: errors of missing ends are off on Strix
    .clock = "strix",
    .files =
        {
            CORE_FILES_OF_BOTH,
            [AIE_CRP] = CORE_FILE_WORDS(CORE_CRP, AIE_CRP_COUNT),
            [AIE_E] = CORE_FILE_WORDS(CORE_E, 24),
            [AIE_L] = {4 * 16, 8, 8, 16, 2, 16},
            [AIE_BM4] = CORE_FILE_VECTOR(FILE_BM, PIECE_BM, 64, 1, 20),
            [AIE_CM2] = CORE_FILE_VECTOR(FILE_BM, PIECE_BM, 128, 2, 10),
            [AIE_DM] = CORE_FILE_VECTOR(FILE_BM, PIECE_BM, 256, 4, 5),
            [AIE_FIFO] = CORE_FILE_VECTOR(FILE_FIFO, PIECE_FIFO, 64, 1, 7),
            [AIE_LF] = CORE_FILE_VECTOR(FILE_FIFO, PIECE_FIFO, 128, 2, 3),
        },
    .masks = CORE_MASKS,
    .data_words = {UINT64_MAX, (1u << (AIE_UNIT_CR - 64)) - 1,
                   ((UINT64_C(1) << 24) - 1) << (CORE_E - 128)},
    .macs = macs,
    .n_macs = sizeof macs / sizeof macs[0],
    .presets = presets,
    .n_presets = sizeof presets / sizeof presets[0],
    .loop_distance = 7,
    .loop_partial_bytes = 0,
    .lookup_line = 64,
    .refusals = refusals,
    .n_refusals = sizeof refusals / sizeof refusals[0],
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .families = families,
};
