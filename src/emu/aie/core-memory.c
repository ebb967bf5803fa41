// core-memory: addresses, loads, stores, and the pointer steps that come alone (padd).
//
// Every form is read off the instruction's text: the mnemonic says what happens to the bytes, the
// brackets say how the address is made. Addresses are 20 bits. A simple load or store touches
// memory when its bundle issues; a store that the table puts into a later stage, and an 8- or
// 16-bit store (read in E5, written in E11), waits in c->stores for its cycle.
#include "emu/aie/core-access.h"

#include "emu/aie/sem.h"

#include <stdio.h>

// ---- addresses ----

// What a load brings from where there is no memory: silicon goes on, with a value that nobody
// promises.
static uint8_t * load_nothing(struct core * c, uint32_t addr) {
    memset(c->nothing, 0, sizeof c->nothing);
    if (c->env.strict) {
        core_garbage(c->nothing, sizeof c->nothing, c->stray_loads << 20 | addr);
    }
    return c->nothing;
}

// Not aligned, or in a window that is not mapped yet: NULL after a fault. A load is no fault: as on
// silicon the low bits of its address do not count, and it ends where there is no memory, too. A
// store of either kind is refused: what silicon does with it is not known.
uint8_t * core_locate_slowly(struct core * c, const struct core_op * op, uint32_t addr,
                             uint32_t bytes) {
    uint32_t low = addr & (bytes - 1u);
    if (low && op->is_load) {
        c->stray_loads++;
        addr -= low;
    } else if (low) {
        core_fault_at(c, op, "address 0x%05x is not a multiple of the %u bytes accessed", addr,
                      bytes);
        return NULL;
    }
    uint8_t * base = c->env.memory(c->env.user, addr & ~0xffffu, 0x10000);
    if (base) {
        c->window[addr >> 16] = base;
        return base + (addr & 0xffff);
    }
    uint8_t * p = c->env.memory(c->env.user, addr, bytes);
    if (p == NULL && op->is_load) {
        c->stray_loads += low == 0;
        return load_nothing(c, addr);
    }
    if (p == NULL) {
        core_fault_at(c, op, "store to address 0x%05x where there is no memory", addr);
    }
    return p;
}

uint8_t * core_locate(struct core * c, const struct core_op * op, uint32_t addr, uint32_t bytes) {
    return locate_at(c, op, addr, bytes, op->store_delay);
}

static inline uint8_t * locate(struct core * c, const struct core_op * op, uint32_t addr) {
    return locate_at(c, op, addr, op->bytes, op->store_delay);
}

// ---- stores in flight ----

void core_stores_flush(struct core * c, int slot) {
    for (int i = 0; i < c->due[slot].stores; i++) {
        const struct core_store * s = &c->stores[slot][i];
        memcpy(s->to, s->data, s->size);
    }
    c->due[slot].stores = 0;
}

void core_stores_drain(struct core * c) {
    for (int i = 0; i < RING; i++) {
        core_stores_flush(c, (int) ((c->cycle + (uint64_t) i) % RING));
    }
}

void core_store_later(struct core * c, const struct core_op * op, uint8_t * to,
                      const uint8_t * data, int bytes, int delay) {
    int slot = (int) ((c->cycle + (uint64_t) delay) % RING);
    if (c->due[slot].stores == STORES) {
        core_fault_at(c, op, "more than %d stores reach memory in one cycle", STORES);
        return;
    }
    struct core_store * s = &c->stores[slot][c->due[slot].stores++];
    s->to = to;
    s->size = (uint8_t) bytes;
    memcpy(s->data, data, (size_t) bytes);
}

static const uint8_t * word_of(const uint8_t * p) {
    return p - (uintptr_t) p % 4; // tile memory is word aligned
}

// Silicon rewrites the whole word 6 cycles after it was read: another store to that word in between
// would be lost. Compilers keep all memory accesses away from it.
CORE_COLD static void check_partial(struct core * c, const struct core_op * op,
                                    const uint8_t * to) {
    for (int i = 0; i < 8; i++) {
        if (c->partial[i] && c->partial_cycle[i] >= c->cycle && c->partial[i] >= word_of(to) &&
            c->partial[i] < to + op->bytes) {
            core_fault_at(c, op, "store to a word that an 8- or 16-bit store is still rewriting");
        }
    }
}

// ---- issue ----

static void op_padd(struct core * c, const struct core_op * op) {
    (void) address(c, op);
}

