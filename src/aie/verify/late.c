// late: descriptors that a read may still use. A read without a token is believed over when a SYNC
// has passed since it was started, and its descriptor may be written for the next one; but a kernel
// can hold its own input back, so that the read looks at its descriptor only then. So whatever
// stands there meanwhile must be the kernel's to read: the words of the old descriptor and of the
// new one in any mixture, as long as the old operand's address may be among them, and the new one
// under the address that is patched in. Between the two it holds an address below the operand's
// size, which is no operand's; docs/verifier.md tells what that leaves open.
#include "model.h"

// Words that say which words are touched; the others are an address, and what follows.
static const uint8_t shape_words[] = {0, 3, 4, 5, 6};
enum { SHAPES = sizeof shape_words, ADDRESS_LOW = 1 };

static const char by_sizes[] = "wait for the read's token before, or keep inside of its operand";

static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

// The furthest word that any mixture touches. Hardware may also write back how often the old one
// ran.
static uint64_t furthest_mix(const uint32_t old[BD_WORDS], const uint32_t fresh[BD_WORDS]) {
    struct bd a, b;
    verify_bd_read(TILE_SHIM, old, &a);
    verify_bd_read(TILE_SHIM, fresh, &b);
    uint32_t runs = larger(larger(a.run, a.last_run), larger(b.run, b.last_run));
    uint64_t most = 0;
    for (uint32_t mix = 0; mix < 1u << SHAPES; mix++) {
        uint32_t words[BD_WORDS];
        for (int i = 0; i < BD_WORDS; i++) {
            words[i] = old[i];
        }
        for (int i = 0; i < SHAPES; i++) {
            words[shape_words[i]] = (mix >> i & 1 ? fresh : old)[shape_words[i]];
        }
        uint64_t here = verify_bd_reach(TILE_SHIM, words, runs);
        most = here > most ? here : most;
    }
    return most;
}

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
    const struct binding * b = &v->shims[t->col].bound[id];
    struct bd bd;
    verify_bd_read(TILE_SHIM, fresh, &bd);
    if (!verify_shim_check_kind(v, t, queue_of(true, 0), id, &bd) || !check_chain(v, t, id, &bd)) {
        return false;
    }
    uint64_t end = b->offset + 4 * furthest_mix(t->bds[id], fresh);
    if (b->there && end > verify_room(v, b)) {
        return verify_refuse(v, by_sizes,
                             "descriptor %d of shim (%d,0) is changed while a read may still use "
                             "it: that could reach byte %llu of operand %d, which has %llu",
                             id, t->col, (unsigned long long) end, b->operand,
                             (unsigned long long) v->job->operands[b->operand].bytes);
    }
    // Before the patch, from the offset that some tools leave there.
    return fresh[ADDRESS_LOW] + 4 * bd.reach <= verify_largest_room(v) ||
           verify_refuse(v, by_sizes,
                         "descriptor %d of shim (%d,0) is changed while a read may still use it, "
                         "to more than any operand has",
                         id, t->col);
}

bool verify_late_patch(struct verifier * v, const struct tile * t, int id) {
    struct bd bd;
    return verify_shim_check_bd(v, t, queue_of(true, 0), id, &bd);
}
