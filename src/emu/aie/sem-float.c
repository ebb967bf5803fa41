// sem-float: the floating point adder of the accumulator, and everything that goes through it:
// vadd.f and family, vmul.f / vmac.f and family.
//
// The adder is not IEEE 754. All terms of a lane (up to two fp32 accumulators and all bf16
// products) are aligned to the largest exponent among the non-zero ones, each rounded to nearest
// even at 23 fraction bits of that exponent, added as integers, and the sum is normalised and
// rounded to nearest even once more. Denormal inputs count; a denormal result becomes zero with the
// sign of the sum. Exponent 255 runs through the same adder: a NaN term only forces exponent 255
// and mantissa bit 0 of the result, so that its payload is what the adder made of it. (Silicon also
// knows a state in which the payload of vadd.f is always 1; what selects it is unknown.)
//
// Kept true: sem_fp32_add and sem_bf16_mac spell the rule out, one lane at a time; the lane loops
// of the instructions give the same bits, fast.
#include "emu/aie/sem-v4.h"
#include "emu/aie/sem.h"

#include <string.h>

enum { LANES = 16, NO_EXP = -20000 }; // NO_EXP: a zero term; never the largest exponent

// ---- the rule, one lane at a time ----

struct term {
    int64_t mantissa; // signed, 23 fraction bits
    int exponent;     // biased as in fp32
};

struct specials {
    bool nan, pos_inf, neg_inf;
};

static struct term fp32_term(uint32_t v, struct specials * sp) {
    int e = (int) (v >> 23 & 255);
    int64_t m = (int64_t) (v & 0x7fffff) | (e ? 0x800000 : 0);
    if (e == 255) {
        sp->nan |= (v & 0x7fffff) != 0;
        sp->pos_inf |= (v << 1) == 0xff000000u && !(v >> 31);
        sp->neg_inf |= (v << 1) == 0xff000000u && v >> 31;
    }
    return (struct term){v >> 31 ? -m : m, m == 0 ? NO_EXP : e ? e : 1};
}

static struct term bf16_product(uint16_t x, uint16_t y, struct specials * sp) {
    int ex = x >> 7 & 255, ey = y >> 7 & 255;
    int mx = (x & 127) | (ex ? 128 : 0), my = (y & 127) | (ey ? 128 : 0);
    bool negative = (x ^ y) >> 15;
    bool x_inf = ex == 255 && mx == 128, y_inf = ey == 255 && my == 128;
    sp->nan |= (ex == 255 && !x_inf) || (ey == 255 && !y_inf);
    if (x_inf || y_inf) { // not seen on silicon
        sp->nan |= mx == 0 || my == 0;
        sp->pos_inf |= !negative;
        sp->neg_inf |= negative;
    }
    int64_t m = (int64_t) (mx * my) << 9;
    return (struct term){negative ? -m : m, m == 0 ? NO_EXP : (ex ? ex : 1) + (ey ? ey : 1) - 127};
}

// v * 2^-d, to nearest even.
static int64_t shift_even(int64_t v, int d) {
    if (d > 40) {
        return 0;
    }
    return (2 * v + ((int64_t) 1 << d) - 1 + ((v >> d) & 1)) >> (d + 1);
}

static uint32_t apply_specials(uint32_t r, struct specials sp) {
    if (sp.nan || (sp.pos_inf && sp.neg_inf)) {
        // Without a NaN input the mantissa of the sum does not show.
        return (sp.nan && !(sp.pos_inf && sp.neg_inf) ? r : r & 0x80000000) | 0x7f800001;
    }
    if (sp.pos_inf || sp.neg_inf) {
        return sp.neg_inf ? 0xff800000 : 0x7f800000;
    }
    return r;
}

