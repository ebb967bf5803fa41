// aie2p (XDNA 2): the target. Its instructions are in src/aie/isa/aie2p*. Its machine verbs are
// in aie2p-verbs.c. Nothing in here is code.
//
// A value of lanes is 16 of f32: a quarter of an accumulator of 2048 bits, and one vector; where it
// is worth it two of both are one value.
#include "target.h"

#include "aie/isa/aie2p.h"

extern const struct aie_target target_aie2p;

// clang-format off

const struct aie_target target_aie2p =
    {
    .arch = AIE_ARCH_AIE2P,
    .name = "aie2p",
    .has_programs = true,
    .has_rows = true,
    .has_products = true,
    .has_conversions = true,

        // Compares and selects can name r16-r31; half of them stay scalars, as on aie2. r16,
        // r17 and r29 are taken by instructions that do not name them, so no class has them.
    .classes = {
        //           numbers     whole    half     quarter   first  file              weight
        [ASM_R]    = {0xdc00ffff, AIE_R,  AIE_NONE, AIE_NONE, 0,  AIE_FILE_SCALAR, 1},
        [ASM_MASK] = {0x03fc0000, AIE_R,  AIE_NONE, AIE_NONE, 0,  AIE_FILE_SCALAR, 2},
        [ASM_P]    = {0xff,       AIE_P,  AIE_NONE, AIE_NONE, 0,  AIE_FILE_SCALAR, 2},
        [ASM_S]    = {0xf,        AIE_S,  AIE_NONE, AIE_NONE, 0,  AIE_FILE_SCALAR, 4},
        [ASM_X]    = {0xfff,      AIE_X,  AIE_W,    AIE_NONE, 0,  AIE_FILE_VECTOR, 3},
        [ASM_BM]   = {0x1f,       AIE_DM, AIE_CM2,  AIE_BM4,  0,  AIE_FILE_ACC,    4},
        [ASM_L]    = {0x1e,       AIE_L,  AIE_R,    AIE_NONE, 16, AIE_FILE_SCALAR, 4},
        [ASM_CM]   = {0x1f,       AIE_DM, AIE_CM2,  AIE_BM4,  0,  AIE_FILE_ACC,    4},
        [ASM_Y]    = {0x3f,       AIE_Y,  AIE_X,    AIE_W,    0,  AIE_FILE_VECTOR, 6},
        [ASM_J]    = {0xff,       AIE_DJ, AIE_NONE, AIE_NONE, 0,  AIE_FILE_SCALAR, 2},
        [ASM_EX]   = {0xfff,      AIE_EX, AIE_NONE, AIE_NONE, 0,  AIE_FILE_VECTOR, 3},
    },
    .exclusive = {1u << ASM_MASK | 1u << ASM_L, 1u << ASM_BM | 1u << ASM_CM, 1u << ASM_X | 1u << ASM_Y,
                  1u << ASM_X | 1u << ASM_EX, 1u << ASM_Y | 1u << ASM_EX},
    .files = {
        {0,             AIE_FILE_SCALAR},
        {AIE_UNIT_W,    AIE_FILE_VECTOR},
        {AIE_UNIT_AM,   AIE_FILE_ACC},
        {AIE_UNIT_CRP,  AIE_FILE_SCALAR},
        {AIE_UNIT_E,    AIE_FILE_VECTOR},
        {AIE_UNIT_FIFO, AIE_FILE_FIFO},
        {AIE_UNIT_BM4,  AIE_FILE_ACC},
    },

    .spills = {
        [ASM_X]  = {AIE2P_VST_dmx_sts_x_spill, AIE2P_VLDA_dmx_lda_x_spill, 1, {-1}},
        [ASM_BM] = {AIE2P_VST_dmx_sts_bm_spill, AIE2P_VLDA_dmx_lda_bm_spill, 1, {2}},
        [ASM_CM] = {AIE2P_VST_dmx_sts_bm_spill, AIE2P_VLDA_dmx_lda_bm_spill, 4, {2, 3, 4, 5}},
    },
    .spill_both = {AIE2P_VST_dmx_sts_bm_spill, AIE2P_VLDA_dmx_lda_bm_spill, 2, {2, 3}},
    .copies = {[ASM_X] = AIE2P_VMOV_alu_mv_mv_x},
    .spill_base = AIE_REG(AIE_SPC, AIE_SPC_SP),
    .sums_in_vectors = true,

    .controls = {
        [AIE_CONTROL_ROUND]    = AIE_REG(AIE_CR, AIE_CR_RND),
        [AIE_CONTROL_SATURATE] = AIE_REG(AIE_CR, AIE_CR_SAT),
        [AIE_CONTROL_ADD_SIGN] = AIE_REG(AIE_CRP, AIE_CRP_VADD_SIGN0),
        [AIE_CONTROL_UPS_SIGN] = AIE_REG(AIE_CRP, AIE_CRP_UPS_SIGN0),
        [AIE_CONTROL_SRS_SIGN] = AIE_REG(AIE_CRP, AIE_CRP_SRS_SIGN0),
    },

    .basic = {
        [AIE_BASIC_JUMP]            = AIE2P_J_lng,
        [AIE_BASIC_JUMP_IF_ZERO]    = AIE2P_JZ,
        [AIE_BASIC_JUMP_IF_NONZERO] = AIE2P_JNZ,
        [AIE_BASIC_JUMP_POINTER]    = AIE2P_J_alumv_or,
        [AIE_BASIC_ACQUIRE]         = AIE2P_ACQ_mLockId_imm,
        [AIE_BASIC_ACQUIRE_ANY]     = AIE2P_ACQ_mLockId_reg,
        [AIE_BASIC_RELEASE]         = AIE2P_REL_mLockId_imm,
        [AIE_BASIC_COUNT]           = AIE2P_ADD_NC_mv_add_ri,
        [AIE_BASIC_SET]             = AIE2P_MOVXM,
        [AIE_BASIC_SET_SMALL]       = AIE2P_MOVX_alu_cg,
        [AIE_BASIC_SET_MOVABLE]     = AIE2P_MOV_alu_mv_mv_mv_cg,
        [AIE_BASIC_COPY]            = AIE2P_MOV_alu_mv_mv_mv_scl,
        [AIE_BASIC_CONTROL]         = AIE2P_MOVX_mvx_cr_r,
        [AIE_BASIC_ADD_SMALL]       = AIE2P_ADD_add_r_ri,
        [AIE_BASIC_ADD]             = AIE2P_ADD_alu_r_rr,
        [AIE_BASIC_SUB]             = AIE2P_SUB,
        [AIE_BASIC_AND]             = AIE2P_AND,
        [AIE_BASIC_OR]              = AIE2P_OR,
        [AIE_BASIC_XOR]             = AIE2P_XOR,
        [AIE_BASIC_SHIFT]           = AIE2P_LSHL,
        [AIE_BASIC_SHIFT_SIGNED]    = AIE2P_ASHL,
        [AIE_BASIC_LESS]            = AIE2P_LT,
        [AIE_BASIC_NOT_ZERO]        = AIE2P_NEZ,
        [AIE_BASIC_MARK]            = AIE2P_EVENT_event0,
        [AIE_BASIC_MARK_END]        = AIE2P_EVENT_event1,
    },
    .alternatives = {
        {AIE2P_VLDA_dmw_lda_w_pstm_nrm_imm, AIE2P_VLDB_dmw_ldb_pstm_nrm_imm},
        {AIE2P_VLDA_dmw_lda_w_idx_imm, AIE2P_VLDB_dmw_ldb_idx_imm},
        {AIE2P_VLDA_dmx_lda_x_pstm_nrm_imm, AIE2P_VLDB_dmx_ldb_x_pstm_nrm_imm},
        {AIE2P_VLDA_dmx_lda_x_idx_imm, AIE2P_VLDB_dmx_ldb_x_idx_imm},
        {AIE2P_VLDA_dmw_lda_w_idx, AIE2P_VLDB_dmw_ldb_idx},
        {AIE2P_VLDA_dmx_lda_x_idx, AIE2P_VLDB_dmx_ldb_x_idx},
        {AIE2P_PADDA_pstm_nrm_imm, AIE2P_PADDB_pstm_nrm_imm},
        {AIE2P_VLDA_FILL_512, AIE2P_VLDB_FILL_512},
        {AIE2P_VLDA_POP_576_normal_pop, AIE2P_VLDB_POP_576_normal_pop},
    },
            .n_alternatives = 9,
    .undefined_for_some = AIE2P_VSHUFFLE_vec_shuffle_x,

    .delay_slots = 5,
    .loop_distance = 7,
    .loop_bytes = 0,
    .loop_end_stores = true,
    .lock_distance = 4,
    .lock_margin = 8,
    .load_latency = 7,
    .control_latency = 8,
    .memory_stage = 4,
    .bundle_bytes = 16,
    .program_bytes = 16 * 1024,

    .data_bytes = 64 * 1024,
    .bank_bytes = 16 * 1024,
    .own_window = 0x70000,
    .west_window = 0x50000,
    .own_locks = 48,
    .west_locks = 16,
    .vector_bytes = 64,
    .load_bytes = 64,
    .pointer_step = 64,
    .lanes = 16,
    .value_class = ASM_X,
    .acc_class = ASM_BM,
    .pair_class = ASM_X,
    .word_reach = 32,
    .vector_reach = 256,
    .add_config = 0x3c,
    .mul_config = 0x3c,
    .lane_products = 1,
    .product_few = 32,
    .product_cut_k = 384,
    .mac_bf16 = {0, 0, 0, 0},
    .mac_i8 = {8, 8, 8, 0x308},
    .mac_i16 = {8, 2, 8, 0x318},
    .mac_block = {8, 8, 8, 0x30c},

    .columns = 8,
    .core_rows = 4,
    .device_generation = 4,
    .shim_burst = 3,
    .stream_bytes = 8,
};
