// core-control: branches and events. A taken branch lets five more bundles issue; jl leaves the
// address behind them in lr. jnzd tests its source, then steps it: a loop of n turns starts at n
// - 1.
#include "emu/aie/core-impl.h"

static void take(struct core * c, const struct core_op * op, uint32_t target) {
    if (c->delay) {
        core_fault_at(c, op, "branch in the delay slots of a taken branch");
        return;
    }
    if (target >= CORE_PM_BYTES || target % 2 != 0) {
        core_fault_at(c, op, "branch to 0x%x, outside program memory", target);
        return;
    }
    c->delay = CORE_DELAY_SLOTS + 1;
    c->target = target;
}

static void save_link(struct core * c, const struct core_op * op) {
    uint32_t pc = op->bundle->pc;
    for (int i = 0; i <= CORE_DELAY_SLOTS && pc < CORE_PM_BYTES; i++) {
        pc += (uint32_t) aie_bundle_size(c->isa, c->program[pc]);
    }
    memcpy(core_result(c, op), &pc, 4);
}

static void op_j(struct core * c, const struct core_op * op) {
    take(c, op, (uint32_t) op->imm);
}

static void op_j_ind(struct core * c, const struct core_op * op) {
    take(c, op, reg_u32(c, op->ptr));
}

static void op_jl(struct core * c, const struct core_op * op) {
    save_link(c, op);
    take(c, op, (uint32_t) op->imm);
}

static void op_jl_ind(struct core * c, const struct core_op * op) {
    save_link(c, op);
    take(c, op, reg_u32(c, op->ptr));
}

static void op_jnz(struct core * c, const struct core_op * op) {
    if (reg_u32(c, op->a) != 0) {
        take(c, op, (uint32_t) op->imm);
    }
}

static void op_jz(struct core * c, const struct core_op * op) {
    if (reg_u32(c, op->a) == 0) {
        take(c, op, (uint32_t) op->imm);
    }
}

static void op_jnzd(struct core * c, const struct core_op * op) {
    uint32_t v = reg_u32(c, op->a);
    core_write_next(c, op, op->d, v - 1);
    core_write_next(c, op, op->carry, v != 0);
    if (v != 0) {
        take(c, op, reg_u32(c, op->ptr));
    }
}

static void op_ret(struct core * c, const struct core_op * op) {
    take(c, op, reg_u32(c, AIE_UNIT_SPC + AIE_SPC_LR));
}

static void op_event(struct core * c, const struct core_op * op) {
    (void) c; // seen by the trace unit only
    (void) op;
}

static const core_issue_fn controls[CORE_CONTROL_COUNT] = {
    [CORE_J] = op_j,           [CORE_J_IND] = op_j_ind, [CORE_JL] = op_jl,
    [CORE_JL_IND] = op_jl_ind, [CORE_JNZ] = op_jnz,     [CORE_JZ] = op_jz,
    [CORE_JNZD] = op_jnzd,     [CORE_RET] = op_ret,     [CORE_EVENT] = op_event,
};

bool core_prepare_control(struct core * c, struct core_op * op) {
    (void) c;
    op->issue = controls[op->meaning->what];
    for (int k = 0; k < op->n_in; k++) {
        uint8_t unit = (uint8_t) (op->in[k].offset / 4);
        bool is_ptr = unit >= AIE_UNIT_P && unit < AIE_UNIT_M;
        *(is_ptr ? &op->ptr : &op->a) = unit;
    }
    for (int k = 0; k < op->n_out; k++) {
        const struct core_out * out = &op->out[k];
        if (out->sticky) {
            op->carry = out->span.unit;
        } else {
            op->d = out->span.unit;
            op->data = out->span;
            op->data.bypass = AIE_BYPASS_NONE;
            op->latency = out->cycle;
        }
    }
    for (int k = 0; k < op->instr->n_explicit; k++) {
        if (op->instr->operands[k].is_imm) {
            op->imm = op->imms[k];
        }
    }
    return !op->odd_register && core_reads_at_issue(op);
}
