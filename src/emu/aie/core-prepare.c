// core-prepare: turns the bytes at a PC into a core_bundle, once, when the PC is first reached. The
// bundle goes into the core's program, which other cores may share (core-code.c): nothing in it may
// depend on the core, and nothing changes afterwards.
//
// Every instruction gets lists of its sources (with the cycle in which each is read) and results
// (with the cycle in which each is there); a family that knows better - scalars, memory, control,
// outside - then takes the fields it wants. All string work of the core happens here.
#include "emu/aie/core-impl.h"

#include <stdlib.h>

int core_text_operands(const struct aie_instr * instr, int index[AIE_MAX_OPERANDS],
                       char where[AIE_MAX_OPERANDS]) {
    int n = 0;
    char place = ' ';
    for (const char * t = instr->text; *t; t++) {
        if (*t == '[') {
            place = '[';
        } else if (*t == ']') {
            place = '+';
        } else if (*t == ',' && place == '[') {
            place = ']';
        } else if (*t == '%' && t[1] && n < AIE_MAX_OPERANDS) {
            t++;
            for (int i = 0; i < instr->n_explicit; i++) {
                if (instr->operands[i].field == *t) {
                    index[n] = i;
                    where[n++] = place;
                    break;
                }
            }
        }
    }
    return n;
}

// Registers that only serve to make an address: read at issue by the address unit itself.
static bool is_address_kind(enum aie_reg_kind kind) {
    return (kind >= AIE_P && kind <= AIE_DC) || kind == AIE_D || kind == AIE_D3 || kind == AIE_SPC;
}

static void list_source(struct core_op * op, int i, aie_reg reg, const struct core_span * pieces,
                        int n) {
    const struct aie_operand * o = &op->instr->operands[i];
    struct core_in * in = &op->in[op->n_in++];
    *in = (struct core_in){.index = (uint8_t) i,
                           .bypass = (uint8_t) aie_bypass_of(o->use_bypass, reg),
                           .stage = o->use_cycle ? o->use_cycle : 1, // a cycle until staged
                           .offset = pieces[0].offset,
                           .size = pieces[0].size};
    if (n == 1) {
        return;
    }
    if (n == 0 || op->n_pieces + n > CORE_MAX_GATHER) {
        op->odd_register = true;
        return;
    }
    in->gather = (uint8_t) n;
    in->first_piece = op->n_pieces;
    in->size = 0;
    for (int k = 0; k < n; k++) {
        op->pieces[op->n_pieces++] = (struct core_piece){pieces[k].offset, pieces[k].size};
        in->size = (uint16_t) ((in->size + CELL - 1) / CELL * CELL + pieces[k].size);
    }
}

// The pieces of one result are listed one after the other: so their data will lie.
static void list_result(struct core_op * op, int i, aie_reg reg, const struct core_span * pieces,
                        int n) {
    const struct aie_operand * o = &op->instr->operands[i];
    if (n == 0 || op->n_out + n > CORE_MAX_OUTS) {
        op->odd_register = true;
        return;
    }
    for (int k = 0; k < n; k++) {
        struct core_out * out = &op->out[op->n_out++];
        *out = (struct core_out){.index = (uint8_t) (k ? CORE_NOWHERE : i),
                                 .cycle = o->def_cycle ? o->def_cycle : 1,
                                 .sticky = AIE_REG_KIND(reg) == AIE_SR,
                                 .span = pieces[k]};
        out->span.bypass = (uint8_t) aie_bypass_of(o->def_bypass, reg);
    }
}

static void list_operand(const struct core_target * target, struct core_op * op, int i,
                         aie_reg reg) {
    enum aie_reg_kind kind = AIE_REG_KIND(reg);
    struct core_span pieces[CORE_MAX_PIECES] = {{0}};
    bool level = kind == AIE_R && i >= op->instr->n_explicit; // of a fifo, beside its pointer
    if (kind == AIE_NONE || (op->instr->mem_cycle != 0 && (is_address_kind(kind) || level))) {
        return;
    }
    int n = core_reg_pieces(target, reg, pieces);
    if (op->instr->operands[i].role & AIE_USE) {
        list_source(op, i, reg, pieces, n);
    }
    if (op->instr->operands[i].role & AIE_DEF) {
        list_result(op, i, reg, pieces, n);
    }
}

