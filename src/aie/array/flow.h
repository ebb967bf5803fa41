// flow: how data is set in motion. A family says what moves where (its plan); here stands, once,
// how that is told to the array by an instruction stream: descriptors of core tiles, memtiles and
// shims, start queues, completion tokens, the lock that lets a core go, and the stream of chunks
// that take turns in two buffers of a core.
#pragma once

#include "array.h"

struct flow { // what is written, and for which array
    struct txn * t;
    const struct aie_target * target;
};

struct flow_tile {
    int col, row;
};

// ---- descriptors and queues ----

void flow_core_bd(const struct flow * f, struct flow_tile at, int bd, const struct array_bd * d);
void flow_mem_bd(const struct flow * f, int col, int bd, const struct array_bd * d);
// A shim's descriptor has no locks; its address is `offset` bytes behind the operand's start.
void flow_shim_bd(const struct flow * f, int col, int bd, const struct array_bd * d, int operand,
                  uint32_t offset);
// The same in two steps: several that follow each other, then the address of one. To write many
// words at once is cheaper.
void flow_shim_bds(const struct flow * f, int col, int first, const struct array_bd * d, int n);
void flow_shim_aim(const struct flow * f, int col, int bd, int operand, uint32_t offset);
// Runs the chain that begins with `bd` so many times; `queue` is the channel's register. A token
// reports to the instruction stream when the last run is over.
void flow_push(const struct flow * f, struct flow_tile at, uint32_t queue, int bd, int64_t runs,
               bool token);

// Tasks for several channels of a tile, pushed together. A channel's control and its queue stand
// one behind the other and the next channel's behind them, so that channels in a row are one write
// of many words, which costs less than one for each; controls are written as they are: at rest, or
// with the controller that a task's token is for.
enum { FLOW_QUEUES = 12, FLOW_QUEUE_TASKS = 8 };
struct flow_tasks {
    struct flow_tile at;
    uint32_t first; // register of queue 0: of S2MM channel 0; MM2S channels stand behind the last
    uint32_t words[FLOW_QUEUES][FLOW_QUEUE_TASKS];
    uint8_t n[FLOW_QUEUES];
};
void flow_task(struct flow_tasks * t, int queue, int bd, int64_t runs, bool token);
void flow_push_all(const struct flow * f, const struct flow_tasks * t);

// ---- cores ----

// Words of a chunk in memory, as in array_bd; all zero: one behind the other.
struct flow_layout {
    uint32_t wrap[2], step[3];
};

// The core that waits at this lock goes to work; what it reads must have been written before.
void flow_go(const struct flow * f, struct flow_tile at, int lock);

// ---- the end of a run ----

// The tokens of a shim's S2MM channel: before its first task, and behind the last.
void flow_expect(const struct flow * f, int col, int channel);
void flow_wait(const struct flow * f, int col, int channel);
