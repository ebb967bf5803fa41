// core-outside: instructions that meet the array: locks, the core's stream ports, the cascade, the
// registers of its tile, done.
//
// A bundle issues only when all of its meetings took place; those that did are remembered while the
// bundle is blocked, and what they brought waits in the core. Stores are made visible before a
// release, and before a register of the tile is written, which may start a transfer.
#include "emu/aie/core-access.h"

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

static bool prepare_lock(const struct core_target * target, struct core_op * op) {
    const char * text = op->instr->text;
    int index[AIE_MAX_OPERANDS];
    char where[AIE_MAX_OPERANDS];
    if (core_text_operands(op->instr, index, where) != 2) {
        return false;
    }
    struct core_span id, value;
    if (op->instr->operands[index[0]].is_imm) {
        op->addressing = ADDR_IMM;
        op->imm = op->inst.values[index[0]];
    } else if (core_reg_span(target, (aie_reg) op->inst.values[index[0]], &id)) {
        op->addressing = ADDR_REG;
        op->a = id.unit;
    } else {
        return false;
    }
    if (!core_reg_span(target, (aie_reg) op->inst.values[index[1]], &value)) {
        return false;
    }
    op->b = value.unit;
    op->wide = strncmp(text + 3, ".cond", 5) == 0;
    op->flags |= BUNDLE_LOCK;
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

// ---- registers of the tile ----

// They lie behind the memories, from here on, by their offset in the tile.
enum { TILE_REGISTERS = 0x80000 };

static bool tile_offset(struct core * c, const struct core_op * op, bool there, uint32_t * offset) {
    uint32_t addr = address_ahead(c, op);
    if (addr < TILE_REGISTERS || addr % 4 || !there) {
        core_fault_at(c, op, "0x%05x is no register of the tile (0x%05x-0xfffff, by 4)", addr,
                      TILE_REGISTERS);
        return false;
    }
    *offset = addr - TILE_REGISTERS;
    return true;
}

static int meet_tile_read(struct core * c, const struct core_op * op) {
    uint32_t offset;
    return tile_offset(c, op, c->env.tile_read, &offset)
               ? c->env.tile_read(c->env.user, offset, &c->tile_word)
               : -1;
}

static int meet_tile_write(struct core * c, const struct core_op * op) {
    uint32_t offset;
    if (!tile_offset(c, op, c->env.tile_write, &offset)) {
        return -1;
    }
    core_stores_drain(c);
    return c->env.tile_write(c->env.user, offset, reg_u32(c, op->data.offset / 4));
}

static void op_tile_read(struct core * c, const struct core_op * op) {
    (void) address(c, op);
    memcpy(core_result(c, op), &c->tile_word, 4);
}

static void op_tile_write(struct core * c, const struct core_op * op) {
    (void) address(c, op);
}

static bool prepare_tile(struct core * c, struct core_op * op) {
    const char * text = op->instr->text;
    int dims = strstr(text, ".2d") ? 2 : strstr(text, ".3d") ? 3 : 1;
    return core_prepare_access(c, op, dims) && op->data.size == 4;
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
    core_meet_fn meet;
    core_issue_fn issue;
    uint8_t last, last_in_r28;
} meetings[CORE_OUTSIDE_COUNT] = {
    [CORE_ACQUIRE] = {meet_acquire, op_nothing, 0, 0},
    [CORE_RELEASE] = {meet_release, op_nothing, 0, 0},
    [CORE_STREAM_READ] = {meet_stream_read, op_stream_read, 0, 0},
    [CORE_STREAM_WRITE] = {meet_stream_write, op_nothing, 0, 0},
    [CORE_STREAM_WRITE_LAST] = {meet_stream_write, op_nothing, 1, 0},
    [CORE_STREAM_WRITE_R28] = {meet_stream_write, op_nothing, 0, 1},
    [CORE_CASCADE_READ] = {meet_cascade_read, op_cascade_read, 0, 0},
    [CORE_CASCADE_WRITE] = {meet_cascade_write, op_nothing, 0, 0},
    [CORE_TILE_READ] = {meet_tile_read, op_tile_read, 0, 0},
    [CORE_TILE_WRITE] = {meet_tile_write, op_tile_write, 0, 0},
    [CORE_DONE_FOR_GOOD] = {meet_done, op_nothing, 0, 0},
};

// 512 bits of a register, from 512 * part on.
static struct core_span part_of(struct core_span whole, int part) {
    unsigned units = whole.n_units * 64u / whole.size;
    whole.offset = (uint16_t) (whole.offset + 64 * part);
    whole.unit = (uint8_t) (whole.unit + units * (unsigned) part);
    whole.n_units = (uint8_t) units;
    whole.size = 64;
    return whole;
}

bool core_prepare_outside(struct core * c, struct core_op * op) {
    int what = op->meaning->what;
    op->meet = meetings[what].meet;
    op->issue = meetings[what].issue;
    op->flags |= BUNDLE_OUTSIDE;
    if (!core_reads_at_issue(op)) {
        return false;
    }
    if (what == CORE_ACQUIRE || what == CORE_RELEASE) {
        return prepare_lock(c->traits, op);
    }
    if (what == CORE_TILE_READ || what == CORE_TILE_WRITE) {
        return prepare_tile(c, op);
    }
    op->wide = meetings[what].last;
    op->narrow = meetings[what].last_in_r28;
    if (op->n_in) {
        op->a = (uint8_t) (op->in[0].offset / 4);
        op->data = (struct core_span){.offset = op->in[0].offset, .size = op->in[0].size};
    }
    if (op->n_out) {
        op->data = op->out[0].span;
        op->latency = op->out[0].cycle;
    }
    if (what == CORE_CASCADE_READ && op->data.size > 64) {
        op->data = part_of(op->data, op->meaning->part);
    }
    if (what == CORE_DONE_FOR_GOOD) {
        op->flags |= BUNDLE_DONE;
    }
    bool cascade = what == CORE_CASCADE_READ || what == CORE_CASCADE_WRITE;
    return !op->odd_register && (!cascade || op->data.size == 64);
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
