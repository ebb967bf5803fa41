// elementwise: out[i] = op(a[i], b[i]) over chunks. The program waits for parameters, then for each
// chunk acquires a full a, a full b and an empty out buffer, runs one zero-overhead loop over the
// chunk and hands the buffers on. It loops for ever; every lock is back at its first value when a
// run is over, so that the next dispatch finds the array as the first one did.
#include "ops.h"

#include "aie/isa/aie2.h"
#include "lanes.h"

typedef struct lane (*lane_op2)(struct lanes * l, struct lane a, struct lane b);

static const lane_op2 ops[KERNEL_OP_COUNT] = {
    [KERNEL_OP_ADD] = lane_add,
};

enum { OWN_LOCKS = 48 }; // the core's numbering of its own tile's locks
enum { MEM_PARAMS, MEM_A, MEM_B, MEM_OUT };

struct program {
    struct lanes lanes;
    struct asm_program * p;
    lane_op2 op;
    struct asm_reg chunks, trips, trips_last, splat, splat_byte; // parameters
    struct asm_reg a, b, out;       // addresses of the current buffers, as scalars
    struct asm_reg other;           // what turns ping into pong
    struct asm_reg pa, pb, pout;    // pointers that walk them
    struct asm_reg b_value;         // the splatted second input
};

static void set(struct program * w, struct asm_reg r, int32_t value) {
    ASM(w->p, AIE2_MOVXM_lng_cg, A_REG(r), A_IMM(value));
}

static void copy(struct program * w, struct asm_reg to, struct asm_reg from) {
    ASM(w->p, AIE2_MOV_mv_scl, A_REG(to), A_REG(from));
}

static void acquire(struct program * w, int lock) {
    asm_acquire(w->p, OWN_LOCKS + lock, w->lanes.minus_one);
}

static void release(struct program * w, int lock) {
    asm_release(w->p, OWN_LOCKS + lock, w->lanes.one);
}

static void read_parameters(struct program * w) {
    const struct asm_reg to[EW_PARAM_COUNT] = {
        [EW_PARAM_CHUNKS] = w->chunks,       [EW_PARAM_TRIPS] = w->trips,
        [EW_PARAM_TRIPS_LAST] = w->trips_last, [EW_PARAM_SPLAT] = w->splat,
        [EW_PARAM_SPLAT_BYTE] = w->splat_byte,
    };
    set(w, w->pa, EW_CORE_MEMORY + EW_PARAMS);
    for (int i = 0; i < EW_PARAM_COUNT; i++) {
        ASM_MEM(w->p, AIE2_LDA_dms_lda_idx_imm, MEM_PARAMS, A_REG(to[i]), A_REG(w->pa), A_IMM(4 * i));
    }
    set(w, w->a, EW_CORE_MEMORY + EW_BUFFER_A);
    set(w, w->b, EW_CORE_MEMORY + EW_BUFFER_B);
    set(w, w->out, EW_CORE_MEMORY + EW_BUFFER_OUT);
}

static void read_splat(struct program * w) {
    static const int load[DTYPE_COUNT] = {
        [DTYPE_F32] = AIE2_LDA_dms_lda_idx_imm, [DTYPE_F16] = AIE2_LDA_U16_ag_idx_imm,
        [DTYPE_BF16] = AIE2_LDA_U16_ag_idx_imm, [DTYPE_I8] = AIE2_LDA_U8_ag_idx_imm,
        [DTYPE_I16] = AIE2_LDA_U16_ag_idx_imm,  [DTYPE_I32] = AIE2_LDA_dms_lda_idx_imm,
    };
    acquire(w, EW_LOCK_B_FULL);
    struct asm_reg address = asm_local(w->p, ASM_R), element = asm_local(w->p, ASM_R);
    ASM(w->p, AIE2_ADD, A_REG(address), A_REG(w->b), A_REG(w->splat_byte));
    copy(w, w->pb, address);
    ASM_MEM(w->p, load[w->lanes.dtype], MEM_B, A_REG(element), A_REG(w->pb), A_IMM(0));
    lanes_splat(&w->lanes, element, w->b_value);
    release(w, EW_LOCK_B_EMPTY);
}

