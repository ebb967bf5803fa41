// sem-mac-aie2p: integer multiply-accumulate on the 2048-bit accumulators of aie2p, and integer
// accumulator arithmetic (vadd, vsub, vneg on dm). As on aie2 a configuration word in a register
// chooses what is multiplied with what; the shapes are twice as large and others.
//
// Kept true: all operands are taken from the low end of their registers, matrices are row-major;
// sums wrap. A mode that is not in the table, a product mask, and the sparse forms are refused.
#include "emu/aie/sem.h"

#include <string.h>

#define CONF_MODE(conf)             ((conf) >> 1 & 127) // variant[6:4] bmode[3:2] amode[1:0]
#define MODE(amode, bmode, variant) ((variant) << 4 | (bmode) << 2 | (amode))
#define CONF_MASK(conf)             ((conf) >> 16)

enum { DM_BYTES = 256, N32 = 64, N64 = 32 };

// inner 0: lane by lane
struct mac_mode {
    uint8_t x_bits, y_bits;
    uint8_t rows, inner, cols;
};

// Those with "run" are in designs of AMD's compilers that come to the right result; "probe": on
// silicon, in the published probe; the others are AMD's headers' word.
static const struct mac_mode modes[128] = {
    [MODE(0, 1, 0)] = {8, 8, 8, 8, 8},    // run
    [MODE(0, 1, 1)] = {8, 8, 0, 0, 64},   // header
    [MODE(0, 2, 0)] = {16, 8, 8, 4, 8},   // header
    [MODE(0, 3, 0)] = {16, 16, 8, 2, 8},  // header
    [MODE(0, 3, 1)] = {16, 16, 0, 0, 64}, // header
    [MODE(1, 0, 0)] = {32, 16, 4, 2, 8},  // header
    [MODE(1, 2, 0)] = {16, 8, 4, 8, 8},   // header
    [MODE(1, 3, 0)] = {16, 16, 4, 4, 8},  // run
    [MODE(1, 3, 2)] = {16, 16, 0, 0, 32}, // probe
};

static void unpack_lanes(int32_t * out, const uint8_t * in, int n, int lane_bits, bool is_signed) {
    if (lane_bits == 8) {
        for (int i = 0; i < n; i++) {
            out[i] = is_signed ? (int8_t) in[i] : in[i];
        }
    } else if (lane_bits == 16) {
        uint16_t v[64];
        memcpy(v, in, (size_t) n * 2);
        for (int i = 0; i < n; i++) {
            out[i] = is_signed ? (int16_t) v[i] : v[i];
        }
    } else {
        memcpy(out, in, (size_t) n * 4);
    }
}

// Unsigned arithmetic: lanes wrap. A line of eight is vector code.
static inline void matrix32(uint32_t * sum, const int32_t * x, const int32_t * y, int rows,
                            int inner) {
    for (int r = 0; r < rows; r++) {
        uint32_t line[8] = {0};
        for (int k = 0; k < inner; k++) {
            uint32_t v = (uint32_t) x[r * inner + k];
            for (int c = 0; c < 8; c++) {
                line[c] += v * (uint32_t) y[k * 8 + c];
            }
        }
        memcpy(sum + r * 8, line, sizeof line);
    }
}

static inline void matrix64(uint64_t * sum, const int32_t * x, const int32_t * y, int rows,
                            int inner, bool x_unsigned) {
    for (int r = 0; r < rows; r++) {
        int64_t line[8] = {0};
        for (int k = 0; k < inner; k++) {
            int64_t v = x_unsigned ? (int64_t) (uint32_t) x[r * inner + k] : x[r * inner + k];
            for (int c = 0; c < 8; c++) {
                line[c] += v * y[k * 8 + c];
            }
        }
        for (int c = 0; c < 8; c++) {
            sum[r * 8 + c] = (uint64_t) line[c];
        }
    }
}

union sums {
    uint32_t lanes32[N32];
    uint64_t lanes64[N64];
};

// bytes: of each register. False: a mode that is not known, or that asks for more than they hold.
static bool products(union sums * sum, const uint8_t * s1, const uint8_t * s2, int x_bytes,
                     int y_bytes, uint32_t conf) {
    const struct mac_mode * m = &modes[CONF_MODE(conf)];
    int nx = m->inner ? m->rows * m->inner : m->cols, ny = m->inner ? m->inner * m->cols : m->cols;
    int32_t x[64], y[64];
    if (m->cols == 0 || CONF_MASK(conf) || nx * m->x_bits > 8 * x_bytes ||
        ny * m->y_bits > 8 * y_bytes) {
        return false;
    }
    bool x_signed = conf & CONF_SIGN_X, wide = CONF_MODE(conf) & 1;
    unpack_lanes(x, s1, nx, m->x_bits, x_signed);
    unpack_lanes(y, s2, ny, m->y_bits, conf & CONF_SIGN_Y);
    if (m->inner && wide) {
        matrix64(sum->lanes64, x, y, m->rows, m->inner, m->x_bits == 32 && !x_signed);
    } else if (m->inner == 8) {
        matrix32(sum->lanes32, x, y, 8, 8);
    } else if (m->inner) {
        matrix32(sum->lanes32, x, y, m->rows, m->inner);
    } else {
        for (int i = 0; i < m->cols; i++) {
            if (wide) {
                sum->lanes64[i] = (uint64_t) ((int64_t) x[i] * y[i]);
            } else {
                sum->lanes32[i] = (uint32_t) x[i] * (uint32_t) y[i];
            }
        }
    }
    return true;
}

