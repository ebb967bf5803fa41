// aie2p-shared-blocks: slices of q4_0 that a core makes block floats (aie2p-shared.c), so that host
// memory brings 0.5625 bytes a number and nobody keeps another form of the weights. Of 64 rows a
// slice comes as five units of two words each, [unit][64 rows], of pairs that lie in panels:
//
//     -- -- d0 d1 | b0 ... b7 | b8 ... b15 | b0 ... b7 | b8 ... b15      b a byte of two numbers
//
// A unit of eight rows is a vector, whose lower halves of bytes are one block of 8 rows by 8 k, and
// its upper halves the one 16 k further. 128 + q is 0x4300 | q in bf16; (128 + q) d - 136 d is made
// in f32, of which blocks are made, so what is rounded is d to bf16 and a number to its block.
//
// Scales become bf16 first, and stand as often as the multiplier wants them: eight times each.
#include "quant-writer.h"

#include "aie/isa/aie2p.h"
#include "aie/ops/convert/convert.h"

enum {
    UNIT = MM_TILE * 8, // bytes
    RAW = MM_MADE_RAW,
    MINUS_136 = 0xc308,
    TOP = 0x43, // upper byte of 128 + q in bf16
    ZIP_32 = 16,
    CONFIG = 0x3c, // of bf16; 1 more: there is no accumulator yet
};

// No load of a loop reads what its stores write.
enum { MEM_RAW = 9, MEM_F16, MEM_FACTORS_0, MEM_FACTORS_1, MEM_MADE };

// d0 and d1 of all rows behind each other, in the place of their unit.
static void gather(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg from = q->pointers[0], to = q->pointers[1];
    struct asm_reg odd = take_set(w, ASM_MASK, EVEN_32 + 1), trips = take(w, ASM_R);
    quant_ready(w);
    emit_copy(p, from, sum_of(w, q->base, RAW));
    emit_copy(p, to, from);
    emit_set_small(p, trips, MM_TILE / 16);
    asm_loop_begin(p, trips);
    struct asm_reg v[2];
    for (int i = 0; i < 2; i++) {
        v[i] = asm_local(p, ASM_X);
        emit_load_next(p, MEM_RAW, v[i], from);
    }
    emit_store_next(p, MEM_F16, shuffled(w, v[0], v[1], odd), to);
    asm_loop_end(p);
    quant_end(w);
}

// In their place.
static void scales(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    for (int i = 0; i < 3; i++) {
        emit_copy(w->p, q->pointers[i], sum_of(w, q->base, RAW));
    }
    emit_set(w->p, q->number, 2 * MM_TILE / CV_TRIP);
    convert_loop(w->p, DTYPE_F16, true, q->number, q->pointers[0], q->pointers[1], q->pointers[2]);
    quant_end(w);
}

// From [row][d0 d1] to [row][eight times d0] and the same of d1, 16 rows a trip.
static void spread(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg from = q->pointers[0], *to = q->pointers + 1;
    struct asm_reg trips = take(w, ASM_R), zip_32[2], zip_64[2], block[2];
    for (int i = 0; i < 2; i++) {
        zip_32[i] = take_set(w, ASM_R, ZIP_32 + i);
        zip_64[i] = take_set(w, i ? ASM_R : ASM_MASK, ZIP_64 + i);
        block[i] = take_set(w, i ? ASM_R : ASM_MASK, EVEN_32 + i);
    }
    quant_ready(w);
    emit_copy(p, from, sum_of(w, q->base, RAW));
    emit_set(p, to[0], address(w, MM_MADE_SCALES));
    emit_set(p, to[1], address(w, MM_MADE_SCALES + MM_XY_OTHER));
    emit_set_small(p, trips, MM_TILE / 16);
    asm_loop_begin(p, trips);
    struct asm_reg v = asm_local(p, ASM_X), twice[2];
    emit_load_next(p, MEM_F16, v, from);
    for (int i = 0; i < 2; i++) {
        struct asm_reg zip_16 = asm_local(p, ASM_R); // counting trips wants those that are kept
        emit_set_small(p, zip_16, ZIP_16 + i);
        twice[i] = shuffled(w, v, v, zip_16);
    }
    for (int b = 0; b < 2; b++) {
        struct asm_reg one = shuffled(w, twice[0], twice[1], block[b]);
        for (int i = 0; i < 2; i++) { // of eight rows each
            struct asm_reg four = shuffled(w, one, one, zip_32[i]);
            for (int half = 0; half < 2; half++) {
                emit_store_next(p, b ? MEM_FACTORS_1 : MEM_FACTORS_0,
                                shuffled(w, four, four, zip_64[half]), to[b]);
            }
        }
    }
    asm_loop_end(p);
    quant_end(w);
}

// Vectors are pairs here, for the multiplier takes pairs; of `top` one half serves.
struct constants {
    struct asm_reg offset, top, any;            // the last is an accumulator that is not looked at
    struct asm_reg pick[2], zip[2], conf, none; // scalars
};

static void load_half(struct asm_program * p, int memory, struct asm_reg half,
                      struct asm_reg pointer) {
    ASM_MEM(p, AIE2P_VLDA_dmx_lda_x_pstm_nrm_imm, memory, A_REG(half), A_REG(pointer),
            A_IMM(QUANT_VECTOR));
}

