// containers: xclbin and ELF files for tests, built byte by byte from the formats' descriptions and
// not with the code that reads them.
#pragma once

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

static inline void put_u16(uint8_t * p, uint32_t v) {
    p[0] = (uint8_t) v;
    p[1] = (uint8_t) (v >> 8);
}

static inline void put_u64(uint8_t * p, uint64_t v) {
    store_u32(p, (uint32_t) v);
    store_u32(p + 4, (uint32_t) (v >> 32));
}

enum {
    XCLBIN_HEADER = 456,
    XCLBIN_PARTITION = XCLBIN_HEADER + 2 * 40 + 16, // behind two section headers and a section
    XCLBIN_PDI = 184 + 2 * 96,                      // in the partition, behind two entries
};

// Two sections: a name, and a partition with the PDI twice.
static inline uint8_t * xclbin_make(const uint8_t * pdi, size_t pdi_size, size_t * size) {
    size_t partition = XCLBIN_PDI + pdi_size;
    *size = XCLBIN_PARTITION + partition;
    uint8_t * x = calloc(1, *size);
    if (!x) {
        abort();
    }
    memcpy(x, "xclbin2", 8);
    memset(x + 12, 0xff, 28);
    put_u64(x + 304, *size);
    store_u32(x + 448, 2);
    uint8_t * h = x + XCLBIN_HEADER;
    store_u32(h, 14); // BUILD_METADATA
    memcpy(h + 4, "who made it", 11);
    put_u64(h + 24, XCLBIN_HEADER + 80);
    put_u64(h + 32, 16);
    memcpy(x + XCLBIN_HEADER + 80, "{}", 2);
    h += 40;
    store_u32(h, 32); // AIE_PARTITION
    put_u64(h + 24, XCLBIN_PARTITION);
    put_u64(h + 32, partition);
    uint8_t * p = x + XCLBIN_PARTITION;
    put_u16(p + 32, 4);      // columns
    store_u32(p + 120, 2);   // PDIs
    store_u32(p + 124, 184); // their entries
    for (int i = 0; i < 2; i++) {
        uint8_t * e = p + 184 + 96 * i;
        memset(e, 0x10 + i, 16);
        store_u32(e + 16, (uint32_t) pdi_size);
        store_u32(e + 20, XCLBIN_PDI);
    }
    if (pdi_size) {
        memcpy(p + XCLBIN_PDI, pdi, pdi_size);
    }
    return x;
}

// The program of a core: one segment of code at 0x40, one of data.
static inline uint8_t * elf_core_make(bool wide, const uint8_t * code, size_t code_size,
                                      size_t * size) {
    size_t header = wide ? 64 : 52, entry = wide ? 56 : 32, at = header + 2 * entry;
    *size = at + code_size;
    uint8_t * x = calloc(1, *size);
    if (!x) {
        abort();
    }
    memcpy(x, "\177ELF", 4);
    x[4] = wide ? 2 : 1;
    x[5] = x[6] = 1;
    put_u16(x + 16, 2);
    put_u16(x + 18, 264);
    store_u32(x + (wide ? 32 : 28), (uint32_t) header);
    put_u16(x + (wide ? 54 : 42), (uint32_t) entry);
    put_u16(x + (wide ? 56 : 44), 2);
    for (int i = 0; i < 2; i++) {
        uint8_t * h = x + header + entry * (size_t) i;
        store_u32(h, 1);
        store_u32(h + (wide ? 4 : 24), i ? 6 : 5); // read and write, read and execute
        store_u32(h + (wide ? 8 : 4), (uint32_t) at);
        store_u32(h + (wide ? 16 : 8), i ? 0x70000 : 0x40);
        store_u32(h + (wide ? 32 : 16), (uint32_t) (i ? 4 : code_size));
    }
    memcpy(x + at, code, code_size);
    return x;
}

// Control code: sections .ctrltext, .pdi and .note, and the names of sections.
static inline uint8_t * elf_control_make(const uint8_t * txn, size_t txn_size, const uint8_t * pdi,
                                         size_t pdi_size, size_t * size) {
    static const char names[] = "\0.shstrtab\0.ctrltext\0.pdi.0\0.note";
    enum { HEADER = 52, ENTRY = 40, SECTIONS = 5 };
    static const struct {
        uint32_t name, type, flags;
    } sections[SECTIONS] = {{0, 0, 0}, {1, 3, 0}, {11, 1, 6}, {21, 1, 2}, {28, 7, 0}};
    size_t bytes[SECTIONS] = {0, sizeof names, txn_size, pdi_size, 0};
    *size = HEADER + ENTRY * SECTIONS + sizeof names + txn_size + pdi_size;
    uint8_t * x = calloc(1, *size);
    if (!x) {
        abort();
    }
    memcpy(x, "\177ELF\1\1\1\x40", 8);
    put_u16(x + 16, 2);
    put_u16(x + 18, 1);
    store_u32(x + 32, HEADER);
    put_u16(x + 46, ENTRY);
    put_u16(x + 48, SECTIONS);
    put_u16(x + 50, 1);
    const void * data[SECTIONS] = {NULL, names, txn, pdi, NULL};
    size_t at = HEADER + ENTRY * SECTIONS;
    for (int i = 0; i < SECTIONS; i++) {
        uint8_t * h = x + HEADER + ENTRY * i;
        store_u32(h, sections[i].name);
        store_u32(h + 4, sections[i].type);
        store_u32(h + 8, sections[i].flags);
        store_u32(h + 16, (uint32_t) at);
        store_u32(h + 20, (uint32_t) bytes[i]);
        if (bytes[i]) {
            memcpy(x + at, data[i], bytes[i]);
        }
        at += bytes[i];
    }
    return x;
}
