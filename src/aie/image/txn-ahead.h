// txn-ahead: what parts of a joined stream may tell the array while parts before them still run.
// The controller takes as long to tell a kernel as a small one runs, and waits for tokens
// meanwhile; so a part is told ahead of these waits, all but what sets its words in motion:
//
//     part n:    descriptors, tasks, shims read | wait
//     part n+1:                                 ^ descriptors, tasks ... ^ shims read | wait
//     part n+2:                                 ^ descriptors, tasks ...              ^ shims ...
//
// Nothing of a part moves before its shims read from memory: cores, memtiles and the shim's writes
// wait for words that only those bring, behind all that the parts before have queued. And they read
// when these are complete, whose results they may want. So it does not matter what any of them
// computes, nor where its operands are. What a part says behind all that leads words to its cores
// (ahead_feeds) may also come when it runs, as in its own stream.
//
// What must not be touched before are things that a part in flight, one that was told and is not
// complete, may still use:
//   - descriptors of its tasks: the part gets others, unless they stand as it wants them and its
//     tasks are queued in the same channel behind those that use them;
//   - what a core that works for it reads: parameters and locks of that core are written behind the
//     waits;
//   - places of such a core's memory: a task that fills one takes its lock at once, and the core
//     may wait until all of them are empty. So these tasks come behind the waits as well;
//   - a queue that has no room: then these tasks are pushed behind the waits, too, and so are those
//     of later parts in that queue;
//   - descriptors of a tile, where those in flight leave too few: the part keeps its own names, and
//     what it says of them comes behind the waits, before all else, when nothing uses them. When
//     one of those in flight is complete, this is looked at again, and so is what else was late;
//   - locks that one channel takes now and another one did: then the part is told as it always was,
//     and so is one that writes locks of a memtile, waits in its middle or does what is not known.
#pragma once

#include "bd-state.h"

struct ahead_tile {
    uint64_t written, used;     // descriptors, by bit
    uint32_t words[TXN_BDS][8]; // of those that are written
    uint16_t by[TXN_BDS];       // queues whose tasks use it, by bit
    uint16_t takers[TXN_LOCKS]; // queues whose tasks take a lock
    uint8_t tasks[TXN_QUEUES];  // of each
    uint16_t late, with_reads;  // queues whose tasks are pushed behind the waits; whatever is free
    bool unnamed;               // so late are its descriptors that they keep their own names
    bool busy, others;          // has tasks; has those of a part in flight, too
    bool due;                   // something of it is not late any more, and not told yet
    uint8_t to[TXN_BDS];        // what a descriptor is called instead
    uint64_t stands;            // descriptors that need not be written

    // For reads that begin early (txn-early.h).
    uint64_t moved[TXN_QUEUES]; // words, by its tasks
    uint32_t operand[TXN_BDS];  // shim: that a descriptor points at, and 1; 0: none
    uint16_t whole;             // shim: queues that one command reaches with other registers
    uint16_t early;             // shim: queues that may read before the part starts,
    uint16_t begins, begun;     // those that do now, that did
};

enum { AHEAD_PARTS = 16 }; // in flight at most

struct ahead_part {
    bool started;     // all of it is told but its waits
    bool fills_first; // a core gets tasks that fill its memory before what it reads there
    bool rigid;       // is told as it is, and nothing ahead of its waits
    uint64_t n_shim;  // words that its shims read
    size_t n_told;    // commands before its waits
    struct ahead_tile tiles[TXN_TILES];
};

// What a part uses, from its commands; the operands that nothing before it writes, by bit.
void ahead_scan(struct ahead_part * p, const struct image_command * ops, size_t n, uint32_t ready);
// Whether it can be told while those in flight run: names of its descriptors, and which of them
// stand. They keep the names until they are complete.
bool ahead_fits(struct ahead_part * p, struct ahead_part * const * flight, int n,
                const struct bd_state * s, const struct image_command * ops);
// The same of one that was found to fit, with fewer in flight: less of it is late, never more.
void ahead_fits_again(struct ahead_part * p, struct ahead_part * const * flight, int n,
                      const struct bd_state * s, const struct image_command * ops);

// All of it is told but its waits.
void ahead_started(struct ahead_part * p);

enum ahead_when {
    AHEAD_NOW,   // while those in flight run
    AHEAD_FIRST, // when they are complete, before all else
    AHEAD_LATER, // when they are complete
    AHEAD_MOVES, // then, too, and behind what cores read where they get it last: the shims read
};
// Queues that a command's words reach, by bit.
uint32_t ahead_reached(const struct image_command * c);
enum ahead_when ahead_when(const struct ahead_part * p, const struct image_command * c);
// Whether it leads words to cores, or something else that they read.
bool ahead_feeds(const struct image_command * c);
