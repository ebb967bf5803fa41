// sem-float-aie2p: floating point on the 2048-bit accumulators of aie2p: vadd.f and family on 64
// lanes, vmul.f / vmac.f of bf16 lane by lane, products of block floats (bfp16ebs8), and the
// special functions whose law is known.
//
// The last bit of the adder is disputed: AMD's manual describes the aligned sum that was measured
// on aie2, AMD's functional simulator rounds as IEEE 754 does, and nobody has published a
// measurement. core_adds_ieee() says which of the two this core follows; both agree whenever the
// exact sum fits into 24 bits. Of a block product the sum over the eight elements is exact and
// counts as one term: in which order silicon aligns very small ones is not known.
#include "emu/aie/sem.h"

#include <math.h>
#include <string.h>

enum {
    CONF_SIGNS = 3 << 8,                     // of integers: do not matter here
    CONF_ELEMENT = 2 << 1 | 3 << 3 | 1 << 5, // amode 2, bmode 3, variant 1
    CONF_BLOCK = 2 << 1 | 1 << 3,            // amode 2, bmode 1, variant 0
    CONF_OTHERS = CONF_ZERO_ACC1 | CONF_SIGNS | CONF_NEG_MUL | CONF_NEG_ACC1 | CONF_NEG_ACC2,
};

enum { LANES = 64, DM_BYTES = 4 * LANES };
#define SIGN 0x80000000u

// ---- sums of two accumulators ----

static void add_ieee(uint8_t * out, const uint8_t * a, const uint8_t * b, uint32_t flip_a,
                     uint32_t flip_b) {
    for (int i = 0; i < LANES; i++) {
        uint32_t ua = load_u32(a + 4 * i) ^ flip_a, ub = load_u32(b + 4 * i) ^ flip_b, u;
        float fa, fb;
        memcpy(&fa, &ua, 4);
        memcpy(&fb, &ub, 4);
        float f = fa + fb;
        memcpy(&u, &f, 4);
        // -0 + -0 is +0 here too, and a NaN has payload 1
        u = (u & 0x7fffffff) > 0x7f800000 ? (u & SIGN) | 0x7f800001 : u == SIGN ? 0 : u;
        store_u32(out + 4 * i, u);
    }
}

// NULL is zero.
static void add(struct core_exec * x, uint8_t * out, const uint8_t * a, const uint8_t * b,
                uint32_t conf) {
    static const uint8_t zero[DM_BYTES];
    uint32_t flip_a = conf & CONF_NEG_ACC1 ? SIGN : 0, flip_b = conf & CONF_NEG_ACC2 ? SIGN : 0;
    a = a && !(conf & CONF_ZERO_ACC1) ? a : zero;
    b = b ? b : zero;
    if (core_adds_ieee(x->core)) {
        add_ieee(out, a, b, flip_a, flip_b);
    } else {
        sem_fp32_add_lanes(out, a, b, LANES, flip_a, flip_b);
    }
}

// A product that fp32 cannot hold is less than any sum, but not nothing: where the sum is zero it
// has the sign of that product. `tiny` are the lanes with a negative one, a bit each.
static void keep_signs(uint8_t * out, uint64_t tiny) {
    for (; tiny; tiny &= tiny - 1) {
        uint8_t * lane = out + 4 * __builtin_ctzll(tiny);
        store_u32(lane, load_u32(lane) ? load_u32(lane) : SIGN);
    }
}

// ---- products, lane by lane ----

// n of the 64 lanes have a product, the others none. Returns those that are too small for fp32 and
// negative.
static uint64_t element_products(uint8_t * out, const uint8_t * s1, const uint8_t * s2, int n,
                                 uint32_t flip) {
    uint64_t tiny = 0;
    for (int i = 0; i < n; i++) {
        uint16_t a, b;
        float fa, fb;
        memcpy(&a, s1 + 2 * i, 2);
        memcpy(&b, s2 + 2 * i, 2);
        uint32_t ua = (uint32_t) a << 16, ub = (uint32_t) b << 16 ^ flip;
        memcpy(&fa, &ua, 4);
        memcpy(&fb, &ub, 4);
        float f = fa * fb; // exact, unless it leaves the range
        memcpy(out + 4 * i, &f, 4);
        bool lost = f == 0 && fa != 0 && fb != 0;
        tiny |= (uint64_t) (lost && (ua ^ ub) >> 31) << i;
    }
    memset(out + 4 * n, 0, (size_t) (DM_BYTES - 4 * n));
    return tiny;
}

