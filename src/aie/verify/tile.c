// tile: what a write does to a tile, and the descriptors of memtiles and cores. A descriptor that
// is valid stays inside the memories and locks of the partition at all times, whoever may run it
// later: so no chain, loop or leftover of another stream can lead outside.
#include "model.h"

enum {
    LOCK_MOST = 63,
    CONTROL_ID = 0xff00, // of a channel: who gets its tokens
    CONTROL_RESET = 2,
    CORE_ENABLE = 1,
    CORE_CONTROL_KNOWN = 3, // and reset
    QUEUE_TOKEN = 31,
    MEM_BD_ODD = 24, // even channels of a memtile use descriptors below, odd ones from here
    MEM_WINDOW_WORDS = 0x20000,
    MEM_WINDOW_LOCKS = 64,
    MEM_WINDOWS = 3, // west, own, east
};

static const char by_compiler[] = "the compiler that made it must be mended";

// ---- descriptors ----

// A memtile sees its western neighbour's memory and locks, its own and its eastern neighbour's.
static bool has_window(const struct verifier * v, const struct tile * t, uint32_t window) {
    int col = t->col - 1 + (int) window;
    return window < MEM_WINDOWS && col >= 0 && col < v->columns;
}

static bool check_lock(struct verifier * v, const struct tile * t, int bd, uint32_t lock) {
    if (t->kind == TILE_MEM && !has_window(v, t, lock / MEM_WINDOW_LOCKS)) {
        return verify_refuse(v, by_compiler,
                             "descriptor %d of memtile (%d,%d) uses lock %u, of a tile outside the "
                             "partition",
                             bd, t->col, t->row, lock);
    }
    return true;
}

static bool check_memory(struct verifier * v, const struct tile * t, int id, const struct bd * bd) {
    uint64_t room = map_of(v, t)->memory_bytes / 4, from = bd->address;
    if (t->kind == TILE_MEM) {
        if (!has_window(v, t, bd->address / MEM_WINDOW_WORDS)) {
            return verify_refuse(
                v, by_compiler,
                "descriptor %d of memtile (%d,%d) begins at word 0x%x, in a memory "
                "outside the partition",
                id, t->col, t->row, bd->address);
        }
        from %= MEM_WINDOW_WORDS;
    }
    if (from + bd->reach > room) {
        return verify_refuse(
            v, by_compiler, "descriptor %d of %s (%d,%d) reaches byte 0x%llx of a memory of 0x%llx",
            id, map_of(v, t)->name, t->col, t->row, (unsigned long long) (from + bd->reach) * 4,
            (unsigned long long) room * 4);
    }
    return true;
}

static bool fits_half(const struct tile * t, int a, int b) {
    return t->kind != TILE_MEM || (a >= MEM_BD_ODD) == (b >= MEM_BD_ODD);
}

static bool check_whole(struct verifier * v, const struct tile * t, int id) {
    return t->fresh[id] == (1u << map_of(v, t)->bd_words) - 1 ||
           verify_refuse(
               v, "write all of it at once",
               "descriptor %d of %s (%d,%d) is written in part; the rest may be what another "
               "%s left there",
               id, map_of(v, t)->name, t->col, t->row, v->in_stream ? "stream" : "PDI");
}

bool verify_tile_configured(struct verifier * v, struct tile * t) {
    bool ok = true;
    for (int i = 0; i < map_of(v, t)->bds && ok; i++) {
        ok = t->kind == TILE_SHIM || !(t->touched >> i & 1) || check_whole(v, t, i);
        t->fresh[i] = 0;
    }
    t->touched = 0;
    return ok;
}

