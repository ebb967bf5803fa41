// core-scalar: scalar arithmetic, comparisons, selects and moves. All read in cycle 1, and nearly
// all write then; those few with a longer latency (mul, mov.d1-6) queue their result. mac and msc
// read their accumulator a cycle after the factors, so that one can follow the other in the next
// bundle: they go the way of the lanes, which stages sources.
//
// Shifts, clb, sbc and divs follow results read on silicon. srCarry is the carry out of the adder;
// a subtraction adds the complement, so its carry means "no borrow".
#include "emu/aie/core-impl.h"

#define A reg_u32(c, op->a)
#define B reg_u32(c, op->b)

static void put(struct core * c, const struct core_op * op, uint32_t value) {
    if (op->latency == 1) {
        core_write_next(c, op, op->d, value);
    } else {
        memcpy(core_result(c, op), &value, 4);
    }
}

static void put_sum(struct core * c, const struct core_op * op, uint32_t a, uint32_t b,
                    uint32_t carry) {
    uint64_t sum = (uint64_t) a + b + carry;
    core_write_next(c, op, op->d, (uint32_t) sum);
    core_write_next(c, op, op->carry, (uint32_t) (sum >> 32));
}

static uint32_t shift(uint32_t v, int32_t by, bool arithmetic) {
    if (by >= 0) {
        return v << (by & 31);
    }
    unsigned n = (0u - (uint32_t) by) & 31;
    uint32_t fill = arithmetic && n && v >> 31 ? ~0u << (32 - n) : 0;
    return v >> n | fill;
}

static uint32_t leading_zeros(uint32_t v) {
    uint32_t n = 0;
    while (n < 32 && !(v >> (31 - n) & 1)) {
        n++;
    }
    return n;
}

#define SCALAR(name, value)                                                                        \
    static void name(struct core * c, const struct core_op * op) {                                 \
        put(c, op, (uint32_t) (value));                                                            \
    }

SCALAR(op_and, A & B)
SCALAR(op_or, A | B)
SCALAR(op_xor, A ^ B)
SCALAR(op_lshl, shift(A, (int32_t) B, false))
SCALAR(op_ashl, shift(A, (int32_t) B, true))
SCALAR(op_mul, A * B)
SCALAR(op_eq, A == B)
SCALAR(op_ne, A != B)
SCALAR(op_lt, (int32_t) A < (int32_t) B)
SCALAR(op_ltu, A < B)
SCALAR(op_ge, (int32_t) A >= (int32_t) B)
SCALAR(op_geu, A >= B)
SCALAR(op_eqz, A == 0)
SCALAR(op_nez, A != 0)
SCALAR(op_selnez, reg_u32(c, 27) != 0 ? A : B)
SCALAR(op_seleqz, reg_u32(c, 27) == 0 ? A : B)
SCALAR(op_abs, (A ^ (0u - (A >> 31))) + (A >> 31))
SCALAR(op_clz, leading_zeros(A))
SCALAR(op_clb, leading_zeros(A ^ (0u - (A >> 31))))
SCALAR(op_extend_s8, ((A & 0xff) ^ 0x80) - 0x80)
SCALAR(op_extend_s16, ((A & 0xffff) ^ 0x8000) - 0x8000)
SCALAR(op_extend_u8, A & 0xff)
SCALAR(op_extend_u16, A & 0xffff)

static void op_add(struct core * c, const struct core_op * op) {
    put_sum(c, op, A, B, 0);
}

static void op_add_imm(struct core * c, const struct core_op * op) {
    put_sum(c, op, A, (uint32_t) op->imm, 0);
}

static void op_sub(struct core * c, const struct core_op * op) {
    put_sum(c, op, A, ~B, 1);
}

static void op_adc(struct core * c, const struct core_op * op) {
    put_sum(c, op, A, B, reg_u32(c, op->carry) & 1);
}

static void op_sbc(struct core * c, const struct core_op * op) {
    put_sum(c, op, A, ~B, reg_u32(c, op->carry) & 1);
}

// One step of a restoring division: quotient bits enter r31 from the right.
static void op_divs(struct core * c, const struct core_op * op) {
    uint32_t q = reg_u32(c, 31);
    uint32_t d = A << 1 | q >> 31;
    q <<= 1;
    if (d >= B) {
        d -= B;
        q |= 1;
    }
    core_write_next(c, op, op->d, d);
    core_write_next(c, op, 31, q);
}