static bool mac_elements(struct core_exec * x, const uint8_t * acc1, const uint8_t * acc2,
                         const uint8_t * s1, const uint8_t * s2, int n, uint32_t conf) {
    if ((conf & ~(uint32_t) CONF_OTHERS) != CONF_ELEMENT) {
        return false;
    }
    uint32_t flip = conf & CONF_NEG_MUL ? SIGN : 0;
    if (core_adds_ieee(x->core)) {
        uint8_t product[DM_BYTES], sum[DM_BYTES];
        uint64_t tiny = element_products(product, s1, s2, n, flip);
        if (acc2) {
            add(x, sum, acc1, acc2, conf);
            add(x, x->out[0], sum, product, 0);
        } else {
            add(x, x->out[0], acc1, product, conf & ~(uint32_t) CONF_NEG_ACC2);
        }
        keep_signs(x->out[0], tiny);
        return true;
    }
    if (!acc1 && !acc2) {
        sem_bf16_mac_lanes(x->out[0], NULL, s1, s2, LANES, n, flip);
        return true;
    }
    uint32_t a[LANES] = {0}, b[LANES];
    uint16_t vx[LANES] = {0}, vy[LANES] = {0};
    if (acc1 && !(conf & CONF_ZERO_ACC1)) {
        memcpy(a, acc1, sizeof a);
    }
    memcpy(vx, s1, 2 * (size_t) n);
    memcpy(vy, s2, 2 * (size_t) n);
    for (int i = 0; i < LANES; i++) {
        a[i] ^= conf & CONF_NEG_ACC1 ? SIGN : 0;
        vy[i] ^= conf & CONF_NEG_MUL ? 0x8000 : 0;
    }
    for (int i = 0; acc2 && i < LANES; i++) {
        b[i] = load_u32(acc2 + 4 * i) ^ (conf & CONF_NEG_ACC2 ? SIGN : 0);
    }
    sem_bf16_mac_elements((uint32_t *) (void *) x->out[0], a, acc2 ? b : NULL, vx, vy, LANES);
    return true;
}

// The short way of the same, for products that are added or subtracted; `out` may be `acc`.
static bool mac_short(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y,
                      int n, uint32_t conf) {
    if ((conf & ~(uint32_t) (CONF_ZERO_ACC1 | CONF_SIGNS | CONF_NEG_MUL)) != CONF_ELEMENT) {
        return false;
    }
    sem_bf16_mac_lanes(out, conf & CONF_ZERO_ACC1 ? NULL : acc, x, y, LANES, n,
                       conf & CONF_NEG_MUL ? SIGN : 0);
    return true;
}

#define SHORT_FN(name, n, flips)                                                                   \
    bool name(uint8_t * out, const uint8_t * acc, const uint8_t * x, const uint8_t * y,            \
              uint32_t conf) {                                                                     \
        return mac_short(out, acc, x, y, n, conf ^ (flips));                                       \
    }

SHORT_FN(sem_mac_bf16_x, 32, 0)
SHORT_FN(sem_mac_bf16_y, 64, 0)
SHORT_FN(sem_msc_bf16_x, 32, CONF_NEG_MUL)
SHORT_FN(sem_msc_bf16_y, 64, CONF_NEG_MUL)

// ---- products of blocks ----

// Eight rows of eight mantissas times the transpose of the same, as fp32; false with a block of
// infinities or NaN, whose products nobody has published. *tiny as element_products() returns it.
static bool block_products(uint8_t * out, const uint8_t * s1, const uint8_t * s2, uint32_t flip,
                           uint64_t * tiny) {
    int32_t y[8][8]; // by element, then by column
    for (int j = 0; j < 8; j++) {
        for (int k = 0; k < 8; k++) {
            y[k][j] = (int8_t) s2[8 * j + k];
        }
        if (s1[64 + j] == 255 || s2[64 + j] == 255) {
            return false;
        }
    }
    for (int i = 0; i < 8; i++) {
        int32_t sum[8] = {0};
        uint32_t line[8];
        for (int k = 0; k < 8; k++) {
            int32_t v = (int8_t) s1[8 * i + k];
            for (int j = 0; j < 8; j++) {
                sum[j] += v * y[k][j];
            }
        }
        for (int j = 0; j < 8; j++) {
            float f = (float) sum[j];
            uint32_t u;
            memcpy(&u, &f, 4);
            int e = (int) (u >> 23 & 255) + s1[64 + i] + s2[64 + j] - 266;
            uint32_t v = e >= 255 ? 0x7f800000 : e <= 0 ? 0 : (u & 0x7fffff) | (uint32_t) e << 23;
            line[j] = sum[j] == 0 ? 0 : (v | (u & SIGN)) ^ flip;
            *tiny |= (uint64_t) (line[j] == SIGN) << (8 * i + j);
        }
        memcpy(out + 32 * i, line, sizeof line);
    }
    return true;
}

