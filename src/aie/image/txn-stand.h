// txn-stand: what stands in the descriptors of core tiles and memtiles while a joined stream runs,
// so that a part need not write what an earlier one left there. A descriptor is known from a block
// that wrote all of it; each run of a task moves its iteration on, and what is written in another
// way, or run in a circle, is not known any more.
#pragma once

#include "image.h"

#include "aie/target/target.h"

enum { STAND_MEM_BDS = 48, STAND_CORE_BDS = 16 };

struct stand_bd {
    bool known;
    uint32_t words[8]; // its iteration as it is now
};

struct stand {
    struct stand_bd mem[AIE_MOST_COLUMNS][STAND_MEM_BDS];
    struct stand_bd core[AIE_MOST_COLUMNS][AIE_MOST_CORE_ROWS][STAND_CORE_BDS];
};

// Whether a command writes what stands there already; if not, it stands there from now on. To be
// asked of every command of the stream, in order.
bool stand_has(struct stand * s, const struct image_command * c);
