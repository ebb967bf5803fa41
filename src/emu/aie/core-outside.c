// core-outside: instructions that meet the array: locks, the core's stream ports, the cascade,
// done.
//
// A bundle issues only when all of its meetings took place; those that did are remembered while the
// bundle is blocked, and what they brought waits in the core. Stores are made visible before a
// release.
#include "emu/aie/core-impl.h"

static void op_nothing(struct core * c, const struct core_op * op) {
    (void) c; // all was done in the meeting
    (void) op;
}

// ---- locks ----

static int lock_result(struct core * c, const struct core_op * op, int id, int result) {
    if (result < 0) {
        core_fault_at(c, op, "there is no lock %d", id);
    }
    return result;
}

static int lock_id(struct core * c, const struct core_op * op) {
    return op->addressing == ADDR_IMM ? op->imm : (int) (reg_u32(c, op->a) & 0x7fffffff);
}

// The .cond forms act when r26 is not zero.
static bool lock_skipped(struct core * c, const struct core_op * op) {
    return op->wide && reg_u32(c, 26) == 0;
}

static int meet_acquire(struct core * c, const struct core_op * op) {
    if (lock_skipped(c, op)) {
        return 1;
    }
    int id = lock_id(c, op);
    return lock_result(c, op, id, c->env.acquire(c->env.user, id, (int32_t) reg_u32(c, op->b)));
}

static int meet_release(struct core * c, const struct core_op * op) {
    if (lock_skipped(c, op)) {
        return 1;
    }
    int id = lock_id(c, op);
    core_stores_drain(c);
    return lock_result(c, op, id, c->env.release(c->env.user, id, (int32_t) reg_u32(c, op->b)));
}

static bool prepare_lock(struct core_op * op) {
    const char * text = op->instr->text;
    bool acquire = strncmp(text, "acq", 3) == 0;
    if (!acquire && strncmp(text, "rel", 3) != 0) {
        return false;
    }
    int index[AIE_MAX_OPERANDS];
    char where[AIE_MAX_OPERANDS];
    if (core_text_operands(op->instr, index, where) != 2) {
        return false;
    }
    struct core_span id, value;
    if (op->instr->operands[index[0]].is_imm) {
        op->addressing = ADDR_IMM;
        op->imm = op->inst.values[index[0]];
    } else if (core_reg_span((aie_reg) op->inst.values[index[0]], &id)) {
        op->addressing = ADDR_REG;
        op->a = id.unit;
    } else {
        return false;
    }
    if (!core_reg_span((aie_reg) op->inst.values[index[1]], &value)) {
        return false;
    }
    op->b = value.unit;
    op->wide = strncmp(text + 3, ".cond", 5) == 0;
    op->flags |= BUNDLE_LOCK;
    op->meet = acquire ? meet_acquire : meet_release;
    op->issue = op_nothing;
    return true;
}

// ---- streams ----

static int meet_stream_read(struct core * c, const struct core_op * op) {
    (void) op;
    return c->env.stream_read(c->env.user, &c->stream_word, &c->stream_last);
}

static void op_stream_read(struct core * c, const struct core_op * op) {
    for (int k = 0; k < op->n_out; k++) {
        const struct core_out * out = &op->out[k];
        uint32_t value = out->sticky ? c->stream_last : c->stream_word;
        memcpy(core_write_at(c, op, c->cycle + out->cycle, &out->span), &value, 4);
    }
}

static int meet_stream_write(struct core * c, const struct core_op * op) {
    bool last = op->wide || (op->narrow && (reg_u32(c, 28) & 1));
    return c->env.stream_write(c->env.user, reg_u32(c, op->a), last);
}

// ---- cascade ----

static int meet_cascade_read(struct core * c, const struct core_op * op) {
    (void) op;
    return c->env.cascade_read(c->env.user, c->cascade);
}

static void op_cascade_read(struct core * c, const struct core_op * op) {
    memcpy(core_result(c, op), c->cascade, 64);
}

static int meet_cascade_write(struct core * c, const struct core_op * op) {
    return c->env.cascade_write(c->env.user, c->regs + op->data.offset);
}

// ---- done ----

static int meet_done(struct core * c, const struct core_op * op) {
    (void) c;
    (void) op;
    return 1;
}

// What is not here: the non-blocking stream forms and the packet headers made in hardware. They are
// refused as not implemented.
static const struct {
    const char * name;
    core_meet_fn meet;
    core_issue_fn issue;
    uint8_t last, last_in_r28;
} meetings[] = {
    {"MOV_mv_ss2scl", meet_stream_read, op_stream_read, 0, 0},
    {"MOV_mv_scl2ms", meet_stream_write, op_nothing, 0, 0},
    {"MOV_TLAST_mv_scl2ms", meet_stream_write, op_nothing, 1, 0},
    {"MOV_mv_scl2ms_doTlast_reg", meet_stream_write, op_nothing, 0, 1},
    {"VMOV_mv_scd", meet_cascade_read, op_cascade_read, 0, 0},
    {"VMOV_HI", meet_cascade_read, op_cascade_read, 0, 0},
    {"VMOV_LO", meet_cascade_read, op_cascade_read, 0, 0},
    {"VMOV_mv_mcd", meet_cascade_write, op_nothing, 0, 0},
    {"DONE", meet_done, op_nothing, 0, 0},
};

bool core_prepare_outside(struct core * c, struct core_op * op) {
    bool known = prepare_lock(op);
    for (size_t i = 0; !known && i < sizeof meetings / sizeof meetings[0]; i++) {
        if (strcmp(meetings[i].name, op->instr->name) != 0) {
            continue;
        }
        known = true;
        op->meet = meetings[i].meet;
        op->issue = meetings[i].issue;
        op->wide = meetings[i].last;
        op->narrow = meetings[i].last_in_r28;
        if (op->n_in) {
            op->a = (uint8_t) (op->in[0].offset / 4);
            op->data = (struct core_span){.offset = op->in[0].offset, .size = op->in[0].size};
        }
        if (op->n_out) {
            op->data = op->out[0].span;
            op->latency = op->out[0].cycle;
        }
        if (op->data.size == 128) { // vmov.lo / vmov.hi fill half of cm
            bool high = strcmp(op->instr->name, "VMOV_HI") == 0;
            op->data.size = 64;
            op->data.n_units = 2;
            op->data.offset = (uint16_t) (op->data.offset + 64 * high);
            op->data.unit = (uint8_t) (op->data.unit + 2 * high);
        }
        bool cascade = op->meet == meet_cascade_read || op->meet == meet_cascade_write;
        if (op->odd_register || (cascade && op->data.size != 64)) {
            core_fault_at(c, op, "the emulator does not implement these operands");
        }
        if (op->meet == meet_done) {
            op->flags |= BUNDLE_DONE;
        }
    }
    if (known) {
        op->flags |= BUNDLE_OUTSIDE;
    }
    return known;
}

enum core_meet core_meet_outside(struct core * c, const struct core_bundle * b) {
    for (int i = 0; i < b->n_ops; i++) {
        const struct core_op * op = &b->ops[i];
        if (op->meet == NULL || (c->outside_done >> i & 1)) {
            continue;
        }
        int r = op->meet(c, op);
        if (r < 0) {
            core_fault_at(c, op, "the array refused the access");
            return MEET_FAULT;
        }
        if (r == 0) {
            return MEET_BLOCKED;
        }
        c->outside_done |= (uint8_t) (1u << i);
    }
    c->outside_done = 0;
    return MEET_DONE;
}