static uint32_t sum_terms(const struct term * t, int n, struct specials sp) {
    int top = NO_EXP;
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        top = t[i].exponent > top ? t[i].exponent : top;
    }
    for (int i = 0; i < n; i++) {
        sum += t[i].mantissa ? shift_even(t[i].mantissa, top - t[i].exponent) : 0;
    }
    uint32_t sign = sum < 0 ? 0x80000000 : 0;
    uint64_t m = (uint64_t) (sum < 0 ? -sum : sum);
    uint32_t r = 0;
    if (m) {
        int up = 0;
        while (m >> up >= 0x1000000) {
            up++;
        }
        m = (uint64_t) shift_even((int64_t) m, up);
        top += up;
        if (m == 0x1000000) {
            m >>= 1;
            top++;
        }
        while (m < 0x800000) {
            m <<= 1;
            top--;
        }
        r = sign | (top >= 255 ? 0x7f800000 : top <= 0 ? 0 : (uint32_t) top << 23 | (m & 0x7fffff));
    }
    return apply_specials(r, sp);
}

uint32_t sem_fp32_add(uint32_t a, uint32_t b) {
    struct specials sp = {0};
    struct term t[2] = {fp32_term(a, &sp), fp32_term(b, &sp)};
    return sum_terms(t, 2, sp);
}

uint32_t sem_bf16_mac(const uint16_t * x, const uint16_t * y, int n, uint32_t acc1, uint32_t acc2) {
    struct specials sp = {0};
    struct term t[18];
    t[0] = fp32_term(acc1, &sp);
    t[1] = fp32_term(acc2, &sp);
    for (int i = 0; i < n; i++) {
        t[2 + i] = bf16_product(x[i], y[i], &sp);
    }
    return sum_terms(t, 2 + n, sp);
}

// ---- the rule, sixteen lanes at a time ----

// Loops over LANES without calls or branches, for the compiler to turn into vector code.

// To nearest even at 2^d, d >= 0. |v| < 2^26, so that from d = 28 on nothing is left of it.
static inline int32_t align(int32_t v, int32_t d) {
    d = d > 28 ? 28 : d;
    return (2 * v + (1 << d) - 1 + (v >> d & 1)) >> (d + 1);
}

// The conversion from integer normalises and rounds to nearest even, as the adder does.
static inline uint32_t normalise(int32_t sum, int32_t top) {
    float f = (float) sum;
    uint32_t r;
    memcpy(&r, &f, 4);
    int32_t e = (int32_t) (r >> 23 & 255) + top - 150;
    uint32_t v = (r & 0x7fffff) | (uint32_t) e << 23;
    v = e <= 0 ? 0 : v;
    v = e >= 255 ? 0x7f800000 : v;
    return sum == 0 ? 0 : v | (r & 0x80000000);
}

// Mantissa with its sign, and exponent, of one fp32 lane.
static inline int32_t mantissa_of(uint32_t v) {
    int32_t m = (int32_t) (v & 0x7fffff) | ((v & 0x7f800000) != 0) << 23;
    int32_t negative = -(int32_t) (v >> 31); // all ones or zero
    return (m ^ negative) - negative;
}

static inline int32_t exponent_of(uint32_t v) {
    int32_t e = (int32_t) (v >> 23 & 255);
    return e + (e == 0) + ((v << 1) == 0) * NO_EXP;
}

#define SIGN 0x80000000u

// Two terms need no integers: the host's adder aligns as ours does when it adds the smaller
// magnitude to the power of two below the larger one, and what is then left to add is exact but for
// the one rounding that both make. Exponents 254 and 255 would overflow on the way: those lanes go
// by the rule.
static inline v4i add4(v4i a, v4i b, v4i * special) {
    v4i ma = a & MAGNITUDE, mb = b & MAGNITUDE, first = ma > mb;
    v4i big = select4(first, ma, mb), small = ma ^ mb ^ big, power = big & EXPONENT;
    v4i aligned = (v4i) (((v4f) small + (v4f) power) - (v4f) power);
    aligned = select4(small < power, aligned, small); // same exponent: nothing to align
    v4i r = (v4i) ((v4f) big + (v4f) (aligned | ((a ^ b) & INT32_MIN)));
    *special |= power >= 0x7f000000;
    return (r & (r >= SMALLEST)) | (select4(first, a, b) & INT32_MIN & (r != 0));
}

