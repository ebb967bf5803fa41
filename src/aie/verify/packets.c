// packets: streams that end in a control port, where words are writes to the registers of a tile.
// What they write comes from memory, which no file shows: so no stream of others may lead there. In
// a kernel of ours they may, if the place that each goes to follows from the files: the header
// of every packet is put on by a DMA channel, by its descriptor, and a control port takes packets
// alone. A core or a trace, or words of memory that are taken for a header, could name any id and
// with it any tile.
#include "model.h"

#include <string.h>

enum { ENABLE = 31, PACKET = 30, DROPS_HEADER = 7, SLOT_ENABLE = 8, IDS = 32, NOBODY = -1 };

// Slaves of a switch at which words enter that do not come from a neighbour.
struct entry {
    uint8_t slave;
    int8_t channel; // of the tile's DMA, or NOBODY
    const char * what;
};

static const struct entry shim_entries[] = {
    {5, 0, "MM2S0"}, {9, 1, "MM2S1"}, {0, NOBODY, "the control port"}, {22, NOBODY, "the trace"}};
static const struct entry mem_entries[] = {{0, 0, "MM2S0"},
                                           {1, 1, "MM2S1"},
                                           {2, 2, "MM2S2"},
                                           {3, 3, "MM2S3"},
                                           {4, 4, "MM2S4"},
                                           {5, 5, "MM2S5"},
                                           {6, NOBODY, "the control port"},
                                           {17, NOBODY, "the trace"}};
static const struct entry core_entries[] = {
    {0, NOBODY, "the core"},         {1, 0, "MM2S0"},           {2, 1, "MM2S1"},
    {3, NOBODY, "the control port"}, {23, NOBODY, "the trace"}, {24, NOBODY, "the trace"}};

#define TABLE(t) t, sizeof(t) / sizeof(t[0])
static const struct {
    const struct entry * entries;
    size_t n;
    int fifo; // a port whose master leads back to the slave of the same number
} kinds[TILE_KINDS] = {
    [TILE_SHIM] = {TABLE(shim_entries), 1},
    [TILE_MEM] = {TABLE(mem_entries), NOBODY},
    [TILE_CORE] = {TABLE(core_entries), 4},
};

static bool bit(uint32_t word, int n) {
    return word >> n & 1;
}

bool verify_packets_written(struct verifier * v, const struct tile * t, uint32_t master) {
    const char * name = map_of(v, t)->name;
    if (!bit(master, PACKET)) {
        return verify_refuse(
            v, "leave control packets out",
            "a stream is led to the control port of %s (%d,%d), where its words could "
            "write any register",
            name, t->col, t->row);
    }
    if (bit(master, DROPS_HEADER)) {
        return verify_refuse(v, "leave their headers on",
                             "packets are led to the control port of %s (%d,%d) without their "
                             "headers: it would take other words for them",
                             name, t->col, t->row);
    }
    return v->job->own ||
           verify_refuse(v, "leave control packets out",
                         "packets are led to the control port of %s (%d,%d): which registers they "
                         "write stands in memory, and could be any",
                         name, t->col, t->row);
}

// ---- where packets with an id go ----

struct walk {
    struct verifier * v;
    uint32_t id;
    const struct tile * control; // the tile whose control port was reached, or NULL
    bool seen[AIE_MOST_COLUMNS][ROWS][MOST_PORTS];
};

static void enter(struct walk * w, int col, int row, int slave);

