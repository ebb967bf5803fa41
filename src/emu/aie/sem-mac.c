// sem-mac: integer multiply-accumulate (vmul, vmac, vmsc, vaddmac, ...) and accumulator arithmetic
// (vadd, vsub, vneg ... on cm). What is multiplied with what is chosen by a configuration word in a
// register; opcodes flip some of its sign bits.
//
// Kept true: a mode that silicon shows to select nothing multiplies nothing but still adds the
// accumulators; a mode whose routing is not known makes the instruction fail, never guess.
#include "emu/aie/sem-x86.h"

#include <string.h>

// ---- configuration word ----

#define CONF_MODE(conf)             ((conf) >> 1 & 127) // variant[6:4] bmode[3:2] amode[1:0]
#define MODE(amode, bmode, variant) ((variant) << 4 | (bmode) << 2 | (amode))
#define CONF_MASK(conf)             ((conf) >> 16 & 255) // negates single products

enum { CM_BYTES = 128 };

// ---- modes ----

enum layout {
    NOTHING,      // selects no products
    MATRIX,       // rows x inner times inner x cols, all row-major
    ELEMENT,      // lane l: x[l + lanes * k] * y[l + lanes * k]
    CONVOLVE,     // lane l: x[l + step * k] * y[l % step + step * k], step channels
    COMPLEX_REAL, // as MATRIX with pairs: x[row * 2 inner + 2k + l % 2] * y[k * cols + col]
    COMPLEX,      // lane pairs (re, im) of x[c + 8 t] * y[c + 8 t], k = 2 t + which part of x
    SPARSE,       // not known; but a dense form multiplies nothing in such a mode
    UNKNOWN,      // a mode that exists, but whose products are not known
};

// Which bit of the product mask negates product k of column (lane) c.
enum mask_rule {
    MASK_NONE_KNOWN, // not seen on silicon with a mask
    MASK_K1_C0,      // k & 3, c0
    MASK_8BIT,       // k2, k0, c0
    MASK_8BIT_PAIR,  // 0, 0, c0
    MASK_16X8,       // k1, c0, c1
    MASK_16X16,      // k0, c0, c1
};

struct mac_mode {
    uint8_t x_bits, y_bits;
    uint8_t layout, rows, inner, cols;
    uint8_t mask;
};

// By mode; one that has no row selects nothing. Rows with "-" were not seen on silicon.
static const struct mac_mode modes[128] = {
    [MODE(0, 0, 0)] = {8, 4, MATRIX, 4, 16, 8, MASK_NONE_KNOWN}, // -
    [MODE(0, 0, 1)] = {.layout = SPARSE},                        // sparse 8 x 4
    [MODE(0, 1, 0)] = {8, 8, MATRIX, 4, 8, 8, MASK_8BIT},
    [MODE(0, 1, 1)] = {8, 8, ELEMENT, 1, 2, 32, MASK_8BIT_PAIR},
    [MODE(0, 1, 2)] = {.layout = UNKNOWN},
    [MODE(0, 1, 3)] = {8, 8, CONVOLVE, 4, 8, 32, MASK_8BIT},
    [MODE(0, 1, 4)] = {.layout = UNKNOWN},
    [MODE(0, 1, 5)] = {.layout = SPARSE}, // sparse 8 x 8
    [MODE(0, 2, 0)] = {16, 8, MATRIX, 4, 4, 8, MASK_16X8},
    [MODE(0, 2, 1)] = {16, 8, COMPLEX_REAL, 4, 4, 8, MASK_16X8},
    [MODE(0, 3, 0)] = {16, 16, MATRIX, 4, 2, 8, MASK_16X16},
    [MODE(0, 3, 1)] = {16, 16, ELEMENT, 1, 1, 32, MASK_NONE_KNOWN}, // -
    [MODE(1, 0, 0)] = {32, 16, MATRIX, 4, 2, 4, MASK_NONE_KNOWN},   // -
    [MODE(1, 0, 1)] = {.layout = UNKNOWN},
    [MODE(1, 1, 0)] = {16, 16, MATRIX, 2, 4, 8, MASK_K1_C0},
    [MODE(1, 1, 1)] = {16, 16, MATRIX, 4, 4, 4, MASK_K1_C0},
    [MODE(1, 1, 2)] = {16, 16, ELEMENT, 1, 2, 16, MASK_K1_C0},
    [MODE(1, 1, 3)] = {16, 16, CONVOLVE, 1, 4, 16, MASK_K1_C0},
    [MODE(1, 1, 4)] = {16, 16, COMPLEX, 1, 4, 16, MASK_K1_C0},
    [MODE(1, 1, 5)] = {.layout = SPARSE},                        // sparse 16 x 16
    [MODE(1, 2, 0)] = {16, 8, MATRIX, 2, 8, 8, MASK_NONE_KNOWN}, // -
    [MODE(1, 2, 1)] = {16, 8, MATRIX, 4, 8, 4, MASK_NONE_KNOWN}, // -
    [MODE(1, 2, 2)] = {.layout = SPARSE},                        // sparse 16 x 8
    [MODE(1, 3, 0)] = {16, 16, MATRIX, 2, 4, 8, MASK_K1_C0},
    [MODE(1, 3, 1)] = {16, 16, MATRIX, 4, 4, 4, MASK_K1_C0},
    [MODE(1, 3, 2)] = {16, 16, ELEMENT, 1, 2, 16, MASK_K1_C0},
    [MODE(1, 3, 3)] = {16, 16, CONVOLVE, 1, 4, 16, MASK_K1_C0},
    [MODE(1, 3, 4)] = {16, 16, COMPLEX, 1, 4, 16, MASK_K1_C0},
    [MODE(1, 3, 5)] = {.layout = SPARSE}, // sparse 16 x 16
};

