// check-grids: what the formats mean whose numbers are places in ggml's tables, written down once
// more. The tables are those that the build made (cmake/ggml/grids.c): ggml's own comparison is
// what checks these. Without them there are no such kernels.
#include "check-impl.h"

#include <stddef.h>

#ifdef GRIDS
#    include GRIDS

static const uint16_t iq2_xxs_grid[] = {RK_GRID_iq2_xxs};
static const uint16_t iq2_xs_grid[] = {RK_GRID_iq2_xs};
static const uint16_t iq2_s_grid[] = {RK_GRID_iq2_s};
static const uint16_t iq3_xxs_grid[] = {RK_GRID_iq3_xxs};
static const uint16_t iq3_s_grid[] = {RK_GRID_iq3_s};
static const uint16_t iq1_s_grid[] = {RK_GRID_iq1_s};

static const int threes[4] = {8, 25, 43}, eighths[8] = {4, 12, 20, 28, 36, 44, 52, 62};
static const int odds[8] = {1, 3, 5, 7, 9, 11, 13, 15}, signs_of[4] = {-1, 0, 1};

static double half(const uint8_t * p) {
    return check_get(T_F16, p, 0);
}

static int nibble(const uint8_t * p, int i) {
    return p[i / 2] >> i % 2 * 4 & 15;
}

static unsigned u16(const uint8_t * p) {
    return (unsigned) p[0] | (unsigned) p[1] << 8;
}

static unsigned u32(const uint8_t * p) {
    return u16(p) | u16(p + 2) << 16;
}

// Seven signs of eight: their number is even.
static unsigned eight_signs(unsigned seven) {
    unsigned n = 0;
    for (int i = 0; i < 7; i++) {
        n += seven >> i & 1;
    }
    return seven | n % 2 << 7;
}

// n numbers of an entry, as kinds of so many bits.
static void put(double * out, int n, unsigned entry, int bits, const int * kinds, unsigned signs,
                double scale) {
    for (int i = 0; i < n; i++) {
        int v = kinds[entry >> bits * i & ((1u << bits) - 1)];
        out[i] = scale * (signs >> i & 1 ? -v : v);
    }
}

static void iq2_xxs(const uint8_t * p, double * out) {
    for (int e = 0; e < 32; e++) {
        const uint8_t * part = p + 2 + e / 4 * 8;
        unsigned more = u32(part + 4);
        put(out + 8 * e, 8, iq2_xxs_grid[part[e % 4]], 2, threes,
            eight_signs(more >> 7 * (e % 4) & 127), half(p) * (2 * (more >> 28) + 1) / 8);
    }
}

static void iq2_xs(const uint8_t * p, double * out) {
    for (int e = 0; e < 32; e++) {
        unsigned v = u16(p + 2 + 2 * e);
        put(out + 8 * e, 8, iq2_xs_grid[v % 512], 2, threes, eight_signs(v / 512),
            half(p) * (2 * nibble(p + 66, e / 2) + 1) / 8);
    }
}

static void iq2_s(const uint8_t * p, double * out) {
    for (int e = 0; e < 32; e++) {
        unsigned high = p[66 + e / 4] >> 2 * (e % 4) & 3;
        put(out + 8 * e, 8, iq2_s_grid[p[2 + e] + 256 * high], 2, threes, p[34 + e],
            half(p) * (2 * nibble(p + 74, e / 2) + 1) / 8);
    }
}

static void iq3_xxs(const uint8_t * p, double * out) {
    for (int f = 0; f < 64; f++) {
        unsigned more = u32(p + 66 + f / 8 * 4), signs = eight_signs(more >> f % 8 / 2 * 7 & 127);
        put(out + 4 * f, 4, iq3_xxs_grid[p[2 + f]], 3, eighths, signs >> f % 2 * 4,
            half(p) * (2 * (more >> 28) + 1) / 4);
    }
}

static void iq3_s(const uint8_t * p, double * out) {
    for (int f = 0; f < 64; f++) {
        unsigned high = p[66 + f / 8] >> f % 8 & 1;
        put(out + 4 * f, 4, iq3_s_grid[p[2 + f] + 256 * high], 3, odds, nibble(p + 74, f),
            half(p) * (2 * nibble(p + 106, f / 8) + 1));
    }
}

static void shift(double * out, double by) {
    for (int i = 0; i < 8; i++) {
        out[i] += by;
    }
}

static void iq1_s(const uint8_t * p, double * out) {
    for (int e = 0; e < 32; e++) {
        unsigned more = u16(p + 34 + e / 4 * 2), high = more >> 3 * (e % 4) & 7;
        double d = half(p) * (2 * (more >> 12 & 7) + 1);
        put(out + 8 * e, 8, iq1_s_grid[p[2 + e] + 256 * high], 2, signs_of, 0, d);
        shift(out + 8 * e, more >> 15 ? -d / 8 : d / 8);
    }
}

static void iq1_m(const uint8_t * p, double * out) {
    const uint8_t * scales = p + 48;
    uint8_t d[2] = {(uint8_t) (nibble(scales, 3) | nibble(scales, 7) << 4),
                    (uint8_t) (nibble(scales, 11) | nibble(scales, 15) << 4)};
    for (int e = 0; e < 32; e++) {
        int more = nibble(p + 32, e);
        double by = half(d) * (2 * (u16(scales + e / 8 * 2) >> 3 * (e / 2 % 4) & 7) + 1);
        put(out + 8 * e, 8, iq1_s_grid[p[e] + 256 * (more & 7)], 2, signs_of, 0, by);
        shift(out + 8 * e, more & 8 ? -by / 8 : by / 8);
    }
}

const struct check_format check_grids[] = {
    {"iq2_xxs", 256, 66, {0, -1}, iq2_xxs}, {"iq2_xs", 256, 74, {0, -1}, iq2_xs},
    {"iq2_s", 256, 82, {0, -1}, iq2_s},     {"iq3_xxs", 256, 98, {0, -1}, iq3_xxs},
    {"iq3_s", 256, 110, {0, -1}, iq3_s},    {"iq1_s", 256, 50, {0, -1}, iq1_s},
    {"iq1_m", 256, 56, {-1, -1}, iq1_m},    {NULL, 0, 0, {0}, NULL},
};
#else
const struct check_format check_grids[] = {{NULL, 0, 0, {0}, NULL}};
#endif