static void add_special(uint8_t * out, const uint8_t * a, const uint8_t * b, uint32_t flip_a,
                        uint32_t flip_b) {
    for (int i = 0; i < LANES; i++) {
        uint32_t va = a ? load_u32(a + 4 * i) : 0, vb = b ? load_u32(b + 4 * i) : 0;
        store_u32(out + 4 * i, sem_fp32_add(va ^ flip_a, vb ^ flip_b));
    }
}

// Sixteen lanes; NULL is zero.
static inline void add_lanes(uint8_t * out, const uint8_t * a, const uint8_t * b, uint32_t flip_a,
                             uint32_t flip_b) {
    v4i sum[4], special = {0};
    for (int i = 0; i < 4; i++) {
        v4i va = {0}, vb = {0};
        if (a) {
            memcpy(&va, a + 16 * i, sizeof(va));
        }
        if (b) {
            memcpy(&vb, b + 16 * i, sizeof(vb));
        }
        sum[i] = add4(va ^ (int32_t) flip_a, vb ^ (int32_t) flip_b, &special);
    }
    if (special[0] | special[1] | special[2] | special[3]) {
        add_special(out, a, b, flip_a, flip_b);
        return;
    }
    memcpy(out, sum, sizeof(sum));
}

void sem_fp32_add_lanes(uint8_t * dst, const uint8_t * a, const uint8_t * b, int lanes,
                        uint32_t flip_a, uint32_t flip_b) {
    for (int at = 0; at < lanes; at += LANES) {
        uint8_t va[4 * LANES] = {0}, vb[4 * LANES] = {0}, out[4 * LANES];
        size_t n = (size_t) (lanes - at < LANES ? lanes - at : LANES) * 4;
        memcpy(va, a + 4 * at, n);
        memcpy(vb, b + 4 * at, n);
        add_lanes(out, va, vb, flip_a, flip_b);
        memcpy(dst + 4 * at, out, n);
    }
}

// ---- products ----

enum { MAX_K = 8 };

struct bf16_parts {
    int32_t mantissa[32], exponent[32], special[32]; // special: exponent 255
};

// Shaped for vector code: no branches.
static inline void split_bf16(struct bf16_parts * t, const uint16_t * v) {
    for (int i = 0; i < 32; i++) {
        int32_t u = v[i], e = u >> 7 & 255;
        int32_t m = (u & 127) | (e != 0) << 7;
        int32_t negative = -(u >> 15); // all ones or zero
        t->mantissa[i] = (m ^ negative) - negative;
        t->exponent[i] = e + (e == 0) + (m == 0) * NO_EXP;
        t->special[i] = e == 255;
    }
}

// Which of a lane's terms are no numbers, as bits.
enum { TERM_NAN = 1, TERM_POS_INF = 2, TERM_NEG_INF = 4, BF16_INF = 0x7f80 };

static inline int32_t product_specials(uint16_t x, uint16_t y) {
    int32_t mx = x & 0x7fff, my = y & 0x7fff;
    int32_t inf = (mx == BF16_INF) | (my == BF16_INF);
    int32_t nan = (mx > BF16_INF) | (my > BF16_INF) | (inf & ((mx == 0) | (my == 0)));
    return nan * TERM_NAN | inf * ((x ^ y) >> 15 ? TERM_NEG_INF : TERM_POS_INF);
}

static inline int32_t acc_specials(uint32_t v) {
    uint32_t magnitude = v & ~SIGN;
    int32_t nan = magnitude > EXPONENT, inf = magnitude == EXPONENT;
    return nan * TERM_NAN | inf * (v >> 31 ? TERM_NEG_INF : TERM_POS_INF);
}

