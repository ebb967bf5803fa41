// array-design: writes small configurations and instruction streams for the array tests, from the
// published layouts and by hand: it shares nothing with the emulator's readers, so that one cannot
// excuse the other.
#pragma once

#include "base/base.h"
#include "emu/aie/machine.h"

#include <stdlib.h>
#include <string.h>

struct words {
    uint32_t w[8192];
    size_t n;
};

static inline void put(struct words * s, uint32_t word) {
    if (s->n == sizeof(s->w) / sizeof(s->w[0])) {
        abort();
    }
    s->w[s->n++] = word;
}

#define REG(col, row, offset)                                                                      \
    ((uint32_t) (col) << 25 | (uint32_t) (row) << 20 | (uint32_t) (offset))

// ---- CDO and PDI ----

static inline void cdo_write(struct words * s, uint32_t addr, uint32_t value) {
    put(s, 2u << 16 | 0x103);
    put(s, addr);
    put(s, value);
}

static inline void cdo_mask_write(struct words * s, uint32_t addr, uint32_t mask, uint32_t value) {
    put(s, 3u << 16 | 0x102);
    put(s, addr);
    put(s, mask);
    put(s, value);
}

static inline void cdo_block(struct words * s, uint32_t addr, const uint32_t * data, uint32_t n) {
    if (n + 2 >= 255) {
        put(s, 255u << 16 | 0x105);
        put(s, n + 2);
    } else {
        put(s, (n + 2) << 16 | 0x105);
    }
    put(s, 0);
    put(s, addr);
    for (uint32_t i = 0; i < n; i++) {
        put(s, data[i]);
    }
}

static inline void pdi_checksum(uint8_t * pdi, size_t first, size_t at) {
    uint32_t sum = 0;
    for (size_t i = first; i < at; i += 4) {
        sum += load_u32(pdi + i);
    }
    store_u32(pdi + at, ~sum);
}

// A malloc'ed PDI of exactly *size bytes around the commands.
static inline uint8_t * pdi_make(const struct words * cdo, size_t * size) {
    uint32_t plain = (uint32_t) cdo->n + 5, padded = (plain + 3) & ~3u;
    *size = 0x150 + 4 * (size_t) padded;
    uint8_t * p = calloc(1, *size);
    static const struct {
        uint16_t at;
        uint32_t value;
    } fixed[] = {{0x000, 0x000000DD}, {0x004, 0x11223344}, {0x008, 0x55667788}, {0x00C, 0x99AABBCC},
                 {0x010, 0x00040000}, {0x014, 1},          {0x018, 0x24},       {0x01C, 1},
                 {0x020, 0x34},       {0x028, 0x14CA8093}, {0x038, 0x50504449}, {0x03C, 0x00201020},
                 {0x040, 0x30},       {0x054, 1},          {0x090, 0x34},       {0x094, 1},
                 {0x0B0, 0x1C000000}, {0x0E8, 0xFFFFFFFF}, {0x0EC, 0xFFFFFFFF}, {0x0F0, 0x54},
                 {0x0F4, 0x02000006}, {0x0F8, 1}};
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        store_u32(p + fixed[i].at, fixed[i].value);
    }
    memcpy(p + 0x0A0, "aie_image", 9);
    store_u32(p + 0x0D0, padded);
    store_u32(p + 0x0D4, plain);
    store_u32(p + 0x0D8, padded);
    pdi_checksum(p, 0x010, 0x08C);
    pdi_checksum(p, 0x090, 0x0CC);
    pdi_checksum(p, 0x0D0, 0x14C);
    store_u32(p + 0x150, 4);
    store_u32(p + 0x154, 0x004F4443);
    store_u32(p + 0x158, 0x200);
    store_u32(p + 0x15C, (uint32_t) cdo->n);
    pdi_checksum(p, 0x150, 0x160);
    for (size_t i = 0; i < cdo->n; i++) {
        store_u32(p + 0x164 + 4 * i, cdo->w[i]);
    }
    return p;
}

// ---- descriptors ----

struct bd_desc {
    uint32_t length, address;  // words; a memtile's own memory starts at 0x20000
    int next;                  // descriptor number plus one; 0 = none
    uint32_t wrap[3], step[4]; // step 0 stands for 1
    uint32_t before[3], after[3];
    uint32_t iter_wrap, iter_step;
    int acquire, acquire_value; // acquire_value 0: no acquire
    int release, release_value;
    int packet; // id plus one; 0 = none
    bool no_tlast;
};

