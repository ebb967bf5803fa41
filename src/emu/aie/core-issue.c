// core-issue: how an instruction that computes from registers to registers takes its sources, each
// in its stage, and leaves its results in flight. Those whose sources all come at issue are
// executed there, the others wait for them in c->lates.
#include "emu/aie/core-flight.h"

// Bits that the instruction sets in its sticky status register.
static void leave_status(struct core * c, const struct core_op * op, uint64_t issued,
                         uint32_t status) {
    const struct core_out * out = &op->out[op->n_plain_out];
    uint64_t due = issued + out->cycle;
    due = due > c->cycle ? due : c->cycle + 1;
    struct core_span span = out->span;
    span.bypass = AIE_BYPASS_NONE;
    span.n_units = 0;
    memcpy(core_write_at(c, op, due, &span), &status, 4);
}

void core_execute(struct core * c, const struct core_op * op, struct core_late * l) {
    struct core_exec x;
    uint32_t status = 0;
    int last = op->n_stages - 1, k = 0;
    begin_exec(&x, c, op);
    for (; k < op->n_fixed_in; k++) {
        x.in[op->in[k].index] = c->regs + op->in[k].offset;
    }
    for (; k < op->n_in; k++) {
        const struct core_in * in = &op->in[k];
        x.in[in->index] = in->stage < last ? l->data + in->capture : read_live(c, op, in, k);
    }
    uint64_t issued = last ? l->issued : c->cycle;
    for (k = 0; k < op->n_plain_out; k++) {
        const struct core_out * out = &op->out[k];
        x.out[out->index] = core_write_at(c, op, issued + out->cycle, &out->span);
    }
    for (; k < op->n_out; k++) {
        x.out[op->out[k].index] = (uint8_t *) &status;
    }
    if (op->semantic == NULL) {
        core_memory_finish(c, op, l, &x);
    } else if (!op->semantic(&x)) {
        core_fault_at(c, op, "no meaning is known for these operand values");
    }
    if (status) {
        leave_status(c, op, issued, status);
    }
}

void core_issue_single(struct core * c, const struct core_op * op) {
    const struct core_out * out = &op->out[0];
    execute_single(c, op, core_write_at(c, op, c->cycle + out->cycle, &out->span));
}

// A place in the list of those that read sources in the stage's cycle.
static inline struct core_late * late_place(struct core * c, const struct core_op * op,
                                            uint64_t issued, int stage) {
    int slot = (int) ((issued + op->stage_cycle[stage] - 1) % RING);
    if (c->due[slot].lates == LATES) {
        core_fault_at(c, op, "more than %d instructions read sources late in one cycle", LATES);
        return &c->lates[slot][0];
    }
    return &c->lates[slot][c->due[slot].lates++];
}

struct core_late * core_late_start(struct core * c, const struct core_op * op) {
    struct core_late * l = late_place(c, op, c->cycle, 1);
    l->op = op;
    l->issued = c->cycle;
    l->stage = 1;
    for (int k = op->n_fixed_in; k < op->n_fixed_in + op->n_first_in; k++) {
        capture(c, l, k);
    }
    return l;
}

void core_issue_generic(struct core * c, const struct core_op * op) {
    if (op->n_stages == 1) {
        core_execute(c, op, NULL);
    } else {
        core_late_start(c, op);
    }
}

enum { MAC_X = CORE_FUSED }; // in core_late.data; y and the configuration follow

void core_issue_mac(struct core * c, const struct core_op * op) {
    int slot = (int) ((c->cycle + op->mac.delay) % RING), n = c->due[slot].lates;
    if (n == LATES) {
        core_late_start(c, op); // which faults
        return;
    }
    struct core_late * l = &c->lates[slot][n];
    c->due[slot].lates = (uint8_t) (n + 1);
    l->op = op;
    l->issued = c->cycle;
    l->stage = 1;
    uint8_t *x = l->data + MAC_X, *y = x + op->mac.bytes;
    if (op->mac.bytes == 64) {
        memcpy(x, c->regs + op->mac.x, 64);
        memcpy(y, c->regs + op->mac.y, 64);
    } else {
        memcpy(x, c->regs + op->mac.x, 128);
        memcpy(y, c->regs + op->mac.y, 128);
    }
    memcpy(y + op->mac.bytes, c->regs + op->mac.conf, 4);
}

static inline void execute_mac(struct core * c, const struct core_op * op, struct core_late * l) {
    const struct core_span * span = &op->out[0].span;
    uint64_t due = l->issued + op->out[0].cycle;
    const uint8_t *x = l->data + MAC_X, *y = x + op->mac.bytes;
    uint32_t conf;
    memcpy(&conf, y + op->mac.bytes, 4);
    const uint8_t * acc = read_live(c, op, &op->mac.acc, 0);
    uint8_t * out = core_write_at(c, op, due, span);
    if (c->env.ieee || !op->mac.fn(out, acc, x, y, conf)) {
        int slot = (int) (due % RING); // the place is given back: core_execute takes one itself
        c->due[slot].writes--;
        c->due[slot].cells = (uint8_t) (c->due[slot].cells - span->size / CELL);
        c->due[slot].bypass = (uint8_t) (c->due[slot].bypass - (span->bypass != AIE_BYPASS_NONE));
        core_execute(c, op, l);
    }
}

void core_run_late(struct core * c, int slot) {
    for (int i = 0; i < c->due[slot].lates; i++) {
        struct core_late * l = &c->lates[slot][i];
        if (l->op->mac.fn) {
            execute_mac(c, l->op, l);
        } else if (l->stage == l->op->n_stages - 1) {
            core_execute(c, l->op, l);
        } else {
            for (int k = 0; k < l->op->n_in; k++) {
                if (l->op->in[k].stage == l->stage) {
                    capture(c, l, k);
                }
            }
            l->stage++;
            *late_place(c, l->op, l->issued, l->stage) = *l; // a later cycle, another list
        }
    }
    c->due[slot].lates = 0;
}
