// array-model: what the array is made of, shared by the array-*.c files and machine.c only. A tile
// has memory, locks, buffer descriptors, DMA channels and a stream switch; a core tile also has a
// core. Words travel from a stream source (a memory-to-stream channel, a core, a control port) over
// a route to the FIFOs of one or more sinks (stream-to-memory channels, cores, control ports).
//
// Words carry times. A channel moves as many as it knows the times of, at once and ahead of the
// array's clock; what others can see of it - locks, tokens, arbiters, host memory's turns, the end
// of a descriptor - happens when the clock gets there, in the order of time. So it does not matter
// to any time in which order words are moved (array-burst.c).
//
// Whoever cannot go on sleeps, and whoever changes what it waits for wakes it: a column's `awake`
// and `trying` bits for channels, `core_wake` for cores. That is what keeps idle tiles free of
// cost, and what makes "nobody is awake" mean "nothing can move".
//
// A tick is the time of one 32-bit word on a stream: a cycle, or half of one where streams are 64
// bits wide. Times of words are in ticks, all others in cycles.
#pragma once

#include "emu/aie/core.h"
#include "emu/aie/machine.h"

#include <stdatomic.h>

enum tile_kind { TILE_SHIM, TILE_MEM, TILE_CORE, TILE_KIND_COUNT };

enum {
    ARRAY_ROWS = 6,
    ARRAY_FIRST_CORE_ROW = 2,
    ARRAY_MAX_COLUMNS = 8,
    SHIM_CHANNELS = 4, // of both directions, the first bits of `awake`
    ARRAY_COLUMN_CHANNELS =
        32, // 4 shim, 12 memtile, 4 for each of 4 cores: one bit each in `awake`
    TILE_MAX_BDS = 48,
    TILE_MAX_LOCKS = 64,
    TILE_MAX_CHANNELS = 6, // in one direction
    TILE_MAX_PORTS = 25,
    TILE_SLOTS = 4,
    TILE_ARBITERS = 8,
    BD_WORDS = 8,
    DMA_QUEUE_DEPTH = 4, // tasks waiting behind the running one
    DMA_TOKENS = 16,     // whose time is remembered; later ones come with the last
    LOCK_MAX = 63,
    FIFO_RING = 256, // words
    ROUTE_MAX_SINKS = 64,
    ROUTE_MAX_ARBITERS = 64,
    CASCADE_DEPTH = 4, // two 512-bit stages at each end
};

#define NEVER      UINT64_MAX
#define NO_GRANULE UINT32_MAX

enum dma_dir { DMA_S2MM, DMA_MM2S };

struct array;
struct tile;
struct channel;
struct control;

// ---- streams ----

// Words that follow each other without a gap, and times of theirs.
struct run {
    uint64_t tick; // of the first one
    uint32_t n;
};

struct runs {
    uint32_t head, count;
    struct run * ring; // FIFO_RING of them
};

struct sink {
    struct tile * tile;
    struct channel * channel; // NULL: the core's stream input, or
    struct control * control; // the tile's control port
    struct source * blocked;  // a source that found the FIFO full
    uint32_t capacity;        // of the longest way that leads here
    uint64_t pushed, popped;  // words since the reset
    struct runs ready;        // when the words that wait are through the switches
    struct runs freed;        // when the last ones left
    uint32_t freed_words;
    bool last[FIFO_RING];      // by the word's number, not for channels
    uint32_t words[FIFO_RING]; // by their number
    struct run ready_ring[FIFO_RING], freed_ring[FIFO_RING];
};

struct route {
    uint32_t generation;   // of the switch configuration that it was traced in; 0 = never
    bool packet;           // framed: the way depends on each packet's header
    bool to_firmware;      // reaches the shim's South0, where tokens leave the array
    const char * dead_end; // why words cannot flow, or NULL
    int dead_col, dead_row, dead_port;
    int n_sinks, n_arbiters;
    struct {
        struct sink * sink;
        bool drop_header;
        uint16_t latency, back; // ticks for a word, and until its place is free for the next
        uint16_t capacity;      // words that wait on the way and at its end
    } sinks[ROUTE_MAX_SINKS];
    uint16_t arbiters[ROUTE_MAX_ARBITERS]; // index into array.arbiters
};

