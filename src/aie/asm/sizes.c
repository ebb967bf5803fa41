// asm/sizes: how many bytes each bundle takes, and so where it lies. A bundle has the shortest
// format that holds it; where an address has to be aligned, bundles before it are made longer with
// idle slots, which costs bytes and no cycle.
//
// Kept true, as compilers for these cores do: what is jumped to, and a loop's first and last
// bundle, lie at multiples of a full bundle's bytes; a loop's last bundle is a full one; and
// between the last write of a loop register and that bundle lie as many bytes as the target asks
// for.
#include "program.h"

#include <stdlib.h>

enum place { ANYWHERE, ALIGNED, LOOP_LAST };

struct sizes {
    struct asm_program * p;
    uint8_t * place;                       // enum place of each bundle
    uint8_t * sets_up;                     // whether it sets up a loop
    uint16_t fitting[1 << AIE_SLOT_COUNT]; // by slots: bit n, there is a format of 2 n bytes
    bool known[1 << AIE_SLOT_COUNT];
};

static unsigned fitting(struct sizes * s, int bundle) {
    unsigned present = s->p->bundles[bundle].present;
    if (!s->known[present]) {
        s->fitting[present] = (uint16_t) aie_bundle_sizes(s->p->isa, present);
        s->known[present] = true;
    }
    return s->fitting[present];
}

static bool is_loop_register(const struct asm_arg * a) {
    return a->kind == ASM_ARG_FIXED && AIE_REG_KIND(a->value) == AIE_SPC &&
           (AIE_REG_NUM(a->value) == AIE_SPC_LS || AIE_REG_NUM(a->value) == AIE_SPC_LE ||
            AIE_REG_NUM(a->value) == AIE_SPC_LC);
}

// Whether the instruction sets up a loop. What it names is noted: the last bundle of a loop is what
// LE is set to, everything else may be jumped to.
static bool look_at(struct sizes * s, const struct asm_node * n) {
    bool set_up = false, end = false;
    for (int k = 0; k < n->n_args; k++) {
        set_up |= is_loop_register(&n->args[k]);
        end |= is_loop_register(&n->args[k]) && AIE_REG_NUM(n->args[k].value) == AIE_SPC_LE;
    }
    for (int k = 0; k < n->n_args; k++) {
        int at = n->args[k].kind == ASM_ARG_LABEL ? s->p->labels[n->args[k].value] : -1;
        if (at >= 0 && at < s->p->n_bundles && s->place[at] != LOOP_LAST) {
            s->place[at] = end ? LOOP_LAST : ALIGNED;
        }
    }
    return set_up;
}

// Between a loop's set-up and its last bundle: full bundles, from the end backward, until the
// distance is kept. There are bundles enough (loop.c).
static void keep_distance(struct asm_program * p, int set_up, int last) {
    int between = 0, full = p->target->bundle_bytes;
    for (int b = set_up + 1; b < last; b++) {
        between += p->sizes[b];
    }
    for (int b = last - 1; b > set_up && between < p->target->loop_bytes; b--) {
        between += full - p->sizes[b];
        p->sizes[b] = (uint8_t) full;
    }
}

// Makes bundles longer, from the one before `end` backward, until `missing` bytes are made up for.
// The bundle at `first` is aligned, so that full bundles all the way would do.
static void lengthen(struct sizes * s, int first, int end, int missing) {
    int full = s->p->target->bundle_bytes;
    for (int b = end - 1; b >= first && missing > 0; b--) {
        int old = s->p->sizes[b], most = old + missing < full ? old + missing : full;
        unsigned can = fitting(s, b) & ((2u << most / 2) - 1);
        int size = can ? 2 * (31 - __builtin_clz(can)) : old;
        if (size > old) {
            s->p->sizes[b] = (uint8_t) size;
            missing -= size - old;
        }
    }
    for (int b = first; b < end && missing > 0; b++) {
        s->p->sizes[b] = (uint8_t) full;
    }
}

static void align(struct sizes * s) {
    struct asm_program * p = s->p;
    int first = 0, at = 0, full = p->target->bundle_bytes; // the last aligned one, bytes since
    for (int b = 0; b <= p->n_bundles; b++) {
        if (b == p->n_bundles || s->place[b] != ANYWHERE) {
            if (at % full) {
                lengthen(s, first, b, full - at % full);
            }
            first = b;
            at = 0;
        }
        at += b < p->n_bundles ? p->sizes[b] : 0;
    }
}

static void choose(struct sizes * s) {
    struct asm_program * p = s->p;
    int set_up = -1, full = p->target->bundle_bytes;
    const unsigned special = 1u << ASM_ARG_FIXED | 1u << ASM_ARG_LABEL;
    for (int b = 0; b < p->n_bundles; b++) {
        const struct asm_bundle * bundle = &p->bundles[b];
        unsigned left = bundle->kinds & special ? bundle->present : 0; // few name anything
        for (; left; left &= left - 1) {
            s->sets_up[b] |= look_at(s, &p->nodes[bundle->node[__builtin_ctz(left)]]);
        }
        p->sizes[b] = (uint8_t) (2 * __builtin_ctz(fitting(s, b) | 1u << full / 2));
    }
    for (int b = 0; b < p->n_bundles; b++) {
        if (s->place[b] == LOOP_LAST) {
            p->sizes[b] = (uint8_t) full;
            keep_distance(p, set_up, b);
        }
        set_up = s->sets_up[b] ? b : set_up;
    }
    align(s);
}

bool asm_size(struct asm_program * p) {
    size_t n = (size_t) p->n_bundles;
    struct sizes * s = calloc(1, sizeof *s);
    free(p->sizes);
    free(p->addresses);
    p->sizes = calloc(n + 1, sizeof *p->sizes);
    p->addresses = calloc(n + 1, sizeof *p->addresses);
    bool ok = s && p->sizes && p->addresses;
    if (s) {
        s->p = p;
        s->place = calloc(n + 1, sizeof *s->place);
        s->sets_up = calloc(n + 1, sizeof *s->sets_up);
        ok = ok && s->place && s->sets_up;
    }
    if (ok) {
        choose(s);
        for (size_t b = 0; b < n; b++) {
            p->addresses[b + 1] = p->addresses[b] + p->sizes[b];
        }
    }
    if (s) {
        free(s->place);
        free(s->sets_up);
        free(s);
    }
    p->no_memory |= !ok;
    return ok;
}
