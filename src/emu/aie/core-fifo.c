// core-fifo: loads and stores through the fifos of aie2p, which make a stream of blocks of 72 bytes
// (or 64) out of whole 64-byte accesses.
//
// A load fifo holds `level` bytes that lie ahead of its pointer. fill loads the 64 bytes behind
// them; pop takes one block from the front, after loading 64 bytes more when there is less than a
// block. Memory is touched in whole lines: bytes of a line before the place that was meant are
// dropped. The store fifo keeps what does not fill 64 bytes yet: its level is minus the bytes that
// wait, and its pointer is ahead of memory by them. push appends a block and stores the first 64
// bytes; flush stores what waits.
//
// Pointer and level move at issue, the bytes in the fifo in a later stage, as the ISA table says.
// Kept true: at a level that these rules cannot come to, and where a fifo would run empty or over,
// the core stops: what silicon does then is not known. Not known either, and not done: the forms
// that step by a modifier, blocks of 68, 80 and 88 bytes, and whether a flush touches the bytes
// behind those that it stores.
#include "emu/aie/core-impl.h"

#include <stdio.h>

enum {
    LINE = 64,
    FIFO_BYTES = 128,
    UNIT_LOAD_LEVEL = 24,
    UNIT_STORE_LEVEL = 26,
    UNIT_STORE_P = 34
};
enum { FILL, POP, PUSH, FLUSH };
_Static_assert(UNIT_STORE_P == AIE_UNIT_P + 2, "p2");

static uint32_t wrapped(uint32_t addr) {
    return addr & 0xfffff;
}

// ---- loading ----

static void fetch(struct core * c, const struct core_op * op, struct core_late * l, uint32_t addr) {
    uint32_t low = addr % LINE;
    const uint8_t * p = core_locate(c, op, addr - low, LINE);
    if (p) {
        memcpy(l->data, p + low, LINE - low);
        l->fetched = (uint8_t) (LINE - low);
    }
}

static void op_load(struct core * c, const struct core_op * op) {
    uint32_t p = reg_u32(c, op->ptr), level = reg_u32(c, op->d), take = op->bytes;
    struct core_late * l = core_late_start(c, op);
    l->level = l->fetched = 0;
    if (level > FIFO_BYTES) {
        core_fault_at(c, op, "r%d says that %u bytes wait in a load fifo of %d", op->d, level,
                      FIFO_BYTES);
        return;
    }
    l->level = level;
    // a fill that has no room for 64 bytes loads nothing: so it is assumed
    if (op->wide == FILL ? level + LINE <= FIFO_BYTES : level < take) {
        fetch(c, op, l, wrapped(p + level));
    }
    level += l->fetched;
    if (level < take) {
        core_fault_at(c, op, "the load fifo has %u bytes, %u are taken", level, take);
        return;
    }
    if (take) {
        core_write_next(c, op, op->ptr, p + take);
    }
    core_write_next(c, op, op->d, level - take);
}

static void finish_load(const struct core_op * op, const struct core_late * l,
                        struct core_exec * x) {
    uint8_t fifo[FIFO_BYTES + LINE];
    memcpy(fifo, x->in[op->i_shift], FIFO_BYTES);
    memset(fifo + FIFO_BYTES, 0, LINE);
    memcpy(fifo + l->level, l->data, l->fetched);
    if (op->bytes) {
        memcpy(x->out[op->i_data], fifo, op->bytes);
        memmove(fifo, fifo + op->bytes, sizeof fifo - op->bytes);
    }
    memcpy(x->out[op->i_shift], fifo, FIFO_BYTES);
}

// ---- storing ----

static void op_store(struct core * c, const struct core_op * op) {
    uint32_t p = reg_u32(c, UNIT_STORE_P), level = reg_u32(c, UNIT_STORE_LEVEL);
    uint32_t waiting = 0u - level, put = op->bytes;
    struct core_late * l = core_late_start(c, op);
    uint32_t go = op->wide == FLUSH ? waiting : LINE;
    l->level = l->fetched = 0;
    if (waiting > LINE || waiting + put - go > LINE) {
        core_fault_at(c, op, "r26 says that %u bytes wait in the store fifo, %u come and %u go",
                      waiting, put, go);
        return;
    }
    l->level = waiting;
    l->fetched = (uint8_t) go;
    uint32_t addr = wrapped(p - waiting), low = addr % LINE;
    l->memory = NULL;
    if (l->fetched) {
        uint8_t * line = core_locate(c, op, addr - low, LINE);
        bool over = (addr & 0xffff) + l->fetched > 0x10000;
        if (line == NULL || over) {
            core_fault_at(c, op, "a fifo's store to 0x%05x leaves its memory", addr);
            return;
        }
        l->memory = line + low;
    }
    if (put) {
        core_write_next(c, op, UNIT_STORE_P, p + put);
    }
    core_write_next(c, op, UNIT_STORE_LEVEL, 0u - (waiting + put - l->fetched));
}

