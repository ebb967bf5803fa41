// aie2p-block: the inner loops of products on aie2p, placed by hand.
//
// Loads take seven bundles, and there are twelve vector registers and five accumulators. So in
// these loops a register still serves its old value while the next one is on its way to it
// (asm_loop_late); what stands before and behind them is marked for the checker.
//
// i8 and i16: a multiplication makes 8 n by 8 m of 8 (i16: 2) k, a trip 16 by 16 in four
// accumulators, two of them at a time: all k of a slice for 8 m and 16 n, while the other two go to
// the tile and the next ones come from it, in bundles that leave the tile's bank and lda free. So
// x comes twice and has ldb and its bank in every bundle; y has lda in every other one, and is
// turned. From the first multiplication of a k-block, which has two bundles for itself:
//
//     bundle    -9  -8  -7  -6  -5  -4  -3  -2  -1   0   1
//     load       y      x0  x1
//     turn                                   y
//     multiply                                       0   1
//
// bf16: there is no matrix mode, a multiplication is 64 products lane by lane, of two n by 32 m for
// one k. A number of x is spread over 32 lanes; 32 numbers of y for one k stand in both halves of a
// pair. They come as pairs of k for each row and are first set apart, in their place. A trip is 4 n
// by 64 m in four accumulators, a loop over pairs of k:
//
//     bundle  -10  -9  -8  -7  -6  -5  -4  -3  -2  -1   0   1   2   3   4   5   6   7
//     load      x  ya  ya  yb  yb  ya' ya' yb' yb'
//     spread                                0   1   2   3   0'  1'  2'  3'
//     multiply                                         0a  0b  2b  2a  0a' 0b' 2b' 2a'
#include "mul-mat.h"

#include "aie/isa/aie2p.h"
#include "aie/verbs/verbs.h"

enum { MEM_C_IN = 1, MEM_X, MEM_Y, MEM_C_OUT, MEM_Y_OUT };

#define WALK(n) A_FIXED(AIE_REG(AIE_D, (n)))
#define STEP(n) A_FIXED(AIE_REG(AIE_M, (n)))
// Registers of the address generators: walks of the pointers into x and y; steps from trip to trip
// of the tile and of bf16's x, from k-block to k-block of x and y.
enum { WALK_X1 = 1, WALK_Y1 = 2, WALK_X = 4, WALK_Y = 5 };
enum { STEP_C = 0, STEP_N = 1, STEP_X = 6, STEP_Y = 7 };

// Shuffles by their number.
enum {
    SHUFFLE_T16_32X2_LOW = 2, // of two vectors, the first half of the result; 3: the second
    SHUFFLE_T8_8X8 = 35,
    SHUFFLE_T16_8X2 = 42,
};

enum { CONFIG_BF16 = 0x3c, CONFIG_I8 = 0x308, CONFIG_I16 = 0x318, VECTOR = 64 };

static uint32_t config(const struct mm_type * t) {
    return t->in == DTYPE_BF16 ? CONFIG_BF16 : t->in == DTYPE_I8 ? CONFIG_I8 : CONFIG_I16;
}

static void begin(struct mm_block * b, struct asm_program * p, const struct mm_type * t) {
    struct asm_reg * const pointers[] = {&b->x,       &b->y,     &b->from[0],
                                         &b->from[1], &b->to[0], &b->to[1]};
    *b = (struct mm_block){.p = p, .interval = t->trip_bundles};
    for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++) {
        *pointers[i] = asm_global(p, ASM_P);
    }
    // There are no masks here, and scalars are few: counting trips wants some.
    b->conf = asm_global(p, ASM_MASK);
    b->first = asm_global(p, ASM_MASK);
    emit_set(p, b->conf, (int32_t) config(t));
    if (t->in == DTYPE_BF16) {
        asm_place(p, MEM_Y, MM_Y);
        asm_place(p, MEM_Y_OUT, MM_Y);
        return;
    }
    b->mode = asm_global(p, ASM_MASK);
    b->again = asm_global(p, ASM_P);
    emit_set(p, b->mode, t->in == DTYPE_I8 ? SHUFFLE_T8_8X8 : SHUFFLE_T16_8X2);
}