// The numbers of eight rows by 16 k: lower halves of bytes, upper ones.
static struct asm_reg halves_of(struct writer * w, const struct constants * c, struct asm_reg v,
                                int unit) {
    struct asm_reg part = asm_local(w->p, ASM_Y), out = asm_local(w->p, ASM_Y);
    for (int i = 0; i < 2; i++) {
        emit_nibbles(w->p, asm_half(part, i), asm_quarter(v, 2 * unit + i));
    }
    for (int i = 0; i < 2; i++) {
        emit_shuffle(w->p, asm_half(out, i), asm_half(part, 0), asm_half(part, 1), c->pick[i]);
    }
    return out;
}

// One block of 32 numbers of eight rows: four of eight k.
static void block_of(struct writer * w, const struct constants * c, struct asm_reg from,
                     struct asm_reg factors, int b) {
    struct asm_program * p = w->p;
    struct asm_reg d = asm_local(p, ASM_Y), rest = asm_local(p, ASM_BM), v = asm_local(p, ASM_Y);
    struct asm_reg part[2];
    for (int half = 0; half < 2; half++) {
        load_half(p, b ? MEM_FACTORS_1 : MEM_FACTORS_0, asm_half(d, half), factors);
    }
    ASM(p, AIE2P_VMAC_f_vmac_bf_vmul_bf_core_Y_Y, A_REG(rest), A_REG(c->any), A_REG(c->offset),
        A_REG(d), A_REG(c->none));
    ASM_MEM(p, AIE2P_VLDA_dmx_lda_x_idx_imm, MEM_RAW, A_REG(asm_half(v, 0)), A_REG(from),
            A_IMM(-UNIT));
    load_half(p, MEM_RAW, asm_half(v, 1), from);
    for (int unit = 0; unit < 2; unit++) {
        part[unit] = halves_of(w, c, v, unit);
    }
    for (int k = 0; k < 4; k++) {
        struct asm_reg n = asm_local(p, ASM_Y), sum = asm_local(p, ASM_BM);
        for (int half = 0; half < 2; half++) {
            emit_shuffle(p, asm_half(n, half), asm_half(part[k % 2], k / 2), asm_half(c->top, 0),
                         c->zip[half]);
        }
        ASM(p, AIE2P_VMAC_f_vmac_bf_vmul_bf_core_Y_Y, A_REG(sum), A_REG(rest), A_REG(n), A_REG(d),
            A_REG(c->conf));
        ASM_MEM(p, AIE2P_VST_PUSH_576_CONV_bfp16ebs8_fp32, MEM_MADE, A_REG(sum));
    }
}

static void splat_half(struct writer * w, enum lane_width width, struct asm_reg half,
                       int32_t value) {
    struct asm_reg r = asm_local(w->p, ASM_R);
    emit_set(w->p, r, value);
    emit_splat(w->p, width, half, r);
}

// Eight rows a trip: eight blocks, behind which the fifo is empty again.
static void numbers(struct quant * q, struct asm_reg eights) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg * at = q->pointers;
    struct constants c = {.offset = take(w, ASM_Y),
                          .top = take(w, ASM_Y),
                          .any = take(w, ASM_BM),
                          .conf = take_set(w, ASM_MASK, CONFIG),
                          .none = take_set(w, ASM_MASK, CONFIG | 1)};
    for (int i = 0; i < 2; i++) {
        c.pick[i] = take_set(w, ASM_R, EVEN_8 + i);
        c.zip[i] = take_set(w, ASM_R, ZIP_8 + i);
    }
    quant_ready(w);
    emit_nibbles_begin(p);
    splat_half(w, LANE_8, asm_half(c.top, 0), TOP);
    for (int half = 0; half < 2; half++) {
        splat_half(w, LANE_16, asm_half(c.offset, half), MINUS_136);
    }
    emit_copy(p, at[0], sum_of(w, q->base, RAW + 2 * UNIT));
    emit_copy(p, at[1], sum_of(w, q->base, RAW + 4 * UNIT));
    emit_set(p, at[2], address(w, MM_MADE_SCALES));
    emit_set(p, at[3], address(w, MM_MADE_SCALES + MM_XY_OTHER));
    emit_copy(p, at[5], q->base); // the fifo's
    for (int quarter = 0; quarter < 4; quarter++) {
        ASM_MEM(p, AIE2P_VLDA_dmx_lda_bm_idx_imm, MEM_RAW, A_REG(asm_quarter(c.any, quarter)),
                A_REG(at[0]), A_IMM(0));
    }
    asm_loop_begin(p, eights);
    for (int b = 0; b < 2; b++) {
        block_of(w, &c, at[b], at[2 + b], b);
    }
    asm_emit(p, AIE2P_VST_FLUSH_512_CONV_normal_flush, MEM_MADE, NULL, 0);
    asm_loop_end(p);
    quant_end(w);
}

void quant_make_shared(struct quant * q, struct asm_reg eights) {
    static const struct {
        int memory;
        uint32_t at;
    } places[] = {{MEM_RAW, MM_Y},
                  {MEM_F16, MM_Y},
                  {MEM_FACTORS_0, MM_Y},
                  {MEM_FACTORS_1, MM_Y},
                  {MEM_MADE, MM_Y}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        asm_place(q->p, places[i].memory, places[i].at);
    }
    gather(q);
    scales(q);
    spread(q);
    numbers(q, eights);
}
