// core-flight: what is in flight in a core, cycle by cycle: results that land, sources that are
// read past those that land next, banks that are asked for. Inlined into the two loops that execute
// bundles (core.c, one by one, and core-turns.c) and into what they call; shared by those only.
#pragma once

#include "emu/aie/core-impl.h"

// ---- results ----

static inline void commit_scalar(struct core * c, const struct core_write * w,
                                 const uint8_t * data) {
    if (w->span.n_units == 0) {
        uint32_t v;
        memcpy(&v, data, 4);
        reg_put_u32(c, w->span.unit, reg_u32(c, w->span.unit) | v);
        return;
    }
    for (int u = w->span.unit; u < w->span.unit + w->span.n_units; u++) {
        if (c->stamp[u] == c->cycle) {
            core_fault_two_writers(c, w->op);
        }
        c->stamp[u] = c->cycle;
    }
    if (w->span.size == 4) {
        uint32_t v;
        memcpy(&v, data, 4);
        reg_put_u32(c, w->span.unit, v);
    } else {
        memcpy(c->regs + w->span.offset, data, w->span.size);
    }
}

// landed: the vector units that results of this cycle went to.
static inline void commit_write(struct core * c, const struct core_write * w, const uint8_t * data,
                                uint64_t * landed) {
    if (w->span.unit < CORE_WORDS) {
        commit_scalar(c, w, data);
        return;
    }
    uint64_t units = core_vector_units(&w->span);
    if (*landed & units) {
        core_fault_two_writers(c, w->op);
    }
    *landed |= units;
    uint8_t * to = c->regs + w->span.offset;
    if (w->span.size == 64) {
        memcpy(to, data, 64);
    } else if (w->span.size == 32) {
        memcpy(to, data, 32);
    } else if (w->span.size == 128) {
        memcpy(to, data, 128);
    } else if (w->span.size == 256) {
        memcpy(to, data, 256);
    } else {
        memcpy(to, data, w->span.size);
    }
}

static inline void commit_load(struct core * c, const struct core_op * op, const uint8_t * data,
                               uint64_t * landed) {
    if (*landed & op->lands) {
        core_fault_two_writers(c, op);
    }
    *landed |= op->lands;
    uint8_t * to = c->regs + op->data.offset;
    if (op->data.size == 32) {
        memcpy(to, data, 32);
    } else {
        memcpy(to, data, LOAD_BYTES);
    }
}

// Time moves on by one; what is due becomes visible.
static inline void tick(struct core * c) {
    uint64_t cycle = ++c->cycle;
    int n = c->n_write1;
    for (int i = 0; i < n; i++) {
        const struct core_write1 * w = &c->write1[i];
        if (c->stamp[w->unit] == cycle) {
            core_fault_two_writers(c, w->op);
        }
        c->stamp[w->unit] = cycle;
        reg_put_u32(c, w->unit, w->value);
    }
    c->n_write1 = 0;
    int slot = (int) (cycle % RING);
    struct core_due * due = &c->due[slot];
    uint64_t landed = 0;
    const struct core_loads * l = &c->loads[slot];
    switch (due->loads) { // at most LOADS
    case 3:
        commit_load(c, l->op[2], l->data[2], &landed);
        // fall through
    case 2:
        commit_load(c, l->op[1], l->data[1], &landed);
        // fall through
    case 1:
        commit_load(c, l->op[0], l->data[0], &landed);
        due->loads = 0;
        // fall through
    default:
        break;
    }
    n = due->writes;
    if (n) {
        const struct core_landing * w = &c->writes[slot];
        for (int i = 0; i < n; i++) {
            commit_write(c, &w->list[i], w->data + CELL * w->list[i].span.cell, &landed);
        }
        due->writes = due->bypass = due->cells = 0;
    }
}
_Static_assert(LOADS == 3, "a case for each");

// ---- sources ----