static inline uint32_t less1(uint32_t v) {
    return v ? v - 1 : 0;
}

static inline void mem_bd(struct words * s, int col, int id, const struct bd_desc * d) {
    uint32_t w[8] = {
        d->length | (d->packet ? 1u << 31 | (uint32_t) (d->packet - 1) << 23 : 0),
        d->address | (d->next ? 1u << 19 | (uint32_t) (d->next - 1) << 20 : 0) | d->before[0] << 26,
        less1(d->step[0]) | d->wrap[0] << 17 | (uint32_t) d->no_tlast << 31,
        less1(d->step[1]) | d->wrap[1] << 17 | d->before[1] << 27,
        less1(d->step[2]) | d->wrap[2] << 17 | d->before[2] << 27,
        less1(d->step[3]) | d->after[0] << 17 | d->after[1] << 23 | d->after[2] << 28,
        less1(d->iter_step) | less1(d->iter_wrap) << 17,
        1u << 31 | ((uint32_t) d->release_value & 0x7f) << 24 | (uint32_t) d->release << 16 |
            (d->acquire_value ? 1u << 15 : 0) | ((uint32_t) d->acquire_value & 0x7f) << 8 |
            (uint32_t) d->acquire,
    };
    cdo_block(s, REG(col, 1, 0xA0000 + 0x20 * id), w, 8);
}

static inline uint32_t bd_tail(const struct bd_desc * d) {
    return 1u << 25 | (d->next ? 1u << 26 | (uint32_t) (d->next - 1) << 27 : 0) |
           ((uint32_t) d->release_value & 0x7f) << 18 | (uint32_t) d->release << 13 |
           (d->acquire_value ? 1u << 12 : 0) | ((uint32_t) d->acquire_value & 0x7f) << 5 |
           (uint32_t) d->acquire | (uint32_t) d->no_tlast << 31;
}

static inline void core_bd(struct words * s, int col, int row, int id, const struct bd_desc * d) {
    uint32_t w[6] = {
        d->length | d->address << 14,
        d->packet ? 1u << 30 | (uint32_t) (d->packet - 1) << 19 : 0,
        less1(d->step[0]) | less1(d->step[1]) << 13,
        less1(d->step[2]) | d->wrap[0] << 13 | d->wrap[1] << 21,
        less1(d->iter_step) | less1(d->iter_wrap) << 13,
        bd_tail(d),
    };
    cdo_block(s, REG(col, row, 0x1D000 + 0x20 * id), w, 6);
}

// ---- switches ----

static inline uint32_t switch_base(int row) {
    return row == 1 ? 0xB0000 : 0x3F000;
}

static inline void circuit(struct words * s, int col, int row, int slave, int master) {
    cdo_write(s, REG(col, row, switch_base(row) + 4u * (uint32_t) master),
              0x80000000u | (uint32_t) slave);
    cdo_write(s, REG(col, row, switch_base(row) + 0x100 + 4u * (uint32_t) slave), 0x80000000u);
}

static inline void packet_slave(struct words * s, int col, int row, int slave, int slot, int id,
                                int mask, int select, int arbiter) {
    cdo_write(s, REG(col, row, switch_base(row) + 0x100 + 4u * (uint32_t) slave), 0xC0000000u);
    cdo_write(
        s,
        REG(col, row, switch_base(row) + 0x200 + 0x10u * (uint32_t) slave + 4u * (uint32_t) slot),
        (uint32_t) id << 24 | (uint32_t) mask << 16 | 0x100 | (uint32_t) select << 4 |
            (uint32_t) arbiter);
}

static inline void packet_master(struct words * s, int col, int row, int master, int select_mask,
                                 int arbiter, bool drop) {
    cdo_write(s, REG(col, row, switch_base(row) + 4u * (uint32_t) master),
              0xC0000000u | (drop ? 0x80u : 0) | (uint32_t) select_mask << 3 | (uint32_t) arbiter);
}

enum { SHIM_MM2S0 = 5, SHIM_MM2S1 = 9, SHIM_S2MM0 = 4, SHIM_S2MM1 = 5 }; // switch ports