// bytes, 32 or 64, is a constant wherever this is inlined.
static inline void load_vector(struct core * c, const struct core_op * op, uint32_t addr,
                               uint32_t bytes) {
    const uint8_t * p = locate_at(c, op, addr, bytes, 0);
    uint64_t cycle = c->cycle + op->latency;
    struct core_due * due = &c->due[cycle % RING];
    if (p && due->loads < LOADS && op->data.bypass == AIE_BYPASS_NONE) {
        struct core_loads * l = &c->loads[cycle % RING];
        l->op[due->loads] = op;
        memcpy(l->data[due->loads++], p, bytes);
    } else if (p) {
        memcpy(core_write_at(c, op, cycle, &op->data), p, bytes);
    }
}

#define LOAD_VECTOR(bytes)                                                                         \
    static void op_load_vector_##bytes(struct core * c, const struct core_op * op) {               \
        load_vector(c, op, address(c, op), bytes);                                                 \
    }                                                                                              \
    /* the address forms of nearly all inner loops */                                              \
    static void op_load_vector_imm_##bytes(struct core * c, const struct core_op * op) {           \
        load_vector(c, op, (reg_u32(c, op->ptr) + (uint32_t) op->imm) & 0xfffff, bytes);           \
    }                                                                                              \
    static void op_load_vector_post_imm_##bytes(struct core * c, const struct core_op * op) {      \
        uint32_t addr = reg_u32(c, op->ptr);                                                       \
        core_write_next(c, op, op->ptr, addr + (uint32_t) op->imm);                                \
        load_vector(c, op, addr, bytes);                                                           \
    }

LOAD_VECTOR(32)
LOAD_VECTOR(64)

static void op_load_half_vector(struct core * c, const struct core_op * op) {
    const uint8_t * p = locate(c, op, address(c, op));
    if (p) {
        uint8_t * to = core_result(c, op);
        memcpy(to, p, 16);
        memset(to + 16, 0, 16); // a 128-bit load into w clears its upper half; q ends before it
    }
}

static void op_load_scalar(struct core * c, const struct core_op * op) {
    const uint8_t * p = locate(c, op, address(c, op));
    if (p == NULL) {
        return;
    }
    uint32_t v = 0;
    memcpy(&v, p, op->bytes);
    if (op->is_signed) {
        uint32_t sign = op->bytes == 1 ? 0x80 : 0x8000;
        v = (v ^ sign) - sign;
    }
    memcpy(core_result(c, op), &v, 4);
}

static inline void store_to(struct core * c, const struct core_op * op, uint32_t addr,
                            uint32_t bytes) {
    uint8_t * p = locate_at(c, op, addr, bytes, 0);
    if (p == NULL) {
        return;
    }
    if (c->cycle <= c->partial_until) {
        check_partial(c, op, p);
    }
    memcpy(p, c->regs + op->data.offset, bytes);
}

static void op_store(struct core * c, const struct core_op * op) {
    store_to(c, op, address(c, op), op->bytes);
}

#define STORE_VECTOR(bytes)                                                                        \
    static void op_store_vector_imm_##bytes(struct core * c, const struct core_op * op) {          \
        store_to(c, op, (reg_u32(c, op->ptr) + (uint32_t) op->imm) & 0xfffff, bytes);              \
    }                                                                                              \
    static void op_store_vector_post_imm_##bytes(struct core * c, const struct core_op * op) {     \
        uint32_t addr = reg_u32(c, op->ptr);                                                       \
        core_write_next(c, op, op->ptr, addr + (uint32_t) op->imm);                                \
        store_to(c, op, addr, bytes);                                                              \
    }

STORE_VECTOR(32)
STORE_VECTOR(64)

// Parallel lookup: four addresses in one half of a register, an entry of 2, 4 or 8 bytes from each.
// A table lies twice in every line, once in each half, so that lanes 1 and 3 find it in the other
// half; an address counts both, so that half of its place in the line is the entry's place in the
// half. Each lane gets 64 bits: what stands behind a shorter entry AMD's own code calls garbage and
// drops. Of banks it is assumed to take what one access takes.
static void op_lookup(struct core * c, const struct core_op * op) {
    uint8_t made[32] = {0};
    const uint8_t * lanes = c->regs + op->in[0].offset + 16 * op->meaning->what;
    uint32_t line = c->traits->lookup_line, entry = op->bytes;
    if (c->env.strict && entry < 8) {
        core_garbage(made, sizeof made, c->cycle << 20 | load_u32(lanes));
    }
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t a = load_u32(lanes + 4 * k) & 0xfffff;
        uint32_t addr = a - a % line + (a % line / 2 & ~(entry - 1)) + k % 2 * line / 2;
        const uint8_t * p =
            k == 0 ? locate_at(c, op, addr, entry, 0) : locate_unasked(c, op, addr, entry);
        if (p) {
            memcpy(made + 8 * k, p, entry);
        }
    }
    memcpy(core_result(c, op), made, 32);
}

