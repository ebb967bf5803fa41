// core-garbage: what a strict emulator puts into registers and memories that nothing has set.
//
// Kept true: the same seed gives the same bytes, so that a run can be repeated; another seed gives
// others, so that a result that hangs on them changes from tile to tile and from load to load. No
// one value would do: all-ones is a NaN as a float, but as an integer factor it is -1, which a
// shift or a rounding often makes as harmless as 0.
#include "emu/aie/core.h"

#include <pthread.h>
#include <string.h>

static uint64_t mix(uint64_t v) {
    v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9;
    v = (v ^ v >> 27) * 0x94d049bb133111eb;
    return v ^ v >> 31;
}

// A word as program data has them: mostly floats of ordinary size, and some of each other kind.
static uint32_t shape(uint32_t v) {
    switch (v & 15) {
    case 0:
    case 1:
    case 2:
    case 3: // any bits
        return v;
    case 4: // a huge float
        return (v & 0x807fffff) | (240 + (v >> 16 & 7)) << 23;
    case 5: // NaN
        return v | 0x7fc00000;
    case 6: // infinity
        return (v & 0x80000000) | 0x7f800000;
    case 7: // a small integer
        return (v >> 24) - 128;
    default: // a float from 2^-8 on, below 2^8
        return (v & 0x807fffff) | (119 + (v >> 4 & 15)) << 23;
    }
}

// Registers and memories are filled at every load, so that making each word anew was half of a run.
// Each piece is taken from a pool, at a place that hangs on the seed.
#define STEP UINT64_C(0x9e3779b97f4a7c15)
enum { PIECE = 4096, POOL = 1 << 15 };
static uint64_t pool[POOL + PIECE / 8];

static void fill_pool(void) {
    uint64_t v = 0;
    for (size_t i = 0; i < sizeof pool / sizeof pool[0]; i++) {
        v += STEP;
        uint64_t bits = mix(v);
        pool[i] = shape((uint32_t) bits) | (uint64_t) shape((uint32_t) (bits >> 32)) << 32;
    }
}

void core_garbage(void * to, size_t bytes, uint64_t seed) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_pool);
    uint8_t * at = to;
    uint64_t v = mix(seed);
    for (size_t i = 0; i < bytes; i += PIECE) {
        v += STEP;
        memcpy(at + i, pool + mix(v) % POOL, bytes - i < PIECE ? bytes - i : PIECE);
    }
}