// The sums of lanes with such terms, as the rule has them.
static void mac_special(uint32_t out[LANES], const uint32_t * acc1, const uint32_t * acc2,
                        const uint16_t * x, const uint16_t * y, int layout) {
    int32_t has[LANES];
    for (int i = 0; i < LANES; i++) {
        has[i] = acc_specials(acc1[i]) | acc_specials(acc2[i]);
    }
    for (int k = 0; k < (layout == 0 ? 8 : 2); k++) {
        for (int i = 0; i < LANES; i++) {
            int ix = layout == 0 ? 8 * (i / 4) + k : 16 * k + i;
            int iy = layout == 0 ? 4 * k + i % 4 : 16 * k + i;
            has[i] |= product_specials(x[ix], y[iy]);
        }
    }
    for (int i = 0; i < LANES; i++) {
        out[i] = apply_specials(out[i], (struct specials){.nan = has[i] & TERM_NAN,
                                                          .pos_inf = has[i] & TERM_POS_INF,
                                                          .neg_inf = has[i] & TERM_NEG_INF});
    }
}

// Adds the aligned products to the accumulators; layout 0: 4x8 times 8x4, layout 1: lane by lane,
// two products each. Infinities and NaN go through the same adder and are looked at behind it, for
// padding is full of them.
static void mac_lanes(uint32_t * restrict out, const uint32_t * restrict acc1,
                      const uint32_t * restrict acc2, const uint16_t * x, const uint16_t * y,
                      int layout) {
    struct bf16_parts px, py;
    int32_t p[MAX_K][LANES], e[MAX_K][LANES], sum[LANES], top[LANES], special[LANES];
    int n = layout == 0 ? 8 : 2;
    split_bf16(&px, x);
    split_bf16(&py, y);
    for (int i = 0; i < LANES; i++) {
        int32_t ea = exponent_of(acc1[i]), eb = exponent_of(acc2[i]);
        top[i] = ea > eb ? ea : eb;
        special[i] = top[i] == 255;
    }
    if (layout == 0) {
        for (int k = 0; k < 8; k++) {
            for (int r = 0; r < 4; r++) {
                int32_t mx = px.mantissa[8 * r + k] * 512, ex = px.exponent[8 * r + k] - 127;
                for (int c = 0; c < 4; c++) {
                    p[k][4 * r + c] = mx * py.mantissa[4 * k + c];
                    e[k][4 * r + c] = ex + py.exponent[4 * k + c];
                    special[4 * r + c] |= px.special[8 * r + k] | py.special[4 * k + c];
                }
            }
        }
    } else {
        for (int k = 0; k < n; k++) {
            for (int i = 0; i < LANES; i++) {
                p[k][i] = px.mantissa[16 * k + i] * py.mantissa[16 * k + i] * 512;
                e[k][i] = px.exponent[16 * k + i] + py.exponent[16 * k + i] - 127;
                special[i] |= px.special[16 * k + i] | py.special[16 * k + i];
            }
        }
    }
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < LANES; i++) {
            top[i] = e[k][i] > top[i] ? e[k][i] : top[i];
        }
    }
    for (int i = 0; i < LANES; i++) {
        sum[i] = align(mantissa_of(acc1[i]), top[i] - exponent_of(acc1[i])) +
                 align(mantissa_of(acc2[i]), top[i] - exponent_of(acc2[i]));
    }
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < LANES; i++) {
            sum[i] += align(p[k][i], top[i] - e[k][i]);
        }
    }
    int32_t any = 0;
    for (int i = 0; i < LANES; i++) {
        out[i] = normalise(sum[i], top[i]);
        any |= special[i];
    }
    if (any) {
        mac_special(out, acc1, acc2, x, y, layout);
    }
}

// ---- instructions ----

enum {
    CONF_BF16 = 2 << 1 | 3 << 3, // amode 2, bmode 3; with any of these: what programs use
    CONF_PLAIN_BITS = CONF_ZERO_ACC1 | 1 << 5 | CONF_NEG_MUL | CONF_NEG_ACC1,
};