static bool mac_blocks(struct core_exec * x, const uint8_t * acc1, const uint8_t * acc2,
                       const uint8_t * s1, const uint8_t * s2, uint32_t conf) {
    _Alignas(16) uint8_t product[DM_BYTES], sum[DM_BYTES];
    uint64_t tiny = 0;
    if ((conf & ~(uint32_t) CONF_OTHERS) != CONF_BLOCK ||
        !block_products(product, s1, s2, conf & CONF_NEG_MUL ? SIGN : 0, &tiny)) {
        return false;
    }
    if (acc2) { // one sum of three terms on silicon, perhaps
        add(x, sum, acc1, acc2, conf);
        add(x, x->out[0], sum, product, 0);
    } else {
        add(x, x->out[0], acc1, product, conf & ~(uint32_t) CONF_NEG_ACC2);
    }
    keep_signs(x->out[0], tiny);
    return true;
}

// ---- records: operands in the order dst, [acc1], [acc2], s1, s2, conf ----

#define CONF(i) load_u32(x->in[i])

#define MUL_FN(name, flips)                                                                        \
    static bool name##_x(struct core_exec * x) {                                                   \
        return mac_elements(x, NULL, NULL, x->in[1], x->in[2], 32, CONF(3) ^ (flips));             \
    }                                                                                              \
    static bool name##_y(struct core_exec * x) {                                                   \
        return mac_elements(x, NULL, NULL, x->in[1], x->in[2], 64, CONF(3) ^ (flips));             \
    }                                                                                              \
    static bool name##_ex(struct core_exec * x) {                                                  \
        return mac_blocks(x, NULL, NULL, x->in[1], x->in[2], CONF(3) ^ (flips));                   \
    }
#define MAC_FN(name, flips)                                                                        \
    static bool name##_x(struct core_exec * x) {                                                   \
        return mac_elements(x, x->in[1], NULL, x->in[2], x->in[3], 32, CONF(4) ^ (flips));         \
    }                                                                                              \
    static bool name##_y(struct core_exec * x) {                                                   \
        return mac_elements(x, x->in[1], NULL, x->in[2], x->in[3], 64, CONF(4) ^ (flips));         \
    }                                                                                              \
    static bool name##_ex(struct core_exec * x) {                                                  \
        return mac_blocks(x, x->in[1], NULL, x->in[2], x->in[3], CONF(4) ^ (flips));               \
    }
// dst is acc1 as well
#define ADDMAC_FN(name, flips)                                                                     \
    static bool name##_x(struct core_exec * x) {                                                   \
        return mac_elements(x, x->in[0], x->in[1], x->in[2], x->in[3], 32, CONF(4) ^ (flips));     \
    }                                                                                              \
    static bool name##_y(struct core_exec * x) {                                                   \
        return mac_elements(x, x->in[0], x->in[1], x->in[2], x->in[3], 64, CONF(4) ^ (flips));     \
    }                                                                                              \
    static bool name##_ex(struct core_exec * x) {                                                  \
        return mac_blocks(x, x->in[0], x->in[1], x->in[2], x->in[3], CONF(4) ^ (flips));           \
    }

MUL_FN(vmul_f, 0)
MUL_FN(vnegmul_f, CONF_NEG_MUL)
MAC_FN(vmac_f, 0)
MAC_FN(vmsc_f, CONF_NEG_MUL)
ADDMAC_FN(vaddmac_f, 0)
ADDMAC_FN(vaddmsc_f, CONF_NEG_MUL)

// The configuration of vadd.f is that of the products; of its shift nobody knows.
static bool sum(struct core_exec * x, const uint8_t * a, const uint8_t * b, uint32_t conf) {
    if ((conf & ~(uint32_t) CONF_OTHERS) != CONF_ELEMENT) {
        return false;
    }
    add(x, x->out[0], a, b, conf);
    return true;
}

static bool vadd_f(struct core_exec * x) {
    return sum(x, x->in[1], x->in[2], CONF(3));
}

static bool vsub_f(struct core_exec * x) {
    return sum(x, x->in[1], x->in[2], CONF(3) ^ CONF_NEG_ACC2);
}

static bool vneg_f(struct core_exec * x) {
    return sum(x, x->in[1], NULL, CONF(2) ^ CONF_NEG_ACC1);
}

// ---- special functions ----

// Linear in the fraction: 2^floor(q) * (1 + q - floor(q)), where q is the argument cut to
// multiples of 1/128; from 2 on it is first cut to bf16 and then taken at the end of that step.
// Measured on [-40, 10]; outside of it the law is taken on.
static bool vexp2(struct core_exec * x) {
    for (int i = 0; i < 16; i++) {
        uint32_t u = load_u32(x->in[1] + 4 * i);
        float f;
        memcpy(&f, &u, 4);
        if (isnan(f)) {
            return false;
        }
        double v = f < -1e4f ? -1e4 : f > 1e4f ? 1e4 : f, q = floor(v * 128) / 128;
        if (fabs(v) >= 2) {
            double unit = ldexp(1, ilogb(v) - 7);
            q = floor(v / unit) * unit + unit - 1.0 / 128;
        }
        int e = (int) floor(q) + 127, fraction = (int) ((q - floor(q)) * 128);
        uint16_t r = (uint16_t) (e <= 0 ? 0 : e >= 255 ? 0x7f80 : e << 7 | fraction);
        memcpy(x->out[0] + 2 * i, &r, 2);
    }
    return true;
}

