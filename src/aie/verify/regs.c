// regs: which registers a kernel may write, as tables by kind of tile and target. What stands in no
// table is refused: clocks, isolation between partitions, interrupts, debug access of cores, the
// control of a core's own bus, performance counters and all that is not known.
#include "model.h"

struct reg_range {
    uint32_t first;        // byte offset
    uint32_t stride, size; // of an item, in bytes
    uint16_t count;
    uint8_t class; // enum reg_class
};

enum { MEMTILE_BYTES = 512 * 1024, CORE_BYTES = 64 * 1024, PROGRAM_BYTES = 16 * 1024 };

// Registers of these tiles lie at the same places on aie2 and aie2p. Where the two differ (debug
// mirrors of core registers, tile control, clocks) a kernel has no business.
static const struct reg_range shim_regs[] = {
    {0x14000, 0x10, 4, 16, REG_LOCK},     {0x1d000, 0x20, 32, 16, REG_BD},
    {0x1d200, 8, 4, 2, REG_S2MM_CONTROL}, {0x1d204, 8, 4, 2, REG_S2MM_QUEUE},
    {0x1d210, 8, 4, 2, REG_MM2S_CONTROL}, {0x1d214, 8, 4, 2, REG_MM2S_QUEUE},
    {0x1f000, 4, 4, 1, REG_MUX},          {0x1f004, 4, 4, 1, REG_DEMUX},
    {0x3f000, 4, 4, 22, REG_MASTER},      {0x3f100, 4, 4, 23, REG_SLAVE},
    {0x3f200, 0x10, 16, 23, REG_SLOT},    {0x34000, 4, 4, 1, REG_HARMLESS}, // timer
    {0x340d0, 4, 4, 2, REG_HARMLESS},     {0x340e0, 4, 4, 2, REG_HARMLESS}, // trace
    {0x3ff00, 4, 4, 2, REG_HARMLESS}, // which ports are traced
};

static const struct reg_range mem_regs[] = {
    {0x00000, MEMTILE_BYTES, MEMTILE_BYTES, 1, REG_DATA},
    {0xa0000, 0x20, 32, 48, REG_BD},
    {0xa0600, 8, 4, 6, REG_S2MM_CONTROL},
    {0xa0604, 8, 4, 6, REG_S2MM_QUEUE},
    {0xa0630, 8, 4, 6, REG_MM2S_CONTROL},
    {0xa0634, 8, 4, 6, REG_MM2S_QUEUE},
    {0xb0000, 4, 4, 17, REG_MASTER},
    {0xb0100, 4, 4, 18, REG_SLAVE},
    {0xb0200, 0x10, 16, 18, REG_SLOT},
    {0xc0000, 0x10, 4, 64, REG_LOCK},
    {0x94000, 4, 4, 1, REG_HARMLESS}, // timer
    {0x940d0, 4, 4, 2, REG_HARMLESS}, // trace
    {0x940e0, 4, 4, 2, REG_HARMLESS},
    {0xa06a0, 4, 4, 1, REG_HARMLESS}, // which channels and ports are traced
    {0xb0f00, 4, 4, 2, REG_HARMLESS},
};

static const struct reg_range core_regs[] = {
    {0x00000, CORE_BYTES, CORE_BYTES, 1, REG_DATA},
    {0x1d000, 0x20, 24, 16, REG_BD},
    {0x1de00, 8, 4, 2, REG_S2MM_CONTROL},
    {0x1de04, 8, 4, 2, REG_S2MM_QUEUE},
    {0x1de10, 8, 4, 2, REG_MM2S_CONTROL},
    {0x1de14, 8, 4, 2, REG_MM2S_QUEUE},
    {0x1f000, 0x10, 4, 16, REG_LOCK},
    {0x20000, PROGRAM_BYTES, PROGRAM_BYTES, 1, REG_PROGRAM},
    {0x32000, 4, 4, 1, REG_CORE_CONTROL},
    {0x36060, 4, 4, 1, REG_HARMLESS}, // the sides that the cascade goes to and comes from
    {0x3f000, 4, 4, 23, REG_MASTER},
    {0x3f100, 4, 4, 25, REG_SLAVE},
    {0x3f200, 0x10, 16, 25, REG_SLOT},
    {0x14000, 4, 4, 1, REG_HARMLESS}, // timers
    {0x34000, 4, 4, 1, REG_HARMLESS},
    {0x140d0, 4, 4, 2, REG_HARMLESS}, // traces of memory and core
    {0x140e0, 4, 4, 2, REG_HARMLESS},
    {0x340d0, 4, 4, 2, REG_HARMLESS},
    {0x340e0, 4, 4, 2, REG_HARMLESS},
    {0x3ff00, 4, 4, 2, REG_HARMLESS}, // which ports are traced
};