static void finish_store(struct core * c, const struct core_op * op, const struct core_late * l,
                         struct core_exec * x) {
    uint8_t fifo[3 * LINE] = {0};
    memcpy(fifo, x->in[op->i_shift], l->level);
    if (op->fuse == FUSE_CONV) {
        uint32_t rnd = sem_control(x, AIE_CR_RND);
        if (sem_fp32_to_bfp16(fifo + l->level, x->in[op->i_data], rnd) < 0) {
            core_fault_at(c, op, "infinities and NaN in a block are not known");
            return;
        }
    } else if (op->bytes) {
        memcpy(fifo + l->level, x->in[op->i_data], op->bytes);
    }
    if (l->memory) {
        core_store_later(c, op, l->memory, fifo, l->fetched, 0);
    }
    memset(x->out[op->i_shift], 0, FIFO_BYTES);
    memcpy(x->out[op->i_shift], fifo + l->fetched, l->level + op->bytes - l->fetched);
}

void core_fifo_finish(struct core * c, const struct core_op * op, struct core_late * l,
                      struct core_exec * x) {
    if (op->wide == FILL || op->wide == POP) {
        finish_load(op, l, x);
    } else {
        finish_store(c, op, l, x);
    }
}

// ---- preparing ----

static const struct {
    const char * name;
    uint8_t what, bytes, conv;
} forms[] = {
    {"fill.512", FILL, 0, 0},   {"pop.512", POP, 64, 0},
    {"pop.576", POP, 72, 0},    {"push.512", PUSH, 64, 0},
    {"push.576", PUSH, 72, 0},  {"push.576.conv.bfp16ebs8.fp32", PUSH, 72, 1},
    {"flush.512", FLUSH, 0, 0}, {"flush.512.conv", FLUSH, 0, 0},
};

bool core_prepare_fifo(struct core * c, struct core_op * op) {
    char form[40];
    int n = 0;
    (void) c;
    if (sscanf(op->instr->text, "%*[a-z].%39s", form) != 1) {
        return false;
    }
    for (n = 0; n < (int) (sizeof forms / sizeof forms[0]); n++) {
        if (strcmp(forms[n].name, form) == 0) {
            break;
        }
    }
    // a block that goes nowhere in particular, a modifier beside the pointer: not these
    int index[AIE_MAX_OPERANDS];
    char where[AIE_MAX_OPERANDS];
    int operands = core_text_operands(op->instr, index, where);
    if (n == sizeof forms / sizeof forms[0] || op->odd_register) {
        return false;
    }
    op->wide = forms[n].what;
    op->bytes = forms[n].bytes;
    op->fuse = forms[n].conv ? FUSE_CONV : FUSE_NONE;
    bool stores = op->wide == PUSH || op->wide == FLUSH;
    int wanted = (op->bytes != 0) + !stores; // the block, and the pointer where it is a field
    if (operands != wanted) {
        return false;
    }
    if (op->bytes) {
        op->i_data = (int8_t) index[0];
    }
    for (int i = op->instr->n_explicit; i < op->instr->n_operands; i++) {
        if (AIE_REG_KIND(aie_inst_reg(op->instr, &op->inst, i)) == AIE_LF) {
            op->i_shift = (int8_t) i;
        }
    }
    if (!stores) {
        int number = AIE_REG_NUM(op->inst.values[index[operands - 1]]);
        op->ptr = (uint8_t) (AIE_UNIT_P + number);
        op->d = (uint8_t) (UNIT_LOAD_LEVEL + number);
    }
    op->issue = stores ? op_store : op_load;
    op->store_delay = stores ? (uint8_t) (op->instr->mem_cycle - 5) : 0;
    return op->i_shift >= 0 && op->n_stages > 1;
}