struct source {
    struct tile * tile;
    struct channel * channel; // NULL: the core's stream output, or
    struct control * control; // the tile's control port
    int slave;                // switch port at which it enters
    bool open;                // in a packet, arbiters held
    bool header;              // the packet's first word is still to come
    uint64_t ticket;          // place in the line for arbiters; 0 = not in line
    struct route * current;
    struct route fixed;       // traced without a header
    struct route * by_id[32]; // traced per packet id, made on first use
};

struct arbiter {
    struct source * holder;
    struct source * waiter; // the one whose turn is next
};

// ---- DMA ----

// A buffer descriptor, decoded; sizes in 32-bit words, addresses in bytes.
struct bd {
    bool valid, use_next, acquire_enable, packet, suppress_tlast, compressed, pads;
    uint8_t next, acquire_id, release_id, packet_id, packet_type, out_of_order_id;
    int8_t acquire_value, release_value; // negative acquire: at least -value, then subtract
    uint32_t length;
    uint64_t address;
    uint64_t bytes;               // from the first word to the end of the furthest
    uint32_t wrap[3], step[4];    // wrap 0: this dimension never wraps
    uint32_t before[3], after[3]; // words, rows, planes of zeros around the data
    uint32_t iter_current, iter_wrap, iter_step;
};

struct task {
    uint8_t bd;
    uint8_t token;
    uint16_t runs;
    uint32_t synced; // syncs of the dispatch that were over when it was queued
};

enum channel_state {
    CHANNEL_IDLE,    // no task
    CHANNEL_ACQUIRE, // a descriptor is latched, its lock is not ours yet
    CHANNEL_RUN,
};

// What a running channel asks for when its `event` comes; at its last word it asks for nothing, the
// descriptor ends.
enum channel_request {
    REQUEST_NONE,
    REQUEST_WAY,   // the arbiters of a packet's way
    REQUEST_BURST, // host memory's next turn
};

struct channel {
    struct tile * tile;
    enum dma_dir dir;
    uint8_t index;
    uint8_t bit; // in array.awake[column]
    uint8_t queued;
    uint32_t control;
    uint32_t token_way; // generation of the switches in which a token found its way
    struct task queue[DMA_QUEUE_DEPTH];
    struct task task;                 // the running one
    uint32_t tokens;                  // sent and not yet waited for
    uint32_t order_task;              // shim, strict: its number (array-order.c)
    uint64_t token_ready[DMA_TOKENS]; // when the first ones of them reach the controller

    enum channel_state state;
    uint8_t bd_id;
    bool header_due;
    struct bd bd;
    enum channel_request request;
    uint64_t event;    // cycle; NEVER: others see nothing of it before something wakes it
    uint64_t look;     // cycle at which to look for words again; NEVER: when woken
    uint64_t earliest; // cycle at which the descriptor's first word could move, its lock aside
    uint64_t next;     // tick at which the next word can move
    uint64_t first;    // tick of the descriptor's first word
    uint64_t waiting;  // cycle since which it waits for its lock; NEVER: it does not
    // shim: words of the burst that may move, whether one of them has moved, whether the next burst
    // is granted, and from which tick on
    uint32_t run_words; // of the descriptor, at addresses that follow each other
    uint32_t burst_left;
    bool burst_begun, granted;
    uint64_t burst_ready;
    uint64_t taken;              // shim: cycle at which the task began; NEVER: told already
    uint64_t started;            // shim: tick at which the start-up of the task was over
    uint64_t ddr_from, ddr_till; // ticks of the last wait for host memory
    uint32_t tasks;              // shim: started in this dispatch
    uint32_t granule;            // core tile: the one that was touched last, NO_GRANULE
    uint32_t granules[8];        // of the descriptor, by physical bank
    uint8_t * base;              // memory at the descriptor's address
    uint32_t left;               // words still to move
    uint32_t count[3];
    uint64_t offset; // in words from base
    uint64_t row[3]; // offset at which the current row, plane, cube began
    struct sink sink;
    struct source source;
};

