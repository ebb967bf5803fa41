// aie2p-block: the inner loop of products on aie2p. There is no matrix mode for bf16: a
// multiplication is 32 products lane by lane, a block of 4 n by 8 m for one k. The k-th numbers of
// four rows of x are each spread over eight lanes (as AMD's own kernels do it), those of eight rows
// of y follow each other four times:
//
//     x   n0 n0 n0 n0 n0 n0 n0 n0 n1 n1 ...     a 64-bit element, spread and transposed
//     y   m0 m1 m2 m3 m4 m5 m6 m7 m0 m1 ...     a 128-bit element, spread
//
// A trip is 8 rows of x and 16 of y: two spread vectors of each for a k, and four multiplications,
// one for each of the accumulators, of which half is used. Written in plain order: the scheduler
// places it, and moves and multiplications keep each other company.
#include "mul-mat.h"

#include "aie/isa/aie2p.h"
#include "aie/target/verbs.h"

enum { MEM_C_IN = 1, MEM_X, MEM_Y, MEM_C_OUT };

// Registers of the address generators, as on aie2: walks 0-3 are those of the tile's rows, 4 and 5
// those of x and y, whose steps from k-block to k-block are in m6 and m7.
#define WALK(n) A_FIXED(AIE_REG(AIE_D, (n)))
#define STEP(n) A_FIXED(AIE_REG(AIE_M, (n)))
enum { WALK_FROM = 0, WALK_TO = 2, WALK_X = 4, WALK_Y = 5, STEP_X = 6, STEP_Y = 7 };

enum {
    SHUFFLE_T16_8X4 = 28,
    SHUFFLE_T16_4X8 = 29,
    SHUFFLE_T16_8X8_LOW = 52, // of two vectors, the first half of the result; 53: the second
};

enum { CONFIG_BF16 = 0x3c, VECTOR = 64, SPREAD_MODE = 29 /* the register of vextbcstshfl */ };

static uint32_t mm_block_config(const struct mm_type * t) {
    (void) t;
    return CONFIG_BF16;
}

static void mm_block_begin(struct mm_block * b, struct asm_program * p, const struct mm_type * t) {
    struct asm_reg * const pointers[] = {&b->x,       &b->y,     &b->from[0],
                                         &b->from[1], &b->to[0], &b->to[1]};
    *b = (struct mm_block){.p = p, .interval = t->trip_bundles};
    for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++) {
        *pointers[i] = asm_global(p, ASM_P);
    }
    b->conf = asm_global(p, ASM_R);
    b->first = asm_global(p, ASM_R);
    emit_set(p, b->conf, CONFIG_BF16);
    emit_set_fixed(p, AIE_REG(AIE_R, SPREAD_MODE), SHUFFLE_T16_8X4);
    asm_keep_small(p); // a trip is most of the program memory
}

static struct mm_offsets mm_block_offsets(const struct mm_type * t) {
    (void) t;
    return (struct mm_offsets){0};
}

static struct asm_reg scalar(struct mm_block * b, int value) {
    struct asm_reg r = asm_local(b->p, ASM_R);
    emit_set_small(b->p, r, value);
    return r;
}

static struct asm_reg shuffled(struct mm_block * b, struct asm_reg low, struct asm_reg high,
                               int mode) {
    struct asm_reg d = asm_local(b->p, ASM_X);
    ASM(b->p, AIE2P_VSHUFFLE_vec_shuffle_x, A_REG(d), A_REG(low), A_REG(high),
        A_REG(scalar(b, mode)));
    return d;
}

// The vectors of a k-block; the one at the pointer comes last and moves it to the next block, or
// from the last one to the next trip.
static void load_block(struct mm_block * b, bool is_x, bool is_last, struct asm_reg to[], int n) {
    struct asm_reg pointer = is_x ? b->x : b->y;
    int memory = is_x ? MEM_X : MEM_Y;
    for (int i = n - 1; i >= 0; i--) {
        to[i] = asm_local(b->p, ASM_X);
        if (i > 0) {
            ASM_MEM(b->p, AIE2P_VLDA_dmx_lda_x_idx_imm, memory, A_REG(to[i]), A_REG(pointer),
                    A_IMM(VECTOR * i));
        } else if (is_last) {
            ASM_MEM(b->p, is_x ? AIE2P_VLDA_2D_dmx_lda_x : AIE2P_VLDB_2D_dmx_ldb_x, memory,
                    A_REG(to[i]), A_REG(pointer), WALK(is_x ? WALK_X : WALK_Y));
        } else {
            ASM_MEM(b->p, is_x ? AIE2P_VLDA_dmx_lda_x_pstm_nrm : AIE2P_VLDB_dmx_ldb_x_pstm_nrm,
                    memory, A_REG(to[i]), A_REG(pointer), STEP(is_x ? STEP_X : STEP_Y));
        }
    }
}

