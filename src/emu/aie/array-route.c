// array-route: follows the stream switches from a port to the sinks that its words reach. A circuit
// way is fixed by the configuration; a packet way also depends on the id in the packet's header. A
// way that ends nowhere is not an error here: on silicon its words wait, and so they do in this
// model until the machine reports who waits for what.
#include "emu/aie/array-model.h"

#include <assert.h>
#include <string.h>

enum port_group {
    PORT_CORE,
    PORT_DMA,
    PORT_CTRL,
    PORT_FIFO,
    PORT_SOUTH,
    PORT_WEST,
    PORT_NORTH,
    PORT_EAST,
    PORT_TRACE,
    PORT_GROUP_COUNT,
};

struct port_range {
    uint8_t first, count;
};

// clang-format off
static const struct port_range master_ports[TILE_KIND_COUNT][PORT_GROUP_COUNT] = {
    [TILE_SHIM] = { [PORT_CTRL] = { 0, 1 }, [PORT_FIFO] = { 1, 1 }, [PORT_SOUTH] = { 2, 6 },
                    [PORT_WEST] = { 8, 4 }, [PORT_NORTH] = { 12, 6 }, [PORT_EAST] = { 18, 4 } },
    [TILE_MEM]  = { [PORT_DMA] = { 0, 6 }, [PORT_CTRL] = { 6, 1 }, [PORT_SOUTH] = { 7, 4 },
                    [PORT_NORTH] = { 11, 6 } },
    [TILE_CORE] = { [PORT_CORE] = { 0, 1 }, [PORT_DMA] = { 1, 2 }, [PORT_CTRL] = { 3, 1 },
                    [PORT_FIFO] = { 4, 1 }, [PORT_SOUTH] = { 5, 4 }, [PORT_WEST] = { 9, 4 },
                    [PORT_NORTH] = { 13, 6 }, [PORT_EAST] = { 19, 4 } },
};

static const struct port_range slave_ports[TILE_KIND_COUNT][PORT_GROUP_COUNT] = {
    [TILE_SHIM] = { [PORT_CTRL] = { 0, 1 }, [PORT_FIFO] = { 1, 1 }, [PORT_SOUTH] = { 2, 8 },
                    [PORT_WEST] = { 10, 4 }, [PORT_NORTH] = { 14, 4 }, [PORT_EAST] = { 18, 4 },
                    [PORT_TRACE] = { 22, 1 } },
    [TILE_MEM]  = { [PORT_DMA] = { 0, 6 }, [PORT_CTRL] = { 6, 1 }, [PORT_SOUTH] = { 7, 6 },
                    [PORT_NORTH] = { 13, 4 }, [PORT_TRACE] = { 17, 1 } },
    [TILE_CORE] = { [PORT_CORE] = { 0, 1 }, [PORT_DMA] = { 1, 2 }, [PORT_CTRL] = { 3, 1 },
                    [PORT_FIFO] = { 4, 1 }, [PORT_SOUTH] = { 5, 6 }, [PORT_WEST] = { 11, 4 },
                    [PORT_NORTH] = { 15, 4 }, [PORT_EAST] = { 19, 4 }, [PORT_TRACE] = { 23, 2 } },
};

// Leaving to one side means entering the neighbour from the other.
static const struct { int8_t cols, rows; uint8_t enters; } neighbours[PORT_GROUP_COUNT] = {
    [PORT_SOUTH] = { 0, -1, PORT_NORTH },
    [PORT_NORTH] = { 0, +1, PORT_SOUTH },
    [PORT_WEST]  = { -1, 0, PORT_EAST },
    [PORT_EAST]  = { +1, 0, PORT_WEST },
};

// The shim's South masters: 2 and 3 lead to the stream-to-memory channels when the demux says DMA.
static const struct { uint8_t south, channel, demux_lo; } shim_s2mm[] = {
    { 2, 0, 4 }, { 3, 1, 6 },
};
// Its South slaves 3 and 7 come from the memory-to-stream channels when the mux says DMA.
static const struct { uint8_t slave, mux_lo; } shim_mm2s[] = { { 5, 10 }, { 9, 14 } };
// clang-format on

enum {
    MAX_HOPS = 64,
    SHIM_DMA = 1,
    FIFO_PORT_WORDS = 16, // [D] of the switch's own FIFO, in words of a stream
};