static struct mm_offsets offsets(const struct mm_type * t) {
    bool is_int = t->in != DTYPE_BF16; // pointers in the middle of what a trip takes
    return (struct mm_offsets){.x = is_int ? 8 * t->block_bytes : 0, .c = is_int ? 8 * VECTOR : 0};
}

// ---- i8 and i16 ----

// When things issue, seen from the first multiplication of a k-block.
enum { AT_Y = -9, AT_X = -7, TURN = -2 };
enum { ACC_WAIT = 4 /* of a load into an accumulator */, ACC_DONE = 6 /* of a sum */ };
// Accumulators are 8 n by 8 m each: 2 i + j is y's block i with x's block j. In this order their
// parts go to and from the tile, from the last quarter to the first.
static const int acc_order[4] = {1, 0, 3, 2};

static int cycle_of(const struct mm_block * b, int at) {
    return (at % b->interval + b->interval) % b->interval;
}

// Notes that an access issues in a bundle of its trip; all meet the memory equally late.
static void place(struct mm_block * b, int at, enum mm_bank bank) {
    b->conflicts += b->uses[bank][cycle_of(b, at)]++ > 0;
    b->accesses[bank]++;
    asm_at(b->p, at);
}

// Of y's block i, which has two pointers; they go on to the next k-block, or to the next trip.
static void load_y(struct mm_block * b, int at, int i, bool small, bool is_last,
                   struct asm_reg to) {
    static const int ops[2][2] = {{AIE2P_VLDA_dmx_lda_x_pstm_nrm, AIE2P_VLDA_2D_dmx_lda_x},
                                  {AIE2P_VLDA_dmw_lda_w_pstm_nrm, AIE2P_VLDA_2D_dmw_lda_w}};
    place(b, at, MM_BANK_Y);
    ASM_MEM(b->p, ops[small][is_last], MEM_Y, A_REG(small ? asm_half(to, 0) : to),
            A_REG(i ? b->from[1] : b->y), is_last ? WALK(i ? WALK_Y1 : WALK_Y) : STEP(STEP_Y));
}

// Both blocks of x, for y's block i; the second one moves the pointer.
static void load_x(struct mm_block * b, int at, int i, const struct mm_type * t, bool is_last,
                   struct asm_reg to[2]) {
    static const int ops[2][3] = {
        {AIE2P_VLDB_dmx_ldb_x_idx_imm, AIE2P_VLDB_dmx_ldb_x_pstm_nrm, AIE2P_VLDB_2D_dmx_ldb_x},
        {AIE2P_VLDB_dmw_ldb_idx_imm, AIE2P_VLDB_dmw_ldb_pstm_nrm, AIE2P_VLDB_2D_dmw_ldb}};
    struct asm_reg pointer = i ? b->again : b->x;
    bool small = t->block_bytes == 4;
    for (int j = 0; j < 2; j++) {
        place(b, at + j, MM_BANK_X);
        ASM_MEM(b->p, ops[small][j ? 1 + is_last : 0], MEM_X,
                A_REG(small ? asm_half(to[j], 0) : to[j]), A_REG(pointer),
                j == 0    ? A_IMM(-8 * t->block_bytes)
                : is_last ? WALK(i ? WALK_X1 : WALK_X)
                          : STEP(STEP_X));
    }
}

static void turn(struct mm_block * b, int at, struct asm_reg v) {
    asm_at(b->p, at);
    ASM(b->p, AIE2P_VSHUFFLE_vec_shuffle_x, A_REG(v), A_REG(v), A_REG(v), A_REG(b->mode));
}

// y's block i with both of x.
static void int_k_block(struct mm_block * b, const struct mm_type * t, struct asm_reg acc[4], int i,
                        int k) {
    bool is_last = k + 1 == t->slice_blocks;
    int at = 2 * (i * t->slice_blocks + k);
    struct asm_reg x[2] = {asm_local(b->p, ASM_X), asm_local(b->p, ASM_X)};
    struct asm_reg y = asm_local(b->p, ASM_X);
    load_y(b, at + AT_Y, i, t->block_bytes == 4, is_last, y);
    load_x(b, at + AT_X, i, t, is_last, x);
    turn(b, at + TURN, y);
    for (int j = 0; j < 2; j++) {
        asm_at(b->p, at + j);
        ASM(b->p, AIE2P_VMAC_vmul_cm_core_X_X, A_REG(acc[2 * i + j]), A_REG(acc[2 * i + j]),
            A_REG(x[j]), A_REG(y), A_REG(k ? b->conf : b->first));
    }
}