// shift works on the bits of the lane, as it does for integers.
static void load_acc(uint32_t v[LANES], const uint8_t * acc, bool zero, int shift, bool negate) {
    if (!acc || zero) {
        memset(v, 0, LANES * 4);
        return;
    }
    memcpy(v, acc, LANES * 4);
    for (int i = 0; i < LANES; i++) {
        v[i] = v[i] << shift ^ (negate ? 0x80000000 : 0);
    }
}

// Bit of the product mask that negates y[k][c].
static void negate_products(uint16_t y[32], uint32_t conf, int layout) {
    uint32_t mask = conf >> 16 & 255;
    int cols = layout == 0 ? 4 : 16;
    if (!(conf & CONF_NEG_MUL) && !mask) {
        return;
    }
    for (int i = 0; i < 32; i++) {
        int k = i / cols, c = i % cols;
        bool flip = (mask >> ((k & 3) + 4 * (c & 1)) & 1) != ((conf & CONF_NEG_MUL) != 0);
        y[i] ^= flip ? 0x8000 : 0;
    }
}

static void flip_signs(uint8_t * out, const uint8_t * v, uint32_t signs) {
    for (int i = 0; i < 64; i += 4) {
        store_u32(out + i, load_u32(v + i) ^ signs);
    }
}

bool sem_mac_bf16(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y,
                  uint32_t conf) {
    uint8_t flipped_acc[64], flipped_y[64];
    if (conf == CONF_BF16) { // that of inner loops
        return sem_bf16_mac_4x8x4(out, acc, x, y);
    }
    if ((conf & ~(uint32_t) CONF_PLAIN_BITS) != CONF_BF16) {
        return false;
    }
    acc = conf & CONF_ZERO_ACC1 ? NULL : acc;
    if (conf & CONF_NEG_ACC1 && acc) {
        flip_signs(flipped_acc, acc, SIGN);
        acc = flipped_acc;
    }
    if (conf & CONF_NEG_MUL) {
        flip_signs(flipped_y, y, 0x80008000);
        y = flipped_y;
    }
    return conf >> 5 & 1 ? sem_bf16_mac_pairs(out, acc, x, y) : sem_bf16_mac_4x8x4(out, acc, x, y);
}

// What silicon was seen to do otherwise, or was hardly seen to do at all, is refused: no program
// asks for it. A shift of acc1 in the adder alone or beside an integer mode: with 64-bit lanes the
// shift carries from lane to lane, and in mode 0/2/1 the result has bits of unknown origin. The
// sparse forms in an integer mode. All of it only where acc1 counts.
static bool is_known(const struct core_exec * x, bool products, bool acc1, uint32_t conf) {
    bool integer = (conf >> 1 & 3) < 2;
    if (!acc1 || conf & CONF_ZERO_ACC1) {
        return true;
    }
    if (conf & CONF_SHIFT16 && (!products || integer)) {
        return false;
    }
    return !(products && integer && strstr(x->instr->name, "_sparse_"));
}

