// inspect-array: what a PDI, and the instruction stream behind it, leave in the registers of every
// tile. Writes go where inspect-regs.c says they go; nothing here knows an offset. What a register
// held before is forgotten, apart from the channels' queues: each write to one of them starts a
// task, and tasks are counted.
#include "inspect.h"

#include <string.h>

enum { ENABLE = 31, PACKET = 30, SLOT_ENABLE = 8, MM2S = 6 };

// The descriptors of a chain as bits, until it ends or comes back.
static uint64_t chain(enum tile_kind kind, const struct view_tile * t, int bd) {
    uint64_t seen = 0;
    while (bd < VIEW_BDS && !(seen >> bd & 1)) {
        seen |= 1ull << bd;
        if (!bd_field(kind, t->bd[bd], "chained")) {
            break;
        }
        bd = (int) bd_field(kind, t->bd[bd], "next BD");
    }
    return seen;
}

uint64_t view_channel_bds(enum tile_kind kind, const struct view_tile * t, int channel) {
    uint64_t bds = 0;
    for (int i = 0; i < VIEW_BDS; i++) {
        bds |= t->channels[channel].heads >> i & 1 ? chain(kind, t, i) : 0;
    }
    return bds;
}

static void start_task(struct view_tile * t, const struct reg * reg, uint32_t value) {
    struct view_channel * c = &t->channels[reg->index + (strncmp(reg->name, "MM2S", 4) ? 0 : MM2S)];
    int bd = (int) bits(value, reg->tile == TILE_MEM ? 5 : 3, 0);
    if (bd >= VIEW_BDS) {
        return;
    }
    c->tasks++;
    c->heads |= 1ull << bd;
    uint64_t bds = chain(reg->tile, t, bd), words = 0;
    for (int i = 0; i < VIEW_BDS; i++) {
        words += bds >> i & 1 ? (uint64_t) bd_field(reg->tile, t->bd[i], "words") : 0;
    }
    c->words += words * (bits(value, 23, 16) + 1);
    c->token |= value >> 31;
    if (t->bd_operand[bd]) {
        c->operands |= 1u << ((t->bd_operand[bd] - 1) & 31);
    }
}

static void add_range(struct view_tile * t, uint32_t from, uint32_t to) {
    for (int i = 0; i < t->n_ranges; i++) {
        struct view_range * r = &t->ranges[i];
        if (from <= r->to && to >= r->from) { // they touch
            r->from = from < r->from ? from : r->from;
            r->to = to > r->to ? to : r->to;
            return;
        }
    }
    if (t->n_ranges < VIEW_RANGES) {
        t->ranges[t->n_ranges++] = (struct view_range){from, to};
    }
}

static void apply_word(struct view_tile * t, const struct reg * reg, uint32_t mask,
                       uint32_t value) {
    uint32_t * where = NULL;
    switch (reg->class) {
    case REG_BD:
        if (reg->index < VIEW_BDS && reg->word < 8) {
            where = &t->bd[reg->index][reg->word];
            t->bd_written |= 1ull << reg->index;
        }
        break;
    case REG_LOCK:
        where = &t->lock[reg->index];
        t->lock_written |= 1ull << reg->index;
        break;
    case REG_MASTER:
        where = &t->master[reg->index];
        break;
    case REG_SLAVE:
        where = &t->slave[reg->index];
        break;
    case REG_SLOT:
        where = &t->slot[reg->index][reg->word & 3];
        break;
    case REG_MUX:
        where = &t->mux;
        break;
    case REG_DEMUX:
        where = &t->demux;
        break;
    case REG_CORE_CONTROL:
        t->core_on = mask & 1 ? value & 1 : t->core_on;
        break;
    case REG_QUEUE:
        start_task(t, reg, value);
        break;
    case REG_DATA:
        add_range(t, reg->word & ~3u, (reg->word & ~3u) + 4);
        break;
    default:
        break;
    }
    if (where) {
        *where = (*where & ~mask) | (value & mask);
    }
}

