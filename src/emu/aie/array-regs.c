// array-regs: the register space, as tables of ranges per kind of tile. An address that no table
// names stops the machine: a design that relies on a register which is not modelled must not seem
// to work. Registers that change nothing this model shows are listed one by one as accepted.
#include "emu/aie/array-model.h"

#include <inttypes.h>
#include <string.h>

struct reg_range {
    uint32_t first, last; // byte offsets, both inside
    const char * name;
    // offset counts from `first`. read gives what a mask write keeps.
    uint32_t (*read)(struct tile * t, uint32_t offset);
    bool (*write)(struct tile * t, uint32_t offset, uint32_t value);
};

static uint32_t read_zero(struct tile * t, uint32_t offset) {
    (void) t;
    (void) offset;
    return 0;
}

static bool write_nothing(struct tile * t, uint32_t offset, uint32_t value) {
    (void) t;
    (void) offset;
    (void) value;
    return true;
}

// ---- memories ----

static uint32_t read_memory(struct tile * t, uint32_t offset) {
    return load_u32(t->memory + offset);
}

static bool write_memory(struct tile * t, uint32_t offset, uint32_t value) {
    tile_touch(t, offset + 4);
    store_u32(t->memory + offset, value);
    return true;
}

static uint32_t read_program(struct tile * t, uint32_t offset) {
    return load_u32(core_program(t->core) + offset);
}

static bool write_program(struct tile * t, uint32_t offset, uint32_t value) {
    store_u32(core_program(t->core) + offset, value);
    core_program_changed(t->core, offset, 4);
    return true;
}

// ---- locks, descriptors, channels ----

static uint32_t read_lock(struct tile * t, uint32_t offset) {
    return (uint32_t) t->locks[offset / 16];
}

static bool write_lock(struct tile * t, uint32_t offset, uint32_t value) {
    if (offset % 16 || value > LOCK_MAX) {
        return array_fail(
            t->array, ST_DEVICE,
            "lock %u of %s tile (%d,%d) written with 0x%x at byte %u: a lock is one register "
            "of 0..%d",
            offset / 16, tile_traits[t->kind].name, t->col, t->row, value, offset % 16, LOCK_MAX);
    }
    lock_set(t, (int) (offset / 16), (int) value);
    return true;
}

static uint32_t read_bd(struct tile * t, uint32_t offset) {
    return t->bds[offset / 32][offset % 32 / 4];
}

static bool write_bd(struct tile * t, uint32_t offset, uint32_t value) {
    uint32_t word = offset % 32 / 4;
    if ((int) word >= tile_traits[t->kind].bd_words) {
        return array_fail(t->array, ST_DEVICE, "BD %u of %s tile (%d,%d) has no word %u",
                          offset / 32, tile_traits[t->kind].name, t->col, t->row, word);
    }
    if (t->bds[offset / 32][word] != value && !bd_may_change(t, (int) (offset / 32))) {
        return false;
    }
    t->bds[offset / 32][word] = value;
    t->known_bds &= ~(UINT64_C(1) << offset / 32);
    return true;
}

static struct channel * channel_at(struct tile * t, uint32_t offset) {
    int channels = tile_traits[t->kind].channels, index = (int) (offset / 8);
    return &t->channels[index >= channels][index % channels];
}

static uint32_t read_channel(struct tile * t, uint32_t offset) {
    return offset % 8 ? 0 : channel_at(t, offset)->control;
}

static bool write_channel(struct tile * t, uint32_t offset, uint32_t value) {
    struct channel * c = channel_at(t, offset);
    return offset % 8 ? channel_push(c, value) : channel_control(c, value);
}

// ---- the core ----

static uint32_t read_core_control(struct tile * t, uint32_t offset) {
    (void) offset;
    return t->core_control;
}

static bool write_core_control(struct tile * t, uint32_t offset, uint32_t value) {
    (void) offset;
    return tile_core_control(t, value);
}

static uint32_t read_cascade(struct tile * t, uint32_t offset) {
    (void) offset;
    return t->cascade_control;
}

static bool write_cascade(struct tile * t, uint32_t offset, uint32_t value) {
    (void) offset;
    t->cascade_control = value;
    return true;
}

// ---- stream switch ----

static bool set_switch(struct tile * t, uint32_t * reg, uint32_t value) {
    if (*reg != value) {
        *reg = value;
        t->array->generation++;
        t->array->switch_changed = t->array->woken = true;
    }
    return true;
}

