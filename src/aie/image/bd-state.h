// bd-state: what stands in the descriptors of core tiles and memtiles while a joined stream runs,
// so that a part need not write what an earlier one left there. A descriptor is known from a block
// that wrote all of it; each run of a task moves its iteration on, and what is written in another
// way, or run in a circle, is not known any more. Controls of shims are kept likewise.
#pragma once

#include "txn-tile.h"

struct known_bd {
    bool known;
    uint32_t since;    // when it was written, or wanted as it is
    uint32_t words[8]; // its iteration as it is now, when all tasks so far are over
};

struct bd_state {
    uint32_t now;
    struct known_bd bds[TXN_TILES][TXN_BDS];
};

// Whether a command writes what stands there already; if not, it stands there from now on. To be
// asked of every command of the stream, in order.
bool bd_state_is_current(struct bd_state * s, const struct image_command * c);
// It is wanted as it stands.
void bd_state_want(struct bd_state * s, int tile, uint32_t bd);
// Whether these words stand in a descriptor.
bool bd_state_holds(const struct bd_state * s, int tile, uint32_t bd, const uint32_t * words);

// Controls of shims, as they were set so far.
enum { SHIM_CHANNELS = 2 }; // that write
struct shim_said {
    struct {
        uint32_t mask, value;
    } said[AIE_MOST_COLUMNS][SHIM_CHANNELS];
};

// Whether a mask write sets a shim's control to what it was set to before.
bool shim_is_said(struct shim_said * s, const struct image_command * c);
// Any other write: what it writes to is not known any more.
void shim_unsay(struct shim_said * s, const struct image_command * c);