static int mask_bit(int rule, int k, int c) {
    switch (rule) {
    case MASK_K1_C0:
        return (k & 3) | (c & 1) << 2;
    case MASK_8BIT:
        return (k >> 2 & 1) | (k & 1) << 1 | (c & 1) << 2;
    case MASK_8BIT_PAIR:
        return (c & 1) << 2;
    case MASK_16X8:
        return (k >> 1 & 1) | (c & 3) << 1;
    default:
        return (k & 1) | (c & 3) << 1;
    }
}

// ---- products ----

static void unpack_lanes(int32_t * out, const uint8_t * in, int n, int lane_bits, bool is_signed) {
    if (lane_bits == 8) {
        for (int i = 0; i < n; i++) {
            out[i] = is_signed ? (int8_t) in[i] : in[i];
        }
    } else if (lane_bits == 16) {
        uint16_t v[32];
        memcpy(v, in, sizeof(v));
        for (int i = 0; i < n; i++) {
            out[i] = is_signed ? (int16_t) v[i] : v[i];
        }
    } else if (lane_bits == 32) {
        memcpy(out, in, (size_t) n * 4);
    } else {
        for (int i = 0; i < n; i++) {
            int v = in[i >> 1] >> (i & 1) * 4 & 15;
            out[i] = is_signed && v > 7 ? v - 16 : v;
        }
    }
}

// Lanes of 32 bits wrap; unsigned arithmetic says so to the compiler. cols and inner are constants
// where this is inlined, so that it becomes straight vector code.
static inline void matrix32(uint32_t * sum, const int32_t * x, const int32_t * y, int rows,
                            int inner, int cols) {
    for (int r = 0; r < rows; r++) {
        uint32_t line[8] = {0};
        for (int k = 0; k < inner; k++) {
            uint32_t v = (uint32_t) x[r * inner + k];
            for (int c = 0; c < cols; c++) {
                line[c] += v * (uint32_t) y[k * cols + c];
            }
        }
        memcpy(sum + r * cols, line, (size_t) cols * 4);
    }
}

static inline void matrix64(uint64_t * sum, const int32_t * x, const int32_t * y, int rows,
                            int inner, int cols, bool x_unsigned) {
    for (int r = 0; r < rows; r++) {
        int64_t line[8] = {0};
        for (int k = 0; k < inner; k++) {
            int64_t v = x_unsigned ? (int64_t) (uint32_t) x[r * inner + k] : x[r * inner + k];
            for (int c = 0; c < cols; c++) {
                line[c] += v * y[k * cols + c];
            }
        }
        for (int c = 0; c < cols; c++) {
            sum[r * cols + c] = (uint64_t) line[c];
        }
    }
}

