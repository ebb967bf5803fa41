// absent: the names of instructions that are not executed here (absent.def), for messages. Looked
// at only when a decoder knew nothing of the words: what is executed is never called absent.
#include "emu/gfx/impl.h"

enum { GFX9 = 1 << GFX_90A | 1 << GFX_942, GFX942 = 1 << GFX_942 };
enum { GFX11 = 1 << GFX_1100 | 1 << GFX_1151 };

static const struct {
    uint8_t archs; // bits by enum gfx_arch
    uint32_t mask, match;
    const char * name;
} rows[] = {
#define ABSENT(archs, mask, match, name) {archs, mask, match, #name},
#include "emu/gfx/absent.def"
};

const char * gfx_absent_name(enum gfx_arch arch, uint32_t word) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].archs >> arch & 1 && (word & rows[i].mask) == rows[i].match) {
            return rows[i].name;
        }
    }
    return NULL;
}