// Sources are read in up to four stages; the last one executes. A control register that is read
// later than the result is there (crFPMask of the float adders) only masks status flags: it is read
// with the last real source.
static void stage_sources(struct core_op * op) {
    int limit = RING - 1;
    for (int k = 0; k < op->n_out; k++) {
        if (!op->out[k].sticky && op->out[k].cycle < limit) {
            limit = op->out[k].cycle;
        }
    }
    op->stage_cycle[0] = 1;
    op->n_stages = 1;
    for (int cycle = 2; cycle <= limit; cycle++) {
        bool used = false;
        for (int k = 0; k < op->n_in; k++) {
            used |= op->in[k].stage == cycle;
        }
        if (used && op->n_stages < CORE_MAX_STAGES) {
            op->stage_cycle[op->n_stages++] = (uint8_t) cycle;
        }
    }
    int at = CORE_FUSED; // the first bytes hold what a fused load read
    for (int k = 0; k < op->n_in; k++) {
        struct core_in * in = &op->in[k];
        int stage = 0;
        while (stage < op->n_stages - 1 && op->stage_cycle[stage] < in->stage) {
            stage++;
        }
        in->stage = (uint8_t) stage;
        if (stage < op->n_stages - 1) {
            in->capture = (uint16_t) at;
            at += (in->size + 15) & ~15;
        }
    }
    op->odd_register |= at > CORE_CAPTURE;
}

// Sources that are read when the instruction executes, with nothing between them and the register,
// come first in in[]; then those that are captured at issue. Status flags come last in out[].
static void fix_sources(struct core_op * op) {
    struct core_in in[AIE_MAX_OPERANDS];
    int last = op->n_stages - 1, n = 0, count[3] = {0};
    for (int pass = 0; pass < 3; pass++) {
        for (int k = 0; k < op->n_in; k++) {
            const struct core_in * i = &op->in[k];
            bool fixed = i->stage == last && !i->bypass && !i->gather;
            bool first = i->stage == 0 && last > 0;
            if ((fixed ? 0 : first ? 1 : 2) == pass) {
                in[n++] = *i;
                count[pass]++;
            }
        }
    }
    memcpy(op->in, in, sizeof in[0] * (size_t) n);
    op->n_fixed_in = (uint8_t) count[0];
    op->n_first_in = (uint8_t) count[1];
    n = 0;
    for (int k = 0; k < op->n_out; k++) {
        struct core_out out = op->out[k];
        if (!out.sticky) {
            op->out[k] = op->out[n];
            op->out[n++] = out;
        }
    }
    op->n_plain_out = (uint8_t) n;
    op->no_in = op->no_out = (uint16_t) ((1u << op->instr->n_operands) - 1);
    for (int k = 0; k < op->n_in; k++) {
        op->no_in &= (uint16_t) ~(1u << op->in[k].index);
    }
    for (int k = 0; k < op->n_out; k++) {
        if (op->out[k].index != CORE_NOWHERE) {
            op->no_out &= (uint16_t) ~(1u << op->out[k].index);
        }
    }
}

// A register copied as it is: what the sizes of the two have in common.
static bool copy(struct core_exec * x) {
    memcpy(x->out[0], x->in[1], (size_t) x->imm[0]);
    return true;
}

bool core_copy(struct core_exec * x) {
    (void) x;
    return false; // stands in a table only: prepare_copy() puts copy() in its place
}

static void prepare_copy(struct core_op * op) {
    // imm[0] is free in an instruction without immediates: it gives copy() the size
    int d = 0, s = op->in[0].size;
    for (int k = 0; k < op->n_out; k++) {
        d = (d + CELL - 1) / CELL * CELL + op->out[k].span.size;
    }
    op->imms[0] = d < s ? d : s;
    op->odd_register |= op->n_in != 1 || op->in[0].index != 1 || d != s;
    op->semantic = copy;
}

// The short way of a multiply-accumulate, if its operands come as core_issue_mac wants them.
static void prepare_mac(struct core_op * op) {
    const struct core_in * first = &op->in[op->n_fixed_in];
    uint8_t bytes = op->n_first_in && first->size == 128 ? 128 : 64;
    const uint8_t sizes[3] = {bytes, bytes, 4}; // x, y, configuration
    core_mac_fn fn = op->meaning->mac;
    int acc = -1;
    if (fn == NULL || op->n_stages != 2 || op->n_first_in != 3 || op->n_plain_out != 1) {
        return;
    }
    for (int k = 0; k < op->n_in; k++) {
        acc = op->in[k].index == 1 ? k : acc;
    }
    for (int k = 0, at = CORE_FUSED; k < 3; at += sizes[k++]) {
        if (first[k].size != sizes[k] || first[k].bypass || first[k].gather ||
            first[k].capture != at) {
            return;
        }
    }
    if (acc < 0 || op->in[acc].stage != 1 || op->in[acc].size != op->out[0].span.size) {
        return;
    }
    op->mac = (struct core_mac){.fn = fn,
                                .x = first[0].offset,
                                .y = first[1].offset,
                                .conf = first[2].offset,
                                .bytes = bytes,
                                .delay = (uint8_t) (op->stage_cycle[1] - 1),
                                .acc = op->in[acc]};
    op->issue = core_issue_mac;
}