// Where a quarter of an accumulator lies in the trip's part of the tile: 8 m of 16 n, then the next
// 8 m; seen from the one that goes last, which moves the pointer to the next trip's part.
static int acc_offset(int acc, int quarter) {
    return (4 * acc + quarter - 8) * VECTOR;
}

// Quarter n, in the order of acc_order, is stored as soon as it is there, and loaded as late as can
// be in bundles that leave the bank and lda free.
static void plan_tile(const struct mm_block * b, const struct mm_type * t, int stores[16],
                      int loads[16]) {
    bool bank[MM_MOST_BUNDLES] = {false}, lda[MM_MOST_BUNDLES] = {false};
    int half = 2 * t->slice_blocks; // of a trip
    for (int k = 0; k < half; k++) {
        lda[cycle_of(b, 2 * k + AT_Y)] = true;
    }
    for (int n = 0; n < 16; n++) { // the second accumulator of a pair ends one later
        stores[n] = (n / 8 + 1) * half - 1 + ACC_DONE + n % 8;
        bank[cycle_of(b, stores[n])] = true;
    }
    for (int n = 15; n >= 0; n--) {
        int at = n / 8 * half - ACC_WAIT;
        while (bank[cycle_of(b, at)] || lda[cycle_of(b, at)]) {
            at--;
        }
        loads[n] = at;
        bank[cycle_of(b, at)] = lda[cycle_of(b, at)] = true;
    }
}

static void set_behind(struct mm_block * b, struct asm_reg pointer, struct asm_reg at, int bytes) {
    struct asm_reg further = asm_local(b->p, ASM_R);
    emit_add_small(b->p, further, at, bytes / 2); // the reach is 63
    emit_add_small(b->p, further, further, bytes / 2);
    emit_copy(b->p, pointer, further);
}

static void int_slice(struct mm_block * b, const struct mm_type * t, const struct mm_at * at) {
    struct asm_program * p = b->p;
    struct asm_reg acc[4];
    int stores[16], loads[16];
    plan_tile(b, t, stores, loads);
    emit_copy(p, b->from[0], at->c);
    emit_copy(p, b->to[0], at->c);
    emit_copy(p, b->x, at->x);
    emit_copy(p, b->again, at->x);
    emit_copy(p, b->y, at->y);
    set_behind(b, b->from[1], at->y, 8 * t->block_bytes);
    asm_mark(p);
    asm_loop_begin_paced(p, at->trips, b->interval);
    asm_loop_late(p);
    for (int n = 0; n < 4; n++) {
        acc[n] = asm_local(p, ASM_BM);
    }
    for (int n = 0; n < 16; n++) {
        int part = acc_order[n / 4], quarter = 3 - n % 4;
        struct asm_arg to = A_REG(asm_quarter(acc[part], quarter)), from = A_REG(b->from[0]);
        place(b, loads[n], MM_BANK_C);
        if (n < 15) {
            ASM_MEM(p, AIE2P_VLDA_dmx_lda_bm_idx_imm, MEM_C_IN, to, from,
                    A_IMM(acc_offset(part, quarter)));
        } else {
            ASM_MEM(p, AIE2P_VLDA_dmx_lda_bm_pstm_nrm, MEM_C_IN, to, from, STEP(STEP_C));
        }
    }
    for (int k = 0; k < 2 * t->slice_blocks; k++) {
        int_k_block(b, t, acc, k / t->slice_blocks, k % t->slice_blocks);
    }
    for (int n = 0; n < 16; n++) {
        int part = acc_order[n / 4], quarter = 3 - n % 4;
        struct asm_arg from = A_REG(asm_quarter(acc[part], quarter)), to = A_REG(b->to[0]);
        place(b, stores[n], MM_BANK_C);
        if (n < 15) {
            ASM_MEM(p, AIE2P_VST_dmx_sts_bm_idx_imm, MEM_C_OUT, from, to,
                    A_IMM(acc_offset(part, quarter)));
        } else {
            ASM_MEM(p, AIE2P_VST_dmx_sts_bm_pstm_nrm, MEM_C_OUT, to, from, STEP(STEP_C));
        }
    }
    asm_loop_end(p);
    asm_mark_end(p);
}

