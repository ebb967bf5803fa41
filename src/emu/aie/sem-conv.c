// sem-conv: between lane widths and number formats: ups (lanes up into an accumulator), srs (shift,
// round, saturate down), pack / unpack, fp32 <-> bf16, bf16 -> int32. The pure functions serve both
// the register forms below and the fused load / store forms of the core.
//
// Kept true: rounding is decided in one place from (half bit, sticky bits, odd, sign), so that all ten
// crRnd modes mean the same in every conversion.
#include "emu/aie/sem.h"

#include <string.h>

// ---- lanes ----

static int64_t lane_get(const uint8_t * p, int i, int bits_per_lane, bool is_signed) {
    switch (bits_per_lane) {
    case 4: {
        int v = (p[i >> 1] >> ((i & 1) * 4)) & 15;
        return is_signed && v > 7 ? v - 16 : v;
    }
    case 8:
        return is_signed ? (int64_t) (int8_t) p[i] : p[i];
    case 16: {
        uint16_t v;
        memcpy(&v, p + 2 * i, 2);
        return is_signed ? (int64_t) (int16_t) v : v;
    }
    case 32: {
        uint32_t v;
        memcpy(&v, p + 4 * (size_t) i, 4);
        return is_signed ? (int64_t) (int32_t) v : v;
    }
    default: {
        int64_t v;
        memcpy(&v, p + 8 * (size_t) i, 8);
        return v;
    }
    }
}

static void lane_put(uint8_t * p, int i, int bits_per_lane, int64_t v) {
    switch (bits_per_lane) {
    case 4:
        if (i & 1) {
            p[i >> 1] = (uint8_t) ((p[i >> 1] & 15) | (v & 15) << 4);
        } else {
            p[i >> 1] = (uint8_t) (v & 15);
        }
        break;
    case 8:
        p[i] = (uint8_t) v;
        break;
    case 16: {
        uint16_t h = (uint16_t) v;
        memcpy(p + 2 * i, &h, 2);
        break;
    }
    case 32: {
        uint32_t w = (uint32_t) v;
        memcpy(p + 4 * (size_t) i, &w, 4);
        break;
    }
    default:
        memcpy(p + 8 * (size_t) i, &v, 8);
        break;
    }
}

// ---- rounding and saturation ----

// Whether floor(v) must be raised by one; `half` is the first dropped bit, `sticky` any lower one.
static bool round_up(uint32_t rnd, bool half, bool sticky, bool odd, bool negative) {
    switch (rnd & 15) {
    case SEM_RND_CEIL:
        return half || sticky;
    case SEM_RND_SYM_FLOOR:
        return negative && (half || sticky);
    case SEM_RND_SYM_CEIL:
        return !negative && (half || sticky);
    case SEM_RND_NEG_INF:
        return half && sticky;
    case SEM_RND_POS_INF:
        return half;
    case SEM_RND_SYM_ZERO:
        return half && (sticky || negative);
    case SEM_RND_SYM_INF:
        return half && (sticky || !negative);
    case SEM_RND_CONV_EVEN:
        return half && (sticky || odd);
    case SEM_RND_CONV_ODD:
        return half && (sticky || !odd);
    default: // floor; 4-7 and 14-15 are reserved
        return false;
    }
}

// crRnd for a sign-magnitude number: what raises the value of a negative lowers its magnitude.
static uint32_t magnitude_rnd(uint32_t rnd, bool negative) {
    rnd &= 15;
    bool directed = rnd <= SEM_RND_CEIL || rnd == SEM_RND_NEG_INF || rnd == SEM_RND_POS_INF;
    return negative && directed ? rnd ^ 1 : rnd;
}

static int64_t shift_round(int64_t v, uint32_t shift, uint32_t rnd) {
    if (shift == 0) {
        return v;
    }
    int64_t q = v >> shift;
    bool half = (v >> (shift - 1)) & 1;
    bool sticky = (v & (((int64_t) 1 << (shift - 1)) - 1)) != 0;
    return q + round_up(rnd, half, sticky, q & 1, v < 0);
}

