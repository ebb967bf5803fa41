// aie2-block: the inner loops of products on aie2, placed by hand. The multiplier is busy in every
// bundle; what feeds it is placed as late as its latencies allow, so that twelve vector registers
// suffice:
//
//     bundle, seen from a k-block's first multiplication (bf16; the pattern repeats every 8)
//              -10  -9  -8  -7  -6  -5  -4  -3  -2  -1   0   1   2   3   4   5   6   7
//     ldb       y0  y0  y1  y1  y2  y2  y3  y3 (next block's)
//     lda       x1  x1  x0  x0   c   c   c   c
//     shuffle                                   y0       y1      y2      y3
//     multiply                                           00  01  10  11  20  21  30  31
//
// y, x and the tile lie in memory banks of their own (mul-mat.h), each of which serves one access
// in a bundle. So ldb has y alone and lda x, and in the places that x leaves the accumulators of
// the next trip. Those of the last one are stored while none are loaded. No two accesses of a loop
// ever meet; mm_block_conflicts counts them. The last load from a pointer in a k-block moves it on,
// that of the last block to the next trip (a two-dimensional walk).
#include "mul-mat.h"

#include "aie/isa/aie2.h"
#include "aie/verbs/verbs.h"

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
    SHUFFLE_T16_4X4 = 39, // in each half
};

enum { CONFIG_BF16 = 28, CONFIG_I8 = 0x308, CONFIG_I16 = 0x33a };

static uint32_t mm_block_config(const struct mm_type * t) {
    return t->in == DTYPE_BF16 ? CONFIG_BF16 : t->in == DTYPE_I8 ? CONFIG_I8 : CONFIG_I16;
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
    b->mode = asm_global(p, ASM_R);
    ASM(p, AIE2_MOVXM_lng_cg, A_REG(b->conf), A_IMM((int32_t) mm_block_config(t)));
    ASM(p, AIE2_MOVXM_lng_cg, A_REG(b->mode),
        A_IMM(t->in == DTYPE_I8    ? SHUFFLE_T8_8X8
              : t->in == DTYPE_I16 ? SHUFFLE_T16_4X4
                                   : SHUFFLE_T16_4X8));
    if (t->in == DTYPE_I16) {
        b->shift = asm_global(p, ASM_S);
        ASM(p, AIE2_MOVXM_lng_cg, A_REG(b->shift), A_IMM(0));
    }
}

static struct mm_offsets mm_block_offsets(const struct mm_type * t) {
    switch (t->in) {
    case DTYPE_I8:
        return (struct mm_offsets){.x = 32, .y = 96, .c = 224};
    case DTYPE_I16:
        return (struct mm_offsets){.x = 32, .y = 32, .c = 96};
    default:
        return (struct mm_offsets){.x = 32, .y = 128, .c = 128};
    }
}

// ---- accesses ----

// Notes the bundle of a trip in which an access issues: other accesses may need the same bank
// there.
static void place(struct mm_block * b, int at, int op, enum mm_bank bank) {
    const struct aie_instr * instr = aie_isa_instr(aie_isa_get(AIE_ARCH_AIE2), op);
    int cycle = (at + instr->mem_cycle + 4 * b->interval) % b->interval;
    b->conflicts += b->uses[bank][cycle]++ > 0;
    b->accesses[bank]++;
    asm_at(b->p, at);
}

enum port { PORT_A, PORT_B };

// Where the pointer is after a load: at the same place, at the next k-block, at the next trip.
enum advance { STAYS, NEXT_BLOCK, NEXT_TRIP };

static void load_at(struct mm_block * b, int at, enum port port, struct asm_reg to, bool is_x,
                    int offset, enum advance advance) {
    static const int ops[3][2] = {
        [STAYS] = {AIE2_VLDA_dmw_lda_w_ag_idx_imm, AIE2_VLDB_dmw_ldb_ag_idx_imm},
        [NEXT_BLOCK] = {AIE2_VLDA_dmw_lda_w_ag_pstm_nrm, AIE2_VLDB_dmw_ldb_ag_pstm_nrm},
        [NEXT_TRIP] = {AIE2_VLDA_2D_dmw_lda_w, AIE2_VLDB_2D},
    };
    struct asm_arg last = advance == STAYS        ? A_IMM(offset)
                          : advance == NEXT_BLOCK ? STEP(is_x ? STEP_X : STEP_Y)
                                                  : WALK(is_x ? WALK_X : WALK_Y);
    place(b, at, ops[advance][port], is_x ? MM_BANK_X : MM_BANK_Y);
    ASM_MEM(b->p, ops[advance][port], is_x ? MEM_X : MEM_Y, A_REG(to), A_REG(is_x ? b->x : b->y),
            last);
}

