// elementwise: out[i] = op(a[i], b[i]) over chunks. The program waits for parameters, finds the op
// that they name, then for each chunk acquires a full a (and b) and an empty out buffer, runs the
// op's zero-overhead loop over the chunk and hands the buffers on. It loops for ever; every lock is
// back at its first value when a run is over, so that the next dispatch finds the array as the first
// one did.
#include "elementwise-ops.h"

#include "aie/isa/aie2.h"

#include <assert.h>
#include <string.h>

enum { OWN_LOCKS = 48 };  // the core's numbering of its own tile's locks
enum { FILL_STORES = 8 }; // per trip when a splatted input is spread over its buffers

struct program {
    struct lanes lanes;
    struct asm_program * p;
    const struct ew_op * group; // any op of it
    struct asm_reg chunks, trips, trips_last, op, stream_b, splat_b, splat_byte; // parameters
    struct asm_reg a, b, out;    // addresses of the current buffers, as scalars
    struct asm_reg other;        // what turns ping into pong
    struct asm_reg pa, pb, pout; // pointers that walk them
    struct asm_reg loop;         // pointer to the op's code
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

static bool in_group(const struct program * w, const struct ew_op * e) {
    return ew_matches(e, w->lanes.dtype) && !strcmp(e->program, w->group->program);
}

static void read_parameters(struct program * w) {
    const struct asm_reg to[EW_PARAM_ARGS] = {
        [EW_PARAM_CHUNKS] = w->chunks,         [EW_PARAM_TRIPS] = w->trips,
        [EW_PARAM_TRIPS_LAST] = w->trips_last, [EW_PARAM_OP] = w->op,
        [EW_PARAM_STREAM_B] = w->stream_b,     [EW_PARAM_SPLAT_B] = w->splat_b,
        [EW_PARAM_SPLAT_BYTE] = w->splat_byte,
    };
    set(w, w->pa, EW_CORE_MEMORY + EW_PARAMS);
    for (int i = 0; i < EW_PARAM_ARGS; i++) {
        ASM_MEM(w->p, AIE2_LDA_dms_lda_idx_imm, MEM_PARAMS, A_REG(to[i]), A_REG(w->pa), A_IMM(4 * i));
    }
    int n_args = 0;
    for (int i = 0; i < ew_n_ops; i++) {
        int n = kernel_op_info(ew_ops[i].op)->n_params;
        n_args = in_group(w, &ew_ops[i]) && n > n_args ? n : n_args;
    }
    for (int i = 0; i < n_args; i++) {
        struct asm_reg arg = asm_local(w->p, ASM_R);
        ASM_MEM(w->p, AIE2_LDA_dms_lda_idx_imm, MEM_PARAMS, A_REG(arg), A_REG(w->pa),
                A_IMM(4 * (EW_PARAM_ARGS + i)));
        lanes_set_param(&w->lanes, i, arg);
    }
    set(w, w->a, EW_CORE_MEMORY + EW_BUFFER_A);
    set(w, w->b, EW_CORE_MEMORY + EW_BUFFER_B);
    set(w, w->out, EW_CORE_MEMORY + EW_BUFFER_OUT);
}

// Points `loop` at the code of the op with the given number.
static void choose_op(struct program * w, const int * labels) {
    int chosen = asm_label_new(w->p);
    bool first = true;
    for (int i = 0; i < ew_n_ops; i++) {
        if (!in_group(w, &ew_ops[i])) {
            continue;
        }
        if (!first) {
            asm_jump_if_zero(w->p, w->op, chosen);
            ASM(w->p, AIE2_ADD_add_r_ri, A_REG(w->op), A_REG(w->op), A_IMM(-1));
        }
        ASM(w->p, AIE2_MOVXM_lng_cg, A_REG(w->loop), A_LABEL(labels[i]));
        first = false;
    }
    asm_label(w->p, chosen);
}

// One element for the whole run: it is spread over both b buffers, which then stay as they are.
static void spread_splat(struct program * w) {
    static const int load[3] = {AIE2_LDA_U8_ag_idx_imm, AIE2_LDA_U16_ag_idx_imm, AIE2_LDA_dms_lda_idx_imm};
    static const int broadcast[3] = {AIE2_VBCST_8, AIE2_VBCST_16, AIE2_VBCST_32};
    int width = dtype_size(w->lanes.dtype) / 2, none = asm_label_new(w->p);
    asm_jump_if_zero(w->p, w->splat_b, none);
    acquire(w, EW_LOCK_B_FULL);
    struct asm_reg address = asm_local(w->p, ASM_R), element = asm_local(w->p, ASM_R);
    struct asm_reg x = asm_global(w->p, ASM_X);
    ASM(w->p, AIE2_ADD, A_REG(address), A_REG(w->b), A_REG(w->splat_byte));
    copy(w, w->pb, address);
    ASM_MEM(w->p, load[width], MEM_B, A_REG(element), A_REG(w->pb), A_IMM(0));
    ASM(w->p, broadcast[width], A_REG(x), A_REG(element));
    copy(w, w->pb, w->b);
    set(w, w->op, 2 * EW_CHUNK_BYTES / (32 * FILL_STORES)); // the op's number is no longer needed
    asm_loop_begin(w->p, w->op);
    for (int i = 0; i < FILL_STORES; i++) {
        ASM_MEM(w->p, AIE2_VST_dmw_sts_w_ag_pstm_nrm_imm, MEM_B, A_REG(w->pb), A_LO(x), A_IMM(32));
    }
    asm_loop_end(w->p);
    release(w, EW_LOCK_B_EMPTY);
    asm_label(w->p, none);
}

static void chunk_begin(struct program * w, int again) {
    struct asm_program * p = w->p;
    int not_last = asm_label_new(p), no_b = asm_label_new(p);
    asm_label(p, again);
    ASM(p, AIE2_ADD_add_r_ri, A_REG(w->chunks), A_REG(w->chunks), A_IMM(-1));
    asm_jump_if_nonzero(p, w->chunks, not_last);
    copy(w, w->trips, w->trips_last);
    asm_label(p, not_last);
    asm_jump_if_zero(p, w->stream_b, no_b);
    acquire(w, EW_LOCK_B_FULL);
    asm_label(p, no_b);
    acquire(w, EW_LOCK_A_FULL);
    acquire(w, EW_LOCK_OUT_EMPTY);
    copy(w, w->pa, w->a);
    copy(w, w->pb, w->b);
    copy(w, w->pout, w->out);
    ASM(p, AIE2_XOR, A_REG(w->a), A_REG(w->a), A_REG(w->other));
    ASM(p, AIE2_XOR, A_REG(w->b), A_REG(w->b), A_REG(w->other));
    ASM(p, AIE2_XOR, A_REG(w->out), A_REG(w->out), A_REG(w->other));
    asm_jump_pointer(p, w->loop);
}

static void op_loop(struct program * w, const struct ew_op * e) {
    struct lanes * l = &w->lanes;
    if (e->native) {
        native_prepare(l, e->op);
    }
    asm_loop_begin(w->p, w->trips);
    for (int i = 0; i < ew_unroll(e, l->dtype); i++) {
        struct val a = lanes_load(l, w->pa, MEM_A, e->native), b = {.slot = -1};
        if (kernel_op_info(e->op)->n_inputs > 1) {
            b = lanes_load(l, w->pb, MEM_B, e->native);
        }
        lanes_store(l, e->fn(l, a, b), w->pout, MEM_OUT, e->native);
    }
    asm_loop_end(w->p);
}

// Out last: its arrival is what the instruction stream waits for, and by then all is done.
static void chunk_end(struct program * w, int again, int wait) {
    int no_b = asm_label_new(w->p);
    release(w, EW_LOCK_A_EMPTY);
    asm_jump_if_zero(w->p, w->stream_b, no_b);
    release(w, EW_LOCK_B_EMPTY);
    asm_label(w->p, no_b);
    release(w, EW_LOCK_OUT_FULL);
    asm_jump_if_nonzero(w->p, w->chunks, again);
    asm_jump(w->p, wait);
}

static void write_program(struct program * w, enum dtype t) {
    struct asm_reg * const scalars[] = {&w->chunks,   &w->trips,   &w->trips_last, &w->op,
                                        &w->stream_b, &w->splat_b, &w->splat_byte, &w->a,
                                        &w->b,        &w->out,     &w->other};
    struct asm_reg * const pointers[] = {&w->pa, &w->pb, &w->pout, &w->loop};
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        *scalars[i] = asm_global(w->p, ASM_R);
    }
    for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++) {
        *pointers[i] = asm_global(w->p, ASM_P);
    }
    lanes_begin(&w->lanes, w->p, t, EW_CORE_MEMORY + EW_POOL);
    set(w, w->other, EW_CHUNK_BYTES);
    int labels[128];
    assert(ew_n_ops <= 128);
    for (int i = 0; i < ew_n_ops; i++) {
        labels[i] = in_group(w, &ew_ops[i]) ? asm_label_new(w->p) : -1;
    }
    int wait = asm_label_new(w->p), again = asm_label_new(w->p), done = asm_label_new(w->p);
    asm_label(w->p, wait);
    acquire(w, EW_LOCK_GO);
    read_parameters(w);
    choose_op(w, labels);
    spread_splat(w);
    chunk_begin(w, again);
    asm_label(w->p, done);
    chunk_end(w, again, wait);
    for (int i = 0; i < ew_n_ops; i++) {
        if (labels[i] >= 0) {
            asm_label(w->p, labels[i]);
            op_loop(w, &ew_ops[i]);
            asm_jump(w->p, done);
        }
    }
}

enum status elementwise_program(const struct kernel_spec * spec, struct ew_program * out,
                                struct error * err) {
    enum dtype t = spec->output.dtype;
    struct program w = {.group = ew_find(spec->op, t)};
    _Static_assert(sizeof out->pool == LANES_POOL_SLOTS * LANES_POOL_SLOT_BYTES, "the pool fits");
    if (!w.group) {
        return error_set(err, ST_UNSUPPORTED, "no %s for %s", kernel_op_name(spec->op), dtype_name(t));
    }
    if (asm_new(spec->arch, &w.p) != ST_OK) {
        return error_set(err, ST_NO_MEMORY, "aie: out of memory");
    }
    write_program(&w, t);
    enum status st = asm_finish(w.p, &out->code, err);
    lanes_pool_bytes(&w.lanes, out->pool);
    asm_free(w.p);
    return st == ST_OK ? ST_OK : error_prefix(err, "aie: %s_%s", w.group->program, dtype_name(t));
}
