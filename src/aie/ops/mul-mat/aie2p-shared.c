// aie2p-shared: products of bf16 by way of block floats (bfp16ebs8). Eight numbers of a row share
// an exponent, each has seven bits and a sign of its own; 8 n by 8 m of 8 k are one multiplication,
// 512 products a cycle where bf16 has 64.
//
// Slices come as bf16, all k of a group of rows one behind the other, 16 of x and 8 of y:
// [k-block][row][8 k]. First each is made blocks, in its place: 64 numbers, 8 k of 8 rows, become
// 72 bytes, mantissas before exponents. These only the fifos load and store in one go, blocks that
// follow each other; eight of them are nine lines of 64 bytes, so that a fifo is empty again behind
// every eight. A trip then multiplies 16 n by 8 m over all k of the slice, in two accumulators; x
// begins anew in each until y has been gone through. There are five accumulators: with two a trip
// the next one's come from the tile, and the last one's go there, while it multiplies, which with
// four they could not. A sum wants three bundles, so two of them leave the multiplier idle in each
// third.
//
// The fifos' pointers are p0, p1 and p2, their levels r24, r25 and r26.
#include "mul-mat.h"

#include "aie/isa/aie2p.h"
#include "aie/verbs/verbs.h"

enum { MEM_C_IN = 1, MEM_X, MEM_Y, MEM_C_OUT, MEM_X_OUT, MEM_Y_OUT };
enum { CONFIG = 0x30c, NEAREST_EVEN = 12 };
enum { VECTOR = 64, BLOCK = 72, EIGHT = 8, LEVELS = 24, LEVEL_OUT = 26 };
enum { ACCS = 2 }; // of a trip: 8 n by 8 m each

#define WALK(n) A_FIXED(AIE_REG(AIE_D, (n)))
enum { WALK_X = 4, WALK_Y = 5 }; // of the address generators, from trip to trip

static uint32_t config(const struct mm_type * t) {
    (void) t;
    return CONFIG;
}

static struct mm_offsets offsets(const struct mm_type * t) {
    (void) t;
    return (struct mm_offsets){0};
}

static void reserve(struct mm_block * b, struct asm_program * p) {
    *b = (struct mm_block){.p = p};
    b->x = asm_global_at(p, ASM_P, 0);
    b->y = asm_global_at(p, ASM_P, 1);
    b->to[1] = asm_global_at(p, ASM_P, 2);
    b->levels[0] = asm_global_at(p, ASM_MASK, LEVELS);
    b->levels[1] = asm_global_at(p, ASM_MASK, LEVELS + 1);
    b->levels[2] = asm_global_at(p, ASM_R, LEVEL_OUT);
}

static void begin(struct mm_block * b, struct asm_program * p, const struct mm_type * t) {
    struct asm_reg * const scalars[] = {&b->conf, &b->first, &b->counts[0], &b->counts[1]};
    for (int i = 0; i < 4; i++) {
        *scalars[i] = asm_global(p, ASM_MASK);
    }
    b->from[0] = asm_global(p, ASM_P);
    b->from[1] = asm_global(p, ASM_P);
    b->to[0] = asm_global(p, ASM_P);
    b->interval = t->trip_bundles;
    emit_set(p, b->conf, CONFIG);
    for (int i = 0; i < 3; i++) {
        emit_set(p, b->levels[i], 0);
    }
    struct asm_reg round = asm_local(p, ASM_R);
    emit_set_small(p, round, NEAREST_EVEN);
    emit_control(p, AIE_CONTROL_ROUND, round);
    asm_place(p, MEM_X, MM_X);
    asm_place(p, MEM_X_OUT, MM_X);
    asm_place(p, MEM_Y, MM_Y);
    asm_place(p, MEM_Y_OUT, MM_Y);
    asm_place(p, MEM_C_IN, MM_C);
    asm_place(p, MEM_C_OUT, MM_C);
}