enum { CFG_ENABLE = 31, CFG_PACKET = 30, CFG_DROP_HEADER = 7, SLOT_ENABLE = 8 };

struct trace {
    struct route * route;
    int packet_id; // -1: not known yet
    bool dropped;
    int hops;
    uint32_t latency; // cycles through the switches so far
    uint32_t words;   // that can wait in them
};

static void follow(struct trace t, struct tile * tile, int slave);

static bool bit(uint32_t word, int n) {
    return word >> n & 1;
}

static void dead_end(const struct trace * t, const struct tile * tile, int port, const char * why) {
    struct route * r = t->route;
    if (!r->dead_end) {
        r->dead_end = why;
        r->dead_col = tile->col;
        r->dead_row = tile->row;
        r->dead_port = port;
    }
}

static void reach(const struct trace * t, struct tile * tile, int port, struct sink * sink) {
    struct route * r = t->route;
    if (r->n_sinks == ROUTE_MAX_SINKS) {
        dead_end(t, tile, port, "more receivers than this model holds");
        return;
    }
    const struct array * a = tile->array;
    // A core's stream port has no FIFO of its own, nor has a control port [?].
    uint32_t capacity = t->words + (sink->channel ? a->clock.fifo_in : 0);
    capacity = capacity < FIFO_RING ? capacity : FIFO_RING;
    sink->capacity = sink->capacity < capacity ? capacity : sink->capacity;
    r->sinks[r->n_sinks].sink = sink;
    r->sinks[r->n_sinks].drop_header = t->dropped;
    r->sinks[r->n_sinks].capacity = (uint16_t) capacity;
    r->sinks[r->n_sinks].latency = (uint16_t) ticks(a, t->latency);
    // A free place travels back as long as a word travels forth: what waits in the switches is just
    // enough for a word a cycle. A channel's FIFO takes a cycle more. [T] add_one: forth 8, back 7,
    // as read off two timers that differ by a cycle or two.
    r->sinks[r->n_sinks].back = (uint16_t) ticks(a, t->latency + (sink->channel ? 1 : 0));
    r->n_sinks++;
}

// Through a switch, into a port of the tile or on to a neighbour.
static void cross(struct trace * t, const struct tile * tile, bool outside) {
    const struct emu_clock * clock = &tile->array->clock;
    t->latency += outside ? clock->hop_outside : clock->hop_local;
    t->words += outside ? clock->fifo_outside : clock->fifo_local;
}

static void leave_shim_south(const struct trace * t, struct tile * tile, int master, int south) {
    if (south == 0) {
        t->route->to_firmware = true;
        return;
    }
    for (size_t i = 0; i < sizeof(shim_s2mm) / sizeof(shim_s2mm[0]); i++) {
        unsigned lo = shim_s2mm[i].demux_lo;
        if (south == shim_s2mm[i].south && bits(tile->demux, lo + 1, lo) == SHIM_DMA) {
            reach(t, tile, master, &tile->channels[DMA_S2MM][shim_s2mm[i].channel].sink);
            return;
        }
    }
    dead_end(t, tile, master, "leaves the shim to the south where no DMA listens");
}

static void leave(struct trace t, struct tile * tile, int master) {
    enum port_group group = PORT_GROUP_COUNT;
    const struct port_range * ports = master_ports[tile->kind];
    for (int g = 0; g < PORT_GROUP_COUNT; g++) {
        if (master >= ports[g].first && master < ports[g].first + ports[g].count) {
            group = (enum port_group) g;
        }
    }
    assert(group < PORT_GROUP_COUNT);
    int index = master - ports[group].first;
    bool outside = group == PORT_NORTH || group == PORT_EAST || group == PORT_WEST ||
                   (group == PORT_SOUTH && tile->kind != TILE_SHIM);
    cross(&t, tile, outside);
    switch (group) {
    case PORT_CORE:
        reach(&t, tile, master, &tile->core_in);
        return;
    case PORT_DMA:
        reach(&t, tile, master, &tile->channels[DMA_S2MM][index].sink);
        return;
    case PORT_CTRL:
        if (t.dropped) {
            dead_end(&t, tile, master,
                     "a control port needs the packet's header, which is dropped");
        } else {
            reach(&t, tile, master, &tile->control.in);
        }
        return;
    case PORT_FIFO:
        t.words += FIFO_PORT_WORDS * tile->array->clock.stream_words;
        follow(t, tile, slave_ports[tile->kind][PORT_FIFO].first);
        return;
    default:
        break;
    }
    if (tile->kind == TILE_SHIM && group == PORT_SOUTH) {
        leave_shim_south(&t, tile, master, index);
        return;
    }
    struct tile * next = array_tile(tile->array, tile->col + neighbours[group].cols,
                                    tile->row + neighbours[group].rows);
    const struct port_range * into =
        next ? &slave_ports[next->kind][neighbours[group].enters] : NULL;
    if (!into || index >= into->count) {
        dead_end(&t, tile, master, "leaves the array");
        return;
    }
    follow(t, next, into->first + index);
}

