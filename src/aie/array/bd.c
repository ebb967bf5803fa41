// array/bd: the bit layouts of descriptors and queue words. A value that its field
// cannot hold is a bug of the caller; no bit ever spills into a neighbour's field.
#include "array.h"

#include <assert.h>

uint32_t array_queue_word(int bd, int repeat, bool token) {
    assert(bd >= 0 && bd < ARRAY_MEM_BDS && repeat >= 1 && repeat <= ARRAY_MAX_REPEAT);
    return (uint32_t) token << 31 | (uint32_t) (repeat - 1) << 16 | (uint32_t) bd;
}

// ---- fields ----

static uint32_t field(uint32_t value, int width, int at) {
    uint32_t mask = (1u << width) - 1;
    assert(value <= mask);
    return (value & mask) << at;
}

// Steps and iterations are kept less one; 0 stands for 1.
static uint32_t field_less_1(uint32_t value, int width, int at) {
    return field(value ? value - 1 : 0, width, at);
}

static uint32_t lock_change(int value) {
    assert(value >= -64 && value < 64);
    return (uint32_t) value & 0x7f;
}

// A step between runs of 0 cannot be said.
static uint32_t iteration(const struct array_bd * bd, int step_width) {
    assert(bd->iterations <= 1 || bd->iteration_step >= 1);
    return bd->iterations <= 1 ? 0
                               : field_less_1(bd->iterations, 6, step_width) |
                                     field_less_1(bd->iteration_step, step_width, 0);
}

static void check_plain(const struct array_bd * bd) { // what only a memtile has is not asked for
    assert(bd->wrap[2] == 0 && bd->step[3] == 0);
    for (int d = 0; d < 3; d++) {
        assert(bd->before[d] == 0 && bd->after[d] == 0);
    }
    (void) bd;
}

// The word with chain and locks, which core and shim descriptors share.
static uint32_t chain_and_locks(const struct array_bd * bd) {
    uint32_t w = 1u << 25; // valid
    if (bd->next >= 0) {
        w |= field((uint32_t) bd->next, 4, 27) | 1u << 26;
    }
    if (bd->release >= 0) {
        w |= lock_change(bd->release_value) << 18 | field((uint32_t) bd->release, 4, 13);
    }
    if (bd->acquire >= 0) {
        w |= 1u << 12 | lock_change(bd->acquire_value) << 5 | field((uint32_t) bd->acquire, 4, 0);
    }
    return w;
}

// ---- descriptors ----

void array_core_bd(const struct array_bd * bd, uint32_t words[6]) {
    check_plain(bd);
    assert(bd->words > 0 && bd->address % 4 == 0);
    words[0] = field(bd->address / 4, 14, 14) | field(bd->words, 14, 0);
    words[1] = 0; // no packet header
    words[2] = field_less_1(bd->step[1], 13, 13) | field_less_1(bd->step[0], 13, 0);
    words[3] =
        field(bd->wrap[1], 8, 21) | field(bd->wrap[0], 8, 13) | field_less_1(bd->step[2], 13, 0);
    words[4] = iteration(bd, 13);
    words[5] = chain_and_locks(bd);
}

enum { MEM_OWN_LOCKS = 64, MEM_OWN_WORDS = 0x20000 }; // the west neighbour's come first

void array_mem_bd(const struct array_bd * bd, uint32_t words[8]) {
    assert(bd->words > 0 && bd->address % 4 == 0 && bd->address < ARRAY_MEM_BYTES);
    assert(bd->acquire < ARRAY_MEM_LOCKS && bd->release < ARRAY_MEM_LOCKS);
    for (int d = 0; d < 3; d++) {
        assert(bd->wrap[d] || (bd->before[d] == 0 && bd->after[d] == 0));
    }
    words[0] = field(bd->words, 17, 0);
    words[1] = field(bd->before[0], 6, 26) | (MEM_OWN_WORDS + bd->address / 4);
    if (bd->next >= 0) {
        assert(bd->next < ARRAY_MEM_BDS);
        words[1] |= (uint32_t) bd->next << 20 | 1u << 19;
    }
    words[2] = field(bd->wrap[0], 10, 17) | field_less_1(bd->step[0], 17, 0);
    words[3] =
        field(bd->before[1], 5, 27) | field(bd->wrap[1], 10, 17) | field_less_1(bd->step[1], 17, 0);
    words[4] =
        field(bd->before[2], 4, 27) | field(bd->wrap[2], 10, 17) | field_less_1(bd->step[2], 17, 0);
    words[5] = field(bd->after[2], 4, 28) | field(bd->after[1], 5, 23) |
               field(bd->after[0], 6, 17) | field_less_1(bd->step[3], 17, 0);
    words[6] = iteration(bd, 17);
    words[7] = 1u << 31; // valid
    if (bd->release >= 0) {
        words[7] |= lock_change(bd->release_value) << 24 | (uint32_t) (MEM_OWN_LOCKS + bd->release)
                                                               << 16;
    }
    if (bd->acquire >= 0) {
        words[7] |= 1u << 15 | lock_change(bd->acquire_value) << 8 |
                    (uint32_t) (MEM_OWN_LOCKS + bd->acquire);
    }
}

void array_shim_bd(const struct array_bd * bd, const struct aie_target * target,
                   uint32_t words[8]) {
    check_plain(bd);
    assert(bd->words > 0);
    words[0] = bd->words;
    words[1] = words[2] = 0; // the address is patched at dispatch
    words[3] = field(bd->wrap[0], 10, 20) | field_less_1(bd->step[0], 20, 0);
    words[4] =
        target->shim_burst << 30 | field(bd->wrap[1], 10, 20) | field_less_1(bd->step[1], 20, 0);
    words[5] =
        2u << 24 | field_less_1(bd->step[2], 20, 0); // cache attributes as in every real kernel
    words[6] = iteration(bd, 20);
    words[7] = chain_and_locks(bd);
}
