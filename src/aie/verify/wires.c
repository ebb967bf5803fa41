// wires: the streams between tiles. A stream may go to DMA channels and cores of the partition and
// nowhere else: a control port would take its words as writes to any register (packets.c says when
// it may), a neighbouring partition as its own data, the controller beside the array as tokens.
// Only the PDI sets them: what one stream changed would last while another one runs.
#include "model.h"

enum {
    ENABLE = 31,
    PACKET = 30,
    SLOT_ENABLE = 8,
    SHIM_CONTROL = 0, // slave
    SHIM_TOKENS = 2,  // master South 0
    TO_DMA = 1,       // of mux and demux
    MOST_HOPS = 64,
};

// The ports at the south of a shim that belong to its DMA, and where mux and demux say so.
static const struct {
    bool master;
    uint8_t south, channel, low;
} shim_dma[] = {{true, 2, 0, 4}, {true, 3, 1, 6}, {false, 3, 0, 10}, {false, 7, 1, 14}};

static bool is_on(uint32_t word) {
    return word >> ENABLE;
}

static bool is_packet(uint32_t word) {
    return word >> PACKET & 1;
}

bool verify_wires_written(struct verifier * v, const struct tile * t, const struct reg * reg) {
    bool master = reg->class == REG_MASTER;
    uint32_t word = master ? t->master[reg->index] : t->slave[reg->index];
    if (!is_on(word)) {
        return true;
    }
    int index;
    enum side side = verify_port_side(t->kind, master, reg->index, &index);
    const struct tile_map * map = map_of(v, t);
    if (master && side == SIDE_CONTROL) {
        return verify_packets_written(v, t, word);
    }
    if ((side == SIDE_WEST && t->col == 0) || (side == SIDE_EAST && t->col == v->columns - 1)) {
        return verify_refuse(v, "make it again for this partition",
                             "a stream %s the partition of %d columns at port %s %d of %s (%d,%d)",
                             master ? "leaves" : "enters", v->columns,
                             side == SIDE_WEST ? "West" : "East", index, map->name, t->col, t->row);
    }
    if (master && !is_packet(word) && (int) bits(word, 6, 0) >= map->slaves) {
        return verify_refuse(
            v, "make it again",
            "master %d of %s (%d,%d) takes its words from slave %u, which it does not "
            "have",
            reg->index, map->name, t->col, t->row, bits(word, 6, 0));
    }
    return true;
}

// Whether packets that come in at a slave may go out at a master.
static bool joined(const struct tile * t, int slave, int master) {
    uint32_t in = t->slave[slave], out = t->master[master];
    bool packets = is_on(in) && is_packet(in) && is_on(out) && is_packet(out);
    for (int i = 0; i < PORT_SLOTS && packets; i++) {
        uint32_t slot = t->slots[slave][i];
        if (slot >> SLOT_ENABLE & 1 && bits(slot, 2, 0) == bits(out, 2, 0) &&
            bits(out, 6, 3) >> bits(slot, 5, 4) & 1) {
            return true;
        }
    }
    return false;
}

static bool is_dma(const struct verifier * v, const struct tile * t, bool master, int south,
                   int * channel) {
    const struct shim * s = &v->shims[t->col];
    for (size_t i = 0; i < sizeof shim_dma / sizeof shim_dma[0]; i++) {
        if (shim_dma[i].master == master && shim_dma[i].south == south) {
            uint32_t word = master ? s->demux : s->mux;
            *channel = shim_dma[i].channel;
            return bits(word, shim_dma[i].low + 1u, shim_dma[i].low) == TO_DMA;
        }
    }
    return false;
}