static void follow_circuit(struct trace t, struct tile * tile, int slave) {
    bool any = false;
    for (int m = 0; m < tile_traits[tile->kind].masters; m++) {
        uint32_t cfg = tile->master[m];
        if (bit(cfg, CFG_ENABLE) && !bit(cfg, CFG_PACKET) && (int) bits(cfg, 6, 0) == slave) {
            any = true;
            leave(t, tile, m);
        }
    }
    if (!any) {
        dead_end(&t, tile, slave, "enters a switch port that no master selects");
    }
}

static void follow_packet(struct trace t, struct tile * tile, int slave) {
    if (t.packet_id < 0) {
        return;
    }
    if (t.dropped) {
        dead_end(&t, tile, slave, "a packet switch after the header was dropped");
        return;
    }
    for (int i = 0; i < TILE_SLOTS; i++) {
        uint32_t slot = tile->slots[slave][i];
        if (!bit(slot, SLOT_ENABLE) ||
            (((uint32_t) t.packet_id ^ bits(slot, 28, 24)) & bits(slot, 20, 16)) != 0) {
            continue;
        }
        uint32_t select = bits(slot, 5, 4), arbiter = bits(slot, 2, 0);
        struct route * r = t.route;
        if (r->n_arbiters == ROUTE_MAX_ARBITERS) {
            dead_end(&t, tile, slave, "more arbiters than this model holds");
            return;
        }
        r->arbiters[r->n_arbiters++] =
            (uint16_t) ((tile->col * ARRAY_ROWS + tile->row) * TILE_ARBITERS + (int) arbiter);
        bool any = false;
        for (int m = 0; m < tile_traits[tile->kind].masters; m++) {
            uint32_t cfg = tile->master[m];
            if (bit(cfg, CFG_ENABLE) && bit(cfg, CFG_PACKET) && bits(cfg, 2, 0) == arbiter &&
                (bits(cfg, 6, 3) >> select & 1)) {
                struct trace next = t;
                next.dropped = bit(cfg, CFG_DROP_HEADER);
                any = true;
                leave(next, tile, m);
            }
        }
        if (!any) {
            dead_end(&t, tile, slave, "its packet slot selects no master");
        }
        return;
    }
    dead_end(&t, tile, slave, "no packet slot matches the id");
}

static void follow(struct trace t, struct tile * tile, int slave) {
    if (++t.hops > MAX_HOPS) {
        dead_end(&t, tile, slave, "the stream runs in a circle");
        return;
    }
    uint32_t cfg = tile->slave[slave];
    if (!bit(cfg, CFG_ENABLE)) {
        dead_end(&t, tile, slave, "enters a switch port that is not enabled");
    } else if (bit(cfg, CFG_PACKET)) {
        t.route->packet = true;
        follow_packet(t, tile, slave);
    } else {
        follow_circuit(t, tile, slave);
    }
}

void route_trace(struct tile * tile, int slave, int packet_id, struct route * r) {
    memset(r, 0, sizeof(*r));
    r->generation = tile->array->generation;
    struct trace t = {.route = r, .packet_id = packet_id};
    if (tile->kind == TILE_SHIM) {
        for (size_t i = 0; i < sizeof(shim_mm2s) / sizeof(shim_mm2s[0]); i++) {
            unsigned lo = shim_mm2s[i].mux_lo;
            if (slave == shim_mm2s[i].slave && bits(tile->mux, lo + 1, lo) != SHIM_DMA) {
                dead_end(&t, tile, slave, "the shim's mux does not let the DMA in");
                return;
            }
        }
    }
    follow(t, tile, slave);
}