static void put_any(struct core * c, const struct core_op * op, uint32_t value) {
    if (op->is_loop) {
        c->loop_setup = c->cycle;
    }
    put(c, op, value);
}

static void op_mov_imm(struct core * c, const struct core_op * op) {
    put_any(c, op, (uint32_t) op->imm);
}

static void op_mov(struct core * c, const struct core_op * op) {
    put_any(c, op, A);
}

static void op_add_nc(struct core * c, const struct core_op * op) {
    put_any(c, op, A + (uint32_t) op->imm);
}

static void op_mov_cntr(struct core * c, const struct core_op * op) {
    uint64_t now = core_now(c);
    core_write_next(c, op, op->d, (uint32_t) now);
    core_write_next(c, op, op->d + 1, (uint32_t) (now >> 32));
}

static void op_add_nc_rr(struct core * c, const struct core_op * op) {
    put_any(c, op, A + B);
}

bool core_scalar_mac(struct core_exec * x) {
    store_u32(x->out[0], load_u32(x->in[0]) + load_u32(x->in[1]) * load_u32(x->in[2]));
    return true;
}

bool core_scalar_msc(struct core_exec * x) {
    store_u32(x->out[0], load_u32(x->in[0]) - load_u32(x->in[1]) * load_u32(x->in[2]));
    return true;
}

static const core_issue_fn scalars[CORE_SCALAR_COUNT] = {
    [CORE_ADD] = op_add,
    [CORE_ADD_IMM] = op_add_imm,
    [CORE_SUB] = op_sub,
    [CORE_ADC] = op_adc,
    [CORE_SBC] = op_sbc,
    [CORE_AND] = op_and,
    [CORE_OR] = op_or,
    [CORE_XOR] = op_xor,
    [CORE_LSHL] = op_lshl,
    [CORE_ASHL] = op_ashl,
    [CORE_MUL] = op_mul,
    [CORE_EQ] = op_eq,
    [CORE_NE] = op_ne,
    [CORE_LT] = op_lt,
    [CORE_LTU] = op_ltu,
    [CORE_GE] = op_ge,
    [CORE_GEU] = op_geu,
    [CORE_EQZ] = op_eqz,
    [CORE_NEZ] = op_nez,
    [CORE_SEL_NEZ] = op_selnez,
    [CORE_SEL_EQZ] = op_seleqz,
    [CORE_ABS] = op_abs,
    [CORE_CLZ] = op_clz,
    [CORE_CLB] = op_clb,
    [CORE_EXTEND_S8] = op_extend_s8,
    [CORE_EXTEND_S16] = op_extend_s16,
    [CORE_EXTEND_U8] = op_extend_u8,
    [CORE_EXTEND_U16] = op_extend_u16,
    [CORE_DIVS] = op_divs,
    [CORE_MOV] = op_mov,
    [CORE_MOV_IMM] = op_mov_imm,
    [CORE_MOV_COUNTER] = op_mov_cntr,
    [CORE_ADD_NC] = op_add_nc,
    [CORE_ADD_NC_RR] = op_add_nc_rr,
};

bool core_prepare_scalar(struct core * c, struct core_op * op) {
    (void) c;
    op->issue = scalars[op->meaning->what];
    int n_sources = 0;
    bool has_result = false;
    for (int k = 0; k < op->n_in; k++) {
        if (op->in[k].index < op->instr->n_explicit && op->in[k].index != 0) { // 0: the result
            uint8_t unit = (uint8_t) (op->in[k].offset / 4);
            *(n_sources++ ? &op->b : &op->a) = unit;
        }
    }
    for (int k = 0; k < op->n_out; k++) {
        const struct core_out * out = &op->out[k];
        if (out->sticky && out->index >= op->instr->n_explicit) {
            op->carry = out->span.unit;
        } else if (out->index < op->instr->n_explicit) {
            has_result = true;
            op->d = out->span.unit;
            op->data = out->span;
            op->latency = out->cycle;
        }
    }
    for (int k = 0; k < op->instr->n_explicit; k++) {
        if (op->instr->operands[k].is_imm) {
            op->imm = op->imms[k];
        }
    }
    int spc = op->d - AIE_UNIT_SPC;
    op->is_loop = spc == AIE_SPC_LS || spc == AIE_SPC_LE || spc == AIE_SPC_LC;
    return !op->odd_register && core_reads_at_issue(op) && has_result && op->d < CORE_WORDS &&
           op->a < CORE_WORDS && op->b < CORE_WORDS;
}
