// inspect-regs: names and fields of the array's registers, as tables (offsets are the compiler's):
// where each lies in each kind of tile, which ports a stream switch has, and how a buffer
// descriptor is cut into fields.
#include "inspect.h"

#include "aie/array/array.h"
#include "aie/image/bd-fields.h"

#include <stdio.h>
#include <string.h>

const char * const tile_kind_names[TILE_KINDS] = {"shim", "mem", "core"};

enum tile_kind tile_kind_of(int row) {
    return row == 0 ? TILE_SHIM : row == 1 ? TILE_MEM : TILE_CORE;
}

// ---- where registers lie ----

// Items of `size` bytes every `stride` bytes from `base`.
static const struct range {
    enum tile_kind tile;
    enum reg_class class;
    uint32_t base, stride, size;
    int count;
    const char * name;
} ranges[] = {
    {TILE_SHIM, REG_LOCK, 0x14000, 0x10, 4, 16, "lock"},
    {TILE_SHIM, REG_BD, SHIM_BD, 0x20, 32, ARRAY_SHIM_BDS, "BD"},
    {TILE_SHIM, REG_CONTROL, SHIM_S2MM_CONTROL, 8, 4, 2, "S2MM control"},
    {TILE_SHIM, REG_QUEUE, SHIM_S2MM_QUEUE, 8, 4, 2, "S2MM queue"},
    {TILE_SHIM, REG_CONTROL, SHIM_MM2S_QUEUE - 4, 8, 4, 2, "MM2S control"},
    {TILE_SHIM, REG_QUEUE, SHIM_MM2S_QUEUE, 8, 4, 2, "MM2S queue"},
    {TILE_SHIM, REG_STATUS, 0x1d220, 4, 4, 2, "S2MM status"},
    {TILE_SHIM, REG_STATUS, 0x1d228, 4, 4, 2, "MM2S status"},
    {TILE_SHIM, REG_MUX, SHIM_MUX, 4, 4, 1, "mux"},
    {TILE_SHIM, REG_DEMUX, SHIM_DEMUX, 4, 4, 1, "demux"},
    {TILE_SHIM, REG_MASTER, SHIM_MASTER, 4, 4, 22, "master"},
    {TILE_SHIM, REG_SLAVE, SHIM_SLAVE, 4, 4, 23, "slave"},
    {TILE_SHIM, REG_SLOT, SHIM_SLAVE_SLOT, 0x10, 16, 23, "slave"},

    {TILE_MEM, REG_DATA, 0, ARRAY_MEM_BYTES, ARRAY_MEM_BYTES, 1, "data memory"},
    {TILE_MEM, REG_BD, MEM_BD, 0x20, 32, ARRAY_MEM_BDS, "BD"},
    {TILE_MEM, REG_CONTROL, MEM_S2MM_QUEUE - 4, 8, 4, 6, "S2MM control"},
    {TILE_MEM, REG_QUEUE, MEM_S2MM_QUEUE, 8, 4, 6, "S2MM queue"},
    {TILE_MEM, REG_CONTROL, MEM_MM2S_QUEUE - 4, 8, 4, 6, "MM2S control"},
    {TILE_MEM, REG_QUEUE, MEM_MM2S_QUEUE, 8, 4, 6, "MM2S queue"},
    {TILE_MEM, REG_STATUS, 0xa0660, 4, 4, 6, "S2MM status"},
    {TILE_MEM, REG_STATUS, 0xa0680, 4, 4, 6, "MM2S status"},
    {TILE_MEM, REG_MASTER, MEM_MASTER, 4, 4, 17, "master"},
    {TILE_MEM, REG_SLAVE, MEM_SLAVE, 4, 4, 18, "slave"},
    {TILE_MEM, REG_SLOT, 0xb0200, 0x10, 16, 18, "slave"},
    {TILE_MEM, REG_LOCK, MEM_LOCK, 0x10, 4, ARRAY_MEM_LOCKS, "lock"},

    {TILE_CORE, REG_DATA, 0x00000, 0x10000, 0x10000, 1, "data memory"},
    {TILE_CORE, REG_BD, CORE_BD, 0x20, 24, ARRAY_CORE_BDS, "BD"},
    {TILE_CORE, REG_CONTROL, CORE_S2MM_QUEUE - 4, 8, 4, 2, "S2MM control"},
    {TILE_CORE, REG_QUEUE, CORE_S2MM_QUEUE, 8, 4, 2, "S2MM queue"},
    {TILE_CORE, REG_CONTROL, CORE_MM2S_QUEUE - 4, 8, 4, 2, "MM2S control"},
    {TILE_CORE, REG_QUEUE, CORE_MM2S_QUEUE, 8, 4, 2, "MM2S queue"},
    {TILE_CORE, REG_STATUS, 0x1df00, 4, 4, 2, "S2MM status"},
    {TILE_CORE, REG_STATUS, 0x1df10, 4, 4, 2, "MM2S status"},
    {TILE_CORE, REG_LOCK, CORE_LOCK, 0x10, 4, ARRAY_CORE_LOCKS, "lock"},
    {TILE_CORE, REG_PROGRAM, CORE_PROGRAM, 0x4000, 0x4000, 1, "program memory"},
    {TILE_CORE, REG_CORE_CONTROL, CORE_CONTROL, 4, 4, 1, "core control"},
    {TILE_CORE, REG_PLAIN, 0x32004, 4, 4, 1, "core status"},
    {TILE_CORE, REG_MASTER, CORE_MASTER, 4, 4, 23, "master"},
    {TILE_CORE, REG_SLAVE, CORE_SLAVE, 4, 4, 25, "slave"},
    {TILE_CORE, REG_SLOT, 0x3f200, 0x10, 16, 25, "slave"},
};