static void shuffle(struct mm_block * b, int at, struct asm_reg to, struct asm_reg from) {
    asm_at(b->p, at);
    ASM(b->p, AIE2_VSHUFFLE, A_REG(to), A_REG(from), A_REG(from), A_REG(b->mode));
}

// ---- bf16: accumulators 4 x 4, 8 of them; number 2 i + j is y's block i with x's block j ----

// Halves of a row of four blocks, of y and of the tile, in the order in which they are taken: ldb
// reaches from -128 to 96, and the one at the pointer, which moves it on, comes last.
static const struct {
    int block, half;
} bf16_row[8] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {3, 0}, {3, 1}, {2, 1}, {2, 0}};

static int bf16_offset(int n) {
    return bf16_row[n].block * 64 + bf16_row[n].half * 32 - 128;
}

static void load_accumulator(struct mm_block * b, int at, struct asm_reg to, int j, int offset,
                             bool is_last) {
    int op = is_last ? AIE2_VLDA_2D_dmw_lda_am : AIE2_VLDA_dmw_lda_am_ag_idx_imm;
    place(b, at, op, MM_BANK_C);
    ASM_MEM(b->p, op, MEM_C_IN, A_REG(to), A_REG(b->from[j]),
            is_last ? WALK(WALK_FROM + j) : A_IMM(offset));
}