static bool check_south(struct verifier * v, const struct tile * t, bool master, int port) {
    int south, channel;
    uint32_t word = master ? t->master[port] : t->slave[port];
    if (!is_on(word) || verify_port_side(TILE_SHIM, master, port, &south) != SIDE_SOUTH) {
        return true;
    }
    if (!master || port != SHIM_TOKENS) {
        return is_dma(v, t, master, south, &channel) ||
               verify_refuse(
                   v, "make it again",
                   "a stream %s the array at port South %d of shim (%d,0), which is none of its "
                   "DMA",
                   master ? "leaves" : "enters", south, t->col);
    }
    bool only_tokens = is_packet(word);
    for (int i = 0; i < map_of(v, t)->slaves && only_tokens; i++) {
        only_tokens = i == SHIM_CONTROL || !joined(t, i, port);
    }
    return only_tokens ||
           verify_refuse(v, "make it again",
                         "a stream reaches the controller at port South 0 of shim (%d,0), "
                         "which is for tokens alone",
                         t->col);
}

bool verify_wires_check(struct verifier * v) {
    bool ok = true;
    for (int col = 0; col < v->columns && ok; col++) {
        const struct tile * t = &v->tiles[col][0];
        for (int i = 0; i < map_of(v, t)->masters && ok; i++) {
            ok = check_south(v, t, true, i);
        }
        for (int i = 0; i < map_of(v, t)->slaves && ok; i++) {
            ok = check_south(v, t, false, i);
        }
    }
    return ok && verify_packets_check(v);
}

bool verify_wires_token_way(const struct verifier * v, const struct tile * t, int queue) {
    uint32_t id = bits(v->shims[t->col].control[queue], 12, 8);
    uint32_t in = t->slave[SHIM_CONTROL], out = t->master[SHIM_TOKENS];
    bool packets = is_on(in) && is_packet(in) && is_on(out) && is_packet(out);
    for (int i = 0; i < PORT_SLOTS && packets; i++) { // the first slot that takes the id decides
        uint32_t slot = t->slots[SHIM_CONTROL][i], mask = bits(slot, 20, 16);
        if (slot >> SLOT_ENABLE & 1 && ((id ^ bits(slot, 28, 24)) & mask) == 0) {
            return bits(slot, 2, 0) == bits(out, 2, 0) && bits(out, 6, 3) >> bits(slot, 5, 4) & 1;
        }
    }
    return false;
}

// ---- where a stream comes from ----

static const struct {
    int8_t cols, rows;
    uint8_t from; // the side of the neighbour that it left by
} sides[] = {
    [SIDE_SOUTH] = {0, -1, SIDE_NORTH},
    [SIDE_NORTH] = {0, 1, SIDE_SOUTH},
    [SIDE_WEST] = {-1, 0, SIDE_EAST},
    [SIDE_EAST] = {1, 0, SIDE_WEST},
};

// Back along a circuit; where packets begin, their ids decide, and that is left open.
bool verify_wires_source(const struct verifier * v, const struct tile * t, int channel) {
    int found, port = verify_port_at(TILE_SHIM, true, SIDE_SOUTH, 2 + channel);
    if (!is_dma(v, t, true, 2 + channel, &found)) {
        return false;
    }
    for (int hop = 0; hop < MOST_HOPS; hop++) {
        uint32_t out = t->master[port];
        if (!is_on(out) || is_packet(out)) {
            return is_on(out);
        }
        int slave = (int) bits(out, 6, 0), index;
        if (!is_on(t->slave[slave]) || is_packet(t->slave[slave])) {
            return false;
        }
        enum side side = verify_port_side(t->kind, false, slave, &index);
        if (side == SIDE_NONE) {
            return true; // a DMA channel, a core, a trace
        }
        int col = t->col + sides[side].cols, row = t->row + sides[side].rows;
        if (side == SIDE_CONTROL || row < 0) { // of a shim, from its own DMA
            return t->kind == TILE_SHIM && is_dma(v, t, false, index, &found);
        }
        if (col < 0 || col >= v->columns || row >= ROWS) {
            return false;
        }
        t = &v->tiles[col][row];
        port = verify_port_at(t->kind, true, (enum side) sides[side].from, index);
        if (port < 0) {
            return false;
        }
    }
    return false;
}
