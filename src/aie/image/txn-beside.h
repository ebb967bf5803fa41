// txn-beside: parts of a joined stream that run beside each other, as one list of commands. A part
// whose commands reach the first columns alone is moved to columns that none of the others has;
// what it tells comes before the waits of all:
//
//     descriptors, tasks, shims read (columns 0 to n), the same (n + 1 to m) | wait, wait
//
// That neither writes what the other one reads or writes, and that the columns are alike, the
// caller knows (txn_part).
#pragma once

#include "txn-ahead.h"

struct beside_list {
    struct image_command * ops;
    uint16_t * of; // the part of each
    size_t n, room;
};

// False: there is no memory.
bool beside_keep(struct beside_list * l, const struct image_command * c, int part);
// Columns, from the first on, that the commands from `from` on reach, which are a part's. 0: they
// cannot be moved, for they wait in their middle, write locks of a memtile, or do what is not
// known.
int beside_columns(const struct beside_list * l, size_t from, struct ahead_part * scratch);
// They become one with those before them, and go so many columns to the right.
void beside_merge(struct beside_list * l, size_t from, int columns);
