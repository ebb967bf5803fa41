// asm/schedules: how the trips of the compiler's own loops overlap, as a table that a tool makes
// (build/bin/aie-tune): the bundle in which each instruction issues and the register that each
// value has. Searching for them takes longer than all other passes together, and a patient search
// finds better ones than a compilation has time for.
//
// A loop is known by a digest of what it is: its instructions in the order in which they are
// written, which of them wait for which, and the registers that its values can have. The digest
// depends neither on the order in which dependences were found nor on how often, nor on the numbers
// of instructions and register classes.
//
// Kept true: a digest is a guess and no proof. Whoever takes a schedule checks it (search_try); one
// that does not hold is as none.
#include "modulo.h"

#include <stdlib.h>

static const struct asm_schedule rows[] = {
#define SCHEDULE(loop, name, ii, copies, plain, window, placement)                                 \
    {loop, name, ii, copies, plain, window, placement},
#define ALONE(loop, name, plain, window) {loop, name, 0, 0, plain, window, NULL},
#include "schedules.def"
#undef SCHEDULE
#undef ALONE
};

const struct asm_schedules asm_own_schedules = {rows, sizeof rows / sizeof rows[0]};

int asm_schedule_order(const void * a, const void * b) {
    const struct asm_schedule * x = a;
    const struct asm_schedule * y = b;
    return (x->loop > y->loop) - (x->loop < y->loop);
}

const struct asm_schedule * schedules_find(const struct asm_schedules * in, uint64_t loop) {
    const struct asm_schedule key = {.loop = loop};
    return in->n ? bsearch(&key, in->rows, in->n, sizeof in->rows[0], asm_schedule_order) : NULL;
}

// ---- what a loop is ----

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

// Two edges between the same instructions and trips say one thing, that with the longer latency.
static bool is_said(const struct deps * d, int e) {
    const struct dep * edge = &d->edges[e];
    for (int o = d->nodes[edge->to].first_in; o >= 0; o = d->edges[o].next_in) {
        const struct dep * other = &d->edges[o];
        if (other->from == edge->from && other->trips == edge->trips &&
            (other->latency > edge->latency || (other->latency == edge->latency && o < e))) {
            return true;
        }
    }
    return false;
}

// A sum, for which the order is nothing.
static uint64_t edges_digest(const struct deps * d) {
    uint64_t sum = 0;
    for (int e = 0; e < d->n_edges; e++) {
        const struct dep * edge = &d->edges[e];
        if (!is_said(d, e)) {
            uint64_t hash = mix((uint64_t) edge->from, (uint64_t) edge->to);
            sum += mix(hash, (uint64_t) (uint16_t) edge->latency << 8 | edge->trips);
        }
    }
    return sum;
}

// The registers that values of the loop can have, by what they are called.
static uint64_t registers_digest(const struct search * s) {
    const struct asm_program * p = s->q->p;
    uint32_t classes = 0;
    uint64_t sum = 0;
    for (int l = 0; l < s->n_locals; l++) {
        classes |= 1u << s->locals[l].cls;
    }
    for (; classes; classes &= classes - 1) {
        int c = __builtin_ctz(classes);
        char name[AIE_REG_NAME_SIZE];
        uint64_t hash = asm_class_set(p, (enum asm_class) c) & ~p->global_taken[c];
        aie_reg_name(AIE_REG(p->target->classes[c].kind, 0), name);
        for (const char * letter = name; *letter; letter++) {
            hash = mix(hash, (uint8_t) *letter);
        }
        sum += hash;
    }
    return sum;
}

uint64_t schedules_digest(const struct search * s) {
    const struct asm_program * p = s->q->p;
    uint64_t hash = mix((uint64_t) p->target->arch, (uint64_t) s->q->rolling);
    hash = mix(mix(hash, p->late), (uint64_t) s->n);
    for (int i = 0; i < s->n; i++) {
        const struct carrier * c = s->nodes[i].carriers;
        const struct aie_instr * instr = asm_instr(p, c[0].op);
        hash = mix(mix(hash, instr->value), instr->mask);
        hash = mix(hash, (uint64_t) instr->slot << 16 | (uint64_t) s->nodes[i].n_carriers << 8 |
                             (uint8_t) c[0].bank);
    }
    return mix(mix(hash, registers_digest(s)), edges_digest(&s->q->deps));
}

// ---- placements as text ----

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";

static char asm_digit(int value) {
    return digits[value];
}

int asm_digit_value(char c) {
    return c >= 'a'   ? c - 'a' + 26
           : c >= 'A' ? c - 'A'
           : c >= '0' ? c - '0' + 52
           : c == '+' ? 62
                      : 63;
}

char * placement_print(const struct search * s) {
    const struct pipeline * q = s->q;
    char * text = malloc(2 * (size_t) s->n + (size_t) (q->n_locals * q->copies) + 1);
    int at = 0;
    for (int i = 0; text && i < s->n; i++) {
        int place = 2 * q->time[i] + s->nodes[i].carrier;
        text[at++] = asm_digit(place / 64);
        text[at++] = asm_digit(place % 64);
    }
    for (int l = 0; text && l < q->n_locals; l++) {
        int v = q->locals[l];
        for (int c = 0; c < q->copies && q->lives[v].from < q->lives[v].to; c++) {
            text[at++] = asm_digit(q->phys[v * q->copies + c]);
        }
    }
    if (text) {
        text[at] = 0;
    }
    return text;
}

bool placement_read(struct search * s, const char * placement) {
    for (int i = 0; i < s->n; i++) {
        if (!placement[2 * i] || !placement[2 * i + 1]) {
            return false;
        }
        int place = 64 * asm_digit_value(placement[2 * i]) + asm_digit_value(placement[2 * i + 1]);
        s->q->time[i] = place / 2;
        s->nodes[i].carrier = place % 2;
    }
    return true;
}

const char * placement_registers(const struct search * s, const char * placement) {
    return placement + 2 * (size_t) s->n;
}