// A slice, eight blocks a trip: what is stored ends before what is loaded next.
static void make_blocks(struct mm_block * b, struct asm_reg at, struct asm_reg count, int in,
                        int out) {
    struct asm_program * p = b->p;
    emit_copy(p, b->from[1], at);
    emit_copy(p, b->to[1], at);
    asm_loop_begin(p, count);
    for (int i = 0; i < EIGHT; i++) {
        struct asm_reg acc = asm_local(p, ASM_BM);
        for (int half = 0; half < 2; half++) {
            ASM_MEM(p, AIE2P_VLDA_CONV_fp32_bf16_dmx_lda_ups_bf_pstm_nrm_imm, in,
                    A_REG(asm_half(acc, half)), A_REG(b->from[1]), A_IMM(VECTOR));
        }
        ASM_MEM(p, AIE2P_VST_PUSH_576_CONV_bfp16ebs8_fp32, out, A_REG(acc));
    }
    asm_emit(p, AIE2P_VST_FLUSH_512_CONV_normal_flush, out, NULL, 0);
    asm_loop_end(p);
}

// Blocks that follow each other. Every eight begin with a line in the fifo.
static void load(struct mm_block * b, const int ops[2], int memory, struct asm_reg pointer,
                 int first, int n, struct asm_reg * to) {
    for (int i = 0; i < n; i++) {
        to[i] = asm_local(b->p, ASM_EX);
        if ((first + i) % EIGHT == 0) {
            ASM_MEM(b->p, ops[0], memory, A_REG(pointer));
        }
        ASM_MEM(b->p, ops[1], memory, A_REG(to[i]), A_REG(pointer));
    }
}

static void trip(struct mm_block * b, const struct mm_type * t) {
    static const int x_ops[2] = {AIE2P_VLDB_FILL_512, AIE2P_VLDB_POP_576_normal_pop};
    static const int y_ops[2] = {AIE2P_VLDA_FILL_512, AIE2P_VLDA_POP_576_normal_pop};
    struct asm_program * p = b->p;
    struct asm_reg acc[ACCS];
    for (int i = 0; i < ACCS; i++) {
        acc[i] = asm_local(p, ASM_BM);
        for (int quarter = 0; quarter < 4; quarter++) {
            ASM_MEM(p, AIE2P_VLDA_dmx_lda_bm_pstm_nrm_imm, MEM_C_IN,
                    A_REG(asm_quarter(acc[i], quarter)), A_REG(b->from[0]), A_IMM(VECTOR));
        }
    }
    for (int k = 0; k < t->slice_blocks; k++) {
        struct asm_reg x[ACCS], y;
        load(b, x_ops, MEM_X, b->x, ACCS * k, ACCS, x);
        load(b, y_ops, MEM_Y, b->y, k, 1, &y);
        for (int i = 0; i < ACCS; i++) {
            ASM(p, AIE2P_VMAC_f_vmac_bfp_vmul_bfp_core_EX_EX, A_REG(acc[i]), A_REG(acc[i]),
                A_REG(x[i]), A_REG(y), A_REG(k ? b->conf : b->first));
        }
    }
    // x again from its group's first block, or on to the next group; y from the first group's
    ASM(p, AIE2P_PADDB_2D, A_REG(b->x), WALK(WALK_X));
    ASM(p, AIE2P_PADDA_2D, A_REG(b->y), WALK(WALK_Y));
    for (int i = 0; i < ACCS; i++) {
        for (int quarter = 0; quarter < 4; quarter++) {
            ASM_MEM(p, AIE2P_VST_dmx_sts_bm_pstm_nrm_imm, MEM_C_OUT, A_REG(b->to[0]),
                    A_REG(asm_quarter(acc[i], quarter)), A_IMM(VECTOR));
        }
    }
}

static void slice(struct mm_block * b, const struct mm_type * t, const struct mm_at * at) {
    struct asm_program * p = b->p;
    make_blocks(b, at->x, b->counts[0], MEM_X, MEM_X_OUT);
    if (!t->stored) {
        make_blocks(b, at->y, b->counts[1], MEM_Y, MEM_Y_OUT);
    }
    emit_copy(p, b->from[0], at->c);
    emit_copy(p, b->to[0], at->c);
    emit_copy(p, b->x, at->x);
    emit_copy(p, b->y, at->y);
    asm_loop_begin(p, at->trips);
    trip(b, t);
    asm_loop_end(p);
}

const struct mm_machine mm_aie2p_shared = {
    .reserve = reserve,
    .begin = begin,
    .offsets = offsets,
    .config = config,
    .slice = slice,
};
