// shared: see the header.
#include "shared.h"

#include <math.h>
#include <string.h>

enum { MANTISSAS = SHARED_EIGHT * SHARED_EIGHT, UNIT = 133, ALL_ONES = 255, MOST = 127 };

static int exponent_of(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return (int) (bits >> 23 & ALL_ONES);
}

// In the unit of a block with this exponent; what f32 has no normal number for is nothing.
static int mantissa(float v, int exponent) {
    return exponent_of(v) ? (int) nearbyintf(ldexpf(v, UNIT - exponent)) : 0;
}

static bool put_eight(const float * numbers, uint8_t * mantissas, uint8_t * exponent) {
    int most = 0, m[SHARED_EIGHT];
    for (int i = 0; i < SHARED_EIGHT; i++) {
        int e = exponent_of(numbers[i]);
        most = e > most ? e : most;
    }
    for (bool fits = false; !fits && most < ALL_ONES; most += !fits) { // 127.5 and more are 128
        fits = true;
        for (int i = 0; i < SHARED_EIGHT; i++) {
            m[i] = mantissa(numbers[i], most);
            fits &= m[i] <= MOST && m[i] >= -MOST;
        }
    }
    if (most >= ALL_ONES) {
        return false;
    }
    for (int i = 0; i < SHARED_EIGHT; i++) {
        mantissas[i] = (uint8_t) m[i];
    }
    *exponent = (uint8_t) most;
    return true;
}

bool shared_put_row(const float * numbers, int64_t k, int row, uint8_t * group) {
    for (int64_t i = 0; i < k; i += SHARED_EIGHT, group += SHARED_BLOCK_BYTES) {
        if (!put_eight(numbers + i, group + SHARED_EIGHT * row, group + MANTISSAS + row)) {
            return false;
        }
    }
    return true;
}

float shared_get(const uint8_t * group, int row, int64_t i) {
    const uint8_t * block = group + i / SHARED_EIGHT * SHARED_BLOCK_BYTES;
    int m = (int8_t) block[SHARED_EIGHT * row + i % SHARED_EIGHT];
    return ldexpf((float) m, block[MANTISSAS + row] - UNIT);
}
