// bd-state: what stands in the descriptors of core tiles and memtiles while a joined stream runs,
// so that a part need not write what an earlier one left there. A descriptor is known from a block
// that wrote all of it; each run of a task moves its iteration on, and what is written in another
// way, or run in a circle, is not known any more.
#pragma once

#include "image.h"

#include "aie/target/target.h"

enum { STATE_MEM_BDS = 48, STATE_CORE_BDS = 16 };

struct known_bd {
    bool known;
    uint32_t words[8]; // its iteration as it is now
};

struct bd_state {
    struct known_bd mem[AIE_MOST_COLUMNS][STATE_MEM_BDS];
    struct known_bd core[AIE_MOST_COLUMNS][AIE_MOST_CORE_ROWS][STATE_CORE_BDS];
};

// Whether a command writes what stands there already; if not, it stands there from now on. To be
// asked of every command of the stream, in order.
bool bd_state_is_current(struct bd_state * s, const struct image_command * c);