// Indices of product k of lane l.
static void product_index(const struct mac_mode * m, int lanes, int l, int k, int * xi, int * yi) {
    switch (m->layout) {
    case ELEMENT:
        *xi = *yi = l + lanes * k;
        break;
    case CONVOLVE: // rows is the number of channels
        *xi = l + m->rows * k;
        *yi = l % m->rows + m->rows * k;
        break;
    case COMPLEX_REAL:
        *xi = l / m->cols * 2 * m->inner + 2 * k + l % 2;
        *yi = k * m->cols + l % m->cols;
        break;
    default: { // COMPLEX
        int element = (l >> 1) + 8 * (k >> 1), part = k & 1;
        *xi = 2 * element + part;
        *yi = 2 * element + (part ^ (l & 1));
        break;
    }
    }
}

// A matrix product; numbers of y that the mask names are negated first.
static void matrix_products(const struct mac_mode * m, uint32_t mask, const int32_t x[128],
                            int32_t y[128], bool wide, bool x_signed, uint32_t sum32[32],
                            uint64_t sum64[16]) {
    for (int k = 0; mask && k < m->inner; k++) {
        for (int c = 0; c < m->cols; c++) {
            if (mask >> mask_bit(m->mask, k, c) & 1) {
                y[k * m->cols + c] = -y[k * m->cols + c];
            }
        }
    }
    switch (m->rows << 8 | m->inner << 4 | m->cols) {
    case 0x488:
        matrix32(sum32, x, y, 4, 8, 8);
        break;
    case 0x448:
        matrix32(sum32, x, y, 4, 4, 8);
        break;
    case 0x428:
        matrix32(sum32, x, y, 4, 2, 8);
        break;
    case 0x248:
        matrix64(sum64, x, y, 2, 4, 8, false);
        break;
    case 0x444:
        matrix64(sum64, x, y, 4, 4, 4, false);
        break;
    default:
        if (wide) {
            matrix64(sum64, x, y, m->rows, m->inner, m->cols, m->x_bits == 32 && !x_signed);
        } else {
            matrix32(sum32, x, y, m->rows, m->inner, m->cols);
        }
    }
}

// Sums of products in 32 lanes of 32 bits or 16 of 64; false when the routing is not known.
static bool products(const struct mac_mode * m, uint32_t conf, const uint8_t * s1,
                     const uint8_t * s2, bool wide, uint32_t sum32[32], uint64_t sum64[16]) {
    int32_t x[128], y[128];
    uint32_t mask = CONF_MASK(conf);
    bool x_signed = conf & CONF_SIGN_X, y_signed = conf & CONF_SIGN_Y;
    if (m->layout == UNKNOWN || m->layout == SPARSE || (mask && m->mask == MASK_NONE_KNOWN)) {
        return false;
    }
    unpack_lanes(x, s1, 512 / m->x_bits, m->x_bits, x_signed);
    unpack_lanes(y, s2, 512 / m->y_bits, m->y_bits, y_signed);
    if (m->layout == MATRIX) {
        matrix_products(m, mask, x, y, wide, x_signed, sum32, sum64);
        return true;
    }
    int lanes = wide ? 16 : 32;
    for (int l = 0; l < lanes; l++) {
        int64_t sum = 0;
        for (int k = 0; k < m->inner; k++) {
            int xi, yi;
            product_index(m, lanes, l, k, &xi, &yi);
            int64_t p = (int64_t) x[xi] * y[yi];
            sum += mask >> mask_bit(m->mask, k, l) & 1 ? -p : p;
        }
        if (wide) {
            sum64[l] = (uint64_t) sum;
        } else {
            sum32[l] = (uint32_t) sum;
        }
    }
    return true;
}

// ---- accumulators ----

static void combine32(uint8_t * out, const uint8_t * acc1, const uint8_t * acc2,
                      const uint32_t * sum, uint32_t conf) {
    COMBINE(uint32_t, 32, CM_BYTES, sum);
}

static void combine64(uint8_t * out, const uint8_t * acc1, const uint8_t * acc2,
                      const uint64_t * sum, uint32_t conf) {
    COMBINE(uint64_t, 16, CM_BYTES, sum);
}

// ---- the short way, for the matrix modes of inner loops ----

// Nothing negated, shifted or masked: the sum is the accumulator and the products, wrapping.
enum { CONF_PLAIN_BITS = CONF_ZERO_ACC1 | 127 << 1 | CONF_SIGN_X | CONF_SIGN_Y };

