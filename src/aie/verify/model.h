// model: the array as the verifier sees it, and what its files share. Registers and descriptors are
// tables (regs.c, bd.c); tile.c applies writes, shim.c follows transfers to host memory, late.c
// reads that may not be over, wires.c the streams, packets.c those to control ports, headers.c what
// files say of themselves; verify.c walks them.
#pragma once

#include "verify.h"

#include "aie/image/image.h"
#include "aie/target/target.h"

enum tile_kind { TILE_SHIM, TILE_MEM, TILE_CORE, TILE_KINDS };

enum {
    MOST_OPERANDS = 256, // of kernels that were joined
    ROWS = AIE_ROWS,
    MOST_BDS = 48,
    BD_WORDS = 8,
    MOST_PORTS = 25,
    PORT_SLOTS = 4,
    SHIM_BDS = 16,
    SHIM_CHANNELS = 2, // each way
    SHIM_QUEUES = 2 * SHIM_CHANNELS,
    QUEUE_TASKS = 5,  // one that runs and four that wait
    MOST_TOKENS = 64, // that tasks of one channel may owe at a time
};

// ---- registers ----

enum reg_class {
    REG_DATA,
    REG_PROGRAM,
    REG_LOCK,
    REG_BD,
    REG_S2MM_CONTROL,
    REG_S2MM_QUEUE,
    REG_MM2S_CONTROL,
    REG_MM2S_QUEUE,
    REG_MASTER, // from here on what leads streams
    REG_SLAVE,
    REG_SLOT,
    REG_MUX,
    REG_DEMUX, // up to here
    REG_CORE_CONTROL,
    REG_HARMLESS, // traces, timers and events: nothing that leaves the tile
};

struct reg {
    enum reg_class class;
    int index;     // which lock, descriptor, channel or port
    uint32_t word; // within a descriptor or slot; byte offset within a memory
};

struct reg_range;

struct tile_map { // what a kind of tile is made of
    const char * name;
    const struct reg_range * regs;
    int n_regs;
    int bds, bd_words, channels; // channels: each way
    uint32_t memory_bytes;
    int locks, masters, slaves;
};

struct array_map { // an architecture
    const char * name;
    int columns;
    unsigned generation;
    struct tile_map tiles[TILE_KINDS];
};

const struct array_map * verify_array_map(enum aie_arch arch);
// The register at a byte offset within a tile; false: none that a kernel may write.
bool verify_reg_find(const struct tile_map * map, uint32_t offset, struct reg * out);
// Bytes from an offset in a memory to the end of it.
uint32_t verify_reg_room(const struct tile_map * map, const struct reg * reg);

// ---- switches ----

enum side { SIDE_NONE, SIDE_CONTROL, SIDE_SOUTH, SIDE_WEST, SIDE_NORTH, SIDE_EAST };

// To or from which side a port of a switch leads, and as which of that side's.
enum side verify_port_side(enum tile_kind kind, bool master, int port, int * index);
int verify_port_at(enum tile_kind kind, bool master, enum side side,
                   int index); // -1: there is none

// ---- descriptors ----

struct bd { // a descriptor in one form
    bool valid, chained, acquires, releases, compressed, out_of_order, secure, packet;
    bool pads, pads_unwrapped; // zeros around the data; also where there is nothing to go around
    int next;
    uint32_t stream_id;     // of the memory translation
    uint32_t words;         // 32 bits each
    uint32_t address;       // memtile, core: word address
    uint64_t reach;         // words from its address to behind the last it touches, in any run
    uint32_t run, last_run; // how often it ran, and when that begins anew
    uint32_t acquire, lock; // locks as its tile numbers them
};

void verify_bd_read(enum tile_kind kind, const uint32_t words[BD_WORDS], struct bd * out);
uint64_t verify_bd_reach(enum tile_kind kind, const uint32_t words[BD_WORDS]);

// ---- state ----

struct binding { // of a shim's descriptor, by a patch
    bool there;
    int operand;
    uint32_t offset; // bytes
};

struct bd_use {      // by a shim's queue
    uint32_t task;   // number of the last task that goes through it; 0: none
    uint32_t offset; // in the stream, of its start
    uint32_t syncs;  // that had passed by then
};

struct queue {            // of a shim
    uint32_t tasks, done; // numbers: the last that was started, the last that is known to be over
    uint32_t believed;    // of reads: the last before a SYNC of any channel
    uint32_t last_offset;
    uint32_t tokens[MOST_TOKENS]; // tasks that will report, the oldest first
    int n_tokens;
    bool waited; // for one of them
    bool untold; // there were more than the list has room for
};