// The source as a bypass sees it: results of the same kind that land in the next cycle count
// already.
static inline const uint8_t * read_bypassed(struct core * c, int offset, int size, int bypass,
                                            uint8_t * scratch) {
    const uint8_t * live = c->regs + offset;
    int slot = (int) ((c->cycle + 1) % RING);
    for (int i = 0; i < c->due[slot].writes; i++) {
        const struct core_write * w = &c->writes[slot].list[i];
        const uint8_t * data = c->writes[slot].data + CELL * w->span.cell;
        int from = w->span.offset, to = from + w->span.size;
        int lo = offset > from ? offset : from;
        int hi = offset + size < to ? offset + size : to;
        if ((int) w->span.bypass != bypass || lo >= hi) {
            continue;
        }
        if (lo == offset && hi == offset + size) {
            return data + (lo - from);
        }
        if (live != scratch) {
            memcpy(scratch, live, (size_t) size);
            live = scratch;
        }
        memcpy(scratch + (lo - offset), data + (lo - from), (size_t) (hi - lo));
    }
    return live;
}

// A source that lies in pieces, put together.
static inline const uint8_t * read_pieces(struct core * c, const struct core_op * op,
                                          const struct core_in * in, uint8_t * scratch) {
    bool bypassed = in->bypass && c->due[(c->cycle + 1) % RING].bypass;
    int at = 0;
    for (int i = 0; i < in->gather; i++) {
        const struct core_piece * p = &op->pieces[in->first_piece + i];
        uint8_t other[LOAD_BYTES];
        const uint8_t * from = c->regs + p->offset;
        if (bypassed) {
            from = read_bypassed(c, p->offset, p->size, in->bypass, other);
        }
        memcpy(scratch + at, from, p->size);
        at += (p->size + CELL - 1) / CELL * CELL;
    }
    return scratch;
}

static inline const uint8_t * read_live(struct core * c, const struct core_op * op,
                                        const struct core_in * in, int scratch) {
    if (in->gather) {
        return read_pieces(c, op, in, c->scratch[scratch]);
    }
    if (in->bypass && c->due[(c->cycle + 1) % RING].bypass) {
        return read_bypassed(c, in->offset, in->size, in->bypass, c->scratch[scratch]);
    }
    return c->regs + in->offset;
}

static inline void capture(struct core * c, struct core_late * l, int k) {
    const struct core_in * in = &l->op->in[k];
    const uint8_t * from = read_live(c, l->op, in, k);
    uint8_t * to = l->data + in->capture;
    if (in->size == 4) {
        memcpy(to, from, 4);
    } else if (in->size == 64) {
        memcpy(to, from, 64);
    } else {
        memcpy(to, from, in->size);
    }
}

// ---- instructions ----

// What an instruction gets whatever its operands are. Of those only the absent ones are cleared:
// clearing all takes longer than what most instructions do.
static inline void begin_exec(struct core_exec * x, struct core * c, const struct core_op * op) {
    x->core = c;
    x->instr = op->instr;
    x->imm = op->imms;
    for (unsigned left = op->no_in; left; left &= left - 1) {
        x->in[__builtin_ctz(left)] = NULL;
    }
    for (unsigned left = op->no_out; left; left &= left - 1) {
        x->out[__builtin_ctz(left)] = NULL;
    }
}

// The short way for one result, which goes to `to`, and sources that are all read at issue, each in
// one piece.
static inline void execute_single(struct core * c, const struct core_op * op, uint8_t * to) {
    struct core_exec x;
    bool bypassed = c->due[(c->cycle + 1) % RING].bypass;
    begin_exec(&x, c, op);
    const struct core_in * end = op->in + op->n_in;
    for (const struct core_in * in = op->in; in < end; in++) {
        x.in[in->index] = c->regs + in->offset;
        if (bypassed && in->bypass) {
            x.in[in->index] =
                read_bypassed(c, in->offset, in->size, in->bypass, c->scratch[in - op->in]);
        }
    }
    x.out[op->out[0].index] = to;
    if (!op->semantic(&x)) {
        core_fault_at(c, op, "no meaning is known for these operand values");
    }
}

// ---- stalls ----

// The core stands still for n cycles; what is in flight stands still with it.
static inline void stall(struct core * c, uint64_t n) {
    c->offset += n;
    c->stalls += n;
}

// The accesses of this cycle have asked for their banks.
static inline void stall_at_banks(struct core * c) {
    struct bank_use * use = &c->banks[c->cycle % RING];
    if (use->once == 0) {
        return;
    }
    if (use->twice) {
        int n = bank_stalls(use);
        stall(c, (uint64_t) n);
        c->bank_stalls += (uint64_t) n;
    }
    *use = (struct bank_use){0};
}