typedef int32_t v4i __attribute__((vector_size(16)));
typedef uint32_t v4u __attribute__((vector_size(16)));
typedef int64_t v4l __attribute__((vector_size(32)));
typedef int16_t v8h __attribute__((vector_size(16)));
typedef uint16_t v8u __attribute__((vector_size(16)));
typedef int8_t v16b __attribute__((vector_size(16)));

// Lanes are widened by placing them into the upper half of a lane twice as wide and shifting down:
// that is vector code on every host.
static inline v4i widen_low(v8h v) {
    return (v4i) __builtin_shufflevector((v8h){0}, v, 0, 8, 1, 9, 2, 10, 3, 11) >> 16;
}

static inline v4i widen_high(v8h v) {
    return (v4i) __builtin_shufflevector((v8h){0}, v, 4, 12, 5, 13, 6, 14, 7, 15) >> 16;
}

// Sixteen lanes of 8 bits as 32.
static inline void load_8(v4i out[4], const uint8_t * p, bool is_signed) {
    v16b v, zero = {0};
    memcpy(&v, p, sizeof(v));
    v8h low = (v8h) __builtin_shufflevector(zero, v, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6,
                                            22, 7, 23);
    v8h high = (v8h) __builtin_shufflevector(zero, v, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                             14, 30, 15, 31);
    low = is_signed ? low >> 8 : (v8h) ((v8u) low >> 8);
    high = is_signed ? high >> 8 : (v8h) ((v8u) high >> 8);
    out[0] = widen_low(low);
    out[1] = widen_high(low);
    out[2] = widen_low(high);
    out[3] = widen_high(high);
}

// All 32 lanes of a register of 16 bits.
static inline void load_16(v4i out[8], const uint8_t * p) {
    for (int i = 0; i < 4; i++) {
        v8h v;
        memcpy(&v, p + 16 * i, sizeof(v));
        out[2 * i] = widen_low(v);
        out[2 * i + 1] = widen_high(v);
    }
}

#define EACH_K(f)      f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)
#define SPLAT(v, lane) __builtin_shufflevector(v, v, lane, lane, lane, lane)

// 4x8 times 8x8. The rows lie inside the loop over k, so that their sums do not wait for one
// another.
static inline void mac_4x8x8(uint8_t * out, const uint8_t * acc, const uint8_t * x,
                             const uint8_t * y, bool x_signed, bool y_signed) {
    v4u sum[8] = {{0}};
    v4i a[8], b[16];
    if (acc) {
        memcpy(sum, acc, sizeof(sum));
    }
    for (int i = 0; i < 2; i++) {
        load_8(a + 4 * i, x + 16 * i, x_signed);
    }
    for (int i = 0; i < 4; i++) {
        load_8(b + 4 * i, y + 16 * i, y_signed);
    }
#define STEP(k)                                                                                    \
    for (int r = 0; r < 4; r++) {                                                                  \
        v4i v = SPLAT(a[2 * r + (k) / 4], (k) % 4);                                                \
        sum[2 * r] += (v4u) (v * b[2 * (k)]);                                                      \
        sum[2 * r + 1] += (v4u) (v * b[2 * (k) + 1]);                                              \
    }
    EACH_K(STEP);
#undef STEP
    memcpy(out, sum, sizeof(sum));
}

// Products of 16 bits, sums of 64.
static inline void add_products(v4l * sum, v4i x, v4i y) {
    *sum += __builtin_convertvector(x * y, v4l);
}

// 4x4 times 4x4, or with `wide` 2x4 times 4x8: then a row is two vectors of y and of the sum.
static inline void mac_64(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y,
                          bool wide) {
    v4i a[8], b[8];
    load_16(a, x);
    load_16(b, y);
    for (int i = 0; i < 4; i++) {
        v4l sum = {0};
        v4i row = wide ? a[i / 2] : a[i];
        const v4i * column = wide ? b + i % 2 : b;
        int step = wide ? 2 : 1;
        if (acc) {
            memcpy(&sum, acc + 32 * i, sizeof(sum));
        }
        add_products(&sum, SPLAT(row, 0), column[0]);
        add_products(&sum, SPLAT(row, 1), column[step]);
        add_products(&sum, SPLAT(row, 2), column[2 * step]);
        add_products(&sum, SPLAT(row, 3), column[3 * step]);
        memcpy(out + 32 * i, &sum, sizeof(sum));
    }
}