static uint32_t read_master(struct tile * t, uint32_t offset) {
    return t->master[offset / 4];
}

static bool write_master(struct tile * t, uint32_t offset, uint32_t value) {
    return set_switch(t, &t->master[offset / 4], value);
}

static uint32_t read_slave(struct tile * t, uint32_t offset) {
    return t->slave[offset / 4];
}

static bool write_slave(struct tile * t, uint32_t offset, uint32_t value) {
    return set_switch(t, &t->slave[offset / 4], value);
}

static uint32_t read_slot(struct tile * t, uint32_t offset) {
    return t->slots[offset / 16][offset % 16 / 4];
}

static bool write_slot(struct tile * t, uint32_t offset, uint32_t value) {
    return set_switch(t, &t->slots[offset / 16][offset % 16 / 4], value);
}

static uint32_t read_mux(struct tile * t, uint32_t offset) {
    return offset ? t->demux : t->mux;
}

static bool write_mux(struct tile * t, uint32_t offset, uint32_t value) {
    return set_switch(t, offset ? &t->demux : &t->mux, value);
}

// ---- control packets ----

// Bits of errors, which are cleared by writing them. A packet with an error ends the dispatch.
static uint32_t read_packet_status(struct tile * t, uint32_t offset) {
    return read_zero(t, offset);
}

static bool write_packet_status(struct tile * t, uint32_t offset, uint32_t value) {
    return write_nothing(t, offset, value);
}

// ---- tables ----

#define ACCEPTED(offset, name)                                                                     \
    { offset, (offset) + 3, name, read_zero, write_nothing }