bool reg_find(enum tile_kind tile, uint32_t offset, struct reg * out) {
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        const struct range * r = &ranges[i];
        if (r->tile != tile || offset < r->base) {
            continue;
        }
        uint32_t index = (offset - r->base) / r->stride, within = (offset - r->base) % r->stride;
        if (index < (uint32_t) r->count && within < r->size) {
            bool memory = r->class == REG_DATA || r->class == REG_PROGRAM;
            *out = (struct reg){tile, r->class, r->name, (int) index, memory ? within : within / 4};
            return true;
        }
    }
    return false;
}

// ---- stream switch ports, in the order of their registers ----

struct ports {
    const char * name;
    int count;
};

#define MAX_PORT_GROUPS 9

static const struct ports masters[TILE_KINDS][MAX_PORT_GROUPS] = {
    [TILE_SHIM] = {{"CTRL", 1}, {"FIFO", 1}, {"S", 6}, {"W", 4}, {"N", 6}, {"E", 4}},
    [TILE_MEM] = {{"DMA", 6}, {"CTRL", 1}, {"S", 4}, {"N", 6}},
    [TILE_CORE] =
        {{"CORE", 1}, {"DMA", 2}, {"CTRL", 1}, {"FIFO", 1}, {"S", 4}, {"W", 4}, {"N", 6}, {"E", 4}},
};
static const struct ports slaves[TILE_KINDS][MAX_PORT_GROUPS] = {
    [TILE_SHIM] = {{"CTRL", 1}, {"FIFO", 1}, {"S", 8}, {"W", 4}, {"N", 4}, {"E", 4}, {"TRACE", 1}},
    [TILE_MEM] = {{"DMA", 6}, {"CTRL", 1}, {"S", 6}, {"N", 4}, {"TRACE", 1}},
    [TILE_CORE] = {{"CORE", 1},
                   {"DMA", 2},
                   {"CTRL", 1},
                   {"FIFO", 1},
                   {"S", 6},
                   {"W", 4},
                   {"N", 4},
                   {"E", 4},
                   {"TRACE", 2}},
};

static bool find_port(const struct ports groups[MAX_PORT_GROUPS], int index, struct port * out) {
    for (int i = 0; i < MAX_PORT_GROUPS && groups[i].name; i++) {
        if (index < groups[i].count) {
            *out = (struct port){groups[i].name, index, groups[i].count};
            return true;
        }
        index -= groups[i].count;
    }
    *out = (struct port){NULL, index, 0};
    return false;
}

bool port_find(enum tile_kind tile, bool is_master, int index, struct port * out) {
    return find_port(is_master ? masters[tile] : slaves[tile], index, out);
}

int port_index(enum tile_kind tile, bool is_master, const char * group, int index) {
    struct port p;
    for (int i = 0; port_find(tile, is_master, i, &p); i++) {
        if (!strcmp(p.group, group) && p.index == index) {
            return i;
        }
    }
    return -1;
}

static void print_port(const struct ports groups[MAX_PORT_GROUPS], int index, struct buf * b) {
    struct port p;
    if (!find_port(groups, index, &p)) {
        buf_printf(b, "beyond the last port by %d", p.index);
    } else if (p.count == 1) {
        buf_printf(b, "%s", p.group);
    } else {
        buf_printf(b, "%s%d", p.group, p.index);
    }
}