static void leave(struct walk * w, const struct tile * t, int master) {
    static const int8_t cols[] = {[SIDE_WEST] = -1, [SIDE_EAST] = 1};
    static const int8_t rows[] = {[SIDE_SOUTH] = -1, [SIDE_NORTH] = 1, [SIDE_EAST] = 0};
    static const uint8_t from[] = {[SIDE_SOUTH] = SIDE_NORTH,
                                   [SIDE_NORTH] = SIDE_SOUTH,
                                   [SIDE_WEST] = SIDE_EAST,
                                   [SIDE_EAST] = SIDE_WEST};
    int index;
    enum side side = verify_port_side(t->kind, true, master, &index);
    if (side == SIDE_CONTROL) {
        w->control = t;
    } else if (side == SIDE_NONE) {
        if (master == kinds[t->kind].fifo) {
            enter(w, t->col, t->row, master);
        }
    } else {
        int col = t->col + cols[side], row = t->row + rows[side];
        if (col >= 0 && col < w->v->columns && row >= 0 && row < ROWS) {
            enum tile_kind kind = w->v->tiles[col][row].kind;
            enter(w, col, row, verify_port_at(kind, false, (enum side) from[side], index));
        }
    }
}

// The first slot that takes the id decides; a circuit takes every one.
static void enter(struct walk * w, int col, int row, int slave) {
    if (slave < 0 || w->seen[col][row][slave]) {
        return;
    }
    const struct tile * t = &w->v->tiles[col][row];
    w->seen[col][row][slave] = true;
    uint32_t in = t->slave[slave], slot = 0;
    bool packets = bit(in, PACKET), takes = bit(in, ENABLE) && !packets;
    for (int i = 0; i < PORT_SLOTS && packets && bit(in, ENABLE) && !takes; i++) {
        slot = t->slots[slave][i];
        takes = bit(slot, SLOT_ENABLE) && ((w->id ^ bits(slot, 28, 24)) & bits(slot, 20, 16)) == 0;
    }
    for (int m = 0; m < map_of(w->v, t)->masters && takes; m++) {
        uint32_t out = t->master[m];
        bool goes =
            packets ? bits(out, 2, 0) == bits(slot, 2, 0) && bits(out, 6, 3) >> bits(slot, 5, 4) & 1
                    : (int) bits(out, 6, 0) == slave;
        if (bit(out, ENABLE) && bit(out, PACKET) == packets && goes) {
            leave(w, t, m);
        }
    }
}

static bool any_control(const struct verifier * v) {
    for (int i = 0; i < v->columns * ROWS; i++) {
        const struct tile * t = &v->tiles[i / ROWS][i % ROWS];
        int port = verify_port_at(t->kind, true, SIDE_CONTROL, 0);
        if (bit(t->master[port], ENABLE)) {
            return true;
        }
    }
    return false;
}

static bool check_entry(struct verifier * v, struct tile * t, const struct entry * e) {
    for (uint32_t id = 0; id < IDS; id++) {
        struct walk w = {.v = v, .id = id};
        enter(&w, t->col, t->row, e->slave);
        if (w.control && e->channel == NOBODY) {
            return verify_refuse(
                v, "let a DMA channel send it, with a header from its descriptor",
                "%s of %s (%d,%d) can send packets to the control port of %s (%d,%d), with headers "
                "that no file tells",
                e->what, map_of(v, t)->name, t->col, t->row, map_of(v, w.control)->name,
                w.control->col, w.control->row);
        }
        if (w.control) {
            t->controls |= (uint8_t) (1u << e->channel);
        }
    }
    return true;
}

bool verify_packets_check(struct verifier * v) {
    bool ok = true;
    for (int i = 0; i < v->columns * ROWS && ok && any_control(v); i++) {
        struct tile * t = &v->tiles[i / ROWS][i % ROWS];
        for (size_t k = 0; k < kinds[t->kind].n && ok; k++) {
            ok = check_entry(v, t, &kinds[t->kind].entries[k]);
        }
    }
    return ok;
}

bool verify_packets_sent(struct verifier * v, const struct tile * t, int channel, int id,
                         const struct bd * bd) {
    return !(t->controls >> channel & 1) || bd->packet ||
           verify_refuse(v, "give the descriptor a packet header",
                         "MM2S%d of %s (%d,%d), which leads to a control port, is started with "
                         "descriptor %d, whose first word would be taken for a header",
                         channel, map_of(v, t)->name, t->col, t->row, id);
}