static void k_block(struct mm_block * b, struct asm_reg acc[2][2], int block, int n_blocks) {
    struct asm_reg x[2], y[4], turned[2], across[2][2];
    load_block(b, true, block + 1 == n_blocks, x, 2);
    load_block(b, false, block + 1 == n_blocks, y, 4);
    for (int i = 0; i < 2; i++) {
        turned[i] = shuffled(b, x[i], x[i], SHUFFLE_T16_4X8);
        for (int half = 0; half < 2; half++) {
            across[i][half] = shuffled(b, y[2 * i], y[2 * i + 1], SHUFFLE_T16_8X8_LOW + half);
        }
    }
    for (int k = 0; k < 8; k++) {
        struct asm_reg xs[2], ys[2];
        for (int i = 0; i < 2; i++) {
            xs[i] = asm_local(b->p, ASM_X);
            ys[i] = asm_local(b->p, ASM_X);
            ASM(b->p, AIE2P_VEXTBCSTSHFL_64, A_REG(xs[i]), A_REG(turned[i]), A_REG(scalar(b, k)));
            ASM(b->p, AIE2P_VEXTBCST_128_vec_extract_broadcast_imm, A_REG(ys[i]),
                A_REG(across[i][k / 4]), A_IMM(k % 4));
        }
        for (int n = 0; n < 4; n++) {
            struct asm_reg a = acc[n / 2][n % 2];
            ASM(b->p, AIE2P_VMAC_f_vmac_bf_vmul_bf_core_X_X, A_REG(a), A_REG(a), A_REG(xs[n / 2]),
                A_REG(ys[n % 2]), A_REG(block || k ? b->conf : b->first));
        }
    }
}

// A row of the tile is two blocks of 4 x 8, two vectors each.
static void mm_block_loop(struct mm_block * b, const struct mm_type * t, struct asm_reg trips) {
    struct asm_reg acc[2][2];
    asm_loop_begin(b->p, trips);
    for (int j = 0; j < 2; j++) {
        for (int v = 3; v >= 0; v--) {
            if (v % 2) {
                acc[j][v / 2] = asm_local(b->p, ASM_BM);
            }
            struct asm_reg part = asm_quarter(acc[j][v / 2], v % 2);
            if (v) {
                ASM_MEM(b->p, AIE2P_VLDA_dmx_lda_bm_idx_imm, MEM_C_IN, A_REG(part),
                        A_REG(b->from[j]), A_IMM(VECTOR * v));
            } else {
                ASM_MEM(b->p, AIE2P_VLDA_2D_dmx_lda_bm, MEM_C_IN, A_REG(part), A_REG(b->from[j]),
                        WALK(WALK_FROM + j));
            }
        }
    }
    for (int block = 0; block < t->slice_blocks; block++) {
        k_block(b, acc, block, t->slice_blocks);
    }
    for (int j = 0; j < 2; j++) {
        for (int v = 3; v >= 0; v--) {
            struct asm_reg part = asm_quarter(acc[j][v / 2], v % 2);
            if (v) {
                ASM_MEM(b->p, AIE2P_VST_dmx_sts_bm_idx_imm, MEM_C_OUT, A_REG(part), A_REG(b->to[j]),
                        A_IMM(VECTOR * v));
            } else {
                ASM_MEM(b->p, AIE2P_VST_2D_dmx_sts_bm, MEM_C_OUT, A_REG(b->to[j]), A_REG(part),
                        WALK(WALK_TO + j));
            }
        }
    }
    asm_loop_end(b->p);
}

const struct mm_type mm_aie2p_types[MM_TYPES] = {
    {DTYPE_BF16, DTYPE_F32, 2, 16, 8, 8, 16, 64},
};

const struct mm_machine mm_aie2p = {
    .begin = mm_block_begin,
    .offsets = mm_block_offsets,
    .config = mm_block_config,
    .loop = mm_block_loop,
};