static void prepare_single(struct core_op * op) {
    bool single = op->semantic && op->n_stages == 1 && op->n_out == 1 && op->n_plain_out == 1;
    for (int k = 0; k < op->n_in; k++) {
        single &= op->in[k].gather == 0;
    }
    op->issue = single ? core_issue_single : op->issue;
}

static bool prepare_lanes(struct core * c, struct core_op * op) {
    (void) c;
    op->semantic = op->meaning->fn;
    if (op->semantic == core_copy) {
        prepare_copy(op);
    }
    prepare_mac(op);
    prepare_single(op);
    return !op->odd_register;
}

static bool prepare_op(struct core * c, struct core_op * op, const struct core_bundle * b,
                       const struct aie_inst * inst) {
    op->bundle = b;
    op->inst = *inst;
    op->instr = aie_isa_instr(c->isa, inst->op);
    op->issue = core_issue_generic;
    op->i_data = op->i_shift = -1;
    op->is_load = op->instr->loads && !op->instr->stores;
    for (int i = 0; i < op->instr->n_operands; i++) {
        const struct aie_operand * o = &op->instr->operands[i];
        if (o->is_imm) {
            op->imms[i] = inst->values[i];
        } else {
            list_operand(c->traits, op, i, aie_inst_reg(op->instr, inst, i));
        }
    }
    stage_sources(op);
    fix_sources(op);
    static bool (*const families[])(struct core *, struct core_op *) = {
        [CORE_SCALAR] = core_prepare_scalar,   [CORE_CONTROL] = core_prepare_control,
        [CORE_OUTSIDE] = core_prepare_outside, [CORE_MEMORY] = core_prepare_memory,
        [CORE_LOOKUP] = core_prepare_lookup,   [CORE_FIFO] = core_prepare_fifo,
        [CORE_LANES] = prepare_lanes,
    };
    op->meaning = core_meaning_of(c->traits, inst->op);
    if (op->meaning == NULL || !families[op->meaning->family](c, op)) {
        core_fault_at(c, op, "the emulator does not implement %s: %s", op->instr->name,
                      core_refusal_of(c->traits, op->instr->name));
    }
    return !c->faulted;
}

struct core_bundle * core_prepare(struct core * c, uint32_t pc) {
    struct aie_bundle decoded;
    struct error err = {0};
    if (pc >= CORE_PM_BYTES || pc % 2 != 0) {
        core_fault_at(c, NULL, "the program counter left program memory (0x0-0x%x, even)",
                      CORE_PM_BYTES - 1);
        return NULL;
    }
    if (aie_bundle_decode(c->isa, c->program + pc, CORE_PM_BYTES - pc, &decoded, &err) != ST_OK) {
        core_fault_at(c, NULL, "not an instruction: %s", err.text);
        return NULL;
    }
    for (int s = 0; s < AIE_SLOT_COUNT && c->env.plant_as; s++) {
        if (decoded.present >> s & 1 && decoded.slot[s].op == c->env.plant_op) {
            decoded.slot[s].op = (uint16_t) c->env.plant_as;
        }
    }
    const struct aie_inst * insts[AIE_SLOT_COUNT];
    int n = 0;
    for (int pass = 0; pass < 2; pass++) { // loads first
        for (int s = 0; s < AIE_SLOT_COUNT; s++) {
            if (!(decoded.present >> s & 1) || decoded.slot[s].op == aie_isa_nop(c->isa, s)) {
                continue;
            }
            const struct aie_instr * instr = aie_isa_instr(c->isa, decoded.slot[s].op);
            if ((instr->loads && !instr->stores) == (pass == 0)) {
                insts[n++] = &decoded.slot[s];
            }
        }
    }
    void * memory = NULL;
    size_t size = sizeof(struct core_bundle) + (size_t) n * sizeof(struct core_op);
    if (posix_memalign(&memory, _Alignof(struct core_bundle), size) != 0) {
        core_fault_at(c, NULL, "out of memory while preparing the program");
        return NULL;
    }
    struct core_bundle * b = memset(memory, 0, size);
    b->pc = (uint16_t) pc;
    b->size = decoded.size;
    b->n_ops = (uint8_t) n;
    for (int i = 0; i < n; i++) {
        if (!prepare_op(c, &b->ops[i], b, insts[i])) {
            free(b);
            return NULL;
        }
        b->flags |= b->ops[i].flags;
        b->n_loads = (uint8_t) (b->n_loads + b->ops[i].is_load);
    }
    return core_code_add(c->cache, c->code, b, size);
}