static bool check_bd(struct verifier * v, const struct tile * t, int id) {
    struct bd bd;
    if (v->in_stream && !check_whole(v, t, id)) {
        return false;
    }
    verify_bd_read(t->kind, t->bds[id], &bd);
    if (!bd.valid) {
        return true; // it cannot be started
    }
    if (bd.compressed || bd.out_of_order || bd.pads_unwrapped) {
        return verify_refuse(v, by_compiler, "descriptor %d of %s (%d,%d) %s, which is not known",
                             id, map_of(v, t)->name, t->col, t->row,
                             bd.compressed     ? "compresses"
                             : bd.out_of_order ? "goes out of order"
                                               : "puts zeros around a dimension without a wrap");
    }
    if (bd.run > bd.last_run) {
        return verify_refuse(v, by_compiler,
                             "descriptor %d of %s (%d,%d) begins at run %u of %u: where that ends "
                             "is not known",
                             id, map_of(v, t)->name, t->col, t->row, bd.run, bd.last_run + 1);
    }
    if (bd.chained && (bd.next >= map_of(v, t)->bds || !fits_half(t, id, bd.next))) {
        return verify_refuse(
            v, by_compiler,
            "descriptor %d of %s (%d,%d) goes on to %d, which its channel does not have", id,
            map_of(v, t)->name, t->col, t->row, bd.next);
    }
    return check_memory(v, t, id, &bd) && (!bd.acquires || check_lock(v, t, id, bd.acquire)) &&
           (!bd.releases || check_lock(v, t, id, bd.lock));
}

bool verify_tile_settle(struct verifier * v, struct tile * t) {
    bool ok = true;
    for (int i = 0; v->dirty && ok; i++) {
        if (v->dirty >> i & 1) {
            v->dirty &= ~(UINT64_C(1) << i);
            ok = t->kind == TILE_SHIM || check_bd(v, t, i);
        }
    }
    return ok;
}

// ---- queues of memtiles and cores ----

static bool push(struct verifier * v, const struct tile * t, bool mm2s, int channel,
                 uint32_t value) {
    const struct tile_map * map = map_of(v, t);
    const char * way = mm2s ? "MM2S" : "S2MM";
    int id = (int) bits(value, 5, 0);
    if (value & 0x7f00ffc0) {
        return verify_refuse(v, by_compiler,
                             "a task of %s%d of %s (%d,%d) is 0x%08x, which says nothing", way,
                             channel, map->name, t->col, t->row, value);
    }
    if (value >> QUEUE_TOKEN) {
        return verify_refuse(
            v, by_compiler,
            "%s%d of %s (%d,%d) would send a token that nothing waits for; only shims do", way,
            channel, map->name, t->col, t->row);
    }
    uint64_t seen = 0;
    for (bool more = true; more && !(seen >> id & 1);) {
        struct bd bd;
        bool there = id < map->bds && (t->kind != TILE_MEM || (id >= MEM_BD_ODD) == channel % 2);
        if (!there) {
            return verify_refuse(v, by_compiler, "%s%d of %s (%d,%d) has no descriptor %d", way,
                                 channel, map->name, t->col, t->row, id);
        }
        verify_bd_read(t->kind, t->bds[id], &bd);
        if (!bd.valid || bd.words == 0 || (bd.pads && !mm2s)) {
            return verify_refuse(v, by_compiler,
                                 "%s%d of %s (%d,%d) is started with descriptor %d, which is %s",
                                 way, channel, map->name, t->col, t->row, id,
                                 !bd.valid       ? "not valid"
                                 : bd.words == 0 ? "empty"
                                                 : "for sending: it puts zeros around its data");
        }
        if (mm2s && !verify_packets_sent(v, t, channel, id, &bd)) {
            return false;
        }
        seen |= UINT64_C(1) << id;
        id = bd.next;
        more = bd.chained;
    }
    return true;
}

// ---- writes ----

static bool write_control(struct verifier * v, struct tile * t, bool mm2s, int channel,
                          uint32_t mask, uint32_t value) {
    uint32_t known = t->kind == TILE_SHIM ? CONTROL_ID : CONTROL_ID | CONTROL_RESET;
    if (value & mask & ~known) {
        return verify_refuse(v, by_compiler,
                             "control of %s%d of %s (%d,%d) is set to 0x%x: pause, out of order, "
                             "compression and ends on TLAST are not for kernels",
                             mm2s ? "MM2S" : "S2MM", channel, map_of(v, t)->name, t->col, t->row,
                             value & mask);
    }
    if (t->kind == TILE_SHIM) {
        uint32_t * control = &v->shims[t->col].control[queue_of(mm2s, channel)];
        *control = (*control & ~mask) | (value & mask);
    }
    return true;
}

