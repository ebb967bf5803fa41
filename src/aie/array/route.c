// array/route: streams through the switches between the tiles. A switch joins each master (a way
// out) to one slave (a way in); a slave may feed many masters, which is how a stream forks. A wire
// is a master of one tile and the slave of the same number in its neighbour; every wire belongs to
// one stream. A memtile passes a stream on only between wires of one number, so such a stream takes
// the same number below and above it. Packets for a control port take wires of their own too, and
// only the last switch looks at their headers.
#include "array.h"

#include <string.h>

enum tile_kind { SHIM, MEM, CORE, KINDS };

#define PORT_ENABLE (1u << 31)
#define PORT_PACKET (1u << 30)

struct ports {
    uint8_t first, count;
};

static const struct {
    uint32_t master, slave; // registers of the switch
    struct ports out[ARRAY_SIDES], in[ARRAY_SIDES];
    uint8_t dma_first, dma_channels; // the shim's DMA comes through its south side instead
    uint8_t ports;                   // either way, those for traces apart
    uint8_t control;                 // the control port's master
    uint32_t slots;                  // register of the first slave's first
} kinds[KINDS] = {
    [SHIM] = {SHIM_MASTER,
              SHIM_SLAVE,
              {[ARRAY_WEST] = {8, 4}, [ARRAY_NORTH] = {12, 6}, [ARRAY_EAST] = {18, 4}},
              {[ARRAY_WEST] = {10, 4}, [ARRAY_NORTH] = {14, 4}, [ARRAY_EAST] = {18, 4}},
              0,
              2,
              0,
              0,
              SHIM_SLAVE_SLOT},
    [MEM] = {MEM_MASTER,
             MEM_SLAVE,
             {[ARRAY_SOUTH] = {7, 4}, [ARRAY_NORTH] = {11, 6}},
             {[ARRAY_SOUTH] = {7, 6}, [ARRAY_NORTH] = {13, 4}},
             0,
             6,
             17,
             6,
             MEM_SLAVE_SLOT},
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
              ARRAY_PORTS,
              3,
              CORE_SLAVE_SLOT},
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
static void set_ports(struct array * a, int col, int row, int master, uint32_t master_word,
                      int slave, uint32_t slave_word) {
    if (kind_of(row) == SHIM) {
        cdo_write(&a->setup, image_addr(col, row, SHIM_MASTER + 4 * (uint32_t) master),
                  master_word);
        cdo_write(&a->setup, image_addr(col, row, SHIM_SLAVE + 4 * (uint32_t) slave), slave_word);
        return;
    }
    a->masters[col][row][master] = master_word;
    a->slaves[col][row][slave] = slave_word;
    a->joined[col][row] = true;
}

static void connect(struct array * a, int col, int row, int master, int slave) {
    set_ports(a, col, row, master, PORT_ENABLE | (uint32_t) slave, slave, PORT_ENABLE);
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

// To a tile; the slave at which the stream enters it, or -1.
static int reach(struct walk * w, int to_col, int to_row, int slave) {
    int col = w->from.col, row = w->from.row;
    while (col != to_col || row != to_row) {
        enum array_side side = row != to_row  ? (row < to_row ? ARRAY_NORTH : ARRAY_SOUTH)
                               : col < to_col ? ARRAY_EAST
                                              : ARRAY_WEST;
        int wire = leave(w, col, row, side, slave);
        if (wire < 0) {
            return -1;
        }
        col += sides[side].cols;
        row += sides[side].rows;
        slave = kinds[kind_of(row)].in[sides[side].enters].first + wire;
    }
    return slave;
}

static struct walk walk_from(struct array * a, struct array_port from) {
    struct walk w = {.a = a, .from = from};
    memset(w.wires, -1, sizeof(w.wires));
    return w;
}

static bool passes_mem(struct array_port from, int to_row) {
    return (from.row < ARRAY_ROW_MEM && to_row > ARRAY_ROW_MEM) ||
           (from.row > ARRAY_ROW_MEM && to_row < ARRAY_ROW_MEM);
}

// The slave at which a channel's words enter its switch.
static int depart(struct array * a, struct array_port from) {
    enum tile_kind kind = kind_of(from.row);
    if (kind == SHIM) {
        int bit = shim_mm2s[from.channel].mux_bit;
        cdo_mask_write(&a->setup, image_addr(from.col, from.row, SHIM_MUX), 3u << bit, 1u << bit);
        return shim_mm2s[from.channel].port;
    }
    return kinds[kind].dma_first + from.channel;
}

void array_route(struct array * a, struct array_port from, const struct array_port * to, int n_to) {
    struct walk w = walk_from(a, from);
    bool ok = check_port(a, from);
    for (int i = 0; i < n_to && ok; i++) {
        ok = check_port(a, to[i]);
        w.through_mem |= passes_mem(from, to[i].row);
    }
    int first = ok ? depart(a, from) : -1;
    for (int i = 0; i < n_to && ok; i++) {
        int slave = reach(&w, to[i].col, to[i].row, first);
        ok = slave >= 0 && arrive(&w, to[i], slave);
    }
}

// ---- control ports ----

// Tokens have arbiter 5; all packets for a control port share another.
enum { CONTROL_ARBITER = 1, MASTER_SELECT_0 = 1 << 3, SLOT_ENABLE = 1 << 8, PACKET_IDS = 32 };

void array_control_route(struct array * a, struct array_port from, int id, int col, int row) {
    struct walk w = walk_from(a, from);
    w.through_mem = passes_mem(from, row);
    if (!check_port(a, from) || !check_port(a, (struct array_port){col, row, 0})) {
        return;
    }
    if (id < 0 || id >= PACKET_IDS) {
        wrong(a, "packets have ids from 0 to 31", from);
        return;
    }
    int slave = reach(&w, col, row, depart(a, from));
    if (slave < 0) {
        return;
    }
    enum tile_kind kind = kind_of(row);
    set_ports(a, col, row, kinds[kind].control,
              PORT_ENABLE | PORT_PACKET | MASTER_SELECT_0 | CONTROL_ARBITER, slave,
              PORT_ENABLE | PORT_PACKET);
    cdo_write(&a->setup, image_addr(col, row, kinds[kind].slots + 0x10 * (uint32_t) slave),
              (uint32_t) id << 24 | 0x1fu << 16 | SLOT_ENABLE | CONTROL_ARBITER);
}

uint32_t array_control_header(uint32_t offset, int words) {
    uint32_t header = offset | (uint32_t) (words - 1) << 20; // operation 0 writes
    return header | (uint32_t) !(__builtin_popcount(header) & 1) << 31;
}
