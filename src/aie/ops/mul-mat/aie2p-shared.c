// aie2p-shared: products of bf16 by way of block floats (bfp16ebs8). Eight numbers of a row share
// an exponent, each has seven bits and a sign of its own; 8 n by 8 m of 8 k are one multiplication,
// 512 products a cycle where bf16 has 64.
//
// Slices come as bf16, all k of 16 rows one behind the other: [k-block][row][8 k]. First each is
// made blocks, in its place: 64 numbers, 8 k of 8 rows, become 72 bytes, mantissas before
// exponents. These only the fifos load and store in one go, blocks that follow each other; eight of
// them are nine lines of 64 bytes, so that a fifo is empty again behind every eight. A trip then
// multiplies 16 n by 16 m over all k of the slice, in four accumulators; x begins anew in each, y
// goes on.
//
// The fifos' pointers are p0, p1 and p2, their levels r24, r25 and r26.
#include "mul-mat.h"

#include "aie/isa/aie2p.h"
#include "aie/verbs/verbs.h"

enum { MEM_C_IN = 1, MEM_X, MEM_Y, MEM_C_OUT, MEM_X_OUT, MEM_Y_OUT };
enum { CONFIG = 0x30c, NEAREST_EVEN = 12 };
enum { VECTOR = 64, BLOCK = 72, EIGHT = 8, LEVELS = 24, LEVEL_OUT = 26 };

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
    struct asm_reg * const scalars[] = {&b->conf,      &b->first, &b->counts[0],
                                        &b->counts[1], &b->left,  &b->pairs};
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        *scalars[i] = asm_global(p, ASM_MASK);
    }
    b->row = asm_global(p, ASM_R);
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

// Two blocks of one k: 16 rows. Every eight begin with a line in the fifo.
static void load(struct mm_block * b, const int ops[2], int memory, struct asm_reg pointer, int k,
                 struct asm_reg to[2]) {
    for (int i = 0; i < 2; i++) {
        to[i] = asm_local(b->p, ASM_EX);
        if ((2 * k + i) % EIGHT == 0) {
            ASM_MEM(b->p, ops[0], memory, A_REG(pointer));
        }
        ASM_MEM(b->p, ops[1], memory, A_REG(to[i]), A_REG(pointer));
    }
}

static void trip(struct mm_block * b, const struct mm_type * t) {
    static const int x_ops[2] = {AIE2P_VLDB_FILL_512, AIE2P_VLDB_POP_576_normal_pop};
    static const int y_ops[2] = {AIE2P_VLDA_FILL_512, AIE2P_VLDA_POP_576_normal_pop};
    struct asm_program * p = b->p;
    struct asm_reg acc[4];
    emit_copy(p, b->x, b->row);
    for (int i = 0; i < 4; i++) {
        acc[i] = asm_local(p, ASM_BM);
        for (int quarter = 0; quarter < 4; quarter++) {
            ASM_MEM(p, AIE2P_VLDA_dmx_lda_bm_pstm_nrm_imm, MEM_C_IN,
                    A_REG(asm_quarter(acc[i], quarter)), A_REG(b->from[0]), A_IMM(VECTOR));
        }
    }
    for (int k = 0; k < t->slice_blocks; k++) {
        struct asm_reg x[2], y[2];
        load(b, x_ops, MEM_X, b->x, k, x);
        load(b, y_ops, MEM_Y, b->y, k, y);
        for (int i = 0; i < 4; i++) { // y's block i / 2 with x's block i % 2
            ASM(p, AIE2P_VMAC_f_vmac_bfp_vmul_bfp_core_EX_EX, A_REG(acc[i]), A_REG(acc[i]),
                A_REG(x[i % 2]), A_REG(y[i / 2]), A_REG(k ? b->conf : b->first));
        }
    }
    for (int i = 0; i < 4; i++) {
        for (int quarter = 0; quarter < 4; quarter++) {
            ASM_MEM(p, AIE2P_VST_dmx_sts_bm_pstm_nrm_imm, MEM_C_OUT, A_REG(b->to[0]),
                    A_REG(asm_quarter(acc[i], quarter)), A_IMM(VECTOR));
        }
    }
}

static void slice(struct mm_block * b, const struct mm_type * t, const struct mm_at * at) {
    struct asm_program * p = b->p;
    int row = asm_label_new(p);
    make_blocks(b, at->x, b->counts[0], MEM_X, MEM_X_OUT);
    make_blocks(b, at->y, b->counts[1], MEM_Y, MEM_Y_OUT);
    struct asm_reg half = asm_local(p, ASM_R);
    emit_set_small(p, half, -1);
    emit_alu(p, AIE_BASIC_SHIFT, b->left, b->counts[0], half); // 16 rows are two trips of above
    emit_alu(p, AIE_BASIC_SHIFT, b->pairs, b->counts[1], half);
    emit_copy(p, b->row, at->x);
    emit_copy(p, b->from[0], at->c);
    emit_copy(p, b->to[0], at->c);
    asm_label(p, row);
    emit_copy(p, b->y, at->y);
    asm_loop_begin(p, b->pairs);
    trip(b, t);
    asm_loop_end(p);
    struct asm_reg further = asm_local(p, ASM_R);
    emit_set(p, further, 2 * t->slice_blocks * BLOCK);
    emit_alu(p, AIE_BASIC_ADD, b->row, b->row, further);
    emit_add_small(p, b->left, b->left, -1);
    asm_jump_if_nonzero(p, b->left, row);
}

const struct mm_machine mm_aie2p_shared = {
    .reserve = reserve,
    .begin = begin,
    .offsets = offsets,
    .config = config,
    .slice = slice,
};
