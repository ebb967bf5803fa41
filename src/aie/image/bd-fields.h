// bd-fields: how a buffer descriptor is cut into fields, as the compiler and its tools know it. The
// emulator and the verifier have tables of their own on purpose: they judge what this one says.
#pragma once

#include "base/base.h"

enum image_tile { IMAGE_SHIM, IMAGE_MEM, IMAGE_CORE, IMAGE_TILES };
enum { IMAGE_BD_WORDS = 8, IMAGE_CORE_BD_WORDS = 6, IMAGE_BD_STEP = 0x20 }; // most; bytes apart

enum image_bd_field {
#define BD_FIELD(id, name, form, shown, shim, mem, core) BD_##id,
#include "bd-fields.def"
#undef BD_FIELD
    BD_FIELDS
};

enum bd_form { BD_FORM_NUMBER, BD_FORM_HEX, BD_FORM_FLAG, BD_FORM_LESS_1, BD_FORM_SIGNED };
enum bd_shown { BD_SHOWN_SET, BD_SHOWN_ALWAYS, BD_SHOWN_FOLLOWS };

struct bd_place {
    uint8_t word, high, low; // bits; high < low: there is no such field
};

struct bd_info {
    const char * name;
    enum bd_form form;
    enum bd_shown shown;
    struct bd_place at[IMAGE_TILES];
};
extern const struct bd_info image_bd_fields[BD_FIELDS];

bool image_bd_has(enum image_tile tile, enum image_bd_field f);
// The bits of a field as they are stored; 0 where there is no such field.
uint32_t image_bd_get(enum image_tile tile, const uint32_t * words, enum image_bd_field f);
// Replaces them. A value that the field cannot hold is a bug of the caller; no bit ever spills into
// a neighbour's field.
void image_bd_set(enum image_tile tile, uint32_t * words, enum image_bd_field f, uint32_t stored);
