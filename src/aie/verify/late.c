// late: descriptors that a read may still use. A read without a token is believed over when a SYNC
// has passed since it was started, and its descriptor may be written for the next one; but a kernel
// can hold its own input back, so that the read looks at its descriptor only then. So what stands
// there is the kernel's to read all the same: the new words under the address that is patched in,
// an input's, and so along the chain. The patch comes at once: in between the descriptor holds an
// address below the operand's size, which is no operand's; docs/verifier.md says what that leaves
// open.
#include "model.h"

enum { ADDRESS_LOW = 1 };

// The reads that may still use a descriptor also follow where it leads now.
static void follow(struct verifier * v, const struct tile * t, int from, int to) {
    struct shim * s = &v->shims[t->col];
    for (int q = 0; q < SHIM_QUEUES; q++) {
        const struct bd_use * use = &s->uses[from][q];
        if (queue_reads(q) && use->task > s->queues[q].done && s->uses[to][q].task < use->task) {
            s->uses[to][q] = *use;
        }
    }
}

static bool check_chain(struct verifier * v, const struct tile * t, int id, const struct bd * bd) {
    uint32_t seen = 1u << id;
    struct bd at = *bd;
    while (at.chained) {
        int next = at.next;
        if (seen >> next & 1) {
            return verify_refuse(v, "end the chain",
                                 "descriptor %d of shim (%d,0), which a read may still use, comes "
                                 "back to descriptor %d",
                                 id, t->col, next);
        }
        if (!verify_shim_check_bd(v, t, queue_of(true, 0), next, &at)) {
            return false;
        }
        seen |= 1u << next;
        follow(v, t, id, next);
    }
    return true;
}

bool verify_late_block(struct verifier * v, const struct tile * t, int id,
                       const uint32_t fresh[BD_WORDS]) {
    struct bd bd;
    verify_bd_read(TILE_SHIM, fresh, &bd);
    if (!verify_shim_check_kind(v, t, queue_of(true, 0), id, &bd)) {
        return false;
    }
    if (fresh[ADDRESS_LOW] + 4 * bd.reach > verify_largest_room(v)) {
        return verify_refuse(v, "wait for the read's token before",
                             "descriptor %d of shim (%d,0) is changed while a read may still use "
                             "it, to more than any operand has",
                             id, t->col);
    }
    v->shims[t->col].changed |= 1u << id;
    return true;
}

bool verify_late_patch(struct verifier * v, const struct tile * t, int id) {
    struct bd bd;
    v->shims[t->col].changed |= 1u << id;
    return verify_shim_check_bd(v, t, queue_of(true, 0), id, &bd);
}

// Descriptors of a chain may be written and patched in any order: they are looked at when all are.
static bool check_changed(struct verifier * v, const struct tile * t, int id) {
    struct bd bd;
    if (!v->shims[t->col].bound[id].there) {
        return verify_refuse(v, "patch it at once, or wait for the read's token before",
                             "descriptor %d of shim (%d,0) is changed while a read may still use "
                             "it, and is not yet patched",
                             id, t->col);
    }
    verify_bd_read(TILE_SHIM, t->bds[id], &bd);
    return check_chain(v, t, id, &bd);
}

bool verify_late_settled(struct verifier * v) {
    bool ok = true;
    for (int col = 0; col < v->columns; col++) {
        uint32_t * changed = &v->shims[col].changed;
        for (; *changed && ok; *changed &= *changed - 1) {
            ok = check_changed(v, &v->tiles[col][0], __builtin_ctz(*changed));
        }
    }
    return ok;
}
