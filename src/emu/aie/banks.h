// banks: which memory banks an access needs, and what it costs when several need one. The 64 KiB of
// a core tile are four logical banks of 16 KiB, one after the other; each is two physical banks
// that take turns every 16 bytes (aie2) or 32 (aie2p). A physical bank serves one access in a
// cycle, so that a bundle takes one cycle more for each further access to its busiest bank.
//
// Banks of the four memories that a core reaches are told apart: a mask has eight bits for each.
#pragma once

#include <stdint.h>

// bank_bit: the bit of an address that chooses the half. An access is aligned to its size and
// touches one half, or both when it is wider than one.
static inline uint32_t bank_mask(int bank_bit, uint32_t addr, uint32_t bytes) {
    uint32_t pair = 2 * (addr >> 14 & 15);
    uint32_t halves = bytes >> bank_bit > 1 ? 3 : 1u << (addr >> bank_bit & 1);
    return halves << pair;
}

// Banks that are asked for in one cycle: at least once, twice, three times.
struct bank_use {
    uint32_t once, twice, thrice;
};

static inline void bank_add(struct bank_use * use, uint32_t mask) {
    use->thrice |= use->twice & mask;
    use->twice |= use->once & mask;
    use->once |= mask;
}

static inline int bank_stalls(const struct bank_use * use) {
    return (use->twice != 0) + (use->thrice != 0);
}