// ---- bf16 ----

// Pairs of k become 64 m of the one and 64 of the other, each in their place.
static void set_apart(struct mm_block * b) {
    struct asm_program * p = b->p;
    asm_loop_begin(p, b->pairs);
    struct asm_reg in[2], out[2];
    for (int i = 0; i < 4; i++) {
        in[i / 2] = i % 2 ? in[i / 2] : asm_local(p, ASM_Y);
        ASM_MEM(p, AIE2P_VLDB_dmx_ldb_x_pstm_nrm_imm, MEM_Y, A_REG(asm_half(in[i / 2], i % 2)),
                A_REG(b->y), A_IMM(VECTOR));
    }
    for (int i = 0; i < 4; i++) { // a k, then 32 m
        int k = i / 2, m = i % 2;
        out[k] = m ? out[k] : asm_local(p, ASM_Y);
        ASM(p, AIE2P_VSHUFFLE_vec_shuffle_x, A_REG(asm_half(out[k], m)), A_LO(in[m]), A_HI(in[m]),
            A_REG(k ? b->mode_high : b->mode));
    }
    for (int i = 0; i < 4; i++) {
        ASM_MEM(p, AIE2P_VST_dmx_sts_x_pstm_nrm_imm, MEM_Y_OUT, A_REG(b->to[1]),
                A_REG(asm_half(out[i / 2], i % 2)), A_IMM(VECTOR));
    }
    asm_loop_end(p);
}

static void spread(struct mm_block * b, int at, struct asm_reg half, struct asm_reg x, int index) {
    asm_at(b->p, at);
    ASM(b->p, AIE2P_VEXTBCST_16_vec_extract_broadcast_imm, A_REG(half), A_LO(x), A_IMM(index));
}

// One k of the pair.
static void bf16_k(struct mm_block * b, struct asm_reg x, int k) {
    struct asm_program * p = b->p;
    int at = 4 * k;
    struct asm_reg ys[2], xs[2];
    for (int i = 0; i < 2; i++) {
        ys[i] = asm_local(p, ASM_Y);
        asm_at(p, at - 9 + 2 * i);
        ASM_MEM(p, AIE2P_VLDB_dmx_ldb_x_idx_imm, MEM_Y, A_LO(ys[i]), A_REG(b->y), A_IMM(0));
        asm_at(p, at - 8 + 2 * i);
        ASM_MEM(p, AIE2P_VLDB_dmx_ldb_x_pstm_nrm_imm, MEM_Y, A_HI(ys[i]), A_REG(b->y),
                A_IMM(VECTOR));
    }
    for (int j = 0; j < 2; j++) {
        xs[j] = asm_local(p, ASM_Y);
        for (int n = 0; n < 2; n++) {
            spread(b, at - 3 + 2 * j + n, asm_half(xs[j], n), x, 2 * (2 * j + n) + k);
        }
    }
    for (int n = 0; n < 4; n++) {
        int j = n / 2, i = n == 1 || n == 2;
        asm_at(p, at + n);
        ASM(p, AIE2P_VMAC_f_vmac_bf_vmul_bf_core_Y_Y, A_REG(b->acc[2 * j + i]),
            A_REG(b->acc[2 * j + i]), A_REG(xs[j]), A_REG(ys[i]), A_REG(k ? b->conf : b->now));
    }
}