// 4x2 times 2x8: two rows of x stand in one vector.
static inline void mac_4x2x8(uint8_t * out, const uint8_t * acc, const uint8_t * x,
                             const uint8_t * y) {
    v4i a[8], b[8];
    load_16(a, x);
    load_16(b, y);
    for (int i = 0; i < 8; i++) {
        v4u sum = {0};
        v4i rows = a[i / 4];
        if (acc) {
            memcpy(&sum, acc + 16 * i, sizeof(sum));
        }
        v4i x0 = i / 2 % 2 ? SPLAT(rows, 2) : SPLAT(rows, 0);
        v4i x1 = i / 2 % 2 ? SPLAT(rows, 3) : SPLAT(rows, 1);
        sum += (v4u) (x0 * b[i % 2]) + (v4u) (x1 * b[2 + i % 2]);
        memcpy(out + 16 * i, &sum, sizeof(sum));
    }
}

// The four ways, on a host with wide vectors or without.
static void mac_i8(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y,
                   bool x_signed, bool y_signed) {
#if SEM_X86 && !defined(SEM_PLAIN)
    if (sem_x86_has_256()) {
        sem_x86_256_i8_4x8x8(out, acc, x, y, x_signed, y_signed);
        return;
    }
#endif
    if (x_signed && y_signed) {
        mac_4x8x8(out, acc, x, y, true, true);
    } else {
        mac_4x8x8(out, acc, x, y, x_signed, y_signed);
    }
}

static void mac_i16_64(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y,
                       bool wide) {
#if SEM_X86 && !defined(SEM_PLAIN)
    if (sem_x86_has_256()) {
        sem_x86_256_i16_64(out, acc, x, y, wide);
        return;
    }
#endif
    if (wide) {
        mac_64(out, acc, x, y, true);
    } else {
        mac_64(out, acc, x, y, false);
    }
}

static void mac_i16_32(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y) {
#if SEM_X86 && !defined(SEM_PLAIN)
    if (sem_x86_has_256()) {
        sem_x86_256_i16_4x2x8(out, acc, x, y);
        return;
    }
#endif
    mac_4x2x8(out, acc, x, y);
}

bool sem_mac_int(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y,
                 uint32_t conf) {
    if (conf & ~(uint32_t) CONF_PLAIN_BITS) {
        return false;
    }
    acc = conf & CONF_ZERO_ACC1 ? NULL : acc;
    bool both_signed = conf & CONF_SIGN_X && conf & CONF_SIGN_Y;
    switch (CONF_MODE(conf)) {
    case MODE(0, 1, 0):
        mac_i8(out, acc, x, y, conf & CONF_SIGN_X, conf & CONF_SIGN_Y);
        return true;
    case MODE(0, 3, 0):
        if (both_signed) {
            mac_i16_32(out, acc, x, y);
        }
        return both_signed;
    case MODE(1, 1, 0):
    case MODE(1, 3, 0):
        if (both_signed) {
            mac_i16_64(out, acc, x, y, true);
        }
        return both_signed;
    case MODE(1, 1, 1):
    case MODE(1, 3, 1):
        if (both_signed) {
            mac_i16_64(out, acc, x, y, false);
        }
        return both_signed;
    default:
        return false;
    }
}

// s1, s2 NULL: accumulators only.
static bool accumulate(struct core_exec * x, const uint8_t * acc1, const uint8_t * acc2,
                       const uint8_t * s1, const uint8_t * s2, uint32_t conf, bool sparse) {
    union {
        uint32_t lanes32[32];
        uint64_t lanes64[16];
    } sum;
    uint32_t amode = conf >> 1 & 3;
    bool wide = amode == 1, any = false;
    if (s1 && !acc2 && sem_mac_int(x->out[0], acc1, s1, s2, conf)) {
        return true;
    }
    if (s1) {
        const struct mac_mode * m = &modes[CONF_MODE(conf)];
        uint32_t variant = conf >> 5 & 7;
        // Float modes on the integer multiplier: silicon makes something of them, unknown what.
        if (amode >= 2 && (variant < 2 || (variant == 2 && sparse))) {
            return false;
        }
        if (m->layout != NOTHING && (m->layout != SPARSE || sparse)) {
            any = true;
            if (!products(m, conf, s1, s2, wide, sum.lanes32, sum.lanes64)) {
                return false;
            }
        }
    }
    if (!any) {
        memset(&sum, 0, sizeof(sum));
    }
    if (wide) {
        combine64(x->out[0], acc1, acc2, sum.lanes64, conf);
    } else {
        combine32(x->out[0], acc1, acc2, sum.lanes32, conf);
    }
    return true;
}

