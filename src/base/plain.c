// plain: see plain.h.
#include "plain.h"

#include <stdint.h>
#include <string.h>

size_t plain_utf8(const char * text) {
    const uint8_t * p = (const uint8_t *) text;
    if (*p < 0x80) {
        return 1;
    }
    size_t n = *p >= 0xc2 && *p <= 0xdf   ? 2
               : (*p & 0xf0) == 0xe0      ? 3
               : *p >= 0xf0 && *p <= 0xf4 ? 4
                                          : 0;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) { // also where the text ends
            return 0;
        }
    }
    bool too_long = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    bool no_character = (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf4 && p[1] > 0x8f);
    return too_long || no_character ? 0 : n;
}

static uint32_t code_of(const char * text, size_t n) {
    static const uint8_t first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = (uint8_t) text[0] & first[n];
    for (size_t i = 1; i < n; i++) {
        code = code << 6 | ((uint8_t) text[i] & 0x3f);
    }
    return code;
}

bool plain_character(const char * text, size_t * bytes) {
    static const struct {
        uint32_t from, to;
    } never[] = {
        {0x0000, 0x001f},   {0x007f, 0x009f}, // controls
        {0x061c, 0x061c},   {0x200e, 0x200f}, // marks of direction
        {0x2028, 0x202e},                     // separators, embeddings and overrides
        {0x2066, 0x2069},                     // isolates
        {0xfff9, 0xfffb},                     // annotations
        {0xfffe, 0xffff},                     // no characters; XML has no place for them
        {0xe0000, 0xe007f},                   // tags, which nobody sees
    };
    size_t n = plain_utf8(text);
    *bytes = n ? n : 1;
    bool shown = n > 0;
    uint32_t code = shown ? code_of(text, n) : 0;
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++) {
        shown = shown && (code < never[i].from || code > never[i].to);
    }
    return shown;
}

void plain_make(char * text, bool lines) {
    for (size_t n; *text; text += n) {
        if (!plain_character(text, &n) && !(lines && (*text == '\n' || *text == '\t'))) {
            memset(text, '?', n);
        }
    }
}