// Fits v into n bits as crSat says; *overflow is set when it had to change or wrap.
static int64_t saturate(int64_t v, int n, bool is_signed, uint32_t sat, int * overflow) {
    int64_t max = is_signed ? ((int64_t) 1 << (n - 1)) - 1 : ((int64_t) 1 << n) - 1;
    int64_t min = is_signed ? ((sat & 3) == SEM_SAT_SYM ? -max : -max - 1) : 0;
    if (v >= min && v <= max) {
        return v;
    }
    *overflow = SEM_OVERFLOW;
    return sat & 1 ? (v < min ? min : max) : v;
}

// ---- pure functions ----

int sem_ups(uint8_t * acc, const uint8_t * src, int lanes, int src_bits, int acc_bits, bool is_signed,
            uint32_t shift, uint32_t sat) {
    int overflow = 0;
    if (shift > 63) {
        return -1;
    }
    for (int i = 0; i < lanes; i++) {
        int64_t v = lane_get(src, i, src_bits, is_signed);
        int64_t up = (int64_t) ((uint64_t) v << shift);
        if (acc_bits == 32) {
            // Only a shift beyond the spare bits can leave the lane; saturating it is not seen on
            // silicon.
            if (shift > 31 - (uint32_t) src_bits) {
                int64_t wide = shift >= 32 ? (v > 0 ? INT64_MAX : v < 0 ? INT64_MIN : 0) : up;
                int64_t fit = saturate(wide, 32, true, sat, &overflow);
                up = sat & 1 ? fit : shift >= 32 ? 0 : up;
            }
        } else if ((up >> shift) != v) {
            overflow = SEM_OVERFLOW;
            if (sat & 1) {
                up = v > 0 ? INT64_MAX : INT64_MIN + ((sat & 3) == SEM_SAT_SYM);
            }
        }
        lane_put(acc, i, acc_bits, up);
    }
    return overflow;
}

int sem_srs(uint8_t * dst, const uint8_t * acc, int lanes, int acc_bits, int dst_bits, bool is_signed,
            uint32_t shift, uint32_t sat, uint32_t rnd) {
    int overflow = 0;
    if (shift > 63) {
        return -1;
    }
    for (int i = 0; i < lanes; i++) {
        int64_t v = shift_round(lane_get(acc, i, acc_bits, true), shift, rnd);
        lane_put(dst, i, dst_bits, saturate(v, dst_bits, is_signed, sat, &overflow));
    }
    return overflow;
}

int sem_pack(uint8_t * dst, const uint8_t * src, int lanes, int src_bits, bool is_signed, uint32_t sat) {
    int overflow = 0;
    for (int i = 0; i < lanes; i++) {
        int64_t v = lane_get(src, i, src_bits, is_signed);
        lane_put(dst, i, src_bits / 2, saturate(v, src_bits / 2, is_signed, sat, &overflow));
    }
    return overflow;
}

void sem_unpack(uint8_t * dst, const uint8_t * src, int lanes, int src_bits, bool is_signed) {
    for (int i = 0; i < lanes; i++) {
        lane_put(dst, i, src_bits * 2, lane_get(src, i, src_bits, is_signed));
    }
}

int sem_fp32_to_bf16(uint8_t * dst, const uint8_t * src, int lanes, uint32_t rnd) {
    uint32_t v[16];
    int flags = 0;
    for (int done = 0; done < lanes; done += 16) {
        int n = lanes - done < 16 ? lanes - done : 16;
        memcpy(v, src + 4 * done, (size_t) n * 4);
        for (int i = 0; i < n; i++) {
            uint32_t r = v[i] >> 16;
            if ((v[i] & 0x7f800000) == 0x7f800000) {
                r |= (v[i] & 0x7fffff) && !(r & 127); // a NaN must not become infinity
            } else {
                r += round_up(magnitude_rnd(rnd, v[i] >> 31), v[i] >> 15 & 1, (v[i] & 0x7fff) != 0,
                              r & 1, false);
            }
            dst[2 * (done + i)] = (uint8_t) r;
            dst[2 * (done + i) + 1] = (uint8_t) (r >> 8);
        }
    }
    return flags;
}

void sem_bf16_to_fp32(uint8_t * dst, const uint8_t * src, int lanes) {
    for (int i = 0; i < lanes; i++) {
        dst[4 * i] = 0;
        dst[4 * i + 1] = 0;
        dst[4 * i + 2] = src[2 * i];
        dst[4 * i + 3] = src[2 * i + 1];
    }
}

