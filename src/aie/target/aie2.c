// aie2 (XDNA): the target. Its instructions are in src/aie/isa/aie2*, its machine verbs in
// aie2-verbs.c. Nothing in here is code.
#include "target.h"

#include "aie/isa/aie2.h"

extern const struct aie_target target_aie2;

// clang-format off

const struct aie_target target_aie2 =
    {
    .arch = AIE_ARCH_AIE2,
    .name = "aie2",
    .has_programs = true,
    .has_rows = true,
    .has_products = true,
    .has_conversions = true,

        // r16-r23 are kept for masks because only they can be named by vector compares and selects.
    .classes = {
        //           numbers     whole    half     quarter   first  file              weight
        [ASM_R]    = {0xff00ffff, AIE_R,  AIE_NONE, AIE_NONE, 0,  AIE_FILE_SCALAR, 1},
        [ASM_MASK] = {0x00ff0000, AIE_R,  AIE_NONE, AIE_NONE, 0,  AIE_FILE_SCALAR, 2},
        [ASM_P]    = {0xff,       AIE_P,  AIE_NONE, AIE_NONE, 0,  AIE_FILE_SCALAR, 2},
        [ASM_S]    = {0xf,        AIE_S,  AIE_NONE, AIE_NONE, 0,  AIE_FILE_SCALAR, 4},
        [ASM_X]    = {0xfff,      AIE_X,  AIE_W,    AIE_NONE, 0,  AIE_FILE_VECTOR, 3},
        [ASM_BM]   = {0x3ffff,    AIE_BM, AIE_AM,   AIE_NONE, 0,  AIE_FILE_ACC,    2},
        [ASM_L]    = {0xf,        AIE_L,  AIE_R,    AIE_NONE, 16, AIE_FILE_SCALAR, 4},
        [ASM_CM]   = {0x1ff,      AIE_CM, AIE_BM,   AIE_AM,   0,  AIE_FILE_ACC,    4},
    },
    .exclusive = {1u << ASM_MASK | 1u << ASM_L, 1u << ASM_BM | 1u << ASM_CM},
    .files = {
        {0,           AIE_FILE_SCALAR},
        {AIE_UNIT_W,  AIE_FILE_VECTOR},
        {AIE_UNIT_AM, AIE_FILE_ACC},
    },

    .copies = {[ASM_X] = AIE2_VMOV_mv_x, [ASM_BM] = AIE2_VMOV_mv_x},
    .parks = {[ASM_X] = ASM_BM},

    .controls = {
        [AIE_CONTROL_ROUND]    = AIE_REG(AIE_CR, AIE_CR_RND),
        [AIE_CONTROL_SATURATE] = AIE_REG(AIE_CR, AIE_CR_SAT),
        [AIE_CONTROL_ADD_SIGN] = AIE_REG(AIE_CR, AIE_CR_VADD_SIGN),
        [AIE_CONTROL_UPS_SIGN] = AIE_REG(AIE_CR, AIE_CR_UPS_SIGN),
        [AIE_CONTROL_SRS_SIGN] = AIE_REG(AIE_CR, AIE_CR_SRS_SIGN),
    },

    .basic = {
        [AIE_BASIC_JUMP]            = AIE2_J_jump_imm,
        [AIE_BASIC_JUMP_IF_ZERO]    = AIE2_JZ,
        [AIE_BASIC_JUMP_IF_NONZERO] = AIE2_JNZ,
        [AIE_BASIC_JUMP_POINTER]    = AIE2_J_jump_ind,
        [AIE_BASIC_ACQUIRE]         = AIE2_ACQ_mLockId_imm,
        [AIE_BASIC_ACQUIRE_ANY]     = AIE2_ACQ_mLockId_reg,
        [AIE_BASIC_RELEASE]         = AIE2_REL_mLockId_imm,
        [AIE_BASIC_COUNT]           = AIE2_ADD_NC,
        [AIE_BASIC_SET]             = AIE2_MOVXM_lng_cg,
        [AIE_BASIC_SET_SMALL]       = AIE2_MOVX_alu_cg,
        [AIE_BASIC_SET_MOVABLE]     = AIE2_MOV_mv_cg,
        [AIE_BASIC_COPY]            = AIE2_MOV_mv_scl,
        [AIE_BASIC_CONTROL]         = AIE2_MOVX_mvx_scl,
        [AIE_BASIC_ADD_SMALL]       = AIE2_ADD_add_r_ri,
        [AIE_BASIC_ADD]             = AIE2_ADD,
        [AIE_BASIC_SUB]             = AIE2_SUB,
        [AIE_BASIC_AND]             = AIE2_AND,
        [AIE_BASIC_OR]              = AIE2_OR,
        [AIE_BASIC_XOR]             = AIE2_XOR,
        [AIE_BASIC_SHIFT]           = AIE2_LSHL,
        [AIE_BASIC_SHIFT_SIGNED]    = AIE2_ASHL,
        [AIE_BASIC_LESS]            = AIE2_LT,
        [AIE_BASIC_NOT_ZERO]        = AIE2_NEZ,
    },
    .alternatives = {
        {AIE2_VLDA_dmw_lda_w_ag_pstm_nrm_imm, AIE2_VLDB_dmw_ldb_ag_pstm_nrm_imm},
        {AIE2_VLDA_dmw_lda_w_ag_idx_imm, AIE2_VLDB_dmw_ldb_ag_idx_imm},
        {AIE2_PADDA_lda_ptr_inc_idx_imm, AIE2_PADDB_ldb_ptr_inc_nrm_imm},
    },
            .n_alternatives = 3,

    .delay_slots = 5,
    .loop_distance = 8,
    .loop_bytes = 112,
    .loop_end_stores = false,
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
    .load_bytes = 32,
    .pointer_step = 4,
    .lanes = 16,
    .value_class = ASM_X,
    .acc_class = ASM_BM,
    .pair_class = ASM_X,
    .word_reach = 128,
    .vector_reach = 1024,
    .add_config = 28,
    .mul_config = 60,
    .lane_products = 2,
    .product_few = 16,
    .product_cut_k = 384,
    .mac_bf16 = {4, 8, 4, 28},
    .mac_i8 = {4, 8, 8, 0x308},
    .mac_i16 = {4, 4, 4, 0x33a},

    .columns = 4,
    .core_rows = 4,
    .device_generation = 3,
    .shim_burst = 2,
    .stream_bytes = 4,
};