static bool write_queue(struct verifier * v, struct tile * t, bool mm2s, int channel, uint32_t mask,
                        uint32_t value) {
    if (mask != UINT32_MAX) {
        return verify_refuse(v, by_compiler, "a queue of %s (%d,%d) is written in part",
                             map_of(v, t)->name, t->col, t->row);
    }
    return t->kind == TILE_SHIM ? verify_shim_push(v, t, queue_of(mm2s, channel), value)
                                : push(v, t, mm2s, channel, value);
}

static bool write_core_control(struct verifier * v, struct tile * t, uint32_t mask,
                               uint32_t value) {
    if (value & mask & ~(uint32_t) CORE_CONTROL_KNOWN) {
        return verify_refuse(v, by_compiler, "control of core (%d,%d) is set to 0x%x", t->col,
                             t->row, value & mask);
    }
    t->enabled = mask & CORE_ENABLE ? value & CORE_ENABLE : t->enabled;
    if (t->enabled && !t->has_program) {
        return verify_refuse(v, "put its program into the PDI",
                             "core (%d,%d) is enabled without a program", t->col, t->row);
    }
    return true;
}

static void put(uint32_t * word, uint32_t mask, uint32_t value) {
    *word = (*word & ~mask) | (value & mask);
}

bool verify_tile_write(struct verifier * v, struct tile * t, const struct reg * reg, uint32_t mask,
                       uint32_t value) {
    int i = reg->index;
    if (v->in_stream && reg->class >= REG_MASTER && reg->class <= REG_DEMUX) {
        return verify_refuse(v, "put it into the PDI",
                             "the stream leads streams of %s (%d,%d) another way, which is for the "
                             "configuration",
                             map_of(v, t)->name, t->col, t->row);
    }
    if (v->in_stream && (reg->class == REG_PROGRAM || reg->class == REG_CORE_CONTROL)) {
        return verify_refuse(v, "put it into the PDI",
                             "the stream writes %s of core (%d,%d), which other streams on this "
                             "PDI run with",
                             reg->class == REG_PROGRAM ? "the program" : "the control", t->col,
                             t->row);
    }
    switch (reg->class) {
    case REG_PROGRAM:
        t->has_program = true;
        return true;
    case REG_LOCK:
        return (value & mask) <= LOCK_MOST ||
               verify_refuse(v, by_compiler, "lock %d of %s (%d,%d) is set to %u, %d is the most",
                             i, map_of(v, t)->name, t->col, t->row, value & mask, LOCK_MOST);
    case REG_BD:
        put(&t->bds[i][reg->word], mask, value);
        v->dirty |= UINT64_C(1) << i;
        t->touched |= UINT64_C(1) << i;
        if (mask == UINT32_MAX) {
            t->fresh[i] |= (uint8_t) (1u << reg->word);
        }
        return true;
    case REG_S2MM_CONTROL:
    case REG_MM2S_CONTROL:
        return write_control(v, t, reg->class == REG_MM2S_CONTROL, i, mask, value);
    case REG_S2MM_QUEUE:
    case REG_MM2S_QUEUE:
        return write_queue(v, t, reg->class == REG_MM2S_QUEUE, i, mask, value);
    case REG_MASTER:
        put(&t->master[i], mask, value);
        return verify_wires_written(v, t, reg);
    case REG_SLAVE:
        put(&t->slave[i], mask, value);
        return verify_wires_written(v, t, reg);
    case REG_SLOT:
        put(&t->slots[i][reg->word], mask, value);
        return true;
    case REG_MUX:
        put(&v->shims[t->col].mux, mask, value);
        return true;
    case REG_DEMUX:
        put(&v->shims[t->col].demux, mask, value);
        return true;
    case REG_CORE_CONTROL:
        return write_core_control(v, t, mask, value);
    default: // memory and what is harmless
        return true;
    }
}