// ---- control ports ----

enum control_state {
    CONTROL_PACKET, // a packet's header comes next
    CONTROL_HEADER, // its control header
    CONTROL_DATA,   // words to write
    CONTROL_ACCESS, // registers are written or read, one after the other
    CONTROL_ANSWER, // what was read leaves
};

struct control {
    struct tile * tile;
    enum control_state state;
    uint32_t header;
    uint32_t words[4];
    uint32_t have, done; // words that came; registers that were accessed, words that left
    uint64_t due;        // cycle of the next access
    struct sink in;
    struct source out;
};

// ---- tiles ----

// What a core last failed to get; for waking it and for the report.
enum core_wait {
    WAIT_NONE,
    WAIT_LOCK,
    WAIT_STREAM_IN,
    WAIT_STREAM_OUT,
    WAIT_CASCADE_IN,
    WAIT_CASCADE_OUT,
};

// A core that runs ahead of the array, perhaps on another thread; see array-pool.c.
struct core_ahead {
    struct core * core;
    uint64_t from, limit;     // the array's cycle in which it began; how far it may go
    _Atomic uint64_t bound;   // it meets nobody before this cycle
    _Atomic uint64_t awaited; // the array sleeps until it comes to this one
    atomic_int stage;
    struct core_ahead * next; // in the line for a thread
};

struct tile {
    struct array * array;
    enum tile_kind kind;
    int col, row;
    uint32_t channel_bits; // in the column's masks
    uint8_t * memory;
    uint32_t touched; // bytes from the start of memory that may have been written
    uint32_t garbage; // times that it was filled with garbage
    int8_t locks[TILE_MAX_LOCKS];
    int8_t lock_before[TILE_MAX_LOCKS];   // what it was before it was last given back,
    uint64_t lock_raised[TILE_MAX_LOCKS]; // and when that was
    uint32_t bds[TILE_MAX_BDS][BD_WORDS];
    uint64_t known_bds; // core tile and memtile, a bit for each: decoded and found to be right
    struct bd decoded[TILE_MAX_BDS];
    struct channel channels[2][TILE_MAX_CHANNELS];
    uint32_t master[TILE_MAX_PORTS], slave[TILE_MAX_PORTS], slots[TILE_MAX_PORTS][TILE_SLOTS];
    uint32_t mux, demux; // shim
    uint32_t core_control, cascade_control;

    struct core * core;         // core tiles
    uint64_t core_since;        // when it last began to run or to wait
    uint64_t ran_from, stretch; // when it last met somebody, and how long it ran before that
    uint64_t bundles_seen, stalls_seen, bank_stalls_seen, strays_seen; // already in the counters
    // Meetings of core and DMA in a bank: what DMA channels took from each physical bank of this
    // memory, in granules, told at the end of each descriptor, and how much of it the core has been
    // charged for, by memory and bank.
    uint64_t dma_granules[8], dma_seen[CORE_BANKS];
    uint64_t bank_from;      // core's time up to which it was charged
    uint64_t bank_debt;      // in millionths of a cycle
    struct core_ahead ahead; // while its bit of array.ahead is set, the core is not ours
    enum core_wait wait;
    int wait_id, wait_value;
    struct sink core_in;
    struct source core_out;
    struct control control;
    uint8_t cascade[CASCADE_DEPTH][64];
    int cascade_head, cascade_count;
};

