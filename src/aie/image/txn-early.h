// txn-early: reads of a part that begin while parts before it still run. What a kernel reads may be
// ready long before the kernel can start: weights, which no part of the stream writes. Such words
// go as far as the memtile, and to cores that do nothing else:
//
//     part n:    descriptors, tasks, shims read | wait
//     part n+1:  descriptors, tasks, shims read weights ^ parameters, tasks of cores, shims read b
//
// A shim's channel leads to the memtile's channel of the same number, which is seen by both moving
// as many words. It begins early where
//   - another operand of the part is not ready, and so is read when the part starts: else an idle
//     core would have results before, in memory that the parts in flight may still read;
//   - all that it reads in this part are operands that the caller calls ready;
//   - the parts before have begun their reads on that channel, and its queue has room;
//   - no part in flight uses the memory of the memtile that it fills, but for one that uses it by
//     the same descriptor of the same channel, and empties it for the lock that this one takes.
// A core that still works gets the tasks that take these words when the part starts, behind its
// parameters (txn-ahead.h); a part that issues them in another order is not read early.
#pragma once

#include "txn-ahead.h"

// Which channels may begin early, from a part's descriptors and tasks.
void early_scan(struct ahead_part * p, uint32_t ready);
// Those of them that may begin now, while the parts in flight run: `begins` of its shims.
bool early_begins(struct ahead_part * p, struct ahead_part * const * flight, int n);
