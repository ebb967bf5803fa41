// packed: a plain PDI in the form that AMD's own overlays have, for tests. It knows the two forms
// by itself, so that it can be held against every reader: runs of like commands with their counts,
// the words of blocks behind all commands, NOPs left out.
#pragma once

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

enum {
    PACKED_COMMANDS = 0x164, // where they begin
    PACKED_SHORT = 20,       // bytes by which the vendor's tool counts the file too short
};

struct packer {
    struct buf commands, data;
    uint32_t id;
    size_t count_at; // of the run, within the commands
};

static inline void packed_item(struct packer * p, uint32_t id, const uint32_t * words, int n) {
    if (p->id != id) {
        buf_append_u32(&p->commands, id);
        p->count_at = p->commands.size;
        buf_append_u32(&p->commands, 0);
        p->id = id;
    }
    for (int i = 0; i < n; i++) {
        buf_append_u32(&p->commands, words[i]);
    }
    uint8_t * count = p->commands.data + p->count_at;
    store_u32(count, load_u32(count) + 1);
}

static inline void packed_block(struct packer * p, const uint8_t * payload, uint32_t n) {
    bool zeros = (load_u32(payload + 4) & 0xfffff) < 0x10000; // only in a core's data memory
    uint32_t from = (uint32_t) p->data.size;
    for (uint32_t i = 0; i < n; i++) {
        zeros = zeros && load_u32(payload + 8 + 4 * i) == 0;
        buf_append_u32(&p->data, load_u32(payload + 8 + 4 * i));
    }
    uint32_t item[] = {load_u32(payload), load_u32(payload + 4), from, n | (uint32_t) zeros << 16};
    packed_item(p, 5, item, 4);
}

// The caller frees it. `cut`: without its last bytes, as the vendor's tool leaves it.
static inline uint8_t * packed_make(const uint8_t * pdi, bool cut, size_t * size) {
    struct packer p = {.id = UINT32_MAX};
    const uint8_t *at = pdi + PACKED_COMMANDS, *end = at + 4 * (size_t) load_u32(pdi + 0x15c);
    while (at < end) {
        uint32_t word = load_u32(at), n = word >> 16;
        bool is_long = n == 255;
        n = is_long ? load_u32(at + 4) : n;
        at += is_long ? 8 : 4;
        if ((word & 0xff) == 5) {
            packed_block(&p, at, n - 2);
        } else if ((word & 0xff) != 0x11) {
            uint32_t words[4];
            for (uint32_t i = 0; i < n; i++) {
                words[i] = load_u32(at + 4 * i);
            }
            packed_item(&p, word & 0xff, words, (int) n);
        }
        at += 4 * (size_t) n;
    }
    *size = PACKED_COMMANDS + p.commands.size + p.data.size;
    uint8_t * out = malloc(*size);
    if (!out || p.commands.failed || p.data.failed) {
        abort();
    }
    memcpy(out, pdi, PACKED_COMMANDS);
    memcpy(out + PACKED_COMMANDS, p.commands.data, p.commands.size);
    if (p.data.size) {
        memcpy(out + PACKED_COMMANDS + p.commands.size, p.data.data, p.data.size);
    }
    uint32_t bytes = (uint32_t) p.commands.size;
    store_u32(out + 0x140, 1);
    store_u32(out + 0x144, bytes);
    store_u32(out + 0x148, 0x8966 | bytes << 16 | bytes >> 16);
    *size -= cut ? PACKED_SHORT : 0;
    buf_free(&p.commands);
    buf_free(&p.data);
    return out;
}
