// bytes: memory of an agent is written, read, filled and copied in pieces of all kinds.
#pragma once

#include "base/cmocka-all.h"
#include "hsa/hsac.h"

#include <stdlib.h>
#include <string.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        struct error err = {0};                                                                    \
        if ((call) != ST_OK) {                                                                     \
            fail_msg("%s: %s", #call, err.text);                                                   \
        }                                                                                          \
    } while (0)

enum { BYTES_MIB = 1 << 20, BYTES_ROOM = 4 * BYTES_MIB };

struct bytes { // of an agent, and what ought to be in it
    struct hsac_agent * agent;
    uint8_t *device, *want, *got;
};

static inline void bytes_compare(struct bytes * m, const char * what, size_t size, size_t offset) {
    OK(hsac_read(m->agent, m->got, m->device, BYTES_ROOM, &err));
    for (size_t i = 0; i < BYTES_ROOM; i++) {
        if (m->got[i] != m->want[i]) {
            fail_msg("%s, %s of %zu at %zu: byte %zu is %u, not %u", hsac_agent_name(m->agent),
                     what, size, offset, i, m->got[i], m->want[i]);
        }
    }
}

static inline void bytes_check(struct hsac_agent * a, enum hsac_pool pool) {
    static const size_t sizes[] = {
        0, 1, 7, 4097, BYTES_MIB - 1, BYTES_MIB, BYTES_MIB + 1, 2 * BYTES_MIB, 3 * BYTES_MIB + 7};
    struct bytes m = {a, hsac_alloc(a, pool, BYTES_ROOM), malloc(BYTES_ROOM), malloc(BYTES_ROOM)};
    uint8_t * other = hsac_alloc(a, HSAC_POOL_DATA, BYTES_ROOM);
    uint8_t * source = malloc(BYTES_ROOM);
    assert_true(m.device && other && m.want && m.got && source);
    uint32_t seed = 1;
    for (size_t i = 0; i < BYTES_ROOM; i++) {
        seed = seed * 1664525u + 1013904223u;
        source[i] = (uint8_t) (seed >> 24);
    }
    memset(m.want, 0x5a, BYTES_ROOM);
    OK(hsac_fill(a, m.device, 0x5a, BYTES_ROOM, &err));
    bytes_compare(&m, "fill", BYTES_ROOM, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t n = sizes[i], at = 1 + 2 * i;
        OK(hsac_write(a, m.device + at, source + 3 * i, n, &err));
        memcpy(m.want + at, source + 3 * i, n);
        bytes_compare(&m, "write", n, at);
        OK(hsac_write(a, other, source, BYTES_ROOM, &err));
        OK(hsac_copy(a, m.device + at + 5, other + 77 + i, n, &err));
        memcpy(m.want + at + 5, source + 77 + i, n);
        bytes_compare(&m, "copy", n, at + 5);
        memset(m.got, 0x11, BYTES_ROOM); // a read takes what it was told to, and no more
        OK(hsac_read(a, m.got + 1, other + 3, n, &err));
        assert_memory_equal(m.got + 1, source + 3, n);
        assert_true(m.got[0] == 0x11 && m.got[n + 1] == 0x11);
        OK(hsac_fill(a, m.device + at + 9, (uint8_t) (0xf0 + i), n, &err));
        memset(m.want + at + 9, (int) (0xf0 + i), n);
        bytes_compare(&m, "fill", n, at + 9);
    }
    hsac_free(a, other);
    hsac_free(a, m.device);
    free(source);
    free(m.want);
    free(m.got);
}