struct tile_traits {
    const char * name;
    uint32_t memory_bytes;
    int locks, bds, bd_words, channels, masters, slaves;
};
extern const struct tile_traits tile_traits[TILE_KIND_COUNT];

struct txn {
    const uint32_t * words;
    size_t n_words, at; // at: next operation
    uint32_t ops_left;
    uint64_t time;  // cycle of the next operation
    uint64_t since; // cycle at which the one before was over
    bool waiting;   // at a sync whose token is not there yet
    bool done;
    const struct emu_operand * operands;
    int n_operands;
};

// Times of a running shim channel, in ticks: its start-up ends, it waits for host memory, its next
// word can move. All 0: it does not run.
struct shim_times {
    uint64_t started, ddr_from, ddr_till, next;
};

struct array {
    struct emu_config config;
    struct emu_clock clock;
    int columns;
    unsigned tick_shift; // ticks in a cycle, as a power of two
    uint64_t now;
    uint64_t until;                     // no word moves at this cycle or later
    uint64_t reached;                   // tick behind the last word that moved
    uint32_t awake[ARRAY_MAX_COLUMNS];  // channels that may have words to move
    uint32_t trying[ARRAY_MAX_COLUMNS]; // channels that want a task, a lock or an arbiter
    uint32_t locked[ARRAY_MAX_COLUMNS]; // channels that found their lock closed
    uint32_t wanted[ARRAY_MAX_COLUMNS][ARRAY_COLUMN_CHANNELS]; // that lock
    uint32_t armed[ARRAY_MAX_COLUMNS];                         // channels with a time in `wake`
    uint64_t column_wake[ARRAY_MAX_COLUMNS]; // no later than the first of them in the column
    uint32_t used[ARRAY_MAX_COLUMNS];        // channels that are not as after a reset
    uint64_t wake[ARRAY_MAX_COLUMNS][ARRAY_COLUMN_CHANNELS]; // min of event and look
    uint64_t next_wake;                                      // no later than the first of them
    uint64_t ddr_free[3];  // by direction, and DDR_BOTH, in 1/1000 cycles
    struct emu_runs runs;  // bytes through the shim
    struct order * order;  // strict: who wrote words of host memory; NULL: nobody asks
    uint32_t syncs;        // of the dispatch, so far
    uint64_t tiles_moving; // tick until which a tile's DMA moves
    // for the account: the times of shim channels, together; what they do, until which tick, and
    // whether one has changed since
    struct shim_times shim[ARRAY_MAX_COLUMNS][SHIM_CHANNELS];
    enum emu_cause shim_cause;
    uint64_t shim_holds;
    bool shim_changed;
    bool switch_changed; // those who stood before a dead end look again
    bool woken;          // a bit of `awake` or `trying` may be set, or a switch has changed
    uint32_t in_line;    // channels that wait for arbiters
    uint32_t noise;      // the last number of a series; it goes on from dispatch to dispatch
    struct channel * by_bit[ARRAY_MAX_COLUMNS][ARRAY_COLUMN_CHANNELS];
    uint64_t core_wake[ARRAY_MAX_COLUMNS * ARRAY_ROWS]; // by tile; NEVER: blocked, done or off
    uint64_t next_core; // no core wakes before this cycle, but for those that run ahead
    uint64_t control_wake[ARRAY_MAX_COLUMNS * ARRAY_ROWS]; // by tile; NEVER: nothing to do
    uint64_t next_control;                                 // no later than the first of them
    uint64_t ahead;                                        // these, a bit for each tile
    uint64_t horizon;   // none of them meets anybody before this cycle; NEVER: there are none
    int threads;        // that cores may run on, the array's included
    struct pool * pool; // the other ones; NULL until they are needed
    uint64_t next_ticket;
    uint32_t generation; // of the switch configuration
    struct arbiter arbiters[ARRAY_MAX_COLUMNS * ARRAY_ROWS * TILE_ARBITERS];
    struct txn txn;
    int cores_on, cores_waiting;      // switched on; of these, blocked
    int most_cores;                   // that were on at once in this dispatch
    uint64_t cdo_commands, cdo_words; // of the PDI
    uint64_t counted;                 // cycle up to which the account knows
    uint64_t stream_words;
    bool failed;
    struct error error;
    struct core_cache * programs; // prepared ones, of all cores
    struct tile * tiles;          // column by column, rows from the shim up
};