// The bits of vtanh are not published. What AMD has measured: the argument itself up to 0.5, from
// there a ramp that meets tanh by 0.8, exactly 1 from 3 on, and between 0.8 and 3 tanh within 4.5
// units of bf16. Here it is tanh there, to the nearest.
static double tanh_of(double v) {
    double a = fabs(v), t = tanh(a);
    t = a <= 0.5 ? a : a < 0.8 ? t + (0.5 - tanh(0.5)) * (0.8 - a) / (0.8 - 0.5) : a >= 3.0 ? 1 : t;
    return v < 0 ? -t : t;
}

static bool vtanh(struct core_exec * x) {
    uint8_t made[64];
    for (int i = 0; i < 16; i++) {
        float f;
        memcpy(&f, x->in[1] + 4 * i, 4);
        if (isnan(f)) {
            return false;
        }
        f = (float) tanh_of(f);
        memcpy(made + 4 * i, &f, 4);
    }
    sem_fp32_to_bf16(x->out[0], made, 16, SEM_RND_CONV_EVEN);
    return true;
}

// The reciprocal and the roots: their bits are not known, AMD's tests assume 2^-9. Here they are
// as good as fp32 can be.
static bool special(struct core_exec * x, double (*fn)(double)) {
    float f;
    memcpy(&f, x->in[1], 4);
    f = (float) fn(f);
    memcpy(x->out[0], &f, 4);
    return true;
}

static double reciprocal(double v) {
    return 1 / v;
}

static double reciprocal_root(double v) {
    return 1 / sqrt(v);
}

static bool inv(struct core_exec * x) {
    return special(x, reciprocal);
}

static bool root(struct core_exec * x) {
    return special(x, sqrt);
}

static bool invsqrt(struct core_exec * x) {
    return special(x, reciprocal_root);
}

#define BF(NAME, group, name)                                                                      \
    {NAME "_" group "_bf_vmul_bf_core_X_X", name##_x}, {                                           \
        NAME "_" group "_bf_vmul_bf_core_Y_Y", name##_y                                            \
    }

static const struct core_semantic rows[] = {
    BF("VMUL_f", "vmul", vmul_f),
    BF("VNEGMUL_f", "vmul", vnegmul_f),
    BF("VMAC_f", "vmac", vmac_f),
    BF("VMSC_f", "vmac", vmsc_f),
    {"VADDMAC_f_vaddmac_bf_vmac_cm2_add_reg_vmul_bf_core_X_X", vaddmac_f_x},
    {"VADDMAC_f_vaddmac_bf_vmac_cm2_add_reg_vmul_bf_core_Y_Y", vaddmac_f_y},
    {"VADDMSC_f_vaddmac_bf_vmac_cm2_add_reg_vmul_bf_core_X_X", vaddmsc_f_x},
    {"VADDMSC_f_vaddmac_bf_vmac_cm2_add_reg_vmul_bf_core_Y_Y", vaddmsc_f_y},
    {"VMUL_f_vmul_bfp_vmul_bfp_core_EX_EX", vmul_f_ex},
    {"VNEGMUL_f_vmul_bfp_vmul_bfp_core_EX_EX", vnegmul_f_ex},
    {"VMAC_f_vmac_bfp_vmul_bfp_core_EX_EX", vmac_f_ex},
    {"VMSC_f_vmac_bfp_vmul_bfp_core_EX_EX", vmsc_f_ex},
    {"VADDMAC_f_vaddmac_bfp_vmac_cm2_add_reg_vmul_bfp_core_EX_EX", vaddmac_f_ex},
    {"VADDMSC_f_vaddmac_bfp_vmac_cm2_add_reg_vmul_bfp_core_EX_EX", vaddmsc_f_ex},
    {"VADD_f_vmac_cm2_add_reg", vadd_f},
    {"VSUB_f_vmac_cm2_add_reg", vsub_f},
    {"VNEG_f", vneg_f},
    {"VEXP2", vexp2},
    {"VTANH", vtanh},
    {"INV_mRx", inv},
    {"SQRT_mRx", root},
    {"INVSQRT_mRx", invsqrt},
};

const struct sem_family sem_floats_aie2p = SEM_FAMILY(rows);
