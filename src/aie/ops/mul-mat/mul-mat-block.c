// mul-mat-block: the inner loop, placed by hand. The multiplier is busy in every bundle; what feeds
// it is placed as late as its latencies allow, so that twelve vector registers suffice:
//
//     bundle, seen from a k-block's first multiplication (bf16; the pattern repeats every 8)
//              -10  -9  -8  -7  -6  -5  -4  -3  -2  -1   0   1   2   3   4   5   6   7
//     lda       y0  y0   .  y1  x1  y2   .   .  (next block's y0, y0)
//     ldb        .  x0  x0  y1  x1  y2  y3  y3
//     shuffle                                   y0       y1      y2      y3
//     multiply                                           00  01  10  11  20  21  30  31
//
// The free places of lda load the accumulators of the next trip; those of the last one are stored
// meanwhile. The last load from a pointer in a k-block moves it on, that of the last block to the
// next trip (a two-dimensional walk).
#include "mul-mat.h"

#include "aie/isa/aie2.h"

enum { MEM_C_IN = 1, MEM_X, MEM_Y, MEM_C_OUT };

// Registers of the address generators: walks 0-3 are those of the tile's rows, 4 and 5 those of x
// and y, whose steps from k-block to k-block are in m6 and m7.
#define WALK(n) A_FIXED(AIE_REG(AIE_D, (n)))
#define STEP(n) A_FIXED(AIE_REG(AIE_M, (n)))
enum { WALK_FROM = 0, WALK_TO = 2, WALK_X = 4, WALK_Y = 5, STEP_X = 6, STEP_Y = 7 };

// Shuffles by their number.
enum {
    SHUFFLE_T16_4X8 = 29, // 4 x 8 of 16 bits, transposed
    SHUFFLE_T8_8X8 = 35,
    SHUFFLE_EVEN_64 = 6, // the first 8 of each 16 bytes
    SHUFFLE_ODD_64 = 7,
    SHUFFLE_T16_4X4 = 39, // in each half
};

enum { CONFIG_BF16 = 28, CONFIG_I8 = 0x308, CONFIG_I16 = 0x33a, CONFIG_FIRST = 1 };

void mm_block_begin(struct mm_block * b, struct asm_program * p, const struct mm_type * t) {
    struct asm_reg * const pointers[] = {&b->x,       &b->y,     &b->from[0],
                                         &b->from[1], &b->to[0], &b->to[1]};
    *b = (struct mm_block){.p = p};
    for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++) {
        *pointers[i] = asm_global(p, ASM_P);
    }
    b->conf = asm_global(p, ASM_R);
    b->first = asm_global(p, ASM_R);
    b->mode = asm_global(p, ASM_R);
    ASM(p, AIE2_MOVXM_lng_cg, A_REG(b->conf), A_IMM((int32_t) mm_block_config(t)));
    if (t->in == DTYPE_I16) {
        b->mode2 = asm_global(p, ASM_R);
        b->mode3 = asm_global(p, ASM_R);
        b->shift = asm_global(p, ASM_S);
        ASM(p, AIE2_MOVXM_lng_cg, A_REG(b->mode), A_IMM(SHUFFLE_EVEN_64));
        ASM(p, AIE2_MOVXM_lng_cg, A_REG(b->mode2), A_IMM(SHUFFLE_ODD_64));
        ASM(p, AIE2_MOVXM_lng_cg, A_REG(b->mode3), A_IMM(SHUFFLE_T16_4X4));
        ASM(p, AIE2_MOVXM_lng_cg, A_REG(b->shift), A_IMM(0));
    } else {
        ASM(p, AIE2_MOVXM_lng_cg, A_REG(b->mode),
            A_IMM(t->in == DTYPE_I8 ? SHUFFLE_T8_8X8 : SHUFFLE_T16_4X8));
    }
}

uint32_t mm_block_config(const struct mm_type * t) {
    return t->in == DTYPE_BF16 ? CONFIG_BF16 : t->in == DTYPE_I8 ? CONFIG_I8 : CONFIG_I16;
}

struct mm_offsets mm_block_offsets(const struct mm_type * t) {
    switch (t->in) {
    case DTYPE_I8:
        return (struct mm_offsets){.x = 32, .y = 96, .c = 224};
    case DTYPE_I16: // the loads that widen and the stores that narrow reach from -128 to 96
        return (struct mm_offsets){.x = 96, .y = 224, .c = 128};
    default:
        return (struct mm_offsets){.x = 96, .y = 224, .c = 224};
    }
}