int sem_floor(uint8_t * dst, const uint8_t * src, int lanes, int32_t shift) {
    int flags = 0;
    for (int i = 0; i < lanes; i++) {
        uint32_t b = (uint32_t) lane_get(src, i, 16, false);
        int e = (int) (b >> 7 & 255);
        int64_t m = (int64_t) (b & 127) | (e ? 128 : 0);
        int64_t v;
        int64_t exp = (e ? e : 1) - 134 + (int64_t) shift;
        if (b >> 15) {
            m = -m;
        }
        if (exp >= 40) {
            v = m > 0 ? INT64_MAX : m < 0 ? INT64_MIN : 0;
        } else if (exp >= 0) {
            v = m * ((int64_t) 1 << exp);
        } else {
            v = m >> (exp < -63 ? 63 : -exp);
        }
        lane_put(dst, i, 32, saturate(v, 32, true, SEM_SAT_FULL, &flags));
    }
    return flags;
}

// ---- register forms ----

struct conv_form {
    uint8_t lanes, from, to; // bits of source and destination lanes
};

static bool vups(struct core_exec * x, struct conv_form f, bool is_signed) {
    int flags = sem_ups(x->out[0], x->in[1], f.lanes, f.from, f.to, is_signed, load_u32(x->in[2]),
                        sem_control(x, AIE_CR_SAT));
    sem_status(x, flags > 0);
    return flags >= 0;
}

static bool vsrs(struct core_exec * x, struct conv_form f, bool is_signed) {
    int flags = sem_srs(x->out[0], x->in[1], f.lanes, f.from, f.to, is_signed, load_u32(x->in[2]),
                        sem_control(x, AIE_CR_SAT), sem_control(x, AIE_CR_RND));
    sem_status(x, flags > 0);
    return flags >= 0;
}

static bool vpack(struct core_exec * x, struct conv_form f, bool is_signed) {
    sem_pack(x->out[0], x->in[1], f.lanes, f.from, is_signed, sem_control(x, AIE_CR_SAT));
    return true;
}

static bool vunpack(struct core_exec * x, struct conv_form f, bool is_signed) {
    sem_unpack(x->out[0], x->in[1], f.lanes, f.from, is_signed);
    return true;
}

// An s form and a d form; the d form takes its sign from a control register.
#define FORM(kind, tail, sign, ...)                                                                        \
    static bool kind##_s_##tail(struct core_exec * x) {                                                    \
        return kind(x, (struct conv_form) { __VA_ARGS__ }, true);                                          \
    }                                                                                                      \
    static bool kind##_d_##tail(struct core_exec * x) {                                                    \
        return kind(x, (struct conv_form) { __VA_ARGS__ }, sem_control(x, sign) & 1);                      \
    }

FORM(vups, w_32_16, AIE_CR_UPS_SIGN, 16, 16, 32)
FORM(vups, x_32_16, AIE_CR_UPS_SIGN, 32, 16, 32)
FORM(vups, w_32_8, AIE_CR_UPS_SIGN, 32, 8, 32)
FORM(vups, w_64_32, AIE_CR_UPS_SIGN, 8, 32, 64)
FORM(vups, x_64_32, AIE_CR_UPS_SIGN, 16, 32, 64)
FORM(vups, w_64_16, AIE_CR_UPS_SIGN, 16, 16, 64)
FORM(vsrs, w_16_32, AIE_CR_SRS_SIGN, 16, 32, 16)
FORM(vsrs, x_16_32, AIE_CR_SRS_SIGN, 32, 32, 16)
FORM(vsrs, w_8_32, AIE_CR_SRS_SIGN, 32, 32, 8)
FORM(vsrs, w_32_64, AIE_CR_SRS_SIGN, 8, 64, 32)
FORM(vsrs, x_32_64, AIE_CR_SRS_SIGN, 16, 64, 32)
FORM(vsrs, w_16_64, AIE_CR_SRS_SIGN, 16, 64, 16)
FORM(vpack, 8_16, AIE_CR_PACK_SIGN, 32, 16, 8)
FORM(vpack, 4_8, AIE_CR_PACK_SIGN, 64, 8, 4)
FORM(vunpack, 16_8, AIE_CR_UNPACK_SIGN, 32, 8, 16)
FORM(vunpack, 8_4, AIE_CR_UNPACK_SIGN, 64, 4, 8)