// s1 NULL: accumulators only. srFPFlags are not modelled: they read as clear.
static bool accumulate(struct core_exec * x, const uint8_t * acc1, const uint8_t * acc2,
                       const uint8_t * s1, const uint8_t * s2, uint32_t conf) {
    uint32_t a[LANES], b[LANES], out[LANES];
    uint32_t amode = conf >> 1 & 3, variant = conf >> 5 & 7;
    if (s1 && !acc2 && sem_mac_bf16(x->out[0], acc1, s1, s2, conf)) {
        return true;
    }
    if (!s1 && !(conf & CONF_SHIFT16)) {
        add_lanes(x->out[0], conf & CONF_ZERO_ACC1 ? NULL : acc1, acc2,
                  conf & CONF_NEG_ACC1 ? SIGN : 0, conf & CONF_NEG_ACC2 ? SIGN : 0);
        return true;
    }
    if (!is_known(x, s1 != NULL, acc1 != NULL, conf)) {
        return false;
    }
    load_acc(a, acc1, conf & CONF_ZERO_ACC1, conf & CONF_SHIFT16 ? 16 : 0, conf & CONF_NEG_ACC1);
    load_acc(b, acc2, false, 0, conf & CONF_NEG_ACC2);
    if (s1 && amode >= 2 && variant <= 1) {
        uint16_t vx[32], vy[32];
        memcpy(vx, s1, 64);
        memcpy(vy, s2, 64);
        negate_products(vy, conf, (int) variant);
        mac_lanes(out, a, b, vx, vy, (int) variant);
    } else if (s1 && amode >= 2 && variant == 2 && strstr(x->instr->name, "_sparse_")) {
        return false; // sparse products are not known; a dense form multiplies nothing in this mode
    } else {
        add_lanes((uint8_t *) out, (const uint8_t *) a, (const uint8_t *) b, 0, 0);
    }
    memcpy(x->out[0], out, sizeof(out));
    sem_status(x, 0);
    return true;
}

// Operands in the order dst, [acc1], [acc2], s1, s2, conf.
#define CONF(i) load_u32(x->in[i])

#define MUL_FN(name, flips)                                                                        \
    static bool name(struct core_exec * x) {                                                       \
        return accumulate(x, NULL, NULL, x->in[1], x->in[2], CONF(3) ^ (flips));                   \
    }
#define MAC_FN(name, flips)                                                                        \
    static bool name(struct core_exec * x) {                                                       \
        return accumulate(x, x->in[1], NULL, x->in[2], x->in[3], CONF(4) ^ (flips));               \
    }
// dst is acc1 as well
#define ADDMAC_FN(name, flips)                                                                     \
    static bool name(struct core_exec * x) {                                                       \
        return accumulate(x, x->in[0], x->in[1], x->in[2], x->in[3], CONF(4) ^ (flips));           \
    }
#define ADD_FN(name, flips)                                                                        \
    static bool name(struct core_exec * x) {                                                       \
        return accumulate(x, x->in[1], x->in[2], NULL, NULL, CONF(3) ^ (flips));                   \
    }

MUL_FN(vmul_f, 0)
MUL_FN(vnegmul_f, CONF_NEG_MUL)
MAC_FN(vmac_f, 0)
MAC_FN(vmsc_f, CONF_NEG_MUL)
ADDMAC_FN(vaddmac_f, 0)
ADDMAC_FN(vaddmsc_f, CONF_NEG_MUL)
ADD_FN(vadd_f, 0)
ADD_FN(vsub_f, CONF_NEG_ACC2)
ADD_FN(vnegadd_f, CONF_NEG_ACC1 | CONF_NEG_ACC2)
ADD_FN(vnegsub_f, CONF_NEG_ACC1)

static bool vneg_f(struct core_exec * x) {
    return accumulate(x, x->in[1], NULL, NULL, NULL, CONF(2) ^ CONF_NEG_ACC1);
}

// In a dense mode the sparse forms multiply the same registers and ignore the sparsity mask.
#define ROWS(NAME, name)                                                                           \
    {NAME "_vmac_bm_core_dense", name}, {NAME "_vmac_bm_core_sparse_narrow", name}, {              \
        NAME "_vmac_bm_core_sparse_wide", name                                                     \
    }

static const struct core_semantic rows[] = {
    ROWS("VMUL_F", vmul_f),   ROWS("VNEGMUL_F", vnegmul_f), ROWS("VMAC_F", vmac_f),
    ROWS("VMSC_F", vmsc_f),   ROWS("VADDMAC_F", vaddmac_f), ROWS("VADDMSC_F", vaddmsc_f),
    {"VADD_F", vadd_f},       {"VSUB_F", vsub_f},           {"VNEGADD_F", vnegadd_f},
    {"VNEGSUB_F", vnegsub_f}, {"VNEG_F", vneg_f},
};

const struct sem_family sem_floats = SEM_FAMILY(rows);