bool core_prepare_lookup(struct core * c, struct core_op * op) {
    (void) c;
    op->issue = op_lookup;
    op->bytes = op->meaning->part;
    op->data = op->out[0].span;
    op->latency = op->out[0].cycle;
    return core_reads_at_issue(op) && op->n_in == 1 && op->n_out == 1 && op->in[0].size == 32 &&
           op->data.size == 32;
}

// 8 and 16 bits: the word is read with the bundle's other accesses; the data register is read six
// cycles after issue, and memory is written then.
static void op_store_partial(struct core * c, const struct core_op * op) {
    uint32_t addr = address(c, op);
    uint8_t * p = locate(c, op, addr);
    if (p == NULL) {
        return;
    }
    if (c->cycle <= c->partial_until) {
        check_partial(c, op, p);
    }
    int late = op->stage_cycle[op->n_stages - 1] - 1;
    ask_banks(c, addr, op->bytes, late);
    c->partial_until = c->cycle + (uint64_t) late;
    c->partial[c->n_partial % 8] = word_of(p);
    c->partial_cycle[c->n_partial % 8] = c->partial_until;
    c->n_partial++;
    core_late_start(c, op)->memory = p;
}

static void op_fused(struct core * c, const struct core_op * op) {
    uint8_t * p = locate(c, op, address(c, op));
    if (p == NULL) {
        return;
    }
    if (op->instr->stores && c->cycle <= c->partial_until) {
        check_partial(c, op, p);
    }
    struct core_late now;
    struct core_late * l = op->n_stages > 1 ? core_late_start(c, op) : &now;
    l->memory = p;
    if (op->is_load) {
        memcpy(l->data, p, op->bytes);
    }
    if (op->n_stages == 1) {
        core_execute(c, op, l);
    }
}

void core_memory_finish(struct core * c, const struct core_op * op, struct core_late * l,
                        struct core_exec * x) {
    if (op->meaning->family == CORE_FIFO) {
        core_fifo_finish(c, op, l, x);
        return;
    }
    if (op->fuse == FUSE_NONE) {
        core_store_later(c, op, l->memory, x->in[op->i_data], op->bytes, 0);
        return;
    }
    uint8_t made[LOAD_BYTES];
    const uint8_t * src = op->is_load ? l->data : x->in[op->i_data];
    uint8_t * dst = op->is_load ? x->out[op->i_data] : made;
    bool is_signed = op->is_signed || sem_sign(x);
    uint32_t shift = op->i_shift >= 0 ? load_u32(x->in[op->i_shift]) : 0;
    uint32_t sat = sem_control(x, AIE_CR_SAT), rnd = sem_control(x, AIE_CR_RND);
    struct sem_widths w = sem_widths(x, op->narrow, op->wide);
    int lanes = 8 * op->bytes / w.narrow, flags = 0;
    switch (op->fuse) {
    case FUSE_UPS:
        flags = sem_ups(dst, src, lanes, w.narrow, w.wide, is_signed, shift, sat);
        break;
    case FUSE_SRS:
        flags = sem_srs(dst, src, lanes, w.wide, w.narrow, is_signed, shift, sat, rnd);
        break;
    case FUSE_PACK:
        flags = sem_pack(dst, src, lanes, w.wide, is_signed, sat);
        break;
    case FUSE_UNPACK:
        sem_unpack(dst, src, lanes, w.narrow, is_signed);
        break;
    default:
        if (op->is_load) {
            sem_bf16_to_fp32(dst, src, lanes);
        } else {
            flags = sem_fp32_to_bf16(dst, src, lanes, rnd);
        }
        break;
    }
    if (flags < 0) {
        core_fault_at(c, op, "a shift by %d is not known", (int) shift);
        return;
    }
    sem_status(x, (uint32_t) flags);
    if (!op->is_load) {
        if (op->store_delay) {
            core_store_later(c, op, l->memory, made, op->bytes, op->store_delay);
        } else {
            memcpy(l->memory, made, op->bytes);
        }
    }
}

// ---- preparing ----

