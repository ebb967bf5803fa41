// asm/value-flow: which write each operand of a late loop is to see, for the checker. It follows
// from the order in which the author wrote the instructions of a trip and from when each of them
// issues; of registers it takes no more than which part of a value an operand is.
#include "pipeline.h"

#include <stdlib.h>
#include <string.h>

void asm_flow_free(struct asm_flow * f) {
    if (f) {
        free(f->issues);
        free(f->nodes);
        free(f);
    }
}

// The place of an operand's first unit among those of its whole register.
static int offset_in(const struct asm_program * p, enum asm_class cls, int phys, int part) {
    uint8_t whole[ASM_FLOW_UNITS], units[ASM_FLOW_UNITS];
    int n = aie_reg_units(asm_phys(p->target, cls, phys, -1), whole), at = 0;
    aie_reg_units(asm_phys(p->target, cls, phys, part), units);
    while (at < n && whole[at] != units[0]) {
        at++;
    }
    return at < n ? at : 0;
}

static int units_of(const struct asm_program * p, enum asm_class cls, int phys, int part) {
    uint8_t units[ASM_FLOW_UNITS];
    return aie_reg_units(asm_phys(p->target, cls, phys, part), units);
}

// The last writer of a part of a value.
struct writer {
    int node; // -1 = nobody
    uint8_t part;
};

// One operand: what it reads was written last by `writers`, and what it writes is its own.
static void follow(const struct pipeline * q, int i, int k,
                   struct writer (*writers)[ASM_FLOW_UNITS], struct asm_flow * f, int role) {
    const struct asm_program * p = q->p;
    const struct asm_node * n = &p->nodes[q->deps.first + i];
    struct asm_reg r = n->args[k].reg;
    enum asm_class cls = (enum asm_class) p->vregs[r.id].cls;
    if (p->target->classes[cls].file == AIE_FILE_SCALAR ||
        q->lives[r.id].from >= q->lives[r.id].to) {
        return;
    }
    int phys = q->phys[r.id * q->copies], from = offset_in(p, cls, phys, r.part);
    for (int u = 0; u < units_of(p, cls, phys, r.part) && from + u < ASM_FLOW_UNITS; u++) {
        struct writer * w = &writers[r.id][from + u];
        if (role == AIE_DEF) {
            *w = (struct writer){i, (uint8_t) u};
        } else if (w->node >= 0) {
            f->nodes[i].from[k][u] = (struct asm_source){
                .distance = (int16_t) (q->time[i] - q->time[w->node]),
                .slot = (uint8_t) asm_instr(p, q->op[w->node])->slot,
                .part = w->part,
            };
        }
    }
}

static void follow_all(const struct pipeline * q, struct writer (*writers)[ASM_FLOW_UNITS],
                       struct asm_flow * f) {
    static const int roles[] = {AIE_USE, AIE_DEF};
    for (int i = 0; i < q->deps.count; i++) {
        const struct asm_node * n = &q->p->nodes[q->deps.first + i];
        for (int pass = 0; pass < 2; pass++) {
            for (unsigned left = n->locals; left; left &= left - 1) {
                int k = __builtin_ctz(left);
                if (deps_instr(&q->deps, i)->operands[k].role & roles[pass]) {
                    follow(q, i, k, writers, f, roles[pass]);
                }
            }
        }
    }
}

static void note_units(const struct pipeline * q, struct asm_flow * f) {
    for (int l = 0; l < q->n_locals; l++) {
        int v = q->locals[l];
        enum asm_class cls = (enum asm_class) q->p->vregs[v].cls;
        bool is_vector = q->p->target->classes[cls].file != AIE_FILE_SCALAR;
        for (int c = 0; is_vector && c < q->copies && q->lives[v].from < q->lives[v].to; c++) {
            uint8_t units[ASM_FLOW_UNITS];
            int n =
                aie_reg_units(asm_phys(q->p->target, cls, q->phys[v * q->copies + c], -1), units);
            for (int u = 0; u < n; u++) {
                f->units[units[u] / 64] |= 1ull << units[u] % 64;
            }
        }
    }
}

struct asm_flow * asm_flow_new(const struct pipeline * q) {
    size_t n = (size_t) q->deps.count, vregs = (size_t) q->p->n_vregs + 1;
    struct writer(*writers)[ASM_FLOW_UNITS] = malloc(vregs * sizeof *writers);
    struct asm_flow * f = calloc(1, sizeof *f);
    if (f) {
        f->nodes = malloc((n + 1) * sizeof *f->nodes);
        f->turns = q->stages + 1;
    }
    if (!writers || !f || !f->nodes) {
        q->p->no_memory = true;
        asm_flow_free(f);
        free(writers);
        return NULL;
    }
    memset(writers, -1, vregs * sizeof *writers);
    for (size_t i = 0; i < n; i++) {
        for (int k = 0; k < ASM_FLOW_ARGS; k++) {
            for (int u = 0; u < ASM_FLOW_UNITS; u++) {
                f->nodes[i].from[k][u] = (struct asm_source){.distance = ASM_FLOW_NONE};
            }
        }
    }
    follow_all(q, writers, f);
    note_units(q, f);
    free(writers);
    return f;
}

void asm_flow_issue(struct pipeline * q, int bundle, int slot, int node) {
    struct asm_flow * f = q->flow;
    if (f && asm_grow(q->p, (void **) &f->issues, &f->cap_issues, f->n_issues, sizeof *f->issues)) {
        f->issues[f->n_issues++] =
            (struct asm_issue){.bundle = bundle, .slot = (uint8_t) slot, .node = (int16_t) node};
    }
}
