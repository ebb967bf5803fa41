// array/bd: target data and the bit layouts of descriptors and queue words.
#include "array.h"

#include <assert.h>

static const struct array_target targets[AIE_ARCH_COUNT] = {
    [AIE_ARCH_AIE2] = {.columns = 4, .device_generation = 3, .shim_burst = 2},
    [AIE_ARCH_AIE2P] = {.columns = 8, .device_generation = 4, .shim_burst = 3},
};

const struct array_target * array_target(enum aie_arch arch) {
    return &targets[arch];
}

uint32_t array_queue_word(int bd, int repeat, bool token) {
    assert(repeat >= 1 && repeat <= ARRAY_MAX_REPEAT);
    return (uint32_t) token << 31 | (uint32_t) (repeat - 1) << 16 | (uint32_t) bd;
}

enum { BD_VALID = 1 << 25 };

// The word with chain and locks, which core and shim descriptors share.
static uint32_t chain_and_locks(const struct array_bd * bd) {
    uint32_t w = BD_VALID;
    if (bd->next >= 0) {
        w |= (uint32_t) bd->next << 27 | 1u << 26;
    }
    if (bd->release >= 0) {
        w |= ((uint32_t) bd->release_value & 0x7f) << 18 | (uint32_t) bd->release << 13;
    }
    if (bd->acquire >= 0) {
        w |= 1u << 12 | ((uint32_t) bd->acquire_value & 0x7f) << 5 | (uint32_t) bd->acquire;
    }
    return w;
}

void array_core_bd(const struct array_bd * bd, uint32_t words[6]) {
    assert(bd->words < 1u << 14 && bd->address < 1u << 16);
    words[0] = bd->address / 4 << 14 | bd->words;
    words[1] = words[2] = words[3] = words[4] = 0; // no packet header, one dimension, no iteration
    words[5] = chain_and_locks(bd);
}

// Steps are kept less one.
static uint32_t step_field(uint32_t step) {
    assert(step <= 1u << 20);
    return step ? step - 1 : 0;
}

void array_shim_bd(const struct array_bd * bd, const struct array_target * target, uint32_t words[8]) {
    assert(bd->wrap[0] < 1u << 10 && bd->wrap[1] < 1u << 10);
    words[0] = bd->words;
    words[1] = words[2] = 0; // the address is patched at dispatch
    words[3] = bd->wrap[0] << 20 | step_field(bd->step[0]);
    words[4] = target->shim_burst << 30 | bd->wrap[1] << 20 | step_field(bd->step[1]);
    words[5] = 2u << 24 | step_field(bd->step[2]); // cache attributes as in every real kernel
    words[6] = 0;
    if (bd->iterations) {
        assert(bd->iterations <= 64);
        words[6] = (bd->iterations - 1) << 20 | step_field(bd->iteration_step);
    }
    words[7] = chain_and_locks(bd);
}