static void store_accumulator(struct mm_block * b, int at, struct asm_reg from, int j, int offset,
                              bool is_last) {
    if (is_last) {
        place(b, at, AIE2_VST_2D_dmw_sts_am, MM_BANK_C);
        ASM_MEM(b->p, AIE2_VST_2D_dmw_sts_am, MEM_C_OUT, A_REG(b->to[j]), A_REG(from),
                WALK(WALK_TO + j));
    } else {
        place(b, at, AIE2_VST_dmw_sts_am_ag_idx_imm, MM_BANK_C);
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
    for (int n = 0; n < 8; n++) {
        struct asm_reg to = asm_half(y[bf16_row[n].block], bf16_row[n].half);
        load_at(b, t - 10 + n, PORT_B, to, false, bf16_offset(n), n == 7 ? on : STAYS);
    }
    for (int j = 1; j >= 0; j--) {
        x[j] = asm_local(b->p, ASM_X);
        load_at(b, t - 8 - 2 * j, PORT_A, asm_half(x[j], 0), true, 64 * j - 32, STAYS);
        load_at(b, t - 7 - 2 * j, PORT_A, asm_half(x[j], 1), true, 64 * j, j == 0 ? on : STAYS);
    }
    for (int n = 0; n < 4; n++) {
        int i = bf16_row[2 * n].block;
        struct asm_reg turned = asm_local(b->p, ASM_X);
        shuffle(b, t + 2 * n - 2, turned, y[i]);
        for (int j = 0; j < 2; j++) {
            struct asm_reg a = acc[2 * i + j];
            asm_at(b->p, t + 2 * n + j);
            ASM(b->p, AIE2_VMAC_F_vmac_bm_core_dense, A_REG(a), A_REG(a), A_REG(x[j]),
                A_REG(turned), A_REG(k ? b->conf : b->first));
        }
    }
}

static void bf16_trip(struct mm_block * b, const struct mm_type * t) {
    struct asm_reg acc[8];
    for (int n = 0; n < 8; n++) {
        acc[n] = asm_local(b->p, ASM_BM);
    }
    // Two halves of one row of blocks, two of the other; x leaves lda in the bundles 2 to 5 of a
    // k-block.
    for (int n = 0; n < 16; n++) {
        int j = n / 2 % 2, half = n / 4 * 2 + n % 2;
        struct asm_reg a = acc[2 * bf16_row[half].block + j];
        load_accumulator(b, n / 4 * 8 + n % 4 - 30, asm_half(a, bf16_row[half].half), j,
                         bf16_offset(half), half == 7);
    }
    for (int k = 0; k < t->slice_blocks; k++) {
        bf16_k_block(b, acc, k, t->slice_blocks);
    }
    for (int n = 0; n < 16; n++) {
        int j = n / 2 % 2, half = n / 4 * 2 + n % 2;
        struct asm_reg a = acc[2 * bf16_row[half].block + j];
        store_accumulator(b, b->interval - 2 + n, asm_half(a, bf16_row[half].half), j,
                          bf16_offset(half), half == 7);
    }
}

// ---- i8: accumulators 4 x 8, 4 of them; a k-block takes four bundles ----

// One bundle is left free: vector registers are used again every twelve bundles, and twelve of them
// go around two trips of 65 bundles but not of 64.
struct pace {
    int pause; // the k-block before which that bundle stands
    int x[2];  // where a k-block's blocks of x are loaded
    int last;  // where the last part of an accumulator may be
};
static const struct pace i8_pace = {3, {-7, -6}, -7}, i16_pace = {8, {-8, -6}, -9};

static int k_block_start(const struct pace * pace, int k) {
    return 4 * k + (k >= pace->pause);
}

// The last bundles before a trip in which x leaves lda, in their order.
static void free_places(const struct mm_block * b, const struct mm_type * t,
                        const struct pace * pace, int places[], int n) {
    for (int at = pace->last; n > 0; at--) {
        bool is_free = true;
        for (int k = 0; k < t->slice_blocks; k++) {
            int from = at - k_block_start(pace, k) + 2 * b->interval;
            is_free &= (from - pace->x[0]) % b->interval && (from - pace->x[1]) % b->interval;
        }
        if (is_free) {
            places[--n] = at;
        }
    }
}

static void i8_k_block(struct mm_block * b, struct asm_reg acc[4], int k, int n_blocks) {
    int t = k_block_start(&i8_pace, k);
    enum advance on = k + 1 < n_blocks ? NEXT_BLOCK : NEXT_TRIP;
    struct asm_reg x[2], y[2];
    for (int i = 0; i < 2; i++) {
        y[i] = asm_local(b->p, ASM_X);
        x[i] = asm_local(b->p, ASM_X);
        load_at(b, t - 10 + 2 * i, PORT_B, asm_half(y[i], 0), false, 64 * i - 96, STAYS);
        load_at(b, t - 9 + 2 * i, PORT_B, asm_half(y[i], 1), false, 64 * i - 64, i ? on : STAYS);
        load_at(b, t + i8_pace.x[i], PORT_A, asm_half(x[i], 0), true, 32 * i - 32, i ? on : STAYS);
    }
    for (int i = 0; i < 2; i++) {
        shuffle(b, t + 2 * i - 2, y[i], y[i]);
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
    int places[16];
    free_places(b, t, &i8_pace, places, 16);
    for (int n = 0; n < 4; n++) {
        acc[n] = asm_local(b->p, ASM_CM);
        for (int q = 0; q < 4; q++) {
            load_accumulator(b, places[4 * n + q], asm_quarter(acc[n], q), n % 2,
                             n / 2 * 128 + q * 32 - 224, n >= 2 && q == 3);
        }
    }
    for (int k = 0; k < t->slice_blocks; k++) {
        i8_k_block(b, acc, k, t->slice_blocks);
    }
    for (int n = 0; n < 4; n++) {
        for (int q = 0; q < 4; q++) {
            store_accumulator(b, b->interval + 2 + 4 * n + q, asm_quarter(acc[n], q), n % 2,
                              n / 2 * 128 + q * 32 - 224, n >= 2 && q == 3);
        }
    }
}

// ---- i16: accumulators 4 x 4 of 64 bits, widened from i32 and narrowed to it. There are nine such
// registers, so that a trip makes but 8 x 8, in 4 of them. Its k-blocks have 4 k: what the
// multiplier takes lies together, and y's blocks are only turned over.

static void i16_k_block(struct mm_block * b, struct asm_reg acc[4], int k, int n_blocks) {
    int t = k_block_start(&i16_pace, k);
    enum advance on = k + 1 < n_blocks ? NEXT_BLOCK : NEXT_TRIP;
    struct asm_reg x[2], y[2];
    for (int i = 0; i < 2; i++) {
        y[i] = asm_local(b->p, ASM_X);
        x[i] = asm_local(b->p, ASM_X);
        load_at(b, t - 9 + 2 * i, PORT_B, asm_half(y[i], 0), false, 32 * i - 32, i ? on : STAYS);
        load_at(b, t + i16_pace.x[i], PORT_A, asm_half(x[i], 0), true, 32 * i - 32, i ? on : STAYS);
    }
    for (int i = 0; i < 2; i++) {
        shuffle(b, t + 2 * i - 2, y[i], y[i]);
        for (int j = 0; j < 2; j++) {
            struct asm_reg a = acc[2 * i + j];
            asm_at(b->p, t + 2 * i + j);
            ASM(b->p, AIE2_VMAC_vmac_cm_core_dense, A_REG(a), A_REG(a), A_REG(x[j]), A_REG(y[i]),
                A_REG(k ? b->conf : b->first));
        }
    }
}

static void i16_trip(struct mm_block * b, const struct mm_type * t) {
    struct asm_reg acc[4];
    struct asm_arg s = A_REG(b->shift);
    int places[8];
    free_places(b, t, &i16_pace, places, 8);
    for (int n = 0; n < 4; n++) {
        acc[n] = asm_local(b->p, ASM_CM);
        for (int half = 0; half < 2; half++) {
            bool is_last = n >= 2 && half == 1;
            int op = is_last ? AIE2_VLDA_2D_UPS_S64_S32 : AIE2_VLDA_UPS_S64_S32_ag_idx_imm;
            struct asm_arg to = A_REG(asm_half(acc[n], half)), from = A_REG(b->from[n % 2]);
            place(b, places[2 * n + half], op, MM_BANK_C);
            if (is_last) {
                ASM_MEM(b->p, op, MEM_C_IN, to, from, s, WALK(WALK_FROM + n % 2));
            } else {
                ASM_MEM(b->p, op, MEM_C_IN, to, s, from, A_IMM(n / 2 * 64 + half * 32 - 96));
            }
        }
    }
    for (int k = 0; k < t->slice_blocks; k++) {
        i16_k_block(b, acc, k, t->slice_blocks);
    }
    for (int n = 0; n < 4; n++) {
        for (int half = 0; half < 2; half++) {
            bool is_last = n >= 2 && half == 1;
            int op = is_last ? AIE2_VST_2D_SRS_S32_S64 : AIE2_VST_SRS_S32_S64_ag_idx_imm;
            struct asm_arg from = A_REG(asm_half(acc[n], half)), to = A_REG(b->to[n % 2]);
            place(b, b->interval + 2 + 2 * n + half, op, MM_BANK_C);
            if (is_last) {
                ASM_MEM(b->p, op, MEM_C_OUT, to, WALK(WALK_TO + n % 2), from, s);
            } else {
                ASM_MEM(b->p, op, MEM_C_OUT, to, A_IMM(n / 2 * 64 + half * 32 - 96), from, s);
            }
        }
    }
}

static void mm_block_slice(struct mm_block * b, const struct mm_type * t, const struct mm_at * at) {
    struct asm_reg second = asm_local(b->p, ASM_R);
    emit_alu(b->p, AIE_BASIC_ADD, second, at->c, at->row);
    emit_copy(b->p, b->from[0], at->c);
    emit_copy(b->p, b->to[0], at->c);
    emit_copy(b->p, b->from[1], second);
    emit_copy(b->p, b->to[1], second);
    emit_copy(b->p, b->x, at->x);
    emit_copy(b->p, b->y, at->y);
    if (b->small) {
        asm_loop_begin(b->p, at->trips);
        asm_loop_alone(b->p);
    } else {
        asm_loop_begin_paced(b->p, at->trips, b->interval);
    }
    (t->in == DTYPE_I8 ? i8_trip : t->in == DTYPE_I16 ? i16_trip : bf16_trip)(b, t);
    asm_loop_end(b->p);
}

const struct mm_type mm_aie2_types[MM_TYPES] = {
    {DTYPE_BF16, DTYPE_F32, 2, 16, 8, 4, 4, 8, 16, 8, 16, 64, .blocks_in_place = true,
     .gemm_takes_blocks = true},
    {DTYPE_I16, DTYPE_I32, 2, 8, 16, 4, 4, 8, 16, 8, 8, .trip_bundles = 65},
    {DTYPE_I8, DTYPE_I32, 1, 8, 16, 4, 8, 8, 16, 8, 16, .trip_bundles = 65},
};

// The bf16 row again, where rows of x come in fours (aie2-quant-inreg.c).
const struct mm_type mm_aie2_fused = {
    DTYPE_BF16, DTYPE_F32, 2, 16, 8, 4, 4, 4, 16, 4, 16, 64, .blocks_in_place = true};

const struct mm_machine mm_aie2 = {
    .begin = mm_block_begin,
    .offsets = mm_block_offsets,
    .config = mm_block_config,
    .slice = mm_block_slice,
};