static void bf16_trip(struct mm_block * b) {
    struct asm_program * p = b->p;
    // A row of the tile is two halves of an accumulator, or of the next one.
    for (int n = 0; n < 16; n++) {
        struct asm_reg part = asm_quarter(b->acc[n / 8 * 2 + n / 2 % 2], n / 4 % 2 * 2 + n % 2);
        ASM_MEM(p, AIE2P_VLDA_dmx_lda_bm_pstm_nrm_imm, MEM_C_IN, A_REG(part), A_REG(b->from[0]),
                A_IMM(VECTOR));
    }
    emit_copy(p, b->now, b->first);
    emit_copy(p, b->y, b->from[1]);
    emit_copy(p, b->to[1], b->x);
    ASM(p, AIE2P_PADDA_pstm_nrm, A_REG(b->x), STEP(STEP_N));
    asm_mark(p);
    asm_loop_begin_paced(p, b->pairs, b->interval);
    asm_loop_late(p);
    struct asm_reg x = asm_local(p, ASM_Y);
    asm_at(p, -10);
    ASM_MEM(p, AIE2P_VLDA_128_dmv_lda_w_pstm_nrm, MEM_X, A_REG(asm_quarter(x, 0)), A_REG(b->to[1]),
            STEP(STEP_X));
    bf16_k(b, x, 0);
    asm_at(p, 3);
    ASM(p, AIE2P_ADD_add_r_ri, A_REG(b->now), A_REG(b->conf), A_IMM(0));
    bf16_k(b, x, 1);
    asm_loop_end(p);
    asm_mark_end(p);
    for (int n = 0; n < 16; n++) {
        struct asm_reg part = asm_quarter(b->acc[n / 8 * 2 + n / 2 % 2], n / 4 % 2 * 2 + n % 2);
        ASM_MEM(p, AIE2P_VST_dmx_sts_bm_pstm_nrm_imm, MEM_C_OUT, A_REG(b->to[0]), A_REG(part),
                A_IMM(VECTOR));
    }
}

// One row of b: a multiplication is 64 m of it for one k, and the other three rows of the tile are
// nobody's. A sum takes three bundles, so even and odd k have one each, the second from zero on.
//
//     bundle   -10  -9  -8  -7  -6  -5  -4  -3  -2  -1   0   1   2   3
//     load      x   y   y   y'  y'
//     spread                                0   0   0'  0'
//     multiply                                          0       0'
static void bf16_one_row(struct mm_block * b) {
    struct asm_program * p = b->p;
    enum { QUARTERS = 4, BUNDLES = 4 };
    for (int n = 0; n < QUARTERS; n++) {
        ASM_MEM(p, AIE2P_VLDA_dmx_lda_bm_pstm_nrm_imm, MEM_C_IN, A_REG(asm_quarter(b->acc[0], n)),
                A_REG(b->from[0]), A_IMM(VECTOR));
    }
    emit_copy(p, b->now, b->first);
    emit_set(p, b->mode_high, CONFIG_BF16 | 1); // which is free by now
    emit_copy(p, b->y, b->from[1]);
    asm_mark(p);
    asm_loop_begin_paced(p, b->pairs, BUNDLES);
    asm_loop_late(p);
    struct asm_reg x = asm_local(p, ASM_Y);
    asm_at(p, -10);
    ASM_MEM(p, AIE2P_VLDA_128_dmv_lda_w_pstm_nrm, MEM_X, A_REG(asm_quarter(x, 0)), A_REG(b->x),
            STEP(STEP_X));
    for (int k = 0; k < 2; k++) {
        struct asm_reg ys = asm_local(p, ASM_Y), xs = asm_local(p, ASM_Y);
        int at = 2 * k;
        for (int i = 0; i < 2; i++) {
            asm_at(p, at - 9 + i);
            ASM_MEM(p, AIE2P_VLDB_dmx_ldb_x_pstm_nrm_imm, MEM_Y, A_REG(asm_half(ys, i)),
                    A_REG(b->y), A_IMM(VECTOR));
        }
        for (int i = 0; i < 2; i++) {
            spread(b, at - 3 + i, asm_half(xs, i), x, k);
        }
        struct asm_reg now = k ? b->mode_high : b->now;
        asm_at(p, at);
        ASM(p, AIE2P_VMAC_f_vmac_bf_vmul_bf_core_Y_Y, A_REG(b->acc[k]), A_REG(b->acc[k]), A_REG(xs),
            A_REG(ys), A_REG(now));
        asm_at(p, at + 1);
        ASM(p, AIE2P_ADD_add_r_ri, A_REG(now), A_REG(b->conf), A_IMM(0));
    }
    asm_loop_end(p);
    asm_mark_end(p);
    struct asm_reg add = asm_local(p, ASM_R);
    emit_set(p, add, (int32_t) asm_target(p)->add_config);
    emit_f_add(p, b->acc[0], b->acc[0], b->acc[1], add);
    for (int n = 0; n < QUARTERS; n++) {
        ASM_MEM(p, AIE2P_VST_dmx_sts_bm_pstm_nrm_imm, MEM_C_OUT, A_REG(b->to[0]),
                A_REG(asm_quarter(b->acc[0], n)), A_IMM(VECTOR));
    }
}