// The rest of the mnemonic after its base and 2d / 3d, and what it stands for. bytes 0: as many as
// the data register has.
static const struct {
    const char *base, *rest;
    core_issue_fn issue;
    uint8_t bytes, is_signed;
} plain[] = {
    {"lda", "", op_load_scalar, 0, 0},
    {"lda", "s8", op_load_scalar, 1, 1},
    {"lda", "u8", op_load_scalar, 1, 0},
    {"lda", "s16", op_load_scalar, 2, 1},
    {"lda", "u16", op_load_scalar, 2, 0},
    {"vlda", "", op_load_vector_32, 0, 0},
    {"vldb", "", op_load_vector_32, 0, 0},
    {"vlda", "128", op_load_half_vector, 16, 0},
    {"vldb", "128", op_load_half_vector, 16, 0},
    {"st", "", op_store, 0, 0},
    {"st", "s8", op_store_partial, 1, 0},
    {"st", "s16", op_store_partial, 2, 0},
    {"vst", "", op_store, 0, 0},
    {"vst", "128", op_store, 16, 0},
    {"padda", "", op_padd, 1, 0},
    {"paddb", "", op_padd, 1, 0},
    {"padds", "", op_padd, 1, 0},
    {"paddxm", "", op_padd, 1, 0},
};

static const struct {
    const char *base, *prefix;
    enum core_fuse fuse;
    bool narrow_first; // of the two types that follow the prefix
} fused[] = {
    {"vlda", "ups.", FUSE_UPS, false},      {"vldb", "unpack.", FUSE_UNPACK, false},
    {"vst", "srs.", FUSE_SRS, true},        {"vst", "pack.", FUSE_PACK, true},
    {"vlda", "conv.", FUSE_CONV, false},    {"vst", "conv.", FUSE_CONV, true},
    {"vldb", "unpack", FUSE_UNPACK, false}, {"vst", "pack", FUSE_PACK, true},
};

struct mnemonic {
    char base[8];
    int dims;
    char rest[24];
};

static bool split_mnemonic(const char * text, struct mnemonic * m) {
    char word[40];
    size_t n = strcspn(text, " ");
    if (n >= sizeof word) {
        return false;
    }
    memcpy(word, text, n);
    word[n] = 0;
    char * rest = strchr(word, '.');
    rest = rest ? rest : word + n;
    size_t base = (size_t) (rest - word);
    if (base >= sizeof m->base) {
        return false;
    }
    memcpy(m->base, word, base);
    m->base[base] = 0;
    m->dims = 1;
    if (strncmp(rest, ".2d", 3) == 0 || strncmp(rest, ".3d", 3) == 0) {
        m->dims = rest[1] - '0';
        rest += 3;
    }
    return snprintf(m->rest, sizeof m->rest, "%s", *rest ? rest + 1 : "") < (int) sizeof m->rest;
}

// How the brackets say the address is made; false for a shape that no instruction has.
static bool prepare_address(const struct core_target * target, struct core_op * op, int dims) {
    int index[AIE_MAX_OPERANDS];
    char where[AIE_MAX_OPERANDS];
    int n = core_text_operands(op->instr, index, where);
    bool has_ptr = strstr(op->instr->text, "[sp") != NULL;
    op->ptr = UNIT_SP;
    op->addressing = ADDR_IMM;
    op->imm = 0;
    for (int k = 0; k < n; k++) {
        const struct aie_operand * o = &op->instr->operands[index[k]];
        int32_t value = op->inst.values[index[k]];
        int kind = o->is_imm ? -1 : (int) AIE_REG_KIND(value);
        struct core_span span = {0};
        bool word = !o->is_imm && core_reg_span(target, (aie_reg) value, &span) && span.size == 4;
        if (where[k] == '[') {
            has_ptr = word && kind == AIE_P;
            op->ptr = span.unit;
        } else if (where[k] == ']' && o->is_imm) {
            op->imm = value;
        } else if (where[k] == ']' && word) {
            op->addressing = ADDR_REG;
            op->mod = span.unit;
        } else if (where[k] == '+' && o->is_imm) {
            op->addressing = ADDR_POST_IMM;
            op->imm = value;
        } else if (where[k] == '+' && (kind == AIE_D || kind == AIE_D3)) {
            op->addressing = kind == AIE_D ? ADDR_2D : ADDR_3D;
            op->mod = (uint8_t) AIE_REG_NUM(value);
        } else if (where[k] == '+' && word) {
            op->addressing = ADDR_POST_REG;
            op->mod = span.unit;
        } else if (where[k] != ' ') {
            return false;
        }
    }
    bool walks = op->addressing == ADDR_2D   ? dims == 2
                 : op->addressing == ADDR_3D ? dims == 3
                                             : dims == 1;
    return has_ptr && walks;
}