// Both DMA directions of the shim joined to its switch; with or without the way for tokens.
static inline void shim_ends(struct words * s, int col, bool token_route) {
    cdo_mask_write(s, REG(col, 0, 0x1F000), 0xCC00, 0x4400);
    cdo_mask_write(s, REG(col, 0, 0x1F004), 0xF0, 0x50);
    if (token_route) {
        packet_slave(s, col, 0, 0, 0, 15, 0x1F, 3, 5);
        packet_master(s, col, 0, 2, 8, 5, false);
    }
}

static inline void push_task(struct words * s, int col, int row, bool mm2s, int channel, int bd) {
    uint32_t base = row == 1 ? (mm2s ? 0xA0634u : 0xA0604u) : (mm2s ? 0x1DE14u : 0x1DE04u);
    cdo_write(s, REG(col, row, base + 8u * (uint32_t) channel), (uint32_t) bd);
}

static inline void set_lock(struct words * s, int col, int row, int lock, int value) {
    cdo_write(s, REG(col, row, (row == 1 ? 0xC0000u : 0x1F000u) + 0x10u * (uint32_t) lock),
              (uint32_t) value);
}

// ---- instruction stream ----

struct stream {
    struct words s;
    uint32_t ops;
};

static inline void txn_begin(struct stream * t) {
    t->s.n = 0;
    t->ops = 0;
    put(&t->s, 0x06030100);
    put(&t->s, 0x00000104);
    put(&t->s, 0);
    put(&t->s, 0);
}

static inline void txn_end(struct stream * t) {
    t->s.w[2] = t->ops;
    t->s.w[3] = (uint32_t) t->s.n * 4;
}

static inline void txn_op(struct stream * t, const uint32_t * w, size_t n) {
    for (size_t i = 0; i < n; i++) {
        put(&t->s, w[i]);
    }
    t->ops++;
}

static inline void txn_write(struct stream * t, uint32_t addr, uint32_t value) {
    txn_op(t, (uint32_t[]){0, 0, addr, 0, value, 0x18}, 6);
}

static inline void txn_mask_write(struct stream * t, uint32_t addr, uint32_t value, uint32_t mask) {
    txn_op(t, (uint32_t[]){3, 0, addr, 0, value, mask, 0x1C}, 7);
}

static inline void txn_sync(struct stream * t, int col, bool mm2s, int channel) {
    txn_op(
        t,
        (uint32_t[]){0x80, 0x10, (uint32_t) col << 16 | mm2s, (uint32_t) channel << 24 | 0x10100},
        4);
}

struct shim_desc {
    uint32_t length; // words
    uint32_t wrap[2], step[3], iter_wrap, iter_step;
    int packet; // id plus one
    uint32_t operand, offset;
    int repeat; // 0 stands for 1
    bool token;
};

// Writes a shim descriptor, points it at an operand and queues it; sets the controller id for
// tokens.
static inline void txn_transfer(struct stream * t, int col, bool mm2s, int channel, int bd,
                                const struct shim_desc * d) {
    uint32_t at = REG(col, 0, 0x1D000 + 0x20 * bd);
    uint32_t control = REG(col, 0, (mm2s ? 0x1D210 : 0x1D200) + 8 * channel);
    uint32_t w[12] = {
        1,
        0,
        at,
        48,
        d->length,
        0,
        d->packet ? 1u << 30 | (uint32_t) (d->packet - 1) << 19 : 0,
        less1(d->step[0]) | d->wrap[0] << 20,
        0x80000000u | less1(d->step[1]) | d->wrap[1] << 20,
        0x02000000u | less1(d->step[2]),
        less1(d->iter_step) | less1(d->iter_wrap) << 20,
        0x02000000u,
    };
    txn_op(t, w, 12);
    txn_op(t, (uint32_t[]){0x81, 0x30, 0, 0, 0, 0, at + 4, 0, d->operand, 0, d->offset, 0}, 12);
    if (d->token) {
        txn_mask_write(t, control, 0xF00, 0x1F00);
    }
    txn_write(t, control + 4,
              (uint32_t) d->token << 31 | (uint32_t) (d->repeat ? d->repeat - 1 : 0) << 16 |
                  (uint32_t) bd);
}