static void apply_block(struct view_tile * t, enum tile_kind kind,
                        const struct image_command * cmd) {
    uint32_t offset = bits(cmd->addr, 19, 0);
    struct reg reg;
    bool known = reg_find(kind, offset, &reg);
    if (known && reg.class == REG_DATA) {
        add_range(t, reg.word, reg.word + 4 * cmd->n_words);
        return;
    }
    if (known && reg.class == REG_PROGRAM) {
        uint32_t end = reg.word;
        for (uint32_t i = 0; i < cmd->n_words; i++) { // zeros behind the end are no program
            if (load_u32(cmd->data + 4 * (size_t) i)) {
                end = reg.word + 4 * (i + 1);
            }
        }
        t->program = end > t->program ? end : t->program;
        return;
    }
    for (uint32_t i = 0; i < cmd->n_words; i++) {
        if (reg_find(kind, offset + 4 * i, &reg)) {
            apply_word(t, &reg, UINT32_MAX, load_u32(cmd->data + 4 * (size_t) i));
        }
    }
}

bool view_apply(void * user, const struct image_command * cmd) {
    struct view * v = user;
    int col = (int) bits(cmd->addr, 31, 25), row = (int) bits(cmd->addr, 24, 20);
    if (cmd->op == IMAGE_NOP || cmd->op == IMAGE_WAIT) {
        return true;
    }
    if (col >= VIEW_COLS || row >= VIEW_ROWS) {
        v->outside++;
        return true;
    }
    struct view_tile * t = &v->tiles[col][row];
    enum tile_kind kind = tile_kind_of(row);
    struct reg reg;
    t->used = true;
    if (cmd->op == IMAGE_BLOCK_WRITE) {
        apply_block(t, kind, cmd);
    } else if (reg_find(kind, bits(cmd->addr, 19, 0), &reg)) {
        if (cmd->op == IMAGE_PATCH) {
            if (reg.class == REG_BD && reg.index < VIEW_BDS) {
                t->bd_operand[reg.index] = (uint8_t) (cmd->operand + 1);
            }
        } else {
            apply_word(t, &reg, cmd->op == IMAGE_WRITE ? UINT32_MAX : cmd->mask, cmd->value);
        }
    }
    return true;
}

// Every run of a BD that moves on from run to run is within its reach.
void view_bd_reach(enum tile_kind kind, const uint32_t * words, uint32_t * from, uint32_t * to) {
    static const char * const names[3][2] = {
        {"d0 wrap", "d0 step"}, {"d1 wrap", "d1 step"}, {"d2 wrap", "d2 step"}};
    uint64_t left = (uint64_t) bd_field(kind, words, "words"), reach = 0;
    for (int d = 0; d < 3 && left > 1; d++) {
        uint64_t wrap = (uint64_t) bd_field(kind, words, names[d][0]);
        uint64_t step = (uint64_t) bd_field(kind, words, names[d][1]);
        uint64_t n = wrap && wrap < left ? wrap : left;
        reach += (n - 1) * (step ? step : 1);
        left = wrap ? (left + wrap - 1) / wrap : 1;
    }
    if (left > 1) {
        reach += (left - 1) * (uint64_t) bd_field(kind, words, "d3 step");
    }
    reach += (uint64_t) ((bd_field(kind, words, "iteration wrap") - 1) *
                         bd_field(kind, words, "iteration step"));
    *from = (uint32_t) bd_field(kind, words, "word address") * 4;
    uint64_t end = *from + 4 * (reach + 1);
    *to = end < UINT32_MAX ? (uint32_t) end : UINT32_MAX;
}

bool view_joined(const struct view_tile * t, int slave, int master, bool * packets) {
    uint32_t in = t->slave[slave], out = t->master[master];
    *packets = out >> PACKET & 1;
    if (!(in >> ENABLE) || !(out >> ENABLE) || (in >> PACKET & 1) != *packets) {
        return false;
    }
    if (!*packets) {
        return (int) bits(out, 6, 0) == slave;
    }
    for (int i = 0; i < 4; i++) {
        uint32_t slot = t->slot[slave][i];
        if (slot >> SLOT_ENABLE & 1 && bits(slot, 2, 0) == bits(out, 2, 0) &&
            bits(out, 6, 3) >> bits(slot, 5, 4) & 1) {
            return true;
        }
    }
    return false;
}
