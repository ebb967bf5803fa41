// inspect --stats: how well the core programs of a file fill the machine. Programs are collected
// per tile from the writes to program memory, whoever made them; zero-overhead loops are found by
// the writes of LS and LE, and their bundles are counted slot by slot. A turn of a loop takes as
// many cycles as it has bundles, stalls aside; the slot with the most instructions is what a turn
// cannot get below.
#include "inspect.h"

#include "kernel/kernel.h"

#include <stdlib.h>
#include <string.h>

static const char * const slot_names[AIE_SLOT_COUNT] = {
    [AIE_SLOT_LDA] = "lda", [AIE_SLOT_LDB] = "ldb", [AIE_SLOT_ALU] = "alu", [AIE_SLOT_MV] = "mv",
    [AIE_SLOT_ST] = "st",   [AIE_SLOT_VEC] = "vec", [AIE_SLOT_LNG] = "lng",
};

void stats_add(struct stats * s, int col, int row, uint32_t offset, const uint8_t * code,
               size_t size) {
    struct stats_program * p = NULL;
    for (int i = 0; i < s->n; i++) {
        p = s->programs[i].col == col && s->programs[i].row == row ? &s->programs[i] : p;
    }
    if (!p) {
        struct stats_program * more = realloc(s->programs, ((size_t) s->n + 1) * sizeof *more);
        if (!more) {
            s->no_memory = true;
            return;
        }
        s->programs = more;
        p = &more[s->n++];
        memset(p, 0, sizeof *p);
        p->col = col;
        p->row = row;
    }
    if (offset > sizeof p->code || size > sizeof p->code - offset) {
        s->failed = true; // larger than any program memory: nothing that could run
        return;
    }
    memcpy(p->code + offset, code, size);
    for (size_t at = offset / 2; at < (offset + size + 1) / 2; at++) {
        p->mark[at] = p->mark[at] == STATS_BEGINS ? STATS_BEGINS : STATS_WRITTEN;
    }
    if (size) {
        p->mark[offset / 2] = STATS_BEGINS;
    }
    p->size = offset + size > p->size ? offset + size : p->size;
}

void stats_free(struct stats * s) {
    free(s->programs);
    *s = (struct stats){0};
}

// ---- one program ----

struct count {
    int bundles;
    int filled[AIE_SLOT_COUNT];
};

static void count_bundle(const struct aie_isa * isa, const struct aie_bundle * b,
                         struct count * c) {
    c->bundles++;
    for (int s = 0; s < AIE_SLOT_NOP; s++) {
        c->filled[s] +=
            (b->present >> s & 1) && b->slot[s].op != aie_isa_nop(isa, (enum aie_slot) s);
    }
}

static int taken(const struct count * c, int slot) {
    bool pair = slot == AIE_SLOT_ALU || slot == AIE_SLOT_MV;
    return c->filled[slot] + (pair ? c->filled[AIE_SLOT_LNG] : 0);
}

static void print_count(const struct count * c, bool loop, struct buf * b) {
    int all = 0, bound = AIE_SLOT_LDA;
    for (int s = 0; s < AIE_SLOT_LNG; s++) {
        all += taken(c, s);
        bound = taken(c, s) > taken(c, bound) ? s : bound;
    }
    buf_printf(b, "%d bundles, %.2f slots filled in each:", c->bundles,
               c->bundles ? (double) all / c->bundles : 0.0);
    for (int s = 0; s < AIE_SLOT_NOP; s++) {
        if (c->filled[s]) {
            buf_printf(b, " %s %d", slot_names[s], c->filled[s]);
        }
    }
    if (all && loop) {
        buf_printf(b, "; bound by %s, %d of %d cycles", slot_names[bound], taken(c, bound),
                   c->bundles);
    }
    buf_printf(b, "\n");
}

// The immediate that a bundle writes to LS or LE; -1 if it does not.
static int32_t loop_register(const struct aie_isa * isa, const struct aie_bundle * b, int spc) {
    for (int s = 0; s < AIE_SLOT_NOP; s++) {
        const struct aie_inst * inst = &b->slot[s];
        if (!(b->present >> s & 1)) {
            continue;
        }
        const struct aie_instr * instr = aie_isa_instr(isa, inst->op);
        if (instr->n_explicit == 2 && (instr->operands[0].role & AIE_DEF) &&
            instr->operands[1].is_imm && inst->values[0] == AIE_REG(AIE_SPC, spc)) {
            return inst->values[1];
        }
    }
    return -1;
}

// From the bundle at `at` on; false where nothing decodes.
static bool next_bundle(const struct aie_isa * isa, const struct stats_program * p, size_t * at,
                        struct aie_bundle * out) {
    if (*at >= p->size ||
        aie_bundle_decode(isa, p->code + *at, p->size - *at, out, NULL) != ST_OK) {
        return false;
    }
    *at += out->size;
    return true;
}

static void print_loop(const struct aie_isa * isa, const struct stats_program * p, int32_t first,
                       int32_t last, struct buf * b) {
    struct count c = {0};
    struct aie_bundle bundle;
    size_t at = (size_t) first;
    while (at <= (size_t) last && next_bundle(isa, p, &at, &bundle)) {
        count_bundle(isa, &bundle, &c);
    }
    buf_printf(b, "  loop 0x%04x-0x%04x: ", (unsigned) first, (unsigned) last);
    if (at <= (size_t) last) {
        buf_printf(b, "bytes at 0x%zx are no instruction\n", at);
    } else {
        print_count(&c, true, b);
    }
}

static void print_program(const struct aie_isa * isa, const struct stats_program * p,
                          struct buf * b) {
    struct count c = {0};
    struct aie_bundle bundle;
    for (size_t at = 0; next_bundle(isa, p, &at, &bundle);) {
        count_bundle(isa, &bundle, &c);
    }
    print_count(&c, false, b);
    int32_t first = -1;
    for (size_t at = 0; next_bundle(isa, p, &at, &bundle);) {
        int32_t start = loop_register(isa, &bundle, AIE_SPC_LS);
        int32_t last = loop_register(isa, &bundle, AIE_SPC_LE);
        first = start >= 0 ? start : first;
        if (last >= 0 && first >= 0 && first <= last && (size_t) last < p->size) {
            print_loop(isa, p, first, last, b);
        }
    }
}

void stats_print(const struct stats * s, bool arch_known, enum aie_arch arch, struct buf * b) {
    for (int i = 0; i < s->n; i++) {
        const struct stats_program *p = &s->programs[i], *same = NULL;
        for (int j = 0; j < i && !same; j++) {
            const struct stats_program * q = &s->programs[j];
            same = q->size == p->size && !memcmp(q->code, p->code, p->size) ? q : NULL;
        }
        buf_printf(b, "core (%d,%d): ", p->col, p->row);
        if (same) {
            buf_printf(b, "as (%d,%d)\n", same->col, same->row);
        } else if (arch_known) {
            buf_printf(b, "%s, ", kernel_arch_name(arch));
            print_program(aie_isa_get(arch), p, b);
        } else {
            buf_printf(b, "%zu bytes of no instruction set that is known here\n", p->size);
        }
    }
    if (s->n == 0) {
        buf_printf(b, "no core programs\n");
    }
    if (s->failed) {
        buf_printf(b, "some writes lie outside program memory\n");
    }
}
