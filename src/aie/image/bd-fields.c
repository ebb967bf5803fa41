// bd-fields: see the header and the table.
#include "bd-fields.h"

#include <assert.h>

#define AT(word, high, low)                                                                        \
    { word, high, low }
#define NO AT(0, 0, 1)
#define BD_FIELD(id, name, form, shown, shim, mem, core)                                           \
    [BD_##id] = {name, BD_FORM_##form, BD_SHOWN_##shown, {shim, mem, core}},

const struct bd_info image_bd_fields[BD_FIELDS] = {
#include "bd-fields.def"
};

bool image_bd_has(enum image_tile tile, enum image_bd_field f) {
    const struct bd_place * p = &image_bd_fields[f].at[tile];
    return p->high >= p->low;
}

static uint32_t mask_of(const struct bd_place * p) {
    return UINT32_MAX >> (31 - (p->high - p->low));
}

uint32_t image_bd_get(enum image_tile tile, const uint32_t * words, enum image_bd_field f) {
    const struct bd_place * p = &image_bd_fields[f].at[tile];
    return image_bd_has(tile, f) ? words[p->word] >> p->low & mask_of(p) : 0;
}

void image_bd_set(enum image_tile tile, uint32_t * words, enum image_bd_field f, uint32_t stored) {
    const struct bd_place * p = &image_bd_fields[f].at[tile];
    assert(image_bd_has(tile, f) && stored <= mask_of(p));
    words[p->word] &= ~(mask_of(p) << p->low);
    words[p->word] |= (stored & mask_of(p)) << p->low;
}