// ---- loads and stores of vectors ----

enum port { PORT_A, PORT_B };

// How the pointer goes on behind a load: not at all, to the next k-block, to the next trip.
enum advance { STAYS, NEXT_BLOCK, NEXT_TRIP };

static void load(struct mm_block * b, int at, enum port port, struct asm_reg to, bool is_x,
                 int offset, enum advance advance) {
    static const int ops[3][2] = {
        [STAYS] = {AIE2_VLDA_dmw_lda_w_ag_idx_imm, AIE2_VLDB_dmw_ldb_ag_idx_imm},
        [NEXT_BLOCK] = {AIE2_VLDA_dmw_lda_w_ag_pstm_nrm, AIE2_VLDB_dmw_ldb_ag_pstm_nrm},
        [NEXT_TRIP] = {AIE2_VLDA_2D_dmw_lda_w, AIE2_VLDB_2D},
    };
    struct asm_arg last = advance == STAYS        ? A_IMM(offset)
                          : advance == NEXT_BLOCK ? STEP(is_x ? STEP_X : STEP_Y)
                                                  : WALK(is_x ? WALK_X : WALK_Y);
    asm_at(b->p, at);
    ASM_MEM(b->p, ops[advance][port], is_x ? MEM_X : MEM_Y, A_REG(to), A_REG(is_x ? b->x : b->y),
            last);
}

static void shuffle(struct mm_block * b, int at, struct asm_reg to, struct asm_reg from,
                    struct asm_reg mode) {
    asm_at(b->p, at);
    ASM(b->p, AIE2_VSHUFFLE, A_REG(to), A_REG(from), A_REG(from), A_REG(mode));
}

// ---- bf16: accumulators 4 x 4, 8 of them; number 2 i + j is y's block i with x's block j ----

enum { INTERVAL = 48 };

static void load_accumulator(struct mm_block * b, int at, struct asm_reg to, int j, int offset,
                             bool is_last) {
    asm_at(b->p, at);
    if (is_last) {
        ASM_MEM(b->p, AIE2_VLDA_2D_dmw_lda_am, MEM_C_IN, A_REG(to), A_REG(b->from[j]),
                WALK(WALK_FROM + j));
    } else {
        ASM_MEM(b->p, AIE2_VLDA_dmw_lda_am_ag_idx_imm, MEM_C_IN, A_REG(to), A_REG(b->from[j]),
                A_IMM(offset));
    }
}

static void store_accumulator(struct mm_block * b, int at, struct asm_reg from, int j, int offset,
                              bool is_last) {
    asm_at(b->p, at);
    if (is_last) {
        ASM_MEM(b->p, AIE2_VST_2D_dmw_sts_am, MEM_C_OUT, A_REG(b->to[j]), A_REG(from),
                WALK(WALK_TO + j));
    } else {
        ASM_MEM(b->p, AIE2_VST_dmw_sts_am_ag_idx_imm, MEM_C_OUT, A_REG(from), A_REG(b->to[j]),
                A_IMM(offset));
    }
}

static void bf16_k_block(struct mm_block * b, struct asm_reg acc[8], int k, int n_blocks) {
    int t = 8 * k;
    enum advance on = k + 1 < n_blocks ? NEXT_BLOCK : NEXT_TRIP;
    struct asm_reg x[2], y[4];
    for (int i = 0; i < 4; i++) {
        y[i] = asm_local(b->p, ASM_X);
    }
    for (int j = 0; j < 2; j++) {
        x[j] = asm_local(b->p, ASM_X);
    }
    load(b, t - 10, PORT_A, asm_half(y[0], 0), false, -224, STAYS);
    load(b, t - 9, PORT_A, asm_half(y[0], 1), false, -192, STAYS);
    load(b, t - 7, PORT_A, asm_half(y[1], 0), false, -160, STAYS);
    load(b, t - 7, PORT_B, asm_half(y[1], 1), false, -128, STAYS);
    load(b, t - 5, PORT_A, asm_half(y[2], 0), false, -96, STAYS);
    load(b, t - 5, PORT_B, asm_half(y[2], 1), false, -64, STAYS);
    load(b, t - 4, PORT_B, asm_half(y[3], 0), false, -32, STAYS);
    load(b, t - 3, PORT_B, asm_half(y[3], 1), false, 0, on);
    load(b, t - 9, PORT_B, asm_half(x[0], 0), true, -96, STAYS);
    load(b, t - 8, PORT_B, asm_half(x[0], 1), true, -64, STAYS);
    load(b, t - 6, PORT_B, asm_half(x[1], 0), true, -32, STAYS);
    load(b, t - 6, PORT_A, asm_half(x[1], 1), true, 0, on);
    for (int i = 0; i < 4; i++) {
        struct asm_reg turned = asm_local(b->p, ASM_X);
        shuffle(b, t + 2 * i - 2, turned, y[i], b->mode);
        for (int j = 0; j < 2; j++) {
            struct asm_reg a = acc[2 * i + j];
            asm_at(b->p, t + 2 * i + j);
            ASM(b->p, AIE2_VMAC_F_vmac_bm_core_dense, A_REG(a), A_REG(a), A_REG(x[j]),
                A_REG(turned), A_REG(k ? b->conf : b->first));
        }
    }
}