struct shim {
    struct binding bound[SHIM_BDS];
    struct bd_use uses[SHIM_BDS][SHIM_QUEUES];
    struct queue queues[SHIM_QUEUES];
    uint32_t control[SHIM_QUEUES];
    uint32_t mux, demux;
    uint32_t changed; // descriptors that a late read may find changed by the last commands, as bits
};

struct tile {
    enum tile_kind kind;
    int col, row;
    uint32_t bds[MOST_BDS][BD_WORDS];
    uint8_t fresh[MOST_BDS]; // words that this file wrote whole, as bits
    uint64_t touched;        // descriptors that it wrote to at all, as bits
    uint32_t master[MOST_PORTS], slave[MOST_PORTS], slots[MOST_PORTS][PORT_SLOTS];
    bool has_program, enabled;
    uint8_t controls; // MM2S channels whose packets can reach a control port, as bits
};

struct verifier {
    const struct verify_job * job;
    const struct array_map * map;
    int columns;
    bool in_stream;              // else in the PDI
    uint32_t offset;             // of the command, in bytes
    uint32_t syncs;              // passed so far
    uint64_t dirty;              // descriptors of the command's tile that it changed, as bits
    bool written[MOST_OPERANDS]; // by a transfer
    struct tile tiles[AIE_MOST_COLUMNS][ROWS];
    struct shim shims[AIE_MOST_COLUMNS];
    struct error error; // status ST_OK: nothing wrong so far
};

// Notes what is wrong (the first alone counts): "<file> at offset 0x..: <reason>; <mend>". Always
// false, which ends the walk.
bool verify_refuse(struct verifier * v, const char * mend, const char * fmt, ...) BASE_PRINTF(3, 4);

static inline const struct tile_map * map_of(const struct verifier * v, const struct tile * t) {
    return &v->map->tiles[t->kind];
}

// ---- the parts ----

bool verify_pdi_header(struct verifier * v); // of one that could be read
bool verify_stream_header(struct verifier * v);

// All words of a write, in order; then tile_settle once for the command.
bool verify_tile_write(struct verifier * v, struct tile * t, const struct reg * reg, uint32_t mask,
                       uint32_t value);
bool verify_tile_settle(struct verifier * v, struct tile * t);
// The descriptors that the PDI leaves: whole, because the rest might be another one's. The stream
// begins with none.
bool verify_tile_configured(struct verifier * v, struct tile * t);

bool verify_shim_block(struct verifier * v, struct tile * t, int bd,
                       const uint32_t fresh[BD_WORDS]);
bool verify_shim_patch(struct verifier * v, struct tile * t, int bd, int operand, uint32_t offset);
bool verify_shim_push(struct verifier * v, struct tile * t, int queue, uint32_t value);
bool verify_shim_sync(struct verifier * v, struct tile * t, int queue);
bool verify_shim_end(struct verifier * v);

// Whether a queue's channel may run a descriptor: all of it, or what it is without its address.
bool verify_shim_check_bd(struct verifier * v, const struct tile * t, int queue, int id,
                          struct bd * bd);
bool verify_shim_check_kind(struct verifier * v, const struct tile * t, int queue, int id,
                            const struct bd * bd);
uint64_t verify_largest_room(const struct verifier * v); // of all operands

// A descriptor that a read may still use, before its words are written and after its patch.
bool verify_late_block(struct verifier * v, const struct tile * t, int id,
                       const uint32_t fresh[BD_WORDS]);
bool verify_late_patch(struct verifier * v, const struct tile * t, int id);
// When a command follows that could let one go on.
bool verify_late_settled(struct verifier * v);

// What a write to a switch may not do, at once, whatever follows.
bool verify_wires_written(struct verifier * v, const struct tile * t, const struct reg * reg);
// The whole, when the PDI is done.
bool verify_wires_check(struct verifier * v);
bool verify_wires_token_way(const struct verifier * v, const struct tile * t, int queue);

// A master that leads to a control port; all that can reach one; and what a channel sends there.
bool verify_packets_written(struct verifier * v, const struct tile * t, uint32_t master);
bool verify_packets_check(struct verifier * v);
bool verify_packets_sent(struct verifier * v, const struct tile * t, int channel, int id,
                         const struct bd * bd);

// Whether something is at the other end of what a shim's queue writes to memory.
bool verify_wires_source(const struct verifier * v, const struct tile * t, int channel);

static inline int queue_of(bool mm2s, int channel) {
    return (mm2s ? SHIM_CHANNELS : 0) + channel;
}
static inline bool queue_reads(int queue) { // memory
    return queue >= SHIM_CHANNELS;
}