// One chunk after the other until none is left.
static void chunk_loop(struct program * w, bool splat, int done) {
    struct asm_program * p = w->p;
    int again = asm_label_new(p), not_last = asm_label_new(p);
    asm_label(p, again);
    ASM(p, AIE2_ADD_add_r_ri, A_REG(w->chunks), A_REG(w->chunks), A_IMM(-1));
    asm_jump_if_nonzero(p, w->chunks, not_last);
    copy(w, w->trips, w->trips_last);
    asm_label(p, not_last);

    acquire(w, EW_LOCK_A_FULL);
    if (!splat) {
        acquire(w, EW_LOCK_B_FULL);
    }
    acquire(w, EW_LOCK_OUT_EMPTY);
    copy(w, w->pa, w->a);
    copy(w, w->pb, w->b);
    copy(w, w->pout, w->out);
    ASM(p, AIE2_XOR, A_REG(w->a), A_REG(w->a), A_REG(w->other));
    ASM(p, AIE2_XOR, A_REG(w->b), A_REG(w->b), A_REG(w->other));
    ASM(p, AIE2_XOR, A_REG(w->out), A_REG(w->out), A_REG(w->other));

    asm_loop_begin(p, w->trips);
    for (int i = 0; i < lanes_edge(w->lanes.dtype)->unroll; i++) {
        struct lane a = lanes_load(&w->lanes, w->pa, MEM_A);
        struct lane b = splat ? (struct lane) {w->b_value} : lanes_load(&w->lanes, w->pb, MEM_B);
        lanes_store(&w->lanes, w->op(&w->lanes, a, b), w->pout, MEM_OUT);
    }
    asm_loop_end(p);

    // Out last: its arrival is what the instruction stream waits for, and by then all is done.
    release(w, EW_LOCK_A_EMPTY);
    if (!splat) {
        release(w, EW_LOCK_B_EMPTY);
    }
    release(w, EW_LOCK_OUT_FULL);
    asm_jump_if_nonzero(p, w->chunks, again);
    asm_jump(p, done);
}

int elementwise_trip_words(enum dtype t) {
    return lanes_edge(t)->step_bytes * lanes_edge(t)->unroll / 4;
}

enum status elementwise_program(const struct kernel_spec * spec, struct asm_code * out,
                                struct error * err) {
    struct program w = {.op = ops[spec->op]};
    if (asm_new(spec->arch, &w.p) != ST_OK) {
        return error_set(err, ST_NO_MEMORY, "aie: out of memory");
    }
    enum dtype t = spec->output.dtype;
    struct asm_reg * const scalars[] = {&w.chunks, &w.trips, &w.trips_last, &w.splat, &w.splat_byte,
                                        &w.a,      &w.b,     &w.out,        &w.other};
    struct asm_reg * const pointers[] = {&w.pa, &w.pb, &w.pout};
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        *scalars[i] = asm_global(w.p, ASM_R);
    }
    for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++) {
        *pointers[i] = asm_global(w.p, ASM_P);
    }
    w.b_value = asm_global(w.p, lanes_edge(t)->is_float ? ASM_BM : ASM_X);

    lanes_begin(&w.lanes, w.p, t);
    set(&w, w.other, EW_CHUNK_BYTES);
    int wait = asm_label_new(w.p), splat = asm_label_new(w.p);
    asm_label(w.p, wait);
    acquire(&w, EW_LOCK_GO);
    read_parameters(&w);
    asm_jump_if_nonzero(w.p, w.splat, splat);
    chunk_loop(&w, false, wait);
    asm_label(w.p, splat);
    read_splat(&w);
    chunk_loop(&w, true, wait);

    enum status st = asm_finish(w.p, out, err);
    asm_free(w.p);
    return st == ST_OK ? ST_OK
                       : error_prefix(err, "aie: %s_%s", kernel_op_name(spec->op), dtype_name(t));
}
