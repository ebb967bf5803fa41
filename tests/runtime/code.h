// code: a small AMDGPU code object, made by hand, so that tests need no compiler: one kernel "k", a
// variable, and a pointer to it that has to be relocated.
#pragma once

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

#define CODE_END_GFX9  0xbf810000u // s_endpgm
#define CODE_END_GFX11 0xbfb00000u

enum {
    CODE_MACH_GFX90A = 0x53f,
    CODE_MACH_GFX942 = 0x54c,
    CODE_MACH_GFX1100 = 0x41,

    // Places in the file; they are virtual addresses as well.
    CODE_SYMBOLS = 0x200,
    CODE_HASH = 0x300,
    CODE_STRINGS = 0x340,
    CODE_RELOCS = 0x380,
    CODE_KD = 0x400,
    CODE_TEXT = 0x1000,
    CODE_DYNAMIC = 0x2000,
    CODE_VARIABLE = 0x2100,
    CODE_POINTER = 0x2110,
    CODE_OUTSIDE = 0x2118,
    CODE_BYTES = 0x2200,
    CODE_RW_BYTES = 0x400, // in memory
};

// *address = 3 * *address + value + unused, of one work-item. Which launches ran, and in which
// order, is in the number.
static const uint32_t code_step_gfx9[] = {
    0xc0060100,    0x00000000, // s_load_dwordx2 s[4:5], s[0:1], 0x0
    0xc0020180,    0x00000008, // s_load_dword s6, s[0:1], 0x8
    0xc00201c0,    0x00000010, // s_load_dword s7, s[0:1], 0x10
    0x7e020280,                // v_mov_b32 v1, 0
    0xbf8cc07f,                // s_waitcnt lgkmcnt(0)
    0xdc508000,    0x02040001, // global_load_dword v2, v1, s[4:5]
    0x81060706,                // s_add_i32 s6, s6, s7
    0xbf8c0f70,                // s_waitcnt vmcnt(0)
    0xd2850002,    0x00010702, // v_mul_lo_u32 v2, v2, 3
    0x68040406,                // v_add_u32 v2, s6, v2
    0xdc708000,    0x00040201, // global_store_dword v1, v2, s[4:5]
    0xbf8c0f70,                // s_waitcnt vmcnt(0)
    CODE_END_GFX9,
};
static const uint32_t code_step_gfx11[] = {
    0xf4040100, 0xf8000000, 0xf4000180, 0xf8000008, 0xf40001c0,     0xf8000010, 0x7e020280,
    0xbf89fc07, 0xdc520000, 0x02040001, 0x81060706, 0xbf8903f7,     0xd72c0002, 0x00010702,
    0x4a040406, 0xdc6a0000, 0x00040201, 0xbf8903f7, CODE_END_GFX11,
};
_Static_assert(sizeof code_step_gfx9 == sizeof code_step_gfx11, "");
enum { CODE_STEP_WORDS = sizeof code_step_gfx9 / 4 };

static inline void code_u16(uint8_t * p, uint32_t v) {
    p[0] = (uint8_t) v;
    p[1] = (uint8_t) (v >> 8);
}

static inline void code_u64(uint8_t * p, uint64_t v) {
    store_u32(p, (uint32_t) v);
    store_u32(p + 4, (uint32_t) (v >> 32));
}

static inline void code_segment(uint8_t * ph, uint32_t type, uint32_t flags, uint64_t at,
                                uint64_t file_bytes, uint64_t bytes) {
    store_u32(ph, type);
    store_u32(ph + 4, flags);
    code_u64(ph + 8, at);
    code_u64(ph + 16, at);
    code_u64(ph + 24, at);
    code_u64(ph + 32, file_bytes);
    code_u64(ph + 40, bytes);
    code_u64(ph + 48, type == 1 ? 4096 : 8);
}

static inline void code_symbol(uint8_t * sym, uint32_t name, uint8_t info, uint32_t section,
                               uint64_t value, uint64_t size) {
    store_u32(sym, name);
    sym[4] = info;
    code_u16(sym + 6, section);
    code_u64(sym + 8, value);
    code_u64(sym + 16, size);
}