static bool prepare_data(const struct core_target * target, struct core_op * op) {
    int index[AIE_MAX_OPERANDS];
    char where[AIE_MAX_OPERANDS];
    int n = core_text_operands(op->instr, index, where);
    for (int k = 0; k < n && where[k] == ' '; k++) {
        if (k == 0) {
            op->i_data = (int8_t) index[k];
            if (!core_reg_span(target, (aie_reg) op->inst.values[index[k]], &op->data)) {
                return false;
            }
            const struct aie_operand * o = &op->instr->operands[index[k]];
            op->latency = o->def_cycle;
            op->data.bypass = o->def_bypass;
        } else {
            op->i_shift = (int8_t) index[k];
        }
    }
    return true;
}

bool core_prepare_access(struct core * c, struct core_op * op, int dims) {
    return prepare_address(c->traits, op, dims) && prepare_data(c->traits, op);
}

static bool prepare_fused(struct core_op * op, const struct mnemonic * m) {
    for (size_t i = 0; i < sizeof fused / sizeof fused[0]; i++) {
        size_t n = strlen(fused[i].prefix);
        if (strcmp(fused[i].base, m->base) != 0 || strncmp(fused[i].prefix, m->rest, n) != 0) {
            continue;
        }
        char t1[4], t2[4];
        int w1, w2, ratio = 2;
        if (sscanf(m->rest + n, "%3[a-z]%d.%3[a-z]%d", t1, &w1, t2, &w2) == 4) {
            op->narrow = (uint8_t) (fused[i].narrow_first ? w1 : w2);
            op->wide = (uint8_t) (fused[i].narrow_first ? w2 : w1);
            op->is_signed = (fused[i].narrow_first ? t1 : t2)[0] == 's';
            ratio = op->wide / op->narrow;
        } else if (m->rest[n] == 0 || sscanf(m->rest + n, "%dx", &ratio) == 1) {
            op->wide = (uint8_t) ratio; // the widths are in a control register
        } else {
            return false;
        }
        op->fuse = (uint8_t) fused[i].fuse;
        op->bytes = (uint8_t) (op->data.size / ratio);
        op->issue = op_fused;
        op->store_delay = op->instr->stores ? (uint8_t) (op->instr->mem_cycle - 5) : 0;
        bool size_ok = op->bytes == 32 || op->bytes == LOAD_BYTES;
        return size_ok && op->i_data >= 0 && op->instr->mem_cycle >= 5;
    }
    return false;
}

// Whole vectors have functions of their own, by width and by the frequent forms of addresses.
static void prepare_short_way(struct core_op * op) {
    static const core_issue_fn loads[2][3] = {
        {op_load_vector_32, op_load_vector_imm_32, op_load_vector_post_imm_32},
        {op_load_vector_64, op_load_vector_imm_64, op_load_vector_post_imm_64}};
    static const core_issue_fn stores[2][3] = {
        {op_store, op_store_vector_imm_32, op_store_vector_post_imm_32},
        {op_store, op_store_vector_imm_64, op_store_vector_post_imm_64}};
    int wide = op->bytes == 64;
    int form = op->addressing == ADDR_IMM ? 1 : op->addressing == ADDR_POST_IMM ? 2 : 0;
    if (op->issue == op_load_vector_32) {
        op->issue = loads[wide][form];
        op->lands = core_vector_units(&op->data);
    } else if (op->issue == op_store && (op->bytes == 32 || wide)) {
        op->issue = stores[wide][form];
    }
}

bool core_prepare_memory(struct core * c, struct core_op * op) {
    struct mnemonic m;
    if (!split_mnemonic(op->instr->text, &m) || strchr(op->instr->text, '[') == NULL) {
        return false;
    }
    if (!core_prepare_access(c, op, m.dims)) {
        return false;
    }
    if (prepare_fused(op, &m)) {
        return !op->odd_register;
    }
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (strcmp(plain[i].base, m.base) != 0 || strcmp(plain[i].rest, m.rest) != 0) {
            continue;
        }
        op->issue = plain[i].issue;
        op->bytes = plain[i].bytes ? plain[i].bytes : (uint8_t) op->data.size;
        op->is_signed = plain[i].is_signed;
        if (op->bytes == 16 && op->issue == op_load_scalar) {
            op->issue = op_load_half_vector; // q
        }
        prepare_short_way(op);
        if (op->issue == op_store_partial) {
            op->flags |= BUNDLE_PARTIAL_STORE;
            return op->n_stages > 1 && op->data.size == 4;
        }
        return core_reads_at_issue(op);
    }
    return false;
}
