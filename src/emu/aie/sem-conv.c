// sem-conv: between lane widths and number formats: ups (lanes up into an accumulator), srs (shift,
// round, saturate down), pack / unpack, fp32 <-> bf16, bf16 -> int32. The pure functions serve both
// the register forms below and the fused load / store forms of the core.
//
// Kept true: what a crRnd mode does is written down once (bias_of), so that all ten modes mean the
// same in every conversion.
#include "emu/aie/sem.h"

#include <string.h>

// ---- lanes ----

static inline int64_t lane_get(const uint8_t * p, int i, int bits_per_lane, bool is_signed) {
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

static inline void lane_put(uint8_t * p, int i, int bits_per_lane, int64_t v) {
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

// A number is rounded by adding a bias to the bits that will be dropped and dropping them. The bias
// is value + (negative ? negative : 0) + (lowest kept bit ? odd : 0), so that loops need no
// branches.
struct bias {
    uint64_t value, negative, odd; // added modulo 2^64
};

static struct bias bias_of(uint32_t rnd, uint32_t dropped) {
    if (dropped == 0) {
        return (struct bias){0, 0, 0};
    }
    uint64_t half = 1ull << (dropped - 1), all = 2 * half - 1;
    switch (rnd & 15) {
    case SEM_RND_CEIL:
        return (struct bias){all, 0, 0};
    case SEM_RND_SYM_FLOOR:
        return (struct bias){0, all, 0};
    case SEM_RND_SYM_CEIL:
        return (struct bias){all, -all, 0};
    case SEM_RND_NEG_INF:
        return (struct bias){half - 1, 0, 0};
    case SEM_RND_POS_INF:
        return (struct bias){half, 0, 0};
    case SEM_RND_SYM_ZERO:
        return (struct bias){half - 1, 1, 0};
    case SEM_RND_SYM_INF:
        return (struct bias){half, -1ull, 0};
    case SEM_RND_CONV_EVEN:
        return (struct bias){half - 1, 0, 1};
    case SEM_RND_CONV_ODD:
        return (struct bias){half, 0, -1ull};
    default: // floor; 4-7 and 14-15 are reserved
        return (struct bias){0, 0, 0};
    }
}

// v >> shift. Only dropped bits meet the bias: a sum with all of v could leave 64 bits.
static inline int64_t shift_round(int64_t v, uint32_t shift, struct bias bias) {
    int64_t q = v >> shift;
    uint64_t rest = (uint64_t) v & ((1ull << shift) - 1);
    rest += bias.value + ((uint64_t) (v >> 63) & bias.negative) + ((uint64_t) - (q & 1) & bias.odd);
    return q + (int64_t) (rest >> shift);
}

// Fits v into n bits as crSat says; *overflow is set when it had to change or wrap.
static inline int64_t saturate(int64_t v, int n, bool is_signed, uint32_t sat, int * overflow) {
    int64_t max = is_signed ? ((int64_t) 1 << (n - 1)) - 1 : ((int64_t) 1 << n) - 1;
    int64_t min = is_signed ? ((sat & 3) == SEM_SAT_SYM ? -max : -max - 1) : 0;
    int64_t fit = v < min ? min : v > max ? max : v;
    *overflow |= fit != v;
    return sat & 1 ? fit : v;
}

// ---- pure functions ----

static inline int ups_lanes(uint8_t * acc, const uint8_t * src, int lanes, int src_bits,
                            int acc_bits, bool is_signed, uint32_t shift, uint32_t sat) {
    int overflow = 0;
    if (shift < (uint32_t) (acc_bits - src_bits)) { // nothing can be lost
        for (int i = 0; i < lanes; i++) {
            lane_put(acc, i, acc_bits,
                     (int64_t) ((uint64_t) lane_get(src, i, src_bits, is_signed) << shift));
        }
        return 0;
    }
    for (int i = 0; i < lanes; i++) { // not seen on silicon
        int64_t v = lane_get(src, i, src_bits, is_signed);
        int64_t up = (int64_t) ((uint64_t) v << shift),
                max = acc_bits == 32 ? INT32_MAX : INT64_MAX;
        if ((up >> shift) != v || up > max || up < -max - 1) {
            overflow = SEM_OVERFLOW;
            if (sat & 1) {
                up = v > 0 ? max : (sat & 3) == SEM_SAT_SYM ? -max : -max - 1;
            }
        }
        lane_put(acc, i, acc_bits, up);
    }
    return overflow;
}

static inline int srs_lanes(uint8_t * dst, const uint8_t * acc, int lanes, int acc_bits,
                            int dst_bits, bool is_signed, uint32_t shift, uint32_t sat,
                            uint32_t rnd) {
    struct bias bias = bias_of(rnd, shift);
    int overflow = 0;
    for (int i = 0; i < lanes; i++) {
        int64_t v = shift_round(lane_get(acc, i, acc_bits, true), shift, bias);
        lane_put(dst, i, dst_bits, saturate(v, dst_bits, is_signed, sat, &overflow));
    }
    return overflow;
}

// 60 to 63 are -4 to -1: lanes go up. AMD's guide calls all but -1 unsafe, where a lane does not
// fit and is to be saturated to anything but 0: nobody says what comes then, and -1 says so.
static int srs_lanes_up(uint8_t * dst, const uint8_t * acc, int lanes, int acc_bits, int dst_bits,
                        bool is_signed, uint32_t up, uint32_t sat) {
    int overflow = 0;
    for (int i = 0; i < lanes; i++) {
        int64_t v = lane_get(acc, i, acc_bits, true), most = INT64_MAX >> up;
        int64_t fit = v > most ? most : v < -most - 1 ? -most - 1 : v; // what 64 bits can hold
        int64_t wide = (int64_t) ((uint64_t) fit << up);
        int over = fit != v;
        int64_t r = saturate(wide, dst_bits, is_signed, sat, &over);
        if (over && (sat & 1) && up > 1 && (is_signed || v > 0)) {
            return -1;
        }
        r = over && !(sat & 1) ? (int64_t) ((uint64_t) v << up) : r;
        overflow |= over;
        lane_put(dst, i, dst_bits, r);
    }
    return overflow;
}

// The widths become constants here, for the compiler to make a loop of its own for each.
int sem_ups(uint8_t * acc, const uint8_t * src, int lanes, int src_bits, int acc_bits,
            bool is_signed, uint32_t shift, uint32_t sat) {
    if (shift > 63) {
        return -1;
    }
    switch (acc_bits << 8 | src_bits) {
    case 32 << 8 | 16:
        return ups_lanes(acc, src, lanes, 16, 32, is_signed, shift, sat);
    case 32 << 8 | 8:
        return ups_lanes(acc, src, lanes, 8, 32, is_signed, shift, sat);
    case 64 << 8 | 32:
        return ups_lanes(acc, src, lanes, 32, 64, is_signed, shift, sat);
    case 64 << 8 | 16:
        return ups_lanes(acc, src, lanes, 16, 64, is_signed, shift, sat);
    default:
        return -1;
    }
}

int sem_srs(uint8_t * dst, const uint8_t * acc, int lanes, int acc_bits, int dst_bits,
            bool is_signed, uint32_t shift, uint32_t sat, uint32_t rnd) {
    if (shift > 63 && shift < (uint32_t) -4) {
        return -1;
    }
    if (shift >= 60) {
        return srs_lanes_up(dst, acc, lanes, acc_bits, dst_bits, is_signed, (0u - shift) & 63, sat);
    }
    switch (acc_bits << 8 | dst_bits) {
    case 32 << 8 | 16:
        return srs_lanes(dst, acc, lanes, 32, 16, is_signed, shift, sat, rnd);
    case 32 << 8 | 8:
        return srs_lanes(dst, acc, lanes, 32, 8, is_signed, shift, sat, rnd);
    case 64 << 8 | 32:
        return srs_lanes(dst, acc, lanes, 64, 32, is_signed, shift, sat, rnd);
    case 64 << 8 | 16:
        return srs_lanes(dst, acc, lanes, 64, 16, is_signed, shift, sat, rnd);
    default:
        return -1;
    }
}

int sem_pack(uint8_t * dst, const uint8_t * src, int lanes, int src_bits, bool is_signed,
             uint32_t sat) {
    int overflow = 0;
    for (int i = 0; i < lanes; i++) {
        int64_t v = lane_get(src, i, src_bits, is_signed);
        lane_put(dst, i, src_bits / 2, saturate(v, src_bits / 2, is_signed, sat, &overflow));
    }
    return overflow;
}

// Sixteen bytes, whose halves become bytes, or which become 16 bits.
typedef uint8_t v16u __attribute__((vector_size(16)));

static inline void put_in_turn(uint8_t * dst, v16u first, v16u second) {
    v16u low = __builtin_shufflevector(first, second, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6,
                                       22, 7, 23);
    v16u high = __builtin_shufflevector(first, second, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                        14, 30, 15, 31);
    memcpy(dst, &low, sizeof low);
    memcpy(dst + sizeof low, &high, sizeof high);
}

static void unpack_16(uint8_t * dst, const uint8_t * src, int src_bits, bool is_signed) {
    v16u v;
    memcpy(&v, src, sizeof v);
    if (src_bits == 4) {
        uint8_t sign = is_signed ? 8 : 0;
        put_in_turn(dst, ((v & 15) ^ sign) - sign, ((v >> 4) ^ sign) - sign);
    } else {
        put_in_turn(dst, v, is_signed ? (v16u) (v >= 128) : (v16u){0});
    }
}

void sem_unpack(uint8_t * dst, const uint8_t * src, int lanes, int src_bits, bool is_signed) {
    int bytes = lanes * src_bits / 8;
    if (src_bits <= 8 && bytes % 16 == 0 && bytes <= 64) { // what programs unpack most
        uint8_t from[64];
        memcpy(from, src, (size_t) bytes);
        for (int i = 0; i < bytes; i += 16) {
            unpack_16(dst + 2 * i, from + i, src_bits, is_signed);
        }
        return;
    }
    for (int i = 0; i < lanes; i++) {
        lane_put(dst, i, src_bits * 2, lane_get(src, i, src_bits, is_signed));
    }
}

// Sign and magnitude: a mode that raises negatives lowers their magnitude, and a symmetric one
// treats both signs alike. The exponent lies above the fraction, so that a carry out of it is
// right.
int sem_fp32_to_bf16(uint8_t * dst, const uint8_t * src, int lanes, uint32_t rnd) {
    rnd &= 15;
    bool directed = rnd <= SEM_RND_CEIL || rnd == SEM_RND_NEG_INF || rnd == SEM_RND_POS_INF;
    struct bias pos = bias_of(rnd, 16), neg = bias_of(directed ? rnd ^ 1 : rnd, 16);
    uint32_t value[2] = {(uint32_t) pos.value, (uint32_t) neg.value}, odd = (uint32_t) pos.odd;
    for (int i = 0; i < lanes; i++) {
        uint32_t v = (uint32_t) lane_get(src, i, 32, false);
        uint32_t up = value[v >> 31] + ((v >> 16 & 1) ? odd : 0);
        uint32_t r = ((v & 0x7fffffff) + up) >> 16 | (v >> 31) << 15;
        uint32_t kept = v >> 16;
        kept |= (v & 0x7fffff) != 0 && (kept & 127) == 0; // a NaN must not become infinity
        lane_put(dst, i, 16, (v & 0x7f800000) == 0x7f800000 ? kept : r);
    }
    return 0;
}

void sem_bf16_to_fp32(uint8_t * dst, const uint8_t * src, int lanes) {
    for (int i = 0; i < lanes; i++) {
        lane_put(dst, i, 32, lane_get(src, i, 16, false) << 16);
    }
}

// Shifts other than 0 are not seen on silicon.
// dst[i] = int32 floor(src[i] * 2^shift), saturated, from bf16 lanes; shift is signed.
static int sem_floor(uint8_t * dst, const uint8_t * src, int lanes, int32_t shift) {
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
#define FORM(kind, tail, sign, ...)                                                                \
    static bool kind##_s_##tail(struct core_exec * x) {                                            \
        return kind(x, (struct conv_form){__VA_ARGS__}, true);                                     \
    }                                                                                              \
    static bool kind##_d_##tail(struct core_exec * x) {                                            \
        return kind(x, (struct conv_form){__VA_ARGS__}, sem_control(x, sign) & 1);                 \
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
    {"VUPS_S32_S16_mv_ups_w2b", vups_s_w_32_16},
    {"VUPS_S32_D16_mv_ups_w2b", vups_d_w_32_16},
    {"VUPS_S32_S16_mv_ups_x2c", vups_s_x_32_16},
    {"VUPS_S32_D16_mv_ups_x2c", vups_d_x_32_16},
    {"VUPS_S32_S8_mv_ups_w2c", vups_s_w_32_8},
    {"VUPS_S32_D8_mv_ups_w2c", vups_d_w_32_8},
    {"VUPS_S64_S32_mv_ups_w2b", vups_s_w_64_32},
    {"VUPS_S64_D32_mv_ups_w2b", vups_d_w_64_32},
    {"VUPS_S64_S32_mv_ups_x2c", vups_s_x_64_32},
    {"VUPS_S64_D32_mv_ups_x2c", vups_d_x_64_32},
    {"VUPS_S64_S16_mv_ups_w2c", vups_s_w_64_16},
    {"VUPS_S64_D16_mv_ups_w2c", vups_d_w_64_16},
    {"VSRS_S16_S32_mv_w_srs", vsrs_s_w_16_32},
    {"VSRS_D16_S32_mv_w_srs", vsrs_d_w_16_32},
    {"VSRS_S16_S32_mv_x_srs", vsrs_s_x_16_32},
    {"VSRS_D16_S32_mv_x_srs", vsrs_d_x_16_32},
    {"VSRS_S8_S32_mv_w_srs", vsrs_s_w_8_32},
    {"VSRS_D8_S32_mv_w_srs", vsrs_d_w_8_32},
    {"VSRS_S32_S64_mv_w_srs", vsrs_s_w_32_64},
    {"VSRS_D32_S64_mv_w_srs", vsrs_d_w_32_64},
    {"VSRS_S32_S64_mv_x_srs", vsrs_s_x_32_64},
    {"VSRS_D32_S64_mv_x_srs", vsrs_d_x_32_64},
    {"VSRS_S16_S64_mv_w_srs", vsrs_s_w_16_64},
    {"VSRS_D16_S64_mv_w_srs", vsrs_d_w_16_64},
    {"VSRSM_S16_S32", vsrs_s_w_16_32},
    {"VSRSM_D16_S32", vsrs_d_w_16_32},
    {"VSRSM_S32_S64", vsrs_s_w_32_64},
    {"VSRSM_D32_S64", vsrs_d_w_32_64},
    {"VPACK_S8_S16", vpack_s_8_16},
    {"VPACK_D8_D16", vpack_d_8_16},
    {"VPACK_S4_S8", vpack_s_4_8},
    {"VPACK_D4_D8", vpack_d_4_8},
    {"VUNPACK_S16_S8", vunpack_s_16_8},
    {"VUNPACK_D16_D8", vunpack_d_16_8},
    {"VUNPACK_S8_S4", vunpack_s_8_4},
    {"VUNPACK_D8_D4", vunpack_d_8_4},
    {"VCONV_BF16_FP32", vconv_bf16_fp32},
    {"VCONV_FP32_BF16", vconv_fp32_bf16},
    {"VFLOOR_S32_BF16_mFl2FxSrc_W", vfloor},
    {"VFLOOR_S32_BF16_mFl2FxSrc_AM", vfloor},
};

const struct sem_family sem_converts = SEM_FAMILY(rows);

// ---- aie2p: 2x and 4x forms; crUPSMode and crSRSMode say how wide an accumulator's lanes are,
// crPackSize and crUnpackSize how wide the wider lanes ----

// bytes: of the narrow side
static bool ups_form(struct core_exec * x, int ratio, int bytes) {
    struct sem_widths w = sem_widths(x, 0, ratio);
    return vups(
        x,
        (struct conv_form){(uint8_t) (8 * bytes / w.narrow), (uint8_t) w.narrow, (uint8_t) w.wide},
        sem_sign(x));
}

static bool srs_form(struct core_exec * x, int ratio, int bytes) {
    struct sem_widths w = sem_widths(x, 0, ratio);
    return vsrs(
        x,
        (struct conv_form){(uint8_t) (8 * bytes / w.narrow), (uint8_t) w.wide, (uint8_t) w.narrow},
        sem_sign(x));
}

// Size 1 is by the likeness of aie2's two records: nobody has seen it alone.
static bool pack_form(struct core_exec * x, int bytes) {
    struct sem_widths w = sem_widths(x, 0, 2);
    return vpack(x, (struct conv_form){(uint8_t) (8 * bytes / w.narrow), (uint8_t) w.wide, 0},
                 sem_sign(x));
}

static bool unpack_form(struct core_exec * x, int bytes) {
    struct sem_widths w = sem_widths(x, 0, 2);
    return vunpack(x, (struct conv_form){(uint8_t) (8 * bytes / w.narrow), (uint8_t) w.narrow, 0},
                   sem_sign(x));
}

#define FORM_AIE2P(name, call)                                                                     \
    static bool name(struct core_exec * x) {                                                       \
        return call;                                                                               \
    }

FORM_AIE2P(vups_2x_w, ups_form(x, 2, 32))
FORM_AIE2P(vups_2x_x, ups_form(x, 2, 64))
FORM_AIE2P(vups_4x_w, ups_form(x, 4, 32))
FORM_AIE2P(vups_4x_x, ups_form(x, 4, 64))
FORM_AIE2P(vsrs_2x_w, srs_form(x, 2, 32))
FORM_AIE2P(vsrs_2x_x, srs_form(x, 2, 64))
FORM_AIE2P(vsrs_4x_w, srs_form(x, 4, 32))
FORM_AIE2P(vsrs_4x_x, srs_form(x, 4, 64))
FORM_AIE2P(vpack_w, pack_form(x, 32))
FORM_AIE2P(vpack_x, pack_form(x, 64))
FORM_AIE2P(vunpack_w, unpack_form(x, 32))
FORM_AIE2P(vunpack_x, unpack_form(x, 64))

static bool vconv_bf16_fp32_x(struct core_exec * x) {
    sem_status(x, (uint32_t) sem_fp32_to_bf16(x->out[0], x->in[1], 32, sem_control(x, AIE_CR_RND)));
    return true;
}

static bool vconv_fp32_bf16_x(struct core_exec * x) {
    sem_bf16_to_fp32(x->out[0], x->in[1], 32);
    return true;
}

// One fp32 number as a mantissa of the block with this exponent: m * 2^(exponent - 133). 128 bits
// of m are dropped at most; numbers too small to leave a trace leave the sign to the rounding.
static int block_mantissa(uint32_t v, int exponent, uint32_t rnd) {
    int e = (int) (v >> 23 & 255);
    int64_t m = e ? (int64_t) (v & 0x7fffff) | 0x800000 : 0;
    uint32_t shift = (uint32_t) (exponent - e + 17);
    m = v >> 31 ? -m : m;
    if (shift > 40) { // below one unit, whatever it is: the same for every rounding
        m = m > 0 ? 1 : m < 0 ? -1 : 0;
        shift = 40;
    }
    return (int) shift_round(m, shift, bias_of(rnd, shift));
}

int sem_fp32_to_bfp16(uint8_t * dst, const uint8_t * src, uint32_t rnd) {
    for (int block = 0; block < 8; block++) {
        const uint8_t * from = src + 32 * block;
        int exponent = 0, m[8];
        for (int i = 0; i < 8; i++) {
            int e = (int) (load_u32(from + 4 * i) >> 23 & 255);
            exponent = e > exponent ? e : exponent;
        }
        if (exponent == 255) {
            return -1; // infinities and NaN: what becomes of their neighbours is not known
        }
        for (bool fits = false; !fits;) {
            fits = true;
            for (int i = 0; i < 8; i++) {
                m[i] = block_mantissa(load_u32(from + 4 * i), exponent, rnd & 15);
                fits &= m[i] < 128 && m[i] > -128;
            }
            exponent += !fits;
        }
        if (exponent == 255) {
            return -1;
        }
        for (int i = 0; i < 8; i++) {
            dst[8 * block + i] = (uint8_t) m[i];
        }
        dst[64 + block] = (uint8_t) exponent;
    }
    return 0;
}

static bool vconv_bfp16(struct core_exec * x) {
    int flags = sem_fp32_to_bfp16(x->out[0], x->in[1], sem_control(x, AIE_CR_RND));
    return flags >= 0;
}

static const struct core_semantic rows_aie2p[] = {
    {"VUPS_2x_mv_ups_w2b_*", vups_2x_w},
    {"VUPS_2x_mv_ups_x2c_*", vups_2x_x},
    {"VUPS_4x_mv_ups_w2c_*", vups_4x_w},
    {"VUPS_4x_mv_ups_x2d_*", vups_4x_x},
    {"VSRS_2x_mv_w_srs_bm_*", vsrs_2x_w},
    {"VSRS_2x_mv_x_srs_cm_*", vsrs_2x_x},
    {"VSRS_4x_mv_w_srs_cm_*", vsrs_4x_w},
    {"VSRS_4x_mv_x_srs_dm_*", vsrs_4x_x},
    {"VPACK_mv_pack_w_*", vpack_w},
    {"VPACK_mv_pack_x_*", vpack_x},
    {"VUNPACK_mv_unpack_w_*", vunpack_w},
    {"VUNPACK_mv_unpack_x_*", vunpack_x},
    {"VCONV_bf16_fp32_mv_w_srs_bf", vconv_bf16_fp32},
    {"VCONV_bf16_fp32_mv_x_srs_bf", vconv_bf16_fp32_x},
    {"VCONV_fp32_bf16_mv_ups_wbf", vconv_fp32_bf16},
    {"VCONV_fp32_bf16_mv_ups_xbf", vconv_fp32_bf16_x},
    {"VCONV_bfp16ebs8_fp32", vconv_bfp16},
    {"VFLOOR_s32_bf16_mv_float_to_int_w", vfloor},
};

const struct sem_family sem_converts_aie2p = SEM_FAMILY(rows_aie2p);