void reg_print(const struct reg * reg, struct buf * b) {
    switch (reg->class) {
    case REG_DATA:
    case REG_PROGRAM:
        buf_printf(b, "%s +0x%x", reg->name, reg->word);
        break;
    case REG_BD:
        buf_printf(b, "BD %d", reg->index);
        if (reg->word) {
            buf_printf(b, " word %u", reg->word);
        }
        break;
    case REG_MASTER:
        buf_printf(b, "master ");
        print_port(masters[reg->tile], reg->index, b);
        break;
    case REG_SLAVE:
    case REG_SLOT:
        buf_printf(b, "slave ");
        print_port(slaves[reg->tile], reg->index, b);
        if (reg->class == REG_SLOT) {
            buf_printf(b, " slot %u", reg->word);
        }
        break;
    case REG_CONTROL:
    case REG_QUEUE:
    case REG_STATUS: // the channel stands where people say it: S2MM0 control
        buf_printf(b, "%.4s%d%s", reg->name, reg->index, reg->name + 4);
        break;
    case REG_LOCK:
        buf_printf(b, "lock %d", reg->index);
        break;
    default:
        buf_printf(b, "%s", reg->name);
    }
}

// ---- fields ----

// Fields of registers that are one word; the fields of descriptors are the compiler's table.
struct field {
    uint8_t hi, lo;
    bool always; // else where it is not 0
    const char * name;
};

static const struct field control_fields[] = {
    {1, 1, true, "reset"},
    {3, 3, false, "out of order"},
    {15, 8, false, "controller id"},
    {0},
};
static const struct field core_control_fields[] = {
    {0, 0, true, "enable"},
    {1, 1, true, "reset"},
    {0},
};
static const struct field mux_fields[] = {
    // 1 = DMA
    {9, 8, true, "S2 from"},
    {11, 10, true, "S3 from"},
    {13, 12, true, "S6 from"},
    {15, 14, true, "S7 from"},
    {0},
};
static const struct field demux_fields[] = {
    {5, 4, true, "S2 to"},
    {7, 6, true, "S3 to"},
    {9, 8, true, "S4 to"},
    {11, 10, true, "S5 to"},
    {0},
};

_Static_assert((int) TILE_SHIM == IMAGE_SHIM && (int) TILE_MEM == IMAGE_MEM &&
                   (int) TILE_CORE == IMAGE_CORE,
               "kinds of tiles are those of image/bd-fields.h");

int bd_words(enum tile_kind tile) {
    return tile == TILE_CORE ? IMAGE_CORE_BD_WORDS : IMAGE_BD_WORDS;
}

static int64_t value_of(enum bd_form form, uint32_t v) {
    return form == BD_FORM_LESS_1               ? (int64_t) v + 1
           : form == BD_FORM_SIGNED && v & 0x40 ? (int64_t) v - 0x80
                                                : v;
}

int64_t bd_field(enum tile_kind tile, const uint32_t * words, const char * name) {
    enum image_tile kind = (enum image_tile) tile;
    for (int f = 0; f < BD_FIELDS; f++) {
        if (image_bd_has(kind, (enum image_bd_field) f) && !strcmp(image_bd_fields[f].name, name)) {
            return value_of(image_bd_fields[f].form,
                            image_bd_get(kind, words, (enum image_bd_field) f));
        }
    }
    return 0;
}

// The shim's DMA comes through its south side where the multiplexers say so.
static const struct {
    uint8_t south, channel;
    bool is_master;
    unsigned lo; // in the demultiplexer for a master, in the multiplexer for a slave
} shim_dma[] = {{2, 0, true, 4}, {3, 1, true, 6}, {3, 0, false, 10}, {7, 1, false, 14}};

int shim_dma_channel(bool is_master, int south, uint32_t mux, uint32_t demux) {
    for (size_t i = 0; i < sizeof shim_dma / sizeof shim_dma[0]; i++) {
        if (shim_dma[i].is_master == is_master && shim_dma[i].south == south &&
            bits(is_master ? demux : mux, shim_dma[i].lo + 1, shim_dma[i].lo) == 1) {
            return shim_dma[i].channel;
        }
    }
    return -1;
}

// Prints the fields of one register that lie within the mask.
static void print_fields(const struct field * fields, uint32_t value, uint32_t mask,
                         struct buf * b) {
    const char * separator = "";
    for (const struct field * f = fields; f->name; f++) {
        uint32_t v = bits(value, f->hi, f->lo);
        if (bits(mask, f->hi, f->lo) && (v || f->always)) {
            buf_printf(b, "%s%s %u", separator, f->name, v);
            separator = ", ";
        }
    }
}