// array-tile.c: making, finding and resetting tiles
enum status array_new(const struct emu_config * config, struct array ** out, struct error * err);
void array_free(struct array * a);
void array_reset(struct array * a);
bool array_fail(struct array * a, enum status st, const char * fmt, ...) BASE_PRINTF(3, 4); // false

// array-regs.c: the register space; address = column << 25 | row << 20 | offset. False: array
// failed.
bool array_write(struct array * a, uint64_t address, const uint32_t * words, size_t n_words);
bool array_mask_write(struct array * a, uint64_t address, uint32_t mask, uint32_t value);
// By the tile's own core, which may not rewrite its program or stop itself.
bool tile_reg_read(struct tile * t, uint32_t offset, uint32_t * value);
bool tile_reg_write(struct tile * t, uint32_t offset, uint32_t value);
// By a control packet, which may do all that the controller can.
bool tile_packet_read(struct tile * t, uint32_t offset, uint32_t * value);
bool tile_packet_write(struct tile * t, uint32_t offset, uint32_t value);

// array-lock.c. 1 done, 0 would block, -1 failed.
int lock_acquire(struct tile * owner, int id, int value);
int lock_release(struct tile * owner, int id, int value);
void lock_set(struct tile * owner, int id, int value);
void lock_wait(struct channel * c, const struct tile * owner, int id); // until it changes
bool lock_of_channel(const struct channel * c, int id, struct tile ** owner, int * lock);

// array-stream.c
// For cores and control ports, at the array's time. False: full, or the array failed; nothing
// ready.
bool source_push(struct source * s, uint32_t word, bool last);
bool sink_pop(struct sink * s, uint32_t * word, bool * last);
// For channels: many words.
struct route * source_way(struct source * s, uint32_t word); // of a packet; NULL: not yet
uint32_t source_room(struct source * s, const struct route * r, uint64_t * tick, uint32_t n);
uint32_t sink_places(const struct sink * s, uint32_t n, uint32_t capacity, uint64_t back,
                     uint64_t tick); // how many of n words from `tick` on find a place
void source_enter(struct source * s, const struct route * r, const uint32_t * words, uint32_t n,
                  uint64_t tick, bool last);
void source_close(struct source * s); // the packet's last word is through
uint32_t sink_ready(const struct sink * s, uint64_t * tick, uint32_t n);
void sink_take(struct sink * s, uint32_t * words, uint32_t n, uint64_t tick);
void sink_pass(struct sink * s, uint32_t n, uint64_t tick); // n words came and left, FIFO empty
const struct route * source_route(struct source * s);       // without a header; never NULL
void sink_init(struct sink * s, struct tile * t, struct channel * c);
void sink_reset(struct sink * s);
void source_init(struct source * s, struct tile * t, struct channel * c, int slave);
void source_reset(struct source * s);
void source_free(struct source * s);

// array-route.c
void route_trace(struct tile * t, int slave, int packet_id, struct route * r); // -1: no header yet

// array-dma.c
bool channel_push(struct channel * c, uint32_t word); // a write to the queue register
bool channel_control(struct channel * c, uint32_t value);
void channel_reset(struct channel * c);
void channel_finish(struct channel * c); // its last word has moved
void channel_ask(struct channel * c);    // for what it needs next, if it can have it
uint32_t packet_header(const struct channel * c);
bool bd_may_change(struct tile * t, int bd); // false: a strict array failed, a task waits for it