// With `outside`, variable "outside" is used and not defined. The caller frees the CODE_BYTES.
static inline uint8_t * code_new(uint32_t flags, const uint32_t * text, size_t n_words,
                                 bool outside) {
    uint8_t * d = calloc(1, CODE_BYTES);
    if (!d || n_words > (CODE_DYNAMIC - CODE_TEXT) / 4) {
        abort();
    }
    static const uint8_t ident[] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 64, 2};
    memcpy(d, ident, sizeof ident);
    code_u16(d + 16, 3);
    code_u16(d + 18, 224);
    store_u32(d + 20, 1);
    code_u64(d + 32, 64);
    store_u32(d + 48, flags);
    code_u16(d + 52, 64);
    code_u16(d + 54, 56);
    code_u16(d + 56, 4);
    code_segment(d + 64, 1, 4, 0, 0x500, 0x500);
    code_segment(d + 120, 1, 5, CODE_TEXT, 4 * n_words, 4 * n_words);
    code_segment(d + 176, 1, 6, CODE_DYNAMIC, CODE_BYTES - CODE_DYNAMIC, CODE_RW_BYTES);
    code_segment(d + 232, 2, 6, CODE_DYNAMIC, 160, 160);

    static const char names[] = "\0k.kd\0variable\0outside\0k";
    memcpy(d + CODE_STRINGS, names, sizeof names);
    int n = outside ? 5 : 4;
    code_symbol(d + CODE_SYMBOLS + 24, 1, 0x11, 1, CODE_KD, 64);
    code_symbol(d + CODE_SYMBOLS + 48, 6, 0x11, 3, CODE_VARIABLE, 4);
    code_symbol(d + CODE_SYMBOLS + 72, 23, 0x12, 2, CODE_TEXT, 4 * n_words); // a function
    code_symbol(d + CODE_SYMBOLS + 96, 15, 0x10, 0, 0, 0);
    store_u32(d + CODE_HASH, 1);
    store_u32(d + CODE_HASH + 4, (uint32_t) n);

    code_u64(d + CODE_RELOCS, CODE_POINTER);
    code_u64(d + CODE_RELOCS + 8, 13); // RELATIVE64
    code_u64(d + CODE_RELOCS + 16, CODE_VARIABLE);
    code_u64(d + CODE_RELOCS + 24, CODE_OUTSIDE);
    code_u64(d + CODE_RELOCS + 32, (uint64_t) 4 << 32 | 3); // ABS64 of symbol 4
    code_u64(d + CODE_RELOCS + 40, 8);

    const uint64_t dynamic[][2] = {
        {7, CODE_RELOCS},
        {8, outside ? 48 : 24},
        {9, 24},
        {6, CODE_SYMBOLS},
        {11, 24},
        {5, CODE_STRINGS},
        {10, sizeof names},
        {4, CODE_HASH},
        {0, 0},
    };
    for (size_t i = 0; i < sizeof dynamic / sizeof dynamic[0]; i++) {
        code_u64(d + CODE_DYNAMIC + 16 * i, dynamic[i][0]);
        code_u64(d + CODE_DYNAMIC + 16 * i + 8, dynamic[i][1]);
    }
    store_u32(d + CODE_VARIABLE, 7);

    bool gfx11 = (flags & 0xff) == 0x41;
    store_u32(d + CODE_KD, 256);    // group memory
    store_u32(d + CODE_KD + 8, 24); // arguments
    code_u64(d + CODE_KD + 16, CODE_TEXT - CODE_KD);
    store_u32(d + CODE_KD + 48, 0x00af0000);               // denormals as they are
    store_u32(d + CODE_KD + 52, 2 << 1 | 0x80);            // two user registers, group number x
    code_u16(d + CODE_KD + 56, 8u | (gfx11 ? 0x400u : 0)); // the arguments' address
    for (size_t i = 0; i < n_words; i++) {
        store_u32(d + CODE_TEXT + 4 * i, text[i]);
    }
    return d;
}