// Prints the bits of one word that the mask has; only_word -1: of all words.
static void print_bd(enum image_tile tile, const uint32_t * words, int only_word, uint32_t mask,
                     struct buf * b) {
    const char * separator = "";
    bool shown = false; // the field above
    for (int i = 0; i < BD_FIELDS; i++) {
        enum image_bd_field f = (enum image_bd_field) i;
        const struct bd_info * info = &image_bd_fields[i];
        const struct bd_place * at = &info->at[tile];
        bool there = image_bd_has(tile, f);
        if (there &&
            ((only_word >= 0 && at->word != only_word) || !bits(mask, at->high, at->low))) {
            continue;
        }
        uint32_t v = image_bd_get(tile, words, f);
        shown = there &&
                (v || info->shown == BD_SHOWN_ALWAYS || (info->shown == BD_SHOWN_FOLLOWS && shown));
        if (!shown) {
            continue;
        }
        buf_printf(b, "%s%s", separator, info->name);
        separator = ", ";
        if (info->form == BD_FORM_HEX) {
            buf_printf(b, " 0x%x", v);
        } else if (info->form != BD_FORM_FLAG) {
            buf_printf(b, " %lld", (long long) value_of(info->form, v));
        }
    }
}

void bd_print(enum tile_kind tile, const uint32_t * words, struct buf * b) {
    print_bd((enum image_tile) tile, words, -1, UINT32_MAX, b);
}

// ---- values in words ----

static void print_master(const struct reg * reg, uint32_t v, struct buf * b) {
    struct reg port = *reg;
    reg_print(&port, b);
    if (!(v >> 31)) {
        buf_printf(b, " off");
    } else if (v >> 30 & 1) {
        buf_printf(b, " <- packets of arbiter %u, msel mask 0x%x%s", bits(v, 2, 0), bits(v, 6, 3),
                   v >> 7 & 1 ? ", header dropped" : "");
    } else {
        buf_printf(b, " <- slave ");
        print_port(slaves[reg->tile], (int) bits(v, 6, 0), b);
    }
}

static void print_selection(const struct field * fields, uint32_t mask, uint32_t v,
                            struct buf * b) {
    const char * separator = "";
    for (const struct field * f = fields; f->name; f++) {
        if (bits(mask, f->hi, f->lo)) {
            uint32_t choice = bits(v, f->hi, f->lo);
            buf_printf(b, choice == 1 ? "%s%s DMA" : "%s%s %u", separator, f->name, choice);
            separator = ", ";
        }
    }
}

void reg_print_value(const struct reg * reg, uint32_t mask, uint32_t v, struct buf * b) {
    switch (reg->class) {
    case REG_LOCK:
        buf_printf(b, "value %d", v & 0x20 ? (int) (v & 0x3f) - 0x40 : (int) (v & 0x3f)); // 6 bits
        break;
    case REG_QUEUE:
        buf_printf(b, "push BD %u", bits(v, reg->tile == TILE_MEM ? 5 : 3, 0));
        if (bits(v, 23, 16)) {
            buf_printf(b, ", %u times", bits(v, 23, 16) + 1);
        }
        if (v >> 31) {
            buf_printf(b, ", with token");
        }
        break;
    case REG_CONTROL:
        print_fields(control_fields, v, mask, b);
        break;
    case REG_CORE_CONTROL:
        print_fields(core_control_fields, v, mask, b);
        break;
    case REG_MASTER:
        print_master(reg, v, b);
        break;
    case REG_SLAVE:
        buf_printf(b, v >> 31 ? (v >> 30 & 1 ? "on, packets" : "on, circuit") : "off");
        break;
    case REG_SLOT:
        buf_printf(b, v >> 8 & 1 ? "" : "off: ");
        buf_printf(b, "packets with id %u under mask 0x%x -> arbiter %u, msel %u", bits(v, 28, 24),
                   bits(v, 20, 16), bits(v, 2, 0), bits(v, 5, 4));
        break;
    case REG_MUX:
        print_selection(mux_fields, mask, v, b);
        break;
    case REG_DEMUX:
        print_selection(demux_fields, mask, v, b);
        break;
    case REG_BD: {
        uint32_t words[8] = {0};
        if (reg->word < 8) {
            words[reg->word] = v;
            print_bd((enum image_tile) reg->tile, words, (int) reg->word, mask, b);
        }
        break;
    }
    default:
        break;
    }
}
