// array/route: streams through the switches between the tiles. A switch joins each master (a way
// out) to one slave (a way in); a slave may feed many masters, which is how a stream forks. A wire
// is a master of one tile and the slave of the same number in its neighbour; every wire belongs to
// one stream. A memtile passes a stream on only between wires of one number, so such a stream takes
// the same number below and above it.
#include "array.h"

#include <string.h>

enum tile_kind { SHIM, MEM, CORE, KINDS };

#define PORT_ENABLE (1u << 31)

struct ports {
    uint8_t first, count;
};

static const struct {
    uint32_t master, slave; // registers of the switch
    struct ports out[ARRAY_SIDES], in[ARRAY_SIDES];
    uint8_t dma_first, dma_channels; // the shim's DMA comes through its south side instead
    uint8_t ports;                   // either way, those for traces apart
} kinds[KINDS] = {
    [SHIM] = {SHIM_MASTER,
              SHIM_SLAVE,
              {[ARRAY_WEST] = {8, 4}, [ARRAY_NORTH] = {12, 6}, [ARRAY_EAST] = {18, 4}},
              {[ARRAY_WEST] = {10, 4}, [ARRAY_NORTH] = {14, 4}, [ARRAY_EAST] = {18, 4}},
              0,
              2,
              0},
    [MEM] = {MEM_MASTER,
             MEM_SLAVE,
             {[ARRAY_SOUTH] = {7, 4}, [ARRAY_NORTH] = {11, 6}},
             {[ARRAY_SOUTH] = {7, 6}, [ARRAY_NORTH] = {13, 4}},
             0,
             6,
             17},
    [CORE] = {CORE_MASTER,
              CORE_SLAVE,
              {[ARRAY_SOUTH] = {5, 4},
               [ARRAY_WEST] = {9, 4},
               [ARRAY_NORTH] = {13, 6},
               [ARRAY_EAST] = {19, 4}},
              {[ARRAY_SOUTH] = {5, 6},
               [ARRAY_WEST] = {11, 4},
               [ARRAY_NORTH] = {15, 4},
               [ARRAY_EAST] = {19, 4}},
              1,
              2,
              ARRAY_PORTS},
};

// Leaving to a side leads to the neighbour there and into its opposite side.
static const struct {
    int8_t cols, rows;
    uint8_t enters;
    const char * name;
} sides[ARRAY_SIDES] = {
    [ARRAY_SOUTH] = {0, -1, ARRAY_NORTH, "south"},
    [ARRAY_WEST] = {-1, 0, ARRAY_EAST, "west"},
    [ARRAY_NORTH] = {0, +1, ARRAY_SOUTH, "north"},
    [ARRAY_EAST] = {+1, 0, ARRAY_WEST, "east"},
};

// Where the shim's DMA channels meet its switch, and the multiplexer field that connects them.
static const struct { uint8_t port, mux_bit; } shim_mm2s[2] = {{5, 10}, {9, 14}};
static const struct { uint8_t port, mux_bit; } shim_s2mm[2] = {{4, 4}, {5, 6}};

struct walk { // one stream
    struct array * a;
    struct array_port from;
    bool through_mem; // goes on beyond the memtile of its column
    int8_t wires[ARRAY_COLUMNS_MOST][ARRAY_ROWS_ALL][ARRAY_SIDES]; // that it took, -1 = none
};

static enum tile_kind kind_of(int row) {
    return row == ARRAY_ROW_SHIM ? SHIM : row == ARRAY_ROW_MEM ? MEM : CORE;
}

static bool wrong(struct array * a, const char * what, struct array_port p) {
    if (a->misuse.status == ST_OK) {
        error_set(&a->misuse, ST_INVALID, "array: %s (tile %d,%d channel %d)", what, p.col, p.row,
                  p.channel);
    }
    return false;
}

static bool check_port(struct array * a, struct array_port p) {
    return (p.col >= 0 && p.col < aie_target(a->arch)->columns && p.row >= 0 &&
            p.row < ARRAY_ROWS_ALL && p.channel >= 0 &&
            p.channel < kinds[kind_of(p.row)].dma_channels) ||
           wrong(a, "there is no such DMA channel", p);
}

// A shim's ports are written one by one, for others are the driver's. Those of the other switches
// are kept until all are known.
static void connect(struct array * a, int col, int row, int master, int slave) {
    enum tile_kind kind = kind_of(row);
    if (kind == SHIM) {
        cdo_write(&a->setup, image_addr(col, row, SHIM_MASTER + 4 * (uint32_t) master),
                  PORT_ENABLE | (uint32_t) slave);
        cdo_write(&a->setup, image_addr(col, row, SHIM_SLAVE + 4 * (uint32_t) slave), PORT_ENABLE);
        return;
    }
    a->masters[col][row][master] = PORT_ENABLE | (uint32_t) slave;
    a->slaves[col][row][slave] = PORT_ENABLE;
    a->joined[col][row] = true;
}