#define TABLE(t) t, sizeof(t) / sizeof(t[0])
// name, registers, descriptors and their words, channels, memory, locks, masters, slaves
#define TILES                                                                                      \
    {                                                                                              \
        [TILE_SHIM] = {"shim", TABLE(shim_regs), 16, 8, 2, 0, 16, 22, 23},                         \
        [TILE_MEM] = {"memtile", TABLE(mem_regs), 48, 8, 6, MEMTILE_BYTES, 64, 17, 18},            \
        [TILE_CORE] = {"core", TABLE(core_regs), 16, 6, 2, CORE_BYTES, 16, 23, 25},                \
    }

static const struct array_map maps[AIE_ARCH_COUNT] = {
    [AIE_ARCH_AIE2] = {.name = "aie2", .columns = 4, .generation = 3, .tiles = TILES},
    [AIE_ARCH_AIE2P] = {.name = "aie2p", .columns = 8, .generation = 4, .tiles = TILES},
};

const struct array_map * verify_array_map(enum aie_arch arch) {
    return &maps[arch];
}

bool verify_reg_find(const struct tile_map * map, uint32_t offset, struct reg * out) {
    for (int i = 0; i < map->n_regs; i++) {
        const struct reg_range * r = &map->regs[i];
        if (offset < r->first) {
            continue;
        }
        uint32_t index = (offset - r->first) / r->stride, within = (offset - r->first) % r->stride;
        if (index < r->count && within < r->size) {
            bool memory = r->class == REG_DATA || r->class == REG_PROGRAM;
            *out =
                (struct reg){(enum reg_class) r->class, (int) index, memory ? within : within / 4};
            return true;
        }
    }
    return false;
}

uint32_t verify_reg_room(const struct tile_map * map, const struct reg * reg) {
    return (reg->class == REG_PROGRAM ? PROGRAM_BYTES : map->memory_bytes) - reg->word;
}

// ---- ports of switches, in the order of their registers ----

struct ports {
    uint8_t side, first, count;
};

static const struct ports ports[TILE_KINDS][2][5] = {
    // slaves, then masters
    [TILE_SHIM] = {{{SIDE_CONTROL, 0, 1},
                    {SIDE_SOUTH, 2, 8},
                    {SIDE_WEST, 10, 4},
                    {SIDE_NORTH, 14, 4},
                    {SIDE_EAST, 18, 4}},
                   {{SIDE_CONTROL, 0, 1},
                    {SIDE_SOUTH, 2, 6},
                    {SIDE_WEST, 8, 4},
                    {SIDE_NORTH, 12, 6},
                    {SIDE_EAST, 18, 4}}},
    [TILE_MEM] = {{{SIDE_CONTROL, 6, 1}, {SIDE_SOUTH, 7, 6}, {SIDE_NORTH, 13, 4}},
                  {{SIDE_CONTROL, 6, 1}, {SIDE_SOUTH, 7, 4}, {SIDE_NORTH, 11, 6}}},
    [TILE_CORE] = {{{SIDE_CONTROL, 3, 1},
                    {SIDE_SOUTH, 5, 6},
                    {SIDE_WEST, 11, 4},
                    {SIDE_NORTH, 15, 4},
                    {SIDE_EAST, 19, 4}},
                   {{SIDE_CONTROL, 3, 1},
                    {SIDE_SOUTH, 5, 4},
                    {SIDE_WEST, 9, 4},
                    {SIDE_NORTH, 13, 6},
                    {SIDE_EAST, 19, 4}}},
};

enum side verify_port_side(enum tile_kind kind, bool master, int port, int * index) {
    for (int i = 0; i < 5; i++) {
        const struct ports * p = &ports[kind][master][i];
        if (port >= p->first && port < p->first + p->count) {
            *index = port - p->first;
            return (enum side) p->side;
        }
    }
    *index = 0;
    return SIDE_NONE;
}

int verify_port_at(enum tile_kind kind, bool master, enum side side, int index) {
    for (int i = 0; i < 5; i++) {
        const struct ports * p = &ports[kind][master][i];
        if (p->side == side && index < p->count) {
            return p->first + index;
        }
    }
    return -1;
}