static void bf16_trip(struct mm_block * b, const struct mm_type * t) {
    static const int free_a[3] = {0, 4, 5}; // places of lda that a k-block leaves
    struct asm_reg acc[8];
    for (int n = 0; n < 8; n++) {
        acc[n] = asm_local(b->p, ASM_BM);
        for (int half = 0; half < 2; half++) {
            int place = 2 * n + half;
            load_accumulator(b, -INTERVAL + place / 3 * 8 + free_a[place % 3],
                             asm_half(acc[n], half), n % 2, n / 2 * 64 + half * 32 - 224,
                             n >= 6 && half == 1);
        }
    }
    for (int k = 0; k < t->slice_blocks; k++) {
        bf16_k_block(b, acc, k, t->slice_blocks);
    }
    for (int n = 0; n < 8; n++) {
        for (int half = 0; half < 2; half++) {
            store_accumulator(b, INTERVAL - 2 + 2 * n + half, asm_half(acc[n], half), n % 2,
                              n / 2 * 64 + half * 32 - 224, n >= 6 && half == 1);
        }
    }
}

// ---- i8: accumulators 4 x 8, 4 of them; a k-block takes four bundles ----

static void i8_k_block(struct mm_block * b, struct asm_reg acc[4], int k, int n_blocks) {
    int t = 4 * k;
    enum advance on = k + 1 < n_blocks ? NEXT_BLOCK : NEXT_TRIP;
    struct asm_reg x[2], y[2];
    for (int i = 0; i < 2; i++) {
        y[i] = asm_local(b->p, ASM_X);
        x[i] = asm_local(b->p, ASM_X);
    }
    load(b, t - 9, PORT_A, asm_half(y[0], 0), false, -96, STAYS);
    load(b, t - 9, PORT_B, asm_half(y[0], 1), false, -64, STAYS);
    load(b, t - 7, PORT_A, asm_half(y[1], 0), false, -32, STAYS);
    load(b, t - 7, PORT_B, asm_half(y[1], 1), false, 0, on);
    load(b, t - 8, PORT_B, asm_half(x[0], 0), true, -32, STAYS);
    load(b, t - 6, PORT_B, asm_half(x[1], 0), true, 0, on);
    for (int i = 0; i < 2; i++) {
        shuffle(b, t + 2 * i - 2, y[i], y[i], b->mode);
        for (int j = 0; j < 2; j++) {
            struct asm_reg a = acc[2 * i + j];
            asm_at(b->p, t + 2 * i + j);
            ASM(b->p, AIE2_VMAC_vmac_cm_core_dense, A_REG(a), A_REG(a), A_REG(x[j]), A_REG(y[i]),
                A_REG(k ? b->conf : b->first));
        }
    }
}

static void i8_trip(struct mm_block * b, const struct mm_type * t) {
    struct asm_reg acc[4];
    for (int n = 0; n < 4; n++) {
        acc[n] = asm_local(b->p, ASM_CM);
        for (int q = 0; q < 4; q++) { // lda is free in every even bundle
            load_accumulator(b, -40 + 2 * (4 * n + q), asm_quarter(acc[n], q), n % 2,
                             n / 2 * 128 + q * 32 - 224, n >= 2 && q == 3);
        }
    }
    for (int k = 0; k < t->slice_blocks; k++) {
        i8_k_block(b, acc, k, t->slice_blocks);
    }
    for (int n = 0; n < 4; n++) {
        for (int q = 0; q < 4; q++) {
            store_accumulator(b, INTERVAL + 2 + 4 * n + q, asm_quarter(acc[n], q), n % 2,
                              n / 2 * 128 + q * 32 - 224, n >= 2 && q == 3);
        }
    }
}