// array-control.c
void control_init(struct control * c, struct tile * t);
void control_reset(struct control * c);
void control_wake(struct control * c, uint64_t at);
void array_controls(struct array * a);            // what the control ports do in this cycle
int control_words_left(const struct control * c); // that a begun packet still needs; 0: none
int control_answer_id(const struct control * c);  // of the answer that is to leave; -1: none
uint32_t odd_parity(uint32_t word);               // with bit 31 as a header needs it

// array-walk.c: where the words of a descriptor lie
uint64_t walk_bytes(const struct bd * bd); // from the first one to the end of the furthest
void walk_begin(struct channel * c);
uint32_t walk_peek(const struct channel * c);
void walk_read(struct channel * c, uint32_t * words, uint32_t n);
void walk_write(struct channel * c, const uint32_t * words, uint32_t n);
// Where the next n words lie, one after the other; NULL: not so. For one who writes there himself.
uint32_t * walk_place(const struct channel * c, uint32_t n);
void walk_written(struct channel * c, uint32_t n); // and has done it

// array-bd.c
void bd_decode(enum tile_kind kind, const uint32_t words[BD_WORDS], struct bd * bd);
void bd_store_iteration(enum tile_kind kind, uint32_t words[BD_WORDS], uint32_t current);

// array-ddr.c: turns of the shim's channels at host memory
void ddr_begin(struct channel * c);       // a descriptor
void ddr_first_burst(struct channel * c); // which waits for its turn
void ddr_ask_burst(struct channel * c);   // for the next one

// array-order.c: reads of what was not known to be written
bool order_new(struct array * a); // false: no memory
void order_free(struct array * a);
void order_begin(struct array * a);    // of a dispatch
void order_task(struct channel * c);   // the channel begins one
void order_ended(struct channel * c);  // a descriptor, and gives a lock back
void order_synced(struct channel * c); // its next token was waited for
void order_read(struct channel * c, const uint8_t * at, uint32_t step, uint32_t n);
void order_wrote(struct channel * c, const uint8_t * at, uint32_t step, uint32_t n);

// array-burst.c: what the channels do in this cycle, and all words whose times are known
void array_channels(struct array * a);

// array-core.c
enum status tile_core_new(struct tile * t);
void tile_core_reset(struct tile * t);
bool tile_core_control(struct tile * t, uint32_t value);
void tile_core_run(struct tile * t);
void tile_core_came(struct tile * t);     // ran ahead to its next meeting, or faulted
bool array_fail_faults(struct array * a); // of cores whose time has not come; false: there are some
void tile_core_wake(struct tile * t, uint64_t at);
void tile_core_count(struct tile * t, struct emu_counters * counters); // since the last call

// array-pool.c: cores that run ahead, on other threads where there are some
enum status array_pool_setting(const struct emu_config * config, int * threads, struct error * err);
void array_pool_begin(struct array * a); // of a dispatch
void array_pool_free(struct array * a);
bool array_pool_add(struct tile * t, uint64_t limit); // false: there are no other threads
// The first cycle up to `until` in which a core is due, else `until`; may wait for cores.
uint64_t array_cores_due(struct array * a, uint64_t until);
// Is a core due in this cycle? Waits for all that might be.
bool array_cores_here(struct array * a);
void array_cores_join(struct array * a); // all of them are ours again

// array-config.c. The bytes of the PDI that count are *used.
enum status pdi_check(const uint8_t * pdi, size_t size, size_t * used, struct error * err);
bool pdi_load(struct array * a, const uint8_t * pdi, size_t used);

// array-txn.c
bool txn_start(struct array * a, const uint32_t * words, size_t n_words,
               const struct emu_operand * operands, int n_operands);
bool txn_loads_pdi(const uint32_t * words, size_t n_words); // first of all
bool txn_step(struct array * a); // runs operations that are due; false: failed
void txn_sync_text(const struct array * a, char * text, size_t size);