#define RANGE(first, bytes, name, what)                                                            \
    { first, (first) + (bytes) -1, name, read_##what, write_##what }

// clang-format off
static const struct reg_range shim_regs[] = {
    RANGE(0x14000, 16 * 16, "lock", lock),
    RANGE(0x1D000, 16 * 32, "buffer descriptor", bd),
    RANGE(0x1D200, 4 * 8, "DMA channel", channel),
    RANGE(0x1F000, 8, "mux and demux", mux),
    RANGE(0x3F000, 22 * 4, "switch master", master),
    RANGE(0x3F100, 23 * 4, "switch slave", slave),
    RANGE(0x3F200, 23 * 16, "switch slot", slot),
    RANGE(0x3FF30, 4, "control packet status", packet_status),
    // no effect modelled: timers, tracing, events, clocks
    ACCEPTED(0x34000, "timer control"),
    ACCEPTED(0x340D0, "trace control 0"),
    ACCEPTED(0x340D4, "trace control 1"),
    ACCEPTED(0x340E0, "trace event 0"),
    ACCEPTED(0x340E4, "trace event 1"),
    ACCEPTED(0x36030, "tile control"),
    ACCEPTED(0x3FF00, "switch event port selection 0"),
    ACCEPTED(0x3FF04, "switch event port selection 1"),
    ACCEPTED(0xFFF00, "module clock control 0"),
    ACCEPTED(0xFFF04, "module clock control 1"),
    ACCEPTED(0xFFF20, "column clock control"),
};

static const struct reg_range mem_regs[] = {
    RANGE(0x00000, 0x80000, "data memory", memory),
    RANGE(0xA0000, 48 * 32, "buffer descriptor", bd),
    RANGE(0xA0600, 12 * 8, "DMA channel", channel),
    RANGE(0xB0000, 17 * 4, "switch master", master),
    RANGE(0xB0100, 18 * 4, "switch slave", slave),
    RANGE(0xB0200, 18 * 16, "switch slot", slot),
    RANGE(0xB0F30, 4, "control packet status", packet_status),
    RANGE(0xC0000, 64 * 16, "lock", lock),
    // no effect modelled: timers, tracing, events, clocks
    ACCEPTED(0x94000, "timer control"),
    ACCEPTED(0x940D0, "trace control 0"),
    ACCEPTED(0x940D4, "trace control 1"),
    ACCEPTED(0x940E0, "trace event 0"),
    ACCEPTED(0x940E4, "trace event 1"),
    ACCEPTED(0x96030, "tile control"),
    ACCEPTED(0xA06A0, "DMA event channel selection"),
    ACCEPTED(0xB0F00, "switch event port selection 0"),
    ACCEPTED(0xB0F04, "switch event port selection 1"),
    ACCEPTED(0xFFF00, "module clock control"),
};

static const struct reg_range core_regs[] = {
    RANGE(0x00000, 0x10000, "data memory", memory),
    RANGE(0x1D000, 16 * 32, "buffer descriptor", bd),
    RANGE(0x1DE00, 4 * 8, "DMA channel", channel),
    RANGE(0x1F000, 16 * 16, "lock", lock),
    RANGE(0x20000, CORE_PM_BYTES, "program memory", program),
    RANGE(0x32000, 4, "core control", core_control),
    RANGE(0x36060, 4, "accumulator control", cascade),
    RANGE(0x3F000, 23 * 4, "switch master", master),
    RANGE(0x3F100, 25 * 4, "switch slave", slave),
    RANGE(0x3F200, 25 * 16, "switch slot", slot),
    RANGE(0x3FF30, 4, "control packet status", packet_status),
    // no effect modelled: timers, tracing, events, clocks
    ACCEPTED(0x14000, "memory module timer control"),
    ACCEPTED(0x140D0, "memory module trace control 0"),
    ACCEPTED(0x140D4, "memory module trace control 1"),
    ACCEPTED(0x140E0, "memory module trace event 0"),
    ACCEPTED(0x140E4, "memory module trace event 1"),
    ACCEPTED(0x32030, "error halt control"),
    ACCEPTED(0x32034, "error halt event"),
    ACCEPTED(0x34000, "core module timer control"),
    ACCEPTED(0x340D0, "core module trace control 0"),
    ACCEPTED(0x340D4, "core module trace control 1"),
    ACCEPTED(0x340E0, "core module trace event 0"),
    ACCEPTED(0x340E4, "core module trace event 1"),
    ACCEPTED(0x36030, "tile control"),
    ACCEPTED(0x3FF00, "switch event port selection 0"),
    ACCEPTED(0x3FF04, "switch event port selection 1"),
    ACCEPTED(0x60000, "module clock control"),
};

#define TABLE(t) { t, sizeof(t) / sizeof(t[0]) }
static const struct { const struct reg_range * ranges; size_t n; } registers[TILE_KIND_COUNT] = {
    [TILE_SHIM] = TABLE(shim_regs), [TILE_MEM] = TABLE(mem_regs), [TILE_CORE] = TABLE(core_regs),
};
// clang-format on

static const struct reg_range * range_at(const struct tile * t, uint32_t offset) {
    for (size_t i = 0; i < registers[t->kind].n; i++) {
        const struct reg_range * r = &registers[t->kind].ranges[i];
        if (offset >= r->first && offset <= r->last) {
            return r;
        }
    }
    return NULL;
}

static struct tile * decode(struct array * a, uint64_t address, uint32_t * offset) {
    uint64_t col = address >> 25;
    uint32_t row = (uint32_t) (address >> 20 & 31);
    *offset = (uint32_t) (address & 0xfffff);
    struct tile * t = col < ARRAY_MAX_COLUMNS ? array_tile(a, (int) col, (int) row) : NULL;
    if (!t) {
        array_fail(a, ST_DEVICE,
                   "address 0x%" PRIx64 " is column %" PRIu64
                   ", row %u: outside the array of %d columns "
                   "and %d rows",
                   address, col, row, a->columns, ARRAY_ROWS);
    } else if (address % 4) {
        array_fail(a, ST_DEVICE, "address 0x%" PRIx64 " is not a multiple of 4", address);
        t = NULL;
    }
    return t;
}

static bool unknown(struct tile * t, uint32_t offset, uint32_t value) {
    return array_fail(t->array, ST_UNSUPPORTED,
                      "%s tile column %d, row %d: register 0x%05x (value 0x%08x) is not modelled",
                      tile_traits[t->kind].name, t->col, t->row, offset, value);
}

// Whole blocks into memories go at once: a program is decoded again after each change.
static size_t write_block(struct tile * t, const struct reg_range * r, uint32_t offset,
                          const uint32_t * words, size_t n) {
    size_t room = (r->last + 1 - offset) / 4;
    n = n < room ? n : room;
    offset -= r->first;
    uint8_t * to = r->write == write_memory ? t->memory : core_program(t->core);
    for (size_t i = 0; i < n; i++) {
        store_u32(to + offset + 4 * i, words[i]);
    }
    if (r->write == write_program) {
        core_program_changed(t->core, offset, (uint32_t) (4 * n));
    } else {
        tile_touch(t, offset + 4 * n);
    }
    return n;
}

bool array_write(struct array * a, uint64_t address, const uint32_t * words, size_t n_words) {
    while (n_words) {
        uint32_t offset;
        struct tile * t = decode(a, address, &offset);
        if (!t) {
            return false;
        }
        const struct reg_range * r = range_at(t, offset);
        if (!r) {
            return unknown(t, offset, words[0]);
        }
        if (t->kind == TILE_CORE) {
            array_cores_join(a);
        }
        size_t n = 1;
        if (r->write == write_memory || r->write == write_program) {
            n = write_block(t, r, offset, words, n_words);
        } else if (!r->write(t, offset - r->first, words[0])) {
            return false;
        }
        address += 4 * n;
        words += n;
        n_words -= n;
    }
    return true;
}

// Whether bits of a value beside its mask are written. AMD's own library does so, what firmware
// does is not known: a strict array does now the one, now the other.
static bool beside_counts(struct array * a, uint32_t mask, uint32_t value) {
    if (!a->config.strict || !(value & ~mask)) {
        return false;
    }
    a->noise = a->noise * 1664525 + 1013904223;
    return a->noise >> 31;
}

bool array_mask_write(struct array * a, uint64_t address, uint32_t mask, uint32_t value) {
    uint32_t offset;
    struct tile * t = decode(a, address, &offset);
    if (!t) {
        return false;
    }
    const struct reg_range * r = range_at(t, offset);
    if (!r) {
        return unknown(t, offset, value);
    }
    uint32_t bits = value & (beside_counts(a, mask, value) ? UINT32_MAX : mask);
    // A mask of 0 changes nothing, and must not push a task or pulse a reset.
    if (mask == 0 && bits == 0) {
        return true;
    }
    if (t->kind == TILE_CORE) {
        array_cores_join(a);
    }
    uint32_t old = r->read(t, offset - r->first);
    return r->write(t, offset - r->first, (old & ~mask) | bits);
}

// The register that the tile's core asks for; NULL after a failure.
static const struct reg_range * own_range(struct tile * t, uint32_t offset, uint32_t value) {
    const struct reg_range * r = range_at(t, offset);
    if (!r) {
        unknown(t, offset, value);
    } else if (r->write == write_program || r->write == write_core_control) {
        array_fail(t->array, ST_UNSUPPORTED,
                   "core tile (%d,%d) pc 0x%x reaches for its own %s, which is not modelled",
                   t->col, t->row, core_pc(t->core), r->name);
        r = NULL;
    }
    return r;
}

// The register at which a control packet's word is meant; the cores stand still meanwhile.
static const struct reg_range * packet_range(struct tile * t, uint32_t offset, uint32_t value) {
    const struct reg_range * r = range_at(t, offset);
    if (!r) {
        unknown(t, offset, value);
    } else if (t->kind == TILE_CORE) {
        array_cores_join(t->array);
    }
    return r;
}

// A register of which the model knows no more than that it may be written has no value to give.
bool tile_packet_read(struct tile * t, uint32_t offset, uint32_t * value) {
    const struct reg_range * r = packet_range(t, offset, 0);
    bool queue = r && r->read == read_channel && (offset - r->first) % 8;
    if (r && (r->read == read_zero || queue)) {
        return array_fail(t->array, ST_UNSUPPORTED,
                          "%s tile (%d,%d): reading register 0x%05x (%s) is not modelled",
                          tile_traits[t->kind].name, t->col, t->row, offset, r->name);
    }
    if (r) {
        *value = r->read(t, offset - r->first);
    }
    return r != NULL;
}

bool tile_packet_write(struct tile * t, uint32_t offset, uint32_t value) {
    const struct reg_range * r = packet_range(t, offset, value);
    return r && r->write(t, offset - r->first, value);
}

bool tile_reg_read(struct tile * t, uint32_t offset, uint32_t * value) {
    const struct reg_range * r = own_range(t, offset, 0);
    if (r) {
        *value = r->read(t, offset - r->first);
    }
    return r != NULL;
}

bool tile_reg_write(struct tile * t, uint32_t offset, uint32_t value) {
    const struct reg_range * r = own_range(t, offset, value);
    return r && r->write(t, offset - r->first, value);
}