void array_write_switches(struct array * a) {
    for (int col = 0; col < ARRAY_COLUMNS_MOST; col++) {
        for (int row = ARRAY_ROW_MEM; row < ARRAY_ROWS_ALL; row++) {
            enum tile_kind kind = kind_of(row);
            if (a->joined[col][row]) {
                cdo_block_write(&a->setup, image_addr(col, row, kinds[kind].master),
                                a->masters[col][row], kinds[kind].ports);
                cdo_block_write(&a->setup, image_addr(col, row, kinds[kind].slave),
                                a->slaves[col][row], kinds[kind].ports);
            }
        }
    }
}

// The wire by which the stream leaves the tile to that side, taken now where it has none yet.
static int leave(struct walk * w, int col, int row, enum array_side side, int slave) {
    struct array * a = w->a;
    int8_t * mine = &w->wires[col][row][side];
    if (*mine >= 0) {
        return *mine;
    }
    int next = row + sides[side].rows;
    bool passes = w->through_mem && next == ARRAY_ROW_MEM,
         passed = w->through_mem && row == ARRAY_ROW_MEM;
    const struct ports * out = &kinds[kind_of(row)].out[side];
    uint8_t * taken = &a->wires[col][row][side];
    int wire = 0;
    if (passed) { // taken together with the one before the memtile
        wire = w->wires[col][row - sides[side].rows][side];
    } else {
        uint8_t * beyond = passes ? &a->wires[col][ARRAY_ROW_MEM][side] : taken;
        while (wire < out->count && ((*taken | *beyond) >> wire & 1)) {
            wire++;
        }
        if (wire == out->count) {
            if (a->misuse.status == ST_OK) {
                error_set(&a->misuse, ST_INVALID,
                          "array: tile %d,%d has no stream left to the %s; route fewer there", col,
                          row, sides[side].name);
            }
            return -1;
        }
        *taken |= (uint8_t) (1u << wire);
        *beyond |= (uint8_t) (1u << wire);
    }
    connect(a, col, row, out->first + wire, slave);
    return *mine = (int8_t) wire;
}

static bool arrive(struct walk * w, struct array_port to, int slave) {
    struct array * a = w->a;
    enum tile_kind kind = kind_of(to.row);
    bool at_home = to.col == w->from.col && to.row == w->from.row;
    if (a->ends[to.col][to.row] >> to.channel & 1) {
        return wrong(a, "two streams end in one S2MM channel", to);
    }
    if (at_home && kind != SHIM && to.channel != w->from.channel) {
        return wrong(a, "within a tile a stream runs only between channels of one number", to);
    }
    a->ends[to.col][to.row] |= (uint8_t) (1u << to.channel);
    if (kind != SHIM) {
        connect(a, to.col, to.row, kinds[kind].dma_first + to.channel, slave);
        return true;
    }
    int bit = shim_s2mm[to.channel].mux_bit;
    connect(a, to.col, to.row, shim_s2mm[to.channel].port, slave);
    cdo_mask_write(&a->setup, image_addr(to.col, to.row, SHIM_DEMUX), 3u << bit, 1u << bit);
    return true;
}

static bool reach(struct walk * w, struct array_port to, int slave) {
    int col = w->from.col, row = w->from.row;
    while (col != to.col || row != to.row) {
        enum array_side side = row != to.row  ? (row < to.row ? ARRAY_NORTH : ARRAY_SOUTH)
                               : col < to.col ? ARRAY_EAST
                                              : ARRAY_WEST;
        int wire = leave(w, col, row, side, slave);
        if (wire < 0) {
            return false;
        }
        col += sides[side].cols;
        row += sides[side].rows;
        slave = kinds[kind_of(row)].in[sides[side].enters].first + wire;
    }
    return arrive(w, to, slave);
}

void array_route(struct array * a, struct array_port from, const struct array_port * to, int n_to) {
    struct walk w = {.a = a, .from = from};
    memset(w.wires, -1, sizeof(w.wires));
    bool ok = check_port(a, from);
    for (int i = 0; i < n_to && ok; i++) {
        ok = check_port(a, to[i]);
        w.through_mem |= (from.row < ARRAY_ROW_MEM && to[i].row > ARRAY_ROW_MEM) ||
                         (from.row > ARRAY_ROW_MEM && to[i].row < ARRAY_ROW_MEM);
    }
    if (!ok) {
        return;
    }
    enum tile_kind kind = kind_of(from.row);
    int slave = kinds[kind].dma_first + from.channel;
    if (kind == SHIM) {
        int bit = shim_mm2s[from.channel].mux_bit;
        slave = shim_mm2s[from.channel].port;
        cdo_mask_write(&a->setup, image_addr(from.col, from.row, SHIM_MUX), 3u << bit, 1u << bit);
    }
    for (int i = 0; i < n_to && ok; i++) {
        ok = reach(&w, to[i], slave);
    }
}