// s1 NULL: accumulators only. x_bytes, y_bytes: of the registers s1 and s2.
static bool accumulate(uint8_t * out, const uint8_t * acc1, const uint8_t * acc2,
                       const uint8_t * s1, const uint8_t * s2, int x_bytes, int y_bytes,
                       uint32_t conf) {
    union sums sum;
    uint32_t amode = conf >> 1 & 3;
    memset(&sum, 0, sizeof sum);
    if (amode > 1 || (s1 && !products(&sum, s1, s2, x_bytes, y_bytes, conf))) {
        return false;
    }
    if (amode == 1) {
        COMBINE(uint64_t, N64, DM_BYTES, sum.lanes64);
    } else {
        COMBINE(uint32_t, N32, DM_BYTES, sum.lanes32);
    }
    return true;
}

// ---- records: operands in the order dst, [acc1], [acc2], s1, s2, conf ----

#define CONF(i) load_u32(x->in[i])

#define MUL_FN(name, xb, yb, flips)                                                                \
    static bool name(struct core_exec * x) {                                                       \
        return accumulate(x->out[0], NULL, NULL, x->in[1], x->in[2], xb, yb, CONF(3) ^ (flips));   \
    }
#define MAC_FN(name, xb, yb, flips)                                                                \
    static bool name(struct core_exec * x) {                                                       \
        return accumulate(x->out[0], x->in[1], NULL, x->in[2], x->in[3], xb, yb,                   \
                          CONF(4) ^ (flips));                                                      \
    }
// dst is acc1 as well
#define ADDMAC_FN(name, xb, yb, flips)                                                             \
    static bool name(struct core_exec * x) {                                                       \
        return accumulate(x->out[0], x->in[0], x->in[1], x->in[2], x->in[3], xb, yb,               \
                          CONF(4) ^ (flips));                                                      \
    }

// Each takes an x or a y register on either side.
#define SIZES(FN, name, flips)                                                                     \
    FN(name##_x_x, 64, 64, flips)                                                                  \
    FN(name##_x_y, 64, 128, flips) FN(name##_y_x, 128, 64, flips) FN(name##_y_y, 128, 128, flips)

SIZES(MUL_FN, vmul, 0)
SIZES(MUL_FN, vnegmul, CONF_NEG_MUL)
SIZES(MAC_FN, vmac, 0)
SIZES(MAC_FN, vmsc, CONF_NEG_MUL)
SIZES(ADDMAC_FN, vaddmac, 0)
SIZES(ADDMAC_FN, vaddmsc, CONF_NEG_MUL)

static bool vadd(struct core_exec * x) {
    return accumulate(x->out[0], x->in[1], x->in[2], NULL, NULL, 0, 0, CONF(3));
}

static bool vsub(struct core_exec * x) {
    return accumulate(x->out[0], x->in[1], x->in[2], NULL, NULL, 0, 0, CONF(3) ^ CONF_NEG_ACC2);
}

static bool vneg(struct core_exec * x) {
    return accumulate(x->out[0], x->in[1], NULL, NULL, NULL, 0, 0, CONF(2) ^ CONF_NEG_ACC1);
}

#define ROWS(NAME, name)                                                                           \
    {NAME "_X_X", name##_x_x}, {NAME "_X_Y", name##_x_y}, {NAME "_Y_X", name##_y_x}, {             \
        NAME "_Y_Y", name##_y_y                                                                    \
    }

static const struct core_semantic rows[] = {
    ROWS("VMUL_vmul_cm_core", vmul),
    ROWS("VNEGMUL_vmul_cm_core", vnegmul),
    ROWS("VMAC_vmul_cm_core", vmac),
    ROWS("VMSC_vmul_cm_core", vmsc),
    ROWS("VADDMAC_vmac_cm2_add_reg_vmul_cm_core", vaddmac),
    ROWS("VADDMSC_vmac_cm2_add_reg_vmul_cm_core", vaddmsc),
    {"VADD_vmac_cm2_add_reg", vadd},
    {"VSUB_vmac_cm2_add_reg", vsub},
    {"VNEG", vneg},
};

const struct sem_family sem_macs_aie2p = SEM_FAMILY(rows);
