// target-aie2: the core of XDNA 1 (Phoenix, Hawk Point): register file, rules, and what its
// instructions outside the vector lanes are. Those of the lanes are in sem-*.c.
#include "emu/aie/core-target.h"

// Offsets; pieces of 32 bytes: 24 of w, then q (16 bytes each), then 36 of the accumulators.
enum { FILE_W = CORE_VECTORS, FILE_Q = FILE_W + 24 * 32, FILE_AM = FILE_Q + 4 * 16 };
enum { PIECE_W = 0, PIECE_Q = 24, PIECE_AM = 28 };
_Static_assert(FILE_AM % 64 == 0, "accumulators lie on cache lines");
_Static_assert(FILE_AM + 36 * 32 <= CORE_REG_BYTES && PIECE_AM + 36 <= 64, "they fit");

static const struct core_row rows[] = {
    CORE_ROWS_OF_BOTH,
    {"ADD", CORE_SCALAR, CORE_ADD, 0},
    {"MUL_mul_r_rr", CORE_SCALAR, CORE_MUL, 0},
    {"SELNEZ", CORE_SCALAR, CORE_SEL_NEZ, 0},
    {"SELEQZ", CORE_SCALAR, CORE_SEL_EQZ, 0},
    {"EXTENDs8", CORE_SCALAR, CORE_EXTEND_S8, 0},
    {"EXTENDs16", CORE_SCALAR, CORE_EXTEND_S16, 0},
    {"EXTENDu8", CORE_SCALAR, CORE_EXTEND_U8, 0},
    {"EXTENDu16", CORE_SCALAR, CORE_EXTEND_U16, 0},
    {"MOVX_mvx_scl", CORE_SCALAR, CORE_MOV, 0},
    {"MOVXM_lng_cg", CORE_SCALAR, CORE_MOV_IMM, 0},
    {"MOVA_lda_cg", CORE_SCALAR, CORE_MOV_IMM, 0},
    {"MOV_mv_cg", CORE_SCALAR, CORE_MOV_IMM, 0},
    {"MOV_mv_scl", CORE_SCALAR, CORE_MOV, 0},
    {"MOV_D*", CORE_SCALAR, CORE_MOV, 0},
    {"MOV_CNTR", CORE_SCALAR, CORE_MOV_COUNTER, 0},
    {"ADD_NC", CORE_SCALAR, CORE_ADD_NC, 0},
    {"J_jump_imm", CORE_CONTROL, CORE_J, 0},
    {"J_jump_ind", CORE_CONTROL, CORE_J_IND, 0},
    {"JL", CORE_CONTROL, CORE_JL, 0},
    {"JL_IND", CORE_CONTROL, CORE_JL_IND, 0},
    {"EVENT", CORE_CONTROL, CORE_EVENT, 0},
    {"MOV_mv_ss2scl", CORE_OUTSIDE, CORE_STREAM_READ, 0},
    {"MOV_mv_scl2ms", CORE_OUTSIDE, CORE_STREAM_WRITE, 0},
    {"MOV_TLAST_mv_scl2ms", CORE_OUTSIDE, CORE_STREAM_WRITE_LAST, 0},
    {"MOV_mv_scl2ms_doTlast_reg", CORE_OUTSIDE, CORE_STREAM_WRITE_R28, 0},
    {"VMOV_mv_scd", CORE_OUTSIDE, CORE_CASCADE_READ, 0},
    {"VMOV_LO", CORE_OUTSIDE, CORE_CASCADE_READ, 0},
    {"VMOV_HI", CORE_OUTSIDE, CORE_CASCADE_READ, 1},
    {"VMOV_mv_mcd", CORE_OUTSIDE, CORE_CASCADE_WRITE, 0},
    {"VLDB_4x16_LO", CORE_LOOKUP, 0, 2},
    {"VLDB_4x16_HI", CORE_LOOKUP, 1, 2},
    {"VLDB_4x32_LO", CORE_LOOKUP, 0, 4},
    {"VLDB_4x32_HI", CORE_LOOKUP, 1, 4},
    {"VLDB_4x64_LO", CORE_LOOKUP, 0, 8},
    {"VLDB_4x64_HI", CORE_LOOKUP, 1, 8},
};

static const struct core_refusal refusals[] = {
    {"_COMPR_", "loads of compressed data are not modelled"},
    {"_SPARSE_", "loads of sparse data are not modelled"},
    {"_TM", "a core's access to the registers of its tile is not modelled on this architecture"},
    {"2ms", "packet headers and streams without blocking are not modelled"},
    {"MOV_NB_", "streams without blocking are not modelled"},
};

static const struct core_semantic copies[] = {
    {"VMOV_mv_cm", core_copy},
    {"VMOV_mv_w", core_copy},
    {"VMOV_mv_x", core_copy},
    {"VMOV_D", core_copy},
};
static const struct sem_family moves = SEM_FAMILY(copies);

static const struct core_mac_row macs[] = {
    {"VMAC_F_vmac_bm_core_dense", sem_mac_bf16},
    {"VMAC_vmac_cm_core_dense", sem_mac_int},
};

static const struct sem_family * const families[] = {
    &sem_lanes, &sem_moves, &sem_converts, &sem_macs, &sem_floats, &moves, NULL};

const struct core_target core_target_aie2 = {
    .arch = AIE_ARCH_AIE2,
    .generation = 3,
    .packets_follow = false, // [S] mlir-aie and iree-amd-aie send each one by itself
    .clock = "phoenix",
    .files =
        {
            CORE_FILES_OF_BOTH,
            [AIE_L] = {4 * 16, 8, 8, 16, 2, 8},
            [AIE_AM] = CORE_FILE_VECTOR(FILE_AM, PIECE_AM, 32, 1, 36),
            [AIE_BM] = CORE_FILE_VECTOR(FILE_AM, PIECE_AM, 64, 2, 18),
            [AIE_CM] = CORE_FILE_VECTOR(FILE_AM, PIECE_AM, 128, 4, 9),
        },
    .masks = CORE_MASKS,
    .data_words = {UINT64_MAX, (1u << (AIE_UNIT_CR - 64)) - 1, 0},
    .loop_distance = 8,
    .loop_partial_bytes = 97,
    .lookup_line = 32,
    .refusals = refusals,
    .n_refusals = sizeof refusals / sizeof refusals[0],
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .macs = macs,
    .n_macs = sizeof macs / sizeof macs[0],
    .families = families,
};