static bool vconv_bf16_fp32(struct core_exec * x) {
    sem_status(x, (uint32_t) sem_fp32_to_bf16(x->out[0], x->in[1], 16, sem_control(x, AIE_CR_RND)));
    return true;
}

static bool vconv_fp32_bf16(struct core_exec * x) {
    sem_bf16_to_fp32(x->out[0], x->in[1], 16);
    return true;
}

static bool vfloor(struct core_exec * x) {
    sem_status(x, (uint32_t) sem_floor(x->out[0], x->in[1], 16, (int32_t) load_u32(x->in[2])));
    return true;
}

static const struct core_semantic rows[] = {
    { "VUPS_S32_S16_mv_ups_w2b", vups_s_w_32_16 },
    { "VUPS_S32_D16_mv_ups_w2b", vups_d_w_32_16 },
    { "VUPS_S32_S16_mv_ups_x2c", vups_s_x_32_16 },
    { "VUPS_S32_D16_mv_ups_x2c", vups_d_x_32_16 },
    { "VUPS_S32_S8_mv_ups_w2c", vups_s_w_32_8 },
    { "VUPS_S32_D8_mv_ups_w2c", vups_d_w_32_8 },
    { "VUPS_S64_S32_mv_ups_w2b", vups_s_w_64_32 },
    { "VUPS_S64_D32_mv_ups_w2b", vups_d_w_64_32 },
    { "VUPS_S64_S32_mv_ups_x2c", vups_s_x_64_32 },
    { "VUPS_S64_D32_mv_ups_x2c", vups_d_x_64_32 },
    { "VUPS_S64_S16_mv_ups_w2c", vups_s_w_64_16 },
    { "VUPS_S64_D16_mv_ups_w2c", vups_d_w_64_16 },
    { "VSRS_S16_S32_mv_w_srs", vsrs_s_w_16_32 },
    { "VSRS_D16_S32_mv_w_srs", vsrs_d_w_16_32 },
    { "VSRS_S16_S32_mv_x_srs", vsrs_s_x_16_32 },
    { "VSRS_D16_S32_mv_x_srs", vsrs_d_x_16_32 },
    { "VSRS_S8_S32_mv_w_srs", vsrs_s_w_8_32 },
    { "VSRS_D8_S32_mv_w_srs", vsrs_d_w_8_32 },
    { "VSRS_S32_S64_mv_w_srs", vsrs_s_w_32_64 },
    { "VSRS_D32_S64_mv_w_srs", vsrs_d_w_32_64 },
    { "VSRS_S32_S64_mv_x_srs", vsrs_s_x_32_64 },
    { "VSRS_D32_S64_mv_x_srs", vsrs_d_x_32_64 },
    { "VSRS_S16_S64_mv_w_srs", vsrs_s_w_16_64 },
    { "VSRS_D16_S64_mv_w_srs", vsrs_d_w_16_64 },
    { "VSRSM_S16_S32", vsrs_s_w_16_32 },
    { "VSRSM_D16_S32", vsrs_d_w_16_32 },
    { "VSRSM_S32_S64", vsrs_s_w_32_64 },
    { "VSRSM_D32_S64", vsrs_d_w_32_64 },
    { "VPACK_S8_S16", vpack_s_8_16 },
    { "VPACK_D8_D16", vpack_d_8_16 },
    { "VPACK_S4_S8", vpack_s_4_8 },
    { "VPACK_D4_D8", vpack_d_4_8 },
    { "VUNPACK_S16_S8", vunpack_s_16_8 },
    { "VUNPACK_D16_D8", vunpack_d_16_8 },
    { "VUNPACK_S8_S4", vunpack_s_8_4 },
    { "VUNPACK_D8_D4", vunpack_d_8_4 },
    { "VCONV_BF16_FP32", vconv_bf16_fp32 },
    { "VCONV_FP32_BF16", vconv_fp32_bf16 },
    { "VFLOOR_S32_BF16_mFl2FxSrc_W", vfloor },
    { "VFLOOR_S32_BF16_mFl2FxSrc_AM", vfloor },
};

const struct sem_family sem_converts = SEM_FAMILY(rows);