// ---- records: operands in the order dst, [acc1], [acc2], s1, s2, conf ----

#define CONF(i) load_u32(x->in[i])

#define MUL_FN(name, flips, sparse)                                                                \
    static bool name(struct core_exec * x) {                                                       \
        return accumulate(x, NULL, NULL, x->in[1], x->in[2], CONF(3) ^ (flips), sparse);           \
    }
#define MAC_FN(name, flips, sparse)                                                                \
    static bool name(struct core_exec * x) {                                                       \
        return accumulate(x, x->in[1], NULL, x->in[2], x->in[3], CONF(4) ^ (flips), sparse);       \
    }
// dst is acc1 as well
#define ADDMAC_FN(name, flips, sparse)                                                             \
    static bool name(struct core_exec * x) {                                                       \
        return accumulate(x, x->in[0], x->in[1], x->in[2], x->in[3], CONF(4) ^ (flips), sparse);   \
    }
#define ADD_FN(name, flips)                                                                        \
    static bool name(struct core_exec * x) {                                                       \
        return accumulate(x, x->in[1], x->in[2], NULL, NULL, CONF(3) ^ (flips), false);            \
    }

#define PAIR(FN, name, flips) FN(name, flips, false) FN(name##_sparse, flips, true)

PAIR(MUL_FN, vmul, 0)
PAIR(MUL_FN, vnegmul, CONF_NEG_MUL)
PAIR(MAC_FN, vmac, 0)
PAIR(MAC_FN, vmsc, CONF_NEG_MUL)
PAIR(MAC_FN, vnegmac, CONF_NEG_MUL | CONF_NEG_ACC1)
PAIR(MAC_FN, vnegmsc, CONF_NEG_ACC1)
PAIR(ADDMAC_FN, vaddmac, 0)
PAIR(ADDMAC_FN, vaddmsc, CONF_NEG_MUL)
PAIR(ADDMAC_FN, vsubmac, CONF_NEG_ACC2)
PAIR(ADDMAC_FN, vsubmsc, CONF_NEG_ACC2 | CONF_NEG_MUL)
ADD_FN(vadd, 0)
ADD_FN(vsub, CONF_NEG_ACC2)
ADD_FN(vnegadd, CONF_NEG_ACC1 | CONF_NEG_ACC2)
ADD_FN(vnegsub, CONF_NEG_ACC1)

static bool vneg(struct core_exec * x) {
    return accumulate(x, x->in[1], NULL, NULL, NULL, CONF(2) ^ CONF_NEG_ACC1, false);
}

#define ROWS(NAME, core, name)                                                                     \
    {NAME "_vmac_" core "_core_dense", name}, {NAME "_vmac_cm_core_sparse_narrow", name##_sparse}, \
    {                                                                                              \
        NAME "_vmac_cm_core_sparse_wide", name##_sparse                                            \
    }

static const struct core_semantic rows[] = {
    ROWS("VMUL", "cm", vmul),
    ROWS("VNEGMUL", "cm", vnegmul),
    ROWS("VMAC", "cm", vmac),
    ROWS("VMSC", "cm", vmsc),
    ROWS("VNEGMAC", "cm", vnegmac),
    ROWS("VNEGMSC", "cm", vnegmsc),
    ROWS("VADDMAC", "bm", vaddmac),
    ROWS("VADDMSC", "bm", vaddmsc),
    ROWS("VSUBMAC", "bm", vsubmac),
    ROWS("VSUBMSC", "bm", vsubmsc),
    {"VADD", vadd},
    {"VSUB", vsub},
    {"VNEGADD", vnegadd},
    {"VNEGSUB", vnegsub},
    {"VNEG", vneg},
};

const struct sem_family sem_macs = SEM_FAMILY(rows);