// ---- i16: accumulators 4 x 4 of 64 bits, 8 of them, widened from i32 and narrowed to it ----

// Halves of a row of four blocks, the one at the pointer last: it moves the pointer on.
static const struct {
    int block, half;
} i16_row[8] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 1}, {3, 0}, {3, 1}, {2, 0}};

static void i16_accumulators(struct mm_block * b, struct asm_reg acc[8], bool in) {
    for (int j = 0; j < 2; j++) {
        for (int n = 0; n < 8; n++) {
            struct asm_arg half = A_REG(asm_half(acc[2 * i16_row[n].block + j], i16_row[n].half));
            struct asm_arg offset = A_IMM(i16_row[n].block * 64 + i16_row[n].half * 32 - 128);
            struct asm_arg s = A_REG(b->shift), from = A_REG(b->from[j]), to = A_REG(b->to[j]);
            if (n < 7 && in) {
                ASM_MEM(b->p, AIE2_VLDA_UPS_S64_S32_ag_idx_imm, MEM_C_IN, half, s, from, offset);
            } else if (n < 7) {
                ASM_MEM(b->p, AIE2_VST_SRS_S32_S64_ag_idx_imm, MEM_C_OUT, to, offset, half, s);
            } else if (in) {
                ASM_MEM(b->p, AIE2_VLDA_2D_UPS_S64_S32, MEM_C_IN, half, from, s,
                        WALK(WALK_FROM + j));
            } else {
                ASM_MEM(b->p, AIE2_VST_2D_SRS_S32_S64, MEM_C_OUT, to, WALK(WALK_TO + j), half, s);
            }
        }
    }
}

static void i16_k_block(struct mm_block * b, struct asm_reg acc[8], int k, int n_blocks) {
    enum advance on = k + 1 < n_blocks ? NEXT_BLOCK : NEXT_TRIP;
    struct asm_reg x[2][2]; // by block and half of its k
    for (int j = 0; j < 2; j++) {
        struct asm_reg raw = asm_local(b->p, ASM_X);
        load(b, 0, PORT_A, asm_half(raw, 0), true, 64 * j - 96, STAYS);
        load(b, 0, PORT_A, asm_half(raw, 1), true, 64 * j - 64, j ? on : STAYS);
        for (int half = 0; half < 2; half++) {
            x[j][half] = asm_local(b->p, ASM_X);
            shuffle(b, 0, x[j][half], raw, half ? b->mode2 : b->mode);
        }
    }
    for (int i = 0; i < 4; i++) {
        struct asm_reg raw = asm_local(b->p, ASM_X);
        load(b, 0, PORT_A, asm_half(raw, 0), false, 64 * i - 224, STAYS);
        load(b, 0, PORT_A, asm_half(raw, 1), false, 64 * i - 192, i == 3 ? on : STAYS);
        for (int half = 0; half < 2; half++) {
            struct asm_reg y = asm_local(b->p, ASM_X);
            shuffle(b, 0, y, raw, half ? b->mode2 : b->mode);
            shuffle(b, 0, y, y, b->mode3);
            for (int j = 0; j < 2; j++) {
                struct asm_reg a = acc[2 * i + j];
                ASM(b->p, AIE2_VMAC_vmac_cm_core_dense, A_REG(a), A_REG(a), A_REG(x[j][half]),
                    A_REG(y), A_REG(k || half ? b->conf : b->first));
            }
        }
    }
}

static void i16_trip(struct mm_block * b, const struct mm_type * t) {
    struct asm_reg acc[8];
    for (int n = 0; n < 8; n++) {
        acc[n] = asm_local(b->p, ASM_CM);
    }
    i16_accumulators(b, acc, true);
    for (int k = 0; k < t->slice_blocks; k++) {
        i16_k_block(b, acc, k, t->slice_blocks);
    }
    i16_accumulators(b, acc, false);
}

void mm_block_loop(struct mm_block * b, const struct mm_type * t, struct asm_reg trips) {
    if (t->in == DTYPE_I16) {
        asm_loop_begin(b->p, trips);
        i16_trip(b, t);
    } else {
        asm_loop_begin_paced(b->p, trips, INTERVAL);
        (t->in == DTYPE_I8 ? i8_trip : bf16_trip)(b, t);
    }
    asm_loop_end(b->p);
}
