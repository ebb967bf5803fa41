// container: what the readers of xclbin and ELF files share. Their bytes are from outside: a range
// is checked against the file before it is touched, in numbers that cannot wrap.
#pragma once

#include "image.h"

#include <string.h>

static inline bool range_fits(uint64_t offset, uint64_t bytes, size_t size) {
    return offset <= size && bytes <= size - offset;
}

// A name of at most n bytes that may end early and hold anything.
static inline void printable_name(char * to, size_t room, const uint8_t * from, size_t n) {
    size_t i = 0;
    for (; i + 1 < room && i < n && from[i]; i++) {
        to[i] = from[i] >= 0x20 && from[i] < 0x7f ? (char) from[i] : '?';
    }
    to[i] = 0;
}