// What a slice of bf16 has for itself: who makes its operands bf16 wants these registers, too.
enum { BF16_SCALARS = 5, BF16_REGISTERS = BF16_SCALARS + 4 };

static struct asm_reg * bf16_register(struct mm_block * b, int i) {
    struct asm_reg * const scalars[BF16_SCALARS] = {&b->mode, &b->mode_high, &b->pairs, &b->now,
                                                    &b->left};
    return i < BF16_SCALARS ? scalars[i] : &b->acc[i - BF16_SCALARS];
}

static void bf16_slice(struct mm_block * b, const struct mm_type * t, const struct mm_at * at) {
    struct asm_program * p = b->p;
    for (int i = 0; i < BF16_REGISTERS; i++) {
        *bf16_register(b, i) = asm_global(p, i < BF16_SCALARS ? ASM_MASK : ASM_BM);
    }
    emit_set(p, b->mode, SHUFFLE_T16_32X2_LOW);
    emit_set(p, b->mode_high, SHUFFLE_T16_32X2_LOW + 1);
    emit_set(p, b->pairs, t->slice_blocks);
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_N), t->trip_x * t->block_bytes);
    emit_copy(p, b->from[0], at->c);
    emit_copy(p, b->to[0], at->c);
    emit_copy(p, b->x, at->x);
    emit_copy(p, b->y, at->y);
    emit_copy(p, b->to[1], at->y);
    emit_copy(p, b->from[1], at->y);
    emit_copy(p, b->left, at->trips);
    int trip = asm_label_new(p), apart = asm_label_new(p), done = asm_label_new(p);
    if (at->may_be_apart) {
        asm_jump_if_zero(p, at->pairs, apart);
    }
    if (!at->is_apart) {
        set_apart(b);
    }
    asm_label(p, apart);
    if (at->may_be_apart) { // gemv: fewer trips than one stand for one row
        asm_jump_if_nonzero(p, b->left, trip);
        bf16_one_row(b);
        asm_jump(p, done);
    }
    asm_label(p, trip);
    bf16_trip(b);
    emit_add_small(p, b->left, b->left, -1);
    asm_jump_if_nonzero(p, b->left, trip);
    asm_label(p, done);
    for (int i = 0; i < BF16_REGISTERS; i++) {
        asm_release(p, *bf16_register(b, i));
    }
}

static void slice(struct mm_block * b, const struct mm_type * t, const struct mm_at * at) {
    (t->in == DTYPE_BF16 ? bf16_slice : int_slice)(b, t, at);
}

const struct mm_type mm_aie2p_types[MM_TYPES] = {
    {DTYPE_BF16, DTYPE_F32, 2, 4, 32, 1, 64, 4, 64, 4, 64, 8, .by_lanes = true,
     .gemm_unpacks = true, .gemm_by_blocks = true},
    {DTYPE_I16, DTYPE_I32, 2, 4, 32, 16, 8, 16, 16, 16, 16, .trip_bundles = 128},
    {DTYPE_I8, DTYPE_I32, 1, 8, 16, 16, 8, 16, 16, 16, 16, .trip_bundles = 64},
    {DTYPE_BF16, DTYPE_F32, 2, 16, 8, 16, 8, 16, 8, 16, 8, 32, .shared = true},
    {DTYPE_BF16, DTYPE_F32, 2, 16, 8, 16, 8, 16, 8, 16, 8, 32, .shared = true, .stored = true},
};

const struct mm_machine mm_aie2p = {
    .begin = begin,
    .offsets = offsets,
    .config = config,
    .slice = slice,
    .sets_apart = true,
    .x_walks = 1u << WALK_X1,
    .y_walks = 1u << WALK_Y1,
};