// array-account.c: the time since a->counted goes to its causes
void account_step(struct array * a, struct emu_account * account);
// Parts become cycles, and the stalls of all cores at banks leave the running time.
void account_close(struct array * a, struct emu_account * account, uint64_t cycles,
                   uint64_t bank_stalls);

// array-report.c
bool array_fail_deadlock(struct array * a);
bool array_fail_unfinished(struct array * a);
bool array_shim_busy(const struct array * a);

static inline struct tile * array_tile(struct array * a, int col, int row) { // NULL outside
    bool inside = col >= 0 && col < a->columns && row >= 0 && row < ARRAY_ROWS;
    return inside ? &a->tiles[col * ARRAY_ROWS + row] : NULL;
}

// Said before the bytes below `end` of the tile's memory may be written: a reset clears no more.
static inline void tile_touch(struct tile * t, uint64_t end) {
    if (end > t->touched) {
        t->touched = (uint32_t) end;
    }
}

// Tells whoever looks at the timeline; t NULL: no tile.
static inline void array_event(const struct array * a, enum emu_event_kind kind,
                               const struct tile * t, const char * what, uint64_t start,
                               uint64_t end) {
    if (a->config.event) {
        a->config.event(a->config.user, &(struct emu_event){.kind = kind,
                                                            .col = t ? t->col : -1,
                                                            .row = t ? t->row : -1,
                                                            .channel = -1,
                                                            .what = what,
                                                            .start = start,
                                                            .end = end});
    }
}

// Tells the account what a shim channel does.
static inline void shim_tell(const struct channel * c) {
    if (c->tile->kind == TILE_SHIM) {
        struct array * a = c->tile->array;
        struct shim_times now = {c->started, c->ddr_from, c->ddr_till, c->next};
        a->shim[c->tile->col][c->bit] =
            c->state == CHANNEL_RUN ? now : (struct shim_times){0, 0, 0, 0};
        a->shim_changed = true;
    }
}

static inline void channel_used(const struct channel * c) {
    c->tile->array->used[c->tile->col] |= 1u << c->bit;
}

static inline void channel_wake(struct channel * c) {
    struct array * a = c->tile->array;
    a->awake[c->tile->col] |= 1u << c->bit;
    a->woken = true;
}

static inline void channel_try(struct channel * c) {
    struct array * a = c->tile->array;
    a->trying[c->tile->col] |= 1u << c->bit;
    a->woken = true;
}

static inline void channel_set_wake(struct channel * c) {
    struct array * a = c->tile->array;
    uint64_t wake = c->event < c->look ? c->event : c->look;
    a->wake[c->tile->col][c->bit] = wake;
    if (wake == NEVER) {
        a->armed[c->tile->col] &= ~(1u << c->bit);
    } else {
        a->armed[c->tile->col] |= 1u << c->bit;
        uint64_t * first = &a->column_wake[c->tile->col];
        *first = wake < *first ? wake : *first;
        a->next_wake = wake < a->next_wake ? wake : a->next_wake;
    }
}

static inline void channel_event(struct channel * c, uint64_t cycle, enum channel_request request) {
    c->event = cycle;
    c->request = request;
    channel_set_wake(c);
}

static inline void channel_sleep(struct channel * c) { // until woken, whatever it waited for
    struct array * a = c->tile->array;
    a->awake[c->tile->col] &= ~(1u << c->bit);
    a->trying[c->tile->col] &= ~(1u << c->bit);
    a->locked[c->tile->col] &= ~(1u << c->bit);
    c->look = NEVER;
    channel_event(c, NEVER, REQUEST_NONE);
}

static inline uint64_t ticks(const struct array * a, uint64_t cycles) {
    return cycles << a->tick_shift;
}

static inline uint64_t cycle_of(const struct array * a, uint64_t tick) {
    return tick >> a->tick_shift;
}

static inline const char * dir_name(enum dma_dir dir) {
    return dir == DMA_S2MM ? "S2MM" : "MM2S";
}
